//! Figures 5.10 and 5.11: round-trip times through the switch and back.

use super::{SHARE, TIMES, TRACE, build, percentile, setup};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{
    Chart, Claim, Curve, Evidence, Figure, Found, Lossy, Place, Point, Quantity, Rule, Source,
};
use pointsman_sim::random::{Part, Stream};
use pointsman_testbed::trace::{self, Sent, Traffic};
use pointsman_testbed::{App, Build, Happened, Testbed, Times};

const SECTION: &str = "RedPlane, thesis section 5.6.1";
pub const RTT: Quantity = Quantity { name: "rtt", unit: "us", label: "round-trip time, us", log: true };
const WHERE: Quantity = Quantity { name: "application", unit: "", label: super::APPLICATIONS, log: false };
const PERCENTS: [f64; 9] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// The switch's processor puts an entry into a table: so that P99 without RedPlane is the paper's 110 us.
const CONTROL_US: f64 = 103.0;
/// A pass of a packet through a software switch: half of what `pointsman af_xdp` adds to a request's median with one client (docs/benchmarks.md).
const SOFTWARE_US: f64 = 10.0;
/// A message of 200 bytes on the management network's links, 1 Gbit/s (the paper's).
const MANAGEMENT_US: f64 = 1.6;

pub const fn same(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1.0, unit: "times", rule: Rule::Same { within: 0.05 }, source: Source::Text }
}

const fn adds(id: &'static str, text: &'static str, us: f64) -> Claim {
    Claim { id, text, paper: us, unit: "us", rule: Rule::Effect { neutral: 0.0 }, source: Source::Text }
}

pub const NAT: Figure = Figure {
    id: "redplane-fig-5.10",
    title: "Round-trip times through a NAT: RedPlane and other approaches",
    source: SECTION,
    place: Place::Simulator(nat),
    remarks: &[
        TIMES,
        TRACE,
        "the paper's NAT keeps its bindings in tables, which the switch's processor fills; ours keeps them in registers, which the data plane fills. The \
         curves with a control plane add 103 us to the packets of a connection until its entry is there, so that P99 without RedPlane is the paper's 110 us",
        "by controller: the entry also takes a round trip on a management network of 1 Gbit/s (the paper's) and passes three controllers, 10 us in each (ours)",
        "by server: the packet passes a rack's server, 10 us in software (ours: half of what our switch adds to a request, docs/benchmarks.md); replicated: \
         three of them, one after the other. These two and the control plane are delays, all else are running programs",
    ],
    claims: &[
        same("p50", "the median with RedPlane is that without (7 us)"),
        same("p90", "the 90th percentile with RedPlane is that without (8 us)"),
        Claim {
            id: "p90-us",
            text: "the 90th percentile without RedPlane",
            paper: 8.0,
            unit: "us",
            rule: Rule::Same { within: 1.0 },
            source: Source::Text,
        },
        adds(
            "p99-redplane",
            "with a control plane, P99 with RedPlane is larger than without (142 and 110 us)",
            32.0,
        ),
        adds(
            "p99-controller",
            "with a control plane, P99 by controller is larger than without (185 and 110 us)",
            75.0,
        ),
        Claim {
            id: "server",
            text: "the median of a replicated NAT on servers, over that of the switch (7 to 14 times)",
            paper: 7.0,
            unit: "times",
            rule: Rule::Range { neutral: 1.0, to: 14.0 },
            source: Source::Text,
        },
        Claim {
            id: "p99-registers",
            text: "filled by the data plane, RedPlane's P99 is at most that of the paper's plain NAT",
            paper: 110.0,
            unit: "us",
            rule: Rule::AtMost,
            source: Source::Ours,
        },
    ],
};

pub const APPS: Figure = Figure {
    id: "redplane-fig-5.11",
    title: "Round-trip times by application, with and without a chain of stores",
    source: SECTION,
    place: Place::Simulator(apps),
    remarks: &[
        TIMES,
        TRACE,
        "the gateway gets a signalling packet for 17 of data, as in the paper. Packets of the heavy-hitter detector wait for nothing, and are not measured",
        "the paper's summary has 8 us for the worst case, which is the counter without a chain",
        "our model gives a step of the chain the same way as a request and its answer: two ends and three switches. The paper's 6 us for a step and 8 us for \
         the way to the store and back do not agree with this",
    ],
    claims: &[
        same("nat", "NAT: the median with a chain is that without RedPlane"),
        same("firewall", "firewall: the median with a chain is that without RedPlane"),
        same("dispatch", "load balancer: the median with a chain is that without RedPlane"),
        same("gateway", "serving gateway: the median with a chain is that without RedPlane"),
        adds("counter", "a counter: the median with a chain is larger than without RedPlane", 20.0),
        adds("alone", "a counter: the median with one store is larger than without RedPlane", 8.0),
        adds("chain", "a counter: the chain's part of the median", 12.0),
    ],
};

/// Round-trip times of a run, in microseconds, and the share of packets that did not come back.
#[derive(Clone)]
pub struct Ran {
    rtts: Vec<f64>,
    lost_percent: f64,
}

impl Lossy for Ran {
    fn loss_percent(&self) -> Option<f64> {
        Some(self.lost_percent)
    }
}

impl Ran {
    /// Of the time of each packet, if it came back.
    pub fn of(packets: impl ExactSizeIterator<Item = Option<f64>>) -> Self {
        let sent = packets.len();
        let rtts: Vec<f64> = packets.flatten().collect();
        let lost_percent = 100.0 * (1.0 - rtts.len() as f64 / sent as f64);
        Ran { rtts, lost_percent }
    }

    fn percentile(&mut self, percent: f64) -> f64 {
        percentile(&mut self.rtts, percent)
    }
}

/// What is measured.
struct Case<'a> {
    build: &'a Build,
    stores: usize,
    /// One packet in so many changes the state; the others only read. 0: as the program has it.
    write_one_in: u32,
    /// What a connection's entry takes before it is there, in microseconds.
    entry_us: f64,
}

fn traffic(bench: &Bench) -> Traffic {
    Traffic { packets: bench.choose(50_000, 10_000), rate_per_s: 5e4, mean_packets: 40.0, bytes: None }
}

/// When the entry of a packet's connection is there: all packets before wait for it.
fn ready(sent: &[Sent], entry_us: f64, random: &mut Stream) -> Vec<u64> {
    let mut of_flow = std::collections::BTreeMap::new();
    let mut at = |s: &Sent| {
        let ready = of_flow.entry(s.flow).or_insert_with(|| {
            let us = entry_us * (1.0 + 0.05 * (random.exponential() - 1.0));
            s.at + (1e3 * us) as u64
        });
        ready.saturating_sub(s.at)
    };
    sent.iter().map(|s| if entry_us == 0.0 { 0 } else { at(s) }).collect()
}

fn run(bench: &Bench, case: &Case<'_>, seed: u64) -> Result<Ran, Failed> {
    let mut testbed = Testbed::new(setup(case.build, case.stores, seed)?)?;
    let sent = trace::packets(&traffic(bench), seed);
    let mut random = Stream::new(seed, Part::Service, 0);
    let waits = ready(&sent, case.entry_us, &mut random);
    let app = case.build.app();
    let mut rtts = Vec::with_capacity(sent.len());
    let mut back = |happened: Happened, now: u64| {
        if let Happened::AtHost { frame, .. } = happened
            && let Some(sent) = app.number(&frame).and_then(|n| sent.get(n as usize))
        {
            rtts.push((now - sent.at) as f64 / 1e3);
        }
    };
    for (n, (s, wait)) in sent.iter().zip(waits).enumerate() {
        while let Some(happened) = testbed.next(s.at) {
            back(happened, testbed.now());
        }
        let writes = if app == App::Gateway {
            super::signals(s)
        } else {
            case.write_one_in == 0 || (n as u32).is_multiple_of(case.write_one_in)
        };
        testbed.send(s.at, (0, 0), app.frame(s, n as u32, writes), wait);
    }
    let end = testbed.now() + 100_000_000;
    while let Some(happened) = testbed.next(end) {
        back(happened, testbed.now());
    }
    let lost_percent = 100.0 * (1.0 - rtts.len() as f64 / sent.len() as f64);
    Ok(Ran { rtts, lost_percent })
}

/// A NAT on servers of racks, so many one after the other: delays only.
fn on_servers(bench: &Bench, servers: u32, seed: u64) -> Ran {
    let times = Times::default();
    let mut random = Stream::new(seed, Part::Service, 1);
    let us = |ns: u64| ns as f64 / 1e3;
    let mut rtts = Vec::new();
    for s in trace::packets(&traffic(bench), seed) {
        // Host, core, switch, rack, server and back; between servers the way between racks.
        let mut ns = 2 * (times.near_ns(s.bytes) + times.switch_ns + times.near_ns(s.bytes))
            + u64::from(servers - 1) * times.far_ns(s.bytes);
        for _ in 0..2 * (servers + 1) {
            ns += times.end(&mut random);
        }
        let software = SOFTWARE_US * f64::from(servers);
        rtts.push(us(ns) + software * (0.9 + 0.1 * random.exponential()));
    }
    Ran { rtts, lost_percent: 0.0 }
}

/// Distributions as curves: the share of packets by their time would be steps, so the time is on the vertical axis.
pub fn distribution(name: &str, runs: &mut [Ran]) -> Curve {
    let loss_percent = crate::figure::worst(runs.iter().map(Lossy::loss_percent));
    let mut point = |percent: f64| {
        let samples = runs.iter_mut().map(|r| r.percentile(percent)).collect();
        Point { x: percent, samples, loss_percent }
    };
    Curve { name: name.into(), points: PERCENTS.iter().map(|p| point(*p)).collect() }
}

/// Sample by sample, the difference of two curves at a place.
pub fn more(chart: &Chart, (a, b): (&str, &str), x: f64) -> Evidence {
    let (a, b) = (chart.evidence(a, x), chart.evidence(b, x));
    let samples = a.samples.iter().zip(&b.samples).map(|(a, b)| a - b).collect();
    let loss_percent = crate::figure::worst([a.loss_percent, b.loss_percent].into_iter());
    Evidence { samples, loss_percent }
}

/// What an entry takes by controller: the management network there and back, and three controllers in a chain.
fn by_controller_us() -> f64 {
    let times = Times::default();
    let way = (times.switch_ns + 2 * (times.end_ns + times.jitter_ns)) as f64 / 1e3 + 2.0 * MANAGEMENT_US;
    CONTROL_US + 2.0 * way + SOFTWARE_US + 2.0 * (way + SOFTWARE_US)
}

fn nat(bench: &Bench) -> Result<Found, Failed> {
    let (plain, protected) = (build(bench, App::Nat, true)?, build(bench, App::Nat, false)?);
    let case = |build, stores, entry_us| Case { build, stores, write_one_in: 0, entry_us };
    let cases = [
        ("plain", case(&plain, 1, 0.0)),
        ("RedPlane", case(&protected, 3, 0.0)),
        ("RedPlane, one store", case(&protected, 1, 0.0)),
        ("plain, control plane", case(&plain, 1, CONTROL_US)),
        ("RedPlane, control plane", case(&protected, 3, CONTROL_US)),
        ("by controller", case(&plain, 1, by_controller_us())),
    ];
    let mut runs =
        bench.each("round trips through a NAT", &cases, |(_, case), seed| run(bench, case, seed))?;
    let mut ours: Vec<Curve> =
        cases.iter().zip(&mut runs).map(|((name, _), runs)| distribution(name, runs)).collect();
    for (name, servers) in [("by server", 1), ("by replicated server", 3)] {
        let mut runs: Vec<Ran> = bench.seeds().map(|seed| on_servers(bench, servers, seed)).collect();
        ours.push(distribution(name, &mut runs));
    }
    let paper = vec![
        Curve::paper("plain, control plane", &[(50.0, 7.0), (90.0, 8.0), (99.0, 110.0)]),
        Curve::paper("RedPlane, control plane", &[(50.0, 7.0), (90.0, 8.0), (99.0, 142.0)]),
        Curve::paper("by controller", &[(99.0, 185.0)]),
    ];
    let chart = Chart { title: "Percentiles of round-trip times".into(), x: SHARE, y: RTT, ours, paper };
    let mut found = Found::default();
    found.claim("p50", chart.over(("RedPlane", 50.0), ("plain", 50.0)));
    found.claim("p90", chart.over(("RedPlane", 90.0), ("plain", 90.0)));
    found.claim("p90-us", chart.evidence("plain", 90.0));
    let control = "plain, control plane";
    found.claim("p99-redplane", more(&chart, ("RedPlane, control plane", control), 99.0));
    found.claim("p99-controller", more(&chart, ("by controller", control), 99.0));
    found.claim("server", chart.over(("by replicated server", 50.0), ("plain", 50.0)));
    found.claim("p99-registers", chart.evidence("RedPlane", 99.0));
    found.charts.push(chart);
    Ok(found)
}

/// Medians and 99th percentiles, of runs without RedPlane, with one store and with a chain for each application, which has these places on the axis.
pub fn by_application(at: &[f64], runs: &mut [Vec<Ran>]) -> Vec<Chart> {
    let mut chart = |(title, percent): (&str, f64)| {
        let mut ours: Vec<Curve> = ["without RedPlane", "one store", "chain"]
            .map(|name| Curve { name: name.into(), points: Vec::new() })
            .into();
        for (x, runs) in at.iter().zip(runs.chunks_mut(3)) {
            for (curve, runs) in ours.iter_mut().zip(runs) {
                let loss_percent = crate::figure::worst(runs.iter().map(Lossy::loss_percent));
                let samples = runs.iter_mut().map(|r| r.percentile(percent)).collect();
                curve.points.push(Point { x: *x, samples, loss_percent });
            }
        }
        Chart { title: title.into(), x: WHERE, y: RTT, ours, paper: Vec::new() }
    };
    vec![chart(("Medians", 50.0)), chart(("99th percentiles", 99.0))]
}

fn apps(bench: &Bench) -> Result<Found, Failed> {
    let of = |app| Ok::<_, Failed>([build(bench, app, true)?, build(bench, app, false)?]);
    let names = ["nat", "firewall", "dispatch", "gateway", "counter"];
    let mut cases = Vec::new();
    let builds = super::SYNCHRONOUS.iter().map(|app| of(*app)).collect::<Result<Vec<_>, _>>()?;
    for [plain, protected] in &builds {
        for (build, stores) in [(plain, 1), (protected, 1), (protected, 3)] {
            cases.push(Case { build, stores, write_one_in: 0, entry_us: 0.0 });
        }
    }
    let mut runs = bench.each("round trips by application", &cases, |case, seed| run(bench, case, seed))?;
    let charts = by_application(&[1.0, 2.0, 3.0, 4.0, 5.0], &mut runs);
    let mut found = Found { charts, ..Found::default() };
    let medians = found.charts[0].clone();
    for (n, id) in names.iter().take(4).enumerate() {
        let x = (n + 1) as f64;
        found.claim(id, medians.over(("chain", x), ("without RedPlane", x)));
    }
    found.claim("counter", more(&medians, ("chain", "without RedPlane"), 5.0));
    found.claim("alone", more(&medians, ("one store", "without RedPlane"), 5.0));
    found.claim("chain", more(&medians, ("chain", "one store"), 5.0));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Coming, Where};

    #[test]
    fn a_write_waits_for_the_store_and_a_read_does_not() {
        let bench = Bench::new(1, 1, true, Coming::Poisson, Where::Simulator, 1).expect("a bench");
        let build = build(&bench, App::Counter, false).expect("a program");
        let median = |stores, write_one_in| {
            let case = Case { build: &build, stores, write_one_in, entry_us: 0.0 };
            let mut ran = run(&bench, &case, 1).expect("a run");
            assert!(ran.lost_percent < 0.1, "{} % lost", ran.lost_percent);
            ran.percentile(50.0)
        };
        let (read, alone, chain) = (median(1, 1000), median(1, 0), median(3, 0));
        assert!(read < 8.0 && alone > read + 6.0 && chain > alone + 10.0, "{read} {alone} {chain} us");
    }

    #[test]
    fn packets_wait_for_the_entry_of_their_connection() {
        let sent = |at, flow| Sent { at, flow, place: 0, last: false, bytes: 64 };
        let all = [sent(0, 1), sent(1_000, 1), sent(1_000, 2), sent(900_000, 1)];
        let waits = ready(&all, 100.0, &mut Stream::new(1, Part::Service, 0));
        assert!(waits[0] > 90_000 && waits[1] == waits[0] - 1_000 && waits[2] > 90_000 && waits[3] == 0);
    }
}
