//! Quantities of several named things, a line each: a bar with its interval, and the number.

use crate::{Axis, COLOURS, escape};
use std::fmt::Write;

/// One of the things.
#[derive(Clone, Debug)]
pub struct Rank {
    /// Its name.
    pub name: String,
    /// The quantity.
    pub value: f64,
    /// Ends of its interval, if it has one.
    pub interval: Option<(f64, f64)>,
    /// The quantity as text, with its unit.
    pub text: String,
}

/// The lines, in the given order. On a logarithmic axis marks replace bars, which would have no beginning.
pub fn ranks(all: &[Rank], axis: Axis, log: bool, label: &str) -> String {
    let mut out = format!("<div class=\"ranks\" role=\"list\" aria-label=\"{}\">\n", escape(label));
    for (i, rank) in all.iter().enumerate() {
        let at = 100.0 * axis.place(rank.value);
        let mut marks = String::new();
        // Writing to a String cannot fail, here and below.
        for tick in axis.ticks() {
            let x = 100.0 * axis.place(tick);
            let _ =
                write!(marks, "<line class=\"grid\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"100%\"/>");
        }
        if log {
            let _ = write!(marks, "<g class=\"dot\"><circle cx=\"{at:.2}%\" cy=\"50%\" r=\"5\"/></g>");
        } else {
            let _ = write!(marks, "<rect class=\"bar\" y=\"4\" width=\"{at:.2}%\" height=\"14\" rx=\"2\"/>");
        }
        if let Some((low, high)) = rank.interval {
            let (low, high) = (100.0 * axis.place(low), 100.0 * axis.place(high));
            let _ = write!(
                marks,
                "<line class=\"error\" x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=\"11\" y2=\"11\"/>"
            );
        }
        let _ = writeln!(
            out,
            "<div role=\"listitem\" class=\"s{}\"><span class=\"name\">{}</span><svg aria-hidden=\"true\">{marks}</svg>\
             <span class=\"n\">{}</span></div>",
            i % COLOURS,
            escape(&rank.name),
            escape(&rank.text)
        );
    }
    let mut scale = String::new();
    let ticks = axis.ticks();
    for (i, tick) in ticks.iter().enumerate() {
        let alternate = if i % 2 == 1 && ticks.len() > 4 { " alt" } else { "" };
        let _ = write!(
            scale,
            "<text class=\"tick{alternate}\" x=\"{:.2}%\" y=\"12\" text-anchor=\"middle\">{}</text>",
            100.0 * axis.place(*tick),
            crate::axis::label(*tick)
        );
    }
    let _ = writeln!(
        out,
        "<div class=\"scale\" aria-hidden=\"true\"><span></span><svg>{scale}</svg><span></span></div>\n</div>"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_marks() {
        let rank = |name: &str, value, interval| Rank {
            name: name.into(),
            value,
            interval,
            text: format!("{value} ms"),
        };
        let all = [rank("a <b>", 5.0, Some((4.0, 7.5))), rank("b", 10.0, None)];
        let linear = ranks(&all, Axis::linear(10.0), false, "P99, ms");
        assert!(
            linear.contains("width=\"50.00%\"") && linear.contains("x1=\"40.00%\" x2=\"75.00%\""),
            "{linear}"
        );
        assert!(
            linear.contains("a &lt;b&gt;")
                && linear.contains(">10 ms<")
                && linear.matches("error").count() == 1
        );
        let log = ranks(&all, Axis::log([1.0, 100.0].into_iter()), true, "P99, ms");
        assert!(log.contains("cx=\"50.00%\"") && !log.contains("<rect"), "{log}");
    }
}
