//! The checksum of SCTP: like the Internet checksum, kernels leave it to the hardware.

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
    fn crc32c_has_its_check_value() {
        assert_eq!(crc32c([&b"12345"[..], b"6789"]), 0xe306_9283);
    }
}
