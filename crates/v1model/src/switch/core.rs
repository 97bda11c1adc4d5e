//! Everything of a switch but its program: queues, recycled packets, counters.

use super::drive::Fixed;
use super::export::WorkerImage;
use super::gate::Gate;
use super::straight::Place;
use super::{Arrived, Sink};
use crate::config::SwitchConfig;
use crate::env::Effects;
use crate::generator::Generators;
use crate::meter::Color;
use crate::queue::{Pace, QueueConfig, Queues};
use crate::random::Random;
use crate::state::Own;
use crate::stats::{DropReason, PortStats, Stats};
use crate::time::Time;
use crate::trace::{Follow, Followed, Origin, StepKind, Trace};
use pointsman_ir::{Executor, Program};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// `standard_metadata.instance_type`, with BMv2's numbers.
pub(super) mod instance {
    pub const NORMAL: u32 = 0;
    pub const INGRESS_CLONE: u32 = 1;
    pub const EGRESS_CLONE: u32 = 2;
    pub const RECIRCULATED: u32 = 4;
    pub const REPLICATION: u32 = 5;
    pub const RESUBMITTED: u32 = 6;
}

/// Room for longer headers in front of a packet that has memory of its own.
const ROOM: usize = 128;

/// The bytes of a packet, and room in front of them.
#[derive(Default)]
pub(super) struct Bytes {
    buffer: Vec<u8>,
    start: usize,
}

impl Bytes {
    pub fn packet(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or(&[])
    }

    pub fn len(&self) -> usize {
        self.buffer.len().saturating_sub(self.start)
    }

    pub fn set(&mut self, packet: &[u8]) {
        self.start = ROOM;
        self.buffer.resize(ROOM, 0);
        self.buffer.extend_from_slice(packet);
    }

    /// The packet now begins here in the buffer, and has at most so many bytes.
    pub fn begin(&mut self, start: usize, most: Option<u32>) {
        self.start = start.min(self.buffer.len());
        if let Some(most) = most {
            self.buffer.truncate(self.start.saturating_add(most as usize));
        }
    }

    /// The room and the packet, and where the packet begins.
    pub fn whole(&mut self) -> (&mut [u8], usize) {
        (&mut self.buffer, self.start)
    }
}

/// A packet inside the switch. Boxes are recycled with their buffers.
pub(super) struct Packet<F> {
    pub frame: F,
    /// The packet as it entered this pass.
    pub data: Bytes,
    pub way: Way,
    pub ingress_port: u32,
    pub received: Time,
    /// When it came into its queue, and how many packets were there before.
    pub enqueued: Time,
    pub enqueued_behind: u32,
    /// How often the received packet that it descends from, and its other descendants, were cloned, resubmitted and
    /// recirculated so far. `None` if that never happened.
    pub descendants: Option<Arc<AtomicU32>>,
    /// The frame is not used by this packet yet.
    pub fresh: bool,
}

/// The state of a packet on its way besides its bytes and its frame.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// Length of the packet as the program sees it, fixed at the start of the pass.
    pub bytes: u32,
    /// The parser's final position in the packet.
    pub payload: usize,
    /// Bits of the headers that the parser made valid; only counted where egress looks at the length.
    pub parsed_bits: u64,
    pub truncate: Option<u32>,
    /// The error with which the parser rejected it.
    pub rejected: Option<u32>,
    /// The port that ingress chose.
    pub out: u32,
    /// Which thread of the trace it is; 0 if it is not traced.
    pub thread: u32,
}

impl Way {
    pub const START: Way =
        Way { bytes: 0, payload: 0, parsed_bits: 0, truncate: None, rejected: None, out: 0, thread: 0 };

    /// The part of a packet that leaves.
    pub fn truncated<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        match self.truncate {
            Some(most) => bytes.get(..most as usize).unwrap_or(bytes),
            None => bytes,
        }
    }
}

/// A packet that goes through the switch without a stop: it stays in the buffer in which it was received.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    /// It does not come in.
    pub refused: Option<DropReason>,
    pub way: Way,
    /// Requests that have not been acted on.
    pub effects: Effects,
}

impl Lane {
    /// That of no packet.
    pub const NONE: Lane = Lane { refused: None, way: Way::START, effects: Effects::NONE };
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

impl<F> Bench<F> {
    /// A packet of a batch in the memory that it was parsed in.
    pub fn place<'p, 'b>(
        &'p mut self,
        lane: usize,
        number: usize,
        arrived: &'p mut Arrived<'b>,
    ) -> Option<Place<'p, 'b, F>> {
        let Bench { frames, lanes, emitted } = self;
        let (frame, lane) = (frames.get_mut(lane)?, lanes.get_mut(lane)?);
        Some(Place { frame, lane, emitted, arrived, number })
    }

    /// The frame of packets that go through one after the other.
    pub fn first<E: Executor<Frame = F>>(&mut self, fixed: &Fixed<E>) -> &mut F {
        if self.frames.is_empty() {
            self.frames.push(fixed.exec.new_frame());
            self.lanes.push(Lane::NONE);
        }
        &mut self.frames[0]
    }
}

/// Maximum packets that are parsed before the first of them continues.
pub(super) const LANES: usize = 32;

/// The same where nothing is gained by more: their frames take little of the fastest cache.
pub(super) const FEW: usize = 4;

impl<F> Packet<F> {
    /// The number of descendants, shared with all of them.
    pub fn descendants(&mut self) -> &Arc<AtomicU32> {
        self.descendants.get_or_insert_default()
    }
}

pub(super) type Boxed<F> = Box<Packet<F>>;

/// Everything of a switch but its program.
pub(super) struct Core<F> {
    pub config: SwitchConfig,
    /// Known to be down.
    pub down_ports: BTreeSet<u32>,
    /// The places where packets arrive and leave.
    pub gate: Gate,
    /// Received packets.
    pub input: VecDeque<Boxed<F>>,
    /// Resubmitted and recirculated packets.
    pub again: VecDeque<Boxed<F>>,
    /// The last packet for ingress came from `input`, so the next one comes from `again`: the two take turns, so that
    /// neither starves the other.
    pub again_next: bool,
    /// See [`SwitchConfig::recirculation_rate`].
    again_pace: Pace,
    /// Not there while it is in use.
    pub bench: Option<Box<Bench<F>>>,
    pub own: Own,
    /// 0, and from 1 on for further workers.
    number: u64,
    pub queues: Queues<Boxed<F>>,
    pub generators: Generators,
    pub pool: Vec<Boxed<F>>,
    pub emitted: Vec<u8>,
    pub last_now: Time,
    /// Packets are traced: all, or those that are followed.
    pub trace: Option<Box<Trace>>,
}

/// Recycled packets that are kept at most.
const POOL: usize = 1024;

/// Larger buffers are not kept: a burst of jumbo packets shall not hold memory for ever.
const POOLED_BYTES: usize = 16 * 1024;

impl<F> Core<F> {
    pub fn new(config: SwitchConfig) -> Self {
        let (depth_packets, rate_pps) = (config.queue_depth_packets, config.queue_rate_pps);
        let queue = QueueConfig { depth_packets, rate_pps, ..QueueConfig::default() };
        Core {
            down_ports: BTreeSet::new(),
            gate: Gate::new(&config),
            input: VecDeque::new(),
            again: VecDeque::new(),
            again_next: true,
            again_pace: Pace::default(),
            bench: None,
            own: Own::new(&config),
            number: 0,
            queues: Queues::new(config.queues_per_port, queue),
            generators: Generators::default(),
            pool: Vec::new(),
            emitted: Vec::new(),
            last_now: Time::ZERO,
            trace: None,
            config,
        }
    }

    /// That of a further worker: the same settings, nothing else.
    pub fn another(&self, number: u64) -> Self {
        let mut core = Core::new(self.config.clone());
        core.down_ports.clone_from(&self.down_ports);
        core.gate = self.gate.alike(&self.config);
        core.queues = self.queues.alike();
        core.number = number;
        core.own.worker = number as usize;
        core
    }

    /// Switches to another program. Packets between ingress and egress are lost, those that wait for ingress stay.
    pub fn change_program<E: Executor<Frame = F>>(&mut self, fixed: &Fixed<E>) {
        self.gate.port_limit = 1 << fixed.pipeline.port_width();
        self.gate.note_ports();
        // Frames are laid out for the old program.
        self.bench = None;
        self.pool.clear();
        let lost = self.queues.drain().len() + std::mem::take(&mut self.again).len();
        self.gate.drops[DropReason::PipelineReplaced as usize] += lost as u64;
        let follows = self.follows();
        for packet in &mut self.input {
            packet.frame = fixed.exec.new_frame();
            if follows {
                packet.way.thread = 0;
            }
        }
        self.trace.iter_mut().for_each(|t| t.forget());
        self.own.random = Random::new(self.config.seed.wrapping_add(self.number));
        self.own.colors = vec![Color::Green; fixed.pipeline.program.externs.len()];
    }

    /// Drops the packets that wait for ingress.
    pub fn drop_input(&mut self) {
        self.trace.iter_mut().for_each(|t| t.forget());
        let lost = std::mem::take(&mut self.input).len();
        self.gate.drops[DropReason::PipelineReplaced as usize] += lost as u64;
    }

    /// Packets that are inside.
    pub fn in_flight(&self) -> u64 {
        self.input.len() as u64 + self.again.len() as u64 + self.queues.len()
    }

    /// What belongs to this worker and outlives packets.
    pub fn image(&self, now: Time) -> WorkerImage {
        WorkerImage {
            random: self.own.random.seed(),
            again: self.again_pace.image(now.0),
            paces: self.queues.paces(now),
        }
    }

    /// Puts back what [`Core::image`] took; no packet is inside.
    pub fn put_back(&mut self, now: Time, image: &WorkerImage) {
        self.own.random = Random::new(image.random);
        self.again_pace = image.again.map_or_else(Pace::default, |pace| Pace::of_image(now.0, pace));
        self.queues.set_paces(now, &image.paces);
    }

    /// The counters.
    pub fn tally(&mut self, program: Option<&Program>) -> &Stats {
        let queued = self.in_flight();
        let gate = &mut self.gate;
        gate.fold_parser_errors(program);
        let drops = DropReason::ALL.iter().map(|r| (*r, gate.drops[*r as usize]));
        gate.stats.drops = drops.filter(|(_, n)| *n != 0).collect();
        gate.stats.queued = queued;
        gate.stats.anomalies = self.own.anomalies;
        &gate.stats
    }

    /// Notes a step of a thread, if it is traced.
    pub fn note(&mut self, thread: u32, what: impl FnOnce() -> StepKind) {
        if let Some(trace) = &mut self.trace
            && thread != 0
        {
            trace.step(thread, what());
        }
    }

    /// The thread of the trace of a packet that comes in, and its first step; 0 if it is not traced.
    pub fn thread(&mut self, port: u32, packet: &[u8], first: impl FnOnce(Vec<u8>) -> StepKind) -> u32 {
        let Some(trace) = &mut self.trace else { return 0 };
        if !trace.takes(port, packet) {
            return 0;
        }
        let thread = trace.thread();
        trace.step(thread, first(packet.to_vec()));
        thread
    }

    /// The thread of a copy, and its first step; 0 if the packet that it descends from is not traced.
    pub fn thread_of_copy(&mut self, parent: u32, origin: Origin) -> u32 {
        let Some(trace) = self.trace.as_mut().filter(|_| parent != 0) else { return 0 };
        let thread = trace.thread();
        trace.step(thread, StepKind::Copied { parent, origin });
        thread
    }

    /// Whether all packets are traced.
    #[inline]
    fn traces_all(&self) -> bool {
        self.trace.as_ref().is_some_and(|t| t.is_of_all())
    }

    /// Whether some packets are followed.
    #[inline]
    pub fn follows(&self) -> bool {
        self.trace.as_ref().is_some_and(|t| !t.is_of_all())
    }

    /// Follows these packets from now on, and no others.
    pub fn follow(&mut self, follow: Option<Follow>) {
        let now = self.last_now;
        self.trace = follow.map(|follow| Box::new(Trace::only(follow, now)));
        self.input.iter_mut().for_each(|packet| packet.way.thread = 0);
    }

    /// The steps of followed packets that have left.
    pub fn take_followed(&mut self, program: Option<&Arc<Program>>) -> Option<Followed> {
        let trace = self.trace.as_mut()?;
        let taken = trace.take_followed();
        if trace.is_done() {
            self.trace = None;
        }
        let (steps, skipped) = taken?;
        Some(Followed { steps, skipped, program: program?.clone() })
    }

    pub fn drop(&mut self, packet: Boxed<F>, reason: DropReason) {
        self.refuse(packet.way.thread, reason);
        self.recycle(packet);
    }

    /// A packet that never came in, or has no box.
    pub fn refuse(&mut self, thread: u32, reason: DropReason) {
        self.note(thread, || StepKind::Dropped(reason));
        self.gate.drops(reason);
    }

    /// Counts a clone, a resubmission or a recirculation; false if there have been too many.
    pub fn may_descend(&self, packet: &mut Packet<F>) -> bool {
        let Some(most) = self.config.max_descendants else { return true };
        // All of them belong to one worker: no other thread counts here.
        packet.descendants().fetch_add(1, Ordering::Relaxed) < most
    }

    pub fn recycle(&mut self, mut packet: Boxed<F>) {
        packet.descendants = None;
        if self.pool.len() < POOL && packet.data.buffer.capacity() <= POOLED_BYTES {
            self.pool.push(packet);
        }
    }

    /// Counters of a port.
    pub fn of_port(&self, port: u32) -> PortStats {
        let stats = self.gate.port_stats.get(port).copied().unwrap_or_default();
        PortStats { queued: self.queues.port_len(port), ..stats }
    }

    /// Whether nothing has to be done first, and not all packets are traced. Then a packet may go straight through the switch, if its
    /// port is open.
    #[inline]
    pub fn is_clear(&self, now: Time) -> bool {
        self.is_idle(now) && self.queues.are_quiet(now)
    }

    /// The same, but packets may have to leave their queues first.
    #[inline]
    pub fn is_idle(&self, now: Time) -> bool {
        self.input.is_empty()
            && (self.again.is_empty() || self.again_pace.free_ns > now.0)
            && self.generators.next().is_none_or(|t| t > now)
            && !self.traces_all()
    }

    /// When the next packet may go through ingress.
    pub fn next_ingress(&self) -> Option<Time> {
        match (self.input.is_empty(), self.again.is_empty()) {
            (false, _) => Some(self.last_now),
            (true, false) => Some(self.last_now.max(Time(self.again_pace.free_ns))),
            (true, true) => None,
        }
    }

    pub fn push_again(&mut self, packet: Boxed<F>) {
        if self.again.len() >= self.config.recirculation_depth_packets as usize {
            self.drop(packet, DropReason::RecirculationFull);
        } else {
            self.again.push_back(packet);
        }
    }

    pub fn next_input(&mut self, now: Time) -> Option<Boxed<F>> {
        let may_again = !self.again.is_empty() && self.again_pace.free_ns <= now.0;
        let from_again = may_again && (self.again_next || self.input.is_empty());
        let packet = if from_again { self.again.pop_front() } else { self.input.pop_front() }?;
        self.again_next = !from_again;
        if let Some(rate) = self.config.recirculation_rate.filter(|_| from_again) {
            let bits = 8 * (packet.data.len() as u64 + u64::from(rate.overhead_bytes));
            self.again_pace.begin(now.0);
            self.again_pace.send(bits, rate.bits_per_s);
        }
        Some(packet)
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
        if thread != 0 {
            let leads = self.gate.leads_to_cpu(port);
            let consumed = self.gate.consumes(port);
            self.note(thread, || match leads {
                Some(to_cpu) => StepKind::Sent { port, to_cpu, bytes: bytes.to_vec() },
                None if consumed => StepKind::Consumed,
                None => StepKind::Dropped(DropReason::UnknownEgressPort),
            });
        }
        self.queues.sent(port, bytes.len());
        self.gate.send(port, bytes, buffer, sink);
    }
}
