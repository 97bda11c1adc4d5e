mod changes;
mod drains;
mod failover;
mod faults;
mod hosts;
mod several;
mod switch;

use super::*;
use crate::plan::tests::{Shape, assert_complete, p4info};
use crate::plan::{Action, Key, Situation, desired};
use crate::types::{DeviceNumber, Mac, Protocol};
use pointsman_wire::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use switch::{Switch, p4info_for};

/// The controller as a client of the switch, and another client.
const OWN: u32 = 0;
const RIVAL: u32 = 1;

/// A controller and a switch that are connected, in virtual time.
struct World {
    controller: Controller,
    switch: Switch,
    now: Duration,
    connected: bool,
    /// The switch can be reached.
    up: bool,
    /// The switch answers requests.
    answers: bool,
    events: Vec<Event>,
    inbox: VecDeque<Input>,
    last_write: Option<Request>,
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The program for as many devices a server as this rack has.
fn program_for(rack: &Rack) -> Program {
    let p4info = p4info_for(rack);
    Program { device_config: format!("the program, {} registers", p4info.registers.len()).into(), p4info }
}

fn program() -> Program {
    program_for(&shape().rack())
}

impl World {
    fn new(rack: &Rack) -> World {
        World {
            controller: Controller::new(rack.clone(), program_for(rack)).expect("the balancer"),
            switch: Switch::new(rack.clone()),
            now: ms(0),
            connected: false,
            up: true,
            answers: true,
            events: Vec::new(),
            inbox: VecDeque::new(),
            last_write: None,
        }
    }

    /// The same switch under a controller that has just been started.
    fn restart_controller(&mut self) {
        let rack = self.controller.rack().clone();
        let program = program_for(&rack);
        self.controller = Controller::new(rack, program).expect("the balancer");
        self.switch.hang_up(OWN);
        self.connected = false;
        self.inbox.clear();
        self.events.clear();
    }

    fn input(&mut self, input: Input) {
        let out = self.controller.step(self.now, input);
        self.switch.rack = self.controller.rack().clone();
        for o in out {
            match o {
                Output::Connect(address) => {
                    assert_eq!(address, self.controller.rack().switch.p4runtime[0]);
                    self.switch.hang_up(OWN);
                    self.connected = self.up;
                    self.inbox.clear();
                    self.inbox.push_back(if self.up {
                        Input::Connected
                    } else {
                        Input::Disconnected("connection refused".into())
                    });
                }
                Output::Disconnect => {
                    self.switch.hang_up(OWN);
                    self.connected = false;
                    self.inbox.clear();
                }
                Output::Send(m) if self.connected => match m.update {
                    Some(p4rt::stream_message_request::Update::Arbitration(a)) => {
                        let id = a.election_id.map(|id| u128::from(id.high) << 64 | u128::from(id.low));
                        let notices = self.switch.arbitrate(OWN, id).expect("election ids are unique");
                        self.notices(notices);
                    }
                    Some(p4rt::stream_message_request::Update::Packet(p)) => {
                        self.inbox.extend(self.switch.packet_out(&p).map(Input::Stream));
                    }
                    other => panic!("sent {other:?}"),
                },
                Output::Request { id, request } if self.connected && self.answers => {
                    let result = self.switch.request(self.now, &request);
                    if let Request::Write(_) = request {
                        self.last_write = Some(request);
                    }
                    self.inbox.push_back(Input::Response { id, result });
                }
                Output::Send(_) | Output::Request { .. } => {}
                Output::Event(e) => self.events.push(e),
            }
        }
    }

    fn notices(&mut self, notices: Vec<(u32, p4rt::StreamMessageResponse)>) {
        let own = notices.into_iter().filter(|(client, _)| *client == OWN && self.connected);
        self.inbox.extend(own.map(|(_, notice)| Input::Stream(notice)));
    }

    /// Another client connects with this id, or disconnects.
    fn rival(&mut self, id: Option<u128>) {
        let notices = match id {
            Some(_) => self.switch.arbitrate(RIVAL, id).expect("a unique id"),
            None => self.switch.hang_up(RIVAL),
        };
        self.notices(notices);
    }

    /// Lets everything happen until `end`.
    fn run(&mut self, end: Duration) {
        let mut steps = 0;
        loop {
            if let Some(input) = self.inbox.pop_front() {
                self.input(input);
            } else {
                match self.controller.next_deadline() {
                    Some(at) if at <= end => {
                        self.now = self.now.max(at);
                        self.input(Input::Tick);
                    }
                    _ => break,
                }
            }
            steps += 1;
            assert!(steps < 100_000, "it spins: {:?}", self.controller.phase);
        }
        self.now = end;
    }

    fn run_for(&mut self, time: Duration) {
        self.run(self.now + time);
    }

    fn settle(&mut self) {
        self.run_for(ms(50));
        assert_eq!(self.controller.status(), Status::InSync, "{:#?}", self.events);
        assert_eq!(&self.switch.entries(), self.controller.entries());
        assert_complete(&self.switch.entries(), self.controller.rack(), "settled");
    }

    fn lose(&mut self) {
        self.switch.hang_up(OWN);
        self.connected = false;
        self.inbox.clear();
        self.input(Input::Disconnected("the stream was closed".into()));
    }

    fn had(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(wanted)
    }

    fn slots(&self) -> BTreeMap<u16, usize> {
        let mut out = BTreeMap::new();
        for (k, a) in self.switch.entries() {
            if let (Key::Slot { of, .. }, Action::UseServer { server }) = (k, a)
                && of.service == 1
            {
                *out.entry(server).or_default() += 1;
            }
        }
        out
    }

    fn config(&mut self, shape: &Shape) {
        let rack = shape.rack();
        self.switch.speaking.extend(rack.devices().map(|(_, d)| d.number));
        self.input(Input::Config(Box::new(rack)));
    }
}

fn shape() -> Shape {
    Shape::new(3, Policy::P4mite)
}

fn world() -> World {
    let mut w = World::new(&shape().rack());
    w.settle();
    w
}
