//! The store, alone or as nodes of a chain, as values.

use super::letter::{FLOW, Letter};
use super::nodes::{Effects, NOW, StoreInput, step_store};
use super::scope::Scope;
use super::world::{Event, State, World};
use super::wrong::{WELL_FORMED, Wrong};
use pointsman_store::{
    Config, Image, KeyImage, Mail, Member, Place as Standing, Replica, ReplicaImage, Role, View,
};

/// Messages of nodes of a chain to each other that are under way at once.
const BETWEEN: usize = 1;
/// Nodes of a chain at most.
pub const NODES: usize = 3;
/// Their names.
pub const NAMES: [&str; NODES] = ["a", "b", "c"];

/// The state of a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreState {
    /// It is alone.
    Alone(Image<u8>),
    /// It is a node of a chain.
    Node(Box<ReplicaImage<u8>>),
}

impl StoreState {
    /// Its keys.
    pub fn image(&self) -> &Image<u8> {
        match self {
            StoreState::Alone(image) => image,
            StoreState::Node(node) => &node.store,
        }
    }

    /// The same with other keys.
    pub fn with(&self, image: Image<u8>) -> StoreState {
        match self {
            StoreState::Alone(_) => StoreState::Alone(image),
            StoreState::Node(node) => {
                let mut node = node.clone();
                node.store = image;
                StoreState::Node(node)
            }
        }
    }

    /// Whether it takes requests.
    pub fn serves(&self) -> bool {
        match self {
            StoreState::Alone(_) => true,
            StoreState::Node(node) => node.place == Standing::At(0),
        }
    }

    /// The node of a chain.
    pub fn node(&self) -> Option<&ReplicaImage<u8>> {
        match self {
            StoreState::Alone(_) => None,
            StoreState::Node(node) => Some(node),
        }
    }
}

/// A node in its only run.
fn member(n: usize) -> Member {
    match Member::new(NAMES[n], 1) {
        Ok(member) => member,
        Err(e) => unreachable!("{e}"),
    }
}

/// A view of a scope.
pub fn view(text: &str) -> View {
    match text.parse() {
        Ok(view) => view,
        Err(e) => unreachable!("{text}: {e}"),
    }
}

/// The key of the clients' packets, which no switch has.
fn known() -> KeyImage<u8> {
    KeyImage {
        object: 0,
        key: FLOW.into(),
        value: [0; 4].into(),
        owner: None,
        grant: 0,
        sequence: 0,
        ending: false,
        session: false,
        role: Role::State,
        until_ns: 0,
        keep_ms: 0,
        readers: Vec::new(),
        look_ns: 0,
        waiting: Vec::new(),
    }
}

/// The first state of each store of a scope.
pub fn starts(config: &Config, scope: &Scope) -> Vec<StoreState> {
    let views = scope.views;
    let keys = if scope.known { vec![known()] } else { Vec::new() };
    let empty = Image { keys, peers: Vec::new(), hold_ns: 0, last_grant: 0, sessions: Vec::new() };
    let Some(first) = views.first() else { return vec![StoreState::Alone(empty)] };
    let node = |n: usize| {
        let replica = Replica::new(NOW, member(n), config.clone(), pointsman_store::Timing::default());
        let image = replica.ok().and_then(|mut replica| {
            replica.set_view(NOW, view(first)).ok()?;
            replica.flush(NOW, &mut Mail::default());
            replica.image(NOW)
        });
        match image {
            // Nothing was granted before.
            Some(mut image) => {
                image.store = empty.clone();
                StoreState::Node(Box::new(image))
            }
            None => unreachable!("a first view without pools"),
        }
    };
    (0..NODES).map(node).collect()
}

/// One step of a store.
pub fn step(config: &Config, n: usize, state: &StoreState, input: StoreInput<'_>) -> (StoreState, Effects) {
    let node = match state {
        StoreState::Alone(image) => return step_store(config, image, input),
        StoreState::Node(node) => node,
    };
    let mut replica = match Replica::restored(NOW, member(n), config, node) {
        Ok(replica) => replica,
        Err(e) => unreachable!("a state that this node gave: {e}"),
    };
    let (mut mail, mut effects) = (Mail::default(), Effects::default());
    match input {
        StoreInput::Letter(letter) => replica.receive(NOW, letter.switch, &letter.payload(NOW), &mut mail),
        StoreInput::Between(bytes) => replica.receive_from_node(NOW, bytes),
        StoreInput::Wake => replica.due(NOW, &mut mail),
        StoreInput::Repeat => replica.repeat(),
        StoreInput::View(text) => {
            if let Err(e) = replica.set_view(NOW, view(text)) {
                effects.wrong = Some(format!("node {} refuses view {text}: {e}", NAMES[n]));
            }
        }
    }
    replica.flush(NOW, &mut mail);
    if let Some(e) = replica.failure() {
        effects.wrong = Some(format!("node {}: {e}", NAMES[n]));
    }
    effects.sends(&mail.switches);
    for (to, bytes) in &mail.nodes {
        if let Some(to) = NAMES.iter().position(|name| *name == to.name()) {
            effects.letters.push(Letter::between(to as u8, bytes));
        }
    }
    match replica.image(NOW) {
        Some(after) => (StoreState::Node(Box::new(after)), effects),
        None => unreachable!("a store without pools"),
    }
}

impl World<'_> {
    /// Whether one more message may be under way. Messages between nodes have a bound of their own; acknowledgements need none.
    pub(super) fn has_room(&self, all: &[u32], letter: &Letter) -> bool {
        let between = |letter: &Letter| matches!(letter.to, super::letter::Place::Node(_));
        let ours = between(letter);
        let bound = if ours && self.bound < usize::MAX { BETWEEN } else { self.bound };
        let alike = all.iter().filter(|l| between(self.letters.get(**l)) == ours).count();
        alike < bound || pointsman_store::is_status(letter.bytes())
    }

    /// The node that takes requests in the view that was decided last; 0 for a store alone.
    pub(super) fn head(&self, state: &State) -> usize {
        let views = self.scope.views;
        let head = views.get(usize::from(state.decided)).map(|text| view(text).chain[0].name().to_string());
        head.and_then(|head| NAMES.iter().position(|name| *name == head)).unwrap_or(0)
    }

    /// Nodes that take requests, as they see it.
    pub(super) fn servers(&self, state: &State) -> Vec<u8> {
        let serves = |n: &u8| self.stores.get(state.stores[usize::from(*n)]).serves();
        (0..self.count).filter(serves).collect()
    }

    /// Whether the next view may be decided now: a node becomes the tail only when the tail proposes it.
    pub(super) fn may_decide(&self, state: &State) -> bool {
        let next = usize::from(state.decided) + 1;
        let Some(text) = self.scope.views.get(next) else { return false };
        let (present, next) = (view(self.scope.views[next - 1]), view(text));
        if present.joining.is_none() || next.chain.last() != present.joining.as_ref() {
            return true;
        }
        let nodes = || state.stores.iter().map(|n| self.stores.get(*n)).filter(|s| s.node().is_some());
        nodes()
            .any(|s| s.node().is_some_and(|node| node.view.as_ref() == Some(&present) && node.has_handed()))
    }

    /// Whether a node has not learned of the view that was decided last.
    pub(super) fn is_behind(&self, state: &State, n: u8) -> bool {
        let number = u64::from(state.decided) + 1;
        let node = self.stores.get(state.stores[usize::from(n)]);
        node.node().is_some_and(|node| node.view.as_ref().is_none_or(|view| view.number < number))
    }

    /// Whether a node has a place in the view that was decided last, and knows it.
    pub(super) fn is_present(&self, state: &State, n: u8) -> bool {
        let node = self.stores.get(state.stores[usize::from(n)]);
        let number = u64::from(state.decided) + 1;
        node.node().is_some_and(|node| {
            node.view.as_ref().is_some_and(|view| view.number == number) && node.place != Standing::Idle
        })
    }

    /// Whether a node of the present chain waits for others.
    pub(super) fn waits(&self, state: &State, n: u8) -> bool {
        let waiting = |node: &ReplicaImage<u8>| node.place != Standing::Joining && node.is_waiting();
        self.is_present(state, n) && self.stores.get(state.stores[usize::from(n)]).node().is_some_and(waiting)
    }

    /// Acknowledgements between nodes arrive at once.
    pub(super) fn acknowledge(&mut self, mut state: State) -> Result<State, Wrong> {
        loop {
            let all = self.under_way.get(state.under_way).clone();
            let status = |l: &&u32| self.is_status(**l);
            let Some(letter) = all.iter().find(status).copied() else { return Ok(state) };
            state = self.without(&state, letter);
            state = self.arrives(&state, letter, None)?;
        }
    }

    fn is_status(&self, letter: u32) -> bool {
        let letter = self.letters.get(letter);
        matches!(letter.to, super::letter::Place::Node(_)) && pointsman_store::is_status(letter.bytes())
    }

    /// A node learns of the view that was decided last.
    pub(super) fn learns(&mut self, state: &State, n: u8) -> Result<State, Wrong> {
        self.at_store(state, n, Event::View(state.decided))
    }

    /// What a chain must never do, apart from what switches notice.
    pub(super) fn check_nodes(&self, state: &State) -> Result<(), Wrong> {
        let nodes = state.stores.iter().filter_map(|n| self.stores.get(*n).node().cloned());
        let heads = nodes.filter(|node| node.place == Standing::At(0));
        let numbers: Vec<u64> = heads.filter_map(|node| node.view.map(|view| view.number)).collect();
        if numbers.iter().enumerate().any(|(n, view)| numbers[n + 1..].contains(view)) {
            return Err(Wrong { property: WELL_FORMED, why: "two heads in one view".to_string() });
        }
        Ok(())
    }
}
