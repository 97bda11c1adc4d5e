//! The stores: one alone, or the nodes of a chain.

use pointsman_store::{Config, ConfigError, Mail, Member, Outbox, Replica, Store, Timing, View, ViewError};

/// What a store gets.
#[derive(Clone, Debug)]
pub enum Input {
    /// The payload of a switch's datagram.
    Request(usize, Vec<u8>),
    /// A message of another node.
    Between(Vec<u8>),
}

/// What the stores send: to switches, and to nodes.
#[derive(Default)]
pub struct Sent {
    pub switches: Vec<(usize, Vec<u8>)>,
    pub nodes: Vec<(usize, Vec<u8>)>,
}

/// All stores.
pub struct Stores {
    kind: Kind,
    /// What their clocks show at the start: nodes of a chain grant nothing for the first lease.
    since_ns: u64,
}

enum Kind {
    /// Each has a shard.
    Alone(Vec<Store<usize>>),
    Chain(Vec<Replica<usize>>),
}

/// Settings that no store can have.
#[derive(Debug)]
pub enum StoresError {
    Config(ConfigError),
    View(ViewError),
}

impl From<ConfigError> for StoresError {
    fn from(e: ConfigError) -> Self {
        StoresError::Config(e)
    }
}

impl From<ViewError> for StoresError {
    fn from(e: ViewError) -> Self {
        StoresError::View(e)
    }
}

impl Stores {
    /// One store for each shard, or a chain of several for the only shard.
    pub fn new(config: &Config, nodes: usize, shards: u16) -> Result<Stores, StoresError> {
        if nodes < 2 {
            let config = Config { shards, ..config.clone() };
            let all = (0..shards).map(|_| Store::new(config.clone())).collect::<Result<_, _>>()?;
            return Ok(Stores { kind: Kind::Alone(all), since_ns: 0 });
        }
        let members =
            (0..nodes).map(|n| Member::new(&format!("n{n}"), 1)).collect::<Result<Vec<Member>, _>>()?;
        let view = View::first(members.clone());
        let mut all = Vec::new();
        for member in members {
            let timing = Timing { suspect_ns: u64::MAX, nodes, ..Timing::default() };
            let mut replica = Replica::new(0, member, config.clone(), timing)?;
            replica.set_view(0, view.clone())?;
            all.push(replica);
        }
        Ok(Stores { kind: Kind::Chain(all), since_ns: config.hold_ns() + 1 })
    }

    /// The store that takes requests, of the first shard.
    pub fn first(&self) -> Option<&Store<usize>> {
        match &self.kind {
            Kind::Alone(all) => all.first(),
            Kind::Chain(all) => all.first().map(Replica::store),
        }
    }

    /// When the next one has something to do, and which.
    pub fn next(&self) -> (u64, usize) {
        let (at, n) = match &self.kind {
            Kind::Alone(all) => {
                let deadlines = all.iter().enumerate().filter_map(|(n, s)| Some((s.deadline()?, n)));
                deadlines.min().unwrap_or((u64::MAX, 0))
            }
            Kind::Chain(all) => {
                let deadlines = all.iter().enumerate().map(|(n, r)| (r.deadline(), n));
                deadlines.min().unwrap_or((u64::MAX, 0))
            }
        };
        (at.saturating_sub(self.since_ns), n)
    }

    /// A node's input, or none if it is due.
    pub fn step(&mut self, now: u64, n: usize, input: Option<&Input>) -> Sent {
        let mut sent = Sent::default();
        let now = now + self.since_ns;
        match &mut self.kind {
            Kind::Alone(all) => {
                let Some(store) = all.get_mut(n) else { return sent };
                let mut out = Outbox::default();
                match input {
                    Some(Input::Request(from, bytes)) => store.receive(now, *from, bytes, &mut out),
                    _ => store.wake(now, &mut out),
                }
                store.saved();
                sent.switches = out.iter().map(|(to, bytes)| (to, bytes.to_vec())).collect();
            }
            Kind::Chain(all) => {
                let Some(replica) = all.get_mut(n) else { return sent };
                let mut mail = Mail::default();
                match input {
                    Some(Input::Request(from, bytes)) => replica.receive(now, *from, bytes, &mut mail),
                    Some(Input::Between(bytes)) => replica.receive_from_node(now, bytes),
                    None => replica.wake(now, &mut mail),
                }
                replica.flush(now, &mut mail);
                sent.switches = mail.switches.iter().map(|(to, bytes)| (to, bytes.to_vec())).collect();
                let index = |m: &Member| m.name()[1..].parse::<usize>().ok();
                sent.nodes = mail.nodes.into_iter().filter_map(|(m, b)| Some((index(&m)?, b))).collect();
            }
        }
        sent
    }
}
