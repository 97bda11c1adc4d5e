//! Entries with masks or ranges: which way of searching them suits.

use super::entries::{Entries, Rank};
use super::intervals::Intervals;
use super::place::{Matches, Place};
use super::tuples::{MAX_KEY, Tuples};
use super::vectors::{MAX_ENTRIES, Vectors};
use crate::program::MatchKind;

/// With more masks than this, or more entries alike but for their ranges or priorities, bit vectors are quicker.
const MAX_MASKS: usize = 10;
const MAX_ALIKE: usize = 16;

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
    places: Vec<Place>,
    /// The fields of kind range.
    ranges: Vec<usize>,
    /// Bit vectors took too much memory: try again with so many entries.
    retry: usize,
    seed: u64,
}

impl Masked {
    /// `None`: keys are too long.
    pub fn new(keys: &[(MatchKind, u32)], places: &[Place], key_words: usize, seed: u64) -> Option<Self> {
        let ranges: Vec<usize> = (0..keys.len()).filter(|i| keys[*i].0 == MatchKind::Range).collect();
        let how = match (keys, places) {
            ([_], [place]) if ranges == [0] && place.width <= 64 => How::Intervals(Intervals::new(*place)),
            _ => How::Tuples(Tuples::new(seed)),
        };
        let entries = Entries::new(places, key_words);
        (key_words <= MAX_KEY).then(|| Masked {
            entries,
            how,
            places: places.to_vec(),
            ranges,
            retry: 0,
            seed,
        })
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
                let (masks, alike) = t.cost();
                let n = self.entries.len();
                if (masks > MAX_MASKS || alike > MAX_ALIKE)
                    && n >= self.retry
                    && n <= MAX_ENTRIES
                    && Vectors::can(&self.places, self.entries.key_words(), &self.ranges)
                {
                    match Vectors::new(&self.places, &self.entries, &self.ranges) {
                        Some(vectors) => self.how = How::Vectors(vectors),
                        None => self.retry = n * 2,
                    }
                }
            }
            How::Vectors(v) => {
                if !v.insert(&self.entries, slot) {
                    match Vectors::new(&self.places, &self.entries, &self.ranges) {
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
        let mut tuples = Tuples::new(self.seed);
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
        let bounds = self.entries.ranges(slot).first().cloned();
        self.entries.remove(slot);
        if let (How::Intervals(i), Some(range)) = (&mut self.how, bounds) {
            let low = |w: &[u64]| w.first().copied().unwrap_or(0);
            i.remove(&self.entries, slot, low(&range.lo), low(&range.hi));
        }
        let n = self.entries.len();
        if n * 8 < self.retry {
            self.retry = 0;
        }
        if n == 0 && !matches!(self.how, How::Intervals(_)) {
            self.use_tuples();
        }
    }
}
