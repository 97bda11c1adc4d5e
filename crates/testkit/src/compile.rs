//! From a file to a program.

use crate::error::{ProgramError, described};
use pointsman_frontend::Define;
use pointsman_frontend::diag::Severity;
use pointsman_frontend::source::Loader;
use pointsman_ir::Program;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads includes from directories.
struct Dirs(Vec<PathBuf>);

impl Loader for Dirs {
    fn include(&self, name: &str, quoted: bool, from: &str) -> Option<(String, String)> {
        let beside = quoted.then(|| Path::new(from).parent().map(Path::to_path_buf)).flatten();
        beside.iter().chain(&self.0).find_map(|dir| {
            let path = dir.join(name);
            let text = read(&path).ok()?;
            Some((path.to_string_lossy().into_owned(), text))
        })
    }
}

fn read(path: &Path) -> Result<String, ProgramError> {
    let bytes = std::fs::read(path).map_err(|e| ProgramError::Read(path.to_path_buf(), e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Our own core.p4 and v1model.p4.
pub fn own_includes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include")
}

/// Our own libraries.
pub fn own_libraries() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/lib")
}

/// One of our programs: `p4/programs/<name>/main.p4`.
pub fn own_program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/programs").join(name).join("main.p4")
}

/// Compiles a program without a file; `includes` are searched for `#include`.
///
/// # Errors
/// The first error without its place, and a line for each.
pub fn compile_text(name: &str, text: &str, includes: &[&Path]) -> Result<Arc<Program>, (String, String)> {
    let loader = Dirs(includes.iter().map(|p| p.to_path_buf()).collect());
    match pointsman_frontend::compile(name, text, &loader, &[]) {
        Ok(compiled) => Ok(Arc::new(compiled.program)),
        Err(failure) => {
            let first = failure.diagnostics.iter().find(|d| d.severity == Severity::Error);
            let code = first.map_or_else(String::new, |d| format!("{} {}", d.code, d.message));
            Err((code, described(&failure)))
        }
    }
}

/// Compiles the program at `path`; `includes` are searched for `#include`.
///
/// # Errors
/// The file cannot be read, or the program does not compile.
pub fn compile(path: &Path, includes: &[&Path]) -> Result<Arc<Program>, ProgramError> {
    compile_with(path, includes, &[])
}

/// The same with macros, as the arguments of `-D`.
///
/// # Errors
/// As of [`compile`].
pub fn compile_with(path: &Path, includes: &[&Path], macros: &[&str]) -> Result<Arc<Program>, ProgramError> {
    let text = read(path)?;
    let loader = Dirs(includes.iter().map(|p| p.to_path_buf()).collect());
    let defines: Vec<Define> = macros.iter().map(|m| Define::set(m)).collect();
    match pointsman_frontend::compile(&path.to_string_lossy(), &text, &loader, &defines) {
        Ok(compiled) => Ok(Arc::new(compiled.program)),
        Err(failure) => Err(ProgramError::Compile(Box::new(failure))),
    }
}
