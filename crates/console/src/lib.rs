//! What passes between a command and its user: messages, a progress bar, files of results, a folder for a run, signals.

#![forbid(unsafe_code)]

pub mod folder;
pub mod progress;
pub mod results;
pub mod signals;

use std::error::Error;
use std::fmt;
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

/// Standard output cannot be written.
#[derive(Debug)]
pub struct PrintError(io::Error);

impl fmt::Display for PrintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write to standard output: {}", self.0)
    }
}

impl Error for PrintError {}

/// Writes a command's result to standard output. A closed pipe, such as with `head`, is not an error.
///
/// # Errors
/// It cannot be written.
pub fn print<T: AsRef<[u8]> + ?Sized>(text: &T) -> Result<(), PrintError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(PrintError(e)),
        _ => Ok(()),
    }
}
