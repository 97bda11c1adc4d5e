//! Session leases: one lease for all keys that a switch has.

use crate::message::{Head, later};
use crate::table::Record;
use std::collections::BTreeMap;

/// The session of each switch: the start of the switch that has it, and when others get its keys, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Sessions(BTreeMap<u16, (u32, u64)>);

impl Sessions {
    /// Holds the keys of a start of a switch until this time at least. `false`: the switch was started again since.
    pub fn extend(&mut self, switch: u16, incarnation: u32, until: u64) -> bool {
        let session = self.0.entry(switch).or_insert((incarnation, until));
        if later(session.0, incarnation) {
            return false;
        }
        let former = if session.0 == incarnation { session.1 } else { 0 };
        *session = (incarnation, former.max(until));
        true
    }

    /// Extends the session of a request, if it has one.
    pub fn of_request(&mut self, head: &Head, until: u64) -> bool {
        head.flags.session && self.extend(head.switch, head.incarnation, until)
    }

    /// Switch, its start, and nanoseconds until others get its keys, 0 if that is in the past.
    pub fn left(&self, now: u64) -> Vec<(u16, u32, u64)> {
        self.0.iter().map(|(switch, (start, until))| (*switch, *start, until.saturating_sub(now))).collect()
    }

    /// The reverse of [`Sessions::left`].
    pub fn of_left(now: u64, left: &[(u16, u32, u64)]) -> Self {
        Sessions(
            left.iter().map(|(switch, start, ns)| (*switch, (*start, now.saturating_add(*ns)))).collect(),
        )
    }

    /// From when on others get the key.
    pub fn until(&self, record: &Record) -> u64 {
        let owner = record.owner.filter(|_| record.session);
        let session = owner.and_then(|o| self.0.get(&o.switch).filter(|s| s.0 == o.incarnation));
        session.map_or(record.until, |s| s.1.max(record.until))
    }
}
