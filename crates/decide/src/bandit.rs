//! A contextual bandit with Thompson sampling: for every level of load it estimates the value of each weight and the
//! uncertainty of that estimate, draws from these distributions, and takes the best draw. Good weights are used, and
//! weights that might be better are tried as often as they might be. Latency over weights has one valley, so only the
//! best known weight and its two neighbours are drawn for.

use super::lines::{Lines, MAX_UPDATES, numbers, wrong};
use super::{Knowledge, LearnerError, Observation, Parameters, Step, TableError, Verdict, Weigher, Weights};
use std::collections::BTreeMap;
use std::fmt;

/// Distance between levels of load.
const LEVEL: f64 = 1.12;
/// Untried weights count as observed this often with this worth.
const PRIOR: (f64, f64) = (0.5, 0.5);
/// Standard deviation of one observation of worth.
const NOISE: f64 = 0.1;
/// An observation counts less with every later one of its level: racks change.
const MEMORY: f64 = 0.995;
/// An observation this far from the estimate means that the rack changed: its level starts over.
const SURPRISE: f64 = 0.4;
/// Observations that make a belief.
const BELIEF: f64 = 4.0;
/// How much a neighbouring level's observations count.
const NEIGHBOUR: f64 = 0.3;

/// Levels are between this and its negative.
const MAX_LEVEL: i32 = 400;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Guess {
    sum: f64,
    n: f64,
}

/// A bandit's knowledge: by level of load, the value of each weight of accelerators.
///
/// ```text
/// pointsman thompson 1
/// weights 7
/// updates 120
/// levels 2
/// 41 0 0 1.9 2 0.3 1 0 0 0 0 0 0 0 0
/// ...
/// ```
///
/// Version; number of weights, 0 included; observations so far; number of levels; then a line for each level: its
/// number, and for every weight the sum of its observed values and their count, both discounted by age.
#[derive(Clone, Debug, PartialEq)]
pub struct Guesses {
    /// How many weights there are.
    weights: usize,
    updates: u64,
    levels: BTreeMap<i32, Vec<Guess>>,
}

pub(crate) const HEAD: &str = "pointsman thompson";
const VERSION: &str = "1";

impl Guesses {
    fn new(parameters: &Parameters) -> Self {
        Guesses { weights: parameters.max_weight as usize + 1, updates: 0, levels: BTreeMap::new() }
    }

    /// Observations so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The largest weight of accelerators that it is about.
    pub fn max_weight(&self) -> usize {
        self.weights - 1
    }

    /// The text for a file. Reading it gives the same values, bit for bit.
    pub fn save(&self) -> String {
        let (weights, levels) = (self.weights, self.levels.len());
        let mut out =
            format!("{HEAD} {VERSION}\nweights {weights}\nupdates {}\nlevels {levels}\n", self.updates);
        for (level, guesses) in &self.levels {
            out.push_str(&level.to_string());
            guesses.iter().for_each(|g| out.push_str(&format!(" {} {}", g.sum, g.n)));
            out.push('\n');
        }
        out
    }

    pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Self, TableError> {
        lines.head(HEAD, VERSION, "the state of `thompson`")?;
        let at = lines.number();
        let weights = lines.whole("weights", 256)? as usize;
        if weights < 2 {
            return wrong(at, format!("`weights {weights}`: at least 2, with 0 and 1"));
        }
        let updates = lines.whole("updates", MAX_UPDATES)?;
        let n = lines.whole("levels", 2 * MAX_LEVEL as u64 + 1)?;
        let mut levels: BTreeMap<i32, Vec<Guess>> = BTreeMap::new();
        for _ in 0..n {
            let (line, text) = lines.next("a level")?;
            let mut words = text.split_ascii_whitespace();
            let level = words.next().and_then(|w| w.parse().ok());
            let Some(level) = level.filter(|l| (-MAX_LEVEL..=MAX_LEVEL).contains(l)) else {
                return wrong(
                    line,
                    format!("`{text}`: write a level from -{MAX_LEVEL} to {MAX_LEVEL} and its guesses"),
                );
            };
            if levels.last_key_value().is_some_and(|(last, _)| *last >= level) {
                return wrong(line, format!("level {level} follows a higher or an equal one"));
            }
            // Worth is between 0 and 1, so its sum does not exceed the count, apart from rounding.
            let good = |g: &Guess| g.n >= 0.0 && g.sum >= 0.0 && g.sum <= g.n * (1.0 + 1e-9);
            let guesses = numbers(words, 2 * weights)
                .map(|v| v.chunks_exact(2).map(|c| Guess { sum: c[0], n: c[1] }).collect::<Vec<_>>());
            let Some(guesses) = guesses.filter(|all| all.iter().all(good)) else {
                return wrong(
                    line,
                    format!(
                        "write level {level} and, for each of {weights} weights, a sum and a count not below it"
                    ),
                );
            };
            levels.insert(level, guesses);
        }
        lines.end("more lines than levels")?;
        Ok(Guesses { weights, updates, levels })
    }

    /// Requests per second and processor of a level.
    fn rates(level: i32) -> (f64, f64) {
        (LEVEL.powi(level), LEVEL.powi(level + 1))
    }

    /// The estimated value of each weight at every level, as CSV with a header.
    pub fn csv(&self) -> String {
        let mut out = "from_per_s,to_per_s,weight,worth,observations\n".to_string();
        for (level, guesses) in &self.levels {
            let (from, to) = Guesses::rates(*level);
            for (weight, g) in guesses.iter().enumerate() {
                let worth = if g.n > 0.0 { (g.sum / g.n).to_string() } else { String::new() };
                out.push_str(&format!("{from},{to},{weight},{worth},{}\n", g.n));
            }
        }
        out
    }
}

/// For people: one line for each level of load.
impl fmt::Display for Guesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "thompson: {} levels of load, {} updates", self.levels.len(), self.updates)?;
        write!(f, "{:>20}  best", "per_s_and_processor")?;
        (0..self.weights).try_for_each(|w| write!(f, " {:>6}", format!("x:{w}")))?;
        writeln!(f)?;
        for (level, guesses) in &self.levels {
            let (from, to) = Guesses::rates(*level);
            let mean = |g: &Guess| if g.n > 0.0 { g.sum / g.n } else { f64::NEG_INFINITY };
            let best =
                (0..guesses.len()).fold(0, |b, i| if mean(&guesses[i]) > mean(&guesses[b]) { i } else { b });
            write!(f, "{:>20}  {best:>4}", format!("{from:.4} to {to:.4}"))?;
            for g in guesses {
                match g.n > 0.0 {
                    true => write!(f, " {:>6.3}", g.sum / g.n)?,
                    false => write!(f, " {:>6}", "-")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The bandit.
#[derive(Clone, Debug)]
pub struct Bandit {
    parameters: Parameters,
    weights: Weights,
    known: Guesses,
}

/// The level of load: requests per second and processor, on a logarithmic scale.
fn level(per_s: f64) -> i32 {
    let (mut level, mut at) = (0, 1.0);
    // Not `ln`: its last bit depends on the machine.
    while at * LEVEL <= per_s && level < MAX_LEVEL {
        at *= LEVEL;
        level += 1;
    }
    while at > per_s && level > -MAX_LEVEL {
        at /= LEVEL;
        level -= 1;
    }
    level
}

/// Nearly normal (Irwin and Hall), without logarithms.
fn normal(random: &mut dyn FnMut() -> f64) -> f64 {
    (0..12).map(|_| random()).sum::<f64>() - 6.0
}

impl Bandit {
    /// One without any knowledge yet.
    ///
    /// # Errors
    /// A parameter is wrong.
    pub fn new(parameters: Parameters) -> Result<Self, LearnerError> {
        Bandit::with(parameters, Guesses::new(&parameters))
    }

    /// One that continues from earlier knowledge.
    ///
    /// # Errors
    /// A parameter is wrong, or the knowledge is about other weights.
    pub fn with(parameters: Parameters, known: Guesses) -> Result<Self, LearnerError> {
        parameters.validate()?;
        if known.max_weight() != parameters.max_weight as usize {
            return Err(LearnerError::MaxWeight(known.max_weight(), parameters.max_weight));
        }
        Ok(Bandit { parameters, weights: parameters.first_weights(), known })
    }

    /// From 0 to 1. An overload is worth nothing; otherwise it is latency that counts, right weights a little more.
    fn worth(&self, o: &Observation, verdict: Verdict) -> f64 {
        if verdict == Verdict::Overload {
            return 0.0;
        }
        let fast = self.parameters.latency_ms / (self.parameters.latency_ms + o.p99_ms.max(0.0));
        0.4 * fast + if verdict.is_right() { 0.6 } else { 0.0 }
    }

    fn guess(&self, level: i32, arm: usize) -> Guess {
        let of = |l: i32| self.known.levels.get(&l).and_then(|g| g.get(arm)).copied().unwrap_or_default();
        let mut all = of(level);
        for neighbour in [of(level - 1), of(level + 1)] {
            // However much is known there, it is only a hint.
            let share = NEIGHBOUR * (1.0 / neighbour.n.max(1.0));
            all.sum += share * neighbour.sum;
            all.n += share * neighbour.n;
        }
        Guess { sum: all.sum + PRIOR.0 * PRIOR.1, n: all.n + PRIOR.1 }
    }
}

impl Weigher for Bandit {
    fn weights(&self) -> Weights {
        self.weights
    }

    fn set_weights(&mut self, weights: Weights) {
        self.weights = weights;
    }

    fn knowledge(&self) -> Option<Knowledge> {
        Some(Knowledge::Guesses(self.known.clone()))
    }

    fn updates(&self) -> u64 {
        self.known.updates
    }

    fn step(&mut self, o: &Observation, random: &mut dyn FnMut() -> f64) -> Step {
        let verdict = self.parameters.judge(o, self.weights);
        let worth = self.worth(o, verdict);
        let at = level(o.offered_per_s());
        let arms = self.parameters.max_weight as usize + 1;
        self.known.updates = self.known.updates.saturating_add(1);
        let guesses = self.known.levels.entry(at).or_insert_with(|| vec![Guess::default(); arms]);
        for guess in guesses.iter_mut() {
            guess.sum *= MEMORY;
            guess.n *= MEMORY;
        }
        let arm = self.weights.accelerator as usize;
        if guesses.get(arm).is_some_and(|g| g.n >= BELIEF && (g.sum / g.n - worth).abs() > SURPRISE) {
            guesses.fill(Guess::default());
        }
        if let Some(guess) = guesses.get_mut(arm) {
            guess.sum += worth;
            guess.n += 1.0;
        }
        let mut best = (f64::NEG_INFINITY, 0);
        let means: Vec<f64> = (0..arms).map(|arm| self.guess(at, arm)).map(|g| g.sum / g.n).collect();
        let leader = (0..arms).fold(0, |best, arm| if means[arm] > means[best] { arm } else { best });
        for arm in leader.saturating_sub(1)..arms.min(leader + 2) {
            let guess = self.guess(at, arm);
            let draw = guess.sum / guess.n + NOISE / guess.n.sqrt() * normal(random);
            if draw > best.0 {
                best = (draw, arm as u32);
            }
        }
        self.weights.accelerator = best.1;
        Step { weights: self.weights, verdict, reward: Some(worth) }
    }
}
