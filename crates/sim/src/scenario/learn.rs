//! `[learn]`: the learner of the weights of accelerators.

use super::Load;
use pointsman_balance::config::reader::{At, Problems, Table};
use pointsman_decide::{Learner, QTable, read_settings};
pub use pointsman_decide::{LearnerKind, Settings as LearnModel};

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
        let read = load(&file.value)
            .and_then(|text| QTable::load(&text).map_err(|e| format!("{}: {e}", file.value)))
            .and_then(|table| Learner::with_table(settings.parameters, table.clone()).map(|_| table));
        read.map_err(|e| problems.add(&file.place, "learn.table", e)).ok()
    });
    Some(LearnModel { table, ..settings })
}
