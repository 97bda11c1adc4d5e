//! The judgement of a whole history.

use crate::file::{FileError, read};
use crate::plain::{Plain, PlainError};
use crate::search::{Verdict, search};
use std::error::Error;
use std::fmt;

/// Attempts that the search for the order of one key's packets may make, beyond some for each packet.
const BUDGET: u64 = 1_000_000;

/// Why a history cannot be judged.
#[derive(Debug)]
pub enum CheckError {
    /// The file is not a history.
    File(FileError),
    /// Its program cannot be a specification.
    Plain(PlainError),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::File(e) => e.fmt(f),
            CheckError::Plain(e) => e.fmt(f),
        }
    }
}

impl Error for CheckError {}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Keys.
    pub keys: u64,
    /// Packets.
    pub operations: u64,
    /// Packets that were not received.
    pub unanswered: u64,
    /// Keys whose packets no order explains, with the packet that shows it: its number among the key's, from 0.
    pub violations: Vec<(String, usize)>,
    /// Keys for which the search was given up.
    pub undecided: Vec<String>,
}

impl Summary {
    /// Whether the packets of every key have an order.
    pub fn linearizable(&self) -> bool {
        self.violations.is_empty() && self.undecided.is_empty()
    }
}

/// Judges the text of a history: every key by itself.
///
/// # Errors
/// It is not a history, or its program does not run here.
pub fn check(text: &str) -> Result<Summary, CheckError> {
    let (header, operations) = read(text).map_err(CheckError::File)?;
    let mut plain = Plain::new(&header.program, &header.entries).map_err(CheckError::Plain)?;
    let mut summary = Summary::default();
    for (key, operations) in operations {
        let count = operations.len() as u64;
        summary.keys += 1;
        summary.operations += count;
        summary.unanswered += operations.iter().filter(|o| o.result.is_none()).count() as u64;
        match search(&mut plain, &operations, BUDGET + 2 * count) {
            Verdict::Linearizable => {}
            Verdict::Violation(at) => summary.violations.push((key, at)),
            Verdict::Undecided => summary.undecided.push(key),
        }
    }
    Ok(summary)
}
