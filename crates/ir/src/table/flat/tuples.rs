//! Tuple space search (Srinivasan, Suri, Varghese: Packet classification using tuple space search, 1999): one hash table
//! for each mask that occurs, best first. Good as long as masks are few, or entries too many for [`super::vectors`].
//!
//! Ranges are compared behind the hash table, one after the other.

use super::entries::{Entries, Rank};
use super::exact::Exact;
use pointsman_wire::Random;
use std::collections::BTreeMap;

/// Longer keys than this are not looked up here.
pub(super) const MAX_KEY: usize = 32;

#[derive(Clone, Debug)]
struct Tuple {
    /// No entry here ranks above it.
    best: Rank,
    /// Masked keys. A row: number of the best of the entries with this key, plus one; its rank without age.
    table: Exact,
}

/// Entries by mask.
#[derive(Clone, Debug)]
pub(super) struct Tuples {
    /// The best first.
    tuples: Vec<Tuple>,
    /// Their masks.
    masks: Vec<u64>,
    key: usize,
    /// For each entry the next with mask and value alike, plus one; 0 for none.
    next: Vec<u32>,
    /// The longest list so far of entries with mask and value alike.
    longest: usize,
    /// Bests by mask, to find a tuple.
    by_mask: BTreeMap<Vec<u64>, Rank>,
    random: Random,
}

impl Tuples {
    /// For keys of this many words, at most [`MAX_KEY`].
    pub fn new(key: usize, seed: u64) -> Self {
        let (tuples, masks, next) = (Vec::new(), Vec::new(), Vec::new());
        Tuples { tuples, masks, key, next, longest: 0, by_mask: BTreeMap::new(), random: Random::new(seed) }
    }

    /// Number of masks, and of entries that are compared one after the other at most.
    pub fn cost(&self, entries: &Entries) -> (usize, usize) {
        (self.tuples.len(), if entries.range_fields().is_empty() { 1 } else { self.longest })
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.next.capacity() * 4 + self.tuples.iter().map(|t| t.table.bytes()).sum::<usize>()
    }

    /// Index of the tuple of a mask.
    fn tuple(&self, mask: &[u64]) -> Option<usize> {
        let best = self.by_mask.get(mask)?;
        let from = self.tuples.partition_point(|t| t.best > *best);
        (from..self.tuples.len()).find(|i| self.masks[i * self.key..][..self.key] == *mask)
    }

    fn place(&mut self, mask: &[u64], tuple: Tuple) -> usize {
        self.by_mask.insert(mask.to_vec(), tuple.best);
        let at = self.tuples.partition_point(|t| t.best > tuple.best);
        self.tuples.insert(at, tuple);
        self.masks.splice(at * self.key..at * self.key, mask.iter().copied());
        at
    }

    fn take(&mut self, at: usize) -> Tuple {
        self.masks.drain(at * self.key..(at + 1) * self.key);
        self.tuples.remove(at)
    }

    /// Adds an entry that is among `entries` already.
    pub fn insert(&mut self, entries: &Entries, slot: u32) {
        let Some(rank) = entries.rank(slot) else { return };
        let (value, mask) = (entries.value(slot), entries.mask(slot));
        let tuple = match self.tuple(mask) {
            Some(i) if self.tuples[i].best >= rank => i,
            Some(i) => {
                let tuple = self.take(i);
                self.place(mask, Tuple { best: rank, ..tuple })
            }
            None => {
                let table = Exact::new(self.key, 2, self.random.next_u64());
                self.place(mask, Tuple { best: rank, table })
            }
        };
        if self.next.len() <= slot as usize {
            self.next.resize(slot as usize + 1, 0);
        }
        self.next[slot as usize] = 0;
        let row = [u64::from(slot) + 1, rank.before_age];
        let table = &mut self.tuples[tuple].table;
        let Some(first) = table.get_mut(value) else { return table.insert(value, &row) };
        // Behind all that rank above it.
        let (mut before, mut at, mut length) = (0, first[0] as u32, 1);
        while at != 0 && entries.rank(at - 1) > Some(rank) {
            (before, at) = (at, self.next[at as usize - 1]);
            length += 1;
        }
        self.longest = self.longest.max(length);
        self.next[slot as usize] = at;
        match before {
            0 => first.copy_from_slice(&row),
            _ => self.next[before as usize - 1] = slot + 1,
        }
    }

    /// Removes an entry that is among `entries` still.
    pub fn remove(&mut self, entries: &Entries, slot: u32) {
        let (value, mask) = (entries.value(slot), entries.mask(slot));
        let Some(tuple) = self.tuple(mask) else { return };
        let table = &mut self.tuples[tuple].table;
        let Some(first) = table.get_mut(value) else { return };
        let after = self.next[slot as usize];
        if first[0] as u32 != slot + 1 {
            let mut at = first[0] as u32;
            while at != 0 {
                let next = &mut self.next[at as usize - 1];
                if *next == slot + 1 {
                    *next = after;
                    return;
                }
                at = *next;
            }
        } else if let Some(rank) = after.checked_sub(1).and_then(|s| entries.rank(s)) {
            first.copy_from_slice(&[after.into(), rank.before_age]);
        } else {
            table.remove(value);
            if table.len() == 0 {
                self.by_mask.remove(mask);
                self.take(tuple);
            }
        }
    }

    /// Number of the best entry that matches, plus one; 0 for none. `K` is the number of words of a key; 0: unknown
    /// before.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub fn find<const K: usize>(&self, entries: &Entries, key: &[u64]) -> u32 {
        let (mut best, mut found) = (0, 0);
        let mut masks = self.masks.as_slice();
        for tuple in &self.tuples {
            if found != 0 && best > tuple.best.before_age {
                break;
            }
            let (mask, rest) = masks.split_at(if K == 0 { self.key } else { K });
            masks = rest;
            let row = if K == 0 {
                let mut masked = [0; MAX_KEY];
                masked.iter_mut().zip(key).zip(mask).for_each(|((to, word), mask)| *to = word & mask);
                tuple.table.find(&masked[..self.key])
            } else {
                let masked: [u64; K] = std::array::from_fn(|i| key[i] & mask[i]);
                tuple.table.find(&masked)
            };
            let Some(row) = row else { continue };
            // SAFETY: rows here have two words.
            let (mut at, mut rank) = unsafe { (*row as u32, *row.add(1)) };
            if !entries.range_fields().is_empty() {
                while at != 0 && !entries.in_ranges(at - 1, key) {
                    at = self.next[at as usize - 1];
                }
                let Some(own) = at.checked_sub(1).and_then(|s| entries.rank(s)) else { continue };
                rank = own.before_age;
            }
            // Age seldom decides.
            if found == 0 || rank > best || rank == best && entries.rank(at - 1) > entries.rank(found - 1) {
                (best, found) = (rank, at);
            }
        }
        found
    }

    /// Where the search for a key begins.
    #[inline(always)]
    pub fn first(&self, key: &[u64]) -> *const u64 {
        let Some(tuple) = self.tuples.first() else { return std::ptr::null() };
        let mut masked = [0; MAX_KEY];
        masked.iter_mut().zip(key).zip(&self.masks).for_each(|((to, word), mask)| *to = word & mask);
        tuple.table.first(&masked[..self.key])
    }
}
