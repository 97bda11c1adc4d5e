//! The records of all keys, in memory: an index that never grows, because it has room for all keys from the start.

use crate::pool::{FIXED, Side};
use pointsman_wire::siphash::half_sip_hash;
use std::collections::BTreeMap;

/// The number of a record.
pub(crate) type RecordId = u32;

/// The owner of a key: a switch, its incarnation, and the generation of the place that the key has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The switch's number.
    pub switch: u16,
    /// The start of the switch.
    pub incarnation: u32,
    /// How often the place gave up its state since then.
    pub generation: u32,
}

/// A switch that has a shared lease on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reader {
    /// The switch, and under which generation it asked.
    pub owner: Owner,
    /// The number of its own grant.
    pub grant: u32,
    /// Until when the key is not granted to a switch that writes, in nanoseconds.
    pub until: u64,
}

/// What a record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A key's state.
    #[default]
    State,
    /// A key whose state is replicated by snapshots. The sequence number is that of the last complete one, 0: none. The first word of the value is the
    /// grant under which that one was made.
    Snapshot,
    /// A cell of a snapshot: two versions.
    Cell,
    /// A fixed key: its value does not change under a grant, and it has no owner.
    Fixed,
}

/// A key's state.
#[derive(Debug)]
pub(crate) struct Record {
    /// Key and value.
    cell: Box<[u8]>,
    key_bytes: u8,
    /// Requests of others wait for the end of the lease.
    pub awaited: bool,
    /// Its latest change is not on disk.
    pub changed: bool,
    /// This change extends the lease.
    pub extended: bool,
    /// Of a binding of an address translation.
    pub side: Option<Side>,
    /// By the owner's last request, it is needed for a short time only.
    pub ending: bool,
    /// What it is.
    pub role: Role,
    /// Of the program.
    pub object: u16,
    /// `None` after a release.
    pub owner: Option<Owner>,
    /// The number of the last grant.
    pub grant: u32,
    /// The number of the last write.
    pub sequence: u32,
    /// Others get the key from this time on, in nanoseconds, if no session holds it. A fixed key ends at this time.
    pub until: u64,
    /// Of a fixed key: the longest term for which it was to be kept, in milliseconds.
    pub keep_ms: u32,
    /// Its lease is that of the owner's session.
    pub session: bool,
}

impl Record {
    pub fn key(&self) -> &[u8] {
        &self.cell[..usize::from(self.key_bytes)]
    }

    pub fn value(&self) -> &[u8] {
        &self.cell[usize::from(self.key_bytes)..]
    }

    /// Replaces the whole value by one of the same length.
    pub fn put_value(&mut self, value: &[u8]) {
        self.cell[usize::from(self.key_bytes)..].copy_from_slice(value);
    }

    /// Replaces the value by one of the same length, apart from address and port of a binding.
    pub fn set_value(&mut self, value: &[u8]) {
        let fixed = if self.side.is_some() { FIXED } else { 0 };
        self.cell[usize::from(self.key_bytes) + fixed..].copy_from_slice(&value[fixed..]);
    }
}

/// All records.
#[derive(Debug)]
pub(crate) struct Table {
    seed: [u8; 8],
    /// Open addressing with linear probing, at most half full: the number of a record and 1, or 0.
    index: Box<[u32]>,
    records: Vec<Record>,
    /// Numbers of records that were removed.
    free: Vec<RecordId>,
    max: usize,
    /// Keys at most: more than `max` while keys of several moments come together.
    limit: usize,
    /// Switches with shared leases, of keys that have some. None is empty.
    readers: BTreeMap<RecordId, Vec<Reader>>,
}

impl Table {
    pub fn new(seed: [u8; 8], max: u32) -> Self {
        let max = max as usize;
        let slots = (max * 2).next_power_of_two();
        let (records, free) = (Vec::with_capacity(max), Vec::new());
        let index = vec![0; slots].into();
        Table { seed, index, records, free, max, limit: max, readers: BTreeMap::new() }
    }

    /// An empty table that takes twice as many keys until [`Table::settle`].
    pub fn stretch(&mut self) {
        *self = Table::new(self.seed, self.max as u32);
        self.limit = self.max * 2;
        self.index = vec![0; self.index.len() * 2].into();
    }

    /// Ends [`Table::stretch`]: whether there is room for all keys.
    pub fn settle(&mut self) -> bool {
        self.limit = self.max;
        self.len() <= self.max
    }

    pub fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Keys for which there is room.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.len())
    }

    pub fn get(&self, id: RecordId) -> &Record {
        &self.records[id as usize]
    }

    pub fn get_mut(&mut self, id: RecordId) -> &mut Record {
        &mut self.records[id as usize]
    }

    /// Switches with shared leases on a key, in the order of their grants. Leases may have ended.
    pub fn readers(&self, id: RecordId) -> &[Reader] {
        self.readers.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Adds one.
    pub fn add_reader(&mut self, id: RecordId, reader: Reader) {
        self.readers.entry(id).or_default().push(reader);
    }

    /// Extends the lease of this grant.
    pub fn extend_reader(&mut self, id: RecordId, grant: u32, until: u64) {
        let readers = self.readers.get_mut(&id).into_iter().flatten();
        readers.filter(|r| r.grant == grant).for_each(|r| r.until = r.until.max(until));
    }

    /// Replaces them.
    pub fn set_readers(&mut self, id: RecordId, readers: Vec<Reader>) {
        if readers.is_empty() {
            self.readers.remove(&id);
        } else {
            self.readers.insert(id, readers);
        }
    }

    /// Removes those that are not to be kept: whether there were any.
    pub fn keep_readers(&mut self, id: RecordId, keep: impl FnMut(&Reader) -> bool) -> bool {
        let Some(mut readers) = self.readers.remove(&id) else { return false };
        let before = readers.len();
        readers.retain(keep);
        let removed = readers.len() < before;
        self.set_readers(id, readers);
        removed
    }

    /// The record of a number, if it is in use.
    pub fn live(&self, id: RecordId) -> Option<&Record> {
        self.records.get(id as usize).filter(|record| !record.cell.is_empty())
    }

    /// Numbers of records are less than this.
    pub fn end(&self) -> RecordId {
        self.records.len() as RecordId
    }

    /// Where the search for a key begins.
    fn home(&self, object: u16, key: &[u8]) -> usize {
        let hash = u64::from_le_bytes(half_sip_hash(self.seed, key)) ^ u64::from(object);
        hash as usize & (self.index.len() - 1)
    }

    /// The record of a key, or the place in the index where it belongs.
    pub fn find(&self, object: u16, key: &[u8]) -> Result<RecordId, usize> {
        let mask = self.index.len() - 1;
        let mut at = self.home(object, key);
        loop {
            match self.index[at].checked_sub(1) {
                None => return Err(at),
                Some(id) if self.get(id).object == object && self.get(id).key() == key => return Ok(id),
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    /// Adds a record without an owner, in the place that [`Table::find`] gave; `None` if there is no room.
    pub fn insert(
        &mut self,
        place: usize,
        object: u16,
        key: &[u8],
        value: &[u8],
        sequence: u32,
    ) -> Option<RecordId> {
        if self.room() == 0 {
            return None;
        }
        let record = Record {
            cell: [key, value].concat().into(),
            key_bytes: key.len() as u8,
            awaited: false,
            changed: false,
            extended: false,
            side: None,
            ending: false,
            role: Role::State,
            object,
            owner: None,
            grant: 0,
            sequence,
            until: 0,
            keep_ms: 0,
            session: false,
        };
        let id = if let Some(id) = self.free.pop() {
            self.records[id as usize] = record;
            id
        } else {
            self.records.push(record);
            self.records.len() as u32 - 1
        };
        self.index[place] = id + 1;
        Some(id)
    }

    /// Removes a record. Its number may be used again.
    pub fn remove(&mut self, id: RecordId) {
        let mask = self.index.len() - 1;
        let record = self.get(id);
        let mut hole = self.home(record.object, record.key());
        while self.index[hole] != id + 1 {
            hole = (hole + 1) & mask;
        }
        // Later ones move into the hole, unless their search begins behind it.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(other) = self.index[at].checked_sub(1) else { break };
            let record = self.get(other);
            let home = self.home(record.object, record.key());
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.index[hole] = other + 1;
                hole = at;
            }
        }
        self.index[hole] = 0;
        self.get_mut(id).cell = Box::default();
        self.get_mut(id).key_bytes = 0;
        self.readers.remove(&id);
        self.free.push(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn keys_come_and_go() {
        let mut random = pointsman_wire::Random::new(1);
        let mut table = Table::new([0; 8], 48);
        let mut model = BTreeMap::new();
        for _ in 0..20_000 {
            let key = (random.below(64) as u32).to_be_bytes();
            match table.find(0, &key) {
                Ok(id) => {
                    assert_eq!(model.remove(&key), Some(id));
                    table.remove(id);
                }
                Err(place) => {
                    assert!(!model.contains_key(&key));
                    let id = table.insert(place, 0, &key, &[0; 4], 0);
                    assert_eq!(id.is_some(), model.len() < 48);
                    model.extend(id.map(|id| (key, id)));
                }
            }
            assert_eq!((table.len(), table.room()), (model.len(), 48 - model.len()));
            assert!(model.iter().all(|(key, id)| table.find(0, key) == Ok(*id)));
        }
    }
}
