//! Whether what was observed can come from one sequential system: linearizability (Herlihy and Wing, 1990), by the search of Wing and
//! Gong with the memory of Lowe ("Testing for linearizability", 2017).
//!
//! [`search`] knows nothing of packets: a [`Specification`] says what the system does. [`Plain`] is a P4 program on the interpreter;
//! [`mod@file`] reads and writes recorded histories, [`check`] judges one.
#![forbid(unsafe_code)]

mod check;
pub mod file;
mod plain;
mod search;

pub use check::{CheckError, Summary, check};
pub use plain::{Plain, PlainError};
pub use search::{Operation, Specification, Verdict, search};
