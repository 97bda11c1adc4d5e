//! Segments without their bytes.

pub use pointsman_wire::frame::{ACK, FIN, RST, SYN};

/// TCP's flag PSH.
pub const PSH: u8 = 8;
/// TCP's flag ECE (RFC 3168): congestion was marked.
pub const ECE: u8 = 0x40;
/// TCP's flag CWR (RFC 3168): the congestion window was reduced.
pub const CWR: u8 = 0x80;

/// The ECN field of the IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport cannot react to marks: queues drop instead.
    #[default]
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0).
    Capable0 = 2,
    /// Congestion experienced: a queue has marked the packet.
    Congested = 3,
}

impl Ecn {
    /// The lower two bits of an IP header's traffic class.
    pub fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::Congested,
        }
    }
}

/// Most SACK blocks in one segment (RFC 2018, section 3).
pub const SACK_BLOCKS: usize = 4;

/// SACK blocks: first sequence number, and the one after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sack {
    count: u8,
    blocks: [(u32, u32); SACK_BLOCKS],
}

impl Sack {
    /// Adds a block. More than four are ignored.
    pub fn push(&mut self, block: (u32, u32)) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = block;
            self.count += 1;
        }
    }

    /// The blocks in the segment's order.
    pub fn blocks(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// TCP's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size in bytes (RFC 9293, section 3.7.1), with a SYN.
    pub mss: Option<u16>,
    /// Window scale (RFC 7323, section 2), with a SYN: 0 to 14.
    pub scale: Option<u8>,
    /// SACK permitted (RFC 2018), with a SYN.
    pub sack_permitted: bool,
    /// Timestamps (RFC 7323, section 3): value, echoed value.
    pub timestamps: Option<(u32, u32)>,
    /// Selective acknowledgments.
    pub sack: Sack,
}

impl Options {
    /// Bytes that the options take in a header, padded to words as [`crate::header::encode`] does.
    pub fn bytes(&self) -> usize {
        let fixed = [(self.mss.is_some(), 4), (self.scale.is_some(), 4), (self.timestamps.is_some(), 12)];
        let fixed: usize = fixed.iter().filter(|(present, _)| *present).map(|(_, bytes)| bytes).sum();
        // SACK permitted takes the place of the padding in front of the timestamps.
        let permitted = if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        let blocks = self.sack.blocks().len();
        fixed + permitted + if blocks == 0 { 0 } else { 4 + 8 * blocks }
    }
}

/// A segment: everything but its ports and bytes. It may be longer than one packet: see [`Segment::cut`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte, or of SYN.
    pub seq: u32,
    /// Acknowledged: the sequence number that is expected next. Valid with [`ACK`].
    pub ack: u32,
    /// Bytes of data.
    pub len: u32,
    /// The window as in the header: scaled, except with a SYN.
    pub window: u16,
    /// Flags as in the header.
    pub flags: u8,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// Options.
    pub options: Options,
}

impl Segment {
    /// Whether one of these flags is set.
    #[inline]
    pub fn is(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Sequence numbers that it takes: its bytes, SYN and FIN.
    #[inline]
    pub fn span(&self) -> u64 {
        u64::from(self.len) + u64::from(self.is(SYN)) + u64::from(self.is(FIN))
    }

    /// Bytes of its TCP header with options.
    pub fn header_bytes(&self) -> usize {
        20 + self.options.bytes()
    }

    /// The packets that a network interface makes of a segment with more than `mss` bytes of data: FIN and PSH are on the
    /// last one, CWR on the first.
    pub fn cut(self, mss: u32) -> impl Iterator<Item = Segment> {
        let mss = mss.max(1);
        (0..self.len.div_ceil(mss).max(1)).map(move |n| {
            let from = n * mss;
            let len = (self.len - from).min(mss);
            let last = from + len == self.len;
            let mut flags = self.flags;
            flags &= if last { !0 } else { !(FIN | PSH) };
            flags &= if n == 0 { !0 } else { !CWR };
            Segment { seq: self.seq.wrapping_add(from), len, flags, ..self }
        })
    }
}

/// What a host without a matching connection answers: a reset (RFC 9293, section 3.10.7.1), unless `to` is one.
pub fn reset_for(to: &Segment) -> Option<Segment> {
    if to.is(RST) {
        return None;
    }
    Some(if to.is(ACK) {
        Segment { seq: to.ack, flags: RST, ..Segment::default() }
    } else {
        let ack = to.seq.wrapping_add(to.span() as u32);
        Segment { ack, flags: RST | ACK, ..Segment::default() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_are_cut_into_packets() {
        let flags = ACK | FIN | PSH | CWR;
        let train = Segment { seq: u32::MAX - 10, len: 2500, flags, ..Segment::default() };
        let cars: Vec<Segment> = train.cut(1000).collect();
        let shape: Vec<_> = cars.iter().map(|c| (c.seq, c.len, c.flags)).collect();
        assert_eq!(shape, [(u32::MAX - 10, 1000, ACK | CWR), (989, 1000, ACK), (1989, 500, ACK | FIN | PSH)]);
        assert_eq!(cars.iter().map(Segment::span).sum::<u64>(), train.span());
        let ack = Segment { flags: ACK, ..Segment::default() };
        assert_eq!(ack.cut(1000).collect::<Vec<_>>(), [ack]);
    }

    #[test]
    fn resets() {
        let syn = Segment { seq: 7, flags: SYN, ..Segment::default() };
        let reset = reset_for(&syn).expect("a reset");
        assert_eq!((reset.seq, reset.ack, reset.flags), (0, 8, RST | ACK));
        let data = Segment { seq: 7, ack: 99, len: 5, flags: ACK, ..Segment::default() };
        let reset = reset_for(&data).expect("a reset");
        assert_eq!((reset.seq, reset.flags), (99, RST));
        assert_eq!(reset_for(&reset), None);
    }
}
