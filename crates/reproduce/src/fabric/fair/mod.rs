//! All schemes next to each other at 10 Gbit/s: equal hosts, queues, marks and flows; the settings of each tuned by one procedure.

mod cost;
mod failure;
mod headlines;
mod place;
mod slowdown;

use super::run::{self, Base, Class, Runs, Scheme};
use super::tune::{
    Grid,
    Level::{Name, Number},
    Tuned,
};
use crate::bench::Bench;
use crate::error::ExperimentError;
use crate::figure::{Chart, Claim, Curve, Evidence, Figure, Place, Point, Quantity, Rule, Source, ratios};
use place::{Place as Net, Sizes};
use pointsman_trials::stats::mean;
use serde_json::Value;

/// The schemes, in the order of their tuning and of all results.
const NAMES: [&str; 7] = ["ecmp", "letflow", "spray", "hula", "conga", "p4te", OURS];
/// Our own.
const OURS: &str = "ours";

/// The schemes before they are tuned: the authors' settings where they give some, and marks from 100 KiB on, as DCTCP wants them at 10 Gbit/s.
pub fn schemes() -> Vec<Scheme> {
    let marks = ("ecn_kib", 100.0);
    vec![
        Scheme::new("ecmp", &[marks]),
        Scheme::new("letflow", &[marks, ("gap_us", 100.0)]),
        Scheme::new("spray", &[marks]),
        Scheme::new("hula", &[marks, ("gap_us", 100.0), ("probe_period_us", 200.0)]),
        Scheme::new("conga", &[marks, ("gap_us", 500.0), ("tau_us", 160.0)]),
        Scheme::new(
            "p4te",
            &[
                marks,
                ("tick_kib", 128.0),
                ("gap_us", 100.0),
                ("range_kib", 16.0),
                ("delta_kib", 8.0),
                ("burst_kib", 32.0),
                ("green_percent", 75.0),
                ("red_percent", 95.0),
                ("large_percent", 10.0),
            ],
        )
        .with("rate_control", "none"),
        Scheme::new(OURS, &[marks, ("tau_us", 32.0), ("class_kib", 128.0)]),
    ]
}

/// The settings that are tuned, and the values that are tried.
pub const GRID: Grid = &[
    ("letflow", "gap_us", &[Number(10.0), Number(30.0), Number(100.0), Number(300.0)]),
    ("hula", "gap_us", &[Number(30.0), Number(50.0), Number(100.0), Number(300.0)]),
    ("hula", "probe_period_us", &[Number(25.0), Number(50.0), Number(100.0), Number(200.0)]),
    ("conga", "gap_us", &[Number(10.0), Number(30.0), Number(50.0), Number(100.0)]),
    (
        "conga",
        "tau_us",
        &[Number(5.0), Number(16.0), Number(50.0), Number(160.0), Number(500.0), Number(2000.0)],
    ),
    ("p4te", "tick_kib", &[Number(128.0), Number(512.0), Number(2048.0), Number(8192.0)]),
    ("p4te", "gap_us", &[Number(10.0), Number(30.0), Number(100.0), Number(300.0)]),
    ("p4te", "range_kib", &[Number(8.0), Number(16.0), Number(64.0)]),
    ("p4te", "delta_kib", &[Number(2.0), Number(8.0), Number(32.0)]),
    ("p4te", "burst_kib", &[Number(8.0), Number(32.0), Number(128.0), Number(512.0)]),
    ("p4te", "red_percent", &[Number(95.0), Number(100.0)]),
    ("p4te", "green_percent", &[Number(60.0), Number(75.0), Number(90.0)]),
    ("p4te", "rate_control", &[Name("none"), Name("fack"), Name("ece"), Name("clamp")]),
    ("p4te", "large_percent", &[Number(5.0), Number(10.0), Number(20.0)]),
    (OURS, "tau_us", &[Number(4.0), Number(8.0), Number(16.0), Number(32.0), Number(64.0)]),
    (OURS, "class_kib", &[Number(32.0), Number(128.0), Number(512.0), Number(2048.0)]),
];

/// Where the schemes are tuned: web search with all links.
pub fn places_of_tuning() -> Vec<Base> {
    vec![Net::leaf_spine(Sizes::WebSearch, 100).base()]
}

/// A link of a spine, cut before the first flow starts.
const CUT: place::Event = (0.0, false, "leaf1-spine1");

const LOAD: Quantity =
    Quantity { name: "load", unit: "percent", label: "load, % of the uplinks' capacity", log: false };
const FCT: Quantity =
    Quantity { name: "fct", unit: "ms", label: "mean flow completion time, ms", log: false };
const SLOWDOWN: Quantity = Quantity { name: "slowdown", unit: "times", label: "mean slowdown", log: false };
const P99: Quantity =
    Quantity { name: "slowdown_p99", unit: "times", label: "P99 of the slowdown", log: false };

/// In no paper.
const SOURCE: &str = "not in the papers: a fair comparison";
const NETWORK: &str = "four leaves with eight hosts each and four spines, all links with 10 Gbit/s and 1 us, queues of 512 KiB: the uplinks carry half \
                       of what the hosts can send; DCTCP, marks from 100 KiB on, least time-out 5 ms; flows between leaves at random, and the same \
                       for every scheme";
const TUNED: &str =
    "the settings of each scheme were tuned by one procedure with other seeds (docs/figures.md)";

/// In the order of the issues that they answer: who is fast, who survives, what it costs.
pub const FIGURES: &[Figure] = &[
    slowdown::CDF,
    slowdown::INCAST,
    slowdown::POLARISATION,
    failure::FAILURE,
    cost::OVERHEAD,
    cost::DELAY,
    headlines::HEADLINES,
];

/// A bound that is a goal of ours.
const fn goal(id: &'static str, text: &'static str, rule: Rule, bound: f64) -> Claim {
    Claim { id, text, paper: bound, unit: "times", rule, source: Source::Ours }
}

/// All schemes as they were tuned.
fn tuned(bench: &Bench) -> Result<Vec<Scheme>, ExperimentError> {
    Tuned::TenGbit.tuning().tuned(&bench.network_seeds)
}

/// One of them.
fn one(bench: &Bench, name: &str) -> Result<Scheme, ExperimentError> {
    let all = tuned(bench)?.into_iter().find(|s| s.name == name);
    all.ok_or_else(|| ExperimentError::NoScheme(name.to_string()))
}

/// The place of a scheme in [`NAMES`].
fn number(name: &str) -> usize {
    NAMES.iter().position(|n| *n == name).unwrap_or_default()
}

/// Loads in per cent.
fn percent(loads: &[f64]) -> Vec<f64> {
    loads.iter().map(|load| (100.0 * load).round()).collect()
}

/// Samples of each scheme at each place of an axis, with the flows that did not finish.
fn curves<N: AsRef<str>>(
    names: &[N],
    runs: &[Vec<Runs>],
    axis: &[f64],
    of: impl Fn(&[Value]) -> Vec<f64>,
) -> Vec<Curve> {
    let point = |(x, runs): (&f64, &Runs)| Point {
        x: *x,
        samples: of(runs),
        loss_percent: Some(run::unfinished_percent(runs)),
    };
    let curve = |(name, runs): (&N, &Vec<Runs>)| Curve {
        name: name.as_ref().to_string(),
        points: axis.iter().zip(runs).map(point).collect(),
    };
    names.iter().zip(runs).map(curve).collect()
}

fn chart(title: impl Into<String>, x: Quantity, y: Quantity, ours: Vec<Curve>) -> Chart {
    Chart { title: title.into(), x, y, ours, paper: Vec::new() }
}

/// Seed by seed, a number of some runs over that of others.
fn over(a: &[Value], b: &[Value], of: impl Fn(&[Value]) -> Vec<f64>) -> Evidence {
    run::paired(a, b, ratios(&of(a), &of(b)))
}

/// Of some schemes' runs at one place, those with the least mean of a number.
fn least<'a>(all: impl Iterator<Item = &'a Runs>, of: impl Fn(&[Value]) -> Vec<f64>) -> Option<&'a Runs> {
    all.min_by(|a, b| mean(&of(a)).mean.total_cmp(&mean(&of(b)).mean))
}

/// The mean FCT of all flows, in milliseconds.
fn mean_fct(runs: &[Value]) -> Vec<f64> {
    run::of_class(runs, Class::All, "mean_ms")
}

/// A number below `fabric` in each run.
fn below(runs: &[Value], path: &[&str]) -> Vec<f64> {
    let of = |run: &Value| path.iter().fold(&run["fabric"], |v, key| &v[*key]).as_f64().unwrap_or(f64::NAN);
    runs.iter().map(of).collect()
}

/// The place of a figure of this chapter.
const fn fabric(run: crate::figure::Run) -> Place {
    Place::Fabric(run)
}
