//! Bit vectors (Lakshman, Stiliadis: High-speed policy-based packet forwarding, 1998), with the summaries of Baboescu,
//! Varghese: Scalable packet classification (2001).
//!
//! Entries stand in a row, the best first, and have a bit each. For every value of every byte of the key there is a vector
//! of the entries that allow it there; a range field has a vector for each interval between the ends of ranges. The
//! entries that match a key are those in all of its vectors, the first of them wins. A summary has a bit for each word of
//! a vector that is not zero, so that most words are never looked at.
//!
//! What it costs does not depend on how many masks there are. Every change writes to all vectors, some microseconds;
//! there are gaps between the entries, so that one more seldom moves many.

use super::entries::{Entries, Rank};
use super::place::{Place, Range};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes and range fields of a key that can be told apart.
const MAX_PARTS: usize = 64;

/// More entries than this are not kept here, nor more bytes of vectors.
pub(super) const MAX_ENTRIES: usize = 1 << 15;
const MAX_BYTES: usize = 64 << 20;

/// No entry.
const FREE: u32 = u32::MAX;

/// Part of a key.
#[derive(Clone, Debug)]
enum Part {
    /// A byte, and the vector of its value 0; the others follow.
    Byte { word: usize, shift: u32, first: u32 },
    /// A range field.
    Field(Field),
}

#[derive(Clone, Debug)]
struct Field {
    /// Which field of the key.
    field: usize,
    place: Place,
    /// Where each interval begins, the first at 0, and its vector.
    starts: Vec<u64>,
    vectors: Vec<u32>,
    /// Vectors by value, for fields that are short enough.
    direct: Vec<u32>,
}

/// Fields of up to so many bits have a vector by value.
const DIRECT: u32 = 16;

/// Entries and their vectors.
#[derive(Clone, Debug)]
pub(super) struct Vectors {
    /// The most telling first.
    parts: Vec<Part>,
    /// Vectors: summary, then one bit for each position. Vector 0 has all positions that are taken.
    bits: Vec<u64>,
    /// Words of a vector, of a summary.
    words: usize,
    summary: usize,
    /// Numbers of entries by position, or [`FREE`].
    at: Vec<u32>,
    /// Positions by rank, the best first.
    positions: BTreeMap<Reverse<Rank>, u32>,
}

impl Field {
    fn new(field: usize, place: Place, vector: u32) -> Self {
        let direct = if place.width <= DIRECT { vec![vector; 1 << place.width] } else { Vec::new() };
        Field { field, place, starts: vec![0], vectors: vec![vector], direct }
    }

    #[inline(always)]
    fn vector(&self, key: &[u64]) -> u32 {
        let value = self.place.low(key);
        if let Some(vector) = self.direct.get(value as usize) {
            return *vector;
        }
        let (mut at, mut rest) = (0, self.starts.len());
        while rest > 1 {
            let half = rest / 2;
            at = if self.starts[at + half] <= value { at + half } else { at };
            rest -= half;
        }
        self.vectors[at]
    }

    /// The bounds that an entry has here.
    fn bounds(&self, ranges: &[Range]) -> (u64, u64) {
        let low = |w: &[u64]| w.first().copied().unwrap_or(0);
        let own = ranges.iter().find(|r| r.field == self.field);
        own.map_or((0, u64::MAX), |r| (low(&r.lo), low(&r.hi)))
    }
}

/// The byte of each word's bits from `shift` on.
fn byte(words: &[u64], word: usize, shift: u32) -> u8 {
    (words[word] >> shift) as u8
}

impl Vectors {
    /// Can keys with these fields be looked up this way at all? `ranges` are the fields of kind range.
    pub fn can(places: &[Place], key_words: usize, ranges: &[usize]) -> bool {
        key_words * 8 + ranges.len() <= MAX_PARTS && ranges.iter().all(|r| places[*r].width <= 64)
    }

    /// From all entries. `None`: it would take too much memory.
    pub fn new(places: &[Place], entries: &Entries, ranges: &[usize]) -> Option<Self> {
        let capacity = (entries.len() * 2).next_power_of_two().max(256);
        let words = capacity / 64;
        let summary = words.div_ceil(64);
        let mut vectors = Vectors {
            parts: Vec::new(),
            bits: vec![0; summary + words],
            words,
            summary,
            at: vec![FREE; capacity],
            positions: BTreeMap::new(),
        };
        // How many entries look at a byte says how telling it is.
        let mut telling: Vec<(usize, Part)> = Vec::new();
        for word in 0..entries.key_words() {
            for shift in (0..64).step_by(8) {
                let cares = |s: &u32| byte(entries.mask(*s), word, shift) != 0;
                let n = entries.slots().filter(cares).count();
                if n > 0 {
                    telling.push((n, Part::Byte { word, shift, first: 0 }));
                }
            }
        }
        for field in ranges {
            let own = |r: &&Range| r.field == *field;
            let distinct: BTreeSet<_> =
                entries.slots().flat_map(|s| entries.ranges(s)).filter(own).map(|r| (&r.lo, &r.hi)).collect();
            telling.push((distinct.len(), Part::Field(Field::new(*field, places[*field], 0))));
        }
        telling.sort_by_key(|(n, _)| Reverse(*n));
        let vectors_needed: usize =
            telling.iter().map(|(n, p)| if let Part::Byte { .. } = p { 256 } else { 2 * n + 1 }).sum();
        if entries.len() > MAX_ENTRIES || vectors_needed.saturating_mul((summary + words) * 8) > MAX_BYTES {
            return None;
        }
        for (_, mut part) in telling {
            match &mut part {
                Part::Byte { first, .. } => *first = vectors.more(256),
                Part::Field(f) => *f = Field::new(f.field, f.place, vectors.more(1)),
            }
            vectors.parts.push(part);
        }
        // All of them, evenly spread.
        let mut sorted: Vec<_> =
            entries.slots().filter_map(|s| Some((Reverse(entries.rank(s)?), s))).collect();
        sorted.sort_unstable();
        let n = sorted.len().max(1);
        for (i, (rank, slot)) in sorted.into_iter().enumerate() {
            let position = (i * capacity / n) as u32;
            vectors.positions.insert(rank, position);
            vectors.at[position as usize] = slot;
            vectors.column(entries, slot, position, true);
        }
        Some(vectors)
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        let fields = self.parts.iter().map(|p| match p {
            Part::Byte { .. } => 0,
            Part::Field(f) => f.starts.capacity() * 12 + f.direct.capacity() * 4,
        });
        self.bits.capacity() * 8 + self.at.capacity() * 4 + fields.sum::<usize>()
    }

    fn stride(&self) -> usize {
        self.summary + self.words
    }

    /// That many empty vectors more; gives the first.
    fn more(&mut self, n: usize) -> u32 {
        let first = self.bits.len() / self.stride();
        self.bits.resize((first + n) * self.stride(), 0);
        first as u32
    }

    fn set(&mut self, vector: u32, position: u32, on: bool) {
        let (stride, summary) = (self.stride(), self.summary);
        let vector = &mut self.bits[vector as usize * stride..][..stride];
        let (word, bit) = (position as usize / 64, 1u64 << (position % 64));
        if on {
            vector[summary + word] |= bit;
            vector[word / 64] |= 1 << (word % 64);
        } else {
            vector[summary + word] &= !bit;
            if vector[summary + word] == 0 {
                vector[word / 64] &= !(1 << (word % 64));
            }
        }
    }

    /// Sets or clears an entry's bit wherever it stands.
    fn column(&mut self, entries: &Entries, slot: u32, position: u32, on: bool) {
        self.set(0, position, on);
        let mut parts = std::mem::take(&mut self.parts);
        for part in &mut parts {
            match part {
                Part::Byte { word, shift, first } => {
                    let (value, mask) = (entries.value(slot), entries.mask(slot));
                    let (value, mask) = (byte(value, *word, *shift), byte(mask, *word, *shift));
                    // All values of the bits that the mask leaves out.
                    let mut others = !mask;
                    loop {
                        self.set(*first + u32::from(value | others), position, on);
                        if others == 0 {
                            break;
                        }
                        others = (others - 1) & !mask;
                    }
                }
                Part::Field(f) => {
                    let (lo, hi) = f.bounds(entries.ranges(slot));
                    let first = self.cut(f, lo);
                    let end = match hi.checked_add(1) {
                        Some(end) if f.place.width >= 64 || end < 1 << f.place.width => self.cut(f, end),
                        _ => f.starts.len(),
                    };
                    for i in first..end {
                        self.set(f.vectors[i], position, on);
                    }
                }
            }
        }
        self.parts = parts;
    }

    /// Index of the interval that begins at `at`, made if there is none.
    fn cut(&mut self, f: &mut Field, at: u64) -> usize {
        let next = f.starts.partition_point(|s| *s < at);
        if f.starts.get(next) != Some(&at) {
            let vector = self.more(1);
            let stride = self.stride();
            let from = f.vectors[next - 1] as usize * stride;
            self.bits.copy_within(from..from + stride, vector as usize * stride);
            if !f.direct.is_empty() {
                let end = f.starts.get(next).map_or(f.direct.len(), |e| *e as usize);
                f.direct[at as usize..end].fill(vector);
            }
            f.starts.insert(next, at);
            f.vectors.insert(next, vector);
        }
        next
    }

    /// Is there a part for every byte that an entry looks at?
    fn covers(&self, mask: &[u64]) -> bool {
        let mut left = mask.to_vec();
        for part in &self.parts {
            if let Part::Byte { word, shift, .. } = part {
                left[*word] &= !(0xff << shift);
            }
        }
        left.iter().all(|w| *w == 0)
    }

    /// Adds an entry that is among `entries` already. False: there is no room, make all of it anew.
    pub fn insert(&mut self, entries: &Entries, slot: u32) -> bool {
        let Some(rank) = entries.rank(slot) else { return true };
        let capacity = self.at.len() as u32;
        let too_many_cuts = self.parts.iter().any(|p| match p {
            Part::Byte { .. } => false,
            Part::Field(f) => f.starts.len() > 4 * entries.len() + 64,
        });
        if entries.len() * 4 > self.at.len() * 3
            || !self.covers(entries.mask(slot))
            || too_many_cuts
            || self.bits.len() * 8 > MAX_BYTES
        {
            return false;
        }
        let before = self.positions.range(..Reverse(rank)).next_back().map(|(_, p)| *p);
        let after = self.positions.range(Reverse(rank)..).next().map(|(_, p)| *p);
        let position = match (before, after) {
            (None, None) => capacity / 2,
            // At the ends close to the next: there will be more.
            (Some(b), None) if b + 1 < capacity => b + 1 + ((capacity - b - 1) / 2).min(3),
            (None, Some(a)) if a > 0 => a - 1 - (a / 2).min(3),
            (Some(b), Some(a)) if b + 1 < a => b + (a - b) / 2,
            _ => self.make_room(before, after),
        };
        self.positions.insert(Reverse(rank), position);
        self.at[position as usize] = slot;
        self.column(entries, slot, position, true);
        true
    }

    /// A free position between two that have none between them: the entries up to the next gap move by one.
    fn make_room(&mut self, before: Option<u32>, after: Option<u32>) -> u32 {
        let capacity = self.at.len() as u32;
        let upper =
            after.and_then(|a| (a..capacity).find(|p| self.at[*p as usize] == FREE).map(|p| (p - a, a, p)));
        let lower =
            before.and_then(|b| (0..=b).rev().find(|p| self.at[*p as usize] == FREE).map(|p| (b - p, p, b)));
        let up = match (&upper, &lower) {
            (Some(u), Some(l)) => u.0 <= l.0,
            (Some(_), None) => true,
            _ => false,
        };
        let (_, first, last) = if up { upper } else { lower }.unwrap_or((0, 0, 0));
        let stride = self.stride();
        for vector in self.bits.chunks_exact_mut(stride) {
            let (summary, words) = vector.split_at_mut(self.summary);
            shift(words, first, last, up);
            for w in first as usize / 64..=last as usize / 64 {
                let bit = 1 << (w % 64);
                summary[w / 64] = summary[w / 64] & !bit | if words[w] != 0 { bit } else { 0 };
            }
        }
        let (first, last) = (first as usize, last as usize);
        if up {
            self.at.copy_within(first..last, first + 1);
        } else {
            self.at.copy_within(first + 1..last + 1, first);
        }
        let free = if up { first } else { last };
        self.at[free] = FREE;
        let moved = |p: u32| (first..=last).contains(&(p as usize));
        for position in self.positions.values_mut().filter(|p| moved(**p)) {
            *position = if up { *position + 1 } else { *position - 1 };
        }
        free as u32
    }

    /// Removes an entry that is among `entries` still.
    pub fn remove(&mut self, entries: &Entries, slot: u32) {
        let Some(position) = entries.rank(slot).and_then(|r| self.positions.remove(&Reverse(r))) else {
            return;
        };
        self.at[position as usize] = FREE;
        self.column(entries, slot, position, false);
    }

    /// Where the vectors of a key begin, and how many there are.
    #[inline(always)]
    fn vectors(&self, key: &[u64], starts: &mut [usize; MAX_PARTS]) -> usize {
        let stride = self.stride();
        if self.parts.is_empty() {
            starts[0] = 0;
            return 1;
        }
        for (start, part) in starts.iter_mut().zip(&self.parts) {
            let vector = match part {
                Part::Byte { word, shift, first } => first + u32::from(byte(key, *word, *shift)),
                Part::Field(f) => f.vector(key),
            };
            *start = vector as usize * stride;
        }
        self.parts.len()
    }

    /// Number of the best entry that matches, plus one; 0 for none.
    #[inline(always)]
    pub fn find(&self, key: &[u64]) -> u32 {
        let mut starts = [0; MAX_PARTS];
        let n = self.vectors(key, &mut starts);
        let starts = &starts[..n];
        // SAFETY: every start is that of a vector, which has `summary` words and `words` more, one for each bit of the
        // summary that is ever set.
        let common = |at: usize| {
            let mut all = u64::MAX;
            for start in starts {
                all &= unsafe { *self.bits.get_unchecked(start + at) };
                if all == 0 {
                    break;
                }
            }
            all
        };
        for s in 0..self.summary {
            let mut some = common(s);
            while some != 0 {
                let word = s * 64 + some.trailing_zeros() as usize;
                let hits = common(self.summary + word);
                if hits != 0 {
                    return self.at[word * 64 + hits.trailing_zeros() as usize] + 1;
                }
                some &= some - 1;
            }
        }
        0
    }

    /// Where the searches for a key begin.
    #[inline(always)]
    pub fn firsts(&self, key: &[u64], mut each: impl FnMut(*const u64)) {
        let mut starts = [0; MAX_PARTS];
        let n = self.vectors(key, &mut starts);
        starts[..n].iter().for_each(|s| each(self.bits.as_ptr().wrapping_add(*s)));
    }
}

/// Moves bits of positions `first..=last` by one, towards the end (the last one is zero before, the first after) or
/// towards the beginning (the other way round).
fn shift(words: &mut [u64], first: u32, last: u32, up: bool) {
    let (from, to) = (first as usize / 64, last as usize / 64);
    let bit = |words: &[u64], w: usize, b: u32| words[w] >> b & 1;
    let inside = |w: usize| {
        let low = if w == from { first % 64 } else { 0 };
        let high = if w == to { last % 64 } else { 63 };
        (u64::MAX << low) & (u64::MAX >> (63 - high))
    };
    let each = |words: &mut [u64], w: usize| {
        let old = words[w];
        let new = if up {
            old << 1 | if w > from { bit(words, w - 1, 63) } else { 0 }
        } else {
            old >> 1 | if w < to { bit(words, w + 1, 0) << 63 } else { 0 }
        };
        words[w] = old & !inside(w) | new & inside(w);
    };
    let freed = if up { first } else { last };
    if up {
        (from..=to).rev().for_each(|w| each(words, w));
    } else {
        (from..=to).for_each(|w| each(words, w));
    }
    words[freed as usize / 64] &= !(1 << (freed % 64));
}
