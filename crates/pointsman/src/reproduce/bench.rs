//! Where experiments run: simulations over seeds, on all processors.

use crate::compiler;
use crate::controller;
use crate::sources::Sources;
use indicatif::{ProgressBar, ProgressStyle};
use pointsman_engine::Engine;
use pointsman_sim::{DataPlane, Outcome, Scenario, Session, scenario};
use rayon::prelude::*;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How requests come where a figure does not say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Coming {
    /// Without memory, as the thesis says.
    Poisson,
    /// Nearly evenly, as the thesis's clients really send: gaps drawn around their mean, with a standard deviation of the
    /// root of the gap's milliseconds.
    NearConstant,
}

/// What an experiment may use.
pub struct Bench {
    /// First seed.
    pub first_seed: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// Shorter runs and fewer points.
    pub quick: bool,
    /// How requests come.
    pub coming: Coming,
    data_plane: DataPlane<Engine>,
    pool: rayon::ThreadPool,
    bar: ProgressBar,
    simulations: AtomicU64,
    violations: AtomicU64,
    /// What several figures show, by name.
    shared: Mutex<BTreeMap<String, Arc<dyn Any + Send + Sync>>>,
}

impl Bench {
    /// Compiles the balancer, which all experiments share.
    ///
    /// # Errors
    /// It does not compile, or there are no threads.
    pub fn new(
        first_seed: u64,
        seeds: u64,
        quick: bool,
        coming: Coming,
        threads: usize,
    ) -> Result<Self, String> {
        let program = controller::program(&pointsman_balance::config::Program::BuiltIn)?;
        let text = String::from_utf8_lossy(&program.device_config);
        let compiled = compiler::compile("the balancer", &text, &Sources::default(), &[])
            .map_err(|failure| compiler::rendered(&failure))?;
        let data_plane = DataPlane::new(program, Arc::new(compiled.program));
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|e| format!("cannot start threads: {e}"))?;
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}, {elapsed} gone") {
            bar.set_style(style);
        }
        let (simulations, violations) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = Mutex::default();
        Ok(Bench { first_seed, seeds, quick, coming, data_plane, pool, bar, simulations, violations, shared })
    }

    /// One of two, by whether this is the quick version.
    pub fn choose<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Reads a scenario that has no sweep. `files` are what it names.
    ///
    /// # Errors
    /// What is wrong with it: a mistake of ours.
    pub fn scenario(
        &self,
        name: &str,
        text: &str,
        files: &BTreeMap<String, String>,
    ) -> Result<Arc<Scenario>, String> {
        let load = |file: &str| files.get(file).cloned().ok_or_else(|| format!("there is no {file}"));
        let all = scenario::read(name, text, &load).map_err(|e| format!("{e}\n{text}"))?;
        let mut all = all.into_iter();
        match (all.next(), all.next()) {
            (Some(one), None) => Ok(Arc::new(one)),
            _ => Err(format!("{name}: wanted is a scenario without a sweep")),
        }
    }

    /// What several figures show: made by the first that wants it.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn once<T: Any + Send + Sync>(
        &self,
        what: &str,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
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
    pub fn simulate(&self, scenario: &Arc<Scenario>, seed: u64) -> Result<Outcome, String> {
        pointsman_sim::run(scenario, &self.data_plane, seed, None).map(|outcome| self.finished(outcome))
    }

    /// A simulation that somebody else decides in. What comes of it goes to [`Bench::finished`].
    ///
    /// # Errors
    /// The rack does not come up.
    pub fn session(&self, scenario: &Arc<Scenario>, seed: u64) -> Result<Session<Engine>, String> {
        Session::start(scenario, &self.data_plane, seed, None)
    }

    /// Counts a simulation that is over.
    pub fn finished(&self, outcome: Outcome) -> Outcome {
        self.simulations.fetch_add(1, Ordering::Relaxed);
        self.violations.fetch_add(outcome.violations.total(), Ordering::Relaxed);
        outcome
    }

    /// Runs `one` for every item and seed, on all processors: for each item, what came of it with each seed.
    ///
    /// # Errors
    /// The first that `one` gives.
    pub fn each<I: Sync, T: Send>(
        &self,
        what: &str,
        items: &[I],
        one: impl Fn(&I, u64) -> Result<T, String> + Sync,
    ) -> Result<Vec<Vec<T>>, String> {
        self.bar.reset();
        self.bar.set_length(items.len() as u64 * self.seeds);
        self.bar.set_message(what.to_string());
        let jobs: Vec<(usize, u64)> =
            (0..items.len()).flat_map(|i| (0..self.seeds).map(move |s| (i, s))).collect();
        let run = |(i, s): &(usize, u64)| {
            let result = one(&items[*i], self.first_seed.wrapping_add(*s));
            self.bar.inc(1);
            result
        };
        let done = self.pool.install(|| jobs.par_iter().map(run).collect::<Result<Vec<T>, String>>());
        self.bar.finish_and_clear();
        let mut done = done?.into_iter();
        Ok((0..items.len()).map(|_| done.by_ref().take(self.seeds as usize).collect()).collect())
    }

    /// Simulates every scenario with every seed.
    ///
    /// # Errors
    /// As of [`Bench::simulate`].
    pub fn simulate_all(&self, what: &str, scenarios: &[Arc<Scenario>]) -> Result<Vec<Vec<Outcome>>, String> {
        self.each(what, scenarios, |scenario, seed| self.simulate(scenario, seed))
    }

    /// How many simulations there were, and what their checkers found.
    pub fn tally(&self) -> (u64, u64) {
        (self.simulations.load(Ordering::Relaxed), self.violations.load(Ordering::Relaxed))
    }
}

/// 99th percentile over all requests sent, in milliseconds. A lost one counts with the client's patience: where more than one
/// per cent were lost, that is it.
pub fn p99_ms(scenario: &Scenario, outcome: &Outcome) -> f64 {
    let r = &outcome.requests;
    if r.lost * 100 >= r.sent.max(1) { scenario.patience_ns as f64 / 1e6 } else { outcome.latency.p99_ms }
}
