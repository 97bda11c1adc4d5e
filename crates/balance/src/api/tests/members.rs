//! Members that register, and what it does to the configuration.

use super::*;
use crate::members::tests::RACK;
use crate::trust::ReportKey;

const ONE: &str = r#"{"member": {"kind": "cpu", "address": "10.0.2.1", "port": 6}, "ttl_s": 5}"#;

impl Office {
    fn member(&mut self, who: &str, method: &str, name: &str, body: &str) -> (u16, Value) {
        let target = format!("/v1/members/{}", name.replace('/', "%2F"));
        let request = Request { method, target: &target, authorization: Some(who), body: body.as_bytes() };
        let (r, wait) = self.ask(&request);
        assert!(wait.is_none());
        (r.status, serde_json::from_str(&r.text()).expect("JSON"))
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.now += 100;
            let effects = self.desk.tick(self.now, &self.controller);
            self.perform(effects);
        }
    }

    fn serving(&self) -> Vec<String> {
        assert_eq!(self.desk.rack(), self.controller.rack(), "desk and controller agree");
        let of = |m: &crate::config::Member| self.desk.rack().server_name(m.server);
        self.desk.rack().services[0].members.iter().map(of).collect()
    }
}

#[test]
fn a_member_registers_renews_and_expires() {
    let mut o = Office::new(RACK);
    let (status, m) = o.member(AGENTS, "PUT", "m1/cpu", ONE);
    assert_eq!(
        (status, &m["state"], &m["source"], &m["owner"]),
        (200, &json!("present"), &json!("pool"), &json!("agents"))
    );
    assert_eq!(m["agent"]["slot"], 0);
    assert_eq!(o.serving(), ["s1", "m1"]);
    for _ in 0..5 {
        o.pass(4_000);
        assert_eq!(o.member(AGENTS, "PUT", "m1/cpu", ONE).0, 200);
    }
    assert_eq!(o.get("/v1/members/m1%2Fcpu")["state"], "present");
    let list = o.get("/v1/members");
    assert_eq!(list["sources"][0]["joined"], 1);
    assert_eq!(list["members"][0]["description"]["address"], "10.0.2.1");
    let devices = o.get("/v1/devices");
    let own =
        devices["devices"].as_array().expect("a list").iter().find(|d| d["device"] == "m1/cpu").cloned();
    assert_eq!(own.expect("listed")["source"], "pool");
    o.pass(6_000);
    assert_eq!(o.serving(), ["s1"]);
    assert!(o.said.iter().any(|l| l.contains("was not renewed for 5 s")), "{:?}", o.said);
}

#[test]
fn who_may_register() {
    let mut o = Office::new(RACK);
    let (status, e) = o.member(BOARD, "PUT", "m1/cpu", ONE);
    assert!(status == 403 && e["error"].as_str().expect("text").contains("`board`"), "{e}");
    assert_eq!(o.member("Bearer 0000000000000000", "PUT", "m1/cpu", ONE).0, 401);
    assert_eq!(o.member(OPS, "PUT", "m1/cpu", ONE).0, 200);
    let (status, e) = o.member(AGENTS, "DELETE", "m1/cpu", "");
    assert!(status == 403 && e["error"].as_str().expect("text").contains("registered by `ops`"), "{e}");
    assert_eq!(o.member(OPS, "DELETE", "m1/cpu", "").0, 200);
    // Registering is all that it may do.
    let request =
        Request { method: "PUT", target: POLICY, authorization: Some(AGENTS), body: br#"{"policy": "wrr"}"# };
    assert_eq!(o.ask(&request).0.status, 403);
    let request = Request { target: "/v1/devices/s1%2Fcpu/drain", body: b"", ..request };
    assert_eq!(o.ask(&request).0.status, 403);
}

#[test]
fn requests_that_are_wrong() {
    let mut o = Office::new(RACK);
    let mut bad = |name: &str, body: &str, status: u16, part: &str| {
        let (got, e) = o.member(OPS, "PUT", name, body);
        let text = e["error"].as_str().unwrap_or_default();
        assert!(got == status && text.contains(part), "{body}: {got} {text}");
    };
    bad("m1", ONE, 400, "write server/device");
    bad("m1/<b>", ONE, 400, "write server/device");
    bad("m1/cpu", "", 400, "not a JSON object");
    bad("m1/cpu", &ONE[..40], 400, "EOF");
    bad("m1/cpu", &ONE.replace("ttl_s", "ttl"), 400, "unknown field `ttl`");
    bad(
        "m1/cpu",
        &ONE.replace("\"kind\"", "\"name\": \"m2/cpu\", \"kind\""),
        400,
        "differs from the name in the path",
    );
    bad("m1/cpu", &ONE.replace("\"ttl_s\": 5", "\"ttl_s\": 11"), 422, "from 1 to 10");
    bad("m1/cpu", &ONE.replace("10.0.2.1", "192.0.2.1"), 422, "is not in the networks");
    bad("m1/cpu", &ONE.replace("10.0.2.1", "10.0.1.11"), 409, "address of device `s1/cpu`");
    bad(
        "m1/cpu",
        &ONE.replace("{\"member\"", "{\"source\": \"list\", \"member\""),
        422,
        "write one of these: pool",
    );
    bad("s1/gpu", ONE, 409, "server `s1` is in the rack's file");
    assert_eq!(o.serving(), ["s1"]);
    assert!(o.get("/v1/members")["members"].as_array().expect("a list").is_empty());
    let text = RACK.split("[[members]]").next().expect("text");
    let (status, e) = Office::new(text).member(OPS, "PUT", "m1/cpu", ONE);
    assert!(status == 409 && e["error"].as_str().expect("text").contains("`api = true`"), "{e}");
}

#[test]
fn members_and_requests_for_policies() {
    let mut o = Office::new(RACK);
    assert_eq!(o.member(OPS, "PUT", "m1/cpu", ONE).0, 200);
    // A policy that names the member waits while it is away.
    let target = "/v1/services/web/policy";
    assert_eq!(o.put(target, r#"{"policy": "wrr", "weights": {"m1/cpu": 5}}"#).0, 202);
    assert_eq!(o.policy(), "wrr");
    assert_eq!(o.put("/v1/devices/m1%2Fcpu/drain", "").0, 202);
    o.pass(6_000);
    assert_eq!((o.policy(), o.serving()), ("ecmp", vec!["s1".into()]));
    assert_eq!(o.member(OPS, "PUT", "m1/cpu", ONE).0, 200);
    assert_eq!((o.policy(), o.serving()), ("wrr", vec!["s1".into(), "m1".into()]));
    assert!(!o.desk.rack().services[0].members[1].devices[0].enabled, "it is still drained");
    // The rack's file takes its address: it is left out, the file wins.
    let text = RACK.replace("10.0.1.11", "10.0.2.1");
    let effects = o.desk.file_changed(o.now, rack(&text));
    o.perform(effects);
    assert_eq!(o.serving(), ["s1"]);
    assert_eq!(o.get("/v1/members")["members"][0]["state"], "left-out");
}

#[test]
fn a_restarted_controller_has_its_members_at_once() {
    let mut o = Office::new(RACK);
    o.desk.give_key(ReportKey::new([7; 8]));
    assert_eq!(o.member(OPS, "PUT", "m1/cpu", ONE).0, 200);
    let list = r#"[{"name": "a/cpu", "kind": "cpu", "address": "10.0.3.1"}]"#;
    o.pass(500);
    let effects = o.desk.listed(o.now, "list", Ok(list));
    o.perform(effects);
    assert_eq!(o.serving(), ["s1", "a", "m1"]);
    let mut after = Office::new(RACK);
    after.desk.restore(after.now, &o.kept).expect("right");
    assert_eq!(after.desk.rack(), o.desk.rack());
    assert!(!o.get("/v1/members").to_string().contains("0707"), "keys are not shown");
    let wrong = o.kept.replace("\"m1/cpu\"", "\"m1\"");
    let e = Office::new(RACK).desk.restore(0, &wrong).expect_err("wrong");
    assert!(e.to_string().contains("members: `m1`"), "{e}");
}

/// With signed reports a member gets a key when it registers, and keeps it.
#[test]
fn members_get_keys() {
    let text = RACK.replace("reports = \"unauthenticated\"", "report_keys = \"keys\"");
    let mut o = Office::new(&text);
    let (status, e) = o.member(OPS, "PUT", "m1/cpu", ONE);
    assert!(status == 409 && e["error"].as_str().expect("text").contains("no key"), "{e}");
    o.desk.give_key(ReportKey::new([0x17; 8]));
    let (status, m) = o.member(OPS, "PUT", "m1/cpu", ONE);
    assert_eq!((status, &m["agent"]["key"]), (200, &json!("1717171717171717")));
    o.desk.give_key(ReportKey::new([0x18; 8]));
    assert_eq!(o.member(OPS, "PUT", "m1/cpu", ONE).1["agent"]["key"], "1717171717171717");
    let number = o.desk.rack().server("m1").expect("there").devices[0].number;
    assert_eq!(
        o.desk.rack().keys.newest(number).map(|(n, k)| (n, k.bits())),
        Some((1, 0x1717_1717_1717_1717))
    );
    assert!(!o.get("/v1/members/m1%2Fcpu").to_string().contains("1717"), "only who registers sees it");
}

/// A member that registered while reports needed no signature gets its key when it registers again.
#[test]
fn members_without_a_key_get_one() {
    let signed = RACK.replace("reports = \"unauthenticated\"", "report_keys = \"keys\"");
    let unsigned = signed.replacen("[[members]]", "[[members]]\nreports = false", 1);
    let mut o = Office::new(&unsigned);
    let register = |o: &mut Office| {
        o.desk.give_key(ReportKey::new([0x17; 8]));
        o.member(OPS, "PUT", "m1/cpu", ONE)
    };
    let (status, m) = register(&mut o);
    assert_eq!((status, &m["agent"]["key"]), (200, &Value::Null));
    let effects = o.desk.file_changed(o.now, rack(&signed));
    o.perform(effects);
    o.pass(1_000);
    assert!(o.get("/v1/members")["members"][0]["reason"].as_str().expect("text").contains("no key"));
    let (status, m) = register(&mut o);
    assert_eq!(
        (status, &m["agent"]["key"], &m["state"]),
        (200, &json!("1717171717171717"), &json!("present"))
    );
    assert_eq!(o.serving(), ["s1", "m1"]);
}

#[test]
fn a_rack_whose_servers_all_come_by_themselves() {
    let from = RACK.find("[[server]]").expect("there");
    let to = RACK.find("[[service]]").expect("there");
    let mut o = Office::new(&format!("{}{}", &RACK[..from], &RACK[to..]));
    assert!(o.serving().is_empty());
    assert_eq!(o.member(OPS, "PUT", "m1/cpu", ONE).0, 200);
    assert_eq!(o.serving(), ["m1"]);
    o.pass(6_000);
    assert!(o.serving().is_empty());
}

/// Two controllers of a group in virtual time: one leads, the other one follows what it saved.
struct Two {
    a: Office,
    b: Office,
}

impl Two {
    fn new() -> Two {
        Two { a: Office::new(RACK), b: Office::new(RACK) }
    }

    /// The follower takes what the leader saved last, and all its time passes without ticks.
    fn follow(&mut self) {
        self.b.now = self.a.now;
        let effects = self.b.desk.adopt(self.b.now, &self.a.kept).expect("a state");
        self.b.perform(effects);
    }

    /// The follower leads, so long after the leader's end.
    fn take_over(&mut self, after_ms: u64) {
        self.b.now = self.a.now + after_ms;
        self.b.desk.lead(self.b.now);
    }
}

#[test]
fn leases_survive_the_leader() {
    let mut t = Two::new();
    assert_eq!(t.a.member(AGENTS, "PUT", "m1/cpu", ONE).0, 200);
    // So soon after the first one that it makes no configuration of its own yet.
    let second = ONE.replace("10.0.2.1", "10.0.2.2");
    assert_eq!(t.a.member(AGENTS, "PUT", "m2/cpu", &second).0, 200);
    assert_eq!(t.a.serving(), ["s1", "m1"]);
    t.follow();
    assert_eq!(t.b.serving(), ["s1", "m1", "m2"], "it was answered, so it is saved");
    assert_eq!(t.b.said.len(), 2, "{:?}", t.b.said);
    t.follow();
    assert_eq!(t.b.said.len(), 2, "both were known");
    let number = |o: &Office, name: &str| o.desk.rack().server(name).expect("there").devices[0].number;
    t.a.pass(500);
    for name in ["m1", "m2"] {
        assert_eq!(number(&t.a, name), number(&t.b, name));
    }
    // Renewals are not saved: only the leader knows of them.
    for _ in 0..10 {
        t.a.pass(4_000);
        t.a.kept.clear();
        assert_eq!(t.a.member(AGENTS, "PUT", "m1/cpu", ONE).0, 200);
        assert_eq!(t.a.member(AGENTS, "PUT", "m2/cpu", &second).0, 200);
        assert!(t.a.kept.is_empty());
    }
    t.take_over(1_500);
    t.b.pass(4_000);
    assert_eq!(t.b.serving(), ["s1", "m1", "m2"]);
    assert_eq!(t.b.member(AGENTS, "PUT", "m1/cpu", ONE).0, 200);
    t.b.pass(3_000);
    assert_eq!(t.b.serving(), ["s1", "m1"], "the other one died with the leader");
    assert!(!t.b.said.iter().any(|l| l.contains("`m1/cpu` of `pool` leaves")), "{:?}", t.b.said);
}

#[test]
fn a_leader_that_leads_again_knows_nothing_of_renewals_meanwhile() {
    let mut t = Two::new();
    assert_eq!(t.a.member(AGENTS, "PUT", "m1/cpu", ONE).0, 200);
    t.a.pass(4_000);
    // The other one led, and renewed it: nothing of that is stored.
    t.a.now += 60_000;
    t.a.desk.lead(t.a.now);
    t.a.pass(4_000);
    assert_eq!(t.a.serving(), ["s1", "m1"]);
    t.a.pass(2_000);
    assert_eq!(t.a.serving(), ["s1"]);
}

#[test]
fn renewals_save_nothing_whatever_else_waits() {
    let mut t = Two::new();
    assert_eq!(t.a.member(AGENTS, "PUT", "m1/cpu", ONE).0, 200);
    let second = ONE.replace("10.0.2.1", "10.0.2.2").replace("\"ttl_s\": 5", "\"ttl_s\": 10");
    assert_eq!(t.a.member(AGENTS, "PUT", "m2/cpu", &second).0, 200);
    t.a.pass(600);
    assert_eq!(t.a.serving().len(), 3);
    t.a.kept.clear();
    // No tick: the first one's end cannot be stored.
    for _ in 0..12 {
        t.a.now += 1_000;
        assert_eq!(t.a.member(AGENTS, "PUT", "m2/cpu", &second).0, 200);
    }
    assert_eq!((t.a.kept.as_str(), t.a.serving().len()), ("", 3));
    t.a.pass(100);
    assert!(!t.a.kept.is_empty() && t.a.serving() == ["s1", "m2"]);
}

#[test]
fn a_member_that_left_is_not_back_with_the_next_leader() {
    let mut t = Two::new();
    assert_eq!(t.a.member(AGENTS, "PUT", "m1/cpu", ONE).0, 200);
    t.follow();
    // Its configuration is not made yet.
    assert_eq!(t.a.member(AGENTS, "DELETE", "m1/cpu", "").0, 200);
    assert_eq!(t.a.serving(), ["s1", "m1"]);
    t.follow();
    t.take_over(1_500);
    assert_eq!(t.b.serving(), ["s1"]);
    // Its number is not given to others before the switches were asked.
    let shown = t.b.get("/v1/members");
    assert_eq!(shown["members"][0]["state"], "leaving", "{shown}");
}

#[test]
fn a_member_that_is_held_out_is_so_with_the_next_leader() {
    let mut t = Two::new();
    for _ in 0..4 {
        assert_eq!(t.a.member(AGENTS, "PUT", "m1/cpu", ONE).0, 200);
        assert_eq!(t.a.member(AGENTS, "DELETE", "m1/cpu", "").0, 200);
    }
    t.a.pass(500);
    let held = t.a.member(AGENTS, "PUT", "m1/cpu", ONE).1;
    assert_eq!(held["state"], "held-out");
    let until = t.a.now + held["held_for_ms"].as_u64().unwrap_or_default();
    t.a.pass(3_500);
    t.follow();
    // What a member does that is held out is not worth a write each time.
    for _ in 0..2 {
        t.a.kept.clear();
        for method in ["DELETE", "PUT"] {
            assert_eq!(t.a.member(AGENTS, method, "m1/cpu", ONE).0, 200);
        }
    }
    assert!(t.a.kept.is_empty());
    t.take_over(8_000);
    let held = t.b.member(AGENTS, "PUT", "m1/cpu", ONE).1;
    let for_ms = held["held_for_ms"].as_u64().unwrap_or_default();
    let rest = until - t.b.now;
    assert!(held["state"] == "held-out" && for_ms.abs_diff(rest) < 1_000 && rest > 9_000, "{held} {rest}");
    for passed in (4_000..for_ms + 6_000).step_by(4_000) {
        t.b.pass(4_000);
        assert_eq!(t.b.member(AGENTS, "PUT", "m1/cpu", ONE).0, 200);
        match passed.abs_diff(for_ms) < 2_000 {
            true => {}
            false => assert_eq!(t.b.serving().len() == 2, passed > for_ms, "{passed} {for_ms}"),
        }
    }
    // It may come again.
    assert_eq!(t.b.member(AGENTS, "DELETE", "m1/cpu", "").0, 200);
    assert_eq!(t.b.member(AGENTS, "PUT", "m1/cpu", ONE).0, 200);
    t.b.pass(600);
    assert_eq!(t.b.serving(), ["s1", "m1"]);
}
