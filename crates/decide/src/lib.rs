//! What decides: learners of accelerators' weights, and decisions by many criteria, the analytic hierarchy process ([`ahp`]) and
//! PROMETHEE II ([`promethee`]).
//!
//! A [`Weigher`] is stepped once per interval with the observations since the last step, and returns the weights to use
//! next. It knows no switch, no clock and no source of randomness: the caller gives it observations and random numbers
//! and writes the weights, so it runs unchanged against a simulation and against a rack.
//!
//! [`Learner`] is P4Wise as published (Q-learning):
//!
//! - *State*: the mean utilisation of the servers' processors, in N ranges, and whether accelerators are in use.
//! - *Actions*: accelerators' weights one up, one down, or as they are.
//! - *Reward*: see [`Parameters::judge`]. Weights that overload a device, and weights that are right, end an episode.
//! - *Choice*: mostly the action with the largest value, now and then a random one (epsilon-greedy).
//! - *Update*: Q(s,a) += alpha (r + gamma max Q(s',.) - Q(s,a)).
//!
//! [`Bandit`] and [`Rates`] are two other learners. [`Knowledge`] is their saved state, and [`Guard`] keeps any of them within bounds.

#![forbid(unsafe_code)]

pub mod ahp;
mod bandit;
mod error;
mod guard;
mod knowledge;
mod lines;
pub mod promethee;
mod rates;
mod settings;
mod table;
#[cfg(test)]
mod tests;

pub use bandit::{Bandit, Guesses};
pub use error::LearnerError;
pub use guard::{Bounds, Guard};
pub use knowledge::{Kept, Knowledge};
pub use rates::{Rates, ServiceRates};
pub use settings::{LearnerKind, Settings, UnknownLearner, read_settings};
pub use table::{QTable, TableError};

use std::fmt;

/// A change of the accelerators' weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// One more.
    Raise,
    /// One less.
    Lower,
    /// As they are.
    Keep,
}

impl Action {
    /// All actions, in the order of the table's columns.
    pub const ALL: [Action; 3] = [Action::Raise, Action::Lower, Action::Keep];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Action::Raise => "+1",
            Action::Lower => "-1",
            Action::Keep => "keep",
        }
    }
}

/// The weights of a server's devices: all processors have one, all accelerators the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weights {
    /// Of the processor.
    pub cpu: u32,
    /// Of each accelerator; 0: not used.
    pub accelerator: u32,
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cpu, self.accelerator)
    }
}

/// The observations of the last interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Utilisation of every processor in per cent. More than 100: overloaded.
    pub cpu_percent: Vec<f64>,
    /// Of every accelerator.
    pub accelerator_percent: Vec<f64>,
    /// 99th percentile of latency in milliseconds.
    pub p99_ms: f64,
    /// Packets per second towards each processor, on average.
    pub cpu_per_s: f64,
    /// Towards each accelerator.
    pub accelerator_per_s: f64,
    /// Share of requests that were lost, 0 to 1.
    pub loss: f64,
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

impl Observation {
    /// Mean utilisation of the processors.
    pub fn cpu_mean_percent(&self) -> f64 {
        mean(&self.cpu_percent)
    }

    /// Mean utilisation of the accelerators.
    pub fn accelerator_mean_percent(&self) -> f64 {
        mean(&self.accelerator_percent)
    }

    /// Packets per second and processor, those to its server's accelerators included.
    pub fn offered_per_s(&self) -> f64 {
        let accelerators = self.accelerator_percent.len() as f64 / self.cpu_percent.len().max(1) as f64;
        self.cpu_per_s + accelerators * self.accelerator_per_s
    }

    /// Share of devices that are busier than this.
    fn share_above(&self, percent: f64) -> f64 {
        let all = self.cpu_percent.len() + self.accelerator_percent.len();
        let above =
            self.cpu_percent.iter().chain(&self.accelerator_percent).filter(|p| **p > percent).count();
        above as f64 / all.max(1) as f64
    }
}

/// How good weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A device is overloaded: the weights are wrong.
    Overload,
    /// The processors alone are fast enough: right.
    CpusSuffice,
    /// All devices work, latency is fine, and the processors are not idle: right.
    Shared,
    /// None of these: to be improved.
    Open,
}

impl Verdict {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Overload => "overload",
            Verdict::CpusSuffice => "cpus-suffice",
            Verdict::Shared => "shared",
            Verdict::Open => "open",
        }
    }

    /// Whether the weights are right.
    pub fn is_right(self) -> bool {
        matches!(self, Verdict::CpusSuffice | Verdict::Shared)
    }
}

/// How to judge and to learn.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Parameters {
    /// Ranges of utilisation.
    pub ranges: usize,
    /// Learning rate, above 0 to 1.
    pub alpha: f64,
    /// Worth of the next state, 0 to 1.
    pub gamma: f64,
    /// Probability of a random action.
    pub epsilon: f64,
    /// The factor of epsilon after every action: 1 is as published.
    pub epsilon_decay: f64,
    /// Values that a new table begins with; 0 is as published.
    pub initial_value: f64,
    /// Latency (99th percentile) that is fine.
    pub latency_ms: f64,
    /// Below this the processors count as idle while accelerators work.
    pub utilisation_percent: f64,
    /// Reward of right weights, and punishment of wrong ones.
    pub max_reward: f64,
    /// A device that is busier is overloaded.
    pub overload_percent: f64,
    /// Share of devices that may be overloaded, 0 to 1: of hundreds, some have a bad moment. 0 is as published.
    pub overload_share: f64,
    /// Weight of processors, and largest weight of accelerators.
    pub max_weight: u32,
    /// A mean utilisation this far from the one at the end of the last episode means that the load changed.
    pub change_percent: f64,
    /// If the rate of requests differs by more than this from that at the last action, the observations are not that
    /// action's consequence, and nothing is learnt from them. 0 is as published: everything is.
    pub load_change_percent: f64,
}

impl Default for Parameters {
    /// The values that P4Wise's evaluation arrives at.
    fn default() -> Self {
        Parameters {
            ranges: 10,
            alpha: 0.5,
            gamma: 0.5,
            epsilon: 0.1,
            epsilon_decay: 1.0,
            initial_value: 0.0,
            latency_ms: 1000.0,
            utilisation_percent: 60.0,
            max_reward: 10.0,
            overload_percent: 100.0,
            overload_share: 0.0,
            max_weight: 6,
            change_percent: 5.0,
            load_change_percent: 0.0,
        }
    }
}

impl Parameters {
    /// Checks every field.
    ///
    /// # Errors
    /// Says which is wrong and what to write.
    pub fn validate(&self) -> Result<(), LearnerError> {
        let within = |name, v: f64, min: f64, max: f64| {
            let good = v.is_finite() && v >= min && v <= max;
            if good { Ok(()) } else { Err(LearnerError::Parameter { name, value: v, bounds: (min, max) }) }
        };
        within("ranges", self.ranges as f64, 1.0, 1000.0)?;
        within("alpha", self.alpha, 1e-6, 1.0)?;
        within("gamma", self.gamma, 0.0, 1.0)?;
        within("epsilon", self.epsilon, 0.0, 1.0)?;
        within("epsilon_decay", self.epsilon_decay, 0.0, 1.0)?;
        within("initial_value", self.initial_value, -1e6, 1e6)?;
        within("latency_ms", self.latency_ms, 1e-6, 1e9)?;
        within("utilisation_percent", self.utilisation_percent, 0.0, 100.0)?;
        within("max_reward", self.max_reward, 1.0, 1e6)?;
        within("overload_percent", self.overload_percent, 1.0, 1e6)?;
        within("overload_share", self.overload_share, 0.0, 1.0)?;
        within("max_weight", f64::from(self.max_weight), 1.0, 255.0)?;
        within("change_percent", self.change_percent, 0.0, 100.0)?;
        within("load_change_percent", self.load_change_percent, 0.0, 1e6)
    }

    /// Judges the weights that were in force while this was observed (the reward function's conditions, in their order).
    pub fn judge(&self, o: &Observation, weights: Weights) -> Verdict {
        let fast = o.p99_ms < self.latency_ms;
        if o.share_above(self.overload_percent) > self.overload_share {
            Verdict::Overload
        } else if weights.accelerator == 0 && fast {
            Verdict::CpusSuffice
        } else if weights.accelerator > 0 && fast && o.cpu_mean_percent() > self.utilisation_percent {
            Verdict::Shared
        } else {
            Verdict::Open
        }
    }

    /// The reward of a verdict.
    pub fn reward(&self, verdict: Verdict) -> f64 {
        match verdict {
            Verdict::Overload => -self.max_reward,
            Verdict::CpusSuffice | Verdict::Shared => self.max_reward,
            Verdict::Open => -1.0,
        }
    }

    /// The weights at the beginning: everything to the processors.
    pub fn first_weights(&self) -> Weights {
        Weights { cpu: self.max_weight, accelerator: 0 }
    }

    fn apply(&self, w: Weights, action: Action) -> Weights {
        let accelerator = match action {
            Action::Raise => (w.accelerator + 1).min(self.max_weight),
            Action::Lower => w.accelerator.saturating_sub(1),
            Action::Keep => w.accelerator,
        };
        Weights { accelerator, ..w }
    }

    /// The table's row of a state.
    fn row(&self, o: &Observation, w: Weights) -> usize {
        let share = (o.cpu_mean_percent() / 100.0 * self.ranges as f64).max(0.0) as usize;
        share.min(self.ranges - 1) * 2 + usize::from(w.accelerator > 0)
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Weights from now on.
    pub weights: Weights,
    /// How those before were judged.
    pub verdict: Verdict,
    /// Reward of the action before, if there was one.
    pub reward: Option<f64>,
}

/// A learner of weights: stepped once per interval with the observations under the weights in force.
pub trait Weigher: Send {
    /// The weights in force.
    fn weights(&self) -> Weights;

    /// These were decided elsewhere.
    fn set_weights(&mut self, weights: Weights);

    /// Takes the observations under the weights in force. `random` gives numbers of [0, 1).
    fn step(&mut self, o: &Observation, random: &mut dyn FnMut() -> f64) -> Step;

    /// Its table of values, if it has one.
    fn table(&self) -> Option<&QTable> {
        None
    }

    /// Its knowledge, if it is to be saved.
    fn knowledge(&self) -> Option<Knowledge> {
        None
    }

    /// How often its knowledge was updated.
    fn updates(&self) -> u64 {
        0
    }

    /// How often a guard took over.
    fn interventions(&self) -> u64 {
        0
    }

    /// Whether a guard's weights are in force.
    fn is_guarded_now(&self) -> bool {
        false
    }
}

/// Constant weights: a baseline for learners.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// How to judge.
    pub parameters: Parameters,
    /// The weights.
    pub weights: Weights,
}

impl Weigher for Fixed {
    fn weights(&self) -> Weights {
        self.weights
    }

    fn set_weights(&mut self, _: Weights) {}

    fn step(&mut self, o: &Observation, _: &mut dyn FnMut() -> f64) -> Step {
        Step { weights: self.weights, verdict: self.parameters.judge(o, self.weights), reward: None }
    }
}

/// The learning controller as published: Q-learning.
#[derive(Clone, Debug, PartialEq)]
pub struct Learner {
    parameters: Parameters,
    table: QTable,
    weights: Weights,
    /// State and action whose consequence the next observation shows, and the rate of requests then.
    pending: Option<(usize, Action, f64)>,
    /// Utilisation at the end of the last episode, if that ended well.
    settled: Option<f64>,
    /// Probability of a random action, as it is now.
    epsilon: f64,
}

impl Learner {
    /// One without any knowledge yet.
    ///
    /// # Errors
    /// A parameter is wrong.
    pub fn new(parameters: Parameters) -> Result<Self, LearnerError> {
        parameters.validate()?;
        let table = QTable::with_values(parameters.ranges, parameters.initial_value);
        Learner::with_table(parameters, table)
    }

    /// One that continues from a table.
    ///
    /// # Errors
    /// A parameter is wrong, or the table has other ranges.
    pub fn with_table(parameters: Parameters, table: QTable) -> Result<Self, LearnerError> {
        parameters.validate()?;
        if table.ranges() != parameters.ranges {
            return Err(LearnerError::Ranges(table.ranges(), parameters.ranges));
        }
        let weights = parameters.first_weights();
        Ok(Learner { parameters, table, weights, pending: None, settled: None, epsilon: parameters.epsilon })
    }

    /// The learnt table.
    pub fn table(&self) -> &QTable {
        &self.table
    }

    /// The weights in force.
    pub fn weights(&self) -> Weights {
        self.weights
    }

    /// Takes the observations under the weights in force. `random` gives numbers of [0, 1).
    pub fn step(&mut self, o: &Observation, random: &mut dyn FnMut() -> f64) -> Step {
        Weigher::step(self, o, random)
    }
}

impl Weigher for Learner {
    fn weights(&self) -> Weights {
        self.weights
    }

    fn set_weights(&mut self, weights: Weights) {
        // The effect of the learner's action will not be observed.
        if weights != self.weights {
            self.pending = None;
        }
        self.weights = weights;
    }

    fn table(&self) -> Option<&QTable> {
        Some(&self.table)
    }

    fn knowledge(&self) -> Option<Knowledge> {
        Some(Knowledge::Table(self.table.clone()))
    }

    fn updates(&self) -> u64 {
        self.table.updates()
    }

    fn step(&mut self, o: &Observation, random: &mut dyn FnMut() -> f64) -> Step {
        let p = self.parameters;
        let verdict = p.judge(o, self.weights);
        let row = p.row(o, self.weights);
        let mut reward = None;
        let rate = o.offered_per_s();
        let same_load = |then: f64| {
            p.load_change_percent == 0.0 || (rate - then).abs() <= then * p.load_change_percent / 100.0
        };
        if let Some((before, action, _)) = self.pending.take().filter(|(_, _, then)| same_load(*then)) {
            let r = p.reward(verdict);
            reward = Some(r);
            self.table.update(before, action, r + p.gamma * self.table.best_value(row), p.alpha);
        }
        // Weights that are right need no action, whatever changed.
        if verdict.is_right() {
            self.settled = Some(o.cpu_mean_percent());
            return Step { weights: self.weights, verdict, reward };
        }
        let mean = o.cpu_mean_percent();
        let changed = self.settled.is_none_or(|at| (mean - at).abs() > p.change_percent);
        if !changed && verdict != Verdict::Overload {
            return Step { weights: self.weights, verdict, reward };
        }
        // The end of an episode that went wrong: the next one begins like the first. If its first weights are the
        // cause, the learner learns from that.
        if verdict == Verdict::Overload && self.weights != p.first_weights() {
            self.weights = p.first_weights();
            self.settled = None;
            return Step { weights: self.weights, verdict, reward };
        }
        let action = if random() > self.epsilon {
            self.table.best_action(row)
        } else {
            Action::ALL[((random() * 3.0) as usize).min(2)]
        };
        self.epsilon *= p.epsilon_decay;
        self.settled = None;
        self.pending = Some((row, action, rate));
        self.weights = p.apply(self.weights, action);
        Step { weights: self.weights, verdict, reward }
    }
}
