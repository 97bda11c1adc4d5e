//! A switch that runs the NAT, servers with memory, a controller with the table, links that lose, double and reorder: in virtual time.

mod pairs;
mod popular;
mod servers;
mod settings;

pub use servers::Move;
pub use settings::{Away, Keeps, Settings};

use super::checker::{App, Checker, Host, State};
use super::setup::{App as Program, *};
use pointsman_ir::Executor;
use pointsman_remote::{
    Action, ChangeError, Config, Layout, ROW_SLOT, SLOT, Scratchpads, Table, WINDOW, Writer,
};
use pointsman_roce::{Opcode, Packet, Responder};
use pointsman_stf::Rig;
use pointsman_v1model::Output;
use pointsman_wire::Random;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

enum Event {
    Input,
    /// The link of the first server.
    Link(bool),
    Change,
    ToSwitch(u32, Vec<u8>),
    ToServer(usize, Vec<u8>),
    ToController(usize, Vec<u8>),
    /// A server sends an answer to a READ, parts of which it reads only now.
    Read(usize, u64, OwnedRead),
    Stash(Action),
    Stashed(u64),
    /// Look-ups use other cells.
    Switched(u64),
    /// The table is to move.
    Resize(Move),
    /// An age of the sketch is over.
    Age,
    /// The switch's requests in a queue pair get a wrong key, so that the server ends it.
    Break,
    /// The controller looks for queue pairs that ended.
    Revive,
}

/// An answer to a READ.
struct OwnedRead {
    pair: u32,
    psn: u32,
    data: Vec<u8>,
}

/// A server with memory, unless it is gone.
struct Server {
    responder: Option<Responder>,
    /// Bytes of its cells; 0: it is not used any more.
    bytes: u64,
    /// When the switch asked it last.
    asked: u64,
    /// Its entry of `tea_servers`.
    entry: String,
}

pub struct World<E: Executor> {
    app: App,
    layout: Layout,
    pub now: u64,
    calendar: Calendar<Event>,
    random: Random,
    pub settings: Settings,
    pub rig: Rig<E>,
    servers: Vec<Server>,
    /// Moves of the table that ended, and that were given up.
    pub moved: [u32; 2],
    pub table: Table,
    writer: Writer,
    pub checker: Checker,
    /// When the last change for the switch's own table is there.
    stash_at: u64,
    /// When the last delayed READ ends.
    read_at: u64,
    end: u64,
    /// The first server does not answer between these times.
    away: Option<(Away, u64, u64)>,
    pub refused: u64,
    /// Keys in the switch's cache, those that left it, and those that the data plane reported in this age.
    cached: BTreeSet<Vec<u8>>,
    pub evicted: u64,
    /// Queue pairs that were set up again.
    pub revived: u32,
    reported: BTreeSet<Vec<u8>>,
    pub lost_frames: u64,
    pub wrong: Vec<String>,
}

impl<E: Executor + Send + Sync> World<E> {
    pub fn new(app: &Program<E>, settings: Settings, seed: u64) -> Self {
        let config = Config {
            layout: app.layout(),
            cells: settings.cells.clone(),
            stash: settings.stash,
            hold_ns: settings.hold_ns,
            replicas: settings.replicas,
            cache: settings.cache.map_or(0, |_| CACHE),
        };
        let mut table = Table::new(config).expect("settings");
        // Half of the flows have entries from the start, of those in two tables more.
        let exists = |flow: u32| if app.shown == App::Policy { flow % 8 > 1 } else { flow.is_multiple_of(2) };
        let start = |flow: u32| State { version: exists(flow).then_some(0), asked: 0, acked: Some(0) };
        let checker = Checker::new(app.shown, (0..settings.flows).map(|f| vec![start(f)]).collect());
        let entries: Vec<_> = (0..settings.flows)
            .filter(|f| exists(*f))
            .map(|f| (app.shown.key(f), app.shown.value(f, 0)))
            .collect();
        table.load(entries.iter().map(|(k, v)| (&k[..], &v[..]))).expect("room");
        let mut world = World {
            app: app.shown,
            layout: app.layout(),
            now: 1000 * US,
            calendar: Calendar::default(),
            random: Random::new(seed),
            rig: rig(app, &settings),
            servers: Vec::new(),
            moved: [0; 2],
            table,
            writer: Writer::new(),
            checker,
            stash_at: 0,
            read_at: 0,
            end: 0,
            away: None,
            refused: 0,
            cached: BTreeSet::new(),
            evicted: 0,
            revived: 0,
            reported: BTreeSet::new(),
            lost_frames: 0,
            wrong: Vec::new(),
            settings,
        };
        for i in world.table.servers() {
            world.add_server(i);
            world.write_images(i);
        }
        // The memory is written, over the same links, before packets come.
        world.end = world.now;
        while !world.writer.is_idle() {
            world.end += 1000 * US;
            world.run_until(world.end);
        }
        world
    }

    fn enter(&mut self, after: u64, event: Event) {
        self.calendar.enter(self.now + after, event);
    }

    /// Sends packets and changes entries for some time, and lets everything end.
    pub fn run(&mut self, duration: u64) {
        self.end = self.now + duration;
        self.enter(1, Event::Input);
        self.away = self.settings.away.take().map(|(away, from, to)| (away, self.now + from, self.now + to));
        if let Some((Away::Port, from, to)) = self.away {
            self.enter(from - self.now, Event::Link(false));
            self.enter(to - self.now, Event::Link(true));
        }
        if self.settings.change_ns > 0 {
            self.enter(2, Event::Change);
        }
        if let Some(after) = self.settings.breaks.take() {
            self.enter(after, Event::Break);
            self.enter(after, Event::Revive);
        }
        for step in std::mem::take(&mut self.settings.moves) {
            self.enter(step.after, Event::Resize(step));
        }
        if self.settings.cache.is_some() {
            self.enter(AGE - self.now % AGE, Event::Age);
        }
        self.run_until(self.end + 10_000 * US);
    }

    fn run_until(&mut self, end: u64) {
        loop {
            let controller = [self.table.deadline(), self.writer.deadline()];
            let Some((at, due)) = self.calendar.next((self.now, end), &self.rig, &controller) else {
                self.now = end;
                return;
            };
            self.now = at;
            match due {
                Due::Event(event) => self.happens(event),
                Due::Switch => self.at_switch(None),
                Due::Controller if self.table.deadline().is_some_and(|t| t <= at) => {
                    self.table.wake(at);
                    self.act();
                }
                Due::Controller => {
                    let sent = requests(&mut self.wrong, |send| self.writer.wake(at, &mut self.table, send));
                    self.requests(sent);
                    self.act();
                }
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Input => self.input(),
            Event::Change => self.change(),
            Event::Age => self.age(),
            Event::Break => self.break_pair(),
            Event::Revive => self.revive(),
            Event::Resize(step) => self.resize(&step),
            Event::Link(up) => self.rig.switch.set_port_status(SERVER, up),
            Event::ToSwitch(port, frame) => {
                if port != SERVER || self.is_away(Away::Port).is_none() {
                    self.at_switch(Some((port, frame)));
                }
            }
            Event::ToServer(i, frame) => match self.is_away(Away::Hangs).filter(|_| port(i) == SERVER) {
                Some(after) => self.enter(after, Event::ToServer(i, frame)),
                None => self.at_server(i, &frame),
            },
            Event::ToController(i, frame) => {
                let (packet, ..) = Packet::decode(&frame).expect("the responder's own packet");
                let sent = requests(&mut self.wrong, |send| {
                    self.writer.receive(self.now, i, &packet, &mut self.table, send)
                });
                self.requests(sent);
                self.act();
            }
            Event::Read(i, address, mut read) => {
                let Some(responder) = &self.servers[i].responder else { return };
                let region = responder.region(REGION).expect("the region");
                let start = (address - BASE) as usize;
                let now = &region.memory[start..start + read.data.len()];
                for (old, new) in read.data.chunks_mut(8).zip(now.chunks(8)) {
                    if self.random.below(2) == 0 {
                        old.copy_from_slice(new);
                    }
                }
                let answer =
                    Packet { data: &read.data, ..Packet::new(Opcode::ReadOnly, read.pair, read.psn) };
                let frame = encode_answer(&answer, i);
                self.answer(i, read.pair, frame);
            }
            Event::Stash(action) => self.stash(action),
            Event::Stashed(number) => {
                self.table.stashed(self.now, number);
                while let Some(key) = self.table.take_acknowledged() {
                    let flow = self.app.flow(&key) as usize;
                    let state = self.checker.flows[flow].last_mut().expect("a first state");
                    assert!(state.acked.replace(self.now).is_none());
                }
                self.act();
            }
            Event::Switched(number) => {
                self.table.switched(self.now, number);
                self.act();
            }
        }
    }

    /// How much longer the first server is away for this reason.
    fn is_away(&self, reason: Away) -> Option<u64> {
        let (away, from, to) = self.away?;
        (away == reason && (from..to).contains(&self.now)).then(|| to - self.now)
    }

    fn input(&mut self) {
        if self.now >= self.end {
            return;
        }
        let flow = self.flow();
        let padding = [0, 1, 2, 3, 70, 700, 1464][self.random.below(7) as usize];
        let frame = self.checker.send(self.now, flow, padding);
        self.at_switch(Some((0, frame)));
        let gap = 1 + self.random.below(2 * self.settings.gap_ns);
        self.enter(gap, Event::Input);
    }

    /// A change of a flow whose last change is acknowledged.
    fn change(&mut self) {
        if self.now >= self.end {
            return;
        }
        let flow = self.random.below(self.settings.flows.into()) as u32;
        let states = self.checker.flows[flow as usize].clone();
        let last = states[states.len() - 1];
        if last.acked.is_some() {
            let versions = states.len() as u16;
            let delete = last.version.is_some() && self.random.below(2) == 0;
            let version = (!delete).then_some(versions);
            let result = match version {
                Some(version) => {
                    self.table.put(self.now, &self.app.key(flow), &self.app.value(flow, version))
                }
                None => self.table.delete(self.now, &self.app.key(flow)),
            };
            match result {
                Ok(()) => {
                    self.checker.flows[flow as usize].push(State { version, asked: self.now, acked: None });
                }
                Err(ChangeError::Full) => self.refused += 1,
                Err(e) => self.wrong.push(e.to_string()),
            }
            self.act();
        }
        let gap = 1 + self.random.below(2 * self.settings.change_ns);
        self.enter(gap, Event::Change);
    }

    /// Does what the table asks for. Changes of the switch's own table take some time, and keep their order.
    fn act(&mut self) {
        while let Some(action) = self.table.take_action() {
            if let Action::Write(number, server, offset, bytes) = action {
                if self.settings.stale_shadows && self.is_shadow(offset) {
                    self.table.written(self.now, number);
                    continue;
                }
                self.write((number, server, offset, bytes));
            } else {
                self.stash_at = self.stash_at.max(self.now) + 1 + self.random.below(self.settings.control_ns);
                let after = self.stash_at - self.now;
                self.enter(after, Event::Stash(action));
            }
        }
    }

    /// Whether bytes of a server's rows are a copy of a cell.
    fn is_shadow(&self, offset: u64) -> bool {
        let cells = u64::from(WINDOW / 2) * self.layout.cell_bytes() as u64;
        offset % self.layout.row_bytes() >= cells
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
            Action::Cache(key, entry) => self.cache(key, entry),
            Action::Uncache(key) => self.uncache(&key),
            Action::Switch(number, first, cells) => {
                set_config(&mut self.rig, (first, cells), TIMEOUT, WAIT);
                let after = self.random.below(self.settings.control_ns);
                self.enter(after, Event::Switched(number));
            }
            Action::Retire(servers, result) => {
                servers.for_each(|i| self.retire(i));
                self.moved[usize::from(result.is_err())] += 1;
            }
            Action::Write(..) => unreachable!("writes go to servers"),
        }
    }

    fn at_switch(&mut self, arrives: Option<(u32, Vec<u8>)>) {
        let out = outputs(&mut self.rig, self.now, arrives);
        self.popular();
        for output in out {
            match output {
                Output::Port(OUT, frame) => drop(self.checker.receive(self.now, Host::Found, &frame)),
                Output::Port(UNKNOWN, frame) => drop(self.checker.receive(self.now, Host::Unknown, &frame)),
                Output::Port(at, frame) if (SERVER..UNKNOWN).contains(&at) => {
                    let Some(i) = self.requested(at, &frame) else { continue };
                    if at == SERVER && self.is_away(Away::Port).is_some() {
                        continue;
                    }
                    self.link(&frame, |frame| Event::ToServer(i, frame));
                }
                other => self.wrong.push(format!("{other:?} left the switch")),
            }
        }
    }

    /// The data plane's requests are those of the layout. The server that is asked.
    fn requested(&mut self, at: u32, frame: &[u8]) -> Option<usize> {
        let (packet, from, to) = match Packet::decode(frame) {
            Ok(decoded) => decoded,
            Err(e) => {
                self.wrong.push(format!("{e} in {frame:02x?}"));
                return None;
            }
        };
        let i = (0..self.servers.len()).rev().find(|i| address(*i) == to && port(*i) == at)?;
        let all = self.servers[i].bytes;
        let remote = packet.remote;
        let window = remote.address < BASE + all;
        let at = remote.address.wrapping_sub(if window { BASE } else { ring(all) });
        let bytes = self.layout.cell_bytes() as u64;
        let fits = if self.layout.scratchpads == Scratchpads::Inline {
            let cells = u64::from(WINDOW) * bytes;
            let (place, bytes) = (at % self.layout.row_bytes(), u64::from(remote.bytes));
            let row = match packet.opcode {
                Opcode::Read => place == 0 && bytes >= cells && bytes <= cells + u64::from(ROW_SLOT),
                _ => bytes == 0 || (place == cells && bytes <= u64::from(ROW_SLOT)),
            };
            window && row
        } else if window {
            packet.opcode == Opcode::Read
                && at % bytes == 0
                && u64::from(remote.bytes) == u64::from(WINDOW) * bytes
        } else {
            at.is_multiple_of(SLOT.into()) && remote.bytes <= SLOT
        };
        let from_switch = from == IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
        // A queue pair that is to end has another key.
        let is_broken = (i, packet.pair, remote.key) == (0, 0x20, REGION + 1);
        if all == 0 || !fits || !from_switch || (remote.key != REGION && !is_broken) {
            self.wrong.push(format!("{packet:?} for server {i}"));
        }
        if remote.bytes > 0 {
            self.servers[i].asked = self.now;
        }
        Some(i)
    }

    fn at_server(&mut self, i: usize, frame: &[u8]) {
        let (packet, ..) = Packet::decode(frame).expect("nothing changes frames");
        let mut answers = Vec::new();
        let mut reads = Vec::new();
        let Some(responder) = &mut self.servers[i].responder else { return };
        responder.step(&packet, &mut |answer| {
            if answer.opcode == Opcode::ReadOnly {
                reads.push(OwnedRead { pair: answer.pair, psn: answer.psn, data: answer.data.to_vec() });
            }
            answers.push((answer.pair, encode_answer(answer, i)));
        });
        if self.settings.adverse && !reads.is_empty() {
            for read in reads {
                // Answers of a server keep their order.
                self.read_at = self.read_at.max(self.now + self.random.below(self.settings.read_ns));
                let after = self.read_at - self.now;
                self.enter(after, Event::Read(i, packet.remote.address, read));
            }
            return;
        }
        for (pair, frame) in answers {
            self.answer(i, pair, frame);
        }
    }

    fn answer(&mut self, i: usize, pair: u32, frame: Vec<u8>) {
        if pair == CONTROLLER {
            self.link(&frame, |frame| Event::ToController(i, frame));
        } else {
            self.link(&frame, |frame| Event::ToSwitch(port(i), frame));
        }
    }

    /// A frame passes, perhaps.
    fn link(&mut self, bytes: &[u8], event: impl Fn(Vec<u8>) -> Event) {
        for after in self.settings.faults.pass(&mut self.random, &mut self.lost_frames) {
            self.enter(after, event(bytes.to_vec()));
        }
    }
}
