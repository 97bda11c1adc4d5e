//! Files of entries, for the programs of the examples.

use crate::shown;
use pointsman_compile::compile_file;
use pointsman_compile::sources::Sources;
use pointsman_control::p4info::p4info;
use pointsman_control::proto::p4info::P4Info;
use pointsman_emulate::{commands, runtime};
use std::path::Path;

fn example(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file)
}

fn info(file: &str) -> P4Info {
    let (compiled, _) = compile_file(&example(file), &Sources::default(), &[]).expect("it compiles");
    p4info(&compiled.program).expect("it has P4Info")
}

/// What updates a file of entries makes, or all its problems.
fn updates(text: &str, info: &P4Info) -> Result<usize, String> {
    let file = runtime::read(text).map_err(|p| shown(&p))?;
    file.updates(info).map(|u| u.len()).map_err(|p| shown(&p))
}

#[test]
fn the_examples() {
    let forward = info("forwarder/main.p4");
    let pair = std::fs::read_to_string(example("net/pair-s1.json")).expect("the example");
    assert_eq!(updates(&pair, &forward), Ok(3));
    let route = info("net/route.p4");
    for switch in 1..=3 {
        let text =
            std::fs::read_to_string(example(&format!("net/triangle-s{switch}.json"))).expect("the example");
        assert_eq!(updates(&text, &route), Ok(4));
    }
}

const ROUTE: &str = r#"{"target": "bmv2", "p4info": "x", "bmv2_json": "route.p4", "table_entries": [
    {"table": "routes", "match": {"hdr.ipv4.dst": ["10.0.0.0", 8]}, "action_name": "send", "action_params": {"mac": 7, "port": 1}}],
    "clone_session_entries": [{"clone_session_id": 5, "replicas": [{"egress_port": 1, "instance": 1}], "packet_length_bytes": 64}],
    "multicast_group_entries": [{"multicast_group_id": 6, "replicas": []}]}"#;

#[test]
fn mistakes_have_places_and_remedies() {
    let info = info("net/route.p4");
    assert_eq!(updates(ROUTE, &info), Ok(3));
    for (from, to, wanted) in [
        ("\"bmv2\"", "\"tofino\"", "target: \"tofino\" is not a target"),
        ("\"target\": \"bmv2\",", "", "`target` is missing"),
        ("\"bmv2_json\": \"route.p4\",", "", "`bmv2_json` is missing"),
        ("\"table_entries\": [", "\"table_entries\": 1, \"x\": [", "table_entries: 1 is not a list"),
        (
            "\"routes\"",
            "\"route\"",
            "table_entries[0].table: the program has no table `route`: its tables are Route.routes",
        ),
        (
            "\"send\"",
            "\"sent\"",
            "table_entries[0].action_name: table Route.routes has no action `sent`: its actions are Route.drop, Route.send",
        ),
        (
            "hdr.ipv4.dst",
            "dst",
            "table_entries[0].match.dst: the table has no field `dst`: its fields are hdr.ipv4.dst",
        ),
        (
            "[\"10.0.0.0\", 8]",
            "[\"10.0.0.0\", 33]",
            "match.hdr.ipv4.dst: prefix length 33 is more than the 32 bits",
        ),
        ("[\"10.0.0.0\", 8]", "\"10.0.0.0\"", "takes a value and a prefix length"),
        ("[\"10.0.0.0\", 8]", "[\"10.0.0\", 8]", "\"10.0.0\" is not a number, an Ethernet or an IP address"),
        ("\"port\": 1", "\"port\": 512", "action_params.port: 0x200 does not fit in 9 bits"),
        (", \"port\": 1", "", "table_entries[0].action_params: parameter `port` is missing"),
        (
            "\"port\": 1",
            "\"port\": 1, \"vlan\": 2",
            "action_params.vlan: the action has no parameter `vlan`: its parameters are mac, port",
        ),
        (
            "\"action_name\"",
            "\"default_action\": true, \"action_name\"",
            "match: a default action matches everything",
        ),
        (
            "\"action_name\"",
            "\"action\": 1, \"action_name\"",
            "table_entries[0].action: unknown key `action`",
        ),
        (
            "\"clone_session_id\": 5",
            "\"clone_session_id\": 0",
            "clone_session_entries[0].clone_session_id: 0 is not a whole number",
        ),
        (
            "\"egress_port\": 1",
            "\"egress_port\": 999",
            "clone_session_entries[0].replicas[0].egress_port: 999 is not",
        ),
        (", \"replicas\": []", "", "multicast_group_entries[0]: `replicas` is missing"),
    ] {
        assert_eq!(ROUTE.matches(from).count(), 1, "{from}");
        let problems = updates(&ROUTE.replace(from, to), &info).expect_err(wanted);
        assert!(problems.contains(wanted), "no `{wanted}`:\n{problems}");
    }
}

#[test]
fn commands_of_bmv2() {
    let info = info("net/route.p4");
    let good = "# routes\ntable_set_default routes drop\n\ntable_add routes send 10.0.1.0/24 => 08:00:00:00:01:11 1 # one\n\
        mc_mgrp_create 1\nmc_node_create 0 1 2\nmc_node_associate 1 0\nmirroring_add 5 3\n";
    assert_eq!(commands::read(good, &info).map(|u| u.len()).map_err(|p| shown(&p)), Ok(4));
    for (line, wanted) in [
        ("table_add routes send 10.0.1.0/24 => 1", "line 1: 1 values for 2 parameters (mac, port)"),
        ("table_add routes send => 1 1", "line 1: 0 keys for 1 fields (hdr.ipv4.dst)"),
        ("table_add routes send 10.0.1.0 => 1 1", "field hdr.ipv4.dst: \"10.0.1.0\" has no `/`"),
        ("table_add routes send 10.0.1.0/24 => 1 1 7", "line 1: 3 values for 2 parameters"),
        ("table_add routes sned 10.0.1.0/24 => 1 1", "no action `sned`"),
        ("table_add", "line 1: table_add has other arguments"),
        ("set_queue_rate 5", "`set_queue_rate` is not supported: the commands here are table_add"),
        ("register_write r 0 1", "line 1: the program has no register `r`: its registers are none"),
        ("// a comment\n//another\ntable_add // a", "line 3: table_add has other arguments"),
        ("mc_node_associate 1 0", "no node 0 was made"),
        ("mc_node_create 0 1\nmc_node_associate 1 0", "line 2: group 1 was not made"),
        ("mirroring_add 5 999", "0x3e7 does not fit in 9 bits"),
    ] {
        let problems = shown(&commands::read(line, &info).expect_err(line));
        assert!(problems.contains(wanted), "{line}: no `{wanted}`:\n{problems}");
    }
}

#[test]
fn commands_on_registers_counters_and_meters() {
    use pointsman_control::proto::p4rt::entity::Entity;
    let info = info("../tests/programs/controlled.p4");
    let good = "register_write sizes 3 0xff\nregister_reset wide\ncounter_write arrived 2 5 600\ncounter_reset arrived\n\
        meter_set_rates pace 7 0.000005:4 0.00002:5\nmeter_array_set_rates pace 1:2 3:4\n";
    let updates = commands::read(good, &info).unwrap_or_else(|p| panic!("{}", shown(&p)));
    let entity = |i: usize| updates[i].1.entity.as_ref().and_then(|e| e.entity.clone());
    let Some(Entity::RegisterEntry(written)) = entity(0) else { panic!("{updates:?}") };
    assert_eq!(written.index.map(|i| i.index), Some(3));
    let Some(Entity::RegisterEntry(reset)) = entity(1) else { panic!("{updates:?}") };
    assert_eq!(reset.index, None);
    let Some(Entity::CounterEntry(counter)) = entity(2) else { panic!("{updates:?}") };
    assert_eq!(counter.data.map(|d| (d.packet_count, d.byte_count)), Some((5, 600)));
    let Some(Entity::MeterEntry(meter)) = entity(4) else { panic!("{updates:?}") };
    // Per second.
    assert_eq!(meter.config.map(|c| (c.cir, c.cburst, c.pir, c.pburst)), Some((5, 4, 20, 5)));
    let Some(Entity::MeterEntry(all)) = entity(5) else { panic!("{updates:?}") };
    assert_eq!((all.index, all.config.map(|c| c.pir)), (None, Some(3_000_000)));
    for (line, wanted) in [
        ("register_write sizes 3 0x100000000", "does not fit in 32 bits"),
        (
            "register_write size 3 1",
            "the program has no register `size`: its registers are Lookup.sizes, Lookup.wide",
        ),
        ("meter_set_rates pace 7 1:1", "a meter takes two rates"),
        ("meter_array_set_rates pace x:1 1:1", "a meter takes two rates"),
        ("counter_write arrived 2 5", "counter_write has other arguments"),
    ] {
        let problems = shown(&commands::read(line, &info).expect_err(line));
        assert!(problems.contains(wanted), "{line}: no `{wanted}`:\n{problems}");
    }
}

/// Rates of a direct meter are for the entries that the lines above add.
#[test]
fn commands_on_direct_meters() {
    use pointsman_control::proto::p4rt::entity::Entity;
    let mut text = std::fs::read_to_string(example("forwarder/main.p4")).expect("the example");
    for (from, to) in [
        ("metadata_t {}", "metadata_t { bit<32> colour; }"),
        (
            "direct_counter(CounterType.packets_and_bytes) forwarded",
            "direct_meter<bit<32>>(MeterType.packets) forwarded",
        ),
        ("forwarded.count()", "forwarded.read(meta.colour)"),
        ("counters = forwarded", "meters = forwarded"),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let compiled =
        pointsman_compile::compile("metered.p4", &text, &Sources::default(), &[]).expect("it compiles");
    let info = p4info(&compiled.program).expect("it has P4Info");
    let add = "table_add forward send 1 => 1\ntable_add forward drop 2 => \n";
    let rated = |line: &str| {
        let read = commands::read(&format!("{add}{line}"), &info).map_err(|p| shown(&p))?;
        let is = |u: &&runtime::Placed| {
            let entity = u.1.entity.as_ref().and_then(|e| e.entity.as_ref());
            matches!(entity, Some(Entity::DirectMeterEntry(e)) if e.table_entry.as_ref().is_some_and(|t| !t.r#match.is_empty()))
        };
        Ok::<usize, String>(read.iter().filter(is).count())
    };
    assert_eq!(rated("meter_array_set_rates forwarded 1:1 2:2"), Ok(2));
    assert_eq!(rated("meter_set_rates forwarded 1 1:1 2:2"), Ok(1));
    let missing = rated("meter_set_rates forwarded 2 1:1 2:2").expect_err("two entries");
    assert!(missing.contains("line 3: entry 2 of the table does not exist: 2 were added above"), "{missing}");
}

const ACL: &str = r#"{"target": "bmv2", "bmv2_json": "main.p4", "table_entries": [{"table": "rules", "priority": 7,
    "match": {"src": ["10.0.0.1", "255.255.255.0"], "proto": [6, 255]}, "action_name": "permit"}]}"#;

/// The priority and the number of keys of the only update, an entry of a table.
fn entry(update: &pointsman_control::proto::p4rt::Update) -> (i32, usize) {
    use pointsman_control::proto::p4rt::entity::Entity;
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(Entity::TableEntry(e)) => (e.priority, e.r#match.len()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn priorities() {
    let info = info("../p4/programs/acl/main.p4");
    let updates = |text: &str| {
        let file = runtime::read(text).expect("the head is right");
        file.updates(&info).map_err(|p| shown(&p))
    };
    assert_eq!(
        updates(ACL).map(|all| entry(&all[0].1)),
        Ok((7, 2)),
        "keys that match everything are left out"
    );
    for text in [ACL.replace("\"priority\": 7,", ""), ACL.replace(": 7,", ": 0,")] {
        let problems = updates(&text).expect_err("no priority");
        assert!(problems.contains("table_entries[0]: `priority` is missing"), "{problems}");
    }
    let add = |priority| {
        format!("table_add rules deny 10.0.0.0&&&0xff000000 0&&&0 6&&&0xff 0&&&0 0&&&0 => {priority}")
    };
    let priority =
        |text: &str| commands::read(text, &info).map(|all| entry(&all[0].1)).map_err(|p| shown(&p));
    let (first, second) = (priority(&add("1")).expect("right"), priority(&add("2")).expect("right"));
    assert!(first.0 > second.0 && second.0 > 0, "in BMv2 smaller numbers win: {first:?} {second:?}");
    assert_eq!(first.1, 2);
    for (text, wanted) in [
        (add(""), "the priority is missing"),
        (add("x"), "\"x\" is not a priority"),
        (add("-1"), "\"-1\" is not"),
    ] {
        let problems = priority(&text).expect_err("no priority");
        assert!(problems.contains(wanted), "{problems}");
    }
}
