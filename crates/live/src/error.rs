//! Why a rack or a network cannot run on this machine.

use pointsman_balance::ConfigErrors;
use pointsman_balance::agent::CannotRun;
use pointsman_balance::config::SettingsError;
use pointsman_balance::controller::StartError;
use pointsman_fabric::FillError;
use pointsman_node::agent::AgentError;
use pointsman_node::controller::{OpenError, ProgramError};
use pointsman_node::rack_file::RackError;
use pointsman_node::switch::BuildError;
use pointsman_node::switch::runtime::RunError;
use std::fmt;
use std::io;
use std::time::Duration;

/// Why a rack or a network cannot run on this machine, or a part of it not do what was asked.
#[derive(Debug)]
pub enum Error {
    /// The lab refuses namespaces, cables or devices.
    Lab(pointsman_lab::Error),
    /// The rack's file is wrong.
    Config(ConfigErrors),
    /// There are no keys.
    Keys(RackError),
    /// The program is wrong.
    Program(ProgramError),
    /// A switch cannot be made.
    Build(BuildError),
    /// A switch ended by itself.
    Run(RunError),
    /// An agent cannot run.
    Agent(AgentError),
    /// The controller cannot open its files.
    Open(OpenError),
    /// The controllers of a network do not take the program.
    Fabric(FillError),
    /// The controller does not take the rack or the program.
    Controller(StartError),
    /// A device cannot have an agent.
    NoAgent(CannotRun),
    /// A service cannot have the settings.
    Settings(SettingsError),
    /// This is not the name of a device.
    NoDevice(String),
    /// The asynchronous runtime cannot start.
    Start(io::Error),
    /// Nothing can listen for this.
    Listen(String, io::Error),
    /// This part does not run.
    NotRunning(&'static str),
    /// This part has stopped.
    Stopped(&'static str),
    /// This part panicked.
    Panicked(String),
    /// The one switch, or one of several, does not hold its entries after this time.
    Late(Duration, Late),
}

/// Who is late.
#[derive(Clone, Copy, Debug)]
pub enum Late {
    /// A rack's switch.
    Switch,
    /// Devices' reports.
    Reports,
    /// A network's switches.
    Switches,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Lab(e) => e.fmt(f),
            Error::Config(e) => e.fmt(f),
            Error::Keys(e) => e.fmt(f),
            Error::Program(e) => e.fmt(f),
            Error::Build(e) => e.fmt(f),
            Error::Run(e) => e.fmt(f),
            Error::Agent(e) => e.fmt(f),
            Error::Open(e) => e.fmt(f),
            Error::Fabric(e) => e.fmt(f),
            Error::Controller(e) => e.fmt(f),
            Error::NoAgent(e) => e.fmt(f),
            Error::Settings(e) => e.fmt(f),
            Error::NoDevice(name) => write!(f, "{name} is not SERVER/DEVICE"),
            Error::Start(e) => write!(f, "cannot start: {e}"),
            Error::Listen(what, e) => write!(f, "cannot listen {what}: {e}"),
            Error::NotRunning(part) => write!(f, "the {part} is not running"),
            Error::Stopped(part) => write!(f, "the {part} has stopped"),
            Error::Panicked(part) => write!(f, "the {part} panicked"),
            Error::Late(after, Late::Switch) => {
                write!(f, "the switch is not up to date after {} s", after.as_secs_f64())
            }
            Error::Late(after, Late::Reports) => {
                write!(
                    f,
                    "the switch is not up to date, or a device has not reported, after {} s",
                    after.as_secs_f64()
                )
            }
            Error::Late(after, Late::Switches) => {
                write!(f, "the switches do not hold their entries after {} s", after.as_secs_f64())
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<pointsman_lab::Error> for Error {
    fn from(e: pointsman_lab::Error) -> Self {
        Error::Lab(e)
    }
}
