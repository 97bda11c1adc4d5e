//! Axes: which values they show, their ticks, and places on them.

/// An axis: its values and where they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// From zero to a round number at or above `max`.
    pub fn linear(max: f64) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let step = step(max);
        Self { low: 0.0, high: (max / step - 1e-9).ceil() * step, log: false }
    }

    /// Round numbers around these values, zero only if it is among them or near: for an axis on which nothing is measured from zero.
    pub fn around(values: impl Iterator<Item = f64>) -> Self {
        let (min, max) = ends(values);
        if !(min.is_finite() && max > min) || min <= 0.25 * max {
            return Self::linear(max);
        }
        let step = step(max - min);
        Self { low: (min / step + 1e-9).floor() * step, high: (max / step - 1e-9).ceil() * step, log: false }
    }

    /// From `low` to `high`, which must be above it.
    pub fn span(low: f64, high: f64) -> Self {
        Self { low, high, log: false }
    }

    /// Whole powers of ten, or twice or five times one, around the positive values.
    pub fn log(values: impl Iterator<Item = f64>) -> Self {
        let (mut min, mut max) = ends(values.filter(|v| *v > 0.0));
        if !max.is_finite() {
            (min, max) = (1.0, 10.0);
        }
        let low = decades(min / 10.0, min).into_iter().next_back().unwrap_or(min / 2.0);
        let high = decades(max, max * 10.0).into_iter().next().unwrap_or(max * 2.0);
        Self { low, high: if high > low { high } else { low * 10.0 }, log: true }
    }

    /// The upper end.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// The values that are labelled, in ascending order.
    pub fn ticks(&self) -> Vec<f64> {
        if self.log {
            let all = decades(self.low, self.high);
            let powers = |every: i32| -> Vec<f64> {
                let whole = |t: &f64| {
                    let p = t.log10().round();
                    (t.log10() - p).abs() < 1e-9 && (p as i32).rem_euclid(every) == 0
                };
                all.iter().copied().filter(whole).collect()
            };
            // Beyond three decades, 1-2-5 is too dense; beyond eight, every power of ten is.
            return match self.high / self.low {
                r if r > 1e8 => powers(2),
                r if r > 1000.0 => powers(1),
                // One or two steps of it are too few.
                _ if all.len() < 4 => {
                    let power = 10f64.powf(self.low.log10().floor());
                    let fits = |t: &f64| *t >= self.low * (1.0 - 1e-9) && *t <= self.high * (1.0 + 1e-9);
                    (1..=100)
                        .map(|i| f64::from(if i > 10 { (i - 9) * 10 } else { i }) * power)
                        .filter(fits)
                        .collect()
                }
                _ => all,
            };
        }
        let step = step(self.high - self.low);
        (0..=((self.high - self.low) / step).round() as usize).map(|i| self.low + i as f64 * step).collect()
    }

    /// Place of a value between 0 (low) and 1 (high); values outside go to the nearer end.
    pub fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }
}

/// A tick's label: thousands with commas, no digits beyond those that differ.
pub(crate) fn label(tick: f64) -> String {
    let text = if tick == 0.0 || (0.01..1e15).contains(&tick.abs()) {
        crate::number(tick)
    } else {
        format!("{tick:e}")
    };
    let Some(whole) = text.strip_prefix('-').unwrap_or(&text).split('.').next().map(str::len) else {
        return text;
    };
    if whole < 5 || text.contains('e') {
        return text;
    }
    let start = text.len() - text.trim_start_matches('-').len();
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        let at = i as isize - start as isize;
        if at > 0 && (at as usize) < whole && (whole - at as usize).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// The smallest and the largest of those that are finite.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// A step of 1, 2 or 5 times a power of ten that divides `range` into four to seven.
fn step(range: f64) -> f64 {
    let power = 10f64.powf((range / 5.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| range / s <= 7.0).unwrap_or(range)
}

/// All of 1, 2 and 5 times powers of ten in low..=high.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .flat_map(|p| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(p)))
        .filter(|t| *t >= low * (1.0 - 1e-9) && *t <= high * (1.0 + 1e-9))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let check = |axis: Axis, expected: &[f64]| {
            let ticks = axis.ticks();
            assert_eq!(ticks.len(), expected.len(), "{ticks:?}");
            let same = |(a, b): (&f64, &f64)| (a - b).abs() < b.abs() * 1e-9 + 1e-12;
            assert!(ticks.iter().zip(expected).all(same), "{ticks:?}");
        };
        check(Axis::linear(480.0), &[0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
        check(Axis::linear(7.0), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        check(Axis::linear(0.0), &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(Axis::linear(f64::NEG_INFINITY), &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(Axis::around([1000.0, 1390.0].into_iter()), &[1000.0, 1100.0, 1200.0, 1300.0, 1400.0]);
        check(Axis::around([1.0, 7.0].into_iter()), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        check(Axis::log([6.0, 90.0].into_iter()), &[5.0, 10.0, 20.0, 50.0, 100.0]);
        check(Axis::log([5.5, 9.0].into_iter()), &[5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        check(Axis::log([0.7, 3000.0].into_iter()), &[1.0, 10.0, 100.0, 1000.0]);
        check(Axis::log([0.0, f64::NAN].into_iter()), &[1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn places_are_proportional_and_clamped() {
        let log = Axis::log([1.0, 100.0].into_iter());
        assert!((log.place(10.0) - 0.5).abs() < 1e-9);
        assert_eq!((log.place(0.0), log.place(1e9), log.place(f64::NAN)), (0.0, 1.0, 0.0));
        assert!((Axis::linear(10.0).place(5.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn labels() {
        let all = [0.0, 0.2, 1000.0, 10_000.0, 1_234_567.0, -50_000.0, 1e-6].map(label);
        assert_eq!(all, ["0", "0.2", "1000", "10,000", "1,234,567", "-50,000", "1e-6"]);
    }
}
