//! Links and the switch.

use super::{Event, Host, World};
use crate::fault::Fault;
use crate::frame::{self, Packet};
use pointsman_ir::Executor;

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
        let Some(packet) = packet else { return };
        let marked = frame::is_marked(&packet);
        let before = self.lost.switch_out;
        self.node.arrive(self.now, self.ports[link].0.into(), packet);
        self.take_frames();
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
        self.node.poll(self.now);
        self.take_frames();
    }

    /// Takes what has left the switch.
    fn take_frames(&mut self) {
        while let Some((port, packet)) = self.node.leaves() {
            self.leave(port, packet);
        }
        if let Some(packet) = self.node.unused() {
            self.recycle(packet);
        }
        while let Some(packet) = self.node.to_cpu() {
            self.to_cpu += 1;
            self.packet_in(&packet);
        }
        self.node.supply(&mut self.buffers);
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
