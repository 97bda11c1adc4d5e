//! The crate's integration tests.

mod dependencies;
mod nsdi15;
mod p4te;
mod placing;
mod programs;
mod register_actions;
mod support;
mod targets;
