//! The Internet checksum (RFC 1071).
//!
//! Sums are taken in 64 bits, carries put back at the lower end: folded to 16 bits they equal a sum of 16-bit words,
//! since 2^64 - 1 is a multiple of 2^16 - 1. Sums of parts, and numbers of up to 32 bits at even places, may simply be
//! added.

fn add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

/// Sum of bytes that begin at an even place.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    // Swapping the bytes of all words swaps those of the sum: on most machines that saves a swap for every word.
    let (pairs, rest) = bytes.as_chunks::<16>();
    let mut all = pairs.iter().fold(0, |sum, pair| {
        let pair = u128::from_le_bytes(*pair);
        add(add(sum, pair as u64), (pair >> 64) as u64)
    });
    let (words, rest) = rest.as_chunks::<4>();
    all = words.iter().fold(all, |sum, word| add(sum, u32::from_le_bytes(*word).into()));
    let tail = rest.iter().rev().fold(0, |tail, byte| tail << 8 | u64::from(*byte));
    folded(add(all, tail)).swap_bytes().into()
}

/// A sum in 16 bits: 0xffff over bytes that have their checksum among them.
#[inline]
pub fn folded(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Part, Stream};

    /// Word by word, as in the RFC.
    fn check(bytes: &[u8]) {
        let by_the_book = bytes.chunks(2).fold(0u32, |sum, pair| {
            let sum = sum + (u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
            (sum & 0xffff) + (sum >> 16)
        });
        assert_eq!(u32::from(folded(sum(bytes))), by_the_book, "{bytes:?}");
    }

    #[test]
    fn sums() {
        let mut random = Stream::new(1, Part::Switch, 0);
        for len in 0..200 {
            check(&vec![0; len]);
            check(&vec![0xff; len]);
            let bytes: Vec<u8> = (0..len).map(|_| random.bits() as u8).collect();
            check(&bytes);
        }
        for n in [0, 1, 0xfffe, 0xffff, 0x1_0000, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let by_division = if n == 0 { 0 } else { (n - 1) % 0xffff + 1 };
            assert_eq!(u64::from(folded(n)), by_division);
        }
    }
}
