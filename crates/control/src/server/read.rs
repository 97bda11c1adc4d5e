//! What a `Read` finds (P4Runtime specification, "`Read` RPC"), a part at a time.

use super::reading::{ENTRY, Place, Slice};
use super::resources::{by_id, cells, encode_counter, encode_marked, encode_meter};
use super::tables::DirectOf;
use super::view::{Parts, Raw, View};
use crate::entry::{self, Use};
use crate::error::EntityError;
use crate::proto::p4rt as pb;
use crate::schema::{ArraySchema, TableSchema};
use pb::entity::Entity;
use pb::packet_replication_engine_entry::Type as Replication;
use pointsman_ir::{Entry, EntryAction, EntryHandle, KeyMatch, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What of an entry's action a read filters by.
enum Wanted {
    /// Which action it is.
    ActionId(u32),
    /// The action with its parameters, the member, the group.
    Action(EntryAction),
    OneShot(pb::ActionProfileActionSet),
}

/// Where a part of a read has stopped because it had looked at enough; `None` at the end.
pub(super) type Stopped<P> = Result<Option<P>, EntityError>;

/// The objects that an id names: one, or all for 0.
pub(super) fn select<'a, S>(
    map: &'a BTreeMap<u32, S>,
    what: &str,
    id: u32,
) -> Result<Vec<(u32, &'a S)>, EntityError> {
    if id == 0 {
        return Ok(map.iter().map(|(id, s)| (*id, s)).collect());
    }
    Ok(vec![(id, by_id(map, what, id)?)])
}

/// An index without an object means nothing.
pub(super) fn no_index(id: u32, index: Option<&pb::Index>) -> Result<(), EntityError> {
    match (id, index) {
        (0, Some(_)) => Err(EntityError::invalid("an index is given, but no id")),
        _ => Ok(()),
    }
}

pub(super) fn index(at: u64) -> Option<pb::Index> {
    Some(pb::Index { index: i64::try_from(at).unwrap_or(i64::MAX) })
}

/// Visits objects from a place on. `visit` gets an object and where to continue in it.
pub(super) fn walk<S>(
    objects: Vec<(u32, S)>,
    from: Place,
    mut visit: impl FnMut(u32, S, u64) -> Stopped<u64>,
) -> Stopped<Place> {
    for (object, what) in objects.into_iter().filter(|(id, _)| *id >= from.object) {
        let at = if object == from.object { from.at } else { 0 };
        if let Some(at) = visit(object, what, at)? {
            return Ok(Some(Place { object, at }));
        }
    }
    Ok(None)
}

/// Visits what is in an object, each with its number, until enough has been looked at.
fn visit<T>(
    slice: &mut Slice,
    cost: usize,
    items: impl Iterator<Item = (u64, T)>,
    mut found: impl FnMut(&mut Slice, u64, T) -> Result<(), EntityError>,
) -> Stopped<u64> {
    for (at, item) in items {
        if !slice.take(cost) {
            return Ok(Some(at));
        }
        found(slice, at, item)?;
    }
    Ok(None)
}

/// Visits the cells of an array: one, or all from a place on.
pub(super) fn visit_cells(
    slice: &mut Slice,
    (what, array): (&str, &ArraySchema),
    index: Option<&pb::Index>,
    from: u64,
    mut found: impl FnMut(&mut Slice, u64) -> Result<(), EntityError>,
) -> Stopped<u64> {
    let range = cells(array, index).map_err(|e| e.at(format_args!("{what} {}", array.name)))?;
    let range = (range.start.max(from)..range.end).map(|at| (at, ()));
    visit(slice, 1, range, |slice, at, ()| found(slice, at))
}

impl View<'_> {
    /// Finds a part of what one request of a batch asks for, from a place on. Every reason to fail is looked for before
    /// anything is found.
    ///
    /// # Errors
    /// The request is malformed, or names something that is not there.
    pub fn read(&self, request: &pb::Entity, from: Place, slice: &mut Slice) -> Stopped<Place> {
        match &request.entity {
            None => Err(EntityError::invalid("no entity is set: name the kind of entity to be read")),
            Some(Entity::TableEntry(e)) => self.read_tables(e, from, slice),
            Some(Entity::DirectCounterEntry(e)) => self.read_direct_counters(e, from, slice),
            Some(Entity::DirectMeterEntry(e)) => self.read_direct_meters(e, from, slice),
            Some(Entity::MeterEntry(e)) => self.read_meters(e, from, slice),
            Some(Entity::ActionProfileMember(e)) => self.read_members(e, from, slice),
            Some(Entity::ActionProfileGroup(e)) => self.read_groups(e, from, slice),
            Some(Entity::PacketReplicationEngineEntry(e)) => self.read_replication(e, from, slice),
            Some(Entity::ValueSetEntry(e)) => self.read_value_sets(e, from, slice),
            Some(Entity::DigestEntry(e)) => self.read_digests(e, from, slice),
            // Without such instances a read of all of them finds none. Counters and registers are read by `CellView`.
            Some(Entity::ExternEntry(pb::ExternEntry { extern_type_id: 0, .. }))
            | Some(Entity::CounterEntry(_) | Entity::RegisterEntry(_)) => Ok(None),
            Some(Entity::ExternEntry(_)) => {
                Err(EntityError::unimplemented("this target has no externs beyond those of P4Runtime"))
            }
        }
    }

    /// "Wildcard Reads" of tables.
    fn read_tables(&self, e: &pb::TableEntry, from: Place, slice: &mut Slice) -> Stopped<Place> {
        if e.table_id == 0 {
            if !e.r#match.is_empty() || e.action.is_some() || e.priority != 0 {
                let message = "match, action and priority filter the entries of one table: set table_id";
                return Err(EntityError::invalid(message));
            }
            let all = select(&self.terms.schema.tables, "table", 0)?;
            return walk(all, from, |_, table, at| self.read_table(table, e, at, slice));
        }
        let table = entry::table(self.terms.schema, e.table_id)?;
        let place = |error: EntityError| error.at(format_args!("table {}", table.name));
        if e.time_since_last_hit.is_some() && !table.idle_timeouts {
            return Err(place(EntityError::invalid("it has no idle timeouts")));
        }
        walk(vec![(e.table_id, table)], from, |_, table, at| self.read_table(table, e, at, slice))
            .map_err(place)
    }

    fn read_table(
        &self,
        table: &TableSchema,
        e: &pb::TableEntry,
        from: u64,
        slice: &mut Slice,
    ) -> Stopped<u64> {
        entry::check_default(e)?;
        let Some(state) = self.state.table(table.table) else { return Ok(None) };
        let action = self.wanted_action(table, e)?;
        let action = action.as_ref();
        if e.is_default_action {
            let default = std::iter::once((0, ()));
            return visit(slice, ENTRY, default, |slice, _, ()| {
                let found = self.default_entry(table, action, e);
                slice.found.extend(found.map(|e| Raw::Entity(Entity::TableEntry(e))));
                Ok(())
            });
        }
        let found = |slice: &mut Slice, at, entry: Entry| {
            let handle = EntryHandle(at);
            let notes = (self.terms.cookie(table, handle), &entry.metadata[..]);
            if self.is_wanted(table, &entry.action, notes, action, e) {
                let parts = self.parts(table.table, Some(handle), e);
                slice.found.push(Raw::Entry { table: table.id, handle, entry, parts });
            }
            Ok(())
        };
        let from = EntryHandle(from);
        let numbered = |(handle, entry): (EntryHandle, Entry)| (handle.0, entry);
        if e.r#match.is_empty() {
            let entries = state.store().iter_from(from).map(numbered);
            let of_priority =
                |(at, x): (u64, Entry)| (at, (e.priority == 0 || x.priority == e.priority).then_some(x));
            return visit(slice, ENTRY, entries.map(of_priority), |slice, at, entry| {
                entry.map_or(Ok(()), |entry| found(slice, at, entry))
            });
        }
        let matches = entry::decode_match(&self.terms.codec, &table.fields, &e.r#match)?;
        if e.priority != 0 || !table.needs_priority() {
            let handle = state.store().find(&matches, e.priority);
            let one = handle.and_then(|h| Some((h.0, state.store().get(h)?)));
            return visit(slice, ENTRY, one.into_iter(), found);
        }
        let entries = state.store().iter_from(from).map(numbered);
        visit(slice, ENTRY, entries, |slice, at, entry| match entry.matches == matches {
            true => found(slice, at, entry),
            false => Ok(()),
        })
    }

    fn wanted_action(&self, table: &TableSchema, e: &pb::TableEntry) -> Result<Option<Wanted>, EntityError> {
        use pb::table_action::Type;
        let terms = &self.terms;
        Ok(Some(match e.action.as_ref().map(|a| &a.r#type) {
            None => return Ok(None),
            Some(Some(Type::Action(a))) if a.params.is_empty() => {
                let listed = table.actions.get(&a.action_id);
                let index = listed.ok_or_else(|| EntityError::invalid("the table has no such action"))?.index;
                Wanted::ActionId(index)
            }
            // More than the specification asks for. Clients often read with the message that they wrote with.
            Some(Some(Type::Action(a))) => {
                let usage = if e.is_default_action { Use::Default } else { Use::Entry };
                let call = entry::decode_action(&terms.codec, terms.schema, table, a, usage)?;
                Wanted::Action(EntryAction::Call(Arc::new(call)))
            }
            Some(Some(Type::ActionProfileMemberId(id))) => Wanted::Action(EntryAction::Member(*id)),
            Some(Some(Type::ActionProfileGroupId(id))) => Wanted::Action(EntryAction::Group(*id)),
            Some(Some(Type::ActionProfileActionSet(set))) => {
                let profiles = terms.schema.profiles.values();
                let profile =
                    profiles.filter(|p| p.selector).find(|p| Some(p.array.instance) == table.profile);
                let profile = profile.ok_or_else(|| EntityError::invalid("it has no action selector"))?;
                Wanted::OneShot(self.decode_action_set(table, profile, set)?.1)
            }
            Some(None) => return Err(EntityError::invalid("the action is empty")),
        }))
    }

    /// Whether an entry, or the default entry, with this action, cookie and metadata passes the filters of `e`.
    fn is_wanted(
        &self,
        table: &TableSchema,
        action: &EntryAction,
        (cookie, metadata): (u64, &[u8]),
        wanted: Option<&Wanted>,
        e: &pb::TableEntry,
    ) -> bool {
        let action = match wanted {
            None => true,
            Some(Wanted::ActionId(id)) => matches!(action, EntryAction::Call(c) if c.action == *id),
            Some(Wanted::Action(wanted)) => action == wanted,
            Some(Wanted::OneShot(set)) => self.terms.one_shot(table, action) == Some(set),
        };
        #[allow(deprecated)]
        let cookie = e.controller_metadata == 0 || e.controller_metadata == cookie;
        action && cookie && (e.metadata.is_empty() || e.metadata == metadata)
    }

    /// The default entry, if it passes the filters of `request`.
    fn default_entry(
        &self,
        table: &TableSchema,
        wanted: Option<&Wanted>,
        request: &pb::TableEntry,
    ) -> Option<pb::TableEntry> {
        let (id, terms) = (table.table, &self.terms);
        let call = self.state.table(id)?.store().default_action();
        let (cookie, metadata) = terms.book.defaults.get(&id).cloned().unwrap_or_default();
        if !self.is_wanted(table, &EntryAction::Call(call.clone()), (cookie, &metadata), wanted, request) {
            return None;
        }
        let action = entry::encode_action(&terms.codec, terms.schema, table, call);
        let parts = self.parts(id, None, request);
        #[allow(deprecated)]
        Some(pb::TableEntry {
            table_id: table.id,
            action: Some(pb::TableAction { r#type: action.map(pb::table_action::Type::Action) }),
            controller_metadata: cookie,
            metadata,
            is_default_action: true,
            is_const: table.const_default,
            counter_data: parts.counter,
            meter_config: parts.meter,
            meter_counter_data: parts.marked,
            ..Default::default()
        })
    }

    /// What is attached to an entry, or to the default entry, as far as `request` sets it.
    fn parts(&self, table: TableId, of: DirectOf, request: &pb::TableEntry) -> Parts {
        let counter = request.counter_data.and_then(|_| self.state.direct_counter(table, of).ok());
        let wants_meter = request.meter_config.is_some() || request.meter_counter_data.is_some();
        let meter = wants_meter.then(|| self.state.direct_meter(table, of).ok()).flatten();
        let meter = meter.as_ref();
        let idle = request.time_since_last_hit.as_ref().zip(of);
        Parts {
            counter: counter.map(encode_counter),
            meter: request.meter_config.and(meter).and_then(|m| m.config()).map(encode_meter),
            marked: request.meter_counter_data.and(meter).map(|m| encode_marked(m.marked())),
            idle_ns: idle.and_then(|(_, handle)| self.state.idle_ns(self.now, table, handle).ok()),
        }
    }

    /// Visits the entries that a direct counter or meter read is about: one, those of a table or of all tables, or,
    /// where `is_default_action` says so, the default entries, for which `found` gets no entry.
    fn direct_entries(
        &self,
        e: Option<&pb::TableEntry>,
        what: &str,
        has: impl Fn(&TableSchema) -> bool + Copy,
        (from, slice): (Place, &mut Slice),
        found: impl Fn(&TableSchema, DirectOf, Option<Entry>) -> Result<Raw, EntityError>,
    ) -> Stopped<Place> {
        let everything = pb::TableEntry::default();
        let request = e.unwrap_or(&everything);
        entry::check_default(request)?;
        let named = !request.r#match.is_empty() || request.priority != 0;
        if request.table_id == 0 && named {
            return Err(EntityError::invalid("match and priority name an entry of one table: set table_id"));
        }
        if named {
            let (id, of) = self.direct_of(Some(request), what, has)?;
            let entry = of.and_then(|h| self.state.table(id)?.store().get(h));
            if let Some(table) = self.terms.schema.table_by_index(id) {
                slice.take(ENTRY);
                slice.found.push(found(table, of.filter(|_| entry.is_some()), entry)?);
            }
            return Ok(None);
        }
        let tables: Vec<(u32, &TableSchema)> = match request.table_id {
            0 => self.terms.schema.tables.iter().filter(|(_, t)| has(t)).map(|(id, t)| (*id, t)).collect(),
            id => vec![(id, entry::table(self.terms.schema, id)?)],
        };
        if let Some((_, table)) = tables.iter().find(|(_, t)| !has(t)) {
            return Err(EntityError::invalid(format!("table {} has no direct {what}", table.name)));
        }
        walk(tables, from, |_, table, at| {
            if request.is_default_action {
                return visit(slice, ENTRY, std::iter::once((0, ())), |slice, _, ()| {
                    slice.found.push(found(table, None, None)?);
                    Ok(())
                });
            }
            let Some(state) = self.state.table(table.table) else { return Ok(None) };
            let entries = state.store().iter_from(EntryHandle(at)).map(|(handle, entry)| (handle.0, entry));
            visit(slice, ENTRY, entries, |slice, at, entry| {
                slice.found.push(found(table, Some(EntryHandle(at)), Some(entry))?);
                Ok(())
            })
        })
    }

    fn read_direct_counters(
        &self,
        e: &pb::DirectCounterEntry,
        from: Place,
        slice: &mut Slice,
    ) -> Stopped<Place> {
        let has = |t: &TableSchema| t.direct_counter.is_some();
        self.direct_entries(e.table_entry.as_ref(), "counter", has, (from, slice), |table, of, entry| {
            let value = self.state.direct_counter(table.table, of)?;
            Ok(Raw::Counter { table: table.id, entry, value })
        })
    }

    fn read_direct_meters(&self, e: &pb::DirectMeterEntry, from: Place, slice: &mut Slice) -> Stopped<Place> {
        let has = |t: &TableSchema| t.direct_meter.is_some();
        self.direct_entries(e.table_entry.as_ref(), "meter", has, (from, slice), |table, of, entry| {
            let meter = Box::new(self.state.direct_meter(table.table, of)?);
            Ok(Raw::Meter { table: table.id, entry, meter, marked: e.counter_data.is_some() })
        })
    }

    fn read_meters(&self, e: &pb::MeterEntry, from: Place, slice: &mut Slice) -> Stopped<Place> {
        no_index(e.meter_id, e.index.as_ref())?;
        let all = select(&self.terms.schema.meters, "meter", e.meter_id)?;
        walk(all, from, |meter_id, meter, at| {
            visit_cells(slice, ("meter", meter), e.index.as_ref(), at, |slice, at| {
                let cell = self.state.meter_cell(meter.instance, at)?;
                if !slice.changed_only || cell.config().is_some() {
                    let config = cell.config().map(encode_meter);
                    let counter_data = e.counter_data.map(|_| encode_marked(cell.marked()));
                    let entry = pb::MeterEntry { meter_id, index: index(at), config, counter_data };
                    slice.found.push(Raw::Entity(Entity::MeterEntry(entry)));
                }
                Ok(())
            })
        })
    }

    fn read_members(&self, e: &pb::ActionProfileMember, from: Place, slice: &mut Slice) -> Stopped<Place> {
        let all = select(&self.terms.schema.profiles, "action_profile", e.action_profile_id)?;
        walk(all, from, |id, schema, at| {
            let Some(profile) = self.state.profile(schema.array.instance) else { return Ok(None) };
            let members = profile.members_from(number(at)).map(|(member, call)| (u64::from(member), call));
            visit(slice, ENTRY, members, |slice, at, call| {
                let member = number(at);
                if e.member_id == 0 || e.member_id == member {
                    let member = self.encode_member(id, schema, member, call);
                    slice.found.push(Raw::Entity(Entity::ActionProfileMember(member)));
                }
                Ok(())
            })
        })
    }

    fn read_groups(&self, e: &pb::ActionProfileGroup, from: Place, slice: &mut Slice) -> Stopped<Place> {
        let all = select(&self.terms.schema.profiles, "action_profile", e.action_profile_id)?;
        walk(all, from, |id, schema, at| {
            let Some(profile) = self.state.profile(schema.array.instance) else { return Ok(None) };
            let groups = profile.groups_from(number(at)).map(|(group, members)| (u64::from(group), members));
            visit(slice, ENTRY, groups, |slice, at, group| {
                slice.take(group.members.len());
                if e.group_id == 0 || e.group_id == number(at) {
                    let group = self.terms.encode_group(id, schema, number(at), group);
                    slice.found.push(Raw::Entity(Entity::ActionProfileGroup(group)));
                }
                Ok(())
            })
        })
    }

    fn read_replication(
        &self,
        e: &pb::PacketReplicationEngineEntry,
        from: Place,
        slice: &mut Slice,
    ) -> Stopped<Place> {
        let book = self.terms.book;
        let entity =
            |r| Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(r) });
        let wanted = |asked: u32, id: &u32| asked == 0 || asked == *id;
        let first = number(from.at);
        let numbered = |id: &u32, r: Replication| (u64::from(*id), r);
        let found: Box<dyn Iterator<Item = (u64, Replication)>> = match &e.r#type {
            None => {
                return Err(EntityError::invalid(
                    "neither multicast groups nor clone sessions are requested",
                ));
            }
            Some(Replication::MulticastGroupEntry(asked)) => {
                let all = book.groups.range(first..);
                let all = all.filter(|(id, _)| wanted(asked.multicast_group_id, id));
                Box::new(all.map(|(id, g)| numbered(id, Replication::MulticastGroupEntry(g.clone()))))
            }
            Some(Replication::CloneSessionEntry(asked)) => {
                let all = book.sessions.range(first..).filter(|(id, _)| wanted(asked.session_id, id));
                Box::new(all.map(|(id, s)| numbered(id, Replication::CloneSessionEntry(s.clone()))))
            }
        };
        let stopped = visit(slice, ENTRY, found, |slice, _, r| {
            slice.found.push(Raw::Entity(entity(r)));
            Ok(())
        })?;
        Ok(stopped.map(|at| Place { object: 0, at }))
    }

    fn read_value_sets(&self, e: &pb::ValueSetEntry, from: Place, slice: &mut Slice) -> Stopped<Place> {
        if !e.members.is_empty() {
            return Err(EntityError::invalid("members cannot be selected: a value set is read as a whole"));
        }
        let all = select(&self.terms.schema.value_sets, "value_set", e.value_set_id)?;
        walk(all, from, |value_set_id, set, _| {
            visit(slice, ENTRY, std::iter::once((0, ())), |slice, _, ()| {
                let members = self.state.value_set(set.set).unwrap_or(&[]);
                slice.take(members.len());
                let member = |m: &Vec<KeyMatch>| pb::ValueSetMember {
                    r#match: entry::encode_match(&self.terms.codec, &set.fields, m),
                };
                let members = members.iter().map(member).collect();
                let entry = pb::ValueSetEntry { value_set_id, members };
                slice.found.push(Raw::Entity(Entity::ValueSetEntry(entry)));
                Ok(())
            })
        })
    }

    fn read_digests(&self, e: &pb::DigestEntry, from: Place, slice: &mut Slice) -> Stopped<Place> {
        if e.digest_id != 0 {
            by_id(&self.terms.schema.digests, "digest", e.digest_id)?;
        }
        let all = self.terms.book.digests.iter().filter(|(id, _)| e.digest_id == 0 || e.digest_id == **id);
        walk(all.map(|(id, state)| (*id, state)).collect(), from, |digest_id, state, _| {
            visit(slice, 1, std::iter::once((0, ())), |slice, _, ()| {
                let entry = pb::DigestEntry { digest_id, config: Some(state.config) };
                slice.found.push(Raw::Entity(Entity::DigestEntry(entry)));
                Ok(())
            })
        })
    }
}

/// The id of 32 bits that a place has as a number of 64 bits.
fn number(at: u64) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
