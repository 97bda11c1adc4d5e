//! Pointsman: accelerator-aware load balancing of connections in the network, and the P4 switch for it.
//!
//! Only this crate uses flags, files, threads, sockets and the wall clock.

pub mod learn;
pub mod p4;
mod parallel;
pub mod policy;
pub mod reproduce;
pub mod siege;
pub mod sim;
pub mod stats;
pub mod tools;
pub mod workload;
