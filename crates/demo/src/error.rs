//! Why the load that a rack carries cannot be measured.

use std::error::Error;
use std::fmt;
use std::io;

/// Why the load that a rack carries cannot be measured.
#[derive(Debug)]
pub enum DemoError {
    /// The limit of open files cannot be raised.
    OpenFiles(io::Error),
    /// The rack does not run.
    Live(pointsman_live::Error),
    /// The client cannot send requests.
    Lab(pointsman_lab::Error),
    /// The rack has no client.
    NoClient,
    /// Not one of so many requests has an answer, although nothing else runs.
    NoAnswer(u64),
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::OpenFiles(e) => write!(f, "cannot raise the limit of open files: {e}"),
            DemoError::Live(e) => e.fmt(f),
            DemoError::Lab(e) => e.fmt(f),
            DemoError::NoClient => f.write_str("the rack has no client"),
            DemoError::NoAnswer(sent) => {
                write!(f, "none of {sent} requests was answered on an idle rack; see --verbose")
            }
        }
    }
}

impl Error for DemoError {}

impl From<pointsman_live::Error> for DemoError {
    fn from(e: pointsman_live::Error) -> Self {
        DemoError::Live(e)
    }
}

impl From<pointsman_lab::Error> for DemoError {
    fn from(e: pointsman_lab::Error) -> Self {
        DemoError::Lab(e)
    }
}
