//! Requests that wait for an answer: by connection, and by age.
//!
//! Every packet of a device is looked up here, so this is a table with open addressing and linear probing, and not an ordered map.
//! Clients choose their addresses and ports, but not where in the table they end: that depends on the time of the first request, which
//! they do not know to the nanosecond. Nothing that leaves the agent depends on the order in the table.

use crate::types::{Address, Protocol};
use pointsman_wire::random::mix;

/// A connection as a device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    client: u128,
    /// Protocol, family, the device's port, the client's.
    rest: u64,
}

impl Key {
    #[inline]
    pub fn new(protocol: Protocol, own_port: u16, client: Address, client_port: u16) -> Self {
        let kind = u64::from(client.v6) << 8 | u64::from(protocol.number());
        let rest = kind << 32 | u64::from(own_port) << 16 | u64::from(client_port);
        Key { client: client.bits, rest }
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub key: Key,
    /// When it came, in nanoseconds.
    pub start: u64,
    /// TCP: the sequence number after its last byte.
    pub end: u32,
}

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Entry {
    request: Request,
    /// Its neighbours in age; of an entry that is free, the next free one.
    older: u32,
    newer: u32,
}

/// A place in the table: an entry's number, and a part of its hash.
#[derive(Clone, Copy, Debug)]
struct Place {
    tag: u32,
    entry: u32,
}

const EMPTY: Place = Place { tag: 0, entry: NONE };
const FEWEST_PLACES: usize = 64;

/// The requests. At most a quarter of the places in the table is taken: most searches end where they begin.
#[derive(Debug)]
pub(super) struct Waiting {
    seeds: [u64; 2],
    /// A power of two, or none.
    places: Vec<Place>,
    entries: Vec<Entry>,
    free: u32,
    oldest: u32,
    newest: u32,
    len: usize,
}

impl Default for Waiting {
    fn default() -> Self {
        let (places, entries) = (Vec::new(), Vec::new());
        Waiting { seeds: [0; 2], places, entries, free: NONE, oldest: NONE, newest: NONE, len: 0 }
    }
}

impl Waiting {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    fn tag(&self, key: &Key) -> u32 {
        let [a, b] = self.seeds;
        let (low, high) = (key.client as u64, (key.client >> 64) as u64);
        let product = u128::from(low ^ a) * u128::from(high ^ key.rest ^ b);
        (product ^ product >> 64) as u32
    }

    /// The place and the entry of a connection's request.
    #[inline]
    fn find(&self, key: &Key) -> Option<(usize, usize)> {
        let mask = self.places.len().checked_sub(1)?;
        let tag = self.tag(key);
        let mut at = tag as usize & mask;
        loop {
            let place = self.places[at];
            if place.entry == NONE {
                return None;
            }
            if place.tag == tag && self.entries[place.entry as usize].request.key == *key {
                return Some((at, place.entry as usize));
            }
            at = (at + 1) & mask;
        }
    }

    /// The request of this connection.
    #[inline]
    pub fn get(&self, key: &Key) -> Option<&Request> {
        self.find(key).map(|(_, entry)| &self.entries[entry].request)
    }

    /// The one that came first.
    #[inline]
    pub fn oldest(&self) -> Option<&Request> {
        self.entries.get(self.oldest as usize).map(|e| &e.request)
    }

    /// Adds a request that came after all others, of a connection without one.
    pub fn add(&mut self, request: Request) {
        if 4 * (self.len + 1) > self.places.len() {
            self.grow(request.start);
        }
        let entry = Entry { request, older: self.newest, newer: NONE };
        let number = self.free;
        let number = match self.entries.get_mut(number as usize) {
            Some(free) => {
                self.free = free.newer;
                *free = entry;
                number
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        match self.entries.get_mut(self.newest as usize) {
            Some(before) => before.newer = number,
            None => self.oldest = number,
        }
        self.newest = number;
        self.len += 1;
        let tag = self.tag(&request.key);
        self.put(Place { tag, entry: number });
    }

    /// Fills the first place from its own on that is empty.
    fn put(&mut self, place: Place) {
        let mask = self.places.len() - 1;
        let mut at = place.tag as usize & mask;
        while self.places[at].entry != NONE {
            at = (at + 1) & mask;
        }
        self.places[at] = place;
    }

    #[cold]
    fn grow(&mut self, now: u64) {
        if self.places.is_empty() {
            self.seeds = [mix(now), mix(!now)];
        }
        let twice = (2 * self.places.len()).max(FEWEST_PLACES);
        let old = std::mem::replace(&mut self.places, vec![EMPTY; twice]);
        old.into_iter().filter(|p| p.entry != NONE).for_each(|p| self.put(p));
    }

    /// Takes out the request of a connection.
    #[inline]
    pub fn remove(&mut self, key: &Key) -> Option<Request> {
        let (place, entry) = self.find(key)?;
        Some(self.take(place, entry))
    }

    /// Removes the oldest one.
    pub fn remove_oldest(&mut self) -> Option<Request> {
        let key = self.oldest()?.key;
        self.remove(&key)
    }

    fn take(&mut self, place: usize, number: usize) -> Request {
        let entry = &mut self.entries[number];
        let Entry { request, older, newer } = *entry;
        entry.newer = std::mem::replace(&mut self.free, number as u32);
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        self.len -= 1;
        // The entry behind it moves up unless that puts it before its own place, so that no search stops too early.
        let mask = self.places.len() - 1;
        let (mut hole, mut at) = (place, (place + 1) & mask);
        while self.places[at].entry != NONE {
            let from_own = at.wrapping_sub(self.places[at].tag as usize) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_own >= from_hole {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.places[hole] = EMPTY;
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_wire::Random;
    use std::collections::BTreeMap;

    fn key(n: u64) -> Key {
        let client = Address { v6: n.is_multiple_of(3), bits: u128::from(n / 7) };
        Key::new(Protocol::Udp, 80, client, n as u16)
    }

    /// The same as an ordered map with serial numbers, for any sequence of operations.
    #[test]
    fn by_connection_and_by_age() {
        let mut random = Random::new(3);
        for most in [3, 40, 3000] {
            let mut waiting = Waiting::default();
            let (mut by_key, mut by_age) = (BTreeMap::new(), BTreeMap::new());
            for serial in 0..20_000u64 {
                let n = random.below(most);
                match random.below(8) {
                    0 => {
                        let oldest = by_age.pop_first().map(|(_, n)| n);
                        oldest.map(|n| by_key.remove(&n));
                        assert_eq!(waiting.remove_oldest().map(|r| r.key), oldest.map(key));
                    }
                    1..4 => {
                        let removed = by_key.remove(&n);
                        removed.map(|serial| by_age.remove(&serial));
                        assert_eq!(waiting.remove(&key(n)).map(|r| r.start), removed);
                    }
                    _ if by_key.contains_key(&n) => {
                        assert_eq!(waiting.get(&key(n)).map(|r| r.start), by_key.get(&n).copied());
                    }
                    _ => {
                        assert!(waiting.get(&key(n)).is_none());
                        waiting.add(Request { key: key(n), start: serial, end: 0 });
                        by_key.insert(n, serial);
                        by_age.insert(serial, n);
                    }
                }
                assert_eq!(waiting.len(), by_key.len());
                assert_eq!(waiting.oldest().map(|r| r.start), by_age.keys().next().copied());
            }
            assert!(
                waiting.entries.len() <= most as usize && waiting.places.len() <= 8 * most.max(8) as usize
            );
        }
    }
}
