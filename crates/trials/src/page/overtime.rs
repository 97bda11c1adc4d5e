//! Charts of how runs went over time, with the scenario's events, and of how their latencies are distributed.

use super::Runs;
use crate::stats::{mean, spread};
use pointsman_chart::{Axis, COLOURS, Chart, Dot, Guide, Series, Shape, number};
use serde_json::Value;

/// All charts; nothing of results that have no time series, as those of older versions.
pub fn charts(runs: &[Runs<'_>]) -> String {
    let known: Vec<&Runs<'_>> =
        runs.iter().filter(|r| r.results.iter().any(|v| !v["time_series"].is_null())).collect();
    if known.is_empty() {
        return String::new();
    }
    let shown = &known[..known.len().min(COLOURS)];
    let several = shown.iter().any(|r| r.results.len() > 1);
    let mut note = String::from(if several {
        "Mean over seeds; the band is from the smallest to the largest seed."
    } else {
        ""
    });
    if shown.len() < known.len() {
        note.push_str(&format!(" The first {} of {} points.", shown.len(), known.len()));
    }
    let guides = events(shown);
    let mut out = String::from("<h2>Over time</h2>\n");
    out.push_str(&answered(shown, &guides, &note));
    let lost = series(shown, |t, i| {
        100.0 * (number_at(t, "sent", i) - number_at(t, "answered", i)) / number_at(t, "sent", i).max(1.0)
    });
    if lost.iter().flat_map(|s| &s.dots).any(|d| d.y > 0.0) {
        out.push_str(&chart(
            lost,
            false,
            "lost, %",
            &guides,
            &format!("Requests that were not answered in time, by the time at which they were sent. {note}"),
        ));
    }
    let p99 = series(
        shown,
        |t, i| if number_at(t, "sent", i) > 0.0 { number_at(t, "p99_ms", i) } else { f64::NAN },
    );
    let caption = format!("Of the requests sent in each interval; a lost one counts as its time-out. {note}");
    out.push_str(&chart(p99, true, "P99, ms", &guides, &caption));
    out.push_str("<h2>Distribution of latency</h2>\n");
    out.push_str(&distribution(shown));
    out
}

fn number_at(time_series: &Value, field: &str, i: usize) -> f64 {
    time_series[field][i].as_f64().unwrap_or(0.0)
}

/// The scenario's events, which all points have in common.
fn events(runs: &[&Runs<'_>]) -> Vec<Guide> {
    let first = runs.first().and_then(|r| r.results.first());
    let all = first.and_then(|v| v["scenario_events"].as_array()).into_iter().flatten();
    all.filter_map(|e| Some(Guide::Event(e["at_s"].as_f64()?, e["what"].as_str()?.to_owned()))).collect()
}

/// A line of this name: of every interval, a value of each seed.
fn line(name: String, results: &[&Value], value: impl Fn(&Value, usize) -> f64) -> Series {
    let series: Vec<&Value> = results.iter().map(|r| &r["time_series"]).filter(|t| !t.is_null()).collect();
    let first = series.first().copied().unwrap_or(&Value::Null);
    let (from, every) =
        (first["from_s"].as_f64().unwrap_or(0.0), first["interval_s"].as_f64().unwrap_or(1.0));
    let count = first["sent"].as_array().map_or(0, Vec::len);
    let dot = |i: usize| {
        let samples: Vec<f64> = series.iter().map(|t| value(t, i)).filter(|v| v.is_finite()).collect();
        if samples.is_empty() {
            return None;
        }
        let interval = (samples.len() > 1).then(|| spread(&samples));
        let x = from + (i as f64 + 0.5) * every;
        Some(Dot { x, y: mean(&samples).mean, interval, hollow: false, title: String::new() })
    };
    Series { name, dots: (0..count).filter_map(dot).collect(), shape: Shape::Plain, companion: Vec::new() }
}

/// A line for each point.
fn series(runs: &[&Runs<'_>], value: impl Fn(&Value, usize) -> f64) -> Vec<Series> {
    runs.iter().map(|r| line(r.name(""), &r.results, &value)).collect()
}

/// Requests answered: by kind of device for a single point, otherwise a line for each.
fn answered(runs: &[&Runs<'_>], guides: &[Guide], note: &str) -> String {
    let per_s = |t: &Value, n: f64| n / t["interval_s"].as_f64().unwrap_or(1.0).max(1e-9);
    let caption = format!("Requests per second, by the time at which they were sent. {note}");
    let lines = match runs {
        [one] => {
            let kinds = one.results.first().and_then(|v| v["time_series"]["answered_by_kind"].as_object());
            let by_kind = kinds.into_iter().flatten().map(|(kind, _)| {
                line(format!("answered by {kind}"), &one.results, |t, i| {
                    per_s(t, t["answered_by_kind"][kind][i].as_f64().unwrap_or(0.0))
                })
            });
            let sent = line("sent".into(), &one.results, |t, i| per_s(t, number_at(t, "sent", i)));
            let all = line("answered".into(), &one.results, |t, i| per_s(t, number_at(t, "answered", i)));
            let by_kind: Vec<Series> = by_kind.collect();
            let by_kind = if by_kind.len() > 1 { by_kind } else { Vec::new() };
            let lossy = sent.dots.iter().zip(&all.dots).any(|(s, a)| s.y > a.y);
            lossy.then_some(sent).into_iter().chain([all]).chain(by_kind).collect()
        }
        _ => series(runs, |t, i| per_s(t, number_at(t, "answered", i))),
    };
    let label = if runs.len() == 1 { "requests/s" } else { "answered, requests/s" };
    chart(lines, false, label, guides, &caption)
}

fn chart(series: Vec<Series>, log: bool, label: &str, guides: &[Guide], caption: &str) -> String {
    let ends = || series.iter().flat_map(|s| &s.dots).flat_map(|d| [d.y, d.interval.map_or(d.y, |i| i.1)]);
    let last = series.iter().flat_map(|s| &s.dots).map(|d| d.x).fold(0.0, f64::max);
    let y = if log { Axis::log(ends()) } else { Axis::linear(ends().fold(0.0, f64::max)) };
    let chart = Chart {
        x: Axis::linear(last),
        y,
        labels: ("virtual time, s".into(), label.into()),
        guides: guides.to_vec(),
        caption: caption.to_owned(),
        series,
    };
    chart.html()
}

/// The share of requests that have at most a latency: means over seeds of the latency at each share.
fn distribution(runs: &[&Runs<'_>]) -> String {
    let curve = |r: &&Runs<'_>| {
        let all: Vec<&Value> =
            r.results.iter().map(|v| &v["distribution"]).filter(|d| !d.is_null()).collect();
        let first = all.first().copied().unwrap_or(&Value::Null);
        let count = first["percent"].as_array().map_or(0, Vec::len);
        let dot = |i: usize| {
            let at: Vec<f64> = all.iter().filter_map(|d| d["ms"][i].as_f64()).collect();
            let (y, x) = (first["percent"][i].as_f64()?, mean(&at).mean);
            Some(Dot { x, y, interval: None, hollow: false, title: format!("{y} %: {} ms", number(x)) })
        };
        Series {
            name: r.name(""),
            dots: (0..count).filter_map(dot).collect(),
            shape: Shape::Plain,
            companion: Vec::new(),
        }
    };
    let series: Vec<Series> = runs.iter().map(curve).collect();
    let chart = Chart {
        x: Axis::log(series.iter().flat_map(|s| &s.dots).map(|d| d.x)),
        y: Axis::linear(100.0),
        labels: ("latency, ms".into(), "share of requests, %".into()),
        guides: Vec::new(),
        caption: "Share of all requests with at most this latency; a lost one counts as its time-out.".into(),
        series,
    };
    chart.html()
}
