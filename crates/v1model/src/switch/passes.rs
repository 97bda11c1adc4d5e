//! One packet's way through ingress, or through egress.

use super::Sink;
use super::core::{Boxed, Core, Packet, instance};
use crate::env::{BlockEnv, Effects};
use crate::fields::StdHandles;
use crate::pipeline::{ALL_SLOTS, CHECKSUM_SLOTS, DEPARSER_SLOTS, HEADERS, Pipeline};
use crate::replication::Replica;
use crate::state::State;
use crate::stats::DropReason;
use crate::time::Time;
use crate::trace::{Block, Origin, StepKind};
use pointsman_ir::{ControlId, Executor, Value};

/// A program that runs.
pub(super) struct Loaded<E: Executor> {
    pub exec: E,
    pub std: StdHandles<E::Field>,
    pub pipeline: Pipeline,
    pub state: State,
    /// See [`crate::SwitchConfig::clock_offset_us`].
    pub clock_offset_us: u64,
}

impl<E: Executor> Loaded<E> {
    pub fn packet(&self, core: &mut Core<E::Frame>) -> Boxed<E::Frame> {
        core.pool.pop().unwrap_or_else(|| {
            Box::new(Packet {
                frame: self.exec.new_frame(),
                data: Vec::new(),
                payload: 0,
                ingress_port: 0,
                received: Time::ZERO,
                bytes: 0,
                parsed_bits: 0,
                truncate: None,
                enqueued: Time::ZERO,
                fresh: true,
                thread: 0,
            })
        })
    }

    /// A packet that descends from `from`, without its data and frame.
    fn descendant(
        &self,
        core: &mut Core<E::Frame>,
        from: &Packet<E::Frame>,
        origin: Origin,
    ) -> Boxed<E::Frame> {
        let mut new = self.packet(core);
        new.data.clear();
        new.payload = from.payload;
        new.ingress_port = from.ingress_port;
        new.received = from.received;
        new.bytes = from.bytes;
        new.parsed_bits = from.parsed_bits;
        new.truncate = from.truncate;
        new.fresh = false;
        new.thread = core.thread(|| StepKind::Copied { parent: from.thread, origin });
        new
    }

    fn set(&self, frame: &mut E::Frame, field: E::Field, value: u64) {
        self.exec.write(frame, field, value);
    }

    fn get(&self, frame: &E::Frame, field: E::Field) -> u32 {
        self.exec.read(frame, field) as u32
    }

    /// Microseconds as the program sees them.
    fn stamp(&self, time: Time) -> u64 {
        time.micros().wrapping_add(self.clock_offset_us)
    }

    /// Readies the frame for a pass through the parser.
    fn begin(&self, packet: &mut Packet<E::Frame>, instance_type: u32) {
        let std = self.std;
        self.exec.reset(&mut packet.frame);
        packet.bytes = packet.data.len() as u32;
        packet.truncate = None;
        packet.fresh = false;
        let frame = &mut packet.frame;
        self.set(frame, std.ingress_port, u64::from(packet.ingress_port));
        self.set(frame, std.packet_length, u64::from(packet.bytes));
        self.set(frame, std.ingress_global_timestamp, self.stamp(packet.received));
        if instance_type != instance::NORMAL {
            self.set(frame, std.instance_type, u64::from(instance_type));
        }
    }

    /// Copies the user metadata of a field list.
    fn preserve(&self, list: Option<u32>, from: &E::Frame, to: &mut E::Frame) {
        if let Some(fields) = list.and_then(|l| self.pipeline.field_lists.get(&l)) {
            fields.copy(&self.exec, from, to);
        }
    }

    fn env<'a>(
        pipeline: &'a Pipeline,
        state: &'a mut State,
        effects: &'a mut Effects,
        core: &'a mut Core<E::Frame>,
        now: Time,
        (bytes, thread): (u32, u32),
        payload: &'a [u8],
    ) -> BlockEnv<'a> {
        let drop_port = core.config.drop_port;
        let trace = core.trace.as_deref_mut().filter(|_| thread != 0);
        BlockEnv { pipeline, state, effects, now, bytes, payload, drop_port, trace, thread }
    }

    /// Runs the parser and notes its error.
    fn parse(&mut self, core: &mut Core<E::Frame>, now: Time, packet: &mut Packet<E::Frame>) -> Effects {
        let mut effects = Effects::default();
        let of = (packet.bytes, packet.thread);
        let mut env = Self::env(&self.pipeline, &mut self.state, &mut effects, core, now, of, &[]);
        let parser = self.pipeline.blocks.parser;
        env.note(|| StepKind::Begin(Block::Parser(parser)));
        let outcome = self.exec.parse(parser, ALL_SLOTS, &mut packet.frame, &packet.data, &mut env);
        // Headers are whole bytes; only an odd `advance` could stop inside one.
        packet.payload = outcome.consumed_bits.div_ceil(8).min(packet.data.len());
        let (accepted, error, consumed_bytes) = (outcome.accepted, outcome.error, packet.payload);
        env.note(|| StepKind::Parsed { accepted, error, consumed_bytes });
        if !outcome.accepted {
            let i = outcome.error as usize;
            if core.parser_errors.len() <= i {
                core.parser_errors.resize(i + 1, 0);
            }
            core.parser_errors[i] += 1;
        }
        if outcome.error != 0 {
            self.set(&mut packet.frame, self.std.parser_error, u64::from(outcome.error));
        }
        packet.parsed_bits = self.header_bits(&packet.frame);
        effects
    }

    /// Bits of all valid headers, where egress wants to know.
    fn header_bits(&self, frame: &E::Frame) -> u64 {
        if self.pipeline.egress_reads_length { valid_bits(&self.exec.value(frame, HEADERS)) } else { 0 }
    }

    pub fn ingress(&mut self, core: &mut Core<E::Frame>, now: Time, mut packet: Boxed<E::Frame>) {
        if packet.fresh {
            self.begin(&mut packet, instance::NORMAL);
        }
        let mut effects = self.parse(core, now, &mut packet);
        let std = self.std;
        let blocks = self.pipeline.blocks;
        let p = &mut *packet;
        let payload = &p.data[p.payload..];
        let emitted = &mut Vec::new();
        let of = (p.bytes, p.thread);
        let mut env = Self::env(&self.pipeline, &mut self.state, &mut effects, core, now, of, payload);
        let verify = blocks.verify;
        run(&self.exec, (Block::Verify(verify), verify), CHECKSUM_SLOTS, &mut p.frame, emitted, &mut env);
        if env.effects.checksum_error {
            env.note(|| StepKind::ChecksumError);
            self.exec.write(&mut p.frame, std.checksum_error, 1);
        }
        env.effects.checksum_error = false;
        let ingress = blocks.ingress;
        run(&self.exec, (Block::Ingress(ingress), ingress), ALL_SLOTS, &mut p.frame, emitted, &mut env);
        if env.effects.checksum_error {
            // Verified in ingress: egress sees it.
            env.note(|| StepKind::ChecksumError);
            self.exec.write(&mut p.frame, std.checksum_error, 1);
        }
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
            let mut again = self.descendant(core, &packet, Origin::Resubmit(list));
            core.note(packet.thread, || StepKind::Again(again.thread));
            std::mem::swap(&mut again.data, &mut packet.data);
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
            self.set(&mut packet.frame, std.instance_type, instance::REPLICATION.into());
            let Some(replicas) = self.state.replication.active_group(group) else {
                return core.drop(packet, DropReason::UnknownMulticastGroup);
            };
            core.note(packet.thread, || StepKind::Multicast { group, copies: replicas.len() });
            let made = self.replicate(core, now, packet, &replicas, None);
            core.stats.replicas += made;
            return;
        }
        if port == core.config.drop_port {
            return core.drop(packet, DropReason::Ingress);
        }
        // Also for packets that were resubmitted or recirculated: this is what BMv2 does.
        self.set(&mut packet.frame, std.instance_type, instance::NORMAL.into());
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
        let rid = self.std.egress_rid;
        self.set(&mut packet.frame, rid, u64::from(replica.instance));
        self.enqueue(core, now, replica.port, priority, packet);
    }

    /// Replicas of a clone session, its truncation and its class of service.
    fn session(&mut self, id: u32) -> Option<(Vec<Replica>, Option<u32>, u8)> {
        let Some(session) = self.state.replication.session(id) else {
            self.state.anomalies.unknown_clone_session += 1;
            return None;
        };
        let group = session.multicast_group.and_then(|g| self.state.replication.active_group(g));
        let replicas = group.iter().flat_map(|g| g.iter()).chain(&session.replicas).copied().collect();
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
        list: Option<u32>,
    ) {
        let found = self.session(session).filter(|(replicas, ..)| !replicas.is_empty());
        let Some((replicas, truncate, class)) = found else {
            return core.note(packet.thread, || StepKind::NotCloned(session));
        };
        let mut copy = self.descendant(core, packet, Origin::IngressClone(session));
        copy.data.extend_from_slice(&packet.data);
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
        list: Option<u32>,
    ) {
        let found = self.session(session).filter(|(replicas, ..)| !replicas.is_empty());
        let Some((replicas, truncate, class)) = found else {
            return core.note(packet.thread, || StepKind::NotCloned(session));
        };
        let mut copy = self.descendant(core, packet, Origin::EgressClone(session));
        copy.data.extend_from_slice(&packet.data);
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
        let std = self.std;
        let priority = match priority {
            _ if core.config.queues_per_port == 1 => 0,
            Some(p) => p,
            None => self.get(&packet.frame, std.priority) as u8,
        };
        if core.queues.refuses(port, priority) {
            core.port(port).queue_full += 1;
            return core.drop(packet, DropReason::QueueFull);
        }
        packet.enqueued = now;
        let depth = core.queues.depth(port, priority);
        self.set(&mut packet.frame, std.enq_timestamp, self.stamp(now));
        self.set(&mut packet.frame, std.enq_qdepth, u64::from(depth));
        core.note(packet.thread, || {
            let instance = self.get(&packet.frame, std.egress_rid) as u16;
            StepKind::Enqueued { port, priority, depth, instance }
        });
        core.queues.push(now, port, priority, packet);
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
        let std = self.std;
        let blocks = self.pipeline.blocks;
        let p = &mut *packet;
        let waited = now.micros().saturating_sub(p.enqueued.micros());
        core.note(p.thread, || StepKind::Dequeued { port, waited_us: waited });
        self.set(&mut p.frame, std.egress_global_timestamp, self.stamp(now));
        self.set(&mut p.frame, std.deq_timedelta, waited);
        self.set(&mut p.frame, std.deq_qdepth, u64::from(depth));
        self.set(&mut p.frame, std.egress_port, u64::from(port));
        // Anything but the drop port: a program that does not touch it does not drop.
        let spec = u64::from(core.config.drop_port) + 1;
        self.set(&mut p.frame, std.egress_spec, spec);
        let length = if self.pipeline.egress_reads_length {
            let now = u64::from(p.bytes) + self.header_bits(&p.frame) / 8;
            now.saturating_sub(p.parsed_bits / 8)
        } else {
            u64::from(p.bytes)
        };
        self.set(&mut p.frame, std.packet_length, length);

        let mut effects = Effects::default();
        let payload = &p.data[p.payload..];
        let mut emitted = std::mem::take(&mut core.emitted);
        emitted.clear();
        let of = (p.bytes, p.thread);
        let mut env = Self::env(&self.pipeline, &mut self.state, &mut effects, core, now, of, payload);
        let egress = blocks.egress;
        run(&self.exec, (Block::Egress(egress), egress), ALL_SLOTS, &mut p.frame, &mut emitted, &mut env);
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
        let of = (p.bytes, p.thread);
        let mut env = Self::env(&self.pipeline, &mut self.state, &mut effects, core, now, of, payload);
        emitted.clear();
        let compute = blocks.compute;
        run(
            &self.exec,
            (Block::Compute(compute), compute),
            CHECKSUM_SLOTS,
            &mut p.frame,
            &mut emitted,
            &mut env,
        );
        emitted.clear();
        let deparser = blocks.deparser;
        let block = (Block::Deparser(deparser), deparser);
        run(&self.exec, block, DEPARSER_SLOTS, &mut p.frame, &mut emitted, &mut env);
        emitted.extend_from_slice(payload);
        if let Some(n) = packet.truncate {
            emitted.truncate(n as usize);
        }
        if effects.assertion_failed {
            core.emitted = emitted;
            return core.drop(packet, DropReason::AssertionFailed);
        }

        if let Some(list) = effects.recirculate {
            let mut again = self.descendant(core, &packet, Origin::Recirculate(list));
            core.note(packet.thread, || StepKind::Again(again.thread));
            again.data.extend_from_slice(&emitted);
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

/// Runs a control, unless it does nothing: many programs leave the checksum blocks and egress empty.
fn run<E: Executor>(
    exec: &E,
    (block, control): (Block, ControlId),
    slots: &[usize],
    frame: &mut E::Frame,
    emitted: &mut Vec<u8>,
    env: &mut BlockEnv<'_>,
) {
    if exec.program().controls.get(control.index()).is_some_and(|c| !c.body.is_empty()) {
        env.note(|| StepKind::Begin(block));
        let outcome = exec.control(control, slots, frame, emitted, env);
        env.note(|| StepKind::End { exited: outcome.exited });
    }
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
