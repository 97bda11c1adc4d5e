//! The receiving half: what has arrived, the window, and when to acknowledge.

use crate::Config;
use crate::reassembly::{Placed, Reassembly};
use crate::segment::{CWR, Ecn, FIN, Sack, Segment};

/// No time.
pub(crate) const NEVER: u64 = u64::MAX;

/// The part of a segment's data that a connection has accepted. Nothing was, if `len` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Its place: bytes since the beginning of the stream.
    pub offset: u64,
    /// Bytes of the segment's data before it.
    pub skip: u32,
    /// Its bytes.
    pub len: u32,
}

/// The receiving half of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// Sequence number of the first byte.
    first: u64,
    /// Next expected.
    pub nxt: u64,
    /// The announced window's end.
    pub edge: u64,
    /// What the last ACK acknowledged.
    pub acked: u64,
    /// Bytes received in order and not taken.
    pub unread: u64,
    /// Sequence number of the peer's FIN, once known.
    fin: u64,
    /// When to acknowledge; 0 is at once.
    pub due: u64,
    later: Option<Box<Reassembly>>,
    /// An ACK with an earlier state that has to come first: its number, and whether with ECE.
    pub owed: Option<(u64, bool)>,
    /// Duplicate data to be reported.
    pub duplicate: Option<(u32, u32)>,
    /// The peer's latest timestamp, and when it came.
    pub stamp: u32,
    pub stamped: u64,
    /// Bytes of a full segment.
    pub mss: u32,
    quick: u16,
    /// Our scale.
    pub scale: u8,
    /// Whether to set ECE.
    pub echo: bool,
    /// Packets that were marked.
    pub marks: u32,
}

impl Receiver {
    /// `first` is the sequence number after the peer's SYN.
    pub fn new(first: u64, config: &Config) -> Self {
        Receiver {
            first,
            nxt: first,
            // The window in a SYN is not scaled.
            edge: first + u64::from(config.receive_buffer.min(u32::from(u16::MAX))),
            acked: first,
            unread: 0,
            fin: NEVER,
            due: NEVER,
            later: None,
            owed: None,
            duplicate: None,
            stamp: 0,
            stamped: 0,
            mss: u32::from(config.mss),
            quick: config.quick_acks,
            scale: 0,
            echo: false,
            marks: 0,
        }
    }

    /// Whether the peer has sent everything, and all of it has arrived.
    pub fn is_finished(&self) -> bool {
        self.nxt > self.fin
    }

    /// Whether a segment has anything in the window (RFC 9293, section 3.10.7.4). Those since the last ACK are acceptable, too:
    /// segments may be reordered.
    #[inline]
    pub fn acceptable(&self, seq: u64, span: u64) -> bool {
        seq + span >= self.acked && seq <= self.edge.max(self.nxt) && (span == 0 || seq + span > self.nxt)
    }

    /// Notes how data was marked. DCTCP's receiver acknowledges at once when that changes, data before it with the state
    /// before (RFC 8257, section 3.2); otherwise marks are echoed until the sender says CWR (RFC 3168, section 6.1.3).
    pub fn congestion(&mut self, segment: &Segment, dctcp: bool) {
        let marked = segment.ecn == Ecn::Congested;
        self.marks += u32::from(marked);
        if !dctcp {
            self.echo = marked || self.echo && !segment.is(CWR);
        } else if marked != self.echo {
            if self.nxt > self.acked {
                self.owed = Some((self.nxt, self.echo));
            }
            self.echo = marked;
            self.due = 0;
        }
    }

    /// Data and FIN of an acceptable segment that begins at `seq`.
    pub fn data(&mut self, now: u64, seq: u64, segment: &Segment, config: &Config) -> Accepted {
        let end = seq + u64::from(segment.len);
        let (from, to) = (seq.max(self.nxt), end.min(self.edge).min(self.fin));
        if seq < self.nxt && segment.len > 0 {
            self.duplicate = Some((seq as u32, end.min(self.nxt) as u32));
        }
        let before = self.nxt;
        let mut accepted = Accepted::default();
        if from < to {
            let in_order = from == self.nxt;
            if in_order {
                self.in_order(to);
            }
            if in_order || self.out_of_order(from, to, config) {
                let (offset, skip) = (from - self.first, (from - seq) as u32);
                accepted = Accepted { offset, skip, len: (to - from) as u32 };
            }
        }
        let last = self.later.as_ref().and_then(|l| l.end()).unwrap_or(self.nxt);
        if segment.is(FIN) && self.fin == NEVER && end <= self.edge && end >= last.max(self.nxt) {
            self.fin = end;
        }
        self.unread += self.nxt - before;
        if self.nxt == self.fin {
            self.nxt += 1;
        }
        let ordinary = from == before && from < to && self.nxt == to && self.later.is_none();
        self.schedule(now, ordinary, config);
        accepted
    }

    fn in_order(&mut self, to: u64) {
        self.nxt = to;
        if let Some(later) = &mut self.later {
            while let Some(end) = later.take(self.nxt) {
                self.nxt = self.nxt.max(end);
            }
            // Filling a gap is acknowledged at once (RFC 5681, section 4.2).
            self.due = 0;
            if later.is_empty() {
                self.later = None;
            }
        }
    }

    fn out_of_order(&mut self, from: u64, to: u64, config: &Config) -> bool {
        let placed = self.later.get_or_insert_default().insert(from, to, usize::from(config.ranges.max(1)));
        match placed {
            Placed::New(part) => {
                self.duplicate = part.map(|(from, to)| (from as u32, to as u32)).or(self.duplicate);
                true
            }
            Placed::Duplicate => {
                self.duplicate = Some((from as u32, to as u32));
                false
            }
            Placed::NoRoom => false,
        }
    }

    /// When to acknowledge (RFC 5681, section 4.2): every second full segment, and everything unusual at once.
    fn schedule(&mut self, now: u64, ordinary: bool, config: &Config) {
        let waiting = self.nxt - self.acked.min(self.nxt);
        let enough = u64::from(config.ack_every.saturating_sub(1)) * u64::from(self.mss);
        if !ordinary || self.quick > 0 || waiting > enough {
            self.quick = self.quick.saturating_sub(1);
            self.due = 0;
        } else if self.due == NEVER {
            self.due = now.saturating_add(config.ack_delay_ns);
        }
    }

    /// The connection has ended: nothing is to be acknowledged.
    pub fn release(&mut self) {
        (self.due, self.owed, self.later) = (NEVER, None, None);
    }

    /// The end of the window that the buffer allows.
    fn allowed(&self, config: &Config) -> u64 {
        self.nxt + u64::from(config.receive_buffer).saturating_sub(self.unread)
    }

    /// The window field of a segment that is sent now, without a SYN. The window's end only moves by a segment or half of the buffer
    /// (RFC 9293, section 3.8.6.2.2), and moves back by less than one unit of the field (RFC 7323, section 2.4); what was offered is accepted.
    #[inline]
    pub fn window(&mut self, config: &Config) -> u16 {
        let (allowed, open) = (self.allowed(config), self.edge.saturating_sub(self.nxt));
        let step = u64::from(self.mss.min(config.receive_buffer / 2));
        // Rounded up, it would open by a part of a unit with each ACK, beyond the buffer.
        let kept = open >> self.scale;
        let field = if allowed >= self.edge + step { (allowed - self.nxt) >> self.scale } else { 0 };
        let field = field.max(kept).min(u64::from(u16::MAX));
        self.edge = self.edge.max(self.nxt + (field << self.scale));
        field as u16
    }

    /// Takes what was received in order. Announces the larger window if the last one was small.
    pub fn take(&mut self, config: &Config) -> u64 {
        let bytes = std::mem::take(&mut self.unread);
        let half = u64::from(config.receive_buffer / 2);
        if bytes > 0 && self.edge.saturating_sub(self.nxt) < half && !self.is_finished() {
            let gained = self.allowed(config).saturating_sub(self.edge);
            if gained >= half.min(2 * u64::from(self.mss)) {
                self.due = 0;
            }
        }
        bytes
    }

    /// SACK blocks of the next ACK, `most` of them at most: first that of a duplicate (RFC 2883).
    #[inline]
    pub fn blocks(&mut self, most: usize) -> Sack {
        let mut sack = Sack::default();
        if let Some(block) = self.duplicate.take() {
            sack.push(block);
        }
        if let Some(later) = &self.later {
            later.report(&mut sack, most);
        }
        sack
    }

    /// Whether anything was received out of order, or twice, that the next ACK should report.
    #[inline]
    pub fn has_blocks(&self) -> bool {
        self.later.is_some() || self.duplicate.is_some()
    }
}
