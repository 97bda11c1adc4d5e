//! What reading needs of a pipeline: its state, and the terms in which controllers see it.

use super::Book;
use super::read;
use super::resources::{encode_counter, encode_marked, encode_meter};
use crate::entry;
use crate::error::EntityError;
use crate::p4data;
use crate::proto::p4rt as pb;
use crate::schema::{Schema, TableSchema};
use crate::translate::Codec;
use pb::entity::Entity;
use pointsman_ir::{Bits, Entry, EntryAction, EntryHandle};
use pointsman_v1model::{CounterCell, Meter, Register, State, Time};

/// How controllers see a pipeline. Making messages needs this, and not the switch.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub schema: &'a Schema,
    pub book: &'a Book,
    pub codec: Codec<'a>,
}

/// A pipeline with its state, to be read.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub terms: Terms<'a>,
    pub state: &'a State,
    pub now: Time,
}

/// What a read has found. It is taken from the switch as it is there: making the message takes longer than finding it,
/// and packets do not wait for that.
pub(super) enum Raw {
    /// Something whose message costs little.
    Entity(Entity),
    /// A cell of a register.
    Cell { register: u32, index: u64, bits: Bits },
    /// A table entry.
    Entry { table: u32, handle: EntryHandle, entry: Entry, parts: Parts },
    /// A direct counter, that of the default entry without an entry.
    Counter { table: u32, entry: Option<Entry>, value: CounterCell },
    /// A direct meter, likewise; its counts by colour if requested.
    Meter { table: u32, entry: Option<Entry>, meter: Box<Meter>, marked: bool },
}

/// Those parts of a table entry that a request asks for.
#[derive(Clone, Copy, Default)]
pub(super) struct Parts {
    pub counter: Option<pb::CounterData>,
    pub meter: Option<pb::MeterConfig>,
    pub marked: Option<pb::MeterCounterData>,
    pub idle_ns: Option<u64>,
}

impl<'a> Terms<'a> {
    /// The message for something that was found. None if the program has no such object, which cannot be.
    pub fn entity(&self, raw: Raw) -> Option<Entity> {
        let table = |id: u32| self.schema.tables.get(&id);
        Some(match raw {
            Raw::Entity(entity) => entity,
            Raw::Cell { register, index, bits } => {
                let schema = self.schema.registers.get(&register)?;
                let program = &self.schema.program;
                let value = Register::unpack(&program.types, schema.ty, &bits);
                let data = Some(p4data::encode(&self.codec, program, schema.ty, &value));
                Entity::RegisterEntry(pb::RegisterEntry {
                    register_id: register,
                    index: read::index(index),
                    data,
                })
            }
            Raw::Entry { table: id, handle, entry, parts } => {
                Entity::TableEntry(self.table_entry(table(id)?, handle, &entry, parts))
            }
            Raw::Counter { table: id, entry, value } => Entity::DirectCounterEntry(pb::DirectCounterEntry {
                table_entry: Some(self.key(table(id)?, entry.as_ref())),
                data: Some(encode_counter(value)),
            }),
            Raw::Meter { table: id, entry, meter, marked } => {
                Entity::DirectMeterEntry(pb::DirectMeterEntry {
                    table_entry: Some(self.key(table(id)?, entry.as_ref())),
                    config: meter.config().map(encode_meter),
                    counter_data: marked.then(|| encode_marked(meter.marked())),
                })
            }
        })
    }

    /// The message that names an entry; the default entry without one.
    fn key(&self, table: &TableSchema, entry: Option<&Entry>) -> pb::TableEntry {
        match entry {
            Some(entry) => entry::encode_key(&self.codec, table, entry),
            None => pb::TableEntry { table_id: table.id, is_default_action: true, ..Default::default() },
        }
    }

    fn table_entry(
        &self,
        table: &TableSchema,
        handle: EntryHandle,
        entry: &Entry,
        parts: Parts,
    ) -> pb::TableEntry {
        use pb::table_action::Type;
        let action = match &entry.action {
            EntryAction::Call(call) => {
                entry::encode_action(&self.codec, self.schema, table, call).map(Type::Action)
            }
            EntryAction::Member(member) => Some(Type::ActionProfileMemberId(*member)),
            EntryAction::Group(group) => Some(match self.one_shot(table, &entry.action) {
                Some(set) => Type::ActionProfileActionSet(set.clone()),
                None => Type::ActionProfileGroupId(*group),
            }),
        };
        let elapsed = |ns| pb::table_entry::IdleTimeout { elapsed_ns: i64::try_from(ns).unwrap_or(i64::MAX) };
        #[allow(deprecated)]
        pb::TableEntry {
            action: Some(pb::TableAction { r#type: action }),
            controller_metadata: self.cookie(table, handle),
            metadata: entry.metadata.clone(),
            idle_timeout_ns: i64::try_from(entry.idle_timeout_ns).unwrap_or(i64::MAX),
            is_const: table.const_entries || entry.is_const,
            counter_data: parts.counter,
            meter_config: parts.meter,
            meter_counter_data: parts.marked,
            time_since_last_hit: parts.idle_ns.map(elapsed),
            ..entry::encode_key(&self.codec, table, entry)
        }
    }

    /// The deprecated 64-bit cookie of an entry; 0 for none.
    pub fn cookie(&self, table: &TableSchema, handle: EntryHandle) -> u64 {
        self.book.cookies.get(&(table.table, handle)).copied().unwrap_or(0)
    }

    /// The message of a one-shot group.
    pub fn one_shot(
        &self,
        table: &TableSchema,
        action: &EntryAction,
    ) -> Option<&'a pb::ActionProfileActionSet> {
        let EntryAction::Group(number) = action else { return None };
        self.book.one_shots.get(&(table.profile?, *number))
    }
}

impl View<'_> {
    /// The entry that a match and priority name.
    ///
    /// # Errors
    /// The key is malformed, or no such entry.
    pub fn find(
        &self,
        table: &TableSchema,
        matches: &[pb::FieldMatch],
        priority: i32,
    ) -> Result<EntryHandle, EntityError> {
        let matches = entry::decode_match(&self.terms.codec, &table.fields, matches)?;
        entry::check_priority(table, priority)?;
        let found = self.state.table(table.table).and_then(|t| t.store().find(&matches, priority));
        found.ok_or_else(|| EntityError::not_found("there is no entry with this match and priority"))
    }
}
