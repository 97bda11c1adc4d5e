//! Programs of p4c's test suite, if `P4C_DIR` names a checkout of it: the samples, whatever their architecture, must be
//! right, and those with errors must be wrong, on the line that p4c names. What differs is listed in `data/` with the
//! reason, and the lists can only shrink.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Dirs, p4_files};
use pointsman_frontend::diag::Severity;
use pointsman_frontend::{Checked, check_program, render};
use pointsman_ir::Span;

/// Samples that are refused.
const REFUSED: &str = include_str!("data/p4c_refused_samples.txt");
/// Wrong programs that are right here.
const ACCEPTED: &str = include_str!("data/p4c_accepted_errors.txt");
/// Wrong programs where no error stands on the line that p4c names.
const ELSEWHERE: &str = include_str!("data/p4c_other_lines.txt");

/// No program of p4c's takes longer, on a slow and busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Name to reason.
fn listed(text: &'static str) -> BTreeMap<&'static str, &'static str> {
    text.lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(|l| l.split_once(": ").unwrap_or_else(|| panic!("{l}: write NAME: REASON")))
        .collect()
}

/// What `pointsman p4 check --include p4include` makes of each program in `dirs`, by file name.
fn outcomes(p4c: &Path, dirs: &[&str]) -> BTreeMap<String, Checked> {
    let samples = p4c.join("testdata/p4_16_samples");
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include");
    let loader = Dirs(vec![samples, p4c.join("p4include"), ours]);
    let mut out = BTreeMap::new();
    for dir in dirs {
        for file in p4_files(&p4c.join("testdata").join(dir)) {
            let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let start = Instant::now();
            let checked =
                check_program(&file.to_string_lossy(), &text, &loader, &[], &|package| package == "V1Switch");
            assert!(start.elapsed() < TIME_LIMIT, "{name} took {:?}", start.elapsed());
            out.insert(name, checked);
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

/// Where errors are, as p4c writes it: `file(line)`. Then where their labels point.
fn error_lines(checked: &Checked) -> [Vec<String>; 2] {
    let map = &checked.source_map;
    let line = |span: Span| {
        let path = map.files.get(span.file as usize).map_or("", |f| &f.path);
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
        format!("{name}({})", map.line_column(span).0)
    };
    let errors = || checked.diagnostics.iter().filter(|d| d.severity == Severity::Error);
    let labels = errors().flat_map(|d| d.related.iter().map(|(s, _)| line(*s)));
    [errors().map(|d| line(d.span)).collect(), labels.collect()]
}

/// The first `file(line)` of an error in what p4c says.
fn first_error(said: &str) -> Option<String> {
    said.lines().find_map(|l| {
        let (at, rest) = l.split_once("):")?;
        let (file, line) = at.rsplit_once('(')?;
        let rest = rest.trim_start();
        let rest = rest.strip_prefix('[').and_then(|r| r.split_once("] ")).map_or(rest, |(_, r)| r);
        let error = rest.starts_with("error") || rest.starts_with("syntax error");
        (error && file.ends_with(".p4") && line.chars().all(|c| c.is_ascii_digit()))
            .then(|| format!("{file}({line})"))
    })
}

/// Compares what differs with what is listed.
fn only_listed(list: &'static str, differ: &BTreeMap<String, String>, what: &str) {
    let known = listed(list);
    let mut surprises: Vec<String> = Vec::new();
    for (name, detail) in differ {
        if !known.contains_key(name.as_str()) {
            surprises.push(format!("{name} {what}: {detail}"));
        }
    }
    for name in known.keys().filter(|n| !differ.contains_key(**n)) {
        surprises.push(format!("{name}: not {what} any longer, take it off the list"));
    }
    assert!(surprises.is_empty(), "{} surprises:\n{}", surprises.len(), surprises.join("\n"));
}

#[test]
fn samples_are_right() {
    let Some(p4c) = checkout() else { return };
    let dirs = ["", "/dash", "/fabric_20190420", "/omec", "/pins", "/parser-inline", "/metrics"]
        .map(|d| format!("p4_16_samples{d}"));
    let outcomes = outcomes(&p4c, &dirs.each_ref().map(String::as_str));
    let wrong: BTreeMap<String, String> = outcomes
        .iter()
        .filter_map(|(name, c)| {
            let d = c.diagnostics.iter().find(|d| d.severity == Severity::Error)?;
            Some((name.clone(), render::to_text(&c.source_map, d, false)))
        })
        .collect();
    let v1model = |c: &&Checked| c.package.as_ref().is_some_and(|(p, _)| p == "V1Switch");
    let runnable = outcomes.values().filter(v1model).filter(|c| c.program.is_some()).count();
    let total = outcomes.len();
    println!("{} of {total} samples are right", total - wrong.len());
    println!("{runnable} of {} for V1Switch can run", outcomes.values().filter(v1model).count());
    only_listed(REFUSED, &wrong, "refused");
    // What the product promises.
    assert!(wrong.len() * 50 <= total, "less than 98 % are right");
}

#[test]
fn wrong_programs_are_refused_on_the_right_line() {
    let Some(p4c) = checkout() else { return };
    let outcomes = outcomes(&p4c, &["p4_16_errors"]);
    let (mut accepted, mut elsewhere) = (BTreeMap::new(), BTreeMap::new());
    let (mut right, mut labelled, mut lines, mut without) = (0, 0, 0, 0);
    for (name, c) in &outcomes {
        let output = p4c.join(format!("testdata/p4_16_errors_outputs/{name}-stderr"));
        let said = String::from_utf8_lossy(&std::fs::read(output).unwrap_or_default()).into_owned();
        let expected = first_error(&said);
        lines += usize::from(expected.is_some());
        without += usize::from(expected.is_none());
        if c.is_right() {
            accepted.insert(name.clone(), expected.unwrap_or("p4c names no line".into()));
        } else if let Some(expected) = expected {
            let [ours, labels] = error_lines(c);
            if ours.contains(&expected) {
                right += 1;
            } else if labels.contains(&expected) {
                labelled += 1;
            } else {
                elsewhere.insert(name.clone(), format!("{expected} for p4c, here {ours:?}"));
            }
        }
    }
    let total = outcomes.len();
    println!("{} of {total} wrong programs are refused", total - accepted.len());
    println!("p4c names the line of {lines}, and no line of {without}");
    println!("{right} have an error on that line, {labelled} an error that points at it");
    only_listed(ACCEPTED, &accepted, "accepted");
    only_listed(ELSEWHERE, &elsewhere, "refused elsewhere");
    // What the product promises.
    assert!((right + labelled) * 10 >= lines * 9, "less than 90 % on the right line");
}
