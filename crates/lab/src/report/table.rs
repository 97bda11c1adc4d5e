//! The terminal's view of a report.

use super::{PointReport, Report};
use std::fmt::Write;

/// Milliseconds with all significant digits.
pub(super) fn milliseconds(ms: f64) -> String {
    match ms {
        x if x >= 100.0 => format!("{x:.0} ms"),
        x if x >= 10.0 => format!("{x:.1} ms"),
        x => format!("{x:.2} ms"),
    }
}

pub(super) fn percent(share: f64) -> String {
    match share {
        0.0 => "-".to_owned(),
        x if x < 0.0005 => "<0.1 %".to_owned(),
        x => format!("{:.1} %", x * 100.0),
    }
}

/// The meaning of a verdict, in a word or two.
pub(super) fn verdict(name: &str) -> &str {
    match name {
        "sustained" => "",
        "lost" => "loses requests",
        "too-slow" => "too slow",
        "generator-late" => "generator late",
        other => other,
    }
}

/// Width of the first column: the longest name that is not cut.
fn name_width(report_names: impl Iterator<Item = usize>) -> usize {
    report_names.max().unwrap_or(0).max("policy".len())
}

/// The heading of the rows that [`point_row`] writes; `width` is that of the first column.
pub fn point_header(width: usize, devices: &[String]) -> String {
    let mut line = format!(
        "{:<width$} {:>9} {:>10} {:>7} {:>9} {:>9}",
        "policy", "offered/s", "answered/s", "lost", "P50", "P99"
    );
    for device in devices {
        let _ = write!(line, " {device:>8}");
    }
    line
}

/// One measured point as a line.
pub fn point_row(width: usize, policy: &str, point: &PointReport, devices: &[String]) -> String {
    let mut line = format!(
        "{policy:<width$} {:>9.1} {:>10.1} {:>7} {:>9} {:>9}",
        point.offered_rps,
        point.answered_rps,
        point.lost,
        milliseconds(point.p50_ms),
        milliseconds(point.p99_ms)
    );
    for device in devices {
        let share = point.share.get(device).copied().unwrap_or(0.0);
        let _ = write!(line, " {:>8}", percent(share));
    }
    let remark = verdict(&point.verdict);
    if !remark.is_empty() {
        let _ = write!(line, "  {remark}");
    }
    line
}

/// The whole report as text.
pub fn table(report: &Report) -> String {
    let devices: Vec<String> = report.rack.devices().map(|d| d.name.clone()).collect();
    let width = name_width(report.policies.iter().map(|p| p.name.chars().count()));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}", point_header(width, &devices));
    for policy in &report.policies {
        for point in &policy.points {
            let _ = writeln!(out, "{}", point_row(width, &policy.name, point, &devices));
        }
    }
    let _ = writeln!(out, "\n{:<width$} {:>11}", "policy", "sustained/s");
    let best = report.policies.iter().map(|p| p.sustained_rps).fold(0.0, f64::max);
    for policy in &report.policies {
        let bar = "#".repeat((policy.sustained_rps / best.max(1e-9) * 40.0).round() as usize);
        let _ = writeln!(out, "{:<width$} {:>11.1} {bar}", policy.name, policy.sustained_rps);
    }
    out.push('\n');
    for line in findings(report) {
        let _ = writeln!(out, "{line}");
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

/// Consistency and transfers, a sentence each.
pub(super) fn findings(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let c = &report.consistency;
    if c.connections > 0 {
        let mut line = format!(
            "consistency: {} violations in {} requests on {} concurrent connections ({} TCP)",
            c.violations, c.requests, c.connections, c.tcp_connections
        );
        if !c.disturbances.is_empty() {
            let _ = write!(line, " while {}", c.disturbances.join(", "));
        }
        let _ = write!(line, "; {} unanswered, {} TCP failures", c.unanswered, c.tcp_failures);
        if c.bad_signatures + c.wrong_source > 0 {
            let (bad, wrong) = (c.bad_signatures, c.wrong_source);
            let _ = write!(line, "; {bad} bad signatures, {wrong} answers from a wrong address");
        }
        lines.push(line);
    }
    for bulk in &report.bulk {
        lines.push(format!(
            "transfer: {} of {:.1} MB {} in {:.1} s ({:.0} Mbit/s), by {}",
            match bulk.direction {
                crate::load::Direction::Download => "download",
                crate::load::Direction::Upload => "upload",
            },
            bulk.bytes as f64 / 1e6,
            if bulk.intact { "intact" } else { "DAMAGED" },
            bulk.elapsed_ms / 1e3,
            bulk.mbit_per_s,
            bulk.device.as_deref().unwrap_or("an unknown signer")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn columns_line_up_and_nothing_is_missing() {
        let text = table(&sample());
        let lines: Vec<&str> = text.lines().collect();
        let end = |line: &str, of: &str| line.find(of).map(|at| at + of.len());
        let p99 = end(lines[0], "P99");
        assert_eq!(p99, end(lines[1], "15.8 ms").or(p99), "{}", lines[1]);
        assert!(lines[1].starts_with("server-only      96.0       96.0       0"), "{}", lines[1]);
        assert!(text.contains("loses requests"));
        assert!(text.contains("p4mite            423.0 ########################################"), "{text}");
        assert!(
            text.contains("0 violations in 60000 requests on 10000 concurrent connections (500 TCP) while")
        );
        assert!(text.contains("download of 100.0 MB intact in 4.0 s (200 Mbit/s), by s1/cpu"));
        assert!(text.contains("note: A note"));
    }

    #[test]
    fn numbers_have_useful_digits() {
        assert_eq!(milliseconds(1234.5), "1234 ms");
        assert_eq!(milliseconds(12.345), "12.3 ms");
        assert_eq!(milliseconds(0.0456), "0.05 ms");
        assert_eq!(
            (percent(0.0), percent(0.0001), percent(0.5)),
            ("-".into(), "<0.1 %".into(), "50.0 %".into())
        );
    }
}
