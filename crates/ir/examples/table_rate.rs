//! Nanoseconds for a look-up in a flat table and in the store, of the same tables with the same keys in the same run. Run by
//! hand:
//!
//! ```text
//! cargo run --release -p pointsman-ir --example table_rate [NAME [MOST]]
//! ```
//!
//! NAME picks tables by a part of their names, MOST limits the number of entries (1,000,000). Each figure is the least of
//! several short runs, and the median in brackets. `batch` is for the same keys prefetched in groups of 16.

use pointsman_ir::table::flat::{FlatAction, FlatShape, FlatTable};
use pointsman_ir::{ActionCall, Bits, Entry, EntryAction, KeyMatch, MatchKind, TableStore, Value};
use pointsman_wire::Random;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Keys that are looked up, again and again.
const KEYS: usize = 1 << 16;

/// Runs that a figure comes from: each of a part of the keys, short enough to fit between two interruptions.
const RUNS: usize = 9 * PARTS;
const PARTS: usize = 32;

struct Dice(Random);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

type Fields = Vec<(MatchKind, u32)>;

/// How entries are made up, and how a key that hits one.
struct Table {
    name: &'static str,
    keys: Fields,
    most: usize,
    entry: fn(&mut Dice, u64) -> Vec<KeyMatch>,
}

fn exact(width: u32, value: u64) -> KeyMatch {
    KeyMatch::Exact(Bits::new(width, value.into()))
}

fn prefix(width: u32, value: u128, prefix_len: u32) -> KeyMatch {
    let drop = u64::from(width - prefix_len);
    KeyMatch::Lpm { value: Bits::new(width, value).shr(drop).shl(drop), prefix_len }
}

fn masked(width: u32, value: u64, ones: u32) -> KeyMatch {
    let mask = Bits::ones(width).shl(u64::from(width - ones));
    KeyMatch::Ternary { value: Bits::new(width, value.into()).and(&mask), mask }
}

/// Prefix lengths as in tables of the Internet: most of 24 bits, none shorter than 8.
fn route(dice: &mut Dice) -> u32 {
    match dice.below(100) {
        0..55 => 24,
        55..85 => 19 + dice.below(5) as u32,
        85..97 => 14 + dice.below(5) as u32,
        97 => 8 + dice.below(6) as u32,
        _ => 32,
    }
}

fn range(dice: &mut Dice) -> KeyMatch {
    let (lo, hi) = match dice.below(4) {
        0 => (0, 65535),
        1 => (1024, 65535),
        2 => {
            let port = dice.below(1024);
            (port, port)
        }
        _ => {
            let low = dice.below(60000);
            (low, low + dice.below(5000))
        }
    };
    KeyMatch::Range { lo: Bits::new(16, lo.into()), hi: Bits::new(16, hi.into()) }
}

/// An access list's addresses and ports: nested prefixes, some anything; a port or none; a protocol or none.
fn acl(dice: &mut Dice) -> Vec<KeyMatch> {
    let mut address = |net: u64| {
        let ones = [0, 8, 12, 16, 20, 22, 24, 25, 26, 27, 28, 29, 30, 32][dice.below(14) as usize];
        masked(32, net << 24 | dice.below(1 << 24), ones)
    };
    let (source, target) = (address(10), address(192));
    let mut port = || if dice.below(2) == 0 { masked(16, 0, 0) } else { masked(16, dice.below(1024), 16) };
    let (from, to) = (port(), port());
    let protocol =
        if dice.below(3) == 0 { masked(8, 0, 0) } else { masked(8, [6, 17][dice.below(2) as usize], 8) };
    vec![source, target, from, to, protocol]
}

fn tables() -> Vec<Table> {
    use MatchKind::*;
    let five = |a, p| vec![(a, 32), (a, 32), (p, 16), (p, 16), (a, 8)];
    let table = |name, keys, most, entry| Table { name, keys, most, entry };
    vec![
        table("exact 32", vec![(Exact, 32)], 1_000_000, |_, i| vec![exact(32, i)]),
        table("exact 48", vec![(Exact, 48)], 1_000_000, |d, _| vec![exact(48, d.next())]),
        table("exact 5-tuple", five(Exact, Exact), 1_000_000, |d, i| {
            vec![exact(32, d.next()), exact(32, i), exact(16, 443), exact(16, d.next()), exact(8, 6)]
        }),
        table("exact v6 5-tuple", vec![(Exact, 128), (Exact, 128), (Exact, 40)], 100_000, |d, i| {
            vec![
                KeyMatch::Exact(Bits::new(128, u128::from(d.next()))),
                KeyMatch::Exact(Bits::new(128, u128::from(i) << 64)),
                exact(40, d.next()),
            ]
        }),
        table("lpm 32", vec![(Lpm, 32)], 1_000_000, |d, _| {
            let n = route(d);
            vec![prefix(32, d.next().into(), n)]
        }),
        table("exact 12 + lpm 32", vec![(Exact, 12), (Lpm, 32)], 100_000, |d, _| {
            let n = route(d);
            vec![exact(12, d.below(16)), prefix(32, d.next().into(), n)]
        }),
        table("lpm 128", vec![(Lpm, 128)], 100_000, |d, _| {
            let n = [32, 40, 44, 48, 48, 48, 56, 64, 128][d.below(9) as usize];
            vec![prefix(128, (0x2000 + u128::from(d.below(64))) << 112 | u128::from(d.next()) << 48, n)]
        }),
        table("ternary, 8 masks", vec![(Ternary, 64)], 1_000_000, |d, _| {
            let ones = 64 - 3 * d.below(8) as u32;
            vec![masked(64, d.next(), ones)]
        }),
        table("access list", five(Ternary, Ternary), 16_384, |d, _| acl(d)),
        table("access list, ranges", five(Ternary, Range), 16_384, |d, _| {
            let mut all = acl(d);
            (all[2], all[3]) = (range(d), range(d));
            all
        }),
        table("range", vec![(Range, 32)], 16_384, |d, _| {
            let low = d.below(1 << 31);
            let high = low + d.below(1 << 24);
            vec![KeyMatch::Range { lo: Bits::new(32, low.into()), hi: Bits::new(32, high.into()) }]
        }),
    ]
}

/// A value that a match allows.
fn inside(dice: &mut Dice, m: &KeyMatch, width: u32) -> Bits {
    let any = Bits::new(width, u128::from(dice.next()) << 64 | u128::from(dice.next()));
    match m {
        KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => v.clone(),
        KeyMatch::Lpm { value, prefix_len } => {
            value.or(&any.shr(u64::from(*prefix_len)).and(&Bits::ones(width).shr(u64::from(*prefix_len))))
        }
        KeyMatch::Ternary { value, mask } => value.or(&any.and(&mask.not())),
        KeyMatch::Range { lo, hi } => {
            let (lo, hi) = (lo.low_u64(), hi.low_u64());
            Bits::new(width, u128::from(lo + dice.below(hi - lo + 1)))
        }
        KeyMatch::Optional(None) => any,
    }
}

/// Times runs with the keys of a part, all parts in turn; of each part the least time counts, and the median of all.
fn least_and_median(per: usize, mut run: impl FnMut(usize)) -> (f64, f64) {
    let (mut least, mut all) = ([f64::MAX; PARTS], Vec::new());
    for i in 0..RUNS {
        let start = Instant::now();
        run(i % PARTS);
        let took = start.elapsed().as_nanos() as f64 / per as f64;
        least[i % PARTS] = least[i % PARTS].min(took);
        all.push(took);
    }
    all.sort_by(f64::total_cmp);
    (least.iter().sum::<f64>() / PARTS as f64, all[RUNS / 2])
}

fn measure(table: &Table, n: usize) {
    let mut dice = Dice(Random::new(n as u64));
    let default = Arc::new(ActionCall { action: 0, args: Vec::new() });
    let kinds = table.keys.iter().map(|k| k.0).collect();
    let mut store = TableStore::new(kinds, n as u64, default.clone());
    let actions = vec![Some(vec![]), Some(vec![48, 9])];
    let mut flat = FlatTable::new(
        &FlatShape { keys: table.keys.clone(), actions, reports: false, groups: false, seed: 1 },
        &default,
    );
    let prioritised = table.keys.iter().any(|k| !matches!(k.0, MatchKind::Exact | MatchKind::Lpm));
    let mut all = Vec::new();
    let (mut in_store, mut in_flat, mut worst) = (0, 0, 0);
    for i in 0..n as u64 {
        let matches = (table.entry)(&mut dice, i);
        let args = vec![Value::Bits(Bits::new(48, i.into())), Value::Bits(Bits::new(9, i.into()))];
        let call = Arc::new(ActionCall { action: 1, args });
        let priority = if prioritised { 1 + dice.below(1000) as i32 } else { 0 };
        let entry = Entry {
            matches: matches.clone(),
            priority,
            action: EntryAction::Call(call.clone()),
            is_const: false,
            metadata: Vec::new(),
            idle_timeout_ns: 0,
        };
        let start = Instant::now();
        let Ok(handle) = store.insert(entry) else { continue };
        let slot = store.slot_of(handle).expect("the entry exists");
        in_store += start.elapsed().as_nanos();
        let start = Instant::now();
        flat.insert(slot, handle, &matches, priority, FlatAction::Call(&call));
        let took = start.elapsed().as_nanos();
        in_flat += took;
        worst = worst.max(took);
        all.push(matches);
    }
    // Three of four hit.
    let mut keys: Vec<Vec<Bits>> = Vec::with_capacity(KEYS);
    let mut words = vec![0u64; KEYS * flat.key_words()];
    for words in words.chunks_exact_mut(flat.key_words()) {
        let matches = match dice.below(4) {
            0 => (table.entry)(&mut dice, 1 << 40 | n as u64),
            _ => all[dice.below(all.len() as u64) as usize].clone(),
        };
        let key: Vec<Bits> =
            matches.iter().zip(&table.keys).map(|(m, (_, w))| inside(&mut dice, m, *w)).collect();
        flat.key_places().iter().zip(&key).for_each(|(p, v)| p.put(words, v));
        keys.push(key);
    }
    for (key, words) in keys.iter().zip(words.chunks_exact(flat.key_words())) {
        let want = store.lookup(key).map(|(h, _)| u64::from(store.slot_of(h).expect("it exists")));
        let row = flat.find(words)[0];
        assert_eq!((row >> 32 & 1 == 1).then_some(row >> 36), want, "{} {key:?}", table.name);
    }
    let (per, width) = (KEYS / PARTS, flat.key_words());
    let part = |i: usize| &words[i * per * width..(i + 1) * per * width];
    let one = least_and_median(per, |i| {
        for key in part(i).chunks_exact(width) {
            black_box(flat.find(black_box(key))[0]);
        }
    });
    let batch = least_and_median(per, |i| {
        for keys in part(i).chunks(width * 16) {
            keys.chunks_exact(width).for_each(|key| flat.prefetch(key));
            for key in keys.chunks_exact(width) {
                black_box(flat.find(black_box(key))[0]);
            }
        }
    });
    let few = 64;
    let slow = least_and_median(few, |i| {
        for key in &keys[i * few..(i + 1) * few] {
            black_box(store.lookup(black_box(key)));
        }
    });
    println!(
        "{:20} {n:8}  {:6.1} ({:6.1})  {:6.1}  {:8.1}  {:6.1}x  {:5.0} {:5.0} {:7.2}  {:6.1}  {}",
        table.name,
        one.0,
        one.1,
        batch.0,
        slow.0,
        slow.0 / one.0,
        in_store as f64 / n as f64,
        in_flat as f64 / n as f64,
        worst as f64 / 1e6,
        flat.bytes() as f64 / 1e6,
        flat.structure(),
    );
}

fn main() {
    let part = std::env::args().nth(1).unwrap_or_default();
    let most = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(1_000_000);
    println!(
        "table                 entries  flat ns         batch   store ns   ratio  insert ns: store, flat; worst ms  MB"
    );
    for table in tables().iter().filter(|t| t.name.contains(&part)) {
        for n in [100, 1000, 4000, 10_000, 16_384, 100_000, 1_000_000] {
            if n <= table.most.min(most) {
                measure(table, n);
            }
        }
    }
}
