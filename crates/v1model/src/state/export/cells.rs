//! Registers and counters as bytes. Most cells of a large array are zero: runs of them are counted, not written.
//!
//! For each array: zeros, and how many other cells follow, these cells, and so on to the end of the array. A cell has as many bytes as
//! its bits need, in network order.

use super::{Part, RestoreError};
use crate::coded::{Coded, Malformed, Reader};
use crate::state::{Cells, State};
use pointsman_ir::{Bits, CellArray, CellKind, ExternInstanceId};

/// Bytes of a cell of this width.
fn cell_bytes(width: u32) -> usize {
    width.div_ceil(8) as usize
}

/// An array of all workers together.
struct Array<'a> {
    cells: &'a Cells,
    id: ExternInstanceId,
    array: &'a CellArray,
}

impl Array<'_> {
    /// The low and the high half of a cell of up to 128 bits.
    fn words(&self, index: u64) -> Option<[u64; 2]> {
        match self.array.kind() {
            CellKind::Value => self.array.load_words(index),
            _ => self.cells.counts(self.id, index),
        }
    }

    fn is_zero(&self, index: u64) -> bool {
        match self.words(index) {
            Some(words) => words == [0, 0],
            None => self.array.get(index).is_none_or(|bits| bits.is_zero()),
        }
    }

    fn put_cell(&self, index: u64, out: &mut Vec<u8>) {
        let bytes = cell_bytes(self.array.width());
        match self.words(index) {
            Some([low, high]) => {
                let value = u128::from(high) << 64 | u128::from(low);
                out.extend(&value.to_be_bytes()[16 - bytes..]);
            }
            None => out.extend(self.array.get(index).map(|bits| bits.to_be_bytes()).unwrap_or_default()),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let len = self.array.len();
        let run = |from: u64, zero: bool| (from..len).take_while(|i| self.is_zero(*i) == zero).count() as u64;
        let mut at = 0;
        while at < len {
            let zeros = run(at, true);
            let others = run(at + zeros, false);
            (zeros, others).put(out);
            at += zeros;
            (at..at + others).for_each(|i| self.put_cell(i, out));
            at += others;
        }
    }
}

/// Sets a cell, which is zero, from its bytes.
fn take_cell(array: &CellArray, index: u64, bytes: &[u8]) -> bool {
    if array.width() > 128 {
        return array.set(index, &Bits::from_be_bytes(array.width(), bytes));
    }
    let value = bytes.iter().fold(0u128, |v, b| v << 8 | u128::from(*b));
    array.store_words(index, [value as u64, (value >> 64) as u64])
}

fn take_array(array: &CellArray, from: &mut Reader<'_>) -> Result<(), Malformed> {
    let bytes = cell_bytes(array.width());
    let mut at = 0u64;
    while at < array.len() {
        let (zeros, others) = <(u64, u64)>::take(from)?;
        let left = array.len() - at;
        let count = zeros.saturating_add(others);
        if count > left || count == 0 {
            return Err(Malformed::Impossible { count, bytes: count.saturating_mul(bytes as u64) });
        }
        at += zeros;
        for index in at..at + others {
            take_cell(array, index, from.bytes(bytes)?);
        }
        at += others;
    }
    Ok(())
}

impl State {
    pub(super) fn put_cells(&self, out: &mut Vec<u8>) {
        let arrays = self.cells.arrays.iter().enumerate().filter(|(_, array)| !array.is_empty());
        for (n, array) in arrays {
            Array { cells: &self.cells, id: ExternInstanceId(n as u32), array }.put(out);
        }
    }

    /// Sets the cells of a new state, which are all zero.
    pub(super) fn take_cells_from(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let mut from = Reader::new(bytes);
        let mut arrays = self.cells.arrays.iter().filter(|array| !array.is_empty());
        let done = arrays.try_for_each(|array| take_array(array, &mut from));
        done.map_err(|why| Part::Cells.malformed(why))?;
        if from.left() > 0 {
            return Err(Part::Cells.malformed(Malformed::Unknown("bytes at the end")));
        }
        Ok(())
    }
}
