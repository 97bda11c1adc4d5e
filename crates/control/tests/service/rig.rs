//! A server, a switch with four ports called eth1 to eth4 and CPU port 510, and a primary client.

use pb::entity::Entity;
use pb::set_forwarding_pipeline_config_request::Action as PipelineAction;
use pointsman_control::proto::p4info::{P4Info, Preamble};
use pointsman_control::proto::p4rt as pb;
use pointsman_control::{
    Code, CompileError, ConnId, Output, RpcError, Server, ServerConfig, ServerState, SwitchDevice,
};
use pointsman_frontend::Failure;
use pointsman_frontend::render::all_to_text;
use pointsman_frontend::source::Loader;
use pointsman_interp::Interp;
use pointsman_ir::Program;
use pointsman_v1model::{Output as Sent, Switch, SwitchConfig, SwitchState, Time};
use std::path::Path;

const PROGRAM: &str = include_str!("service.p4");
const CLIENT: ConnId = ConnId(1);

struct Includes;

impl Loader for Includes {
    fn include(&self, name: &str, _: bool, _: &str) -> Option<(String, String)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include").join(name);
        Some((name.to_string(), std::fs::read_to_string(path).ok()?))
    }
}

fn compile(source: &[u8]) -> Result<Program, CompileError> {
    let source = std::str::from_utf8(source).map_err(CompileError::NotText)?;
    let compiled = pointsman_frontend::compile("service.p4", source, &Includes, &[]);
    let text = |f: Failure| all_to_text(&f.source_map, &f.diagnostics, false);
    compiled.map(|c| c.program).map_err(|f| CompileError::Diagnostics(text(f)))
}

pub struct Rig {
    server: Server,
    switch: Switch<Interp>,
    info: P4Info,
    now: Time,
    to_cpu: Vec<Vec<u8>>,
}

/// A switch with its ports, and a server with a client.
fn start() -> (Switch<Interp>, Server) {
    let config = SwitchConfig { cpu_port: Some(510), ..Default::default() };
    let mut switch = Switch::new(config).expect("valid");
    let mut server = Server::new(ServerConfig::default());
    for port in 1..=4 {
        switch.add_port(port).expect("free");
        server.set_port_name(port, Some(format!("eth{port}")));
    }
    let election_id = Some(pb::Uint128 { high: 0, low: 1 });
    let update = pb::MasterArbitrationUpdate { device_id: 1, election_id, ..Default::default() };
    let update = Some(pb::stream_message_request::Update::Arbitration(update));
    server.stream_message(CLIENT, &pb::StreamMessageRequest { update });
    (switch, server)
}

impl Rig {
    pub fn new() -> Rig {
        let (switch, server) = start();
        let mut rig =
            Rig { server, switch, info: P4Info::default(), now: Time::from_millis(1), to_cpu: Vec::new() };
        rig.set_pipeline(PipelineAction::VerifyAndCommit).expect("the program is valid");
        rig.info = rig.config().p4info.expect("filled in");
        rig
    }

    fn set_pipeline(&mut self, action: PipelineAction) -> Result<(), RpcError> {
        let cookie = Some(pb::forwarding_pipeline_config::Cookie { cookie: 77 });
        let config =
            pb::ForwardingPipelineConfig { p4_device_config: PROGRAM.into(), cookie, ..Default::default() };
        let request = pb::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(pb::Uint128 { high: 0, low: 1 }),
            action: action as i32,
            config: Some(config),
            ..Default::default()
        };
        let mut device = SwitchDevice { switch: &mut self.switch, compile };
        self.server.set_pipeline(&mut device, &request, self.now).map(|_| ())
    }

    pub fn reconcile(&mut self) -> Result<(), RpcError> {
        self.set_pipeline(PipelineAction::ReconcileAndCommit)
    }

    /// Ends switch and server, and starts others with their state. Clients notice nothing but that.
    pub fn restart(&mut self) {
        let mut saved = self.switch.export(self.now).expect("a program runs");
        saved.attachment = self.server.export().expect("it has a pipeline");
        let config = self.config();
        let saved = SwitchState::from_bytes(&saved.to_bytes()).expect("it is whole");
        let hash = saved.hash();
        (self.switch, self.server) = start();
        let server = ServerState::from_bytes(&saved.attachment).expect("it is whole");
        assert_eq!(server.device_config(), PROGRAM.as_bytes());
        let mut device = SwitchDevice { switch: &mut self.switch, compile };
        self.server.resume(&mut device, &server, self.now).expect("the program is valid");
        self.switch.restore(self.now, &saved).expect("it is of this program");
        assert_eq!(self.switch.export(self.now).map(|s| s.hash()), Some(hash));
        assert_eq!(self.server.export().as_ref(), Some(&saved.attachment));
        assert_eq!(self.config(), config);
    }

    fn config(&self) -> pb::ForwardingPipelineConfig {
        let request = pb::GetForwardingPipelineConfigRequest { device_id: 1, response_type: 0 };
        self.server.get_pipeline(&request).expect("valid").config.expect("set")
    }

    pub fn port(&mut self, port: u32, up: bool) {
        let mut device = SwitchDevice { switch: &mut self.switch, compile };
        self.server.port_status(&mut device, port, up);
    }

    /// Writes one update; an error returns the update's own code and message.
    pub fn write(&mut self, ty: pb::update::Type, entity: Entity) -> Result<(), (Code, String)> {
        let update = pb::Update { r#type: ty as i32, entity: Some(pb::Entity { entity: Some(entity) }) };
        let request = pb::WriteRequest {
            device_id: 1,
            election_id: Some(pb::Uint128 { high: 0, low: 1 }),
            updates: vec![update],
            ..Default::default()
        };
        let mut device = SwitchDevice { switch: &mut self.switch, compile };
        match self.server.write(&mut device, &request, self.now) {
            Ok(_) => Ok(()),
            Err(e) => Err((Code::from_number(e.details[0].canonical_code), e.details[0].message.clone())),
        }
    }

    /// A write that succeeds, and survives a restart.
    pub fn ok(&mut self, ty: pb::update::Type, entity: Entity) {
        if let Err((code, message)) = self.write(ty, entity.clone()) {
            panic!("{code:?}: {message}\n{entity:?}");
        }
        self.restart();
    }

    pub fn refused(&mut self, ty: pb::update::Type, entity: Entity, code: Code, part: &str) {
        match self.write(ty, entity.clone()) {
            Ok(()) => panic!("accepted: {entity:?}"),
            Err((found, message)) => {
                assert!(
                    found == code && message.contains(part),
                    "{found:?}: {message}, not {code:?}: {part}"
                );
            }
        }
    }

    pub fn read(&mut self, entity: Entity) -> Result<Vec<Entity>, (Code, String)> {
        let request = pb::ReadRequest {
            device_id: 1,
            entities: vec![pb::Entity { entity: Some(entity) }],
            ..Default::default()
        };
        let mut device = SwitchDevice { switch: &mut self.switch, compile };
        let outcome = self.server.read(&mut device, &request, self.now);
        outcome
            .status
            .map_err(|e| (Code::from_number(e.details[0].canonical_code), e.details[0].message.clone()))?;
        Ok(outcome.responses.into_iter().flat_map(|r| r.entities).filter_map(|e| e.entity).collect())
    }

    /// Receives a packet; returns the outgoing packets.
    pub fn send(&mut self, port: u32, packet: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.switch.receive(self.now, port, packet);
        self.run()
    }

    fn run(&mut self) -> Vec<(u32, Vec<u8>)> {
        let mut sent: Vec<Sent> = Vec::new();
        self.switch.poll(self.now, 1000, &mut sent);
        let mut out = Vec::new();
        for packet in sent {
            match packet {
                Sent::Port(port, packet) => out.push((port, packet)),
                Sent::Cpu(packet) => self.to_cpu.push(packet),
            }
        }
        out
    }

    /// The messages for the controller.
    pub fn packets_in(&mut self) -> Vec<pb::PacketIn> {
        let packets = std::mem::take(&mut self.to_cpu);
        let outputs = packets.iter().flat_map(|p| self.server.packet_in(p).expect("a client is there"));
        let packet = |o| match o {
            Output::Send {
                response:
                    pb::StreamMessageResponse { update: Some(pb::stream_message_response::Update::Packet(p)) },
                ..
            } => p,
            other => panic!("{other:?}"),
        };
        outputs.map(packet).collect()
    }

    /// The controller sends a packet; returns the outgoing packets.
    pub fn packet_out(&mut self, metadata: &[(u32, &[u8])], payload: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let metadata =
            metadata.iter().map(|(id, v)| pb::PacketMetadata { metadata_id: *id, value: v.to_vec() });
        let packet = pb::PacketOut { payload: payload.to_vec(), metadata: metadata.collect() };
        let update = Some(pb::stream_message_request::Update::Packet(packet));
        let out = self.server.stream_message(CLIENT, &pb::StreamMessageRequest { update });
        let [Output::PacketOut { packet }] = &out[..] else { panic!("{out:?}") };
        self.switch.receive_cpu(self.now, packet);
        self.run()
    }

    /// The digests that the program has made.
    pub fn digests(&mut self) -> Vec<pb::DigestList> {
        let digests = self.switch.take_digests();
        let list = |o| match o {
            Output::Send {
                response:
                    pb::StreamMessageResponse { update: Some(pb::stream_message_response::Update::Digest(list)) },
                ..
            } => list,
            other => panic!("{other:?}"),
        };
        self.server.digests(&digests, self.now, 0).into_iter().map(list).collect()
    }

    /// The id of an object, by the last part of its name.
    pub fn id(&self, alias: &str) -> u32 {
        let info = &self.info;
        let preambles: Vec<&Option<Preamble>> = info
            .tables
            .iter()
            .map(|x| &x.preamble)
            .chain(info.actions.iter().map(|x| &x.preamble))
            .chain(info.registers.iter().map(|x| &x.preamble))
            .chain(info.meters.iter().map(|x| &x.preamble))
            .chain(info.action_profiles.iter().map(|x| &x.preamble))
            .chain(info.value_sets.iter().map(|x| &x.preamble))
            .chain(info.digests.iter().map(|x| &x.preamble))
            .collect();
        let found = preambles.into_iter().flatten().find(|p| p.alias == alias);
        found.unwrap_or_else(|| panic!("nothing is called {alias}")).id
    }

    pub fn action(&self, name: &str, params: &[&[u8]]) -> pb::Action {
        let param = |(id, value): (u32, &&[u8])| pb::action::Param { param_id: id, value: value.to_vec() };
        pb::Action { action_id: self.id(name), params: (1..).zip(params).map(param).collect() }
    }

    pub fn table_action(&self, name: &str, params: &[&[u8]]) -> Option<pb::TableAction> {
        Some(pb::TableAction { r#type: Some(pb::table_action::Type::Action(self.action(name, params))) })
    }
}

/// A packet with the header of the program, and nothing after it.
pub fn packet(kind: u8, a: u8, b: u16) -> Vec<u8> {
    [&[kind, a][..], &b.to_be_bytes()].concat()
}

fn matched(field_id: u32, m: pb::field_match::FieldMatchType) -> pb::FieldMatch {
    pb::FieldMatch { field_id, field_match_type: Some(m) }
}

pub fn exact(field_id: u32, value: &[u8]) -> pb::FieldMatch {
    let m = pb::field_match::Exact { value: value.to_vec() };
    matched(field_id, pb::field_match::FieldMatchType::Exact(m))
}

pub fn lpm(field_id: u32, value: &[u8], prefix_len: i32) -> pb::FieldMatch {
    let m = pb::field_match::Lpm { value: value.to_vec(), prefix_len };
    matched(field_id, pb::field_match::FieldMatchType::Lpm(m))
}

pub fn ternary(field_id: u32, value: &[u8], mask: &[u8]) -> pb::FieldMatch {
    let m = pb::field_match::Ternary { value: value.to_vec(), mask: mask.to_vec() };
    matched(field_id, pb::field_match::FieldMatchType::Ternary(m))
}
