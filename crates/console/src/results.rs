//! Result files of commands.

use std::fs::OpenOptions;
use std::path::Path;

/// Whether `path`, named by `flag`, can be written. Checked before work that takes minutes; the file stays unchanged.
pub fn check_writable(path: &Path, flag: &str) -> Result<(), String> {
    let existed = path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|e| refused(path, flag, &e))?;
    if !existed {
        // Empty: not left behind if the run fails.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Writes the whole file that `flag` names.
pub fn write(path: &Path, flag: &str, text: impl AsRef<[u8]>) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| refused(path, flag, &e))
}

fn refused(path: &Path, flag: &str, error: &std::io::Error) -> String {
    format!("cannot write {}: {error}; choose another file with {flag}", path.display())
}
