//! Services, devices, policies and reports: controller and agent as state machines.
//!
//! Nothing here has a clock, a socket or a thread: time and input are arguments, so the same code runs on the wire and
//! in a simulator.
//!
//! - [`config`]: `rack.toml`, checked once;
//! - [`api`]: requests to the controller, and their effects;
//! - [`agent`]: the program on every device;
//! - [`controller`]: fills the switch's tables;
//! - [`learn`]: learns the weights of accelerators (P4Wise);
//! - [`plan`]: configuration to table entries;
//! - [`blocks`]: policies as configurations of the data plane's blocks;
//! - [`members`]: members that join and leave by themselves;
//! - [`mcdm`]: decisions by many criteria;
//! - [`program`]: the data plane, as P4 source;
//! - [`state`]: what the data plane keeps in its registers and counters, decoded;
//! - [`settle`]: connections that move to servers' memory and leave it;
//! - [`report`]: the load reports that agents send to the switch;
//! - [`frame_report`]: the same in separate Ethernet frames;
//! - [`trust`]: the keys that they are signed with.

#![forbid(unsafe_code)]

pub mod agent;
pub mod api;
pub mod blocks;
pub mod config;
pub mod controller;
pub mod frame_report;
pub mod learn;
pub mod mcdm;
pub mod members;
pub mod plan;
pub mod program;
pub mod report;
pub mod settle;
pub mod state;
pub mod trust;
pub mod types;

pub use config::{ConfigErrors, Rack};
pub use types::{DeviceKind, DeviceNumber, Mac, Policy, Prefix, Protocol};
