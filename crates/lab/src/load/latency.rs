//! Latencies of a run, exact: every request is in the distribution, the lost ones with their time-out.

use std::fmt;
use std::time::Duration;

/// The nearest-rank percentile of values in ascending order: the smallest one that at least `percent` of all do not exceed.
/// `None` without values.
pub fn nearest_rank<T: Copy>(ascending: &[T], percent: f64) -> Option<T> {
    let rank = (percent * ascending.len() as f64 / 100.0).ceil() as usize;
    ascending.get(rank.clamp(1, ascending.len().max(1)) - 1).copied()
}

/// All latencies of a run, in ascending order. Made by collecting durations.
#[derive(Clone, Default)]
pub struct Latencies(Vec<u64>);

impl FromIterator<Duration> for Latencies {
    fn from_iter<I: IntoIterator<Item = Duration>>(latencies: I) -> Self {
        let nanoseconds = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let mut sorted: Vec<u64> = latencies.into_iter().map(nanoseconds).collect();
        sorted.sort_unstable();
        Self(sorted)
    }
}

impl Latencies {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The nearest-rank percentile. Zero without values.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(nearest_rank(&self.0, percent).unwrap_or(0))
    }

    /// The mean. Zero without values.
    pub fn mean(&self) -> Duration {
        let sum: u128 = self.0.iter().map(|ns| u128::from(*ns)).sum();
        Duration::from_nanos((sum / self.len().max(1) as u128) as u64)
    }

    /// The largest.
    pub fn max(&self) -> Duration {
        self.percentile(100.0)
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |percent| self.percentile(percent);
        write!(f, "{} latencies, p50 {:?}, p99 {:?}, max {:?}", self.len(), at(50.0), at(99.0), at(100.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[u64], percent: f64, expected: u64) {
        let latencies: Latencies = values.iter().map(|&v| Duration::from_millis(v)).collect();
        assert_eq!(latencies.percentile(percent), Duration::from_millis(expected));
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).rev().collect();
        check(&hundred, 50.0, 50);
        check(&hundred, 99.0, 99);
        check(&hundred, 100.0, 100);
        check(&hundred, 0.0, 1);
        (1..=100).for_each(|percent| check(&hundred, percent as f64, percent));
        check(&[7], 99.0, 7);
        check(&[], 99.0, 0);
        let mean =
            |values: &[u64]| values.iter().map(|&v| Duration::from_millis(v)).collect::<Latencies>().mean();
        assert_eq!((mean(&[1, 2, 6]), mean(&[])), (Duration::from_millis(3), Duration::ZERO));
        // One lost request of fifty is the 99th percentile.
        check(&[[1; 49].as_slice(), &[500]].concat(), 99.0, 500);
    }
}
