//! Samples of one quantity, one for each seed, with mean and confidence interval.

use libm::erfc;
use pointsman_chart::number;
use pointsman_wire::Random;

/// Quantiles of Student's t distribution: 97.5 %, for 1 degree of freedom and more.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The 97.5 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The 97.5 % quantile of Student's t distribution with so many degrees of freedom; beyond the table by its expansion around the normal
/// distribution's (Abramowitz and Stegun, 26.7.5), which is exact to 0.0001 there.
pub fn t_975(freedom: usize) -> f64 {
    let known = freedom.checked_sub(1).map_or(Some(&f64::INFINITY), |i| T.get(i));
    known.copied().unwrap_or_else(|| {
        let (n, power) = (freedom as f64, |k| Z.powi(k));
        let first = (power(3) + Z) / 4.0;
        let second = (5.0 * power(5) + 16.0 * power(3) + 3.0 * Z) / 96.0;
        Z + first / n + second / (n * n)
    })
}

/// Mean and half of the 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// Mean.
    pub mean: f64,
    /// Half of the interval; `None` for a single value.
    pub half: Option<f64>,
}

impl Mean {
    /// The interval's ends; the mean itself without an interval.
    pub fn ends(&self) -> (f64, f64) {
        let half = self.half.unwrap_or(0.0);
        (self.mean - half, self.mean + half)
    }
}

impl std::fmt::Display for Mean {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&number(self.mean))?;
        self.half.map_or(Ok(()), |h| write!(f, " \u{b1} {}", number(h)))
    }
}

/// The mean of these.
pub fn mean(values: &[f64]) -> Mean {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    let half = (values.len() > 1).then(|| {
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
        t_975(values.len() - 1) * (variance / n).sqrt()
    });
    Mean { mean, half }
}

/// Skewness from which on an interval is not symmetric.
const SKEWED: f64 = 1.0;
const RESAMPLES: usize = 10_000;

/// The 95 % confidence interval of the mean: Student's t, or by bootstrap where a symmetric one makes no sense, because the samples are
/// skewed, or all on one side of zero while an end is on the other. A single sample has none: its two ends are the sample.
pub fn ci95(samples: &[f64]) -> (f64, f64) {
    let (low, high) = mean(samples).ends();
    let (all_above, all_below) = (samples.iter().all(|v| *v >= 0.0), samples.iter().all(|v| *v <= 0.0));
    let impossible = (all_above && low < 0.0) || (all_below && high > 0.0);
    if samples.len() > 1 && low < high && (impossible || skewness(samples).abs() > SKEWED) {
        bootstrap(samples)
    } else {
        (low, high)
    }
}

/// Third moment over the cube of the standard deviation.
fn skewness(samples: &[f64]) -> f64 {
    let (n, mean) = (samples.len() as f64, mean(samples).mean);
    let moment = |k: i32| samples.iter().map(|v| (v - mean).powi(k)).sum::<f64>() / n;
    let spread = moment(2).sqrt();
    if spread > 0.0 { moment(3) / spread.powi(3) } else { 0.0 }
}

/// Percentiles of resampled means, widened for small samples ("expanded percentile" interval: Hesterberg, The American
/// Statistician 69(4), 2015, section 4.3): the tails are those of the normal distribution beyond t * sqrt(n / (n - 1)).
fn bootstrap(samples: &[f64]) -> (f64, f64) {
    let n = samples.len();
    let mut random = Random::new(n as u64);
    let mut draw = || samples[random.below(n as u64) as usize];
    let mut means: Vec<f64> =
        (0..RESAMPLES).map(|_| (0..n).map(|_| draw()).sum::<f64>() / n as f64).collect();
    means.sort_by(f64::total_cmp);
    let beyond = t_975(n - 1) * (n as f64 / (n - 1) as f64).sqrt();
    let tail = 0.5 * erfc(beyond / std::f64::consts::SQRT_2);
    let at = ((tail * RESAMPLES as f64) as usize).min(RESAMPLES / 2 - 1);
    (means[at], means[RESAMPLES - 1 - at])
}

/// The median of these; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match (sorted.get(n / 2), n % 2) {
        (Some(middle), 1) => *middle,
        (Some(upper), _) => (sorted[n / 2 - 1] + upper) / 2.0,
        (None, _) => 0.0,
    }
}

/// Smallest and largest; zeros of none.
pub fn spread(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().reduce(f64::min).unwrap_or(0.0);
    (low, values.iter().copied().reduce(f64::max).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(mean(&[5.0]), Mean { mean: 5.0, half: None });
        let m = mean(&[1.0, 2.0, 3.0]);
        assert!((m.half.unwrap_or(0.0) - 4.303 / 3f64.sqrt()).abs() < 1e-9 && m.mean == 2.0, "{m:?}");
        assert_eq!(mean(&[5.0]).ends(), (5.0, 5.0));
    }

    #[test]
    fn quantiles_of_students_t() {
        for (freedom, t) in
            [(1, 12.706), (30, 2.042), (31, 2.0395), (40, 2.0211), (60, 2.0003), (1000, 1.9623)]
        {
            assert!((t_975(freedom) - t).abs() < 1e-4, "{freedom}: {}", t_975(freedom));
        }
    }

    #[test]
    fn middles() {
        assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (0.0, 2.0, 2.5));
        assert_eq!((spread(&[3.0, 1.0, 2.0]), spread(&[])), ((1.0, 3.0), (0.0, 0.0)));
    }

    #[test]
    fn intervals_of_skewed_samples() {
        // Symmetric samples: Student's t.
        assert_eq!(ci95(&[11.0, 12.0, 13.0]), mean(&[11.0, 12.0, 13.0]).ends());
        assert_eq!(ci95(&[4.0]), (4.0, 4.0));
        assert_eq!(ci95(&[0.0; 5]), (0.0, 0.0));
        // Skewed ones cannot be below zero, and the interval goes farther up than down.
        let skewed = [0.1, 0.2, 0.1, 0.3, 5.0];
        let (low, high) = ci95(&skewed);
        let mean = mean(&skewed).mean;
        assert!((0.1..mean).contains(&low) && high - mean > mean - low, "{low} to {high}");
        assert_eq!(ci95(&skewed), (low, high), "it depends on the samples alone");
    }

    /// Of intervals for exponential samples, which have a mean of 1, about 19 of 20 include it.
    #[test]
    fn coverage() {
        let mut random = Random::new(7);
        let mut exponential = || -libm::log((random.below(1 << 40) + 1) as f64 / (1u64 << 40) as f64);
        let trials = 200;
        let covers = (0..trials).filter(|_| {
            let samples: Vec<f64> = (0..20).map(|_| exponential()).collect();
            let (low, high) = bootstrap(&samples);
            low <= 1.0 && high >= 1.0
        });
        let share = covers.count() as f64 / f64::from(trials);
        assert!((0.88..=0.99).contains(&share), "{share}");
    }
}
