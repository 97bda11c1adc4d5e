//! Chapter 4 of the thesis: P4Mite.

use super::balancer_chip;
use super::bench::{Bench, Factor};
use super::dropless;
use super::figure::{
    Chart, Claim, Curve, Figure, Found, P99, Place, Point, Quantity, RATE, Rule, Source, ratios,
};
use super::setup::{Setup, Unit, coming};
use crate::error::Failed;
use pointsman_balance::DeviceKind;
use pointsman_balance::config::Threshold;
use pointsman_balance::config::file::AgentSection;

/// In the thesis's order.
pub const FIGURES: &[Figure] = &[
    drawing("fig-4.1", "Overview of P4Mite", "thesis, section 4.2"),
    drawing("fig-4.2", "Layout of the data plane", "thesis, section 4.3"),
    RATES,
    SIZES,
    APPLICATIONS,
    dropless::FIGURE,
    balancer_chip::P4MITE,
];

const fn drawing(id: &'static str, title: &'static str, source: &'static str) -> Figure {
    Figure { id, title, source, place: Place::Nowhere("it is a drawing"), remarks: &[], claims: &[] }
}

const fn claim(id: &'static str, text: &'static str, paper: f64, rule: Rule) -> Claim {
    Claim { id, text, paper, unit: "times", rule, source: Source::Text }
}

const EFFECT: Rule = Rule::Effect { neutral: 1.0 };

const MODEL: &str = "devices are modelled from the text: 90 GFLOP/s on the server, of which a 2 GFLOP request gets a \
                     ninth (200 ms); a fifth of that on the SmartNIC. The paper's curves have no numbers";
const AGENTS: &str = "agents measure answer latency, as in the text; the published agent reports \"SmartNIC\" and immediately \
                      \"host\" again, at most every 0.4 s, so it offloads in pulses of a few milliseconds";

const RATES: Figure = Figure {
    id: "fig-4.3a",
    title: "Micro-benchmark: P99 by rate, 2 GFLOP per request, for three thresholds",
    source: "thesis, section 4.5.2",
    place: Place::Both { simulator: rates, lab: rates },
    remarks: &[MODEL, AGENTS],
    claims: &[
        claim(
            "alike-low",
            "at 35/s all thresholds are alike: P99 of P4Mite-300 against P4Mite-2000",
            1.0,
            Rule::Same { within: 0.2 },
        ),
        claim(
            "300-best",
            "at 45/s the lowest threshold is best: P99 of P4Mite-300 is below that of P4Mite-1000",
            1.0,
            Rule::AtMost,
        ),
        claim(
            "2000-worst",
            "at 45/s the highest is worst: P99 of P4Mite-1000 is below that of P4Mite-2000",
            1.0,
            Rule::AtMost,
        ),
    ],
};

const SIZES: Figure = Figure {
    id: "fig-4.3b",
    title: "Micro-benchmark: P99 by request size, 5 requests/s, for three thresholds",
    source: "thesis, section 4.5.2",
    place: Place::Both { simulator: sizes, lab: sizes },
    remarks: &[
        MODEL,
        AGENTS,
        "carried: nothing lost, P99 within ten times the latency of a request alone; in steps of 0.5 GFLOP",
    ],
    claims: &[
        claim(
            "300-suffers",
            "at 8 GFLOP low thresholds offload for nothing: P99 of P4Mite-300 is above that of P4Mite-2000",
            1.0,
            Rule::AtLeast,
        ),
        claim(
            "larger",
            "P4Mite carries requests of 18 GFLOP where the server alone carries 16",
            1.125,
            EFFECT,
        ),
    ],
};

const POLICIES: [&str; 4] = ["server-only", "p4mite", "wrr", "ecmp"];

const APPLICATIONS: Figure = Figure {
    id: "fig-4.4",
    title: "P99 of DNS, VGG16 and KNN by load",
    source: "thesis, section 4.5.3",
    place: Place::Both { simulator: applications, lab: applications },
    remarks: &[
        "devices are modelled: unloaded latencies as stated, the server's share of the maximum load as the load at which it alone \
         fails (80 %, 80 %, 75 %), the rest the SmartNIC's. The paper's curves have no numbers",
        "load is relative to the combined capacity of both; carried: nothing lost, P99 within ten times the unloaded latency, in \
         steps of 5 %",
        "DNS: the threshold of 100 ms is above ten times the unloaded 3 ms: by the chapter's own definition requests are lost \
         before the agent reports anything",
        "the published clients discard answers slower than 1 s (VGG16) or 50 ms (DNS) before computing the percentile",
        AGENTS,
    ],
    claims: &[
        claim("dns-p4mite", "DNS: P4Mite carries 20 % more than the server alone", 1.2, EFFECT),
        claim("vgg-p4mite", "VGG16: P4Mite carries 16 % more than the server alone", 1.16, EFFECT),
        claim(
            "vgg-latency",
            "VGG16 beyond the server's capacity (85 %): P4Mite's P99 is half of the server's",
            0.5,
            EFFECT,
        ),
        claim("vgg-wrr", "VGG16: WRR carries 90 % where the server carries 80 %", 1.125, EFFECT),
        claim("vgg-ecmp", "VGG16: ECMP carries 30 % where the server carries 80 %", 0.375, EFFECT),
        claim("knn-p4mite", "KNN: P4Mite carries 11 % more than the server alone", 1.11, EFFECT),
        claim("knn-ecmp", "KNN: ECMP carries 40 % where the server carries 75 %", 0.53, EFFECT),
        claim("knn-wrr", "KNN: WRR carries more than P4Mite", 1.0, Rule::AtLeast),
    ],
};

/// Until a report of the published agent is revoked.
const PULSE_MS: u32 = 5;
const PAUSE_MS: u32 = 400;
/// No answer takes as long.
const NEVER_MS: f64 = 3.6e6;

/// P4Mite's agents with a threshold for the server; a SmartNIC's is scaled by its service time.
fn thresholds(bench: &Bench, s: &mut Setup, high_ms: f64, slower: f64) {
    if bench.as_published(Factor::Agent) || bench.as_published(Factor::Pause) {
        let of = |high| AgentSection {
            latency_ms: Some(Threshold { high, low: 0.9 * high }),
            hold_ms: Some(PULSE_MS),
            rest_ms: Some(bench.pick(Factor::Pause, PAUSE_MS, 0)),
            ..AgentSection::default()
        };
        s.agent_of = vec![of(high_ms), of(NEVER_MS)];
        s.agent = AgentSection { heartbeat_ms: Some(100), repeat_ms: Some(0), ..AgentSection::default() };
        return;
    }
    let of = |high: f64| AgentSection {
        latency_ms: Some(Threshold { high, low: 0.9 * high }),
        hold_ms: Some(100),
        ..AgentSection::default()
    };
    s.agent_of = vec![of(high_ms), of(high_ms * slower)];
    s.agent = AgentSection { heartbeat_ms: Some(100), repeat_ms: Some(5), ..AgentSection::default() };
}

/// The micro-benchmark's devices at this size of a request.
fn micro(gflop: f64) -> [Unit; 2] {
    // Nine at a time: a ninth of 90 GFLOP a second for each.
    let cpu = Unit {
        name: "cpu",
        kind: DeviceKind::Cpu,
        weight: 5,
        workers: 9,
        mean_ms: 100.0 * gflop,
        sigma: 0.05,
        speed: 1.0,
    };
    let nic = Unit::accelerator(&cpu);
    [cpu, nic]
}

const THRESHOLDS: [(&str, f64); 3] =
    [("P4Mite-300", 300.0), ("P4Mite-1000", 1000.0), ("P4Mite-2000", 2000.0)];

/// Charts of the micro-benchmark: each threshold, and the server alone.
fn swept(
    bench: &Bench,
    what: &str,
    x: Quantity,
    points: &[f64],
    at: impl Fn(f64) -> (f64, f64),
) -> Result<(Chart, Vec<Vec<bool>>), Failed> {
    let mut scenarios = Vec::new();
    let kinds: Vec<(&str, Option<f64>)> =
        THRESHOLDS.iter().map(|(n, t)| (*n, Some(*t))).chain([("server-only", None)]).collect();
    for (_, threshold) in &kinds {
        for point in points {
            let (rate, gflop) = at(*point);
            let policy = if threshold.is_some() { "p4mite" } else { "server-only" };
            let mut s = Setup::new(1, &micro(gflop), policy, coming(bench, rate));
            if let Some(t) = threshold {
                thresholds(bench, &mut s, *t, 5.0);
            }
            s.warmup_s = 0.0;
            s.duration_s = bench.choose(60.0, 30.0);
            s.patience_s = bench.pick(Factor::Losses, gflop, s.patience_s);
            scenarios.push(s.scenario(bench)?);
        }
    }
    let runs = bench.run_all(what, &scenarios)?;
    let mut all = runs.iter();
    let (mut ours, mut carried) = (Vec::new(), Vec::new());
    for (name, _) in &kinds {
        let mut curve = Curve { name: (*name).to_string(), points: Vec::new() };
        for (point, seeds) in points.iter().zip(all.by_ref()) {
            let limit = 10.0 * 100.0 * at(*point).1;
            carried.push(seeds.iter().map(|r| bench.carries(r, limit)).collect());
            curve.points.push(Point::of(*point, seeds, |r| r.p99_ms));
        }
        ours.push(curve);
    }
    Ok((Chart { title: what.into(), x, y: P99, ours, paper: vec![] }, carried))
}

fn rates(bench: &Bench) -> Result<Found, Failed> {
    let points: &[f64] = bench
        .choose(&[20.0, 25.0, 30.0, 35.0, 40.0, 42.0, 45.0, 47.0, 50.0, 55.0], &[20.0, 35.0, 45.0, 50.0]);
    let (chart, _) = swept(bench, "2 GFLOP per request", RATE, points, |rate| (rate, 2.0))?;
    let over = |a: &str, b: &str, x: f64| chart.over((a, x), (b, x));
    let mut found = Found::default();
    found.claim("alike-low", over("P4Mite-300", "P4Mite-2000", 35.0));
    found.claim("300-best", over("P4Mite-300", "P4Mite-1000", 45.0));
    found.claim("2000-worst", over("P4Mite-1000", "P4Mite-2000", 45.0));
    found.charts.push(chart);
    Ok(found)
}

fn sizes(bench: &Bench) -> Result<Found, Failed> {
    let size = Quantity { name: "size", unit: "gflop", label: "GFLOP per request", log: false };
    let fine: Vec<f64> = (28..=44).map(|n| f64::from(n) / 2.0).collect();
    let coarse = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0];
    let points: Vec<f64> = if bench.quick {
        [8.0].iter().chain(&fine).copied().collect()
    } else {
        coarse.iter().chain(&fine).copied().collect()
    };
    let (chart, carried) = swept(bench, "5 requests/s", size, &points, |gflop| (5.0, gflop))?;
    let mut found = Found::default();
    found.claim("300-suffers", chart.over(("P4Mite-300", 8.0), ("P4Mite-2000", 8.0)));
    let largest = |curve: usize| highest(&points, &carried[curve * points.len()..(curve + 1) * points.len()]);
    // The best of the thresholds for large requests, as stated in the text.
    // A server that carries the largest has no known limit.
    let end = points.last().copied().unwrap_or(0.0);
    let known =
        largest(3).into_iter().map(|size| if size < end { size } else { f64::NAN }).collect::<Vec<_>>();
    found.claim("larger", ratios(&largest(2), &known));
    found.charts.push(chart);
    Ok(found)
}

/// For each seed, the highest point up to which everything was carried.
fn highest(points: &[f64], carried: &[Vec<bool>]) -> Vec<f64> {
    let seeds = carried.iter().map(Vec::len).min().unwrap_or(0);
    let of = |seed: usize| {
        let n = carried.iter().take_while(|c| c.get(seed) == Some(&true)).count();
        n.checked_sub(1).and_then(|i| points.get(i)).copied().unwrap_or(0.0)
    };
    (0..seeds).map(of).collect()
}

/// An application of this chapter.
struct App {
    name: &'static str,
    /// Combined capacity of both devices, per second.
    most_per_s: f64,
    units: [Unit; 2],
    way_ms: f64,
    threshold_ms: f64,
    slower: f64,
}

fn unit(name: &'static str, workers: u32, mean_ms: f64, capacity_per_s: f64) -> Unit {
    let (kind, weight) = if name == "cpu" { (DeviceKind::Cpu, 5) } else { (DeviceKind::SmartNic, 1) };
    let speed = capacity_per_s * mean_ms / 1e3 / f64::from(workers);
    Unit { name, kind, weight, workers, mean_ms, sigma: 0.1, speed }
}

fn apps() -> [App; 3] {
    [
        App {
            name: "DNS",
            most_per_s: 2750.0,
            units: [unit("cpu", 1, 0.4545, 2200.0), unit("nic", 1, 1.818, 550.0)],
            way_ms: 2.5,
            threshold_ms: 100.0,
            slower: 1.0,
        },
        App {
            name: "VGG16",
            most_per_s: 70.0,
            units: [unit("cpu", 5, 80.0, 56.0), unit("nic", 2, 120.0, 14.0)],
            way_ms: 0.0,
            threshold_ms: 150.0,
            slower: 1.5,
        },
        App {
            name: "KNN",
            most_per_s: 24.0,
            units: [unit("cpu", 3, 174.0, 18.0), unit("nic", 5, 830.0, 6.0)],
            way_ms: 0.0,
            threshold_ms: 300.0,
            slower: 5.0,
        },
    ]
}

/// The claims about an application: by the load that each policy carried, and by the chart.
fn claims_of(found: &mut Found, app: &str, chart: &Chart, carried: &[Vec<f64>]) {
    let more = |policy: usize, than: usize| ratios(&carried[policy], &carried[than]);
    match app {
        "DNS" => found.claim("dns-p4mite", more(1, 0)),
        "VGG16" => {
            found.claim("vgg-p4mite", more(1, 0));
            found.claim("vgg-latency", chart.over(("p4mite", 85.0), ("server-only", 85.0)));
            found.claim("vgg-wrr", more(2, 0));
            found.claim("vgg-ecmp", more(3, 0));
        }
        _ => {
            found.claim("knn-p4mite", more(1, 0));
            found.claim("knn-ecmp", more(3, 0));
            found.claim("knn-wrr", more(2, 1));
        }
    }
}

fn applications(bench: &Bench) -> Result<Found, Failed> {
    let load = Quantity {
        name: "load",
        unit: "percent",
        label: "load, per cent of both devices' capacity",
        log: false,
    };
    let full: Vec<f64> = (2..=20).map(|n| 5.0 * f64::from(n)).collect();
    let quick: Vec<f64> = full.iter().copied().filter(|l| *l >= 20.0).collect();
    let loads = bench.choose(full, quick);
    let mut found = Found::default();
    for app in apps() {
        if bench.in_lab() && app.name == "DNS" {
            found.partial = true;
            found.notes.push(
                "DNS is omitted in the lab: a software switch and two wake-ups take half a millisecond, or, with times scaled, \
                 a run takes hours"
                    .into(),
            );
            continue;
        }
        let limit = 10.0 * (app.units[0].mean_ms / app.units[0].speed + app.way_ms);
        let mut scenarios = Vec::new();
        for policy in POLICIES {
            for percent in &loads {
                let mut s =
                    Setup::new(1, &app.units, policy, coming(bench, app.most_per_s * percent / 100.0));
                thresholds(bench, &mut s, app.threshold_ms, app.slower);
                s.client_delay_ms = (app.way_ms / 2.0).max(0.001);
                s.warmup_s = 0.0;
                // As the connection table allows: 2,750 new connections a second and more.
                let patience_s = if app.name == "DNS" { 8.0 } else { 30.0 };
                s.patience_s = bench.pick(Factor::Losses, limit / 1e3, patience_s);
                s.duration_s = bench.choose(30.0, if app.name == "DNS" { 10.0 } else { 30.0 });
                scenarios.push(s.scenario(bench)?);
            }
        }
        let runs = bench.run_all(app.name, &scenarios)?;
        let mut all = runs.iter();
        let (mut ours, mut carried) = (Vec::new(), Vec::new());
        for policy in POLICIES {
            let (mut points, mut holds) = (Vec::new(), Vec::new());
            for (x, seeds) in loads.iter().zip(all.by_ref()) {
                holds.push(seeds.iter().map(|r| bench.carries(r, limit)).collect::<Vec<_>>());
                points.push(Point::of(*x, seeds, |r| r.p99_ms));
            }
            ours.push(Curve { name: policy.to_string(), points });
            carried.push(highest(&loads, &holds));
        }
        let chart = Chart { title: app.name.into(), x: load, y: P99, ours, paper: vec![] };
        claims_of(&mut found, app.name, &chart, &carried);
        found.charts.push(chart);
    }
    Ok(found)
}
