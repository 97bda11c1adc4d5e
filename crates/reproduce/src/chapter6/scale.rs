//! Figures 6.2 and 6.4 to 6.7: P4Wise, trained, at different scales.

use super::fast::{self, Scale, decided_by, deciding, percent, right, setup, steps};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Curve, Found, Lossy, P99, Quantity, RATE, ratios};
use crate::papers;
use pointsman_decide::{Observation, Parameters, QTable, Step, Weigher, Weights};
use pointsman_sim::scenario::LearnerKind;
use pointsman_sim::{Outcome, Scenario};
use pointsman_trials::stats::mean;
use std::sync::Arc;

const SHARE: Quantity =
    Quantity { name: "share", unit: "percent", label: "share of decisions, %", log: false };
const RIGHT: Quantity = Quantity { name: "right", unit: "percent", label: "right decisions, %", log: false };
const ANSWERS: Quantity = Quantity { name: "answers", unit: "per_s", label: "answers/s", log: false };

/// Rates of a rack of 128 servers. Ours ceases to do with processors alone at about 1,600.
const RATES: &[f64] = &[1000.0, 1200.0, 1400.0, 1600.0, 1800.0, 1900.0, 2000.0];
const QUICK: &[f64] = &[1000.0, 1400.0, 1600.0, 1900.0];
const TURNING: f64 = 1600.0;
/// Decisions at a rate, and how many of them are watched.
const DECISIONS: u32 = 14;
const WATCHED: usize = 8;
/// Decisions of training.
const TRAINING: u32 = 250;

/// 6:1 if processors would exceed a threshold with it, 6:0 otherwise.
pub struct Threshold {
    percent: f64,
    weights: Weights,
}

impl Threshold {
    /// At so many per cent.
    pub fn new(percent: f64) -> Self {
        Threshold { percent, weights: Parameters::default().first_weights() }
    }
}

impl Weigher for Threshold {
    fn weights(&self) -> Weights {
        self.weights
    }

    fn set_weights(&mut self, weights: Weights) {
        self.weights = weights;
    }

    fn step(&mut self, o: &Observation, _: &mut dyn FnMut() -> f64) -> Step {
        let per_server = o.accelerator_percent.len() as f64 / o.cpu_percent.len().max(1) as f64;
        let share = if self.weights.accelerator == 0 { 6.0 / (6.0 + per_server) } else { 1.0 };
        let shared = o.cpu_mean_percent() * share;
        self.weights.accelerator = u32::from(shared > self.percent);
        Step { weights: self.weights, verdict: Parameters::default().judge(o, self.weights), reward: None }
    }
}

fn thesis_p99(scale: Scale, outcome: &Outcome) -> f64 {
    scale.speed * outcome.latency.p99_ms
}

fn thesis_answers(scale: Scale, outcome: &Outcome) -> f64 {
    scale.servers / scale.speed * outcome.groups.iter().map(|g| g.throughput_per_s).sum::<f64>()
}

/// For each seed the mean over lists of samples.
fn by_seed(lists: &[&[f64]]) -> Vec<f64> {
    let seeds = lists.iter().map(|l| l.len()).min().unwrap_or(0);
    (0..seeds).map(|seed| mean(&lists.iter().map(|l| l[seed]).collect::<Vec<_>>()).mean).collect()
}

pub fn threshold(bench: &Bench) -> Result<Found, Failed> {
    let rates: &[f64] = bench.choose(
        &[1000.0, 1200.0, 1300.0, 1400.0, 1500.0, 1600.0, 1700.0, 1800.0, 2000.0],
        &[1200.0, 1300.0, 1500.0, 1700.0, 1800.0],
    );
    let thresholds = [50.0, 60.0, 70.0];
    let mut all: Vec<(f64, Arc<Scenario>)> = Vec::new();
    for percent in thresholds {
        for rate in rates {
            let mut s = setup(bench, 128, 2, "wrr", *rate);
            deciding(bench, &mut s, LearnerKind::Fixed, 10);
            all.push((percent, s.scenario(bench)?));
        }
    }
    let runs = bench.each("thresholds", &all, |(percent, scenario), seed| {
        decided_by(bench, scenario, seed, &mut Threshold::new(*percent))
    })?;
    let lines = thresholds.iter().zip(runs.chunks(rates.len()));
    let ours = lines.map(|(percent, runs)| {
        Curve::of(&format!("{percent} %"), rates, runs, |o| thesis_p99(Scale::of(bench), o))
    });
    let ours = ours.collect();
    let chart = Chart { title: "P99, 128 servers".into(), x: RATE, y: P99, ours, paper: Vec::new() };
    let mean = |name: &str| -> Vec<f64> {
        by_seed(&rates.iter().map(|x| chart.samples(name, *x)).collect::<Vec<_>>())
    };
    let against = |name: &str, x: f64| ratios(chart.samples(name, x), chart.samples("60 %", x));
    let others: Vec<f64> = mean("50 %").iter().zip(mean("70 %")).map(|(a, b)| a.min(b)).collect();
    let claims = [
        ("early", against("50 %", 1300.0)),
        ("late", against("70 %", 1700.0)),
        ("best", ratios(&mean("60 %"), &others)),
    ];
    Ok(found(claims, vec![chart]))
}

/// Charts, and claims with a sample for each seed.
fn found<const N: usize>(claims: [(&'static str, Vec<f64>); N], charts: Vec<Chart>) -> Found {
    Found { values: claims.map(|(id, samples)| (id, samples.into())).into(), charts, ..Found::default() }
}

/// Results of a trained P4Wise on a rack with this many servers: for each rate the outcomes of all seeds.
struct Evaluated {
    rates: Vec<f64>,
    outcomes: Vec<Vec<Outcome>>,
}

impl Evaluated {
    fn curve<R: Lossy>(&self, name: &str, runs: &[Vec<R>], of: impl Fn(&R) -> f64) -> Curve {
        Curve::of(name, &self.rates, runs, of)
    }

    /// Lowest and highest rate.
    fn ends(&self) -> (f64, f64) {
        (self.rates.first().copied().unwrap_or(0.0), self.rates.last().copied().unwrap_or(0.0))
    }
}

/// Racks of a size are shown by several figures, and training is the same for all.
fn evaluate(bench: &Bench, servers: u32) -> Result<Arc<Evaluated>, Failed> {
    let tables = bench.once("training", || {
        let tables = bench.each("training", &[()], |(), seed| fast::trained(bench, seed, TRAINING))?;
        Ok::<Vec<Option<QTable>>, Failed>(tables.into_iter().flatten().collect())
    })?;
    bench.once(&format!("P4Wise on {servers} servers"), || {
        let scaled = bench.choose(RATES, QUICK).iter().map(|r| r * f64::from(servers) / 128.0);
        let rates: Vec<f64> = scaled.collect();
        let mut scenarios = Vec::new();
        for rate in &rates {
            let mut s = setup(bench, servers, 2, "wrr", *rate);
            s.warmup_s = Scale::of(bench).interval_s() * f64::from(DECISIONS - WATCHED as u32);
            deciding(bench, &mut s, LearnerKind::QLearning, DECISIONS).epsilon = Some(0.01);
            scenarios.push(s.scenario(bench)?);
        }
        let outcomes = bench.each("at different rates", &scenarios, |scenario, seed| {
            let mut own = scenario.as_ref().clone();
            if let Some(learn) = &mut own.learn {
                learn.table = tables.get((seed - bench.first_seed) as usize).cloned().flatten();
            }
            Ok(bench.simulate(&Arc::new(own), seed)?)
        })?;
        Ok(Evaluated { rates, outcomes })
    })
}

fn watched(outcome: &Outcome) -> &[pointsman_sim::outcome::LearnStep] {
    let all = steps(outcome);
    &all[all.len().saturating_sub(WATCHED)..]
}

fn weights(bench: &Bench, servers: u32) -> Result<Found, Failed> {
    let e = evaluate(bench, servers)?;
    let share = |name: &str, is: fn(u32) -> bool| {
        e.curve(name, &e.outcomes, |o| percent(watched(o), |s| is(s.next_weight)))
    };
    let usage = Chart {
        title: format!("Weights, {servers} servers"),
        x: RATE,
        y: SHARE,
        ours: vec![share("6:0", |w| w == 0), share("6:1", |w| w == 1), share("others", |w| w > 1)],
        paper: Vec::new(),
    };
    let accuracy = Chart {
        title: format!("Accuracy, {servers} servers"),
        x: RATE,
        y: RIGHT,
        ours: vec![e.curve("p4wise", &e.outcomes, |o| right(watched(o)))],
        paper: papers::curves(if servers == 128 { "6.4" } else { "6.7" }),
    };
    let turning = TURNING * f64::from(servers) / 128.0;
    let away: Vec<&[f64]> =
        e.rates.iter().filter(|r| **r != turning).map(|r| accuracy.samples("p4wise", *r)).collect();
    // The worst rate is the one with the worst mean.
    let worst = away.iter().min_by(|a, b| mean(a).mean.total_cmp(&mean(b).mean)).copied().unwrap_or_default();
    let (low, high) = e.ends();
    let claims = [
        ("accuracy", worst.to_vec()),
        ("mean", by_seed(&away)),
        ("low", usage.samples("6:0", low).to_vec()),
        ("high", usage.samples("6:1", high).to_vec()),
    ];
    Ok(found(claims, vec![usage, accuracy]))
}

fn delay(bench: &Bench, servers: u32) -> Result<Found, Failed> {
    let e = evaluate(bench, servers)?;
    let policies = ["prt", "wrr"];
    let mut scenarios = Vec::new();
    for policy in policies {
        for rate in &e.rates {
            let mut s = setup(bench, servers, 2, policy, *rate);
            // As long as P4Wise is watched.
            s.duration_s = s.warmup_s + Scale::of(bench).interval_s() * WATCHED as f64;
            scenarios.push(s.scenario(bench)?);
        }
    }
    let runs = bench.simulate_all("policies", &scenarios)?;
    type Of = fn(Scale, &Outcome) -> f64;
    let scale = Scale::of(bench);
    let known = format!("5.13-{servers}");
    let [p99, answers] = [(P99, thesis_p99 as Of), (ANSWERS, thesis_answers as Of)].map(|(y, of)| {
        let line = |name: &str, runs: &[Vec<Outcome>]| e.curve(name, runs, |o| of(scale, o));
        let others = policies.iter().zip(runs.chunks(e.rates.len())).map(|(policy, runs)| line(policy, runs));
        let ours = std::iter::once(line("p4wise", &e.outcomes)).chain(others).collect();
        // The thesis's throughput is not a rate of answers.
        let paper = match y.name == P99.name {
            true => papers::borrowed(&known, "5.13", &policies, e.ends()),
            false => Vec::new(),
        };
        Chart { title: format!("{servers} servers: {}", y.label), x: RATE, y, ours, paper }
    });
    let (low, high) = e.ends();
    let against =
        |chart: &Chart, policy: &str, x: f64| ratios(chart.samples("p4wise", x), chart.samples(policy, x));
    let claims = [
        ("low", against(&p99, "prt", low)),
        ("high", against(&p99, "wrr", high)),
        ("answers", against(&answers, "wrr", high)),
    ];
    Ok(found(claims, vec![p99, answers]))
}

pub fn weights_128(bench: &Bench) -> Result<Found, Failed> {
    weights(bench, 128)
}

pub fn weights_256(bench: &Bench) -> Result<Found, Failed> {
    weights(bench, 256)
}

pub fn delay_64(bench: &Bench) -> Result<Found, Failed> {
    delay(bench, 64)
}

pub fn delay_256(bench: &Bench) -> Result<Found, Failed> {
    delay(bench, 256)
}
