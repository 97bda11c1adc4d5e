//! Topologies in the format of p4-utils.

use crate::{plan, refused};
use pointsman_emulate::database;
use pointsman_emulate::load::Start;
use pointsman_topology::{Line, SwitchId};
use serde_json::{Value, json};

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
    let ports =
        |s| plan.topology.ports(SwitchId(s)).map(|(port, link, _)| (port, link.0)).collect::<Vec<_>>();
    assert_eq!((ports(0), ports(1)), (vec![(1, 0), (2, 3)], vec![(1, 1), (2, 2), (3, 3)]));
    let line = plan.topology.links()[3].line;
    assert_eq!((line.bits_per_s, line.delay_ns), (20_000_000, 20_000_000));
    let settings: Vec<_> = plan.links.iter().map(|l| (l.queue_packets, l.weight)).collect();
    assert_eq!(settings, [(None, 1.0), (None, 1.0), (None, 1.0), (Some(100), 5.0)]);
    assert_eq!(plan.topology.links()[0].line.bits_per_s, Line::UNLIMITED);
    let h2 = &plan.hosts[2];
    let gateway = ("10.0.2.254".parse().expect("an address"), [0, 1, 10, 0, 2, 2]);
    let other = ("10.0.2.30".parse().expect("an address"), [0, 0, 10, 0, 2, 30]);
    assert_eq!(h2.neighbours, [gateway, other]);
    assert_eq!(plan.topology.hosts()[2].mac, [0, 0, 10, 0, 2, 2]);
    assert_eq!(plan.warnings, ["cli: has no effect here"]);
}

#[test]
fn what_is_refused_by_name() {
    for (more, wanted) in [
        (r#", "routers": {}"#, "topology.routers: is not supported"),
        (r#", "default": {"loss": 101}"#, "topology.default.loss: 101 is not a share of lost packets"),
        (r#", "default": {"weight": -1}"#, "topology.default.weight: -1 is not a weight"),
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
    refused(&with("\"cli\": true", "\"tasks_file\": 1"), &["tasks_file: 1 is not the name of a file"]);
    refused(
        &with("\"cli\": true", "\"compiler_module\": {\"options\": {\"p4rt\": 1}}"),
        &["compiler_module.options.p4rt: 1 is not true or false"],
    );
    let long = "\"switch7\": {\"cpu_port\": true}, \"s1\"";
    refused(
        &with("\"s1\": {\"cli_input\"", &format!("{long}: {{\"cli_input\"")),
        &[
            "topology.switches.switch7.cpu_port: switch7 has 7 letters, and its interface `switch7-cpu-eth0` has room for 6 of them",
        ],
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
    assert_eq!(plan.warnings, [""; 0]);
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
        "links": [["s1", "h1", {"port1": 9, "sw_ip1": "1.0.0.1/24", "params2": {"ip": "1.0.0.2/24"}, "addr2": "08:00:00:00:00:01"}]],
        "hosts": {"h1": {"defaultRoute": "via 1.0.0.1"}}, "switches": {"s1": {"grpc_port": 9000, "device_id": 7}}}}"#;
    let plan = plan(text);
    assert_eq!((plan.hosts[0].prefix, plan.hosts[0].neighbours.len()), (24, 0));
    assert_eq!(plan.hosts[0].gateway, Some("1.0.0.1".parse().expect("an address")));
    assert_eq!(plan.topology.hosts()[0].mac, [8, 0, 0, 0, 0, 1]);
    assert_eq!((plan.switches[0].device_id, plan.switches[0].p4runtime), (7, 9000));
    assert_eq!(plan.topology.ports(SwitchId(0)).next().map(|p| p.0), Some(9));
    let gateway = plan.links[0].ports[0].address;
    assert_eq!(gateway, Some(("1.0.0.1".parse().expect("an address"), 24)));
    refused(
        &text.replace("via 1.0.0.1", "1.0.0.1"),
        &["topology.hosts.h1.defaultRoute: \"1.0.0.1\" is not a route"],
    );
}

#[test]
fn losses_of_links() {
    let plan =
        plan(&net("l2", r#", "default": {"loss": 2.5}"#).replace("\"weight\"", "\"loss\": 0, \"weight\""));
    let losses: Vec<f64> = plan.topology.links().iter().map(|l| l.line.loss).collect();
    assert_eq!(losses, [0.025, 0.025, 0.025, 0.0]);
}

/// Three switches with a port to the controller; `x1` comes behind `sw-cpu`, and `s2` has a port with a number.
const WITH_CPU: &str = r#"{"compiler_module": {"options": {"p4rt": true}}, "tasks_file": "t.txt",
    "topology": {"assignment_strategy": "mixed", "hosts": {"h1": {}, "x1": {}},
    "links": [["h1", "s1"], ["s1", "x1", {"bw": 0.5, "delay": 3, "loss": 1}], ["s2", "s1", {"port1": 2, "weight": 7}], ["s3", "s2"]],
    "switches": {"s1": {"cpu_port": true}, "s2": {"cpu_port": true, "thrift_port": 9091}, "s3": {"cpu_port": false}}}}"#;

#[test]
fn ports_to_the_controller() {
    let plan = plan(WITH_CPU);
    let cpus: Vec<_> = plan.switches.iter().map(|s| (s.cpu_interface, s.thrift)).collect();
    assert_eq!(cpus, [(Some(2), Some(9090)), (Some(1), Some(9091)), (None, Some(9092))]);
    let ports = |s| plan.topology.ports(SwitchId(s)).map(|(port, ..)| port).collect::<Vec<_>>();
    assert_eq!([ports(0), ports(1), ports(2)], [vec![1, 3, 4], vec![2, 3], vec![1]]);
    assert_eq!(plan.tasks.as_deref(), Some("t.txt"));
    assert_eq!(plan.warnings, [""; 0]);
}

fn graph(text: &str) -> Value {
    let plan = plan(text);
    let files = database::files(&plan, &vec![Start::default(); plan.switches.len()]).expect("files");
    let [(path, text)] = &files[..] else { panic!("{files:?}") };
    assert_eq!(path.to_str(), Some("topology.json"));
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn the_graph_for_controllers() {
    let graph = graph(WITH_CPU);
    assert_eq!((&graph["multigraph"], &graph["links"]), (&json!(false), &graph["edges"]));
    let host = json!({"id": "h1", "isHost": true, "isSwitch": false, "ip": "10.0.1.1/24", "mac": "00:00:0a:00:01:01",
        "defaultRoute": "via 10.0.1.254"});
    assert_eq!(graph["nodes"][0], host);
    let switch = json!({"id": "s1", "isHost": false, "isSwitch": true, "isP4Switch": true, "isP4RuntimeSwitch": true,
        "device_id": 1, "grpc_port": 9559, "thrift_port": 9090, "cpu_port": true, "cpu_port_num": 2,
        "cpu_intf": "s1-cpu-eth0", "cpu_ctl_intf": "s1-cpu-eth1"});
    assert_eq!(graph["nodes"][2], switch);
    let to_host = json!({"source": "s1", "node1": "s1", "port1": 3, "intfName1": "s1-eth3", "ip1": "10.0.1.254/24",
        "addr1": "00:01:0a:00:01:02", "target": "x1", "node2": "x1", "port2": 0, "intfName2": "x1-eth0",
        "ip2": "10.0.1.2/24", "addr2": "00:00:0a:00:01:02", "weight": 1, "bw": 0.5, "delay": 3, "loss": 1});
    assert_eq!(graph["links"][1], to_host);
    let between = &graph["links"][2];
    let ends = ["source", "port1", "ip1", "target", "port2", "ip2", "weight"].map(|key| between[key].clone());
    assert_eq!(
        ends,
        [json!("s2"), json!(2), json!("20.2.1.1/24"), json!("s1"), json!(4), json!("20.2.1.2/24"), json!(7)]
    );
}

#[test]
fn parallel_links_have_keys() {
    let text = r#"{"topology": {"assignment_strategy": "l2", "hosts": {"h1": {}}, "switches": {"s1": {}, "s2": {}},
        "links": [["h1", "s1"], ["s1", "s2"], ["s2", "s1"]]}}"#;
    let graph = graph(text);
    let keys: Vec<_> = [0, 1, 2].map(|i| graph["links"][i]["key"].clone()).into();
    assert_eq!((&graph["multigraph"], keys), (&json!(true), vec![json!(0), json!(0), json!(1)]));
    // Tutorials have no such file.
    let tutorial = r#"{"hosts": {"h1": {"ip": "10.0.0.1/24", "mac": "02:00:00:00:00:01"}}, "switches": {"s1": {}}, "links": [["h1", "s1-p1"]]}"#;
    assert!(database::files(&plan(tutorial), &[Start::default()]).is_ok_and(|files| files.is_empty()));
}
