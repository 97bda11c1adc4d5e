//! Random numbers: one independent stream for every part of a simulation, so that a change to one part (another policy,
//! one more device) leaves the draws of all others as they are.
//!
//! Logarithms and exponentials come from `libm`, not from the machine's C library, so that a run is the same everywhere.

use pointsman_wire::random::{STEP, finish};
use rand_core::RngCore;
use rand_pcg::Pcg64;

/// Whose draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Part {
    /// When a client's requests come.
    Arrivals = 1,
    /// How long a device serves.
    Service = 2,
    /// The losses of a link.
    Link = 3,
    /// An agent's clock.
    Clock = 4,
    /// Which reports are lost.
    Reports = 5,
    /// The switch's own.
    Switch = 6,
    /// A learning policy.
    Learner = 7,
    /// The oracle's draws of service times.
    Oracle = 8,
    /// Sequence numbers of TCP.
    Transport = 9,
}

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64);

impl Stream {
    /// The stream of the `index`-th of its kind. Generators with different stream numbers never share a sequence.
    pub fn new(seed: u64, part: Part, index: u64) -> Self {
        let high = u128::from(finish(seed ^ STEP));
        let low = u128::from(finish(seed.wrapping_add(part as u64).wrapping_add(index << 8)));
        Stream(Pcg64::new(high << 64 | low, u128::from(part as u64) << 64 | u128::from(index)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number of [0, 1), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number of (0, 1], which has a logarithm.
    fn positive(&mut self) -> f64 {
        1.0 - self.unit()
    }

    /// Whether something happens that does so with this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // Multiply and shift: the bias is below n / 2^64.
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// From the exponential distribution with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.positive())
    }

    /// From the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(self.positive())).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

/// To the next whole number, halves up: equals `x.round() as u64`, without a call. 0 for negative numbers and NaN.
#[inline]
pub fn rounded(x: f64) -> u64 {
    let whole = x as u64;
    // Exact: a number without its whole part has no more digits than before.
    whole.saturating_add(u64::from(x - whole as f64 >= 0.5))
}

/// Draws made in advance, for a stream that is used for nothing else: the next one is ready long before it is needed,
/// and several at a time take less than each by itself.
#[derive(Debug, Default)]
pub struct Ahead {
    draws: [f64; 8],
    left: usize,
}

impl Ahead {
    /// The next draw; `draw` makes several ahead.
    #[inline]
    pub fn next(&mut self, draw: impl FnMut() -> f64) -> f64 {
        if self.left == 0 {
            self.refill(draw);
        }
        self.left -= 1;
        self.draws[self.left]
    }

    #[inline(never)]
    fn refill(&mut self, mut draw: impl FnMut() -> f64) {
        self.left = self.draws.len();
        self.draws.iter_mut().rev().for_each(|to| *to = draw());
    }
}

/// A distribution of times, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Deterministic {
        /// That time.
        mean_ns: f64,
    },
    /// Without memory.
    Exponential {
        /// Mean.
        mean_ns: f64,
    },
    /// The logarithm is normal.
    LogNormal {
        /// Mean of the time itself, not of its logarithm.
        mean_ns: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Any of these, each as likely as the others. Never empty.
    Empirical {
        /// The times.
        values_ns: std::sync::Arc<[f64]>,
    },
}

impl Distribution {
    /// A draw.
    pub fn draw(&self, stream: &mut Stream) -> f64 {
        match self {
            Distribution::Deterministic { mean_ns } => *mean_ns,
            Distribution::Exponential { mean_ns } => mean_ns * stream.exponential(),
            Distribution::LogNormal { mean_ns, sigma } => {
                // The mean of exp(N(m, s)) is exp(m + s^2/2).
                mean_ns * libm::exp(sigma * stream.normal() - sigma * sigma / 2.0)
            }
            Distribution::Empirical { values_ns } => values_ns[stream.below(values_ns.len() as u64) as usize],
        }
    }

    /// The mean.
    pub fn mean_ns(&self) -> f64 {
        match self {
            Distribution::Deterministic { mean_ns }
            | Distribution::Exponential { mean_ns }
            | Distribution::LogNormal { mean_ns, .. } => *mean_ns,
            Distribution::Empirical { values_ns } => values_ns.iter().sum::<f64>() / values_ns.len() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding() {
        let mut s = Stream::new(1, Part::Service, 0);
        let draws = (0..100_000).map(|i| s.unit() * (1u64 << (i % 64)) as f64 * 1.9);
        let halves = (0..1000).map(|i| f64::from(i) / 2.0);
        let odd =
            [0.499_999_999_999_999_94, 4_503_599_627_370_495.5, 9_007_199_254_740_991.0, 1e300, -0.7, -3.0];
        let last = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 18_446_744_073_709_550_000.0];
        for x in draws.chain(halves).chain(odd).chain(last) {
            assert_eq!(rounded(x), x.round() as u64, "{x}");
        }
    }

    /// Mean and squared coefficient of variation of many draws.
    fn check(d: &Distribution, mean: f64, scv: f64) {
        let mut s = Stream::new(1, Part::Service, 0);
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|_| d.draw(&mut s)).collect();
        let m = draws.iter().sum::<f64>() / f64::from(n);
        let v = draws.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / f64::from(n);
        assert!((m / mean - 1.0).abs() < 0.02, "{d:?}: mean {m}, not {mean}");
        assert!((v / (m * m) - scv).abs() < 0.05 * (1.0 + scv), "{d:?}: scv {}, not {scv}", v / (m * m));
        assert!((d.mean_ns() / mean - 1.0).abs() < 1e-9);
    }

    #[test]
    fn moments() {
        check(&Distribution::Deterministic { mean_ns: 5e6 }, 5e6, 0.0);
        check(&Distribution::Exponential { mean_ns: 5e6 }, 5e6, 1.0);
        check(&Distribution::LogNormal { mean_ns: 5e6, sigma: 0.5 }, 5e6, libm::exp(0.25) - 1.0);
        check(&Distribution::Empirical { values_ns: [1.0, 3.0].into() }, 2.0, 0.25);
    }

    /// Equal seeds give equal numbers; another seed, part or index gives others. The values are fixed for ever.
    #[test]
    fn streams() {
        let first = |seed, part, index| Stream::new(seed, part, index).bits();
        let base = first(1, Part::Arrivals, 0);
        assert_eq!(base, first(1, Part::Arrivals, 0));
        for other in [first(2, Part::Arrivals, 0), first(1, Part::Service, 0), first(1, Part::Arrivals, 1)] {
            assert_ne!(base, other);
        }
        let mut s = Stream::new(42, Part::Link, 3);
        let got: Vec<u64> = (0..3).map(|_| s.bits()).collect();
        let expected = [12_116_011_853_271_426_974, 16_919_226_012_997_270_557, 17_283_433_897_035_346_166];
        assert_eq!(got, expected, "streams changed: every recorded result would");
    }
}
