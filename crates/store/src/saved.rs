//! A key's state outside of the store, as bytes on disk.

use crate::message::{MAX_KEY, MAX_VALUE};
use crate::pool::{self, Side, Tuple};
use crate::shared::MAX_READERS;
use crate::table::{Owner, RecordId, Role, Table};
use std::error::Error;
use std::fmt;

/// Bytes in front of the value: grant, sequence number, marks, the owner's switch, incarnation, generation.
const FRONT: usize = 19;
/// Bytes of a reader behind the value: switch, incarnation, generation, grant. Their number is where other rows have the owner's switch.
const READER: usize = 14;

/// Marks: the key has an owner; it is a side of a binding; it is ending; a session holds it; it has snapshots; it is a cell of one; it is fixed, and
/// its term in milliseconds is where others have the owner's incarnation.
const OWNED: u8 = 1;
const INSIDE: u8 = 2;
const OUTSIDE: u8 = 4;
const ENDING: u8 = 8;
const SESSION: u8 = 16;
const SNAPSHOT: u8 = 32;
const CELL: u8 = 64;
const FIXED: u8 = 128;
/// Both sides at once, which no key can be: readers follow the value. Versions without shared leases refuse such a row.
const READERS: u8 = INSIDE | OUTSIDE;

/// A key's state: all that must outlive the store. The end of the lease is not part of it, because clocks of two runs cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved<'a> {
    pub(crate) object: u16,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) grant: u32,
    pub(crate) sequence: u32,
    pub(crate) owner: Option<Owner>,
    pub(crate) side: Option<Side>,
    pub(crate) ending: bool,
    pub(crate) session: bool,
    pub(crate) role: Role,
    pub(crate) keep_ms: u32,
    /// Switches with shared leases, and their grants: the first ones.
    pub(crate) readers: Readers,
}

/// A saved state that a store does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// It is not the state of a key.
    Malformed,
    /// The store has this key.
    Twice,
    /// Another binding has its port.
    Port,
    /// The store has no room for another key.
    Full,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoadError::Malformed => "a row that is not the state of a key",
            LoadError::Twice => "a key that occurs twice",
            LoadError::Port => "a port that occurs in two bindings",
            LoadError::Full => "more keys than the store has room for",
        })
    }
}

impl Error for LoadError {}

impl<'a> Saved<'a> {
    pub(crate) fn of(table: &'a Table, id: RecordId) -> Self {
        let record = table.get(id);
        let mut readers = [None; MAX_READERS];
        for (place, reader) in readers.iter_mut().zip(table.readers(id)) {
            *place = Some((reader.owner, reader.grant));
        }
        Saved {
            object: record.object,
            key: record.key(),
            value: record.value(),
            grant: record.grant,
            sequence: record.sequence,
            owner: record.owner,
            side: record.side,
            ending: record.ending,
            session: record.session,
            role: record.role,
            keep_ms: record.keep_ms,
            readers,
        }
    }

    /// The key of its row.
    pub(crate) fn row_key(object: u16, key: &[u8]) -> Vec<u8> {
        [&object.to_be_bytes()[..], key].concat()
    }

    /// As a row of a table: its key and its value.
    pub fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let readers: Vec<_> = self.readers.iter().flatten().filter(|_| self.owner.is_none()).collect();
        let switch = readers.len() as u16;
        let owner = self.owner.unwrap_or(Owner { switch, incarnation: self.keep_ms, generation: 0 });
        let mark = |on: bool, bit: u8| if on { bit } else { 0 };
        let marks = mark(self.owner.is_some(), OWNED)
            | mark(self.side == Some(Side::Inside), INSIDE)
            | mark(self.side == Some(Side::Outside), OUTSIDE)
            | mark(self.ending, ENDING)
            | mark(self.session, SESSION)
            | mark(self.role == Role::Snapshot, SNAPSHOT)
            | mark(self.role == Role::Cell, CELL)
            | mark(self.role == Role::Fixed, FIXED)
            | mark(!readers.is_empty(), READERS);
        let front = [
            &self.grant.to_be_bytes()[..],
            &self.sequence.to_be_bytes(),
            &[marks],
            &owner.switch.to_be_bytes(),
            &owner.incarnation.to_be_bytes(),
            &owner.generation.to_be_bytes(),
        ];
        let mut row = [&front.concat()[..], self.value].concat();
        for (reader, grant) in readers {
            row.extend(reader.switch.to_be_bytes());
            row.extend(
                [reader.incarnation, reader.generation, *grant].into_iter().flat_map(u32::to_be_bytes),
            );
        }
        (Saved::row_key(self.object, self.key), row)
    }

    /// Reads a row.
    ///
    /// # Errors
    /// [`LoadError::Malformed`].
    pub fn decode(key: &'a [u8], row: &'a [u8]) -> Result<Self, LoadError> {
        let (object, key) = key.split_first_chunk().ok_or(LoadError::Malformed)?;
        let (front, value) = row.split_first_chunk::<FRONT>().ok_or(LoadError::Malformed)?;
        let word = |at: usize| u32::from_be_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
        let owner = owner_at(&front[9..]);
        let has = |mark: u8| front[8] & mark != 0;
        let lent = front[8] & !ENDING == READERS;
        let side = match (has(INSIDE), has(OUTSIDE)) {
            (false, false) => None,
            (true, false) => Some(Side::Inside),
            (false, true) => Some(Side::Outside),
            (true, true) if lent => None,
            (true, true) => return Err(LoadError::Malformed),
        };
        let role = match (has(SNAPSHOT), has(CELL), has(FIXED)) {
            (false, false, false) => Role::State,
            (true, false, false) => Role::Snapshot,
            (false, true, false) => Role::Cell,
            (false, false, true) if front[8] == FIXED => Role::Fixed,
            _ => return Err(LoadError::Malformed),
        };
        let object = u16::from_be_bytes(*object);
        let owner_word = owner.incarnation;
        let count = if lent { usize::from(owner.switch) } else { 0 };
        let (value, readers) = split_readers(value, count).ok_or(LoadError::Malformed)?;
        let (grant, sequence, owner) = (word(0), word(4), has(OWNED).then_some(owner));
        let saved = Saved {
            object,
            key,
            value,
            grant,
            sequence,
            owner,
            side,
            ending: has(ENDING),
            session: has(SESSION),
            role,
            keep_ms: if role == Role::Fixed { owner_word } else { 0 },
            readers,
        };
        saved.check().map(|()| saved)
    }

    /// Whether key and value have lengths that messages, and bindings, can have.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let fits = |length: usize, most: usize| (4..=most).contains(&length) && length.is_multiple_of(4);
        let binds = match self.side {
            None => true,
            Some(Side::Inside) => Tuple::inside(self.key).is_some() && pool::is_value(self.value),
            Some(Side::Outside) => pool::is_value(self.value),
        };
        let fine = binds && fits(self.key.len(), MAX_KEY) && fits(self.value.len(), MAX_VALUE);
        if fine { Ok(()) } else { Err(LoadError::Malformed) }
    }
}

fn owner_at(bytes: &[u8]) -> Owner {
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Owner { switch: u16::from_be_bytes([bytes[0], bytes[1]]), incarnation: word(2), generation: word(6) }
}

/// The readers of a row, by owner and grant.
type Readers = [Option<(Owner, u32)>; MAX_READERS];

/// Splits value and readers; `None`: too few bytes, or too many readers.
fn split_readers(bytes: &[u8], count: usize) -> Option<(&[u8], Readers)> {
    let at = bytes.len().checked_sub(count * READER).filter(|_| count <= MAX_READERS)?;
    let (value, list) = bytes.split_at(at);
    let mut readers = [None; MAX_READERS];
    for (place, bytes) in readers.iter_mut().zip(list.chunks_exact(READER)) {
        let grant = u32::from_be_bytes(*bytes.last_chunk()?);
        *place = Some((owner_at(bytes), grant));
    }
    Some((value, readers))
}
