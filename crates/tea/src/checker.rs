//! Compares the packets that leave an application with the changes of its table. Shares no code with the tables.

#[path = "checker/connections.rs"]
pub mod connections;
#[path = "checker/policy.rs"]
pub mod policy;
#[path = "checker/tunnels.rs"]
pub mod tunnels;

use connections::{Connections, Segment};
use pointsman_wire::{Mac, frame};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Prefix of the senders.
pub const SOURCES: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 0, 0, 0), 8);
/// Of the receiver.
pub const TARGETS: (Ipv4Addr, u32) = (Ipv4Addr::new(198, 51, 0, 0), 16);
/// Of what the switch writes in the place of one.
pub const TRANSLATED: (Ipv4Addr, u32) = (Ipv4Addr::new(11, 0, 0, 0), 8);
/// Of all addresses of IPv6, each of which stands for one of IPv4.
pub const TWINS: (Ipv6Addr, u32) = (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 16);
/// With more bytes besides its number, a packet of IPv6 has more than 1,514.
const MOST: usize = 1514 - 70;
/// The receiver's address and port.
pub const TARGET: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 1), 80);
/// Where translated packets go.
pub const ROUTED: Mac = Mac([2, 0, 0, 0, 0, 0x22]);
/// Where packets go that enter the switch.
pub const HOP: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]));
/// The application, as packets show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum App {
    /// Another source.
    #[default]
    Nat,
    /// The same for flows of IPv4 and IPv6.
    Nat6,
    /// Another DSCP.
    Firewall,
    /// Another destination.
    Lb,
    /// A tunnel.
    Vpn,
    /// Another DSCP and another MAC address, from entries of two tables.
    Policy,
    /// The device of a connection.
    Balancer,
}

impl App {
    /// A version of a flow's value: it shows the flow, unless the application shows only a DSCP, and the version.
    pub fn value(self, flow: u32, version: u16) -> Vec<u8> {
        match self {
            App::Vpn => tunnels::value(flow, version),
            App::Policy => policy::value(flow, version),
            App::Balancer => connections::value(flow),
            App::Nat | App::Lb => [&[0, 0][..], &version.to_be_bytes(), &translated(flow).octets()].concat(),
            App::Nat6 => {
                let address = tunnels::mapped(self.address(flow, translated(flow)));
                [&[0, 0][..], &version.to_be_bytes(), &address].concat()
            }
            App::Firewall => vec![0x80, 0, 0, self.shown(flow, version) as u8],
        }
    }

    /// The key of a flow, below 2^24.
    pub fn key(self, flow: u32) -> Vec<u8> {
        match self {
            App::Policy => return policy::key(flow),
            App::Balancer => return connections::key(flow),
            _ => {}
        }
        let [from, to] = self.ends(flow);
        let address = |address: IpAddr| match (self, address) {
            (App::Nat6, _) => tunnels::mapped(address).to_vec(),
            (_, IpAddr::V4(a)) => a.octets().to_vec(),
            (_, IpAddr::V6(a)) => a.octets().to_vec(),
        };
        match self {
            App::Vpn => tunnels::key(flow),
            // Source, destination, ports, protocol.
            _ => [
                &address(from.0)[..],
                &address(to.0),
                &from.1.to_be_bytes(),
                &to.1.to_be_bytes(),
                &[0, 0, 0, frame::UDP],
            ]
            .concat(),
        }
    }

    /// The flow of a key.
    pub fn flow(self, key: &[u8]) -> u32 {
        let number = |at: usize| u32::from_be_bytes([0, key[at + 1], key[at + 2], key[at + 3]]);
        let port = |at: usize| u32::from(u16::from_be_bytes([key[at], key[at + 1]]));
        match self {
            App::Vpn => tunnels::flow(key),
            App::Policy => policy::flow(key),
            App::Nat6 => number(if key[0] == 0 { 12 } else { 4 }) * 8 + port(32) - 4000,
            _ => number(0) * 8 + port(8) - 4000,
        }
    }

    /// An address of the flow's packets, which stands for this one if they are of IPv6.
    fn address(self, flow: u32, address: Ipv4Addr) -> IpAddr {
        let twin = Ipv6Addr::from(TWINS.0.to_bits() | u128::from(address.to_bits()) << 64 | 1);
        if self == App::Nat6 && flow & 2 != 0 { twin.into() } else { address.into() }
    }

    /// Source and destination of a flow.
    fn ends(self, flow: u32) -> [End; 2] {
        let end = |(address, port)| (self.address(flow, address), port);
        [end(source(flow)), end(TARGET)]
    }

    /// Bytes that a packet may have besides its number.
    fn most(self) -> usize {
        match self {
            App::Vpn => tunnels::MOST,
            App::Nat6 => MOST,
            App::Balancer => connections::MOST,
            _ => usize::MAX,
        }
    }

    /// A packet of a flow as it is sent.
    fn packet(self, flow: u32, number: u64, padding: usize) -> Vec<u8> {
        if self == App::Vpn {
            tunnels::sent(flow, number, padding)
        } else {
            Shape::of(self, flow).packet(number, padding)
        }
    }

    /// What a packet with an entry is that shows what a frame does; the version that it shows, and whether the entry is its flow's.
    fn changed(self, flow: u32, number: u64, padding: usize, frame: &[u8]) -> (Vec<u8>, Option<u16>, bool) {
        let mut shape = Shape { to: ROUTED, ..Shape::of(self, flow) };
        let changed = usize::from(self == App::Lb);
        match self {
            App::Vpn => return tunnels::left(flow, number, padding, frame),
            App::Nat | App::Nat6 | App::Lb => {
                let shown = end(frame, changed);
                // An address of the other family is not the flow's.
                if shown.0.is_ipv4() == shape.ends[changed].0.is_ipv4() {
                    shape.ends[changed] = shown;
                }
            }
            App::Firewall => shape.dscp = frame[15] >> 2,
            App::Policy | App::Balancer => {}
        }
        let (address, version) = shape.ends[changed];
        let (shown, is_own) = if self == App::Firewall {
            (shape.dscp.into(), true)
        } else {
            (version, address == self.address(flow, translated(flow)))
        };
        (shape.packet(number, padding), Some(shown), is_own)
    }

    /// What a packet shows of a flow's version.
    fn shown(self, flow: u32, version: u16) -> u16 {
        if self == App::Firewall { (flow as u16).wrapping_add(version) & 0x3f } else { version }
    }
}

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

/// A host that sends or receives packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// It sends.
    Sender,
    /// Where packets with an entry go; half of the balancer's devices.
    Found,
    /// Where packets without one go; the other half.
    Unknown,
}

/// A packet that was sent.
#[derive(Clone, Copy)]
struct Sent {
    flow: u32,
    at: u64,
    padding: usize,
    seen: bool,
    /// Of a connection.
    segment: Segment,
}

/// A packet that a host sends because it got another one: the host, the packet's number, the packet.
pub type Answer = (Host, u64, Vec<u8>);

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
    app: App,
    /// By flow, in the order of the changes.
    pub flows: Vec<Vec<State>>,
    packets: Vec<Sent>,
    /// Connections, if the flows have any. The first flow's states are the devices that take new ones, as bits.
    pub connections: Connections,
    answers: Vec<Answer>,
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

/// Address and port.
type End = (IpAddr, u16);

/// What the switch may change.
#[derive(Clone, Copy)]
struct Shape {
    to: Mac,
    ends: [End; 2],
    dscp: u8,
}

impl Shape {
    /// As sent.
    fn of(app: App, flow: u32) -> Shape {
        Shape { to: HOP.0, ends: app.ends(flow), dscp: 0 }
    }

    fn packet(self, number: u64, padding: usize) -> Vec<u8> {
        let payload = [&number.to_be_bytes()[..], &vec![number as u8; padding]].concat();
        let [from, to] = self.ends;
        let udp = frame::udp(from.1, to.1, &payload);
        let mut packet = frame::packet((self.to, HOP.1), from.0, to.0, frame::UDP, udp, frame::USUAL);
        if from.0.is_ipv6() {
            return packet;
        }
        packet[15] = self.dscp << 2;
        packet[24..26].fill(0);
        let sum = packet[14..34].chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum::<u32>();
        let sum = (sum & 0xffff) + (sum >> 16);
        packet[24..26].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
        packet
    }
}

/// The number of a packet in a frame: behind IP and UDP, and behind a tunnel.
fn number(frame: &[u8]) -> Option<u64> {
    let kind = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let (mut ethertype, mut at) = (kind(12)?, 14);
    loop {
        let (protocol, next) = match ethertype {
            frame::IPV4 => (*frame.get(at + 9)?, at + 20),
            frame::IPV6 => (*frame.get(at + 6)?, at + 40),
            _ => return None,
        };
        if protocol == frame::UDP {
            return frame.get(next + 8..next + 16).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
        }
        (ethertype, at) = (kind(next + 2)?, next + 8);
    }
}

/// The source (0) or destination (1) of a frame with a number.
fn end(frame: &[u8], which: usize) -> End {
    let port = |at: usize| u16::from_be_bytes([frame[at + 2 * which], frame[at + 2 * which + 1]]);
    if frame[12..14] == frame::IPV6.to_be_bytes() {
        let mut address = [0; 16];
        address.copy_from_slice(&frame[22 + 16 * which..][..16]);
        (address.into(), port(54))
    } else {
        let a = &frame[26 + 4 * which..];
        ([a[0], a[1], a[2], a[3]].into(), port(34))
    }
}

impl Checker {
    /// With these states of the flows.
    pub fn new(app: App, flows: Vec<Vec<State>>) -> Self {
        Checker { app, flows, ..Checker::default() }
    }

    /// The next packet of a flow, with so many bytes besides its number.
    pub fn send(&mut self, now: u64, flow: u32, padding: usize) -> Vec<u8> {
        let number = self.packets.len() as u64;
        let padding = padding.min(self.app.most());
        self.verdict.sent += 1;
        if self.app == App::Balancer {
            let (flow, segment, frame) = self.client_sends(now, flow, number, padding);
            self.packets.push(Sent { flow, at: now, padding, seen: false, segment });
            return frame;
        }
        self.packets.push(Sent { flow, at: now, padding, seen: false, segment: Segment::default() });
        if self.app == App::Policy {
            return policy::shape(self.hosts(flow, number)).packet(number, padding);
        }
        self.app.packet(flow, number, padding)
    }

    /// When each of the packets with these numbers was sent that were not seen again.
    pub fn unseen(&self, numbers: Range<usize>) -> impl Iterator<Item = u64> {
        let packets = self.packets.iter().take(numbers.end).skip(numbers.start);
        packets.filter(|p| !p.seen).map(|p| p.at)
    }

    /// What hosts answer to the packets that they got.
    pub fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// A packet came to a host: its number and when it was sent, if it came for the first time.
    pub fn receive(&mut self, now: u64, host: Host, frame: &[u8]) -> Option<(u64, u64)> {
        let is_connected = self.app == App::Balancer;
        let number = if is_connected { connections::number(frame) } else { number(frame) };
        let Some((number, sent)) = number.and_then(|n| Some((n, self.packets.get_mut(n as usize)?))) else {
            self.verdict.altered += 1;
            return None;
        };
        if std::mem::replace(&mut sent.seen, true) {
            self.verdict.doubled += 1;
            return None;
        }
        let sent = *sent;
        let (expected, possible, found) = if is_connected {
            self.judge_segment(sent, number, now, host, frame)
        } else {
            let found = host == Host::Found;
            let (expected, possible) = self.judge(sent, number, now, found, frame);
            (expected, possible, found)
        };
        self.verdict.altered += u64::from(expected != frame);
        match (possible, found) {
            (true, true) => self.verdict.found += 1,
            (true, false) => self.verdict.absent += 1,
            (false, true) => self.verdict.wrong += 1,
            (false, false) => self.verdict.missing += 1,
        }
        Some((number, sent.at))
    }

    /// The frame that was expected of a packet, and whether it can have the entry that it shows.
    fn judge(&self, sent: Sent, number: u64, now: u64, found: bool, frame: &[u8]) -> (Vec<u8>, bool) {
        if self.app == App::Policy {
            let hosts = self.hosts(sent.flow, number);
            let (shape, possible) = policy::judge(self, (sent, hosts), now, found, frame);
            return (shape.packet(number, sent.padding), possible);
        }
        let (expected, shown, own) = if found {
            self.app.changed(sent.flow, number, sent.padding, frame)
        } else {
            (self.app.packet(sent.flow, number, sent.padding), None, true)
        };
        let is = |version: Option<u16>| version.map(|v| self.app.shown(sent.flow, v)) == shown;
        (expected, own && self.can(sent.flow, sent.at, now, &is))
    }

    /// Source and destination of a packet that shows entries of two tables.
    fn hosts(&self, flow: u32, number: u64) -> [u32; 2] {
        policy::ends(flow, number, self.flows.len() as u32)
    }

    /// Whether a packet that was sent `at` can have seen such a version of an entry by now, or none.
    fn can(&self, flow: u32, at: u64, now: u64, is: &dyn Fn(Option<u16>) -> bool) -> bool {
        let states = &self.flows[flow as usize];
        states.iter().enumerate().any(|(i, s)| {
            let over = states.get(i + 1).and_then(|next| next.acked);
            is(s.version) && s.asked <= now && over.is_none_or(|acked| acked >= at)
        })
    }
}

#[cfg(test)]
#[path = "checker/tests.rs"]
mod tests;
