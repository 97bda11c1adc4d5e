//! p4c's own packet tests on our front end, executor and switch.
//!
//! `P4C_DIR` names a checkout of p4c; without it, the test is skipped. Tests that fail are listed
//! with the reason in `data/stf_known_failures.txt`; one that fails and is not listed, or is listed and passes, is an
//! error, so the list can only shrink.

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_testkit::ProgramError;
use pointsman_testkit::compile::own_includes;
use pointsman_testkit::stf::{Report, run_stf};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const KNOWN: &str = include_str!("data/stf_known_failures.txt");

/// Name to reason.
fn known_failures() -> BTreeMap<&'static str, &'static str> {
    KNOWN
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(|l| l.split_once(": ").unwrap_or_else(|| panic!("{l}: write NAME: REASON")))
        .collect()
}

/// Tests whose program is for v1model.
fn tests(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "stf"))
        .filter(|p| {
            let program = std::fs::read(p.with_extension("p4")).unwrap_or_default();
            String::from_utf8_lossy(&program).contains("v1model.p4")
        })
        .collect();
    found.sort();
    found
}

fn outcome(samples: &Path, stf: &Path) -> Result<(), String> {
    let text = std::fs::read(stf).map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&text);
    let (program, includes) = (stf.with_extension("p4"), [own_includes(), samples.to_path_buf()]);
    let includes = [includes[0].as_path(), includes[1].as_path()];
    let interp = verdict(run_stf::<Interp>(&program, &includes, &text));
    // Both executors do the same, right or wrong.
    let engine = verdict(run_stf::<Engine>(&program, &includes, &text));
    if interp == engine {
        return interp;
    }
    Err(format!("the executors differ: interp {interp:?}, engine {engine:?}"))
}

fn verdict(report: Result<Report, ProgramError>) -> Result<(), String> {
    let report = report.map_err(|e| e.to_string())?;
    match report.failures.first() {
        None => Ok(()),
        Some(first) => Err(format!("{first} ({} failures)", report.failures.len())),
    }
}

#[test]
fn packet_tests_of_p4c() {
    let Some(p4c) = pointsman_needs::p4c("packet_tests_of_p4c") else { return };
    let known = known_failures();
    let mut problems = Vec::new();
    let (mut total, mut passed) = (0, 0);
    let mut listed = 0;
    for dir in ["testdata/p4_16_samples", "testdata/p4_16_samples/parser-inline"] {
        let samples = p4c.join(dir);
        for stf in tests(&samples) {
            let name = stf.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            total += 1;
            let result = std::panic::catch_unwind(|| outcome(&samples, &stf))
                .unwrap_or_else(|_| Err("a panic".to_string()));
            passed += usize::from(result.is_ok());
            let reason = known.get(name.as_str());
            listed += usize::from(reason.is_some());
            match (result, reason) {
                (Ok(()), Some(_)) => problems.push(format!("{name} passes: take it off the list")),
                (Err(e), None) => problems.push(format!("{name}: {e}")),
                _ => {}
            }
        }
    }
    println!("{passed} of {total} packet tests of p4c pass, {} are known to fail", known.len());
    assert_eq!(listed, known.len(), "the list names tests that do not exist");
    assert!(problems.is_empty(), "{} surprises:\n{}", problems.len(), problems.join("\n"));
}
