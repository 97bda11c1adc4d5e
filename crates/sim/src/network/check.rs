//! Checkers of networks. They know what hosts sent and received, and which switches each packet entered, but neither routes nor
//! tables.

use crate::check::{Law, Violations};
use crate::frame::{Addresses, Kind, Marks, Seen};
use pointsman_net::Watch;
use pointsman_topology::SwitchId;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Laws that hold in a network.
pub(super) const LAWS: [Law; 5] =
    [Law::Loops, Law::Translation, Law::Packets, Law::Requests, Law::Starvation];

/// Where TTL lies in the frames of this simulation.
const TTL: usize = 22;
const FIRST_TTL: u8 = 64;

/// The packets that are on their way, each with the switches that it has entered.
#[derive(Debug, Default)]
pub(super) struct Checker {
    under_way: BTreeMap<(u32, u8), Vec<SwitchId>>,
    /// Packets of hosts: sent and received.
    pub sent: u64,
    pub received: u64,
    pub violations: Violations,
}

fn key(marks: Marks) -> (u32, u8) {
    (marks.request, marks.kind as u8)
}

impl Checker {
    /// A host sends a packet.
    pub fn sends(&mut self, now: u64, marks: Marks) {
        self.sent += 1;
        if self.under_way.insert(key(marks), Vec::new()).is_some() {
            self.violations.add(Law::Requests, now, || format!("request {} was sent twice", marks.request));
        }
    }

    /// A host receives a packet that was to have these addresses.
    pub fn receives(&mut self, now: u64, seen: &Seen, expected: &Addresses, frame: &[u8]) {
        self.received += 1;
        let Some(switches) = self.under_way.remove(&key(seen.marks)) else {
            return self.violations.add(Law::Packets, now, || {
                format!("{:?} {} arrived twice, or was never sent", seen.marks.kind, seen.marks.request)
            });
        };
        let (hops, ttl) = (switches.len(), frame.get(TTL).copied().unwrap_or(0));
        if !seen.intact || seen.addresses != *expected {
            self.violations
                .add(Law::Translation, now, || format!("{:?}, expected {expected:?}", seen.addresses));
        } else if usize::from(ttl) + hops != usize::from(FIRST_TTL) {
            self.violations
                .add(Law::Translation, now, || format!("time to live {ttl} after {hops} switches"));
        }
    }

    /// No packet is on its way any more, and this many were dropped, by switches and on links together.
    pub fn end(&mut self, now: u64, dropped: u64) {
        let (sent, received, lost) = (self.sent, self.received, self.under_way.len() as u64);
        if sent != received + lost || lost != dropped {
            self.violations.add(Law::Packets, now, || {
                format!("{sent} packets sent, {received} received, {lost} missing; {dropped} were counted as dropped")
            });
        }
    }
}

impl Watch for Checker {
    fn enters(&mut self, now: u64, switch: SwitchId, frame: &[u8]) {
        let inner = without_overlay(frame);
        let Some(marks) = crate::frame::read(&inner).map(|seen| seen.marks) else { return };
        let Some(switches) = self.under_way.get_mut(&key(marks)) else {
            return self.violations.add(Law::Packets, now, || {
                format!("request {} entered switch {} and is not under way", marks.request, switch.0)
            });
        };
        if switches.contains(&switch) {
            self.violations.add(Law::Loops, now, || {
                format!("{:?} {} entered switch {} twice", marks.kind, marks.request, switch.0)
            });
        }
        switches.push(switch);
    }
}

/// A frame without the header that CONGA adds after Ethernet.
fn without_overlay(frame: &[u8]) -> Cow<'_, [u8]> {
    match frame.get(12..14) {
        Some([0x88, 0xb6]) if frame.len() > 22 => [&frame[..12], &frame[20..]].concat().into(),
        _ => frame.into(),
    }
}

/// What answers a request's marks.
pub(super) fn answer(marks: Marks) -> Marks {
    Marks { kind: Kind::Answer, ..marks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use pointsman_balance::Mac;
    use std::net::{IpAddr, Ipv4Addr};

    fn addresses() -> Addresses {
        let ip = |n| IpAddr::from(Ipv4Addr::new(10, 0, 0, n)).into();
        Addresses { macs: (Mac([2; 6]), Mac([4; 6])), ips: (ip(1), ip(2)), ports: (1024, 7) }
    }

    /// A checker with one packet under way, its marks and its frame.
    fn sent() -> (Checker, Marks, Vec<u8>) {
        let marks = Marks { kind: Kind::Request, connection: 3, request: 5, tag: 0 };
        let (mut checker, mut frame) = (Checker::default(), Vec::new());
        frame::marked(&mut frame, &addresses(), false, marks, 100);
        checker.sends(0, marks);
        (checker, marks, frame)
    }

    fn laws(checker: &Checker) -> Vec<Law> {
        checker.violations.counts.keys().copied().collect()
    }

    fn arrives(checker: &mut Checker, frame: &[u8], expected: &Addresses) {
        let seen = frame::read(frame).expect("ours");
        checker.receives(9, &seen, expected, frame);
    }

    #[test]
    fn a_right_way_and_wrong_ones() {
        let (mut checker, _, frame) = sent();
        arrives(&mut checker, &frame, &addresses());
        checker.end(10, 0);
        assert_eq!(laws(&checker), []);
        arrives(&mut checker, &frame, &addresses());
        assert_eq!(laws(&checker), [Law::Packets]);

        let (mut checker, _, frame) = sent();
        checker.enters(1, SwitchId(3), &frame);
        checker.enters(2, SwitchId(4), &frame);
        assert_eq!(laws(&checker), []);
        checker.enters(3, SwitchId(3), &frame);
        assert_eq!(laws(&checker), [Law::Loops]);

        // It entered one switch, and its time to live is what it was.
        let (mut checker, _, frame) = sent();
        checker.enters(1, SwitchId(3), &frame);
        arrives(&mut checker, &frame, &addresses());
        assert_eq!(laws(&checker), [Law::Translation]);

        let (mut checker, marks, frame) = sent();
        arrives(&mut checker, &frame, &Addresses { ports: (1025, 7), ..addresses() });
        checker.sends(10, marks);
        checker.sends(10, marks);
        assert_eq!(laws(&checker), [Law::Translation, Law::Requests]);
    }

    #[test]
    fn lost_packets_are_counted() {
        let (mut checker, ..) = sent();
        checker.end(1, 1);
        assert_eq!(laws(&checker), []);
        checker.end(1, 0);
        assert_eq!(laws(&checker), [Law::Packets]);
    }
}
