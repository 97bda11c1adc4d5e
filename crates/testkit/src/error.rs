//! Why a program of a test cannot run.

use pointsman_frontend::Failure;
use pointsman_frontend::diag::Severity;
use pointsman_stf::{RigError, StfError};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a program of a test cannot run.
#[derive(Debug)]
pub enum ProgramError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The program does not compile.
    Compile(Box<Failure>),
    /// The switch refuses the program.
    Rig(RigError),
    /// A line of the test is not understood, or cannot be carried out.
    Test(StfError),
}

impl fmt::Display for ProgramError {
    /// Errors of the compiler one a line, with their places.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Read(path, e) => write!(f, "{}: {e}", path.display()),
            ProgramError::Compile(failure) => f.write_str(&described(failure)),
            ProgramError::Rig(e) => e.fmt(f),
            ProgramError::Test(e) => e.fmt(f),
        }
    }
}

impl Error for ProgramError {}

/// A line for each error of the compiler.
pub(crate) fn described(failure: &Failure) -> String {
    let errors = failure.diagnostics.iter().filter(|d| d.severity == Severity::Error);
    let lines = errors.map(|d| {
        let (line, column) = failure.source_map.line_column(d.span);
        format!("{}:{line}:{column}: {} {}", failure.source_map.path(d.span), d.code, d.message)
    });
    lines.collect::<Vec<_>>().join("\n")
}
