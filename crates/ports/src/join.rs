//! Handing the segments of a stream to the kernel as one super-frame, which it forwards as a whole, has the hardware cut,
//! or cuts itself. For the kernel a super-frame is as much work as a single segment.

use crate::Frame;
use crate::offload::{GSO_TCPV4, GSO_TCPV6, NEEDS_CHECKSUM, Packet, TCP, VNET_HEADER_BYTES, be16, put16};
use pointsman_wire::checksum::{folded, sum};

/// Shorter segments are not worth the trouble, and reading their headers would be a burden if all are short.
const LEAST_BYTES: usize = 512;

/// Segments in a super-frame at most. Each takes a place in the description of a message, which has 1024.
const MOST_SEGMENTS: usize = 1000;

const ETHERNET_BYTES: usize = 14;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
const FIN: u8 = 0x01;

/// Ethernet, IPv4 or IPv6 without options, TCP with all that it can have.
const HEADER_ROOM: usize = ETHERNET_BYTES + 40 + 60;

/// How to send the first frames of a batch as one.
pub(crate) struct Joined {
    /// How many frames.
    pub count: usize,
    /// Where their payload begins.
    pub payload: usize,
    /// The common header of all payloads.
    pub header: [u8; HEADER_ROOM],
    pub vnet: [u8; VNET_HEADER_BYTES],
}

/// The properties of a segment that is sound in every respect, as if cut from a super-frame.
struct Segment {
    packet: Packet,
    payload: usize,
    sequence: u32,
    identification: u16,
    flags: u8,
}

impl Segment {
    fn parse(frame: &[u8]) -> Option<Self> {
        let packet = Packet::locate(frame)?;
        let Packet { version, l3, l4, end, .. } = packet;
        let plain = l4 == l3 + if version == 4 { 20 } else { 40 };
        if packet.protocol != TCP || l3 != ETHERNET_BYTES || end != frame.len() || !plain {
            return None;
        }
        let payload = l4 + usize::from(frame.get(l4 + 12)? >> 4) * 4;
        let sequence = frame.get(l4 + 4..l4 + 8)?;
        let sequence = u32::from_be_bytes([sequence[0], sequence[1], sequence[2], sequence[3]]);
        if payload < l4 + 20 || payload >= end {
            return None;
        }
        let wrong = folded(packet.pseudo_header(frame, end - l4) + sum(&frame[l4..end])) != 0xffff
            || (version == 4 && folded(sum(&frame[l3..l4])) != 0xffff);
        if wrong {
            return None;
        }
        let identification = if version == 4 { be16(frame, l3 + 4)? } else { 0 };
        Some(Self { packet, payload, sequence, identification, flags: frame[l4 + 13] })
    }
}

/// Whether an interface sends a frame whose frames without a VLAN tag may have `longest` bytes.
pub(crate) fn fits(frame: &[u8], longest: usize) -> bool {
    let tagged = matches!(frame.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
    frame.len() <= longest + if tagged { 4 } else { 0 }
}

/// Finds out how many frames from the front, at least two, are segments that cutting one super-frame would give again,
/// bit by bit, and makes the header of that super-frame. A segment longer than `longest` is not among them: the kernel does not
/// check the length of the segments in a super-frame.
pub(crate) fn join(frames: &[Frame], longest: usize) -> Option<Joined> {
    let (first, second) = (frames.first()?, frames.get(1)?);
    if first.len() < LEAST_BYTES || second.len() > first.len() || !fits(first, longest) {
        return None;
    }
    let segment = Segment::parse(first)?;
    let Segment { payload, .. } = segment;
    let Packet { version, l3, l4, .. } = segment.packet;
    if segment.flags != ACK {
        return None;
    }
    let size = first.len() - payload;
    // The length fields of IPv4 and IPv6 count from here.
    let length_from = if version == 4 { l3 } else { l4 };
    let (mut count, mut total, mut flags) = (1, first.len(), ACK);
    for (index, next) in frames.iter().enumerate().take(MOST_SEGMENTS).skip(1) {
        let fits =
            next.len() <= first.len() && total + next.len() - payload.min(next.len()) - length_from <= 65535;
        if !fits || !same_headers(first, next, &segment) {
            break;
        }
        let Some(other) = Segment::parse(next) else {
            break;
        };
        let follows = other.payload == payload
            && other.sequence == segment.sequence.wrapping_add((index * size) as u32)
            && (version == 6 || other.identification == segment.identification.wrapping_add(index as u16))
            && other.flags & !(PSH | FIN) == ACK;
        if !follows {
            break;
        }
        count += 1;
        total += next.len() - payload;
        flags = other.flags;
        if next.len() < first.len() || flags != ACK {
            break;
        }
    }
    if count < 2 {
        return None;
    }
    let mut header = [0; HEADER_ROOM];
    header[..payload].copy_from_slice(&first[..payload]);
    let length = (total - length_from) as u16;
    if version == 4 {
        put16(&mut header, l3 + 2, length);
        put16(&mut header, l3 + 10, 0);
        let checksum = !folded(sum(&header[l3..l4]));
        put16(&mut header, l3 + 10, checksum);
    } else {
        put16(&mut header, l3 + 4, length);
    }
    header[l4 + 13] = flags;
    // Whoever finishes the checksum expects the sum of the pseudo-header in its field.
    let pseudo = folded(segment.packet.pseudo_header(&header, total - l4));
    put16(&mut header, l4 + 16, pseudo);

    let mut vnet = [0; VNET_HEADER_BYTES];
    vnet[0] = NEEDS_CHECKSUM;
    vnet[1] = if version == 4 { GSO_TCPV4 } else { GSO_TCPV6 };
    for (at, value) in [(2, payload), (4, size), (6, l4), (8, 16)] {
        vnet[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
    }
    Some(Joined { count, payload, header, vnet })
}

/// Whether what all segments of a super-frame have in common is the same in two frames.
fn same_headers(first: &[u8], next: &[u8], segment: &Segment) -> bool {
    let Segment { payload, .. } = *segment;
    let Packet { version, l3, l4, .. } = segment.packet;
    if next.len() <= payload {
        return false;
    }
    let same = |from: usize, to: usize| first[from..to] == next[from..to];
    // Except: length, identification and checksum of IPv4; length of IPv6; sequence number, flags and checksum of TCP.
    let ip = match version {
        4 => same(l3 + 6, l3 + 10) && same(l3 + 12, l4),
        _ => same(l3 + 6, l4),
    };
    let start = if version == 4 { l3 + 2 } else { l3 + 4 };
    ip && same(0, start)
        && same(l4, l4 + 4)
        && same(l4 + 8, l4 + 13)
        && same(l4 + 14, l4 + 16)
        && same(l4 + 18, payload)
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
