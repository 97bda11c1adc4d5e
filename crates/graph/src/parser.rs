//! Parsers: states and transitions.

use crate::words::{short, words};
use crate::{Diagram, Kind, Line, Shape};
use pointsman_frontend::ast::{self, DeclKind, ParserBody, Program, Transition};
use pointsman_frontend::source::SourceMap;

/// Statements of a state that are shown.
const MAX_LINES: usize = 4;

/// One diagram for each parser with states, in their order.
pub fn parsers(program: &Program, sources: &SourceMap) -> Vec<Diagram> {
    let found = program.decls.iter().filter_map(|d| match &d.kind {
        DeclKind::Parser(p) => p.body.as_ref().map(|b| (&p.name.name, b)),
        _ => None,
    });
    found.map(|(name, body)| parser(name, body, sources)).collect()
}

fn parser(name: &str, body: &ParserBody, sources: &SourceMap) -> Diagram {
    let mut d = Diagram::new(Kind::Parser, name);
    // `start` comes first.
    let mut states: Vec<&ast::StateDecl> = body.states.iter().collect();
    states.sort_by_key(|s| s.name.name != "start");
    for s in &states {
        d.node(state(s, sources), Shape::State);
    }
    let mut ends: Vec<(String, usize)> = Vec::new();
    let mut target = |d: &mut Diagram, name: &str| -> usize {
        if let Some(i) = states.iter().position(|s| s.name.name == name) {
            return i;
        }
        if let Some((_, i)) = ends.iter().find(|(n, _)| n == name) {
            return *i;
        }
        let i = d.node(name, Shape::Terminal);
        ends.push((name.to_string(), i));
        i
    };
    for (i, s) in states.iter().enumerate() {
        match &s.transition {
            None => {
                let to = target(&mut d, "reject");
                d.edge(i, to, "", Line::Solid);
            }
            Some(Transition::Direct(name)) => {
                let to = target(&mut d, &name.name);
                d.edge(i, to, "", Line::Solid);
            }
            Some(Transition::Select { cases, .. }) => {
                for c in cases {
                    let to = target(&mut d, &c.next.name);
                    let keys: Vec<String> = c.keys.iter().map(|k| words(sources, k.span)).collect();
                    d.edge(i, to, &short(&keys.join(", ")), Line::Solid);
                }
            }
        }
    }
    d.done()
}

/// A state: its name, the first statements, and what its transition selects by.
fn state(s: &ast::StateDecl, sources: &SourceMap) -> String {
    let mut out = s.name.name.clone();
    for stmt in s.body.iter().take(MAX_LINES) {
        out += &format!("\n{}", words(sources, stmt.span).trim_end_matches(';'));
    }
    if s.body.len() > MAX_LINES {
        out += &format!("\n{} more", s.body.len() - MAX_LINES);
    }
    if let Some(Transition::Select { on, .. }) = &s.transition {
        let all: Vec<String> = on.iter().map(|e| words(sources, e.span)).collect();
        out += &format!("\n{}", short(&format!("select({})", all.join(", "))));
    }
    out
}
