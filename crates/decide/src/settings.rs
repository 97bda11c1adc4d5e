//! How a learner is described, in a scenario and in `rack.toml` alike: the table `[learn]`.

use super::{
    Bandit, Bounds, Fixed, Guard, Knowledge, Learner, LearnerError, Parameters, QTable, Rates, Weigher,
    Weights,
};
use pointsman_topology::reader::{Problems, Table};
use serde::{Serialize, Serializer};
use std::fmt;

/// A kind of learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnerKind {
    /// P4Wise as published.
    QLearning,
    /// A contextual bandit with Thompson sampling.
    Thompson,
    /// A model that fits service rates.
    ServiceRate,
    /// No learning: always the same weights.
    Fixed,
}

impl LearnerKind {
    /// All of them, with their names.
    pub const ALL: [(LearnerKind, &'static str); 4] = [
        (LearnerKind::QLearning, "q-learning"),
        (LearnerKind::Thompson, "thompson"),
        (LearnerKind::ServiceRate, "service-rate"),
        (LearnerKind::Fixed, "fixed"),
    ];

    /// Its name in files and results.
    pub fn name(self) -> &'static str {
        LearnerKind::ALL.iter().find(|(k, _)| *k == self).map_or("", |(_, name)| name)
    }
}

/// As in files.
impl Serialize for LearnerKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.name())
    }
}

impl std::str::FromStr for LearnerKind {
    type Err = UnknownLearner;

    fn from_str(text: &str) -> Result<Self, UnknownLearner> {
        let found = LearnerKind::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(kind, _)| *kind).ok_or_else(|| UnknownLearner(text.to_string()))
    }
}

/// No learner has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLearner(pub String);

impl fmt::Display for UnknownLearner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = LearnerKind::ALL.iter().map(|(_, n)| *n).collect();
        write!(f, "unknown learner `{}`: write one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownLearner {}

/// A learner and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The learner.
    pub learner: LearnerKind,
    /// How to judge and to learn.
    pub parameters: Parameters,
    /// Between decisions.
    pub interval_ns: u64,
    /// How long to wait after a decision before observing, to let old queues drain.
    pub settle_ns: u64,
    /// How often registers are read in the rest of an interval.
    pub polls: u32,
    /// Whether each class of servers has its own weights.
    pub per_class: bool,
    /// Its initial knowledge; in scenarios only.
    pub table: Option<QTable>,
    /// Weight of accelerators of the fixed learner.
    pub weight: u32,
    /// A guard around it.
    pub guard: Option<Bounds>,
}

impl Settings {
    /// The learner.
    ///
    /// # Errors
    /// Its parameters do not fit.
    pub fn weigher(&self) -> Result<Box<dyn Weigher>, LearnerError> {
        let table = self.table.as_ref().filter(|_| self.learner == LearnerKind::QLearning);
        self.weigher_with(table.map(|t| Knowledge::Table(t.clone())).as_ref())
    }

    /// The learner, which continues from earlier knowledge.
    ///
    /// # Errors
    /// Its parameters do not fit, or the knowledge does not fit them.
    pub fn weigher_with(&self, known: Option<&Knowledge>) -> Result<Box<dyn Weigher>, LearnerError> {
        let p = self.parameters;
        if let Some(known) = known {
            known.fits(self.learner, &p)?;
        }
        let inner: Box<dyn Weigher> = match (self.learner, known) {
            (_, Some(Knowledge::Table(table))) => Box::new(Learner::with_table(p, table.clone())?),
            (_, Some(Knowledge::Guesses(guesses))) => Box::new(Bandit::with(p, guesses.clone())?),
            (_, Some(Knowledge::Rates(rates))) => Box::new(Rates::with(p, rates.clone())?),
            (LearnerKind::QLearning, None) => Box::new(Learner::new(p)?),
            (LearnerKind::Thompson, None) => Box::new(Bandit::new(p)?),
            (LearnerKind::ServiceRate, None) => Box::new(Rates::new(p)?),
            (LearnerKind::Fixed, None) => {
                let weights = Weights { cpu: p.max_weight, accelerator: self.weight };
                Box::new(Fixed { parameters: p, weights })
            }
        };
        Ok(match self.guard {
            Some(bounds) => Box::new(Guard::new(inner, bounds)),
            None => inner,
        })
    }
}

/// Nanoseconds.
fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// A number within these bounds, or the default.
fn number(
    t: &mut Table<'_, '_>,
    name: &'static str,
    (min, max): (f64, f64),
    default: f64,
    problems: &mut Problems<'_>,
) -> f64 {
    t.number(name, min, max, problems).map_or(default, |v| v.value)
}

/// The same without a fraction.
fn whole(
    t: &mut Table<'_, '_>,
    name: &'static str,
    (min, max): (u64, u64),
    default: u32,
    problems: &mut Problems<'_>,
) -> u32 {
    t.integer(name, min, max, problems).map_or(default, |v| v.value as u32)
}

fn parameters(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Parameters {
    let before = Parameters::default();
    Parameters {
        ranges: whole(t, "ranges", (1, 1000), before.ranges as u32, problems) as usize,
        alpha: number(t, "alpha", (1e-6, 1.0), before.alpha, problems),
        gamma: number(t, "gamma", (0.0, 1.0), before.gamma, problems),
        epsilon: number(t, "epsilon", (0.0, 1.0), before.epsilon, problems),
        epsilon_decay: number(t, "epsilon_decay", (0.0, 1.0), before.epsilon_decay, problems),
        initial_value: number(t, "initial_value", (-1e6, 1e6), before.initial_value, problems),
        latency_ms: number(t, "latency_ms", (1e-6, 1e9), before.latency_ms, problems),
        utilisation_percent: number(
            t,
            "utilisation_percent",
            (0.0, 100.0),
            before.utilisation_percent,
            problems,
        ),
        max_reward: number(t, "max_reward", (1.0, 1e6), before.max_reward, problems),
        // Registers hold no more than 100 per cent.
        overload_percent: number(t, "overload_percent", (1.0, 100.0), 98.0, problems),
        overload_share: number(t, "overload_share", (0.0, 1.0), before.overload_share, problems),
        max_weight: whole(t, "max_weight", (1, 255), before.max_weight, problems),
        change_percent: number(t, "change_percent", (0.0, 100.0), before.change_percent, problems),
        load_change_percent: number(
            t,
            "load_change_percent",
            (0.0, 1e6),
            before.load_change_percent,
            problems,
        ),
    }
}

fn bounds(mut t: Table<'_, '_>, parameters: &Parameters, problems: &mut Problems<'_>) -> Bounds {
    let bounds = Bounds {
        p99_ms: number(&mut t, "p99_ms", (1e-6, 1e9), 2.0 * parameters.latency_ms, problems),
        loss: number(&mut t, "loss", (0.0, 1.0), 0.01, problems),
        fallback: whole(&mut t, "fallback", (0, u64::from(parameters.max_weight)), 1, problems),
        hold: whole(&mut t, "hold", (1, 100_000), 5, problems),
        max_change: whole(&mut t, "max_change", (1, 255), 2, problems),
        max_use_percent: t.number("max_use_percent", 1.0, 100.0, problems).map(|v| v.value),
    };
    t.finish(problems);
    bounds
}

/// Reads the common fields of scenarios and `rack.toml`. The caller takes the other fields of the table: `table`, which
/// is a file.
pub fn read_settings(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Settings> {
    let learner = kind(t, problems);
    let interval_ns = ns(number(t, "interval_s", (1e-3, 1e6), 1.0, problems));
    let settle = t.place_of("settle_s");
    let settle_ns = ns(number(t, "settle_s", (0.0, 1e6), 0.0, problems));
    if settle_ns >= interval_ns {
        problems.add(
            &settle,
            "learn.settle_s",
            "must be shorter than `interval_s`: nothing would be measured",
        );
    }
    let parameters = parameters(t, problems);
    let per_class = t.boolean("per_class", problems).unwrap_or(true);
    let polls = whole(t, "polls", (1, 1000), 4, problems);
    let weight = whole(t, "weight", (0, u64::from(parameters.max_weight)), 0, problems);
    let guard = t.table("guard", problems).map(|g| bounds(g, &parameters, problems));
    Some(Settings {
        learner: learner?,
        parameters,
        interval_ns,
        settle_ns,
        polls,
        per_class,
        table: None,
        weight,
        guard,
    })
}

fn kind(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<LearnerKind> {
    let quoted: Vec<String> = LearnerKind::ALL.iter().map(|(_, n)| format!("\"{n}\"")).collect();
    let remedy = format!("write one of {}", quoted.join(", "));
    if t.place_of("learner") == t.place {
        t.missing("learner", &remedy, problems);
    }
    let text = t.text::<String>("learner", "write a string", problems)?;
    let found = text.value.parse().ok();
    if found.is_none() {
        problems.add(&text.place, t.field("learner"), format!("`{}` is unknown: {remedy}", text.value));
    }
    found
}
