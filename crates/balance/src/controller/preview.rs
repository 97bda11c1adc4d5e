//! The changes that a configuration would make, without making them.

use super::{Controller, Phase, Status};
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
    pub(super) fn acceptable(&self, rack: &Rack) -> Result<(), String> {
        if rack.switch.program != self.rack.switch.program {
            Err("switch.program cannot change while connections are alive: restart the controller with it"
                .into())
        } else if !self.schema.has_store_of(rack) {
            Err("[switch.store] needs another program: to add or remove it, or to change between IPv4 and IPv6, restart the controller, which \
                 then gives the switch that program (this ends the connections that exist)"
                .into())
        } else if let Err(reason) = self.schema.suits(rack) {
            Err(format!(
                "{reason}: restart the controller, which then gives the switch the program for {} (this ends the connections that exist), \
                 or put the device into another server",
                ServerDevices::of(rack)
            ))
        } else if self.phase == Phase::Active {
            plan::conflict(&Situation { rack, ..self.situation() }, &self.have)
        } else {
            Ok(())
        }
    }

    /// The changes that a configuration would make.
    ///
    /// # Errors
    /// It would be rejected; the message says why.
    pub fn preview(&self, rack: &Rack) -> Result<Preview, String> {
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
