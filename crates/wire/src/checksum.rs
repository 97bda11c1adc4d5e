//! The Internet checksum (RFC 1071).
//!
//! A sum is a number whose remainder modulo 2^16 - 1 counts: sums of parts, and numbers of up to 32 bits at even places,
//! may simply be added. Only zeros have the sum 0.

/// Sum of bytes that begin at an even place: 0 to 0xffff. A last odd byte is the high half of a word.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    // Swapping the bytes of all words swaps those of the sum: on most machines that saves a swap for every word.
    let (pairs, rest) = bytes.as_chunks::<8>();
    let mut all = pairs.iter().fold(0, |sum, pair| {
        let pair = u64::from_le_bytes(*pair);
        sum + (pair >> 32) + (pair & 0xffff_ffff)
    });
    let (words, rest) = rest.as_chunks::<4>();
    all = words.iter().fold(all, |sum, word| sum + u64::from(u32::from_le_bytes(*word)));
    let tail = rest.iter().rev().fold(0, |tail, byte| tail << 8 | u64::from(*byte));
    folded(all + tail).swap_bytes().into()
}

/// A sum in 16 bits: 0xffff over bytes that have their checksum among them. The checksum is the complement.
#[inline]
pub fn folded(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The checksum of a UDP datagram with this sum: never 0, which means no checksum (RFC 768).
#[inline]
pub fn of_udp(sum: u64) -> u16 {
    match !folded(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

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
        let mut random = Random::new(1);
        for length in (0..200).chain([1447, 1448, 65_535]) {
            check(&vec![0; length]);
            check(&vec![0xff; length]);
            check(&random.bytes(length));
        }
        for n in [0, 1, 0xfffe, 0xffff, 0x1_0000, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let by_division = if n == 0 { 0 } else { (n - 1) % 0xffff + 1 };
            assert_eq!(u64::from(folded(n)), by_division);
        }
        // RFC 1071, section 3.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!((of_udp(0xffff), of_udp(1)), (0xffff, 0xfffe));
    }
}
