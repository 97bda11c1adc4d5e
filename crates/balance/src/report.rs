//! Load reports as agents send them: `report_t` of the data plane, in a UDP datagram to port
//! [`crate::types::REPORT_PORT`] of a local address of the switch. All fields are big-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | length of the report in words of four bytes, at least 3 |
//! | 2 | server (13 bits); the bit above them (8192) says that the report is about devices 8 to 15 |
//! | 1 | mask: devices covered by the report, of eight |
//! | 1 | available: the subset that can take new connections |
//! | 2 | metrics: which words follow |
//! | 4 | sequence: the sender's milliseconds |
//! | 4 n | metrics; a receiver skips those that it does not know |
//!
//! One that is signed has version 2 and, in the place of the sequence number:
//!
//! | bytes | field |
//! |---|---|
//! | 1 | number of the key, from 1 |
//! | 7 | sequence: the sender's microseconds since 1970, each number used once, rising |
//! | 8 | digest of all other bytes, in their order ([`ReportKey::digest`]) |
//!
//! and no metrics but those below, because the digest covers only fields that the data plane parses.
//!
//! A server with more than eight devices has two halves, and a report is about one of them: slots 0 to 7, or 8 to 15 with that bit.
//!
//! With [`METRICS_LOAD`] the first word is the [`Load`] of every device in the mask, with [`METRICS_LOADS`] the first eight are
//! those of the devices in each slot. Bits 8 to 15 of the field are a [`Latency99`]: that of the sender's own device.

use crate::trust::ReportKey;
use crate::types::MAX_SERVER;
use std::fmt;

/// The version of reports without digest.
pub const VERSION: u8 = 1;
/// The version of reports with one.
pub const SIGNED_VERSION: u8 = 2;
/// Bytes of a report without metrics.
pub const HEADER_LEN: usize = 12;
/// Bytes of a signed report without metrics.
pub const SIGNED_LEN: usize = 24;
/// Bits of a sequence number that is signed.
pub const SEQUENCE_BITS: u32 = 56;
/// Most metrics of a report: its length is one byte of words.
pub const MAX_METRICS: usize = 255 - HEADER_LEN / 4;

/// Bit of `metrics`: one word follows, the load of every device in the mask.
pub const METRICS_LOAD: u16 = 1;
/// Bit of `metrics`: eight words follow, the load of the device in each of eight slots.
pub const METRICS_LOADS: u16 = 2;
/// Bit of `metrics`: the devices in the mask failed their health check. A switch that does not know the bit takes them for busy.
pub const METRICS_FAILED: u16 = 8;

/// The lowest of the eight bits of `metrics` that are a [`Latency99`].
pub const METRICS_LATENCY: u32 = 8;

/// A latency in eight bits: what 99 of 100 requests of the last seconds stayed within, rounded up by an eighth at most.
///
/// Code 0: unknown. Code `c` from 1 to 8: less than `c` units of 1,024 ns. From 9 on: less than `(m + 9) << e` units, where `e` and `m` are
/// quotient and remainder of `(c - 9) / 8`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Latency99(u8);

impl Latency99 {
    /// The code of `ns` nanoseconds. Times above 4 hours are taken as that.
    pub fn of(ns: u64) -> Self {
        let units = ns >> 10;
        let shift = (units >> 3).checked_ilog2().unwrap_or(0);
        let place = u64::from(shift) * 8 + (units >> shift);
        Latency99((place + 1).min(255) as u8)
    }

    /// Its encoding in a report.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Decodes the value in a report.
    pub fn from_code(code: u8) -> Self {
        Latency99(code)
    }

    /// In milliseconds; `None` if it is unknown.
    pub fn ms(self) -> Option<f64> {
        let place = u64::from(self.0.checked_sub(1)?);
        let shift = (place / 8).saturating_sub(1);
        let first = place - 8 * shift;
        Some((((first + 1) << shift) * 1024) as f64 / 1e6)
    }
}

/// The load of a device, in eight bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Use of the computing units, in per cent.
    pub compute: u8,
    /// Use of memory, in per cent.
    pub memory: u8,
    /// Use of the network, in per cent.
    pub network: u8,
    /// Requests that wait for an answer; 255 for more.
    pub queue: u8,
}

impl Load {
    /// Its encoding in a report.
    pub fn word(self) -> u32 {
        u32::from_be_bytes([self.compute, self.memory, self.network, self.queue])
    }

    /// Decodes the value in a report.
    pub fn from_word(word: u32) -> Self {
        let [compute, memory, network, queue] = word.to_be_bytes();
        Load { compute, memory, network, queue }
    }
}

/// A load report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The server, 13 bits.
    pub server: u16,
    /// It is about the devices in slots 8 to 15.
    pub high: bool,
    /// Devices covered by this report, one bit per slot of the half; never 0.
    pub mask: u8,
    /// The subset that can take new connections.
    pub available: u8,
    /// Which metrics follow.
    pub metrics: u16,
    /// The sender's milliseconds.
    pub sequence: u32,
    /// The metrics; at most [`MAX_METRICS`].
    pub words: Vec<u32>,
}

/// Key number and sequence of a signed report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the key.
    pub number: u8,
    /// The sender's microseconds, [`SEQUENCE_BITS`] of them.
    pub sequence: u64,
}

impl Stamp {
    /// Its encoding in a report.
    pub fn bytes(self) -> [u8; 8] {
        (u64::from(self.number) << SEQUENCE_BITS | self.sequence & ((1 << SEQUENCE_BITS) - 1)).to_be_bytes()
    }

    /// Decodes the value in a report.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let bits = u64::from_be_bytes(bytes);
        Stamp { number: (bits >> SEQUENCE_BITS) as u8, sequence: bits & ((1 << SEQUENCE_BITS) - 1) }
    }
}

/// How many words a signed report has behind its head.
fn signed_words(metrics: u16) -> Option<usize> {
    match metrics & 3 {
        0 => Some(0),
        METRICS_LOAD => Some(1),
        METRICS_LOADS => Some(8),
        _ => None,
    }
}

/// Why bytes are not a valid report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportError {
    /// Fewer bytes than a report has.
    Truncated,
    /// Another version than 1.
    Version(u8),
    /// The length field is not the number of words.
    Length {
        /// The field.
        words: u8,
        /// Bytes there are.
        bytes: usize,
    },
    /// It covers no device.
    NoDevice,
    /// The server number has more than 13 bits.
    Server(u16),
    /// Signed, but both kinds of load are announced.
    Metrics(u16),
    /// The number of an unknown key.
    Key(u8),
    /// The digest is another one.
    Digest,
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportError::Truncated => write!(f, "shorter than the {HEADER_LEN} bytes of a report"),
            ReportError::Version(v) => write!(f, "version {v}, unknown for this kind of report"),
            ReportError::Length { words, bytes } => {
                write!(f, "its length is {words} words of four bytes, but there are {bytes} bytes")
            }
            ReportError::NoDevice => f.write_str("its mask names no device"),
            ReportError::Server(n) => write!(f, "server {n}, but numbers end at {MAX_SERVER}"),
            ReportError::Metrics(m) => write!(f, "metrics {m:#06x} have both one load and eight"),
            ReportError::Key(n) => write!(f, "signed with unknown key {n}"),
            ReportError::Digest => f.write_str("its digest does not match the key"),
        }
    }
}

impl std::error::Error for ReportError {}

/// The bit of the field `server` that says which half of the server's devices a report is about.
const HIGH: u16 = MAX_SERVER + 1;

/// The server and the half that a field `server` names.
fn placed(field: [u8; 2]) -> Result<(u16, bool), ReportError> {
    let field = u16::from_be_bytes(field);
    let server = field & !HIGH;
    if server > MAX_SERVER { Err(ReportError::Server(server)) } else { Ok((server, field & HIGH != 0)) }
}

impl Report {
    /// The field `server`.
    fn place(&self) -> [u8; 2] {
        (self.server | if self.high { HIGH } else { 0 }).to_be_bytes()
    }

    /// The datagram's payload. Metrics beyond [`MAX_METRICS`] are omitted.
    pub fn encode(&self) -> Vec<u8> {
        let words = &self.words[..self.words.len().min(MAX_METRICS)];
        let mut out = Vec::with_capacity(HEADER_LEN + 4 * words.len());
        out.extend([VERSION, (HEADER_LEN / 4 + words.len()) as u8]);
        out.extend(self.place());
        out.extend([self.mask, self.available]);
        out.extend(self.metrics.to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        for w in words {
            out.extend(w.to_be_bytes());
        }
        out
    }

    /// The payload of a signed datagram. Words that the metrics do not announce are omitted, missing ones are zero.
    pub fn encode_signed(&self, key: &ReportKey, stamp: Stamp) -> Vec<u8> {
        let n = signed_words(self.metrics).unwrap_or(0);
        let mut head = vec![SIGNED_VERSION, (SIGNED_LEN / 4 + n) as u8];
        head.extend(self.place());
        head.extend([self.mask, self.available]);
        head.extend(self.metrics.to_be_bytes());
        head.extend(stamp.bytes());
        let words = self.words.iter().copied().chain(std::iter::repeat(0)).take(n);
        let words: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
        let digest = key.digest(&[head.as_slice(), &words].concat());
        [head, digest.to_vec(), words].concat()
    }

    /// Reads a signed datagram's payload as strictly as the data plane does, apart from whether it is new. Its sequence is the low
    /// 32 bits of the stamp's. `key` is the key of a number.
    ///
    /// # Errors
    /// It is not a signed report, or not signed with a known key.
    pub fn decode_signed(
        bytes: &[u8],
        key: impl FnOnce(u8) -> Option<ReportKey>,
    ) -> Result<(Report, Stamp), ReportError> {
        let Some((head, rest)) = bytes.split_first_chunk::<SIGNED_LEN>() else {
            return Err(ReportError::Truncated);
        };
        let [version, words, s0, s1, mask, available, m0, m1, stamp @ .., _, _, _, _, _, _, _, _] = *head;
        if version != SIGNED_VERSION {
            return Err(ReportError::Version(version));
        }
        let metrics = u16::from_be_bytes([m0, m1]);
        let Some(expected) = signed_words(metrics) else { return Err(ReportError::Metrics(metrics)) };
        if usize::from(words) * 4 != bytes.len() || rest.len() != 4 * expected {
            return Err(ReportError::Length { words, bytes: bytes.len() });
        }
        if mask == 0 {
            return Err(ReportError::NoDevice);
        }
        let (server, high) = placed([s0, s1])?;
        let stamp = Stamp::from_bytes(stamp);
        let key =
            Some(stamp.number).filter(|n| *n > 0).and_then(key).ok_or(ReportError::Key(stamp.number))?;
        if key.digest(&[&head[..16], rest].concat()) != head[16..] {
            return Err(ReportError::Digest);
        }
        let words = rest.as_chunks::<4>().0.iter().map(|w| u32::from_be_bytes(*w)).collect();
        Ok((Report { server, high, mask, available, metrics, sequence: stamp.sequence as u32, words }, stamp))
    }

    /// Reads a datagram's payload as strictly as the data plane does.
    ///
    /// # Errors
    /// It is not a report of this version, its lengths disagree, or it names no device.
    pub fn decode(bytes: &[u8]) -> Result<Report, ReportError> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(ReportError::Truncated);
        };
        let [version, words, s0, s1, mask, available, m0, m1, q0, q1, q2, q3] = *head;
        if version != VERSION {
            return Err(ReportError::Version(version));
        }
        if usize::from(words) * 4 != bytes.len() {
            return Err(ReportError::Length { words, bytes: bytes.len() });
        }
        if mask == 0 {
            return Err(ReportError::NoDevice);
        }
        let (server, high) = placed([s0, s1])?;
        Ok(Report {
            server,
            high,
            mask,
            available,
            metrics: u16::from_be_bytes([m0, m1]),
            sequence: u32::from_be_bytes([q0, q1, q2, q3]),
            words: rest.as_chunks::<4>().0.iter().map(|w| u32::from_be_bytes(*w)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_wire::Random;

    fn report() -> Report {
        Report {
            server: 0x1234,
            high: false,
            mask: 3,
            available: 2,
            metrics: 0,
            sequence: 0xa1b2_c3d4,
            words: vec![],
        }
    }

    #[test]
    fn layout() {
        assert_eq!(report().encode(), [1, 3, 0x12, 0x34, 3, 2, 0, 0, 0xa1, 0xb2, 0xc3, 0xd4]);
        let with = Report { metrics: 0x8001, words: vec![1, 0xffff_0000], ..report() };
        assert_eq!(
            with.encode(),
            [1, 5, 0x12, 0x34, 3, 2, 0x80, 1, 0xa1, 0xb2, 0xc3, 0xd4, 0, 0, 0, 1, 0xff, 0xff, 0, 0]
        );
    }

    /// The second half of a server is a bit above its number; the others are never set.
    #[test]
    fn halves() {
        let with = Report { high: true, ..report() };
        assert_eq!(with.encode()[..6], [1, 3, 0x32, 0x34, 3, 2]);
        for bit in [0x40, 0x80] {
            let mut bytes = with.encode();
            bytes[2] |= bit;
            assert!(matches!(Report::decode(&bytes), Err(ReportError::Server(_))), "{bit:#x}");
        }
    }

    #[test]
    fn loads() {
        let load = Load { compute: 1, memory: 2, network: 3, queue: 255 };
        let with = Report { metrics: METRICS_LOAD, words: vec![load.word()], ..report() };
        assert_eq!(with.encode()[12..], [1, 2, 3, 255]);
        assert_eq!(Load::from_word(load.word()), load);
    }

    #[test]
    fn latencies_in_eight_bits() {
        assert_eq!(Latency99::default().ms(), None);
        assert_eq!(
            [0, 1023, 1024, 8 * 1024, 15 * 1024, 16 * 1024, 18 * 1024].map(|ns| Latency99::of(ns).code()),
            [1, 1, 2, 9, 16, 17, 18]
        );
        assert_eq!(Latency99::of(u64::MAX).code(), 255);
        // Never too low, and too high by an eighth at most, or by one unit.
        let mut random = Random::new(1);
        let mut before = Latency99::default();
        for code in 1..=254 {
            let ms = Latency99::from_code(code).ms().expect("known");
            let highest = (ms * 1e6).round() as u64 - 1;
            assert_eq!(Latency99::of(highest).code(), code);
            assert_eq!(Latency99::of(highest + 1).code(), code + 1);
            assert!(before < Latency99::of(highest));
            before = Latency99::of(highest);
        }
        for _ in 0..10_000 {
            let ns = random.next_u64() >> (63 - random.below(43));
            let ms = Latency99::of(ns).ms().expect("known");
            let exact = ns as f64 / 1e6;
            assert!(ms > exact && ms <= exact * 1.125 + 0.001024, "{ns}: {ms}");
        }
    }

    #[test]
    fn refuses() {
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: ReportError| {
            let mut bytes = report().encode();
            change(&mut bytes);
            assert_eq!(Report::decode(&bytes), Err(expected));
        };
        check(&|b| b.truncate(11), ReportError::Truncated);
        check(&|b| b.clear(), ReportError::Truncated);
        check(&|b| b[0] = 2, ReportError::Version(2));
        check(&|b| b[1] = 4, ReportError::Length { words: 4, bytes: 12 });
        check(&|b| b[1] = 2, ReportError::Length { words: 2, bytes: 12 });
        check(&|b| b.push(0), ReportError::Length { words: 3, bytes: 13 });
        check(&|b| b[4] = 0, ReportError::NoDevice);
        check(&|b| b[2] = 0x40, ReportError::Server(0x4034));
    }

    fn key(n: u8) -> Option<ReportKey> {
        (n < 3).then(|| ReportKey::new([n; 8]))
    }

    #[test]
    fn signed() {
        let stamp = Stamp { number: 2, sequence: 0x00aa_bbcc_ddee_ff11 };
        for (metrics, words) in [(0x8000, vec![]), (1, vec![5]), (6, (1..=8).collect())] {
            let report = Report { metrics, words, sequence: 0xddee_ff11, ..report() };
            let bytes = report.encode_signed(&ReportKey::new([2; 8]), stamp);
            assert_eq!(bytes[..5], [2, 6 + report.words.len() as u8, 0x12, 0x34, 3]);
            assert_eq!(bytes[8..16], [2, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x11]);
            assert_eq!(Report::decode_signed(&bytes, key), Ok((report, stamp)));
            for bit in 0..8 * bytes.len() {
                let mut other = bytes.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(Report::decode_signed(&other, key).is_err(), "bit {bit}");
            }
            for len in 0..bytes.len() {
                assert!(Report::decode_signed(&bytes[..len], key).is_err(), "{len} bytes");
            }
            let other = |_| Some(ReportKey::new([3; 8]));
            assert_eq!(Report::decode_signed(&bytes, other), Err(ReportError::Digest));
        }
        // Number 0 means no key.
        let bytes = report().encode_signed(&ReportKey::new([0; 8]), Stamp { number: 0, sequence: 1 });
        assert_eq!(Report::decode_signed(&bytes, key), Err(ReportError::Key(0)));
    }

    /// Random bytes never make a panic, and what decodes encodes to the same bytes.
    #[test]
    fn random_bytes() {
        let mut random = Random::new(7);
        let mut good = 0;
        for _ in 0..200_000 {
            let mut bytes: Vec<u8> = (0..random.below(30)).map(|_| random.next_u64() as u8).collect();
            if bytes.len() >= 2 && random.below(4) > 0 {
                bytes[0] = VERSION;
                bytes[1] = (bytes.len() / 4) as u8;
            }
            if let Ok(r) = Report::decode(&bytes) {
                assert_eq!(r.encode(), bytes);
                good += 1;
            }
        }
        assert!(good > 1000, "only {good} of the random reports were valid");
    }

    #[test]
    fn random_reports() {
        let mut random = Random::new(8);
        for _ in 0..10_000 {
            let r = Report {
                server: random.next_u64() as u16 & MAX_SERVER,
                high: random.below(2) == 1,
                mask: 1 << random.below(8) | random.next_u64() as u8,
                available: random.next_u64() as u8,
                metrics: random.next_u64() as u16,
                sequence: random.next_u64() as u32,
                words: (0..random.below(MAX_METRICS as u64 + 1)).map(|_| random.next_u64() as u32).collect(),
            };
            assert_eq!(Report::decode(&r.encode()), Ok(r));
        }
    }
}
