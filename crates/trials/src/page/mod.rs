//! The results as an HTML page with charts: one file, no script, no external resources.

mod learning;
mod overtime;
mod sweep;

use crate::stats::{Mean, ci95, mean};
use pointsman_chart::{Align, Page, Table, number};
use pointsman_console::results::Origin;
use serde_json::Value;
use std::collections::BTreeMap;

type Point = BTreeMap<String, String>;

/// All seeds of one point of a sweep.
struct Runs<'a> {
    point: Point,
    results: Vec<&'a Value>,
}

impl Runs<'_> {
    /// A value of each seed that has one.
    fn values(&self, what: impl Fn(&Value) -> Option<f64>) -> Vec<f64> {
        self.results.iter().filter_map(|r| what(r)).collect()
    }

    /// The mean of something over seeds, and its interval.
    fn over(&self, what: impl Fn(&Value) -> Option<f64>) -> Option<Estimate> {
        let values = self.values(what);
        (!values.is_empty()).then(|| Estimate { mean: mean(&values), ends: ci95(&values), n: values.len() })
    }

    /// Its point without this column.
    fn name(&self, without: &str) -> String {
        let rest = self.point.iter().filter(|(k, _)| *k != without);
        let text: Vec<String> = rest
            .map(|(k, v)| match k.as_str() {
                "policy" | "learner" | "scheme" => v.clone(),
                _ => format!("{} {v}", k.replace('_', " ").replace("per s", "/s")),
            })
            .collect();
        if text.is_empty() { "all".into() } else { text.join(", ") }
    }
}

/// A mean over seeds with the 95 % confidence interval, which need not be symmetric.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: Mean,
    ends: (f64, f64),
    n: usize,
}

impl Estimate {
    /// The interval, if several seeds give one.
    fn interval(&self) -> Option<(f64, f64)> {
        (self.n > 1).then_some(self.ends)
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (low, high) = self.ends;
        match self.interval() {
            Some(_) => write!(f, "{} ({} to {})", number(self.mean.mean), number(low), number(high)),
            None => f.write_str(&number(self.mean.mean)),
        }
    }
}

/// A quantity of a result.
#[derive(Clone, Copy)]
struct Metric {
    /// With its unit, as a label.
    label: &'static str,
    unit: &'static str,
    /// Whether its axis is logarithmic.
    log: bool,
    value: fn(&Value) -> Option<f64>,
    /// What it covers.
    caption: &'static str,
}

/// Of requests.
const REQUESTS: [Metric; 4] = [
    Metric {
        label: "P99, ms",
        unit: "ms",
        log: true,
        value: |r| r["requests"]["p99_ms"].as_f64(),
        caption: "Of all requests; a lost one counts as its time-out.",
    },
    Metric {
        label: "P50, ms",
        unit: "ms",
        log: true,
        value: |r| r["requests"]["p50_ms"].as_f64(),
        caption: "Of all requests; a lost one counts as its time-out.",
    },
    Metric {
        label: "lost, %",
        unit: "%",
        log: false,
        value: |r| Some(100.0 * r["requests"]["lost"].as_f64()? / r["requests"]["sent"].as_f64()?.max(1.0)),
        caption: "Requests not answered in time.",
    },
    Metric {
        label: "answered, requests/s",
        unit: "/s",
        log: false,
        value: |r| Some(r["requests"]["answered"].as_f64()? / r["measured_s"].as_f64()?.max(1e-9)),
        caption: "Requests answered in time, per second.",
    },
];

/// A completion time of flows of a class, if there were any.
fn fct(r: &Value, class: usize, field: &str) -> Option<f64> {
    let of = &r["fabric"]["fct"][class];
    of[field].as_f64().filter(|_| of["n"] != 0)
}

/// Completion times of flows: of class 0, short ones, 1, large ones, and 2, all.
const FLOWS: [Metric; 5] = [
    Metric {
        label: "mean FCT of short flows, ms",
        unit: "ms",
        log: true,
        value: |r| fct(r, 0, "mean_ms"),
        caption: "Flow completion time; a flow that has not finished counts with the time until the end.",
    },
    Metric {
        label: "mean FCT of large flows, ms",
        unit: "ms",
        log: true,
        value: |r| fct(r, 1, "mean_ms"),
        caption: "Flow completion time; a flow that has not finished counts with the time until the end.",
    },
    Metric {
        label: "P99 of FCT, all flows, ms",
        unit: "ms",
        log: true,
        value: |r| fct(r, 2, "p99_ms"),
        caption: "Flow completion time; a flow that has not finished counts with the time until the end.",
    },
    Metric {
        label: "mean slowdown, all flows",
        unit: "times",
        log: false,
        value: |r| fct(r, 2, "slowdown_mean"),
        caption: "Completion time against that of the same flow in an empty network.",
    },
    Metric {
        label: "unfinished flows",
        unit: "",
        log: false,
        value: |r| {
            Some(r["fabric"]["flows"]["started"].as_f64()? - r["fabric"]["flows"]["finished"].as_f64()?)
        },
        caption: "Flows that had not finished at the end.",
    },
];

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

/// The quantities that these results have.
fn metrics(runs: &[Runs<'_>]) -> Vec<Metric> {
    let of_flows = runs.iter().flat_map(|r| &r.results).any(|r| !r["fabric"].is_null());
    let all: &[Metric] = if of_flows { &FLOWS } else { &REQUESTS };
    let known = |m: &&Metric| runs.iter().any(|r| r.results.iter().any(|v| (m.value)(v).is_some()));
    all.iter().filter(known).copied().collect()
}

/// A line for each point, with means over seeds.
fn summary_table(runs: &[Runs<'_>]) -> Table {
    let metrics = metrics(runs);
    let numbers = metrics.iter().map(|m| (m.label, Align::Right));
    let head: Vec<_> = [("Point", Align::Left), ("Seeds", Align::Right)].into_iter().chain(numbers).collect();
    let mut table = Table::new(&head);
    for r in runs {
        let cells = metrics.iter().map(|m| r.over(m.value).map_or(String::new(), |e| e.to_string()));
        table.row([r.name(""), r.results.len().to_string()].into_iter().chain(cells));
    }
    table
}

/// A summary for the terminal, of more than one simulation.
pub fn summary(results: &[&Value]) -> Option<String> {
    let runs = group(results);
    (results.len() > 1)
        .then(|| format!("\nMeans over seeds (95 % intervals):\n{}", summary_table(&runs).text()))
}

/// The seeds of these results: `1 to 20`, or a list if some are missing between.
fn seeds(results: &[&Value]) -> String {
    let mut all: Vec<u64> = results.iter().filter_map(|r| r["seed"].as_u64()).collect();
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [] => "none".into(),
        [one] => one.to_string(),
        [first, .., last] if last - first == all.len() as u64 - 1 => format!("{first} to {last}"),
        _ => all.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The page.
pub fn page(scenario: &str, results: &[&Value], origin: &Origin) -> String {
    let mut page = Page::new(&format!("Simulation: {scenario}"));
    let runs = group(results);
    let violations: u64 =
        runs.iter().flat_map(|r| &r.results).filter_map(|r| r["checks"]["violations"].as_u64()).sum();
    let found = match violations {
        0 => "no violations".into(),
        n => format!("<strong class=\"bad\">{n} violations</strong>"),
    };
    page.push(&format!(
        "<p>{}; the checkers found {found}. Means over seeds with their 95 % confidence intervals.</p>\n",
        if results.len() == 1 { "1 simulation".to_owned() } else { format!("{} simulations", results.len()) }
    ));
    page.push(&summary_table(&runs).html());
    page.push(&sweep::charts(&runs, &metrics(&runs)));
    page.push(&overtime::charts(&runs));
    page.push(&learning::section(&runs));
    page.push(&devices(&runs));
    page.origin([("seeds", seeds(results))].into_iter().chain(origin.fields()));
    page.html()
}

fn devices(runs: &[Runs<'_>]) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("Point", left),
        ("Kind", left),
        ("Number", right),
        ("Answered/s", right),
        ("Waiting, ms", right),
        ("Use, %", right),
    ]);
    for r in runs {
        let first = r.results.first().and_then(|v| v["devices"].as_array());
        for group in first.into_iter().flatten() {
            let kind = &group["kind"];
            let of = |field: &'static str| {
                let value =
                    |v: &Value| v["devices"].as_array()?.iter().find(|g| g["kind"] == *kind)?[field].as_f64();
                r.over(value).map_or(String::new(), |e| e.to_string())
            };
            table.row([
                r.name(""),
                kind.as_str().unwrap_or_default().to_owned(),
                group["devices"].to_string(),
                of("throughput_per_s"),
                of("wait_mean_ms"),
                of("utilisation_percent"),
            ]);
        }
    }
    if table.is_empty() {
        return String::new();
    }
    format!("<details><summary>Devices</summary>\n{}</details>\n", table.html())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(rate: &str, learner: &str, seed: u64, p99: f64) -> Value {
        let step = |i: usize| json!({"at_s": i, "right": !i.is_multiple_of(4), "next_weight": i % 3, "best_weight": 1});
        let series: Vec<u64> = (0..60).map(|i| if (20..30).contains(&i) { 0 } else { 9 + i % 2 }).collect();
        json!({
            "point": {"rate_per_s": rate, "learner": learner}, "seed": seed, "measured_s": 10.0,
            "requests": {"sent": 100, "answered": 90, "lost": 10, "p50_ms": 2.0, "p99_ms": p99},
            "devices": [{"kind": "cpu<", "devices": 2, "throughput_per_s": 9.0, "utilisation_percent": 50.0}],
            "checks": {"violations": 0},
            "distribution": {"percent": [0.0, 50.0, 99.0, 100.0], "ms": [0.5, 2.0, p99, 2.0 * p99]},
            "time_series": {"from_s": 0.0, "interval_s": 0.5, "sent": vec![10; 60], "answered": series,
                "p50_ms": vec![2.0; 60], "p99_ms": vec![p99; 60], "answered_by_kind": {"cpu<": series}},
            "scenario_events": [{"at_s": 10.0, "what": "failure of s1/cpu <"}],
            "learning": {"accuracy_percent": 75.0, "steps": (0..50).map(step).collect::<Vec<_>>()},
        })
    }

    fn origin() -> Origin {
        Origin { version: "1", command: "pointsman sim <x>".into(), machine: "2 x any".into() }
    }

    fn sweep(rates: &[&str]) -> Vec<Value> {
        let of = |rate: &&str| {
            let rate = rate.to_string();
            ["thompson", "fixed"]
                .into_iter()
                .flat_map(move |l| [1, 2].map(|seed| result(&rate, l, seed, 10.0 * seed as f64)))
        };
        rates.iter().flat_map(of).collect()
    }

    #[test]
    fn a_page() {
        let all = sweep(&["100", "200"]);
        let page = page("a <b>", &all.iter().collect::<Vec<_>>(), &origin());
        for outside in ["http://", "https://", "src=", "href=", "url(", "@import", "<script", "NaN", "inf\""]
        {
            assert!(!page.contains(outside), "{outside}");
        }
        // The interval of two samples, 10 and 20, would go below zero: it is one by bootstrap.
        for inside in [
            "a &lt;b&gt;",
            "8 simulations",
            "15 (10 to 20)",
            "cpu&lt;",
            "thompson",
            "oracle",
            "failure of s1/cpu &lt;",
            "<dt>seeds<dd>1 to 2",
            "<dt>command<dd>pointsman sim &lt;x&gt;",
            "<dt>machine<dd>2 x any",
            "share of requests, %",
        ] {
            assert!(page.contains(inside), "{inside}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(page.matches("class=\"event\"").count() >= 2, "events are in the charts over time");
        assert!(super::page("nothing", &[], &origin()).contains("</html>"));
    }

    /// A sweep of names has no axis of numbers, but a chart.
    #[test]
    fn names_are_compared() {
        let all = sweep(&["100"]);
        let page = page("x", &all.iter().collect::<Vec<_>>(), &origin());
        assert!(page.contains("class=\"ranks\"") && page.matches("role=\"listitem\"").count() >= 4);
        assert!(
            summary(&all.iter().collect::<Vec<_>>())
                .is_some_and(|t| t.contains("thompson") && t.contains("P99, ms"))
        );
        assert!(summary(&[&all[0]]).is_none());
    }

    #[test]
    fn ranges_of_seeds() {
        let of = |seeds_of: &[u64]| {
            let all: Vec<Value> = seeds_of.iter().map(|s| json!({ "seed": s })).collect();
            seeds(&all.iter().collect::<Vec<_>>())
        };
        assert_eq!((of(&[3, 1, 2, 2]), of(&[4]), of(&[1, 5])), ("1 to 3".into(), "4".into(), "1, 5".into()));
    }
}
