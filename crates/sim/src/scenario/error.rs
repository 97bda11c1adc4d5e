//! What a scenario cannot have, besides fields that are wrong by themselves.

use crate::world::prometheus::SERIES;
use pointsman_balance::Policy;
use pointsman_balance::config::MAX_CLASSES;
use pointsman_balance::config::SettingsError;
use std::fmt;

/// Why a rack has nothing to learn.
pub(super) enum CannotLearn {
    /// This service has another policy.
    Policy(String, Policy),
    /// The rack has so many switches.
    Switches(usize),
    /// The rack has no processors, or no accelerators.
    Kinds,
    /// The rack has no agents.
    NoAgents,
    /// The servers are of so many kinds.
    Classes(usize),
}

impl fmt::Display for CannotLearn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotLearn::Policy(service, policy) => write!(
                f,
                "service {service} has policy {policy}, but learners set the weights of wrr: write that"
            ),
            CannotLearn::Switches(all) => write!(
                f,
                "learners read the registers of one switch, but the rack has {all}: omit this, or the other switches"
            ),
            CannotLearn::Kinds => {
                f.write_str("the rack needs processors (kind \"cpu\") and accelerators (any other kind)")
            }
            CannotLearn::NoAgents => f.write_str("learners need agents' reports: omit agents.enabled"),
            CannotLearn::Classes(classes) => write!(
                f,
                "{classes} different kinds of servers: at most {MAX_CLASSES} can have their own weights; write per_class = false"
            ),
        }
    }
}

/// Why a simulated rack cannot have a policy.
pub(super) enum PolicyError {
    /// No probes are sent.
    NoProbes(Policy),
    /// The controller has no source for the chosen device.
    NoSource(Policy),
    /// The rack has no metric of this name.
    NoMetric(Policy, String),
    /// The rack does not take the policy.
    Rack(SettingsError),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::NoProbes(policy) => {
                write!(f, "{policy}: in a simulated rack no probes are sent: choose another policy")
            }
            PolicyError::NoSource(policy) => write!(
                f,
                "{policy}: in a simulated rack the controller has no source for the chosen device: write [service.prometheus], or choose \
                 another policy"
            ),
            PolicyError::NoMetric(policy, name) => write!(
                f,
                "{policy}: a simulated rack has no metric `{name}`: as `promql` write one of {}, without `age`",
                SERIES.join(", ")
            ),
            PolicyError::Rack(error) => error.fmt(f),
        }
    }
}

/// Why a column of a CSV file is not a list of numbers.
pub(super) enum ColumnError {
    /// The file is empty.
    Empty,
    /// The file has no column of this name, but these.
    NoColumn(String, Vec<String>),
    /// A cell of this line and column is not a number.
    NotNumber {
        /// From 1.
        line: usize,
        /// The cell's text.
        cell: String,
        /// The column.
        column: String,
    },
}

impl ColumnError {
    /// The message about a file of this name.
    pub(super) fn of(&self, file: &str) -> String {
        match self {
            ColumnError::Empty => format!("{file} is empty"),
            ColumnError::NoColumn(column, names) => {
                format!("{file} has no column `{column}`; its first line names: {}", names.join(", "))
            }
            ColumnError::NotNumber { line, cell, column } => {
                format!("{file}:{line}: `{cell}` is not a number (column {column})")
            }
        }
    }
}
