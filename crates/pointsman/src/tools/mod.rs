//! The developer tools under `pointsman p4`: packet tests, packet traces, the formatter, pictures, the language server, the
//! resources of a chip.

pub mod bundle;
pub mod dump;
pub mod fmt;
mod follow;
pub mod graph;
pub mod lsp;
pub mod p4c;
pub mod resources;
pub mod test;
pub mod trace;

use clap::Subcommand;
use pointsman_compile::sources::{MAX_SOURCE_BYTES, read_source};
use pointsman_console::unreadable;
use std::error::Error;
use std::io::{self, Read};
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
    /// Write a program and its includes as one file.
    Bundle(bundle::Args),
    /// Compile a program with p4c's command line.
    Compile(Box<p4c::Args>),
    /// Write the state of a running switch as STF statements.
    Dump(dump::Args),
    /// Format source; comments and preprocessor lines are kept.
    Fmt(fmt::Args),
    /// Draw a program: states of parsers, control flow, dependencies of tables.
    Graph(graph::Args),
    /// Serve editors: a language server on standard input and output.
    Lsp(lsp::Args),
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
        P4::Tool(Tool::Bundle(args)) => bundle::run(&args),
        P4::Tool(Tool::Compile(args)) => p4c::run(&args),
        P4::Tool(Tool::Dump(args)) => dump::run(&args),
        P4::Tool(Tool::Fmt(args)) => fmt::run(args),
        P4::Tool(Tool::Graph(args)) => graph::run(&args),
        P4::Tool(Tool::Lsp(args)) => lsp::run(args),
        P4::Tool(Tool::Resources(args)) => Ok(resources::run(&args)),
        P4::Tool(Tool::Test(args)) => test::run(args),
        P4::Tool(Tool::Trace(args)) => trace::run(args),
    }
}

/// The name of standard input where a file is expected.
const STDIN: &str = "-";

/// Source from a file, or from standard input.
pub struct Input {
    /// The name for diagnostics. Quoted includes are relative to its folder.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Reads `file`, or standard input if it is `-`, which is then called `stdin_name`, or `<stdin>`.
///
/// # Errors
/// It cannot be read, or is not text.
pub fn read_input(file: &Path, stdin_name: Option<&Path>) -> Result<Input, Box<dyn Error>> {
    if file != Path::new(STDIN) {
        return Ok(Input { name: file.display().to_string(), text: read_source(file)? });
    }
    let mut text = String::new();
    let read = io::stdin().lock().take(MAX_SOURCE_BYTES + 1).read_to_string(&mut text);
    match read {
        Err(e) => Err(format!("cannot read standard input: {e}; give P4 source text").into()),
        Ok(n) if n as u64 > MAX_SOURCE_BYTES => {
            Err(format!("standard input is longer than {} MiB", MAX_SOURCE_BYTES >> 20).into())
        }
        Ok(_) => {
            let name = stdin_name.map_or_else(|| "<stdin>".to_string(), |p| p.display().to_string());
            Ok(Input { name, text })
        }
    }
}

/// Folders nested deeper are taken for endless.
const MAX_DEPTH: usize = 32;

/// A folder cannot be read.
#[derive(Debug)]
struct FolderError(PathBuf, io::Error);

impl std::fmt::Display for FolderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&unreadable(&self.0, &self.1))
    }
}

impl Error for FolderError {}

/// Adds the files named `*.ENDING` in `dir` and below it, each folder sorted. Links to folders are not followed: they may
/// lead back up.
///
/// # Errors
/// A folder that cannot be read.
fn walk(dir: &Path, ending: &str, files: &mut Vec<PathBuf>) -> Result<(), FolderError> {
    walk_below(dir, ending, 0, files)
}

fn walk_below(dir: &Path, ending: &str, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), FolderError> {
    let wrong = |e| FolderError(dir.to_path_buf(), e);
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
