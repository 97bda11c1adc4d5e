//! Figures 6.2 and 6.4 to 6.7: P4Wise, trained, at different scales.

use super::fast::{self, SERVERS, SPEED, decided_by, deciding, percent, right, setup, steps};
use crate::reproduce::bench::{Bench, p99_ms};
use crate::reproduce::figure::{Chart, Curve, Found, P99, Point, Quantity, RATE, ratios};
use pointsman_balance::learn::{Observation, Parameters, QTable, Step, Weigher, Weights};
use pointsman_sim::scenario::LearnerKind;
use pointsman_sim::{Outcome, Scenario};
use std::sync::Arc;

const SHARE: Quantity =
    Quantity { name: "share", unit: "percent", label: "share of decisions, %", log: false };
const RIGHT: Quantity = Quantity { name: "right", unit: "percent", label: "right decisions, %", log: false };
const ANSWERS: Quantity = Quantity { name: "answers", unit: "per_s", label: "answers a second", log: false };

/// Rates of a rack of 128 servers. Ours ceases to do with processors alone at about 1,600.
const RATES: &[f64] = &[1000.0, 1200.0, 1400.0, 1600.0, 1800.0, 1900.0, 2000.0];
const QUICK: &[f64] = &[1000.0, 1400.0, 1600.0, 1900.0];
const TURNING: f64 = 1600.0;
/// Decisions at a rate, and how many of them are watched.
const DECISIONS: u32 = 14;
const WATCHED: usize = 8;
/// Decisions of training.
const TRAINING: u32 = 250;

/// 6:1 where processors would be busier with it than a threshold, 6:0 otherwise.
struct Threshold {
    percent: f64,
    weights: Weights,
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

fn thesis_p99(scenario: &Scenario, outcome: &Outcome) -> f64 {
    SPEED * p99_ms(scenario, outcome)
}

fn thesis_answers(_: &Scenario, outcome: &Outcome) -> f64 {
    SERVERS / SPEED * outcome.groups.iter().map(|g| g.throughput_per_s).sum::<f64>()
}

pub fn threshold(bench: &Bench) -> Result<Found, String> {
    let rates: &[f64] = bench.choose(
        &[1000.0, 1200.0, 1300.0, 1400.0, 1500.0, 1600.0, 1700.0, 1800.0, 2000.0],
        &[1200.0, 1300.0, 1500.0, 1700.0, 1800.0],
    );
    let thresholds = [50.0, 60.0, 70.0];
    let mut all: Vec<(f64, Arc<Scenario>)> = Vec::new();
    for percent in thresholds {
        for rate in rates {
            let mut s = setup(bench, 128, 2, "wrr", *rate);
            deciding(&mut s, LearnerKind::Fixed, 10, "");
            all.push((percent, s.scenario(bench)?));
        }
    }
    let runs = bench.each("thresholds", &all, |(percent, scenario), seed| {
        let weights = Parameters::default().first_weights();
        let outcome = decided_by(bench, scenario, seed, &mut Threshold { percent: *percent, weights })?;
        Ok(thesis_p99(scenario, &outcome))
    })?;
    let mut runs = runs.into_iter();
    let mut ours = Vec::new();
    for percent in thresholds {
        let points = rates.iter().zip(runs.by_ref()).map(|(x, samples)| Point { x: *x, samples });
        ours.push(Curve { name: format!("{percent} %"), points: points.collect() });
    }
    let chart = Chart { title: "P99, 128 servers".into(), x: RATE, y: P99, ours, paper: Vec::new() };
    let mean = |name: &str| -> Vec<f64> {
        let seeds = bench.seeds as usize;
        let of = |seed: usize| {
            let at = |x: &f64| chart.samples(name, *x).get(seed).copied().unwrap_or(f64::NAN);
            rates.iter().map(at).sum::<f64>() / rates.len() as f64
        };
        (0..seeds).map(of).collect()
    };
    let against = |name: &str, x: f64| ratios(chart.samples(name, x), chart.samples("60 %", x));
    let others: Vec<f64> = mean("50 %").iter().zip(mean("70 %")).map(|(a, b)| a.min(b)).collect();
    let claims = [
        ("early", against("50 %", 1300.0)),
        ("late", against("70 %", 1700.0)),
        ("best", ratios(&mean("60 %"), &others)),
    ];
    Ok(Found { values: claims.into(), charts: vec![chart], ..Found::default() })
}

/// What P4Wise, trained, does on a rack of so many servers: for each rate the outcomes of all seeds.
struct Evaluated {
    rates: Vec<f64>,
    scenarios: Vec<Arc<Scenario>>,
    outcomes: Vec<Vec<Outcome>>,
}

fn evaluate(bench: &Bench, servers: u32) -> Result<Evaluated, String> {
    let rates: Vec<f64> = bench.choose(RATES, QUICK).iter().map(|r| r * f64::from(servers) / 128.0).collect();
    let tables = bench.each("training", &[()], |(), seed| fast::trained(bench, seed, TRAINING))?;
    let tables: Vec<Option<QTable>> = tables.into_iter().flatten().collect();
    let mut scenarios = Vec::new();
    for rate in &rates {
        let mut s = setup(bench, servers, 2, "wrr", *rate);
        s.warmup_s = fast::INTERVAL_S * f64::from(DECISIONS - WATCHED as u32);
        deciding(&mut s, LearnerKind::QLearning, DECISIONS, "epsilon = 0.01");
        scenarios.push(s.scenario(bench)?);
    }
    let outcomes = bench.each("at different rates", &scenarios, |scenario, seed| {
        let mut own = scenario.as_ref().clone();
        if let Some(learn) = &mut own.learn {
            learn.table = tables.get((seed - bench.first_seed) as usize).cloned().flatten();
        }
        bench.simulate(&Arc::new(own), seed)
    })?;
    Ok(Evaluated { rates, scenarios, outcomes })
}

fn watched(outcome: &Outcome) -> &[pointsman_sim::outcome::LearnStep] {
    let all = steps(outcome);
    &all[all.len().saturating_sub(WATCHED)..]
}

fn weights(bench: &Bench, servers: u32) -> Result<Found, String> {
    let e = evaluate(bench, servers)?;
    let curve = |name: &str, of: &dyn Fn(&Outcome) -> f64| Curve {
        name: name.to_string(),
        points: e
            .rates
            .iter()
            .zip(&e.outcomes)
            .map(|(x, runs)| Point { x: *x, samples: runs.iter().map(of).collect() })
            .collect(),
    };
    let weight = |w: u32| move |o: &Outcome| percent(watched(o), |s| s.next_weight == w);
    let usage = Chart {
        title: format!("Weights, {servers} servers"),
        x: RATE,
        y: SHARE,
        ours: vec![
            curve("6:0", &weight(0)),
            curve("6:1", &weight(1)),
            curve("others", &|o| percent(watched(o), |s| s.next_weight > 1)),
        ],
        paper: Vec::new(),
    };
    let accuracy = Chart {
        title: format!("Accuracy, {servers} servers"),
        x: RATE,
        y: RIGHT,
        ours: vec![curve("p4wise", &|o| right(watched(o)))],
        paper: Vec::new(),
    };
    let turning = TURNING * f64::from(servers) / 128.0;
    let away: Vec<&[f64]> =
        e.rates.iter().filter(|r| **r != turning).map(|r| accuracy.samples("p4wise", *r)).collect();
    // The worst rate is the one with the worst mean.
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
    let worst = away.iter().min_by(|a, b| mean(a).total_cmp(&mean(b))).copied().unwrap_or_default();
    let all: Vec<f64> = (0..worst.len())
        .map(|seed| mean(&away.iter().filter_map(|v| v.get(seed)).copied().collect::<Vec<_>>()))
        .collect();
    let ends = (e.rates.first().copied().unwrap_or(0.0), e.rates.last().copied().unwrap_or(0.0));
    let values = vec![
        ("accuracy", worst.to_vec()),
        ("mean", all),
        ("low", usage.samples("6:0", ends.0).to_vec()),
        ("high", usage.samples("6:1", ends.1).to_vec()),
    ];
    Ok(Found { charts: vec![usage, accuracy], values, ..Found::default() })
}

fn delay(bench: &Bench, servers: u32) -> Result<Found, String> {
    let e = evaluate(bench, servers)?;
    let policies = ["prt", "wrr"];
    let mut scenarios = Vec::new();
    for policy in policies {
        for rate in &e.rates {
            let mut s = setup(bench, servers, 2, policy, *rate);
            // As long as P4Wise is watched.
            s.duration_s = s.warmup_s + fast::INTERVAL_S * WATCHED as f64;
            scenarios.push(s.scenario(bench)?);
        }
    }
    let runs = bench.simulate_all("policies", &scenarios)?;
    type Of = fn(&Scenario, &Outcome) -> f64;
    let charts: Vec<Chart> = [(P99, thesis_p99 as Of), (ANSWERS, thesis_answers as Of)]
        .into_iter()
        .map(|(y, of)| {
            let line = |name: &str, scenarios: &[Arc<Scenario>], runs: &[Vec<Outcome>]| Curve {
                name: name.to_string(),
                points: e
                    .rates
                    .iter()
                    .zip(scenarios.iter().zip(runs))
                    .map(|(x, (s, runs))| Point { x: *x, samples: runs.iter().map(|o| of(s, o)).collect() })
                    .collect(),
            };
            let n = e.rates.len();
            let mut ours = vec![line("p4wise", &e.scenarios, &e.outcomes)];
            for (i, policy) in policies.iter().enumerate() {
                ours.push(line(policy, &scenarios[i * n..], &runs[i * n..]));
            }
            Chart { title: format!("{servers} servers: {}", y.label), x: RATE, y, ours, paper: Vec::new() }
        })
        .collect();
    let (low, high) = (e.rates.first().copied().unwrap_or(0.0), e.rates.last().copied().unwrap_or(0.0));
    let against =
        |chart: &Chart, policy: &str, x: f64| ratios(chart.samples("p4wise", x), chart.samples(policy, x));
    let values = vec![
        ("low", against(&charts[0], "prt", low)),
        ("high", against(&charts[0], "wrr", high)),
        ("answers", against(&charts[1], "wrr", high)),
    ];
    Ok(Found { charts, values, ..Found::default() })
}

pub fn weights_128(bench: &Bench) -> Result<Found, String> {
    weights(bench, 128)
}

pub fn weights_256(bench: &Bench) -> Result<Found, String> {
    weights(bench, 256)
}

pub fn delay_64(bench: &Bench) -> Result<Found, String> {
    delay(bench, 64)
}

pub fn delay_256(bench: &Bench) -> Result<Found, String> {
    delay(bench, 256)
}
