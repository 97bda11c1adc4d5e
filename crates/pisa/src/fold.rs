//! Several accesses of an array: one operation of its ALU, or impossible.
//!
//! A packet can access each array only once. A read and a write of the same cell are one operation if the ALU can compute everything
//! in between.

use crate::report::Violation;
use crate::target::Target;
use crate::walk::{Op, OpId, What};
use pointsman_ir::Program;
use std::collections::{BTreeMap, BTreeSet};

/// What accesses become.
pub(crate) struct Folded {
    /// Operations that an array's ALU carries out, with the array.
    pub with: BTreeMap<OpId, usize>,
    /// Arrays whose accesses cannot be one.
    pub impossible: BTreeSet<usize>,
    pub violations: Vec<Violation>,
}

/// Why accesses cannot be one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Index,
    Between,
    Programs,
    Steps,
    Width,
}

/// `file.p4:17` for an operation, also in a library, whose name is `<folder/file.p4>`.
fn line(program: &Program, op: &Op) -> String {
    let place = program.place(op.at).unwrap_or_else(|| op.control.to_string());
    let place = match place.strip_prefix('<') {
        Some(library) => library.replacen(">:", ":", 1),
        None => place,
    };
    place.rsplit('/').next().unwrap_or_default().to_string()
}

pub(crate) fn fold(program: &Program, ops: &[Op], target: &Target) -> Folded {
    let mut by_object: BTreeMap<usize, Vec<OpId>> = BTreeMap::new();
    for (i, op) in ops.iter().enumerate() {
        if let What::Access { object, .. } = op.what {
            by_object.entry(object).or_default().push(i);
        }
    }
    let violations = of_entries(program, ops, target);
    let mut folded = Folded { with: BTreeMap::new(), impossible: BTreeSet::new(), violations };
    for (object, accesses) in by_object {
        // One example of each reason.
        let mut reasons: BTreeMap<Reason, String> = BTreeMap::new();
        let mut inside: BTreeSet<OpId> = BTreeSet::new();
        for (n, b) in accesses.iter().enumerate() {
            for a in accesses[..n].iter().filter(|a| !ops[**a].excludes(&ops[*b])) {
                match pair(program, ops, *a, *b, target) {
                    Ok(between) => inside.extend(between),
                    Err((reason, why)) => {
                        reasons.entry(reason).or_insert(why);
                    }
                }
            }
        }
        for first in accesses.iter().copied().filter(|a| ops[*a].alu.is_some()) {
            inside.extend((first + 1..ops.len()).filter(|op| ops[*op].alu == Some(first)));
            if let Some(why) = too_long(program, ops, first, target) {
                reasons.entry(Reason::Steps).or_insert(why);
            }
        }
        folded.with.extend(inside.into_iter().map(|op| (op, object)));
        let name = &program.externs[object].name;
        let too_wide = program.externs[object].type_args.first().and_then(|t| program.types.total_width(*t));
        if let Some(bits) = too_wide.map(u64::from)
            && bits > target.arrays.widest_bits
        {
            let widest = target.arrays.widest_bits;
            let why = format!("its cells have {bits} bits, and the ALU at an array reads {widest}");
            reasons.insert(Reason::Width, why);
        }
        if !reasons.is_empty() {
            folded.impossible.insert(object);
        }
        let named = reasons.into_values().map(|why| Violation { object: name.clone(), why });
        folded.violations.extend(named);
    }
    folded
}

/// The programs that are too long, of ALUs at arrays with a cell for each entry of a table.
fn of_entries(program: &Program, ops: &[Op], target: &Target) -> Vec<Violation> {
    let of = |(first, op): (OpId, &Op)| {
        let What::Table(table) = ops[op.site.filter(|_| op.alu == Some(first))?].what else { return None };
        let why = too_long(program, ops, first, target).filter(|_| op.what == What::Alu)?;
        Some(Violation { object: program.tables[table.index()].name.clone(), why })
    };
    ops.iter().enumerate().filter_map(of).collect()
}

/// Why an ALU cannot run the program that begins with this access.
fn too_long(program: &Program, ops: &[Op], first: OpId, target: &Target) -> Option<String> {
    let mut depth: BTreeMap<OpId, u32> = BTreeMap::from([(first, 0)]);
    for (op, of) in ops.iter().enumerate().skip(first + 1).filter(|(_, of)| of.alu == Some(first)) {
        let before = of.deps.keys().filter_map(|d| depth.get(d)).max().copied().unwrap_or(0);
        depth.insert(op, before + 1);
    }
    let steps = depth.into_values().max().unwrap_or(0);
    let most = target.arrays.operations;
    let place = line(program, &ops[first]);
    (steps > most).then(|| {
        format!("{steps} operations one after the other in the program that {place} runs; its ALU has {most}")
    })
}

/// The operations between two accesses that their ALU has to carry out, or why they cannot be one.
fn pair(
    program: &Program,
    ops: &[Op],
    a: OpId,
    b: OpId,
    target: &Target,
) -> Result<BTreeSet<OpId>, (Reason, String)> {
    let (What::Access { index: i, .. }, What::Access { index: j, .. }) = (&ops[a].what, &ops[b].what) else {
        return Ok(BTreeSet::new());
    };
    let line = |op: OpId| line(program, &ops[op]);
    if ops[a].alu.or(ops[b].alu).is_some() {
        let why = format!("a packet may run two programs of its ALU: in {} and {}", line(a), line(b));
        return Err((Reason::Programs, why));
    }
    if i != j {
        let why =
            format!("a packet may access it twice, with different indices: {} and {}", line(a), line(b));
        return Err((Reason::Index, why));
    }
    // How many operations one after the other lead from the first access to each operation up to the second.
    let mut depth: BTreeMap<OpId, u32> = BTreeMap::from([(a, 0)]);
    for (op, of) in ops.iter().enumerate().take(b + 1).skip(a + 1) {
        let before = of.deps.keys().filter_map(|d| depth.get(d)).max();
        if let Some(before) = before.copied() {
            depth.insert(op, before + 1);
        }
    }
    // Of these, the ones that lead to the second.
    let mut needed = BTreeSet::from([b]);
    for op in (a + 1..b).rev() {
        let leads = needed.iter().any(|n: &OpId| ops[*n].deps.contains_key(&op));
        if leads && depth.contains_key(&op) {
            needed.insert(op);
        }
    }
    needed.remove(&b);
    if let Some(other) = needed.iter().find(|op| ops[**op].what != What::Alu) {
        let same = matches!((&ops[*other].what, &ops[a].what),
            (What::Access { object: x, .. }, What::Access { object: y, .. }) if x == y);
        if !same {
            let why = format!(
                "what is written in {} depends on what is read in {} by a table, a hash or another array ({})",
                line(b),
                line(a),
                line(*other)
            );
            return Err((Reason::Between, why));
        }
    }
    let steps = depth.get(&b).map_or(0, |d| d.saturating_sub(1));
    let most = target.arrays.operations;
    if steps > most {
        let why = format!(
            "{steps} operations one after the other between its accesses in {} and {}; its ALU has {most}",
            line(a),
            line(b)
        );
        return Err((Reason::Steps, why));
    }
    Ok(needed)
}
