//! Which entries the switch's cache has: those that are asked for most often.

use std::collections::BTreeMap;

/// A key is reported from so many packets in an age of the sketch on, while the cache has room.
pub const LEAST: u16 = 8;
/// More cannot be counted in an age.
const MOST: u64 = (1 << 13) - 1;

/// An entry in the cache.
#[derive(Debug, Default)]
struct Cached {
    /// Its counter, when it was last read.
    read: Option<u64>,
}

/// The keys in the cache. An entry gives up its place only after it was there for a whole age, and for one that is asked for more often.
#[derive(Debug)]
pub(crate) struct Cache {
    capacity: usize,
    keys: BTreeMap<Vec<u8>, Cached>,
    /// Keys that may give up their places in this age, the most popular first.
    cold: Vec<Vec<u8>>,
}

impl Cache {
    /// An empty cache with so many places.
    pub fn new(capacity: usize) -> Self {
        Cache { capacity, keys: BTreeMap::new(), cold: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// Takes a key in, and gives the one in whose place it is. `None`: it is there, or has no place.
    pub fn admit(&mut self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        if self.contains(key) {
            return None;
        }
        let evicted = if self.keys.len() < self.capacity { None } else { Some(self.cold.pop()?) };
        if let Some(cold) = &evicted {
            self.keys.remove(cold);
        }
        self.keys.insert(key.to_vec(), Cached::default());
        Some(evicted)
    }

    /// Takes the counters: from how many packets in an age on another key deserves a place.
    pub fn hits<'a>(&mut self, counters: impl IntoIterator<Item = (&'a [u8], u64)>) -> u16 {
        let mut ages: Vec<(u64, &[u8])> = Vec::new();
        for (key, counter) in counters {
            if let Some(cached) = self.keys.get_mut(key)
                && let Some(before) = cached.read.replace(counter)
            {
                ages.push((counter.saturating_sub(before), key));
            }
        }
        self.cold.clear();
        if self.keys.len() < self.capacity {
            return LEAST;
        }
        ages.sort_unstable_by(|a, b| b.cmp(a));
        // An eighth more than the coldest, so that keys of equal popularity do not take turns.
        let coldest = ages.last().map_or(0, |(hits, _)| *hits);
        let from = (coldest + coldest / 8 + 1).clamp(LEAST.into(), MOST);
        self.cold = ages.into_iter().filter(|(hits, _)| *hits < from).map(|(_, key)| key.to_vec()).collect();
        from as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &[u8] = &[1];
    const B: &[u8] = &[2];
    const C: &[u8] = &[3];

    #[test]
    fn the_coldest_gives_up_its_place_after_a_whole_age() {
        let mut cache = Cache::new(2);
        assert_eq!(cache.hits([]), LEAST);
        assert_eq!(cache.admit(A), Some(None));
        assert_eq!(cache.admit(A), None);
        assert_eq!(cache.hits([(A, 50)]), LEAST);
        assert_eq!(cache.admit(B), Some(None));
        assert_eq!(cache.admit(C), None);
        // B was not there for a whole age, so A is the coldest: it has had 30.
        assert_eq!(cache.hits([(A, 80), (B, 1)]), 34);
        assert_eq!(cache.hits([(A, 80 + 800), (B, 1 + 80)]), 91);
        assert_eq!(cache.admit(C), Some(Some(B.to_vec())));
        assert_eq!(cache.admit(B), None);
        assert!(cache.contains(A) && cache.contains(C) && cache.len() == 2);
        // A was not asked for; and nothing is asked for more often than is counted.
        assert_eq!(cache.hits([(A, 880), (C, 100_000)]), LEAST);
        assert_eq!(cache.hits([(A, 1_000_000), (C, 1_000_000)]), MOST as u16);
        assert_eq!((cache.admit(B), cache.admit(&[4])), (None, None));
    }
}
