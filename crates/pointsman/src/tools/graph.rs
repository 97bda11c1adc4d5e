//! `pointsman p4 graph`: pictures of a program.

use clap::{Args as ClapArgs, ValueEnum};
use pointsman_compile::check;
use pointsman_compile::sources::{Sources, parse_define, read_source};
use pointsman_console::{print, results, show};
use pointsman_frontend::{Define, parse_program, render};
use pointsman_graph::{Diagram, controls, dot, parsers, svg, tables};
use pointsman_pisa::arch::Arch;
use pointsman_pisa::{Target, graph_of};
use std::error::Error;
use std::fmt;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// Pictures of a program: states of its parsers, control flow, dependencies of its tables.
///
/// Without --parser, --control and --tables, all of them, one below the other. The flow is that of the source, so any
/// architecture will do; dependencies need a program that can run.
#[derive(ClapArgs)]
pub struct Args {
    /// The program's main file.
    file: PathBuf,
    /// Show the parser of this name. Repeatable.
    #[arg(long, value_name = "NAME")]
    parser: Vec<String>,
    /// Show the control of this name. Repeatable.
    #[arg(long, value_name = "NAME")]
    control: Vec<String>,
    /// Show the dependencies of tables, registers and the like (docs/resources.md says what counts as one).
    #[arg(long)]
    tables: bool,
    /// Form of the picture [default: that of the ending of --output, or else svg].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write to this file, which ends in `.svg` or `.dot`, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Folder to search for included files. Repeatable.
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro to define.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    define: Vec<Define>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    /// For browsers and documents.
    Svg,
    /// For Graphviz.
    Dot,
}

/// Why there is no picture.
#[derive(Debug)]
enum Refused {
    /// The kind of block, its name, the names that exist.
    Unknown(&'static str, String, Vec<String>),
    NoTables(PathBuf),
    Nothing(PathBuf),
    /// A file whose ending is that of another form.
    Ending(PathBuf),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unknown(kind, name, known) if known.is_empty() => {
                write!(f, "unknown {kind} '{name}': the program has none")
            }
            Refused::Unknown(kind, name, known) => {
                write!(f, "unknown {kind} '{name}': the program has {}", known.join(", "))
            }
            Refused::NoTables(path) => write!(
                f,
                "{} has no `main`, or constructs of its architecture that are not supported, so that its tables are not known",
                path.display()
            ),
            Refused::Nothing(path) => write!(f, "{} has no parsers and no controls", path.display()),
            Refused::Ending(path) => write!(
                f,
                "--output {}: pictures are SVG or, for Graphviz, dot: end the name in .svg or .dot, as --format says",
                path.display()
            ),
        }
    }
}

impl Error for Refused {}

/// Draws.
///
/// # Errors
/// The file cannot be read or written, or has nothing of what was asked for.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let form = form(args)?;
    let path = args.file.display().to_string();
    let text = read_source(&args.file)?;
    let sources = Sources { include_dirs: args.include.clone() };
    let checked = check(&path, &text, &sources, &args.define);
    if !checked.is_right() {
        let colours = std::io::stderr().is_terminal();
        show(&render::all_to_text(&checked.source_map, &checked.diagnostics, colours));
        return Ok(ExitCode::FAILURE);
    }
    let (map, program, _) = parse_program(&path, &text, &sources, &args.define);
    let dependencies = || {
        let package = checked.package.as_ref().map_or("", |(name, _)| name.as_str());
        let target = Target::named("rmt");
        let program = checked.program.as_ref().zip(target);
        program.map(|(p, target)| tables(&graph_of(p, Arch::of(package), &target)))
    };
    let (states, flows) = (parsers(&program, &map), controls(&program, &map));
    let mut all = chosen("parser", &args.parser, &states)?;
    all.extend(chosen("control", &args.control, &flows)?);
    if args.tables {
        all.push(dependencies().ok_or_else(|| Refused::NoTables(args.file.clone()))?);
    } else if args.parser.is_empty() && args.control.is_empty() {
        all = states.into_iter().chain(flows).chain(dependencies()).collect();
        all.retain(|d| !d.edges.is_empty() || d.nodes.len() > 1);
    }
    if all.is_empty() {
        return Err(Refused::Nothing(args.file.clone()).into());
    }
    let picture = match form {
        Format::Svg => svg(&all),
        Format::Dot => dot(&all),
    };
    match &args.output {
        Some(file) => results::write(file, "--output", picture)?,
        None => print(&picture)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The form of the picture.
fn form(args: &Args) -> Result<Format, Refused> {
    let Some(file) = &args.output else { return Ok(args.format.unwrap_or(Format::Svg)) };
    let by_name = match file.extension().and_then(|e| e.to_str()) {
        None => return Ok(args.format.unwrap_or(Format::Svg)),
        Some("svg") => Some(Format::Svg),
        Some("dot" | "gv") => Some(Format::Dot),
        Some(_) => None,
    };
    let fits = |f: &Format| args.format.is_none_or(|given| given == *f);
    by_name.filter(fits).ok_or_else(|| Refused::Ending(file.clone()))
}

/// The diagrams of these names.
fn chosen(kind: &'static str, names: &[String], all: &[Diagram]) -> Result<Vec<Diagram>, Refused> {
    let find = |name: &String| {
        let known = || all.iter().map(|d| d.name.clone()).collect();
        let found = all.iter().find(|d| d.name == *name).cloned();
        found.ok_or_else(|| Refused::Unknown(kind, name.clone(), known()))
    };
    names.iter().map(find).collect()
}
