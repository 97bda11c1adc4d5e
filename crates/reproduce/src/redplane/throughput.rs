//! Figures 5.14 and 5.15: packets a second, and what the stores allow.

use super::{APPLICATIONS, JUMBO, SYNCHRONOUS, setup};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Claim, Curve, Evidence, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_sim::random::{Part, Stream};
use pointsman_testbed::trace::Sent;
use pointsman_testbed::{App, Build, Happened, ProgramError, Testbed, Times};
use std::sync::Arc;

/// Packets a second that hosts send, and those that the link between switch and core takes (section 5.6.2).
const OFFERED_PER_S: f64 = 207.6e6;
const LINK_PER_S: f64 = 122.5e6;
/// Packets that wait for the link at most.
const QUEUE: u64 = 1_000;
/// Stores of the paper, in as many racks, and cores of each.
const STORES: u16 = 3;
const CORES: usize = 40;
/// Connections, users or keys.
const FLOWS: u32 = 2_000;
/// Between two of their first packets, and when the load begins, in nanoseconds.
const FIRST_NS: u64 = 1_000;
const BEGIN_NS: u64 = 3_000_000;
/// The load's time before the measurement: a way there and back, and the queues are full.
const FILL_NS: u64 = 60_000;

pub const WHERE: Quantity = Quantity { name: "application", unit: "", label: APPLICATIONS, log: false };
pub const UPDATED: Quantity = Quantity { name: "updates", unit: "percent", label: "updates, %", log: false };
const RATE: Quantity =
    Quantity { name: "throughput", unit: "mpps", label: "throughput, million packets/s", log: false };

const LOAD: &str = "207.6 million packets a second of 64 bytes, and a link to the core that takes 122.5 million (the paper's). The switch itself is as fast as its input. 2,000 connections, \
                    users or keys, which exist when the load begins";
const CAPACITY: &str = "a store has 40 cores (the paper's), each of which handles a request in 1.67 us (ours, measured): 24 million a second. Keys are spread over three stores without chains \
                        (the paper does not say which of its three servers have which part)";

pub const fn share(id: &'static str, text: &'static str, paper: f64, within: f64, source: Source) -> Claim {
    Claim { id, text, paper, unit: "times", rule: Rule::Same { within }, source }
}

pub const APPS: Figure = Figure {
    id: "redplane-fig-5.14",
    title: "Throughput of applications with and without RedPlane",
    source: "RedPlane, thesis section 5.6.2",
    place: Place::Simulator(apps),
    remarks: &[
        LOAD,
        CAPACITY,
        "a packet that only reads needs no store: that its rate is the link's follows from the model. What is measured is the part that waits for a store, and what is lost",
        "our gateway loses nothing, because its writes are less than a third of what three stores take; the paper's loses a little, and does not say how much",
        "the heavy-hitter detector, whose packets wait for nothing, is not measured",
    ],
    claims: &[
        share("nat", "NAT: as without RedPlane", 1.0, 0.02, Source::Text),
        share("firewall", "firewall: as without RedPlane", 1.0, 0.02, Source::Text),
        share("dispatch", "load balancer: as without RedPlane", 1.0, 0.02, Source::Text),
        share("gateway", "serving gateway: slightly less (a number for it)", 0.95, 0.05, Source::Ours),
        share("counter", "a counter: nearly half", 0.5, 0.1, Source::Text),
    ],
};

pub const UPDATES: Figure = Figure {
    id: "redplane-fig-5.15",
    title: "Throughput of a key-value store by the share of updates and the number of stores",
    source: "RedPlane, thesis section 5.6.2",
    place: Place::Simulator(updates),
    remarks: &[
        LOAD,
        CAPACITY,
        "keys are uniformly distributed (the paper's); a packet that reads a key behind its update waits, too",
    ],
    claims: &[
        share("reads", "without updates: the link's rate", 1.0, 0.02, Source::Text),
        Claim {
            id: "falls",
            text: "with one store, updates alone, over reads alone: less",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Text,
        },
        Claim {
            id: "two",
            text: "updates alone: two stores over one",
            paper: 2.0,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Ours,
        },
        Claim {
            id: "three",
            text: "updates alone: three stores over one",
            paper: 3.0,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Ours,
        },
    ],
};

/// A program for so many stores.
fn build(bench: &Bench, app: App, plain: bool, shards: u16) -> Result<Arc<Build>, ProgramError> {
    let defines = format!("{JUMBO}#define REDPLANE_SHARDS {shards}\n#define REDPLANE_BUFFER 65536\n");
    bench.once(&format!("redplane {app:?} {plain} {shards}"), || Build::new(app, plain, &defines, &[]))
}

/// What is measured.
struct Case {
    build: Arc<Build>,
    shards: u16,
    /// The share of packets that change the state, where the application leaves a choice.
    writes: f64,
}

/// Packets that reach hosts, in millions a second.
fn throughput(bench: &Bench, case: &Case, seed: u64) -> Result<f64, Failed> {
    let mut run = setup(&case.build, 1, seed)?;
    run.times = Times { cores: CORES, port: Some((LINK_PER_S, QUEUE)), ..run.times };
    (run.shards, run.buffer) = (case.shards, 65_536);
    let mut testbed = Testbed::new(run)?;
    let mut random = Stream::new(seed, Part::Arrivals, 0);
    let app = case.build.app();
    let sent = |at, flow, place| Sent { at, flow, place, last: false, bytes: 64 };
    for flow in 0..FLOWS {
        let at = u64::from(flow) * FIRST_NS;
        while testbed.next(at).is_some() {}
        testbed.send(at, (0, 0), app.frame(&sent(at, flow, 0), 0, true), 0);
    }
    while testbed.next(BEGIN_NS).is_some() {}
    let measured_ns = bench.choose(200_000, 100_000);
    let gap_ns = 1e9 / OFFERED_PER_S;
    let mut back = 0_u64;
    for n in 0..((FILL_NS + measured_ns) as f64 / gap_ns) as u64 {
        let at = BEGIN_NS + (n as f64 * gap_ns) as u64;
        while let Some(happened) = testbed.next(at) {
            let counts = testbed.now() >= BEGIN_NS + FILL_NS;
            back += u64::from(counts && matches!(happened, Happened::AtHost { .. }));
        }
        let flow = random.below(u64::from(FLOWS)) as u32;
        let writes = random.happens(case.writes);
        testbed.send(at, (0, 0), app.frame(&sent(at, flow, 1), n as u32, writes), 0);
    }
    Ok(back as f64 * 1e3 / measured_ns as f64)
}

/// The share of packets that change an application's state.
fn writing(app: App) -> f64 {
    if app == App::Gateway { 1.0 / 18.0 } else { 1.0 }
}

fn curve(name: &str, axis: impl Iterator<Item = f64>, runs: &[Vec<f64>]) -> Curve {
    Curve { name: name.into(), points: axis.zip(runs).map(|(x, s)| Point::new(x, s.clone())).collect() }
}

fn apps(bench: &Bench) -> Result<Found, Failed> {
    let mut cases = Vec::new();
    for plain in [true, false] {
        for app in SYNCHRONOUS {
            let shards = if plain { 1 } else { STORES };
            cases.push(Case { build: build(bench, app, plain, shards)?, shards, writes: writing(app) });
        }
    }
    let runs =
        bench.each("throughput of applications", &cases, |case, seed| throughput(bench, case, seed))?;
    let axis = || (1..=SYNCHRONOUS.len()).map(|n| n as f64);
    let (plain, protected) = runs.split_at(SYNCHRONOUS.len());
    let ours = vec![curve("without RedPlane", axis(), plain), curve("RedPlane", axis(), protected)];
    let paper = vec![Curve::paper("without RedPlane", &[(1.0, LINK_PER_S / 1e6)])];
    let chart = Chart { title: "Throughput".into(), x: WHERE, y: RATE, ours, paper };
    let mut found = Found::default();
    for (id, x) in ["nat", "firewall", "dispatch", "gateway", "counter"].iter().zip(axis()) {
        found.claim(id, chart.over(("RedPlane", x), ("without RedPlane", x)));
    }
    found.charts.push(chart);
    Ok(found)
}

fn updates(bench: &Bench) -> Result<Found, Failed> {
    let shares: &[f64] = bench.choose(&[0.0, 20.0, 40.0, 60.0, 80.0, 100.0], &[0.0, 25.0, 50.0, 100.0]);
    let mut cases = Vec::new();
    for shards in 1..=STORES {
        let build = build(bench, App::KeyValue, false, shards)?;
        cases.extend(shares.iter().map(|share| Case { build: build.clone(), shards, writes: share / 100.0 }));
    }
    let runs = bench.each("throughput by updates", &cases, |case, seed| throughput(bench, case, seed))?;
    let names = ["1 store", "2 stores", "3 stores"];
    let of = |(name, runs): (&&str, &[Vec<f64>])| curve(name, shares.iter().copied(), runs);
    let ours = names.iter().zip(runs.chunks(shares.len())).map(of).collect();
    let chart = Chart { title: "Throughput".into(), x: UPDATED, y: RATE, ours, paper: Vec::new() };
    let mut found = Found::default();
    let link =
        |e: Evidence| Evidence { samples: e.samples.iter().map(|v| v * 1e6 / LINK_PER_S).collect(), ..e };
    found.claim("reads", link(chart.evidence("1 store", 0.0)));
    found.claim("falls", chart.over(("1 store", 100.0), ("1 store", 0.0)));
    found.claim("two", chart.over(("2 stores", 100.0), ("1 store", 100.0)));
    found.claim("three", chart.over(("3 stores", 100.0), ("1 store", 100.0)));
    found.charts.push(chart);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Coming, Where};

    #[test]
    fn updates_are_limited_by_stores_and_reads_by_the_link() {
        let bench = Bench::new(1, 1, true, Coming::Poisson, Where::Simulator, 1).expect("a bench");
        let of = |writes, shards| {
            let case = Case {
                build: build(&bench, App::KeyValue, false, shards).expect("a program"),
                shards,
                writes,
            };
            throughput(&bench, &case, 1).expect("a run")
        };
        let (reads, one, two) = (of(0.0, 1), of(1.0, 1), of(1.0, 2));
        // 40 cores with 1.67 us for each request.
        let store = CORES as f64 / 1.67;
        assert!((reads - LINK_PER_S / 1e6).abs() < 3.0, "{reads} million reads a second");
        assert!((one - store).abs() < 2.0 && (two - 2.0 * store).abs() < 4.0, "{one}, {two} million updates");
    }
}
