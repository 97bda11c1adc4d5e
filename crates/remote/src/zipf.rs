//! Load whose keys differ in popularity, by Zipf's law.

use pointsman_wire::Random;

/// Numbers from 0 on: number `n` comes with a probability of about `1 / (n + 1)^exponent`.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// The sum of the weights up to each number.
    sums: Vec<f64>,
}

impl Zipf {
    /// So many numbers, at least one. With an exponent of 0 all are equally popular.
    pub fn new(numbers: u32, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut add = |n: u32| {
            sum += f64::from(n).powf(-exponent);
            sum
        };
        Zipf { sums: (1..=numbers.max(1)).map(&mut add).collect() }
    }

    /// One of them.
    pub fn draw(&self, random: &mut Random) -> u32 {
        let all = self.sums.last().copied().unwrap_or(0.0);
        let at = random.below(1 << 53) as f64 / (1u64 << 53) as f64 * all;
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_law() {
        let mut random = Random::new(1);
        let zipf = Zipf::new(1000, 1.0);
        let mut counts = [0u32; 1000];
        (0..100_000).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
        // The harmonic number of 1,000 is 7.485.
        for n in [1u32, 2, 10, 100] {
            let (share, expected) = (f64::from(counts[n as usize - 1]), 100_000.0 / 7.485 / f64::from(n));
            assert!((share - expected).abs() < 5.0 * expected.sqrt(), "{n}: {share} instead of {expected}");
        }
        let uniform = Zipf::new(4, 0.0);
        assert!((0..100).all(|_| uniform.draw(&mut random) < 4));
        assert_eq!(Zipf::new(0, 1.0).draw(&mut random), 0);
    }
}
