//! Frames on links and in switches.

use super::{Host, Tally, World};
use crate::fault::Fault;
use crate::frame::{self, Packet};
use pointsman_ir::Executor;
use pointsman_net::Watch;
use pointsman_topology::{HostId, SwitchId};

/// The fates of requests and answers between their ends.
impl Watch for Tally {
    fn enters(&mut self, _: u64, _: SwitchId, frame: &[u8]) {
        if frame::is_marked(frame) {
            self.lost.switch_in += 1;
            // It never waits: a packet that does not leave at once was dropped.
            self.open = self.open.saturating_sub(1);
        }
    }

    fn leaves(&mut self, frame: &[u8]) -> bool {
        if self.faults.strikes(Fault::Swallow) {
            return false;
        }
        if frame::is_marked(frame) {
            self.lost.switch_out += 1;
            self.open += 1;
        }
        true
    }

    fn lost(&mut self, frame: &[u8]) {
        if frame::is_marked(frame) {
            self.lost.links += 1;
            self.open = self.open.saturating_sub(1);
        }
    }
}

impl<E: Executor> World<E> {
    /// A station sends a frame to the switch that it uses.
    pub(super) fn host_send(&mut self, station: u32, packet: Packet) {
        self.network.send(self.lines.active(station), packet, &mut self.tally);
    }

    /// What switches have handed to their control planes.
    #[inline]
    pub(super) fn take_packet_ins(&mut self) {
        while let Some((switch, packet)) = self.network.take_for_cpu() {
            self.tally.to_cpu += 1;
            self.packet_in(switch.0 as usize, &packet);
        }
    }

    /// A frame reaches the hosts behind a port.
    #[inline(never)]
    pub(super) fn at_host(&mut self, link: HostId, mut packet: Packet) {
        if self.tally.faults.which == Some(Fault::Corrupt)
            && frame::is_marked(&packet)
            && self.strikes(Fault::Corrupt)
        {
            packet.iter_mut().last().into_iter().for_each(|b| *b ^= 1);
        }
        match frame::read(&packet) {
            Some(seen) => {
                let to = seen.addresses.ips.1;
                let found = self.lines.hosts(link).iter().find(|h| h.has(&self.clients, to));
                let life = self.lines.life(link);
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
        self.network.recycle(packet);
    }
}
