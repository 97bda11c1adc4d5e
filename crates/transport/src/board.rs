//! The scoreboard (RFC 2018, RFC 6675): what is outstanding, as runs of sequence numbers that were sent at the same time and share
//! a fate.

use std::collections::VecDeque;

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// On its way, for all the sender knows.
    Flying,
    /// Taken to be lost, and not sent again yet.
    Lost,
    /// Received out of order.
    Sacked,
}

/// Successive sequence numbers. A run begins where the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// One after the last.
    pub end: u64,
    /// When it was sent last, in nanoseconds.
    pub sent: u64,
    pub fate: Fate,
    /// Whether it was sent more than once.
    pub again: bool,
}

/// Everything between the first sequence number that is not acknowledged and the next one to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    start: u64,
    runs: VecDeque<Run>,
    /// Bytes by fate.
    flying: u64,
    lost: u64,
    sacked: u64,
    /// Highest end of a run that was ever sent again, or received out of order: beyond it runs are in the order of their times.
    disorder: u64,
}

/// Runs kept in memory while nothing is outstanding.
const KEPT: usize = 16;

impl Board {
    pub fn new(start: u64) -> Self {
        Board { start, runs: VecDeque::new(), flying: 0, lost: 0, sacked: 0, disorder: start }
    }

    pub fn flying(&self) -> u64 {
        self.flying
    }

    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn sacked(&self) -> u64 {
        self.sacked
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether no run was lost, sent again or received out of order.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.disorder <= self.start
    }

    fn end(&self) -> u64 {
        self.runs.back().map_or(self.start, |run| run.end)
    }

    /// Each run with its begin.
    pub fn runs(&self) -> impl Iterator<Item = (u64, &Run)> {
        self.runs.iter().scan(self.start, |from, run| Some((std::mem::replace(from, run.end), run)))
    }

    fn sum(&mut self, fate: Fate) -> &mut u64 {
        match fate {
            Fate::Flying => &mut self.flying,
            Fate::Lost => &mut self.lost,
            Fate::Sacked => &mut self.sacked,
        }
    }

    /// New data up to `end` is sent.
    #[inline]
    pub fn push(&mut self, end: u64, now: u64) {
        self.flying += end - self.end();
        match self.runs.back_mut() {
            Some(last) if last.sent == now && last.fate == Fate::Flying && !last.again => last.end = end,
            _ => self.runs.push_back(Run { end, sent: now, fate: Fate::Flying, again: false }),
        }
    }

    /// Everything below `to` has arrived. Shows the caller each part that was not known to have.
    #[inline]
    pub fn acknowledge(&mut self, to: u64, mut delivered: impl FnMut(u64, &Run)) {
        while let Some(run) = self.runs.front_mut() {
            if self.start >= to {
                break;
            }
            let (from, found) = (self.start, *run);
            self.start = found.end.min(to);
            let bytes = self.start - from;
            if found.end <= to {
                self.runs.pop_front();
            }
            *self.sum(found.fate) -= bytes;
            if found.fate != Fate::Sacked {
                delivered(bytes, &Run { end: self.start, ..found });
            }
        }
        if self.runs.is_empty() && self.runs.capacity() > KEPT {
            self.runs = VecDeque::new();
        }
    }

    /// Index of the run with the first sequence number at `at` or above; cuts a run in two if need be.
    fn cut(&mut self, at: u64) -> usize {
        let index = self.runs.partition_point(|run| run.end <= at);
        let from = if index == 0 { self.start } else { self.runs[index - 1].end };
        if index == self.runs.len() || from >= at {
            return index;
        }
        let first = Run { end: at, ..self.runs[index] };
        self.runs.insert(index, first);
        index + 1
    }

    /// The numbers from `from` to `to` were received out of order. Shows the caller each part that was not known to be.
    pub fn sack(&mut self, from: u64, to: u64, mut delivered: impl FnMut(u64, &Run)) {
        let (from, to) = (from.max(self.start), to.min(self.end()));
        if from >= to || self.is_sacked(from, to) {
            return;
        }
        let (first, after) = (self.cut(from), self.cut(to));
        let mut begin = from;
        for index in first..after {
            let run = self.runs[index];
            if run.fate != Fate::Sacked {
                let bytes = run.end - begin;
                *self.sum(run.fate) -= bytes;
                self.sacked += bytes;
                self.runs[index].fate = Fate::Sacked;
                delivered(bytes, &run);
            }
            begin = run.end;
        }
        self.disorder = self.disorder.max(to);
        self.join(first, after);
    }

    /// Whether all of it was received out of order, in one run.
    pub fn is_sacked(&self, from: u64, to: u64) -> bool {
        let run = self.runs.get(self.runs.partition_point(|run| run.end <= from));
        run.is_some_and(|run| run.fate == Fate::Sacked && run.end >= to)
    }

    /// Makes one run of those from `first` to before `after`, which have arrived, and of neighbours that have, too.
    fn join(&mut self, first: usize, after: usize) {
        let sacked = |runs: &VecDeque<Run>, at: usize| runs.get(at).is_some_and(|r| r.fate == Fate::Sacked);
        let first = if first > 0 && sacked(&self.runs, first - 1) { first - 1 } else { first };
        let last = if sacked(&self.runs, after) { after } else { after - 1 };
        if last > first {
            self.runs.drain(first..last);
        }
    }

    /// Takes runs on their way as lost if `is_lost` says so; it is asked in their order until it returns `None`, and also gets
    /// to know whether all runs from this one on are in the order of their times. Returns the bytes.
    pub fn judge(&mut self, mut is_lost: impl FnMut(bool, &Run) -> Option<bool>) -> u64 {
        let (mut from, mut found) = (self.start, 0);
        for run in &mut self.runs {
            if run.fate == Fate::Flying {
                match is_lost(from >= self.disorder, run) {
                    None => break,
                    Some(false) => {}
                    Some(true) => {
                        run.fate = Fate::Lost;
                        found += run.end - from;
                        self.disorder = self.disorder.max(run.end);
                    }
                }
            }
            from = run.end;
        }
        self.flying -= found;
        self.lost += found;
        found
    }

    /// Takes the first `most` bytes as lost, unless they were sent again. Returns the bytes.
    pub fn lose_head(&mut self, most: u64) -> u64 {
        self.cut((self.start + most).min(self.end()));
        let mut first = true;
        self.judge(|_, run| std::mem::take(&mut first).then_some(!run.again))
    }

    /// If the first bytes are said to have arrived, though not acknowledged, the receiver has dropped what it had out of order
    /// (RFC 2018, section 8): all of that is lost.
    pub fn renege(&mut self) {
        if self.runs.front().is_some_and(|run| run.fate == Fate::Sacked) {
            self.runs.iter_mut().filter(|r| r.fate == Fate::Sacked).for_each(|r| r.fate = Fate::Lost);
            self.lost += std::mem::take(&mut self.sacked);
        }
    }

    /// Nothing is lost: the lost runs are on their way.
    pub fn absolve(&mut self) {
        self.runs.iter_mut().filter(|r| r.fate == Fate::Lost).for_each(|r| r.fate = Fate::Flying);
        self.flying += std::mem::take(&mut self.lost);
    }

    /// Begin and end of the first lost run.
    pub fn first_lost(&self) -> Option<(u64, u64)> {
        if self.lost == 0 {
            return None;
        }
        self.runs().find(|(_, run)| run.fate == Fate::Lost).map(|(from, run)| (from, run.end))
    }

    /// The numbers from `from`, where a run begins, to `to`, within it, are sent again.
    pub fn resend(&mut self, from: u64, to: u64, now: u64) {
        let index = self.cut(from);
        self.cut(to);
        let bytes = to - from;
        *self.sum(self.runs[index].fate) -= bytes;
        self.flying += bytes;
        self.runs[index] = Run { end: to, sent: now, fate: Fate::Flying, again: true };
        self.disorder = self.disorder.max(to);
        if index > 0 && self.runs[index - 1] == (Run { end: from, ..self.runs[index] }) {
            self.runs.remove(index - 1);
        }
    }

    /// Begin and end of the last packet. Packets have `mss` bytes, except the last of those that were sent together; `fin` is 1 if
    /// a FIN is part of it.
    pub fn tail(&self, mss: u64, fin: u64) -> Option<(u64, u64)> {
        let end = self.runs.back()?.end;
        let from = if self.runs.len() > 1 { self.runs[self.runs.len() - 2].end } else { self.start };
        Some((from + (end - fin - from).saturating_sub(1) / mss * mss, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_wire::Random;

    /// Sums and order as they must be.
    fn check(board: &Board) {
        let mut sums = [0; 3];
        let mut last = board.start;
        for (from, run) in board.runs() {
            assert!(from == last && run.end > from, "{board:?}");
            sums[run.fate as usize] += run.end - from;
            last = run.end;
        }
        assert_eq!(sums, [board.flying, board.lost, board.sacked], "{board:?}");
    }

    #[test]
    fn runs_are_joined_and_cut() {
        let mut board = Board::new(1000);
        (0..10).for_each(|k| board.push(1100 + 100 * k, k / 5));
        assert_eq!(board.runs.len(), 2);
        let mut seen = Vec::new();
        for (from, to) in [(1300, 1400), (1600, 1700), (1300, 1400), (1400, 1650)] {
            board.sack(from, to, |bytes, run| seen.push((bytes, run.end)));
            check(&board);
        }
        assert_eq!(seen, [(100, 1400), (100, 1700), (100, 1500), (100, 1600)]);
        assert_eq!((board.flying, board.sacked, board.runs.len()), (600, 400, 3));
        assert_eq!(board.judge(|_, run| Some(run.end <= 1700)), 300);
        assert_eq!(board.first_lost(), Some((1000, 1300)));
        board.resend(1000, 1100, 7);
        board.resend(1100, 1200, 7);
        check(&board);
        assert_eq!((board.lost, board.flying, board.runs.len()), (100, 500, 4));
        seen.clear();
        board.acknowledge(1800, |bytes, run| seen.push((bytes, run.end)));
        assert_eq!(seen, [(200, 1200), (100, 1300), (100, 1800)]);
        check(&board);
        assert_eq!((board.tail(150, 0), board.tail(200, 0)), (Some((1950, 2000)), Some((1800, 2000))));
        assert_eq!((board.tail(199, 1), board.tail(199, 0)), (Some((1800, 2000)), Some((1999, 2000))));
        board.acknowledge(2000, |_, _| ());
        assert!(board.is_empty() && board.is_clean() && board.flying + board.lost + board.sacked == 0);
    }

    #[test]
    fn any_order_of_events_keeps_the_sums() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut board = Board::new(1 << 32);
            // One more than the highest number that was reported as arrived, for each number.
            let mut arrived = vec![false; 4000];
            let mut mark = |to: u64, bytes: u64| {
                for n in to - bytes..to {
                    let n = (n - (1 << 32)) as usize;
                    assert!(!std::mem::replace(&mut arrived[n], true), "seed {seed}: {n} twice");
                }
            };
            for now in 0..300 {
                let (start, end) = (board.start, board.end());
                let at = start + random.below(end - start + 1);
                match random.below(6) {
                    0 | 1 if end < (1 << 32) + 3900 => board.push(end + 1 + random.below(99), now / 3),
                    2 => board.sack(at, at + random.below(200), |bytes, run| mark(run.end, bytes)),
                    3 => board.acknowledge(start + (at - start) / 4, |bytes, run| mark(run.end, bytes)),
                    4 => drop(board.judge(|_, _| Some(random.below(3) == 0))),
                    _ => {
                        if let Some((from, to)) = board.first_lost() {
                            board.resend(from, to.min(from + 50), now);
                        }
                    }
                }
                check(&board);
            }
        }
    }
}
