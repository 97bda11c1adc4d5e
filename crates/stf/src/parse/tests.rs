//! The meaning of lines, and refused lines.

use super::*;
use crate::entries::EntryText;

fn check(text: &str, want: Command) {
    let lines = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(lines.into_iter().map(|l| l.command).collect::<Vec<_>>(), [want], "{text}");
}

fn fails(text: &str, want: &str) {
    let error = parse(text).expect_err(text).to_string();
    assert!(error.contains(want), "{text}: {error}");
}

#[test]
fn packets() {
    check("packet 3 0a 0B0c # end", Command::Packet { port: 3, bytes: vec![10, 11, 12] });
    let expect = |digits: Option<&str>, exact| Command::Expect {
        port: 1,
        digits: digits.map(Into::into),
        exact,
        at: None,
    };
    check("EXPECT 1", expect(None, false));
    check("expect 1 0A ** $", expect(Some("0a**"), true));
    check("expect 1 0a$", expect(Some("0a"), true));
    check("expect 1 $", expect(Some(""), true));
    fails("packet 1 0", "not whole bytes");
    fails("packet 1 0*", "hexadecimal digits only");
    fails("\npacket 1 0g", "line 2: g is not a hexadecimal digit");
    fails("expect 1 0a$0b", "$ may only be at the end");
    fails("expect x 00", "x is not a number");
    fails("send 1 00", "unknown command send");
}

#[test]
fn entries() {
    let key = |n: &str, v: &str| (n.to_string(), v.to_string());
    let arg = |n: &str, v: &str| (Some(n.to_string()), v.to_string());
    let want = |priority, keys, name: &str, args, id: Option<&str>| {
        let action = ActionText { name: name.into(), args };
        let entry = EntryText { table: "c.t".into(), priority, keys, action, idle_ns: 0 };
        Command::Add { entry, id: id.map(Into::into) }
    };
    check(
        "add c.t 5 a.b:0x** \"x y\":7 ig.go(p:1, q:0x2) = A",
        want(
            Some(6),
            vec![key("a.b", "0x**"), key("x y", "7")],
            "ig.go",
            vec![arg("p", "1"), arg("q", "0x2")],
            Some("A"),
        ),
    );
    check("add c.t a:1 go()", want(None, vec![key("a", "1")], "go", vec![], None));
    check("add c.t go ( p:3 )", want(None, vec![], "go", vec![arg("p", "3")], None));
    check(
        "setdefault t go(p:1)",
        Command::SetDefault {
            table: "t".into(),
            action: ActionText { name: "go".into(), args: vec![arg("p", "1")] },
        },
    );
    fails("add t", "add TABLE");
    fails("add t x go()", "x is neither a priority nor a key");
    fails("add t a:1 go", "write ACTION");
    check("remove $A", Command::RemoveNamed("A".into()));
    let gone = EntryText {
        table: "t".into(),
        priority: Some(4),
        keys: vec![key("a", "1")],
        action: ActionText::default(),
        idle_ns: 0,
    };
    check("remove t 3 a:1", Command::Remove(gone));
    fails("remove", "no table");
    fails("remove t x", "x is neither a priority nor a key");
}

#[test]
fn the_others() {
    let condition = |op: &str, value: &str| Condition { op: op.into(), value: value.into() };
    check(
        "check_counter ig.c(3) packets == 2",
        Command::CheckCounter {
            name: "ig.c".into(),
            index: Index::At(3),
            check: Some((false, condition("==", "2"))),
        },
    );
    check("counter_read c 0", Command::CheckCounter { name: "c".into(), index: Index::At(0), check: None });
    check(
        "check_counter c($A)",
        Command::CheckCounter { name: "c".into(), index: Index::Entry("A".into()), check: None },
    );
    let action = ActionText { name: "go".into(), args: vec![(Some("p".into()), "1".into())] };
    check("member_create s 3 go(p:1)", Command::MemberCreate { profile: "s".into(), member: 3, action });
    check(
        "group_create s 1 3 4:2",
        Command::ProfileGroupCreate {
            profile: "s".into(),
            group: 1,
            members: vec![(3, 1, None), (4, 2, None)],
            max_size: 0,
        },
    );
    check(
        "value_set_add v 1, 2&&&3",
        Command::ValueSetAdd { name: "v".into(), fields: vec!["1".into(), "2&&&3".into()] },
    );
    fails("member_create s 3", "member_create PROFILE MEMBER ACTION");
    fails("group_create s", "group_create PROFILE GROUP");
    fails("value_set_add v", "value_set_add NAME MATCH");
    check(
        "check_register r(1) >= 0x10",
        Command::CheckRegister { name: "r".into(), index: 1, check: Some(condition(">=", "0x10")) },
    );
    check(
        "meter_set_rates m 2 0.000005:4 0.00002:5",
        Command::MeterSetRates { name: "m".into(), index: Some(Index::At(2)), rates: vec![(5, 4), (20, 5)] },
    );
    check("mc_node_create 400 6 7", Command::NodeCreate { instance: 400, ports: vec![6, 7] });
    check("wait", Command::Wait { ns: 1_000_000_000 });
    check("wait 5", Command::Wait { ns: 5_000_000 });
    check("wait 5us", Command::Wait { ns: 5_000 });
    check("step 0", Command::Step { ns: 0 });
    check("step 20us", Command::Step { ns: 20_000 });
    fails("step 5", "5 is not a time such as 5us");
    fails("step 50000000s", "at most 49 days");
    fails("wait 5 6", "wait TIME such as 5us");
    fails("check_counter c packets == 2", "write NAME(INDEX)");
    fails("check_counter c(1) octets == 2", "write packets or bytes");
    fails("check_register r(1) = 2", "write == VALUE");
    fails("mirroring_delete", "mirroring_delete takes 1 words, not 0");
    fails("mirroring_add 1", "mirroring_add SESSION PORT[:INSTANCE] ... [group=N] [bytes=N] [class=N]");
    fails(
        "mirroring_add 1 2 size=3",
        "mirroring_add SESSION PORT[:INSTANCE] ... [group=N] [bytes=N] [class=N]",
    );
    fails("mirroring_add 1 2:70000", "70000 is not a number in the valid range");
    fails("group_create s 1 2:3:4:5", "4:5 is not a number in the valid range");
    fails("mc_node_create 70000 1", "70000 is not a number in the valid range");
    fails("meter_set_rates m 2 1:1", "two RATE:BURST");
}

#[test]
fn the_switch_and_its_messages() {
    let condition = |value: &str| Condition { op: "==".into(), value: value.into() };
    check("expect_digest 0a 0B", Command::ExpectDigest(vec![10, 11]));
    check("expect_log \"a # b\" # end", Command::ExpectLog("a # b".into()));
    check("expect_idle none", Command::ExpectIdle(vec![]));
    check("expect_idle $A $B", Command::ExpectIdle(vec!["A".into(), "B".into()]));
    let stat = |name: &str, of: Option<&str>| Command::CheckStat {
        name: name.into(),
        of: of.map(Into::into),
        check: condition("3"),
    };
    check("check_stat received == 3", stat("received", None));
    check("check_stat drops(queue_full) == 3", stat("drops", Some("queue_full")));
    let params = CrcParams {
        polynomial: 0x1021,
        initial: 1,
        final_xor: 0,
        reflect_input: true,
        reflect_output: false,
    };
    check("crc16_custom 0x1021 1 0 1 0", Command::Crc { width: 16, params });
    check("crc32_custom 0x1021 1 0 1 0", Command::Crc { width: 32, params });
    let at = Some(Time(1_256_000));
    check("expect 1 0a$ @1256us", Command::Expect { port: 1, digits: Some("0a".into()), exact: true, at });
    check("expect 1 @1256us", Command::Expect { port: 1, digits: None, exact: false, at });
    let go = ActionText { name: "go".into(), args: vec![] };
    let entry =
        EntryText { table: "t".into(), priority: None, keys: vec![], action: go, idle_ns: 10_000_000 };
    check("add t go() idle=10ms = A", Command::Add { entry: entry.clone(), id: Some("A".into()) });
    let command = Box::new(Command::Add { entry, id: None });
    check("refuse \"is full\" add t go() idle=10ms", Command::Refuse { reason: "is full".into(), command });
    fails("expect 1 0a @5", "5 is not a time");
    fails("expect_digest 0", "not whole bytes");
    fails("expect_log", "expect_log TEXT");
    fails("expect_idle A", "expect_idle none, or");
    fails("expect_idle", "expect_idle none, or");
    fails("check_stat drops(queue_full) 3", "write == VALUE");
    fails("crc16_custom 0x11021 0 0 0 0", "0x11021 is not a number in the valid range");
    fails("crc32_custom 1 0 0 2 0", "2: write 1 for a reflected sum, or 0");
    fails("add t go() idle=5", "5 is not a time");
    fails("refuse add t go()", "refuse \"REASON\" STATEMENT");
    fails("refuse \"\" add t go()", "refuse \"REASON\" STATEMENT");
    fails("refuse \"x\" refuse \"x\" wait", "refuse \"REASON\" STATEMENT");
    fails("refuse \"x\" frobnicate", "unknown command frobnicate");
    fails("queue 1", "has no `=`");
    fails("switch cpu-port=x", "switch [cpu-port=N]");
    fails("switch cpu-port=1 cpu-port=2", "switch [cpu-port=N]");
    fails("switch clock-offset=1ns", "switch [cpu-port=N]");
    fails("wait\nswitch cpu-port=1", "line 2: the switch is set before all other statements");
}
