//! Racks that represent the thesis's in chapter 6: a sixteenth of the servers, everything ten times as fast. Results are
//! scaled back.

use super::racks::units;
use crate::bench::Bench;
use crate::setup::{Setup, Unit, agents, as_published, coming};
use pointsman_decide::{QTable, Weigher};
use pointsman_sim::outcome::LearnStep;
use pointsman_sim::scenario::LearnerKind;
use pointsman_sim::{Outcome, Scenario};
use std::sync::Arc;

/// So many of the thesis's servers are one of ours.
pub const SERVERS: f64 = 16.0;
/// So much faster is everything.
pub const SPEED: f64 = 10.0;
/// Between decisions, in our seconds.
pub const INTERVAL_S: f64 = 4.0;
/// The reward's latency threshold, in our milliseconds.
const LATENCY_MS: f64 = 100.0;

/// Requests per second and server of the thesis that loads change among in training: far from the rate where 6:0 ceases to be
/// right, on both sides.
const TRAINING: [f64; 6] = [8.0, 14.5, 9.5, 15.0, 8.5, 15.5];

/// A rack that scales down this many of the thesis's servers at this rate.
pub fn setup(bench: &Bench, servers: u32, nics: usize, policy: &str, rate_per_s: f64) -> Setup {
    let own = (f64::from(servers) / SERVERS).round().max(1.0) as u32;
    let units: Vec<Unit> =
        units(nics).into_iter().map(|u| Unit { mean_ms: u.mean_ms / SPEED, ..u }).collect();
    let mut s = Setup::new(own, &units, policy, coming(bench, rate_per_s / SERVERS * SPEED));
    s.patience_s = 5.0;
    s.warmup_s = 8.0;
    if policy == "prt" {
        s.tuning = as_published(bench, policy);
        s.sampling_ms = 10.0;
        s.agent = agents(20, 100);
    }
    s
}

/// How P4Wise learns. The thesis leaves the number of ranges open: of five, each is visited often enough to be learnt
/// in 250 decisions, and one ends at the reward's threshold. Effects of a higher request rate are not attributed to an
/// action, and random actions become rare while it learns.
const LEARNING: &str = "ranges = 5\nload_change_percent = 20\nepsilon_decay = 0.98";

/// With a learner that sets weights for this many intervals. `more` are further lines of `[learn]`.
pub fn deciding(setup: &mut Setup, learner: LearnerKind, decisions: u32, more: &str) {
    setup.duration_s = INTERVAL_S * f64::from(decisions + 1) - 0.5;
    setup.more.push_str(&format!(
        "[learn]\nlearner = \"{}\"\ninterval_s = {INTERVAL_S}\nsettle_s = 2.5\nlatency_ms = {LATENCY_MS}\n\
         utilisation_percent = 60\n{LEARNING}\n{more}\n",
        learner.name()
    ));
}

/// Arrivals with a new rate every fifteen decisions, far from the rate where 6:0 ceases to be right.
pub fn changing(own_servers: u32) -> String {
    stepping(&TRAINING, own_servers)
}

/// Arrivals with a new one of these rates, per second and server of the thesis, every fifteen decisions.
pub fn stepping(rates: &[f64], own_servers: u32) -> String {
    let rates: Vec<String> = rates.iter().map(|r| (r * SPEED * f64::from(own_servers)).to_string()).collect();
    format!("process = \"steps\", step_s = {}, rates_per_s = [{}]", 15.0 * INTERVAL_S, rates.join(", "))
}

/// A table learnt by P4Wise with this seed, in this many decisions.
pub fn trained(bench: &Bench, seed: u64, decisions: u32) -> Result<Option<QTable>, String> {
    let mut s = setup(bench, 64, 2, "wrr", 1.0);
    s.arrivals = changing(s.servers);
    deciding(&mut s, LearnerKind::QLearning, decisions, "");
    let outcome = bench.simulate(&s.scenario(bench)?, seed)?;
    Ok(outcome.learning.and_then(|l| l.table))
}

/// One simulation with a decider that scenarios cannot specify.
pub fn decided_by(
    bench: &Bench,
    scenario: &Arc<Scenario>,
    seed: u64,
    weigher: &mut dyn Weigher,
) -> Result<Outcome, String> {
    let mut session = bench.session(scenario, seed)?;
    while let Some(question) = session.advance() {
        let step = weigher.step(&question.observation, &mut || 0.5);
        session.decide(&question, step.weights, step.reward);
    }
    Ok(bench.finished(session.finish()))
}

/// The decisions of a simulation.
pub fn steps(outcome: &Outcome) -> &[LearnStep] {
    outcome.learning.as_ref().map(|l| l.steps.as_slice()).unwrap_or_default()
}

/// Share of decisions that are so, in per cent.
pub fn percent(steps: &[LearnStep], is: impl Fn(&LearnStep) -> bool) -> f64 {
    100.0 * steps.iter().filter(|s| is(s)).count() as f64 / steps.len().max(1) as f64
}

/// Right decisions among these, in per cent.
pub fn right(steps: &[LearnStep]) -> f64 {
    percent(steps, |s| s.right)
}
