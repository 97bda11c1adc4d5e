//! Table 5.1 and figures 5.10, 5.11 and 5.14 to 5.16 in the lab: switches, stores and hosts are processes in network namespaces of this machine, run by
//! the library of `pointsman failover`.

mod throughput;

pub use throughput::{APPS as RATES, UPDATES};

use super::latency::{Ran, by_application, distribution, more, same};
use super::{breaks, latency, recovery};
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Rule, Source, TIME_OF_RUN};
use pointsman_failover::{App, Fault, Load, Options, Outcome, Replicate, Scale, measure, round_trips};
use pointsman_sim::random::{Part, Stream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const HERE: &str = "both switches, the stores, the client and the server are processes in network namespaces of this machine, as of `pointsman failover`; links are the kernel's. Seeds \
                    are repetitions, and in each of them all cases run one after the other";
const SLOW: &str = "packets pass the kernel and a switch in software, and all share this machine's processors: times are several times those of the testbed. So claims are about ratios, not \
                    about the paper's microseconds";
const FLOWS: &str = "a packet of 50 bytes every millisecond; flows have 40 packets, so that 2.5 % of the packets are the first of their flow, and ask the store. No packet ends a flow";

/// A figure that also runs in the lab, described there by another one.
pub const fn also(figure: Figure, lab: &'static Figure) -> Figure {
    let Place::Simulator(simulator) = figure.place else { return figure };
    Figure { place: Place::Apart { simulator, lab }, ..figure }
}

pub const TABLE: Figure = Figure {
    place: Place::Lab(table),
    remarks: &[
        HERE,
        "the kernel's TCP connections send a request every second. The switch is killed with its links, so that hosts use the other one at once; leases of 1 s, a chain of three stores",
        "a connection is broken if it is reset or closed, or if its last request has no answer 4 s or more after the failure",
    ],
    ..breaks::TABLE
};

pub const NAT: Figure = Figure {
    place: Place::Lab(nat),
    remarks: &[
        HERE,
        SLOW,
        FLOWS,
        "the paper's other approaches are not run: a controller or a server would be a process as the switch is, so that the comparison would say nothing",
        "our NAT keeps its bindings in registers, which the data plane fills; the paper's P99 has the time of a control plane in both cases",
    ],
    claims: &[
        same("p50", "the median with RedPlane over that without, in software"),
        same("p90", "the 90th percentile with RedPlane over that without, in software"),
        Claim {
            id: "p99",
            text: "P99 with RedPlane over that without, in software (the paper's 142 and 110 us have a control plane)",
            paper: 1.29,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Text,
        },
    ],
    ..latency::NAT
};

pub const APPS: Figure = Figure {
    place: Place::Lab(apps),
    remarks: &[
        HERE,
        SLOW,
        FLOWS,
        "packets of gateway and counter do not return: their times end at the server's interface",
        "the gateway gets a signalling packet for 17 of data, as in the paper. With --quick NAT and counter only",
    ],
    claims: &[
        same("nat", "NAT: the median with a chain over that without RedPlane, in software"),
        same("firewall", "firewall: the median with a chain over that without RedPlane, in software"),
        same("dispatch", "load balancer: the median with a chain over that without RedPlane, in software"),
        same("gateway", "serving gateway: the median with a chain over that without RedPlane, in software"),
        Claim {
            id: "chain-over-one",
            text: "a counter: what a chain adds to the median, over what one store adds (the paper's 20 and 8 us), in software",
            paper: 2.5,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Text,
        },
    ],
    ..latency::APPS
};

pub const FAILOVER: Figure = Figure {
    place: Place::Lab(failover),
    remarks: &[
        HERE,
        "one connection of the kernel's TCP passes a NAT whose states are kept by a chain of three stores, with leases of 1 s. The sender writes 40 Mbit/s (the paper's iperf has 100 Gbit/s), \
         so that the rate says nothing about the switch",
        "the failed switch takes its links with it, so that hosts use the other one at once; they return when it runs again",
        "a disruption is the longest time without data at the receiver. The store always asks for the key (RECALL); the paper's does not",
    ],
    claims: &[
        recovery::FAILS,
        recovery::RECALL,
        Claim {
            id: "plain",
            text: "without RedPlane the connection breaks: the rate after the failure, of that before it",
            paper: 1.0,
            unit: "%",
            rule: Rule::AtMost,
            source: Source::Text,
        },
    ],
    ..recovery::FAILOVER
};

/// What is run.
#[derive(Clone, Copy)]
struct Case {
    app: App,
    /// None: without RedPlane.
    stores: Option<Replicate>,
}

/// Without RedPlane, with one store, with a chain.
const STORES: [Option<Replicate>; 3] = [None, Some(Replicate::Local), Some(Replicate::Chain)];

impl Case {
    /// Its options in an empty folder. One store is in memory, as the nodes of a chain are.
    fn options(self, fault: Fault, folder: &Path) -> Result<Options, Failed> {
        let own = std::env::current_exe()?;
        Ok(Options {
            plain: self.stores.is_none(),
            replicate: self.stores.unwrap_or_default(),
            durable: false,
            ..Options::new(self.app, fault, &own, folder)
        })
    }

    /// Lets it fail. No process may end on its own.
    fn fails(self, scale: Scale, folder: &Path) -> Result<Outcome, Failed> {
        let options = Options { scale, ..self.options(Fault::Switch, folder)? };
        let outcome = measure(&options, &mut |_| {})?;
        match outcome.deaths.first() {
            Some(death) => Err(ExperimentError::Ended(death.clone()).into()),
            None => Ok(outcome),
        }
    }
}

/// Runs all cases one after the other, and that for each seed, so that what disturbs the machine disturbs all of them: for each case, the results of each seed.
fn in_turns<C: Copy, T>(
    bench: &Bench,
    what: &str,
    cases: &[C],
    mut run: impl FnMut(C, u64, &Path) -> Result<T, Failed>,
) -> Result<Vec<Vec<T>>, Failed> {
    // Before processes are started, which have the limit of their time.
    pointsman_lab::raise_open_file_limit().map_err(ExperimentError::OpenFiles)?;
    let folder = bench.folder.as_ref().ok_or(ExperimentError::None("folder"))?.join("redplane");
    let mut done: Vec<Vec<T>> = cases.iter().map(|_| Vec::new()).collect();
    bench.alone(what, |seed| {
        for (case, done) in cases.iter().zip(&mut done) {
            std::fs::create_dir(&folder)?;
            let ran = run(*case, seed, &folder);
            std::fs::remove_dir_all(&folder)?;
            done.push(ran?);
        }
        Ok(())
    })?;
    Ok(done)
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn table(bench: &Bench) -> Result<Found, Failed> {
    let scale = Scale {
        load: Load::Connections(bench.choose(2_000, 200)),
        before: seconds(bench.choose(10, 3)),
        broken: seconds(bench.choose(10, 5)),
        repair: false,
    };
    let mut cases = Vec::new();
    for app in [App::Nat, App::Firewall] {
        cases.extend([None, Some(Replicate::Chain)].map(|stores| Case { app, stores }));
    }
    let runs = in_turns(bench, "connections and a switch that fails", &cases, |case, _, folder| {
        let connections = case.fails(scale, folder)?.connections;
        Ok(100.0 * connections.broken as f64 / connections.established as f64)
    })?;
    Ok(breaks::judged(&runs))
}

/// Round-trip times of an application, for each of [`STORES`]. Figures share them.
fn times(bench: &Bench, app: App) -> Result<Arc<Vec<Vec<Ran>>>, Failed> {
    bench.once(&format!("redplane in the lab {app:?}"), || {
        let duration = seconds(bench.choose(20, 4));
        let what = format!("times of packets, {}", app.name());
        in_turns(bench, &what, &STORES.map(|stores| Case { app, stores }), |case, _, folder| {
            let times = round_trips(&case.options(Fault::None, folder)?, duration)?;
            Ok(Ran::of(times.into_iter().map(|time| time.map(|t| t.as_secs_f64() * 1e6))))
        })
    })
}

fn nat(bench: &Bench) -> Result<Found, Failed> {
    let mut runs = times(bench, App::Nat)?.to_vec();
    let names = ["plain", "RedPlane, one store", "RedPlane"];
    let ours: Vec<Curve> = names.iter().zip(&mut runs).map(|(name, runs)| distribution(name, runs)).collect();
    let chart = Chart {
        title: "Percentiles of round-trip times, in software".into(),
        x: super::SHARE,
        y: latency::RTT,
        ours,
        paper: Vec::new(),
    };
    let mut found = Found::default();
    for (id, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0)] {
        found.claim(id, chart.over(("RedPlane", percent), ("plain", percent)));
    }
    found.charts.push(chart);
    Ok(found)
}

/// Applications with their claims, as [`super::SYNCHRONOUS`].
const ALL: [(App, &str); 5] = [
    (App::Nat, "nat"),
    (App::Firewall, "firewall"),
    (App::Dispatch, "dispatch"),
    (App::Gateway, "gateway"),
    (App::Counter, COUNTER),
];
const COUNTER: &str = "chain-over-one";

/// Those that are run, with their places on the axis.
fn chosen(bench: &Bench) -> Vec<(f64, App, &'static str)> {
    let all = (1..).map(f64::from).zip(ALL).map(|(x, (app, id))| (x, app, id));
    all.filter(|(_, app, _)| !bench.quick || matches!(app, App::Nat | App::Counter)).collect()
}

fn apps(bench: &Bench) -> Result<Found, Failed> {
    let mut found = Found { partial: bench.quick, ..Found::default() };
    let chosen = chosen(bench);
    let mut runs = Vec::new();
    for (_, app, _) in &chosen {
        runs.extend(times(bench, *app)?.to_vec());
    }
    let at: Vec<f64> = chosen.iter().map(|(x, ..)| *x).collect();
    found.charts = by_application(&at, &mut runs);
    let medians = found.charts[0].clone();
    for (x, _, id) in chosen {
        let evidence = match id {
            COUNTER => more(&medians, ("chain", "without RedPlane"), x).over(&more(
                &medians,
                ("one store", "without RedPlane"),
                x,
            )),
            _ => medians.over(("chain", x), ("without RedPlane", x)),
        };
        found.claim(id, evidence);
    }
    Ok(found)
}

/// Intervals of the chart, and how much of it is before the failure.
const INTERVAL: Duration = Duration::from_millis(100);
const SHOWN: Duration = Duration::from_millis(1_500);
/// Data under way at the failure may still arrive.
const UNDER_WAY: Duration = Duration::from_millis(100);

fn failover(bench: &Bench) -> Result<Found, Failed> {
    let broken = seconds(4);
    let scale =
        |before| Scale { load: Load::Stream, before: SHOWN + seconds(1) + before, broken, repair: true };
    let cases = [None, Some(Replicate::Chain)].map(|stores| Case { app: App::Nat, stores });
    let runs = in_turns(bench, "TCP and a switch that fails", &cases, |case, seed, folder| {
        // Anywhere between two renewals of the lease.
        let before = Duration::from_millis(Stream::new(seed, Part::Arrivals, 1).below(500));
        case.fails(scale(before), folder)
    })?;
    let mut found = Found::default();
    let stalls =
        |which: usize| runs[1].iter().map(|ran| ran.stalls()[which].as_secs_f64()).collect::<Vec<_>>();
    found.claim("fails", stalls(0));
    found.claim("recall", stalls(1));
    found.claim("plain", runs[0].iter().map(share_after).collect::<Vec<_>>());
    let count = ((SHOWN + broken + seconds(5)).as_millis() / INTERVAL.as_millis()) as u32;
    let curve = |(name, runs): (&str, &Vec<Outcome>)| {
        let point = |i: u32| {
            let at_ms = (f64::from(i) + 0.5) * INTERVAL.as_secs_f64() * 1e3;
            Point::new(at_ms, runs.iter().map(|ran| mbit_per_s(ran, INTERVAL * i)).collect())
        };
        Curve { name: name.into(), points: (0..count).map(point).collect() }
    };
    let names = ["failure without RedPlane", "failure with RedPlane"];
    let ours = names.into_iter().zip(&runs).map(curve).collect();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    found.events =
        vec![(ms(SHOWN), "the switch fails".into()), (ms(SHOWN + broken), "it is started again".into())];
    let (x, y) = (TIME_OF_RUN, recovery::RATE);
    found.charts.push(Chart { title: "Throughput".into(), x, y, ours, paper: Vec::new() });
    Ok(found)
}

/// The rate in an interval of the chart, which begins at this time.
fn mbit_per_s(ran: &Outcome, at: Duration) -> f64 {
    let from = (ran.moments.fault + at).saturating_sub(SHOWN);
    ran.bytes(from, from + INTERVAL) as f64 * 8e-6 / INTERVAL.as_secs_f64()
}

/// The rate after the failure, of that before it, in per cent.
fn share_after(ran: &Outcome) -> f64 {
    let (fault, end) = (ran.moments.fault, ran.moments.end);
    let rate = |from: Duration, to: Duration| ran.bytes(from, to) as f64 / (to - from).as_secs_f64();
    100.0 * rate(fault + UNDER_WAY, end) / rate(fault.saturating_sub(SHOWN), fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_failover::Moments;

    /// A byte each millisecond for two seconds, and then half as many until the end.
    #[test]
    fn rates_before_and_after_a_failure() {
        let ms = Duration::from_millis;
        let moments = Moments { fault: ms(2_000), repair: ms(3_000), end: ms(4_100) };
        let every = |step: usize, from: u64, to: u64| (from..to).step_by(step).map(|at| (ms(at), 1));
        // What was under way at the failure does not count.
        let under_way = [(ms(2_001), 1_000)];
        let ran = Outcome {
            arrivals: every(1, 0, 2_000).chain(under_way).chain(every(2, 2_100, 4_100)).collect(),
            moments,
            ..Outcome::default()
        };
        assert_eq!(share_after(&ran), 50.0);
        // The chart begins 1.5 s before the failure.
        assert!((mbit_per_s(&ran, ms(0)) - 0.008).abs() < 1e-9);
        assert!((mbit_per_s(&ran, ms(1_600)) - 0.004).abs() < 1e-9);
        let broken = Outcome { arrivals: every(1, 0, 2_000).collect(), moments, ..Outcome::default() };
        assert_eq!(share_after(&broken), 0.0);
    }

    #[test]
    fn figures_in_the_lab_have_the_claims_of_their_experiments() {
        for (figure, ids) in [
            (&TABLE, &["nat-plain", "firewall-plain", "nat", "firewall"][..]),
            (&NAT, &["p50", "p90", "p99"]),
            (&APPS, &["nat", "firewall", "dispatch", "gateway", "chain-over-one"]),
            (&RATES, &["nat", "firewall", "dispatch", "gateway", "counter"]),
            (&UPDATES, &["reads", "falls", "two", "three"]),
            (&FAILOVER, &["fails", "recall", "plain"]),
        ] {
            assert_eq!(figure.claims.iter().map(|c| c.id).collect::<Vec<_>>(), ids, "{}", figure.id);
        }
        assert_eq!(ALL.map(|(_, id)| id).to_vec(), APPS.claims.iter().map(|c| c.id).collect::<Vec<_>>());
    }
}
