//! RedPlane's state store: it keeps the state of switch programs outside of the switches, and grants switches leases on it
//! (Kim, "RedPlane", chapter 5 of the thesis; docs/redplane.md has the messages and the rules R1 to R13).
//!
//! [`Store`] is a state machine: datagrams and the time go in, datagrams come out. [`Replica`] is one as a node of a chain. Neither has sockets, threads or a clock.
//! Messages are data from strangers: [`Message::decode`] gives an error for everything that is malformed or forged.
#![forbid(unsafe_code)]

mod adopt;
mod binding;
mod chain;
mod config;
mod fixed;
mod holder;
mod image;
mod message;
mod outbox;
mod peers;
mod pool;
mod saved;
mod session;
mod shared;
mod snapshot;
mod stats;
mod store;
mod table;
mod waiting;

pub use binding::PortFigures;
pub use chain::{
    Address, ChainStats, Mail, Member, Place, Replica, ReplicaImage, Timing, UpdateError, View, ViewError,
    is_status,
};
pub use config::{Config, ConfigError, Rule};
pub use holder::{Holding, HoldingError, Standby};
pub use image::{Image, KeyImage};
pub use message::{
    FRONT, Flags, Head, Kind, MAX_KEY, MAX_VALUE, Malformed, Message, Secret, Status, TAIL, VERSION, later,
};
pub use outbox::Outbox;
pub use peers::Peer;
pub use pool::{Idle, Pool, PoolError};
pub use saved::{LoadError, Saved};
pub use shared::MAX_READERS;
pub use snapshot::MAX_CELLS;
pub use stats::Stats;
pub use store::Store;
pub use table::{Owner, Reader, Role};
