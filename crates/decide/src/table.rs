//! The table of values, and how it is kept in files.
//!
//! ```text
//! pointsman q-table 1
//! ranges 10
//! updates 1234
//! 0 no 0 0 0
//! 0 yes 0 0.5 -1
//! ...
//! ```
//!
//! Version; number of ranges; updates so far; then a line for each state: range, whether accelerators are in use, values of
//! +1, -1 and keep.

use super::Action;
use super::lines::{Lines, MAX_UPDATES, numbers, wrong};
use std::fmt;

pub(crate) const HEAD: &str = "pointsman q-table";
const VERSION: &str = "1";
const MAX_RANGES: usize = 1000;

/// The value of every action in every state.
#[derive(Clone, Debug, PartialEq)]
pub struct QTable {
    rows: Vec<[f64; 3]>,
    updates: u64,
}

/// Why a text is not a valid table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    /// Line, from 1.
    pub line: usize,
    /// The error.
    pub message: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for TableError {}

impl QTable {
    /// All zero.
    pub fn new(ranges: usize) -> Self {
        QTable::with_values(ranges, 0.0)
    }

    /// All the same.
    pub fn with_values(ranges: usize, value: f64) -> Self {
        QTable { rows: vec![[value; 3]; 2 * ranges], updates: 0 }
    }

    /// Ranges of utilisation.
    pub fn ranges(&self) -> usize {
        self.rows.len() / 2
    }

    /// Updates since it was made.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    pub(crate) fn best_value(&self, row: usize) -> f64 {
        self.rows[row].iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Of equals, the first.
    pub(crate) fn best_action(&self, row: usize) -> Action {
        let values = &self.rows[row];
        let best = (0..3).fold(0, |b, i| if values[i] > values[b] { i } else { b });
        Action::ALL[best]
    }

    pub(crate) fn update(&mut self, row: usize, action: Action, target: f64, alpha: f64) {
        let value = &mut self.rows[row][action as usize];
        *value += alpha * (target - *value);
        self.updates = self.updates.saturating_add(1);
    }

    /// The text for a file. Reading it gives the same values, bit for bit.
    pub fn save(&self) -> String {
        let mut out = format!("{HEAD} {VERSION}\nranges {}\nupdates {}\n", self.ranges(), self.updates);
        for (i, [raise, lower, keep]) in self.rows.iter().enumerate() {
            out.push_str(&format!("{} {} {raise} {lower} {keep}\n", i / 2, ["no", "yes"][i % 2]));
        }
        out
    }

    /// All states as CSV, with a line of names.
    pub fn csv(&self) -> String {
        let mut out =
            "cpu_from_percent,cpu_to_percent,accelerators,raise_value,lower_value,keep_value,best\n"
                .to_string();
        let width = 100.0 / self.ranges().max(1) as f64;
        for (i, [raise, lower, keep]) in self.rows.iter().enumerate() {
            let (from, best) = ((i / 2) as f64 * width, self.best_action(i).name());
            let used = ["no", "yes"][i % 2];
            out.push_str(&format!("{from},{},{used},{raise},{lower},{keep},{best}\n", from + width));
        }
        out
    }

    /// Reads what [`QTable::save`] wrote.
    ///
    /// # Errors
    /// It is something else, or another version.
    pub fn load(text: &str) -> Result<Self, TableError> {
        QTable::read(&mut Lines::new(text))
    }

    pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Self, TableError> {
        lines.head(HEAD, VERSION, "a Q-table")?;
        let ranges = lines.whole("ranges", MAX_RANGES as u64)? as usize;
        let updates = lines.whole("updates", MAX_UPDATES)?;
        let mut table = QTable { rows: vec![[0.0; 3]; 2 * ranges], updates };
        for (i, row) in table.rows.iter_mut().enumerate() {
            let state = format!("{} {}", i / 2, ["no", "yes"][i % 2]);
            let (line, text) = lines.next(&format!("state `{state}`"))?;
            let values = text.strip_prefix(&state).and_then(|v| numbers(v.split_ascii_whitespace(), 3));
            *row = match values.and_then(|v| v.try_into().ok()) {
                Some(values) => values,
                None => return wrong(line, format!("`{text}`: write `{state}` and three numbers")),
            };
        }
        lines.end("more lines than states")?;
        Ok(table)
    }
}

/// For people: one line for each state that was met.
impl fmt::Display for QTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} states, {} updates", self.rows.len(), self.updates)?;
        writeln!(
            f,
            "{:>16} {:>13} {:>9} {:>9} {:>9}  best",
            "cpu_percent", "accelerators", "+1", "-1", "keep"
        )?;
        let width = 100.0 / self.ranges().max(1) as f64;
        for (i, row) in self.rows.iter().enumerate().filter(|(_, r)| r.iter().any(|v| *v != 0.0)) {
            let from = (i / 2) as f64 * width;
            let range = format!("{from:.0} to {:.0}", from + width);
            let used = ["no", "yes"][i % 2];
            let best = self.best_action(i).name();
            writeln!(f, "{range:>16} {used:>13} {:>9.3} {:>9.3} {:>9.3}  {best}", row[0], row[1], row[2])?;
        }
        Ok(())
    }
}
