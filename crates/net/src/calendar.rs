//! The calendar: events in the order of time, and of insertion at equal times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event in the calendar.
#[derive(Clone, Copy)]
struct Entry<T> {
    at: u64,
    /// Breaks ties: first entered, first out.
    serial: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// Greatest is what happens first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.serial).cmp(&(self.at, self.serial))
    }
}

/// Length of a slot in nanoseconds, as a power of two: 64 nanoseconds.
const SLOT: u32 = 6;
/// Slots of a day, as a power of two: 65 microseconds.
const SLOTS: u32 = 10;
/// Days of a year: events more than a year ahead (134 ms) wait separately.
const YEAR: usize = 2048;

const NONE: u32 = u32::MAX;

/// Lists of entries, in no order. A list is the place of its first entry. All share one memory, so that what was just used is used again.
struct Lists<T> {
    /// Entries, each with the next of its list. Free ones also form a list.
    entries: Vec<(Entry<T>, u32)>,
    free: u32,
}

impl<T: Copy> Lists<T> {
    fn add(&mut self, list: &mut u32, at: u64, serial: u64, what: T) {
        let entry = Entry { at, serial, what };
        let next = std::mem::replace(list, self.free);
        match self.entries.get_mut(self.free as usize) {
            Some(free) => (*free, self.free) = ((entry, next), free.1),
            None => {
                *list = self.entries.len() as u32;
                self.entries.push((entry, next));
            }
        }
    }

    /// Takes out all entries of a list.
    fn take(&mut self, list: &mut u32, mut each: impl FnMut(Entry<T>)) {
        while let Some((entry, next)) = self.entries.get_mut(*list as usize) {
            each(*entry);
            let next = std::mem::replace(next, self.free);
            self.free = std::mem::replace(list, next);
        }
    }
}

/// Lists by number, which are equal modulo the length of the wheel. No number in it is further than that from the others.
struct Wheel {
    lists: Vec<u32>,
    /// Which of them hold something, a bit for each, and which of these words do.
    filled: Vec<u64>,
    words: u32,
}

impl Wheel {
    /// With so many lists: a power of two from 64 to 2,048.
    fn new(lists: usize) -> Self {
        Wheel { lists: vec![NONE; lists], filled: vec![0; lists / 64], words: 0 }
    }

    /// A list to which something is added.
    #[inline]
    fn list(&mut self, number: u64) -> &mut u32 {
        let place = number as usize % self.lists.len();
        self.filled[place / 64] |= 1 << (place % 64);
        self.words |= 1 << (place / 64);
        &mut self.lists[place]
    }

    /// A list, which is empty from now on.
    fn take(&mut self, number: u64) -> u32 {
        let place = number as usize % self.lists.len();
        self.filled[place / 64] &= !(1 << (place % 64));
        if self.filled[place / 64] == 0 {
            self.words &= !(1 << (place / 64));
        }
        std::mem::replace(&mut self.lists[place], NONE)
    }

    /// The first list after this one that has something.
    #[inline]
    fn next_after(&self, number: u64) -> Option<u64> {
        let all = self.lists.len();
        let first = (number as usize + 1) % all;
        let word = first / 64;
        let bits = self.filled[word] & u64::MAX << (first % 64);
        let place = if bits != 0 {
            word * 64 + bits.trailing_zeros() as usize
        } else {
            // Later words, or earlier ones of the next turn; of this one then what lies before.
            let later = self.words & !(2u32 << word).wrapping_sub(1);
            let word = (if later != 0 { later } else { self.words }).trailing_zeros() as usize;
            word * 64 + self.filled.get(word)?.trailing_zeros() as usize
        };
        Some(number + 1 + ((place + all - first) % all) as u64)
    }
}

/// Entries in the order of their times: one that comes before all others, the slot that has begun, a list for each slot of today, one for each
/// day of the year to come, and a heap for all that is later. Most entries are a few microseconds ahead (frames on links), some
/// milliseconds (services) or a tenth of a second (agents, thousands of them): they are sorted when their slot begins, few at a time.
pub struct Calendar<T> {
    /// Comes before all others, if set. Most events insert their direct successor, which never enters a list.
    next: Option<T>,
    next_at: u64,
    next_serial: u64,
    /// The slot that has begun, the last entry first; and what was entered for it since.
    sorted: Vec<Entry<T>>,
    now: BinaryHeap<Entry<T>>,
    slot: u64,
    lists: Lists<T>,
    /// Those of today.
    slots: Wheel,
    today: u64,
    days: Wheel,
    later: BinaryHeap<Entry<T>>,
    serial: u64,
}

impl<T: Copy> Default for Calendar<T> {
    fn default() -> Self {
        Calendar {
            next: None,
            next_at: 0,
            next_serial: 0,
            sorted: Vec::new(),
            now: BinaryHeap::new(),
            slot: 0,
            lists: Lists { entries: Vec::new(), free: NONE },
            slots: Wheel::new(1 << SLOTS),
            today: 0,
            days: Wheel::new(YEAR),
            later: BinaryHeap::new(),
            serial: 0,
        }
    }
}

impl<T: Copy> Calendar<T> {
    /// Enters something that happens `at` this time.
    #[inline]
    pub fn enter(&mut self, at: u64, what: impl Into<T>) {
        let what = what.into();
        self.serial += 1;
        if !self.is_first(at) {
            return self.place(at, self.serial, what);
        }
        let before = (self.next_at, self.next_serial);
        (self.next_at, self.next_serial) = (at, self.serial);
        if let Some(what) = self.next.replace(what) {
            self.place(before.0, before.1, what);
        }
    }

    /// Whether this time is before that of all entries. `false` if that is not known without a look at days to come.
    #[inline]
    fn is_first(&self, at: u64) -> bool {
        // At equal times the one that was entered earlier comes first.
        if let Some(first) = self.first() {
            return at < first;
        }
        let slot = at >> SLOT;
        slot >> SLOTS <= self.today && self.slots.next_after(self.slot).is_none_or(|next| slot < next)
    }

    /// The first time of what is in no list.
    #[inline]
    fn first(&self) -> Option<u64> {
        if self.next.is_some() {
            return Some(self.next_at);
        }
        match (self.sorted.last(), self.now.peek()) {
            (Some(sorted), Some(now)) => Some(sorted.at.min(now.at)),
            (Some(only), None) | (None, Some(only)) => Some(only.at),
            (None, None) => None,
        }
    }

    #[inline(never)]
    fn place(&mut self, at: u64, serial: u64, what: T) {
        let slot = at >> SLOT;
        let day = slot >> SLOTS;
        if slot <= self.slot {
            self.now.push(Entry { at, serial, what });
        } else if day == self.today {
            self.lists.add(self.slots.list(slot), at, serial, what);
        } else if day - self.today < YEAR as u64 {
            self.lists.add(self.days.list(day), at, serial, what);
        } else {
            self.later.push(Entry { at, serial, what });
        }
    }

    /// Removes the next event, if it is not after `end`.
    #[inline]
    pub fn pop_by(&mut self, end: u64) -> Option<(u64, T)> {
        self.begin();
        if self.next.is_some() {
            return if self.next_at <= end { Some((self.next_at, self.next.take()?)) } else { None };
        }
        let (sorted, now) = (self.sorted.last(), self.now.peek());
        let is_sorted = sorted.is_some_and(|sorted| now.is_none_or(|now| now < sorted));
        if is_sorted { sorted } else { now }.filter(|first| first.at <= end)?;
        let first = if is_sorted { self.sorted.pop() } else { self.now.pop() }?;
        Some((first.at, first.what))
    }

    /// If all is in lists, the next slot begins that has something. Not earlier: what is entered meanwhile may come before it.
    #[inline]
    fn begin(&mut self) {
        if self.next.is_none() && self.sorted.is_empty() && self.now.is_empty() {
            self.turn();
        }
    }

    #[inline(never)]
    fn turn(&mut self) {
        let slot = loop {
            match self.slots.next_after(self.slot) {
                Some(slot) => break slot,
                None if self.next_day() => {}
                None => return,
            }
        };
        self.slot = slot;
        let mut list = self.slots.take(slot);
        self.lists.take(&mut list, |entry| self.sorted.push(entry));
        self.sorted.sort_unstable();
    }

    /// Today is over: the next day that has events, `false`: there is none.
    fn next_day(&mut self) -> bool {
        let later = self.later.peek().map(|e| e.at >> (SLOT + SLOTS));
        self.today = match (self.days.next_after(self.today), later) {
            (None, None) => return false,
            // Later events are sorted into days only when the year has come that far.
            (Some(day), None) => day,
            (Some(day), Some(later)) => day.min(later),
            (None, Some(later)) => later,
        };
        // All of this day is still to come.
        self.slot = (self.today << SLOTS) - 1;
        let mut list = self.days.take(self.today);
        while let Some((entry, next)) = self.lists.entries.get_mut(list as usize) {
            let before = std::mem::replace(self.slots.list(entry.at >> SLOT), list);
            list = std::mem::replace(next, before);
        }
        while let Some(first) = self.later.peek()
            && (first.at >> (SLOT + SLOTS)) < self.today + YEAR as u64
            && let Some(entry) = self.later.pop()
        {
            self.place(entry.at, entry.serial, entry.what);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Part, Stream};

    /// Entries of all distances, entered while others are taken out, until many wait or few: always the first one comes.
    #[test]
    fn order() {
        let mut random = Stream::new(1, Part::Switch, 0);
        let spreads = [8, 500, 1 << 12, 1 << 18, 1 << 24, 1 << 40];
        for (spread, pops) in spreads.into_iter().flat_map(|spread| [(spread, 9), (spread, 19)]) {
            let mut calendar = Calendar::default();
            let mut reference = std::collections::BTreeSet::new();
            let mut now = 0;
            for serial in 0..20_000u64 {
                let bits = random.below(u64::from(u64::BITS - u64::leading_zeros(spread)));
                let at = now + random.below(1 << bits);
                calendar.enter(at, serial);
                reference.insert((at, serial));
                // A look at what comes next begins a slot.
                if random.below(4) == 0
                    && let Some((at, _)) = reference.first()
                {
                    assert!(*at == 0 || calendar.pop_by(at - 1).is_none());
                }
                if random.below(20) < pops {
                    let got = calendar.pop_by(u64::MAX);
                    assert_eq!(got, reference.pop_first(), "spread {spread}");
                    now = got.map_or(now, |(at, _)| at);
                }
            }
            let got: Vec<_> = std::iter::from_fn(|| calendar.pop_by(u64::MAX)).collect();
            assert_eq!(got, reference.into_iter().collect::<Vec<_>>(), "spread {spread}");
            assert_eq!(calendar.pop_by(u64::MAX), None);
        }
    }

    /// Frames on links while all else is far ahead: each waits in the list of its slot, none in a heap.
    #[test]
    fn what_is_far_ahead_begins_no_slot() {
        let mut calendar = Calendar::<u64>::default();
        calendar.enter(100_000_000, 0u64);
        let mut now = 0;
        for frame in 1..1000u64 {
            calendar.enter(now + 500, frame);
            calendar.enter(now + 900, frame);
            assert!(calendar.now.is_empty(), "at {now}");
            let both = [calendar.pop_by(u64::MAX), calendar.pop_by(u64::MAX)];
            assert_eq!(both, [Some((now + 500, frame)), Some((now + 900, frame))]);
            now += 900;
        }
    }
}
