//! The same with delays: links of a rate and network adapters of servers ([`Rnic`]), in virtual time. Ordinary packets can fill a link, links can be cut, and
//! frames can be lost.

mod server;
#[cfg(test)]
mod tests;

use super::{Function, LOAD, LONGEST, OUT, ROOM, ROW_LOAD, SERVER, Settings, hex, stashed, switch};
use crate::TestbedError;
use crate::rnic::Rnic;
use crate::world::refused;
use pointsman_engine::Engine;
use pointsman_remote::{Action, Config, Layout, Scratchpads, Table};
use pointsman_stf::Rig;
use pointsman_stf::generator::Numbered;
use pointsman_v1model::{Arrived, Output, QueueConfig, Time};
use pointsman_wire::Random;
use server::Server;
use std::collections::BTreeMap;

const US: u64 = 1000;
/// Where packets wait for a credit, and how long.
const WAIT: u32 = 500;
const WAIT_NS: u64 = 2 * US;
/// After this time an answer is too late, and after this one without an answer the replica serves.
const TIMEOUT_NS: u64 = 200 * US;
const PATIENCE_NS: u64 = 50 * US;
/// Addresses to which ordinary packets go, behind the first server's port, and the key of their flow, which the switch itself holds.
const ORDINARY: u64 = 0x0a07_0001_0009_0009;

/// What a bed is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Whose entries.
    pub function: Function,
    /// Entries.
    pub entries: u32,
    /// Servers, each of which has a replica of another one's entries if there are several.
    pub servers: u32,
    /// Queue pairs of each server, a power of two.
    pub pairs: u32,
    /// Whether the load of links is measured: shares of their rate above which look-ups go where there is less, and to the replica in any case.
    pub load: Option<(f64, f64)>,
    /// Entries that the cache has room for; 0: the program has no cache.
    pub cache: u32,
    /// Whether packets may wait for a credit.
    pub waits: bool,
    /// Where packets wait for their entries.
    pub scratchpads: Scratchpads,
    /// Chooses keys, and frames that are lost.
    pub seed: u64,
}

impl Shape {
    /// A server with few entries of the NAT, and the queue pairs of `pointsman tea`.
    pub const USUAL: Shape = Shape {
        function: Function::Nat,
        entries: 1000,
        servers: 1,
        pairs: 4,
        load: None,
        cache: 0,
        waits: false,
        scratchpads: Scratchpads::Ring,
        seed: 1,
    };

    /// Sizes of keys and values, and the place of scratchpads.
    pub const fn layout(&self) -> Layout {
        Layout { scratchpads: self.scratchpads, ..self.function.layout() }
    }

    /// Cells of each server.
    fn cells(&self) -> u32 {
        let of = |load: f64| ((f64::from(self.entries) / load) as u32).div_ceil(self.servers.max(1)).max(8);
        match self.scratchpads {
            Scratchpads::Ring => of(LOAD),
            Scratchpads::Inline => of(ROW_LOAD).next_multiple_of(4),
        }
    }
}

/// A packet whose flow was looked up.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// When it came to the switch, in nanoseconds.
    pub came: u64,
    /// When its entry was there; `None`: it is lost, or under way.
    pub found: Option<u64>,
}

enum Event {
    LookUp { flow: u32, bytes: usize },
    Ordinary { bytes: usize },
    Cable { server: usize, up: bool },
    AtSwitch { port: u32, frame: Vec<u8> },
    AtServer { server: usize, frame: Vec<u8> },
}

/// Switch, links and servers.
pub struct Timed {
    now: u64,
    rnic: Rnic,
    function: Function,
    calendar: BTreeMap<(u64, u64), Event>,
    entered: u64,
    rig: Rig<Engine>,
    servers: Vec<Server>,
    keys: Vec<u64>,
    in_order: Vec<u32>,
    flows: Vec<u32>,
    passed: Vec<Passed>,
    wrong: u64,
    /// Of a million frames between switch and servers, those that are lost; what chooses them; how many were.
    loss: u64,
    random: Random,
    lost: u64,
    buffer: Vec<u8>,
}

/// Ordinary packets, which the NAT's own table sends to the first server's port, and the rates of links.
fn statements(shape: &Shape, rnic: &Rnic) -> String {
    let mut text = String::new();
    if shape.function == Function::Nat {
        let key = hex(&Function::Nat.key(ORDINARY));
        text += &format!(
            "add routes prefix:10.7.0.0/16 forward(port:{SERVER}, mac:02:00:00:00:00:33)\n\
             add tea_stash key:0x{key} stashed(value:0x000100090a070002)\n"
        );
    }
    if let Some((committed, peak)) = shape.load {
        let rate = |share: f64| share * rnic.link_bit_s / 8e6;
        for port in SERVER..SERVER + shape.servers {
            text +=
                &format!("meter_set_rates tea_load {port} {}:20000 {}:20000\n", rate(committed), rate(peak));
        }
    }
    text
}

/// The flows' keys, all different: those of the load balancer have one service, so 48 bits of them count, and 32 of the gateway's, the address of a host.
fn keys(shape: &Shape) -> Vec<u64> {
    let mut random = Random::new(shape.seed);
    let constant = match shape.function {
        Function::Nat | Function::Nat6 | Function::Firewall => 0,
        Function::Balancer => 16,
        Function::Vpn | Function::Vpn6 => 32,
    };
    if constant == 0 {
        return (0..shape.entries).map(|_| random.next_u64()).collect();
    }
    let (first, step) = (random.next_u64(), random.next_u64() | 1);
    let of = |flow| step.wrapping_mul(u64::from(flow)).wrapping_add(first) << constant;
    (0..shape.entries).map(of).collect()
}

impl Timed {
    /// A table that is filled.
    ///
    /// # Errors
    /// The program does not compile, or something does not fit.
    pub fn new(shape: Shape, rnic: Rnic) -> Result<Timed, TestbedError> {
        let Shape { function, .. } = shape;
        let keys = keys(&shape);
        let config = Config {
            layout: shape.layout(),
            cells: vec![shape.cells(); shape.servers as usize],
            replicas: shape.servers > 1,
            stash: 1000,
            hold_ns: 0,
            cache: shape.cache as usize,
        };
        let mut table = Table::new(config).map_err(refused)?;
        let entries: Vec<_> =
            keys.iter().zip(0..).map(|(key, flow)| (function.key(*key), function.value(flow))).collect();
        table.load(entries.iter().map(|(k, v)| (&k[..], &v[..]))).map_err(refused)?;
        let settings = Settings {
            function,
            scratchpads: shape.scratchpads,
            defines: if shape.cache > 0 {
                format!("#define TEA_CACHE {}\n", shape.cache)
            } else {
                String::new()
            },
            pairs: shape.pairs,
            timeout: TIMEOUT_NS,
            patience: PATIENCE_NS,
            wait_port: if shape.waits { WAIT } else { 0 },
            more: statements(&shape, &rnic),
        };
        let mut rig = switch(&settings, &table)?;
        let queue = QueueConfig { delay_ns: WAIT_NS, depth_packets: 1024, ..QueueConfig::default() };
        rig.switch.configure_queue(WAIT, None, queue).map_err(refused)?;
        if shape.servers > 1 {
            let probes =
                format!("2:period=100us,port=508,packets={},template=00", shape.servers * shape.pairs);
            for text in ["1:port-down,port=508,template=00", &probes] {
                let generator: Numbered = text.parse().map_err(refused)?;
                rig.switch.set_generator(rig.now, generator.number, generator.generator).map_err(refused)?;
            }
        }
        let server = |i| Server::new(&table, i, &shape);
        let servers = (0..shape.servers as usize).map(server).collect::<Result<_, TestbedError>>()?;
        let mut in_order: Vec<u32> = (0..shape.entries).collect();
        in_order.sort_by_cached_key(|flow| table.window(&function.key(keys[*flow as usize])));
        let mut bed = Timed {
            now: rig.now.0,
            rnic,
            function,
            calendar: BTreeMap::new(),
            entered: 0,
            rig,
            servers,
            keys,
            in_order,
            flows: Vec::new(),
            passed: Vec::new(),
            wrong: 0,
            loss: 0,
            random: Random::new(!shape.seed),
            lost: 0,
            buffer: vec![0; ROOM + LONGEST],
        };
        while let Some(action) = table.take_action() {
            // Nothing else is asked for: no entry changes.
            if let Action::Stash(_, key, entry) = action {
                bed.rig.set(&stashed(&key, entry)).map_err(refused)?;
            }
        }
        Ok(bed)
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// All flows, in the order of the memory that is read for them.
    pub fn in_order(&self) -> &[u32] {
        &self.in_order
    }

    /// A packet of a flow, of so many bytes without check sequence, comes to the switch.
    pub fn look_up(&mut self, at: u64, flow: u32, bytes: usize) {
        self.enter(at, Event::LookUp { flow, bytes });
    }

    /// The first flows, so many as it has room for, are in the cache from now on.
    ///
    /// # Errors
    /// The program has no cache, or the switch refuses.
    pub fn fill_cache(&mut self, entries: u32) -> Result<(), TestbedError> {
        for flow in 0..entries {
            self.rig.set(&self.function.cached(self.keys[flow as usize], flow)).map_err(refused)?;
        }
        Ok(())
    }

    /// An ordinary packet for the first server's link comes to the switch. With the NAT only.
    pub fn ordinary(&mut self, at: u64, bytes: usize) {
        self.enter(at, Event::Ordinary { bytes });
    }

    /// A server's cable is cut, or is there again.
    pub fn cable(&mut self, at: u64, server: usize, up: bool) {
        self.enter(at, Event::Cable { server, up });
    }

    /// From now on, so many of a million frames between switch and servers are lost, in both directions.
    pub fn lose(&mut self, per_million: u64) {
        self.loss = per_million;
    }

    /// Frames lost so.
    pub fn lost_frames(&self) -> u64 {
        self.lost
    }

    /// Bytes on the links to servers, and from them, so far: with check sequence, preamble and gap of each frame.
    pub fn wire_bytes(&self) -> [u64; 2] {
        self.servers.iter().map(Server::wire_bytes).fold([0; 2], |[a, b], [c, d]| [a + c, b + d])
    }

    /// READs that each queue pair has answered so far.
    pub fn answered(&self) -> Vec<u64> {
        self.servers.iter().flat_map(|s| s.answered().iter().copied()).collect()
    }

    /// The packets that were looked up so far, in the order of their arrival.
    pub fn passed(&self) -> &[Passed] {
        &self.passed
    }

    /// Packets that left with another entry than their own, or without it.
    pub fn wrong(&self) -> u64 {
        self.wrong
    }

    /// The most concurrent READs of a queue pair at any adapter.
    pub fn most_reads(&self) -> usize {
        self.servers.iter().map(|s| s.most_reads()).max().unwrap_or(0)
    }

    /// A counter of the data plane (`tea_counts`).
    ///
    /// # Errors
    /// It has none of this number.
    pub fn count(&mut self, number: u64) -> Result<u64, TestbedError> {
        Ok(self.rig.counter("tea_counts", number).map_err(refused)?.packets)
    }

    fn enter(&mut self, at: u64, event: Event) {
        self.entered += 1;
        self.calendar.insert((at.max(self.now), self.entered), event);
    }

    /// Lets time pass.
    pub fn run_until(&mut self, end: u64) {
        loop {
            let event = self.calendar.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            let poll = self.rig.switch.next_poll().map_or(u64::MAX, |t| t.0.max(self.now));
            let next = event.min(poll);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            if poll < event {
                self.at_switch(None);
            } else if let Some((_, event)) = self.calendar.pop_first() {
                self.happens(event);
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::LookUp { flow, bytes } => {
                let mut data = vec![0; bytes.saturating_sub(self.function.headers()).max(8)];
                data[..8].copy_from_slice(&(self.passed.len() as u64).to_be_bytes());
                self.flows.push(flow);
                self.passed.push(Passed { came: self.now, found: None });
                let frame = self.function.frame(self.keys[flow as usize], &data);
                self.at_switch(Some((0, frame)));
            }
            Event::Ordinary { bytes } => {
                let frame =
                    self.function.frame(ORDINARY, &vec![0; bytes.saturating_sub(self.function.headers())]);
                self.at_switch(Some((0, frame)));
            }
            Event::Cable { server, up } => {
                self.servers[server].is_cut = !up;
                self.rig.switch.set_port_status(SERVER + server as u32, up);
            }
            // What is on a cable when it is cut is lost.
            Event::AtSwitch { port, .. } if self.servers[(port - SERVER) as usize].is_cut => {}
            Event::AtSwitch { port, frame } => self.at_switch(Some((port, frame))),
            Event::AtServer { server, frame } => self.at_server(server, &frame),
        }
    }

    fn at_switch(&mut self, arrives: Option<(u32, Vec<u8>)>) {
        let now = Time(self.now);
        self.rig.now = now;
        let mut out: Vec<Output> = Vec::new();
        if let Some((port, frame)) = arrives {
            let end = ROOM + frame.len();
            self.buffer[ROOM..end].copy_from_slice(&frame);
            let arrived = Arrived { port, buffer: &mut self.buffer[..end], start: ROOM };
            self.rig.switch.process(now, 1000, &mut [arrived], &mut out);
        }
        while self.rig.switch.poll(now, 1000, &mut out).more {}
        for output in out {
            match output {
                Output::Port(OUT, frame) => self.left(&frame),
                Output::Port(port, frame) if port >= SERVER => self.request((port - SERVER) as usize, frame),
                // Without its entry.
                _ => self.wrong += 1,
            }
        }
    }

    /// A packet leaves with an entry.
    fn left(&mut self, frame: &[u8]) {
        let front = self.function.headers_behind();
        let number = frame.get(front..front + 8).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
        let place =
            number.and_then(|n| Some((*self.flows.get(n as usize)?, self.passed.get_mut(n as usize)?)));
        match place {
            Some((flow, passed)) if self.function.shows(frame, flow) && passed.found.is_none() => {
                passed.found = Some(self.now + self.rnic.switch_ns);
            }
            _ => self.wrong += 1,
        }
    }

    fn request(&mut self, i: usize, frame: Vec<u8>) {
        let leaves = self.now + self.rnic.switch_ns;
        let Some(server) = self.servers.get_mut(i) else { return };
        if let Some(at) = server.request(&self.rnic, leaves, frame.len()) {
            self.arrives(at, Event::AtServer { server: i, frame });
        }
    }

    fn at_server(&mut self, i: usize, frame: &[u8]) {
        for (at, frame) in self.servers[i].answers(&self.rnic, self.now, frame) {
            self.arrives(at, Event::AtSwitch { port: SERVER + i as u32, frame });
        }
    }

    /// A frame arrives, unless it is lost.
    fn arrives(&mut self, at: u64, event: Event) {
        if self.loss > 0 && self.random.below(1_000_000) < self.loss {
            self.lost += 1;
        } else {
            self.enter(at, event);
        }
    }
}
