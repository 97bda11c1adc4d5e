//! Charts as SVG text: lines over linear or logarithmic axes, and stacked bars. Colours are CSS variables of
//! the page, so that a chart follows light and dark mode.

use std::fmt::Write;

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
    } else {
        2
    };
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// An axis: its values and where they lie.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// From zero to a round number at or above `max`.
    pub fn linear(max: f64) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let step = Self::step(max);
        Self { low: 0.0, high: (max / step).ceil() * step, log: false }
    }

    /// Whole powers of ten, or twice or five times one, around the positive values.
    pub fn log(values: impl Iterator<Item = f64>) -> Self {
        let (mut min, mut max) = (f64::INFINITY, 0.0_f64);
        for v in values.filter(|v| *v > 0.0 && v.is_finite()) {
            (min, max) = (min.min(v), max.max(v));
        }
        if max == 0.0 {
            (min, max) = (1.0, 10.0);
        }
        let low = decades(min / 10.0, min).into_iter().next_back().unwrap_or(min / 2.0);
        let high = decades(max, max * 10.0).into_iter().next().unwrap_or(max * 2.0);
        Self { low, high: if high > low { high } else { low * 10.0 }, log: true }
    }

    /// A step of 1, 2 or 5 times a power of ten that divides `max` into four to ten.
    fn step(max: f64) -> f64 {
        let power = 10f64.powf((max / 5.0).log10().floor());
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| max / s <= 7.0).unwrap_or(max)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let all = decades(self.low, self.high);
            // Beyond three decades, 1-2-5 is too dense.
            if self.high / self.low > 1000.0 {
                return all.into_iter().filter(|t| (t.log10() - t.log10().round()).abs() < 1e-9).collect();
            }
            return all;
        }
        let step = Self::step(self.high);
        (0..=(self.high / step).round() as usize).map(|i| i as f64 * step).collect()
    }

    /// Place of a value between 0 (low) and 1 (high); values outside go to the nearer end.
    fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }
}

/// All of 1, 2 and 5 times powers of ten in low..=high.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .flat_map(|p| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(p)))
        .filter(|t| *t >= low * (1.0 - 1e-9) && *t <= high * (1.0 + 1e-9))
        .collect()
}

/// A point of a line chart.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Value on the horizontal axis.
    pub x: f64,
    /// On the vertical one.
    pub y: f64,
    /// Hollow if the point has a problem.
    pub hollow: bool,
    /// Shown when pointed at.
    pub title: String,
}

/// One line of a chart.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its points.
    pub dots: Vec<Dot>,
}

/// A line drawn for orientation.
#[derive(Clone, Debug)]
pub enum Guide {
    /// At a height, with a label.
    Level(f64, String),
    /// Where y equals x, with a label.
    Diagonal(String),
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 48.0;

fn x_at(axis: &Axis, x: f64) -> f64 {
    LEFT + axis.place(x) * (WIDTH - LEFT - RIGHT)
}

fn y_at(axis: &Axis, y: f64) -> f64 {
    HEIGHT - BOTTOM - axis.place(y) * (HEIGHT - TOP - BOTTOM)
}

/// A line chart; `labels` are those of the axes.
pub fn lines(series: &[Series], x: Axis, y: Axis, labels: (&str, &str), guides: &[Guide]) -> String {
    let mut svg = open(&format!("{} against {}", labels.1, labels.0));
    axes(&mut svg, &x, &y, labels);
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for guide in guides {
        // Writing to a String cannot fail, here and below.
        match guide {
            Guide::Level(level, label) => {
                let h = y_at(&y, *level);
                let _ = write!(
                    svg,
                    r#"<line class="guide" x1="{LEFT}" x2="{right}" y1="{h:.1}" y2="{h:.1}"/><text class="guide-label" x="{:.1}" y="{:.1}">{}</text>"#,
                    LEFT + 6.0,
                    h - 5.0,
                    escape(label)
                );
            }
            Guide::Diagonal(label) => {
                let end = x.high.min(y.high);
                let (x2, y2) = (x_at(&x, end), y_at(&y, end));
                let _ = write!(
                    svg,
                    r#"<line class="guide" x1="{LEFT}" y1="{bottom}" x2="{x2:.1}" y2="{y2:.1}"/><text class="guide-label" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                    x_at(&x, end * 0.85) - 14.0,
                    y_at(&y, end * 0.85) - 2.0,
                    escape(label)
                );
            }
        }
    }
    for (i, line) in series.iter().enumerate() {
        let path: Vec<String> =
            line.dots.iter().map(|d| format!("{:.1},{:.1}", x_at(&x, d.x), y_at(&y, d.y))).collect();
        let _ = write!(svg, r#"<g class="s{}"><polyline points="{}"/>"#, i % COLOURS, path.join(" "));
        for dot in &line.dots {
            let class = if dot.hollow { "hollow" } else { "dot" };
            let _ = write!(svg, r#"<g class="{class}">"#);
            marker(&mut svg, i, x_at(&x, dot.x), y_at(&y, dot.y));
            let _ = write!(svg, "<title>{}</title></g>", escape(&dot.title));
        }
        svg.push_str("</g>");
    }
    svg.push_str("</svg>");
    svg
}

/// How many colours the page defines for policies (CSS classes `s0`, `s1`...) and, in pairs of dark and light,
/// for devices (`d0`, `d1`...).
pub const COLOURS: usize = 8;

/// Shapes differ as well as colours, for readers who cannot distinguish the colours.
pub fn marker(svg: &mut String, series: usize, x: f64, y: f64) {
    let points = |offsets: &[(f64, f64)]| {
        offsets.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect::<Vec<_>>().join(" ")
    };
    let _ = match series % 4 {
        0 => write!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4"/>"#),
        1 => write!(svg, r#"<rect x="{:.1}" y="{:.1}" width="7.4" height="7.4"/>"#, x - 3.7, y - 3.7),
        2 => write!(svg, r#"<polygon points="{}"/>"#, points(&[(0.0, -5.0), (4.8, 3.6), (-4.8, 3.6)])),
        _ => {
            write!(
                svg,
                r#"<polygon points="{}"/>"#,
                points(&[(0.0, -5.2), (5.2, 0.0), (0.0, 5.2), (-5.2, 0.0)])
            )
        }
    };
}

/// A stack of bars per category: `parts` gives each category's label and its heights, in a fixed order.
pub fn stacks(names: &[String], parts: &[(String, Vec<f64>)], label: &str) -> String {
    let (width, height, left, bottom, top) = (340.0, 220.0, 46.0, 40.0, 8.0);
    let mut svg = format!(
        r#"<svg viewBox="0 0 {width} {height}" role="img" aria-label="share of answered requests by device">"#
    );
    let plot = height - bottom - top;
    for tick in [0.0, 0.5, 1.0] {
        let y = height - bottom - tick * plot;
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{left}" x2="{width}" y1="{y:.1}" y2="{y:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{:.0} %</text>"#,
            left - 5.0,
            y + 4.0,
            tick * 100.0
        );
    }
    let slot = (width - left) / parts.len().max(1) as f64;
    // No more labels than fit side by side.
    let every = (34.0 / slot).ceil().max(1.0) as usize;
    for (i, (category, heights)) in parts.iter().enumerate() {
        let x = left + i as f64 * slot + slot * 0.12;
        let mut y = height - bottom;
        for (j, share) in heights.iter().enumerate() {
            let h = share.clamp(0.0, 1.0) * plot;
            y -= h;
            if h > 0.0 {
                let _ = write!(
                    svg,
                    r#"<rect class="part d{}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{h:.1}"><title>{}: {:.1} % at {}</title></rect>"#,
                    j % COLOURS,
                    slot * 0.76,
                    escape(&names[j]),
                    share * 100.0,
                    escape(category)
                );
            }
        }
        if i % every == 0 {
            let _ = write!(
                svg,
                r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                x + slot * 0.38,
                height - bottom + 15.0,
                escape(category)
            );
        }
    }
    let _ = write!(
        svg,
        r#"<text class="axis-label" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text></svg>"#,
        (left + width) / 2.0,
        height - 6.0,
        escape(label)
    );
    svg
}

fn open(label: &str) -> String {
    format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">"#, escape(label))
}

fn axes(svg: &mut String, x: &Axis, y: &Axis, labels: (&str, &str)) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for tick in y.ticks() {
        let at = y_at(y, tick);
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{at:.1}" y2="{at:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 7.0,
            at + 4.0,
            number(tick)
        );
    }
    for tick in x.ticks() {
        let at = x_at(x, tick);
        let _ = write!(
            svg,
            r#"<line class="tickmark" x1="{at:.1}" x2="{at:.1}" y1="{bottom}" y2="{:.1}"/><text class="tick" x="{at:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            bottom + 4.0,
            bottom + 18.0,
            number(tick)
        );
    }
    let _ = write!(
        svg,
        r#"<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/><text class="axis-label" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text><text class="axis-label" transform="translate(15 {:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
        (LEFT + right) / 2.0,
        HEIGHT - 8.0,
        escape(labels.0),
        (TOP + bottom) / 2.0,
        escape(labels.1)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let check = |axis: Axis, expected: &[f64]| {
            let ticks = axis.ticks();
            assert_eq!(ticks.len(), expected.len(), "{ticks:?}");
            assert!(
                ticks.iter().zip(expected).all(|(a, b)| (a - b).abs() < b.abs() * 1e-9 + 1e-12),
                "{ticks:?}"
            );
        };
        check(Axis::linear(480.0), &[0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
        check(Axis::linear(7.0), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        check(Axis::linear(0.0), &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(Axis::log([6.0, 90.0].into_iter()), &[5.0, 10.0, 20.0, 50.0, 100.0]);
        check(Axis::log([0.7, 3000.0].into_iter()), &[1.0, 10.0, 100.0, 1000.0]);
        check(Axis::log([0.0, f64::NAN].into_iter()), &[1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn places_are_proportional_and_clamped() {
        let log = Axis::log([1.0, 100.0].into_iter());
        assert!((log.place(10.0) - 0.5).abs() < 1e-9);
        assert_eq!((log.place(0.0), log.place(1e9)), (0.0, 1.0));
        assert!((Axis::linear(10.0).place(5.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn numbers_and_text_are_fit_for_svg() {
        assert_eq!(
            (number(0.0), number(0.5), number(12.0), number(1234.5)),
            ("0".into(), "0.5".into(), "12".into(), "1234".into())
        );
        assert_eq!(escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
