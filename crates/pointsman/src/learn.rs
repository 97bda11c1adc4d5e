//! `pointsman learn`: what learning controllers keep in files.

use crate::console::print;
use pointsman_balance::learn::Kept;
use std::path::PathBuf;
use std::process::ExitCode;

/// Look at what learning controllers (P4Wise) keep in files.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show what a learner knows, class by class: q-learning's value of each action in every state that was met, thompson's worth of
    /// each weight at every level of load, or service-rate's capacities of devices.
    Show {
        /// The file, as `pointsman sim --save-table` and a controller with `[learn]` write it.
        table: PathBuf,
        /// As CSV: for q-learning one line for each state, met or not.
        #[arg(long)]
        csv: bool,
    },
}

/// Runs the command.
pub fn run(command: &Command) -> Result<ExitCode, String> {
    let Command::Show { table: path, csv } = command;
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| {
        format!(
            "cannot read {shown}: {e}; `pointsman sim SCENARIO --save-table {shown}` writes one, and so does a controller whose \
             rack.toml says learn.table"
        )
    })?;
    let kept = Kept::load(&text).map_err(|e| format!("{shown}: {e}"))?;
    print(&if *csv { kept.csv() } else { kept.to_string() });
    Ok(ExitCode::SUCCESS)
}
