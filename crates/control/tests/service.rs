//! The P4Runtime service and a switch that runs packets: writes must affect outgoing packets.

// `[e.clone()]` says "exactly this entry" better than `slice::from_ref(&e)`.
#![allow(clippy::cloned_ref_to_slice_refs)]

#[path = "service/rig.rs"]
mod rig;

use pb::entity::Entity;
use pb::update::Type::{Delete, Insert, Modify};
use pointsman_control::Code;
use pointsman_control::proto::p4rt as pb;
use rig::{Rig, exact, lpm, packet};

const BY_HASH: i32 = pb::action_profile_action_set::ActionSelectionMode::Hash as i32;

/// One action of a set: send to a port, with a weight, while a port is up.
fn choice(rig: &Rig, port: &str, weight: i32, watch: &[u8]) -> pb::ActionProfileAction {
    use pb::action_profile_action::WatchKind;
    pb::ActionProfileAction {
        action: Some(rig.action("send", &[port.as_bytes()])),
        weight,
        watch_kind: (!watch.is_empty()).then(|| WatchKind::WatchPort(watch.to_vec())),
    }
}

fn one_shot(rig: &Rig, kind: u8, choices: Vec<pb::ActionProfileAction>) -> pb::TableEntry {
    let set = pb::ActionProfileActionSet { action_profile_actions: choices, ..Default::default() };
    pb::TableEntry {
        table_id: rig.id("spread"),
        r#match: vec![exact(1, &[kind])],
        action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::ActionProfileActionSet(set)) }),
        ..Default::default()
    }
}

fn read_table(rig: &mut Rig, table: &str) -> Vec<pb::TableEntry> {
    let request = pb::TableEntry { table_id: rig.id(table), ..Default::default() };
    let entries = rig.read(Entity::TableEntry(request)).expect("valid");
    let entry = |e| match e {
        Entity::TableEntry(e) => e,
        other => panic!("{other:?}"),
    };
    entries.into_iter().map(entry).collect()
}

#[test]
fn one_shot_action_sets() {
    let mut rig = Rig::new();
    let entry = one_shot(&rig, 1, vec![choice(&rig, "eth1", 1, b"eth1"), choice(&rig, "eth2", 3, b"")]);
    rig.ok(Insert, Entity::TableEntry(entry.clone()));
    assert_eq!(read_table(&mut rig, "spread"), [entry.clone()]);
    // The hash is the value of b itself.
    let ports = |rig: &mut Rig| -> Vec<u32> {
        (0..4).flat_map(|b| rig.send(3, &packet(1, 0, b))).map(|(port, _)| port).collect()
    };
    assert_eq!(ports(&mut rig), [1, 2, 2, 2]);
    rig.port(1, false);
    assert_eq!(ports(&mut rig), [2, 2, 2, 2]);
    // A member that watches no port stays, whatever happens to its port.
    rig.port(2, false);
    assert_eq!(ports(&mut rig), [2, 2, 2, 2]);
    rig.port(1, true);
    assert_eq!(ports(&mut rig), [1, 2, 2, 2]);
    let entry = one_shot(&rig, 1, vec![choice(&rig, "eth3", 1, b"")]);
    rig.ok(Modify, Entity::TableEntry(entry.clone()));
    assert_eq!((ports(&mut rig), read_table(&mut rig, "spread")), (vec![3; 4], vec![entry.clone()]));
    // An action set does not appear among members or groups, and members cannot be added next to it.
    assert_eq!(rig.read(Entity::ActionProfileMember(Default::default())), Ok(vec![]));
    assert_eq!(rig.read(Entity::ActionProfileGroup(Default::default())), Ok(vec![]));
    let member = pb::ActionProfileMember {
        action_profile_id: rig.id("choices"),
        member_id: 1,
        action: Some(rig.action("drop", &[])),
    };
    let member = Entity::ActionProfileMember(member);
    rig.refused(Insert, member.clone(), Code::InvalidArgument, "not with both");
    let by_member = pb::TableEntry {
        action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::ActionProfileMemberId(1)) }),
        r#match: vec![exact(1, &[2])],
        ..entry.clone()
    };
    rig.refused(Insert, Entity::TableEntry(by_member), Code::InvalidArgument, "not with both");
    // An empty set is not an error; its packets do nothing here and are dropped without a port.
    rig.ok(Modify, Entity::TableEntry(one_shot(&rig, 1, vec![])));
    rig.ok(Delete, Entity::TableEntry(entry));
    rig.ok(Insert, member);
}

#[test]
fn limits_of_action_sets() {
    let mut rig = Rig::new();
    let mut check = |choices: Vec<pb::ActionProfileAction>,
                     change: &dyn Fn(&mut pb::ActionProfileActionSet),
                     expected| {
        let mut entry = one_shot(&rig, 9, choices);
        if let Some(pb::table_action::Type::ActionProfileActionSet(set)) =
            entry.action.as_mut().and_then(|a| a.r#type.as_mut())
        {
            change(set);
        }
        let found = rig.write(Insert, Entity::TableEntry(entry.clone()));
        if found.is_ok() {
            assert_eq!(read_table(&mut rig, "spread"), [entry.clone()]);
            rig.ok(Delete, Entity::TableEntry(entry));
        }
        assert_eq!(found.map_err(|(code, _)| code), expected);
    };
    let rig_again = Rig::new();
    let choice = |weight, watch: &[u8]| choice(&rig_again, "eth1", weight, watch);
    let same = |_: &mut pb::ActionProfileActionSet| {};
    check(vec![choice(16, b"")], &same, Ok(()));
    check(vec![choice(17, b"")], &same, Err(Code::ResourceExhausted));
    check(vec![choice(99, b"")], &|set| set.size_semantics = 2, Ok(()));
    check(vec![choice(1, b""); 17], &|set| set.size_semantics = 2, Err(Code::ResourceExhausted));
    check(vec![choice(0, b"")], &same, Err(Code::InvalidArgument));
    check(vec![choice(1, b"eth9")], &same, Err(Code::InvalidArgument));
    check(vec![choice(1, &[2])], &same, Ok(()));
    check(vec![choice(1, b"")], &|set| set.action_selection_mode = BY_HASH, Ok(()));
    check(vec![choice(1, b"")], &|set| set.action_selection_mode = 2, Ok(()));
    check(vec![choice(1, b"")], &|set| set.action_selection_mode = 9, Err(Code::InvalidArgument));
    check(vec![choice(1, b"")], &|set| set.size_semantics = 9, Err(Code::InvalidArgument));
    check(vec![choice(1, b"")], &|set| set.group_action = Some(Default::default()), Err(Code::Unimplemented));
    check(vec![pb::ActionProfileAction::default()], &same, Err(Code::InvalidArgument));
}

#[test]
fn groups_watch_ports() {
    use pb::action_profile_group::{Member, member::WatchKind};
    let mut rig = Rig::new();
    let id = rig.id("choices");
    for (member_id, port) in [(1, "eth1"), (2, "eth2")] {
        let action = Some(rig.action("send", &[port.as_bytes()]));
        rig.ok(
            Insert,
            Entity::ActionProfileMember(pb::ActionProfileMember { action_profile_id: id, member_id, action }),
        );
    }
    #[allow(deprecated)]
    let old_style = Some(WatchKind::Watch(2));
    let members = vec![
        Member { member_id: 1, weight: 1, watch_kind: Some(WatchKind::WatchPort(b"eth1".to_vec())) },
        Member { member_id: 2, weight: 1, watch_kind: old_style },
    ];
    let group = pb::ActionProfileGroup { action_profile_id: id, group_id: 5, members, max_size: 0 };
    rig.ok(Insert, Entity::ActionProfileGroup(group.clone()));
    assert_eq!(
        rig.read(Entity::ActionProfileGroup(Default::default())),
        Ok(vec![Entity::ActionProfileGroup(group)])
    );
    let entry = pb::TableEntry {
        action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::ActionProfileGroupId(5)) }),
        ..one_shot(&rig, 1, vec![])
    };
    rig.ok(Insert, Entity::TableEntry(entry));
    let ports = |rig: &mut Rig| -> Vec<u32> {
        (0..2).flat_map(|b| rig.send(3, &packet(1, 0, b))).map(|(port, _)| port).collect()
    };
    assert_eq!(ports(&mut rig), [1, 2]);
    rig.port(1, false);
    assert_eq!(ports(&mut rig), [2, 2]);
    rig.port(2, false);
    assert_eq!(ports(&mut rig), []);
    // Ports stay down when the program changes.
    rig.port(2, true);
    rig.reconcile().expect("the same program");
    assert_eq!(ports(&mut rig), [2, 2]);
}

#[test]
fn strings_for_values() {
    let mut rig = Rig::new();
    let route = |rig: &Rig, vrf: &str, action: pb::Action| pb::TableEntry {
        table_id: rig.id("routes"),
        r#match: vec![exact(1, vrf.as_bytes()), lpm(2, &[1, 0], 8)],
        action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::Action(action)) }),
        ..Default::default()
    };
    let vrf = |rig: &Rig, a: u8, vrf: &str| {
        let action = rig.action("set_vrf", &[vrf.as_bytes()]);
        Entity::TableEntry(pb::TableEntry {
            table_id: rig.id("vrfs"),
            r#match: vec![exact(1, &[a])],
            action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::Action(action)) }),
            ..Default::default()
        })
    };
    // One name from the program, one that is new.
    let blue = route(&rig, "blue", rig.action("send", &[b"eth1"]));
    let red = route(&rig, "red", rig.action("send", &[b"eth4"]));
    for e in [&blue, &red] {
        rig.ok(Insert, Entity::TableEntry(e.clone()));
    }
    for (a, name) in [(1, "blue"), (2, "red")] {
        rig.ok(Insert, vrf(&rig, a, name));
    }
    assert_eq!(read_table(&mut rig, "routes"), [blue.clone(), red.clone()]);
    let to = |rig: &mut Rig, a| rig.send(3, &packet(0, a, 0x100)).iter().map(|(p, _)| *p).collect::<Vec<_>>();
    assert_eq!((to(&mut rig, 1), to(&mut rig, 2), to(&mut rig, 3)), (vec![1], vec![4], vec![]));
    // Names that are only asked for are not learned, and neither are those of updates that fail.
    for n in 0..100 {
        let unknown = route(&rig, &format!("unknown {n}"), rig.action("send", &[b"eth1"]));
        assert_eq!(rig.read(Entity::TableEntry(unknown.clone())).map_err(|e| e.0), Err(Code::NotFound));
        rig.refused(Delete, Entity::TableEntry(unknown), Code::NotFound, "no entry");
        let bad = route(&rig, &format!("bad {n}"), rig.action("send", &[b"eth99"]));
        rig.refused(Insert, Entity::TableEntry(bad), Code::InvalidArgument, "no port called \"eth99\"");
    }
    // 16 values, of which 0, 7 and one more are taken: 13 names are left.
    for n in 0..13 {
        rig.ok(Insert, vrf(&rig, 100 + n, &format!("new {n}")));
    }
    rig.refused(Insert, vrf(&rig, 200, "one too many"), Code::ResourceExhausted, "no value is left");
    rig.reconcile().expect("the same program");
    assert_eq!((to(&mut rig, 1), to(&mut rig, 2)), (vec![1], vec![4]));
    // Numbers of ports: the CPU port has one that is the same everywhere.
    let cpu = route(&rig, "default", rig.action("send_number", &[&[0xff, 0xff, 0xff, 0xfd]]));
    rig.ok(Insert, Entity::TableEntry(cpu.clone()));
    assert_eq!(read_table(&mut rig, "routes").last(), Some(&cpu));
    rig.send(2, &packet(0, 9, 0x100));
    let [packet_in] = &rig.packets_in()[..] else { panic!("one packet for the controller") };
    assert_eq!(packet_in.metadata[0].value, b"eth2");
    assert_eq!(rig.packet_out(&[(1, b"eth4"), (2, &[0])], &packet(0, 9, 0)), [(4, packet(0, 9, 0))]);
    let too_wide = route(&rig, "default", rig.action("send_number", &[&[2, 0]]));
    rig.refused(Modify, Entity::TableEntry(too_wide), Code::InvalidArgument, "needs 10 bits");
}

#[test]
fn digests_with_names() {
    let mut rig = Rig::new();
    let limits = pb::TableEntry {
        table_id: rig.id("limits"),
        r#match: vec![rig::ternary(1, &[5], &[0xff])],
        priority: 1,
        action: rig.table_action("learn", &[]),
        ..Default::default()
    };
    rig.ok(Insert, Entity::TableEntry(limits));
    let digest_id = rig.id("learn_t");
    rig.ok(Insert, Entity::DigestEntry(pb::DigestEntry { digest_id, config: None }));
    rig.send(1, &packet(5, 6, 0));
    let [list] = &rig.digests()[..] else { panic!("one list") };
    let Some(pb::p4_data::Data::Struct(s)) = &list.data[0].data else { panic!("{list:?}") };
    let bytes = |d: &pb::P4Data| match &d.data {
        Some(pb::p4_data::Data::Bitstring(b)) => b.clone(),
        other => panic!("{other:?}"),
    };
    let members: Vec<Vec<u8>> = s.members.iter().map(bytes).collect();
    assert_eq!(members, [b"default".to_vec(), b"eth1".to_vec(), vec![6]]);
}

#[test]
fn meters_count_by_colour() {
    let mut rig = Rig::new();
    let limits = rig.id("limits");
    let config = Some(pb::MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 2, eburst: 0 });
    let entry = pb::TableEntry {
        table_id: limits,
        r#match: vec![rig::ternary(1, &[5], &[0xff])],
        priority: 1,
        action: rig.table_action("NoAction", &[]),
        meter_config: config,
        ..Default::default()
    };
    rig.ok(Insert, Entity::TableEntry(entry.clone()));
    for _ in 0..4 {
        rig.send(1, &packet(5, 0, 0));
    }
    let cell = |packets: i64| Some(pb::CounterData { packet_count: packets, byte_count: packets * 4 });
    let marked = |green, yellow, red| {
        Some(pb::MeterCounterData { green: cell(green), yellow: cell(yellow), red: cell(red) })
    };
    let ask = |e: &pb::TableEntry| pb::TableEntry {
        meter_counter_data: Some(Default::default()),
        meter_config: Some(Default::default()),
        ..e.clone()
    };
    let read =
        |rig: &mut Rig, e: &pb::TableEntry| match &rig.read(Entity::TableEntry(ask(e))).expect("valid")[..] {
            [Entity::TableEntry(e)] => (e.meter_config, e.meter_counter_data),
            other => panic!("{other:?}"),
        };
    let key = pb::TableEntry { meter_config: None, action: None, ..entry.clone() };
    assert_eq!(read(&mut rig, &key), (config, marked(1, 1, 2)));
    let direct = pb::DirectMeterEntry {
        table_entry: Some(pb::TableEntry { table_id: limits, ..Default::default() }),
        config: None,
        counter_data: Some(Default::default()),
    };
    let found = rig.read(Entity::DirectMeterEntry(direct.clone())).expect("valid");
    let [Entity::DirectMeterEntry(found)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((found.config, found.counter_data), (config, marked(1, 1, 2)));
    // Left out, the configuration goes; the counts go when they are set.
    let modified =
        pb::TableEntry { meter_config: None, meter_counter_data: Some(Default::default()), ..entry };
    rig.ok(Modify, Entity::TableEntry(modified));
    assert_eq!(read(&mut rig, &key), (None, marked(0, 0, 0)));
    // The default entry has a separate meter, for packets that miss.
    let default = pb::TableEntry { table_id: limits, is_default_action: true, ..Default::default() };
    let with_meter =
        pb::TableEntry { action: rig.table_action("NoAction", &[]), meter_config: config, ..default.clone() };
    rig.ok(Modify, Entity::TableEntry(with_meter));
    for _ in 0..3 {
        rig.send(1, &packet(6, 0, 0));
    }
    assert_eq!(read(&mut rig, &default), (config, marked(1, 1, 1)));
    // The program wrote the colour of the last packet into a register: red.
    let register = Entity::RegisterEntry(pb::RegisterEntry {
        register_id: rig.id("memory"),
        index: Some(pb::Index { index: 0 }),
        data: None,
    });
    let found = rig.read(register).expect("valid");
    let [Entity::RegisterEntry(cell_0)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(cell_0.data, Some(pb::P4Data { data: Some(pb::p4_data::Data::Bitstring(vec![2])) }));
    let defaults = pb::DirectMeterEntry {
        table_entry: Some(pb::TableEntry { is_default_action: true, ..Default::default() }),
        ..direct.clone()
    };
    assert_eq!(rig.read(Entity::DirectMeterEntry(defaults)).map(|found| found.len()), Ok(1));
    let direct_default =
        pb::DirectMeterEntry { table_entry: Some(default.clone()), counter_data: None, config: None };
    rig.ok(Modify, Entity::DirectMeterEntry(direct_default));
    assert_eq!(read(&mut rig, &default), (None, marked(1, 1, 1)));
    rig.ok(Modify, Entity::TableEntry(default.clone()));
    assert_eq!(read(&mut rig, &default), (None, marked(0, 0, 0)));
    // Seven packets ran the indirect meter.
    let meter = pb::MeterEntry {
        meter_id: rig.id("shared_rate"),
        counter_data: Some(Default::default()),
        ..Default::default()
    };
    let found = rig.read(Entity::MeterEntry(meter)).expect("valid");
    let green = |e: &Entity| match e {
        Entity::MeterEntry(m) => m.counter_data.and_then(|c| c.green).map(|c| c.packet_count),
        other => panic!("{other:?}"),
    };
    assert_eq!(found.iter().map(green).collect::<Vec<_>>(), [Some(7), Some(0)]);
    rig.ok(Modify, Entity::MeterEntry(pb::MeterEntry { index: Some(pb::Index { index: 0 }), ..meter }));
    let found = rig.read(Entity::MeterEntry(meter)).expect("valid");
    assert_eq!(found.iter().map(green).collect::<Vec<_>>(), [Some(0), Some(0)]);
}

#[test]
fn backup_replicas() {
    use pb::packet_replication_engine_entry::Type as Replication;
    let mut rig = Rig::new();
    let replica = |port: &[u8], instance, backups: &[(&[u8], u32)]| pb::Replica {
        port_kind: Some(pb::replica::PortKind::Port(port.to_vec())),
        instance,
        backup_replicas: backups
            .iter()
            .map(|(port, instance)| pb::BackupReplica { port: port.to_vec(), instance: *instance })
            .collect(),
    };
    let group = |replicas| {
        let group = pb::MulticastGroupEntry { multicast_group_id: 1, replicas, metadata: b"m".to_vec() };
        let r#type = Some(Replication::MulticastGroupEntry(group));
        Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type })
    };
    let written = group(vec![replica(b"eth1", 1, &[(&[0, 2], 2), (b"eth3", 3)]), replica(&[4], 4, &[])]);
    rig.ok(Insert, written);
    let canonical = group(vec![replica(b"eth1", 1, &[(&[2], 2), (b"eth3", 3)]), replica(&[4], 4, &[])]);
    assert_eq!(rig.read(group(vec![])).map(|_| ()), Ok(()));
    let all = Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(Default::default())),
    });
    assert_eq!(rig.read(all), Ok(vec![canonical]));
    let default = pb::TableEntry {
        table_id: rig.id("routes"),
        is_default_action: true,
        action: rig.table_action("flood", &[&[1]]),
        ..Default::default()
    };
    rig.ok(Modify, Entity::TableEntry(default));
    let ports = |rig: &mut Rig| -> Vec<u32> {
        let mut ports: Vec<u32> = rig.send(3, &packet(0, 0, 0)).iter().map(|(port, _)| *port).collect();
        ports.sort_unstable();
        ports
    };
    assert_eq!(ports(&mut rig), [1, 4]);
    rig.port(1, false);
    assert_eq!(ports(&mut rig), [2, 4]);
    rig.port(2, false);
    assert_eq!(ports(&mut rig), [3, 4]);
    // All three are down: no copy is made for them.
    rig.port(3, false);
    assert_eq!(ports(&mut rig), [4]);
    rig.port(1, true);
    assert_eq!(ports(&mut rig), [1, 4]);
    let mut check = |replicas, part: &str| rig.refused(Modify, group(replicas), Code::InvalidArgument, part);
    check(vec![replica(&[1], 1, &[(&[1], 2)])], "port 1 is given twice");
    check(vec![replica(&[1], 1, &[(&[2], 1)]), replica(&[2], 1, &[])], "is given twice");
    check(vec![replica(&[1], 1, &[(&[9], 1)])], "replica 0: backup 0: there is no port 9");
    let session = pb::CloneSessionEntry {
        session_id: 1,
        replicas: vec![replica(&[1], 1, &[(&[2], 1)])],
        ..Default::default()
    };
    let session = pb::PacketReplicationEngineEntry { r#type: Some(Replication::CloneSessionEntry(session)) };
    rig.refused(Insert, Entity::PacketReplicationEngineEntry(session), Code::Unimplemented, "backup");
}

#[test]
fn value_sets_steer_the_parser() {
    let mut rig = Rig::new();
    let route = pb::TableEntry {
        table_id: rig.id("routes"),
        is_default_action: true,
        action: rig.table_action("send", &[b"eth1"]),
        ..Default::default()
    };
    rig.ok(Modify, Entity::TableEntry(route));
    let set = |rig: &Rig, kinds: &[u8]| {
        let member = |kind: &u8| pb::ValueSetMember { r#match: vec![exact(1, &[*kind])] };
        let members = kinds.iter().map(member).collect();
        Entity::ValueSetEntry(pb::ValueSetEntry { value_set_id: rig.id("cut"), members })
    };
    assert_eq!(rig.send(2, &packet(8, 0, 0x1234)), [(1, packet(8, 0, 0x1234))]);
    rig.ok(Modify, set(&rig, &[8, 9]));
    assert_eq!(rig.send(2, &packet(8, 0, 0x1234)), [(1, packet(8, 0, 0xcccc))]);
    rig.ok(Modify, set(&rig, &[]));
    assert_eq!(rig.send(2, &packet(8, 0, 0x1234)), [(1, packet(8, 0, 0x1234))]);
}

#[test]
fn registers_of_structs() {
    use pb::p4_data::Data;
    let mut rig = Rig::new();
    let bits = |bytes: &[u8]| pb::P4Data { data: Some(Data::Bitstring(bytes.to_vec())) };
    let cell = |index: i64, vrf: &[u8], port: &[u8], a: &[u8]| {
        let members = vec![bits(vrf), bits(port), bits(a)];
        let data = Some(pb::P4Data { data: Some(Data::Struct(pb::P4StructLike { members })) });
        (Some(pb::Index { index }), data)
    };
    let register_id = rig.id("seen");
    let entity = |(index, data)| Entity::RegisterEntry(pb::RegisterEntry { register_id, index, data });
    rig.ok(Modify, entity(cell(1, b"blue", b"eth3", &[9])));
    let all = [cell(0, b"default", b"0", &[0]), cell(1, b"blue", b"eth3", &[9])].map(entity);
    assert_eq!(rig.read(entity((None, None))), Ok(all.to_vec()));
    rig.refused(Modify, entity(cell(1, b"blue", b"eth9", &[9])), Code::InvalidArgument, "no port called");
    let short = pb::P4Data { data: Some(Data::Struct(pb::P4StructLike { members: vec![bits(&[1])] })) };
    let short = (Some(pb::Index { index: 1 }), Some(short));
    rig.refused(Modify, entity(short), Code::InvalidArgument, "1 members are given, the type has 3");
    // Writes of the program are read the same way.
    rig.send(2, &packet(0, 5, 0));
    assert_eq!(
        rig.read(entity((Some(pb::Index { index: 0 }), None))),
        Ok(vec![entity(cell(0, b"default", b"eth2", &[5]))])
    );
    rig.reconcile().expect("the same program");
    assert_eq!(
        rig.read(entity((Some(pb::Index { index: 1 }), None))),
        Ok(vec![entity(cell(1, b"blue", b"eth3", &[9]))])
    );
}

#[test]
fn rules_of_selectors() {
    use pb::action_profile_group::Member;
    let mut rig = Rig::new();
    let (adaptive, weighted) = (rig.id("adaptive"), rig.id("weighted"));
    let action = Some(rig.action("drop", &[]));
    for action_profile_id in [adaptive, weighted] {
        for member_id in 1..=3 {
            let member = pb::ActionProfileMember { action_profile_id, member_id, action: action.clone() };
            rig.ok(Insert, Entity::ActionProfileMember(member));
        }
    }
    let group = |action_profile_id, group_id, members: &[(u32, i32)], max_size| {
        let member = |(member_id, weight): &(u32, i32)| Member {
            member_id: *member_id,
            weight: *weight,
            watch_kind: None,
        };
        let members = members.iter().map(member).collect();
        let group = pb::ActionProfileGroup { action_profile_id, group_id, members, max_size };
        Entity::ActionProfileGroup(group)
    };
    // The switch decides about weights, and says nothing about them.
    let unweighted = group(adaptive, 1, &[(1, 0), (2, 0)], 2);
    rig.ok(Insert, unweighted.clone());
    assert_eq!(rig.read(group(adaptive, 1, &[], 0)), Ok(vec![unweighted]));
    let heavy = [(1, 10), (2, 10)];
    rig.ok(Insert, group(weighted, 1, &heavy, 2));
    let mut check = |entity, code, part: &str| rig.refused(Insert, entity, code, part);
    check(group(adaptive, 2, &[(1, 1)], 2), Code::InvalidArgument, "sets the weights");
    check(group(weighted, 2, &[(1, 0)], 2), Code::InvalidArgument, "must be 1 or more");
    check(group(weighted, 2, &[(1, 11)], 2), Code::InvalidArgument, "the selector allows 10");
    check(group(weighted, 2, &[(1, 1)], 0), Code::InvalidArgument, "max_size is 0: use 1 to 2");
    check(group(weighted, 2, &[(1, 1)], 3), Code::InvalidArgument, "use 1 to 2");
    check(group(weighted, 2, &[(1, 1), (2, 1), (3, 1)], 2), Code::ResourceExhausted, "there are 3");
    check(group(weighted, 2, &heavy, 2), Code::ResourceExhausted, "full");
    rig.refused(Modify, group(weighted, 1, &heavy, 1), Code::InvalidArgument, "cannot be modified: it is 2");
    rig.refused(Modify, group(weighted, 7, &heavy, 1), Code::NotFound, "no such group");
    rig.ok(Modify, group(weighted, 1, &[(3, 1)], 2));
    rig.ok(Insert, group(weighted, 2, &heavy, 2));
    // Only the ids count when something is deleted.
    rig.ok(Delete, group(weighted, 1, &[(9, -1)], -1));
}

/// What clients read survives a restart, which follows every write here.
#[test]
fn opaque_data_survives_a_restart() {
    use pb::packet_replication_engine_entry::Type as Replication;
    let mut rig = Rig::new();
    #[allow(deprecated)]
    let entry = pb::TableEntry {
        table_id: rig.id("limits"),
        r#match: vec![rig::ternary(1, &[5], &[0xff])],
        priority: 3,
        action: rig.table_action("learn", &[]),
        metadata: vec![1, 2, 3],
        controller_metadata: 99,
        idle_timeout_ns: 1 << 40,
        ..Default::default()
    };
    rig.ok(Insert, Entity::TableEntry(entry.clone()));
    assert_eq!(read_table(&mut rig, "limits"), [entry]);
    #[allow(deprecated)]
    let default = pb::TableEntry {
        table_id: rig.id("routes"),
        is_default_action: true,
        action: rig.table_action("send_number", &[&[0xff, 0xff, 0xff, 0xfd]]),
        metadata: vec![7],
        controller_metadata: 8,
        ..Default::default()
    };
    rig.ok(Modify, Entity::TableEntry(default.clone()));
    let ask = pb::TableEntry { action: None, metadata: vec![], ..default.clone() };
    assert_eq!(rig.read(Entity::TableEntry(ask)), Ok(vec![Entity::TableEntry(default)]));
    let replica = pb::Replica {
        port_kind: Some(pb::replica::PortKind::Port(b"\x02".to_vec())),
        instance: 4,
        ..Default::default()
    };
    let session = pb::CloneSessionEntry {
        session_id: 9,
        replicas: vec![replica],
        class_of_service: 2,
        packet_length_bytes: 64,
    };
    let entity = |session| {
        let r#type = Some(Replication::CloneSessionEntry(session));
        Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type })
    };
    rig.ok(Insert, entity(session.clone()));
    let all = entity(pb::CloneSessionEntry::default());
    assert_eq!(rig.read(all), Ok(vec![entity(session)]));
    let digest = pb::DigestEntry {
        digest_id: rig.id("learn_t"),
        config: Some(pb::digest_entry::Config { max_timeout_ns: 5, max_list_size: 6, ack_timeout_ns: 7 }),
    };
    rig.ok(Insert, Entity::DigestEntry(digest));
    assert_eq!(rig.read(Entity::DigestEntry(Default::default())), Ok(vec![Entity::DigestEntry(digest)]));
}
