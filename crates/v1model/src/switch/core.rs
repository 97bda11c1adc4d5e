//! Everything of a switch but its program: queues, recycled packets, counters.

use super::Sink;
use super::passes::Fixed;
use crate::config::SwitchConfig;
use crate::env::Effects;
use crate::meter::Color;
use crate::queue::{PortMap, QueueConfig, Queues};
use crate::random::Random;
use crate::state::Own;
use crate::stats::{DropReason, PortStats, Stats};
use crate::time::Time;
use crate::trace::{StepKind, Trace};
use pointsman_ir::{Executor, Program};
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
    pub way: Way,
    pub ingress_port: u32,
    pub received: Time,
    pub enqueued: Time,
    /// The frame holds nothing of this packet yet.
    pub fresh: bool,
}

/// What is known of a packet on its way besides its bytes and its frame.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// Length of the packet as the program sees it, fixed at the start of the pass.
    pub bytes: u32,
    /// Where in the packet the parser stopped.
    pub payload: usize,
    /// Bits of the headers that the parser made valid; only counted where egress looks at the length.
    pub parsed_bits: u64,
    pub truncate: Option<u32>,
    /// Which thread of the trace it is; 0 if nobody follows it.
    pub thread: u32,
}

impl Way {
    pub const START: Way = Way { bytes: 0, payload: 0, parsed_bits: 0, truncate: None, thread: 0 };
}

/// A packet that goes through the switch without a stop: it stays in the buffer in which it was received.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    /// It does not come in.
    pub refused: Option<DropReason>,
    pub way: Way,
    /// What the parser said.
    pub accepted: bool,
    pub error: u32,
    pub effects: Effects,
}

impl Lane {
    /// That of no packet.
    pub const NONE: Lane =
        Lane { refused: None, way: Way::START, accepted: true, error: 0, effects: Effects::NONE };
}

/// Memory for packets that are processed in place.
pub(super) struct Bench<F> {
    pub frames: Vec<F>,
    pub lanes: Vec<Lane>,
    pub emitted: Vec<u8>,
}

impl<F> Default for Bench<F> {
    fn default() -> Self {
        Bench { frames: Vec::new(), lanes: Vec::new(), emitted: Vec::new() }
    }
}

/// Packets that are parsed before the first of them goes on, at most.
pub(super) const LANES: usize = 32;

/// The same where nothing is gained by more: their frames take little of the fastest cache.
pub(super) const FEW: usize = 4;

pub(super) type Boxed<F> = Box<Packet<F>>;

/// Everything of a switch but its program.
pub(super) struct Core<F> {
    pub config: SwitchConfig,
    pub ports: Option<BTreeSet<u32>>,
    /// Known to be down.
    pub down_ports: BTreeSet<u32>,
    /// One more than the largest number that the program's port type can hold.
    pub port_limit: u64,
    /// The ports with small numbers that exist, a bit each.
    low_ports: [u64; LOW_WORDS],
    pub port_stats: PortMap<PortStats>,
    pub stats: Stats,
    /// Received packets.
    pub input: VecDeque<Boxed<F>>,
    /// Resubmitted and recirculated packets.
    pub again: VecDeque<Boxed<F>>,
    /// The last packet for ingress came from `input`, so the next one comes from `again`: the two take turns, so that
    /// neither starves the other.
    pub again_next: bool,
    pub bench: Bench<F>,
    pub own: Own,
    /// 0, and from 1 on for further workers.
    number: u64,
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

/// Ports below 64 times this are looked up in one step.
const LOW_WORDS: usize = 16;

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
            low_ports: [0; LOW_WORDS],
            port_stats: PortMap::new(),
            stats: Stats::default(),
            input: VecDeque::new(),
            again: VecDeque::new(),
            again_next: true,
            bench: Bench::default(),
            own: Own::new(&config),
            number: 0,
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

    /// That of a further worker: the same settings, nothing else.
    pub fn another(&self, number: u64) -> Self {
        let mut core = Core::new(self.config.clone());
        core.ports.clone_from(&self.ports);
        core.down_ports.clone_from(&self.down_ports);
        (core.port_limit, core.low_ports) = (self.port_limit, self.low_ports);
        core.queues = self.queues.alike();
        core.number = number;
        core
    }

    /// Goes over to another program. Packets between ingress and egress are lost, those that wait for ingress stay.
    pub fn change_program<E: Executor<Frame = F>>(&mut self, fixed: &Fixed<E>) {
        self.port_limit = 1 << fixed.pipeline.port_width();
        self.note_ports();
        // Frames are laid out for the old program.
        self.bench = Bench::default();
        self.pool.clear();
        let lost = self.queues.drain().len() + std::mem::take(&mut self.again).len();
        self.drops[DropReason::PipelineReplaced as usize] += lost as u64;
        for packet in &mut self.input {
            packet.frame = fixed.exec.new_frame();
        }
        self.own.random = Random::new(self.config.seed.wrapping_add(self.number));
        self.own.colors = vec![Color::Green; fixed.pipeline.program.externs.len()];
    }

    /// Names the parser errors that were counted by their numbers.
    pub fn fold_parser_errors(&mut self, program: Option<&Program>) {
        let Some(program) = program else { return };
        for (i, n) in self.parser_errors.drain(..).enumerate().filter(|(_, n)| *n != 0) {
            let name = program.errors.get(i).cloned().unwrap_or_else(|| i.to_string());
            *self.stats.parser_errors.entry(name).or_default() += n;
        }
    }

    /// The counters.
    pub fn tally(&mut self, program: Option<&Program>) -> &Stats {
        self.fold_parser_errors(program);
        let drops = DropReason::ALL.iter().map(|r| (*r, self.drops[*r as usize]));
        self.stats.drops = drops.filter(|(_, n)| *n != 0).collect();
        self.stats.queued = self.input.len() as u64 + self.again.len() as u64 + self.queues.len();
        self.stats.anomalies = self.own.anomalies;
        &self.stats
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
        self.note(packet.way.thread, || StepKind::Dropped(reason));
        self.drops[reason as usize] += 1;
        self.recycle(packet);
    }

    /// A packet that never came in, or has no box.
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

    /// Counters of a port.
    pub fn of_port(&self, port: u32) -> PortStats {
        let stats = self.port_stats.get(port).copied().unwrap_or_default();
        PortStats { queued: self.queues.port_len(port), ..stats }
    }

    /// Does the switch have this port?
    #[inline]
    pub fn has_port(&self, port: u32) -> bool {
        match self.low_ports.get(port as usize / 64) {
            Some(word) => word >> (port % 64) & 1 != 0,
            None => self.finds_port(port),
        }
    }

    fn finds_port(&self, port: u32) -> bool {
        u64::from(port) < self.port_limit
            && port != self.config.drop_port
            && (self.config.cpu_port == Some(port) || self.ports.as_ref().is_none_or(|p| p.contains(&port)))
    }

    /// After a change of the ports.
    pub fn note_ports(&mut self) {
        let mut low = [0; LOW_WORDS];
        for port in (0..64 * LOW_WORDS as u32).filter(|p| self.finds_port(*p)) {
            low[port as usize / 64] |= 1 << (port % 64);
        }
        self.low_ports = low;
    }

    /// May a packet of this length come in on this port?
    #[inline]
    pub fn accepts(&self, port: u32, bytes: usize) -> Result<(), DropReason> {
        if !self.has_port(port) {
            Err(DropReason::UnknownIngressPort)
        } else if bytes > self.config.max_packet_bytes as usize {
            Err(DropReason::TooLong)
        } else {
            Ok(())
        }
    }

    /// A packet comes in now, or is refused.
    #[inline]
    pub fn arrives(&mut self, port: u32, bytes: usize, refused: Option<DropReason>) {
        self.stats.received += 1;
        if refused != Some(DropReason::UnknownIngressPort) {
            let stats = self.port(port);
            stats.rx_packets += 1;
            stats.rx_bytes += bytes as u64;
        }
    }

    /// Does nothing wait, and nobody look? Then a packet may go through the switch without a stop.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.input.is_empty() && self.again.is_empty() && self.queues.are_open() && self.trace.is_none()
    }

    /// Counts what the parser made of a packet.
    #[inline]
    pub fn count_parsed(&mut self, accepted: bool, error: u32) {
        if !accepted {
            self.count_parser_error(error as usize);
        }
    }

    #[cold]
    fn count_parser_error(&mut self, error: usize) {
        if self.parser_errors.len() <= error {
            self.parser_errors.resize(error + 1, 0);
        }
        self.parser_errors[error] += 1;
    }

    pub fn push_again(&mut self, packet: Boxed<F>) {
        if self.again.len() >= self.config.recirculation_depth_packets as usize {
            self.drop(packet, DropReason::RecirculationFull);
        } else {
            self.again.push_back(packet);
        }
    }

    pub fn next_input(&mut self) -> Option<Boxed<F>> {
        let from_again = match self.again_next {
            true => !self.again.is_empty(),
            false => self.input.is_empty(),
        };
        let packet = if from_again { self.again.pop_front() } else { self.input.pop_front() };
        if packet.is_some() {
            self.again_next = !from_again;
        }
        packet
    }

    pub fn send(&mut self, port: u32, packet: Boxed<F>, bytes: &[u8], sink: &mut dyn Sink) {
        self.send_bytes(port, packet.way.thread, bytes, None, sink);
        self.recycle(packet);
    }

    /// Sends a packet; with the number of the buffer in which it lies, if the sink knows that buffer.
    #[inline]
    pub fn send_bytes(
        &mut self,
        port: u32,
        thread: u32,
        bytes: &[u8],
        buffer: Option<usize>,
        sink: &mut dyn Sink,
    ) {
        let to_cpu = self.config.cpu_port == Some(port);
        if !to_cpu && !self.has_port(port) {
            return self.refuse(thread, DropReason::UnknownEgressPort);
        }
        self.note(thread, || StepKind::Sent { port, to_cpu, bytes: bytes.to_vec() });
        if to_cpu {
            self.stats.to_cpu += 1;
            sink.to_cpu(bytes);
        } else {
            self.stats.transmitted += 1;
            match buffer {
                Some(n) => sink.transmit_buffer(port, n, bytes),
                None => sink.transmit(port, bytes),
            }
        }
        let stats = self.port(port);
        stats.tx_packets += 1;
        stats.tx_bytes += bytes.len() as u64;
    }
}
