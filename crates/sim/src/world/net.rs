//! Frames on links and in switches.

use super::lines::Ends;
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
            self.tally.lost.links += 1;
            self.tally.open = self.tally.open.saturating_sub(1);
        }
        self.recycle(packet);
    }

    /// A station sends a frame to the switch that it uses.
    pub(super) fn host_send(&mut self, station: u32, packet: Packet) {
        self.send_over(self.lines.active(station), packet);
    }

    /// A station sends a frame over this link.
    pub(super) fn send_over(&mut self, link: usize, packet: Packet) {
        match self.lines.up[link].send(self.now, packet) {
            Ok(Some(at)) => self.calendar.enter(at, Event::Up(link as u32)),
            Ok(None) => {}
            Err(packet) => self.lost_on_link(packet),
        }
    }

    /// A frame reaches a switch.
    #[inline(never)]
    pub(super) fn at_switch_port(&mut self, link: usize) {
        let up = &mut self.lines.up[link];
        if up.next_at() != Some(self.now) {
            return; // the link was down meanwhile
        }
        let (packet, next) = up.arrive();
        if let Some(at) = next {
            self.calendar.enter(at, Event::Up(link as u32));
        }
        let Some(packet) = packet else { return };
        let marked = frame::is_marked(&packet);
        let before = self.tally.lost.switch_out;
        let Ends { switch, port, .. } = self.lines.ends[link];
        let switch = usize::from(switch);
        self.switches[switch].node.arrive(self.now, port.into(), packet);
        self.take_frames(switch);
        if marked {
            self.tally.lost.switch_in += 1;
            // It never waits: a packet that did not leave was dropped.
            if self.tally.lost.switch_out == before {
                self.tally.open = self.tally.open.saturating_sub(1);
            }
        }
    }

    /// Lets a switch work, and takes what leaves.
    pub(super) fn poll_switch(&mut self, switch: usize) {
        self.switches[switch].node.poll(self.now);
        self.take_frames(switch);
    }

    /// Takes what has left a switch.
    fn take_frames(&mut self, switch: usize) {
        while let Some((port, packet)) = self.switches[switch].node.leaves() {
            self.leave(switch, port, packet);
        }
        if let Some(packet) = self.switches[switch].node.unused() {
            self.recycle(packet);
        }
        while let Some(packet) = self.switches[switch].node.to_cpu() {
            self.tally.to_cpu += 1;
            self.packet_in(switch, &packet);
        }
        self.switches[switch].node.supply(&mut self.buffers);
    }

    /// A frame leaves a switch.
    fn leave(&mut self, switch: usize, port: u32, packet: Packet) {
        if self.strikes(Fault::Swallow) {
            return;
        }
        if frame::is_marked(&packet) {
            self.tally.lost.switch_out += 1;
        }
        let Some(link) = self.lines.at(switch, port) else {
            self.tally.unplugged += 1;
            return self.lost_on_link(packet);
        };
        // All packets take the same time through the switch, so they stay in order.
        match self.lines.down[link].send(self.now + self.scenario.switch_latency_ns, packet) {
            Ok(Some(at)) => self.calendar.enter(at, Event::Down(link as u32)),
            Ok(None) => {}
            Err(packet) => self.lost_on_link(packet),
        }
    }

    /// A frame reaches the hosts behind a port.
    #[inline(never)]
    pub(super) fn at_host(&mut self, link: usize) {
        let down = &mut self.lines.down[link];
        if down.next_at() != Some(self.now) {
            return;
        }
        let (packet, next) = down.arrive();
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
                let found = self.lines.hosts(link).iter().find(|h| h.has(&self.clients, to));
                let life = self.lines.ends[link].life;
                match (found.copied(), seen.marks.kind) {
                    (Some(Host::Device { device, .. }), frame::Kind::Request) => {
                        return self.device_request(device as usize, &seen, life, packet);
                    }
                    (Some(Host::Client(client)), frame::Kind::Answer) => {
                        self.client_answer(client as usize, &seen, life)
                    }
                    _ => {
                        self.tally.strays += 1;
                        self.tally.open = self.tally.open.saturating_sub(1);
                    }
                }
            }
            None => match frame::segment(&packet).filter(|_| self.streams.is_some()) {
                Some((addresses, seen)) => self.segment(link, &addresses, &seen, &packet),
                None => self.other_frame(link, &packet),
            },
        }
        self.recycle(packet);
    }
}
