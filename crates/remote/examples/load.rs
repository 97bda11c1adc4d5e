//! How full a table gets before entries collide, by structure: `cargo run --release -p pointsman-remote --example load`.
//!
//! Each structure gets as many entries as it can hold (a largest matching of entries and cells), without a limit to what moves; `table` is
//! [`pointsman_remote::Table`]. Structures that compare equal bytes of a READ: a window of eight cells from any cell; two adjacent buckets of four, which
//! the paper has.

use pointsman_remote::{Config, Layout, Table};
use pointsman_wire::Random;

const CELLS: u32 = 1 << 20;

/// Entries without a cell, of `n` with a window of eight cells that begins at a multiple of `step`.
fn colliding(n: u32, step: u32, seed: u64) -> u32 {
    let mut random = Random::new(seed);
    let mut starts = vec![0u16; (CELLS / step) as usize];
    (0..n).for_each(|_| starts[random.below((CELLS / step).into()) as usize] += 1);
    // Windows are of equal length: the earliest first is a largest matching.
    let (mut next, mut lost) = (0, 0);
    for (i, count) in starts.iter().enumerate() {
        let start = i as u32 * step;
        for _ in 0..*count {
            let cell = next.max(start);
            if cell < start + 8 {
                next = cell + 1;
            } else {
                lost += 1;
            }
        }
    }
    lost
}

/// The same for the table.
fn table(n: u32, seed: u64) -> u32 {
    let mut random = Random::new(seed);
    let layout = Layout { key: 16, value: 8 };
    let config = Config { layout, cells: vec![CELLS], stash: CELLS as usize, hold_ns: 0, replicas: false };
    let mut table = Table::new(config).expect("settings");
    let keys: Vec<Vec<u8>> = (0..n).map(|_| random.bytes(16)).collect();
    table.load(keys.iter().map(|k| (&k[..], &[0; 8][..]))).expect("room");
    table.collisions() as u32
}

/// The load, in thousandths, up to which at most one entry of 1,000 collides, for each of five seeds.
fn limit(colliding: impl Fn(u32, u64) -> u32) -> Vec<u32> {
    let full = |load: u32, seed| {
        let n = (u64::from(CELLS) * u64::from(load) / 1000) as u32;
        colliding(n, seed) > n / 1000
    };
    let search = |seed| {
        let (mut low, mut high) = (100, 1000);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if full(middle, seed) { high = middle } else { low = middle }
        }
        low
    };
    (1..=5).map(search).collect()
}

fn main() {
    println!("load in thousandths at one collision in 1,000 entries, {CELLS} cells, five seeds");
    println!("window of 8 from any cell, best possible: {:?}", limit(|n, seed| colliding(n, 1, seed)));
    println!("2 buckets of 4, best possible:            {:?}", limit(|n, seed| colliding(n, 4, seed)));
    println!("table:                                    {:?}", limit(table));
}
