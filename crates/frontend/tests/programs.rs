//! The programs of this repository, and small ones in `tests/accept`, compile to programs that the verifier accepts.

use std::path::{Path, PathBuf};

use crate::common::{Dirs, p4_files};
use pointsman_frontend::{compile, render};

/// Compiles these files.
fn compile_all(files: Vec<PathBuf>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let loader = Dirs(vec![root.join("../../p4/include"), root.join("../../p4/lib")]);
    assert!(!files.is_empty(), "no programs");
    let mut failures = Vec::new();
    for file in files {
        let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
        let (map, diagnostics) = match compile(&file.to_string_lossy(), &text, &loader, &[]) {
            // Warnings about headers that are invalid and indices that are too large are wrong here.
            Ok(c) => (
                c.source_map,
                c.warnings.into_iter().filter(|d| ["P0707", "P0709", "P0710"].contains(&d.code)).collect(),
            ),
            Err(f) => (f.source_map, f.diagnostics),
        };
        failures.extend(diagnostics.iter().map(|d| render::to_text(&map, d, false)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn programs_of_the_repository() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/programs");
    let mut dirs: Vec<PathBuf> =
        std::fs::read_dir(&programs).expect("p4/programs").filter_map(|e| e.ok().map(|e| e.path())).collect();
    dirs.sort();
    compile_all(dirs.into_iter().map(|d| d.join("main.p4")).filter(|f| f.exists()).collect());
}

#[test]
fn accepted() {
    compile_all(p4_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accept")));
}
