//! The calendar: what happens when, in the order of time, and of being entered at equal times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

struct Entry<T> {
    at: u64,
    /// Breaks ties: first entered, first out.
    serial: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, o: &Self) -> bool {
        self.serial == o.serial
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, o: &Self) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

impl<T> Ord for Entry<T> {
    /// Greatest is what comes first: `BinaryHeap` gives the greatest.
    fn cmp(&self, o: &Self) -> Ordering {
        (o.at, o.serial).cmp(&(self.at, self.serial))
    }
}

/// A day of the calendar is so many nanoseconds, as a power of two: 65 microseconds.
const DAY: u32 = 16;
/// Days of a year: what is more than a year ahead (17 ms) waits apart.
const YEAR: usize = 256;

/// Entries in the order of their times: a heap for today, a list for each day of the year to come, and a heap for all that is
/// later. Most entries are a few microseconds ahead (frames on links) or some milliseconds (services); what comes at regular
/// times (agents, thousands of them) stays out of the way until its year comes.
pub struct Calendar<T> {
    /// Everything up to the end of `today`.
    now: BinaryHeap<Entry<T>>,
    /// Of the days after that, by day modulo [`YEAR`], in no order.
    days: Vec<Vec<Entry<T>>>,
    /// Which of these hold something, a bit for each.
    filled: [u64; YEAR / 64],
    later: BinaryHeap<Entry<T>>,
    today: u64,
    serial: u64,
}

impl<T> Default for Calendar<T> {
    fn default() -> Self {
        Calendar {
            now: BinaryHeap::new(),
            days: (0..YEAR).map(|_| Vec::new()).collect(),
            filled: [0; YEAR / 64],
            later: BinaryHeap::new(),
            today: 0,
            serial: 0,
        }
    }
}

impl<T> Calendar<T> {
    /// Enters something that happens `at` this time.
    pub fn enter(&mut self, at: u64, what: T) {
        self.serial += 1;
        let entry = Entry { at, serial: self.serial, what };
        self.place(entry);
        if self.now.is_empty() {
            self.turn();
        }
    }

    fn place(&mut self, entry: Entry<T>) {
        let day = entry.at >> DAY;
        if day <= self.today {
            self.now.push(entry);
        } else if day - self.today < YEAR as u64 {
            let place = day as usize % YEAR;
            self.days[place].push(entry);
            self.filled[place / 64] |= 1 << (place % 64);
        } else {
            self.later.push(entry);
        }
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<u64> {
        self.now.peek().map(|e| e.at)
    }

    /// Takes out what happens next.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let entry = self.now.pop()?;
        if self.now.is_empty() {
            self.turn();
        }
        Some((entry.at, entry.what))
    }

    /// Nothing is left of today: on to the next day that has something.
    fn turn(&mut self) {
        while self.now.is_empty() {
            let later = self.later.peek().map(|e| e.at >> DAY);
            match (self.next_filled(), later) {
                (None, None) => return,
                // What is later is not sorted into days before the year has come so far.
                (Some(day), None) => self.begin(day),
                (Some(day), Some(later)) if day < later => self.begin(day),
                (_, Some(later)) => self.begin(later),
            }
            while let Some(first) = self.later.peek()
                && (first.at >> DAY) < self.today + YEAR as u64
                && let Some(entry) = self.later.pop()
            {
                self.place(entry);
            }
        }
    }

    /// The first day after today that has something.
    fn next_filled(&self) -> Option<u64> {
        let first = (self.today as usize + 1) % YEAR;
        // The word in which that day is comes twice: its upper part first, its lower part last.
        for i in 0..=YEAR / 64 {
            let word = (first / 64 + i) % (YEAR / 64);
            let mask = match i {
                0 => u64::MAX << (first % 64),
                _ if i == YEAR / 64 => !(u64::MAX << (first % 64)),
                _ => u64::MAX,
            };
            let bits = self.filled[word] & mask;
            if bits != 0 {
                let place = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (place + YEAR - first) % YEAR;
                return Some(self.today + 1 + ahead as u64);
            }
        }
        None
    }

    /// Another day is today.
    fn begin(&mut self, day: u64) {
        self.today = day;
        let place = day as usize % YEAR;
        self.filled[place / 64] &= !(1 << (place % 64));
        self.now.extend(self.days[place].drain(..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Part, Stream};

    /// Entries of all distances, entered while others are taken out: always the first one comes.
    #[test]
    fn order() {
        let mut random = Stream::new(1, Part::Switch, 0);
        for spread in [8, 500, 1 << 18, 1 << 24, 1 << 40] {
            let mut calendar = Calendar::default();
            let mut reference = std::collections::BTreeSet::new();
            let mut now = 0;
            for serial in 0..20_000u64 {
                let bits = random.below(u64::from(u64::BITS - u64::leading_zeros(spread)));
                let at = now + random.below(1 << bits);
                calendar.enter(at, serial);
                reference.insert((at, serial));
                assert_eq!(calendar.next_at(), reference.first().map(|f| f.0));
                if random.below(20) < 9 {
                    let got = calendar.pop();
                    assert_eq!(got, reference.pop_first(), "spread {spread}");
                    now = got.map_or(now, |(at, _)| at);
                }
            }
            let got: Vec<_> = std::iter::from_fn(|| calendar.pop()).collect();
            assert_eq!(got, reference.into_iter().collect::<Vec<_>>(), "spread {spread}");
            assert_eq!((calendar.next_at(), calendar.pop()), (None, None));
        }
    }
}
