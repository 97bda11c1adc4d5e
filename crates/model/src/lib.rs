//! Model checking: all states that a system can reach within bounds.
//!
//! [`search`] knows nothing of packets. [`redplane`] is the system of two switches that run the compiled library of RedPlane, and its store.
#![forbid(unsafe_code)]

mod command;
pub mod redplane;
mod search;

pub use command::{Command, run};
pub use search::{Found, Model, Violation, search};
