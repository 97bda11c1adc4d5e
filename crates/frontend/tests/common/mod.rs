//! The common part of this crate's tests.

use std::path::{Path, PathBuf};

use pointsman_frontend::source::Loader;

/// Reads includes from directories, as the command line does.
pub struct Dirs(pub Vec<PathBuf>);

impl Loader for Dirs {
    fn include(&self, name: &str, quoted: bool, from: &str) -> Option<(String, String)> {
        let beside = quoted.then(|| Path::new(from).parent().map(Path::to_path_buf)).flatten();
        beside.iter().chain(&self.0).find_map(|dir| {
            let path = dir.join(name);
            let text = std::fs::read(&path).ok()?;
            Some((path.to_string_lossy().into_owned(), String::from_utf8_lossy(&text).into_owned()))
        })
    }
}

// Not every test lists files.
#[allow(dead_code)]
/// Files with the extension `.p4` in `dir`, in order of their names.
pub fn p4_files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "p4"))
        .collect();
    files.sort();
    files
}
