//! Tidy tables: a line for each observation, a column for each axis and setting, with units in the names of columns. They are written as CSV
//! ([RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)) and as [Parquet](https://parquet.apache.org/docs/file-format/).

use crate::parquet;
use std::fmt::Write;

/// What the cells of a column contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Whole numbers.
    Whole,
    /// Numbers.
    Number,
}

/// What a table has at a line and column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value: this column does not apply, or the value is not known.
    Empty,
    /// Of a column of text.
    Text(String),
    /// Of a column of whole numbers.
    Whole(u64),
    /// Of a column of numbers.
    Number(f64),
}

impl Cell {
    fn kind(&self) -> Option<Kind> {
        match self {
            Cell::Empty => None,
            Cell::Text(_) => Some(Kind::Text),
            Cell::Whole(_) => Some(Kind::Whole),
            Cell::Number(_) => Some(Kind::Number),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Cell::Whole(number)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Cell::Number(number)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Empty, Into::into)
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Tidy {
    pub(crate) columns: Vec<(String, Kind)>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Tidy {
    /// A table without lines.
    pub fn new(columns: impl IntoIterator<Item = (String, Kind)>) -> Self {
        Tidy { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a line.
    ///
    /// # Panics
    /// It does not have a cell for each column, of its kind or empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        let fits = |(cell, (_, kind)): (&Cell, &(String, Kind))| cell.kind().is_none_or(|k| k == *kind);
        assert!(cells.len() == self.columns.len() && cells.iter().zip(&self.columns).all(fits), "{cells:?}");
        self.rows.push(cells);
    }

    /// As CSV, with a head. Cells without a value are empty.
    pub fn csv(&self) -> String {
        let mut out = self.columns.iter().map(|(name, _)| field(name)).collect::<Vec<_>>().join(",");
        out.push('\n');
        for row in &self.rows {
            for (i, cell) in row.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                let _ = match cell {
                    Cell::Empty => Ok(()),
                    Cell::Text(text) => write!(out, "{}", field(text)),
                    Cell::Whole(number) => write!(out, "{number}"),
                    Cell::Number(number) => write!(out, "{number}"),
                };
            }
            out.push('\n');
        }
        out
    }

    /// As a file of Parquet: one row group, plain encoding, not compressed. Cells without a value are null.
    pub fn parquet(&self) -> Vec<u8> {
        parquet::file(self)
    }
}

/// A field of CSV as it is written: in quotes if it contains a comma, a quote or a line break.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Tidy {
        Tidy::new([("name".to_owned(), Kind::Text), ("p99_ms".to_owned(), Kind::Number)])
    }

    #[test]
    fn fields() {
        let all = ["plain", "a,b", "say \"a\"", "two\nlines"].map(super::field);
        assert_eq!(all, ["plain", "\"a,b\"", "\"say \"\"a\"\"\"", "\"two\nlines\""]);
    }

    #[test]
    fn empty_cells_and_quotes() {
        let mut t = table();
        t.row(["a,b".into(), 1.5.into()]);
        t.row(["c".into(), Cell::Empty]);
        assert_eq!(t.csv(), "name,p99_ms\n\"a,b\",1.5\nc,\n");
    }

    #[test]
    #[should_panic(expected = "Whole(1)")]
    fn kinds_of_cells_are_those_of_columns() {
        table().row(["a".into(), 1.into()]);
    }
}
