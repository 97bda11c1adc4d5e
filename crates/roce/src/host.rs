//! A server with memory: the responder with its ports, and the controller that sets queue pairs up.

use crate::adverse::Adverse;
use crate::channel::{Channel, ChannelStats, Pairs};
use crate::packet::{Malformed, Opcode, Packet};
use crate::region::{Region, RegionError, Rights};
use crate::responder::{Responder, SetupError, Stats};
use crate::setup::{Memory, Port, Reply, Secret};
use pointsman_wire::frame::{self, ARP, Hop};
use pointsman_wire::{Mac, Random};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// The address of the memory's first byte.
const ADDRESS: u64 = 1 << 32;
/// Bytes of a packet besides its data, from the IP header on: IPv4, and IPv6.
const HEADERS: [usize; 2] = [60, 80];
/// UDP ports of answers begin here, so that routers with several paths divide queue pairs over them.
const FIRST_PORT: u16 = 0xc000;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Bytes of memory.
    pub bytes: usize,
    /// Its ports, each with the longest IP packet on its link.
    pub ports: Vec<(Port, usize)>,
    /// The key of the set-up channel's digests. Without it anyone who reaches the channel can set queue pairs up.
    pub secret: Option<Secret>,
    /// Determines the keys of regions, numbers of queue pairs, and nonces. Others must not know it.
    pub seed: u64,
    /// Whether to do what InfiniBand allows and harms most, with READs that take up to so many nanoseconds.
    pub adverse_ns: Option<u64>,
    /// Whether ARP requests for the ports' addresses are answered here.
    pub answers_arp: bool,
}

/// Why there cannot be such a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// The memory is too large.
    Region(RegionError),
    /// The link of this port carries packets of so many bytes only.
    Mtu(u32, usize),
    /// This port has no IP address.
    NoAddress(u32),
    /// No port was given.
    NoPort,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::Region(e) => e.fmt(f),
            HostError::Mtu(port, mtu) => write!(
                f,
                "port {port}: packets of {mtu} bytes do not carry InfiniBand's smallest path MTU, 256 bytes: give the interface a larger MTU"
            ),
            HostError::NoAddress(port) => {
                write!(f, "port {port}: its interface has no IP address: give it one (`ip address add`)")
            }
            HostError::NoPort => f.write_str("no port"),
        }
    }
}

impl Error for HostError {}

/// Frames and requests by their fate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Messages.
    pub messages: Stats,
    /// Frames to [`crate::PORT`] that are not packets, by reason; others are ignored.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Packets for other addresses, or for a queue pair from a wrong sender.
    pub strangers: u64,
    /// Queue pairs, and requests of controllers.
    pub channel: ChannelStats,
}

/// Who sends to a queue pair, and how it is answered.
#[derive(Clone, Copy, Debug)]
struct Peer {
    from: IpAddr,
    /// Port, Ethernet addresses and own address of the latest request.
    way: Option<(u32, Hop, IpAddr)>,
}

/// A server with memory.
#[derive(Debug)]
pub struct Host {
    channel: Channel,
    pairs: Answered,
    answers_arp: bool,
    malformed: BTreeMap<&'static str, u64>,
    strangers: u64,
}

/// Queue pairs whose requests are answered here.
#[derive(Debug)]
struct Answered {
    responder: Responder,
    peers: BTreeMap<u32, Peer>,
    adverse: Option<Adverse>,
    /// Numbers of queue pairs.
    random: Random,
    /// The key of the region.
    key: u32,
}

/// The largest path MTU for packets of so many bytes.
fn path_mtu(bytes: usize, addresses: &[IpAddr]) -> Option<usize> {
    let headers = HEADERS[usize::from(addresses.iter().any(IpAddr::is_ipv6))];
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| mtu + headers <= bytes)
}

fn name(malformed: Malformed) -> Option<&'static str> {
    match malformed {
        Malformed::NotRoce => None,
        Malformed::Short => Some("short"),
        Malformed::Opcode(_) => Some("operation"),
        Malformed::Header => Some("header"),
        Malformed::Syndrome(_) => Some("acknowledgment"),
        Malformed::Check => Some("check_value"),
    }
}

impl Host {
    /// A server with memory of zeros.
    ///
    /// # Errors
    /// A setting is impossible.
    pub fn new(config: HostConfig) -> Result<Self, HostError> {
        let mut mtu = None;
        for (port, bytes) in &config.ports {
            if port.addresses.is_empty() {
                return Err(HostError::NoAddress(port.number));
            }
            let own = path_mtu(*bytes, &port.addresses).ok_or(HostError::Mtu(port.number, *bytes))?;
            mtu = Some(mtu.map_or(own, |mtu: usize| mtu.min(own)));
        }
        let mtu = mtu.ok_or(HostError::NoPort)?;
        let rights = Rights { read: true, write: true, atomic: true };
        let region = Region::new(ADDRESS, config.bytes, rights).map_err(HostError::Region)?;
        let mut random = Random::new(config.seed);
        let key = random.next_u64() as u32 | 1;
        // The path MTU is one of those, and there is no other region.
        let mut responder = Responder::new(mtu).map_err(|_| HostError::NoPort)?;
        responder.add_region(key, region).map_err(|_| HostError::NoPort)?;
        let ports = config.ports.into_iter().map(|(port, _)| port).collect();
        let memory = Memory { address: ADDRESS, bytes: config.bytes as u64, key, mtu, ports };
        let adverse = config.adverse_ns.map(|ns| Adverse::new(random.next_u64(), ns));
        Ok(Host {
            channel: Channel::new(memory, config.secret, random.next_u64()),
            pairs: Answered { responder, peers: BTreeMap::new(), adverse, random, key },
            answers_arp: config.answers_arp,
            malformed: BTreeMap::new(),
            strangers: 0,
        })
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        self.channel.memory()
    }

    /// The counts so far.
    pub fn stats(&self) -> HostStats {
        HostStats {
            messages: self.pairs.responder.stats(),
            malformed: self.malformed.clone(),
            strangers: self.strangers,
            channel: self.channel.stats(&self.pairs),
        }
    }

    /// See [`Channel::connect`].
    pub fn connect(&mut self, connection: u64) -> String {
        self.channel.connect(connection)
    }

    /// See [`Channel::disconnect`].
    pub fn disconnect(&mut self, connection: u64) {
        self.channel.disconnect(connection);
    }

    /// See [`Channel::line`].
    pub fn line(&mut self, connection: u64, line: &str) -> (Reply, bool) {
        self.channel.line(connection, line, &mut self.pairs)
    }

    /// A frame arrived at a port at this time, in nanoseconds. `send` gets the frames that leave, each with its port.
    pub fn receive(&mut self, now: u64, port: u32, frame: &[u8], send: &mut dyn FnMut(u32, Vec<u8>)) {
        let Some(own) = self.channel.memory().ports.iter().find(|p| p.number == port) else { return };
        if self.answers_arp
            && let Some(answer) = arp_answer(own, frame)
        {
            return send(port, answer);
        }
        if frame.get(..6).is_none_or(|to| to != own.mac.0) {
            return;
        }
        let (packet, from, to) = match Packet::decode(frame) {
            Ok(decoded) => decoded,
            Err(malformed) => {
                if let Some(name) = name(malformed) {
                    *self.malformed.entry(name).or_default() += 1;
                }
                return;
            }
        };
        // Unknown queue pairs are counted by the responder.
        if let Some(peer) = self.pairs.peers.get_mut(&packet.pair) {
            if peer.from != from || !own.addresses.contains(&to) {
                self.strangers += 1;
                return;
            }
            let source = frame.get(6..12).and_then(|s| s.first_chunk()).map_or(own.mac, |m| Mac(*m));
            peer.way = Some((port, (source, own.mac), to));
        }
        let Answered { responder, peers, adverse, .. } = &mut self.pairs;
        let mut bytes = 0;
        responder.step(&packet, &mut |answer| match adverse {
            None => leave(peers, packet.pair, answer, send),
            Some(adverse) => {
                let is_read = packet.opcode == Opcode::Read && answer.opcode != Opcode::Ack;
                let place = is_read.then(|| (packet.remote.key, packet.remote.address + bytes));
                bytes += answer.data.len() as u64;
                adverse.delay(now, packet.pair, answer, place);
            }
        });
        self.wake(now, send);
    }

    /// When [`Host::wake`] is due.
    pub fn deadline(&self) -> Option<u64> {
        self.pairs.adverse.as_ref().and_then(Adverse::deadline)
    }

    /// Sends what was delayed until now.
    pub fn wake(&mut self, now: u64, send: &mut dyn FnMut(u32, Vec<u8>)) {
        let Answered { responder, peers, adverse, .. } = &mut self.pairs;
        let (responder, peers) = (&*responder, &*peers);
        if let Some(adverse) = adverse {
            let memory = |key, address, bytes| {
                let region = responder.region(key)?;
                region.memory.get(region.place(address, bytes)?)
            };
            adverse.wake(now, memory, &mut |pair, answer| leave(peers, pair, answer, send));
        }
    }
}

impl Pairs for Answered {
    type Error = SetupError;

    fn count(&self) -> usize {
        self.peers.len()
    }

    fn add(&mut self, peer: u32, psn: u32, from: IpAddr) -> Result<u32, SetupError> {
        loop {
            let pair = 2 + self.random.below(u64::from(crate::PSN) - 2) as u32;
            match self.responder.add_pair(pair, peer, psn, &[self.key]) {
                Ok(()) => {
                    self.peers.insert(pair, Peer { from, way: None });
                    return Ok(pair);
                }
                Err(SetupError::Twice(_)) => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn remove(&mut self, pair: u32) -> bool {
        self.responder.remove_pair(pair);
        if let Some(adverse) = &mut self.adverse {
            adverse.remove(pair);
        }
        self.peers.remove(&pair).is_some()
    }

    fn clear(&mut self) {
        let pairs: Vec<u32> = self.peers.keys().copied().collect();
        for pair in pairs {
            self.remove(pair);
        }
    }
}

/// Sends an answer of a queue pair the way that its latest request came.
fn leave(peers: &BTreeMap<u32, Peer>, pair: u32, answer: &Packet<'_>, send: &mut dyn FnMut(u32, Vec<u8>)) {
    if let Some(Peer { from, way: Some((port, hop, own)) }) = peers.get(&pair) {
        let source = FIRST_PORT | (pair as u16 & !FIRST_PORT);
        send(*port, answer.encode(*hop, (*own, source), *from));
    }
}

/// The answer to an ARP request for an address of the port.
fn arp_answer(port: &Port, frame: &[u8]) -> Option<Vec<u8>> {
    let request = frame.get(..42)?;
    let fixed = [0, 1, 8, 0, 6, 4, 0, 1];
    if request[12..14] != ARP.to_be_bytes() || request[14..22] != fixed {
        return None;
    }
    let address = |at: usize| Some(Ipv4Addr::from(*request.get(at..)?.first_chunk::<4>()?));
    let (asked, asker) = (address(38)?, address(28)?);
    let mac = Mac(*request.get(22..)?.first_chunk()?);
    port.addresses
        .contains(&asked.into())
        .then(|| frame::arp((mac, port.mac), 2, (port.mac, asked), (mac, asker)))
}
