//! `pointsman siege`: attacks a rack of real processes on this machine.

use pointsman_console::print;
use pointsman_console::results;
use pointsman_console::signals::end_process;
use pointsman_lab::{ensure_privileges, raise_open_file_limit};
use pointsman_siege::{FOLDER, Options, cases, list, prepare};
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Build a rack of network namespaces, attack it in various ways, and check the effect on its connections.
#[derive(clap::Args)]
pub struct Args {
    /// Run only this case. Repeatable; --list shows the names.
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// List all cases with a description.
    #[arg(long)]
    list: bool,
    /// A dozen cases in two minutes.
    #[arg(long)]
    quick: bool,
    /// The `pointsman` binary under attack [default: this one].
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Write the results as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A file is in the siege's own folder.
#[derive(Debug)]
struct Hidden(PathBuf);

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.display();
        write!(f, "{path}: {FOLDER} is reserved for the siege's own files; choose another folder")
    }
}

impl Error for Hidden {}

/// Existing files there are hidden once the siege has begun.
fn refuse_hidden(path: &Path) -> Result<(), Hidden> {
    if path.starts_with(FOLDER) {
        return Err(Hidden(path.to_path_buf()));
    }
    Ok(())
}

/// Runs the command. Exit code 1: a case broke its limits.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let chosen = cases::choose(&args.cases, args.quick)?;
    if args.list {
        print(&list(chosen))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Written from a place where the rack's own files hide nothing.
    let absolute = |p: PathBuf| if results::is_stdout(&p) { p } else { std::path::absolute(&p).unwrap_or(p) };
    let json = args.json.map(absolute);
    json.as_deref().map_or(Ok(()), refuse_hidden)?;
    let files = [(&json, "--json")];
    results::check(&files)?;
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let binary = args.binary.as_ref().unwrap_or(&own);
    let binary = binary
        .canonicalize()
        .map_err(|e| format!("--binary {}: {e}; choose an executable `pointsman`", binary.display()))?;
    refuse_hidden(&binary)?;
    ensure_privileges()?;
    prepare()?;
    end_process(|| {})?;
    raise_open_file_limit().map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    // A failure shows in the last line, too: a case is not interrupted.
    let show = |line: &str| drop(results::tell(&files, &format!("{line}\n")));
    let found = pointsman_siege::run(&chosen, &Options { binary, own }, show)?;
    if let Some(path) = &json {
        let text = serde_json::to_string_pretty(&found.json()).map_err(|e| format!("--json: {e}"))?;
        results::write(path, "--json", text + "\n")?;
    }
    results::tell(&files, &format!("{} of {} cases exceeded their limits\n", found.broken(), chosen.len()))?;
    Ok(if found.ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
