//! Messages between the nodes of a chain, as bytes.

use super::bytes::{Reader, put};
use super::view::Member;
use crate::message::{Malformed, Secret, TAIL};
use pointsman_wire::siphash::half_sip_hash;

/// What messages between nodes begin with: messages of switches begin with their version, 1.
const MAGIC: [u8; 4] = *b"PMC2";

const STATUS: u8 = 1;
const UPDATES: u8 = 2;
const COPY: u8 = 3;

/// A message of a node to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub from: Member,
    /// The number of the sender's view.
    pub view: u64,
    pub body: Body<'a>,
}

/// What a node sends to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// Alive, with this state.
    Status(Status),
    /// Updates, from the predecessor or, to the node that joins, from the tail.
    Updates {
        /// The number of the first one.
        first: u64,
        /// Updates up to this number were applied by the whole chain.
        acked: u64,
        /// From now on the tail answers only when the node that joins has applied the update.
        handed: bool,
        updates: Vec<&'a [u8]>,
    },
    /// A part of the data, to the node that joins.
    Copy {
        /// Parts are numbered from 0 on.
        index: u32,
        last: bool,
        /// All updates up to this number are part of the data.
        start: u64,
        update: &'a [u8],
    },
}

/// How far a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// The last update that it applied.
    pub applied: u64,
    /// The last update that was applied by all nodes from it to the tail.
    pub acked: u64,
    /// The update with which its copy began.
    pub start: u64,
    /// Parts of the data that it copied.
    pub copied: u32,
    /// It has all parts.
    pub complete: bool,
    /// It knows that the tail answers nothing without it.
    pub handed: bool,
    /// It has later updates than this one, and asks for those from `applied` up to it; 0: it misses none.
    pub missing: u64,
}

impl Frame<'_> {
    pub fn encode(&self, secret: Secret) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.extend(MAGIC);
        put(&mut out, self.from.name().as_bytes());
        out.extend(self.from.run().to_be_bytes());
        out.extend(self.view.to_be_bytes());
        match &self.body {
            Body::Status(status) => {
                out.push(STATUS);
                out.extend(status.applied.to_be_bytes());
                out.extend(status.acked.to_be_bytes());
                out.extend(status.start.to_be_bytes());
                out.extend(status.copied.to_be_bytes());
                out.push(u8::from(status.complete));
                out.push(u8::from(status.handed));
                out.extend(status.missing.to_be_bytes());
            }
            Body::Updates { first, acked, handed, updates } => {
                out.push(UPDATES);
                out.extend(first.to_be_bytes());
                out.extend(acked.to_be_bytes());
                out.push(u8::from(*handed));
                updates.iter().for_each(|update| put(&mut out, update));
            }
            Body::Copy { index, last, start, update } => {
                out.push(COPY);
                out.extend(index.to_be_bytes());
                out.push(u8::from(*last));
                out.extend(start.to_be_bytes());
                put(&mut out, update);
            }
        }
        let digest = half_sip_hash(secret, &out);
        out.extend(digest);
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is malformed, or the secret gives another digest.
    pub fn decode(secret: Secret, bytes: &[u8]) -> Result<Frame<'_>, Malformed> {
        let (signed, digest) = bytes.split_last_chunk::<TAIL>().ok_or(Malformed::Length)?;
        let Some(fields) = signed.strip_prefix(&MAGIC) else {
            return Err(Malformed::Version(bytes[0]));
        };
        if half_sip_hash(secret, signed) != *digest {
            return Err(Malformed::Digest);
        }
        read(&mut Reader(fields)).ok_or(Malformed::Length)
    }
}

/// Whether a message of a node, with a right digest, says only how far the node is.
pub fn is_status(bytes: &[u8]) -> bool {
    let fields = bytes.strip_prefix(&MAGIC).map(Reader);
    let kind = fields.and_then(|mut reader| {
        reader.bytes()?;
        reader.take(16)?;
        reader.u8()
    });
    kind == Some(STATUS)
}

fn read<'a>(reader: &mut Reader<'a>) -> Option<Frame<'a>> {
    let name = std::str::from_utf8(reader.bytes()?).ok()?;
    let from = Member::new(name, reader.u64()?).ok()?;
    let view = reader.u64()?;
    let flag = |reader: &mut Reader<'a>| reader.u8().filter(|byte| *byte < 2).map(|byte| byte == 1);
    let body = match reader.u8()? {
        STATUS => Body::Status(Status {
            applied: reader.u64()?,
            acked: reader.u64()?,
            start: reader.u64()?,
            copied: reader.u32()?,
            complete: flag(reader)?,
            handed: flag(reader)?,
            missing: reader.u64()?,
        }),
        UPDATES => {
            let (first, acked, handed) = (reader.u64()?, reader.u64()?, flag(reader)?);
            let mut updates = Vec::new();
            while !reader.0.is_empty() {
                updates.push(reader.bytes()?);
            }
            Body::Updates { first, acked, handed, updates }
        }
        COPY => {
            let (index, last, start) = (reader.u32()?, flag(reader)?, reader.u64()?);
            Body::Copy { index, last, start, update: reader.bytes()? }
        }
        _ => return None,
    };
    reader.0.is_empty().then_some(Frame { from, view, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_back() {
        let from = Member::new("a", 17).expect("a name");
        let status =
            Status { applied: 9, acked: 8, start: 6, copied: 7, complete: true, handed: false, missing: 12 };
        let updates: Vec<&[u8]> = vec![b"one", b"", b"three"];
        let bodies = [
            Body::Status(status),
            Body::Updates { first: 3, acked: 2, handed: true, updates },
            Body::Updates { first: 3, acked: 2, handed: false, updates: Vec::new() },
            Body::Copy { index: 1, last: true, start: 5, update: b"rows" },
        ];
        for body in bodies {
            let frame = Frame { from: from.clone(), view: 6, body };
            let bytes = frame.encode(*b"a secret");
            assert_eq!(Frame::decode(*b"a secret", &bytes), Ok(frame));
            assert_eq!(Frame::decode(*b"A secret", &bytes), Err(Malformed::Digest));
            for bit in 0..8 * bytes.len() {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(Frame::decode(*b"a secret", &bad).is_err(), "bit {bit}");
            }
            for n in 0..bytes.len() {
                assert!(Frame::decode(*b"a secret", &bytes[..n]).is_err(), "{n}");
            }
        }
        // Signed by someone who has the secret, but not a message.
        let mut random = pointsman_wire::Random::new(1);
        for length in 0..2000 {
            let junk = (0..length % 120).map(|_| random.below(4) as u8);
            let mut bytes: Vec<u8> = MAGIC.into_iter().chain(junk).collect();
            let digest = half_sip_hash([0; 8], &bytes);
            bytes.extend(digest);
            let _ = Frame::decode([0; 8], &bytes);
        }
    }
}
