//! Figure 3.9: latency and rate of look-ups with one server, by size of packets.

use super::{RATE, percentile};
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_testbed::rnic::{Rnic, bare_read_ns};
use pointsman_testbed::tables::timed::{Passed, Shape, Timed};
use pointsman_wire::Random;

/// Bytes of packets, with their check sequence.
pub(super) const SIZES: [usize; 6] = [64, 128, 256, 512, 1024, 1500];
/// Bytes of a check sequence.
pub(super) const CHECK: usize = 4;
/// Queue pairs of a server: the paper's, and those of `pointsman tea`.
const PAIRS: [u32; 2] = [1, 4];
const US: u64 = 1000;
/// Between two packets whose latency is measured, and between packets that are more than a server takes.
const APART_NS: u64 = 10 * US;
const CROWDED_NS: u64 = 80;

pub(super) const SIZE: Quantity =
    Quantity { name: "size", unit: "bytes", label: "size of packets, bytes", log: false };
pub(super) const LATENCY: Quantity =
    Quantity { name: "latency", unit: "us", label: "time of a look-up, us", log: false };

pub(super) const MODEL: &str = "links of 40 Gbit/s, a network adapter that takes 34 million messages a second and 16 READs of a queue pair, as in the paper; PCIe of 63 Gbit/s, 0.4 us \
    for a pass through the switch, cables of 5 m (ours). Fitted to the paper, hence not a result: the latency of memory, so that a bare READ of 64 bytes takes 1.65 us";

pub const FIGURE: Figure = Figure {
    id: "tea-fig-3.9",
    title: "Latency and rate of look-ups with one server, by size of packets",
    source: "TEA, thesis section 3.5.1",
    place: Place::Apart { simulator: adapter, lab: &super::lab::sizes::FIGURE },
    remarks: &[
        "the compiled NAT without a cache, a server (`roce`'s responder) behind a model of links and network adapter, in virtual time. Every packet must leave with its entry",
        MODEL,
        "a bare READ is one of as many bytes as the packet has, by the same switch and adapter. The paper's is between two hosts",
        "the rate is that of packets that leave, 12.5 million a second offered; without a credit a packet is lost at once. The paper has a READ for each look-up and 16 in flight in its queue pair; \
         ours has two READs, so 8 look-ups in flight in each queue pair",
        "the paper's 7.3 million look-ups a second of 1,500 bytes are 88 Gbit/s, and its link has 40: with packets that pass the link whole, 3.3 million is the most",
        "the paper's latencies grow by 0.4 us from 64 to 1,500 bytes. A packet of 1,500 bytes takes 0.6 us on such a link to the server and back",
        "sequential: flows in the order of the cells that are read for them, so that consecutive look-ups are of neighbouring cells and of the queue pairs in turn; random: any flow. Not modelled: \
         caches of memory and adapter, so the order of addresses has no cost, and `orders` shows that of the program alone",
    ],
    claims: &[
        more("more-64", "64 bytes: a look-up takes longer than a bare READ, by"),
        more("more-1500", "1,500 bytes: the same"),
        Claim {
            id: "latency-1500",
            text: "1,500 bytes: a look-up takes",
            paper: 2.2,
            unit: "us",
            rule: Rule::AtMost,
            source: Source::Text,
        },
        rate("rate-64", "64 bytes, four queue pairs: look-ups a second", 10.9),
        rate("rate-1500", "1,500 bytes, four queue pairs: look-ups a second", 7.3),
        Claim {
            id: "orders",
            text: "four queue pairs: most that the rates of sequential and random look-ups differ by, of all sizes",
            paper: 0.02,
            unit: "M/s",
            rule: Rule::AtMost,
            source: Source::Text,
        },
    ],
};

const fn more(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 0.2, unit: "us", rule: Rule::AtMost, source: Source::Text }
}

const fn rate(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "M/s", rule: Rule::AtLeast, source: Source::Text }
}

/// With one size of packets: microseconds of each look-up, sorted, and millions of look-ups a second by number of queue pairs, and in the order of the memory with
/// the last number.
#[derive(Clone)]
struct Measured {
    latencies: Vec<f64>,
    rates: [f64; 2],
    sequential: f64,
}

/// No packet had a wrong entry, and no queue pair more READs than the adapter takes.
pub(super) fn check(bed: &Timed, rnic: &Rnic) -> Result<(), ExperimentError> {
    match (bed.wrong(), bed.most_reads()) {
        (0, reads) if reads <= rnic.reads => Ok(()),
        (0, reads) => Err(ExperimentError::Reads(reads)),
        (wrong, _) => Err(ExperimentError::Wrong(wrong)),
    }
}

/// Millions of look-ups a second of packets of so many bytes, when one comes in so many nanoseconds, more than a server takes.
pub(super) fn crowded(
    bench: &Bench,
    bed: &mut Timed,
    (bytes, gap_ns): (usize, u64),
    mut flow: impl FnMut() -> u32,
) -> Result<f64, Failed> {
    let (first, start) = (bed.passed().len(), bed.now());
    let (warm, whole) = (200 * US, bench.choose(1000, 200) * US);
    (0..(warm + whole) / gap_ns).for_each(|n| bed.look_up(start + n * gap_ns, flow(), bytes));
    bed.run_until(start + warm + whole + 1000 * US);
    let within = start + warm..start + warm + whole;
    let done = bed.passed()[first..].iter().filter(|p| p.found.is_some_and(|at| within.contains(&at)));
    let rate = done.count() as f64 * 1e3 / whole as f64;
    check(bed, &Rnic::default())?;
    Ok(rate)
}

/// Microseconds of look-ups that come one at a time, of packets of so many bytes, sorted.
pub(super) fn apart(
    bed: &mut Timed,
    count: u64,
    bytes: usize,
    mut flow: impl FnMut() -> u32,
) -> Result<Vec<f64>, Failed> {
    let (first, start) = (bed.passed().len(), bed.now());
    (0..count).for_each(|n| bed.look_up(start + n * APART_NS, flow(), bytes));
    bed.run_until(start + (count + 100) * APART_NS);
    let took = |p: &Passed| Some((p.found? - p.came) as f64 / 1e3);
    let latencies: Option<Vec<f64>> = bed.passed()[first..].iter().map(took).collect();
    let mut latencies = latencies.ok_or(ExperimentError::Lost)?;
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

/// A server with the NAT's entries, and so many queue pairs.
pub(super) fn shape(bench: &Bench, pairs: u32, seed: u64) -> Shape {
    let entries = bench.choose(50_000, 5_000);
    Shape { entries, pairs, seed, ..Shape::USUAL }
}

/// Millions of look-ups a second of packets of so many bytes with their check sequence, with four queue pairs.
pub(super) fn most(bench: &Bench, bytes: usize, seed: u64) -> Result<f64, Failed> {
    let shape = shape(bench, PAIRS[1], seed);
    let mut random = Random::new(seed);
    let entries = u64::from(shape.entries);
    let mut bed = Timed::new(shape, Rnic::default())?;
    crowded(bench, &mut bed, (bytes - CHECK, CROWDED_NS), || random.below(entries) as u32)
}

fn measure(bench: &Bench, seed: u64) -> Result<Vec<Measured>, Failed> {
    let rnic = Rnic::default();
    let mut beds = Vec::new();
    for pairs in PAIRS {
        beds.push(Timed::new(shape(bench, pairs, seed), rnic)?);
    }
    let entries = shape(bench, PAIRS[0], seed).entries;
    let mut random = Random::new(seed);
    let mut flow = || random.below(entries.into()) as u32;
    let mut all = Vec::new();
    for size in SIZES {
        let bytes = size - CHECK;
        let latencies = apart(&mut beds[0], bench.choose(1000, 100), bytes, &mut flow)?;
        let mut rates = [0.0; 2];
        for (bed, rate) in beds.iter_mut().zip(&mut rates) {
            *rate = crowded(bench, bed, (bytes, CROWDED_NS), &mut flow)?;
        }
        let last = &mut beds[PAIRS.len() - 1];
        let mut in_order = last.in_order().to_vec().into_iter().cycle();
        let sequential = crowded(bench, last, (bytes, CROWDED_NS), || in_order.next().unwrap_or(0))?;
        all.push(Measured { latencies, rates, sequential });
    }
    Ok(all)
}

fn adapter(bench: &Bench) -> Result<Found, Failed> {
    let all = bench.each("look-ups by size", &[()], |(), seed| measure(bench, seed))?.concat();
    let bare = |size: usize| bare_read_ns(&Rnic::default(), size - CHECK) as f64 / 1e3;
    let at = |place: usize, value: &dyn Fn(&Measured) -> f64| -> Vec<f64> {
        all.iter().map(|sizes| value(&sizes[place])).collect()
    };
    let last = SIZES.len() - 1;
    let of_latencies = |percent| move |m: &Measured| percentile(&m.latencies, percent);
    let median = of_latencies(50);
    let mut found = Found::default();
    found.claim("more-64", at(0, &|m| median(m) - bare(SIZES[0])));
    found.claim("more-1500", at(last, &|m| median(m) - bare(SIZES[last])));
    found.claim("latency-1500", at(last, &median));
    found.claim("rate-64", at(0, &|m| m.rates[1]));
    found.claim("rate-1500", at(last, &|m| m.rates[1]));
    let differ =
        |sizes: &Vec<Measured>| sizes.iter().map(|m| (m.sequential - m.rates[1]).abs()).fold(0.0, f64::max);
    found.claim("orders", all.iter().map(differ).collect::<Vec<f64>>());
    let curve = |name: &str, value: &dyn Fn(&Measured) -> f64| {
        let point = |(place, size): (usize, &usize)| Point::new(*size as f64, at(place, value));
        Curve { name: name.into(), points: SIZES.iter().enumerate().map(point).collect() }
    };
    let seeds = all.len();
    let raw = SIZES.iter().map(|size| Point::new(*size as f64, vec![bare(*size); seeds])).collect();
    let latency = vec![
        curve("look-up, median", &median),
        curve("look-up, 10th percentile", &of_latencies(10)),
        curve("look-up, 90th percentile", &of_latencies(90)),
        Curve { name: "bare READ".into(), points: raw },
    ];
    let rates = vec![
        curve("one queue pair", &|m| m.rates[0]),
        curve("four queue pairs", &|m| m.rates[1]),
        curve("four queue pairs, sequential", &|m| m.sequential),
    ];
    let chart = |title: &str, y, ours| Chart { title: title.into(), x: SIZE, y, ours, paper: Vec::new() };
    found.charts.push(chart("Latency by size", LATENCY, latency));
    found.charts.push(chart("Rate by size", RATE, rates));
    Ok(found)
}
