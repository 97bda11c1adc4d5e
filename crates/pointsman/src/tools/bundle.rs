//! `pointsman p4 bundle`: a program and its includes as one file.

use clap::Args as ClapArgs;
use pointsman_compile::sources::{Sources, Standard, bundle_file, parse_define};
use pointsman_compile::{compile, compile_file, rendered};
use pointsman_console::{print, results};
use pointsman_frontend::Define;
use pointsman_ir::text::print as typed;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a program and its includes as one file.
///
/// Only the includes of `core.p4` and of the architecture stay. The file compiles to the same program; other compilers and controllers that
/// push one file take it, too.
#[derive(ClapArgs)]
pub struct Args {
    /// The program's main file.
    file: PathBuf,
    /// The file to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Folder to search for included files. Repeatable.
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro to define; the file defines it, too.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    define: Vec<Define>,
}

/// Bundles.
///
/// # Errors
/// A file cannot be read or written, or the bundle would be another program.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let text = bundled(&args.file, &Sources { include_dirs: args.include.clone() }, &args.define)?;
    match &args.output {
        Some(path) => results::write(path, "--output", text)?,
        None => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a program cannot be one file.
#[derive(Debug)]
pub enum BundleError {
    /// The program itself has an error.
    Program(Box<dyn Error>),
    /// The bundle has one that the program does not have: its text.
    Bundle(String),
    /// The bundle is another program.
    Differs(PathBuf),
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BundleError::Program(e) => e.fmt(f),
            BundleError::Bundle(text) => write!(
                f,
                "the program compiles, but as one file it does not; an include whose name is a macro must be written out:\n{text}"
            ),
            BundleError::Differs(path) => write!(
                f,
                "{} would be another program as one file: does it depend on __LINE__ or __FILE__?",
                path.display()
            ),
        }
    }
}

impl Error for BundleError {}

/// The text of the bundle, which compiles to the same program.
///
/// # Errors
/// See [`BundleError`].
pub fn bundled(file: &Path, sources: &Sources, defines: &[Define]) -> Result<String, BundleError> {
    let (whole, _) = compile_file(file, sources, defines).map_err(|e| BundleError::Program(e.into()))?;
    let text = bundle_file(file, sources, defines).map_err(|e| BundleError::Program(e.into()))?;
    let one = compile("bundle.p4", &text, &Standard, &[]).map_err(|e| BundleError::Bundle(rendered(&e)))?;
    match typed(&whole.program) == typed(&one.program) {
        true => Ok(text),
        false => Err(BundleError::Differs(file.to_path_buf())),
    }
}
