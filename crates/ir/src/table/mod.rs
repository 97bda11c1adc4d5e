//! Table entries at run time, and what matching means.
//!
//! A [`TableStore`] is the control plane's view of one table and the obvious way to look it up. A [`FlatTable`](flat::FlatTable) holds the
//! same entries for executors in a hurry and must agree with [`TableStore::lookup`].

use crate::bits::Bits;
use crate::program::MatchKind;
use crate::value::Value;
use std::sync::Arc;

pub mod flat;
mod pack;
mod store;
#[cfg(test)]
mod tests;

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

/// Match of one key field. Fields of kind `selector` have none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyMatch {
    /// Equal.
    Exact(Bits),
    /// The first `prefix_len` bits are equal; the others of `value` are zero.
    Lpm {
        /// The prefix.
        value: Bits,
        /// Its length in bits.
        prefix_len: u32,
    },
    /// Equal under `mask`; `value` is zero outside of it.
    Ternary {
        /// Value.
        value: Bits,
        /// Mask.
        mask: Bits,
    },
    /// Between the two, both included, unsigned.
    Range {
        /// Least.
        lo: Bits,
        /// Greatest.
        hi: Bits,
    },
    /// Equal, or anything.
    Optional(Option<Bits>),
}

impl KeyMatch {
    /// Whether `value` matches.
    pub fn matches(&self, value: &Bits) -> bool {
        match self {
            KeyMatch::Exact(v) => v == value,
            KeyMatch::Lpm { value: v, prefix_len } => {
                let drop = u64::from(v.width().saturating_sub(*prefix_len));
                v.shr(drop) == value.shr(drop)
            }
            KeyMatch::Ternary { value: v, mask } => &value.and(mask) == v,
            KeyMatch::Range { lo, hi } => lo.cmp_unsigned(value).is_le() && value.cmp_unsigned(hi).is_le(),
            KeyMatch::Optional(v) => v.as_ref().is_none_or(|v| v == value),
        }
    }

    /// The match kind that this is for.
    pub fn kind(&self) -> MatchKind {
        match self {
            KeyMatch::Exact(_) => MatchKind::Exact,
            KeyMatch::Lpm { .. } => MatchKind::Lpm,
            KeyMatch::Ternary { .. } => MatchKind::Ternary,
            KeyMatch::Range { .. } => MatchKind::Range,
            KeyMatch::Optional(_) => MatchKind::Optional,
        }
    }
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
