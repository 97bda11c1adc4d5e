//! A result as a line for people.

use super::kept::key_of;
use serde_json::Value;

/// A line for people.
pub(super) fn summary(result: &Value) -> String {
    let number = |v: &Value| v.as_f64().unwrap_or(0.0);
    let (point, wall) = (key_of(result).map(|k| k.1).unwrap_or_default(), number(&result["wall_s"]));
    format!(
        "{point}{}seed {}: {}; {} packets in {wall:.2} s ({:.0} per second); {} violations\n",
        if point.is_empty() { "" } else { ", " },
        result["seed"],
        done(result),
        result["packets"],
        number(&result["packets"]) / wall.max(1e-9),
        result["checks"]["violations"],
    ) + &learnt(&result["learning"])
}

/// The fate of requests or flows.
fn done(result: &Value) -> String {
    let number = |v: &Value| v.as_f64().unwrap_or(0.0);
    let (r, f) = (&result["requests"], &result["fabric"]);
    if f.is_null() {
        let (p50, p99) = (number(&r["p50_ms"]), number(&r["p99_ms"]));
        return format!(
            "{} of {} requests answered ({:.2} % lost), P50 {p50:.3} ms, P99 {p99:.3} ms",
            r["answered"],
            r["sent"],
            number(&r["loss_percent"])
        );
    }
    let mut text = format!("{} of {} flows finished", f["flows"]["finished"], f["flows"]["started"]);
    for class in f["fct"].as_array().into_iter().flatten().filter(|c| c["n"] != 0) {
        let (name, mean, p99) =
            (class["class"].as_str(), number(&class["mean_ms"]), number(&class["p99_ms"]));
        text.push_str(&format!(", {} {mean:.3} ms (P99 {p99:.3} ms)", name.unwrap_or_default()));
    }
    text
}

/// A line about a learner.
fn learnt(l: &Value) -> String {
    if l.is_null() {
        return String::new();
    }
    let number = |name: &str| l[name].as_f64().unwrap_or(0.0);
    let converged = match l["converged_after_intervals"].as_u64() {
        Some(n) => format!("converged after {n}"),
        None => "not converged".into(),
    };
    format!(
        "  {}: right weights in {:.1} % of {} intervals, {:.1} % in their second half, {converged}; P99 {:.1} ms above the \
         oracle's on average, {:.1} ms in the second half\n",
        l["learner"].as_str().unwrap_or_default(),
        number("accuracy_percent"),
        l["intervals"],
        number("accuracy_second_half_percent"),
        number("regret_mean_ms"),
        number("regret_second_half_mean_ms"),
    )
}
