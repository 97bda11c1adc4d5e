//! Packets that go through the switch without a stop, in the buffers in which they were received.
//!
//! The steps are those of `passes.rs`, but nothing waits and nothing is traced: no packet is boxed, copied or queued. Packets out
//! of the ordinary (clones, multicast, resubmission, recirculation) get a box here and continue as the others do.

use super::core::{Bench, Boxed, Core, Lane};
use super::drive::Drive;
use super::passes::Stop;
use super::path::{Given, Walker, env, exit, given};
use super::through::{Resumed, unhindered};
use super::{Arrived, Sink};
use crate::env::Effects;
use crate::pipeline::ALL_SLOTS;
use crate::stats::DropReason;
use crate::time::Time;
use pointsman_ir::Executor;
use std::ops::Range;

/// How far a packet went.
#[derive(Clone, Copy)]
pub(super) struct Went {
    /// Passes through ingress or egress.
    pub passes: usize,
    /// There may be more to do for it, or for packets that it made.
    pub aside: bool,
}

/// By the passes of a packet that needs nothing more.
pub(super) const ENDED: [Went; 3] =
    [Went { passes: 0, aside: false }, Went { passes: 1, aside: false }, Went { passes: 2, aside: false }];

/// A packet in the buffer in which it was received, and the memory in which it is processed.
pub(super) struct Place<'p, 'b, F> {
    pub frame: &'p mut F,
    pub lane: &'p mut Lane,
    pub emitted: &'p mut Vec<u8>,
    pub arrived: &'p mut Arrived<'b>,
    /// Its number in the batch.
    pub number: usize,
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
        let mut given: Given = [0; _];
        given[given::STAMP] = self.stamp(now);
        for ((arrived, frame), lane) in chunk.iter().zip(&mut bench.frames).zip(&mut bench.lanes) {
            let data = arrived.packet();
            lane.refused = core.gate.accepts(arrived.port, data.len()).err();
            if lane.refused.is_some() {
                continue;
            }
            given[given::PORT] = u64::from(arrived.port);
            given[given::BYTES] = data.len() as u64;
            (lane.way.bytes, lane.way.truncate) = (data.len() as u32, None);
            self.begin_frame(frame, &given);
            lane.effects = self.parse(core, now, frame, &mut lane.way, data);
        }
        if let Some(ingress) = fixed.runs.ingress.filter(|_| chunk.len() > 1) {
            let lane = Lane::NONE;
            let mut env = env(&fixed.pipeline, self.state.again(), core, now, &lane.way, &[]);
            fixed.exec.prefetch(ingress.control, ALL_SLOTS, &mut bench.frames[..chunk.len()], &mut env);
        }
    }

    /// Gives a packet its own memory.
    #[cold]
    fn boxed(
        &self,
        core: &mut Core<E::Frame>,
        now: Time,
        place: &mut Place<'_, '_, E::Frame>,
    ) -> Boxed<E::Frame> {
        let mut packet = self.fixed.packet(core);
        std::mem::swap(&mut packet.frame, place.frame);
        packet.data.set(place.arrived.packet());
        packet.way = place.lane.way;
        packet.ingress_port = place.arrived.port;
        packet.received = now;
        packet.enqueued = now;
        packet.fresh = false;
        packet
    }

    /// Takes a packet through some steps, and returns the exit.
    #[inline]
    fn walk_in_place(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        place: &mut Place<'_, '_, E::Frame>,
        legs: Range<usize>,
        given: &Given,
    ) -> Option<u32> {
        let Place { frame, lane, emitted, arrived, .. } = place;
        let (way, effects) = (&mut lane.way, &mut lane.effects);
        self.walk(core, now, legs, given, Walker { frame, way, data: arrived.packet(), emitted, effects })
    }

    /// Takes a parsed packet through ingress and, unless it is dropped or has to wait, through egress: exactly as if it
    /// had been queued and taken out of the queue again. Nothing else waits.
    #[inline]
    pub fn straight(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        mut place: Place<'_, '_, E::Frame>,
        sink: &mut dyn Sink,
    ) -> Went {
        let (arrived, refused) = (&place.arrived, place.lane.refused);
        core.gate.arrives(arrived.port, arrived.packet().len(), refused);
        if let Some(reason) = refused {
            core.refuse(0, reason);
            return ENDED[0];
        }
        core.gate.count_parsed(place.lane.way.rejected);
        core.again_next = true;
        let left = self.walk_in_place(core, now, &mut place, self.fixed.path.ingress(), &[0; _]);
        self.onward(core, now, place, left, sink)
    }

    /// Takes a packet on from an exit or, without one, from the traffic manager.
    pub fn onward(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        mut place: Place<'_, '_, E::Frame>,
        left: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Went {
        let left = match left {
            Some(exit::EGRESS | exit::LOST | exit::COMPUTED) => left,
            _ => {
                if let Err(went) = self.through_ingress(core, now, &mut place, left) {
                    return went;
                }
                if !core.queues.opens(now, place.lane.way.out) {
                    let (port, packet) = (place.lane.way.out, self.boxed(core, now, &mut place));
                    self.enqueue(core, now, port, None, packet);
                    return Went { passes: 1, aside: true };
                }
                let given = unhindered(self.stamp(now), place.lane.way.out);
                let Place { frame, lane, arrived, number, .. } = &mut place;
                let rest = (&mut *arrived.buffer, arrived.start + lane.way.payload);
                match self.resume(core, now, (frame, &lane.way), rest, &given) {
                    Some(Resumed { exit: None, start, .. }) => {
                        let packet = lane.way.truncated(arrived.buffer.get(start..).unwrap_or(&[]));
                        core.send_bytes(lane.way.out, 0, packet, Some(*number), sink);
                        return ENDED[2];
                    }
                    Some(Resumed { exit, effects, .. }) => {
                        lane.effects = effects;
                        exit
                    }
                    None => self.walk_in_place(core, now, &mut place, self.fixed.path.egress(), &given),
                }
            }
        };
        if let Err(went) = self.through_egress(core, now, &mut place, left, sink) {
            return went;
        }
        if place.lane.effects.assertion_failed {
            core.refuse(0, DropReason::AssertionFailed);
        } else {
            if self.fixed.runs.deparser.is_none() {
                place.emitted.clear();
            }
            send_in_place(core, place, sink);
        }
        ENDED[2]
    }

    /// From an exit on to the traffic manager, unless the packet ends before it or gets a box.
    #[inline]
    fn through_ingress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        place: &mut Place<'_, '_, E::Frame>,
        mut left: Option<u32>,
    ) -> Result<(), Went> {
        while let Some(number) = left {
            if number == exit::INGRESS {
                let effects = place.lane.effects;
                let group = self.get(place.frame, self.fixed.std.mcast_grp);
                if !effects.are_plain() || (group != 0 && !effects.drop) {
                    let packet = self.boxed(core, now, place);
                    self.ingress_from(core, now, packet, Stop { exit: left, effects });
                    return Err(Went { passes: 1, aside: true });
                }
                place.lane.way.truncate = effects.truncate.or(place.lane.way.truncate);
            }
            if number == exit::REFUSED || place.lane.effects.drop {
                core.refuse(0, DropReason::Ingress);
                return Err(ENDED[1]);
            }
            self.checksum_error(core, place.frame, 0, &mut place.lane.effects);
            if number == exit::INGRESS {
                place.lane.effects = Effects::NONE;
            }
            left = self.walk_in_place(core, now, place, self.fixed.path.after(number), &[0; _]);
        }
        Ok(())
    }

    /// From an exit on to the end, unless the packet ends before it or gets a box.
    #[inline]
    fn through_egress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        place: &mut Place<'_, '_, E::Frame>,
        mut left: Option<u32>,
        sink: &mut dyn Sink,
    ) -> Result<(), Went> {
        while let Some(number) = left {
            let effects = place.lane.effects;
            if number == exit::EGRESS && !effects.are_plain() {
                let (port, packet) = (place.lane.way.out, self.boxed(core, now, place));
                self.egress_from(core, now, port, packet, Stop { exit: left, effects }, sink);
                return Err(Went { passes: 2, aside: true });
            }
            if number == exit::LOST || effects.drop {
                core.refuse(0, DropReason::Egress);
                return Err(ENDED[2]);
            }
            place.lane.way.truncate = effects.truncate.or(place.lane.way.truncate);
            left = self.walk_in_place(core, now, place, self.fixed.path.after(number), &[0; _]);
        }
        Ok(())
    }
}

/// Sends a packet, with its headers put in front of its payload where it lies, if there is room.
fn send_in_place<F>(core: &mut Core<F>, place: Place<'_, '_, F>, sink: &mut dyn Sink) {
    let Place { lane, emitted, arrived, number, .. } = place;
    let (port, payload_at) = (lane.way.out, arrived.start + lane.way.payload);
    let payload = arrived.buffer.get(payload_at..).unwrap_or(&[]);
    let (mut headers, mut body) = (emitted.len(), payload.len());
    if let Some(most) = lane.way.truncate {
        headers = headers.min(most as usize);
        body = body.min(most as usize - headers);
    }
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
}
