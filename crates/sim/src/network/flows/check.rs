//! Checkers of flows. They know what hosts sent and received and how far apart these are, but neither routes nor tables.

use super::frame::{self, FIRST_TTL, Seen};
use super::plan::Flow;
use super::starve::{MOST_LOSS, MOST_TIMEOUTS, down};
use crate::check::{Law, Violations};
use crate::network::LinkEvent;
use crate::network::distance::Distances;
use crate::network::hosts::Ended;
use pointsman_net::Watch;
use pointsman_topology::{LinkId, SwitchId, Topology};

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

    /// The sender of a flow had too many time-outs from `since` to `now`, in nanoseconds as the events of the links have them: a violation, if a
    /// path was up all the time, and `reaction` had passed since a link went down.
    pub fn times_out(
        &mut self,
        (topology, events, reaction): (&Topology, &[LinkEvent], u64),
        (since, now): (u64, u64),
        (number, flow): (u32, Flow),
    ) {
        let Some(down) = down(events, reaction, since, now) else { return };
        let is_up =
            |link: LinkId| !down.contains(&link) && topology.links()[link.0 as usize].line.loss <= MOST_LOSS;
        if self.distances.has_path(topology, (flow.from, flow.to), is_up) {
            self.violations.add(Law::Starvation, now, || {
                let ms = (now - since) as f64 / 1e6;
                format!("nothing of flow {number} has arrived for {ms:.3} ms and {MOST_TIMEOUTS} time-outs, while a path was up: {flow:?}")
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

    /// Both links of a leaf to a spine, and all of that spine's: only the first leave a path.
    #[test]
    fn a_flow_starves_if_it_has_a_path() {
        let (topology, flow) = (topology(), Flow { at: 0, from: 0, to: 3, bytes: 1 });
        let cut = |names: &[&str]| -> Vec<LinkEvent> {
            let link = |name: &&str| topology.link(name).expect("a link");
            names.iter().map(|name| LinkEvent { at_ns: 5, link: link(name), up: false }).collect()
        };
        for (names, law) in [
            (&[][..], true),
            (&["leaf1-spine1"], true),
            (&["leaf1-spine1", "leaf2-spine1", "h2-leaf1"], true),
            (&["leaf1-spine1", "leaf2-spine2"], false),
            (&["h1-leaf1"], false),
            (&["h4-leaf2"], false),
        ] {
            let mut checker = Checker::new(&topology);
            checker.times_out((&topology, &cut(names), 6), (10, 20), (7, flow));
            assert_eq!(laws(&checker), if law && names.is_empty() { vec![Law::Starvation] } else { vec![] });
            let mut checker = Checker::new(&topology);
            checker.times_out((&topology, &cut(names), 5), (10, 20), (7, flow));
            let expected = if law { vec![Law::Starvation] } else { vec![] };
            assert_eq!(laws(&checker), expected, "{names:?}");
        }
        let line = Line { loss: 0.5, ..Line::default() };
        let lossy = LeafSpine {
            leaves: 2,
            spines: 2,
            hosts_per_leaf: 2,
            host_line: Line::default(),
            fabric_line: line,
        };
        let lossy = lossy.build().expect("a topology");
        let mut checker = Checker::new(&lossy);
        checker.times_out((&lossy, &[], 0), (10, 20), (7, flow));
        assert_eq!(laws(&checker), []);
        // Its own leaf's hosts need no spine.
        checker.times_out((&lossy, &[], 0), (10, 20), (7, Flow { to: 1, ..flow }));
        assert_eq!(laws(&checker), [Law::Starvation]);
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
