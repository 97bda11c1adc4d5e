//! Our protocol definitions say the same as those that everybody uses: the PyPI package `p4runtime`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python interpreter with the package: `$POINTSMAN_PYTHON`, or the workspace's `.venv-finsy`.
fn python() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("POINTSMAN_PYTHON") {
        return Some(path.into());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-finsy/bin/python3");
    path.exists().then_some(path)
}

fn skip(why: &str) {
    eprintln!(
        "SKIP descriptors: {why}; to run it: python3 -m venv .venv-finsy && .venv-finsy/bin/pip install -r tests/clients/requirements-finsy.txt"
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
