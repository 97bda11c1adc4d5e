//! Why a scenario does not run in the lab.

use pointsman_balance::agent::CannotRun;
use std::error::Error;
use std::fmt;

/// Why a scenario does not run in the lab.
#[derive(Debug)]
pub enum WireError {
    /// The lab does not support the value of this field; the remedy.
    Refused(&'static str, String),
    /// The rack has no service.
    NoService,
    /// nginx does not take its settings, in its own words.
    Settings(String),
    /// A device cannot have an agent.
    Agent(CannotRun),
    /// A learner does not take its settings.
    Learner(pointsman_decide::LearnerError),
    /// The lab refuses clients or devices.
    Lab(pointsman_lab::Error),
    /// The rack does not run.
    Live(pointsman_live::Error),
    /// The scenario is one of another rack.
    OtherRack,
    /// The thread of the scenario's events panicked.
    Panicked,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Refused(field, remedy) => write!(f, "in the lab: {field}: {remedy}"),
            WireError::NoService => f.write_str("the rack has no service"),
            WireError::Settings(why) => f.write_str(why),
            WireError::Agent(error) => error.fmt(f),
            WireError::Learner(e) => e.fmt(f),
            WireError::Lab(e) => e.fmt(f),
            WireError::Live(e) => e.fmt(f),
            WireError::OtherRack => f.write_str("the scenario has a different rack"),
            WireError::Panicked => f.write_str("the events panicked"),
        }
    }
}

impl Error for WireError {}

impl From<pointsman_lab::Error> for WireError {
    fn from(e: pointsman_lab::Error) -> Self {
        WireError::Lab(e)
    }
}

impl From<pointsman_live::Error> for WireError {
    fn from(e: pointsman_live::Error) -> Self {
        WireError::Live(e)
    }
}
