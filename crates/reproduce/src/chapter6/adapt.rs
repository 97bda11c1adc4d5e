//! Figure 6.8: a second SmartNIC is added to every server. P4Wise, which keeps learning, a neural network that does not, and
//! two learners of ours.

use super::fast::{changing, decided_by, deciding, right, setup, steps};
use super::network::{Example, Network, inputs};
use crate::bench::Bench;
use crate::figure::{Chart, Curve, Found, Point, Quantity, ratios};
use crate::papers;
use pointsman_decide::{Parameters, Weights};
use pointsman_sim::scenario::LearnerKind;
use pointsman_sim::{Outcome, Scenario};
use pointsman_trials::stats::mean;
use std::sync::Arc;

pub const DECISION: Quantity = Quantity { name: "decision", unit: "", label: "decision", log: false };
pub const RIGHT: Quantity =
    Quantity { name: "right", unit: "percent", label: "right decisions of the last 30, %", log: false };

/// Decisions before the second SmartNIC is added, and after.
const BEFORE: usize = 300;
const AFTER: usize = 300;
/// Decisions that learners are given, both times.
const GIVEN: usize = 250;
/// Upper bound of P99, in our milliseconds.
const BOUND_MS: f64 = 600.0;

/// The network's training data: observations of a rack with one SmartNIC at these rates (per second and server, ours) and weights.
const RATES: [f64; 9] = [70.0, 85.0, 95.0, 105.0, 115.0, 125.0, 135.0, 145.0, 155.0];
const WEIGHTS: u32 = 4;

/// Records data, and trains a network on it.
fn network(bench: &Bench, servers: u32, seed: u64) -> Result<Network, String> {
    let mut parameters = Parameters::default();
    let mut examples = Vec::new();
    for rate in RATES {
        let mut seen: Vec<(f64, Vec<[f32; 3]>)> = Vec::new();
        for weight in 0..WEIGHTS {
            let mut s = setup(bench, 32, 1, "wrr", 1.0);
            s.servers = servers;
            s.arrivals = format!("process = \"poisson\", rate_per_s = {}", rate * f64::from(servers));
            deciding(&mut s, LearnerKind::Fixed, 8, &format!("weight = {weight}"));
            let scenario = s.scenario(bench)?;
            let Some(model) = &scenario.learn else { return Err("no learner".into()) };
            parameters = model.parameters;
            let mut session = bench.session(&scenario, seed)?;
            let (mut p99, mut of) = (0.0, Vec::new());
            let weights = Weights { cpu: parameters.max_weight, accelerator: weight };
            while let Some(q) = session.advance() {
                // Queues need some time to settle at this rate.
                if q.at_s > 10.0 {
                    p99 += q.observation.p99_ms;
                    of.push(inputs(&q.observation, q.weights, parameters.max_weight));
                }
                session.decide(&q, weights, None);
            }
            bench.finished(session.finish());
            seen.push((p99, of));
        }
        let best = (0..seen.len()).fold(0, |best, i| if seen[i].0 < seen[best].0 { i } else { best });
        examples.extend(seen.iter().flat_map(|s| &s.1).map(|i| Example { inputs: *i, right: best as u32 }));
    }
    Network::train(&examples, parameters, seed)
}

/// The rack: its second SmartNIC is added after `BEFORE` decisions.
fn rack(bench: &Bench, servers: u32, learner: LearnerKind) -> Result<Arc<Scenario>, String> {
    let mut s = setup(bench, 32, 2, "wrr", 1.0);
    s.servers = servers;
    s.arrivals = changing(servers);
    let at_s = super::fast::INTERVAL_S * BEFORE as f64 + 0.1;
    s.more = format!(
        "[[event]]\nat_s = 0\naction = \"disable\"\ndevice = \"nic2\"\n\
         [[event]]\nat_s = {at_s}\naction = \"enable\"\ndevice = \"nic2\"\n"
    );
    let guard = match learner {
        LearnerKind::Thompson | LearnerKind::ServiceRate => guard(),
        _ => String::new(),
    };
    deciding(&mut s, learner, (BEFORE + AFTER) as u32, &guard);
    s.scenario(bench)
}

/// The guard of learners that have one.
pub fn guard() -> String {
    format!(
        "guard = {{ p99_ms = {BOUND_MS}, loss = 0.05, fallback = 1, hold = 3, max_change = 2, max_use_percent = 92 }}"
    )
}

/// The deciders, in this order.
const LEARNERS: [(&str, LearnerKind); 4] = [
    ("p4wise", LearnerKind::QLearning),
    ("network", LearnerKind::Fixed),
    ("thompson", LearnerKind::Thompson),
    ("service-rate", LearnerKind::ServiceRate),
];

/// Results of each.
fn runs(bench: &Bench) -> Result<Arc<Vec<Vec<Outcome>>>, String> {
    bench.once("a second SmartNIC", || {
        let servers = bench.choose(4, 2);
        let mut all = Vec::new();
        for (name, kind) in LEARNERS {
            all.push((name, rack(bench, servers, kind)?));
        }
        bench.each("a second SmartNIC", &all, |(name, scenario), seed| match *name {
            "network" => {
                let mut network = network(bench, servers, seed)?;
                decided_by(bench, scenario, seed, &mut network)
            }
            _ => bench.simulate(scenario, seed),
        })
    })
}

/// Right decisions among the last thirty, up to so many.
pub fn lately(name: &str, runs: &[Outcome], decisions: usize) -> Curve {
    let window = |o: &Outcome, n: usize| right(steps(o).get(n.saturating_sub(30)..n).unwrap_or_default());
    let points = (30..=decisions).step_by(15).map(|n| Point::of(n as f64, runs, |o| window(o, n)));
    Curve { name: name.into(), points: points.collect() }
}

/// Right decisions from one to another, in per cent.
pub fn part(runs: &[Outcome], from: usize, to: usize) -> Vec<f64> {
    let one = |o: &Outcome| right(steps(o).get(from..to.min(steps(o).len())).unwrap_or_default());
    runs.iter().map(one).collect()
}

/// Regret of better learners against P4Wise's, and their intervals beyond the bound, for their claims.
fn of_learners(runs: &[Vec<Outcome>]) -> Vec<(&'static str, Vec<f64>)> {
    let regret = |of: usize| -> Vec<f64> {
        let one = |o: &Outcome| o.learning.as_ref().map_or(f64::NAN, |l| l.regret_ms(usize::MAX));
        runs[of].iter().map(one).collect()
    };
    // Of seeds together: a single one's may be next to nothing.
    let p4wise = mean(&regret(0)).mean;
    let against = |of: usize| ratios(&regret(of), &vec![p4wise; runs[of].len()]);
    let beyond = |of: usize| -> Vec<f64> {
        let one =
            |o: &Outcome| o.learning.as_ref().and_then(|l| l.beyond_bound).map_or(f64::NAN, |n| n as f64);
        runs[of].iter().map(one).collect()
    };
    vec![
        ("regret-thompson", against(2)),
        ("regret-rates", against(3)),
        ("bound-thompson", beyond(2)),
        ("bound-rates", beyond(3)),
    ]
}

pub fn second_nic(bench: &Bench) -> Result<Found, String> {
    let runs = runs(bench)?;
    let ours = LEARNERS.iter().zip(runs.iter()).map(|((name, _), runs)| lately(name, runs, BEFORE + AFTER));
    let chart = Chart {
        title: format!("Right decisions; a second SmartNIC after {BEFORE}"),
        x: DECISION,
        y: RIGHT,
        ours: ours.collect(),
        paper: papers::moved("6.8", BEFORE as f64),
    };
    let all = BEFORE + AFTER;
    let values = [
        ("before", part(&runs[0], GIVEN, BEFORE)),
        ("after", part(&runs[0], BEFORE + GIVEN, all)),
        ("network-before", part(&runs[1], 2, BEFORE)),
        ("network-after", part(&runs[1], BEFORE + 2, all)),
    ];
    let mut found = Found { charts: vec![chart], ..Found::default() };
    values.into_iter().chain(of_learners(&runs)).for_each(|(id, samples)| found.claim(id, samples));
    Ok(found)
}

/// Goals for learners, by the experiments of figures 6.3 and 6.8.
pub fn promises(bench: &Bench) -> Result<Found, String> {
    let (learnt, runs) = (super::learn::runs(bench)?, runs(bench)?);
    let mut found = Found::default();
    found.claim("right", super::learn::late_accuracy(&learnt));
    found.claim("again", part(&runs[0], BEFORE + GIVEN, BEFORE + AFTER));
    of_learners(&runs).into_iter().for_each(|(id, samples)| found.claim(id, samples));
    Ok(found)
}
