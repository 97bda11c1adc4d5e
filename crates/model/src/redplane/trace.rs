//! Traces in words.

use super::letter::{Place, number, shown};
use super::program::{Kind, Own};
use super::stores::NAMES;
use super::world::{Action, State, World};

impl World<'_> {
    /// What happened, a line for each action.
    pub(super) fn trace(&mut self, start: &State, actions: &[Action]) -> Vec<String> {
        let mut lines =
            vec![format!("{}; a lease is {} ms", self.clocks(start).name, super::program::LEASE_US / 1000)];
        let followed = std::mem::take(&mut self.followed);
        let found = self.lines(*start, actions, 1, &mut lines);
        if !followed.is_empty() {
            lines.push("from here on nothing goes wrong any more:".to_string());
            self.without_faults(|world| world.lines(found, &followed, actions.len() + 1, &mut lines));
        }
        lines
    }

    /// Adds lines for these actions, numbered from `first`; returns the state after them.
    fn lines(&mut self, start: State, actions: &[Action], first: usize, lines: &mut Vec<String>) -> State {
        let mut state = start;
        for (n, action) in actions.iter().enumerate() {
            lines.push(format!("{:3}. {}", n + first, self.describe(&state, *action)));
            if let Ok(after) = self.apply(&state, *action) {
                lines.extend(self.changes(&state, &after).into_iter().map(|line| format!("       {line}")));
                state = after;
            }
        }
        state
    }

    fn describe(&self, state: &State, action: Action) -> String {
        let letter = |l: u32| {
            let letter = self.letters.get(l);
            match letter.to {
                Place::Switch(to) => format!("{} at switch {}", letter.describe(), to + 1),
                Place::Store => format!("{} of switch {} at the store", letter.describe(), letter.switch + 1),
                Place::Node(to) => format!("{} at node {}", letter.describe(), NAMES[usize::from(to)]),
            }
        };
        match action {
            Action::Packet { switch, writes } if self.app.kind == Kind::Sketch => {
                let flow = if writes { "first" } else { "second" };
                format!("a packet of the {flow} flow arrives at switch {}", switch + 1)
            }
            Action::Generate { switch, cell } => {
                format!("the generator of switch {} makes the packet for cell {cell}", switch + 1)
            }
            Action::Packet { switch, writes } => {
                let number = self.histories.get(state.history).packets.len();
                let what = match (self.app.kind, writes) {
                    (Kind::Objects, _) => format!("by port {}", self.app.kind.port(writes)),
                    (_, true) => "which is counted".to_string(),
                    (_, false) => "which shows the count".to_string(),
                };
                format!("packet {number}, {what}, arrives at switch {}", switch + 1)
            }
            Action::Deliver(l) => format!("{} arrives", letter(l)),
            Action::Double(l) => format!("{} arrives, and is under way once more", letter(l)),
            Action::Lose(l) => format!("{} is lost", letter(l)),
            Action::Poll(switch) => format!("a write leaves the buffer of switch {}", switch + 1),
            Action::DeliverAt(l, node) => {
                format!("{}, node {}, arrives", letter(l), NAMES[usize::from(node)])
            }
            Action::Decide => {
                format!("view {} is decided", self.scope.views[usize::from(state.decided) + 1])
            }
            Action::Learn(node) => format!("node {} learns of the view", NAMES[usize::from(node)]),
            Action::Repeat(node) => {
                format!("node {} sends again what others have not confirmed", NAMES[usize::from(node)])
            }
            Action::Wake(_) => "the store looks at the requests that wait".to_string(),
            Action::Restart(switch) => format!("switch {} restarts, empty", switch + 1),
            Action::Pass(ns) => format!("{} pass", millis(ns)),
        }
    }

    /// What an action did, apart from what it takes itself.
    fn changes(&self, before: &State, after: &State) -> Vec<String> {
        let mut lines = Vec::new();
        for switch in 0..2 {
            let (number, old) = (after.switches[switch], before.switches[switch]);
            if number != old {
                lines.push(format!("switch {}: {}", switch + 1, self.state_of(number)));
            }
        }
        for (n, name) in NAMES.iter().enumerate().take(self.count.into()) {
            if after.stores[n] == before.stores[n] {
                continue;
            }
            let store = self.stores.get(after.stores[n]);
            let name =
                store.node().map_or("store".to_string(), |node| format!("node {name} ({:?})", node.place));
            for key in &store.image().keys {
                let owner =
                    key.owner.map_or("free".to_string(), |o| format!("owned by switch {}", o.switch + 1));
                lines.push(format!(
                    "{name}: {}{}, {owner}, grant {}, sequence {}, for {}, {} requests wait",
                    if self.app.kind == Kind::Objects {
                        format!("object {}, ", key.object)
                    } else {
                        String::new()
                    },
                    self.value_of(&key.value),
                    key.grant,
                    key.sequence,
                    millis(key.until_ns),
                    key.waiting.len(),
                ));
            }
        }
        let (old, new) = (self.histories.get(before.history), self.histories.get(after.history));
        for (n, packet) in new.packets.iter().enumerate() {
            let left_before = old.packets.get(n).is_some_and(|p| p.has_left());
            if let Some((number, count)) = packet.frame().and_then(shown).filter(|_| !left_before) {
                lines.push(format!("packet {number} leaves, and shows the count {count}"));
            }
        }
        lines
    }
}

impl World<'_> {
    /// A switch's state, in short.
    fn state_of(&self, number: u32) -> String {
        let local = self.switches.get(number);
        let of = |register, object| local.cell(self.app, register, object as u64);
        let named = self.app.named;
        match (self.seen(number), named.own) {
            (None, Own::Slots { value, sent }) => {
                let slots = (0..self.app.kind.objects()).map(|n| {
                    let (grant, lease) = (of(named.grant, n), millis(local.until_ns[n]));
                    format!("count {}, grant {grant}, sequence {}, lease {lease}", of(value, n), of(sent, n))
                });
                format!("{}, {} in the buffer", slots.collect::<Vec<_>>().join("; "), local.waiting.len())
            }
            (seen, _) => {
                let (grant, lease) = (of(named.grant, 0), millis(local.until_ns[0]));
                let text = seen.map(|seen| {
                    let stage = if seen.live { "here" } else { "not here" };
                    let whole = if seen.complete { "complete" } else { "not complete" };
                    format!("cells {:?}, {stage}, snapshot {} {whole}", seen.cells, seen.number)
                });
                format!("{}, grant {grant}, lease {lease}", text.unwrap_or_default())
            }
        }
    }

    /// A value in the store.
    fn value_of(&self, value: &[u8]) -> String {
        match self.app.kind {
            Kind::Count | Kind::Objects => format!("count {}", number(value)),
            Kind::Sketch => {
                let words = value.chunks(4).map(|word| format!("{:x}", number(word)));
                format!("words {}", words.collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// Nanoseconds as milliseconds.
fn millis(ns: u64) -> String {
    format!("{}.{:06} ms", ns / 1_000_000, ns % 1_000_000)
}
