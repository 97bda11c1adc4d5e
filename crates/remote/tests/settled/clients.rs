//! Clients, devices, and a checker of packets. It knows nothing of tables: a connection's packets must come to the device that its first one came to.

use super::setup::*;
use crate::switch::TIMEOUT;
use pointsman_balance::settle::{KEY_BYTES, Key, Word};
use pointsman_wire::frame::{self, ACK, FIN, RST, SYN};
use pointsman_wire::{Mac, Random};
use std::net::{IpAddr, Ipv6Addr};

/// The switch's MAC address, and a station's.
fn hop() -> (Mac, Mac) {
    (Mac::from_u64(0x0250_4d00_0001), Mac::from_u64(0x0200_0000_0001))
}

/// What went wrong, and what went right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Packets of clients, of them those that reached a device, and answers that reached their clients.
    pub sent: u64,
    pub delivered: u64,
    pub answered: u64,
    /// Connections that began, and that ended with FINs or a RST.
    pub begun: u64,
    pub ended: u64,
    /// Packets that reached another device than the connection's first one.
    pub moved: u64,
    /// Segments of connections that live, and were answered with a RST.
    pub reset: u64,
    /// Frames with a wrong address, or of no client.
    pub strange: u64,
    /// Packets of connections that were there from the start, at the right device.
    pub loaded: u64,
    /// Connections that began at a device which was out of its pool since before their first packet.
    pub stale: u64,
}

impl Verdict {
    pub fn broken(&self) -> u64 {
        self.moved + self.reset + self.strange
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opens,
    Open,
    Closes,
}

/// A client's connections, one after the other with the same addresses and ports.
#[derive(Clone, Debug)]
struct Client {
    service: u16,
    phase: Phase,
    /// How many came before, and the device of this one.
    number: u32,
    device: Option<u8>,
    /// Answered; packets that are left, and that have no answer; the device's FIN was seen.
    established: bool,
    left: u64,
    open: u64,
    fin: bool,
    /// Since when the connection is over, if it is: late packets of it do not count.
    over: bool,
    /// When its first packet was sent.
    first: u64,
}

/// All of them.
pub struct Clients {
    all: Vec<Client>,
    random: Random,
    /// Packets of a connection, at most.
    packets: u64,
    /// Devices that take new connections, by service, and since when.
    pools: [(u8, u64); 5],
    pub verdict: Verdict,
}

/// A packet as clients and devices see it.
struct Seen {
    from: IpAddr,
    to: IpAddr,
    ports: (u16, u16),
    /// Flags of TCP; `None` for datagrams.
    flags: Option<u8>,
    /// Client, and number of its connection; `None` in a RST of the switch.
    name: Option<(u32, u32)>,
}

fn decode(frame: &[u8]) -> Option<Seen> {
    let (from, to, protocol, rest): (IpAddr, IpAddr, _, _) = match frame.get(12..14)? {
        [8, 0] => {
            let address = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(frame.get(at..at + 4)?).ok()?));
            (address(26)?, address(30)?, *frame.get(23)?, frame.get(34..)?)
        }
        _ => {
            let address = |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(frame.get(at..at + 16)?).ok()?));
            (address(22)?, address(38)?, *frame.get(20)?, frame.get(54..)?)
        }
    };
    let word = |at: usize| Some(u16::from_be_bytes(rest.get(at..at + 2)?.try_into().ok()?));
    let (flags, payload) =
        if protocol == frame::TCP { (Some(rest[13]), &rest[20..]) } else { (None, &rest[8..]) };
    let long = |at: usize| Some(u32::from_be_bytes(payload.get(at..at + 4)?.try_into().ok()?));
    let name = long(0).zip(long(4));
    Some(Seen { from, to, ports: (word(0)?, word(2)?), flags, name })
}

fn encode(service: u16, ends: (IpAddr, IpAddr), ports: (u16, u16), flags: u8, name: (u32, u32)) -> Vec<u8> {
    let payload = [name.0.to_be_bytes(), name.1.to_be_bytes()].concat();
    let (protocol, segment) = match is_udp(service) {
        true => (frame::UDP, frame::udp(ports.0, ports.1, &payload)),
        false => (frame::TCP, [frame::tcp(ports.0, ports.1, 7, flags), payload].concat()),
    };
    frame::packet(hop(), ends.0, ends.1, protocol, segment, frame::USUAL)
}

fn port(client: u32) -> u16 {
    1024 + (client % 60_000) as u16
}

/// Their number, in place of that of a client's connections; their service.
const LOADED: u32 = u32::MAX;
const LOADED_SERVICE: u16 = 2;

fn loaded_slot(n: u32) -> u8 {
    (n % u32::from(SLOTS)) as u8
}

fn loaded_client(n: u32) -> IpAddr {
    Ipv6Addr::from((0x2001_0db9 << 96) + u128::from(n)).into()
}

/// A connection that is there from the start: its key, and what is kept of it.
pub fn loaded(n: u32) -> (Key, Word) {
    let mut key = [0; KEY_BYTES];
    if let IpAddr::V6(client) = loaded_client(n) {
        key[..16].copy_from_slice(&client.octets());
    }
    key[16..18].copy_from_slice(&port(n).to_be_bytes());
    key[18..].copy_from_slice(&LOADED_SERVICE.to_be_bytes());
    (key, (FIRST_DEVICE + u32::from(loaded_slot(n))).to_be_bytes())
}

/// A packet of it.
pub fn packet_of_loaded(n: u32) -> Vec<u8> {
    encode(LOADED_SERVICE, (loaded_client(n), vip(LOADED_SERVICE)), (port(n), 80), ACK, (n, LOADED))
}

impl Clients {
    pub fn new(count: u32, packets: u64, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xc11e);
        let all = (0..count).map(|n| Client {
            service: SERVICES.start() + (n % 4) as u16,
            phase: Phase::Opens,
            number: 0,
            device: None,
            established: false,
            left: 1 + random.below(packets),
            open: 0,
            fin: false,
            over: false,
            first: 0,
        });
        let all = all.collect();
        Clients { all, random, packets, pools: [(0xff, 0); 5], verdict: Verdict::default() }
    }

    pub fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// A service's pool changes.
    pub fn pool(&mut self, now: u64, service: u16, devices: u8) {
        self.pools[usize::from(service)] = (devices, now);
    }

    /// A client's next packet, and whether the connection is over with it. `ends`: no new connection begins.
    pub fn step(&mut self, now: u64, n: u32, ends: bool) -> (Option<Vec<u8>>, bool) {
        let resets = self.random.below(4) == 0;
        let client = &mut self.all[n as usize];
        if client.over {
            if ends {
                return (None, true);
            }
            let left = 1 + self.random.below(self.packets);
            let (service, number) = (client.service, client.number + 1);
            *client = Client { service, number, left, ..fresh() };
        }
        if client.first == 0 {
            client.first = now;
            self.verdict.begun += 1;
        }
        if client.phase == Phase::Opens && client.established {
            client.phase = Phase::Open;
        }
        let udp = is_udp(client.service);
        let flags = match client.phase {
            Phase::Opens => SYN,
            Phase::Open if client.left > 0 => {
                client.left -= 1;
                client.open += 1;
                ACK
            }
            // Datagrams have no end.
            Phase::Open if udp => return (None, ends),
            // A device's answer behind a RST says that the connection continues.
            Phase::Open if resets && client.open == 0 => {
                client.over = true;
                RST | ACK
            }
            Phase::Open | Phase::Closes => {
                client.phase = Phase::Closes;
                client.over = client.fin;
                if client.fin { ACK } else { FIN | ACK }
            }
        };
        self.verdict.ended += u64::from(client.over);
        self.verdict.sent += 1;
        let ends = (self::client(client.service, n), vip(client.service));
        let name = (n, client.number);
        (Some(encode(client.service, ends, (port(n), 80), flags, name)), client.over)
    }

    /// A packet comes to a device: its answer.
    pub fn at_device(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let seen = decode(frame)?;
        if let Some((n, LOADED)) = seen.name {
            let right = (seen.to, seen.from) == (device(LOADED_SERVICE, loaded_slot(n)), loaded_client(n));
            self.verdict.loaded += u64::from(right);
            self.verdict.moved += u64::from(!right);
            return None;
        }
        let Some((n, number)) = seen.name.filter(|(n, _)| *n < self.len()) else {
            self.verdict.strange += 1;
            return None;
        };
        let client = &mut self.all[n as usize];
        let at = slot(seen.to);
        let right = (self::client(client.service, n), device(client.service, at)) == (seen.from, seen.to);
        if !right || seen.ports != (port(n), 80) {
            self.verdict.strange += 1;
        }
        self.verdict.delivered += 1;
        if number != client.number {
            return None;
        }
        match client.device {
            None => {
                client.device = Some(at);
                let (pool, since) = self.pools[usize::from(client.service)];
                self.verdict.stale += u64::from(pool >> at & 1 == 0 && since + TIMEOUT < client.first);
            }
            Some(device) => self.verdict.moved += u64::from(device != at),
        }
        let flags = match seen.flags {
            Some(flags) if flags & RST != 0 => return None,
            Some(flags) if flags & SYN != 0 => SYN | ACK,
            Some(flags) if flags & FIN != 0 => FIN | ACK,
            _ => ACK,
        };
        Some(encode(client.service, (seen.to, seen.from), (80, port(n)), flags, (n, number)))
    }

    /// A packet comes to a client.
    pub fn at_client(&mut self, frame: &[u8]) {
        let Some(seen) = decode(frame) else { return self.verdict.strange += 1 };
        let of_address = |c: &u32| self::client(self.all[*c as usize].service, *c) == seen.to;
        let found = seen.name.map(|(n, _)| n).filter(|n| *n < self.len());
        let Some(n) = found.or_else(|| (0..self.len()).find(of_address)) else {
            return self.verdict.strange += 1;
        };
        let client = &mut self.all[n as usize];
        if seen.from != vip(client.service) || seen.ports != (80, port(n)) {
            self.verdict.strange += 1;
        }
        match seen.flags {
            Some(flags) if flags & RST != 0 => self.verdict.reset += u64::from(!client.over),
            flags if seen.name == Some((n, client.number)) => {
                self.verdict.answered += 1;
                client.open -= u64::from(client.established && client.open > 0);
                client.established = true;
                client.fin |= flags.is_some_and(|flags| flags & FIN != 0);
            }
            _ => {}
        }
    }
}

/// A connection that was not begun.
fn fresh() -> Client {
    Client {
        service: 0,
        phase: Phase::Opens,
        number: 0,
        device: None,
        established: false,
        left: 0,
        open: 0,
        fin: false,
        over: false,
        first: 0,
    }
}
