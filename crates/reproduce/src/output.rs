//! Output of the results: a table on the terminal, CSV and Parquet, JSON, HTML.

use super::distance::{Distance, distances};
use super::figure::{
    Chart, Curve, Evidence, Figure, Found, Judged, Point, Quantity, Rule, TIME_OF_RUN, Verdict,
};
use super::verdict::CENSORED_PERCENT;
use pointsman_chart::{
    Align, Axis, Cell, Dot, Guide, Kind, Page, Series, Shape, Table, Tidy, escape, number,
};
use pointsman_console::results::Origin;
use pointsman_trials::stats::{ci95, mean, median, spread};
use serde_json::json;
use std::fmt::Write;

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
    /// First and last seed.
    pub seeds: (u64, u64),
    /// What ran it.
    pub origin: Origin,
    /// The results.
    pub found: Found,
    /// Its claims.
    pub judged: Vec<Judged>,
}

/// A number with as many digits as verdicts turn on.
fn precise(value: f64) -> String {
    match value.abs() {
        10.0.. => number(value),
        0.0.. => format!("{value:.3}"),
        _ => "-".into(),
    }
}

/// Mean and the ends of its interval.
fn interval(evidence: &Evidence) -> String {
    let (mean, (low, high)) = (mean(&evidence.samples).mean, evidence.ci95());
    if evidence.samples.len() < 2 {
        return precise(mean);
    }
    format!("{} ({} to {})", precise(mean), precise(low), precise(high))
}

/// Our number with its unit, if all seeds have one.
fn ours(j: &Judged) -> String {
    match mean(&j.evidence.samples).mean {
        mean if mean.is_finite() => format!("{} {}", interval(&j.evidence), j.claim.unit),
        _ => "cannot be measured".into(),
    }
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
    /// The seeds: `1 to 20`.
    fn seeds(&self) -> String {
        match self.seeds {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first} to {last}"),
        }
    }

    /// Remarks for the reader.
    fn notes(&self) -> impl Iterator<Item = &str> {
        self.figure.remarks.iter().copied().chain(self.found.notes.iter().map(String::as_str))
    }

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
                "  {:<12} {}\n               claimed {} ({}), ours {} (median {}, {} seeds{})",
                j.verdict.name(),
                j.claim.text,
                paper(j),
                j.claim.source.name(),
                ours(j),
                precise(median(&j.evidence.samples)),
                j.evidence.samples.len(),
                loss(&j.evidence),
            );
        }
        for chart in &self.found.charts {
            let all = distances(chart);
            let Some(most) =
                all.iter().filter(|d| d.compared > 0).max_by(|a, b| a.factor.total_cmp(&b.factor))
            else {
                continue;
            };
            let sum = |of: fn(&Distance) -> usize| all.iter().map(of).sum::<usize>();
            let _ = writeln!(
                out,
                "  curves: {}: {} of {} published points compared, {} within our interval; the farthest is {}: {} times off in the mean",
                chart.title,
                sum(|d| d.compared),
                sum(|d| d.published),
                sum(|d| d.within),
                most.curve,
                precise(most.factor),
            );
        }
        for note in self.notes() {
            let _ = writeln!(out, "  note: {note}");
        }
        out
    }

    /// Of all charts' curves that the paper has numbers for.
    fn distances(&self) -> Vec<Distance> {
        self.found.charts.iter().flat_map(distances).collect()
    }

    /// One line of JSON.
    pub fn json(&self) -> String {
        let claims: Vec<_> = self.judged.iter().map(|j| j.json(self.published)).collect();
        let curves: Vec<_> = self.distances().iter().map(Distance::json).collect();
        json!({
            "figure": self.figure.id, "claims": claims, "curves": curves, "title": self.figure.title, "source": self.figure.source,
            "place": self.place, "as_published": self.settings, "version": self.origin.version,
            "command": self.origin.command, "machine": self.origin.machine, "first_seed": self.seeds.0, "last_seed": self.seeds.1, "remarks": self.figure.remarks, "notes": self.found.notes,
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

/// What a table has of a quantity at a point.
const STATISTICS: [&str; 6] = ["median", "mean", "ci95_low", "ci95_high", "min", "max"];

fn statistics(samples: &[f64]) -> [f64; 6] {
    let ((low, high), (min, max)) = (ci95(samples), spread(samples));
    [median(samples), mean(samples).mean, low, high, min, max]
}

/// Every point of every chart, one line each; units are in the names of the columns. Cells of quantities that a chart does
/// not have are empty.
pub fn table(all: &[Finished<'_>]) -> Tidy {
    let charts = || all.iter().flat_map(|f| &f.found.charts);
    let xs = distinct(charts().map(|c| &c.x));
    let ys = distinct(charts().map(|c| &c.y));
    let names = |of: &[&str], kind: Kind| of.iter().map(|n| ((*n).to_owned(), kind)).collect::<Vec<_>>();
    let mut columns = names(&["figure", "chart", "curve", "source"], Kind::Text);
    columns.extend(names(&["seeds"], Kind::Whole));
    columns.extend(xs.iter().map(|x| (x.column(""), Kind::Number)));
    columns.extend(ys.iter().flat_map(|y| STATISTICS.map(|what| (y.column(what), Kind::Number))));
    columns.extend(names(&["loss_percent"], Kind::Number));
    columns.extend(names(&["first_seed", "last_seed"], Kind::Whole));
    columns.extend(names(&["version", "command", "machine"], Kind::Text));
    let mut table = Tidy::new(columns);
    for f in all {
        for chart in &f.found.charts {
            for (source, curves) in [("ours", &chart.ours), ("paper", &chart.paper)] {
                for (curve, point) in curves.iter().flat_map(|c| c.points.iter().map(move |p| (c, p))) {
                    let mut row: Vec<Cell> =
                        [f.figure.id, &chart.title, &curve.name, source].map(Cell::from).into();
                    row.push((point.samples.len() as u64).into());
                    let is = |q: &Quantity, of: &Quantity| q.column("") == of.column("");
                    row.extend(xs.iter().map(|x| Cell::from(is(x, &chart.x).then_some(point.x))));
                    for y in &ys {
                        let there = is(y, &chart.y) && !point.samples.is_empty();
                        let values = there.then(|| statistics(&point.samples));
                        row.extend((0..STATISTICS.len()).map(|i| Cell::from(values.map(|v| v[i]))));
                    }
                    row.extend([point.loss_percent.into(), f.seeds.0.into(), f.seeds.1.into()]);
                    row.extend(f.origin.fields().map(|(_, value)| value.into()));
                    table.row(row);
                }
            }
        }
    }
    table
}

/// A table of all figures for the terminal: how many of their claims have which verdict.
pub fn summary(all: &[Finished<'_>]) -> String {
    const VERDICTS: [Verdict; 5] =
        [Verdict::Holds, Verdict::Stronger, Verdict::Weaker, Verdict::Fails, Verdict::Inconclusive];
    let verdicts = VERDICTS.map(|v| (v.name(), Align::Right));
    let head: Vec<_> =
        [("figure", Align::Left), ("claims", Align::Right)].into_iter().chain(verdicts).collect();
    let mut table = Table::new(&head);
    for f in all {
        let counts = VERDICTS.map(|v| f.judged.iter().filter(|j| j.verdict == v).count());
        let cells = counts.map(|n| if n == 0 { "-".to_owned() } else { n.to_string() });
        table.row([f.figure.id.to_owned(), f.judged.len().to_string()].into_iter().chain(cells));
    }
    table.text()
}

/// One page, for a browser: one file, no script, nothing loaded from anywhere.
pub fn html(all: &[Finished<'_>]) -> String {
    let mut page = Page::new("Figures reproduced");
    page.push(
        "<p class=\"caption\">Points are means over seeds with their 95 % intervals. The rules of verdicts are in \
         docs/figures.md; a claim that is made by no paper has the source \"ours\".</p>\n",
    );
    for f in all {
        page.heading(&format!("{}: {}", f.figure.id, f.figure.title));
        page.push(&format!("<p class=\"caption\">{}; {}</p>\n", escape(f.figure.source), f.place));
        page.push(&claims(&f.judged));
        f.found.charts.iter().for_each(|c| page.push(&chart(c, &f.found.events)));
        page.push(&curves(&f.distances()));
        page.push("<ul>\n");
        for note in f.notes() {
            page.push(&format!("<li>{}\n", escape(note)));
        }
        page.push("</ul>\n");
    }
    if let Some(f) = all.first() {
        page.origin([("seeds", f.seeds())].into_iter().chain(f.origin.fields()));
    }
    page.html()
}

fn claims(judged: &[Judged]) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("Verdict", left),
        ("Claim", left),
        ("Claimed", right),
        ("Source", left),
        ("Ours", right),
        ("Median", right),
        ("Seeds", right),
        ("Lost, %", right),
    ]);
    for j in judged {
        table.row([
            j.verdict.name().to_owned(),
            j.claim.text.to_owned(),
            paper(j),
            j.claim.source.name().to_owned(),
            ours(j),
            precise(median(&j.evidence.samples)),
            j.evidence.samples.len().to_string(),
            j.evidence.loss_percent.map_or(String::new(), precise),
        ]);
        table.mark(0, colour(j.verdict));
    }
    table.html()
}

/// How far curves are from the paper's; nothing if it has none.
fn curves(all: &[Distance]) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("Chart", left),
        ("Curve", left),
        ("Published", right),
        ("Compared", right),
        ("In our interval", right),
        ("Times off, mean", right),
        ("Farthest at", right),
        ("Ours over the paper's", right),
    ]);
    for d in all {
        table.row([
            d.chart.clone(),
            d.curve.clone(),
            d.published.to_string(),
            d.compared.to_string(),
            d.within.to_string(),
            precise(d.factor),
            d.worst.map_or(String::new(), |w| number(w.0)),
            d.worst.map_or(String::new(), |w| precise(w.1)),
        ]);
    }
    if all.is_empty() { String::new() } else { table.html() }
}

/// A verdict's class of the style sheet.
fn colour(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds | Verdict::Stronger => "good",
        Verdict::Weaker | Verdict::Inconclusive => "warn",
        Verdict::Fails => "bad",
    }
}

/// Points as dots: means with their intervals. Points at which requests were lost are hollow.
fn dots(curve: &Curve, y: &Quantity) -> Vec<Dot> {
    let dot = |p: &Point| {
        let many = p.samples.len() > 1;
        let lost = p.loss_percent.is_some_and(|loss| loss > CENSORED_PERCENT);
        let loss = p.loss_percent.map_or(String::new(), |loss| format!(", {} % lost", precise(loss)));
        Dot {
            x: p.x,
            y: mean(&p.samples).mean,
            interval: many.then(|| ci95(&p.samples)),
            hollow: lost,
            title: format!(
                "{}: {} at {}: {}{loss}",
                curve.name,
                y.label,
                number(p.x),
                interval(&p.evidence())
            ),
        }
    };
    curve.points.iter().filter(|p| !p.samples.is_empty()).map(dot).collect()
}

/// Ours; and if the paper has numbers, each curve with the paper's on the same axes.
/// Charts over the time of a run have many points, and its events.
fn chart(c: &Chart, events: &[(f64, String)]) -> String {
    let over_time = c.x == TIME_OF_RUN;
    let mut names: Vec<&str> = Vec::new();
    for curve in c.ours.iter().chain(&c.paper) {
        if !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    let of = |curves: &[Curve], name: &str| -> Vec<Dot> {
        curves.iter().filter(|c| c.name == name).flat_map(|curve| dots(curve, &c.y)).collect()
    };
    let series: Vec<Series> = names
        .iter()
        .map(|name| Series {
            name: (*name).to_owned(),
            dots: of(&c.ours, name),
            shape: if over_time { Shape::Plain } else { Shape::Marks },
            companion: of(&c.paper, name),
        })
        .collect();
    let all = || series.iter().flat_map(|s| s.dots.iter().chain(&s.companion));
    let ends = || all().flat_map(|d| d.interval.map_or([d.y, d.y], |(low, high)| [low.max(d.y / 3.0), high]));
    let y = if c.y.log { Axis::log(ends()) } else { Axis::linear(ends().fold(0.0, f64::max)) };
    let x = if c.x.log { Axis::log(all().map(|d| d.x)) } else { Axis::around(all().map(|d| d.x)) };
    let lost = all().any(|d| d.hollow);
    let mut caption = String::from(if c.paper.is_empty() {
        ""
    } else {
        "Solid: ours; dashed, hollow marks: the paper's. "
    });
    if lost {
        caption.push_str("Hollow marks of ours: more than 1 % of the requests were lost.");
    }
    let events = events.iter().filter(|_| over_time);
    let guides = events.map(|(at, what)| Guide::Event(*at, what.clone())).collect();
    let labels = (c.x.label.to_owned(), c.y.label.to_owned());
    let drawn = pointsman_chart::Chart { series, x, y, labels, guides, caption };
    format!("<h3>{}</h3>\n{}", escape(&c.title), drawn.html())
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
            seeds: (1, 2),
            origin: Origin {
                version: "0.1",
                command: "pointsman reproduce fig-1".into(),
                machine: "any".into(),
            },
            found,
            judged,
        }
    }

    #[test]
    fn units_are_in_the_columns() {
        let text = table(&[finished()]).csv();
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        assert_eq!(
            head,
            "figure,chart,curve,source,seeds,offered_per_s,p99_median_ms,p99_mean_ms,p99_ci95_low_ms,p99_ci95_high_ms,\
             p99_min_ms,p99_max_ms,loss_percent,first_seed,last_seed,version,command,machine"
        );
        let first = lines.next().unwrap_or_default();
        assert!(
            first.starts_with("fig-1,chart,\"a,b\",ours,2,1,4,4,")
                && first.ends_with(",3,5,0.5,1,2,0.1,pointsman reproduce fig-1,any"),
            "{first}"
        );
        assert_eq!(text.lines().filter(|l| l.contains(",paper,1,1,7,7,7,7,7,7")).count(), 1, "{text}");
    }

    #[test]
    fn a_page_and_a_line() {
        let page = html(&[finished()]);
        for outside in ["http://", "https://", "src=", "href=", "url(", "@import", "<script", "NaN", "inf"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("a &lt;b&gt; claim") && page.contains("holds") && page.contains("flawed"));
        // One curve: it is drawn once, with its paper's and its interval.
        assert_eq!(
            (page.matches("class=\"plot\"").count(), page.matches("class=\"companion\"").count()),
            (1, 1)
        );
        assert_eq!(page.matches("class=\"error\"").count(), 2);
        assert!(page.contains("<td class=\"good\" data-label=\"Verdict\">holds"), "{page}");
        let json: serde_json::Value = serde_json::from_str(&finished().json()).expect("JSON");
        assert_eq!(json["figure"], "fig-1");
        assert_eq!(json["claims"][0]["paper"], 2.0);
        assert_eq!(json["claims"][0]["loss_percent"], 0.5);
        assert_eq!(
            (&json["command"], &json["machine"]),
            (&"pointsman reproduce fig-1".into(), &"any".into())
        );
        assert_eq!((&json["first_seed"], &json["last_seed"]), (&1.into(), &2.into()));
        assert!(page.contains("reproduce fig-1") && page.contains("<dt>seeds<dd>1 to 2"));
        assert!(
            summary(&[finished()]).contains("fig-1        1      1         -"),
            "{}",
            summary(&[finished()])
        );
        assert!(finished().text().contains("holds"));
    }
}
