//! The changes that a configuration would make, without making them.

use super::{Controller, Phase, Rejection, Status};
use crate::config::Rack;
use crate::plan::{self, Situation, Update};
use crate::program::ServerDevices;
use pointsman_control::proto::p4rt;

/// The writes that would bring the switch from its entries to those of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// In steps: one is complete before the next begins.
    pub steps: Vec<Vec<Update>>,
    /// Differences between the result and the configuration.
    pub notes: Vec<String>,
    /// The controller's state. Unless it is in charge, the switch may hold something else.
    pub status: Status,
}

impl Controller {
    /// Whether this configuration can take the place of the present one without cutting connections.
    pub(super) fn acceptable(&self, rack: &Rack) -> Result<(), Rejection> {
        if rack.switch.program != self.rack.switch.program {
            return Err(Rejection::Program);
        }
        if !self.schema.has_store_of(rack) {
            return Err(Rejection::Store);
        }
        self.schema.suits(rack).map_err(|e| Rejection::Slots(e, ServerDevices::of(rack)))?;
        if self.phase == Phase::Active {
            plan::conflict(&Situation { rack, ..self.situation() }, &self.have)?;
        }
        Ok(())
    }

    /// The changes that a configuration would make.
    ///
    /// # Errors
    /// It would be rejected.
    pub fn preview(&self, rack: &Rack) -> Result<Preview, Rejection> {
        self.acceptable(rack)?;
        let wanted = plan::desired(&Situation { rack, ..self.situation() }, &self.have);
        let steps = plan::steps(&self.have, &wanted.entries);
        Ok(Preview { steps, notes: wanted.notes, status: self.status() })
    }

    /// The P4Runtime request that makes these changes.
    pub fn write_request(&self, updates: &[Update]) -> p4rt::WriteRequest {
        self.session.write_request(updates.iter().map(|u| self.message(u)).collect())
    }
}
