//! Topologies in the format of p4lang/tutorials.

use crate::{plan, refused};
use pointsman_topology::{End, HostId, Line, SwitchId};

const TWO: &str = r#"{
    "hosts": {
        "h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11", "commands": ["ip route add default via 10.0.1.10"]},
        "h2": {"ip": "10.0.2.2/31", "mac": "08:00:00:00:02:22"}
    },
    "switches": {
        "s10": {"runtime_json": "s10.json", "program": "build/x.json"},
        "s2": {"cpu_port": "255", "priority_queues": 8, "cli_input": "s2.txt"}
    },
    "links": [["h1", "s2-p1"], ["s10-p7", "s2-p2", "10ms", 0.5], ["s10-p1", "h2", 2]]
}"#;

#[test]
fn everything_that_the_format_has() {
    let plan = plan(TWO);
    let names: Vec<&str> = plan.topology.switches().iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["s2", "s10"], "ids follow the natural order of names");
    let numbers: Vec<_> = plan.switches.iter().map(|s| (s.device_id, s.p4runtime)).collect();
    assert_eq!(numbers, [(0, 50051), (1, 50052)]);
    let [s2, s10] = &plan.switches[..] else { panic!("two switches") };
    assert_eq!((s2.cpu_port, s2.priority_queues, s2.cli_input.as_deref()), (Some(255), 8, Some("s2.txt")));
    assert_eq!(
        (s10.runtime_json.as_deref(), s10.program.as_deref()),
        (Some("s10.json"), Some("build/x.json"))
    );
    assert_eq!((s10.cpu_port, s10.priority_queues), (None, 1));
    let h1 = &plan.topology.hosts()[0];
    assert_eq!((h1.address.to_string(), h1.mac), ("10.0.1.1".to_string(), [8, 0, 0, 0, 1, 0x11]));
    assert_eq!((plan.hosts[0].prefix, plan.hosts[1].prefix), (24, 31));
    assert_eq!(plan.hosts[0].commands, ["ip route add default via 10.0.1.10"]);
    let lines: Vec<Line> = plan.topology.links().iter().map(|l| l.line).collect();
    assert_eq!((lines[0].bits_per_s, lines[0].delay_ns), (Line::UNLIMITED, 0));
    assert_eq!((lines[1].bits_per_s, lines[1].delay_ns), (500_000, 10_000_000));
    assert_eq!(lines[2].delay_ns, 2_000_000);
    let [a, b] = plan.topology.links()[1].ends;
    assert_eq!((a, b), (End::Switch(SwitchId(1), 7), End::Switch(SwitchId(0), 2)));
    assert_eq!(plan.topology.uplink(HostId(1)).map(|(s, port, _)| (s, port)), Some((SwitchId(1), 1)));
}

/// The file with one text in the place of another one.
fn changed(from: &str, to: &str) -> String {
    assert_eq!(TWO.matches(from).count(), 1, "{from}");
    TWO.replace(from, to)
}

/// A text of the file, what is there in its place, and the problem.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("\"ip\": \"10.0.1.1/24\",", "", "hosts.h1: `ip` is missing: write its address"),
    (
        "10.0.1.1/24",
        "10.0.1.1/33",
        "hosts.h1.ip: \"10.0.1.1/33\" is not an IPv4 address and its prefix length",
    ),
    ("10.0.1.1/24", "10.0.1/24", "hosts.h1.ip: \"10.0.1/24\" is not"),
    ("\"10.0.1.1/24\"", "7", "hosts.h1.ip: 7 is not"),
    ("10.0.1.1/24", "224.0.0.1/24", "hosts.h1.ip: 224.0.0.1 is not a host's address"),
    ("10.0.2.2/31", "10.0.1.1/31", "hosts.h2.ip: two hosts have the address 10.0.1.1"),
    ("08:00:00:00:01:11", "08:00:00:00:01", "hosts.h1.mac: \"08:00:00:00:01\" is not an Ethernet address"),
    (
        "08:00:00:00:01:11",
        "08:00:00:00:02:22",
        "hosts.h2.mac: two nodes have the Ethernet address 08:00:00:00:02:22",
    ),
    (
        "08:00:00:00:01:11",
        "01:00:00:00:02:22",
        "hosts.h1.mac: 01:00:00:00:02:22 is not a host's Ethernet address",
    ),
    (
        "\"commands\": [",
        "\"command\": [",
        "hosts.h1.command: unknown key `command`: the keys here are ip, mac, commands",
    ),
    (
        "[\"ip route add default via 10.0.1.10\"]",
        "\"ls\"",
        "hosts.h1.commands: \"ls\" is not a list of commands",
    ),
    ("\"ip route add default via 10.0.1.10\"", "7", "hosts.h1.commands[0]: 7 is not a command"),
    ("\"255\"", "0", "switches.s2.cpu_port: 0 is not a whole number from 1 to 510"),
    ("\"255\"", "511", "switches.s2.cpu_port: 511 is not"),
    ("8, \"cli", "9, \"cli", "switches.s2.priority_queues: 9 is not a whole number from 1 to 8"),
    ("\"s10.json\"", "[]", "switches.s10.runtime_json: a list is not the name of a file"),
    ("\"runtime_json\"", "\"runtime\"", "switches.s10.runtime: unknown key"),
    ("\"h2\", 2", "\"h2\", \"2x\"", "links[2][2]: \"2x\" is not a delay"),
    ("0.5", "-1", "links[1][3]: -1 is not a rate"),
    ("\"10ms\", 0.5", "\"10ms\", 0.5, 1", "links[1]: has 5 items"),
    ("\"s10-p7\", \"s2-p2\"", "\"s10-p7\", \"s10-p8\"", "links[1]: both ends are at s10"),
    ("\"s10-p7\", \"s2-p2\"", "\"s10-p7\", \"s3-p2\"", "links[1][1]: no switch or host is called `s3`"),
    ("\"s10-p7\"", "\"s10\"", "links[1][0]: `s10`: write SWITCH-pPORT"),
    ("\"s10-p7\"", "\"s10-p0\"", "links[1][0]: port 0 does not exist: write 1 to 508"),
    ("\"s10-p7\"", "\"s10-p99999999999\"", "links[1][0]: `s10-p99999999999`: write SWITCH-pPORT"),
    ("\"s10-p7\"", "\"s10-p1\"", "links[2]: port 1 of s10 has two links"),
    ("\"s10-p7\"", "\"h2\"", "links[2]: host h2 has two links"),
    ("[\"h1\", \"s2-p1\"]", "[\"h1\", \"h2\"]", "links[0]: h1-h2 connects two hosts"),
    ("[\"h1\", \"s2-p1\"]", "\"h1\"", "links[0]: \"h1\" is not a list"),
    ("[\"h1\", \"s2-p1\"], ", "", "links: h1 has no link: add one, or remove h1"),
    (", [\"s10-p1\", \"h2\", 2]", ", [\"s10-p7\", \"h2\"]", "links[2]: port 7 of s10 has two links"),
    ("\"s10-p7\", \"s2-p2\"", "\"s10-p7\", 5", "links[1][1]: 5 is not the name of a host"),
    ("\"h1\": {", "\"pingall\": {", "hosts.pingall: this is a command of the prompt"),
    ("\"h1\": {", "\"a b\": {", "hosts.a b: a name has letters"),
    (
        "\"s10\": {",
        "\"switch1000\": {",
        "switches.switch1000: the name has 10 letters, and names of interfaces have room for 8",
    ),
    ("\"hosts\": {", "\"nodes\": 1, \"hosts\": {", "is the graph that p4-utils writes"),
    (
        "\"h2\": {\"ip\": \"10.0.2.2/31\", \"mac\": \"08:00:00:00:02:22\"}",
        "\"h2\": null",
        "hosts.h2: null is not an object",
    ),
];

#[test]
fn mistakes_have_places_and_remedies() {
    for (from, to, wanted) in MISTAKES {
        let mut wanted = vec![*wanted];
        // Links to a name that the mistake takes away.
        match *to {
            "\"pingall\": {" | "\"a b\": {" => wanted.push("links[0][0]: no switch or host is called `h1`"),
            "\"switch1000\": {" => wanted.extend([
                "links[1][0]: no switch or host is called `s10`",
                "links[2][0]: no switch or host is called `s10`",
            ]),
            _ => {}
        }
        refused(&changed(from, to), &wanted);
    }
}

#[test]
fn a_network_in_two_parts() {
    refused(
        &changed(", [\"s10-p1\", \"h2\", 2]", ", [\"s10-p1\", \"h2\"]")
            .replace("[\"s10-p7\", \"s2-p2\", \"10ms\", 0.5], ", ""),
        &["links: no path leads from s2 to s10"],
    );
}

#[test]
fn whole_files() {
    refused("", &["is not JSON"]);
    refused("[]", &["is a list: write an object with hosts"]);
    refused("{}", &["`hosts` is missing", "`switches` is missing", "`links` is missing"]);
    refused(r#"{"hosts": {}, "hosts": {}}"#, &["`hosts` is there twice"]);
    refused(
        r#"{"hosts": [], "switches": {}, "links": []}"#,
        &["hosts: a list is not an object of hosts by name"],
    );
    let switches: Vec<String> = (0..200).map(|n| format!("\"s{n}\": {{}}")).collect();
    let many = format!("{{\"hosts\": {{}}, \"switches\": {{{}}}, \"links\": []}}", switches.join(","));
    refused(&many, &["switches: has 200 switches: at most 128"]);
    let hosts: Vec<String> = (0..2000).map(|n| format!("\"h{n}\": 1")).collect();
    let many = format!("{{\"switches\": {{}}, \"hosts\": {{{}}}, \"links\": []}}", hosts.join(","));
    refused(&many, &["hosts: has 2000 hosts: at most 1024"]);
}

/// Links of a node with a problem are not reported again.
#[test]
fn nothing_follows_from_a_wrong_node() {
    let broken = |from: &str, to: &str| {
        assert!(TWO.contains(from), "{from}");
        TWO.replace(from, to)
    };
    refused(&broken("\"ip\": \"10.0.", "\"ip\": \"10.0.x."), &["hosts.h1.ip: ", "hosts.h2.ip: "]);
    refused(&broken("\"s10\": {", "\"s10\": 7, \"s11\": {"), &["switches.s10: 7 is not an object"]);
}
