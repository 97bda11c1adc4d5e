//! A switch that runs the balancer, servers with memory, the controller that moves connections to them, clients and devices: in virtual time.

use super::clients::{Clients, loaded, packet_of_loaded};
use super::setup::*;
use crate::switch::*;
use pointsman_balance::settle::{self, Kind, Message, Report, Settler};
use pointsman_ir::{Executor, Value};
use pointsman_remote::{Action, ChangeError, Config, Table, Writer};
use pointsman_roce::{Packet, Responder};
use pointsman_stf::Rig;
use pointsman_v1model::{Output, Time};
use pointsman_wire::Random;

/// A run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the frames between switch and servers.
    pub faults: Faults,
    /// Share of the data plane's reports that are lost.
    pub deaf: f64,
    /// How long the controller's changes, messages and reports take, at most.
    pub control_ns: u64,
    pub clients: u32,
    /// Packets of a connection, at most, besides those with which it begins and ends.
    pub packets: u64,
    /// Mean time between packets of a client.
    pub gap_ns: u64,
    /// Time between changes of the services' pools; 0: none.
    pub pools_ns: u64,
    /// Cells of each server.
    pub cells: Vec<u32>,
    pub stash: usize,
    /// How long a connection is established before it settles.
    pub wait_ns: u64,
    /// Settled connections that are there from the start.
    pub loaded: u32,
    /// A fault: what the controller does not wait for.
    pub hasty: Option<Hasty>,
}

/// A fault of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hasty {
    /// A change counts as acknowledged when it is made.
    Acknowledged,
    /// An entry is deleted although the switch did not say that the connection is idle and has a place.
    NotAsked,
}

enum Event {
    Step(u32),
    Pools,
    ToSwitch(u32, Vec<u8>),
    ToServer(usize, Vec<u8>),
    ToController(usize, Vec<u8>),
    Stash(Action),
    Stashed(u64),
    Message(Message, u8),
    Report(Report),
}

pub struct World<E: Executor> {
    pub now: u64,
    /// How long it took to place the entries that are there from the start.
    pub filled: std::time::Duration,
    pub settings: Settings,
    pub rig: Rig<E>,
    pub table: Table,
    pub settler: Settler,
    pub clients: Clients,
    calendar: Calendar<Event>,
    random: Random,
    servers: Vec<Responder>,
    writer: Writer,
    /// When the last change for the switch, and the last report, arrives.
    orders: [u64; 3],
    end: u64,
    /// Most entries at once; changes without room.
    pub most: usize,
    pub refused: u64,
    pub lost_frames: u64,
    pub wrong: Vec<String>,
}

/// Places in `orders`.
const STASH: usize = 0;
const MESSAGES: usize = 1;
const REPORTS: usize = 2;

impl<E: Executor + Send + Sync> World<E> {
    pub fn new(app: &App<E>, settings: Settings, seed: u64) -> Self {
        let config = Config {
            layout: LAYOUT,
            cells: settings.cells.clone(),
            stash: settings.stash,
            hold_ns: HOLD,
            replicas: false,
            cache: 0,
        };
        let mut table = Table::new(config).expect("settings");
        let entries: Vec<_> = (0..settings.loaded).map(loaded).collect();
        let begun = std::time::Instant::now();
        table.load(entries.iter().map(|(k, v)| (&k[..], &v[..]))).expect("room");
        let filled = begun.elapsed();
        let rig = rig(app, &table);
        let mut settler = Settler::new(settle::Settings {
            wait_ns: settings.wait_ns,
            retry_ns: 2000 * US,
            idle_ms: IDLE_MS,
            sweep_ns: 1_000_000 * US,
            under_way: 4096,
        });
        let now = 1000 * US;
        entries.iter().for_each(|(key, word)| settler.load(now, *key, *word));
        let mut world = World {
            now,
            filled,
            rig,
            table,
            settler,
            clients: Clients::new(settings.clients, settings.packets, seed),
            calendar: Calendar::default(),
            random: Random::new(seed),
            servers: Vec::new(),
            writer: Writer::new(),
            orders: [0; 3],
            end: 0,
            most: 0,
            refused: 0,
            lost_frames: 0,
            wrong: Vec::new(),
            settings,
        };
        world.table.servers().for_each(|i| world.add_server(i));
        // Entries without a free cell are in the switch.
        world.act();
        world.run_until(now + 10_000 * US);
        world
    }

    /// A server whose memory has an empty table.
    fn add_server(&mut self, i: usize) {
        let region = filled(&self.table, i, LAYOUT.ring_bytes(PAIRS));
        let pairs = (0..PAIRS).map(|j| (0x20 + j, 0x100 + i as u32 * PAIRS + j, 0));
        self.servers.push(server(&mut self.writer, region, pairs));
    }

    fn enter(&mut self, after: u64, event: Event) {
        self.calendar.enter(self.now + after, event);
    }

    /// What keeps its order arrives after a random time.
    fn enter_in_order(&mut self, order: usize, event: Event) {
        let at = self.orders[order].max(self.now + self.random.below(self.settings.control_ns)) + 1;
        self.orders[order] = at;
        self.enter(at - self.now, event);
    }

    /// Lets clients begin connections for some time, and all TCP connections end.
    pub fn run(&mut self, duration: u64) {
        self.end = self.now + duration;
        for n in 0..self.clients.len() {
            let after = self.random.below(2 * self.settings.gap_ns);
            self.enter(after, Event::Step(n));
        }
        if self.settings.pools_ns > 0 {
            self.enter(self.settings.pools_ns, Event::Pools);
        }
        self.run_until(self.end + 200 * self.settings.gap_ns);
    }

    pub fn run_until(&mut self, end: u64) {
        loop {
            let controller = [self.table.deadline(), self.settler.deadline(), self.writer.deadline()];
            let Some((at, due)) = self.calendar.next((self.now, end), &self.rig, &controller) else {
                self.now = end;
                return;
            };
            self.now = at;
            match due {
                Due::Event(event) => self.happens(event),
                Due::Switch => self.at_switch(None),
                Due::Controller => {
                    self.table.wake(at);
                    self.settler.wake(at);
                    let sent = requests(&mut self.wrong, |send| self.writer.wake(at, &mut self.table, send));
                    self.requests(sent);
                    self.act();
                }
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Step(n) => self.step(n),
            Event::Pools => self.pools(),
            Event::ToSwitch(port, frame) => self.at_switch(Some((port, frame))),
            Event::ToServer(i, frame) => self.at_server(i, &frame),
            Event::ToController(i, frame) => {
                let (packet, ..) = Packet::decode(&frame).expect("the responder's own packet");
                let sent = requests(&mut self.wrong, |send| {
                    self.writer.receive(self.now, i, &packet, &mut self.table, send)
                });
                self.requests(sent);
                self.act();
            }
            Event::Stash(action) => self.stash(action),
            Event::Stashed(number) => {
                self.table.stashed(self.now, number);
                self.act();
            }
            Event::Message(message, number) => {
                let frame = [&settle::PORT.to_be_bytes()[..], &message.encode(number)].concat();
                self.rig.now = Time(self.now);
                self.rig.switch.receive_cpu(Time(self.now), &frame);
                self.at_switch(None);
            }
            Event::Report(report) => {
                self.settler.report(self.now, &report);
                self.act();
            }
        }
    }

    /// Packets of settled connections that were there from the start.
    pub fn look_up(&mut self, packets: u32) {
        for _ in 0..packets {
            let n = self.random.below(self.settings.loaded.into()) as u32;
            self.at_switch(Some((CLIENTS, packet_of_loaded(n))));
            self.run_until(self.now + 20 * US);
        }
    }

    fn step(&mut self, n: u32) {
        let (frame, is_over) = self.clients.step(self.now, n, self.now >= self.end);
        if frame.is_none() && is_over {
            return;
        }
        if let Some(frame) = frame {
            self.at_switch(Some((CLIENTS, frame)));
        }
        // The same 5-tuple begins again when nothing of it can be under way.
        let rest = if is_over { 2000 * US } else { 0 };
        let gap = 1 + rest + self.random.below(2 * self.settings.gap_ns);
        self.enter(gap, Event::Step(n));
    }

    /// Devices leave the services' pools and come back.
    fn pools(&mut self) {
        if self.now >= self.end {
            return;
        }
        for service in SERVICES {
            let devices = 1 + self.random.below(255) as u8;
            let members: Vec<u8> = (0..SLOTS).filter(|slot| devices >> slot & 1 == 1).collect();
            for position in 0..SLOTS {
                let device = members[self.random.below(members.len() as u64) as usize];
                self.rig.set(&ring_of(service, position, device)).expect("a position");
            }
            self.rig.set(&pool(service, devices)).expect("a pool");
            self.clients.pool(self.now, service, devices);
        }
        self.enter(self.settings.pools_ns, Event::Pools);
    }

    /// Does what table and settler ask for.
    fn act(&mut self) {
        loop {
            if let Some(action) = self.settler.take_action() {
                self.settle(action);
            } else if let Some(key) = self.table.take_acknowledged() {
                self.settler.acknowledged(self.now, &key.try_into().expect("a key"));
            } else if let Some(action) = self.table.take_action() {
                match action {
                    Action::Write(number, server, offset, bytes) => {
                        self.write((number, server, offset, bytes));
                    }
                    other => self.enter_in_order(STASH, Event::Stash(other)),
                }
            } else {
                break;
            }
        }
        self.most = self.most.max(self.table.entries());
    }

    fn settle(&mut self, action: settle::Action) {
        let (key, result) = match action {
            settle::Action::Send(message, number) => {
                if let (Some(Hasty::NotAsked), Message::Fetch(key, word, _)) = (self.settings.hasty, message)
                {
                    let report = Report { kind: Kind::HeldOver, number, key, word, ticks: 0 };
                    return self.settler.report(self.now, &report);
                }
                return self.enter_in_order(MESSAGES, Event::Message(message, number));
            }
            settle::Action::Put(key, word) => (key, self.table.put(self.now, &key, &word)),
            settle::Action::Delete(key) => (key, self.table.delete(self.now, &key)),
        };
        match result {
            Ok(()) if self.settings.hasty == Some(Hasty::Acknowledged) => {
                self.settler.acknowledged(self.now, &key);
            }
            Ok(()) => {}
            Err(ChangeError::Full) => {
                self.refused += 1;
                self.settler.refused(self.now, &key);
            }
            Err(e) => self.wrong.push(format!("{action:?}: {e}")),
        }
    }

    fn write(&mut self, write: (u64, usize, u64, Vec<u8>)) {
        let sent = writes(&mut self.writer, self.now, write);
        self.requests(sent);
    }

    fn requests(&mut self, frames: Vec<(usize, Vec<u8>)>) {
        for (i, frame) in frames {
            self.link(&frame, |frame| Event::ToServer(i, frame));
        }
    }

    fn stash(&mut self, action: Action) {
        match action {
            Action::Stash(number, key, entry) => {
                stash(&mut self.rig, &key, entry);
                let after = self.random.below(self.settings.control_ns);
                self.enter(after, Event::Stashed(number));
            }
            Action::Unstash(key) => unstash(&mut self.rig, &key),
            other => self.wrong.push(format!("{other:?}")),
        }
    }

    fn at_switch(&mut self, arrives: Option<(u32, Vec<u8>)>) {
        let out = outputs(&mut self.rig, self.now, arrives);
        for digest in self.rig.switch.take_digests() {
            let report = report(&digest.data);
            if !chance(&mut self.random, self.settings.deaf) {
                self.enter_in_order(REPORTS, Event::Report(report));
            }
        }
        for output in out {
            let Output::Port(port, frame) = output else {
                self.wrong.push(format!("{output:?}"));
                continue;
            };
            match port {
                CLIENTS => self.clients.at_client(&frame),
                DEVICES => {
                    if let Some(answer) = self.clients.at_device(&frame) {
                        let after = 2 * US + self.random.below(20 * US);
                        self.enter(after, Event::ToSwitch(DEVICES, answer));
                    }
                }
                _ => {
                    let i = (port - SERVER) as usize;
                    self.link(&frame, |frame| Event::ToServer(i, frame));
                }
            }
        }
    }

    fn at_server(&mut self, i: usize, frame: &[u8]) {
        let (packet, ..) = Packet::decode(frame).expect("nothing changes frames");
        let mut answers = Vec::new();
        self.servers[i].step(&packet, &mut |answer| answers.push((answer.pair, encode_answer(answer, i))));
        for (pair, frame) in answers {
            match pair {
                CONTROLLER => self.link(&frame, |frame| Event::ToController(i, frame)),
                _ => self.link(&frame, |frame| Event::ToSwitch(SERVER + i as u32, frame)),
            }
        }
    }

    /// A frame passes between switch, servers and controller, perhaps.
    fn link(&mut self, bytes: &[u8], event: impl Fn(Vec<u8>) -> Event) {
        for after in self.settings.faults.pass(&mut self.random, &mut self.lost_frames) {
            self.enter(after, event(bytes.to_vec()));
        }
    }

    /// A cell of a counter.
    pub fn count(&mut self, counter: &str, index: u64) -> u64 {
        self.rig.counter(counter, index).expect("a counter").packets
    }

    /// Entries of TCP connections.
    pub fn tcp_entries(&self) -> usize {
        let of_tcp = |bytes: &[u8]| {
            let cells = bytes.chunks(LAYOUT.cell_bytes());
            cells.filter(|c| c[31] & 1 == 1 && (1..=2).contains(&c[23])).count()
        };
        self.table.servers().map(|i| self.table.images(i, 4096).map(|(_, b)| of_tcp(&b)).sum::<usize>()).sum()
    }
}

/// A digest as the controller reads it.
fn report(data: &Value) -> Report {
    let Value::Struct(fields) = data else { panic!("{data:?}") };
    let field = |i: usize| match fields.get(i) {
        Some(Value::Bits(bits)) => bits.to_be_bytes(),
        other => panic!("{other:?}"),
    };
    Report {
        kind: Kind::from_number(field(0)[0]).expect("a known report"),
        number: field(1)[0],
        key: field(2).try_into().expect("a key"),
        word: field(3).try_into().expect("a word"),
        ticks: u16::from_be_bytes(field(4).try_into().expect("ticks")),
    }
}
