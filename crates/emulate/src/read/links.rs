//! Rates and delays of links, as Mininet writes them.

use crate::fields::{Part, Problems};
use crate::json::Json;
use pointsman_topology::Line;

/// The greatest rate, in Mbit/s.
const MOST_MBIT: f64 = 400_000.0;
/// The greatest delay.
const MOST_NS: f64 = 60e9;
/// Bytes that wait before a host's interface with a rate: 1000 packets, as in Mininet.
const HOST_QUEUE_BYTES: u64 = 1000 * 1514;

/// A link without limits.
pub(super) fn unlimited() -> Line {
    Line { bits_per_s: Line::UNLIMITED, delay_ns: 0, queue_bytes: HOST_QUEUE_BYTES, loss: 0.0 }
}

/// A number, or a string with one.
fn amount(part: &Part<'_>, good: impl Fn(f64) -> bool, wanted: &str, problems: &mut Problems) -> Option<f64> {
    let number = match part.json {
        Json::Number(n) => n.as_f64(),
        Json::Text(s) => s.parse().ok(),
        _ => None,
    };
    let found = number.filter(|n| good(*n));
    if found.is_none() {
        part.problem(format!("{} is not {wanted}", part.json), problems);
    }
    found
}

/// A rate in Mbit/s, to bits per second.
pub(super) fn rate(part: &Part<'_>, problems: &mut Problems) -> Option<u64> {
    let wanted = format!("a rate: write a number of Mbit/s, at most {MOST_MBIT}");
    let mbit = amount(part, |n| n > 0.0 && n <= MOST_MBIT, &wanted, problems)?;
    Some(((mbit * 1e6).round() as u64).max(1))
}

/// A share of lost packets in per cent, to a probability.
pub(super) fn loss(part: &Part<'_>, problems: &mut Problems) -> Option<f64> {
    let wanted = "a share of lost packets: write per cent, 0 to 100";
    Some(amount(part, |n| (0.0..=100.0).contains(&n), wanted, problems)? / 100.0)
}

/// The weight of a link for controllers that compute paths.
pub(super) fn weight(part: &Part<'_>, problems: &mut Problems) -> Option<f64> {
    let wanted = "a weight for controllers: write a number of at least 0";
    amount(part, |n| n >= 0.0 && n.is_finite(), wanted, problems)
}

/// A delay, to nanoseconds: a number of milliseconds, or a string with a unit. A string without one has microseconds, as for `tc`.
pub(super) fn delay(part: &Part<'_>, problems: &mut Problems) -> Option<u64> {
    let ns = match part.json {
        Json::Number(n) => n.as_f64().map(|ms| ms * 1e6),
        Json::Text(s) => {
            let at = s.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(s.len());
            let (number, unit) = s.split_at(at);
            let scale = match unit.trim() {
                "s" | "sec" | "secs" => Some(1e9),
                "ms" | "msec" | "msecs" => Some(1e6),
                "us" | "usec" | "usecs" | "" => Some(1e3),
                _ => None,
            };
            scale.and_then(|scale| number.trim().parse::<f64>().ok().map(|n| n * scale))
        }
        _ => None,
    };
    match ns.filter(|ns| (0.0..=MOST_NS).contains(ns)) {
        Some(ns) => Some(ns.round() as u64),
        None => {
            let what = format!(
                "{} is not a delay: write a number of milliseconds, or a string such as \"10ms\" or \"500us\", of at most a minute",
                part.json
            );
            part.problem(what, problems);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let read = |json: &str, f: fn(&Part<'_>, &mut Problems) -> Option<u64>| {
            let json = Json::parse(json).expect("JSON");
            let mut problems = Problems::new();
            let read = f(&Part::whole(&json), &mut problems);
            assert_eq!(read.is_none(), !problems.is_empty(), "{json}");
            read
        };
        for (text, ns) in
            [("0", 0), ("1.5", 1_500_000), ("\"0\"", 0), ("\"7\"", 7000), ("\"10ms\"", 10_000_000)]
        {
            assert_eq!(read(text, delay), Some(ns), "{text}");
        }
        for text in ["-1", "\"1h\"", "\"ms\"", "1e300", "\"-5ms\"", "\"NaN\"", "[]", "61000", "\"inf\""] {
            assert_eq!(read(text, delay), None, "{text}");
        }
        assert_eq!((read("0.5", rate), read("\"10\"", rate)), (Some(500_000), Some(10_000_000)));
        for text in ["0", "-1", "1e9", "\"fast\"", "null", "\"NaN\""] {
            assert_eq!(read(text, rate), None, "{text}");
        }
        let read = |json: &str| {
            let json = Json::parse(json).expect("JSON");
            loss(&Part::whole(&json), &mut Problems::new())
        };
        assert_eq!(["0", "12.5", "100", "\"5\""].map(read), [Some(0.0), Some(0.125), Some(1.0), Some(0.05)]);
        assert_eq!(["-1", "101", "\"5%\"", "true"].map(read), [None; 4]);
    }
}
