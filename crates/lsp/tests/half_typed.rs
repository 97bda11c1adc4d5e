//! Programs cut off anywhere, with words put in and taken out: no request fails, however little sense the text makes.

use crate::client::{Client, root, uri};
use pointsman_wire::random::Random;
use serde_json::json;

const WORDS: &[&str] = &[
    "hdr.",
    ".",
    "{",
    "}",
    "(",
    ")",
    ";",
    "table t { key = {",
    "apply {",
    "state",
    "transition select(",
    "if (",
    "=",
    "é",
    "\"",
    "/*",
    "#include \"",
    "#define A(",
    "@name(",
    "control C(",
    "header",
    "enum E {",
    "x.y[",
    "<",
    "error.",
    "action a(",
    "const bit<8> N = ",
    "extern E {",
    "{#}",
    "...",
    "this.",
    "switch (t.apply().action_run) {",
];

/// One half-typed program: a prefix, with a few changes.
fn half_typed(r: &mut Random, text: &str) -> String {
    let cut = |r: &mut Random, s: &str| {
        let mut at = r.below(s.len() as u64 + 1) as usize;
        while !s.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let mut out = text[..cut(r, text)].to_string();
    for _ in 0..r.below(4) {
        let at = cut(r, &out);
        match r.below(3) {
            0 => {
                let end =
                    out[at..].char_indices().nth(r.below(30) as usize).map_or(out.len(), |(i, _)| at + i);
                out.replace_range(at..end, "");
            }
            _ => out.insert_str(at, WORDS[r.below(WORDS.len() as u64) as usize]),
        }
    }
    if r.below(2) == 0 {
        out += WORDS[r.below(WORDS.len() as u64) as usize];
    }
    out
}

/// Sends every request about a random place and about the end.
pub fn requests(client: &mut Client, r: &mut Random, path: &str, text: &str) {
    let lines: Vec<&str> = text.split('\n').collect();
    let random = r.below(lines.len() as u64) as usize;
    let column = r.below(lines[random].len() as u64 + 1) as usize;
    let end = (lines.len() - 1, lines[lines.len() - 1].encode_utf16().count());
    for place in [(random, column), end] {
        for method in ["hover", "definition", "references", "completion", "documentHighlight"] {
            client.at(method, path, place);
        }
        let mut params = crate::client::pointing(path, place);
        client.answer("textDocument/prepareRename", params.clone());
        params["newName"] = json!("other");
        client.answer("textDocument/rename", params);
    }
    let document = json!({ "textDocument": { "uri": uri(path) } });
    for method in ["documentSymbol", "foldingRange", "formatting"] {
        client.answer(&format!("textDocument/{method}"), document.clone());
    }
}

#[test]
fn no_text_makes_the_server_panic() {
    let mut programs = Vec::new();
    for name in ["balancer/select.p4", "router/main.p4", "ecmp/main.p4", "firewall/main.p4"] {
        programs.push(std::fs::read_to_string(root().join("p4/programs").join(name)).expect("a program"));
    }
    for name in ["generics", "instances", "parsers", "statements", "tables", "expressions"] {
        let path = root().join(format!("crates/frontend/tests/accept/{name}.p4"));
        programs.push(std::fs::read_to_string(path).expect("a program"));
    }
    let mut r = Random::new(20);
    for case in 0..500 {
        let mut client = Client::new(&[]);
        let text = &programs[case % programs.len()];
        if case % 3 == 0 {
            client.open("/p/a.p4", text);
            let half = half_typed(&mut r, text);
            client.change("/p/a.p4", None, &half);
            requests(&mut client, &mut r, "/p/a.p4", &half);
        } else {
            let half = half_typed(&mut r, text);
            client.open("/p/a.p4", &half);
            requests(&mut client, &mut r, "/p/a.p4", &half);
        }
    }
}
