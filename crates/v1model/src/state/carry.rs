//! State that moves from the old program to a new one: in constant time, whatever its size, and with all changes that
//! packets made until then.

use crate::externs::Instance;
use crate::state::State;
use pointsman_ir::{CellArray, CellKind, ExternInstanceId, TableId};
use std::mem::swap;

/// Objects that two programs have in common, as pairs of the old program's and the new one's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Tables for which [`State::can_keep_table`] holds.
    pub tables: Vec<(TableId, TableId)>,
    /// Registers, counters, meters and action profiles for which [`State::can_keep_object`] holds, and registers that have
    /// another length now: of these, cells that both have are kept.
    pub externs: Vec<(ExternInstanceId, ExternInstanceId)>,
}

impl State {
    /// Whether a table of this state can replace `new`'s without a check of its entries. Names of keys and actions are
    /// compared; the caller compares their meanings.
    pub fn can_keep_table(&self, id: TableId, new: &State, new_id: TableId) -> bool {
        let (Some(table), Some(new_table)) = (self.table(id), new.table(new_id)) else { return false };
        // The program's own entries may have changed. Timers are elsewhere.
        let declares = |state: &State, id: TableId| !state.program.tables[id.index()].entries.is_empty();
        table.same_shape(&self.program.types, new_table, &new.program.types)
            && table.store.capacity() == new_table.store.capacity()
            && !(declares(self, id) || declares(new, new_id) || table.idle_timeouts)
    }

    /// The same for a register, counter, meter or action profile.
    pub fn can_keep_object(&self, id: ExternInstanceId, new: &State, new_id: ExternInstanceId) -> bool {
        match (self.instances.get(id.index()), new.instances.get(new_id.index())) {
            (Some(Instance::Register(_)), Some(Instance::Register(_)))
            | (Some(Instance::Counter(_)), Some(Instance::Counter(_))) => {
                self.cells.arrays[id.index()].same_shape(&new.cells.arrays[new_id.index()])
            }
            (Some(Instance::Meter(a)), Some(Instance::Meter(b))) => a.kind == b.kind && a.len() == b.len(),
            (Some(Instance::Profile(a)), Some(Instance::Profile(b))) => a.is_like(b),
            _ => false,
        }
    }

    /// Moves the kept objects out of the old program's state.
    pub fn take_kept(&mut self, old: &mut State, kept: &Kept) {
        for (from, to) in &kept.tables {
            self.take_table(old, from.index(), to.index());
        }
        for (from, to) in &kept.externs {
            match (self.instances.get_mut(to.index()), old.instances.get_mut(from.index())) {
                (Some(Instance::Meter(new)), Some(Instance::Meter(old))) => swap(new, old),
                (Some(Instance::Profile(new)), Some(Instance::Profile(old))) => new.take(old),
                _ => {}
            }
        }
        self.take_cells(old, &kept.externs);
        self.flat_all_groups();
    }

    fn take_table(&mut self, old: &mut State, from: usize, to: usize) {
        let (Some(table), Some(old_table)) = (self.tables.get_mut(to), old.tables.get_mut(from)) else {
            return;
        };
        // The program decides about a default action that no controller has set.
        let default = table.store.default_action().clone();
        let own_default = table.has_const_default() || old_table.default_is_initial();
        swap(&mut table.store, &mut old_table.store);
        swap(&mut table.infos, &mut old_table.infos);
        self.hits.take(to, &mut old.hits, from);
        if own_default {
            table.store.set_default_action(default);
        }
        match (self.flat.get_mut(to), old.flat.get_mut(from)) {
            (Some(flat), Some(old)) => swap(flat, old),
            (Some(_), None) => self.flat[to] = self.flat_of(to),
            (None, _) => {}
        }
        self.flat_default(TableId(to as u32));
    }

    /// Cells with the same layout in both programs stay in place, all others are copied.
    fn take_cells(&mut self, old: &State, pairs: &[(ExternInstanceId, ExternInstanceId)]) {
        let from = |to: usize| pairs.iter().find(|(_, n)| n.index() == to).map(|(o, _)| o.index());
        let (places, old_places) = (CellArray::places(&self.shapes), CellArray::places(&old.shapes));
        for leader in 0..places.len() {
            let line: Vec<(usize, Option<usize>)> =
                (0..places.len()).filter(|i| places[*i].leader == leader).map(|i| (i, from(i))).collect();
            let old_leader = line.first().and_then(|(_, old)| Some(old_places[(*old)?].leader));
            let stays = |(to, from): &(usize, Option<usize>)| {
                from.is_some_and(|from| {
                    let (place, was) = (places[*to], old_places[from]);
                    self.cells.arrays[*to].same_shape(&old.cells.arrays[from])
                        && (place.first, place.stride) == (was.first, was.stride)
                        && Some(was.leader) == old_leader
                })
            };
            let whole = line.iter().all(stays);
            for (to, from) in line {
                let Some(from) = from else { continue };
                let was = &old.cells.arrays[from];
                let array = &mut self.cells.arrays[to];
                match whole {
                    true => *array = was.clone(),
                    false => array.copy_common(was),
                }
                if was.kind() != CellKind::Value {
                    old.cells.shards.iter().for_each(|shard| array.add_from(&shard[from]));
                }
            }
        }
    }
}
