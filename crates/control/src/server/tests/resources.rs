//! Registers, counters, meters, action profiles, replication, value sets.

use super::*;
use pb::write_request::Atomicity;

fn register(register_id: u32, at: Option<i64>, value: Option<&[u8]>) -> Entity {
    let data = value.map(|v| pb::P4Data { data: Some(pb::p4_data::Data::Bitstring(v.to_vec())) });
    Entity::RegisterEntry(pb::RegisterEntry { register_id, index: at.map(|index| pb::Index { index }), data })
}

#[test]
fn registers() {
    let mut rig = Rig::new();
    let id = rig.id("reg");
    rig.ok(Modify, register(id, Some(2), Some(&[1, 0])));
    assert_eq!(rig.read_ok(register(id, Some(2), None)), [register(id, Some(2), Some(&[1, 0]))]);
    let all: Vec<Entity> =
        (0..4).map(|i| register(id, Some(i), Some(if i == 2 { &[1, 0] } else { &[0] }))).collect();
    assert_eq!(rig.read_ok(register(id, None, None)), all);
    assert_eq!(rig.read_ok(register(0, None, None)), all);
    rig.ok(Modify, register(id, None, Some(&[7])));
    assert!(rig.read_ok(register(id, None, None)).contains(&register(id, Some(3), Some(&[7]))));
    let mut check = |e: Entity, code: Code, part: &str| rig.refused(Modify, e, code, part);
    check(register(0, Some(1), Some(&[1])), Code::InvalidArgument, "register_id is not set");
    check(register(5, Some(1), Some(&[1])), Code::InvalidArgument, "no register with id 0x00000005");
    check(
        register(id, Some(4), Some(&[1])),
        Code::OutOfRange,
        "register ingress.reg: index 4 is out of range",
    );
    check(register(id, Some(-1), Some(&[1])), Code::InvalidArgument, "index is -1");
    check(register(id, Some(1), None), Code::InvalidArgument, "data is not set");
    check(register(id, Some(1), Some(&[1, 0, 0, 0, 0])), Code::InvalidArgument, "needs 33 bits");
    for ty in [Insert, Delete] {
        rig.refused(ty, register(id, Some(1), Some(&[1])), Code::InvalidArgument, "use MODIFY");
    }
    rig.read_refused(register(id, Some(4), None), Code::OutOfRange, "there are 4 cells");
    rig.read_refused(register(0, Some(1), None), Code::InvalidArgument, "but no id");
    rig.read_refused(register(7, None, None), Code::InvalidArgument, "no register");
}

#[test]
fn counters() {
    let mut rig = Rig::new();
    let counter_id = rig.id("cnt");
    let counter = |at: Option<i64>, packets: Option<i64>| {
        let data = packets.map(|packet_count| pb::CounterData { packet_count, byte_count: 0 });
        Entity::CounterEntry(pb::CounterEntry { counter_id, index: at.and_then(index), data })
    };
    rig.ok(Modify, counter(Some(1), Some(9)));
    rig.ok(Modify, counter(Some(0), None));
    let all = [counter(Some(0), Some(0)), counter(Some(1), Some(9)), counter(Some(2), Some(0))];
    assert_eq!(rig.read_ok(counter(None, None)), all);
    assert_eq!(rig.read_ok(Entity::CounterEntry(pb::CounterEntry::default())), all);
    assert_eq!(rig.read_ok(counter(Some(1), None)), all[1..2]);
    rig.refused(Modify, counter(Some(3), Some(1)), Code::OutOfRange, "3 cells");
    rig.refused(Modify, counter(Some(1), Some(-1)), Code::InvalidArgument, "packet_count is -1");
    rig.refused(Delete, counter(Some(1), Some(1)), Code::InvalidArgument, "use MODIFY");
}

#[test]
fn meters() {
    let mut rig = Rig::new();
    let meter_id = rig.id("met");
    let meter = |at: Option<i64>, config: Option<pb::MeterConfig>| {
        Entity::MeterEntry(pb::MeterEntry { meter_id, index: at.and_then(index), config, counter_data: None })
    };
    let config = pb::MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 };
    rig.ok(Modify, meter(Some(1), Some(config)));
    assert_eq!(rig.read_ok(meter(None, None)), [meter(Some(0), None), meter(Some(1), Some(config))]);
    rig.ok(Modify, meter(None, None));
    assert_eq!(rig.read_ok(meter(None, None)), [meter(Some(0), None), meter(Some(1), None)]);
    let bad = pb::MeterConfig { eburst: 1, ..config };
    rig.refused(Modify, meter(Some(0), Some(bad)), Code::InvalidArgument, "eburst");
    let bad = pb::MeterConfig { cburst: -1, ..config };
    rig.refused(Modify, meter(Some(0), Some(bad)), Code::InvalidArgument, "cburst is -1");
}

#[test]
fn action_profiles() {
    let mut rig = Rig::new();
    let id = rig.id("spread");
    let set = Some(rig.action("set", &[&[1], &[2]]));
    let member = |member_id, action: &Option<pb::Action>| {
        let action = action.clone();
        Entity::ActionProfileMember(pb::ActionProfileMember { action_profile_id: id, member_id, action })
    };
    let group = |group_id, members: &[(u32, i32)]| {
        let member = |(member_id, weight): &(u32, i32)| pb::action_profile_group::Member {
            member_id: *member_id,
            weight: *weight,
            watch_kind: None,
        };
        let members = members.iter().map(member).collect();
        Entity::ActionProfileGroup(pb::ActionProfileGroup {
            action_profile_id: id,
            group_id,
            members,
            max_size: 0,
        })
    };
    rig.refused(Insert, member(0, &set), Code::InvalidArgument, "member_id is not set");
    rig.refused(Insert, member(1, &None), Code::InvalidArgument, "needs an action");
    rig.refused(Modify, member(1, &set), Code::NotFound, "ingress.spread, member 1");
    rig.ok(Insert, member(1, &set));
    rig.ok(Insert, member(2, &set));
    rig.refused(Insert, member(2, &set), Code::AlreadyExists, "taken");
    rig.ok(Modify, member(2, &Some(rig.action("set", &[&[3], &[4]]))));
    rig.refused(Insert, group(1, &[(1, 1), (3, 1)]), Code::NotFound, "no member 3");
    rig.refused(Insert, group(1, &[(1, 0)]), Code::InvalidArgument, "must be 1 or more");
    rig.refused(Insert, group(1, &[(1, 1), (1, 1)]), Code::InvalidArgument, "given twice");
    rig.refused(Insert, group(0, &[]), Code::InvalidArgument, "group_id is not set");
    rig.refused(Insert, group(1, &[(1, 9)]), Code::ResourceExhausted, "full");
    rig.ok(Insert, group(1, &[(1, 2), (2, 1)]));
    rig.refused(Delete, member(1, &None), Code::FailedPrecondition, "used");
    let entry = |action| {
        let table_id = rig.id("chosen");
        let action = Some(pb::TableAction { r#type: Some(action) });
        Entity::TableEntry(pb::TableEntry {
            table_id,
            r#match: vec![exact(1, &[1])],
            action,
            ..Default::default()
        })
    };
    use pb::table_action::Type as Chosen;
    let by_group = entry(Chosen::ActionProfileGroupId(1));
    let bad_group = entry(Chosen::ActionProfileGroupId(2));
    let bad_member = entry(Chosen::ActionProfileMemberId(5));
    let direct = entry(Chosen::Action(rig.action("set", &[&[1], &[2]])));
    let one_shot = entry(Chosen::ActionProfileActionSet(Default::default()));
    rig.ok(Insert, by_group.clone());
    rig.refused(Insert, bad_group, Code::NotFound, "no group 2");
    rig.refused(Insert, bad_member, Code::NotFound, "no member 5");
    rig.refused(Insert, direct, Code::InvalidArgument, "give a member");
    rig.refused(Insert, one_shot, Code::InvalidArgument, "not with both");
    rig.refused(Delete, group(1, &[]), Code::FailedPrecondition, "used");
    let all = Entity::ActionProfileMember(Default::default());
    assert_eq!(rig.read_ok(all).len(), 2);
    assert_eq!(rig.read_ok(group(1, &[])), [group(1, &[(1, 2), (2, 1)])]);
    rig.ok(Delete, by_group);
    rig.ok(Delete, group(1, &[]));
    rig.ok(Delete, member(1, &None));
    rig.refused(Delete, member(1, &None), Code::NotFound, "no such member");
}

fn multicast(multicast_group_id: u32, replicas: Vec<pb::Replica>) -> Entity {
    use pb::packet_replication_engine_entry::Type;
    let group = pb::MulticastGroupEntry { multicast_group_id, replicas, metadata: vec![4] };
    let r#type = Some(Type::MulticastGroupEntry(group));
    Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type })
}

fn session(session_id: u32, replicas: Vec<pb::Replica>, class_of_service: u32, bytes: i32) -> Entity {
    use pb::packet_replication_engine_entry::Type;
    let session =
        pb::CloneSessionEntry { session_id, replicas, class_of_service, packet_length_bytes: bytes };
    let r#type = Some(Type::CloneSessionEntry(session));
    Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type })
}

fn replica(port: &[u8], instance: u32) -> pb::Replica {
    let port_kind = Some(pb::replica::PortKind::Port(port.to_vec()));
    pb::Replica { port_kind, instance, backup_replicas: vec![] }
}

#[test]
fn multicast_groups() {
    let mut rig = Rig::new();
    let group = multicast(1, vec![replica(&[1], 1), replica(&[2], 1)]);
    rig.refused(Modify, group.clone(), Code::NotFound, "multicast group 1: it does not exist");
    rig.ok(Insert, group.clone());
    rig.refused(Insert, group.clone(), Code::AlreadyExists, "already");
    let state = rig.device.state.as_ref().expect("a pipeline");
    assert_eq!(state.replication.group(1).map(<[_]>::len), Some(2));
    #[allow(deprecated)]
    let old_style = pb::Replica { port_kind: Some(pb::replica::PortKind::EgressPort(3)), ..replica(&[3], 9) };
    let cpu = replica(&[0xff, 0xff, 0xff, 0xfd], 0);
    let other = multicast(2, vec![old_style, cpu]);
    rig.ok(Insert, other.clone());
    let ports: Vec<u32> = {
        let state = rig.device.state.as_ref().expect("a pipeline");
        state.replication.group(2).expect("inserted").iter().map(|r| r.port).collect()
    };
    assert_eq!(ports, [3, 510]);
    assert_eq!(rig.read_ok(multicast(0, vec![])), [group.clone(), other]);
    assert_eq!(rig.read_ok(multicast(1, vec![])), [group]);
    let mut check = |replicas, code, part: &str| rig.refused(Insert, multicast(3, replicas), code, part);
    check(vec![replica(&[9], 1)], Code::InvalidArgument, "replica 0: there is no port 9");
    check(vec![replica(&[], 1)], Code::InvalidArgument, "empty");
    check(vec![pb::Replica::default()], Code::InvalidArgument, "no port is set");
    check(vec![replica(&[1], 0x1_0000)], Code::InvalidArgument, "above 65535");
    check(vec![replica(&[1], 1), replica(&[1], 1)], Code::InvalidArgument, "twice");
    rig.refused(Insert, multicast(0, vec![]), Code::InvalidArgument, "id 0");
    rig.ok(Modify, multicast(1, vec![]));
    rig.ok(Delete, multicast(1, vec![]));
    rig.refused(Delete, multicast(1, vec![]), Code::NotFound, "does not exist");
}

#[test]
fn clone_sessions() {
    let mut rig = Rig::new();
    let s = session(100, vec![replica(&[1], 1)], 2, 64);
    rig.ok(Insert, s.clone());
    assert_eq!(rig.read_ok(session(0, vec![], 0, 0)), [s]);
    rig.refused(Insert, session(0, vec![], 0, 0), Code::InvalidArgument, "id 0");
    rig.refused(Insert, session(5, vec![], 300, 0), Code::InvalidArgument, "class_of_service is 300");
    rig.refused(Insert, session(5, vec![], 8, 0), Code::InvalidArgument, "use 0 to 7");
    rig.refused(Insert, session(5, vec![], 0, -1), Code::InvalidArgument, "cannot be negative");
    rig.refused(Insert, session(40_000, vec![], 0, 0), Code::InvalidArgument, "too large");
    rig.ok(Delete, session(100, vec![], 0, 0));
    assert_eq!(rig.read_ok(session(0, vec![], 0, 0)), []);
    let nothing = Entity::PacketReplicationEngineEntry(Default::default());
    rig.refused(Insert, nothing.clone(), Code::InvalidArgument, "neither");
    rig.read_refused(nothing, Code::InvalidArgument, "neither");
}

/// Groups and sessions that the switch was started with are there for clients, who may write them elsewhere.
#[test]
fn replication_of_the_start() {
    use pointsman_v1model::{CloneSession, Replica};
    let mut rig = Rig::new();
    let copies = || vec![Replica { port: 1, instance: 7 }, Replica { port: 510, instance: 0 }];
    let state = &mut rig.device.state.as_mut().expect("a pipeline").replication;
    let backups = vec![vec![Replica { port: 2, instance: 3 }], vec![]];
    state.insert_group_with_backups(4, copies(), backups).expect("a group");
    let session_of =
        CloneSession { replicas: copies(), truncate_bytes: 64, class_of_service: 2, ..Default::default() };
    state.insert_session(5, session_of).expect("a session");
    state
        .insert_session(6, CloneSession { multicast_group: Some(4), ..Default::default() })
        .expect("a session");
    rig.ok(Insert, multicast(1, vec![]));
    rig.server.adopt_replication(&mut rig.device);
    let [group, own] = rig.read_ok(multicast(0, vec![])).try_into().expect("two groups");
    assert_eq!(group, multicast(1, vec![]), "what clients wrote stays as it is");
    let found = rig.read_ok(session(0, vec![], 0, 0));
    assert_eq!(found, [session(5, vec![replica(&[1], 7), replica(&[1, 0xfe], 0)], 2, 64)]);
    rig.refused(Insert, own.clone(), Code::AlreadyExists, "already");
    let mut other = Rig::new();
    other.ok(Insert, own.clone());
    let of = |rig: &Rig| {
        let state = &rig.device.state.as_ref().expect("a pipeline").replication;
        (state.group(4).map(<[_]>::to_vec), state.backups(4).map(<[_]>::to_vec))
    };
    assert_eq!(of(&other), of(&rig));
    rig.ok(Delete, own);
    assert_eq!(of(&rig), (None, None));
}

#[test]
fn value_sets() {
    let mut rig = Rig::new();
    let value_set_id = rig.id("types");
    let set = |values: &[&[u8]]| {
        let members = values.iter().map(|v| pb::ValueSetMember { r#match: vec![exact(1, v)] }).collect();
        Entity::ValueSetEntry(pb::ValueSetEntry { value_set_id, members })
    };
    assert_eq!(rig.read_ok(set(&[])), [set(&[])]);
    rig.ok(Modify, set(&[&[1], &[1, 0]]));
    assert_eq!(rig.read_ok(set(&[])), [set(&[&[1], &[1, 0]])]);
    rig.refused(Modify, set(&[&[1], &[2], &[3]]), Code::ResourceExhausted, "2 members");
    rig.refused(Modify, set(&[&[1], &[0, 1]]), Code::AlreadyExists, "member 1 is given twice");
    rig.refused(Modify, set(&[&[2, 0]]), Code::InvalidArgument, "needs 10 bits");
    rig.refused(Insert, set(&[&[1]]), Code::InvalidArgument, "use MODIFY");
    rig.read_refused(set(&[&[1]]), Code::InvalidArgument, "read as a whole");
}

#[test]
fn kinds_without_instances() {
    let mut rig = Rig::new();
    let some = pb::ExternEntry { extern_type_id: 0x81, ..Default::default() };
    assert_eq!(rig.read_ok(Entity::ExternEntry(Default::default())), []);
    rig.refused(Modify, Entity::ExternEntry(some.clone()), Code::Unimplemented, "no externs");
    rig.read_refused(Entity::ExternEntry(some), Code::Unimplemented, "no externs");
}

#[test]
fn everything_is_taken_back() {
    let mut rig = Rig::new();
    let (reg, cnt, met, spread, types, learn) =
        (rig.id("reg"), rig.id("cnt"), rig.id("met"), rig.id("spread"), rig.id("types"), rig.id("learn_t"));
    let action = Some(rig.action("set", &[&[1], &[2]]));
    let data = Some(pb::CounterData { packet_count: 5, byte_count: 0 });
    let config = Some(pb::MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 });
    let member = Entity::ActionProfileMember(pb::ActionProfileMember {
        action_profile_id: spread,
        member_id: 1,
        action,
    });
    let member_of_group = pb::action_profile_group::Member { member_id: 1, weight: 1, watch_kind: None };
    let group = |members| {
        Entity::ActionProfileGroup(pb::ActionProfileGroup {
            action_profile_id: spread,
            group_id: 1,
            members,
            max_size: 0,
        })
    };
    let members = vec![pb::ValueSetMember { r#match: vec![exact(1, &[1])] }];
    let batch = vec![
        (Modify, register(reg, None, Some(&[9]))),
        (Modify, Entity::CounterEntry(pb::CounterEntry { counter_id: cnt, index: None, data })),
        (
            Modify,
            Entity::MeterEntry(pb::MeterEntry { meter_id: met, index: None, config, counter_data: None }),
        ),
        (Insert, member.clone()),
        (Insert, group(vec![])),
        (Modify, group(vec![member_of_group])),
        (Delete, group(vec![])),
        (Delete, member),
        (Insert, multicast(1, vec![replica(&[1], 1)])),
        (Modify, multicast(1, vec![])),
        (Delete, multicast(1, vec![])),
        (Insert, session(1, vec![], 0, 0)),
        (Modify, session(1, vec![], 1, 0)),
        (Modify, Entity::ValueSetEntry(pb::ValueSetEntry { value_set_id: types, members })),
        (Insert, Entity::DigestEntry(pb::DigestEntry { digest_id: learn, config: None })),
        (Modify, register(reg, Some(99), Some(&[1]))),
    ];
    let everything = [
        register(0, None, None),
        Entity::CounterEntry(Default::default()),
        Entity::MeterEntry(Default::default()),
        Entity::ActionProfileMember(Default::default()),
        Entity::ActionProfileGroup(Default::default()),
        multicast(0, vec![]),
        session(0, vec![], 0, 0),
        Entity::ValueSetEntry(Default::default()),
        Entity::DigestEntry(Default::default()),
    ];
    rig.ok(Modify, register(reg, Some(1), Some(&[3])));
    let before = everything.clone().map(|e| rig.read_ok(e));
    let e = rig.write_all(Atomicity::RollbackOnError, batch.clone()).expect_err("the last one fails");
    let codes: Vec<i32> = e.details.iter().map(|d| d.canonical_code).collect();
    assert_eq!(codes, [vec![10; 15], vec![11]].concat(), "{e}");
    assert_eq!(everything.clone().map(|e| rig.read_ok(e)), before);
    // Without the last one the whole batch is carried out.
    rig.write_all(Atomicity::RollbackOnError, batch[..15].to_vec()).expect("valid");
    assert_ne!(everything.map(|e| rig.read_ok(e)), before);
}
