//! Finishing the work that the kernel left to the hardware: partial checksums and segmentation.
//!
//! A frame of kernel TCP that crosses a veth pair has a checksum over the pseudo-header only, and may be a super-frame
//! of up to 64 KB that a network card would have cut. The header that PACKET_VNET_HDR puts in front describes this; its
//! layout is that of the virtio standard (virtio 1.2, section 5.1.6). [`expand`] does the card's work.

use crate::{DropReason, Frame, FramePool};
use pointsman_wire::checksum::{folded, of_udp, sum};
use pointsman_wire::crc::crc32c;

/// The header's size on a packet socket.
pub(crate) const VNET_HEADER_BYTES: usize = 10;

/// A super-frame that would be cut into more pieces than this is refused. Linux sends no TCP segments with less
/// than 48 bytes of payload (net.ipv4.tcp_min_snd_mss) and no super-frames above 64 KB.
pub(crate) const MAX_SEGMENTS: usize = 65536 / 48 + 1;

const ETHERNET_BYTES: usize = 14;
pub(crate) const NEEDS_CHECKSUM: u8 = 1;

const GSO_NONE: u8 = 0;
pub(crate) const GSO_TCPV4: u8 = 1;
pub(crate) const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Set on top of a TCP type when the super-frame carries CWR.
const GSO_ECN: u8 = 0x80;

pub(crate) const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// `struct virtio_net_hdr`, in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    pub flags: u8,
    pub gso_type: u8,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
}

impl VnetHeader {
    pub fn parse(bytes: &[u8; VNET_HEADER_BYTES]) -> Self {
        // Bytes 2 and 3 (hdr_len) are a hint about buffers that is of no use here.
        let [flags, gso_type, _, _, s0, s1, c0, c1, o0, o1] = *bytes;
        Self {
            flags,
            gso_type,
            gso_size: u16::from_ne_bytes([s0, s1]),
            csum_start: u16::from_ne_bytes([c0, c1]),
            csum_offset: u16::from_ne_bytes([o0, o1]),
        }
    }

    fn needs_checksum(&self) -> bool {
        self.flags & NEEDS_CHECKSUM != 0
    }
}

/// Puts back the 802.1Q tag that the kernel moved from the frame into auxiliary data. `buffer` is the frame with
/// four unused bytes before it, which then are part of it.
pub(crate) fn restore_vlan(buffer: &mut [u8], header: &mut VnetHeader, tpid: u16, tci: u16) {
    buffer.copy_within(4..16, 0);
    buffer[12..14].copy_from_slice(&tpid.to_be_bytes());
    buffer[14..16].copy_from_slice(&tci.to_be_bytes());
    if header.needs_checksum() {
        header.csum_start = header.csum_start.saturating_add(4);
    }
}

/// Appends the ordinary packets that `frame` represents and returns their number. `frame` is scratch space afterwards.
///
/// # Errors
/// The reason why the frame has to be dropped; nothing was appended then.
pub(crate) fn expand(
    header: &VnetHeader,
    frame: &mut [u8],
    pool: &mut FramePool,
    frames: &mut Vec<Frame>,
) -> Result<usize, DropReason> {
    if frame.len() < ETHERNET_BYTES {
        return Err(DropReason::RxTooShort);
    }
    if header.gso_type == GSO_NONE {
        if header.needs_checksum() {
            complete_checksum(header, frame)?;
        }
        frames.push(pool.copy_of(frame));
        return Ok(1);
    }
    let (protocol, version) = match header.gso_type & !GSO_ECN {
        GSO_TCPV4 => (TCP, Some(4)),
        GSO_TCPV6 => (TCP, Some(6)),
        GSO_UDP_L4 => (UDP, None),
        _ => return Err(DropReason::RxUnsupportedOffload),
    };
    let packet = Packet::locate(frame).ok_or(DropReason::RxUnsupportedOffload)?;
    if packet.protocol != protocol
        || version.is_some_and(|version| version != packet.version)
        // The checksum of a tunnelled super-frame is that of the inner packet.
        || (header.needs_checksum() && usize::from(header.csum_start) != packet.l4)
    {
        return Err(DropReason::RxUnsupportedOffload);
    }
    cut(header, frame, &packet, pool, frames)
}

/// Finishes a checksum whose field holds the sum of the pseudo-header.
fn complete_checksum(header: &VnetHeader, frame: &mut [u8]) -> Result<(), DropReason> {
    let start = usize::from(header.csum_start);
    let at = start + usize::from(header.csum_offset);
    if start < ETHERNET_BYTES || at + 2 > frame.len() {
        return Err(DropReason::RxBadOffload);
    }
    if header.csum_offset == 8
        && let Some(packet) = Packet::locate(frame)
        && packet.protocol == SCTP
        && packet.l4 == start
        && at + 4 <= packet.end
    {
        // The same flag means SCTP's CRC, whose field counts as zero (RFC 9260, section 6.8) and is the only
        // one in the packet that is least significant byte first.
        let crc = crc32c([&frame[start..at], &[0; 4], &frame[at + 4..packet.end]]);
        frame[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        return Ok(());
    }
    // For other protocols than UDP both forms of zero are the same.
    let checksum = of_udp(sum(&frame[start..]));
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// Finishes a TCP, UDP or SCTP checksum that a kernel left unfinished, if only the frame itself shows it: frames that
/// reach AF_XDP on a veth have no [`VnetHeader`]. Returns whether it did.
///
/// An unfinished checksum is recognised by its field, which holds the sum of the pseudo-header, not inverted (for SCTP,
/// zero), and by being wrong. Correct checksums are left alone, and so are all other wrong ones. So the only frames
/// that are changed by mistake are damaged ones whose field happens to hold just that sum: one damaged frame in 65,535,
/// as many as a checksum lets pass anyway.
pub(crate) fn finish_unfinished(frame: &mut [u8]) -> bool {
    let Some(packet) = Packet::locate(frame) else {
        return false;
    };
    let Packet { l4, end, protocol, .. } = packet;
    let at = l4
        + match protocol {
            TCP => 16,
            UDP => 6,
            SCTP => 8,
            _ => return false,
        };
    if protocol == SCTP {
        if at + 4 > end || frame[at..at + 4] != [0; 4] {
            return false;
        }
        let crc = crc32c([&frame[l4..end]]);
        frame[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        return crc != 0;
    }
    if at + 2 > end {
        return false;
    }
    let pseudo = folded(packet.pseudo_header(frame, end - l4));
    if be16(frame, at) != Some(pseudo) {
        return false;
    }
    let segment = sum(&frame[l4..end]);
    if !folded(segment + u64::from(pseudo)) == 0 {
        return false;
    }
    put16(frame, at, of_udp(segment));
    true
}

/// Where things are in a frame that holds an IP packet.
pub(crate) struct Packet {
    pub version: u8,
    pub protocol: u8,
    /// The IP header.
    pub l3: usize,
    /// The transport header.
    pub l4: usize,
    /// The end of the IP packet; padding may follow.
    pub end: usize,
}

impl Packet {
    /// `None` without a whole IP packet with a transport header that starts in it.
    pub fn locate(frame: &[u8]) -> Option<Self> {
        let mut l3 = ETHERNET_BYTES;
        let mut ethertype = be16(frame, 12)?;
        while matches!(ethertype, 0x8100 | 0x88a8 | 0x9100) {
            ethertype = be16(frame, l3 + 2)?;
            l3 += 4;
        }
        match ethertype {
            0x0800 => Self::locate_v4(frame, l3),
            0x86dd => Self::locate_v6(frame, l3),
            _ => None,
        }
    }

    fn locate_v4(frame: &[u8], l3: usize) -> Option<Self> {
        let first = *frame.get(l3)?;
        let l4 = l3 + usize::from(first & 0xf) * 4;
        let end = l3 + usize::from(be16(frame, l3 + 2)?);
        let fragment = be16(frame, l3 + 6)? & 0x3fff != 0;
        let sound = first >> 4 == 4 && l4 >= l3 + 20 && l4 <= end && end <= frame.len() && !fragment;
        sound.then(|| Self { version: 4, protocol: frame[l3 + 9], l3, l4, end })
    }

    fn locate_v6(frame: &[u8], l3: usize) -> Option<Self> {
        let first = *frame.get(l3)?;
        let end = l3 + 40 + usize::from(be16(frame, l3 + 4)?);
        if first >> 4 != 6 || end > frame.len() {
            return None;
        }
        let mut protocol = frame[l3 + 6];
        let mut l4 = l3 + 40;
        // Hop-by-hop options and destination options. Fragments cannot be cut, and behind a routing header the
        // pseudo-header is not made of the addresses in the IP header (RFC 8200, section 8.1).
        while matches!(protocol, 0 | 60) {
            protocol = *frame.get(l4)?;
            l4 += 8 + usize::from(*frame.get(l4 + 1)?) * 8;
        }
        (l4 <= end).then_some(Self { version: 6, protocol, l3, l4, end })
    }

    /// The sum of the pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1).
    pub fn pseudo_header(&self, frame: &[u8], l4_bytes: usize) -> u64 {
        let addresses =
            if self.version == 4 { self.l3 + 12..self.l3 + 20 } else { self.l3 + 8..self.l3 + 40 };
        // A segment fits in an IP packet, so that its length fits in 16 bits.
        sum(&frame[addresses]) + u64::from(self.protocol) + l4_bytes as u64
    }
}

pub(crate) fn be16(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

pub(crate) fn put16(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Adapts the IP header of a piece of a super-frame to the piece's length in bytes, and to its index for the identification.
fn shorten(segment: &mut [u8], packet: &Packet, length: usize, index: u16) {
    let Packet { l3, l4, version, .. } = *packet;
    // All of these are at most the length of the super-frame's IP packet, which fits in 16 bits.
    if version == 4 {
        let identification = be16(segment, l3 + 4).unwrap_or(0).wrapping_add(index);
        put16(segment, l3 + 2, (length - l3) as u16);
        put16(segment, l3 + 4, identification);
        put16(segment, l3 + 10, 0);
        let checksum = !folded(sum(&segment[l3..l4]));
        put16(segment, l3 + 10, checksum);
    } else {
        put16(segment, l3 + 4, (length - l3 - 40) as u16);
    }
}

/// Cuts a super-frame as a network card does: every piece has the super-frame's headers, with adapted lengths, IPv4
/// identification, TCP sequence number, flags and checksums.
fn cut(
    header: &VnetHeader,
    frame: &[u8],
    packet: &Packet,
    pool: &mut FramePool,
    frames: &mut Vec<Frame>,
) -> Result<usize, DropReason> {
    let Packet { l4, end, .. } = *packet;
    let tcp = packet.protocol == TCP;
    let l4_header = match tcp {
        true => usize::from(frame.get(l4 + 12).ok_or(DropReason::RxBadOffload)? >> 4) * 4,
        false => 8,
    };
    let payload = l4 + l4_header;
    let size = usize::from(header.gso_size);
    if size == 0 || payload > end || (tcp && l4_header < 20) {
        return Err(DropReason::RxBadOffload);
    }
    let count = (end - payload).div_ceil(size).max(1);
    if count > MAX_SEGMENTS {
        return Err(DropReason::RxBadOffload);
    }
    let sequence = u32::from_be_bytes([frame[l4 + 4], frame[l4 + 5], frame[l4 + 6], frame[l4 + 7]]);
    let checksum_at = l4 + if tcp { 16 } else { 6 };
    // UDP over IPv4 may do without a checksum (RFC 768).
    let with_checksum = tcp
        || packet.version == 6
        || header.needs_checksum()
        || frame[checksum_at..checksum_at + 2] != [0, 0];

    for index in 0..count {
        let from = payload + index * size;
        let to = end.min(from + size);
        let mut segment = pool.take();
        segment.reserve(payload + to - from);
        segment.extend_from_slice(&frame[..payload]);
        segment.extend_from_slice(&frame[from..to]);

        shorten(&mut segment, packet, payload + to - from, index as u16);
        if tcp {
            let sequence = sequence.wrapping_add((index * size) as u32);
            segment[l4 + 4..l4 + 8].copy_from_slice(&sequence.to_be_bytes());
            if index + 1 < count {
                segment[l4 + 13] &= !(FIN | PSH);
            }
            if index > 0 {
                // The receiver must see one reduction of the window, not many (RFC 3168, section 6.1.2).
                segment[l4 + 13] &= !CWR;
            }
        } else {
            put16(&mut segment, l4 + 4, (8 + to - from) as u16);
        }
        put16(&mut segment, checksum_at, 0);
        if with_checksum {
            let total = packet.pseudo_header(&segment, segment.len() - l4) + sum(&segment[l4..]);
            let checksum = if tcp { !folded(total) } else { of_udp(total) };
            put16(&mut segment, checksum_at, checksum);
        }
        frames.push(segment);
    }
    Ok(count)
}

#[cfg(test)]
#[path = "offload_tests.rs"]
mod tests;
