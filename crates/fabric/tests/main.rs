//! The controller of a network against one of its switches, with its P4Runtime server, in virtual time.

use pointsman_control::p4info::p4info;
use pointsman_control::proto::p4rt::stream_message_response::Update;
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind};
use pointsman_control::{ConnId, Output as Served, RpcError, Server, ServerConfig, SwitchDevice};
use pointsman_fabric::{Controller, Description, Input};
use pointsman_interp::Interp;
use pointsman_ir::Program as Compiled;
use pointsman_session::{Input as SessionInput, Output, Program, Request, Response};
use pointsman_testkit::compile::{compile, own_includes, own_libraries, own_program};
use pointsman_topology::{CPU_PORT, SwitchId};
use pointsman_v1model::{Switch, SwitchConfig, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const NETWORK: &str = "[network.leaf_spine]\nleaves = 2\nspines = 2\nhosts_per_leaf = 1\n\
    [switches]\nleaf1 = \"a:1\"\nleaf2 = \"a:2\"\nspine1 = \"a:3\"\nspine2 = \"a:4\"\n";
/// The switch that is there; connections to others are never made.
const LEAF: SwitchId = SwitchId(0);
const CONNECTION: ConnId = ConnId(1);

struct World {
    controller: Controller,
    compiled: Arc<Compiled>,
    server: Server,
    switch: Switch<Interp>,
    now: Duration,
    inbox: VecDeque<SessionInput>,
}

fn new_switch() -> (Server, Switch<Interp>) {
    let mut switch = Switch::new(SwitchConfig { cpu_port: Some(CPU_PORT.into()), ..SwitchConfig::default() })
        .expect("valid");
    (1..=3).for_each(|port| switch.add_port(port).expect("free"));
    (Server::new(ServerConfig::default()), switch)
}

impl World {
    fn new(scheme: &str) -> World {
        let compiled = compile(&own_program(scheme), &[&own_includes(), &own_libraries()]);
        let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
        let program = Program { p4info: p4info(&compiled).expect("valid"), device_config: scheme.into() };
        let text = format!("{NETWORK}[scheme]\nname = \"{scheme}\"\n");
        let Description { topology, choice, p4runtime, .. } =
            Description::read("fabric.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        let address = |s: SwitchId| p4runtime[s.0 as usize].clone();
        let controller =
            Controller::new(topology, choice, &program, address, 1).expect("the scheme's program");
        let (server, switch) = new_switch();
        World { controller, compiled, server, switch, now: Duration::ZERO, inbox: VecDeque::new() }
    }

    fn serve(&mut self, request: &Request) -> Result<Response, RpcError> {
        let (now, compiled) = (Time(self.now.as_nanos() as u64), self.compiled.clone());
        let compile = |_: &[u8]| Ok(compiled.as_ref().clone());
        let mut device = SwitchDevice { switch: &mut self.switch, compile };
        request.serve(&mut self.server, &mut device, now)
    }

    fn input(&mut self, input: Input) {
        for (switch, output) in self.controller.step(self.now, input) {
            match output {
                _ if switch != LEAF => {}
                Output::Connect(_) => self.inbox.push_back(SessionInput::Connected),
                Output::Send(message) => {
                    for served in self.server.stream_message(CONNECTION, &message) {
                        if let Served::Send { response, .. } = served {
                            self.inbox.push_back(SessionInput::Stream(response));
                        }
                    }
                }
                Output::Request { id, request } => {
                    let result = self.serve(&request);
                    self.inbox.push_back(SessionInput::Response { id, result });
                }
                Output::Disconnect | Output::Event(_) => {}
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        self.input(Input::Tick);
        loop {
            if let Some(input) = self.inbox.pop_front() {
                self.input(Input::Session(LEAF, input));
                continue;
            }
            let Some(at) = self.controller.next_deadline().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            self.input(Input::Tick);
        }
        self.now = end;
    }

    /// The switch loses power, and comes back without program and entries.
    fn restart(&mut self) {
        self.inbox.clear();
        (self.server, self.switch) = new_switch();
        self.input(Input::Session(LEAF, SessionInput::Disconnected("the switch is gone".into())));
    }

    fn packet_in(&mut self, payload: Vec<u8>) {
        let packet = p4rt::PacketIn { payload, metadata: Vec::new() };
        let message = p4rt::StreamMessageResponse { update: Some(Update::Packet(packet)) };
        self.input(Input::Session(LEAF, SessionInput::Stream(message)));
    }

    /// Members of all groups of the action profiles with names that end so.
    fn members(&mut self, profile: &str) -> usize {
        let info = p4info(&self.compiled).expect("valid");
        let named = info.action_profiles.iter().filter_map(|p| p.preamble.as_ref());
        let action_profile_id =
            named.filter(|p| p.name.ends_with(profile)).map(|p| p.id).next().expect("it has it");
        let all = p4rt::ActionProfileGroup { action_profile_id, ..Default::default() };
        let entities = vec![p4rt::Entity { entity: Some(Kind::ActionProfileGroup(all)) }];
        let read = p4rt::ReadRequest { device_id: 1, entities, ..Default::default() };
        let Ok(Response::Read(found)) = self.serve(&Request::Read(read)) else { panic!("a valid read") };
        let members = |e: p4rt::Entity| match e.entity {
            Some(Kind::ActionProfileGroup(group)) => group.members.len(),
            other => panic!("{other:?}"),
        };
        found.into_iter().map(members).sum()
    }
}

/// An event of `p4/programs/p4te`: a port with the deepest range of queues, and a green rate.
fn deep_queue(port: u8) -> Vec<u8> {
    let mut event = vec![0; 22];
    event[12..18].copy_from_slice(&[0x88, 0xb6, 0, port, 0, 3]);
    event
}

/// A switch that comes back has nothing in its queues, and reports only changes.
#[test]
fn reports_of_a_switch_end_with_its_session() {
    let mut w = World::new("p4te");
    let second = Duration::from_secs(1);
    w.run(second);
    assert_eq!(w.members("low_depth_ports"), 2);
    w.packet_in(deep_queue(2));
    w.run(second);
    assert_eq!(w.members("low_depth_ports"), 1);
    w.restart();
    w.run(60 * second);
    assert_eq!(w.members("low_depth_ports"), 2);
}
