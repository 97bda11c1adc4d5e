//! Which blocks must not run at the same time when several workers process packets.
//!
//! P4_16 makes every call of an extern method atomic, and `@atomic` blocks as a whole (specification, "Concurrency
//! model"). Programs for v1model rely on more: on BMv2 a packet's reads and writes of registers in one block are not
//! interleaved with those of another packet. So a block that uses registers which packets write runs as one section:
//! registers that occur in one block share a lock, so that a block needs one lock only, and waiting for each other in a
//! circle is impossible. This includes `@atomic` blocks, and registers too wide to be read or written in one go.
//! Registers that packets only read need no lock, and neither do counters (each worker has its own) and meters (a call at
//! a time).

use crate::externs::Function;
use crate::usage::{Unit, usage};
use pointsman_ir::{ExternInstanceId, Program, TypeId};
use std::collections::BTreeSet;

/// The sections of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sections {
    /// How many locks there are.
    pub count: usize,
    blocks: Vec<(Unit, usize)>,
}

impl Sections {
    pub fn new(program: &Program, functions: &[Function], units: &[Unit]) -> Sections {
        let calls: Vec<_> = units.iter().map(|u| usage(program, *u, TypeId(u32::MAX)).methods).collect();
        let is = |f: pointsman_ir::ExternFnId, what| functions.get(f.index()) == Some(&what);
        let written: BTreeSet<ExternInstanceId> = calls
            .iter()
            .flatten()
            .filter(|(f, _)| is(*f, Function::RegisterWrite))
            .map(|(_, o)| *o)
            .collect();
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
        Sections { count: groups.len(), blocks }
    }

    /// The section that a block is.
    pub fn of(&self, unit: Unit) -> Option<usize> {
        self.blocks.iter().find(|(u, _)| *u == unit).map(|(_, n)| *n)
    }
}
