//! Our protocol definitions equal the widely used ones of the PyPI package `p4runtime`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python interpreter with the package: `$POINTSMAN_PYTHON_FINSY`, or that of the workspace's `.venv-finsy`.
fn python() -> Option<PathBuf> {
    let path = std::env::var_os("POINTSMAN_PYTHON_FINSY").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-finsy/bin/python3"),
        PathBuf::from,
    );
    path.exists().then_some(path)
}

/// If the environment is declared to exist, as in CI, its absence is a failure.
fn skip(why: &str) {
    assert!(std::env::var_os("POINTSMAN_REQUIRE_CLIENTS").is_none(), "descriptors: {why}");
    // Past the harness, which keeps the output of tests that pass to itself.
    let _ = writeln!(
        std::io::stderr(),
        "SKIP: descriptors: {why}; to run it: python3 -m venv .venv-finsy && .venv-finsy/bin/pip install -r \
         tests/clients/requirements-finsy.txt"
    );
}

#[test]
fn descriptors_agree_with_the_published_ones() {
    let Some(python) = python() else { return skip("no Python environment") };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("descriptors.bin");
    std::fs::write(&file, pointsman_control::proto::DESCRIPTORS).expect("the target directory is writable");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/descriptors.py");
    let output = Command::new(&python).arg(script).arg(&file).output().expect("the interpreter starts");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(77) => skip(text.trim()),
        Some(0) => println!("{}", text.trim()),
        _ => panic!("the definitions differ:\n{text}"),
    }
}
