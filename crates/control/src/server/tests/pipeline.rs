//! Pipeline configurations and permissions.

use super::*;
use crate::p4info::p4info;
use pb::get_forwarding_pipeline_config_request::ResponseType;
use pointsman_ir::LoadError;
use pointsman_v1model::PipelineError;

fn get(rig: &Rig, response_type: ResponseType) -> Option<pb::ForwardingPipelineConfig> {
    let request =
        pb::GetForwardingPipelineConfigRequest { device_id: 1, response_type: response_type as i32 };
    rig.server.get_pipeline(&request).expect("valid").config
}

fn register(rig: &Rig, value: u8) -> Entity {
    Entity::RegisterEntry(pb::RegisterEntry {
        register_id: rig.id("reg"),
        index: index(0),
        data: Some(pb::P4Data { data: Some(pb::p4_data::Data::Bitstring(vec![value])) }),
    })
}

fn lpm_entry(rig: &Rig) -> Entity {
    Entity::TableEntry(rig.entry("lpm", vec![lpm(1, &[10, 0, 0, 0], 8)]))
}

#[test]
fn nothing_works_without_a_pipeline() {
    let mut rig = Rig::empty();
    assert_eq!(get(&rig, ResponseType::All), None);
    let e = rig.write_all(Default::default(), vec![]).expect_err("no pipeline");
    assert_eq!((e.code, e.details.len()), (Code::FailedPrecondition, 0));
    assert!(e.message.starts_with("No forwarding pipeline config set for this device"));
    rig.read_refused(
        Entity::TableEntry(Default::default()),
        Code::FailedPrecondition,
        "No forwarding pipeline",
    );
}

#[test]
fn the_config_is_returned() {
    let mut rig = Rig::empty();
    let config = pb::ForwardingPipelineConfig {
        p4info: Some(p4info(&crate::fixture::program()).expect("valid")),
        p4_device_config: b"main".to_vec(),
        cookie: Some(pb::forwarding_pipeline_config::Cookie { cookie: 77 }),
    };
    let request = pb::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(pb::Uint128 { high: 0, low: 1 }),
        action: PipelineAction::VerifyAndCommit as i32,
        config: Some(config.clone()),
        ..Default::default()
    };
    rig.server.set_pipeline(&mut rig.device, &request, rig.now).expect("valid");
    assert_eq!(get(&rig, ResponseType::All), Some(config.clone()));
    let cookie = pb::ForwardingPipelineConfig { cookie: config.cookie, ..Default::default() };
    assert_eq!(get(&rig, ResponseType::CookieOnly), Some(cookie.clone()));
    let info = pb::ForwardingPipelineConfig { p4info: config.p4info.clone(), ..cookie.clone() };
    assert_eq!(get(&rig, ResponseType::P4infoAndCookie), Some(info));
    let device = pb::ForwardingPipelineConfig { p4_device_config: config.p4_device_config, ..cookie };
    assert_eq!(get(&rig, ResponseType::DeviceConfigAndCookie), Some(device));
    let unknown = pb::GetForwardingPipelineConfigRequest { device_id: 2, response_type: 0 };
    assert_eq!(rig.server.get_pipeline(&unknown).expect_err("another device").code, Code::NotFound);
}

#[test]
fn bad_configs() {
    let mut rig = Rig::new();
    let mut check = |action, source: &str, code, part: &str| {
        let e = rig.set_pipeline(action, source).expect_err("invalid");
        assert!(e.code == code && e.message.contains(part), "{e}");
    };
    check(PipelineAction::VerifyAndCommit, "", Code::InvalidArgument, "config is not set");
    check(PipelineAction::Verify, "nonsense", Code::InvalidArgument, "main.p4:1:1: error");
    check(PipelineAction::Unspecified, "main", Code::InvalidArgument, "action is not set");
    check(PipelineAction::Commit, "", Code::NotFound, "no config is saved");
    check(PipelineAction::Commit, "main", Code::InvalidArgument, "omit config");
    // The old pipeline is still there.
    rig.ok(Insert, lpm_entry(&rig));
}

#[test]
fn the_p4info_must_describe_the_program() {
    let mut rig = Rig::empty();
    let mut p4info = p4info(&crate::fixture::program()).expect("valid");
    p4info.tables[0].match_fields[0].bitwidth = 17;
    let config = pb::ForwardingPipelineConfig {
        p4info: Some(p4info),
        p4_device_config: b"main".to_vec(),
        ..Default::default()
    };
    let request = pb::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(pb::Uint128 { high: 0, low: 1 }),
        action: PipelineAction::Verify as i32,
        config: Some(config),
        ..Default::default()
    };
    let e = rig.server.set_pipeline(&mut rig.device, &request, rig.now).expect_err("other widths");
    assert_eq!(e.code, Code::InvalidArgument);
    assert!(e.message.contains("table ingress.exact is key [1 hdr.a (17 bits, exact)"), "{e}");
}

#[test]
fn verify_changes_nothing_and_commit_clears() {
    let mut rig = Rig::new();
    rig.ok(Modify, register(&rig, 5));
    rig.set_pipeline(PipelineAction::Verify, "other").expect("valid");
    rig.ok(Insert, lpm_entry(&rig));
    rig.set_pipeline(PipelineAction::VerifyAndCommit, "main").expect("valid");
    assert_eq!(rig.read_ok(register(&rig, 0)), [register(&rig, 0)]);
    rig.ok(Insert, lpm_entry(&rig));
    rig.set_pipeline(PipelineAction::VerifyAndCommit, "other").expect("valid");
    rig.refused(Insert, lpm_entry(&rig), Code::InvalidArgument, "no table with id");
}

#[test]
fn a_saved_config_takes_writes_before_it_runs() {
    let mut rig = Rig::new();
    rig.ok(Modify, register(&rig, 5));
    rig.set_pipeline(PipelineAction::VerifyAndSave, "other").expect("valid");
    assert_eq!(get(&rig, ResponseType::All).expect("a config").p4_device_config, b"other");
    rig.refused(Insert, lpm_entry(&rig), Code::InvalidArgument, "no table with id");
    assert_eq!(rig.read_ok(register(&rig, 0)), [register(&rig, 0)]);
    rig.ok(Modify, register(&rig, 6));
    let live = |rig: &Rig| {
        let state = rig.device.state.as_ref().expect("a pipeline");
        (
            state.program().tables.len(),
            state.read_register(pointsman_ir::ExternInstanceId(3), 0).expect("a register"),
        )
    };
    assert_eq!(live(&rig), (7, pointsman_ir::Bits::new(32, 5)));
    rig.set_pipeline(PipelineAction::Commit, "").expect("saved");
    assert_eq!(live(&rig), (6, pointsman_ir::Bits::new(32, 6)));
    assert_eq!(rig.set_pipeline(PipelineAction::Commit, "").expect_err("used up").code, Code::NotFound);
}

#[test]
#[allow(deprecated)]
fn reconciliation_keeps_what_fits() {
    let mut rig = Rig::new();
    let replica = pb::Replica { port_kind: Some(pb::replica::PortKind::Port(vec![1])), ..Default::default() };
    use pb::packet_replication_engine_entry::Type as Replication;
    let group = pb::MulticastGroupEntry { multicast_group_id: 3, replicas: vec![replica], metadata: vec![1] };
    let group = pb::PacketReplicationEngineEntry { r#type: Some(Replication::MulticastGroupEntry(group)) };
    let exact_entry = pb::TableEntry {
        controller_metadata: 8,
        metadata: vec![3],
        counter_data: Some(pb::CounterData { byte_count: 7, packet_count: 6 }),
        ..rig.entry("exact", vec![exact(1, &[1]), exact(2, &[2])])
    };
    let default = pb::TableEntry { is_default_action: true, ..rig.entry("exact", vec![]) };
    let mixed = rig.entry("mixed", vec![exact(1, &[2])]);
    let entities = [
        (Modify, register(&rig, 5)),
        (Insert, Entity::TableEntry(exact_entry)),
        (Modify, Entity::TableEntry(default.clone())),
        (Delete, Entity::TableEntry(mixed)),
        (Insert, Entity::PacketReplicationEngineEntry(group)),
    ];
    for (ty, e) in entities {
        rig.ok(ty, e);
    }
    let all = pb::TableEntry { counter_data: Some(Default::default()), ..Default::default() };
    let groups = pb::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(Default::default())),
    };
    let default =
        pb::TableEntry { table_id: default.table_id, is_default_action: true, ..Default::default() };
    let reads = [
        Entity::TableEntry(all),
        Entity::TableEntry(default),
        Entity::RegisterEntry(Default::default()),
        Entity::PacketReplicationEngineEntry(groups),
    ];
    let before = reads.clone().map(|e| rig.read_ok(e));
    rig.set_pipeline(PipelineAction::ReconcileAndCommit, "other").expect("fits");
    assert_eq!(reads.clone().map(|e| rig.read_ok(e)), before);
    rig.set_pipeline(PipelineAction::ReconcileAndCommit, "main").expect("fits");
    rig.ok(Insert, lpm_entry(&rig));
    let e = rig.set_pipeline(PipelineAction::ReconcileAndCommit, "other").expect_err("an entry of lpm");
    assert!(e.code == Code::InvalidArgument && e.message.contains("ingress.lpm was removed"), "{e}");
    assert!(rig.read_ok(Entity::TableEntry(Default::default())).len() > before[0].len());
}

/// A table that is moved or copied, and another one that is always copied.
#[test]
#[allow(deprecated)]
fn reconciliation_keeps_default_entries_that_were_written() {
    let mut rig = Rig::new();
    let key = ["exact", "acl"].map(|name| pb::TableEntry {
        table_id: rig.id(name),
        is_default_action: true,
        ..Default::default()
    });
    let read = |rig: &mut Rig| key.clone().map(|key| rig.read_ok(Entity::TableEntry(key)));
    let initial = read(&mut rig);
    // The program's own action, but written.
    let written = key.clone().map(|key| pb::TableEntry {
        action: rig.table_action("NoAction", &[]),
        controller_metadata: 77,
        ..key
    });
    written.iter().for_each(|e| rig.ok(Modify, Entity::TableEntry(e.clone())));
    let written = written.map(|e| vec![Entity::TableEntry(e)]);
    for program in ["main", "defaults", "main"] {
        rig.set_pipeline(PipelineAction::ReconcileAndCommit, program).expect("fits");
        assert_eq!(read(&mut rig), written, "{program}");
    }
    // Entries that are not written, or reset, are those of the new program.
    key.iter().for_each(|e| rig.ok(Modify, Entity::TableEntry(e.clone())));
    let actions = [rig.table_action("drop", &[]), rig.table_action("set", &[&[1], &[2]])];
    let of_other = key.iter().zip(actions).map(|(key, action)| pb::TableEntry { action, ..key.clone() });
    let of_other: Vec<_> = of_other.map(|e| vec![Entity::TableEntry(e)]).collect();
    rig.set_pipeline(PipelineAction::ReconcileAndCommit, "defaults").expect("fits");
    assert_eq!(read(&mut rig).to_vec(), of_other);
    rig.set_pipeline(PipelineAction::ReconcileAndCommit, "main").expect("fits");
    assert_eq!(read(&mut rig), initial);
}

fn refusal(why: &str) -> PipelineError {
    PipelineError::Load(LoadError(why.to_string()))
}

#[test]
fn verification_is_what_commit_would_do() {
    let mut rig = Rig::new();
    rig.device.refuses = Some(refusal("no room in the executor"));
    for action in [PipelineAction::Verify, PipelineAction::VerifyAndSave, PipelineAction::VerifyAndCommit] {
        let e = rig.set_pipeline(action, "other").expect_err("refused");
        assert!(e.code == Code::InvalidArgument && e.message.contains("no room in the executor"), "{e}");
    }
    rig.device.refuses = None;
    rig.set_pipeline(PipelineAction::VerifyAndSave, "other").expect("valid");
    rig.ok(Modify, register(&rig, 6));
    rig.device.refuses = Some(refusal("not now"));
    rig.set_pipeline(PipelineAction::Commit, "").expect_err("refused");
    // It stays saved, with the writes to it.
    rig.device.refuses = None;
    assert_eq!(rig.read_ok(register(&rig, 0)), [register(&rig, 6)]);
    rig.set_pipeline(PipelineAction::Commit, "").expect("still saved");
    assert_eq!(rig.read_ok(register(&rig, 0)), [register(&rig, 6)]);
}

#[test]
fn large_reads_come_in_messages_that_clients_accept() {
    use prost::Message;
    let mut rig = Rig::new();
    rig.server.config.entities_per_response = const { NonZeroUsize::new(1000).unwrap() };
    for i in 0..9 {
        let entry = pb::TableEntry {
            metadata: vec![7; 300_000],
            ..rig.entry("lpm", vec![lpm(1, &[10, i, 0, 0], 16)])
        };
        rig.ok(Insert, Entity::TableEntry(entry));
    }
    let all = Entity::TableEntry(pb::TableEntry { table_id: rig.id("lpm"), ..Default::default() });
    let request = pb::ReadRequest {
        device_id: 1,
        entities: vec![pb::Entity { entity: Some(all) }],
        ..Default::default()
    };
    let mut counts = Vec::new();
    let status = rig.server.read_with(&mut rig.device, &request, rig.now, &mut |response| {
        assert!(response.encoded_len() < 2 << 20);
        counts.push(response.entities.len());
    });
    assert_eq!((status, counts), (Ok(()), vec![3, 3, 3]));
}

#[test]
fn roles_with_a_configuration() {
    use crate::server::P4RoleConfig;
    use prost::Message;
    let mut rig = Rig::new();
    let arbitrate = |rig: &mut Rig, conn: ConnId, name: &str, config: Option<P4RoleConfig>| {
        let config = config.map(|c| prost_types::Any {
            type_url: "type.googleapis.com/stratum.P4RoleConfig".into(),
            value: c.encode_to_vec(),
        });
        let update = pb::MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(pb::Uint128 { high: 0, low: u64::from(name.is_empty()) + 1 }),
            role: Some(pb::Role { name: name.into(), config, ..Default::default() }),
            ..Default::default()
        };
        let update = Some(pb::stream_message_request::Update::Arbitration(update));
        let out = rig.server.stream_message(conn, &pb::StreamMessageRequest { update });
        out.iter().find_map(|o| match o {
            Output::Close { error, .. } => Some(error.clone()),
            _ => None,
        })
    };
    let (lpm_id, reg) = (rig.id("lpm"), rig.id("reg"));
    let router = P4RoleConfig {
        exclusive_p4_ids: vec![lpm_id],
        shared_p4_ids: vec![reg],
        receives_packet_ins: false,
        ..Default::default()
    };
    assert_eq!(arbitrate(&mut rig, ConnId(2), "router", Some(router.clone())), None);
    let e = arbitrate(&mut rig, ConnId(3), "rival", Some(router.clone())).expect("a conflict");
    assert!(e.code == Code::InvalidArgument && e.message.contains("exclusive"), "{e}");
    let e = arbitrate(&mut rig, ConnId(3), "", Some(router.clone())).expect("not for the default role");
    assert!(e.message.contains("full access"), "{e}");
    let write = |rig: &mut Rig, entities: Vec<Entity>| -> Vec<i32> {
        let update = |e| pb::Update {
            r#type: if matches!(e, Entity::TableEntry(_)) { Insert } else { Modify } as i32,
            entity: Some(pb::Entity { entity: Some(e) }),
        };
        let count = entities.len();
        let request = pb::WriteRequest {
            device_id: 1,
            role: "router".into(),
            election_id: Some(pb::Uint128 { high: 0, low: 1 }),
            updates: entities.into_iter().map(update).collect(),
            ..Default::default()
        };
        match rig.server.write(&mut rig.device, &request, rig.now) {
            Ok(_) => vec![0; count],
            Err(e) => e.details.iter().map(|d| d.canonical_code).collect(),
        }
    };
    let exact_entry = Entity::TableEntry(rig.entry("exact", vec![exact(1, &[1]), exact(2, &[2])]));
    let batch = vec![lpm_entry(&rig), exact_entry.clone(), register(&rig, 3)];
    assert_eq!(write(&mut rig, batch), [0, Code::PermissionDenied.number(), 0]);
    // The default role may do everything.
    rig.ok(Insert, exact_entry);
    let read = |rig: &mut Rig, role: &str| {
        let request = pb::ReadRequest {
            device_id: 1,
            role: role.into(),
            entities: vec![pb::Entity { entity: Some(Entity::TableEntry(Default::default())) }],
        };
        let outcome = rig.server.read(&mut rig.device, &request, rig.now);
        outcome.responses.iter().map(|r| r.entities.len()).sum::<usize>()
    };
    assert_eq!((read(&mut rig, "router"), read(&mut rig, "") > 1), (1, true));
    let request = pb::SetForwardingPipelineConfigRequest {
        device_id: 1,
        role: "router".into(),
        election_id: Some(pb::Uint128 { high: 0, low: 1 }),
        action: PipelineAction::Verify as i32,
        ..Default::default()
    };
    let e = rig.server.set_pipeline(&mut rig.device, &request, rig.now).expect_err("may not");
    assert!(e.code == Code::PermissionDenied && e.message.contains("can_push_pipeline"), "{e}");
    // Only the default role's client receives packets.
    let out = rig.server.packet_in(&[0; 8]).expect("a client gets it");
    assert!(matches!(&out[..], [Output::Send { conn: CLIENT, .. }]), "{out:?}");
}

#[test]
fn only_the_primary_may_change_anything() {
    let mut rig = Rig::new();
    let write = |device_id, role: &str, id: Option<u64>| pb::WriteRequest {
        device_id,
        role: role.into(),
        election_id: id.map(|low| pb::Uint128 { high: 0, low }),
        ..Default::default()
    };
    let mut check = |request: pb::WriteRequest, code: Option<Code>| {
        let found = rig.server.write(&mut rig.device, &request, rig.now).err().map(|e| e.code);
        assert_eq!(found, code);
    };
    check(write(1, "", Some(1)), None);
    check(write(2, "", Some(1)), Some(Code::NotFound));
    check(write(1, "unheard of", Some(1)), Some(Code::NotFound));
    check(write(1, "", Some(2)), Some(Code::PermissionDenied));
    check(write(1, "", None), Some(Code::PermissionDenied));
    let mut odd = write(1, "", Some(1));
    odd.atomicity = 9;
    check(odd, Some(Code::InvalidArgument));
    rig.arbitrate(ConnId(2), 5);
    assert_eq!(
        rig.set_pipeline(PipelineAction::Verify, "main").expect_err("a backup").code,
        Code::PermissionDenied
    );
    assert!(rig.write_all(Default::default(), vec![]).is_err());
    // Reading is free for all.
    rig.read_ok(Entity::TableEntry(Default::default()));
}

#[test]
fn booting_needs_no_client() {
    let mut server = Server::new(ServerConfig::default());
    let mut device = TestDevice::new();
    server.boot(&mut device, b"main", Time::ZERO).expect("valid");
    assert!(server.boot(&mut device, b"nonsense", Time::ZERO).is_err());
    let request = pb::ReadRequest {
        device_id: 1,
        entities: vec![pb::Entity { entity: Some(Entity::TableEntry(Default::default())) }],
        ..Default::default()
    };
    assert_eq!(server.read(&mut device, &request, Time::ZERO).status, Ok(()));
}

#[test]
fn a_batch_of_reads_continues_after_errors() {
    let mut rig = Rig::new();
    let bad = Entity::RegisterEntry(pb::RegisterEntry { register_id: 1, ..Default::default() });
    let entities = [Entity::TableEntry(Default::default()), bad, register(&rig, 0)];
    let mut request = pb::ReadRequest { device_id: 1, ..Default::default() };
    request.entities = entities.into_iter().map(|e| pb::Entity { entity: Some(e) }).collect();
    request.entities.push(pb::Entity::default());
    let outcome = rig.server.read(&mut rig.device, &request, rig.now);
    let found: usize = outcome.responses.iter().map(|r| r.entities.len()).sum();
    assert_eq!(found, 5);
    let e = outcome.status.expect_err("two fail");
    assert_eq!(e.details.iter().map(|d| d.canonical_code).collect::<Vec<_>>(), [0, 3, 0, 3]);
    request.device_id = 9;
    let outcome = rig.server.read(&mut rig.device, &request, rig.now);
    assert_eq!(outcome.status.expect_err("another device").code, Code::NotFound);
}

#[test]
fn capabilities() {
    let rig = Rig::empty();
    let ask = |device_id| rig.server.capabilities(&pb::CapabilitiesRequest { device_id });
    assert_eq!(ask(0).expect("server-wide").p4runtime_api_version, API_VERSION);
    assert!(ask(1).is_ok());
    assert_eq!(ask(2).expect_err("another device").code, Code::NotFound);
}
