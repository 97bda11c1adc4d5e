//! Frames as bytes: writing TCP and UDP over IPv4 with lengths and checksums, and reading fields.

use pointsman_wire::checksum::{folded, sum};

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;

/// Offset of the IPv4 header.
pub const IPV4: usize = ETHERNET;

/// TCP.
pub const TCP: u8 = 6;

/// UDP.
pub const UDP: u8 = 17;

/// Shortest frame on Ethernet, without its check sequence.
pub const SHORTEST: usize = 60;

/// A 16-bit number.
#[inline]
pub fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A 32-bit number.
#[inline]
pub fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes a 16-bit number.
#[inline]
pub fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes a 32-bit number.
#[inline]
pub fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// A segment or datagram over IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Destination MAC address.
    pub dst_mac: [u8; 6],
    /// Source MAC address.
    pub src_mac: [u8; 6],
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
    /// TCP or UDP; other protocols also get the ports.
    pub protocol: u8,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Of TCP.
    pub flags: u8,
}

impl Fields {
    /// Writes the frame into `out`: [`SHORTEST`] bytes.
    pub fn write(&self, out: &mut [u8; SHORTEST]) {
        *out = [0; SHORTEST];
        out[0..6].copy_from_slice(&self.dst_mac);
        out[6..12].copy_from_slice(&self.src_mac);
        put16(out, 12, 0x0800);
        out[IPV4] = 0x45;
        let length = (SHORTEST - IPV4) as u16;
        put16(out, IPV4 + 2, length);
        put16(out, IPV4 + 6, 0x4000);
        out[IPV4 + 8] = 64;
        out[IPV4 + 9] = self.protocol;
        put32(out, IPV4 + 12, self.src);
        put32(out, IPV4 + 16, self.dst);
        let checksum = !folded(sum(&out[IPV4..IPV4 + 20]));
        put16(out, IPV4 + 10, checksum);

        let l4 = IPV4 + 20;
        put16(out, l4, self.sport);
        put16(out, l4 + 2, self.dport);
        let at = if self.protocol == TCP {
            put32(out, l4 + 4, 1);
            out[l4 + 12] = 0x50;
            out[l4 + 13] = self.flags;
            put16(out, l4 + 14, 0xffff);
            l4 + 16
        } else {
            put16(out, l4 + 4, length - 20);
            l4 + 6
        };
        if self.protocol == TCP || self.protocol == UDP {
            let pseudo = sum(&out[IPV4 + 12..IPV4 + 20]) + u64::from(self.protocol) + u64::from(length - 20);
            let checksum = !folded(pseudo + sum(&out[l4..]));
            put16(out, at, checksum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both checksums of a frame are right.
    fn check(frame: &[u8], protocol: u8) {
        assert_eq!(folded(sum(&frame[IPV4..IPV4 + 20])), 0xffff, "IPv4");
        let length = (frame.len() - IPV4 - 20) as u64;
        let pseudo = sum(&frame[IPV4 + 12..IPV4 + 20]) + u64::from(protocol) + length;
        assert_eq!(folded(pseudo + sum(&frame[IPV4 + 20..])), 0xffff, "protocol {protocol}");
    }

    #[test]
    fn checksums() {
        for protocol in [TCP, UDP] {
            let fields = Fields {
                dst_mac: [2; 6],
                src_mac: [4; 6],
                src: 0x0b00_ffff,
                dst: 0x0a00_0064,
                protocol,
                sport: 65_535,
                dport: 80,
                flags: 2,
            };
            let mut frame = [0; SHORTEST];
            fields.write(&mut frame);
            check(&frame, protocol);
        }
    }
}
