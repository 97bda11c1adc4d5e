//! Entries with masks and ranges, by their numbers in the store: the common part of their searches.

use super::place::{Matches, Place, between};
use crate::table::EntryHandle;
use std::cmp::Reverse;

/// Which of several entries wins: the greatest. No two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Priority and then prefix length, in the order of numbers.
    pub before_age: u64,
    age: Reverse<EntryHandle>,
}

impl Rank {
    pub fn new(priority: i32, prefix_len: u32, handle: EntryHandle) -> Self {
        let priority = priority as u32 ^ 1 << 31;
        Rank { before_age: u64::from(priority) << 32 | u64::from(prefix_len), age: Reverse(handle) }
    }
}

/// The entries of a table.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    key: usize,
    /// The range fields.
    ranges: Vec<Place>,
    /// Of each entry value, mask, and low and high bound of each range field.
    words: Vec<u64>,
    stride: usize,
    ranks: Vec<Option<Rank>>,
    len: usize,
}

impl Entries {
    /// For keys of this many words with these range fields.
    pub fn new(key: usize, ranges: Vec<Place>) -> Self {
        let bounds: usize = ranges.iter().map(|p| 2 * p.words().len()).sum();
        Entries { key, ranges, words: Vec::new(), stride: 2 * key + bounds, ranks: Vec::new(), len: 0 }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Words of a key.
    pub fn key_words(&self) -> usize {
        self.key
    }

    /// The range fields.
    pub fn range_fields(&self) -> &[Place] {
        &self.ranges
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 8 + self.ranks.capacity() * size_of::<Option<Rank>>()
    }

    pub fn insert(&mut self, slot: u32, rank: Rank, matches: &Matches) {
        let n = slot as usize;
        if self.ranks.len() <= n {
            self.ranks.resize(n + 1, None);
            self.words.resize((n + 1) * self.stride, 0);
        }
        self.len += usize::from(self.ranks[n].is_none());
        self.ranks[n] = Some(rank);
        let words = &mut self.words[n * self.stride..(n + 1) * self.stride];
        let parts = matches.value.iter().chain(&matches.mask).chain(&matches.ranges);
        words.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
    }

    pub fn remove(&mut self, slot: u32) {
        if let Some(rank) = self.ranks.get_mut(slot as usize) {
            self.len -= usize::from(rank.take().is_some());
        }
        if self.len == 0 {
            (self.words, self.ranks) = (Vec::new(), Vec::new());
        }
    }

    /// Numbers of the entries.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.ranks.len() as u32).filter(|n| self.ranks[*n as usize].is_some())
    }

    #[inline]
    pub fn rank(&self, slot: u32) -> Option<Rank> {
        self.ranks.get(slot as usize).copied().flatten()
    }

    #[inline]
    fn words(&self, slot: u32) -> &[u64] {
        &self.words[slot as usize * self.stride..][..self.stride]
    }

    pub fn value(&self, slot: u32) -> &[u64] {
        &self.words(slot)[..self.key]
    }

    pub fn mask(&self, slot: u32) -> &[u64] {
        &self.words(slot)[self.key..][..self.key]
    }

    /// The bounds of a range field, of which no other is wider than 64 bits.
    pub fn bounds(&self, slot: u32, field: usize) -> (u64, u64) {
        match self.words(slot).get(2 * (self.key + field)..) {
            Some([lo, hi, ..]) => (*lo, *hi),
            _ => (0, 0),
        }
    }

    /// Whether the key is in the ranges of an entry.
    #[inline(always)]
    pub fn in_ranges(&self, slot: u32, key: &[u64]) -> bool {
        if self.ranges.is_empty() {
            return true;
        }
        let mut bounds = &self.words(slot)[2 * self.key..];
        self.ranges.iter().all(|place| {
            let (lo, rest) = bounds.split_at(place.words().len());
            let (hi, rest) = rest.split_at(place.words().len());
            bounds = rest;
            between(*place, key, lo, hi)
        })
    }
}
