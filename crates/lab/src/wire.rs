//! The request protocol between load generator and devices, and the signatures that prove which device answered.
//!
//! A request is one UDP datagram, or one frame on a TCP connection (a 32-bit length, then the same bytes).
//! All integers are big-endian.
//!
//! | request | bytes | | answer | bytes |
//! |---|---|---|---|---|
//! | magic `PMQ1` | 4 | | magic `PMA1` | 4 |
//! | kind | 1 | | kind | 1 |
//! | zero | 3 | | length of the name | 1 |
//! | connection | 8 | | zero | 2 |
//! | sequence | 8 | | connection, sequence, argument | 24 |
//! | argument | 8 | | digest of bulk content, result of an application, or zero | 16 |
//! | padding | any | | signature | 16 |
//! | | | | name of the device | up to 64 |
//!
//! The signature is SipHash-2-4-128, keyed per device, over everything in the answer but itself. Client and
//! devices share the keys, so an answer that verifies was made by that device for that request: whatever
//! is between them can neither invent answers nor attribute them to another device.

use crate::error::{Error, Result};
use pointsman_wire::random::{STEP, finish};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::collections::BTreeMap;
use std::hash::Hasher;

/// Bytes of a request without padding.
pub const REQUEST_LEN: usize = 32;
/// Bytes of an answer without the name.
pub const ANSWER_LEN: usize = 64;
/// Longest frame on a TCP connection, and longest datagram, that either side accepts.
pub const MAX_FRAME: usize = 9000;
/// Longest device name.
pub const MAX_NAME: usize = 64;

const REQUEST_MAGIC: [u8; 4] = *b"PMQ1";
const ANSWER_MAGIC: [u8; 4] = *b"PMA1";

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Work that takes the device's service time; `argument` scales it in thousandths (0 counts as 1000).
    Work = 0,
    /// An answer at once, past the queue: the device's name.
    Probe = 1,
    /// TCP only: the device sends `argument` bytes of content seeded by `sequence`, then the answer.
    Download = 2,
    /// TCP only: the client sends `argument` bytes of content, then gets the answer.
    Upload = 3,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Work, Self::Probe, Self::Download, Self::Upload].into_iter().find(|k| *k as u8 == byte)
    }
}

/// A request. Connection and sequence together identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The kind of request.
    pub kind: Kind,
    /// The connection's number, the client's choice.
    pub connection: u64,
    /// The request's number within the connection.
    pub sequence: u64,
    /// Depends on the kind.
    pub argument: u64,
}

/// Why bytes are not a request or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its fixed part, or than the name it announces.
    Truncated,
    /// The magic number is another.
    Magic,
    /// Unknown kind of request.
    Kind,
    /// The name is longer than allowed or not UTF-8.
    Name,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> std::result::Result<[u8; N], Malformed> {
    bytes.get(at..at + N).and_then(|b| b.try_into().ok()).ok_or(Malformed::Truncated)
}

fn integer(bytes: &[u8], at: usize) -> std::result::Result<u64, Malformed> {
    array(bytes, at).map(u64::from_be_bytes)
}

impl Request {
    /// Writes the request to `out`, padded with zeroes to at least `size` bytes.
    pub fn encode(&self, size: usize, out: &mut Vec<u8>) {
        let end = out.len() + size.max(REQUEST_LEN);
        out.extend_from_slice(&REQUEST_MAGIC);
        out.extend_from_slice(&[self.kind as u8, 0, 0, 0]);
        for field in [self.connection, self.sequence, self.argument] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        out.resize(end, 0);
    }

    /// Reads a request; padding is ignored.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, Malformed> {
        if array::<4>(bytes, 0)? != REQUEST_MAGIC {
            return Err(Malformed::Magic);
        }
        Ok(Self {
            kind: Kind::from_byte(array::<1>(bytes, 4)?[0]).ok_or(Malformed::Kind)?,
            connection: integer(bytes, 8)?,
            sequence: integer(bytes, 16)?,
            argument: integer(bytes, 24)?,
        })
    }

    /// The number of its query. Clients with equal seeds have equal queries: the upper half of the connection's number differs
    /// from run to run.
    pub fn query(&self) -> u64 {
        u64::from(self.connection as u32).wrapping_add(self.sequence)
    }

    /// Appends the request as a frame for TCP.
    pub fn encode_frame(&self, size: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&(size.max(REQUEST_LEN) as u32).to_be_bytes());
        self.encode(size, out);
    }
}

/// An answer as it was received; [`Keyring::verify`] says whether to accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The kind of the request.
    pub kind: u8,
    /// Copied from the request.
    pub connection: u64,
    /// Copied from the request.
    pub sequence: u64,
    /// Copied from the request.
    pub argument: u64,
    /// Digest of the content of a bulk transfer, as the device saw it.
    pub digest: [u8; 16],
    /// The device that claims to answer.
    pub device: &'a str,
    /// The proof.
    pub signature: [u8; 16],
}

impl<'a> Answer<'a> {
    /// Reads an answer without verifying it.
    pub fn decode(bytes: &'a [u8]) -> std::result::Result<Self, Malformed> {
        if array::<4>(bytes, 0)? != ANSWER_MAGIC {
            return Err(Malformed::Magic);
        }
        let [kind, length] = array(bytes, 4)?;
        let signature = array(bytes, 48)?;
        let name = bytes.get(ANSWER_LEN..ANSWER_LEN + usize::from(length)).ok_or(Malformed::Truncated)?;
        if name.len() > MAX_NAME {
            return Err(Malformed::Name);
        }
        Ok(Self {
            kind,
            connection: integer(bytes, 8)?,
            sequence: integer(bytes, 16)?,
            argument: integer(bytes, 24)?,
            digest: array(bytes, 32)?,
            device: std::str::from_utf8(name).map_err(|_| Malformed::Name)?,
            signature,
        })
    }
}

/// The secret of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64, u64);

impl Key {
    /// The key of `device` in the run with this seed.
    pub fn derive(seed: u64, device: &str) -> Self {
        let mut hasher = SipHasher24::new_with_keys(seed, 0x706f_696e_7473_6d61);
        hasher.write(device.as_bytes());
        let hash = hasher.finish128();
        Self(hash.h1, hash.h2)
    }
}

/// Appends to `out` the signed answer of `device` to `request`.
pub fn sign(request: &Request, device: &str, key: Key, digest: [u8; 16], out: &mut Vec<u8>) {
    let name = &device.as_bytes()[..device.len().min(MAX_NAME)];
    let start = out.len();
    out.extend_from_slice(&ANSWER_MAGIC);
    out.extend_from_slice(&[request.kind as u8, name.len() as u8, 0, 0]);
    for field in [request.connection, request.sequence, request.argument] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    out.extend_from_slice(&digest);
    let signature = signature(key, &out[start..], name);
    out.extend_from_slice(&signature);
    out.extend_from_slice(name);
}

fn signature(key: Key, fixed: &[u8], name: &[u8]) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_keys(key.0, key.1);
    hasher.write(fixed);
    hasher.write(name);
    hasher.finish128().as_bytes()
}

/// The verdict of verification on an answer to a certain request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Signed by the named device, for this request. The number is the device's place in the keyring.
    Good(usize),
    /// Signed properly, but for another request.
    OtherRequest,
    /// Malformed, of an unknown device, or not signed by the device it names.
    Forged,
}

/// The keys of all devices, which clients use to check which device answered.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    names: Vec<String>,
    keys: Vec<Key>,
    index: BTreeMap<String, usize>,
}

impl Keyring {
    /// The keys of these devices in the run with this seed.
    pub fn derive<S: Into<String>>(seed: u64, devices: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut ring = Self::default();
        for name in devices {
            let name = name.into();
            if name.is_empty() || name.len() > MAX_NAME {
                return Err(Error::new(format!(
                    "the device name '{name}' is not 1 to {MAX_NAME} bytes long"
                )));
            }
            if ring.index.insert(name.clone(), ring.names.len()).is_some() {
                return Err(Error::new(format!("two devices are called '{name}'")));
            }
            ring.keys.push(Key::derive(seed, &name));
            ring.names.push(name);
        }
        Ok(ring)
    }

    /// Names of the devices in the order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The key of a device.
    pub fn key(&self, device: &str) -> Option<Key> {
        self.index.get(device).and_then(|&i| self.keys.get(i)).copied()
    }

    /// Checks an answer against its request.
    pub fn verify(&self, bytes: &[u8], request: &Request) -> Verdict {
        match self.verify_any(bytes) {
            Some((device, answer)) if answers(&answer, request) => Verdict::Good(device),
            Some(_) => Verdict::OtherRequest,
            None => Verdict::Forged,
        }
    }

    /// Checks the signature alone; returns the device's number and the answer.
    pub fn verify_any<'a>(&self, bytes: &'a [u8]) -> Option<(usize, Answer<'a>)> {
        let answer = Answer::decode(bytes).ok()?;
        let device = *self.index.get(answer.device)?;
        let expected = signature(self.keys[device], bytes.get(..48)?, answer.device.as_bytes());
        (expected == answer.signature).then_some((device, answer))
    }
}

fn answers(answer: &Answer<'_>, request: &Request) -> bool {
    answer.kind == request.kind as u8
        && answer.connection == request.connection
        && answer.sequence == request.sequence
        && answer.argument == request.argument
}

/// The content of a bulk transfer: an endless stream of bytes determined by a seed.
#[derive(Clone, Debug)]
pub struct Content {
    seed: u64,
    offset: u64,
}

impl Content {
    /// The stream of this seed, from its beginning.
    pub fn new(seed: u64) -> Self {
        Self { seed, offset: 0 }
    }

    /// Bytes given out so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn word(&self, index: u64) -> [u8; 8] {
        finish(self.seed.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP))).to_be_bytes()
    }

    /// Fills `out` with the next bytes of the stream.
    pub fn fill(&mut self, out: &mut [u8]) {
        let mut rest = out;
        while !rest.is_empty() {
            let skip = (self.offset % 8) as usize;
            let word = self.word(self.offset / 8);
            let n = rest.len().min(8 - skip);
            let (head, tail) = rest.split_at_mut(n);
            head.copy_from_slice(&word[skip..skip + n]);
            self.offset += n as u64;
            rest = tail;
        }
    }

    /// Compares `received` with the next bytes of the stream: `Err` holds the offset of the first wrong
    /// byte.
    pub fn matches(&mut self, received: &[u8]) -> std::result::Result<(), u64> {
        let start = self.offset;
        let mut expected = [0u8; 4096];
        for (i, chunk) in received.chunks(expected.len()).enumerate() {
            let expected = &mut expected[..chunk.len()];
            self.fill(expected);
            if let Some(wrong) = chunk.iter().zip(expected.iter()).position(|(a, b)| a != b) {
                return Err(start + (i * 4096 + wrong) as u64);
            }
        }
        Ok(())
    }
}

/// Digest of a bulk transfer's content: the same on both sides exactly if the content is.
#[derive(Clone, Debug)]
pub struct Digest(SipHasher24);

impl Default for Digest {
    fn default() -> Self {
        Self(SipHasher24::new_with_keys(0, 0))
    }
}

impl Digest {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The digest of all bytes so far.
    pub fn finish(&self) -> [u8; 16] {
        self.0.finish128().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request = Request { kind: Kind::Work, connection: 7, sequence: 9, argument: 1000 };

    fn ring() -> Keyring {
        Keyring::derive(1, ["s1/cpu", "s1/nic"]).unwrap()
    }

    fn signed(by: &str, key_of: &str) -> Vec<u8> {
        let mut out = Vec::new();
        sign(&REQUEST, by, ring().key(key_of).unwrap(), [0; 16], &mut out);
        out
    }

    #[test]
    fn requests_survive_the_wire() {
        for kind in [Kind::Work, Kind::Probe, Kind::Download, Kind::Upload] {
            let request = Request { kind, ..REQUEST };
            let mut bytes = Vec::new();
            request.encode(100, &mut bytes);
            assert_eq!(bytes.len(), 100);
            assert_eq!(Request::decode(&bytes), Ok(request));
            for cut in 0..REQUEST_LEN {
                assert_eq!(Request::decode(&bytes[..cut]), Err(Malformed::Truncated));
            }
        }
        let mut bytes = Vec::new();
        REQUEST.encode(0, &mut bytes);
        bytes[4] = 9;
        assert_eq!(Request::decode(&bytes), Err(Malformed::Kind));
        bytes[0] = 0;
        assert_eq!(Request::decode(&bytes), Err(Malformed::Magic));
    }

    #[test]
    fn only_the_true_device_verifies() {
        assert_eq!(ring().verify(&signed("s1/nic", "s1/nic"), &REQUEST), Verdict::Good(1));
        assert_eq!(ring().verify(&signed("s1/nic", "s1/cpu"), &REQUEST), Verdict::Forged);
        let other = Request { sequence: 10, ..REQUEST };
        assert_eq!(ring().verify(&signed("s1/cpu", "s1/cpu"), &other), Verdict::OtherRequest);
        let stranger = Keyring::derive(2, ["s1/cpu", "s1/nic"]).unwrap();
        assert_eq!(stranger.verify(&signed("s1/cpu", "s1/cpu"), &REQUEST), Verdict::Forged);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let good = signed("s1/cpu", "s1/cpu");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ring().verify(&bad, &REQUEST), Verdict::Forged, "bit {bit}");
        }
        for cut in 0..good.len() {
            assert_eq!(ring().verify(&good[..cut], &REQUEST), Verdict::Forged, "cut {cut}");
        }
    }

    #[test]
    fn keyrings_refuse_bad_names() {
        assert!(Keyring::derive(1, ["a", "a"]).is_err());
        assert!(Keyring::derive(1, [""]).is_err());
        assert!(Keyring::derive(1, ["x".repeat(65)]).is_err());
    }

    #[test]
    fn content_is_the_same_however_it_is_cut() {
        let mut whole = vec![0; 10_000];
        Content::new(3).fill(&mut whole);
        let mut pieces = Content::new(3);
        for size in [1, 7, 8, 13, 4096, 100] {
            let at = pieces.offset() as usize;
            let mut piece = vec![0; size];
            pieces.fill(&mut piece);
            assert_eq!(piece, whole[at..at + size]);
        }
        assert_eq!(Content::new(3).matches(&whole), Ok(()));
        whole[9_000] ^= 1;
        let mut check = Content::new(3);
        assert_eq!(check.matches(&whole[..5_001]), Ok(()));
        assert_eq!(check.matches(&whole[5_001..]), Err(9_000));
    }
}
