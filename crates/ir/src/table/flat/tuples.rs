//! Tuple space search (Srinivasan, Suri, Varghese: Packet classification using tuple space search, 1999): one hash table
//! for each mask that occurs, best first. Good as long as masks are few, or entries too many for [`super::vectors`].
//!
//! Ranges are compared behind the hash table, one after the other.

use super::entries::{Entries, Rank};
use super::exact::{Exact, next_secret};
use std::collections::BTreeMap;

/// Longer keys than this are not looked up here.
pub(super) const MAX_KEY: usize = 32;

#[derive(Clone, Debug)]
struct Tuple {
    mask: Vec<u64>,
    /// No entry here ranks above it.
    best: Rank,
    /// Masked keys; a row is the number of the best of the entries with this key, plus one.
    table: Exact,
}

/// Entries by mask.
#[derive(Clone, Debug)]
pub(super) struct Tuples {
    /// The best first.
    tuples: Vec<Tuple>,
    /// For each entry the next with mask and value alike, plus one; 0 for none.
    next: Vec<u32>,
    /// The longest list so far of entries with mask and value alike.
    longest: usize,
    /// Bests by mask, to find a tuple.
    by_mask: BTreeMap<Vec<u64>, Rank>,
    seed: u64,
}

impl Tuples {
    pub fn new(seed: u64) -> Self {
        Tuples { tuples: Vec::new(), next: Vec::new(), longest: 0, by_mask: BTreeMap::new(), seed }
    }

    /// Number of masks, and of entries that were compared one after the other at most.
    pub fn cost(&self) -> (usize, usize) {
        (self.tuples.len(), self.longest)
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.next.capacity() * 4 + self.tuples.iter().map(|t| t.table.bytes()).sum::<usize>()
    }

    /// Index of the tuple of a mask.
    fn tuple(&self, mask: &[u64]) -> Option<usize> {
        let best = self.by_mask.get(mask)?;
        let from = self.tuples.partition_point(|t| t.best > *best);
        (from..self.tuples.len()).find(|i| self.tuples[*i].mask == mask)
    }

    /// Adds an entry that is among `entries` already.
    pub fn insert(&mut self, entries: &Entries, slot: u32) {
        let Some(rank) = entries.rank(slot) else { return };
        let (value, mask) = (entries.value(slot), entries.mask(slot));
        let tuple = match self.tuple(mask) {
            Some(i) if self.tuples[i].best >= rank => i,
            Some(i) => {
                let mut tuple = self.tuples.remove(i);
                tuple.best = rank;
                self.place(tuple)
            }
            None => {
                let table = Exact::new(mask.len(), 1, next_secret(&mut self.seed));
                self.place(Tuple { mask: mask.to_vec(), best: rank, table })
            }
        };
        if self.next.len() <= slot as usize {
            self.next.resize(slot as usize + 1, 0);
        }
        self.next[slot as usize] = 0;
        let table = &mut self.tuples[tuple].table;
        let Some(first) = table.get_mut(value) else {
            return table.insert(value, &[u64::from(slot) + 1]);
        };
        // Behind all that rank above it.
        let (mut before, mut at, mut length) = (0, first[0] as u32, 1);
        while at != 0 && entries.rank(at - 1) > Some(rank) {
            (before, at) = (at, self.next[at as usize - 1]);
            length += 1;
        }
        self.longest = self.longest.max(length);
        self.next[slot as usize] = at;
        match before {
            0 => first[0] = u64::from(slot) + 1,
            _ => self.next[before as usize - 1] = slot + 1,
        }
    }

    fn place(&mut self, tuple: Tuple) -> usize {
        self.by_mask.insert(tuple.mask.clone(), tuple.best);
        let at = self.tuples.partition_point(|t| t.best > tuple.best);
        self.tuples.insert(at, tuple);
        at
    }

    /// Removes an entry that is among `entries` still.
    pub fn remove(&mut self, entries: &Entries, slot: u32) {
        let (value, mask) = (entries.value(slot), entries.mask(slot));
        let Some(tuple) = self.tuple(mask) else { return };
        let table = &mut self.tuples[tuple].table;
        let Some(first) = table.get_mut(value) else { return };
        let after = self.next[slot as usize];
        if first[0] as u32 == slot + 1 {
            if after != 0 {
                first[0] = after.into();
            } else {
                table.remove(value);
                if table.len() == 0 {
                    self.by_mask.remove(mask);
                    self.tuples.remove(tuple);
                }
            }
            return;
        }
        let mut at = first[0] as u32;
        while at != 0 {
            let next = &mut self.next[at as usize - 1];
            if *next == slot + 1 {
                *next = after;
                return;
            }
            at = *next;
        }
    }

    /// Number of the best entry that matches, plus one; 0 for none.
    #[inline(always)]
    pub fn find(&self, entries: &Entries, key: &[u64]) -> u32 {
        let mut masked = [0; MAX_KEY];
        let masked = &mut masked[..key.len()];
        let (mut best, mut found) = (None, 0);
        for tuple in &self.tuples {
            if best > Some(tuple.best) {
                break;
            }
            for ((to, word), mask) in masked.iter_mut().zip(key).zip(&tuple.mask) {
                *to = word & mask;
            }
            let Some(first) = tuple.table.find(masked) else { continue };
            // SAFETY: rows here have one word.
            let mut at = unsafe { *first } as u32;
            while at != 0 {
                if entries.in_ranges(at - 1, key) {
                    let rank = entries.rank(at - 1);
                    if rank > best {
                        (best, found) = (rank, at);
                    }
                    break;
                }
                at = self.next[at as usize - 1];
            }
        }
        found
    }

    /// Where the search for a key begins.
    #[inline(always)]
    pub fn first(&self, key: &[u64]) -> *const u64 {
        let mut masked = [0; MAX_KEY];
        let masked = &mut masked[..key.len()];
        let Some(tuple) = self.tuples.first() else { return std::ptr::null() };
        for ((to, word), mask) in masked.iter_mut().zip(key).zip(&tuple.mask) {
            *to = word & mask;
        }
        tuple.table.first(masked)
    }
}
