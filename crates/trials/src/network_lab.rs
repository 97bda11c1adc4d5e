//! A network scenario in real time: namespaces and cables of this machine, our switches with their controller, and hosts with sockets.
//!
//! The times of requests are drawn by the simulator's own code from the same seeds.

use pointsman_console::say;
use pointsman_lab::load::{MeshConfig, MeshHost, MeshResult, mesh};
use pointsman_live::{LiveNetwork, Log};
use pointsman_net::PortCounts;
use pointsman_ports::Direction;
use pointsman_session::Program;
use pointsman_sim::arrivals::Arrivals;
use pointsman_sim::check::{Law, Violations};
use pointsman_sim::link::LinkCounts;
use pointsman_sim::network::{
    Counting, Distances, NetworkOutcome, NetworkScenario, Port, Traffic, uplink_ports,
};
use pointsman_sim::outcome::{Latency, Requests};
use pointsman_sim::random::{Part, Stream};
use pointsman_topology::{End, LinkId, SwitchId, Topology};
use pointsman_v1model::Stats;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// From the first socket to the first request.
const LEAD: Duration = Duration::from_millis(300);
/// Frames that are in a cable or a ring when counters are read.
const SETTLE: Duration = Duration::from_millis(200);

/// Counters of all switches at one point in time.
struct Counters {
    stats: Vec<Stats>,
    ports: BTreeMap<Port, pointsman_ports::Counters>,
}

fn counters(network: &LiveNetwork) -> Result<Counters, pointsman_live::Error> {
    let (mut stats, mut ports) = (Vec::new(), BTreeMap::new());
    for id in (0..network.wiring.switches.len() as u32).map(SwitchId) {
        let (of_switch, of_ports) = network.counters(id)?;
        stats.push(of_switch);
        ports.extend(of_ports.into_iter().map(|(port, c)| ((id, port), c)));
    }
    Ok(Counters { stats, ports })
}

/// Packets that each of these ports has sent.
fn sent(topology: &Topology, now: &Counters) -> BTreeMap<Port, u64> {
    let tx = |port: &Port| now.ports.get(port).map_or(0, |c| c.tx_packets);
    uplink_ports(topology).into_iter().map(|port| (port, tx(&port))).collect()
}

/// Runs a scenario once, in real time: its results, as of a simulation.
///
/// # Errors
/// The kernel refuses a part of the network, or the switches do not come up.
pub(super) fn run(
    scenario: &NetworkScenario,
    traffic: &Traffic,
    program: &Program,
    seed: u64,
    fingerprint: &str,
) -> Result<Value, Box<dyn Error>> {
    let began = Instant::now();
    let log: Log = Arc::new(Mutex::new(|_: &str| {}));
    let network = LiveNetwork::start(&scenario.topology, &scenario.choice, program, &log)?;
    network.wiring.warnings.iter().for_each(|w| say(w));
    network.wait_in_sync(PATIENCE)?;
    let before = counters(&network)?;
    let mut counting = Counting::new(sent(&scenario.topology, &before));
    let hosts = hosts(scenario, traffic, &network, seed);
    let config = MeshConfig {
        flows: u16::try_from(traffic.flows).unwrap_or(u16::MAX),
        payload: traffic.request_bytes.max(traffic.answer_bytes).max(16) as usize,
        timeout: Duration::from_nanos(scenario.patience_ns),
    };
    let mut cut = BTreeSet::new();
    let result = std::thread::scope(|scope| {
        let (start, running) = start(scope, &hosts, config)?;
        for event in &scenario.events {
            std::thread::sleep(
                (start + Duration::from_nanos(event.at_ns)).saturating_duration_since(Instant::now()),
            );
            counting.changes(sent(&scenario.topology, &counters(&network)?), event.link, event.up);
            network.set_link(event.link, event.up)?;
            cut.insert(event.link);
        }
        let result = running.join().map_err(|_| "the hosts panicked")??;
        Ok::<_, Box<dyn Error>>(result)
    })?;
    std::thread::sleep(SETTLE);
    let now = counters(&network)?;
    counting.end(&sent(&scenario.topology, &now));
    if result.late > result.sent / 100 {
        say(&format!(
            "{} of {} requests left more than 5 ms late: the machine is busy",
            result.late, result.sent
        ));
    }
    let outcome = outcome(scenario, seed, &result, (&before, &now), &cut, counting.spread_percent());
    let outcome =
        NetworkOutcome { fingerprint: fingerprint.into(), wall_s: began.elapsed().as_secs_f64(), ..outcome };
    Ok(serde_json::from_str(&outcome.json())?)
}

type Running<'s> = std::thread::ScopedJoinHandle<'s, Result<MeshResult, pointsman_lab::Error>>;

/// Starts the hosts; when their first requests may leave.
fn start<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    hosts: &'s [MeshHost],
    config: MeshConfig,
) -> Result<(Instant, Running<'s>), String> {
    // Opening thousands of sockets takes time.
    let sockets = hosts.len() as u32 * u32::from(config.flows);
    let start = Instant::now() + LEAD + Duration::from_micros(50) * sockets;
    let running = std::thread::Builder::new()
        .spawn_scoped(scope, move || mesh(hosts, config, start))
        .map_err(|e| format!("cannot start a thread: {e}"))?;
    Ok((start, running))
}

/// All hosts, with the departures of their requests.
fn hosts(scenario: &NetworkScenario, traffic: &Traffic, network: &LiveNetwork, seed: u64) -> Vec<MeshHost> {
    let departures = |host: usize| {
        let random = Stream::new(seed, Part::Arrivals, host as u64);
        let times = Arrivals::all(&traffic.arrivals, scenario.duration_ns, random);
        times.into_iter().map(Duration::from_nanos).collect()
    };
    let host = |(i, host): (usize, &pointsman_topology::Host)| MeshHost {
        namespace: network.wiring.hosts[i].clone(),
        address: host.address.into(),
        departures: departures(i),
    };
    scenario.topology.hosts().iter().enumerate().map(host).collect()
}

/// What a port has counted since `before`.
fn since(before: &Counters, now: &Counters, port: Port) -> (u64, u64, u64, u64) {
    let of = |c: &Counters| {
        c.ports.get(&port).map_or((0, 0, 0, 0), |c| {
            (c.tx_packets, c.tx_bytes, c.rx_packets, c.dropped_total(Direction::Transmit))
        })
    };
    let (a, b) = (of(before), of(now));
    (b.0 - a.0, b.1 - a.1, b.2 - a.2, b.3 - a.3)
}

fn outcome(
    scenario: &NetworkScenario,
    seed: u64,
    result: &MeshResult,
    (before, now): (&Counters, &Counters),
    cut: &BTreeSet<LinkId>,
    spread_percent: Option<f64>,
) -> NetworkOutcome {
    let topology = &scenario.topology;
    let mut violations = Violations::default();
    let (mut drops, mut packets) = (BTreeMap::new(), 0);
    for (switch, (a, b)) in topology.switches().iter().zip(before.stats.iter().zip(&now.stats)) {
        packets += b.received - a.received;
        let gone =
            |s: &Stats| s.transmitted + s.to_cpu + s.consumed + s.queued + s.drops.values().sum::<u64>();
        if b.received != gone(b) {
            violations.add(Law::Packets, 0, || {
                format!("{} received {} packets and accounts for {}", switch.name, b.received, gone(b))
            });
        }
        for (reason, n) in &b.drops {
            let n = n - a.drops.get(reason).unwrap_or(&0);
            *drops.entry(reason.name().to_string()).or_default() += n;
        }
    }
    drops.retain(|_, n| *n > 0);
    loops(scenario, result, packets, &mut violations);
    let on_links = links(topology, result, (before, now), cut, &mut violations);
    if result.wrong > 0 {
        violations.add(Law::Translation, 0, || format!("{} wrong answers", result.wrong));
    }
    let switches = topology.switches().iter().enumerate().map(|(i, switch)| {
        let id = SwitchId(i as u32);
        let count = |port: u16| {
            let (packets, bytes, _, drops) = since(before, now, (id, port));
            (port, PortCounts { packets, bytes, drops, marks: 0 })
        };
        (switch.name.clone(), topology.ports(id).into_iter().map(|(port, ..)| count(port)).collect())
    });
    NetworkOutcome {
        scenario: scenario.name.clone(),
        point: Vec::new(),
        seed,
        fingerprint: String::new(),
        packets,
        wall_s: 0.0,
        virtual_s: scenario.duration_ns as f64 / 1e9,
        requests: Some(Requests {
            sent: result.sent,
            answered: result.answered,
            lost: result.sent - result.answered,
            all_sent: result.sent,
            ..Requests::default()
        }),
        latency: Latency::of(&mut result.latencies_ns.clone()),
        drops,
        on_links,
        strays: result.wrong,
        fabric: None,
        switches: switches.collect(),
        spread_percent,
        violations,
    }
}

/// No packet passes more switches than the longest shortest path has. Packets that arrive say it by their time to live; those that are
/// lost entered no more switches each than that, or switches have received too many packets (unless switches generate packets too).
fn loops(scenario: &NetworkScenario, result: &MeshResult, received: u64, violations: &mut Violations) {
    let (topology, choice) = (&scenario.topology, &scenario.choice);
    let longest = u64::from(Distances::new(topology).longest());
    let passed = |(routers, n): (&u8, &u64)| (u64::from(*routers), *n);
    for (switches, n) in result.routers.iter().map(passed).filter(|(switches, _)| *switches > longest) {
        violations
            .add(Law::Loops, 0, || format!("{n} packets passed {switches} switches, not at most {longest}"));
    }
    let (arrived, entered) =
        result.routers.iter().map(passed).fold((0, 0), |(a, e), (switches, n)| (a + n, e + n * switches));
    let lost = (result.sent + result.served).saturating_sub(arrived);
    let mut switches = (0..topology.switches().len() as u32).map(SwitchId);
    let generated = switches.any(|s| !(choice.scheme.generators)(topology, s, choice).is_empty());
    if !generated && received > entered + lost * longest {
        violations.add(Law::Loops, 0, || {
            format!(
                "switches received {received} packets: {entered} of {arrived} that arrived, and too many of {lost} that were lost"
            )
        });
    }
}

/// The fate of frames on links. What a switch sends on a link that was never cut arrives; hosts send what they say.
fn links(
    topology: &Topology,
    result: &MeshResult,
    (before, now): (&Counters, &Counters),
    cut: &BTreeSet<LinkId>,
    violations: &mut Violations,
) -> LinkCounts {
    let mut all = LinkCounts::default();
    let mut from_hosts = 0;
    for (id, link) in (0..).map(LinkId).zip(topology.links()) {
        match link.ends {
            [End::Switch(a, p), End::Switch(b, q)] => {
                for (from, to) in [((a, p), (b, q)), ((b, q), (a, p))] {
                    let (sent, arrived) = (since(before, now, from).0, since(before, now, to).2);
                    all.sent += sent;
                    all.delivered += arrived;
                    let missing = sent.saturating_sub(arrived);
                    if cut.contains(&id) {
                        all.down += missing;
                        continue;
                    }
                    all.lost += missing;
                    if sent != arrived {
                        violations.add(Law::Packets, 0, || {
                            format!("link {}: {sent} packets sent, {arrived} received", link.name)
                        });
                    }
                }
            }
            [End::Switch(s, port), End::Host(_)] | [End::Host(_), End::Switch(s, port)] => {
                from_hosts += since(before, now, (s, port)).2;
            }
            [End::Host(_), End::Host(_)] => {}
        }
    }
    let sent = result.sent + result.served;
    if from_hosts != sent && cut.iter().all(|l| !has_host(topology, *l)) {
        violations
            .add(Law::Packets, 0, || format!("hosts sent {sent} packets, switches received {from_hosts}"));
    }
    all
}

fn has_host(topology: &Topology, link: LinkId) -> bool {
    topology.links()[link.0 as usize].ends.iter().any(|end| matches!(end, End::Host(_)))
}
