//! Programs with the diagnostics that they must give, written into them.
//!
//! `//~ ERROR P0201 text` at the end of a line: there, an error with this code is reported, whose message contains the
//! text. `WARNING` likewise; `//~^` means the line above, each `^` one more. All diagnostics of the main file must be
//! foretold, and all that are foretold must come.

use std::path::{Path, PathBuf};

use crate::common::{Dirs, p4_files};
use pointsman_frontend::diag::{Diagnostic, Severity};
use pointsman_frontend::source::SourceMap;
use pointsman_frontend::{check_program, compile, parse_program, render};

struct Expected {
    line: usize,
    severity: Severity,
    code: String,
    text: String,
}

fn expectations(text: &str) -> Vec<Expected> {
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for mark in line.split("//~").skip(1) {
            let up = mark.chars().take_while(|c| *c == '^').count();
            let mut words = mark[up..].trim().splitn(3, ' ');
            let severity = match words.next() {
                Some("ERROR") => Severity::Error,
                Some("WARNING") => Severity::Warning,
                other => panic!("line {}: //~ must be followed by ERROR or WARNING, not {other:?}", i + 1),
            };
            let code = words.next().unwrap_or("").to_string();
            let text = words.next().unwrap_or("").to_string();
            out.push(Expected { line: i + 1 - up, severity, code, text });
        }
    }
    out
}

fn compare(map: &SourceMap, diags: &[Diagnostic], mut expected: Vec<Expected>) -> Vec<String> {
    let mut wrong = Vec::new();
    for d in diags {
        let line = map.line_column(d.span).0;
        let found = expected.iter().position(|e| {
            d.span.file == 0
                && e.line == line
                && e.severity == d.severity
                && e.code == d.code
                && d.message.contains(&e.text)
        });
        match found {
            Some(i) => drop(expected.remove(i)),
            None => wrong.push(format!("not expected:\n{}", render::to_text(map, d, false))),
        }
        if d.help.is_none() && d.label.is_empty() {
            wrong.push(format!("has neither help nor a label: {} {}", d.code, d.message));
        }
    }
    wrong.extend(
        expected.iter().map(|e| format!("line {}: missing {:?} {} {}", e.line, e.severity, e.code, e.text)),
    );
    wrong
}

/// Runs all programs of `tests/<dir>`.
fn run(dir: &str, diagnose: impl Fn(&str, &str, &Dirs) -> (SourceMap, Vec<Diagnostic>)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = root.join("tests").join(dir);
    let loader = Dirs(vec![root.join("../../p4/include"), PathBuf::from(&dir)]);
    let files = p4_files(&dir);
    assert!(!files.is_empty(), "no programs in {}", dir.display());
    let mut failures = Vec::new();
    for file in files {
        let path = file.to_string_lossy();
        let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
        let (map, diags) = diagnose(&path, &text, &loader);
        let wrong = compare(&map, &diags, expectations(&text));
        if !wrong.is_empty() {
            failures.push(format!("{path}:\n{}", wrong.join("\n")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn syntax() {
    run("syntax", |path, text, loader| {
        let (map, _, diags) = parse_program(path, text, loader, &[]);
        (map, diags)
    });
}

#[test]
fn warnings() {
    run("warnings", |path, text, loader| {
        let checked = check_program(path, text, loader, &[], &|package| package == "V1Switch");
        (checked.source_map, checked.diagnostics)
    });
}

#[test]
fn errors() {
    run("errors", |path, text, loader| match compile(path, text, loader, &[]) {
        Ok(c) => (c.source_map, c.warnings),
        Err(f) => (f.source_map, f.diagnostics),
    });
}
