//! Racks that represent the thesis's in chapter 6: a sixteenth of the servers, everything ten times as fast. Results are
//! scaled back. As published, the racks are as large and as slow as the thesis's.

use super::racks::units;
use crate::bench::{Bench, Factor};
use crate::error::Failed;
use crate::scenario_file::{ArrivalsSection, LearnSection};
use crate::setup::{Setup, Unit, agents, as_published, coming};
use pointsman_decide::{QTable, Weigher};
use pointsman_sim::outcome::LearnStep;
use pointsman_sim::random::{Part, Stream};
use pointsman_sim::scenario::LearnerKind;
use pointsman_sim::{Outcome, Scenario};
use std::sync::Arc;

/// How a rack represents the thesis's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// So many of the thesis's servers are one of ours.
    pub servers: f64,
    /// So much faster is everything.
    pub speed: f64,
}

impl Scale {
    /// That of this bench.
    pub fn of(bench: &Bench) -> Scale {
        bench.pick(Factor::Scale, Scale { servers: 1.0, speed: 1.0 }, Scale { servers: 16.0, speed: 10.0 })
    }

    /// A time of the thesis's racks in seconds, as one of ours.
    pub fn time_s(self, thesis_s: f64) -> f64 {
        thesis_s / self.speed
    }

    /// Between decisions, in our seconds.
    pub fn interval_s(self) -> f64 {
        self.time_s(40.0)
    }

    /// Servers that represent so many of the thesis's.
    pub fn own_servers(self, thesis: u32) -> u32 {
        (f64::from(thesis) / self.servers).round().max(1.0) as u32
    }
}

/// The reward's latency threshold, in seconds of the thesis.
const LATENCY_S: f64 = 1.0;

/// Requests per second and server of the thesis that loads change among in training: far from the rate where 6:0 ceases to be
/// right, on both sides.
pub const TRAINING: [f64; 6] = [8.0, 14.5, 9.5, 15.0, 8.5, 15.5];

/// A rack that scales down this many of the thesis's servers at this rate.
pub fn setup(bench: &Bench, servers: u32, nics: usize, policy: &str, rate_per_s: f64) -> Setup {
    let scale = Scale::of(bench);
    let units: Vec<Unit> =
        units(nics).into_iter().map(|u| Unit { mean_ms: u.mean_ms / scale.speed, ..u }).collect();
    let arrivals = coming(bench, rate_per_s / scale.servers * scale.speed);
    let mut s = Setup::new(scale.own_servers(servers), &units, policy, arrivals);
    s.patience_s = scale.time_s(50.0);
    s.warmup_s = scale.time_s(80.0);
    if policy == "prt" {
        s.tuning = as_published(bench, policy);
        s.sampling_ms = 1e3 * scale.time_s(0.1);
        s.agent = agents((1e3 * scale.time_s(0.2)) as u32, (1e3 * scale.time_s(1.0)) as u32);
    }
    s
}

/// How P4Wise learns. The thesis leaves the number of ranges open: of five, each is visited often enough to be learnt
/// in 250 decisions, and one ends at the reward's threshold. Effects of a higher request rate are not attributed to an
/// action, and random actions become rare while it learns.
fn learn_quickly(learn: &mut LearnSection) {
    (learn.ranges, learn.load_change_percent, learn.epsilon_decay) = (Some(5), Some(20.0), Some(0.98));
}

/// Seeds by which the settings of learners and guard were chosen.
const TUNING: std::ops::RangeInclusive<u64> = 1..=20;

/// The figures that depend on these settings.
const TUNED: [&str; 9] = [
    "fig-6.3",
    "fig-6.4",
    "fig-6.5",
    "fig-6.6",
    "fig-6.7",
    "fig-6.8",
    "fig-6.8-factors",
    "goal-p4wise",
    "goal-learning",
];

/// For the reader of such a figure, if seeds that chose its settings judge it. `tests/figures.py` publishes no results with this note.
pub fn tuned_note(id: &str, mut seeds: impl Iterator<Item = u64>) -> Option<String> {
    let judges = TUNED.contains(&id) && seeds.any(|seed| TUNING.contains(&seed));
    judges.then(|| {
        let (first, last) = (TUNING.start(), TUNING.end());
        format!(
            "seeds {first} to {last} chose the settings of learners and guard, so their results are no evidence for these: choose \
             other seeds, for example with --seed 101"
        )
    })
}

/// With a learner that sets weights for this many intervals. Returns it, so that callers may change it.
pub fn deciding<'s>(
    bench: &Bench,
    setup: &'s mut Setup,
    learner: LearnerKind,
    decisions: u32,
) -> &'s mut LearnSection {
    let scale = Scale::of(bench);
    setup.duration_s = scale.interval_s() * f64::from(decisions + 1) - scale.time_s(5.0);
    let learn = setup.learn.insert(LearnSection {
        learner,
        interval_s: scale.interval_s(),
        settle_s: scale.time_s(25.0),
        latency_ms: 1e3 * scale.time_s(LATENCY_S),
        utilisation_percent: 60.0,
        ranges: None,
        load_change_percent: None,
        alpha: None,
        gamma: None,
        epsilon: None,
        epsilon_decay: None,
        weight: None,
        guard: None,
    });
    if !bench.as_published(Factor::Learner) {
        learn_quickly(learn);
    }
    learn
}

/// Arrivals with a new rate every fifteen decisions, far from the rate where 6:0 ceases to be right.
pub fn changing(bench: &Bench, own_servers: u32) -> ArrivalsSection {
    stepping(bench, &TRAINING, own_servers)
}

/// Arrivals with a new one of these rates, per second and server of the thesis, every fifteen decisions.
pub fn stepping(bench: &Bench, rates: &[f64], own_servers: u32) -> ArrivalsSection {
    let scale = Scale::of(bench);
    let own = |r: &f64| r * scale.speed * f64::from(own_servers);
    ArrivalsSection::Steps { step_s: 15.0 * scale.interval_s(), rates_per_s: rates.iter().map(own).collect() }
}

/// A table learnt by P4Wise with this seed, in this many decisions.
pub fn trained(bench: &Bench, seed: u64, decisions: u32) -> Result<Option<QTable>, Failed> {
    let mut s = setup(bench, 64, 2, "wrr", 1.0);
    s.arrivals = changing(bench, s.servers);
    deciding(bench, &mut s, LearnerKind::QLearning, decisions);
    let outcome = bench.simulate(&s.scenario(bench)?, seed)?;
    Ok(outcome.learning.and_then(|l| l.table))
}

/// One simulation with a decider that scenarios cannot specify.
pub fn decided_by(
    bench: &Bench,
    scenario: &Arc<Scenario>,
    seed: u64,
    weigher: &mut dyn Weigher,
) -> Result<Outcome, Failed> {
    let mut session = bench.session(scenario, seed)?;
    let mut random = Stream::new(seed, Part::Learner, 2);
    while let Some(question) = session.advance() {
        let step = weigher.step(&question.observation, &mut || random.unit());
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
