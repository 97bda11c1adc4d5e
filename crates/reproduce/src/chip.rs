//! What programs take of a switch chip, and what a library adds to one: the difference of a program with it and without it.

use crate::figure::{Claim, Curve, Point, Rule, Source};
use pointsman_pisa::{Report, Resource};

/// Resources that a table names together, and the paper's additional use in per cent.
pub type Row = (&'static str, &'static [Resource], f64);

/// A paper's use or additional use.
pub const fn at_most(id: &'static str, text: &'static str, percent: f64) -> Claim {
    Claim { id, text, paper: percent, unit: "%", rule: Rule::AtMost, source: Source::Text }
}

/// What resources are used in all stages, in per cent of those of the chip.
fn percent(report: &Report, kinds: &[Resource]) -> f64 {
    let totals = report.totals();
    let of = || totals.iter().filter(|(r, ..)| kinds.contains(r));
    let (used, has) = of().fold((0, 0), |(a, b), (_, used, has)| (a + used, b + has));
    if has == 0 { f64::NAN } else { 100.0 * used as f64 / has as f64 }
}

/// What `with` takes more than `plain`, row by row and then in stages, in per cent of the chip. All seeds give the same.
pub fn more(name: &str, rows: &[Row], with: &Report, plain: &Report, seeds: usize) -> Curve {
    let all = shares(rows, with).into_iter().zip(shares(rows, plain)).map(|(with, plain)| with - plain);
    curve(name, all, seeds)
}

/// What a program takes, row by row and then in stages, in per cent of the chip. All seeds give the same.
pub fn taken(name: &str, rows: &[Row], report: &Report, seeds: usize) -> Curve {
    curve(name, shares(rows, report).into_iter(), seeds)
}

fn curve(name: &str, rows: impl Iterator<Item = f64>, seeds: usize) -> Curve {
    let points = rows.enumerate().map(|(n, share)| Point::new((n + 1) as f64, vec![share; seeds]));
    Curve { name: name.into(), points: points.collect() }
}

fn shares(rows: &[Row], report: &Report) -> Vec<f64> {
    let stages = 100.0 * f64::from(report.used()) / f64::from(report.target.stages);
    rows.iter().map(|(_, kinds, _)| percent(report, kinds)).chain([stages]).collect()
}

/// The paper's numbers.
pub fn paper(rows: &[Row]) -> Curve {
    let points: Vec<(f64, f64)> = rows.iter().enumerate().map(|(n, row)| ((n + 1) as f64, row.2)).collect();
    Curve::paper("ours", &points)
}
