//! The states of keys in a file, through redb: every batch of changes is one transaction.

use super::error::StoreError;
use crate::metrics::store::DiskStats;
use pointsman_store::{Saved, Store};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Object and key; the rest of the state.
const KEYS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("keys");

/// The version of the rows, the longest time for which a lease that they show may still hold, in nanoseconds, and the highest grant of
/// removed keys.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");

/// The version of the rows.
const VERSION: u64 = 1;

/// The file of a store.
pub struct Disk {
    path: PathBuf,
    /// `None` after an error: it must be opened again.
    file: Option<Database>,
    /// The file is new: the time for which leases hold, to be written with the first grant.
    first: Option<u64>,
    stats: DiskStats,
}

fn open(path: &Path) -> Result<Database, StoreError> {
    let place = || path.to_path_buf();
    let is_empty = || std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() == 0);
    // One that was made here has content from the start: it was cut off.
    if is_empty() {
        let why = "it is empty; if the store is new, remove it".to_string();
        return Err(StoreError::Foreign(place(), why));
    }
    Database::create(path).map_err(|e| {
        if is_empty() {
            // There was no room for a new one. If this fails, the next start says so.
            let _ = std::fs::remove_file(path);
        }
        match e {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Taken(place()),
            DatabaseError::Storage(redb::StorageError::Io(e)) if e.kind() != ErrorKind::InvalidData => {
                StoreError::Disk(place(), e.to_string())
            }
            e => StoreError::Foreign(place(), e.to_string()),
        }
    })
}

/// The version in the file, how long leases may hold that it knows of, and the highest grant of removed keys.
fn about(file: &Database) -> Result<[Option<u64>; 3], redb::Error> {
    let transaction = file.begin_read()?;
    let table = match transaction.open_table(ABOUT) {
        Err(TableError::TableDoesNotExist(_)) => return Ok([None; 3]),
        table => table?,
    };
    let of = |name| table.get(name).map(|value| value.map(|v| v.value()));
    Ok([of("version")?, of("hold_ns")?, of("last_grant")?])
}

fn set_about(file: &Database, hold_ns: Option<u64>) -> Result<(), redb::Error> {
    let transaction = file.begin_write()?;
    transaction.open_table(KEYS)?;
    let mut table = transaction.open_table(ABOUT)?;
    table.insert("version", VERSION)?;
    if let Some(hold_ns) = hold_ns {
        table.insert("hold_ns", hold_ns)?;
    }
    drop(table);
    Ok(transaction.commit()?)
}

/// Writes the store's changes, and returns the number of rows.
fn write_rows<A: Copy + Eq>(
    file: &Database,
    store: &Store<A>,
    hold_ns: Option<u64>,
) -> Result<u64, redb::Error> {
    let transaction = file.begin_write()?;
    if let Some(hold_ns) = hold_ns {
        transaction.open_table(ABOUT)?.insert("hold_ns", hold_ns)?;
    }
    let mut table = transaction.open_table(KEYS)?;
    let mut rows = 0;
    for key in store.removed() {
        table.remove(key)?;
        rows += 1;
    }
    if rows > 0 {
        transaction.open_table(ABOUT)?.insert("last_grant", u64::from(store.last_grant()))?;
    }
    for saved in store.changes() {
        let (key, state) = saved.encode();
        table.insert(key.as_slice(), state.as_slice())?;
        rows += 1;
    }
    drop(table);
    transaction.commit()?;
    Ok(rows)
}

impl Disk {
    /// Opens the file in this folder, or makes it. From then on no other store has it open.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(dir).map_err(|e| StoreError::Folder(dir.to_path_buf(), e))?;
        let path = dir.join("store.redb");
        Ok(Disk { file: Some(open(&path)?), path, first: None, stats: DiskStats::default() })
    }

    /// What it has done.
    pub fn stats(&self) -> DiskStats {
        self.stats
    }

    /// Loads the store from the file. Leases of this run hold for `hold_ns`. Returns whether the file knows a former run.
    pub fn load<A: Copy + Eq>(
        &mut self,
        now: u64,
        hold_ns: u64,
        store: &mut Store<A>,
    ) -> Result<bool, StoreError> {
        let Some(file) = &self.file else { return Ok(false) };
        let foreign = |why: String| StoreError::Foreign(self.path.clone(), why);
        let [version, held_ns, last_grant] = about(file).map_err(|e| foreign(e.to_string()))?;
        match version {
            None | Some(VERSION) => {}
            Some(other) => return Err(foreign(format!("its version is {other}, not {VERSION}"))),
        }
        // Leases of the former run may hold until now plus `held_ns`, those of this run for `hold_ns`: a third run waits for the longer one.
        let longest = held_ns.unwrap_or(0).max(hold_ns);
        // A new file says nothing of that before the first grant. If this run ends earlier, the next one has to hold back as well.
        self.first = held_ns.is_none().then_some(longest);
        set_about(file, held_ns.map(|_| longest))
            .map_err(|e| StoreError::Disk(self.path.clone(), e.to_string()))?;
        store.continue_grants(last_grant.unwrap_or(0) as u32);
        self.rows(file, now, longest, store)?;
        Ok(held_ns.is_some())
    }

    fn rows<A: Copy + Eq>(
        &self,
        file: &Database,
        now: u64,
        hold_ns: u64,
        store: &mut Store<A>,
    ) -> Result<(), StoreError> {
        let wrong = |e: redb::Error| StoreError::Foreign(self.path.clone(), e.to_string());
        let transaction = file.begin_read().map_err(|e| wrong(e.into()))?;
        let table = transaction.open_table(KEYS).map_err(|e| wrong(e.into()))?;
        for row in table.iter().map_err(|e| wrong(e.into()))? {
            let (key, state) = row.map_err(|e| wrong(e.into()))?;
            let loaded = Saved::decode(key.value(), state.value());
            let loaded = loaded.and_then(|saved| store.load(now, hold_ns, saved));
            loaded.map_err(|e| StoreError::Row(self.path.clone(), e))?;
        }
        Ok(())
    }

    /// Writes the store's changes. When it returns, they survive a loss of power. After an error the file is opened again by the next call.
    pub fn write<A: Copy + Eq>(&mut self, now: u64, store: &Store<A>) -> Result<(), StoreError> {
        if store.changes().next().is_none() && store.removed().next().is_none() {
            return Ok(());
        }
        let first = self.first.filter(|_| !store.holds_back(now));
        let written = match self.file.take().map_or_else(|| open(&self.path), Ok) {
            Ok(file) => match write_rows(&file, store, first) {
                Ok(rows) => {
                    self.file = Some(file);
                    self.first = self.first.filter(|_| first.is_none());
                    Ok(rows)
                }
                Err(e) => Err(StoreError::Disk(self.path.clone(), e.to_string())),
            },
            Err(e) => Err(e),
        };
        match written {
            Ok(rows) => {
                self.stats.commits += 1;
                self.stats.rows += rows;
                Ok(())
            }
            Err(e) => {
                self.stats.failures += 1;
                Err(e)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shared::tests::request;
    use pointsman_store::{Config, Flags, Outbox};

    /// A first run that ends before it has granted anything leaves the next one to hold back as well.
    #[test]
    fn a_file_tells_of_a_former_run_once_it_has_granted() {
        let dir = std::env::temp_dir().join(format!("pointsman-disk-{}", std::process::id()));
        let config = Config { durable: true, ..Config::default() };
        let (hold, mut out) = (config.hold_ns(), Outbox::default());
        let run = |now: u64, flags: Flags, out: &mut Outbox<u8>| {
            let mut store = Store::new(config.clone()).expect("settings");
            let mut disk = Disk::open(&dir).expect("a folder");
            let known = disk.load(0, hold, &mut store).expect("a file");
            if !known {
                store.hold_back(0);
            }
            store.receive(now, 1, &request(flags, config.secret), out);
            disk.write(now, &store).expect("a disk");
            (known, store.keys())
        };
        let fixed = Flags { fixed: true, ..Flags::default() };
        assert_eq!(run(hold - 1, Flags::default(), &mut out), (false, 0), "held back");
        // Fixed keys, which have no owner, are given all the time.
        assert_eq!(run(hold - 1, fixed, &mut out), (false, 1));
        assert_eq!(run(hold, fixed, &mut out), (false, 1));
        assert_eq!(run(0, fixed, &mut out), (true, 1));
        std::fs::remove_dir_all(&dir).expect("it was made here");
    }
}
