//! The syntax of p4c's own test programs: what p4c accepts is accepted.
//!
//! `POINTSMAN_P4C` names a checkout of p4c; without it, the tests only say that they are skipped.

mod common;

use std::path::{Path, PathBuf};

use common::{Dirs, p4_files};
use pointsman_frontend::diag::Severity;
use pointsman_frontend::parse_program;

fn checkout() -> Option<PathBuf> {
    let dir = std::env::var_os("POINTSMAN_P4C").map(PathBuf::from);
    if dir.is_none() {
        eprintln!("SKIP: POINTSMAN_P4C names no checkout of p4c");
    }
    dir
}

fn errors(p4c: &Path, file: &Path) -> Vec<String> {
    let text = String::from_utf8_lossy(&std::fs::read(file).expect("readable")).into_owned();
    let loader = Dirs(vec![p4c.join("p4include"), p4c.join("testdata/p4_16_samples")]);
    let (map, _, diags) = parse_program(&file.to_string_lossy(), &text, &loader, &[]);
    diags
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .map(|d| {
            let (line, column) = map.line_column(d.span);
            let path = &map.files[d.span.file as usize].path;
            format!("{path}:{line}:{column}: {} {}", d.code, d.message)
        })
        .collect()
}

#[test]
fn samples_are_accepted() {
    let Some(p4c) = checkout() else { return };
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
