//! What the hosts of a network do, with sockets of the kernel: requests and answers, or flows over TCP.
//!
//! Plans are drawn by the simulator's own code from the same seeds.

use pointsman_console::say;
use pointsman_lab::load::{
    FlowFate, FlowHost, FlowPlan, FlowsConfig, MeshConfig, MeshHost, MeshResult, flows, mesh,
};
use pointsman_live::LiveNetwork;
use pointsman_sim::arrivals::Arrivals;
use pointsman_sim::network::{Fate, Flow, FlowResults, Flows, NetworkScenario, Traffic, Work};
use pointsman_sim::outcome::{Latency, Requests};
use pointsman_sim::random::{Part, Stream};
use pointsman_transport::Algorithm;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// From the first socket to the first request.
const LEAD: Duration = Duration::from_millis(300);
/// For opening a socket: there may be thousands.
const FOR_A_SOCKET: Duration = Duration::from_micros(50);

/// What hosts saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Packets that they sent, if they know it.
    pub sent: Option<u64>,
    /// Packets that arrived, by the number of switches that they had passed, if hosts see this.
    pub passed: BTreeMap<u8, u64>,
    /// Answers to requests that were never sent, or damaged ones.
    pub wrong: u64,
    pub requests: Option<Requests>,
    pub latency: Latency,
    pub flows: Option<FlowResults>,
}

type Result<T> = std::result::Result<T, pointsman_lab::Error>;

/// The work of all hosts, which begins at a time.
pub(super) type Job = Box<dyn FnOnce(Instant) -> Result<Seen> + Send>;

/// What the hosts will do, and how long it takes to get ready for it.
///
/// # Errors
/// The kernel has no such TCP.
pub(super) fn job(scenario: &NetworkScenario, network: &LiveNetwork, seed: u64) -> Result<(Job, Duration)> {
    match &scenario.work {
        Work::Requests(traffic) => Ok(requests(scenario, traffic, network, seed)),
        Work::Flows(flows) => over_tcp(scenario, flows, network, seed),
    }
}

/// All hosts, with the departures of their requests.
fn requests(
    scenario: &NetworkScenario,
    traffic: &Traffic,
    network: &LiveNetwork,
    seed: u64,
) -> (Job, Duration) {
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
    let hosts: Vec<MeshHost> = scenario.topology.hosts().iter().enumerate().map(host).collect();
    let config = MeshConfig {
        flows: u16::try_from(traffic.flows).unwrap_or(u16::MAX),
        payload: traffic.request_bytes.max(traffic.answer_bytes).max(16) as usize,
        timeout: Duration::from_nanos(scenario.patience_ns),
    };
    let lead = LEAD + FOR_A_SOCKET * hosts.len() as u32 * u32::from(config.flows);
    let patience_ns = scenario.patience_ns;
    (Box::new(move |start| Ok(answered(mesh(&hosts, config, start)?, patience_ns))), lead)
}

fn answered(mut result: MeshResult, patience_ns: u64) -> Seen {
    late(result.late, result.sent, "requests left");
    // A lost request counts as its time-out.
    result.latencies_ns.resize(result.sent as usize, patience_ns);
    let requests = Requests {
        sent: result.sent,
        answered: result.answered,
        lost: result.sent - result.answered,
        all_sent: result.sent,
        ..Requests::default()
    };
    Seen {
        sent: Some(result.sent + result.served),
        passed: result.routers,
        wrong: result.wrong,
        requests: Some(requests),
        latency: Latency::of(&mut result.latencies_ns),
        flows: None,
    }
}

fn late(n: u64, of: u64, what: &str) {
    if n > of / 100 {
        say(&format!("{n} of {of} {what} more than 5 ms late: the machine is busy"));
    }
}

/// The kernel's name of a congestion control.
fn congestion(algorithm: Algorithm) -> Result<&'static str> {
    match algorithm {
        Algorithm::Reno => Ok("reno"),
        Algorithm::Cubic => Ok("cubic"),
        Algorithm::Dctcp => Err(pointsman_lab::Error::new(
            "--lab: flows.tcp.algorithm: not all kernels have DCTCP, and it is not supported here: write \"cubic\" or \"reno\"",
        )),
    }
}

/// All flows, over hosts whose links have a rate. Of the settings of TCP the kernel takes those that it has for a namespace.
fn over_tcp(
    scenario: &NetworkScenario,
    work: &Flows,
    network: &LiveNetwork,
    seed: u64,
) -> Result<(Job, Duration)> {
    let congestion = congestion(work.tcp.algorithm)?.to_owned();
    let switch = |on: bool| if on { "1" } else { "0" };
    let refused = network.wiring.set_hosts(&[
        ("net/ipv4/tcp_ecn", switch(work.tcp.ecn)),
        ("net/ipv4/tcp_sack", switch(work.tcp.sack)),
        ("net/ipv4/tcp_timestamps", switch(work.tcp.timestamps)),
        // Each flow begins without knowledge of those before it.
        ("net/ipv4/tcp_no_metrics_save", "1"),
    ])?;
    refused.iter().for_each(|w| say(w));
    network.wiring.limit_hosts()?;
    let host = |(i, host): (usize, &pointsman_topology::Host)| FlowHost {
        namespace: network.wiring.hosts[i].clone(),
        address: host.address.into(),
    };
    let hosts: Vec<FlowHost> = scenario.topology.hosts().iter().enumerate().map(host).collect();
    let plan = work.plan(&scenario.topology, scenario.duration_ns, seed);
    // The ports are those of the simulation, so that a hash of them chooses the same paths.
    let ports = Flows::ports(&plan).ok_or_else(|| {
        pointsman_lab::Error::new(
            "--lab: a host has more than 64,512 flows: lower `count`, `duration_s` or the load",
        )
    })?;
    let dscp = |bytes: u64| if bytes > work.large_above { work.dscp.1 } else { work.dscp.0 };
    let wanted: Vec<FlowPlan> = plan
        .iter()
        .zip(ports)
        .map(|(f, ports)| FlowPlan {
            at: Duration::from_nanos(f.at),
            from: f.from as usize,
            to: f.to as usize,
            bytes: f.bytes,
            dscp: dscp(f.bytes),
            ports,
        })
        .collect();
    let last = plan.last().map_or(0, |f| f.at);
    let config = FlowsConfig { congestion, end: Duration::from_nanos(last + scenario.patience_ns) };
    let lead = LEAD + FOR_A_SOCKET * (hosts.len() + wanted.len()) as u32;
    let (scenario, work) = (scenario.clone(), work.clone());
    let run = move |start| {
        let fates = flows(&hosts, &wanted, &config, start)?;
        Ok(Seen { flows: Some(results(&scenario, &work, &plan, &fates, start)), ..Seen::default() })
    };
    Ok((Box::new(run), lead))
}

fn results(
    scenario: &NetworkScenario,
    work: &Flows,
    plan: &[Flow],
    fates: &[FlowFate],
    start: Instant,
) -> FlowResults {
    let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    late(fates.iter().filter(|f| f.late).count() as u64, plan.len() as u64, "flows started");
    let stall = fates.iter().map(|f| f.stall).max().unwrap_or_default();
    let fates: Vec<Fate> =
        fates.iter().map(|f| Fate { ended: f.ended.map(ns), retransmitted: f.retransmitted }).collect();
    let times = (0, ns(start.elapsed()));
    let results = work.results(&scenario.topology, scenario.switch_latency_ns, plan, &fates, times);
    FlowResults { longest_stall_ms: stall.as_secs_f64() * 1e3, ..results }
}
