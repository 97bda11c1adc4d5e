//! Results of the wire benchmarks for people, as tables.

use super::report::{PeersReport, Spread, WireReport};
use std::fmt::Write;

/// A table: columns as wide as they must be, numbers to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([head[at].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    let head: Vec<String> = head.iter().map(|h| h.to_string()).collect();
    for row in std::iter::once(&head).chain(rows) {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = if at == 0 { write!(out, "{cell:width$}") } else { write!(out, "  {cell:>width$}") };
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// A number without a fraction, in groups of three digits.
pub fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

impl WireReport {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = self.packet_rates();
        let rows = self.throughput_rows();
        if !rows.is_empty() {
            let head = ["TCP", "connections", "Mbit/s", "min-max", "of direct", "of direct without offloads"];
            let _ = write!(out, "\n{}", table(&head, &rows));
        }
        for line in &self.skipped {
            let _ = writeln!(out, "SKIPPED: {line}");
        }
        out
    }

    fn packet_rates(&self) -> String {
        let mut rows = Vec::new();
        for packets in &self.packets {
            for (name, lane) in [("bare", &packets.bare), (packets.program.as_str(), &packets.switch)] {
                let bare = name == "bare";
                let percent = |ratio: &Spread| {
                    if bare {
                        String::new()
                    } else {
                        format!("{:.0} % ({:.0}-{:.0})", ratio.median * 1e2, ratio.min * 1e2, ratio.max * 1e2)
                    }
                };
                let limited = if lane.generator_limited { ">= " } else { "" };
                rows.push(vec![
                    format!("{} {name}", packets.ports),
                    format!("{limited}{}", grouped(lane.loss_free_pps.median)),
                    percent(&packets.ratio_loss_free),
                    format!("{limited}{}", grouped(lane.delivered_pps.median)),
                    percent(&packets.ratio_delivered),
                    grouped(lane.cpu_ns_per_frame.median),
                    percent(&packets.ratio_cpu),
                    format!("{:.0}", lane.p50_us.median),
                    format!("{:.0}", lane.p99_us.median),
                    format!("{:.0}", lane.p999_us.median),
                    lane.lost_at_half.to_string(),
                ]);
            }
        }
        if rows.is_empty() {
            return String::new();
        }
        let head = [
            "frames/s",
            "loss-free",
            "of bare",
            "overloaded",
            "of bare",
            "CPU ns",
            "of bare",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "lost",
        ];
        table(&head, &rows)
            + "(latencies at half of the loss-free rate, `lost` there; medians; ratios per run)\n"
    }

    fn throughput_rows(&self) -> Vec<Vec<String>> {
        self.throughput
            .iter()
            .map(|t| {
                vec![
                    t.what.clone(),
                    t.connections.to_string(),
                    grouped(t.mbit_s.median),
                    format!("{}-{}", grouped(t.mbit_s.min), grouped(t.mbit_s.max)),
                    format!("{:.0} %", t.ratio_to_direct.median * 1e2),
                    format!("{:.0} %", t.ratio_to_direct_without_offloads.median * 1e2),
                ]
            })
            .collect()
    }
}

impl PeersReport {
    /// For people.
    pub fn text(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .requests
            .iter()
            .map(|r| {
                vec![
                    format!("{}, {}, {}", r.what, r.connections, r.clients),
                    grouped(r.per_second.median),
                    format!("{}-{}", grouped(r.per_second.min), grouped(r.per_second.max)),
                    format!("{:.0} %", r.ratio_to_direct.median * 1e2),
                    r.ratio_to_best_proxy.map_or(String::new(), |ratio| format!("{:.2}", ratio.median)),
                    format!("{:.1}", r.cpu_us.median),
                    r.cpu_ratio_to_best_proxy.map_or(String::new(), |ratio| format!("{:.2}", ratio.median)),
                    format!("{:.0}", r.p50_us.median),
                    format!("{:.0}", r.p99_us.median),
                    r.lost.to_string(),
                    r.errors.to_string(),
                ]
            })
            .collect();
        let head = [
            "setup, connections, clients",
            "requests/s",
            "min-max",
            "of direct",
            "x best proxy",
            "CPU us",
            "x best proxy",
            "p50 us",
            "p99 us",
            "lost",
            "errors",
        ];
        let mut out = table(&head, &rows);
        for line in &self.skipped {
            let _ = writeln!(out, "SKIPPED: {line}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = vec![vec!["one".into(), "1".into()], vec!["two".into(), grouped(1_234_567.4)]];
        assert_eq!(table(&["", "n"], &rows), "             n\none          1\ntwo  1,234,567\n");
        assert_eq!(grouped(999.6), "1,000");
        assert_eq!(grouped(0.2), "0");
    }
}
