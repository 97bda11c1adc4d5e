//! Messages between switches and store, as bytes.

use pointsman_wire::siphash::half_sip_hash;
use std::error::Error;
use std::fmt;

/// The version of the format.
pub const VERSION: u8 = 1;
/// Bytes in front of the key.
pub const FRONT: usize = 48;
/// Bytes of the digest, which follows the value.
pub const TAIL: usize = 8;
/// The longest key, in bytes. Keys are a multiple of 4 bytes long.
pub const MAX_KEY: usize = 64;
/// The longest value, in bytes. Values are a multiple of 4 bytes long.
pub const MAX_VALUE: usize = 256;

/// The key of the digests, shared by the store and its switches.
pub type Secret = [u8; 8];

/// The kind of a message. An answer has the kind of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A switch asks for a key's state and a lease on it.
    New = 1,
    /// A new value.
    Write = 2,
    /// A longer lease.
    Renew = 3,
    /// The write that a packet waits for, sent again, with this packet.
    Read = 4,
    /// A cell of a snapshot of several arrays; with [`Flags::existing`], one of the last complete snapshot is asked for.
    Snapshot = 5,
    /// The end of a lease, with the last value.
    Release = 6,
    /// The store asks the owner for a release; an answer without a request.
    Recall = 7,
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Kind> {
        use Kind::{New, Read, Recall, Release, Renew, Snapshot, Write};
        [New, Write, Renew, Read, Snapshot, Release, Recall].into_iter().find(|k| *k as u8 == bits)
    }
}

/// Bit of the kind's byte that marks messages of the store.
const ANSWER: u8 = 0x80;
/// Bit of the kind's byte for [`Flags::shared`]: the byte of the other flags is full.
const SHARED: u8 = 0x40;

/// The meaning of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Done. In requests, too.
    #[default]
    Ok = 0,
    /// The grant of the request is not the current one: its sender no longer owns the key.
    Stale = 1,
    /// The store has no room for another key.
    Full = 2,
    /// The value has another length than that of the stored state.
    Size = 3,
    /// The store does not have this shard.
    Shard = 4,
    /// The store does not know the key, and was asked not to add it.
    Unknown = 5,
    /// No port of the store's pools is free for the key, or the store has no pool.
    Exhausted = 6,
}

impl Status {
    fn from_bits(bits: u8) -> Option<Status> {
        use Status::{Exhausted, Full, Ok, Shard, Size, Stale, Unknown};
        [Ok, Stale, Full, Size, Shard, Unknown, Exhausted].into_iter().find(|s| *s as u8 == bits)
    }
}

/// Bits that say more about a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// A packet follows the digest.
    pub packet: bool,
    /// This packet has yet to be processed by the program; otherwise it is an output of it.
    pub input: bool,
    /// Of answers to [`Kind::New`]: the key was unknown, so that the state is the one that the request proposed. Of answers to
    /// [`Kind::Snapshot`]: the snapshot is complete.
    pub created: bool,
    /// Of [`Kind::New`]: only if the store knows the key. Of [`Kind::Snapshot`]: the value is asked for.
    pub existing: bool,
    /// Of [`Kind::New`]: a key that the store does not know gets a port of a [`Pool`](crate::Pool).
    pub allocate: bool,
    /// Of requests under a grant, and of those for a fixed key: the key is needed for a short time only, from now on.
    pub ending: bool,
    /// Of requests: the lease is one for all keys that this start of the switch has under such leases.
    pub session: bool,
    /// Of [`Kind::New`]: the key is fixed. It has a value that does not change, and no owner.
    pub fixed: bool,
    /// The lease is shared: other switches may have one, too, and none of them may write. It has a bit in the byte of the kind.
    pub shared: bool,
}

impl Flags {
    /// Those in the byte of flags, in the order of their bits, from the lowest one.
    fn all(&mut self) -> [&mut bool; 8] {
        [
            &mut self.packet,
            &mut self.input,
            &mut self.created,
            &mut self.existing,
            &mut self.allocate,
            &mut self.ending,
            &mut self.session,
            &mut self.fixed,
        ]
    }

    fn bits(mut self) -> u8 {
        self.all().into_iter().enumerate().fold(0, |bits, (n, flag)| bits | u8::from(*flag) << n)
    }

    fn from_bits(bits: u8, shared: bool) -> Flags {
        let mut flags = Flags { shared, ..Flags::default() };
        flags.all().into_iter().enumerate().for_each(|(n, flag)| *flag = bits & 1 << n != 0);
        flags
    }

    /// Whether a message of this kind can have them together: a fixed key has no lease, and no port of a pool; a shared lease is one of a single
    /// key that has no port, and allows no write.
    fn fit(&self, kind: Kind) -> bool {
        let lends = matches!(kind, Kind::New | Kind::Renew | Kind::Release | Kind::Recall);
        let plain = !self.allocate && !self.session;
        (!self.fixed || kind == Kind::New && plain && !self.shared) && (!self.shared || lends && plain)
    }
}

/// The fields in front of the key. Answers repeat those of their request, apart from the ones of the store: `status`, `grant`,
/// `sequence`, `lease_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What is asked or answered.
    pub kind: Kind,
    /// Whether the store sent it.
    pub answer: bool,
    /// More about it.
    pub flags: Flags,
    /// The result, in answers.
    pub status: Status,
    /// The protected object of the program: keys of different objects are different keys.
    pub object: u16,
    /// The part of the keys that this one belongs to.
    pub shard: u16,
    /// The switch's number.
    pub switch: u16,
    /// The port that the packet leaves by, or that it came in by if the program has yet to process it. The switch's affair.
    pub port: u16,
    /// The start of the switch since when it has had its state: a later start has a later number.
    pub incarnation: u32,
    /// How often this incarnation gave up the state of a key in the place of this one.
    pub generation: u32,
    /// The number of the grant under which the request was made; in answers the current one. 0: none.
    pub grant: u32,
    /// The number of the write; in answers that of the last one applied. Of a snapshot: its number, not 0.
    pub sequence: u32,
    /// Number of the request in its place in the switch: a packet is taken from one answer to it. The switch's affair. Of a snapshot: the
    /// number of cells, and that of this cell from 0, with 16 bits each.
    pub request: u32,
    /// When the request was sent, by the clock of the switch. The switch's affair.
    pub stamp: u64,
    /// In answers: the lease's term in microseconds, counted from `stamp`. 0: not extended. With [`Flags::fixed`] milliseconds: in requests for
    /// how long from now on the key is kept at least, in answers the longest such term.
    pub lease_us: u32,
}

/// A message: its fields, and views of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The fixed fields.
    pub head: Head,
    /// The key, as the program packs it.
    pub key: &'a [u8],
    /// The state, as the program packs it.
    pub value: &'a [u8],
    /// The packet; empty without one.
    pub packet: &'a [u8],
}

/// Bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer bytes than the fields need, or bytes behind the digest without the flag of a packet.
    Length,
    /// A version that this store does not know.
    Version(u8),
    /// A kind or status that this version does not have, or flags that do not belong together.
    Kind,
    /// A key or value that is empty, too long, or not a multiple of 4 bytes.
    Sizes,
    /// A digest that the secret does not give: forged or damaged.
    Digest,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Length => f.write_str("the length does not fit the fields"),
            Malformed::Version(v) => write!(f, "version {v}, but this is version {VERSION}"),
            Malformed::Kind => f.write_str("unknown kind or status, or flags that do not belong together"),
            Malformed::Sizes => {
                write!(
                    f,
                    "key or value is empty, longer than {MAX_KEY} or {MAX_VALUE} bytes, or not whole words"
                )
            }
            Malformed::Digest => f.write_str("wrong digest: give switches and store the same secret"),
        }
    }
}

impl Error for Malformed {}

/// Whether a number is later than another: serial arithmetic, as numbers of 32 bits wrap around (RFC 1982).
#[inline]
pub fn later(a: u32, b: u32) -> bool {
    let ahead = a.wrapping_sub(b);
    ahead != 0 && ahead < 1 << 31
}

fn word16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from(word16(bytes, at)) << 16 | u32::from(word16(bytes, at + 2))
}

impl Head {
    /// The least that a request has: that of a switch in incarnation 1, without a grant; the rest is 0.
    pub fn of(kind: Kind, switch: u16) -> Head {
        Head {
            kind,
            answer: false,
            flags: Flags::default(),
            status: Status::Ok,
            object: 0,
            shard: 0,
            switch,
            port: 0,
            incarnation: 1,
            generation: 0,
            grant: 0,
            sequence: 0,
            request: 0,
            stamp: 0,
            lease_us: 0,
        }
    }

    fn decode(b: &[u8; FRONT]) -> Result<Head, Malformed> {
        if b[0] != VERSION {
            return Err(Malformed::Version(b[0]));
        }
        let kind = Kind::from_bits(b[1] & !(ANSWER | SHARED)).ok_or(Malformed::Kind)?;
        let flags = Flags::from_bits(b[2], b[1] & SHARED != 0);
        Ok(Head {
            kind,
            answer: b[1] & ANSWER != 0,
            flags: Some(flags).filter(|flags| flags.fit(kind)).ok_or(Malformed::Kind)?,
            status: Status::from_bits(b[3]).ok_or(Malformed::Kind)?,
            object: word16(b, 4),
            shard: word16(b, 6),
            switch: word16(b, 8),
            port: word16(b, 10),
            incarnation: word32(b, 12),
            generation: word32(b, 16),
            grant: word32(b, 20),
            sequence: word32(b, 24),
            request: word32(b, 28),
            stamp: u64::from(word32(b, 32)) << 32 | u64::from(word32(b, 36)),
            lease_us: word32(b, 40),
        })
    }

    fn encode(&self, key: usize, value: usize) -> [u8; FRONT] {
        let mut b = [0; FRONT];
        b[0] = VERSION;
        b[1] = self.kind as u8
            | if self.answer { ANSWER } else { 0 }
            | if self.flags.shared { SHARED } else { 0 };
        b[2] = self.flags.bits();
        b[3] = self.status as u8;
        for (i, word) in [self.object, self.shard, self.switch, self.port].into_iter().enumerate() {
            b[4 + 2 * i..6 + 2 * i].copy_from_slice(&word.to_be_bytes());
        }
        let words = [self.incarnation, self.generation, self.grant, self.sequence, self.request];
        for (i, word) in words.into_iter().enumerate() {
            b[12 + 4 * i..16 + 4 * i].copy_from_slice(&word.to_be_bytes());
        }
        b[32..40].copy_from_slice(&self.stamp.to_be_bytes());
        b[40..44].copy_from_slice(&self.lease_us.to_be_bytes());
        b[44..46].copy_from_slice(&(key as u16).to_be_bytes());
        b[46..48].copy_from_slice(&(value as u16).to_be_bytes());
        b
    }
}

impl<'a> Message<'a> {
    /// Reads the payload of a datagram.
    ///
    /// # Errors
    /// It is malformed, or the secret gives another digest.
    #[inline]
    pub fn decode(secret: Secret, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (message, signed) = Self::split(bytes)?;
        let digest = half_sip_hash(secret, &bytes[..signed]);
        if digest == bytes[signed..signed + TAIL] { Ok(message) } else { Err(Malformed::Digest) }
    }

    /// Reads a message whose digest was verified before. Also returns how many bytes the digest covers.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<(Self, usize), Malformed> {
        let front = bytes.first_chunk::<FRONT>().ok_or(Malformed::Length)?;
        let head = Head::decode(front)?;
        let (key, value) = (usize::from(word16(front, 44)), usize::from(word16(front, 46)));
        let fits = |n: usize, max: usize| n > 0 && n <= max && n.is_multiple_of(4);
        if !fits(key, MAX_KEY) || !fits(value, MAX_VALUE) {
            return Err(Malformed::Sizes);
        }
        let signed = FRONT + key + value;
        let packet = bytes.get(signed + TAIL..).ok_or(Malformed::Length)?;
        if packet.is_empty() == head.flags.packet {
            return Err(Malformed::Length);
        }
        let (key, value) = bytes[FRONT..signed].split_at(key);
        Ok((Message { head, key, value, packet }, signed))
    }

    /// Appends the message as bytes. The flag for a packet follows from `packet`.
    pub fn encode(&self, secret: Secret, out: &mut Vec<u8>) {
        let mut head = self.head;
        head.flags.packet = !self.packet.is_empty();
        let start = out.len();
        out.extend(head.encode(self.key.len(), self.value.len()));
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
        let digest = half_sip_hash(secret, &out[start..]);
        out.extend(digest);
        out.extend_from_slice(self.packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            kind: Kind::Write,
            answer: false,
            flags: Flags { packet: true, ..Flags::default() },
            status: Status::Ok,
            object: 1,
            shard: 2,
            switch: 3,
            port: 4,
            incarnation: 5,
            generation: 6,
            grant: 7,
            sequence: 8,
            request: 9,
            stamp: 10 << 40,
            lease_us: 11,
        }
    }

    #[test]
    fn bytes_and_back() {
        let message = Message { head: head(), key: &[1; 12], value: &[2; 8], packet: &[3; 60] };
        let mut bytes = Vec::new();
        message.encode(*b"a secret", &mut bytes);
        assert_eq!(bytes.len(), FRONT + 20 + TAIL + 60);
        assert_eq!(&bytes[..12], [1, 2, 1, 0, 0, 1, 0, 2, 0, 3, 0, 4]);
        assert_eq!(Message::decode(*b"a secret", &bytes), Ok(message));
        assert_eq!(Message::decode(*b"A secret", &bytes), Err(Malformed::Digest));
    }

    #[test]
    fn bad_bytes_are_errors() {
        let message = Message { head: head(), key: &[1; 4], value: &[2; 4], packet: &[3; 6] };
        let mut good = Vec::new();
        message.encode([0; 8], &mut good);
        for n in 0..good.len() {
            let result = Message::decode([0; 8], &good[..n]);
            // The packet is not signed: a shorter one is another packet.
            assert_eq!(result.is_ok(), n > good.len() - 6, "{n}");
        }
        let signed = FRONT + 8 + TAIL;
        for bit in 0..8 * signed {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Message::decode([0; 8], &bytes).is_err(), "bit {bit}");
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Message::decode([0; 8], &bytes).map(|m| m.head)
        };
        assert_eq!(with(0, 2), Err(Malformed::Version(2)));
        assert_eq!(with(1, 8), Err(Malformed::Kind));
        assert_eq!(with(2, 0x81), Err(Malformed::Kind), "a write of a fixed key");
        assert_eq!(with(1, 0x42), Err(Malformed::Kind), "a write under a shared lease");
        assert_eq!(with(1, 0x44), Err(Malformed::Kind), "a write's packet under a shared lease");
        assert_eq!(with(1, 0x45), Err(Malformed::Kind), "a snapshot under a shared lease");
        assert_eq!(with(3, 7), Err(Malformed::Kind));
        assert_eq!(with(45, 0), Err(Malformed::Sizes));
        assert_eq!(with(45, 68), Err(Malformed::Sizes));
        assert_eq!(with(47, 6), Err(Malformed::Sizes));
    }

    #[test]
    fn shared_leases_have_few_kinds_and_flags() {
        let decoded = |kind: u8, flags: u8| {
            let mut bytes = Vec::new();
            Message { head: head(), key: &[1; 4], value: &[2; 4], packet: &[] }.encode([0; 8], &mut bytes);
            (bytes[1], bytes[2]) = (kind, flags);
            let digest = half_sip_hash([0; 8], &bytes[..FRONT + 8]);
            bytes[FRONT + 8..].copy_from_slice(&digest);
            Message::decode([0; 8], &bytes).map(|m| (m.head.kind, m.head.answer, m.head.flags.shared))
        };
        assert_eq!(decoded(0x41, 8), Ok((Kind::New, false, true)));
        assert_eq!(decoded(0x43, 0), Ok((Kind::Renew, false, true)));
        assert_eq!(decoded(0x46, 0), Ok((Kind::Release, false, true)));
        assert_eq!(decoded(0xc7, 0), Ok((Kind::Recall, true, true)));
        // A port of a pool, a session, a fixed key.
        for flags in [16, 64, 128] {
            assert_eq!(decoded(0x41, flags), Err(Malformed::Kind), "{flags}");
            assert!(decoded(0x01, flags).is_ok(), "{flags}");
        }
    }

    #[test]
    fn serial_numbers_wrap() {
        assert!(later(1, 0) && later(0, u32::MAX) && later(0x8000_0000, 1));
        assert!(!later(0, 0) && !later(0, 1) && !later(u32::MAX, 0) && !later(0x8000_0000, 0));
    }
}
