//! `pointsman history`: recorded packets, and whether one switch that never failed can explain them.

use pointsman_console::results::{self, Flag};
use pointsman_console::say;
use pointsman_history::Summary;
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
    /// Write the result as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Check {
    fn json(&self) -> Flag<'_> {
        (&self.json, "--json")
    }
}

/// Exit code of bad input.
const BAD_INPUT: u8 = 2;

/// Reads and judges a history.
fn judged(check @ Check { file, .. }: &Check) -> Result<Summary, Box<dyn Error>> {
    results::check(&[check.json()])?;
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {shown}: {e}"))?;
    Ok(pointsman_history::check(&text).map_err(|e| format!("{shown}: {e}"))?)
}

/// Runs the command. Exit code 1: the packets of a key have no explanation, or none was found; 2: bad input.
pub fn run(command: &Command) -> Result<ExitCode, Box<dyn Error>> {
    let Command::Check(check) = command;
    let found = match judged(check) {
        Ok(found) => found,
        Err(why) => {
            say(&why.to_string());
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let tell = |text: &str| results::tell(&[check.json()], text);
    tell(&format!("{} keys, {} packets, {} unanswered\n", found.keys, found.operations, found.unanswered))?;
    for (key, at) in &found.violations {
        tell(&format!("{key}: no order of the packets explains packet {at}\n"))?;
    }
    for key in &found.undecided {
        tell(&format!("{key}: undecided, too many orders to try\n"))?;
    }
    if found.linearizable() {
        tell("linearizable\n")?;
    }
    if let Some(path) = &check.json {
        let result = json!({
            "keys": found.keys,
            "operations": found.operations,
            "linearizable": found.linearizable(),
            "undecided": found.undecided.len(),
        });
        results::write(path, "--json", format!("{result:#}\n"))?;
    }
    Ok(if found.linearizable() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
