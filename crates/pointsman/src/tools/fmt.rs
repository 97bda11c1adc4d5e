//! `pointsman p4 fmt`: formats P4 source.

use crate::tools::{Input, STDIN, read_input, walk};
use clap::Args as ClapArgs;
use pointsman_compile::old_language;
use pointsman_console::{print, say};
use pointsman_frontend::diag::Diagnostic;
use pointsman_frontend::fmt::{WIDTHS, format};
use pointsman_frontend::render;
use pointsman_frontend::source::SourceMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Format P4 source: four spaces per level, opening braces at the end of the line, one statement per line.
///
/// Comments, preprocessor lines and the author's line breaks are kept; the program's tokens do not change. With `--width`, longer
/// lines are broken.
/// Files are rewritten in place; `-` formats standard input to standard output.
#[derive(ClapArgs)]
pub struct Args {
    /// Files, folders (searched for `*.p4`), or `-`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only list unformatted files; exit code 1 if any is found.
    #[arg(long)]
    check: bool,
    /// Break lines that are longer than this many columns; comments at their ends do not count.
    #[arg(long, value_name = "N", value_parser = width)]
    width: Option<usize>,
    /// Name of standard input in messages; the default is `<stdin>`.
    #[arg(long, value_name = "FILE")]
    stdin_name: Option<PathBuf>,
}

fn width(text: &str) -> Result<usize, NotWidth> {
    text.parse::<usize>().ok().filter(|n| WIDTHS.contains(n)).ok_or(NotWidth)
}

/// The value of `--width` is not a width.
#[derive(Clone, Copy, Debug)]
struct NotWidth;

impl fmt::Display for NotWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a width is a number of columns, {} to {}", WIDTHS.start(), WIDTHS.end())
    }
}

impl Error for NotWidth {}

/// A file cannot be replaced by its formatted text.
#[derive(Debug)]
struct WriteError(PathBuf, io::Error);

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write {}: {}", self.0.display(), self.1)
    }
}

impl Error for WriteError {}

/// Formats.
///
/// # Errors
/// A file cannot be read or written.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let mut files = Vec::new();
    for path in &args.files {
        match path.is_dir() {
            true => walk(path, "p4", &mut files)?,
            false => files.push(path.clone()),
        }
    }
    if files.is_empty() {
        let given: Vec<_> = args.files.iter().map(|p| p.display().to_string()).collect();
        return Err(format!("no P4 source in {}: files are named NAME.p4", given.join(", ")).into());
    }
    let mut code = ExitCode::SUCCESS;
    for path in files {
        let stdin = path == Path::new(STDIN);
        let Input { name, text } = read_input(&path, args.stdin_name.as_deref())?;
        let formatted =
            match old_language(&text).map_or_else(|| format(&text, args.width), |d| Err(Box::new(d))) {
                Ok(formatted) => formatted,
                Err(d) => {
                    // Other files may be better; this one stays as it is.
                    say(&shown(&name, &text, &d));
                    code = ExitCode::FAILURE;
                    continue;
                }
            };
        if args.check {
            if formatted != text {
                print(&format!("{name}\n"))?;
                code = ExitCode::FAILURE;
            }
        } else if stdin {
            print(&formatted)?;
        } else if formatted != text {
            write(&path, &formatted)?;
        }
    }
    Ok(code)
}

/// The problem with its line.
fn shown(name: &str, text: &str, d: &Diagnostic) -> String {
    let mut map = SourceMap::default();
    map.add(name.to_string(), text.to_string());
    format!("{name} was not formatted:\n{}", render::to_text(&map, d, false).trim_end())
}

/// Replaces a file by a complete new one or not at all.
fn write(path: &Path, text: &str) -> Result<(), WriteError> {
    let wrong = |e| WriteError(path.to_path_buf(), e);
    // Through links, so that they stay links.
    let path = path.canonicalize().map_err(wrong)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".fmt");
    let new = path.with_file_name(name);
    let mode = std::fs::metadata(&path).map_err(wrong)?.permissions();
    let done = std::fs::write(&new, text)
        .and_then(|()| std::fs::set_permissions(&new, mode))
        .and_then(|()| std::fs::rename(&new, &path));
    done.map_err(|e| {
        let _ = std::fs::remove_file(&new);
        wrong(e)
    })
}
