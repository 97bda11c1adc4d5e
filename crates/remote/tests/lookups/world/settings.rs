//! What happens in a run.

use super::Move;
use crate::switch::Faults;

/// A run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub faults: Faults,
    /// A server reads eight bytes at a time, in any order, while others may be written.
    pub adverse: bool,
    /// How long such a READ takes, at most.
    pub read_ns: u64,
    /// How long a change of the switch's own table takes each way, at most.
    pub control_ns: u64,
    /// How long a packet waits for a credit, or for a second answer, each time.
    pub wait_ns: u64,
    /// Mean time between changes; 0: none.
    pub change_ns: u64,
    /// Mean time between packets.
    pub gap_ns: u64,
    pub flows: u32,
    /// Cells of each server.
    pub cells: Vec<u32>,
    pub stash: usize,
    pub hold_ns: u64,
    /// A fault: copies of cells in the rows in front of theirs are not written.
    pub stale_shadows: bool,
    /// Whether each server has a replica of another one's cells.
    pub replicas: bool,
    /// The first server does not answer between these times from the start of the traffic.
    pub away: Option<(Away, u64, u64)>,
    /// So long after the start of the traffic a server ends a queue pair.
    pub breaks: Option<u64>,
    /// The table moves to other cells.
    pub moves: Vec<Move>,
    /// The program has a cache, and half of the packets are of eight flows, others from time to time.
    pub cache: Option<Keeps>,
}

/// What the cache is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// What the table asks for.
    All,
    /// A fault: cached entries keep their old values.
    OldValues,
}

/// Why a server does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// It hangs: what comes waits until it continues.
    Hangs,
    /// The switch's link to it is down.
    Port,
}
