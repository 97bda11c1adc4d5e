//! The calendar: what happens when, in the order of time, and of being entered at equal times.

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
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}

impl<T> Ord for Entry<T> {
    /// Greatest is what comes first: `BinaryHeap` gives the greatest.
    fn cmp(&self, o: &Self) -> std::cmp::Ordering {
        (o.at, o.serial).cmp(&(self.at, self.serial))
    }
}

/// Entries in the order of their times. A binary heap: it holds an entry per busy link, device and agent, some
/// thousands, where it takes well below a tenth of the time that the switch needs for a packet.
pub struct Calendar<T> {
    heap: BinaryHeap<Entry<T>>,
    serial: u64,
}

impl<T> Default for Calendar<T> {
    fn default() -> Self {
        Calendar { heap: BinaryHeap::new(), serial: 0 }
    }
}

impl<T> Calendar<T> {
    /// Enters something that happens `at` this time.
    pub fn enter(&mut self, at: u64, what: T) {
        self.serial += 1;
        self.heap.push(Entry { at, serial: self.serial, what });
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|e| e.at)
    }

    /// Takes out what happens next.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.heap.pop().map(|e| (e.at, e.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Part, Stream};

    #[test]
    fn order() {
        let mut calendar = Calendar::default();
        let mut random = Stream::new(1, Part::Switch, 0);
        let mut reference = Vec::new();
        for serial in 0..10_000u64 {
            let at = random.below(500);
            calendar.enter(at, serial);
            reference.push((at, serial));
        }
        reference.sort_unstable();
        let got: Vec<_> = std::iter::from_fn(|| calendar.pop()).collect();
        assert_eq!(got, reference);
        assert_eq!(calendar.next_at(), None);
    }
}
