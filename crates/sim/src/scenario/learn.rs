//! `[learn]`: the learner of the weights of accelerators.

use super::Load;
use pointsman_balance::config::reader::{At, Problems, Table};
use pointsman_decide::{Learner, QTable, read_settings};
pub use pointsman_decide::{LearnerKind, Settings as LearnModel};
use std::error::Error;

pub(super) fn learn(
    mut t: Table<'_, '_>,
    load: &Load<'_>,
    problems: &mut Problems<'_>,
) -> Option<LearnModel> {
    let settings = read_settings(&mut t, problems);
    let file: Option<At<String>> = t.text("table", "write the path of a Q-table", problems);
    t.finish(problems);
    let settings = settings?;
    let table = file.and_then(|file| {
        let read = || -> Result<QTable, Box<dyn Error>> {
            let table = QTable::load(&load(&file.value)?).map_err(|e| format!("{}: {e}", file.value))?;
            Learner::with_table(settings.parameters, table.clone())?;
            Ok(table)
        };
        read().map_err(|e| problems.add(&file.place, "learn.table", e.to_string())).ok()
    });
    Some(LearnModel { table, ..settings })
}
