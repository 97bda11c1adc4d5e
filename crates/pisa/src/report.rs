//! Reports: text for people, JSON for programs.

use crate::arch::Arch;
use crate::graph::{Graph, NodeKind};
use crate::phv::{PhvUse, phv};
use crate::place::{Excess, Placed, place};
use crate::program::analyse;
use crate::resource::{Amounts, Resource};
use crate::target::Target;
use pointsman_ir::Program;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Something that the target cannot do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The table, array or control.
    pub object: String,
    /// The reason.
    pub why: String,
}

/// A node in a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InStage {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
}

/// What a program takes of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The program.
    pub program: String,
    /// The target.
    pub target: Target,
    /// Stages of the longest chain of dependencies, each node in one stage.
    pub critical_path: u32,
    /// No placement has fewer stages.
    pub lower_bound: u32,
    /// Stages by the best of the heuristics.
    pub greedy: u32,
    /// Words for headers and metadata; nothing for a table graph.
    pub phv: PhvUse,
    /// What is taken of each used stage.
    pub per_stage: Vec<Amounts>,
    /// What is in each used stage.
    pub nodes: Vec<Vec<InStage>>,
    /// Why it does not fit. Empty if it does.
    pub violations: Vec<Violation>,
}

/// What a program of an architecture takes of a target. `budget`: see [`place`].
pub fn resources(name: &str, program: &Program, arch: &Arch, target: &Target, budget: u64) -> Report {
    let analysed = analyse(program, arch, target);
    let placed = place(&analysed.graph, target, budget);
    let mut stages = vec![(u32::MAX, 0); analysed.graph.nodes().len()];
    for part in &placed.placement.parts {
        let (first, last) = &mut stages[part.node];
        *first = (*first).min(part.stage);
        *last = (*last).max(part.stage);
    }
    let phv = phv(&analysed, &stages, placed.placement.used, target);
    report(name, &analysed.graph, placed, phv, analysed.violations, target)
}

/// Gives a table of a program another number of entries. `name` is its name, or the end of it behind a dot. False, and nothing changes: no
/// table, or more than one, has this name.
pub fn resize(program: &mut Program, name: &str, entries: u64) -> bool {
    let ends = format!(".{name}");
    let mut named = program.tables.iter_mut().filter(|t| t.name == name || t.name.ends_with(&ends));
    match (named.next(), named.next()) {
        (Some(table), None) => {
            table.size = Some(entries);
            true
        }
        _ => false,
    }
}

/// What a table graph takes of a target.
pub fn resources_of_graph(name: &str, graph: &Graph, target: &Target, budget: u64) -> Report {
    report(name, graph, place(graph, target, budget), PhvUse::default(), Vec::new(), target)
}

/// The graph of a program of an architecture. Which accesses of arrays are folded depends on the target.
pub fn graph_of(program: &Program, arch: &Arch, target: &Target) -> Graph {
    analyse(program, arch, target).graph
}

fn report(
    name: &str,
    graph: &Graph,
    placed: Placed,
    phv: PhvUse,
    mut violations: Vec<Violation>,
    target: &Target,
) -> Report {
    for (node, excess) in &placed.too_large {
        let why = match *excess {
            Excess::Stage(r, needed) => {
                let (has, name) = (target.per_stage[r], r.name().replace('_', " "));
                let unit = if r.unit() == name { String::new() } else { format!("{} of ", r.unit()) };
                format!("it takes {needed} {unit}{name}, and a stage has {has}")
            }
            Excess::Stages(needed) => {
                format!("it takes {needed} stages, and {} has {}", target.name, target.stages)
            }
            Excess::Word(blocks) => {
                let (name, widest) = (&target.name, target.sram.widest);
                format!(
                    "an entry takes {blocks} blocks of sram side by side, and {name} has words of at most {widest}"
                )
            }
        };
        violations.push(Violation { object: graph.nodes()[*node].name.clone(), why });
    }
    let used = placed.placement.used;
    if used > target.stages {
        let why = format!("it takes {used} stages, and {} has {}", target.name, target.stages);
        violations.push(Violation { object: name.into(), why });
    }
    if phv.missing > 0 {
        let why = format!("no words are left for {} bits of headers and metadata", phv.missing);
        violations.push(Violation { object: name.into(), why });
    }
    violations.sort();
    violations.dedup();
    let mut nodes = vec![Vec::new(); used as usize];
    for part in &placed.placement.parts {
        let node = &graph.nodes()[part.node];
        nodes[part.stage as usize].push(InStage { name: node.name.clone(), kind: node.kind });
    }
    Report {
        program: name.into(),
        target: target.clone(),
        critical_path: graph.critical_path(),
        lower_bound: placed.lower_bound,
        greedy: placed.greedy,
        phv,
        per_stage: placed.per_stage,
        nodes,
        violations,
    }
}

/// With two digits behind the point.
fn percent(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { (part / whole * 10_000.0).round() / 100.0 }
}

impl Report {
    /// Whether the target can run the program.
    pub fn fits(&self) -> bool {
        self.violations.is_empty()
    }

    /// Stages that are used.
    pub fn used(&self) -> u32 {
        self.per_stage.len() as u32
    }

    /// Each counted resource, with what is used and what the target has.
    pub fn totals(&self) -> Vec<(Resource, u64, u64)> {
        let counted = Resource::ALL.into_iter().filter(|r| self.target.counts(*r));
        let total = |r: Resource| self.per_stage.iter().map(|s| s[r]).sum();
        counted.map(|r| (r, total(r), self.target.total(r))).collect()
    }

    /// One JSON object. Its fields are a contract; docs/resources.md describes them.
    pub fn json(&self) -> Value {
        let mut resources = Map::new();
        for (r, used, available) in self.totals() {
            let value = json!({ "used": used, "available": available, "percent": percent(used as f64, available as f64) });
            resources.insert(r.name().into(), value);
        }
        let stage = |(i, (amounts, nodes)): (usize, (&Amounts, &Vec<InStage>))| {
            let mut stage = Map::new();
            stage.insert("stage".into(), json!(i));
            stage.insert("tables".into(), nodes.iter().map(|n| n.name.clone()).collect());
            for (r, ..) in self.totals() {
                stage.insert(r.name().into(), json!(amounts[r]));
            }
            Value::Object(stage)
        };
        let per_stage: Vec<Value> = self.per_stage.iter().zip(&self.nodes).enumerate().map(stage).collect();
        let [w8, w16, w32] = self.phv.words;
        let violations: Vec<Value> =
            self.violations.iter().map(|v| json!({ "object": v.object, "why": v.why })).collect();
        json!({
            "program": self.program,
            "target": self.target.name,
            "fits": self.fits(),
            "stages": {
                "used": self.used(),
                "available": self.target.stages,
                "critical_path": self.critical_path,
                "lower_bound": self.lower_bound,
            },
            "phv": {
                "words": { "8": w8, "16": w16, "32": w32 },
                "percent": percent(self.phv.bits as f64, self.phv.available as f64),
            },
            "resources": resources,
            "per_stage": per_stage,
            "violations": violations,
        })
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let verdict = if self.fits() { "fits" } else { "does not fit" };
        let _ = writeln!(out, "{} on {}: {verdict}", self.program, self.target.name);
        let proved = if self.lower_bound == self.used() { "" } else { " (fewer may be possible)" };
        let _ = writeln!(
            out,
            "stages: {} of {}{proved}; longest chain {}, lower bound {}, by heuristics {}",
            self.used(),
            self.target.stages,
            self.critical_path,
            self.lower_bound,
            self.greedy,
        );
        let [w8, w16, w32] = self.phv.words;
        let _ = writeln!(
            out,
            "packet header vector: {w8} words of 8 bits, {w16} of 16, {w32} of 32: {:.1} %",
            self.phv.percent()
        );
        let _ = writeln!(
            out,
            "\n{:<18} {:>8} {:>9} {:>8}  most in a stage",
            "resource", "used", "available", "percent"
        );
        for (r, used, available) in self.totals() {
            let most = self.per_stage.iter().map(|s| s[r]).max().unwrap_or(0);
            let share = percent(used as f64, available as f64);
            let _ = writeln!(
                out,
                "{:<18} {used:>8} {available:>9} {share:>8.1}  {most} of {} {}",
                r.name(),
                self.target.per_stage[r],
                r.unit(),
            );
        }
        out.push('\n');
        for (i, nodes) in self.nodes.iter().enumerate() {
            let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
            let _ = writeln!(out, "stage {i}: {}", names.join(", "));
        }
        if !self.violations.is_empty() {
            out.push_str("\nwhy it does not fit:\n");
        }
        for v in &self.violations {
            let _ = writeln!(out, "  {}: {}", v.object, v.why);
        }
        out
    }
}
