//! The whole way of a packet, for people: the reports of its blocks, and the architecture's steps around them.
//!
//! Every copy of a packet (clone, multicast replica, resubmitted, recirculated) is a separate *thread*, which names its
//! origin. Steps are in the order in which they happened.

use crate::stats::DropReason;
use crate::time::Time;
use pointsman_ir::trace::TraceEvent;
use pointsman_ir::{ControlId, Entry, ParserId, Program};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

/// The most steps that a trace of followed packets holds until they are taken.
pub const MAX_FOLLOWED_STEPS: usize = 20_000;

/// Whether packets with this port and these bytes are followed.
pub type Wants = Arc<dyn Fn(u32, &[u8]) -> bool + Send + Sync>;

/// Which packets a switch that works for others meanwhile follows ([`Switch::follow`](crate::Switch::follow)).
#[derive(Clone)]
pub struct Follow {
    /// Asked once or twice for each packet that comes in.
    pub wants: Wants,
    /// Packets that may still be followed, by all workers together.
    pub left: Arc<AtomicU64>,
    /// Packets a second that each worker follows at most, and at once; 0 counts as 1. Others are counted as skipped.
    pub per_s: u32,
}

/// The steps of followed packets that have left the switch, with all their copies.
#[derive(Clone, Debug)]
pub struct Followed {
    /// In order.
    pub steps: Vec<TraceStep>,
    /// Packets that were wanted and not followed since the last time, because of [`Follow::per_s`].
    pub skipped: u64,
    /// The program whose steps these are.
    pub program: Arc<Program>,
}

/// The state of a [`Follow`].
#[derive(Clone)]
struct Only {
    follow: Follow,
    /// The rate is used up until then, in nanoseconds.
    used_ns: u64,
    skipped: u64,
}

/// The steps of the packets that are traced: of all, or of some.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    pub steps: Vec<TraceStep>,
    threads: u32,
    /// Threads that have not ended.
    open: u32,
    only: Option<Box<Only>>,
    pub now: Time,
}

impl Trace {
    /// That of some packets.
    pub fn only(follow: Follow, now: Time) -> Trace {
        let only = Only { follow, used_ns: 0, skipped: 0 };
        Trace { only: Some(Box::new(only)), now, ..Trace::default() }
    }

    /// Whether all packets are traced.
    pub fn is_of_all(&self) -> bool {
        self.only.is_none()
    }

    /// Whether a packet is to be traced.
    pub fn wants(&self, port: u32, packet: &[u8]) -> bool {
        let wants = |only: &Only| only.follow.left.load(Relaxed) > 0 && (only.follow.wants)(port, packet);
        self.only.as_deref().is_none_or(wants)
    }

    /// Whether a packet that came in is traced. It counts against the limits.
    pub fn takes(&mut self, port: u32, packet: &[u8]) -> bool {
        if !self.wants(port, packet) {
            return false;
        }
        let Some(only) = &mut self.only else { return true };
        let cost = 1_000_000_000 / u64::from(only.follow.per_s.max(1));
        let used = only.used_ns.max(self.now.0) + cost;
        if used > self.now.0 + 1_000_000_000 {
            only.skipped += 1;
            return false;
        }
        // Another worker may have been faster.
        let taken = only.follow.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if taken {
            only.used_ns = used;
        }
        taken
    }

    /// A new thread.
    pub fn thread(&mut self) -> u32 {
        self.threads += 1;
        self.open += 1;
        self.threads
    }

    /// Notes a step.
    pub fn step(&mut self, thread: u32, what: StepKind) {
        if matches!(
            what,
            StepKind::Sent { .. } | StepKind::Dropped(_) | StepKind::Consumed | StepKind::Again(_)
        ) {
            self.open = self.open.saturating_sub(1);
        }
        let most = if self.is_of_all() { MAX_TRACE_STEPS } else { MAX_FOLLOWED_STEPS };
        let what = match self.steps.len() {
            n if n < most => what,
            n if n == most => StepKind::Cut,
            _ => return,
        };
        self.steps.push(TraceStep { thread, time: self.now, what });
    }

    /// Forgets the packets inside: the program changes.
    pub fn forget(&mut self) {
        if self.only.is_some() {
            self.steps.clear();
            self.open = 0;
        }
    }

    /// The steps of followed packets, when none of them is inside, and the number that was skipped.
    pub fn take_followed(&mut self) -> Option<(Vec<TraceStep>, u64)> {
        let only = self.only.as_mut()?;
        if self.open > 0 || self.steps.is_empty() {
            return None;
        }
        Some((std::mem::take(&mut self.steps), std::mem::take(&mut only.skipped)))
    }

    /// Whether all packets that it is for were followed.
    pub fn is_done(&self) -> bool {
        let none_left = |only: &Only| only.follow.left.load(Relaxed) == 0;
        self.open == 0 && self.steps.is_empty() && self.only.as_deref().is_some_and(none_left)
    }
}
