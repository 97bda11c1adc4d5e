//! The whole way of a packet, for people: the reports of its blocks, and the architecture's steps around them.
//!
//! Every copy of a packet (clone, multicast replica, resubmitted, recirculated) is a separate *thread*, which names its
//! origin. Steps are in the order in which they happened.

use crate::stats::DropReason;
use crate::time::Time;
use pointsman_ir::trace::TraceEvent;
use pointsman_ir::{ControlId, Entry, ParserId};

/// A trace holds no more steps: a packet may recirculate for ever.
pub const MAX_TRACE_STEPS: usize = 200_000;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceStep {
    /// Which packet, or which copy of one; from 1 in the order in which they came to be.
    pub thread: u32,
    /// When.
    pub time: Time,
    /// The kind of step.
    pub what: StepKind,
}

/// How a thread came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Cloned from ingress, for this session.
    IngressClone(u32),
    /// Cloned from egress, for this session.
    EgressClone(u32),
    /// A further replica of a multicast group or clone session.
    Replica,
    /// Resubmitted, keeping this field list.
    Resubmit(u32),
    /// Recirculated, keeping this field list.
    Recirculate(u32),
}

/// A block that the architecture runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The parser.
    Parser(ParserId),
    /// Checksums are verified.
    Verify(ControlId),
    /// Ingress.
    Ingress(ControlId),
    /// Egress.
    Egress(ControlId),
    /// Checksums are computed.
    Compute(ControlId),
    /// The deparser.
    Deparser(ControlId),
}

/// The kind of step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepKind {
    /// The packet came in.
    Received {
        /// On this port.
        port: u32,
        /// The packet.
        bytes: Vec<u8>,
    },
    /// A generator made the packet.
    Generated {
        /// The port as which it came in.
        port: u32,
        /// The packet.
        bytes: Vec<u8>,
    },
    /// This thread is a copy of another one.
    Copied {
        /// The thread that it came from.
        parent: u32,
        /// How.
        origin: Origin,
    },
    /// A block starts.
    Begin(Block),
    /// Something happened inside the block.
    Inside(TraceEvent),
    /// The entry that the look-up just reported hit.
    Hit(Entry),
    /// The parser is done.
    Parsed {
        /// False: it rejected. The packet still continues to ingress.
        accepted: bool,
        /// Index into the program's errors.
        error: u32,
        /// Bytes that were extracted or skipped.
        consumed_bytes: usize,
    },
    /// A checksum was wrong: `checksum_error` is set.
    ChecksumError,
    /// The block has ended.
    End {
        /// By `exit`.
        exited: bool,
    },
    /// A clone was requested, but its session does not exist or has no ports.
    NotCloned(u32),
    /// The packet goes to this many ports of a multicast group.
    Multicast {
        /// The group.
        group: u32,
        /// Copies, this one included.
        copies: usize,
    },
    /// It waits in the queue of an egress port.
    Enqueued {
        /// The port.
        port: u32,
        /// Priority of the queue.
        priority: u8,
        /// Packets that waited there before.
        depth: u32,
        /// `egress_rid`.
        instance: u16,
    },
    /// It leaves the queue.
    Dequeued {
        /// The port.
        port: u32,
        /// Microseconds that it waited.
        waited_us: u64,
    },
    /// It continues from the end of ingress to its start, or from the end of egress to the start of ingress, as this thread.
    Again(u32),
    /// It left.
    Sent {
        /// On this port.
        port: u32,
        /// To the control plane: the port is the CPU port.
        to_cpu: bool,
        /// The packet.
        bytes: Vec<u8>,
    },
    /// It went to the port of packets that are consumed.
    Consumed,
    /// It was dropped.
    Dropped(DropReason),
    /// The trace is full ([`MAX_TRACE_STEPS`]); later steps are missing.
    Cut,
}

/// The steps of the packets that are followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub steps: Vec<TraceStep>,
    threads: u32,
    pub now: Time,
}

impl Trace {
    /// A new thread.
    pub fn thread(&mut self) -> u32 {
        self.threads += 1;
        self.threads
    }

    /// Notes a step.
    pub fn step(&mut self, thread: u32, what: StepKind) {
        let what = match self.steps.len() {
            n if n < MAX_TRACE_STEPS => what,
            MAX_TRACE_STEPS => StepKind::Cut,
            _ => return,
        };
        self.steps.push(TraceStep { thread, time: self.now, what });
    }
}
