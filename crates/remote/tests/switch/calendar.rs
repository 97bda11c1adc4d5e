//! What happens in virtual time, in its order.

use pointsman_ir::Executor;
use pointsman_stf::Rig;
use std::collections::BTreeMap;

/// Events by time, and in the order in which they were entered.
#[derive(Debug)]
pub struct Calendar<T> {
    events: BTreeMap<(u64, u64), T>,
    entered: u64,
}

impl<T> Default for Calendar<T> {
    fn default() -> Self {
        Calendar { events: BTreeMap::new(), entered: 0 }
    }
}

/// What is due.
#[derive(Debug)]
pub enum Due<T> {
    Event(T),
    /// The switch has something to do.
    Switch,
    /// The controller has.
    Controller,
}

impl<T> Calendar<T> {
    pub fn enter(&mut self, at: u64, event: T) {
        self.entered += 1;
        self.events.insert((at, self.entered), event);
    }

    /// What happens next from now on, and when; `None`: nothing until the end. Events come first, then the switch, then the controller with its deadlines.
    pub fn next<E: Executor>(
        &mut self,
        (now, end): (u64, u64),
        rig: &Rig<E>,
        controller: &[Option<u64>],
    ) -> Option<(u64, Due<T>)> {
        let later = |at: u64| at.max(now);
        let poll = rig.switch.next_poll().map_or(u64::MAX, |t| later(t.0));
        let controller = controller.iter().flatten().min().map_or(u64::MAX, |t| later(*t));
        let event = self.events.first_entry().filter(|e| e.key().0 <= poll.min(controller));
        let at = event.as_ref().map_or(poll.min(controller), |e| e.key().0);
        if at > end {
            return None;
        }
        Some((
            at,
            match event {
                Some(event) => Due::Event(event.remove()),
                None if at == poll => Due::Switch,
                None => Due::Controller,
            },
        ))
    }
}
