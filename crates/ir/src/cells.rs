//! Arrays of cells in plain memory that threads may share: registers and counters.
//!
//! An architecture makes them ([`CellArray::new_group`]) and lends them to executors
//! ([`Env::cells`](crate::Env::cells)), which may read and write cells without asking the architecture: the fields of
//! [`CellArray`] that native code needs are at fixed offsets ([`CellArray::BASE`] and so on).
//!
//! A cell takes as many 32-bit *granules* as its bits need, the least significant first. Cells of 33 to 64 bits and
//! the 64-bit counts of counters are aligned to 8 bytes and always read and written as one 64-bit word; all other cells
//! granule by granule. Bits above the width are zero.
//!
//! Arrays of one length in one object's scope (`way0.key` and `way0.state`) are likely to be used with the same index:
//! they are interleaved, so that their cells with one index share a cache line.
//!
//! Accesses to cells of up to 64 bits are atomic one by one, and seen by other threads in the order in which a thread makes them
//! (`Acquire`, `Release`). Whoever needs more (two cells that belong together, a cell wider than 64 bits, read-modify-write) and runs
//! several threads must lock, or find out by values like versions. This includes counting: one
//! thread at a time counts in an array.

use crate::bits::Bits;
use num_bigint::BigUint;
use pointsman_zeros::Zeros;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The kind of an array's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CellKind {
    /// Values: registers.
    Value = 0,
    /// Numbers of packets: one 64-bit word.
    Packets = 1,
    /// Numbers of bytes: one 64-bit word.
    Bytes = 2,
    /// Packets in the first 64-bit word, bytes in the second.
    PacketsAndBytes = 3,
}

/// The shape of an array to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellShape {
    /// Fully qualified name of the object, which decides which arrays it is interleaved with.
    pub name: String,
    /// The kind of its cells.
    pub kind: CellKind,
    /// Width of a cell in bits. Counters have 64 or 128.
    pub width: u32,
    /// Number of cells; 0 for an object that is not an array of cells.
    pub len: u64,
}

impl CellShape {
    /// An object without cells.
    pub fn none() -> Self {
        CellShape { name: String::new(), kind: CellKind::Value, width: 0, len: 0 }
    }

    /// A register array.
    pub fn register(name: impl Into<String>, width: u32, len: u64) -> Self {
        CellShape { name: name.into(), kind: CellKind::Value, width, len }
    }

    /// A counter array.
    pub fn counter(name: impl Into<String>, kind: CellKind, len: u64) -> Self {
        let width = if kind == CellKind::PacketsAndBytes { 128 } else { 64 };
        CellShape { name: name.into(), kind, width, len }
    }

    /// Memory that its cells take by themselves, in bytes; [`u64::MAX`] if that does not fit 64 bits.
    pub fn bytes(&self) -> u64 {
        self.len.saturating_mul(4 * u64::from(stride(granules(self.width))))
    }
}

/// Granules of a cell.
fn granules(width: u32) -> u32 {
    width.div_ceil(32).max(1)
}

/// Granules of a cache line.
const LINE: u32 = 16;

/// Granules from one line of an interleaved block to the next: powers of two, so that none lies across a border of
/// cache lines without need.
fn stride(granules: u32) -> u32 {
    if granules <= LINE { granules.next_power_of_two() } else { granules.next_multiple_of(4) }
}

/// The position of an array's cells among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellPlace {
    /// The array whose cells come first in the same memory: that of an index before all others of this index.
    pub leader: usize,
    /// Granules (of 4 bytes) from there to this array's cell of the same index.
    pub first: u32,
    /// Granules from one cell to the next.
    pub stride: u32,
}

/// Memory that arrays share.
struct Block {
    granules: Zeros<AtomicU32>,
    /// The first one on a border of cache lines.
    start: usize,
}

impl Block {
    fn new(granules: usize) -> Arc<Block> {
        // Untouched memory costs nothing.
        let granules = Zeros::<AtomicU32>::new(granules.saturating_add(LINE as usize - 1));
        let start = granules.as_ptr().align_offset(4 * LINE as usize);
        Arc::new(Block { granules, start })
    }

    /// The granules from the border of cache lines on.
    fn used(&self) -> &[AtomicU32] {
        &self.granules[self.start..self.granules.len() + self.start + 1 - LINE as usize]
    }
}

/// An array of equal cells. A clone is the same array; [`CellArray::copy_all`] makes another one.
#[repr(C)]
#[derive(Clone)]
pub struct CellArray {
    base: *const AtomicU32,
    len: u64,
    stride: u32,
    width: u32,
    kind: CellKind,
    /// Keeps the memory behind `base`; `None` without cells.
    block: Option<Arc<Block>>,
}

// SAFETY: `base` points into the block that the array shares ownership of; the block consists of atomics, and nothing
// else of an array ever changes.
#[allow(unsafe_code)]
unsafe impl Send for CellArray {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for CellArray {}

impl Default for CellArray {
    /// No cells.
    fn default() -> Self {
        CellArray {
            base: std::ptr::NonNull::<AtomicU64>::dangling().as_ptr().cast(),
            len: 0,
            stride: 1,
            width: 0,
            kind: CellKind::Value,
            block: None,
        }
    }
}

impl std::fmt::Debug for CellArray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cells of {} bits", self.len, self.width)
    }
}

impl CellArray {
    /// Offset in bytes of the address of the first cell (a pointer).
    pub const BASE: usize = std::mem::offset_of!(CellArray, base);
    /// Offset in bytes of the number of cells (64 bits).
    pub const LEN: usize = std::mem::offset_of!(CellArray, len);
    /// Offset in bytes of the distance between two cells, in units of 4 bytes (32 bits).
    pub const STRIDE: usize = std::mem::offset_of!(CellArray, stride);

    /// Positions of the cells of such arrays, one per shape, if they are made together. Arrays of one scope, length and sort
    /// share memory, line by line, as far as their cells fit 64 bytes.
    pub fn places(shapes: &[CellShape]) -> Vec<CellPlace> {
        let mut groups: BTreeMap<(&str, u64, bool), Vec<Vec<usize>>> = BTreeMap::new();
        for (i, shape) in shapes.iter().enumerate().filter(|(_, s)| s.len > 0) {
            let parent = shape.name.rsplit_once('.').map_or("", |(parent, _)| parent);
            let lines = groups.entry((parent, shape.len, shape.kind == CellKind::Value)).or_default();
            let size = |line: &Vec<usize>| line.iter().map(|i| granules(shapes[*i].width)).sum::<u32>();
            match lines.last_mut().filter(|l| size(l) + granules(shape.width) <= LINE) {
                Some(line) => line.push(i),
                None => lines.push(vec![i]),
            }
        }
        let mut places: Vec<CellPlace> =
            (0..shapes.len()).map(|leader| CellPlace { leader, first: 0, stride: 1 }).collect();
        for mut line in groups.into_values().flatten() {
            // Whatever is aligned to 8 bytes goes first.
            line.sort_by_key(|i| granules(shapes[*i].width) % 2);
            let stride = stride(line.iter().map(|i| granules(shapes[*i].width)).sum());
            let mut first = 0;
            for i in &line {
                places[*i] = CellPlace { leader: line[0], first, stride };
                first += granules(shapes[*i].width);
            }
        }
        places
    }

    /// Arrays of zeros, one per shape, at the positions of [`CellArray::places`].
    pub fn new_group(shapes: &[CellShape]) -> Vec<CellArray> {
        let places = CellArray::places(shapes);
        let mut blocks: BTreeMap<usize, Arc<Block>> = BTreeMap::new();
        let array = |(shape, place): (&CellShape, &CellPlace)| {
            if shape.len == 0 {
                return CellArray::default();
            }
            let block = blocks.entry(place.leader).or_insert_with(|| {
                let lines = usize::try_from(shape.len).unwrap_or(usize::MAX);
                Block::new(lines.saturating_mul(place.stride as usize))
            });
            CellArray {
                base: block.used()[place.first as usize..].as_ptr(),
                len: shape.len,
                stride: place.stride,
                width: shape.width,
                kind: shape.kind,
                block: Some(block.clone()),
            }
        };
        shapes.iter().zip(&places).map(array).collect()
    }

    /// The same arrays with the same values in separate memory. There must be no concurrent writes, or some cells are old
    /// and some new.
    #[allow(unsafe_code)]
    pub fn copy_all(arrays: &[CellArray]) -> Vec<CellArray> {
        let mut copies: BTreeMap<*const Block, Arc<Block>> = BTreeMap::new();
        let copy = |array: &CellArray| {
            let Some(old) = &array.block else { return CellArray::default() };
            let new = copies.entry(Arc::as_ptr(old)).or_insert_with(|| {
                let new = Block::new(old.used().len());
                for (to, from) in new.used().iter().zip(old.used()) {
                    let value = from.load(Relaxed);
                    // Pages that hold only zeros are not touched.
                    if value != 0 {
                        to.store(value, Relaxed);
                    }
                }
                new
            });
            // SAFETY: both pointers lie in the same block.
            let first = unsafe { array.base.offset_from(old.used().as_ptr()) };
            let base = new.used()[first as usize..].as_ptr();
            CellArray { base, block: Some(new.clone()), ..array.clone() }
        };
        arrays.iter().map(copy).collect()
    }

    /// Whether it is at this place; `leader` is the array that the place names. Always true without cells.
    pub fn stands_at(&self, place: CellPlace, leader: &CellArray) -> bool {
        let first = leader.base.wrapping_add(place.first as usize);
        self.len == 0 || (self.stride, self.base) == (place.stride, first)
    }

    /// Number of cells.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No cells?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Width of a cell in bits.
    #[inline]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The kind of the cells.
    #[inline]
    pub fn kind(&self) -> CellKind {
        self.kind
    }

    /// Whether both arrays have cells of the same kind and width, and as many of them.
    pub fn same_shape(&self, other: &CellArray) -> bool {
        (self.kind, self.width, self.len) == (other.kind, other.width, other.len)
    }

    /// The granules of a cell.
    #[inline]
    #[allow(unsafe_code)]
    fn cell(&self, index: u64) -> Option<&[AtomicU32]> {
        if index >= self.len {
            return None;
        }
        // SAFETY: the block has `len` lines of `stride` granules behind `base` less what precedes the array in a
        // line; a cell of this index and size lies in it. The block lives as long as `self`.
        unsafe {
            let first = self.base.add(index as usize * self.stride as usize);
            Some(std::slice::from_raw_parts(first, granules(self.width) as usize))
        }
    }

    /// Word `n` of a cell that consists of 64-bit words.
    #[inline]
    #[allow(unsafe_code)]
    fn word(cell: &[AtomicU32], n: usize) -> Option<&AtomicU64> {
        let pair: &[AtomicU32; 2] = cell.get(2 * n..2 * n + 2)?.try_into().ok()?;
        let at = pair.as_ptr().cast::<AtomicU64>();
        debug_assert!(at.is_aligned());
        // SAFETY: two granules are 8 bytes. `new_group` aligns cells with an even number of granules to 8 bytes:
        // blocks begin at a cache line, strides of lines that hold such a cell are even, and such cells come first.
        // These granules are always accessed through this function.
        Some(unsafe { &*at })
    }

    /// Whether a cell is made of 64-bit words.
    #[inline]
    fn in_words(&self) -> bool {
        matches!(self.width, 33..=64) || self.kind != CellKind::Value
    }

    /// A cell of up to 64 bits. `None` if the cell does not exist, or is wider.
    #[inline]
    pub fn load(&self, index: u64) -> Option<u64> {
        let cell = self.cell(index)?;
        match cell {
            [one] => Some(one.load(Acquire).into()),
            [_, _] => Some(CellArray::word(cell, 0)?.load(Acquire)),
            _ => None,
        }
    }

    /// Sets a cell of up to 64 bits, truncating. False if the cell does not exist, or is wider.
    #[inline]
    pub fn store(&self, index: u64, value: u64) -> bool {
        let Some(cell) = self.cell(index) else { return false };
        let value = value & (u64::MAX >> (64 - self.width.clamp(1, 64)));
        match (cell, CellArray::word(cell, 0)) {
            ([one], _) => one.store(value as u32, Release),
            ([_, _], Some(word)) => word.store(value, Release),
            _ => return false,
        }
        true
    }

    /// The low and the high half of a cell of up to 128 bits. `None` if the cell does not exist, or is wider.
    #[inline]
    pub fn load_words(&self, index: u64) -> Option<[u64; 2]> {
        let cell = self.cell(index)?;
        if self.in_words() {
            let word = |n| CellArray::word(cell, n).map_or(0, |w| w.load(Relaxed));
            return Some([word(0), word(1)]);
        }
        let at = |i: usize| cell.get(i).map_or(0, |g| u64::from(g.load(Relaxed)));
        (cell.len() <= 4).then(|| [at(0) | at(1) << 32, at(2) | at(3) << 32])
    }

    /// Sets a cell of up to 128 bits from its halves, truncating. False if the cell does not exist, or is wider.
    #[inline]
    pub fn store_words(&self, index: u64, [low, high]: [u64; 2]) -> bool {
        let Some(cell) = self.cell(index) else { return false };
        if cell.len() > 4 {
            return false;
        }
        let mask = u128::MAX >> (128 - self.width.clamp(1, 128));
        let value = (u128::from(high) << 64 | u128::from(low)) & mask;
        if self.in_words() {
            for n in 0..2 {
                if let Some(word) = CellArray::word(cell, n) {
                    word.store((value >> (64 * n)) as u64, Relaxed);
                }
            }
        } else {
            cell.iter().enumerate().for_each(|(i, g)| g.store((value >> (32 * i)) as u32, Relaxed));
        }
        true
    }

    /// A cell of any width. `None` if the cell does not exist.
    pub fn get(&self, index: u64) -> Option<Bits> {
        if let Some([low, high]) = self.load_words(index) {
            return Some(Bits::new(self.width, u128::from(high) << 64 | u128::from(low)));
        }
        let granules = self.cell(index)?.iter().map(|g| g.load(Relaxed)).collect();
        Some(Bits::from_biguint(self.width, &BigUint::new(granules)))
    }

    /// Sets a cell of any width, truncating or zero-extending. False if the cell does not exist.
    pub fn set(&self, index: u64, value: &Bits) -> bool {
        let Some(cell) = self.cell(index) else { return false };
        let fitted;
        let value = if value.width() == self.width {
            value
        } else {
            fitted = value.zero_extend(self.width);
            &fitted
        };
        match value.to_u128() {
            Some(v) if cell.len() <= 4 => self.store_words(index, [v as u64, (v >> 64) as u64]),
            _ => {
                let digits = value.to_biguint().to_u32_digits();
                let digit = |i: usize| digits.get(i).copied().unwrap_or(0);
                cell.iter().enumerate().for_each(|(i, g)| g.store(digit(i), Relaxed));
                true
            }
        }
    }

    /// Counts a packet of `bytes` bytes in a counter; counts wrap at 2^64. False if the cell does not exist, or the
    /// array is not a counter.
    #[inline]
    pub fn count(&self, index: u64, bytes: u32) -> bool {
        let Some(cell) = self.cell(index) else { return false };
        let add = |n: usize, amount: u64| {
            if let Some(word) = CellArray::word(cell, n) {
                word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
            }
        };
        match self.kind {
            CellKind::Value => return false,
            CellKind::Packets => add(0, 1),
            CellKind::Bytes => add(0, bytes.into()),
            CellKind::PacketsAndBytes => {
                add(0, 1);
                add(1, bytes.into());
            }
        }
        true
    }

    /// Adds the counts of a counter array of the same shape; of another one nothing.
    pub fn add_from(&self, other: &CellArray) {
        if self.same_shape(other) && self.kind != CellKind::Value {
            for i in 0..self.len {
                if let (Some(a), Some(b)) = (self.load_words(i), other.load_words(i))
                    && b != [0, 0]
                {
                    self.store_words(i, [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])]);
                }
            }
        }
    }

    /// Takes over the values of an array of the same shape ([`CellArray::same_shape`]); of another one nothing.
    pub fn copy_from(&self, other: &CellArray) {
        if self.same_shape(other) {
            self.copy_common(other);
        }
    }

    /// Takes over the values of an array whose cells are the same in kind and width, as far as both have them; of another
    /// one nothing.
    pub fn copy_common(&self, other: &CellArray) {
        if (self.kind, self.width) == (other.kind, other.width) {
            for i in 0..self.len.min(other.len) {
                match (self.in_words(), self.load_words(i), other.load_words(i)) {
                    (_, Some(old), Some(new)) if old == new => {}
                    (_, Some(_), Some(new)) => {
                        self.store_words(i, new);
                    }
                    _ => {
                        if let Some(value) = other.get(i) {
                            self.set(i, &value);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: &[u32] = &[1, 8, 17, 32, 33, 48, 64, 65, 96, 97, 128, 129, 160, 161, 300, 700];

    /// Every cell of every array holds its own value: none overlap.
    fn check(shapes: &[CellShape]) -> Vec<CellArray> {
        let arrays = CellArray::new_group(shapes);
        let value = |a: usize, i: u64, width: u32| {
            Bits::ones(width).xor(&Bits::new(width, (a as u128) << 8 | u128::from(i)))
        };
        for (a, array) in arrays.iter().enumerate() {
            (0..array.len()).for_each(|i| assert!(array.set(i, &value(a, i, array.width()))));
            assert!(!array.set(array.len(), &Bits::zero(1)) && !array.set(u64::MAX, &Bits::zero(1)));
            assert_eq!(
                (array.get(array.len()), array.load(u64::MAX), array.load_words(u64::MAX)),
                (None, None, None)
            );
        }
        for arrays in [&arrays, &CellArray::copy_all(&arrays)] {
            for (a, array) in arrays.iter().enumerate() {
                for i in 0..array.len() {
                    assert_eq!(array.get(i), Some(value(a, i, array.width())), "array {a} cell {i}");
                }
            }
        }
        arrays
    }

    #[test]
    fn every_width_alone_and_together() {
        for width in WIDTHS {
            check(&[CellShape::register("a.b", *width, 3)]);
        }
        let together = |names: &[&str]| {
            let shape = |(i, w): (usize, &u32)| CellShape::register(names[i % names.len()], *w, 5);
            WIDTHS.iter().rev().chain(WIDTHS).enumerate().map(shape).collect::<Vec<_>>()
        };
        check(&together(&["a.b"]));
        check(&together(&["a.b", "c", "c.d"]));
        let arrays = check(&[CellShape::none(), CellShape::register("x", 9, 4)]);
        assert!(arrays[0].is_empty() && !arrays[0].set(0, &Bits::zero(9)) && !arrays[0].count(0, 1));
    }

    #[test]
    fn cells_of_one_line_share_a_cache_line() {
        let way = |n: u32, width| CellShape::register(format!("in.way{n}.r{width}"), width, 100);
        let shapes =
            [way(0, 96), way(1, 96), way(0, 64), way(0, 95), CellShape::register("in.way0.r", 32, 99)];
        let arrays = check(&shapes);
        let at = |a: usize, i: usize| arrays[a].base as usize + 4 * i * arrays[a].stride as usize;
        for i in 0..100 {
            assert_eq!(at(0, i) / 32, at(2, i) / 32);
            assert_eq!(at(0, i) / 32, at(3, i) / 32);
            assert_eq!(at(2, i) % 32, 0);
        }
        assert_eq!([0, 1, 4].map(|a| arrays[a].stride), [8, 4, 1]);
        assert_eq!(shapes[0].bytes(), 1600);
    }

    #[test]
    fn halves_and_truncation() {
        for width in WIDTHS {
            let array = &CellArray::new_group(&[CellShape::register("r", *width, 2)])[0];
            let ones = [u64::MAX; 2];
            assert_eq!(array.store(1, u64::MAX), *width <= 64);
            assert_eq!(array.store_words(1, ones), *width <= 128);
            let want = Bits::ones(128).zero_extend(*width);
            if *width <= 128 {
                assert_eq!(array.get(1), Some(want.clone()));
                let v = want.to_u128().unwrap();
                assert_eq!(array.load_words(1), Some([v as u64, (v >> 64) as u64]));
            }
            assert_eq!(array.load(1), (*width <= 64).then(|| want.low_u64()));
            assert!(array.set(0, &Bits::ones(width + 9)));
            assert_eq!(array.get(0), Some(Bits::ones(*width)));
        }
    }

    #[test]
    fn counting() {
        let counter = |kind| CellShape::counter("c", kind, 2);
        let kinds = [CellKind::Packets, CellKind::Bytes, CellKind::PacketsAndBytes];
        let arrays = CellArray::new_group(&kinds.map(counter));
        for (array, want) in arrays.iter().zip([[2, 0], [160, 0], [2, 160]]) {
            assert!(array.count(1, 100) && array.count(1, 60) && !array.count(2, 1));
            assert_eq!((array.load_words(0), array.load_words(1)), (Some([0, 0]), Some(want)));
            array.store_words(1, [u64::MAX, u64::MAX]);
            assert!(array.count(1, 1));
            assert_eq!(array.load_words(1).map(|w| w[0]), Some(0));
        }
        assert!(!CellArray::new_group(&[CellShape::register("r", 64, 1)])[0].count(0, 1));
    }

    #[test]
    fn copies_are_apart() {
        let shapes = [CellShape::register("r.a", 32, 4), CellShape::register("r.b", 200, 4)];
        let old = CellArray::new_group(&shapes);
        let new = CellArray::copy_all(&old);
        old[0].store(3, 7);
        assert_eq!((old[0].clone().load(3), new[0].load(3)), (Some(7), Some(0)));
        new[1].set(2, &Bits::ones(200));
        old[1].copy_from(&new[1]);
        old[0].copy_from(&new[1]);
        assert_eq!((old[1].get(2), old[0].load(3)), (Some(Bits::ones(200)), Some(7)));
    }
}
