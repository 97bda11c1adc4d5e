//! Results as a tidy table: one line for each simulation and kind of device, and one for all of them together.

use serde_json::Value;

/// Names of the columns.
pub const HEAD: &str = "scenario,point,seed,kind,devices,sent_requests,answered_requests,lost_requests,loss_percent,\
throughput_per_s,mean_ms,p50_ms,p95_ms,p99_ms,max_ms,wait_mean_ms,utilisation_percent,utilisation_stddev_percent,violations";

fn number(v: &Value, name: &str) -> String {
    match &v[name] {
        Value::Number(n) => n.to_string(),
        _ => String::new(),
    }
}

/// Which simulation it is: scenario, point, seed.
fn start(result: &Value) -> String {
    let point = result["point"].as_object().map(|p| {
        p.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect::<Vec<_>>().join(" ")
    });
    let scenario = result["scenario"].as_str().unwrap_or_default();
    format!("{scenario},{},{}", point.unwrap_or_default(), number(result, "seed"))
}

/// Lines of the table for one result, as [`crate::Outcome::json`] writes it.
pub fn lines(result: &Value) -> Vec<String> {
    let start = start(result);
    let latency =
        |v: &Value| ["mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms"].map(|n| number(v, n)).join(",");
    let violations = number(&result["checks"], "violations");
    let requests = &result["requests"];
    let groups: Vec<Value> = result["devices"].as_array().cloned().unwrap_or_default();
    let sum = |name: &str| groups.iter().filter_map(|g| g[name].as_f64()).sum::<f64>();
    let mut out = vec![format!(
        "{start},all,{},{},{},{},{},{},{},,,,{violations}",
        sum("devices"),
        number(requests, "sent"),
        number(requests, "answered"),
        number(requests, "lost"),
        number(requests, "loss_percent"),
        sum("throughput_per_s"),
        latency(requests),
    )];
    for g in &groups {
        out.push(format!(
            "{start},{},{},,{},,,{},{},{},{},{},{violations}",
            g["kind"].as_str().unwrap_or_default(),
            number(g, "devices"),
            number(g, "answered"),
            number(g, "throughput_per_s"),
            latency(g),
            number(g, "wait_mean_ms"),
            number(g, "utilisation_percent"),
            number(g, "utilisation_stddev_percent"),
        ));
    }
    out
}

/// Names of the columns of learners' decisions.
pub const STEPS_HEAD: &str = "scenario,point,seed,learner,class,at_s,offered_per_s,cpu_percent,accelerator_percent,p99_ms,\
loss_share,weight,verdict,reward,next_weight,best_weight,best_p99_ms,own_p99_ms,right";

/// Lines of the table of decisions for one result.
pub fn step_lines(result: &Value) -> Vec<String> {
    let learning = &result["learning"];
    let start = start(result);
    let learner = learning["learner"].as_str().unwrap_or_default();
    let of = |s: &Value| {
        let numbers = |names: &[&str]| names.iter().map(|n| number(s, n)).collect::<Vec<_>>().join(",");
        format!(
            "{start},{learner},{},{},{},{},{},{}",
            s["class"].as_str().unwrap_or_default(),
            numbers(&["at_s", "offered_per_s", "cpu_percent", "accelerator_percent", "p99_ms", "loss"]),
            number(s, "weight"),
            s["verdict"].as_str().unwrap_or_default(),
            numbers(&["reward", "next_weight", "best_weight", "best_p99_ms", "own_p99_ms"]),
            u8::from(s["right"] == true),
        )
    };
    learning["steps"].as_array().into_iter().flatten().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_every_column() {
        let result = serde_json::json!({
            "scenario": "x", "point": {"policy": "wrr"}, "seed": 3,
            "requests": {"sent": 5, "answered": 4, "lost": 1, "loss_percent": 20.0, "p50_ms": 1.5},
            "devices": [{"kind": "cpu", "devices": 2, "throughput_per_s": 0.5}],
            "checks": {"violations": 0},
        });
        let lines = lines(&result);
        assert_eq!(lines[0], "x,policy=wrr,3,all,2,5,4,1,20.0,0.5,,1.5,,,,,,,0");
        assert!(lines.iter().all(|l| l.split(',').count() == HEAD.split(',').count()), "{lines:?}");
        assert_eq!(step_lines(&result), Vec::<String>::new());
    }

    #[test]
    fn decisions() {
        let step = serde_json::json!({"at_s": 1.0, "weight": 2, "verdict": "open", "right": true});
        let result = serde_json::json!({
            "scenario": "x", "point": {}, "seed": 3, "learning": {"learner": "thompson", "steps": [step]},
        });
        let lines = step_lines(&result);
        assert_eq!(lines, ["x,,3,thompson,,1.0,,,,,,2,open,,,,,,1"]);
        assert_eq!(lines[0].split(',').count(), STEPS_HEAD.split(',').count());
    }
}
