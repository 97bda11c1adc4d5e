//! Why an agent cannot run for a device of a rack.

use std::error::Error;
use std::fmt;

/// Why an agent cannot run for a device of a rack. Devices are named `server/device`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CannotRun {
    /// The rack does not have the server.
    Server {
        /// The server.
        name: String,
        /// The rack's servers.
        known: Vec<String>,
    },
    /// The server does not have the device.
    Device {
        /// The server.
        server: String,
        /// The device.
        name: String,
        /// The server's devices.
        known: Vec<String>,
    },
    /// The agent of another device reports for this one.
    OtherAgent {
        /// The device.
        device: String,
        /// The other one.
        other: String,
    },
    /// Reports need a key, and this file has none for the device.
    NoKey {
        /// The device.
        device: String,
        /// The file of keys.
        file: String,
    },
    /// The switch has no address of the device's family for reports.
    NoAddress {
        /// The device.
        device: String,
    },
}

impl fmt::Display for CannotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotRun::Server { name, known } => {
                write!(f, "no server `{name}` in the rack; there are: {}", known.join(", "))
            }
            CannotRun::Device { server, name, known } => {
                write!(f, "server `{server}` has no device `{name}`; there are: {}", known.join(", "))
            }
            CannotRun::OtherAgent { device, other } => {
                write!(f, "the agent of `{other}` reports for `{device}`: run that agent")
            }
            CannotRun::NoKey { device, file } => {
                write!(f, "no key for `{device}` in {file}: copy its lines from the controller's file")
            }
            CannotRun::NoAddress { device } => write!(
                f,
                "no address of the switch for reports of `{device}`: write one of its family in switch.gateways"
            ),
        }
    }
}

impl Error for CannotRun {}
