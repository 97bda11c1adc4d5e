//! The declarations of a document as a tree.

use crate::World;
use crate::analysis::Program;
use crate::outline::Item;
use crate::position::Encoding;
use crate::requests::Failure;
use crate::server::Server;
use pointsman_frontend::index::SymbolKind as K;
use pointsman_ir::Span;
use serde_json::{Value, json};

/// `textDocument/documentSymbol`
pub fn symbols<W: World>(server: &mut Server<W>, params: &Value) -> Result<Value, Failure> {
    let (program, file) = server.about(params)?;
    Ok(json!(list(&program, &program.outline, file, server.encoding)))
}

fn list(program: &Program, items: &[Item], file: u32, encoding: Encoding) -> Vec<Value> {
    items.iter().filter_map(|i| one(program, i, file, encoding)).collect()
}

fn one(program: &Program, item: &Item, file: u32, encoding: Encoding) -> Option<Value> {
    // What a macro makes has the place, but not the name.
    if item.name_span.file != file || item.kind == K::TypeParameter || item.name.is_empty() {
        return None;
    }
    let (name, span) = (item.name_span, item.span);
    let span = Span { lo: span.lo.min(name.lo), hi: span.hi.max(name.hi), ..span };
    let text = program.index().declared_at(name).map(|i| program.index().symbols[i].text.as_str());
    // The first line is enough; what is in braces follows as children.
    let detail = text.and_then(|t| t.lines().next()).unwrap_or_default().trim_end_matches(" {");
    Some(json!({
        "name": item.name,
        "detail": detail,
        "kind": kind(item.kind),
        "range": program.range(span, encoding),
        "selectionRange": program.range(name, encoding),
        "children": list(program, &item.children, file, encoding),
    }))
}

/// The protocol's `SymbolKind`.
pub(crate) fn kind(kind: K) -> u8 {
    match kind {
        K::Struct | K::Header | K::HeaderUnion => 23,
        K::Enum => 10,
        K::EnumMember | K::Error | K::MatchKind => 22,
        K::TypeName | K::TypeParameter => 26,
        K::Extern => 11,
        K::Parser | K::Control => 5,
        K::Package => 4,
        K::Constant => 14,
        K::Variable | K::Parameter | K::ValueSet | K::Unknown => 13,
        K::Instance | K::Table => 19,
        K::Function | K::Action => 12,
        K::Method | K::State => 6,
        K::Field => 8,
    }
}
