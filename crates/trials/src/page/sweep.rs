//! Charts of a sweep: over its columns of numbers, or of its points next to each other.

use super::{Metric, Runs};
use pointsman_chart::{Axis, Chart, Dot, Rank, Series, Shape, escape, number, ranks};
use std::collections::{BTreeMap, BTreeSet};

/// All points of a sweep as charts of these quantities; nothing of a single point.
pub fn charts(runs: &[Runs<'_>], metrics: &[Metric]) -> String {
    if runs.len() < 2 {
        return String::new();
    }
    let columns = numeric(runs);
    let mut out = String::new();
    for metric in metrics {
        // A chart of equal values shows nothing.
        let values: Vec<f64> =
            runs.iter().filter_map(|r| r.over(metric.value)).map(|e| e.mean.mean).collect();
        if values.iter().all(|v| *v == 0.0) {
            continue;
        }
        out.push_str(&format!("<h2>{}</h2>\n", escape(metric.label)));
        for column in &columns {
            out.push_str(&over(runs, column, metric));
        }
        if columns.is_empty() {
            out.push_str(&side_by_side(runs, metric));
        }
    }
    out
}

/// The columns that have several values, all of them numbers.
fn numeric(runs: &[Runs<'_>]) -> Vec<String> {
    let all: BTreeSet<&String> = runs.iter().flat_map(|r| r.point.keys()).collect();
    let fits = |column: &&String| {
        let values: BTreeSet<&String> = runs.iter().filter_map(|r| r.point.get(*column)).collect();
        values.len() > 1 && values.iter().all(|v| v.parse::<f64>().is_ok_and(f64::is_finite))
    };
    all.into_iter().filter(fits).cloned().collect()
}

/// A column's name as an axis has it.
fn label(column: &str) -> String {
    match column {
        "rate_per_s" => "offered load, requests/s".into(),
        "servers" => "number of servers".into(),
        other => other.replace('_', " "),
    }
}

/// A quantity over a column: a line for each combination of the others.
fn over(runs: &[Runs<'_>], column: &str, metric: &Metric) -> String {
    let mut all: BTreeMap<String, Vec<Dot>> = BTreeMap::new();
    for r in runs {
        let x = r.point.get(column).and_then(|x| x.parse().ok());
        let (Some(x), Some(value)) = (x, r.over(metric.value)) else { continue };
        let name = r.name(column);
        let title = format!("{name}: {} {}: {value} {}", label(column), number(x), metric.unit);
        let interval = value.interval();
        all.entry(name).or_default().push(Dot { x, y: value.mean.mean, interval, hollow: false, title });
    }
    let series = all.into_iter().map(|(name, mut dots)| {
        dots.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { name, dots, shape: Shape::Marks, companion: Vec::new() }
    });
    let series: Vec<Series> = series.collect();
    let dots = || series.iter().flat_map(|s| &s.dots);
    let ends = dots().flat_map(|d| d.interval.map_or([d.y, d.y], |(low, high)| [low.max(d.y / 3.0), high]));
    let y = if metric.log { Axis::log(ends) } else { Axis::linear(ends.fold(0.0, f64::max)) };
    let chart = Chart {
        x: Axis::around(dots().map(|d| d.x)),
        y,
        labels: (label(column), metric.label.to_owned()),
        guides: Vec::new(),
        caption: format!("{} Mean over seeds with the 95 % interval.", metric.caption),
        series,
    };
    chart.html()
}

/// A quantity of each point, if no column has numbers.
fn side_by_side(runs: &[Runs<'_>], metric: &Metric) -> String {
    let rank = |r: &Runs<'_>| {
        let value = r.over(metric.value)?;
        let text = format!("{} {}", number(value.mean.mean), metric.unit);
        Some(Rank { name: r.name(""), value: value.mean.mean, interval: value.interval(), text })
    };
    let all: Vec<Rank> = runs.iter().filter_map(rank).collect();
    let ends = || all.iter().flat_map(|r| r.interval.map_or([r.value, r.value], |(low, high)| [low, high]));
    let most = ends().fold(0.0, f64::max);
    // Bars as long as they can be, unless the shortest could not be seen.
    let log = metric.log && all.iter().any(|r| r.value > 0.0 && r.value < most / 50.0);
    let axis = if log { Axis::log(ends().filter(|v| *v > most / 1e6)) } else { Axis::linear(most) };
    let bars = ranks(&all, axis, log, metric.label);
    let scale = if log { " The axis is logarithmic." } else { "" };
    format!(
        "{bars}<p class=\"caption\">{} Mean over seeds with the 95 % interval.{scale}</p>\n",
        metric.caption
    )
}
