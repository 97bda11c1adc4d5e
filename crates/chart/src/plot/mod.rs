//! Line charts: curves with intervals, guides, events; and the same as small multiples.

#[cfg(test)]
mod tests;

use crate::axis::label;
use crate::{Axis, COLOURS, escape, legend};
use std::fmt::Write;

/// A point of a curve.
#[derive(Clone, Debug, Default)]
pub struct Dot {
    /// Value on the horizontal axis.
    pub x: f64,
    /// On the vertical one.
    pub y: f64,
    /// Ends of its interval on the vertical axis, if it has one. They need not be equally far away.
    pub interval: Option<(f64, f64)>,
    /// Hollow if the point has a problem.
    pub hollow: bool,
    /// Shown when pointed at.
    pub title: String,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// A line with a mark at each point, and bars for intervals.
    #[default]
    Marks,
    /// A line alone, for many points; intervals are a band.
    Plain,
}

/// A curve.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points, in ascending order of `x`.
    pub dots: Vec<Dot>,
    /// How it is drawn.
    pub shape: Shape,
    /// The same quantity from elsewhere, such as a paper's: dashed, in small multiples.
    pub companion: Vec<Dot>,
}

/// Something drawn for orientation.
#[derive(Clone, Debug)]
pub enum Guide {
    /// At a height, with a label.
    Level(f64, String),
    /// Where y equals x, with a label.
    Diagonal(String),
    /// Something that happened at a place of the horizontal axis; texts are listed below the chart.
    Event(f64, String),
}

/// A chart of curves over a common axis.
///
/// If two curves are so close that one hides the other, or if curves have companions, small multiples follow: a chart
/// for each curve, with the others in grey.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The curves.
    pub series: Vec<Series>,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Labels of both, with units.
    pub labels: (String, String),
    /// For orientation.
    pub guides: Vec<Guide>,
    /// Explanation below it.
    pub caption: String,
}

/// How curves are drawn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// All of them, with names next to their ends.
    Named,
    /// All of them; a legend has their names.
    Plain,
    /// In a small chart: with the others in grey, and with companions.
    Small,
}

/// Height of a chart that is not small, in CSS pixels; as in the style sheet.
const HEIGHT: f64 = 300.0;
/// Distance of two labels.
const LINE: f64 = 15.0;
/// Curves nearer than this part of the height hide each other.
const HIDDEN: f64 = 0.012;
/// Names of more characters do not fit next to their curves.
const NAME: usize = 28;

impl Chart {
    /// As HTML: a figure with its legend.
    pub fn html(&self) -> String {
        let mut out = String::from("<figure class=\"chart\">\n");
        let (one, dotted) = (self.series.len() == 1, self.series.iter().any(|s| !s.companion.is_empty()));
        let apart = dotted || self.series.len() > COLOURS || self.hidden();
        // More curves than colours look alike.
        if self.series.len() <= COLOURS {
            out.push_str(&self.whole());
        }
        if apart && !one {
            out.push_str("<div class=\"multiples\">\n");
            for (i, series) in self.series.iter().enumerate() {
                let _ = writeln!(
                    out,
                    "<div class=\"small\"><p class=\"curve-name s{}\">{}</p>{}</div>",
                    i % COLOURS,
                    escape(&series.name),
                    self.plot(&[i], How::Small)
                );
            }
            out.push_str("</div>\n");
        }
        let events = self
            .guides
            .iter()
            .filter_map(|g| if let Guide::Event(at, text) = g { Some((at, text)) } else { None });
        let events: Vec<String> = events
            .enumerate()
            .map(|(i, (at, text))| format!("<b>{}</b> at {}: {}", i + 1, crate::number(*at), escape(text)))
            .collect();
        if !events.is_empty() {
            let _ = writeln!(out, "<p class=\"events\">{}</p>", events.join(" &#183; "));
        }
        let _ = writeln!(out, "<figcaption>{}</figcaption></figure>", escape(&self.caption));
        out
    }

    /// As HTML for a page that forbids styles in it, in a place of any size: the caption, a legend, all curves in one chart.
    pub fn compact(&self) -> String {
        let names = match self.series.len() {
            0 | 1 => String::new(),
            _ => legend(self.series.iter().map(|s| s.name.as_str()), true),
        };
        let all: Vec<usize> = (0..self.series.len()).collect();
        format!(
            "<figure class=\"chart small\"><figcaption>{}</figcaption>{names}{}</figure>\n",
            escape(&self.caption),
            self.plot(&all, How::Plain)
        )
    }

    /// All curves in one chart, with their names.
    fn whole(&self) -> String {
        let longest = self.series.iter().map(|s| s.name.chars().count()).max().unwrap_or(0);
        let beside = self.series.len() > 1 && self.series.len() <= COLOURS && longest <= NAME;
        let mut out = String::new();
        if self.series.len() > 1 {
            let names = legend(self.series.iter().map(|s| s.name.as_str()), true);
            let _ =
                write!(out, "<div class=\"{}\">{names}</div>", if beside { "narrow-only" } else { "always" });
        }
        let all: Vec<usize> = (0..self.series.len()).collect();
        let room = if beside { 18.0 + 7.2 * longest as f64 } else { 16.0 };
        let _ = write!(
            out,
            "<div class=\"{}\" style=\"--right: {room:.0}px\">",
            if beside { "named" } else { "plain" }
        );
        let how = if beside { How::Named } else { How::Plain };
        out.push_str(&self.plot(&all, how));
        out.push_str("</div>\n");
        out
    }

    /// A chart of the curves with these numbers.
    fn plot(&self, shown: &[usize], how: How) -> String {
        let small = how == How::Small;
        // Those of several curves would hide each other.
        let companions = small || self.series.len() == 1;
        let (x_label, y_label) = (&self.labels.0, &self.labels.1);
        let mut svg = format!(
            "<div class=\"ylabel\">{}</div><svg class=\"plot\" role=\"img\" aria-label=\"{} against {}\">",
            escape(y_label),
            escape(y_label),
            escape(x_label)
        );
        self.axes(&mut svg);
        self.orientation(&mut svg, small);
        // Places of lines are in thousandths of the chart, whatever its size.
        svg.push_str("<svg class=\"lines\" viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\">");
        let others = (0..self.series.len()).filter(|i| small && !shown.contains(i));
        for i in others {
            let _ = write!(svg, "<polyline class=\"other\" points=\"{}\"/>", self.path(&self.series[i].dots));
        }
        for i in shown.iter().copied() {
            let series = &self.series[i];
            let _ = write!(svg, "<g class=\"s{}\">", i % COLOURS);
            if series.shape == Shape::Plain && series.dots.iter().any(|d| d.interval.is_some()) {
                let _ = write!(svg, "<polygon class=\"band\" points=\"{}\"/>", self.band(&series.dots));
            }
            if companions && !series.companion.is_empty() {
                let _ = write!(
                    svg,
                    "<polyline class=\"companion\" points=\"{}\"/>",
                    self.path(&series.companion)
                );
            }
            // No line crosses a gap.
            for run in series.dots.split(|d| !d.y.is_finite()).filter(|run| !run.is_empty()) {
                let _ = write!(svg, "<polyline points=\"{}\"/>", self.path(run));
            }
            svg.push_str("</g>");
        }
        svg.push_str("</svg>");
        for i in shown.iter().copied() {
            let series = &self.series[i];
            let _ = write!(svg, "<g class=\"s{}\">", i % COLOURS);
            if companions {
                series
                    .companion
                    .iter()
                    .for_each(|dot| self.mark(&mut svg, i, &Dot { hollow: true, ..dot.clone() }));
            }
            if series.shape == Shape::Marks {
                series.dots.iter().for_each(|dot| self.mark(&mut svg, i, dot));
            }
            svg.push_str("</g>");
        }
        if how == How::Named {
            self.names(&mut svg);
        }
        let _ = write!(svg, "</svg><div class=\"xlabel\">{}</div>", escape(x_label));
        svg
    }

    fn x_percent(&self, x: f64) -> f64 {
        100.0 * self.x.place(x)
    }

    fn y_percent(&self, y: f64) -> f64 {
        100.0 * (1.0 - self.y.place(y))
    }

    fn path(&self, dots: &[Dot]) -> String {
        let point = |d: &Dot| format!("{:.1},{:.1}", 10.0 * self.x_percent(d.x), 10.0 * self.y_percent(d.y));
        dots.iter().filter(|d| d.y.is_finite()).map(point).collect::<Vec<_>>().join(" ")
    }

    /// The outline of all intervals: along their upper ends, and back along the lower ones.
    fn band(&self, dots: &[Dot]) -> String {
        let with = |end: fn((f64, f64)) -> f64| {
            dots.iter()
                .map(move |d| Dot { y: d.interval.map_or(d.y, end), ..Dot { x: d.x, ..Dot::default() } })
        };
        let outline: Vec<Dot> =
            with(|i| i.1).chain(with(|i| i.0).collect::<Vec<_>>().into_iter().rev()).collect();
        self.path(&outline)
    }

    /// A mark, and its interval.
    fn mark(&self, svg: &mut String, series: usize, dot: &Dot) {
        if !dot.y.is_finite() {
            return;
        }
        let x = self.x_percent(dot.x);
        if let Some((low, high)) = dot.interval {
            let (low, high) = (self.y_percent(low), self.y_percent(high));
            let _ = write!(
                svg,
                "<line class=\"error\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"{low:.2}%\" y2=\"{high:.2}%\"/>"
            );
        }
        let class = if dot.hollow { "hollow" } else { "dot" };
        let _ = write!(svg, "<svg class=\"{class}\" x=\"{x:.2}%\" y=\"{:.2}%\">", self.y_percent(dot.y));
        marker(svg, series, 0.0, 0.0);
        let _ = write!(svg, "<title>{}</title></svg>", escape(&dot.title));
    }

    fn axes(&self, svg: &mut String) {
        for tick in self.y.ticks() {
            let at = self.y_percent(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{at:.2}%\" y2=\"{at:.2}%\"/><text class=\"tick\" x=\"-7\" \
                 y=\"{at:.2}%\" dy=\"4\" text-anchor=\"end\">{}</text>",
                label(tick)
            );
        }
        let ticks = self.x.ticks();
        for (i, tick) in ticks.iter().enumerate() {
            let at = self.x_percent(*tick);
            let alternate = if i % 2 == 1 && ticks.len() > 4 { " alt" } else { "" };
            let _ = write!(
                svg,
                "<svg class=\"at\" x=\"{at:.2}%\" y=\"100%\"><line class=\"tickmark\" y2=\"4\"/></svg><text class=\"tick{alternate}\" \
                 x=\"{at:.2}%\" y=\"100%\" dy=\"18\" text-anchor=\"middle\">{}</text>",
                label(*tick)
            );
        }
        svg.push_str("<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"100%\" y2=\"100%\"/>");
    }

    /// Guides and events.
    fn orientation(&self, svg: &mut String, small: bool) {
        let mut event = 0;
        for guide in &self.guides {
            match guide {
                Guide::Level(level, text) => {
                    let h = self.y_percent(*level);
                    let _ = write!(
                        svg,
                        "<line class=\"guide\" x1=\"0\" x2=\"100%\" y1=\"{h:.2}%\" y2=\"{h:.2}%\"/>"
                    );
                    if !small {
                        let text = escape(text);
                        let _ = write!(
                            svg,
                            "<text class=\"guide-label\" x=\"6\" y=\"{h:.2}%\" dy=\"-5\">{text}</text>"
                        );
                    }
                }
                Guide::Diagonal(text) => {
                    let end = self.x.high().min(self.y.high());
                    let (x, y) = (self.x_percent(end), self.y_percent(end));
                    let _ = write!(
                        svg,
                        "<line class=\"guide\" x1=\"0\" y1=\"100%\" x2=\"{x:.2}%\" y2=\"{y:.2}%\"/>"
                    );
                    if !small {
                        let (x, y) = (self.x_percent(end * 0.5), self.y_percent(end * 0.5));
                        let text = escape(text);
                        let _ = write!(
                            svg,
                            "<text class=\"guide-label\" x=\"{x:.2}%\" y=\"{y:.2}%\" dx=\"-12\" dy=\"-4\" text-anchor=\"end\">{text}</text>"
                        );
                    }
                }
                Guide::Event(at, text) => {
                    event += 1;
                    let x = self.x_percent(*at);
                    let _ = write!(
                        svg,
                        "<line class=\"event\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"100%\"><title>{}</title></line>\
                         <text class=\"event-label\" x=\"{x:.2}%\" y=\"-4\" text-anchor=\"middle\">{event}</text>",
                        escape(text)
                    );
                }
            }
        }
    }

    /// Names to the right of the chart, each next to the end of its curve as far as there is room.
    fn names(&self, svg: &mut String) {
        let last = |s: &Series| s.dots.iter().rev().find(|d| d.y.is_finite()).map(|d| (d.x, d.y));
        let mut places: Vec<(usize, f64, (f64, f64))> = Vec::new();
        for (i, series) in self.series.iter().enumerate() {
            let Some((x, y)) = last(series) else { continue };
            places.push((i, self.y_percent(y) / 100.0 * HEIGHT, (x, y)));
        }
        places.sort_by(|a, b| a.1.total_cmp(&b.1));
        let heights: Vec<f64> = places.iter().map(|p| p.1).collect();
        for ((i, _, (x, y)), at) in places.iter().zip(spread(&heights)) {
            let (x, y) = (self.x_percent(*x), self.y_percent(*y));
            let _ = write!(
                svg,
                "<g class=\"curve s{}\"><line class=\"leader\" x1=\"{x:.2}%\" y1=\"{y:.2}%\" x2=\"100%\" y2=\"{at:.1}\"/><text x=\"100%\" dx=\"10\" \
                 y=\"{at:.1}\" dy=\"4\">{}</text></g>",
                i % COLOURS,
                escape(&self.series[*i].name)
            );
        }
    }

    /// Whether a curve hides another one: at half of its points or more they are in the same place.
    fn hidden(&self) -> bool {
        let pairs = self
            .series
            .iter()
            .enumerate()
            .flat_map(|(i, a)| self.series[i + 1..].iter().map(move |b| (a, b)));
        pairs.into_iter().any(|(a, b)| {
            let gaps: Vec<f64> = a
                .dots
                .iter()
                .filter_map(|d| Some((self.y.place(d.y) - self.height(&b.dots, self.x.place(d.x))?).abs()))
                .collect();
            let near = gaps.iter().filter(|gap| **gap < HIDDEN).count();
            near > 1 && 2 * near >= gaps.len()
        })
    }

    /// The height of a line at a place of the horizontal axis; `None` where it has none.
    fn height(&self, dots: &[Dot], at: f64) -> Option<f64> {
        let places: Vec<(f64, f64)> = dots.iter().map(|d| (self.x.place(d.x), self.y.place(d.y))).collect();
        let pair = places.windows(2).find(|w| w[0].0 <= at && at <= w[1].0)?;
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        Some(if x1 > x0 { y0 + (y1 - y0) * (at - x0) / (x1 - x0) } else { y0 })
    }
}

/// Heights in ascending order, moved as little as makes room for a line of text each.
fn spread(heights: &[f64]) -> Vec<f64> {
    let mut out: Vec<f64> = heights.to_vec();
    for i in 1..out.len() {
        out[i] = out[i].max(out[i - 1] + LINE);
    }
    // Not below the chart's end.
    let mut limit = HEIGHT;
    for place in out.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - LINE;
    }
    out
}

/// Shapes differ as well as colours, for readers who cannot distinguish the colours.
pub(crate) fn marker(svg: &mut String, series: usize, x: f64, y: f64) {
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
