use super::file::{ClientsSection, LearnSection};
use super::*;
use crate::agent::source::{Gpu, Reading, SourceKind};
use crate::blocks::{Metric, Servers};
use crate::program::ServerDevices;
use pointsman_wire::Random;

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

#[test]
fn health_checks() {
    let with = |health: &str| SMALL.replacen("port = 2", &format!("port = 2\nagent = {{ {health} }}"), 1);
    let set = |health: &str| match good(&with(health)).servers[0].devices[0].agent.health.clone() {
        HealthCheck::Set(settings) => settings,
        other => panic!("{other:?}"),
    };
    assert_eq!(good(SMALL).servers[0].devices[0].agent.health, HealthCheck::Implied);
    assert_eq!(set("health = {}"), HealthSettings::default());
    let all = set(
        "health = { kind = \"http\", path = \"/up\", port = 81, interval_ms = 10, timeout_ms = 20, rise = 3, fall = 4 }",
    );
    let kind = ProbeKind::Http { path: "/up".into() };
    assert_eq!(
        all,
        HealthSettings { kind, port: Some(81), interval_ms: 10, timeout_ms: 20, rise: 3, fall: 4 }
    );
    assert_eq!(set("health = { kind = \"udp\", send = \"?\" }").kind, ProbeKind::Udp { send: "?".into() });
    assert_eq!(set("health = { kind = \"grpc\" }").kind, ProbeKind::Grpc { service: String::new() });
    let cart = set("health = { kind = \"grpc\", service = \"shop.Cart\" }");
    assert_eq!(cart.kind, ProbeKind::Grpc { service: "shop.Cart".into() });
    let off = good(&with("health = { kind = \"none\" }"));
    assert_eq!(off.servers[0].devices[0].agent.health, HealthCheck::Off);
    let wrong = |health: &str, parts: &[&str]| {
        bad("port = 2", &format!("port = 2\nagent = {{ health = {{ {health} }} }}"), parts)
    };
    wrong("kind = \"icmp\"", &["server.device.agent.health.kind", "`icmp`", "\"http\""]);
    wrong("service = \"shop.Cart\"", &["health.service", "only kind = \"grpc\""]);
    wrong("kind = \"udp\"", &["health.send: missing", "send = \"ping\""]);
    wrong("path = \"/\"", &["health.path", "only kind = \"http\""]);
    wrong("kind = \"http\", path = \"a b\"", &["health.path", "\"/healthz\""]);
    wrong("port = 0", &["health.port", "1 to 65535"]);
    wrong("rise = 0", &["health.rise", "1"]);
    wrong("intervall_ms = 5", &["health.intervall_ms: unknown field", "interval_ms"]);
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
    let many = "slots = 65536\n";
    check(
        &format!(
            "{}{many}{}{many}",
            other.replace("8000", "8001"),
            other.replace("8000", "8002").replace("other", "b")
        ),
        "lower `slots`",
    );
}

#[test]
fn sources() {
    let with = |source: &str| format!("{SMALL}[[agent.source]]\n{source}\n");
    let check = |source: &str, expected: &str| {
        let errors = Rack::parse("r", &with(source)).expect_err(source).to_string();
        assert!(errors.contains(expected), "{errors}");
    };
    check("interval_ms = 5", "agent.source.prometheus: write one of");
    check("nvml = 0\nhaproxy = \"h:1\"", "write one of");
    check("prometheus = \"http://h/\"", "agent.source.compute: missing");
    check("prometheus = \"https://h/\"\ncompute = \"a\"", "write http://host:port/path");
    check("haproxy = \"h\"", "write host:port");
    check("haproxy = \"h:1\"\ncompute = \"a\"", "has one number");
    check("nvml = 0\ncompute = \"a b\"", "agent.source.compute: `a b`: write name");
    let rack = good(&with("nvml = 1\ninterval_ms = 20"));
    let source = &rack.servers[0].devices[0].agent.sources[0];
    let kind = SourceKind::Nvml(Gpu::Index(1));
    assert_eq!((source.kind.clone(), source.interval_ms, source.stale_ms), (kind, 20, 1000));
    assert_eq!(source.readings[0], Some(Reading::new("utilization", 1.0)));
    check("nvml = 256", "agent.source.nvml: 256 is out of range");
    check("nvml = \"3b:00\"", "agent.source.nvml: `3b:00`: write an index from 0 to 255, a UUID");
    check(
        "nvml = 0\ncompute = \"utilisation\"",
        "agent.source.compute: `utilisation`: NVIDIA's library has utilization,",
    );
    check("nvml = 0\ncompute = 'utilization{gpu=\"0\"}'", "`utilization` has no labels");
    // Instances have no utilisation: never silently without compute.
    check("nvml = \"MIG-1\"", "agent.source.memory: missing: NVIDIA's library has no utilisation with MIG");
    check(
        "nvml = \"MIG-1\"\ncompute = \"utilization\"",
        "agent.source.compute: `utilization`: NVIDIA's library has no",
    );
    for gpu in ["MIG-1", "GPU-1", "0000:3b:00.0"] {
        let rack = good(&with(&format!("nvml = \"{gpu}\"\nmemory = \"memory\"")));
        let source = &rack.servers[0].devices[0].agent.sources[0];
        assert_eq!(source.kind, SourceKind::Nvml(gpu.parse().expect("a GPU")));
        assert_eq!(source.readings[0], None);
    }
}

/// Trust without a digest must be configured explicitly.
#[test]
fn trust() {
    let keys = "report_keys = \"keys\"";
    assert_eq!(good(SMALL).switch.reports, Trust::Keys("keys".into()));
    let open = good(&SMALL.replace(keys, "reports = \"unauthenticated\""));
    assert_eq!((open.switch.reports, open.switch.believes_probes), (Trust::Unauthenticated, true));
    let none = good(&SMALL.replace(keys, "report_timeout_ms = 0").replace("p4mite", "ecmp"));
    assert_eq!(none.switch.reports, Trust::Closed);
    bad(
        &format!("{keys}\n"),
        "",
        &["rack.toml:2:1: switch.report_keys: missing", "pointsman keys", "unauthenticated"],
    );
    bad(keys, "reports = \"yes\"", &["rack.toml:5:11: switch.reports: `yes`: write \"unauthenticated\""]);
    bad(keys, "reports = true", &["switch.reports", "true"]);
    bad(keys, &format!("{keys}\nreports = \"unauthenticated\""), &["switch.report_keys", "not both"]);
    bad("p4mite", "probe-wrr", &["service.policy", "probes = \"unauthenticated\" in [switch]"]);
    let probes =
        SMALL.replace(keys, &format!("{keys}\nprobes = \"unauthenticated\"")).replace("p4mite", "probe-wrr");
    assert!(good(&probes).switch.believes_probes);
    assert!(good(SMALL).with_policy("web", Policy::ProbeWrr).is_err_and(|e| e.contains("probes")));
}

#[test]
fn a_store() {
    let text = "[switch.store]\naddress = \"10.9.1.1\"\nport = 9\nmac = \"02:00:0a:00:5a:02\"\nswitches = [\"10.9.1.2\", \"10.9.1.3\"]\nsecret = \"s\"\n";
    let two = "report_keys = \"keys\"\np4runtime = [\"a:1\", \"b:1\"]\n";
    let with = |text: &str| SMALL.replace("report_keys = \"keys\"\n", &format!("{two}{text}"));
    let mut rack = good(&with(text));
    assert_eq!(crate::program::defines(&rack), ["BALANCER_STORE"]);
    assert!(crate::program::defines(&good(SMALL)).is_empty());
    let ipv6 = text.replace("10.9.1.", "fd09::a09:10");
    let rack6 = good(&with(&ipv6));
    assert_eq!(crate::program::defines(&rack6), ["BALANCER_STORE", "REDPLANE_IPV6"]);
    let own = rack6.switch.store.expect("a store").switches[1];
    assert_eq!(
        (own.to_string().as_str(), StoreLink::mac_of(own).to_string().as_str()),
        ("fd09::a09:103", "02:00:0a:09:01:03")
    );
    let wrong6 = |from: &str, to: &str, expected: &str| {
        let errors = Rack::parse("rack.toml", &with(&ipv6.replacen(from, to, 1))).expect_err(to);
        assert!(errors.0.len() == 1 && errors.to_string().contains(expected), "{errors}");
    };
    wrong6(
        "fd09::a09:103",
        "fd09::1:0a09:102",
        "switch.store.switches: two switches would send from the same MAC address",
    );
    wrong6("fd09::a09:103", "10.9.1.3", "switch.store.switches: addresses of IPv4 and IPv6");
    let store = |rack: &Rack| rack.switch.store.clone().expect("a store");
    assert_eq!((store(&rack).port, store(&rack).switches.len(), store(&rack).secret), (9, 2, None));
    assert_eq!(StoreLink::mac_of(store(&rack).switches[1]).to_string(), "02:00:0a:09:01:03");
    assert!(rack.take_store_secret("0123").is_err_and(|e| e.contains("16 hexadecimal digits")));
    assert_eq!(rack.take_store_secret("0123456789abcdef\n"), Ok(()));
    assert_eq!(store(&rack).secret.map(|s| s.bits()), Some(0x0123_4567_89ab_cdef));
    let wrong = |from: &str, to: &str, expected: &str| {
        assert!(text.contains(from));
        let text = with(&text.replacen(from, to, 1));
        let errors = Rack::parse("rack.toml", &text).expect_err(to);
        assert_eq!(errors.0.len(), 1, "{errors}");
        assert!(errors.to_string().contains(expected), "{errors}\nlacks `{expected}`");
    };
    wrong("address = \"10.9.1.1\"\n", "", "switch.store.address: missing");
    wrong("10.9.1.1", "10.9.1", "switch.store.address");
    wrong("10.9.1.1", "fd00::1", "switch.store.switches: addresses of IPv4 and IPv6");
    wrong("port = 9\n", "", "switch.store.port: missing");
    wrong("port = 9", "port = 510", "switch.store.port: port 510 is the controller's");
    wrong("mac = \"02:00:0a:00:5a:02\"\n", "", "switch.store.mac: missing");
    wrong("02:00:0a:00:5a:02", "00:00:00:00:00:00", "switch.store.mac: this is not");
    // That of a chain of stores.
    good(&with(&text.replace("02:00:0a:00:5a:02", "01:00:5e:09:01:01")));
    wrong(", \"10.9.1.3\"", "", "switch.store.switches: 1 different addresses for 2 switches");
    wrong("10.9.1.3", "10.9.1.2", "switch.store.switches: 1 different addresses for 2 switches");
    wrong("switches =", "# ", "switch.store.switches: 0 different addresses for 2 switches");
    wrong("secret = \"s\"\n", "", "switch.store.secret: missing");
    wrong("secret", "secret = \"s\"\nlease = 5\n#", "unknown");
}

#[test]
fn reporters() {
    let by = |name: &str| format!("reported_by = \"{name}\"\nport = 3");
    let rack = good(&SMALL.replace("port = 3", &by("cpu")));
    let reporters: Vec<u8> = rack.devices().map(|(_, d)| d.reporter.slot()).collect();
    assert_eq!(reporters, [0, 0]);
    bad("port = 3", &by("gpu"), &["server.device.reported_by: no device `gpu` in `s1`"]);
    let both = SMALL.replace("port = 2", "reported_by = \"nic\"\nport = 2").replace("port = 3", &by("cpu"));
    let errors = Rack::parse("r", &both).expect_err("a circle").to_string();
    assert!(errors.contains("another agent reports for `nic`"), "{errors}");
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
    assert!(rack.with_policy("wob", Policy::Ecmp).expect_err("unknown").contains("there are: web"));
    let rack = good(&no_cpu);
    assert!(rack.with_policy("web", Policy::ServerOnly).expect_err("no cpu").contains("s1"));
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

#[test]
fn prometheus() {
    let with = |judgements: &str, more: &str| {
        let criterion = |name: &str| {
            format!(
                "[[service.prometheus.criterion]]\nname = \"{name}\"\npromql = \"{name}\"\ngoal = \"cost\"\n"
            )
        };
        format!(
            "policy = \"chosen\"\n[service.prometheus]\nurl = \"http://127.0.0.1:9090\"\n\
             alternatives = {{ \"s1/cpu\" = \"a:1\", \"s1/nic\" = \"b:1\" }}\n{judgements}\n{}{}{}{more}\n",
            criterion("cpu"),
            criterion("memory"),
            criterion("link")
        )
    };
    let policy = "policy = \"p4mite\"";
    let check =
        |judgements: &str, more: &str, expected: &[&str]| bad(policy, &with(judgements, more), expected);
    let paper = "judgements = [[1, 4, 0.5], [0.25, 1, 0.1667], [2, 6, 1]]";
    let rack = good(&SMALL.replacen(policy, &with(paper, ""), 1));
    let [choice] = &rack.choices[..] else { panic!("{:?}", rack.choices) };
    assert_eq!((choice.service.as_str(), choice.settings.alternatives.len()), ("web", 2));
    assert_eq!(choice.settings.alternatives[1].device, DeviceNumber::new(1, 1));
    assert!(
        (choice.settings.criteria[2].1.weight - 0.588).abs() < 0.001 && choice.ratio < 0.01,
        "{choice:?}"
    );
    // The first before the second, the second before the third, the third before the first.
    check(
        "judgements = [[1, 3, 0.111], [0.333, 1, 3], [9, 0.333, 1]]",
        "",
        &["service.prometheus.judgements", "consistency ratio", "change that one first", "is `cpu`"],
    );
    check("judgements = [[1, 2], [0.5, 1]]", "", &["2 rows for 3 criteria"]);
    check("judgements = [[1, 4, 0.5], [1, 1, 1], [2, 1, 1]]", "", &["1 divided by", "`memory`"]);
    check("judgements = 3", "", &["write rows of numbers"]);
    check("", "", &["service.prometheus.judgements: missing"]);
    check(paper, "weight = 2", &["criterion.weight", "not both"]);
    check(paper, "preference = \"steep\"", &["unknown preference function `steep`", "\"gaussian\""]);
    check(paper, "preference = \"linear\"\nq = 3", &["criterion.p: missing"]);
    check(paper, "preference = \"linear\"\nq = 3\np = 2", &["below `p`"]);
    check(&paper.replacen("judgements", "url2 = 1\njudgements", 1), "", &["url2: unknown field"]);
    bad(
        policy,
        &with(paper, "").replace("http://127", "127"),
        &["service.prometheus.url", "write http://host:port"],
    );
    bad(policy, &with(paper, "").replace("s1/nic", "s1/gpu"), &["alternatives", "no device `s1/gpu`"]);
}

#[test]
fn limits_and_direct_return() {
    let policy = "policy = \"p4mite\"";
    let with = |more: &str| SMALL.replace(policy, &format!("{policy}\n{more}"));
    let service = |more: &str| good(&with(more)).services[0].clone();
    let plain = service("");
    assert_eq!((plain.limit, plain.direct_return), (None, None));
    assert!(!plain.idle_reset && !plain.failure_reset && plain.unknown_reset);
    assert!(!service("unknown_reset = false").unknown_reset);
    assert!(!plain.adopt_unknown);
    let limited = service("new_connections = { per_s = 100, burst = 7 }\ndirect_return = true");
    assert_eq!(
        (limited.limit, limited.direct_return),
        (Some(Limit { per_s: 100, burst: 7 }), Some(DirectReturn::Layer2))
    );
    for (text, way) in [
        ("false", None),
        ("\"layer-2\"", Some(DirectReturn::Layer2)),
        ("\"ipip\"", Some(DirectReturn::Tunnel)),
    ] {
        assert_eq!(service(&format!("direct_return = {text}")).direct_return, way);
    }
    let reset = service("idle_reset = true\nfailure_reset = true");
    assert!(reset.idle_reset && reset.failure_reset);
    assert_eq!(service("new_connections = { per_s = 100 }").limit, Some(Limit { per_s: 100, burst: 100 }));
    let refused = |more: &str, expected: &[&str]| bad(policy, &format!("{policy}\n{more}"), expected);
    refused("new_connections = {}", &["per_s", "write the new connections per second"]);
    refused("new_connections = { per_s = 0 }", &["new_connections.per_s", "0"]);
    refused("new_connections = { per_s = 5, burst = 0 }", &["burst", "0"]);
    refused("new_connections = 5", &["new_connections"]);
    refused("direct_return = 1", &["direct_return", "ipip"]);
    refused("direct_return = \"gre\"", &["direct_return", "layer-2"]);
    refused("idle_reset = 1", &["idle_reset", "true or false"]);
}

/// Two switches choose the same device only by hash.
#[test]
fn adoption() {
    let policy = "policy = \"p4mite\"";
    let with = |policy: &str| format!("policy = {policy}\nadopt_unknown = true");
    for fine in ["\"ecmp\"", "\"server-only\""] {
        let rack = good(&SMALL.replace(policy, &with(fine)));
        assert!(rack.services[0].adopt_unknown);
        let name = rack.services[0].name.clone();
        let other = rack.with_policy(&name, Policy::P4mite);
        assert!(
            other.expect_err("not by hash").contains("adopt_unknown needs a policy that chooses by hash")
        );
        assert!(rack.with_policy(&name, Policy::Ecmp).is_ok());
    }
    for wrong in ["\"p4mite\"", "\"wrr\"", "\"jsq\"", "\"ecmp\"\ntuning = { servers = \"power-of-two\" }"] {
        bad(policy, &with(wrong), &["service.policy", "adopt_unknown", "hash alone"]);
    }
}

#[test]
fn learning() {
    let policy = "policy = \"p4mite\"";
    let learn = "[learn]\nlearner = \"q-learning\"\ntable = \"t.q\"\nmax_weight = 8\n[learn.clients]\nurl = \"http://127.0.0.1:9090\"\n\
                 p99_ms = \"p99\"\n";
    let with = |learn: &str| format!("policy = \"wrr\"\n{learn}");
    let rack = good(&SMALL.replacen(policy, &with(learn), 1));
    let l = rack.learn.as_ref().expect("there is one");
    assert_eq!(
        (l.service.as_str(), l.table.as_deref(), l.settings.parameters.max_weight),
        ("web", Some("t.q"), 8)
    );
    assert_eq!((l.clients.loss.as_deref(), l.clients.patience.as_millis()), (None, 2000));
    // The output parses to the same value.
    let clients = ClientsSection { url: l.clients.url.clone(), p99_ms: l.clients.p99_ms.clone(), loss: None };
    let section = LearnSection { table: l.table.clone(), ..LearnSection::new(&l.settings, clients) };
    let again = toml::to_string(&BTreeMap::from([("learn", section)])).expect("a table");
    assert_eq!(good(&SMALL.replacen(policy, &with(&again), 1)).learn.as_ref(), Some(l));
    let check = |from: &str, to: &str, expected: &[&str]| {
        assert!(learn.contains(from), "{from}");
        bad(policy, &with(&learn.replacen(from, to, 1)), expected);
    };
    bad(
        policy,
        &format!("{policy}\n{learn}"),
        &["learn.service: service web has policy p4mite", "wrr: write that"],
    );
    check("[learn]\n", "[learn]\nservice = \"mail\"\n", &["learn.service: no service `mail`", "web"]);
    check("q-learning", "magic", &["learn.learner: `magic` is unknown: write one of", "\"thompson\""]);
    check("learner = \"q-learning\"\n", "", &["learn.learner: missing: write one of"]);
    check("q-learning", "fixed", &["learn.table: \"fixed\" has nothing to save"]);
    check("max_weight = 8", "interval_s = 1\nsettle_s = 1", &["learn.settle_s: must be shorter"]);
    check("max_weight = 8", "interval_s = 0", &["learn.interval_s"]);
    check("max_weight = 8", "per_class = 1", &["learn.per_class", "write true or false"]);
    check("max_weight = 8", "guard = { hold = 0 }", &["learn.guard.hold"]);
    check("max_weight = 8", "max_weight = 8\nfirst_weight = 9", &["learn.first_weight", "from 0 to 8"]);
    check("max_weight = 8", "seed = -1", &["learn.seed"]);
    check("p99_ms = \"p99\"\n", "", &["learn.clients.p99_ms: missing: write a PromQL expression"]);
    check("http://", "https://", &["learn.clients.url", "write http://host:port"]);
    let without = &learn[..learn.find("[learn.c").expect("there")];
    bad(policy, &with(without), &["learn.clients: missing", "[learn.clients]"]);
    let alone = SMALL.replacen(policy, &with(learn), 1).replacen("kind = \"smartnic\"", "kind = \"cpu\"", 1);
    let errors = Rack::parse("rack.toml", &alone).expect_err("no accelerator").to_string();
    assert!(errors.contains("learn.service: service web needs processors"), "{errors}");
    let blind =
        SMALL.replacen(policy, &with(learn), 1).replacen("[switch]", "[switch]\nreport_timeout_ms = 0", 1);
    let errors = Rack::parse("rack.toml", &blind).expect_err("no reports").to_string();
    assert!(errors.contains("learners need agents' reports"), "{errors}");
}

/// Servers with equal devices form a class; a class name groups other servers, or separates equal ones.
#[test]
fn classes_of_servers() {
    let learn = "[learn]\nlearner = \"thompson\"\ntable = \"t\"\n[learn.clients]\nurl = \"http://127.0.0.1:9090\"\np99_ms = \"p99\"\n";
    let text = format!("{EXAMPLE}{learn}").replacen("policy = \"p4mite\"", "policy = \"wrr\"", 1);
    let classes = |text: &str, per_class| {
        let all = good(text).classes("inference", per_class).expect("there is one");
        all.into_iter().map(|c| (c.name, c.servers, c.learns)).collect::<Vec<_>>()
    };
    let of = |name: &str, servers: &[u16]| (name.to_string(), servers.to_vec(), true);
    assert!(good(&text).learn.expect("there is one").settings.per_class, "as in a scenario");
    assert_eq!(classes(&text, true), [of("like-s1", &[1, 2])]);
    assert_eq!(classes(&text, false), [of("all", &[1, 2])]);
    let second = |from: &str, to: &str| {
        let at = text.find("name = \"s2\"").expect("there");
        format!("{}{}", &text[..at], text[at..].replacen(from, to, 1))
    };
    for to in ["weight = 4", "weight = 5\nworkers = 8", "weight = 5\nenabled = false\n"] {
        let differs = second("weight = 5", to);
        let found = classes(&differs, true);
        assert_eq!(found.iter().map(|c| c.1.clone()).collect::<Vec<_>>(), [[1], [2]], "{to}");
        assert_eq!(found[1], ("like-s2".into(), vec![2], !to.contains("enabled")));
        assert_eq!(classes(&differs, false).len(), 1);
    }
    let named = second("name = \"s2\"", "name = \"s2\"\nclass = \"old\"");
    assert_eq!(classes(&named, true), [of("like-s1", &[1]), of("old", &[2])]);
    let joined = named.replacen("name = \"s1\"", "name = \"s1\"\nclass = \"old\"", 1).replacen(
        "weight = 5",
        "weight = 4",
        1,
    );
    assert_eq!(classes(&joined, true), [of("old", &[1, 2])]);
    bad("name = \"s1\"", "name = \"s1\"\nclass = \"a b\"", &["server.class", "letters, digits"]);
    // Apart they have nothing to weigh, together they have.
    let apart = second("kind = \"cpu\"", "kind = \"gpu\"");
    let apart = apart.replacen("kind = \"smartnic\"", "kind = \"cpu\"", 1);
    let errors = Rack::parse("rack.toml", &apart).expect_err("nothing to weigh").to_string();
    assert!(errors.contains("no server of service inference has both"), "{errors}");
    assert_eq!(classes(&apart.replacen("\n[learn]\n", "\n[learn]\nper_class = false\n", 1), false).len(), 1);
}

#[test]
fn sources_of_members() {
    use crate::members::tests::RACK;
    let rack = good(RACK);
    let [pool, list] = &rack.sources[..] else { panic!("{:?}", rack.sources) };
    assert_eq!((pool.origin.clone(), pool.reports, pool.most), (Origin::Api { ttl_s: 10 }, true, 12));
    assert_eq!(
        (list.origin.clone(), list.reports, list.most),
        (Origin::File("members.json".into()), false, 64)
    );
    assert_eq!(pool.services, ["web"]);
    let bad = |from: &str, to: &str, expected: &str| {
        assert!(RACK.contains(from), "`{from}` does not occur");
        let e = Rack::parse("rack.toml", &RACK.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(e.starts_with("rack.toml:") && e.contains(expected), "{e}\nlacks {expected}");
    };
    bad(
        "state = \"state.json\"",
        "",
        "members: members keep their numbers in the switch over a restart: write `state` in [api]",
    );
    bad("api = true", "", "members.ttl_s: only members that register by API have one");
    bad("api = true\nttl_s = 10", "", "members.file: missing: write the path");
    bad(
        "api = true",
        "api = true\nfile = \"a\"",
        "members.file: write one of `api = true`, `file`, `prometheus` and `dns`",
    );
    bad(
        "api = true\nttl_s = 10",
        "prometheus = \"https://sd\"",
        "members.prometheus: `https://sd`: write http://host:port/path",
    );
    bad("ttl_s = 10", "interval_s = 10", "members.interval_s: only a source that is asked");
    let asked = good(&RACK.replace("file = \"members.json\"", "prometheus = \"http://sd:8080/targets\""));
    assert_eq!(
        asked.sources[1].origin,
        Origin::Prometheus { url: "http://sd:8080/targets".into(), interval_s: 10 }
    );
    let named = good(&RACK.replace(
        "file = \"members.json\"",
        "dns = \"_web._tcp.example.\"\ndns_server = \"10.0.0.53:53\"\nkind = \"gpu\"",
    ));
    let (name, server) = ("_web._tcp.example".into(), "10.0.0.53:53".parse().ok());
    assert_eq!(named.sources[1].origin, Origin::Dns { name, server, kind: DeviceKind::Gpu });
    bad("file = \"members.json\"", "dns = \"a..b\"", "members.dns: `a..b`: write labels of letters");
    bad("file = \"members.json\"", "dns = \"a\"\nfile = \"b\"", "members.dns: write one of");
    bad("file = \"members.json\"", "dns = \"a\"\ndns_server = \"b\"", "members.dns_server: ");
    bad(
        "file = \"members.json\"",
        "file = \"a\"\nkind = \"cpu\"",
        "members.kind: only members from DNS have it",
    );
    bad("ports = [6, 7]", "", "members.ports: missing");
    bad("ports = [6, 7]", "ports = [6.5]", "write a whole number");
    bad("ports = [6, 7]", "ports = [510]", "port 510 is the controller's");
    bad("ports = [6, 7]", "ports = [509]", "port 509 is where the program sends what it consumes");
    bad("ports = [6, 7]", "ports = [511]", "from 0 to 510");
    bad("networks = [\"10.0.3.0/24\"]", "", "members.networks: missing");
    bad("10.0.3.0/24", "10.0.3.1/24", "write 10.0.3.0/24");
    bad("name = \"list\"", "name = \"pool\"", "two sources of members are called `pool`");
    bad(
        "file = \"members.json\"",
        "file = \"members.json\"\nreports = true",
        "members.reports: agents of members get their keys",
    );
    bad("most = 12", "services = [\"nothing\"]", "no service `nothing`; there are: web");
    bad(
        "most = 12",
        "agent = { heartbeat_ms = 300 }",
        "members.agent.heartbeat_ms: agents report every 300 ms",
    );
    let twice = RACK.find("[[members]]").expect("there");
    let second = "[[service]]\nname = \"two\"\nvip = \"10.0.0.101\"\nprotocol = \"tcp\"\nport = 8000\npolicy = \"ecmp\"\nservers = []\n";
    let text = format!("{}{second}{}", &RACK[..twice], &RACK[twice..]);
    let e = Rack::parse("rack.toml", &text).expect_err("ambiguous").to_string();
    assert!(e.contains("`web` and `two` both use port 8000"), "{e}");
}
