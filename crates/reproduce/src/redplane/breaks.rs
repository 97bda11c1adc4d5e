//! Table 5.1, figures 5.6 and 5.7: what breaks without RedPlane, without its sequence numbers, and without leases.

use super::{TIMES, build, setup};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_store::Rule as StoreRule;
use pointsman_testbed::trace::{self, Sent};
use pointsman_testbed::{App, Build, Happened, ProgramError, Setup, Testbed, TestbedError};
use std::net::Ipv4Addr;
use std::sync::Arc;

const BROKEN: Quantity =
    Quantity { name: "broken", unit: "percent", label: "connections broken, %", log: false };
const WRONG: Quantity =
    Quantity { name: "wrong", unit: "percent", label: "flows with a wrong count, %", log: false };
const APP: Quantity = Quantity { name: "application", unit: "", label: "1: NAT; 2: firewall", log: false };
const RULES: Quantity =
    Quantity { name: "rules", unit: "", label: "1: with the rule; 2: without it", log: false };
const MS: u64 = 1_000_000;
/// Between the packets of one flow and the next flow's.
const APART_NS: u64 = 20_000;

const fn none(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 0.0, unit: "%", rule: Rule::AtMost, source: Source::Text }
}

const fn some(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1.0, unit: "%", rule: Rule::AtLeast, source: Source::Ours }
}

const fn broken(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 100.0, unit: "%", rule: Rule::AtLeast, source: Source::Text }
}

pub const TABLE: Figure = Figure {
    id: "redplane-table-5.1",
    title: "Connections that break when their switch fails",
    source: "RedPlane, thesis section 5.1",
    place: Place::Simulator(table),
    remarks: &[
        TIMES,
        "a switch is killed, and each connection sends five packets over the other one, one every 400 ms. It is broken if none of them passes, or if a \
         NAT gives it another port",
        "the paper's other applications are not part of this run: `pointsman failover` runs them over a fault",
    ],
    claims: &[
        broken("nat-plain", "NAT without RedPlane: connections are broken"),
        broken("firewall-plain", "firewall without RedPlane: connections are broken"),
        none("nat", "NAT with RedPlane: connections broken"),
        none("firewall", "firewall with RedPlane: connections broken"),
    ],
};

pub const SEQUENCING: Figure = Figure {
    id: "redplane-fig-5.6",
    title: "Counts that are wrong without sequence numbers or retransmission",
    source: "RedPlane, thesis section 5.4.2",
    place: Place::Simulator(sequencing),
    remarks: &[
        TIMES,
        "each flow has ten packets within 50 us, requests and answers are up to 100 us late, each by itself; a fifth of the requests is lost where \
         retransmission is judged. The switch is killed 200 ms later; a packet over the other one shows the count that was stored",
        "without sequence numbers: the store applies older writes; without retransmission: writes in the buffer end instead of being sent again",
        "a count is wrong if it is less than one that a packet showed before: others were never seen outside, and may be lost. Where requests are lost, it is wrong \
         if it is less than the number of packets of a flow whose state was there",
    ],
    claims: &[
        some("no-sequencing", "without sequence numbers, flows have wrong counts (a number for \"may\")"),
        none("sequencing", "with sequence numbers, flows with wrong counts"),
        some("no-resend", "without retransmission, states are missing in the store (a number for \"may\")"),
        none("resend", "with retransmission, flows whose state is missing in the store"),
    ],
};

pub const LEASES: Figure = Figure {
    id: "redplane-fig-5.7",
    title: "Stale reads without leases",
    source: "RedPlane, thesis section 5.4.3",
    place: Place::Simulator(leases),
    remarks: &[
        TIMES,
        "each flow is counted twice by a switch, twice by the other one, and read at the first one again, which never failed; leases of 1 s, packets every 400 ms. \
         A read is stale if it shows less than a packet before it did; a flow without an answered read counts, too",
        "without leases: a switch uses its state without a limit of time, and the store grants every key at once",
    ],
    claims: &[
        some("no-leases", "without leases, flows read stale counts (a number for \"may\")"),
        none("leases", "with leases, flows that read stale counts"),
    ],
};

/// A packet of a flow: when, at which switch, its place in the flow, and whether it only reads.
#[derive(Clone, Copy)]
struct Step {
    at: u64,
    switch: usize,
    place: u32,
    reads: bool,
}

/// Plays the same packets for each flow: for each flow, and each packet of it, the frame that came back.
fn play(
    mut testbed: Testbed<'_>,
    steps: &[Step],
    flows: u32,
    crash_at: Option<u64>,
) -> Vec<Vec<Option<Vec<u8>>>> {
    let count = steps.len();
    let mut events: Vec<(u64, u32, usize)> = (0..flows)
        .flat_map(|flow| {
            steps.iter().enumerate().map(move |(n, s)| (s.at + u64::from(flow) * APART_NS, flow, n))
        })
        .collect();
    events.sort_unstable();
    let mut seen = vec![vec![None; count]; flows as usize];
    let mut take = |happened: Happened| {
        if let Happened::AtHost { frame, .. } = happened
            && let Some(number) = trace::number(&frame).map(|n| n as usize)
            && let Some(place) = seen.get_mut(number / count).and_then(|f| f.get_mut(number % count))
        {
            *place = Some(frame);
        }
    };
    let mut crash_at = crash_at;
    let last = events.last().map_or(0, |e| e.0);
    let to = Ipv4Addr::new(10, 0, 0, 1);
    for (at, flow, n) in events {
        if let Some(crash) = crash_at.filter(|crash| *crash <= at) {
            while let Some(happened) = testbed.next(crash) {
                take(happened);
            }
            testbed.crash(0);
            crash_at = None;
        }
        while let Some(happened) = testbed.next(at) {
            take(happened);
        }
        let Step { switch, place, reads, .. } = steps[n];
        let sent = Sent { at, flow, place, last: false, bytes: 64 };
        let frame = trace::frame(&sent, flow * count as u32 + n as u32, to, reads);
        testbed.send(at, (switch, 0), frame, 0);
    }
    while let Some(happened) = testbed.next(last + 3_000 * MS) {
        take(happened);
    }
    seen
}

fn flows(bench: &Bench) -> u32 {
    bench.choose(200, 50)
}

fn testbed(setup: Setup<'_>) -> Result<Testbed<'_>, TestbedError> {
    Testbed::new(setup)
}

/// The share of flows for which something is the case, in per cent.
fn share(seen: &[Vec<Option<Vec<u8>>>], is: impl Fn(&[Option<Vec<u8>>]) -> bool) -> f64 {
    100.0 * seen.iter().filter(|flow| is(flow)).count() as f64 / seen.len().max(1) as f64
}

fn word(frame: &[u8], at: usize) -> u16 {
    frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

/// The count that a packet shows.
fn count(frame: &[u8]) -> u16 {
    word(frame, 18)
}

fn table(bench: &Bench) -> Result<Found, Failed> {
    let mut steps = vec![
        Step { at: 0, switch: 0, place: 0, reads: false },
        Step { at: 5 * MS, switch: 0, place: 1, reads: false },
    ];
    steps.extend((0..5).map(|n| Step { at: (150 + 400 * n) * MS, switch: 1, place: 2, reads: false }));
    let mut cases = Vec::new();
    for app in [App::Nat, App::Firewall] {
        for plain in [true, false] {
            cases.push((app, build(bench, app, plain)?));
        }
    }
    let runs = bench.each("connections and a switch that fails", &cases, |(app, build), seed| {
        let seen = play(testbed(setup(build, 3, seed)?)?, &steps, flows(bench), Some(100 * MS));
        let port = |frame: &Option<Vec<u8>>| frame.as_ref().map(|f| word(f, 34));
        let is_broken = |flow: &[Option<Vec<u8>>]| {
            let before = port(&flow[1]);
            let after: Vec<u16> = flow[2..].iter().filter_map(port).collect();
            before.is_none()
                || after.is_empty()
                || (*app == App::Nat && after.iter().any(|p| Some(*p) != before))
        };
        Ok(share(&seen, is_broken))
    })?;
    Ok(judged(&runs))
}

/// The claims and the chart of the table, of the shares of broken connections: NAT without RedPlane and with it, then firewall.
pub fn judged(runs: &[Vec<f64>]) -> Found {
    let mut found = Found::default();
    for (id, samples) in ["nat-plain", "nat", "firewall-plain", "firewall"].iter().zip(runs) {
        found.claim(id, samples.clone());
    }
    let curve = |name: &str, first: usize| Curve {
        name: name.into(),
        points: vec![Point::new(1.0, runs[first].clone()), Point::new(2.0, runs[first + 2].clone())],
    };
    let ours = vec![curve("without RedPlane", 0), curve("RedPlane", 1)];
    found.charts.push(Chart { title: "Connections broken".into(), x: APP, y: BROKEN, ours, paper: vec![] });
    found
}

/// A counter with a change of the library.
fn counter(bench: &Bench, name: &str, changes: &[(&str, &str)]) -> Result<Arc<Build>, ProgramError> {
    let make = || Build::new(App::Counter, false, super::JUMBO, changes);
    bench.once(&format!("redplane counter {name}"), make)
}

fn sequencing(bench: &Bench) -> Result<Found, Failed> {
    let whole = build(bench, App::Counter, false)?;
    let silent =
        counter(bench, "no-resend", &[("recirculate_preserving_field_list(0);", "mark_to_drop(sm);")])?;
    // The first one fetches the state.
    let mut steps = vec![Step { at: 0, switch: 0, place: 0, reads: false }];
    steps.extend((0..10).map(|n| Step { at: 20 * MS + n * 5_000, switch: 0, place: 1, reads: false }));
    // So many that not all of their requests are lost.
    steps.extend((0..10).map(|n| Step { at: (250 + 400 * n) * MS, switch: 1, place: 2, reads: true }));
    let cases = [
        (&whole, None, 0.0),
        (&whole, Some(StoreRule::Newer), 0.0),
        (&whole, None, 0.2),
        (&silent, None, 0.2),
    ];
    let runs = bench.each("counts and a switch that fails", &cases, |(build, without, loss), seed| {
        let mut setup = setup(build, 1, seed)?;
        (setup.store.without, setup.loss, setup.disorder_ns) = (*without, *loss, 100_000);
        let is_wrong = |flow: &[Option<Vec<u8>>]| {
            let last = flow[..11].iter().flatten().map(|f| count(f)).max();
            let shown = flow[11..].iter().flatten().map(|f| count(f)).max();
            // Lost packets were counted, too: their state must be in the store when it is sent again.
            let all = if *loss > 0.0 { Some(steps.iter().filter(|s| !s.reads).count() as u16) } else { last };
            shown < all.filter(|_| flow[0].is_some())
        };
        Ok(share(&play(testbed(setup)?, &steps, flows(bench), Some(220 * MS)), is_wrong))
    })?;
    let mut found = Found::default();
    for (id, samples) in ["sequencing", "no-sequencing", "resend", "no-resend"].iter().zip(&runs) {
        found.claim(id, samples.clone());
    }
    found.charts.push(with_and_without(&runs, &["sequence numbers", "retransmission"]));
    Ok(found)
}

fn with_and_without(runs: &[Vec<f64>], names: &[&str]) -> Chart {
    let curve = |(name, runs): (&&str, &[Vec<f64>])| Curve {
        name: (*name).into(),
        points: vec![Point::new(1.0, runs[0].clone()), Point::new(2.0, runs[1].clone())],
    };
    let ours = names.iter().zip(runs.chunks(2)).map(curve).collect();
    Chart { title: "Flows with wrong counts".into(), x: RULES, y: WRONG, ours, paper: Vec::new() }
}

fn leases(bench: &Bench) -> Result<Found, Failed> {
    let whole = build(bench, App::Counter, false)?;
    let forever = counter(
        bench,
        "no-lease",
        &[("bool leased = sm.ingress_global_timestamp < m.slot.until;", "bool leased = true;")],
    )?;
    let step = |n: u64, switch, reads| Step { at: n * 400 * MS, switch, place: 1, reads };
    let mut steps: Vec<Step> = [0, 0, 1, 1].iter().zip(0..).map(|(s, n)| step(n, *s, false)).collect();
    steps.extend((4..7).map(|n| step(n, 0, true)));
    let cases = [(&whole, None), (&forever, Some(StoreRule::LeaseEnds))];
    let runs = bench.each("reads after two moves", &cases, |(build, without), seed| {
        let mut setup = setup(build, 1, seed)?;
        (setup.store.without, setup.store.recall) = (*without, without.is_none());
        let is_stale = |flow: &[Option<Vec<u8>>]| {
            let shown: Vec<u16> = flow.iter().flatten().map(|f| count(f)).collect();
            let reads = flow[4..].iter().any(Option::is_some);
            shown.windows(2).any(|pair| pair[1] < pair[0]) || !reads
        };
        Ok(share(&play(testbed(setup)?, &steps, flows(bench), None), is_stale))
    })?;
    let mut found = Found::default();
    found.claim("leases", runs[0].clone());
    found.claim("no-leases", runs[1].clone());
    found.charts.push(with_and_without(&runs, &["leases"]));
    Ok(found)
}
