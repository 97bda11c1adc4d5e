//! The life of a server, its errors, and framing.

use crate::client::{Client, Files, pointing};
use pointsman_lsp::{Server, frame};
use serde_json::{Value, json};

#[test]
fn life() {
    let mut server = Server::new(Files::default(), Vec::new(), Vec::new());
    let mut send = |m: Value| (server.handle(&m), server.exit_code());
    let early = send(json!({ "id": 1, "method": "textDocument/hover", "params": {} }));
    assert_eq!(early.0[0]["error"]["code"], -32002);
    assert_eq!(send(json!({ "method": "textDocument/didOpen", "params": {} })).0, Vec::<Value>::new());
    let ready = send(json!({ "id": "a", "method": "initialize", "params": { "capabilities": {} } }));
    assert_eq!(ready.0[0]["id"], "a");
    assert_eq!(ready.0[0]["result"]["capabilities"]["positionEncoding"], "utf-16");
    let again = send(json!({ "id": 2, "method": "initialize", "params": {} }));
    assert_eq!(again.0[0]["error"]["code"], -32600);
    assert_eq!(send(json!({ "id": 3, "method": "shutdown" })).0[0]["result"], Value::Null);
    let late = send(json!({ "id": 4, "method": "textDocument/hover", "params": {} }));
    assert_eq!((late.0[0]["error"]["code"].as_i64(), late.1), (Some(-32600), None));
    assert_eq!(send(json!({ "method": "exit" })).1, Some(0));

    let mut server = Server::new(Files::default(), Vec::new(), Vec::new());
    server.handle(&json!({ "method": "exit" }));
    assert_eq!(server.exit_code(), Some(1), "without shutdown, the exit code is that of a failure");
}

#[test]
fn wrong_messages() {
    let mut client = Client::new(&[]);
    let code = |v: &Value| v["error"]["code"].as_i64();
    assert_eq!(code(&client.answer("textDocument/unheard", json!({}))), Some(-32601));
    let answer = client.answer("textDocument/hover", pointing("/none.p4", (0, 0)));
    assert_eq!(code(&answer), Some(-32602));
    assert!(
        answer["error"]["message"].as_str().is_some_and(|m| m.contains("/none.p4 is not open")),
        "{answer}"
    );
    for params in
        [json!(null), json!([]), json!({ "textDocument": 5 }), json!({ "textDocument": { "uri": [] } })]
    {
        for method in ["hover", "rename", "completion", "formatting", "foldingRange", "references"] {
            assert_eq!(code(&client.answer(&format!("textDocument/{method}"), params.clone())), Some(-32602));
        }
        for method in ["didOpen", "didChange", "didClose", "didSave"] {
            client.notify(&format!("textDocument/{method}"), params.clone());
        }
    }
    // Positions outside of the text are at its end.
    client.open("/a.p4", "const bit<8> A = 1;");
    for place in [(0, 999), (999, 0), (usize::MAX, usize::MAX)] {
        for method in ["hover", "completion", "definition", "references", "documentHighlight"] {
            client.at(method, "/a.p4", place);
        }
    }
    let bad = client.server.handle_text(b"{");
    assert_eq!(code(&bad[0]), Some(-32700));
    for text in ["1", "[]", "null", "{}", "{\"id\":1}", "{\"id\":1,\"result\":null}"] {
        assert!(client.server.handle_text(text.as_bytes()).is_empty(), "{text}");
    }
}

#[test]
fn frames() {
    let messages = [json!({ "a": "é𝄞" }), json!([]), json!({ "b": "x".repeat(5000) })];
    let stream: Vec<u8> = messages.iter().flat_map(frame::encode).collect();
    // However the stream is cut, the same messages come out.
    for size in [1, 2, 3, 7, 1000, stream.len()] {
        let mut decoder = frame::Decoder::default();
        let mut out = Vec::new();
        for piece in stream.chunks(size) {
            decoder.push(piece);
            while let Some(m) = decoder.message().expect("a message") {
                out.push(serde_json::from_slice::<Value>(&m).expect("JSON"));
            }
        }
        assert_eq!(out, messages, "pieces of {size} bytes");
    }
    let wrong = |bytes: &[u8]| {
        let mut decoder = frame::Decoder::default();
        decoder.push(bytes);
        decoder.message().err().map(|e| e.to_string())
    };
    assert!(wrong(b"Content-Type: x\r\n\r\n{}").is_some_and(|e| e.contains("Content-Length: NUMBER")));
    assert!(wrong(b"Content-Length: -1\r\n\r\n{}").is_some());
    assert!(wrong(b"Content-Length: 99999999999\r\n\r\n{}").is_some_and(|e| e.contains("longer")));
    assert!(wrong(&[b'x'; 5000]).is_some(), "a stream without header is not kept for ever");
    assert!(wrong(b"content-LENGTH:2\r\nContent-Type: utf-8\r\n\r\n{}").is_none());
    assert_eq!(wrong(b"Content-Length: 5\r\n\r\n{}"), None, "the rest may still come");
}
