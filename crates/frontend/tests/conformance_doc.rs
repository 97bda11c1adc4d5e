//! docs/conformance.md names every program that the lists of exceptions name, with the same reason.

use std::path::Path;

#[test]
fn every_exception_is_in_the_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let doc = std::fs::read_to_string(root.join("../../docs/conformance.md")).expect("docs/conformance.md");
    let mut missing = Vec::new();
    for list in ["p4c_refused_samples.txt", "p4c_accepted_errors.txt", "p4c_other_lines.txt"] {
        let text = std::fs::read_to_string(root.join("tests/data").join(list)).expect(list);
        for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (name, reason) = line.split_once(": ").expect("NAME: REASON");
            let row = format!("| {} | {reason} |", name.trim_end_matches(".p4"));
            if !doc.contains(&row) {
                missing.push(row);
            }
        }
    }
    assert!(missing.is_empty(), "not in docs/conformance.md:\n{}", missing.join("\n"));
}
