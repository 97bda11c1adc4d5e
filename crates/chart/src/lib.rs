//! The chart room: the results of experiments for people. Charts as SVG in pages without scripts, tables, CSV, Parquet. Every function is pure:
//! numbers and names in, text or bytes out.
//!
//! Charts are as wide as the page. Places in them are percentages and text has a fixed size, so that it stays readable on a
//! telephone. Colours are variables of the style sheet, which has a light and a dark set. Curves that would hide each other are
//! drawn next to each other ([`Chart`]).

#![forbid(unsafe_code)]

mod axis;
mod bars;
mod page;
mod parquet;
mod plot;
mod ranks;
mod table;
mod tidy;

pub use axis::Axis;
pub use bars::stacks;
pub use page::{CHART_STYLE, Page, SCROLL, STYLE, legend};
pub use plot::{Chart, Dot, Guide, Series, Shape};
pub use ranks::{Rank, ranks};
pub use table::{Align, Table};
pub use tidy::{Cell, Kind, Tidy};

/// Number of colours of the style sheet: of curves (classes `s0`, `s1`...) and, in pairs of dark and light, of devices (`d0`, `d1`...).
pub const COLOURS: usize = 8;

/// Text for HTML or SVG.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A number without needless digits.
pub fn number(x: f64) -> String {
    let digits = if x == 0.0 || x.abs() >= 100.0 {
        0
    } else if x.abs() >= 10.0 {
        1
    } else if x.abs() >= 0.1 {
        2
    } else {
        4
    };
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_text_are_fit_for_svg() {
        assert_eq!(
            (number(0.0), number(0.0456), number(0.5), number(12.0), number(1234.5)),
            ("0".into(), "0.0456".into(), "0.5".into(), "12".into(), "1234".into())
        );
        assert_eq!(escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
