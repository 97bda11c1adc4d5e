//! For all sequences of tokens, `compile` returns a program that the verifier accepts, or diagnostics.

use std::path::Path;

use crate::common::{Dirs, p4_files};
use pointsman_frontend::diag::Severity;
use pointsman_frontend::{compile, render};

/// xorshift64*: every run tries the same cases.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n.max(1)
    }
}

/// Words, numbers, strings and signs; a directive is one piece.
fn pieces(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let end = if c == '#' || rest.starts_with("//") {
            rest.find('\n').map_or(rest.len(), |i| i + 1)
        } else if c.is_alphanumeric() || c == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if c == '"' {
            rest[1..].find('"').map_or(rest.len(), |i| i + 2)
        } else if c.is_whitespace() {
            rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len())
        } else {
            let long = ["&&&", "...", "&&", "||", "==", "!=", "<=", ">=", "<<", "++", "..", "+:"];
            long.iter().find(|l| rest.starts_with(**l)).map_or(c.len_utf8(), |l| l.len())
        };
        out.push(rest[..end].to_string());
        rest = &rest[end..];
    }
    out
}

const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "255",
    "8w7",
    "8s3",
    "true",
    "_",
    "default",
    "...",
    "{#}",
    "{}",
    "{0, 1}",
    "bit<8>",
    "bit<0>",
    "int",
    "int<8>",
    "bool",
    "error",
    "varbit<8>",
    "string",
    "\"s\"",
    "void",
    "tuple<bit<8>>",
    "x",
    "this",
    "99999999999999999999",
    "error.NoError",
    "in",
    "out",
    "inout",
    "const",
    "exit;",
    "return;",
    "return 1;",
    "== 1",
    "+ 1",
    "[0]",
    "[3:0]",
    ".size",
    ".apply()",
    ".isValid()",
    "(1)",
    "()",
    "hdr",
    "meta",
    "standard_metadata",
    "packet",
    "NoAction",
    "exact",
    "lpm",
    "ternary",
    "1 &&& 2",
    "1 .. 2",
    "@name(\"n\")",
    "@name(\".n\")",
    "@optional",
];

fn mutate(r: &mut Random, tokens: &mut [String]) {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|i| !tokens[*i].trim().is_empty() && !tokens[*i].starts_with(['#', '/']))
        .collect();
    let (a, b) = (solid[r.below(solid.len())], solid[r.below(solid.len())]);
    match r.below(7) {
        0 => tokens[a].clear(),
        1 => tokens[a] = format!("{0} {0}", tokens[a]),
        2 => tokens.swap(a, b),
        3 => tokens[a] = tokens[b].clone(),
        4 => tokens[a] = format!(" {} ", WORDS[r.below(WORDS.len())]),
        5 => {
            let numbers: Vec<usize> =
                solid.iter().copied().filter(|i| tokens[*i].parse::<u32>().is_ok()).collect();
            if !numbers.is_empty() {
                tokens[numbers[r.below(numbers.len())]] = r.below(20).to_string();
            }
        }
        _ => {
            // A word for another: most such programs still parse.
            let word = |s: &String| s.chars().all(|c| c.is_alphanumeric() || c == '_');
            let words: Vec<usize> = solid.iter().copied().filter(|i| word(&tokens[*i])).collect();
            let (a, b) = (words[r.below(words.len())], words[r.below(words.len())]);
            tokens[a] = tokens[b].clone();
        }
    }
}

#[test]
fn no_program_makes_the_compiler_panic() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let accept = root.join("tests/accept");
    let loader = Dirs(vec![root.join("../../p4/include")]);
    let mut programs: Vec<(String, Vec<String>)> = Vec::new();
    for file in p4_files(&accept) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
        programs.push((file.to_string_lossy().into_owned(), pieces(&text)));
    }
    if let Some(p4c) = pointsman_needs::p4c("fuzz_semantics, with p4c's programs") {
        for file in p4_files(&p4c.join("testdata/p4_16_samples")) {
            let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
            if text.contains("v1model.p4") && text.contains("main;") {
                programs.push((file.to_string_lossy().into_owned(), pieces(&text)));
            }
        }
    }
    let cases = std::env::var("POINTSMAN_FUZZ_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_500);
    let mut r = Random(0x9E37_79B9_7F4A_7C15);
    let (mut refused, mut accepted) = (0, 0);
    for case in 0..cases {
        let (path, tokens) = &programs[r.below(programs.len())];
        let mut tokens = tokens.clone();
        for _ in 0..=r.below(5) / 3 {
            mutate(&mut r, &mut tokens);
        }
        let text = tokens.concat();
        match compile(path, &text, &loader, &[]) {
            Ok(_) => accepted += 1,
            Err(f) => {
                refused += 1;
                assert!(f.diagnostics.iter().any(|d| d.severity == Severity::Error));
                for d in &f.diagnostics {
                    // The verifier found an error that the compiler missed: a bug, unless it is a limit.
                    let limit = ["more than", "deeper"].iter().any(|w| d.message.contains(w));
                    assert!(d.code != "P0903" || limit, "case {case}: {}\n{text}", d.message);
                    assert!(d.help.is_some() || !d.label.is_empty(), "case {case}: {} {}", d.code, d.message);
                    render::to_text(&f.source_map, d, false);
                }
            }
        }
    }
    assert!(
        refused > cases / 2 && accepted > cases / 100,
        "{refused} refused, {accepted} accepted of {cases}"
    );
}
