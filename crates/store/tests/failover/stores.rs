//! The nodes of a chain: with clocks of their own, crashes, restarts without memory, cuts, and views that they agree on in one place.

use super::world::{App, Clock, Event, Faults, MS, SECRET, World};
use pointsman_ir::Executor;
use pointsman_store::{Config, Mail, Member, Place, Replica, Timing, View};

/// What goes wrong with nodes.
#[derive(Clone, Copy, Debug)]
pub struct NodeFaults {
    /// Mean time between crashes of a node; 0: none.
    pub crash_ns: u64,
    /// Mean time between cuts of a node from the others, each for up to this time; 0: none.
    pub cut_ns: u64,
    /// A view reaches a node after up to this time.
    pub learn_ns: u64,
    /// Messages between nodes are lost, doubled, and late by up to this time.
    pub loss: f64,
    pub double: f64,
    pub jitter_ns: u64,
    /// Nodes, and how many of them begin.
    pub nodes: usize,
    pub begin: usize,
    /// They do not propose to remove each other: the world says when.
    pub scripted: bool,
}

pub struct Node {
    pub replica: Option<Replica<usize>>,
    pub clock: Clock,
    run: u64,
    /// Until when it is cut from the other nodes.
    pub cut: u64,
}

pub struct Chain {
    pub nodes: Vec<Node>,
    /// The view that all agree on.
    pub view: View,
    pub faults: NodeFaults,
    config: Config,
    /// Views that were agreed on, and nodes that became complete.
    pub changes: u32,
}

fn member(n: usize, run: u64) -> Member {
    Member::new(["a", "b", "c", "d"][n], run).expect("a name")
}

impl Chain {
    pub fn new(config: Config, clocks: &[Clock], faults: NodeFaults) -> Self {
        let view = View::first((0..faults.begin).map(|n| member(n, 1)).collect());
        let nodes = clocks.iter().map(|clock| Node { replica: None, clock: *clock, run: 0, cut: 0 });
        let mut chain = Chain { nodes: nodes.collect(), view, faults, config, changes: 0 };
        (0..faults.nodes).for_each(|n| chain.start(n, 0));
        chain
    }

    /// Starts a node, without memory.
    pub fn start(&mut self, n: usize, now: u64) {
        let node = &mut self.nodes[n];
        node.run += 1;
        node.clock.start = now;
        let timing = Timing {
            beat_ns: 2 * MS,
            suspect_ns: if self.faults.scripted { u64::MAX } else { 12 * MS },
            resend_ns: MS,
            nodes: self.faults.nodes,
        };
        let at = node.clock.read(now);
        let mut replica =
            Replica::new(at, member(n, node.run), self.config.clone(), timing).expect("settings");
        // A later run is in no view before it proposed one.
        replica.set_view(at, self.view.clone()).expect("a view without this run, or the first one");
        node.replica = Some(replica);
    }

    /// The index of a member, if that run lives.
    pub fn index(&self, to: &Member) -> Option<usize> {
        (0..self.nodes.len()).find(|n| *to == member(*n, self.nodes[*n].run))
    }

    /// When the next node has something to do, and which.
    pub fn next(&self, now: u64) -> (u64, usize) {
        let at = |(n, node): (usize, &Node)| {
            let at = node.replica.as_ref().map_or(u64::MAX, |r| node.clock.when(r.deadline()).max(now));
            (at, n)
        };
        self.nodes.iter().enumerate().map(at).min().unwrap_or((u64::MAX, 0))
    }

    /// An input of a node; what it sends, and whether it had all agree on another view.
    pub fn step(
        &mut self,
        n: usize,
        now: u64,
        what: impl FnOnce(&mut Replica<usize>, u64, &mut Mail<usize>),
    ) -> (Mail<usize>, bool) {
        let node = &mut self.nodes[n];
        let mut mail = Mail::default();
        let Some(replica) = &mut node.replica else { return (mail, false) };
        let at = node.clock.read(now);
        what(replica, at, &mut mail);
        replica.flush(at, &mut mail);
        assert_eq!(replica.failure(), None);
        // Compare and swap: its view must be the present one.
        let proposal = replica.take_proposal().filter(|_| replica.view() == Some(&self.view));
        let Some(next) = proposal else { return (mail, false) };
        self.view.allows(&next).unwrap_or_else(|e| panic!("{} -> {next}: {e}", self.view));
        self.view = next;
        self.changes += 1;
        (mail, true)
    }

    /// Whether a node's crash leaves another one with the data.
    pub fn may_crash(&self, n: usize) -> bool {
        let has_data = |m: &Member| {
            self.index(m).is_some_and(|i| {
                let replica = self.nodes[i].replica.as_ref();
                i != n
                    && replica
                        .is_some_and(|r| matches!(r.place(), Place::At(_)) && r.view() == Some(&self.view))
            })
        };
        self.view.chain.iter().any(has_data)
    }
}

impl<'a, E: Executor + Send + Sync> World<'a, E> {
    /// The same with a chain of stores.
    pub fn with_chain(
        app: &'a App<E>,
        config: Config,
        (faults, nodes): (Faults, NodeFaults),
        flows: usize,
        seed: u64,
    ) -> Self {
        let mut world = World::new(app, config.clone(), faults, flows, seed);
        let rates = [world.store_clock, world.nodes[0].clock, world.nodes[1].clock, world.store_clock];
        let config = Config { secret: SECRET, drift_shift: 3, max_keys: 256, ..config };
        world.chain = Some(Chain::new(config, &rates[..nodes.nodes], nodes));
        for n in 0..nodes.nodes {
            for (mean, event) in [(nodes.crash_ns, Event::NodeCrash(n)), (nodes.cut_ns, Event::NodeCut(n))] {
                if mean > 0 {
                    let after = 1 + world.random.below(2 * mean);
                    world.enter(after, event);
                }
            }
        }
        world
    }

    /// A switch's message goes to all nodes, each on its own way.
    pub(super) fn reach_nodes(&mut self, i: usize, payload: &[u8]) {
        let nodes = self.chain.as_ref().map_or(0, |chain| chain.nodes.len());
        for n in 0..nodes {
            let after = self.random.below(self.faults.jitter_ns + 1);
            self.enter(after, Event::AtNode(n, i, payload.to_vec()));
        }
    }

    pub(super) fn node_fault(&mut self, event: Event) {
        let Some(chain) = &mut self.chain else { return };
        let faults = chain.faults;
        match event {
            Event::NodeRestart(n) => {
                chain.start(n, self.now);
                let after = 1 + self.random.below(2 * faults.crash_ns);
                self.enter(after, Event::NodeCrash(n));
            }
            Event::NodeCrash(n) => {
                let crashes = chain.may_crash(n);
                if crashes {
                    chain.nodes[n].replica = None;
                }
                let after = MS + self.random.below(faults.crash_ns);
                self.enter(after, if crashes { Event::NodeRestart(n) } else { Event::NodeCrash(n) });
            }
            Event::NodeCut(n) => {
                chain.nodes[n].cut = self.now + self.random.below(faults.cut_ns);
                let after = 1 + self.random.below(2 * faults.cut_ns);
                self.enter(after, Event::NodeCut(n));
            }
            _ => {}
        }
    }

    /// A store node does something.
    pub(super) fn at_node(
        &mut self,
        n: usize,
        what: impl FnOnce(&mut Replica<usize>, u64, &mut Mail<usize>),
    ) {
        let Some(chain) = &mut self.chain else { return };
        let (mail, changed) = chain.step(n, self.now, what);
        let (faults, nodes) = (chain.faults, chain.nodes.len());
        let own_cut = self.now < chain.nodes[n].cut;
        for (to, bytes) in mail.nodes {
            let index = self.chain.as_ref().and_then(|chain| chain.index(&to));
            let Some(index) = index else { continue };
            if own_cut || self.chain.as_ref().is_some_and(|chain| self.now < chain.nodes[index].cut) {
                continue;
            }
            for _ in 0..1 + u32::from(self.chance(faults.double)) {
                if !self.chance(faults.loss) {
                    let late = if self.chance(0.02) { 20 } else { 1 };
                    let after = 20_000 + self.random.below(faults.jitter_ns * late + 1);
                    self.enter(after, Event::Between(to.clone(), bytes.clone()));
                }
            }
        }
        if changed {
            for n in 0..nodes {
                let after = self.random.below(faults.learn_ns + 1);
                self.enter(after, Event::Learn(n));
            }
        }
        self.answers(mail.switches);
    }
}
