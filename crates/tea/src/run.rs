//! A run: load, fault, repair, judgement.

use crate::bed::Bed;
use crate::checker::{Checker, State};
use crate::controller::{self, Found, Plan, Shared, dram_bytes};
use crate::load::{self, GIVE_UP, Traffic};
use crate::outcome::Outcome;
use crate::{Fault, Options};
use pointsman_lab::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// From the end of a disturbance on, look-ups that were under way have time to end.
const SETTLE: Duration = Duration::from_secs(1);
/// How long the tables may take to be filled.
const PATIENCE: Duration = Duration::from_secs(120);
/// Packets sent so long before a fault may be under way, in nanoseconds.
const UNDER_WAY: u64 = 50_000_000;
/// One flow in so many has no entry.
const ABSENT: u32 = 8;

/// Parts of a run.
struct Times {
    before: Duration,
    broken: Duration,
    after: Duration,
}

impl Times {
    fn of(quick: bool) -> Times {
        let of = |seconds| Duration::from_secs(if quick { seconds } else { 4 * seconds });
        Times { before: of(4), broken: of(2), after: of(4) }
    }
}

/// Packets sent so far, at a time.
#[derive(Clone, Copy)]
struct Mark {
    sent: usize,
    at: Duration,
}

fn mark(shared: &Shared) -> Mark {
    let sent = shared.checker().verdict.sent as usize;
    Mark { sent, at: shared.start.elapsed() }
}

/// Runs it. `say` gets lines for the user.
///
/// # Errors
/// The bed cannot be built, or the tables cannot be filled.
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Outcome> {
    let mut bed = Bed::start(options, dram_bytes(options))?;
    let absent = options.entries / ABSENT + 1;
    let state = |flow| State { version: (flow < options.entries).then_some(0), asked: 0, acked: Some(0) };
    let flows = options.entries + absent;
    let checker = Checker::new(options.app.shown(), (0..flows).map(|flow| vec![state(flow)]).collect());
    let shared = Arc::new(Shared {
        checker: Mutex::new(checker),
        ready: AtomicBool::new(false),
        quiet: AtomicBool::new(false),
        fill_link: AtomicBool::new(false),
        break_pair: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        start: Instant::now(),
    });
    let plan = Plan {
        switch: bed.p4runtime.clone(),
        app: options.app,
        plain: options.plain,
        layout: options.layout,
        servers: options.servers,
        copies: options.copies,
        entries: options.entries,
        churn: options.churn,
        cache: options.cache,
        is_slow: options.fault == Fault::Congestion,
        ipv6: options.ipv6,
        seed: 1,
    };
    let own = shared.clone();
    let controller = bed.rack.switch.spawn("controller", move || controller::run(plan, own))?;
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
    say("the tables are filled");
    let traffic = Traffic {
        entries: options.entries,
        absent,
        zipf: options.zipf,
        churn: options.churn,
        window: options.window,
        rate: options.rate,
        server: bed.first_server()?,
        seed: 2,
    };
    let reads_before = bed.reads()?;
    let outcome = measure(options, &mut bed, &shared, traffic, say)?;
    let found = controller.join().map_err(|_| Error::new("the controller panicked"))??;
    finish(outcome, found, &mut bed, (&reads_before, options.layout.reads()))
}

/// Sends packets, causes the fault and repairs it.
fn measure(
    options: &Options,
    bed: &mut Bed,
    shared: &Arc<Shared>,
    traffic: Traffic,
    say: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let times = Times::of(options.quick);
    let load = load::open_ports(bed)?;
    let stop = |shared: &Shared| shared.stop.store(true, Relaxed);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load::run(load, shared, traffic));
        let done = disturb(options, bed, shared, &times, say);
        stop(shared);
        let came = load.join().map_err(|_| Error::new("the load panicked"))?;
        let (calm, repaired) = done?;
        let checker = shared.checker();
        let lost_after = checker.unseen(repaired.sent).count();
        let lost = checker.unseen(0).count();
        let fault = calm[1].at.as_nanos() as u64;
        let lost_in_fault: Vec<u64> = checker
            .unseen(0)
            .filter(|at| (fault.saturating_sub(UNDER_WAY)..repaired.at.as_nanos() as u64).contains(at))
            .collect();
        let outage = lost_in_fault.last().map_or(0, |at| at.saturating_sub(fault));
        let mut latencies = came.latencies;
        latencies.resize(latencies.len() + lost, GIVE_UP.as_nanos() as u64);
        latencies.sort_unstable();
        let span = (calm[1].at - calm[0].at).as_secs_f64();
        Ok(Outcome {
            verdict: checker.verdict,
            latencies,
            per_s: (calm[1].sent - calm[0].sent) as f64 / span,
            in_fault: [lost_in_fault.len() as u64, outage],
            after: [checker.verdict.sent - repaired.sent as u64, lost_after as u64],
            ..Outcome::default()
        })
    })
}

/// Lets packets pass, causes the fault and repairs it: beginning and end of the time without a fault, and the time from which on nothing
/// is to be lost.
fn disturb(
    options: &Options,
    bed: &mut Bed,
    shared: &Shared,
    times: &Times,
    say: &mut dyn FnMut(&str),
) -> Result<([Mark; 2], Mark)> {
    std::thread::sleep(SETTLE);
    let start = mark(shared);
    std::thread::sleep(times.before);
    let calm = [start, mark(shared)];
    say(&format!("fault: {}", options.fault.what()));
    match options.fault {
        Fault::None | Fault::Loss => {}
        Fault::Pair => shared.break_pair.store(true, Relaxed),
        Fault::Port => bed.set_link(0, false)?,
        Fault::Hang => bed.signal_server(0, libc::SIGSTOP)?,
        Fault::Congestion => shared.fill_link.store(true, Relaxed),
    }
    std::thread::sleep(times.broken);
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
    Ok((calm, repaired))
}

fn finish(
    outcome: Outcome,
    found: Found,
    bed: &mut Bed,
    (before, each): (&[Option<u64>], u64),
) -> Result<Outcome> {
    let answered = |now: &Option<u64>, before: &Option<u64>| Some(((*now)? - (*before)?) / each);
    let answered = bed.reads()?.iter().zip(before).map(|(now, before)| answered(now, before)).collect();
    Ok(Outcome { found, answered, deaths: bed.deaths(), ..outcome })
}
