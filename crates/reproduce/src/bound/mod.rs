//! How far policies are from the best that a small rack can do.

mod ideal;

use super::bench::Bench;
use super::figure::{Chart, Claim, Curve, Evidence, Figure, Found, Place, Point, Quantity, Rule, Source};
use super::goals::{PRT_IN_FLIGHT, SOURCE, named, outstanding, processor, rack};
use super::setup::{Setup, Unit, poisson};
use crate::error::{ExperimentError, Failed};
use ideal::{Ideal, Load, Times, floor, rules};
use pointsman_balance::blocks::Servers;
use pointsman_sim::Outcome;
use pointsman_trials::stats::mean;

const fn at_most(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "times", rule: Rule::AtMost, source: Source::Ours }
}

/// In no paper.
pub const FIGURES: &[Figure] = &[Figure {
    id: "goal-bound",
    title: "P99 and mean against the best that the demo's rack can do",
    source: SOURCE,
    place: Place::Simulator(run),
    remarks: &[
        "the rack of `pointsman demo`: two servers, each with a CPU (8 requests at a time, 10 ms) and a SmartNIC (8, 50 ms); Poisson arrivals",
        "the bound: an ideal scheduler with one queue for the whole rack, which binds a request to a worker only when that is free, and uses a slow \
         one only while enough requests wait. How many, and which request it takes, is found by search, for each load, and for P99 and the mean separately, \
         with seeds 1001 to 1004; the rule is then judged by the seeds of the run, with the arrivals that policies have with that seed. All requests take the same time here, so that no scheduler gains by knowing it",
        "policies choose servers by hash, as they do by default, and also by power-of-two (+p2); spillover always chooses by power-of-two",
        "the best of the published: the smallest mean over seeds at that load, whichever policy that is, with either choice of servers",
    ],
    claims: &[
        at_most("bound-50", "spillover's P99 against the bound at 50 % load", 1.15),
        at_most("bound-80", "spillover's P99 against the bound at 80 % load", 1.15),
        at_most("bound-95", "spillover's P99 against the bound at 95 % load", 1.15),
        at_most("best-50", "spillover's P99 against that of the best published policy at 50 % load", 1.0),
        at_most("best-80", "spillover's P99 against that of the best published policy at 80 % load", 1.0),
        at_most("best-95", "spillover's P99 against that of the best published policy at 95 % load", 1.0),
        at_most(
            "old-50",
            "reports 1 s old: spillover's P99 against that of the best published policy at 50 % load",
            1.0,
        ),
        at_most(
            "old-80",
            "reports 1 s old: spillover's P99 against that of the best published policy at 80 % load",
            1.0,
        ),
        at_most(
            "old-95",
            "reports 1 s old: spillover's P99 against that of the best published policy at 95 % load",
            1.0,
        ),
        at_most("mean-50", "spillover's mean against the bound of the mean at 50 % load", 1.15),
        at_most("mean-80", "spillover's mean against the bound of the mean at 80 % load", 1.15),
        at_most("mean-95", "spillover's mean against the bound of the mean at 95 % load", 1.15),
    ],
}];

const SPILLOVER: &str = "spillover";
const LOADS: [(f64, [&str; 4]); 3] = [
    (0.5, ["bound-50", "best-50", "old-50", "mean-50"]),
    (0.8, ["bound-80", "best-80", "old-80", "mean-80"]),
    (0.95, ["bound-95", "best-95", "old-95", "mean-95"]),
];
/// Published policies by the switch's own counters, and by nothing. Least-connections and power of two choices are jsq here, where servers have two devices
/// and a connection for each request.
const OTHERS: [&str; 5] = ["wrr", "weighted-least-connections", "jsq", "jiq", PRT_IN_FLIGHT];
/// Policies whose decisions depend on reports: only these change when reports are old.
const BY_REPORTS: [&str; 4] = ["p4mite", "least-utilised", "dynamic-wrr", "prt"];
const SERVERS: u32 = 2;
/// Requests before it do not count.
const WARMUP_S: f64 = 2.0;

fn duration_s(bench: &Bench) -> f64 {
    WARMUP_S + bench.choose(60.0, 8.0)
}

/// Seeds of the search for the ideal scheduler's rule. They may not judge.
const TUNING: [u64; 4] = [1001, 1002, 1003, 1004];

const LOAD: Quantity =
    Quantity { name: "load", unit: "percent", label: "load, % of all devices' capacity", log: false };
const OVER: Quantity =
    Quantity { name: "p99_over_bound", unit: "times", label: "P99, times the bound", log: true };
const MEAN_OVER: Quantity =
    Quantity { name: "mean_over_bound", unit: "times", label: "mean, times the bound", log: true };
const MEAN: Quantity = Quantity { name: "mean", unit: "ms", label: "mean, ms", log: true };

/// Seeds that would judge what they have tuned.
fn check_seeds(bench: &Bench) -> Result<(), ExperimentError> {
    match bench.seeds().find(|s| TUNING.contains(s)) {
        Some(seed) => Err(ExperimentError::TunedBound(seed)),
        None => Ok(()),
    }
}

/// The demo's rack under a policy, or under one whose servers are chosen by power-of-two.
fn setup(bench: &Bench, policy: &str, load: f64, delay_ms: f64) -> Setup {
    let (name, by_two) = match policy.strip_suffix("+p2") {
        Some(name) => (name, true),
        None => (policy, false),
    };
    let mut s = rack(SERVERS, name, 1.0);
    s.units.iter_mut().for_each(|u| u.sigma = 0.0);
    s.arrivals = poisson(load * s.capacity_per_s());
    (s.policy, s.tuning) = {
        let (policy, tuning) = named(name);
        (policy.to_string(), tuning)
    };
    if by_two {
        s.tuning.servers = Some(Servers::PowerOfTwo);
    }
    if name == "p4mite" {
        outstanding(&mut s);
    }
    s.delay_ms = delay_ms;
    s.report_timeout_ms = 3000;
    (s.warmup_s, s.duration_s) = (WARMUP_S, duration_s(bench));
    s
}

/// The bound at a load, for each seed that judges: the best rule by `value` of the tuning seeds.
fn bound(bench: &Bench, units: [&Unit; 2], per_s: f64, knowing: bool, value: fn(Times) -> f64) -> Vec<f64> {
    let times = |seed: u64| Load::new(seed, per_s, WARMUP_S, duration_s(bench));
    let of = |load: &Load, rule: Ideal| value(ideal::run(SERVERS, units, load, rule));
    let tuning = TUNING.map(times);
    let score = |rule: Ideal| -> f64 { tuning.iter().map(|load| of(load, rule)).sum() };
    let scored = rules(knowing).into_iter().map(|rule| (score(rule), rule));
    let Some((_, best)) = scored.min_by(|a, b| a.0.total_cmp(&b.0)) else { return Vec::new() };
    bench.seeds().map(|seed| of(&times(seed), best)).collect()
}

/// Results of policies at all loads, by policy and load.
type Runs = Vec<(String, Vec<Vec<Outcome>>)>;

fn simulate(bench: &Bench, policies: &[String], delay_ms: f64) -> Result<Runs, Failed> {
    let places = policies.iter().flat_map(|p| LOADS.iter().map(move |(load, _)| (p, *load)));
    let scenarios = places
        .map(|(policy, load)| setup(bench, policy, load, delay_ms).scenario(bench))
        .collect::<Result<Vec<_>, _>>()?;
    let mut runs = bench.simulate_all("policies against the bound", &scenarios)?.into_iter();
    Ok(policies.iter().map(|p| (p.clone(), runs.by_ref().take(LOADS.len()).collect())).collect())
}

fn evidence(runs: &[Outcome], value: fn(&Outcome) -> f64) -> Evidence {
    Point::of(0.0, runs, value).evidence()
}

/// Of all but ours, the runs at this load with the smallest mean P99.
fn best_published(runs: &Runs, at: usize) -> Option<(&str, &[Outcome])> {
    let p99 = |runs: &[Outcome]| mean(&evidence(runs, |o| o.latency.p99_ms).samples).mean;
    let others = runs.iter().filter(|(name, _)| name != SPILLOVER);
    let best = others.min_by(|a, b| p99(&a.1[at]).total_cmp(&p99(&b.1[at])))?;
    Some((&best.0, &best.1[at]))
}

fn run(bench: &Bench) -> Result<Found, Failed> {
    check_seeds(bench)?;
    let cpu = Unit { sigma: 0.0, ..processor() };
    let nic = Unit::accelerator(&cpu);
    let units = [&cpu, &nic];
    let per_s = |load: f64| load * f64::from(SERVERS) * (cpu.capacity_per_s() + nic.capacity_per_s());
    let published: Vec<&str> = BY_REPORTS.into_iter().chain(OTHERS).collect();
    let both = published.iter().flat_map(|p| [(*p).to_owned(), format!("{p}+p2")]);
    let fresh = simulate(bench, &both.chain([SPILLOVER.to_owned()]).collect::<Vec<_>>(), 0.0)?;
    let by_reports = BY_REPORTS.iter().flat_map(|p| [(*p).to_owned(), format!("{p}+p2")]);
    let mut old = simulate(bench, &by_reports.chain([SPILLOVER.to_owned()]).collect::<Vec<_>>(), 1000.0)?;
    // The others do not look at reports.
    old.extend(
        fresh.iter().filter(|(name, _)| old.iter().all(|(o, _)| o != name)).cloned().collect::<Runs>(),
    );

    let mut found = Found::default();
    let (mut p99s, mut means) = (Vec::new(), Vec::new());
    let ours = |runs: &Runs, at: usize| -> Vec<Outcome> {
        runs.iter().find(|(name, _)| name == SPILLOVER).map(|(_, r)| r[at].clone()).unwrap_or_default()
    };
    for (at, (load, [of_bound, of_best, of_old, of_mean])) in LOADS.into_iter().enumerate() {
        let p99 = Evidence::from(bound(bench, units, per_s(load), false, |t| t.p99_ms));
        let least = Evidence::from(bound(bench, units, per_s(load), false, |t| t.mean_ms));
        let own = ours(&fresh, at);
        found.claim(of_bound, evidence(&own, |o| o.latency.p99_ms).over(&p99));
        found.claim(of_mean, evidence(&own, |o| o.latency.mean_ms).over(&least));
        for (claim, runs) in [(of_best, &fresh), (of_old, &old)] {
            let (name, best) = best_published(runs, at).ok_or(ExperimentError::None("run of a policy"))?;
            let own = evidence(&ours(runs, at), |o| o.latency.p99_ms);
            found.claim(claim, own.over(&evidence(best, |o| o.latency.p99_ms)));
            let age = if claim == of_old { ", reports 1 s old" } else { "" };
            found.notes.push(format!("best published policy at {:.0} % load{age}: {name}", 100.0 * load));
        }
        let proven = floor(SERVERS, units, per_s(load));
        found.notes.push(format!(
            "{:.0} % load: the bound is {:.2} ms for P99 and {:.2} ms for the mean; no scheduler is below {:.2} and {:.2} ms",
            100.0 * load,
            mean(&p99.samples).mean,
            mean(&least.samples).mean,
            proven.p99_ms,
            proven.mean_ms
        ));
        p99s.push(p99.samples);
        means.push(least.samples);
    }
    found
        .charts
        .push(distances("Fresh reports: P99 against the bound", OVER, &fresh, &p99s, |o| o.latency.p99_ms));
    found
        .charts
        .push(distances("Reports 1 s old: P99 against the bound", OVER, &old, &p99s, |o| o.latency.p99_ms));
    found.charts.push(distances("Fresh reports: mean against the bound", MEAN_OVER, &fresh, &means, |o| {
        o.latency.mean_ms
    }));
    found.charts.push(knowledge(bench, &cpu, per_s));
    Ok(found)
}

/// A curve for each policy: how many times the bound.
fn distances(
    title: &str,
    y: Quantity,
    runs: &Runs,
    bounds: &[Vec<f64>],
    value: fn(&Outcome) -> f64,
) -> Chart {
    let curve = |(name, runs): &(String, Vec<Vec<Outcome>>)| {
        let points = LOADS.iter().zip(runs).zip(bounds).map(|(((load, _), runs), bound)| {
            let over = evidence(runs, value).over(&Evidence::from(bound.clone()));
            Point { x: 100.0 * load, samples: over.samples, loss_percent: over.loss_percent }
        });
        Curve { name: name.clone(), points: points.collect() }
    };
    Chart { title: title.into(), x: LOAD, y, ours: runs.iter().map(curve).collect(), paper: Vec::new() }
}

/// What it is worth to know service times, if they differ much: the bound with and without.
fn knowledge(bench: &Bench, cpu: &Unit, per_s: impl Fn(f64) -> f64) -> Chart {
    let cpu = Unit { sigma: 1.0, ..cpu.clone() };
    let nic = Unit::accelerator(&cpu);
    let curve = |name: &str, knowing: bool| {
        let points = LOADS.iter().map(|(load, _)| {
            Point::new(100.0 * load, bound(bench, [&cpu, &nic], per_s(*load), knowing, |t| t.mean_ms))
        });
        Curve { name: name.to_owned(), points: points.collect() }
    };
    let ours = vec![curve("without knowledge", false), curve("service times known", true)];
    let title =
        "The bound of the mean with log-normal service times (sigma 1), and what knowing them is worth";
    Chart { title: title.into(), x: LOAD, y: MEAN, ours, paper: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Coming, Where};

    #[test]
    fn seeds_that_tuned_do_not_judge() {
        let with =
            |first| Bench::new(first, 5, true, Coming::Poisson, Where::Simulator, 1).expect("it compiles");
        assert!(check_seeds(&with(1)).is_ok());
        let error = check_seeds(&with(997)).expect_err("1001 is among them").to_string();
        assert!(error.contains("seed 1001") && error.contains("--seed"), "{error}");
    }
}
