//! From a P4 program in files to what runs it: the front end with file access, followed by the architecture's checks; and the choice
//! of the executor.

#![forbid(unsafe_code)]

pub mod executor;
pub mod sources;

use crate::sources::{SourceError, read_source};
use pointsman_frontend::diag::{Diagnostic, Severity};
use pointsman_frontend::source::Loader;
use pointsman_frontend::{Checked, Compiled, Define, Failure, render};
use pointsman_v1model::{Pipeline, Problem};
use std::error::Error;
use std::fmt;
use std::path::Path;

/// The package of programs for v1model.
const PACKAGE: &str = "V1Switch";

/// Compiles a program for this switch.
///
/// # Errors
/// It does not compile, or not for v1model.
pub fn compile(
    path: &str,
    text: &str,
    loader: &dyn Loader,
    defines: &[Define],
) -> Result<Compiled, Box<Failure>> {
    let Checked { source_map, mut diagnostics, package, program } = check(path, text, loader, defines);
    let right = diagnostics.iter().all(|d| d.severity != Severity::Error);
    match (package, program) {
        (Some((name, _)), Some(program)) if name == PACKAGE => {
            return Ok(Compiled { program, source_map, warnings: diagnostics });
        }
        (Some((name, span)), _) if right => {
            let message =
                format!("`main` is a `{name}`, not a V1Switch: the program targets another architecture");
            let error = Diagnostic::error("P1002", span, message);
            diagnostics.push(error.help(
                "`pointsman p4 check` checks it; only v1model programs run here: `V1Switch(...) main;`",
            ));
        }
        // A program without `main` is right, but cannot run.
        _ if right => {
            let no_main = |d: &&mut Diagnostic| d.code == "P0505";
            diagnostics.iter_mut().filter(no_main).for_each(|d| d.severity = Severity::Error);
        }
        _ => {}
    }
    Err(Box::new(Failure { source_map, diagnostics }))
}

/// Checks a program for any architecture, by the declarations that it includes. This switch must also be able to run a
/// program for v1model.
pub fn check(path: &str, text: &str, loader: &dyn Loader, defines: &[Define]) -> Checked {
    let mut checked = pointsman_frontend::check_program(path, text, loader, defines, &runs_here);
    finish(&mut checked);
    checked
}

/// Whether programs whose `main` is an instance of this package are for this switch.
pub fn runs_here(package: &str) -> bool {
    package == PACKAGE
}

/// Adds what v1model has against a program that the front end has checked.
pub fn finish(checked: &mut Checked) {
    if let (Some((name, _)), Some(program)) = (&checked.package, &checked.program)
        && name == PACKAGE
        && let Err(problems) = Pipeline::load(program.clone())
    {
        checked.diagnostics.extend(problems.into_iter().map(diagnostic));
        checked.program = None;
    }
}

fn diagnostic(problem: Problem) -> Diagnostic {
    Diagnostic::error("P1001", problem.span.unwrap_or_default(), problem.message)
}

/// Diagnostics as text without colours, for a message.
pub fn rendered(failure: &Failure) -> String {
    render::all_to_text(&failure.source_map, &failure.diagnostics, false)
}

/// A file whose program cannot run.
#[derive(Debug)]
pub enum FileError {
    /// It cannot be read.
    Source(SourceError),
    /// The program in this file does not compile.
    Program(String, Box<Failure>),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Source(e) => e.fmt(f),
            FileError::Program(name, failure) => write!(f, "cannot run {name}:\n{}", rendered(failure)),
        }
    }
}

impl Error for FileError {}

/// Compiles a file for this switch. Warnings are text.
///
/// # Errors
/// An error in the file or in the program.
pub fn compile_file(
    path: &Path,
    loader: &dyn Loader,
    defines: &[Define],
) -> Result<(Compiled, String), FileError> {
    let text = read_source(path).map_err(FileError::Source)?;
    let name = path.display().to_string();
    let compiled =
        compile(&name, &text, loader, defines).map_err(|failure| FileError::Program(name, failure))?;
    let warnings = render::all_to_text(&compiled.source_map, &compiled.warnings, false);
    Ok((compiled, warnings))
}
