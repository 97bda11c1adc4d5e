//! Pointsman: accelerator-aware load balancing of connections in the network, and the P4 switch for it.
//!
//! Only this crate uses flags, files, threads, sockets and the wall clock.

pub mod agent;
pub mod bench;
pub mod controller;
pub mod demo;
pub mod http;
pub mod learn;
pub mod live;
pub mod metrics;
pub mod p4;
mod parallel;
pub mod policy;
pub mod rack_file;
pub mod reproduce;
pub mod siege;
pub mod sim;
pub mod stats;
pub mod switch;
pub mod tools;
pub mod workload;
