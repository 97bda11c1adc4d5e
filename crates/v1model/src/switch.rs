//! The switch: packets in, packets out.

use crate::config::{ConfigError, SwitchConfig};
use crate::env::{BlockEnv, Effects};
use crate::pipeline::{ALL_SLOTS, CHECKSUM_SLOTS, DEPARSER_SLOTS, HEADERS, META, Pipeline, Problem, STD};
use crate::queue::{PortMap, QueueConfig, Queues};
use crate::replication::Replica;
use crate::state::{Digest, Event, IdleEntry, State};
use crate::stats::{DropReason, PortStats, Stats};
use crate::time::Time;
use pointsman_ir::{Bits, Executor, LoadError};
use std::collections::{BTreeSet, VecDeque};

/// Where packets go that leave the switch.
pub trait Sink {
    /// A packet leaves on a port.
    fn transmit(&mut self, port: u32, packet: &[u8]);
    /// A packet leaves to the control plane (through the CPU port).
    fn to_cpu(&mut self, packet: &[u8]);
}

/// A packet that left the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// On a port.
    Port(u32, Vec<u8>),
    /// To the control plane.
    Cpu(Vec<u8>),
}

impl Sink for Vec<Output> {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        self.push(Output::Port(port, packet.to_vec()));
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        self.push(Output::Cpu(packet.to_vec()));
    }
}

/// What a new program takes over from the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing but multicast groups, clone sessions and queue settings.
    Nothing,
    /// Also tables, registers, counters, meters, action profiles and value sets that have the same name and shape.
    Fitting,
}

/// Why a program was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipelineError {
    /// It does not go with the switch's configuration.
    Config(Problem),
    /// The executor cannot run it.
    Load(LoadError),
}

impl std::fmt::Display for PipelineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PipelineError::Config(p) => p.fmt(f),
            PipelineError::Load(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for PipelineError {}

/// What [`Switch::poll`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Passes through ingress or egress.
    pub passes: usize,
    /// There is more to do at the same time: the budget was too small.
    pub more: bool,
}

/// `standard_metadata.instance_type`, with BMv2's numbers.
mod instance {
    pub const NORMAL: u32 = 0;
    pub const INGRESS_CLONE: u32 = 1;
    pub const EGRESS_CLONE: u32 = 2;
    pub const RECIRCULATED: u32 = 4;
    pub const REPLICATION: u32 = 5;
    pub const RESUBMITTED: u32 = 6;
}

/// A packet inside the switch. Boxes are recycled with their buffers.
struct Packet<F> {
    frame: F,
    /// The packet as it entered this pass.
    data: Vec<u8>,
    /// Where in `data` the parser stopped.
    payload: usize,
    ingress_port: u32,
    received: Time,
    /// Length of `data` as the program sees it, fixed at the start of the pass.
    bytes: u32,
    truncate: Option<u32>,
    enqueued: Time,
    /// The frame holds nothing of this packet yet.
    fresh: bool,
}

type Boxed<F> = Box<Packet<F>>;

/// A program that runs.
struct Loaded<E: Executor> {
    exec: E,
    pipeline: Pipeline,
    state: State,
}

/// Everything of a switch but its program.
struct Core<F> {
    config: SwitchConfig,
    ports: Option<BTreeSet<u32>>,
    port_stats: PortMap<PortStats>,
    stats: Stats,
    /// Received packets.
    input: VecDeque<Boxed<F>>,
    /// Resubmitted and recirculated packets.
    again: VecDeque<Boxed<F>>,
    /// The next packet for ingress comes from `again`: the two take turns, so that neither starves the other.
    again_next: bool,
    queues: Queues<Boxed<F>>,
    pool: Vec<Boxed<F>>,
    emitted: Vec<u8>,
    /// By error number; names are added when somebody asks.
    parser_errors: Vec<u64>,
    drops: [u64; DropReason::ALL.len()],
    last_now: Time,
}

/// Recycled packets that are kept at most.
const POOL: usize = 4096;

/// A v1model switch.
pub struct Switch<E: Executor> {
    loaded: Option<Loaded<E>>,
    core: Core<E::Frame>,
}

impl<F> Core<F> {
    fn drop(&mut self, packet: Boxed<F>, reason: DropReason) {
        self.drops[reason as usize] += 1;
        self.recycle(packet);
    }

    fn recycle(&mut self, packet: Boxed<F>) {
        if self.pool.len() < POOL {
            self.pool.push(packet);
        }
    }

    fn port(&mut self, port: u32) -> &mut PortStats {
        self.port_stats.get_mut(port, PortStats::default)
    }

    fn has_port(&self, port: u32) -> bool {
        self.config.cpu_port == Some(port) || self.ports.as_ref().is_none_or(|p| p.contains(&port))
    }

    fn push_again(&mut self, packet: Boxed<F>) {
        if self.again.len() >= self.config.recirculation_depth_packets as usize {
            self.drop(packet, DropReason::RecirculationFull);
        } else {
            self.again.push_back(packet);
        }
    }

    fn next_input(&mut self) -> Option<Boxed<F>> {
        self.again_next = !self.again_next;
        let (first, second) = match self.again_next {
            true => (&mut self.again, &mut self.input),
            false => (&mut self.input, &mut self.again),
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    fn send(&mut self, port: u32, packet: Boxed<F>, bytes: &[u8], sink: &mut dyn Sink) {
        if self.config.cpu_port == Some(port) {
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

impl<E: Executor> Loaded<E> {
    fn packet(&self, core: &mut Core<E::Frame>) -> Boxed<E::Frame> {
        core.pool.pop().unwrap_or_else(|| {
            Box::new(Packet {
                frame: self.exec.new_frame(),
                data: Vec::new(),
                payload: 0,
                ingress_port: 0,
                received: Time::ZERO,
                bytes: 0,
                truncate: None,
                enqueued: Time::ZERO,
                fresh: true,
            })
        })
    }

    fn set(&self, frame: &mut E::Frame, field: u32, width: u32, value: u64) {
        self.exec.set(frame, STD, &[field], &Bits::new(width, u128::from(value)));
    }

    fn get(&self, frame: &E::Frame, field: u32) -> u32 {
        self.exec.get(frame, STD, &[field]).map_or(0, |b| b.low_u64() as u32)
    }

    /// Readies the frame for a pass through the parser.
    fn begin(&self, packet: &mut Packet<E::Frame>, instance_type: u32) {
        let std = &self.pipeline.std;
        self.exec.reset(&mut packet.frame);
        packet.bytes = packet.data.len() as u32;
        packet.truncate = None;
        packet.fresh = false;
        let frame = &mut packet.frame;
        self.set(frame, std.ingress_port, std.port_width, u64::from(packet.ingress_port));
        self.set(frame, std.packet_length, 32, u64::from(packet.bytes));
        self.set(frame, std.ingress_global_timestamp, 48, packet.received.micros());
        if instance_type != instance::NORMAL {
            self.set(frame, std.instance_type, 32, u64::from(instance_type));
        }
    }

    /// Copies the user metadata of a field list.
    fn preserve(&self, list: Option<u8>, from: &E::Frame, to: &mut E::Frame) {
        if let Some(fields) = list.and_then(|l| self.pipeline.field_lists.get(&l)) {
            fields.copy(&self.exec, META, from, to);
        }
    }

    fn env<'a>(
        pipeline: &'a Pipeline,
        state: &'a mut State,
        effects: &'a mut Effects,
        core: &Core<E::Frame>,
        now: Time,
        bytes: u32,
        payload: &'a [u8],
    ) -> BlockEnv<'a> {
        BlockEnv { pipeline, state, effects, now, bytes, payload, drop_port: core.config.drop_port }
    }

    /// Runs the parser and notes its error.
    fn parse(&mut self, core: &mut Core<E::Frame>, now: Time, packet: &mut Packet<E::Frame>) -> Effects {
        let mut effects = Effects::default();
        let mut env = Self::env(&self.pipeline, &mut self.state, &mut effects, core, now, packet.bytes, &[]);
        let parser = self.pipeline.blocks.parser;
        let outcome = self.exec.parse(parser, ALL_SLOTS, &mut packet.frame, &packet.data, &mut env);
        // Headers are whole bytes; only an odd `advance` could stop inside one.
        packet.payload = outcome.consumed_bits.div_ceil(8).min(packet.data.len());
        if !outcome.accepted {
            let i = outcome.error as usize;
            if core.parser_errors.len() <= i {
                core.parser_errors.resize(i + 1, 0);
            }
            core.parser_errors[i] += 1;
        }
        if outcome.error != 0 {
            self.set(&mut packet.frame, self.pipeline.std.parser_error, 32, u64::from(outcome.error));
        }
        effects
    }

    fn ingress(&mut self, core: &mut Core<E::Frame>, now: Time, mut packet: Boxed<E::Frame>) {
        if packet.fresh {
            self.begin(&mut packet, instance::NORMAL);
        }
        let mut effects = self.parse(core, now, &mut packet);
        let std = self.pipeline.std;
        let blocks = self.pipeline.blocks;
        let p = &mut *packet;
        let payload = &p.data[p.payload..];
        let emitted = &mut Vec::new();
        let mut env = Self::env(&self.pipeline, &mut self.state, &mut effects, core, now, p.bytes, payload);
        self.exec.control(blocks.verify, CHECKSUM_SLOTS, &mut p.frame, emitted, &mut env);
        if env.effects.checksum_error {
            self.exec.set(&mut p.frame, STD, &[std.checksum_error], &Bits::new(1, 1));
        }
        self.exec.control(blocks.ingress, ALL_SLOTS, &mut p.frame, emitted, &mut env);
        if effects.assertion_failed {
            return core.drop(packet, DropReason::AssertionFailed);
        }
        if effects.truncate.is_some() {
            packet.truncate = effects.truncate;
        }

        if let Some((session, list)) = effects.clone {
            self.clone_ingress(core, now, &packet, session, list);
        }
        if let Some(list) = effects.resubmit {
            let mut again = self.packet(core);
            again.data.clear();
            std::mem::swap(&mut again.data, &mut packet.data);
            again.ingress_port = packet.ingress_port;
            again.received = packet.received;
            self.begin(&mut again, instance::RESUBMITTED);
            self.preserve(Some(list), &packet.frame, &mut again.frame);
            core.recycle(packet);
            core.stats.resubmitted += 1;
            return core.push_again(again);
        }
        let (mut port, mut group) =
            (self.get(&packet.frame, std.egress_spec), self.get(&packet.frame, std.mcast_grp));
        if effects.drop {
            (port, group) = (core.config.drop_port, 0);
        }
        if group != 0 {
            self.set(&mut packet.frame, std.instance_type, 32, instance::REPLICATION.into());
            let Some(replicas) = self.state.replication.group(group) else {
                return core.drop(packet, DropReason::UnknownMulticastGroup);
            };
            let replicas = replicas.to_vec();
            let made = self.replicate(core, now, packet, &replicas, None);
            core.stats.replicas += made;
            return;
        }
        if port == core.config.drop_port {
            return core.drop(packet, DropReason::Ingress);
        }
        // Also for packets that were resubmitted or recirculated: this is what BMv2 does.
        self.set(&mut packet.frame, std.instance_type, 32, instance::NORMAL.into());
        self.enqueue(core, now, port, None, packet);
    }

    /// Sends a packet to every replica; gives the number of packets that this made.
    fn replicate(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: Boxed<E::Frame>,
        replicas: &[Replica],
        priority: Option<u8>,
    ) -> u64 {
        let Some((last, others)) = replicas.split_last() else {
            core.drop(packet, DropReason::EmptyMulticastGroup);
            return 0;
        };
        for r in others {
            let mut copy = self.packet(core);
            copy.frame.clone_from(&packet.frame);
            copy.data.clone_from(&packet.data);
            copy.payload = packet.payload;
            copy.ingress_port = packet.ingress_port;
            copy.received = packet.received;
            copy.bytes = packet.bytes;
            copy.truncate = packet.truncate;
            copy.fresh = false;
            self.replica(core, now, r, priority, copy);
        }
        self.replica(core, now, last, priority, packet);
        others.len() as u64
    }

    fn replica(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        replica: &Replica,
        priority: Option<u8>,
        mut packet: Boxed<E::Frame>,
    ) {
        let rid = self.pipeline.std.egress_rid;
        self.set(&mut packet.frame, rid, 16, u64::from(replica.instance));
        self.enqueue(core, now, replica.port, priority, packet);
    }

    /// Replicas of a clone session, its truncation and its class of service.
    fn session(&mut self, id: u32) -> Option<(Vec<Replica>, Option<u32>, u8)> {
        let Some(session) = self.state.replication.session(id) else {
            self.state.anomalies.unknown_clone_session += 1;
            return None;
        };
        let group = session.multicast_group.and_then(|g| self.state.replication.group(g)).unwrap_or(&[]);
        let replicas = group.iter().chain(&session.replicas).copied().collect();
        let truncate = (session.truncate_bytes != 0).then_some(session.truncate_bytes);
        Some((replicas, truncate, session.class_of_service))
    }

    /// Copies of the packet as it entered ingress, parsed anew.
    fn clone_ingress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &Packet<E::Frame>,
        session: u32,
        list: Option<u8>,
    ) {
        let Some((replicas, truncate, class)) = self.session(session) else { return };
        if replicas.is_empty() {
            return;
        }
        let mut copy = self.packet(core);
        copy.data.clone_from(&packet.data);
        copy.ingress_port = packet.ingress_port;
        copy.received = packet.received;
        self.begin(&mut copy, instance::INGRESS_CLONE);
        self.preserve(list, &packet.frame, &mut copy.frame);
        self.parse(core, now, &mut copy);
        // The parser saw the preserved fields and may have changed them: what ingress left counts.
        self.preserve(list, &packet.frame, &mut copy.frame);
        copy.truncate = truncate;
        core.stats.ingress_clones += 1;
        core.stats.ingress_clones += self.replicate(core, now, copy, &replicas, Some(class));
    }

    /// Copies of the packet as egress left it, not deparsed.
    fn clone_egress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &Packet<E::Frame>,
        session: u32,
        list: Option<u8>,
    ) {
        let Some((replicas, truncate, class)) = self.session(session) else { return };
        if replicas.is_empty() {
            return;
        }
        let mut copy = self.packet(core);
        copy.data.clone_from(&packet.data);
        copy.payload = packet.payload;
        copy.ingress_port = packet.ingress_port;
        copy.received = packet.received;
        self.begin(&mut copy, instance::EGRESS_CLONE);
        self.exec.set_value(&mut copy.frame, HEADERS, self.exec.value(&packet.frame, HEADERS));
        self.preserve(list, &packet.frame, &mut copy.frame);
        copy.truncate = truncate;
        core.stats.egress_clones += 1;
        core.stats.egress_clones += self.replicate(core, now, copy, &replicas, Some(class));
    }

    /// Puts a packet into an egress queue. Without `priority` the program's choice counts.
    fn enqueue(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        port: u32,
        priority: Option<u8>,
        mut packet: Boxed<E::Frame>,
    ) {
        let std = &self.pipeline.std;
        let priority = match priority {
            _ if core.config.queues_per_port == 1 => 0,
            Some(p) => p,
            None => self.get(&packet.frame, std.priority) as u8,
        };
        if core.queues.is_full(port, priority) {
            core.port(port).queue_full += 1;
            return core.drop(packet, DropReason::QueueFull);
        }
        packet.enqueued = now;
        let depth = core.queues.depth(port, priority);
        self.set(&mut packet.frame, std.enq_timestamp, 32, now.micros());
        self.set(&mut packet.frame, std.enq_qdepth, 19, u64::from(depth));
        core.queues.push(now, port, priority, packet);
    }

    fn egress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        port: u32,
        depth: u32,
        mut packet: Boxed<E::Frame>,
        sink: &mut dyn Sink,
    ) {
        let std = self.pipeline.std;
        let blocks = self.pipeline.blocks;
        let p = &mut *packet;
        let waited = now.micros().saturating_sub(p.enqueued.micros());
        self.set(&mut p.frame, std.egress_global_timestamp, 48, now.micros());
        self.set(&mut p.frame, std.deq_timedelta, 32, waited);
        self.set(&mut p.frame, std.deq_qdepth, 19, u64::from(depth));
        self.set(&mut p.frame, std.egress_port, std.port_width, u64::from(port));
        // Anything but the drop port: a program that does not touch it does not drop.
        let spec = u64::from(core.config.drop_port) + 1;
        self.set(&mut p.frame, std.egress_spec, std.port_width, spec);
        self.set(&mut p.frame, std.packet_length, 32, u64::from(p.bytes));

        let mut effects = Effects::default();
        let payload = &p.data[p.payload..];
        let mut emitted = std::mem::take(&mut core.emitted);
        emitted.clear();
        let mut env = Self::env(&self.pipeline, &mut self.state, &mut effects, core, now, p.bytes, payload);
        self.exec.control(blocks.egress, ALL_SLOTS, &mut p.frame, &mut emitted, &mut env);
        if effects.assertion_failed {
            core.emitted = emitted;
            return core.drop(packet, DropReason::AssertionFailed);
        }
        if effects.truncate.is_some() {
            packet.truncate = effects.truncate;
        }
        if let Some((session, list)) = effects.clone {
            self.clone_egress(core, now, &packet, session, list);
        }
        if effects.drop || self.get(&packet.frame, std.egress_spec) == core.config.drop_port {
            core.emitted = emitted;
            return core.drop(packet, DropReason::Egress);
        }

        let p = &mut *packet;
        let payload = &p.data[p.payload..];
        let mut env = Self::env(&self.pipeline, &mut self.state, &mut effects, core, now, p.bytes, payload);
        emitted.clear();
        self.exec.control(blocks.compute, CHECKSUM_SLOTS, &mut p.frame, &mut emitted, &mut env);
        emitted.clear();
        self.exec.control(blocks.deparser, DEPARSER_SLOTS, &mut p.frame, &mut emitted, &mut env);
        emitted.extend_from_slice(payload);
        if let Some(n) = packet.truncate {
            emitted.truncate(n as usize);
        }
        if effects.assertion_failed {
            core.emitted = emitted;
            return core.drop(packet, DropReason::AssertionFailed);
        }

        if let Some(list) = effects.recirculate {
            let mut again = self.packet(core);
            again.data.clear();
            again.data.extend_from_slice(&emitted);
            again.ingress_port = packet.ingress_port;
            again.received = packet.received;
            self.begin(&mut again, instance::RECIRCULATED);
            self.preserve(Some(list), &packet.frame, &mut again.frame);
            core.recycle(packet);
            core.stats.recirculated += 1;
            core.push_again(again);
        } else {
            core.send(port, packet, &emitted, sink);
        }
        core.emitted = emitted;
    }
}

impl<E: Executor> Switch<E> {
    /// A switch without a program: it drops everything until it has one.
    pub fn new(config: SwitchConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let queue =
            QueueConfig { depth_packets: config.queue_depth_packets, rate_pps: config.queue_rate_pps };
        Ok(Switch {
            loaded: None,
            core: Core {
                ports: config.ports.clone(),
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
                config,
            },
        })
    }

    /// How the switch was made.
    pub fn config(&self) -> &SwitchConfig {
        &self.core.config
    }

    /// Runs `pipeline` from now on. Packets between ingress and egress are dropped and counted; packets that wait for
    /// ingress go through the new program. If it is refused, the old one stays.
    pub fn set_pipeline(&mut self, now: Time, pipeline: Pipeline, keep: Keep) -> Result<(), PipelineError> {
        let width = pipeline.port_width();
        let config = &self.core.config;
        let fits = |port: u32| width >= 32 || port < 1 << width;
        for (what, port) in [("drop port", Some(config.drop_port)), ("CPU port", config.cpu_port)] {
            if let Some(port) = port.filter(|p| !fits(*p)) {
                let message = format!(
                    "the {what} {port} does not fit PortId_t, which has {width} bits: configure a smaller one"
                );
                return Err(PipelineError::Config(Problem::new(message)));
            }
        }
        let exec = E::load(pipeline.program.clone(), &pipeline.slots).map_err(PipelineError::Load)?;
        let mut state = State::new(&pipeline, config);
        self.fold_parser_errors();
        if let Some(old) = self.loaded.take() {
            if keep == Keep::Fitting {
                state.adopt(&old.state);
            }
            state.digests = old.state.digests;
            state.events = old.state.events;
            state.anomalies = old.state.anomalies;
            state.replication = old.state.replication;
        }
        state.arm_all(now);
        let core = &mut self.core;
        // Their frames are laid out for the old program.
        core.pool.clear();
        let lost = core.queues.drain().len() + std::mem::take(&mut core.again).len();
        core.drops[DropReason::PipelineReplaced as usize] += lost as u64;
        for packet in &mut core.input {
            packet.frame = exec.new_frame();
        }
        self.loaded = Some(Loaded { exec, pipeline, state });
        Ok(())
    }

    /// The program that runs.
    pub fn pipeline(&self) -> Option<&Pipeline> {
        self.loaded.as_ref().map(|l| &l.pipeline)
    }

    /// Tables, registers and everything else that the control plane reads.
    pub fn state(&self) -> Option<&State> {
        self.loaded.as_ref().map(|l| &l.state)
    }

    /// Tables, registers and everything else that the control plane writes.
    pub fn state_mut(&mut self) -> Option<&mut State> {
        self.loaded.as_mut().map(|l| &mut l.state)
    }

    /// Takes a packet from a port. It is processed by [`Switch::poll`]; its ingress timestamp is now.
    pub fn receive(&mut self, now: Time, port: u32, packet: &[u8]) {
        let core = &mut self.core;
        core.last_now = core.last_now.max(now);
        core.stats.received += 1;
        let mut refuse = |reason: DropReason| core.drops[reason as usize] += 1;
        let Some(loaded) = &self.loaded else { return refuse(DropReason::NoPipeline) };
        let width = loaded.pipeline.port_width();
        if (width < 32 && port >= 1 << width) || !self.core.has_port(port) {
            let core = &mut self.core;
            core.drops[DropReason::UnknownIngressPort as usize] += 1;
            return;
        }
        let core = &mut self.core;
        let stats = core.port(port);
        stats.rx_packets += 1;
        stats.rx_bytes += packet.len() as u64;
        let reason = if packet.len() > core.config.max_packet_bytes as usize {
            Some(DropReason::TooLong)
        } else if core.input.len() >= core.config.input_depth_packets as usize {
            Some(DropReason::InputFull)
        } else {
            None
        };
        if let Some(reason) = reason {
            core.drops[reason as usize] += 1;
            return;
        }
        let mut p = loaded.packet(core);
        p.data.clear();
        p.data.extend_from_slice(packet);
        p.ingress_port = port;
        p.received = now;
        p.fresh = true;
        core.input.push_back(p);
    }

    /// Takes a packet from the control plane: it comes in on the CPU port. Without a CPU port it is dropped as from an
    /// unknown port.
    pub fn receive_cpu(&mut self, now: Time, packet: &[u8]) {
        self.core.stats.received_from_cpu += 1;
        match self.core.config.cpu_port {
            Some(port) => self.receive(now, port, packet),
            None => {
                self.core.stats.received += 1;
                self.core.drops[DropReason::UnknownIngressPort as usize] += 1;
            }
        }
    }

    /// Processes what can be processed now, at most `budget` passes through ingress or egress. Packets that leave go to
    /// `sink`. Packets that recirculate for ever use up budgets, not time.
    pub fn poll(&mut self, now: Time, budget: usize, sink: &mut dyn Sink) -> Polled {
        let core = &mut self.core;
        core.last_now = core.last_now.max(now);
        let Some(loaded) = &mut self.loaded else { return Polled { passes: 0, more: false } };
        let mut passes = 0;
        while passes < budget {
            // Egress first: packets leave as soon as they may, and queues stay short.
            if let Some(d) = core.queues.pop(now) {
                loaded.egress(core, now, d.port, d.depth, d.packet, sink);
            } else if let Some(packet) = core.next_input() {
                loaded.ingress(core, now, packet);
            } else {
                break;
            }
            passes += 1;
        }
        let waiting = !core.input.is_empty() || !core.again.is_empty();
        Polled { passes, more: waiting || core.queues.next().is_some_and(|t| t <= now) }
    }

    /// When [`Switch::poll`] next has something to do (perhaps already), or an idle timeout may have passed
    /// ([`Switch::take_idle`]). `None`: not before the next packet.
    pub fn next_deadline(&self) -> Option<Time> {
        let core = &self.core;
        let input = (!core.input.is_empty() || !core.again.is_empty()).then_some(core.last_now);
        let idle = self.loaded.as_ref().and_then(|l| l.state.next_idle());
        [input, core.queues.next(), idle].into_iter().flatten().min()
    }

    /// Digests since the last call, oldest first.
    pub fn take_digests(&mut self) -> Vec<Digest> {
        self.loaded.as_mut().map(|l| l.state.digests.drain(..).collect()).unwrap_or_default()
    }

    /// Log messages and failed assertions since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.loaded.as_mut().map(|l| l.state.events.drain(..).collect()).unwrap_or_default()
    }

    /// Entries whose idle timeout has passed; see [`State::take_idle`].
    pub fn take_idle(&mut self, now: Time) -> Vec<IdleEntry> {
        self.loaded.as_mut().map(|l| l.state.take_idle(now)).unwrap_or_default()
    }

    fn fold_parser_errors(&mut self) {
        if let Some(l) = &self.loaded {
            let stats = &mut self.core.stats;
            for (i, n) in self.core.parser_errors.drain(..).enumerate().filter(|(_, n)| *n != 0) {
                let name = l.pipeline.program.errors.get(i).cloned().unwrap_or_else(|| i.to_string());
                *stats.parser_errors.entry(name).or_default() += n;
            }
        }
    }

    /// The counters.
    pub fn stats(&mut self) -> &Stats {
        self.fold_parser_errors();
        let core = &mut self.core;
        let stats = &mut core.stats;
        stats.drops =
            DropReason::ALL.iter().map(|r| (*r, core.drops[*r as usize])).filter(|(_, n)| *n != 0).collect();
        stats.queued = core.input.len() as u64 + core.again.len() as u64 + core.queues.len();
        if let Some(l) = &self.loaded {
            stats.anomalies = l.state.anomalies;
        }
        stats
    }

    /// Counters of one port.
    pub fn port_stats(&self, port: u32) -> PortStats {
        let mut stats = self.core.port_stats.get(port).copied().unwrap_or_default();
        stats.queued = self.core.queues.port_len(port);
        stats
    }

    /// The ports, if they are restricted.
    pub fn ports(&self) -> Option<&BTreeSet<u32>> {
        self.core.ports.as_ref()
    }

    /// Adds a port. From then on only ports that were added exist.
    pub fn add_port(&mut self, port: u32) -> Result<(), ConfigError> {
        if port == self.core.config.drop_port {
            return Err(ConfigError(format!("port {port} is the drop port: choose another number")));
        }
        self.core.ports.get_or_insert_default().insert(port);
        Ok(())
    }

    /// Removes a port. Packets in its queues are dropped when their turn comes.
    pub fn remove_port(&mut self, port: u32) -> bool {
        self.core.ports.as_mut().is_some_and(|p| p.remove(&port))
    }

    /// Depth and rate of a queue.
    pub fn queue_config(&self, port: u32, priority: u8) -> QueueConfig {
        self.core.queues.config(port, priority)
    }

    /// Sets depth and rate of one queue of a port, or of all its queues. Packets that wait already keep their times.
    pub fn configure_queue(
        &mut self,
        port: u32,
        priority: Option<u8>,
        config: QueueConfig,
    ) -> Result<(), ConfigError> {
        check_queue(&config)?;
        if let Some(p) = priority.filter(|p| *p >= self.core.config.queues_per_port) {
            let n = self.core.config.queues_per_port;
            return Err(ConfigError(format!("no queue of priority {p}: each port has {n}")));
        }
        self.core.queues.configure(port, priority, config);
        Ok(())
    }

    /// Sets depth and rate of all queues.
    pub fn configure_all_queues(&mut self, config: QueueConfig) -> Result<(), ConfigError> {
        check_queue(&config)?;
        self.core.queues.configure_all(config);
        Ok(())
    }
}

fn check_queue(config: &QueueConfig) -> Result<(), ConfigError> {
    if config.depth_packets == 0 {
        return Err(ConfigError("depth_packets is 0: choose at least 1".into()));
    }
    if config.rate_pps == Some(0) {
        return Err(ConfigError("rate_pps is 0: leave it out for no limit".into()));
    }
    Ok(())
}
