//! Random numbers of a run: the sequence never changes between releases, so that a seed in a report repeats the run it
//! came from.

use pointsman_wire::Random;
use pointsman_wire::random::{finish, fnv};

/// A generator for one part of a run.
#[derive(Clone, Debug)]
pub struct Rng(Random);

impl Rng {
    /// The generator for one named part of a run: parts draw independently of each other.
    pub fn for_part(seed: u64, part: &str) -> Self {
        Self(Random::new(finish(seed ^ finish(fnv(part.bytes())))))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_has_mean_and_variance_one() {
        let mut rng = Rng::for_part(1, "test");
        let n = 100_000;
        let draws: Vec<f64> = (0..n).map(|_| rng.exponential()).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn parts_differ_and_unit_stays_in_range() {
        let (mut a, mut b) = (Rng::for_part(1, "a"), Rng::for_part(1, "b"));
        assert_ne!(a.next_u64(), b.next_u64());
        assert!((0..10_000).map(|_| a.unit()).all(|u| u > 0.0 && u <= 1.0));
    }
}
