//! Networks of leaves and spines on the engine, with their controller.

use super::load;
use pointsman_engine::Engine;
use pointsman_fabric::{Choice, Scheme};
use pointsman_ir::Executor;
use pointsman_net::Loader;
use pointsman_sim::DataPlane;
use pointsman_sim::network::{self, NetworkOutcome, NetworkScenario};
use pointsman_sim::outcome::Requests;
use pointsman_v1model::{Keep, Pipeline, Switch, SwitchConfig, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Plane = Arc<DataPlane<Engine>>;

/// The program of a scheme.
fn program(scheme: &'static Scheme) -> Plane {
    static ALL: Mutex<BTreeMap<&str, Plane>> = Mutex::new(BTreeMap::new());
    ALL.lock().expect("no panic").entry(scheme.name).or_insert_with(|| plane(scheme.program)).clone()
}

/// What switches with a program of this text run.
pub fn plane(text: &str) -> Plane {
    let compiled = pointsman_frontend::compile("main.p4", text, &super::Repository, &[]);
    let compiled = compiled.unwrap_or_else(|e| panic!("{:?}", e.diagnostics)).program;
    let p4info = pointsman_control::p4info::p4info(&compiled).expect("it has a P4Info");
    let program = pointsman_session::Program { p4info, device_config: text.into() };
    Arc::new(DataPlane::new(program, Arc::new(compiled)))
}

/// The scenario at every point of its sweep.
pub fn points(text: &str) -> Result<Vec<NetworkScenario>, String> {
    network::read("test.toml", text, &load).map_err(|e| e.to_string())
}

pub fn read(text: &str) -> Result<NetworkScenario, String> {
    assert!(network::is_network("test.toml", text));
    points(text).map(|mut points| points.remove(0))
}

pub fn run(text: &str, seed: u64) -> NetworkOutcome {
    let scenario = read(text).unwrap_or_else(|e| panic!("{e}"));
    let outcome =
        network::run(&scenario, &*program(scenario.choice.scheme), seed).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(outcome.violations.first, Vec::<String>::new(), "{}", outcome.json());
    outcome
}

pub const NETWORK: &str = "name = \"test\"\nduration_s = 0.2\n\
    [network.leaf_spine]\nleaves = 3\nspines = 3\nhosts_per_leaf = 2\n\
    [traffic]\narrivals = { process = \"poisson\", rate_per_s = 10000 }\nflows = 512\n";

pub fn requests(outcome: &NetworkOutcome) -> Requests {
    outcome.requests.expect("requests")
}

/// Packets through the port of a switch.
pub fn packets(outcome: &NetworkOutcome, switch: &str, port: u16) -> u64 {
    let (_, ports) = outcome.switches.iter().find(|(name, _)| name == switch).expect("a switch");
    ports.iter().find(|(p, _)| *p == port).expect("a port").1.packets
}

#[test]
fn all_paths_are_used_and_nothing_is_lost() {
    let outcome = run(NETWORK, 1);
    let requests = requests(&outcome);
    assert!((11_000..13_000).contains(&requests.sent), "{requests:?}");
    assert_eq!((requests.lost, outcome.strays), (0, 0));
    assert!(outcome.spread_percent.is_some_and(|s| s < 5.0), "{:?}", outcome.spread_percent);
    // Spines carry requests and answers between leaves: four fifths of all pairs, each way.
    let over_spines: u64 = (1..=3)
        .flat_map(|s| (1..=3).map(move |p| (s, p)))
        .map(|(s, port)| packets(&outcome, &format!("spine{s}"), port))
        .sum();
    let share = over_spines as f64 / (2 * requests.sent) as f64;
    assert!((0.79..0.81).contains(&share), "{share}");
    let again = run(NETWORK, 1);
    assert_eq!(again.json(), outcome.json());
    assert_ne!(run(NETWORK, 2).latency, outcome.latency);
}

/// Packets of a cut link are lost until the switches know of it; then others carry its flows, until it comes back.
#[test]
fn a_link_is_cut_and_restored() {
    let event = |at: f64, action: &str| {
        format!("[[event]]\nat_s = {at}\naction = \"{action}\"\nlink = \"leaf1-spine1\"\n")
    };
    let cut = format!("{NETWORK}{}", event(0.05, "link-down"));
    let lost = run(&cut, 1);
    // News take 1.2 ms, and a write 0.2 ms: of some 12,000 requests, about 80 meet the cut link in that time.
    assert!((1..200).contains(&requests(&lost).lost), "{:?}", requests(&lost));
    assert!(lost.drops.values().sum::<u64>() + lost.on_links.down > 0);
    let restored = run(&format!("{cut}{}", event(0.1, "link-up")), 1);
    let (before, after) = (packets(&lost, "leaf1", 3), packets(&restored, "leaf1", 3));
    assert!(after > 2 * before, "{before} packets without, {after} with a restored link");
    // A leaf may hear of the link before its spine has routes again: a notice, and the leaf avoids it for 10 of the last 100 ms.
    assert!(restored.spread_percent.is_some_and(|s| s < 8.0), "{:?}", restored.spread_percent);
}

/// The shipped file: sixteen hosts under four leaves, and a link that is cut from the fourth to the sixth second.
#[test]
fn the_leaf_spine_of_the_scenarios() {
    let outcome = run(&load("scenarios/leaf-spine.toml").expect("the file"), 1);
    let requests = requests(&outcome);
    assert!((39_000..41_000).contains(&requests.sent) && requests.lost <= 5, "{requests:?}");
    assert!(outcome.spread_percent.is_some_and(|s| s < 5.0), "{:?}", outcome.spread_percent);
    let line: serde_json::Value = serde_json::from_str(&outcome.json()).expect("JSON");
    let switches = line["network"]["switches"].as_array().expect("switches");
    assert_eq!(switches.len(), 8);
    for switch in switches {
        let ports = switch["ports"].as_array().expect("ports");
        assert_eq!(
            ports.len(),
            if switch["name"].as_str().is_some_and(|n| n.starts_with("leaf")) { 8 } else { 4 }
        );
        for port in ports {
            assert!(["port", "packets", "bytes", "drops"].iter().all(|key| port[*key].is_u64()), "{port}");
        }
    }
}

#[test]
fn a_host_that_is_cut_off_takes_no_other_with_it() {
    let text = format!("{NETWORK}[[event]]\nat_s = 0\naction = \"link-down\"\nlink = \"h1-leaf1\"\n");
    let outcome = run(&text, 1);
    // Its own requests, and a fifth of all others'.
    let share = requests(&outcome).lost as f64 / requests(&outcome).sent as f64;
    assert!((0.32..0.35).contains(&share), "{share}");
    // A lost request counts as its time-out.
    assert_eq!((outcome.latency.p99_ms, outcome.latency.max_ms), (1000.0, 1000.0));
    assert!(outcome.latency.p50_ms < 1.0, "{:?}", outcome.latency);
    let line: serde_json::Value = serde_json::from_str(&outcome.json()).expect("JSON");
    assert_eq!(line["requests"]["loss_percent"], 100.0 * share);
}

#[test]
fn bad_scenarios() {
    for (from, to, part) in [
        ("[traffic]", "[trafic]", "test.toml:1:1: traffic: missing"),
        ("flows = 512", "flows = 0", "traffic.flows: 0 is out of range"),
        ("rate_per_s = 10000", "rate_per_s = 1e12", "GiB of memory"),
        ("leaves = 3", "leaves = 1\n", "network.leaf_spine"),
        ("duration_s = 0.2", "duration_s = 0", "duration_s"),
        (
            "hosts_per_leaf = 2",
            "hosts_per_leaf = 2\nfabric_link = { loss = 1.0 }",
            "network.leaf_spine.fabric_link.loss: a link that",
        ),
        (
            "hosts_per_leaf = 2",
            "hosts_per_leaf = 2\nhost_link = { queue_kib = 0.1 }",
            "network: the queue of h1-leaf1 has 102 bytes, and a packet takes 106: write a larger `queue_kib`",
        ),
    ] {
        let text = NETWORK.replace(from, to);
        let error = match read(&text) {
            Err(error) => error,
            // One leaf is a network.
            Ok(s) => {
                assert_eq!((part, s.topology.hosts().len()), ("network.leaf_spine", 2));
                continue;
            }
        };
        assert!(error.contains(part), "{part}: {error}");
    }
    let event = "[[event]]\nat_s = 0.1\naction = \"link-down\"\nlink = \"leaf1-spine9\"\n";
    assert!(
        read(&format!("{NETWORK}{event}")).is_err_and(|e| e.contains("event.link: no link `leaf1-spine9`"))
    );
    let late = event.replace("spine9", "spine1").replace("0.1", "1.2");
    let told = read(&format!("{NETWORK}{late}")).expect_err("after the end");
    assert!(
        told.contains("event.at_s: 1.2 s is not before the end, 1.2 s (`duration_s` and `patience_s`)"),
        "{told}"
    );
    let scenario = read(NETWORK).expect("good");
    let plane = program(scenario.choice.scheme);
    let mut other = plane.program.clone();
    other.p4info.tables.clear();
    let refused = network::run(&scenario, &DataPlane::<Engine>::new(other, plane.compiled.clone()), 1);
    assert!(refused.is_err_and(|e| e.to_string().contains("no table `EcmpIngress.switch_config`")));
}

/// Four switches in a ring, each with a host: none is above another.
#[test]
fn schemes_that_climb_need_something_to_climb() {
    let mut ring = String::from("name = \"ring\"\nduration_s = 0.01\n[network]\n");
    for n in 0..4 {
        ring += &format!("[[network.switch]]\nname = \"s{n}\"\n");
        ring += &format!("[[network.host]]\nname = \"h{n}\"\naddress = \"10.0.{n}.2\"\n");
        ring += &format!("[[network.link]]\nends = [\"h{n}\", \"s{n}:1\"]\n");
        ring += &format!("[[network.link]]\nends = [\"s{n}:2\", \"s{}:3\"]\n", (n + 1) % 4);
    }
    ring += "[traffic]\narrivals = { process = \"poisson\", rate_per_s = 100 }\n";
    assert!(read(&ring).is_ok());
    for scheme in pointsman_fabric::SCHEMES {
        let found = read(&format!("{ring}[scheme]\nname = \"{}\"\n", scheme.name)).map(|_| ());
        let swept = points(&format!("{ring}[sweep]\nscheme = [\"ecmp\", \"{}\"]\n", scheme.name)).map(|_| ());
        let message = format!("`{}` chooses among links to switches without hosts", scheme.name);
        let refused = |found: &Result<(), String>, field| {
            found.as_ref().is_err_and(|e| e.contains(&format!("{field}: {message}")))
        };
        if ["hula", "conga", "ours"].contains(&scheme.name) {
            assert!(refused(&found, "scheme.name") && refused(&swept, "sweep.scheme"), "{found:?} {swept:?}");
        } else {
            assert_eq!(found, Ok(()), "{}", scheme.name);
        }
    }
}

/// HULA's table of next hops has an entry for each other leaf and each spine: 16,384 fit.
#[test]
fn tables_that_are_too_small() {
    for (leaves, spines, fits) in [(129, 128, true), (130, 128, false), (130, 130, false)] {
        let text = NETWORK.replace(
            "leaves = 3\nspines = 3\nhosts_per_leaf = 2",
            &format!("leaves = {leaves}\nspines = {spines}\nhosts_per_leaf = 1"),
        ) + "[scheme]\nname = \"hula\"\n";
        let scenario = read(&text).unwrap_or_else(|e| panic!("{e}"));
        let found = network::check(&scenario, &*program(scenario.choice.scheme)).map_err(|e| e.to_string());
        let entries = (leaves - 1) * spines;
        let message = format!(
            "network: leaf1 needs {entries} entries in the table `HulaIngress.hops`, which has room for 16384"
        );
        match fits {
            true => assert_eq!(found, Ok(())),
            false => assert!(found.as_ref().is_err_and(|e| e.starts_with(&message)), "{found:?}"),
        }
    }
}

/// Also those of packets that wait, are recirculated or generated, although nothing calls `Executor::complete` in a simulation.
#[test]
fn all_passes_are_native_code() {
    let plane = program(Choice::named("hula").expect("a scheme").scheme);
    let made = Arc::new(Mutex::new(None));
    let (load, keep) = (Loader::<Engine>::default().load(), made.clone());
    let load = move |program: Arc<_>, slots: &[_], known: &_| {
        let engine = load(program, slots, known)?;
        *keep.lock().expect("no panic") = Some(engine.clone());
        Ok(engine)
    };
    let mut switch = Switch::with_shared(SwitchConfig::default(), load).expect("a switch");
    let pipeline = Pipeline::load(plane.compiled.clone()).expect("a pipeline");
    switch.set_pipeline(Time(0), pipeline, Keep::Nothing).expect("it runs");
    let engine = made.lock().expect("no panic").take().expect("it was made");
    let native: Vec<bool> = (0..5).map(|pass| engine.passes(pass)).collect();
    assert_eq!(native, [true; 5]);
}
