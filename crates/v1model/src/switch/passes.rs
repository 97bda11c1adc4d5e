//! One packet's way through ingress, or through egress.

use super::Sink;
use super::core::{Boxed, Core, FEW, LANES, Packet, Way, instance};
use crate::env::{BlockEnv, Effects};
use crate::fields::StdHandles;
use crate::pipeline::{ALL_SLOTS, CHECKSUM_SLOTS, DEPARSER_SLOTS, HEADERS, META, Pipeline, STD};
use crate::replication::Replica;
use crate::state::{Access, State};
use crate::stats::DropReason;
use crate::time::Time;
use crate::trace::{Block, Origin, StepKind};
use crate::usage::Unit;
use pointsman_ir::{ControlId, Direction, Executor, ParseOutcome, Value};
use std::sync::Arc;

/// A program that runs.
pub(super) struct Loaded<E: Executor> {
    pub fixed: Fixed<E>,
    pub state: State,
}

/// The part of it that never changes.
pub(super) struct Fixed<E: Executor> {
    pub exec: Arc<E>,
    pub std: StdHandles<E::Field>,
    pub pipeline: Pipeline,
    /// See [`crate::SwitchConfig::clock_offset_us`].
    pub clock_offset_us: u64,
    pub runs: Runs,
    /// The parser does not clear the headers itself.
    reset_headers: bool,
    /// Packets that are parsed before the first of them continues.
    pub at_once: usize,
    /// The executor takes packets through in one go (`through.rs`).
    pub through: bool,
}

/// The controls, without those that do nothing: many programs leave the checksum blocks and egress empty.
pub(super) struct Runs {
    /// The section that the parser is.
    pub parser: Option<usize>,
    pub verify: Option<Run>,
    pub ingress: Option<Run>,
    pub egress: Option<Run>,
    pub compute: Option<Run>,
    pub deparser: Option<Run>,
}

impl Runs {
    pub fn new(pipeline: &Pipeline) -> Runs {
        let (program, blocks) = (&pipeline.program, &pipeline.blocks);
        let run = |control: ControlId| {
            let does_something = program.controls.get(control.index()).is_some_and(|c| !c.body.is_empty());
            let section = pipeline.sections.of(Unit::Control(control));
            does_something.then_some(Run { control, section })
        };
        Runs {
            parser: pipeline.sections.of(Unit::Parser(blocks.parser)),
            verify: run(blocks.verify),
            ingress: run(blocks.ingress),
            egress: run(blocks.egress),
            compute: run(blocks.compute),
            deparser: run(blocks.deparser),
        }
    }
}

/// A control that is run.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub control: ControlId,
    /// See [`Access::enter`].
    pub section: Option<usize>,
}

/// A program at work: for one worker that has it alone, or one of several.
pub(super) struct Drive<'a, E: Executor> {
    pub fixed: &'a Fixed<E>,
    pub state: Access<'a>,
}

impl<E: Executor> Fixed<E> {
    pub fn packet(&self, core: &mut Core<E::Frame>) -> Boxed<E::Frame> {
        core.pool.pop().unwrap_or_else(|| {
            Box::new(Packet {
                frame: self.exec.new_frame(),
                data: Vec::new(),
                way: Way::START,
                ingress_port: 0,
                received: Time::ZERO,
                enqueued: Time::ZERO,
                descendants: None,
                fresh: true,
            })
        })
    }
}

impl<E: Executor> Loaded<E> {
    pub fn new(
        (exec, through): (Arc<E>, bool),
        std: StdHandles<E::Field>,
        pipeline: Pipeline,
        state: State,
        offset_us: u64,
    ) -> Self {
        let (program, blocks, runs) = (&pipeline.program, &pipeline.blocks, Runs::new(&pipeline));
        let headers = program.parsers.get(blocks.parser.index()).and_then(|p| p.frame.params.first());
        let reset_headers = headers.is_none_or(|p| p.direction != Direction::Out);
        // A parser without calls can run ahead of other packets. A few at a time share the fixed cost.
        let at_once = if pipeline.parser_is_pure { exec.lookahead().clamp(FEW, LANES) } else { 1 };
        let clock_offset_us = offset_us;
        let fixed = Fixed { exec, std, pipeline, clock_offset_us, runs, reset_headers, at_once, through };
        Loaded { fixed, state }
    }

    pub fn alone(&mut self) -> Drive<'_, E> {
        Drive { fixed: &self.fixed, state: Access::Alone(&mut self.state) }
    }

    pub fn shared(&self) -> Drive<'_, E> {
        Drive { fixed: &self.fixed, state: Access::Shared(&self.state) }
    }
}

impl<E: Executor> Drive<'_, E> {
    /// A packet that descends from `from`, without its data and frame.
    fn descendant(
        &self,
        core: &mut Core<E::Frame>,
        from: &Packet<E::Frame>,
        origin: Origin,
    ) -> Boxed<E::Frame> {
        let mut new = self.fixed.packet(core);
        new.data.clear();
        new.ingress_port = from.ingress_port;
        new.received = from.received;
        new.descendants.clone_from(&from.descendants);
        new.fresh = false;
        let thread = core.thread(|| StepKind::Copied { parent: from.way.thread, origin });
        new.way = Way { thread, ..from.way };
        new
    }

    #[inline]
    pub fn set(&self, frame: &mut E::Frame, field: Option<E::Field>, value: u64) {
        set(&*self.fixed.exec, frame, field, value);
    }

    #[inline]
    pub fn get(&self, frame: &E::Frame, field: Option<E::Field>) -> u32 {
        get(&*self.fixed.exec, frame, field)
    }

    /// Microseconds as the program sees them.
    pub fn stamp(&self, time: Time) -> u64 {
        time.micros().wrapping_add(self.fixed.clock_offset_us)
    }

    /// Readies the frame for a pass through the parser.
    fn begin(&self, packet: &mut Packet<E::Frame>, instance_type: u32) {
        let bytes = packet.data.len() as u32;
        packet.way = Way { bytes, truncate: None, ..packet.way };
        packet.fresh = false;
        let stamp = self.stamp(packet.received);
        self.begin_frame(&mut packet.frame, bytes, packet.ingress_port, stamp);
        if instance_type != instance::NORMAL {
            self.set(&mut packet.frame, self.fixed.std.instance_type, u64::from(instance_type));
        }
    }

    #[inline]
    pub fn begin_frame(&self, frame: &mut E::Frame, bytes: u32, ingress_port: u32, stamp: u64) {
        let std = &self.fixed.std;
        if self.fixed.reset_headers {
            self.fixed.exec.reset_slot(frame, HEADERS);
        }
        self.fixed.exec.reset_slot(frame, META);
        self.fixed.exec.reset_slot(frame, STD);
        self.set(frame, std.ingress_port, u64::from(ingress_port));
        self.set(frame, std.packet_length, u64::from(bytes));
        self.set(frame, std.ingress_global_timestamp, stamp);
    }

    /// Copies the user metadata of a field list.
    fn preserve(&self, list: Option<u32>, from: &E::Frame, to: &mut E::Frame) {
        if let Some(fields) = list.and_then(|l| self.fixed.pipeline.field_lists.get(&l)) {
            fields.copy(&*self.fixed.exec, from, to);
        }
    }

    /// Runs the parser. Its errors are not counted yet.
    fn parse(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        frame: &mut E::Frame,
        way: &mut Way,
        data: &[u8],
    ) -> (ParseOutcome, Effects) {
        let mut env = env(&self.fixed.pipeline, self.state.again(), core, now, way, &[]);
        let parser = self.fixed.pipeline.blocks.parser;
        env.note(|| StepKind::Begin(Block::Parser(parser)));
        let section = env.state.enter(self.fixed.pipeline.sections.of(Unit::Parser(parser)));
        let outcome = self.fixed.exec.parse(parser, ALL_SLOTS, frame, data, &mut env);
        env.own.atomic.leave();
        drop(section);
        // Headers are whole bytes; only an odd `advance` could stop inside one.
        way.payload = outcome.consumed_bits.div_ceil(8).min(data.len());
        let (accepted, error, consumed_bytes) = (outcome.accepted, outcome.error, way.payload);
        env.note(|| StepKind::Parsed { accepted, error, consumed_bytes });
        let effects = env.effects;
        if outcome.error != 0 {
            self.set(frame, self.fixed.std.parser_error, u64::from(outcome.error));
        }
        if self.fixed.pipeline.egress_reads_length {
            way.parsed_bits = header_bits(&*self.fixed.exec, frame);
        }
        (outcome, effects)
    }

    /// The same for a packet with its own memory; errors are counted.
    fn parse_packet(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &mut Packet<E::Frame>,
    ) -> Effects {
        let Packet { frame, data, way, .. } = packet;
        let (outcome, effects) = self.parse(core, now, frame, way, data);
        core.gate.count_parsed(outcome.accepted, outcome.error);
        effects
    }

    /// Verifies checksums and runs ingress.
    fn ingress_blocks(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        frame: &mut E::Frame,
        way: &Way,
        data: &[u8],
        effects: Effects,
    ) -> Effects {
        let payload = &data[way.payload..];
        let emitted = &mut Vec::new();
        let mut env = env(&self.fixed.pipeline, self.state.again(), core, now, way, payload);
        env.effects = effects;
        if let Some(verify) = self.fixed.runs.verify {
            run(
                &*self.fixed.exec,
                (Block::Verify(verify.control), verify),
                CHECKSUM_SLOTS,
                frame,
                emitted,
                &mut env,
            );
        }
        if env.effects.checksum_error {
            env.note(|| StepKind::ChecksumError);
            set(&*self.fixed.exec, frame, self.fixed.std.checksum_error, 1);
        }
        env.effects.checksum_error = false;
        if let Some(ingress) = self.fixed.runs.ingress {
            run(
                &*self.fixed.exec,
                (Block::Ingress(ingress.control), ingress),
                ALL_SLOTS,
                frame,
                emitted,
                &mut env,
            );
        }
        if env.effects.checksum_error {
            // Verified in ingress: egress sees it.
            env.note(|| StepKind::ChecksumError);
            set(&*self.fixed.exec, frame, self.fixed.std.checksum_error, 1);
        }
        env.effects
    }

    pub fn ingress(&mut self, core: &mut Core<E::Frame>, now: Time, mut packet: Boxed<E::Frame>) {
        if packet.fresh {
            self.begin(&mut packet, instance::NORMAL);
        }
        let effects = self.parse_packet(core, now, &mut packet);
        let p = &mut *packet;
        let effects = self.ingress_blocks(core, now, &mut p.frame, &p.way, &p.data, effects);
        self.after_ingress(core, now, packet, effects);
    }

    /// Acts on the requests of ingress.
    pub fn after_ingress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        mut packet: Boxed<E::Frame>,
        effects: Effects,
    ) {
        if effects.assertion_failed {
            return core.drop(packet, DropReason::AssertionFailed);
        }
        if effects.truncate.is_some() {
            packet.way.truncate = effects.truncate;
        }

        if let Some((session, list)) = effects.clone {
            self.clone_ingress(core, now, &mut packet, session, list);
        }
        if let Some(list) = effects.resubmit {
            if !core.may_descend(&mut packet) {
                return core.drop(packet, DropReason::TooManyDescendants);
            }
            let mut again = self.descendant(core, &packet, Origin::Resubmit(list));
            core.note(packet.way.thread, || StepKind::Again(again.way.thread));
            std::mem::swap(&mut again.data, &mut packet.data);
            self.begin(&mut again, instance::RESUBMITTED);
            self.preserve(Some(list), &packet.frame, &mut again.frame);
            core.recycle(packet);
            core.gate.stats.resubmitted += 1;
            return core.push_again(again);
        }
        let (mut port, mut group) = (
            self.get(&packet.frame, self.fixed.std.egress_spec),
            self.get(&packet.frame, self.fixed.std.mcast_grp),
        );
        if effects.drop {
            (port, group) = (core.config.drop_port, 0);
        }
        if group != 0 {
            self.set(&mut packet.frame, self.fixed.std.instance_type, instance::REPLICATION.into());
            let Some(replicas) = self.state.replication.active_group(group) else {
                return core.drop(packet, DropReason::UnknownMulticastGroup);
            };
            core.note(packet.way.thread, || StepKind::Multicast { group, copies: replicas.len() });
            let made = self.replicate(core, now, packet, &replicas, None);
            core.gate.stats.replicas += made;
            return;
        }
        if port == core.config.drop_port {
            return core.drop(packet, DropReason::Ingress);
        }
        // Also for packets that were resubmitted or recirculated: this is what BMv2 does.
        self.set(&mut packet.frame, self.fixed.std.instance_type, instance::NORMAL.into());
        self.enqueue(core, now, port, None, packet);
    }

    /// Sends a packet to every replica; gives the number of packets that this made.
    fn replicate(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        mut packet: Boxed<E::Frame>,
        replicas: &[Replica],
        priority: Option<u8>,
    ) -> u64 {
        let Some((last, others)) = replicas.split_last() else {
            core.drop(packet, DropReason::EmptyMulticastGroup);
            return 0;
        };
        if !others.is_empty() {
            // Replicas have the limit on descendants in common.
            packet.descendants();
        }
        for r in others {
            let mut copy = self.descendant(core, &packet, Origin::Replica);
            copy.frame.clone_from(&packet.frame);
            copy.data.extend_from_slice(&packet.data);
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
        let rid = self.fixed.std.egress_rid;
        self.set(&mut packet.frame, rid, u64::from(replica.instance));
        self.enqueue(core, now, replica.port, priority, packet);
    }

    /// Replicas of a clone session, its truncation and its class of service.
    fn session(&self, core: &mut Core<E::Frame>, id: u32) -> Option<(Vec<Replica>, Option<u32>, u8)> {
        let Some(session) = self.state.replication.session(id) else {
            core.own.anomalies.unknown_clone_session += 1;
            return None;
        };
        let group = session.multicast_group.and_then(|g| self.state.replication.active_group(g));
        let replicas = group.iter().flat_map(|g| g.iter()).chain(&session.replicas).copied().collect();
        let truncate = (session.truncate_bytes != 0).then_some(session.truncate_bytes);
        Some((replicas, truncate, session.class_of_service))
    }

    /// Copies of the packet as it entered ingress, parsed again.
    fn clone_ingress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &mut Packet<E::Frame>,
        session: u32,
        list: Option<u32>,
    ) {
        let found = self.session(core, session).filter(|(replicas, ..)| !replicas.is_empty());
        let Some((replicas, truncate, class)) = found else {
            return core.note(packet.way.thread, || StepKind::NotCloned(session));
        };
        let may = core.may_descend(packet);
        let mut copy = self.descendant(core, packet, Origin::IngressClone(session));
        core.gate.stats.ingress_clones += 1;
        if !may {
            return core.drop(copy, DropReason::TooManyDescendants);
        }
        copy.data.extend_from_slice(&packet.data);
        self.begin(&mut copy, instance::INGRESS_CLONE);
        self.preserve(list, &packet.frame, &mut copy.frame);
        self.parse_packet(core, now, &mut copy);
        // The parser saw the preserved fields and may have changed them: their values after ingress count.
        self.preserve(list, &packet.frame, &mut copy.frame);
        copy.way.truncate = truncate;
        core.gate.stats.ingress_clones += self.replicate(core, now, copy, &replicas, Some(class));
    }

    /// Copies of the packet as egress left it, not deparsed: all headers, and the metadata of the field list.
    fn clone_egress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &mut Packet<E::Frame>,
        session: u32,
        list: Option<u32>,
    ) {
        let found = self.session(core, session).filter(|(replicas, ..)| !replicas.is_empty());
        let Some((replicas, truncate, class)) = found else {
            return core.note(packet.way.thread, || StepKind::NotCloned(session));
        };
        let may = core.may_descend(packet);
        let mut copy = self.descendant(core, packet, Origin::EgressClone(session));
        core.gate.stats.egress_clones += 1;
        if !may {
            return core.drop(copy, DropReason::TooManyDescendants);
        }
        copy.data.extend_from_slice(&packet.data);
        self.begin(&mut copy, instance::EGRESS_CLONE);
        let exec = &*self.fixed.exec;
        exec.set_value(&mut copy.frame, HEADERS, exec.value(&packet.frame, HEADERS));
        // Headers stay, wherever they are; other metadata starts with zeros.
        self.fixed.pipeline.meta_headers.copy(exec, &packet.frame, &mut copy.frame);
        self.preserve(list, &packet.frame, &mut copy.frame);
        copy.way.truncate = truncate;
        core.gate.stats.egress_clones += self.replicate(core, now, copy, &replicas, Some(class));
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
        let priority = match priority {
            _ if core.config.queues_per_port == 1 => 0,
            Some(p) => p,
            None => self.get(&packet.frame, self.fixed.std.priority) as u8,
        };
        if core.queues.refuses(port, priority) {
            core.gate.port(port).queue_full += 1;
            return core.drop(packet, DropReason::QueueFull);
        }
        packet.enqueued = now;
        let depth = core.queues.depth(port, priority);
        let stamp = self.stamp(now);
        self.enters_queue(&mut packet.frame, stamp, depth);
        core.note(packet.way.thread, || {
            let instance = self.get(&packet.frame, self.fixed.std.egress_rid) as u16;
            StepKind::Enqueued { port, priority, depth, instance }
        });
        core.queues.push(now, port, priority, packet);
    }

    fn enters_queue(&self, frame: &mut E::Frame, stamp: u64, depth: u32) {
        self.set(frame, self.fixed.std.enq_timestamp, stamp);
        self.set(frame, self.fixed.std.enq_qdepth, u64::from(depth));
    }

    /// Egress's view of a packet that leaves its queue.
    fn leaves_queue(
        &self,
        frame: &mut E::Frame,
        way: &Way,
        drop_port: u32,
        stamp: u64,
        (port, depth, waited_us): (u32, u32, u64),
    ) {
        let std = &self.fixed.std;
        self.set(frame, std.egress_global_timestamp, stamp);
        self.set(frame, std.deq_timedelta, waited_us);
        self.set(frame, std.deq_qdepth, u64::from(depth));
        self.set(frame, std.egress_port, u64::from(port));
        // Anything but the drop port: a program that does not touch it does not drop.
        self.set(frame, std.egress_spec, u64::from(drop_port) + 1);
        if self.fixed.pipeline.egress_reads_length {
            let length = way_length(way, header_bits(&*self.fixed.exec, frame));
            self.set(frame, std.packet_length, length);
        }
    }

    pub fn egress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        port: u32,
        depth: u32,
        mut packet: Boxed<E::Frame>,
        sink: &mut dyn Sink,
    ) {
        let p = &mut *packet;
        let waited = now.micros().saturating_sub(p.enqueued.micros());
        core.note(p.way.thread, || StepKind::Dequeued { port, waited_us: waited });
        let (stamp, drop_port) = (self.stamp(now), core.config.drop_port);
        self.leaves_queue(&mut p.frame, &p.way, drop_port, stamp, (port, depth, waited));
        let mut effects = Effects::NONE;
        if let Some(egress) = self.fixed.runs.egress {
            let payload = &p.data[p.way.payload..];
            let mut env = env(&self.fixed.pipeline, self.state.again(), core, now, &p.way, payload);
            let (frame, emitted) = (&mut p.frame, &mut Vec::new());
            run(
                &*self.fixed.exec,
                (Block::Egress(egress.control), egress),
                ALL_SLOTS,
                frame,
                emitted,
                &mut env,
            );
            effects = env.effects;
        }
        self.after_egress(core, now, port, packet, effects, sink);
    }

    /// Acts on the requests of egress, and sends the packet.
    pub fn after_egress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        port: u32,
        mut packet: Boxed<E::Frame>,
        effects: Effects,
        sink: &mut dyn Sink,
    ) {
        if effects.assertion_failed {
            return core.drop(packet, DropReason::AssertionFailed);
        }
        if effects.truncate.is_some() {
            packet.way.truncate = effects.truncate;
        }
        if let Some((session, list)) = effects.clone {
            self.clone_egress(core, now, &mut packet, session, list);
        }
        if effects.drop || self.get(&packet.frame, self.fixed.std.egress_spec) == core.config.drop_port {
            return core.drop(packet, DropReason::Egress);
        }

        let mut emitted = std::mem::take(&mut core.emitted);
        let p = &mut *packet;
        let payload = &p.data[p.way.payload..];
        let mut env = env(&self.fixed.pipeline, self.state.again(), core, now, &p.way, payload);
        env.effects = effects;
        deparse(&*self.fixed.exec, &self.fixed.runs, &mut p.frame, &mut emitted, &mut env);
        let effects = env.effects;
        emitted.extend_from_slice(payload);
        if let Some(n) = packet.way.truncate {
            emitted.truncate(n as usize);
        }
        if effects.assertion_failed {
            core.emitted = emitted;
            return core.drop(packet, DropReason::AssertionFailed);
        }

        if let Some(list) = effects.recirculate {
            if !core.may_descend(&mut packet) {
                core.emitted = emitted;
                return core.drop(packet, DropReason::TooManyDescendants);
            }
            let mut again = self.descendant(core, &packet, Origin::Recirculate(list));
            core.note(packet.way.thread, || StepKind::Again(again.way.thread));
            again.data.extend_from_slice(&emitted);
            self.begin(&mut again, instance::RECIRCULATED);
            self.preserve(Some(list), &packet.frame, &mut again.frame);
            core.recycle(packet);
            core.gate.stats.recirculated += 1;
            core.push_again(again);
        } else {
            core.send(port, packet, &emitted, sink);
        }
        core.emitted = emitted;
    }

    /// Processes waiting packets, egress first: packets leave as soon as they may, and queues stay short.
    pub fn work(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        budget: usize,
        sink: &mut dyn Sink,
    ) -> usize {
        let mut passes = 0;
        while passes < budget {
            if let Some(d) = core.queues.pop(now) {
                self.egress(core, now, d.port, d.depth, d.packet, sink);
            } else if let Some(packet) = core.next_input() {
                self.ingress(core, now, packet);
            } else {
                break;
            }
            passes += 1;
        }
        passes
    }
}

fn env<'a, F>(
    pipeline: &'a Pipeline,
    state: Access<'a>,
    core: &'a mut Core<F>,
    now: Time,
    way: &Way,
    payload: &'a [u8],
) -> BlockEnv<'a> {
    let (drop_port, thread, bytes) = (core.config.drop_port, way.thread, way.bytes);
    let trace = core.trace.as_deref_mut().filter(|_| thread != 0);
    let (effects, own) = (Effects::NONE, &mut core.own);
    BlockEnv { pipeline, state, own, effects, now, bytes, payload, drop_port, trace, thread }
}

#[inline]
pub(super) fn set<E: Executor>(exec: &E, frame: &mut E::Frame, field: Option<E::Field>, value: u64) {
    if let Some(field) = field {
        exec.write(frame, field, value);
    }
}

#[inline]
pub(super) fn get<E: Executor>(exec: &E, frame: &E::Frame, field: Option<E::Field>) -> u32 {
    field.map_or(0, |field| exec.read(frame, field) as u32)
}

/// Bits of all valid headers.
pub(super) fn header_bits<E: Executor>(exec: &E, frame: &E::Frame) -> u64 {
    valid_bits(&exec.value(frame, HEADERS))
}

/// Length of a packet whose headers have these bits now.
pub(super) fn way_length(way: &Way, header_bits: u64) -> u64 {
    (u64::from(way.bytes) + header_bits / 8).saturating_sub(way.parsed_bits / 8)
}

/// Computes checksums and puts the headers together.
fn deparse<E: Executor>(
    exec: &E,
    runs: &Runs,
    frame: &mut E::Frame,
    emitted: &mut Vec<u8>,
    env: &mut BlockEnv<'_>,
) {
    emitted.clear();
    if let Some(compute) = runs.compute {
        run(exec, (Block::Compute(compute.control), compute), CHECKSUM_SLOTS, frame, emitted, env);
        emitted.clear();
    }
    if let Some(deparser) = runs.deparser {
        run(exec, (Block::Deparser(deparser.control), deparser), DEPARSER_SLOTS, frame, emitted, env);
    }
}

/// Runs a control.
fn run<E: Executor>(
    exec: &E,
    (block, run): (Block, Run),
    slots: &[usize],
    frame: &mut E::Frame,
    emitted: &mut Vec<u8>,
    env: &mut BlockEnv<'_>,
) {
    env.note(|| StepKind::Begin(block));
    let _section = env.state.enter(run.section);
    let outcome = exec.control(run.control, slots, frame, emitted, env);
    env.own.atomic.leave();
    env.note(|| StepKind::End { exited: outcome.exited });
}

/// Bits of every valid header inside `value`.
fn valid_bits(value: &Value) -> u64 {
    match value {
        Value::Struct(vs) | Value::Union(vs) => vs.iter().map(valid_bits).sum(),
        Value::Stack { elems, .. } => elems.iter().map(valid_bits).sum(),
        Value::Header { valid: true, fields } => fields.iter().map(field_bits).sum(),
        _ => 0,
    }
}

fn field_bits(value: &Value) -> u64 {
    match value {
        Value::Bits(b) | Value::Varbit(b) => u64::from(b.width()),
        Value::Bool(_) => 1,
        Value::Struct(vs) => vs.iter().map(field_bits).sum(),
        _ => 0,
    }
}
