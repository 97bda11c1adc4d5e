//! Racks behind several switches: stations use the first that has power.

use crate::{load, run, run_with};
use pointsman_sim::{Outcome, scenario};
use std::sync::Arc;

/// Two switches; agents or none.
fn rack(agents: bool, client: &str, rest: &str) -> String {
    format!(
        r#"
        name = "switches"
        duration_s = 3
        patience_s = 2
        agents = {{ enabled = {agents} }}
        rack = {{ servers = 4, switches = 2, policy = "wrr", idle_timeout_ms = 2000 }}

        [[device]]
        name = "cpu"
        kind = "cpu"
        weight = 6
        workers = 4
        service_time = {{ distribution = "exponential", mean_ms = 1 }}

        [[device]]
        name = "nic"
        kind = "smartnic"
        workers = 2
        service_time = {{ distribution = "exponential", mean_ms = 4 }}

        [[client]]
        arrivals = {{ process = "poisson", rate_per_s = 1000 }}
        connections = 200
        {client}

        [[client]]
        arrivals = {{ process = "poisson", rate_per_s = 1000 }}
        {client}

        {rest}"#
    )
}

/// An event at a switch.
fn power(at_s: f64, what: &str, switch: u32) -> String {
    format!("[[event]]\nat_s = {at_s}\naction = \"switch-{what}\"\nswitch = {switch}\n")
}

fn packets(outcome: &Outcome) -> [u64; 2] {
    let all: Vec<u64> = outcome.switches.iter().map(|s| s.packets).collect();
    all.try_into().expect("two switches")
}

/// The scenario with a warm-up: only requests after it count as lost.
fn after(warmup_s: f64, text: &str) -> String {
    text.replace("patience_s = 2", &format!("patience_s = 2\nwarmup_s = {warmup_s}"))
}

/// Both switches are filled; the first does all the work, the second sees no packet.
#[test]
fn nothing_fails() {
    for agents in [false, true] {
        let outcome = run(&rack(agents, "", ""), 1);
        let r = &outcome.requests;
        assert!(r.sent > 5_000 && r.lost == 0, "{r:?}");
        assert_eq!((packets(&outcome)[1], outcome.moved_connections), (0, 0), "{}", outcome.json());
    }
}

/// Without agents: all packets come to the first switch until it loses power, and all later ones to the second. Those on their way
/// are lost, and nothing else.
#[test]
fn a_switch_loses_power() {
    let text = rack(false, "", &power(1.0, "down", 1));
    let before = run(&rack(false, "", "").replace("duration_s = 3", "duration_s = 1"), 1);
    let outcome = run(&text, 1);
    let (r, [first, second]) = (&outcome.requests, packets(&outcome));
    assert!(first <= before.packets && first + 20 > before.packets, "{first} of {}", before.packets);
    let later = 2 * (r.sent - before.requests.sent);
    assert!((later..later + 20).contains(&second), "{second} of {later}");
    assert!((1..20).contains(&r.lost), "{r:?}");
    // 200 connections, a fifth of them or so with other devices, and those that were new.
    assert!((10..150).contains(&outcome.moved_connections), "{}", outcome.json());
    assert_eq!(run(&after(1.001, &text), 1).requests.lost, 0);
    assert_eq!(outcome.json(), run(&text, 1).json(), "the same again");
}

/// With agents, whose reports take the same way. When power returns, the first switch has carriers at once, but no program until its
/// controller has connected again.
#[test]
fn power_returns() {
    let text = rack(true, "", &(power(1.0, "down", 1) + &power(2.0, "up", 1)));
    let outcome = run(&text, 1);
    let (r, [first, second]) = (&outcome.requests, packets(&outcome));
    assert!((3_500..4_500).contains(&second) && first > second, "{first} and {second}");
    assert!(r.lost_in_switch > 0 && r.lost == r.lost_in_switch + r.lost_on_links, "{r:?}");
    // It waits for up to 400 ms.
    assert_eq!(run(&after(2.42, &text), 1).requests.lost, 0);
    let without = rack(true, "", &power(1.0, "down", 1)).replace("duration_s = 3", "duration_s = 1.9");
    let second = run(&after(1.001, &without), 1);
    assert!(second.requests.sent > 1_700 && second.requests.lost == 0, "{}", second.json());
}

/// Both fail, one after the other, twice: nothing works while both have no power, and everything afterwards.
#[test]
fn both_switches_lose_power() {
    let events = [
        (0.5, "down", 2),
        (1.0, "down", 1),
        (1.2, "up", 2),
        (2.0, "down", 2),
        (2.1, "up", 1),
        (2.1, "up", 1),
    ];
    let events: String = events.map(|(at, what, switch)| power(at, what, switch)).concat();
    let outcome = run(&rack(true, "", &events), 3);
    let r = &outcome.requests;
    // 200 and 100 ms without any, and twice the time until a controller has connected.
    assert!(r.lost_on_links > 500 && (600..2_400).contains(&r.lost), "{r:?}");
    assert_eq!(run(&after(2.6, &rack(true, "", &events)), 3).requests.lost, 0);
}

/// A rack's only switch: its connections may get other devices afterwards.
#[test]
fn the_only_switch_loses_power() {
    let events = (power(1.0, "down", 1) + &power(1.2, "up", 1)).replace("switch = 1\n", "");
    let text = rack(true, "", &events).replace("switches = 2, ", "");
    let outcome = run(&text, 2);
    let r = &outcome.requests;
    assert!(r.lost_on_links > 350 && r.lost_in_switch > 0 && outcome.moved_connections > 0, "{r:?}");
    assert_eq!(run(&after(1.62, &text), 2).requests.lost, 0);
    assert!(!outcome.json().contains("moved_connections"), "{}", outcome.json());
}

/// All links of one switch are interrupted while it keeps its power, and its state: stations leave it, and when they return,
/// connections do not move again.
#[test]
fn all_links_of_a_switch() {
    let link = |at: f64, what: &str| {
        format!("[[event]]\nat_s = {at}\naction = \"link-{what}\"\nport = [1, 2, 3, 4, 5, 6]\nswitch = 1\n")
    };
    let text = rack(true, "", &(link(1.0, "down") + &link(2.0, "up")));
    let outcome = run(&text, 1);
    let (r, second) = (&outcome.requests, packets(&outcome)[1]);
    assert!((3_500..4_500).contains(&second) && (1..40).contains(&r.lost), "{second}, {r:?}");
    let standby = run(&rack(true, "", &link(1.0, "down").replace("switch = 1", "switch = 2")), 1);
    assert_eq!((standby.requests.lost, packets(&standby)[1]), (0, 0), "{}", standby.json());
    let none = run(&rack(true, "", &link(1.0, "down").replace("switch = 1", "")), 1);
    assert!(none.requests.lost_on_links > 3_500, "{}", none.json());
}

/// Connections over TCP end with the switch that knew them; clients open others.
#[test]
fn connections_over_tcp() {
    let text = rack(true, "transport = \"tcp\"", &power(1.0, "down", 1));
    let outcome = run(&text, 5);
    let r = &outcome.requests;
    // Each of 200 connections loses the request that finds out, with those that wait at its device.
    assert!((100..600).contains(&r.lost) && r.lost == r.lost_with_connections, "{r:?}");
    assert_eq!(outcome.json(), run(&text, 5).json(), "the same again");
}

/// A rack from a file, with neighbours whose MAC addresses both controllers ask for: every switch gets the answer to its own
/// question.
#[test]
fn a_rack_from_a_file() {
    let file = load("examples/rack.toml").expect("the example");
    let one = "p4runtime = \"127.0.0.1:9559\"";
    assert!(file.contains(one), "{file}");
    let file = file.replace(one, "p4runtime = [\"127.0.0.1:9559\", \"10.9.9.9:9559\"]");
    let text = r#"
        name = "file"
        duration_s = 2
        rack = { file = "rack.toml" }
        [[device]]
        name = "cpu"
        service_time = { distribution = "exponential", mean_ms = 1 }
        [[device]]
        name = "nic"
        service_time = { distribution = "deterministic", mean_ms = 3 }
        [[client]]
        arrivals = { process = "poisson", rate_per_s = 500 }
        [[event]]
        at_s = 1
        action = "switch-down"
        switch = 1
    "#;
    let read = scenario::read("test.toml", text, &|_| Ok(file.clone())).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run_with(&Arc::new(read[0].clone()), 1, None);
    assert_eq!(outcome.violations.first, Vec::<String>::new(), "{}", outcome.json());
    assert!(outcome.requests.lost < 10 && packets(&outcome)[1] > 900, "{}", outcome.json());
    assert_eq!(outcome.switches[1].p4runtime, "10.9.9.9:9559");
}

/// A learner's switch loses its power, and with it the counters that the learner reads.
#[test]
fn a_learner_goes_on() {
    let events = power(5.2, "down", 1) + &power(5.4, "up", 1);
    let learn = "[learn]\nlearner = \"q-learning\"\n";
    let text = rack(true, "", &(events + learn))
        .replace("switches = 2, ", "")
        .replace("duration_s = 3", "duration_s = 9");
    let outcome = run(&text, 1);
    assert_eq!(outcome.learning.map(|l| l.steps.len()), Some(8));
}

/// The scenario of the repository.
#[test]
fn two_switches() {
    let outcome = run(&load("scenarios/two-switches.toml").expect("there"), 1);
    let (r, [first, second]) = (&outcome.requests, packets(&outcome));
    assert!(r.lost * 20 < r.sent && first > second && second > 1_500, "{}", outcome.json());
}
