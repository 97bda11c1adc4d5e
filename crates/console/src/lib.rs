//! What passes between a command and its user: messages, a progress bar, files of results, a folder for a run, signals.

#![forbid(unsafe_code)]

pub mod folder;
pub mod progress;
pub mod results;
pub mod signals;

use std::io::{self, Write};
use std::path::Path;

/// Prints one line. A closed pipe (`2>&1 | head`) is not a reason to stop.
pub fn say(line: &str) {
    show(&format!("pointsman: {line}\n"));
}

/// The message for a file or folder that cannot be read.
pub fn unreadable(path: &Path, e: &io::Error) -> String {
    let remedy = match e.kind() {
        io::ErrorKind::PermissionDenied => "make it readable",
        _ => "check the path",
    };
    format!("cannot read {}: {e}; {remedy}", path.display())
}

/// Writes text unchanged, such as diagnostics.
pub fn show(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes a command's result to standard output, which may be a closed pipe.
pub fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
