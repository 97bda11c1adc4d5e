//! The frames of floods: one after the other, drawn from a seed.

use crate::case::Frames;
use crate::rack::{ATTACKER, CLIENT, PORT, REPORT_PORT, Rack, SWITCH_MAC};
use pointsman_balance::report::{Report, Stamp};
use pointsman_balance::trust::ReportKey;
use pointsman_lab::rack::Link;
use pointsman_lab::{Error, Result, Rng};
use pointsman_wire::Mac;
use pointsman_wire::frame::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a frame, apart from [`Frames::Random`]; shorter frames are padded, as on any wire.
const LENGTH: usize = 128;
/// Source ports that clients of Linux use.
pub const EPHEMERAL: std::ops::Range<u64> = 32_768..61_000;

/// A device's agent: the data needed to send reports in its name.
#[derive(Clone, Debug)]
struct Agent {
    link: Link,
    server: u16,
    slot: u8,
    key: (u8, ReportKey),
}

/// Everything about a rack that frames are made of.
#[derive(Clone, Debug)]
pub struct Ground {
    vip: (Ipv4Addr, Ipv6Addr),
    client: Link,
    attacker: Link,
    links: Vec<Link>,
    agents: Vec<(String, Agent)>,
}

impl Ground {
    /// Of this rack.
    pub fn of(rack: &Rack) -> Result<Self> {
        let spec = &rack.wiring.spec;
        let wrong = |e: &dyn std::fmt::Display| Error::new(format!("the rack's own description: {e}"));
        let mut described = rack.description().rack().map_err(|e| wrong(&e))?;
        described.read_keys("report-keys.txt", &rack.key_text()?).map_err(|e| wrong(&e))?;
        let mut agents = Vec::new();
        for (server, device) in described.devices() {
            let name = format!("{}/{}", server.name, device.name);
            let key =
                described.keys.newest(device.number).ok_or_else(|| wrong(&format!("no key of {name}")))?;
            let link = rack.wiring.host(&name)?.link.clone();
            agents.push((name, Agent { link, server: server.number, slot: device.number.slot(), key }));
        }
        let link = |name: &str| Ok::<_, Error>(rack.wiring.host(name)?.link.clone());
        Ok(Self {
            vip: (spec.vip_ipv4, spec.vip_ipv6),
            client: link(CLIENT)?,
            attacker: link(ATTACKER)?,
            links: spec.hosts().map(|(_, l)| l.clone()).collect(),
            agents,
        })
    }

    /// A signed report of a device, with the sender's microseconds, as its agent sends it.
    pub fn report(&self, device: &str, micros: u64) -> Result<Vec<u8>> {
        let found = self.agents.iter().find(|(name, _)| name == device);
        let (_, agent) = found.ok_or_else(|| Error::new(format!("no device {device}")))?;
        Ok(agent.datagram(&agent.signed(micros)))
    }
}

impl Agent {
    /// The agent's report: it can take no connections.
    fn signed(&self, micros: u64) -> Vec<u8> {
        let (mask, high) = (1 << (self.slot & 7), self.slot > 7);
        let report =
            Report { server: self.server, high, mask, available: 0, metrics: 0, sequence: 0, words: vec![] };
        report.encode_signed(&self.key.1, Stamp { number: self.key.0, sequence: micros })
    }

    fn datagram(&self, report: &[u8]) -> Vec<u8> {
        let l = &self.link;
        let (from, to) = (l.ipv4.into(), l.gateway_ipv4.into());
        packet((SWITCH_MAC, l.mac), from, to, UDP, udp(40_000, REPORT_PORT, report), USUAL)
    }
}

/// Microseconds since 1970, as agents count.
pub fn micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
}

/// Makes frames of one kind.
pub struct Maker {
    kind: Frames,
    ground: Ground,
    rng: Rng,
    number: u64,
    replayed: Vec<u8>,
}

impl Maker {
    /// Of this kind.
    pub fn new(kind: Frames, ground: Ground) -> Self {
        // The report that is repeated is a right one; it is a replay from the second time on.
        let replayed = ground.agents.first().map_or(Vec::new(), |(_, a)| a.datagram(&a.signed(micros())));
        Self { kind, ground, rng: Rng::for_part(1, "flood"), number: 0, replayed }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.next_u64() % bound.max(1)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length.div_ceil(8)).flat_map(|_| self.rng.next_u64().to_ne_bytes()).take(length).collect()
    }

    /// Appends `count` frames of one length to `out` and returns their length.
    pub fn batch(&mut self, count: usize, out: &mut Vec<u8>) -> usize {
        out.clear();
        let length = match self.kind {
            Frames::Random => 60 + self.below(1454) as usize,
            _ => LENGTH,
        };
        for _ in 0..count {
            let mut frame = self.frame(length);
            frame.resize(length, 0);
            out.append(&mut frame);
            self.number += 1;
        }
        length
    }

    fn frame(&mut self, length: usize) -> Vec<u8> {
        match self.kind {
            Frames::Syn | Frames::Syn6 | Frames::SynBadSources | Frames::NoConnection => self.segment(),
            Frames::Udp | Frames::Udp6 | Frames::Fragments | Frames::Lengths => self.datagram(),
            Frames::Random => self.random(length),
            Frames::Arp | Frames::Nd | Frames::ArpSpoof | Frames::NdSpoof => self.neighbour(),
            Frames::Answers | Frames::AnswersAsVip | Frames::Icmp => self.answer(),
            Frames::ReportsForged
            | Frames::ReportsReplayed
            | Frames::ReportsDamaged
            | Frames::ReportsMalformed => self.report(),
        }
    }

    fn hop(&self) -> Hop {
        (SWITCH_MAC, self.ground.attacker.mac)
    }

    /// An address of the attacker's network.
    fn neighbour4(&mut self) -> Ipv4Addr {
        let [a, b, c, _] = self.ground.attacker.ipv4.octets();
        Ipv4Addr::new(a, b, c, 2 + self.below(252) as u8)
    }

    fn neighbour6(&mut self) -> Ipv6Addr {
        let net = u128::from(self.ground.attacker.ipv6) >> 64 << 64;
        Ipv6Addr::from(net | u128::from(self.rng.next_u64() | 0x100))
    }

    /// An address that no client can have.
    fn bad_source(&mut self) -> Ipv4Addr {
        let number = self.number as usize;
        let link = &self.ground.links[number / 8 % self.ground.links.len()];
        match number % 8 {
            0 => Ipv4Addr::BROADCAST,
            1 => self.ground.vip.0,
            2 => link.gateway_ipv4,
            3 => link.ipv4,
            4 => Ipv4Addr::new(224, 0, 0, 1),
            5 => Ipv4Addr::LOCALHOST,
            6 => Ipv4Addr::UNSPECIFIED,
            _ => Ipv4Addr::new(240, 0, 0, self.below(256) as u8),
        }
    }

    fn segment(&mut self) -> Vec<u8> {
        let port = 1024 + self.below(64_000) as u16;
        let sequence = self.rng.next_u64() as u32;
        let (vip4, vip6) = self.ground.vip;
        let flags = if self.kind == Frames::NoConnection {
            [ACK, ACK | FIN, RST][self.below(3) as usize]
        } else {
            SYN
        };
        let (from, to): (IpAddr, IpAddr) = match self.kind {
            Frames::Syn6 => (self.neighbour6().into(), vip6.into()),
            Frames::SynBadSources if self.number.is_multiple_of(9) => {
                // Link-local: an answer has nowhere to go.
                (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1 + self.below(9) as u16).into(), vip6.into())
            }
            Frames::SynBadSources => (self.bad_source().into(), vip4.into()),
            _ => (self.neighbour4().into(), vip4.into()),
        };
        packet(self.hop(), from, to, TCP, tcp(port, PORT, sequence, flags), USUAL)
    }

    fn datagram(&mut self) -> Vec<u8> {
        let port = 1024 + self.below(64_000) as u16;
        let payload = self.bytes(32);
        let (vip4, vip6) = self.ground.vip;
        let mut ip = USUAL;
        let (from, to): (IpAddr, IpAddr) = match self.kind {
            Frames::Udp6 => (self.neighbour6().into(), vip6.into()),
            _ => (self.neighbour4().into(), vip4.into()),
        };
        match self.kind {
            Frames::Fragments => {
                // More follow, at an offset that is sometimes zero.
                let offset = if self.number.is_multiple_of(2) { 0 } else { self.below(8000) as u16 };
                ip.fragment = (self.number as u16, 0x2000 | offset);
            }
            Frames::Lengths => ip.length_off = (self.below(120) as i16) - 60,
            _ => {}
        }
        let mut body = udp(port, PORT, &payload);
        if self.kind == Frames::Lengths && self.number.is_multiple_of(2) {
            ip.length_off = 0;
            body[4..6].copy_from_slice(&(self.below(65_536) as u16).to_be_bytes());
        }
        packet(self.hop(), from, to, UDP, body, ip)
    }

    fn random(&mut self, length: usize) -> Vec<u8> {
        let kinds = [0x0800, 0x86dd, 0x0806, 0x88b5, 0x8100, self.below(65_536) as u16];
        let kind = kinds[self.below(6) as usize];
        let mut payload = self.bytes(length - 14);
        // Half of the IP packets get past the version.
        match (kind, self.number.is_multiple_of(2)) {
            (0x0800, true) => payload[0] = 0x45,
            (0x86dd, true) => payload[0] = 0x60,
            _ => {}
        }
        ethernet(self.hop(), kind, &payload)
    }

    fn neighbour(&mut self) -> Vec<u8> {
        let own = self.ground.attacker.clone();
        let random = {
            let b = self.rng.next_u64().to_ne_bytes();
            Mac([0x02, b[1], b[2], b[3], b[4], b[5]])
        };
        let number = self.number as usize;
        let victim = self.ground.links[number / 2 % self.ground.links.len()].clone();
        let hop = (if number.is_multiple_of(2) { SWITCH_MAC } else { Mac::BROADCAST }, own.mac);
        match self.kind {
            Frames::Arp => {
                let address = self.neighbour4();
                let operation = 1 + self.below(2) as u16;
                arp((hop.0, random), operation, (random, address), (Mac([0; 6]), own.gateway_ipv4))
            }
            Frames::Nd => advertisement((SWITCH_MAC, random), own.gateway_ipv6, self.neighbour6(), random),
            Frames::ArpSpoof => {
                let address = if number % 7 == 6 { victim.gateway_ipv4 } else { victim.ipv4 };
                arp(hop, 2, (own.mac, address), (SWITCH_MAC, victim.gateway_ipv4))
            }
            _ => {
                let address = if number % 7 == 6 { victim.gateway_ipv6 } else { victim.ipv6 };
                advertisement((SWITCH_MAC, own.mac), victim.gateway_ipv6, address, own.mac)
            }
        }
    }

    fn answer(&mut self) -> Vec<u8> {
        let port = (EPHEMERAL.start + self.below(EPHEMERAL.end - EPHEMERAL.start)) as u16;
        let device = self.number as usize / 4 % self.ground.agents.len();
        let speaker = self.ground.agents[device].1.link.ipv4;
        let (vip, client) = (self.ground.vip.0, self.ground.client.ipv4);
        if self.kind == Frames::Icmp {
            // About the client's packets to the VIP, to the client; and about the VIP's answers, to the VIP.
            let (from, to) = if self.number.is_multiple_of(2) { (client, vip) } else { (vip, client) };
            let ports = if self.number.is_multiple_of(2) { (port, PORT) } else { (PORT, port) };
            let about = packet(self.hop(), from.into(), to.into(), TCP, tcp(ports.0, ports.1, 1, ACK), USUAL);
            let kind = if self.number % 4 < 2 { [3, 3, 0, 0, 0, 0, 0, 0] } else { [3, 4, 0, 0, 0, 0, 0, 68] };
            let body = [&kind[..], &about[14..42]].concat();
            return packet(self.hop(), self.ground.attacker.ipv4.into(), from.into(), ICMP, body, USUAL);
        }
        let from = if self.kind == Frames::AnswersAsVip { vip } else { speaker };
        let sequence = self.rng.next_u64() as u32;
        let (protocol, body) = match self.number % 4 {
            0 => (UDP, udp(PORT, port, b"PMA1: no device said this")),
            1 => (TCP, tcp(PORT, port, sequence, RST)),
            2 => (TCP, tcp(PORT, port, sequence, FIN | ACK)),
            _ => (TCP, tcp(PORT, port, sequence, SYN | ACK)),
        };
        packet(self.hop(), from.into(), client.into(), protocol, body, USUAL)
    }

    fn report(&mut self) -> Vec<u8> {
        let which = self.number as usize % self.ground.agents.len();
        let agent = self.ground.agents[which].1.clone();
        let now = micros();
        match self.kind {
            Frames::ReportsReplayed => self.replayed.clone(),
            Frames::ReportsForged => {
                let mut report = agent.signed(now);
                let digest = self.bytes(8);
                report[16..24].copy_from_slice(&digest);
                agent.datagram(&report)
            }
            Frames::ReportsDamaged => {
                let mut report = agent.signed(now);
                let bit = self.below(8 * report.len() as u64) as usize;
                report[bit / 8] ^= 1 << (bit % 8);
                agent.datagram(&report)
            }
            _ => {
                let mut report = agent.signed(now);
                let at = self.below(4) as usize;
                report[at] = self.rng.next_u64() as u8;
                let length = self.below(60) as usize;
                report.resize(length, 0);
                agent.datagram(&report)
            }
        }
    }
}
