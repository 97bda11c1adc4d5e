//! Why simulations of scenarios give no results.

use crate::network_lab::LabError;
use crate::parallel::ThreadError;
use pointsman_console::PrintError;
use pointsman_node::controller::ProgramError;
use pointsman_node::network::UnreadableProgram;
use pointsman_sim::StartError;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why simulations give no results, or their file cannot be used.
#[derive(Debug)]
pub enum TrialError {
    /// The file of results cannot be read.
    Read(PathBuf, io::Error),
    /// The last line of the file of results is unfinished, and the file cannot be changed.
    Mend(PathBuf, io::Error),
    /// This line of the file, from 1, is not a result.
    NotResult(PathBuf, usize),
    /// The file has results of simulations, which others would replace.
    Replaces(PathBuf),
    /// The file of results cannot be opened for writing.
    Write(PathBuf, io::Error),
    /// A result cannot be added to the file.
    Append(String, io::Error),
    /// A simulation does not start.
    Start(StartError),
    /// A network does not run on this machine.
    Lab(LabError),
    /// Not all threads can be started.
    Threads(ThreadError),
    /// An outcome is not JSON.
    Outcome(serde_json::Error),
    /// Standard output cannot be written.
    Print(PrintError),
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrialError::Read(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            TrialError::Mend(path, e) => {
                write!(f, "cannot remove or complete the unfinished last line of {}: {e}", path.display())
            }
            TrialError::NotResult(path, line) => {
                write!(f, "{}:{line}: not a result of a simulation: choose another file", path.display())
            }
            TrialError::Replaces(path) => write!(
                f,
                "{} has results of simulations, which --lab would replace: choose another file for --json",
                path.display()
            ),
            TrialError::Write(path, e) => write!(f, "cannot write {}: {e}", path.display()),
            TrialError::Append(path, e) => write!(
                f,
                "cannot write {path}: {e}; make room, and run the same command again: results that it has are kept"
            ),
            TrialError::Start(e) => e.fmt(f),
            TrialError::Lab(e) => e.fmt(f),
            TrialError::Threads(e) => e.fmt(f),
            TrialError::Outcome(e) => e.fmt(f),
            TrialError::Print(e) => e.fmt(f),
        }
    }
}

impl Error for TrialError {}

impl From<StartError> for TrialError {
    fn from(e: StartError) -> Self {
        TrialError::Start(e)
    }
}

impl From<PrintError> for TrialError {
    fn from(e: PrintError) -> Self {
        TrialError::Print(e)
    }
}

impl From<ThreadError> for TrialError {
    fn from(e: ThreadError) -> Self {
        TrialError::Threads(e)
    }
}

/// Why a network has no program.
#[derive(Debug)]
pub enum PointError {
    /// The program's file cannot be read.
    Unreadable(UnreadableProgram),
    /// The program cannot run.
    Program(ProgramError),
}

impl fmt::Display for PointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PointError::Unreadable(e) => e.fmt(f),
            PointError::Program(e) => e.fmt(f),
        }
    }
}

impl Error for PointError {}

/// Flags that do not fit the scenario, or each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagError {
    /// This flag is not for scenarios of networks.
    Network(&'static str),
    /// One of several scenarios has a network.
    OneNetwork,
    /// Several scenarios, and no lab.
    OneRack,
    /// The scenario of a rack has no flows.
    RackFlows,
    /// The scenario of a network has no flows.
    NoFlows,
    /// No learner decides.
    NoLearner,
    /// No learner has a Q-table.
    NoTable,
    /// A sweep without points.
    NoPoints,
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FlagError::Network(flag) => {
                return write!(
                    f,
                    "{flag}: not for a scenario with a table [network]: omit it, or use --json"
                );
            }
            FlagError::OneNetwork => "only one scenario with a table [network] is allowed",
            FlagError::OneRack => "several scenarios are only allowed with --lab",
            FlagError::RackFlows => {
                "--flows: this is the scenario of a rack, which has none: use one with tables [network] and [flows]"
            }
            FlagError::NoFlows => "--flows: this scenario has none: add a table [flows]",
            FlagError::NoLearner => "--steps: this scenario has no learner: add a table [learn]",
            FlagError::NoTable => {
                "--save-table: no simulation has a Q-table: the learner must be q-learning"
            }
            FlagError::NoPoints => "the sweep has no points",
        })
    }
}

impl Error for FlagError {}

/// A scenario, or a file that it names, cannot be read.
#[derive(Debug)]
pub(crate) enum FileError {
    /// The scenario itself.
    Scenario(PathBuf, io::Error),
    /// A file that the scenario names.
    Named(PathBuf, io::Error),
    /// The named file is a capture with something wrong.
    Capture(PathBuf, CaptureError),
    /// The named file is not text.
    NotText(PathBuf),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Scenario(path, e) => write!(
                f,
                "cannot read {}: {e}; expected a scenario, such as those in scenarios/",
                path.display()
            ),
            FileError::Named(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            FileError::Capture(path, e) => write!(f, "{}: {e}", path.display()),
            FileError::NotText(path) => write!(f, "{} is not UTF-8 text", path.display()),
        }
    }
}

impl Error for FileError {}

/// A capture gives no times.
#[derive(Debug)]
pub(crate) enum CaptureError {
    /// The file is damaged.
    Read(pointsman_ports::pcap::ReadError),
    /// The file has no frames.
    Empty,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaptureError::Read(e) => e.fmt(f),
            CaptureError::Empty => f.write_str("the capture contains no frame"),
        }
    }
}

impl From<pointsman_ports::pcap::ReadError> for CaptureError {
    fn from(e: pointsman_ports::pcap::ReadError) -> Self {
        CaptureError::Read(e)
    }
}
