//! Everything of a switch but its program: queues, recycled packets, counters.

use super::Sink;
use crate::config::SwitchConfig;
use crate::queue::{PortMap, QueueConfig, Queues};
use crate::stats::{DropReason, PortStats, Stats};
use crate::time::Time;
use crate::trace::{StepKind, Trace};
use std::collections::{BTreeSet, VecDeque};

/// `standard_metadata.instance_type`, with BMv2's numbers.
pub(super) mod instance {
    pub const NORMAL: u32 = 0;
    pub const INGRESS_CLONE: u32 = 1;
    pub const EGRESS_CLONE: u32 = 2;
    pub const RECIRCULATED: u32 = 4;
    pub const REPLICATION: u32 = 5;
    pub const RESUBMITTED: u32 = 6;
}

/// A packet inside the switch. Boxes are recycled with their buffers.
pub(super) struct Packet<F> {
    pub frame: F,
    /// The packet as it entered this pass.
    pub data: Vec<u8>,
    /// Where in `data` the parser stopped.
    pub payload: usize,
    pub ingress_port: u32,
    pub received: Time,
    /// Length of `data` as the program sees it, fixed at the start of the pass.
    pub bytes: u32,
    /// Bits of the headers that the parser made valid; only counted where egress looks at the length.
    pub parsed_bits: u64,
    pub truncate: Option<u32>,
    pub enqueued: Time,
    /// The frame holds nothing of this packet yet.
    pub fresh: bool,
    /// Which thread of the trace it is; 0 if nobody follows it.
    pub thread: u32,
}

pub(super) type Boxed<F> = Box<Packet<F>>;

/// Everything of a switch but its program.
pub(super) struct Core<F> {
    pub config: SwitchConfig,
    pub ports: Option<BTreeSet<u32>>,
    /// Known to be down.
    pub down_ports: BTreeSet<u32>,
    /// One more than the largest number that the program's port type can hold.
    pub port_limit: u64,
    pub port_stats: PortMap<PortStats>,
    pub stats: Stats,
    /// Received packets.
    pub input: VecDeque<Boxed<F>>,
    /// Resubmitted and recirculated packets.
    pub again: VecDeque<Boxed<F>>,
    /// The next packet for ingress comes from `again`: the two take turns, so that neither starves the other.
    pub again_next: bool,
    pub queues: Queues<Boxed<F>>,
    pub pool: Vec<Boxed<F>>,
    pub emitted: Vec<u8>,
    /// By error number; names are added when somebody asks.
    pub parser_errors: Vec<u64>,
    pub drops: [u64; DropReason::ALL.len()],
    pub last_now: Time,
    /// Somebody follows the packets.
    pub trace: Option<Box<Trace>>,
}

/// Recycled packets that are kept at most.
const POOL: usize = 1024;

/// Larger buffers are not kept: a burst of jumbo packets shall not hold memory for ever.
const POOLED_BYTES: usize = 16 * 1024;

impl<F> Core<F> {
    pub fn new(config: SwitchConfig) -> Self {
        let queue =
            QueueConfig { depth_packets: config.queue_depth_packets, rate_pps: config.queue_rate_pps };
        Core {
            ports: config.ports.clone(),
            down_ports: BTreeSet::new(),
            port_limit: 0,
            port_stats: PortMap::new(),
            stats: Stats::default(),
            input: VecDeque::new(),
            again: VecDeque::new(),
            again_next: false,
            queues: Queues::new(config.queues_per_port, queue),
            pool: Vec::new(),
            emitted: Vec::new(),
            parser_errors: Vec::new(),
            drops: [0; DropReason::ALL.len()],
            last_now: Time::ZERO,
            trace: None,
            config,
        }
    }

    /// Notes a step of a thread, if somebody follows it.
    pub fn note(&mut self, thread: u32, what: impl FnOnce() -> StepKind) {
        if let Some(trace) = &mut self.trace
            && thread != 0
        {
            trace.step(thread, what());
        }
    }

    /// A new thread of the trace and its first step; 0 if nobody follows packets.
    pub fn thread(&mut self, first: impl FnOnce() -> StepKind) -> u32 {
        let Some(trace) = &mut self.trace else { return 0 };
        let thread = trace.thread();
        trace.step(thread, first());
        thread
    }

    pub fn drop(&mut self, packet: Boxed<F>, reason: DropReason) {
        self.note(packet.thread, || StepKind::Dropped(reason));
        self.drops[reason as usize] += 1;
        self.recycle(packet);
    }

    /// A packet that never came in.
    pub fn refuse(&mut self, thread: u32, reason: DropReason) {
        self.note(thread, || StepKind::Dropped(reason));
        self.drops[reason as usize] += 1;
    }

    pub fn recycle(&mut self, packet: Boxed<F>) {
        if self.pool.len() < POOL && packet.data.capacity() <= POOLED_BYTES {
            self.pool.push(packet);
        }
    }

    pub fn port(&mut self, port: u32) -> &mut PortStats {
        self.port_stats.get_mut(port, PortStats::default)
    }

    pub fn has_port(&self, port: u32) -> bool {
        u64::from(port) < self.port_limit
            && port != self.config.drop_port
            && (self.config.cpu_port == Some(port) || self.ports.as_ref().is_none_or(|p| p.contains(&port)))
    }

    pub fn push_again(&mut self, packet: Boxed<F>) {
        if self.again.len() >= self.config.recirculation_depth_packets as usize {
            self.drop(packet, DropReason::RecirculationFull);
        } else {
            self.again.push_back(packet);
        }
    }

    pub fn next_input(&mut self) -> Option<Boxed<F>> {
        self.again_next = !self.again_next;
        let (first, second) = match self.again_next {
            true => (&mut self.again, &mut self.input),
            false => (&mut self.input, &mut self.again),
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    pub fn send(&mut self, port: u32, packet: Boxed<F>, bytes: &[u8], sink: &mut dyn Sink) {
        let to_cpu = self.config.cpu_port == Some(port);
        if to_cpu || self.has_port(port) {
            self.note(packet.thread, || StepKind::Sent { port, to_cpu, bytes: bytes.to_vec() });
        }
        if to_cpu {
            self.stats.to_cpu += 1;
            sink.to_cpu(bytes);
        } else if !self.has_port(port) {
            return self.drop(packet, DropReason::UnknownEgressPort);
        } else {
            self.stats.transmitted += 1;
            sink.transmit(port, bytes);
        }
        let stats = self.port(port);
        stats.tx_packets += 1;
        stats.tx_bytes += bytes.len() as u64;
        self.recycle(packet);
    }
}
