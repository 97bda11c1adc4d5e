//! The records of all keys, in memory: an index that never grows, because it has room for all keys from the start.

use pointsman_wire::siphash::half_sip_hash;

/// The number of a record.
pub(crate) type RecordId = u32;

/// The owner of a key: a switch, its incarnation, and the generation of the place that the key has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub switch: u16,
    pub incarnation: u32,
    pub generation: u32,
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
    /// Of the program.
    pub object: u16,
    /// `None` after a release.
    pub owner: Option<Owner>,
    /// The number of the last grant.
    pub grant: u32,
    /// The number of the last write.
    pub sequence: u32,
    /// Others get the key from this time on, in nanoseconds.
    pub until: u64,
}

impl Record {
    pub fn key(&self) -> &[u8] {
        &self.cell[..usize::from(self.key_bytes)]
    }

    pub fn value(&self) -> &[u8] {
        &self.cell[usize::from(self.key_bytes)..]
    }

    /// Replaces the value by one of the same length.
    pub fn set_value(&mut self, value: &[u8]) {
        self.cell[usize::from(self.key_bytes)..].copy_from_slice(value);
    }
}

/// All records. None is ever removed.
#[derive(Debug)]
pub(crate) struct Table {
    seed: [u8; 8],
    /// Open addressing with linear probing, at most half full: the number of a record and 1, or 0.
    index: Box<[u32]>,
    records: Vec<Record>,
    max: usize,
}

impl Table {
    pub fn new(seed: [u8; 8], max: u32) -> Self {
        let slots = (max as usize * 2).next_power_of_two();
        Table {
            seed,
            index: vec![0; slots].into(),
            records: Vec::with_capacity(max as usize),
            max: max as usize,
        }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn get(&self, id: RecordId) -> &Record {
        &self.records[id as usize]
    }

    pub fn get_mut(&mut self, id: RecordId) -> &mut Record {
        &mut self.records[id as usize]
    }

    /// The record of a key, or the place in the index where it belongs.
    pub fn find(&self, object: u16, key: &[u8]) -> Result<RecordId, usize> {
        let hash = u64::from_le_bytes(half_sip_hash(self.seed, key)) ^ u64::from(object);
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
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
        if self.records.len() == self.max {
            return None;
        }
        self.records.push(Record {
            cell: [key, value].concat().into(),
            key_bytes: key.len() as u8,
            awaited: false,
            changed: false,
            object,
            owner: None,
            grant: 0,
            sequence,
            until: 0,
        });
        let number = self.records.len() as u32;
        self.index[place] = number;
        Some(number - 1)
    }
}
