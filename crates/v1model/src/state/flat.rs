//! Tables for executors that look them up by themselves: kept in step with the stores.

use crate::externs::Instance;
use crate::state::State;
use crate::tables::TableState;
use pointsman_ir::table::flat::{FlatAction, FlatTable};
use pointsman_ir::{Entry, EntryAction, EntryHandle, ExternInstanceId, TableId};

/// What an entry does as long as the control plane changes nothing.
fn resolve<'a>(table: &TableState, instances: &'a [Instance], action: &'a EntryAction) -> FlatAction<'a> {
    match (action, table.profile.and_then(|p| instances.get(p.index()))) {
        (EntryAction::Call(call), _) => FlatAction::Call(call),
        (EntryAction::Member(m), Some(Instance::Profile(p))) => {
            p.member(*m).map_or(FlatAction::Nothing, |call| FlatAction::Call(call))
        }
        (EntryAction::Group(_), Some(Instance::Profile(_))) => FlatAction::Ask,
        _ => FlatAction::Nothing,
    }
}

impl State {
    /// Makes the flat tables from the stores; from now on they follow.
    pub(crate) fn build_flat(&mut self) {
        let types = &self.program.types;
        let build = |(n, table): (usize, &TableState)| {
            let shape = table.flat_shape(types, self.table_seed.wrapping_add(n as u64));
            let mut flat = FlatTable::new(&shape, table.store.default_action());
            for (handle, entry) in table.store.iter() {
                let Some(slot) = table.store.slot_of(handle) else { continue };
                let action = resolve(table, &self.instances, &entry.action);
                flat.insert(slot, handle, &entry.matches, entry.priority, action);
            }
            flat
        };
        self.flat = self.tables.iter().enumerate().map(build).collect();
    }

    /// The store has taken an entry. `stood`: it stood there already and does something else now.
    pub(super) fn flat_put(&mut self, id: TableId, handle: EntryHandle, entry: &Entry, stood: bool) {
        let Some(flat) = self.flat.get_mut(id.index()) else { return };
        let Some(table) = self.tables.get(id.index()) else { return };
        let Some(slot) = table.store.slot_of(handle) else { return };
        let action = resolve(table, &self.instances, &entry.action);
        if stood {
            flat.modify(slot, &entry.matches, action);
        } else {
            flat.insert(slot, handle, &entry.matches, entry.priority, action);
        }
    }

    /// The store has a new default action.
    pub(super) fn flat_default(&mut self, id: TableId) {
        if let (Some(flat), Some(table)) = (self.flat.get_mut(id.index()), self.tables.get(id.index())) {
            flat.set_default(table.store.default_action());
        }
    }

    /// A member of an action profile does something else now.
    pub(super) fn flat_member(&mut self, profile: ExternInstanceId, member: u32) {
        let of = EntryAction::Member(member);
        for (flat, table) in self.flat.iter_mut().zip(&self.tables) {
            if table.profile != Some(profile) || !table.store.names(&of) {
                continue;
            }
            for (handle, entry) in table.store.naming(&of) {
                if let Some(slot) = table.store.slot_of(handle) {
                    flat.modify(slot, &entry.matches, resolve(table, &self.instances, &of));
                }
            }
        }
    }
}
