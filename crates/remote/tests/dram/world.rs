//! A switch with a program that uses servers' memory, and the servers, in virtual time.

use crate::switch::*;
use pointsman_ir::Executor;
use pointsman_roce::{Packet, Region, Responder, Rights};
use pointsman_stf::Rig;
use pointsman_stf::generator::Numbered;
use pointsman_testkit::compile::own_program;
use pointsman_v1model::{Output, SwitchConfig};
use pointsman_wire::{Mac, Random, frame};
use std::net::Ipv4Addr;

/// The program with these macros; every replacement in it or in the library must apply.
pub fn program<E>(name: &str, macros: &str, changes: &[(&str, &str)]) -> App<E> {
    let text = std::fs::read_to_string(own_program(name)).expect("readable");
    App::of_text(&(macros.to_string() + &changed(with_parts(&text, "dram", ""), changes)))
}

/// A datagram from here to port 80: MAC addresses of receiver and sender, address and port, target, data, time to live.
pub fn datagram(
    (to, from): (u64, u64),
    (source, port): (Ipv4Addr, u16),
    target: Ipv4Addr,
    data: &[u8],
    ttl: u8,
) -> Vec<u8> {
    let hop = (Mac::from_u64(to), Mac::from_u64(from));
    let udp = frame::udp(port, 80, data);
    frame::packet(hop, source.into(), target.into(), frame::UDP, udp, frame::Ip { ttl, ..frame::USUAL })
}

/// A frame at the end of a link.
enum Event {
    ToSwitch(u32, Vec<u8>),
    ToServer(usize, Vec<u8>),
}

pub struct World<E: Executor> {
    pub now: u64,
    calendar: Calendar<Event>,
    pub random: Random,
    pub faults: Faults,
    pub rig: Rig<E>,
    pub servers: Vec<Responder>,
    pub lost_frames: u64,
    /// By how much each frame on a link to a server is later.
    pub delay: u64,
    /// A server does not answer between these times.
    pub away: Option<(usize, u64, u64)>,
    /// What left the switch by other ports than those to servers: when, port, frame.
    pub left: Vec<(u64, u32, Vec<u8>)>,
}

impl<E: Executor + Send + Sync> World<E> {
    /// Servers, each with a region of so many bytes.
    pub fn new(app: &App<E>, servers: &[usize], faults: Faults, seed: u64) -> Self {
        let servers = servers.iter().map(|bytes| {
            let mut server = Responder::new(MTU).expect("a path MTU");
            let rights = Rights { read: true, write: true, atomic: true };
            server
                .add_region(REGION, Region::new(BASE, *bytes, rights).expect("a region"))
                .expect("a new key");
            server
        });
        World {
            now: 1000 * US,
            calendar: Calendar::default(),
            random: Random::new(seed),
            faults,
            servers: servers.collect(),
            rig: app.rig(SwitchConfig { nanoseconds: true, ..SwitchConfig::default() }),
            lost_frames: 0,
            delay: 0,
            away: None,
            left: Vec::new(),
        }
    }

    /// A queue pair of the switch with a server; `psns` are registers that have its number.
    pub fn add_pair(&mut self, pair: u32, first: u32, server: usize, base: u64, psns: &[&str]) {
        let (psn, number) = (0xff_fff0 + pair, 0x20 + pair);
        self.servers[server].add_pair(number, first + pair, psn, &[REGION]).expect("a queue pair");
        for register in psns {
            self.rig.write_register(register, pair.into(), &psn.to_string()).expect("a register");
        }
        let (port, session) = (SERVER + server as u32, 20 + pair);
        self.statement(&format!("mirroring_add {session} {port}"));
        let peer = format!(
            "dram_pairs pair={pair} -> peer(pair={number}, mac=0x02, address={}, port={port}, session={session}, region={REGION}, base={base})",
            address(server)
        );
        self.rig.add(&peer).expect("a queue pair");
    }

    /// A statement of packet tests about the switch's configuration.
    pub fn statement(&mut self, text: &str) {
        configure(&mut self.rig, &format!("{text}\n"));
    }

    pub fn generator(&mut self, text: &str) {
        let generator: Numbered = text.parse().expect("a generator");
        self.rig
            .switch
            .set_generator(self.rig.now, generator.number, generator.generator)
            .expect("a generator");
    }

    /// A frame arrives at the switch some time from now.
    pub fn send(&mut self, after: u64, port: u32, frame: Vec<u8>) {
        self.enter(after, Event::ToSwitch(port, frame));
    }

    fn enter(&mut self, after: u64, event: Event) {
        self.calendar.enter(self.now + after, event);
    }

    pub fn run(&mut self, duration: u64) {
        let end = self.now + duration;
        loop {
            let Some((at, due)) = self.calendar.next((self.now, end), &self.rig, &[]) else {
                self.now = end;
                return;
            };
            self.now = at;
            match due {
                Due::Event(Event::ToServer(i, frame)) => self.at_server(i, &frame),
                Due::Event(Event::ToSwitch(port, frame)) => self.at_switch(Some((port, frame))),
                Due::Switch | Due::Controller => self.at_switch(None),
            }
        }
    }

    fn at_switch(&mut self, arrives: Option<(u32, Vec<u8>)>) {
        for output in outputs(&mut self.rig, self.now, arrives) {
            match output {
                Output::Port(port, frame)
                    if port >= SERVER && ((port - SERVER) as usize) < self.servers.len() =>
                {
                    let i = (port - SERVER) as usize;
                    self.link(&frame, |frame| Event::ToServer(i, frame));
                }
                Output::Port(port, frame) => self.left.push((self.now, port, frame.to_vec())),
                other => panic!("{other:?} left the switch"),
            }
        }
    }

    fn at_server(&mut self, i: usize, frame: &[u8]) {
        if self.away.is_some_and(|(away, from, to)| away == i && (from..to).contains(&self.now)) {
            return;
        }
        let (packet, _, to) = Packet::decode(frame).expect("a right check value");
        assert_eq!(to, address(i), "{packet:?}");
        let mut answers = Vec::new();
        self.servers[i].step(&packet, &mut |answer| answers.push(encode_answer(answer, i)));
        for frame in answers {
            self.link(&frame, |frame| Event::ToSwitch(SERVER + i as u32, frame));
        }
    }

    /// A frame passes, perhaps.
    fn link(&mut self, bytes: &[u8], event: impl Fn(Vec<u8>) -> Event) {
        for after in self.faults.pass(&mut self.random, &mut self.lost_frames) {
            self.enter(after + self.delay, event(bytes.to_vec()));
        }
    }

    pub fn register(&mut self, name: &str, index: u64) -> u64 {
        let bytes = self.rig.register(name, index).expect("a register").to_be_bytes();
        bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
    }

    pub fn count(&mut self, name: &str, index: u64) -> u64 {
        self.rig.counter(name, index).expect("a counter").packets
    }
}
