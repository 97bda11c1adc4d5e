//! The one error type of the crate: failure, cause and remedy.

use std::fmt;
use std::io;

/// An operation of the laboratory that could not be done.
///
/// Prints on one line: the operation, the cause, and the remedy if one is known.
#[derive(Debug)]
pub struct Error {
    what: String,
    cause: Option<io::Error>,
    remedy: Option<String>,
}

/// Result with the crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error found by this crate, such as a configuration value out of range.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None, remedy: None }
    }

    /// A failed system call: `what` names the operation and its object.
    pub fn os(what: impl Into<String>, cause: io::Error) -> Self {
        let remedy = match cause.raw_os_error() {
            Some(libc::EMFILE) => Some("raise the hard limit of open files, as root with `ulimit -Hn`"),
            Some(libc::ENFILE) => Some("raise the limit of all open files, `sysctl fs.file-max`"),
            _ => None,
        };
        Self { what: what.into(), cause: Some(cause), remedy: remedy.map(String::from) }
    }

    /// Adds a remedy for the user.
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The operating system's error, if the failure was a system call's.
    pub fn io(&self) -> Option<&io::Error> {
        self.cause.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        if let Some(remedy) = &self.remedy {
            write!(f, "; {remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_a_remedy() {
        let text = |code| Error::os("host 10.0.0.1", io::Error::from_raw_os_error(code)).to_string();
        assert!(
            text(libc::EMFILE).ends_with("; raise the hard limit of open files, as root with `ulimit -Hn`")
        );
        assert!(text(libc::ENFILE).contains("fs.file-max"));
        assert!(!text(libc::EPERM).contains(';'));
    }
}
