//! Entries with masks or ranges: which way of searching them suits.

use super::entries::{Entries, Rank};
use super::intervals::Intervals;
use super::place::{Matches, Place};
use super::tuples::{MAX_KEY, Tuples};
use super::vectors::{MAX_ENTRIES, Vectors};
use crate::program::MatchKind;

/// With more masks than this, bit vectors are quicker; with many entries they take longer, so it is one mask more for
/// each this many entries.
const MAX_MASKS: usize = 4;
const ENTRIES_PER_MASK: usize = 2048;

/// The same for entries that are alike but for their ranges and priorities.
const MAX_ALIKE: usize = 8;

/// How entries are found.
#[derive(Clone, Debug)]
pub(super) enum How {
    Tuples(Tuples),
    Vectors(Vectors),
    Intervals(Intervals),
}

/// Entries, and how they are found.
#[derive(Clone, Debug)]
pub(super) struct Masked {
    pub entries: Entries,
    pub how: How,
    /// Bit vectors took too much memory: try again with this many entries.
    retry: usize,
    seed: u64,
}

impl Masked {
    /// `None`: keys are too long.
    pub fn new(keys: &[(MatchKind, u32)], places: &[Place], key_words: usize, seed: u64) -> Option<Self> {
        let ranges = keys.iter().zip(places).filter(|k| k.0.0 == MatchKind::Range).map(|k| *k.1).collect();
        let entries = Entries::new(key_words, ranges);
        let how = match (entries.range_fields(), places) {
            ([place], [_]) if (1..=64).contains(&place.width) => How::Intervals(Intervals::new(*place)),
            _ => How::Tuples(Tuples::new(key_words, seed)),
        };
        (key_words <= MAX_KEY).then_some(Masked { entries, how, retry: 0, seed })
    }

    pub fn bytes(&self) -> usize {
        let how = match &self.how {
            How::Tuples(t) => t.bytes(),
            How::Vectors(v) => v.bytes(),
            How::Intervals(i) => i.bytes(),
        };
        how + self.entries.bytes()
    }

    pub fn insert(&mut self, slot: u32, rank: Rank, matches: &Matches) {
        self.entries.insert(slot, rank, matches);
        match &mut self.how {
            How::Intervals(i) => i.insert(&self.entries, slot),
            How::Tuples(t) => {
                t.insert(&self.entries, slot);
                let (masks, alike) = t.cost(&self.entries);
                let n = self.entries.len();
                if (masks > MAX_MASKS + n / ENTRIES_PER_MASK || alike > MAX_ALIKE)
                    && n >= self.retry
                    && n <= MAX_ENTRIES
                    && Vectors::can(&self.entries)
                {
                    match Vectors::new(&self.entries) {
                        Some(vectors) => self.how = How::Vectors(vectors),
                        None => self.retry = n * 2,
                    }
                }
            }
            How::Vectors(v) => {
                if !v.insert(&self.entries, slot) {
                    match Vectors::new(&self.entries) {
                        Some(vectors) => self.how = How::Vectors(vectors),
                        None => {
                            self.retry = self.entries.len() * 2;
                            self.use_tuples();
                        }
                    }
                }
            }
        }
    }

    fn use_tuples(&mut self) {
        let mut tuples = Tuples::new(self.entries.key_words(), self.seed);
        for slot in self.entries.slots() {
            tuples.insert(&self.entries, slot);
        }
        self.how = How::Tuples(tuples);
    }

    pub fn remove(&mut self, slot: u32) {
        if self.entries.rank(slot).is_none() {
            return;
        }
        match &mut self.how {
            How::Tuples(t) => t.remove(&self.entries, slot),
            How::Vectors(v) => v.remove(&self.entries, slot),
            How::Intervals(_) => {}
        }
        let (lo, hi) = self.entries.bounds(slot, 0);
        self.entries.remove(slot);
        if let How::Intervals(i) = &mut self.how {
            i.remove(&self.entries, slot, lo, hi);
        }
        let n = self.entries.len();
        if n * 8 < self.retry {
            self.retry = 0;
        }
        match &self.how {
            How::Tuples(_) | How::Vectors(_) if n == 0 => self.use_tuples(),
            How::Vectors(v) if n * 8 < v.capacity() && v.capacity() > 256 => {
                match Vectors::new(&self.entries) {
                    Some(vectors) => self.how = How::Vectors(vectors),
                    None => self.use_tuples(),
                }
            }
            _ => {}
        }
    }
}
