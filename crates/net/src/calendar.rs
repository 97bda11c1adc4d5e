//! The calendar: events in the order of time, and of insertion at equal times.

/// An event in the calendar. Its parts are handled one by one, not as a whole: reading a value as a whole just after
/// writing it in pieces stalls the processor.
#[derive(Clone, Copy)]
struct Entry<T> {
    at: u64,
    /// Breaks ties: first entered, first out.
    serial: u64,
    what: T,
}

impl<T> Entry<T> {
    fn is_before(&self, other: &Self) -> bool {
        (self.at, self.serial) < (other.at, other.serial)
    }
}

/// A heap with the first entry at its root.
struct Heap<T>(Vec<Entry<T>>);

impl<T: Copy> Heap<T> {
    fn first(&self) -> Option<&Entry<T>> {
        self.0.first()
    }

    fn push(&mut self, at: u64, serial: u64, what: T) {
        let (heap, entry) = (&mut self.0, Entry { at, serial, what });
        let mut place = heap.len();
        heap.push(entry);
        while place > 0 {
            let above = (place - 1) / 2;
            if !entry.is_before(&heap[above]) {
                return;
            }
            heap[place] = heap[above];
            heap[above] = entry;
            place = above;
        }
    }

    fn pop(&mut self) -> Option<Entry<T>> {
        let heap = &mut self.0;
        let last = heap.pop()?;
        let Some(first) = heap.first().copied() else { return Some(last) };
        // The last entry usually belongs near the bottom: the gap goes all the way down, and from there up to its place.
        let (mut at, mut below) = (0, 1);
        while below + 1 < heap.len() {
            below += usize::from(heap[below + 1].is_before(&heap[below]));
            heap[at] = heap[below];
            (at, below) = (below, 2 * below + 1);
        }
        if below < heap.len() {
            heap[at] = heap[below];
            at = below;
        }
        while at > 0 && last.is_before(&heap[(at - 1) / 2]) {
            heap[at] = heap[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        heap[at] = last;
        Some(first)
    }
}

/// Length of a day of the calendar in nanoseconds, as a power of two: 65 microseconds.
const DAY: u32 = 16;
/// Days of a year: events more than a year ahead (134 ms) wait separately.
const YEAR: usize = 2048;
const WORDS: usize = YEAR / 64;

const NONE: u32 = u32::MAX;

/// Entries of the days to come: a list for each, in no order. All lists lie in one place, so that memory which was just used is used
/// again.
struct Days<T> {
    /// The first entry of each day, by day modulo [`YEAR`].
    first: Vec<u32>,
    /// Entries, each with the next of its day. Free ones also form a list.
    entries: Vec<(Entry<T>, u32)>,
    free: u32,
    /// Which days hold something, a bit for each, and which of these words do.
    filled: [u64; WORDS],
    words: u32,
}

impl<T: Copy> Days<T> {
    fn add(&mut self, day: u64, at: u64, serial: u64, what: T) {
        let entry = Entry { at, serial, what };
        let place = day as usize % YEAR;
        let next = std::mem::replace(&mut self.first[place], self.free);
        match self.entries.get_mut(self.free as usize) {
            Some(free) => (*free, self.free) = ((entry, next), free.1),
            None => {
                self.first[place] = self.entries.len() as u32;
                self.entries.push((entry, next));
            }
        }
        self.filled[place / 64] |= 1 << (place % 64);
        self.words |= 1 << (place / 64);
    }

    /// Takes out all entries of a day.
    fn take(&mut self, day: u64, mut each: impl FnMut(Entry<T>)) {
        let place = day as usize % YEAR;
        self.filled[place / 64] &= !(1 << (place % 64));
        if self.filled[place / 64] == 0 {
            self.words &= !(1 << (place / 64));
        }
        let mut at = std::mem::replace(&mut self.first[place], NONE);
        while let Some((entry, next)) = self.entries.get_mut(at as usize) {
            each(*entry);
            let next = std::mem::replace(next, self.free);
            self.free = std::mem::replace(&mut at, next);
        }
    }

    /// The first day after today that has something.
    fn next_after(&self, today: u64) -> Option<u64> {
        let first = (today as usize + 1) % YEAR;
        let word = first / 64;
        let bits = self.filled[word] & u64::MAX << (first % 64);
        let place = if bits != 0 {
            word * 64 + bits.trailing_zeros() as usize
        } else {
            // Later words, or earlier ones of the year to come; of this one then what lies before.
            let later = self.words & !(2u32 << word).wrapping_sub(1);
            let word = (if later != 0 { later } else { self.words }).trailing_zeros() as usize;
            word * 64 + self.filled.get(word)?.trailing_zeros() as usize
        };
        Some(today + 1 + ((place + YEAR - first) % YEAR) as u64)
    }
}

/// Entries in the order of their times: one that comes before all others, a heap for today, a list for each day of the year to
/// come, and a heap for all that is later. Most entries are a few microseconds ahead (frames on links), some milliseconds
/// (services) or a tenth of a second (agents, thousands of them): only today's are sorted.
pub struct Calendar<T> {
    /// Comes before all others, if set. Most events insert their direct successor, which never enters the heap.
    next: Option<T>,
    next_at: u64,
    next_serial: u64,
    /// Everything up to the end of `today`. Empty only if all is.
    now: Heap<T>,
    days: Days<T>,
    later: Heap<T>,
    today: u64,
    serial: u64,
}

impl<T> Default for Calendar<T> {
    fn default() -> Self {
        let (first, filled) = (vec![NONE; YEAR], [0; WORDS]);
        Calendar {
            next: None,
            next_at: 0,
            next_serial: 0,
            now: Heap(Vec::new()),
            days: Days { first, entries: Vec::new(), free: NONE, filled, words: 0 },
            later: Heap(Vec::new()),
            today: 0,
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
        // At equal times the one that was entered earlier comes first.
        if self.next_at().is_none_or(|first| at < first) {
            let before = (self.next_at, self.next_serial);
            (self.next_at, self.next_serial) = (at, self.serial);
            if let Some(what) = self.next.replace(what) {
                self.place(before.0, before.1, what);
            }
        } else {
            self.place(at, self.serial, what);
        }
        if self.now.first().is_none() {
            self.turn();
        }
    }

    #[inline(never)]
    fn place(&mut self, at: u64, serial: u64, what: T) {
        let day = at >> DAY;
        if day <= self.today {
            self.now.push(at, serial, what);
        } else if day - self.today < YEAR as u64 {
            self.days.add(day, at, serial, what);
        } else {
            self.later.push(at, serial, what);
        }
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<u64> {
        if self.next.is_some() { Some(self.next_at) } else { self.now.first().map(|e| e.at) }
    }

    /// Takes out what happens next.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        if let Some(what) = self.next.take() {
            return Some((self.next_at, what));
        }
        let entry = self.now.pop()?;
        if self.now.first().is_none() {
            self.turn();
        }
        Some((entry.at, entry.what))
    }

    /// Removes the next event, if it is not after `end`.
    #[inline]
    pub fn pop_by(&mut self, end: u64) -> Option<(u64, T)> {
        self.next_at().filter(|at| *at <= end)?;
        self.pop()
    }

    /// Today is empty: continue with the next day that has events.
    #[inline(never)]
    fn turn(&mut self) {
        while self.now.first().is_none() {
            let later = self.later.first().map(|e| e.at >> DAY);
            self.today = match (self.days.next_after(self.today), later) {
                (None, None) => return,
                // Later events are sorted into days only when the year has come that far.
                (Some(day), None) => day,
                (Some(day), Some(later)) => day.min(later),
                (None, Some(later)) => later,
            };
            self.days.take(self.today, |e| self.now.push(e.at, e.serial, e.what));
            while let Some(first) = self.later.first()
                && (first.at >> DAY) < self.today + YEAR as u64
                && let Some(entry) = self.later.pop()
            {
                self.place(entry.at, entry.serial, entry.what);
            }
        }
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
