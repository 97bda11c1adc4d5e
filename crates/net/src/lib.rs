//! A network in virtual time: the calendar of events, links, and switches that run compiled P4 programs.
//!
//! A [`Network`] carries frames between the switches and hosts of a topology, and hands those for hosts and controllers to its
//! caller, one by one. There are no clocks, threads or files here.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod link;
mod loader;
mod network;
mod node;
mod packet;
pub mod random;

pub use loader::Loader;
pub use network::{Happened, Network, NetworkConfig, PortCounts, Watch};
pub use node::Node;
pub use packet::{Packet, mark_congestion};
