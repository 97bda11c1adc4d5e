//! Racks: policies, failures, determinism.

use crate::{balancer, load, run, run_with, scenarios};
use pointsman_balance::Policy;
use pointsman_balance::program::ServerDevices;
use pointsman_sim::outcome::Group;
use pointsman_sim::scenario;
use std::sync::Arc;

fn rack(policy: &str, rest: &str) -> String {
    format!(
        r#"
        name = "rack"
        duration_s = 3
        warmup_s = 0.5
        patience_s = 5
        rack = {{ servers = 8, policy = "{policy}", agent = {{ latency_ms = {{ high = 8, low = 4 }} }} }}

        [[device]]
        name = "cpu"
        kind = "cpu"
        weight = 6
        workers = 2
        service_time = {{ distribution = "exponential", mean_ms = 1 }}

        [[device]]
        name = "nic"
        kind = "smartnic"
        service_time = {{ distribution = "exponential", mean_ms = 3 }}

        [[client]]
        arrivals = {{ process = "poisson", rate_per_s = 4000 }}

        {rest}"#
    )
}

fn share(groups: &[Group], kind: &str) -> f64 {
    let all: f64 = groups.iter().map(|g| g.throughput_per_s).sum();
    groups.iter().find(|g| g.kind == kind).map_or(0.0, |g| g.throughput_per_s) / all
}

#[test]
fn policies_share_the_load() {
    for (policy, nic) in
        [("server-only", 0.0..0.001), ("ecmp", 0.45..0.55), ("wrr", 0.13..0.155), ("p4mite", 0.0..0.2)]
    {
        let outcome = run(&rack(policy, ""), 1);
        let got = share(&outcome.groups, "smartnic");
        assert!(nic.contains(&got), "{policy}: {got}");
        assert_eq!(outcome.requests.lost, 0, "{policy}");
    }
}

/// Each policy that a simulated rack can have fulfils the rack's promises, and loses nothing.
#[test]
fn every_policy() {
    for policy in Policy::ALL.into_iter().filter(|p| !matches!(p, Policy::ProbeWrr | Policy::Chosen)) {
        let outcome = run(&rack(policy.name(), ""), 3);
        println!("{policy}: {:.3} to SmartNICs", share(&outcome.groups, "smartnic"));
        assert_eq!(outcome.requests.lost, 0, "{policy}: {}", outcome.json());
        assert!(outcome.requests.sent > 9_000, "{policy}: {}", outcome.json());
    }
}

/// Servers with sixteen devices, as in `scenarios/`: every kind serves, and the same seed gives the same result.
#[test]
fn sixteen_devices() {
    let text = load("scenarios/sixteen-devices.toml").expect("there");
    let outcome = run(&text, 1);
    assert_eq!(outcome.requests.lost, 0);
    for kind in ["cpu", "gpu", "smartnic", "fpga"] {
        assert!(share(&outcome.groups, kind) > 0.02, "{}", outcome.json());
    }
    assert_eq!(outcome.json(), run(&text, 1).json());
}

/// The program for sixteen devices a server gives a smaller rack the same result as that for eight.
#[test]
fn the_program_for_more_devices_decides_alike() {
    for policy in ["wrr", "p4mite", "least-utilised", "dynamic-wrr", "prt", "jiq", "power-of-two"] {
        let scenario = &scenarios(&rack(policy, ""))[0];
        let [eight, sixteen] = [ServerDevices::Eight, ServerDevices::Sixteen].map(|devices| {
            let outcome = pointsman_sim::run(scenario, balancer(devices), 5, None);
            outcome.unwrap_or_else(|e| panic!("{e}")).json()
        });
        assert_eq!(eight, sixteen, "{policy}");
    }
}

/// Every request is answered, or its loss has a place; a failed server loses few requests.
#[test]
fn a_server_fails() {
    let events = r#"
        [[event]]
        at_s = 1
        action = "fail"
        device = "s3"
    "#;
    let outcome = run(&rack("wrr", events), 1);
    let r = &outcome.requests;
    assert!(r.lost > 100 && r.lost < r.sent / 8, "{r:?}");
    // 500 ms of silence and a round of polling, 500 requests per second.
    assert!((200..450).contains(&r.lost_at_devices), "{r:?}");
    assert_eq!(r.lost_on_links + r.lost_in_switch, 0, "{r:?}");
    // The failure is where it is expected in the run over time, and nothing is missing there.
    let t = &outcome.timeline;
    assert_eq!((t.sent.iter().sum::<u64>(), t.answered.iter().sum::<u64>()), (r.sent, r.answered));
    let begins = |i: usize| t.from_s + t.interval_s * i as f64;
    let with_loss: Vec<usize> = (0..t.sent.len()).filter(|i| t.answered[*i] < t.sent[*i]).collect();
    let (first, last) = (with_loss[0], with_loss[with_loss.len() - 1]);
    assert!((0.9..1.05).contains(&begins(first)) && (1.3..1.9).contains(&begins(last)), "{with_loss:?}");
    assert!(t.p99_ms[first + 1] == 5000.0 && t.p99_ms[last + 2] < 100.0, "{:?}", t.p99_ms);
    assert_eq!(outcome.happened, [(1.0, "failure of s3/cpu, s3/nic".to_owned())]);
    assert!(outcome.distribution.contains(&(99.0, outcome.latency.p99_ms)));
}

#[test]
fn losses_and_failures_of_links() {
    let rest = r#"
        [link]
        loss = 0.01
        [agents]
        loss = 0.1
        delay_ms = 2
        clock_skew_ppm = 100
        clock_offset_ms = 50000
        [[event]]
        at_s = 1
        action = "link-down"
        port = 2
        [[event]]
        at_s = 1.2
        action = "link-up"
        port = 2
        [[event]]
        at_s = 1.5
        action = "speed"
        device = "cpu"
        factor = 0.5
        [[event]]
        at_s = 2
        action = "policy"
        policy = "ecmp"
        [[event]]
        at_s = 2.2
        action = "weight"
        device = "nic"
        weight = 3
        [[event]]
        at_s = 2.5
        action = "load"
        factor = 0.5
    "#;
    let outcome = run(&rack("p4mite", rest), 2);
    let r = &outcome.requests;
    // Request and answer cross four links, two of them of clients, which are alike.
    let expected = 1.0 - 0.99f64.powi(4) + 0.2 / 2.5 / 8.0;
    assert!((r.lost as f64 / r.sent as f64 / expected - 1.0).abs() < 0.25, "{r:?}, expected {expected}");
}

/// An overloaded link fails for 10 ms: its queue is lost, so requests after it wait for nothing.
#[test]
fn a_link_that_failed_has_no_queue() {
    let text = r#"
        name = "down"
        duration_s = 4
        warmup_s = 2.1
        rack = { servers = 2, policy = "wrr" }
        [[device]]
        name = "cpu"
        kind = "cpu"
        workers = 16
        service_time = { distribution = "deterministic", mean_ms = 0.01 }
        [[client]]
        arrivals = { process = "steps", rates_per_s = [3000, 100], step_s = 2 }
        [client_link]
        rate_gbit_s = 0.001
    "#;
    let event = |at_s, action| format!("[[event]]\nat_s = {at_s}\naction = \"{action}\"\nport = 1\n");
    let failed = run(&format!("{text}{}{}", event(2.05, "link-down"), event(2.06, "link-up")), 1);
    assert_eq!(failed.requests.lost, 0, "{}", failed.json());
    assert!(failed.latency.p50_ms < 10.0 && failed.latency.max_ms < 100.0, "{:?}", failed.latency);
    // The queue without the failure.
    assert!(run(text, 1).latency.p50_ms > 1000.0);
}

/// Equal seeds give equal results to the last bit, other seeds others; other parts keep their draws.
#[test]
fn replay() {
    let all = scenarios(&format!("{}\n[sweep]\npolicy = [\"ecmp\", \"wrr\"]\n", rack("wrr", "")));
    let [ecmp, wrr] = all.as_slice() else { panic!("two points, not {}", all.len()) };
    let first = run_with(ecmp, 7, None).json();
    assert_eq!(first, run_with(ecmp, 7, None).json());
    assert_ne!(first, run_with(ecmp, 8, None).json());
    let sent = |json: &str| {
        serde_json::from_str::<serde_json::Value>(json).expect("JSON")["requests"]["sent"].clone()
    };
    assert_eq!(sent(&first), sent(&run_with(wrr, 7, None).json()), "clients do not know the policy");
}

/// Clients of both families, with connections that last and congestion on the way: the laws hold for all.
#[test]
fn clients_of_both_families() {
    let rest = r#"
        [[client]]
        ip = 6
        ecn = true
        connections = 50
        request_bytes = 1000
        arrivals = { process = "poisson", rate_per_s = 1000 }
        [[client]]
        ip = 6
        arrivals = { process = "near-constant", rate_per_s = 500 }
        [client_link]
        rate_gbit_s = 0.02
        ecn_kib = 0
        [[event]]
        at_s = 1
        action = "fail"
        device = "s3"
    "#;
    let outcome = run(&rack("wrr", rest), 4);
    let r = &outcome.requests;
    assert!(r.sent > 13_000 && r.lost < r.sent / 8 && r.lost_in_switch == 0, "{r:?}");
    assert!(r.congestion_marks > 100, "{r:?}");
}

/// The rack of the examples, with controllers that ask for MAC addresses.
#[test]
fn a_rack_from_a_file() {
    let text = r#"
        name = "file"
        duration_s = 1
        rack = { file = "examples/rack.toml" }
        [[device]]
        name = "cpu"
        service_time = { distribution = "exponential", mean_ms = 1 }
        [[device]]
        name = "s1/nic"
        service_time = { distribution = "deterministic", mean_ms = 3 }
        [[device]]
        name = "nic"
        service_time = { distribution = "deterministic", mean_ms = 5 }
        [[client]]
        ip = 6
        arrivals = { process = "poisson", rate_per_s = 100 }
        [[client]]
        arrivals = { process = "mmpp", state = [{ rate_per_s = 1000, mean_s = 0.1 }, { rate_per_s = 0, mean_s = 0.05 }] }
    "#;
    let outcome = run(text, 3);
    assert!(outcome.requests.answered > 300 && outcome.requests.lost == 0, "{}", outcome.json());
}

/// The controller asks a Prometheus server, and names the device that was used least: every device in turn, but none that has failed.
#[test]
fn the_controller_asks_prometheus() {
    let chosen = r#"policy = "chosen"
        prometheus = { url = "http://127.0.0.1:9090", interval_ms = 200, alternatives = { "s1/cpu" = "a", "s1/nic" = "b", "s2/nic" = "c" }, criterion = [{ name = "use", promql = "simulated_use_percent", goal = "cost", weight = 1 }] }
        #"#;
    let rack = load("examples/rack.toml").expect("the example").replace("policy = \"p4mite\"", chosen);
    let text = r#"
        name = "asked"
        duration_s = 9
        patience_s = 1
        rack = { file = "rack.toml" }
        prometheus = { scrape_s = 0.1, window_s = 1 }
        [[device]]
        name = "cpu"
        service_time = { distribution = "deterministic", mean_ms = 2 }
        [[device]]
        name = "nic"
        service_time = { distribution = "deterministic", mean_ms = 2 }
        [[client]]
        arrivals = { process = "poisson", rate_per_s = 100 }
        [[event]]
        at_s = 3
        action = "fail"
        device = "s1/cpu"
    "#;
    let read = |rack: &str| scenario::read("test.toml", text, &|_| Ok(rack.to_string()));
    let scenarios = read(&rack).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run_with(&Arc::new(scenarios[0].clone()), 1, None);
    assert_eq!(outcome.violations.first, Vec::<String>::new(), "{}", outcome.json());
    // One processor of three devices for a third of the time: about 100 requests. The other is not an alternative.
    let (cpu, nic) = (share(&outcome.groups, "cpu"), share(&outcome.groups, "smartnic"));
    assert!((0.06..0.18).contains(&cpu) && nic > 0.8, "{}", outcome.json());
    assert!(outcome.requests.lost < 80, "{}", outcome.json());
    let other = rack.replace("simulated_use_percent", "up");
    let refused = read(&other).expect_err("PromQL").to_string();
    assert!(refused.contains("has no metric `up`") && refused.contains("simulated_use_percent"), "{refused}");
}

fn over_tcp(client: &str, rest: &str) -> String {
    rack("wrr", rest).replace("[[client]]", &format!("[[client]]\ntransport = \"tcp\"\n{client}"))
}

/// Requests over TCP, a connection for each and over connections that last: everything is answered, from the devices that
/// connections belong to, although links lose segments, which are sent again.
#[test]
fn requests_over_tcp() {
    let without = run(&over_tcp("", ""), 1);
    let (r, udp) = (&without.requests, run(&rack("wrr", ""), 1));
    assert!(r.sent > 9_000 && r.lost == 0, "{r:?}");
    // A handshake, and the end of a connection.
    assert!(without.packets > 3 * udp.packets, "{} and {}", without.packets, udp.packets);
    assert!(without.latency.p50_ms > udp.latency.p50_ms, "{:?} {:?}", without.latency, udp.latency);
    let nic = share(&without.groups, "smartnic");
    assert!((0.13..0.155).contains(&nic), "{nic}");
    let lossy = run(&over_tcp("request_bytes = 1400", "[link]\nloss = 0.01"), 2);
    let r = &lossy.requests;
    assert!(r.lost * 200 < r.sent, "{r:?}");
    // One in 25 connections loses its SYN or the answer to it, which is sent again after a second; other segments are sent again sooner.
    assert!((1000.0..1100.0).contains(&lossy.latency.p99_ms), "{:?}", lossy.latency);
    let lasting = run(&over_tcp("ip = 6\nconnections = 64", "[link]\nloss = 0.002"), 3);
    let r = &lasting.requests;
    assert!(r.sent > 9_000 && r.lost * 100 < r.sent, "{r:?}");
    assert!(lasting.packets < without.packets, "{} and {}", lasting.packets, without.packets);
}

/// Connections end with their server; its unanswered requests are lost with them, and nothing else.
#[test]
fn a_server_fails_over_tcp() {
    let events = "[[event]]\nat_s = 1\naction = \"fail\"\ndevice = \"s3\"";
    let outcome = run(&over_tcp("", events), 1);
    let r = &outcome.requests;
    assert!(r.lost > 20 && r.lost < r.sent / 8, "{r:?}");
    assert_eq!(r.lost_at_devices + r.lost_on_links + r.lost_in_switch, 0, "{r:?}");
    let first = run(&over_tcp("", ""), 9).json();
    assert_eq!(first, run(&over_tcp("", ""), 9).json(), "the same again");
}
