//! Table 3.2, and how full a table gets before entries collide.

use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source, ratios};
use pointsman_remote::{Config, Layout, RING, SLOT, Scratchpads, Table};
use pointsman_testbed::tables::Function;
use pointsman_wire::Random;

/// Entries of table 3.2.
pub(super) const ENTRIES: f64 = 1e7;
/// The paper's: at most so many entries in 1,000 collide.
const COLLIDING: u32 = 1;
/// Bytes of a packet in a scratchpad of the paper's table, and its copies of each cell: bucket and shadow.
const PAPER_PACKET: f64 = 1500.0;
const PAPER_COPIES: f64 = 2.0;
/// Cells of one of its buckets: two of them have as many as our window.
const PAPER_BUCKET: f64 = 4.0;
/// Queue pairs of a server.
pub(super) const PAIRS: u32 = 4;

/// Applications: name, bytes of key and value over IPv6 (multiples of four), and the paper's table in MB. A key is addresses, ports and protocol; that of the VPN
/// gateway a network and an address. The programs of NAT and VPN gateway have these tables.
const APPS: [(&str, Layout, f64); 4] = [
    ("nat", Function::Nat6.layout(), 525.0),
    ("firewall", Layout { key: 40, value: 4, scratchpads: Scratchpads::Ring }, 353.0),
    ("lb", Layout { key: 40, value: 20, scratchpads: Scratchpads::Ring }, 525.0),
    ("vpn", Function::Vpn6.layout(), 343.0),
];
/// Claims about all memory of a copy of the entries.
const ALL: [(&str, &str); 2] = [("nat", "all"), ("vpn", "vpn-all")];

const APP: Quantity = Quantity {
    name: "application",
    unit: "",
    label: "1: NAT; 2: firewall; 3: load balancer; 4: VPN gateway",
    log: false,
};
const BYTES_OF: Quantity =
    Quantity { name: "memory", unit: "mb", label: "memory of 10 million entries, MB", log: true };
const LOAD: Quantity =
    Quantity { name: "load", unit: "percent", label: "entries for each cell, %", log: false };
const LOST: Quantity =
    Quantity { name: "colliding", unit: "percent", label: "entries without a free cell, %", log: false };

const fn size(id: &'static str, text: &'static str, mb: f64) -> Claim {
    Claim { id, text, paper: mb, unit: "MB", rule: Rule::Effect { neutral: 0.0 }, source: Source::Text }
}

const fn all(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1200.0, unit: "MB", rule: Rule::AtMost, source: Source::Ours }
}

pub const BYTES: Figure = Figure {
    id: "tea-table-3.2",
    title: "Memory of 10 million entries over IPv6",
    source: "TEA, thesis section 3.4.1",
    place: Place::Simulator(bytes),
    remarks: &[
        "the paper counts keys and values alone. Ours are multiples of four bytes: 40 for addresses, ports and protocol, 20 for an address and a port, 4 for the firewall's \
         state, 20 for an address and a tunnel",
        "`all`: cells with index and check value, at the load at which one entry in 1,000 collides (measured for each seed), and the scratchpads of a server with four queue pairs",
        "`the paper's structure` is computed: two buckets of four cells, a copy of each bucket, a scratchpad of 1,500 bytes for each, at the best possible load of such a \
         table, with the paper's bytes of an entry",
        "the tables of NAT and VPN gateway are those of `p4/programs/nat` with `-D NAT_IPV6` and `p4/programs/tea-vpn`; the programs of firewall and load balancer are for IPv4",
    ],
    claims: &[
        size("nat", "keys and values of the NAT", 525.0),
        size("firewall", "keys and values of the firewall", 353.0),
        size("lb", "keys and values of the load balancer", 525.0),
        size("vpn", "keys and values of the VPN gateway", 343.0),
        all("all", "all memory of a copy of the NAT's entries"),
        all("vpn-all", "all memory of a copy of the VPN gateway's entries"),
        Claim {
            id: "less",
            text: "the paper's structure needs so many times ours",
            paper: 5.0,
            unit: "times",
            rule: Rule::AtLeast,
            source: Source::Ours,
        },
    ],
};

pub const COLLISIONS: Figure = Figure {
    id: "tea-collisions",
    title: "Entries without a free cell, by load and structure",
    source: "ours; TEA, thesis section 3.3.2",
    place: Place::Simulator(collisions),
    remarks: &[
        "all structures read eight cells at a time. `best possible`: as many entries have a cell as can have one (a largest matching), however many move; `ours` is the table of \
         `pointsman tea`, which searches 256 cells to each side",
        "the paper says that 0.1 % of the entries collide, but not at which load",
    ],
    claims: &[
        Claim {
            id: "gain",
            text: "load at 0.1 %: times that of two buckets of four cells, best possible",
            paper: 1.15,
            unit: "times",
            rule: Rule::AtLeast,
            source: Source::Ours,
        },
        Claim {
            id: "search",
            text: "load at 0.1 %: a part of what a window of eight cells can have at best",
            paper: 0.99,
            unit: "",
            rule: Rule::AtLeast,
            source: Source::Ours,
        },
    ],
};

/// Entries without a cell, of `n` with a window of eight of `cells` that begins at a multiple of `step`.
fn matching(cells: u32, step: u32, n: u32, seed: u64) -> u32 {
    let mut random = Random::new(seed);
    let mut starts = vec![0u32; (cells / step) as usize];
    (0..n).for_each(|_| starts[random.below((cells / step).into()) as usize] += 1);
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

/// The same for our table.
fn ours(scratchpads: Scratchpads, cells: u32, n: u32, seed: u64) -> Result<u32, Failed> {
    let mut random = Random::new(seed);
    let layout = Layout { key: 8, value: 4, scratchpads };
    let config =
        Config { layout, cells: vec![cells], stash: n as usize, hold_ns: 0, replicas: false, cache: 0 };
    let mut table = Table::new(config)?;
    let keys: Vec<Vec<u8>> = (0..n).map(|_| random.bytes(8)).collect();
    table.load(keys.iter().map(|k| (&k[..], &[0; 4][..])))?;
    Ok(table.collisions() as u32)
}

/// The load, in per cent with a digit behind the point, up to which at most one entry in 1,000 collides.
fn limit(cells: u32, colliding: impl Fn(u32) -> Result<u32, Failed>) -> Result<f64, Failed> {
    let (mut low, mut high) = (100, 1000);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let n = (u64::from(cells) * middle / 1000) as u32;
        if colliding(n)? > n / 1000 * COLLIDING {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(low as f64 / 10.0)
}

/// The same of our table.
pub(super) fn load(scratchpads: Scratchpads, cells: u32, seed: u64) -> Result<f64, Failed> {
    limit(cells, |n| ours(scratchpads, cells, n, seed))
}

/// Loads of ours, of a window of eight cells at best, and of two buckets of four at best, one sample for each seed.
fn limits(bench: &Bench) -> Result<[Vec<f64>; 3], Failed> {
    let cells = bench.choose(1 << 18, 1 << 15);
    let mut all = [const { Vec::new() }; 3];
    for seed in bench.seeds() {
        all[0].push(load(Scratchpads::Ring, cells, seed)?);
        all[1].push(limit(cells, |n| Ok(matching(cells, 1, n, seed)))?);
        all[2].push(limit(cells, |n| Ok(matching(cells, 4, n, seed)))?);
    }
    Ok(all)
}

fn bytes(bench: &Bench) -> Result<Found, Failed> {
    let [own, _, buckets] = limits(bench)?;
    let mut found = Found::default();
    let seeds = own.len();
    let rings = f64::from(PAIRS * RING * SLOT);
    let (mut entries, mut all, mut paper) = (Vec::new(), Vec::new(), Vec::new());
    for (n, (id, layout, paper_mb)) in APPS.iter().enumerate() {
        let x = (n + 1) as f64;
        let plain = ENTRIES * (layout.key + layout.value) as f64 / 1e6;
        let of_load = |load: &f64| (ENTRIES / (load / 100.0) * layout.cell_bytes() as f64 + rings) / 1e6;
        let of_paper = |load: &f64| {
            let cells = PAPER_COPIES * PAPER_BUCKET * paper_mb * 1e6 / ENTRIES;
            ENTRIES / (load / 100.0) / PAPER_BUCKET * (cells + PAPER_PACKET) / 1e6
        };
        let [with_all, with_paper] =
            [own.iter().map(of_load).collect::<Vec<_>>(), buckets.iter().map(of_paper).collect()];
        found.claim(id, vec![plain; seeds]);
        if let Some((_, claim)) = ALL.iter().find(|(app, _)| app == id) {
            found.claim(claim, with_all.clone());
        }
        if *id == "nat" {
            found.claim("less", ratios(&with_paper, &with_all));
        }
        entries.push(Point::new(x, vec![plain; seeds]));
        all.push(Point::new(x, with_all));
        paper.push(Point::new(x, with_paper));
    }
    let curve = |name: &str, points| Curve { name: name.into(), points };
    let rows: Vec<(f64, f64)> = APPS.iter().enumerate().map(|(n, app)| ((n + 1) as f64, app.2)).collect();
    found.charts.push(Chart {
        title: "Memory".into(),
        x: APP,
        y: BYTES_OF,
        ours: vec![
            curve("keys and values", entries),
            curve("all", all),
            curve("the paper's structure", paper),
        ],
        paper: vec![Curve::paper("keys and values", &rows)],
    });
    Ok(found)
}

fn collisions(bench: &Bench) -> Result<Found, Failed> {
    let [own, window, buckets] = limits(bench)?;
    let mut found = Found::default();
    found.claim("gain", ratios(&own, &buckets));
    found.claim("search", ratios(&own, &window));
    let cells = bench.choose(1 << 16, 1 << 14);
    let seeds: Vec<u64> = bench.seeds().collect();
    let mut curves = [const { Vec::new() }; 3];
    for load in (40..=90).step_by(5) {
        let n = cells / 100 * load;
        let percent = |lost: u32| 100.0 * f64::from(lost) / f64::from(n);
        let own: Result<Vec<u32>, Failed> =
            seeds.iter().map(|s| ours(Scratchpads::Ring, cells, n, *s)).collect();
        let best = |step| seeds.iter().map(|s| percent(matching(cells, step, n, *s))).collect();
        let points = [own?.into_iter().map(percent).collect(), best(1), best(4)];
        for (curve, samples) in curves.iter_mut().zip(points) {
            curve.push(Point::new(load.into(), samples));
        }
    }
    let names =
        ["ours", "a window of eight cells, best possible", "two buckets of four cells, best possible"];
    let ours =
        names.iter().zip(curves).map(|(name, points)| Curve { name: (*name).into(), points }).collect();
    found.charts.push(Chart { title: "Collisions".into(), x: LOAD, y: LOST, ours, paper: Vec::new() });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matching_by_hand() {
        // One bucket pair holds eight entries, wherever they begin.
        assert_eq!(matching(4, 4, 8, 1), 0);
        assert_eq!(matching(4, 4, 11, 1), 3);
        assert_eq!(matching(1, 1, 9, 1), 1);
    }

    #[test]
    fn the_limit_is_found() {
        assert_eq!(limit(10_000, |n| Ok(if n > 6540 { 100 } else { 0 })).ok(), Some(65.4));
        assert!(limit(10_000, |_| Err("no".into())).is_err_and(|e| e.to_string() == "no"));
    }
}
