//! Nodes into stages: heuristics, lower bounds, and an exact search.

mod bound;
mod exact;
mod greedy;

use crate::cost::{Cost, cost, too_wide};
use crate::graph::Graph;
use crate::resource::{Amounts, Resource};
use crate::target::Target;

/// The steps that [`place`] takes at most to prove a placement best. A step looks at one node in one stage.
pub const BUDGET: u64 = 20_000_000;

/// The part of a node in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which node.
    pub node: usize,
    /// The stage, from 0.
    pub stage: u32,
    /// Units of its memory.
    pub units: u64,
}

/// Where everything is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// By stage, then in the order in which they were placed.
    pub parts: Vec<Part>,
    /// Stages that are used.
    pub used: u32,
}

/// How good a placement is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The best placement found.
    pub placement: Placement,
    /// Stages by the best of the heuristics.
    pub greedy: u32,
    /// No placement has fewer stages.
    pub lower_bound: u32,
    /// What the nodes take of each of these stages, together.
    pub per_stage: Vec<Amounts>,
    /// Nodes that no chip can hold. They were placed with what a stage has, and with words as wide as their entries.
    pub too_large: Vec<(usize, Excess)>,
}

/// What is too much of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// A part of it that cannot be divided takes more of this resource than a stage has.
    Stage(Resource, u64),
    /// It takes more stages than [`MOST_STAGES`](crate::MOST_STAGES).
    Stages(u64),
    /// An entry takes this many blocks of SRAM side by side, more than the [widest](crate::Sram::widest) word has.
    Word(u64),
}

/// Nodes with their costs, ready to be placed.
pub(crate) struct Problem {
    pub costs: Vec<Cost>,
    /// Of an empty stage.
    pub stage: Amounts,
    /// Nodes behind those that they depend on.
    pub order: Vec<usize>,
    /// By node: those that it depends on, and those that depend on it, with the least distance in stages.
    pub before: Vec<Vec<(usize, u32)>>,
    pub after: Vec<Vec<(usize, u32)>>,
    /// By node: the fewest stages that have parts of it.
    pub length: Vec<u32>,
    /// By node: the fewest stages before it, and behind its last one.
    pub head: Vec<u32>,
    pub tail: Vec<u32>,
}

impl Problem {
    pub fn new(graph: &Graph, target: &Target) -> (Problem, Vec<(usize, Excess)>) {
        let stage = target.per_stage;
        let mut too_large = Vec::new();
        let mut costs = Vec::new();
        for (i, node) in graph.nodes().iter().enumerate() {
            let (cost, over) = cost(node, target).limited(&stage);
            let wide = too_wide(&node.demand, target);
            too_large.extend(over.into_iter().chain(wide).map(|excess| (i, excess)));
            costs.push(cost);
        }
        let n = costs.len();
        let (mut before, mut after) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        for ((a, b), d) in graph.edges() {
            before[*b].push((*a, d.stages()));
            after[*a].push((*b, d.stages()));
        }
        let length: Vec<u32> = costs.iter().map(|c| c.stages(c.units, &stage)).collect();
        let order = graph.order().to_vec();
        let (mut head, mut tail) = (vec![0; n], vec![0; n]);
        for i in &order {
            for (j, d) in &after[*i] {
                head[*j] = head[*j].max(head[*i] + length[*i] - 1 + d);
            }
        }
        for i in order.iter().rev() {
            tail[*i] = after[*i].iter().map(|(j, d)| d + length[*j] - 1 + tail[*j]).max().unwrap_or(0);
        }
        (Problem { costs, stage, order, before, after, length, head, tail }, too_large)
    }

    /// What a placement takes of each stage.
    fn per_stage(&self, placement: &Placement) -> Vec<Amounts> {
        let mut all = vec![Amounts::default(); placement.used as usize];
        for part in &placement.parts {
            let stage = &mut all[part.stage as usize];
            *stage = stage.plus(&self.costs[part.node].of(part.units));
        }
        all
    }
}

/// Places a graph's nodes in as few of a target's stages as possible, and in more if it does not have enough.
pub fn place(graph: &Graph, target: &Target, budget: u64) -> Placed {
    let (problem, too_large) = Problem::new(graph, target);
    let greedy = greedy::best(&problem);
    let bound = bound::bound(&problem);
    let stages = greedy.used;
    let (placement, lower_bound) = exact::improve(&problem, greedy, bound, budget);
    let per_stage = problem.per_stage(&placement);
    Placed { placement, greedy: stages, lower_bound, per_stage, too_large }
}
