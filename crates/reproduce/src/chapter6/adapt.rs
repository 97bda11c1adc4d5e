//! Figure 6.8: a second SmartNIC is added to every server. P4Wise, which keeps learning, a neural network that does not, and
//! two learners of ours.

use super::fast::{Scale, TRAINING, decided_by, deciding, percent, right, setup, stepping, steps};
use super::network::{Example, Network, inputs};
use crate::bench::{Bench, Factor};
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Curve, Found, Point, Quantity, ratio_of_means};
use crate::papers;
use crate::scenario_file::{ActionSection, EventSection};
use crate::setup::poisson;
use pointsman_decide::{Bounds, Learner, Observation, Parameters, Step, Weigher, Weights};
use pointsman_sim::outcome::LearnStep;
use pointsman_sim::scenario::LearnerKind;
use pointsman_sim::{Outcome, Scenario};
use std::sync::Arc;

pub const DECISION: Quantity = Quantity { name: "decision", unit: "", label: "decision", log: false };
pub const RIGHT: Quantity =
    Quantity { name: "right", unit: "percent", label: "right decisions of the last 30, %", log: false };

/// Decisions before the second SmartNIC is added, and after.
pub const BEFORE: usize = 300;
pub const AFTER: usize = 300;
/// Decisions that learners are given, both times.
const GIVEN: usize = 250;
/// Upper bound of P99, in seconds of the thesis.
const BOUND_S: f64 = 6.0;

/// Servers of the thesis's rack that are simulated: load per server is the same, and fewer take less time.
fn servers(bench: &Bench) -> u32 {
    bench.pick(Factor::Scale, 128, bench.choose(64, 32))
}

/// The network's training data, and the rates at which it decides.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Data: observations of a rack with one SmartNIC at these rates (per second and server of the thesis).
    pub seen: &'static [f64],
    /// Data: under each weight of accelerators below this one.
    pub weights: u32,
    /// Rates that loads change among, per second and server of the thesis.
    pub rates: &'static [f64],
}

/// That of the figure: data at all rates, decisions far from the rate where 6:0 ceases to be right.
pub const FIGURE: Experiment =
    Experiment { seen: &[7.0, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5], weights: 4, rates: &TRAINING };

/// Records data, and trains a network on it.
fn network(bench: &Bench, experiment: &Experiment, seed: u64) -> Result<Network, Failed> {
    let scale = Scale::of(bench);
    let mut parameters = Parameters::default();
    let mut examples = Vec::new();
    for rate in experiment.seen {
        let mut seen: Vec<(f64, Vec<[f32; 3]>)> = Vec::new();
        for weight in 0..experiment.weights {
            let mut s = setup(bench, servers(bench), 1, "wrr", 1.0);
            let rate_per_s = rate * scale.speed * f64::from(s.servers);
            s.arrivals = poisson(rate_per_s);
            deciding(bench, &mut s, LearnerKind::Fixed, 8).weight = Some(weight);
            let scenario = s.scenario(bench)?;
            let Some(model) = &scenario.learn else { return Err(ExperimentError::None("learner").into()) };
            parameters = model.parameters;
            let mut session = bench.session(&scenario, seed)?;
            let (mut p99, mut of) = (0.0, Vec::new());
            let weights = Weights { cpu: parameters.max_weight, accelerator: weight };
            while let Some(q) = session.advance() {
                // Queues need some time to settle at this rate.
                if q.at_s > scale.time_s(100.0) {
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
    Ok(Network::train(&examples, parameters, seed)?)
}

/// The rack: its second SmartNIC is added after `BEFORE` decisions.
fn rack(bench: &Bench, rates: &[f64], learner: LearnerKind) -> Result<Arc<Scenario>, ExperimentError> {
    let mut s = setup(bench, servers(bench), 2, "wrr", 1.0);
    s.arrivals = stepping(bench, rates, s.servers);
    let scale = Scale::of(bench);
    let at_s = scale.interval_s() * BEFORE as f64 + scale.time_s(1.0);
    s.events = vec![
        EventSection { at_s: 0.0, action: ActionSection::Disable { device: "nic2" } },
        EventSection { at_s, action: ActionSection::Enable { device: "nic2" } },
    ];
    let guarded = matches!(learner, LearnerKind::Thompson | LearnerKind::ServiceRate);
    deciding(bench, &mut s, learner, (BEFORE + AFTER) as u32).guard = guarded.then(|| guard(bench));
    s.scenario(bench)
}

/// The guard of learners that have one.
pub fn guard(bench: &Bench) -> Bounds {
    let p99_ms = 1e3 * Scale::of(bench).time_s(BOUND_S);
    Bounds { p99_ms, loss: 0.05, fallback: 1, hold: 3, max_change: 2, max_use_percent: Some(92.0) }
}

/// The deciders, in this order.
const LEARNERS: [(&str, LearnerKind); 4] = [
    ("p4wise", LearnerKind::QLearning),
    ("network", LearnerKind::Fixed),
    ("thompson", LearnerKind::Thompson),
    ("service-rate", LearnerKind::ServiceRate),
];

/// P4Wise whose table is emptied after `BEFORE` decisions.
struct Reset {
    learner: Learner,
    parameters: Parameters,
    decisions: usize,
}

impl Weigher for Reset {
    fn weights(&self) -> Weights {
        self.learner.weights()
    }

    fn set_weights(&mut self, weights: Weights) {
        self.learner.set_weights(weights);
    }

    fn step(&mut self, o: &Observation, random: &mut dyn FnMut() -> f64) -> Step {
        if self.decisions == BEFORE
            && let Ok(mut new) = Learner::new(self.parameters)
        {
            new.set_weights(self.learner.weights());
            self.learner = new;
        }
        self.decisions += 1;
        self.learner.step(o, random)
    }
}

/// One simulation in which the table is emptied at T.
fn reset(bench: &Bench, scenario: &Arc<Scenario>, seed: u64) -> Result<Outcome, Failed> {
    let parameters = scenario.learn.as_ref().map(|l| l.parameters).unwrap_or_default();
    let mut p4wise = Reset { learner: Learner::new(parameters)?, parameters, decisions: 0 };
    decided_by(bench, scenario, seed, &mut p4wise)
}

/// One simulation decided by a network that was trained before.
pub fn by_network(bench: &Bench, experiment: &Experiment, seed: u64) -> Result<Outcome, Failed> {
    let mut network = network(bench, experiment, seed)?;
    decided_by(bench, &rack(bench, experiment.rates, LearnerKind::Fixed)?, seed, &mut network)
}

/// Results of each.
fn runs(bench: &Bench) -> Result<Arc<Vec<Vec<Outcome>>>, Failed> {
    bench.once("a second SmartNIC", || {
        let mut all = Vec::new();
        for (name, kind) in LEARNERS {
            all.push((name, rack(bench, FIGURE.rates, kind)?));
        }
        bench.each("a second SmartNIC", &all, |(name, scenario), seed| match *name {
            "network" => by_network(bench, &FIGURE, seed),
            "p4wise" if bench.as_published(Factor::Reset) => reset(bench, scenario, seed),
            _ => Ok(bench.simulate(scenario, seed)?),
        })
    })
}

/// Right decisions by this judge among the last thirty, up to so many.
pub fn lately(name: &str, runs: &[Outcome], decisions: usize, judge: fn(&LearnStep) -> bool) -> Curve {
    let window =
        |o: &Outcome, n: usize| percent(steps(o).get(n.saturating_sub(30)..n).unwrap_or_default(), judge);
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
    let against = |of: usize| ratio_of_means(&regret(of), &regret(0));
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

pub fn second_nic(bench: &Bench) -> Result<Found, Failed> {
    let runs = runs(bench)?;
    let ours = LEARNERS
        .iter()
        .zip(runs.iter())
        .map(|((name, _), runs)| lately(name, runs, BEFORE + AFTER, |s| s.right));
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
pub fn promises(bench: &Bench) -> Result<Found, Failed> {
    let (learnt, runs) = (super::learn::runs(bench)?, runs(bench)?);
    let mut found = Found::default();
    found.claim("right", super::learn::late_accuracy(&learnt));
    found.claim("again", part(&runs[0], BEFORE + GIVEN, BEFORE + AFTER));
    of_learners(&runs).into_iter().for_each(|(id, samples)| found.claim(id, samples));
    Ok(found)
}
