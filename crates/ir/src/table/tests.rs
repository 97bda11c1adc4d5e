//! Matching, precedence, and the store against the obvious way to do it.

use super::*;
use crate::bits::Bits;
use crate::program::MatchKind;

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
fn restored_entries_stand_where_they_stood() {
    let mut t = store(MatchKind::Ternary);
    let tern = |v, m| KeyMatch::Ternary { value: Bits::new(8, v), mask: Bits::new(8, m) };
    let first = t.insert(entry(tern(1, 1), 1, 1)).unwrap();
    t.insert(entry(tern(2, 2), 1, 2)).unwrap();
    let (handle, old) = t.delete(&[tern(1, 1)], 1).unwrap();
    assert_eq!((handle, hit(&t, 3)), (first, Some(call(2))));
    t.restore(handle, old).unwrap();
    assert_eq!(hit(&t, 3), Some(call(1)));
    assert_eq!(t.iter().map(|(h, _)| h).next(), Some(first));
    t.restore(handle, entry(tern(1, 1), 1, 7)).unwrap();
    assert_eq!((hit(&t, 3), t.len()), (Some(call(7)), 2));
    assert_eq!(t.restore(EntryHandle(99), entry(tern(1, 1), 1, 7)), Err(EntryError::Duplicate));
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

/// The definition of a look-up: of all entries that match, the first of the highest precedence.
fn obvious(entries: &[Entry], key: &[Bits]) -> Option<usize> {
    let rank = |e: &Entry| {
        let prefix = e.matches.iter().find_map(|m| match m {
            KeyMatch::Lpm { prefix_len, .. } => Some(*prefix_len),
            _ => None,
        });
        (e.priority, prefix.unwrap_or(0))
    };
    let hits = |e: &Entry| e.matches.iter().zip(key).all(|(m, v)| m.matches(v));
    let found = (0..entries.len()).filter(|i| !key.is_empty() && hits(&entries[*i]));
    found.max_by_key(|i| (rank(&entries[*i]), std::cmp::Reverse(*i)))
}

/// Multiply-with-carry is random enough here, and has no dependencies.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = (self.0 & 0xffff_ffff).wrapping_mul(4_294_957_665) + (self.0 >> 32);
        (self.0 & 0xffff_ffff) % n
    }

    fn bits(&mut self, width: u32) -> Bits {
        // Few values, so that they meet.
        Bits::new(width, self.below(6).into()).shl(u64::from(width.saturating_sub(4)))
    }

    fn matched(&mut self, kind: MatchKind, width: u32) -> KeyMatch {
        let value = self.bits(width);
        match kind {
            MatchKind::Lpm => {
                let prefix_len = self.below(u64::from(width) + 1) as u32;
                let drop = u64::from(width - prefix_len);
                KeyMatch::Lpm { value: value.shr(drop).shl(drop), prefix_len }
            }
            MatchKind::Ternary => {
                let mask = self.bits(width);
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

/// Random changes of a table of these kinds: after each the store and the obvious way agree.
fn agrees(kinds: &[(MatchKind, u32)], seed: u64) {
    let mut dice = Dice(seed);
    let default = Arc::new(ActionCall { action: 9, args: vec![] });
    let mut store = TableStore::new(kinds.iter().map(|k| k.0).collect(), 40, default);
    let mut entries: Vec<Entry> = Vec::new();
    let mut handles = Vec::new();
    for step in 0..1500u32 {
        let matches: Vec<KeyMatch> = kinds.iter().map(|(k, w)| dice.matched(*k, *w)).collect();
        let prioritised = kinds.iter().any(|k| !matches!(k.0, MatchKind::Exact | MatchKind::Lpm));
        let priority = if prioritised { dice.below(4) as i32 } else { 0 };
        let args = vec![Value::Bits(Bits::new(48, u128::from(step)))];
        let action = match dice.below(4) {
            0 => EntryAction::Member(dice.below(3) as u32),
            _ => EntryAction::Call(Arc::new(ActionCall { action: step, args })),
        };
        let metadata = vec![1; dice.below(2) as usize];
        let e =
            Entry { matches, priority, action, is_const: false, metadata, idle_timeout_ns: dice.below(2) };
        let at = entries.iter().position(|x| x.matches == e.matches && x.priority == e.priority);
        assert_eq!(store.find(&e.matches, e.priority), at.map(|i| handles[i]));
        match dice.below(3) {
            0 => {
                let gone = store.delete(&e.matches, e.priority);
                match at {
                    Some(i) => assert_eq!(gone, Ok((handles.remove(i), entries.remove(i)))),
                    None => assert_eq!(gone, Err(EntryError::NotFound)),
                }
            }
            1 => match at {
                Some(i) => {
                    assert_eq!(store.modify(e.clone()), Ok(handles[i]));
                    entries[i] = e;
                }
                None => assert_eq!(store.modify(e), Err(EntryError::NotFound)),
            },
            _ => match (store.insert(e.clone()), at) {
                (result, Some(_)) => assert_eq!(result, Err(EntryError::Duplicate)),
                (Ok(handle), None) => {
                    handles.push(handle);
                    entries.push(e);
                }
                (result, None) => assert_eq!((result, entries.len()), (Err(EntryError::Full), 40)),
            },
        }
        assert_eq!(store.iter().collect::<Vec<_>>().len(), entries.len());
        for _ in 0..3 {
            let key: Vec<Bits> = kinds.iter().map(|(_, w)| dice.bits(*w)).collect();
            let want = obvious(&entries, &key).map(|i| (handles[i], entries[i].clone()));
            assert_eq!(store.lookup(&key), want, "{key:?} in {entries:?}");
            assert_eq!(store.hit(&key), want.map(|(h, e)| (h, e.action)));
        }
    }
    let all: Vec<_> = handles.iter().copied().zip(entries.iter().cloned()).collect();
    assert_eq!(store.iter().collect::<Vec<_>>(), all);
    assert_eq!(
        store.names(&EntryAction::Member(1)),
        entries.iter().any(|e| e.action == EntryAction::Member(1))
    );
    for e in entries {
        store.delete(&e.matches, e.priority).unwrap();
    }
    assert!(store.is_empty() && !store.names(&EntryAction::Member(1)));
}

#[test]
fn store_agrees_with_the_obvious_way() {
    use MatchKind::*;
    for seed in 1..4 {
        agrees(&[(Exact, 9)], seed);
        agrees(&[(Exact, 32), (Exact, 200)], seed);
        agrees(&[(Lpm, 32)], seed);
        agrees(&[(Exact, 8), (Lpm, 128)], seed);
        agrees(&[(Lpm, 200)], seed);
        agrees(&[(Ternary, 8)], seed);
        agrees(&[(Ternary, 130), (Lpm, 16)], seed);
        agrees(&[(Range, 16)], seed);
        agrees(&[(Optional, 9), (Range, 16), (Ternary, 32), (Exact, 4)], seed);
        agrees(&[], seed);
    }
}
