//! Tables, for pages and for terminals.

use crate::{SCROLL, escape};
use std::fmt::Write;

/// How the cells of a column are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table. On a narrow screen each row becomes a block of labelled lines, so that no column is out of sight.
#[derive(Clone, Debug, Default)]
pub struct Table {
    head: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug)]
struct Cell {
    text: String,
    class: String,
}

impl Table {
    /// With these columns.
    pub fn new(head: &[(&str, Align)]) -> Self {
        Table {
            head: head.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: a text for each column.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cell = |text: T| Cell { text: text.into(), class: String::new() };
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    /// Gives a cell of the last row a class of the style sheet, such as a verdict's.
    pub fn mark(&mut self, column: usize, class: &str) {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.get_mut(column)) {
            cell.class = class.to_owned();
        }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As HTML.
    pub fn html(&self) -> String {
        let mut out = format!("{SCROLL}<table class=\"rows\">\n<thead><tr>");
        for (name, align) in &self.head {
            let _ = write!(
                out,
                "<th{}>{}",
                if *align == Align::Right { " class=\"n\"" } else { "" },
                escape(name)
            );
        }
        out.push_str("\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for ((name, align), cell) in self.head.iter().zip(row) {
                let number = if *align == Align::Right { "n" } else { "" };
                let class =
                    [number, &cell.class].into_iter().filter(|c| !c.is_empty()).collect::<Vec<_>>().join(" ");
                let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
                let _ = write!(out, "<td{class} data-label=\"{}\">{}", escape(name), escape(&cell.text));
            }
            out.push('\n');
        }
        out.push_str("</table></div>\n");
        out
    }

    /// For a terminal: columns with two spaces between them, a line for each row.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.text.chars().count());
            cells.fold(self.head[column].0.chars().count(), usize::max)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut out = String::new();
            for ((text, width), (_, align)) in cells.zip(&widths).zip(&self.head) {
                let _ = match align {
                    Align::Left => write!(out, "{text:<width$}  "),
                    Align::Right => write!(out, "{text:>width$}  "),
                };
            }
            format!("{}\n", out.trim_end())
        };
        let mut out = line(&mut self.head.iter().map(|(name, _)| name.as_str()));
        for row in &self.rows {
            out.push_str(&line(&mut row.iter().map(|c| c.text.as_str())));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table() {
        let mut table = Table::new(&[("Policy <b>", Align::Left), ("P99", Align::Right)]);
        table.row(["wrr", "1234 ms"]);
        table.row(["least connections", "9 ms"]);
        table.mark(1, "bad");
        table.row(["<script>", "1"]);
        assert!(table.html().contains(">&lt;script&gt;<"), "{}", table.html());
        table.rows.pop();
        assert_eq!(
            table.text(),
            "Policy <b>             P99\nwrr                1234 ms\nleast connections     9 ms\n"
        );
        let html = table.html();
        assert!(
            html.contains(
                "<td data-label=\"Policy &lt;b&gt;\">wrr<td class=\"n\" data-label=\"P99\">1234 ms"
            ),
            "{html}"
        );
        assert!(html.contains("<td class=\"n bad\" data-label=\"P99\">9 ms"), "{html}");
    }
}
