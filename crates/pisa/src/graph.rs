//! What has to be placed in stages, and in which order.

use std::collections::{BTreeMap, BTreeSet};

/// Why a node comes after another one (Jose et al., "Compiling Packet Programs to Reconfigurable Switches", NSDI 2015).
/// Weaker ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// The other one reads what this one changes: in the same stage or before.
    Reverse,
    /// The other one decides whether this one runs: in the same stage or later.
    Control,
    /// Both change a field, or this one's action reads what the other one's changes: in a later stage.
    Action,
    /// Key, index or condition contain what the other one changes: in a later stage.
    Match,
}

impl Dependency {
    /// The least distance in stages.
    pub fn stages(self) -> u32 {
        match self {
            Dependency::Reverse | Dependency::Control => 0,
            Dependency::Action | Dependency::Match => 1,
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Dependency::Reverse => "reverse",
            Dependency::Control => "control",
            Dependency::Action => "action",
            Dependency::Match => "match",
        }
    }
}

/// The kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// A table of the program.
    Table,
    /// A register array, counter array or meter array.
    Array,
    /// Statements outside of tables, or a later part of a table's actions.
    Actions,
}

/// How a table matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// Not at all: no key.
    #[default]
    None,
    /// Equality, in SRAM.
    Exact,
    /// Anything that needs TCAM.
    Ternary,
}

/// The kinds of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayKind {
    /// Read and written by the program.
    Register,
    /// Counts packets or bytes.
    Counter,
    /// Measures rates.
    Meter,
}

/// Cells in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its kind.
    pub kind: ArrayKind,
    /// Bits of a cell.
    pub bits: u64,
    /// Number of cells.
    pub cells: u64,
    /// Bits of the index that come from the packet header vector; 0 if it belongs to a table's entries.
    pub index_bits: u64,
}

/// The most entries of a table, members of an action profile and cells of an array that are counted.
pub const MOST_ENTRIES: u64 = 1 << 32;

/// What a node needs of any target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// How it matches.
    pub matching: Matching,
    /// Width of the key in bits, without ranges.
    pub key_bits: u64,
    /// Widths of those parts of the key that are ranges, in bits.
    pub ranges: Vec<u64>,
    /// Entries of the table.
    pub entries: u64,
    /// Action data of an entry: of the action that has most, in bits.
    pub action_bits: u64,
    /// Whether entries refer to action data in an action profile or selector instead; then its number of members.
    pub members: Option<u64>,
    /// Whether a selector chooses among members.
    pub selector: bool,
    /// Actions that do anything.
    pub actions: u64,
    /// Bits that conditions compare.
    pub condition_bits: u64,
    /// Bits that hashes read.
    pub hash_input_bits: u64,
    /// Bits that hashes return.
    pub hash_output_bits: u64,
    /// Arrays: its own if it is one, else those attached to a table's entries.
    pub arrays: Vec<Array>,
    /// Runs within actions of tables, so that it takes no logical table of its own.
    pub inside: bool,
}

impl Demand {
    /// Cuts entries, members and cells down to [`MOST_ENTRIES`] each. Returns the largest of the numbers above it.
    pub(crate) fn limit(&mut self) -> Option<u64> {
        let cells = self.arrays.iter_mut().map(|a| &mut a.cells);
        let numbers = [&mut self.entries].into_iter().chain(&mut self.members).chain(cells);
        let over = numbers.filter(|n| **n > MOST_ENTRIES).map(|n| std::mem::replace(n, MOST_ENTRIES));
        over.max()
    }
}

/// Something that runs in a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name: a table or an array as control planes call it, or the control and the line of statements.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
    /// What it needs.
    pub demand: Demand,
}

/// Nodes, and dependencies between them. Never has a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    /// From the first to the second; the strongest of each pair.
    edges: BTreeMap<(usize, usize), Dependency>,
    /// All nodes, each behind those that it depends on.
    order: Vec<usize>,
}

/// The names of nodes that depend on each other in a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle(pub Vec<String>);

impl Graph {
    /// A graph of these nodes and dependencies, which are indices of nodes. A node's dependency on itself is left out.
    ///
    /// # Errors
    /// Nodes depend on each other in a circle.
    pub fn new(nodes: Vec<Node>, mut edges: BTreeMap<(usize, usize), Dependency>) -> Result<Graph, Cycle> {
        edges.retain(|(a, b), _| a != b);
        let mut before = vec![0; nodes.len()];
        let mut after = vec![Vec::new(); nodes.len()];
        for (a, b) in edges.keys() {
            before[*b] += 1;
            after[*a].push(*b);
        }
        let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|i| before[*i] == 0).collect();
        let mut order = Vec::new();
        while let Some(i) = ready.pop_first() {
            order.push(i);
            for j in &after[i] {
                before[*j] -= 1;
                if before[*j] == 0 {
                    ready.insert(*j);
                }
            }
        }
        if order.len() < nodes.len() {
            let left = (0..nodes.len()).filter(|i| before[*i] > 0);
            return Err(Cycle(left.map(|i| nodes[i].name.clone()).collect()));
        }
        Ok(Graph { nodes, edges, order })
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The dependencies: from the first to the second.
    pub fn edges(&self) -> &BTreeMap<(usize, usize), Dependency> {
        &self.edges
    }

    /// All nodes, each behind those that it depends on.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The dependency of node `b` on node `a`, by name.
    pub fn dependency(&self, a: &str, b: &str) -> Option<Dependency> {
        let find = |name: &str| self.nodes.iter().position(|n| n.name == name);
        self.edges.get(&(find(a)?, find(b)?)).copied()
    }

    /// Stages of the longest chain of dependencies, each node in one stage.
    pub fn critical_path(&self) -> u32 {
        let mut stage = vec![0; self.nodes.len()];
        for i in &self.order {
            for ((_, b), d) in self.edges.range((*i, 0)..(*i + 1, 0)) {
                stage[*b] = stage[*b].max(stage[*i] + d.stages());
            }
        }
        stage.iter().max().map_or(0, |s| s + 1)
    }
}
