//! Figures 5.12 to 5.14: racks of 64, 128 and 256 servers with two SmartNICs each, under four policies.

use super::lookup::{looked_up, variance};
use crate::apps::KNN;
use crate::bench::{Bench, Factor};
use crate::chapter5::POLICIES;
use crate::error::Failed;
use crate::figure::{Chart, Curve, Found, Lossy, P99, Quantity, RATE, ratios};
use crate::papers;
use crate::setup::{Setup, Unit, agents, as_published, coming};
use pointsman_sim::Outcome;
use std::sync::Arc;

/// So many of the thesis's servers are one of ours.
pub(super) const SCALE: f64 = 4.0;

/// The thesis's rack sizes, and the rates of its figures that are simulated.
const RACKS: &[(u32, &[f64])] = &[
    (64, &[800.0, 1000.0, 1100.0, 1300.0, 1600.0, 1900.0]),
    (128, &[1600.0, 2000.0, 2600.0, 3600.0]),
    (256, &[3200.0, 4000.0, 5200.0, 7000.0]),
];
const QUICK: &[(u32, &[f64])] =
    &[(64, &[800.0, 1000.0, 1100.0, 1300.0, 1600.0, 1900.0]), (128, &[2000.0]), (256, &[7000.0])];

/// Answers per second.
const ANSWERS: Quantity = Quantity { name: "answers", unit: "per_s", label: "answers/s", log: false };
/// The thesis's definition of throughput.
const SCORE: Quantity = Quantity {
    name: "score",
    unit: "per_s",
    label: "1750 over mean latency in ms, summed over servers",
    log: false,
};
const SPREAD: Quantity = Quantity {
    name: "use_stddev",
    unit: "percent",
    label: "standard deviation of utilisation over devices, points",
    log: false,
};
const SERVERS: Quantity = Quantity { name: "servers", unit: "", label: "servers", log: false };

/// A server's devices: its processor and this many SmartNICs, weighted 6:1.
pub(super) fn units(nics: usize) -> Vec<Unit> {
    let names = ["nic1", "nic2"];
    let nics = names.iter().take(nics).map(|name| Unit { name, ..KNN.nic.clone() });
    std::iter::once(Unit { weight: 6, ..KNN.server.clone() }).chain(nics).collect()
}

/// A rack that represents one of `servers`, at a rate that represents `rate_per_s`.
pub(super) fn setup(bench: &Bench, servers: u32, nics: usize, policy: &str, rate_per_s: f64) -> Setup {
    let own = (f64::from(servers) / SCALE).round() as u32;
    let mut s = Setup::new(own, &units(nics), policy, coming(bench, rate_per_s / SCALE));
    s.warmup_s = 0.0;
    s.agent = agents(100, 1000);
    s.tuning = as_published(bench, policy);
    s
}

/// What a rack did under a policy at a rate.
#[derive(Clone, Copy, Debug)]
struct Ran {
    answers_per_s: f64,
    /// The thesis's throughput.
    score: f64,
    p99_ms: f64,
    loss_percent: Option<f64>,
}

impl Lossy for Ran {
    fn loss_percent(&self) -> Option<f64> {
        self.loss_percent
    }
}

impl Ran {
    fn simulated(servers: u32, o: &Outcome) -> Ran {
        Ran {
            answers_per_s: answers_per_s(o),
            score: score(servers, o),
            p99_ms: o.latency.p99_ms,
            loss_percent: o.loss_percent(),
        }
    }

    /// Its score is all that a table gives.
    fn looked_up(servers: u32, policy: &str, rate_per_s: f64, seed: u64) -> Result<Ran, Failed> {
        let (score, p99_ms) = looked_up(policy, servers, rate_per_s, seed)?;
        Ok(Ran { answers_per_s: score, score, p99_ms, loss_percent: None })
    }
}

/// Results of one rack.
struct Swept {
    servers: u32,
    rates: Vec<f64>,
    /// By policy and rate.
    runs: Vec<Vec<Ran>>,
}

impl Swept {
    fn chart(&self, y: Quantity, paper: &str, of: impl Fn(&Ran) -> f64) -> Chart {
        let paper = match paper {
            "" => Vec::new(),
            name => papers::curves(&format!("{name}-{}", self.servers)),
        };
        let lines = POLICIES.iter().zip(self.runs.chunks(self.rates.len()));
        let ours = lines.map(|(p, runs)| Curve::of(p, &self.rates, runs, &of));
        let title = format!("{} servers: {}", self.servers, y.label);
        Chart { title, x: RATE, y, ours: ours.collect(), paper }
    }
}

/// The racks that figures 5.12 and 5.13 show.
fn sweep(bench: &Bench) -> Result<Arc<Vec<Swept>>, Failed> {
    bench.once("racks under four policies", || {
        let mut out = Vec::new();
        for (servers, rates) in bench.choose(RACKS, QUICK) {
            let mut asked = Vec::new();
            for policy in POLICIES {
                for rate in *rates {
                    asked.push((policy, *rate, setup(bench, *servers, 2, policy, *rate).scenario(bench)?));
                }
            }
            let table = bench.as_published(Factor::Lookup);
            let runs =
                bench.each(&format!("{servers} servers"), &asked, |(policy, rate, scenario), seed| {
                    match table {
                        true => Ran::looked_up(*servers, policy, *rate, seed),
                        false => Ok(Ran::simulated(*servers, &bench.simulate(scenario, seed)?)),
                    }
                })?;
            out.push(Swept { servers: *servers, rates: rates.to_vec(), runs });
        }
        Ok(out)
    })
}

pub(super) fn answers_per_s(o: &Outcome) -> f64 {
    SCALE * o.groups.iter().map(|g| g.throughput_per_s).sum::<f64>()
}

/// The thesis's score: 1750 over the mean latency in ms, for each server.
fn score(servers: u32, o: &Outcome) -> f64 {
    f64::from(servers) * 1750.0 / o.latency.mean_ms.max(1e-3)
}

/// Sample by sample, the largest or smallest over several lists.
fn over<'a>(lists: impl IntoIterator<Item = &'a [f64]>, pick: fn(f64, f64) -> f64) -> Vec<f64> {
    let mut out: Vec<f64> = Vec::new();
    for list in lists {
        if out.is_empty() {
            out = list.to_vec();
        } else {
            out.iter_mut().zip(list).for_each(|(o, v)| *o = pick(*o, *v));
        }
    }
    out
}

pub(super) fn throughput(bench: &Bench) -> Result<Found, Failed> {
    let mut found = Found::default();
    for swept in sweep(bench)?.iter() {
        let answers = swept.chart(ANSWERS, "", |r| r.answers_per_s);
        let scores = swept.chart(SCORE, "5.12", |r| r.score);
        let at = |policy: &str, x: f64| answers.samples(policy, x).to_vec();
        match swept.servers {
            64 => {
                let full: Vec<Vec<f64>> =
                    ["server-only", "prt", "wrr"].iter().map(|p| at(p, 1000.0)).collect();
                let lists = || full.iter().map(Vec::as_slice);
                found.claim("alike", ratios(&over(lists(), f64::max), &over(lists(), f64::min)));
                let score = |x: f64| scores.samples("server-only", x);
                found.claim("declines", ratios(score(1900.0), score(1000.0)));
                let least = |a: &str, b: &str, from: f64, to: f64| {
                    let within = swept.rates.iter().filter(|r| **r >= from && **r <= to);
                    let each: Vec<Vec<f64>> = within.map(|r| ratios(&at(a, *r), &at(b, *r))).collect();
                    over(each.iter().map(Vec::as_slice), f64::min)
                };
                found.claim("wrr-prt", least("wrr", "prt", 1000.0, f64::MAX));
                found.claim("lur-more", least("least-utilised", "server-only", 1100.0, 1600.0));
            }
            256 => {
                let of =
                    |policy| ratios(scores.samples(policy, 7000.0), scores.samples("server-only", 7000.0));
                found.claim("wrr-heavy", of("wrr"));
                found.claim("prt-heavy", of("prt"));
            }
            _ => {}
        }
        found.charts.extend([answers, scores]);
    }
    Ok(found)
}

pub(super) fn delay(bench: &Bench) -> Result<Found, Failed> {
    let mut found = Found::default();
    for swept in sweep(bench)?.iter() {
        let chart = swept.chart(P99, "5.13", |r| r.p99_ms);
        let at = |policy: &str, x: f64| chart.samples(policy, x);
        match swept.servers {
            64 => {
                found.claim("wrr-1000", chart.evidence("wrr", 1000.0));
                found.claim("prt-1000", chart.evidence("prt", 1000.0));
                found.claim("base-1000", chart.evidence("server-only", 1000.0));
                let heavy = swept.rates.iter().filter(|r| **r >= 1300.0);
                let each: Vec<Vec<f64>> = heavy
                    .flat_map(|r| POLICIES[1..].iter().map(|p| ratios(at(p, *r), at("server-only", *r))))
                    .collect();
                found.claim("all-beat", over(each.iter().map(Vec::as_slice), f64::max));
            }
            128 => {
                found.claim("wrr-2000", chart.evidence("wrr", 2000.0));
                found.claim("prt-2000", chart.over(("prt", 2000.0), ("server-only", 2000.0)));
            }
            _ => found.claim("wrr-7000", chart.over(("wrr", 7000.0), ("server-only", 7000.0))),
        }
        found.charts.push(chart);
    }
    Ok(found)
}

/// Standard deviation of use over all devices that answered something.
fn spread(o: &Outcome) -> f64 {
    let used = || o.groups.iter().filter(|g| g.answered > 0).map(|g| (g.devices as f64, g));
    let all: f64 = used().map(|(n, _)| n).sum();
    let mean = used().map(|(n, g)| n * g.utilisation_percent).sum::<f64>() / all.max(1.0);
    let square = |g: &pointsman_sim::outcome::Group| {
        g.utilisation_stddev_percent.powi(2) + (g.utilisation_percent - mean).powi(2)
    };
    (used().map(|(n, g)| n * square(g)).sum::<f64>() / all.max(1.0)).sqrt()
}

pub(super) fn evenness(bench: &Bench) -> Result<Found, Failed> {
    let racks = [(64u32, 1300.0), (128, 2600.0)];
    let mut asked = Vec::new();
    for policy in POLICIES {
        for (servers, rate) in racks {
            asked.push((policy, servers, rate, setup(bench, servers, 2, policy, rate).scenario(bench)?));
        }
    }
    let table = bench.as_published(Factor::Lookup);
    let spreads =
        bench.each("use of devices", &asked, |(policy, servers, rate, scenario), seed| match table {
            true => Ok(variance(policy, *servers, *rate, seed)),
            false => Ok(spread(&bench.simulate(scenario, seed)?)),
        })?;
    let servers = racks.map(|(servers, _)| f64::from(servers));
    let lines = POLICIES.iter().zip(spreads.chunks(racks.len()));
    let ours = lines.map(|(policy, runs)| Curve::of(policy, &servers, runs, |s| *s)).collect();
    let title = "Standard deviation of devices' utilisation".to_string();
    let chart = Chart { title, x: SERVERS, y: SPREAD, ours, paper: papers::curves("5.14") };
    let at = |policy: &str| chart.samples(policy, 64.0);
    let mut found = Found::default();
    found.claim("base", at("server-only").to_vec());
    found.claim("lur", ratios(at("least-utilised"), at("server-only")));
    found.claim("prt", ratios(at("prt"), at("server-only")));
    let others = over(["server-only", "least-utilised", "prt"].map(at), f64::min);
    found.claim("wrr", ratios(at("wrr"), &others));
    found.charts.push(chart);
    Ok(found)
}
