//! Random requests: they must not panic, and refused requests must not change anything.

use super::*;
use pb::write_request::Atomicity;
use pointsman_wire::Random;

struct Dice(Random);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = self.pick(&[0, 1, 1, 1, 1, 2, 2, 4, 9]);
        (0..len).map(|_| self.pick(&[0, 0, 1, 2, 0xff, 0x80])).collect()
    }

    fn number(&mut self) -> i64 {
        self.pick(&[0, 0, 1, 1, 2, 3, 4, 5, -1, i64::from(i32::MAX), i64::MAX, i64::MIN])
    }

    fn small(&mut self) -> i32 {
        self.pick(&[0, 0, 1, 1, 2, 8, 9, 16, 32, 33, -1, i32::MAX, i32::MIN])
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (!self.one_in(3)).then(|| make(self))
    }
}

/// Ids that mean something, and some that do not.
struct Ids {
    tables: Vec<u32>,
    actions: Vec<u32>,
    others: Vec<u32>,
}

impl Ids {
    fn any(&self, dice: &mut Dice) -> u32 {
        dice.pick(&[self.tables.as_slice(), &self.actions, &self.others, &[0, 1, u32::MAX]].concat())
    }

    fn of(&self, dice: &mut Dice, kind: &[u32]) -> u32 {
        if dice.one_in(8) { self.any(dice) } else { dice.pick(kind) }
    }
}

fn field_match(dice: &mut Dice) -> pb::FieldMatch {
    use pb::field_match::FieldMatchType as M;
    let field_match_type = dice.maybe(|d| match d.below(6) {
        0 => M::Exact(pb::field_match::Exact { value: d.bytes() }),
        1 => M::Lpm(pb::field_match::Lpm { value: d.bytes(), prefix_len: d.small() }),
        2 => M::Ternary(pb::field_match::Ternary { value: d.bytes(), mask: d.bytes() }),
        3 => M::Range(pb::field_match::Range { low: d.bytes(), high: d.bytes() }),
        4 => M::Optional(pb::field_match::Optional { value: d.bytes() }),
        _ => M::Other(prost_types::Any::default()),
    });
    pb::FieldMatch { field_id: dice.pick(&[1, 1, 2, 3, 0, 7]), field_match_type }
}

fn action(dice: &mut Dice, ids: &Ids) -> pb::Action {
    let param =
        |dice: &mut Dice| pb::action::Param { param_id: dice.pick(&[1, 2, 2, 0, 3]), value: dice.bytes() };
    let count = dice.pick(&[0, 0, 2, 2, 3]);
    pb::Action { action_id: ids.of(dice, &ids.actions), params: (0..count).map(|_| param(dice)).collect() }
}

fn table_action(dice: &mut Dice, ids: &Ids) -> pb::TableAction {
    use pb::table_action::Type as T;
    let r#type = dice.maybe(|d| match d.below(6) {
        0 => T::ActionProfileMemberId(d.below(3) as u32),
        1 => T::ActionProfileGroupId(d.below(3) as u32),
        2 => T::ActionProfileActionSet(action_set(d, ids)),
        _ => T::Action(action(d, ids)),
    });
    pb::TableAction { r#type }
}

#[allow(deprecated)]
fn action_set(dice: &mut Dice, ids: &Ids) -> pb::ActionProfileActionSet {
    use pb::action_profile_action::WatchKind as W;
    let one = |d: &mut Dice| pb::ActionProfileAction {
        action: d.maybe(|d| action(d, ids)),
        weight: d.small(),
        watch_kind: d.maybe(|d| if d.one_in(2) { W::Watch(d.small()) } else { W::WatchPort(d.bytes()) }),
    };
    let count = dice.below(3);
    pb::ActionProfileActionSet {
        action_profile_actions: (0..count).map(|_| one(dice)).collect(),
        action_selection_mode: dice.pick(&[0, 0, 1, 2, 3]),
        size_semantics: dice.pick(&[0, 0, 1, 2, 3]),
        group_action: if dice.one_in(9) { Some(action(dice, ids)) } else { None },
    }
}

fn marked(dice: &mut Dice) -> pb::MeterCounterData {
    let cell = |d: &mut Dice| if d.one_in(4) { Some(counter(d)) } else { None };
    pb::MeterCounterData { green: cell(dice), yellow: cell(dice), red: cell(dice) }
}

#[allow(deprecated)]
fn table_entry(dice: &mut Dice, ids: &Ids) -> pb::TableEntry {
    let fields = dice.below(4);
    pb::TableEntry {
        table_id: ids.of(dice, &ids.tables),
        r#match: (0..fields).map(|_| field_match(dice)).collect(),
        action: dice.maybe(|d| table_action(d, ids)),
        priority: dice.small(),
        controller_metadata: dice.below(3),
        meter_config: if dice.one_in(4) { Some(meter(dice)) } else { None },
        counter_data: if dice.one_in(4) { Some(counter(dice)) } else { None },
        is_default_action: dice.one_in(6),
        idle_timeout_ns: if dice.one_in(4) { dice.number() } else { 0 },
        time_since_last_hit: if dice.one_in(9) { Some(Default::default()) } else { None },
        metadata: dice.bytes(),
        meter_counter_data: if dice.one_in(9) { Some(marked(dice)) } else { None },
        is_const: dice.one_in(9),
    }
}

fn meter(dice: &mut Dice) -> pb::MeterConfig {
    let (cir, cburst, pir, pburst) = (dice.number(), dice.number(), dice.number(), dice.number());
    pb::MeterConfig { cir, cburst, pir, pburst, eburst: i64::from(dice.one_in(9)) }
}

fn counter(dice: &mut Dice) -> pb::CounterData {
    pb::CounterData { byte_count: dice.number(), packet_count: dice.number() }
}

fn p4data(dice: &mut Dice) -> pb::P4Data {
    use pb::p4_data::Data as D;
    let data = dice.maybe(|d| match d.below(6) {
        0 => D::Bool(true),
        1 => D::Struct(pb::P4StructLike { members: vec![Default::default()] }),
        2 => D::Varbit(pb::P4Varbit { bitstring: d.bytes(), bitwidth: d.small() }),
        3 => D::Header(pb::P4Header { is_valid: true, bitstrings: vec![d.bytes()] }),
        _ => D::Bitstring(d.bytes()),
    });
    pb::P4Data { data }
}

fn replicas(dice: &mut Dice) -> Vec<pb::Replica> {
    let count = dice.below(3);
    let replica = |d: &mut Dice| pb::Replica {
        port_kind: d.maybe(|d| pb::replica::PortKind::Port(d.bytes())),
        instance: d.small() as u32,
        backup_replicas: match d.below(4) {
            0 => vec![pb::BackupReplica { port: d.bytes(), instance: d.small() as u32 }],
            1 => vec![pb::BackupReplica { port: vec![2], instance: 1 }],
            _ => vec![],
        },
    };
    (0..count).map(|_| replica(dice)).collect()
}

fn entity(dice: &mut Dice, ids: &Ids) -> Entity {
    use pb::packet_replication_engine_entry::Type as R;
    let other = ids.of(dice, &ids.others);
    let index = dice.maybe(|d| pb::Index { index: d.number() });
    let id = dice.below(3) as u32;
    match dice.below(16) {
        0 => Entity::RegisterEntry(pb::RegisterEntry { register_id: other, index, data: dice.maybe(p4data) }),
        1 => Entity::CounterEntry(pb::CounterEntry { counter_id: other, index, data: dice.maybe(counter) }),
        2 => Entity::MeterEntry(pb::MeterEntry {
            meter_id: other,
            index,
            config: dice.maybe(meter),
            counter_data: if dice.one_in(4) { Some(marked(dice)) } else { None },
        }),
        3 => Entity::DirectCounterEntry(pb::DirectCounterEntry {
            table_entry: dice.maybe(|d| table_entry(d, ids)),
            data: dice.maybe(counter),
        }),
        4 => Entity::DirectMeterEntry(pb::DirectMeterEntry {
            table_entry: dice.maybe(|d| table_entry(d, ids)),
            config: dice.maybe(meter),
            counter_data: if dice.one_in(4) { Some(marked(dice)) } else { None },
        }),
        5 => Entity::ActionProfileMember(pb::ActionProfileMember {
            action_profile_id: other,
            member_id: id,
            action: dice.maybe(|d| action(d, ids)),
        }),
        6 => {
            let member = |d: &mut Dice| pb::action_profile_group::Member {
                member_id: d.below(3) as u32,
                weight: d.small(),
                watch_kind: None,
            };
            let members = (0..dice.below(3)).map(|_| member(dice)).collect();
            let max_size = dice.small();
            let action_profile_id = other;
            Entity::ActionProfileGroup(pb::ActionProfileGroup {
                action_profile_id,
                group_id: id,
                members,
                max_size,
            })
        }
        7 => {
            let group = pb::MulticastGroupEntry {
                multicast_group_id: id,
                replicas: replicas(dice),
                metadata: vec![],
            };
            let r#type = Some(R::MulticastGroupEntry(group));
            Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type })
        }
        8 => {
            let session = pb::CloneSessionEntry {
                session_id: id,
                replicas: replicas(dice),
                class_of_service: dice.small() as u32,
                packet_length_bytes: dice.small(),
            };
            let r#type = Some(R::CloneSessionEntry(session));
            Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type })
        }
        9 => {
            let member = |d: &mut Dice| pb::ValueSetMember { r#match: vec![field_match(d)] };
            let members = (0..dice.below(4)).map(|_| member(dice)).collect();
            Entity::ValueSetEntry(pb::ValueSetEntry { value_set_id: other, members })
        }
        10 => {
            let config = dice.maybe(|d| pb::digest_entry::Config {
                max_timeout_ns: d.number(),
                max_list_size: d.small(),
                ack_timeout_ns: d.number(),
            });
            Entity::DigestEntry(pb::DigestEntry { digest_id: other, config })
        }
        11 => Entity::ExternEntry(pb::ExternEntry { extern_type_id: id, ..Default::default() }),
        _ => Entity::TableEntry(table_entry(dice, ids)),
    }
}

/// Entities that are mostly in order, so that something is accepted and state builds up.
#[allow(deprecated)]
fn sensible(dice: &mut Dice, rig: &Rig) -> Entity {
    use pb::packet_replication_engine_entry::Type as R;
    let value = [dice.below(3) as u8];
    let (name, matches, priority) = match dice.below(5) {
        0 => ("exact", vec![exact(1, &value), exact(2, &[1])], 0),
        1 => ("lpm", vec![lpm(1, &[value[0], 0, 0, 0], 8)], 0),
        2 => ("acl", vec![ternary(1, &value, &[0xff]), range(2, &value, &[9])], 1),
        3 => ("mixed", vec![exact(1, &value)], 0),
        _ => ("chosen", vec![exact(1, &value)], 0),
    };
    let mut entry =
        pb::TableEntry { priority, controller_metadata: dice.below(3), ..rig.entry(name, matches) };
    if name == "chosen" {
        let group = pb::table_action::Type::ActionProfileGroupId(1);
        let member = pb::table_action::Type::ActionProfileMemberId(1);
        let choice = |weight, port: u8| pb::ActionProfileAction {
            action: Some(rig.action("set", &[&value, &[1]])),
            weight,
            watch_kind: Some(pb::action_profile_action::WatchKind::WatchPort(vec![port])),
        };
        let set = pb::ActionProfileActionSet {
            action_profile_actions: vec![choice(1, 1), choice(2, 2)],
            size_semantics: dice.below(3) as i32,
            ..Default::default()
        };
        let set = pb::table_action::Type::ActionProfileActionSet(set);
        entry.action = Some(pb::TableAction { r#type: Some(dice.pick(&[group, member, set.clone(), set])) });
    } else if dice.one_in(2) {
        entry.action = rig.table_action("set", &[&value, &[1, 2]]);
    }
    if name == "exact" && dice.one_in(2) {
        entry.counter_data = Some(pb::CounterData { byte_count: 5, packet_count: i64::from(value[0]) });
    }
    if name == "acl" && dice.one_in(2) {
        entry.meter_config = Some(pb::MeterConfig { cir: 1, cburst: 1, pir: 2, pburst: 2, eburst: 0 });
        entry.idle_timeout_ns = 7;
    }
    let index = Some(pb::Index { index: dice.below(2) as i64 });
    let id = dice.below(2) as u32 + 1;
    let profile = rig.id("spread");
    match dice.below(12) {
        0 => {
            let data = pb::P4Data { data: Some(pb::p4_data::Data::Bitstring(value.to_vec())) };
            Entity::RegisterEntry(pb::RegisterEntry { register_id: rig.id("reg"), index, data: Some(data) })
        }
        1 => Entity::ActionProfileMember(pb::ActionProfileMember {
            action_profile_id: profile,
            member_id: id,
            action: Some(rig.action("set", &[&value, &[1]])),
        }),
        2 => {
            let watch_kind = Some(pb::action_profile_group::member::WatchKind::WatchPort(vec![id as u8]));
            let member = pb::action_profile_group::Member { member_id: id, weight: 1, watch_kind };
            let (action_profile_id, group_id, members) = (profile, 1, vec![member]);
            Entity::ActionProfileGroup(pb::ActionProfileGroup {
                action_profile_id,
                group_id,
                members,
                max_size: 0,
            })
        }
        3 => {
            let port = Some(pb::replica::PortKind::Port(vec![id as u8]));
            let backup = pb::BackupReplica { port: vec![7], instance: 1 };
            let backup_replicas = if dice.one_in(2) { vec![backup] } else { vec![] };
            let replicas = vec![pb::Replica { port_kind: port, backup_replicas, ..Default::default() }];
            let group =
                pb::MulticastGroupEntry { multicast_group_id: id, replicas, metadata: value.to_vec() };
            let r#type = Some(R::MulticastGroupEntry(group));
            Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type })
        }
        4 => {
            entry.r#match = vec![];
            entry.priority = 0;
            entry.idle_timeout_ns = 0;
            entry.meter_config = None;
            entry.is_default_action = true;
            Entity::TableEntry(entry)
        }
        _ => Entity::TableEntry(entry),
    }
}

fn everything(rig: &mut Rig) -> Vec<Vec<Entity>> {
    use pb::packet_replication_engine_entry::Type as R;
    let replication =
        |r| Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(r) });
    let with_resources = pb::TableEntry {
        counter_data: Some(Default::default()),
        meter_config: Some(Default::default()),
        meter_counter_data: Some(Default::default()),
        ..Default::default()
    };
    let requests = [
        Entity::TableEntry(pb::TableEntry { is_default_action: true, ..with_resources.clone() }),
        Entity::TableEntry(with_resources),
        Entity::RegisterEntry(Default::default()),
        Entity::CounterEntry(Default::default()),
        Entity::MeterEntry(Default::default()),
        Entity::ActionProfileMember(Default::default()),
        Entity::ActionProfileGroup(Default::default()),
        Entity::ValueSetEntry(Default::default()),
        Entity::DigestEntry(Default::default()),
        replication(R::MulticastGroupEntry(Default::default())),
        replication(R::CloneSessionEntry(Default::default())),
    ];
    requests.into_iter().map(|r| rig.read_ok(r)).collect()
}

/// A valid batch, with an invalid update inserted at each place: all of it is undone, whatever the place.
#[test]
fn batches_are_all_or_nothing() {
    let mut rig = Rig::new();
    let (mut batches, mut seed) = (0, 0);
    'seeds: while batches < 15 {
        seed += 1;
        assert!(seed < 20_000, "no batches that work: {batches}");
        let mut dice = Dice(Random::new(1_000_000 + seed));
        let kinds = [Insert, Insert, Modify, Delete];
        let batch: Vec<_> = (0..4).map(|_| (dice.pick(&kinds), sensible(&mut dice, &rig))).collect();
        let before = everything(&mut rig);
        let atomicity = dice.pick(&[Atomicity::RollbackOnError, Atomicity::DataplaneAtomic]);
        for at in (0..=batch.len()).rev() {
            let mut failing = batch.clone();
            failing.insert(at, (Insert, Entity::RegisterEntry(Default::default())));
            let e = rig.write_all(atomicity, failing).expect_err("one cannot work");
            if e.details[at].canonical_code != Code::InvalidArgument.number() {
                // The batch does not even work without it.
                continue 'seeds;
            }
            assert!(e.details.iter().all(|d| d.canonical_code != 0), "seed {seed}, place {at}");
            assert_eq!(everything(&mut rig), before, "seed {seed}, place {at}: {batch:?}");
        }
        rig.write_all(atomicity, batch).expect("it failed for the update that was put in");
        batches += 1;
    }
}

#[test]
fn random_writes() {
    let mut rig = Rig::new();
    let ids = Ids {
        tables: ["exact", "lpm", "acl", "fixed", "mixed", "keyless", "chosen"].map(|n| rig.id(n)).to_vec(),
        actions: ["set", "drop", "NoAction"].map(|n| rig.id(n)).to_vec(),
        others: ["reg", "cnt", "met", "spread", "types", "learn_t"].map(|n| rig.id(n)).to_vec(),
    };
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..2000 {
        let mut dice = Dice(Random::new(seed));
        let atomicity =
            dice.pick(&[Atomicity::ContinueOnError, Atomicity::RollbackOnError, Atomicity::DataplaneAtomic]);
        let updates: Vec<_> = (0..dice.pick(&[1, 1, 2, 3, 8]))
            .map(|_| {
                let entity = if dice.one_in(4) { entity(&mut dice, &ids) } else { sensible(&mut dice, &rig) };
                (dice.pick(&[Insert, Insert, Modify, Modify, Delete, Type::Unspecified]), entity)
            })
            .collect();
        let before = everything(&mut rig);
        let result = rig.write_all(atomicity, updates.clone());
        match &result {
            Ok(()) => accepted += 1,
            Err(e) => {
                refused += 1;
                assert_eq!(e.details.len(), updates.len());
                let all_failed = e.details.iter().all(|d| d.canonical_code != 0);
                assert!(all_failed || atomicity == Atomicity::ContinueOnError, "seed {seed}");
                if all_failed {
                    assert_eq!(everything(&mut rig), before, "seed {seed}: {e}\n{updates:?}");
                }
            }
        }
        // Also reads of anything.
        let _ = rig.read(entity(&mut dice, &ids));
    }
    assert!(accepted > 150 && refused > 250, "{accepted} accepted, {refused} refused");
}

#[allow(deprecated)]
fn role(dice: &mut Dice) -> pb::Role {
    use crate::server::{P4RoleConfig, PacketFilter};
    use prost::Message;
    let config = dice.maybe(|d| {
        let ids = |d: &mut Dice| (0..d.below(3)).map(|_| d.pick(&[0, 1, 2, 3])).collect();
        let config = P4RoleConfig {
            exclusive_p4_ids: ids(d),
            shared_p4_ids: ids(d),
            packet_in_filter: d.maybe(|d| PacketFilter { metadata_id: d.below(3) as u32, value: d.bytes() }),
            receives_packet_ins: d.one_in(2),
            can_push_pipeline: d.one_in(2),
        };
        let value = if d.one_in(5) { d.bytes() } else { config.encode_to_vec() };
        let type_url = d.pick(&["x/stratum.P4RoleConfig", "x/stratum.P4RoleConfig", "x/y", ""]);
        prost_types::Any { type_url: type_url.into(), value }
    });
    pb::Role { name: dice.pick(&["r", "s", "t", ""]).into(), id: dice.below(2), config }
}

#[test]
fn random_streams() {
    use pb::stream_message_request::Update;
    let mut rig = Rig::new();
    for seed in 0..2000 {
        let mut dice = Dice(Random::new(seed));
        let conn = ConnId(dice.below(4));
        let update = dice.maybe(|d| match d.below(4) {
            0 => {
                let metadata =
                    |d: &mut Dice| pb::PacketMetadata { metadata_id: d.below(4) as u32, value: d.bytes() };
                let metadata = (0..d.below(3)).map(|_| metadata(d)).collect();
                Update::Packet(pb::PacketOut { payload: d.bytes(), metadata })
            }
            1 => {
                Update::DigestAck(pb::DigestListAck { digest_id: d.below(3) as u32, list_id: d.0.next_u64() })
            }
            _ => Update::Arbitration(pb::MasterArbitrationUpdate {
                device_id: d.pick(&[1, 1, 1, 1, 1, 1, 2]),
                role: if d.one_in(3) { Some(role(d)) } else { None },
                election_id: d.maybe(|d| pb::Uint128 { high: d.below(2), low: d.below(5) }),
                status: None,
            }),
        });
        let out = rig.server.stream_message(conn, &pb::StreamMessageRequest { update });
        if out.iter().any(|o| matches!(o, Output::Close { .. })) || dice.one_in(10) {
            rig.server.connection_closed(conn);
        }
        let _ = rig.server.packet_in(&dice.bytes());
    }
}
