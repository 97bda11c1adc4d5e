//! How far whole curves are from a paper's: over all of its published points, not only those that a claim names.

use super::figure::{Chart, Curve, Point, Quantity};
use super::verdict::CENSORED_PERCENT;
use pointsman_trials::stats::{ci95, mean};
use serde_json::{Value, json};

/// A curve of ours next to the paper's.
#[derive(Clone, Debug, PartialEq)]
pub struct Distance {
    /// Its chart's title.
    pub chart: String,
    /// Its name.
    pub curve: String,
    /// Published points.
    pub published: usize,
    /// Those of them that can be compared: between two places that we measured, at neither of which more than 1 % of the requests were lost.
    pub compared: usize,
    /// Those of the compared that lie within our 95 % interval.
    pub within: usize,
    /// How many times our mean is the published value, or the reverse if that is more: the geometric mean over the compared points.
    pub factor: f64,
    /// Where that is largest, and how large; not the reverse, so less than 1 where ours is smaller.
    pub worst: Option<(f64, f64)>,
}

/// A value as far along its axis.
fn along(axis: &Quantity, value: f64) -> f64 {
    if axis.log && value > 0.0 { libm::log(value) } else { value }
}

/// Our mean at a place with its interval: measured, or between two neighbours in proportion, on the scales of the axes.
fn at(chart: &Chart, ours: &Curve, x: f64) -> Option<[f64; 3]> {
    let whole = |p: &&Point| {
        let lost = p.loss_percent.is_some_and(|loss| loss > CENSORED_PERCENT);
        !lost && mean(&p.samples).mean.is_finite()
    };
    let values = |p: &Point| {
        let (low, high) = ci95(&p.samples);
        [mean(&p.samples).mean, low, high]
    };
    let below = ours.points.iter().filter(|p| p.x <= x).max_by(|a, b| a.x.total_cmp(&b.x)).filter(whole)?;
    let above = ours.points.iter().filter(|p| p.x >= x).min_by(|a, b| a.x.total_cmp(&b.x)).filter(whole)?;
    let (from, to) = (values(below), values(above));
    let [place, first, last] = [x, below.x, above.x].map(|x| along(&chart.x, x));
    let share = if last > first { (place - first) / (last - first) } else { 0.0 };
    let between = |(a, b): (f64, f64)| match chart.y.log && a > 0.0 && b > 0.0 {
        true => a * libm::pow(b / a, share),
        false => a + share * (b - a),
    };
    Some([0, 1, 2].map(|i| between((from[i], to[i]))))
}

/// Of every curve of a chart that the paper has numbers for.
pub fn distances(chart: &Chart) -> Vec<Distance> {
    let of = |paper: &Curve| {
        let ours = chart.curve(&paper.name)?;
        let mut d = Distance {
            chart: chart.title.clone(),
            curve: paper.name.clone(),
            published: paper.points.len(),
            compared: 0,
            within: 0,
            factor: f64::NAN,
            worst: None,
        };
        let mut logs = 0.0;
        for point in &paper.points {
            let published = mean(&point.samples).mean;
            let Some([mean, low, high]) = at(chart, ours, point.x).filter(|v| v[0] > 0.0) else {
                continue;
            };
            if published <= 0.0 {
                continue;
            }
            d.compared += 1;
            d.within += usize::from((low..=high).contains(&published));
            let ratio = mean / published;
            let off = libm::fabs(libm::log(ratio));
            logs += off;
            if d.worst.is_none_or(|(_, worst)| off > libm::fabs(libm::log(worst))) {
                d.worst = Some((point.x, ratio));
            }
        }
        d.factor = libm::exp(logs / d.compared as f64);
        Some(d)
    };
    chart.paper.iter().filter_map(of).collect()
}

impl Distance {
    /// As in the file of results.
    pub fn json(&self) -> Value {
        json!({
            "chart": self.chart, "curve": self.curve, "published_points": self.published, "compared": self.compared,
            "within_ci95": self.within, "factor": self.factor, "worst_at": self.worst.map(|w| w.0),
            "worst_ratio": self.worst.map(|w| w.1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{P99, RATE};

    fn chart(ours: Vec<Point>, paper: &[(f64, f64)]) -> Chart {
        let ours = vec![Curve { name: "prt".into(), points: ours }];
        Chart { title: "P99".into(), x: RATE, y: P99, ours, paper: vec![Curve::paper("prt", paper)] }
    }

    #[test]
    fn factors_and_their_mean() {
        let ours = vec![Point::new(10.0, vec![90.0, 110.0]), Point::new(20.0, vec![400.0, 400.0])];
        // Twice as much, a quarter as much in the geometric middle, and what we did not measure.
        let found = distances(&chart(ours, &[(10.0, 50.0), (15.0, 800.0), (30.0, 1.0)]));
        let d = &found[0];
        assert_eq!((d.published, d.compared, d.within), (3, 2, 0));
        assert!((d.factor - 8f64.sqrt()).abs() < 1e-9, "{d:?}");
        assert!(d.worst.is_some_and(|(x, ratio)| x == 15.0 && (ratio - 0.25).abs() < 1e-9), "{d:?}");
    }

    /// A place between two others on an axis with decades: 10 is in the middle of 1 and 100.
    #[test]
    fn places_between() {
        let mut chart =
            chart(vec![Point::new(1.0, vec![100.0]), Point::new(100.0, vec![400.0])], &[(10.0, 200.0)]);
        assert!(distances(&chart)[0].factor > 1.1);
        chart.x.log = true;
        assert!((distances(&chart)[0].factor - 1.0).abs() < 1e-9);
    }

    #[test]
    fn points_with_lost_requests_are_not_compared() {
        let mut lost = Point::new(20.0, vec![400.0, 400.0]);
        lost.loss_percent = Some(2.0);
        let ours = vec![Point::new(10.0, vec![90.0, 110.0]), lost];
        let found = distances(&chart(ours, &[(10.0, 100.0), (15.0, 800.0), (20.0, 400.0)]));
        assert_eq!((found[0].compared, found[0].within, found[0].factor), (1, 1, 1.0));
        // Nothing at all: no number.
        let none = distances(&chart(Vec::new(), &[(1.0, 1.0)]));
        assert!(none[0].compared == 0 && none[0].factor.is_nan() && none[0].json()["factor"].is_null());
    }
}
