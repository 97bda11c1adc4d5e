//! Tables for executors that look them up by themselves: kept in step with the stores.

use crate::externs::Instance;
use crate::state::State;
use crate::tables::TableState;
use pointsman_ir::table::flat::{FlatAction, FlatTable};
use pointsman_ir::{ActionCall, Entry, EntryAction, EntryHandle, ExternInstanceId, TableId};
use std::sync::Arc;

/// The action of an entry until the control plane changes it.
enum Resolved {
    Call(Arc<ActionCall>),
    Nothing,
    Group(u32),
}

impl Resolved {
    fn new(id: TableId, table: &TableState, instances: &[Instance], action: &EntryAction) -> Resolved {
        match (action, table.profile.and_then(|p| instances.get(p.index()))) {
            (EntryAction::Call(call), _) => Resolved::Call(call.clone()),
            (EntryAction::Member(m), Some(Instance::Profile(p))) => {
                let call = p.member(*m).and_then(|call| p.in_table(id, call));
                call.map_or(Resolved::Nothing, Resolved::Call)
            }
            (EntryAction::Group(g), Some(Instance::Profile(_))) => Resolved::Group(*g),
            _ => Resolved::Nothing,
        }
    }

    fn flat(&self) -> FlatAction<'_> {
        match self {
            Resolved::Call(call) => FlatAction::Call(call),
            Resolved::Nothing => FlatAction::Nothing,
            Resolved::Group(g) => FlatAction::Group(*g),
        }
    }
}

impl State {
    /// Makes the flat tables from the stores; from now on they follow.
    pub(crate) fn build_flat(&mut self) {
        self.flat = (0..self.tables.len()).map(|n| self.flat_of(n)).collect();
        self.flat_all_groups();
    }

    /// A flat table made from a store.
    pub(super) fn flat_of(&self, n: usize) -> FlatTable {
        let table = &self.tables[n];
        let shape = table.flat_shape(&self.program.types, self.table_seed.wrapping_add(n as u64));
        let mut flat = FlatTable::new(&shape, table.store.default_action());
        for (handle, entry) in table.store.iter() {
            let Some(slot) = table.store.slot_of(handle) else { continue };
            let action = Resolved::new(TableId(n as u32), table, &self.instances, &entry.action);
            flat.insert(slot, handle, &entry.matches, entry.priority, action.flat());
        }
        flat
    }

    /// The store has taken an entry. `stood`: it existed already and has another action now.
    pub(super) fn flat_put(&mut self, id: TableId, handle: EntryHandle, entry: &Entry, stood: bool) {
        let Some(flat) = self.flat.get_mut(id.index()) else { return };
        let Some(table) = self.tables.get(id.index()) else { return };
        let Some(slot) = table.store.slot_of(handle) else { return };
        let action = Resolved::new(id, table, &self.instances, &entry.action);
        if stood {
            flat.modify(slot, &entry.matches, action.flat());
        } else {
            flat.insert(slot, handle, &entry.matches, entry.priority, action.flat());
        }
    }

    /// The store has a new default action.
    pub(super) fn flat_default(&mut self, id: TableId) {
        if let (Some(flat), Some(table)) = (self.flat.get_mut(id.index()), self.tables.get(id.index())) {
            flat.set_default(table.store.default_action());
        }
    }

    /// A member of an action profile has another action now.
    pub(super) fn flat_member(&mut self, profile: ExternInstanceId, member: u32) {
        let of = EntryAction::Member(member);
        for (n, (flat, table)) in self.flat.iter_mut().zip(&self.tables).enumerate() {
            if table.profile != Some(profile) || !table.store.names(&of) {
                continue;
            }
            let action = Resolved::new(TableId(n as u32), table, &self.instances, &of);
            for (handle, entry) in table.store.naming(&of) {
                if let Some(slot) = table.store.slot_of(handle) {
                    flat.modify(slot, &entry.matches, action.flat());
                }
            }
        }
    }

    /// A group of an action profile has other members, or is gone.
    pub(super) fn flat_group(&mut self, profile: ExternInstanceId, group: u32) {
        let Some(Instance::Profile(p)) = self.instances.get(profile.index()) else { return };
        for (n, (flat, table)) in self.flat.iter_mut().zip(&self.tables).enumerate() {
            if table.profile != Some(profile) {
                continue;
            }
            match p.live_members(TableId(n as u32), group, self.replication.down_ports()) {
                Some(members) => {
                    flat.set_group(group, members.iter().map(|(call, weight)| (&**call, *weight)))
                }
                None => flat.drop_group(group),
            }
        }
    }

    /// Members of groups have other actions, or other ports are down.
    pub(super) fn flat_all_groups(&mut self) {
        if self.flat.is_empty() {
            return;
        }
        let mut all = Vec::new();
        for (n, instance) in self.instances.iter().enumerate() {
            if let Instance::Profile(p) = instance {
                let numbers = p.groups().map(|g| g.0).chain(p.one_shots().map(|g| g.0));
                all.extend(numbers.map(|group| (ExternInstanceId(n as u32), group)));
            }
        }
        all.into_iter().for_each(|(profile, group)| self.flat_group(profile, group));
    }
}
