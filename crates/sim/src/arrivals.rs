//! When requests come: open loops, which do not wait for answers.

use crate::random::Stream;
use std::sync::Arc;

const SECOND: f64 = 1e9;

/// A process of arrivals.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalModel {
    /// Without memory.
    Poisson {
        /// Mean rate.
        rate_per_s: f64,
    },
    /// Evenly spaced but for a share of the gap, drawn evenly from both sides.
    NearConstant {
        /// Mean rate.
        rate_per_s: f64,
        /// That share, 0 to 1.
        jitter: f64,
    },
    /// Poisson at a rate that changes from state to state, in their order and over again, each lasting a random time
    /// (exponential).
    Mmpp {
        /// Rate and mean duration in nanoseconds.
        states: Arc<[(f64, f64)]>,
    },
    /// At recorded times (nanoseconds since the start, in order), then no more.
    Trace {
        /// The times.
        times_ns: Arc<[u64]>,
    },
}

impl ArrivalModel {
    /// How many arrivals there are to be expected in so many nanoseconds.
    pub fn expected(&self, ns: u64) -> f64 {
        let seconds = ns as f64 / SECOND;
        match self {
            ArrivalModel::Poisson { rate_per_s } | ArrivalModel::NearConstant { rate_per_s, .. } => {
                rate_per_s * seconds
            }
            ArrivalModel::Mmpp { states } => {
                let time: f64 = states.iter().map(|(_, t)| t).sum();
                states.iter().map(|(r, t)| r * t).sum::<f64>() / time * seconds
            }
            ArrivalModel::Trace { times_ns } => times_ns.iter().filter(|t| **t <= ns).count() as f64,
        }
    }
}

/// A process that runs.
#[derive(Debug)]
pub struct Arrivals {
    model: ArrivalModel,
    random: Stream,
    /// Multiplies the rate; changed by events.
    pub factor: f64,
    start: u64,
    state: usize,
    state_ends: u64,
}

impl Arrivals {
    /// A process that begins now.
    pub fn new(model: &ArrivalModel, now: u64, mut random: Stream) -> Self {
        let state_ends = match model {
            ArrivalModel::Mmpp { states } => now.saturating_add((states[0].1 * random.exponential()) as u64),
            _ => 0,
        };
        Arrivals { model: model.clone(), random, factor: 1.0, start: now, state: 0, state_ends }
    }

    /// When the next one comes after one at `now` (or after the beginning), the `n`-th of all.
    pub fn next(&mut self, now: u64, n: u64) -> Option<u64> {
        let factor = self.factor;
        match &self.model {
            ArrivalModel::Poisson { rate_per_s } => {
                let gap = self.random.exponential() * SECOND / (rate_per_s * factor);
                Some(now.saturating_add(gap.round() as u64))
            }
            ArrivalModel::NearConstant { rate_per_s, jitter } => {
                let spread = 1.0 + jitter * (2.0 * self.random.unit() - 1.0);
                Some(now.saturating_add((spread * SECOND / (rate_per_s * factor)).round() as u64))
            }
            ArrivalModel::Mmpp { states } => {
                let mut from = now;
                loop {
                    let rate = states[self.state].0 * factor;
                    let gap = self.random.exponential() * SECOND / rate;
                    let at = from.saturating_add(gap.round() as u64);
                    if rate > 0.0 && at <= self.state_ends {
                        return Some(at);
                    }
                    // Without memory: what was left of the gap may be drawn anew.
                    from = self.state_ends;
                    self.state = (self.state + 1) % states.len();
                    let lasts = (states[self.state].1 * self.random.exponential()).round() as u64;
                    self.state_ends = from.saturating_add(lasts.max(1));
                    if from == u64::MAX {
                        return None;
                    }
                }
            }
            ArrivalModel::Trace { times_ns } => {
                times_ns.get(n as usize).map(|t| self.start.saturating_add(*t).max(now))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Part;

    /// Mean rate and the variance of gaps over their squared mean.
    fn check(model: ArrivalModel, rate: f64, scv: std::ops::Range<f64>) {
        let mut a = Arrivals::new(&model, 0, Stream::new(3, Part::Arrivals, 0));
        let (mut now, mut gaps) = (0, Vec::new());
        for n in 0..200_000 {
            let at = a.next(now, n).expect("endless");
            gaps.push((at - now) as f64);
            now = at;
        }
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / gaps.len() as f64;
        assert!((SECOND / mean / rate - 1.0).abs() < 0.03, "{model:?}: rate {}", SECOND / mean);
        assert!(scv.contains(&(variance / mean / mean)), "{model:?}: scv {}", variance / mean / mean);
        assert!((model.expected(2_000_000_000) - 2.0 * rate).abs() < 1e-6);
    }

    #[test]
    fn rates() {
        check(ArrivalModel::Poisson { rate_per_s: 700.0 }, 700.0, 0.97..1.03);
        check(ArrivalModel::NearConstant { rate_per_s: 700.0, jitter: 0.3 }, 700.0, 0.029..0.031);
        let states = [(2000.0, 0.05e9), (0.0, 0.05e9)].into();
        check(ArrivalModel::Mmpp { states }, 1000.0, 2.0..500.0);
    }

    #[test]
    fn traces() {
        let model = ArrivalModel::Trace { times_ns: [5, 5, 9].into() };
        let mut a = Arrivals::new(&model, 100, Stream::new(3, Part::Arrivals, 0));
        let got: Vec<_> = (0..4).map(|n| a.next(100, n)).collect();
        assert_eq!(got, [Some(105), Some(105), Some(109), None]);
    }
}
