//! P4Wise against a switch on the wire: `pointsman switch` and `pointsman controller` as processes in a namespace, agents and devices
//! in theirs, a client that sends requests without waiting. The learner reads registers and writes ring weights by P4Runtime.
//! `pointsman_lab::harness` runs it.
//!
//! One server: a processor for 200 requests a second, and a SmartNIC for 80. At 230 a second the processor alone cannot do it, and
//! equal weights give the SmartNIC half as much again as it can: of the weights 3:0 to 3:3 only 3:1 keep up, at 86 and 72 %. Requests
//! come evenly, so that no decision depends on chance.

mod support;

use pointsman::executor::Choice;
use pointsman::live::{ClientsView, Live, Log};
use pointsman_lab::device::{DeviceConfig, Model, ServiceTime};
use pointsman_lab::harness::{Test, run};
use pointsman_lab::load::{self, Arrivals, LoadConfig, LoadResult, SourcePorts};
use pointsman_lab::rack::{ClientSpec, DeviceKind, DeviceSpec, Link, RackSpec, ServerSpec};
use pointsman_lab::wire::{Key, Keyring};
use pointsman_lab::{Namespace, ensure};
use std::fmt::Write;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Finished, Running, Scratch, Switch, finish, pointsman};

const SEED: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(20);
const RATE: f64 = 230.0;
/// A request that takes longer is lost.
const TIMEOUT: Duration = Duration::from_secs(3);

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let tests: &[(&str, Test)] = &[("p4wise_finds_the_weights", p4wise_finds_the_weights)];
    run("learn_wire", tests)
}

const DEVICES: [(&str, DeviceKind, f64); 2] =
    [("cpu", DeviceKind::Cpu, 1.0), ("nic", DeviceKind::SmartNic, 0.4)];

fn spec() -> RackSpec {
    let device = |(i, (name, kind, speed)): (usize, &(&str, DeviceKind, f64))| DeviceSpec {
        name: (*name).into(),
        kind: *kind,
        link: Link::in_subnet(2 + i as u16, 1 + i as u8),
        speed: *speed,
    };
    let devices = DEVICES.iter().enumerate().map(device).collect();
    RackSpec {
        servers: vec![ServerSpec { name: "s1".into(), devices }],
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
        // What does not fit is lost, and does not trouble the next interval.
        buffer: 40,
        seed: SEED,
        metrics: Some(([127, 0, 0, 1], 9100).into()),
    };
    spec.devices().map(device).collect()
}

/// The rack's file, with equal weights.
fn toml(spec: &RackSpec) -> String {
    let gateways: Vec<String> = spec.hosts().map(|(_, l)| format!("\"{}\"", l.gateway_ipv4)).collect();
    let mut t = format!(
        "[switch]\np4runtime = \"127.0.0.1:9559\"\nmac = \"02:50:4d:00:00:01\"\ngateways = [{}]\n\
         report_keys = \"keys\"\nreport_timeout_ms = 3000\n[agent]\nheartbeat_ms = 50\n\
         [[route]]\nprefix = \"10.0.0.0/24\"\nport = 1\nvia = \"10.0.0.2\"\n[[server]]\nname = \"s1\"\n",
        gateways.join(", ")
    );
    for d in &spec.servers[0].devices {
        let kind = if d.name == "cpu" { "cpu" } else { "smartnic" };
        let _ = write!(
            t,
            "[[server.device]]\nname = \"{}\"\nkind = \"{kind}\"\nport = {}\naddress = \"{}\"\nweight = 1\n\
             [[server.device.agent.source]]\nprometheus = \"http://127.0.0.1:9100/metrics\"\ninterval_ms = 100\n\
             compute = \"rate(pointsman_device_busy_seconds_total) * 25\"\n",
            d.name, d.link.port, d.link.ipv4
        );
    }
    let _ = write!(
        t,
        "[[service]]\nname = \"inference\"\nvip = \"{}\"\nprotocol = \"udp\"\nport = 8000\npolicy = \"wrr\"\n\
         idle_timeout_ms = 5000\n",
        spec.vip_ipv4
    );
    t
}

struct Bench {
    live: Live,
    view: ClientsView,
    files: Scratch,
    rack: String,
    client: Namespace,
    keys: Keyring,
    ports: SourcePorts,
    /// Ends with the test, before its namespace.
    _switch: Switch,
}

impl Bench {
    fn new() -> Fallible<Bench> {
        let spec = spec();
        let configs = devices(&spec);
        let names: Vec<String> = configs.iter().map(|c| c.name.clone()).collect();
        let log: Log = Arc::new(Mutex::new(|_: &str| {}));
        let mut live = Live::start(&spec, configs, &toml(&spec), Choice::default(), log)?;
        // Switch and controller are to be processes.
        live.stop_switch()?;
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
        let files = Scratch::new("learn-wire");
        files.write("keys", live.keys_text());
        files.write("tokens", "ops 0123456789abcdef0123\n");
        let learn = format!(
            "[api]\ntokens = \"tokens\"\n[learn]\nlearner = \"q-learning\"\ntable = \"p4wise.q\"\nseed = {SEED}\n\
             interval_s = 2.5\nsettle_s = 1.5\nmax_weight = 3\nlatency_ms = 500\n{}",
            ClientsView::text()
        );
        let rack = files.write("rack.toml", toml(&spec) + &learn);
        let link = spec.clients.first().ok_or("no client")?;
        let sources: Vec<IpAddr> = link.ipv4_addresses();
        Ok(Bench {
            client: live.rack.host("client")?.namespace.clone(),
            live,
            view,
            files,
            rack,
            keys: Keyring::derive(SEED, names)?,
            ports: SourcePorts::new(sources, 1024..=65_535, Duration::from_secs(6))?,
            _switch: switch,
        })
    }

    /// Runs `pointsman` where the switch is.
    fn pointsman(&self, arguments: &[&str]) -> Fallible<Finished> {
        Ok(self.live.rack.switch.enter(|| finish(pointsman(arguments)))?)
    }

    fn controller(&self) -> Fallible<Running> {
        let arguments = ["controller", &self.rack, "--metrics", "127.0.0.1:9464"];
        Ok(self.live.rack.switch.enter(|| Running::start(&arguments))?)
    }

    /// Requests for so long, while something else is done.
    fn under_load(
        &mut self,
        duration: Duration,
        meanwhile: impl FnOnce() -> Fallible<()>,
    ) -> Fallible<LoadResult> {
        let target = (spec().vip_ipv4, 8000).into();
        let config = LoadConfig {
            timeout: TIMEOUT,
            arrivals: Arrivals::Constant,
            ..LoadConfig::new(target, RATE, duration, SEED)
        };
        let Bench { client, ports, keys, view, .. } = self;
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                client.enter(|| load::watched(&config, ports, keys, |_, latencies| view.saw(latencies)))
            });
            meanwhile()?;
            Ok(load.join().map_err(|_| "the load panicked")???)
        })
    }

    fn metrics(&self) -> Fallible<String> {
        let url = "http://127.0.0.1:9464/metrics";
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ask = pointsman::http::client::Ask { method: "GET", url, ..Default::default() };
        let (_, body) =
            self.live.rack.switch.enter(|| tokio.block_on(pointsman::http::client::ask(ask, PATIENCE)))??;
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

fn p99_ms(result: &LoadResult) -> f64 {
    result.latencies.percentile(99.0).as_secs_f64() * 1e3
}

/// From equal weights to those that devices can bear; what an operator says in between counts; what was learnt is kept.
fn p4wise_finds_the_weights() -> Fallible<()> {
    let mut bench = Bench::new()?;
    let table = bench.files.write("p4wise.q", "pointsman q-table 1\nranges 7\n");
    for arguments in [&["controller", &bench.rack][..], &["controller", "--check", &bench.rack]] {
        let refused = bench.pointsman(arguments)?;
        let said = refused.stderr.contains("p4wise.q: line 3: the file ends where updates should stand");
        ensure!(refused.code == Some(1) && said, "{refused:?}");
    }
    std::fs::remove_file(&table)?;
    let controller = bench.controller()?;
    controller
        .wait_for("service `inference`: q-learning learns its weights from 3:3 on, with nothing so far in");
    controller.wait_for("the switch is up to date");
    // Agents are heard of.
    std::thread::sleep(Duration::from_millis(500));
    let before = bench.under_load(Duration::from_secs(18), || {
        controller.wait_for("weights=3:3 next=3:0 verdict=overload");
        controller.wait_for("weights=3:1 next=3:1 verdict=shared");
        Ok(())
    })?;
    let after = bench.under_load(Duration::from_secs(6), || Ok(()))?;
    let (learning, learnt) = (p99_ms(&before), p99_ms(&after));
    ensure!(after.lost == 0 && learnt < 0.5 * learning, "P99 {learning} ms and then {learnt} ms: {after:?}");
    let share = after.share();
    ensure!((share["s1/nic"] - 0.25).abs() < 0.02, "{share:?}");
    let text = bench.metrics()?;
    for line in [
        "pointsman_controller_learner_weight{name=\"inference\",kind=\"accelerator\"} 1.0",
        "pointsman_controller_learner_state{name=\"inference\",learner=\"q-learning\",state=\"learning\"} 1.0",
    ] {
        ensure!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }

    // An operator's word counts, until it is taken back.
    let tokens = bench.files.path("tokens");
    let policy = |bench: &Bench, what: &[&str]| {
        let mut arguments = vec!["policy"];
        arguments.extend(what);
        arguments.extend(["--service", "inference", "--token-file", &tokens]);
        bench.pointsman(&arguments)
    };
    let set = ["set", "--policy", "wrr", "--weights", "s1/cpu=5,s1/nic=1"];
    let dry = policy(&bench, &[&set[..], &["--dry-run"]].concat())?;
    ensure!(dry.code == Some(0) && dry.stdout.contains("the learner `q-learning` pauses until"), "{dry:?}");
    let done = policy(&bench, &set)?;
    ensure!(done.code == Some(0) && done.stdout.contains("in force"), "{done:?}");
    controller.wait_for("q-learning pauses");
    bench.wait_for_metric(
        "pointsman_controller_learner_state{name=\"inference\",learner=\"q-learning\",state=\"paused\"} 1.0",
    )?;
    let shown = policy(&bench, &["show"])?;
    ensure!(shown.stdout.contains("learner    q-learning, weights 3:1, paused"), "{shown:?}");
    let theirs = bench.under_load(Duration::from_secs(3), || Ok(()))?;
    let share = theirs.share();
    ensure!((share["s1/nic"] - 1.0 / 6.0).abs() < 0.02, "{share:?}");
    let done = policy(&bench, &["reset"])?;
    ensure!(done.code == Some(0), "{done:?}");
    controller.wait_for("q-learning goes on");
    bench.wait_for_metric(
        "pointsman_controller_learner_state{name=\"inference\",learner=\"q-learning\",state=\"learning\"} 1.0",
    )?;

    // What was learnt outlives the controller.
    let ended = controller.end(nix::sys::signal::Signal::SIGTERM);
    ensure!(ended.code == Some(0), "{ended:?}");
    let shown = bench.pointsman(&["learn", "show", &table])?;
    ensure!(shown.code == Some(0) && !shown.stdout.contains(" 0 updates"), "{shown:?}");
    let again = bench.controller()?;
    let line = again.wait_for("q-learning learns its weights");
    ensure!(line.contains("updates in p4wise.q") && !line.contains("with 0 updates"), "{line}");
    Ok(())
}
