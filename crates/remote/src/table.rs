//! Changes of a table while packets look entries up.

use crate::cache::Cache;
use crate::cells::Cells;
use crate::error::{ChangeError, LoadError};
use crate::layout::{BUCKET, Layout, Part, Scratchpads, WINDOW};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What the switch answers for a key: a value, or that it has none.
pub type Entry = Option<Vec<u8>>;

/// Settings of a table.
#[derive(Clone, Debug)]
pub struct Config {
    /// Sizes of keys and values.
    pub layout: Layout,
    /// Cells of each server.
    pub cells: Vec<u32>,
    /// Whether each server also has a replica of the cells of the server before it, behind its own.
    pub replicas: bool,
    /// Entries that the switch itself can hold (`TEA_STASH`).
    pub stash: usize,
    /// How long the switch keeps a key after its cells were written, in nanoseconds: the longest time of a look-up (`timeout` of the data plane), and twice
    /// that of a frame on its way.
    pub hold_ns: u64,
    /// Entries of the switch's cache (`TEA_CACHE`); 0: it has none.
    pub cache: usize,
}

/// Something to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The switch shall answer for a key; then [`Table::stashed`] with this number.
    Stash(u64, Vec<u8>, Entry),
    /// The switch shall not answer for a key any more.
    Unstash(Vec<u8>),
    /// The cache shall answer for a key, or answer something else than before.
    Cache(Vec<u8>, Entry),
    /// The cache shall not answer for a key any more.
    Uncache(Vec<u8>),
    /// Bytes are to be written to a server's cells, from this offset on; then [`Table::written`] with this number.
    Write(u64, usize, u64, Vec<u8>),
}

/// A key that the switch answers for.
#[derive(Debug)]
struct Stashed {
    entry: Entry,
    /// The switch has it, and since this time no cell of it was written.
    quiet: Option<u64>,
    /// [`Action::Stash`]es that are under way.
    unconfirmed: u32,
    /// Cells that are to be written or are being written, and hold this key before or after.
    open: u32,
    /// It has no cell, because none was free.
    collides: bool,
}

/// A cell that does not have in memory what it is to hold: the key in memory.
type Dirty = Option<Vec<u8>>;

/// A table whose entries are in servers.
#[derive(Debug)]
pub struct Table {
    cells: Cells,
    replicas: bool,
    cache: Cache,
    capacity: usize,
    hold_ns: u64,
    stash: BTreeMap<Vec<u8>, Stashed>,
    dirty: BTreeMap<usize, Dirty>,
    /// Keys before and after, of the cells that are being written.
    writing: BTreeMap<u64, [Option<Vec<u8>>; 2]>,
    /// Keys of the entries that are on their way to the switch, and whether a change is acknowledged then.
    stashing: BTreeMap<u64, (Vec<u8>, bool)>,
    actions: VecDeque<Action>,
    acknowledged: VecDeque<Vec<u8>>,
    /// Keys by the time when the switch may give them up.
    due: BTreeSet<(u64, Vec<u8>)>,
    number: u64,
    entries: usize,
    /// Memory is not written yet: cells may change at once.
    loading: bool,
}

impl Table {
    /// An empty table. Its servers' memory must be written first ([`Table::images`]).
    ///
    /// # Errors
    /// The servers' cells are not possible, or one server is to have a replica of itself.
    pub fn new(config: Config) -> Result<Self, crate::LayoutError> {
        let parts = Part::divide(&config.cells)?;
        if config.replicas && parts.len() < 2 {
            return Err(crate::LayoutError::Replica);
        }
        let Layout { key, value, scratchpads } = config.layout;
        let layout = Layout::new(key, value, scratchpads)?;
        let broken = parts.iter().map(|p| p.cells).find(|n| !n.is_multiple_of(BUCKET));
        if let Some(n) = broken.filter(|_| scratchpads == Scratchpads::Inline) {
            return Err(crate::LayoutError::Rows(n));
        }
        Ok(Table {
            cells: Cells::new(layout, parts),
            replicas: config.replicas,
            cache: Cache::new(config.cache),
            capacity: config.stash,
            hold_ns: config.hold_ns,
            stash: BTreeMap::new(),
            dirty: BTreeMap::new(),
            writing: BTreeMap::new(),
            stashing: BTreeMap::new(),
            actions: VecDeque::new(),
            acknowledged: VecDeque::new(),
            due: BTreeSet::new(),
            number: 0,
            entries: 0,
            loading: false,
        })
    }

    /// The servers' shares.
    pub fn parts(&self) -> &[Part] {
        self.cells.parts()
    }

    /// The server with the replica of a part, and where it begins in this server's cells.
    pub fn replica(&self, part: usize) -> Option<(usize, u64)> {
        let parts = self.cells.parts();
        let server = (part + 1) % parts.len();
        self.replicas.then(|| (server, self.cells.layout.region_bytes(parts[server].cells)))
    }

    /// Bytes of a server's cells, its replica of another one's included.
    pub fn server_bytes(&self, server: usize) -> u64 {
        let parts = self.cells.parts();
        let of = |part: usize| self.cells.layout.region_bytes(parts[part].cells);
        of(server) + if self.replicas { of(self.copied(server)) } else { 0 }
    }

    /// The part that a server has a replica of.
    fn copied(&self, server: usize) -> usize {
        let parts = self.cells.parts().len();
        (server + parts - 1) % parts
    }

    /// Entries.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Entries for which no cell was free: the switch holds them.
    pub fn collisions(&self) -> usize {
        self.stash.values().filter(|s| s.collides).count()
    }

    /// Keys that the switch answers for now.
    pub fn stash(&self) -> usize {
        self.stash.len()
    }

    /// Where a key's window begins, in the order of the servers' memory.
    pub fn window(&self, key: &[u8]) -> usize {
        self.cells.window(key)
    }

    /// The value of a key, as of the latest change.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        match self.stash.get(key) {
            Some(stashed) => stashed.entry.as_deref(),
            None => self.cells.find(key).and_then(|at| self.cells.get(at)).map(|b| &b[key.len()..]),
        }
    }

    /// Fills an empty table, before its memory is written. Entries without a free cell go to the switch.
    ///
    /// # Errors
    /// The table has entries; an entry is wrong, or one too many for the switch. The entries before it are there.
    pub fn load<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), LoadError> {
        if self.entries > 0 || !self.stash.is_empty() || !self.dirty.is_empty() {
            return Err(LoadError::NotEmpty);
        }
        for (n, (key, value)) in entries.into_iter().enumerate() {
            self.check(key, Some(value)).map_err(|e| LoadError::Entry(n, e))?;
            if self.get(key).is_some() {
                return Err(LoadError::Twice(n));
            }
            match self.cells.path(self.cells.window(key)) {
                Some(path) => {
                    self.loading = true;
                    self.shift(&path, &[key, value].concat());
                    self.loading = false;
                }
                None if self.stash.len() < self.capacity => {
                    self.put_in_stash(key, Some(value.to_vec()), false);
                    self.set_collides(key, true);
                }
                None => return Err(LoadError::Entry(n, ChangeError::Full)),
            }
            self.entries += 1;
        }
        Ok(())
    }

    /// The bytes of a server's cells in pieces of up to `cells` of them, or of one row without its scratchpad, each with its offset; its replica of another
    /// one's cells follows.
    pub fn images(&self, server: usize, cells: u32) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let replica = self.replicas.then(|| {
            let own = self.cells.layout.region_bytes(self.cells.parts()[server].cells);
            self.image(self.copied(server), own, cells)
        });
        self.image(server, 0, cells).chain(replica.into_iter().flatten())
    }

    fn image(&self, part: usize, start: u64, cells: u32) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let (layout, range) = (self.cells.layout, self.cells.parts()[part]);
        let first = range.start as usize + part * (WINDOW as usize - 1);
        // A row's cells are eight consecutive ones, of which the next row has four, too.
        let (all, step, piece) = match layout.scratchpads {
            Scratchpads::Ring => (range.cells + WINDOW - 1, cells.max(1), cells.max(1)),
            Scratchpads::Inline => (range.cells, BUCKET, WINDOW),
        };
        (0..all).step_by(step as usize).map(move |number| {
            let mut bytes = Vec::new();
            for n in number..(number + piece).min(range.cells + WINDOW - 1) {
                layout.encode(range.start + n, self.cells.get(first + n as usize), &mut bytes);
            }
            (start + layout.offsets(number, range.cells).next().unwrap_or(0), bytes)
        })
    }

    /// Adds an entry or changes its value. It is acknowledged ([`Table::take_acknowledged`]) when every look-up that begins from then on sees it.
    ///
    /// # Errors
    /// The entry does not fit, or the switch has no room now.
    pub fn put(&mut self, now: u64, key: &[u8], value: &[u8]) -> Result<(), ChangeError> {
        self.check(key, Some(value))?;
        let entry = [key, value].concat();
        let path = match self.cells.find(key) {
            Some(place) => Some(vec![place]),
            None => self.cells.path(self.cells.window(key)),
        };
        let path = path.unwrap_or_default();
        let moved: Vec<Vec<u8>> =
            path.iter().filter_map(|at| self.cells.key(*at).map(<[u8]>::to_vec)).collect();
        let new = moved.iter().filter(|k| *k != key && !self.stash.contains_key(*k)).count();
        if self.stash.len() + new + usize::from(!self.stash.contains_key(key)) > self.capacity {
            return Err(ChangeError::Full);
        }
        self.entries += usize::from(self.get(key).is_none());
        for other in moved.iter().filter(|k| *k != key) {
            if !self.stash.contains_key(other) {
                let value = self.get(other).map(<[u8]>::to_vec);
                self.put_in_stash(other, value, false);
            }
        }
        self.put_in_stash(key, Some(value.to_vec()), true);
        self.set_collides(key, path.is_empty());
        self.shift(&path, &entry);
        self.pump(now);
        Ok(())
    }

    /// Removes an entry. It is acknowledged when every look-up that begins from then on finds the key absent.
    ///
    /// # Errors
    /// There is no such entry, or the switch has no room now.
    pub fn delete(&mut self, now: u64, key: &[u8]) -> Result<(), ChangeError> {
        self.check(key, None)?;
        if self.get(key).is_none() {
            return Err(ChangeError::Unknown);
        }
        if self.stash.len() + usize::from(!self.stash.contains_key(key)) > self.capacity {
            return Err(ChangeError::Full);
        }
        self.entries -= 1;
        self.put_in_stash(key, None, true);
        self.set_collides(key, false);
        if let Some(place) = self.cells.find(key) {
            self.plan(place, None);
            self.settle(place);
        }
        self.pump(now);
        Ok(())
    }

    /// The data plane reports that a key is asked for often (the digest `tea_hot_t`).
    pub fn popular(&mut self, key: &[u8]) {
        if self.check(key, None).is_err() {
            return;
        }
        let Some(evicted) = self.cache.admit(key) else { return };
        self.actions.extend(evicted.map(Action::Uncache));
        self.actions.push_back(Action::Cache(key.to_vec(), self.get(key).map(<[u8]>::to_vec)));
    }

    /// Takes the cache's counters (`tea_hits`), once in an age of the sketch: from how many packets in an age on a key is to be reported (`tea_hot`).
    pub fn cache_hits<'a>(&mut self, hits: impl IntoIterator<Item = (&'a [u8], u64)>) -> u16 {
        self.cache.hits(hits)
    }

    /// Entries that the cache has.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// What is to be done next.
    pub fn take_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The key of a change that is acknowledged, in the order of the changes.
    pub fn take_acknowledged(&mut self) -> Option<Vec<u8>> {
        self.acknowledged.pop_front()
    }

    /// The switch answers for the key of [`Action::Stash`].
    pub fn stashed(&mut self, now: u64, number: u64) {
        let Some((key, is_change)) = self.stashing.remove(&number) else { return };
        if let Some(stashed) = self.stash.get_mut(&key) {
            stashed.unconfirmed -= 1;
            let quiet = *stashed.quiet.get_or_insert(now);
            self.due.insert((quiet.saturating_add(self.hold_ns), key.clone()));
        }
        if is_change {
            self.acknowledged.push_back(key);
        }
        self.pump(now);
    }

    /// The bytes of [`Action::Write`] are in memory.
    pub fn written(&mut self, now: u64, number: u64) {
        let Some(keys) = self.writing.remove(&number) else { return };
        for key in keys.into_iter().flatten() {
            self.reopen(&key, false);
            if let Some(stashed) = self.stash.get_mut(&key) {
                stashed.quiet = Some(now);
                self.due.insert((now.saturating_add(self.hold_ns), key));
            }
        }
        self.pump(now);
    }

    /// When [`Table::wake`] is due.
    pub fn deadline(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Lets the switch give up keys that it held for long enough.
    pub fn wake(&mut self, now: u64) {
        while let Some((at, key)) = self.due.first().cloned().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, key.clone()));
            self.release(now, &key);
        }
    }

    fn check(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), ChangeError> {
        let layout = self.cells.layout;
        if key.len() != layout.key {
            return Err(ChangeError::Key(key.len()));
        }
        match value.map(<[u8]>::len).filter(|n| *n != layout.value) {
            Some(n) => Err(ChangeError::Value(n)),
            None => Ok(()),
        }
    }

    fn set_collides(&mut self, key: &[u8], collides: bool) {
        if let Some(stashed) = self.stash.get_mut(key) {
            stashed.collides = collides;
        }
    }

    fn put_in_stash(&mut self, key: &[u8], entry: Entry, is_change: bool) {
        let number = self.number;
        self.number += 1;
        let new = Stashed { entry: None, quiet: None, unconfirmed: 0, open: 0, collides: false };
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
    fn shift(&mut self, path: &[usize], entry: &[u8]) {
        for pair in path.windows(2).rev() {
            let moved = self.cells.get(pair[0]).map(<[u8]>::to_vec);
            self.plan(pair[1], moved.as_deref());
        }
        if let Some(first) = path.first() {
            self.plan(*first, Some(entry));
        }
    }

    /// A cell is to hold this.
    fn plan(&mut self, place: usize, entry: Option<&[u8]>) {
        let before = self.cells.key(place).map(<[u8]>::to_vec);
        self.cells.set(place, entry);
        let after = self.cells.key(place).map(<[u8]>::to_vec);
        if self.loading {
            return;
        }
        match self.dirty.get(&place) {
            // It was to hold `before`, which has not been written.
            Some(_) => before.iter().for_each(|k| self.reopen(k, false)),
            None => {
                before.iter().for_each(|k| self.reopen(k, true));
                self.dirty.insert(place, before);
            }
        }
        after.iter().for_each(|k| self.reopen(k, true));
    }

    fn reopen(&mut self, key: &[u8], open: bool) {
        if let Some(stashed) = self.stash.get_mut(key) {
            if open {
                stashed.open += 1;
            } else {
                stashed.open -= 1;
            }
        }
    }

    /// A place is free: a key that had none takes it, if it is in its window.
    fn settle(&mut self, place: usize) {
        let fits =
            |key: &&Vec<u8>| (0..WINDOW as usize).contains(&place.wrapping_sub(self.cells.window(key)));
        let waiting = self.stash.iter().filter(|(_, s)| s.collides).map(|(k, _)| k);
        let Some(key) = waiting.filter(|k| fits(k)).min().cloned() else { return };
        if let Some(stashed) = self.stash.get_mut(&key) {
            stashed.collides = false;
            let entry = [key, stashed.entry.clone().unwrap_or_default()].concat();
            self.plan(place, Some(&entry));
        }
    }

    /// Writes the cells that may be written: the switch holds the keys before and after.
    fn pump(&mut self, now: u64) {
        let held = |key: &Vec<u8>| self.stash.get(key).is_some_and(|s| s.quiet.is_some());
        let ready: Vec<usize> = self
            .dirty
            .iter()
            .filter(|(place, before)| {
                let after = self.cells.key(**place).map(<[u8]>::to_vec);
                before.iter().chain(&after).all(held)
            })
            .map(|(place, _)| *place)
            .collect();
        for place in ready {
            let before = self.dirty.remove(&place).flatten();
            let after = self.cells.key(place).map(<[u8]>::to_vec);
            let (server, index, number) = self.cells.locate(place);
            let mut bytes = Vec::new();
            self.cells.layout.encode(index, self.cells.get(place), &mut bytes);
            let keys = [before, after];
            let copies = [self.replica(server), Some((server, 0))];
            let cells = self.cells.parts()[server].cells;
            for (at, start) in copies.into_iter().flatten() {
                for offset in self.cells.layout.offsets(number, cells) {
                    // Writes of their own, for all of which the switch holds the keys.
                    keys.iter().flatten().for_each(|k| self.reopen(k, true));
                    self.write(keys.clone(), at, start + offset, bytes.clone());
                }
            }
            keys.iter().flatten().for_each(|k| self.reopen(k, false));
        }
        self.wake(now);
    }

    fn write(&mut self, keys: [Option<Vec<u8>>; 2], server: usize, offset: u64, bytes: Vec<u8>) {
        self.writing.insert(self.number, keys);
        self.actions.push_back(Action::Write(self.number, server, offset, bytes));
        self.number += 1;
    }

    /// The switch gives a key up, unless something about it is under way.
    fn release(&mut self, now: u64, key: &[u8]) {
        let over = |s: &Stashed| s.quiet.is_some_and(|quiet| now >= quiet.saturating_add(self.hold_ns));
        let done = |s: &&Stashed| over(s) && s.open == 0 && s.unconfirmed == 0 && !s.collides;
        if self.stash.get(key).as_ref().is_some_and(done) {
            self.stash.remove(key);
            self.actions.push_back(Action::Unstash(key.to_vec()));
        }
    }
}
