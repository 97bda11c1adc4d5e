//! A whole rack on the wire: switch, controller, agents and devices in separate namespaces, disturbed one part at a
//! time. Rates are low and latencies are not judged, so that a busy machine also passes.

use pointsman_balance::Policy;
use pointsman_balance::config::file::{ApiSection, RackFile};
use pointsman_compile::executor::Choice;
use pointsman_demo::{PORT, SERVICE, Work, devices};
use pointsman_lab::harness::Test;
use pointsman_lab::load::{
    self, Arrivals, BulkConfig, ConsistencyConfig, ConsistencyResult, Direction, LoadConfig, LoadResult,
    SourcePorts,
};
use pointsman_lab::rack::RackSpec;
use pointsman_lab::wire::Keyring;
use pointsman_lab::{Namespace, ensure};
use pointsman_live::{Live, Log, p4runtime};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const SEED: u64 = 11;

/// How long anything may take before a test gives up on it. Generous, because test machines are busy: only a part that
/// is stuck takes this long.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Minimum time before a source port is used again.
const REST: Duration = Duration::from_secs(20);

pub type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

pub const TESTS: &[(&str, Test)] = &[
    ("a_restarted_switch_is_filled_again", a_restarted_switch_is_filled_again),
    ("a_switch_without_power", a_switch_without_power),
    ("a_restarted_controller_disturbs_nothing", a_restarted_controller_disturbs_nothing),
    ("a_silent_device_gets_nothing_new", a_silent_device_gets_nothing_new),
    ("a_removed_device_keeps_its_connections", a_removed_device_keeps_its_connections),
    ("policies_change_through_the_api", policies_change_through_the_api),
    ("both_families_and_directions", both_families_and_directions),
    ("an_interrupted_demo_leaves_nothing", an_interrupted_demo_leaves_nothing),
];

/// A rack with its controller, and a client in it.
pub struct Bench {
    pub live: Live,
    spec: RackSpec,
    pub client: Client,
    lines: Arc<Mutex<Vec<String>>>,
}

/// The client's side.
pub struct Client {
    namespace: Namespace,
    vip: [SocketAddr; 2],
    /// For requests; connections that stay use [`Bench::long_lived`].
    ports: [SourcePorts; 2],
    keys: Keyring,
    runs: u64,
}

impl Client {
    /// Requests at 100 a second, each on a new connection.
    fn requests(&mut self, v6: bool, count: u64) -> Fallible<LoadResult> {
        self.runs += 1;
        let config = LoadConfig {
            arrivals: Arrivals::Constant,
            timeout: Duration::from_secs(3),
            ..LoadConfig::new(
                self.vip[usize::from(v6)],
                100.0,
                Duration::from_millis(10 * count),
                SEED + self.runs,
            )
        };
        let (ports, keys) = (&mut self.ports[usize::from(v6)], &self.keys);
        Ok(self.namespace.enter(|| load::run(&config, ports, keys, |_| {}))??)
    }

    /// Requests that must all be answered, by the right devices.
    pub fn answered(&mut self, v6: bool, count: u64) -> Fallible<LoadResult> {
        let result = self.requests(v6, count)?;
        ensure!(result.sent == count && result.answered == count, "{result:?}");
        ensure!(result.bad_signatures == 0 && result.wrong_source == 0, "{result:?}");
        Ok(result)
    }

    /// A transfer that must arrive whole.
    fn transfer(&self, v6: bool, bytes: u64, direction: Direction) -> Fallible<()> {
        let config = BulkConfig {
            target: self.vip[usize::from(v6)],
            bytes,
            direction,
            seed: SEED,
            stall: Duration::from_secs(10),
        };
        let result = self.namespace.enter(|| load::transfer(&config, &self.keys, |_| {}))??;
        ensure!(
            result.intact && result.bytes == bytes && result.device.is_some(),
            "{direction:?} {result:?}"
        );
        Ok(())
    }
}

impl Bench {
    pub fn new(policy: Policy) -> Fallible<Self> {
        Self::behind(1, policy)
    }

    /// A rack with several switches.
    fn behind(switches: u8, policy: Policy) -> Fallible<Self> {
        Self::with(switches, policy, |_| {})
    }

    /// The same with a change of rack.toml that the controller gets, but not the agents.
    pub fn with(switches: u8, policy: Policy, change: impl FnOnce(&mut RackFile)) -> Fallible<Self> {
        let spec = RackSpec { switches: switches.into(), offloads: true, ..RackSpec::demo() };
        let configs = devices(&spec, Work::Timed, SEED);
        let names: Vec<String> = configs.iter().map(|c| c.name.clone()).collect();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let log: Log = {
            let lines = lines.clone();
            Arc::new(Mutex::new(move |line: &str| {
                if let Ok(mut lines) = lines.lock() {
                    lines.push(line.to_string());
                }
            }))
        };
        let mut file = description(&spec, policy, None);
        let mut live = Live::start(&spec, configs, &file, Choice::default(), log)?;
        change(&mut file);
        live.set_config(file.rack()?);
        live.start_controller()?;
        live.wait_for_reports(PATIENCE)?;
        let link = spec.clients.first().ok_or("no client")?;
        let ports = |addresses: Vec<IpAddr>| SourcePorts::new(addresses, 1024..=30_000, REST);
        let client = Client {
            namespace: live.rack.host(&link.name)?.namespace.clone(),
            vip: [SocketAddr::new(spec.vip_ipv4.into(), PORT), SocketAddr::new(spec.vip_ipv6.into(), PORT)],
            ports: [ports(link.ipv4_addresses())?, ports(link.ipv6_addresses())?],
            keys: Keyring::derive(SEED, names)?,
            runs: 0,
        };
        Ok(Bench { live, spec, client, lines })
    }

    /// How many lines have been logged.
    pub fn mark(&self) -> usize {
        self.lines.lock().map_or(0, |l| l.len())
    }

    /// Log lines since the last call.
    pub fn since(&self, mark: usize) -> Vec<String> {
        self.lines.lock().map_or(Vec::new(), |l| l[mark..].to_vec())
    }

    /// Waits until a line that contains `text` is logged.
    pub fn wait_for(&self, mark: usize, text: &str) -> Fallible<()> {
        let start = Instant::now();
        while !self.since(mark).iter().any(|l| l.contains(text)) {
            ensure!(start.elapsed() < PATIENCE, "waited for {text:?}, got {:#?}", self.since(mark));
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Sends five requests at a time until all five are answered.
    fn until_answered(&mut self, v6: bool) -> Fallible<()> {
        let start = Instant::now();
        while self.client.requests(v6, 5)?.answered < 5 {
            ensure!(start.elapsed() < PATIENCE, "no answers (IPv6: {v6}): {:#?}", self.since(0));
        }
        Ok(())
    }

    /// Uses 200 connections, a fifth of them TCP, while `disturb` does something in the middle: after every connection
    /// has had its first answer, and with seconds left.
    pub fn connected(
        &mut self,
        duration: Duration,
        disturb: impl FnOnce(&mut Self) -> Fallible<()>,
    ) -> Fallible<ConsistencyResult> {
        let target = self.client.vip[0];
        let config = ConsistencyConfig {
            tcp_share: 0.2,
            interval: Duration::from_secs(1),
            grace: Duration::from_secs(1),
            ..ConsistencyConfig::new(target, target, 200, duration, SEED)
        };
        let addresses = self.spec.clients.first().ok_or("no client")?.ipv4_addresses();
        let mut ports = SourcePorts::new(addresses, 30_001..=60_000, REST)?;
        let (namespace, keys) = (self.client.namespace.clone(), self.client.keys.clone());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let check = scope.spawn(|| {
                namespace.enter(|| load::check_consistency(&config, &mut ports, &keys, &stop, |_| {}))
            });
            std::thread::sleep(Duration::from_secs(2));
            let disturbed = disturb(self);
            let result = check.join().map_err(|_| "the check panicked")???;
            disturbed.map(|()| result)
        })
    }

    /// The same, where nothing may be lost.
    pub fn while_connected(
        &mut self,
        disturb: impl FnOnce(&mut Self) -> Fallible<()>,
    ) -> Fallible<ConsistencyResult> {
        let result = self.connected(Duration::from_secs(6), disturb)?;
        ensure!(result.connections == 200 && result.tcp_connections == 40, "{result:?}");
        ensure!(result.requests >= 1000, "{result:?}");
        ensure!(result.violations == 0 && result.bad_signatures == 0, "{result:?}");
        ensure!(result.tcp_resets == 0 && result.tcp_failures == 0, "{result:?}");
        ensure!(result.answered + result.late == result.requests, "{result:?}");
        Ok(result)
    }
}

/// The demo's rack.toml, patient with agents on a machine that is busy.
fn description(spec: &RackSpec, policy: Policy, without: Option<&str>) -> RackFile {
    let mut file = pointsman_demo::description(spec, policy, without);
    file.switch.report_timeout_ms = Some(1500);
    file.switch.p4runtime = (0..spec.switches as u8).map(p4runtime).collect();
    file
}

pub fn answered_by(result: &LoadResult, device: &str) -> u64 {
    result.answered_by.get(device).copied().unwrap_or(0)
}

fn a_restarted_switch_is_filled_again() -> Fallible<()> {
    let mut bench = Bench::new(Policy::P4mite)?;
    bench.client.answered(false, 50)?;
    let mark = bench.mark();
    bench.live.stop_switch(0)?;
    bench.wait_for(mark, "no connection to the switch")?;
    let dark = bench.client.requests(false, 10)?;
    ensure!(dark.answered == 0, "a killed switch forwards: {dark:?}");
    bench.live.start_switch(0)?;
    bench.live.wait_in_sync(PATIENCE)?;
    let said = bench.since(mark);
    ensure!(said.iter().any(|l| l.contains("program installed")), "{said:#?}");
    bench.client.answered(false, 50)?;
    bench.client.transfer(false, 100_000, Direction::Download)?;
    ensure!(bench.live.stats()?.is_conserved(), "{:?}", bench.live.stats()?);
    Ok(())
}

/// Stations use the second switch while the first one has no power, and the first one again afterwards.
fn a_switch_without_power() -> Fallible<()> {
    let mut bench = Bench::behind(2, Policy::P4mite)?;
    let sent =
        |bench: &Bench, switch| Ok::<_, pointsman_live::Error>(bench.live.stats_of(switch)?.transmitted);
    for v6 in [false, true] {
        bench.client.answered(v6, 50)?;
    }
    let second = sent(&bench, 1)?;
    ensure!(sent(&bench, 0)? >= 200 && second < 100, "{} {second}", sent(&bench, 0)?);
    let mark = bench.mark();
    bench.live.power(0, false)?;
    bench.wait_for(mark, "switch 127.0.0.1:9559: no connection to the switch")?;
    // The second one gets the reports from now on, and needs them for the choice of a device.
    bench.until_answered(false)?;
    for v6 in [false, true] {
        bench.client.answered(v6, 50)?;
    }
    ensure!(sent(&bench, 1)? >= second + 200, "{second} {}", sent(&bench, 1)?);
    let second = sent(&bench, 1)?;
    bench.live.power(0, true)?;
    bench.live.wait_in_sync(PATIENCE)?;
    let said = bench.since(mark);
    ensure!(said.iter().any(|l| l.contains("switch 127.0.0.1:9559: program installed")), "{said:#?}");
    for v6 in [false, true] {
        // The links were up before the switch had its program, so machines may drop packets for a while: see `Live::wait_for_reports`.
        bench.until_answered(v6)?;
        bench.client.answered(v6, 50)?;
    }
    ensure!(sent(&bench, 0)? >= 200, "{} {second} {}", sent(&bench, 0)?, sent(&bench, 1)?);
    Ok(())
}

fn a_restarted_controller_disturbs_nothing() -> Fallible<()> {
    let mut bench = Bench::new(Policy::Ecmp)?;
    bench.while_connected(|bench| {
        bench.live.stop_controller();
        std::thread::sleep(Duration::from_millis(500));
        // Without a controller new connections are still balanced.
        bench.client.answered(false, 20)?;
        let mark = bench.mark();
        bench.live.start_controller()?;
        bench.live.wait_in_sync(PATIENCE)?;
        let said = bench.since(mark);
        ensure!(said.iter().any(|l| l.ends_with("up to date (0 changes)")), "{said:#?}");
        ensure!(!said.iter().any(|l| l.contains("program installed")), "{said:#?}");
        ensure!(!said.iter().any(|l| l.contains("not in the configuration")), "{said:#?}");
        Ok(())
    })?;
    bench.client.answered(false, 20)?;
    Ok(())
}

fn a_silent_device_gets_nothing_new() -> Fallible<()> {
    let mut bench = Bench::new(Policy::P4mite)?;
    let before = bench.client.answered(false, 100)?;
    ensure!(answered_by(&before, "s1/cpu") > 0, "{before:?}");
    let mark = bench.mark();
    bench.live.stop_agent("s1/cpu")?;
    bench.wait_for(mark, "s1/cpu is silent")?;
    bench.live.wait_in_sync(PATIENCE)?;
    let silent = bench.client.answered(false, 100)?;
    ensure!(answered_by(&silent, "s1/cpu") == 0, "{silent:?}");
    ensure!(answered_by(&silent, "s1/nic") > 0, "{silent:?}");
    ensure!(answered_by(&silent, "s2/cpu") + answered_by(&silent, "s2/nic") > 0, "{silent:?}");
    let mark = bench.mark();
    bench.live.start_agent("s1/cpu")?;
    bench.wait_for(mark, "s1/cpu is reporting again")?;
    bench.live.wait_in_sync(PATIENCE)?;
    let after = bench.client.answered(false, 100)?;
    ensure!(answered_by(&after, "s1/cpu") > 0, "{after:?}");
    Ok(())
}

fn a_removed_device_keeps_its_connections() -> Fallible<()> {
    let mut bench = Bench::new(Policy::Ecmp)?;
    let before = bench.client.answered(false, 100)?;
    ensure!(answered_by(&before, "s1/nic") > 0, "{before:?}");
    let result = bench.while_connected(|bench| {
        bench.live.configure(description(&bench.spec, Policy::Ecmp, Some("s1/nic")).rack()?)?;
        bench.live.wait_in_sync(PATIENCE)?;
        let reduced = bench.client.answered(false, 100)?;
        ensure!(answered_by(&reduced, "s1/nic") == 0, "{reduced:?}");
        ensure!(answered_by(&reduced, "s1/cpu") > 0, "{reduced:?}");
        Ok(())
    })?;
    ensure!(result.connections_by_device.get("s1/nic").is_some_and(|n| *n > 0), "{result:?}");
    // And back.
    bench.live.configure(description(&bench.spec, Policy::Ecmp, None).rack()?)?;
    bench.live.set_policy(SERVICE, Policy::Ecmp)?;
    bench.live.wait_in_sync(PATIENCE)?;
    let after = bench.client.answered(false, 100)?;
    ensure!(answered_by(&after, "s1/nic") > 0, "{after:?}");
    Ok(())
}

/// `pointsman policy` in the switch's namespace, under 200 open connections and incoming requests: every policy, without an effect on them.
fn policies_change_through_the_api() -> Fallible<()> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rack-api-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let tokens = folder.join("tokens");
    std::fs::write(&tokens, "ops 0123456789abcdef0123\n")?;
    let mut bench = Bench::new(Policy::P4mite)?;
    // With an API from now on.
    let mut file = description(&bench.spec, Policy::P4mite, None);
    file.switch.probes = Some("unauthenticated");
    file.api = Some(ApiSection { tokens: tokens.display().to_string(), ..ApiSection::default() });
    bench.live.stop_controller();
    bench.live.set_config(file.rack()?);
    bench.live.start_controller()?;
    bench.live.wait_in_sync(PATIENCE)?;
    let result = bench.while_connected(|bench| {
        let switch = bench.live.rack.switch.clone();
        for policy in Policy::ALL {
            let output = switch.enter(|| {
                Command::new(env!("CARGO_BIN_EXE_pointsman"))
                    .args(["policy", "set", "--service", SERVICE, "--policy", policy.name(), "--token-file"])
                    .arg(&tokens)
                    .stdin(Stdio::null())
                    .output()
            })??;
            let said = String::from_utf8_lossy(&output.stdout);
            ensure!(output.status.success() && said.contains("in force"), "{policy}: {output:?}");
            bench.client.answered(false, 10)?;
        }
        Ok(())
    })?;
    ensure!(result.violations == 0, "{result:?}");
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}

fn both_families_and_directions() -> Fallible<()> {
    let mut bench = Bench::new(Policy::Wrr)?;
    for v6 in [false, true] {
        let result = bench.client.answered(v6, 60)?;
        ensure!(result.answered_by.values().filter(|n| **n > 0).count() >= 2, "{result:?}");
        for direction in [Direction::Download, Direction::Upload] {
            bench.client.transfer(v6, 5_000_000, direction)?;
        }
    }
    ensure!(bench.live.stats()?.is_conserved(), "{:?}", bench.live.stats()?);
    Ok(())
}

/// Control groups of the process `id`.
fn groups_of(id: u32) -> Vec<String> {
    fn walk(directory: &std::path::Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(prefix) {
                    found.push(entry.path().display().to_string());
                }
                walk(&entry.path(), prefix, found);
            }
        }
    }
    let mut found = Vec::new();
    walk("/sys/fs/cgroup".as_ref(), &format!("pointsman-{id}-"), &mut found);
    found
}

/// Names under /run/netns, where namespaces that have names are.
fn named_namespaces() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

/// Processes of a process group that are still there.
fn processes_of_group(id: u32) -> Vec<String> {
    let stats = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = stats.filter_map(|p| std::fs::read_to_string(p.path().join("stat")).ok());
    // proc(5): pid (comm) state ppid pgrp
    let of_group = |stat: &String| {
        let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').nth(2));
        fields.flatten() == Some(id.to_string().as_str())
    };
    stats.filter(of_group).collect()
}

fn an_interrupted_demo_leaves_nothing() -> Fallible<()> {
    // The demo runs in a separate namespace, without interfaces of others.
    let outside = Namespace::new("outside")?;
    let names = named_namespaces();
    for (work, signal) in [("timed", "INT"), ("cpu", "INT"), ("timed", "TERM")] {
        let page = std::env::temp_dir().join(format!("pointsman-rack-{}.html", std::process::id()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
        command.args(["demo", "--quick", "--work", work, "--html"]).arg(&page);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut demo = outside.enter(|| command.spawn())??;
        let id = demo.id();
        let started = Instant::now();
        // In the middle of the measurements; where there are groups, they must exist to be left behind.
        while started.elapsed() < Duration::from_secs(if work == "cpu" { 15 } else { 3 })
            && demo.try_wait()?.is_none()
            && groups_of(id).len() < 4
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        if demo.try_wait()?.is_some() {
            let output = demo.wait_with_output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            if work == "cpu" && (said.contains("CPU quota") || said.contains("no cgroup")) {
                pointsman_needs::skip("an_interrupted_demo_leaves_nothing, --work cpu", said.trim());
                continue;
            }
            return Err(format!("the demo ended by itself: {said}").into());
        }
        ensure!(work != "cpu" || !groups_of(id).is_empty(), "--work cpu made no group in 15 s");
        let asked = Instant::now();
        let killed = Command::new("kill").args(["-s", signal, &id.to_string()]).status()?;
        ensure!(killed.success(), "{killed}");
        while demo.try_wait()?.is_none() {
            if asked.elapsed() > Duration::from_secs(10) {
                demo.kill()?;
                demo.wait()?;
                return Err(format!("--work {work}: no end within 10 s of SIG{signal}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let took = asked.elapsed();
        let output = demo.wait_with_output()?;
        ensure!(took < Duration::from_secs(2), "--work {work}: {took:?} after SIG{signal}");
        ensure!(!output.status.success(), "an interrupted run succeeds");
        let (groups, processes) = (groups_of(id), processes_of_group(id));
        ensure!(groups.is_empty(), "--work {work}: {groups:?}");
        ensure!(processes.is_empty(), "--work {work}: {processes:?}");
        ensure!(!page.exists(), "{} was written", page.display());
    }
    let interfaces = outside.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
    let left: Vec<&str> = interfaces.lines().skip(2).filter(|l| !l.trim().starts_with("lo:")).collect();
    ensure!(left.is_empty(), "{left:?}");
    ensure!(named_namespaces() == names, "{names:?} {:?}", named_namespaces());
    Ok(())
}
