//! Policies changed through the API while connections continue: on the real data plane, packet by packet between its writes.

use super::world::{CLIENT, SWITCH_MAC, VIP, World, example, host_mac, with_keys};
use pointsman_balance::api::{Desk, Tokens};
use pointsman_balance::controller::{Input, Status};
use pointsman_balance::{DeviceNumber, Policy};
use pointsman_control::{ConnId, Server, ServerConfig};
use pointsman_testkit::packet::Packet;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const POLICY: &str = "/v1/services/inference/policy";

/// Clients with connections: each one stays with its first device.
#[derive(Default)]
struct Clients {
    went: BTreeMap<u16, u16>,
}

impl Clients {
    /// A new connection, and one of those that exist.
    fn ask(&mut self, w: &mut World, when: &str) -> u16 {
        let new = 2000 + self.went.len() as u16;
        let port = w.ask(new);
        self.went.insert(new, port);
        let old = 2000 + (u32::from(new) * 7919 % self.went.len() as u32) as u16;
        assert_eq!(w.ask(old), self.went[&old], "connection {old} moved {when}");
        port
    }

    /// All that exist.
    fn ask_all(&self, w: &mut World, when: &str) {
        for (client, port) in &self.went {
            assert_eq!(w.ask(*client), *port, "connection {client} moved {when}");
        }
    }
}

/// Changes the policy, with packets between any two messages of controller and switch: nothing is lost, nothing moves. Returns the
/// change, and how many messages there were.
fn change(w: &mut World, clients: &mut Clients, body: &str) -> (Value, usize) {
    w.hold = true;
    let (status, change) = w.api("PUT", POLICY, body);
    assert_eq!(status, 202, "{body}: {change}");
    let mut messages = 0;
    loop {
        for _ in 0..3 {
            clients.ask(w, body);
        }
        let Some(input) = w.inbox.pop_front() else { break };
        messages += 1;
        w.input(input);
    }
    w.hold = false;
    w.run_for(Duration::from_millis(1));
    (w.outcome(&change), messages)
}

#[test]
fn changes_under_traffic() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    let mut clients = Clients::default();
    let mut bodies: Vec<String> =
        Policy::ALL.iter().map(|p| json!({ "policy": p.name() }).to_string()).collect();
    bodies.extend(
        [
            r#"{"block": "min-finder", "metric": "cpu"}"#,
            r#"{"block": "round-robin", "weights": {"s1/cpu": 1, "s2/cpu": 1}}"#,
            r#"{"block": "round-robin", "metric": "memory", "servers": "least-loaded"}"#,
            r#"{"block": "priority", "metric": "cpu", "high": 80, "low": 60, "priorities": {"s1/nic": 0}}"#,
            r#"{"block": "choices", "choices": 3, "servers": "power-of-two"}"#,
        ]
        .map(String::from),
    );
    for body in &bodies {
        let (outcome, messages) = change(&mut w, &mut clients, body);
        assert_eq!(outcome["outcome"], "in-force", "{body}: {outcome}");
        // New entries, the switch-over and deletions are separate requests, unless nothing is different.
        let writes = outcome["writes"].as_u64().expect("a number");
        assert!(
            messages >= 3 || writes == 0 || body.contains("weights"),
            "{body}: {messages} messages, {writes} writes"
        );
    }
    clients.ask_all(&mut w, "in the end");
    let (_, list) = w.api("GET", "/v1/changes?limit=1000", "");
    assert_eq!(list["changes"].as_array().map(Vec::len), Some(bodies.len()));
    // New connections follow the weights that were asked for: 3:1 in each server, both alike.
    change(&mut w, &mut clients, r#"{"block": "round-robin", "weights": {"s1/cpu": 3, "s2/cpu": 3}}"#);
    let mut shares: BTreeMap<u16, usize> = BTreeMap::new();
    for _ in 0..400 {
        *shares.entry(clients.ask(&mut w, "under weights")).or_default() += 1;
    }
    let of = |port: u16| shares.get(&port).copied().unwrap_or(0);
    for (cpu, nic) in [(2, 3), (4, 5)] {
        let share = of(cpu) as f64 / (of(cpu) + of(nic)) as f64;
        assert!((share - 0.75).abs() < 0.02, "{shares:?}");
    }
}

#[test]
fn a_dry_run_writes_nothing_and_tells_what_comes() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    let held = w.controller.entries().clone();
    let body = r#"{"block": "min-finder", "metric": "cpu"}"#;
    let (status, dry) = w.api("PUT", &format!("{POLICY}?dry_run=true&limit=5000"), body);
    assert_eq!(status, 200, "{dry}");
    assert_eq!((dry["controller"].as_str(), &dry["shown"]), (Some("in-sync"), &dry["total"]));
    w.run_for(Duration::from_secs(1));
    assert_eq!((w.controller.entries(), w.desk.history().iter().count()), (&held, 0));
    // The requests are text that any P4Runtime tool reads, and equal the writes.
    let mut switch_over = Vec::new();
    for step in dry["steps"].as_array().expect("steps") {
        let text = step["write_request"].as_str().expect("text");
        let request: pointsman_control::proto::p4rt::WriteRequest =
            pointsman_control::text::from_text(text).expect("a request");
        assert_eq!(
            (request.updates.len() as u64, request.device_id),
            (step["total"].as_u64().expect("a number"), 1)
        );
        let names = step["updates"].as_array().expect("updates");
        if names.iter().all(|u| u.as_str().is_some_and(|u| u.starts_with("modify services_"))) {
            switch_over.push(names.len());
        }
    }
    assert_eq!(switch_over, [4], "one write for each address and protocol of the service: {dry}");
    let (_, change) = w.api("PUT", POLICY, body);
    w.run_for(Duration::from_millis(10));
    assert_eq!(w.outcome(&change)["writes"], dry["total"]);
    let (_, again) = w.api("PUT", &format!("{POLICY}?dry_run"), body);
    assert_eq!(again["total"], 0);
    // Before the switch was reached all entries would be written; keys are secrets, and are only counted.
    w.controller = World::controller(w.desk.rack());
    let (_, all) = w.api("PUT", &format!("{POLICY}?dry_run&limit=20000"), body);
    let text = all.to_string();
    assert!(text.contains("insert report_keys[") && text.contains("keys of agents are not shown"), "{text}");
    let updates = |step: &serde_json::Value| step["updates"].as_array().map_or(0, Vec::len);
    let steps = all["steps"].as_array().expect("steps");
    let shown: usize =
        steps.iter().map(|s| s["write_request"].as_str().map_or(0, |t| t.matches("updates {").count())).sum();
    assert_eq!(steps.iter().map(updates).sum::<usize>() - shown, 4, "a key for each device");
}

/// The switch gets the requested setting, whatever happens in between.
#[test]
fn changes_survive_disturbances() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    let mut clients = Clients::default();
    for _ in 0..20 {
        clients.ask(&mut w, "at first");
    }

    // The connection is lost between two writes of a change.
    w.hold = true;
    let (_, first) = w.api("PUT", POLICY, r#"{"policy": "wrr"}"#);
    w.inbox.clear();
    let _ = w.server.connection_closed(ConnId(1));
    w.input(Input::Disconnected("cut".into()));
    assert_eq!(w.outcome(&first)["outcome"], "pending");
    assert!(w.outcome(&first)["reason"].as_str().is_some_and(|r| r.contains("cut")));
    // Another one without a connection.
    let (status, second) = w.api("PUT", POLICY, r#"{"policy": "least-connections"}"#);
    assert_eq!((status, w.controller.status()), (202, Status::Disconnected));
    clients.ask_all(&mut w, "without a controller");
    w.hold = false;
    w.run_for(Duration::from_secs(2));
    assert_eq!(w.outcome(&first)["outcome"], "superseded");
    assert_eq!(w.outcome(&second)["outcome"], "in-force");
    clients.ask_all(&mut w, "after the reconnection");

    // The controller restarts: with the saved state it finds nothing to do, and connections are unaffected.
    let held = w.controller.entries().clone();
    let rack = with_keys(&example());
    w.desk = Desk::new(rack.clone(), Tokens::parse("ops 0123456789abcdef0123").expect("valid"));
    let effects = w.desk.restore(w.unix_ms(), &w.kept.clone()).expect("the saved state");
    assert_eq!(effects, []);
    w.controller = World::controller(w.desk.rack());
    w.inbox.clear();
    let outputs = w.server.connection_closed(ConnId(1));
    w.deliver(outputs);
    w.run_for(Duration::from_secs(1));
    assert_eq!((w.controller.status(), w.controller.entries()), (Status::InSync, &held));
    clients.ask_all(&mut w, "after the controller's restart");

    // The switch restarts with nothing in it: it gets the policy that was asked for, not the file's.
    w.switch = World::switch();
    w.server = Server::new(ServerConfig::default());
    w.inbox.clear();
    w.input(Input::Disconnected("the switch restarts".into()));
    w.run_for(Duration::from_secs(5));
    assert_eq!(w.controller.status(), Status::InSync);
    assert_eq!(w.controller.rack().services[0].policy, Policy::LeastConnections);
    let (_, shown) = w.api("GET", POLICY, "");
    assert_eq!((&shown["policy"]["policy"], &shown["source"]), (&json!("least-connections"), &json!("api")));

    // Without the saved state, the file decides.
    w.controller = World::controller(&rack);
    w.inbox.clear();
    let outputs = w.server.connection_closed(ConnId(1));
    w.deliver(outputs);
    w.run_for(Duration::from_secs(2));
    assert_eq!(w.controller.rack().services[0].policy, Policy::P4mite);
    assert_eq!(w.controller.status(), Status::InSync);
    assert!(w.controller.rack().device(DeviceNumber::new(1, 0)).is_some());
}

/// Samples of the last hour have the rate of dropped packets. Accepted reports, which a cell of the same counter counts, are not in it.
#[test]
fn drops_of_the_last_hour() {
    let mut w = World::new();
    for _ in 0..70 {
        for client in [7001, 7002] {
            let lost = Packet::udp(format!("{CLIENT}:{client}"), format!("{VIP}:1"), *b"no service");
            w.wire.push_back((1, lost.macs(host_mac(1), SWITCH_MAC).bytes()));
        }
        w.run_for(Duration::from_secs(1));
    }
    let (_, trend) = w.api("GET", "/v1/trend", "");
    let rates: Vec<&Value> =
        trend["samples"].as_array().expect("samples").iter().map(|s| &s["dropped_per_s"]).collect();
    assert_eq!(rates, [&Value::Null, &json!(2.0), &json!(2.0)]);
    assert_eq!(w.controller.unavailable().len(), 0, "all devices report");
}
