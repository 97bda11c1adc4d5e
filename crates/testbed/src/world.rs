//! Switches, stores and what is on its way between them.

mod datagrams;
mod settings;

use crate::program::{App, Build};
use crate::stores::{Input, Stores, StoresError};
use crate::times::Times;
use pointsman_engine::Engine;
use pointsman_net::random::{Part, Stream};
use pointsman_stf::Rig;
use pointsman_store::{Config, FRONT as HEAD, Stats};
use pointsman_v1model::{Arrived, Output, Switch, SwitchConfig, Time};
pub use settings::{Faults, Snapshots};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// Ports of a switch.
const STORE: u32 = 2;
const BUFFER: u32 = 3;
/// Bytes of Ethernet, IPv4 and UDP in front of a message between stores.
const FRONT: usize = 42;
/// Room in front of a packet.
const ROOM: usize = 32;
/// Passes that one packet may cause.
const BUDGET: usize = 1000;
/// The key of digests.
const SECRET: [u8; 8] = *b"a secret";
/// The length of a key with its value in messages lies before the key.
const KEY_LENGTH: usize = 44;
/// Clocks of switches begin with this.
const START_NS: u64 = 1_000_000;

/// A run.
pub struct Setup<'a> {
    /// What the switches run.
    pub build: &'a Build,
    /// Of the stores. The secret is the testbed's.
    pub store: Config,
    /// 1, or the nodes of a chain.
    pub stores: usize,
    /// Stores that share the keys, as the program is compiled; with a chain 1.
    pub shards: u16,
    /// Delays.
    pub times: Times,
    /// The time after which a write, or a cell of a snapshot, is sent again, in nanoseconds.
    pub resend_ns: u64,
    /// The rest of a lease from which on it is renewed, in nanoseconds.
    pub renew_ns: u64,
    /// Writes that the buffer holds.
    pub buffer: u32,
    /// Share of the requests of switches that are lost.
    pub loss: f64,
    /// Messages between switches and stores, and those between stores, take up to this much longer, each as long as chance has it.
    pub disorder_ns: u64,
    /// Of an application that has them.
    pub snapshots: Snapshots,
    /// In addition to loss and disorder.
    pub faults: Faults,
    /// Of all that is random.
    pub seed: u64,
}

impl<'a> Setup<'a> {
    /// One store without faults; writes are sent again after 2 ms, and leases renewed half a second before they end.
    pub fn new(build: &'a Build, seed: u64) -> Self {
        Setup {
            build,
            store: Config::default(),
            stores: 1,
            shards: 1,
            times: Times::default(),
            resend_ns: 2_000_000,
            renew_ns: 500_000_000,
            buffer: 8192,
            loss: 0.0,
            disorder_ns: 0,
            snapshots: Snapshots::default(),
            faults: Faults::default(),
            seed,
        }
    }
}

/// Bytes at the ports of the programmable switches, in and out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Of packets from and to hosts.
    pub hosts: u64,
    /// Of messages from and to stores.
    pub stores: u64,
}

/// What the caller has to see to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A frame has reached a host, from this port of this switch.
    AtHost {
        /// The switch.
        switch: usize,
        /// Its port.
        port: u32,
        /// The frame.
        frame: Vec<u8>,
    },
    /// The time of one of the caller's own events.
    Timer(u64),
}

/// Why a testbed does not come up.
#[derive(Debug)]
pub enum TestbedError {
    /// A switch refuses its program or its settings.
    Switch(String),
    /// Settings that no store can have.
    Stores(String),
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TestbedError::Switch(why) => write!(f, "a switch does not start: {why}"),
            TestbedError::Stores(why) => write!(f, "the stores do not start: {why}"),
        }
    }
}

impl Error for TestbedError {}

impl From<StoresError> for TestbedError {
    fn from(e: StoresError) -> Self {
        TestbedError::Stores(match e {
            StoresError::Config(e) => e.to_string(),
            StoresError::View(e) => e.to_string(),
        })
    }
}

pub(crate) fn refused(why: impl fmt::Display) -> TestbedError {
    TestbedError::Switch(why.to_string())
}

enum Event {
    AtSwitch { switch: usize, start: u32, port: u32, frame: Vec<u8> },
    AtHost { switch: usize, port: u32, frame: Vec<u8> },
    AtStore(usize, Input),
    Serve(usize, Input),
    Timer(u64),
}

/// A way of frames, with its numbers of switches, ports and stores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    FromHost(usize, u32),
    ToHost(usize, u32),
    ToStore(usize),
    FromStore(usize, usize),
    Between(usize, usize),
}

struct Node {
    rig: Option<Rig<Engine>>,
    incarnation: u32,
    /// When its clock showed [`START_NS`].
    since: u64,
}

/// The testbed, with its time.
pub struct Testbed<'a> {
    setup: Setup<'a>,
    now: u64,
    calendar: BTreeMap<(u64, u64), Event>,
    entered: u64,
    nodes: Vec<Node>,
    stores: Stores,
    /// When each core of each store is free.
    free: Vec<Vec<u64>>,
    random: Stream,
    /// When the last frame of each way arrives: none overtakes another one.
    ways: BTreeMap<Way, u64>,
    /// When each port to hosts is free, in picoseconds.
    ports: BTreeMap<(usize, u32), u64>,
    bytes: Bytes,
    /// Requests that switches sent, and those of them that were lost.
    requests: (u64, u64),
}

impl<'a> Testbed<'a> {
    /// Two switches that were just started, and their stores.
    ///
    /// # Errors
    /// A switch refuses the program or its settings, or the stores do.
    pub fn new(setup: Setup<'a>) -> Result<Self, TestbedError> {
        let config = Config { secret: SECRET, ..setup.store.clone() };
        let stores = Stores::new(&config, setup.stores, setup.shards)?;
        let node = || Node { rig: None, incarnation: 0, since: 0 };
        let mut testbed = Testbed {
            now: 0,
            calendar: BTreeMap::new(),
            entered: 0,
            nodes: vec![node(), node()],
            stores,
            free: vec![vec![0; setup.times.cores.max(1)]; setup.stores.max(usize::from(setup.shards)).max(1)],
            random: Stream::new(setup.seed, Part::Link, 0),
            ways: BTreeMap::new(),
            ports: BTreeMap::new(),
            bytes: Bytes::default(),
            requests: (0, 0),
            setup,
        };
        testbed.start(0)?;
        testbed.start(1)?;
        Ok(testbed)
    }

    /// A switch starts again, empty, as a new incarnation.
    ///
    /// # Errors
    /// It refuses the program or its settings.
    pub fn start(&mut self, n: usize) -> Result<(), TestbedError> {
        let Setup { build, .. } = &self.setup;
        let node = &mut self.nodes[n];
        node.incarnation += 1;
        node.since = self.now;
        let nanoseconds = build.app != App::Balancer;
        let config = SwitchConfig { nanoseconds, max_descendants: None, ..SwitchConfig::default() };
        let switch = Switch::with_shared(config, build.loader.load()).map_err(refused)?;
        let mut rig = Rig::with(build.program.clone(), switch).map_err(refused)?;
        for entry in build.app.entries(build.plain, (0, 1)) {
            match entry.split_once(' ') {
                Some((table, action)) if !entry.contains("->") => rig.set_default(table, action),
                _ => rig.add(&entry),
            }
            .map_err(refused)?;
        }
        settings::reset_session(&mut rig, build.app)?;
        if !build.plain {
            settings::configure(&mut rig, &self.setup, n, node.incarnation)?;
        }
        node.rig = Some(rig);
        Ok(())
    }

    /// A switch loses its power.
    pub fn crash(&mut self, n: usize) {
        self.nodes[n].rig = None;
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Bytes so far.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Requests that switches sent, and those of them that were lost on their way.
    pub fn requests(&self) -> (u64, u64) {
        self.requests
    }

    /// What the store that takes requests has counted.
    pub fn store_stats(&self) -> Stats {
        self.stores.first().map_or_else(Stats::default, pointsman_store::Store::stats)
    }

    /// Keys of the store that takes requests.
    pub fn store_keys(&self) -> usize {
        self.stores.first().map_or(0, pointsman_store::Store::keys)
    }

    /// Changes an entry of a table of a switch, or adds it.
    ///
    /// # Errors
    /// The program has no such table or action, or the switch does not run.
    pub fn set_entry(&mut self, n: usize, entry: &str) -> Result<(), TestbedError> {
        let rig = self.nodes[n].rig.as_mut().ok_or_else(|| refused("it does not run"))?;
        rig.set(entry).map_err(refused)
    }

    /// A register of a switch, if that runs.
    pub fn register(&mut self, n: usize, name: &str, index: u64) -> Option<u64> {
        let rig = self.nodes[n].rig.as_mut()?;
        rig.register(name, index).ok().map(|bits| bits.low_u64())
    }

    /// When a frame arrives that would do so at a time if no other one were on its way.
    fn in_order(&mut self, way: Way, at: u64) -> u64 {
        let last = self.ways.entry(way).or_insert(0);
        *last = at.max(*last);
        *last
    }

    fn enter(&mut self, at: u64, event: Event) {
        self.entered += 1;
        self.calendar.insert((at.max(self.now), self.entered), event);
    }

    /// Enters one of the caller's events.
    pub fn timer(&mut self, at: u64, what: u64) {
        self.enter(at, Event::Timer(what));
    }

    /// A host behind the core sends a frame at a time, which reaches this port of a switch, after a while in addition.
    pub fn send(&mut self, at: u64, (switch, port): (usize, u32), frame: Vec<u8>, more_ns: u64) {
        let way = self.setup.times.end(&mut self.random) + self.setup.times.near_ns(frame.len());
        let start = self.nodes[switch].incarnation;
        let at = self.in_order(Way::FromHost(switch, port), at + way);
        self.enter(at + more_ns, Event::AtSwitch { switch, start, port, frame });
    }

    /// The next thing that the caller has to see to, if it happens by `until`.
    pub fn next(&mut self, until: u64) -> Option<Happened> {
        loop {
            let poll = |n: usize| {
                let node = &self.nodes[n];
                let at = node.rig.as_ref().and_then(|rig| rig.switch.next_poll());
                at.map_or(u64::MAX, |t| (t.0.saturating_sub(START_NS) + node.since).max(self.now))
            };
            let polls = [poll(0), poll(1)];
            let (due, store) = self.stores.next();
            let due = due.max(self.now);
            let event = self.calendar.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            let next = event.min(due).min(polls[0]).min(polls[1]);
            if next > until {
                self.now = until.max(self.now);
                return None;
            }
            self.now = next;
            if event == next {
                let Some((_, event)) = self.calendar.pop_first() else { continue };
                if let Some(happened) = self.happens(event) {
                    return Some(happened);
                }
            } else if due == next {
                self.serve(store, None);
            } else {
                self.at_switch(usize::from(polls[0] != next), None);
            }
        }
    }

    fn happens(&mut self, event: Event) -> Option<Happened> {
        match event {
            Event::AtSwitch { switch, start, port, frame } => {
                let ours = if port == STORE { &mut self.bytes.stores } else { &mut self.bytes.hosts };
                *ours += frame.len() as u64;
                if self.nodes[switch].incarnation == start {
                    self.at_switch(switch, Some((port, frame)));
                }
            }
            Event::AtHost { switch, port, frame } => {
                return Some(Happened::AtHost { switch, port, frame });
            }
            Event::AtStore(n, input) => {
                let core = core_of(&input, self.free[n].len());
                let free = &mut self.free[n][core];
                if free.saturating_sub(self.now) > self.setup.times.ring * self.setup.times.store_ns {
                    self.requests.1 += u64::from(matches!(input, Input::Request(..)));
                    return None;
                }
                *free = (*free).max(self.now) + self.setup.times.store_ns;
                let at = *free;
                self.enter(at, Event::Serve(n, input));
            }
            Event::Serve(n, input) => self.serve(n, Some(&input)),
            Event::Timer(what) => return Some(Happened::Timer(what)),
        }
        None
    }

    fn at_switch(&mut self, n: usize, arrives: Option<(u32, Vec<u8>)>) {
        let node = &mut self.nodes[n];
        let Some(rig) = &mut node.rig else { return };
        let now = Time(self.now - node.since + START_NS);
        let mut out: Vec<Output> = Vec::new();
        if let Some((port, frame)) = arrives {
            let mut buffer = [&[0; ROOM][..], &frame].concat();
            let arrived = Arrived { port, buffer: &mut buffer, start: ROOM };
            rig.switch.process(now, BUDGET, &mut [arrived], &mut out);
        }
        while rig.switch.poll(now, BUDGET, &mut out).more {}
        let times = self.setup.times;
        for output in out {
            let Output::Port(port, frame) = output else { continue };
            let way = times.switch_ns + times.near_ns(frame.len()) + times.end(&mut self.random);
            let at = self.now + way;
            if port != STORE {
                let Some(waits) = self.leaves(n, port) else { continue };
                self.bytes.hosts += frame.len() as u64;
                let at = at + waits;
                let at = self.in_order(Way::ToHost(n, port), at);
                self.enter(at, Event::AtHost { switch: n, port, frame });
                continue;
            }
            self.bytes.stores += frame.len() as u64;
            self.requests.0 += 1;
            let lost = self.random.happens(self.setup.loss);
            let Some((store, message)) = datagrams::request(&frame).filter(|_| !lost) else {
                self.requests.1 += 1;
                continue;
            };
            let at = self.in_order(Way::ToStore(n), at);
            // The address says which shard.
            let shard = store.min(usize::from(self.setup.shards) - 1);
            for _ in 0..self.copies() {
                let at = at + self.late();
                self.enter(at, Event::AtStore(shard, Input::Request(n, message.to_vec())));
            }
        }
    }

    /// How long a frame waits until it leaves by a port with a limited rate; `None`: it is dropped.
    fn leaves(&mut self, switch: usize, port: u32) -> Option<u64> {
        let Some((rate_per_s, room)) = self.setup.times.port else { return Some(0) };
        // In picoseconds: at such rates a nanosecond is much.
        let (now, step) = (self.now * 1000, (1e12 / rate_per_s) as u64);
        let free = self.ports.entry((switch, port)).or_insert(0);
        let starts = (*free).max(now);
        if starts - now > room * step {
            return None;
        }
        *free = starts + step;
        Some((starts - now) / 1000)
    }

    /// How often a message arrives.
    fn copies(&mut self) -> usize {
        1 + usize::from(self.random.happens(self.setup.faults.doubled))
    }

    fn late(&mut self) -> u64 {
        if self.setup.disorder_ns == 0 { 0 } else { self.random.below(self.setup.disorder_ns) }
    }

    fn serve(&mut self, n: usize, input: Option<&Input>) {
        let sent = self.stores.step(self.now, n, input);
        let times = self.setup.times;
        for (to, bytes) in sent.nodes {
            let ends = times.end(&mut self.random) + times.end(&mut self.random);
            let at = self.now + ends + times.far_ns(FRONT + bytes.len());
            let at = self.in_order(Way::Between(n, to), at) + self.late();
            self.enter(at, Event::AtStore(to, Input::Between(bytes)));
        }
        for (switch, bytes) in sent.switches {
            let frame = datagrams::answer(self.setup.build.ipv6, switch, &bytes);
            let at = self.now + times.end(&mut self.random) + times.near_ns(frame.len());
            let at = self.in_order(Way::FromStore(n, switch), at);
            let start = self.nodes[switch].incarnation;
            if self.random.happens(self.setup.faults.answers_lost) {
                continue;
            }
            for _ in 0..self.copies() {
                let at = at + self.late();
                self.enter(at, Event::AtSwitch { switch, start, port: STORE, frame: frame.clone() });
            }
        }
    }
}

/// The core that handles an input: a key has one.
fn core_of(input: &Input, cores: usize) -> usize {
    let Input::Request(_, bytes) = input else { return 0 };
    let length = bytes.get(KEY_LENGTH + 1).copied().map_or(0, usize::from);
    let key = bytes.get(HEAD..HEAD + length).unwrap_or_default();
    pointsman_wire::crc::crc32(key) as usize % cores.max(1)
}

#[cfg(test)]
mod asymmetric;
#[cfg(test)]
mod balancer;
#[cfg(test)]
mod objects;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tests;
