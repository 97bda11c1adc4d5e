//! Learners: their decisions, and the weights that they chose.

use super::Runs;
use pointsman_chart::{Align, Axis, COLOURS, Chart, Dot, Series, Shape, Table, number};
use serde_json::Value;
use std::collections::BTreeMap;

/// Decisions that a learner's share of right ones is taken over.
const WINDOW: usize = 20;

fn steps(result: &Value) -> impl Iterator<Item = &Value> {
    result["learning"]["steps"].as_array().into_iter().flatten()
}

fn of(name: &'static str) -> impl Fn(&Value) -> Option<f64> {
    move |r| r["learning"][name].as_f64()
}

/// The section; empty without learners.
pub fn section(runs: &[Runs<'_>]) -> String {
    let learners: Vec<&Runs<'_>> = runs.iter().filter(|r| r.over(of("accuracy_percent")).is_some()).collect();
    if learners.is_empty() {
        return String::new();
    }
    let columns = [
        ("Right decisions, %", "accuracy_percent"),
        ("In the second half, %", "accuracy_second_half_percent"),
        ("Regret, ms", "regret_mean_ms"),
        ("Regret in the second half, ms", "regret_second_half_mean_ms"),
    ];
    let head: Vec<_> =
        [("Point", Align::Left)].into_iter().chain(columns.map(|(name, _)| (name, Align::Right))).collect();
    let mut table = Table::new(&head);
    for r in &learners {
        let cells = columns.map(|(_, field)| r.over(of(field)).map_or(String::new(), |e| e.to_string()));
        table.row([r.name("")].into_iter().chain(cells));
    }
    let shown = &learners[..learners.len().min(COLOURS)];
    let mut out = format!("<h2>Learning</h2>\n{}", table.html());
    out.push_str(&shares(shown));
    for r in shown {
        if let Some(first) = r.results.first() {
            out.push_str(&weights(&r.name(""), first));
        }
    }
    out
}

/// Shares of right decisions over all seeds, window by window.
fn shares(learners: &[&Runs<'_>]) -> String {
    let line = |r: &&Runs<'_>| {
        let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for (i, step) in r.results.iter().flat_map(|result| steps(result).enumerate()) {
            let sum = sums.entry(i / WINDOW).or_default();
            sum.0 += f64::from(u8::from(step["right"] == true));
            sum.1 += 1.0;
        }
        let name = r.name("");
        let dots = sums.iter().map(|(window, (right, n))| {
            let (x, y) = (((window + 1) * WINDOW) as f64, 100.0 * right / n);
            let title = format!("{name}: {} % up to decision {x}", number(y));
            Dot { x, y, title, ..Dot::default() }
        });
        Series { dots: dots.collect(), name: name.clone(), ..Series::default() }
    };
    let series: Vec<Series> = learners.iter().map(line).collect();
    let last = series.iter().flat_map(|s| &s.dots).map(|d| d.x).fold(0.0, f64::max);
    let chart = Chart {
        series,
        x: Axis::linear(last),
        y: Axis::linear(100.0),
        labels: ("decision".into(), "right decisions, %".into()),
        guides: Vec::new(),
        caption: format!("Share of right decisions among {WINDOW} each, over all seeds."),
    };
    chart.html()
}

/// Chart of one learner's weights, and the oracle's.
fn weights(name: &str, result: &Value) -> String {
    let series = |name: &str, field: &str| Series {
        name: name.to_owned(),
        dots: steps(result)
            .filter_map(|s| Some((s["at_s"].as_f64()?, s[field].as_f64()?)))
            .map(|(x, y)| Dot { x, y, ..Dot::default() })
            .collect(),
        shape: Shape::Plain,
        companion: Vec::new(),
    };
    let both = vec![series(name, "next_weight"), series("oracle", "best_weight")];
    let most = |of: fn(&Dot) -> f64| both.iter().flat_map(|s| &s.dots).map(of).fold(0.0, f64::max);
    let chart = Chart {
        x: Axis::linear(most(|d| d.x)),
        y: Axis::linear(most(|d| d.y)),
        labels: ("virtual time, s".into(), "weight of accelerators".into()),
        guides: Vec::new(),
        caption: format!("Weights by {name} and by the oracle; seed {}.", result["seed"]),
        series: both,
    };
    chart.html()
}
