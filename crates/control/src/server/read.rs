//! `Read` (P4Runtime specification, "`Read` RPC").

use super::profiles::{encode_group, encode_member};
use super::resources::{by_id, cells, encode_counter, encode_meter, no_colour_counters};
use super::{Access, Server};
use crate::device::Device;
use crate::entry::{self, Use};
use crate::error::{EntityError, RpcError};
use crate::p4data;
use crate::proto::p4rt as pb;
use crate::schema::TableSchema;
use pb::entity::Entity;
use pb::packet_replication_engine_entry::Type as Replication;
use pointsman_ir::{Entry, EntryAction, EntryHandle, Value};
use pointsman_v1model::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What of an entry's action a read filters by.
enum Wanted {
    /// Which action it is.
    ActionId(u32),
    /// The action with its parameters, the member, the group.
    Action(EntryAction),
}

/// The answer to a `Read`: what was found, and then how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOutcome {
    /// To be sent in this order, whatever the status.
    pub responses: Vec<pb::ReadResponse>,
    /// The status of the call.
    pub status: Result<(), RpcError>,
}

impl Server {
    /// `Read`. Roles do not restrict what is read: all of them see the whole pipeline.
    pub fn read(&mut self, device: &mut dyn Device, request: &pb::ReadRequest, now: Time) -> ReadOutcome {
        let nothing = |error| ReadOutcome { responses: Vec::new(), status: Err(error) };
        if let Err(error) = self.check_device(request.device_id) {
            return nothing(error);
        }
        let per_response = self.config.entities_per_response;
        let access = match self.access(device, now) {
            Ok(access) => access,
            Err(error) => return nothing(error),
        };
        let mut found = Vec::new();
        let outcomes: Vec<_> = request.entities.iter().map(|e| access.read(e, &mut found)).collect();
        let mut responses = Vec::new();
        let mut rest = found.into_iter().peekable();
        while rest.peek().is_some() {
            let entities = rest.by_ref().take(per_response).map(|e| pb::Entity { entity: Some(e) }).collect();
            responses.push(pb::ReadResponse { entities });
        }
        let status = RpcError::from_batch("entities", &outcomes).map_or(Ok(()), Err);
        ReadOutcome { responses, status }
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

/// An entry (`None`: the default entry) with the message that names it.
type DirectEntry<'a> = (&'a TableSchema, Option<EntryHandle>, pb::TableEntry);

impl Access<'_> {
    /// Appends what one request of a batch asks for; a failed one appends nothing.
    ///
    /// # Errors
    /// The request is malformed, or names something that is not there.
    pub(super) fn read(&self, request: &pb::Entity, out: &mut Vec<Entity>) -> Result<(), EntityError> {
        let mark = out.len();
        let result = match &request.entity {
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
        };
        if result.is_err() {
            out.truncate(mark);
        }
        result
    }

    /// "Wildcard Reads" of tables.
    fn read_tables(&self, e: &pb::TableEntry, out: &mut Vec<Entity>) -> Result<(), EntityError> {
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
        out: &mut Vec<Entity>,
    ) -> Result<(), EntityError> {
        if e.meter_counter_data.is_some() && e.table_id != 0 {
            return Err(EntityError::unimplemented("this target does not count by meter colour"));
        }
        if e.is_default_action {
            let found = self.default_entry(table, e);
            out.extend(found.map(Entity::TableEntry));
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
                let call = entry::decode_action(self.schema, table, a, Use::Entry)?;
                Some(Wanted::Action(EntryAction::Call(Arc::new(call))))
            }
            Some(Some(pb::table_action::Type::ActionProfileMemberId(id))) => {
                Some(Wanted::Action(EntryAction::Member(*id)))
            }
            Some(Some(pb::table_action::Type::ActionProfileGroupId(id))) => {
                Some(Wanted::Action(EntryAction::Group(*id)))
            }
            Some(_) => {
                return Err(EntityError::unimplemented("entries cannot be filtered by one-shot action sets"));
            }
        };
        let wanted = |handle: EntryHandle, entry: &Entry| {
            let cookie = self.book.cookies.get(&(table.table, handle)).copied().unwrap_or(0);
            let action = match &action {
                None => true,
                Some(Wanted::ActionId(id)) => {
                    matches!(&entry.action, EntryAction::Call(c) if c.action == *id)
                }
                Some(Wanted::Action(action)) => entry.action == *action,
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
        let matches = entry::decode_match(&table.fields, &e.r#match)?;
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
            EntryAction::Call(call) => entry::encode_action(self.schema, table, call).map(Type::Action),
            EntryAction::Member(member) => Some(Type::ActionProfileMemberId(*member)),
            EntryAction::Group(group) => Some(Type::ActionProfileGroupId(*group)),
        };
        let counter =
            request.counter_data.as_ref().and_then(|_| self.state.direct_counter(id, Some(handle)).ok());
        let meter =
            request.meter_config.as_ref().and_then(|_| self.state.direct_meter(id, handle).ok()).flatten();
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
            meter_config: meter.map(encode_meter),
            time_since_last_hit: idle.map(elapsed),
            ..entry::encode_key(table, entry)
        }
    }

    fn default_entry(&self, table: &TableSchema, request: &pb::TableEntry) -> Option<pb::TableEntry> {
        let id = table.table;
        let call = self.state.table(id)?.store().default_action();
        let (cookie, metadata) = self.book.defaults.get(&id).cloned().unwrap_or_default();
        let action = entry::encode_action(self.schema, table, call).map(pb::table_action::Type::Action);
        let counter = request.counter_data.as_ref().and_then(|_| self.state.direct_counter(id, None).ok());
        #[allow(deprecated)]
        Some(pb::TableEntry {
            table_id: table.id,
            action: Some(pb::TableAction { r#type: action }),
            controller_metadata: cookie,
            metadata,
            is_default_action: true,
            is_const: table.const_default,
            counter_data: counter.map(encode_counter),
            ..Default::default()
        })
    }

    /// The entries that a direct counter or meter read is about.
    fn direct_entries(
        &self,
        e: Option<&pb::TableEntry>,
        what: &str,
        has: impl Fn(&TableSchema) -> bool + Copy,
    ) -> Result<Vec<DirectEntry<'_>>, EntityError> {
        let request = e.cloned().unwrap_or_default();
        let key = |table: &TableSchema, of: Option<EntryHandle>| match of {
            None => {
                Some(pb::TableEntry { table_id: table.id, is_default_action: true, ..Default::default() })
            }
            Some(h) => Some(entry::encode_key(table, &self.state.table(table.table)?.store().get(h)?)),
        };
        let one = request.table_id != 0
            && (request.is_default_action || !request.r#match.is_empty() || request.priority != 0);
        if one {
            let (id, of) = self.direct_of(Some(&request), what, has)?;
            let table = self.schema.table_by_index(id);
            return Ok(table.and_then(|t| Some((t, of, key(t, of)?))).into_iter().collect());
        }
        let tables: Vec<&TableSchema> = match request.table_id {
            0 => self.schema.tables.values().filter(|t| has(t)).collect(),
            id => vec![entry::table(self.schema, id)?],
        };
        let mut found = Vec::new();
        for table in tables {
            if !has(table) {
                return Err(EntityError::invalid(format!("table {} has no direct {what}", table.name)));
            }
            let handles = self.state.entries(table.table).map(|(h, _)| h);
            found.extend(handles.filter_map(|h| Some((table, Some(h), key(table, Some(h))?))));
        }
        Ok(found)
    }

    fn read_direct_counters(
        &self,
        e: &pb::DirectCounterEntry,
        out: &mut Vec<Entity>,
    ) -> Result<(), EntityError> {
        for (table, of, key) in
            self.direct_entries(e.table_entry.as_ref(), "counter", |t| t.direct_counter.is_some())?
        {
            let data = Some(encode_counter(self.state.direct_counter(table.table, of)?));
            out.push(Entity::DirectCounterEntry(pb::DirectCounterEntry { table_entry: Some(key), data }));
        }
        Ok(())
    }

    fn read_direct_meters(&self, e: &pb::DirectMeterEntry, out: &mut Vec<Entity>) -> Result<(), EntityError> {
        no_colour_counters(e.counter_data.as_ref())?;
        for (table, of, key) in
            self.direct_entries(e.table_entry.as_ref(), "meter", |t| t.direct_meter.is_some())?
        {
            let config = match of {
                Some(handle) => self.state.direct_meter(table.table, handle)?,
                None => None,
            };
            let config = config.map(encode_meter);
            out.push(Entity::DirectMeterEntry(pb::DirectMeterEntry {
                table_entry: Some(key),
                config,
                counter_data: None,
            }));
        }
        Ok(())
    }

    fn read_counters(&self, e: &pb::CounterEntry, out: &mut Vec<Entity>) -> Result<(), EntityError> {
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

    fn read_meters(&self, e: &pb::MeterEntry, out: &mut Vec<Entity>) -> Result<(), EntityError> {
        no_index(e.meter_id, e.index.as_ref())?;
        no_colour_counters(e.counter_data.as_ref())?;
        for (id, meter) in select(&self.schema.meters, "meter", e.meter_id)? {
            let range = cells(meter, e.index.as_ref());
            for at in range.map_err(|e| e.at(format_args!("meter {}", meter.name)))? {
                let config = self.state.read_meter(meter.instance, at)?.map(encode_meter);
                let entry = pb::MeterEntry { meter_id: id, index: index(at), config, counter_data: None };
                out.push(Entity::MeterEntry(entry));
            }
        }
        Ok(())
    }

    fn read_registers(&self, e: &pb::RegisterEntry, out: &mut Vec<Entity>) -> Result<(), EntityError> {
        no_index(e.register_id, e.index.as_ref())?;
        let program = &self.schema.program;
        for (id, register) in select(&self.schema.registers, "register", e.register_id)? {
            let range = cells(&register.array, e.index.as_ref());
            for at in range.map_err(|e| e.at(format_args!("register {}", register.array.name)))? {
                let bits = self.state.read_register(register.array.instance, at)?;
                let value = Value::from_bits(&program.types, register.ty, &bits).unwrap_or(Value::Bits(bits));
                let data = Some(p4data::encode(program, register.ty, &value));
                out.push(Entity::RegisterEntry(pb::RegisterEntry {
                    register_id: id,
                    index: index(at),
                    data,
                }));
            }
        }
        Ok(())
    }

    fn read_members(&self, e: &pb::ActionProfileMember, out: &mut Vec<Entity>) -> Result<(), EntityError> {
        for (id, schema) in select(&self.schema.profiles, "action_profile", e.action_profile_id)? {
            let Some(profile) = self.state.profile(schema.array.instance) else { continue };
            for (member, call) in profile.members().filter(|(m, _)| e.member_id == 0 || e.member_id == *m) {
                out.push(Entity::ActionProfileMember(encode_member(self.schema, id, schema, member, call)));
            }
        }
        Ok(())
    }

    fn read_groups(&self, e: &pb::ActionProfileGroup, out: &mut Vec<Entity>) -> Result<(), EntityError> {
        for (id, schema) in select(&self.schema.profiles, "action_profile", e.action_profile_id)? {
            let Some(profile) = self.state.profile(schema.array.instance) else { continue };
            for (number, group) in profile.groups().filter(|(g, _)| e.group_id == 0 || e.group_id == *g) {
                out.push(Entity::ActionProfileGroup(encode_group(id, number, group)));
            }
        }
        Ok(())
    }

    fn read_replication(
        &self,
        e: &pb::PacketReplicationEngineEntry,
        out: &mut Vec<Entity>,
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
        out.extend(found.into_iter().map(entity));
        Ok(())
    }

    fn read_value_sets(&self, e: &pb::ValueSetEntry, out: &mut Vec<Entity>) -> Result<(), EntityError> {
        if !e.members.is_empty() {
            return Err(EntityError::invalid("members cannot be asked for: a value set is read whole"));
        }
        for (id, set) in select(&self.schema.value_sets, "value_set", e.value_set_id)? {
            let members = self.state.value_set(set.set).unwrap_or(&[]);
            let member = |m: &Vec<_>| pb::ValueSetMember { r#match: entry::encode_match(&set.fields, m) };
            let members = members.iter().map(member).collect();
            out.push(Entity::ValueSetEntry(pb::ValueSetEntry { value_set_id: id, members }));
        }
        Ok(())
    }
}
