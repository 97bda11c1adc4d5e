//! Writing table entries (P4Runtime specification, "`TableEntry`").

use super::Access;
use super::profiles::TakenOneShot;
use super::resources::{decode_counter, decode_meter, reset_marked};
use super::write::{Op, Undo, UndoLog};
use crate::entry::{self, Use};
use crate::error::{Code, EntityError};
use crate::proto::p4rt as pb;
use crate::schema::TableSchema;
use pointsman_ir::{ActionCall, Entry, EntryAction, EntryHandle, TableId};
use pointsman_v1model::{CounterCell, MeterConfig, TableError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Values for the direct resources of an entry.
struct Direct {
    counter: Option<CounterCell>,
    meter: Option<MeterConfig>,
    /// The counts by meter colour go back to zero.
    reset_marked: bool,
}

/// An entry of a table; `None` is the default entry.
pub(super) type DirectOf = Option<EntryHandle>;

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
        let matches = entry::decode_match(&self.codec(), &table.fields, &e.r#match)?;
        entry::check_priority(table, e.priority)?;
        let Some(action) = &e.action else {
            return Err(EntityError::invalid("an entry that is inserted needs an action"));
        };
        let direct = check_direct(table, e)?;
        let idle_timeout_ns = check_idle(table, e)?;
        let (id, now) = (table.table, self.now);
        let (action, made) = self.decode_table_action(table, action)?;
        let entry = Entry {
            matches,
            priority: e.priority,
            action,
            is_const: false,
            metadata: e.metadata.clone(),
            idle_timeout_ns,
        };
        let handle = match self.state.insert(now, id, entry) {
            Ok(handle) => handle,
            Err(error) => {
                self.drop_one_shot(table, made);
                return Err(self.refused(id, error));
            }
        };
        if let Some(value) = direct.counter {
            self.state.set_direct_counter(id, Some(handle), value)?;
        }
        if direct.meter.is_some() {
            self.state.set_direct_meter(now, id, Some(handle), direct.meter)?;
        }
        self.set_cookie(id, handle, e);
        if let Some(undo) = undo {
            let profile = table.profile;
            let step: Undo = Box::new(move |book, state| {
                book.cookies.remove(&(id, handle));
                // Later updates have been taken back already, so it is the entry that was inserted.
                let entry = state.table(id).and_then(|t| t.store().get(handle));
                if let Some(entry) = entry {
                    let _ = state.delete(id, &entry.matches, entry.priority);
                }
                if let (Some(profile), Some(number)) = (profile, made) {
                    book.one_shots.remove(&(profile, number));
                    let _ = state.delete_one_shot(profile, number);
                }
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
        let handle = self.view().find(table, &e.r#match, e.priority)?;
        let direct = check_direct(table, e)?;
        let id = table.table;
        let saved = self.state.save_entry(id, handle);
        let saved = saved.ok_or_else(|| EntityError::not_found("there is no such entry"))?;
        let is_const = table.const_entries || saved.entry().is_const;
        let old_cookie = self.book.cookies.get(&(id, handle)).copied();
        // The one-shot group that the entry releases, and the one that it gets.
        let (mut given_up, mut given) = (None, None);
        if is_const {
            // Only direct resources may change ("Constant Tables").
            if e.action.is_some() {
                let message =
                    "the entry is const: only its counter and meter can be modified, so omit the action";
                return Err(EntityError::new(Code::PermissionDenied, message));
            }
        } else {
            (given_up, given) = self.replace_entry(table, saved.entry().clone(), e)?;
            self.set_cookie(id, handle, e);
        }
        self.set_direct(table, Some(handle), direct)?;
        if let Some(undo) = undo {
            let profile = table.profile;
            let step: Undo = Box::new(move |book, state| {
                if let Some(profile) = profile {
                    if let Some(number) = given {
                        book.one_shots.remove(&(profile, number));
                        let _ = state.delete_one_shot(profile, number);
                    }
                    if let Some((number, group, message)) = given_up {
                        let _ = state.restore_one_shot(profile, number, group);
                        book.one_shots.insert((profile, number), message);
                    }
                }
                let _ = state.restore_entry(id, saved);
                set_or_remove(&mut book.cookies, (id, handle), old_cookie);
            });
            undo.push(step);
        }
        Ok(())
    }

    /// Sets what belongs to an entry.
    fn set_direct(&mut self, table: &TableSchema, of: DirectOf, direct: Direct) -> Result<(), EntityError> {
        let id = table.table;
        if table.direct_meter.is_some() {
            // Left out means green for all ("Direct Resources").
            self.state.set_direct_meter(self.now, id, of, direct.meter)?;
            if direct.reset_marked {
                self.state.direct_meter_mut(id, of)?.set_marked(Default::default());
            }
        }
        if let Some(value) = direct.counter {
            self.state.set_direct_counter(id, of, value)?;
        }
        Ok(())
    }

    /// Gives an entry the action and the settings of `e`. Returns the one-shot group that it releases, and the one that it gets.
    fn replace_entry(
        &mut self,
        table: &TableSchema,
        mut new: Entry,
        e: &pb::TableEntry,
    ) -> Result<(Option<TakenOneShot>, Option<u32>), EntityError> {
        let (mut given_up, mut given) = (None, None);
        new.metadata = e.metadata.clone();
        new.idle_timeout_ns = check_idle(table, e)?;
        if let Some(action) = &e.action {
            // Taken out first, so that the two need not fit together.
            given_up = self.take_one_shot(table, &new.action);
            match self.decode_table_action(table, action) {
                Ok((action, made)) => {
                    new.action = action;
                    given = made;
                }
                Err(error) => {
                    self.put_one_shot(table, given_up);
                    return Err(error);
                }
            }
        }
        if let Err(error) = self.state.modify(self.now, table.table, new) {
            self.drop_one_shot(table, given);
            self.put_one_shot(table, given_up);
            return Err(self.refused(table.table, error));
        }
        Ok((given_up, given))
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
        let handle = self.view().find(table, &e.r#match, e.priority)?;
        let id = table.table;
        let saved = self.state.save_entry(id, handle);
        let saved = saved.ok_or_else(|| EntityError::not_found("there is no such entry"))?;
        if saved.entry().is_const {
            return Err(EntityError::new(Code::PermissionDenied, "the entry is const: it cannot be deleted"));
        }
        self.state.delete(id, &saved.entry().matches, saved.entry().priority)?;
        let cookie = self.book.cookies.remove(&(id, handle));
        let given_up = self.take_one_shot(table, &saved.entry().action);
        if let Some(undo) = undo {
            let profile = table.profile;
            let step: Undo = Box::new(move |book, state| {
                if let (Some(profile), Some((number, group, message))) = (profile, given_up) {
                    let _ = state.restore_one_shot(profile, number, group);
                    book.one_shots.insert((profile, number), message);
                }
                let _ = state.restore_entry(id, saved);
                set_or_remove(&mut book.cookies, (id, handle), cookie);
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
        entry::check_default(e)?;
        if table.const_default {
            return Err(EntityError::new(Code::PermissionDenied, "its default action is const"));
        }
        let direct = check_direct(table, e)?;
        let call = match e.action.as_ref().map(|a| &a.r#type) {
            None => None,
            Some(Some(pb::table_action::Type::Action(a))) => {
                Some(entry::decode_action(&self.codec(), self.schema, table, a, Use::Default)?)
            }
            Some(_) => return Err(EntityError::invalid("the default entry takes an action, nothing else")),
        };
        let id = table.table;
        let old_call = self.state.table(id).map(|t| ActionCall::clone(t.store().default_action()));
        let old_counter = self.state.direct_counter(id, None).ok();
        let old_meter = self.state.direct_meter(id, None).ok();
        let old_book = self.book.defaults.get(&id).cloned();
        #[allow(deprecated)]
        let (counter, reset_marked) = match call {
            Some(call) => {
                self.state.set_default(id, call)?;
                self.book.defaults.insert(id, (e.controller_metadata, e.metadata.clone()));
                (direct.counter, direct.reset_marked)
            }
            // Everything returns to the program's default.
            None => {
                self.state.reset_default(id)?;
                self.book.defaults.remove(&id);
                let zero = table.direct_counter.map(|_| CounterCell::default());
                (direct.counter.or(zero), true)
            }
        };
        self.set_direct(table, None, Direct { counter, meter: direct.meter, reset_marked })?;
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |book, state| {
                if let Some(call) = old_call {
                    let _ = state.set_default(id, call);
                }
                set_or_remove(&mut book.defaults, id, old_book);
                if let Some(value) = old_counter {
                    let _ = state.set_direct_counter(id, None, value);
                }
                if let (Some(old), Ok(meter)) = (old_meter, state.direct_meter_mut(id, None)) {
                    *meter = old;
                }
            });
            undo.push(step);
        }
        Ok(())
    }

    /// The action of a matching packet ("Action Specification"), and the number of the one-shot group that was made for
    /// it.
    fn decode_table_action(
        &mut self,
        table: &TableSchema,
        action: &pb::TableAction,
    ) -> Result<(EntryAction, Option<u32>), EntityError> {
        use pb::table_action::Type;
        let profile = table.profile.and_then(|p| self.state.profile(p));
        let named = |found: Option<EntryAction>, what: &str, id: u32, one_shots: bool| match found {
            Some(action) => Ok((action, None)),
            None if one_shots => Err(pointsman_v1model::ProfileError::Mixed.into()),
            None => Err(EntityError::not_found(format!("its action profile has no {what} {id}"))),
        };
        match (&action.r#type, profile) {
            (None, _) => Err(EntityError::invalid("the action is empty")),
            (Some(Type::Action(a)), None) => {
                let call = entry::decode_action(&self.codec(), self.schema, table, a, Use::Entry)?;
                Ok((EntryAction::Call(Arc::new(call)), None))
            }
            (Some(Type::Action(_)), Some(_)) => Err(EntityError::invalid(
                "it has an action profile: give a member (or, with a selector, a group)",
            )),
            (Some(Type::ActionProfileMemberId(id)), Some(profile)) => {
                let found = profile.member(*id).map(|_| EntryAction::Member(*id));
                named(found, "member", *id, profile.has_one_shots())
            }
            (Some(Type::ActionProfileGroupId(id)), Some(profile)) => {
                if profile.selector.is_none() {
                    return Err(EntityError::invalid(
                        "its action profile has no selector, so it has no groups",
                    ));
                }
                let found = profile.group(*id).map(|_| EntryAction::Group(*id));
                named(found, "group", *id, profile.has_one_shots())
            }
            (Some(Type::ActionProfileActionSet(set)), Some(_)) => {
                let number = self.make_one_shot(table, set)?;
                Ok((EntryAction::Group(number), Some(number)))
            }
            (Some(_), None) => Err(EntityError::invalid("it has no action profile: give the action itself")),
        }
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

pub(super) fn set_or_remove<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

/// "Idle-timeout".
fn check_idle(table: &TableSchema, e: &pb::TableEntry) -> Result<u64, EntityError> {
    if e.time_since_last_hit.is_some() {
        return Err(EntityError::invalid("time_since_last_hit is read-only"));
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
    if e.meter_counter_data.is_some() && table.direct_meter.is_none() {
        return Err(EntityError::invalid("it has no direct meter, so meter_counter_data cannot be set"));
    }
    Ok(Direct {
        counter: e.counter_data.as_ref().map(decode_counter).transpose()?,
        meter: e.meter_config.as_ref().map(decode_meter).transpose()?,
        reset_marked: reset_marked(e.meter_counter_data.as_ref())?,
    })
}
