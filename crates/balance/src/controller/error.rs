//! Why a controller cannot start, and why it refuses a configuration.

use crate::config::SettingsError;
use crate::plan::{Conflict, SchemaError};
use crate::program::ServerDevices;
use std::error::Error;
use std::fmt;

/// Why a controller cannot start with a rack and a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The program is not a balancer, or not one for the rack.
    Program(SchemaError),
    /// One of program and rack has a store, or they differ in how it is reached.
    Store,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Program(error @ SchemaError::Slot { .. }) => {
                write!(f, "{error}: compile it with -D SERVER_DEVICES=16")
            }
            StartError::Program(error) => error.fmt(f),
            StartError::Store => f.write_str(
                "a program compiled with -D BALANCER_STORE needs [switch.store], and the reverse; one with -D REDPLANE_IPV6 needs IPv6 \
                 addresses there",
            ),
        }
    }
}

impl Error for StartError {}

impl From<SchemaError> for StartError {
    fn from(error: SchemaError) -> Self {
        StartError::Program(error)
    }
}

/// Why a configuration cannot take the place of the present one without cutting connections. The present one stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// It names another program.
    Program,
    /// It adds or removes the store, or changes how the store is reached.
    Store,
    /// It needs the program for servers with more devices.
    Slots(SchemaError, ServerDevices),
    /// It gives numbers or ports to others while their connections may be alive.
    Conflict(Conflict),
    /// A service cannot have the settings.
    Settings(SettingsError),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Program => f.write_str(
                "switch.program cannot change while connections are alive: restart the controller with it",
            ),
            Rejection::Store => f.write_str(
                "[switch.store] needs another program: to add or remove it, or to change between IPv4 and IPv6, restart the controller, \
                 which then gives the switch that program (this ends the connections that exist)",
            ),
            Rejection::Slots(error, devices) => write!(
                f,
                "{error}: restart the controller, which then gives the switch the program for {devices} (this ends the connections that \
                 exist), or put the device into another server"
            ),
            Rejection::Conflict(conflict) => conflict.fmt(f),
            Rejection::Settings(error) => error.fmt(f),
        }
    }
}

impl Error for Rejection {}

impl From<Conflict> for Rejection {
    fn from(conflict: Conflict) -> Self {
        Rejection::Conflict(conflict)
    }
}

impl From<SettingsError> for Rejection {
    fn from(error: SettingsError) -> Self {
        Rejection::Settings(error)
    }
}
