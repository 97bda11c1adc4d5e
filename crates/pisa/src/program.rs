//! From a program's operations to the graph of what is placed.

use crate::arch::{Arch, Memory};
use crate::cost::address_bits;
use crate::fold::{Folded, fold};
use crate::graph::{Array, ArrayKind, Demand, Dependency, Graph, MOST_ENTRIES, Matching, Node, NodeKind};
use crate::report::Violation;
use crate::target::Target;
use crate::walk::{Op, OpId, Walked, What, walk};
use pointsman_ir::{Const, ExternInstance, MatchKind, Program, Table, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// A program's graph, and what is known of its fields.
pub(crate) struct Analysed {
    pub graph: Graph,
    /// The node of each operation.
    pub node_of: Vec<usize>,
    pub walked: Walked,
    pub violations: Vec<Violation>,
}

/// What makes operations one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Table(TableId),
    Object(usize),
    /// Statements in these arms of branches (in actions of a table: that of the table), that have this many stages before them.
    Statements {
        arms: Vec<(u32, u32)>,
        site: Option<OpId>,
        level: u32,
    },
}

/// Chains of arrays that depend on each other are shorter.
const ROUNDS: u32 = 64;

/// Analyses a program of an architecture.
pub(crate) fn analyse(program: &Program, arch: &Arch, target: &Target) -> Analysed {
    let mut walked = walk(program, arch);
    let mut violations = std::mem::take(&mut walked.violations);
    let Folded { with, impossible, violations: more } = fold(program, &walked.ops, target);
    violations.extend(more);
    let twice = applied_twice(&walked.ops);
    violations.extend(twice.iter().map(|t| Violation {
        object: program.tables[t.index()].name.clone(),
        why: "a packet may look it up twice".into(),
    }));
    let apart = impossible.into_iter().map(Unit::Object).chain(twice.into_iter().map(Unit::Table)).collect();
    let (owners, node_of) = nodes(&walked.ops, &with, &apart);
    let mut edges: BTreeMap<(usize, usize), Dependency> = BTreeMap::new();
    for (i, op) in walked.ops.iter().enumerate() {
        for (other, dependency) in &op.deps {
            let edge = edges.entry((node_of[*other], node_of[i])).or_insert(*dependency);
            *edge = (*dependency).max(*edge);
        }
    }
    let mut first = vec![usize::MAX; owners.len()];
    node_of.iter().enumerate().rev().for_each(|(op, node)| first[*node] = op);
    let made = owners.iter().zip(&first).map(|(o, f)| node(program, arch, o, &walked.ops, *f));
    let mut built: Vec<Node> = made.collect();
    number(&mut built);
    for (i, op) in walked.ops.iter().enumerate() {
        add(&mut built[node_of[i]].demand, op);
    }
    finish(program, &walked.ops, &node_of, &mut built);
    for node in &mut built {
        let over = node.demand.limit();
        violations.extend(over.map(|n| Violation {
            object: node.name.clone(),
            why: format!("it has {n} entries, members or cells, and at most {MOST_ENTRIES} are counted"),
        }));
    }
    let several = |node: usize| accesses(&walked.ops, &node_of, node) > 1;
    let named = |node: usize| violations.iter().any(|v| v.object == built[node].name);
    for object in without_circles(&mut edges, &built, &first, several, named) {
        let why = "it would have to be both before and behind another table or array: its accesses are not in one stage";
        violations.push(Violation { object, why: why.into() });
    }
    let graph = Graph::new(built, edges).unwrap_or_default();
    Analysed { graph, node_of, walked, violations }
}

/// What is in one stage as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Table(TableId),
    Object(usize),
}

/// The unit of each operation: an array with all of its accesses and what its ALU computes between them; a table with those
/// operations of its actions that need no result of others there.
fn units(ops: &[Op], with: &BTreeMap<OpId, usize>) -> Vec<Option<Unit>> {
    let later = |i: OpId, op: &Op, site: OpId| {
        op.deps.iter().any(|(o, d)| *o != i && ops[*o].site == Some(site) && d.stages() > 0)
    };
    let unit = |(i, op): (OpId, &Op)| match (&op.what, with.get(&i), op.site) {
        (What::Table(t), ..) => Some(Unit::Table(*t)),
        (What::Access { object, .. }, ..) | (_, Some(object), _) => Some(Unit::Object(*object)),
        // The ALU at an array with a cell for each entry is part of the table.
        (_, None, Some(site)) if op.alu.is_some() || !later(i, op, site) => match ops[site].what {
            What::Table(t) => Some(Unit::Table(t)),
            _ => None,
        },
        _ => None,
    };
    ops.iter().enumerate().map(unit).collect()
}

/// The first stage that each operation may be in. `apart`: units that are impossible, whose operations count one by one.
fn levels(ops: &[Op], units: &[Option<Unit>], apart: &BTreeSet<Unit>) -> Vec<u32> {
    let mut known: BTreeMap<Unit, u32> = BTreeMap::new();
    let mut level: Vec<u32> = Vec::new();
    // Units that depend on each other in a circle would rise for ever; the last round takes operations one by one.
    for round in 0..=ROUNDS {
        level.clear();
        let mut rose = false;
        for (i, op) in ops.iter().enumerate() {
            let own = units[i].filter(|u| !apart.contains(u));
            let distance = |(o, d): (&OpId, &Dependency)| {
                level[*o] + if own.is_some() && units[*o] == own { 0 } else { d.stages() }
            };
            let least = op.deps.iter().map(distance).max().unwrap_or(0);
            level.push(match own.filter(|_| round < ROUNDS) {
                Some(unit) => {
                    let whole = known.entry(unit).or_insert(0);
                    rose |= least > *whole;
                    *whole = least.max(*whole);
                    *whole
                }
                None => least,
            });
        }
        if !rose {
            break;
        }
    }
    level
}

/// The owners of nodes, and the node of each operation. `with`: operations that are part of an access.
fn nodes(ops: &[Op], with: &BTreeMap<OpId, usize>, apart: &BTreeSet<Unit>) -> (Vec<Owner>, Vec<usize>) {
    let units = units(ops, with);
    let level = levels(ops, &units, apart);
    let mut known: BTreeMap<Owner, usize> = BTreeMap::new();
    let mut owners = Vec::new();
    let mut node_of = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        let arms = if op.site.is_some() { Vec::new() } else { op.arms.to_vec() };
        let owner = match units[i] {
            Some(Unit::Table(t)) => Owner::Table(t),
            Some(Unit::Object(object)) => Owner::Object(object),
            None => Owner::Statements { arms, site: op.site, level: level[i] },
        };
        let next = owners.len();
        let node = *known.entry(owner.clone()).or_insert(next);
        if node == next {
            owners.push(owner);
        }
        node_of.push(node);
    }
    (owners, node_of)
}

fn node(program: &Program, arch: &Arch, owner: &Owner, ops: &[Op], first: OpId) -> Node {
    let first = &ops[first];
    match owner {
        Owner::Table(id) => {
            let t = &program.tables[id.index()];
            Node { name: t.name.clone(), kind: NodeKind::Table, demand: table(program, arch, t) }
        }
        Owner::Object(object) => {
            let e = &program.externs[*object];
            let arrays = arch.memory(&e.object).and_then(|(m, size)| array(program, m, size, e));
            let demand = Demand { arrays: arrays.into_iter().collect(), inside: true, ..Demand::default() };
            Node { name: e.name.clone(), kind: NodeKind::Array, demand }
        }
        Owner::Statements { site: Some(site), .. } => {
            let name = match ops[*site].what {
                What::Table(t) => format!("{}'s actions", program.tables[t.index()].name),
                _ => first.control.to_string(),
            };
            Node { name, kind: NodeKind::Actions, demand: Demand::default() }
        }
        Owner::Statements { site: None, .. } => {
            let place = program.place(first.span);
            let line = place.as_ref().and_then(|p| p.rsplit_once(':')).map_or("?", |(_, line)| line);
            let name = format!("{}:{line}", first.control);
            Node { name, kind: NodeKind::Actions, demand: Demand::default() }
        }
    }
}

/// Makes the names of nodes differ: the second one of a name is `name (2)`.
fn number(nodes: &mut [Node]) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for node in nodes.iter_mut().filter(|n| n.kind == NodeKind::Actions) {
        let count = seen.entry(node.name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            node.name = format!("{} ({count})", node.name);
        }
    }
}

/// The memory of an extern object.
fn array(program: &Program, memory: Memory, size: &str, e: &ExternInstance) -> Option<Array> {
    let width = |i: usize| program.types.total_width(*e.type_args.get(i)?).map(u64::from);
    let (kind, bits) = match memory {
        Memory::Register => (ArrayKind::Register, width(0).unwrap_or(32)),
        // Packets and bytes.
        Memory::Counter => (ArrayKind::Counter, 64),
        // Rates, bursts and levels of two buckets.
        Memory::Meter => (ArrayKind::Meter, 128),
        Memory::Profile | Memory::Selector => return None,
    };
    let cells = argument(e, size).unwrap_or(1);
    Some(Array { kind, bits, cells, index_bits: 0 })
}

fn argument(e: &ExternInstance, name: &str) -> Option<u64> {
    e.args.iter().find(|(n, _)| n == name).and_then(|(_, c)| Const::as_u64(c))
}

/// The size of tables that name none, as in v1model.
const DEFAULT_SIZE: u64 = 1024;

fn table(program: &Program, arch: &Arch, t: &Table) -> Demand {
    let mut d = Demand::default();
    for key in &t.keys {
        let bits = u64::from(program.types.total_width(key.expr.ty).unwrap_or(0));
        match key.match_kind {
            MatchKind::Exact => {}
            MatchKind::Selector => {
                d.hash_input_bits += bits;
                continue;
            }
            MatchKind::Lpm | MatchKind::Ternary | MatchKind::Optional => d.matching = Matching::Ternary,
            MatchKind::Range => {
                d.matching = Matching::Ternary;
                d.ranges.push(bits);
                continue;
            }
        }
        d.key_bits += bits;
    }
    if d.matching == Matching::None && d.key_bits > 0 {
        d.matching = Matching::Exact;
    }
    if d.matching != Matching::None {
        let written = t.entries.len() as u64;
        let size = t.size.filter(|s| *s > 0).unwrap_or(DEFAULT_SIZE).max(written);
        d.entries = if t.const_entries { written.max(1) } else { size };
    }
    for listed in &t.actions {
        let frame = &program.actions[listed.action.index()].frame;
        let data = frame.params.iter().skip(listed.bound.len());
        let bits: u32 = data.filter_map(|p| program.types.total_width(p.ty)).sum();
        d.action_bits = d.action_bits.max(u64::from(bits));
    }
    for (_, object) in &t.extern_properties {
        let e = &program.externs[object.index()];
        match arch.memory(&e.object) {
            Some((memory @ (Memory::Profile | Memory::Selector), size)) => {
                d.members = Some(argument(e, size).filter(|s| *s > 0).unwrap_or(DEFAULT_SIZE));
                d.selector = memory == Memory::Selector;
                // The hash that chooses among members.
                d.hash_output_bits += if d.selector { address_bits(d.members.unwrap_or(1)) } else { 0 };
            }
            Some((memory, "")) => d.arrays.extend(array(program, memory, "", e)),
            _ => {}
        }
    }
    d
}

/// Adds an operation's part to what its node needs.
fn add(d: &mut Demand, op: &Op) {
    match &op.what {
        What::Hash { input, output } => {
            d.hash_input_bits += input;
            d.hash_output_bits += output;
        }
        What::Access { index_bits, .. } => {
            for a in &mut d.arrays {
                a.index_bits = a.index_bits.max(*index_bits);
            }
        }
        What::Table(_) | What::Alu => {}
    }
    // Conditions around a table, or around statements. Those inside of actions are part of them.
    if op.site.is_none() {
        d.condition_bits = d.condition_bits.max(op.condition_bits);
        d.inside = false;
    }
}

/// Counts the actions of each node: ways through it that exclude each other and do something.
fn finish(program: &Program, ops: &[Op], node_of: &[usize], nodes: &mut [Node]) {
    let mut ways: BTreeMap<usize, BTreeSet<Vec<(u32, u32)>>> = BTreeMap::new();
    for (i, op) in ops.iter().enumerate() {
        if !matches!(op.what, What::Table(_)) {
            ways.entry(node_of[i]).or_default().insert(op.arms.to_vec());
        }
    }
    for (i, node) in nodes.iter_mut().enumerate() {
        let found = ways.get(&i).map_or(0, |w| w.len() as u64);
        node.demand.actions = match node.kind {
            // Conditions inside of an action make no more of them.
            NodeKind::Table => {
                let table = program.tables.iter().find(|t| t.name == node.name);
                found.min(table.map_or(found, |t| t.actions.len() as u64))
            }
            NodeKind::Array => 1,
            NodeKind::Actions => found.max(1),
        };
        if node.kind != NodeKind::Actions {
            continue;
        }
        // A hash without an instruction.
        let only_hash =
            (0..ops.len()).filter(|o| node_of[*o] == i).all(|o| matches!(ops[o].what, What::Hash { .. }));
        node.demand.actions -= u64::from(only_hash && node.demand.actions > 0);
    }
}

/// Tables that a packet may look up twice.
fn applied_twice(ops: &[Op]) -> Vec<TableId> {
    let mut by_table: BTreeMap<TableId, Vec<&Op>> = BTreeMap::new();
    for op in ops {
        if let What::Table(t) = op.what {
            by_table.entry(t).or_default().push(op);
        }
    }
    let twice = |ops: &[&Op]| ops.iter().enumerate().any(|(i, a)| ops[..i].iter().any(|b| !a.excludes(b)));
    by_table.into_iter().filter(|(_, ops)| twice(ops)).map(|(t, _)| t).collect()
}

/// How many look-ups or accesses a node has: several are in different places of the program.
fn accesses(ops: &[Op], node_of: &[usize], node: usize) -> usize {
    let here = ops.iter().zip(node_of).filter(|(_, n)| **n == node);
    here.filter(|(op, _)| matches!(op.what, What::Table(_) | What::Access { .. })).count()
}

/// Breaks cycles by removing dependencies against the order of the program. Returns the tables and arrays in cycles
/// that need more than one stage, of those that the program has in several places.
fn without_circles(
    edges: &mut BTreeMap<(usize, usize), Dependency>,
    nodes: &[Node],
    first: &[usize],
    several: impl Fn(usize) -> bool,
    named: impl Fn(usize) -> bool,
) -> BTreeSet<String> {
    edges.retain(|(a, b), _| a != b);
    let part = parts(nodes.len(), edges);
    let mut found = BTreeSet::new();
    // A circle through an array that is reported already has its reason.
    let known: BTreeSet<usize> = (0..nodes.len()).filter(|i| named(*i)).map(|i| part[i]).collect();
    for ((a, b), d) in edges.iter() {
        if part[*a] == part[*b] && d.stages() > 0 && !known.contains(&part[*a]) {
            let objects = |i: &&usize| nodes[**i].kind != NodeKind::Actions && several(**i);
            found.extend([a, b].iter().filter(|i| objects(i)).map(|i| nodes[**i].name.clone()));
        }
    }
    edges.retain(|(a, b), _| part[*a] != part[*b] || first[*a] < first[*b]);
    found
}

/// Numbers of the strongly connected components, by node (Tarjan 1972, without recursion).
fn parts(n: usize, edges: &BTreeMap<(usize, usize), Dependency>) -> Vec<usize> {
    let next: Vec<Vec<usize>> =
        (0..n).map(|i| edges.range((i, 0)..(i + 1, 0)).map(|((_, b), _)| *b).collect()).collect();
    let (mut index, mut low, mut part) = (vec![usize::MAX; n], vec![0; n], vec![usize::MAX; n]);
    let (mut stack, mut count, mut found) = (Vec::new(), 0, 0);
    for root in 0..n {
        let mut work = vec![(root, 0)];
        while let Some((i, at)) = work.pop() {
            if at == 0 {
                if index[i] != usize::MAX {
                    continue;
                }
                (index[i], low[i]) = (count, count);
                count += 1;
                stack.push(i);
            } else {
                let child: usize = next[i][at - 1];
                if part[child] == usize::MAX {
                    low[i] = low[i].min(low[child]);
                }
            }
            match next[i].get(at) {
                Some(j) => {
                    work.push((i, at + 1));
                    if index[*j] == usize::MAX {
                        work.push((*j, 0));
                    }
                }
                None if low[i] == index[i] => {
                    while let Some(j) = stack.pop() {
                        part[j] = found;
                        if j == i {
                            break;
                        }
                    }
                    found += 1;
                }
                None => {}
            }
        }
    }
    part
}
