//! What counters, registers and meters hold: cells of arrays, or of an entry.

use super::Runner;
use crate::command::{Condition, Index};
use crate::entries::{find_extern, parse_bits};
use crate::rig::RigError;
use pointsman_ir::Executor;

impl<E: Executor> Runner<'_, E> {
    /// `check`: bytes rather than packets? and the condition; without it the counter must exist.
    pub fn check_counter(
        &mut self,
        line: usize,
        (name, index): (&str, &Index),
        check: Option<&(bool, Condition)>,
    ) -> Result<(), RigError> {
        let cell = match index {
            Index::At(i) => {
                let id = find_extern(&self.program(), "counter", name)?;
                self.state().read_counter(id, *i)?
            }
            Index::Entry(entry) => {
                let (table, handle) = self.fill().attached("direct_counter", name, entry)?;
                self.state().direct_counter(table, Some(handle))?
            }
        };
        let Some((bytes, condition)) = check else { return Ok(()) };
        let (is, what) = if *bytes { (cell.bytes, "bytes") } else { (cell.packets, "packets") };
        let want = condition.value.parse::<u64>().map_err(|_| RigError::Comparison)?;
        if !condition.holds(is.cmp(&want)) {
            self.fail(line, format!("{name}({index}) counts {is} {what}, not {} {want}", condition.op));
        }
        Ok(())
    }

    pub fn check_register(
        &mut self,
        line: usize,
        (name, index): (&str, u64),
        check: Option<&Condition>,
    ) -> Result<(), RigError> {
        let is = self.rig.register(name, index)?;
        if let Some(condition) = check {
            let want = parse_bits(is.width(), &condition.value)?;
            if !condition.holds(is.cmp_unsigned(&want)) {
                let (is, want) = (is.to_biguint(), want.to_biguint());
                self.fail(line, format!("{name}({index}) holds {is:#x}, not {} {want:#x}", condition.op));
            }
        }
        Ok(())
    }

    /// It must exist.
    pub fn read_meter(&mut self, name: &str, index: &Index) -> Result<(), RigError> {
        match index {
            Index::At(i) => {
                let id = find_extern(&self.program(), "meter", name)?;
                self.state().read_meter(id, *i)?;
            }
            Index::Entry(entry) => {
                let (table, handle) = self.fill().attached("direct_meter", name, entry)?;
                self.state().direct_meter(table, Some(handle))?;
            }
        }
        Ok(())
    }

    pub fn check_session(&mut self, line: usize, number: u32) {
        if self.state().replication.session(number).is_none() {
            self.fail(line, format!("no clone session {number}"));
        }
    }
}
