//! The states of keys in a file, through redb: every batch of changes is one transaction.

use super::error::StoreError;
use crate::metrics::store::DiskStats;
use pointsman_store::{Saved, Store};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use std::path::{Path, PathBuf};

/// Object and key; the rest of the state.
const KEYS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("keys");

/// The version of the rows, and the longest time for which a lease that they show may still hold, in nanoseconds.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");

/// The version of the rows.
const VERSION: u64 = 1;

/// The file of a store.
pub struct Disk {
    path: PathBuf,
    file: Database,
    stats: DiskStats,
}

impl Disk {
    /// Opens the file in this folder, or makes it. From then on no other store has it open.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(dir).map_err(|e| StoreError::Folder(dir.to_path_buf(), e))?;
        let path = dir.join("store.redb");
        let file = Database::create(&path).map_err(|e| match e {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Taken(path.clone()),
            DatabaseError::Storage(redb::StorageError::Io(e))
                if e.kind() != std::io::ErrorKind::InvalidData =>
            {
                StoreError::Disk(path.clone(), e.to_string())
            }
            e => StoreError::Foreign(path.clone(), e.to_string()),
        })?;
        Ok(Disk { path, file, stats: DiskStats::default() })
    }

    /// Loads the store from the file. Leases of this run hold for `hold_ns`. Returns whether the file knows a former run.
    pub fn load<A: Copy + Eq>(
        &self,
        now: u64,
        hold_ns: u64,
        store: &mut Store<A>,
    ) -> Result<bool, StoreError> {
        let held_ns = self.about(hold_ns)?;
        self.rows(now, held_ns.unwrap_or(hold_ns), store)?;
        Ok(held_ns.is_some())
    }

    /// What it has done.
    pub fn stats(&self) -> DiskStats {
        self.stats
    }

    fn foreign(&self) -> impl Fn(String) -> StoreError {
        let path = self.path.clone();
        move |why| StoreError::Foreign(path.clone(), why)
    }

    fn failed(&self) -> impl Fn(redb::Error) -> StoreError {
        let path = self.path.clone();
        move |e| StoreError::Disk(path.clone(), e.to_string())
    }

    /// Checks the version, and notes how long leases hold from now on. Returns how long they may hold that the file knows of.
    fn about(&self, hold_ns: u64) -> Result<Option<u64>, StoreError> {
        let read = || -> Result<(Option<u64>, Option<u64>), redb::Error> {
            let transaction = self.file.begin_read()?;
            let table = match transaction.open_table(ABOUT) {
                Err(TableError::TableDoesNotExist(_)) => return Ok((None, None)),
                table => table?,
            };
            let of = |name| table.get(name).map(|value| value.map(|v| v.value()));
            Ok((of("version")?, of("hold_ns")?))
        };
        let (version, held_ns) = read().map_err(|e| self.foreign()(e.to_string()))?;
        match version {
            None | Some(VERSION) => {}
            Some(other) => return Err(self.foreign()(format!("its version is {other}, not {VERSION}"))),
        }
        // Leases of the former run may hold until now plus `held_ns`, those of this run for `hold_ns`: a third run waits for the longer one.
        let longest = held_ns.unwrap_or(0).max(hold_ns);
        let write = || -> Result<(), redb::Error> {
            let transaction = self.file.begin_write()?;
            transaction.open_table(KEYS)?;
            let mut table = transaction.open_table(ABOUT)?;
            table.insert("version", VERSION)?;
            table.insert("hold_ns", longest)?;
            drop(table);
            Ok(transaction.commit()?)
        };
        write().map_err(self.failed())?;
        Ok(held_ns.map(|_| longest))
    }

    fn rows<A: Copy + Eq>(&self, now: u64, hold_ns: u64, store: &mut Store<A>) -> Result<(), StoreError> {
        let unreadable = self.foreign();
        let wrong = |e: redb::Error| unreadable(e.to_string());
        let transaction = self.file.begin_read().map_err(|e| wrong(e.into()))?;
        let table = transaction.open_table(KEYS).map_err(|e| wrong(e.into()))?;
        for row in table.iter().map_err(|e| wrong(e.into()))? {
            let (key, state) = row.map_err(|e| wrong(e.into()))?;
            let loaded = Saved::decode(key.value(), state.value());
            let loaded = loaded.and_then(|saved| store.load(now, hold_ns, saved));
            loaded.map_err(|e| StoreError::Row(self.path.clone(), e))?;
        }
        Ok(())
    }

    /// Writes the store's changes. When it returns, they survive a loss of power.
    pub fn write<A: Copy + Eq>(&mut self, store: &Store<A>) -> Result<(), StoreError> {
        let mut changes = store.changes().peekable();
        if changes.peek().is_none() {
            return Ok(());
        }
        let write = || -> Result<u64, redb::Error> {
            let transaction = self.file.begin_write()?;
            let mut table = transaction.open_table(KEYS)?;
            let mut rows = 0;
            for saved in changes {
                let (key, state) = saved.encode();
                table.insert(key.as_slice(), state.as_slice())?;
                rows += 1;
            }
            drop(table);
            transaction.commit()?;
            Ok(rows)
        };
        match write() {
            Ok(rows) => {
                self.stats.commits += 1;
                self.stats.rows += rows;
                Ok(())
            }
            Err(e) => {
                self.stats.failures += 1;
                Err(self.failed()(e))
            }
        }
    }
}
