//! What hits of entries leave behind in plain memory: direct counters, and times for idle timeouts.
//!
//! Every table has a cell of either kind for each entry, in the place that rows of flat tables name
//! ([`row::PLACE_SHIFT`](super::flat::row::PLACE_SHIFT)): 0 is the default action, an entry is at its number in the store plus one. Each
//! worker has cells of its own. So native code counts a hit with a few instructions, and without a lock.

use crate::cells::{CellArray, CellKind, CellShape};

/// Which cells the entries of a table have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitShape {
    /// The kind of counter; `None`: hits are not counted.
    pub counts: Option<CellKind>,
    /// Whether the time of the last hit is noted.
    pub times: bool,
}

impl HitShape {
    /// Neither of both.
    pub fn is_empty(&self) -> bool {
        *self == HitShape::default()
    }

    /// The arrays for so many places: counts, then times.
    pub fn arrays(&self, places: u64) -> [CellShape; 2] {
        [
            self.counts.map_or(CellShape::none(), |kind| CellShape::counter("counts", kind, places)),
            if self.times { CellShape::register("times", 64, places) } else { CellShape::none() },
        ]
    }
}

/// The cells of one table's entries. A clone is the same cells.
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct HitCells {
    counts: CellArray,
    times: CellArray,
}

impl HitCells {
    /// Offset in bytes of the array of counts.
    pub const COUNTS: usize = std::mem::offset_of!(HitCells, counts);
    /// Offset in bytes of the array of times, in nanoseconds.
    pub const TIMES: usize = std::mem::offset_of!(HitCells, times);

    /// Cells for so many places, all zero.
    pub fn new(shape: HitShape, places: u64) -> Self {
        let mut made = CellArray::new_group(&shape.arrays(places)).into_iter();
        HitCells { counts: made.next().unwrap_or_default(), times: made.next().unwrap_or_default() }
    }

    /// Other cells with the values of these, as far as they have the places.
    pub fn copy(&self, shape: HitShape, places: u64) -> Self {
        let new = HitCells::new(shape, places);
        new.counts.copy_common(&self.counts);
        new.times.copy_common(&self.times);
        new
    }

    /// Number of places.
    pub fn places(&self) -> u64 {
        self.counts.len().max(self.times.len())
    }

    /// Notes a hit of a packet of `bytes` bytes. A time is never set back.
    pub fn note(&self, place: u64, time: u64, bytes: u32) {
        self.counts.count(place, bytes);
        if self.time(place) < time {
            self.times.store(place, time);
        }
    }

    /// The words of a counter; zeros if it does not exist.
    pub fn counts(&self, place: u64) -> [u64; 2] {
        self.counts.load_words(place).unwrap_or_default()
    }

    /// The time of the last hit; 0 if there was none.
    pub fn time(&self, place: u64) -> u64 {
        self.times.load(place).unwrap_or_default()
    }

    /// Sets counts and time of a place, as far as the table has them.
    pub fn set(&self, place: u64, counts: [u64; 2], time: u64) {
        self.counts.store_words(place, counts);
        self.times.store(place, time);
    }

    /// Adds what another worker has noted, in cells of the same shape and number.
    pub fn merge(&self, other: &HitCells) {
        self.counts.add_from(&other.counts);
        for place in 0..self.times.len() {
            if self.time(place) < other.time(place) {
                self.times.store(place, other.time(place));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_noted() {
        let kinds = [None, Some(CellKind::Packets), Some(CellKind::Bytes), Some(CellKind::PacketsAndBytes)];
        for (counts, want) in kinds.into_iter().zip([[0, 0], [2, 0], [160, 0], [2, 160]]) {
            for times in [false, true] {
                let shape = HitShape { counts, times };
                let cells = HitCells::new(shape, 3);
                assert_eq!(cells.places(), if shape.is_empty() { 0 } else { 3 });
                cells.note(2, 9, 100);
                cells.note(2, 7, 60);
                cells.note(3, 7, 60);
                let time = if times { 9 } else { 0 };
                let seen = |cells: &HitCells| [0, 1, 2, 3].map(|at| (cells.counts(at), cells.time(at)));
                let all = [([0, 0], 0), ([0, 0], 0), (want, time), ([0, 0], 0)];
                assert_eq!(seen(&cells), all);
                // Of its own memory, smaller or larger.
                let (more, fewer) = (cells.copy(shape, 100), cells.copy(shape, 2));
                cells.set(2, [0, 0], 0);
                assert_eq!(
                    (seen(&more), seen(&cells), seen(&fewer)[2]),
                    (all, [([0, 0], 0); 4], ([0, 0], 0))
                );
                let other = more.copy(shape, 100);
                other.note(1, 8, 100);
                other.note(2, 8, 100);
                more.merge(&other);
                assert_eq!(more.time(2), time);
                assert_eq!(more.time(1), if times { 8 } else { 0 });
                let once = HitCells::new(shape, 1);
                once.note(0, 0, 100);
                let sum = |a: [u64; 2], b: [u64; 2]| [a[0] + b[0], a[1] + b[1]];
                assert_eq!(more.counts(1), once.counts(0));
                assert_eq!(more.counts(2), sum(sum(want, want), once.counts(0)));
            }
        }
    }
}
