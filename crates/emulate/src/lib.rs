//! `pointsman net`: networks of hosts and switches on this machine, from the topology files of p4lang/tutorials and p4-utils.
//!
//! [`read::read`] and [`runtime::read`] are pure: the text of a file in, a [`plan::Plan`] or P4Runtime's updates out, or all problems with

#![forbid(unsafe_code)]

pub mod commands;
pub mod entries;
pub mod fields;
pub mod json;
pub mod plan;
pub mod prompt;
pub mod read;
pub mod runtime;
