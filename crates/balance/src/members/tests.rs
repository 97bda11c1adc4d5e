use super::*;
use crate::config::Placed;
use serde_json::json;
use std::net::Ipv4Addr;

pub(crate) const RACK: &str = include_str!("../../tests/data/members.toml");

pub(crate) fn rack() -> Rack {
    Rack::parse("rack.toml", RACK).unwrap_or_else(|e| panic!("{e}"))
}

/// The beginning of time.
const T0: u64 = 1_795_290_600_000;

fn members() -> Members {
    let mut m = Members::default();
    m.configure(&rack());
    m.step(T0);
    m
}

fn document(name: &str, address: &str) -> Document {
    serde_json::from_value(json!({"name": name, "kind": "cpu", "address": address, "port": 6}))
        .expect("valid")
}

fn register(m: &mut Members, at: u64, name: &str, address: &str) -> Result<Name, Refusal> {
    let document = document(name, address);
    let r = Registration {
        source: "pool",
        document: &document,
        ttl_s: None,
        who: "agents",
        any: false,
        key: None,
    };
    m.register(T0 + at, &r)
}

/// What a desk does.
fn lay(m: &mut Members) -> Vec<String> {
    if m.due() {
        let (_, left_out) = rack().with_members(&m.placed());
        m.laid(&left_out);
    }
    m.lines()
}

fn names(m: &Members) -> Vec<String> {
    m.placed().iter().map(|p: &Placed<'_>| p.entry.name.to_string()).collect()
}

#[test]
fn a_registration_lives_as_long_as_it_is_renewed() {
    let mut m = members();
    register(&mut m, 0, "m1/cpu", "10.0.2.1").expect("good");
    assert!(lay(&mut m)[0].contains("member `m1/cpu` (10.0.2.1) of `pool` comes"));
    for at in (1_000..30_000).step_by(1_000) {
        m.step(T0 + at);
        if at % 9_000 == 0 {
            register(&mut m, at, "m1/cpu", "10.0.2.1").expect("renewed");
        }
        assert_eq!(names(&m), ["m1/cpu"], "{at}");
        assert!(lay(&mut m).is_empty(), "renewals change nothing");
    }
    // The last one was at 27 s.
    for at in [36_900, 37_000] {
        (30_000..=at).step_by(100).for_each(|at| m.step(T0 + at));
        assert_eq!(names(&m).is_empty(), at == 37_000, "{at}");
    }
    let lines = lay(&mut m);
    assert!(lines[0].contains("leaves: it was not renewed for 10 s"), "{lines:?}");
    let (_, counts, _) = m.sources().next().expect("a source");
    assert_eq!((counts.joined, counts.expired, counts.left, counts.held), (1, 1, 0, 0));
}

#[test]
fn nothing_expires_while_the_controller_is_away_or_its_clock_is_set() {
    let mut m = members();
    register(&mut m, 0, "m1/cpu", "10.0.2.1").expect("good");
    // An hour of silence, a clock that is set ahead by a day, and back by two.
    for at in [3_600_000, 90_000_000, 1_000] {
        m.step(T0 + at);
        assert_eq!(names(&m), ["m1/cpu"], "{at}");
    }
    (1_000..12_000).step_by(500).for_each(|at| m.step(T0 + at));
    assert!(names(&m).is_empty(), "its time ran all the while");
}

#[test]
fn a_number_is_free_only_when_no_switch_has_it() {
    let mut m = members();
    register(&mut m, 0, "m1/cpu", "10.0.2.1").expect("good");
    let first = m.placed()[0].number;
    assert!(first.server() > 4000 && first.slot() == 0, "{first}");
    m.withdraw(T0 + 10, &"m1/cpu".parse().expect("a name"), "agents", false).expect("its own");
    // It comes back with another address: connections to the first one may be alive.
    register(&mut m, 20, "m1/cpu", "10.0.2.2").expect("good");
    let second = m.placed()[0].number;
    assert_eq!((second.server(), second.slot()), (first.server(), 1));
    // The address of the first one is not for others yet.
    let e = register(&mut m, 30, "m2/cpu", "10.0.2.1").expect_err("taken");
    assert!(e.to_string().contains("may still have connections"), "{e}");
    m.free(|_| true);
    assert_eq!(m.each().iter().filter(|s| s.state == State::Leaving).count(), 1);
    m.free(|number| number != first);
    assert_eq!(m.each().len(), 1);
    register(&mut m, 40, "m2/cpu", "10.0.2.1").expect("free now");
    // The same name and address: the same number, while its connections continue.
    m.withdraw(T0 + 50, &"m1/cpu".parse().expect("a name"), "agents", false).expect("its own");
    register(&mut m, 60, "m1/cpu", "10.0.2.2").expect("good");
    assert_eq!(m.placed().iter().find(|p| p.entry.name.server == "m1").map(|p| p.number), Some(second));
}

#[test]
fn a_member_that_moves_leaves_its_place() {
    let mut m = members();
    register(&mut m, 0, "m1/cpu", "10.0.2.1").expect("good");
    register(&mut m, 10, "m1/cpu", "10.0.2.2").expect("good");
    let all = m.each();
    assert_eq!(all.iter().map(|s| s.state.name()).collect::<Vec<_>>(), ["coming", "leaving"]);
    assert_ne!(all[0].number, all[1].number);
    // A new weight does not move it.
    let mut d = document("m1/cpu", "10.0.2.2");
    d.weight = Some(7);
    let r =
        Registration { source: "pool", document: &d, ttl_s: Some(3), who: "agents", any: false, key: None };
    m.register(T0 + 20, &r).expect("good");
    assert_eq!((m.each().len(), m.placed()[0].entry.weight), (2, 7));
    assert_eq!(m.each()[0].expires_in_ms, Some(3_000));
}

/// A move is an arrival, too: the tables change as much.
#[test]
fn a_member_that_moves_to_and_fro_is_held_out() {
    let mut m = members();
    for i in 0..5 {
        register(&mut m, i * 600, "m1/cpu", &format!("10.0.2.{}", 1 + i % 2)).expect("good");
        m.free(|_| false);
    }
    assert!(matches!(m.each()[0].state, State::Held { .. }), "{:?}", m.each()[0].state);
}

/// A request that waited has an earlier time than the last step; time does not count twice after it.
#[test]
fn a_request_that_waited_does_not_make_time_pass_twice() {
    let mut m = members();
    register(&mut m, 0, "m1/cpu", "10.0.2.1").expect("good");
    for at in (500..8_000).step_by(500) {
        m.step(T0 + at);
        m.step(T0 + at - 400);
    }
    assert_eq!(names(&m), ["m1/cpu"]);
}

/// Up and down a hundred times a second for a minute: the configuration hardly changes, and this is said once.
#[test]
fn a_member_that_flaps_is_damped() {
    let mut m = members();
    register(&mut m, 0, "calm/cpu", "10.0.2.1").expect("good");
    let (mut configurations, mut said) = (0, Vec::new());
    let mut before = Vec::new();
    for at in (0..60_000u64).step_by(10) {
        if at % 5_000 == 0 {
            register(&mut m, at, "calm/cpu", "10.0.2.1").expect("good");
        }
        match at / 10 % 2 {
            0 => drop(register(&mut m, at, "wild/cpu", "10.0.2.2").expect("good")),
            _ => m.withdraw(T0 + at, &"wild/cpu".parse().expect("a name"), "agents", false).expect("its own"),
        }
        said.extend(lay(&mut m));
        if names(&m) != before && m.each().iter().all(|s| s.state != State::Coming) {
            configurations += 1;
            before = names(&m);
        }
        m.free(|_| false);
    }
    assert!(configurations <= 2, "{configurations}");
    let held =
        said.iter().filter(|l| l.contains("`wild/cpu`") && l.contains("comes and goes too often")).count();
    assert!(held == 1 && said.len() <= 5, "{said:#?}");
    assert_eq!(before, ["calm/cpu"], "it is out");
    // It stays: it is back after 40 s at most.
    register(&mut m, 60_000, "wild/cpu", "10.0.2.2").expect("good");
    let State::Held { for_ms } = m.get(&"wild/cpu".parse().expect("a name")).expect("there").state else {
        panic!("held out")
    };
    assert!((30_000..=40_050).contains(&for_ms), "{for_ms}");
    let mut back = None;
    for at in (60_000..110_000u64).step_by(500) {
        if at % 5_000 == 0 {
            register(&mut m, at, "calm/cpu", "10.0.2.1").expect("good");
            register(&mut m, at, "wild/cpu", "10.0.2.2").expect("good");
        }
        m.step(T0 + at);
        lay(&mut m);
        back = back.or((names(&m).len() == 2).then_some(at - 60_000));
    }
    assert!(back.is_some_and(|ms| ms.abs_diff(for_ms) <= 1_000), "{back:?} {for_ms}");
    let (_, counts, _) = m.sources().next().expect("a source");
    assert_eq!(counts.held, 1);
}

/// Many members that come and go make two configurations a second at most.
#[test]
fn changes_are_taken_together() {
    let mut m = members();
    let mut made = 0;
    for at in (0..10_000u64).step_by(10) {
        let i = at / 10 % 10;
        let name = format!("m{i}/cpu");
        if m.get(&name.parse().expect("a name")).is_some() {
            m.withdraw(T0 + at, &name.parse().expect("a name"), "agents", false).expect("its own");
        } else {
            register(&mut m, at, &name, &format!("10.0.2.{}", i + 1)).expect("good");
        }
        made += u32::from(m.due());
    }
    assert!(made <= 21, "{made}");
}

#[test]
fn what_is_refused_and_why() {
    let mut m = members();
    let mut bad = |name: &str, address: &str, part: &str| {
        let e = register(&mut m, 0, name, address).expect_err(name).to_string();
        assert!(e.contains(part), "{e}\nlacks {part}");
    };
    bad("m1", "10.0.2.1", "`name`: `m1`: write server/device");
    bad("<script>/cpu", "10.0.2.1", "1 to 64 letters");
    bad("a\u{202e}b/cpu", "10.0.2.1", "\\u{202e}");
    bad("a/b/c", "10.0.2.1", "server/device");
    bad(&format!("{}/cpu", "x".repeat(65)), "10.0.2.1", "`name`");
    bad("m1/cpu", "192.0.2.1", "192.0.2.1 is not in the networks of this source (10.0.1.0/24, 10.0.2.0/24)");
    bad("m1/cpu", "127.0.0.1", "is a loopback address");
    bad("m1/cpu", "10.0.3.1", "is not in the networks");
    let mut d = document("m1/cpu", "10.0.2.1");
    let wrong = |m: &mut Members, d: &Document, ttl_s, part: &str| {
        let r = Registration { source: "pool", document: d, ttl_s, who: "agents", any: false, key: None };
        let e = m.register(T0, &r).expect_err(part).to_string();
        assert!(e.contains(part), "{e}\nlacks {part}");
    };
    wrong(
        &mut m,
        &Document { port: Some(9), ..d.clone() },
        None,
        "`port`: 9 is not a port of this source (6, 7)",
    );
    wrong(
        &mut m,
        &Document { port: None, ..d.clone() },
        None,
        "`port`: missing: write the port of the switch, one of 6, 7",
    );
    wrong(&mut m, &Document { address: None, ..d.clone() }, None, "`address`: missing");
    let kinds =
        "`kind`: unknown device kind `dpu`: write \"cpu\", \"smartnic\", \"gpu\", \"fpga\" or \"other\"";
    wrong(&mut m, &Document { kind: "dpu".into(), ..d.clone() }, None, kinds);
    wrong(&mut m, &Document { mac: Some("01:00:00:00:00:01".into()), ..d.clone() }, None, "unicast");
    wrong(&mut m, &Document { weight: Some(0), ..d.clone() }, None, "`weight` is 0");
    wrong(&mut m, &Document { weight: Some(1001), ..d.clone() }, None, "from 1 to 1000");
    wrong(&mut m, &Document { workers: Some(0), ..d.clone() }, None, "`workers` is 0");
    wrong(&mut m, &d, Some(0), "`ttl_s` is 0");
    wrong(&mut m, &d, Some(11), "from 1 to 10");
    // A name or an address that another one has.
    register(&mut m, 0, "m1/cpu", "10.0.2.1").expect("good");
    let e = register(&mut m, 0, "m2/cpu", "10.0.2.1").expect_err("taken").to_string();
    assert!(e.contains("10.0.2.1 is the address of member `m1/cpu`"), "{e}");
    d.address = Some(Ipv4Addr::new(10, 0, 2, 2));
    let r = Registration { source: "pool", document: &d, ttl_s: None, who: "mallory", any: false, key: None };
    let e = m.register(T0, &r).expect_err("another user's").to_string();
    assert!(e.contains("registered by `agents`"), "{e}");
    let name: Name = "m1/cpu".parse().expect("a name");
    assert!(matches!(m.withdraw(T0, &name, "mallory", false), Err(Refusal::Owner(..))));
    m.withdraw(T0, &name, "ops", true).expect("may do everything");
    // Too many devices of a server, and of a source.
    for i in 0..8 {
        register(&mut m, 0, &format!("m3/d{i}"), &format!("10.0.2.{}", 10 + i)).expect("good");
    }
    let e = register(&mut m, 0, "m3/d8", "10.0.2.18").expect_err("full").to_string();
    assert!(e.contains("server `m3` has 8 devices"), "{e}");
    for i in 0..3 {
        register(&mut m, 0, &format!("n{i}/cpu"), &format!("10.0.2.{}", 30 + i)).expect("good");
    }
    let e = register(&mut m, 0, "n3/cpu", "10.0.2.33").expect_err("full").to_string();
    assert!(e.contains("has 12 members"), "eight, three and the one that left: {e}");
    assert_eq!(m.placed().len(), 11, "what is refused changes nothing");
}

#[test]
fn a_list_replaces_its_source_as_a_whole() {
    let mut m = members();
    let rack = rack();
    let list = |text: &str| parse_list(text, &rack.sources[1]);
    let two = r#"[{"name": "a/cpu", "kind": "cpu", "address": "10.0.3.1"},
                  {"name": "b/gpu", "kind": "gpu", "address": "10.0.3.2", "weight": 3}]"#;
    m.listed(T0, "list", list(two));
    register(&mut m, 0, "m1/cpu", "10.0.2.1").expect("good");
    assert_eq!(names(&m), ["a/cpu", "b/gpu", "m1/cpu"]);
    lay(&mut m);
    // Wherever it is cut off: it is refused, its members stay, and this is said once.
    for end in 0..two.len() {
        m.listed(T0, "list", list(&two[..end]));
        assert_eq!(names(&m).len(), 3, "{}", &two[..end]);
    }
    let lines = m.lines();
    assert!(
        lines.iter().all(|l| l.contains("`list`") && l.contains("line ") && l.contains("column ")),
        "{lines:#?}"
    );
    // What a list contains does not reach a terminal as it is.
    m.listed(T0, "list", list(&two.replace("weight", "\u{7f}\u{202e}eight")));
    let said = m.lines().concat();
    assert!(said.contains("unknown field `\u{fffd}\u{fffd}eight`"), "{said:?}");
    m.listed(T0, "list", list("[]"));
    assert_eq!(names(&m), ["m1/cpu"], "only its own");
    assert_eq!(m.lines()[0], "members of `list` can be read again");
    let bad = |text: &str, part: &str| {
        let e = list(text).expect_err(text).to_string();
        assert!(e.contains(part), "{e}\nlacks {part}");
    };
    bad(
        &two.replace("b/gpu", "a/cpu"),
        "member 2 (`a/cpu`): an earlier member of the list has the same name",
    );
    bad(&two.replace("3.2", "3.1"), "member 2 (`b/gpu`): an earlier member of the list has 10.0.3.1");
    bad(
        &two.replace("10.0.3.2", "10.0.2.2"),
        "member 2 (`b/gpu`): `address`: 10.0.2.2 is not in the networks",
    );
    bad(&two.replace("weight", "wieght"), "unknown field `wieght`");
    bad(&two.replace("10.0.3.2", "ten"), "line 2 column");
    let many: Vec<Document> = (0..65).map(|i| document(&format!("m{i}/cpu"), "10.0.3.1")).collect();
    assert_eq!(check_list(&many, &rack.sources[1]), Err(ListError::TooMany(65, 64)));
    // A name of another source.
    m.listed(T0, "list", list(r#"[{"name": "m1/cpu", "kind": "cpu", "address": "10.0.3.9"}]"#));
    assert!(m.lines()[0].contains("`m1/cpu` comes from another source"));
    assert_eq!(names(&m), ["m1/cpu"]);
}

/// A listed member whose address still has connections under another name waits until they have ended.
#[test]
fn a_listed_member_waits_for_its_number() {
    let mut m = members();
    let rack = rack();
    let one = |name: &str| parse_list(&json!([document8(name, "10.0.3.1")]).to_string(), &rack.sources[1]);
    m.listed(T0, "list", one("a/cpu"));
    lay(&mut m);
    m.listed(T0 + 600, "list", one("b/cpu"));
    assert!(names(&m).is_empty());
    let b = m.get(&"b/cpu".parse().expect("a name")).expect("there");
    assert!(
        matches!(&b.state, State::LeftOut(why) if why.contains("was the address of member `a/cpu`")),
        "{b:?}"
    );
    assert!(m.next_deadline().is_some());
    m.free(|_| false);
    assert_eq!(names(&m), ["b/cpu"]);
}

fn document8(name: &str, address: &str) -> Document {
    Document { port: Some(8), ..document(name, address) }
}

#[test]
fn members_survive_a_restart_with_their_numbers() {
    let mut m = members();
    for i in 1..=3 {
        register(&mut m, 0, &format!("m{i}/cpu"), &format!("10.0.2.{i}")).expect("good");
    }
    m.withdraw(T0, &"m3/cpu".parse().expect("a name"), "agents", false).expect("its own");
    let kept: Kept = serde_json::from_str(&serde_json::to_string(&m.kept()).expect("JSON")).expect("JSON");
    let mut after = Members::default();
    after.configure(&rack());
    after.restore(T0 + 3_600_000, &kept).expect("right");
    after.step(T0 + 3_600_000);
    let numbers = |m: &Members| m.placed().iter().map(|p| p.number).collect::<Vec<_>>();
    assert_eq!(numbers(&after), numbers(&m));
    assert_eq!(after.each()[0].expires_in_ms, Some(10_000), "its whole time again");
    // A source that does not admit one any more.
    let narrow = Rack::parse("rack.toml", &RACK.replace(", \"10.0.2.0/24\"", "")).expect("valid");
    let mut after = Members::default();
    after.configure(&narrow);
    after.restore(T0, &kept).expect("right");
    assert!(after.placed().is_empty() && after.lines().len() == 2);
    assert_eq!(after.each().iter().filter(|s| s.state == State::Leaving).count(), 3, "numbers are kept");
}

#[test]
fn the_rack_has_no_room_for_some() {
    let rack = rack();
    let left_out = |entry: Document, key: bool| {
        let source = &rack.sources[0];
        let entry = Entry::new(&entry, source).expect("valid");
        let number = DeviceNumber::new(if key { 1 } else { 5000 }, 0);
        let (with, out) = rack.with_members(&[Placed { entry: &entry, number, source, key: None }]);
        assert_eq!(with.servers.len(), 2 - out.len());
        out.into_values().next().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(left_out(document("m1/cpu", "10.0.2.1"), false), "");
    assert!(left_out(document("s1/gpu", "10.0.2.1"), false).contains("server `s1` is in the rack's file"));
    assert!(left_out(document("m1/cpu", "10.0.2.1"), true).contains("has number 1 now"));
    assert!(left_out(document("m1/cpu", "10.0.1.11"), false).contains("address of device `s1/cpu`"));
    assert!(left_out(document("m1/cpu", "10.0.1.1"), false).contains("address of the switch"));
    let only_cpu = Rack::parse("rack.toml", &RACK.replace("\"ecmp\"", "\"server-only\"")).expect("valid");
    let mut gpu = document("m1/gpu", "10.0.2.1");
    gpu.kind = "gpu".into();
    let entry = Entry::new(&gpu, &rack.sources[0]).expect("valid");
    let number = DeviceNumber::new(5000, 0);
    let placed = Placed { entry: &entry, number, source: &rack.sources[0], key: None };
    let (_, out) = only_cpu.with_members(&[placed]);
    assert!(out.values().next().expect("left out").to_string().contains("`m1` has none"), "{out:?}");
}
