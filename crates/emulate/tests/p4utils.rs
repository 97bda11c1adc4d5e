//! Topologies in the format of p4-utils.

use crate::{plan, refused};
use pointsman_topology::{Line, SwitchId};

fn net(strategy: &str, more: &str) -> String {
    format!(
        r#"{{"p4_src": "f.p4", "cli": true, "pcap_dump": true, "enable_log": false,
        "topology": {{"assignment_strategy": "{strategy}",
            "links": [["s1", "s2", {{"bw": 20, "delay": "20ms", "max_queue_size": 100, "weight": 5}}], ["h1", "s1"], ["h2", "s2"], ["h30", "s2"]],
            "hosts": {{"h1": {{}}, "h30": {{}}, "h2": {{}}}},
            "switches": {{"s1": {{"cli_input": "s1.txt"}}, "s2": {{"p4_src": "g.p4", "priority_queues_num": 4}}}}{more}}}}}"#
    )
}

fn addresses(strategy: &str) -> Vec<(String, u8, Option<String>)> {
    let plan = plan(&net(strategy, ""));
    let hosts = plan.topology.hosts().iter().zip(&plan.hosts);
    hosts.map(|(h, p)| (h.address.to_string(), p.prefix, p.gateway.map(|g| g.to_string()))).collect()
}

#[test]
fn addresses_by_strategy() {
    let some = |text: &str| Some(text.to_string());
    let host = |a: &str, prefix, gateway| (a.to_string(), prefix, gateway);
    assert_eq!(
        addresses("l2"),
        [host("10.0.0.1", 16, None), host("10.0.0.30", 16, None), host("10.0.0.2", 16, None)]
    );
    assert_eq!(
        addresses("mixed"),
        [
            host("10.0.1.1", 24, some("10.0.1.254")),
            host("10.0.2.30", 24, some("10.0.2.254")),
            host("10.0.2.2", 24, some("10.0.2.254")),
        ]
    );
    assert_eq!(
        addresses("l3"),
        [
            host("10.1.1.2", 24, some("10.1.1.1")),
            host("10.2.30.2", 24, some("10.2.30.1")),
            host("10.2.2.2", 24, some("10.2.2.1")),
        ]
    );
}

#[test]
fn the_rest_of_the_file() {
    let plan = plan(&net("mixed", ""));
    assert_eq!((plan.program.as_deref(), plan.captures, plan.logs), (Some("f.p4"), true, false));
    let [s1, s2] = &plan.switches[..] else { panic!("two switches") };
    assert_eq!((s1.device_id, s1.p4runtime, s1.cli_input.as_deref()), (1, 9559, Some("s1.txt")));
    assert_eq!((s2.device_id, s2.p4runtime, s2.priority_queues), (2, 9560, 4));
    assert_eq!(s2.program.as_deref(), Some("g.p4"));
    // Ports follow the order of names: hosts first.
    let ports = |s| {
        plan.topology.ports(SwitchId(s)).into_iter().map(|(port, link, _)| (port, link.0)).collect::<Vec<_>>()
    };
    assert_eq!((ports(0), ports(1)), (vec![(1, 0), (2, 3)], vec![(1, 1), (2, 2), (3, 3)]));
    let line = plan.topology.links()[3].line;
    assert_eq!((line.bits_per_s, line.delay_ns), (20_000_000, 20_000_000));
    assert_eq!(plan.queue_packets, [None, None, None, Some(100)]);
    assert_eq!(plan.topology.links()[0].line.bits_per_s, Line::UNLIMITED);
    let h2 = &plan.hosts[2];
    let gateway = ("10.0.2.254".parse().expect("an address"), [0, 1, 10, 0, 2, 2]);
    let other = ("10.0.2.30".parse().expect("an address"), [0, 0, 10, 0, 2, 30]);
    assert_eq!(h2.neighbours, [gateway, other]);
    assert_eq!(plan.topology.hosts()[2].mac, [0, 0, 10, 0, 2, 2]);
    assert_eq!(plan.warnings, ["cli: has no effect here", "topology.links[0][2].weight: has no effect here"]);
}

#[test]
fn what_is_refused_by_name() {
    for (more, wanted) in [
        (r#", "routers": {}"#, "topology.routers: is not supported"),
        (r#", "default": {"loss": 1}"#, "topology.default.loss: is not supported"),
        (r#", "default": {"jitter": 1}"#, "topology.default.jitter: unknown key `jitter`"),
        (r#", "default": {"bw": 0}"#, "topology.default.bw: 0 is not a rate"),
        (r#", "default": {"max_queue_size": 0}"#, "topology.default.max_queue_size: 0 is not a whole number"),
        (r#", "defaults": {}"#, "topology.defaults: unknown key"),
    ] {
        refused(&net("l2", more), &[wanted]);
    }
    refused(&net("l4", ""), &["topology.assignment_strategy: unknown strategy `l4`"]);
    let with = |from: &str, to: &str| {
        let text = net("l2", "");
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text.replace(from, to)
    };
    refused(&with("\"cli\": true", "\"exec_scripts\": [{}]"), &["exec_scripts[0]: `cmd` is missing"]);
    refused(&with("\"cli\": true", "\"tasks_file\": \"t\""), &["tasks_file: is not supported"]);
    refused(
        &with("\"cli_input\": \"s1.txt\"", "\"cpu_port\": true"),
        &["topology.switches.s1.cpu_port: is not supported"],
    );
    refused(
        &with("\"cli_input\": \"s1.txt\"", "\"device_id\": 3, \"grpc_port\": 1 }, \"s3\": {\"device_id\": 3"),
        &["topology.switches: two switches have the same"],
    );
    refused(&with("\"weight\"", "\"intfName1\""), &["topology.links[0][2].intfName1: is not supported"]);
    refused(
        &with("[\"h1\", \"s1\"]", "[\"h1\", \"h2\"]"),
        &["topology.hosts.h1: is linked to `h2`", "topology.hosts.h2: is linked to `h1`"],
    );
    refused(&with("[\"h2\", \"s2\"]", "[\"s2\", \"s1\"]"), &["topology.hosts.h2: h2 has no link"]);
}

#[test]
fn keys_of_older_files_and_scripts() {
    let text = r#"{"exec_scripts": [{"cmd": "python3 c.py s1 & ", "reboot_run": true}, {"cmd": "sleep 5"}],
        "topology": {"auto_gw_arp": false, "assignment_strategy": "mixed", "hosts": {"h1": {}},
        "links": [["h1", "s1", {"sw_ip2": "10.0.1.1/24"}]], "switches": {"s1": {"program": "f.p4"}}}}"#;
    let plan = plan(text);
    assert_eq!(plan.scripts, ["python3 c.py s1", "sleep 5"]);
    assert_eq!((plan.switches[0].program.as_deref(), plan.hosts[0].neighbours.len()), (Some("f.p4"), 0));
    assert_eq!(plan.warnings, ["topology.links[0][2].sw_ip2: has no effect here"]);
}

#[test]
fn problems_of_links_in_the_order_of_the_file() {
    let links: Vec<String> = (0..12).map(|n| format!(r#"["s{}", "x{n}"]"#, 20 - n)).collect();
    let switches: Vec<String> = (0..12).map(|n| format!(r#""s{}": {{}}"#, 20 - n)).collect();
    let text = format!(
        r#"{{"topology": {{"hosts": {{}}, "switches": {{{}}}, "links": [{}]}}}}"#,
        switches.join(", "),
        links.join(", ")
    );
    let wanted: Vec<String> = (0..12)
        .map(|n| {
            format!("topology.links[{n}]: no switch or host is called `x{n}`: correct the name, or add it")
        })
        .collect();
    refused(&text, &wanted.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn own_addresses() {
    let text = r#"{"topology": {"default": {"auto_arp_tables": false, "auto_gw_arp": false},
        "links": [["s1", "h1", {"port1": 9, "params2": {"ip": "1.0.0.2/24"}, "addr2": "08:00:00:00:00:01"}]],
        "hosts": {"h1": {"defaultRoute": "via 1.0.0.1"}}, "switches": {"s1": {"grpc_port": 9000, "device_id": 7}}}}"#;
    let plan = plan(text);
    assert_eq!((plan.hosts[0].prefix, plan.hosts[0].neighbours.len()), (24, 0));
    assert_eq!(plan.hosts[0].gateway, Some("1.0.0.1".parse().expect("an address")));
    assert_eq!(plan.topology.hosts()[0].mac, [8, 0, 0, 0, 0, 1]);
    assert_eq!((plan.switches[0].device_id, plan.switches[0].p4runtime), (7, 9000));
    assert_eq!(plan.topology.ports(SwitchId(0))[0].0, 9);
    refused(
        &text.replace("via 1.0.0.1", "1.0.0.1"),
        &["topology.hosts.h1.defaultRoute: \"1.0.0.1\" is not a route"],
    );
}
