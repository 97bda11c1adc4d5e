//! Counters, registers and meters: cells of arrays, or of an entry.

use super::Runner;
use crate::command::{Condition, Index};
use crate::entries::{find_extern, parse_bits};
use crate::rig::RigError;
use pointsman_ir::Executor;
use pointsman_v1model::{CounterCell, MeterConfig};

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
                let (table, handle) = self.attached("direct_counter", name, entry)?;
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

    pub fn write_counter(&mut self, name: &str, index: &Index, cell: CounterCell) -> Result<(), RigError> {
        match index {
            Index::At(i) => {
                let id = find_extern(&self.program(), "counter", name)?;
                self.state().write_counter(id, *i, cell).map_err(RigError::from)
            }
            Index::Entry(entry) => {
                let (table, handle) = self.attached("direct_counter", name, entry)?;
                self.state().set_direct_counter(table, Some(handle), cell).map_err(RigError::from)
            }
        }
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

    pub fn reset_register(&mut self, name: &str) -> Result<(), RigError> {
        let id = find_extern(&self.program(), "register", name)?;
        let size = self.state().register(id).map_or(0, |r| r.len());
        (0..size).try_for_each(|i| self.rig.write_register(name, i, "0"))
    }

    /// It must exist.
    pub fn read_meter(&mut self, name: &str, index: &Index) -> Result<(), RigError> {
        match index {
            Index::At(i) => {
                let id = find_extern(&self.program(), "meter", name)?;
                self.state().read_meter(id, *i)?;
            }
            Index::Entry(entry) => {
                let (table, handle) = self.attached("direct_meter", name, entry)?;
                self.state().direct_meter(table, Some(handle))?;
            }
        }
        Ok(())
    }

    /// Without an index: all cells.
    pub fn set_meter(
        &mut self,
        name: &str,
        index: Option<&Index>,
        rates: &[(u64, u64)],
    ) -> Result<(), RigError> {
        let [(cir, cburst), (pir, pburst)] = rates[..] else { return Err(RigError::Rates) };
        let (now, config) = (self.rig.now, Some(MeterConfig { cir, cburst, pir, pburst }));
        if let Some(Index::Entry(entry)) = index {
            let (table, handle) = self.attached("direct_meter", name, entry)?;
            return self.state().set_direct_meter(now, table, Some(handle), config).map_err(RigError::from);
        }
        let id = find_extern(&self.program(), "meter", name)?;
        let size = self.state().meter(id).map_or(0, |m| m.len() as u64);
        let mut cells = match index {
            Some(Index::At(i)) => *i..i.saturating_add(1),
            _ => 0..size,
        };
        cells.try_for_each(|i| self.state().write_meter(now, id, i, config)).map_err(RigError::from)
    }
}
