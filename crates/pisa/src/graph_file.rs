//! Table graphs as TOML: programs of which only the tables and their dependencies are known.

use crate::graph::{Cycle, Demand, Dependency, Graph, MOST_ENTRIES, Matching, Node, NodeKind};
use pointsman_topology::reader::{At, ConfigErrors, Problems, Table};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A graph and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphFile {
    /// Its name in reports.
    pub name: String,
    /// The graph.
    pub graph: Graph,
}

const MOST_BITS: u64 = 1 << 16;

struct Kind(Matching);

impl FromStr for Kind {
    type Err = fmt::Error;
    fn from_str(s: &str) -> Result<Kind, fmt::Error> {
        Ok(Kind(match s {
            "none" => Matching::None,
            "exact" => Matching::Exact,
            "ternary" | "lpm" => Matching::Ternary,
            _ => return Err(fmt::Error),
        }))
    }
}

/// The lists of tables that a table depends on.
const AFTER: [(&str, Dependency); 4] = [
    ("match_after", Dependency::Match),
    ("action_after", Dependency::Action),
    ("control_after", Dependency::Control),
    ("reverse_after", Dependency::Reverse),
];

impl GraphFile {
    /// Reads a table graph; `file` is its name in messages.
    ///
    /// # Errors
    /// Everything that is wrong, with its place and remedy.
    pub fn read(file: &str, text: &str) -> Result<GraphFile, ConfigErrors> {
        let mut problems = Problems::new(file, text);
        let Some(document) = problems.parse() else { return problems.into_result(None) };
        let graph = graph(Table::top(&document), &mut problems);
        problems.into_result(graph)
    }
}

fn graph(mut t: Table<'_, '_>, p: &mut Problems<'_>) -> Option<GraphFile> {
    let name = t.name("name", "give the graph a name", p);
    let tables = t.tables("table", p);
    if tables.is_empty() {
        t.missing("table", "write at least one [[table]]", p);
    }
    let place = t.place_of("table");
    t.finish(p);
    let mut nodes = Vec::new();
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    let mut after: Vec<(usize, String, At<String>, Dependency)> = Vec::new();
    for mut table in tables {
        let field = table.field("name");
        let mut wanted = Vec::new();
        for (list, dependency) in AFTER {
            let names: Vec<At<String>> = table.list(list, "write a list of names", p).unwrap_or_default();
            wanted.extend(names.into_iter().map(|n| (table.field(list), n, dependency)));
        }
        let Some((name, node)) = node(table, p) else { continue };
        if by_name.insert(name.value.clone(), nodes.len()).is_some() {
            let message = format!("there is already a table `{}`: choose another name", name.value);
            p.add(&name.place, field, message);
        }
        after.extend(wanted.into_iter().map(|(field, n, d)| (nodes.len(), field, n, d)));
        nodes.push(node);
    }
    let mut edges: BTreeMap<(usize, usize), Dependency> = BTreeMap::new();
    for (to, field, name, dependency) in after {
        match by_name.get(&name.value) {
            Some(from) if *from == to => {
                p.add(&name.place, field, "a table cannot depend on itself: remove this")
            }
            Some(from) => {
                let edge = edges.entry((*from, to)).or_insert(dependency);
                *edge = dependency.max(*edge);
            }
            None => p.add(&name.place, field, format!("unknown table `{}`: correct the name", name.value)),
        }
    }
    let found = Graph::new(nodes, edges).map_err(|Cycle(names)| {
        let message = format!("these depend on each other in a circle: {}", names.join(", "));
        p.add(&place, "table", message);
    });
    Some(GraphFile { name: name?.value, graph: found.ok()? })
}

fn node(mut t: Table<'_, '_>, p: &mut Problems<'_>) -> Option<(At<String>, Node)> {
    let name = t.name("name", "give the table a name", p);
    let before = p.count();
    let kind: Option<At<Kind>> = t.text("match", "write none, exact, lpm or ternary", p);
    if kind.is_none() && p.count() == before {
        t.missing("match", "write none, exact, lpm or ternary", p);
    }
    let matching = kind.map(|k| k.value.0);
    let keyed = matching != Some(Matching::None);
    let mut number = |name: &'static str, most: u64, default: Option<u64>, p: &mut Problems<'_>| {
        let before = p.count();
        let found = t.integer(name, u64::from(default.is_none()), most, p).map(|at| at.value);
        if found.is_none() && default.is_none() && p.count() == before {
            t.missing(name, "write a whole number", p);
        }
        found.or(default)
    };
    let key_bits = number("key_bits", MOST_BITS, if keyed { None } else { Some(0) }, p);
    let entries = number("entries", MOST_ENTRIES, if keyed { None } else { Some(0) }, p);
    let action_bits = number("action_bits", MOST_BITS, Some(0), p);
    let actions = number("actions", MOST_BITS, Some(1), p);
    let condition_bits = number("condition_bits", MOST_BITS, Some(0), p);
    t.finish(p);
    let demand = Demand {
        matching: matching?,
        key_bits: key_bits?,
        entries: entries?,
        action_bits: action_bits?,
        actions: actions?,
        condition_bits: condition_bits?,
        ..Demand::default()
    };
    let name = name?;
    Some((name.clone(), Node { name: name.value, kind: NodeKind::Table, demand }))
}
