//! Messages under way, as values: with the age of their stamp instead of the stamp.

use super::program::{LEASE_US, SECRET};
use pointsman_store::{Kind, Malformed, Message, Status};
use pointsman_wire::Mac;
use pointsman_wire::checksum;
use pointsman_wire::frame::{Ip, USUAL, packet, udp};
use std::error::Error;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of Ethernet, IPv4 and UDP in front of a client's payload.
const FRONT: usize = 42;
const PORT: u16 = 4791;

/// A stamp of this age, in nanoseconds, gives no lease any more, whatever is done about drift.
pub const OLD_NS: u64 = LEASE_US as u64 * 1000 * 5 / 4;

/// Where messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// To a switch: 0 or 1.
    Switch(u8),
    /// To the store, or to the node of a chain that is the head.
    Store,
    /// To a node of a chain, from another one.
    Node(u8),
}

/// A message under way between a switch and the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Letter {
    /// The receiver.
    pub to: Place,
    /// The switch that is, or was, the sender of the request.
    pub switch: u8,
    /// Nanoseconds since the request was sent, by that switch's clock, at most [`OLD_NS`].
    pub age_ns: u64,
    /// The message, with a stamp of 0.
    bytes: Box<[u8]>,
}

/// The same message with another stamp.
fn stamped(bytes: &[u8], stamp: impl FnOnce(&Message<'_>) -> u64) -> Result<Vec<u8>, Malformed> {
    let mut message = Message::decode(SECRET, bytes)?;
    message.head.stamp = stamp(&message);
    let mut out = Vec::with_capacity(bytes.len());
    message.encode(SECRET, &mut out);
    Ok(out)
}

/// Whether the lease of this message, or of its answer, may depend on its stamp.
fn leases(message: &Message<'_>) -> bool {
    match message.head.kind {
        Kind::Release | Kind::Recall => false,
        _ => !message.head.answer || message.head.lease_us != 0,
    }
}

impl Letter {
    /// A message of a node of a chain to another one.
    pub fn between(to: u8, bytes: &[u8]) -> Letter {
        Letter { to: Place::Node(to), switch: 0, age_ns: 0, bytes: bytes.into() }
    }

    /// The bytes of a message between nodes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A message that leaves now, at time `now` of the switch's clock.
    ///
    /// # Errors
    /// It is not a message, or its digest is wrong.
    pub fn sent(to: Place, switch: u8, now: u64, bytes: &[u8]) -> Result<Letter, Malformed> {
        let mut age_ns = 0;
        let plain = stamped(bytes, |message| {
            if leases(message) {
                age_ns = now.saturating_sub(message.head.stamp).min(OLD_NS);
            }
            0
        })?;
        Ok(Letter { to, switch, age_ns, bytes: plain.into() })
    }

    /// The datagram's payload as it arrives at time `now` of the switch's clock.
    pub fn payload(&self, now: u64) -> Vec<u8> {
        let arrives = stamped(&self.bytes, |_| now - self.age_ns);
        arrives.unwrap_or_default()
    }

    /// The frame that brings it to its switch.
    pub fn frame(&self, now: u64, ipv6: bool) -> Vec<u8> {
        let (own, store) = ends(self.switch, ipv6);
        datagram(store, own, &self.payload(now), USUAL)
    }

    /// The message.
    ///
    /// # Errors
    /// Never: it was read before.
    pub fn message(&self) -> Result<Message<'_>, Malformed> {
        Message::decode(SECRET, &self.bytes)
    }

    /// The same message after this time on its switch's clock.
    pub fn later(&self, ns: u64) -> Letter {
        if matches!(self.to, Place::Node(_)) {
            return self.clone();
        }
        let ages = self.message().is_ok_and(|m| leases(&m));
        let age_ns = if ages { (self.age_ns + ns).min(OLD_NS) } else { 0 };
        Letter { age_ns, ..self.clone() }
    }

    /// For traces.
    pub fn describe(&self) -> String {
        if let Place::Node(_) = self.to {
            return format!("a message of {} bytes between nodes", self.bytes.len());
        }
        let Ok(message) = self.message() else { return "a malformed message".to_string() };
        let head = &message.head;
        let mut text = format!("{:?}", head.kind).to_uppercase();
        if head.answer && head.kind != Kind::Recall {
            text.insert_str(0, "answer to ");
        }
        if head.flags.shared {
            text.push_str(" to read");
        }
        let _ = write!(text, " (grant {}", head.grant);
        if matches!(head.kind, Kind::Write | Kind::Read | Kind::Release) || head.answer {
            let _ = write!(text, ", sequence {}, value {}", head.sequence, number(message.value));
        }
        if head.status != Status::Ok {
            let _ = write!(text, ", {}", format!("{:?}", head.status).to_lowercase());
        }
        if head.answer && head.kind != Kind::Recall {
            let lease = if head.lease_us == 0 { "not extended" } else { "extended" };
            let _ = write!(text, ", lease {lease}");
        }
        if head.flags.packet {
            let what = if head.flags.input { "input" } else { "output" };
            let op = message.packet.get(FRONT).copied().unwrap_or_default();
            let _ = write!(text, ", with packet {op} as {what}");
        }
        let _ = write!(text, ", incarnation {}", head.incarnation);
        text.push(')');
        text
    }
}

/// A value of one word.
pub fn number(value: &[u8]) -> u32 {
    value.iter().fold(0, |n, byte| n << 8 | u32::from(*byte))
}

/// Makes the stamp of a request that waits in the store older, by this time on its switch's clock.
pub fn older(bytes: &[u8], now: u64, ns: u64) -> Vec<u8> {
    let oldest = now - OLD_NS;
    let moved = stamped(bytes, |message| message.head.stamp.saturating_sub(ns).max(oldest));
    moved.unwrap_or_default()
}

/// The addresses of a switch and of the store for messages.
pub fn ends(switch: u8, ipv6: bool) -> (IpAddr, IpAddr) {
    let v6 = |subnet, host| IpAddr::from(Ipv6Addr::new(0xfd09, subnet, 0, 0, 0, 0, 0, host));
    let v4 = |subnet, host| IpAddr::from(Ipv4Addr::new(10, 9, subnet, host));
    match ipv6 {
        true => (v6(0, u16::from(switch) + 1), v6(1, 1)),
        false => (v4(0, switch + 1), v4(1, 1)),
    }
}

/// A message in its headers.
fn datagram(from: IpAddr, to: IpAddr, payload: &[u8], ip: Ip) -> Vec<u8> {
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    packet((mac, mac), from, to, 17, udp(PORT, PORT, payload), ip)
}

/// What is wrong with a frame of a switch for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// It has so few bytes.
    Short(usize),
    /// It has other headers.
    Headers {
        /// These.
        sent: Vec<u8>,
        /// The right ones.
        expected: Vec<u8>,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Short(bytes) => write!(f, "a frame of {bytes} bytes for the store"),
            FrameError::Headers { sent, expected } => {
                write!(f, "it sends the headers {sent:02x?} and not {expected:02x?}")
            }
        }
    }
}

impl Error for FrameError {}

/// The payload of a frame of a switch for the store, if its headers are right.
///
/// # Errors
/// What is wrong with them.
pub fn payload_of(frame: &[u8], switch: u8, ipv6: bool) -> Result<&[u8], FrameError> {
    let bytes = if ipv6 { 62 } else { FRONT };
    let Some((front, payload)) = frame.split_at_checked(bytes) else {
        return Err(FrameError::Short(frame.len()));
    };
    let (own, store) = ends(switch, ipv6);
    // Over IPv4 with any number, in one piece.
    let word = |at: usize| u16::from_be_bytes([front[at], front[at + 1]]);
    let ip = Ip { fragment: (word(18), word(20) & 0x4000), ..USUAL };
    let mut expected = datagram(own, store, payload, ip);
    expected.truncate(bytes);
    // Stations do not matter. UDP over IPv4 needs no checksum.
    expected[..12].copy_from_slice(&front[..12]);
    if !ipv6 && front[bytes - 2..] == [0, 0] {
        expected[bytes - 2..].fill(0);
    }
    if front == expected { Ok(payload) } else { Err(FrameError::Headers { sent: front.to_vec(), expected }) }
}

/// The key of the packets of [`client`].
pub const FLOW: [u8; 16] = [10, 0, 0, 1, 10, 1, 0, 1, 0, 9, 0, 7, 0, 0, 0, 17];

/// A client's packet: its number, and whether it changes the count. Others show it only.
pub fn client(number: u8, writes: bool) -> Vec<u8> {
    let mac = Mac([2, 0, 0, 0, 0, 9]);
    let address = |a: [u8; 4]| IpAddr::V4(Ipv4Addr::from(a));
    let payload = [number; 8];
    let mut frame =
        packet((mac, mac), address([10, 0, 0, 1]), address([10, 1, 0, 1]), 17, udp(9, 7, &payload), USUAL);
    // A type of service: not counted.
    frame[15] = u8::from(!writes);
    frame[24..26].fill(0);
    let sum = !checksum::folded(checksum::sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The number of a client's packet that leaves, and the count that it shows.
pub fn shown(frame: &[u8]) -> Option<(u8, u16)> {
    let number = *frame.get(FRONT)?;
    Some((number, u16::from_be_bytes([frame[18], frame[19]])))
}
