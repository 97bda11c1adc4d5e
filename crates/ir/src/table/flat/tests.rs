//! Flat tables against the store.

use super::*;
use crate::bits::Bits;
use crate::table::{Entry, EntryAction, TableStore};
use crate::value::Value;
use pointsman_wire::Random;
use std::collections::BTreeSet;
use std::sync::Arc;

struct Dice(Random);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    /// Few values, so that they meet; of wide fields at both ends.
    fn bits(&mut self, width: u32) -> Bits {
        let high = Bits::new(width, self.below(5).into()).shl(u64::from(width.saturating_sub(3)));
        high.xor(&Bits::new(width, self.below(3).into()))
    }

    fn matched(&mut self, kind: MatchKind, width: u32) -> KeyMatch {
        let value = self.bits(width);
        match kind {
            MatchKind::Lpm => {
                let prefix_len = match self.below(3) {
                    0 => width - width.min(self.below(3) as u32),
                    _ => self.below(u64::from(width) + 1) as u32,
                };
                let drop = u64::from(width - prefix_len);
                KeyMatch::Lpm { value: value.shr(drop).shl(drop), prefix_len }
            }
            MatchKind::Ternary => {
                let mask = match self.below(4) {
                    0 => Bits::zero(width),
                    1 => Bits::ones(width),
                    _ => self.bits(width),
                };
                KeyMatch::Ternary { value: value.and(&mask), mask }
            }
            MatchKind::Range => {
                let other = self.bits(width);
                let (lo, hi) = if value <= other { (value, other) } else { (other, value) };
                KeyMatch::Range { lo, hi }
            }
            MatchKind::Optional if self.below(2) == 0 => KeyMatch::Optional(None),
            MatchKind::Optional => KeyMatch::Optional(Some(value)),
            _ => KeyMatch::Exact(value),
        }
    }
}

/// Widths of the data of two actions.
const DATA: [&[u32]; 2] = [&[9, 48, 100, 0, 1], &[]];

/// The store and its flat table, changed together.
struct Pair {
    store: TableStore,
    flat: FlatTable,
}

impl Pair {
    fn new(keys: &[(MatchKind, u32)], capacity: u64) -> Self {
        let default = Arc::new(ActionCall { action: 1, args: vec![] });
        let actions = DATA.iter().map(|d| Some(d.to_vec())).collect();
        let shape = FlatShape { keys: keys.to_vec(), actions, reports: false, groups: false, seed: 3 };
        let flat = FlatTable::new(&shape, &default);
        Pair { store: TableStore::new(keys.iter().map(|k| k.0).collect(), capacity, default), flat }
    }

    fn insert(&mut self, e: Entry) {
        let Ok(handle) = self.store.insert(e.clone()) else { return };
        let slot = self.store.slot_of(handle).unwrap();
        self.flat.insert(slot, handle, &e.matches, e.priority, does(&e.action));
    }

    fn modify(&mut self, e: Entry) {
        let Ok(handle) = self.store.modify(e.clone()) else { return };
        self.flat.modify(self.store.slot_of(handle).unwrap(), &e.matches, does(&e.action));
    }

    fn delete(&mut self, matches: &[KeyMatch], priority: i32) {
        let Some(handle) = self.store.find(matches, priority) else { return };
        self.flat.remove(self.store.slot_of(handle).unwrap(), matches);
        self.store.delete(matches, priority).unwrap();
    }

    /// Both say the same about a key.
    fn check(&self, key: &[Bits]) {
        let mut words = vec![0; self.flat.key_words()];
        self.flat.key_places().iter().zip(key).for_each(|(p, v)| p.put(&mut words, v));
        self.flat.prefetch(&words);
        let row = self.flat.find(&words);
        let head = row[0];
        let hit = self.store.lookup(key);
        let place = hit.as_ref().map_or(0, |(h, _)| self.store.slot_of(*h).unwrap() + 1);
        let name = || format!("{} {key:?}: {hit:?}, entries {:?}", self.flat.structure(), self.store);
        assert_eq!(head & row::HIT != 0, hit.is_some(), "{}", name());
        assert_eq!(head >> row::PLACE_SHIFT, u64::from(place), "{}", name());
        let call = match hit.as_ref().map(|(_, e)| &e.action) {
            None => self.store.default_action(),
            Some(EntryAction::Call(call)) => call,
            Some(EntryAction::Member(_)) => return assert_eq!(head & row::ACTION, row::ACTION),
            Some(EntryAction::Group(_)) => return assert_ne!(head & row::ASK, 0),
        };
        assert_eq!((head & row::ACTION, head & row::ASK), (u64::from(call.action), 0));
        let places = place::places(DATA[call.action as usize].iter().copied()).0;
        for (place, value) in places.iter().zip(&call.args) {
            let value = value.to_bits().unwrap().zero_extend(128).to_u128().unwrap();
            assert_eq!(place.low_128(&row[row::DATA..]), value);
        }
    }
}

fn does(action: &EntryAction) -> FlatAction<'_> {
    match action {
        EntryAction::Call(call) => FlatAction::Call(call),
        EntryAction::Member(_) => FlatAction::Nothing,
        EntryAction::Group(_) => FlatAction::Ask,
    }
}

fn call(dice: &mut Dice) -> EntryAction {
    let n = dice.0.state();
    let bits = |w, v| Value::Bits(Bits::new(w, v));
    let args = vec![
        bits(9, n.into()),
        bits(48, u128::from(n) << 3),
        bits(100, u128::from(n) << 40),
        bits(0, 0),
        Value::Bool(n % 2 == 1),
    ];
    match dice.below(5) {
        0 => EntryAction::Member(1),
        1 => EntryAction::Group(1),
        2 => EntryAction::Call(Arc::new(ActionCall { action: 1, args: vec![] })),
        _ => EntryAction::Call(Arc::new(ActionCall { action: 0, args })),
    }
}

/// Random changes and look-ups. The data structures that it came to.
fn agrees(keys: &[(MatchKind, u32)], entries: u64, steps: u32, seed: u64) -> BTreeSet<&'static str> {
    let mut structures = BTreeSet::new();
    let mut dice = Dice(Random::new(seed));
    let mut pair = Pair::new(keys, entries);
    let mut known: Vec<(Vec<KeyMatch>, i32)> = Vec::new();
    for step in 0..steps {
        let prioritised = keys.iter().any(|k| !matches!(k.0, MatchKind::Exact | MatchKind::Lpm));
        let (matches, priority) = match known.get(dice.below(known.len() as u64 * 2 + 1) as usize) {
            Some(k) => k.clone(),
            None => {
                let matches = keys.iter().map(|(k, w)| dice.matched(*k, *w)).collect();
                (matches, if prioritised { dice.below(4) as i32 + 1 } else { 0 })
            }
        };
        let entry = Entry {
            matches,
            priority,
            action: call(&mut dice),
            is_const: false,
            metadata: vec![],
            idle_timeout_ns: 0,
        };
        // Times of growth and of decline.
        let more = if step / 400 % 2 == 0 { 5 } else { 2 };
        match dice.below(8) {
            0 => pair.modify(entry),
            n if n <= more => {
                known.push((entry.matches.clone(), priority));
                pair.insert(entry);
            }
            _ => {
                pair.delete(&entry.matches, priority);
                known.retain(|k| k.0 != entry.matches || k.1 != priority);
            }
        }
        if step % 100 == 0 {
            let default = match dice.below(2) {
                0 => ActionCall { action: 1, args: vec![] },
                _ => match call(&mut dice) {
                    EntryAction::Call(c) => (*c).clone(),
                    _ => continue,
                },
            };
            pair.flat.set_default(&default);
            pair.store.set_default_action(Arc::new(default));
        }
        structures.insert(pair.flat.structure());
        for _ in 0..3 {
            let key: Vec<Bits> = keys.iter().map(|(_, w)| dice.bits(*w)).collect();
            pair.check(&key);
        }
        for (matches, _) in known.iter().rev().take(2) {
            let values = matches.iter().zip(keys).map(|(m, (_, w))| match m {
                KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => v.clone(),
                KeyMatch::Lpm { value, .. } | KeyMatch::Ternary { value, .. } => value.clone(),
                KeyMatch::Range { lo, .. } => lo.clone(),
                KeyMatch::Optional(None) => Bits::zero(*w),
            });
            pair.check(&values.collect::<Vec<_>>());
        }
    }
    for (matches, priority) in known {
        pair.delete(&matches, priority);
    }
    assert!(pair.store.is_empty());
    pair.check(&keys.iter().map(|(_, w)| dice.bits(*w)).collect::<Vec<_>>());
    structures
}

fn all_agree(structures: &str, steps: u32, tables: &[&[(MatchKind, u32)]]) {
    for keys in tables {
        let seen: BTreeSet<_> = (1..4).flat_map(|seed| agrees(keys, 400, steps, seed)).collect();
        let seen: Vec<_> = seen.into_iter().collect();
        assert_eq!(seen.join(", "), structures, "{keys:?}");
    }
}

#[test]
fn exact_and_keyless() {
    use MatchKind::Exact;
    all_agree("none", 100, &[&[]]);
    all_agree("hash table", 100, &[&[(Exact, 0)]]);
    all_agree(
        "hash table",
        2000,
        &[
            &[(Exact, 9)],
            &[(Exact, 64)],
            &[(Exact, 32), (Exact, 32), (Exact, 16), (Exact, 16), (Exact, 8)],
            &[(Exact, 128), (Exact, 1), (Exact, 60)],
            &[(Exact, 300), (Exact, 65)],
        ],
    );
}

#[test]
fn lpm() {
    use MatchKind::{Exact, Lpm};
    for width in [1, 5, 16, 17, 32, 48, 56, 57, 64, 65, 128] {
        all_agree("trie", 2000, &[&[(Lpm, width)]]);
    }
    all_agree(
        "trie",
        2000,
        &[&[(Exact, 12), (Lpm, 32)], &[(Lpm, 48), (Exact, 3), (Exact, 13)], &[(Lpm, 120), (Exact, 8)]],
    );
    all_agree("bit vectors, tuple space", 1000, &[&[(Exact, 40), (Lpm, 32)], &[(Lpm, 200), (Exact, 9)]]);
}

#[test]
fn masks_and_ranges() {
    use MatchKind::*;
    all_agree("intervals", 2000, &[&[(Range, 16)], &[(Range, 64)], &[(Range, 1)]]);
    all_agree(
        "bit vectors, tuple space",
        1500,
        &[
            &[(Ternary, 8)],
            &[(Ternary, 130), (Lpm, 16)],
            &[(Range, 16), (Range, 24)],
            &[(Range, 64), (Exact, 1)],
            &[(Optional, 9), (Range, 16), (Ternary, 32), (Exact, 4)],
            &[(Ternary, 32), (Ternary, 32), (Range, 16), (Range, 16), (Ternary, 8)],
        ],
    );
    // Few masks; a range too wide for vectors; a key too long for them; one too long for everything.
    all_agree("tuple space", 1000, &[&[(Optional, 9), (Optional, 70)], &[(Range, 80)]]);
    all_agree("tuple space", 300, &[&[(Ternary, 300), (Ternary, 300)]]);
    let long = (MatchKind::Ternary, 2100);
    let default = ActionCall { action: 0, args: vec![] };
    let shape =
        FlatShape { keys: vec![long], actions: vec![Some(vec![])], reports: true, groups: false, seed: 1 };
    let mut table = FlatTable::new(&shape, &default);
    assert_eq!(table.find(&[7; 33]), [row::ASK]);
    table.set_default(&default);
    assert_eq!(table.find(&[7; 33]), [row::ASK]);
}

/// Sharing the switch also shares its tables; and a table that is emptied gives its memory back.
#[test]
fn memory() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<FlatTable>();
    for kind in [MatchKind::Exact, MatchKind::Lpm, MatchKind::Ternary, MatchKind::Range] {
        let mut pair = Pair::new(&[(kind, 32)], 100_000);
        let empty = pair.flat.bytes();
        let matches = |i: u32| {
            let value = Bits::new(32, u128::from(i.wrapping_mul(0x9e37_79b9)));
            vec![match kind {
                MatchKind::Lpm => KeyMatch::Lpm { value, prefix_len: 32 },
                MatchKind::Ternary => KeyMatch::Ternary { value, mask: Bits::ones(32) },
                MatchKind::Range => KeyMatch::Range { lo: value.clone(), hi: value },
                _ => KeyMatch::Exact(value),
            }]
        };
        let n = if kind == MatchKind::Range { 2000 } else { 50_000 };
        for i in 0..n {
            let action = EntryAction::Member(1);
            let (metadata, idle_timeout_ns) = (vec![], 0);
            let matches = matches(i);
            pair.insert(Entry { matches, priority: 1, action, is_const: false, metadata, idle_timeout_ns });
        }
        assert!(n < 10_000 || pair.flat.bytes() > 1 << 20, "{kind:?}: {}", pair.flat.bytes());
        for i in 0..n {
            pair.delete(&matches(i), 1);
        }
        assert!(pair.flat.bytes() <= empty + KEPT_BYTES, "{kind:?}: {}", pair.flat.bytes());
        pair.check(&[Bits::zero(32)]);
    }
}

/// Heads tell the architecture which work is left.
#[test]
fn flags() {
    let default = ActionCall { action: 0, args: vec![Value::Struct(vec![])] };
    let keys = vec![(MatchKind::Exact, 8)];
    let shape =
        FlatShape { keys, actions: vec![None, Some(vec![32])], reports: true, groups: false, seed: 0 };
    let mut table = FlatTable::new(&shape, &default);
    assert_eq!(table.find(&[1]), [row::ASK, 0]);
    assert_eq!(table.find(&[]), [row::ASK, 0]);
    let ready = ActionCall { action: 1, args: vec![Value::Error(7)] };
    table.set_default(&ready);
    assert_eq!(table.find(&[1]), [1 | row::REPORT, 7]);
    let exact = |v| [KeyMatch::Exact(Bits::new(8, v))];
    for (slot, action, want) in [
        (5, FlatAction::Call(&ready), 1 | row::REPORT | 6 << row::PLACE_SHIFT),
        (5, FlatAction::Nothing, row::ACTION | row::REPORT | 6 << row::PLACE_SHIFT),
        (5, FlatAction::Call(&default), row::ASK | 6 << row::PLACE_SHIFT),
        (5, FlatAction::Ask, row::ASK | 6 << row::PLACE_SHIFT),
        (0xfff_fffe, FlatAction::Call(&ready), 1 | row::REPORT | 0xfff_ffff << row::PLACE_SHIFT),
        (0xfff_ffff, FlatAction::Call(&ready), 1 | row::ASK | 0xfff_ffff << row::PLACE_SHIFT),
    ] {
        table.insert(slot, EntryHandle(1), &exact(1), 0, action);
        assert_eq!(table.find(&[1])[0], want | row::HIT);
        table.remove(slot, &exact(1));
        assert_eq!(table.find(&[1])[0], 1 | row::REPORT);
    }
}
