//! Results as tidy tables: a line for each simulation and kind of device, and one for all of them together; and a line for each decision
//! of a learner. The sweep's settings are columns of their own, and each line says what made it.

use pointsman_chart::field;
use serde_json::Value;
use std::collections::BTreeSet;

/// Columns behind the settings of a line.
const RESULTS: &str = "seed,kind,devices,sent_requests,answered_requests,lost_requests,loss_percent,throughput_per_s,\
mean_ms,p50_ms,p95_ms,p99_ms,max_ms,wait_mean_ms,utilisation_percent,utilisation_stddev_percent,violations,version,command,machine";

/// Columns of decisions behind the settings.
const STEPS: &str = "seed,learner,class,at_s,offered_per_s,cpu_percent,accelerator_percent,p99_ms,loss_share,weight,\
verdict,reward,next_weight,best_weight,best_p99_ms,own_p99_ms,right,version,command,machine";

fn number(v: &Value, name: &str) -> String {
    match &v[name] {
        Value::Number(n) => n.to_string(),
        _ => String::new(),
    }
}

fn numbers(v: &Value, names: &[&str]) -> String {
    names.iter().map(|n| number(v, n)).collect::<Vec<_>>().join(",")
}

fn text(v: &Value) -> String {
    field(v.as_str().unwrap_or_default())
}

/// Settings of the sweeps of these results, in alphabetical order.
fn settings<'a>(results: &[&'a Value]) -> Vec<&'a String> {
    let names = results.iter().filter_map(|r| r["point"].as_object()).flat_map(|p| p.keys());
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Which simulation it is: scenario, settings, seed.
fn start(result: &Value, settings: &[&String]) -> String {
    let values = settings.iter().map(|name| format!("{},", text(&result["point"][name.as_str()])));
    format!("{},{}{}", text(&result["scenario"]), values.collect::<String>(), number(result, "seed"))
}

/// What made it.
fn end(result: &Value) -> String {
    ["version", "command", "machine"].map(|name| text(&result["origin"][name])).join(",")
}

fn head(settings: &[&String], columns: &str) -> String {
    let names = settings.iter().map(|name| format!("{},", field(name)));
    format!("scenario,{}{columns}\n", names.collect::<String>())
}

/// The table of results, as [`pointsman_sim::Outcome::json`] writes them, with their origin.
pub fn results(all: &[&Value]) -> String {
    let settings = settings(all);
    let mut out = head(&settings, RESULTS);
    for result in all {
        let (start, end) = (start(result, &settings), end(result));
        let latency = ["mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms"];
        let violations = number(&result["checks"], "violations");
        let requests = &result["requests"];
        let groups: &[Value] = result["devices"].as_array().map_or(&[], Vec::as_slice);
        let sum = |name: &str| groups.iter().filter_map(|g| g[name].as_f64()).sum::<f64>();
        out.push_str(&format!(
            "{start},all,{},{},{},{},,,,{violations},{end}\n",
            sum("devices"),
            numbers(requests, &["sent", "answered", "lost", "loss_percent"]),
            sum("throughput_per_s"),
            numbers(requests, &latency),
        ));
        for g in groups {
            out.push_str(&format!(
                "{start},{},{},,{},,,{},{},{},{violations},{end}\n",
                text(&g["kind"]),
                number(g, "devices"),
                number(g, "answered"),
                number(g, "throughput_per_s"),
                numbers(g, &latency),
                numbers(g, &["wait_mean_ms", "utilisation_percent", "utilisation_stddev_percent"]),
            ));
        }
    }
    out
}

/// The table of learners' decisions. The learner is a column of its own, whether the sweep has it or not.
pub fn steps(all: &[&Value]) -> String {
    let settings: Vec<&String> = settings(all).into_iter().filter(|name| *name != "learner").collect();
    let mut out = head(&settings, STEPS);
    for result in all {
        let (start, end) = (start(result, &settings), end(result));
        let learning = &result["learning"];
        for s in learning["steps"].as_array().into_iter().flatten() {
            out.push_str(&format!(
                "{start},{},{},{},{},{},{},{},{end}\n",
                text(&learning["learner"]),
                text(&s["class"]),
                numbers(
                    s,
                    &["at_s", "offered_per_s", "cpu_percent", "accelerator_percent", "p99_ms", "loss"]
                ),
                number(s, "weight"),
                text(&s["verdict"]),
                numbers(s, &["reward", "next_weight", "best_weight", "best_p99_ms", "own_p99_ms"]),
                u8::from(s["right"] == true),
            ));
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
        let table = results(&[&a, &b]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("scenario,policy,rate_per_s,seed,kind,devices,"), "{table}");
        assert_eq!(lines[1], "x,wrr,10,3,all,2,5,4,1,20.0,0.5,,1.5,,,,,,,0,0.1,pointsman sim x,2 x any");
        assert!(lines[3].starts_with("x,\"a,b\",,3,all,"), "{table}");
        let columns = lines[0].split(',').count();
        assert!(lines[..3].iter().all(|l| l.split(',').count() == columns), "{table}");
        assert_eq!(steps(&[&a]).lines().count(), 1);
    }

    #[test]
    fn decisions() {
        let step = json!({"at_s": 1.0, "weight": 2, "verdict": "open", "right": true});
        let result = json!({
            "scenario": "x", "point": {"learner": "thompson", "servers": "4"}, "seed": 3,
            "learning": {"learner": "thompson", "steps": [step]},
        });
        let table = steps(&[&result]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("scenario,servers,seed,learner,class,"), "{table}");
        assert_eq!(lines[1], "x,4,3,thompson,,1.0,,,,,,2,open,,,,,,1,,,");
        assert_eq!(lines[1].split(',').count(), lines[0].split(',').count());
    }
}
