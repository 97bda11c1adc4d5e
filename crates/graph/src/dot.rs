//! Diagrams in the language of Graphviz.

use crate::{Diagram, Line, Shape};
use std::fmt::Write;

/// Diagrams as text for `dot`: one graph each.
pub fn dot(diagrams: &[Diagram]) -> String {
    let mut out = String::new();
    for d in diagrams {
        let _ = writeln!(out, "digraph {} {{", quoted(&d.title()));
        let _ = writeln!(out, "  label={}; labelloc=t; fontname=\"sans-serif\";", quoted(&d.title()));
        out.push_str(
            "  node [fontname=\"monospace\", fontsize=11]; edge [fontname=\"monospace\", fontsize=10];\n",
        );
        for (i, n) in d.nodes.iter().enumerate() {
            let shape = match n.shape {
                Shape::State => "box, style=rounded",
                Shape::Table => "box, style=bold",
                Shape::Choice => "hexagon",
                Shape::Code => "box, style=dashed",
                Shape::Block => "box, peripheries=2",
                Shape::Array => "cylinder",
                Shape::Terminal => "oval",
            };
            let _ = writeln!(out, "  n{i} [label={}, shape={shape}];", quoted(&n.label));
        }
        for e in &d.edges {
            let style = match e.line {
                Line::Solid => "solid",
                Line::Dashed => "dashed",
                Line::Dotted => "dotted",
            };
            let _ = writeln!(out, "  n{} -> n{} [label={}, style={style}];", e.from, e.to, quoted(&e.label));
        }
        out.push_str("}\n");
    }
    out
}

/// A string of dot.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
