//! Model checking: all states that a system can reach within bounds.
//!
//! [`search`] knows nothing of packets.
#![forbid(unsafe_code)]

mod search;

pub use search::{Found, Model, Violation, search};
