//! `pointsman sim SCENARIO --lab`: the same scenario in virtual time and on a rack of network namespaces, compared.

use super::Simulator;
use super::wire::{self, OnWire, WireError};
use crate::stats::{mean, median, spread};
use pointsman_console::{PrintError, say};
use pointsman_sim::arrivals::ArrivalModel;
use pointsman_sim::{Scenario, StartError};
use serde_json::{Value, json};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Each run of the lab is simulated so often: requests come at the same times, all else that is random (when agents report, how long
/// services take) differs. A lab has one of these by chance.
const SIMULATED: u64 = 5;
/// Maximum difference between simulator and lab that counts as agreement, in per cent.
const AGREEMENT_PERCENT: f64 = 10.0;

/// P50 and P99 in milliseconds, answers per second, lost requests.
#[derive(Clone, Copy)]
struct Measured([f64; 4]);

/// Weights of accelerators that learners came to: the mean over the second half of a run's decisions, for each run; and the best
/// ones there, by the simulator's oracle.
#[derive(Clone, Debug, Default)]
struct Weighed {
    simulated: Vec<f64>,
    oracle: Vec<f64>,
    lab: Vec<f64>,
}

/// The mean of the second half.
fn late(values: impl IntoIterator<Item = u32>) -> f64 {
    let all: Vec<f64> = values.into_iter().map(f64::from).collect();
    mean(&all[all.len() / 2..]).mean
}

const NAMES: [&str; 4] = ["p50_ms", "p99_ms", "answers_per_s", "lost"];

/// The same in virtual time, so many times: requests at the very times at which the lab's client sends them.
fn simulated(
    s: &Arc<Scenario>,
    simulator: &Simulator,
    seed: u64,
    weighed: &mut Weighed,
) -> Result<(Vec<Measured>, u64), StartError> {
    let times_ns: Arc<[u64]> = wire::schedule(s, seed).iter().map(|t| t.as_nanos() as u64).collect();
    let mut same = s.as_ref().clone();
    for client in &mut same.clients {
        client.arrivals = ArrivalModel::Trace { times_ns: times_ns.clone() };
    }
    let (same, seconds) = (Arc::new(same), s.duration_ns as f64 / 1e9);
    let (mut out, mut violations) = (Vec::new(), 0);
    for i in 0..SIMULATED {
        let o = simulator.run(&same, seed.wrapping_add(i << 32))?;
        if let Some(l) = &o.learning {
            weighed.simulated.push(late(l.steps.iter().map(|s| s.next_weight)));
            weighed.oracle.push(late(l.steps.iter().map(|s| s.best_weight)));
        }
        let answers = o.requests.answered as f64 / seconds;
        out.push(Measured([o.latency.p50_ms, o.latency.p99_ms, answers, o.requests.lost as f64]));
        violations += o.violations.total();
    }
    Ok((out, violations))
}

/// On a rack of namespaces, once for each seed: the results, the number of requests, and how many runs fell behind.
fn on_the_wire(
    s: &Scenario,
    seeds: &[u64],
    weighed: &mut Weighed,
) -> Result<(Vec<Measured>, u64, usize), WireError> {
    let mut rack = OnWire::start(s, seeds.first().copied().unwrap_or(1))?;
    let (mut out, mut requests, mut behind) = (Vec::new(), 0, 0);
    for seed in seeds {
        let r = rack.run(s, *seed)?;
        requests += r.sent;
        behind += usize::from(r.late);
        if s.learn.is_some() {
            weighed.lab.push(late(r.weights));
        }
        out.push(Measured([r.p50_ms, r.p99_ms, r.answered_per_s, r.lost as f64]));
    }
    Ok((out, requests, behind))
}

fn column(all: &[Measured], i: usize) -> Vec<f64> {
    all.iter().map(|m| m.0[i]).collect()
}

/// The comparison of one scenario.
fn compared(s: &Scenario, sim: &[Measured], lab: &[Measured], requests: u64, late: usize) -> Value {
    let side = |all: &[Measured]| -> Value {
        let of = |(i, name): (usize, &&str)| {
            let values = column(all, i);
            let (low, high) = spread(&values);
            let mean = mean(&values).mean;
            ((*name).to_string(), json!({ "mean": mean, "median": median(&values), "min": low, "max": high }))
        };
        NAMES.iter().enumerate().map(of).collect::<serde_json::Map<_, _>>().into()
    };
    let difference = |i: usize| {
        let (a, b) = (mean(&column(sim, i)).mean, mean(&column(lab, i)).mean);
        100.0 * (a - b) / b.max(1e-9)
    };
    let point: serde_json::Map<String, Value> = s.point.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
    json!({
        "scenario": s.name, "point": point, "runs": lab.len(), "requests": requests, "late_runs": late,
        "simulated": side(sim), "lab": side(lab),
        "difference_percent": { "p50": difference(0), "p99": difference(1), "answers": difference(2) },
    })
}

fn line(v: &Value) -> String {
    let n = |side: &str, name: &str, what: &str| v[side][name][what].as_f64().unwrap_or(f64::NAN);
    let both = |name: &str| {
        let one = |side: &str| {
            let of = |what| n(side, name, what);
            format!("{:.2} ({:.2}-{:.2})", of("mean"), of("min"), of("max"))
        };
        format!("{:>24} {:>24}", one("simulated"), one("lab"))
    };
    let off = |name: &str| v["difference_percent"][name].as_f64().unwrap_or(f64::NAN);
    let point = v["point"].as_object().map(|p| {
        p.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect::<Vec<_>>().join(" ")
    });
    let name = v["scenario"].as_str().unwrap_or_default();
    let mut out = format!("{name} {}\n", point.filter(|p| !p.is_empty()).unwrap_or_default());
    for (name, short) in [("p50_ms", "p50"), ("p99_ms", "p99"), ("answers_per_s", "answers")] {
        out.push_str(&format!("  {name:<14} {} {:>+8.1} %\n", both(name), off(short)));
    }
    out.push_str(&format!("  {:<14} {}\n", "lost", both("lost")));
    if let Some(weighed) = v["accelerator_weight"].as_object() {
        let one = |side: &str| {
            let list = weighed.get(side).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let values: Vec<f64> = list.iter().filter_map(Value::as_f64).collect();
            let (low, high) = spread(&values);
            format!("{:.2} ({low:.2}-{high:.2})", mean(&values).mean)
        };
        let (sim, lab, best) = (one("simulated"), one("lab"), one("oracle"));
        out.push_str(&format!("  {:<14} {sim:>24} {lab:>24}, the oracle's {best}\n", "weight"));
    }
    out
}

/// The largest of a comparison's differences, in per cent.
fn worst(v: &Value) -> f64 {
    let off = |name: &str| v["difference_percent"][name].as_f64().map_or(f64::INFINITY, f64::abs);
    ["p50", "p99", "answers"].map(off).into_iter().fold(0.0, f64::max)
}

/// The machine's load average over a minute, as given by the kernel.
pub fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Why a scenario cannot be compared.
#[derive(Debug)]
enum CompareError {
    Start(StartError),
    Wire(WireError),
    Panicked,
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompareError::Start(e) => e.fmt(f),
            CompareError::Wire(e) => e.fmt(f),
            CompareError::Panicked => f.write_str("a comparison panicked"),
        }
    }
}

impl Error for CompareError {}

/// One scenario, on both.
fn compare(s: &Arc<Scenario>, simulator: &Simulator, seeds: &[u64]) -> Result<(Value, u64), CompareError> {
    let (mut sim, mut violations, mut weighed) = (Vec::new(), 0, Weighed::default());
    for seed in seeds {
        let (measured, violated) =
            simulated(s, simulator, *seed, &mut weighed).map_err(CompareError::Start)?;
        sim.extend(measured);
        violations += violated;
    }
    let (lab, requests, late) = on_the_wire(s, seeds, &mut weighed).map_err(CompareError::Wire)?;
    let mut value = compared(s, &sim, &lab, requests, late);
    if s.learn.is_some() {
        value["accelerator_weight"] = json!({
            "simulated": weighed.simulated, "oracle": weighed.oracle, "lab": weighed.lab,
        });
    }
    Ok((value, violations))
}

/// Compares every scenario, this many racks in parallel, and shows each as text; returns JSON lines of the results, and the checkers' findings.
pub fn run(
    scenarios: &[Arc<Scenario>],
    simulator: &Simulator,
    seeds: &[u64],
    racks: usize,
    show: fn(&str) -> Result<(), PrintError>,
) -> Result<(Vec<String>, u64), Box<dyn Error>> {
    // Scenarios that cannot be compared are refused before anything runs.
    for s in scenarios {
        wire::check(s)?;
    }
    show(&format!(
        "{} runs in the lab, each simulated {SIMULATED} times: means, and the range of runs\n  {:<14} {:>24} {:>24} {:>10}\n",
        seeds.len(),
        "",
        "simulated",
        "lab",
        "difference"
    ))?;
    let (mut lines, mut all, mut violations) = (Vec::new(), Vec::new(), 0);
    for part in scenarios.chunks(racks.max(1)) {
        let results: Vec<Result<(Value, u64), CompareError>> = std::thread::scope(|scope| {
            let started: Vec<_> = part.iter().map(|s| scope.spawn(|| compare(s, simulator, seeds))).collect();
            let ended =
                |t: std::thread::ScopedJoinHandle<'_, _>| t.join().unwrap_or(Err(CompareError::Panicked));
            started.into_iter().map(ended).collect()
        });
        let load = load_average();
        for result in results {
            let (mut value, violated) = result?;
            violations += violated;
            value["load_average"] = json!(load);
            show(&line(&value))?;
            let (late, of) = (value["late_runs"].as_u64().unwrap_or(0), seeds.len());
            if late > 0 {
                say(&format!("{late} of {of} runs fell behind their schedule: this machine is busy"));
            }
            lines.push(value.to_string());
            all.push(value);
        }
    }
    let agree = all.iter().filter(|v| worst(v) <= AGREEMENT_PERCENT).count();
    let furthest = all.iter().map(worst).fold(0.0, f64::max);
    let loads: Vec<f64> = all.iter().filter_map(|v| v["load_average"].as_f64()).collect();
    let (low, high) = spread(&loads);
    show(&format!(
        "{agree} of {} agree within {AGREEMENT_PERCENT} % in P50, P99 and answers; largest difference: {furthest:.1} %; the machine's \
         load average was {low} to {high}, with {racks} racks at a time\n",
        all.len()
    ))?;
    Ok((lines, violations))
}
