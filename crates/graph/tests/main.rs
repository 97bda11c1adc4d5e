//! The integration tests of this crate: one program, because each costs a link. Every file here is a module of it.

mod corpus;
mod diagrams;

use pointsman_frontend::source::Loader;
use std::path::{Path, PathBuf};

/// Finds includes next to the including file and in folders.
pub struct Files(pub Vec<PathBuf>);

impl Files {
    /// With the files of the repository that are built into the binary.
    pub fn built_in() -> Files {
        Files(
            ["p4/include", "p4/lib"]
                .map(|d| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(d))
                .to_vec(),
        )
    }
}

impl Loader for Files {
    fn include(&self, name: &str, quoted: bool, from: &str) -> Option<(String, String)> {
        let near = quoted.then(|| Path::new(from).parent().map(Path::to_path_buf)).flatten();
        near.iter().chain(&self.0).find_map(|dir| {
            let path = dir.join(name);
            let text = std::fs::read(&path).ok()?;
            Some((path.display().to_string(), String::from_utf8_lossy(&text).into_owned()))
        })
    }
}
