//! Snapshots (R11): arrays that a switch sends cell by cell, all cells as they were at one instant.
//!
//! A cell of all arrays is a record of its own, with two versions: one belongs to the last complete snapshot, the other one takes the next. The key's own record
//! says which snapshot is complete; it changes together with the last missing cell. A version is named by grant and number: two owners may
//! give their snapshots the same number.

use crate::message::{Flags, MAX_KEY, MAX_VALUE, Message, Status, later};
use crate::outbox::Outbox;
use crate::store::Store;
use crate::table::{RecordId, Role};
use std::collections::BTreeMap;

/// The most cells that a snapshot has.
pub const MAX_CELLS: u32 = 4096;
/// Bytes of the name of a version, in front of its words.
const NAME: usize = 8;

/// A snapshot: the grant under which it was made, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    grant: u32,
    number: u32,
}

impl Name {
    fn bytes(self) -> [u8; NAME] {
        (u64::from(self.grant) << 32 | u64::from(self.number)).to_be_bytes()
    }
}

/// Of the last snapshot of each key: its name, how many cells it has, and how many of them are missing. The cells say it, too: this only
/// saves counting.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(BTreeMap<RecordId, (Name, u32, u32)>);

impl Snapshots {
    /// Cells changed in another way.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// A key is gone; another one may get its record.
    pub fn forget(&mut self, id: RecordId) {
        self.0.remove(&id);
    }
}

/// The key of a cell's record.
fn key_of(key: &[u8], cell: u32) -> Vec<u8> {
    [key, &cell.to_be_bytes()].concat()
}

impl<A: Copy + Eq> Store<A> {
    /// The last complete snapshot of a key.
    fn complete(&self, id: RecordId) -> Option<Name> {
        let record = self.table.get(id);
        let grant = record.value().first_chunk().map(|word| u32::from_be_bytes(*word))?;
        let known = record.role == Role::Snapshot && record.sequence != 0;
        known.then_some(Name { grant, number: record.sequence })
    }

    /// The record of a cell.
    fn find_cell(&self, object: u16, key: &[u8]) -> Result<RecordId, usize> {
        let found = self.table.find(object, key)?;
        if self.table.get(found).role == Role::Cell { Ok(found) } else { Err(usize::MAX) }
    }

    /// The words of a cell in a snapshot.
    fn words(&self, object: u16, key: &[u8], name: Name) -> Option<&[u8]> {
        let id = self.find_cell(object, key).ok()?;
        let value = self.table.get(id).value();
        let versions = value.chunks_exact((value.len() / 2).max(1));
        versions.filter_map(|v| v.strip_prefix(&name.bytes())).next()
    }

    /// A cell, from the owner of the key or for it.
    pub(crate) fn cell(
        &mut self,
        now: u64,
        from: A,
        message: &Message<'_>,
        id: RecordId,
        out: &mut Outbox<A>,
    ) {
        let head = &message.head;
        let (cells, cell) = (head.request >> 16, head.request & 0xffff);
        let long = message.key.len() + 4 > MAX_KEY || 2 * (NAME + message.value.len()) > MAX_VALUE;
        if long || cell >= cells || cells > MAX_CELLS || head.sequence == 0 && !head.flags.existing {
            self.stats.sizes += 1;
            return self.refuse(from, message, Status::Size, out);
        }
        let key = key_of(message.key, cell);
        if head.flags.existing {
            return self.give_back(now, from, message, (id, &key), out);
        }
        let name = Name { grant: self.table.get(id).grant, number: head.sequence };
        let complete = self.complete(id);
        if complete.is_some_and(|c| c != name && !later(name.number, c.number)) {
            self.stats.late += 1;
            return;
        }
        if self.words(head.object, &key, name).is_some() {
            self.stats.renewals += 1;
        } else if let Err(status) = self.store_cell(message, &key, name, complete) {
            match status {
                Status::Full => self.stats.full += 1,
                _ => self.stats.sizes += 1,
            }
            return self.refuse(from, message, status, out);
        } else {
            self.stats.cells += 1;
            self.count(id, message, name, cells);
        }
        // A switch may give the number of a complete snapshot to one with more cells.
        let created = self.complete(id) == Some(name) && self.missing(id, message, name, cells) == 0;
        self.answer_cell(now, from, message, id, Flags { created, ..head.flags }, out);
    }

    /// Replaces the version of a cell that is not part of the complete snapshot.
    fn store_cell(
        &mut self,
        message: &Message<'_>,
        key: &[u8],
        name: Name,
        complete: Option<Name>,
    ) -> Result<(), Status> {
        let length = NAME + message.value.len();
        let object = message.head.object;
        let id = match self.find_cell(object, key) {
            Ok(id) if self.table.get(id).value().len() == 2 * length => id,
            Err(place) if place != usize::MAX => {
                let value = vec![0; 2 * length];
                let id = self.table.insert(place, object, key, &value, 0).ok_or(Status::Full)?;
                self.table.get_mut(id).role = Role::Cell;
                id
            }
            // Another key of the program has this name.
            _ => return Err(Status::Size),
        };
        let mut value = self.table.get(id).value().to_vec();
        let kept = complete.is_some_and(|c| value.starts_with(&c.bytes()));
        let version = &mut value[usize::from(kept) * length..][..length];
        version[..NAME].copy_from_slice(&name.bytes());
        version[NAME..].copy_from_slice(message.value);
        self.table.get_mut(id).put_value(&value);
        self.note(id);
        Ok(())
    }

    /// How many cells of a snapshot are not here.
    fn missing(&self, id: RecordId, message: &Message<'_>, name: Name, cells: u32) -> u32 {
        match self.snapshots.0.get(&id) {
            Some((of, all, missing)) if (*of, *all) == (name, cells) => *missing,
            _ => {
                let object = message.head.object;
                let here = |n: &u32| self.words(object, &key_of(message.key, *n), name).is_some();
                (0..cells).filter(|n| !here(n)).count() as u32
            }
        }
    }

    /// One cell more is here: perhaps it was the last one.
    fn count(&mut self, id: RecordId, message: &Message<'_>, name: Name, cells: u32) {
        let known = self.snapshots.0.get(&id).filter(|(of, all, _)| (*of, *all) == (name, cells));
        let missing = match known {
            Some((_, _, missing)) => missing.saturating_sub(1),
            None => self.missing(id, message, name, cells),
        };
        self.snapshots.0.insert(id, (name, cells, missing));
        let record = self.table.get_mut(id);
        if record.role == Role::State {
            (record.role, record.sequence) = (Role::Snapshot, 0);
            self.note(id);
        }
        if missing == 0 {
            self.stats.snapshots += 1;
            let record = self.table.get_mut(id);
            let mut value = record.value().to_vec();
            value[..4].copy_from_slice(&name.grant.to_be_bytes());
            record.put_value(&value);
            record.sequence = name.number;
            self.note(id);
        }
    }

    /// Answers with a cell of the last complete snapshot.
    fn give_back(
        &mut self,
        now: u64,
        from: A,
        message: &Message<'_>,
        (id, key): (RecordId, &[u8]),
        out: &mut Outbox<A>,
    ) {
        let complete = self.complete(id);
        let words = complete.and_then(|name| self.words(message.head.object, key, name));
        let (Some(name), Some(words)) = (complete, words.filter(|w| w.len() == message.value.len())) else {
            self.stats.unknown += 1;
            return self.refuse(from, message, Status::Unknown, out);
        };
        let words = words.to_vec();
        self.stats.given_back += 1;
        let head = crate::message::Head { sequence: name.number, ..message.head };
        let message = Message { head, value: &words, ..*message };
        self.answer_cell(now, from, &message, id, message.head.flags, out);
    }

    fn answer_cell(
        &mut self,
        now: u64,
        to: A,
        message: &Message<'_>,
        id: RecordId,
        flags: Flags,
        out: &mut Outbox<A>,
    ) {
        let mut head = message.head;
        (head.answer, head.flags) = (true, flags);
        head.lease_us = self.extend(now, id, &message.head);
        let answer = Message { head, packet: &[], ..*message };
        out.push(to, |bytes| answer.encode(self.config.secret, bytes));
    }
}
