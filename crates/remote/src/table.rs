//! Changes of a table while packets look entries up.

use crate::cache::Cache;
use crate::error::{ChangeError, LoadError, ResizeError};
use crate::layout::{Layout, Part};
use crate::resize::Moving;
use crate::space::Space;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

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
    /// Look-ups shall use other cells from now on: the number of the first one, and how many (`tea_config`); then [`Table::switched`] with this number.
    Switch(u64, u32, u32),
    /// These servers are not used any more: their queue pairs can end, and their memory be used again. With the reason if the table stays where it was.
    Retire(Range<usize>, Result<(), ResizeError>),
}

/// A key that the switch answers for.
#[derive(Debug)]
pub(crate) struct Stashed {
    pub(crate) entry: Entry,
    /// The switch has it, and since this time no cell of it was written.
    pub(crate) quiet: Option<u64>,
    /// [`Action::Stash`]es that are under way.
    pub(crate) unconfirmed: u32,
    /// Cells that are to be written or are being written, and hold this key before or after.
    pub(crate) open: u32,
}

/// A cell: the first server of its cells, and the place there.
pub(crate) type Place = (usize, usize);

/// A cell that does not have in memory what it is to hold: the key in memory.
pub(crate) type Dirty = Option<Vec<u8>>;

/// Keys that a cell has before and after a WRITE.
pub(crate) type Keys = [Option<Vec<u8>>; 2];

/// A table whose entries are in servers.
#[derive(Debug)]
pub struct Table {
    /// The cells that are looked up. While the table moves, the next ones are behind them.
    pub(crate) spaces: Vec<Space>,
    pub(crate) moving: Option<Moving>,
    /// Servers that look-ups may still use until this time, and those that were lost.
    pub(crate) retiring: Option<(u64, Range<usize>)>,
    pub(crate) lost: BTreeSet<usize>,
    pub(crate) cache: Cache,
    pub(crate) capacity: usize,
    pub(crate) hold_ns: u64,
    pub(crate) stash: BTreeMap<Vec<u8>, Stashed>,
    pub(crate) dirty: BTreeMap<Place, Dirty>,
    /// Keys before and after, of the cells that are being written, and the server.
    pub(crate) writing: BTreeMap<u64, (Keys, usize)>,
    /// Keys of the entries that are on their way to the switch, and whether a change is acknowledged then.
    pub(crate) stashing: BTreeMap<u64, (Vec<u8>, bool)>,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) acknowledged: VecDeque<Vec<u8>>,
    /// Keys by the time when the switch may give them up.
    pub(crate) due: BTreeSet<(u64, Vec<u8>)>,
    pub(crate) number: u64,
    pub(crate) entries: usize,
    /// Memory is not written yet: cells may change at once.
    pub(crate) loading: bool,
}

impl Table {
    /// An empty table. Its servers' memory must be written first ([`Table::images`]).
    ///
    /// # Errors
    /// The servers' cells are not possible, or one server is to have a replica of itself.
    pub fn new(config: Config) -> Result<Self, crate::LayoutError> {
        Ok(Table {
            spaces: vec![Space::new(config.layout, (0, 0), &config.cells, config.replicas)?],
            moving: None,
            retiring: None,
            lost: BTreeSet::new(),
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

    /// The shares of the servers that look-ups use.
    pub fn parts(&self) -> &[Part] {
        self.spaces[0].cells.parts()
    }

    /// The numbers of these servers. A table begins with 0; servers that it gets later have higher ones.
    pub fn servers(&self) -> Range<usize> {
        self.spaces[0].servers()
    }

    /// The cells with a server's part.
    pub(crate) fn space(&self, server: usize) -> Option<&Space> {
        self.spaces.iter().find(|s| s.servers().contains(&server))
    }

    /// A server's share, also of the servers that the table is moving to.
    pub fn part(&self, server: usize) -> Option<Part> {
        self.space(server).map(|s| s.part(server))
    }

    /// The server with the replica of a server's part, and where it begins in this server's cells.
    pub fn replica(&self, server: usize) -> Option<(usize, u64)> {
        self.space(server).and_then(|s| s.replica(server))
    }

    /// Bytes of a server's cells, its replica of another one's included.
    pub fn server_bytes(&self, server: usize) -> u64 {
        self.space(server).map_or(0, |s| s.server_bytes(server))
    }

    /// Entries.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Entries for which no cell was free: the switch holds them.
    pub fn collisions(&self) -> usize {
        self.spaces[0].collides.len()
    }

    /// Keys that the switch answers for now.
    pub fn stash(&self) -> usize {
        self.stash.len()
    }

    /// Where a key's window begins, in the order of the servers' memory.
    pub fn window(&self, key: &[u8]) -> usize {
        self.spaces[0].cells.window(key)
    }

    /// The value of a key, as of the latest change.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let cells = &self.spaces[0].cells;
        match self.stash.get(key) {
            Some(stashed) => stashed.entry.as_deref(),
            None => cells.find(key).and_then(|at| cells.get(at)).map(|b| &b[key.len()..]),
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
        if self.entries > 0 || !self.stash.is_empty() || !self.dirty.is_empty() || self.moving.is_some() {
            return Err(LoadError::NotEmpty);
        }
        for (n, (key, value)) in entries.into_iter().enumerate() {
            self.check(key, Some(value)).map_err(|e| LoadError::Entry(n, e))?;
            if self.get(key).is_some() {
                return Err(LoadError::Twice(n));
            }
            let path = self.spaces[0].path(key);
            if !path.is_empty() {
                self.loading = true;
                self.shift(0, &path, &[key, value].concat());
                self.loading = false;
            } else if self.stash.len() < self.capacity {
                self.put_in_stash(key, Some(value.to_vec()), false);
                self.spaces[0].collides.insert(key.to_vec());
            } else {
                return Err(LoadError::Entry(n, ChangeError::Full));
            }
            self.entries += 1;
        }
        Ok(())
    }

    /// The bytes of a server's cells in pieces of up to `cells` of them, or of one row without its scratchpad, each with its offset; its replica of another
    /// one's cells follows.
    pub fn images(&self, server: usize, cells: u32) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let space = self.space(server);
        (0..).map_while(move |n| space.and_then(|s| s.piece(server, n, cells)))
    }

    /// Adds an entry or changes its value. It is acknowledged ([`Table::take_acknowledged`]) when every look-up that begins from then on sees it.
    ///
    /// # Errors
    /// The entry does not fit, or the switch has no room now.
    pub fn put(&mut self, now: u64, key: &[u8], value: &[u8]) -> Result<(), ChangeError> {
        self.check(key, Some(value))?;
        let entry = [key, value].concat();
        let paths: Vec<_> = self.spaces.iter().map(|s| s.path(key)).collect();
        // The switch holds the keys that move in cells that are looked up.
        let read = self.spaces.iter().zip(&paths).take(self.looked_up());
        let moved: BTreeSet<_> = read.flat_map(|(space, path)| space.moved(path, key)).collect();
        let new = moved.iter().filter(|k| !self.stash.contains_key(*k)).count();
        if self.stash.len() + new + usize::from(!self.stash.contains_key(key)) > self.capacity {
            return Err(ChangeError::Full);
        }
        self.entries += usize::from(self.get(key).is_none());
        for other in &moved {
            let value = self.get(other).map(<[u8]>::to_vec);
            if !self.stash.contains_key(other) {
                self.put_in_stash(other, value.clone(), false);
            }
            // An entry that moves is not missed by what places the entries in other cells one after the other.
            self.place(other, value.as_deref());
        }
        self.put_in_stash(key, Some(value.to_vec()), true);
        for space in 0..self.spaces.len() {
            // The next cells may have changed.
            let path = if space == 0 { paths[0].clone() } else { self.spaces[space].path(key) };
            self.put_in(space, &path, &entry);
        }
        self.pump(now);
        Ok(())
    }

    /// Puts an entry into cells, along a path. An empty path means that no cell is free.
    pub(crate) fn put_in(&mut self, space: usize, path: &[usize], entry: &[u8]) {
        let key = &entry[..self.spaces[0].cells.layout.key];
        if path.is_empty() {
            self.spaces[space].collides.insert(key.to_vec());
        } else {
            self.spaces[space].collides.remove(key);
        }
        self.shift(space, path, entry);
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
        for space in 0..self.spaces.len() {
            self.spaces[space].collides.remove(key);
            if let Some(place) = self.spaces[space].cells.find(key) {
                self.plan(space, place, None);
                self.settle(space, place);
            }
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
        if self.waits() {
            self.advance(now);
        }
    }

    /// The bytes of [`Action::Write`] are in memory.
    pub fn written(&mut self, now: u64, number: u64) {
        if let Some((keys, _)) = self.writing.remove(&number) {
            for key in keys.iter().flatten() {
                self.reopen(key, false);
                self.hold(now, key);
            }
            self.pump(now);
        }
        self.filled(now, number);
    }

    /// The switch holds a key from now on for as long as a look-up takes.
    pub(crate) fn hold(&mut self, now: u64, key: &[u8]) {
        if let Some(stashed) = self.stash.get_mut(key) {
            stashed.quiet = stashed.quiet.map(|_| now);
            self.due.insert((now.saturating_add(self.hold_ns), key.to_vec()));
        }
    }

    /// When [`Table::wake`] is due.
    pub fn deadline(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at).into_iter().chain(self.moves_at()).min()
    }

    /// Lets the switch give up keys that it held for long enough, and continues the move to other cells.
    pub fn wake(&mut self, now: u64) {
        self.retire(now);
        self.advance(now);
        self.release_due(now);
    }

    pub(crate) fn release_due(&mut self, now: u64) {
        while let Some((at, key)) = self.due.first().cloned().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, key.clone()));
            self.release(now, &key);
        }
    }

    fn check(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), ChangeError> {
        let layout = self.spaces[0].cells.layout;
        if key.len() != layout.key {
            return Err(ChangeError::Key(key.len()));
        }
        match value.map(<[u8]>::len).filter(|n| *n != layout.value) {
            Some(n) => Err(ChangeError::Value(n)),
            None => Ok(()),
        }
    }

    /// Places for keys that the switch has left.
    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.stash.len())
    }

    /// Whether the switch answers for a key, and has said so.
    pub(crate) fn is_held(&self, key: &[u8]) -> Option<bool> {
        self.stash.get(key).map(|s| s.quiet.is_some())
    }

    pub(crate) fn take_number(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }
}
