//! Values of JSON as text for people.

use serde_json::Value;

/// A string; empty for anything else.
pub fn string(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// A whole number; 0 for anything else.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// The elements of a list; none for anything else.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Strings of a list, separated by commas; a dash without any.
pub fn joined(value: &Value) -> String {
    let all: Vec<&str> = list(value).iter().map(string).collect();
    if all.is_empty() { "-".into() } else { all.join(", ") }
}

/// `2026-11-25 09:21:07`, from `2026-11-25T09:21:07.123Z`.
pub fn moment(rfc3339: &str) -> String {
    rfc3339.get(..19).unwrap_or(rfc3339).replace('T', " ")
}

/// The address of a controller's console, from that of its API.
pub fn console(api: &str) -> Option<String> {
    let is_web = ["http://", "https://"].iter().any(|scheme| api.starts_with(scheme));
    is_web.then(|| format!("{}/console", api.trim_end_matches('/')))
}

/// A time that has passed: `0.2 s`, `12 s`, `5 min`, `3 h`, `2 d`.
pub fn elapsed(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        10_000..120_000 => format!("{} s", ms / 1000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000..172_800_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} d", ms / 86_400_000),
    }
}

/// Thousands apart: `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 connection`, `2 connections`.
pub fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A policy in short form: its name and settings, without the note.
pub fn policy(policy: &Value) -> String {
    let mut out = policy["policy"].as_str().unwrap_or("-").to_string();
    for (name, value) in policy.as_object().into_iter().flatten() {
        let value = match value {
            Value::String(s) => s.clone(),
            Value::Object(map) => map.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(", "),
            other => other.to_string(),
        };
        if name != "policy" && name != "note" {
            out.push_str(&format!(", {name} {value}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(
            [0, 240, 9_990, 61_000, 200_000, 8_000_000, 200_000_000].map(elapsed).join(" "),
            "0.0 s 0.2 s 9.9 s 61 s 3 min 2 h 2 d"
        );
        assert_eq!([7, 1234, 1_234_567].map(grouped), ["7", "1,234", "1,234,567"]);
        assert_eq!(
            (counted(1, "change"), counted(1000, "change")),
            ("1 change".into(), "1,000 changes".into())
        );
        assert_eq!(moment("2026-11-25T09:21:07.123Z"), "2026-11-25 09:21:07");
        let json = serde_json::json!({"policy": "wrr", "weights": {"s1/cpu": 2}, "high": 9, "note": "x"});
        assert_eq!(policy(&json), "wrr, high 9, weights s1/cpu=2");
    }
}
