//! The load that each policy sustains, against the server alone and against the devices' combined capacity: at exactly a fifth of
//! the server's speed, and at the ratios of the thesis's applications.

use super::apps::{self, App};
use super::bench::Bench;
use super::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source, ratios};
use super::goals::{PRT_IN_FLIGHT, SOURCE, named, outstanding, processor, rack};
use super::setup::{Setup, Unit, agents, by_outstanding, poisson};
use crate::error::Failed;
use pointsman_balance::Policy;
use pointsman_trials::stats::mean;

/// In no paper.
pub const FIGURES: &[Figure] = &[FIFTH, APPLICATIONS];

/// The policies that are compared with the server alone.
pub(super) const POLICIES: [&str; 12] = [
    "wrr",
    "p4mite",
    "least-utilised",
    "dynamic-wrr",
    "prt",
    PRT_IN_FLIGHT,
    "least-connections",
    "weighted-least-connections",
    "jsq",
    "jiq",
    "power-of-two",
    "ecmp",
];

const fn at_least(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1.2, unit: "times", rule: Rule::AtLeast, source: Source::Ours }
}

/// A claim for each policy, in their order; `$id` is a prefix of its id, `$what` of its text.
macro_rules! claims {
    ($($id:literal, $what:literal;)*) => {
        &[$(
            at_least(concat!($id, "wrr"), concat!($what, "WRR with exact weights sustains 20 % more than server-only")),
            at_least(concat!($id, "p4mite"), concat!($what, "P4Mite sustains 20 % more than server-only")),
            at_least(concat!($id, "least-utilised"), concat!($what, "least-utilised sustains 20 % more than server-only")),
            at_least(concat!($id, "dynamic-wrr"), concat!($what, "dynamic WRR sustains 20 % more than server-only")),
            at_least(concat!($id, "prt"), concat!($what, "PRT sustains 20 % more than server-only")),
            at_least(
                concat!($id, "prt-in-flight"),
                concat!($what, "PRT by requests in flight sustains 20 % more than server-only")
            ),
            at_least(
                concat!($id, "least-connections"),
                concat!($what, "least-connections sustains 20 % more than server-only")
            ),
            at_least(
                concat!($id, "weighted-least-connections"),
                concat!($what, "weighted least-connections sustains 20 % more than server-only")
            ),
            at_least(concat!($id, "jsq"), concat!($what, "join-the-shortest-queue sustains 20 % more than server-only")),
            at_least(concat!($id, "jiq"), concat!($what, "join-idle-queue sustains 20 % more than server-only")),
            at_least(
                concat!($id, "power-of-two"),
                concat!($what, "power of two choices sustains 20 % more than server-only")
            ),
            at_least(concat!($id, "ecmp"), concat!($what, "ECMP sustains 20 % more than server-only")),
        )*]
    };
}

const FIFTH: Figure = Figure {
    id: "goal-capacity",
    title: "Load that each policy sustains, against server-only: one accelerator at a fifth of the server's speed",
    source: SOURCE,
    place: Place::Both { simulator: fifth, lab: fifth_in_lab },
    remarks: &[
        "sustained: nothing lost, and P99 within ten times the unloaded latency, under Poisson arrivals; found by bisection",
        "the devices together have 1.2 times the processor's capacity, which is 22 % more than server-only sustains by this criterion: \
         20 % is nearly all of it. The notes say how much each policy captures",
        "the rack file gives each device's concurrent requests (`workers`); PRT by requests in flight takes \
         its thresholds from it (high 9, low 8)",
        "ecmp, which ignores speeds, is shown for comparison: half of its requests go to the accelerator",
    ],
    claims: claims! { "", ""; },
};

const APPLICATIONS: Figure = Figure {
    id: "goal-capacity-apps",
    title: "Load that each policy sustains, against server-only: the thesis's four applications",
    source: SOURCE,
    place: Place::Simulator(applications),
    remarks: &[
        "server and SmartNIC as fitted to the thesis's published measurements (as for figure 5.7): saturation of the server and of the \
         SmartNIC in requests/s 862 and 769 for AD, 54 and 13 for BM25, 53 and 9.5 for VGG16, 15 and 3.6 for KNN",
        "sustained: nothing lost, and P99 within ten times the server's unloaded latency; Poisson arrivals; found by bisection",
        "possible gain over server-only: 109 % for AD, 26 % for BM25, 23 % for VGG16, 34 % for KNN; the \
         notes say how much of that each policy captures",
        "BM25's SmartNIC takes 850 ms on average and one request in twenty more than 1.4 s, when otherwise idle; ten times \
         the server's latency is 1.48 s. That bounds the gain there, not capacity",
        "WRR's weights are the devices' capacities; agents report every 10 ms (AD) or 50 ms the mean of ten times as long",
    ],
    claims: claims! { "ad-", "AD: "; "bm25-", "BM25: "; "vgg16-", "VGG16: "; "knn-", "KNN: "; },
};

const SUSTAINED: Quantity = Quantity {
    name: "sustained",
    unit: "of_processor",
    label: "sustained load, times the processor's capacity",
    log: false,
};

/// A comparison of policies.
struct Case<'a> {
    title: &'a str,
    /// The claims, in the order of the policies.
    claims: &'a [&'static str],
    /// The rack, under a policy, at a load given as a multiple of the processor's capacity.
    setup: &'a (dyn Fn(&str, f64) -> Setup + Sync),
    /// Maximum P99.
    limit_ms: f64,
    /// Capacity of all devices together, as a multiple of the processor's.
    together: f64,
    /// Number of bisection steps.
    steps: u32,
}

/// Finds the load that every policy sustains; adds the chart, the claims and a line for each policy.
fn compare(bench: &Bench, case: &Case<'_>, found: &mut Found) -> Result<(), Failed> {
    let policies: Vec<&'static str> = std::iter::once("server-only").chain(POLICIES).collect();
    let what = format!("sustained loads, {}", case.title);
    // The first bisection is between nothing and this load.
    let highest = 1.08 * case.together;
    found.notes.push(format!(
        "{}: runs of {:.1} s; found to {:.1} % of the processor's capacity",
        case.title,
        (case.setup)("server-only", 1.0).duration_s,
        100.0 * highest / f64::from(1 << case.steps)
    ));
    let sustained = bench.each(&what, &policies, |policy, seed| {
        let (mut low, mut high) = (0.0, highest);
        for _ in 0..case.steps {
            let middle = (low + high) / 2.0;
            let scenario = (case.setup)(policy, middle).scenario(bench)?;
            let outcome = bench.simulate(&scenario, seed)?;
            let holds = outcome.requests.lost == 0 && outcome.latency.p99_ms <= case.limit_ms;
            if holds { low = middle } else { high = middle }
        }
        Ok(low)
    })?;
    let base = sustained.first().cloned().unwrap_or_default();
    let alone = mean(&base).mean;
    found.notes.push(format!(
        "{}: server-only sustains {alone:.3} of the processor's capacity (mean over seeds); all devices together could sustain {:.3}, \
         {:+.1} %",
        case.title,
        case.together,
        100.0 * (case.together / alone - 1.0)
    ));
    let mut curves = Vec::new();
    for (i, (policy, samples)) in policies.iter().zip(&sustained).enumerate() {
        if let Some(n) = i.checked_sub(1) {
            if let Some(id) = case.claims.get(n) {
                found.claim(id, ratios(samples, &base));
            }
            let own = mean(samples).mean;
            found.notes.push(format!(
                "{}: {policy} sustains {own:.3}, {:+.1} %; {:.1} % of the capacity of all devices",
                case.title,
                100.0 * (own / alone - 1.0),
                100.0 * own / case.together
            ));
        }
        curves
            .push(Curve { name: (*policy).to_string(), points: vec![Point::new(i as f64, samples.clone())] });
    }
    let x =
        Quantity { name: "policy", unit: "number", label: "policy, in the order of the legend", log: false };
    let title = format!("Sustained load, {}", case.title);
    found.charts.push(Chart { title, x, y: SUSTAINED, ours: curves, paper: vec![] });
    Ok(())
}

fn fifth(bench: &Bench) -> Result<Found, Failed> {
    let processor = processor();
    let setup = |policy: &str, load: f64| {
        let mut s = rack(1, policy, load * processor.capacity_per_s());
        s.duration_s = bench.choose(60.0, 15.0);
        s.warmup_s = 1.0;
        if policy == "p4mite" {
            outstanding(&mut s);
        }
        s
    };
    let case = Case {
        title: "1 : 5",
        claims: &POLICIES,
        setup: &setup,
        limit_ms: 10.0 * processor.mean_ms,
        together: 1.2,
        steps: bench.choose(9, 7),
    };
    let mut found = Found::default();
    compare(bench, &case, &mut found)?;
    Ok(found)
}

/// A device's weight, from its capacity relative to the slower one's, as a user would set it after measuring.
fn exact_weights(units: &mut [Unit]) {
    let least = units.iter().map(Unit::capacity_per_s).fold(f64::INFINITY, f64::min);
    for unit in units {
        unit.weight = (100.0 * unit.capacity_per_s() / least).round().clamp(1.0, 1000.0) as u32;
    }
}

/// An application's rack, as a user who knows its devices would set it up.
fn application(bench: &Bench, app: &App, policy: &str, load: f64) -> Setup {
    let (name, tuning) = named(policy);
    let mut units = [app.server.clone(), app.nic.clone()];
    exact_weights(&mut units);
    let [server, nic] = &units;
    let per_s = server.capacity_per_s();
    let mut s = Setup::new(1, &units, name, poisson(load * per_s));
    s.tell_workers = true;
    s.tuning = tuning;
    s.client_delay_ms = (app.way_ms / 2.0).max(0.001);
    let requests = bench.choose(40_000.0, 10_000.0);
    s.warmup_s = 0.02 * requests / per_s;
    s.duration_s = s.warmup_s + requests / per_s;
    s.patience_s = 30.0;
    let heartbeat_ms = if server.mean_ms < 10.0 { 10 } else { 50 };
    s.agent = agents(heartbeat_ms, 10 * heartbeat_ms);
    s.sampling_ms = f64::from(heartbeat_ms);
    if policy == "p4mite" {
        // As in `outstanding`: the number of requests that the server handles while the SmartNIC handles one; nearly its number of workers.
        let meanwhile = per_s * nic.mean_ms / nic.speed / 1e3;
        let busy =
            [(0.9 * meanwhile).max(f64::from(server.workers)), (0.875 * f64::from(nic.workers)).max(1.0)];
        s.agent_of = busy
            .map(|n| n.ceil() as u32)
            .map(|high| by_outstanding((high, high - 1), (30_000.0, 20_000.0)))
            .to_vec();
    }
    s
}

fn applications(bench: &Bench) -> Result<Found, Failed> {
    let mut found = Found::default();
    for app in [&apps::AD, &apps::BM25, &apps::VGG, &apps::KNN] {
        let of = app.name.to_lowercase() + "-";
        let claimed: Vec<&'static str> =
            APPLICATIONS.claims.iter().map(|c| c.id).filter(|id| id.starts_with(&of)).collect();
        let setup = |policy: &str, load: f64| application(bench, app, policy, load);
        let case = Case {
            title: app.name,
            claims: &claimed,
            setup: &setup,
            limit_ms: 10.0 * app.unloaded_ms(),
            together: 1.0 + app.nic.capacity_per_s() / app.server.capacity_per_s(),
            steps: bench.choose(9, 7),
        };
        compare(bench, &case, &mut found)?;
    }
    Ok(found)
}

/// On the demo's rack: two servers, requests of exactly 10 ms.
const IN_LAB: [Policy; 4] =
    [Policy::ServerOnly, Policy::Wrr, Policy::P4mite, Policy::WeightedLeastConnections];

fn fifth_in_lab(bench: &Bench) -> Result<Found, Failed> {
    let seeds: Vec<u64> = bench.seeds().collect();
    let sustained = pointsman_demo::sustained(&IN_LAB, &seeds, bench.quick)?;
    let base = sustained.first().cloned().unwrap_or_default();
    let mut found = Found { partial: true, ..Found::default() };
    for (policy, samples) in IN_LAB.iter().zip(&sustained).skip(1) {
        found.claim(policy.name(), ratios(samples, &base));
    }
    found.notes.push(format!(
        "the rack of `pointsman demo`: its loads, its criterion; server-only sustains {:.3} of the processors' capacity (mean)",
        pointsman_trials::stats::mean(&base).mean
    ));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Coming, Where};

    /// With --quick, runs are shorter and steps fewer: the notes say what was done.
    #[test]
    fn notes_name_the_precision() {
        let bench = Bench::new(1, 1, true, Coming::Poisson, Where::Simulator, 1).expect("it compiles");
        let setup = |policy: &str, load: f64| {
            let mut s = rack(1, policy, load * processor().capacity_per_s());
            (s.warmup_s, s.duration_s) = (0.1, 0.2);
            s
        };
        let case = Case {
            title: "1 : 5",
            claims: &POLICIES,
            setup: &setup,
            limit_ms: 100.0,
            together: 1.2,
            steps: 3,
        };
        let mut found = Found::default();
        compare(&bench, &case, &mut found).expect("it runs");
        assert_eq!(found.notes[0], "1 : 5: runs of 0.2 s; found to 16.2 % of the processor's capacity");
        assert!(FIFTH.remarks.iter().all(|r| !r.contains("60 s") && !r.contains("0.3 %")));
    }
}
