//! Which tables and arrays depend on which.

use crate::words::short;
use crate::{Diagram, Kind, Line, Shape};
use pointsman_pisa::{Dependency, Graph, NodeKind};

/// The dependencies of a program's tables and arrays, direct ones and those through statements between them. Those that follow
/// from others are left out: a chain of others is at least as long.
pub fn tables(graph: &Graph) -> Diagram {
    let mut d = Diagram::new(Kind::Tables, "");
    let kept: Vec<usize> = (0..graph.nodes().len()).filter(|i| !passed(graph, *i)).collect();
    for i in &kept {
        let n = &graph.nodes()[*i];
        let shape = if n.kind == NodeKind::Table { Shape::Table } else { Shape::Array };
        d.node(short(&n.name), shape);
    }
    let links: Vec<Vec<Option<Link>>> = kept.iter().map(|a| through(graph, *a, &kept)).collect();
    let longest = longest(&links);
    for (a, row) in links.iter().enumerate() {
        for (b, link) in row.iter().enumerate() {
            let Some(link) = link else { continue };
            let implied = row.iter().enumerate().any(|(y, first)| {
                let chain = first.as_ref().zip(longest[y][b]).map(|(f, rest)| f.stages + rest);
                y != b && chain.is_some_and(|n| n >= link.stages)
            });
            if !implied {
                let line = match link.last {
                    Dependency::Match => Line::Solid,
                    Dependency::Action => Line::Dashed,
                    Dependency::Control | Dependency::Reverse => Line::Dotted,
                };
                d.edge(a, b, "", line);
            }
        }
    }
    d.done()
}

/// Statements are not shown, only what depends on what through them.
fn passed(graph: &Graph, node: usize) -> bool {
    graph.nodes()[node].kind == NodeKind::Actions
}

/// A dependency, perhaps through statements.
#[derive(Clone, Debug)]
struct Link {
    /// The least distance in stages.
    stages: u32,
    /// How the later node depends.
    last: Dependency,
}

/// What depends on node `a`, directly or through statements, by place in `kept`.
fn through(graph: &Graph, a: usize, kept: &[usize]) -> Vec<Option<Link>> {
    let mut found: Vec<Option<Link>> = vec![None; graph.nodes().len()];
    for from in graph.order() {
        let before = match &found[*from] {
            _ if *from == a => 0,
            Some(link) if passed(graph, *from) => link.stages,
            _ => continue,
        };
        for ((_, to), d) in graph.edges().range((*from, 0)..(*from + 1, 0)) {
            let stages = before + d.stages();
            let old = found[*to].as_ref().map(|l| (l.stages, l.last));
            if old.is_none_or(|old| old < (stages, *d)) {
                found[*to] = Some(Link { stages, last: *d });
            }
        }
    }
    kept.iter().map(|i| found[*i].take()).collect()
}

/// The stages from each node to each other one along the longest chain; `None`: no chain.
fn longest(links: &[Vec<Option<Link>>]) -> Vec<Vec<Option<u32>>> {
    let n = links.len();
    let mut out = vec![vec![None; n]; n];
    for (i, row) in out.iter_mut().enumerate() {
        row[i] = Some(0);
    }
    // No chain is longer than the number of nodes.
    for _ in 0..n {
        let mut changed = false;
        for a in 0..n {
            for (b, link) in links[a].iter().enumerate() {
                let Some(link) = link else { continue };
                let chains: Vec<Option<u32>> =
                    out[b].iter().map(|rest| rest.map(|r| r + link.stages)).collect();
                for (known, chain) in out[a].iter_mut().zip(chains) {
                    if chain > *known {
                        *known = chain;
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    out
}
