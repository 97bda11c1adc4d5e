//! `Read` (P4Runtime specification, "`Read` RPC").

use super::resources::{by_id, cells, encode_counter, encode_marked, encode_meter};
use super::roles::{RoleRules, entity_ids};
use super::tables::DirectOf;
use super::{Access, RoleKey, Server};
use crate::device::Device;
use crate::entry::{self, Use};
use crate::error::{EntityError, RpcError};
use crate::p4data;
use crate::proto::p4rt as pb;
use crate::schema::{Schema, TableSchema};
use pb::entity::Entity;
use pb::packet_replication_engine_entry::Type as Replication;
use pointsman_ir::{Entry, EntryAction, EntryHandle, KeyMatch, TableId};
use pointsman_v1model::{Register, Time};
use prost::Message;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes after which a message is sent: well below the 4 MiB that gRPC clients accept.
const ENOUGH_BYTES: usize = 1 << 20;

/// What of an entry's action a read filters by.
enum Wanted {
    /// Which action it is.
    ActionId(u32),
    /// The action with its parameters, the member, the group.
    Action(EntryAction),
    OneShot(pb::ActionProfileActionSet),
}

/// The answer to a `Read`: what was found, and then how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOutcome {
    /// To be sent in this order, whatever the status.
    pub responses: Vec<pb::ReadResponse>,
    /// The status of the call.
    pub status: Result<(), RpcError>,
}

/// Takes what a read finds and makes messages of it.
pub(super) struct Found<'a> {
    entities: Vec<pb::Entity>,
    bytes: usize,
    max_entities: usize,
    /// Only what this role may see.
    rules: Option<(&'a RoleRules, &'a Schema)>,
    send: &'a mut dyn FnMut(pb::ReadResponse),
}

impl<'a> Found<'a> {
    pub fn new(
        max_entities: usize,
        rules: Option<(&'a RoleRules, &'a Schema)>,
        send: &'a mut dyn FnMut(pb::ReadResponse),
    ) -> Self {
        Found { entities: Vec::new(), bytes: 0, max_entities, rules, send }
    }

    pub fn push(&mut self, entity: Entity) {
        let hidden = |(rules, schema): &(&RoleRules, &Schema)| !rules.allows(&entity_ids(schema, &entity));
        if self.rules.as_ref().is_some_and(hidden) {
            return;
        }
        let entity = pb::Entity { entity: Some(entity) };
        let bytes = entity.encoded_len();
        if self.bytes + bytes > ENOUGH_BYTES || self.entities.len() >= self.max_entities {
            self.flush();
        }
        self.bytes += bytes;
        self.entities.push(entity);
    }

    /// Sends what has gathered.
    pub fn flush(&mut self) {
        if !self.entities.is_empty() {
            self.bytes = 0;
            (self.send)(pb::ReadResponse { entities: std::mem::take(&mut self.entities) });
        }
    }
}

impl Server {
    /// `Read`, with all that it finds at once; [`Server::read_with`] does not gather it.
    pub fn read(&mut self, device: &mut dyn Device, request: &pb::ReadRequest, now: Time) -> ReadOutcome {
        let mut responses = Vec::new();
        let status = self.read_with(device, request, now, &mut |response| responses.push(response));
        ReadOutcome { responses, status }
    }

    /// `Read`. Messages go to `send` as they are made, each well below the 4 MiB that clients accept; they are to be sent
    /// on whatever the status is. Entries come table by table in the order of ids, and within a table in the order in
    /// which they were added.
    ///
    /// A role with a configuration sees what it may write, all others see everything.
    ///
    /// # Errors
    /// Another device, no pipeline, or one outcome for each request of the batch.
    pub fn read_with(
        &mut self,
        device: &mut dyn Device,
        request: &pb::ReadRequest,
        now: Time,
        send: &mut dyn FnMut(pb::ReadResponse),
    ) -> Result<(), RpcError> {
        self.check_device(request.device_id)?;
        let max_entities = self.config.entities_per_response;
        let rules = self.arbitration.rules(&RoleKey::new(&request.role, 0)).cloned();
        let access = self.access(device, now)?;
        let rules = rules.as_ref().map(|rules| (rules, access.schema));
        let mut found = Found::new(max_entities, rules, send);
        // Entities are large: for many small answers there is room from the beginning.
        found.entities.reserve(request.entities.len().min(max_entities));
        let outcomes: Vec<_> = request.entities.iter().map(|e| access.read(e, &mut found)).collect();
        found.flush();
        RpcError::from_batch("entities", &outcomes).map_or(Ok(()), Err)
    }
}

/// The objects that an id names: one, or all for 0.
fn select<'a, S>(map: &'a BTreeMap<u32, S>, what: &str, id: u32) -> Result<Vec<(u32, &'a S)>, EntityError> {
    if id == 0 {
        return Ok(map.iter().map(|(id, s)| (*id, s)).collect());
    }
    Ok(vec![(id, by_id(map, what, id)?)])
}

/// An index without an object means nothing.
fn no_index(id: u32, index: Option<&pb::Index>) -> Result<(), EntityError> {
    match (id, index) {
        (0, Some(_)) => Err(EntityError::invalid("an index is given, but no id")),
        _ => Ok(()),
    }
}

fn index(at: u64) -> Option<pb::Index> {
    Some(pb::Index { index: i64::try_from(at).unwrap_or(i64::MAX) })
}

impl Access<'_> {
    /// Finds what one request of a batch asks for. Every reason to fail is looked for before anything is found.
    ///
    /// # Errors
    /// The request is malformed, or names something that is not there.
    pub(super) fn read(&self, request: &pb::Entity, out: &mut Found) -> Result<(), EntityError> {
        match &request.entity {
            None => Err(EntityError::invalid("no entity is set: name the kind of entity to be read")),
            Some(Entity::TableEntry(e)) => self.read_tables(e, out),
            Some(Entity::DirectCounterEntry(e)) => self.read_direct_counters(e, out),
            Some(Entity::DirectMeterEntry(e)) => self.read_direct_meters(e, out),
            Some(Entity::CounterEntry(e)) => self.read_counters(e, out),
            Some(Entity::MeterEntry(e)) => self.read_meters(e, out),
            Some(Entity::RegisterEntry(e)) => self.read_registers(e, out),
            Some(Entity::ActionProfileMember(e)) => self.read_members(e, out),
            Some(Entity::ActionProfileGroup(e)) => self.read_groups(e, out),
            Some(Entity::PacketReplicationEngineEntry(e)) => self.read_replication(e, out),
            Some(Entity::ValueSetEntry(e)) => self.read_value_sets(e, out),
            Some(Entity::DigestEntry(e)) => self.read_digests(e, out),
            // There are no such instances, so a read of all of them finds none.
            Some(Entity::ExternEntry(e)) if e.extern_type_id == 0 => Ok(()),
            Some(Entity::ExternEntry(_)) => {
                Err(EntityError::unimplemented("this target has no externs beyond those of P4Runtime"))
            }
        }
    }

    /// "Wildcard Reads" of tables.
    fn read_tables(&self, e: &pb::TableEntry, out: &mut Found) -> Result<(), EntityError> {
        if e.table_id == 0 {
            if !e.r#match.is_empty() || e.action.is_some() || e.priority != 0 {
                let message = "match, action and priority filter the entries of one table: set table_id";
                return Err(EntityError::invalid(message));
            }
            for table in self.schema.tables.values() {
                self.read_table(table, e, out)?;
            }
            return Ok(());
        }
        let table = entry::table(self.schema, e.table_id)?;
        if e.time_since_last_hit.is_some() && !table.idle_timeouts {
            return Err(EntityError::invalid(format!("table {}: it has no idle timeouts", table.name)));
        }
        self.read_table(table, e, out).map_err(|error| error.at(format_args!("table {}", table.name)))
    }

    fn read_table(
        &self,
        table: &TableSchema,
        e: &pb::TableEntry,
        out: &mut Found,
    ) -> Result<(), EntityError> {
        if e.is_default_action {
            if let Some(found) = self.default_entry(table, e) {
                out.push(Entity::TableEntry(found));
            }
            return Ok(());
        }
        let Some(state) = self.state.table(table.table) else { return Ok(()) };
        let action = match e.action.as_ref().map(|a| &a.r#type) {
            None => None,
            Some(Some(pb::table_action::Type::Action(a))) if a.params.is_empty() => {
                let listed = table.actions.get(&a.action_id);
                let index = listed.ok_or_else(|| EntityError::invalid("the table has no such action"))?.index;
                Some(Wanted::ActionId(index))
            }
            // More than the specification asks for. Clients often read with the message that they wrote with.
            Some(Some(pb::table_action::Type::Action(a))) => {
                let call = entry::decode_action(&self.codec(), self.schema, table, a, Use::Entry)?;
                Some(Wanted::Action(EntryAction::Call(Arc::new(call))))
            }
            Some(Some(pb::table_action::Type::ActionProfileMemberId(id))) => {
                Some(Wanted::Action(EntryAction::Member(*id)))
            }
            Some(Some(pb::table_action::Type::ActionProfileGroupId(id))) => {
                Some(Wanted::Action(EntryAction::Group(*id)))
            }
            Some(Some(pb::table_action::Type::ActionProfileActionSet(set))) => {
                let profiles = self.schema.profiles.values();
                let profile =
                    profiles.filter(|p| p.selector).find(|p| Some(p.array.instance) == table.profile);
                let profile = profile.ok_or_else(|| EntityError::invalid("it has no action selector"))?;
                Some(Wanted::OneShot(self.decode_action_set(table, profile, set)?.1))
            }
            Some(None) => return Err(EntityError::invalid("the action is empty")),
        };
        let wanted = |handle: EntryHandle, entry: &Entry| {
            let cookie = self.book.cookies.get(&(table.table, handle)).copied().unwrap_or(0);
            let action = match &action {
                None => true,
                Some(Wanted::ActionId(id)) => {
                    matches!(&entry.action, EntryAction::Call(c) if c.action == *id)
                }
                Some(Wanted::Action(action)) => entry.action == *action,
                Some(Wanted::OneShot(set)) => self.one_shot(table, &entry.action) == Some(set),
            };
            #[allow(deprecated)]
            let cookie = e.controller_metadata == 0 || e.controller_metadata == cookie;
            action && cookie && (e.metadata.is_empty() || e.metadata == entry.metadata)
        };
        let mut push = |handle: EntryHandle, entry: &Entry| {
            if wanted(handle, entry) {
                out.push(Entity::TableEntry(self.table_entry(table, handle, entry, e)));
            }
        };
        if e.r#match.is_empty() {
            for (handle, entry) in
                state.store().iter().filter(|(_, x)| e.priority == 0 || x.priority == e.priority)
            {
                push(handle, &entry);
            }
            return Ok(());
        }
        let matches = entry::decode_match(&self.codec(), &table.fields, &e.r#match)?;
        if e.priority != 0 || !table.needs_priority() {
            let found = state.store().find(&matches, e.priority);
            if let Some((handle, entry)) = found.and_then(|h| Some((h, state.store().get(h)?))) {
                push(handle, &entry);
            }
        } else {
            for (handle, entry) in state.store().iter().filter(|(_, x)| x.matches == matches) {
                push(handle, &entry);
            }
        }
        Ok(())
    }

    /// An entry in protobuf, with those parts that only come when `request` sets them.
    pub(super) fn table_entry(
        &self,
        table: &TableSchema,
        handle: EntryHandle,
        entry: &Entry,
        request: &pb::TableEntry,
    ) -> pb::TableEntry {
        use pb::table_action::Type;
        let id = table.table;
        let action = match &entry.action {
            EntryAction::Call(call) => {
                entry::encode_action(&self.codec(), self.schema, table, call).map(Type::Action)
            }
            EntryAction::Member(member) => Some(Type::ActionProfileMemberId(*member)),
            EntryAction::Group(group) => Some(match self.one_shot(table, &entry.action) {
                Some(set) => Type::ActionProfileActionSet(set.clone()),
                None => Type::ActionProfileGroupId(*group),
            }),
        };
        let counter =
            request.counter_data.as_ref().and_then(|_| self.state.direct_counter(id, Some(handle)).ok());
        let (config, marked) = self.meter_parts(id, Some(handle), request);
        let idle =
            request.time_since_last_hit.as_ref().and_then(|_| self.state.idle_ns(self.now, id, handle).ok());
        let elapsed = |ns| pb::table_entry::IdleTimeout { elapsed_ns: i64::try_from(ns).unwrap_or(i64::MAX) };
        #[allow(deprecated)]
        pb::TableEntry {
            action: Some(pb::TableAction { r#type: action }),
            controller_metadata: self.book.cookies.get(&(id, handle)).copied().unwrap_or(0),
            metadata: entry.metadata.clone(),
            idle_timeout_ns: i64::try_from(entry.idle_timeout_ns).unwrap_or(i64::MAX),
            is_const: table.const_entries || entry.is_const,
            counter_data: counter.map(encode_counter),
            meter_config: config,
            meter_counter_data: marked,
            time_since_last_hit: idle.map(elapsed),
            ..entry::encode_key(&self.codec(), table, entry)
        }
    }

    /// The message of a one-shot group.
    fn one_shot(&self, table: &TableSchema, action: &EntryAction) -> Option<&pb::ActionProfileActionSet> {
        let EntryAction::Group(number) = action else { return None };
        self.book.one_shots.get(&(table.profile?, *number))
    }

    fn default_entry(&self, table: &TableSchema, request: &pb::TableEntry) -> Option<pb::TableEntry> {
        let id = table.table;
        let call = self.state.table(id)?.store().default_action();
        let (cookie, metadata) = self.book.defaults.get(&id).cloned().unwrap_or_default();
        let action =
            entry::encode_action(&self.codec(), self.schema, table, call).map(pb::table_action::Type::Action);
        let counter = request.counter_data.as_ref().and_then(|_| self.state.direct_counter(id, None).ok());
        let (config, marked) = self.meter_parts(id, None, request);
        #[allow(deprecated)]
        Some(pb::TableEntry {
            table_id: table.id,
            action: Some(pb::TableAction { r#type: action }),
            controller_metadata: cookie,
            metadata,
            is_default_action: true,
            is_const: table.const_default,
            counter_data: counter.map(encode_counter),
            meter_config: config,
            meter_counter_data: marked,
            ..Default::default()
        })
    }

    /// Configuration and counts of a direct meter, as far as `request` sets them.
    fn meter_parts(
        &self,
        table: TableId,
        of: DirectOf,
        request: &pb::TableEntry,
    ) -> (Option<pb::MeterConfig>, Option<pb::MeterCounterData>) {
        let Ok(meter) = self.state.direct_meter(table, of) else { return (None, None) };
        let config = request.meter_config.and_then(|_| meter.config()).map(encode_meter);
        (config, request.meter_counter_data.map(|_| encode_marked(meter.marked())))
    }

    /// Visits the entries that a direct counter or meter read is about, with the message that names each: one, those of
    /// a table or of all tables, or, where `is_default_action` says so, the default entries.
    fn direct_entries(
        &self,
        e: Option<&pb::TableEntry>,
        what: &str,
        has: impl Fn(&TableSchema) -> bool + Copy,
        mut visit: impl FnMut(&TableSchema, DirectOf, pb::TableEntry) -> Result<(), EntityError>,
    ) -> Result<(), EntityError> {
        let everything = pb::TableEntry::default();
        let request = e.unwrap_or(&everything);
        let codec = self.codec();
        let default_key = |id| pb::TableEntry { table_id: id, is_default_action: true, ..Default::default() };
        let one = request.table_id != 0 && (!request.r#match.is_empty() || request.priority != 0);
        if one {
            let (id, of) = self.direct_of(Some(request), what, has)?;
            let entry = of.and_then(|h| self.state.table(id)?.store().get(h));
            let table = self.schema.table_by_index(id);
            return match (table, entry) {
                (Some(table), Some(entry)) => visit(table, of, entry::encode_key(&codec, table, &entry)),
                (Some(table), None) => visit(table, None, default_key(table.id)),
                (None, _) => Ok(()),
            };
        }
        if request.table_id == 0 && (!request.r#match.is_empty() || request.priority != 0) {
            return Err(EntityError::invalid("match and priority name an entry of one table: set table_id"));
        }
        let tables: Vec<&TableSchema> = match request.table_id {
            0 => self.schema.tables.values().filter(|t| has(t)).collect(),
            id => vec![entry::table(self.schema, id)?],
        };
        for table in tables {
            if !has(table) {
                return Err(EntityError::invalid(format!("table {} has no direct {what}", table.name)));
            }
            if request.is_default_action {
                visit(table, None, default_key(table.id))?;
                continue;
            }
            for (handle, entry) in self.state.entries(table.table) {
                visit(table, Some(handle), entry::encode_key(&codec, table, &entry))?;
            }
        }
        Ok(())
    }

    fn read_direct_counters(&self, e: &pb::DirectCounterEntry, out: &mut Found) -> Result<(), EntityError> {
        let has = |t: &TableSchema| t.direct_counter.is_some();
        self.direct_entries(e.table_entry.as_ref(), "counter", has, |table, of, key| {
            let data = Some(encode_counter(self.state.direct_counter(table.table, of)?));
            out.push(Entity::DirectCounterEntry(pb::DirectCounterEntry { table_entry: Some(key), data }));
            Ok(())
        })
    }

    fn read_direct_meters(&self, e: &pb::DirectMeterEntry, out: &mut Found) -> Result<(), EntityError> {
        let has = |t: &TableSchema| t.direct_meter.is_some();
        self.direct_entries(e.table_entry.as_ref(), "meter", has, |table, of, key| {
            let meter = self.state.direct_meter(table.table, of)?;
            out.push(Entity::DirectMeterEntry(pb::DirectMeterEntry {
                table_entry: Some(key),
                config: meter.config().map(encode_meter),
                counter_data: e.counter_data.map(|_| encode_marked(meter.marked())),
            }));
            Ok(())
        })
    }

    fn read_counters(&self, e: &pb::CounterEntry, out: &mut Found) -> Result<(), EntityError> {
        no_index(e.counter_id, e.index.as_ref())?;
        for (id, counter) in select(&self.schema.counters, "counter", e.counter_id)? {
            let range = cells(counter, e.index.as_ref());
            for at in range.map_err(|e| e.at(format_args!("counter {}", counter.name)))? {
                let data = Some(encode_counter(self.state.read_counter(counter.instance, at)?));
                out.push(Entity::CounterEntry(pb::CounterEntry { counter_id: id, index: index(at), data }));
            }
        }
        Ok(())
    }

    fn read_meters(&self, e: &pb::MeterEntry, out: &mut Found) -> Result<(), EntityError> {
        no_index(e.meter_id, e.index.as_ref())?;
        for (id, meter) in select(&self.schema.meters, "meter", e.meter_id)? {
            let range = cells(meter, e.index.as_ref());
            for at in range.map_err(|e| e.at(format_args!("meter {}", meter.name)))? {
                let cell = self.state.meter_cell(meter.instance, at)?;
                let config = cell.config().map(encode_meter);
                let counter_data = e.counter_data.map(|_| encode_marked(cell.marked()));
                let entry = pb::MeterEntry { meter_id: id, index: index(at), config, counter_data };
                out.push(Entity::MeterEntry(entry));
            }
        }
        Ok(())
    }

    fn read_registers(&self, e: &pb::RegisterEntry, out: &mut Found) -> Result<(), EntityError> {
        no_index(e.register_id, e.index.as_ref())?;
        let program = &self.schema.program;
        for (id, register) in select(&self.schema.registers, "register", e.register_id)? {
            let range = cells(&register.array, e.index.as_ref());
            for at in range.map_err(|e| e.at(format_args!("register {}", register.array.name)))? {
                let bits = self.state.read_register(register.array.instance, at)?;
                let value = Register::unpack(&program.types, register.ty, &bits);
                let data = Some(p4data::encode(&self.codec(), program, register.ty, &value));
                out.push(Entity::RegisterEntry(pb::RegisterEntry {
                    register_id: id,
                    index: index(at),
                    data,
                }));
            }
        }
        Ok(())
    }

    fn read_members(&self, e: &pb::ActionProfileMember, out: &mut Found) -> Result<(), EntityError> {
        for (id, schema) in select(&self.schema.profiles, "action_profile", e.action_profile_id)? {
            let Some(profile) = self.state.profile(schema.array.instance) else { continue };
            for (member, call) in profile.members().filter(|(m, _)| e.member_id == 0 || e.member_id == *m) {
                out.push(Entity::ActionProfileMember(self.encode_member(id, schema, member, call)));
            }
        }
        Ok(())
    }

    fn read_groups(&self, e: &pb::ActionProfileGroup, out: &mut Found) -> Result<(), EntityError> {
        for (id, schema) in select(&self.schema.profiles, "action_profile", e.action_profile_id)? {
            let Some(profile) = self.state.profile(schema.array.instance) else { continue };
            for (number, group) in profile.groups().filter(|(g, _)| e.group_id == 0 || e.group_id == *g) {
                out.push(Entity::ActionProfileGroup(self.encode_group(id, schema, number, group)));
            }
        }
        Ok(())
    }

    fn read_replication(
        &self,
        e: &pb::PacketReplicationEngineEntry,
        out: &mut Found,
    ) -> Result<(), EntityError> {
        let found: Vec<Replication> = match &e.r#type {
            None => {
                return Err(EntityError::invalid(
                    "neither multicast groups nor clone sessions are asked for",
                ));
            }
            Some(Replication::MulticastGroupEntry(g)) => {
                let wanted = |id: &u32| g.multicast_group_id == 0 || g.multicast_group_id == *id;
                let groups = self.book.groups.iter().filter(|(id, _)| wanted(id));
                groups.map(|(_, g)| Replication::MulticastGroupEntry(g.clone())).collect()
            }
            Some(Replication::CloneSessionEntry(s)) => {
                let wanted = |id: &u32| s.session_id == 0 || s.session_id == *id;
                let sessions = self.book.sessions.iter().filter(|(id, _)| wanted(id));
                sessions.map(|(_, s)| Replication::CloneSessionEntry(s.clone())).collect()
            }
        };
        let entity =
            |r| Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(r) });
        found.into_iter().map(entity).for_each(|e| out.push(e));
        Ok(())
    }

    fn read_value_sets(&self, e: &pb::ValueSetEntry, out: &mut Found) -> Result<(), EntityError> {
        if !e.members.is_empty() {
            return Err(EntityError::invalid("members cannot be asked for: a value set is read whole"));
        }
        for (id, set) in select(&self.schema.value_sets, "value_set", e.value_set_id)? {
            let members = self.state.value_set(set.set).unwrap_or(&[]);
            let member = |m: &Vec<KeyMatch>| pb::ValueSetMember {
                r#match: entry::encode_match(&self.codec(), &set.fields, m),
            };
            let members = members.iter().map(member).collect();
            out.push(Entity::ValueSetEntry(pb::ValueSetEntry { value_set_id: id, members }));
        }
        Ok(())
    }
}
