//! The state of a running program, and the control plane's way to it.
//!
//! Every method of the control plane is atomic: it happens between two packets, whole or not at all.

mod flat;
mod objects;
mod tables;
#[cfg(test)]
mod tests;

pub use objects::StateError;
pub use tables::SavedEntry;

use crate::externs::Instance;
use crate::hash::{BitBuffer, Crc, CrcParams, HashAlgorithm, csum16, identity, xor16};
use crate::pipeline::Pipeline;
use crate::random::Random;
use crate::replication::Replication;
use crate::stats::Anomalies;
use crate::tables::TableState;
use crate::time::Time;
use pointsman_ir::table::flat::FlatTable;
use pointsman_ir::{
    Bits, CellArray, EntryAction, EntryHandle, ExternInstanceId, Generation, KeyMatch, Lookup, Program,
    TableId, TypeId, Value,
};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A message from the program to the control plane (`digest`).
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    /// When it was made.
    pub time: Time,
    /// Type of the data: what names the digest.
    pub ty: TypeId,
    /// The data, as it was at the call.
    pub data: Value,
}

/// Something that a person may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub time: Time,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The program called `log_msg`.
    Log(String),
    /// An `assert` was false; the packet was dropped. With its place (`file.p4:17`) where the program knows it.
    AssertFailed(Option<Arc<str>>),
    /// An `assume` was false, likewise.
    AssumeFailed(Option<Arc<str>>),
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
    crc16: Crc,
    crc32: Crc,
    crc16_custom: Crc,
    crc32_custom: Crc,
    pub buffer: BitBuffer,
}

impl Hasher {
    fn new() -> Self {
        let (crc16, crc32) = (Crc::new(16, CrcParams::CRC16), Crc::new(32, CrcParams::CRC32));
        Hasher {
            crc16_custom: crc16.clone(),
            crc32_custom: crc32.clone(),
            crc16,
            crc32,
            buffer: BitBuffer::default(),
        }
    }

    /// The hash of what is in the buffer.
    pub fn compute(&self, algorithm: HashAlgorithm, random: &mut Random) -> u64 {
        self.hash(algorithm, self.buffer.bytes(), random)
    }

    /// The hash of `data`.
    pub fn hash(&self, algorithm: HashAlgorithm, data: &[u8], random: &mut Random) -> u64 {
        match algorithm {
            HashAlgorithm::Crc32 => self.crc32.compute(data).into(),
            HashAlgorithm::Crc32Custom => self.crc32_custom.compute(data).into(),
            HashAlgorithm::Crc16 => self.crc16.compute(data).into(),
            HashAlgorithm::Crc16Custom => self.crc16_custom.compute(data).into(),
            HashAlgorithm::Random => random.next_u64(),
            HashAlgorithm::Identity => identity(data),
            HashAlgorithm::Csum16 => csum16(data).into(),
            HashAlgorithm::Xor16 => xor16(data).into(),
        }
    }
}

/// The cells of registers and counters, by extern instance. A clone has memory of its own.
#[derive(Debug)]
pub(crate) struct Cells(pub Vec<CellArray>);

impl Clone for Cells {
    fn clone(&self) -> Self {
        Cells(CellArray::copy_all(&self.0))
    }
}

impl Cells {
    pub fn get(&self, id: Option<ExternInstanceId>) -> Option<&CellArray> {
        self.0.get(id?.index())
    }
}

/// The state of a running program: tables, extern objects, value sets, multicast groups and clone sessions.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) program: Arc<Program>,
    pub(crate) tables: Vec<TableState>,
    /// The same for executors that look tables up by themselves; none for others.
    pub(crate) flat: Vec<FlatTable>,
    table_seed: u64,
    pub(crate) instances: Vec<Instance>,
    pub(crate) cells: Cells,
    pub(crate) value_sets: Vec<Vec<Vec<KeyMatch>>>,
    pub(crate) hasher: Hasher,
    pub(crate) random: Random,
    /// Another one after every change by the control plane.
    pub(crate) generation: Generation,
    pub(crate) anomalies: Anomalies,
    pub(crate) digests: VecDeque<Digest>,
    pub(crate) events: VecDeque<Event>,
    max_digests: usize,
    max_events: usize,
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
            flat: Vec::new(),
            table_seed: config.seed,
            instances: pipeline.instances.iter().map(|p| p.build()).collect(),
            cells: Cells(CellArray::new_group(&pipeline.cells())),
            value_sets: vec![Vec::new(); pipeline.program.value_sets.len()],
            hasher: Hasher::new(),
            random: Random::new(config.seed),
            generation: Generation::new(),
            anomalies: Anomalies::default(),
            digests: VecDeque::new(),
            events: VecDeque::new(),
            max_digests: config.max_waiting_digests,
            max_events: config.max_waiting_events,
            timers: BTreeSet::new(),
            replication: Replication::default(),
        }
    }

    /// Puts a state of the same program in this one's place that was prepared aside. What was counted and logged so far
    /// stays, and so does which ports are down.
    pub fn replace(&mut self, prepared: State) {
        let old = std::mem::replace(self, prepared);
        self.replication.set_down_ports(old.replication.down_ports().clone());
        self.anomalies = old.anomalies;
        self.events = old.events;
        self.random = old.random;
        self.generation = Generation::new();
        if !old.flat.is_empty() {
            self.build_flat();
        }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    pub(crate) fn instance(&self, id: Option<ExternInstanceId>) -> Option<&Instance> {
        self.instances.get(id?.index())
    }

    pub(crate) fn instance_mut(&mut self, id: Option<ExternInstanceId>) -> Option<&mut Instance> {
        self.instances.get_mut(id?.index())
    }

    pub(crate) fn push_digest(&mut self, digest: Digest) {
        if self.digests.len() >= self.max_digests {
            self.anomalies.digests_lost += 1;
        } else {
            self.digests.push_back(digest);
        }
    }

    pub(crate) fn push_event(&mut self, time: Time, kind: EventKind) {
        if self.events.len() >= self.max_events {
            self.anomalies.events_lost += 1;
        } else {
            self.events.push_back(Event { time, kind });
        }
    }

    /// Looks up a table for a packet and counts the hit.
    pub(crate) fn lookup(
        &mut self,
        now: Time,
        bytes: u32,
        id: TableId,
        key: &[Bits],
        selectors: &[Bits],
    ) -> Lookup {
        let Some(table) = self.tables.get_mut(id.index()) else { return Lookup { hit: None, action: None } };
        let Some((handle, action)) = table.store.hit(key) else {
            let action = Some(table.store.default_action().clone());
            self.count_hit(now, bytes, id, None);
            return Lookup { hit: None, action };
        };
        let action = match (&action, table.profile.map(|p| &self.instances[p.index()])) {
            (EntryAction::Call(call), _) => Some(call.clone()),
            (EntryAction::Member(m), Some(Instance::Profile(p))) => p.member(*m).cloned(),
            (EntryAction::Group(g), Some(Instance::Profile(p))) => {
                let call = p.selector.and_then(|selector| {
                    self.hasher.buffer.clear();
                    selectors.iter().for_each(|b| self.hasher.buffer.push(b));
                    let algorithm = p.algorithm(*g).unwrap_or(selector.algorithm);
                    let hash = self.hasher.compute(algorithm, &mut self.random);
                    let hash = hash & (u64::MAX >> (64 - selector.output_width.clamp(1, 64)));
                    p.pick(*g, hash, self.replication.down_ports()).cloned()
                });
                if call.is_none() {
                    self.anomalies.empty_group += 1;
                }
                call
            }
            _ => None,
        };
        self.count_hit(now, bytes, id, Some(handle));
        Lookup { hit: Some(handle), action }
    }

    /// Counts a hit of an entry, or of the default action: direct counter, direct meter, idle time.
    pub(crate) fn count_hit(&mut self, now: Time, bytes: u32, id: TableId, hit: Option<EntryHandle>) {
        let Some(table) = self.tables.get_mut(id.index()).filter(|t| t.has_info()) else { return };
        let (counter, meter) = match hit {
            None => (&mut table.default_counter, &mut table.default_meter),
            Some(handle) => {
                let info = table.info.get_or_default(handle);
                info.last_hit = now;
                (&mut info.counter, &mut info.meter)
            }
        };
        if let Some(kind) = table.direct_counter {
            counter.count(kind, bytes);
        }
        if let Some((instance, kind)) = table.direct_meter {
            let result = meter.mark(now, kind, bytes);
            if let Some(Instance::DirectMeter(color)) = self.instances.get_mut(instance.index()) {
                *color = result;
            }
        }
    }

    /// Takes over from the state of an earlier program whatever has the same name and shape here.
    pub(crate) fn adopt(&mut self, old: &State) {
        for (i, table) in self.tables.iter_mut().enumerate() {
            let name = &self.program.tables[i].name;
            let Some(j) = old.program.tables.iter().position(|t| t.name == *name) else { continue };
            if table.same_shape(&self.program.types, &old.tables[j], &old.program.types) {
                table.adopt(&old.tables[j]);
            }
        }
        for (i, instance) in self.instances.iter_mut().enumerate() {
            let name = &self.program.externs[i].name;
            let Some(j) = old.program.externs.iter().position(|e| e.name == *name) else { continue };
            if self.cells.0[i].same_shape(&old.cells.0[j]) {
                self.cells.0[i].copy_from(&old.cells.0[j]);
            }
            match (instance, &old.instances[j]) {
                (Instance::Register(new), Instance::Register(old)) => new.out_of_range = old.out_of_range,
                (Instance::Counter(new), Instance::Counter(old)) => new.out_of_range = old.out_of_range,
                (Instance::Meter(new), Instance::Meter(old))
                    if new.kind == old.kind && new.cells.len() == old.cells.len() =>
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
