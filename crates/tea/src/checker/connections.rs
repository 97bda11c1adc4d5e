//! Connections through the balancer: what clients and devices send, where it must arrive, and with which bytes. A connection's packets must come to the
//! device that its first one came to. Shares no code with the program, its tables and what moves connections.

use super::{Checker, HOP, Host, ROUTED, Sent, TARGET};
use pointsman_wire::Mac;
use pointsman_wire::frame::{self, ACK, FIN, Ip, RST, SYN};
use pointsman_wire::random::mix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Devices, and the number of the first one.
pub const DEVICES: u8 = 8;
pub const FIRST_DEVICE: u32 = 8;
/// All of them, as bits.
pub const ALL: u16 = 0xff;
/// Bytes that a packet may have besides its number: of IPv6 it has 1,514 then.
pub const MOST: usize = 1514 - 14 - 40 - 20 - 8;
/// The address of the service over IPv6.
const VIP6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0, 1);
/// A client waits for an answer to its SYN or FIN for so long, and from a connection's end to the next one, in nanoseconds. In this time no packet
/// is under way any more.
const RETRY_NS: u64 = 50_000_000;
const REST_NS: u64 = 150_000_000;
/// The fewest packets of a connection, besides those with which it begins and ends, and how many more.
const FEWEST: u64 = 4;
const MORE: u64 = 24;

/// Services: numbers and families.
pub fn services() -> [(u16, bool); 2] {
    [(1, false), (2, true)]
}

/// The address of a service.
pub fn vip(is_ipv6: bool) -> IpAddr {
    if is_ipv6 { VIP6.into() } else { TARGET.0.into() }
}

/// The address of a device.
pub fn device(slot: u8, is_ipv6: bool) -> IpAddr {
    match is_ipv6 {
        false => Ipv4Addr::new(10, 7, 1, slot).into(),
        true => Ipv6Addr::new(0xfd07, 1, 0, 0, 0, 0, 0, slot.into()).into(),
    }
}

/// Its MAC address, and the host that stands for it.
pub fn place(slot: u8) -> (Mac, Host) {
    (Mac([2, 0, 0, 0, 1, slot]), if slot & 1 == 0 { Host::Found } else { Host::Unknown })
}

fn is_ipv6(flow: u32) -> bool {
    flow & 1 == 1
}

/// The address of a flow's client, and the port of one of its connections. Each 5-tuple is used twice.
fn client(flow: u32, connection: u32) -> (IpAddr, u16) {
    let address = match is_ipv6(flow) {
        false => Ipv4Addr::from(0xc000_0000 + flow / 8).into(),
        true => Ipv6Addr::from((0x2001_0db8 << 96) + u128::from(flow / 8)).into(),
    };
    (address, (4000 + flow % 8 + connection / 2 * 8) as u16)
}

/// The device of a flow whose connection is there from the start.
fn home(flow: u32) -> u8 {
    (flow / 2 % u32::from(DEVICES)) as u8
}

/// The key of a flow's first connection: client, port, service.
pub fn key(flow: u32) -> Vec<u8> {
    let (address, port) = client(flow, 0);
    let address = match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    };
    let service = services()[usize::from(is_ipv6(flow))].0;
    [&address.to_be_bytes()[..], &port.to_be_bytes(), &service.to_be_bytes()].concat()
}

/// What servers' memory has of it: its device.
pub fn value(flow: u32) -> Vec<u8> {
    (FIRST_DEVICE + u32::from(home(flow))).to_be_bytes().to_vec()
}

/// What a packet of a flow is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The connection, of those with which the flow's client begins one after the other.
    connection: u32,
    flags: u8,
    /// The device that sends it; `None`: the client.
    from: Option<u8>,
}

impl Segment {
    /// The frame of a packet with this number, between the client or device and the switch.
    fn frame(self, flow: u32, number: u64, padding: usize, way: Way) -> Vec<u8> {
        let (client, service) = (client(flow, self.connection), (vip(is_ipv6(flow)), TARGET.1));
        let end = |slot| (device(slot, is_ipv6(flow)), TARGET.1);
        let (hop, from, to) = match way {
            Way::FromClient => (HOP, client, service),
            Way::ToDevice(slot) => ((place(slot).0, HOP.0), client, end(slot)),
            Way::FromDevice(slot) => ((HOP.0, place(slot).0), end(slot), client),
            Way::ToClient => ((ROUTED, HOP.0), service, client),
        };
        let passed = matches!(way, Way::ToDevice(_) | Way::ToClient);
        let mut segment = frame::tcp(from.1, to.1, 7, self.flags);
        segment[8..12].copy_from_slice(&(number as u32).to_be_bytes());
        segment.extend(number.to_be_bytes());
        segment.extend(vec![number as u8; padding]);
        let ip = Ip { ttl: if passed { 63 } else { 64 }, ..frame::USUAL };
        frame::packet(hop, from.0, to.0, frame::TCP, segment, ip)
    }

    /// The RST with which the switch answers it (RFC 9293, section 3.10.7.1).
    fn reset(self, flow: u32, number: u64) -> Vec<u8> {
        let (client, service) = (client(flow, self.connection), (vip(is_ipv6(flow)), TARGET.1));
        let mut segment = frame::tcp(service.1, client.1, number as u32, RST);
        segment[14..16].fill(0); // window
        frame::packet((HOP.1, HOP.0), service.0, client.0, frame::TCP, segment, frame::USUAL)
    }
}

/// Where a frame is.
#[derive(Clone, Copy)]
enum Way {
    FromClient,
    ToDevice(u8),
    FromDevice(u8),
    ToClient,
}

/// What was seen of connections that are not there from the start, and of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Connections that began, and ended.
    pub begun: u64,
    pub ended: u64,
    /// Packets that reached their connection's device while it took no new connections.
    pub kept: u64,
}

/// A client's connection.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    number: u32,
    /// Devices of this connection and of the one before, by the last bit of their numbers.
    devices: [Option<u8>; 2],
    /// When its first packet was sent, and the last one that has to be answered.
    begun: Option<u64>,
    asked: Option<u64>,
    is_established: bool,
    left: u64,
    /// Packets without an answer; the device has sent its FIN, and the client has seen it.
    open: u32,
    is_closed: bool,
    fin: bool,
    over: Option<u64>,
}

/// Connections of the flows. The first ones are there from the start, and stay; those behind them never exist, and the others begin and end.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    loaded: u32,
    first: u32,
    clients: Vec<Client>,
    pub counted: Counted,
}

/// A random number of a connection.
fn chance(flow: u32, connection: u32) -> u64 {
    mix(u64::from(flow) << 32 | u64::from(connection))
}

impl Connections {
    /// Flows whose connections are there from the start, flows without, and flows whose connections begin and end.
    pub fn new(loaded: u32, absent: u32, changing: u32) -> Self {
        Connections {
            loaded,
            first: loaded + absent,
            clients: vec![Client::default(); changing as usize],
            counted: Counted::default(),
        }
    }

    fn client(&mut self, flow: u32) -> Option<&mut Client> {
        self.clients.get_mut(flow.checked_sub(self.first)? as usize)
    }

    /// A flow that can send a packet now: this one, or another one while its client waits.
    fn ready(&mut self, now: u64, flow: u32) -> u32 {
        let other = flow % self.loaded.max(1);
        let waits = |c: &mut Client| match c.over {
            Some(at) => now < at + REST_NS,
            None => c.asked.is_some_and(|at| now < at + RETRY_NS),
        };
        if self.client(flow).is_some_and(waits) { other } else { flow }
    }

    /// The next packet of a flow's client.
    fn next(&mut self, now: u64, flow: u32) -> Segment {
        let Some(client) = self.client(flow) else {
            return Segment { flags: ACK, ..Segment::default() };
        };
        if client.over.is_some() {
            let number = client.number + 1;
            let mut devices = client.devices;
            devices[number as usize & 1] = None;
            *client = Client { number, devices, ..Client::default() };
        }
        let begins = client.begun.is_none();
        let random = chance(flow, client.number);
        if begins {
            client.begun = Some(now);
            // Some stay.
            client.left = if random.is_multiple_of(16) { u64::MAX } else { FEWEST + (random >> 8) % MORE };
        }
        client.asked = None;
        let flags = if !client.is_established {
            client.asked = Some(now);
            SYN
        } else if client.left > 0 {
            client.left -= 1;
            client.open += 1;
            ACK
        } else if random >> 40 & 3 == 0 && client.open == 0 {
            client.over = Some(now);
            RST | ACK
        } else if client.fin {
            client.over = Some(now);
            ACK
        } else {
            client.asked = Some(now);
            FIN | ACK
        };
        let (connection, is_over) = (client.number, client.over.is_some());
        self.counted.begun += u64::from(begins);
        self.counted.ended += u64::from(is_over);
        Segment { connection, flags, from: None }
    }

    /// Whether a segment of a flow may have no connection any more, or never had one.
    fn may_be_absent(&mut self, flow: u32, segment: Segment) -> bool {
        if flow < self.loaded {
            return false;
        }
        self.client(flow).is_none_or(|c| c.number != segment.connection || c.over.is_some() || c.is_closed)
    }

    /// A packet of a flow's client is at a device: whether it is the right one, and for the first packet of a connection with ports that were not used before,
    /// when its client began. And what the device answers.
    fn at_device(&mut self, flow: u32, segment: Segment, slot: u8) -> (bool, Option<u64>, Option<Segment>) {
        let answer = |flags| Some(Segment { flags, from: Some(slot), ..segment });
        if flow < self.loaded {
            return (slot == home(flow), None, answer(ACK));
        }
        let Some(client) = self.client(flow) else { return (false, None, None) };
        let is_last = client.number == segment.connection;
        let device = &mut client.devices[segment.connection as usize & 1];
        let is_first = device.is_none();
        let right = *device.get_or_insert(slot) == slot;
        let begun = (is_first && is_last && segment.connection & 1 == 0).then_some(client.begun).flatten();
        let answer = match segment.flags {
            _ if !is_last => None,
            flags if flags & RST != 0 => None,
            flags if flags & SYN != 0 => answer(SYN | ACK),
            flags if flags & FIN != 0 => {
                client.is_closed = true;
                answer(FIN | ACK)
            }
            _ => answer(ACK),
        };
        (right, begun, answer)
    }

    /// An answer is at its client.
    fn at_client(&mut self, flow: u32, segment: Segment) {
        let Some(client) = self.client(flow).filter(|c| c.number == segment.connection) else { return };
        if segment.flags & SYN != 0 {
            client.is_established = true;
        } else if segment.flags & FIN != 0 {
            client.fin = true;
        } else {
            client.open = client.open.saturating_sub(1);
        }
        if segment.flags & (SYN | FIN) != 0 {
            client.asked = None;
        }
    }
}

/// What a frame shows: the number of its packet, or the last bits of the number of the one that the switch answers with this RST, and its destination.
enum Shown {
    Packet(u64, IpAddr),
    Reset(u64),
}

fn shown(frame: &[u8]) -> Option<Shown> {
    let (to, tcp): (IpAddr, usize) = match u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]) {
        frame::IPV4 => (<[u8; 4]>::try_from(frame.get(30..34)?).ok()?.into(), 34),
        frame::IPV6 => (<[u8; 16]>::try_from(frame.get(38..54)?).ok()?.into(), 54),
        _ => return None,
    };
    let segment = frame.get(tcp..)?;
    match segment.get(20..28) {
        Some(number) => Some(Shown::Packet(u64::from_be_bytes(number.try_into().ok()?), to)),
        None => Some(Shown::Reset(u32::from_be_bytes(segment.get(4..8)?.try_into().ok()?).into())),
    }
}

/// The number of a frame's packet.
pub fn number(frame: &[u8]) -> Option<u64> {
    match shown(frame)? {
        Shown::Packet(number, _) | Shown::Reset(number) => Some(number),
    }
}

impl Checker {
    /// The next packet of a flow, or of another one while its client waits: the flow, what it is, and its frame.
    pub(super) fn client_sends(
        &mut self,
        now: u64,
        flow: u32,
        number: u64,
        padding: usize,
    ) -> (u32, Segment, Vec<u8>) {
        let flow = self.connections.ready(now, flow);
        let segment = self.connections.next(now, flow);
        (flow, segment, segment.frame(flow, number, padding, Way::FromClient))
    }

    /// The frame that was expected of a packet which came to a host, whether it can be there, and whether it belongs to a connection.
    pub(super) fn judge_segment(
        &mut self,
        sent: Sent,
        number: u64,
        now: u64,
        host: Host,
        frame: &[u8],
    ) -> (Vec<u8>, bool, bool) {
        let Sent { flow, padding, segment, .. } = sent;
        let as_it = |way| segment.frame(flow, number, padding, way);
        match (shown(frame), segment.from) {
            (Some(Shown::Packet(_, to)), None) => {
                let slot = (0..DEVICES).find(|slot| device(*slot, is_ipv6(flow)) == to);
                let Some(slot) = slot else { return (as_it(Way::FromClient), false, true) };
                let (right, begun, answer) = self.connections.at_device(flow, segment, slot);
                let has = |devices: Option<u16>| devices.is_some_and(|all| all >> slot & 1 == 1);
                let possible = begun.is_none_or(|begun| self.can(0, begun, now, &has));
                let pool = self.flows[0].last().and_then(|s| s.version);
                let right = right && place(slot).1 == host;
                self.connections.counted.kept += u64::from(right && !has(pool));
                if let Some(answer) = answer.filter(|_| right) {
                    self.answer(now, flow, padding, answer);
                }
                (as_it(Way::ToDevice(slot)), right && possible, true)
            }
            (Some(Shown::Packet(..)), Some(_)) => {
                self.connections.at_client(flow, segment);
                (as_it(Way::ToClient), host == Host::Sender, true)
            }
            (_, None) => {
                let possible = host == Host::Sender && self.connections.may_be_absent(flow, segment);
                (segment.reset(flow, number), possible, false)
            }
            (_, Some(_)) => (as_it(Way::ToClient), false, false),
        }
    }

    /// A device answers.
    fn answer(&mut self, now: u64, flow: u32, padding: usize, segment: Segment) {
        let Some(slot) = segment.from else { return };
        let number = self.packets.len() as u64;
        self.packets.push(Sent { flow, at: now, padding, seen: false, segment });
        self.verdict.sent += 1;
        self.answers.push((
            place(slot).1,
            number,
            segment.frame(flow, number, padding, Way::FromDevice(slot)),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{App, State, Verdict};
    use super::*;

    /// Flows 0 to 7 are there from the start, 8 to 11 never, 12 and 13 begin and end. Devices 0 and 1 take new connections, from 100 on only 2.
    fn checker() -> Checker {
        let state = |version, at| State { version: Some(version), asked: at, acked: Some(at) };
        let mut checker = Checker::new(App::Balancer, vec![vec![state(0b11, 0), state(0b100, 100)]]);
        checker.connections = Connections::new(8, 4, 2);
        checker
    }

    /// A client sends a packet, which comes to a device, and the answer to the client.
    fn exchange(checker: &mut Checker, at: u64, flow: u32, slot: u8) {
        checker.send(at, flow, 3);
        pass(checker, at, Way::ToDevice(slot), place(slot).1);
        if !checker.take_answers().is_empty() {
            pass(checker, at, Way::ToClient, Host::Sender);
        }
    }

    /// The last packet comes to a host.
    fn pass(checker: &mut Checker, at: u64, way: Way, host: Host) {
        let number = checker.packets.len() - 1;
        let Sent { flow, padding, segment, .. } = checker.packets[number];
        let frame = segment.frame(flow, number as u64, padding, way);
        checker.receive(at + 1, host, &frame);
    }

    /// Wrong, missing, altered, doubled.
    fn violations(verdict: Verdict) -> [u64; 4] {
        [verdict.wrong, verdict.missing, verdict.altered, verdict.doubled]
    }

    #[test]
    fn a_connection_stays_with_its_device_until_its_end() {
        let mut c = checker();
        for step in 0..100 {
            exchange(&mut c, 10 + step, 12, 0);
            if c.connections.clients[0].over.is_some() {
                break;
            }
        }
        assert!(c.connections.clients[0].over.is_some(), "{:?}", c.connections.clients[0]);
        assert_eq!(violations(c.verdict), [0; 4], "{:?}", c.verdict);
        // The next one has the same ports, and may have the same device; that behind it may not.
        for (at, number, slot, wrong) in [(1, 0, 0, 0), (2, 1, 2, 0), (3, 3, 1, 1)] {
            let client = &mut c.connections.clients[0];
            (client.number, client.over) = (number, Some(0));
            exchange(&mut c, at * 2 * REST_NS, 12, slot);
            assert_eq!(violations(c.verdict), [wrong, 0, 0, 0], "{number}: {:?}", c.verdict);
        }
        let counted = c.connections.counted;
        assert_eq!((counted.begun, counted.ended), (4, 1));
        assert!(counted.kept >= 2, "{counted:?}");
    }

    #[test]
    fn violations_of_connections_are_counted() {
        let run = |steps: &dyn Fn(&mut Checker)| {
            let mut c = checker();
            steps(&mut c);
            violations(c.verdict)
        };
        // Of the connections that are there from the start, number 4 has device 2.
        assert_eq!(run(&|c| exchange(c, 5, 4, 2)), [0; 4]);
        assert_eq!(run(&|c| exchange(c, 5, 4, 3)), [1, 0, 0, 0], "another device");
        let two = |c: &mut Checker, at: u64, slots: [u8; 2]| {
            slots.into_iter().for_each(|slot| exchange(c, at, 12, slot))
        };
        assert_eq!(run(&|c| two(c, 5, [1, 1])), [0; 4]);
        assert_eq!(run(&|c| two(c, 5, [1, 0])), [1, 0, 0, 0], "one that takes connections, too");
        assert_eq!(run(&|c| two(c, 200, [2, 2])), [0; 4]);
        assert_eq!(run(&|c| two(c, 200, [1, 1])), [1, 0, 0, 0], "one that takes no new connections");
        let reset = |c: &mut Checker, flow: u32| {
            c.send(5, flow, 3);
            let frame = c.packets[0].segment.reset(flow, 0);
            c.receive(6, Host::Sender, &frame);
        };
        assert_eq!(run(&|c| reset(c, 9)), [0; 4], "a connection that never was");
        assert_eq!(run(&|c| reset(c, 4)), [0, 1, 0, 0], "one that lives");
        assert_eq!(run(&|c| exchange(c, 5, 9, 1)), [1, 0, 0, 0], "no connection, and a device");
        let at = |c: &mut Checker, way: Way, host: Host| {
            c.send(5, 4, 3);
            pass(c, 5, way, host);
        };
        assert_eq!(run(&|c| at(c, Way::ToDevice(2), Host::Unknown)), [1, 0, 0, 0], "another host");
        let twice = |c: &mut Checker| {
            at(c, Way::ToDevice(2), Host::Found);
            let frame = c.packets[0].segment.frame(4, 0, 3, Way::ToDevice(2));
            c.receive(7, Host::Found, &frame);
        };
        assert_eq!(run(&twice), [0, 0, 0, 1]);
        let untranslated = |c: &mut Checker| {
            at(c, Way::ToDevice(2), Host::Found);
            pass(c, 5, Way::FromDevice(2), Host::Sender);
        };
        assert_eq!(run(&untranslated), [0, 0, 1, 0], "an answer from the device's address");
    }
}
