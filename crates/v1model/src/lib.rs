//! The v1model architecture, generic over the executor; no I/O.
//!
//! [`Pipeline::load`] checks a program and binds it to the architecture; a [`Switch`] runs packets through it: parser,
//! checksum verification, ingress, traffic manager, egress, checksum update, deparser. What a packet does after ingress
//! and after egress (clone, resubmit, multicast, recirculate, drop) follows BMv2's `simple_switch.md`.
//!
//! There are no sockets, threads or clocks here. Time comes as an argument, randomness from a seed: the same inputs at
//! the same times give the same outputs.
//!
//! ```text
//! receive --> input --> parser, verify, ingress --+--> queues --> egress, compute, deparser --+--> sink
//!              ^  ^                               |    ^                                       |
//!              |  +------- resubmit --------------+    +------- clone (egress) ----------------+
//!              +---------- recirculate --------------------------------------------------------+
//! ```
//!
//! # Where this differs from BMv2
//!
//! The documents leave some things open, and BMv2 does some that its users call surprising. Here:
//! - clones, resubmitted and recirculated packets keep `ingress_port` and `ingress_global_timestamp` of the packet that
//!   they come from (BMv2: zero);
//! - an ingress clone enters its second parse with `instance_type` and the preserved fields set, and keeps what the
//!   parser writes to other metadata (BMv2 throws that away afterwards);
//! - a priority for which there is no queue takes the queue of the highest priority (BMv2 drops the packet);
//! - a false `assert` or `assume` drops the packet and is reported (BMv2 ends the process);
//! - registers read zero out of range; `hash` with the `random` algorithm works;
//! - `packet_length` in egress counts every header that ingress added or removed, however it did so;
//! - a direct meter writes its result where the program reads it, not in every action of the table;
//! - calls that have no effect where they stand (`resubmit...` in egress, `verify_checksum` in ingress) are errors.

mod config;
mod counter;
mod env;
mod externs;
#[cfg(test)]
mod fake;
mod fields;
mod hash;
mod meter;
mod pipeline;
mod profile;
mod queue;
mod random;
mod register;
mod replication;
mod sites;
mod state;
mod stats;
mod switch;
mod tables;
mod time;
pub mod trace;
mod usage;

pub use config::{ConfigError, SwitchConfig};
pub use counter::{CounterArray, CounterCell, CounterKind};
pub use hash::{BitBuffer, Crc, CrcParams, HashAlgorithm, csum16, identity, xor16};
pub use meter::{Color, Meter, MeterArray, MeterConfig, MeterKind};
pub use pipeline::{Pipeline, Problem};
pub use profile::{ActionProfile, Group, GroupMember, OneShot, OneShotMember, ProfileError, SelectorConfig};
pub use queue::{QueueConfig, QueueStats};
pub use random::Random;
pub use register::Register;
pub use replication::{CloneSession, MAX_CLONE_SESSION, Replica, Replication, ReplicationError};
pub use state::{Digest, Event, EventKind, IdleEntry, SavedEntry, State, StateError};
pub use stats::{Anomalies, DropReason, PortStats, Stats};
pub use switch::{Keep, Output, PipelineError, Polled, Sink, Switch};
pub use tables::{DEFAULT_TABLE_SIZE, TableError, TableState};
pub use time::Time;
