//! Figures 5.14 and 5.15 in the lab.

use super::{COUNTER, Case, HERE, chosen, in_turns, seconds};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Lossy, Place, Point, Quantity, Rule, Source};
use crate::redplane::latency::same;
use crate::redplane::throughput::{self, share};
use pointsman_failover::{App, Fault, Options, Passed, Replicate};

const RATE: Quantity =
    Quantity { name: "throughput", unit: "kpps", label: "throughput, thousand packets/s", log: false };
const WINDOW: &str = "16 packets are under way at a time, of 64 flows that exist when the time begins; the next one is sent when one of them has passed, or after 0.3 s. Frames have 50 to 75 bytes";
const PROCESSORS: &str = "the paper's switch is as fast as its links, and the stores have servers of their own. Here hosts, a switch in software and the stores share this machine's processors: \
                          what the stores do for a packet lowers the rate, even of packets that do not wait for them";

pub const APPS: Figure = Figure {
    place: Place::Lab(apps),
    remarks: &[
        HERE,
        PROCESSORS,
        WINDOW,
        "the gateway gets a signalling packet for 17 of data, as in the paper. With --quick NAT and counter only",
        "the rate of gateway and counter is that of packets at the server, because they do not return, apart from the gateway's signalling",
    ],
    claims: &[
        same("nat", "NAT: the rate with a chain over that without RedPlane, in software"),
        same("firewall", "firewall: the rate with a chain over that without RedPlane, in software"),
        same("dispatch", "load balancer: the rate with a chain over that without RedPlane, in software"),
        share(
            "gateway",
            "serving gateway: the same, slightly less (a number for it), in software",
            0.95,
            0.05,
            Source::Ours,
        ),
        Claim {
            id: "counter",
            text: "a counter: the same, nearly half, in software",
            paper: 0.5,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Text,
        },
    ],
    ..throughput::APPS
};

pub const UPDATES: Figure = Figure {
    place: Place::Lab(updates),
    remarks: &[
        HERE,
        PROCESSORS,
        WINDOW,
        "one to three stores in memory, without chains, each with a part of the keys. All stores share the processors of this machine, so several may be no faster than one; in the paper each store is a server of its own",
        "the keys are asked for in turns; the switch answers without the server. Updates are evenly spread. With --quick reads alone and updates alone",
    ],
    claims: &[
        same("reads", "without updates: the rate with one store over that without RedPlane, in software"),
        Claim {
            id: "falls",
            text: "with one store, updates alone, over reads alone: less, in software",
            paper: 1.0,
            unit: "times",
            rule: Rule::AtMost,
            source: Source::Text,
        },
        more("two", "updates alone: two stores over one, in software", 2.0),
        more("three", "updates alone: three stores over one, in software", 3.0),
    ],
    ..throughput::UPDATES
};

const fn more(id: &'static str, text: &'static str, paper: f64) -> Claim {
    Claim { id, text, paper, unit: "times", rule: Rule::Effect { neutral: 1.0 }, source: Source::Ours }
}

/// What is run, with a load.
#[derive(Clone, Copy)]
struct Loaded {
    case: Case,
    /// Stores, each with a part of the keys.
    shards: u16,
    /// Updates of a key-value store, in per cent.
    updates: u32,
}

impl Lossy for Passed {
    fn loss_percent(&self) -> Option<f64> {
        Some(100.0 * (1.0 - self.seen as f64 / self.sent as f64))
    }
}

fn thousands_per_s(passed: &Passed) -> f64 {
    passed.seen as f64 / passed.duration.as_secs_f64() / 1e3
}

/// For each case, what passed in the run of each seed.
fn rates(bench: &Bench, what: &str, cases: &[Loaded]) -> Result<Vec<Vec<Passed>>, Failed> {
    let duration = seconds(bench.choose(8, 2));
    in_turns(bench, what, cases, |loaded, _, folder| {
        let options = loaded.case.options(Fault::None, folder)?;
        let options = Options { shards: loaded.shards, ..options };
        Ok(pointsman_failover::throughput(&options, loaded.updates, duration)?)
    })
}

const PLAIN: &str = "without RedPlane";
const PROTECTED: &str = "RedPlane";

fn apps(bench: &Bench) -> Result<Found, Failed> {
    let chosen = chosen(bench);
    let both = |(_, app, _): &(f64, App, &str)| {
        [None, Some(Replicate::Chain)].map(|stores| Loaded {
            case: Case { app: *app, stores },
            shards: 1,
            updates: 0,
        })
    };
    let cases: Vec<Loaded> = chosen.iter().flat_map(both).collect();
    let runs = rates(bench, "throughput of applications", &cases)?;
    let mut found = Found { partial: bench.quick, ..Found::default() };
    let curve = |(which, name): (usize, &str)| Curve {
        name: name.into(),
        points: chosen
            .iter()
            .zip(runs.chunks(2))
            .map(|((x, ..), both)| Point::of(*x, &both[which], thousands_per_s))
            .collect(),
    };
    let ours = [PLAIN, PROTECTED].into_iter().enumerate().map(curve).collect();
    let title = "Throughput, in software".into();
    let chart = Chart { title, x: throughput::WHERE, y: RATE, ours, paper: Vec::new() };
    for (x, _, id) in &chosen {
        found.claim(claim_of(id), chart.over((PROTECTED, *x), (PLAIN, *x)));
    }
    found.charts.push(chart);
    Ok(found)
}

/// The counter's claim of figure 5.11 is about chains.
fn claim_of(id: &'static str) -> &'static str {
    if id == COUNTER { "counter" } else { id }
}

fn updates(bench: &Bench) -> Result<Found, Failed> {
    let shares: &[u32] = bench.choose(&[0, 20, 40, 60, 80, 100], &[0, 100]);
    let loaded =
        |stores, shards, updates| Loaded { case: Case { app: App::Kvstore, stores }, shards, updates };
    let mut cases = vec![loaded(None, 1, 0)];
    for shards in 1..=3 {
        cases.extend(shares.iter().map(|share| loaded(Some(Replicate::Local), shards, *share)));
    }
    let runs = rates(bench, "throughput by updates", &cases)?;
    Ok(judged(shares, &runs))
}

/// The chart and the claims, of the runs without RedPlane, which only read, and then of each number of stores with each share of updates.
fn judged(shares: &[u32], runs: &[Vec<Passed>]) -> Found {
    let axis: Vec<f64> = shares.iter().map(|share| f64::from(*share)).collect();
    let (plain, protected) = runs.split_at(1);
    let mut ours = vec![Curve::of(PLAIN, &[0.0], plain, thousands_per_s)];
    let of = |(name, runs): (&str, &[Vec<Passed>])| Curve::of(name, &axis, runs, thousands_per_s);
    ours.extend(["1 store", "2 stores", "3 stores"].into_iter().zip(protected.chunks(axis.len())).map(of));
    let title = "Throughput, in software".into();
    let chart = Chart { title, x: throughput::UPDATED, y: RATE, ours, paper: Vec::new() };
    let mut found = Found::default();
    found.claim("reads", chart.over(("1 store", 0.0), (PLAIN, 0.0)));
    found.claim("falls", chart.over(("1 store", 100.0), ("1 store", 0.0)));
    found.claim("two", chart.over(("2 stores", 100.0), ("1 store", 100.0)));
    found.claim("three", chart.over(("3 stores", 100.0), ("1 store", 100.0)));
    found.charts.push(chart);
    found
}

#[cfg(test)]
mod tests {
    use super::super::ALL;
    use super::*;
    use crate::verdict::Verdict;
    use std::time::Duration;

    fn passed(per_s: u64) -> Vec<Passed> {
        vec![Passed { sent: 2 * per_s, seen: 2 * per_s, duration: Duration::from_secs(2) }; 5]
    }

    #[test]
    fn stores_are_compared_by_their_updates() {
        // Without RedPlane; then one, two and three stores with reads alone and updates alone.
        let rates = [10_000, 9_900, 2_000, 9_800, 4_000, 9_700, 2_000];
        let found = judged(&[0, 100], &rates.map(passed));
        let verdicts: Vec<(&str, Verdict)> = UPDATES
            .judge(&found)
            .expect("claims")
            .into_iter()
            .map(|judged| (judged.claim.id, judged.verdict))
            .collect();
        let (holds, fails) = (Verdict::Holds, Verdict::Fails);
        assert_eq!(verdicts, [("reads", holds), ("falls", holds), ("two", holds), ("three", fails)]);
        assert_eq!(found.charts[0].samples("2 stores", 100.0), [4.0; 5]);
    }

    #[test]
    fn packets_that_do_not_pass_are_loss() {
        let passed = Passed { sent: 200, seen: 150, duration: Duration::from_secs(1) };
        assert_eq!((passed.loss_percent(), thousands_per_s(&passed)), (Some(25.0), 0.15));
    }

    #[test]
    fn applications_have_their_claims() {
        let ids: Vec<&str> = ALL.iter().map(|(_, id)| claim_of(id)).collect();
        assert_eq!(ids, APPS.claims.iter().map(|c| c.id).collect::<Vec<_>>());
    }
}
