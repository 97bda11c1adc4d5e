//! Learners of accelerators' weights at work on a rack: one for each class of a service's servers.
//!
//! The learners themselves are `pointsman_decide`'s. [`Telemetry`] gives them what a switch's registers show, [`with_weights`] changes
//! a rack's weights, and [`Driver`] runs them together with a controller on the wire.

mod classes;
pub mod driver;
mod error;
mod remote;

pub use classes::{ClassWeights, ClassesError, ServiceWeights, of_classes};
pub use driver::{Clients, Decision, Driver, Standing, State};
pub use error::{ClientsError, DriverError};
pub use remote::{Telemetry, with_service_weights, with_weights, with_weights_of};
