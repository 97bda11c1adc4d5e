//! Two switches, a store, messages under way and clients, as one model.

use super::history::History;
use super::interned::Interned;
use super::letter::{Letter, OLD_NS, Place, shown};
use super::mutations::Change;
use super::nodes::{Effects, Input, Local, StoreInput, Switches};
use super::program::{App, CELLS, DRIFT_SHIFT, GENERATOR, Kind, LEASE_US, OUT, SECRET};
use super::scope::{Clocks, Scope};
use super::sketch::generated;
use super::stores::{self, NODES, StoreState};
use super::wrong::{LINEARIZABLE, ONE_OWNER, WELL_FORMED, Wrong};
use crate::search::Model;
use pointsman_history::Plain;
use pointsman_store::Config;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Time passes to this long before the end of a lease, in nanoseconds.
const BRINK_NS: u64 = 8_000;

/// How many more faults and packets there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    writes: u8,
    reads: u8,
    restarts: u8,
    doubles: u8,
    passes: u8,
    snapshots: u8,
}

/// A state: numbers of the parts' states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) switches: [u32; 2],
    /// Of a store alone the first one only.
    pub(super) stores: [u32; NODES],
    /// The view that was decided last: its index in [`Scope::views`].
    pub(super) decided: u8,
    /// Messages under way.
    pub(super) under_way: u32,
    pub(super) history: u32,
    left: Left,
    /// Index in [`Scope::clocks`].
    pub(super) clocks: u8,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client's packet arrives at a switch.
    Packet {
        /// 0 or 1.
        switch: u8,
        /// It is counted.
        writes: bool,
    },
    /// The packet generator of a switch makes the packet for a cell.
    Generate {
        /// 0 or 1.
        switch: u8,
        /// The cell.
        cell: u8,
    },
    /// A message arrives.
    Deliver(u32),
    /// A message of a switch arrives at this node of a chain.
    DeliverAt(u32, u8),
    /// The next view of the chain is decided.
    Decide,
    /// A node learns of it.
    Learn(u8),
    /// Nodes behind this one say how far they are, as they do by their signs of life; then it sends again what others have not confirmed.
    Repeat(u8),
    /// A message arrives, and will arrive again.
    Double(u32),
    /// A message is lost.
    Lose(u32),
    /// A write leaves the buffer of a switch.
    Poll(u8),
    /// The store, or a node, looks at the requests that wait.
    Wake(u8),
    /// A switch restarts, empty.
    Restart(u8),
    /// Nanoseconds of true time pass.
    Pass(u64),
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// A client's packet arrives: its number, and whether it is counted.
    Packet(u8, bool),
    /// The packet generator makes the packet for a cell.
    Generate(u8),
    /// A message arrives.
    Letter(u32),
    /// A write leaves the buffer, or the store looks at the requests that wait.
    Poll,
    /// A node learns of a view.
    View(u8),
    /// A node sends again.
    Repeat,
}

/// The model of a scope.
pub struct World<'a> {
    pub(super) app: &'a App,
    pub(super) scope: &'a Scope,
    config: Config,
    same_incarnation: bool,
    plain: Plain,
    nodes: Switches<'a>,
    pub(super) switches: Interned<Local>,
    pub(super) stores: Interned<StoreState>,
    /// Stores.
    pub(super) count: u8,
    pub(super) letters: Interned<Letter>,
    pub(super) under_way: Interned<Vec<u32>>,
    pub(super) histories: Interned<History>,
    effects: Interned<Effects>,
    /// Steps that were made before: of switches, of the store, of time.
    switch_steps: HashMap<(u32, Event), (u32, u32)>,
    store_steps: HashMap<(u8, u32, Event), (u32, u32)>,
    pub(super) older_letters: HashMap<(u32, u64), u32>,
    /// By history: whether it is linearizable.
    verdicts: HashMap<u32, bool>,
    /// States that were followed to the end, without what is left.
    pub(super) settled: HashSet<[u32; 9]>,
    /// Messages that may be under way at once.
    pub(super) bound: usize,
    /// What was done without faults after the state that was judged last.
    pub(super) followed: Vec<Action>,
    /// Steps of the interpreter and of the store.
    pub executions: u64,
}

impl<'a> World<'a> {
    /// The model of a scope, perhaps with something changed.
    pub fn new(app: &'a App, scope: &'a Scope, plain: Plain, change: Option<Change>) -> Self {
        let mut config = Config {
            secret: SECRET,
            lease_us: LEASE_US,
            drift_shift: DRIFT_SHIFT,
            max_keys: app.kind.keys(),
            recall: scope.recall,
            ..Config::default()
        };
        if let Some(change) = change {
            change.apply(&mut config);
        }
        World {
            app,
            scope,
            config,
            same_incarnation: matches!(change, Some(Change::SameIncarnation)),
            plain,
            nodes: Switches::new(app),
            switches: Interned::default(),
            stores: Interned::default(),
            count: if scope.views.is_empty() { 1 } else { NODES as u8 },
            letters: Interned::default(),
            under_way: Interned::default(),
            histories: Interned::default(),
            effects: Interned::default(),
            switch_steps: HashMap::new(),
            store_steps: HashMap::new(),
            older_letters: HashMap::new(),
            verdicts: HashMap::new(),
            settled: HashSet::new(),
            bound: scope.under_way,
            followed: Vec::new(),
            executions: 0,
        }
    }

    pub(super) fn clocks(&self, state: &State) -> Clocks {
        self.scope.clocks[usize::from(state.clocks)]
    }

    /// A step of a switch.
    fn at_switch(&mut self, state: &State, switch: u8, event: Event) -> Result<State, Wrong> {
        let before = state.switches[usize::from(switch)];
        let known = self.switch_steps.get(&(before, event)).copied();
        let (after, effects) = known.unwrap_or_else(|| {
            self.executions += 1;
            let local = self.switches.get(before).clone();
            let (after, effects) = match event {
                Event::Packet(number, writes) => {
                    let kind = self.app.kind;
                    self.nodes.step(&local, Input::Packet(kind.port(writes), &kind.client(number, writes)))
                }
                Event::Generate(cell) => self.nodes.step(&local, Input::Packet(GENERATOR, &generated(cell))),
                Event::Letter(letter) => self.nodes.step(&local, Input::Letter(self.letters.get(letter))),
                _ => self.nodes.step(&local, Input::Poll),
            };
            let result = (self.switches.add(after), self.effects.add(effects));
            self.switch_steps.insert((before, event), result);
            result
        });
        let mut next = *state;
        next.switches[usize::from(switch)] = after;
        let next = self.notices(state, next, switch, event)?;
        self.follow(next, effects)
    }

    /// A step of the store, or of a node of a chain.
    pub(super) fn at_store(&mut self, state: &State, n: u8, event: Event) -> Result<State, Wrong> {
        let before = state.stores[usize::from(n)];
        let known = self.store_steps.get(&(n, before, event)).copied();
        let (after, effects) = known.unwrap_or_else(|| {
            self.executions += 1;
            let store = self.stores.get(before).clone();
            let input = match event {
                Event::Letter(letter) => match self.letters.get(letter) {
                    letter if matches!(letter.to, Place::Node(_)) => StoreInput::Between(letter.bytes()),
                    letter => StoreInput::Letter(letter),
                },
                Event::View(view) => StoreInput::View(self.scope.views[usize::from(view)]),
                Event::Repeat => StoreInput::Repeat,
                _ => StoreInput::Wake,
            };
            let (after, effects) = stores::step(&self.config, n.into(), &store, input);
            let result = (self.stores.add(after), self.effects.add(effects));
            self.store_steps.insert((n, before, event), result);
            result
        });
        let mut next = *state;
        next.stores[usize::from(n)] = after;
        let next = self.follow(next, effects)?;
        self.acknowledge(next)
    }

    /// What left a node goes where it belongs.
    fn follow(&mut self, mut state: State, effects: u32) -> Result<State, Wrong> {
        let effects = self.effects.get(effects).clone();
        if let Some(why) = &effects.wrong {
            return Err(Wrong { property: WELL_FORMED, why: why.clone() });
        }
        if !effects.letters.is_empty() {
            let mut all = self.under_way.get(state.under_way).to_vec();
            for letter in &effects.letters {
                // Beyond the bound a message is lost.
                if self.has_room(&all, letter) {
                    all.push(self.letters.add(letter.clone()));
                }
            }
            all.sort_unstable();
            state.under_way = self.under_way.add(all);
        }
        if self.app.kind != Kind::Sketch && !effects.left.is_empty() {
            let mut history = History::clone(self.histories.get(state.history));
            for frame in &effects.left {
                let Some((number, _)) = shown(frame) else {
                    let why = format!("a packet leaves that no client sent: {frame:02x?}");
                    return Err(Wrong { property: WELL_FORMED, why });
                };
                history.leaves(number, frame.clone())?;
            }
            state.history = self.histories.add(history);
            self.check_history(state.history)?;
        }
        Ok(state)
    }

    fn check_history(&mut self, number: u32) -> Result<(), Wrong> {
        let known = self.verdicts.get(&number).copied();
        let fine = known.unwrap_or_else(|| {
            let history = self.histories.get(number).clone();
            let kind = self.app.kind;
            let input = |number, writes| (kind.port(writes), kind.client(number, writes));
            let fine = history.is_linearizable(&mut self.plain, OUT, input);
            self.verdicts.insert(number, fine);
            fine
        });
        if fine {
            return Ok(());
        }
        let why = "no order of the packets in one switch explains the counts that they show".to_string();
        Err(Wrong { property: LINEARIZABLE, why })
    }

    /// Does something with any number of messages under way.
    pub(super) fn without_faults<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> T {
        self.bound = usize::MAX;
        self.followed.clear();
        let done = what(self);
        self.bound = self.scope.under_way;
        done
    }

    /// The state after an action, whatever is left.
    pub(super) fn apply(&mut self, state: &State, action: Action) -> Result<State, Wrong> {
        match action {
            Action::Packet { switch, writes } => self.packet(state, switch, writes),
            Action::Generate { switch, cell } => self.at_switch(state, switch, Event::Generate(cell)),
            Action::Deliver(letter) => {
                let next = self.without(state, letter);
                self.arrives(&next, letter, None)
            }
            Action::DeliverAt(letter, node) => {
                let next = self.without(state, letter);
                self.arrives(&next, letter, Some(node))
            }
            Action::Decide => Ok(State { decided: state.decided + 1, ..*state }),
            Action::Learn(node) => self.learns(state, node),
            Action::Repeat(node) => {
                let behind = (node + 1..self.count).rev().filter(|n| self.is_present(state, *n));
                behind
                    .chain([node])
                    .collect::<Vec<_>>()
                    .into_iter()
                    .try_fold(*state, |state, n| self.at_store(&state, n, Event::Repeat))
            }
            Action::Double(letter) => self.arrives(state, letter, None),
            Action::Lose(letter) => Ok(self.without(state, letter)),
            Action::Poll(switch) => self.at_switch(state, switch, Event::Poll),
            Action::Wake(node) => self.at_store(state, node, Event::Poll),
            Action::Restart(switch) => Ok(self.restart(state, switch)),
            Action::Pass(ns) => Ok(self.pass(state, ns)),
        }
    }

    /// A client sends a packet to a switch.
    fn packet(&mut self, state: &State, switch: u8, writes: bool) -> Result<State, Wrong> {
        if self.app.kind == Kind::Sketch {
            return self.at_switch(state, switch, Event::Packet(0, writes));
        }
        let mut history = History::clone(self.histories.get(state.history));
        let number = history.call(writes);
        let next = State { history: self.histories.add(history), ..*state };
        self.at_switch(&next, switch, Event::Packet(number, writes))
    }

    pub(super) fn without(&mut self, state: &State, letter: u32) -> State {
        let mut all = self.under_way.get(state.under_way).to_vec();
        if let Some(at) = all.iter().position(|l| *l == letter) {
            all.remove(at);
        }
        State { under_way: self.under_way.add(all), ..*state }
    }

    pub(super) fn arrives(&mut self, state: &State, letter: u32, node: Option<u8>) -> Result<State, Wrong> {
        match self.letters.get(letter).to {
            Place::Switch(switch) => self.at_switch(state, switch, Event::Letter(letter)),
            Place::Store => {
                let head = self.head(state) as u8;
                self.at_store(state, node.unwrap_or(head), Event::Letter(letter))
            }
            Place::Node(node) => self.at_store(state, node, Event::Letter(letter)),
        }
    }

    /// The store, or the node, that has requests to look at.
    pub(super) fn due(&self, state: &State) -> Option<u8> {
        let due = |n: &u8| {
            let store = self.stores.get(state.stores[usize::from(*n)]);
            store.serves() && store.image().keys.iter().any(|k| !k.waiting.is_empty() && k.look_ns == 0)
        };
        (0..self.count).find(due)
    }

    fn restart(&mut self, state: &State, switch: u8) -> State {
        let n = usize::from(switch);
        let before = self.switches.get(state.switches[n]).incarnation;
        let incarnation = if self.same_incarnation { before } else { before + 1 };
        let fresh = self.nodes.fresh(switch, incarnation);
        let mut next = *state;
        next.switches[n] = self.switches.add(fresh);
        next
    }

    fn is_fresh(&mut self, state: &State, switch: u8) -> bool {
        let local = self.switches.get(state.switches[usize::from(switch)]).clone();
        *local == self.nodes.fresh(switch, local.incarnation)
    }

    /// Whether both switches use the state of an object, and not both under shared leases.
    fn check_owners(&self, state: &State) -> Result<(), Wrong> {
        let named = self.app.named;
        for object in 0..self.app.kind.objects() {
            let cell = |number, register| self.switches.get(number).cell(self.app, register, object as u64);
            let uses = |number: u32| {
                self.switches.get(number).until_ns[object] > 0 && cell(number, named.grant) != 0
            };
            let shares = |number: u32| named.shared.is_some_and(|shared| cell(number, shared) != 0);
            let all = || state.switches.iter();
            if all().all(|n| uses(*n)) && !all().all(|n| shares(*n)) {
                let why = "both switches have the key under leases that have not ended and are not shared";
                return Err(Wrong { property: ONE_OWNER, why: why.to_string() });
            }
        }
        Ok(())
    }
}

impl Model for World<'_> {
    type State = State;
    type Action = Action;
    type Wrong = Wrong;

    fn starts(&mut self) -> Vec<State> {
        let switches = [0, 1].map(|n| {
            let fresh = self.nodes.fresh(n, 1);
            self.switches.add(fresh)
        });
        let mut stores = [0; NODES];
        for (n, store) in stores::starts(&self.config, self.scope).into_iter().enumerate() {
            stores[n] = self.stores.add(store);
        }
        let (under_way, history) = (self.under_way.add(Vec::new()), self.histories.add(History::default()));
        let Scope { packets: (writes, reads), restarts, doubles, passes, snapshots, .. } = *self.scope;
        let left = Left { writes, reads, restarts, doubles, passes, snapshots };
        let start = |clocks| State { switches, stores, decided: 0, under_way, history, left, clocks };
        (0..self.scope.clocks.len() as u8).map(start).collect()
    }

    fn actions(&mut self, state: &State, out: &mut Vec<Action>) {
        let left = state.left;
        // The switches are alike: the first packet arrives at the first one.
        let first = (left.writes, left.reads) == self.scope.packets;
        for switch in 0..if first { 1 } else { 2 } {
            for (writes, left) in [(true, left.writes), (false, left.reads)] {
                if left > 0 {
                    out.push(Action::Packet { switch, writes });
                }
            }
        }
        let under_way: Arc<Vec<u32>> = self.under_way.get(state.under_way).clone();
        let full = under_way.len() >= self.scope.under_way;
        for (n, letter) in under_way.iter().enumerate() {
            if n > 0 && under_way[n - 1] == *letter {
                continue;
            }
            if self.count > 1 && self.letters.get(*letter).to == Place::Store {
                out.extend(self.servers(state).into_iter().map(|node| Action::DeliverAt(*letter, node)));
            } else {
                out.push(Action::Deliver(*letter));
            }
            if left.doubles > 0 {
                out.push(Action::Double(*letter));
            }
            // A message that never arrives is lost. Only a bound on their number makes a difference.
            if full {
                out.push(Action::Lose(*letter));
            }
        }
        for switch in [0, 1] {
            if self.switches.get(state.switches[usize::from(switch)]).is_due() {
                out.push(Action::Poll(switch));
            }
            if left.restarts > 0 && !self.is_fresh(state, switch) {
                out.push(Action::Restart(switch));
            }
        }
        if self.app.kind == Kind::Sketch && !first {
            let cells = |switch| (0..CELLS).map(move |cell| Action::Generate { switch, cell });
            out.extend([0, 1].into_iter().flat_map(cells));
        }
        out.extend(self.due(state).map(Action::Wake));
        if self.may_decide(state) {
            out.push(Action::Decide);
        }
        out.extend((0..self.count).filter(|n| self.is_behind(state, *n)).map(Action::Learn));
        if left.passes > 0 {
            let (mut all, leases) = self.deadlines(state);
            all.extend(leases.iter().filter_map(|ns| ns.checked_sub(BRINK_NS)).filter(|ns| *ns > 0));
            out.extend(all.into_iter().map(Action::Pass));
        }
    }

    fn step(&mut self, state: &State, action: Action) -> Result<Option<State>, Wrong> {
        let mut before = *state;
        let left = &mut before.left;
        match action {
            Action::Packet { writes: true, .. } => left.writes -= 1,
            Action::Packet { writes: false, .. } => left.reads -= 1,
            Action::Double(_) => left.doubles -= 1,
            Action::Restart(_) => left.restarts -= 1,
            Action::Pass(_) => left.passes -= 1,
            _ => {}
        }
        let mut after = self.apply(&before, action)?;
        if matches!(action, Action::Generate { switch, .. } if self.takes(&before, &after, switch)) {
            let Some(left) = after.left.snapshots.checked_sub(1) else { return Ok(None) };
            after.left.snapshots = left;
        }
        if self.scope.grants > 0 && self.highest_grant(&after) > self.scope.grants {
            return Ok(None);
        }
        // A message without an effect may as well be lost, or still be under way.
        let same = match action {
            Action::Deliver(letter) | Action::DeliverAt(letter, _) => self.without(&before, letter),
            Action::Double(_) => before,
            _ => *state,
        };
        Ok((after != same).then_some(after))
    }

    fn judge(&mut self, state: &State) -> Result<(), Wrong> {
        self.check_owners(state)?;
        self.check_nodes(state)?;
        self.without_faults(|world| world.settles(state))
    }
}

/// An age that the clamp of stamps must exceed: a lease, with all that drift may add.
const _: () = assert!(OLD_NS > LEASE_US as u64 * 1000 * 9 / 8);
