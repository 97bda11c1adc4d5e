//! Members as the API and metrics show them.

use super::{Entry, Member, Members, Name, Penalty};
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

impl Members {
    /// All members, with those that left and may have connections.
    pub fn each(&self) -> Vec<Shown<'_>> {
        let mut out: Vec<Shown<'_>> = self.members.iter().map(|(name, m)| self.shown(name, m)).collect();
        let left = self.numbers.owners().filter(|(_, o)| o.left);
        out.extend(left.map(|(number, o)| Shown {
            name: &o.name,
            source: &o.source,
            state: State::Leaving,
            entry: None,
            number: Some(number),
            owner: None,
            expires_in_ms: None,
            key: None,
        }));
        out
    }

    /// One member.
    pub fn get(&self, name: &Name) -> Option<Shown<'_>> {
        self.members.get_key_value(name).map(|(name, m)| self.shown(name, m))
    }

    /// Whether this member is held out, or will be when it comes.
    pub fn is_held(&self, name: &Name) -> bool {
        self.penalties.get(name).is_some_and(|p| p.is_held(self.awake))
    }

    fn shown<'a>(&'a self, name: &'a Name, m: &'a Member) -> Shown<'a> {
        let admitted = self.source(&m.source).map(|s| m.entry.admitted(s));
        let state = match (&m.why_not, admitted) {
            _ if m.damped => {
                let until = self.penalties.get(name).map_or(0, Penalty::held_until);
                State::Held { for_ms: until.saturating_sub(self.awake) }
            }
            (Some(why), _) => State::LeftOut(why.to_string()),
            (None, Some(Err(why))) => State::LeftOut(why.to_string()),
            (None, _) if m.laid => State::Present,
            (None, _) => State::Coming,
        };
        Shown {
            name,
            source: &m.source,
            state,
            entry: Some(&m.entry),
            number: m.number,
            owner: m.owner.as_deref(),
            expires_in_ms: m.expires.map(|at| at.saturating_sub(self.awake)),
            key: m.key,
        }
    }
}
