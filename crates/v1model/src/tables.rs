//! Tables at run time: entries, their counters, and the checks of everything that the control plane writes.

use crate::counter::CounterKind;
use crate::guarded::Guarded;
use crate::meter::{Meter, MeterKind, RatesError};
use crate::problem::Problem;
use crate::time::Time;
use pointsman_ir::table::flat::FlatShape;
use pointsman_ir::{
    ActionCall, Direction, Entry, EntryAction, EntryError, EntryHandle, ExternInstanceId, HitShape, KeyMatch,
    MatchKind, Program, Table, TableStore, Type, TypeId, Types, Value,
};
use std::sync::Arc;

/// Entries that a table without `size` holds, as in p4c and BMv2.
const DEFAULT_TABLE_SIZE: u64 = 1024;

/// Entries that the control plane may add to a table: its `size`, or 1,024 where that is missing or 0.
pub fn table_size(table: &Table) -> u64 {
    table.size.filter(|n| *n != 0).unwrap_or(DEFAULT_TABLE_SIZE)
}

/// Why a change of a table was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// No table has this id.
    UnknownTable,
    /// Its entries are `const`.
    ConstEntries,
    /// Its default action is `const`.
    ConstDefault,
    /// The entry already exists.
    Duplicate,
    /// No such entry.
    NotFound,
    /// The table is full.
    Full,
    /// The match does not fit the key.
    BadMatch(String),
    /// The priority does not fit the table.
    BadPriority(String),
    /// The action does not fit the table.
    BadAction(String),
    /// Rates that no meter can have.
    BadMeterConfig(RatesError),
    /// The entry has an idle timeout, but the table does not support one.
    NoIdleTimeout,
    /// The table has no such direct resource (counter or meter).
    NoDirectResource,
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TableError::UnknownTable => write!(f, "no such table"),
            TableError::ConstEntries => write!(f, "the table's entries are const"),
            TableError::ConstDefault => write!(f, "the table's default action is const"),
            TableError::Duplicate => write!(f, "an entry with this match already exists"),
            TableError::NotFound => write!(f, "no such entry"),
            TableError::Full => write!(f, "the table is full"),
            TableError::BadMatch(m) | TableError::BadPriority(m) | TableError::BadAction(m) => f.write_str(m),
            TableError::BadMeterConfig(e) => e.fmt(f),
            TableError::NoIdleTimeout => {
                write!(f, "the table has no idle timeouts: set its property support_timeout = true")
            }
            TableError::NoDirectResource => write!(f, "the table has no such direct counter or meter"),
        }
    }
}

impl std::error::Error for TableError {}

impl From<EntryError> for TableError {
    fn from(e: EntryError) -> Self {
        match e {
            EntryError::Duplicate => TableError::Duplicate,
            EntryError::NotFound => TableError::NotFound,
            EntryError::Full => TableError::Full,
        }
    }
}

#[derive(Clone, Debug)]
struct KeyShape {
    name: String,
    kind: MatchKind,
    width: u32,
}

#[derive(Clone, Debug)]
struct ActionShape {
    name: String,
    params: Vec<TypeId>,
    default_only: bool,
    table_only: bool,
}

/// A table's data about one entry, besides counts and times ([`Hits`](crate::state::Hits)).
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryInfo {
    pub meter: Meter,
    /// When its idle timer runs out; other timers of the entry are stale.
    pub timer: Option<Time>,
}

/// One table.
#[derive(Clone, Debug)]
pub struct TableState {
    pub(crate) store: TableStore,
    pub(crate) direct_counter: Option<CounterKind>,
    pub(crate) direct_meter: Option<(ExternInstanceId, MeterKind)>,
    pub(crate) profile: Option<ExternInstanceId>,
    pub(crate) idle_timeouts: bool,
    /// By the entries' places, only if the table has a direct meter or idle timeouts.
    pub(crate) infos: Guarded<Vec<EntryInfo>>,
    initial_default: Arc<ActionCall>,
    const_default: bool,
    const_entries: bool,
    keys: Vec<KeyShape>,
    actions: Vec<ActionShape>,
}

/// The objects attached to a table, resolved by [`Pipeline::load`](crate::Pipeline::load).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attached {
    pub counter: Option<CounterKind>,
    pub meter: Option<(ExternInstanceId, MeterKind)>,
    pub profile: Option<ExternInstanceId>,
    pub idle_timeouts: bool,
}

impl TableState {
    /// The table as the program declares it, with the program's entries.
    pub(crate) fn new(program: &Program, table: &Table, attached: Attached) -> Result<Self, Problem> {
        let types = &program.types;
        let problem = |message: String| Problem::at(table.span, message);
        let mut keys = Vec::new();
        for key in table.keys.iter().filter(|k| k.match_kind != MatchKind::Selector) {
            let width = types.scalar_width(key.expr.ty).ok_or_else(|| {
                problem(format!(
                    "key {} of table {} is not a scalar: match on one of its fields",
                    key.name, table.name
                ))
            })?;
            keys.push(KeyShape { name: key.name.clone(), kind: key.match_kind, width });
        }
        let mut actions = Vec::new();
        for a in &table.actions {
            let action = program.actions.get(a.action.index()).ok_or_else(|| {
                problem(format!("table {} names an action that does not exist", table.name))
            })?;
            let data = action.frame.params.iter().filter(|p| p.direction == Direction::None);
            actions.push(ActionShape {
                name: action.name.clone(),
                params: data.map(|p| p.ty).collect(),
                default_only: a.default_only,
                table_only: a.table_only,
            });
        }
        let kinds = keys.iter().map(|k| k.kind).collect();
        let size = table_size(table).max(table.entries.len() as u64);
        let default = Arc::new(table.default_action.clone());
        let mut state = TableState {
            store: TableStore::new(kinds, size, default.clone()),
            direct_counter: attached.counter,
            direct_meter: attached.meter,
            profile: attached.profile,
            idle_timeouts: attached.idle_timeouts,
            infos: Guarded::default(),
            initial_default: default,
            const_default: table.const_default,
            const_entries: table.const_entries,
            keys,
            actions,
        };
        state
            .check_call(types, &table.default_action, true)
            .map_err(|e| problem(format!("default action of table {}: {e}", table.name)))?;
        for (i, entry) in table.entries.iter().enumerate() {
            let place = |e: TableError| problem(format!("entry {} of table {}: {e}", i + 1, table.name));
            state.check_matches(&entry.matches).map_err(place)?;
            if let EntryAction::Call(call) = &entry.action {
                state.check_call(types, call, false).map_err(place)?;
            }
            state.store.insert(entry.clone()).map_err(|e| place(e.into()))?;
        }
        state.fit_infos();
        Ok(state)
    }

    /// Whether the table keeps an [`EntryInfo`] for its entries.
    pub(crate) fn has_info(&self) -> bool {
        self.direct_meter.is_some() || self.idle_timeouts
    }

    /// What packets note about its entries.
    pub(crate) fn hit_shape(&self) -> HitShape {
        HitShape { counts: self.direct_counter.map(CounterKind::cells), times: self.idle_timeouts }
    }

    /// Whether a look-up changes anything.
    pub(crate) fn follows_hits(&self) -> bool {
        !self.hit_shape().is_empty() || self.direct_meter.is_some()
    }

    /// Whether a look-up changes nothing, and depends on nothing but the key.
    pub(crate) fn is_plain(&self) -> bool {
        !self.follows_hits() && self.profile.is_none()
    }

    /// The place of an entry, or of the default action, in arrays of what belongs to entries.
    pub(crate) fn place(&self, handle: Option<EntryHandle>) -> Option<u64> {
        match handle {
            None => Some(0),
            Some(handle) => self.store.slot_of(handle).map(|slot| u64::from(slot) + 1),
        }
    }

    /// Number of places.
    pub(crate) fn places(&self) -> u64 {
        u64::from(self.store.slots()) + 1
    }

    /// Gives every place an [`EntryInfo`], if the table has some.
    pub(crate) fn fit_infos(&mut self) {
        if self.has_info() {
            let places = self.places() as usize;
            let infos = self.infos.alone();
            infos.resize_with(places, EntryInfo::default);
            if places == 1 {
                infos.shrink_to_fit();
            }
        }
    }

    /// The place of an entry, or of the default action, among the [`EntryInfo`]s.
    fn info_place(&self, handle: Option<EntryHandle>) -> Option<usize> {
        let place = self.has_info().then(|| self.place(handle)).flatten();
        place.map(|place| place as usize)
    }

    /// The [`EntryInfo`] of an entry, or of the default action.
    pub(crate) fn info_mut(&mut self, handle: Option<EntryHandle>) -> Option<&mut EntryInfo> {
        let place = self.info_place(handle)?;
        self.infos.alone().get_mut(place)
    }

    /// The same, to be read.
    pub(crate) fn info(&self, handle: Option<EntryHandle>) -> Option<EntryInfo> {
        let place = self.info_place(handle)?;
        self.infos.shared().get(place).cloned()
    }

    /// Sets the [`EntryInfo`] of an entry, which may be new, or of the default action.
    pub(crate) fn put_info(&mut self, handle: Option<EntryHandle>, info: EntryInfo) {
        self.fit_infos();
        if let Some(old) = self.info_mut(handle) {
            *old = info;
        }
    }

    /// The shape of its flat table.
    pub(crate) fn flat_shape(&self, types: &Types, seed: u64) -> FlatShape {
        let data = |a: &ActionShape| a.params.iter().map(|ty| types.scalar_width(*ty)).collect();
        FlatShape {
            keys: self.keys.iter().map(|k| (k.kind, k.width)).collect(),
            actions: self.actions.iter().map(data).collect(),
            // Counts and times are noted without a report.
            reports: self.direct_meter.is_some(),
            groups: self.profile.is_some(),
            seed,
        }
    }

    /// The entries and the default action.
    pub fn store(&self) -> &TableStore {
        &self.store
    }

    /// Whether the default action is the one that the program declares.
    pub fn default_is_initial(&self) -> bool {
        **self.store.default_action() == *self.initial_default
    }

    /// Whether only the program sets its default action.
    pub(crate) fn has_const_default(&self) -> bool {
        self.const_default
    }

    /// Whether entries of this table need a priority.
    pub fn needs_priority(&self) -> bool {
        self.keys.iter().any(|k| k.kind.needs_priority())
    }

    /// The unit of the direct counter, if any.
    pub fn direct_counter(&self) -> Option<CounterKind> {
        self.direct_counter
    }

    /// The unit of the direct meter, if any.
    pub fn direct_meter(&self) -> Option<MeterKind> {
        self.direct_meter.map(|(_, kind)| kind)
    }

    /// The action profile or selector.
    pub fn profile(&self) -> Option<ExternInstanceId> {
        self.profile
    }

    pub(crate) fn check_entries_changeable(&self) -> Result<(), TableError> {
        if self.const_entries { Err(TableError::ConstEntries) } else { Ok(()) }
    }

    pub(crate) fn check_default_changeable(&self) -> Result<(), TableError> {
        if self.const_default { Err(TableError::ConstDefault) } else { Ok(()) }
    }

    /// Everything about an entry but its action profile member or group.
    pub(crate) fn check_entry(&self, types: &Types, entry: &Entry) -> Result<(), TableError> {
        self.check_matches(&entry.matches)?;
        match (self.needs_priority(), entry.priority) {
            (true, p) if p <= 0 => {
                return Err(TableError::BadPriority(format!(
                    "priority {p}: the table has ternary, range or optional keys, so give 1 or more"
                )));
            }
            (false, p) if p != 0 => {
                return Err(TableError::BadPriority(format!(
                    "priority {p}: the table has only exact and lpm keys, so set it to 0"
                )));
            }
            _ => {}
        }
        if entry.idle_timeout_ns != 0 && !self.idle_timeouts {
            return Err(TableError::NoIdleTimeout);
        }
        match (&entry.action, self.profile) {
            (EntryAction::Call(call), None) => self.check_call(types, call, false),
            (EntryAction::Member(_) | EntryAction::Group(_), Some(_)) => Ok(()),
            (EntryAction::Call(_), Some(_)) => Err(TableError::BadAction(
                "the table has an action profile: name a member or group of it".into(),
            )),
            (_, None) => {
                Err(TableError::BadAction("the table has no action profile: give the action itself".into()))
            }
        }
    }

    pub(crate) fn check_matches(&self, matches: &[KeyMatch]) -> Result<(), TableError> {
        if matches.len() != self.keys.len() {
            return Err(TableError::BadMatch(format!(
                "{} key fields given, the table has {}",
                matches.len(),
                self.keys.len()
            )));
        }
        for (m, key) in matches.iter().zip(&self.keys) {
            m.check(key.kind, key.width)
                .map_err(|e| TableError::BadMatch(format!("key {}: {e}", key.name)))?;
        }
        Ok(())
    }

    /// Checks that `call` is one of the table's actions with arguments of the right types.
    pub(crate) fn check_call(
        &self,
        types: &Types,
        call: &ActionCall,
        as_default: bool,
    ) -> Result<(), TableError> {
        let bad = |m: String| Err(TableError::BadAction(m));
        let Some(action) = self.actions.get(call.action as usize) else {
            return bad(format!("the table has {} actions, no number {}", self.actions.len(), call.action));
        };
        if as_default && action.table_only {
            return bad(format!("action {} is @tableonly: it cannot be the default", action.name));
        }
        if !as_default && action.default_only {
            return bad(format!("action {} is @defaultonly: it cannot be used in an entry", action.name));
        }
        if call.args.len() != action.params.len() {
            return bad(format!(
                "action {} takes {} parameters, {} given",
                action.name,
                action.params.len(),
                call.args.len()
            ));
        }
        for (i, (arg, ty)) in call.args.iter().zip(&action.params).enumerate() {
            if !fits(types, *ty, arg) {
                return bad(format!("parameter {} of action {} has another type", i + 1, action.name));
            }
        }
        Ok(())
    }

    /// Sets the default action, or back to the program's.
    pub(crate) fn set_default(&mut self, call: Option<ActionCall>) {
        let call = call.map_or_else(|| self.initial_default.clone(), Arc::new);
        self.store.set_default_action(call);
    }

    /// Could entries of `old` be kept here unchanged? Keys and actions must be the same in name, kind and width.
    pub(crate) fn same_shape(&self, types: &Types, old: &TableState, old_types: &Types) -> bool {
        let key = |k: &KeyShape| (k.name.clone(), k.kind, k.width);
        let action = |types: &Types, a: &ActionShape| {
            let params = a.params.iter().map(|t| types.total_width(*t)).collect::<Vec<_>>();
            (a.name.clone(), params, a.default_only, a.table_only)
        };
        self.keys.iter().map(key).eq(old.keys.iter().map(key))
            && self
                .actions
                .iter()
                .map(|a| action(types, a))
                .eq(old.actions.iter().map(|a| action(old_types, a)))
            && self.const_entries == old.const_entries
            && self.const_default == old.const_default
            && self.direct_counter == old.direct_counter
            && self.direct_meter() == old.direct_meter()
            && self.profile.is_some() == old.profile.is_some()
            && self.idle_timeouts == old.idle_timeouts
    }

    /// Takes over entries and default action of a table of the same shape, as far as they fit. Gives their names in both tables; none is
    /// the default action's.
    pub(crate) fn adopt(&mut self, old: &TableState) -> Vec<(Option<EntryHandle>, Option<EntryHandle>)> {
        let mut adopted = Vec::new();
        if !self.const_entries {
            let program_entries: Vec<_> = self.store.iter().map(|(_, e)| (e.matches, e.priority)).collect();
            for (matches, priority) in program_entries {
                // Nothing was noted about it.
                let _ = self.store.delete(&matches, priority);
            }
            for (old_handle, entry) in old.store.iter() {
                let Ok(handle) = self.store.insert(entry) else { break };
                adopted.push((Some(old_handle), Some(handle)));
            }
        }
        if !self.const_default {
            self.store.set_default_action(old.store.default_action().clone());
            adopted.push((None, None));
        }
        for (from, to) in &adopted {
            self.put_info(*to, old.info(*from).unwrap_or_default());
        }
        adopted
    }
}

/// Whether `value` has type `ty`.
pub(crate) fn fits(types: &Types, ty: TypeId, value: &Value) -> bool {
    match (types.repr_type(ty), value) {
        (Type::Bool, Value::Bool(_)) => true,
        (Type::Bit(w) | Type::Int(w), Value::Bits(b)) => b.width() == *w,
        (Type::Varbit(w), Value::Varbit(b)) => b.width() <= *w,
        (Type::Enum(d), Value::Enum(n)) => (*n as usize) < d.members.len(),
        (Type::Error, Value::Error(_)) => true,
        (Type::Struct(d), Value::Struct(vs)) => {
            d.fields.len() == vs.len() && d.fields.iter().zip(vs).all(|(f, v)| fits(types, f.ty, v))
        }
        (Type::Header(d), Value::Header { fields, .. }) => {
            d.fields.len() == fields.len() && d.fields.iter().zip(fields).all(|(f, v)| fits(types, f.ty, v))
        }
        (Type::Tuple(ts), Value::Struct(vs)) => {
            ts.len() == vs.len() && ts.iter().zip(vs).all(|(t, v)| fits(types, *t, v))
        }
        _ => false,
    }
}
