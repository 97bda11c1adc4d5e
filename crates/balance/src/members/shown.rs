//! Members as the API and metrics show them.

use super::{Entry, Name};
use crate::trust::ReportKey;
use crate::types::DeviceNumber;

/// Whether a member serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is part of the configuration.
    Present,
    /// It will be in a moment.
    Coming,
    /// It comes and goes too often, and is held out.
    Held {
        /// For so long, in milliseconds, if it stays.
        for_ms: u64,
    },
    /// The rack has no room for it.
    LeftOut(String),
    /// It left, and may have connections.
    Leaving,
}

impl State {
    /// Its name in the API and in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            State::Present => "present",
            State::Coming => "coming",
            State::Held { .. } => "held-out",
            State::LeftOut(_) => "left-out",
            State::Leaving => "leaving",
        }
    }
}

/// A member as the API shows it.
#[derive(Clone, Debug)]
pub struct Shown<'a> {
    /// Its name.
    pub name: &'a Name,
    /// Its source.
    pub source: &'a str,
    /// Whether it serves.
    pub state: State,
    /// What its source says; None: it left.
    pub entry: Option<&'a Entry>,
    /// Its number in the data plane.
    pub number: Option<DeviceNumber>,
    /// Who registered it.
    pub owner: Option<&'a str>,
    /// Until it has to be renewed, in milliseconds.
    pub expires_in_ms: Option<u64>,
    /// The key of its reports: for its owner only.
    pub key: Option<ReportKey>,
}
