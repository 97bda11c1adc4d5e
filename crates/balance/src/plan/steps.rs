//! From the current entries of the tables to the desired ones, in an order in which no packet sees half a change.

use super::entries::{Action, Change, Entries, Epoch, Key, Update};
use std::collections::BTreeSet;

/// The generations that services point to.
fn in_force(entries: &Entries) -> BTreeSet<Epoch> {
    let of = |a: &Action| match a {
        Action::SetService { service, epoch, .. } => Some(Epoch { service: *service, epoch: *epoch }),
        _ => None,
    };
    entries.values().filter_map(of).collect()
}

/// The changes in steps. A step may be made in any order, but must be complete before the next begins:
///
/// 1. leftovers in generations not in force are deleted, and all new entries but the services' are inserted;
/// 2. slots of generations in force change: they may name servers that are new;
/// 3. the services' entries change: each switches from a complete generation to a complete one in one write;
/// 4. services that are no longer wanted are deleted;
/// 5. entries without a reference are deleted.
pub fn steps(have: &Entries, want: &Entries) -> Vec<Vec<Update>> {
    let in_force = in_force(have);
    let is_in_force = |key: &Key| key.epoch().is_some_and(|e| in_force.contains(&e));
    let mut steps = vec![Vec::new(); 5];
    for (key, action) in have {
        if want.contains_key(key) || key.is_default() {
            continue;
        }
        let step = match key {
            Key::Service(_) => 3,
            _ if key.epoch().is_some() && !is_in_force(key) => 0,
            _ => 4,
        };
        steps[step].push(Update { change: Change::Delete, key: *key, action: *action });
    }
    for (key, action) in want {
        let change = match have.get(key) {
            Some(old) if old == action => continue,
            Some(_) => Change::Modify,
            // A default action cannot be inserted.
            None if key.is_default() => Change::Modify,
            None => Change::Insert,
        };
        let step = match key {
            Key::Slot { .. } | Key::Candidate { .. } if is_in_force(key) => 1,
            Key::Service(_) => 2,
            _ => 0,
        };
        steps[step].push(Update { change, key: *key, action: *action });
    }
    steps.retain(|s| !s.is_empty());
    steps
}
