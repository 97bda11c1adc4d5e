//! Our protocol definitions equal the widely used ones of the PyPI package `p4runtime`.

use pointsman_needs::{python, skip};
use std::path::Path;
use std::process::Command;

#[test]
fn descriptors_agree_with_the_published_ones() {
    let Some(python) = python("descriptors", "finsy") else { return };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("descriptors.bin");
    std::fs::write(&file, pointsman_control::proto::DESCRIPTORS).expect("the target directory is writable");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/descriptors.py");
    let output = Command::new(&python).arg(script).arg(&file).output().expect("the interpreter starts");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(77) => skip("descriptors", text.trim()),
        Some(0) => println!("{}", text.trim()),
        _ => panic!("the definitions differ:\n{text}"),
    }
}
