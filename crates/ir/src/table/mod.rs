//! Table entries at run time, and what matching means.
//!
//! A [`TableStore`] is the control plane's view of one table and the obvious way to look it up. A [`FlatTable`](flat::FlatTable) holds the
//! same entries for executors in a hurry and must agree with [`TableStore::lookup`].

use crate::value::Value;
use std::sync::Arc;

pub mod flat;
mod hits;
mod matching;
mod pack;
mod store;
#[cfg(test)]
mod tests;

pub use hits::{HitCells, HitShape};
pub use matching::{KeyMatch, Misfit};
pub use store::TableStore;

/// An action with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionCall {
    /// Index into [`Table::actions`](crate::Table::actions).
    pub action: u32,
    /// One value per parameter without direction.
    pub args: Vec<Value>,
}

/// The action of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryAction {
    /// Runs an action.
    Call(Arc<ActionCall>),
    /// Member of an action profile or selector.
    Member(u32),
    /// Group of an action selector.
    Group(u32),
}

/// Names an entry for as long as it exists; never used twice in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryHandle(pub u64);

/// A table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One per key field, fields of kind `selector` left out.
    pub matches: Vec<KeyMatch>,
    /// Larger wins. Only for tables with ternary, range or optional keys; 0 otherwise.
    pub priority: i32,
    /// Its action.
    pub action: EntryAction,
    /// Written as `const` in the program: the control plane may not change it.
    pub is_const: bool,
    /// Opaque to us; P4Runtime's `metadata`.
    pub metadata: Vec<u8>,
    /// Idle time after which the control plane is notified, in nanoseconds; 0 for never.
    pub idle_timeout_ns: u64,
}

/// Why an entry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// An entry with the same match (and priority) already exists.
    Duplicate,
    /// No such entry.
    NotFound,
    /// The table holds as many entries as its size allows.
    Full,
}
