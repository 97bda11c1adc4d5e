//! The state of a running program, and the control plane's way to it.
//!
//! Every method is atomic: it happens between two packets, whole or not at all.

use crate::counter::{CounterArray, CounterCell};
use crate::externs::Instance;
use crate::hash::{BitBuffer, Crc, CrcParams, HashAlgorithm, csum16, identity, xor16};
use crate::meter::{Color, Meter, MeterArray, MeterConfig};
use crate::pipeline::Pipeline;
use crate::profile::{ActionProfile, Group, ProfileError};
use crate::random::Random;
use crate::register::Register;
use crate::replication::Replication;
use crate::stats::Anomalies;
use crate::tables::{TableError, TableState, check_match};
use crate::time::Time;
use pointsman_ir::{
    ActionCall, Bits, Entry, EntryAction, EntryHandle, ExternInstanceId, KeyMatch, Lookup, Program, TableId,
    Type, TypeId, Value, ValueSetId,
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
    /// An `assert` was false; the packet was dropped.
    AssertFailed,
    /// An `assume` was false; the packet was dropped.
    AssumeFailed,
}

/// An entry that nothing has hit for its idle timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleEntry {
    /// Its table.
    pub table: TableId,
    /// The entry.
    pub handle: EntryHandle,
}

/// Why a register, counter, meter or value set could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateError {
    /// There is no such object, or it is of another kind.
    UnknownObject,
    /// The index is out of range; the size is given.
    IndexOutOfRange(u64),
    /// The value is of another width than the cells.
    BadWidth {
        /// Width of a cell in bits.
        want: u32,
        /// Width of the value in bits.
        got: u32,
    },
    /// Rates that no meter can have.
    BadMeterConfig(String),
    /// Members that do not fit the value set.
    BadMember(String),
    /// More members than the value set holds.
    TooManyMembers(u64),
}

impl std::fmt::Display for StateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StateError::UnknownObject => write!(f, "no such object of this kind"),
            StateError::IndexOutOfRange(size) => write!(f, "the index is out of range: there are {size}"),
            StateError::BadWidth { want, got } => write!(f, "a value of {got} bits for {want} bits"),
            StateError::BadMeterConfig(m) | StateError::BadMember(m) => f.write_str(m),
            StateError::TooManyMembers(size) => write!(f, "the value set holds {size} members at most"),
        }
    }
}

impl std::error::Error for StateError {}

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
        let data = self.buffer.bytes();
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

/// The state of a running program: tables, extern objects, value sets, multicast groups and clone sessions.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) program: Arc<Program>,
    pub(crate) tables: Vec<TableState>,
    pub(crate) instances: Vec<Instance>,
    pub(crate) value_sets: Vec<Vec<Vec<KeyMatch>>>,
    pub(crate) hasher: Hasher,
    pub(crate) random: Random,
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
    pub(crate) fn new(pipeline: &Pipeline, config: &crate::SwitchConfig) -> State {
        State {
            program: pipeline.program.clone(),
            tables: pipeline.tables.clone(),
            instances: pipeline.instances.iter().map(|p| p.build()).collect(),
            value_sets: vec![Vec::new(); pipeline.program.value_sets.len()],
            hasher: Hasher::new(),
            random: Random::new(config.seed),
            anomalies: Anomalies::default(),
            digests: VecDeque::new(),
            events: VecDeque::new(),
            max_digests: config.max_waiting_digests,
            max_events: config.max_waiting_events,
            timers: BTreeSet::new(),
            replication: Replication::default(),
        }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    // ---- tables ----

    /// A table.
    pub fn table(&self, id: TableId) -> Option<&TableState> {
        self.tables.get(id.index())
    }

    fn table_mut(&mut self, id: TableId) -> Result<&mut TableState, TableError> {
        self.tables.get_mut(id.index()).ok_or(TableError::UnknownTable)
    }

    fn check_entry(&self, id: TableId, entry: &Entry) -> Result<(), TableError> {
        let table = self.table(id).ok_or(TableError::UnknownTable)?;
        table.check_entries_changeable()?;
        table.check_entry(&self.program.types, entry)?;
        let Some(profile) = table.profile.and_then(|p| self.profile(p)) else { return Ok(()) };
        match entry.action {
            EntryAction::Member(m) if profile.member(m).is_none() => {
                Err(TableError::BadAction(format!("the action profile has no member {m}")))
            }
            EntryAction::Group(g) if profile.group(g).is_none() => {
                Err(TableError::BadAction(format!("the action profile has no group {g}")))
            }
            _ => Ok(()),
        }
    }

    /// Adds an entry; its idle time starts now.
    pub fn insert(&mut self, now: Time, id: TableId, entry: Entry) -> Result<EntryHandle, TableError> {
        self.check_entry(id, &entry)?;
        let timeout = entry.idle_timeout_ns;
        let table = self.table_mut(id)?;
        let handle = table.store.insert(entry)?;
        table.track(handle, now);
        self.arm(now, id, handle, timeout);
        Ok(handle)
    }

    /// Replaces action, metadata and idle timeout of the entry with the same match and priority. Its counter and meter
    /// stay; its idle time starts anew.
    pub fn modify(&mut self, now: Time, id: TableId, entry: Entry) -> Result<EntryHandle, TableError> {
        self.check_entry(id, &entry)?;
        let timeout = entry.idle_timeout_ns;
        let table = self.table_mut(id)?;
        let handle = table.store.modify(entry)?;
        if let Some(info) = table.info.get_mut(&handle) {
            info.last_hit = now;
        }
        self.arm(now, id, handle, timeout);
        Ok(handle)
    }

    /// Removes an entry and gives it back.
    pub fn delete(&mut self, id: TableId, matches: &[KeyMatch], priority: i32) -> Result<Entry, TableError> {
        let table = self.table_mut(id)?;
        table.check_entries_changeable()?;
        let (handle, entry) = table.store.delete(matches, priority)?;
        let timer = table.info.remove(&handle).and_then(|i| i.timer);
        if let Some(t) = timer {
            self.timers.remove(&(t, id, handle));
        }
        Ok(entry)
    }

    /// Sets the default action.
    pub fn set_default(&mut self, id: TableId, call: ActionCall) -> Result<(), TableError> {
        let types = self.program.clone();
        let table = self.table_mut(id)?;
        table.check_default_changeable()?;
        table.check_call(&types.types, &call, true)?;
        table.set_default(Some(call));
        Ok(())
    }

    /// Sets the default action back to the program's.
    pub fn reset_default(&mut self, id: TableId) -> Result<(), TableError> {
        let table = self.table_mut(id)?;
        table.check_default_changeable()?;
        table.set_default(None);
        Ok(())
    }

    /// Entries of a table in the order in which they were added.
    pub fn entries(&self, id: TableId) -> impl Iterator<Item = (EntryHandle, &Entry)> {
        self.table(id).into_iter().flat_map(|t| t.store.iter())
    }

    /// The direct counter of an entry; of the default action for `None`.
    pub fn direct_counter(
        &self,
        id: TableId,
        handle: Option<EntryHandle>,
    ) -> Result<CounterCell, TableError> {
        let table = self.table(id).ok_or(TableError::UnknownTable)?;
        table.direct_counter.ok_or(TableError::NoDirectResource)?;
        match handle {
            None => Ok(table.default_counter),
            Some(h) => table.info.get(&h).map(|i| i.counter).ok_or(TableError::NotFound),
        }
    }

    /// Sets the direct counter of an entry, or of the default action.
    pub fn set_direct_counter(
        &mut self,
        id: TableId,
        handle: Option<EntryHandle>,
        value: CounterCell,
    ) -> Result<(), TableError> {
        let table = self.table_mut(id)?;
        table.direct_counter.ok_or(TableError::NoDirectResource)?;
        match handle {
            None => table.default_counter = value,
            Some(h) => table.info.get_mut(&h).ok_or(TableError::NotFound)?.counter = value,
        }
        Ok(())
    }

    /// The configuration of an entry's direct meter.
    pub fn direct_meter(&self, id: TableId, handle: EntryHandle) -> Result<Option<MeterConfig>, TableError> {
        let table = self.table(id).ok_or(TableError::UnknownTable)?;
        table.direct_meter.ok_or(TableError::NoDirectResource)?;
        table.info.get(&handle).map(|i| i.meter.config()).ok_or(TableError::NotFound)
    }

    /// Configures an entry's direct meter; `None` marks everything green again.
    pub fn set_direct_meter(
        &mut self,
        now: Time,
        id: TableId,
        handle: EntryHandle,
        config: Option<MeterConfig>,
    ) -> Result<(), TableError> {
        let table = self.table_mut(id)?;
        table.direct_meter.ok_or(TableError::NoDirectResource)?;
        if let Some(c) = config {
            c.validate().map_err(TableError::BadAction)?;
        }
        table.info.get_mut(&handle).ok_or(TableError::NotFound)?.meter.configure(now, config);
        Ok(())
    }

    /// Nanoseconds since a packet last hit the entry (or since it was added or modified).
    pub fn idle_ns(&self, now: Time, id: TableId, handle: EntryHandle) -> Result<u64, TableError> {
        let table = self.table(id).ok_or(TableError::UnknownTable)?;
        if !table.idle_timeouts {
            return Err(TableError::NoIdleTimeout);
        }
        table.info.get(&handle).map(|i| now.since(i.last_hit)).ok_or(TableError::NotFound)
    }

    fn arm(&mut self, now: Time, id: TableId, handle: EntryHandle, timeout_ns: u64) {
        let Some(info) = self.tables.get_mut(id.index()).and_then(|t| t.info.get_mut(&handle)) else {
            return;
        };
        if let Some(old) = info.timer.take() {
            self.timers.remove(&(old, id, handle));
        }
        if timeout_ns != 0 {
            let at = now.plus_ns(timeout_ns);
            info.timer = Some(at);
            self.timers.insert((at, id, handle));
        }
    }

    /// Entries whose idle timeout has passed. An entry that stays idle is reported again after each further timeout.
    pub fn take_idle(&mut self, now: Time) -> Vec<IdleEntry> {
        let mut idle = Vec::new();
        while let Some(&(at, table, handle)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            let Some(t) = self.tables.get_mut(table.index()) else { continue };
            let timeout = t.store.get(handle).map_or(0, |e| e.idle_timeout_ns);
            let Some(info) = t.info.get_mut(&handle) else { continue };
            info.timer = None;
            if timeout == 0 {
                continue;
            }
            // Packets do not move timers, they only note the time: so the timer may come too early.
            let due = info.last_hit.plus_ns(timeout);
            if due <= now {
                idle.push(IdleEntry { table, handle });
                self.arm(now, table, handle, timeout);
            } else {
                info.timer = Some(due);
                self.timers.insert((due, table, handle));
            }
        }
        idle
    }

    /// When [`State::take_idle`] next has something to look at.
    pub fn next_idle(&self) -> Option<Time> {
        self.timers.first().map(|(at, _, _)| *at)
    }

    // ---- registers ----

    /// A register array.
    pub fn register(&self, id: ExternInstanceId) -> Option<&Register> {
        match self.instances.get(id.index()) {
            Some(Instance::Register(r)) => Some(r),
            _ => None,
        }
    }

    /// Reads a cell of a register array.
    pub fn read_register(&self, id: ExternInstanceId, index: u64) -> Result<Bits, StateError> {
        let r = self.register(id).ok_or(StateError::UnknownObject)?;
        r.get(index).ok_or(StateError::IndexOutOfRange(r.len() as u64))
    }

    /// Writes a cell of a register array.
    pub fn write_register(
        &mut self,
        id: ExternInstanceId,
        index: u64,
        value: &Bits,
    ) -> Result<(), StateError> {
        let Some(Instance::Register(r)) = self.instances.get_mut(id.index()) else {
            return Err(StateError::UnknownObject);
        };
        if value.width() != r.width() {
            return Err(StateError::BadWidth { want: r.width(), got: value.width() });
        }
        let size = r.len() as u64;
        if r.set(index, value) { Ok(()) } else { Err(StateError::IndexOutOfRange(size)) }
    }

    // ---- counters and meters ----

    /// A counter array.
    pub fn counter(&self, id: ExternInstanceId) -> Option<&CounterArray> {
        match self.instances.get(id.index()) {
            Some(Instance::Counter(c)) => Some(c),
            _ => None,
        }
    }

    /// Reads a counter.
    pub fn read_counter(&self, id: ExternInstanceId, index: u64) -> Result<CounterCell, StateError> {
        let c = self.counter(id).ok_or(StateError::UnknownObject)?;
        cell(&c.cells, index).copied()
    }

    /// Sets a counter.
    pub fn write_counter(
        &mut self,
        id: ExternInstanceId,
        index: u64,
        value: CounterCell,
    ) -> Result<(), StateError> {
        let Some(Instance::Counter(c)) = self.instances.get_mut(id.index()) else {
            return Err(StateError::UnknownObject);
        };
        *cell_mut(&mut c.cells, index)? = value;
        Ok(())
    }

    /// A meter array.
    pub fn meter(&self, id: ExternInstanceId) -> Option<&MeterArray> {
        match self.instances.get(id.index()) {
            Some(Instance::Meter(m)) => Some(m),
            _ => None,
        }
    }

    /// The configuration of a meter.
    pub fn read_meter(&self, id: ExternInstanceId, index: u64) -> Result<Option<MeterConfig>, StateError> {
        let m = self.meter(id).ok_or(StateError::UnknownObject)?;
        cell(&m.cells, index).map(Meter::config)
    }

    /// Configures a meter; `None` marks everything green again.
    pub fn write_meter(
        &mut self,
        now: Time,
        id: ExternInstanceId,
        index: u64,
        config: Option<MeterConfig>,
    ) -> Result<(), StateError> {
        let Some(Instance::Meter(m)) = self.instances.get_mut(id.index()) else {
            return Err(StateError::UnknownObject);
        };
        if let Some(c) = config {
            c.validate().map_err(StateError::BadMeterConfig)?;
        }
        cell_mut(&mut m.cells, index)?.configure(now, config);
        Ok(())
    }

    // ---- value sets ----

    /// The members of a value set.
    pub fn value_set(&self, id: ValueSetId) -> Option<&[Vec<KeyMatch>]> {
        self.value_sets.get(id.index()).map(Vec::as_slice)
    }

    /// Replaces the members of a value set; each has one match per field of its element type.
    pub fn set_value_set(&mut self, id: ValueSetId, members: Vec<Vec<KeyMatch>>) -> Result<(), StateError> {
        let (Some(set), Some(slot)) =
            (self.program.value_sets.get(id.index()), self.value_sets.get_mut(id.index()))
        else {
            return Err(StateError::UnknownObject);
        };
        if members.len() as u64 > set.size {
            return Err(StateError::TooManyMembers(set.size));
        }
        let types = &self.program.types;
        let widths: Vec<u32> = match types.repr_type(set.elem) {
            Type::Struct(d) => d.fields.iter().filter_map(|f| types.scalar_width(f.ty)).collect(),
            Type::Tuple(ts) => ts.iter().filter_map(|t| types.scalar_width(*t)).collect(),
            _ => types.scalar_width(set.elem).into_iter().collect(),
        };
        for member in &members {
            if member.len() != widths.len() {
                return Err(StateError::BadMember(format!(
                    "a member has {} fields, the value set {}",
                    member.len(),
                    widths.len()
                )));
            }
            for (m, width) in member.iter().zip(&widths) {
                check_match(m, m.kind(), *width).map_err(StateError::BadMember)?;
            }
        }
        *slot = members;
        Ok(())
    }

    // ---- action profiles ----

    /// An action profile or selector.
    pub fn profile(&self, id: ExternInstanceId) -> Option<&ActionProfile> {
        match self.instances.get(id.index()) {
            Some(Instance::Profile(p)) => Some(p),
            _ => None,
        }
    }

    fn profile_mut(&mut self, id: ExternInstanceId) -> Result<&mut ActionProfile, ProfileError> {
        match self.instances.get_mut(id.index()) {
            Some(Instance::Profile(p)) => Ok(p),
            _ => Err(ProfileError::UnknownProfile),
        }
    }

    fn check_member(&self, id: ExternInstanceId, call: &ActionCall) -> Result<(), ProfileError> {
        let profile = self.profile(id).ok_or(ProfileError::UnknownProfile)?;
        let table = profile.tables.first().and_then(|t| self.table(*t));
        let table =
            table.ok_or_else(|| ProfileError::BadAction("no table uses this action profile".into()))?;
        table.check_call(&self.program.types, call, false).map_err(|e| ProfileError::BadAction(e.to_string()))
    }

    fn entry_uses(&self, id: ExternInstanceId, action: &EntryAction) -> bool {
        let tables = self.profile(id).map_or(&[][..], |p| &p.tables);
        tables.iter().any(|t| self.entries(*t).any(|(_, e)| e.action == *action))
    }

    /// Adds a member to an action profile. `call.action` indexes the action list of its tables.
    pub fn insert_member(
        &mut self,
        id: ExternInstanceId,
        member: u32,
        call: ActionCall,
    ) -> Result<(), ProfileError> {
        self.check_member(id, &call)?;
        self.profile_mut(id)?.insert_member(member, call)
    }

    /// Replaces what a member does.
    pub fn modify_member(
        &mut self,
        id: ExternInstanceId,
        member: u32,
        call: ActionCall,
    ) -> Result<(), ProfileError> {
        self.check_member(id, &call)?;
        self.profile_mut(id)?.modify_member(member, call)
    }

    /// Removes a member that no entry and no group uses.
    pub fn delete_member(&mut self, id: ExternInstanceId, member: u32) -> Result<(), ProfileError> {
        if self.entry_uses(id, &EntryAction::Member(member)) {
            return Err(ProfileError::InUse);
        }
        self.profile_mut(id)?.delete_member(member)
    }

    /// Adds a group to an action selector.
    pub fn insert_group(
        &mut self,
        id: ExternInstanceId,
        group: u32,
        value: Group,
    ) -> Result<(), ProfileError> {
        self.profile_mut(id)?.insert_group(group, value)
    }

    /// Replaces the members of a group.
    pub fn modify_group(
        &mut self,
        id: ExternInstanceId,
        group: u32,
        value: Group,
    ) -> Result<(), ProfileError> {
        self.profile_mut(id)?.modify_group(group, value)
    }

    /// Removes a group that no entry uses.
    pub fn delete_group(&mut self, id: ExternInstanceId, group: u32) -> Result<(), ProfileError> {
        if self.entry_uses(id, &EntryAction::Group(group)) {
            return Err(ProfileError::InUse);
        }
        self.profile_mut(id)?.delete_group(group)
    }

    // ---- hashes ----

    /// Sets the parameters of `crc16_custom`.
    pub fn set_crc16_custom(&mut self, params: CrcParams) {
        self.hasher.crc16_custom = Crc::new(16, params);
    }

    /// Sets the parameters of `crc32_custom`.
    pub fn set_crc32_custom(&mut self, params: CrcParams) {
        self.hasher.crc32_custom = Crc::new(32, params);
    }

    // ---- what packets do ----

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
        let Some((handle, entry)) = table.store.lookup(key) else {
            if let Some(kind) = table.direct_counter {
                table.default_counter.count(kind, bytes);
            }
            if let Some((meter, _)) = table.direct_meter
                && let Some(Instance::DirectMeter(color)) = self.instances.get_mut(meter.index())
            {
                *color = Color::Green;
            }
            return Lookup { hit: None, action: Some(table.store.default_action().clone()) };
        };
        let action = match (&entry.action, table.profile.map(|p| &self.instances[p.index()])) {
            (EntryAction::Call(call), _) => Some(call.clone()),
            (EntryAction::Member(m), Some(Instance::Profile(p))) => p.member(*m).cloned(),
            (EntryAction::Group(g), Some(Instance::Profile(p))) => {
                let member = p.group(*g).zip(p.selector).and_then(|(group, selector)| {
                    self.hasher.buffer.clear();
                    selectors.iter().for_each(|b| self.hasher.buffer.push(b));
                    let hash = self.hasher.compute(selector.algorithm, &mut self.random);
                    group.pick(hash & (u64::MAX >> (64 - selector.output_width.clamp(1, 64))))
                });
                let call = member.and_then(|m| p.member(m)).cloned();
                if call.is_none() {
                    self.anomalies.empty_group += 1;
                }
                call
            }
            _ => None,
        };
        if table.direct_counter.is_some() || table.direct_meter.is_some() || table.idle_timeouts {
            let info = table.info.entry(handle).or_default();
            info.last_hit = now;
            if let Some(kind) = table.direct_counter {
                info.counter.count(kind, bytes);
            }
            if let Some((meter, kind)) = table.direct_meter {
                let result = info.meter.execute(now, kind.amount(bytes));
                if let Some(Instance::DirectMeter(color)) = self.instances.get_mut(meter.index()) {
                    *color = result;
                }
            }
        }
        Lookup { hit: Some(handle), action }
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
            match (instance, &old.instances[j]) {
                (Instance::Register(new), Instance::Register(old))
                    if new.width() == old.width() && new.len() == old.len() =>
                {
                    let elem = new.elem;
                    *new = old.clone();
                    new.elem = elem;
                }
                (Instance::Counter(new), Instance::Counter(old))
                    if new.kind == old.kind && new.cells.len() == old.cells.len() =>
                {
                    *new = old.clone();
                }
                (Instance::Meter(new), Instance::Meter(old))
                    if new.kind == old.kind && new.cells.len() == old.cells.len() =>
                {
                    *new = old.clone();
                }
                (Instance::Profile(new), Instance::Profile(old))
                    if new.size == old.size && new.selector == old.selector =>
                {
                    new.members = old.members.clone();
                    new.groups = old.groups.clone();
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

    /// Starts the idle timers of entries that came with the program or were taken over.
    pub(crate) fn arm_all(&mut self, now: Time) {
        let mut entries = Vec::new();
        for (i, table) in self.tables.iter().enumerate().filter(|(_, t)| t.idle_timeouts) {
            let timed = table.store.iter().filter(|(_, e)| e.idle_timeout_ns != 0);
            entries.extend(timed.map(|(h, e)| (TableId(i as u32), h, e.idle_timeout_ns)));
        }
        for (table, handle, timeout) in entries {
            self.arm(now, table, handle, timeout);
        }
    }
}

fn cell<T>(cells: &[T], index: u64) -> Result<&T, StateError> {
    let i = usize::try_from(index).unwrap_or(usize::MAX);
    cells.get(i).ok_or(StateError::IndexOutOfRange(cells.len() as u64))
}

fn cell_mut<T>(cells: &mut [T], index: u64) -> Result<&mut T, StateError> {
    let size = cells.len() as u64;
    let i = usize::try_from(index).unwrap_or(usize::MAX);
    cells.get_mut(i).ok_or(StateError::IndexOutOfRange(size))
}
