//! Packets with memory of their own, on their way through ingress or through egress.

use super::Sink;
use super::core::{Boxed, Core, Packet, Way, instance};
use super::drive::Drive;
use super::path::{Given, Walker, exit, given};
use super::through::Resumed;
use crate::env::Effects;
use crate::queue::Departure;
use crate::stats::DropReason;
use crate::time::Time;
use crate::trace::StepKind;
use pointsman_ir::Executor;
use std::ops::Range;

/// Where a packet has stopped: at an exit or, without one, at the end of its half of the way.
#[derive(Clone, Copy)]
pub(super) struct Stop {
    pub exit: Option<u32>,
    /// Requests that have not been acted on.
    pub effects: Effects,
}

impl<E: Executor> Drive<'_, E> {
    /// Readies the frame for a pass through the parser.
    pub fn begin(&self, packet: &mut Packet<E::Frame>, instance_type: u32) {
        let bytes = packet.data.len() as u32;
        packet.way = Way { bytes, truncate: None, ..packet.way };
        packet.fresh = false;
        let mut given = [0; _];
        given[given::PORT] = u64::from(packet.ingress_port);
        given[given::BYTES] = u64::from(bytes);
        given[given::STAMP] = self.stamp(packet.received);
        self.begin_frame(&mut packet.frame, &given);
        if instance_type != instance::NORMAL {
            self.set(&mut packet.frame, self.fixed.std.instance_type, u64::from(instance_type));
        }
    }

    /// Runs the parser, and counts a rejection.
    pub fn parse_packet(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &mut Packet<E::Frame>,
    ) -> Effects {
        let Packet { frame, data, way, .. } = packet;
        let effects = self.parse(core, now, frame, way, data.packet());
        core.gate.count_parsed(way.rejected);
        effects
    }

    /// Takes a packet through some steps.
    fn walk_packet(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &mut Packet<E::Frame>,
        legs: Range<usize>,
        mut effects: Effects,
        given: &Given,
    ) -> Stop {
        let mut emitted = std::mem::take(&mut core.emitted);
        let Packet { frame, data, way, .. } = packet;
        let walker = Walker { frame, way, data: data.packet(), emitted: &mut emitted, effects: &mut effects };
        let exit = self.walk(core, now, legs, given, walker);
        core.emitted = emitted;
        Stop { exit, effects }
    }

    pub fn ingress(&mut self, core: &mut Core<E::Frame>, now: Time, mut packet: Boxed<E::Frame>) {
        if packet.fresh {
            self.begin(&mut packet, instance::NORMAL);
        }
        let stop = match self.again(core, now, &mut packet) {
            Some(stop) => stop,
            None => {
                let effects = self.parse_packet(core, now, &mut packet);
                let legs = self.fixed.path.ingress();
                self.walk_packet(core, now, &mut packet, legs, effects, &[0; _])
            }
        };
        self.ingress_from(core, now, packet, stop);
    }

    /// Takes a packet on to the traffic manager.
    pub fn ingress_from(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        mut packet: Boxed<E::Frame>,
        mut stop: Stop,
    ) {
        while let Some(number) = stop.exit {
            match number {
                exit::REFUSED => return core.drop(packet, DropReason::Ingress),
                exit::INGRESS => {
                    let Some(on) = self.after_ingress(core, now, packet, &mut stop.effects) else { return };
                    packet = on;
                }
                _ => self.checksum_error(core, &mut packet.frame, packet.way.thread, &mut stop.effects),
            }
            let legs = self.fixed.path.after(number);
            stop = self.walk_packet(core, now, &mut packet, legs, stop.effects, &[0; _]);
        }
        let port = packet.way.out;
        self.enqueue(core, now, port, None, packet);
    }

    /// Sets `checksum_error` after a wrong checksum.
    #[inline]
    pub fn checksum_error(
        &self,
        core: &mut Core<E::Frame>,
        frame: &mut E::Frame,
        thread: u32,
        effects: &mut Effects,
    ) {
        if effects.checksum_error {
            core.note(thread, || StepKind::ChecksumError);
            self.set(frame, self.fixed.std.checksum_error, 1);
            effects.checksum_error = false;
        }
    }

    /// Acts on the requests of ingress. `None`: the packet has ended here.
    fn after_ingress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        mut packet: Boxed<E::Frame>,
        effects: &mut Effects,
    ) -> Option<Boxed<E::Frame>> {
        // Verified in ingress: egress sees it.
        self.checksum_error(core, &mut packet.frame, packet.way.thread, effects);
        let asked = std::mem::replace(effects, Effects::NONE);
        if asked.assertion_failed {
            core.drop(packet, DropReason::AssertionFailed);
            return None;
        }
        if asked.truncate.is_some() {
            packet.way.truncate = asked.truncate;
        }
        if let Some((session, list)) = asked.clone {
            self.clone_ingress(core, now, &mut packet, session, list);
        }
        if let Some(list) = asked.resubmit {
            self.resubmit(core, packet, list);
            return None;
        }
        if asked.drop {
            core.drop(packet, DropReason::Ingress);
            return None;
        }
        match self.get(&packet.frame, self.fixed.std.mcast_grp) {
            0 => Some(packet),
            group => {
                self.multicast(core, now, packet, group);
                None
            }
        }
    }

    /// Puts a packet into an egress queue. Without `priority` the program's choice counts.
    pub fn enqueue(
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
        let bytes = packet.data.len() as u32;
        let Some(depth) = core.queues.admits(port, priority, bytes) else {
            core.gate.port(port).queue_full += 1;
            return core.drop(packet, DropReason::QueueFull);
        };
        (packet.enqueued, packet.enqueued_behind) = (now, depth);
        core.note(packet.way.thread, || {
            let instance = self.get(&packet.frame, self.fixed.std.egress_rid) as u16;
            StepKind::Enqueued { port, priority, depth, instance }
        });
        core.queues.push(now, port, priority, bytes, packet);
    }

    /// Takes a packet from its queue to the port.
    fn egress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        departure: Departure<Boxed<E::Frame>>,
        sink: &mut dyn Sink,
    ) {
        let Departure { port, mut packet, depth } = departure;
        let waited = self.stamp(now).saturating_sub(self.stamp(packet.enqueued));
        let waited_us = now.micros().saturating_sub(packet.enqueued.micros());
        core.note(packet.way.thread, || StepKind::Dequeued { port, waited_us });
        let mut given = [0; _];
        given[given::ENQUEUED] = self.stamp(packet.enqueued);
        given[given::ENQ_DEPTH] = u64::from(packet.enqueued_behind);
        given[given::DEQUEUED] = self.stamp(now);
        given[given::WAITED] = waited;
        given[given::DEQ_DEPTH] = u64::from(depth);
        given[given::OUT] = u64::from(port);
        let Packet { frame, data, way, .. } = &mut *packet;
        let (buffer, start) = data.whole();
        let stop = match self.resume(core, now, (frame, way), (buffer, start + way.payload), &given) {
            Some(Resumed { exit: None, start, .. }) => {
                core.send_bytes(port, 0, way.truncated(buffer.get(start..).unwrap_or(&[])), None, sink);
                return core.recycle(packet);
            }
            Some(Resumed { exit, effects, .. }) => Stop { exit, effects },
            None => {
                let legs = self.fixed.path.egress();
                self.walk_packet(core, now, &mut packet, legs, Effects::NONE, &given)
            }
        };
        self.egress_from(core, now, port, packet, stop, sink);
    }

    /// Takes a packet on to the port.
    pub fn egress_from(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        port: u32,
        mut packet: Boxed<E::Frame>,
        mut stop: Stop,
        sink: &mut dyn Sink,
    ) {
        while let Some(number) = stop.exit {
            match number {
                exit::LOST => return core.drop(packet, DropReason::Egress),
                exit::EGRESS => {
                    let asked = &mut stop.effects;
                    if asked.assertion_failed {
                        return core.drop(packet, DropReason::AssertionFailed);
                    }
                    if asked.truncate.is_some() {
                        packet.way.truncate = asked.truncate;
                    }
                    if let Some((session, list)) = asked.clone.take() {
                        self.clone_egress(core, now, &mut packet, session, list);
                    }
                    if asked.drop {
                        return core.drop(packet, DropReason::Egress);
                    }
                    if let Some(Resumed { exit, start, effects }) = self.finish(core, now, &mut packet) {
                        if exit.is_none() {
                            return self.leave(core, port, packet, start, asked.recirculate, sink);
                        }
                        stop = Stop { exit, effects: stop.effects.and(effects) };
                        continue;
                    }
                }
                _ => {}
            }
            let legs = self.fixed.path.after(number);
            stop = self.walk_packet(core, now, &mut packet, legs, stop.effects, &[0; _]);
        }
        if stop.effects.assertion_failed {
            return core.drop(packet, DropReason::AssertionFailed);
        }
        let mut emitted = std::mem::take(&mut core.emitted);
        if self.fixed.runs.deparser.is_none() {
            emitted.clear();
        }
        emitted.extend_from_slice(packet.data.packet().get(packet.way.payload..).unwrap_or(&[]));
        if let Some(n) = packet.way.truncate {
            emitted.truncate(n as usize);
        }
        match stop.effects.recirculate {
            Some(list) => self.recirculate(core, packet, list, Some(&emitted)),
            None => core.send(port, packet, &emitted, sink),
        }
        core.emitted = emitted;
    }

    /// A packet that begins here in its own memory leaves, or begins once more.
    fn leave(
        &mut self,
        core: &mut Core<E::Frame>,
        port: u32,
        mut packet: Boxed<E::Frame>,
        start: usize,
        recirculate: Option<u32>,
        sink: &mut dyn Sink,
    ) {
        packet.data.begin(start, packet.way.truncate);
        match recirculate {
            Some(list) => self.recirculate(core, packet, list, None),
            None => {
                core.send_bytes(port, packet.way.thread, packet.data.packet(), None, sink);
                core.recycle(packet);
            }
        }
    }

    /// Takes packets out of their queues that may leave by now. Returns how many.
    pub fn depart(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        budget: usize,
        sink: &mut dyn Sink,
    ) -> usize {
        let mut passes = 0;
        while passes < budget
            && let Some(departure) = core.queues.pop(now)
        {
            self.egress(core, now, departure, sink);
            passes += 1;
        }
        passes
    }

    /// Processes waiting packets, egress first: packets leave as soon as they may, and queues stay short.
    pub fn work(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        budget: usize,
        sink: &mut dyn Sink,
    ) -> usize {
        let mut passes = self.depart(core, now, budget, sink);
        while passes < budget
            && let Some(packet) = core.next_input(now)
        {
            self.ingress(core, now, packet);
            passes += 1;
            passes += self.depart(core, now, budget - passes, sink);
        }
        passes
    }
}
