//! Hover, definitions, references: in one file, through includes, in built-in files.

use crate::client::{Client, locations, place};
use serde_json::{Value, json};

const PROGRAM: &str = r#"#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

/* Ein längerer Kommentar mit Ümlauten 𝄞 */ const bit<16> TYPE_IPV4 = 0x800; const bit<16> TWICE = TYPE_IPV4 + TYPE_IPV4;

struct metadata { bit<7> seen; }

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.eth);
        transition select(hdr.eth.type) {
            TYPE_IPV4: parse_more;
            default: accept;
        }
    }
    state parse_more {
        transition accept;
    }
}

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    // Sends the packet
    // out of a port.
    action forward(bit<9> port) {
        sm.egress_spec = port;
        meta = { seen = 3 };
    }
    table t {
        key = { hdr.eth.dst: exact; }
        actions = { forward; NoAction; }
        default_action = NoAction();
    }
    apply {
        switch (t.apply().action_run) {
            forward: { if (meta.seen == 3) { mark_to_drop(sm); } }
            default: {}
        }
    }
}

control V(inout headers hdr, inout metadata meta) { apply {} }
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.eth); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

const HEADERS: &str = "header eth_t {\n    bit<48> dst; // where it goes\n    bit<48> src;\n    bit<16> type;\n}\n\
                       struct headers { eth_t eth; }\n";

fn opened() -> Client {
    let mut client = Client::new(&[]);
    client.files.memory.borrow_mut().insert("/p/headers.p4".into(), HEADERS.into());
    client.open("/p/main.p4", PROGRAM);
    client
}

/// The text of a hover.
fn hover(client: &mut Client, word: &str, n: usize) -> String {
    let found = client.at("hover", "/p/main.p4", place(PROGRAM, word, n));
    found["contents"]["value"].as_str().unwrap_or_default().to_string()
}

#[test]
fn the_program_is_right() {
    let client = opened();
    assert!(client.codes("/p/main.p4").is_empty(), "{:?}", client.diagnostics);
}

#[test]
fn hovers() {
    let mut client = opened();
    let mut check = |word: &str, n: usize, parts: &[&str]| {
        let text = hover(&mut client, word, n);
        for part in parts {
            assert!(text.contains(part), "{word} {n}: {part:?} is not in {text:?}");
        }
    };
    check("TYPE_IPV4", 1, &["const bit<16> TYPE_IPV4", "value: `2048 (0x800)`", "width: 16 bits"]);
    check("TWICE", 0, &["value: `4096 (0x1000)`"]);
    check("dst", 0, &["bit<48> dst", "width: 48 bits (6 bytes)", "where it goes"]);
    check("eth)", 0, &["eth_t eth", "width: 112 bits (14 bytes)"]);
    check("forward;", 0, &["action forward(bit<9> port)", "Sends the packet\nout of a port."]);
    check("t.apply", 0, &["table t", "hdr.eth.dst: exact", "forward; NoAction;"]);
    check("egress_spec", 0, &["egress_spec", "width: 9 bits"]);
    check("mark_to_drop", 0, &["extern void mark_to_drop(inout standard_metadata_t"]);
    check("extract", 0, &["void extract<T>(out T"]);
    check("standard_metadata_t sm", 0, &["struct standard_metadata_t", "bit<9> ingress_port;"]);
    check("parse_more;", 0, &["state parse_more"]);
    check("seen == 3", 0, &["bit<7> seen", "width: 7 bits"]);
    // Nothing is declared here.
    assert_eq!(hover(&mut client, "transition", 0), "");
}

#[test]
fn definitions() {
    let mut client = opened();
    let mut check = |word: &str, n: usize, path: &str, at: (&str, &str, usize)| {
        let found = client.at("definition", "/p/main.p4", place(PROGRAM, word, n));
        let (text, name, n) = at;
        let (line, character) = place(text, name, n);
        assert_eq!(locations(&found), [(path.to_string(), line as u64, character as u64)], "{word} {n}");
    };
    let own = "/p/main.p4";
    // Behind characters of several bytes on its line.
    check("TYPE_IPV4", 2, own, (PROGRAM, "TYPE_IPV4", 0));
    check("TYPE_IPV4:", 0, own, (PROGRAM, "TYPE_IPV4", 0));
    check("parse_more;", 0, own, (PROGRAM, "parse_more {", 0));
    check("forward:", 0, own, (PROGRAM, "forward(", 0));
    check("seen = 3", 0, own, (PROGRAM, "seen;", 0));
    check("port;", 0, own, (PROGRAM, "port)", 0));
    check("dst", 0, "/p/headers.p4", (HEADERS, "dst", 0));
    check("headers hdr", 0, "/p/headers.p4", (HEADERS, "headers", 0));
    check("\"headers.p4\"", 0, "/p/headers.p4", (HEADERS, "header", 0));
    let v1model = std::fs::read_to_string(crate::client::root().join("p4/include/v1model.p4")).unwrap();
    check("mark_to_drop", 0, "/cache/v1model.p4", (&v1model, "mark_to_drop(inout", 0));
    check("<v1model", 0, "/cache/v1model.p4", (&v1model, &v1model[..10], 0));
}

#[test]
fn references_through_files() {
    let mut client = opened();
    let mut params = crate::client::pointing("/p/main.p4", place(PROGRAM, "eth)", 0));
    params["context"] = json!({ "includeDeclaration": true });
    let found = locations(&client.request("textDocument/references", params.clone()));
    let in_main = PROGRAM.matches("hdr.eth").count();
    assert_eq!(found.len(), in_main + 1, "{found:?}");
    assert!(found.iter().any(|(path, line, _)| path == "/p/headers.p4" && *line == 5), "{found:?}");
    params["context"] = json!({ "includeDeclaration": false });
    assert_eq!(client.request("textDocument/references", params).as_array().map(Vec::len), Some(in_main));
    let here = client.at("documentHighlight", "/p/main.p4", place(PROGRAM, "eth)", 0));
    assert_eq!(here.as_array().map(Vec::len), Some(in_main));
}

#[test]
fn an_included_file_is_part_of_its_program() {
    let mut client = Client::new(&[]);
    let main = "#include <core.p4>\n#include \"a.p4\"\n#include \"b.p4\"\nconst bit<8> D = C;\n";
    client.files.memory.borrow_mut().extend([
        ("/p/main.p4".to_string(), main.to_string()),
        ("/p/a.p4".to_string(), "const bit<8> A = 7;\n".to_string()),
    ]);
    // It alone would not know A.
    client.open("/p/b.p4", "const bit<8> C = A;\n");
    assert!(!client.codes("/p/b.p4").contains(&"P0301"), "{:?}", client.diagnostics);
    let found = client.at("definition", "/p/b.p4", (0, 17));
    assert_eq!(locations(&found), [("/p/a.p4".to_string(), 0, 13)]);
    let mut params = crate::client::pointing("/p/b.p4", (0, 13));
    params["context"] = json!({ "includeDeclaration": false });
    let found = locations(&client.request("textDocument/references", params));
    assert_eq!(found, [("/p/main.p4".to_string(), 3, 17)]);
    // What is not saved yet counts.
    client.open("/p/a.p4", "const bit<8> B = 7;\n");
    assert_eq!(client.codes("/p/b.p4"), ["P0301"]);
    client.close("/p/a.p4");
    assert!(!client.codes("/p/b.p4").contains(&"P0301"), "the file on disk counts again");
    // An error in a file that is not open is shown there.
    client.files.memory.borrow_mut().insert("/p/a.p4".into(), "const bit<8> A = x;\n".into());
    client.notify("textDocument/didSave", json!({ "textDocument": { "uri": "file:///p/b.p4" } }));
    assert_eq!(client.codes("/p/a.p4"), ["P0301"]);
    client.close("/p/b.p4");
    assert!(client.codes("/p/a.p4").is_empty() && client.codes("/p/b.p4").is_empty());
}

#[test]
fn every_encoding_of_positions() {
    for encodings in [&["utf-16"][..], &["utf-8", "utf-16"], &["utf-32"]] {
        let mut client = Client::new(encodings);
        let text = "/* äöü 𝄞 */ const bool A = true; const bool B = A;\n";
        client.open("/a.p4", text);
        let units = |s: &str| match encodings[0] {
            "utf-8" => s.len(),
            "utf-16" => s.encode_utf16().count(),
            _ => s.chars().count(),
        };
        let (declared, used) =
            (units(&text[..text.find("A =").unwrap()]), units(&text[..text.rfind("A;").unwrap()]));
        let found = client.at("definition", "/a.p4", (0, used));
        assert_eq!(locations(&found), [("/a.p4".to_string(), 0, declared as u64)], "{encodings:?}");
    }
}

#[test]
fn symbols_of_a_document() {
    let mut client = opened();
    let params = json!({ "textDocument": { "uri": "file:///p/main.p4" } });
    let list = client.request("textDocument/documentSymbol", params);
    let names = |v: &Value| -> Vec<String> {
        v.as_array().into_iter().flatten().map(|s| s["name"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(
        names(&list),
        ["TYPE_IPV4", "TWICE", "metadata", "P", "I", "V", "E", "D", "main"],
        "declarations of included files are not those of the document"
    );
    let control = &list[4];
    assert_eq!(control["detail"].as_str().map(|d| d.starts_with("control I(inout headers hdr")), Some(true));
    assert_eq!(names(&control["children"]), ["hdr", "meta", "sm", "forward", "t"]);
    assert_eq!(names(&list[3]["children"]), ["packet", "hdr", "meta", "sm", "start", "parse_more"]);
    fn check(v: &Value) {
        let place = |r: &Value, end: &str| (r[end]["line"].as_u64(), r[end]["character"].as_u64());
        for s in v.as_array().into_iter().flatten() {
            let (whole, name) = (&s["range"], &s["selectionRange"]);
            assert!(place(whole, "start") <= place(name, "start"), "{s}");
            assert!(place(whole, "end") >= place(name, "end"), "{s}");
            check(&s["children"]);
        }
    }
    check(&list);
}

/// Names of all programs of open documents, with what they include; the best matches first.
#[test]
fn symbols_of_the_workspace() {
    let mut client = opened();
    let mut find = |query: &str| -> Vec<(String, String, Option<String>)> {
        let found = client.request("workspace/symbol", json!({ "query": query }));
        let text = |v: &Value| v.as_str().map(str::to_string);
        let all = found.as_array().expect("a list").iter();
        let file = |s: &Value| text(&s["location"]["uri"]).unwrap_or_default();
        all.map(|s| (text(&s["name"]).unwrap_or_default(), file(s), text(&s["containerName"]))).collect()
    };
    let names = |found: &[(String, String, Option<String>)]| -> Vec<String> {
        found.iter().map(|(name, ..)| name.clone()).collect()
    };
    let main = "file:///p/main.p4".to_string();
    assert_eq!(find("forward"), [("forward".to_string(), main.clone(), Some("I".into()))]);
    assert_eq!(find("TyPe4"), [("TYPE_IPV4".to_string(), main.clone(), None)]);
    assert_eq!(find("headers")[0], ("headers".to_string(), "file:///p/headers.p4".into(), None));
    // In its order: the same name, its beginning, inside of it, letters; built-in files behind the user's.
    assert_eq!(names(&find("t"))[..3], ["t", "TWICE", "TYPE_IPV4"]);
    assert_eq!(names(&find("sta"))[..2], ["start", "standard_metadata_t"]);
    let meta = names(&find("metadata"));
    assert_eq!(meta, ["metadata", "standard_metadata_t"]);
    let marked = find("mark_to_drop");
    assert!(marked[0].1.ends_with("/v1model.p4"), "{marked:?}");
    assert_eq!(find("no such name"), []);
    assert!(
        find("src").is_empty() && find("sm").iter().all(|(name, ..)| name != "sm"),
        "no fields, no parameters"
    );
    // A file that is open twice over, by itself and by its program, is listed once.
    let all = find("");
    client.open("/p/headers.p4", HEADERS);
    let again = client.request("workspace/symbol", json!({ "query": "" }));
    assert_eq!(again.as_array().map(Vec::len), Some(all.len()));
    // The number is limited.
    let many: String = (0..500).map(|i| format!("const bit<9> MANY_{i} = 0;\n")).collect();
    client.open("/p/many.p4", &many);
    let found = client.request("workspace/symbol", json!({ "query": "many" }));
    assert_eq!(found.as_array().map(Vec::len), Some(200));
    assert_eq!(found[0]["name"], "MANY_0");
}
