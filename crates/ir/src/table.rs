//! Table entries at run time, and what matching means.
//!
//! A [`TableStore`] is the control plane's view of one table and the obvious way to look it up. A faster executor builds
//! its own structures from the same entries and must agree with [`TableStore::lookup`].

use crate::bits::Bits;
use crate::program::MatchKind;
use crate::value::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// An action with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionCall {
    /// Index into [`Table::actions`](crate::Table::actions).
    pub action: u32,
    /// One value per parameter without direction.
    pub args: Vec<Value>,
}

/// What an entry does.
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
    /// Does `value` match?
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

/// Names an entry for as long as it stands; never used twice in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryHandle(pub u64);

/// A table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One per key field, fields of kind `selector` left out.
    pub matches: Vec<KeyMatch>,
    /// Larger wins. Only for tables with ternary, range or optional keys; 0 otherwise.
    pub priority: i32,
    /// What it does.
    pub action: EntryAction,
    /// Written as `const` in the program: the control plane may not change it.
    pub is_const: bool,
    /// Opaque to us; P4Runtime's `metadata`.
    pub metadata: Vec<u8>,
    /// Idle time after which the control plane is told, in nanoseconds; 0 for never.
    pub idle_timeout_ns: u64,
}

/// Why an entry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// An entry with the same match (and priority) stands already.
    Duplicate,
    /// No such entry.
    NotFound,
    /// The table holds as many entries as its size allows.
    Full,
}

type MatchKey = (i32, Vec<KeyMatch>);

/// The entries of one table.
#[derive(Clone, Debug)]
pub struct TableStore {
    kinds: Vec<MatchKind>,
    capacity: u64,
    next_handle: u64,
    entries: BTreeMap<EntryHandle, Entry>,
    by_match: HashMap<MatchKey, EntryHandle>,
    /// All keys exact: the way to find an entry. Never iterated.
    exact: HashMap<Vec<Bits>, EntryHandle>,
    /// Otherwise: highest precedence first.
    order: Vec<EntryHandle>,
    default: Arc<ActionCall>,
}

impl TableStore {
    /// An empty table whose matched keys (without selectors) have these kinds.
    pub fn new(kinds: Vec<MatchKind>, capacity: u64, default: Arc<ActionCall>) -> Self {
        TableStore {
            kinds,
            capacity,
            next_handle: 1,
            entries: BTreeMap::new(),
            by_match: HashMap::new(),
            exact: HashMap::new(),
            order: Vec::new(),
            default,
        }
    }

    /// Kinds of the matched keys.
    pub fn kinds(&self) -> &[MatchKind] {
        &self.kinds
    }

    /// How many entries fit.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// No entries?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries in the order in which they were inserted.
    pub fn iter(&self) -> impl Iterator<Item = (EntryHandle, &Entry)> {
        self.entries.iter().map(|(h, e)| (*h, e))
    }

    /// The entry that `handle` names.
    pub fn get(&self, handle: EntryHandle) -> Option<&Entry> {
        self.entries.get(&handle)
    }

    /// The entry with this match and priority.
    pub fn find(&self, matches: &[KeyMatch], priority: i32) -> Option<EntryHandle> {
        self.by_match.get(&(priority, matches.to_vec())).copied()
    }

    /// The default action.
    pub fn default_action(&self) -> &Arc<ActionCall> {
        &self.default
    }

    /// Sets the default action.
    pub fn set_default_action(&mut self, call: Arc<ActionCall>) {
        self.default = call;
    }

    fn all_exact(&self) -> bool {
        self.kinds.iter().all(|k| *k == MatchKind::Exact)
    }

    /// Adds an entry.
    pub fn insert(&mut self, entry: Entry) -> Result<EntryHandle, EntryError> {
        let key = (entry.priority, entry.matches.clone());
        if self.by_match.contains_key(&key) {
            return Err(EntryError::Duplicate);
        }
        if self.entries.len() as u64 >= self.capacity {
            return Err(EntryError::Full);
        }
        let handle = EntryHandle(self.next_handle);
        self.next_handle += 1;
        if self.all_exact() {
            self.exact.insert(exact_key(&entry.matches), handle);
        } else {
            let rank = precedence(&entry);
            // Equal precedence: the older one wins, so that what a program wrote first stays first.
            let at = self.order.partition_point(|h| precedence(&self.entries[h]) >= rank);
            self.order.insert(at, handle);
        }
        self.by_match.insert(key, handle);
        self.entries.insert(handle, entry);
        Ok(handle)
    }

    /// Replaces action, metadata and idle time of the entry with the same match and priority; it keeps its handle.
    pub fn modify(&mut self, entry: Entry) -> Result<EntryHandle, EntryError> {
        let handle = self.find(&entry.matches, entry.priority).ok_or(EntryError::NotFound)?;
        self.entries.insert(handle, entry);
        Ok(handle)
    }

    /// Removes an entry.
    pub fn delete(
        &mut self,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<(EntryHandle, Entry), EntryError> {
        let handle = self.by_match.remove(&(priority, matches.to_vec())).ok_or(EntryError::NotFound)?;
        let entry = self.entries.remove(&handle).ok_or(EntryError::NotFound)?;
        if self.all_exact() {
            self.exact.remove(&exact_key(matches));
        } else {
            self.order.retain(|h| *h != handle);
        }
        Ok((handle, entry))
    }

    /// The entry that a packet with these key values hits. `key` leaves out fields of kind `selector`.
    ///
    /// A table without keys never hits (P4_16 section 14.2.1.1).
    pub fn lookup(&self, key: &[Bits]) -> Option<(EntryHandle, &Entry)> {
        if self.kinds.is_empty() {
            return None;
        }
        let handle = if self.all_exact() {
            *self.exact.get(key)?
        } else {
            *self.order.iter().find(|h| {
                let e = &self.entries[h];
                e.matches.len() == key.len() && e.matches.iter().zip(key).all(|(m, v)| m.matches(v))
            })?
        };
        self.entries.get(&handle).map(|e| (handle, e))
    }
}

fn exact_key(matches: &[KeyMatch]) -> Vec<Bits> {
    matches
        .iter()
        .filter_map(|m| match m {
            KeyMatch::Exact(b) => Some(b.clone()),
            _ => None,
        })
        .collect()
}

/// Larger wins: priority first, then the longest prefix (a table has at most one lpm key).
fn precedence(entry: &Entry) -> (i32, u32) {
    let prefix = entry.matches.iter().find_map(|m| match m {
        KeyMatch::Lpm { prefix_len, .. } => Some(*prefix_len),
        _ => None,
    });
    (entry.priority, prefix.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(n: u32) -> EntryAction {
        EntryAction::Call(Arc::new(ActionCall { action: n, args: Vec::new() }))
    }

    fn entry(m: KeyMatch, priority: i32, action: u32) -> Entry {
        Entry {
            matches: vec![m],
            priority,
            action: call(action),
            is_const: false,
            metadata: vec![],
            idle_timeout_ns: 0,
        }
    }

    fn store(kind: MatchKind) -> TableStore {
        TableStore::new(vec![kind], 3, Arc::new(ActionCall { action: 9, args: vec![] }))
    }

    fn hit(t: &TableStore, v: u128) -> Option<EntryAction> {
        t.lookup(&[Bits::new(8, v)]).map(|(_, e)| e.action.clone())
    }

    #[test]
    fn longest_prefix_and_priority_win() {
        let mut t = store(MatchKind::Lpm);
        let lpm = |v, n| KeyMatch::Lpm { value: Bits::new(8, v), prefix_len: n };
        t.insert(entry(lpm(0, 0), 0, 1)).unwrap();
        t.insert(entry(lpm(0xa0, 4), 0, 2)).unwrap();
        t.insert(entry(lpm(0x80, 1), 0, 3)).unwrap();
        assert_eq!(hit(&t, 0xa7), Some(call(2)));
        assert_eq!(hit(&t, 0xb7), Some(call(3)));
        assert_eq!(hit(&t, 0x17), Some(call(1)));
        assert_eq!(t.insert(entry(lpm(0xc0, 2), 0, 3)), Err(EntryError::Full));
        let mut t = store(MatchKind::Ternary);
        let tern = |v, m| KeyMatch::Ternary { value: Bits::new(8, v), mask: Bits::new(8, m) };
        t.insert(entry(tern(1, 1), 1, 1)).unwrap();
        t.insert(entry(tern(3, 3), 2, 2)).unwrap();
        assert_eq!(t.insert(entry(tern(3, 3), 2, 5)), Err(EntryError::Duplicate));
        assert_eq!(hit(&t, 3), Some(call(2)));
        assert_eq!(hit(&t, 5), Some(call(1)));
        assert_eq!(hit(&t, 4), None);
    }

    #[test]
    fn exact_modify_delete() {
        let mut t = store(MatchKind::Exact);
        let exact = |v| KeyMatch::Exact(Bits::new(8, v));
        let h = t.insert(entry(exact(1), 0, 1)).unwrap();
        assert_eq!(t.modify(entry(exact(1), 0, 2)), Ok(h));
        assert_eq!(hit(&t, 1), Some(call(2)));
        assert_eq!(t.modify(entry(exact(2), 0, 2)), Err(EntryError::NotFound));
        t.delete(&[exact(1)], 0).unwrap();
        assert_eq!(hit(&t, 1), None);
        assert!(t.is_empty());
    }
}
