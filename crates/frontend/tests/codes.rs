//! The documentation of diagnostics is complete: every code that the source uses is explained, and docs/diagnostics.md
//! matches `pointsman p4 explain`.

use pointsman_frontend::codes;
use std::collections::BTreeSet;
use std::path::Path;

/// The codes in quotes in a source file.
fn codes_of(text: &str, found: &mut BTreeSet<String>) {
    let text = text.split("#[cfg(test)]").next().unwrap_or("");
    for (i, _) in text.match_indices("\"P") {
        let code = text.get(i + 1..i + 6).unwrap_or("");
        if code.bytes().skip(1).all(|b| b.is_ascii_digit()) && text[i + 6..].starts_with('"') {
            found.insert(code.to_string());
        }
    }
}

fn walk(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).expect("readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("codes.rs") {
            codes_of(&std::fs::read_to_string(&path).expect("text"), found);
        }
    }
}

#[test]
fn every_code_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut used = BTreeSet::new();
    walk(&root.join("src"), &mut used);
    walk(&root.join("../compile/src"), &mut used);
    let explained: BTreeSet<String> = codes::ALL.iter().map(|e| e.code.to_string()).collect();
    let missing: Vec<_> = used.difference(&explained).collect();
    let gone: Vec<_> = explained.difference(&used).collect();
    assert!(missing.is_empty(), "not explained in src/codes.rs: {missing:?}");
    assert!(gone.is_empty(), "explained in src/codes.rs, but not used: {gone:?}");
}

#[test]
fn the_documentation_says_the_same() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnostics.md");
    if std::env::var_os("POINTSMAN_WRITE_DOCS").is_some() {
        std::fs::write(&path, codes::markdown()).expect("writable");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == codes::markdown(),
        "docs/diagnostics.md differs from src/codes.rs: run this test with POINTSMAN_WRITE_DOCS=1"
    );
}
