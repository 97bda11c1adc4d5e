//! A scripted client, and a world of files in memory.

use pointsman_frontend::{Checked, Define};
use pointsman_lsp::{BuiltIn, Server, World};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files in memory and, if allowed, on disk. Built-in ones are those of the repository.
#[derive(Clone, Default)]
pub struct Files {
    pub memory: Rc<RefCell<BTreeMap<String, String>>>,
    pub disk: bool,
}

impl World for Files {
    fn read(&self, path: &str) -> Option<String> {
        let found = self.memory.borrow().get(path).cloned();
        let disk = || String::from_utf8(std::fs::read(path).ok()?).ok();
        found.or_else(|| if self.disk { disk() } else { None })
    }

    fn folder(&self, path: &str) -> Vec<String> {
        let memory = self.memory.borrow();
        let inside = |p: &&String| Path::new(p.as_str()).parent() == Some(Path::new(path));
        let mut out: Vec<String> = memory.keys().filter(inside).cloned().collect();
        if self.disk {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            let paths = entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "p4"));
            out.extend(paths.map(|p| p.display().to_string()));
        }
        out
    }

    fn built_in(&self, name: &str) -> Option<BuiltIn> {
        let text = std::fs::read_to_string(root().join("p4/include").join(name)).ok()?;
        Some(BuiltIn { text, path: Some(format!("/cache/{name}")) })
    }

    fn built_in_names(&self) -> Vec<String> {
        vec!["core.p4".into(), "v1model.p4".into()]
    }

    fn runs(&self, package: &str) -> bool {
        package == "V1Switch"
    }

    fn finish(&self, _: &mut Checked) {}

    fn explanation(&self, code: &str) -> Option<String> {
        Some(format!("file:///cache/diagnostics.md#{code}"))
    }
}

/// A client of a server that it owns.
pub struct Client {
    pub server: Server<Files>,
    pub files: Files,
    id: u64,
    versions: u64,
    /// The diagnostics that the server published last, by URI.
    pub diagnostics: BTreeMap<String, Vec<Value>>,
}

impl Client {
    /// After `initialize`.
    pub fn new(encodings: &[&str]) -> Client {
        Client::with(Files::default(), encodings, Vec::new())
    }

    pub fn with(files: Files, encodings: &[&str], include_dirs: Vec<String>) -> Client {
        Client::with_options(files, encodings, include_dirs, json!({}))
    }

    /// With initialization options.
    pub fn with_options(
        files: Files,
        encodings: &[&str],
        include_dirs: Vec<String>,
        options: Value,
    ) -> Client {
        let server = Server::new(files.clone(), include_dirs, vec![Define::set("EDITOR=1")]);
        let mut client = Client { server, files, id: 0, versions: 0, diagnostics: BTreeMap::new() };
        let capabilities = json!({ "general": { "positionEncodings": encodings } });
        let params = json!({ "processId": null, "rootUri": null, "capabilities": capabilities, "initializationOptions": options });
        let result = client.request("initialize", params);
        let chosen = result["capabilities"]["positionEncoding"].as_str().expect("an encoding");
        assert!(encodings.is_empty() && chosen == "utf-16" || encodings.contains(&chosen), "{chosen}");
        client.notify("initialized", json!({}));
        client
    }

    /// The answer to a request, result or error.
    pub fn answer(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        // As it comes through a stream.
        let mut answers = self.server.handle_text(message.to_string().as_bytes());
        assert_eq!(answers.len(), 1, "{method}: {answers:?}");
        let answer = answers.remove(0);
        assert_eq!(answer["id"], self.id);
        answer
    }

    /// The result of a request.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        let answers = self.server.handle(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
        assert!(answers.is_empty(), "{answers:?}");
        for m in self.server.idle() {
            assert_eq!(m["method"], "textDocument/publishDiagnostics");
            let uri = m["params"]["uri"].as_str().expect("a URI").to_string();
            let list = m["params"]["diagnostics"].as_array().expect("a list").clone();
            self.diagnostics.insert(uri, list);
        }
    }

    pub fn open(&mut self, path: &str, text: &str) {
        self.versions += 1;
        let document =
            json!({ "uri": uri(path), "languageId": "p4", "version": self.versions, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    /// Replaces the whole text, or a range of it.
    pub fn change(&mut self, path: &str, range: Option<Value>, text: &str) {
        self.versions += 1;
        let document = json!({ "uri": uri(path), "version": self.versions });
        let change = match range {
            Some(range) => json!({ "range": range, "text": text }),
            None => json!({ "text": text }),
        };
        let params = json!({ "textDocument": document, "contentChanges": [change] });
        self.notify("textDocument/didChange", params);
    }

    pub fn close(&mut self, path: &str) {
        self.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri(path) } }));
    }

    /// A request about line and character of a document.
    pub fn at(&mut self, method: &str, path: &str, place: (usize, usize)) -> Value {
        self.request(&format!("textDocument/{method}"), pointing(path, place))
    }

    /// The codes of the published diagnostics of a document, in order.
    pub fn codes(&self, path: &str) -> Vec<&str> {
        let list =
            self.diagnostics.get(&uri(path)).unwrap_or_else(|| panic!("nothing is published of {path}"));
        list.iter().filter_map(|d| d["code"].as_str()).collect()
    }

    /// The labels of a completion.
    pub fn labels(&mut self, path: &str, place: (usize, usize)) -> Vec<String> {
        let items = self.at("completion", path, place);
        let items = items.as_array().expect("a list");
        items.iter().map(|i| i["label"].as_str().expect("a label").to_string()).collect()
    }
}

pub fn uri(path: &str) -> String {
    format!("file://{path}")
}

/// The parameters of a request about a place.
pub fn pointing(path: &str, (line, character): (usize, usize)) -> Value {
    let position = json!({ "line": line, "character": character });
    json!({ "textDocument": { "uri": uri(path) }, "position": position })
}

/// Line and character (in units of UTF-16) of the `n`th occurrence of `word`, from 0.
pub fn place(text: &str, word: &str, n: usize) -> (usize, usize) {
    let (at, _) = text.match_indices(word).nth(n).unwrap_or_else(|| panic!("{word} {n}"));
    let line = text[..at].matches('\n').count();
    let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
    (line, text[start..at].encode_utf16().count())
}

/// The places of a list of locations, as path, line and first character.
pub fn locations(list: &Value) -> Vec<(String, u64, u64)> {
    let one = |l: &Value| {
        let start = &l["range"]["start"];
        let path = l["uri"].as_str().expect("a URI").trim_start_matches("file://").to_string();
        (path, start["line"].as_u64().expect("a line"), start["character"].as_u64().expect("a character"))
    };
    match list {
        Value::Array(all) => all.iter().map(one).collect(),
        Value::Null => Vec::new(),
        one_location => vec![one(one_location)],
    }
}

/// Applies the edits of a rename or of formatting to a text.
pub fn apply(text: &str, edits: &Value) -> String {
    let offset = |p: &Value| {
        let (line, character) =
            (p["line"].as_u64().unwrap() as usize, p["character"].as_u64().unwrap() as usize);
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let mut units = 0;
        let rest = &text[start..];
        let within = rest.char_indices().find(|(_, c)| {
            let here = units == character;
            units += c.len_utf16();
            here
        });
        start + within.map_or(rest.len(), |(i, _)| i)
    };
    let mut all: Vec<(usize, usize, String)> = edits
        .as_array()
        .expect("edits")
        .iter()
        .map(|e| {
            let range = &e["range"];
            (offset(&range["start"]), offset(&range["end"]), e["newText"].as_str().unwrap().to_string())
        })
        .collect();
    all.sort();
    let mut out = text.to_string();
    for (lo, hi, new) in all.into_iter().rev() {
        out.replace_range(lo..hi, &new);
    }
    out
}
