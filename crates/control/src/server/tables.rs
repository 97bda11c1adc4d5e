//! Writing table entries (P4Runtime specification, "`TableEntry`").

use super::Access;
use super::resources::{decode_counter, decode_meter};
use super::write::{Op, Undo, UndoLog};
use crate::entry::{self, Use};
use crate::error::{Code, EntityError};
use crate::proto::p4rt as pb;
use crate::schema::TableSchema;
use pointsman_ir::{ActionCall, Entry, EntryAction, EntryHandle, KeyMatch, TableId};
use pointsman_v1model::{CounterCell, MeterConfig, State, TableError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an entry asks of its direct resources.
struct Direct {
    counter: Option<CounterCell>,
    meter: Option<MeterConfig>,
}

/// An entry of a table; `None` is the default entry.
pub(super) type DirectOf = Option<EntryHandle>;

/// Match and priority: finds an entry again when its handle has changed.
pub(super) type EntryKey = Option<(Vec<KeyMatch>, i32)>;

pub(super) fn find_again(state: &State, table: TableId, key: &EntryKey) -> Option<DirectOf> {
    match key {
        None => Some(None),
        Some((matches, priority)) => state.table(table)?.store().find(matches, *priority).map(Some),
    }
}

impl Access<'_> {
    pub(super) fn write_table_entry(
        &mut self,
        op: Op,
        e: &pb::TableEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let table = entry::table(self.schema, e.table_id)?;
        let result = if e.is_const {
            Err(EntityError::invalid("is_const is set by the server, never by clients"))
        } else if e.is_default_action {
            self.write_default(table, op, e, undo)
        } else {
            match op {
                Op::Insert => self.insert_entry(table, e, undo),
                Op::Modify => self.modify_entry(table, e, undo),
                Op::Delete => self.delete_entry(table, e, undo),
            }
        };
        result.map_err(|error| error.at(format_args!("table {}", table.name)))
    }

    fn insert_entry(
        &mut self,
        table: &TableSchema,
        e: &pb::TableEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        if table.const_entries {
            return Err(EntityError::new(Code::PermissionDenied, "its entries are const: none can be added"));
        }
        if table.fields.is_empty() {
            return Err(EntityError::invalid(
                "it has no key, so it holds no entries: modify its default action",
            ));
        }
        let matches = entry::decode_match(&table.fields, &e.r#match)?;
        entry::check_priority(table, e.priority)?;
        let Some(action) = &e.action else {
            return Err(EntityError::invalid("an entry that is inserted needs an action"));
        };
        let action = self.decode_table_action(table, action)?;
        let direct = check_direct(table, e)?;
        let idle_timeout_ns = check_idle(table, e)?;
        let entry = Entry {
            matches: matches.clone(),
            priority: e.priority,
            action,
            is_const: false,
            metadata: e.metadata.clone(),
            idle_timeout_ns,
        };
        let (id, priority, now) = (table.table, e.priority, self.now);
        let handle = self.state.insert(now, id, entry).map_err(|error| self.refused(id, error))?;
        if let Some(value) = direct.counter {
            self.state.set_direct_counter(id, Some(handle), value)?;
        }
        if direct.meter.is_some() {
            self.state.set_direct_meter(now, id, handle, direct.meter)?;
        }
        self.set_cookie(id, handle, e);
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |book, state| {
                // A later update may have given the entry another handle; so too below.
                if let Some(handle) = state.table(id).and_then(|t| t.store().find(&matches, priority)) {
                    book.cookies.remove(&(id, handle));
                }
                let _ = state.delete(id, &matches, priority);
            });
            undo.push(step);
        }
        Ok(())
    }

    fn modify_entry(
        &mut self,
        table: &TableSchema,
        e: &pb::TableEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let (handle, old) = self.find(table, &e.r#match, e.priority)?;
        let direct = check_direct(table, e)?;
        let is_const = table.const_entries || old.is_const;
        let mut new = old.clone();
        if is_const {
            // Only direct resources may change ("Constant Tables").
            if e.action.is_some() {
                let message =
                    "the entry is const: only its counter and meter can be modified, so leave out the action";
                return Err(EntityError::new(Code::PermissionDenied, message));
            }
        } else {
            if let Some(action) = &e.action {
                new.action = self.decode_table_action(table, action)?;
            }
            new.metadata = e.metadata.clone();
            new.idle_timeout_ns = check_idle(table, e)?;
        }
        let (id, now) = (table.table, self.now);
        let old_counter = self.state.direct_counter(id, Some(handle)).ok();
        let old_meter = self.state.direct_meter(id, handle).ok();
        let old_cookie = self.book.cookies.get(&(id, handle)).copied();
        if !is_const {
            self.state.modify(now, id, new).map_err(|error| self.refused(id, error))?;
            self.set_cookie(id, handle, e);
        }
        if table.direct_meter.is_some() {
            // Left out means green for all ("Direct Resources").
            self.state.set_direct_meter(now, id, handle, direct.meter)?;
        }
        if let Some(value) = direct.counter {
            self.state.set_direct_counter(id, Some(handle), value)?;
        }
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |book, state| {
                let found = state.table(id).and_then(|t| t.store().find(&old.matches, old.priority));
                let Some(handle) = found else { return };
                set_or_remove(&mut book.cookies, (id, handle), old_cookie);
                if !is_const {
                    let _ = state.modify(now, id, old);
                }
                if let Some(value) = old_counter {
                    let _ = state.set_direct_counter(id, Some(handle), value);
                }
                if let Some(config) = old_meter {
                    let _ = state.set_direct_meter(now, id, handle, config);
                }
            });
            undo.push(step);
        }
        Ok(())
    }

    fn delete_entry(
        &mut self,
        table: &TableSchema,
        e: &pb::TableEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        if table.const_entries {
            return Err(EntityError::new(
                Code::PermissionDenied,
                "its entries are const: none can be deleted",
            ));
        }
        let (handle, old) = self.find(table, &e.r#match, e.priority)?;
        if old.is_const {
            return Err(EntityError::new(Code::PermissionDenied, "the entry is const: it cannot be deleted"));
        }
        let (id, now) = (table.table, self.now);
        let old_counter = self.state.direct_counter(id, Some(handle)).ok();
        let old_meter = self.state.direct_meter(id, handle).ok();
        self.state.delete(id, &old.matches, old.priority)?;
        let cookie = self.book.cookies.remove(&(id, handle));
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |book, state| {
                let Ok(handle) = state.insert(now, id, old) else { return };
                set_or_remove(&mut book.cookies, (id, handle), cookie);
                if let Some(value) = old_counter {
                    let _ = state.set_direct_counter(id, Some(handle), value);
                }
                if let Some(config) = old_meter {
                    let _ = state.set_direct_meter(now, id, handle, config);
                }
            });
            undo.push(step);
        }
        Ok(())
    }

    /// "Default Entry".
    fn write_default(
        &mut self,
        table: &TableSchema,
        op: Op,
        e: &pb::TableEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        op.only_modify("default entries")?;
        if !e.r#match.is_empty() || e.priority != 0 {
            return Err(EntityError::invalid("the default entry has neither match nor priority"));
        }
        if e.idle_timeout_ns != 0 || e.time_since_last_hit.is_some() {
            return Err(EntityError::invalid("the default entry has no idle timeout"));
        }
        if table.const_default {
            return Err(EntityError::new(Code::PermissionDenied, "its default action is const"));
        }
        let direct = check_direct(table, e)?;
        if direct.meter.is_some() {
            return Err(no_default_meter());
        }
        let call = match e.action.as_ref().map(|a| &a.r#type) {
            None => None,
            Some(Some(pb::table_action::Type::Action(a))) => {
                Some(entry::decode_action(self.schema, table, a, Use::Default)?)
            }
            Some(_) => return Err(EntityError::invalid("the default entry takes an action, nothing else")),
        };
        let id = table.table;
        let old_call = self.state.table(id).map(|t| ActionCall::clone(t.store().default_action()));
        let old_counter = self.state.direct_counter(id, None).ok();
        let old_book = self.book.defaults.get(&id).cloned();
        #[allow(deprecated)]
        let counter = match call {
            Some(call) => {
                self.state.set_default(id, call)?;
                self.book.defaults.insert(id, (e.controller_metadata, e.metadata.clone()));
                direct.counter
            }
            None => {
                self.state.reset_default(id)?;
                self.book.defaults.remove(&id);
                direct.counter.or_else(|| table.direct_counter.map(|_| CounterCell::default()))
            }
        };
        if let Some(value) = counter {
            self.state.set_direct_counter(id, None, value)?;
        }
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |book, state| {
                if let Some(call) = old_call {
                    let _ = state.set_default(id, call);
                }
                set_or_remove(&mut book.defaults, id, old_book);
                if let Some(value) = old_counter {
                    let _ = state.set_direct_counter(id, None, value);
                }
            });
            undo.push(step);
        }
        Ok(())
    }

    /// What a matching packet is to do ("Action Specification").
    fn decode_table_action(
        &self,
        table: &TableSchema,
        action: &pb::TableAction,
    ) -> Result<EntryAction, EntityError> {
        use pb::table_action::Type;
        let profile = table.profile.and_then(|p| self.state.profile(p));
        match (&action.r#type, profile) {
            (None, _) => Err(EntityError::invalid("the action is empty")),
            (Some(Type::Action(a)), None) => {
                let call = entry::decode_action(self.schema, table, a, Use::Entry)?;
                Ok(EntryAction::Call(Arc::new(call)))
            }
            (Some(Type::Action(_)), Some(_)) => Err(EntityError::invalid(
                "it has an action profile: give a member (or, with a selector, a group)",
            )),
            (Some(Type::ActionProfileMemberId(id)), Some(profile)) => match profile.member(*id) {
                Some(_) => Ok(EntryAction::Member(*id)),
                None => Err(EntityError::not_found(format!("its action profile has no member {id}"))),
            },
            (Some(Type::ActionProfileGroupId(id)), Some(profile)) => match profile.group(*id) {
                Some(_) => Ok(EntryAction::Group(*id)),
                None => Err(EntityError::not_found(format!("its action profile has no group {id}"))),
            },
            (Some(Type::ActionProfileActionSet(_)), Some(_)) => Err(EntityError::unimplemented(
                "one-shot action sets are not offered: insert members and a group, and name the group",
            )),
            (Some(_), None) => Err(EntityError::invalid("it has no action profile: give the action itself")),
        }
    }

    /// The entry that a match and priority name.
    ///
    /// # Errors
    /// The key is malformed, or no such entry.
    pub(super) fn find(
        &self,
        table: &TableSchema,
        matches: &[pb::FieldMatch],
        priority: i32,
    ) -> Result<(EntryHandle, Entry), EntityError> {
        let matches = entry::decode_match(&table.fields, matches)?;
        entry::check_priority(table, priority)?;
        let store = self.state.table(table.table).map(|t| t.store());
        let found = store.and_then(|s| s.find(&matches, priority).and_then(|h| Some((h, s.get(h)?.clone()))));
        found.ok_or_else(|| EntityError::not_found("there is no entry with this match and priority"))
    }

    #[allow(deprecated)]
    fn set_cookie(&mut self, table: TableId, handle: EntryHandle, e: &pb::TableEntry) {
        let cookie = (e.controller_metadata != 0).then_some(e.controller_metadata);
        set_or_remove(&mut self.book.cookies, (table, handle), cookie);
    }

    fn refused(&self, table: TableId, error: TableError) -> EntityError {
        let full = error == TableError::Full;
        let mut error = EntityError::from(error);
        if full && let Some(table) = self.state.table(table) {
            error.message = format!("it is full: it holds {} entries", table.store().capacity());
        }
        error
    }
}

pub(super) fn no_default_meter() -> EntityError {
    EntityError::unimplemented("default entries have no meter on this target")
}

pub(super) fn set_or_remove<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

/// "Idle-timeout".
fn check_idle(table: &TableSchema, e: &pb::TableEntry) -> Result<u64, EntityError> {
    if e.time_since_last_hit.is_some() {
        return Err(EntityError::invalid("time_since_last_hit is for reading only"));
    }
    let timeout = u64::try_from(e.idle_timeout_ns).map_err(|_| {
        EntityError::invalid(format!("idle_timeout_ns is {}: it cannot be negative", e.idle_timeout_ns))
    })?;
    if timeout != 0 && !table.idle_timeouts {
        return Err(EntityError::invalid("it has no idle timeouts: declare it with support_timeout = true"));
    }
    Ok(timeout)
}

/// "Direct Resources".
fn check_direct(table: &TableSchema, e: &pb::TableEntry) -> Result<Direct, EntityError> {
    if e.counter_data.is_some() && table.direct_counter.is_none() {
        return Err(EntityError::invalid("it has no direct counter, so counter_data cannot be set"));
    }
    if e.meter_config.is_some() && table.direct_meter.is_none() {
        return Err(EntityError::invalid("it has no direct meter, so meter_config cannot be set"));
    }
    if e.meter_counter_data.is_some() {
        return Err(match table.direct_meter {
            Some(_) => EntityError::unimplemented("this target does not count by meter colour"),
            None => EntityError::invalid("it has no direct meter, so meter_counter_data cannot be set"),
        });
    }
    Ok(Direct {
        counter: e.counter_data.as_ref().map(decode_counter).transpose()?,
        meter: e.meter_config.as_ref().map(decode_meter).transpose()?,
    })
}
