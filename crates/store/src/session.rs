//! Session leases: one lease for all keys that a switch has.

use crate::message::{Head, later};
use crate::table::Record;
use std::collections::BTreeMap;

/// The session of a switch. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Session {
    /// The start of the switch that has it.
    incarnation: u32,
    /// When others get its keys.
    until: u64,
    /// When others get the keys of the start before.
    former: u64,
}

/// The session of each switch.
#[derive(Debug, Default)]
pub(crate) struct Sessions(BTreeMap<u16, Session>);

impl Sessions {
    /// Holds the keys of a start of a switch until this time at least. `false`: the switch was started again since.
    pub fn extend(&mut self, switch: u16, incarnation: u32, until: u64) -> bool {
        let session = self.0.entry(switch).or_insert(Session { incarnation, until, former: 0 });
        if later(session.incarnation, incarnation) {
            return false;
        }
        if session.incarnation != incarnation {
            *session = Session { incarnation, until, former: session.until };
        }
        session.until = session.until.max(until);
        true
    }

    /// Extends the session of a request, if it has one.
    pub fn of_request(&mut self, head: &Head, until: u64) -> bool {
        head.flags.session && self.extend(head.switch, head.incarnation, until)
    }

    /// Switch, its start, and nanoseconds until others get its keys and those of the start before, 0 if that is in the past.
    pub fn left(&self, now: u64) -> Vec<(u16, u32, [u64; 2])> {
        let left = |s: &Session| [s.until, s.former].map(|at| at.saturating_sub(now));
        self.0.iter().map(|(switch, s)| (*switch, s.incarnation, left(s))).collect()
    }

    /// The reverse of [`Sessions::left`].
    pub fn of_left(now: u64, left: &[(u16, u32, [u64; 2])]) -> Self {
        let session = |(switch, incarnation, left): &(u16, u32, [u64; 2])| {
            let [until, former] = left.map(|ns| now.saturating_add(ns));
            (*switch, Session { incarnation: *incarnation, until, former })
        };
        Sessions(left.iter().map(session).collect())
    }

    /// From when on others get the key.
    pub fn until(&self, record: &Record) -> u64 {
        let owner = record.owner.filter(|_| record.session);
        let Some((owner, session)) = owner.and_then(|o| Some((o, self.0.get(&o.switch)?))) else {
            return record.until;
        };
        let same = session.incarnation == owner.incarnation;
        record.until.max(if same { session.until } else { session.former })
    }
}
