//! What traces say about packets: step by step as text and as JSON, why a packet test failed, and what a set of tests covers.
//!
//! Everything here is a function of a program, its sources and the steps that a traced switch reported
//! ([`pointsman_v1model::trace`]).

#![forbid(unsafe_code)]

pub mod coverage;
mod describe;
mod events;
mod fields;
pub mod filter;
pub mod show;
mod way;
pub mod why;

pub use describe::{Described, Describer};
