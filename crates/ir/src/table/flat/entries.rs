//! Entries with masks and ranges, by their numbers in the store: what the searches among them share.

use super::place::{Matches, Place, Range};
use crate::table::EntryHandle;
use std::cmp::Reverse;

/// Which of several entries wins: the greatest. No two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: i32,
    prefix_len: u32,
    age: Reverse<EntryHandle>,
}

impl Rank {
    pub fn new(priority: i32, prefix_len: u32, handle: EntryHandle) -> Self {
        Rank { priority, prefix_len, age: Reverse(handle) }
    }
}

/// The entries of a table.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    /// Of the key.
    places: Vec<Place>,
    key: usize,
    /// Value and mask of each.
    words: Vec<u64>,
    ranks: Vec<Option<Rank>>,
    /// Left empty as long as nobody has a range.
    ranges: Vec<Box<[Range]>>,
    len: usize,
}

impl Entries {
    pub fn new(places: &[Place], key: usize) -> Self {
        let (words, ranks, ranges) = (Vec::new(), Vec::new(), Vec::new());
        Entries { places: places.to_vec(), key, words, ranks, ranges, len: 0 }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Words of a key.
    pub fn key_words(&self) -> usize {
        self.key
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 8
            + self.ranks.capacity() * size_of::<Option<Rank>>()
            + self.ranges.capacity() * size_of::<Box<[Range]>>()
    }

    pub fn insert(&mut self, slot: u32, rank: Rank, matches: &Matches) {
        let n = slot as usize;
        if self.ranks.len() <= n {
            self.ranks.resize(n + 1, None);
            self.words.resize((n + 1) * 2 * self.key, 0);
        }
        self.len += usize::from(self.ranks[n].is_none());
        self.ranks[n] = Some(rank);
        let words = &mut self.words[n * 2 * self.key..(n + 1) * 2 * self.key];
        words[..self.key].copy_from_slice(&matches.value);
        words[self.key..].copy_from_slice(&matches.mask);
        if !matches.ranges.is_empty() || n < self.ranges.len() {
            if self.ranges.len() <= n {
                self.ranges.resize(n + 1, Box::default());
            }
            self.ranges[n] = matches.ranges.clone().into();
        }
    }

    pub fn remove(&mut self, slot: u32) {
        if let Some(rank) = self.ranks.get_mut(slot as usize) {
            self.len -= usize::from(rank.take().is_some());
        }
        if self.len == 0 {
            (self.words, self.ranks, self.ranges) = (Vec::new(), Vec::new(), Vec::new());
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

    pub fn value(&self, slot: u32) -> &[u64] {
        &self.words[slot as usize * 2 * self.key..][..self.key]
    }

    pub fn mask(&self, slot: u32) -> &[u64] {
        &self.words[slot as usize * 2 * self.key + self.key..][..self.key]
    }

    pub fn ranges(&self, slot: u32) -> &[Range] {
        self.ranges.get(slot as usize).map_or(&[], |r| r)
    }

    /// Does the key lie in the ranges of an entry?
    #[inline]
    pub fn in_ranges(&self, slot: u32, key: &[u64]) -> bool {
        self.ranges(slot).iter().all(|r| r.contains(self.places[r.field], key))
    }
}
