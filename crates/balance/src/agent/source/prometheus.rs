//! The text format of Prometheus' metrics ("Exposition formats", version 0.0.4, and the additions of OpenMetrics to its
//! lines), read for one metric at a time.

use super::Reading;

/// Splits off the text before the brace that closes the labels, respecting quotes and escapes.
fn labels_end(text: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(i),
            _ => {}
        }
    }
    None
}

/// The labels between braces: names and values, escapes undone.
pub(super) fn labels(text: &str) -> Option<Vec<(String, String)>> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let mut chars = after.trim_start().strip_prefix('"')?.char_indices();
        let mut value = String::new();
        let end = loop {
            match chars.next()? {
                (i, '"') => break i,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    c => value.push(c),
                },
                (_, c) => value.push(c),
            }
        };
        out.push((name.trim().to_string(), value));
        rest = after.trim_start().get(end + 2..)?.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(more) => more.trim_start(),
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    Some(out)
}

/// A line's metric, labels as written and value; `None` for comments and other lines.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c == '{' || c.is_ascii_whitespace())?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.trim_start().strip_prefix('{') {
        Some(inside) => {
            let at = labels_end(inside)?;
            (&inside[..at], &inside[at + 1..])
        }
        None => ("", rest),
    };
    // Behind the value there may be a timestamp, and an exemplar.
    let value = rest.split_ascii_whitespace().next()?;
    Some((name, labels, value.parse().ok()?))
}

/// The values of every series that a reading selects. NaN stands for no value.
pub(super) fn values(text: &str, reading: &Reading) -> Vec<f64> {
    let selected = |(name, own, value): (&str, &str, f64)| {
        if name != reading.name || value.is_nan() {
            return None;
        }
        if reading.labels.is_empty() {
            return Some(value);
        }
        let own = labels(own)?;
        reading.labels.iter().all(|wanted| own.contains(wanted)).then_some(value)
    };
    text.lines().filter_map(sample).filter_map(selected).collect()
}
