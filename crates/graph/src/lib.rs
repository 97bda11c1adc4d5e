//! Pictures of P4 programs: states of parsers, control flow, dependencies of tables.
//!
//! [`parsers`] and [`controls`] make them from the syntax tree, so conditions and labels are as the programmer wrote them, and
//! the architecture does not matter. [`tables`] shows the dependencies that [`pointsman_pisa`] finds. A [`Diagram`] becomes
//! [`dot`], or coordinates by [`layout()`] and [`svg`].

#![forbid(unsafe_code)]

mod control;
mod dot;
mod layout;
mod order;
mod parser;
mod svg;
mod tables;
mod words;

pub use control::controls;
pub use dot::dot;
pub use layout::{Laid, Layout, Route, layout};
pub use parser::parsers;
pub use svg::svg;
pub use tables::tables;

/// What a node stands for, which decides its shape and colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A state.
    State,
    /// A table.
    Table,
    /// A condition.
    Choice,
    /// Statements.
    Code,
    /// Another parser or control.
    Block,
    /// A register array or the like.
    Array,
    /// The beginning or an end.
    Terminal,
}

/// How an edge is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Flow, or the strongest dependency.
    Solid,
    /// A weaker one.
    Dashed,
    /// The weakest one.
    Dotted,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Lines of text.
    pub label: String,
    /// What it is.
    pub shape: Shape,
}

/// An edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Index of the node that it leaves.
    pub from: usize,
    /// Index of the node that it enters.
    pub to: usize,
    /// Lines of text; may be empty.
    pub label: String,
    /// How it is drawn.
    pub line: Line,
}

/// The kinds of diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The states of a parser.
    Parser,
    /// The flow through a control.
    Control,
    /// The dependencies of tables.
    Tables,
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagram {
    /// What it shows.
    pub kind: Kind,
    /// The name of the parser or control; empty for tables.
    pub name: String,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Edges: at most one from one node to another.
    pub edges: Vec<Edge>,
}

/// Lines of the label of an edge after which the rest is counted.
const MAX_LABELS: usize = 6;

impl Diagram {
    fn new(kind: Kind, name: &str) -> Diagram {
        Diagram { kind, name: name.into(), nodes: Vec::new(), edges: Vec::new() }
    }

    /// Its title.
    pub fn title(&self) -> String {
        match self.kind {
            Kind::Parser => format!("parser {}", self.name),
            Kind::Control => format!("control {}", self.name),
            Kind::Tables => {
                "dependencies of tables: solid by match, dashed by action, dotted by control or order".into()
            }
        }
    }

    fn node(&mut self, label: impl Into<String>, shape: Shape) -> usize {
        self.nodes.push(Node { label: label.into(), shape });
        self.nodes.len() - 1
    }

    /// Adds an edge, or another line to the label of the edge that is there.
    fn edge(&mut self, from: usize, to: usize, label: &str, line: Line) {
        match self.edges.iter_mut().find(|e| e.from == from && e.to == to) {
            None => self.edges.push(Edge { from, to, label: label.into(), line }),
            Some(e) if label.is_empty() || e.label.is_empty() => {}
            Some(e) => {
                e.label.push('\n');
                e.label.push_str(label);
            }
        }
    }

    /// Shortens long labels.
    fn done(mut self) -> Diagram {
        for e in &mut self.edges {
            let lines: Vec<&str> = e.label.lines().collect();
            if lines.len() > MAX_LABELS {
                let kept = lines[..MAX_LABELS - 1].join("\n");
                e.label = format!("{kept}\n{} more", lines.len() - (MAX_LABELS - 1));
            }
        }
        self
    }
}
