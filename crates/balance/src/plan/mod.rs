//! From configuration and circumstances to table entries: pure functions.
//!
//! All numbers that the controller chooses (services, epochs, rings, slots) are read back from the switch's own tables, so
//! no other memory is needed, and a restarted controller continues where the last one stopped.

mod conflicts;
mod desired;
mod entries;
mod generation;
pub(crate) mod schema;
mod service;
mod share;
mod steps;
#[cfg(test)]
pub(crate) mod tests;

pub use conflicts::{Conflict, conflict};
pub use desired::{Neighbours, Plan, Situation, desired, device_mac, policy_number};
pub use entries::{Action, BlockNumbers, Change, Entries, Epoch, Key, Update};
pub use generation::{Generation, Pool};
pub use schema::{Schema, SchemaError};
pub use share::{MAX_RING, apportion, assign_slots, ring};
pub use steps::steps;
