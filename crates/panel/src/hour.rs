//! The last hour as charts.

use crate::Answers;
use crate::text::{list, number, string};
use maud::{Markup, PreEscaped, html};
use pointsman_chart::{Axis, Chart, Dot, Series, Shape};
use serde_json::Value;

/// Kinds of devices, in the order of their colours.
const KINDS: [&str; 5] = ["cpu", "smartnic", "gpu", "fpga", "other"];

/// Curves of a chart: more would look alike.
const MOST: usize = 8;

/// Minutes that may be shown: the first that are enough.
const MINUTES: [f64; 4] = [5.0, 15.0, 30.0, 60.0];

/// A value at a time, if it is known.
type Point = (u64, Option<f64>);

/// Charts of what the controller has sampled; `GET /v1/trend` has the numbers.
pub fn charts(answers: &Answers) -> Markup {
    let samples = list(&answers.trend["samples"]);
    if samples.len() < 2 {
        return html! { p { "The controller takes a sample every half minute: the charts begin with the second one." } };
    }
    let of_kind = |kind: &str, field: &str| -> Vec<Point> {
        samples.iter().map(|s| (number(&s["at_ms"]), s["kinds"][kind][field].as_f64())).collect()
    };
    let kinds = |field: &str| -> Vec<(String, Vec<Point>)> {
        let all = KINDS.iter().map(|kind| (kind.to_string(), of_kind(kind, field)));
        all.filter(|(_, points)| points.iter().any(|(_, y)| y.is_some())).collect()
    };
    let drops = samples.iter().map(|s| (number(&s["at_ms"]), s["dropped_per_s"].as_f64())).collect();
    let every = [
        chart(answers, "New connections", "connections/s", kinds("opened_per_s"), true),
        chart(answers, "In flight", "requests or connections", kinds("in_flight"), true),
        chart(answers, "P99 latency of the slowest device", "milliseconds", kinds("p99_ms"), true),
        chart(answers, "Dropped packets", "packets/s", vec![("all reasons".to_string(), drops)], true),
    ];
    html! {
        div class="charts" {
            @for chart in every { (chart) }
            @if !list(&answers.trend["learner"]).is_empty() {
                (chart(answers, "P99 latency, measured by clients", "milliseconds", learner(answers, &[("p99_ms", "P99")]), true))
                (chart(answers, "Weights by the learner", "weight",
                    learner(answers, &[("processors", "processors"), ("accelerators", "accelerators")]), false))
            }
        }
    }
}

/// Curves of the learner's decisions: fields with their names, for each class of servers.
fn learner(answers: &Answers, fields: &[(&str, &str)]) -> Vec<(String, Vec<Point>)> {
    let all = list(&answers.trend["learner"]);
    let mut classes: Vec<&Value> = all.iter().map(|d| &d["class"]).collect();
    classes.sort_by_key(|c| string(c).to_string());
    classes.dedup();
    let mut out = Vec::new();
    for class in classes {
        for (field, name) in fields {
            let own = all.iter().filter(|d| d["class"] == *class);
            let points = own.map(|d| (number(&d["at_ms"]), d[*field].as_f64())).collect();
            let name = if class.is_null() { name.to_string() } else { format!("{}: {name}", string(class)) };
            out.push((name, points));
        }
    }
    out
}

/// A chart with the newest values in its title. `gaps`: a time without samples is one; otherwise the last value holds.
fn chart(
    answers: &Answers,
    title: &str,
    unit: &str,
    mut curves: Vec<(String, Vec<Point>)>,
    gaps: bool,
) -> Markup {
    let every = number(&answers.trend["every_ms"]).max(1);
    let left_out = curves.len().saturating_sub(MOST);
    curves.truncate(MOST);
    let at = |list: &[Value], i: usize| list.get(i).map_or(0, |s| number(&s["at_ms"]));
    let [samples, decisions] = ["samples", "learner"].map(|field| list(&answers.trend[field]));
    let oldest = at(samples, 0);
    let newest = at(samples, samples.len() - 1).max(at(decisions, decisions.len().saturating_sub(1)));
    // Charts change with samples, not with every second.
    let now = newest + number(&answers.trend["now_ms"]).saturating_sub(newest) / every * every;
    let minutes = |at: u64| -(now.saturating_sub(at) as f64) / 60_000.0;
    let dot = |at: u64, y: Option<f64>| Dot { x: minutes(at), y: y.unwrap_or(f64::NAN), ..Dot::default() };
    let series: Vec<Series> = curves
        .iter()
        .map(|(name, points)| {
            let mut dots: Vec<Dot> = Vec::new();
            let mut last: Option<Point> = None;
            for (at, y) in points {
                match last {
                    Some((before, _)) if gaps && at.saturating_sub(before) > 2 * every => {
                        dots.push(dot(before, None))
                    }
                    // Weights change at once.
                    Some((_, before)) if !gaps => dots.push(dot(*at, before)),
                    _ => {}
                }
                dots.push(dot(*at, *y));
                last = Some((*at, *y));
            }
            if let Some((_, y)) = last.filter(|_| !gaps) {
                dots.push(dot(now, y));
            }
            Series { name: name.clone(), dots, shape: Shape::Plain, companion: Vec::new() }
        })
        .collect();
    let shown = MINUTES.into_iter().find(|m| -minutes(oldest) <= *m).unwrap_or(MINUTES[3]);
    let highest =
        series.iter().flat_map(|s| &s.dots).map(|d| d.y).filter(|y| y.is_finite()).fold(0.0, f64::max);
    let latest: Vec<String> = curves
        .iter()
        .filter_map(|(name, points)| Some((name, points.last()?.1?)))
        .map(|(name, y)| format!("{} {name}", pointsman_chart::number(y)))
        .collect();
    let more = if left_out > 0 { format!("; {left_out} more in /v1/trend") } else { String::new() };
    let caption =
        if latest.is_empty() { title.to_string() } else { format!("{title}: {}{more}", latest.join(", ")) };
    let chart = Chart {
        series,
        x: Axis::span(-shown, 0.0),
        y: Axis::linear(highest),
        labels: ("minutes from now".into(), unit.into()),
        guides: Vec::new(),
        caption,
    };
    PreEscaped(chart.compact())
}
