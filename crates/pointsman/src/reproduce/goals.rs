//! What Pointsman itself promises, at the thesis's ratio: one accelerator at a fifth of the processor's speed.

use super::bench::{Bench, p99_ms};
use super::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, ratios};
use super::setup::{SECOND_CLIENT, Setup, Unit, poisson};
use pointsman_balance::Policy;
use std::fmt::Write;

/// In no paper.
pub const FIGURES: &[Figure] = &[CAPACITY, TAIL, CHANGE];

const SOURCE: &str = "no paper: what Pointsman promises";

/// A processor that works on eight requests at a time, 10 ms each.
pub(super) fn processor() -> Unit {
    Unit { name: "cpu", kind: "cpu", weight: 5, workers: 8, mean_ms: 10.0, sigma: 0.2, speed: 1.0 }
}

/// PRT that goes by what the switch itself counts: a device gets what it can work on at the same time, and one more; then it
/// is the next one's turn. When all have that many, the first gets more.
pub(super) const PRT_IN_FLIGHT: &str = "prt-in-flight";

/// The policy of this name, and its tuning.
pub(super) fn named(policy: &str) -> (&str, &'static str) {
    match policy {
        PRT_IN_FLIGHT => ("prt", "metric = \"in-flight\", high = 9, low = 8"),
        other => (other, ""),
    }
}

/// Such servers, each with an accelerator at a fifth of its speed.
fn rack(servers: u32, policy: &str, load_per_s: f64) -> Setup {
    let (policy, tuning) = named(policy);
    let cpu = processor();
    let units = [cpu.clone(), Unit::accelerator(&cpu)];
    let mut s = Setup::new(servers, &units, policy, poisson(load_per_s));
    s.agent =
        "heartbeat_ms = 10\nrepeat_ms = 0\nwindow_ms = 100\noutstanding = { high = 12, low = 10 }\n".into();
    s.tuning = tuning.to_string();
    s.sampling_ms = 10.0;
    s.patience_s = 5.0;
    s
}

/// The agents of P4Mite go by unanswered requests. A processor is busy when as many wait as it handles while the accelerator
/// handles one, as in `pointsman demo`.
pub(super) fn outstanding(s: &mut Setup) {
    s.agent_of = vec![
        "outstanding = { high = 36, low = 32 }, latency_ms = { high = 1000, low = 500 }, hold_ms = 5".into(),
        "outstanding = { high = 7, low = 6 }, latency_ms = { high = 1000, low = 500 }, hold_ms = 5".into(),
    ];
}

const fn at_least(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1.2, unit: "times", rule: Rule::AtLeast }
}

const CAPACITY: Figure = Figure {
    id: "goal-capacity",
    title: "Load that each policy sustains, against server-only: one accelerator at a fifth of the server's speed",
    source: SOURCE,
    place: Place::Both { simulator: capacity, lab: capacity_in_lab },
    remarks: &[
        "sustained: nothing lost, and P99 within ten times the unloaded latency, over 60 s of Poisson arrivals; found by \
         bisection, to 0.3 % of the processor's capacity",
        "the devices together can do 1.2 times what the processor can, so that 20 % is the most that there can be where the \
         processor alone runs at its limit already",
        "ecmp, which knows nothing of speeds, is shown for comparison: half of its requests go to the accelerator",
    ],
    claims: &[
        at_least("wrr", "WRR with exact weights sustains 20 % more than server-only"),
        at_least("p4mite", "P4Mite sustains 20 % more than server-only"),
        at_least("least-utilised", "least-utilised sustains 20 % more than server-only"),
        at_least("dynamic-wrr", "dynamic WRR sustains 20 % more than server-only"),
        at_least("prt", "PRT sustains 20 % more than server-only"),
        at_least(
            PRT_IN_FLIGHT,
            "PRT by requests in flight (high 9, low 8) sustains 20 % more than server-only",
        ),
        at_least("least-connections", "least-connections sustains 20 % more than server-only"),
        at_least(
            "weighted-least-connections",
            "weighted least-connections sustains 20 % more than server-only",
        ),
        at_least("jsq", "join-the-shortest-queue sustains 20 % more than server-only"),
        at_least("jiq", "join-idle-queue sustains 20 % more than server-only"),
        at_least("power-of-two", "power of two choices sustains 20 % more than server-only"),
        at_least("ecmp", "ECMP sustains 20 % more than server-only"),
    ],
};

const LOAD: Quantity = Quantity {
    name: "load",
    unit: "of_processor",
    label: "offered load, times the processor's capacity",
    log: false,
};
const SUSTAINED: Quantity = Quantity {
    name: "sustained",
    unit: "of_processor",
    label: "sustained load, times the processor's capacity",
    log: false,
};

fn capacity(bench: &Bench) -> Result<Found, String> {
    let processor = processor();
    let limit_ms = 10.0 * processor.mean_ms;
    let policies: Vec<&'static str> =
        std::iter::once("server-only").chain(CAPACITY.claims.iter().map(|c| c.id)).collect();
    let sustained = bench.each("sustained loads", &policies, |policy, seed| {
        let holds = |load: f64| -> Result<bool, String> {
            let mut s = rack(1, policy, load * processor.capacity_per_s());
            s.duration_s = bench.choose(60.0, 15.0);
            s.warmup_s = 1.0;
            if *policy == "p4mite" {
                outstanding(&mut s);
            }
            let scenario = s.scenario(bench)?;
            let outcome = bench.simulate(&scenario, seed)?;
            Ok(outcome.requests.lost == 0 && p99_ms(&scenario, &outcome) <= limit_ms)
        };
        let (mut low, mut high) = (0.0, 1.3);
        for _ in 0..bench.choose(9, 7) {
            let middle = (low + high) / 2.0;
            if holds(middle)? { low = middle } else { high = middle }
        }
        Ok(low)
    })?;
    let mut found = Found::default();
    let base = sustained.first().cloned().unwrap_or_default();
    found.notes.push(format!(
        "server-only sustains {:.3} of the processor's capacity (mean over seeds)",
        crate::stats::mean(&base).mean
    ));
    let mut curves = Vec::new();
    for (i, (policy, samples)) in policies.iter().zip(&sustained).enumerate() {
        if i > 0 {
            found.claim(policy, ratios(samples, &base));
        }
        curves.push(Curve {
            name: (*policy).to_string(),
            points: vec![Point { x: i as f64, samples: samples.clone() }],
        });
    }
    let number =
        Quantity { name: "policy", unit: "number", label: "policy, in the order of the legend", log: false };
    found.charts.push(Chart {
        title: "Sustained load".into(),
        x: number,
        y: SUSTAINED,
        ours: curves,
        paper: vec![],
    });
    Ok(found)
}

/// On the demo's rack: two servers, requests of exactly 10 ms.
const IN_LAB: [Policy; 4] =
    [Policy::ServerOnly, Policy::Wrr, Policy::P4mite, Policy::WeightedLeastConnections];

fn capacity_in_lab(bench: &Bench) -> Result<Found, String> {
    let seeds: Vec<u64> = (0..bench.seeds).map(|i| bench.first_seed.wrapping_add(i)).collect();
    let sustained = crate::demo::sustained(&IN_LAB, &seeds, bench.quick)?;
    let base = sustained.first().cloned().unwrap_or_default();
    let mut found = Found { partial: true, ..Found::default() };
    for (policy, samples) in IN_LAB.iter().zip(&sustained).skip(1) {
        found.claim(policy.name(), ratios(samples, &base));
    }
    found.notes.push(format!(
        "the rack of `pointsman demo`: its loads, its criterion; server-only sustains {:.3} of the processors' capacity (mean)",
        crate::stats::mean(&base).mean
    ));
    Ok(found)
}

const TAIL: Figure = Figure {
    id: "goal-tail",
    title: "P99 at 90 % load: policies by the switch's own counters against WRR with exact weights",
    source: SOURCE,
    place: Place::Simulator(tail),
    remarks: &[
        "90 % of what processor and accelerator can do together; four servers, Poisson arrivals, servers chosen by hash",
        "the best policy is the one with the smallest mean P99 over seeds, chosen with fresh reports",
        "old reports are 1 s old when the switch gets them",
    ],
    claims: &[
        Claim {
            id: "best-against-wrr",
            text: "the best policy by own counters has a lower P99 than WRR with exact weights: P99 against WRR's",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtMost,
        },
        Claim {
            id: "best-with-old-reports",
            text: "its P99 grows by less than 20 % when reports are 1 s old: P99 against that with fresh reports",
            paper: 1.2,
            unit: "times",
            rule: Rule::AtMost,
        },
    ],
};

/// Policies that look at nothing but what the switch counts.
pub(super) const OWN_COUNTERS: [&str; 6] =
    ["least-connections", "weighted-least-connections", "jsq", "jiq", "power-of-two", PRT_IN_FLIGHT];

fn tail(bench: &Bench) -> Result<Found, String> {
    let policies: Vec<&'static str> = std::iter::once("wrr").chain(OWN_COUNTERS).collect();
    let loads: &[f64] = bench.choose(&[0.3, 0.5, 0.7, 0.8, 0.9, 0.95], &[0.5, 0.9]);
    let mut scenarios = Vec::new();
    for delay_ms in [0.0, 1000.0] {
        for policy in &policies {
            for load in loads {
                let mut s = rack(4, policy, 1.0);
                s.arrivals = poisson(load * s.capacity_per_s());
                s.delay_ms = delay_ms;
                s.report_timeout_ms = 3000;
                s.duration_s = bench.choose(60.0, 15.0);
                s.warmup_s = 5.0;
                scenarios.push(s.scenario(bench)?);
            }
        }
    }
    let outcomes = bench.simulate_all("P99 under load", &scenarios)?;
    let mut all = scenarios.iter().zip(&outcomes);
    let mut found = Found::default();
    for title in ["Fresh reports", "Reports 1 s old"] {
        let curve = |policy: &&str| Curve {
            name: (*policy).to_string(),
            points: loads
                .iter()
                .map(|x| {
                    let samples = all.next().map(|(s, o)| o.iter().map(|o| p99_ms(s, o)).collect());
                    Point { x: *x, samples: samples.unwrap_or_default() }
                })
                .collect(),
        };
        let ours = policies.iter().map(curve).collect();
        let x = Quantity {
            name: "load",
            unit: "of_rack",
            label: "load, share of all devices' capacity",
            log: false,
        };
        found.charts.push(Chart { title: title.into(), x, y: super::figure::P99, ours, paper: vec![] });
    }
    let [fresh, old] = found.charts.as_slice() else { return Err("two charts were made".into()) };
    let mean = |policy: &str| crate::stats::mean(fresh.samples(policy, 0.9)).mean;
    let best = OWN_COUNTERS.into_iter().min_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap_or("jsq");
    let against = ratios(fresh.samples(best, 0.9), fresh.samples("wrr", 0.9));
    let degraded = ratios(old.samples(best, 0.9), fresh.samples(best, 0.9));
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
        "all policies that a simulated rack has, in turn; 80 % of what the devices can do together; four servers; \
                lasting connections as well as one for each request",
    ],
    claims: &[
        Claim {
            id: "lost",
            text: "no request is lost",
            paper: 0.0,
            unit: "requests",
            rule: Rule::Same { within: 0.0 },
        },
        Claim {
            id: "violations",
            text: "no connection changes its device, and no other law of the checkers is broken",
            paper: 0.0,
            unit: "violations",
            rule: Rule::Same { within: 0.0 },
        },
    ],
};

fn change(bench: &Bench) -> Result<Found, String> {
    let duration_s = bench.choose(60.0, 20.0);
    // Of those that choose badly at 80 % load the queues would fill: they are in force for a moment only.
    let policies: Vec<&str> = std::iter::once("server-only")
        .chain(CAPACITY.claims.iter().map(|c| c.id).filter(|p| *p != "ecmp" && *p != PRT_IN_FLIGHT))
        .collect();
    let mut more = String::new();
    let changes = ((duration_s - 2.0) * 4.0) as usize;
    for i in 0..changes {
        let policy = policies[i % policies.len()];
        let _ = write!(
            more,
            "[[event]]\nat_s = {}\naction = \"policy\"\npolicy = \"{policy}\"\n",
            1.0 + i as f64 / 4.0
        );
    }
    let mut s = rack(4, "server-only", 1.0);
    let rate = 0.8 * s.capacity_per_s();
    s.arrivals = poisson(rate / 2.0);
    let _ = write!(
        more,
        "[[client]]\nport = {SECOND_CLIENT}\nconnections = 2000\narrivals = {{ {} }}\n",
        poisson(rate / 2.0)
    );
    s.more = more;
    s.duration_s = duration_s;
    s.warmup_s = 0.0;
    s.patience_s = 5.0;
    let scenario = s.scenario(bench)?;
    let outcomes = bench.simulate_all("changes of policy", std::slice::from_ref(&scenario))?;
    let outcomes = outcomes.into_iter().next().unwrap_or_default();
    let mut found = Found::default();
    let requests: u64 = outcomes.iter().map(|o| o.requests.sent).sum();
    found.notes.push(format!("{changes} changes a run, {requests} requests in all runs"));
    let p99 = |o: &pointsman_sim::Outcome| p99_ms(&scenario, o);
    found.claim("lost", outcomes.iter().map(|o| o.requests.lost as f64).collect());
    found.claim("violations", outcomes.iter().map(|o| o.violations.total() as f64).collect());
    let samples = outcomes.iter().map(p99).collect();
    found.charts.push(Chart {
        title: "P99 meanwhile".into(),
        x: LOAD,
        y: super::figure::P99,
        ours: vec![Curve { name: "changing policies".into(), points: vec![Point { x: 0.8, samples }] }],
        paper: vec![],
    });
    Ok(found)
}
