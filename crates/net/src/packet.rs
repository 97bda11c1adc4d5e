//! Frames on their way.

use pointsman_wire::checksum::{folded, sum};
use std::ops::{Deref, DerefMut};

/// A frame on its way, in a box: links, queues and hosts hand on a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet(Box<Bytes>);

/// The bytes of a [`Packet`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bytes(Vec<u8>);

impl From<Vec<u8>> for Packet {
    fn from(bytes: Vec<u8>) -> Self {
        Packet(Box::new(Bytes(bytes)))
    }
}

impl Deref for Packet {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0.0
    }
}

impl DerefMut for Packet {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0.0
    }
}

/// A queue on the way marks congestion (RFC 3168), if the sender understands it: whether it does.
pub fn mark_congestion(b: &mut [u8]) -> bool {
    match b {
        [_, _, _, _, _, _, _, _, _, _, _, _, 8, 0, 0x45, ecn, rest @ ..]
            if *ecn & 3 != 0 && rest.len() >= 18 =>
        {
            *ecn |= 3;
            b[24..26].fill(0);
            let check = !folded(sum(&b[14..34]));
            b[24..26].copy_from_slice(&check.to_be_bytes());
            true
        }
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, v, ecn, ..] if *v >> 4 == 6 && *ecn & 0x30 != 0 => {
            *ecn |= 0x30;
            true
        }
        _ => false,
    }
}

/// Whether a queue on the way has marked a frame.
#[inline]
pub fn is_marked(b: &[u8]) -> bool {
    match b {
        [_, _, _, _, _, _, _, _, _, _, _, _, 8, 0, 0x45, ecn, ..] => *ecn & 3 == 3,
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, _, ecn, ..] => *ecn & 0x30 == 0x30,
        _ => false,
    }
}
