//! What a million routes take in servers and in the switch, by expansion to the levels of `p4/programs/tea-router`: `cargo run --release -p pointsman-remote
//! --example routes`.
//!
//! Lengths are drawn by shares of those in a default-free routing table, prefixes at random from as many as have such a length.

use pointsman_remote::{Layout, Level, Prefixes, RouteChange, Scratchpads};
use pointsman_wire::Random;
use std::collections::BTreeSet;
use std::error::Error;

/// Entries for each cell.
const LOAD: f64 = 0.6;
/// Routes of a length, in a thousand.
type Shares = [(u32, u64)];
const IPV4: &Shares = &[
    (10, 1),
    (12, 1),
    (14, 2),
    (15, 2),
    (16, 13),
    (17, 8),
    (18, 14),
    (19, 25),
    (20, 45),
    (21, 52),
    (22, 112),
    (23, 103),
    (24, 620),
    (28, 1),
    (32, 1),
];
const IPV6: &Shares = &[
    (20, 1),
    (24, 2),
    (28, 4),
    (29, 25),
    (30, 4),
    (32, 110),
    (33, 10),
    (34, 12),
    (35, 8),
    (36, 48),
    (38, 8),
    (40, 130),
    (42, 15),
    (44, 130),
    (46, 30),
    (47, 13),
    (48, 447),
    (56, 2),
    (64, 1),
];

/// Routes of a family, and what they become: the number of them, entries of all levels, and the switch's own.
fn expand(
    width: u32,
    levels: &[Level],
    (routes, shares): (u64, &Shares),
    // The first bits of all, and how many: IPv6 has 2000::/3.
    (first, fixed): (u128, u32),
    random: &mut Random,
) -> Result<[u64; 3], Box<dyn Error>> {
    let mut prefixes = Prefixes::new(width, levels)?;
    let (mut entries, mut own) = (BTreeSet::new(), BTreeSet::new());
    let all: u64 = shares.iter().map(|(_, n)| n).sum();
    for (bits, share) in shares {
        for _ in 0..routes * share / all {
            let any = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            let prefix =
                first << (width - fixed) | any >> (128 - width + fixed) >> (width - bits) << (width - bits);
            for change in prefixes.put((prefix, *bits), &[0])? {
                match change {
                    RouteChange::Entry(level, key, _) => entries.insert((level, key)),
                    RouteChange::Own((first, bits), _) => own.insert((bits as usize, first)),
                };
            }
        }
    }
    Ok([prefixes.len() as u64, entries.len() as u64, own.len() as u64])
}

fn main() -> Result<(), Box<dyn Error>> {
    let layout = Layout { key: 8, value: 8, scratchpads: Scratchpads::Ring };
    println!(
        "| | routes | entries in servers | routes in the switch | memory of a copy |\n|---|---|---|---|---|"
    );
    let ipv4 = [Level { bits: 24, least: 14 }];
    let ipv6 = [Level { bits: 32, least: 22 }, Level { bits: 48, least: 38 }];
    let mut random = Random::new(1);
    for (name, width, levels, routes, first) in
        [("IPv4", 32, &ipv4[..], (1_000_000, IPV4), (0, 0)), ("IPv6", 128, &ipv6, (250_000, IPV6), (1, 3))]
    {
        let [routes, entries, own] = expand(width, levels, routes, first, &mut random)?;
        let cells = (entries as f64 / LOAD) as u32;
        let bytes = layout.region_bytes(cells) as f64 / 1e6;
        println!("| {name} | {routes} | {entries} | {own} | {bytes:.0} MB |");
    }
    Ok(())
}
