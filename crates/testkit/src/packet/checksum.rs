//! The Internet checksum (RFC 1071), computed the plain way: independent of `pointsman-wire`, whose users it checks.

/// A checksum field of a frame that is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Computed.
    Right,
    /// As given; 0 is UDP's "none".
    Is(u16),
}

/// The checksum of `bytes`: the complement of the one's complement sum of its 16-bit words, the last one padded.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8;
        sum += u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The pseudo header of TCP, UDP and ICMPv6 (RFC 9293 section 3.1, RFC 8200 section 8.1).
pub(crate) fn pseudo_header(src: &[u8], dst: &[u8], proto: u8, len: usize) -> Vec<u8> {
    let mut out = [src, dst].concat();
    out.extend((len as u32).to_be_bytes());
    out.extend([0, 0, 0, proto]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, section 3.
    #[test]
    fn numerical_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), !0xddf2);
        assert_eq!(checksum(&bytes[..7]), !0xdcfb);
        assert_eq!(checksum(&[]), 0xffff);
    }
}
