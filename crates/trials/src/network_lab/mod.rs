//! A network scenario in real time: namespaces and cables of this machine, our switches with their controller, and hosts with sockets.

mod hosts;
mod outcome;

use hosts::{Job, Seen};
use outcome::{Counters, outcome};
use pointsman_console::say;
use pointsman_live::{LiveNetwork, Log};
use pointsman_session::Program;
use pointsman_sim::network::{Counting, NetworkOutcome, NetworkScenario, Port, uplink_ports};
use pointsman_topology::{SwitchId, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Frames that are in a cable or a ring when counters are read.
const SETTLE: Duration = Duration::from_millis(200);

/// Why a network does not run on this machine.
#[derive(Debug)]
pub enum LabError {
    /// The network itself.
    Live(pointsman_live::Error),
    /// A host.
    Host(pointsman_lab::Error),
    /// The hosts' thread cannot be started.
    Thread(io::Error),
    /// The hosts' thread panicked.
    Panicked,
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Live(e) => e.fmt(f),
            LabError::Host(e) => e.fmt(f),
            LabError::Thread(e) => write!(f, "cannot start a thread: {e}"),
            LabError::Panicked => f.write_str("the hosts panicked"),
        }
    }
}

impl Error for LabError {}

impl From<pointsman_live::Error> for LabError {
    fn from(e: pointsman_live::Error) -> Self {
        LabError::Live(e)
    }
}

impl From<pointsman_lab::Error> for LabError {
    fn from(e: pointsman_lab::Error) -> Self {
        LabError::Host(e)
    }
}

fn counters(network: &LiveNetwork) -> Result<Counters, pointsman_live::Error> {
    let (mut stats, mut full, mut ports) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for id in (0..network.wiring.switches.len() as u32).map(SwitchId) {
        let counted = network.counters(id)?;
        stats.push(counted.stats);
        ports.extend(counted.ports.into_iter().map(|(port, c)| ((id, port), c)));
        full.extend(counted.full.into_iter().map(|(port, n)| ((id, port), n)));
    }
    Ok(Counters { stats, ports, full, writes: network.writes() })
}

/// Counters while no packet is on its way: those of hosts have arrived, and generators are stopped.
fn at_rest(network: &LiveNetwork) -> Result<Counters, pointsman_live::Error> {
    network.generate(false)?;
    std::thread::sleep(SETTLE);
    counters(network)
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
    program: &Program,
    seed: u64,
) -> Result<NetworkOutcome, LabError> {
    let log: Log = Arc::new(Mutex::new(|_: &str| {}));
    let network = LiveNetwork::start(&scenario.topology, &scenario.choice, program, &log)?;
    network.wiring.warnings.iter().for_each(|w| say(w));
    network.wait_in_sync(PATIENCE)?;
    let (job, lead) = hosts::job(scenario, &network, seed)?;
    let before = at_rest(&network)?;
    network.generate(true)?;
    let mut counting = Counting::new(sent(&scenario.topology, &before));
    let mut cut = BTreeSet::new();
    let seen = std::thread::scope(|scope| {
        let (start, running) = start(scope, job, lead)?;
        for event in &scenario.events {
            std::thread::sleep(
                (start + Duration::from_nanos(event.at_ns)).saturating_duration_since(Instant::now()),
            );
            counting.changes(sent(&scenario.topology, &counters(&network)?), event.link, event.up);
            network.set_link(event.link, event.up)?;
            cut.insert(event.link);
        }
        let seen = running.join().map_err(|_| LabError::Panicked)??;
        Ok::<_, LabError>(seen)
    })?;
    let now = at_rest(&network)?;
    counting.end(&sent(&scenario.topology, &now));
    Ok(outcome(scenario, seed, seen, (&before, &now), &cut, counting.spread_percent()))
}

type Running<'s> = std::thread::ScopedJoinHandle<'s, Result<Seen, pointsman_lab::Error>>;

/// Starts the hosts; when their work begins.
fn start<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    job: Job,
    lead: Duration,
) -> Result<(Instant, Running<'s>), LabError> {
    let start = Instant::now() + lead;
    let running =
        std::thread::Builder::new().spawn_scoped(scope, move || job(start)).map_err(LabError::Thread)?;
    Ok((start, running))
}
