//! Links and the switch.

use super::{Event, Host, World};
use crate::fault::Fault;
use crate::frame::{self, Packet};
use pointsman_ir::Executor;
use pointsman_v1model::{Arrived, Sink, Time};

/// The frames that left the switch in one call.
#[derive(Default)]
pub(super) struct Outbox {
    /// The port of the very frame that came in, changed in place, if nothing left before it. Nearly always this is all.
    straight: Option<u32>,
    /// Port and frame of those that left after that; `None`: the frame that came in.
    ports: Vec<(u32, Option<Packet>)>,
    cpu: Vec<Vec<u8>>,
    /// Bytes of the frame that came in.
    came_in: usize,
    /// Buffers to use again.
    spare: Vec<Packet>,
}

impl Sink for Outbox {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        self.ports.push((port, Some(buffer)));
    }

    fn transmit_buffer(&mut self, port: u32, _: usize, packet: &[u8]) {
        // Frames lie in their buffers without room before them: one that is as long as it was is the whole buffer.
        if packet.len() != self.came_in {
            self.transmit(port, packet);
        } else if self.straight.is_none() && self.ports.is_empty() {
            self.straight = Some(port);
        } else {
            self.ports.push((port, None));
        }
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        self.cpu.push(packet.to_vec());
    }
}

/// Passes of the switch in one call; it continues until nothing waits.
const BUDGET: usize = 1 << 12;
/// Buffers that are kept for use again.
const SPARE: usize = 4096;

impl<E: Executor> World<E> {
    pub(super) fn buffer(&mut self) -> Packet {
        self.buffers.pop().unwrap_or_default()
    }

    pub(super) fn recycle(&mut self, buffer: Packet) {
        if self.buffers.len() < SPARE {
            self.buffers.push(buffer);
        }
    }

    /// A frame was dropped by a link.
    pub(super) fn lost_on_link(&mut self, packet: Packet) {
        if frame::is_marked(&packet) {
            self.lost.links += 1;
            self.open = self.open.saturating_sub(1);
        }
        self.recycle(packet);
    }

    /// A host sends a frame to the switch.
    pub(super) fn host_send(&mut self, link: usize, packet: Packet) {
        match self.up[link].send(self.now, packet) {
            Ok(Some(at)) => self.calendar.enter(at, Event::Up(link as u32)),
            Ok(None) => {}
            Err(packet) => self.lost_on_link(packet),
        }
    }

    /// A frame reaches the switch.
    #[inline(never)]
    pub(super) fn at_switch_port(&mut self, link: usize) {
        if self.up[link].next_at() != Some(self.now) {
            return; // the link was down meanwhile
        }
        let (packet, next) = self.up[link].arrive();
        if let Some(at) = next {
            self.calendar.enter(at, Event::Up(link as u32));
        }
        let Some(mut packet) = packet else { return };
        let marked = frame::is_marked(&packet);
        let before = self.lost.switch_out;
        self.outbox.came_in = packet.len();
        let mut batch = [Arrived { port: self.ports[link].0.into(), buffer: &mut packet, start: 0 }];
        let polled = self.switch.process(Time(self.now), BUDGET, &mut batch, &mut self.outbox);
        if polled.more {
            // The rest comes from the switch's queues: none of it is in this buffer.
            self.outbox.came_in = usize::MAX;
            while self.switch.poll(Time(self.now), BUDGET, &mut self.outbox).more {}
        }
        self.empty_outbox(Some(packet));
        if marked {
            self.lost.switch_in += 1;
            // It never waits: a packet that did not leave was dropped.
            if self.lost.switch_out == before {
                self.open = self.open.saturating_sub(1);
            }
        }
    }

    /// Lets the switch work, and takes what leaves.
    pub(super) fn poll_switch(&mut self) {
        while self.switch.poll(Time(self.now), BUDGET, &mut self.outbox).more {}
        self.empty_outbox(None);
    }

    /// `came_in`: the frame that the switch was given.
    fn empty_outbox(&mut self, mut came_in: Option<Packet>) {
        if let Some(port) = self.outbox.straight.take()
            && let Some(packet) = came_in.take()
        {
            self.leave(port, packet);
        }
        if !self.outbox.ports.is_empty() {
            let mut ports = std::mem::take(&mut self.outbox.ports);
            for (port, packet) in ports.drain(..) {
                if let Some(packet) = packet.or_else(|| came_in.take()) {
                    self.leave(port, packet);
                }
            }
            self.outbox.ports = ports;
        }
        if let Some(packet) = came_in {
            self.recycle(packet);
        }
        if !self.outbox.cpu.is_empty() {
            for packet in std::mem::take(&mut self.outbox.cpu) {
                self.to_cpu += 1;
                self.packet_in(&packet);
            }
        }
        while self.outbox.spare.len() < 4
            && let Some(buffer) = self.buffers.pop()
        {
            self.outbox.spare.push(buffer);
        }
    }

    /// A frame leaves the switch.
    fn leave(&mut self, port: u32, packet: Packet) {
        if self.strikes(Fault::Swallow) {
            return;
        }
        if frame::is_marked(&packet) {
            self.lost.switch_out += 1;
        }
        let link = self.link_of_port.get(port as usize).copied().unwrap_or(u32::MAX);
        let Some(down) = self.down.get_mut(link as usize) else {
            self.unplugged += 1;
            return self.lost_on_link(packet);
        };
        // All packets take the same time through the switch, so they stay in order.
        match down.send(self.now + self.scenario.switch_latency_ns, packet) {
            Ok(Some(at)) => self.calendar.enter(at, Event::Down(link)),
            Ok(None) => {}
            Err(packet) => self.lost_on_link(packet),
        }
    }

    /// A frame reaches the hosts behind a port.
    #[inline(never)]
    pub(super) fn at_host(&mut self, link: usize) {
        if self.down[link].next_at() != Some(self.now) {
            return;
        }
        let (packet, next) = self.down[link].arrive();
        if let Some(at) = next {
            self.calendar.enter(at, Event::Down(link as u32));
        }
        let Some(mut packet) = packet else { return };
        if self.fault == Some(Fault::Corrupt) && frame::is_marked(&packet) && self.strikes(Fault::Corrupt) {
            packet.iter_mut().last().into_iter().for_each(|b| *b ^= 1);
        }
        match frame::read(&packet) {
            Some(seen) => {
                let to = seen.addresses.ips.1;
                let found = self.ports[link].1.iter().find(|h| h.has(&self.clients, to));
                match (found.copied(), seen.marks.kind) {
                    (Some(Host::Device { device, .. }), frame::Kind::Request) => {
                        return self.device_request(device as usize, &seen, packet);
                    }
                    (Some(Host::Client(client)), frame::Kind::Answer) => {
                        self.client_answer(client as usize, &seen)
                    }
                    _ => {
                        self.strays += 1;
                        self.open = self.open.saturating_sub(1);
                    }
                }
            }
            None if self.streams.is_some() && frame::segment(&packet).is_some() => {
                self.segment(link, &packet);
            }
            None => self.other_frame(link, &packet),
        }
        self.recycle(packet);
    }
}
