//! Figure 3.10: look-ups by servers, with a cache and without it.

use super::RATE;
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source, ratios};
use pointsman_remote::Zipf;
use pointsman_testbed::tables::{Count, Shape, Tables};

/// The paper's exponents, the most skewed one last.
pub const EXPONENTS: [f64; 3] = [0.90, 0.95, 0.99];
pub const SERVERS: usize = 8;
/// The paper's network adapter: READs outstanding in a queue pair, and the time of a look-up of a packet of 64 bytes.
const READS: f64 = 16.0;
const LOOKUP_US: f64 = 1.8;

pub const SERVER: Quantity = Quantity { name: "server", unit: "", label: "server", log: false };
pub const SHARE: Quantity =
    Quantity { name: "share", unit: "percent", label: "look-ups of a server, % of all packets", log: false };
const COUNT: Quantity = Quantity { name: "servers", unit: "", label: "servers", log: false };

/// How evenly servers are asked with the cache, in the simulator and on this machine.
pub const EVEN: Claim = Claim {
    id: "even",
    text: "Zipf 0.99, 8 servers, with the cache: the busiest one's look-ups over the mean",
    paper: 1.05,
    unit: "times",
    rule: Rule::AtMost,
    source: Source::Ours,
};

/// The same without it.
pub const UNEVEN: Claim = Claim {
    id: "uneven",
    text: "the same without the cache",
    paper: 1.47,
    unit: "times",
    rule: Rule::Effect { neutral: 1.0 },
    source: Source::Ours,
};

pub const FIGURE: Figure = Figure {
    id: "tea-fig-3.10",
    title: "Look-ups by servers, with a cache and without it",
    source: "TEA, thesis section 3.5.1",
    place: Place::Apart { simulator: servers, lab: &super::lab::servers::FIGURE },
    remarks: &[
        "the running program: 1 million random flows of UDP in the memory of 8 servers, a cache of 1,024 entries (with --quick 62,500 and 64). The compiled NAT asks the servers, which answer \
         at once, and every packet must leave with its entry. The controller fills the cache by the data plane's reports, from empty; then 400,000 packets (20,000) are counted",
        "a packet comes every microsecond, and an age of the sketch has 268,436 of them (33,555). The cache has six ages for the first exponent, and three for each of the others",
        "with fewer servers: the same look-ups, divided by the cells that they read",
        "computed, not measured: the rates. A server is full at 16 READs per 1.8 us, 8.9 million look-ups a second, which are the paper's numbers for a queue pair and packets of 64 bytes; \
         the busiest server limits the whole. In the paper the 138 million packets a second that its hosts generate do so, too",
        "the paper gives the numbers of its claims, and a chart without numbers",
    ],
    claims: &[
        Claim {
            id: "cached",
            text: "Zipf 0.99: packets that the cache answers",
            paper: 49.0,
            unit: "%",
            rule: Rule::Same { within: 2.0 },
            source: Source::Text,
        },
        EVEN,
        UNEVEN,
        Claim {
            id: "rate",
            text: "Zipf 0.99, 8 servers, with the cache: look-ups a second (computed)",
            paper: 138.0,
            unit: "M/s",
            rule: Rule::Effect { neutral: 0.0 },
            source: Source::Text,
        },
        Claim {
            id: "linear",
            text: "the same over one server (computed)",
            paper: 8.0,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Text,
        },
    ],
};

/// Share of the packets that the most popular of so many entries have, by Zipf's law.
pub(super) fn popular(entries: u32, first: u32, exponent: f64) -> f64 {
    let weight = |n: u32| f64::from(n).powf(-exponent);
    (1..=first).map(weight).sum::<f64>() / (1..=entries).map(weight).sum::<f64>()
}

/// Shares of all packets.
#[derive(Clone, Debug)]
struct Shares {
    /// Of the switch itself.
    local: f64,
    /// Of each server of one, of two, and so on.
    servers: Vec<Vec<f64>>,
}

impl Shares {
    fn of(count: &Count) -> Self {
        let share = |n: u64| n as f64 / count.packets as f64;
        let divided = |n: usize| if n == SERVERS { count.servers.clone() } else { count.divided(n) };
        let servers = (1..=SERVERS).map(|n| divided(n).into_iter().map(share).collect()).collect();
        Shares { local: share(count.local), servers }
    }

    fn busiest(&self, servers: usize) -> f64 {
        self.servers[servers - 1].iter().copied().fold(0.0, f64::max)
    }

    /// The busiest server's look-ups over the mean.
    fn uneven(&self) -> f64 {
        self.busiest(SERVERS) * SERVERS as f64 / self.servers[SERVERS - 1].iter().sum::<f64>()
    }

    /// Millions of look-ups a second.
    fn rate(&self, servers: usize) -> f64 {
        READS / LOOKUP_US / self.busiest(servers)
    }
}

/// For each exponent, without the cache and with it.
fn measure(bench: &Bench, seed: u64) -> Result<Vec<[Shares; 2]>, Failed> {
    let (entries, cache, age_bit) = bench.choose((1_000_000, 1024, 28), (62_500, 64, 25));
    let shape = Shape { entries, servers: SERVERS as u32, cache, age_bit, seed };
    let packets = bench.choose(400_000, 20_000);
    let age = (1u64 << age_bit) / 1000 + 1;
    let mut bed = Tables::new(shape)?;
    let counted = |bed: &mut Tables, zipf: &Zipf| {
        let count = bed.run(zipf, packets)?;
        match count.packets - count.right {
            0 => Ok(Shares::of(&count)),
            lost => Err(Failed::from(ExperimentError::Wrong(lost))),
        }
    };
    let laws = EXPONENTS.map(|exponent| Zipf::new(entries, exponent));
    let without: Result<Vec<_>, Failed> = laws.iter().map(|zipf| counted(&mut bed, zipf)).collect();
    bed.use_cache()?;
    let mut with = Vec::new();
    for (n, zipf) in laws.iter().enumerate() {
        let ages = if n == 0 { 6 } else { 3 };
        bed.run(zipf, ages * age)?;
        with.push(counted(&mut bed, zipf)?);
    }
    Ok(without?.into_iter().zip(with).map(|(a, b)| [a, b]).collect())
}

fn servers(bench: &Bench) -> Result<Found, Failed> {
    let all = bench.each("look-ups", &[()], |(), seed| measure(bench, seed))?.concat();
    let mut found = Found::default();
    let skewed = EXPONENTS.len() - 1;
    let of = |cache: usize, value: &dyn Fn(&Shares) -> f64| -> Vec<f64> {
        all.iter().map(|seed| value(&seed[skewed][cache])).collect()
    };
    found.claim("cached", of(1, &|s| 100.0 * s.local));
    found.claim("even", of(1, &Shares::uneven));
    found.claim("uneven", of(0, &Shares::uneven));
    let (eight, one) = (of(1, &|s| s.rate(SERVERS)), of(1, &|s| s.rate(1)));
    found.claim("linear", ratios(&eight, &one));
    found.claim("rate", eight);
    let curves = |value: &dyn Fn(&Shares, usize) -> f64| {
        let mut curves = Vec::new();
        for (e, exponent) in EXPONENTS.iter().enumerate() {
            for (cache, name) in ["without the cache", "with the cache"].iter().enumerate() {
                let point =
                    |n| Point::new(n as f64, all.iter().map(|seed| value(&seed[e][cache], n)).collect());
                curves.push(Curve {
                    name: format!("{exponent:.2}, {name}"),
                    points: (1..=SERVERS).map(point).collect(),
                });
            }
        }
        curves
    };
    let load = curves(&|s, server| 100.0 * s.servers[SERVERS - 1][server - 1]);
    let rates = curves(&Shares::rate);
    let chart = |title: &str, x, y, ours| Chart { title: title.into(), x, y, ours, paper: Vec::new() };
    found.charts.push(chart("Load by server", SERVER, SHARE, load));
    found.charts.push(chart("Rate by servers (computed)", COUNT, RATE, rates));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_popular_have_their_share() {
        assert!((popular(4, 1, 1.0) - 12.0 / 25.0).abs() < 1e-9);
        assert!((popular(1_000_000, 1024, 0.99) - 0.5).abs() < 0.01);
    }

    #[test]
    fn the_busiest_server_limits_the_rate() {
        let servers = vec![vec![0.6], vec![0.4, 0.2]];
        let shares = Shares { local: 0.4, servers: (0..4).flat_map(|_| servers.clone()).collect() };
        assert!((shares.rate(1) - 16.0 / 1.8 / 0.6).abs() < 1e-9);
        assert!((shares.rate(2) - 16.0 / 1.8 / 0.4).abs() < 1e-9);
        let count = Count {
            packets: 10,
            right: 10,
            local: 4,
            servers: vec![1, 0, 0, 2, 0, 3, 0, 0],
            cells: vec![1, 0, 0, 2, 0, 3, 0, 0],
        };
        let shares = Shares::of(&count);
        assert_eq!((shares.local, shares.busiest(8), shares.busiest(2)), (0.4, 0.3, 0.3));
        assert!((shares.uneven() - 4.0).abs() < 1e-9);
    }
}
