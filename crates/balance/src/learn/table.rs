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
use std::fmt;

const HEAD: &str = "pointsman q-table";
const VERSION: &str = "1";
const MAX_RANGES: usize = 1000;

/// The value of every action in every state.
#[derive(Clone, Debug, PartialEq)]
pub struct QTable {
    rows: Vec<[f64; 3]>,
    updates: u64,
}

/// Why a text is no table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
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

    pub(super) fn best_value(&self, row: usize) -> f64 {
        self.rows[row].iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Of equals, the first.
    pub(super) fn best_action(&self, row: usize) -> Action {
        let values = &self.rows[row];
        let best = (0..3).fold(0, |b, i| if values[i] > values[b] { i } else { b });
        Action::ALL[best]
    }

    pub(super) fn update(&mut self, row: usize, action: Action, target: f64, alpha: f64) {
        let value = &mut self.rows[row][action as usize];
        *value += alpha * (target - *value);
        self.updates += 1;
    }

    /// The text for a file. What it holds comes back bit for bit.
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
        let mut lines = text.lines().enumerate().map(|(i, l)| (i + 1, l));
        let mut next = |what: &str| {
            lines.next().ok_or_else(|| TableError {
                line: text.lines().count() + 1,
                message: format!("the file ends where {what} should stand: it is cut off"),
            })
        };
        let wrong = |line: usize, message: String| TableError { line, message };
        let (line, head) = next("the version")?;
        match head.strip_prefix(HEAD).map(str::trim) {
            Some(VERSION) => {}
            Some(other) => {
                return Err(wrong(line, format!("version {other} is not known, only {VERSION}: learn anew")));
            }
            None => return Err(wrong(line, format!("not a Q-table: it begins with `{HEAD} {VERSION}`"))),
        }
        let mut number = |name: &str, max: u64| {
            let (line, text) = next(name)?;
            let value = text.strip_prefix(name).and_then(|n| n.trim().parse().ok()).filter(|n| *n <= max);
            value.ok_or_else(|| wrong(line, format!("`{text}`: write `{name} N`, N up to {max}")))
        };
        let ranges = number("ranges", MAX_RANGES as u64)? as usize;
        let updates = number("updates", u64::MAX)?;
        let mut table = QTable { rows: vec![[0.0; 3]; 2 * ranges], updates };
        for (i, row) in table.rows.iter_mut().enumerate() {
            let state = format!("{} {}", i / 2, ["no", "yes"][i % 2]);
            let (line, text) = next(&format!("state `{state}`"))?;
            let values = text.strip_prefix(&state).map(|v| v.split_ascii_whitespace().map(str::parse::<f64>));
            let values: Option<Vec<f64>> =
                values.and_then(|v| v.map(|x| x.ok().filter(|x| x.is_finite())).collect());
            *row = values
                .and_then(|v| v.try_into().ok())
                .ok_or_else(|| wrong(line, format!("`{text}`: write `{state}` and three numbers")))?;
        }
        match lines.find(|(_, l)| !l.trim().is_empty()) {
            Some((line, _)) => Err(wrong(line, "more lines than states".into())),
            None => Ok(table),
        }
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
