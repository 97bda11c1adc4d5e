//! Weights from probes, and a machine that the controller names by PROMETHEE, on the wire: what figures 5.2 to 6.1 of the paper on probes are made of.

use pointsman_balance::Policy;
use pointsman_balance::config::file::{CriterionSection, PrometheusSection, RackFile};
use pointsman_compile::executor::Choice;
use pointsman_decide::promethee::Goal;
use pointsman_demo::{PORT, Work, description, devices};
use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use pointsman_lab::load::{SessionsConfig, SessionsResult, SourcePorts, sessions};
use pointsman_lab::probe::Prober;
use pointsman_lab::rack::RackSpec;
use pointsman_lab::wire::Keyring;
use pointsman_live::{Live, Log};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEED: u64 = 3;
const CLIENTS: u32 = 12;
const PATIENCE: Duration = Duration::from_secs(20);

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

pub const TESTS: &[(&str, Test)] = &[
    ("weights_follow_probes", weights_follow_probes),
    ("the_named_machine_gets_connections", the_named_machine_gets_connections),
];

/// One server with two devices.
fn spec() -> RackSpec {
    let mut spec = RackSpec { offloads: true, ..RackSpec::demo() };
    spec.servers.truncate(1);
    spec
}

fn started(file: &RackFile, prepare: impl FnOnce(&mut Live) -> Fallible<()>) -> Fallible<Live> {
    let silent: Log = Arc::new(Mutex::new(|_: &str| {}));
    let spec = spec();
    let mut live = Live::start(&spec, devices(&spec, Work::Timed, SEED), file, Choice::default(), silent)?;
    prepare(&mut live)?;
    live.start_controller()?;
    live.wait_in_sync(PATIENCE)?;
    Ok(live)
}

fn connected(live: &Live) -> Fallible<SessionsResult> {
    let config = SessionsConfig {
        target: (live.rack.spec.vip_ipv4, PORT).into(),
        clients: CLIENTS,
        join: Duration::from_millis(10),
        requests: 1,
        gap: Duration::from_millis(10),
        bytes: 10_000,
        request_bytes: 250,
        timeout: Duration::from_secs(5),
        seed: SEED,
    };
    let keys = Keyring::derive(SEED, spec().devices().map(|(name, _)| name))?;
    let sources = live.rack.spec.clients.iter().flat_map(|c| c.ipv4_addresses()).collect();
    let mut ports = SourcePorts::new(sources, 20_000..=40_000, Duration::from_secs(6))?;
    let client = live.rack.host("client")?.namespace.clone();
    let seen = client.enter(|| sessions(&config, &mut ports, &keys))??;
    ensure!(seen.answered == u64::from(CLIENTS) && seen.moved == 0, "{seen:?}");
    Ok(seen)
}

/// A machine that has nothing free gets no connections.
fn weights_follow_probes() -> Fallible<()> {
    let mut file = description(&spec(), Policy::ProbeWrr, None);
    file.switch.probes = Some("unauthenticated");
    let live = started(&file, |_| Ok(()))?;
    let probers = |free: [[u8; 3]; 2]| -> Fallible<Vec<Prober>> {
        let mut probers = Vec::new();
        for (number, (device, free)) in (0..).zip(["s1/cpu", "s1/nic"].into_iter().zip(free)) {
            let host = live.rack.host(device)?;
            let (to, period) = (host.link.gateway_ipv4, Duration::from_millis(50));
            probers.push(Prober::start(&host.namespace, to, number, period, move || free)?);
        }
        std::thread::sleep(Duration::from_millis(500));
        Ok(probers)
    };
    for (free, of_first) in [([[0; 3], [10; 3]], 0), ([[10; 3], [0; 3]], u64::from(CLIENTS))] {
        let held = probers(free)?;
        let seen = connected(&live)?;
        let first = seen.clients_by_device.get("s1/cpu").copied().unwrap_or(0);
        ensure!(first == of_first, "{free:?}: {seen:?}");
        drop(held);
    }
    Ok(())
}

/// The machine with the smaller cost is the one that the controller names, and the only one that gets connections.
fn the_named_machine_gets_connections() -> Fallible<()> {
    let mut file = description(&spec(), Policy::Chosen, None);
    let section = PrometheusSection {
        url: "http://127.0.0.1:9090".into(),
        interval_ms: 200,
        alternatives: [("s1/cpu", "a"), ("s1/nic", "b")].map(|(d, l)| (d.to_string(), l.to_string())).into(),
        judgements: vec![vec![1.0]],
        criteria: vec![CriterionSection { name: "use".into(), promql: "used".into(), goal: Goal::Cost }],
    };
    file.services.iter_mut().for_each(|s| s.prometheus = Some(section.clone()));
    let series = Arc::new(|name: &str| {
        let values = [("a".to_string(), 0.9), ("b".to_string(), 0.1)];
        if name == "used" { values.into() } else { Vec::new() }
    });
    let live = started(&file, |live| Ok(live.serve_series(series)?))?;
    std::thread::sleep(Duration::from_millis(1000));
    let seen = connected(&live)?;
    ensure!(seen.clients_by_device.get("s1/nic") == Some(&u64::from(CLIENTS)), "{seen:?}");
    Ok(())
}
