//! `RECONCILE_AND_COMMIT`: the state that a new program takes over from the running one.
//!
//! Objects that are the same in both programs are moved at the moment of the switch-over: packets may use them until
//! then. All other state that controllers can see is read a part at a time, and written to the state of the new program
//! before it runs.

use super::pipeline::invalid;
use super::reading::{ReadStep, Reading};
use super::{Access, Installed, Server};
use crate::device::Device;
use crate::error::{Code, RpcError};
use crate::p4info::shape_changes;
use crate::proto::p4info as info;
use crate::proto::p4rt as pb;
use crate::schema::{Schema, TableSchema};
use pb::entity::Entity;
use pointsman_ir::ExternInstanceId;
use pointsman_v1model::{Kept, State, Time};
use std::collections::{BTreeMap, BTreeSet};

/// An update that brings state about in another pipeline.
struct Restore {
    update: pb::Update,
    /// It is about something that the program may have dropped: entries that it had as `const`.
    optional: bool,
}

/// Objects whose state is moved: their P4Info ids, and their places in the state.
struct Moves {
    ids: BTreeSet<u32>,
    kept: Kept,
}

impl Server {
    /// Copies the state that controllers can see from the live pipeline into a new one, except the objects in the
    /// result, which are to be moved.
    ///
    /// # Errors
    /// Some state does not fit.
    pub(super) fn reconcile(
        &mut self,
        device: &mut dyn Device,
        new: &mut Installed,
        new_state: &mut State,
        now: Time,
    ) -> Result<Kept, RpcError> {
        self.look_at_ports(device);
        let (Some(live), Some(state)) = (&self.live, device.state()) else { return Ok(Kept::default()) };
        let moves = moves(&live.schema, state, &new.schema, new_state);
        device.release();
        // Values keep their names, those in registers included.
        new.names = live.names.clone();
        let updates = self.snapshot(device, &moves.ids, now)?;
        clear_initial_entries(&new.schema, new_state);
        let misfit = |why: &str| {
            invalid(format!(
                "the current state does not fit the new program: {why}; VERIFY_AND_COMMIT drops it"
            ))
        };
        let Some(live) = &self.live else { return Ok(Kept::default()) };
        let changes = shape_changes(&live.schema.p4info, &new.schema.p4info, &used_ids(&updates));
        if let Some(change) = changes.first() {
            return Err(misfit(change));
        }
        take_notes(live, new, &moves);
        let (ports, Installed { schema, book, names, .. }) = (&self.ports, new);
        let cells = 0..u64::MAX;
        let mut access = Access { schema, book, state: new_state, names, ports, learn: true, cells, now };
        for Restore { update, optional } in &updates {
            match access.update(update, None) {
                Err(e) if !(*optional && e.code == Code::NotFound) => return Err(misfit(&e.message)),
                _ => {}
            }
        }
        access.names.settle();
        Ok(moves.kept)
    }

    /// All state that differs from the program's initial one, in objects with other ids than these, as updates that
    /// restore it.
    ///
    /// # Errors
    /// None that a client could bring about.
    fn snapshot(
        &mut self,
        device: &mut dyn Device,
        without: &BTreeSet<u32>,
        now: Time,
    ) -> Result<Vec<Restore>, RpcError> {
        let Some(live) = &self.live else { return Ok(Vec::new()) };
        let requests = all_but(&live.schema, without);
        let mut reading = Reading::of_live(self, requests);
        let mut updates = Vec::new();
        loop {
            match self.read_on(device, &mut reading, now) {
                ReadStep::More => {}
                ReadStep::Message(response) => {
                    for entity in response.entities.into_iter().filter_map(|e| e.entity) {
                        self.restore(device, entity, &mut updates);
                    }
                }
                ReadStep::Done(Ok(())) => return Ok(updates),
                ReadStep::Done(Err(e)) => {
                    return Err(invalid(format!("the current state cannot be read: {}", e.message)));
                }
            }
        }
    }

    /// Appends the updates that create an entity in a fresh pipeline; none if it is there from the start.
    fn restore(&self, device: &mut dyn Device, entity: Entity, updates: &mut Vec<Restore>) {
        use pb::update::Type;
        let zero = Some(pb::CounterData::default());
        let mut push = |op: Type, entity: Entity, optional: bool| {
            let update = pb::Update { r#type: op as i32, entity: Some(pb::Entity { entity: Some(entity) }) };
            updates.push(Restore { update, optional });
        };
        match entity {
            Entity::TableEntry(mut e) if e.is_const || e.is_default_action => {
                // The action may be the program's own, which cannot be written; counter and meter can.
                let key = pb::TableEntry {
                    table_id: e.table_id,
                    r#match: e.r#match.clone(),
                    priority: e.priority,
                    is_default_action: e.is_default_action,
                    ..Default::default()
                };
                let (data, config) = (e.counter_data.take(), e.meter_config.take());
                let live = self.live.as_ref().and_then(|l| Some((l, l.schema.tables.get(&e.table_id)?)));
                let state = device.state().zip(live);
                // An action equal to the program's own may have been written, too: then the entry is kept.
                let initial = state.is_some_and(|(state, (live, table))| {
                    !live.book.defaults.contains_key(&table.table)
                        && state.table(table.table).is_some_and(|t| t.default_is_initial())
                });
                device.release();
                if e.is_default_action && !e.is_const && !initial {
                    push(Type::Modify, Entity::TableEntry(e), false);
                }
                if data.is_some() && data != zero {
                    let entry = pb::DirectCounterEntry { table_entry: Some(key.clone()), data };
                    push(Type::Modify, Entity::DirectCounterEntry(entry), true);
                }
                if config.is_some() {
                    let entry = pb::DirectMeterEntry { table_entry: Some(key), config, counter_data: None };
                    push(Type::Modify, Entity::DirectMeterEntry(entry), true);
                }
            }
            Entity::ValueSetEntry(e) if e.members.is_empty() => {}
            Entity::RegisterEntry(_)
            | Entity::CounterEntry(_)
            | Entity::MeterEntry(_)
            | Entity::ValueSetEntry(_) => push(Type::Modify, entity, false),
            _ => push(Type::Insert, entity, false),
        }
    }
}

/// Requests for all that controllers can see, apart from objects with these ids.
fn all_but(schema: &Schema, without: &BTreeSet<u32>) -> Vec<pb::Entity> {
    use pb::packet_replication_engine_entry::Type as Replication;
    let replication =
        |r| Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(r) });
    let mut requests = Vec::new();
    let profiles: Vec<u32> = schema.profiles.keys().filter(|id| !without.contains(id)).copied().collect();
    for action_profile_id in &profiles {
        let action_profile_id = *action_profile_id;
        let all = pb::ActionProfileMember { action_profile_id, ..Default::default() };
        requests.push(Entity::ActionProfileMember(all));
    }
    for action_profile_id in profiles {
        let all = pb::ActionProfileGroup { action_profile_id, ..Default::default() };
        requests.push(Entity::ActionProfileGroup(all));
    }
    requests.push(replication(Replication::MulticastGroupEntry(pb::MulticastGroupEntry::default())));
    requests.push(replication(Replication::CloneSessionEntry(pb::CloneSessionEntry::default())));
    let tables = schema.tables.keys().filter(|id| !without.contains(id));
    for table_id in tables {
        let entries = pb::TableEntry {
            table_id: *table_id,
            counter_data: Some(pb::CounterData::default()),
            meter_config: Some(pb::MeterConfig::default()),
            ..Default::default()
        };
        requests.push(Entity::TableEntry(pb::TableEntry { is_default_action: true, ..entries.clone() }));
        requests.push(Entity::TableEntry(entries));
    }
    for register_id in schema.registers.keys().filter(|id| !without.contains(id)) {
        let all = pb::RegisterEntry { register_id: *register_id, ..Default::default() };
        requests.push(Entity::RegisterEntry(all));
    }
    for counter_id in schema.counters.keys().filter(|id| !without.contains(id)) {
        let all = pb::CounterEntry { counter_id: *counter_id, ..Default::default() };
        requests.push(Entity::CounterEntry(all));
    }
    for meter_id in schema.meters.keys().filter(|id| !without.contains(id)) {
        let all = pb::MeterEntry { meter_id: *meter_id, ..Default::default() };
        requests.push(Entity::MeterEntry(all));
    }
    requests.push(Entity::ValueSetEntry(pb::ValueSetEntry::default()));
    requests.push(Entity::DigestEntry(pb::DigestEntry::default()));
    requests.into_iter().map(|entity| pb::Entity { entity: Some(entity) }).collect()
}

/// The objects that are the same in both programs.
fn moves(old: &Schema, state: &State, new: &Schema, new_state: &State) -> Moves {
    let mut moves = Moves { ids: BTreeSet::new(), kept: Kept::default() };
    let (of, with) = (&old.p4info, &new.p4info);
    // Types that have other names or translations may mean other values.
    if of.type_info != with.type_info {
        return moves;
    }
    let externs = |id: Option<ExternInstanceId>, new_id: Option<ExternInstanceId>| {
        let (id, new_id) = (id?, new_id?);
        state.can_keep_object(id, new_state, new_id).then_some((id, new_id))
    };
    macro_rules! keep {
        ($infos:ident, $objects:ident, $instance:expr) => {
            for id in unchanged(&of.$infos, &with.$infos, |x| &x.preamble) {
                let pair =
                    externs(old.$objects.get(&id).map($instance), new.$objects.get(&id).map($instance));
                if let Some(pair) = pair {
                    moves.ids.insert(id);
                    moves.kept.externs.push(pair);
                }
            }
        };
    }
    keep!(registers, registers, |r| r.array.instance);
    keep!(counters, counters, |c| c.instance);
    keep!(meters, meters, |m| m.instance);
    keep!(action_profiles, profiles, |p| p.array.instance);
    // Of registers with another length, packets may change cells until the programs change places.
    let type_of = |info: &info::P4Info, id: u32| {
        let found = info.registers.iter().find(|r| r.preamble.as_ref().is_some_and(|p| p.id == id));
        found.map(|r| r.type_spec.clone())
    };
    for (id, register) in old.registers.iter().filter(|(id, _)| !moves.ids.contains(id)) {
        let same = new.registers.get(id).filter(|_| type_of(of, *id) == type_of(with, *id));
        moves.kept.externs.extend(same.map(|r| (register.array.instance, r.array.instance)));
    }
    let same_actions = unchanged(&of.actions, &with.actions, |a| &a.preamble);
    let is_same = |id: &u32| {
        let (Some(table), Some(new_table)) = (old.tables.get(id), new.tables.get(id)) else { return false };
        table.actions.keys().all(|action| same_actions.contains(action))
            && state.can_keep_table(table.table, new_state, new_table.table)
    };
    let tables: BTreeSet<u32> =
        unchanged(&of.tables, &with.tables, |t| &t.preamble).into_iter().filter(is_same).collect();
    keep_with_profiles(&mut moves, tables, old, new);
    moves
}

/// An action profile and all of its tables are moved, or none of them.
fn keep_with_profiles(moves: &mut Moves, tables: BTreeSet<u32>, old: &Schema, new: &Schema) {
    for (id, profile) in &old.profiles {
        if !profile.tables.iter().all(|table| tables.contains(table)) {
            moves.ids.remove(id);
            moves.kept.externs.retain(|(instance, _)| *instance != profile.array.instance);
        }
    }
    let profile_moves = |table: &TableSchema| {
        table
            .profile
            .is_none_or(|profile| moves.kept.externs.iter().any(|(instance, _)| *instance == profile))
    };
    let both = |id: &u32| old.tables.get(id).zip(new.tables.get(id));
    let found: Vec<(u32, (&TableSchema, &TableSchema))> = tables
        .iter()
        .filter_map(|id| Some((*id, both(id)?)))
        .filter(|(_, (t, _))| profile_moves(t))
        .collect();
    for (id, (table, new_table)) in found {
        moves.ids.insert(id);
        moves.kept.tables.push((table.table, new_table.table));
    }
}

/// Ids of the objects that two P4Infos describe in the same way.
fn unchanged<T: PartialEq>(
    old: &[T],
    new: &[T],
    preamble: impl Fn(&T) -> &Option<info::Preamble>,
) -> BTreeSet<u32> {
    let id = |object: &T| preamble(object).as_ref().map_or(0, |p| p.id);
    let new: BTreeMap<u32, &T> = new.iter().map(|object| (id(object), object)).collect();
    old.iter().filter(|object| new.get(&id(object)) == Some(object)).map(id).collect()
}

/// Takes over the server's own data about objects that are moved.
fn take_notes(live: &Installed, new: &mut Installed, moves: &Moves) {
    let table = |id| moves.kept.tables.iter().find(|(old, _)| *old == id).map(|(_, new)| *new);
    let object = |id| moves.kept.externs.iter().find(|(old, _)| *old == id).map(|(_, new)| *new);
    let (from, to) = (&live.book, &mut new.book);
    to.cookies.extend(from.cookies.iter().filter_map(|((id, h), cookie)| Some(((table(*id)?, *h), *cookie))));
    to.defaults.extend(from.defaults.iter().filter_map(|(id, note)| Some((table(*id)?, note.clone()))));
    to.one_shots
        .extend(from.one_shots.iter().filter_map(|((id, n), set)| Some(((object(*id)?, *n), set.clone()))));
    to.watches.extend(from.watches.iter().filter_map(|((id, n), w)| Some(((object(*id)?, *n), w.clone()))));
}

/// The ids of all objects and actions that updates name.
fn used_ids(updates: &[Restore]) -> BTreeSet<u32> {
    use pb::table_action::Type;
    let mut ids = BTreeSet::new();
    for entity in updates.iter().filter_map(|r| r.update.entity.as_ref()?.entity.as_ref()) {
        match entity {
            Entity::TableEntry(e) => {
                ids.insert(e.table_id);
                match e.action.as_ref().and_then(|a| a.r#type.as_ref()) {
                    Some(Type::Action(a)) => {
                        ids.insert(a.action_id);
                    }
                    Some(Type::ActionProfileActionSet(set)) => {
                        let actions = set.action_profile_actions.iter().filter_map(|a| a.action.as_ref());
                        ids.extend(actions.map(|a| a.action_id));
                    }
                    _ => {}
                }
            }
            Entity::DirectCounterEntry(e) => ids.extend(e.table_entry.as_ref().map(|e| e.table_id)),
            Entity::DirectMeterEntry(e) => ids.extend(e.table_entry.as_ref().map(|e| e.table_id)),
            Entity::ActionProfileMember(e) => {
                ids.insert(e.action_profile_id);
                ids.extend(e.action.as_ref().map(|a| a.action_id));
            }
            Entity::ActionProfileGroup(e) => {
                ids.insert(e.action_profile_id);
            }
            Entity::CounterEntry(e) => {
                ids.insert(e.counter_id);
            }
            Entity::MeterEntry(e) => {
                ids.insert(e.meter_id);
            }
            Entity::RegisterEntry(e) => {
                ids.insert(e.register_id);
            }
            Entity::ValueSetEntry(e) => {
                ids.insert(e.value_set_id);
            }
            Entity::DigestEntry(e) => {
                ids.insert(e.digest_id);
            }
            Entity::PacketReplicationEngineEntry(_) | Entity::ExternEntry(_) => {}
        }
    }
    ids
}

/// Removes the entries that a program brings and that controllers may remove.
fn clear_initial_entries(schema: &Schema, state: &mut State) {
    for table in schema.tables.values().filter(|t| !t.const_entries) {
        let entries: Vec<_> = state
            .entries(table.table)
            .filter(|(_, e)| !e.is_const)
            .map(|(_, e)| (e.matches.clone(), e.priority))
            .collect();
        for (matches, priority) in entries {
            let _ = state.delete(table.table, &matches, priority);
        }
    }
}
