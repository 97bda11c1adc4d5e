//! The results as an HTML page with charts: one file, no script, no external resources.

use crate::stats::{Mean, mean};
use pointsman_lab::report::chart::{Axis, COLOURS, Dot, Series, escape, lines, number};
use pointsman_lab::report::{STYLE, legend};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Numeric sweep columns, usable as a chart's horizontal axis.
const NUMBERS: [(&str, &str); 2] =
    [("rate_per_s", "offered load, requests/s"), ("servers", "number of servers")];
/// Decisions that a learner's share of right ones is taken over.
const WINDOW: usize = 20;

type Point = BTreeMap<String, String>;

/// All seeds of one point of a sweep.
struct Runs<'a> {
    point: Point,
    results: Vec<&'a Value>,
}

impl Runs<'_> {
    /// The mean of something over seeds.
    fn over(&self, what: impl Fn(&Value) -> Option<f64>) -> Option<Mean> {
        let values: Vec<f64> = self.results.iter().filter_map(|r| what(r)).collect();
        (!values.is_empty()).then(|| mean(&values))
    }

    /// Its point without this column.
    fn name(&self, without: &str) -> String {
        let rest = self.point.iter().filter(|(k, _)| *k != without);
        let text: Vec<String> = rest
            .map(|(k, v)| if k == "policy" || k == "learner" { v.clone() } else { format!("{k} {v}") })
            .collect();
        if text.is_empty() { "all".into() } else { text.join(", ") }
    }
}

fn request(name: &'static str) -> impl Fn(&Value) -> Option<f64> {
    move |r| r["requests"][name].as_f64()
}

fn answered_per_s(r: &Value) -> Option<f64> {
    Some(r["requests"]["answered"].as_f64()? / r["measured_s"].as_f64()?.max(1e-9))
}

fn lost_percent(r: &Value) -> Option<f64> {
    Some(100.0 * r["requests"]["lost"].as_f64()? / r["requests"]["sent"].as_f64()?.max(1.0))
}

fn group<'a>(results: &[&'a Value]) -> Vec<Runs<'a>> {
    let mut all: Vec<Runs<'a>> = Vec::new();
    for result in results {
        let point: Point = result["point"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_string()))
            .collect();
        match all.iter_mut().find(|r| r.point == point) {
            Some(runs) => runs.results.push(result),
            None => all.push(Runs { point, results: vec![result] }),
        }
    }
    all
}

/// The page.
pub fn page(scenario: &str, results: &[&Value]) -> String {
    let title = escape(&format!("Simulation: {scenario}"));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<h1>{title}</h1>\n"
    );
    let runs = group(results);
    page.push_str(&summary(&runs));
    for (column, label) in NUMBERS {
        page.push_str(&sweep_charts(&runs, column, label));
    }
    page.push_str(&learning(&runs));
    page.push_str(&devices(&runs));
    page.push_str("</body>\n</html>\n");
    page
}

fn cell(value: Option<Mean>, unit: &str) -> String {
    value.map_or_else(|| "<td>".to_string(), |v| format!("<td class=\"n\">{v}{unit}"))
}

fn summary(runs: &[Runs<'_>]) -> String {
    let violations: u64 =
        runs.iter().flat_map(|r| &r.results).filter_map(|r| r["checks"]["violations"].as_u64()).sum();
    let simulations: usize = runs.iter().map(|r| r.results.len()).sum();
    let mut out = format!(
        "<p>{simulations} simulations; the checkers found {}. Means over seeds with their 95 % confidence intervals.</p>\n\
         <div class=\"scroll\"><table>\n<thead><tr><th>Point<th class=\"n\">Seeds<th class=\"n\">Answered/s\
         <th class=\"n\">Lost<th class=\"n\">P50<th class=\"n\">P99\n<tbody>\n",
        if violations == 0 {
            "no violations".into()
        } else {
            format!("<strong>{violations} violations</strong>")
        },
    );
    for r in runs {
        let _ = writeln!(
            out,
            "<tr><td>{}<td class=\"n\">{}{}{}{}{}",
            escape(&r.name("")),
            r.results.len(),
            cell(r.over(answered_per_s), ""),
            cell(r.over(lost_percent), " %"),
            cell(r.over(request("p50_ms")), " ms"),
            cell(r.over(request("p99_ms")), " ms"),
        );
    }
    out.push_str("</table></div>\n");
    out
}

fn figure(names: &[String], svg: &str, caption: &str) -> String {
    format!("<figure>{}{svg}<figcaption>{}</figcaption></figure>\n", legend(names, true), escape(caption))
}

/// One line for each combination of the other columns.
fn by_column(
    runs: &[Runs<'_>],
    column: &str,
    y: impl Fn(&Value) -> Option<f64>,
) -> (Vec<String>, Vec<Series>) {
    let mut all: BTreeMap<String, Vec<Dot>> = BTreeMap::new();
    for r in runs {
        let (Some(x), Some(value)) = (r.point.get(column).and_then(|x| x.parse().ok()), r.over(&y)) else {
            continue;
        };
        let name = r.name(column);
        let title = format!("{name}: {column} {}: {value}", number(x));
        all.entry(name).or_default().push(Dot { x, y: value.mean, hollow: false, title });
    }
    for dots in all.values_mut() {
        dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    let names = all.keys().cloned().collect();
    (names, all.into_values().map(|dots| Series { dots }).collect())
}

fn sweep_charts(runs: &[Runs<'_>], column: &str, label: &str) -> String {
    let (names, p99) = by_column(runs, column, request("p99_ms"));
    let (_, answered) = by_column(runs, column, answered_per_s);
    if p99.iter().all(|s| s.dots.len() < 2) {
        return String::new();
    }
    let most = |s: &[Series], of: fn(&Dot) -> f64| s.iter().flat_map(|s| &s.dots).map(of).fold(0.0, f64::max);
    let x = Axis::linear(most(&p99, |d| d.x));
    let y = Axis::log(p99.iter().flat_map(|s| &s.dots).map(|d| d.y));
    let latency = lines(&p99, x, y, (label, "P99, ms"), &[]);
    let y = Axis::linear(most(&answered, |d| d.y));
    let throughput = lines(&answered, x, y, (label, "answered, requests/s"), &[]);
    let caption = "Of all requests, mean over seeds; a lost one counts as its time-out.";
    format!(
        "<h2>Latency</h2>\n{}<h2>Throughput</h2>\n{}",
        figure(&names, &latency, caption),
        figure(&names, &throughput, "Requests answered in time, per second.")
    )
}

fn steps(result: &Value) -> impl Iterator<Item = &Value> {
    result["learning"]["steps"].as_array().into_iter().flatten()
}

fn learning(runs: &[Runs<'_>]) -> String {
    let learners: Vec<&Runs<'_>> = runs.iter().filter(|r| r.over(accuracy).is_some()).collect();
    if learners.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<h2>Learning</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>Point<th class=\"n\">Right decisions\
         <th class=\"n\">In the second half<th class=\"n\">Regret<th class=\"n\">In the second half\n<tbody>\n",
    );
    let of = |name: &'static str| move |r: &Value| r["learning"][name].as_f64();
    for r in &learners {
        let _ = writeln!(
            out,
            "<tr><td>{}{}{}{}{}",
            escape(&r.name("")),
            cell(r.over(accuracy), " %"),
            cell(r.over(of("accuracy_second_half_percent")), " %"),
            cell(r.over(of("regret_mean_ms")), " ms"),
            cell(r.over(of("regret_second_half_mean_ms")), " ms"),
        );
    }
    out.push_str("</table></div>\n");
    let mut names = Vec::new();
    let mut shares = Vec::new();
    let mut last = 0.0f64;
    for r in learners.iter().take(COLOURS) {
        // Over all seeds, window by window.
        let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for result in &r.results {
            for (i, step) in steps(result).enumerate() {
                let sum = sums.entry(i / WINDOW).or_default();
                sum.0 += f64::from(u8::from(step["right"] == true));
                sum.1 += 1.0;
            }
        }
        let name = r.name("");
        let dots = sums.iter().map(|(window, (right, n))| {
            let (x, y) = (((window + 1) * WINDOW) as f64, 100.0 * right / n);
            Dot { x, y, hollow: false, title: format!("{name}: {} % up to decision {x}", number(y)) }
        });
        let dots: Vec<Dot> = dots.collect();
        last = dots.iter().map(|d| d.x).fold(last, f64::max);
        names.push(name);
        shares.push(Series { dots });
    }
    let chart = lines(
        &shares,
        Axis::linear(last),
        Axis::linear(100.0),
        ("decision", "right decisions, per cent"),
        &[],
    );
    let caption = format!("Share of right decisions among {WINDOW} each, over all seeds.");
    out.push_str(&figure(&names, &chart, &caption));
    for r in learners.iter().take(COLOURS) {
        if let Some(first) = r.results.first() {
            out.push_str(&weights(&r.name(""), first));
        }
    }
    out
}

fn accuracy(r: &Value) -> Option<f64> {
    r["learning"]["accuracy_percent"].as_f64()
}

/// Chart of one learner's weights, and the oracle's.
fn weights(name: &str, result: &Value) -> String {
    let series = |field: &str| Series {
        dots: steps(result)
            .filter_map(|s| Some((s["at_s"].as_f64()?, s[field].as_f64()?)))
            .map(|(x, y)| Dot { x, y, hollow: false, title: format!("{y} at {x} s") })
            .collect(),
    };
    let both = [series("next_weight"), series("best_weight")];
    let most = |of: fn(&Dot) -> f64| both.iter().flat_map(|s| &s.dots).map(of).fold(0.0, f64::max);
    let (x, y) = (Axis::linear(most(|d| d.x)), Axis::linear(most(|d| d.y)));
    let chart = lines(&both, x, y, ("virtual time, s", "weight of accelerators"), &[]);
    let caption = format!("Weights by {name} and by the oracle; seed {}.", result["seed"]);
    figure(&[name.to_string(), "oracle".into()], &chart, &caption)
}

fn devices(runs: &[Runs<'_>]) -> String {
    let mut out = String::from(
        "<details><summary>Devices</summary>\n<div class=\"scroll\"><table>\n<thead><tr><th>Point<th>Kind\
         <th class=\"n\">Number<th class=\"n\">Answered/s<th class=\"n\">Waiting<th class=\"n\">Use\n<tbody>\n",
    );
    for r in runs {
        let first = r.results.first().and_then(|v| v["devices"].as_array());
        for group in first.into_iter().flatten() {
            let kind = &group["kind"];
            let of = |field: &'static str| {
                r.over(|v| v["devices"].as_array()?.iter().find(|g| g["kind"] == *kind)?[field].as_f64())
            };
            let _ = writeln!(
                out,
                "<tr><td>{}<td>{}<td class=\"n\">{}{}{}{}",
                escape(&r.name("")),
                escape(kind.as_str().unwrap_or_default()),
                group["devices"],
                cell(of("throughput_per_s"), ""),
                cell(of("wait_mean_ms"), " ms"),
                cell(of("utilisation_percent"), " %"),
            );
        }
    }
    out.push_str("</table></div></details>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(rate: &str, learner: &str, seed: u64, p99: f64) -> Value {
        let step = |i: usize| json!({"at_s": i, "right": !i.is_multiple_of(4), "next_weight": i % 3, "best_weight": 1});
        json!({
            "point": {"rate_per_s": rate, "learner": learner}, "seed": seed, "measured_s": 10.0,
            "requests": {"sent": 100, "answered": 90, "lost": 10, "p50_ms": 2.0, "p99_ms": p99},
            "devices": [{"kind": "cpu<", "devices": 2, "throughput_per_s": 9.0, "utilisation_percent": 50.0}],
            "checks": {"violations": 0},
            "learning": {"accuracy_percent": 75.0, "steps": (0..50).map(step).collect::<Vec<_>>()},
        })
    }

    #[test]
    fn a_page() {
        let all: Vec<Value> = ["100", "200"]
            .iter()
            .flat_map(|rate| {
                ["thompson", "fixed"]
                    .into_iter()
                    .flat_map(|l| [1, 2].map(|seed| result(rate, l, seed, 10.0 * seed as f64)))
            })
            .collect();
        let page = page("a <b>", &all.iter().collect::<Vec<_>>());
        for outside in ["http://", "https://", "src=", "href=", "url(", "@import", "<script", "NaN", "inf"] {
            assert!(!page.contains(outside), "{outside}");
        }
        for inside in [
            "a &lt;b&gt;",
            "8 simulations",
            "15 \u{b1} 63.5 ms",
            "10 \u{b1} 0 %",
            "cpu&lt;",
            "thompson",
            "oracle",
        ] {
            assert!(page.contains(inside), "{inside}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        // Latency, throughput, shares, and the weights of four learners.
        assert_eq!(page.matches("<figure").count(), 7);
        assert!(super::page("nothing", &[]).contains("</html>"));
    }
}
