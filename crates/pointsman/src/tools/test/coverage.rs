//! What the tests covered of their programs: the summary, and the files of `--coverage`.

mod page;

use super::attempt::Finished;
use pointsman_console::results::{self, WriteError};
use pointsman_explain::coverage::{ArmKind, Branch, Coverage, Report, lcov};
use pointsman_frontend::source::SourceMap;
use pointsman_ir::Program;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The argument of `--coverage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A page with the sources.
    Html,
    /// A tracefile for `lcov`, `genhtml` and editors.
    Lcov,
}

/// What one test covered of its program.
pub struct Covered {
    /// The program's main file.
    pub path: PathBuf,
    /// The program.
    pub program: Arc<Program>,
    /// Its sources.
    pub map: SourceMap,
    /// The counts.
    pub coverage: Coverage,
}

/// One program with what all of its tests covered.
pub(super) struct Whole<'a> {
    path: &'a Path,
    map: &'a SourceMap,
    report: Report,
    tests: usize,
    cut: bool,
}

/// The programs of the tests, by path.
fn whole(results: &[Finished]) -> Vec<Whole<'_>> {
    let mut programs: BTreeMap<&Path, (&Covered, Coverage, usize)> = BTreeMap::new();
    for covered in results.iter().filter_map(|r| r.covered.as_ref()) {
        let (_, sum, tests) = programs.entry(&covered.path).or_insert((covered, Coverage::default(), 0));
        sum.merge(&covered.coverage);
        *tests += 1;
    }
    let programs = programs.into_iter();
    programs
        .map(|(path, (first, sum, tests))| Whole {
            path,
            map: &first.map,
            report: sum.report(&first.program, &first.map),
            tests,
            cut: sum.is_cut(),
        })
        .collect()
}

/// Writes the file and returns the summary for the terminal.
///
/// # Errors
/// No test ran, or the file cannot be written.
pub fn write(format: Format, out: Option<&Path>, results: &[Finished]) -> Result<String, WriteError> {
    let programs = whole(results);
    if programs.is_empty() {
        return Ok("\nno coverage: no test ran\n".into());
    }
    let (name, text) = match format {
        Format::Html => ("coverage.html", page::page(&programs)),
        Format::Lcov => ("coverage.info", programs.iter().map(|p| lcov(&p.report, &full)).collect()),
    };
    let path = out.unwrap_or(Path::new(name));
    results::write(path, "--coverage-out", text)?;
    let mut summary = String::new();
    for program in &programs {
        summary.push_str(&terminal(program));
    }
    let _ = writeln!(summary, "\ncoverage written to {}", path.display());
    Ok(summary)
}

/// An absolute path, which tools find from any folder.
fn full(path: &str) -> String {
    let real = std::fs::canonicalize(path);
    real.map_or_else(|_| path.to_string(), |p| p.display().to_string())
}

/// `covered/all (percent)`
fn share(total: pointsman_explain::coverage::Total) -> String {
    let percent = 100.0 * total.covered as f64 / total.all.max(1) as f64;
    format!("{}/{} ({percent:.0} %)", total.covered, total.all)
}

/// More names are only counted.
const MAX_NAMES: usize = 12;

/// Totals of a program, and the names of what no test reaches.
fn terminal(program: &Whole<'_>) -> String {
    let s = if program.tests == 1 { "" } else { "s" };
    let mut out = format!("\ncoverage of {} by {} test{s}\n", program.path.display(), program.tests);
    for (name, total) in program.report.totals() {
        let _ = writeln!(out, "  {name:<24}{:>16}", share(total));
    }
    for (what, names) in missed(&program.report) {
        let shown: Vec<_> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
        let more = match names.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let _ = writeln!(out, "  {what}: {}{more}", shown.join(", "));
    }
    if program.cut {
        out.push_str("  counts are too small: a packet has more steps than a trace holds\n");
    }
    out
}

/// What no test reaches, by name.
fn missed(report: &Report) -> Vec<(&'static str, Vec<String>)> {
    let named = |list: &[pointsman_explain::coverage::Named]| -> Vec<String> {
        list.iter().filter(|n| n.count == 0).map(|n| n.name.clone()).collect()
    };
    let without = |kind: ArmKind| -> Vec<String> {
        let lacks = |t: &&Branch| t.result(kind).is_some_and(|a| a.count == 0);
        report.tables.iter().filter(lacks).map(|t| t.name.clone()).collect()
    };
    let all = [
        ("states not entered", named(&report.states)),
        ("tables without a hit", without(ArmKind::Hit)),
        ("tables without a miss", without(ArmKind::Miss)),
        ("actions that did not run", named(&report.actions)),
    ];
    all.into_iter().filter(|(_, names)| !names.is_empty()).collect()
}
