//! RACK (RFC 8985): a segment is lost if one that was sent sufficiently later has arrived.

use crate::board::{Board, Run};

/// Round trips without a duplicate after which the reordering window shrinks again (section 6.2, step 4).
const PERSIST: u8 = 16;

/// RACK's state.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// Of the segments that have arrived, that which was sent last: when, and its end.
    xmit: u64,
    end: u64,
    /// Its round-trip time.
    rtt: u64,
    /// Least round-trip time; `u64::MAX` before the first.
    pub min_rtt: u64,
    /// Highest sequence number that has arrived.
    fack: u64,
    /// Whether segments were seen out of order.
    pub reordering: bool,
    /// Multiplier of the reordering window.
    mult: u8,
    persist: u8,
    /// A further duplicate enlarges the window when this is acknowledged.
    round: u64,
}

impl Rack {
    pub fn new(start: u64) -> Self {
        Rack {
            xmit: 0,
            end: start,
            rtt: 0,
            min_rtt: u64::MAX,
            fack: start,
            reordering: false,
            mult: 1,
            persist: 0,
            round: start,
        }
    }

    /// A run has arrived. `earlier` says whether the ACK was caused by a transmission before the run's last one
    /// (section 6.2, steps 1 to 3).
    #[inline]
    pub fn delivered(&mut self, run: &Run, now: u64, earlier: bool) {
        if run.end > self.fack {
            self.fack = run.end;
        } else if run.end < self.fack && !run.again {
            self.reordering = true;
        }
        let rtt = now.saturating_sub(run.sent);
        if run.again {
            // It may be the original that has arrived.
            if earlier || rtt < self.min_rtt {
                return;
            }
        } else {
            self.min_rtt = self.min_rtt.min(rtt);
        }
        if (run.sent, run.end) > (self.xmit, self.end) {
            (self.xmit, self.end, self.rtt) = (run.sent, run.end, rtt);
        }
    }

    /// The receiver reports a duplicate: the window was too small (step 4).
    pub fn duplicate(&mut self, una: u64, nxt: u64) {
        if una >= self.round {
            self.round = nxt;
            self.mult = self.mult.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// A recovery ends.
    pub fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.mult = 1;
        }
    }

    /// The reordering window in nanoseconds. `hurry`: in recovery, or three segments have arrived out of order.
    pub fn window(&self, srtt: u64, hurry: bool) -> u64 {
        if self.min_rtt == u64::MAX || !self.reordering && hurry {
            return 0;
        }
        (u64::from(self.mult) * (self.min_rtt / 4)).min(srtt)
    }

    /// Takes runs as lost (step 5). Returns their bytes, and after which time to look again.
    pub fn detect(&self, board: &mut Board, now: u64, window: u64) -> (u64, Option<u64>) {
        let mut wait: Option<u64> = None;
        let lost = board.judge(|in_order, run| {
            if (run.sent, run.end) >= (self.xmit, self.end) {
                return if in_order { None } else { Some(false) };
            }
            let due = run.sent.saturating_add(self.rtt).saturating_add(window);
            if due > now {
                wait = Some(wait.unwrap_or(0).max(due - now));
            }
            Some(due <= now)
        });
        (lost, wait)
    }

    /// Takes runs as lost when the retransmission timer expires (section 6.3): the first one, and those that are late.
    pub fn expire(&self, board: &mut Board, now: u64, window: u64) -> u64 {
        board.renege();
        let head = board.runs().next().map(|(_, run)| run.end);
        board.judge(|_, run| {
            let late = run.sent.saturating_add(self.rtt).saturating_add(window) <= now;
            Some(Some(run.end) == head || late)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Ten segments of 100 bytes, sent one a millisecond.
    fn ten() -> (Board, Rack) {
        let mut board = Board::new(1000);
        (0..10).for_each(|k| board.push(1100 + 100 * k, k * MS));
        (board, Rack::new(1000))
    }

    fn sack(board: &mut Board, rack: &mut Rack, from: u64, now: u64) {
        board.sack(from, from + 100, |_, run| rack.delivered(run, now, false));
    }

    #[test]
    fn later_ones_that_arrive_reveal_losses() {
        let (mut board, mut rack) = ten();
        sack(&mut board, &mut rack, 1300, 23 * MS);
        // The first three are before it, but within a quarter of the round-trip time of 20 ms.
        let window = rack.window(20 * MS, false);
        assert_eq!(window, 5 * MS);
        assert_eq!(rack.detect(&mut board, 23 * MS, window), (0, Some(4 * MS)));
        assert_eq!(rack.detect(&mut board, 26 * MS, window), (200, Some(MS)));
        assert_eq!(rack.detect(&mut board, 27 * MS, window), (100, None));
        // In a hurry, and without reordering so far, at once.
        sack(&mut board, &mut rack, 1600, 27 * MS);
        assert_eq!(rack.detect(&mut board, 27 * MS, rack.window(20 * MS, true)), (200, None));
        assert!(!rack.reordering);
        // An original below the highest: reordering. The window counts from then on.
        sack(&mut board, &mut rack, 1500, 28 * MS);
        assert!(rack.reordering && rack.window(20 * MS, true) == 5 * MS);
        rack.duplicate(1000, 2000);
        rack.duplicate(1500, 2000);
        assert_eq!(rack.window(20 * MS, true), 10 * MS);
        (0..PERSIST).for_each(|_| rack.recovered());
        assert_eq!(rack.window(20 * MS, true), 5 * MS);
        assert_eq!(rack.window(3 * MS, true), 3 * MS);
    }

    #[test]
    fn a_lost_retransmission_is_found() {
        let (mut board, mut rack) = ten();
        sack(&mut board, &mut rack, 1100, 21 * MS);
        assert_eq!(rack.detect(&mut board, 21 * MS, 0).0, 100);
        board.resend(1000, 1100, 21 * MS);
        // Those sent before the retransmission prove nothing about it.
        sack(&mut board, &mut rack, 1900, 29 * MS);
        assert_eq!(rack.detect(&mut board, 29 * MS, 0).0, 700);
        board.resend(1200, 1300, 29 * MS);
        assert_eq!(board.first_lost(), Some((1300, 1400)));
        // A later retransmission does. An echo of an earlier transmission, or one faster than any, does not.
        board.sack(1200, 1300, |_, run| rack.delivered(run, 49 * MS, true));
        assert_eq!(rack.detect(&mut board, 49 * MS, 0).0, 0);
        board.resend(1300, 1400, 50 * MS);
        board.sack(1300, 1400, |_, run| rack.delivered(run, 51 * MS, false));
        assert_eq!(rack.detect(&mut board, 51 * MS, 0).0, 0);
        board.resend(1400, 1500, 52 * MS);
        board.sack(1400, 1500, |_, run| rack.delivered(run, 72 * MS, false));
        assert_eq!(rack.detect(&mut board, 72 * MS, 0).0, 100);
        assert_eq!(board.first_lost(), Some((1000, 1100)));
    }

    #[test]
    fn a_timeout_takes_what_is_late() {
        let (mut board, rack) = ten();
        // Nothing has arrived: only the time counts.
        assert_eq!(rack.expire(&mut board, 5 * MS, 0), 600);
        let (mut board, mut rack) = ten();
        sack(&mut board, &mut rack, 1300, 23 * MS);
        assert_eq!(rack.expire(&mut board, 25 * MS, 0), 500);
        // The first one in any case.
        let (mut board, mut rack) = ten();
        sack(&mut board, &mut rack, 1300, 23 * MS);
        assert_eq!(rack.expire(&mut board, 15 * MS, 0), 100);
        // The receiver has dropped what it had.
        let (mut board, mut rack) = ten();
        sack(&mut board, &mut rack, 1300, 23 * MS);
        assert_eq!(rack.expire(&mut board, 25 * MS, 0), 500);
        board.acknowledge(1300, |_, _| ());
        assert_eq!((rack.expire(&mut board, 25 * MS, 0), board.lost()), (0, 300));
    }
}
