//! Compares the packets that leave the NAT with the changes of its table. Shares no code with the tables.

use pointsman_wire::{Mac, frame};
use std::net::Ipv4Addr;

/// The receiver's address and port.
const TARGET: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 1), 80);
/// Where translated packets go.
pub const ROUTED: Mac = Mac([2, 0, 0, 0, 0, 0x22]);
/// Where packets go that enter the switch.
const HOP: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]));
/// Bytes in front of the number of a packet: Ethernet, IPv4, UDP.
const FRONT: usize = 42;

/// One state of a flow's entry: its version, or none.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Its version, if there is an entry.
    pub version: Option<u16>,
    /// When the change was asked for.
    pub asked: u64,
    /// When it was acknowledged.
    pub acked: Option<u64>,
}

/// A packet that was sent.
struct Sent {
    flow: u32,
    at: u64,
    padding: usize,
    seen: bool,
}

/// Violations, and packets by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Packets sent.
    pub sent: u64,
    /// They came with a possible entry.
    pub found: u64,
    /// They came as those without an entry, which was possible.
    pub absent: u64,
    /// Another flow's entry, or a version that cannot be.
    pub wrong: u64,
    /// No entry, although there was one.
    pub missing: u64,
    /// Changed bytes.
    pub altered: u64,
    /// They came twice.
    pub doubled: u64,
}

impl Verdict {
    /// All violations.
    pub fn violations(&self) -> u64 {
        self.wrong + self.missing + self.altered + self.doubled
    }
}

/// The flows' states, and the packets.
#[derive(Default)]
pub struct Checker {
    /// By flow, in the order of the changes.
    pub flows: Vec<Vec<State>>,
    packets: Vec<Sent>,
    /// What was found so far.
    pub verdict: Verdict,
}

/// Flows share addresses and ports, so that halves of two keys are a third one.
fn source(flow: u32) -> (Ipv4Addr, u16) {
    (Ipv4Addr::from(0x0a00_0000 + flow / 8), 4000 + (flow % 8) as u16)
}

/// The address that an entry of the flow translates to; its port is the version.
fn translated(flow: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0b00_0000 + flow)
}

/// The key of a flow, below 2^24: source, destination, ports, protocol.
pub fn key(flow: u32) -> Vec<u8> {
    let (address, port) = source(flow);
    let ports = [port.to_be_bytes(), TARGET.1.to_be_bytes()].concat();
    [&address.octets()[..], &TARGET.0.octets(), &ports, &[0, 0, 0, frame::UDP]].concat()
}

/// The flow of a key.
pub fn flow(key: &[u8]) -> u32 {
    let address = u32::from_be_bytes([0, key[1], key[2], key[3]]);
    address * 8 + u32::from(u16::from_be_bytes([key[8], key[9]])) - 4000
}

/// A version of a flow's value: another source, which shows both.
pub fn value(flow: u32, version: u16) -> Vec<u8> {
    [&[0, 0][..], &version.to_be_bytes(), &translated(flow).octets()].concat()
}

fn packet(to: Mac, (address, port): (Ipv4Addr, u16), number: u64, padding: usize) -> Vec<u8> {
    let payload = [&number.to_be_bytes()[..], &vec![number as u8; padding]].concat();
    let udp = frame::udp(port, TARGET.1, &payload);
    frame::packet((to, HOP.1), address.into(), TARGET.0.into(), frame::UDP, udp, frame::USUAL)
}

impl Checker {
    /// With these states of the flows.
    pub fn new(flows: Vec<Vec<State>>) -> Self {
        Checker { flows, ..Checker::default() }
    }

    /// The next packet of a flow, with so many bytes besides its number.
    pub fn send(&mut self, now: u64, flow: u32, padding: usize) -> Vec<u8> {
        let number = self.packets.len() as u64;
        self.packets.push(Sent { flow, at: now, padding, seen: false });
        self.verdict.sent += 1;
        packet(HOP.0, source(flow), number, padding)
    }

    /// When each of the packets was sent, from this one on, that were not seen again.
    pub fn unseen(&self, from: usize) -> impl Iterator<Item = u64> {
        self.packets.iter().skip(from).filter(|p| !p.seen).map(|p| p.at)
    }

    /// A packet left, with an entry or as one that has none: its number and when it was sent, if it came for the first time.
    pub fn receive(&mut self, now: u64, found: bool, frame: &[u8]) -> Option<(u64, u64)> {
        let number = frame.get(FRONT..FRONT + 8).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
        let Some((number, sent)) = number.and_then(|n| Some((n, self.packets.get_mut(n as usize)?))) else {
            self.verdict.altered += 1;
            return None;
        };
        if std::mem::replace(&mut sent.seen, true) {
            self.verdict.doubled += 1;
            return None;
        }
        let (mut from, mut to, mut shown) = (source(sent.flow), HOP.0, None);
        if found {
            let version = u16::from_be_bytes([frame[34], frame[35]]);
            from = (Ipv4Addr::new(frame[26], frame[27], frame[28], frame[29]), version);
            (to, shown) = (ROUTED, Some(version));
        }
        self.verdict.altered += u64::from(packet(to, from, number, sent.padding) != frame);
        let own = !found || from.0 == translated(sent.flow);
        let states = &self.flows[sent.flow as usize];
        let possible = states.iter().enumerate().any(|(i, s)| {
            let over = states.get(i + 1).and_then(|next| next.acked);
            s.version == shown && s.asked <= now && over.is_none_or(|acked| acked >= sent.at)
        });
        match (own && possible, found) {
            (true, true) => self.verdict.found += 1,
            (true, false) => self.verdict.absent += 1,
            (false, true) => self.verdict.wrong += 1,
            (false, false) => self.verdict.missing += 1,
        }
        Some((number, sent.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_counted() {
        let state = |version, asked, acked| State { version, asked, acked };
        let states = vec![
            state(None, 0, Some(0)),
            state(Some(1), 10, Some(20)),
            state(Some(2), 30, Some(40)),
            state(None, 50, None),
        ];
        let run = |sent: u64, now: u64, shown: Option<u16>, change: &dyn Fn(&mut Vec<u8>)| {
            let mut checker = Checker { flows: vec![Vec::new(), states.clone()], ..Checker::default() };
            let mut frame = checker.send(sent, 1, 3);
            if let Some(version) = shown {
                frame = packet(ROUTED, (translated(1), version), 0, 3);
            }
            change(&mut frame);
            checker.receive(now, shown.is_some(), &frame);
            let v = checker.verdict;
            (v.wrong, v.missing, v.altered)
        };
        let good = [
            (5, 6, None),
            (5, 15, Some(1)),
            (15, 16, None),
            (20, 25, None),
            (21, 25, Some(1)),
            (39, 45, Some(1)),
            (41, 60, None),
            (60, 61, Some(2)),
        ];
        for (sent, now, shown) in good {
            assert_eq!(run(sent, now, shown, &|_| {}), (0, 0, 0), "{sent} {now} {shown:?}");
        }
        for (sent, now, shown, expected) in [
            (5, 9, Some(1), (1, 0, 0)),
            (21, 25, None, (0, 1, 0)),
            (41, 45, Some(1), (1, 0, 0)),
            (41, 45, None, (0, 1, 0)),
        ] {
            assert_eq!(run(sent, now, shown, &|_| {}), expected, "{sent} {now} {shown:?}");
        }
        assert_eq!(run(60, 61, None, &|f| f[20] ^= 1), (0, 0, 1));
        assert_eq!(run(60, 61, Some(2), &|f| f.truncate(52)), (0, 0, 1));
        // Another flow's entry.
        assert_eq!(run(60, 61, Some(2), &|f| f[29] ^= 2).0, 1);
    }

    #[test]
    fn a_second_time_is_a_violation() {
        let states = vec![State { version: None, asked: 0, acked: Some(0) }];
        let mut checker = Checker { flows: vec![states], ..Checker::default() };
        let frame = checker.send(7, 0, 0);
        assert_eq!(checker.receive(8, false, &frame), Some((0, 7)));
        assert_eq!(checker.receive(9, false, &frame), None);
        assert_eq!((checker.verdict.absent, checker.verdict.doubled), (1, 1));
        assert_eq!(flow(&key(12345)), 12345);
    }
}
