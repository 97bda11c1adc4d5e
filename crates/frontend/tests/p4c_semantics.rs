//! Programs of p4c's test suite, if `P4C_DIR` names a checkout of it: those for v1model must compile, those with
//! errors must be refused. What differs is listed in `data/` with the reason, and the lists can only shrink.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::{Dirs, p4_files};
use pointsman_frontend::diag::Severity;
use pointsman_frontend::{Failure, compile, render};

const REFUSED: &str = include_str!("data/p4c_refused_samples.txt");
const ACCEPTED: &str = include_str!("data/p4c_accepted_errors.txt");

/// Name to reason.
fn listed(text: &'static str) -> BTreeMap<&'static str, &'static str> {
    text.lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(|l| l.split_once(": ").unwrap_or_else(|| panic!("{l}: write NAME: REASON")))
        .collect()
}

/// First error of each program that `take` chooses; `None` if it compiles.
fn outcomes(dir: &Path, take: impl Fn(&str) -> bool) -> BTreeMap<String, Option<Failure>> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include");
    let loader = Dirs(vec![include, dir.to_path_buf()]);
    let mut out = BTreeMap::new();
    for file in p4_files(dir) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
        if take(&text) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            out.insert(name, compile(&file.to_string_lossy(), &text, &loader, &[]).err());
        }
    }
    out
}

fn checkout() -> Option<PathBuf> {
    let p4c = std::env::var_os("P4C_DIR").map(PathBuf::from);
    if p4c.is_none() {
        println!("SKIP: P4C_DIR names no checkout of p4c");
    }
    p4c
}

#[test]
fn samples_for_v1model_compile() {
    let Some(p4c) = checkout() else { return };
    let known = listed(REFUSED);
    let outcomes = outcomes(&p4c.join("testdata/p4_16_samples"), |text| text.contains("v1model.p4"));
    let mut surprises = Vec::new();
    for (name, failure) in &outcomes {
        match (failure, known.contains_key(name.as_str())) {
            (None, true) => surprises.push(format!("{name} compiles: take it off the list")),
            (Some(f), false) => {
                let d = f.diagnostics.iter().find(|d| d.severity == Severity::Error).expect("an error");
                surprises.push(render::to_text(&f.source_map, d, false));
            }
            _ => {}
        }
    }
    let passed = outcomes.values().filter(|f| f.is_none()).count();
    println!("{passed} of {} v1model samples compile", outcomes.len());
    assert!(surprises.is_empty(), "{} surprises:\n{}", surprises.len(), surprises.join("\n"));
}

#[test]
fn wrong_programs_are_refused() {
    let Some(p4c) = checkout() else { return };
    let known = listed(ACCEPTED);
    let outcomes = outcomes(&p4c.join("testdata/p4_16_errors"), |_| true);
    // That there is no `main` is not what these programs are about, nor that an include is missing.
    let refused = |f: &Option<Failure>| {
        f.as_ref().is_some_and(|f| {
            let mut errors = f.diagnostics.iter().filter(|d| d.severity == Severity::Error);
            errors.any(|d| !matches!(d.code, "P0505" | "P0111"))
        })
    };
    let mut surprises = Vec::new();
    for (name, failure) in &outcomes {
        match (refused(failure), known.contains_key(name.as_str())) {
            (true, true) => surprises.push(format!("{name} is refused: take it off the list")),
            (false, false) => surprises.push(format!("{name} is accepted")),
            _ => {}
        }
    }
    let count = outcomes.values().filter(|f| refused(f)).count();
    println!("{count} of {} wrong programs are refused", outcomes.len());
    assert!(surprises.is_empty(), "{} surprises:\n{}", surprises.len(), surprises.join("\n"));
}
