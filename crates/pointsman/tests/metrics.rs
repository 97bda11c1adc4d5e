//! Metrics of switch, controller and agent, and that the dashboards use no others.

use crate::support::{PATIENCE, Running, Scratch, Switch, file, finish, get, root};
use pointsman_balance::Rack;
use pointsman_balance::agent::{Agent, AgentConfig};
use pointsman_balance::api::Group;
use pointsman_fabric::{Controller, Description};
use pointsman_node::controller::compiled;
use pointsman_node::metrics::certificates::Certificates;
use pointsman_node::metrics::{self, Page, agent, network, store};
use pointsman_node::network::steer::Tally;
use pointsman_topology::SwitchId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Reads a page in OpenMetrics format: names with their types, and samples. Anything else is a failure.
fn read(page: &str) -> (BTreeMap<String, String>, BTreeMap<String, f64>) {
    let (mut types, mut samples) = (BTreeMap::new(), BTreeMap::new());
    assert!(page.ends_with("\n# EOF\n"), "{page}");
    for line in page.lines().filter(|l| !l.starts_with("# HELP") && *l != "# EOF") {
        if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').expect("name and type");
            let name = if kind == "counter" { format!("{name}_total") } else { name.to_string() };
            if kind == "histogram" {
                for part in ["sum", "count", "bucket"] {
                    assert_eq!(types.insert(format!("{name}_{part}"), part.to_string()), None, "{line}");
                }
                continue;
            }
            assert_eq!(types.insert(name, kind.to_string()), None, "two of a name: {line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let value: f64 = value.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
        let family = name.split('{').next().expect("a name");
        assert!(types.contains_key(family), "{line} comes before its type");
        assert_eq!(samples.insert(name.to_string(), value), None, "two of a name: {line}");
    }
    (types, samples)
}

/// All names of metrics in the expressions of a dashboard.
fn asked_for(dashboard: &Value, found: &mut BTreeSet<String>) {
    match dashboard {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if ["expr", "query", "definition"].contains(&key.as_str()) => {
                        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                        found.extend(words.filter(|w| w.starts_with("pointsman_")).map(String::from));
                    }
                    inner => asked_for(inner, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|v| asked_for(v, found)),
        _ => {}
    }
}

/// The page of a network's controller.
fn of_a_network() -> Page {
    let text = "[network.leaf_spine]\nleaves = 1\nspines = 1\nhosts_per_leaf = 1\n\
                [switches]\nleaf1 = \"192.0.2.1:9559\"\nspine1 = \"192.0.2.2:9559\"\n";
    let of = Description::read("fabric.toml", text).expect("good");
    let (program, _) = compiled("ecmp", of.choice.scheme.program.into()).expect("it compiles");
    let address = |s: SwitchId| of.p4runtime[s.0 as usize].clone();
    let controller = Controller::new(of.topology.clone(), of.choice.clone(), &program, address, 0);
    let tally = Tally { events: [("connecting", 1)].into(), ..Tally::default() };
    network::page(&controller.expect("it has all names"), &[tally.clone(), tally])
}

#[test]
fn pages_and_dashboards() {
    let files = Scratch::new("metrics");
    let switch = Switch::start(&["balancer", "--metrics", "127.0.0.1:0"]);
    let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
    let example = example.replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1);
    let example =
        example.replacen("tokens = ", "listen = \"127.0.0.1:0\"\nstate = \"state.json\"\ntokens = ", 1);
    let members =
        "\n[[members]]\nname = \"pool\"\napi = true\nnetworks = [\"10.0.2.0/24\"]\nports = [6, 7]\n";
    let example = example + members;
    let rack = files.write("rack.toml", example.replacen("127.0.0.1:9559", &switch.address.to_string(), 1));
    assert_eq!(crate::support::run(&["keys", &rack]).code, Some(0), "a token for the API");
    let controller = Running::start(&["controller", &rack, "--metrics", "127.0.0.1:0"]);
    controller.wait_for("the switch is up to date");
    let api = controller.wait_for("API on ").split("API on ").nth(1).expect("an address").trim().to_string();
    let at = |line: String| line.split("metrics on ").nth(1).expect("an address").trim().to_string();
    let (of_switch, of_controller) =
        (at(switch.wait_for("metrics on ")), at(controller.wait_for("metrics on ")));
    // Its first questions come a moment after the entries.
    let start = Instant::now();
    let (page, mut types, samples) = loop {
        let (status, page) = get(&of_switch);
        assert_eq!(status, 200);
        let (types, samples) = read(&page);
        let asked = samples["pointsman_switch_packets_total{way=\"from_controller\"}"] >= 4.0;
        if asked || start.elapsed() > PATIENCE {
            break (page, types, samples);
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    // Four addresses and protocols of one service; the controller has asked for neighbours.
    let tables =
        |name: &str| samples[&format!("pointsman_switch_table_entries{{table=\"BalancerIngress.{name}\"}}")];
    assert_eq!((tables("services_v4"), tables("services_v6")), (2.0, 2.0));
    assert!(samples["pointsman_switch_packets_total{way=\"from_controller\"}"] >= 4.0, "{page}");
    let (status, page) = get(&of_controller);
    assert_eq!(status, 200);
    let (more, samples) = read(&page);
    types.extend(more);
    assert_eq!(samples["pointsman_controller_status{status=\"in_sync\"}"], 1.0);
    assert_eq!(samples["pointsman_controller_unresolved"], 5.0, "no answers here: four devices and a route");
    assert!(samples["pointsman_controller_writes_total"] > 0.0);
    assert_eq!(samples["pointsman_controller_unsaved"], 0.0);
    assert_eq!(samples["pointsman_controller_config_refused{file=\"rack.toml\"}"], 0.0);
    assert_eq!(samples["pointsman_controller_member_changes_total{source=\"pool\",change=\"joined\"}"], 0.0);
    let info = "pointsman_controller_device_info{server_id=\"2\",slot=\"1\",server=\"s2\",device=\"s2/nic\",kind=\"smartnic\"}";
    assert_eq!(samples[info], 1.0);
    let start = samples["process_start_time_seconds"];
    assert!(start > 1.7e9 && samples["process_resident_memory_bytes"] > 1e6, "started at {start}");
    assert!(samples.keys().any(|k| k.starts_with("pointsman_build_info{component=\"controller\"")), "{page}");
    assert!(
        samples.keys().any(|k| k.contains("service=\"inference\"") && k.contains("service_id=\"1\"")),
        "{page}"
    );
    // An agent needs an interface to run on, but not for its metrics.
    let described = Rack::parse("rack.toml", &std::fs::read_to_string(&rack).expect("text")).expect("valid");
    let agent = Agent::new(AgentConfig::from_rack(&described, "s1", "cpu", "lo").expect("a device"));
    types.extend(read(&agent::page(&agent.figures(Duration::ZERO), Duration::ZERO).text()).0);
    let (disk, etcd) = (Some(Default::default()), Some(Default::default()));
    let of_store = store::Figures { disk, etcd, ..Default::default() };
    types.extend(read(&of_store.page().text()).0);
    types.extend(read(&of_a_network().text()).0);
    let (mut certificates, mut page) = (Certificates::default(), Page::default());
    certificates.follow("api-server", "api.pem".as_ref(), Default::default());
    certificates.add_to(&mut page);
    types.extend(read(&page.text()).0);
    let group = Group {
        name: "a".into(),
        leads: true,
        term: Some(1),
        leader: None,
        since_ms: 0,
        etcd: String::new(),
        trouble: None,
        controllers: Vec::new(),
    };
    let mut page = Page::default();
    metrics::controller::group(&group, 0, 0, &mut page);
    types.extend(read(&page.text()).0);
    let nothing = files.path("bird.ctl");
    let flags = ["--check", "tcp://127.0.0.1:1", "--protocol", "vip4", "--bird", &nothing];
    let health = Running::start(&[&["health", "--metrics", "127.0.0.1:0"][..], &flags].concat());
    types.extend(read(&get(&at(health.wait_for("metrics on "))).1).0);
    // Other paths.
    let other = |path: &str| get(&of_switch.replace("/metrics", path));
    assert!(matches!(other("/"), (404, e) if e.contains("/metrics")));
    assert_eq!((other("/healthz"), other("/readyz")), ((200, "alive\n".into()), (200, "ready\n".into())));
    // Addresses that nothing answers do not keep the controller from its work; a switch that is away does.
    let ready = [&of_controller.replace("metrics", "readyz"), &format!("{api}/readyz")];
    assert_eq!(ready.map(|url| get(url).0), [200, 200]);
    drop(switch);
    let start = Instant::now();
    while get(ready[0]).0 == 200 && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(
        ready.iter().all(|url| matches!(get(url), (503, e) if e.contains("no connection to the switch")))
    );
    assert_eq!(get(&format!("{api}/healthz")), (200, "alive\n".into()));

    let mut dashboards = 0;
    for entry in std::fs::read_dir(root().join("dashboards")).expect("the dashboards") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let dashboard: Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut names = BTreeSet::new();
        asked_for(&dashboard, &mut names);
        assert!(names.len() >= 10, "{}: {names:?}", path.display());
        let unknown: Vec<&String> = names.iter().filter(|n| !types.contains_key(*n)).collect();
        assert!(unknown.is_empty(), "{} asks for {unknown:?}; there are {:?}", path.display(), types.keys());
        // A panel without a place or a title would not be shown as meant.
        for panel in dashboard["panels"].as_array().expect("panels") {
            assert!(panel["title"].is_string() && panel["gridPos"]["w"].is_u64(), "{panel}");
        }
        dashboards += 1;
    }
    assert!(dashboards > 0);
    let rules = std::fs::read_to_string(file("dashboards/rules.yml")).expect("text");
    // Only with a learner: learn_wire.rs reads it.
    types.insert("pointsman_controller_learner_state".into(), "gauge".into());
    let words = rules.split(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c)));
    let (names, unknown): (Vec<&str>, Vec<&str>) = words
        .filter(|w| ["pointsman_", "process_"].iter().any(|p| w.starts_with(p)) && !w.contains(':'))
        .partition(|w| types.contains_key(*w));
    assert!(names.len() >= 20 && unknown.is_empty(), "the rules ask for {unknown:?}");
}

/// The rules fire when they should, and not before: their own tests, by Prometheus' tool.
#[test]
fn alert_rules() {
    if !pointsman_needs::programs("alert_rules", &["prometheus"]) {
        return;
    }
    let promtool = |arguments: &[&str]| {
        let mut command = std::process::Command::new("promtool");
        command.args(arguments).current_dir(root().join("dashboards"));
        let done = finish(command);
        assert_eq!(done.code, Some(0), "{arguments:?}: {}{}", done.stdout, done.stderr);
    };
    promtool(&["check", "rules", "rules.yml"]);
    promtool(&["test", "rules", "rules-tests.yml"]);
    // Every alert has a test, and a severity, a summary and a remedy.
    let text = |name: &str| std::fs::read_to_string(file(&format!("dashboards/{name}"))).expect("text");
    let (rules, tests) = (text("rules.yml"), text("rules-tests.yml"));
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    for alert in &alerts {
        let name = alert.split_whitespace().next().expect("a name");
        assert!(tests.contains(name), "{name} has no test");
        assert!(["severity: ", "summary: ", "remedy: "].iter().all(|part| alert.contains(part)), "{alert}");
    }
    assert!(alerts.len() >= 20);
}
