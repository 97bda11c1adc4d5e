//! Results as tidy tables: a line for each simulation and kind of device, and one for all of them together; and a line for each decision
//! of a learner. The sweep's settings are columns of their own, and each line says what made it.

use pointsman_chart::{Cell, Kind, Tidy};
use serde_json::Value;
use std::collections::BTreeSet;

use Kind::{Number, Text, Whole};

/// Columns behind the settings of a line of results.
const RESULTS: [(&str, Kind); 17] = [
    ("seed", Whole),
    ("kind", Text),
    ("devices", Whole),
    ("sent_requests", Whole),
    ("answered_requests", Whole),
    ("lost_requests", Whole),
    ("loss_percent", Number),
    ("throughput_per_s", Number),
    ("mean_ms", Number),
    ("p50_ms", Number),
    ("p95_ms", Number),
    ("p99_ms", Number),
    ("max_ms", Number),
    ("wait_mean_ms", Number),
    ("utilisation_percent", Number),
    ("utilisation_stddev_percent", Number),
    ("violations", Whole),
];

/// Columns of a decision, behind the settings, the seed and the learner: with the names that they have in JSON.
const STEPS: [(&str, &str, Kind); 15] = [
    ("class", "class", Text),
    ("at_s", "at_s", Number),
    ("offered_per_s", "offered_per_s", Number),
    ("cpu_percent", "cpu_percent", Number),
    ("accelerator_percent", "accelerator_percent", Number),
    ("p99_ms", "p99_ms", Number),
    ("loss_share", "loss", Number),
    ("weight", "weight", Whole),
    ("verdict", "verdict", Text),
    ("reward", "reward", Number),
    ("next_weight", "next_weight", Whole),
    ("best_weight", "best_weight", Whole),
    ("best_p99_ms", "best_p99_ms", Number),
    ("own_p99_ms", "own_p99_ms", Number),
    ("right", "right", Whole),
];

const ORIGIN: [&str; 3] = ["version", "command", "machine"];

/// A value of JSON for a column of this kind; empty if it has another one.
fn cell(v: &Value, kind: Kind) -> Cell {
    match kind {
        Text => Cell::from(v.as_str()),
        Whole => Cell::from(v.as_u64().or_else(|| v.as_bool().map(u64::from))),
        Number => Cell::from(v.as_f64()),
    }
}

/// Settings of the sweeps of these results, in alphabetical order: numbers, if all values are.
fn settings<'a>(results: &[&'a Value]) -> Vec<(&'a String, Kind)> {
    let points = || results.iter().filter_map(|r| r["point"].as_object());
    let names: BTreeSet<&String> = points().flat_map(|p| p.keys()).collect();
    let is_number = |v: &Value| v.as_str().is_none_or(|text| text.parse::<f64>().is_ok());
    let kind = |name: &String| {
        if points().filter_map(|p| p.get(name)).all(is_number) { Number } else { Text }
    };
    names.into_iter().map(|name| (name, kind(name))).collect()
}

/// A table whose lines begin with the scenario and settings, and end with their origin.
fn table<'a>(settings: &[(&'a String, Kind)], columns: impl Iterator<Item = (&'a str, Kind)>) -> Tidy {
    let settings = settings.iter().map(|(name, kind)| (name.as_str(), *kind));
    let origin = ORIGIN.map(|name| (name, Text));
    let all = [("scenario", Text)].into_iter().chain(settings).chain(columns).chain(origin);
    Tidy::new(all.map(|(name, kind)| (name.to_owned(), kind)))
}

/// Adds a line with these cells between what says which simulation it is, and what made it.
fn line(table: &mut Tidy, result: &Value, settings: &[(&String, Kind)], cells: Vec<Cell>) {
    let setting = |(name, kind): &(&String, Kind)| {
        let text = result["point"][name.as_str()].as_str();
        match kind {
            Number => Cell::from(text.and_then(|t| t.parse::<f64>().ok())),
            _ => Cell::from(text),
        }
    };
    let start = [cell(&result["scenario"], Text)].into_iter().chain(settings.iter().map(setting));
    let end = ORIGIN.map(|name| cell(&result["origin"][name], Text));
    table.row(start.chain(cells).chain(end));
}

/// The table of results, as [`pointsman_sim::Outcome::json`] writes them, with their origin.
pub fn results(all: &[&Value]) -> Tidy {
    let settings = settings(all);
    let mut out = table(&settings, RESULTS.into_iter());
    for result in all {
        let groups: &[Value] = result["devices"].as_array().map_or(&[], Vec::as_slice);
        let whole = |name: &str| groups.iter().filter_map(|g| g[name].as_u64()).sum::<u64>();
        let sum = |name: &str| groups.iter().filter_map(|g| g[name].as_f64()).sum::<f64>();
        let requests = &result["requests"];
        let of_all = |(name, kind): (&str, Kind)| match name {
            "seed" => cell(&result[name], kind),
            "kind" => "all".into(),
            "devices" => whole(name).into(),
            "throughput_per_s" => sum(name).into(),
            "violations" => cell(&result["checks"][name], kind),
            _ => cell(&requests[name.trim_end_matches("_requests")], kind),
        };
        line(&mut out, result, &settings, RESULTS.map(of_all).into());
        for group in groups {
            let of_group = |(name, kind): (&str, Kind)| match name {
                "seed" => cell(&result[name], kind),
                "violations" => cell(&result["checks"][name], kind),
                _ => cell(&group[name.trim_end_matches("_requests")], kind),
            };
            line(&mut out, result, &settings, RESULTS.map(of_group).into());
        }
    }
    out
}

/// The table of learners' decisions. The learner is a column of its own, whether the sweep has it or not.
pub fn steps(all: &[&Value]) -> Tidy {
    let settings: Vec<_> = settings(all).into_iter().filter(|(name, _)| *name != "learner").collect();
    let columns = STEPS.map(|(name, _, kind)| (name, kind));
    let mut out = table(&settings, [("seed", Whole), ("learner", Text)].into_iter().chain(columns));
    for result in all {
        let learning = &result["learning"];
        for step in learning["steps"].as_array().into_iter().flatten() {
            let mut cells = vec![cell(&result["seed"], Whole), cell(&learning["learner"], Text)];
            cells.extend(STEPS.map(|(_, name, kind)| cell(&step[name], kind)));
            line(&mut out, result, &settings, cells);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_line_has_every_column() {
        let with = |point: Value| {
            json!({
                "scenario": "x", "point": point, "seed": 3,
                "requests": {"sent": 5, "answered": 4, "lost": 1, "loss_percent": 20.0, "p50_ms": 1.5},
                "devices": [{"kind": "cpu", "devices": 2, "throughput_per_s": 0.5}],
                "checks": {"violations": 0},
                "origin": {"version": "0.1", "command": "pointsman sim x", "machine": "2 x any"},
            })
        };
        let (a, b) = (with(json!({"policy": "wrr", "rate_per_s": "10"})), with(json!({"policy": "a,b"})));
        let table = results(&[&a, &b]).csv();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("scenario,policy,rate_per_s,seed,kind,devices,"), "{table}");
        assert_eq!(lines[1], "x,wrr,10,3,all,2,5,4,1,20,0.5,,1.5,,,,,,,0,0.1,pointsman sim x,2 x any");
        assert!(lines[3].starts_with("x,\"a,b\",,3,all,"), "{table}");
        let columns = lines[0].split(',').count();
        assert!(lines[..3].iter().all(|l| l.split(',').count() == columns), "{table}");
        assert_eq!(steps(&[&a]).csv().lines().count(), 1);
    }

    #[test]
    fn decisions() {
        let step = json!({"at_s": 1.0, "weight": 2, "verdict": "open", "right": true});
        let result = json!({
            "scenario": "x", "point": {"learner": "thompson", "servers": "4"}, "seed": 3,
            "learning": {"learner": "thompson", "steps": [step]},
        });
        let table = steps(&[&result]).csv();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("scenario,servers,seed,learner,class,"), "{table}");
        assert_eq!(lines[1], "x,4,3,thompson,,1,,,,,,2,open,,,,,,1,,,");
        assert_eq!(lines[1].split(',').count(), lines[0].split(',').count());
    }
}
