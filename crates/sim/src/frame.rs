//! The frames that hosts send and read: requests, answers, load reports (UDP over IPv4 or IPv6), TCP
//! segments and ARP.
//!
//! Requests and answers carry their numbers in their payload. Checkers use these, so the switch's changes to addresses
//! and ports do not matter to them.

use pointsman_balance::types::Address;
pub use pointsman_net::Packet;
use pointsman_transport::header::{self, HeaderError, Parsed, Route};
use pointsman_transport::{Ecn, Segment};
use pointsman_wire::Mac;
use pointsman_wire::checksum::{folded, of_udp, sum};
use pointsman_wire::frame::{self as wire, RST, TCP, UDP};
use std::net::Ipv4Addr;

/// Where UDP begins: behind Ethernet and IPv4 without options, or IPv6 without extension headers.
const UDP4: usize = 14 + 20;
const UDP6: usize = 14 + 40;
/// Bytes of the headers of a datagram over IPv4.
pub(crate) const UDP4_END: usize = UDP4 + 8;
const UDP6_END: usize = UDP6 + 8;
/// Payload that requests and answers need: kind, connection, request.
pub const MIN_PAYLOAD: usize = 16;
/// Payload of one datagram that fits Ethernet, IPv6 too.
pub const MAX_PAYLOAD: usize = 1500 - 48;

/// The kind of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From a client.
    Request,
    /// From a device.
    Answer,
}

/// Addresses of one UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Source and destination MAC.
    pub macs: (Mac, Mac),
    /// Source and destination address, of one family.
    pub ips: (Address, Address),
    /// Source and destination port.
    pub ports: (u16, u16),
}

impl Addresses {
    /// Those of the opposite direction.
    #[inline(always)]
    pub fn back(&self) -> Self {
        let Addresses { macs, ips, ports } = self;
        Addresses { macs: (macs.1, macs.0), ips: (ips.1, ips.0), ports: (ports.1, ports.0) }
    }
}

/// Marks of a request or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Which.
    pub kind: Kind,
    /// Connection that it belongs to.
    pub connection: u32,
    /// The request.
    pub request: u32,
    /// Of an answer: the kind of device that gave it. Unused here.
    pub tag: u8,
}

/// A frame as a host reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Addresses.
    pub addresses: Addresses,
    /// Marks.
    pub marks: Marks,
    /// Whether a queue on the way marked congestion.
    pub congested: bool,
    /// Whether its sender understands such marks.
    pub understands: bool,
    /// Whether both checksums are right.
    pub intact: bool,
}

const MAGIC: u16 = 0x504d;

/// Writes a narrow probe's frame: IP protocol 42, the device's number, free processor, memory and link in tenths.
pub fn probe(out: &mut Vec<u8>, macs: (Mac, Mac), ips: (Ipv4Addr, Ipv4Addr), id: u8, free: [u8; 3]) {
    let [cpu, memory, link] = free.map(|f| f.min(10));
    let body = vec![(id & 15) << 4 | cpu, memory << 4 | link];
    *out = wire::packet((macs.1, macs.0), ips.0.into(), ips.1.into(), 42, body, wire::USUAL);
}

/// The sum of both addresses. Sums are taken of the numbers and not of the bytes: reading bytes just after writing them in other
/// pieces is slow.
#[inline(always)]
fn ip_sum(a: &Addresses) -> u64 {
    let half = |n: u128| (n & 0xffff_ffff) as u64;
    let words = |a: Address| half(a.bits) + half(a.bits >> 32) + half(a.bits >> 64) + half(a.bits >> 96);
    words(a.ips.0) + words(a.ips.1)
}

/// Writes the headers of Ethernet and IP over the beginning of a frame that has room for them. `len` is the length of what
/// follows, with `protocol`.
#[inline(always)]
fn ip_headers(out: &mut [u8], a: &Addresses, ecn: u8, protocol: u8, len: u16) {
    match (a.ips.0.v6, out.len()) {
        (false, UDP4..) => {
            let numbers = u64::from(0x4500 | u16::from(ecn)) + u64::from(len + 20) + 0x4000;
            let header = numbers + u64::from(64 << 8 | u16::from(protocol)) + ip_sum(a);
            out[12..14].copy_from_slice(&[8, 0]);
            out[14..16].copy_from_slice(&[0x45, ecn]);
            out[16..18].copy_from_slice(&(len + 20).to_be_bytes());
            out[18..24].copy_from_slice(&[0, 0, 0x40, 0, 64, protocol]);
            out[24..26].copy_from_slice(&(!folded(header)).to_be_bytes());
            out[26..30].copy_from_slice(&(a.ips.0.bits as u32).to_be_bytes());
            out[30..34].copy_from_slice(&(a.ips.1.bits as u32).to_be_bytes());
        }
        (true, UDP6..) => {
            out[12..18].copy_from_slice(&[0x86, 0xdd, 0x60, ecn << 4, 0, 0]);
            out[18..20].copy_from_slice(&len.to_be_bytes());
            out[20..22].copy_from_slice(&[protocol, 64]);
            out[22..38].copy_from_slice(&a.ips.0.bits.to_be_bytes());
            out[38..54].copy_from_slice(&a.ips.1.bits.to_be_bytes());
        }
        _ => return,
    }
    out[..6].copy_from_slice(&a.macs.1.0);
    out[6..12].copy_from_slice(&a.macs.0.0);
}

/// Writes the headers of a UDP datagram over the beginning of a frame, up to its payload, given by its length and its
/// sum for the checksum.
fn headers(out: &mut [u8], a: &Addresses, congestion: bool, (payload_bytes, payload): (usize, u64)) {
    let (ecn, len) = (if congestion { 2 } else { 0 }, (8 + payload_bytes) as u16);
    let ports = u64::from(a.ports.0) + u64::from(a.ports.1);
    // The pseudo header, the header and its payload.
    let check = of_udp(ip_sum(a) + 17 + u64::from(len) + ports + u64::from(len) + payload);
    ip_headers(out, a, ecn, UDP, len);
    let fields = [a.ports.0, a.ports.1, len, check];
    let at = payload_at(a) - 8;
    let Some(udp) = out.get_mut(at..at + 8) else { return };
    for (to, field) in udp.as_chunks_mut::<2>().0.iter_mut().zip(fields) {
        *to = field.to_be_bytes();
    }
}

/// Writes the frame of a TCP segment with its data, replacing `out`.
///
/// # Errors
/// As of [`header::encode`].
pub fn tcp(out: &mut Vec<u8>, a: &Addresses, segment: &Segment, data: &[u8]) -> Result<(), HeaderError> {
    let at = payload_at(a) - 8;
    out.clear();
    out.resize(at, 0);
    let route = Route { addresses: (a.ips.0.into(), a.ips.1.into()), ports: a.ports };
    header::encode(segment, &route, data, out)?;
    let len = out.len() - at;
    ip_headers(&mut out[..at], a, segment.ecn as u8, TCP, len as u16);
    Ok(())
}

/// Where the payload begins.
fn payload_at(a: &Addresses) -> usize {
    if a.ips.0.v6 { UDP6_END } else { UDP4_END }
}

/// Writes a UDP datagram's frame, replacing `out`. `congestion` says whether it understands ECN.
pub fn udp(out: &mut Vec<u8>, a: &Addresses, congestion: bool, payload: &[u8]) {
    out.clear();
    out.resize(payload_at(a), 0);
    headers(out, a, congestion, (payload.len(), sum(payload)));
    out.extend_from_slice(payload);
}

/// Writes the frame of a request or answer with `len` bytes of payload.
pub fn marked(out: &mut Vec<u8>, a: &Addresses, congestion: bool, marks: Marks, len: usize) {
    let (at, len) = (payload_at(a), len.clamp(MIN_PAYLOAD, MAX_PAYLOAD));
    out.clear();
    out.resize(at + len, 0);
    let begin = u64::from(MAGIC) << 16 | (marks.kind as u64) << 8 | u64::from(marks.tag);
    let sum = begin + u64::from(marks.connection) + u64::from(marks.request);
    headers(out, a, congestion, (len, sum));
    out[at..at + MIN_PAYLOAD].copy_from_slice(&marking(marks, 0));
}

/// Makes a request's frame the frame of its answer, with `len` bytes of payload: back to where it came from. `None`, and the frame
/// is unchanged: it is not a request.
pub fn answer(out: &mut Vec<u8>, marks: Marks, len: usize) -> Option<()> {
    let (a, _) = addresses(out)?;
    // Marks of congestion are not sent back, but that they are understood.
    let congestion = out[15] & if a.ips.0.v6 { 0x30 } else { 3 } != 0;
    marked(out, &a.back(), congestion, marks, len);
    Some(())
}

/// The beginning of a payload.
fn marking(marks: Marks, len: u32) -> [u8; MIN_PAYLOAD] {
    let mut head = [0; MIN_PAYLOAD];
    head[..2].copy_from_slice(&MAGIC.to_be_bytes());
    head[2..4].copy_from_slice(&[marks.kind as u8, marks.tag]);
    head[4..8].copy_from_slice(&marks.connection.to_be_bytes());
    head[8..12].copy_from_slice(&marks.request.to_be_bytes());
    head[12..].copy_from_slice(&len.to_be_bytes());
    head
}

/// The same request or answer in a stream of bytes, over TCP: `len` bytes, including that number.
pub fn message(out: &mut Vec<u8>, marks: Marks, len: usize) {
    let len = len.clamp(MIN_PAYLOAD, MAX_PAYLOAD);
    let end = out.len() + len;
    out.extend_from_slice(&marking(marks, len as u32));
    out.resize(end, 0);
}

/// Takes the first message out of a stream of bytes; `None`: it is incomplete. Invalid bytes are also removed.
pub fn take_message(bytes: &mut Vec<u8>) -> Option<Marks> {
    let head: [u8; MIN_PAYLOAD] = bytes.first_chunk().copied()?;
    let whole = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let len = whole(12) as usize;
    let kind = match head[2] {
        0 => Kind::Request,
        _ => Kind::Answer,
    };
    if head[..2] != MAGIC.to_be_bytes() || !(MIN_PAYLOAD..=MAX_PAYLOAD).contains(&len) {
        bytes.clear();
        return None;
    }
    if bytes.len() < len {
        return None;
    }
    bytes.drain(..len);
    Some(Marks { kind, connection: whole(4), request: whole(8), tag: head[3] })
}

/// Reads a TCP segment, its addresses source first; `None` for any other frame, and if a checksum is wrong.
pub fn segment(b: &[u8]) -> Option<(Addresses, Parsed<'_>)> {
    let start = payload_of(b, TCP)?;
    let (ips, ip) = (ips(b, start)?, ip_header(b, start)?);
    let bytes = b.get(start..start + ip.len).filter(|_| ip.intact)?;
    let parsed = header::parse(bytes, (ips.0.into(), ips.1.into()), Ecn::from_bits(ip.ecn)).ok()?;
    Some((Addresses { macs: (mac(b, 6)?, mac(b, 0)?), ips, ports: parsed.ports }, parsed))
}

/// Whether a TCP segment resets its connection.
pub fn is_reset(b: &[u8]) -> bool {
    payload_of(b, TCP).and_then(|at| b.get(at + 13)).is_some_and(|flags| flags & RST != 0)
}

fn word(b: &[u8], at: usize) -> Option<[u8; 4]> {
    b.get(at..at + 4)?.first_chunk().copied()
}

fn mac(b: &[u8], at: usize) -> Option<Mac> {
    b.get(at..at + 6)?.first_chunk().copied().map(Mac)
}

/// Where the payload of an IP packet with this protocol begins; `None` in other frames.
#[inline(always)]
fn payload_of(b: &[u8], protocol: u8) -> Option<usize> {
    match b.get(12..24)? {
        [8, 0, 0x45, .., p] if *p == protocol => Some(UDP4),
        [0x86, 0xdd, v, _, _, _, _, _, p, ..] if v >> 4 == 6 && *p == protocol => Some(UDP6),
        _ => None,
    }
}

/// What an IP header says besides its addresses.
struct IpHeader {
    /// Bytes of the payload.
    len: usize,
    /// The ECN field, in the lower two bits.
    ecn: u8,
    /// Whether its checksum is right.
    intact: bool,
}

/// Reads the header of a packet whose payload begins at `start`.
#[inline(always)]
fn ip_header(b: &[u8], start: usize) -> Option<IpHeader> {
    let header = b.get(14..start)?;
    let half = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    Some(match start {
        UDP4 => {
            IpHeader { len: half(2).checked_sub(20)?, ecn: header[1], intact: folded(sum(header)) == 0xffff }
        }
        _ => IpHeader { len: half(4), ecn: header[1] >> 4, intact: true },
    })
}

/// Its addresses.
#[inline(always)]
fn ips(b: &[u8], start: usize) -> Option<(Address, Address)> {
    Some(if start == UDP4 { (four(b, 26)?, four(b, 30)?) } else { (six(b, 22)?, six(b, 38)?) })
}

/// Whether a frame that a host or switch made is a request or answer.
#[inline]
pub fn is_marked(b: &[u8]) -> bool {
    payload_of(b, UDP).is_some_and(|udp| b.get(udp + 8..udp + 10) == Some(&MAGIC.to_be_bytes()))
}

fn four(b: &[u8], at: usize) -> Option<Address> {
    word(b, at).map(|o| Address { v6: false, bits: u32::from_be_bytes(o).into() })
}

fn six(b: &[u8], at: usize) -> Option<Address> {
    let bits = b.get(at..)?.first_chunk::<16>()?;
    Some(Address { v6: true, bits: u128::from_be_bytes(*bits) })
}

/// Addresses and ports of a datagram that has room for marks, and where UDP begins.
#[inline(always)]
fn addresses(b: &[u8]) -> Option<(Addresses, usize)> {
    let start = payload_of(b, UDP)?;
    let udp = b.get(start..)?.first_chunk::<{ 8 + MIN_PAYLOAD }>()?;
    let ports = (u16::from_be_bytes([udp[0], udp[1]]), u16::from_be_bytes([udp[2], udp[3]]));
    Some((Addresses { macs: (mac(b, 6)?, mac(b, 0)?), ips: ips(b, start)?, ports }, start))
}

/// Reads a request or answer; `None` for anything else.
#[inline(always)]
pub fn read(b: &[u8]) -> Option<Seen> {
    let (addresses, start) = addresses(b)?;
    let IpHeader { len, ecn, intact } = ip_header(b, start)?;
    // Both addresses precede the datagram: the checksum covers them and it.
    let from = if start == UDP4 { 26 } else { 22 };
    let covered = b.get(from..start + len.max(8 + MIN_PAYLOAD))?;
    let marks: &[u8; MIN_PAYLOAD] = b.get(start + 8..)?.first_chunk()?;
    let kind = match marks[2] {
        _ if len < 8 + MIN_PAYLOAD || marks[..2] != MAGIC.to_be_bytes() => return None,
        0 => Kind::Request,
        1 => Kind::Answer,
        _ => return None,
    };
    let whole = |at: usize| u32::from_be_bytes([marks[at], marks[at + 1], marks[at + 2], marks[at + 3]]);
    Some(Seen {
        addresses,
        marks: Marks { kind, connection: whole(4), request: whole(8), tag: marks[3] },
        congested: ecn & 3 == 3,
        understands: ecn & 3 != 0,
        intact: intact && folded(sum(covered) + 17 + len as u64) == 0xffff,
    })
}

/// The answer of the station with this MAC address to an ARP request for `own`; `None` if the frame is not such a request.
pub fn arp_answer(b: &[u8], own: Ipv4Addr, own_mac: Mac) -> Option<Vec<u8>> {
    if b.get(12..22)? != [8, 6, 0, 1, 8, 0, 6, 4, 0, 1] || word(b, 38)? != own.octets() {
        return None;
    }
    let asking = (mac(b, 22)?, Ipv4Addr::from(word(b, 28)?));
    Some(wire::arp((asking.0, own_mac), 2, (own_mac, own), asking))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_net::mark_congestion;
    use std::net::IpAddr;

    /// Both checksums word by word (RFC 1071): independent of `pointsman-wire`, which is checked here.
    fn check_checksums(b: &[u8]) -> bool {
        let v6 = b[12] == 0x86;
        let sum = |bytes: &[u8], start: u32| {
            let mut sum = start;
            for pair in bytes.chunks(2) {
                sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
                sum = (sum & 0xffff) + (sum >> 16);
            }
            sum
        };
        let (udp, ips) = if v6 { (&b[54..], &b[22..54]) } else { (&b[34..], &b[26..34]) };
        let pseudo = sum(ips, 17 + udp.len() as u32);
        (v6 || sum(&b[14..34], 0) == 0xffff) && sum(udp, pseudo) == 0xffff
    }

    fn addresses() -> Addresses {
        Addresses {
            macs: (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])),
            ips: (IpAddr::from([10, 0, 0, 2]).into(), IpAddr::from([10, 0, 0, 100]).into()),
            ports: (1234, 8000),
        }
    }

    fn addresses6() -> Addresses {
        let ip = |last| IpAddr::from([0xfd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, last]).into();
        Addresses { ips: (ip(1), ip(2)), ..addresses() }
    }

    #[test]
    fn frames() {
        let lengths = [16, 17, 18, 19, 200, MAX_PAYLOAD];
        for (a, len) in [addresses(), addresses6()].iter().flat_map(|a| lengths.map(|l| (*a, l))) {
            let headers = if a.ips.0.v6 { UDP6_END } else { UDP4_END };
            let marks = Marks { kind: Kind::Answer, connection: 0xdead_beef, request: 77, tag: 3 };
            let mut out = vec![1, 2, 3];
            marked(&mut out, &a, true, marks, len);
            assert_eq!(out.len(), headers + len);
            assert!(is_marked(&out));
            assert!(check_checksums(&out), "length {len}");
            let seen = read(&out).expect("ours");
            assert_eq!((seen.addresses, seen.marks, seen.intact), (a, marks, true));
            assert!(!seen.congested && seen.understands && mark_congestion(&mut out));
            assert!(check_checksums(&out), "length {len}");
            assert!(read(&out).is_some_and(|s| s.congested && s.intact));
            out[headers + 12] ^= 1;
            assert!(read(&out).is_some_and(|s| !s.intact), "length {len}");
        }
        let mut other = Vec::new();
        udp(&mut other, &addresses(), false, b"something else");
        assert_eq!((read(&other), is_marked(&other), check_checksums(&other)), (None, false, true));
    }

    #[test]
    fn segments() {
        for a in [addresses(), addresses6()] {
            let data = [1, 2, 3, 4, 5];
            let segment = Segment { seq: 7, ack: 9, len: 5, window: 99, flags: 0x18, ..Segment::default() };
            let mut out = vec![1, 2, 3];
            tcp(&mut out, &a, &segment, &data).expect("it fits");
            // Ethernet pads short frames.
            out.extend([0; 6]);
            let (from, seen) = super::segment(&out).expect("a segment");
            assert_eq!((from, seen.segment, seen.data), (a, segment, &data[..]));
            assert!(!is_reset(&out) && !is_marked(&out) && read(&out).is_none());
            let header = if a.ips.0.v6 { 22..out.len() - 6 } else { 14..out.len() - 6 };
            for at in header {
                out[at] ^= 0x10;
                assert_eq!(super::segment(&out), None, "byte {at}");
                out[at] ^= 0x10;
            }
            (0..out.len() - 6).for_each(|len| assert_eq!(super::segment(&out[..len]), None));
            let reset = Segment { flags: RST, ..Segment::default() };
            tcp(&mut out, &a, &reset, &[]).expect("it fits");
            assert!(is_reset(&out));
            let marked = Segment { ecn: Ecn::Congested, ..reset };
            tcp(&mut out, &a, &marked, &[]).expect("it fits");
            assert_eq!(super::segment(&out).expect("a segment").1.segment, marked);
        }
    }

    /// An answer made from its request equals one written from scratch.
    #[test]
    fn answers() {
        for (a, (asked, len)) in
            [addresses(), addresses6()].iter().flat_map(|a| [(16, 16), (64, 300), (300, 64)].map(|l| (*a, l)))
        {
            for congestion in [false, true] {
                let of = |kind, tag| Marks { kind, connection: 5, request: 77, tag };
                let mut request = Vec::new();
                marked(&mut request, &a, congestion, of(Kind::Request, 0), asked);
                if congestion {
                    assert!(mark_congestion(&mut request));
                }
                assert_eq!(answer(&mut request, of(Kind::Answer, 9), len), Some(()));
                let (macs, ips) = ((a.macs.1, a.macs.0), (a.ips.1, a.ips.0));
                let back = Addresses { macs, ips, ports: (a.ports.1, a.ports.0) };
                let mut anew = Vec::new();
                marked(&mut anew, &back, congestion, of(Kind::Answer, 9), len);
                assert_eq!(request, anew);
            }
        }
        let mut other = vec![1; 30];
        assert_eq!(
            answer(&mut other, Marks { kind: Kind::Answer, connection: 1, request: 1, tag: 0 }, 64),
            None
        );
        assert_eq!(other, [1; 30]);
    }

    #[test]
    fn arp() {
        let own = Mac([2, 0, 0, 0, 0, 9]);
        let mut ask = vec![0xff; 6];
        ask.extend_from_slice(&[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        ask.extend_from_slice(&[2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        let answer = arp_answer(&ask, [10, 0, 0, 2].into(), own).expect("ours");
        let mut expected = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2];
        expected.extend_from_slice(&[2, 0, 0, 0, 0, 9, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
        assert_eq!(answer, expected);
        assert_eq!(arp_answer(&ask, [10, 0, 0, 3].into(), own), None);
        assert_eq!(arp_answer(&ask[..30], [10, 0, 0, 2].into(), own), None);
    }

    #[test]
    fn short_ones() {
        let mut out = Vec::new();
        let marks = Marks { kind: Kind::Request, connection: 1, request: 2, tag: 0 };
        for a in [addresses(), addresses6()] {
            marked(&mut out, &a, false, marks, 16);
            for len in 0..out.len() {
                assert_eq!(read(&out[..len]), None);
                mark_congestion(&mut out[..len]);
            }
        }
    }
}
