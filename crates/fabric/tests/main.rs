//! The controller of a network against one of its switches, with its P4Runtime server, in virtual time.

use pointsman_control::p4info::p4info;
use pointsman_control::proto::p4rt::stream_message_response::Update;
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind};
use pointsman_control::{ConnId, Output as Served, RpcError, Server, ServerConfig, SwitchDevice};
use pointsman_fabric::{Action, Controller, Description, Input, SCHEMES};
use pointsman_interp::Interp;
use pointsman_ir::Program as Compiled;
use pointsman_session::{Input as SessionInput, Output, Program, Request, Response};
use pointsman_testkit::compile::{compile, own_includes, own_libraries, own_program};
use pointsman_testkit::packet::Packet;
use pointsman_topology::{CPU_PORT, End, HostId, SwitchId};
use pointsman_v1model::{Output as Left, Switch, SwitchConfig, Time};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const NETWORK: &str = "[network.leaf_spine]\nleaves = 2\nspines = 2\nhosts_per_leaf = 1\n\
    [switches]\nleaf1 = \"a:1\"\nleaf2 = \"a:2\"\nspine1 = \"a:3\"\nspine2 = \"a:4\"\n";
const LEAF: SwitchId = SwitchId(0);
const CONNECTION: ConnId = ConnId(1);

struct World {
    controller: Controller,
    /// The switch that is there; connections to others are never made.
    there: SwitchId,
    compiled: Arc<Compiled>,
    server: Server,
    switch: Switch<Interp>,
    now: Duration,
    inbox: VecDeque<SessionInput>,
}

fn described(network: &str, scheme: &str, settings: &str) -> Description {
    let text = format!("{network}[scheme]\nname = \"{scheme}\"\n{settings}");
    Description::read("fabric.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

fn new_switch() -> (Server, Switch<Interp>) {
    let mut switch = Switch::new(SwitchConfig { cpu_port: Some(CPU_PORT.into()), ..SwitchConfig::default() })
        .expect("valid");
    (1..=3).for_each(|port| switch.add_port(port).expect("free"));
    (Server::new(ServerConfig::default()), switch)
}

impl World {
    fn new(scheme: &str) -> World {
        World::of(NETWORK, scheme, "", LEAF)
    }

    fn of(network: &str, scheme: &str, settings: &str, there: SwitchId) -> World {
        let compiled = compile(&own_program(scheme), &[&own_includes(), &own_libraries()]);
        let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
        let program = Program { p4info: p4info(&compiled).expect("valid"), device_config: scheme.into() };
        let Description { topology, choice, p4runtime, .. } = described(network, scheme, settings);
        let address = |s: SwitchId| p4runtime[s.0 as usize].clone();
        let controller =
            Controller::new(topology, choice, &program, address, 1).expect("the scheme's program");
        let (server, switch) = new_switch();
        World { controller, there, compiled, server, switch, now: Duration::ZERO, inbox: VecDeque::new() }
    }

    fn serve(&mut self, request: &Request) -> Result<Response, RpcError> {
        let (now, compiled) = (Time(self.now.as_nanos() as u64), self.compiled.clone());
        let compile = |_: &[u8]| Ok(compiled.as_ref().clone());
        let mut device = SwitchDevice { switch: &mut self.switch, compile };
        request.serve(&mut self.server, &mut device, now)
    }

    fn input(&mut self, input: Input) {
        let actions = self.controller.step(self.now, input);
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<Action>) {
        for (switch, output) in actions {
            match output {
                _ if switch != self.there => {}
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
                self.input(Input::Session(self.there, input));
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
        self.input(Input::Session(self.there, SessionInput::Disconnected("the switch is gone".into())));
    }

    fn packet_in(&mut self, payload: Vec<u8>) {
        let packet = p4rt::PacketIn { payload, metadata: Vec::new() };
        let message = p4rt::StreamMessageResponse { update: Some(Update::Packet(packet)) };
        self.input(Input::Session(self.there, SessionInput::Stream(message)));
    }

    fn configure(&mut self, new: Description) {
        let actions = self.controller.configure(self.now, new.topology, new.choice);
        self.act(actions.expect("the same program"));
    }

    /// A frame that arrives, and the only one that leaves because of it.
    fn passes(&mut self, port: u16, frame: &[u8]) -> (u16, Vec<u8>) {
        let (now, mut out) = (Time(self.now.as_nanos() as u64), Vec::new());
        self.switch.receive(now, port.into(), frame);
        self.switch.poll(now, 1000, &mut out);
        match out.as_slice() {
            [Left::Port(port, frame)] => (*port as u16, frame.clone()),
            other => panic!("{other:?}"),
        }
    }

    fn read(&mut self, entity: Kind) -> Vec<Kind> {
        let entities = vec![p4rt::Entity { entity: Some(entity) }];
        let read = p4rt::ReadRequest { device_id: 1, entities, ..Default::default() };
        let Ok(Response::Read(found)) = self.serve(&Request::Read(read)) else { panic!("a valid read") };
        found.into_iter().filter_map(|e| e.entity).collect()
    }

    /// The first parameter of the default action of the table with a name that ends so, if it has any.
    fn default_parameter(&mut self, table: &str) -> Option<Vec<u8>> {
        let info = p4info(&self.compiled).expect("valid");
        let named = info.tables.iter().filter_map(|p| p.preamble.as_ref());
        let table_id = named.filter(|p| p.name.ends_with(table)).map(|p| p.id).next().expect("it has it");
        let asked = p4rt::TableEntry { table_id, is_default_action: true, ..Default::default() };
        let found = self.read(Kind::TableEntry(asked));
        let [Kind::TableEntry(entry)] = found.as_slice() else { panic!("{found:?}") };
        let action = entry.action.as_ref().and_then(|a| a.r#type.clone());
        let Some(p4rt::table_action::Type::Action(action)) = action else { panic!("{entry:?}") };
        action.params.first().map(|p| p.value.clone())
    }

    /// Members of all groups of the action profiles with names that end so.
    fn members(&mut self, profile: &str) -> usize {
        let info = p4info(&self.compiled).expect("valid");
        let named = info.action_profiles.iter().filter_map(|p| p.preamble.as_ref());
        let action_profile_id =
            named.filter(|p| p.name.ends_with(profile)).map(|p| p.id).next().expect("it has it");
        let all = p4rt::ActionProfileGroup { action_profile_id, ..Default::default() };
        let members = |found: Kind| match found {
            Kind::ActionProfileGroup(group) => group.members.len(),
            other => panic!("{other:?}"),
        };
        self.read(Kind::ActionProfileGroup(all)).into_iter().map(members).sum()
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

#[test]
fn routes_have_so_many_next_hops() {
    let members = |settings: &str| {
        let mut w = World::of(NETWORK, "letflow", settings, LEAF);
        w.run(Duration::from_secs(1));
        w.members("next_hops")
    };
    // One to the own host, two to the other one.
    assert_eq!(["", "maximum_paths = 1\n", "maximum_paths = 9\n"].map(members), [3, 2, 3]);
}

#[test]
fn classes_by_bytes_begin_and_end() {
    let mut w = World::of(NETWORK, "p4te", "class_kib = 128\n", LEAF);
    let second = Duration::from_secs(1);
    w.run(second);
    assert_eq!(w.default_parameter("class_config"), Some(131_072u32.to_be_bytes()[1..].to_vec()));
    w.configure(described(NETWORK, "p4te", ""));
    w.run(second);
    assert_eq!(w.default_parameter("class_config"), None);
}

/// Two leaves with a host each, and two spines.
const BOTH_FAMILIES: &str = "[[network.switch]]\nname = \"leaf1\"\n[[network.switch]]\nname = \"leaf2\"\n\
    [[network.switch]]\nname = \"spine1\"\n[[network.switch]]\nname = \"spine2\"\n\
    [[network.host]]\nname = \"h1\"\naddress = \"10.0.1.1\"\naddress_v6 = \"fd00:1::1\"\n\
    [[network.host]]\nname = \"h2\"\naddress = \"10.0.2.1\"\naddress_v6 = \"fd00:2::1\"\n\
    [[network.link]]\nends = [\"leaf1:1\", \"h1\"]\n[[network.link]]\nends = [\"leaf2:1\", \"h2\"]\n\
    [[network.link]]\nends = [\"leaf1:2\", \"spine1:1\"]\n[[network.link]]\nends = [\"leaf2:2\", \"spine1:2\"]\n\
    [[network.link]]\nends = [\"leaf1:3\", \"spine2:1\"]\n[[network.link]]\nends = [\"leaf2:3\", \"spine2:2\"]\n\
    [switches]\nleaf1 = \"a:1\"\nleaf2 = \"a:2\"\nspine1 = \"a:3\"\nspine2 = \"a:4\"\n";

/// The frame that the second host gets when the first one sends this, and the switches on its way.
fn travels(worlds: &mut [World], frame: Vec<u8>) -> (Vec<u8>, Vec<u32>) {
    let (mut at, mut port, mut frame, mut way) = (LEAF, 1, frame, Vec::new());
    for _ in 0..worlds.len() {
        way.push(at.0);
        let world = &mut worlds[at.0 as usize];
        let (out, left) = world.passes(port, &frame);
        let link = world.controller.topology().ports(at).find(|(p, ..)| *p == out);
        (at, port, frame) = match link.expect("a port with a link").2 {
            End::Switch(next, into) => (next, into, left),
            End::Host(HostId(1)) => return (left, way),
            other => panic!("{other:?}"),
        };
    }
    panic!("{way:?}");
}

#[test]
fn hosts_reach_each_other_by_both_families() {
    for scheme in SCHEMES {
        let world = |s| {
            let mut w = World::of(BOTH_FAMILIES, scheme.name, "", SwitchId(s));
            w.run(Duration::from_secs(1));
            w
        };
        let mut worlds: Vec<World> = (0..4).map(world).collect();
        let mut ways = BTreeSet::new();
        for n in 0..32 {
            for (from, to) in [("10.0.1.1", "10.0.2.1"), ("[fd00:1::1]", "[fd00:2::1]")] {
                let sent = Packet::udp(format!("{from}:{}", 1024 + n), format!("{to}:7"), vec![1; 40]);
                let (got, way) = travels(&mut worlds, sent.bytes());
                let got = Packet::parse(&got).expect("a packet");
                assert_eq!(got.body, sent.ttl(61).body, "{scheme:?}");
                ways.insert((from, way));
            }
        }
        let over = |spine| ["10.0.1.1", "[fd00:1::1]"].map(|from| (from, vec![0, spine, 1]));
        let all: BTreeSet<_> = [over(2), over(3)].concat().into_iter().collect();
        assert_eq!(ways, all, "{scheme:?}");
    }
}
