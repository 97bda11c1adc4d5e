//! The control plane's way to registers, counters, meters, value sets, action profiles and hash parameters.

use crate::counter::{CounterArray, CounterCell};
use crate::externs::Instance;
use crate::hash::{Crc, CrcParams};
use crate::meter::{Meter, MeterArray, MeterConfig, RatesError};
use crate::profile::{ActionProfile, Group, OneShot, ProfileError};
use crate::register::Register;
use crate::state::State;
use crate::time::Time;
use pointsman_ir::{ActionCall, Bits, EntryAction, ExternInstanceId, KeyMatch, TableId, Type, ValueSetId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why a register, counter, meter or value set could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateError {
    /// The object does not exist, or is of another kind.
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
    BadMeterConfig(RatesError),
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
            StateError::BadMeterConfig(e) => e.fmt(f),
            StateError::BadMember(m) => f.write_str(m),
            StateError::TooManyMembers(size) => write!(f, "the value set holds {size} members at most"),
        }
    }
}

impl std::error::Error for StateError {}

impl State {
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
        let cell = self.cells.get(id).and_then(|c| c.get(index));
        cell.ok_or(StateError::IndexOutOfRange(r.len()))
    }

    /// Writes a cell of a register array.
    pub fn write_register(
        &mut self,
        id: ExternInstanceId,
        index: u64,
        value: &Bits,
    ) -> Result<(), StateError> {
        let r = self.register(id).ok_or(StateError::UnknownObject)?;
        if value.width() != r.width() {
            return Err(StateError::BadWidth { want: r.width(), got: value.width() });
        }
        let done = self.cells.get(id).is_some_and(|c| c.set(index, value));
        if done { Ok(()) } else { Err(StateError::IndexOutOfRange(r.len())) }
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
        let words = self.cells.counts(id, index);
        let words = words.ok_or(StateError::IndexOutOfRange(c.len()))?;
        Ok(CounterCell::from_words(c.kind, words))
    }

    /// Sets a counter.
    pub fn write_counter(
        &mut self,
        id: ExternInstanceId,
        index: u64,
        value: CounterCell,
    ) -> Result<(), StateError> {
        let c = self.counter(id).ok_or(StateError::UnknownObject)?;
        let words = value.to_words(c.kind);
        let done = self.cells.set_counts(id, index, words);
        if done { Ok(()) } else { Err(StateError::IndexOutOfRange(c.len())) }
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
        let cells = m.cells.shared();
        cell(&cells, index).map(Meter::config)
    }

    /// One meter of an array.
    pub fn meter_cell(&self, id: ExternInstanceId, index: u64) -> Result<Meter, StateError> {
        let cells = self.meter(id).ok_or(StateError::UnknownObject)?.cells.shared();
        cell(&cells, index).cloned()
    }

    /// A meter with its buckets and counts, to be changed or restored.
    pub fn meter_mut(&mut self, id: ExternInstanceId, index: u64) -> Result<&mut Meter, StateError> {
        match self.instances.get_mut(id.index()) {
            Some(Instance::Meter(m)) => cell_mut(m.cells.alone(), index),
            _ => Err(StateError::UnknownObject),
        }
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
        cell_mut(m.cells.alone(), index)?.configure(now, config);
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
                m.check(m.kind(), *width).map_err(|e| StateError::BadMember(e.to_string()))?;
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
        let call = Arc::new(call.clone());
        let mut checked = Err("no table uses this action profile, or none lists the action".to_string());
        for id in profile.tables() {
            let (Some(table), Some(call)) = (self.table(*id), profile.in_table(*id, &call)) else { continue };
            checked = table.check_call(&self.program.types, &call, false).map_err(|e| e.to_string());
            if checked.is_ok() {
                break;
            }
        }
        checked.map_err(ProfileError::BadAction)
    }

    /// Tables of an action profile with an entry that does this.
    fn naming(&self, id: ExternInstanceId, action: EntryAction) -> impl Iterator<Item = TableId> + '_ {
        let tables = self.profile(id).map_or(&[][..], |p| p.tables()).iter().copied();
        tables.filter(move |t| self.table(*t).is_some_and(|t| t.store.names(&action)))
    }

    fn entry_uses(&self, id: ExternInstanceId, action: EntryAction) -> bool {
        self.naming(id, action).next().is_some()
    }

    /// Whether all tables with an entry for this member or group list its action. `old` restores the previous state.
    fn check_users(
        &mut self,
        id: ExternInstanceId,
        actions: Vec<EntryAction>,
        old: impl FnOnce(&mut ActionProfile) -> Result<(), ProfileError>,
    ) -> Result<(), ProfileError> {
        let profile = self.profile(id).ok_or(ProfileError::UnknownProfile)?;
        let fits = |table: &TableId, action: &EntryAction| match action {
            EntryAction::Member(m) => {
                profile.member(*m).is_some_and(|c| profile.in_table(*table, c).is_some())
            }
            EntryAction::Group(g) => profile.group_fits(*table, *g),
            EntryAction::Call(_) => true,
        };
        let users = |action: &EntryAction| self.naming(id, action.clone()).collect::<Vec<_>>();
        let misfit = actions.iter().find_map(|a| users(a).into_iter().find(|table| !fits(table, a)));
        let Some(table) = misfit else { return Ok(()) };
        let name = &self.program.tables[table.index()].name;
        let why = format!("table {name} has an entry for it, but does not list its action");
        old(self.profile_mut(id)?)?;
        Err(ProfileError::BadAction(why))
    }

    /// Adds a member to an action profile. `call.action` counts the actions of its tables: those of the first one, then
    /// those that only later ones list ([`ActionProfile::of_table`]).
    pub fn insert_member(
        &mut self,
        id: ExternInstanceId,
        member: u32,
        call: ActionCall,
    ) -> Result<(), ProfileError> {
        self.check_member(id, &call)?;
        self.profile_mut(id)?.insert_member(member, call)
    }

    /// Replaces the action of a member.
    pub fn modify_member(
        &mut self,
        id: ExternInstanceId,
        member: u32,
        call: ActionCall,
    ) -> Result<(), ProfileError> {
        self.check_member(id, &call)?;
        let profile = self.profile_mut(id)?;
        let old = profile.member(member).map(|c| ActionCall::clone(c)).ok_or(ProfileError::NotFound)?;
        profile.modify_member(member, call)?;
        let groups = profile.groups().filter(|(_, g)| g.members.iter().any(|m| m.member == member));
        let mut named: Vec<EntryAction> = groups.map(|(g, _)| EntryAction::Group(g)).collect();
        named.push(EntryAction::Member(member));
        let changed = named.clone();
        self.check_users(id, named, |profile| profile.modify_member(member, old))?;
        self.flat_member(id, member);
        for action in changed {
            if let EntryAction::Group(group) = action {
                self.flat_group(id, group);
            }
        }
        Ok(())
    }

    /// Removes a member that no entry and no group uses.
    pub fn delete_member(&mut self, id: ExternInstanceId, member: u32) -> Result<(), ProfileError> {
        if self.entry_uses(id, EntryAction::Member(member)) {
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
        self.profile_mut(id)?.insert_group(group, value)?;
        self.flat_group(id, group);
        Ok(())
    }

    /// Replaces the members of a group.
    pub fn modify_group(
        &mut self,
        id: ExternInstanceId,
        group: u32,
        value: Group,
    ) -> Result<(), ProfileError> {
        let profile = self.profile_mut(id)?;
        let old = profile.group(group).cloned().ok_or(ProfileError::NotFound)?;
        profile.modify_group(group, value)?;
        self.check_users(id, vec![EntryAction::Group(group)], |profile| profile.modify_group(group, old))?;
        self.flat_group(id, group);
        Ok(())
    }

    /// Removes a group that no entry uses.
    pub fn delete_group(&mut self, id: ExternInstanceId, group: u32) -> Result<(), ProfileError> {
        if self.entry_uses(id, EntryAction::Group(group)) {
            return Err(ProfileError::InUse);
        }
        self.profile_mut(id)?.delete_group(group)?;
        self.flat_group(id, group);
        Ok(())
    }

    /// Adds a group with its own members to an action selector and returns its number, which entries name like that of
    /// any group. A selector has such groups, or members and groups, but not both.
    pub fn insert_one_shot(&mut self, id: ExternInstanceId, group: OneShot) -> Result<u32, ProfileError> {
        for member in &group.members {
            self.check_member(id, &member.call)?;
        }
        let number = self.profile_mut(id)?.insert_one_shot(group)?;
        self.flat_group(id, number);
        Ok(number)
    }

    /// The same under a number that it had before.
    pub(super) fn insert_one_shot_as(
        &mut self,
        id: ExternInstanceId,
        number: u32,
        group: OneShot,
    ) -> Result<(), ProfileError> {
        for member in &group.members {
            self.check_member(id, &member.call)?;
        }
        self.profile_mut(id)?.insert_one_shot_as(number, group)?;
        self.flat_group(id, number);
        Ok(())
    }

    /// Sets the number of the next such group.
    pub(super) fn set_next_one_shot(
        &mut self,
        id: ExternInstanceId,
        number: u32,
    ) -> Result<(), ProfileError> {
        self.profile_mut(id)?.set_next_one_shot(number)
    }

    /// Removes a group that [`State::insert_one_shot`] made, and gives it back. The caller has made sure that no entry
    /// names it.
    pub fn delete_one_shot(&mut self, id: ExternInstanceId, number: u32) -> Result<OneShot, ProfileError> {
        let group = self.profile_mut(id)?.delete_one_shot(number)?;
        self.flat_group(id, number);
        Ok(group)
    }

    /// Puts a group back that [`State::delete_one_shot`] gave.
    pub fn restore_one_shot(
        &mut self,
        id: ExternInstanceId,
        number: u32,
        group: OneShot,
    ) -> Result<(), ProfileError> {
        self.profile_mut(id)?.restore_one_shot(number, group)?;
        self.flat_group(id, number);
        Ok(())
    }

    // ---- ports ----

    /// A port went up or down. Members that watch a port which is down are not chosen, and replicas of multicast groups
    /// give way to their backups, or to nothing. All ports are up at first.
    pub fn set_port_status(&mut self, port: u32, up: bool) {
        self.replication.set_port_status(port, up);
        self.flat_all_groups();
    }

    /// Sets which ports are down.
    pub(crate) fn set_down_ports(&mut self, down: BTreeSet<u32>) {
        self.replication.set_down_ports(down);
        self.flat_all_groups();
    }

    /// Takes over from another state which ports are down.
    pub fn copy_port_status(&mut self, other: Option<&State>) {
        if let Some(other) = other {
            self.set_down_ports(other.replication.down_ports().clone());
        }
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
