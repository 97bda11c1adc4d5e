//! Figure 5.13: bytes of snapshots.

use super::setup;
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_testbed::trace::Sent;
use pointsman_testbed::{App, Build, Setup, Snapshots, Testbed};
use std::sync::Arc;

const MS: u64 = 1_000_000;
const PERIOD: Quantity =
    Quantity { name: "period", unit: "ms", label: "time between two snapshots, ms", log: true };
const RATE: Quantity = Quantity { name: "messages", unit: "mbit_s", label: "messages, Mbit/s", log: true };
/// The count starts then.
const BEGIN_NS: u64 = 20 * MS;
/// Packets a second for the comparison with a counter.
const PACKETS_S: u64 = 200_000;

pub const SNAPSHOTS: Figure = Figure {
    id: "redplane-fig-5.13",
    title: "Bandwidth of snapshots by period and number of sketches",
    source: "RedPlane, thesis section 5.6.2",
    place: Place::Simulator(bandwidth),
    remarks: &[
        "one VLAN, sketches of 64 counters; one of each is in a message (the paper's), so that more sketches make messages longer, not more. Bytes of requests and answers at the ports of the switch",
        "the paper's 34.16 Mbit/s are 66.7 bytes for each of 64 messages in a millisecond: about its requests of 58 bytes, in one direction. Our requests have 114 bytes with three sketches \
         (grant, incarnation, stamp and digest are not in the paper's), and each has an answer of the same length",
        "its 13.8 % would be of 248 Mbit/s, a load that the paper does not state. Bytes of snapshots do not depend on the load: the part can be any. Our comparison with a counter is at 200,000 packets of 68 bytes a second (ours); \
         below about 40,000 a second a counter costs fewer bytes than snapshots each millisecond",
    ],
    claims: &[
        Claim {
            id: "bandwidth",
            text: "snapshots of three sketches each millisecond",
            paper: 34.16,
            unit: "Mbit/s",
            rule: Rule::AtMost,
            source: Source::Text,
        },
        Claim {
            id: "counter",
            text: "five sketches: messages as a part of all bytes are less than a counter's, at 200,000 packets a second",
            paper: 51.2,
            unit: "%",
            rule: Rule::AtMost,
            source: Source::Text,
        },
    ],
};

struct Case {
    build: Arc<Build>,
    period_ns: u64,
    packets_s: u64,
}

/// Mbit/s of messages, and their part of all bytes in per cent.
fn measured(bench: &Bench, case: &Case, seed: u64) -> Result<(f64, f64), Failed> {
    let snapshots = Snapshots { period_ns: case.period_ns, ..Snapshots::default() };
    let run = Setup { snapshots, resend_ns: case.period_ns / 4, ..setup(&case.build, 1, seed)? };
    let mut testbed = Testbed::new(run)?;
    let end = BEGIN_NS + bench.choose(128, 32) * MS;
    let gap = 1_000_000_000u64.checked_div(case.packets_s).unwrap_or(end);
    let mut before = None;
    let mut at = 0;
    while at < end {
        while testbed.next(at).is_some() {}
        // All in one VLAN.
        let flow = 2 * (at / gap % 100) as u32;
        let sent = Sent { at, flow, place: 1, last: false, bytes: 64 };
        testbed.send(at, (0, 0), App::HeavyHitters.frame(&sent, 0, true), 0);
        at += gap;
        if before.is_none() && at >= BEGIN_NS {
            while testbed.next(BEGIN_NS).is_some() {}
            before = Some(testbed.bytes());
        }
    }
    while testbed.next(end).is_some() {}
    let (all, before) = (testbed.bytes(), before.unwrap_or_default());
    let (stores, hosts) = ((all.stores - before.stores) as f64, (all.hosts - before.hosts) as f64);
    Ok((stores * 8e3 / (end - BEGIN_NS) as f64, 100.0 * stores / (stores + hosts)))
}

fn name(sketches: usize) -> String {
    format!("{sketches} {}", if sketches == 1 { "sketch" } else { "sketches" })
}

fn bandwidth(bench: &Bench) -> Result<Found, Failed> {
    let periods: &[u64] = bench.choose(&[1, 2, 4, 8, 16], &[1, 8]);
    let build = |sketches: usize| {
        let defines = format!("#define REDPLANE_PLACES 2\n#define REDPLANE_VALUE_WORDS {sketches}\n");
        bench.once(&format!("redplane heavy hitters {sketches}"), || {
            Build::new(App::HeavyHitters, false, &defines, &[])
        })
    };
    let builds = (1..=5).map(build).collect::<Result<Vec<_>, _>>()?;
    let case =
        |build: &Arc<Build>, ms: u64, packets_s| Case { build: build.clone(), period_ns: ms * MS, packets_s };
    let mut cases: Vec<Case> =
        builds.iter().flat_map(|build| periods.iter().map(|ms| case(build, *ms, 0))).collect();
    cases.push(case(&builds[4], 1, PACKETS_S));
    let runs = bench.each("snapshots", &cases, |case, seed| measured(bench, case, seed))?;
    let curve = |(n, runs): (usize, &[Vec<(f64, f64)>])| {
        let point = |(ms, run): (&u64, &Vec<(f64, f64)>)| {
            Point::new(*ms as f64, run.iter().map(|(mbit_s, _)| *mbit_s).collect())
        };
        Curve { name: name(n + 1), points: periods.iter().zip(runs).map(point).collect() }
    };
    let (last, curves) = runs.split_last().ok_or(ExperimentError::None("run"))?;
    let ours = curves.chunks(periods.len()).enumerate().map(curve).collect();
    let paper = vec![Curve::paper(&name(3), &[(1.0, 34.16)])];
    let chart = Chart { title: "Messages of snapshots".into(), x: PERIOD, y: RATE, ours, paper };
    let mut found = Found::default();
    found.claim("bandwidth", chart.evidence(&name(3), 1.0));
    found.claim("counter", last.iter().map(|(_, part)| *part).collect::<Vec<_>>());
    found.charts.push(chart);
    Ok(found)
}
