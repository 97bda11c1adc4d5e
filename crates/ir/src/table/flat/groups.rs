//! Groups of rows: which of its rows a packet gets depends on more than the key.

use super::{FlatTable, row};
use crate::table::ActionCall;
use std::collections::BTreeMap;

/// A group with more rows than this is left to [`Env::lookup`](crate::Env::lookup).
const MOST_ROWS: u64 = 4096;

/// Groups by their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    places: Vec<Group>,
    by_number: BTreeMap<u32, u32>,
    free: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    number: u32,
    /// Rows one after the other, each as often as its weight says; empty: unknown.
    rows: Vec<u64>,
}

impl Groups {
    fn place(&mut self, number: u32) -> u32 {
        if let Some(place) = self.by_number.get(&number) {
            return *place;
        }
        let place = self.free.pop().unwrap_or(self.places.len() as u32);
        if place as usize == self.places.len() {
            self.places.push(Group::default());
        }
        self.places[place as usize] = Group { number, rows: Vec::new() };
        self.by_number.insert(number, place);
        place
    }

    /// The word by which an entry's row names a group: its place, and its number, because places are used again.
    pub fn name(&mut self, number: u32) -> u64 {
        u64::from(number) << 32 | u64::from(self.place(number))
    }

    #[inline]
    fn rows(&self, name: u64) -> &[u64] {
        match self.places.get(name as u32 as usize) {
            Some(group) if u64::from(group.number) == name >> 32 => &group.rows,
            _ => &[],
        }
    }

    pub fn bytes(&self) -> usize {
        self.places.iter().map(|g| g.rows.capacity() * 8 + size_of::<Group>()).sum()
    }
}

impl FlatTable {
    /// Sets the members of a group that a packet may get at present, with their weights. Rows of entries with
    /// [`FlatAction::Group`](super::FlatAction::Group) lead to it.
    pub fn set_group<'a>(&mut self, number: u32, members: impl Iterator<Item = (&'a ActionCall, u32)>) {
        let place = self.groups.place(number) as usize;
        let mut rows = std::mem::take(&mut self.groups.places[place].rows);
        rows.clear();
        let mut total = 0;
        for (call, weight) in members {
            total += u64::from(weight);
            if total > MOST_ROWS || !self.make_member(call) {
                rows.clear();
                break;
            }
            (0..weight).for_each(|_| rows.extend_from_slice(&self.scratch));
        }
        self.groups.places[place].rows = rows;
    }

    /// Forgets a group. Entries that still name it ask.
    pub fn drop_group(&mut self, number: u32) {
        if let Some(place) = self.groups.by_number.remove(&number) {
            self.groups.places[place as usize] = Group::default();
            self.groups.free.push(place);
        }
    }

    /// Puts a member's row into the scratch space, if it can be one.
    fn make_member(&mut self, call: &ActionCall) -> bool {
        self.make_row(None, super::FlatAction::Call(call));
        let good = self.scratch[0] & (row::ASK | row::REPORT) == 0;
        self.scratch[0] |= row::HIT;
        good
    }

    /// Whether [`FlatTable::member`] has an answer for a row with [`row::GROUP`]. `name` is the row's first word of data.
    #[inline]
    pub fn knows_group(&self, name: u64) -> bool {
        !self.groups.rows(name).is_empty()
    }

    /// The row of the member on which a hash falls.
    #[inline]
    pub fn member(&self, name: u64, hash: u64) -> Option<&[u64]> {
        let mut rows = self.groups.rows(name).chunks_exact(self.row_words);
        let at = hash.checked_rem(rows.len() as u64)?;
        rows.nth(at as usize)
    }
}
