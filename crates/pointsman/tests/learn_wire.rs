//! Learners of weights against a switch on the wire: `pointsman switch` and `pointsman controller` as processes in a namespace, agents
//! and devices in theirs, an open-loop client. The learner reads registers and writes ring weights by P4Runtime.
//!
//! Whether learners find the right weights is tested in virtual time (`crates/sim/tests/sim/learning.rs`). Here each input
//! must reach the learner and each decision the switch, on a machine of any speed: no test asks for a certain decision.
//!
//! One server: a processor for 200 requests/s, and a SmartNIC for 80. Two servers: the second one's processor is three times as
//! fast. Client metrics come from the test itself, or from a real Prometheus server that scrapes them; without one that test is
//! skipped.

use crate::support::programs::Program;
use crate::support::{Finished, Running, Scratch, Switch, finish, pointsman};
use pointsman_balance as balance;
use pointsman_balance::config::file::{
    AgentSection, ApiSection, ClientsSection, DeviceSection, LearnSection, RackFile, ServerSection,
    ServiceSection, SourceSection, SwitchSection,
};
use pointsman_balance::config::{NextHop, Route};
use pointsman_balance::{Policy, Prefix, Protocol};
use pointsman_compile::executor::Choice;
use pointsman_decide::{LearnerKind, Parameters, Settings};
use pointsman_lab::device::{DeviceConfig, Model, ServiceTime};
use pointsman_lab::harness::Test;
use pointsman_lab::load::{self, Arrivals, LoadConfig, LoadResult, SourcePorts};
use pointsman_lab::rack::{ClientSpec, DeviceKind, DeviceSpec, Link, RackSpec, ServerSpec};
use pointsman_lab::wire::{Key, Keyring};
use pointsman_lab::{Namespace, ensure};
use pointsman_live::{ClientsView, Live, Log};
use std::fmt::Write;
use std::io::{Read, Write as _};
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SEED: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(20);
const RATE: f64 = 230.0;
/// A request that takes longer is lost.
const TIMEOUT: Duration = Duration::from_secs(3);

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

pub const TESTS: &[(&str, Test)] = &[
    ("p4wise_decides", p4wise_decides),
    ("each_class_has_its_weights", each_class_has_its_weights),
    ("prometheus_tells_what_clients_see", prometheus_tells_what_clients_see),
];

/// How fast the processor of each server is.
type Shape = &'static [f64];
const ONE: Shape = &[1.0];
const TWO: Shape = &[1.0, 3.0];

fn spec(shape: Shape) -> RackSpec {
    let device = |server: usize, slot: usize, name: &str, kind, speed| {
        let at = 2 * server + slot;
        DeviceSpec { name: name.into(), kind, link: Link::in_subnet(2 + at as u16, 1 + at as u8), speed }
    };
    let server = |(i, speed): (usize, &f64)| ServerSpec {
        name: format!("s{}", i + 1),
        devices: vec![
            device(i, 0, "cpu", DeviceKind::Cpu, *speed),
            device(i, 1, "nic", DeviceKind::SmartNic, 0.4),
        ],
    };
    RackSpec {
        servers: shape.iter().enumerate().map(server).collect(),
        clients: vec![ClientSpec { name: "client".into(), link: Link::in_subnet(1, 0), addresses: 8 }],
        offloads: true,
        ..RackSpec::demo()
    }
}

fn devices(spec: &RackSpec) -> Vec<DeviceConfig> {
    let device = |(name, d): (String, &DeviceSpec)| DeviceConfig {
        key: Key::derive(SEED, &name),
        name,
        addresses: vec![d.link.ipv4.into(), d.link.ipv6.into()],
        port: 8000,
        model: Model::Timed(ServiceTime::Deterministic),
        service: Duration::from_millis(20),
        speed: d.speed,
        servers: 4,
        // Excess requests are lost, and do not affect the next interval.
        buffer: 40,
        seed: SEED,
        metrics: Some(([127, 0, 0, 1], 9100).into()),
    };
    spec.devices().map(device).collect()
}

/// The rack's file, with equal weights. The first of several servers has a named class.
fn description(spec: &RackSpec) -> RackFile {
    let device = |d: &DeviceSpec| {
        let kind = if d.name == "cpu" { balance::DeviceKind::Cpu } else { balance::DeviceKind::SmartNic };
        let source = SourceSection {
            prometheus: "http://127.0.0.1:9100/metrics".into(),
            interval_ms: Some(100),
            compute: Some("rate(pointsman_device_busy_seconds_total) * 25".into()),
        };
        DeviceSection {
            address: Some(d.link.ipv4),
            agent: AgentSection { sources: vec![source], ..AgentSection::default() },
            ..DeviceSection::new(&d.name, kind, d.link.port)
        }
    };
    let server = |(i, server): (usize, &ServerSpec)| ServerSection {
        name: server.name.clone(),
        class: (i == 0 && spec.servers.len() > 1).then(|| "old".into()),
        devices: server.devices.iter().map(device).collect(),
        ..ServerSection::default()
    };
    RackFile {
        switch: SwitchSection {
            gateways: spec.hosts().map(|(_, l)| l.gateway_ipv4.into()).collect(),
            report_keys: Some("keys".into()),
            report_timeout_ms: Some(3000),
            ..SwitchSection::default()
        },
        agent: AgentSection { heartbeat_ms: Some(50), ..AgentSection::default() },
        routes: vec![Route {
            prefix: Prefix::containing([10, 0, 0, 0].into(), 24),
            port: 1,
            hop: NextHop::Neighbour([10, 0, 0, 2].into()),
        }],
        servers: spec.servers.iter().enumerate().map(server).collect(),
        services: vec![ServiceSection {
            vips: vec![spec.vip_ipv4.into()],
            protocols: vec![Protocol::Udp],
            idle_timeout_ms: Some(5000),
            ..ServiceSection::new("inference", 8000, Policy::Wrr)
        }],
        ..RackFile::default()
    }
}

/// A learner with short intervals.
fn learn(learner: LearnerKind, table: Option<&str>, clients: ClientsSection) -> LearnSection {
    let settings = Settings {
        learner,
        parameters: Parameters {
            max_weight: 3,
            latency_ms: 500.0,
            overload_percent: 98.0,
            ..Parameters::default()
        },
        interval_ns: 2_500_000_000,
        settle_ns: 1_500_000_000,
        polls: 4,
        per_class: true,
        table: None,
        weight: 0,
        guard: None,
    };
    LearnSection {
        table: table.map(String::from),
        seed: Some(SEED as u32),
        ..LearnSection::new(&settings, clients)
    }
}

/// The rack with switch, devices and agents.
struct Place {
    live: Live,
    files: Scratch,
    rack: String,
}

/// And an API client.
struct Bench {
    place: Place,
    spec: RackSpec,
    rate: f64,
    view: ClientsView,
    /// Metrics for a Prometheus server to scrape.
    scraped: Arc<Mutex<Scraped>>,
    client: Namespace,
    keys: Keyring,
    ports: SourcePorts,
    /// Ends with the test, before its namespace.
    _switch: Switch,
}

impl Bench {
    fn new(name: &str, shape: Shape, rate: f64, learn: LearnSection) -> Fallible<Bench> {
        let spec = spec(shape);
        let configs = devices(&spec);
        let names: Vec<String> = configs.iter().map(|c| c.name.clone()).collect();
        let log: Log = Arc::new(Mutex::new(|_: &str| {}));
        let mut file = description(&spec);
        let mut live = Live::start(&spec, configs, &file, Choice::default(), log)?;
        // Switch and controller are to be processes.
        live.stop_switch(0)?;
        let interfaces: Vec<String> = live
            .rack
            .ports
            .iter()
            .flat_map(|p| ["-i".into(), format!("{}@{}", p.number, p.interface)])
            .collect();
        let arguments: Vec<&str> = interfaces.iter().map(String::as_str).collect();
        let switch = live.rack.switch.enter(|| Switch::start_at("127.0.0.1:9559", &arguments))?;
        let view = ClientsView::new(Duration::from_millis(1000), TIMEOUT);
        live.serve_clients(view.clone())?;
        let files = Scratch::new(name);
        files.write("keys", live.keys_text());
        files.write("tokens", "ops 0123456789abcdef0123\n");
        file.api = Some(ApiSection { tokens: "tokens".into(), ..ApiSection::default() });
        file.learn = Some(learn);
        let rack = files.write("rack.toml", file.to_toml());
        let link = spec.clients.first().ok_or("no client")?;
        let sources: Vec<IpAddr> = link.ipv4_addresses();
        Ok(Bench {
            client: live.rack.host("client")?.namespace.clone(),
            place: Place { live, files, rack },
            rate,
            view,
            scraped: Arc::default(),
            keys: Keyring::derive(SEED, names)?,
            ports: SourcePorts::new(sources, 1024..=65_535, Duration::from_secs(6))?,
            spec,
            _switch: switch,
        })
    }

    /// Requests for this time, while the closure runs.
    fn under_load(
        &mut self,
        duration: Duration,
        meanwhile: impl FnOnce(&Place) -> Fallible<()>,
    ) -> Fallible<LoadResult> {
        let target = (self.spec.vip_ipv4, 8000).into();
        let config = LoadConfig {
            timeout: TIMEOUT,
            arrivals: Arrivals::Constant,
            ..LoadConfig::new(target, self.rate, duration, SEED)
        };
        let Bench { place, client, ports, keys, view, scraped, .. } = self;
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let saw = |latencies: &[Duration]| {
                    view.saw(latencies);
                    if let Ok(mut scraped) = scraped.lock() {
                        scraped.saw(latencies);
                    }
                };
                client.enter(|| load::watched(&config, ports, keys, |_, latencies| saw(latencies)))
            });
            meanwhile(place)?;
            Ok(load.join().map_err(|_| "the load panicked")???)
        })
    }
}

impl std::ops::Deref for Bench {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Place {
    /// Runs `pointsman` in the switch's namespace.
    fn pointsman(&self, arguments: &[&str]) -> Fallible<Finished> {
        Ok(self.live.rack.switch.enter(|| finish(pointsman(arguments)))?)
    }

    fn controller(&self) -> Fallible<Running> {
        let arguments = ["controller", &self.rack, "--metrics", "127.0.0.1:9464"];
        Ok(self.live.rack.switch.enter(|| Running::start(&arguments))?)
    }

    fn policy(&self, what: &[&str]) -> Fallible<Finished> {
        let tokens = self.files.path("tokens");
        self.pointsman(&[&["policy"], what, &["--service", "inference", "--token-file", &tokens]].concat())
    }

    fn status(&self) -> Fallible<Finished> {
        self.pointsman(&["policy", "status", "--token-file", &self.files.path("tokens")])
    }

    fn metrics(&self) -> Fallible<String> {
        let url = "http://127.0.0.1:9464/metrics";
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ask = pointsman_node::http::client::Ask { method: "GET", url, ..Default::default() };
        let (_, body) = self
            .live
            .rack
            .switch
            .enter(|| tokio.block_on(pointsman_node::http::client::ask(ask, PATIENCE)))??;
        Ok(String::from_utf8(body)?)
    }

    fn wait_for_metric(&self, line: &str) -> Fallible<()> {
        let start = Instant::now();
        loop {
            let text = self.metrics()?;
            if text.lines().any(|l| l == line) {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "waited for {line} in\n{text}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The latest decision for a class of servers (all of them if it has no name), as soon as the API shows its weights.
fn a_decision_is_applied(place: &Place, controller: &Running, class: &str) -> Fallible<String> {
    let (mark, name) = match class {
        "" => ("decision service=".to_string(), "weights"),
        _ => (format!("class={class} "), class),
    };
    let begin = Instant::now();
    loop {
        controller.wait_for(&mark);
        let line = controller.lines(&mark).pop().ok_or("no decision")?;
        let next =
            line.split(' ').find_map(|f| f.strip_prefix("next=")).ok_or("a decision without weights")?;
        let shown = place.policy(&["show"])?.stdout;
        if shown.contains(&format!("{name} {next},")) {
            return Ok(line);
        }
        // Another decision may have come in between.
        ensure!(begin.elapsed() < PATIENCE, "{line}, but\n{shown}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Decisions reach the switch; an operator's change in between counts; the learner state is kept.
fn p4wise_decides() -> Fallible<()> {
    let learn = learn(LearnerKind::QLearning, Some("p4wise.q"), ClientsView::section());
    let mut bench = Bench::new("learn-wire", ONE, RATE, learn)?;
    let table = bench.files.write("p4wise.q", "pointsman q-table 1\nranges 7\n");
    for arguments in [&["controller", &bench.rack][..], &["controller", "--check", &bench.rack]] {
        let refused = bench.pointsman(arguments)?;
        let said = refused.stderr.contains("p4wise.q: line 3: the file ends before updates");
        ensure!(refused.code == Some(1) && said, "{refused:?}");
    }
    std::fs::remove_file(&table)?;
    let controller = bench.controller()?;
    controller
        .wait_for("service `inference`: q-learning learns weights, starting at 3:3, with no updates yet in");
    controller.wait_for("the switch is up to date");
    // Equal weights overload the SmartNIC at this rate, so there is an action, and its reward in the next interval.
    let mut line = String::new();
    bench.under_load(Duration::from_secs(18), |place| {
        controller.wait_for_line("a reward", |l| l.contains("decision ") && !l.contains("reward=none"));
        line = a_decision_is_applied(place, &controller, "")?;
        Ok(())
    })?;
    ensure!(line.contains("learner=q-learning"), "{line}");
    // A request takes 20 ms at least, and each processor and agent was busy and told so.
    for (name, least) in [("p99_ms", 20.0), ("offered_per_s", 10.0), ("cpu_percent", 1.0)] {
        ensure!(field(&line, name).is_some_and(|v| v >= least), "{name} in {line}");
    }
    bench.wait_for_metric(
        "pointsman_controller_learner_state{service=\"inference\",learner=\"q-learning\",state=\"learning\"} 1.0",
    )?;

    // An operator's request counts until it is reset.
    let set = ["set", "--policy", "wrr", "--weights", "s1/cpu=5,s1/nic=1"];
    let dry = bench.policy(&[&set[..], &["--dry-run"]].concat())?;
    ensure!(dry.code == Some(0) && dry.stdout.contains("the learner `q-learning` pauses until"), "{dry:?}");
    let done = bench.policy(&set)?;
    ensure!(done.code == Some(0) && done.stdout.contains("in force"), "{done:?}");
    controller.wait_for("q-learning pauses");
    bench.wait_for_metric(
        "pointsman_controller_learner_state{service=\"inference\",learner=\"q-learning\",state=\"paused\"} 1.0",
    )?;
    let shown = bench.policy(&["show"])?;
    let learner = shown.stdout.lines().find(|l| l.starts_with("learner ")).unwrap_or_default();
    ensure!(
        learner.starts_with("learner    q-learning, weights 3:") && learner.contains(", paused;"),
        "{shown:?}"
    );
    let theirs = bench.under_load(Duration::from_secs(3), |_| Ok(()))?;
    let share = theirs.share();
    ensure!((share["s1/nic"] - 1.0 / 6.0).abs() < 0.02, "{share:?}");
    let done = bench.policy(&["reset"])?;
    ensure!(done.code == Some(0), "{done:?}");
    controller.wait_for("q-learning resumes");
    bench.wait_for_metric(
        "pointsman_controller_learner_state{service=\"inference\",learner=\"q-learning\",state=\"learning\"} 1.0",
    )?;

    // The learner state outlives the controller.
    let ended = controller.end(nix::sys::signal::Signal::SIGTERM);
    ensure!(ended.code == Some(0), "{ended:?}");
    let shown = bench.pointsman(&["learn", "show", &table])?;
    ensure!(shown.code == Some(0) && !shown.stdout.contains(" 0 updates"), "{shown:?}");
    let again = bench.controller()?;
    let line = again.wait_for("q-learning learns weights");
    ensure!(line.contains("updates in p4wise.q") && !line.contains("with 0 updates"), "{line}");
    Ok(())
}

/// Servers of two classes: the first one's processor needs its SmartNIC, the second one's does not. Each class has
/// separate weights, in one file; and a SmartNIC at weight 0 is in service.
fn each_class_has_its_weights() -> Fallible<()> {
    let learn = learn(LearnerKind::ServiceRate, Some("rates"), ClientsView::section());
    let mut bench = Bench::new("learn-classes", TWO, 360.0, learn)?;
    let controller = bench.controller()?;
    controller.wait_for(
        "service `inference`: service-rate learns weights, starting at old 3:3, like-s2 3:3, with no updates yet",
    );
    controller.wait_for("the switch is up to date");
    std::thread::sleep(Duration::from_millis(500));
    // Looked at under load: without it, there are no decisions. The fast processor needs no SmartNIC, whatever the rate.
    bench.under_load(Duration::from_secs(12), |place| {
        controller.wait_for("class=old weights=3:3");
        controller.wait_for("held at weight 0 by the learner, in service but without new connections: s");
        controller.wait_for("class=like-s2 weights=3:0");
        for class in ["old", "like-s2"] {
            a_decision_is_applied(place, &controller, class)?;
        }
        let shown = place.policy(&["show"])?.stdout;
        for part in [
            "learner    service-rate, weights old 3:",
            "class      old, weights 3:",
            "class      like-s2, weights 3:0: s2",
            "s2/nic  0       2         in service, held at weight 0 by the learner",
        ] {
            ensure!(shown.contains(part), "{part} is not in\n{shown}");
        }
        let status = place.status()?.stdout;
        let held = status.lines().find(|l| l.starts_with("held  ")).unwrap_or_default();
        ensure!(held.contains("s2/nic") && held.ends_with(": in service, at weight 0 by the learner"), "{status}");
        ensure!(!status.contains("draining") && !status.contains("can be stopped"), "{status}");
        let text = place.metrics()?;
        for line in [
            "pointsman_controller_learner_weight{service=\"inference\",class=\"like-s2\",kind=\"accelerator\"} 0.0",
            "pointsman_controller_held_device{server=\"s2\",device=\"s2/nic\"} 1.0",
        ] {
            ensure!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        ensure!(text.contains("learner_weight{service=\"inference\",class=\"old\",kind=\"accelerator\"}"), "{text}");
        ensure!(!text.contains("draining_connections{"), "{text}");
        Ok(())
    })?;

    // Each class's learner state outlives the controller.
    let ended = controller.end(nix::sys::signal::Signal::SIGTERM);
    ensure!(ended.code == Some(0), "{ended:?}");
    let rates = bench.files.path("rates");
    let shown = bench.pointsman(&["learn", "show", &rates, "--csv"])?.stdout;
    let capacity = |class: &str| -> Option<f64> {
        let line = shown.lines().find(|l| l.starts_with(&format!("{class},")))?;
        line.split(',').nth(1)?.parse().ok()
    };
    let (old, new) = (capacity("old").ok_or("no old")?, capacity("like-s2").ok_or("no like-s2")?);
    ensure!(old > 0.0 && new > 1.5 * old, "{shown}");
    let again = bench.controller()?;
    let line = again.wait_for("service-rate learns weights");
    ensure!(line.contains("updates in rates") && !line.contains("with 0 updates"), "{line}");
    // Another learner's, and one that was cut off, are refused.
    drop(again);
    let text = std::fs::read_to_string(&rates)?;
    for (text, message) in [
        (text.replace("target_percent", "target"), "rates: line 7: `target"),
        (text.replace("service-rate 1", "service-rate 2"), "rates: line 3: unknown version 2"),
        ("pointsman q-table 1\nranges 0\nupdates 0\n".into(), "rates: it belongs to \"q-learning\""),
    ] {
        std::fs::write(&rates, &text)?;
        let refused = bench.pointsman(&["controller", "--check", &bench.rack])?;
        ensure!(refused.code == Some(1) && refused.stderr.contains(message), "{refused:?}");
    }
    Ok(())
}

/// Client metrics, as a Prometheus client library counts them.
#[derive(Default)]
struct Scraped {
    /// Those that took no longer than each bound, and all that were answered.
    buckets: [u64; BOUNDS.len()],
    answered: u64,
    seconds: f64,
    failed: u64,
}

const BOUNDS: [f64; 12] = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0];

impl Scraped {
    fn saw(&mut self, latencies: &[Duration]) {
        for latency in latencies {
            if *latency >= TIMEOUT {
                self.failed += 1;
                continue;
            }
            let seconds = latency.as_secs_f64();
            self.answered += 1;
            // Every tenth request counts as lost, so that the loss is not zero.
            if self.answered.is_multiple_of(9) {
                self.failed += 1;
            }
            self.seconds += seconds;
            for (n, _) in self.buckets.iter_mut().zip(BOUNDS).filter(|(_, bound)| seconds <= *bound) {
                *n += 1;
            }
        }
    }

    fn page(&self) -> String {
        let mut t = "# TYPE http_request_duration_seconds histogram\n".to_string();
        for (n, bound) in self.buckets.iter().zip(BOUNDS) {
            let _ = writeln!(t, "http_request_duration_seconds_bucket{{le=\"{bound}\"}} {n}");
        }
        let (answered, failed) = (self.answered, self.failed);
        let _ = write!(
            t,
            "http_request_duration_seconds_bucket{{le=\"+Inf\"}} {answered}\nhttp_request_duration_seconds_count {answered}\n\
             http_request_duration_seconds_sum {}\n# TYPE http_requests_total counter\nhttp_requests_total {}\n\
             # TYPE http_requests_failed_total counter\nhttp_requests_failed_total {failed}\n",
            self.seconds,
            answered + failed
        );
        t
    }
}

/// Serves client metrics to every request, until the process ends.
fn serve(listener: TcpListener, scraped: Arc<Mutex<Scraped>>) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let mut request = [0; 4096];
            // Short requests: they come in one piece.
            let _ = stream.read(&mut request);
            let page = scraped.lock().map(|s| s.page()).unwrap_or_default();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
}

impl Bench {
    fn start_prometheus(&self) -> Fallible<Program> {
        let listener = self.live.rack.switch.enter(|| TcpListener::bind("127.0.0.1:9091"))??;
        serve(listener, self.scraped.clone());
        let config = self.files.write(
            "prometheus.yml",
            "global: { scrape_interval: 200ms, scrape_timeout: 200ms }\nscrape_configs:\n- job_name: clients\n  static_configs:\n  \
             - targets: ['127.0.0.1:9091']\n",
        );
        let arguments = [
            format!("--config.file={config}"),
            format!("--storage.tsdb.path={}", self.files.path("data")),
            "--web.listen-address=127.0.0.1:9092".to_string(),
        ];
        let program = self.live.rack.switch.enter(|| Program::start("prometheus", &arguments))??;
        let begin = Instant::now();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Until it has scraped twice, so that a rate exists.
        let url = "http://127.0.0.1:9092/api/v1/query?query=rate(http_requests_total%5B1s%5D)";
        loop {
            let ask = pointsman_node::http::client::Ask { method: "GET", url, ..Default::default() };
            let get = || tokio.block_on(pointsman_node::http::client::ask(ask, Duration::from_secs(1)));
            let answer = self.live.rack.switch.enter(get)?;
            if answer.as_ref().is_ok_and(|(_, body)| String::from_utf8_lossy(body).contains("\"value\"")) {
                return Ok(program);
            }
            ensure!(begin.elapsed() < PATIENCE, "Prometheus is not ready: {answer:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The value of a field of a decision's line.
fn field(line: &str, name: &str) -> Option<f64> {
    let mark = format!("{name}=");
    line.split(' ').find_map(|f| f.strip_prefix(mark.as_str()))?.parse().ok()
}

/// Client metrics come by a histogram and two counters that a Prometheus server scrapes, with the expressions that the
/// documentation recommends.
fn prometheus_tells_what_clients_see() -> Fallible<()> {
    if !pointsman_needs::programs("prometheus_tells_what_clients_see", &["prometheus"]) {
        return Ok(());
    }
    let buckets = "sum by (le) (rate(http_request_duration_seconds_bucket[1s]))";
    let loss = "sum(rate(http_requests_failed_total[1s])) / sum(rate(http_requests_total[1s]))";
    let clients = ClientsSection {
        url: "http://127.0.0.1:9092".into(),
        p99_ms: format!("1000 * histogram_quantile(0.99, {buckets})"),
        loss: Some(loss.into()),
    };
    // Few requests, so that any weights will do and latencies depend on the machine only.
    let mut bench = Bench::new("learn-prometheus", ONE, 60.0, learn(LearnerKind::QLearning, None, clients))?;
    let prometheus = bench.start_prometheus()?;
    let controller = bench.controller()?;
    controller.wait_for("the switch is up to date");
    // No requests: no latency (NaN), and no decision; but all devices are reported.
    std::thread::sleep(Duration::from_millis(5500));
    bench.wait_for_metric(
        "pointsman_controller_learner_state{service=\"inference\",learner=\"q-learning\",state=\"learning\"} 1.0",
    )?;
    let text = bench.metrics()?;
    ensure!(!text.contains("learner_decisions_total{"), "{text}");
    let result = bench.under_load(Duration::from_secs(10), |_| {
        controller.wait_for("decision service=inference learner=q-learning");
        Ok(())
    })?;
    // A percentile from buckets is within the bucket; the rate is that of a second.
    let said: Vec<String> = controller.lines("decision service=inference");
    for line in &said {
        let (least, most) = (result.latencies.percentile(0.0), result.latencies.percentile(100.0));
        let below = BOUNDS.into_iter().rfind(|b| *b <= least.as_secs_f64()).unwrap_or(0.0);
        let above = BOUNDS.into_iter().find(|b| *b >= most.as_secs_f64()).unwrap_or(TIMEOUT.as_secs_f64());
        let p99 = field(line, "p99_ms").ok_or("no P99")? / 1e3;
        ensure!((below..=above).contains(&p99), "{least:?} to {most:?}, but {line}");
        // One in ten is counted as failed, see `Scraped::saw`.
        let loss = field(line, "loss").ok_or("no loss")?;
        ensure!((0.05..0.2).contains(&loss) || result.lost > 0, "{line}");
    }
    // Without Prometheus no decision is made.
    drop(prometheus);
    controller.wait_for("clients' latency is unknown");
    bench.wait_for_metric(
        "pointsman_controller_learner_state{service=\"inference\",learner=\"q-learning\",state=\"blind\"} 1.0",
    )
}
