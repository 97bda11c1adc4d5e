//! One range field: the ends of all ranges cut the field's values into intervals, and each knows which entry wins there.
//! A look-up is a binary search.

use super::entries::Entries;
use super::place::Place;

/// Intervals and the winning entry in each.
#[derive(Clone, Debug)]
pub(super) struct Intervals {
    place: Place,
    /// Where each begins, the first at 0.
    starts: Vec<u64>,
    /// Number of the entry that wins, plus one; 0 for none.
    winners: Vec<u32>,
}

impl Intervals {
    /// For a field of at most 64 bits.
    pub fn new(place: Place) -> Self {
        Intervals { place, starts: vec![0], winners: vec![0] }
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.starts.capacity() * 8 + self.winners.capacity() * 4
    }

    /// Index of the interval that begins at `at`, made if missing.
    fn cut(&mut self, at: u64) -> usize {
        let next = self.starts.partition_point(|s| *s < at);
        if self.starts.get(next) != Some(&at) {
            self.starts.insert(next, at);
            self.winners.insert(next, self.winners[next - 1]);
        }
        next
    }

    /// The intervals between two bounds, both included.
    fn between(&mut self, lo: u64, hi: u64) -> std::ops::Range<usize> {
        let first = self.cut(lo);
        let end = match hi.checked_add(1) {
            Some(end) => self.cut(end),
            None => self.starts.len(),
        };
        first..end
    }

    /// Adds an entry that is among `entries` already.
    pub fn insert(&mut self, entries: &Entries, slot: u32) {
        let (lo, hi) = entries.bounds(slot, 0);
        let rank = entries.rank(slot);
        for i in self.between(lo, hi) {
            let winner = self.winners[i];
            if winner == 0 || entries.rank(winner - 1) < rank {
                self.winners[i] = slot + 1;
            }
        }
    }

    /// Removes an entry that is among `entries` no longer.
    pub fn remove(&mut self, entries: &Entries, slot: u32, lo: u64, hi: u64) {
        if self.starts.len() > 4 * entries.len() + 64 {
            return self.rebuild(entries);
        }
        let range = self.between(lo, hi);
        let open: Vec<usize> = range.filter(|i| self.winners[*i] == slot + 1).collect();
        if open.is_empty() {
            return;
        }
        open.iter().for_each(|i| self.winners[*i] = 0);
        self.fill(entries, open, lo, hi);
    }

    /// Finds the winners of unassigned intervals, given in order: the best entry takes its intervals first.
    fn fill(&mut self, entries: &Entries, mut open: Vec<usize>, lo: u64, hi: u64) {
        let meets = |s: &u32| {
            let (l, h) = entries.bounds(*s, 0);
            l <= hi && lo <= h
        };
        let mut candidates: Vec<u32> = entries.slots().filter(meets).collect();
        candidates.sort_by_key(|s| std::cmp::Reverse(entries.rank(*s)));
        for slot in candidates {
            let (l, h) = entries.bounds(slot, 0);
            let first = open.partition_point(|i| self.starts[*i] < l);
            let end = open.partition_point(|i| self.starts[*i] <= h);
            for i in open.drain(first..end) {
                self.winners[i] = slot + 1;
            }
            if open.is_empty() {
                break;
            }
        }
    }

    fn rebuild(&mut self, entries: &Entries) {
        let bounds = entries.slots().map(|s| entries.bounds(s, 0));
        let cuts = bounds.flat_map(|(lo, hi)| [Some(lo), hi.checked_add(1)]).flatten();
        self.starts = std::iter::once(0).chain(cuts).collect();
        self.starts.sort_unstable();
        self.starts.dedup();
        self.winners = vec![0; self.starts.len()];
        self.fill(entries, (0..self.starts.len()).collect(), 0, u64::MAX);
    }

    /// Number of the best entry that matches, plus one; 0 for none.
    #[inline(always)]
    pub fn find(&self, key: &[u64]) -> u32 {
        let value = self.place.low(key);
        self.winners[last_start(&self.starts, value)]
    }
}

/// Index of the last start that is not above `value`; the first start is 0. Halves without branches, which would be
/// unpredictable.
#[inline(always)]
#[allow(unsafe_code)]
pub(super) fn last_start(starts: &[u64], value: u64) -> usize {
    let (mut at, mut rest) = (0, starts.len());
    while rest > 1 {
        let half = rest / 2;
        // SAFETY: `at + rest` is never more than the length.
        let start = unsafe { *starts.get_unchecked(at + half) };
        at = std::hint::select_unpredictable(start <= value, at + half, at);
        rest -= half;
    }
    at
}
