//! No text makes the parser panic, overflow its stack or point outside of a file.

use std::path::Path;

use crate::common::{Dirs, p4_files};
use pointsman_frontend::{Define, parse_program, render};

/// xorshift64*: every run tries the same cases.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n.max(1)
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "abstract", "action", "actions", "apply", "bit", "bool", "break", "const", "continue", "control",
    "default", "else", "entries", "enum", "error", "exit", "extern", "false", "for", "header",
    "header_union", "if", "in", "inout", "int", "key", "list", "match_kind", "out", "package", "parser",
    "priority", "return", "select", "state", "string", "struct", "switch", "table", "this", "transition",
    "true", "tuple", "type", "typedef", "value_set", "varbit", "void", "_", "x", "y", "T", "F", "F(",
    "F(1, x)", "0", "1", "8w255", "4s0b1", "0x", "99w9w9", "\"s\"", "\"", "'", "é", "\u{0}", "\\", "\\\n",
    "/*", "*/", "//", "\n", "\n", "#", "\n#define F(a, ...) a ## 1 #a\n", "\n#define T F\n", "\n#if x\n",
    "\n#else\n", "\n#endif\n", "\n#include \"nested.p4\"\n", "\n#ifdef T\n", "##", "@", "@a(", "@pragma ",
    "(", ")", "(", ")", "[", "]", "{", "}", "{", "}", "{#}", "<", ">", "<", ">", ">=", "<=", "<<", "==",
    "!=", "&&&", "..", "...", "+:", "++", "+", "-", "*", "/", "|+|", "|-|=", "|", "&", "^", "~", "!", "?",
    ":", ",", ".", "=", "+=", ";", ";", ";", ";",
];

fn soup(r: &mut Random) -> String {
    let mut text = r
        .pick(&["", "control c() { apply {", "parser p() { state s {", "void f() {", "const int c ="])
        .to_string();
    for _ in 0..r.below(120) {
        text += r.pick(WORDS);
        text += r.pick(&["", " ", " ", " "]);
    }
    text
}

/// A piece of a program with a few changes.
fn mutated(r: &mut Random, programs: &[String]) -> String {
    let text = &programs[r.below(programs.len())];
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let from = r.below(lines.len());
    let mut piece: String = lines[from..(from + 60).min(lines.len())].concat();
    for _ in 0..=r.below(4) {
        let bounds: Vec<usize> = piece.char_indices().map(|(i, _)| i).chain([piece.len()]).collect();
        let a = bounds[r.below(bounds.len())];
        let b = bounds[r.below(bounds.len())].clamp(a, (a + 40).min(piece.len()));
        let b = (a..=b).rev().find(|i| piece.is_char_boundary(*i)).unwrap_or(a);
        let cut = piece[a..b].to_string();
        match r.below(4) {
            0 => piece.replace_range(a..b, ""),
            1 => piece.insert_str(a, r.pick(WORDS)),
            2 => piece.insert_str(a, &cut),
            _ => piece.replace_range(a..b, r.pick(WORDS)),
        }
    }
    piece
}

#[test]
fn no_text_makes_the_parser_panic() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut programs = Vec::new();
    for dir in [root.join("tests/syntax"), root.join("../../p4/include")] {
        for file in p4_files(&dir) {
            programs.push(String::from_utf8_lossy(&std::fs::read(file).expect("readable")).into_owned());
        }
    }
    let loader = Dirs(vec![root.join("../../p4/include")]);
    let mut r = Random(0x9E37_79B9_7F4A_7C15);
    let mut refused = 0;
    for case in 0..10_000 {
        let text = if case % 2 == 0 { soup(&mut r) } else { mutated(&mut r, &programs) };
        let (map, _, diags) = parse_program("fuzz.p4", &text, &loader, &[Define::set("x")]);
        refused += usize::from(!diags.is_empty());
        for d in &diags {
            for span in d.related.iter().map(|r| r.0).chain([d.span]) {
                let f = &map.files[span.file as usize].text;
                let inside = span.lo <= span.hi && f.get(span.lo as usize..span.hi as usize).is_some();
                assert!(inside, "case {case}: {d:?} is not a place in\n{text}");
            }
        }
        if let Some(d) = diags.last() {
            assert!(!render::to_text(&map, d, case % 4 == 0).is_empty());
            assert!(render::to_json(&map, d).starts_with('{'));
        }
    }
    assert!(refused > 5_000, "only {refused} cases were refused: these programs are not interesting");
}
