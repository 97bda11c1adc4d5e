//! Packets of a reliable connection, as bytes.

use crate::{PSN, check};
use pointsman_wire::checksum;
use pointsman_wire::frame::{self, Hop};
use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The UDP port of RoCEv2.
pub const PORT: u16 = 4791;
/// The default partition.
const PARTITION: u16 = 0xffff;
/// Bytes of the base header.
const BASE: usize = 12;

/// What a packet is: operations of reliable connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// The first packet of a longer WRITE.
    WriteFirst = 6,
    /// One of its packets.
    WriteMiddle = 7,
    /// Its last packet.
    WriteLast = 8,
    /// A WRITE of one packet.
    WriteOnly = 10,
    /// A READ.
    Read = 12,
    /// The first packet of a longer answer to a READ.
    ReadFirst = 13,
    /// One of its packets.
    ReadMiddle = 14,
    /// Its last packet.
    ReadLast = 15,
    /// An answer to a READ of one packet.
    ReadOnly = 16,
    /// An acknowledgment, positive or negative.
    Ack = 17,
    /// The answer to an atomic operation.
    AtomicAck = 18,
    /// Compare and swap.
    CompareSwap = 19,
    /// Fetch and add.
    FetchAdd = 20,
}

const OPCODES: [Opcode; 13] = [
    Opcode::WriteFirst,
    Opcode::WriteMiddle,
    Opcode::WriteLast,
    Opcode::WriteOnly,
    Opcode::Read,
    Opcode::ReadFirst,
    Opcode::ReadMiddle,
    Opcode::ReadLast,
    Opcode::ReadOnly,
    Opcode::Ack,
    Opcode::AtomicAck,
    Opcode::CompareSwap,
    Opcode::FetchAdd,
];

impl Opcode {
    /// Of an operation's kinds of packets (only, first, middle, last), that of packet `n` of `count`.
    pub(crate) fn part([only, first, middle, last]: [Opcode; 4], n: u32, count: u32) -> Opcode {
        match (n == 0, n + 1 == count) {
            (true, true) => only,
            (true, false) => first,
            (false, false) => middle,
            (false, true) => last,
        }
    }

    fn has_remote(self) -> bool {
        matches!(self, Opcode::WriteFirst | Opcode::WriteOnly | Opcode::Read)
    }

    fn has_atomic(self) -> bool {
        matches!(self, Opcode::CompareSwap | Opcode::FetchAdd)
    }

    fn has_syndrome(self) -> bool {
        matches!(
            self,
            Opcode::ReadFirst | Opcode::ReadLast | Opcode::ReadOnly | Opcode::Ack | Opcode::AtomicAck
        )
    }
}

/// Where a READ or WRITE goes (RETH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Address in the responder's memory.
    pub address: u64,
    /// Key of the region.
    pub key: u32,
    /// Bytes of the whole message.
    pub bytes: u32,
}

/// What an atomic operation does (AtomicETH). Numbers are as in the responder's memory, least significant byte first there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Atomic {
    /// Address in the responder's memory, a multiple of eight.
    pub address: u64,
    /// Key of the region.
    pub key: u32,
    /// The number to add, or to write.
    pub number: u64,
    /// The number that must be there for a swap.
    pub compare: u64,
}

/// What an acknowledgment says (AETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Syndrome {
    /// Done; no end-to-end credits.
    Done = 0x1f,
    /// A packet is missing: the number of the acknowledgment is the one that is expected.
    Sequence = 0x60,
    /// A request that is not allowed here. The connection is dead.
    Invalid = 0x61,
    /// Outside of the region, or without the right. The connection is dead.
    Access = 0x62,
}

impl Syndrome {
    fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            // With any number of credits.
            0x00..=0x1f => Some(Syndrome::Done),
            0x60 => Some(Syndrome::Sequence),
            0x61 => Some(Syndrome::Invalid),
            0x62 => Some(Syndrome::Access),
            _ => None,
        }
    }
}

/// A packet. Which of its parts count follows from the opcode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What it is.
    pub opcode: Opcode,
    /// The queue pair that it is for, 24 bits.
    pub pair: u32,
    /// Whether it asks for an acknowledgment.
    pub ack: bool,
    /// Its number, 24 bits.
    pub psn: u32,
    /// Of READ, and of a WRITE's first packet.
    pub remote: Remote,
    /// Of atomic operations.
    pub atomic: Atomic,
    /// Of answers: what they say, and how many messages are done, 24 bits.
    pub syndrome: (Syndrome, u32),
    /// Of answers to atomic operations: the number that was there.
    pub original: u64,
    /// Bytes that are written or were read.
    pub data: &'a [u8],
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// No IP packet without options and fragments that carries UDP to [`PORT`].
    NotRoce,
    /// Shorter than its headers say.
    Short,
    /// An operation that is not spoken here: this number.
    Opcode(u8),
    /// Another version of the transport header, or another partition.
    Header,
    /// An acknowledgment that says something unknown: this number.
    Syndrome(u8),
    /// The check value is wrong.
    Check,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::NotRoce => write!(f, "not a UDP datagram to port {PORT}"),
            Malformed::Short => f.write_str("shorter than its headers say"),
            Malformed::Opcode(n) => write!(f, "unsupported operation {n}"),
            Malformed::Header => f.write_str("unknown version of the transport header, or another partition"),
            Malformed::Syndrome(n) => write!(f, "unknown acknowledgment {n:#04x}"),
            Malformed::Check => f.write_str("wrong check value (iCRC)"),
        }
    }
}

impl Error for Malformed {}

/// Takes the first bytes off.
fn take<const N: usize>(data: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (first, rest) = data.split_first_chunk().ok_or(Malformed::Short)?;
    *data = rest;
    Ok(*first)
}

/// The IP header of a frame, and its UDP datagram to [`PORT`] as long as it says.
fn datagram(frame: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let packet = frame.get(14..).ok_or(Malformed::Short)?;
    let head = match frame[12..14] {
        [0x08, 0x00] => 20,
        [0x86, 0xdd] => 40,
        _ => return Err(Malformed::NotRoce),
    };
    let (ip, rest) = packet.split_at_checked(head).ok_or(Malformed::Short)?;
    let is_udp = if head == 20 {
        ip[0] == 0x45 && ip[9] == frame::UDP && u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0
    } else {
        ip[0] >> 4 == 6 && ip[6] == frame::UDP
    };
    let udp: &[u8; 8] = rest.first_chunk().ok_or(Malformed::Short)?;
    if !is_udp || u16::from_be_bytes([udp[2], udp[3]]) != PORT {
        return Err(Malformed::NotRoce);
    }
    let whole = rest.get(..u16::from_be_bytes([udp[4], udp[5]]).into()).ok_or(Malformed::Short)?;
    if whole.len() < 8 + BASE + check::BYTES {
        return Err(Malformed::Short);
    }
    Ok((ip, whole))
}

impl<'a> Packet<'a> {
    /// A packet of this kind for a queue pair, with all other parts zero.
    pub fn new(opcode: Opcode, pair: u32, psn: u32) -> Self {
        let (remote, atomic, syndrome) = (Remote::default(), Atomic::default(), (Syndrome::Done, 0));
        Packet { opcode, pair, ack: false, psn: psn & PSN, remote, atomic, syndrome, original: 0, data: &[] }
    }

    /// The packet of an Ethernet frame, and the addresses of its sender and receiver.
    ///
    /// # Errors
    /// The frame is not a packet, or was changed on its way.
    pub fn decode(frame: &'a [u8]) -> Result<(Self, IpAddr, IpAddr), Malformed> {
        let (ip, udp) = datagram(frame)?;
        let (covered, sum) = udp.split_at(udp.len() - check::BYTES);
        if check::check_value(ip, covered) != sum {
            return Err(Malformed::Check);
        }
        let mut rest = &covered[8..];
        let base: [u8; BASE] = take(&mut rest)?;
        let opcode = OPCODES.into_iter().find(|o| *o as u8 == base[0]).ok_or(Malformed::Opcode(base[0]))?;
        if base[1] & 0x0f != 0 || u16::from_be_bytes([base[2], base[3]]) & 0x7fff != PARTITION & 0x7fff {
            return Err(Malformed::Header);
        }
        let word = |at: usize| u32::from_be_bytes([base[at], base[at + 1], base[at + 2], base[at + 3]]);
        let mut packet = Packet::new(opcode, word(4) & PSN, word(8));
        packet.ack = base[8] & 0x80 != 0;
        if opcode.has_remote() {
            let (address, key, bytes) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
            let (address, key) = (u64::from_be_bytes(address), u32::from_be_bytes(key));
            packet.remote = Remote { address, key, bytes: u32::from_be_bytes(bytes) };
        }
        if opcode.has_atomic() {
            let (address, key) = (u64::from_be_bytes(take(&mut rest)?), u32::from_be_bytes(take(&mut rest)?));
            let (number, compare) =
                (u64::from_be_bytes(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?));
            packet.atomic = Atomic { address, key, number, compare };
        }
        if opcode.has_syndrome() {
            let word = u32::from_be_bytes(take(&mut rest)?);
            let bits = (word >> 24) as u8;
            packet.syndrome = (Syndrome::from_bits(bits).ok_or(Malformed::Syndrome(bits))?, word & PSN);
        }
        if opcode == Opcode::AtomicAck {
            packet.original = u64::from_be_bytes(take(&mut rest)?);
        }
        let padding = usize::from(base[1] >> 4 & 3);
        packet.data = rest.get(..rest.len().wrapping_sub(padding)).ok_or(Malformed::Short)?;
        let (from, to) = if ip.len() == 20 {
            let at = |n: usize| IpAddr::V4(Ipv4Addr::new(ip[n], ip[n + 1], ip[n + 2], ip[n + 3]));
            (at(12), at(16))
        } else {
            let at = |n: usize| IpAddr::V6(Ipv6Addr::from(*ip[n..].first_chunk().unwrap_or(&[0; 16])));
            (at(8), at(24))
        };
        Ok((packet, from, to))
    }

    /// Bytes of its headers from the base header on.
    fn header_bytes(&self) -> usize {
        let parts = [
            (self.opcode.has_remote(), 16),
            (self.opcode.has_atomic(), 28),
            (self.opcode.has_syndrome(), 4),
            (self.opcode == Opcode::AtomicAck, 8),
        ];
        BASE + parts.iter().filter(|(has, _)| *has).map(|(_, bytes)| bytes).sum::<usize>()
    }

    /// The packet as an Ethernet frame with all checksums. Empty if the addresses are not of one family.
    pub fn encode(&self, hop: Hop, from: (IpAddr, u16), to: IpAddr) -> Vec<u8> {
        let padding = self.data.len().wrapping_neg() % 4;
        let udp = 8 + self.header_bytes() + self.data.len() + padding + check::BYTES;
        let mut frame = Vec::with_capacity(14 + 40 + udp);
        frame.extend(hop.0.0);
        frame.extend(hop.1.0);
        if !ip_header(from.0, to, udp, &mut frame) {
            return Vec::new();
        }
        let start = frame.len();
        frame.extend(from.1.to_be_bytes());
        frame.extend(PORT.to_be_bytes());
        frame.extend((udp as u16).to_be_bytes());
        frame.extend([0, 0]);
        self.transport(padding, &mut frame);
        let sum = check::check_value(&frame[14..start], &frame[start..]);
        frame.extend(sum);
        // The UDP checksum covers the check value, which does not depend on it.
        let sum = frame::transport_sum(from.0, to, frame::UDP, &frame[start..]);
        frame[start + 6..start + 8].copy_from_slice(&checksum::of_udp(sum).to_be_bytes());
        frame
    }

    /// InfiniBand's headers, the data and its padding.
    fn transport(&self, padding: usize, out: &mut Vec<u8>) {
        out.extend([self.opcode as u8, (padding as u8) << 4]);
        out.extend(PARTITION.to_be_bytes());
        out.extend((self.pair & PSN).to_be_bytes());
        out.extend((self.psn & PSN | u32::from(self.ack) << 31).to_be_bytes());
        if self.opcode.has_remote() {
            out.extend(self.remote.address.to_be_bytes());
            out.extend(self.remote.key.to_be_bytes());
            out.extend(self.remote.bytes.to_be_bytes());
        }
        if self.opcode.has_atomic() {
            out.extend(self.atomic.address.to_be_bytes());
            out.extend(self.atomic.key.to_be_bytes());
            out.extend(self.atomic.number.to_be_bytes());
            out.extend(self.atomic.compare.to_be_bytes());
        }
        if self.opcode.has_syndrome() {
            let (syndrome, messages) = self.syndrome;
            out.extend((u32::from(syndrome as u8) << 24 | messages & PSN).to_be_bytes());
        }
        if self.opcode == Opcode::AtomicAck {
            out.extend(self.original.to_be_bytes());
        }
        out.extend_from_slice(self.data);
        out.extend(&[0; 3][..padding]);
    }
}

/// Appends EtherType and IP header of a packet with so many bytes of UDP, if the addresses are of one family.
fn ip_header(from: IpAddr, to: IpAddr, udp: usize, out: &mut Vec<u8>) -> bool {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend(frame::IPV4.to_be_bytes());
            let start = out.len();
            out.extend([0x45, 0]);
            out.extend((20 + udp as u16).to_be_bytes());
            // Not to be fragmented; 64 hops.
            out.extend([0, 0, 0x40, 0, 64, frame::UDP, 0, 0]);
            out.extend(from.octets());
            out.extend(to.octets());
            let sum = !checksum::folded(checksum::sum(&out[start..]));
            out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
            true
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            out.extend(frame::IPV6.to_be_bytes());
            out.extend([0x60, 0, 0, 0]);
            out.extend((udp as u16).to_be_bytes());
            out.extend([frame::UDP, 64]);
            out.extend(from.octets());
            out.extend(to.octets());
            true
        }
        _ => false,
    }
}
