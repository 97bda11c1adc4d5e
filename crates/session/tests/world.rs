//! A reconciler, a switch with its P4Runtime server, and a rival client, in virtual time.

use pointsman_control::p4info::p4info;
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind};
use pointsman_control::{CompileError, ConnId, RpcError, Server, ServerConfig, SwitchDevice};
use pointsman_interp::Interp;
use pointsman_session::{
    Input, Output, Program, Reconciler, ReconcilerConfig, ReconcilerEvent, Request, Response, SessionConfig,
};
use pointsman_testkit::compile::{compile_text, own_includes};
use pointsman_v1model::{Output as Sent, Switch, SwitchConfig, Time};
use std::collections::VecDeque;
use std::time::Duration;

const PROGRAM: &str = include_str!("fabric.p4");
const RIVAL: ConnId = ConnId(99);

fn compile(source: &[u8]) -> Result<pointsman_ir::Program, CompileError> {
    let source = std::str::from_utf8(source).map_err(CompileError::NotText)?;
    let compiled = compile_text("fabric.p4", source, &[&own_includes()]);
    compiled.map(|p| p.as_ref().clone()).map_err(|(_, all)| CompileError::Diagnostics(all))
}

fn new_switch() -> (Server, Switch<Interp>) {
    let mut switch = Switch::new(SwitchConfig::default()).expect("valid");
    for port in 1..=4 {
        switch.add_port(port).expect("free");
    }
    (Server::new(ServerConfig::default()), switch)
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub struct World {
    pub reconciler: Reconciler,
    pub info: P4Info,
    server: Server,
    switch: Switch<Interp>,
    now: Duration,
    /// The reconciler's connection: a new one has another number.
    connection: u64,
    connected: bool,
    inbox: VecDeque<Input>,
    pub events: Vec<ReconcilerEvent>,
    /// The updates of every write.
    pub writes: Vec<Vec<p4rt::Update>>,
    /// The connection is lost after this many writes, before their answer.
    pub lost_after: Option<usize>,
}

impl World {
    pub fn new(batch: usize) -> World {
        let info = p4info(&compile(PROGRAM.as_bytes()).expect("valid")).expect("it has a P4Info");
        let session =
            SessionConfig { address: "switch:9559".into(), device_id: 1, election_id: 1, preempt: false };
        let program = Program { p4info: info.clone(), device_config: PROGRAM.into() };
        let (server, switch) = new_switch();
        World {
            reconciler: Reconciler::new(ReconcilerConfig { session, seed: 1, batch, atomic: true }, program),
            info,
            server,
            switch,
            now: ms(0),
            connection: 0,
            connected: false,
            inbox: VecDeque::new(),
            events: Vec::new(),
            writes: Vec::new(),
            lost_after: None,
        }
    }

    fn deliver(&mut self, outputs: Vec<pointsman_control::Output>) {
        for output in outputs {
            match output {
                pointsman_control::Output::Send { conn, response } if conn == ConnId(self.connection) => {
                    self.inbox.push_back(Input::Stream(response));
                }
                pointsman_control::Output::Send { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn serve(&mut self, request: &Request) -> Result<Response, RpcError> {
        let now = Time(self.now.as_nanos() as u64);
        let mut device = SwitchDevice { switch: &mut self.switch, compile };
        request.serve(&mut self.server, &mut device, now)
    }

    pub fn input(&mut self, input: Input) {
        for output in self.reconciler.step(self.now, input) {
            match output {
                Output::Connect(_) => {
                    self.hang_up();
                    self.connection += 1;
                    self.connected = true;
                    self.inbox.push_back(Input::Connected);
                }
                Output::Disconnect => self.hang_up(),
                Output::Send(message) => {
                    let outputs = self.server.stream_message(ConnId(self.connection), &message);
                    self.deliver(outputs);
                }
                Output::Request { id, request } => {
                    let result = self.serve(&request);
                    if let Request::Write(write) = request {
                        self.writes.push(write.updates);
                        if self.lost_after == Some(self.writes.len()) {
                            self.lose();
                            return;
                        }
                    }
                    self.inbox.push_back(Input::Response { id, result });
                }
                Output::Event(event) => self.events.push(event),
            }
        }
    }

    fn hang_up(&mut self) {
        if std::mem::take(&mut self.connected) {
            let outputs = self.server.connection_closed(ConnId(self.connection));
            self.deliver(outputs);
        }
        self.inbox.clear();
    }

    /// The connection is lost.
    pub fn lose(&mut self) {
        self.hang_up();
        self.inbox.push_back(Input::Disconnected("cut".into()));
    }

    /// The switch loses power.
    pub fn restart_switch(&mut self) {
        self.lose();
        (self.server, self.switch) = new_switch();
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..10_000 {
            if let Some(input) = self.inbox.pop_front() {
                self.input(input);
                continue;
            }
            let Some(at) = self.reconciler.next_deadline().filter(|at| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(at);
            self.input(Input::Tick);
        }
        panic!("it spins: {:#?}", self.events);
    }

    /// Sets the desired entities, and returns the numbers of updates by write.
    pub fn desire(&mut self, entities: &[p4rt::Entity]) -> Vec<usize> {
        self.reconciler.set_desired(entities.to_vec()).expect("valid");
        self.settle()
    }

    /// Sets the overlay, and returns the numbers of updates by write.
    pub fn overlay(&mut self, entities: &[p4rt::Entity]) -> Vec<usize> {
        self.reconciler.set_overlay(entities.to_vec()).expect("valid");
        self.settle()
    }

    /// Lets the reconciler write, and returns the numbers of updates by write.
    fn settle(&mut self) -> Vec<usize> {
        self.writes.clear();
        self.input(Input::Tick);
        self.run_for(ms(1000));
        self.writes.iter().map(Vec::len).collect()
    }

    /// Another client becomes primary, makes this update, and disconnects.
    pub fn rival(&mut self, kind: p4rt::update::Type, entity: p4rt::Entity) {
        let term = self.reconciler.leader().id().expect("the reconciler leads").term();
        let election_id = Some(p4rt::Uint128 { high: term + 1, low: 0 });
        let arbitration = p4rt::MasterArbitrationUpdate { device_id: 1, election_id, ..Default::default() };
        let update = Some(p4rt::stream_message_request::Update::Arbitration(arbitration));
        let outputs = self.server.stream_message(RIVAL, &p4rt::StreamMessageRequest { update });
        self.deliver(outputs);
        self.run_for(ms(10));
        assert!(!self.reconciler.in_sync(), "another client is primary");
        let write = Request::Write(p4rt::WriteRequest {
            device_id: 1,
            election_id,
            updates: vec![p4rt::Update { r#type: kind.into(), entity: Some(entity) }],
            ..Default::default()
        });
        assert_eq!(self.serve(&write), Ok(Response::Write));
        let outputs = self.server.connection_closed(RIVAL);
        self.deliver(outputs);
    }

    /// Everything that the switch holds, apart from default actions, as sorted text.
    pub fn held(&mut self) -> Vec<String> {
        use p4rt::packet_replication_engine_entry::Type;
        let replication =
            |of| Kind::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry { r#type: Some(of) });
        let all = [
            Kind::TableEntry(p4rt::TableEntry::default()),
            Kind::ActionProfileMember(p4rt::ActionProfileMember::default()),
            Kind::ActionProfileGroup(p4rt::ActionProfileGroup::default()),
            replication(Type::MulticastGroupEntry(p4rt::MulticastGroupEntry::default())),
            replication(Type::CloneSessionEntry(p4rt::CloneSessionEntry::default())),
            Kind::MeterEntry(p4rt::MeterEntry::default()),
        ];
        let held = self.read(all.to_vec());
        let ours = |e: &&p4rt::Entity| match &e.entity {
            Some(Kind::TableEntry(e)) => !e.is_const,
            Some(Kind::MeterEntry(e)) => e.config.is_some(),
            _ => true,
        };
        texts(held.iter().filter(ours))
    }

    /// The default action of a table.
    pub fn default_action(&mut self, table_id: u32) -> Option<p4rt::TableAction> {
        let asked = p4rt::TableEntry { table_id, is_default_action: true, ..Default::default() };
        match self.read(vec![Kind::TableEntry(asked)]).pop()?.entity? {
            Kind::TableEntry(e) => e.action,
            other => panic!("{other:?}"),
        }
    }

    fn read(&mut self, kinds: Vec<Kind>) -> Vec<p4rt::Entity> {
        let entities = kinds.into_iter().map(|k| p4rt::Entity { entity: Some(k) }).collect();
        let read = p4rt::ReadRequest { device_id: 1, entities, ..Default::default() };
        self.serve(&Request::Read(read)).and_then(Response::entities).expect("a valid read")
    }

    /// The ports that a packet to this destination leaves by.
    pub fn ports(&mut self, kind: u8, dst: [u8; 4]) -> Vec<u32> {
        let now = Time(self.now.as_nanos() as u64);
        self.switch.receive(now, 4, &[&[kind][..], &dst].concat());
        let mut sent: Vec<Sent> = Vec::new();
        self.switch.poll(now, 1000, &mut sent);
        let port = |s| match s {
            Sent::Port(port, _) => port,
            other => panic!("{other:?}"),
        };
        sent.into_iter().map(port).collect()
    }
}

/// Entities as sorted text.
pub fn texts<'a>(entities: impl IntoIterator<Item = &'a p4rt::Entity>) -> Vec<String> {
    let mut out: Vec<String> = entities.into_iter().map(|e| format!("{e:?}")).collect();
    out.sort();
    out
}
