//! Open addressing with keys and rows inline.
//!
//! A key's home is its hash scaled to the number of slots, so that slots are in the order of hashes. A collision goes
//! to the next slot (linear probing); removal shifts entries back that are too far from home then, so no tombstones are
//! needed. At most five eighths of the slots are taken: a hit then reads 1.8 slots on average, a miss 4, next to each
//! other. Growing (by half, or double while small) copies all slots in their order, so it reads and writes memory from
//! front to back: some 10 ms for a million entries, the only pause.

use pointsman_wire::Random;
use pointsman_zeros::Zeros;

/// Slots of an empty table.
const FEWEST: usize = 8;

/// From this many slots on a table is large: growing adds half, to waste less memory.
const LARGE: usize = 1 << 14;

/// The number of keys that fit a number of slots.
fn room(slots: usize) -> usize {
    if slots < LARGE { slots / 4 } else { slots / 8 * 5 }
}

/// A hash table. A slot is a key followed by a row; the row's first word is never zero, that of a free slot is.
#[derive(Clone, Debug)]
pub(super) struct Exact {
    words: Zeros<u64>,
    /// Words of a slot and of its key.
    stride: usize,
    key: usize,
    slots: usize,
    len: usize,
    /// Unknown to attackers who choose keys.
    secret: [u64; 2],
}

/// Both halves of a product, folded.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let p = u128::from(a) * u128::from(b);
    p as u64 ^ (p >> 64) as u64
}

impl Exact {
    /// For keys and rows of this many words (a row has at least one).
    pub fn new(key: usize, row: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let secret = [random.next_u64() | 1, random.next_u64() | 1];
        Exact {
            words: Zeros::new(FEWEST * (key + row)),
            stride: key + row,
            key,
            slots: FEWEST,
            len: 0,
            secret,
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Words of one key.
    pub fn key_words(&self) -> usize {
        self.key
    }

    /// One multiplication for up to two words: with a secret factor its upper bits are universal. Folding brings in the
    /// rest of the product.
    #[inline(always)]
    fn hash(&self, key: &[u64]) -> u64 {
        let [m, n] = self.secret;
        match *key {
            [] => 0,
            [a] => fold(a ^ n, m),
            [a, b] => fold(fold(a ^ n, m) ^ b, n),
            [a, b, ref rest @ ..] => rest.iter().fold(fold(fold(a ^ n, m) ^ b, n), |h, w| fold(h ^ w, m)),
        }
    }

    #[inline(always)]
    fn home(&self, key: &[u64]) -> usize {
        ((u128::from(self.hash(key)) * self.slots as u128) >> 64) as usize
    }

    /// The row of `key`, which has [`Exact::key_words`] words.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub fn find(&self, key: &[u64]) -> Option<*const u64> {
        debug_assert_eq!(key.len(), self.key);
        let words = self.words.as_ptr();
        let mut slot = self.home(key);
        loop {
            // SAFETY: `slot` is below `slots`: by scaling at first, then by the comparison below. There are `slots` slots
            // of `stride` words, a slot has key and row. At least one slot is free, so this ends.
            unsafe {
                let at = words.add(slot * self.stride);
                let row = at.add(key.len());
                let same = key.iter().enumerate().fold(0, |diff, (i, w)| diff | (*at.add(i) ^ w)) == 0;
                if *row == 0 {
                    return None;
                }
                if same {
                    return Some(row);
                }
            }
            slot += 1;
            if slot == self.slots {
                slot = 0;
            }
        }
    }

    /// Where the search for `key` begins.
    #[inline(always)]
    pub fn first(&self, key: &[u64]) -> *const u64 {
        debug_assert_eq!(key.len(), self.key);
        self.words.as_ptr().wrapping_add(self.home(key) * self.stride)
    }

    fn slot(&self, n: usize) -> &[u64] {
        &self.words[n * self.stride..(n + 1) * self.stride]
    }

    fn is_free(&self, n: usize) -> bool {
        self.words[n * self.stride + self.key] == 0
    }

    /// The slot that holds `key`, or the free one where it would go.
    fn seek(&self, key: &[u64]) -> Result<usize, usize> {
        let mut n = self.home(key);
        loop {
            if self.is_free(n) {
                return Err(n);
            }
            if self.slot(n)[..self.key] == *key {
                return Ok(n);
            }
            n = if n + 1 == self.slots { 0 } else { n + 1 };
        }
    }

    /// The row of `key`, to be changed; its first word must not become zero.
    pub fn get_mut(&mut self, key: &[u64]) -> Option<&mut [u64]> {
        if key.len() != self.key {
            return None;
        }
        let n = self.seek(key).ok()?;
        Some(&mut self.words[n * self.stride + self.key..(n + 1) * self.stride])
    }

    /// Sets the row of `key`. A row whose first word is zero means a free slot.
    pub fn insert(&mut self, key: &[u64], row: &[u64]) {
        if key.len() != self.key || row.len() != self.stride - self.key || row.first() == Some(&0) {
            return;
        }
        let n = match self.seek(key) {
            Ok(n) => n,
            Err(mut n) => {
                if self.len >= room(self.slots) {
                    self.resize(if self.slots < LARGE {
                        self.slots * 2
                    } else {
                        self.slots + self.slots / 2
                    });
                    n = self.seek(key).unwrap_or_else(|n| n);
                }
                self.len += 1;
                n
            }
        };
        let slot = &mut self.words[n * self.stride..(n + 1) * self.stride];
        slot[..key.len()].copy_from_slice(key);
        slot[key.len()..].copy_from_slice(row);
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.words, Zeros::new(slots * self.stride));
        self.slots = slots;
        for slot in old.chunks_exact(self.stride).filter(|s| s[self.key] != 0) {
            let (Ok(n) | Err(n)) = self.seek(&slot[..self.key]);
            self.words[n * self.stride..(n + 1) * self.stride].copy_from_slice(slot);
        }
    }

    /// Removes a key. False if it was missing.
    pub fn remove(&mut self, key: &[u64]) -> bool {
        if key.len() != self.key {
            return false;
        }
        let Ok(mut hole) = self.seek(key) else { return false };
        self.len -= 1;
        let mut n = hole;
        loop {
            n = if n + 1 == self.slots { 0 } else { n + 1 };
            if self.is_free(n) {
                break;
            }
            // It may move to the hole if its home is not behind the hole, all counted backwards from its slot.
            let behind = |from: usize| if from <= n { n - from } else { n + self.slots - from };
            if behind(self.home(&self.slot(n)[..self.key])) >= behind(hole) {
                self.words.copy_within(n * self.stride..(n + 1) * self.stride, hole * self.stride);
                hole = n;
            }
        }
        self.words[hole * self.stride..(hole + 1) * self.stride].fill(0);
        if self.slots > FEWEST && self.len * 16 < self.slots {
            self.resize((self.slots / 4).max(FEWEST));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Changes of few keys with a hash that collides a lot: the table and a map agree after each.
    #[test]
    #[allow(unsafe_code)]
    fn agrees_with_a_map() {
        for key_words in 0..5 {
            let mut dice = Random::new(7 + key_words as u64);
            let mut table = Exact::new(key_words, 2, 1);
            if key_words == 2 {
                // Every key's home is one of two slots.
                table.secret = [1, 0];
            }
            let mut map = BTreeMap::new();
            for step in 1..4000u64 {
                let n = dice.next_u64() % if step % 1000 < 500 { 200 } else { 20 };
                let key: Vec<u64> = (0..key_words as u64).map(|i| n * i.max(1)).collect();
                if dice.next_u64().is_multiple_of(3) {
                    assert_eq!(table.remove(&key), map.remove(&key).is_some());
                } else {
                    table.insert(&key, &[step, n]);
                    map.insert(key, [step, n]);
                }
                assert_eq!(table.len(), map.len());
                for n in 0..200 {
                    let key: Vec<u64> = (0..key_words as u64).map(|i| n * i.max(1)).collect();
                    // SAFETY: a row has two words.
                    let found = table.find(&key).map(|row| unsafe { [*row, *row.add(1)] });
                    assert_eq!(found.as_ref(), map.get(&key));
                    assert_eq!(table.get_mut(&key).map(|row| [row[0], row[1]]), found);
                }
            }
            for key in map.keys() {
                assert!(table.remove(key));
            }
            assert_eq!((table.len(), table.slots), (0, FEWEST));
        }
    }
}
