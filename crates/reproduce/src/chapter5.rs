//! Chapter 5 of the thesis: P4Hauler on a testbed. The simulated figures 5.12 to 5.14 are in chapter 6.

use super::apps::{self, App};
use super::balancer_chip;
use super::bench::{Bench, Factor, Ran};
use super::completion;
use super::figure::{Chart, Claim, Curve, Figure, Found, P99, Place, RATE, Rule, Source, ratios};
use super::lines;
use super::papers;
use super::setup::{agents, by_readings};
use super::targets;
use crate::error::Failed;
use pointsman_balance::blocks::Servers;
use pointsman_sim::Scenario;
use std::sync::Arc;

/// In the thesis's order.
pub const FIGURES: &[Figure] = &[
    drawing("fig-5.1", "Overview of P4Hauler", "thesis, section 5.2"),
    drawing("fig-5.2", "Packet of an agent", "thesis, section 5.3"),
    Figure {
        id: "table-5.1",
        title: "Policies and what they compute",
        source: "thesis, section 5.4.2",
        place: Place::Nowhere("it is a table of definitions; docs/policies.md has ours"),
        remarks: &[],
        claims: &[],
    },
    drawing("fig-5.3", "State of devices, unrolled", "thesis, section 5.4.2"),
    drawing("fig-5.4", "Round-robin scheduler", "thesis, section 5.4.2"),
    drawing("fig-5.5", "Layout of the data plane", "thesis, section 5.4.3"),
    drawing("fig-5.6", "Examples of the API", "thesis, section 5.5"),
    Figure {
        id: "table-5.2",
        title: "Applications",
        source: "thesis, section 5.6.1",
        place: Place::Nowhere("it is a list; `pointsman workload` computes all four"),
        remarks: &[],
        claims: &[],
    },
    DELAYS,
    completion::RATES,
    completion::BATCHES,
    balancer_chip::P4HAULER,
    INTERVALS,
    targets::TABLE,
    CHEETAH,
];

const fn drawing(id: &'static str, title: &'static str, source: &'static str) -> Figure {
    Figure { id, title, source, place: Place::Nowhere("it is a drawing"), remarks: &[], claims: &[] }
}

pub(super) const fn effect(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "times", rule: Rule::Effect { neutral: 1.0 }, source: Source::Log }
}

pub(super) const fn same(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1.0, unit: "times", rule: Rule::Same { within: 0.2 }, source: Source::Text }
}

const DELAYS: Figure = Figure {
    id: "fig-5.7",
    title: "P99 of four applications under four policies",
    source: "thesis, section 5.7.1",
    place: Place::Both { simulator: delays, lab: delays },
    remarks: &[
        "devices are modelled: workers and service times fitted to the unloaded latencies and the saturation of the published logs",
        "arrivals are Poisson, as in the text; the published clients send almost evenly (--arrivals near-constant)",
        "the published 5:1 ring sends 2 of 11 requests to the SmartNIC, not 1 of 6: it reads one cell too many",
        "published percentiles cover answered requests of one run; ours count lost ones as the client timeout of 30 s",
        "anomaly detection: the published clients could not reach the rates on the figure's axis; ours are the rates actually offered",
    ],
    claims: &[
        effect("ad-wrr-high", "AD beyond the server's capacity: WRR's P99 against server-only's", 0.12),
        effect("ad-prt-high", "AD beyond the server's capacity: PRT's P99 against server-only's", 0.77),
        effect(
            "ad-lur-high",
            "AD beyond the server's capacity: least-utilised's P99 is slightly below server-only's",
            0.91,
        ),
        same("bm25-prt-low", "BM25 at 50/s: PRT's P99 is server-only's"),
        effect("bm25-prt-high", "BM25 at 65/s: PRT's P99 against server-only's", 0.73),
        effect("bm25-wrr-lur", "BM25 at 65/s: WRR's P99 against least-utilised's", 0.35),
        same("vgg-prt-low", "VGG16 at 40/s: PRT's P99 is server-only's"),
        effect(
            "vgg-lur-worst",
            "VGG16 at 50/s: least-utilised is worst: its P99 against server-only's",
            19.5,
        ),
        effect(
            "vgg-lur-more",
            "VGG16: least-utilised carries 70/s, 27 % more: requests finished per second against server-only",
            1.27,
        ),
        effect("vgg-server-only", "VGG16: server-only's P99 at 60/s against that at 55/s", 10.0),
        effect("vgg-wrr-high", "VGG16 at 60/s: WRR's P99 against server-only's", 0.78),
        same("knn-prt-low", "KNN at 8/s: PRT's P99 is server-only's"),
        effect("knn-prt-wrr", "KNN at 8/s: PRT's P99 against WRR's", 0.3),
        effect("knn-lur-worst", "KNN at 10/s: least-utilised is worst: its P99 against server-only's", 6.6),
        effect("knn-wrr-high", "KNN at 16/s: WRR's P99 against server-only's", 0.62),
        effect(
            "knn-more",
            "KNN: WRR carries 20/s where server-only carries 16/s, 25 % more: the highest rate with P99 within ten times the unloaded latency and nothing lost",
            1.25,
        ),
    ],
};

/// Results of an application: for each policy and rate, of each seed.
struct Swept {
    rates: Vec<f64>,
    runs: Vec<(&'static str, Vec<Vec<Ran>>)>,
}

/// Runs an application over rates under the thesis's four policies.
fn sweep(bench: &Bench, app: &App, rates: &[f64]) -> Result<Swept, Failed> {
    let mut scenarios: Vec<Arc<Scenario>> = Vec::new();
    for policy in POLICIES {
        for rate in rates {
            scenarios.push(app.setup(bench, 1, policy, *rate).scenario(bench)?);
        }
    }
    let what = format!("{} under {} policies", app.name, POLICIES.len());
    let mut ran = bench.run_all(&what, &scenarios)?.into_iter();
    let runs = POLICIES.iter().map(|p| (*p, ran.by_ref().take(rates.len()).collect())).collect();
    Ok(Swept { rates: rates.to_vec(), runs })
}

impl Swept {
    /// A chart's lines of something.
    fn curves(&self, of: impl Fn(&Ran) -> f64) -> Vec<Curve> {
        self.runs.iter().map(|(name, points)| Curve::of(name, &self.rates, points, &of)).collect()
    }

    /// For each seed, the highest rate that was carried: nothing lost, P99 within ten times the unloaded latency.
    fn carried(&self, bench: &Bench, policy: &str, unloaded_ms: f64) -> Vec<f64> {
        let Some((_, points)) = self.runs.iter().find(|(p, _)| *p == policy) else { return Vec::new() };
        let seeds = points.iter().map(Vec::len).min().unwrap_or(0);
        let of = |seed: usize| {
            let holds =
                |runs: &Vec<Ran>| runs.get(seed).is_some_and(|r| bench.carries(r, 10.0 * unloaded_ms));
            // Up to the first that does not hold.
            let n = points.iter().take_while(|runs| holds(runs)).count();
            n.checked_sub(1).and_then(|i| self.rates.get(i)).copied().unwrap_or(0.0)
        };
        (0..seeds).map(of).collect()
    }
}

pub(super) const POLICIES: [&str; 4] = ["server-only", "least-utilised", "prt", "wrr"];

fn delays(bench: &Bench) -> Result<Found, Failed> {
    let mut found = Found::default();
    let mut charts = Vec::new();
    for app in [&apps::AD, &apps::BM25, &apps::VGG, &apps::KNN] {
        let rates = match (bench.quick, bench.in_lab()) {
            (false, _) => app.rates,
            (true, false) => app.quick_rates,
            (true, true) => app.claimed_rates,
        };
        let swept = sweep(bench, app, rates)?;
        let chart = Chart {
            title: app.title.into(),
            x: RATE,
            y: P99,
            ours: swept.curves(|r| r.p99_ms),
            paper: papers::curves(app.paper),
        };
        let over = |a: &str, b: &str, x: f64| chart.over((a, x), (b, x));
        match app.name {
            "AD" => {
                found.claim("ad-wrr-high", over("wrr", "server-only", 950.0));
                found.claim("ad-prt-high", over("prt", "server-only", 950.0));
                found.claim("ad-lur-high", over("least-utilised", "server-only", 950.0));
            }
            "BM25" => {
                found.claim("bm25-prt-low", over("prt", "server-only", 50.0));
                found.claim("bm25-prt-high", over("prt", "server-only", 65.0));
                found.claim("bm25-wrr-lur", over("wrr", "least-utilised", 65.0));
            }
            "VGG16" => {
                let answered = swept.curves(|r| r.finished_per_s);
                let at = |name: &str| {
                    answered
                        .iter()
                        .find(|c| c.name == name)
                        .and_then(|c| c.at(70.0))
                        .unwrap_or_default()
                        .to_vec()
                };
                found.claim("vgg-prt-low", over("prt", "server-only", 40.0));
                found.claim("vgg-lur-worst", over("least-utilised", "server-only", 50.0));
                found.claim("vgg-lur-more", ratios(&at("least-utilised"), &at("server-only")));
                found.claim("vgg-server-only", chart.over(("server-only", 60.0), ("server-only", 55.0)));
                found.claim("vgg-wrr-high", over("wrr", "server-only", 60.0));
            }
            _ => {
                found.claim("knn-prt-low", over("prt", "server-only", 8.0));
                found.claim("knn-prt-wrr", over("prt", "wrr", 8.0));
                found.claim("knn-lur-worst", over("least-utilised", "server-only", 10.0));
                found.claim("knn-wrr-high", over("wrr", "server-only", 16.0));
                let carried = |policy| swept.carried(bench, policy, app.unloaded_ms());
                found.claim("knn-more", ratios(&carried("wrr"), &carried("server-only")));
            }
        }
        charts.push(chart);
    }
    found.charts = charts;
    Ok(found)
}

const INTERVALS: Figure = Figure {
    id: "fig-5.10",
    title: "Report interval of agents: VGG16 at 50 requests/s under least-utilised",
    source: "thesis, section 5.7.3",
    place: Place::Both { simulator: intervals, lab: intervals },
    remarks: &[
        "with --as-published a report is the mean of the last ten readings, one per report; else use is smoothed over as long",
        "the published log for 200 reports/s is a copy of the one for 100, so \"no improvement\" was not measured",
        "the agent's own CPU use is not simulated",
    ],
    claims: &[
        effect("often", "P99 at 100 reports/s against that at 1/s", 0.304),
        effect("more", "P99 at 100 reports/s against that at 10/s", 0.824),
        same("most", "200 reports/s are no better than 100: P99 against that at 100"),
    ],
};

const REPORTS: super::figure::Quantity =
    super::figure::Quantity { name: "reports", unit: "per_s", label: "reports per second", log: true };

fn intervals(bench: &Bench) -> Result<Found, Failed> {
    let reports_per_s: &[f64] = bench
        .choose(&[0.5, 1e3 / 1500.0, 1.0, 2.0, 5.0, 10.0, 20.0, 100.0, 200.0], &[1.0, 10.0, 100.0, 200.0]);
    let ours =
        lines::p99(bench, "intervals of reports", &["least-utilised"], reports_per_s, |policy, per_s| {
            let ms = (1e3 / per_s).round();
            let mut s = apps::VGG.setup(bench, 1, policy, 50.0);
            s.agent = bench.pick(Factor::Agent, by_readings(ms as u32), agents(ms as u32, 10 * ms as u32));
            s.report_timeout_ms = (4.0 * ms).max(500.0) as u32;
            s.sampling_ms = ms;
            s
        })?;
    let chart = Chart {
        title: "VGG16, 50 requests/s".into(),
        x: REPORTS,
        y: P99,
        ours,
        paper: papers::curves("5.10"),
    };
    let over = |a: f64, b: f64| chart.over(("least-utilised", a), ("least-utilised", b));
    let mut found = Found::default();
    found.claim("often", over(100.0, 1.0));
    found.claim("more", over(100.0, 10.0));
    found.claim("most", over(200.0, 100.0));
    found.charts.push(chart);
    Ok(found)
}

const CHEETAH: Figure = Figure {
    id: "fig-5.11",
    title: "P4Hauler against a balancer without accelerators: KNN, two servers",
    source: "thesis, section 5.7.4",
    place: Place::Both { simulator: cheetah, lab: cheetah },
    remarks: &[
        "the \"Cheetah\" curve is, by its logs, server-only round robin; ours is server-only with the less loaded of two servers",
        "the published KNN ignores the request's content and classifies one fixed image",
        "weights 4:1 as in the published ring; 500 requests per run",
    ],
    claims: &[
        effect("low", "at 20/s P4Hauler pays for its reserve: P99 against the other's", 2.33),
        effect("high", "at 38/s: P99 against the other's (the text says 2.5 times less)", 0.41),
    ],
};

fn cheetah(bench: &Bench) -> Result<Found, Failed> {
    let rates: &[f64] = bench.choose(
        &[20.0, 22.0, 24.0, 26.0, 28.0, 30.0, 32.0, 34.0, 36.0, 38.0, 40.0],
        &[20.0, 26.0, 32.0, 38.0],
    );
    let ours = lines::p99(bench, "KNN on two servers", &["server-only", "wrr"], rates, |policy, rate| {
        let mut s = apps::KNN.setup(bench, 2, policy, rate);
        (s.units[0].weight, s.units[1].weight) = (4, 1);
        s.duration_s = 500.0 / rate;
        s.tuning.servers = Some(Servers::PowerOfTwo);
        s
    })?;
    let chart =
        Chart { title: "KNN, two servers".into(), x: RATE, y: P99, ours, paper: papers::curves("5.11") };
    let mut found = Found::default();
    let over = |x: f64| chart.over(("wrr", x), ("server-only", x));
    found.claim("low", over(20.0));
    found.claim("high", over(38.0));
    found.charts.push(chart);
    Ok(found)
}
