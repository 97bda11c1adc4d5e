//! Messages that mostly are right for a program, made from its P4Info.

use crate::protobuf::Words;
use pb::entity::Entity;
use pointsman_control::proto::p4info::{self as info, P4Info, action_ref::Scope, match_field};
use pointsman_control::proto::p4rt as pb;
use pointsman_testkit::random::Random;

/// Ids, names and values that mean something.
pub fn words(p: &P4Info) -> Words {
    let mut preambles: Vec<&info::Preamble> = Vec::new();
    preambles.extend(p.tables.iter().filter_map(|x| x.preamble.as_ref()));
    preambles.extend(p.actions.iter().filter_map(|x| x.preamble.as_ref()));
    preambles.extend(p.action_profiles.iter().filter_map(|x| x.preamble.as_ref()));
    preambles.extend(p.counters.iter().filter_map(|x| x.preamble.as_ref()));
    preambles.extend(p.direct_counters.iter().filter_map(|x| x.preamble.as_ref()));
    preambles.extend(p.meters.iter().filter_map(|x| x.preamble.as_ref()));
    preambles.extend(p.direct_meters.iter().filter_map(|x| x.preamble.as_ref()));
    preambles.extend(p.value_sets.iter().filter_map(|x| x.preamble.as_ref()));
    preambles.extend(p.registers.iter().filter_map(|x| x.preamble.as_ref()));
    preambles.extend(p.digests.iter().filter_map(|x| x.preamble.as_ref()));
    let ids = preambles.iter().map(|x| u64::from(x.id));
    let numbers =
        ids.chain([1, 1, 1, 2, 3, 4, 5, 16, 255, 256, 510, 511, 512, 65_535, 1_000_000_000]).collect();
    let bytes: [&[u8]; 12] = [
        &[0],
        &[1],
        &[2],
        &[],
        &[0xff],
        &[1, 0xff],
        &[1, 0xfe],
        &[0, 1],
        &[10, 0, 0, 1],
        &[10, 0, 0, 0],
        &[2, 0, 0, 0, 0, 1],
        &[1, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    Words {
        numbers,
        strings: ["", "a", "role", "1"].map(String::from).into(),
        bytes: bytes.map(<[u8]>::to_vec).into(),
    }
}

fn id(p: &Option<info::Preamble>) -> u32 {
    p.as_ref().map_or(0, |p| p.id)
}

/// A byte string as short as can be, of a value below 2^width.
fn value(width: i32, r: &mut Random) -> Vec<u8> {
    let width = width.max(1) as usize;
    let mut bytes = match r.below(3) {
        0 => {
            let mut b = r.bytes(width.div_ceil(8));
            b[0] &= (0xffu16 >> ((8 - width % 8) % 8)) as u8;
            b
        }
        _ => vec![r.below(if width < 3 { 2 } else { 4 }) as u8],
    };
    while bytes.len() > 1 && bytes[0] == 0 {
        bytes.remove(0);
    }
    bytes
}

fn and(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = a.iter().rev().zip(b.iter().rev()).map(|(x, y)| x & y).collect();
    while out.len() > 1 && out.last() == Some(&0) {
        out.pop();
    }
    out.reverse();
    out
}

fn field(f: &info::MatchField, r: &mut Random) -> Option<pb::FieldMatch> {
    use pb::field_match::{self as m, FieldMatchType as T};
    let Some(match_field::Match::MatchType(kind)) = f.r#match else { return None };
    let v = value(f.bitwidth, r);
    let kind = match match_field::MatchType::try_from(kind).ok()? {
        match_field::MatchType::Exact => T::Exact(m::Exact { value: v }),
        _ if r.one_in(4) => return None,
        match_field::MatchType::Ternary => {
            let mask = value(f.bitwidth, r);
            if mask == [0] {
                return None;
            }
            T::Ternary(m::Ternary { value: and(&v, &mask), mask })
        }
        match_field::MatchType::Lpm => {
            // The top bits only, so that they fit every prefix.
            let full = r.one_in(2);
            T::Lpm(m::Lpm {
                value: if full { v } else { vec![0] },
                prefix_len: if full { f.bitwidth } else { 1 + r.below(f.bitwidth.max(1) as usize) as i32 },
            })
        }
        match_field::MatchType::Range => {
            let mut pair = [v, value(f.bitwidth, r)];
            pair.sort_by_key(|b| (b.len(), b.clone()));
            let [low, high] = pair;
            T::Range(m::Range { low, high })
        }
        match_field::MatchType::Optional => T::Optional(m::Optional { value: v }),
        match_field::MatchType::Unspecified => return None,
    };
    Some(pb::FieldMatch { field_id: f.id, field_match_type: Some(kind) })
}

fn action(p: &P4Info, table: &info::Table, default: bool, r: &mut Random) -> Option<pb::Action> {
    let unfit = if default { Scope::TableOnly } else { Scope::DefaultOnly };
    let fits: Vec<_> = table.action_refs.iter().filter(|a| a.scope != unfit as i32).collect();
    if fits.is_empty() {
        return None;
    }
    let chosen = r.choose(&fits).id;
    let found = p.actions.iter().find(|a| id(&a.preamble) == chosen)?;
    let params = found
        .params
        .iter()
        .map(|x| pb::action::Param { param_id: x.id, value: value(x.bitwidth, r) })
        .collect();
    Some(pb::Action { action_id: chosen, params })
}

fn table_entry(p: &P4Info, r: &mut Random) -> Option<pb::TableEntry> {
    use pb::table_action::Type as T;
    if p.tables.is_empty() {
        return None;
    }
    let table = r.choose(&p.tables);
    let default = r.one_in(10);
    let action = action(p, table, default, r);
    let action = match table.implementation_id {
        0 => action.map(T::Action),
        _ => Some(match r.below(3) {
            0 => T::ActionProfileMemberId(1 + r.below(3) as u32),
            1 => T::ActionProfileGroupId(1 + r.below(3) as u32),
            _ => T::ActionProfileActionSet(pb::ActionProfileActionSet {
                action_profile_actions: action
                    .into_iter()
                    .map(|a| pb::ActionProfileAction {
                        action: Some(a),
                        weight: 1 + r.below(3) as i32,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }),
        }),
    };
    let priority = table
        .match_fields
        .iter()
        .any(|f| matches!(f.r#match, Some(match_field::Match::MatchType(t)) if [4, 5, 6].contains(&t)));
    let timeout = table.idle_timeout_behavior != 0 && r.one_in(2);
    Some(pb::TableEntry {
        table_id: id(&table.preamble),
        r#match: if default {
            vec![]
        } else {
            table.match_fields.iter().filter_map(|f| field(f, r)).collect()
        },
        action: action.map(|t| pb::TableAction { r#type: Some(t) }),
        priority: if priority && !default { 1 + r.below(4) as i32 } else { 0 },
        is_default_action: default,
        idle_timeout_ns: if timeout && !default { 1_000_000 * (1 + r.below(200) as i64) } else { 0 },
        metadata: if r.one_in(4) { vec![7] } else { vec![] },
        counter_data: r.one_in(6).then_some(pb::CounterData { byte_count: 5, packet_count: 6 }),
        meter_config: r.one_in(6).then(|| meter(r)),
        ..Default::default()
    })
}

fn meter(r: &mut Random) -> pb::MeterConfig {
    let rate = r.below(1_000_000) as i64;
    pb::MeterConfig {
        cir: rate,
        cburst: 1 + r.below(2000) as i64,
        pir: rate + r.below(9) as i64,
        pburst: 3000,
        eburst: 0,
    }
}

fn replicas(r: &mut Random) -> Vec<pb::Replica> {
    let n = r.below(4);
    let one = |i: usize, r: &mut Random| pb::Replica {
        port_kind: Some(pb::replica::PortKind::Port(vec![1 + r.below(9) as u8])),
        instance: i as u32,
        backup_replicas: vec![],
    };
    (0..n).map(|i| one(i, r)).collect()
}

fn index(size: i64, r: &mut Random) -> Option<pb::Index> {
    Some(pb::Index { index: r.below(size.max(1) as usize + 1) as i64 })
}

fn entity(p: &P4Info, r: &mut Random) -> Option<Entity> {
    use pb::packet_replication_engine_entry::Type as R;
    let pre = |t| Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(t) });
    Some(match r.below(20) {
        0 => pre(R::MulticastGroupEntry(pb::MulticastGroupEntry {
            multicast_group_id: 1 + r.below(3) as u32,
            replicas: replicas(r),
            metadata: if r.one_in(4) { vec![7] } else { vec![] },
        })),
        1 => pre(R::CloneSessionEntry(pb::CloneSessionEntry {
            session_id: 1 + r.below(3) as u32,
            replicas: replicas(r),
            class_of_service: r.below(2) as u32,
            packet_length_bytes: r.below(2) as i32 * 64,
        })),
        2 if !p.counters.is_empty() => {
            let c = r.choose(&p.counters);
            let data =
                Some(pb::CounterData { byte_count: r.below(9) as i64, packet_count: r.below(9) as i64 });
            Entity::CounterEntry(pb::CounterEntry {
                counter_id: id(&c.preamble),
                index: index(c.size, r),
                data,
            })
        }
        3 if !p.meters.is_empty() => {
            let m = r.choose(&p.meters);
            let config = r.one_in(2).then(|| meter(r));
            let index = index(m.size, r);
            Entity::MeterEntry(pb::MeterEntry {
                meter_id: id(&m.preamble),
                index,
                config,
                counter_data: None,
            })
        }
        4 | 5 if !p.registers.is_empty() => {
            let x = r.choose(&p.registers);
            let data = pb::P4Data { data: Some(pb::p4_data::Data::Bitstring(value(8, r))) };
            let index = index(i64::from(x.size), r);
            Entity::RegisterEntry(pb::RegisterEntry { register_id: id(&x.preamble), index, data: Some(data) })
        }
        6 if !p.value_sets.is_empty() => {
            let v = r.choose(&p.value_sets);
            let n = r.below(4);
            let member = |r: &mut Random| pb::ValueSetMember {
                r#match: v.r#match.iter().filter_map(|f| field(f, r)).collect(),
            };
            let members = (0..n).map(|_| member(r)).collect();
            Entity::ValueSetEntry(pb::ValueSetEntry { value_set_id: id(&v.preamble), members })
        }
        7 if !p.digests.is_empty() => {
            let config = pb::digest_entry::Config {
                max_timeout_ns: r.below(2) as i64 * 1_000_000,
                max_list_size: r.below(3) as i32,
                ack_timeout_ns: r.below(2) as i64 * 1_000_000,
            };
            let digest_id = id(&r.choose(&p.digests).preamble);
            Entity::DigestEntry(pb::DigestEntry { digest_id, config: Some(config) })
        }
        8 | 9 if !p.action_profiles.is_empty() => {
            let a = r.choose(&p.action_profiles);
            let table = p.tables.iter().find(|t| a.table_ids.contains(&id(&t.preamble)))?;
            Entity::ActionProfileMember(pb::ActionProfileMember {
                action_profile_id: id(&a.preamble),
                member_id: 1 + r.below(3) as u32,
                action: action(p, table, false, r),
            })
        }
        10 if !p.action_profiles.is_empty() => {
            let n = r.below(4);
            let member = |i: usize| pb::action_profile_group::Member {
                member_id: 1 + i as u32,
                weight: 1,
                watch_kind: None,
            };
            Entity::ActionProfileGroup(pb::ActionProfileGroup {
                action_profile_id: id(&r.choose(&p.action_profiles).preamble),
                group_id: 1 + r.below(3) as u32,
                members: (0..n).map(member).collect(),
                max_size: r.below(2) as i32 * 4,
            })
        }
        11 => Entity::DirectCounterEntry(pb::DirectCounterEntry {
            table_entry: table_entry(p, r).map(|e| pb::TableEntry { action: None, ..e }),
            data: Some(pb::CounterData { byte_count: 1, packet_count: 2 }),
        }),
        12 => Entity::DirectMeterEntry(pb::DirectMeterEntry {
            table_entry: table_entry(p, r).map(|e| pb::TableEntry { action: None, ..e }),
            config: r.one_in(2).then(|| meter(r)),
            counter_data: None,
        }),
        _ => Entity::TableEntry(table_entry(p, r)?),
    })
}

/// Updates that mostly are right.
pub fn write(p: &P4Info, r: &mut Random) -> pb::WriteRequest {
    let n = 1 + r.below(4);
    let update = |r: &mut Random| pb::Update {
        r#type: *r.choose(&[1, 1, 1, 2, 2, 3]),
        entity: Some(pb::Entity { entity: entity(p, r) }),
    };
    pb::WriteRequest {
        device_id: 1,
        election_id: Some(pb::Uint128 { high: 0, low: 1 }),
        updates: (0..n).map(|_| update(r)).collect(),
        atomicity: *r.choose(&[0, 1, 2]),
        ..Default::default()
    }
}

/// A message on a stream.
pub fn stream(p: &P4Info, r: &mut Random) -> pb::StreamMessageRequest {
    use pb::stream_message_request::Update;
    let update = match r.below(4) {
        0 => Update::Arbitration(pb::MasterArbitrationUpdate {
            device_id: 1,
            role: r.one_in(3).then(|| pb::Role { name: "role".into(), ..Default::default() }),
            election_id: (!r.one_in(5)).then(|| pb::Uint128 { high: 0, low: r.below(4) as u64 }),
            status: None,
        }),
        1 => Update::DigestAck(pb::DigestListAck {
            digest_id: p.digests.first().map_or(0, |d| id(&d.preamble)),
            list_id: 1 + r.below(3) as u64,
        }),
        _ => {
            let header = p
                .controller_packet_metadata
                .iter()
                .find(|h| h.preamble.as_ref().is_some_and(|p| p.name == "packet_out"));
            let metadata = header.map_or(&[][..], |h| &h.metadata);
            let metadata = metadata
                .iter()
                .map(|m| pb::PacketMetadata { metadata_id: m.id, value: value(m.bitwidth, r) })
                .collect();
            Update::Packet(pb::PacketOut { payload: packet(r).split_off(1), metadata })
        }
    };
    pb::StreamMessageRequest { update: Some(update) }
}

/// Sets program `number`.
pub fn pipeline(p: &P4Info, number: usize, r: &mut Random) -> pb::SetForwardingPipelineConfigRequest {
    pb::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(pb::Uint128 { high: 0, low: 1 }),
        action: 1 + r.below(5) as i32,
        config: (!r.one_in(4)).then(|| pb::ForwardingPipelineConfig {
            p4info: r.one_in(2).then(|| p.clone()),
            p4_device_config: vec![b'0' + number as u8],
            cookie: Some(pb::forwarding_pipeline_config::Cookie { cookie: 7 }),
        }),
        ..Default::default()
    }
}

/// A port and a frame that is IPv4 as often as not.
pub fn packet(r: &mut Random) -> Vec<u8> {
    let mut out = vec![1 + r.below(9) as u8];
    if r.one_in(2) {
        out.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
        out.extend([10, 0, 0, r.below(3) as u8, 10, 0, 0, r.below(3) as u8]);
    }
    let n = r.below(40);
    out.extend(r.bytes(n));
    out
}

/// A read of everything.
pub fn everything() -> Vec<pb::Entity> {
    use pb::packet_replication_engine_entry::Type as R;
    let pre = |t| Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(t) });
    let all = [
        Entity::TableEntry(pb::TableEntry {
            counter_data: Some(Default::default()),
            meter_config: Some(Default::default()),
            ..Default::default()
        }),
        Entity::TableEntry(pb::TableEntry { is_default_action: true, ..Default::default() }),
        Entity::CounterEntry(Default::default()),
        Entity::MeterEntry(Default::default()),
        Entity::RegisterEntry(Default::default()),
        Entity::ActionProfileMember(Default::default()),
        Entity::ActionProfileGroup(Default::default()),
        pre(R::MulticastGroupEntry(Default::default())),
        pre(R::CloneSessionEntry(Default::default())),
        Entity::ValueSetEntry(Default::default()),
        Entity::DigestEntry(Default::default()),
        Entity::DirectCounterEntry(pb::DirectCounterEntry {
            table_entry: Some(Default::default()),
            data: None,
        }),
        Entity::DirectMeterEntry(pb::DirectMeterEntry {
            table_entry: Some(Default::default()),
            ..Default::default()
        }),
    ];
    all.into_iter().map(|e| pb::Entity { entity: Some(e) }).collect()
}

/// Whether it is to be written back.
pub fn can_be_modified(e: &pb::Entity) -> bool {
    match &e.entity {
        Some(Entity::TableEntry(e)) => !e.is_const && !e.is_default_action,
        // One cell is like another: a few will do.
        Some(Entity::CounterEntry(pb::CounterEntry { index: Some(i), .. })) => i.index < 3,
        Some(Entity::MeterEntry(pb::MeterEntry { index: Some(i), .. })) => i.index < 3,
        Some(_) => true,
        None => false,
    }
}
