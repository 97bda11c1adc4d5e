use super::file::{ClientsSection, LearnSection};
use super::*;
use crate::agent::source::{Gpu, Reading, SourceKind};
use crate::blocks::{Metric, Servers};
use crate::program::ServerDevices;
use pointsman_wire::Random;

/// What a rack may have in addition.
mod features;
mod limits;

const EXAMPLE: &str = include_str!("../../../../examples/rack.toml");

/// The smallest rack that serves something.
const SMALL: &str = r#"
[switch]
mac = "02:50:4d:00:00:01"
gateways = ["10.0.0.1"]
report_keys = "keys"
[[server]]
name = "s1"
[[server.device]]
name = "cpu"
kind = "cpu"
port = 2
address = "10.0.1.11"
[[server.device]]
name = "nic"
kind = "smartnic"
port = 3
address = "10.0.1.12"
[[service]]
name = "web"
vip = "10.0.0.100"
protocol = "udp"
port = 8000
policy = "p4mite"
"#;

fn good(text: &str) -> Rack {
    match Rack::parse("rack.toml", text) {
        Ok(rack) => rack,
        Err(e) => panic!("{e}"),
    }
}

/// The rack with one text replaced is refused with one message that begins with the place and contains the rest.
fn bad(from: &str, to: &str, expected: &[&str]) {
    assert!(SMALL.contains(from), "`{from}` does not occur");
    let text = SMALL.replacen(from, to, 1);
    let errors = Rack::parse("rack.toml", &text).expect_err(to);
    let message = errors.to_string();
    assert_eq!(errors.0.len(), 1, "{message}");
    for e in expected {
        assert!(message.contains(e), "{message}\nlacks `{e}`");
    }
}

#[test]
fn example() {
    let rack = good(EXAMPLE);
    assert_eq!(rack.servers.len(), 2);
    assert_eq!(rack.device_name(DeviceNumber::new(2, 1)), "s2/nic");
    let service = &rack.services[0];
    let frontends: Vec<String> = service.frontends().map(|f| f.to_string()).collect();
    assert_eq!(
        frontends,
        ["tcp/10.0.0.100:8000", "udp/10.0.0.100:8000", "tcp/[fd00::100]:8000", "udp/[fd00::100]:8000"]
    );
    assert_eq!(rack.switch.poll_interval_ms, 250);
    assert_eq!(rack.servers[1].devices[1].agent.latency_ms, Some(Threshold { high: 100.0, low: 50.0 }));
    assert_eq!(rack.servers[0].devices[1].agent, AgentSettings::default());
}

#[test]
fn tuning() {
    let with = |policy: &str, tuning: &str| {
        ("policy = \"p4mite\"", format!("policy = \"{policy}\"\ntuning = {{ {tuning} }}"))
    };
    let check = |policy: &str, tuning: &str, expected: &[&str]| {
        let (from, to) = with(policy, tuning);
        bad(from, &to, expected);
    };
    check("prt", "metric = \"cpu\"", &["service.tuning.metric: unknown metric `cpu`", "\"compute\""]);
    check("prt", "high = 20, low = 30", &["service.tuning.low", "less than `high`"]);
    check("prt", "high = 20, low = 20", &["service.tuning.low"]);
    check("power-of-two", "choices = 5", &["service.tuning.choices", "1, 2 or 3"]);
    check("jsq", "weight2 = 5", &["service.tuning.metric2: missing"]);
    check("jsq", "count = \"packets\"", &["service.tuning.count", "\"requests\""]);
    check("ecmp", "servers = \"nearest\"", &["service.tuning.servers", "\"power-of-two\""]);
    check("dynamic-wrr", "metric = \"in-flight\"", &["service.policy", "100 minus"]);
    check("ecmp", "metrik = 3", &["service.tuning.metrik: unknown field"]);
    bad(
        "policy = \"p4mite\"",
        "policy = \"fastest\"",
        &["unknown policy `fastest`", "\"prt\"", "or \"spillover\""],
    );
    let (from, to) =
        with("least-utilised", "metric = \"memory\", step = 3, servers = \"least-loaded\", choices = 8");
    let rack = good(&SMALL.replace(from, &to));
    let t = &rack.services[0].tuning;
    assert_eq!((t.metric, t.step, t.choices), (Some(Metric::Memory), Some(3), Some(0)));
    assert_eq!(t.servers, Some(Servers::LeastLoaded));
    bad("port = 3", "port = 3\nprobe_id = 15", &["server.device.probe_id", "another number"]);
    bad("port = 3", "port = 3\nworkers = 0", &["server.device.workers", "1"]);
    check("prt", "low = 95", &["service.policy", "tuning.low is 95 and tuning.high 90"]);
}

/// Commented-out defaults of the example are the real defaults, and its alternatives are valid.
#[test]
fn example_comments() {
    let text: String = EXAMPLE
        .lines()
        .map(|l| match l.strip_prefix("# ") {
            Some(rest) if rest.starts_with("[[bridge]]") => "[[bridge]]\n".into(),
            Some("[api]") => "[api]\n".into(),
            Some(rest)
                if rest.split_once(" = ").is_some_and(|(k, _)| !k.contains(' ')) && !rest.contains("...") =>
            {
                format!("{rest}\n")
            }
            _ => format!("{l}\n"),
        })
        .collect();
    let with = good(&text);
    let without = good(EXAMPLE);
    assert_eq!(with.switch, without.switch);
    assert_eq!(with.servers[0].number, 1);
    assert_eq!(with.bridge.len(), 1);
    assert_eq!(with.api.map(|a| a.listen.to_string()).as_deref(), Some(DEFAULT_API));
    let (a, b) = (&with.servers[0].devices[0], &without.servers[0].devices[0]);
    assert_eq!((a.agent.heartbeat_ms, a.agent.smoothing), (b.agent.heartbeat_ms, b.agent.smoothing));
    assert_eq!((a.number, a.enabled), (b.number, b.enabled));
    let service = &with.services[0];
    assert_eq!((service.idle_timeout_ms, service.slots), (30_000, 256));
    assert_eq!(service.members[1].weight, 2);
    assert_eq!(service.members[0].devices[0].number, DeviceNumber::new(1, 1));
    assert_eq!(service.members[0].devices[0].weight, 2);
}

#[test]
fn small() {
    let rack = good(SMALL);
    assert_eq!(rack.switch.p4runtime, ["127.0.0.1:9559"]);
    assert_eq!(rack.services[0].members[0].devices.len(), 2);
    assert_eq!(rack.services[0].members[0].devices[0].kind, DeviceKind::Cpu);
}

/// Needs that the switch cannot meet and unusual settings are reported.
#[test]
fn hints() {
    let hints = good(EXAMPLE).hints();
    assert_eq!(
        hints,
        [
            "answers to 10.0.0.0/24 must pass through the switch; on s1/cpu, s1/nic, s2/cpu, s2/nic: ip route replace 10.0.0.0/24 via \
             10.0.1.1",
            "answers to fd00::/64 must pass through the switch; on s1/cpu, s1/nic, s2/cpu, s2/nic: ip route replace fd00::/64 via \
             fd00:0:0:1::1"
        ]
    );
    let none = good(&SMALL.replace("[\"10.0.0.1\"]", "[]")).hints();
    assert!(none.iter().any(|h| h.starts_with("switch.gateways is empty")), "{none:?}");
    let direct = EXAMPLE.replace("# direct_return = false  ", "direct_return = true #");
    assert_eq!(good(&direct).hints(), [""; 0], "devices answer clients directly");
    bad("[\"10.0.0.1\"]", "[\"10.0.0.100\"]", &["service.vip", "10.0.0.100", "switch.gateways"]);
}

#[test]
fn syntax() {
    bad("[switch]", "[switch", &["rack.toml:2:", "not valid TOML"]);
    bad("port = 2", "port = ", &["rack.toml:11:", "not valid TOML"]);
    bad("port = 2", "port = 2\nport = 3", &["rack.toml:12:", "not valid TOML", "duplicate"]);
}

#[test]
fn fields() {
    bad("port = 2", "prot = 2\nport = 2", &["rack.toml:11:1: server.device.prot: unknown field", "port"]);
    bad("[switch]", "[swich]\n[switch]", &["rack.toml:2:2: swich: unknown field", "switch"]);
    bad("port = 2\n", "", &["rack.toml:8:1: server.device.port: missing"]);
    bad(
        "port = 2",
        "port = \"2\"",
        &["rack.toml:11:8: server.device.port: the string", "whole number from 0 to 510"],
    );
    bad("port = 2", "port = 2.5", &["server.device.port: the number 2.5", "whole number"]);
    bad("port = 2", "port = 511", &["server.device.port", "511 is out of range", "0 to 510"]);
    bad("port = 2", "port = -1", &["server.device.port", "-1 is out of range"]);
    bad("port = 2", "port = 510", &["server.device.port", "cpu_port"]);
    bad(
        "port = 2",
        "port = 509",
        &["server.device.port", "port 509 is where the program sends what it consumes"],
    );
    bad("[switch]", "[switch]\ncpu_port = 509", &["switch.cpu_port", "port 509 is where the program"]);
    bad("kind = \"cpu\"", "kind = \"tpu\"", &["server.device.kind", "`tpu`", "\"gpu\""]);
    bad("kind = \"cpu\"\n", "", &["server.device.kind: missing"]);
    bad("name = \"cpu\"", "name = \"\"", &["server.device.name", "1 to 64 letters"]);
    bad("name = \"cpu\"", "name = \"a b\"", &["server.device.name", "letters"]);
    bad("name = \"cpu\"\n", "", &["server.device.name: missing"]);
    bad("mac = \"02:50:4d:00:00:01\"\n", "", &["rack.toml:2:1: switch.mac: missing"]);
    bad(
        "\"02:50:4d:00:00:01\"",
        "\"02:50:4d:00:01\"",
        &["rack.toml:3:7: switch.mac", "six hexadecimal bytes"],
    );
    bad("\"02:50:4d:00:00:01\"", "\"03:50:4d:00:00:01\"", &["switch.mac", "must be even"]);
    bad("[\"10.0.0.1\"]", "[\"10.0.0\"]", &["rack.toml:4:13: switch.gateways", "IPv4 or IPv6 address"]);
    bad("[\"10.0.0.1\"]", "[\"10.0.0.1\", \"10.0.0.1\"]", &["switch.gateways", "twice"]);
    bad("[\"10.0.0.1\"]", "[\"224.0.0.1\"]", &["switch.gateways", "multicast"]);
    bad("[switch]", "[switch]\np4runtime = \"host\"", &["rack.toml:3:13: switch.p4runtime", "host:port"]);
    bad(
        "[switch]",
        "[switch]\np4runtime = \"::1:9559\"",
        &["switch.p4runtime: `::1:9559`", "or [2001:db8::1]:9559"],
    );
    bad(
        "[switch]",
        "[switch]\np4runtime = []",
        &["rack.toml:3:13: switch.p4runtime", "0 addresses", "1 to 8"],
    );
    bad("[switch]", "[switch]\np4runtime = [1, \"a:1\"]", &["switch.p4runtime", "host:port"]);
    bad("[switch]", "[switch]\np4runtime = 1", &["switch.p4runtime", "host:port"]);
    let twice = "[switch]\np4runtime = [\"a:1\", \"b:1\", \"a:1\"]";
    bad("[switch]", twice, &["rack.toml:3:28: switch.p4runtime", "`a:1` is named twice"]);
    bad("[switch]", "[switch]\nreport_timeout_ms = -5", &["switch.report_timeout_ms", "out of range"]);
    bad(
        "[switch]",
        "[switch]\nreport_timeout_ms = 150",
        &["switch.report_timeout_ms", "every 100 ms", "twice"],
    );
    bad("[switch]", "[switch]\ncpu_port = 0", &["switch.cpu_port", "1 to 510"]);
    bad("[switch]", "[switch]\nelection_id = 0", &["switch.election_id"]);
    bad("[[service]]", "[service]", &["service", "[[service]]"]);
    bad("address = \"10.0.1.11\"", "address = \"fd00::1\"", &["server.device.address", "address6"]);
    bad("address = \"10.0.1.11\"", "address = \"127.0.0.1\"", &["server.device.address", "loopback"]);
    bad("address = \"10.0.1.11\"\n", "", &["server.device.address: missing"]);
    bad(
        "address = \"10.0.1.11\"",
        "address = \"10.0.1.11\"\nenabled = 1",
        &["server.device.enabled", "true or false"],
    );
    bad(
        "address = \"10.0.1.11\"",
        "address = \"10.0.1.11\"\npriority = 256",
        &["server.device.priority", "255"],
    );
    bad(
        "address = \"10.0.1.11\"",
        "address = \"10.0.1.11\"\nweight = 0",
        &["server.device.weight", "1 to 1000"],
    );
    bad(
        "address = \"10.0.1.11\"",
        "address = \"10.0.1.11\"\nweight = 1001",
        &["server.device.weight", "1 to 1000"],
    );
    bad("address = \"10.0.1.11\"", "address = \"10.0.1.11\"\nslot = 16", &["server.device.slot", "0 to 15"]);
    bad("name = \"s1\"", "name = \"s1\"\nid = 8192", &["server.id", "1 to 8191"]);
}

#[test]
fn agreement() {
    bad("name = \"nic\"", "name = \"cpu\"", &["server.device.name", "two devices", "rename"]);
    bad(
        "10.0.1.12",
        "10.0.1.11",
        &["rack.toml:17:11: server.device.address", "`s1/cpu` already has 10.0.1.11"],
    );
    bad("10.0.1.12", "10.0.0.1", &["server.device.address", "switch's own"]);
    bad(
        "address = \"10.0.1.12\"",
        "address = \"10.0.1.12\"\nslot = 0",
        &["server.device.slot", "`cpu` and `nic`"],
    );
    bad(
        "address = \"10.0.1.12\"",
        "address = \"10.0.1.12\"\nmac = \"02:50:4d:00:00:01\"",
        &["server.device.mac", "switch's own"],
    );
    let second = "[[server]]\nname = \"s1\"\n[[server.device]]\nname = \"x\"\nkind = \"cpu\"\nport = 9\naddress = \"10.0.1.99\"\n[[service]]";
    bad("[[service]]", second, &["server.name", "two servers are called `s1`"]);
    bad(
        "[[service]]",
        &second.replace("\"s1\"", "\"s2\"\nid = 1"),
        &["server.id", "`s1` and `s2` both have number 1", "`id`"],
    );
    let more = |n: u8| -> String {
        let device = |i: u8| {
            let (name, address) = (format!("name = \"d{i}\""), format!("address = \"10.0.2.{i}\""));
            format!("[[server.device]]\n{name}\nkind = \"gpu\"\nport = 9\n{address}\n")
        };
        (0..n).map(device).collect::<String>() + "[[service]]"
    };
    bad("[[service]]", &more(15), &["rack.toml:88:1: server.device.slot", "at most 16 devices"]);
    let sixteen = good(&SMALL.replace("[[service]]", &more(14)));
    assert_eq!(ServerDevices::of(&sixteen), ServerDevices::Sixteen);
    assert_eq!(ServerDevices::of(&good(&SMALL.replace("[[service]]", &more(6)))), ServerDevices::Eight);
    // Number 15 would make narrow probes wide ones.
    let probes: Vec<u8> = sixteen.servers[0].devices.iter().map(|d| d.probe_id).collect();
    assert_eq!(probes[13..], [13, 14, 16]);
    bad("vip = \"10.0.0.100\"", "vip = \"10.0.1.11\"", &["service.vip", "device `s1/cpu`"]);
    let message =
        Rack::parse("r", &SMALL.replace("10.0.0.100", "fd00::1")).expect_err("other family").to_string();
    assert!(message.contains("service.vip") && message.contains("`s1/cpu` has no IPv6 address"), "{message}");
    bad(
        "vip = \"10.0.0.100\"",
        "vip = [\"10.0.0.100\", \"10.0.0.101\"]",
        &["service.vip", "another [[service]]"],
    );
    bad(
        "policy = \"p4mite\"",
        "policy = \"best\"",
        &["rack.toml:23:10: service.policy", "`best`", "server-only"],
    );
    bad("policy = \"p4mite\"", "policy = \"p4mite\"\nslots = 100", &["service.slots", "write 128"]);
    bad(
        "policy = \"p4mite\"",
        "policy = \"p4mite\"\nidle_timeout_ms = 99999999",
        &["service.idle_timeout_ms", "16777215"],
    );
    bad(
        "policy = \"p4mite\"",
        "policy = \"p4mite\"\nservers = [\"s9\"]",
        &["service.servers", "no server `s9`", "s1"],
    );
    bad("policy = \"p4mite\"", "policy = \"p4mite\"\nservers = []", &["service.servers", "no server"]);
    bad(
        "policy = \"p4mite\"",
        "policy = \"p4mite\"\nservers = [\"s1\", \"s1\"]",
        &["service.servers", "twice"],
    );
    bad(
        "policy = \"p4mite\"",
        "policy = \"p4mite\"\nservers = [{ name = \"s1\", weight = -1 }]",
        &["service.servers.weight", "0 to 1000"],
    );
    bad(
        "policy = \"p4mite\"",
        "policy = \"p4mite\"\npriority = { \"s1/gpu\" = 1 }",
        &["service.priority", "`s1/gpu`"],
    );
}

/// Two mistakes in one table are two messages, in the order of the text.
#[test]
fn all_at_once() {
    let text = SMALL.replace("port = 2", "port = 900").replace("10.0.0.100", "10.0.0");
    let errors = Rack::parse("rack.toml", &text).expect_err("wrong twice");
    let fields: Vec<&str> = errors.0.iter().map(|e| e.field.as_str()).collect();
    assert_eq!(fields, ["server.device.port", "service.vip"]);
}

#[test]
fn services() {
    let other = "\n[[service]]\nname = \"other\"\nvip = \"10.0.0.101\"\nprotocol = \"udp\"\nport = 8000\npolicy = \"ecmp\"\n";
    let check = |text: &str, expected: &str| {
        let message = Rack::parse("r", &format!("{SMALL}{text}")).expect_err(expected).to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(other, "device `s1/cpu` already serves udp port 8000 for service `web`");
    check(&other.replace("101", "100"), "service `web` already has udp/10.0.0.100:8000");
    check(&other.replace("other", "web").replace("8000", "8001"), "two services are called `web`");
    check(&other.replace("8000", "9876"), "load reports use UDP port 9876");
    good(&format!("{SMALL}{}", other.replace("8000", "8001")));
    good(&format!("{SMALL}{}", other.replace("udp", "tcp")));
}

#[test]
fn policies_get_what_they_need() {
    let check = |text: &str, policy: Policy, expected: Option<&str>| {
        let text = text.replace("\"p4mite\"", &format!("\"{policy}\""));
        let text = text.replace("[switch]", "[switch]\nprobes = \"unauthenticated\"");
        let parsed = Rack::parse("r", &text);
        match expected {
            None => assert_eq!(parsed.expect("valid").services[0].policy, policy),
            Some(e) => {
                let message = parsed.expect_err(e).to_string();
                assert!(message.contains("service.policy") && message.contains(e), "{message}");
            }
        }
    };
    for policy in Policy::ALL {
        check(SMALL, policy, None);
    }
    let no_cpu = SMALL.replace("kind = \"cpu\"", "kind = \"gpu\"");
    check(&no_cpu, Policy::ServerOnly, Some("kind \"cpu\""));
    check(&no_cpu, Policy::Wrr, None);
    let no_reports = SMALL.replace("[switch]", "[switch]\nreport_timeout_ms = 0");
    check(&no_reports, Policy::P4mite, Some("report_timeout_ms"));
    check(&no_reports, Policy::Prt, Some("report_timeout_ms"));
    check(&no_reports, Policy::ProbeWrr, Some("report_timeout_ms"));
    check(&no_reports, Policy::LeastConnections, None);
    check(&no_reports, Policy::Ecmp, None);

    let rack = good(SMALL);
    assert_eq!(rack.with_policy("web", Policy::Ecmp).expect("valid").services[0].policy, Policy::Ecmp);
    assert!(
        rack.with_policy("wob", Policy::Ecmp).expect_err("unknown").to_string().contains("there are: web")
    );
    let rack = good(&no_cpu);
    assert!(rack.with_policy("web", Policy::ServerOnly).expect_err("no cpu").to_string().contains("s1"));
}

#[test]
fn routes_and_stations() {
    let check = |text: &str, expected: &str| {
        let message = Rack::parse("r", &format!("{SMALL}{text}")).expect_err(expected).to_string();
        assert!(message.contains(expected), "{message}");
    };
    check("[[route]]\nprefix = \"10.0.0.1/24\"\nport = 1\nvia = \"10.0.0.2\"", "write 10.0.0.0/24");
    check("[[route]]\nprefix = \"10.0.0.0/24\"\nport = 1", "route.via: missing");
    check("[[route]]\nport = 1\nvia = \"10.0.0.2\"", "route.prefix: missing");
    check("[[route]]\nprefix = \"10.0.0.0/24\"\nport = 1\nvia = \"fd00::1\"", "other address family");
    check(
        "[[route]]\nprefix = \"10.0.0.0/24\"\nport = 1\nvia = \"10.0.0.2\"\nmac = \"02:00:00:00:00:01\"",
        "not both",
    );
    let route = "[[route]]\nprefix = \"10.0.0.0/24\"\nport = 1\nvia = \"10.0.0.2\"\n";
    check(&format!("{route}{route}"), "two routes");
    check(&route.replace("10.0.0.2", "10.0.0.1"), "switch's own");
    check(&route.replace("port = 1", "port = 510"), "controller's");
    let station = "[[bridge]]\nmac = \"02:00:00:00:00:09\"\nport = 1\n";
    check(&format!("{station}{station}"), "two stations");
    check(&station.replace(":09", ":01").replace("02:00:00", "02:50:4d"), "switch's own");
    check("[agent]\nlatency_ms = { high = 5, low = 10 }", "agent.latency_ms.low: must not exceed");
    check("[agent]\nlatency_ms = { high = 5 }", "write both bounds");
    check("[agent]\nlatency_ms = 5", "agent.latency_ms: the number 5: write a table");
    check("[agent]\nnetwork_percent = { high = 5, low = 2 }", "agent.network_mbit_s: missing");
    check("[agent]\nsmoothing = 2", "agent.smoothing");
    let rack = good(&format!("{SMALL}{route}{station}"));
    assert_eq!((rack.routes.len(), rack.bridge.len()), (1, 1));
}

/// Whatever the file contains, the answer is a rack or messages.
#[test]
fn mangled_text() {
    let mut random = Random::new(3);
    let mut valid = 0;
    let tokens = [
        "[",
        "]",
        "\"",
        "=",
        "\n",
        "9999999999999999999999",
        "-1",
        "true",
        "{}",
        "[[server]]",
        "é",
        "0x",
        "1979-05-27",
    ];
    for _ in 0..3000 {
        let mut text: Vec<char> = SMALL.chars().collect();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len() as u64) as usize;
            match random.below(3) {
                0 => drop(text.remove(at)),
                1 => drop(text.drain(at..(at + 9).min(text.len()))),
                _ => drop(text.splice(at..at, tokens[random.below(tokens.len() as u64) as usize].chars())),
            }
        }
        let text: String = text.into_iter().collect();
        match Rack::parse("r", &text) {
            Ok(_) => valid += 1,
            Err(e) => assert!(!e.0.is_empty()),
        }
    }
    assert!(valid > 10, "{valid} of the mangled texts were valid");
}
