//! `pointsman sim --lab` with a network: switches, hosts and cables of this machine.

use crate::support::{Scratch, pointsman};
use pointsman_lab::harness::Test;
use serde_json::Value;

pub const TESTS: &[(&str, Test)] = &[("a_network_on_this_machine", a_network_on_this_machine)];

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
