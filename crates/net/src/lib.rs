//! A network in virtual time: the calendar of events, links, and switches that run compiled P4 programs.
//!
//! A [`Network`] carries frames between switches and hosts, and hands those for hosts and controllers to its caller, one by one. All that
//! happens comes out of its one calendar, the caller's own events included. There are no clocks, threads or files here.
#![forbid(unsafe_code)]

mod build;
mod calendar;
pub mod link;
mod loader;
mod network;
mod packet;
pub mod random;
mod turn;

pub use build::NetworkConfig;
pub use loader::Loader;
pub use network::{Cable, Happened, Network, PortCounts, Watch};
pub use packet::{Packet, mark_congestion};
