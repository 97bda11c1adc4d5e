//! When the open-loop generator's requests leave.

use crate::rng::Rng;
use std::sync::Arc;
use std::time::Duration;

/// How the times between requests vary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent users: random times, exponentially distributed gaps.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Poisson at a rate that changes: a fifth of the time at twice the mean, else at three quarters of it. A burst lasts
    /// 200 ms on average.
    Bursty,
    /// At these times from the start, in order. Rate and duration give their number and the last possible time.
    Listed(Arc<[Duration]>),
}

/// Mean duration of a burst, and of the time between two.
const BURST: (f64, f64) = (0.2, 0.8);
/// The rates of both, times the mean.
const BURST_RATE: (f64, f64) = (2.0, 0.75);

impl Arrivals {
    /// `rate_rps` times `duration` times (rounded), in order. Uniformly random times in order are a Poisson process with a known
    /// count, so the offered rate is the requested one.
    pub fn times(&self, rate_rps: f64, duration: Duration, seed: u64) -> Vec<Duration> {
        if let Arrivals::Listed(times) = self {
            return times.to_vec();
        }
        let count = (rate_rps * duration.as_secs_f64()).round() as u64;
        let mut rng = Rng::for_part(seed, "arrivals");
        let bursts = match self {
            Arrivals::Bursty => bursts(duration.as_secs_f64(), &mut rng),
            _ => Vec::new(),
        };
        let mut times: Vec<Duration> = (0..count)
            .map(|i| match self {
                Arrivals::Constant => Duration::from_secs_f64(i as f64 / rate_rps),
                Arrivals::Bursty => within(&bursts, rng.unit()),
                _ => duration.mul_f64(rng.unit()),
            })
            .collect();
        times.sort_unstable();
        times
    }
}

/// Periods of bursty arrivals: when each ends, and how many requests have come by then, relative to the others.
fn bursts(duration_s: f64, rng: &mut Rng) -> Vec<(f64, f64)> {
    let (mut at, mut sum, mut out, mut burst) = (0.0, 0.0, Vec::new(), rng.unit() < 0.2);
    while at < duration_s {
        let (mean, rate) = if burst { (BURST.0, BURST_RATE.0) } else { (BURST.1, BURST_RATE.1) };
        let lasts = (rng.exponential() * mean).min(duration_s - at);
        at += lasts;
        sum += lasts * rate;
        out.push((at, sum));
        burst = !burst;
    }
    out
}

/// The time at which this share of all requests has come.
fn within(bursts: &[(f64, f64)], share: f64) -> Duration {
    let all = bursts.last().map_or(0.0, |(_, sum)| *sum);
    let wanted = share * all;
    let i = bursts.partition_point(|(_, sum)| *sum < wanted);
    let (from, before) = i.checked_sub(1).and_then(|i| bursts.get(i)).copied().unwrap_or((0.0, 0.0));
    let Some((to, sum)) = bursts.get(i).copied() else { return Duration::from_secs_f64(from) };
    let part = if sum > before { (wanted - before) / (sum - before) } else { 0.0 };
    Duration::from_secs_f64(from + part * (to - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_repeat_and_have_the_rate() {
        let schedule = |arrivals: &Arrivals, rate, seed| arrivals.times(rate, Duration::from_secs(10), seed);
        let poisson = schedule(&Arrivals::Poisson, 1000.0, 1);
        assert_eq!(poisson, schedule(&Arrivals::Poisson, 1000.0, 1));
        assert_ne!(poisson, schedule(&Arrivals::Poisson, 1000.0, 2));
        assert_eq!(poisson.len(), 10_000);
        assert!(poisson.windows(2).all(|w| w[0] <= w[1]));
        // Gaps of a Poisson process: as wide a spread as the mean.
        let gaps: Vec<f64> = poisson.windows(2).map(|w| (w[1] - w[0]).as_secs_f64() * 1e3).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.01 && (deviation - 1.0).abs() < 0.05, "{mean} {deviation}");
        // Bursts spread more than chance alone, and lose nothing.
        let counts = |times: &[Duration]| {
            let mut per_100_ms = [0.0f64; 100];
            times.iter().for_each(|t| per_100_ms[(t.as_millis() / 100).min(99) as usize] += 1.0);
            per_100_ms.iter().map(|n| (n - 100.0).powi(2)).sum::<f64>() / 100.0 / 100.0
        };
        let bursty = schedule(&Arrivals::Bursty, 1000.0, 1);
        assert_eq!(bursty.len(), 10_000);
        assert!(bursty.last().is_some_and(|t| *t <= Duration::from_secs(10)));
        assert!(counts(&poisson) < 2.0 && counts(&bursty) > 5.0, "{} {}", counts(&poisson), counts(&bursty));
        let times: Arc<[Duration]> = [Duration::from_millis(3), Duration::from_millis(9)].into();
        let listed = schedule(&Arrivals::Listed(times.clone()), 1000.0, 1);
        assert_eq!(listed, *times);
        let constant = schedule(&Arrivals::Constant, 100.0, 1);
        assert_eq!(constant.len(), 1000);
        assert_eq!(constant[10], Duration::from_millis(100));
    }
}
