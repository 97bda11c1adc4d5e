//! The v1model architecture, generic over the executor; no I/O.
//!
//! [`Pipeline::load`] checks a program and binds it to the architecture; a [`Switch`] runs packets through it: parser,
//! checksum verification, ingress, traffic manager, egress, checksum update, deparser. The steps of a packet after
//! ingress and after egress (clone, resubmit, multicast, recirculate, drop) follow BMv2's `simple_switch.md`.
//!
//! This crate uses no sockets, threads or clocks. Time comes as an argument, randomness from a seed: the same inputs at
//! the same times give the same outputs.
//!
//! ```text
//! receive --> input --> parser, verify, ingress --+--> queues --> egress, compute, deparser --+--> sink
//!              ^  ^                               |    ^                                       |
//!              |  +------- resubmit --------------+    +------- clone (egress) ----------------+
//!              +---------- recirculate --------------------------------------------------------+
//! ```
//!
//! For the meaning of every construct, and differences from BMv2, see `docs/v1model.md`.

#![forbid(unsafe_code)]

mod coded;
mod config;
mod counter;
mod env;
mod externs;
#[cfg(test)]
mod fake;
mod fields;
mod flat;
mod generator;
mod guarded;
mod hash;
mod meanings;
mod meter;
mod pipeline;
mod problem;
mod profile;
mod program_id;
mod queue;
mod random;
mod register;
mod replication;
mod sections;
mod sites;
mod state;
mod stats;
mod sum;
mod switch;
mod tables;
mod time;
pub mod trace;
pub mod units;
mod usage;

pub use coded::Malformed;
pub use config::{ConfigError, DEFAULT_MAX_DESCENDANTS, SwitchConfig};
pub use counter::{CounterArray, CounterCell, CounterKind};
pub use generator::{Generator, Made, Trigger};
pub use hash::{BitBuffer, Crc, CrcParams, HashAlgorithm, csum16, identity, xor16};
pub use meter::{Color, Meter, MeterArray, MeterConfig, MeterKind, RatesError};
pub use pipeline::Pipeline;
pub use problem::Problem;
pub use profile::{ActionProfile, Group, GroupMember, OneShot, OneShotMember, ProfileError, SelectorConfig};
pub use program_id::ProgramId;
pub use queue::{PortRate, QueueConfig, SharedBuffer};
pub use random::Random;
pub use register::Register;
pub use replication::{CloneSession, MAX_CLONE_SESSION, Replica, Replication, ReplicationError};
pub use state::{
    Digest, Event, EventKind, IdleEntry, Kept, RestoreError, SavedEntry, State, StateError, SwitchState,
    Watch,
};
pub use stats::{Anomalies, DropReason, PortStats, QueueCounts, Stats};
pub use switch::{
    Arrived, Keep, Loader, Output, PipelineError, Polled, Prepared, Preparer, Retired, Sink, Switch,
    WaitingPacket, Worker, Workspace,
};
pub use tables::{TableError, TableState, table_size};
pub use time::Time;
