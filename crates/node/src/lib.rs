//! What runs on machines: the switch, the controller and agents as programs, with their threads, sockets, gRPC, HTTP, metrics and
//! files, and the flags of their commands.
//!
//! All decisions are made elsewhere: by the state machines of `v1model`, `control` and `balance`, to which this crate gives time,
//! frames and messages.

pub mod agent;
mod clock;
pub mod controller;
pub mod etcd;
pub mod http;
mod interfaces;
pub mod listen;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod network;
mod places;
pub mod rack_file;
pub mod service;
pub mod store;
pub mod switch;
