//! A rack in virtual time: the same switch, P4 program, controller and agents as on the wire, with links, clients and
//! devices around them that are simulated event by event.
//!
//! [`scenario::read`] reads a scenario, [`run`] simulates it once, and an [`Outcome`] holds the results. There
//! are no clocks, threads or files here: the same scenario and seed give the same outcome, bit for bit.
//!
//! ```text
//! client --> link --> switch (P4 program) --> link --> device: queue, workers
//!    ^                  ^  ^                              |   agent: sees the packets, sends reports
//!    +------------------+--|------------------------------+
//!                          +--- P4Runtime messages --- controller
//! ```

#![forbid(unsafe_code)]

pub mod arrivals;
pub mod check;
mod control_plane;
mod data_plane;
pub mod device;
mod error;
mod fault;
mod frame;
pub mod network;
pub mod oracle;
pub mod outcome;
pub mod scenario;
mod tcp;
pub mod timeline;
mod window;
mod world;

pub use data_plane::DataPlane;
pub use error::StartError;
pub use fault::Fault;
pub use outcome::Outcome;
pub use pointsman_net::{link, random};
pub use scenario::Scenario;
pub use world::{Question, Session, run};
