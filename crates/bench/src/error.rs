//! Why a program cannot be measured in memory.

use super::traffic::Step;
use pointsman_node::switch::queues::{QueueError, Setting};
use pointsman_stf::entries::TextError;
use pointsman_stf::{Failure, RigError, StfError};
use std::error::Error;
use std::fmt;
use std::net::Ipv4Addr;

/// Why a program cannot be measured in memory.
#[derive(Debug)]
pub enum ProgramError {
    /// The switch refuses the program or an entry.
    Rig(RigError),
    /// The program lacks a table that is to be filled.
    Text(TextError),
    /// A statement of the entries cannot be carried out.
    Statement(StfError),
    /// A statement of the entries does not come true.
    Failed(Box<Failure>),
    /// Not all connections find a place.
    Full {
        /// Connections with a place.
        opened: usize,
        /// Connections so far.
        tried: u32,
        /// Connections wanted.
        flows: usize,
    },
    /// A connection went to an address that no device has.
    NotDevice(Ipv4Addr),
    /// The program and the loop send different packets at this step.
    Differs {
        /// The step.
        step: Step,
        /// The program's packet, if any.
        sent: Option<Vec<u8>>,
        /// The loop's.
        wanted: Vec<u8>,
    },
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Rig(e) => e.fmt(f),
            ProgramError::Text(e) => e.fmt(f),
            ProgramError::Statement(e) => e.fmt(f),
            ProgramError::Failed(e) => e.fmt(f),
            ProgramError::Full { opened, tried, flows } => write!(
                f,
                "only {opened} of {tried} connections could be opened: the program's table is too small for --flows {flows}"
            ),
            ProgramError::NotDevice(to) => {
                write!(f, "a new connection went to {to}, which is not a device")
            }
            ProgramError::Differs { step, sent, wanted } => write!(
                f,
                "program and reference differ: output for {step:?}\n  {}\n  {}",
                sent.as_deref().map_or("nothing".to_string(), hex),
                hex(wanted)
            ),
        }
    }
}

impl Error for ProgramError {}

impl From<RigError> for ProgramError {
    fn from(e: RigError) -> Self {
        ProgramError::Rig(e)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Settings of --queue that cannot be measured.
#[derive(Debug)]
pub enum SettingError {
    /// The switch refuses them. The number of its ports.
    Refused(QueueError, u32),
    /// So set, the switch does not send a packet when the loop does.
    Holds(Vec<Setting>),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::Refused(QueueError::Port(port), ports) => write!(
                f,
                "--queue: port {port} does not exist: write one from 0 to {}, or `all` for every port",
                ports - 1
            ),
            SettingError::Refused(QueueError::Priority(priority), _) => {
                write!(
                    f,
                    "--queue: no queue of priority {priority}: a port has one queue here; omit the priority"
                )
            }
            SettingError::Refused(e, _) => write!(f, "--queue: {e}"),
            SettingError::Holds(settings) => {
                let settings: Vec<String> = settings.iter().map(Setting::to_string).collect();
                write!(
                    f,
                    "--queue {}: packets wait or are dropped, and each must be sent as soon as it arrives, to be compared \
                     with that of the plain loop: give rates above the load and no delay, such as all=100Gbit or \
                     all=1000000000",
                    settings.join(" --queue ")
                )
            }
        }
    }
}

impl Error for SettingError {}

/// Flags that do not fit each other or this machine.
#[derive(Debug)]
pub enum FlagError {
    /// No program is named.
    NoProgram,
    /// This flag is 0.
    Zero(&'static str),
    /// So many flows need more bytes than are available.
    Memory {
        /// Flows.
        flows: u64,
        /// Bytes for them.
        needed: u128,
        /// Bytes that they may take.
        most: u64,
        /// Flows that fit.
        fit: u64,
    },
    /// More flows than there can be.
    Flows(u64, u64),
    /// More workers than there can be.
    Workers(usize, u64),
    /// A file cannot be written.
    Write(pointsman_console::results::WriteError),
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = |bytes: f64| format!("{:.1} GiB", bytes / (1u64 << 30) as f64);
        match self {
            FlagError::NoProgram => {
                f.write_str("no program: give its main file, or `balancer` for the built-in one")
            }
            FlagError::Zero(flag) => write!(f, "{flag} 0: give at least 1"),
            FlagError::Memory { flows, needed, most, fit } => write!(
                f,
                "--flows {flows} needs about {} of memory, and this machine has {} available: choose at most {fit}",
                gib(*needed as f64),
                gib(*most as f64)
            ),
            FlagError::Flows(flows, most) => write!(f, "--flows {flows}: at most {most} are supported"),
            FlagError::Workers(workers, most) => {
                write!(f, "--workers {workers}: at most {most}, as each needs at least one flow; give fewer")
            }
            FlagError::Write(e) => e.fmt(f),
        }
    }
}

impl Error for FlagError {}
