//! Bit vectors (Lakshman, Stiliadis: High-speed policy-based packet forwarding, 1998), with the summaries of Baboescu,
//! Varghese: Scalable packet classification (2001).
//!
//! Entries are in a row, the best first, and have a bit each. For every value of every byte of the key, a vector has
//! the bits of the entries that allow it there; a range field has a vector for each interval between ends of ranges.
//! The entries that match a key are those in all of its vectors, and the first of them wins. A summary has a bit for
//! each word of a vector that is not zero, so that most words are never read. Intervals need not end where each range
//! does, which keeps their number low; so ranges are compared before an entry wins.
//!
//! The cost does not depend on the number of masks. Every change writes to all vectors, which takes some microseconds;
//! gaps between the entries keep an insertion from moving many.

use super::entries::{Entries, Rank};
use super::intervals::last_start;
use super::place::Place;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;

/// Bytes and range fields of a key that can be distinguished.
const MAX_PARTS: usize = 64;

/// So many vectors are combined before it is asked whether anything is left.
const GROUP: usize = 4;

/// Where vectors begin.
type Starts = [MaybeUninit<usize>; MAX_PARTS];

/// More entries than this are not kept here, nor more bytes of vectors. (Tests use a lower limit.)
pub(super) const MAX_ENTRIES: usize = if cfg!(test) { 200 } else { 1 << 15 };
const MAX_BYTES: usize = 64 << 20;

/// Intervals of a range field.
const MAX_INTERVALS: usize = if cfg!(test) { 6 } else { 1024 };

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
    /// Which of the range fields.
    field: usize,
    place: Place,
    /// Where each interval begins, the first at 0.
    starts: Vec<u64>,
    /// Vector of the first; the others follow.
    first: u32,
    /// Intervals by value, for fields that are short enough.
    direct: Vec<u16>,
}

/// Fields of up to this many bits have an interval by value.
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
    /// Cuts where the ranges of entries end, but not everywhere if there are too many.
    fn new(field: usize, place: Place, entries: &Entries) -> Self {
        let bounds = entries.slots().map(|s| entries.bounds(s, field));
        let mut cuts: Vec<u64> =
            bounds.flat_map(|(lo, hi)| [Some(lo), hi.checked_add(1)]).flatten().collect();
        cuts.retain(|c| *c != 0 && (place.width >= 64 || *c < 1 << place.width));
        cuts.sort_unstable();
        cuts.dedup();
        let each = cuts.len().div_ceil(MAX_INTERVALS - 1).max(1);
        let starts: Vec<u64> = std::iter::once(0).chain(cuts.into_iter().step_by(each)).collect();
        let mut direct = Vec::new();
        if place.width <= DIRECT {
            for (i, start) in starts.iter().enumerate() {
                let end = starts.get(i + 1).copied().unwrap_or(1 << place.width);
                direct.resize(direct.len() + (end - start) as usize, i as u16);
            }
        }
        Field { field, place, starts, first: 0, direct }
    }

    /// Index of the interval in which a value lies.
    #[inline(always)]
    fn interval(&self, value: u64) -> usize {
        match self.direct.get(value as usize) {
            Some(interval) => usize::from(*interval),
            None => last_start(&self.starts, value),
        }
    }

    /// The intervals that an entry touches.
    fn touched(&self, entries: &Entries, slot: u32) -> std::ops::RangeInclusive<usize> {
        let (lo, hi) = entries.bounds(slot, self.field);
        self.interval(lo)..=self.interval(hi)
    }
}

/// The byte of each word's bits from `shift` on.
fn byte(words: &[u64], word: usize, shift: u32) -> u8 {
    (words[word] >> shift) as u8
}

impl Vectors {
    /// Whether keys with these fields can be looked up this way at all. `ranges` are the fields of kind range.
    pub fn can(entries: &Entries) -> bool {
        let ranges = entries.range_fields();
        entries.key_words() * 8 + ranges.len() <= MAX_PARTS
            && ranges.iter().all(|r| (1..=64).contains(&r.width))
    }

    /// From all entries. `None`: it would take too much memory.
    pub fn new(entries: &Entries) -> Option<Self> {
        let words = (entries.len() * 3 / 2).div_ceil(64).max(4);
        let summary = words.div_ceil(64);
        // How many entries match on a byte shows how selective it is.
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
        for (field, place) in entries.range_fields().iter().enumerate() {
            let part = Field::new(field, *place, entries);
            telling.push((part.starts.len(), Part::Field(part)));
        }
        telling.sort_by_key(|(n, _)| Reverse(*n));
        let mut vectors = 1;
        for (_, part) in &mut telling {
            match part {
                Part::Byte { first, .. } => (*first, vectors) = (vectors, vectors + 256),
                Part::Field(f) => (f.first, vectors) = (vectors, vectors + f.starts.len() as u32),
            }
        }
        let all = (vectors as usize).saturating_mul(summary + words);
        if entries.len() > MAX_ENTRIES || all.saturating_mul(8) > MAX_BYTES {
            return None;
        }
        let mut vectors = Vectors {
            parts: telling.into_iter().map(|p| p.1).collect(),
            bits: vec![0; all],
            words,
            summary,
            at: vec![FREE; words * 64],
            positions: BTreeMap::new(),
        };
        vectors.fill(entries);
        Some(vectors)
    }

    /// Puts all entries into vectors that are empty, evenly spread.
    fn fill(&mut self, entries: &Entries) {
        let mut sorted: Vec<_> =
            entries.slots().filter_map(|s| Some((Reverse(entries.rank(s)?), s))).collect();
        sorted.sort_unstable();
        let (n, capacity) = (sorted.len().max(1), self.at.len());
        let position = |i: usize| i * capacity / n;
        for (i, (rank, slot)) in sorted.iter().enumerate() {
            self.at[position(i)] = *slot;
            self.positions.insert(*rank, position(i) as u32);
        }
        let (stride, summary) = (self.stride(), self.summary);
        let set =
            |vector: &mut [u64], i: usize| vector[summary + position(i) / 64] |= 1 << (position(i) % 64);
        let parts = std::mem::take(&mut self.parts);
        for part in &parts {
            match part {
                Part::Byte { word, shift, first } => {
                    // Entries that do not look at this byte are the same in all vectors.
                    let mut any = vec![0; stride];
                    for (i, (_, slot)) in sorted.iter().enumerate() {
                        let mask = byte(entries.mask(*slot), *word, *shift);
                        if mask == 0 {
                            set(&mut any, i);
                            continue;
                        }
                        each_value(byte(entries.value(*slot), *word, *shift), mask, |v| {
                            set(&mut self.bits[(*first as usize + usize::from(v)) * stride..][..stride], i);
                        });
                    }
                    for vector in self.bits[*first as usize * stride..].chunks_exact_mut(stride).take(256) {
                        vector.iter_mut().zip(&any).for_each(|(to, from)| *to |= from);
                    }
                }
                Part::Field(f) => {
                    // From one interval to the next only the entries change that begin or end there.
                    let mut changes = vec![Vec::new(); f.starts.len() + 1];
                    for (i, (_, slot)) in sorted.iter().enumerate() {
                        let touched = f.touched(entries, *slot);
                        changes[*touched.start()].push((i, true));
                        changes[touched.end() + 1].push((i, false));
                    }
                    let mut now = vec![0; stride];
                    for (n, changes) in changes[..f.starts.len()].iter().enumerate() {
                        for (i, on) in changes {
                            if *on {
                                set(&mut now, *i);
                            } else {
                                now[summary + position(*i) / 64] &= !(1 << (position(*i) % 64));
                            }
                        }
                        self.bits[(f.first as usize + n) * stride..][..stride].copy_from_slice(&now);
                    }
                }
            }
        }
        (0..sorted.len()).for_each(|i| set(&mut self.bits[..stride], i));
        for vector in self.bits.chunks_exact_mut(stride) {
            let (summary, words) = vector.split_at_mut(summary);
            for (w, _) in words.iter().enumerate().filter(|(_, word)| **word != 0) {
                summary[w / 64] |= 1 << (w % 64);
            }
        }
        self.parts = parts;
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        let fields = self.parts.iter().map(|p| match p {
            Part::Byte { .. } => 0,
            Part::Field(f) => f.starts.capacity() * 8 + f.direct.capacity() * 2,
        });
        self.bits.capacity() * 8 + self.at.capacity() * 4 + fields.sum::<usize>()
    }

    /// Entries that have a place.
    pub fn capacity(&self) -> usize {
        self.at.len()
    }

    fn stride(&self) -> usize {
        self.summary + self.words
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

    /// Sets or clears an entry's bit wherever it is.
    fn column(&mut self, entries: &Entries, slot: u32, position: u32, on: bool) {
        self.set(0, position, on);
        let parts = std::mem::take(&mut self.parts);
        for part in &parts {
            match part {
                Part::Byte { word, shift, first } => {
                    let (value, mask) = (entries.value(slot), entries.mask(slot));
                    let (value, mask) = (byte(value, *word, *shift), byte(mask, *word, *shift));
                    each_value(value, mask, |v| self.set(*first + u32::from(v), position, on));
                }
                Part::Field(f) => {
                    for i in f.touched(entries, slot) {
                        self.set(f.first + i as u32, position, on);
                    }
                }
            }
        }
        self.parts = parts;
    }

    /// Whether every byte that an entry matches on has a part.
    fn covers(&self, mask: &[u64]) -> bool {
        let mut left = mask.to_vec();
        for part in &self.parts {
            if let Part::Byte { word, shift, .. } = part {
                left[*word] &= !(0xff << shift);
            }
        }
        left.iter().all(|w| *w == 0)
    }

    /// Adds an entry that is among `entries` already. False without room: rebuild all of it.
    pub fn insert(&mut self, entries: &Entries, slot: u32) -> bool {
        let Some(rank) = entries.rank(slot) else { return true };
        let capacity = self.at.len() as u32;
        if entries.len() * 8 > self.at.len() * 7 || !self.covers(entries.mask(slot)) {
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
            _ => self.make_room(rank, before, after),
        };
        self.positions.insert(Reverse(rank), position);
        self.at[position as usize] = slot;
        self.column(entries, slot, position, true);
        true
    }

    /// A free position between two that have none between them: the entries up to the next gap move by one.
    fn make_room(&mut self, rank: Rank, before: Option<u32>, after: Option<u32>) -> u32 {
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
        if up {
            let behind = self.positions.range_mut(Reverse(rank)..).map(|p| p.1);
            behind.take_while(|p| **p <= last as u32).for_each(|p| *p += 1);
        } else {
            let ahead = self.positions.range_mut(..Reverse(rank)).rev().map(|p| p.1);
            ahead.take_while(|p| **p >= first as u32).for_each(|p| *p -= 1);
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

    /// Where the vectors of a key begin; the first of them again where it takes more to make up whole groups.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn vectors<'a>(&self, key: &[u64], starts: &'a mut Starts) -> &'a [[usize; GROUP]] {
        let stride = self.stride();
        let mut first = 0;
        let mut n = 0usize;
        for (start, part) in starts.iter_mut().zip(&self.parts) {
            let vector = match part {
                Part::Byte { word, shift, first } => first + u32::from(byte(key, *word, *shift)),
                Part::Field(f) => f.first + f.interval(f.place.low(key)) as u32,
            };
            let at = vector as usize * stride;
            start.write(at);
            if n == 0 {
                first = at;
            }
            n += 1;
        }
        // Without parts it is vector 0, with all entries.
        let groups = n.div_ceil(GROUP).max(1);
        starts[n..groups * GROUP].iter_mut().for_each(|start| {
            start.write(first);
        });
        // SAFETY: the first `n` and those up to the end of the group were just written.
        unsafe { std::slice::from_raw_parts(starts.as_ptr().cast(), groups) }
    }

    /// Number of the best entry that matches, plus one; 0 for none.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub fn find(&self, entries: &Entries, key: &[u64]) -> u32 {
        let mut starts = [MaybeUninit::uninit(); MAX_PARTS];
        let groups = self.vectors(key, &mut starts);
        // SAFETY: every start is that of a vector, which has `summary` words and `words` more, one for each bit of the
        // summary that is ever set.
        let word = |at: usize| unsafe { *self.bits.get_unchecked(at) };
        // The first group is the most telling, so whether it leaves anything is easy to predict.
        let common = |at: usize| {
            let mut all = u64::MAX;
            for group in groups {
                all &= group.iter().fold(u64::MAX, |all, start| all & word(start + at));
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
                let mut hits = common(self.summary + word);
                while hits != 0 {
                    let slot = self.at[word * 64 + hits.trailing_zeros() as usize];
                    if entries.in_ranges(slot, key) {
                        return slot + 1;
                    }
                    hits &= hits - 1;
                }
                some &= some - 1;
            }
        }
        0
    }

    /// Where the searches for a key begin.
    #[inline(always)]
    pub fn firsts(&self, key: &[u64], mut each: impl FnMut(*const u64)) {
        let mut starts = [MaybeUninit::uninit(); MAX_PARTS];
        for start in self.vectors(key, &mut starts).as_flattened() {
            each(self.bits.as_ptr().wrapping_add(*start));
        }
    }
}

/// All values that are `value` under a mask.
fn each_value(value: u8, mask: u8, mut each: impl FnMut(u8)) {
    let mut others = !mask;
    loop {
        each(value | others);
        if others == 0 {
            break;
        }
        others = (others - 1) & !mask;
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
