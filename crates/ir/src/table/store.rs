//! The entries of one table, small in memory and quick to find.
//!
//! Entries are packed ([`super::pack`]). They are found by tuple space search (Srinivasan, Suri, Varghese: Packet
//! classification using tuple space search, 1999): entries that use the same bits of the key are in one hash table,
//! so a look-up tries one hash table per combination of masks, best first. An exact table is one hash table, an lpm
//! table one for each prefix length that occurs. Bounds of ranges are not hashed but compared one by one.

use super::pack::{Packed, Unpack, put_match, put_value};
use super::{ActionCall, Entry, EntryAction, EntryError, EntryHandle, KeyMatch};
use crate::bits::Bits;
use crate::program::MatchKind;
use hashbrown::HashTable;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;
use std::sync::Arc;

/// The action of an entry; the data of a call is packed.
#[derive(Clone, Copy, Debug)]
enum Does {
    Call(u32),
    Member(u32),
    Group(u32),
}

/// Data that few entries have.
#[derive(Clone, Debug)]
struct Extra {
    metadata: Vec<u8>,
    idle_timeout_ns: u64,
}

/// One entry.
#[derive(Clone, Debug)]
struct Slot {
    handle: EntryHandle,
    /// The matches, then the action's data.
    packed: Packed,
    matches_len: u32,
    priority: i32,
    does: Does,
    is_const: bool,
    extra: Option<Box<Extra>>,
    /// The action unpacked, as long as packets hit the entry.
    ready: Option<Arc<ActionCall>>,
}

impl Slot {
    fn packed_matches(&self) -> &[u8] {
        &self.packed.bytes()[..self.matches_len as usize]
    }

    fn hits(&self, key: &[Bits]) -> bool {
        let mut read = Unpack(self.packed_matches());
        key.iter().all(|v| read.key_match().matches(v))
    }

    fn call(&self, action: u32) -> ActionCall {
        ActionCall { action, args: Unpack(&self.packed.bytes()[self.matches_len as usize..]).values() }
    }

    fn action(&self) -> EntryAction {
        match (&self.ready, self.does) {
            (Some(call), _) => EntryAction::Call(call.clone()),
            (None, Does::Call(action)) => EntryAction::Call(Arc::new(self.call(action))),
            (None, Does::Member(m)) => EntryAction::Member(m),
            (None, Does::Group(g)) => EntryAction::Group(g),
        }
    }

    fn unpack(&self, keys: usize) -> Entry {
        let mut read = Unpack(self.packed_matches());
        let extra = self.extra.as_deref();
        Entry {
            matches: (0..keys).map(|_| read.key_match()).collect(),
            priority: self.priority,
            action: self.action(),
            is_const: self.is_const,
            metadata: extra.map(|e| e.metadata.clone()).unwrap_or_default(),
            idle_timeout_ns: extra.map_or(0, |e| e.idle_timeout_ns),
        }
    }
}

/// Which bits of a key field an entry looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    All,
    Prefix(u32),
    Mask(Bits),
    /// None, or a range, which is compared after hashing.
    None,
}

fn part(m: &KeyMatch) -> Part {
    match m {
        KeyMatch::Exact(_) | KeyMatch::Optional(Some(_)) => Part::All,
        KeyMatch::Lpm { prefix_len, .. } => Part::Prefix(*prefix_len),
        KeyMatch::Ternary { mask, .. } => Part::Mask(mask.clone()),
        KeyMatch::Range { .. } | KeyMatch::Optional(None) => Part::None,
    }
}

fn mix(hasher: &mut DefaultHasher, bits: &Bits) {
    match bits.to_u128() {
        Some(v) => {
            hasher.write_u64(v as u64);
            if bits.width() > 64 {
                hasher.write_u64((v >> 64) as u64);
            }
        }
        None => hasher.write(&bits.to_be_bytes()),
    }
}

/// Hash of the bits of `values` that `shape` looks at. `DefaultHasher::new` always starts alike: runs repeat.
fn hash<'a>(shape: &[Part], values: impl Iterator<Item = Option<&'a Bits>>) -> u32 {
    let mut hasher = DefaultHasher::new();
    for (part, value) in shape.iter().zip(values) {
        let Some(value) = value else { continue };
        match part {
            Part::All => mix(&mut hasher, value),
            Part::Prefix(len) => mix(&mut hasher, &value.shr(u64::from(value.width().saturating_sub(*len)))),
            Part::Mask(mask) => mix(&mut hasher, &value.and(mask)),
            Part::None => {}
        }
    }
    hasher.finish() as u32
}

fn hash_matches(shape: &[Part], matches: &[KeyMatch]) -> u32 {
    let values = matches.iter().map(|m| match m {
        KeyMatch::Exact(v)
        | KeyMatch::Lpm { value: v, .. }
        | KeyMatch::Ternary { value: v, .. }
        | KeyMatch::Optional(Some(v)) => Some(v),
        KeyMatch::Range { .. } | KeyMatch::Optional(None) => None,
    });
    hash(shape, values)
}

/// All entries with one hash.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    /// Index of the only slot, or with [`MANY`] set an index into [`Tuple::lists`].
    at: u32,
}

const MANY: u32 = 1 << 31;

fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Larger wins: priority first, then the longest prefix (a table has at most one lpm key).
type Rank = (i32, u32);

fn prefix_len(shape: &[Part]) -> u32 {
    let prefix = shape.iter().find_map(|p| match p {
        Part::Prefix(len) => Some(*len),
        _ => None,
    });
    prefix.unwrap_or(0)
}

/// The entries that look at the same bits.
#[derive(Clone, Debug)]
struct Tuple {
    shape: Vec<Part>,
    /// No entry here ranks above it.
    best: Rank,
    buckets: HashTable<Bucket>,
    /// Slots with equal hashes: by rank, then the older first.
    lists: Vec<Vec<u32>>,
    free_lists: Vec<u32>,
}

impl Tuple {
    fn slots<'a>(&'a self, hash: u32, one: &'a mut u32) -> &'a [u32] {
        match self.buckets.find(spread(hash), |b| b.hash == hash) {
            None => &[],
            Some(b) if b.at & MANY != 0 => &self.lists[(b.at & !MANY) as usize],
            Some(b) => {
                *one = b.at;
                std::slice::from_ref(one)
            }
        }
    }

    /// Adds a slot; `ahead` says whether a slot that is already here goes before it.
    fn add(&mut self, hash: u32, index: u32, ahead: impl Fn(u32) -> bool) {
        let Some(b) = self.buckets.find_mut(spread(hash), |b| b.hash == hash) else {
            self.buckets.insert_unique(spread(hash), Bucket { hash, at: index }, |b| spread(b.hash));
            return;
        };
        if b.at & MANY == 0 {
            let list = self.free_lists.pop().unwrap_or_else(|| {
                self.lists.push(Vec::new());
                self.lists.len() as u32 - 1
            });
            self.lists[list as usize].push(b.at);
            b.at = list | MANY;
        }
        let list = &mut self.lists[(b.at & !MANY) as usize];
        let at = list.partition_point(|i| ahead(*i));
        list.insert(at, index);
    }

    fn remove(&mut self, hash: u32, index: u32) {
        let Ok(mut found) = self.buckets.find_entry(spread(hash), |b| b.hash == hash) else { return };
        let b = found.get_mut();
        if b.at & MANY == 0 {
            found.remove();
            return;
        }
        let number = b.at & !MANY;
        let list = &mut self.lists[number as usize];
        list.retain(|i| *i != index);
        if let [last] = list.as_slice() {
            b.at = *last;
            *list = Vec::new();
            self.free_lists.push(number);
        }
    }
}

/// So many actions are kept unpacked; beyond, all are packed again.
const MAX_READY: usize = 1 << 16;

/// The entries of one table.
#[derive(Clone, Debug)]
pub struct TableStore {
    kinds: Vec<MatchKind>,
    capacity: u64,
    next_handle: u64,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    by_handle: BTreeMap<EntryHandle, u32>,
    tuples: Vec<Option<Tuple>>,
    free_tuples: Vec<u32>,
    /// Never iterated.
    by_shape: HashMap<Vec<Part>, u32>,
    /// Tuples, best first.
    order: Vec<u32>,
    /// Entries by the member or group that they name.
    members: BTreeMap<u32, u64>,
    groups: BTreeMap<u32, u64>,
    /// Slots whose action is unpacked, and some that were.
    ready: Vec<u32>,
    default: Arc<ActionCall>,
    scratch: Vec<u8>,
}

impl TableStore {
    /// An empty table whose matched keys (without selectors) have these kinds.
    pub fn new(kinds: Vec<MatchKind>, capacity: u64, default: Arc<ActionCall>) -> Self {
        TableStore {
            kinds,
            // Slots are numbered with 31 bits.
            capacity: capacity.min(u64::from(MANY - 1)),
            next_handle: 1,
            slots: Vec::new(),
            free: Vec::new(),
            by_handle: BTreeMap::new(),
            tuples: Vec::new(),
            free_tuples: Vec::new(),
            by_shape: HashMap::new(),
            order: Vec::new(),
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            ready: Vec::new(),
            default,
            scratch: Vec::new(),
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
        self.by_handle.len()
    }

    /// No entries?
    pub fn is_empty(&self) -> bool {
        self.by_handle.is_empty()
    }

    fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index as usize)?.as_ref()
    }

    /// Entries in the order in which they were inserted, unpacked one by one.
    pub fn iter(&self) -> impl Iterator<Item = (EntryHandle, Entry)> + '_ {
        self.iter_from(EntryHandle(0))
    }

    /// The same without the entries that come before this one, whether the table still has it or not.
    pub fn iter_from(&self, first: EntryHandle) -> impl Iterator<Item = (EntryHandle, Entry)> + '_ {
        let keys = self.kinds.len();
        self.by_handle.range(first..).filter_map(move |(h, i)| Some((*h, self.slot(*i)?.unpack(keys))))
    }

    /// Names of the entries in the order in which they were inserted.
    pub fn handles(&self) -> impl Iterator<Item = EntryHandle> + '_ {
        self.by_handle.keys().copied()
    }

    /// The name of the next entry, as a number.
    pub fn next_handle(&self) -> u64 {
        self.next_handle
    }

    /// Sets the name of the next entry, unless entries have that name or later ones.
    pub fn set_next_handle(&mut self, next: u64) {
        let last = self.by_handle.last_key_value().map_or(0, |(handle, _)| handle.0);
        self.next_handle = next.max(last + 1);
    }

    /// The entry that `handle` names.
    pub fn get(&self, handle: EntryHandle) -> Option<Entry> {
        let slot = self.slot(*self.by_handle.get(&handle)?)?;
        Some(slot.unpack(self.kinds.len()))
    }

    /// The number of an entry: small, and unique as long as the entry exists.
    pub fn slot_of(&self, handle: EntryHandle) -> Option<u32> {
        self.by_handle.get(&handle).copied()
    }

    /// The numbers of all entries are below this.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The idle timeout of an entry, in nanoseconds; 0 for none.
    pub fn idle_timeout_ns(&self, handle: EntryHandle) -> u64 {
        let slot = self.by_handle.get(&handle).and_then(|i| self.slot(*i));
        slot.and_then(|s| s.extra.as_ref()).map_or(0, |e| e.idle_timeout_ns)
    }

    /// The entry with this match and priority.
    pub fn find(&self, matches: &[KeyMatch], priority: i32) -> Option<EntryHandle> {
        let shape: Vec<Part> = matches.iter().map(part).collect();
        let (index, _, _) = self.locate(&shape, matches, priority)?;
        self.slot(index).map(|s| s.handle)
    }

    /// Slot, tuple and hash of the entry with this match and priority.
    fn locate(&self, shape: &[Part], matches: &[KeyMatch], priority: i32) -> Option<(u32, u32, u32)> {
        let number = *self.by_shape.get(shape)?;
        let tuple = self.tuples.get(number as usize)?.as_ref()?;
        let hash = hash_matches(shape, matches);
        let mut packed = Vec::with_capacity(64);
        matches.iter().for_each(|m| put_match(&mut packed, m));
        let same =
            |i: &&u32| self.slot(**i).is_some_and(|s| s.priority == priority && s.packed_matches() == packed);
        let index = *tuple.slots(hash, &mut 0).iter().find(same)?;
        Some((index, number, hash))
    }

    /// Whether an entry names this member or group.
    pub fn names(&self, action: &EntryAction) -> bool {
        match action {
            EntryAction::Call(_) => false,
            EntryAction::Member(m) => self.members.contains_key(m),
            EntryAction::Group(g) => self.groups.contains_key(g),
        }
    }

    /// Entries that name this member or group.
    pub fn naming(&self, action: &EntryAction) -> impl Iterator<Item = (EntryHandle, Entry)> + '_ {
        let id = match action {
            EntryAction::Call(_) => None,
            EntryAction::Member(n) => Some((false, *n)),
            EntryAction::Group(n) => Some((true, *n)),
        };
        let names = move |s: &&Slot| match s.does {
            Does::Call(_) => false,
            Does::Member(m) => id == Some((false, m)),
            Does::Group(g) => id == Some((true, g)),
        };
        let keys = self.kinds.len();
        self.slots.iter().flatten().filter(names).map(move |s| (s.handle, s.unpack(keys)))
    }

    /// The default action.
    pub fn default_action(&self) -> &Arc<ActionCall> {
        &self.default
    }

    /// Sets the default action.
    pub fn set_default_action(&mut self, call: Arc<ActionCall>) {
        self.default = call;
    }

    fn pack(&mut self, handle: EntryHandle, entry: &Entry) -> Slot {
        let out = &mut self.scratch;
        out.clear();
        entry.matches.iter().for_each(|m| put_match(out, m));
        let matches_len = out.len() as u32;
        let does = match &entry.action {
            EntryAction::Call(call) => {
                call.args.iter().for_each(|v| put_value(out, v));
                Does::Call(call.action)
            }
            EntryAction::Member(m) => Does::Member(*m),
            EntryAction::Group(g) => Does::Group(*g),
        };
        let plain = entry.metadata.is_empty() && entry.idle_timeout_ns == 0;
        let extra = (!plain).then(|| {
            Box::new(Extra { metadata: entry.metadata.clone(), idle_timeout_ns: entry.idle_timeout_ns })
        });
        Slot {
            handle,
            packed: Packed::new(out),
            matches_len,
            priority: entry.priority,
            does,
            is_const: entry.is_const,
            extra,
            ready: None,
        }
    }

    fn count_names(&mut self, does: Does, more: bool) {
        let (map, id) = match does {
            Does::Call(_) => return,
            Does::Member(m) => (&mut self.members, m),
            Does::Group(g) => (&mut self.groups, g),
        };
        if more {
            *map.entry(id).or_default() += 1;
        } else if let Some(n) = map.get_mut(&id) {
            *n -= 1;
            if *n == 0 {
                map.remove(&id);
            }
        }
    }

    /// Adds an entry.
    pub fn insert(&mut self, entry: Entry) -> Result<EntryHandle, EntryError> {
        let shape: Vec<Part> = entry.matches.iter().map(part).collect();
        if self.locate(&shape, &entry.matches, entry.priority).is_some() {
            return Err(EntryError::Duplicate);
        }
        if self.by_handle.len() as u64 >= self.capacity {
            return Err(EntryError::Full);
        }
        let handle = EntryHandle(self.next_handle);
        self.next_handle += 1;
        self.place(handle, entry, shape);
        Ok(handle)
    }

    /// Puts an entry back under the handle that it had, at the place that it had among entries of equal precedence. An
    /// entry with this handle is replaced.
    pub fn restore(&mut self, handle: EntryHandle, entry: Entry) -> Result<(), EntryError> {
        if self.by_handle.contains_key(&handle) {
            return self.modify(entry).map(|_| ());
        }
        let shape: Vec<Part> = entry.matches.iter().map(part).collect();
        if self.locate(&shape, &entry.matches, entry.priority).is_some() {
            return Err(EntryError::Duplicate);
        }
        self.next_handle = self.next_handle.max(handle.0 + 1);
        self.place(handle, entry, shape);
        Ok(())
    }

    fn place(&mut self, handle: EntryHandle, entry: Entry, shape: Vec<Part>) {
        let slot = self.pack(handle, &entry);
        self.count_names(slot.does, true);
        let index = match self.free.pop() {
            Some(i) => {
                self.slots[i as usize] = Some(slot);
                i
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() as u32 - 1
            }
        };
        self.by_handle.insert(handle, index);
        let hash = hash_matches(&shape, &entry.matches);
        let rank = (entry.priority, prefix_len(&shape));
        let number = self.tuple(shape, rank);
        let slots = &self.slots;
        if let Some(tuple) = &mut self.tuples[number as usize] {
            // All of one tuple have prefixes of one length. Equal priority: the older one wins, so that the program's
            // first entry stays first.
            let goes_before =
                |s: &Slot| s.priority > entry.priority || s.priority == entry.priority && s.handle < handle;
            tuple.add(hash, index, |i: u32| slots[i as usize].as_ref().is_some_and(goes_before));
        }
    }

    /// The tuple for entries of this shape, made if missing, ready for an entry of this rank.
    fn tuple(&mut self, shape: Vec<Part>, rank: Rank) -> u32 {
        let number = match self.by_shape.get(&shape) {
            Some(n) => {
                let n = *n;
                let Some(tuple) = self.tuples[n as usize].as_mut().filter(|t| t.best < rank) else {
                    return n;
                };
                tuple.best = rank;
                self.order.retain(|o| *o != n);
                n
            }
            None => {
                let tuple = Some(Tuple {
                    shape: shape.clone(),
                    best: rank,
                    buckets: HashTable::new(),
                    lists: Vec::new(),
                    free_lists: Vec::new(),
                });
                let n = match self.free_tuples.pop() {
                    Some(n) => {
                        self.tuples[n as usize] = tuple;
                        n
                    }
                    None => {
                        self.tuples.push(tuple);
                        self.tuples.len() as u32 - 1
                    }
                };
                self.by_shape.insert(shape, n);
                n
            }
        };
        let tuples = &self.tuples;
        let at = self.order.partition_point(|o| tuples[*o as usize].as_ref().is_some_and(|t| t.best >= rank));
        self.order.insert(at, number);
        number
    }

    /// Replaces action, metadata and idle time of the entry with the same match and priority; it keeps its handle.
    pub fn modify(&mut self, entry: Entry) -> Result<EntryHandle, EntryError> {
        let shape: Vec<Part> = entry.matches.iter().map(part).collect();
        let (index, _, _) =
            self.locate(&shape, &entry.matches, entry.priority).ok_or(EntryError::NotFound)?;
        let old = self.slot(index).ok_or(EntryError::NotFound)?;
        let (handle, does) = (old.handle, old.does);
        let slot = self.pack(handle, &entry);
        self.count_names(slot.does, true);
        self.count_names(does, false);
        self.slots[index as usize] = Some(slot);
        Ok(handle)
    }

    /// Removes an entry.
    pub fn delete(
        &mut self,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<(EntryHandle, Entry), EntryError> {
        let shape: Vec<Part> = matches.iter().map(part).collect();
        let (index, number, hash) = self.locate(&shape, matches, priority).ok_or(EntryError::NotFound)?;
        let slot = self.slots[index as usize].take().ok_or(EntryError::NotFound)?;
        self.by_handle.remove(&slot.handle);
        self.count_names(slot.does, false);
        if let Some(tuple) = &mut self.tuples[number as usize] {
            tuple.remove(hash, index);
            if tuple.buckets.is_empty() {
                self.by_shape.remove(&tuple.shape);
                self.tuples[number as usize] = None;
                self.free_tuples.push(number);
                self.order.retain(|o| *o != number);
            }
        }
        if self.by_handle.is_empty() {
            // Nothing points here any more: free the memory.
            self.slots = Vec::new();
            self.free = Vec::new();
            self.ready = Vec::new();
        } else {
            self.free.push(index);
        }
        Ok((slot.handle, slot.unpack(self.kinds.len())))
    }

    fn best(&self, key: &[Bits]) -> Option<u32> {
        if self.kinds.is_empty() || key.len() != self.kinds.len() {
            return None;
        }
        let mut best: Option<(Rank, EntryHandle, u32)> = None;
        for number in &self.order {
            let Some(tuple) = &self.tuples[*number as usize] else { continue };
            // Do not stop at equal rank: the older one wins.
            if best.as_ref().is_some_and(|(rank, _, _)| *rank > tuple.best) {
                break;
            }
            let hash = hash(&tuple.shape, key.iter().map(Some));
            for index in tuple.slots(hash, &mut 0) {
                let Some(slot) = self.slot(*index).filter(|s| s.hits(key)) else { continue };
                let rank = (slot.priority, prefix_len(&tuple.shape));
                if best.as_ref().is_none_or(|(r, h, _)| rank > *r || rank == *r && slot.handle < *h) {
                    best = Some((rank, slot.handle, *index));
                }
                break;
            }
        }
        best.map(|(_, _, index)| index)
    }

    /// The entry that a packet with these key values hits. `key` leaves out fields of kind `selector`.
    ///
    /// A table without keys never hits (P4_16 section 14.2.1.1).
    pub fn lookup(&self, key: &[Bits]) -> Option<(EntryHandle, Entry)> {
        let slot = self.slot(self.best(key)?)?;
        Some((slot.handle, slot.unpack(self.kinds.len())))
    }

    /// The same for packets: only the entry's action, unpacked once for many packets.
    pub fn hit(&mut self, key: &[Bits]) -> Option<(EntryHandle, EntryAction)> {
        let index = self.best(key)?;
        if self.ready.len() >= MAX_READY {
            for i in std::mem::take(&mut self.ready) {
                if let Some(slot) = self.slots.get_mut(i as usize).and_then(Option::as_mut) {
                    slot.ready = None;
                }
            }
        }
        let slot = self.slots.get_mut(index as usize)?.as_mut()?;
        let action = slot.action();
        if let (None, EntryAction::Call(call)) = (&slot.ready, &action) {
            slot.ready = Some(call.clone());
            self.ready.push(index);
        }
        Some((slot.handle, action))
    }
}
