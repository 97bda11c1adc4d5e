//! Segments that arrive (RFC 9293, section 3.10.7, and RFC 5961).

use super::{Connection, End, State};
use crate::Algorithm;
use crate::receiver::Accepted;
use crate::segment::{ACK, ECE, FIN, RST, SYN, Segment};
use crate::sender::Ack;
use crate::sequence::{expand, older};

/// A timestamp is of no use after so long without one (RFC 7323, section 5.5): 24 days.
const STALE_NS: u64 = 24 * 86_400_000_000_000;

impl Connection {
    /// A segment arrives. Returns which part of its data was accepted, in order or not.
    pub fn on_segment(&mut self, now: u64, segment: &Segment) -> Accepted {
        match self.state {
            State::Closed => Accepted::default(),
            State::SynSent => {
                self.on_answer(now, segment);
                Accepted::default()
            }
            _ => self.on_synchronized(now, segment),
        }
    }

    /// In SYN_SENT (RFC 9293, section 3.10.7.3).
    fn on_answer(&mut self, now: u64, segment: &Segment) {
        let acked = segment.is(ACK) && segment.ack == self.sender.una as u32;
        if segment.is(ACK) && !acked {
            // The peer still has an earlier connection.
            self.reset = (!segment.is(RST)).then_some(segment.ack);
            return;
        }
        if segment.is(RST) {
            if acked {
                self.finish(End::Refused);
            }
            return;
        }
        if !segment.is(SYN) {
            return;
        }
        self.negotiate(now, segment);
        if acked {
            self.establish(now);
            self.receiver.due = 0;
        } else {
            // Both have opened the connection at the same time.
            self.state = State::SynReceived;
            self.handshake.due = true;
        }
    }

    fn on_synchronized(&mut self, now: u64, segment: &Segment) -> Accepted {
        let nothing = Accepted::default();
        let seq = expand(self.receiver.nxt, segment.seq);
        if self.state == State::SynReceived && segment.is(SYN) && seq + 1 == self.receiver.nxt {
            return self.on_second_syn(now, segment);
        }
        if !self.is_current(now, segment) || !self.receiver.acceptable(seq, segment.span()) {
            self.refuse(now, seq, segment);
            return nothing;
        }
        if segment.is(RST) {
            // RFC 5961, section 3.2: only the exact number ends the connection; RFC 1337: none in TIME_WAIT.
            match self.state {
                State::TimeWait => {}
                _ if seq != self.receiver.nxt => self.challenge(now),
                State::SynReceived if self.active => self.finish(End::Refused),
                _ => self.finish(End::Reset),
            }
            return nothing;
        }
        if segment.is(SYN) {
            self.challenge(now);
            return nothing;
        }
        if !segment.is(ACK) || !self.on_ack(now, seq, segment) {
            return nothing;
        }
        let mut accepted = nothing;
        if segment.len > 0 || segment.is(FIN) {
            accepted = self.on_data(now, seq, segment);
        }
        self.advance(now, segment);
        accepted
    }

    /// A SYN for the second time: our answer to it was lost, or the peer has opened the connection at the same time.
    fn on_second_syn(&mut self, now: u64, segment: &Segment) -> Accepted {
        if segment.is(ACK) && segment.ack == self.sender.una as u32 {
            self.establish(now);
            self.receiver.due = 0;
        } else if !segment.is(ACK | RST) {
            self.handshake.due = true;
        }
        Accepted::default()
    }

    /// Protection against wrapped sequence numbers (RFC 7323, section 5.3). Keeps the latest timestamp. As in Linux, segments
    /// without timestamps are accepted.
    #[inline]
    fn is_current(&mut self, now: u64, segment: &Segment) -> bool {
        let (true, Some((value, _))) = (self.timestamps, segment.options.timestamps) else { return true };
        let r = &mut self.receiver;
        if older(value, r.stamp) && now.saturating_sub(r.stamped) < STALE_NS {
            return segment.is(RST);
        }
        // Section 4.3: the timestamp to be echoed is that of the segment that the last ACK expected.
        let seq = expand(r.nxt, segment.seq);
        if seq <= r.acked && seq + segment.span() >= r.acked {
            (r.stamp, r.stamped) = (value, now);
        }
        true
    }

    /// Answers a segment that is outside of the window, or too old.
    fn refuse(&mut self, now: u64, seq: u64, segment: &Segment) {
        if segment.is(RST) {
            return;
        }
        if segment.len == 0 && !segment.is(FIN) || segment.is(SYN) {
            self.challenge(now);
            return;
        }
        let end = seq + u64::from(segment.len);
        if end <= self.receiver.nxt && segment.len > 0 {
            // RFC 2883: the peer learns that it was sent twice.
            self.receiver.duplicate = Some((seq as u32, end as u32));
        }
        self.receiver.due = 0;
        if self.state == State::TimeWait && segment.is(FIN) {
            self.expires = now.saturating_add(self.config.time_wait_ns);
        }
    }

    /// An ACK with what this end knows, at a limited rate (RFC 5961, sections 3 to 5 and 7).
    fn challenge(&mut self, now: u64) {
        if now >= self.challenge_at {
            self.challenge_at = now.saturating_add(self.config.challenge_interval_ns);
            self.challenges += 1;
            self.receiver.due = 0;
        }
    }

    /// Returns whether the rest of the segment is to be looked at.
    #[inline]
    fn on_ack(&mut self, now: u64, seq: u64, segment: &Segment) -> bool {
        let s = &self.sender;
        let ack = expand(s.una, segment.ack);
        if self.state == State::SynReceived {
            if ack != s.una {
                self.reset = Some(segment.ack);
                return false;
            }
            self.establish(now);
        } else if ack > s.nxt || ack + u64::from(s.max_wnd) < s.una {
            // RFC 5961, section 5.2.
            self.challenge(now);
            return false;
        }
        let echo = if self.timestamps { segment.options.timestamps.map(|(_, echo)| echo) } else { None };
        let marked = self.sender.ecn && segment.is(ECE);
        let ack = Ack { now, segment, seq, ack, echo: echo.filter(|e| *e != 0), marked };
        self.sender.acknowledge(&ack, &self.config);
        true
    }

    #[inline]
    fn on_data(&mut self, now: u64, seq: u64, segment: &Segment) -> Accepted {
        if self.sender.ecn && segment.len > 0 {
            self.receiver.congestion(segment, self.config.algorithm == Algorithm::Dctcp);
        }
        self.receiver.data(now, seq, segment, &self.config)
    }

    /// What the acknowledged or received FIN changes.
    #[inline]
    fn advance(&mut self, now: u64, segment: &Segment) {
        let (sent, received) = (self.sender.is_finished(), self.receiver.is_finished());
        let before = self.state;
        self.state = match (before, sent, received) {
            (State::Established, _, true) => State::CloseWait,
            (State::FinWait1, true, false) => State::FinWait2,
            (State::FinWait1, false, true) => State::Closing,
            (State::FinWait1 | State::FinWait2 | State::Closing, true, true) => State::TimeWait,
            (State::LastAck, true, _) => return self.finish(End::Closed),
            (same, ..) => same,
        };
        if self.state == State::TimeWait && (before != State::TimeWait || segment.is(FIN)) {
            self.expires = now.saturating_add(self.config.time_wait_ns);
        }
    }
}
