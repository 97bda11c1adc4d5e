//! `pointsman sim --lab` with a network: switches, hosts and cables of this machine.

use crate::support::{Scratch, pointsman};
use pointsman_lab::harness::Test;
use serde_json::Value;

pub const TESTS: &[(&str, Test)] = &[
    ("a_network_on_this_machine", a_network_on_this_machine),
    ("flows_on_this_machine", flows_on_this_machine),
    ("full_frames_with_a_header_of_the_fabric", full_frames_with_a_header_of_the_fabric),
];

const SCENARIO: &str = "name = \"lab\"\nduration_s = 2\n\
    [network.leaf_spine]\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
    [traffic]\narrivals = { process = \"poisson\", rate_per_s = 200 }\nflows = 256\n\
    [[event]]\nat_s = 0.8\naction = \"link-down\"\nlink = \"leaf1-spine1\"\n\
    [[event]]\nat_s = 1.2\naction = \"link-up\"\nlink = \"leaf1-spine1\"\n";

/// Both uplinks are used, a cut link costs what is on its way, and the checkers find nothing. How many requests are answered in time
/// depends on the machine; most are.
fn a_network_on_this_machine() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Scratch::new("network-lab");
    let (scenario, json) = (dir.path("net.toml"), dir.path("net.jsonl"));
    std::fs::write(&scenario, SCENARIO).expect("it is our folder");
    let output = pointsman(&["sim", &scenario, "--lab", "--json", &json]).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&json).expect("the file is there");
    let result: Value = serde_json::from_str(text.trim()).expect("JSON");
    assert_eq!(result["checks"]["violations"], 0, "{result}");
    let number = |name: &str| result["requests"][name].as_u64().expect("a number");
    assert!(number("sent") > 1000 && number("answered") > number("sent") * 3 / 4, "{result}");
    let sent_on = |switch: usize, port: u64| -> u64 {
        let ports = result["network"]["switches"][switch]["ports"].as_array().expect("a list");
        let found = ports.iter().find(|p| p["port"] == port).expect("a port");
        found["packets"].as_u64().expect("a number")
    };
    for leaf in 0..2 {
        assert!(sent_on(leaf, 3) > 100 && sent_on(leaf, 4) > 100, "{result}");
    }
    assert!(sent_on(0, 4) > sent_on(0, 3), "the uplink that was never cut carried more: {result}");
    Ok(())
}

const FLOWS: &str = "name = \"flows\"\nduration_s = 1\npatience_s = 20\n\
    [network.leaf_spine]\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
    host_link = { rate_mbit_s = 40, delay_us = 100, queue_kib = 64 }\n\
    fabric_link = { rate_mbit_s = 20, delay_us = 100, queue_kib = 64 }\n\
    [flows]\nsize = [{ bytes = 20000 }, { bytes = 200000 }]\nlarge_above_bytes = 100000\n\
    arrivals = { process = \"poisson\", load = 0.4, load_of = \"uplinks\" }\n\
    [flows.tcp]\nalgorithm = \"cubic\"\n\
    [sweep]\nscheme = [\"ecmp\", { name = \"hula\", gap_us = 2000, probe_period_us = 5000 }]\n";

/// All flows arrive, none faster than the links allow, over ports with the links' rates; a kernel without DCTCP is named.
fn flows_on_this_machine() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Scratch::new("flows-lab");
    let (scenario, json) = (dir.path("net.toml"), dir.path("net.jsonl"));
    std::fs::write(&scenario, FLOWS)?;
    let output = pointsman(&["sim", &scenario, "--lab", "--json", &json]).output()?;
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&json)?;
    let results = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    assert_eq!(results.len(), 2);
    for result in &results {
        let fabric = &result["fabric"];
        let started = fabric["flows"]["started"].as_u64().expect("a number");
        assert!(started > 20 && fabric["flows"]["finished"] == started, "{result}");
        let [short, large, all] = [0, 1, 2].map(|i| &fabric["fct"][i]);
        assert_eq!(short["n"].as_u64().zip(large["n"].as_u64()).map(|(a, b)| a + b), all["n"].as_u64());
        // 200,000 bytes take 83 ms at 20 Mbit/s, with the headers of 137 packets.
        assert!(large["p50_ms"].as_f64().is_some_and(|ms| ms > 83.0), "{result}");
        assert!(all["slowdown_mean"].as_f64().is_some_and(|s| s > 1.0), "{result}");
    }
    let virtually = dir.path("virtually.jsonl");
    let output = pointsman(&["sim", &scenario, "--json", &virtually]).output()?;
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&virtually)?;
    let simulated: Value = serde_json::from_str(text.lines().next().unwrap_or(""))?;
    takes_the_same_paths(&simulated, &results[0]);
    std::fs::write(&scenario, FLOWS.replace("cubic", "dctcp"))?;
    let output = pointsman(&["sim", &scenario, "--lab"]).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("flows.tcp.algorithm"), "{error}");
    Ok(())
}

/// ECMP's hash has the ports of flows, which are equal in both worlds: so are the bytes that each leaf sends to each spine, but for what is sent again.
fn takes_the_same_paths(simulated: &Value, lab: &Value) {
    let sent = |result: &Value| -> Vec<f64> {
        let leaves = result["network"]["switches"].as_array().expect("a list").iter().take(2);
        let ports = leaves.flat_map(|s| s["ports"].as_array().expect("a list"));
        ports
            .filter(|p| p["port"].as_u64() > Some(2))
            .map(|p| p["bytes"].as_f64().expect("a number"))
            .collect()
    };
    let (simulated, lab) = (sent(simulated), sent(lab));
    let close = |(a, b): (&f64, &f64)| (a / b - 1.0).abs() < 0.1;
    assert!(simulated.len() == 4 && simulated.iter().zip(&lab).all(close), "{simulated:?}, {lab:?}");
}

/// Schemes that add a header between switches carry the kernel's full segments: links between switches have room for both.
fn full_frames_with_a_header_of_the_fabric() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Scratch::new("frames-lab");
    let (scenario, json) = (dir.path("net.toml"), dir.path("net.jsonl"));
    let (before, _) = FLOWS.split_once("[sweep]").expect("it has one");
    let text = before.replace("duration_s = 1\npatience_s = 20", "duration_s = 0.5\npatience_s = 4");
    std::fs::write(&scenario, text + "[sweep]\nscheme = [\"conga\", \"ours\"]\n")?;
    let output = pointsman(&["sim", &scenario, "--lab", "--json", &json]).output()?;
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&json)?;
    let results = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    assert_eq!(results.len(), 2);
    for result in &results {
        let fabric = &result["fabric"];
        let (started, finished) = (fabric["flows"]["started"].as_u64(), fabric["flows"]["finished"].as_u64());
        assert!(started > Some(10) && finished == started, "{result}");
        // Of 200,000 bytes: 137 or more segments of full size one way.
        let large = fabric["fct"][1]["n"].as_u64().expect("a number");
        let number = |port: &Value, name: &str| port[name].as_u64().expect("a number");
        let switches = result["network"]["switches"].as_array().expect("a list");
        let leaves = switches.iter().take(2).flat_map(|s| s["ports"].as_array().expect("a list"));
        let up = leaves.filter(|p| number(p, "port") > 2);
        let (bytes, packets) =
            up.fold((0, 0), |(b, p), port| (b + number(port, "bytes"), p + number(port, "packets")));
        assert!(
            large > 0 && bytes > 137 * 1500 * large && bytes > 500 * packets,
            "{bytes} bytes in {packets} packets: {result}"
        );
    }
    Ok(())
}
