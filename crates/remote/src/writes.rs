//! How cells change: the switch holds the keys before and after, then the cell is written, and the keys are given up when no look-up can have read what was there
//! before.

use crate::layout::WINDOW;
use crate::space::Space;
use crate::table::{Action, Entry, Stashed, Table};
use std::ops::Range;

impl Table {
    pub(crate) fn put_in_stash(&mut self, key: &[u8], entry: Entry, is_change: bool) {
        let number = self.take_number();
        let new = Stashed { entry: None, quiet: None, unconfirmed: 0, open: 0 };
        let stashed = self.stash.entry(key.to_vec()).or_insert(new);
        stashed.entry.clone_from(&entry);
        stashed.unconfirmed += 1;
        // The cache changes before the change is acknowledged, and keeps a deleted key as one without an entry. While the switch has the key in
        // its own table, the cache is not asked.
        if is_change && self.cache.contains(key) {
            self.actions.push_back(Action::Cache(key.to_vec(), entry.clone()));
        }
        self.stashing.insert(number, (key.to_vec(), is_change));
        self.actions.push_back(Action::Stash(number, key.to_vec(), entry));
    }

    /// Moves the entries of a path by one place each, and puts an entry into the first.
    pub(crate) fn shift(&mut self, space: usize, path: &[usize], entry: &[u8]) {
        for pair in path.windows(2).rev() {
            let moved = self.spaces[space].cells.get(pair[0]).map(<[u8]>::to_vec);
            self.plan(space, pair[1], moved.as_deref());
        }
        if let Some(first) = path.first() {
            self.plan(space, *first, Some(entry));
        }
    }

    /// A cell is to hold this.
    pub(crate) fn plan(&mut self, space: usize, place: usize, entry: Option<&[u8]>) {
        let cells = &mut self.spaces[space].cells;
        let before = cells.key(place).map(<[u8]>::to_vec);
        cells.set(place, entry);
        let after = cells.key(place).map(<[u8]>::to_vec);
        if self.loading {
            return;
        }
        if space >= self.looked_up() {
            self.write_now(space, place);
            return;
        }
        let id = (self.spaces[space].first, place);
        match self.dirty.get(&id) {
            // It was to hold `before`, which has not been written.
            Some(_) => before.iter().for_each(|k| self.reopen(k, false)),
            None => {
                before.iter().for_each(|k| self.reopen(k, true));
                self.dirty.insert(id, before);
            }
        }
        after.iter().for_each(|k| self.reopen(k, true));
    }

    pub(crate) fn reopen(&mut self, key: &[u8], open: bool) {
        if let Some(stashed) = self.stash.get_mut(key) {
            if open {
                stashed.open += 1;
            } else {
                stashed.open -= 1;
            }
        }
    }

    /// A place is free: a key that had none takes it, if it is in its window.
    pub(crate) fn settle(&mut self, space: usize, place: usize) {
        let Space { cells, collides, .. } = &self.spaces[space];
        let fits = |key: &&Vec<u8>| (0..WINDOW as usize).contains(&place.wrapping_sub(cells.window(key)));
        let Some(key) = collides.iter().find(fits).cloned() else { return };
        let value = self.get(&key).unwrap_or_default().to_vec();
        self.spaces[space].collides.remove(&key);
        self.plan(space, place, Some(&[&key[..], &value].concat()));
        if space == 0 {
            // What places the entries in other cells may have looked at this place, and does not find the key among those without one.
            self.place(&key, Some(&value));
        }
    }

    /// Writes the cells that may be written: the switch holds the keys before and after.
    pub(crate) fn pump(&mut self, now: u64) {
        let held = |key: &Vec<u8>| self.is_held(key) == Some(true);
        let ready: Vec<_> = self
            .dirty
            .iter()
            .filter(|((id, place), before)| {
                let after = self.space(*id).and_then(|s| s.cells.key(*place)).map(<[u8]>::to_vec);
                before.iter().chain(&after).all(held)
            })
            .map(|(place, _)| *place)
            .collect();
        for (id, place) in ready {
            let before = self.dirty.remove(&(id, place)).flatten();
            let Some(space) = self.space(id) else { continue };
            let keys = [before, space.cells.key(place).map(<[u8]>::to_vec)];
            let (copies, bytes) = space.copies(place);
            for (server, offset) in copies {
                // Writes of their own, for all of which the switch holds the keys. A server that is lost is not asked.
                if !self.lost.contains(&server) {
                    keys.iter().flatten().for_each(|k| self.reopen(k, true));
                    let number = self.write(server, offset, bytes.clone());
                    self.writing.insert(number, (keys.clone(), server));
                }
            }
            for key in keys.iter().flatten() {
                self.reopen(key, false);
                self.hold(now, key);
            }
        }
        self.release_due(now);
    }

    pub(crate) fn write(&mut self, server: usize, offset: u64, bytes: Vec<u8>) -> u64 {
        let number = self.take_number();
        self.actions.push_back(Action::Write(number, server, offset, bytes));
        number
    }

    /// Writes to these servers that are under way.
    pub(crate) fn writes_to(&self, servers: Range<usize>) -> Vec<u64> {
        let to_them = self.writing.iter().filter(|(_, (_, server))| servers.contains(server));
        to_them.map(|(number, _)| *number).collect()
    }

    /// Cells that are not looked up any more need not be written. The switch holds their keys until the look-ups there are over.
    pub(crate) fn forget(&mut self, now: u64, space: &Space) {
        let gone: Vec<_> =
            self.dirty.range((space.first, 0)..=(space.first, usize::MAX)).map(|(p, _)| *p).collect();
        let mut keys: Vec<Vec<u8>> = space.collides.iter().cloned().collect();
        for place in gone {
            let both = self.dirty.remove(&place).flatten().into_iter();
            for key in both.chain(space.cells.key(place.1).map(<[u8]>::to_vec)) {
                self.reopen(&key, false);
                keys.push(key);
            }
        }
        for key in keys {
            self.hold(now, &key);
        }
    }

    /// The switch gives a key up, unless something about it is under way.
    pub(crate) fn release(&mut self, now: u64, key: &[u8]) {
        let over = |s: &Stashed| s.quiet.is_some_and(|quiet| now >= quiet.saturating_add(self.hold_ns));
        let collides = self.spaces.iter().take(self.looked_up()).any(|s| s.collides.contains(key));
        let done = |s: &&Stashed| over(s) && s.open == 0 && s.unconfirmed == 0 && !collides;
        if self.stash.get(key).as_ref().is_some_and(done) {
            self.stash.remove(key);
            self.actions.push_back(Action::Unstash(key.to_vec()));
        }
    }
}
