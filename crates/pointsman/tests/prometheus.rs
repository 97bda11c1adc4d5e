//! A real Prometheus server with two real node exporters decides which device a service gets. Everything is on loopback, at ports
//! that were free a moment ago. Skipped if the programs are not installed.

use crate::support::programs::Program;
use crate::support::{PATIENCE, Running, Scratch, Switch, file};
use pointsman_balance::mcdm::prometheus::{form, samples};
use pointsman_control::proto::p4rt as pb;
use pointsman_needs::programs;
use pointsman_node::http::client::{Ask, AskError, ask};
use serde_json::Value;
use std::net::TcpListener;
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123";

fn started(name: &str, arguments: &[String]) -> Program {
    Program::start(name, arguments).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port()
}

fn get(url: &str, token: Option<&str>) -> Result<(u16, Vec<u8>), AskError> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio.block_on(ask(Ask { method: "GET", url, token, ..Ask::default() }, PATIENCE))
}

/// The text behind `mark` in a line.
fn after(line: &str, mark: &str) -> String {
    line.split(mark).nth(1).expect("the mark").trim().to_string()
}

fn wait_until(what: &str, mut right: impl FnMut() -> bool) {
    let start = Instant::now();
    while !right() {
        assert!(start.elapsed() < PATIENCE * 2, "waited for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

struct Bench {
    files: Scratch,
    exporters: Vec<Option<Program>>,
    ports: Vec<u16>,
    prometheus: Option<Program>,
    prometheus_port: u16,
    switch: Switch,
    controller: Running,
    api: String,
}

impl Bench {
    fn new() -> Bench {
        let files = Scratch::new("prometheus");
        let ports = vec![free_port(), free_port()];
        let prometheus_port = free_port();
        let targets: Vec<String> = ports.iter().map(|p| format!("'127.0.0.1:{p}'")).collect();
        let switch = Switch::start(&["balancer", "--metrics", "127.0.0.1:0"]);
        files.write("tokens", format!("ops {TOKEN}\n"));
        let rack = files.write("rack.toml", Self::rack(&switch, prometheus_port, &ports));
        let controller = Running::start(&["controller", &rack, "--metrics", "127.0.0.1:0"]);
        files.write(
            "prometheus.yml",
            format!(
                "global: {{ scrape_interval: 250ms, scrape_timeout: 250ms }}\nscrape_configs:\n- job_name: node\n  \
                 static_configs:\n  - targets: [{}]\n- job_name: pointsman\n  static_configs:\n  - targets: ['{}', '{}']\n",
                targets.join(", "),
                after(&switch.wait_for("metrics on http://"), "http://").trim_end_matches("/metrics"),
                after(&controller.wait_for("metrics on http://"), "http://").trim_end_matches("/metrics"),
            ),
        );
        let api = after(&controller.wait_for("API on "), "API on ");
        let mut b = Bench {
            files,
            exporters: vec![None, None],
            ports,
            prometheus: None,
            prometheus_port,
            switch,
            controller,
            api,
        };
        b.busy(0, "10");
        b.busy(1, "20");
        b.start_exporter(0);
        b.start_exporter(1);
        b.start_prometheus();
        b
    }

    fn rack(switch: &Switch, prometheus: u16, ports: &[u16]) -> String {
        let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
        let example =
            example.replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1);
        let text = example
            .replacen("tokens = \"tokens.txt\"", "listen = \"127.0.0.1:0\"\ntokens = \"tokens\"", 1)
            .replacen("127.0.0.1:9559", &switch.address.to_string(), 1)
            .replacen("policy = \"p4mite\"", "policy = \"chosen\"", 1);
        // The judgements of the paper: processor, memory, network.
        text + &format!(
            r#"
[service.prometheus]
url = "http://127.0.0.1:{prometheus}"
interval_ms = 200
patience_ms = 1000
stale_after_ms = 1500
age = "time() - timestamp(up == 1)"
alternatives = {{ "s1/cpu" = "127.0.0.1:{}", "s2/cpu" = "127.0.0.1:{}" }}
judgements = [[1, 4, 0.5], [0.25, 1, 0.1667], [2, 6, 1]]
[[service.prometheus.criterion]]
name = "busy"
promql = "device_busy"
goal = "cost"
preference = "linear"
q = 1
p = 30
[[service.prometheus.criterion]]
name = "memory"
promql = "node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"
goal = "benefit"
preference = "v-shape"
p = 1
[[service.prometheus.criterion]]
name = "network"
promql = "sum by (instance) (device_busy * 0 + 1)"
goal = "cost"
"#,
            ports[0], ports[1]
        )
    }

    /// An exporter's metrics of its device.
    fn busy(&self, i: usize, value: &str) {
        let folder = self.files.0.join(format!("device{i}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        // As in the exporter's manual: written elsewhere, then renamed.
        let new = self.files.write("new", format!("device_busy {value}\n"));
        std::fs::rename(new, folder.join("busy.prom")).expect("renamed");
    }

    fn start_exporter(&mut self, i: usize) {
        let folder = self.files.path(&format!("device{i}"));
        self.exporters[i] = Some(started(
            "prometheus-node-exporter",
            &[
                format!("--web.listen-address=127.0.0.1:{}", self.ports[i]),
                "--collector.disable-defaults".into(),
                "--collector.meminfo".into(),
                "--collector.textfile".into(),
                format!("--collector.textfile.directory={folder}"),
            ],
        ));
    }

    fn start_prometheus(&mut self) {
        self.prometheus = Some(started(
            "prometheus",
            &[
                format!("--config.file={}", self.files.path("prometheus.yml")),
                format!("--storage.tsdb.path={}", self.files.path("data")),
                format!("--web.listen-address=127.0.0.1:{}", self.prometheus_port),
            ],
        ));
        let ready = format!("http://127.0.0.1:{}/-/ready", self.prometheus_port);
        wait_until("Prometheus", || get(&ready, None).is_ok_and(|(status, _)| status == 200));
    }

    fn service(&self) -> Value {
        let (status, body) =
            get(&format!("{}/v1/services/inference", self.api), Some(TOKEN)).expect("an answer");
        assert_eq!(status, 200);
        serde_json::from_slice(&body).expect("JSON")
    }

    fn wait_for_choice(&self, device: Value) {
        wait_until(&format!("{device}, not {}", self.service()["chosen"]), || {
            self.service()["chosen"] == device
        });
    }

    /// The values of an expression in Prometheus.
    fn query(&self, promql: &str) -> Vec<f64> {
        let url = format!("http://127.0.0.1:{}/api/v1/query?{}", self.prometheus_port, form(promql));
        let (status, body) = get(&url, None).expect("an answer");
        samples(status, &body).expect("samples").iter().map(|s| s.value).collect()
    }

    /// The switch's state: one value for each of the service's addresses and protocols.
    fn registers(&self) -> Vec<u32> {
        let (mut client, _) = crate::support::controller::connect(self.switch.address, 1_000_000_000_000);
        let register = client
            .info
            .registers
            .iter()
            .find(|r| r.preamble.as_ref().is_some_and(|p| p.name.ends_with("controllers_choice")));
        let id = register.and_then(|r| r.preamble.as_ref()).expect("the balancer has it").id;
        let mut value = |index| {
            let entry = pb::RegisterEntry { register_id: id, index: Some(pb::Index { index }), data: None };
            let entities =
                client.read(pb::entity::Entity::RegisterEntry(entry)).expect("registers can be read");
            let [pb::entity::Entity::RegisterEntry(r)] = &entities[..] else { panic!("{entities:?}") };
            match r.data.as_ref().and_then(|d| d.data.as_ref()) {
                Some(pb::p4_data::Data::Bitstring(b)) => b.iter().fold(0, |n, b| n << 8 | u32::from(*b)),
                other => panic!("{other:?}"),
            }
        };
        (1..=4).map(&mut value).collect()
    }
}

#[test]
fn prometheus_names_the_device() {
    if !programs("prometheus_names_the_device", &["prometheus", "prometheus-node-exporter"]) {
        return;
    }
    let mut b = Bench::new();
    // The weights of the paper, by the judgements of the paper.
    b.controller
        .wait_for("busy 0.323 (cost), memory 0.089 (benefit), network 0.588 (cost) (consistency ratio 0.0");
    b.wait_for_choice("s1/cpu".into());
    assert_eq!(b.service()["policy"]["policy"], "chosen");
    b.busy(0, "90");
    b.wait_for_choice("s2/cpu".into());
    // A value that is not a number is ignored.
    b.busy(1, "NaN");
    b.wait_for_choice("s1/cpu".into());
    b.controller.wait_for(&format!("instance=\"127.0.0.1:{}\" has no single, finite value", b.ports[1]));
    b.busy(1, "5");
    b.wait_for_choice("s2/cpu".into());
    b.controller.wait_for("all devices are measured again");
    // An unmeasured device is stale long before Prometheus itself forgets its last value.
    b.exporters[1] = None;
    b.wait_for_choice("s1/cpu".into());
    b.start_exporter(1);
    b.wait_for_choice("s2/cpu".into());
    // Without the server no device is named, and the data plane decides.
    b.prometheus = None;
    b.wait_for_choice(Value::Null);
    b.controller.wait_for("Connection refused");
    b.start_prometheus();
    b.wait_for_choice("s2/cpu".into());
    // Prometheus scrapes switch and controller, and can join names to the switch's numbers.
    wait_until("the metrics", || b.query("pointsman_controller_status{status=\"in_sync\"}") == [1.0]);
    wait_until("the choices", || b.query("pointsman_controller_chosen{device=\"s2/cpu\"}") == [1.0]);
    // A restarted server has not scraped all targets yet.
    let choices = "pointsman_controller_choices_total";
    wait_until("all choices", || b.query(choices).iter().all(|n| *n >= 6.0));
    let entries = "pointsman_switch_table_entries{table=\"BalancerIngress.services_v4\"}";
    wait_until("the switch's metrics", || !b.query(entries).is_empty());
    assert!(b.query(choices).iter().all(|n| (6.0..20.0).contains(n)));
    assert_eq!(b.query(entries), [2.0]);
    assert_eq!(b.query("count(pointsman_controller_service_info{policy=\"chosen\"})"), [4.0]);
    // The controller remains primary only until a client has a higher number: check last.
    let chosen = 0xc000_0000 | 2 << 3;
    assert_eq!(b.registers(), [chosen; 4], "every address and protocol of the service has it");
}

/// All expressions of a dashboard, as Grafana would ask for them.
fn expressions(dashboard: &Value, found: &mut Vec<String>) {
    match dashboard {
        Value::Object(map) => {
            found.extend(
                map.get("expr")
                    .and_then(Value::as_str)
                    .map(|e| e.replace("$__rate_interval", "5s").replace("$rack", ".*")),
            );
            map.values().for_each(|v| expressions(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| expressions(v, found)),
        _ => {}
    }
}

/// Two racks in one Prometheus, distinguished by a label: every query of the dashboard has an answer, with devices of both.
#[test]
fn dashboards_with_two_racks() {
    if !programs("dashboards_with_two_racks", &["prometheus"]) {
        return;
    }
    let files = Scratch::new("two-racks");
    let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
    let example = example
        .replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1)
        .replacen("tokens = ", "listen = \"127.0.0.1:0\"\ntokens = ", 1);
    // The controller's requests for MAC addresses get no answer here.
    let example = ["11", "12", "21", "22"].iter().fold(example, |text, n| {
        let address = format!("address = \"10.0.1.{n}\"");
        text.replacen(&address, &format!("mac = \"02:00:00:00:01:{n}\"\n{address}"), 1)
    });
    files.write("tokens.txt", format!("ops {TOKEN}\n"));
    let mut config =
        "global: { scrape_interval: 250ms, scrape_timeout: 250ms }\nscrape_configs:\n".to_string();
    let mut running = Vec::new();
    for name in ["a", "b"] {
        let switch = Switch::start(&["balancer", "--metrics", "127.0.0.1:0"]);
        // The same numbers in the switch, other names.
        let text = example.replace("\"s1", &format!("\"{name}1")).replace("\"s2", &format!("\"{name}2"));
        let text = text.replacen("127.0.0.1:9559", &switch.address.to_string(), 1);
        let rack = files.write(&format!("{name}.toml"), text);
        let controller = Running::start(&["controller", &rack, "--metrics", "127.0.0.1:0"]);
        let metrics = |line: String| after(&line, "http://").trim_end_matches("/metrics").to_string();
        let targets = [
            metrics(switch.wait_for("metrics on http://")),
            metrics(controller.wait_for("metrics on http://")),
        ];
        config += &format!(
            "- job_name: {name}\n  static_configs:\n  - {{ targets: ['{}', '{}'], labels: {{ rack: {name} }} }}\n",
            targets[0], targets[1]
        );
        controller.wait_for("up to date");
        running.push((switch, controller));
    }
    let port = free_port();
    let prometheus = started(
        "prometheus",
        &[
            format!("--config.file={}", files.write("prometheus.yml", config)),
            format!("--storage.tsdb.path={}", files.path("data")),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ],
    );
    let ask = |promql: &str| {
        let url = format!("http://127.0.0.1:{port}/api/v1/query?{}", form(promql));
        let (status, body) = get(&url, None).map_err(|e| e.to_string())?;
        Ok::<_, String>((status, String::from_utf8_lossy(&body).into_owned()))
    };
    wait_until("all targets", || {
        ask("count(up == 1) == 4").is_ok_and(|(_, body)| body.contains("\"value\""))
    });
    let text = std::fs::read_to_string(file("dashboards/pointsman.json")).expect("the dashboard");
    let mut all = Vec::new();
    expressions(&serde_json::from_str(&text).expect("JSON"), &mut all);
    assert!(all.len() > 30, "{}", all.len());
    // Rates need two samples.
    wait_until("rates", || {
        ask("count(rate(pointsman_balancer_device_connections_total[5s])) == 8")
            .is_ok_and(|(_, b)| b.contains("\"value\""))
    });
    let mut with_names = 0;
    for expression in &all {
        let (status, body) = ask(expression).unwrap_or_else(|e| panic!("{expression}: {e}"));
        assert_eq!(status, 200, "{expression}: {body}");
        if expression.contains("group_left (server, device)") && !expression.contains("open_connections") {
            with_names += 1;
            let both = ["a1/cpu", "b2/nic"].iter().all(|d| body.contains(d));
            assert!(
                both || ["age", "load", "p99"].iter().any(|figure| expression.contains(figure)),
                "{expression}: {body}"
            );
        }
    }
    assert!(with_names >= 5, "{with_names}");
    drop((prometheus, running));
}
