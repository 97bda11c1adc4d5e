//! The two checksums that kernels leave to the hardware.

/// The ones' complement sum of `bytes` taken as big-endian 16-bit words, folded to 16 bits but not inverted
/// (RFC 1071). An odd last byte is the high half of a word. Sums of parts may be added, as long as every part but
/// the last has an even length.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    // The sum does not depend on the byte order in which it is taken, up to one swap of the result
    // (RFC 1071, section 2 (B)), nor on the width of the words (2 (C)).
    let (chunks, rest) = bytes.as_chunks::<8>();
    let mut total = 0u64;
    for chunk in chunks {
        let word = u64::from_ne_bytes(*chunk);
        total += (word & 0xffff_ffff) + (word >> 32);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let word = u64::from_ne_bytes(last);
    total += (word & 0xffff_ffff) + (word >> 32);
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    u32::from(u16::from_be(total as u16))
}

/// Folds a sum of sums and inverts it: the value that goes into the header.
pub(crate) fn finish(mut total: u32) -> u16 {
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

/// The CRC-32C of SCTP (RFC 9260, appendix A) over the parts in turn.
pub(crate) fn crc32c<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let crc = parts
        .into_iter()
        .flatten()
        .fold(!0u32, |crc, &byte| (crc >> 8) ^ CRC32C[usize::from(crc as u8 ^ byte)]);
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_agree_with_adding_word_by_word() {
        let bytes: Vec<u8> = (0..2000u32).map(|i| (i * i * 31 + i * 7 + 200) as u8).collect();
        for length in (0..70).chain([1447, 1448, 1999, 2000]) {
            let mut plain = 0u32;
            for pair in bytes[..length].chunks(2) {
                plain += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
                plain = (plain & 0xffff) + (plain >> 16);
            }
            assert_eq!(finish(sum(&bytes[..length])), finish(plain), "length {length}");
        }
        assert_eq!(finish(sum(&[0xff; 64])), 0);
    }

    #[test]
    fn the_example_of_rfc_1071_comes_out() {
        // RFC 1071, section 3: the sum of these words is ddf2.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn crc32c_has_its_check_value() {
        assert_eq!(crc32c([&b"12345"[..], b"6789"]), 0xe306_9283);
    }
}
