//! Diagnostics as typed, completion, rename, formatting.

use crate::client::{Client, Files, apply, place, pointing, uri};
use serde_json::{Value, json};

const SMALL: &str = r#"#include <core.p4>
#include <v1model.p4>
enum Color { red, green }
header h_t { bit<8> len; varbit<32> rest; }
struct headers { h_t h; h_t[3] s; }
control C(inout headers hdr, inout standard_metadata_t sm) {
    register<bit<32>>(4) counts;
    action drop_it() { mark_to_drop(sm); }
    table t { actions = { drop_it; NoAction; } }
    apply {
        bit<8> local = 1;
        HERE
    }
}
"#;

#[test]
fn diagnostics_as_typed() {
    let mut client = Client::new(&[]);
    client.open("/a.p4", "const bit<8> ä = 300;\n");
    let found = client.codes("/a.p4").join(" ");
    assert!(!found.is_empty());
    client.change("/a.p4", None, "const bit<8> a = 1;\nconst bit<8> a = 2;\n");
    assert_eq!(client.codes("/a.p4")[0], "P0302");
    let d = client.diagnostics[&uri("/a.p4")][0].clone();
    assert_eq!(d["severity"], 1);
    assert_eq!(d["range"]["start"], json!({ "line": 1, "character": 13 }));
    let related = &d["relatedInformation"][0];
    assert_eq!(related["location"]["uri"], "file:///a.p4");
    assert_eq!(related["location"]["range"]["start"], json!({ "line": 0, "character": 13 }));
    assert_eq!(related["message"], "first declared here");
    assert_eq!(d["codeDescription"]["href"], "file:///cache/diagnostics.md#P0302");
    assert!(d["message"].as_str().is_some_and(|m| m.contains("\nhelp: rename one of them")), "{d}");
    // Incrementally: the second name becomes another.
    let range = json!({ "start": { "line": 1, "character": 13 }, "end": { "line": 1, "character": 14 } });
    client.change("/a.p4", Some(range), "bb");
    assert!(!client.codes("/a.p4").contains(&"P0302"), "{:?}", client.diagnostics);
    // Unused, and faded in editors.
    client.change("/a.p4", None, "#include <core.p4>\nvoid f() { bit<8> x; }\n");
    let unused = client.diagnostics[&uri("/a.p4")].iter().find(|d| d["code"] == "P0701").cloned();
    assert_eq!(unused.expect("a warning")["tags"], json!([1]));
    client.change("/a.p4", None, "#include \"none.p4\"\n");
    assert_eq!(client.codes("/a.p4"), ["P0111"]);
    client.files.memory.borrow_mut().insert("/none.p4".into(), String::new());
    client.notify("workspace/didChangeWatchedFiles", json!({ "changes": [] }));
    assert!(!client.codes("/a.p4").contains(&"P0111"));
    client.close("/a.p4");
    assert!(client.codes("/a.p4").is_empty());
}

/// The labels that are offered where `typed` ends.
fn offered(typed: &str) -> Vec<String> {
    let mut client = Client::new(&[]);
    client.open("/a.p4", SMALL);
    let text = SMALL.replace("HERE", typed);
    client.change("/a.p4", None, &text);
    let (line, character) = place(SMALL, "HERE", 0);
    client.labels("/a.p4", (line, character + typed.encode_utf16().count()))
}

#[test]
fn completion_behind_a_dot() {
    let check = |typed: &str, expected: &[&str]| {
        let labels = offered(typed);
        for e in expected {
            assert!(labels.iter().any(|l| l == e), "{typed}: {e} is not in {labels:?}");
        }
        assert!(!labels.iter().any(|l| l == "table"), "{typed}: no keywords in {labels:?}");
    };
    check("hdr.", &["h", "s"]);
    check("hdr.h.", &["len", "rest", "isValid", "setValid", "minSizeInBits"]);
    check("if (hdr.h.is", &["isValid"]);
    check("bit<8> x = hdr.s[local + (bit<8>) 1].", &["len"]);
    check("hdr.s.", &["size", "push_front"]);
    check("t.", &["apply"]);
    check("t.apply().", &["hit", "miss", "action_run"]);
    check("counts.", &["read", "write"]);
    check("Color c = Color.", &["red", "green"]);
    check("error e = error.", &["NoError", "PacketTooShort"]);
    check("sm.", &["ingress_port", "egress_spec"]);
    check("/* ä𝄞 */ sm.egress_", &["egress_spec"]);
    assert!(!offered("sm.egress_").contains(&"ingress_port".to_string()));
    assert_eq!(offered("unknown."), Vec::<String>::new());
    assert_eq!(offered("// hdr."), Vec::<String>::new());
}

#[test]
fn completion_of_names() {
    let labels = offered("lo");
    assert!(labels.contains(&"local".to_string()), "{labels:?}");
    let labels = offered("");
    for name in ["local", "hdr", "t", "drop_it", "counts", "C", "headers", "mark_to_drop", "if", "switch"] {
        assert!(labels.iter().any(|l| l == name), "{name} is not in {labels:?}");
    }
    assert!(!labels.iter().any(|l| l == "len" || l == "red"), "members need a dot");
    assert!(offered("@").contains(&"noWarn".to_string()));
    let mut client = Client::new(&[]);
    client.open("/a.p4", "#include <\n");
    assert_eq!(client.labels("/a.p4", (0, 10)), ["core.p4", "v1model.p4"]);
    // What is declared below cannot be used.
    client.open("/b.p4", "const bool A = true;\nconst bool B = \nconst bool C = true;\n");
    let labels = client.labels("/b.p4", (1, 15));
    assert!(labels.contains(&"A".to_string()) && !labels.contains(&"C".to_string()), "{labels:?}");
}

#[test]
fn completion_in_a_control_that_is_being_written() {
    let mut client = Client::new(&[]);
    let text = "#include <core.p4>\nheader h_t { bit<8> len; }\nstruct headers { h_t h; }\ncontrol C(inout headers hdr) {\n    apply {\n        hdr.h.\n";
    client.open("/a.p4", text);
    assert!(client.labels("/a.p4", (5, 14)).contains(&"len".to_string()));
}

fn rename(client: &mut Client, path: &str, at: (usize, usize), name: &str) -> Value {
    let mut params = pointing(path, at);
    params["newName"] = json!(name);
    client.answer("textDocument/rename", params)
}

#[test]
fn renaming() {
    let header = "header h_t { bit<8> length; }\n";
    let text = "#include <core.p4>\n#include \"h.p4\"\n#define TWICE(x) ((x) + (x))\n/* ä𝄞 */ const h_t H = { length = 2 }; const bit<8> L = H.length;\n\
                const bit<8> M = TWICE(L);\nvoid f(in bit<8> a) { bit<8> b = a; b = b + M; }\n";
    let mut client = Client::new(&[]);
    client.files.memory.borrow_mut().insert("/h.p4".into(), header.into());
    client.open("/a.p4", text);
    let at = place(text, "length;", 0);
    let prepared = client.at("prepareRename", "/a.p4", at);
    assert_eq!(prepared["placeholder"], "length");
    let answer = rename(&mut client, "/a.p4", at, "size_");
    let changes = &answer["result"]["changes"];
    let renamed = apply(text, &changes["file:///a.p4"]);
    assert_eq!(renamed, text.replace("length", "size_"));
    assert_eq!(apply(header, &changes["file:///h.p4"]), header.replace("length", "size_"));
    // A macro's argument is where it is written.
    let answer = rename(&mut client, "/a.p4", place(text, "b = b", 0), "c");
    assert_eq!(answer["result"]["changes"]["file:///a.p4"].as_array().map(Vec::len), Some(3), "{answer}");

    let mut refused = |word: &str, name: &str, why: &str| {
        let answer = rename(&mut client, "/a.p4", place(text, word, 0), name);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(why), "{word} to {name}: {answer}");
    };
    refused("L = H", "M", "`M` is declared twice");
    refused("b = b", "M", "another declaration has this name");
    refused("b = b", "table", "is a keyword");
    refused("b = b", "9", "is not a name");
    refused("b = b", "control", "is a keyword");
    refused("const", "x", "no name here");
}

#[test]
fn what_cannot_be_renamed() {
    let text = "#include <core.p4>\n#define DECLARE(t) const t MADE = 1\nDECLARE(bit<8>);\nconst bit<8> N = MADE;\n\
                extern void g(in bit<8> a);\n#define CALL g(1)\nvoid f(packet_in p) { CALL; p.advance(8); }\n";
    let mut client = Client::new(&[]);
    client.open("/a.p4", text);
    let mut refused = |word: &str, n: usize, why: &str| {
        let answer = rename(&mut client, "/a.p4", place(text, word, n), "other");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(why), "{word}: {answer}");
    };
    refused("MADE;", 0, "macro");
    refused("g(in", 0, "macro");
    refused("advance", 0, "comes with Pointsman");
}

/// Uses in text that `#if` leaves out would keep the old name.
#[test]
fn names_in_text_that_is_left_out() {
    let text = "#include \"b.p4\"\n#include \"b.p4\"\naction foo(){} const bit<8> n=1;\naction bar(){}\n#define X\ncontrol c(){ apply {\n#ifndef X\n\
                foo();\n#define CALL bar()\n#else\nfoo();\nbar();\n#endif\nonce(n); } }\n";
    let included = "#ifndef B\n#define B\naction once(in bit<8> n){}\n#endif\n";
    let mut client = Client::new(&[]);
    client.files.memory.borrow_mut().insert("/b.p4".into(), included.into());
    client.open("/a.p4", text);
    for (word, line) in [("foo(){", 8), ("bar(){", 9)] {
        let answer = rename(&mut client, "/a.p4", place(text, word, 0), "other");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(&format!("in line {line} of /a.p4")), "{word}: {answer}");
    }
    // A guard leaves out the second copy of a file only.
    for (word, files) in [("once(n);", 2), ("n=1", 1)] {
        let answer = rename(&mut client, "/a.p4", place(text, word, 0), "other");
        assert_eq!(
            answer["result"]["changes"].as_object().map(serde_json::Map::len),
            Some(files),
            "{answer}"
        );
    }
}

#[test]
fn formatting_takes_a_width() {
    let text = "header h { bit<8> first_field; bit<8> second_field; }\n";
    let params =
        json!({ "textDocument": { "uri": uri("/a.p4") }, "options": { "tabSize": 4, "insertSpaces": true } });
    for (width, lines) in [(json!(40), 4), (json!(80), 1), (json!(7), 1), (json!("40"), 1)] {
        let options = json!({ "formatWidth": width });
        let mut client = Client::with_options(Files::default(), &[], Vec::new(), options);
        client.open("/a.p4", text);
        let edits = client.request("textDocument/formatting", params.clone());
        assert_eq!(apply(text, &edits).lines().count(), lines, "{width}");
    }
}

#[test]
fn formatting_changes_only_what_differs() {
    let mut client = Client::new(&[]);
    let text = "// ä\nheader a { bit<8> a; }\nheader b { bit<8>b; }\n\n\n\nheader c { bit<8> c; }\n";
    client.open("/a.p4", text);
    let params =
        json!({ "textDocument": { "uri": uri("/a.p4") }, "options": { "tabSize": 4, "insertSpaces": true } });
    let edits = client.request("textDocument/formatting", params.clone());
    let formatted = apply(text, &edits);
    assert_eq!(formatted, pointsman_frontend::fmt::format(text, None).unwrap());
    let first = &edits[0];
    assert_eq!(first["range"]["start"]["line"], 2, "the lines before stay: {edits}");
    assert!(!first["newText"].as_str().unwrap().contains("header c"), "the lines behind stay: {edits}");
    client.change("/a.p4", None, &formatted);
    assert_eq!(client.request("textDocument/formatting", params.clone()), json!([]));
    client.change("/a.p4", None, "header { /*");
    assert!(client.answer("textDocument/formatting", params)["error"]["message"].is_string());
}

#[test]
fn quick_fixes() {
    let mut client = Client::new(&[]);
    let text = "header h_t { bit<8> ttl; }\nbit<8> f(in h_t head) { return hed.tll; }\n";
    client.open("/a.p4", text);
    let fix = |client: &mut Client, text: &str| {
        let params = json!({
            "textDocument": { "uri": uri("/a.p4") },
            "range": { "start": { "line": 0, "character": 0 }, "end": { "line": 9, "character": 0 } },
            "context": { "diagnostics": client.diagnostics[&uri("/a.p4")] },
        });
        let found = client.request("textDocument/codeAction", params);
        let [fix] = found.as_array().expect("a list").as_slice() else { panic!("{found}") };
        assert_eq!(fix["kind"], "quickfix");
        let fixed = apply(text, &fix["edit"]["changes"][uri("/a.p4")]);
        client.change("/a.p4", None, &fixed);
        (fix["title"].as_str().map(str::to_string), fixed)
    };
    let (title, fixed) = fix(&mut client, text);
    assert_eq!(title.as_deref(), Some("Replace by `head`"));
    let (_, fixed) = fix(&mut client, &fixed);
    assert!(fixed.ends_with("return head.ttl; }\n"), "{fixed}");
    assert!(client.codes("/a.p4").iter().all(|c| !c.starts_with("P03")), "{:?}", client.diagnostics);
}
