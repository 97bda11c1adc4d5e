//! STF, the packet test language of p4c: one statement a line.
//!
//! | statement | meaning |
//! |---|---|
//! | `switch [cpu-port=N] [priority-queues=N] ...` | the switch of the test, before all other statements (ours) |
//! | `packet PORT HEX` | a packet arrives; what it causes happens before the next statement |
//! | `expect PORT [HEX][$] [@TIME]` | the next packet that leaves on that port; `*` stands for any digit; without `$` it may be longer; without data any packet does |
//! | `no_packet` | nothing has left since the last `packet` |
//! | `in_order` | packets leave in the order of the statements below that expect them, each before its own (ours) |
//! | `add TABLE [PRIORITY] KEY:MATCH ... ACTION(PARAM:VALUE, ...) [idle=TIME] [= ID]` | an entry; a larger priority wins; `$ID` names it from then on |
//! | `setdefault TABLE ACTION(...)` | the default action |
//! | `remove all` | every entry of every table that is not `const` |
//! | `remove TABLE [PRIORITY] KEY:MATCH ...`, `remove $ID` | one entry (ours) |
//! | `refuse "REASON" STATEMENT` | the switch refuses it, and says so (ours) |
//! | `check_counter NAME(INDEX) [packets\|bytes OP VALUE]` | `OP` is one of `==`, `!=`, `<`, `<=`, `>`, `>=`; for a direct counter `INDEX` is `$ID` or `default` |
//! | `counter_read NAME INDEX`, `counter_write NAME INDEX PACKETS BYTES` | |
//! | `register_read NAME INDEX`, `register_write NAME INDEX VALUE`, `register_reset NAME` | |
//! | `check_register NAME(INDEX) OP VALUE` | ours |
//! | `meter_get_rates NAME INDEX`, `meter_set_rates NAME INDEX RATE:BURST RATE:BURST`, `meter_array_set_rates NAME ...` | rates in units per microsecond; for a direct meter `INDEX` is `$ID` or `default` |
//! | `check_stat NAME OP VALUE`, `check_stat NAME(OF) OP VALUE` | what the switch counts (ours) |
//! | `expect_digest HEX`, `expect_log TEXT`, `expect_idle none`, `expect_idle $ID ...` | what it reports (ours) |
//! | `mirroring_add SESSION PORT[:INSTANCE] ... [group=N] [bytes=N] [class=N]`, `mirroring_add_mc SESSION GROUP`, `mirroring_delete SESSION`, `mirroring_get SESSION` | clone sessions |
//! | `mc_mgrp_create GROUP`, `mc_node_create INSTANCE PORT ...`, `mc_node_update NODE PORT ...`, `mc_node_associate GROUP NODE` | multicast; nodes are numbered from 0 |
//! | `member_create PROFILE MEMBER ACTION(...)`, `group_create PROFILE GROUP MEMBER[:WEIGHT[:PORT]] ... [size=N]` | action profiles and selectors (ours); entries of their tables do `member(MEMBER)` or `group(GROUP)` |
//! | `value_set_add NAME MATCH[,MATCH ...]` | a member of a parser value set (ours) |
//! | `crc16_custom POLYNOMIAL INITIAL FINAL_XOR REFLECT_IN REFLECT_OUT`, `crc32_custom ...` | parameters of hashes (ours) |
//! | `queue SETTING` | of queues, as [`queues::Setting`] (ours) |
//! | `generator NUMBER:period=TIME,port=PORT[,packets=N][,header=no],template=HEX`, `generator NUMBER:port-down,...`, `generator NUMBER:off` | a packet generator (ours) |
//! | `port_down PORT`, `port_up PORT` | the port has no carrier, or has one again (ours) |
//! | `wait [MILLISECONDS]`, `wait TIME`, `step TIME` | time passes, a second by default, or after each packet; packets may leave meanwhile |
//!
//! Packets expected on a port are matched in order, and there must be no others on any port that the test names. `#`
//! starts a comment. Matches are written as in [`entries::parse_match`]. Every statement is executed; one that is not
//! understood, or that the switch refuses, fails the test.

#![forbid(unsafe_code)]

mod command;
mod dump;
pub mod entries;
mod fill;
pub mod generator;
mod parse;
pub mod queues;
mod rig;
mod run;
mod settings;

pub use command::{Command, Condition, Index, Line};
pub use dump::{Dump, Part, dump};
pub use fill::fill;
pub use parse::parse;
pub use rig::{Rig, RigError};
pub use run::{run, run_watched};
pub use settings::{Settings, config};

use pointsman_v1model::Time;

/// An error of a test, or of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StfError {
    /// Line of the test, from 1.
    pub line: usize,
    /// The error.
    pub message: String,
}

impl std::fmt::Display for StfError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for StfError {}

/// The result of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Packets that arrived.
    pub packets_in: usize,
    /// Packets that left on ports that the test names.
    pub packets_out: usize,
    /// Packets that left on other ports: not checked.
    pub unchecked: usize,
    /// Deviations from the expected output; empty if the test passed.
    pub failures: Vec<Failure>,
}

/// A deviation from the expected output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line of the test, from 1; 0 if it is about the whole.
    pub line: usize,
    /// The deviation in words.
    pub message: String,
    /// The packets that it is about.
    pub kind: FailureKind,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// What deviates, for explanations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No packet left on a port that expected one.
    Missing {
        /// The port.
        port: u32,
        /// Lines of the `packet` statements that should have caused it.
        packets: Vec<usize>,
    },
    /// A packet with other bytes than expected.
    Differs {
        /// Expected hexadecimal digits in lower case, `*` for any.
        digits: String,
        /// It may not be longer.
        exact: bool,
        /// The packet.
        sent: Sent,
    },
    /// A packet that no statement expects.
    Unexpected(Sent),
    /// Packets in front of `no_packet`.
    NotNone(Vec<Sent>),
    /// Of a counter, register, meter, clone session or message, or of the time or order of a packet.
    Cell,
}

/// A packet that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Line of the statement during which it left.
    pub line: usize,
    /// The port.
    pub port: u32,
    /// How many packets left on this port before it during the statement.
    pub nth: usize,
    /// How many packets left on all ports before it.
    pub number: usize,
    /// When it left.
    pub at: Time,
    /// The packet.
    pub bytes: Vec<u8>,
}

impl Report {
    /// Whether everything was as expected.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}
