//! `pointsman history`: recorded packets, and whether one switch that never failed can explain them.

use pointsman_console::print;
use pointsman_console::results::{self, check_writable};
use serde_json::json;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Recorded packets, and whether one switch that never failed can explain them.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Check a history, as `pointsman failover --history` writes it.
    Check(Check),
}

/// Flags of the check.
#[derive(clap::Args)]
pub struct Check {
    /// History: a line of JSON with the program, then a line for each packet.
    file: PathBuf,
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command. Exit code 1: the packets of a key have no explanation.
pub fn run(command: &Command) -> Result<ExitCode, Box<dyn Error>> {
    let Command::Check(Check { file, json }) = command;
    json.as_deref().map_or(Ok(()), |path| check_writable(path, "--json"))?;
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {shown}: {e}"))?;
    let found = pointsman_history::check(&text).map_err(|e| format!("{shown}: {e}"))?;
    print(&format!("{} keys, {} packets, {} unanswered\n", found.keys, found.operations, found.unanswered));
    for (key, at) in &found.violations {
        print(&format!("{key}: no order of the packets explains packet {at}\n"));
    }
    for key in &found.undecided {
        print(&format!("{key}: undecided, too many orders to try\n"));
    }
    if found.linearizable() {
        print("linearizable\n");
    }
    if let Some(path) = json {
        let result = json!({
            "keys": found.keys,
            "operations": found.operations,
            "linearizable": found.linearizable(),
        });
        results::write(path, "--json", format!("{result:#}\n"))?;
    }
    Ok(if found.linearizable() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
