//! `pointsman learn`: what learning controllers keep in files.

use crate::console::print;
use pointsman_balance::learn::QTable;
use std::path::PathBuf;
use std::process::ExitCode;

/// Look at what learning controllers (P4Wise) keep in files.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show a Q-table: for every state that was met, the value of each action.
    Show {
        /// The table, as `pointsman sim --save-table` and a controller with `[learn]` write it.
        table: PathBuf,
        /// As CSV: one line for each state, met or not.
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
    let table = QTable::load(&text).map_err(|e| format!("{shown}: {e}"))?;
    print(&if *csv { table.csv() } else { table.to_string() });
    Ok(ExitCode::SUCCESS)
}
