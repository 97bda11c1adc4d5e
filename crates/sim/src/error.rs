//! Why a simulation cannot run.

use crate::control_plane::Told;
use pointsman_balance::agent::CannotRun;
use pointsman_decide::LearnerError;
use pointsman_fabric::{FillError, UnknownName};
use pointsman_v1model::ConfigError;
use std::fmt;

/// Why the simulation of a rack or a network cannot run.
#[derive(Debug)]
pub enum StartError {
    /// A switch cannot be made, or refuses a generator.
    Switch(ConfigError),
    /// A device cannot have an agent.
    Agent(CannotRun),
    /// A controller of a rack does not take the rack or the program.
    Controller(pointsman_balance::controller::StartError),
    /// The program lacks something that a learner reads.
    Telemetry(pointsman_balance::plan::SchemaError),
    /// A learner cannot be made.
    Learner(LearnerError),
    /// The controller of a network does not take the program.
    Fabric(FillError),
    /// The program lacks a counter of the scheme.
    Tally(UnknownName),
    /// This device of a server has no IPv4 address.
    NoAddress {
        /// The server.
        server: String,
        /// The device.
        device: String,
    },
    /// The rack is not ready in time.
    RackLate {
        /// Virtual time in seconds.
        limit_s: u64,
        /// Devices whose MAC addresses are unknown.
        missing: Vec<String>,
        /// The last messages of the controllers.
        told: Told,
    },
    /// The switches of a network do not hold their entries in time.
    NetworkLate {
        /// Virtual time in seconds.
        limit_s: u64,
        /// The last messages of the controller.
        told: Told,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Switch(e) => e.fmt(f),
            StartError::Agent(e) => e.fmt(f),
            StartError::Controller(e) => e.fmt(f),
            StartError::Telemetry(e) => e.fmt(f),
            StartError::Learner(e) => e.fmt(f),
            StartError::Fabric(e) => e.fmt(f),
            StartError::Tally(e) => e.fmt(f),
            StartError::NoAddress { server, device } => {
                write!(f, "device {server}/{device} has no IPv4 address: give it one")
            }
            StartError::RackLate { limit_s, missing, told } => write!(
                f,
                "the rack does not come up within {limit_s} s of virtual time; without a MAC address: {}; messages of the controller:{told}",
                missing.join(", ")
            ),
            StartError::NetworkLate { limit_s, told } => {
                write!(f, "the switches do not hold their entries within {limit_s} s of virtual time:{told}")
            }
        }
    }
}

impl std::error::Error for StartError {}

impl From<ConfigError> for StartError {
    fn from(e: ConfigError) -> Self {
        StartError::Switch(e)
    }
}

impl From<LearnerError> for StartError {
    fn from(e: LearnerError) -> Self {
        StartError::Learner(e)
    }
}
