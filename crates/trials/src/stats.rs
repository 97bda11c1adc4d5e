//! Samples of one quantity, one for each seed, with mean and confidence interval.

use pointsman_lab::report::chart::number;

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
}
