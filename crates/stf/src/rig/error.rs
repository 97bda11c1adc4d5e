//! Why a switch in virtual time does not do what is asked.

use crate::entries::TextError;
use pointsman_v1model::{
    ConfigError, DropReason, PipelineError, ProfileError, ReplicationError, StateError, TableError,
};
use std::fmt;

/// Why a switch in virtual time does not do what is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RigError {
    /// The text does not fit the program.
    Text(TextError),
    /// A table refuses it.
    Table(TableError),
    /// An array or a value set refuses it.
    State(StateError),
    /// An action profile or selector refuses it.
    Profile(ProfileError),
    /// Clone sessions or multicast groups refuse it.
    Replication(ReplicationError),
    /// The switch refuses these settings.
    Config(ConfigError),
    /// The switch refuses the program.
    Pipeline(PipelineError),
    /// The architecture refuses the program: all reasons.
    Program(Vec<String>),
    /// No entry has this name.
    NotNamed(String),
    /// The entry with this name was removed.
    Gone(String),
    /// The table of a named entry has no such counter or meter.
    NotAttached {
        /// The table.
        table: String,
        /// The entry's name.
        id: String,
        /// The counter or meter.
        name: String,
    },
    /// No table uses this action profile.
    Unused(String),
    /// No multicast node has this number.
    NoNode(usize),
    /// No multicast group has this number.
    NoGroup(u32),
    /// A counter is compared with something else than a number.
    Comparison,
    /// A meter has not two rates.
    Rates,
    /// The switch has no such counter.
    NoStatistic {
        /// Its name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The switch of this run is not the one that the test sets.
    OtherSwitch,
    /// A statement that cannot be refused.
    NotRefusable,
    /// The switch took what it should have refused.
    Taken,
    /// The switch refused it for another reason.
    RefusedBecause(Box<RigError>),
    /// The switch takes no packet of so many bytes on this port.
    Refused(DropReason, u32, usize),
    /// The place of an error.
    In(String, Box<RigError>),
}

impl RigError {
    /// Makes an error with its place.
    pub(crate) fn of<E: Into<RigError>>(place: impl fmt::Display) -> impl FnOnce(E) -> RigError {
        let place = place.to_string();
        move |e| RigError::In(place, Box::new(e.into()))
    }
}

impl fmt::Display for RigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RigError::Text(e) => e.fmt(f),
            RigError::Table(e) => e.fmt(f),
            RigError::State(e) => e.fmt(f),
            RigError::Profile(e) => e.fmt(f),
            RigError::Replication(e) => e.fmt(f),
            RigError::Config(e) => e.fmt(f),
            RigError::Pipeline(e) => e.fmt(f),
            RigError::Program(reasons) => f.write_str(&reasons.join("; ")),
            RigError::NotNamed(id) => write!(f, "no entry is named ${id}: write `add ... = {id}` first"),
            RigError::Gone(id) => write!(f, "the entry ${id} no longer exists"),
            RigError::NotAttached { table, id, name } => {
                write!(f, "table {table} of the entry ${id} does not have {name}")
            }
            RigError::Unused(profile) => write!(f, "no table uses {profile}"),
            RigError::NoNode(node) => write!(f, "no node {node}"),
            RigError::NoGroup(group) => write!(f, "no group {group}"),
            RigError::Comparison => f.write_str("no number to compare with"),
            RigError::Rates => f.write_str("two rates"),
            RigError::NoStatistic { name, known } => {
                write!(f, "the switch does not count {name}; it counts: {}", known.join(", "))
            }
            RigError::OtherSwitch => {
                f.write_str("the switch has other settings: this statement is only for packet tests")
            }
            RigError::NotRefusable => f.write_str(
                "only statements that fill tables, arrays, clone sessions and groups may be refused",
            ),
            RigError::Taken => f.write_str("it was not refused"),
            RigError::RefusedBecause(e) => write!(f, "it was refused, but: {e}"),
            RigError::Refused(DropReason::TooLong, _, bytes) => {
                write!(f, "{bytes} bytes are more than a packet may have")
            }
            RigError::Refused(_, port, _) => write!(f, "no packet comes in on port {port}"),
            RigError::In(place, e) => write!(f, "{place}: {e}"),
        }
    }
}

impl std::error::Error for RigError {}

impl From<TextError> for RigError {
    fn from(e: TextError) -> Self {
        RigError::Text(e)
    }
}

impl From<TableError> for RigError {
    fn from(e: TableError) -> Self {
        RigError::Table(e)
    }
}

impl From<StateError> for RigError {
    fn from(e: StateError) -> Self {
        RigError::State(e)
    }
}

impl From<ProfileError> for RigError {
    fn from(e: ProfileError) -> Self {
        RigError::Profile(e)
    }
}

impl From<ReplicationError> for RigError {
    fn from(e: ReplicationError) -> Self {
        RigError::Replication(e)
    }
}

impl From<ConfigError> for RigError {
    fn from(e: ConfigError) -> Self {
        RigError::Config(e)
    }
}

impl From<PipelineError> for RigError {
    fn from(e: PipelineError) -> Self {
        RigError::Pipeline(e)
    }
}
