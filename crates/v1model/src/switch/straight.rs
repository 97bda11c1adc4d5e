//! Packets that go through the switch without a stop, in the buffers in which they were received.
//!
//! The result is the same as in `passes.rs`, without the parts that make no difference when nothing waits and nothing
//! is traced: no packet is boxed, copied or queued. Packets out of the ordinary (clones, multicast, resubmission,
//! recirculation) get a box here and go the usual way from there.

use super::core::{Bench, Boxed, Core, Lane, instance};
use super::passes::{Drive, get, header_bits, set, way_length};
use super::{Arrived, Sink};
use crate::env::{BlockEnv, Effects};
use crate::pipeline::{ALL_SLOTS, CHECKSUM_SLOTS, DEPARSER_SLOTS, Pipeline};
use crate::state::{Access, Own};
use crate::stats::DropReason;
use crate::time::Time;
use pointsman_ir::Executor;

/// How far a packet went.
#[derive(Clone, Copy)]
pub(super) struct Went {
    /// Passes through ingress or egress.
    pub passes: usize,
    /// There may be more to do for it, or for packets that it made.
    pub aside: bool,
}

/// The progress of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Parsed,
    Verified,
    /// Ingress has run.
    Ingress,
    /// Egress has run.
    Egress,
    /// All but the deparser.
    Computed,
}

pub(super) const ENDED: [Went; 2] = [Went { passes: 1, aside: false }, Went { passes: 2, aside: false }];

/// The environment of an untraced packet.
#[inline]
pub(super) fn quiet<'a>(
    pipeline: &'a Pipeline,
    state: Access<'a>,
    own: &'a mut Own,
    now: Time,
    bytes: u32,
    payload: &'a [u8],
    drop_port: u32,
) -> BlockEnv<'a> {
    BlockEnv {
        pipeline,
        state,
        own,
        effects: Effects::NONE,
        now,
        bytes,
        payload,
        drop_port,
        trace: None,
        thread: 0,
    }
}

impl<E: Executor> Drive<'_, E> {
    /// Parses packets before the first of them goes through ingress. It makes no difference when a parser without extern calls
    /// runs, and others do not run ahead. Packets that do not come in are not parsed.
    pub fn parse_ahead(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        chunk: &[Arrived<'_>],
        bench: &mut Bench<E::Frame>,
    ) {
        let fixed = self.fixed;
        core.last_now = core.last_now.max(now);
        if bench.frames.len() < chunk.len() {
            bench.frames.resize_with(chunk.len(), || fixed.exec.new_frame());
            bench.lanes.resize(chunk.len(), Lane::NONE);
        }
        let (stamp, drop_port) = (self.stamp(now), core.config.drop_port);
        let parser = fixed.pipeline.blocks.parser;
        for ((arrived, frame), lane) in chunk.iter().zip(&mut bench.frames).zip(&mut bench.lanes) {
            let data = arrived.packet();
            lane.refused = core.gate.accepts(arrived.port, data.len()).err();
            if lane.refused.is_some() {
                continue;
            }
            let bytes = data.len() as u32;
            self.begin_frame(frame, bytes, arrived.port, stamp);
            let mut env =
                quiet(&fixed.pipeline, self.state.again(), &mut core.own, now, bytes, &[], drop_port);
            let section = env.state.enter(fixed.runs.parser);
            let parsed = fixed.exec.parse(parser, ALL_SLOTS, frame, data, &mut env);
            env.own.atomic.leave();
            drop(section);
            // Field by field, and only the needed ones: a copy of memory that was just written in other pieces stalls.
            (lane.accepted, lane.error) = (parsed.accepted, parsed.error);
            lane.effects.any = false;
            if env.effects.any {
                lane.effects = env.effects;
            }
            // Headers are whole bytes; only an odd `advance` could stop inside one.
            lane.way.payload = parsed.consumed_bits.div_ceil(8).min(data.len());
            lane.way.bytes = bytes;
            lane.way.truncate = None;
            if lane.error != 0 {
                self.set(frame, fixed.std.parser_error, u64::from(lane.error));
            }
            if fixed.pipeline.egress_reads_length {
                lane.way.parsed_bits = header_bits(&*fixed.exec, frame);
            }
        }
        if let Some(ingress) = fixed.runs.ingress.filter(|_| chunk.len() > 1) {
            let mut env = quiet(&fixed.pipeline, self.state.again(), &mut core.own, now, 0, &[], drop_port);
            fixed.exec.prefetch(ingress.control, ALL_SLOTS, &mut bench.frames[..chunk.len()], &mut env);
        }
    }

    /// Gives a packet its own memory.
    #[cold]
    fn boxed(
        &self,
        core: &mut Core<E::Frame>,
        now: Time,
        frame: &mut E::Frame,
        lane: &Lane,
        arrived: &Arrived<'_>,
    ) -> Boxed<E::Frame> {
        let mut packet = self.fixed.packet(core);
        std::mem::swap(&mut packet.frame, frame);
        packet.data.clear();
        packet.data.extend_from_slice(arrived.packet());
        packet.way = lane.way;
        packet.ingress_port = arrived.port;
        packet.received = now;
        packet.enqueued = now;
        packet.fresh = false;
        packet
    }

    /// Takes a parsed packet through ingress and, unless it is dropped or has to wait, through egress: exactly as if it
    /// had been queued and taken out of the queue again. Nothing else waits. `of`: its number in the bench, and in the
    /// batch.
    #[inline]
    pub fn straight(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        bench: &mut Bench<E::Frame>,
        of: (usize, usize),
        arrived: &mut Arrived<'_>,
        sink: &mut dyn Sink,
    ) -> Went {
        let Bench { frames, lanes, emitted } = bench;
        let (Some(frame), Some(lane)) = (frames.get_mut(of.0), lanes.get_mut(of.0)) else {
            return Went { passes: 0, aside: true };
        };
        let packet = arrived.packet();
        core.gate.arrives(arrived.port, packet.len(), lane.refused);
        if let Some(reason) = lane.refused {
            core.refuse(0, reason);
            return Went { passes: 0, aside: false };
        }
        core.gate.count_parsed(lane.accepted, lane.error);
        core.again_next = true;
        self.onward(core, now, (frame, lane, emitted), (Stage::Parsed, 0), of.1, arrived, sink)
    }

    /// Takes a packet on from a stage that it has reached; behind egress, with the port that it leaves on. `number`: in
    /// the batch.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "a packet's way, and what it meets")]
    pub fn onward(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        (frame, lane, emitted): (&mut E::Frame, &mut Lane, &mut Vec<u8>),
        (stage, port): (Stage, u32),
        number: usize,
        arrived: &mut Arrived<'_>,
        sink: &mut dyn Sink,
    ) -> Went {
        let (fixed, packet) = (self.fixed, arrived.packet());
        let (drop_port, runs) = (core.config.drop_port, &fixed.runs);
        let payload = packet.get(lane.way.payload..).unwrap_or(&[]);
        let mut env = quiet(
            &fixed.pipeline,
            self.state.again(),
            &mut core.own,
            now,
            lane.way.bytes,
            payload,
            drop_port,
        );
        if lane.effects.any {
            env.effects = lane.effects;
        }
        if let Some(verify) = runs.verify.filter(|_| stage < Stage::Verified) {
            let section = env.state.enter(verify.section);
            fixed.exec.control(verify.control, CHECKSUM_SLOTS, frame, emitted, &mut env);
            env.own.atomic.leave();
            drop(section);
        }
        if env.effects.checksum_error && stage < Stage::Ingress {
            set(&*fixed.exec, frame, fixed.std.checksum_error, 1);
            env.effects.checksum_error = false;
        }
        if let Some(ingress) = runs.ingress.filter(|_| stage < Stage::Ingress) {
            let section = env.state.enter(ingress.section);
            fixed.exec.control(ingress.control, ALL_SLOTS, frame, emitted, &mut env);
            env.own.atomic.leave();
            drop(section);
        }
        let (mut port, left) = (port, ENDED[1]);
        if stage < Stage::Egress {
            let effects = if env.effects.any { env.effects } else { Effects::NONE };
            if effects.checksum_error {
                // Verified in ingress: egress sees it.
                set(&*fixed.exec, frame, fixed.std.checksum_error, 1);
            }
            port = get(&*fixed.exec, frame, fixed.std.egress_spec);
            let multicast = get(&*fixed.exec, frame, fixed.std.mcast_grp) != 0 && !effects.drop;
            if multicast || (effects.any && !effects.are_plain()) {
                let packet = self.boxed(core, now, frame, lane, arrived);
                self.after_ingress(core, now, packet, effects);
                return Went { passes: 1, aside: true };
            }
            if port == drop_port || effects.drop {
                core.refuse(0, DropReason::Ingress);
                return ENDED[0];
            }
            if effects.any {
                lane.way.truncate = effects.truncate;
            }
            // Egress sees a packet that has waited in an empty queue for no time.
            let std = &fixed.std;
            let stamp = now.micros().wrapping_add(fixed.clock_offset_us);
            set(&*fixed.exec, frame, std.instance_type, instance::NORMAL.into());
            set(&*fixed.exec, frame, std.enq_timestamp, stamp);
            set(&*fixed.exec, frame, std.enq_qdepth, 0);
            set(&*fixed.exec, frame, std.egress_global_timestamp, stamp);
            set(&*fixed.exec, frame, std.deq_timedelta, 0);
            set(&*fixed.exec, frame, std.deq_qdepth, 0);
            set(&*fixed.exec, frame, std.egress_port, u64::from(port));
            if fixed.pipeline.egress_reads_length {
                let length = way_length(&lane.way, header_bits(&*fixed.exec, frame));
                set(&*fixed.exec, frame, std.packet_length, length);
            }
        }
        if let Some(egress) = runs.egress.filter(|_| stage < Stage::Computed) {
            if stage < Stage::Egress {
                env.effects = Effects::NONE;
                set(&*fixed.exec, frame, fixed.std.egress_spec, u64::from(drop_port) + 1);
                let section = env.state.enter(egress.section);
                fixed.exec.control(egress.control, ALL_SLOTS, frame, emitted, &mut env);
                env.own.atomic.leave();
                drop(section);
            }
            if get(&*fixed.exec, frame, fixed.std.egress_spec) == drop_port {
                env.ask().drop = true;
            }
            if env.effects.any {
                let effects = env.effects;
                if !effects.are_plain() {
                    let packet = self.boxed(core, now, frame, lane, arrived);
                    self.after_egress(core, now, port, packet, effects, sink);
                    return Went { passes: 2, aside: true };
                }
                if effects.drop {
                    core.refuse(0, DropReason::Egress);
                    return left;
                }
                lane.way.truncate = effects.truncate.or(lane.way.truncate);
            }
        }
        if let Some(compute) = runs.compute.filter(|_| stage < Stage::Computed) {
            let section = env.state.enter(compute.section);
            fixed.exec.control(compute.control, CHECKSUM_SLOTS, frame, emitted, &mut env);
            env.own.atomic.leave();
            drop(section);
        }
        emitted.clear();
        if let Some(deparser) = runs.deparser {
            let section = env.state.enter(deparser.section);
            fixed.exec.control(deparser.control, DEPARSER_SLOTS, frame, emitted, &mut env);
            env.own.atomic.leave();
            drop(section);
        }
        if env.effects.assertion_failed {
            core.refuse(0, DropReason::AssertionFailed);
            return left;
        }
        let (mut headers, mut body) = (emitted.len(), payload.len());
        if let Some(most) = lane.way.truncate {
            headers = headers.min(most as usize);
            body = body.min(most as usize - headers);
        }
        let payload_at = arrived.start + lane.way.payload;
        match payload_at.checked_sub(headers) {
            Some(at) if payload_at <= arrived.buffer.len() => {
                arrived.buffer[at..payload_at].copy_from_slice(&emitted[..headers]);
                core.send_bytes(port, 0, &arrived.buffer[at..payload_at + body], Some(number), sink);
            }
            // No room for longer headers.
            _ => {
                emitted.truncate(headers);
                emitted.extend_from_slice(&payload[..body]);
                core.send_bytes(port, 0, emitted, None, sink);
            }
        }
        left
    }
}
