//! The requests and what each returns.

use crate::position::Encoding;
use crate::server::Server;
use crate::{World, actions, complete, fold, hover, navigate, rename, symbols, workspace};
use pointsman_frontend::fmt::format;
use serde_json::{Value, json};

/// Why a request has no result.
#[derive(Debug)]
pub struct Failure {
    /// As JSON-RPC and the protocol number them.
    pub code: i32,
    pub message: String,
}

impl Failure {
    pub const PARSE: i32 = -32700;
    pub const INVALID_REQUEST: i32 = -32600;
    pub const UNKNOWN_METHOD: i32 = -32601;
    pub const INVALID_PARAMS: i32 = -32602;
    pub const INTERNAL: i32 = -32603;
    pub const NOT_INITIALIZED: i32 = -32002;
    /// A request that is right, but cannot be fulfilled.
    pub const REFUSED: i32 = -32803;

    pub fn new(code: i32, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }
}

/// The result of `initialize`.
pub fn capabilities(encoding: Encoding) -> Value {
    json!({
        "capabilities": {
            "positionEncoding": encoding.name(),
            // Incremental.
            "textDocumentSync": { "openClose": true, "change": 2, "save": {} },
            "hoverProvider": true,
            "definitionProvider": true,
            "referencesProvider": true,
            "documentHighlightProvider": true,
            "renameProvider": { "prepareProvider": true },
            "completionProvider": { "triggerCharacters": [".", "@", "<", "\""] },
            "documentSymbolProvider": true,
            "workspaceSymbolProvider": true,
            "documentFormattingProvider": true,
            "foldingRangeProvider": true,
            "codeActionProvider": { "codeActionKinds": ["quickfix"] },
        },
        "serverInfo": { "name": "pointsman", "version": env!("CARGO_PKG_VERSION") },
    })
}

/// Answers a request of a client that is initialized.
pub fn answer<W: World>(server: &mut Server<W>, method: &str, params: &Value) -> Result<Value, Failure> {
    match method {
        "textDocument/hover" => hover::hover(server, params),
        "textDocument/definition" => navigate::definition(server, params),
        "textDocument/references" => navigate::references(server, params),
        "textDocument/documentHighlight" => navigate::highlights(server, params),
        "textDocument/prepareRename" => rename::prepare(server, params),
        "textDocument/rename" => rename::rename(server, params),
        "textDocument/completion" => complete::complete(server, params),
        "textDocument/documentSymbol" => symbols::symbols(server, params),
        "workspace/symbol" => workspace::symbols(server, params),
        "textDocument/foldingRange" => {
            let (_, document) = server.document(params)?;
            Ok(fold::ranges(&document.text))
        }
        "textDocument/formatting" => formatting(server, params),
        "textDocument/codeAction" => Ok(actions::actions(params)),
        "initialize" => Err(Failure::new(Failure::INVALID_REQUEST, "the server is initialized already")),
        _ => Err(Failure::new(Failure::UNKNOWN_METHOD, format!("unknown method {method}"))),
    }
}

/// One edit of the lines that change, so that the rest of the editor's view stays.
fn formatting<W: World>(server: &Server<W>, params: &Value) -> Result<Value, Failure> {
    let (_, document) = server.document(params)?;
    let old = &document.text;
    let new = format(old, server.width).map_err(|d| Failure::new(Failure::REFUSED, d.message.clone()))?;
    if new == *old {
        return Ok(json!([]));
    }
    let same = |(a, b): &(&str, &str)| a == b;
    let lines = |text: &'_ str| text.split_inclusive('\n').map(str::to_string).collect::<Vec<_>>();
    let (a, b) = (lines(old), lines(&new));
    let pairs = a.iter().zip(&b).map(|(x, y)| (x.as_str(), y.as_str()));
    let first = pairs.take_while(same).count();
    let most = a.len().min(b.len()) - first;
    let pairs = a.iter().rev().zip(b.iter().rev()).map(|(x, y)| (x.as_str(), y.as_str()));
    let last = pairs.take(most).take_while(same).count();
    let length = |lines: &[String]| lines.iter().map(String::len).sum::<usize>();
    let (lo, hi) = (length(&a[..first]), length(&a[..a.len() - last]));
    let range = crate::position::Lines::new(old).range(old, lo, hi, server.encoding);
    Ok(json!([{ "range": range, "newText": b[first..b.len() - last].concat() }]))
}
