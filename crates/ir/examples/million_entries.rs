//! Fills tables with a million entries each and says what that takes: resident memory, time to insert, look up, modify
//! and delete. Run by hand:
//!
//! ```text
//! cargo run --release -p pointsman-ir --example million_entries [ENTRIES]
//! ```

use pointsman_ir::{ActionCall, Bits, Entry, EntryAction, KeyMatch, MatchKind, TableStore, Value};
use std::sync::Arc;
use std::time::Instant;

/// Resident memory in MB (Linux).
fn resident_mb() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|p| p.parse().ok()).unwrap_or(0.0);
    pages * 4096.0 / 1e6
}

/// Spreads small numbers over 64 bits, one to one.
fn mixed(i: u64) -> u128 {
    u128::from(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn measure(
    name: &str,
    kinds: Vec<MatchKind>,
    n: u64,
    matches: impl Fn(u64) -> Vec<KeyMatch>,
    key: impl Fn(u64) -> Vec<Bits>,
) {
    let entry = |i: u64, port: u64| {
        // A next hop's address and port: every entry has its own data.
        let args = vec![Value::Bits(Bits::new(48, mixed(i))), Value::Bits(Bits::new(9, u128::from(port)))];
        Entry {
            matches: matches(i),
            priority: if name == "ternary" { 1 + (i % 1000) as i32 } else { 0 },
            action: EntryAction::Call(Arc::new(ActionCall { action: 0, args })),
            is_const: false,
            metadata: Vec::new(),
            idle_timeout_ns: 0,
        }
    };
    let default = Arc::new(ActionCall { action: 0, args: Vec::new() });
    let before = resident_mb();
    let mut store = TableStore::new(kinds, n, default);
    let start = Instant::now();
    let per = |start: Instant| start.elapsed().as_nanos() as f64 / n as f64;
    for i in 0..n {
        store.insert(entry(i, i)).expect("room for a new entry");
    }
    let (insert, full) = (per(start), resident_mb() - before);
    let start = Instant::now();
    let found = (0..n).filter(|i| store.hit(&key(i.wrapping_mul(7919) % n)).is_some()).count();
    let (lookup, hit) = (per(start), resident_mb() - before);
    let start = Instant::now();
    for i in 0..n {
        store.modify(entry(i, i + 1)).expect("the entry exists");
    }
    let modify = per(start);
    let start = Instant::now();
    for i in 0..n {
        let e = entry(i, 0);
        store.delete(&e.matches, e.priority).expect("the entry exists");
    }
    let delete = per(start);
    println!(
        "{name:8} {n} entries: {full:6.1} MB, after {found} hits {hit:6.1} MB; insert {insert:.0} ns, \
         look up {lookup:.0} ns, modify {modify:.0} ns, delete {delete:.0} ns; left {:.1} MB",
        resident_mb() - before
    );
}

fn main() {
    let n = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1_000_000);
    let exact = |w, v| KeyMatch::Exact(Bits::new(w, v));
    measure(
        "exact",
        vec![MatchKind::Exact],
        n,
        |i| vec![exact(32, u128::from(i))],
        |i| vec![Bits::new(32, u128::from(i))],
    );
    let tuple = |i: u64| [(32, mixed(i)), (32, u128::from(i)), (16, 443), (16, mixed(i + 1)), (8, 6)];
    measure(
        "5-tuple",
        vec![MatchKind::Exact; 5],
        n,
        |i| tuple(i).iter().map(|(w, v)| exact(*w, *v)).collect(),
        |i| tuple(i).iter().map(|(w, v)| Bits::new(*w, *v)).collect(),
    );
    let prefix = |i: u64| 8 + (i % 25) as u32;
    measure(
        "lpm",
        vec![MatchKind::Lpm],
        n,
        |i| {
            let prefix_len = prefix(i).max(20);
            let value = Bits::new(32, u128::from(i) << 12)
                .shr(u64::from(32 - prefix_len))
                .shl(u64::from(32 - prefix_len));
            vec![KeyMatch::Lpm { value, prefix_len }]
        },
        |i| vec![Bits::new(32, u128::from(i) << 12)],
    );
    measure(
        "ternary",
        vec![MatchKind::Ternary],
        n,
        |i| {
            let mask = Bits::new(64, u128::from(u64::MAX << (i % 32)));
            vec![KeyMatch::Ternary { value: Bits::new(64, u128::from(i) << 32).and(&mask), mask }]
        },
        |i| vec![Bits::new(64, u128::from(i) << 32)],
    );
}
