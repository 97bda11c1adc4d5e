//! The state of a running program, and the control plane's way to it.
//!
//! Every method of the control plane is atomic: it happens between two packets, whole or not at all. Reads of registers and counters
//! through a [`Watch`] are the exception: they happen while packets pass.

mod carry;
mod export;
mod flat;
mod hits;
mod objects;
mod own;
mod tables;
#[cfg(test)]
mod tests;
mod watch;

pub use carry::Kept;
pub(crate) use export::{Part, SavedClock, at_distance, distance};
pub use export::{RestoreError, SwitchState};
pub(crate) use hits::Hits;
pub use objects::StateError;
pub(crate) use own::{Access, Own};
pub use tables::SavedEntry;
pub use watch::Watch;

use crate::externs::Instance;
use crate::guarded::{Guarded, Turn};
use crate::hash::{Crc, CrcParams, HashAlgorithm, csum16, identity, xor16};
use crate::pipeline::Pipeline;
use crate::random::Random;
use crate::replication::Replication;
use crate::tables::TableState;
use crate::time::Time;
use pointsman_ir::table::flat::FlatTable;
use pointsman_ir::{
    CellArray, CellKind, CellShape, EntryHandle, ExternInstanceId, Generation, KeyMatch, Program, TableId,
    TypeId, Value,
};
use pointsman_wire::crc;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A message from the program to the control plane (`digest`).
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    /// When it was made.
    pub time: Time,
    /// Type of the data, which names the digest.
    pub ty: TypeId,
    /// The data, as it was at the call.
    pub data: Value,
}

/// Something that a person may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub time: Time,
    /// The kind of event.
    pub kind: EventKind,
}

/// The kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The program called `log_msg`.
    Log(String),
    /// An `assert` was false; the packet was dropped. With its place (`file.p4:17`) if the program knows it.
    AssertFailed(Option<Arc<str>>),
    /// An `assume` was false, likewise.
    AssumeFailed(Option<Arc<str>>),
}

impl std::fmt::Display for EventKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, place) = match self {
            EventKind::Log(message) => return f.write_str(message),
            EventKind::AssertFailed(place) => ("assert", place),
            EventKind::AssumeFailed(place) => ("assume", place),
        };
        place.iter().try_for_each(|place| write!(f, "{place}: "))?;
        write!(f, "an {what} was false; the packet was dropped")
    }
}

/// An entry that nothing has hit for its idle timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleEntry {
    /// Its table.
    pub table: TableId,
    /// The entry.
    pub handle: EntryHandle,
}

/// The algorithms with their tables.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    crc16_custom: Crc,
    crc32_custom: Crc,
}

impl Hasher {
    fn new() -> Self {
        let (crc16_custom, crc32_custom) = (Crc::new(16, CrcParams::CRC16), Crc::new(32, CrcParams::CRC32));
        Hasher { crc16_custom, crc32_custom }
    }

    /// The hash of `data`.
    pub fn hash(&self, algorithm: HashAlgorithm, data: &[u8], random: &mut Random) -> u64 {
        match algorithm {
            HashAlgorithm::Crc32 => crc::crc32(data).into(),
            HashAlgorithm::Crc32Custom => self.crc32_custom.compute(data).into(),
            HashAlgorithm::Crc16 => crc::crc16(data).into(),
            HashAlgorithm::Crc16Custom => self.crc16_custom.compute(data).into(),
            HashAlgorithm::Random => random.next_u64(),
            HashAlgorithm::Identity => identity(data),
            HashAlgorithm::Csum16 => csum16(data).into(),
            HashAlgorithm::Xor16 => xor16(data).into(),
        }
    }
}

/// The cells of registers and counters, by extern instance. A clone has its own memory.
#[derive(Debug)]
pub(crate) struct Cells {
    pub arrays: Vec<CellArray>,
    /// The same for each further worker: registers are shared, counters are its own, so that no two count in one place.
    pub shards: Vec<Arc<[CellArray]>>,
}

impl Clone for Cells {
    fn clone(&self) -> Self {
        let arrays = CellArray::copy_all(&self.arrays);
        for (id, array) in arrays.iter().enumerate().filter(|(_, a)| a.kind() != CellKind::Value) {
            for shard in &self.shards {
                array.add_from(&shard[id]);
            }
        }
        Cells { arrays, shards: Vec::new() }
    }
}

impl Cells {
    pub fn new(shapes: &[CellShape]) -> Self {
        Cells { arrays: CellArray::new_group(shapes), shards: Vec::new() }
    }

    /// The same cells, not a copy of them.
    pub fn same(&self) -> Self {
        Cells { arrays: self.arrays.clone(), shards: self.shards.clone() }
    }

    pub fn get(&self, id: ExternInstanceId) -> Option<&CellArray> {
        self.arrays.get(id.index())
    }

    /// The words of a counter, of all workers together.
    pub fn counts(&self, id: ExternInstanceId, index: u64) -> Option<[u64; 2]> {
        let mut sum = self.get(id)?.load_words(index)?;
        for shard in &self.shards {
            let more = shard.get(id.index()).and_then(|c| c.load_words(index)).unwrap_or_default();
            sum = [sum[0].wrapping_add(more[0]), sum[1].wrapping_add(more[1])];
        }
        Some(sum)
    }

    /// Sets the words of a counter. False if the counter does not exist.
    pub fn set_counts(&self, id: ExternInstanceId, index: u64, words: [u64; 2]) -> bool {
        for array in self.shards.iter().filter_map(|shard| shard.get(id.index())) {
            array.store_words(index, [0, 0]);
        }
        self.get(id).is_some_and(|array| array.store_words(index, words))
    }

    /// Arrays for this many further workers.
    pub fn share(&mut self, shapes: &[CellShape], workers: usize) {
        while self.shards.len() < workers {
            let own = CellArray::new_group(shapes);
            let pick = |(own, shared): (CellArray, &CellArray)| match shared.kind() {
                CellKind::Value => shared.clone(),
                _ => own,
            };
            self.shards.push(own.into_iter().zip(&self.arrays).map(pick).collect());
        }
    }
}

/// The state of a running program: tables, extern objects, value sets, multicast groups and clone sessions.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) program: Arc<Program>,
    pub(crate) tables: Vec<TableState>,
    pub(crate) hits: Hits,
    /// The same for executors that look tables up by themselves; none for others.
    pub(crate) flat: Vec<FlatTable>,
    table_seed: u64,
    pub(crate) instances: Vec<Instance>,
    pub(crate) cells: Cells,
    shapes: Vec<CellShape>,
    pub(crate) value_sets: Vec<Vec<Vec<KeyMatch>>>,
    pub(crate) hasher: Hasher,
    /// Another one after every change by the control plane.
    pub(crate) generation: Generation,
    /// Held by packets in sections that must not overlap: [`Access::enter`].
    pub(crate) locks: Vec<Guarded<()>>,
    sections: usize,
    /// Held by packets in `@atomic` blocks, if several workers run.
    pub(crate) atomic: Option<Arc<Turn>>,
    has_atomic: bool,
    /// Another one for each program that ran: digests of an earlier one mean nothing any more.
    pub(crate) epoch: u64,
    /// When to look at an entry's idle time again.
    timers: BTreeSet<(Time, TableId, EntryHandle)>,
    /// Multicast groups and clone sessions. They outlive a change of the program.
    pub replication: Replication,
}

impl State {
    /// The initial state of a program.
    pub fn new(pipeline: &Pipeline, config: &crate::SwitchConfig) -> State {
        State {
            program: pipeline.program.clone(),
            tables: pipeline.tables.clone(),
            hits: Hits::new(&pipeline.tables),
            flat: Vec::new(),
            table_seed: config.seed,
            instances: pipeline.instances.iter().map(|p| p.build(&pipeline.program)).collect(),
            cells: Cells::new(&pipeline.cells()),
            shapes: pipeline.cells(),
            value_sets: vec![Vec::new(); pipeline.program.value_sets.len()],
            hasher: Hasher::new(),
            generation: Generation::new(),
            locks: Vec::new(),
            sections: pipeline.sections.count,
            atomic: None,
            has_atomic: pipeline.sections.atomic,
            epoch: 0,
            timers: BTreeSet::new(),
            replication: Replication::default(),
        }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Prepares the state for this many further workers.
    pub(crate) fn share(&mut self, workers: usize) {
        self.cells.share(&self.shapes, workers);
        self.hits.share(workers);
        // The switch itself processes nothing while a worker does: one worker is alone.
        let locks = if workers > 1 { self.sections } else { 0 };
        self.locks.resize_with(locks, Guarded::default);
        self.atomic = (workers > 1 && self.has_atomic).then(Arc::default);
    }

    pub(crate) fn instance(&self, id: Option<ExternInstanceId>) -> Option<&Instance> {
        self.instances.get(id?.index())
    }

    /// Takes over everything with the same name and shape from the state of an earlier program.
    pub(crate) fn adopt(&mut self, old: &State) {
        for i in 0..self.tables.len() {
            let (id, name) = (TableId(i as u32), &self.program.tables[i].name);
            let Some(j) = old.program.tables.iter().position(|t| t.name == *name) else { continue };
            if self.tables[i].same_shape(&self.program.types, &old.tables[j], &old.program.types) {
                for (from, to) in self.tables[i].adopt(&old.tables[j]) {
                    let noted = old.hits_of(TableId(j as u32), from).unwrap_or_default();
                    self.set_hits(id, to, noted);
                }
            }
        }
        for (i, instance) in self.instances.iter_mut().enumerate() {
            let name = &self.program.externs[i].name;
            let Some(j) = old.program.externs.iter().position(|e| e.name == *name) else { continue };
            if self.cells.arrays[i].same_shape(&old.cells.arrays[j]) {
                self.cells.arrays[i].copy_from(&old.cells.arrays[j]);
                for shard in old.cells.shards.iter().filter(|s| s[j].kind() != CellKind::Value) {
                    self.cells.arrays[i].add_from(&shard[j]);
                }
            }
            match (instance, &old.instances[j]) {
                (Instance::Meter(new), Instance::Meter(old))
                    if new.kind == old.kind && new.len() == old.len() =>
                {
                    *new = old.clone();
                }
                (Instance::Profile(new), Instance::Profile(old))
                    if new.size == old.size && new.selector == old.selector =>
                {
                    new.adopt(old);
                }
                _ => {}
            }
        }
        for (i, set) in self.program.value_sets.iter().enumerate() {
            let same = |s: &pointsman_ir::ValueSet| s.name == set.name && s.size == set.size;
            if let Some(j) = old.program.value_sets.iter().position(same) {
                self.value_sets[i] = old.value_sets[j].clone();
            }
        }
    }
}
