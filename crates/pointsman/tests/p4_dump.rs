//! `pointsman p4 dump`: the state of a running switch as statements, and back.

use crate::support::controller::connect;
use crate::support::{Scratch, Switch, file, run};
use pb::entity::Entity;
use pointsman_control::proto::p4rt as pb;

const PROGRAM: &str = "crates/stf/tests/every_kind.p4";

/// The statements for a switch, without the line that names it.
fn dumped(switch: &Switch, more: &[&str]) -> (String, String) {
    let address = switch.address.to_string();
    let done = run(&[&["p4", "dump", "--address", &address], more].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let (head, text) = done.stdout.split_once('\n').expect("a line");
    assert_eq!(head, format!("# state of the switch at {address}"));
    (text.to_string(), done.stderr)
}

/// Without comments.
fn statements(text: &str) -> Vec<&str> {
    text.lines().filter(|l| !l.starts_with('#')).collect()
}

/// What the switch was started with is read like what clients write.
#[test]
fn groups_and_sessions_of_the_start() {
    let dir = Scratch::new("dump-start");
    let text = "mirroring_add 7 1:0 2:3 bytes=64 class=1\nmc_mgrp_create 5\nmc_node_create 2 3 4\nmc_node_associate 5 0\n";
    let state = dir.write("start.stf", text);
    let program = file(PROGRAM);
    let switch = Switch::start(&[&program, "--entries", &state]);
    let (text, _) = dumped(&switch, &[]);
    let has = |start: &str| text.lines().any(|l| l.starts_with(start));
    assert!(has("mirroring_add 7 ") && has("mc_mgrp_create 5") && has("mc_node_create 2 3 4"), "{text}");
    let other = Switch::start(&[&program, "--entries", &dir.write("again.stf", &text)]);
    assert_eq!(statements(&dumped(&other, &[]).0), statements(&text));
}

/// A packet through the program and the state of a running switch, which it does not change.
#[test]
fn a_packet_through_a_running_switch() {
    let dir = Scratch::new("trace-live");
    let state = dir.write("start.stf", "add forward dst:02:00:00:00:00:02 send(port:2)\n");
    let program = file("examples/forwarder/main.p4");
    let switch = Switch::start(&[&program, "--entries", &state]);
    let (address, packet) = (switch.address.to_string(), "0200000000020200000000010800");
    let before = dumped(&switch, &[]).0;
    for more in [&[][..], &[program.as_str()]] {
        let args = [&["p4", "trace", "--live", &address, "--port", "1", "--packet", packet], more].concat();
        let done = run(&args);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let want = "table Forward.forward: hit";
        assert!(
            done.stdout.contains(want) && done.stdout.contains("sent on port 2, 14 bytes"),
            "{}",
            done.stdout
        );
        let named = done.stdout.contains("main.p4:") && !done.stdout.contains("p4_device_config");
        assert!(named, "places are those of the files: {}", done.stdout);
        let json = run(&[&args[..], &["--json"]].concat()).stdout;
        assert!(json.contains("main.p4\"") && !json.contains("p4_device_config"), "{json}");
    }
    assert_eq!(dumped(&switch, &[]).0, before);
    let other = run(&["p4", "trace", "--live", &address, "--packet", packet, &file(PROGRAM)]);
    assert!(
        other.code == Some(1) && other.stderr.contains("does not go with the program"),
        "{}",
        other.stderr
    );
    let gone = run(&["p4", "trace", "--live", "127.0.0.1:1", "--packet", packet]);
    assert!(gone.code == Some(1) && gone.stderr.contains("cannot connect to the switch"), "{}", gone.stderr);
    let neither = run(&["p4", "trace", "--packet", packet]);
    assert_eq!(neither.code, Some(2), "{}", neither.stderr);
}

/// Every kind of entity, on the wire, into a file, and into another switch.
#[test]
fn a_switch_from_a_dump() {
    let dir = Scratch::new("dump");
    let (program, state) = (file(PROGRAM), file("crates/stf/tests/every_kind.stf"));
    let switch = Switch::start(&[&program, "--entries", &state]);
    let kept = dir.path("kept.p4");
    let (text, warnings) = dumped(&switch, &["--program", &kept]);
    // No client can write them.
    let ranges: Vec<&str> = warnings.lines().collect();
    assert!(ranges.len() == 1 && ranges[0].contains("not written: value set P.ports"), "{warnings}");
    for start in [
        "add I.exactly",
        "setdefault",
        "remove I.given",
        "member_create",
        "group_create",
        "register_write",
        "counter_write I.hits $",
        "counter_write I.total 2",
        "meter_set_rates I.limit $",
        "meter_set_rates I.speed 1",
    ] {
        assert!(text.lines().any(|l| l.starts_with(start)), "{start}\n{text}");
    }
    let again = dir.write("again.stf", &text);
    let other = Switch::start(&[&kept, "--entries", &again]);
    assert_eq!(statements(&dumped(&other, &[]).0), statements(&text));
    let (fewer, _) =
        dumped(&switch, &["--without", "registers", "--without", "counters", "--without", "meters"]);
    assert!(
        !fewer.contains("register_write") && !fewer.contains("counter_write") && !fewer.contains("meter_set")
    );
    // A packet test on the same state: the entry of the dump sends the packet.
    let test = dir
        .write("live.stf", format!("{text}packet 1 01 00001234 0000 00\nexpect 1 01 00001234 0000 77 $\n"));
    let done = run(&["p4", "test", &test, "--program", &kept]);
    assert_eq!(done.code, Some(0), "{}", done.stdout);
}

/// What a controller wrote and statements cannot say is named; an action set becomes members and a group.
#[test]
fn entities_of_a_controller() {
    let switch = Switch::start(&[&file(PROGRAM)]);
    let (mut controller, _) = connect(switch.address, 1);
    let find = |preamble: Option<&pointsman_control::proto::p4info::Preamble>, name: &str| {
        preamble.filter(|p| p.name == name).map(|p| p.id)
    };
    let info = controller.info.clone();
    let table =
        |name: &str| info.tables.iter().find_map(|t| find(t.preamble.as_ref(), name)).expect("a table");
    let send = info.actions.iter().find_map(|a| find(a.preamble.as_ref(), "I.send")).expect("an action");
    let action = |port: u8| pb::Action {
        action_id: send,
        params: vec![pb::action::Param { param_id: 1, value: vec![port] }],
    };
    let exact = |id: u32, value: u8| pb::FieldMatch {
        field_id: id,
        field_match_type: Some(pb::field_match::FieldMatchType::Exact(pb::field_match::Exact {
            value: vec![value],
        })),
    };
    let one = |port: u8| pb::ActionProfileAction {
        action: Some(action(port)),
        weight: 1 + i32::from(port),
        ..Default::default()
    };
    let set =
        pb::ActionProfileActionSet { action_profile_actions: vec![one(1), one(2)], ..Default::default() };
    let chosen = pb::TableEntry {
        table_id: table("I.chosen"),
        r#match: vec![exact(1, 9)],
        action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::ActionProfileActionSet(set)) }),
        ..Default::default()
    };
    let noted = pb::TableEntry {
        table_id: table("I.sliced"),
        r#match: vec![exact(1, 9)],
        action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::Action(action(3))) }),
        metadata: b"x".to_vec(),
        ..Default::default()
    };
    controller.insert(vec![Entity::TableEntry(chosen), Entity::TableEntry(noted)]).expect("they fit");
    let (text, warnings) = dumped(&switch, &[]);
    for line in [
        "member_create I.spread 1 I.send(port:0x001)",
        "member_create I.spread 2 I.send(port:0x002)",
        "add I.chosen h.h.a:0x09 group(1)",
        "add I.sliced h.h.c[7:0]:0x09 I.send(port:0x003)",
        "# not in this file: the metadata of entry h.h.c[7:0]:0x09 of I.sliced",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    assert!(text.contains("group_create I.spread 1 1:2 2:3\n"), "{text}");
    assert!(warnings.contains("warning: not written: the metadata of entry"), "{warnings}");
    let dir = Scratch::new("dump-controller");
    let again = dir.write("again.stf", &text);
    let other = Switch::start(&[&file(PROGRAM), "--entries", &again]);
    assert_eq!(statements(&dumped(&other, &[]).0), statements(&text));
}

#[test]
fn switches_that_cannot_be_dumped() {
    let check = |args: &[&str], want: &[&str]| {
        let done = run(&[&["p4", "dump"], args].concat());
        let all = want.iter().all(|w| done.stderr.contains(w));
        assert!(done.code == Some(1) && done.stdout.is_empty() && all, "{done:?}");
    };
    check(
        &["--address", "127.0.0.1:1"],
        &["cannot connect to the switch at 127.0.0.1:1", "its P4Runtime server"],
    );
    check(&["--address", "no address"], &["cannot connect to the switch at no address"]);
    let empty = Switch::start(&["--no-p4"]);
    let address = empty.address.to_string();
    check(&["--address", &address], &["the switch has no program"]);
    check(&["--address", &address, "--device-id", "7"], &["refuses to be read", "7"]);
    check(&["--address", &address, "--ca", "/nonexistent"], &["cannot read /nonexistent"]);
}
