//! The syntax of p4c's own test programs: programs that p4c accepts are accepted.
//!
//! `P4C_DIR` names a checkout of p4c; without it, the tests are skipped.

use std::path::Path;

use crate::common::{Dirs, p4_files};
use pointsman_frontend::diag::Severity;
use pointsman_frontend::{check_program, parse_program};
use pointsman_needs::p4c;

fn errors(p4c: &Path, file: &Path) -> Vec<String> {
    let text = String::from_utf8_lossy(&std::fs::read(file).expect("readable")).into_owned();
    let loader = Dirs(vec![p4c.join("p4include"), p4c.join("testdata/p4_16_samples")]);
    let (map, _, diags) = parse_program(&file.to_string_lossy(), &text, &loader, &[]);
    diags
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .map(|d| {
            let (line, column) = map.line_column(d.span);
            let path = map.path(d.span);
            format!("{path}:{line}:{column}: {} {}", d.code, d.message)
        })
        .collect()
}

#[test]
fn samples_are_accepted() {
    let Some(p4c) = p4c("p4c_corpus") else { return };
    let files = p4_files(&p4c.join("testdata/p4_16_samples"));
    let mut bad = Vec::new();
    for file in &files {
        if let Some(first) = errors(&p4c, file).first() {
            bad.push(first.clone());
        }
    }
    println!("{} of {} samples accepted", files.len() - bad.len(), files.len());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Samples with a state that goes to itself although nothing changes.
const ENDLESS: [&str; 0] = [];

#[test]
fn samples_whose_states_repeat() {
    let Some(p4c) = p4c("p4c_corpus") else { return };
    let loader = Dirs(vec![p4c.join("p4include"), p4c.join("testdata/p4_16_samples")]);
    let mut found = Vec::new();
    for file in p4_files(&p4c.join("testdata/p4_16_samples")) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
        let checked = check_program(&file.to_string_lossy(), &text, &loader, &[], &|_| false);
        if checked.diagnostics.iter().any(|d| d.code == "P0708") {
            found.push(file.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    assert_eq!(found, ENDLESS);
}

/// Rejected by p4c's parser, but for reasons that are not syntax here; the checker rejects them.
const LEFT_TO_CHECKER: [&str; 5] = [
    "annotation.p4",                       // the body that a known annotation must have
    "decl-error-with-duplicate-fields.p4", // a duplicate member
    "issue2283_2-bmv2.p4",                 // the body that a known annotation must have
    "type-in-expr-lex0.p4",                // the name of a type used as a value
    "type-in-expr-lex1.p4",
];

/// Refused by p4c, but after parsing.
const REFUSED_EARLIER: [&str; 3] = [
    "issue4142.p4",        // `bit<32>() main;`
    "issue435.p4",         // a method without return type
    "issue5437_action.p4", // `default_action = a()();`
];

#[test]
fn errors_are_told_apart() {
    let Some(p4c) = p4c("p4c_corpus") else { return };
    let mut bad = Vec::new();
    let (mut refused, mut accepted) = (0, 0);
    for file in &p4_files(&p4c.join("testdata/p4_16_errors")) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let output = p4c.join(format!("testdata/p4_16_errors_outputs/{name}-stderr"));
        let output = std::fs::read(output).unwrap_or_default();
        let syntax = String::from_utf8_lossy(&output).contains("syntax error");
        let found = errors(&p4c, file);
        let expected = match syntax {
            true => !LEFT_TO_CHECKER.contains(&name.as_str()),
            false => REFUSED_EARLIER.contains(&name.as_str()),
        };
        if expected == found.is_empty() {
            bad.push(format!("{name}: syntax errors expected: {expected}, found: {found:?}"));
        }
        refused += usize::from(!found.is_empty());
        accepted += usize::from(found.is_empty());
    }
    println!("{refused} wrong programs refused by their syntax, {accepted} left to the checker");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
