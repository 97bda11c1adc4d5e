//! Why an agent cannot run.

use super::nvml::NvmlError;
use pointsman_ports::PortError;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::{fmt, io};

/// Why an agent cannot run.
#[derive(Debug)]
pub enum AgentError {
    /// The interface cannot be observed.
    Observe(PortError),
    /// This agent cannot send reports from this address.
    Socket(String, IpAddr, io::Error),
    /// The management library that this agent needs is missing.
    Library(String, NvmlError),
    /// The kernel refuses a thread.
    Thread(io::Error),
    /// The kernel does not let it wait.
    Wait(io::Error),
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentError::Observe(e) => e.fmt(f),
            AgentError::Socket(agent, from, e) => {
                write!(
                    f,
                    "{agent}: cannot send from {from}: {e}; run the agent on the host with that address"
                )
            }
            AgentError::Library(agent, e) => {
                write!(f, "{agent}: {e}; install the driver, or remove `nvml` from the agent's sources")
            }
            AgentError::Thread(e) => write!(f, "cannot start a thread: {e}"),
            AgentError::Wait(e) => write!(f, "cannot wait: {e}"),
        }
    }
}

impl Error for AgentError {}

/// Why a report is not sent.
#[derive(Debug)]
pub(super) enum Unsent {
    /// This interface, which carries the load, is down or removed.
    Down(String),
    /// The kernel refuses a datagram to this address.
    Datagram(SocketAddr, io::Error),
    /// This interface has no MAC address.
    NoMac(String),
    /// The interface refuses a frame.
    Frame(PortError),
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsent::Down(interface) => {
                write!(f, "no reports are sent while '{interface}' is down or removed")
            }
            Unsent::Datagram(to, e) => write!(f, "cannot send reports to {to}: {e}"),
            Unsent::NoMac(interface) => {
                write!(f, "{interface} has no MAC address to send reports from")
            }
            Unsent::Frame(e) => write!(f, "cannot send reports: {e}"),
        }
    }
}

impl Error for Unsent {}
