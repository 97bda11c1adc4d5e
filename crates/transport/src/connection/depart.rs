//! Segments that leave, and time that passes.

use super::{Connection, End, State, uses_ecn};
use crate::Algorithm;
use crate::receiver::NEVER;
use crate::segment::{ACK, CWR, ECE, Ecn, FIN, Options, PSH, RST, SACK_BLOCKS, SYN, Sack, Segment};
use crate::sender::Piece;

/// Bytes of options in a header.
const MOST_OPTIONS: u32 = 40;

impl Connection {
    /// The next segment to be sent now. Call it until it returns `None`.
    pub fn next_segment(&mut self, now: u64) -> Option<Segment> {
        if let Some(seq) = self.reset.take() {
            return Some(Segment { seq, flags: RST, ..Segment::default() });
        }
        match self.state {
            State::Closed => return None,
            State::SynSent | State::SynReceived => {
                return self.syn(now).or_else(|| self.due_acknowledgment(now));
            }
            _ => {}
        }
        if let Some((number, echo)) = self.receiver.owed.take() {
            let mut ack = self.acknowledgment(now, false);
            ack.ack = number as u32;
            ack.flags = ACK | if echo { ECE } else { 0 };
            return Some(ack);
        }
        if let Some(piece) = self.sender.next(now, &self.config) {
            return Some(self.data(now, piece));
        }
        if std::mem::take(&mut self.ask) {
            // A number below the window: the peer answers with what it expects and its window.
            let mut probe = self.acknowledgment(now, false);
            probe.seq = (self.sender.una - 1) as u32;
            return Some(probe);
        }
        self.due_acknowledgment(now)
    }

    #[inline]
    fn due_acknowledgment(&mut self, now: u64) -> Option<Segment> {
        if self.receiver.due > now {
            return None;
        }
        let ack = self.acknowledgment(now, true);
        self.acknowledged();
        Some(ack)
    }

    fn syn(&mut self, now: u64) -> Option<Segment> {
        if !std::mem::take(&mut self.handshake.due) {
            return None;
        }
        let (config, answer) = (&self.config, self.state == State::SynReceived);
        let count = self.handshake.count;
        if count == 0 {
            self.handshake.sent = now;
        }
        self.handshake.count = count.saturating_add(1);
        let wait = config.initial_rto_ns.saturating_mul(1 << count.min(32)).min(config.max_rto_ns);
        self.handshake.at = now.saturating_add(wait);
        // An answer offers what the request has offered, too.
        let offers = |wanted: bool, theirs: bool| wanted && (!answer || theirs);
        let stamps = offers(config.timestamps, self.timestamps);
        let scaled = offers(true, self.scaled);
        let options = Options {
            mss: Some(config.mss),
            scale: scaled.then(|| config.scale()),
            sack_permitted: offers(config.sack, self.sender.sack),
            timestamps: stamps.then(|| (config.timestamp(now), self.receiver.stamp)),
            ..Options::default()
        };
        let ecn = match (answer, self.sender.ecn) {
            (true, true) => ECE,
            // RFC 3168, section 6.1.1.1: the peer, or something in between, may not like these bits.
            (false, _) if uses_ecn(config) && count < 2 => ECE | CWR,
            _ => 0,
        };
        let window = config.receive_buffer.min(u32::from(u16::MAX)) as u16;
        Some(Segment {
            seq: (self.sender.una - 1) as u32,
            ack: if answer { self.receiver.nxt as u32 } else { 0 },
            window,
            flags: SYN | ecn | if answer { ACK } else { 0 },
            options,
            ..Segment::default()
        })
    }

    /// A segment without data. `report`: with SACK blocks, if there are any.
    #[inline]
    fn acknowledgment(&mut self, now: u64, report: bool) -> Segment {
        // RFC 8257, section 3.4, and Linux: queues that mark for DCTCP would drop what is not capable.
        let dctcp = self.config.algorithm == Algorithm::Dctcp && self.sender.ecn;
        let ecn = if dctcp { Ecn::Capable0 } else { Ecn::NotCapable };
        self.segment(now, (self.sender.nxt, 0), 0, ecn, report)
    }

    /// A segment with these numbers (first, length) and flags, and all that the receiving half has to say. It is made in one
    /// piece: moving a value that was just written in parts stalls the processor.
    #[inline(always)]
    fn segment(&mut self, now: u64, numbers: (u64, u32), flags: u8, ecn: Ecn, report: bool) -> Segment {
        let sack = if report && self.sender.sack && self.receiver.has_blocks() {
            self.receiver.blocks(SACK_BLOCKS - usize::from(self.timestamps))
        } else {
            Sack::default()
        };
        let timestamps = self.timestamps.then(|| (self.config.timestamp(now), self.receiver.stamp));
        Segment {
            seq: numbers.0 as u32,
            ack: self.receiver.nxt as u32,
            len: numbers.1,
            window: self.receiver.window(&self.config),
            flags: flags | ACK | if self.receiver.echo { ECE } else { 0 },
            ecn,
            options: Options { timestamps, sack, ..Options::default() },
        }
    }

    /// The segment of a piece of the stream.
    #[inline(always)]
    fn data(&mut self, now: u64, piece: Piece) -> Segment {
        // With a full packet there is no room for SACK blocks: then an ACK of its own has to follow, if one was due.
        let fits = !self.receiver.has_blocks() || piece.len + MOST_OPTIONS <= u32::from(self.config.mss);
        if fits {
            self.acknowledged();
        }
        let last = piece.from + u64::from(piece.len) == self.sender.written;
        let mut flags = if piece.fin { FIN } else { 0 } | if last { PSH } else { 0 };
        // RFC 3168, sections 6.1.2 and 6.1.5; DCTCP's queues would drop what is not capable.
        let dctcp = self.config.algorithm == Algorithm::Dctcp;
        let capable = self.sender.ecn && (dctcp || !piece.again && piece.len > 0);
        if self.sender.cwr && capable && !piece.again && piece.len > 0 {
            self.sender.cwr = false;
            flags |= CWR;
        }
        let ecn = if capable { Ecn::Capable0 } else { Ecn::NotCapable };
        self.segment(now, (piece.from, piece.len), flags, ecn, fits)
    }

    /// An ACK for everything received has left.
    #[inline]
    fn acknowledged(&mut self) {
        self.receiver.acked = self.receiver.nxt;
        self.receiver.due = NEVER;
    }

    /// When to call [`Connection::on_deadline`], in nanoseconds. It may lie in the past.
    #[inline]
    pub fn deadline(&self) -> Option<u64> {
        let at = self.sender.at.min(self.handshake.at).min(self.receiver.due).min(self.expires);
        (at != NEVER).then_some(at)
    }

    /// Time has passed: does what is due. Too early calls do nothing.
    pub fn on_deadline(&mut self, now: u64) {
        if now >= self.expires {
            return self.finish(End::Closed);
        }
        if now >= self.handshake.at {
            self.handshake.at = NEVER;
            self.handshake.due = true;
            if self.handshake.count > self.config.syn_retries {
                return self.finish(End::TimedOut);
            }
        }
        if now >= self.sender.at {
            self.ask |= self.sender.expire(now, &self.config);
            if self.sender.dead {
                self.reset = Some(self.sender.nxt as u32);
                self.finish(End::TimedOut);
            }
        }
    }
}
