//! A group of controllers of one rack, as the API shows it.

use pointsman_wire::time::rfc3339;
use serde_json::{Value, json};

/// A controller of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its API; empty: it has none.
    pub url: String,
    /// How many switches it reaches.
    pub switches: usize,
}

/// The group of controllers, as one of them knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name of this controller.
    pub name: String,
    /// Whether it leads.
    pub leads: bool,
    /// The term of its election ids while it leads.
    pub term: Option<u64>,
    /// The leader's name and API, as far as known.
    pub leader: Option<(String, String)>,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// The address of the etcd that it asks.
    pub etcd: String,
    /// Why etcd does not answer, or why its contents cannot be used.
    pub trouble: Option<String>,
    /// All controllers, itself included.
    pub controllers: Vec<Peer>,
}

impl Group {
    /// `leader`, or `standby`.
    pub fn role(&self) -> &'static str {
        if self.leads { "leader" } else { "standby" }
    }

    pub(super) fn json(&self) -> Value {
        let peer = |p: &Peer| json!({ "name": p.name, "url": p.url, "switches": p.switches });
        json!({
            "name": self.name,
            "role": self.role(),
            "since": rfc3339(self.since_ms),
            "term": self.term,
            "leader": self.leader.as_ref().map(|(name, _)| name),
            "leader_url": self.leader.as_ref().map(|(_, url)| url),
            "etcd": self.etcd,
            "trouble": self.trouble,
            "controllers": self.controllers.iter().map(peer).collect::<Vec<_>>(),
        })
    }
}
