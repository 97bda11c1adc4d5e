//! Execution of experiments: in virtual time on all processors, or in real time on racks of network namespaces.

pub use super::factors::{Coming, Factor, Where};
pub use super::figure::Ran;
use crate::error::{ExperimentError, Failed};
use pointsman_balance::config::Program;
use pointsman_balance::program::ServerDevices;
use pointsman_console::progress::Progress;
use pointsman_console::say;
use pointsman_sim::{Outcome, Scenario, StartError, scenario};
use pointsman_trials::network::{self, Point};
use pointsman_trials::validate::load_average;
use pointsman_trials::wire::{Behind, OnWire, stretched};
use pointsman_trials::{ProgramError, Session, Shard, Simulator, TrialError, parallel};
use serde_json::Value;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A scenario for the lab: with our switch, or with nginx in its place.
pub type Balanced = (Arc<Scenario>, Option<Behind>);

/// Racks of the lab at the same time. They mostly wait.
const RACKS: usize = 8;
/// Service time of the fastest service of a scaled scenario: a software switch and two wake-ups take 0.2 ms, a busy machine adds
/// some milliseconds.
const SERVICE_MS: f64 = 20.0;
/// Bounds of the time scaling.
const STRETCH: (f64, f64) = (0.1, 4.0);
/// Reports of a scaled scenario are no more frequent, unless their data is measured as often.
const HEARTBEAT_MS: u32 = 5;

/// Lab events since the last query.
#[derive(Debug, Default)]
struct LabTally {
    runs: u64,
    late: u64,
    stretch: Option<(f64, f64)>,
    load: Option<(f64, f64)>,
}

fn widen(range: &mut Option<(f64, f64)>, value: f64) {
    let (low, high) = range.unwrap_or((value, value));
    *range = Some((low.min(value), high.max(value)));
}

/// Resources of an experiment.
pub struct Bench {
    /// First seed.
    pub first_seed: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// Shorter runs and fewer points.
    pub quick: bool,
    /// Of networks at 10 Gbit/s: longer runs and more points.
    pub full: bool,
    /// Of networks: only these simulations.
    pub shard: Option<Shard>,
    /// Arrival process.
    pub coming: Coming,
    /// Where experiments run.
    pub place: Where,
    /// The settings that are the papers'.
    pub factors: Vec<Factor>,
    /// Those that a figure depends on.
    asked: Mutex<BTreeSet<Factor>>,
    /// Seeds of simulations of networks.
    pub network_seeds: Vec<u64>,
    /// Where results of networks are kept for the next time, if anywhere.
    pub kept: Option<PathBuf>,
    /// In the lab, an empty folder for the files of processes.
    pub folder: Option<PathBuf>,
    /// Results of networks, by what was simulated.
    flown: Mutex<BTreeMap<String, Arc<Vec<Value>>>>,
    lab: Mutex<LabTally>,
    simulator: Simulator,
    threads: usize,
    bar: Progress,
    simulations: AtomicU64,
    violations: AtomicU64,
    /// Results shared by several figures, by name.
    shared: Mutex<BTreeMap<String, Arc<dyn Any + Send + Sync>>>,
}

impl Bench {
    /// Compiles the balancer, which all experiments share.
    ///
    /// # Errors
    /// It does not compile, or threads cannot be started.
    pub fn new(
        first_seed: u64,
        seeds: u64,
        quick: bool,
        coming: Coming,
        place: Where,
        threads: usize,
    ) -> Result<Self, ProgramError> {
        // No paper has servers with more.
        let simulator = Simulator::new(&Program::BuiltIn, ServerDevices::Eight)?;
        let threads = match (threads, place) {
            (0, Where::Lab) => RACKS,
            (threads, _) => threads,
        };
        let bar = Progress::new(true);
        let (simulations, violations) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = Mutex::default();
        let lab = Mutex::default();
        Ok(Bench {
            first_seed,
            seeds,
            quick,
            full: false,
            shard: None,
            coming,
            place,
            factors: Vec::new(),
            asked: Mutex::default(),
            network_seeds: Vec::new(),
            kept: None,
            folder: None,
            flown: Mutex::default(),
            lab,
            simulator,
            threads,
            bar,
            simulations,
            violations,
            shared,
        })
    }

    /// Whether experiments run in the lab.
    pub fn in_lab(&self) -> bool {
        self.place == Where::Lab
    }

    /// Whether a setting is the paper's.
    pub fn as_published(&self, factor: Factor) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(factor);
        let all = factor.in_all() && self.factors.contains(&Factor::All);
        all || self.factors.contains(&factor)
    }

    /// Settings that were to be the paper's, and that no figure so far depends on.
    pub fn without_effect(&self) -> Vec<Factor> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        self.factors.iter().filter(|f| **f != Factor::All && !asked.contains(f)).copied().collect()
    }

    /// One of two, by whether a setting is the paper's.
    pub fn pick<T>(&self, factor: Factor, published: T, ours: T) -> T {
        if self.as_published(factor) { published } else { ours }
    }

    /// One of two, by whether this is the quick version.
    pub fn choose<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// One of three, by whether this is the quick or the full version.
    pub fn scale<T>(&self, quick: T, usual: T, full: T) -> T {
        match (self.quick, self.full) {
            (true, _) => quick,
            (_, true) => full,
            _ => usual,
        }
    }

    /// Reads a scenario without a sweep. `files` are the files it references.
    ///
    /// # Errors
    /// An error in the scenario: a bug of ours.
    pub fn scenario(
        &self,
        name: &str,
        text: &str,
        files: &BTreeMap<String, String>,
    ) -> Result<Arc<Scenario>, ExperimentError> {
        let load = |file: &str| {
            Ok(files.get(file).cloned().ok_or_else(|| ExperimentError::NoFile(file.to_string()))?)
        };
        let all =
            scenario::read(name, text, &load).map_err(|e| ExperimentError::Scenario(e, text.to_string()))?;
        let mut all = all.into_iter();
        match (all.next(), all.next()) {
            (Some(one), None) => Ok(Arc::new(one)),
            _ => Err(ExperimentError::Sweep(name.to_string())),
        }
    }

    /// Results shared by several figures: computed by the first that needs them.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn once<T: Any + Send + Sync, E>(
        &self,
        what: &str,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let lock = || self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let there = lock().get(what).cloned();
        if let Some(made) = there.and_then(|t| t.downcast::<T>().ok()) {
            return Ok(made);
        }
        let made = Arc::new(make()?);
        lock().insert(what.to_string(), made.clone());
        Ok(made)
    }

    /// One simulation.
    ///
    /// # Errors
    /// The rack does not come up.
    pub fn simulate(&self, scenario: &Arc<Scenario>, seed: u64) -> Result<Outcome, StartError> {
        self.simulator.run(scenario, seed).map(|outcome| self.finished(outcome))
    }

    /// A simulation with an external decider. Its results go to [`Bench::finished`].
    ///
    /// # Errors
    /// The rack does not come up.
    pub fn session(&self, scenario: &Arc<Scenario>, seed: u64) -> Result<Session, StartError> {
        self.simulator.session(scenario, seed)
    }

    /// The results of networks that were kept under this name.
    pub fn flown(&self, name: &str) -> Option<Arc<Vec<Value>>> {
        self.flown.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Keeps results of networks for other figures.
    pub fn keep_flown(&self, name: String, results: Vec<Value>) {
        self.flown.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(results));
    }

    /// Simulates all points with all of these seeds: for each point the results of each seed. Those of other shards are null.
    ///
    /// # Errors
    /// A simulation does not come up, or the file of kept results cannot be used.
    pub fn fly(&self, points: &[Point], seeds: &[u64]) -> Result<Vec<Vec<Value>>, TrialError> {
        let results = network::simulate_all(points, seeds, self.threads, (self.kept.as_deref(), self.shard))?;
        for result in results.iter().flatten().filter(|r| !r.is_null()) {
            let violations = result["checks"]["violations"].as_u64().unwrap_or(0);
            self.simulations.fetch_add(1, Ordering::Relaxed);
            self.violations.fetch_add(violations, Ordering::Relaxed);
            for text in result["checks"]["first"].as_array().into_iter().flatten() {
                say(&format!("{}, seed {}: {text}", result["point"], result["seed"]));
            }
        }
        Ok(results)
    }

    /// Counts a completed simulation, and names the violations that its checkers found.
    pub fn finished(&self, outcome: Outcome) -> Outcome {
        self.checked(outcome.seed, outcome.violations.total(), &outcome.violations.first);
        outcome
    }

    /// Counts a completed run, and names violations that its checkers found.
    pub fn checked(&self, seed: u64, violations: u64, named: &[String]) {
        for text in named {
            say(&format!("seed {seed}: {text}"));
        }
        self.simulations.fetch_add(1, Ordering::Relaxed);
        self.violations.fetch_add(violations, Ordering::Relaxed);
    }

    /// Runs `one` for every item and seed, on all processors: for each item, the results of each seed.
    ///
    /// # Errors
    /// The first that `one` gives.
    pub fn each<I: Sync, T: Send>(
        &self,
        what: &str,
        items: &[I],
        one: impl Fn(&I, u64) -> Result<T, Failed> + Sync,
    ) -> Result<Vec<Vec<T>>, Failed> {
        self.begin(what, items.len());
        let jobs: Vec<(usize, u64)> =
            (0..items.len()).flat_map(|i| self.seeds().map(move |s| (i, s))).collect();
        let run = |(i, seed): &(usize, u64)| {
            let result = one(&items[*i], *seed);
            self.bar.inc(1);
            result
        };
        let done = parallel::map(self.threads, &jobs, run);
        self.bar.finish();
        let mut done = done?.into_iter();
        Ok((0..items.len()).map(|_| done.by_ref().take(self.seeds as usize).collect()).collect())
    }

    /// The seeds.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.first_seed;
        (0..self.seeds).map(move |i| first.wrapping_add(i))
    }

    fn begin(&self, what: &str, items: usize) {
        self.bar.begin(items as u64 * self.seeds, what);
    }

    /// Runs every scenario with every seed, where experiments run.
    ///
    /// # Errors
    /// A rack does not come up, or the lab does not support the scenario.
    pub fn run_all(&self, what: &str, scenarios: &[Arc<Scenario>]) -> Result<Vec<Vec<Ran>>, Failed> {
        self.run_each(what, scenarios, |scenario, _| Ok(scenario.clone()))
    }

    /// The same with a scenario for each seed. Those of an item differ in their requests only.
    ///
    /// # Errors
    /// As of [`Bench::run_all`], and those of `scenario`.
    pub fn run_each<I: Sync>(
        &self,
        what: &str,
        items: &[I],
        scenario: impl Fn(&I, u64) -> Result<Arc<Scenario>, Failed> + Sync,
    ) -> Result<Vec<Vec<Ran>>, Failed> {
        match self.place {
            Where::Simulator => self.each(what, items, |item, seed| {
                let scenario = scenario(item, seed)?;
                let outcome = self.simulate(&scenario, seed)?;
                Ok(Ran {
                    lost: outcome.requests.lost,
                    loss_percent: outcome.requests.loss_percent(),
                    mean_ms: self.pick(Factor::Losses, outcome.answers.mean_ms, outcome.latency.mean_ms),
                    p99_ms: self.pick(Factor::Losses, outcome.answers.p99_ms, outcome.latency.p99_ms),
                    finished_per_s: outcome.groups.iter().map(|g| g.throughput_per_s).sum(),
                    took_s: outcome.virtual_s,
                })
            }),
            Where::Lab => {
                self.begin(what, items.len());
                let one = |item: &I| self.on_the_wire(None, |seed| scenario(item, seed));
                let done = parallel::map(self.threads, items, one);
                self.bar.finish();
                done
            }
        }
    }

    /// Runs every scenario with every seed in the lab: with our switch, or with nginx in its place.
    ///
    /// # Errors
    /// As of [`Bench::run_all`]; nginx is not installed, or the machine has no quotas.
    pub fn run_behind(&self, what: &str, items: &[Balanced]) -> Result<Vec<Vec<Ran>>, Failed> {
        self.begin(what, items.len());
        let one = |(scenario, behind): &Balanced| self.on_the_wire(behind.as_ref(), |_| Ok(scenario.clone()));
        let done = parallel::map(self.threads, items, one);
        self.bar.finish();
        done
    }

    /// Does something with every seed, on the calling thread: for what measures this machine.
    ///
    /// # Errors
    /// The first that `one` gives.
    pub fn alone(&self, what: &str, mut one: impl FnMut(u64) -> Result<(), Failed>) -> Result<(), Failed> {
        self.begin(what, 1);
        for seed in self.seeds() {
            one(seed)?;
            self.bar.inc(1);
        }
        self.bar.finish();
        Ok(())
    }

    /// All seeds on one rack, one after the other.
    fn on_the_wire(
        &self,
        behind: Option<&Behind>,
        scenario: impl Fn(u64) -> Result<Arc<Scenario>, Failed>,
    ) -> Result<Vec<Ran>, Failed> {
        let first = scenario(self.first_seed)?;
        let factor = stretch(&first);
        let (scaled, seed) = (on_wire(&first, factor), self.first_seed);
        let rack = behind.map_or_else(
            || OnWire::start(&scaled, seed),
            |behind| OnWire::start_behind(&scaled, seed, behind),
        );
        let mut rack = rack?;
        let mut out = Vec::new();
        for seed in self.seeds() {
            let r = rack.run(&on_wire(scenario(seed)?.as_ref(), factor), seed)?;
            let mut tally = self.lab.lock().unwrap_or_else(PoisonError::into_inner);
            tally.runs += 1;
            tally.late += u64::from(r.late);
            widen(&mut tally.stretch, factor);
            if let Some(load) = load_average() {
                widen(&mut tally.load, load);
            }
            self.bar.inc(1);
            out.push(Ran {
                lost: r.lost,
                loss_percent: 100.0 * r.lost as f64 / r.sent.max(1) as f64,
                mean_ms: r.mean_ms / factor,
                p99_ms: r.p99_ms / factor,
                finished_per_s: r.finished_per_s * factor,
                took_s: r.took_s / factor,
            });
        }
        Ok(out)
    }

    /// Whether a load was carried: P99 within this, and nothing lost. In the lab a request in a hundred may be: a busy machine loses some.
    pub fn carries(&self, ran: &Ran, limit_ms: f64) -> bool {
        (ran.lost == 0 || self.in_lab()) && ran.p99_ms <= limit_ms
    }

    /// Notes for readers of lab results, since the last query.
    pub fn lab_note(&self) -> Option<String> {
        let mut tally = self.lab.lock().unwrap_or_else(PoisonError::into_inner);
        let LabTally { runs, late, stretch: Some((least, most)), load } = std::mem::take(&mut *tally) else {
            return None;
        };
        let load = load
            .map_or(String::new(), |(low, high)| format!("; the machine's load average was {low} to {high}"));
        Some(format!(
            "in the lab: {runs} runs, {} racks at the same time; all times scaled by {least:.2} to {most:.2}, and reported \
             unscaled; the client fell behind its schedule in {late} of them{load}",
            self.threads
        ))
    }

    /// Simulates every scenario with every seed.
    ///
    /// # Errors
    /// As of [`Bench::simulate`].
    pub fn simulate_all(&self, what: &str, scenarios: &[Arc<Scenario>]) -> Result<Vec<Vec<Outcome>>, Failed> {
        self.each(what, scenarios, |scenario, seed| Ok(self.simulate(scenario, seed)?))
    }

    /// Number of simulations, and of violations found by their checkers.
    pub fn tally(&self) -> (u64, u64) {
        (self.simulations.load(Ordering::Relaxed), self.violations.load(Ordering::Relaxed))
    }
}

/// Time scaling of a scenario for the lab.
fn stretch(s: &Scenario) -> f64 {
    let quickest_ms =
        s.devices.iter().map(|d| d.service.mean_ns() / d.speed / 1e6).fold(f64::INFINITY, f64::min);
    (SERVICE_MS / quickest_ms).clamp(STRETCH.0, STRETCH.1)
}

/// The scenario as run in the lab.
fn on_wire(s: &Scenario, factor: f64) -> Scenario {
    let mut out = stretched(s, factor);
    let sampling_ms = (out.agents.sampling_ns / 1_000_000) as u32;
    for device in out.rack.servers.iter_mut().flat_map(|s| &mut s.devices) {
        let heartbeat_ms = &mut device.agent.heartbeat_ms;
        *heartbeat_ms = (*heartbeat_ms).max(sampling_ms.clamp(1, HEARTBEAT_MS));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{apps, setup::Setup};

    #[test]
    fn stretched_for_the_lab() {
        let bench = Bench::new(1, 1, true, Coming::Poisson, Where::Lab, 1).expect("the balancer compiles");
        let check = |setup: Setup, factor: f64, heartbeat_ms: u32| {
            let s = setup.scenario(&bench).expect("a scenario");
            assert!((stretch(&s) - factor).abs() < 0.01, "{}", stretch(&s));
            let out = on_wire(&s, stretch(&s));
            assert_eq!(out.rack.servers[0].devices[0].agent.heartbeat_ms, heartbeat_ms);
            assert_eq!(out.duration_ns, (s.duration_ns as f64 * stretch(&s)).round() as u64);
            pointsman_trials::wire::check(&out).expect("the lab has it");
            // The same number of requests, with intervals in proportion to service times.
            let busy = |s: &Scenario| s.clients[0].arrivals.expected(s.duration_ns);
            assert!((busy(&out) / busy(&s) - 1.0).abs() < 1e-6);
        };
        for policy in crate::chapter5::POLICIES {
            check(apps::VGG.setup(&bench, 1, policy, 50.0), 20.0 / (82.0 / 0.87), 5);
            check(apps::AD.setup(&bench, 1, policy, 900.0), 4.0, 40);
        }
    }
}
