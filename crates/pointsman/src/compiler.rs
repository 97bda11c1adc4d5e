//! The front end with files, followed by the checks of the architecture.

use crate::sources::read_source;
use pointsman_frontend::diag::Diagnostic;
use pointsman_frontend::source::Loader;
use pointsman_frontend::{Compiled, Define, Failure, render};
use pointsman_v1model::{Pipeline, Problem};
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
    fitting(pointsman_frontend::compile(path, text, loader, defines)?)
}

/// Compiles a program. Whether it suits the architecture is checked only if it says that it is for v1model: others can
/// be compiled as well, though not run.
///
/// # Errors
/// It does not compile.
pub fn check(
    path: &str,
    text: &str,
    loader: &dyn Loader,
    defines: &[Define],
) -> Result<Compiled, Box<Failure>> {
    let compiled = pointsman_frontend::compile(path, text, loader, defines)?;
    if compiled.program.package.name == PACKAGE { fitting(compiled) } else { Ok(compiled) }
}

fn fitting(compiled: Compiled) -> Result<Compiled, Box<Failure>> {
    match Pipeline::load(compiled.program.clone()) {
        Ok(_) => Ok(compiled),
        Err(problems) => {
            let Compiled { source_map, warnings, .. } = compiled;
            let diagnostics = warnings.into_iter().chain(problems.into_iter().map(diagnostic)).collect();
            Err(Box::new(Failure { source_map, diagnostics }))
        }
    }
}

fn diagnostic(problem: Problem) -> Diagnostic {
    Diagnostic::error("P1001", problem.span.unwrap_or_default(), problem.message)
}

/// Diagnostics as text without colours, for a message.
pub fn rendered(failure: &Failure) -> String {
    render::all_to_text(&failure.source_map, &failure.diagnostics, false)
}

/// Compiles a file for this switch. Warnings and errors are text.
///
/// # Errors
/// What is wrong with the file or with the program.
pub fn compile_file(
    path: &Path,
    loader: &dyn Loader,
    defines: &[Define],
) -> Result<(Compiled, String), String> {
    let text = read_source(path)?;
    let name = path.display().to_string();
    let compiled = compile(&name, &text, loader, defines)
        .map_err(|failure| format!("cannot run {name}:\n{}", rendered(&failure)))?;
    let warnings = render::all_to_text(&compiled.source_map, &compiled.warnings, false);
    Ok((compiled, warnings))
}
