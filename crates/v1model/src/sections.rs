//! Which parts of a program must not run at the same time when several workers process packets.
//!
//! P4_16 makes every call of an extern method atomic, and `@atomic` blocks as a whole (specification, "Concurrency
//! model"). In a program with such blocks, only these exclude each other.
//!
//! Programs without them rely on more: on BMv2 a packet's reads and writes of registers in one block are not
//! interleaved with those of another packet. So a block that uses registers which packets write runs as one section:
//! registers that occur in one block share a lock, so that a block needs one lock only, and a circular wait is
//! impossible. The same holds for all of a program with `@atomic` blocks if calls alone would not be atomic, since
//! cells are larger than a word, and if its parser uses such registers (parser states can be `@atomic`, too). Registers
//! that packets only read need no lock, and neither do counters (each worker has its own) and meters (one call at a
//! time).

use crate::externs::Function;
use crate::usage::{Unit, Usage, usage};
use pointsman_ir::{ExternInstanceId, Program, TypeId};
use std::collections::BTreeSet;

/// The sections of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sections {
    /// The number of locks.
    pub count: usize,
    /// It has `@atomic` blocks, which exclude each other, and no other sections.
    pub atomic: bool,
    blocks: Vec<(Unit, usize)>,
}

impl Sections {
    /// `is_word`: is a read or write of this register atomic by itself?
    pub fn new(
        program: &Program,
        functions: &[Function],
        units: &[Unit],
        is_word: impl Fn(ExternInstanceId) -> bool,
    ) -> Sections {
        let usages: Vec<_> = units.iter().map(|u| usage(program, *u, TypeId(u32::MAX))).collect();
        let calls: Vec<_> = usages.iter().map(|u| &u.methods).collect();
        let is = |f: pointsman_ir::ExternFnId, what| functions.get(f.index()) == Some(&what);
        let written: BTreeSet<ExternInstanceId> = calls
            .iter()
            .copied()
            .flatten()
            .filter(|(f, _)| is(*f, Function::RegisterWrite))
            .map(|(_, o)| *o)
            .collect();
        let says = |u: &Usage| u.externs.iter().any(|(f, _)| is(*f, Function::AtomicBegin));
        let in_parser = |(unit, calls): (&Unit, &&BTreeSet<(_, ExternInstanceId)>)| {
            matches!(unit, Unit::Parser(_)) && calls.iter().any(|(_, o)| written.contains(o))
        };
        if usages.iter().any(says)
            && written.iter().all(|r| is_word(*r))
            && !units.iter().zip(&calls).any(in_parser)
        {
            return Sections { count: 0, atomic: true, blocks: Vec::new() };
        }
        // Blocks that share a register share a lock, directly or through others.
        let mut groups: Vec<(BTreeSet<ExternInstanceId>, Vec<Unit>)> = Vec::new();
        for (unit, calls) in units.iter().zip(&calls) {
            let mut used: BTreeSet<_> =
                calls.iter().map(|(_, o)| *o).filter(|o| written.contains(o)).collect();
            if used.is_empty() {
                continue;
            }
            let mut members = vec![*unit];
            groups.retain_mut(|(registers, units)| {
                let apart = registers.is_disjoint(&used);
                if !apart {
                    used.append(registers);
                    members.append(units);
                }
                apart
            });
            groups.push((used, members));
        }
        let blocks = groups
            .iter()
            .enumerate()
            .flat_map(|(n, (_, units))| units.iter().map(move |u| (*u, n)))
            .collect();
        Sections { count: groups.len(), atomic: false, blocks }
    }

    /// The section that a block is.
    pub fn of(&self, unit: Unit) -> Option<usize> {
        self.blocks.iter().find(|(u, _)| *u == unit).map(|(_, n)| *n)
    }
}
