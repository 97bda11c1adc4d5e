//! When requests come: open loops, which do not wait for answers.

use crate::random::{Ahead, Stream, rounded};
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
    /// Poisson at a rate that changes from step to step, in their order and over again.
    Steps {
        /// The rates.
        rates_per_s: Arc<[f64]>,
        /// How long each lasts, in nanoseconds.
        step_ns: u64,
    },
    /// Poisson at a rate that swings around a mean like a sine.
    Diurnal {
        /// Mean rate.
        rate_per_s: f64,
        /// How far it swings, as a share of the mean, 0 to 1.
        swing: f64,
        /// One period in nanoseconds, which begins at the mean, rising.
        period_ns: u64,
    },
    /// At recorded times (nanoseconds since the start, in order), then no more.
    Trace {
        /// The times.
        times_ns: Arc<[u64]>,
    },
}

impl ArrivalModel {
    /// The expected number of arrivals in this many nanoseconds.
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
            ArrivalModel::Steps { rates_per_s, step_ns } => {
                let all: f64 = rates_per_s.iter().sum();
                let mean = all / rates_per_s.len() as f64;
                // Whole rounds, and the remainder at the largest rate: rather too many than too few.
                let round = *step_ns as f64 * rates_per_s.len() as f64;
                let rounds = (ns as f64 / round).floor();
                let most = rates_per_s.iter().copied().fold(0.0, f64::max);
                let rest =
                    (ns as f64 - rounds * round).max(0.0) / SECOND * if rounds > 0.0 { mean } else { most };
                rounds * round / SECOND * mean + rest
            }
            ArrivalModel::Diurnal { rate_per_s, swing, .. } => rate_per_s * (1.0 + swing) * seconds,
            ArrivalModel::Trace { times_ns } => times_ns.iter().filter(|t| **t <= ns).count() as f64,
        }
    }
}

/// A process that runs.
#[derive(Debug)]
pub struct Arrivals {
    model: ArrivalModel,
    random: Stream,
    ahead: Ahead,
    /// Multiplies the rate; changed by events.
    pub factor: f64,
    start: u64,
    state: usize,
    state_ends: u64,
}

impl Arrivals {
    /// All arrivals of a process before `end_ns`, from time 0 on, in nanoseconds.
    pub fn all(model: &ArrivalModel, end_ns: u64, random: Stream) -> Vec<u64> {
        let mut arrivals = Arrivals::new(model, 0, random);
        let (mut times, mut now) = (Vec::new(), 0);
        while let Some(at) = arrivals.next(now, times.len() as u64).filter(|at| *at < end_ns) {
            times.push(at);
            now = at;
        }
        times
    }

    /// A process that begins now.
    pub fn new(model: &ArrivalModel, now: u64, mut random: Stream) -> Self {
        let state_ends = match model {
            ArrivalModel::Mmpp { states } => now.saturating_add((states[0].1 * random.exponential()) as u64),
            _ => 0,
        };
        let ahead = Ahead::default();
        Arrivals { model: model.clone(), random, ahead, factor: 1.0, start: now, state: 0, state_ends }
    }

    /// The rate at this time.
    pub fn rate_per_s(&self, now: u64) -> f64 {
        let since = now.saturating_sub(self.start);
        self.factor
            * match &self.model {
                ArrivalModel::Poisson { rate_per_s } | ArrivalModel::NearConstant { rate_per_s, .. } => {
                    *rate_per_s
                }
                ArrivalModel::Mmpp { states } => states[self.state].0,
                ArrivalModel::Steps { rates_per_s, step_ns } => {
                    rates_per_s[(since / step_ns) as usize % rates_per_s.len()]
                }
                ArrivalModel::Diurnal { rate_per_s, swing, period_ns } => {
                    let turns = (since % period_ns) as f64 / *period_ns as f64;
                    rate_per_s * (1.0 + swing * libm::sin(std::f64::consts::TAU * turns))
                }
                ArrivalModel::Trace { times_ns } => {
                    // Over two seconds around it.
                    let second = SECOND as u64;
                    let upto = |t: u64| times_ns.partition_point(|at| *at < t);
                    (upto(since + second) - upto(since.saturating_sub(second))) as f64 / 2.0
                }
            }
    }

    /// When the next one comes after one at `now` (or after the beginning), the `n`-th of all.
    pub fn next(&mut self, now: u64, n: u64) -> Option<u64> {
        let factor = self.factor;
        match &self.model {
            ArrivalModel::Poisson { rate_per_s } => {
                let gap = self.ahead.next(|| self.random.exponential()) * SECOND / (rate_per_s * factor);
                Some(now.saturating_add(rounded(gap)))
            }
            ArrivalModel::NearConstant { rate_per_s, jitter } => {
                let spread = 1.0 + jitter * (2.0 * self.random.unit() - 1.0);
                Some(now.saturating_add(rounded(spread * SECOND / (rate_per_s * factor))))
            }
            ArrivalModel::Mmpp { states } => {
                let mut from = now;
                loop {
                    let rate = states[self.state].0 * factor;
                    let gap = self.random.exponential() * SECOND / rate;
                    let at = from.saturating_add(rounded(gap));
                    if rate > 0.0 && at <= self.state_ends {
                        return Some(at);
                    }
                    // Memoryless: the rest of the gap may be drawn again.
                    from = self.state_ends;
                    self.state = (self.state + 1) % states.len();
                    let lasts = rounded(states[self.state].1 * self.random.exponential());
                    self.state_ends = from.saturating_add(lasts.max(1));
                    if from == u64::MAX {
                        return None;
                    }
                }
            }
            ArrivalModel::Steps { step_ns, .. } => {
                let step_ns = *step_ns;
                let mut from = now;
                // Nowhere is the rate above 0: bounded, so that this ends.
                for _ in 0..1_000_000 {
                    let ends = self.start + ((from - self.start) / step_ns + 1) * step_ns;
                    let rate = self.rate_per_s(from);
                    let at = from.saturating_add(rounded(self.random.exponential() * SECOND / rate));
                    if rate > 0.0 && at < ends {
                        return Some(at);
                    }
                    from = ends;
                }
                None
            }
            ArrivalModel::Diurnal { rate_per_s, swing, .. } => {
                // Of arrivals at the largest rate, as many as the rate is a share of it (thinning).
                let most = rate_per_s * (1.0 + swing) * factor;
                let mut at = now;
                for _ in 0..1_000_000 {
                    at = at.saturating_add(rounded(self.random.exponential() * SECOND / most));
                    if self.random.unit() * most < self.rate_per_s(at) {
                        return Some(at);
                    }
                }
                None
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
        let rates_per_s = [500.0, 0.0, 2500.0].into();
        check(ArrivalModel::Steps { rates_per_s, step_ns: 50_000_000 }, 1000.0, 1.5..500.0);
    }

    /// A quarter of the requests of a day come in its slow half where the swing is a quarter of pi.
    #[test]
    fn days() {
        let model = ArrivalModel::Diurnal {
            rate_per_s: 1000.0,
            swing: std::f64::consts::FRAC_PI_4,
            period_ns: 1_000_000_000,
        };
        let mut a = Arrivals::new(&model, 0, Stream::new(3, Part::Arrivals, 0));
        let (mut now, mut slow, mut all) = (0, 0u32, 0u32);
        while let Some(at) = a.next(now, 0).filter(|at| *at < 100_000_000_000) {
            now = at;
            all += 1;
            slow += u32::from(at % 1_000_000_000 > 500_000_000);
        }
        let share = f64::from(slow) / f64::from(all);
        assert!((share - 0.25).abs() < 0.01 && (98_500..101_500).contains(&all), "{share} of {all}");
        assert!((a.rate_per_s(250_000_000) - 1785.4).abs() < 0.1);
    }

    #[test]
    fn traces() {
        let model = ArrivalModel::Trace { times_ns: [5, 5, 9].into() };
        let mut a = Arrivals::new(&model, 100, Stream::new(3, Part::Arrivals, 0));
        let got: Vec<_> = (0..4).map(|n| a.next(100, n)).collect();
        assert_eq!(got, [Some(105), Some(105), Some(109), None]);
    }
}
