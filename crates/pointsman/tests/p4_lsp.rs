//! `pointsman p4 lsp` as an editor runs it: over standard input and output.

use crate::support::{Scratch, file, finish, pointsman};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

struct Editor {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Editor {
    fn start(dir: &Scratch, args: &[&str]) -> Editor {
        let mut command = pointsman(&[&["p4", "lsp"], args].concat());
        command.env("XDG_CACHE_HOME", dir.path("cache")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let (to, from) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Editor { child, to, from: BufReader::new(from) }
    }

    fn send(&mut self, message: Value) {
        let body = message.to_string();
        write!(self.to, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("it reads");
        self.to.flush().expect("it reads");
    }

    fn receive(&mut self) -> Value {
        let mut length = None;
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).expect("text") > 0, "the server has ended");
            match line.trim().split_once(": ") {
                Some(("Content-Length", value)) => length = value.parse().ok(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length.expect("a length")];
        self.from.read_exact(&mut body).expect("a whole message");
        serde_json::from_slice(&body).expect("JSON")
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params }));
        loop {
            let m = self.receive();
            if m["id"] == method {
                return m["result"].clone();
            }
        }
    }

    fn end(mut self) -> Option<i32> {
        drop(self.to);
        self.child.wait().expect("it ends").code()
    }
}

#[test]
fn a_session() {
    let dir = Scratch::new("lsp");
    std::fs::create_dir(dir.path("lib")).expect("a folder");
    dir.write("lib/far.p4", "const bit<8> FAR = 3;\n");
    let text = "#include <core.p4>\n#include <far.p4>\n/* é */ const bit<8> N = FAR + x;\nvoid f(packet_in p) { p.advance(8); }\n";
    let path = dir.write("main.p4", "");
    let uri = format!("file://{path}");
    let mut editor = Editor::start(&dir, &["--stdio", "-I", &dir.path("lib")]);
    let result = editor.request("initialize", json!({ "capabilities": {} }));
    assert_eq!(result["capabilities"]["renameProvider"]["prepareProvider"], true);
    editor.send(json!({ "method": "initialized", "params": {} }));
    let document = json!({ "uri": uri, "languageId": "p4", "version": 1, "text": text });
    editor.send(json!({ "method": "textDocument/didOpen", "params": { "textDocument": document } }));
    let published = editor.receive();
    assert_eq!(published["params"]["uri"], uri);
    let d = &published["params"]["diagnostics"][0];
    assert_eq!(d["code"], "P0301");
    assert_eq!(d["range"]["start"], json!({ "line": 2, "character": 31 }));
    // The page that explains it says what `p4 explain` says.
    let page = d["codeDescription"]["href"].as_str().expect("a page").trim_start_matches("file://");
    assert!(std::fs::read_to_string(page).expect("a file").starts_with("# P0301: An unknown name"));
    // The declaration in a file that is built in: a readable copy.
    let position = json!({ "line": 3, "character": 25 });
    let params = json!({ "textDocument": { "uri": uri }, "position": position });
    let found = editor.request("textDocument/definition", params.clone());
    let copy = found["uri"].as_str().expect("a place").trim_start_matches("file://");
    let line = found["range"]["start"]["line"].as_u64().expect("a line") as usize;
    let copied = std::fs::read_to_string(copy).expect("a file");
    assert!(copied.lines().nth(line).is_some_and(|l| l.contains("void advance(")), "{found}");
    assert!(std::fs::metadata(copy).expect("a file").permissions().readonly());
    let hover = editor.request("textDocument/hover", params);
    assert!(hover["contents"]["value"].as_str().is_some_and(|t| t.contains("void advance(")), "{hover}");
    assert_eq!(editor.request("shutdown", Value::Null), Value::Null);
    editor.send(json!({ "method": "exit" }));
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn an_editor_that_ends_and_one_that_is_none() {
    let dir = Scratch::new("lsp-end");
    assert_eq!(Editor::start(&dir, &[]).end(), Some(1), "without `exit`");
    let mut editor = Editor::start(&dir, &[]);
    editor.to.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it reads");
    let code = editor.child.wait().expect("it ends").code();
    assert_eq!(code, Some(1), "the input is not that of an editor");
}

/// The extension for VS Code, in node, with an editor that is a stub.
#[test]
fn the_extension_of_vs_code() {
    if !pointsman_needs::programs("the extension of VS Code", &["nodejs:node"]) {
        return;
    }
    let dir = Scratch::new("vscode");
    let long = "bit<8> sum(in bit<8> first, in bit<8> second, in bit<8> third) { return first; }";
    let path = dir.write("main.p4", format!("{long}\nconst bit<8> LONG = 1;\nconst bit<8> N = LONGG;\n"));
    let binary = pointsman(&[]).get_program().to_os_string();
    let mut node = std::process::Command::new("node");
    node.args([file("crates/pointsman/tests/data/vscode.js"), file("editors/vscode"), path]).arg(binary);
    node.env("XDG_CACHE_HOME", dir.path("cache"));
    let done = finish(node);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let said: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(said["errors"], json!([]));
    assert_eq!(said["diagnostics"][0]["code"]["value"], "P0301");
    assert_eq!(said["diagnostics"][0]["range"]["start"], json!({ "line": 2, "character": 17 }));
    assert!(said["hover"].as_str().is_some_and(|t| t.contains("bit<8> LONG")), "{said}");
    assert_eq!(said["fix"], json!(["Replace by `LONG`", "LONG"]));
    // The setting `formatWidth` breaks the first line.
    assert!(said["formatted"].as_str().is_some_and(|t| t.contains("\n") && t.contains("third")), "{said}");
    // Everything that the extension reads is a setting that it declares.
    let package = std::fs::read_to_string(file("editors/vscode/package.json")).expect("a file");
    let package: Value = serde_json::from_str(&package).expect("JSON");
    let declared = &package["contributes"]["configuration"]["properties"];
    for name in said["settings"].as_array().expect("a list") {
        let name = format!("pointsman.{}", name.as_str().expect("a name"));
        assert!(declared[&name].is_object(), "{name} is not declared");
    }
}
