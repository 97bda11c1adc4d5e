//! Output of the results: a table on the terminal, CSV, JSON, HTML.

use super::figure::{Chart, Curve, Evidence, Figure, Found, Judged, Quantity, Rule};
use pointsman_lab::report::chart::{Axis, Dot, Series, escape, lines, number};
use pointsman_lab::report::{STYLE, legend};
use pointsman_trials::stats::{mean, median, spread};
use serde_json::json;
use std::fmt::Write;

/// Of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A figure that was run.
pub struct Finished<'a> {
    /// The figure.
    pub figure: &'a Figure,
    /// Where it ran: `simulator` or `lab`.
    pub place: &'static str,
    /// Whether the experiment's settings are the paper's.
    pub published: bool,
    /// The settings that are, if not all.
    pub settings: Vec<&'static str>,
    /// The command that ran it.
    pub command: String,
    /// The results.
    pub found: Found,
    /// Its claims.
    pub judged: Vec<Judged>,
}

/// A number with as many digits as verdicts turn on.
fn precise(value: f64) -> String {
    if value.abs() >= 10.0 { number(value) } else { format!("{value:.3}") }
}

/// Mean and the ends of its interval.
fn interval(evidence: &Evidence) -> String {
    let (mean, (low, high)) = (mean(&evidence.samples).mean, evidence.ci95());
    if evidence.samples.len() < 2 {
        return precise(mean);
    }
    format!("{} ({} to {})", precise(mean), precise(low), precise(high))
}

/// The share of requests or flows that were lost, if it is known.
fn loss(evidence: &Evidence) -> String {
    evidence.loss_percent.map_or(String::new(), |percent| format!(", {} % lost", precise(percent)))
}

/// A claim's number with its unit.
fn amount(value: f64, unit: &str) -> String {
    if unit.is_empty() { precise(value) } else { format!("{} {unit}", precise(value)) }
}

/// The paper's number, with its bound if any.
fn paper(j: &Judged) -> String {
    let sign = match j.claim.rule {
        Rule::AtMost => "at most ",
        Rule::AtLeast => "at least ",
        Rule::Effect { .. } | Rule::Range { .. } | Rule::Same { .. } => "",
    };
    let to = match j.claim.rule {
        Rule::Range { to, .. } => format!(" to {}", amount(to, j.claim.unit)),
        _ => String::new(),
    };
    format!("{sign}{}{to}", amount(j.claim.paper, j.claim.unit))
}

impl Finished<'_> {
    /// For a terminal.
    pub fn text(&self) -> String {
        let settings = match self.settings.as_slice() {
            [] => String::new(),
            some => format!("; as published: {}", some.join(", ")),
        };
        let Figure { id, title, source, .. } = self.figure;
        let mut out = format!("{id}: {title} ({source}; {}{settings})\n", self.place);
        for j in &self.judged {
            let _ = writeln!(
                out,
                "  {:<12} {}\n               claimed {} ({}), ours {} {} (median {}, {} seeds{})",
                j.verdict.name(),
                j.claim.text,
                paper(j),
                j.claim.source.name(),
                interval(&j.evidence),
                j.claim.unit,
                precise(median(&j.evidence.samples)),
                j.evidence.samples.len(),
                loss(&j.evidence),
            );
        }
        for note in self.figure.remarks.iter().copied().chain(self.found.notes.iter().map(String::as_str)) {
            let _ = writeln!(out, "  note: {note}");
        }
        out
    }

    /// One line of JSON.
    pub fn json(&self) -> String {
        let claims: Vec<_> = self.judged.iter().map(|j| j.json(self.published)).collect();
        json!({
            "figure": self.figure.id, "claims": claims, "title": self.figure.title, "source": self.figure.source,
            "place": self.place, "as_published": self.settings, "version": VERSION, "command": self.command, "remarks": self.figure.remarks, "notes": self.found.notes,
        })
        .to_string()
    }
}

fn distinct<'a>(all: impl Iterator<Item = &'a Quantity>) -> Vec<Quantity> {
    let mut out: Vec<Quantity> = Vec::new();
    for q in all {
        if !out.iter().any(|o| o.column("") == q.column("")) {
            out.push(*q);
        }
    }
    out
}

/// A field of CSV.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

/// Every point of every chart, one line each; units are in the names of the columns. Cells of quantities that a chart does
/// not have are empty.
pub fn csv(all: &[Finished<'_>]) -> String {
    let charts = || all.iter().flat_map(|f| &f.found.charts);
    let xs = distinct(charts().map(|c| &c.x));
    let ys = distinct(charts().map(|c| &c.y));
    let mut out = String::from("figure,chart,curve,source,seeds");
    xs.iter().for_each(|x| out.push_str(&format!(",{}", x.column(""))));
    for y in &ys {
        for what in ["median", "mean", "ci95_low", "ci95_high", "min", "max"] {
            let _ = write!(out, ",{}", y.column(what));
        }
    }
    out.push('\n');
    for f in all {
        for chart in &f.found.charts {
            for (source, curves) in [("ours", &chart.ours), ("paper", &chart.paper)] {
                for (curve, point) in curves.iter().flat_map(|c| c.points.iter().map(move |p| (c, p))) {
                    let _ = write!(
                        out,
                        "{},{},{},{source},{}",
                        f.figure.id,
                        field(&chart.title),
                        field(&curve.name),
                        point.samples.len()
                    );
                    for x in &xs {
                        out.push(',');
                        if x.column("") == chart.x.column("") {
                            let _ = write!(out, "{}", point.x);
                        }
                    }
                    for y in &ys {
                        if y.column("") != chart.y.column("") || point.samples.is_empty() {
                            out.push_str(",,,,,,");
                            continue;
                        }
                        let s = &point.samples;
                        let ((low, high), (min, max)) = (mean(s).ends(), spread(s));
                        let _ = write!(out, ",{},{},{low},{high},{min},{max}", median(s), mean(s).mean);
                    }
                    out.push('\n');
                }
            }
        }
    }
    out
}

/// One page, for a browser: one file, no script, nothing loaded from anywhere.
pub fn html(all: &[Finished<'_>]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>Figures reproduced</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<h1>Figures reproduced</h1>\n<p class=\"caption\">Points are medians over seeds. The rules of \
         verdicts are in docs/figures.md; a claim that is made by no paper has the source \"ours\".</p>\n"
    );
    if let Some(f) = all.first() {
        let _ = writeln!(
            page,
            "<p class=\"caption\">Pointsman {VERSION}: <code>{}</code></p>",
            escape(&f.command)
        );
    }
    for f in all {
        let _ = writeln!(
            page,
            "<h2>{}: {}</h2>\n<p class=\"caption\">{}; {}</p>",
            escape(f.figure.id),
            escape(f.figure.title),
            escape(f.figure.source),
            f.place
        );
        page.push_str(&claims(&f.judged));
        for c in &f.found.charts {
            page.push_str(&chart(c));
        }
        page.push_str("<ul>\n");
        for note in f.figure.remarks.iter().copied().chain(f.found.notes.iter().map(String::as_str)) {
            let _ = writeln!(page, "<li>{}", escape(note));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn claims(judged: &[Judged]) -> String {
    let mut out = String::from(
        "<div class=\"scroll\"><table>\n<thead><tr><th>Verdict<th>Claim<th class=\"n\">Claimed<th>Source\
         <th class=\"n\">Ours<th class=\"n\">Median<th class=\"n\">Seeds<th class=\"n\">Lost, %\n<tbody>\n",
    );
    for j in judged {
        let _ = writeln!(
            out,
            "<tr><td>{}<td style=\"white-space:normal\">{}<td class=\"n\">{}<td>{}<td class=\"n\">{} {}<td class=\"n\">{}\
             <td class=\"n\">{}<td class=\"n\">{}",
            j.verdict.name(),
            escape(j.claim.text),
            escape(&paper(j)),
            j.claim.source.name(),
            interval(&j.evidence),
            escape(j.claim.unit),
            precise(median(&j.evidence.samples)),
            j.evidence.samples.len(),
            j.evidence.loss_percent.map_or(String::new(), precise),
        );
    }
    out.push_str("</table></div>\n");
    out
}

/// Ours and the paper's, side by side on the same axes, a line of the same name in the same colour.
fn chart(c: &Chart) -> String {
    let mut names: Vec<String> = Vec::new();
    for curve in c.ours.iter().chain(&c.paper) {
        if !names.contains(&curve.name) {
            names.push(curve.name.clone());
        }
    }
    let values = || c.ours.iter().chain(&c.paper).flat_map(|c| &c.points);
    let (xs, ys) = (values().map(|p| p.x), values().map(|p| median(&p.samples)));
    let axis = |q: &Quantity, values: &mut dyn Iterator<Item = f64>| {
        if q.log { Axis::log(values) } else { Axis::linear(values.fold(0.0, f64::max)) }
    };
    let (x, y) = (axis(&c.x, &mut xs.into_iter()), axis(&c.y, &mut ys.into_iter()));
    let series = |curves: &[Curve]| -> Vec<Series> {
        let of = |name: &String| {
            let points = curves.iter().filter(|c| c.name == *name).flat_map(|c| &c.points);
            let dot = |p: &super::figure::Point| Dot {
                x: p.x,
                y: median(&p.samples),
                hollow: false,
                title: format!("{name}: {} at {}: {}", c.y.label, number(p.x), mean(&p.samples)),
            };
            Series { dots: points.map(dot).collect() }
        };
        names.iter().map(of).collect()
    };
    let labels = (c.x.label, c.y.label);
    let mut out =
        format!("<h3>{}</h3>\n{}<div class=\"multiples\">\n", escape(&c.title), legend(&names, true));
    for (who, curves) in [("Ours", &c.ours), ("Paper", &c.paper)] {
        if !curves.is_empty() {
            let svg = lines(&series(curves), x, y, labels, &[]);
            let _ = writeln!(out, "<figure>{svg}<figcaption>{who}</figcaption></figure>");
        }
    }
    out.push_str("</div>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::super::figure::{Claim, P99, Place, Point, RATE};
    use super::*;

    fn finished() -> Finished<'static> {
        let claims: &'static [Claim] = Box::leak(Box::new([Claim {
            id: "more",
            text: "a <b> claim",
            paper: 2.0,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: super::super::figure::Source::Text,
        }]));
        let figure: &'static Figure = Box::leak(Box::new(Figure {
            id: "fig-1",
            title: "a title",
            source: "a paper",
            place: Place::Nowhere("no"),
            remarks: &["flawed"],
            claims,
        }));
        let ours = Curve {
            name: "a,b".into(),
            points: vec![
                Point { x: 1.0, samples: vec![3.0, 5.0], loss_percent: Some(0.5) },
                Point::new(2.0, vec![30.0, 50.0]),
            ],
        };
        let chart = Chart {
            title: "chart".into(),
            x: RATE,
            y: P99,
            ours: vec![ours],
            paper: vec![Curve::paper("a,b", &[(1.0, 7.0)])],
        };
        let mut found = Found { charts: vec![chart], ..Found::default() };
        found.claim("more", Evidence { samples: vec![2.0, 2.1, 2.0, 2.1, 2.0], loss_percent: Some(0.5) });
        let judged = figure.judge(&found).expect("judged");
        Finished {
            figure,
            place: "simulator",
            published: false,
            settings: Vec::new(),
            command: "reproduce fig-1".into(),
            found,
            judged,
        }
    }

    #[test]
    fn units_are_in_the_columns() {
        let text = csv(&[finished()]);
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        assert_eq!(
            head,
            "figure,chart,curve,source,seeds,offered_per_s,p99_median_ms,p99_mean_ms,p99_ci95_low_ms,p99_ci95_high_ms,\
             p99_min_ms,p99_max_ms"
        );
        let first = lines.next().unwrap_or_default();
        assert!(first.starts_with("fig-1,chart,\"a,b\",ours,2,1,4,4,") && first.ends_with(",3,5"), "{first}");
        assert_eq!(text.lines().filter(|l| l.contains(",paper,1,1,7,7,7,7,7,7")).count(), 1, "{text}");
    }

    #[test]
    fn a_page_and_a_line() {
        let page = html(&[finished()]);
        for outside in ["http://", "https://", "src=", "href=", "url(", "@import", "<script", "NaN", "inf"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("a &lt;b&gt; claim") && page.contains("holds") && page.contains("flawed"));
        assert_eq!(page.matches("<figure").count(), 2);
        let json: serde_json::Value = serde_json::from_str(&finished().json()).expect("JSON");
        assert_eq!(json["figure"], "fig-1");
        assert_eq!(json["claims"][0]["paper"], 2.0);
        assert_eq!(json["claims"][0]["loss_percent"], 0.5);
        assert_eq!(json["command"], "reproduce fig-1");
        assert!(page.contains("reproduce fig-1") && json["version"].is_string());
        assert!(finished().text().contains("holds"));
    }
}
