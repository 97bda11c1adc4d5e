//! `pointsman completions` and `pointsman man`: what a shell and `man` know of the command line, from the definitions that parse it.

use clap::{Command, ValueHint};
use clap_complete::Shell;
use pointsman_console::print;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print a completion script for a shell.
///
/// For one session of bash: source <(pointsman completions bash).
#[derive(clap::Args)]
pub struct Completions {
    /// Shell.
    shell: Shell,
}

/// Write the man pages: one for each command.
#[derive(clap::Args)]
pub struct Man {
    /// Folder for the pages; it is created if needed.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Date of the pages.
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<String>,
}

/// Prints a script.
///
/// # Errors
/// It cannot be written.
pub fn run_completions(args: &Completions, mut command: Command) -> Result<ExitCode, Box<dyn Error>> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "pointsman", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages.
///
/// # Errors
/// The folder or a page cannot be written.
pub fn run_man(args: &Man, command: Command) -> Result<ExitCode, Box<dyn Error>> {
    let dir = args.dir.display();
    std::fs::create_dir_all(&args.dir).map_err(|e| format!("--dir: cannot create {dir}: {e}"))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    // An empty field would shift those behind it.
    write(&command, args.date.as_deref().unwrap_or(" "), &args.dir)
        .map_err(|e| format!("--dir: cannot write to {dir}: {e}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The page of a command, and those of its subcommands.
fn write(command: &Command, date: &str, dir: &Path) -> io::Result<()> {
    let version = command.get_version().unwrap_or_default();
    let man = clap_mangen::Man::new(command.clone()).date(date).source(format!("pointsman {version}"));
    man.manual("Pointsman").generate_to(dir)?;
    command.get_subcommands().filter(|c| !c.is_hide_set()).try_for_each(|c| write(c, date, dir))
}
