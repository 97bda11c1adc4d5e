//! The sender's timer: one at a time (RFC 8985, section 8).

use super::Sender;
use super::recovery::Phase;
use crate::Config;
use crate::congestion::Reason;
use crate::receiver::NEVER;

/// What the timer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    None,
    /// An ACK (RFC 6298).
    Retransmission,
    /// An ACK; a probe is sent before the retransmission timer expires (RFC 8985, section 7.2).
    Probe,
    /// Segments that may only be late (RFC 8985, section 6.2).
    Reorder,
    /// A window that has room (RFC 9293, section 3.8.6.1).
    Persist,
}

/// Time until a probe if the round-trip time is not known.
const FIRST_PROBE_NS: u64 = 1_000_000_000;

impl Sender {
    /// Starts the timer that is needed now.
    #[inline]
    pub(super) fn arm(&mut self, now: u64, config: &Config) {
        if self.board.is_empty() {
            if self.unsent() == 0 {
                (self.timer, self.at) = (Timer::None, NEVER);
            } else if self.timer != Timer::Persist {
                (self.timer, self.at) = (Timer::Persist, now.saturating_add(self.rtt.rto(config)));
            }
            return;
        }
        let expires = self.base.saturating_add(self.rtt.rto(config));
        (self.timer, self.at) = if self.reorder_at != NEVER {
            (Timer::Reorder, self.reorder_at)
        } else if self.may_probe() {
            (Timer::Probe, self.probe_base.saturating_add(self.probe_timeout(config)).min(expires))
        } else {
            (Timer::Retransmission, expires)
        };
    }

    /// Section 7.2: no probe during recovery, or if the scoreboard already shows something.
    fn may_probe(&self) -> bool {
        self.sack
            && self.probe.is_none()
            && matches!(self.recovery.phase, Phase::Open | Phase::Reduced)
            && self.board.sacked() == 0
            && self.board.lost() == 0
    }

    fn probe_timeout(&self, config: &Config) -> u64 {
        if self.rtt.srtt == 0 {
            return FIRST_PROBE_NS;
        }
        let single = self.board.flying() <= u64::from(self.mss);
        2 * self.rtt.srtt + if single { config.peer_ack_delay_ns } else { 0 }
    }

    /// The timer expires. Returns whether a segment without data shall ask for the peer's window.
    pub fn expire(&mut self, now: u64, config: &Config) -> bool {
        let mut ask = false;
        match self.timer {
            Timer::None => {}
            Timer::Probe => self.probe_due = true,
            Timer::Reorder => {
                self.reorder_at = NEVER;
                let flight = (self.nxt - self.una) as u32;
                let lost = self.detect(now);
                if lost > 0 {
                    self.repair(flight, self.board.sacked() as u32);
                    self.proportional(0, false);
                }
            }
            Timer::Retransmission => self.time_out(now, config),
            Timer::Persist => {
                self.back_off(config);
                self.timer = Timer::None;
                ask = self.usable() == 0;
                self.probe_due = !ask;
            }
        }
        if self.timer != Timer::Probe || self.board.is_empty() {
            self.arm(now, config);
        } else {
            // The retransmission timer is next, once the probe has left.
            self.at = NEVER;
        }
        ask
    }

    fn back_off(&mut self, config: &Config) {
        self.rtt.backoff = self.rtt.backoff.saturating_add(1);
        self.tries = self.tries.saturating_add(1);
        self.dead |= self.tries > config.retries;
    }

    /// RFC 6298, sections 5.4 to 5.6, and RFC 5681, section 3.1.
    fn time_out(&mut self, now: u64, config: &Config) {
        self.counts.timeouts += 1;
        self.back_off(config);
        let flight = (self.nxt - self.una) as u32;
        self.enter(Phase::Loss, Reason::Timeout, flight, self.board.sacked() as u32);
        if self.sack {
            let window = self.rack.window(self.rtt.srtt, true);
            self.rack.expire(&mut self.board, now, window);
        } else {
            self.board.judge(|_, _| Some(true));
        }
        // The loss window: one segment (RFC 5681), in addition to what may still be on its way.
        self.duplicates = 0;
        self.window.cwnd = self.in_flight() + self.mss;
        self.base = now;
    }
}
