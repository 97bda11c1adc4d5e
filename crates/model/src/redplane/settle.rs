//! What becomes of a state if nothing goes wrong any more.

use super::program::{Kind, Own};
use super::world::{Action, State, World};
use super::wrong::{ANSWERED, STORED, Wrong};

/// Steps until nothing happens any more.
const STEPS: u32 = 2_000;
/// Packets that a client sends until one has an answer. The answer to the first may come after the lease that it gives, and then gives none.
const TRIES: u32 = 4;

impl World<'_> {
    /// Follows a state without faults: the store gets the state of the owner, and packets at both switches get answers that go with all
    /// that clients saw before.
    pub(super) fn settles(&mut self, state: &State) -> Result<(), Wrong> {
        let [a, b] = state.switches;
        let [x, y, z] = state.stores;
        let (clocks, decided) = (state.clocks.into(), state.decided.into());
        let key = [a, b, x, y, z, state.under_way, state.history, clocks, decided];
        let mixed = key.iter().fold(0u64, |sum, n| pointsman_wire::random::mix(sum ^ u64::from(*n)));
        if !mixed.is_multiple_of(self.scope.settle_every) || !self.settled.insert(key) {
            return Ok(());
        }
        if self.app.kind == Kind::Sketch {
            return self.sketch_settles(state);
        }
        let mut now = *state;
        let mut steps = 0;
        while self.is_busy(&now) {
            steps += 1;
            if steps > STEPS {
                let why = "a write is sent again for ever, although no message is lost any more".to_string();
                return Err(Wrong { property: STORED, why });
            }
            let Some(action) = self.next(&now) else { break };
            now = self.follow_on(&now, action)?;
        }
        self.check_stored(&now)?;
        // The key moves there and back.
        for (switch, writes) in [(0, true), (1, true), (0, false)] {
            now = self.probe(now, switch, writes)?;
        }
        Ok(())
    }

    /// Whether messages are under way, or writes in a buffer.
    fn is_busy(&self, state: &State) -> bool {
        !self.under_way.get(state.under_way).is_empty()
            || (0..self.count).any(|n| self.is_behind(state, n) || self.waits(state, n))
            || state.switches.iter().any(|n| !self.switches.get(*n).waiting.is_empty())
    }

    /// What happens next if nothing goes wrong. `None`: nothing is left to do.
    fn next(&self, state: &State) -> Option<Action> {
        self.next_now(state).or_else(|| self.deadlines(state).0.first().copied().map(Action::Pass))
    }

    /// What happens next, before time passes.
    pub(super) fn next_now(&self, state: &State) -> Option<Action> {
        // What nodes agreed on is known to all of them.
        if let Some(node) = (0..self.count).find(|n| self.is_behind(state, *n)) {
            return Some(Action::Learn(node));
        }
        if let Some(letter) = self.under_way.get(state.under_way).first() {
            return Some(Action::Deliver(*letter));
        }
        // The one closest to the tail: the others wait for it.
        if let Some(node) = (0..self.count).rev().find(|n| self.waits(state, *n)) {
            return Some(Action::Repeat(node));
        }
        let due = |switch: &u8| self.switches.get(state.switches[usize::from(*switch)]).is_due();
        if let Some(switch) = [0, 1].into_iter().find(due) {
            return Some(Action::Poll(switch));
        }
        self.due(state).map(Action::Wake)
    }

    pub(super) fn follow_on(&mut self, state: &State, action: Action) -> Result<State, Wrong> {
        self.followed.push(action);
        self.apply(state, action)
    }

    /// The store has the state of the switch that it says is the owner.
    fn check_stored(&self, state: &State) -> Result<(), Wrong> {
        let named = &self.app.named;
        let Own::Slots { value, .. } = named.own else { return Ok(()) };
        for key in &self.stores.get(state.stores[self.head(state)]).image().keys {
            for number in state.switches {
                let local = self.switches.get(number);
                let owns = key.owner.is_some_and(|o| {
                    (o.switch, o.incarnation) == (u16::from(local.number), local.incarnation)
                });
                let cell = |register| local.cell(self.app, register, key.object.into());
                let same = owns && cell(named.grant) == u64::from(key.grant);
                let (here, stored) = (cell(value), u64::from(super::letter::number(&key.value)));
                if same && here != stored {
                    let why = format!(
                        "switch {} has {here}, and the store keeps {stored} although no message is lost any more",
                        local.number + 1
                    );
                    return Err(Wrong { property: STORED, why });
                }
            }
        }
        Ok(())
    }

    /// Whether packets that are counted are those that are not refused, if the store knows.
    fn admitted(&self, state: &State) -> Option<bool> {
        let keys = &self.stores.get(state.stores[self.head(state)]).image().keys;
        let port = keys.iter().find(|key| self.app.kind == Kind::Objects && key.object == 0)?;
        [true, false]
            .into_iter()
            .find(|writes| self.app.kind.port(*writes) + 1 == super::letter::number(&port.value))
    }

    /// A client sends a packet to a switch, and repeats it until it has an answer.
    fn probe(&mut self, state: State, switch: u8, writes: bool) -> Result<State, Wrong> {
        let mut now = state;
        let first = self.histories.get(now.history).packets.len();
        for _ in 0..TRIES {
            let writes = self.admitted(&now).unwrap_or(writes);
            now = self.follow_on(&now, Action::Packet { switch, writes })?;
            for _ in 0..STEPS {
                if self.histories.get(now.history).packets[first..].iter().any(|p| p.has_left()) {
                    return Ok(now);
                }
                let Some(action) = self.next(&now) else { break };
                now = self.follow_on(&now, action)?;
            }
        }
        let why = format!(
            "{TRIES} packets at switch {} have no answer, although nothing goes wrong any more",
            switch + 1
        );
        Err(Wrong { property: ANSWERED, why })
    }
}
