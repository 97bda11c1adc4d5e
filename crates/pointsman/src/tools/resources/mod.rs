//! `pointsman p4 resources`: what a program takes of a pipeline chip.

mod page;

use crate::value::Expected;
use clap::Args as ClapArgs;
use pointsman_compile::check;
use pointsman_compile::sources::{Sources, parse_define, read_source};
use pointsman_console::{results, say, show};
use pointsman_frontend::{Define, render};
use pointsman_pisa::arch::Arch;
use pointsman_pisa::{
    BUDGET, BUILT_IN, GraphFile, MOST_ENTRIES, Report, Target, resize, resources, resources_of_graph,
};
use std::error::Error;
use std::fmt;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a program takes of a pipeline chip: stages, memory, crossbars, ALUs, words of the packet header vector
/// (docs/resources.md).
///
/// The exit status is 0 if it fits, 1 if it does not, 2 if the program or the target is not valid.
#[derive(ClapArgs)]
pub struct Args {
    /// The program's main file; or a table graph, if it ends in `.toml`.
    file: PathBuf,
    /// The chip: rmt, tofino, tofino2, or a file that describes it.
    #[arg(long, value_name = "NAME|FILE.toml")]
    target: String,
    /// Count this many entries of a table instead of those that the program declares. Repeatable.
    #[arg(long, value_name = "TABLE=N", value_parser = parse_entries)]
    entries: Vec<(String, u64)>,
    /// Write the report as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as a page for browsers; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Folder to search for included files. Repeatable.
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro to define.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    define: Vec<Define>,
}

/// `TABLE=N`.
fn parse_entries(text: &str) -> Result<(String, u64), Expected> {
    let parts = text.split_once('=').and_then(|(table, n)| Some((table.to_string(), n.parse().ok()?)));
    let expected = "the name of a table and a number from 1 to 4294967296, such as routes=1000";
    parts.filter(|(_, n)| (1..=MOST_ENTRIES).contains(n)).ok_or(Expected(expected))
}

/// Something is wrong with the program or the target.
const BAD_INPUT: u8 = 2;

/// Why there is no report.
#[derive(Debug)]
enum Refused {
    UnknownTarget(String),
    NoTables(PathBuf),
    NoTable(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::UnknownTarget(name) => {
                let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
                write!(f, "unknown target '{name}': use {}, or a file that ends in .toml", known.join(", "))
            }
            Refused::NoTable(name) => {
                write!(
                    f,
                    "--entries {name}: no table has this name, or more than one has: write the full name"
                )
            }
            Refused::NoTables(path) => write!(
                f,
                "{} has no `main`, or constructs of its architecture that are not supported, so that its tables are not known",
                path.display()
            ),
        }
    }
}

impl Error for Refused {}

/// Prints the report.
pub fn run(args: &Args) -> ExitCode {
    let done = report(args).and_then(|report| report.map(|r| write(args, &r)).transpose());
    match done {
        Ok(Some(true)) => ExitCode::SUCCESS,
        Ok(Some(false)) => ExitCode::FAILURE,
        Ok(None) => ExitCode::from(BAD_INPUT),
        Err(e) => {
            say(&e.to_string());
            ExitCode::from(BAD_INPUT)
        }
    }
}

impl Args {
    fn results(&self) -> [results::Flag<'_>; 2] {
        [(&self.json, "--json"), (&self.html, "--html")]
    }
}

/// Writes the report. Does the program fit?
fn write(args: &Args, report: &Report) -> Result<bool, Box<dyn Error>> {
    if let Some(path) = &args.json {
        results::write(path, "--json", format!("{}\n", report.json()))?;
    }
    if let Some(path) = &args.html {
        results::write(path, "--html", page::page(report))?;
    }
    results::tell(&args.results(), &report.text())?;
    Ok(report.fits())
}

/// The report; `None` if the program has errors, which were shown.
fn report(args: &Args) -> Result<Option<Report>, Box<dyn Error>> {
    results::check(&args.results())?;
    let target = target(&args.target)?;
    let path = args.file.display().to_string();
    let text = read_source(&args.file)?;
    if args.file.extension().is_some_and(|e| e == "toml") {
        let file = GraphFile::read(&path, &text)?;
        return Ok(Some(resources_of_graph(&file.name, &file.graph, &target, BUDGET)));
    }
    let sources = Sources { include_dirs: args.include.clone() };
    let checked = check(&path, &text, &sources, &args.define);
    show(&render::all_to_text(&checked.source_map, &checked.diagnostics, std::io::stderr().is_terminal()));
    if !checked.is_right() {
        return Ok(None);
    }
    let package = checked.package.map_or_else(String::new, |(name, _)| name);
    let mut program = checked.program.ok_or_else(|| Refused::NoTables(args.file.clone()))?;
    for (table, entries) in &args.entries {
        if !resize(&mut program, table, *entries) {
            return Err(Refused::NoTable(table.clone()).into());
        }
    }
    Ok(Some(resources(&path, &program, Arch::of(&package), &target, BUDGET)))
}

fn target(name: &str) -> Result<Target, Box<dyn Error>> {
    if let Some(target) = Target::named(name) {
        return Ok(target);
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|e| e != "toml") {
        return Err(Refused::UnknownTarget(name.into()).into());
    }
    Ok(Target::read(name, &read_source(path)?)?)
}
