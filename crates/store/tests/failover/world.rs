//! Two switches that run `flowcount` or `napt`, a store, links that lose, double and reorder, switches that crash and restart: in virtual time.

use super::history::Operation;
use super::nat::{self, Bindings};
use super::stores::Chain;
use pointsman_ir::{Executor, Program};
use pointsman_net::Loader;
use pointsman_stf::Rig;
use pointsman_stf::entries::find_extern;
use pointsman_store::{Config, Member, Outbox, Store};
use pointsman_testkit::compile::{compile_text, own_includes, own_libraries, own_program};
use pointsman_testkit::packet::{Packet, check_checksums};
use pointsman_v1model::{Arrived, CloneSession, Output, QueueConfig, Switch, SwitchConfig, Time};
use pointsman_wire::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const SECRET: [u8; 8] = *b"a secret";
pub const MS: u64 = 1_000_000;
pub const IN: u32 = 0;
pub const OUT: u32 = 1;
const STORE: u32 = 2;
const BUFFER: u32 = 3;
/// Bytes of the longest frame to the store.
const MTU: usize = 1514;
/// Bytes of Ethernet, IPv4 and UDP in front of a message.
const FRONT: usize = 42;

/// One of our programs, with settings of the library; every replacement in the library must apply.
fn program(name: &str, settings: &str, changes: &[(&str, &str)]) -> Arc<Program> {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).expect("readable");
    let part = |name: &str| read(own_libraries().join("pointsman/redplane").join(name));
    let library = read(own_libraries().join("pointsman/redplane.p4"));
    let parts = ["request.p4", "answer.p4", "state.p4", "claim.p4", "depart.p4"];
    let mut library = parts.iter().fold(library, |library, name| {
        library.replace(&format!("#include <pointsman/redplane/{name}>"), &part(name))
    });
    for (from, to) in changes {
        assert_eq!(library.matches(from).count(), 1, "{from}");
        library = library.replace(from, to);
    }
    let settings = format!("#define REDPLANE_DRIFT_SHIFT 3\n{settings}");
    let text = read(own_program(name));
    let text = text.replace("#include <pointsman/redplane.p4>", &format!("{settings}{library}"));
    compile_text("main.p4", &text, &[&own_includes(), &own_libraries()]).unwrap_or_else(|e| panic!("{e:?}"))
}

/// A program with its executor, which all switches share.
pub struct App<E> {
    program: Arc<Program>,
    /// Whether it is `napt`, instead of `flowcount`.
    nat: bool,
    loader: Loader<E>,
}

impl<E> App<E> {
    /// `flowcount` with these settings of the library and changes to it.
    pub fn new(settings: &str, changes: &[(&str, &str)]) -> Self {
        App { program: program("flowcount", settings, changes), nat: false, loader: Loader::default() }
    }

    pub fn nat(settings: &str) -> Self {
        App { program: program("napt", settings, &[]), nat: true, loader: Loader::default() }
    }
}

/// What goes wrong in a run.
#[derive(Clone)]
pub struct Faults {
    pub loss: f64,
    pub double: f64,
    /// Messages between switch and store take this long, and up to `jitter_ns` more.
    pub jitter_ns: u64,
    /// Mean time between crashes of a switch; 0: none.
    pub crash_ns: u64,
    /// Mean time between losses of a switch's link to the store, each for up to half of this time; 0: none.
    pub cut_ns: u64,
    /// Mean time between changes of a flow's route; 0: none.
    pub reroute_ns: u64,
    /// Share of packets that take the other switch.
    pub astray: f64,
    /// Clocks run fast and slow, at the ends of what drift allows.
    pub drift: bool,
    /// Share of packets that change the state.
    pub writes: f64,
    pub flows: usize,
    /// A restarted switch has its old incarnation: a mistake.
    pub same_incarnation: bool,
}

impl Faults {
    pub const NONE: Faults = Faults {
        loss: 0.0,
        double: 0.0,
        jitter_ns: 0,
        crash_ns: 0,
        cut_ns: 0,
        reroute_ns: 0,
        astray: 0.0,
        drift: false,
        writes: 0.5,
        flows: 2,
        same_incarnation: false,
    };
}

pub enum Event {
    /// A packet of a flow is sent.
    Input(usize),
    /// A message arrives at a switch that has not crashed since it was sent.
    AtSwitch(usize, Vec<u8>),
    AtStore(usize, Vec<u8>),
    Reroute(usize),
    Crash(usize),
    Cut(usize),
    Restart(usize),
    /// A switch's message arrives at a store node.
    AtNode(usize, usize, Vec<u8>),
    /// A message arrives at a store node that has not restarted since.
    Between(Member, Vec<u8>),
    /// A store node learns of the present view.
    Learn(usize),
    NodeCrash(usize),
    NodeRestart(usize),
    NodeCut(usize),
}

/// A clock with a rate of its own: local nanoseconds for each million of true ones.
#[derive(Clone, Copy)]
pub struct Clock {
    pub start: u64,
    rate: u64,
}

impl Clock {
    pub fn read(self, now: u64) -> u64 {
        MS + (now - self.start) * self.rate / 1_000_000
    }

    /// The first time at which the clock shows `local`.
    pub fn when(self, local: u64) -> u64 {
        self.start + (local.saturating_sub(MS) * 1_000_000).div_ceil(self.rate)
    }
}

pub(super) struct Node<E: Executor> {
    /// Until when its link to the store is cut.
    cut: u64,
    rig: Option<Rig<E>>,
    pub clock: Clock,
    incarnation: u32,
}

/// A flow: where its packets go, and what they showed.
pub struct Flow {
    route: usize,
    pub history: Vec<Operation>,
}

pub struct World<'a, E: Executor> {
    app: &'a App<E>,
    pub now: u64,
    calendar: BTreeMap<(u64, u64), Event>,
    entered: u64,
    pub(super) random: Random,
    pub(super) faults: Faults,
    pub(super) nodes: [Node<E>; 2],
    pub store: Store<usize>,
    pub(super) store_clock: Clock,
    /// Instead of the store.
    pub chain: Option<Chain>,
    outbox: Outbox<usize>,
    pub flows: Vec<Flow>,
    /// Of `napt`.
    pub bindings: Option<Bindings>,
    /// Time between a flow's packets, and the share of those that write.
    pub gap_ns: u64,
    pub writes: f64,
    /// Bytes at the end of a packet.
    pub padding: usize,
    end: u64,
    /// Packets that left twice, or whose bytes were wrong.
    pub wrong: Vec<String>,
}

impl<'a, E: Executor + Send + Sync> World<'a, E> {
    pub fn new(app: &'a App<E>, config: Config, faults: Faults, flows: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        // 1/9 is a little less than the drift that is allowed for.
        let mut rate = || {
            if faults.drift { [888_889, 1_000_000, 1_111_111][random.below(3) as usize] } else { 1_000_000 }
        };
        let clocks = [rate(), rate(), rate()].map(|rate| Clock { start: 0, rate });
        let config = Config { secret: SECRET, drift_shift: 3, max_keys: 256, ..config };
        let node = |clock| Node { cut: 0, rig: None, clock, incarnation: 0 };
        let mut world = World {
            app,
            now: 0,
            calendar: BTreeMap::new(),
            entered: 0,
            random,
            nodes: [node(clocks[0]), node(clocks[1])],
            store: Store::new(config).expect("settings"),
            store_clock: clocks[2],
            chain: None,
            outbox: Outbox::default(),
            flows: (0..flows).map(|_| Flow { route: 0, history: Vec::new() }).collect(),
            bindings: app.nat.then(|| Bindings::new(flows)),
            gap_ns: MS / 4,
            writes: faults.writes,
            padding: 0,
            end: 0,
            wrong: Vec::new(),
            faults,
        };
        world.start(0);
        world.start(1);
        world
    }

    pub(super) fn enter(&mut self, after: u64, event: Event) {
        self.entered += 1;
        self.calendar.insert((self.now + after, self.entered), event);
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        (self.random.below(1 << 20) as f64) < share * f64::from(1 << 20)
    }

    fn start(&mut self, i: usize) {
        let node = &mut self.nodes[i];
        if node.incarnation == 0 || !self.faults.same_incarnation {
            node.incarnation += 1;
        }
        node.clock.start = self.now;
        let config = SwitchConfig { nanoseconds: true, max_descendants: None, ..SwitchConfig::default() };
        let switch = Switch::with_shared(config, self.app.loader.load()).expect("settings");
        let mut rig = Rig::with(self.app.program.clone(), switch).expect("a switch");
        let settings = format!(
            "configure(switch_id={}, incarnation={}, secret=0x{}, address=10.9.0.{}, store=10.9.1.1, mac_src=0x02, mac_dst=0x04, \
             port={STORE}, ticks=1000, renew=5000000)",
            i,
            node.incarnation,
            SECRET.iter().map(|b| format!("{b:02x}")).collect::<String>(),
            i + 1,
        );
        rig.set_default("redplane_config", &settings).expect("the settings");
        let route = format!("routes prefix=10.1.0.0/16 -> forward(port={OUT})");
        let entries = if self.app.nat { &nat::ENTRIES[..] } else { &[route.as_str()] };
        entries.iter().for_each(|entry| rig.add(entry).expect("an entry"));
        let queue = QueueConfig { delay_ns: 2 * MS, depth_packets: 8192, ..QueueConfig::default() };
        rig.switch.configure_queue(BUFFER, None, queue).expect("a queue");
        let session = CloneSession {
            replicas: vec![pointsman_v1model::Replica { port: BUFFER, instance: 0 }],
            ..CloneSession::default()
        };
        rig.state().replication.insert_session(100, session).expect("a session");
        node.rig = Some(rig);
    }

    /// Lets the flows send for some time, and the network settle for a fifth of a second.
    pub fn run(&mut self, duration: u64) {
        self.end = self.now + duration;
        for flow in 0..self.flows.len() {
            self.enter(flow as u64 * 1000, Event::Input(flow));
            if self.faults.reroute_ns > 0 {
                self.enter(self.faults.reroute_ns, Event::Reroute(flow));
            }
        }
        for i in 0..2 {
            for (mean, event) in
                [(self.faults.crash_ns, Event::Crash(i)), (self.faults.cut_ns, Event::Cut(i))]
            {
                if mean > 0 {
                    let after = 1 + self.random.below(2 * mean);
                    self.enter(after, event);
                }
            }
        }
        self.run_until(self.end + 200 * MS);
    }

    pub fn run_until(&mut self, end: u64) {
        loop {
            let polls = [0, 1].map(|i| {
                let node = &self.nodes[i];
                let at = node.rig.as_ref().and_then(|r| r.switch.next_poll());
                at.map_or(u64::MAX, |t| node.clock.when(t.0).max(self.now))
            });
            let node = self.chain.as_ref().map_or((u64::MAX, 0), |chain| chain.next(self.now));
            let wake = self.store.deadline().map_or(u64::MAX, |t| self.store_clock.when(t).max(self.now));
            let event = self.calendar.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            let next = event.min(wake).min(polls[0]).min(polls[1]).min(node.0);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            if event == next {
                let Some((_, event)) = self.calendar.pop_first() else { continue };
                self.happens(event);
            } else if node.0 == next {
                self.at_node(node.1, |replica, at, mail| replica.wake(at, mail));
            } else if wake == next {
                let mut out = std::mem::take(&mut self.outbox);
                self.store.wake(self.store_clock.read(next), &mut out);
                self.answers(out);
            } else {
                self.at_switch(usize::from(polls[0] != next), None);
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Input(flow) => self.input(flow),
            Event::AtSwitch(i, frame) => self.at_switch(i, Some((STORE, frame))),
            Event::AtStore(i, payload) if self.chain.is_some() => self.reach_nodes(i, &payload),
            Event::AtNode(n, i, payload) => {
                self.at_node(n, |replica, at, mail| replica.receive(at, i, &payload, mail));
            }
            Event::Between(to, bytes) => {
                let index = self.chain.as_ref().and_then(|chain| chain.index(&to));
                if let Some(n) = index {
                    self.at_node(n, |replica, at, _| replica.receive_from_node(at, &bytes));
                }
            }
            Event::Learn(n) => {
                let Some(view) = self.chain.as_ref().map(|chain| chain.view.clone()) else { return };
                self.at_node(n, |replica, at, _| {
                    replica.set_view(at, view).expect("a view that was agreed on")
                });
            }
            Event::NodeCrash(_) | Event::NodeRestart(_) | Event::NodeCut(_) => self.node_fault(event),
            Event::AtStore(i, payload) => {
                let mut out = std::mem::take(&mut self.outbox);
                self.store.receive(self.store_clock.read(self.now), i, &payload, &mut out);
                self.answers(out);
            }
            Event::Reroute(flow) => {
                self.flows[flow].route ^= 1;
                let after = 1 + self.random.below(2 * self.faults.reroute_ns);
                self.enter(after, Event::Reroute(flow));
            }
            Event::Cut(i) => {
                self.nodes[i].cut = self.now + self.random.below(self.faults.cut_ns / 2);
                let after = 1 + self.random.below(2 * self.faults.cut_ns);
                self.enter(after, Event::Cut(i));
            }
            Event::Crash(i) => {
                self.crash(i);
                let after = MS + self.random.below(self.faults.crash_ns);
                self.enter(after, Event::Restart(i));
            }
            Event::Restart(i) => {
                self.start(i);
                let after = 1 + self.random.below(2 * self.faults.crash_ns);
                self.enter(after, Event::Crash(i));
            }
        }
    }

    /// A switch loses its power; routes avoid it.
    pub fn crash(&mut self, i: usize) {
        self.nodes[i].rig = None;
        self.flows.iter_mut().for_each(|f| f.route = 1 - i);
    }

    fn input(&mut self, flow: usize) {
        if self.now >= self.end {
            return;
        }
        let writes = self.chance(self.writes);
        let number = self.flows[flow].history.len() as u32;
        let astray = self.chance(self.faults.astray);
        let i = self.flows[flow].route ^ usize::from(astray);
        let from_outside = self.bindings.is_some() && self.chance(0.5);
        let (port, frame) = match &mut self.bindings {
            Some(bindings) => bindings.frame(flow, number, writes, from_outside),
            None => (IN, self.counted(flow, number, writes)),
        };
        self.flows[flow].history.push(Operation { writes, start: self.now, result: None });
        self.at_switch(i, Some((port, frame)));
        let gap = 1 + self.random.below(2 * self.gap_ns);
        self.enter(gap, Event::Input(flow));
    }

    /// A packet of `flowcount`.
    fn counted(&self, flow: usize, number: u32, writes: bool) -> Vec<u8> {
        let payload = [&number.to_be_bytes()[..], &[flow as u8; 4], &vec![0; self.padding]].concat();
        let to = format!("10.1.0.{flow}:7");
        // Packets with a type of service are not counted.
        Packet::udp("10.0.0.1:9", to, payload).with_ip(|ip| ip.tos = u8::from(!writes)).bytes()
    }

    fn at_switch(&mut self, i: usize, arrives: Option<(u32, Vec<u8>)>) {
        let node = &mut self.nodes[i];
        let Some(rig) = &mut node.rig else { return };
        let now = Time(node.clock.read(self.now));
        let mut out: Vec<Output> = Vec::new();
        if let Some((port, frame)) = arrives {
            let mut buffer = [&[0; 32][..], &frame].concat();
            let arrived = Arrived { port, buffer: &mut buffer, start: 32 };
            rig.switch.process(now, 1000, &mut [arrived], &mut out);
        }
        while rig.switch.poll(now, 1000, &mut out).more {}
        for output in out {
            match output {
                Output::Port(port @ (IN | OUT), frame) => self.output(port, &frame),
                Output::Port(STORE, frame) => {
                    if frame.len() > MTU {
                        self.wrong.push(format!("a frame of {} bytes for the store", frame.len()));
                    }
                    // The store's kernel drops datagrams with wrong sums.
                    if let Err(error) = check_checksums(&frame) {
                        self.wrong.push(format!("{error} in {frame:02x?}"));
                    }
                    self.link(i, &frame[FRONT..], |payload| Event::AtStore(i, payload))
                }
                other => self.wrong.push(format!("{other:?} left switch {i}")),
            }
        }
    }

    pub(super) fn answers(&mut self, mut out: Outbox<usize>) {
        for (to, payload) in out.iter() {
            let (from, address) = ("10.9.1.1:4791", format!("10.9.0.{}:4791", to + 1));
            let frame = Packet::udp(from, address, payload).bytes();
            self.link(to, &frame, |frame| Event::AtSwitch(to, frame));
        }
        out.clear();
        self.outbox = out;
    }

    /// A message passes between a switch and the store, perhaps.
    fn link(&mut self, switch: usize, bytes: &[u8], event: impl Fn(Vec<u8>) -> Event) {
        if self.now < self.nodes[switch].cut {
            return;
        }
        let copies = 1 + u32::from(self.chance(self.faults.double));
        for _ in 0..copies {
            if !self.chance(self.faults.loss) {
                let late = if self.chance(0.02) { 20 } else { 1 };
                let after = 50_000 + self.random.below(self.faults.jitter_ns * late + 1);
                self.enter(after, event(bytes.to_vec()));
            }
        }
    }

    fn output(&mut self, port: u32, frame: &[u8]) {
        if let Err(error) = check_checksums(frame) {
            self.wrong.push(format!("{error} in {frame:02x?}"));
        }
        let shown = match &mut self.bindings {
            Some(bindings) => bindings.left(port, frame).map(|(flow, number)| (flow, number, 0)),
            None if port == OUT => {
                let number = u32::from_be_bytes([frame[42], frame[43], frame[44], frame[45]]);
                Ok((frame[46].into(), number, u32::from(frame[18]) << 8 | u32::from(frame[19])))
            }
            None => Err(format!("{frame:02x?} returned")),
        };
        let (flow, number, count) = match shown {
            Ok(shown) => shown,
            Err(error) => return self.wrong.push(error),
        };
        let operation = &mut self.flows[flow].history[number as usize];
        if operation.result.is_some() {
            self.wrong.push(format!("packet {number} of flow {flow} left twice"));
        }
        operation.result = Some((self.now, count));
    }

    /// Whether the store has all states of a switch that holds all flows: the sums of their counts are equal.
    pub fn replicated(&mut self, i: usize) -> bool {
        let Some(rig) = &mut self.nodes[i].rig else { return false };
        let values =
            find_extern(&self.app.program, "register", "redplane_values").expect("the library's register");
        let count = |index| rig.state().read_register(values, index).expect("a slot").low_u64();
        let here: u64 = (0..65_536).map(count).sum();
        let key = |flow: u8| [10, 0, 0, 1, 10, 1, 0, flow, 0, 9, 0, 7, 0, 0, 0, 17];
        let stored = |flow: usize| {
            self.store.value(0, &key(flow as u8)).map_or(0, |v| u64::from(v[3]) | u64::from(v[2]) << 8)
        };
        here > 0 && here == (0..self.flows.len()).map(stored).sum::<u64>()
    }

    /// Packets that left, and packets.
    pub fn answered(&self) -> (usize, usize) {
        let all = self.flows.iter().flat_map(|f| &f.history);
        (all.clone().filter(|o| o.result.is_some()).count(), all.count())
    }

    /// The first violation.
    pub fn verdict(&self) -> Result<(), String> {
        match self.wrong.first() {
            Some(wrong) => Err(wrong.clone()),
            None if self.bindings.is_some() => Ok(()),
            None => self.flows.iter().try_for_each(|f| super::history::check(&f.history)),
        }
    }
}
