//! A rack in virtual time around the real data plane.

use pointsman_balance::agent::{self, Agent, AgentConfig, Direction};
use pointsman_balance::api::{Desk, Effect, Request as ApiRequest, Tokens};
use pointsman_balance::controller::{Controllers, Input, Output, Program, Status};
use pointsman_balance::frame_report::ETHERTYPE;
use pointsman_balance::program::defines;
use pointsman_balance::trust::ReportKeys;
use pointsman_balance::{Policy, Rack};
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::proto::p4rt;
use pointsman_control::{ConnId, Server, ServerConfig, SwitchDevice};
use pointsman_interp::Interp;
use pointsman_testkit::compile::{compile_with, own_includes, own_libraries, own_program};
use pointsman_testkit::packet::{Body, L4, Mac, Packet, check_checksums};
use pointsman_v1model::{Output as Out, Switch, SwitchConfig, Time};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

const TOKENS: &str = "ops 0123456789abcdef0123";
pub const SWITCH_MAC: Mac = [0x02, 0x50, 0x4d, 0, 0, 0x77];
pub const CLIENT: &str = "10.0.0.2";
pub const VIP: &str = "10.0.0.100";

pub fn example() -> String {
    // Another address than the program's own default: the controller has to set it before any station can answer.
    include_str!("../../../../examples/rack.toml")
        .replace("02:50:4d:00:00:01", "02:50:4d:00:00:77")
        .replace("[switch]\n", "[switch]\nprobes = \"unauthenticated\"\n")
}

/// A rack whose agents have keys.
pub fn with_keys(text: &str) -> Rack {
    let mut rack = Rack::parse("rack.toml", text).unwrap_or_else(|e| panic!("{e}"));
    let mut keys = ReportKeys::default();
    let mut n = 0;
    let made = keys.extend(&rack, false, || {
        n += 1;
        [n; 8]
    });
    assert_eq!(made, Ok(rack.devices().filter(|(_, d)| d.reporter == d.number).count()));
    rack.keys = keys;
    rack
}

/// The program for as many devices a server as this rack has.
pub fn program(rack: &Rack) -> Arc<pointsman_ir::Program> {
    compile_with(&own_program("balancer"), &[&own_includes(), &own_libraries()], &defines(rack))
        .unwrap_or_else(|e| panic!("{e}"))
}

pub fn p4info(rack: &Rack) -> P4Info {
    pointsman_control::p4info::p4info(&program(rack)).expect("the balancer has a P4Info")
}

/// The example with so many devices on its second server, each behind a port of its own. From slot 8 on, the agent of the first reports for every
/// other one.
pub fn larger(devices: u16) -> String {
    let more = (2..devices).map(|slot| {
        let (port, reporter) = (4 + slot, if slot > 7 && slot % 2 == 1 { "reported_by = \"cpu\"\n" } else { "" });
        format!(
            "[[server.device]]\nname = \"gpu{slot}\"\nkind = \"gpu\"\nport = {port}\naddress = \"10.0.1.{}\"\n\
             address6 = \"fd00:0:0:1::{}\"\n{reporter}\n",
            100 + slot,
            100 + slot
        )
    });
    let example = example();
    let (before, after) = example.split_at(example.find("[[service]]").expect("a service"));
    format!("{before}{}{after}", more.collect::<String>())
}

pub fn host_mac(port: u16) -> Mac {
    [2, 0, 0, 0, 9, port as u8]
}

pub struct World {
    pub controller: Controllers,
    pub server: Server,
    pub switch: Switch<Interp>,
    program: Arc<pointsman_ir::Program>,
    pub now: Duration,
    pub inbox: VecDeque<Input>,
    /// Port and address of every station that answers ARP.
    pub hosts: Vec<(u16, Ipv4Addr)>,
    pub agents: Vec<(u16, Agent)>,
    /// Ports of devices whose service does not answer.
    pub dead: BTreeSet<u16>,
    /// All messages.
    pub told: Vec<String>,
    /// Frames that left the switch for agents, with the port.
    to_agents: VecDeque<(u16, Vec<u8>)>,
    /// Frames on their way to the switch, with the port that they come in at.
    pub wire: VecDeque<(u16, Vec<u8>)>,
    /// Frames that left the switch, apart from questions that were answered.
    pub left: Vec<(u16, Packet)>,
    /// The API's requests, which override the rack's file.
    pub desk: Desk,
    /// The desk's last saved state.
    pub kept: String,
    /// Whether messages to the controller wait, so that a test can take them out one by one.
    pub hold: bool,
}

impl World {
    pub fn new() -> World {
        World::of(with_keys(&example()))
    }

    pub fn of(rack: Rack) -> World {
        let mut hosts: Vec<_> = rack.devices().filter_map(|(_, d)| Some((d.port, d.address?))).collect();
        hosts.push((1, CLIENT.parse().expect("valid")));
        let agent = |s: &str, d: &str| AgentConfig::from_rack(&rack, s, d, "eth0").expect("known");
        let with_agents = rack.devices().filter(|(_, d)| d.reporter == d.number);
        let agents = with_agents.map(|(s, d)| (d.port, Agent::new(agent(&s.name, &d.name)))).collect();
        World {
            controller: Self::controller(&rack),
            server: Server::new(ServerConfig::default()),
            switch: Self::switch(),
            program: program(&rack),
            now: Duration::ZERO,
            inbox: VecDeque::new(),
            hosts,
            agents,
            dead: BTreeSet::new(),
            told: Vec::new(),
            to_agents: VecDeque::new(),
            wire: VecDeque::new(),
            left: Vec::new(),
            desk: Desk::new(rack, Tokens::parse(TOKENS).expect("valid")),
            kept: String::new(),
            hold: false,
        }
    }

    pub fn switch() -> Switch<Interp> {
        let config = SwitchConfig {
            cpu_port: Some(510),
            input_depth_packets: 10_000,
            queue_depth_packets: 10_000,
            ..SwitchConfig::default()
        };
        Switch::new(config).expect("valid")
    }

    pub fn controller(rack: &Rack) -> Controllers {
        let program = Program { p4info: p4info(rack), device_config: b"the balancer".to_vec() };
        Controllers::new(rack.clone(), program).expect("a balancer")
    }

    pub fn time(&self) -> Time {
        Time(self.now.as_nanos() as u64)
    }

    pub fn deliver(&mut self, outputs: Vec<pointsman_control::Output>) {
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

    pub fn packets(&mut self) {
        let now = self.time();
        let mut out: Vec<Out> = Vec::new();
        while self.switch.poll(now, 1000, &mut out).more {}
        for o in out {
            match o {
                Out::Cpu(packet) => {
                    let outputs = self.server.packet_in(&packet).expect("a client listens");
                    self.deliver(outputs);
                }
                Out::Port(port, frame) => {
                    let port = port as u16;
                    if frame[12..14] == ETHERTYPE.to_be_bytes() {
                        self.to_agents.push_back((port, frame.to_vec()));
                        continue;
                    }
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

    pub fn input(&mut self, input: Input) {
        let now = self.time();
        let mut effects = Vec::new();
        for (_, o) in self.controller.step(self.now, 0, input) {
            match o {
                Output::Connect(_) => self.inbox.push_back(Input::Connected),
                Output::Disconnect => panic!("nothing is wrong with the connection"),
                Output::Event(e) => {
                    self.told.push(e.to_string());
                    effects.extend(self.desk.event(
                        self.unix_ms(),
                        &e,
                        self.controller.status() == Status::InSync,
                    ));
                }
                Output::Send(message) => {
                    let outputs = self.server.stream_message(ConnId(1), &message);
                    self.deliver(outputs);
                }
                Output::Request { id, request } => {
                    let compile = |_: &[u8]| Ok(self.program.as_ref().clone());
                    let mut device = SwitchDevice { switch: &mut self.switch, compile };
                    let result = request.serve(&mut self.server, &mut device, now);
                    assert!(result.is_ok(), "{request:?}: {result:?}");
                    self.inbox.push_back(Input::Response { id, result });
                }
            }
        }
        self.perform(effects);
    }

    /// Reads as any P4Runtime client could.
    pub fn read(&mut self, entity: p4rt::Entity) -> Vec<p4rt::entity::Entity> {
        let compile = |_: &[u8]| Ok(self.program.as_ref().clone());
        let mut device = SwitchDevice { switch: &mut self.switch, compile };
        let request = p4rt::ReadRequest { device_id: 1, entities: vec![entity], ..Default::default() };
        let read = self.server.read(&mut device, &request, Time(self.now.as_nanos() as u64));
        assert_eq!(read.status, Ok(()));
        read.responses.into_iter().flat_map(|r| r.entities).filter_map(|e| e.entity).collect()
    }

    pub fn unix_ms(&self) -> u64 {
        1_800_000_000_000 + self.now.as_millis() as u64
    }

    pub fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Configure(rack) => self.input(Input::Config(rack)),
                Effect::Save(text) => self.kept = text,
                Effect::Say(_) => {}
            }
        }
    }

    /// Sends a request to the API, and returns status and answer before anything else happens.
    pub fn api(&mut self, method: &str, target: &str, body: &str) -> (u16, Value) {
        let authorization = Some("Bearer 0123456789abcdef0123");
        let request = ApiRequest { method, target, authorization, body: body.as_bytes() };
        let answer = self.desk.ask(self.unix_ms(), &self.controller, &request);
        self.perform(answer.effects);
        (answer.response.status, serde_json::from_str(&answer.response.text()).expect("JSON"))
    }

    /// The outcome of a change.
    pub fn outcome(&self, change: &Value) -> Value {
        let id = change["id"].as_u64().unwrap_or_else(|| panic!("no change: {change}"));
        serde_json::from_str(&self.desk.outcome(id).text()).expect("JSON")
    }

    pub fn agent(&mut self, i: usize, input: agent::Input<'_>) {
        let (port, agent) = &mut self.agents[i];
        let own = agent.config().addresses[0];
        let mut probed = Vec::new();
        for o in agent.step(self.now, input) {
            match o {
                agent::Output::Send { to, payload } => {
                    let report = Packet::udp(format!("{own}:9876"), to.to_string(), payload);
                    self.wire.push_back((*port, report.macs(host_mac(*port), SWITCH_MAC).bytes()));
                }
                agent::Output::Probe { device, target, .. } => probed.push((device, target)),
                agent::Output::Problem(text) => self.told.push(text),
                _ => {}
            }
        }
        let result = if self.dead.contains(port) { Err("connection refused") } else { Ok(()) };
        for (device, target) in probed {
            self.agent(i, agent::Input::Probed { device, target, result });
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.packets();
            if let Some((port, frame)) = self.wire.pop_front() {
                let now = self.time();
                self.switch.receive(now, port.into(), &frame);
                continue;
            }
            if let Some((port, frame)) = self.to_agents.pop_front() {
                if let Some(i) = self.agents.iter().position(|(p, _)| *p == port) {
                    self.agent(i, agent::Input::Packet { direction: Direction::In, frame: &frame });
                }
                continue;
            }
            if !self.hold
                && let Some(input) = self.inbox.pop_front()
            {
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
        // States of devices are looked at when it is due, and figures for the last hour are read.
        if self.desk.sample(self.unix_ms(), &self.controller) {
            self.input(Input::Glance);
        }
    }

    /// A request from this port of the client and its answer: the switch's port that leads to the device that served.
    pub fn ask(&mut self, client_port: u16) -> u16 {
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
    pub fn shares(&mut self, ports: std::ops::Range<u16>) -> BTreeMap<u16, usize> {
        let mut out = BTreeMap::new();
        for p in ports {
            *out.entry(self.ask(p)).or_default() += 1;
        }
        out
    }

    pub fn set_policy(&mut self, policy: Policy) {
        self.input(Input::SetPolicy { service: "inference".into(), policy });
        self.run_for(Duration::from_millis(10));
        assert_eq!(self.controller.status(), Status::InSync);
        assert!(self.controller.rack().services.iter().all(|s| s.policy == policy), "{policy} is refused");
    }
}
