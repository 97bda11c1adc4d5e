//! A contextual bandit with Thompson sampling: for every level of load it keeps a guess of what each weight is worth and how sure
//! it is of that, draws from these guesses, and takes the best draw. What is known well is used, what might be better is
//! tried, and no more often than it might. Latency over weights has one valley, so only the best one known and its two
//! neighbours are drawn for.

use super::{Observation, Parameters, Step, Verdict, Weigher, Weights};
use std::collections::BTreeMap;

/// Levels of load are so much apart.
const LEVEL: f64 = 1.12;
/// What nobody has tried counts as if it had been seen to be worth this, so often.
const PRIOR: (f64, f64) = (0.5, 0.5);
/// Standard deviation of one observation of worth.
const NOISE: f64 = 0.1;
/// What was seen counts less with every later observation of its level: racks change.
const MEMORY: f64 = 0.995;
/// An observation that is so far from what was believed says that the rack did change: its level begins anew.
const SURPRISE: f64 = 0.4;
/// Observations that make a belief.
const BELIEF: f64 = 4.0;
/// How much a neighbouring level's observations count.
const NEIGHBOUR: f64 = 0.3;

#[derive(Clone, Copy, Debug, Default)]
struct Guess {
    sum: f64,
    n: f64,
}

/// The bandit.
#[derive(Clone, Debug)]
pub struct Bandit {
    parameters: Parameters,
    weights: Weights,
    /// By level of load: a guess for every weight of accelerators.
    levels: BTreeMap<i32, Vec<Guess>>,
}

/// The level of load: requests per second and processor, on a logarithmic scale.
fn level(per_s: f64) -> i32 {
    let (mut level, mut at) = (0, 1.0);
    // Not `ln`: its last bit depends on the machine.
    while at * LEVEL <= per_s && level < 400 {
        at *= LEVEL;
        level += 1;
    }
    while at > per_s && level > -400 {
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
    /// One that knows nothing yet.
    ///
    /// # Errors
    /// A parameter is wrong.
    pub fn new(parameters: Parameters) -> Result<Self, String> {
        parameters.validate()?;
        Ok(Bandit { parameters, weights: parameters.first_weights(), levels: BTreeMap::new() })
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
        let of = |l: i32| self.levels.get(&l).and_then(|g| g.get(arm)).copied().unwrap_or_default();
        let mut all = of(level);
        for neighbour in [of(level - 1), of(level + 1)] {
            // However much is known there, it is no more than a hint.
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

    fn step(&mut self, o: &Observation, random: &mut dyn FnMut() -> f64) -> Step {
        let verdict = self.parameters.judge(o, self.weights);
        let worth = self.worth(o, verdict);
        let at = level(o.offered_per_s());
        let arms = self.parameters.max_weight as usize + 1;
        let guesses = self.levels.entry(at).or_insert_with(|| vec![Guess::default(); arms]);
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
