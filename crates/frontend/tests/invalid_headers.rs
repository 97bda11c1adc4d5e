//! Fields of headers that may be invalid, in p4c's own test programs: what p4c says of them, and what is said here.
//!
//! p4c looks at one block by itself and takes its parameters as valid; here, what the parser leaves counts. p4c warns
//! at every field, here once for a header on a path, so programs are compared, and lines one way only.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::{Dirs, p4_files};
use pointsman_frontend::check_program;
use pointsman_needs::p4c;

/// Lines of the main file.
type Lines = BTreeSet<usize>;

/// Lines where p4c warns, from its messages: `file.p4(12): [--Wwarn=invalid-header] ...`.
fn theirs(p4c: &Path, name: &str) -> Lines {
    let path = p4c.join(format!("testdata/p4_16_samples_outputs/{name}-stderr"));
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let warnings = text.lines().filter(|l| l.contains("[--Wwarn=invalid-header]"));
    let line = |l: &str| l.strip_prefix(name)?.strip_prefix('(')?.split(')').next()?.parse().ok();
    warnings.filter_map(line).collect()
}

/// Programs where only p4c warns: of elements of stacks and members of unions that are made valid elsewhere.
const ONLY_P4C: [&str; 17] = [
    "array_field.p4",
    "array_field1.p4",
    "gauntlet_mux_hdr-bmv2.p4",
    "invalid-hdr-warnings4.p4",
    "invalid-hdr-warnings5.p4",
    "invalid-hdr-warnings6.p4",
    "invalid-hdr-warnings7.p4",
    "invalid-hdr-warnings8.p4",
    "issue561.p4",
    "pna-dpdk-header-union-stack.p4",
    "pna-dpdk-header-union-stack2.p4",
    "pna-dpdk-invalid-hdr-warnings5.p4",
    "pna-dpdk-invalid-hdr-warnings6.p4",
    "stack-bmv2.p4",
    "stack-bvec-bmv2.p4",
    "stack-init.p4",
    "union4-bmv2.p4",
];

#[test]
fn compared_with_p4c() {
    let Some(p4c) = p4c("invalid_headers") else { return };
    let loader = Dirs(vec![p4c.join("p4include"), p4c.join("testdata/p4_16_samples")]);
    let files = p4_files(&p4c.join("testdata/p4_16_samples"));
    let (mut both, mut ours, mut only_p4c) = (0, 0, Vec::new());
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = String::from_utf8_lossy(&std::fs::read(file).expect("readable")).into_owned();
        let checked = check_program(&file.to_string_lossy(), &text, &loader, &[], &|_| false);
        let found = checked.diagnostics.iter().any(|d| matches!(d.code, "P0707" | "P0709"));
        match (found, !theirs(&p4c, &name).is_empty()) {
            (true, true) => both += 1,
            (true, false) => ours += 1,
            (false, true) => only_p4c.push(name),
            (false, false) => {}
        }
    }
    let n = files.len();
    println!(
        "{n} programs: both warn of {both}, only this front end of {ours}, only p4c of {}",
        only_p4c.len()
    );
    assert_eq!(only_p4c, ONLY_P4C);
    // Most programs of the second kind read a header that their parser never extracts.
    assert!(both >= 23 && ours <= 90, "{both} and {ours}");
}
