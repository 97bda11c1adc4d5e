//! A graph missing from the literature: tail latency against the age of reports, for every policy, under bursts, on
//! heterogeneous devices.

use super::bench::Bench;
use super::figure::{Chart, Claim, Figure, Found, P99, Place, Point, Quantity, Rule, Source};
use super::goals::{OWN_COUNTERS, named};
use super::lines;
use super::setup::{Setup, Unit, agents, bursts, by_outstanding, poisson};
use crate::error::Failed;
use pointsman_balance::DeviceKind;
use pointsman_balance::blocks::{Metric, Tuning};

/// In no paper.
pub const FIGURES: &[Figure] = &[Figure {
    id: "staleness",
    title: "P99 against the age of reports: every policy, bursty arrivals, heterogeneous devices",
    source: "not in the papers",
    place: Place::Simulator(run),
    remarks: &[
        "two servers; each has a CPU (8 requests at a time, 10 ms), a GPU (2, 2.5 ms) and a SmartNIC (8, 50 ms): 800, 800 and \
         160 requests a second; exact weights 5:5:1",
        "50 % load on average; a fifth of the time at twice the mean, the rack's full capacity, in bursts of 0.2 s on average. \
         (With more, P99 is the backlog of bursts under any policy.)",
        "the average age of the switch's data: half the time between two reports (at most 100 ms) plus the time \
         in transit. Processor use is the mean over about 100 ms",
        "least-utilised as published: connections since the last report do not count (step = 0), so those within an interval herd",
    ],
    claims: &[
        Claim {
            id: "published-herds",
            text: "least-utilised as published degrades: P99 with reports 1 s old against 1 ms old",
            paper: 2.0,
            unit: "times",
            rule: Rule::AtLeast,
            source: Source::Ours,
        },
        Claim {
            id: "own-counters-stay",
            text: "the best policy by own counters does not notice: P99 with reports 10 s old against 1 ms old",
            paper: 1.05,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Ours,
        },
        Claim {
            id: "own-counters-win-fresh",
            text: "the best policy by own counters is at least as good as the best by reports, even if these are 1 ms old: ratio of their P99",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Ours,
        },
        Claim {
            id: "own-counters-win-stale",
            text: "... and better when reports are 1 s old: P99 against that of the best by reports",
            paper: 0.8,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Ours,
        },
        Claim {
            id: "own-counters-beat-weights",
            text: "the best policy by own counters has a lower P99 than static WRR with exact weights, with reports 1 s old",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Ours,
        },
    ],
}];

const AGE: Quantity = Quantity { name: "age", unit: "ms", label: "age of reports, ms", log: true };
const PUBLISHED: &str = "least-utilised as published";
const BY_REPORTS: [&str; 5] = [PUBLISHED, "least-utilised", "dynamic-wrr", "prt", "p4mite"];

fn setup(bench: &Bench, policy: &str, age_ms: f64) -> Setup {
    let cpu = Unit {
        name: "cpu",
        kind: DeviceKind::Cpu,
        weight: 5,
        workers: 8,
        mean_ms: 10.0,
        sigma: 0.2,
        speed: 1.0,
    };
    let gpu = Unit { name: "gpu", kind: DeviceKind::Gpu, workers: 2, mean_ms: 2.5, ..cpu.clone() };
    let nic = Unit { name: "nic", kind: DeviceKind::SmartNic, weight: 1, mean_ms: 50.0, ..cpu.clone() };
    let (name, tuning) = if policy == PUBLISHED {
        ("least-utilised", Tuning { metric: Some(Metric::Compute), step: Some(0), ..Tuning::default() })
    } else {
        named(policy)
    };
    // By priority: the quickest first.
    let mut s = Setup::new(2, &[gpu, cpu, nic], name, poisson(1.0));
    s.arrivals = bursts(0.5 * s.capacity_per_s(), 0.2);
    let heartbeat_ms = age_ms.clamp(1.0, 100.0).round();
    s.agent = agents(heartbeat_ms as u32, 100);
    s.sampling_ms = heartbeat_ms.clamp(5.0, 20.0);
    s.delay_ms = (age_ms - heartbeat_ms / 2.0).max(0.0);
    s.report_timeout_ms = (3.0 * (age_ms + heartbeat_ms)).max(500.0) as u32;
    s.patience_s = 5.0;
    // The oldest reports are there before anything counts, and all ages see the same requests.
    s.warmup_s = 11.0;
    s.duration_s = s.warmup_s + bench.choose(40.0, 12.0);
    s.tuning = tuning;
    s.tell_workers = true;
    if policy == "p4mite" {
        // Busy when more wait than are handled while the next device handles one.
        s.agent_of = [(12, 8), (36, 32), (7, 6)].map(|busy| by_outstanding(busy, (2000.0, 1000.0))).to_vec();
    }
    s
}

fn run(bench: &Bench) -> Result<Found, Failed> {
    let ages: &[f64] = bench.choose(
        &[1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0],
        &[1.0, 100.0, 1000.0, 10_000.0],
    );
    let own: Vec<&str> = std::iter::once("wrr").chain(OWN_COUNTERS).collect();
    let policies: Vec<&str> = BY_REPORTS.into_iter().chain(own.iter().copied()).collect();
    let mut curves =
        lines::p99(bench, "ages of reports", &policies, ages, |policy, age| setup(bench, policy, age))?;
    let mut found = Found::default();
    {
        let samples = |policy: &str, age: f64| {
            curves.iter().find(|c| c.name == policy).and_then(|c| c.at(age)).unwrap_or_default()
        };
        let best = |of: &[&'static str], age: f64| {
            let mean = |p: &str| pointsman_trials::stats::mean(samples(p, age)).mean;
            of.iter().copied().min_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap_or("jsq")
        };
        let counters = best(&OWN_COUNTERS, 1.0);
        let (fresh, stale) = (best(&BY_REPORTS, 1.0), best(&BY_REPORTS, 1000.0));
        let point = |(policy, age): (&str, f64)| {
            let found = curves.iter().find(|c| c.name == policy);
            let point = found.and_then(|c| c.points.iter().find(|p| p.x == age));
            point.map(Point::evidence).unwrap_or_default()
        };
        let over = |a: (&str, f64), b: (&str, f64)| point(a).over(&point(b));
        found.claim("published-herds", over((PUBLISHED, 1000.0), (PUBLISHED, 1.0)));
        found.claim("own-counters-stay", over((counters, 10_000.0), (counters, 1.0)));
        found.claim("own-counters-win-fresh", over((counters, 1.0), (fresh, 1.0)));
        found.claim("own-counters-win-stale", over((counters, 1000.0), (stale, 1000.0)));
        found.claim("own-counters-beat-weights", over((counters, 1000.0), ("wrr", 1000.0)));
        found.notes.push(format!(
            "best by own counters: {counters}; best by reports: {fresh} with reports 1 ms old, {stale} with reports 1 s old"
        ));
    }
    let by_counters = curves.split_off(BY_REPORTS.len());
    for (title, ours) in
        [("Policies by reports", curves), ("Policies by own counters, and static weights", by_counters)]
    {
        found.charts.push(Chart { title: title.into(), x: AGE, y: P99, ours, paper: vec![] });
    }
    Ok(found)
}
