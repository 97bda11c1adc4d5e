//! Runs cases one after the other.

use crate::attack::Attack;
use crate::case::{Act, Case, Content, Signal};
use crate::frames::{Ground, micros};
use crate::judge::{Look, Seen, Times, Verdict, judge};
use crate::load::{Attempt, Life, Load, Outcome, VOLUME, Volume};
use crate::rack::{self, Api, Rack};
use crate::table;
use pointsman_lab::frames::{PacketSender, Transmitter};
use pointsman_lab::process::installed;
use pointsman_lab::{Error, Namespace, Result, memory_folder, private_folder};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where the rack's files are: in memory, over a folder that every Linux has, seen by this process and its children alone.
pub const FOLDER: &str = "/dev/shm";
/// Bytes of all files of the rack.
const FOLDER_BYTES: u64 = 64 << 20;
/// Bytes of the disk that keeps the API's state.
const DISK_BYTES: u64 = 64 << 10;
/// Bytes of the disk of all nodes of etcd. Each keeps at least two logs of 64 MB.
const ETCD_BYTES: u64 = 4 << 30;
/// The program of etcd.
const ETCD: &str = "etcd";
/// How long connections run before the attack.
const BEFORE: Duration = Duration::from_millis(1500);
/// The same for comparisons of latency.
const BEFORE_LATENCY: Duration = Duration::from_secs(5);
/// How long everything has to be well for the rack to count as recovered.
const WELL: Duration = Duration::from_millis(1600);
/// How long a rack may take to recover.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a new rack may take until it serves.
const START: Duration = Duration::from_secs(60);
/// How often the rack is looked at.
const TICK: Duration = Duration::from_millis(20);
/// How often memory is measured, and the control plane queried.
const LOOK: Duration = Duration::from_millis(200);

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program to be judged.
    pub binary: PathBuf,
    /// The program that serves on the devices.
    pub own: PathBuf,
}

/// The results of all cases.
#[derive(Clone, Debug)]
pub struct Results {
    cases: Vec<(Case, Verdict)>,
    /// Names of cases that this machine cannot run.
    not_run: Vec<&'static str>,
}

impl Results {
    /// Whether every case kept its limits.
    pub fn ok(&self) -> bool {
        self.cases.iter().all(|(_, v)| v.broke.is_empty())
    }

    /// How many cases broke a limit.
    pub fn broken(&self) -> usize {
        self.cases.iter().filter(|(_, v)| !v.broke.is_empty()).count()
    }

    /// The file of results.
    pub fn json(&self) -> Value {
        let cases: Vec<Value> = self.cases.iter().map(|(c, v)| v.json(c)).collect();
        json!({ "schema": 1, "cases": cases, "not_run": self.not_run })
    }
}

/// Makes the folder of the rack's files. Call it after [`pointsman_lab::ensure_privileges`] and before any thread is started.
pub fn prepare() -> Result<()> {
    private_folder(Path::new(FOLDER), FOLDER_BYTES)?;
    for (name, bytes) in [("disk", DISK_BYTES), ("etcd", ETCD_BYTES)] {
        let folder = Path::new(FOLDER).join(name);
        std::fs::create_dir(&folder)
            .map_err(|e| Error::os(format!("cannot make {}", folder.display()), e))?;
        memory_folder(&folder, bytes)?;
    }
    Ok(())
}

/// Runs cases. `tell` gets the table, line by line. Processes end with the calling thread.
///
/// # Errors
/// A rack cannot be built, or does not serve even without an attack.
pub fn run(cases: &[&Case], options: &Options, mut tell: impl FnMut(&str)) -> Result<Results> {
    let mut kept: Option<Rack> = None;
    let mut results = Results { cases: Vec::new(), not_run: Vec::new() };
    let etcd = installed(ETCD);
    tell(table::HEADING);
    for case in cases {
        let etcd = match (case.storm, &etcd) {
            (None, _) => None,
            (Some(_), Some(etcd)) => Some(etcd.as_str()),
            (Some(_), None) => {
                tell(&format!("{}: not run: it needs {ETCD}; install Debian's etcd-server", case.name));
                results.not_run.push(case.name);
                continue;
            }
        };
        let start = || Rack::start(FOLDER.into(), options, case.controllers, etcd);
        let same = |r: &Rack| r.controllers == case.controllers && r.management.is_some() == etcd.is_some();
        let mut rack = match kept.take().filter(same) {
            Some(rack) => rack,
            None => start()?,
        };
        let mut verdict = one(&mut rack, case)?;
        if verdict.baseline_lost > 0 {
            // The machine could not even serve without an attack: once more, with a new rack.
            drop(rack);
            rack = start()?;
            verdict = one(&mut rack, case)?;
        }
        tell(&table::line(&verdict));
        if let Some(storm) = &verdict.storm {
            tell(storm.lines().trim_end());
        }
        // A recovered rack is reused for the next case, unless its controller now has the highest election id of all: the next client
        // with that id would be refused.
        if verdict.broke.is_empty() && case.checks.is_empty() && !case.raises_election_id() {
            kept = Some(rack);
        }
        results.cases.push((**case, verdict));
    }
    Ok(results)
}

/// Polls the control plane from a separate thread.
struct Watch {
    stop: Arc<AtomicBool>,
    /// Number of the controller that was in charge last.
    primary: Arc<AtomicU8>,
    looks: Arc<Mutex<Vec<Look>>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(switch: &Namespace, apis: Vec<Api>, origin: Instant) -> Result<Self> {
        let (stop, primary, looks) = (Arc::default(), Arc::default(), Arc::default());
        let mut watch = Self { stop, primary, looks, thread: None };
        let (stop, primary, looks) = (watch.stop.clone(), watch.primary.clone(), watch.looks.clone());
        let run = move || {
            while !stop.load(Relaxed) {
                let at = origin.elapsed();
                let states: Vec<Option<bool>> = apis.iter().map(Api::in_charge).collect();
                let found = states.iter().position(|s| *s == Some(true));
                if let Some(number) = found {
                    primary.store(number as u8, Relaxed);
                }
                let answered = states.iter().all(Option::is_some) && rack::metrics_answer();
                let look = Look { at, answered, in_charge: found.is_some() };
                looks.lock().unwrap_or_else(PoisonError::into_inner).push(look);
                std::thread::sleep(LOOK.saturating_sub(origin.elapsed() - at));
            }
        };
        watch.thread = Some(switch.spawn("watch", run)?);
        Ok(watch)
    }

    fn primary(&self) -> u8 {
        self.primary.load(Relaxed)
    }

    fn looks(&self) -> Vec<Look> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has been reported where it did.
            let _ = thread.join();
        }
    }
}

/// A case at work.
pub(crate) struct Siege<'a> {
    pub rack: &'a mut Rack,
    pub load: Load,
    watch: Watch,
    /// Memory before the attack, and the maximum since.
    memory: (u64, u64),
    measured: Instant,
}

/// Runs one case on a rack.
fn one(rack: &mut Rack, case: &Case) -> Result<Verdict> {
    let probes = if case.compares_latency() { 2 } else { 0 };
    // The rack may have just been started: a small load finds out when it serves.
    let warm = Volume { standing: 0, new: 1, ..VOLUME };
    {
        let mut siege = Siege::start(rack, warm)?;
        let begin = Duration::ZERO;
        if !siege.wait_whole(begin, START)? {
            return Err(siege.never_whole());
        }
    }
    let mut siege = Siege::start(rack, Volume { probes, ..VOLUME })?;
    siege.last(if case.compares_latency() { BEFORE_LATENCY } else { BEFORE })?;
    let before = siege.rack.judged().map(|c| c.log_bytes()).sum::<u64>();
    siege.rack.children().for_each(|c| c.deaths.clear());
    siege.memory = (siege.rack.judged().filter_map(|c| c.memory()).sum(), 0);

    let begin = siege.load.elapsed();
    let mut attack = Attack::default();
    let storm = case.storm.map(|storm| siege.storm(&storm)).transpose()?;
    let mut faults = siege.evil(case, &mut attack)?;
    attack.stop()?;
    siege.undo(case)?;
    let end = siege.load.elapsed();
    let whole = siege.wait_whole(end, PATIENCE)?;
    let primary = siege.watch.primary();
    faults.extend(case.checks.iter().filter_map(|c| siege.rack.check(*c, primary)));
    if attack.per_s() == Some(0.0) {
        faults.push("the attackers achieved nothing: the case says nothing".to_string());
    }
    let Siege { rack, load, watch, memory, .. } = siege;
    let over = load.elapsed();
    let attempts = load.finish();
    faults.extend(rack.children().flat_map(|c| std::mem::take(&mut c.deaths)));
    let log_bytes = rack.judged().map(|c| c.log_bytes()).sum::<u64>().saturating_sub(before);
    let seen = Seen {
        attempts,
        looks: watch.looks(),
        devices: rack.keys.names().to_vec(),
        whole,
        memory: memory.1.saturating_sub(memory.0),
        log_bytes,
        attack_per_s: attack.per_s(),
        storm,
        faults,
    };
    Ok(judge(case, &seen, &Times { begin, end, over }))
}

impl<'a> Siege<'a> {
    fn start(rack: &'a mut Rack, volume: Volume) -> Result<Self> {
        let load = Load::start(rack, volume)?;
        let watch = Watch::start(&rack.wiring.switch, rack.apis(), load.origin())?;
        Ok(Self { rack, load, watch, memory: (0, 0), measured: Instant::now() })
    }

    /// A moment passes.
    fn tick(&mut self) -> Result<()> {
        std::thread::sleep(TICK);
        self.rack.supervise()?;
        if self.measured.elapsed() >= LOOK {
            self.measured = Instant::now();
            let now = self.rack.judged().filter_map(|c| c.memory()).sum();
            self.memory.1 = self.memory.1.max(now);
        }
        Ok(())
    }

    /// Lets time pass.
    pub fn last(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.tick()?;
        }
        Ok(())
    }

    /// Runs the attack to its end, step by step. Returns actions that the rack refused although it should not.
    fn evil(&mut self, case: &Case, attack: &mut Attack) -> Result<Vec<String>> {
        let began = Instant::now();
        let mut faults = Vec::new();
        let mut steps = case.steps.iter().peekable();
        while began.elapsed() < case.lasts || steps.peek().is_some() {
            while let Some((_, act)) = steps.next_if(|(at, _)| began.elapsed() >= Duration::from_millis(*at))
            {
                if let Act::Policy = act {
                    faults.extend(self.rack.ask_policy(self.watch.primary()).err().map(|e| e.to_string()));
                } else {
                    self.act(*act)?;
                    attack.start(self.rack, *act)?;
                }
            }
            self.tick()?;
        }
        Ok(faults)
    }

    /// The immediate effect of one step; attackers are started elsewhere.
    fn act(&mut self, act: Act) -> Result<()> {
        let primary = self.watch.primary();
        match act {
            Act::Signal(who, signal) => self.rack.signal(who, signal, primary),
            Act::Remove(who) => self.rack.remove(who, primary),
            Act::Cut(host) => self.rack.wiring.set_link(host, false),
            Act::Unplug(host) => self.rack.wiring.unplug(host),
            Act::Write(file, content) => self.rack.write(file, content),
            Act::Unlink(file) => self.rack.unlink(file),
            Act::FillDisk => self.rack.fill_disk(true),
            Act::ReportAhead(device) => {
                const HOUR: u64 = 3_600_000_000;
                let frame = Ground::of(self.rack)?.report(device, micros() + HOUR)?;
                let host = self.rack.wiring.host(device)?;
                let mut wire = PacketSender::open(&host.namespace, &host.interface)?;
                // A busy kernel may drop one; copies are replays, and refused.
                for _ in 0..5 {
                    wire.transmit(&frame, frame.len())?;
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(())
            }
            Act::Policy | Act::Flood(..) | Act::P4Runtime(..) | Act::Http(..) => Ok(()),
        }
    }

    /// Ends the effects that do not end by themselves.
    fn undo(&mut self, case: &Case) -> Result<()> {
        for (_, act) in case.steps {
            match act {
                Act::Cut(host) => self.rack.wiring.set_link(host, true)?,
                Act::Unplug(host) => self.rack.wiring.plug(host)?,
                Act::Write(file, _) | Act::Unlink(file) => self.rack.write(*file, Content::Right)?,
                Act::FillDisk => self.rack.fill_disk(false)?,
                Act::Remove(_) | Act::Signal(_, Signal::Stop) => self.rack.release()?,
                Act::Signal(..)
                | Act::ReportAhead(_)
                | Act::Policy
                | Act::Flood(..)
                | Act::P4Runtime(..)
                | Act::Http(..) => {}
            }
        }
        Ok(())
    }

    /// Waits until everything has been well for a while, not before `from`; returns whether it was.
    fn wait_whole(&mut self, from: Duration, patience: Duration) -> Result<bool> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            self.tick()?;
            let now = self.load.elapsed();
            let since = now.saturating_sub(WELL);
            if since >= from && self.is_whole(since) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether since then every new connection was answered, every device got some, and a controller was in charge.
    fn is_whole(&mut self, since: Duration) -> bool {
        let looks = self.watch.looks();
        let looked = looks.iter().filter(|l| l.at >= since);
        if !self.rack.children().all(|c| c.runs())
            || looked.clone().count() == 0
            || !looked.clone().all(|l| l.in_charge)
        {
            return false;
        }
        let attempts = self.load.attempts();
        let recent: Vec<&Attempt> =
            attempts.iter().filter(|a| a.life == Life::New && a.at >= since).collect();
        let by = |device| move |a: &&&Attempt| a.outcome == Outcome::Answered(device);
        let devices = self.rack.keys.names().len();
        recent.iter().all(|a| matches!(a.outcome, Outcome::Answered(_)))
            && (0..devices).all(|d| recent.iter().any(|a| by(d)(&a)))
    }

    fn never_whole(&mut self) -> Error {
        let said: Vec<String> = self.rack.children().map(|c| format!("{}: {}", c.name, c.said())).collect();
        Error::new(format!(
            "the rack does not serve within {} s without any attack\n{}",
            START.as_secs(),
            said.join("\n")
        ))
    }
}
