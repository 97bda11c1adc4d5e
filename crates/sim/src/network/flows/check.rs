//! Checkers of flows. They know what hosts sent and received and how far apart these are, but neither routes nor tables.

use super::frame::{self, FIRST_TTL, Seen};
use crate::check::{Law, Violations};
use crate::network::distance::Distances;
use crate::network::hosts::Ended;
use pointsman_net::Watch;
use pointsman_topology::{SwitchId, Topology};

/// Counts what hosts send and receive.
#[derive(Debug)]
pub(super) struct Checker {
    distances: Distances,
    /// No packet enters a switch with less time to live: it would have passed more switches than the longest shortest path has.
    least_ttl: u8,
    sent: u64,
    received: u64,
    /// Data packets that were overtaken by others of their flow.
    pub reordered: u64,
    pub violations: Violations,
}

impl Checker {
    pub fn new(topology: &Topology) -> Self {
        let distances = Distances::new(topology);
        let least_ttl = FIRST_TTL.saturating_sub(distances.longest() - 1);
        let violations = Violations::default();
        Checker { distances, least_ttl, sent: 0, received: 0, reordered: 0, violations }
    }

    /// A host sends a packet.
    #[inline]
    pub fn sends(&mut self) {
        self.sent += 1;
    }

    /// A host receives a packet, whatever it is.
    #[inline]
    pub fn arrives(&mut self) {
        self.received += 1;
    }

    /// A host receives a packet of one of its connections from this host.
    #[inline]
    pub fn receives(&mut self, now: u64, from: u32, to: u32, seen: &Seen) {
        if !seen.intact {
            self.violations.add(Law::Translation, now, || format!("host {to} received {seen:?}"));
        }
        let switches = self.distances.between(from, to);
        // Switches may answer in the place of a host, with less to go, but have no data.
        if seen.segment.len > 0 && seen.ttl != FIRST_TTL.wrapping_sub(switches) {
            self.violations.add(Law::Loops, now, || {
                format!("from host {from} to host {to}: time to live {} after {switches} switches", seen.ttl)
            });
        }
    }

    /// A flow of this many bytes has ended; so many have arrived in order.
    pub fn ends(&mut self, now: u64, flow: u32, bytes: u64, arrived: u64) {
        if arrived != bytes {
            self.violations.add(Law::Requests, now, || {
                format!("flow {flow} has {bytes} bytes, and {arrived} arrived before its end")
            });
        }
    }

    /// Packets that were sent and have not been received.
    pub fn missing(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// All packets of hosts and switches have arrived, or have another fate that was counted.
    pub fn end(&mut self, ended: &Ended) {
        let (sent, received) = (self.sent, self.received);
        if sent + ended.created != received + ended.missing + ended.consumed {
            self.violations.add(Law::Packets, ended.now, || {
                format!("{sent} packets sent and {received} received by hosts: {ended:?}")
            });
        }
    }
}

impl Watch for Checker {
    #[inline]
    fn enters(&mut self, now: u64, switch: SwitchId, frame: &[u8]) {
        if frame::is_ours(frame) && frame::ttl(frame) < self.least_ttl {
            let ttl = frame::ttl(frame);
            self.violations.add(Law::Loops, now, || {
                format!("a packet with time to live {ttl} entered switch {}", switch.0)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_net::Packet;
    use pointsman_topology::{LeafSpine, Line};
    use pointsman_transport::Segment;

    fn topology() -> Topology {
        let line = Line::default();
        let wanted =
            LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 2, host_line: line, fabric_line: line };
        wanted.build().expect("a topology")
    }

    fn laws(checker: &Checker) -> Vec<Law> {
        checker.violations.counts.keys().copied().collect()
    }

    fn seen(ttl: u8, intact: bool) -> Seen {
        let segment = Segment { len: 100, ..Segment::default() };
        Seen { addresses: (1, 2), ports: (1, 2), segment, id: 0, ttl, intact }
    }

    #[test]
    fn a_right_way_and_wrong_ones() {
        let mut good = Checker::new(&topology());
        good.receives(1, 0, 1, &seen(63, true));
        good.receives(1, 0, 3, &seen(61, true));
        good.ends(2, 0, 100, 100);
        assert_eq!(laws(&good), []);
        for (from, to, seen, law) in [
            (0, 3, seen(61, false), Law::Translation),
            (0, 3, seen(63, true), Law::Loops),
            (0, 1, seen(61, true), Law::Loops),
        ] {
            let mut bad = Checker::new(&topology());
            bad.receives(1, from, to, &seen);
            assert_eq!(laws(&bad), [law]);
        }
        good.ends(2, 0, 100, 99);
        assert_eq!(laws(&good), [Law::Requests]);
    }

    #[test]
    fn loops_are_seen_where_they_are() {
        let mut checker = Checker::new(&topology());
        let hosts = topology().hosts().to_vec();
        let head = frame::Head::new(&hosts[0], pointsman_wire::Mac([4; 6]), &hosts[3], (1, 2), 0);
        let mut packet = Packet::default();
        frame::write(&mut packet, &head, 0, &Segment::default()).expect("it fits");
        for ttl in [64, 63, 62] {
            packet[22] = ttl;
            checker.enters(0, SwitchId(0), &packet);
        }
        assert_eq!(laws(&checker), []);
        packet[22] = 61;
        checker.enters(0, SwitchId(0), &packet);
        assert_eq!(laws(&checker), [Law::Loops]);
    }

    #[test]
    fn lost_packets_are_counted() {
        let ended = Ended { now: 1, missing: 1, consumed: 0, created: 0 };
        let mut checker = Checker::new(&topology());
        checker.sends();
        checker.end(&ended);
        assert_eq!(laws(&checker), []);
        checker.arrives();
        checker.end(&ended);
        assert_eq!(laws(&checker), [Law::Packets]);
    }
}
