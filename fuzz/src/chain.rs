//! Nodes of a chain: requests of switches, messages that are lost, doubled and overtaken, views, and forged messages with a right digest.

use super::{SECRET, request};
use pointsman_store::{Config, Mail, Member, Place, Replica, Timing, View};
use pointsman_wire::siphash::half_sip_hash;

const NAMES: [&str; 4] = ["a/1", "b/1", "c/1", "d/1"];
/// Messages under way at most: the oldest is lost then.
const ROOM: usize = 64;
/// Between two looks of all nodes at the end.
const STEP_NS: u64 = 11_000_000;

struct Chain {
    nodes: Vec<Replica<u16>>,
    way: Vec<(usize, Vec<u8>)>,
    now: u64,
    /// No message of a node was forged.
    clean: bool,
}

fn index(member: &Member) -> Option<usize> {
    NAMES.iter().position(|name| *name == member.to_string())
}

impl Chain {
    fn new() -> Chain {
        let config = Config { secret: SECRET, max_keys: 6, queue_per_key: 3, ..Config::default() };
        let first: View = "1: a/1 b/1 c/1".parse().expect("a view");
        let node = |name: &&str| {
            let member = name.parse().expect("a member");
            let timing = Timing { nodes: NAMES.len(), ..Timing::default() };
            let mut node = Replica::new(0, member, config.clone(), timing).expect("settings");
            node.set_view(0, first.clone()).expect("the first view");
            node
        };
        let now = config.hold_ns() + 1;
        Chain { nodes: NAMES.iter().map(node).collect(), way: Vec::new(), now, clean: true }
    }

    /// What a node does with an input, and sends then.
    fn step(&mut self, n: usize, input: impl FnOnce(&mut Replica<u16>, u64, &mut Mail<u16>)) {
        let mut mail = Mail::default();
        input(&mut self.nodes[n], self.now, &mut mail);
        self.nodes[n].flush(self.now, &mut mail);
        self.way.extend(mail.nodes.into_iter().filter_map(|(to, bytes)| Some((index(&to)?, bytes))));
        let spare = self.way.len().saturating_sub(ROOM);
        self.way.drain(..spare);
    }

    fn arrives(&mut self, n: usize, bytes: &[u8]) {
        self.step(n, |node, now, _| node.receive_from_node(now, bytes));
    }

    fn wake(&mut self) {
        for n in 0..NAMES.len() {
            self.step(n, |node, now, mail| node.wake(now, mail));
        }
    }

    /// All nodes learn of the view that one of them proposes.
    fn agree(&mut self) {
        let Some(next) = self.nodes.iter_mut().find_map(Replica::take_proposal) else { return };
        for node in &mut self.nodes {
            // A node without the data for its place says so.
            let _ = node.set_view(self.now, next.clone());
        }
    }

    /// The chain's nodes from head to tail.
    fn chain(&self) -> Vec<&Replica<u16>> {
        let mut all: Vec<_> = self.nodes.iter().filter(|n| matches!(n.place(), Place::At(_))).collect();
        all.sort_by_key(|node| node.place());
        all
    }

    /// Each node has what those behind it have, and all have what one says that all have.
    fn check(&self) {
        let stats: Vec<_> = self.chain().iter().map(|node| node.stats()).collect();
        assert!(stats.windows(2).all(|w| w[0].applied >= w[1].applied), "{stats:?}");
        let acked = stats.iter().map(|s| s.acked).max();
        assert!(stats.iter().all(|s| Some(s.applied) >= acked), "{stats:?}");
    }

    /// Without further faults all have the same.
    fn settle(&mut self) {
        for _ in 0..12 {
            self.now += STEP_NS;
            self.wake();
            let mut budget = 1_000;
            while !self.way.is_empty() && budget > 0 {
                budget -= 1;
                let (n, bytes) = self.way.remove(0);
                self.arrives(n, &bytes);
            }
            assert!(budget > 0, "messages without end");
        }
        let chain = self.chain();
        let first = chain.first().expect("a head");
        for node in &chain {
            assert_eq!((node.stats().applied, node.stats().log), (first.stats().applied, 0));
            for key in 0..8 {
                assert_eq!(node.store().value(0, &[key; 4]), first.store().value(0, &[key; 4]));
            }
        }
    }
}

/// A message of a node with these fields, and a right digest.
fn forged(from: u8, view: u8, fields: &[u8]) -> Vec<u8> {
    let name = [b'a' + from % 4];
    let view = u64::from(view);
    let mut bytes =
        [b"PMC2", &1u32.to_be_bytes()[..], &name, &1u64.to_be_bytes(), &view.to_be_bytes()].concat();
    bytes.extend(fields);
    let digest = half_sip_hash(SECRET, &bytes);
    bytes.extend(digest);
    bytes
}

/// Steps of 18 bytes; the fields of a forged message follow its step.
pub fn run(mut data: &[u8]) {
    let mut chain = Chain::new();
    chain.arrives(0, data);
    while let Some((step, rest)) = data.split_first_chunk::<18>() {
        data = rest;
        let [what, which, of_request @ ..] = *step;
        let chosen = usize::from(which) % chain.way.len().max(1);
        match what % 16 {
            0..4 => {
                let bytes = request(&of_request);
                let head = chain.nodes.iter().position(|n| n.place() == Place::At(0)).unwrap_or(0);
                chain.step(head, |node, now, mail| node.receive(now, u16::from(which % 4), &bytes, mail));
            }
            // One arrives, one arrives and stays under way, one is lost.
            4..10 if !chain.way.is_empty() => {
                let (n, bytes) = chain.way.remove(chosen);
                chain.arrives(n, &bytes);
            }
            10 if !chain.way.is_empty() => {
                let (n, bytes) = chain.way[chosen].clone();
                chain.arrives(n, &bytes);
            }
            11 if !chain.way.is_empty() => drop(chain.way.remove(chosen)),
            12 => {
                chain.now += u64::from(which) << 19;
                chain.wake();
            }
            13 => chain.agree(),
            14 if of_request[0] > 0x80 => {
                let (fields, rest) = data.split_at(usize::from(which).min(data.len()));
                data = rest;
                chain.clean = false;
                let to = usize::from(of_request[1] % 4);
                chain.arrives(to, &forged(of_request[2], of_request[3] % 4, fields));
            }
            _ => {}
        }
        if chain.clean {
            chain.check();
        }
    }
    if chain.clean {
        chain.settle();
    }
}
