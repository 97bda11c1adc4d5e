//! The check value of RoCEv2 (iCRC): CRC-32 over what no router changes, with ones in the place of what routers do change.

use pointsman_wire::crc::{crc32, crc32_after};

/// Bytes of the check value.
pub const BYTES: usize = 4;

/// The check value of a packet: its IP header without options, and from the UDP header on to what comes before the check value.
pub fn check_value(ip: &[u8], udp: &[u8]) -> [u8; BYTES] {
    // In front, in the place of InfiniBand's own link header: eight bytes of ones. Then at most 40 of IP, 8 of UDP, 12 of InfiniBand.
    let mut front = [0xff; 68];
    let masked = front.len().min(8 + ip.len());
    let head = &mut front[8..masked];
    let head_len = head.len();
    head.copy_from_slice(&ip[..head_len]);
    if head_len == 20 {
        // Type of service, time to live, checksum.
        for at in [1, 8, 10, 11] {
            head[at] = 0xff;
        }
    } else if head_len == 40 {
        // Traffic class, flow label, hop limit.
        head[0] |= 0x0f;
        for at in [1, 2, 3, 7] {
            head[at] = 0xff;
        }
    }
    let mut crc = crc32(&front[..masked]);
    let mut fixed = [0; 20];
    let (first, rest) = udp.split_at(udp.len().min(fixed.len()));
    let fixed = &mut fixed[..first.len()];
    fixed.copy_from_slice(first);
    // UDP's checksum, and the byte with the marks of congestion.
    for at in [6, 7, 12] {
        if let Some(byte) = fixed.get_mut(at) {
            *byte = 0xff;
        }
    }
    crc = crc32_after(crc, fixed);
    crc32_after(crc, rest).to_le_bytes()
}
