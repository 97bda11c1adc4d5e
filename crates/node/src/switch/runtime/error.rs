//! What goes wrong with a switch that runs.

use pointsman_v1model::ConfigError;
use std::{fmt, io};

/// Why a switch ended before it was stopped.
#[derive(Debug)]
pub enum RunError {
    /// The kernel refuses a thread for packets.
    Thread(io::Error),
    /// The kernel does not let a worker wait for packets.
    Wait(io::Error),
    /// A worker panicked.
    Panicked,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Thread(e) => write!(f, "cannot start a thread for packets: {e}"),
            RunError::Wait(e) => write!(f, "cannot wait for packets: {e}"),
            RunError::Panicked => f.write_str("a worker panicked; the switch has stopped"),
        }
    }
}

impl std::error::Error for RunError {}

/// A packet generator that the switch cannot have.
#[derive(Debug)]
pub struct GeneratorError {
    pub(super) number: u16,
    pub(super) error: ConfigError,
}

impl fmt::Display for GeneratorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--generator {}: {}", self.number, self.error)
    }
}

impl std::error::Error for GeneratorError {}
