//! The crate's integration tests.

mod dependencies;
mod nsdi15;
mod placing;
mod programs;
mod support;
mod targets;
