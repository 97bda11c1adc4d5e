//! From text and files to programs.

use pointsman_frontend::Define;
use pointsman_frontend::source::Loader;
use pointsman_ir::Program;
use std::path::{Path, PathBuf};

/// Reads includes next to a file and in p4/include and p4/lib.
struct Dirs;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Loader for Dirs {
    fn include(&self, name: &str, _quoted: bool, from: &str) -> Option<(String, String)> {
        let beside = Path::new(from).parent().map(Path::to_path_buf);
        let dirs = beside.into_iter().chain([root().join("p4/include"), root().join("p4/lib")]);
        dirs.map(|d| d.join(name)).find_map(|path| {
            let text = std::fs::read_to_string(&path).ok()?;
            Some((path.to_string_lossy().into_owned(), text))
        })
    }
}

/// Compiles a program.
pub fn compile(name: &str, text: &str) -> Program {
    compile_with(name, text, &[])
}

/// Compiles a program with these macros defined.
pub fn compile_with(name: &str, text: &str, defines: &[&str]) -> Program {
    let defines: Vec<Define> = defines.iter().map(|d| Define::set(d)).collect();
    match pointsman_frontend::compile(name, text, &Dirs, &defines) {
        Ok(compiled) => compiled.program,
        Err(failure) => panic!("{name}: {:?}", failure.diagnostics),
    }
}

/// A file of this repository.
pub fn file(path: &str) -> Program {
    let path = root().join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    compile(&path.to_string_lossy(), &text)
}
