//! TCP headers as bytes (RFC 9293, section 3.1).

use crate::segment::{Ecn, Options, Segment};
use pointsman_wire::checksum::{folded, sum};
use pointsman_wire::frame::{TCP, transport_sum};
use std::fmt;
use std::net::IpAddr;

/// Bytes of a header without options.
const FIXED: usize = 20;
/// Most bytes of a header.
const LONGEST: usize = 60;

/// Kinds of options.
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const SCALE: u8 = 3;
const PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Where a segment comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Source and destination addresses, of one family.
    pub addresses: (IpAddr, IpAddr),
    /// Source and destination ports.
    pub ports: (u16, u16),
}

/// Bytes that are not a segment, or a segment that does not fit a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    Short,
    /// The length that the header says is below 20, or beyond the packet.
    Offset(u8),
    /// The checksum is wrong.
    Checksum,
    /// An option of this kind has a length that is impossible.
    Option(u8),
    /// More than 40 bytes of options.
    Options(usize),
    /// The segment says another length than the data has.
    Length(u32),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::Short => write!(f, "shorter than a TCP header"),
            HeaderError::Offset(words) => write!(f, "a header of {words} words does not fit"),
            HeaderError::Checksum => write!(f, "wrong checksum"),
            HeaderError::Option(kind) => write!(f, "option {kind} has an impossible length"),
            HeaderError::Options(bytes) => write!(f, "{bytes} bytes of options: a header has room for 40"),
            HeaderError::Length(len) => {
                write!(f, "the segment's length is {len}, which is not that of its data")
            }
        }
    }
}

impl std::error::Error for HeaderError {}

/// Appends a segment with its data, checksum complete.
///
/// # Errors
/// The options do not fit, or `data` has another length than the segment.
pub fn encode(segment: &Segment, route: &Route, data: &[u8], out: &mut Vec<u8>) -> Result<(), HeaderError> {
    if data.len() != segment.len as usize {
        return Err(HeaderError::Length(segment.len));
    }
    let start = out.len();
    out.resize(start + segment.header_bytes(), 0);
    let from_route = address_sum(route.addresses) + sum(data);
    if let Err(error) = encode_zeros(segment, route.ports, from_route, &mut out[start..]) {
        out.truncate(start);
        return Err(error);
    }
    out.extend(data);
    Ok(())
}

/// What the checksum of a segment has from its addresses.
pub fn address_sum(addresses: (IpAddr, IpAddr)) -> u64 {
    transport_sum(addresses.0, addresses.1, 0, &[])
}

/// Writes the header of a segment whose data are zeros over the beginning of `out`, checksum complete, and returns its
/// length. The data are not written. `addresses` is their [`address_sum`].
///
/// # Errors
/// The options do not fit, or `out` is shorter than the header.
pub fn encode_zeros(
    segment: &Segment,
    ports: (u16, u16),
    addresses: u64,
    out: &mut [u8],
) -> Result<usize, HeaderError> {
    let options = segment.options.bytes();
    let header = FIXED + options;
    if header > LONGEST {
        return Err(HeaderError::Options(options));
    }
    let Some(out) = out.get_mut(..header) else { return Err(HeaderError::Short) };
    let (fixed, rest) = out.split_at_mut(FIXED);
    encode_options(&segment.options, rest);
    let offset = (header as u16 / 4) << 12 | u16::from(segment.flags);
    // Numbers are summed instead of the bytes: reading what was just written in other pieces is slow.
    let numbers = [ports.0, ports.1, offset, segment.window].iter().map(|n| u64::from(*n)).sum::<u64>();
    let numbers = numbers + u64::from(segment.seq) + u64::from(segment.ack);
    let options_sum = if options == 0 { 0 } else { sum(rest) };
    let length = u64::from(TCP) + header as u64 + u64::from(segment.len);
    let check = !folded(addresses + length + numbers + options_sum);
    fixed[0..2].copy_from_slice(&ports.0.to_be_bytes());
    fixed[2..4].copy_from_slice(&ports.1.to_be_bytes());
    fixed[4..8].copy_from_slice(&segment.seq.to_be_bytes());
    fixed[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    fixed[12..14].copy_from_slice(&offset.to_be_bytes());
    fixed[14..16].copy_from_slice(&segment.window.to_be_bytes());
    fixed[16..18].copy_from_slice(&check.to_be_bytes());
    // The urgent pointer.
    fixed[18..20].fill(0);
    Ok(header)
}

/// Writes options over `out`, which has their length. They are padded in front, so that their numbers are at even places.
fn encode_options(options: &Options, out: &mut [u8]) {
    let mut rest = out;
    let mut put = |bytes: &[u8]| {
        if let Some((here, after)) = std::mem::take(&mut rest).split_at_mut_checked(bytes.len()) {
            here.copy_from_slice(bytes);
            rest = after;
        }
    };
    if let Some(mss) = options.mss {
        put(&[MSS, 4]);
        put(&mss.to_be_bytes());
    }
    match (options.sack_permitted, options.timestamps) {
        (true, Some(_)) => put(&[PERMITTED, 2]),
        (true, None) => put(&[NOP, NOP, PERMITTED, 2]),
        (false, Some(_)) => put(&[NOP, NOP]),
        (false, None) => {}
    }
    if let Some((value, echo)) = options.timestamps {
        put(&[TIMESTAMPS, 10]);
        put(&value.to_be_bytes());
        put(&echo.to_be_bytes());
    }
    if let Some(scale) = options.scale {
        put(&[NOP, SCALE, 3, scale]);
    }
    let blocks = options.sack.blocks();
    if !blocks.is_empty() {
        put(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
        for (from, to) in blocks {
            put(&from.to_be_bytes());
            put(&to.to_be_bytes());
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

/// What [`parse`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// Source and destination.
    pub ports: (u16, u16),
    /// Everything else in the header.
    pub segment: Segment,
    /// The segment's data.
    pub data: &'a [u8],
}

/// Reads the payload of an IP packet between these addresses, with the ECN field `ecn` in its header.
///
/// # Errors
/// It is not a segment, or its checksum is wrong.
pub fn parse(bytes: &[u8], addresses: (IpAddr, IpAddr), ecn: Ecn) -> Result<Parsed<'_>, HeaderError> {
    let parsed = read(bytes, ecn)?;
    if folded(transport_sum(addresses.0, addresses.1, TCP, bytes)) != 0xffff {
        return Err(HeaderError::Checksum);
    }
    Ok(parsed)
}

/// As [`parse`], for a segment whose data are zeros: they are not read. `addresses` is their [`address_sum`].
///
/// # Errors
/// As of [`parse`].
#[inline]
pub fn parse_zeros(bytes: &[u8], addresses: u64, ecn: Ecn) -> Result<Parsed<'_>, HeaderError> {
    let parsed = read(bytes, ecn)?;
    let header = bytes.len() - parsed.data.len();
    let length = u64::from(TCP) + bytes.len() as u64;
    if folded(addresses + length + sum(&bytes[..header])) != 0xffff {
        return Err(HeaderError::Checksum);
    }
    Ok(parsed)
}

/// Reads everything but the checksum.
#[inline]
fn read(bytes: &[u8], ecn: Ecn) -> Result<Parsed<'_>, HeaderError> {
    if bytes.len() < FIXED {
        return Err(HeaderError::Short);
    }
    let words = bytes[12] >> 4;
    let header = usize::from(words) * 4;
    if header < FIXED || header > bytes.len() {
        return Err(HeaderError::Offset(words));
    }
    let (head, data) = bytes.split_at(header);
    let segment = Segment {
        seq: u32_at(head, 4),
        ack: u32_at(head, 8),
        len: data.len() as u32,
        window: u16_at(head, 14),
        flags: head[13],
        ecn,
        options: parse_options(&head[FIXED..])?,
    };
    Ok(Parsed { ports: (u16_at(head, 0), u16_at(head, 2)), segment, data })
}

/// Options of other kinds are skipped.
fn parse_options(mut rest: &[u8]) -> Result<Options, HeaderError> {
    let mut options = Options::default();
    while let Some(&kind) = rest.first() {
        match kind {
            END => break,
            NOP => {
                rest = &rest[1..];
                continue;
            }
            _ => {}
        }
        let wrong = HeaderError::Option(kind);
        let length = usize::from(*rest.get(1).ok_or(wrong)?);
        let value = rest.get(2..length).ok_or(wrong)?;
        match (kind, value.len()) {
            (MSS, 2) => options.mss = Some(u16_at(value, 0)),
            // A larger scale counts as 14 (RFC 7323, section 2.3).
            (SCALE, 1) => options.scale = Some(value[0].min(14)),
            (PERMITTED, 0) => options.sack_permitted = true,
            (TIMESTAMPS, 8) => options.timestamps = Some((u32_at(value, 0), u32_at(value, 4))),
            (SACK, 8 | 16 | 24 | 32) => {
                value.chunks(8).for_each(|b| options.sack.push((u32_at(b, 0), u32_at(b, 4))));
            }
            (MSS | SCALE | PERMITTED | TIMESTAMPS | SACK, _) => return Err(wrong),
            _ => {}
        }
        rest = &rest[length..];
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sack;
    use pointsman_wire::Random;

    fn route(v6: bool) -> Route {
        let address = |n: u8| -> IpAddr {
            if v6 { [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n].into() } else { [10, 0, 0, n].into() }
        };
        Route { addresses: (address(1), address(2)), ports: (1234, 80) }
    }

    fn random_segment(random: &mut Random) -> Segment {
        let mut maybe = |n: u64| random.below(2) == 0 && n > 0;
        let (mss, scale, stamps) = (maybe(1), maybe(1), maybe(1));
        let sack_permitted = maybe(1);
        let mut sack = Sack::default();
        if !mss && !scale && !sack_permitted {
            (0..random.below(4))
                .for_each(|_| sack.push((random.next_u64() as u32, random.next_u64() as u32)));
        }
        Segment {
            seq: random.next_u64() as u32,
            ack: random.next_u64() as u32,
            len: random.below(100) as u32,
            window: random.next_u64() as u16,
            flags: random.next_u64() as u8,
            ecn: Ecn::from_bits(random.next_u64() as u8),
            options: Options {
                mss: mss.then_some(random.next_u64() as u16),
                scale: scale.then_some(random.below(15) as u8),
                sack_permitted,
                timestamps: stamps.then_some((random.next_u64() as u32, random.next_u64() as u32)),
                sack,
            },
        }
    }

    #[test]
    fn what_is_encoded_is_read() {
        let mut random = Random::new(1);
        for n in 0..2000 {
            let (segment, route) = (random_segment(&mut random), route(n % 2 == 0));
            let data = random.bytes(segment.len as usize);
            let mut bytes = Vec::new();
            encode(&segment, &route, &data, &mut bytes).expect("it fits");
            assert_eq!(bytes.len(), segment.header_bytes() + data.len());
            let read = parse(&bytes, route.addresses, segment.ecn);
            assert_eq!(read, Ok(Parsed { ports: route.ports, segment, data: &data }));
        }
    }

    #[test]
    fn a_known_header() {
        let options = Options {
            mss: Some(1460),
            scale: Some(7),
            sack_permitted: true,
            timestamps: Some((1, 2)),
            ..Options::default()
        };
        let syn = Segment { seq: 1, window: 64240, flags: 2, options, ..Segment::default() };
        let mut bytes = Vec::new();
        encode(&syn, &route(false), &[], &mut bytes).expect("it fits");
        assert_eq!(bytes[12..16], [0xa0, 2, 0xfa, 0xf0]);
        assert_eq!(bytes[20..], [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7]);
    }

    #[test]
    fn bad_input_is_refused() {
        let (syn, route) = (Segment { flags: 2, ..Segment::default() }, route(false));
        let mut bytes = Vec::new();
        encode(&syn, &route, &[], &mut bytes).expect("it fits");
        let read = |bytes: &[u8]| parse(bytes, route.addresses, Ecn::NotCapable).map(|_| ());
        assert_eq!(read(&bytes), Ok(()));
        assert_eq!(read(&bytes[..19]), Err(HeaderError::Short));
        for words in [0, 4, 6, 15] {
            let mut bad = bytes.clone();
            bad[12] = words << 4;
            assert_eq!(read(&bad), Err(HeaderError::Offset(words)));
        }
        bytes[4] ^= 1;
        assert_eq!(read(&bytes), Err(HeaderError::Checksum));
        for bad in
            [&[8u8, 10, 0, 0][..], &[2, 3, 0, 0], &[8, 0, 0, 0], &[8, 1, 0, 0], &[1, 1, 1, 2], &[5, 3, 0, 0]]
        {
            assert_eq!(
                parse_options(bad),
                Err(HeaderError::Option(if bad[0] == 1 { 2 } else { bad[0] })),
                "{bad:?}"
            );
        }
        for fine in [&[0u8, 8, 0, 0][..], &[254, 4, 0, 0], &[1, 1, 1, 0], &[]] {
            assert_eq!(parse_options(fine), Ok(Options::default()));
        }
        let mut sack = Sack::default();
        (0..4).for_each(|k| sack.push((k, k + 1)));
        let options = Options { sack, timestamps: Some((1, 1)), ..Options::default() };
        let long = Segment { options, ..Segment::default() };
        assert_eq!(encode(&long, &route, &[], &mut bytes), Err(HeaderError::Options(48)));
        assert_eq!(encode(&syn, &route, &[1], &mut bytes), Err(HeaderError::Length(0)));
    }

    #[test]
    fn random_bytes_cause_no_panic() {
        let mut random = Random::new(2);
        let mut read = 0;
        for _ in 0..20_000 {
            let len = random.below(90) as usize;
            let mut bytes = random.bytes(len);
            let addresses = route(false).addresses;
            if len >= FIXED {
                bytes[12] = (5 + random.below(11) as u8) << 4;
                bytes[16..18].fill(0);
                let sum = !folded(transport_sum(addresses.0, addresses.1, TCP, &bytes));
                bytes[16..18].copy_from_slice(&sum.to_be_bytes());
            }
            read += usize::from(parse(&bytes, addresses, Ecn::NotCapable).is_ok());
        }
        assert!(read > 100, "{read}");
    }
}
