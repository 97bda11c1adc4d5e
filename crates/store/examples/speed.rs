//! Requests a second on one core, and bytes a key: `cargo run --release -p pointsman-store --example speed`.

use pointsman_store::{Config, Head, Kind, Message, Outbox, Store};
use std::time::Instant;

const KEYS: u32 = 1_000_000;
const SECRET: [u8; 8] = *b"a secret";

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// A request for the `n`-th key: 16 bytes of key, 8 of value, and an output packet of 60 bytes with a write.
fn request(kind: Kind, n: u32, sequence: u32, bytes: &mut Vec<u8>) {
    let head = Head { grant: u32::from(kind != Kind::New), sequence, request: sequence, ..Head::of(kind, 1) };
    // Neighbours in time are not neighbours in the table.
    let flow = n.wrapping_mul(0x9e37_79b1).to_be_bytes();
    let key = [flow, flow, flow, flow].concat();
    bytes.clear();
    let packet: &[u8] = if kind == Kind::New { &[] } else { &[0; 60] };
    Message { head, key: &key, value: &u64::from(sequence).to_be_bytes(), packet }.encode(SECRET, bytes);
}

fn main() {
    let config = Config { secret: SECRET, max_keys: KEYS, ..Config::default() };
    let mut store = Store::new(config).expect("settings");
    let mut out = Outbox::default();
    let before = resident();
    let mut bytes = Vec::new();
    for n in 0..KEYS {
        request(Kind::New, n, 0, &mut bytes);
        store.receive(0, 1u16, &bytes, &mut out);
        out.clear();
    }
    println!("{KEYS} keys: {:.0} bytes a key", (resident() - before) as f64 / f64::from(KEYS));
    const BATCH: u32 = 100_000;
    let mut rates: Vec<f64> = (1..=20)
        .map(|round| {
            let batch: Vec<Vec<u8>> = (0..BATCH)
                .map(|i| {
                    let mut bytes = Vec::new();
                    request(Kind::Write, (i * 10 + round) % KEYS, round, &mut bytes);
                    bytes
                })
                .collect();
            let start = Instant::now();
            for bytes in &batch {
                store.receive(u64::from(round), 1, bytes, &mut out);
                out.clear();
            }
            f64::from(BATCH) / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    assert_eq!(store.stats().renewals + store.stats().writes, 20 * u64::from(BATCH));
    rates.sort_by(f64::total_cmp);
    println!("writes: {:.2} million a second (median of 20), {:.2} to {:.2}", rates[10], rates[0], rates[19]);
}
