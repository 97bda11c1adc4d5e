//! Pointsman's own goals, at the thesis's ratio: one accelerator at a fifth of the processor's speed. The load that policies
//! sustain is in `capacity`.

use super::bench::Bench;
use super::capacity;
use super::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use super::lines;
use super::setup::{SECOND_CLIENT, Setup, Unit, agents, by_outstanding, poisson};
use crate::error::{ExperimentError, Failed};
use crate::scenario_file::{ActionSection, ClientSection, EventSection};
use pointsman_balance::DeviceKind;
use pointsman_balance::blocks::{Metric, Tuning};
use pointsman_balance::config::Threshold;
use pointsman_balance::config::file::AgentSection;

/// In no paper.
pub const FIGURES: &[Figure] = &[TAIL, CHANGE];

pub(super) const SOURCE: &str = "not in the papers: a goal of Pointsman";

/// A processor that works on eight requests at a time, 10 ms each.
pub(super) fn processor() -> Unit {
    Unit { name: "cpu", kind: DeviceKind::Cpu, weight: 5, workers: 8, mean_ms: 10.0, sigma: 0.2, speed: 1.0 }
}

/// PRT on the switch's own counters: a device gets as many requests as it can process concurrently, and one more; then it
/// is the next one's turn. When all have that many, the first gets more.
pub(super) const PRT_IN_FLIGHT: &str = "prt-in-flight";

/// The policy of this name, and its tuning.
pub(super) fn named(policy: &str) -> (&str, Tuning) {
    match policy {
        PRT_IN_FLIGHT => ("prt", Tuning { metric: Some(Metric::InFlight), ..Tuning::default() }),
        other => (other, Tuning::default()),
    }
}

/// Such servers, each with an accelerator at a fifth of its speed.
pub(super) fn rack(servers: u32, policy: &str, load_per_s: f64) -> Setup {
    let (policy, tuning) = named(policy);
    let cpu = processor();
    let units = [cpu.clone(), Unit::accelerator(&cpu)];
    let mut s = Setup::new(servers, &units, policy, poisson(load_per_s));
    s.agent = AgentSection { outstanding: Some(Threshold { high: 12.0, low: 10.0 }), ..agents(10, 100) };
    s.tuning = tuning;
    s.tell_workers = true;
    s.sampling_ms = 10.0;
    s.patience_s = 5.0;
    s
}

/// The agents of P4Mite measure unanswered requests. A processor is busy when as many are waiting as it handles while the accelerator
/// handles one, as in `pointsman demo`.
pub(super) fn outstanding(s: &mut Setup) {
    s.agent_of = [(36, 32), (7, 6)].map(|busy| by_outstanding(busy, (1000.0, 500.0))).to_vec();
}

const LOAD: Quantity = Quantity {
    name: "load",
    unit: "of_processor",
    label: "offered load, times the processor's capacity",
    log: false,
};
const TAIL: Figure = Figure {
    id: "goal-tail",
    title: "P99 at 90 % load: policies by the switch's own counters against WRR with exact weights",
    source: SOURCE,
    place: Place::Simulator(tail),
    remarks: &[
        "90 % of the combined capacity of processor and accelerator; four servers, Poisson arrivals, servers chosen by hash",
        "the best policy is the one with the smallest mean P99 over seeds, chosen with fresh reports",
        "old reports arrive at the switch 1 s late",
    ],
    claims: &[
        Claim {
            id: "best-against-wrr",
            text: "the best policy by own counters has a lower P99 than WRR with exact weights: P99 against WRR's",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Ours,
        },
        Claim {
            id: "best-with-old-reports",
            text: "its P99 grows by less than 20 % when reports are 1 s old: P99 against that with fresh reports",
            paper: 1.2,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Ours,
        },
    ],
};

/// Policies that use only the switch's own counters.
pub(super) const OWN_COUNTERS: [&str; 6] =
    ["least-connections", "weighted-least-connections", "jsq", "jiq", "power-of-two", PRT_IN_FLIGHT];

fn tail(bench: &Bench) -> Result<Found, Failed> {
    let policies: Vec<&'static str> = std::iter::once("wrr").chain(OWN_COUNTERS).collect();
    let loads: &[f64] = bench.choose(&[0.3, 0.5, 0.7, 0.8, 0.9, 0.95], &[0.5, 0.9]);
    let mut found = Found::default();
    for (title, delay_ms) in [("Fresh reports", 0.0), ("Reports 1 s old", 1000.0)] {
        let ours = lines::p99(bench, "P99 under load", &policies, loads, |policy, load| {
            let mut s = rack(4, policy, 1.0);
            s.arrivals = poisson(load * s.capacity_per_s());
            s.delay_ms = delay_ms;
            s.report_timeout_ms = 3000;
            s.duration_s = bench.choose(60.0, 15.0);
            s.warmup_s = 5.0;
            s
        })?;
        let x = Quantity {
            name: "load",
            unit: "of_rack",
            label: "load, share of all devices' capacity",
            log: false,
        };
        found.charts.push(Chart { title: title.into(), x, y: super::figure::P99, ours, paper: vec![] });
    }
    let [fresh, old] = found.charts.as_slice() else {
        return Err(ExperimentError::None("second chart").into());
    };
    let mean = |policy: &str| pointsman_trials::stats::mean(fresh.samples(policy, 0.9)).mean;
    let best = OWN_COUNTERS.into_iter().min_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap_or("jsq");
    let against = fresh.over((best, 0.9), ("wrr", 0.9));
    let degraded = old.evidence(best, 0.9).over(&fresh.evidence(best, 0.9));
    found.notes.push(format!("the best by own counters: {best}"));
    found.claim("best-against-wrr", against);
    found.claim("best-with-old-reports", degraded);
    Ok(found)
}

const CHANGE: Figure = Figure {
    id: "goal-change",
    title: "Requests lost while the policy changes four times a second at 80 % load",
    source: SOURCE,
    place: Place::Simulator(change),
    remarks: &[
        "all policies that a simulated rack has, in turn; 80 % of the devices' combined capacity; four servers; \
                lasting connections as well as one for each request",
    ],
    claims: &[
        Claim {
            id: "lost",
            text: "no request is lost",
            paper: 0.0,
            unit: "requests",
            rule: Rule::Same { within: 0.0 },
            source: Source::Ours,
        },
        Claim {
            id: "violations",
            text: "no connection changes its device, and no other law of the checkers is broken",
            paper: 0.0,
            unit: "violations",
            rule: Rule::Same { within: 0.0 },
            source: Source::Ours,
        },
    ],
};

fn change(bench: &Bench) -> Result<Found, Failed> {
    let duration_s = bench.choose(60.0, 20.0);
    // With those that choose badly, the queues would fill at 80 % load: they are in force for a moment only.
    let policies: Vec<&'static str> = std::iter::once("server-only")
        .chain(capacity::POLICIES.into_iter().filter(|p| *p != "ecmp" && *p != PRT_IN_FLIGHT))
        .collect();
    let changes = ((duration_s - 2.0) * 4.0) as usize;
    let event = |i: usize| EventSection {
        at_s: 1.0 + i as f64 / 4.0,
        action: ActionSection::Policy { policy: policies[i % policies.len()] },
    };
    let mut s = rack(4, "server-only", 1.0);
    let rate = 0.8 * s.capacity_per_s();
    s.arrivals = poisson(rate / 2.0);
    s.more_clients = vec![ClientSection {
        port: Some(SECOND_CLIENT),
        connections: Some(2000),
        ..ClientSection::new(poisson(rate / 2.0))
    }];
    s.events = (0..changes).map(event).collect();
    s.duration_s = duration_s;
    s.warmup_s = 0.0;
    s.patience_s = 5.0;
    let scenario = s.scenario(bench)?;
    let outcomes = bench.simulate_all("changes of policy", std::slice::from_ref(&scenario))?;
    let outcomes = outcomes.into_iter().next().unwrap_or_default();
    let mut found = Found::default();
    let requests: u64 = outcomes.iter().map(|o| o.requests.sent).sum();
    found.notes.push(format!("{changes} changes a run, {requests} requests in all runs"));
    found.claim("lost", outcomes.iter().map(|o| o.requests.lost as f64).collect::<Vec<_>>());
    found.claim("violations", outcomes.iter().map(|o| o.violations.total() as f64).collect::<Vec<_>>());
    found.charts.push(Chart {
        title: "P99 meanwhile".into(),
        x: LOAD,
        y: super::figure::P99,
        ours: vec![Curve {
            name: "changing policies".into(),
            points: vec![Point::of(0.8, &outcomes, |o| o.latency.p99_ms)],
        }],
        paper: vec![],
    });
    Ok(found)
}
