//! Programs of p4c's test suite, if `POINTSMAN_P4C` names a checkout of it: those for v1model must compile, those with
//! errors must be refused. Prints rates; `POINTSMAN_P4C_VERBOSE` prints why.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::{Dirs, p4_files};
use pointsman_frontend::diag::Severity;
use pointsman_frontend::{compile, render};

fn checkout() -> Option<PathBuf> {
    std::env::var_os("POINTSMAN_P4C").map(PathBuf::from)
}

fn loader(dir: &Path) -> Dirs {
    Dirs(vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include"), dir.to_path_buf()])
}

#[test]
fn samples_for_v1model_compile() {
    let Some(p4c) = checkout() else { return };
    let dir = p4c.join("testdata/p4_16_samples");
    let (mut total, mut passed) = (0, 0);
    let mut codes: BTreeMap<String, u32> = BTreeMap::new();
    for file in p4_files(&dir) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
        if !text.contains("v1model.p4") {
            continue;
        }
        total += 1;
        match compile(&file.to_string_lossy(), &text, &loader(&dir), &[]) {
            Ok(_) => passed += 1,
            Err(f) => {
                if let Some(d) = f.diagnostics.iter().find(|d| d.severity == Severity::Error) {
                    *codes.entry(d.code.to_string()).or_default() += 1;
                    if std::env::var_os("POINTSMAN_P4C_VERBOSE").is_some() {
                        println!("{}", render::to_text(&f.source_map, d, false));
                    }
                }
            }
        }
    }
    println!("{passed} of {total} v1model samples compile; first errors of the others: {codes:?}");
}

#[test]
fn wrong_programs_are_refused() {
    let Some(p4c) = checkout() else { return };
    let dir = p4c.join("testdata/p4_16_errors");
    let (mut total, mut refused) = (0, 0);
    for file in p4_files(&dir) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
        total += 1;
        match compile(&file.to_string_lossy(), &text, &loader(&dir), &[]) {
            Err(f) => {
                let codes: std::collections::BTreeSet<&str> =
                    f.diagnostics.iter().filter(|d| d.severity == Severity::Error).map(|d| d.code).collect();
                refused += 1;
                println!("{:?} {}", codes, file.file_name().unwrap_or_default().to_string_lossy());
            }
            Ok(_) => println!("accepted: {}", file.display()),
        }
    }
    println!("{refused} of {total} wrong programs are refused");
}
