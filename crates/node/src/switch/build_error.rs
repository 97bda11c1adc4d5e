//! Why a switch cannot be made.

use super::queues::QueueError;
use super::runtime::GeneratorError;
use pointsman_ports::PortError;
use pointsman_v1model::ConfigError;
use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};

/// Why a switch cannot be made.
#[derive(Debug)]
pub enum BuildError {
    /// Two interfaces have this port number.
    SamePort(u32),
    /// Two ports have this interface.
    SameInterface(String),
    /// The control plane has this port.
    CpuPort(u32),
    /// The folder for captures cannot be made.
    Captures(PathBuf, io::Error),
    /// It cannot have so many workers.
    Workers(usize, NoWorkers),
    /// A port cannot be opened.
    Port(PortError),
    /// The kernel does not let workers wait for packets.
    Wait(io::Error),
    /// The architecture refuses its settings.
    Switch(ConfigError),
    /// A setting of the traffic manager is wrong.
    Queues(QueueError),
    /// A packet generator is wrong.
    Generators(GeneratorError),
}

/// Why a switch cannot have so many workers.
#[derive(Debug)]
pub enum NoWorkers {
    /// It needs one.
    None,
    /// This machine has only so many processors.
    Processors(usize),
    /// It reads captures.
    Captured,
    /// It records packets.
    Recorded,
    /// This port is a tap.
    Tap(String),
    /// An interface has fewer queues.
    Queues {
        /// The interface.
        interface: String,
        /// Its queues.
        queues: usize,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::SamePort(number) => {
                write!(f, "port {number} is given to two interfaces: give each its own number")
            }
            BuildError::SameInterface(name) => {
                write!(f, "interface '{name}' is given to two ports: give each port its own")
            }
            BuildError::CpuPort(port) => {
                write!(f, "port {port} is the control plane port: choose another number, or --cpu-port")
            }
            BuildError::Captures(dir, e) => {
                write!(f, "cannot make {} for captures: {e}; give --pcap a directory", dir.display())
            }
            BuildError::Workers(workers, why) => {
                write!(f, "--workers {workers}: ")?;
                why.explain(*workers, f)
            }
            BuildError::Port(e) => e.fmt(f),
            BuildError::Wait(e) => write!(f, "cannot wait for packets: {e}"),
            BuildError::Switch(e) => e.fmt(f),
            BuildError::Queues(e) => e.fmt(f),
            BuildError::Generators(e) => e.fmt(f),
        }
    }
}

impl Error for BuildError {}

impl NoWorkers {
    fn explain(&self, workers: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoWorkers::None => f.write_str("at least 1 is needed"),
            NoWorkers::Processors(n) => {
                write!(f, "this machine has only {n} processors: give at most that many")
            }
            NoWorkers::Captured => {
                f.write_str("captures are read by one worker: omit --workers or --use-files")
            }
            NoWorkers::Recorded => {
                f.write_str("only one worker can record packets: omit --workers or --pcap")
            }
            NoWorkers::Tap(name) => {
                write!(f, "'{name}' is a tap, which has only one queue: omit --workers")
            }
            NoWorkers::Queues { interface, queues } => write!(
                f,
                "'{interface}' has {queues} receive queue(s) for AF_XDP, and each worker needs one: add queues \
                 (`ethtool -L {interface} combined {workers}`; for a veth pair at creation, `numrxqueues {workers} \
                 numtxqueues {workers}` at both ends), or use --port-kind af-packet"
            ),
        }
    }
}
