//! All keys with one prefix, as they were at one revision, and followed from there.

use crate::messages::{Change, Entry};
use std::collections::BTreeMap;

/// How far a view is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The keys must be read.
    Unread,
    /// They are known up to a revision; a watch has to be opened.
    Read,
    /// A watch with this number, at this endpoint, brings what follows.
    Watching { watch: u64, endpoint: usize },
}

/// The keys with one prefix. After a lost connection or a compaction it is read again: so it is right even if the store was
/// replaced by another one.
#[derive(Debug)]
pub struct View {
    phase: Phase,
    entries: BTreeMap<String, Entry>,
    revision: i64,
    next_watch: u64,
}

impl Default for View {
    fn default() -> Self {
        View { phase: Phase::Unread, entries: BTreeMap::new(), revision: 0, next_watch: 1 }
    }
}

impl View {
    /// Whether the keys have to be read. The entries are the last known ones.
    pub fn must_read(&self) -> bool {
        self.phase == Phase::Unread
    }

    /// Whether changes arrive.
    pub fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watching { .. })
    }

    /// The keys with their values, as far as known.
    pub fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// One of them.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The keys were read.
    pub fn read(&mut self, revision: i64, entries: Vec<Entry>) {
        self.revision = revision;
        self.entries = entries.into_iter().map(|e| (e.key.clone(), e)).collect();
        self.phase = Phase::Read;
    }

    /// If a watch has to be opened: its number, and the revision from which it starts.
    pub fn open(&mut self, endpoint: usize) -> Option<(u64, i64)> {
        if self.phase != Phase::Read {
            return None;
        }
        let watch = self.next_watch;
        self.next_watch += 1;
        self.phase = Phase::Watching { watch, endpoint };
        Some((watch, self.revision + 1))
    }

    /// Whether this is the open watch; messages of older ones do not count.
    pub fn is_open(&self, watch: u64) -> bool {
        matches!(self.phase, Phase::Watching { watch: own, .. } if own == watch)
    }

    /// The endpoint of the open watch.
    pub fn endpoint(&self) -> Option<usize> {
        match self.phase {
            Phase::Watching { endpoint, .. } => Some(endpoint),
            Phase::Unread | Phase::Read => None,
        }
    }

    /// Changes from the open watch, in order.
    pub fn changed(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Put(entry) => {
                    self.revision = entry.modified;
                    self.entries.insert(entry.key.clone(), entry);
                }
                Change::Deleted { key, revision } => {
                    self.revision = revision;
                    self.entries.remove(&key);
                }
            }
        }
    }

    /// The watch has ended, or the connection is lost: the keys have to be read.
    pub fn lost(&mut self) {
        self.phase = Phase::Unread;
    }
}
