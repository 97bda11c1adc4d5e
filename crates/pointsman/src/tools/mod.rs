//! The developer tools under `pointsman p4`: packet tests, packet traces, the formatter, the resources of a chip.

pub mod fmt;
pub mod resources;
pub mod test;
pub mod trace;

use clap::Subcommand;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Subcommands of `pointsman p4`.
#[derive(Subcommand)]
pub enum P4 {
    /// Commands on a single program.
    #[command(flatten)]
    Program(crate::p4::Command),
    /// Developer tools.
    #[command(flatten)]
    Tool(Tool),
}

/// A developer's tool.
#[derive(Subcommand)]
pub enum Tool {
    /// Format source; comments and preprocessor lines are kept.
    Fmt(fmt::Args),
    /// What a program takes of a pipeline chip.
    Resources(resources::Args),
    /// Run packet tests (STF) against their programs.
    Test(test::Args),
    /// Trace a packet through a program, step by step.
    Trace(trace::Args),
}

/// Runs the command.
///
/// # Errors
/// The reason for the failure.
pub fn run(command: P4) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        P4::Program(command) => crate::p4::run(command),
        P4::Tool(Tool::Fmt(args)) => fmt::run(args),
        P4::Tool(Tool::Resources(args)) => Ok(resources::run(&args)),
        P4::Tool(Tool::Test(args)) => test::run(args),
        P4::Tool(Tool::Trace(args)) => trace::run(args),
    }
}

/// Writes to standard output. A closed pipe, such as with `head`, is not an error.
///
/// # Errors
/// It cannot be written.
pub fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(format!("cannot write to standard output: {e}")),
        Ok(()) => Ok(()),
    }
}

/// Folders nested deeper are taken for endless.
const MAX_DEPTH: usize = 32;

/// Adds the files named `*.ENDING` in `dir` and below it, each folder sorted. Links to folders are not followed: they may
/// lead back up.
///
/// # Errors
/// A folder that cannot be read.
fn walk(dir: &Path, ending: &str, files: &mut Vec<PathBuf>) -> Result<(), String> {
    walk_below(dir, ending, 0, files)
}

fn walk_below(dir: &Path, ending: &str, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let wrong = |e: io::Error| format!("cannot read {}: {e}", dir.display());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(wrong)? {
        entries.push(entry.map_err(wrong)?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if depth < MAX_DEPTH && !path.is_symlink() {
                walk_below(&path, ending, depth + 1, files)?;
            }
        } else if path.extension().is_some_and(|e| e == ending) {
            files.push(path);
        }
    }
    Ok(())
}
