//! Tables for executors that count nanoseconds.
//!
//! A [`FlatTable`] holds the same entries as a [`TableStore`](super::TableStore) and finds the same one, but takes the key
//! as words and answers with a row of words, so that native code can use it without conversion. The data structure
//! follows from the kinds of match and the entries:
//! - only exact fields: open addressing with key and row inline (`exact.rs`);
//! - one lpm field, and exact fields of up to 32 bits next to it: a trie (`trie.rs`);
//! - one range field: a binary search among intervals (`intervals.rs`);
//! - anything else: one hash table for each mask as long as masks are few (`tuples.rs`), or bit vectors (`vectors.rs`);
//!   the table changes over by itself;
//! - no keys: only the default row.
//!
//! The owner of the store keeps the table in step: every change of one is made to the other, with `&mut`, so no look-up
//! ever sees half of one.
//!
//! # Keys
//!
//! The fields, except those of kind `selector`, are in a key as [`places`] defines: short ones share words. Bits that
//! belong to no field must be zero.
//!
//! # Rows
//!
//! Word 0 is the head, see [`row`]: action, flags, and which entry it is. From word [`row::DATA`] on come the action's
//! arguments, at the [`places`] of their widths (`bool` 1 bit, enums and `error` 32). All rows of a table have one
//! size. A look-up that misses gives the row of the default action. Rows stay where they are until the table changes.
//!
//! # For native code
//!
//! The structure begins with two pointers to functions, `find` at offset [`FlatTable::FIND`] and `prefetch` at offset
//! [`FlatTable::PREFETCH`]: the C ABI, first argument the table, second the key, result (of `find`) the row. Tables are
//! consecutive in the slice that [`Env::tables`](crate::Env::tables) gives, `size_of::<FlatTable>()` apart.

mod entries;
mod exact;
mod functions;
mod groups;
mod intervals;
mod masked;
mod place;
#[cfg(test)]
mod tests;
mod trie;
mod tuples;
mod vectors;

pub use place::{Place, places};

use super::{ActionCall, EntryHandle, KeyMatch};
use crate::program::MatchKind;
use entries::Rank;
use exact::Exact;
use functions::*;
use groups::Groups;
use masked::{How, Masked};
use place::{Matches, put_value};
use trie::Trie;

/// The head of a row.
pub mod row {
    /// Index of the action in [`Table::actions`](crate::Table::actions); all ones: nothing runs.
    pub const ACTION: u64 = 0xffff_ffff;
    /// Set: an entry was hit. Otherwise it is the default action's row.
    pub const HIT: u64 = 1 << 32;
    /// Set: the row names a group of rows in its first word of data ([`FlatTable::member`](super::FlatTable::member)), of which
    /// [`Env::select`](crate::Env::select) chooses one. If the table does not know the group, it is as with [`ASK`].
    pub const GROUP: u64 = 1 << 33;
    /// Set: the row does not define the action (data that is not all scalars; an entry with
    /// too high a number). [`Env::lookup`](crate::Env::lookup) does, and counts.
    pub const ASK: u64 = 1 << 34;
    /// Set: the architecture has work with each look-up of the table, so [`Env::report_hit`](crate::Env::report_hit) has to be
    /// called before the action runs. Never together with [`ASK`].
    pub const REPORT: u64 = 1 << 35;
    /// From this bit on: the entry's place among [`HitCells`](crate::HitCells), which is its number in the store
    /// ([`TableStore::slot_of`](crate::TableStore::slot_of)) plus one; 0 in the default action's row.
    pub const PLACE_SHIFT: u32 = 36;
    /// Word where the action's data begins.
    pub const DATA: usize = 1;
}

/// Higher places do not fit a head.
const MAX_PLACE: u32 = (1 << (64 - row::PLACE_SHIFT)) - 1;

/// A table without entries gives memory back if it is more than this.
const KEPT_BYTES: usize = 1 << 20;

/// Looks up a key.
pub type FindFn = unsafe extern "C" fn(table: *const FlatTable, key: *const u64) -> *const u64;

/// Fetches what looking up a key reads first.
pub type PrefetchFn = unsafe extern "C" fn(table: *const FlatTable, key: *const u64);

/// The resolved action of an entry.
#[derive(Clone, Copy, Debug)]
pub enum FlatAction<'a> {
    /// Runs an action.
    Call(&'a ActionCall),
    /// Runs nothing.
    Nothing,
    /// Runs the action of a member of the group with this number: see [`FlatTable::set_group`].
    Group(u32),
    /// It depends on more than the key.
    Ask,
}

/// The shape of a table's keys and actions.
#[derive(Clone, Debug)]
pub struct FlatShape {
    /// Kinds and widths of the key fields, those of kind `selector` left out.
    pub keys: Vec<(MatchKind, u32)>,
    /// For each action the widths of its data; `None` if it is not all scalars.
    pub actions: Vec<Option<Vec<u32>>>,
    /// Look-ups are reported ([`row::REPORT`]).
    pub reports: bool,
    /// Entries may name groups.
    pub groups: bool,
    /// A secret from attackers who choose keys.
    pub seed: u64,
}

/// How entries are found. Where rows are not inline they are found by the entry's number.
#[derive(Clone, Debug)]
enum Search {
    /// No keys.
    Nothing,
    /// By asking [`Env::lookup`](crate::Env::lookup).
    Ask,
    /// Rows inline.
    Exact(Exact),
    /// Leaves are numbers plus one.
    Trie(Box<Trie>),
    Masked(Box<Masked>),
}

/// A table with its entries.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct FlatTable {
    find: FindFn,
    prefetch: PrefetchFn,
    key_words: usize,
    row_words: usize,
    search: Search,
    /// The default action's row; behind it, unless they are inline, those of entries by their numbers.
    rows: Vec<u64>,
    places: Vec<Place>,
    /// Of each action's data.
    data: Vec<Option<Vec<Place>>>,
    groups: Groups,
    shape: FlatShape,
    /// Number of entries.
    len: usize,
    matches: Matches,
    scratch: Vec<u64>,
}

impl FlatTable {
    /// Byte offset of the pointer to the function that finds rows, a [`FindFn`].
    pub const FIND: usize = std::mem::offset_of!(FlatTable, find);
    /// Byte offset of the pointer to the function that prefetches, a [`PrefetchFn`].
    pub const PREFETCH: usize = std::mem::offset_of!(FlatTable, prefetch);

    /// A table without entries.
    pub fn new(shape: &FlatShape, default: &ActionCall) -> Self {
        let (places, key_words) = places(shape.keys.iter().map(|k| k.1));
        let data: Vec<_> = shape
            .actions
            .iter()
            .map(|widths| widths.as_ref().map(|w| place::places(w.iter().copied())))
            .collect();
        let name = usize::from(shape.groups);
        let row_words = row::DATA + data.iter().flatten().map(|d| d.1).max().unwrap_or(0).max(name);
        let mut table = FlatTable {
            find: find_default,
            prefetch: prefetch_nothing,
            key_words,
            row_words,
            search: search(shape, &places, key_words, row_words),
            rows: vec![0; row_words],
            places,
            data: data.into_iter().map(|d| d.map(|d| d.0)).collect(),
            groups: Groups::default(),
            shape: shape.clone(),
            len: 0,
            matches: Matches::default(),
            scratch: Vec::new(),
        };
        table.set_default(default);
        table.choose_functions();
        table
    }

    /// Words of a key.
    pub fn key_words(&self) -> usize {
        self.key_words
    }

    /// Words of a row.
    pub fn row_words(&self) -> usize {
        self.row_words
    }

    /// Positions of the key's fields.
    pub fn key_places(&self) -> &[Place] {
        &self.places
    }

    /// Bytes that the entries take.
    pub fn bytes(&self) -> usize {
        let search = match &self.search {
            Search::Nothing | Search::Ask => 0,
            Search::Exact(e) => e.bytes(),
            Search::Trie(t) => t.bytes(),
            Search::Masked(m) => m.bytes(),
        };
        search + self.rows.capacity() * 8 + self.groups.bytes()
    }

    /// The name of the data structure, for people.
    pub fn structure(&self) -> &'static str {
        match &self.search {
            Search::Nothing => "none",
            Search::Ask => "slow",
            Search::Exact(_) => "hash table",
            Search::Trie(_) => "trie",
            Search::Masked(m) => match m.how {
                How::Tuples(_) => "tuple space",
                How::Vectors(_) => "bit vectors",
                How::Intervals(_) => "intervals",
            },
        }
    }

    fn choose_functions(&mut self) {
        let (find, prefetch): (FindFn, PrefetchFn) = match &self.search {
            Search::Nothing | Search::Ask => (find_default, prefetch_nothing),
            Search::Exact(e) => match e.key_words() {
                1 => (find_exact::<1> as FindFn, prefetch_exact::<1> as PrefetchFn),
                2 => (find_exact::<2>, prefetch_exact::<2>),
                3 => (find_exact::<3>, prefetch_exact::<3>),
                4 => (find_exact::<4>, prefetch_exact::<4>),
                5 => (find_exact::<5>, prefetch_exact::<5>),
                _ => (find_exact::<0>, prefetch_exact::<0>),
            },
            Search::Trie(t) => (trie_function(t.is_narrow()), prefetch_trie),
            Search::Masked(m) => match (&m.how, self.key_words) {
                (How::Tuples(_), 1) => (find_masked::<1>, prefetch_masked),
                (How::Tuples(_), 2) => (find_masked::<2>, prefetch_masked),
                (How::Tuples(_), 3) => (find_masked::<3>, prefetch_masked),
                (How::Tuples(_), _) => (find_masked::<0>, prefetch_masked),
                (How::Vectors(_), _) => (find_vectors, prefetch_masked),
                (How::Intervals(_), _) => (find_intervals, prefetch_masked),
            },
        };
        (self.find, self.prefetch) = (find, prefetch);
    }

    /// The row of a key of [`FlatTable::key_words`] words (another one reads as a miss).
    #[allow(unsafe_code)]
    pub fn find(&self, key: &[u64]) -> &[u64] {
        if key.len() != self.key_words {
            return &self.rows[..self.row_words];
        }
        // SAFETY: the key has as many words as the function reads; its result is a row of this table, which has
        // `row_words` words and cannot change as long as it is borrowed.
        unsafe { std::slice::from_raw_parts((self.find)(self, key.as_ptr()), self.row_words) }
    }

    /// Fetches what looking up this key will read first.
    #[allow(unsafe_code)]
    pub fn prefetch(&self, key: &[u64]) {
        if key.len() == self.key_words {
            // SAFETY: as above.
            unsafe { (self.prefetch)(self, key.as_ptr()) }
        }
    }

    /// Puts a row into the scratch space.
    fn make_row(&mut self, slot: Option<u32>, action: FlatAction<'_>) {
        let mut head = match slot {
            Some(slot) => row::HIT | u64::from(slot.saturating_add(1).min(MAX_PLACE)) << row::PLACE_SHIFT,
            None => 0,
        };
        let out = &mut self.scratch;
        out.clear();
        out.resize(self.row_words, 0);
        let known = slot.is_none_or(|s| s < MAX_PLACE);
        let done = match action {
            FlatAction::Nothing => {
                head |= row::ACTION;
                known
            }
            FlatAction::Call(call) => match self.data.get(call.action as usize) {
                Some(Some(places)) if places.len() == call.args.len() => {
                    head |= u64::from(call.action);
                    known
                        && places.iter().zip(&call.args).all(|(p, v)| put_value(*p, &mut out[row::DATA..], v))
                }
                _ => false,
            },
            FlatAction::Group(number) if self.shape.groups && !self.shape.reports => {
                head |= row::ACTION | row::GROUP;
                out[row::DATA] = self.groups.name(number);
                known
            }
            FlatAction::Group(_) | FlatAction::Ask => false,
        };
        out[0] = match (done, self.shape.reports) {
            (false, _) => head | row::ASK,
            (true, true) => head | row::REPORT,
            (true, false) => head,
        };
    }

    /// Sets the default action.
    pub fn set_default(&mut self, call: &ActionCall) {
        let action =
            if matches!(self.search, Search::Ask) { FlatAction::Ask } else { FlatAction::Call(call) };
        self.make_row(None, action);
        self.rows[..self.row_words].copy_from_slice(&self.scratch);
    }

    /// Sets the row of an entry that is found by its number.
    fn put_row(&mut self, slot: u32) {
        let at = (slot as usize + 1) * self.row_words;
        if self.rows.len() < at + self.row_words {
            self.rows.resize(at + self.row_words, 0);
        }
        self.rows[at..at + self.row_words].copy_from_slice(&self.scratch);
    }

    fn set_matches(&mut self, matches: &[KeyMatch]) {
        self.matches.set(&self.places, self.key_words, matches);
    }

    /// Adds an entry that the store took. `slot` is its number there ([`TableStore::slot_of`](super::TableStore::slot_of)).
    pub fn insert(
        &mut self,
        slot: u32,
        handle: EntryHandle,
        matches: &[KeyMatch],
        priority: i32,
        action: FlatAction<'_>,
    ) {
        if matches.len() != self.places.len() {
            return;
        }
        self.set_matches(matches);
        self.make_row(Some(slot), action);
        self.len += 1;
        match &mut self.search {
            Search::Nothing | Search::Ask => {}
            Search::Exact(e) => e.insert(&self.matches.value, &self.scratch),
            Search::Trie(t) => {
                t.insert(&self.matches.value, self.matches.prefix_len, slot + 1);
                self.put_row(slot);
            }
            Search::Masked(m) => {
                let rank = Rank::new(priority, self.matches.prefix_len, handle);
                m.insert(slot, rank, &self.matches);
                self.put_row(slot);
                self.choose_functions();
            }
        }
    }

    /// An existing entry's action changes.
    pub fn modify(&mut self, slot: u32, matches: &[KeyMatch], action: FlatAction<'_>) {
        self.make_row(Some(slot), action);
        match &mut self.search {
            Search::Nothing | Search::Ask => {}
            Search::Exact(e) => {
                self.matches.set(&self.places, self.key_words, matches);
                if let Some(row) = e.get_mut(&self.matches.value) {
                    row.copy_from_slice(&self.scratch);
                }
            }
            Search::Trie(_) | Search::Masked(_) => self.put_row(slot),
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, slot: u32, matches: &[KeyMatch]) {
        self.set_matches(matches);
        match &mut self.search {
            Search::Nothing | Search::Ask => {}
            Search::Exact(e) => {
                e.remove(&self.matches.value);
            }
            Search::Trie(t) => t.remove(&self.matches.value, self.matches.prefix_len),
            Search::Masked(m) => {
                m.remove(slot);
                self.choose_functions();
            }
        }
        self.len = self.len.saturating_sub(1);
        if self.len == 0 && self.bytes() > KEPT_BYTES {
            self.search = search(&self.shape, &self.places, self.key_words, self.row_words);
            self.rows.truncate(self.row_words);
            self.rows.shrink_to_fit();
            self.choose_functions();
        }
    }

    #[inline(always)]
    fn row_at(&self, n: u32) -> *const u64 {
        self.rows.as_ptr().wrapping_add(n as usize * self.row_words)
    }
}

fn search(shape: &FlatShape, places: &[Place], key_words: usize, row_words: usize) -> Search {
    let is = |kind: MatchKind| move |k: &&(MatchKind, u32)| k.0 == kind;
    let (exact, lpm) =
        (shape.keys.iter().filter(is(MatchKind::Exact)), shape.keys.iter().filter(is(MatchKind::Lpm)));
    match (exact.count(), lpm.count()) {
        (0, 0) if shape.keys.is_empty() => return Search::Nothing,
        (n, 0) if n == shape.keys.len() => {
            return Search::Exact(Exact::new(key_words, row_words, shape.seed));
        }
        (n, 1) if n + 1 == shape.keys.len() => {
            let all = || shape.keys.iter().zip(places);
            let exact: Vec<Place> = all().filter(|k| k.0.0 == MatchKind::Exact).map(|k| *k.1).collect();
            if let Some((_, prefix)) = all().find(|k| k.0.0 == MatchKind::Lpm)
                && let Some(trie) = Trie::new(&exact, *prefix, shape.seed)
            {
                return Search::Trie(Box::new(trie));
            }
        }
        _ => {}
    }
    match Masked::new(&shape.keys, places, key_words, shape.seed) {
        Some(masked) => Search::Masked(Box::new(masked)),
        None => Search::Ask,
    }
}
