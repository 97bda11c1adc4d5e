//! `pointsman learn`: the state files of learning controllers.

use pointsman_console::print;
use pointsman_decide::Kept;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Inspect the state files of learning controllers (P4Wise).
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show a learner's state, class by class: for q-learning the value of each action in every visited state, for thompson the
    /// value of each weight at every load level, for service-rate the capacities of devices.
    Show {
        /// File written by `pointsman sim --save-table` or by a controller with `[learn]`.
        table: PathBuf,
        /// Print CSV: for q-learning one line per state, visited or not.
        #[arg(long)]
        csv: bool,
    },
}

/// Runs the command.
pub fn run(command: &Command) -> Result<ExitCode, Box<dyn Error>> {
    let Command::Show { table: path, csv } = command;
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| {
        format!(
            "cannot read {shown}: {e}; created by `pointsman sim SCENARIO --save-table {shown}`, or by a controller whose \
             rack.toml says learn.table"
        )
    })?;
    let kept = Kept::load(&text).map_err(|e| format!("{shown}: {e}"))?;
    print(&if *csv { kept.csv() } else { kept.to_string() })?;
    Ok(ExitCode::SUCCESS)
}
