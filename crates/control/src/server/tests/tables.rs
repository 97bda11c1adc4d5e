//! Table entries.

use super::*;
use pb::write_request::Atomicity;

fn entry(e: pb::TableEntry) -> Entity {
    Entity::TableEntry(e)
}

/// All entries of a table as they are read.
fn read_table(rig: &mut Rig, e: pb::TableEntry) -> Vec<pb::TableEntry> {
    let one = |e| match e {
        Entity::TableEntry(e) => e,
        other => panic!("{other:?}"),
    };
    rig.read_ok(Entity::TableEntry(e)).into_iter().map(one).collect()
}

fn exact_entry(rig: &Rig, a: u8) -> pb::TableEntry {
    rig.entry("exact", vec![exact(1, &[a]), exact(2, &[7])])
}

#[test]
fn what_is_written_is_read() {
    let mut rig = Rig::new();
    let cases = [
        pb::TableEntry {
            action: rig.table_action("set", &[&[5], &[1, 2]]),
            metadata: vec![9, 9],
            ..rig.entry("exact", vec![exact(1, &[0x12, 0x34]), exact(2, &[1, 0xff])])
        },
        rig.entry("lpm", vec![lpm(1, &[10, 0, 0, 0], 8)]),
        rig.entry("lpm", vec![]),
        pb::TableEntry {
            priority: 5,
            idle_timeout_ns: 1_000,
            meter_config: Some(pb::MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 }),
            ..rig.entry("acl", vec![ternary(1, &[0x10], &[0xf0]), range(2, &[5], &[1, 0]), optional(3, &[0])])
        },
        pb::TableEntry { priority: 1, ..rig.entry("acl", vec![]) },
    ];
    for e in &cases {
        rig.ok(Insert, entry(e.clone()));
    }
    for e in &cases {
        let request = pb::TableEntry {
            table_id: e.table_id,
            r#match: e.r#match.clone(),
            priority: e.priority,
            meter_config: Some(pb::MeterConfig::default()),
            ..Default::default()
        };
        assert!(read_table(&mut rig, request).contains(e), "{e:?}");
    }
    // Seven: two of `fixed` and two of `mixed` come with the program.
    assert_eq!(read_table(&mut rig, pb::TableEntry::default()).len(), cases.len() + 4);
    for e in &cases {
        rig.ok(Delete, entry(pb::TableEntry { action: None, idle_timeout_ns: -1, ..e.clone() }));
    }
    assert_eq!(read_table(&mut rig, pb::TableEntry::default()).len(), 4);
}

#[test]
fn byte_strings_become_canonical() {
    let mut rig = Rig::new();
    let e = rig.entry("exact", vec![exact(2, &[0, 0, 7]), exact(1, &[0, 9])]);
    rig.ok(Insert, entry(e.clone()));
    let found = read_table(&mut rig, pb::TableEntry { action: None, ..e });
    assert_eq!(found[0].r#match, [exact(1, &[9]), exact(2, &[7])]);
}

#[test]
fn inserted_once_modified_and_deleted_when_there() {
    let mut rig = Rig::new();
    let e = exact_entry(&rig, 1);
    rig.refused(Modify, entry(e.clone()), Code::NotFound, "table ingress.exact: there is no entry");
    rig.refused(Delete, entry(e.clone()), Code::NotFound, "no entry");
    rig.ok(Insert, entry(e.clone()));
    rig.refused(Insert, entry(e.clone()), Code::AlreadyExists, "already exists");
    let set =
        pb::TableEntry { action: rig.table_action("set", &[&[1], &[2]]), metadata: vec![1], ..e.clone() };
    rig.ok(Modify, entry(set.clone()));
    assert_eq!(read_table(&mut rig, pb::TableEntry { action: None, ..e.clone() }), [set.clone()]);
    // Without an action the old one stays, but the rest is replaced.
    rig.ok(Modify, entry(pb::TableEntry { action: None, metadata: vec![2], ..set.clone() }));
    let expected = pb::TableEntry { metadata: vec![2], ..set };
    assert_eq!(read_table(&mut rig, pb::TableEntry { action: None, ..e.clone() }), [expected]);
    rig.ok(Delete, entry(e.clone()));
    rig.ok(Insert, entry(e));
}

#[test]
fn tables_fill_up() {
    let mut rig = Rig::new();
    for a in 1..=3 {
        rig.ok(Insert, entry(exact_entry(&rig, a)));
    }
    let e = exact_entry(&rig, 4);
    rig.refused(Insert, entry(e.clone()), Code::ResourceExhausted, "it holds 3 entries");
    rig.ok(Delete, entry(exact_entry(&rig, 2)));
    rig.ok(Insert, entry(e));
}

#[test]
fn malformed_matches() {
    let mut rig = Rig::new();
    let mut check = |table: &str, priority: i32, matches: Vec<pb::FieldMatch>, part: &str| {
        let e = pb::TableEntry { priority, ..rig.entry(table, matches) };
        rig.refused(Insert, entry(e), Code::InvalidArgument, part);
    };
    check("exact", 0, vec![exact(1, &[1])], "match field hdr.b is missing");
    check("exact", 0, vec![exact(1, &[1]), exact(1, &[2])], "given twice");
    check("exact", 0, vec![exact(9, &[1])], "no match field with id 9: there are 1 (hdr.a), 2 (hdr.b)");
    check("exact", 0, vec![exact(1, &[]), exact(2, &[1])], "hdr.a: value: the byte string is empty");
    check("exact", 0, vec![exact(1, &[1, 0, 0]), exact(2, &[1])], "needs 17 bits, the field has 16");
    check("exact", 0, vec![exact(1, &[1]), exact(2, &[2, 0])], "needs 10 bits, the field has 9");
    check("exact", 0, vec![lpm(1, &[1], 16), exact(2, &[1])], "matched exact, not lpm");
    check("exact", 0, vec![pb::FieldMatch { field_id: 1, field_match_type: None }], "no match is set");
    check("exact", 4, vec![exact(1, &[1]), exact(2, &[1])], "priority is 4");
    check("lpm", 0, vec![lpm(1, &[10, 0, 0, 0], 33)], "prefix_len is 33");
    check("lpm", 0, vec![lpm(1, &[10, 0, 0, 0], -1)], "prefix_len is -1");
    check("lpm", 0, vec![lpm(1, &[0], 0)], "omit the field");
    check("lpm", 0, vec![lpm(1, &[10, 0, 0, 1], 8)], "bits after the first 8 are not zero");
    check("acl", 1, vec![ternary(1, &[1], &[0])], "omit the field");
    check("acl", 1, vec![ternary(1, &[3], &[1])], "outside of the mask");
    check("acl", 1, vec![ternary(1, &[], &[1])], "value: the byte string is empty");
    check("acl", 1, vec![range(2, &[9], &[8])], "low is greater than high");
    check("acl", 1, vec![range(2, &[0], &[0xff, 0xff])], "omit the field");
    check("acl", 1, vec![optional(3, &[4, 0])], "needs 11 bits");
    check("acl", 0, vec![optional(3, &[1])], "must be greater than 0");
    check("acl", -3, vec![optional(3, &[1])], "must be greater than 0");
    check("keyless", 0, vec![], "modify its default action");
}

#[test]
fn malformed_actions() {
    let mut rig = Rig::new();
    let key = exact_entry(&rig, 1);
    let mut check = |action: Option<pb::Action>, code: Code, part: &str| {
        let action = action.map(|a| pb::TableAction { r#type: Some(pb::table_action::Type::Action(a)) });
        rig.refused(Insert, entry(pb::TableEntry { action, ..key.clone() }), code, part);
    };
    let rig = Rig::new();
    let set = |params: &[&[u8]]| Some(rig.action("set", params));
    check(None, Code::InvalidArgument, "needs an action");
    check(Some(pb::Action::default()), Code::InvalidArgument, "no action with id 0x00000000");
    check(set(&[&[1]]), Code::InvalidArgument, "parameter vlan (id 2) is missing");
    check(set(&[&[1], &[2], &[3]]), Code::InvalidArgument, "no parameter with id 3");
    check(set(&[&[2, 0], &[2]]), Code::InvalidArgument, "parameter port: the value needs 10 bits");
    check(set(&[&[], &[2]]), Code::InvalidArgument, "is empty");
    let mut twice = rig.action("set", &[&[1], &[2]]);
    twice.params[1].param_id = 1;
    check(Some(twice), Code::InvalidArgument, "given twice");
}

#[test]
fn scopes_of_actions() {
    let mut rig = Rig::new();
    let e = pb::TableEntry { priority: 1, ..rig.entry("acl", vec![]) };
    let no_action = pb::TableEntry { action: rig.table_action("NoAction", &[]), ..e.clone() };
    rig.refused(Insert, entry(no_action), Code::PermissionDenied, "@defaultonly");
    let default = pb::TableEntry { is_default_action: true, priority: 0, ..e };
    rig.refused(Modify, entry(default), Code::PermissionDenied, "@tableonly");
}

#[test]
fn other_fields() {
    let mut rig = Rig::new();
    let e = exact_entry(&rig, 1);
    let mut check = |change: &dyn Fn(&mut pb::TableEntry), part: &str| {
        let mut e = e.clone();
        change(&mut e);
        rig.refused(Insert, entry(e), Code::InvalidArgument, part);
    };
    check(&|e| e.table_id = 0, "table_id is not set");
    check(&|e| e.table_id = 0x0200_0001, "no table with id 0x02000001");
    check(&|e| e.is_const = true, "is_const");
    check(&|e| e.idle_timeout_ns = 5, "support_timeout");
    check(&|e| e.idle_timeout_ns = -5, "cannot be negative");
    check(&|e| e.time_since_last_hit = Some(Default::default()), "read-only");
    check(&|e| e.meter_config = Some(Default::default()), "no direct meter");
    check(
        &|e| e.counter_data = Some(pb::CounterData { byte_count: -1, packet_count: 0 }),
        "byte_count is -1",
    );
    let e = pb::TableEntry { counter_data: Some(Default::default()), ..rig.entry("lpm", vec![]) };
    rig.refused(Insert, entry(e), Code::InvalidArgument, "no direct counter");
    let acl = pb::TableEntry { priority: 1, ..rig.entry("acl", vec![]) };
    let green = Some(pb::CounterData { packet_count: 1, byte_count: 0 });
    let counted = Some(pb::MeterCounterData { green, ..Default::default() });
    let e = pb::TableEntry { meter_counter_data: counted, ..acl.clone() };
    rig.refused(Insert, entry(e), Code::InvalidArgument, "can only be reset");
    let config = pb::MeterConfig { cir: 9, pir: 8, ..Default::default() };
    let e = pb::TableEntry { meter_config: Some(config), ..acl };
    rig.refused(Insert, entry(e), Code::InvalidArgument, "below the committed rate");
}

#[test]
fn constant_entries() {
    let mut rig = Rig::new();
    let e = rig.entry("fixed", vec![exact(1, &[1])]);
    for ty in [Insert, Modify, Delete] {
        rig.refused(ty, entry(e.clone()), Code::PermissionDenied, "const");
    }
    let default = pb::TableEntry { is_default_action: true, r#match: vec![], ..e.clone() };
    rig.refused(Modify, entry(default), Code::PermissionDenied, "default action is const");
    // Nothing is changed, which is allowed.
    rig.ok(Modify, entry(pb::TableEntry { action: None, ..e.clone() }));
    let found = read_table(&mut rig, pb::TableEntry { action: None, ..e });
    assert!(found.len() == 1 && found[0].is_const);

    let fixed = rig.entry("mixed", vec![exact(1, &[1])]);
    rig.refused(Delete, entry(fixed.clone()), Code::PermissionDenied, "const");
    rig.refused(Modify, entry(fixed), Code::PermissionDenied, "const");
    let free = rig.entry("mixed", vec![exact(1, &[2])]);
    rig.ok(Modify, entry(free.clone()));
    rig.ok(Delete, entry(free));
    rig.ok(Insert, entry(rig.entry("mixed", vec![exact(1, &[3])])));
    let all = pb::TableEntry { table_id: rig.id("mixed"), ..Default::default() };
    let found = read_table(&mut rig, all);
    assert_eq!(found.iter().map(|e| e.is_const).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn default_entries() {
    let mut rig = Rig::new();
    let key = pb::TableEntry { table_id: rig.id("exact"), is_default_action: true, ..Default::default() };
    let initial = pb::TableEntry { action: rig.table_action("NoAction", &[]), ..key.clone() };
    assert_eq!(read_table(&mut rig, key.clone()), [initial.clone()]);
    let set =
        pb::TableEntry { action: rig.table_action("set", &[&[1], &[2]]), metadata: vec![7], ..key.clone() };
    rig.ok(Modify, entry(set.clone()));
    assert_eq!(read_table(&mut rig, key.clone()), [set.clone()]);
    for ty in [Insert, Delete] {
        rig.refused(ty, entry(set.clone()), Code::InvalidArgument, "use MODIFY");
    }
    let mut check = |change: &dyn Fn(&mut pb::TableEntry), part: &str| {
        let mut e = set.clone();
        change(&mut e);
        rig.refused(Modify, entry(e), Code::InvalidArgument, part);
    };
    check(&|e| e.priority = 1, "neither match nor priority");
    check(&|e| e.r#match = vec![exact(1, &[1])], "neither match nor priority");
    check(&|e| e.idle_timeout_ns = 1, "no idle timeout");
    // Without an action it is as the program has it.
    rig.ok(Modify, entry(key.clone()));
    assert_eq!(read_table(&mut rig, key), [initial]);
    let all = pb::TableEntry { is_default_action: true, ..Default::default() };
    assert_eq!(read_table(&mut rig, all).len(), 7);
}

#[test]
fn direct_counters() {
    let mut rig = Rig::new();
    let data = pb::CounterData { byte_count: 100, packet_count: 2 };
    let e = pb::TableEntry { counter_data: Some(data), ..exact_entry(&rig, 1) };
    rig.ok(Insert, entry(e.clone()));
    let request = pb::TableEntry { action: None, counter_data: Some(Default::default()), ..e.clone() };
    assert_eq!(read_table(&mut rig, request.clone()), [e.clone()]);
    // Not requested, not returned; and left alone by a MODIFY that does not mention it.
    rig.ok(Modify, entry(pb::TableEntry { counter_data: None, ..e.clone() }));
    let without = read_table(&mut rig, pb::TableEntry { counter_data: None, ..request.clone() });
    assert_eq!(without, [pb::TableEntry { counter_data: None, ..e.clone() }]);
    assert_eq!(read_table(&mut rig, request), [e.clone()]);

    let direct = |table_entry, data| Entity::DirectCounterEntry(pb::DirectCounterEntry { table_entry, data });
    let key = pb::TableEntry { action: None, counter_data: None, ..e };
    let new = pb::CounterData { byte_count: 5, packet_count: 1 };
    rig.ok(Modify, direct(Some(key.clone()), Some(new)));
    assert_eq!(rig.read_ok(direct(Some(key.clone()), None)), [direct(Some(key.clone()), Some(new))]);
    assert_eq!(rig.read_ok(direct(None, None)), [direct(Some(key.clone()), Some(new))]);
    rig.refused(Insert, direct(Some(key), Some(new)), Code::InvalidArgument, "use MODIFY");
    let missing = exact_entry(&rig, 9);
    rig.refused(Modify, direct(Some(missing.clone()), Some(new)), Code::NotFound, "no entry");
    rig.read_refused(direct(Some(missing), None), Code::NotFound, "no entry");
    let lpm = rig.entry("lpm", vec![]);
    rig.refused(Modify, direct(Some(lpm), Some(new)), Code::InvalidArgument, "no direct counter");
    let default = pb::TableEntry { table_id: rig.id("exact"), is_default_action: true, ..Default::default() };
    rig.ok(Modify, direct(Some(default.clone()), Some(new)));
    assert_eq!(rig.read_ok(direct(Some(default.clone()), None)), [direct(Some(default), Some(new))]);
}

#[test]
fn direct_meters() {
    let mut rig = Rig::new();
    let config = pb::MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 };
    let e = pb::TableEntry { priority: 1, meter_config: Some(config), ..rig.entry("acl", vec![]) };
    rig.ok(Insert, entry(e.clone()));
    let key = pb::TableEntry { action: None, meter_config: None, ..e.clone() };
    let direct = |config| {
        let table_entry = Some(key.clone());
        Entity::DirectMeterEntry(pb::DirectMeterEntry { table_entry, config, counter_data: None })
    };
    assert_eq!(rig.read_ok(direct(None)), [direct(Some(config))]);
    // A MODIFY that leaves it out makes everything green again.
    rig.ok(Modify, entry(pb::TableEntry { meter_config: None, ..e.clone() }));
    assert_eq!(rig.read_ok(direct(None)), [direct(None)]);
    rig.ok(Modify, direct(Some(config)));
    assert_eq!(rig.read_ok(direct(None)), [direct(Some(config))]);
    let request = pb::TableEntry { action: None, meter_config: Some(Default::default()), ..e.clone() };
    assert_eq!(read_table(&mut rig, request), [e]);
}

#[test]
fn idle_times() {
    let mut rig = Rig::new();
    let e = pb::TableEntry { priority: 1, idle_timeout_ns: 10, ..rig.entry("acl", vec![]) };
    rig.ok(Insert, entry(e.clone()));
    rig.now = rig.now.plus_ns(7);
    let request = pb::TableEntry { action: None, time_since_last_hit: Some(Default::default()), ..e.clone() };
    let elapsed = Some(pb::table_entry::IdleTimeout { elapsed_ns: 7 });
    assert_eq!(
        read_table(&mut rig, request.clone()),
        [pb::TableEntry { time_since_last_hit: elapsed, ..e.clone() }]
    );
    let request = pb::TableEntry { table_id: rig.id("lpm"), r#match: vec![], priority: 0, ..request };
    rig.read_refused(Entity::TableEntry(request), Code::InvalidArgument, "no idle timeouts");

    let idle = rig.device.state.as_mut().expect("a pipeline").take_idle(rig.now.plus_ns(3), usize::MAX);
    let state = rig.device.state.as_ref().expect("a pipeline");
    let out = rig.server.idle_entries(state, &idle, 42);
    let expected = pb::IdleTimeoutNotification {
        table_entry: vec![pb::TableEntry { action: None, ..e }],
        timestamp: 42,
    };
    let update = Some(pb::stream_message_response::Update::IdleTimeoutNotification(expected));
    assert_eq!(out, [Output::Send { conn: CLIENT, response: pb::StreamMessageResponse { update } }]);
    assert_eq!(rig.server.idle_entries(state, &[], 42), []);
}

#[test]
#[allow(deprecated)]
fn filters_of_reads() {
    let mut rig = Rig::new();
    let acl = |priority, cookie, metadata: &[u8], rig: &Rig| pb::TableEntry {
        priority,
        controller_metadata: cookie,
        metadata: metadata.to_vec(),
        ..rig.entry("acl", vec![ternary(1, &[1], &[1])])
    };
    let entries = [acl(1, 5, b"x", &rig), acl(2, 5, b"y", &rig), acl(3, 6, b"y", &rig)];
    for e in &entries {
        rig.ok(Insert, entry(e.clone()));
    }
    let set = pb::TableEntry {
        priority: 4,
        action: rig.table_action("set", &[&[1], &[1]]),
        ..rig.entry("acl", vec![])
    };
    rig.ok(Insert, entry(set));
    let all = pb::TableEntry { table_id: rig.id("acl"), ..Default::default() };
    let mut check = |request: pb::TableEntry, priorities: &[i32]| {
        let found: Vec<i32> = read_table(&mut rig, request).iter().map(|e| e.priority).collect();
        assert_eq!(found, priorities);
    };
    check(all.clone(), &[1, 2, 3, 4]);
    check(pb::TableEntry { priority: 2, ..all.clone() }, &[2]);
    check(pb::TableEntry { priority: 9, ..all.clone() }, &[]);
    check(pb::TableEntry { controller_metadata: 5, ..all.clone() }, &[1, 2]);
    check(pb::TableEntry { metadata: b"y".to_vec(), ..all.clone() }, &[2, 3]);
    check(pb::TableEntry { r#match: entries[0].r#match.clone(), ..all.clone() }, &[1, 2, 3]);
    check(pb::TableEntry { r#match: entries[0].r#match.clone(), priority: 3, ..all.clone() }, &[3]);
    check(pb::TableEntry { action: entries[0].action.clone(), ..all.clone() }, &[1, 2, 3]);
    let no_table = pb::TableEntry { priority: 1, ..Default::default() };
    rig.read_refused(entry(no_table), Code::InvalidArgument, "set table_id");
    let bad_match = pb::TableEntry { r#match: vec![exact(1, &[1])], ..all };
    rig.read_refused(entry(bad_match), Code::InvalidArgument, "matched ternary, not exact");
}

#[test]
#[allow(deprecated)]
fn filters_of_reads_of_default_entries() {
    let mut rig = Rig::new();
    let key = pb::TableEntry { table_id: rig.id("acl"), is_default_action: true, ..Default::default() };
    let set = pb::TableEntry {
        action: rig.table_action("set", &[&[1], &[2]]),
        controller_metadata: 5,
        metadata: b"x".to_vec(),
        ..key.clone()
    };
    rig.ok(Modify, entry(set.clone()));
    let id_alone = rig.table_action("set", &[]);
    let other_parameters = rig.table_action("set", &[&[1], &[3]]);
    let no_action = rig.table_action("NoAction", &[]);
    let mut check = |request: pb::TableEntry, tables: &[u32]| {
        let found: Vec<u32> = read_table(&mut rig, request).iter().map(|e| e.table_id).collect();
        assert_eq!(found, tables);
    };
    let acl = [key.table_id];
    check(set.clone(), &acl);
    check(pb::TableEntry { action: id_alone, ..key.clone() }, &acl);
    check(pb::TableEntry { action: other_parameters, ..key.clone() }, &[]);
    check(pb::TableEntry { action: no_action.clone(), ..key.clone() }, &[]);
    check(pb::TableEntry { controller_metadata: 6, ..key.clone() }, &[]);
    check(pb::TableEntry { metadata: b"y".to_vec(), ..key.clone() }, &[]);
    // Of all tables: the only one that has this.
    check(pb::TableEntry { table_id: 0, controller_metadata: 5, ..key.clone() }, &acl);
    check(pb::TableEntry { table_id: 0, metadata: b"x".to_vec(), ..key.clone() }, &acl);
    let of_all = pb::TableEntry { table_id: 0, action: no_action, ..key.clone() };
    rig.read_refused(entry(of_all), Code::InvalidArgument, "set table_id");
    let table_only = pb::TableEntry { action: rig.table_action("drop", &[&[1]]), ..key };
    rig.read_refused(entry(table_only), Code::PermissionDenied, "cannot be the default action");
}

/// The default entry has neither key nor idle time, whatever the request.
#[test]
fn requests_for_default_entries_name_no_other() {
    let mut rig = Rig::new();
    let key = |rig: &Rig, name| pb::TableEntry {
        table_id: rig.id(name),
        is_default_action: true,
        ..Default::default()
    };
    let data = Some(pb::CounterData { byte_count: 0, packet_count: 9 });
    let counter = |e, data| Entity::DirectCounterEntry(pb::DirectCounterEntry { table_entry: Some(e), data });
    let meter = |e| {
        let config = Some(pb::MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 });
        Entity::DirectMeterEntry(pb::DirectMeterEntry { table_entry: Some(e), config, counter_data: None })
    };
    let (counted, metered) = (key(&rig, "exact"), key(&rig, "acl"));
    let mut check = |change: &dyn Fn(&mut pb::TableEntry), part: &str| {
        let [mut counted, mut metered] = [counted.clone(), metered.clone()];
        change(&mut counted);
        change(&mut metered);
        rig.refused(Modify, counter(counted.clone(), data), Code::InvalidArgument, part);
        rig.refused(Modify, meter(metered.clone()), Code::InvalidArgument, part);
        for request in [entry(metered.clone()), counter(counted, None), meter(metered)] {
            rig.read_refused(request, Code::InvalidArgument, part);
        }
    };
    check(&|e| e.priority = 5, "neither match nor priority");
    check(&|e| e.r#match = vec![exact(1, &[1])], "neither match nor priority");
    check(&|e| e.time_since_last_hit = Some(Default::default()), "no idle timeout");
    check(&|e| e.idle_timeout_ns = 1, "no idle timeout");
    let of_all =
        pb::TableEntry { table_id: 0, time_since_last_hit: Some(Default::default()), ..counted.clone() };
    rig.read_refused(entry(of_all), Code::InvalidArgument, "no idle timeout");
    // Nothing was written.
    assert_eq!(rig.read_ok(counter(counted.clone(), None)), [counter(counted, Some(Default::default()))]);
}

#[test]
fn batches_go_on_after_errors() {
    let mut rig = Rig::new();
    let (a, b) = (exact_entry(&rig, 1), exact_entry(&rig, 2));
    let updates = vec![(Insert, entry(a.clone())), (Insert, entry(a)), (Insert, entry(b))];
    let e = rig.write_all(Atomicity::ContinueOnError, updates).expect_err("the second fails");
    assert_eq!(e.code, Code::Unknown);
    assert_eq!(e.details.iter().map(|d| d.canonical_code).collect::<Vec<_>>(), [0, 6, 0]);
    let table = pb::TableEntry { table_id: rig.id("exact"), ..Default::default() };
    assert_eq!(read_table(&mut rig, table).len(), 2);
}

#[test]
fn batches_that_fail_leave_nothing() {
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let mut rig = Rig::new();
        #[allow(deprecated)]
        let kept = pb::TableEntry {
            controller_metadata: 11,
            counter_data: Some(pb::CounterData { byte_count: 1, packet_count: 1 }),
            metadata: vec![1],
            ..exact_entry(&rig, 1)
        };
        rig.ok(Insert, entry(kept.clone()));
        #[allow(deprecated)]
        let set = pb::TableEntry {
            action: rig.table_action("set", &[&[1], &[1]]),
            counter_data: Some(Default::default()),
            controller_metadata: 12,
            metadata: vec![2],
            ..kept.clone()
        };
        let default =
            pb::TableEntry { is_default_action: true, r#match: vec![], counter_data: None, ..set.clone() };
        let new = exact_entry(&rig, 2);
        let reads = [
            pb::TableEntry { counter_data: Some(Default::default()), ..Default::default() },
            pb::TableEntry { is_default_action: true, ..Default::default() },
        ];
        let before = reads.clone().map(|r| read_table(&mut rig, r));
        let updates = vec![
            (Insert, entry(new.clone())),
            (Modify, entry(set.clone())),
            (Delete, entry(kept.clone())),
            (Insert, entry(set)),
            (Modify, entry(default)),
            (Delete, entry(new.clone())),
            (Delete, entry(new.clone())),
            (Insert, entry(new)),
        ];
        let e = rig.write_all(atomicity, updates).expect_err("the second deletion fails");
        assert_eq!(
            e.details.iter().map(|d| d.canonical_code).collect::<Vec<_>>(),
            [10, 10, 10, 10, 10, 10, 5, 10]
        );
        assert!(
            e.details[0].message.contains("rolled back because update 6 failed"),
            "{}",
            e.details[0].message
        );
        assert!(e.details[7].message.contains("not attempted"), "{}", e.details[7].message);
        assert_eq!(reads.map(|r| read_table(&mut rig, r)), before);
    }
}
