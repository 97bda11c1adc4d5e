//! A run: load, fault, repair, judgement.

use crate::bed::{Bed, CLIENT, SEED, SERVER, SERVICE};
use crate::outcome::{Connections, History, Outcome, silence};
use crate::probes::{Flows, Pace, Packet, Plan, Probes, Sight};
use crate::stream::{Arrivals, stream};
use crate::{App, Fault, Node, Options, Replicate};
use pointsman_compile::sources::{directives, parse_define};
use pointsman_console::results;
use pointsman_history::file::{Header, Operations, SCHEMA, write};
use pointsman_history::{CheckError, Operation, check};
use pointsman_lab::load::{ConsistencyConfig, ConsistencyResult, SourcePorts, check_consistency};
use pointsman_lab::rack::Host;
use pointsman_lab::wire::Keyring;
use pointsman_lab::{Error, Result};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long the first packets may take to pass: an empty store waits for a lease.
const PATIENCE: Duration = Duration::from_secs(20);
/// From the end of the last change on, a connection that was not answered has time to repeat its request.
const SETTLE: Duration = Duration::from_secs(4);
/// Source ports of connections.
const PORTS: std::ops::RangeInclusive<u16> = 30_000..=60_000;

/// What passes the switches while one fails, next to the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// So many TCP connections with a request every second, unless the packets of the application show its state.
    Connections(usize),
    /// One TCP connection that sends all the time.
    Stream,
}

/// Numbers of a run.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The load.
    pub load: Load,
    /// From the load's start to the fault.
    pub before: Duration,
    /// From the fault to the repair, at least.
    pub broken: Duration,
    /// Whether a repair follows.
    pub repair: bool,
}

impl Scale {
    /// Of the command.
    pub fn new(app: App, lease_ms: u32, quick: bool) -> Scale {
        let lease = Duration::from_millis(lease_ms.into());
        if quick {
            Scale {
                load: Load::Connections(200),
                before: Duration::from_secs(3),
                broken: lease * 2 + Duration::from_secs(1),
                repair: true,
            }
        } else {
            Scale {
                load: Load::Connections(app.connections()),
                before: Duration::from_secs(10),
                broken: lease * 4 + Duration::from_secs(5),
                repair: true,
            }
        }
    }
}

/// Runs it. `say` gets lines for the user.
///
/// # Errors
/// The bed cannot be built, or nothing passes before the fault.
pub fn measure(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Outcome> {
    let scale = options.scale;
    let mut bed = Bed::start(options)?;
    let (probes, ready) = pass(&bed, Plan::endless(options.app, bed.target()?), PATIENCE)?;
    say("packets pass");
    let stop = AtomicBool::new(false);
    let (client, server) = (bed.rack.host(CLIENT)?.clone(), bed.rack.host(SERVER)?.clone());
    let keys = Keyring::derive(SEED, bed.server_hosts().map(|host| host.name.clone()).collect::<Vec<_>>())?;
    let ends = (SocketAddr::from((bed.target()?, SERVICE)), client.link.ipv4.into());
    let (moments, (connections, arrivals)) = std::thread::scope(|scope| -> Result<_> {
        let load = scope.spawn(|| -> Result<(ConsistencyResult, Arrivals)> {
            Ok(match scale.load {
                Load::Stream => {
                    (ConsistencyResult::default(), stream(&client, &server, probes.began(), &stop)?)
                }
                Load::Connections(_) if options.app.shows_state() => Default::default(),
                Load::Connections(count) => {
                    (client.namespace.enter(|| connections(ends, count, &keys, &stop))??, Arrivals::new())
                }
            })
        });
        std::thread::sleep(scale.before);
        let moments = disturb(&mut bed, options, &scale, &probes, say);
        stop.store(true, Relaxed);
        let result = load.join().map_err(|_| Error::new("the load of connections panicked"))?;
        Ok((moments?, result?))
    })?;
    let flows = probes.finish();
    let mut outcome = judge(&flows, ready, &moments);
    (outcome.moments, outcome.arrivals) = (moments, arrivals);
    outcome.deaths = bed.deaths();
    outcome.view = bed.view();
    outcome.connections = Connections {
        established: connections.connections,
        broken: connections.tcp_resets + connections.tcp_failures + connections.silent,
    };
    if options.app.shows_state() {
        outcome.history = history(options, &bed, &flows)?;
    }
    Ok(outcome)
}

/// Starts probes, and waits until they pass: also when that was.
fn pass(bed: &Bed, plan: Plan, patience: Duration) -> Result<(Probes, Duration)> {
    let servers: Vec<&Host> = bed.server_hosts().collect();
    let probes = Probes::start(bed.rack.host(CLIENT)?, &servers, plan)?;
    let end = Instant::now() + patience;
    while !probes.all_pass() {
        if Instant::now() > end {
            return Err(Error::new(format!("no packet passes the switch within {patience:?}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let ready = probes.elapsed();
    Ok((probes, ready))
}

/// Packets of a flow whose times are measured: then another flow follows, whose first packet finds no state in the switch.
const PACKETS: u64 = 40;
/// Time for the first ones to pass. Until then, and at the end, flows pass that are not measured.
const FIRST: Duration = Duration::from_secs(10);
/// The same for many flows. If the chain of stores is not ready when signalling of a gateway begins, packets of these flows are lost until the next, 17 packets later.
const MANY: Duration = Duration::from_secs(30);
/// Packets that were sent at the end have this time to pass.
const LAST: Duration = Duration::from_millis(500);

/// Lets packets pass without a fault for so long, a thousand a second, in eight flows of 40 packets at a time. Gives the time of each packet:
/// until it is back at the client, or seen at the server if the packets of the application do not return; none if it is lost.
///
/// # Errors
/// The bed cannot be built, nothing passes, or a process ends on its own.
pub fn round_trips(options: &Options, duration: Duration) -> Result<Vec<Option<Duration>>> {
    let gap = Duration::from_millis(1);
    let plan = |usual: Plan| {
        let set = gap * u32::from(usual.flows) * PACKETS as u32;
        let sets = (FIRST + duration + LAST).as_secs_f64() / set.as_secs_f64();
        Plan { pace: Pace::Every(gap), packets: PACKETS, sets: sets.ceil() as u16, ..usual }
    };
    let took = |packet: Packet| packet.seen.map(|sight| sight.at.saturating_sub(packet.sent));
    Ok(calm(options, duration, FIRST, plan)?.into_iter().map(took).collect())
}

/// Flows of a measured rate, and packets of them under way at a time.
const LASTING: u16 = 64;
const UNDER_WAY: usize = 16;

/// Packets of a period without a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passed {
    /// Sent in this time.
    pub sent: u64,
    /// Of these, those that were seen behind the switch.
    pub seen: u64,
    /// The time.
    pub duration: Duration,
}

/// Lets as many packets pass as can for so long, without a fault: 16 are under way at a time, of 64 flows that exist when the time begins. Of a key-value store
/// `updates` percent are updates.
///
/// # Errors
/// The bed cannot be built, nothing passes, or a process ends on its own.
pub fn throughput(options: &Options, updates: u32, duration: Duration) -> Result<Passed> {
    let plan = |usual| Plan { flows: LASTING, pace: Pace::UnderWay(UNDER_WAY), updates, ..usual };
    let packets = calm(options, duration, MANY, plan)?;
    let seen = packets.iter().filter(|packet| packet.seen.is_some()).count();
    Ok(Passed { sent: packets.len() as u64, seen: seen as u64, duration })
}

/// Lets packets pass without a fault: those that were sent in this time, after the first ones had passed.
fn calm(
    options: &Options,
    duration: Duration,
    patience: Duration,
    plan: impl Fn(Plan) -> Plan,
) -> Result<Vec<Packet>> {
    let mut bed = Bed::start(options)?;
    let plan = plan(Plan::endless(options.app, bed.target()?));
    let (probes, ready) = pass(&bed, plan, patience)?;
    std::thread::sleep((ready + duration).saturating_sub(probes.elapsed()));
    std::thread::sleep(LAST);
    let flows = probes.finish();
    if let Some(death) = bed.deaths().pop() {
        return Err(Error::new(death));
    }
    let measured = ready..ready + duration;
    Ok(flows.into_iter().flatten().filter(|packet| measured.contains(&packet.sent)).collect())
}

/// TCP connections with a request every second, until the load is stopped.
fn connections(
    (target, from): (SocketAddr, IpAddr),
    count: usize,
    keys: &Keyring,
    stop: &AtomicBool,
) -> Result<ConsistencyResult> {
    let mut ports = SourcePorts::new(vec![from], PORTS, Duration::from_secs(60))?;
    let config = ConsistencyConfig {
        tcp_share: 1.0,
        interval: Duration::from_secs(1),
        grace: Duration::from_secs(1),
        own_devices: false,
        ..ConsistencyConfig::new(target, target, count, Duration::from_secs(3600), SEED)
    };
    check_consistency(&config, &mut ports, keys, stop, |_| {})
}

/// When the fault and the repair happened, and when the load ended, since the start of the probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// The fault.
    pub fault: Duration,
    /// The repair begins.
    pub repair: Duration,
    /// The end.
    pub end: Duration,
}

/// The node of etcd that fails.
const ETCD_VICTIM: u16 = 0;

/// Causes the fault, waits, repairs it, and waits again.
fn disturb(
    bed: &mut Bed,
    options: &Options,
    scale: &Scale,
    probes: &Probes,
    say: &mut dyn FnMut(&str),
) -> Result<Moments> {
    let fault = probes.elapsed();
    let victim = cause(bed, options)?;
    say(&format!("fault: {}", options.fault.what()));
    std::thread::sleep(scale.broken.max(SETTLE));
    let repair = probes.elapsed();
    if !scale.repair {
        return Ok(Moments { fault, repair, end: repair });
    }
    mend(bed, options, victim)?;
    say("repaired");
    std::thread::sleep(SETTLE + lease(options));
    Ok(Moments { fault, repair, end: probes.elapsed() })
}

fn lease(options: &Options) -> Duration {
    Duration::from_millis(options.lease_ms.into())
}

/// Causes the fault: which store it is, if it is one.
fn cause(bed: &mut Bed, options: &Options) -> Result<usize> {
    let mut victim = 0;
    match options.fault {
        Fault::None => {}
        Fault::Switch => bed.kill_switch(0)?,
        Fault::Link => bed.set_traffic(false)?,
        Fault::Pause => {
            bed.signal_switch(0, libc::SIGSTOP)?;
            bed.set_traffic(false)?;
        }
        Fault::Partition => {
            bed.set_store_link(false)?;
            // The switch that is cut off holds its leases until they end; only then packets take the other one.
            std::thread::sleep(lease(options) * 5 / 4);
            bed.set_traffic(false)?;
        }
        Fault::Store if options.node == Node::Etcd => {
            bed.stores.etcd.iter_mut().for_each(|etcd| etcd.kill(ETCD_VICTIM));
        }
        Fault::Store if options.node == Node::Paused => {
            victim = bed.victim(options.node)?;
            bed.signal_store(victim, libc::SIGSTOP)?;
        }
        Fault::Store => {
            victim = bed.victim(options.node)?;
            bed.kill_store(victim);
            if options.replicate == Replicate::Local {
                std::thread::sleep(Duration::from_millis(500));
                bed.start_store(0)?;
            }
        }
    }
    Ok(victim)
}

/// Repairs what [`cause`] did.
fn mend(bed: &mut Bed, options: &Options, victim: usize) -> Result<()> {
    match options.fault {
        Fault::Store if options.node == Node::Etcd => {
            bed.stores.etcd.iter_mut().try_for_each(|etcd| etcd.start_node(ETCD_VICTIM))?;
        }
        Fault::Store if options.node == Node::Paused => bed.signal_store(victim, libc::SIGCONT)?,
        Fault::Store if options.replicate != Replicate::Local => bed.start_store(victim)?,
        Fault::None | Fault::Store => {}
        Fault::Switch => {
            bed.start_switch(0)?;
            bed.restore_links(0)?;
        }
        Fault::Link => bed.set_traffic(true)?,
        Fault::Pause => {
            bed.signal_switch(0, libc::SIGCONT)?;
            bed.set_traffic(true)?;
        }
        Fault::Partition => {
            bed.set_store_link(true)?;
            bed.set_traffic(true)?;
        }
    }
    if options.fault == Fault::Store && options.app == App::Balancer {
        // A switch that has a connection does not ask for it: the other one shows that the store still knows all of them.
        bed.set_traffic(false)?;
    }
    Ok(())
}

/// Judges the packets that were sent since all flows passed for the first time.
fn judge(flows: &Flows, ready: Duration, moments: &Moments) -> Outcome {
    let all = || flows.iter().flatten().filter(|p| p.sent >= ready);
    Outcome {
        recovery: silence(flows, moments.fault, moments.repair),
        repair: silence(flows, moments.repair, moments.end),
        sent: all().count() as u64,
        lost: all().filter(|p| p.seen.is_none()).count() as u64,
        doubled: all().filter(|p| p.times > 1).count() as u64,
        ..Outcome::default()
    }
}

/// Judges what packets showed, by the program without RedPlane; and writes the history to its file.
fn history(options: &Options, bed: &Bed, flows: &Flows) -> Result<History> {
    let client = &bed.rack.host(CLIENT)?.link;
    let server = &bed.rack.host(SERVER)?.link;
    let text = options.app.program().unwrap_or_default();
    // Each key has a switch of its own, which needs room for one.
    let defines = ["PLAIN", "REDPLANE_SLOTS=1"].map(parse_define);
    let defines = defines.into_iter().collect::<std::result::Result<Vec<_>, _>>();
    let defines = defines.map_err(|e| Error::new(e.to_string()))?;
    let program = directives(&defines) + text;
    let header = Header { schema: SCHEMA, program, entries: options.app.entries(0, (client, server), true) };
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    let mut operations = Operations::new();
    for (n, packets) in flows.iter().enumerate() {
        let key = format!("flow {n}");
        let sent = packets.iter().filter_map(|packet| {
            let frame = packet.frame.clone()?;
            let out = |seen: &Sight| {
                let port = if seen.returned { client.port } else { server.port };
                (nanoseconds(seen.at), (port.into(), seen.frame.clone()))
            };
            Some(Operation {
                call: nanoseconds(packet.sent),
                input: (client.port.into(), frame),
                result: packet.seen.as_ref().map(out),
            })
        });
        operations.insert(key, sent.collect());
    }
    let text = write(&header, &operations);
    if let Some(path) = &options.history {
        results::write(path, "--history", &text).map_err(|e| Error::new(e.to_string()))?;
    }
    let found = check(&text).map_err(|e: CheckError| Error::new(e.to_string()))?;
    Ok(History {
        keys: found.keys,
        operations: found.operations,
        unanswered: found.unanswered,
        violations: (found.violations.len() + found.undecided.len()) as u64,
    })
}
