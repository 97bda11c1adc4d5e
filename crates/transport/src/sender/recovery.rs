//! What happens after a loss or a mark: the window is reduced once a round trip, in proportion to what arrives (PRR, RFC 9937),
//! and restored if nothing was lost after all.

use super::Sender;
use crate::congestion::Reason;
use crate::sequence::older;

/// What the sender does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing special.
    Open,
    /// The window is being reduced because of a mark.
    Reduced,
    /// Losses are being repaired.
    Recovery,
    /// The retransmission timer has expired.
    Loss,
}

/// The window before a reduction, and what may show that there was no reason for it.
#[derive(Clone, Debug, Default)]
struct Undo {
    cwnd: u32,
    ssthresh: u32,
    /// First number that was not acknowledged then; 0 if there is nothing to be restored.
    mark: u64,
    /// Timestamp of the first retransmission since.
    stamp: Option<u32>,
    /// Bytes sent again since, less those that were reported as duplicates.
    again: u64,
}

/// State of the current phase.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    pub phase: Phase,
    /// The phase ends when this is acknowledged.
    pub high: u64,
    /// The next sequence number when the last recovery or time-out began (RFC 6582's `recover`).
    pub recover: u64,
    /// Delivered and sent during the phase, and outstanding when it began.
    delivered: u64,
    pub out: u64,
    flight: u64,
    undo: Undo,
}

impl Recovery {
    pub fn new(first: u64) -> Self {
        Recovery {
            phase: Phase::Open,
            high: first,
            recover: first - 1,
            delivered: 0,
            out: 0,
            flight: 1,
            undo: Undo::default(),
        }
    }

    /// Something was sent again.
    pub fn resent(&mut self, len: u32, stamp: u32) {
        self.undo.again += u64::from(len);
        self.undo.stamp.get_or_insert(stamp);
    }
}

impl Sender {
    /// Begins a phase. `flight`: bytes outstanding before this ACK, and those of them that had arrived out of order.
    pub(super) fn enter(&mut self, phase: Phase, reason: Reason, flight: u32, sacked: u32) {
        // The window was already reduced for this flight.
        let again = self.recovery.phase != Phase::Open;
        let lost = phase != Phase::Reduced;
        if lost {
            let Sender { window: w, recovery: r, .. } = self;
            if r.undo.mark == 0 || self.una >= r.recover {
                r.undo = Undo { cwnd: w.cwnd, ssthresh: w.ssthresh, mark: self.una, ..Undo::default() };
            }
            r.recover = self.nxt;
        }
        if !again {
            let base = flight.min(self.window.cwnd);
            self.window.ssthresh = self.controller.control().reduce(&self.window, base, reason);
            self.cwr |= self.ecn;
            let r = &mut self.recovery;
            (r.delivered, r.out, r.flight) = (0, 0, u64::from(flight.saturating_sub(sacked)).max(1));
        }
        self.recovery.phase = phase;
        self.recovery.high = self.nxt;
        if lost {
            // A probe in progress is no longer of interest.
            self.probe = None;
            self.probe_due = false;
        }
    }

    /// Ends a phase whose losses or marks belong to data that is acknowledged by now.
    pub(super) fn leave(&mut self) {
        if self.recovery.phase == Phase::Open || self.una < self.recovery.high {
            return;
        }
        match self.recovery.phase {
            Phase::Recovery => {
                self.rack.recovered();
                self.duplicates = 0;
                self.window.cwnd = self.window.ssthresh;
            }
            Phase::Reduced => self.window.cwnd = self.window.ssthresh,
            Phase::Open | Phase::Loss => {}
        }
        self.recovery.phase = Phase::Open;
    }

    /// Proportional rate reduction (RFC 9937, section 6.2). `safe`: the ACK advances, and reveals no loss.
    pub(super) fn proportional(&mut self, delivered: u64, safe: bool) {
        let (pipe, target) = (u64::from(self.in_flight()), u64::from(self.window.ssthresh));
        let mss = u64::from(self.mss);
        let r = &mut self.recovery;
        r.delivered += delivered;
        let mut send = if pipe > target {
            (r.delivered * target).div_ceil(r.flight).saturating_sub(r.out)
        } else {
            let most = r.delivered.saturating_sub(r.out).max(delivered) + if safe { mss } else { 0 };
            most.min(target - pipe)
        };
        if r.out == 0 && self.board.lost() > 0 {
            // The fast retransmission.
            send = send.max(mss);
        }
        self.window.cwnd = (pipe + send).max(mss) as u32;
    }

    /// Whether an ACK shows that the retransmissions were not needed: it echoes a timestamp from before the first of them
    /// (RFC 3522), or all of them were reported as duplicates (RFC 3708). Then the window is restored (RFC 4015).
    pub(super) fn check_spurious(&mut self, ack: u64, echo: Option<u32>, duplicate: u64) {
        let recover = self.recovery.recover;
        let undo = &mut self.recovery.undo;
        if undo.mark == 0 || undo.again == 0 {
            return;
        }
        if ack > recover + u64::from(undo.cwnd) {
            // Too late: reports of duplicates come within a round trip.
            undo.mark = 0;
            return;
        }
        undo.again = undo.again.saturating_sub(duplicate);
        let early = match (echo, undo.stamp) {
            (Some(echo), Some(stamp)) => ack > undo.mark && older(echo, stamp),
            _ => false,
        };
        let repairing = matches!(self.recovery.phase, Phase::Recovery | Phase::Loss);
        if duplicate > 0 && undo.again == 0 || early && repairing {
            self.restore();
        }
    }

    fn restore(&mut self) {
        let undo = std::mem::take(&mut self.recovery.undo);
        self.counts.spurious += 1;
        self.controller.control().undo();
        self.window.cwnd = self.window.cwnd.max(undo.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(undo.ssthresh);
        // Segments were late, not lost: RACK has to wait longer.
        self.rack.reordering |= self.recovery.phase != Phase::Loss;
        if self.recovery.phase == Phase::Loss {
            // What the timer took as lost is probably on its way.
            self.board.absolve();
        }
        if self.recovery.phase != Phase::Reduced {
            self.recovery.phase = Phase::Open;
        }
    }
}
