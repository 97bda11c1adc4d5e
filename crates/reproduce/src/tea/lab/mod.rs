//! The same figures with processes on this machine: a switch, memory servers and hosts in network namespaces, as in `pointsman tea`.

pub mod failover;
pub mod functions;
pub mod popularity;
pub mod servers;
pub mod sizes;

use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Curve, Lossy, Point, Quantity};
use crate::verdict::Evidence;
use pointsman_tea::{App, Options, Outcome, Part, Times, measure};
use pointsman_trials::validate::load_average;
use std::path::PathBuf;
use std::time::Duration;

/// What readers must know of all of them.
pub const MACHINE: &str = "switch (`pointsman switch`), memory servers (`pointsman memory`), controller and hosts are processes and threads in network namespaces of this machine, and share its processors: a look-up takes \
     tens of microseconds or more, and times and rates say nothing about a switch chip and network adapters. So claims are ratios of runs in turns. Every packet is compared, in all its bytes, with what its entry was";
/// The paper's popularity of flows.
const EXPONENT: f64 = 0.99;
/// Bytes of its packets.
const SIZE: usize = 64;
/// Entries, and those of the cache: few enough for the popular ones to be seen often on a slow switch.
const ENTRIES: u32 = 62_500;
const CACHE: u32 = 64;

const RATE: Quantity =
    Quantity { name: "rate", unit: "per_s", label: "packets that leave, a second", log: false };
const LATENCY: Quantity = Quantity {
    name: "latency",
    unit: "us",
    label: "latency of packets that come one at a time, us",
    log: false,
};

impl Lossy for Part {
    fn loss_percent(&self) -> Option<f64> {
        Some(Part::loss_percent(self))
    }
}

/// What runs need.
struct Lab<'a> {
    bench: &'a Bench,
    binary: PathBuf,
    folder: PathBuf,
}

impl<'a> Lab<'a> {
    fn new(bench: &'a Bench) -> Result<Self, Failed> {
        // Before processes are started, which have the limit of their time.
        pointsman_lab::raise_open_file_limit().map_err(ExperimentError::OpenFiles)?;
        let binary = std::env::current_exe().map_err(ExperimentError::NoProgram)?;
        let folder = bench.folder.clone().ok_or(ExperimentError::None("folder"))?;
        Ok(Lab { bench, binary, folder })
    }

    /// An application, and packets of 64 bytes, equally popular flows.
    fn options(&self, app: App) -> Options {
        let options = Options::new(app, self.binary.clone(), self.folder.clone());
        Options { size: Some(SIZE), ..options }
    }

    /// Runs variants in turns, each once with every seed: for each variant the outcome of each seed.
    fn turns<V>(&self, what: &str, variants: &[V], options: impl Fn(&V) -> Options) -> Result<Runs, Failed> {
        self.turns_and(what, variants, options, |_| Ok(()))
    }

    /// The same, and something else in each turn.
    fn turns_and<V>(
        &self,
        what: &str,
        variants: &[V],
        options: impl Fn(&V) -> Options,
        mut more: impl FnMut(u64) -> Result<(), Failed>,
    ) -> Result<Runs, Failed> {
        let mut all: Vec<Vec<Outcome>> = variants.iter().map(|_| Vec::new()).collect();
        let mut load = 0.0f64;
        self.bench.alone(what, |seed| {
            for (variant, outcomes) in variants.iter().zip(&mut all) {
                let outcome = measure(&Options { seed, ..options(variant) }, &mut |_| {})?;
                self.check(seed, &outcome)?;
                outcomes.push(outcome);
                load = load.max(load_average().unwrap_or(0.0));
            }
            more(seed)
        })?;
        let count: usize = all.iter().map(Vec::len).sum();
        let note =
            format!("in the lab: {count} runs in turns; the machine's load average was up to {load:.1}");
        Ok(Runs { all, note })
    }

    /// Counts what the checker found.
    fn check(&self, seed: u64, outcome: &Outcome) -> Result<(), Failed> {
        if !outcome.deaths.is_empty() {
            return Err(ExperimentError::Ended(outcome.deaths.join("; ")).into());
        }
        let v = &outcome.verdict;
        let of = [
            (v.wrong, "packets left with a wrong entry"),
            (v.missing, "packets left without their entry"),
            (v.altered, "packets left with wrong bytes"),
            (v.doubled, "packets left twice"),
            (u64::from(outcome.lookups().is_none()), "runs with more look-ups than packets"),
        ];
        let named: Vec<String> =
            of.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        self.bench.checked(seed, of.iter().map(|(n, _)| n).sum(), &named);
        Ok(())
    }
}

/// Outcomes by variant, then by seed.
struct Runs {
    all: Vec<Vec<Outcome>>,
    note: String,
}

impl Runs {
    /// A value of a part of each run of a variant, with the loss behind it.
    fn of(&self, variant: usize, part: fn(&Outcome) -> &Part, value: impl Fn(&Part) -> f64) -> Evidence {
        self.point(0.0, variant, part, value).evidence()
    }

    /// The same at a place of a chart.
    fn point(
        &self,
        x: f64,
        variant: usize,
        part: fn(&Outcome) -> &Part,
        value: impl Fn(&Part) -> f64,
    ) -> Point {
        let runs: Vec<&Part> = self.all[variant].iter().map(part).collect();
        let samples = runs.iter().map(|p| value(p)).collect();
        let losses = runs.iter().map(|p| Lossy::loss_percent(*p));
        Point { x, samples, loss_percent: crate::figure::worst(losses) }
    }
}

fn alone(outcome: &Outcome) -> &Part {
    &outcome.alone
}

fn calm(outcome: &Outcome) -> &Part {
    &outcome.calm
}

fn broken(outcome: &Outcome) -> &Part {
    &outcome.broken
}

/// A run without a fault: so long until the cache is filled, then with packets one at a time, then with many under way.
fn times(warm_s: f64, alone_s: f64, many_s: f64) -> Times {
    let of = Duration::from_secs_f64;
    Times { warm: of(warm_s), alone: of(alone_s), before: of(many_s), broken: of(0.0), after: of(0.0) }
}

/// How long the cache needs: some ages of its sketch, which take a second each. Without a cache the switch needs a moment, too.
fn warm_s(cache: u32) -> f64 {
    if cache > 0 { 6.0 } else { 1.0 }
}

fn chart(title: &str, (x, y): (Quantity, Quantity), ours: Vec<Curve>) -> Chart {
    Chart { title: title.into(), x, y, ours, paper: Vec::new() }
}
