//! Controller and agents against the real data plane: the balancer on Pointsman's own switch, through its own P4Runtime
//! server, in virtual time.

use pointsman_balance::agent::{self, Agent, AgentConfig};
use pointsman_balance::controller::{Controller, Input, Output, Program, Request, Response, Status};
use pointsman_balance::plan::{Key, Schema};
use pointsman_balance::trust::ReportKeys;
use pointsman_balance::{DeviceNumber, Policy, Rack};
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::{ConnId, Server, ServerConfig, SwitchDevice};
use pointsman_interp::Interp;
use pointsman_testkit::compile::{compile, own_includes, own_program};
use pointsman_testkit::packet::{Body, L4, Mac, Packet, check_checksums};
use pointsman_v1model::{Output as Out, Switch, SwitchConfig, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

const SWITCH_MAC: Mac = [0x02, 0x50, 0x4d, 0, 0, 0x77];
const CLIENT: &str = "10.0.0.2";
const VIP: &str = "10.0.0.100";

fn example() -> String {
    // Another address than the program's own default: the controller has to set it before anybody can answer.
    include_str!("../../../examples/rack.toml").replace("02:50:4d:00:00:01", "02:50:4d:00:00:77")
}

/// A rack whose agents have keys.
fn with_keys(text: &str) -> Rack {
    let mut rack = Rack::parse("rack.toml", text).unwrap_or_else(|e| panic!("{e}"));
    let mut keys = ReportKeys::default();
    let mut n = 0;
    let made = keys.extend(&rack, false, || {
        n += 1;
        [n; 8]
    });
    assert_eq!(made, Ok(rack.devices().count()));
    rack.keys = keys;
    rack
}

fn program() -> Arc<pointsman_ir::Program> {
    compile(&own_program("balancer"), &[&own_includes()]).unwrap_or_else(|e| panic!("{e}"))
}

fn p4info() -> P4Info {
    pointsman_control::p4info::p4info(&program()).expect("the balancer has a P4Info")
}

fn host_mac(port: u16) -> Mac {
    [2, 0, 0, 0, 9, port as u8]
}

struct World {
    controller: Controller,
    server: Server,
    switch: Switch<Interp>,
    now: Duration,
    inbox: VecDeque<Input>,
    /// Port and address of everybody who answers ARP.
    hosts: Vec<(u16, Ipv4Addr)>,
    agents: Vec<(u16, Agent)>,
    /// Frames on their way to the switch, with the port that they come in at.
    wire: VecDeque<(u16, Vec<u8>)>,
    /// Frames that left the switch, apart from questions that were answered.
    left: Vec<(u16, Packet)>,
}

impl World {
    fn new() -> World {
        let rack = with_keys(&example());
        let config = SwitchConfig {
            cpu_port: Some(510),
            input_depth_packets: 10_000,
            queue_depth_packets: 10_000,
            ..SwitchConfig::default()
        };
        let mut hosts: Vec<_> = rack.devices().filter_map(|(_, d)| Some((d.port, d.address?))).collect();
        hosts.push((1, CLIENT.parse().expect("valid")));
        let agent = |s: &str, d: &str| AgentConfig::from_rack(&rack, s, d, "eth0").expect("known");
        let agents = rack.devices().map(|(s, d)| (d.port, Agent::new(agent(&s.name, &d.name)))).collect();
        World {
            controller: Self::controller(&rack),
            server: Server::new(ServerConfig::default()).expect("valid"),
            switch: Switch::new(config).expect("valid"),
            now: Duration::ZERO,
            inbox: VecDeque::new(),
            hosts,
            agents,
            wire: VecDeque::new(),
            left: Vec::new(),
        }
    }

    fn controller(rack: &Rack) -> Controller {
        let program = Program { p4info: p4info(), device_config: b"the balancer".to_vec() };
        Controller::new(rack.clone(), program).expect("a balancer")
    }

    fn time(&self) -> Time {
        Time(self.now.as_nanos() as u64)
    }

    fn deliver(&mut self, outputs: Vec<pointsman_control::Output>) {
        for o in outputs {
            match o {
                pointsman_control::Output::Send { response, .. } => {
                    self.inbox.push_back(Input::Stream(response))
                }
                pointsman_control::Output::Close { error, .. } => {
                    self.inbox.push_back(Input::Disconnected(error.to_string()));
                }
                pointsman_control::Output::PacketOut { packet } => {
                    let now = self.time();
                    self.switch.receive_cpu(now, &packet);
                }
            }
        }
    }

    fn packets(&mut self) {
        let now = self.time();
        let mut out: Vec<Out> = Vec::new();
        while self.switch.poll(now, 1000, &mut out).more {}
        for o in out {
            match o {
                Out::Cpu(packet) => {
                    let outputs = self.server.packet_in(&packet).expect("somebody listens");
                    self.deliver(outputs);
                }
                Out::Port(port, frame) => {
                    let port = port as u16;
                    let packet = Packet::parse(&frame).expect("a frame");
                    match &packet.body {
                        Body::Arp(arp) if arp.oper == 1 => {
                            if self.hosts.contains(&(port, arp.tpa)) {
                                let answer = Packet::arp(2, &arp.tpa.to_string(), &arp.spa.to_string());
                                let answer = answer.with_arp(|a| (a.sha, a.tha) = (host_mac(port), arp.sha));
                                let answer = answer.macs(host_mac(port), packet.src_mac);
                                self.wire.push_back((port, answer.bytes()));
                            }
                        }
                        _ => {
                            assert_eq!(check_checksums(&frame), Ok(()));
                            self.left.push((port, packet));
                        }
                    }
                }
            }
        }
    }

    fn input(&mut self, input: Input) {
        let now = self.time();
        for o in self.controller.step(self.now, input) {
            match o {
                Output::Connect(_) => self.inbox.push_back(Input::Connected),
                Output::Disconnect => panic!("nothing is wrong with the connection"),
                Output::Event(_) => {}
                Output::Send(message) => {
                    let outputs = self.server.stream_message(ConnId(1), &message);
                    self.deliver(outputs);
                }
                Output::Request { id, request } => {
                    let compile = |_: &[u8]| Ok(program().as_ref().clone());
                    let mut device = SwitchDevice { switch: &mut self.switch, compile };
                    let result = match &request {
                        Request::GetPipeline(r) => {
                            self.server.get_pipeline(r).map(|r| Response::GetPipeline(Box::new(r)))
                        }
                        Request::SetPipeline(r) => {
                            self.server.set_pipeline(&mut device, r, now).map(|_| Response::SetPipeline)
                        }
                        Request::Read(r) => {
                            let read = self.server.read(&mut device, r, now);
                            let entities = read.responses.into_iter().flat_map(|r| r.entities).collect();
                            read.status.map(|()| Response::Read(entities))
                        }
                        Request::Write(r) => self.server.write(&mut device, r, now).map(|_| Response::Write),
                    };
                    assert!(result.is_ok(), "{request:?}: {result:?}");
                    self.inbox.push_back(Input::Response { id, result });
                }
            }
        }
    }

    fn agent(&mut self, i: usize, input: agent::Input<'_>) {
        let (port, agent) = &mut self.agents[i];
        let own = agent.config().addresses[0];
        for o in agent.step(self.now, input) {
            if let agent::Output::Send { to, payload } = o {
                let report = Packet::udp(format!("{own}:9876"), to.to_string(), payload);
                self.wire.push_back((*port, report.macs(host_mac(*port), SWITCH_MAC).bytes()));
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.packets();
            if let Some((port, frame)) = self.wire.pop_front() {
                let now = self.time();
                self.switch.receive(now, port.into(), &frame);
                continue;
            }
            if let Some(input) = self.inbox.pop_front() {
                self.input(input);
                continue;
            }
            let agents = self.agents.iter().enumerate();
            let next_agent = agents.map(|(i, (_, a))| (a.next_deadline(), i)).min();
            let next = self.controller.next_deadline().into_iter().chain(next_agent.map(|(at, _)| at)).min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            match next_agent.filter(|(due, _)| *due == at) {
                Some((_, i)) => self.agent(i, agent::Input::Tick),
                None => self.input(Input::Tick),
            }
        }
        self.now = end;
    }

    /// A request from this port of the client and its answer: the switch's port that leads to the device that served.
    fn ask(&mut self, client_port: u16) -> u16 {
        self.left.clear();
        let client = format!("{CLIENT}:{client_port}");
        let request = Packet::udp(&client, format!("{VIP}:8000"), *b"question");
        self.wire.push_back((1, request.macs(host_mac(1), SWITCH_MAC).bytes()));
        self.run_for(Duration::from_micros(100));
        let (port, packet) = self.left.pop().unwrap_or_else(|| panic!("request {client_port} is lost"));
        let Body::Ip(ip) = &packet.body else { panic!("{packet:?}") };
        let IpAddr::V4(device) = ip.dst else { panic!("{packet:?}") };
        assert!(self.hosts.contains(&(port, device)) && packet.dst_mac == host_mac(port), "{packet:?}");
        let answer = Packet::udp(format!("{device}:8000"), &client, *b"answer");
        self.wire.push_back((port, answer.macs(host_mac(port), SWITCH_MAC).bytes()));
        self.run_for(Duration::ZERO);
        let (back, packet) = self.left.pop().unwrap_or_else(|| panic!("answer {client_port} is lost"));
        let Body::Ip(ip) = &packet.body else { panic!("{packet:?}") };
        let L4::Udp(udp) = &ip.l4 else { panic!("{packet:?}") };
        assert_eq!((back, ip.src.to_string().as_str(), udp.sport, udp.dport), (1, VIP, 8000, client_port));
        port
    }

    /// Asks from many ports: how many went to the device behind which port.
    fn shares(&mut self, ports: std::ops::Range<u16>) -> BTreeMap<u16, usize> {
        let mut out = BTreeMap::new();
        for p in ports {
            *out.entry(self.ask(p)).or_default() += 1;
        }
        out
    }

    fn set_policy(&mut self, policy: Policy) {
        self.input(Input::SetPolicy { service: "inference".into(), policy });
        self.run_for(Duration::from_millis(10));
        assert_eq!(self.controller.status(), Status::InSync);
    }
}

fn within(share: Option<&usize>, of: usize, expected: f64) {
    let share = share.copied().unwrap_or(0) as f64 / of as f64;
    assert!((share - expected).abs() < 0.06, "a share of {share} instead of {expected}");
}

/// The P4Info that the unit tests use is that of the present program.
#[test]
fn test_data_is_up_to_date() {
    let stored: P4Info =
        pointsman_control::text::from_text(include_str!("data/balancer.p4info.txtpb")).expect("valid");
    assert_eq!(Schema::new(&stored), Schema::new(&p4info()));
}

#[test]
fn a_rack_is_balanced() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    assert_eq!(w.controller.status(), Status::InSync);
    assert_eq!(w.controller.unresolved(), Vec::<String>::new(), "everybody answered ARP");

    // Policies, one after the other; connections stay where they are.
    let mut went: BTreeMap<u16, u16> = BTreeMap::new();
    let n = 300;
    for (i, policy) in [Policy::P4mite, Policy::Wrr, Policy::Ecmp, Policy::ServerOnly].into_iter().enumerate()
    {
        w.set_policy(policy);
        for (client, port) in went.clone() {
            assert_eq!(w.ask(client), port, "connection {client} moved under {policy}");
        }
        let first = 1000 + i as u16 * n;
        let mut shares: BTreeMap<u16, usize> = BTreeMap::new();
        for client in first..first + n {
            let port = w.ask(client);
            went.insert(client, port);
            *shares.entry(port).or_default() += 1;
        }
        let expected: [f64; 4] = match policy {
            Policy::Wrr => [5.0 / 12.0, 1.0 / 12.0, 5.0 / 12.0, 1.0 / 12.0],
            Policy::Ecmp => [0.25; 4],
            // P4Mite, where all CPUs are available, and server-only.
            _ => [0.5, 0.0, 0.5, 0.0],
        };
        for (port, share) in (2..).zip(expected) {
            within(shares.get(&port), usize::from(n), share);
        }
    }

    // Both CPUs stop answering: their agents notice, and the SmartNICs take over.
    w.set_policy(Policy::P4mite);
    for (i, device) in [(0, "10.0.1.11"), (2, "10.0.1.21")] {
        let request = Packet::udp("10.0.0.3:5", format!("{device}:8000"), *b"never answered").bytes();
        w.agent(i, agent::Input::Packet { direction: agent::Direction::In, frame: &request });
    }
    assert_eq!(w.shares(5000..5010).keys().copied().collect::<Vec<_>>(), [2, 4]);
    w.run_for(Duration::from_millis(25));
    let shares = w.shares(5100..5200);
    assert_eq!(shares.keys().copied().collect::<Vec<_>>(), [3, 5]);
    within(shares.get(&3), 100, 0.5);

    // All agents of the second server die: it gets no new connections any more.
    w.agents.truncate(2);
    w.run_for(Duration::from_secs(2));
    assert_eq!(w.shares(5200..5300), [(3, 100)].into());
}

/// Every policy, one after the other, on the real data plane: its entries are accepted, new connections are served, those that exist
/// stay where they are.
#[test]
fn every_policy() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    let mut went: BTreeMap<u16, u16> = BTreeMap::new();
    for (i, policy) in Policy::ALL.into_iter().enumerate() {
        w.set_policy(policy);
        for (client, port) in went.clone() {
            assert_eq!(w.ask(client), port, "connection {client} moved under {policy}");
        }
        let first = 2000 + i as u16 * 20;
        let shares: BTreeMap<u16, usize> = (first..first + 20).fold(BTreeMap::new(), |mut shares, client| {
            let port = w.ask(client);
            went.insert(client, port);
            *shares.entry(port).or_default() += 1;
            shares
        });
        // Both servers serve, whatever the policy does inside of them.
        assert!(shares.keys().any(|p| *p < 4) && shares.keys().any(|p| *p >= 4), "{policy}: {shares:?}");
    }
    // The controller names a device, which may be of the other server than the hash says.
    for (device, port) in [(DeviceNumber::new(2, 1), 5), (DeviceNumber::new(1, 0), 2)] {
        w.set_policy(Policy::Chosen);
        w.input(Input::Choose { service: "inference".into(), device: Some(device) });
        w.run_for(Duration::from_millis(10));
        assert_eq!(w.shares(4000 + 100 * port..4020 + 100 * port), [(port, 20)].into());
    }
}

#[test]
fn a_device_leaves_and_the_controller_restarts() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    w.set_policy(Policy::Ecmp);
    let before: Vec<u16> = (1000..1100).map(|p| w.ask(p)).collect();
    let full = example();
    let (start, end) =
        (full.rfind("[[server.device]]").expect("there"), full.find("[[service]]").expect("there"));
    let without = format!("{}{}", &full[..start], &full[end..]).replace("\"p4mite\"", "\"ecmp\"");
    let rack = with_keys(&without);
    assert_eq!(rack.servers[1].devices.len(), 1);
    w.input(Input::Config(Box::new(rack.clone())));
    w.run_for(Duration::from_millis(100));
    assert_eq!(w.shares(2000..2100).len(), 3, "no new connections");
    let gone = Key::Device { device: DeviceNumber::new(2, 1), v6: false };
    for _ in 0..4 {
        w.run_for(Duration::from_secs(20));
        let now: Vec<u16> = (1000..1100).map(|p| w.ask(p)).collect();
        assert_eq!(now, before, "connections that exist go on");
        assert!(w.controller.entries().contains_key(&gone));
    }

    // A new controller finds nothing to do.
    let held = w.controller.entries().clone();
    w.controller = World::controller(&rack);
    w.inbox.clear();
    let outputs = w.server.connection_closed(ConnId(1));
    w.deliver(outputs);
    w.run_for(Duration::from_secs(1));
    assert_eq!((w.controller.status(), w.controller.entries()), (Status::InSync, &held));
    let now: Vec<u16> = (1000..1100).map(|p| w.ask(p)).collect();
    assert_eq!(now, before);

    // Nothing more is sent: when the last connection must be over, the device goes.
    w.run_for(Duration::from_secs(32));
    assert!(!w.controller.entries().contains_key(&gone));
}
