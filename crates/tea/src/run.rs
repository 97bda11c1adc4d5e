//! A run: load, fault, repair, judgement.

use crate::bed::{Bed, Switch};
use crate::checker::connections::{self, Connections};
use crate::checker::{Checker, State};
use crate::controller::{self, CHANGING, ForHosts, Found, Plan, Shared, dram_bytes};
use crate::load::{self, Came, GIVE_UP, Traffic};
use crate::nftables::Kernel;
use crate::outcome::{InFault, Outcome, Part};
use crate::{App, Fault, Held, Move, Options};
use pointsman_lab::{Error, Result};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From the end of a disturbance on, look-ups that were under way have time to end.
const SETTLE: Duration = Duration::from_secs(1);
/// After this time the controller hears that a server is lost permanently.
const NOTICE: Duration = Duration::from_millis(500);
/// How long the tables may take to be filled.
const PATIENCE: Duration = Duration::from_secs(120);
/// Packets sent so long before a fault may be under way, in nanoseconds.
const UNDER_WAY: u64 = 50_000_000;
/// Bytes of a packet of UDP over IPv4 besides those behind its number: headers, number, check sequence.
const HEADERS: usize = 14 + 20 + 8 + 8 + 4;

/// How long the parts of a run take, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Nothing is measured yet.
    pub warm: Duration,
    /// Packets come one at a time, each after the one before it.
    pub alone: Duration,
    /// Packets come as wanted, without a fault.
    pub before: Duration,
    /// With the fault.
    pub broken: Duration,
    /// From a moment after the repair on.
    pub after: Duration,
}

impl Times {
    /// Those of `pointsman tea`.
    pub fn of(quick: bool) -> Times {
        let of = |seconds| Duration::from_secs(if quick { seconds } else { 4 * seconds });
        Times { warm: SETTLE, alone: Duration::ZERO, before: of(4), broken: of(2), after: of(4) }
    }
}

/// Packets sent so far, at a time.
#[derive(Clone, Copy, Default)]
struct Mark {
    sent: usize,
    at: Duration,
}

fn mark(shared: &Shared) -> Mark {
    mark_of(&shared.checker(), shared)
}

fn mark_of(checker: &Checker, shared: &Shared) -> Mark {
    Mark { sent: checker.verdict.sent as usize, at: shared.start.elapsed() }
}

/// Runs it. `say` gets lines for the user.
///
/// # Errors
/// The bed cannot be built, or the tables cannot be filled.
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Outcome> {
    let mut bed = Bed::start(options, dram_bytes(options))?;
    let (shared, controller) = fill(options, &bed, ForHosts::default())?;
    say("the tables are filled");
    let traffic = traffic(options, bed.first_server()?);
    let reads_before = bed.reads()?;
    let outcome = measure(options, &mut bed, &shared, traffic, say)?;
    let found = end(controller)?;
    finish(outcome, found, &mut bed, (&reads_before, options.layout.reads()))
}

/// A bare echo: the same load, without a look-up. The switch sends each packet as it is to the first memory server's place, where a second switch
/// returns it, and then to a host. So packets pass as many links and processes as with a look-up. No flow has an entry.
///
/// # Errors
/// The bed cannot be built.
pub fn bare_echo(options: &Options) -> Result<Outcome> {
    let options = &Options {
        held: Held::Nowhere,
        entries: 0,
        absent: options.entries + options.absent,
        ..options.clone()
    };
    let mut bed = Bed::start(options, 0)?;
    let shared = Arc::new(Shared::new(checker(options)));
    let outcome = measure(options, &mut bed, &shared, traffic(options, None), &mut |_| {})?;
    Ok(Outcome { deaths: bed.deaths(), ..outcome })
}

/// `server`: where packets go that fill a link.
fn traffic(options: &Options, server: Option<Ipv4Addr>) -> Traffic {
    Traffic {
        entries: options.entries,
        absent: options.absent,
        zipf: options.zipf,
        changing: if options.churn { changing(options) } else { 0..0 },
        is_answered: options.app == App::Balancer,
        window: options.window,
        rate: options.rate,
        padding: options.size.map(|bytes| bytes.saturating_sub(HEADERS)),
        server,
        seed: options.seed.wrapping_add(1),
    }
}

/// Flows whose entries change with `--churn`. Those of the balancer's clients follow the others.
fn changing(options: &Options) -> Range<u32> {
    let flows = options.entries + options.absent;
    match (options.app, options.rate) {
        (App::Balancer, None) => flows..flows + CHANGING,
        // A client sends at least every few seconds, before its handshake is given up.
        (App::Balancer, Some(rate)) => flows..flows + (rate / 8).clamp(1, CHANGING),
        _ => 0..flows.min(CHANGING),
    }
}

/// What is compared: the flows at the start.
fn checker(options: &Options) -> Checker {
    let state = |version| State { version, asked: 0, acked: Some(0) };
    let flows = 0..options.entries + options.absent;
    let flows = match options.app {
        App::Balancer => vec![vec![state(Some(connections::ALL))]],
        _ => flows.map(|flow| vec![state((flow < options.entries).then_some(0))]).collect(),
    };
    let mut checker = Checker::new(options.app.shown(), flows);
    if options.app == App::Balancer {
        checker.connections =
            Connections::new(options.entries, options.absent, changing(options).len() as u32);
    }
    checker
}

/// A controller at work.
pub(crate) type Working = JoinHandle<Result<Found>>;

/// Starts the controller, and waits until the tables are filled. It ends when it is asked to by what it shares ([`Shared::stop`]).
pub(crate) fn fill(options: &Options, bed: &Bed, hosts: ForHosts) -> Result<(Arc<Shared>, Working)> {
    let shared = Arc::new(Shared::new(checker(options)));
    let own = shared.clone();
    let controller = match &bed.switch {
        Switch::Program(_, p4runtime) => {
            let plan = Plan::new(options, p4runtime, hosts);
            bed.rack.switch.spawn("controller", move || controller::run(plan, own))?
        }
        Switch::Kernel(nft) => {
            let kernel = Kernel::new(nft, &bed.rack, (options.app, options.entries));
            bed.rack.switch.spawn("nftables", move || kernel.serve(&own))?
        }
    };
    let waits = Instant::now() + PATIENCE;
    while !shared.ready.load(Relaxed) && !controller.is_finished() && Instant::now() < waits {
        std::thread::sleep(Duration::from_millis(5));
    }
    if !shared.ready.load(Relaxed) {
        shared.stop.store(true, Relaxed);
        return Err(match controller.is_finished().then(|| controller.join()) {
            Some(Ok(Err(e))) => e,
            _ => Error::new(format!("the tables are not filled after {PATIENCE:?}")),
        });
    }
    Ok((shared, controller))
}

/// What a controller found that was asked to end.
pub(crate) fn end(controller: Working) -> Result<Found> {
    controller.join().map_err(|_| Error::new("the controller panicked"))?
}

/// Marks of a run: between the first two packets came one at a time, between the second two without a fault; from the last one on nothing is to be
/// lost. READs that servers have answered in the time without a fault.
struct Marks {
    alone: [Mark; 2],
    calm: [Mark; 2],
    repaired: Mark,
    /// When the repair began.
    repair: Duration,
    reads: Vec<Option<u64>>,
}

/// Sends packets, causes the fault and repairs it.
fn measure(
    options: &Options,
    bed: &mut Bed,
    shared: &Arc<Shared>,
    traffic: Traffic,
    say: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let load = load::open_ports(bed)?;
    let stop = |shared: &Shared| shared.stop.store(true, Relaxed);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load::run(load, shared, traffic));
        let done = disturb(options, bed, shared, say);
        stop(shared);
        let came = load.join().map_err(|_| Error::new("the load panicked"))?;
        let marks = done?;
        let checker = shared.checker();
        let fault = marks.calm[1].at.as_nanos() as u64;
        let in_fault = fault.saturating_sub(UNDER_WAY)..marks.repaired.at.as_nanos() as u64;
        let lost_in_fault: Vec<u64> =
            checker.unseen(0..usize::MAX).filter(|at| in_fault.contains(at)).collect();
        let repair = marks.repair.as_nanos() as u64;
        let (in_fault, by_repair) = lost_in_fault.split_at(lost_in_fault.partition_point(|at| *at < repair));
        let part = |ends| Part::new(&checker, &came, ends);
        let end = mark_of(&checker, shared);
        let calm = Part { answered: each(&marks.reads, options.layout.reads()), ..part(marks.calm) };
        let after = part([marks.repaired, end]);
        Ok(Outcome {
            verdict: checker.verdict,
            connections: (options.app == App::Balancer).then_some(checker.connections.counted),
            whole: part([Mark::default(), end]),
            in_fault: InFault {
                lost: in_fault.len() as u64,
                outage_ns: in_fault.last().map_or(0, |at| at.saturating_sub(fault)),
                by_repair: by_repair.len() as u64,
            },
            after: [after.sent, after.lost],
            alone: part(marks.alone),
            broken: part([marks.calm[1], marks.repaired]),
            calm,
            ..Outcome::default()
        })
    })
}

/// Look-ups, from READs and how many of these a look-up takes.
fn each(reads: &[Option<u64>], of_look_up: u64) -> Vec<Option<u64>> {
    reads.iter().map(|n| n.map(|n| n / of_look_up)).collect()
}

impl Part {
    /// What passed between two marks.
    fn new(checker: &Checker, came: &Came, [from, to]: [Mark; 2]) -> Self {
        let numbers = from.sent..to.sent;
        let within = came.passed.iter().filter(|(number, _)| numbers.contains(number));
        let mut latencies: Vec<u64> = within.map(|(_, ns)| *ns).collect();
        let lost = checker.unseen(numbers).count();
        latencies.resize(latencies.len() + lost, GIVE_UP.as_nanos() as u64);
        latencies.sort_unstable();
        Part {
            sent: (to.sent - from.sent) as u64,
            lost: lost as u64,
            seconds: (to.at - from.at).as_secs_f64(),
            latencies,
            answered: Vec::new(),
        }
    }
}

/// Lets packets pass, causes the fault and repairs it.
fn disturb(options: &Options, bed: &mut Bed, shared: &Shared, say: &mut dyn FnMut(&str)) -> Result<Marks> {
    let times = &options.times;
    std::thread::sleep(times.warm);
    let alone = alone(shared, times.alone);
    let before = bed.reads()?;
    let start = mark(shared);
    std::thread::sleep(times.before);
    let reads = difference(&bed.reads()?, &before);
    let calm = [start, mark(shared)];
    say(&format!("fault: {}", options.fault.what()));
    if let Some(step) = options.moves {
        say(step.what());
        if step == Move::Lose {
            // Its kernel is gone, too: it would answer that nothing has the port.
            bed.set_link(0, false)?;
            bed.end_server(0)?;
            std::thread::sleep(NOTICE);
        }
        shared.move_table.store(true, Relaxed);
    }
    match options.fault {
        Fault::None | Fault::Loss => {}
        Fault::Pair => shared.break_pair.store(true, Relaxed),
        Fault::Port => bed.set_link(0, false)?,
        Fault::Hang => bed.signal_server(0, libc::SIGSTOP)?,
        Fault::Congestion => shared.fill_link.store(true, Relaxed),
    }
    std::thread::sleep(times.broken);
    let repair = mark(shared).at;
    match options.fault {
        Fault::None | Fault::Loss | Fault::Pair => {}
        Fault::Port => bed.set_link(0, true)?,
        Fault::Hang => bed.signal_server(0, libc::SIGCONT)?,
        Fault::Congestion => shared.fill_link.store(false, Relaxed),
    }
    std::thread::sleep(SETTLE);
    let repaired = mark(shared);
    std::thread::sleep(times.after);
    shared.quiet.store(true, Relaxed);
    std::thread::sleep(SETTLE / 2);
    Ok(Marks { alone, calm, repaired, repair, reads })
}

/// Lets packets come one at a time for so long.
fn alone(shared: &Shared, time: Duration) -> [Mark; 2] {
    if time.is_zero() {
        return [mark(shared); 2];
    }
    let settle = SETTLE / 4;
    shared.alone.store(true, Relaxed);
    std::thread::sleep(settle);
    let start = mark(shared);
    std::thread::sleep(time);
    let ends = [start, mark(shared)];
    shared.alone.store(false, Relaxed);
    std::thread::sleep(settle);
    ends
}

/// What servers have answered since then.
fn difference(now: &[Option<u64>], before: &[Option<u64>]) -> Vec<Option<u64>> {
    now.iter().zip(before).map(|(now, before)| Some((*now)?.saturating_sub((*before)?))).collect()
}

fn finish(
    outcome: Outcome,
    found: Found,
    bed: &mut Bed,
    (before, of_look_up): (&[Option<u64>], u64),
) -> Result<Outcome> {
    let answered = each(&difference(&bed.reads()?, before), of_look_up);
    Ok(Outcome { found, answered, deaths: bed.deaths(), ..outcome })
}
