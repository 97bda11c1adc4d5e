//! Registers and counters of a running switch, read without holding it up.

use super::{Cells, State};
use crate::counter::{CounterCell, CounterKind};
use pointsman_ir::{Bits, CellKind, ExternInstanceId, Program};
use std::sync::Arc;

/// The registers and counters of a [`State`]: the same memory, which packets continue to change. Cells read one after
/// the other need not belong to the same moment, nor do the words of a cell of more than 64 bits, or the packets and
/// bytes of a counter. After another program was set it still shows the memory of the old one.
pub struct Watch {
    program: Arc<Program>,
    cells: Cells,
}

impl State {
    /// The registers and counters, for another thread.
    pub fn watch(&self) -> Watch {
        Watch { program: self.program.clone(), cells: self.cells.same() }
    }
}

impl Watch {
    /// The program that they belong to.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Number of cells of a register or counter array; 0 if the array does not exist.
    pub fn len(&self, id: ExternInstanceId) -> u64 {
        self.cells.get(id).map_or(0, |c| c.len())
    }

    /// Reads a cell of a register array. None if the cell does not exist.
    pub fn register(&self, id: ExternInstanceId, index: u64) -> Option<Bits> {
        self.cells.get(id).filter(|c| c.kind() == CellKind::Value)?.get(index)
    }

    /// Reads a counter, of all workers together. None if the counter does not exist.
    pub fn counter(&self, id: ExternInstanceId, index: u64) -> Option<CounterCell> {
        let kind = match self.cells.get(id)?.kind() {
            CellKind::Value => return None,
            CellKind::Packets => CounterKind::Packets,
            CellKind::Bytes => CounterKind::Bytes,
            CellKind::PacketsAndBytes => CounterKind::PacketsAndBytes,
        };
        Some(CounterCell::from_words(kind, self.cells.counts(id, index)?))
    }
}
