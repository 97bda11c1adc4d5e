//! Figure 3.12: the NAT with a cache, by the popularity of flows.

use super::adapter::{LATENCY, MODEL, check};
use super::percentile;
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_remote::Zipf;
use pointsman_testbed::rnic::Rnic;
use pointsman_testbed::tables::timed::{Passed, Shape, Timed};
use pointsman_wire::Random;

const US: u64 = 1000;
/// Between two packets whose latency is measured.
const APART_NS: u64 = 10 * US;
/// Bytes of packets without their check sequence: those of which the latency is measured, and those of the trace, half of each size.
const SMALL: usize = 60;
const OF_TRACE: [usize; 2] = [196, 1396];
const CHECK: usize = 4;
/// What one to four of the paper's hosts send, in Gbit/s.
const OFFERED: [f64; 4] = [14.48, 28.96, 43.44, 57.92];
/// Percentiles of the distributions.
pub(super) const PERCENTS: [usize; 9] = [1, 10, 25, 40, 50, 60, 75, 90, 99];

pub(super) const PERCENT: Quantity =
    Quantity { name: "percentile", unit: "percent", label: "share of packets, per cent", log: false };
const INPUT: Quantity =
    Quantity { name: "offered", unit: "gbit_s", label: "packets offered, Gbit/s", log: false };
const OUTPUT: Quantity =
    Quantity { name: "output", unit: "gbit_s", label: "packets that leave, Gbit/s", log: false };

/// Traffic by the popularity of its flows, the most even one first: the exponent of Zipf's law, 0 for equally popular flows.
pub(super) const TRAFFIC: [(&str, f64); 5] =
    [("uniform", 0.0), ("Zipf 0.90", 0.90), ("Zipf 0.95", 0.95), ("Zipf 0.99", 0.99), ("trace", TRACE)];
/// With this exponent 95 of a million flows have half of the packets.
pub(super) const TRACE: f64 = 1.09;
/// Places in [`TRAFFIC`].
const UNIFORM: usize = 0;
const OF_A_TRACE: usize = 4;

pub const FIGURE: Figure = Figure {
    id: "tea-fig-3.12",
    title: "The NAT with a cache: latency by the popularity of flows, and output by input",
    source: "TEA, thesis section 3.5.2",
    place: Place::Apart { simulator: nat, lab: &super::lab::popularity::FIGURE },
    remarks: &[
        "the compiled NAT with a cache of 1,024 of 1 million flows (with --quick 64 of 62,500), one server with four queue pairs behind a model of links and network adapter, in virtual time. Every packet \
         must leave with its entry",
        MODEL,
        "local: packets whose entries are all in the cache. The cache has the most popular flows, as the controller has them after a while (`tea-fig-3.10`)",
        "trace: the paper replays traces of data centres, which we do not have. It says of them that 95 flows have more than half of the packets: so ours is Zipf's law with an exponent of 1.09",
        "output by input: packets of 200 and 1,400 bytes, half of each, as traces of data centres have them (ours), with the trace's flows",
    ],
    claims: &[
        Claim {
            id: "skew",
            text: "the more skewed the flows, the lower the median latency: largest ratio of a median to that of the next more even traffic",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Text,
        },
        Claim {
            id: "trace",
            text: "the trace is more skewed than Zipf 0.99: its median latency against that with it",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Text,
        },
        Claim {
            id: "tail",
            text: "no long tail: P99 against the latency of one look-up, the largest of all kinds of traffic",
            paper: 1.5,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Ours,
        },
        Claim {
            id: "output",
            text: "57.92 Gbit/s of the trace: output against input",
            paper: 1.0,
            unit: "times",
            rule: Rule::Same { within: 0.01 },
            source: Source::Text,
        },
    ],
};

/// One seed.
#[derive(Clone)]
struct Measured {
    /// Of packets whose entries are in the cache, in microseconds, sorted.
    local: Vec<f64>,
    /// The same by kind of traffic.
    latencies: Vec<Vec<f64>>,
    /// Gbit/s that leave, by those offered.
    output: Vec<f64>,
}

/// Latencies of packets that come one by one.
fn latencies(bed: &mut Timed, count: u64, mut flow: impl FnMut() -> u32) -> Result<Vec<f64>, Failed> {
    let (first, start) = (bed.passed().len(), bed.now());
    (0..count).for_each(|n| bed.look_up(start + n * APART_NS, flow(), SMALL));
    bed.run_until(start + (count + 100) * APART_NS);
    let took = |p: &Passed| Some((p.found? - p.came) as f64 / 1e3);
    let all: Option<Vec<f64>> = bed.passed()[first..].iter().map(took).collect();
    let mut all = all.ok_or(ExperimentError::Lost)?;
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// Gbit/s that leave while so many come.
fn output(bed: &mut Timed, offered: f64, ns: u64, mut flow: impl FnMut() -> u32) -> f64 {
    let (first, start) = (bed.passed().len(), bed.now());
    let warm = 200 * US;
    let (mut at, mut sizes) = (0.0, Vec::new());
    while at < (warm + ns) as f64 {
        let bytes = OF_TRACE[sizes.len() % 2];
        bed.look_up(start + at as u64, flow(), bytes);
        sizes.push(bytes + CHECK);
        at += (bytes + CHECK) as f64 * 8.0 / offered;
    }
    bed.run_until(start + warm + ns + 1000 * US);
    let within = start + warm..start + warm + ns;
    let left = |(p, _): &(&Passed, usize)| p.found.is_some_and(|at| within.contains(&at));
    let bytes: usize = bed.passed()[first..].iter().zip(sizes).filter(left).map(|(_, bytes)| bytes).sum();
    bytes as f64 * 8.0 / ns as f64
}

fn measure(bench: &Bench, seed: u64) -> Result<Measured, Failed> {
    let (entries, cache) = bench.choose((1_000_000, 1024), (62_500, 64));
    let shape = Shape { entries, cache, seed, ..Shape::USUAL };
    let mut bed = Timed::new(shape, Rnic::default())?;
    bed.fill_cache(cache)?;
    let mut random = Random::new(seed);
    let count = bench.choose(2000, 200);
    let local = latencies(&mut bed, count, || random.below(cache.into()) as u32)?;
    let mut by_traffic = Vec::new();
    for (_, exponent) in TRAFFIC {
        let zipf = Zipf::new(entries, exponent);
        by_traffic.push(latencies(&mut bed, count, || zipf.draw(&mut random))?);
    }
    let (zipf, ns) = (Zipf::new(entries, TRACE), bench.choose(1000, 200) * US);
    let output = OFFERED.map(|offered| output(&mut bed, offered, ns, || zipf.draw(&mut random))).to_vec();
    check(&bed, &Rnic::default())?;
    Ok(Measured { local, latencies: by_traffic, output })
}

fn nat(bench: &Bench) -> Result<Found, Failed> {
    let all = bench.each("NAT by popularity of flows", &[()], |(), seed| measure(bench, seed))?.concat();
    let of = |value: &dyn Fn(&Measured) -> f64| -> Vec<f64> { all.iter().map(value).collect() };
    let median = |m: &Measured, place: usize| percentile(&m.latencies[place], 50);
    let mut found = Found::default();
    let steps = UNIFORM + 1..OF_A_TRACE;
    found.claim("skew", of(&|m| steps.clone().map(|n| median(m, n) / median(m, n - 1)).fold(0.0, f64::max)));
    found.claim("trace", of(&|m| median(m, OF_A_TRACE) / median(m, OF_A_TRACE - 1)));
    let one = |m: &Measured| median(m, UNIFORM);
    found.claim(
        "tail",
        of(&|m| m.latencies.iter().map(|all| percentile(all, 99) / one(m)).fold(0.0, f64::max)),
    );
    let last = OFFERED.len() - 1;
    found.claim("output", of(&|m| m.output[last] / OFFERED[last]));
    let curve = |name: &str, latencies: &dyn Fn(&Measured) -> &Vec<f64>| {
        let point = |p: &usize| Point::new(*p as f64, of(&|m| percentile(latencies(m), *p)));
        Curve { name: name.into(), points: PERCENTS.iter().map(point).collect() }
    };
    let by_traffic = TRAFFIC.iter().enumerate().map(|(n, (name, _))| curve(name, &move |m| &m.latencies[n]));
    let latency = [curve("local", &|m| &m.local)].into_iter().chain(by_traffic).collect();
    let point = |(n, offered): (usize, &f64)| Point::new(*offered, of(&|m| m.output[n]));
    let carried = Curve { name: "trace".into(), points: OFFERED.iter().enumerate().map(point).collect() };
    let chart = |title: &str, x, y, ours| Chart { title: title.into(), x, y, ours, paper: Vec::new() };
    found.charts.push(chart("Latency of packets, the lowest ones first", PERCENT, LATENCY, latency));
    found.charts.push(chart("Output by input", INPUT, OUTPUT, vec![carried]));
    Ok(found)
}
