//! Every file with tests belongs to a test program: crates that merge theirs into few programs name them in their manifest.

use std::path::Path;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The files and folders directly in a crate's `tests` that no program of this crate contains.
fn forgotten(folder: &Path) -> Vec<String> {
    let manifest = read(&folder.join("Cargo.toml"));
    let tests = folder.join("tests");
    if !manifest.contains("autotests = false") || !tests.is_dir() {
        return Vec::new();
    }
    let names = std::fs::read_dir(&tests).expect("readable").map(|e| e.expect("readable").file_name());
    let names: Vec<String> = names.map(|n| n.to_string_lossy().into_owned()).collect();
    let stems: Vec<&str> = names
        .iter()
        .map(|n| n.strip_suffix(".rs").unwrap_or(n))
        .filter(|n| tests.join(n).join("mod.rs").exists() || tests.join(format!("{n}.rs")).exists())
        .collect();
    let is_root = |stem: &str| {
        manifest.contains(&format!("path = \"tests/{stem}.rs\""))
            || manifest.contains(&format!("[[test]]\nname = \"{stem}\"\n"))
    };
    let roots: String =
        stems.iter().filter(|s| is_root(s)).map(|s| read(&tests.join(format!("{s}.rs")))).collect();
    let missing = |s: &&&str| !is_root(s) && !roots.lines().any(|l| l == format!("mod {s};"));
    stems.iter().filter(missing).map(|s| format!("{}/tests/{s}", folder.display())).collect()
}

#[test]
fn every_test_belongs_to_a_program() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders: Vec<_> =
        std::fs::read_dir(crates).expect("readable").map(|e| e.expect("readable").path()).collect();
    let forgotten: Vec<String> = folders.iter().flat_map(|f| forgotten(f)).collect();
    assert!(folders.len() > 10);
    assert!(forgotten.is_empty(), "in no test program, see main.rs next to them: {}", forgotten.join(", "));
}
