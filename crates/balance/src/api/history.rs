//! The history of changes: setting, user, time and outcome.

use super::wanted::Document;
use pointsman_wire::time::rfc3339;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// How many changes are kept.
pub const MAX_CHANGES: usize = 1000;

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// The switch does not hold it yet.
    Pending {
        /// What delays it, if anything does.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The switch holds it.
    InForce {
        /// Entries that were written; those of others that were pending at the same time are among them.
        writes: usize,
        /// Milliseconds from the request until then.
        after_ms: u64,
    },
    /// The controller kept the previous configuration.
    Rejected {
        /// Why.
        reason: String,
    },
    /// Another change of the service or the devices came before the switch held this one.
    Superseded {
        /// The other one.
        by: u64,
    },
    /// It was made by the rack's file itself, and is only noted.
    Noted {
        /// The reason.
        reason: String,
    },
}

/// Whether a device takes new connections, by request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// The device, or all devices of this server.
    pub device: String,
    /// It takes none from now on; otherwise it takes them again.
    pub drain: bool,
    /// The devices whose state changed: those that were so before are not among them. Empty: a former version made the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
}

/// A change of a service's policy, or of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Its number, from 1.
    pub id: u64,
    /// When it was requested, in milliseconds since 1970.
    pub at_ms: u64,
    /// The user.
    pub who: String,
    /// The service's name. Empty: the change is that of a device.
    pub service: String,
    /// The change of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Drain>,
    /// The requested setting; None: that of the rack's file.
    pub set: Option<Document>,
    /// The setting in force, or pending, before.
    pub before: Document,
    /// The outcome.
    pub result: Outcome,
}

impl Change {
    /// Whether its outcome is final.
    pub fn is_over(&self) -> bool {
        !matches!(self.result, Outcome::Pending { .. })
    }

    /// As JSON for people.
    pub fn json(&self) -> Value {
        let mut out = json!({
            "id": self.id,
            "at": rfc3339(self.at_ms),
            "at_ms": self.at_ms,
            "who": self.who,
            "service": self.service,
            "set": self.set,
            "before": self.before,
        });
        if let (Some(all), Some(Drain { device, drain, devices })) = (out.as_object_mut(), &self.device) {
            for name in ["service", "set", "before"] {
                all.insert(name.into(), Value::Null);
            }
            all.insert("device".into(), device.as_str().into());
            all.insert("drain".into(), (*drain).into());
            all.insert("devices".into(), devices.as_slice().into());
        }
        // An enum with a tag is an object, always.
        if let (Some(all), Ok(Value::Object(more))) =
            (out.as_object_mut(), serde_json::to_value(&self.result))
        {
            all.extend(more);
        }
        out
    }
}

/// The last changes, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    changes: VecDeque<Change>,
    last_id: u64,
}

impl History {
    /// From the saved changes.
    pub fn from_changes(changes: Vec<Change>) -> History {
        let last_id = changes.iter().map(|c| c.id).max().unwrap_or(0);
        History { changes: changes.into(), last_id }
    }

    /// All that are kept, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Change> {
        self.changes.iter()
    }

    /// The newest ones whose JSON has at most so many bytes, and at least one.
    pub(super) fn newest_within(&self, bytes: usize) -> Vec<Change> {
        let mut left = bytes;
        let fits = |(n, change): &(usize, &Change)| {
            // Strings, numbers and maps of them: JSON can represent them all.
            let size = serde_json::to_string(change).map_or(0, |text| text.len() + 1);
            let fits = size <= left;
            left = left.saturating_sub(size);
            fits || *n == 0
        };
        let mut newest: Vec<Change> = match bytes {
            usize::MAX => return self.changes.iter().cloned().collect(),
            _ => self.changes.iter().rev().enumerate().take_while(fits).map(|(_, c)| c.clone()).collect(),
        };
        newest.reverse();
        newest
    }

    /// One of them.
    pub fn get(&self, id: u64) -> Option<&Change> {
        self.changes.iter().find(|c| c.id == id)
    }

    /// Adds a change and assigns its number. One of the same service's policy that is still pending is superseded.
    pub(super) fn add(&mut self, change: Change) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let policy = |c: &Change| c.device.is_none();
        self.supersede(id, |c| policy(c) && policy(&change) && c.service == change.service);
        self.changes.push_back(Change { id, ..change });
        while self.changes.len() > MAX_CHANGES {
            self.changes.pop_front();
        }
        id
    }

    /// Another change came before the switch held these, which are still pending.
    pub(super) fn supersede(&mut self, by: u64, is: impl Fn(&Change) -> bool) {
        self.pending().filter(|c| c.id != by && is(c)).for_each(|c| c.result = Outcome::Superseded { by });
    }

    /// Removes the last change, as if it had never superseded anything.
    pub(super) fn reject(&mut self, id: u64, reason: &str) {
        for c in &mut self.changes {
            if c.id == id {
                c.result = Outcome::Rejected { reason: reason.into() };
            } else if c.result == (Outcome::Superseded { by: id }) {
                c.result = Outcome::Pending { reason: None };
            }
        }
    }

    /// Everything that is pending.
    pub(super) fn pending(&mut self) -> impl Iterator<Item = &mut Change> {
        self.changes.iter_mut().filter(|c| !c.is_over())
    }
}
