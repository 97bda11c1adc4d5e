//! The files that an operator edits while the controller runs: of which time each is in force, and why a newer one is not.

use pointsman_wire::time::rfc3339;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A followed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum File {
    /// The rack's description, with the keys that it names.
    Rack,
    /// The API's tokens.
    Tokens,
}

impl File {
    /// Its name in the API and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            File::Rack => "rack.toml",
            File::Tokens => "tokens",
        }
    }

    /// What it contains.
    pub fn contents(self) -> &'static str {
        match self {
            File::Rack => "configuration",
            File::Tokens => "tokens",
        }
    }
}

/// The state of one file. Times are in milliseconds since 1970, and those at which the file was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    in_force_ms: u64,
    /// What was read last, if it is not in force, and why.
    refused: Option<(u64, String)>,
}

/// The followed files. A file that nothing follows is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<File, State>);

impl Files {
    /// What was written at `of_ms` is in force.
    pub(super) fn applied(&mut self, file: File, of_ms: u64) {
        self.0.insert(file, State { in_force_ms: of_ms, refused: None });
    }

    /// What was written at `of_ms` is not applied, for this reason.
    pub(super) fn refused(&mut self, file: File, of_ms: u64, why: &str) {
        self.0.entry(file).or_default().refused = Some((of_ms, why.to_string()));
    }

    /// Whether the newest content of each file is refused.
    pub fn each(&self) -> impl Iterator<Item = (File, bool)> + '_ {
        self.0.iter().map(|(file, state)| (*file, state.refused.is_some()))
    }

    /// As JSON.
    pub(super) fn json(&self) -> Value {
        let one = |(file, state): (&File, &State)| {
            let refused = state.refused.as_ref();
            json!({
                "file": file.name(),
                "in_force": rfc3339(state.in_force_ms),
                "refused": refused.map(|(of_ms, why)| json!({ "of": rfc3339(*of_ms), "why": why })),
            })
        };
        self.0.iter().map(one).collect()
    }
}
