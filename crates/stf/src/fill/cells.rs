//! Counters, registers and meters: cells of arrays, or of an entry.

use super::Fill;
use crate::command::Index;
use crate::entries::{find_extern, parse_bits};
use crate::rig::RigError;
use pointsman_v1model::{CounterCell, MeterConfig};

impl Fill<'_> {
    pub fn write_counter(&mut self, name: &str, index: &Index, cell: CounterCell) -> Result<(), RigError> {
        match index {
            Index::At(i) => {
                let id = find_extern(&self.program, "counter", name)?;
                self.state.write_counter(id, *i, cell).map_err(RigError::from)
            }
            of => {
                let (table, handle) = self.attached("direct_counter", name, of)?;
                self.state.set_direct_counter(table, handle, cell).map_err(RigError::from)
            }
        }
    }

    pub fn write_register(&mut self, name: &str, index: u64, value: &str) -> Result<(), RigError> {
        let id = find_extern(&self.program, "register", name)?;
        let at = format!("{name}[{index}]");
        let width = self.state.read_register(id, index).map_err(RigError::of(&at))?.width();
        let value = parse_bits(width, value)?;
        self.state.write_register(id, index, &value).map_err(RigError::of(&at))
    }

    pub fn reset_register(&mut self, name: &str) -> Result<(), RigError> {
        let id = find_extern(&self.program, "register", name)?;
        let size = self.state.register(id).map_or(0, |r| r.len());
        (0..size).try_for_each(|i| self.write_register(name, i, "0"))
    }

    /// Without an index: all cells.
    pub fn set_meter(
        &mut self,
        name: &str,
        index: Option<&Index>,
        rates: &[(u64, u64)],
    ) -> Result<(), RigError> {
        let [(cir, cburst), (pir, pburst)] = rates[..] else { return Err(RigError::Rates) };
        let (now, config) = (self.now, Some(MeterConfig { cir, cburst, pir, pburst }));
        if let Some(of @ (Index::Entry(_) | Index::Default)) = index {
            let (table, handle) = self.attached("direct_meter", name, of)?;
            return self.state.set_direct_meter(now, table, handle, config).map_err(RigError::from);
        }
        let id = find_extern(&self.program, "meter", name)?;
        let size = self.state.meter(id).map_or(0, |m| m.len() as u64);
        let mut cells = match index {
            Some(Index::At(i)) => *i..i.saturating_add(1),
            _ => 0..size,
        };
        cells.try_for_each(|i| self.state.write_meter(now, id, i, config)).map_err(RigError::from)
    }
}
