//! Results as a tidy table: one line for each simulation and kind of device, and one for all of them together.

use serde_json::Value;

/// Names of the columns.
pub const HEAD: &str = "scenario,point,seed,kind,devices,sent_requests,answered_requests,lost_requests,\
throughput_per_s,mean_ms,p50_ms,p95_ms,p99_ms,max_ms,wait_mean_ms,utilisation_percent,utilisation_stddev_percent,violations";

fn number(v: &Value, name: &str) -> String {
    match &v[name] {
        Value::Number(n) => n.to_string(),
        _ => String::new(),
    }
}

/// Lines of the table for one result, as [`crate::Outcome::json`] writes it.
pub fn lines(result: &Value) -> Vec<String> {
    let text = |name: &str| result[name].as_str().unwrap_or_default().to_string();
    let point = result["point"].as_object().map(|p| {
        p.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect::<Vec<_>>().join(" ")
    });
    let start = format!("{},{},{}", text("scenario"), point.unwrap_or_default(), number(result, "seed"));
    let latency =
        |v: &Value| ["mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms"].map(|n| number(v, n)).join(",");
    let violations = number(&result["checks"], "violations");
    let requests = &result["requests"];
    let groups: Vec<Value> = result["devices"].as_array().cloned().unwrap_or_default();
    let sum = |name: &str| groups.iter().filter_map(|g| g[name].as_f64()).sum::<f64>();
    let mut out = vec![format!(
        "{start},all,{},{},{},{},{},{},,,,{violations}",
        sum("devices"),
        number(requests, "sent"),
        number(requests, "answered"),
        number(requests, "lost"),
        sum("throughput_per_s"),
        latency(requests),
    )];
    for g in &groups {
        out.push(format!(
            "{start},{},{},,{},,{},{},{},{},{},{violations}",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_every_column() {
        let result = serde_json::json!({
            "scenario": "x", "point": {"policy": "wrr"}, "seed": 3,
            "requests": {"sent": 5, "answered": 4, "lost": 1, "p50_ms": 1.5},
            "devices": [{"kind": "cpu", "devices": 2, "throughput_per_s": 0.5}],
            "checks": {"violations": 0},
        });
        let lines = lines(&result);
        assert_eq!(lines[0], "x,policy=wrr,3,all,2,5,4,1,0.5,,1.5,,,,,,,0");
        assert!(lines.iter().all(|l| l.split(',').count() == HEAD.split(',').count()), "{lines:?}");
    }
}
