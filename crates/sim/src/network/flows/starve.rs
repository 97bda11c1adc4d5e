//! Flows that make no progress although the network could carry them.

use crate::network::LinkEvent;
use pointsman_topology::LinkId;
use std::collections::BTreeSet;

/// So many retransmission time-outs of a flow in a row, without a byte that arrives, are too many while a path is up and no queue is full. They double in
/// length: after the sixth, 63 times the first one has passed. A connection gives up after the sixth SYN that it sends again.
pub(super) const MOST_TIMEOUTS: u32 = 6;
/// From this time-out of a row on no queue may have been full anywhere: what is sent again may otherwise have met one, time after time.
const QUIET_FROM: u32 = 3;
/// Links that lose more frames than this may stop a flow by chance: they count as down.
pub(super) const MOST_LOSS: f64 = 0.01;

/// Time-outs of one flow in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    /// Time-outs that the sender has had so far.
    seen: u32,
    /// How many of them are in the row.
    length: u32,
    /// When the row began.
    since: u64,
    /// Packets that the network had dropped at full queues when [`QUIET_FROM`] was reached.
    full: u64,
}

impl Row {
    /// The sender has had so many time-outs by now, and bytes have arrived last, or the flow has started, at `moved`; `full` says how many packets the
    /// network has dropped at full queues. If there were too many in a row: when it began; and another one begins.
    pub fn ends(&mut self, now: u64, timeouts: u32, moved: u64, full: impl Fn() -> u64) -> Option<u64> {
        if self.since < moved {
            (self.since, self.length) = (moved, 0);
        }
        let before = self.length;
        self.length += timeouts.saturating_sub(std::mem::replace(&mut self.seen, timeouts));
        if before < QUIET_FROM && self.length >= QUIET_FROM {
            self.full = full();
        }
        if self.length < MOST_TIMEOUTS {
            return None;
        }
        self.length = 0;
        let since = std::mem::replace(&mut self.since, now);
        (full() == self.full).then_some(since)
    }
}

/// Links that were down at some time from `since` to `now`, in nanoseconds as the events have them. `None`: one went down later than `reaction` before
/// `since`, so that the network may not have known of it. It knows of those of time 0 when the hosts begin.
pub(super) fn down(events: &[LinkEvent], reaction: u64, since: u64, now: u64) -> Option<BTreeSet<LinkId>> {
    let mut down = BTreeSet::new();
    for event in events.iter().take_while(|e| e.at_ns <= now) {
        if event.up {
            if event.at_ns <= since {
                down.remove(&event.link);
            }
        } else if event.at_ns > 0 && event.at_ns.saturating_add(reaction) > since {
            return None;
        } else {
            down.insert(event.link);
        }
    }
    Some(down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_in_a_row() {
        let none = || 7;
        let mut row = Row::default();
        for n in 1..MOST_TIMEOUTS {
            assert_eq!(row.ends(100 + u64::from(n), n, 50, none), None);
        }
        assert_eq!(row.ends(200, MOST_TIMEOUTS, 50, none), Some(50));
        // The next row begins there, and the next again where bytes arrive.
        assert_eq!(row.ends(300, 2 * MOST_TIMEOUTS, 50, none), Some(200));
        assert_eq!(row.ends(400, 3 * MOST_TIMEOUTS - 1, 50, none), None);
        assert_eq!(row.ends(500, 3 * MOST_TIMEOUTS, 350, none), None);
        assert_eq!(row.ends(600, 4 * MOST_TIMEOUTS, 350, none), Some(350));
    }

    /// A queue that was full before the third time-out says nothing about the later ones.
    #[test]
    fn full_queues_explain_time_outs() {
        for (from, found) in [(QUIET_FROM, Some(50)), (QUIET_FROM + 1, None), (MOST_TIMEOUTS, None)] {
            let mut row = Row::default();
            let ends = (1..=MOST_TIMEOUTS).map(|n| row.ends(100, n, 50, || u64::from(n >= from)));
            assert_eq!(ends.last(), Some(found), "{from}");
        }
    }

    #[test]
    fn links_over_time() {
        let event = |at_ns, link, up| LinkEvent { at_ns, link: LinkId(link), up };
        let events = [event(10, 1, false), event(20, 2, false), event(30, 1, true), event(40, 2, true)];
        let down = |since, now| {
            down(&events, 3, since, now).map(|links| links.iter().map(|l| l.0).collect::<Vec<_>>())
        };
        assert_eq!((down(0, 9), down(13, 15)), (Some(vec![]), Some(vec![1])));
        assert_eq!((down(9, 10), down(12, 15), down(13, 20)), (None, None, None));
        assert_eq!(super::down(&[event(0, 1, false)], 9, 0, 5), Some(BTreeSet::from([LinkId(1)])));
        // One that comes back was down.
        assert_eq!(
            (down(25, 35), down(30, 35), down(40, 99)),
            (Some(vec![1, 2]), Some(vec![2]), Some(vec![]))
        );
    }
}
