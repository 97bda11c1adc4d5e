//! A small seeded generator of pseudo-random numbers whose sequence never changes between releases,
//! so that a seed in a report repeats the run it came from.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

/// The finaliser of SplitMix64: a bijection of 64-bit values that mixes well.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// A generator for one named part of a run: parts draw independently of each other.
    pub fn for_part(seed: u64, part: &str) -> Self {
        let label = part
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        Self(mix(seed ^ mix(label)))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
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
    fn sequence_is_fixed() {
        // Reference values of SplitMix64 for seed 1234567.
        let mut rng = Rng(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

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
