//! Figures 5.12 and 5.17: bytes of messages, and the buffer of writes.

use super::{JUMBO, TIMES, build, setup};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_testbed::trace::{self, Sent, Traffic};
use pointsman_testbed::{App, Build, Testbed, TestbedError, Times};
use std::net::Ipv4Addr;

const APP: Quantity = Quantity { name: "application", unit: "", label: super::APPLICATIONS, log: false };
const SHARE: Quantity =
    Quantity { name: "messages", unit: "percent", label: "messages, % of all bytes", log: false };
const RATE: Quantity = Quantity { name: "rate", unit: "gbit_s", label: "packets, Gbit/s", log: false };
const BUFFER: Quantity =
    Quantity { name: "buffer", unit: "kb", label: "most bytes in the buffer, KB", log: false };

const fn about(id: &'static str, text: &'static str, percent: f64) -> Claim {
    Claim { id, text, paper: percent, unit: "%", rule: Rule::Effect { neutral: 0.0 }, source: Source::Text }
}

/// A number for "almost no".
const fn little(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 1.0, unit: "%", rule: Rule::AtMost, source: Source::Ours }
}

pub const BANDWIDTH: Figure = Figure {
    id: "redplane-fig-5.12",
    title: "Messages to and from the store, as a part of all bytes",
    source: "RedPlane, thesis section 5.6.2",
    place: Place::Simulator(bandwidth),
    remarks: &[
        "frames of 64 bytes (the paper's), connections of 1,000 packets on average, 50,000 packets a second after a quarter of the run (ours). Bytes at the ports of the switch, in and out, of packets and of messages",
        "a message has 114 to 122 bytes of headers here (the paper's have about 50): grant, incarnation, stamp, digest",
        "the gateway gets a signalling packet for 17 of data, as in the paper. Snapshots of a heavy-hitter detector are figure 5.13. More than two switches are not run",
    ],
    claims: &[
        little("nat", "NAT: almost no overhead"),
        little("firewall", "firewall: almost no overhead"),
        little("dispatch", "load balancer: almost no overhead"),
        about("gateway", "serving gateway", 12.8),
        about("counter", "a counter that every packet changes", 51.2),
    ],
};

pub const OCCUPANCY: Figure = Figure {
    id: "redplane-fig-5.17",
    title: "The buffer of writes that are not yet acknowledged",
    source: "RedPlane, thesis section 5.6.4",
    place: Place::Simulator(occupancy),
    remarks: &[
        TIMES,
        "frames of 1,500 bytes, each of which changes a state (the paper does not give their size); one store with 40 cores (the paper's servers have 40). The links to \
         the store are not filled up in the model",
        "our buffer looks at a write every microsecond, and sends it again when it is 30 us old. The bytes are those of a write without its packet, 118",
        "the paper's bound without loss is less than what is under way: 8.2 million requests a second for 8 us are 66 requests, which would have 23 bytes each. Its \
         switch reports the depth of a queue, in which a copy that passes the pipeline is not counted",
        "lost requests are repaired after 30 us here, and a later write of the same key replaces an older one, so that 2 % of loss is hardly seen. Twelve times as much would \
         need 4.5 ms until a loss is repaired",
        "curve `one look`: a write is looked at only when it would be sent again, after 30 us. That is the library without REDPLANE_RESEND",
    ],
    claims: &[
        Claim {
            id: "no-loss",
            text: "at 100 Gbit/s without loss",
            paper: 1.5,
            unit: "KB",
            rule: Rule::AtMost,
            source: Source::Text,
        },
        Claim {
            id: "loss",
            text: "at 100 Gbit/s with 2 % of the requests lost",
            paper: 18.0,
            unit: "KB",
            rule: Rule::AtMost,
            source: Source::Text,
        },
        Claim {
            id: "more",
            text: "2 % of loss: times as much as without loss",
            paper: 12.0,
            unit: "times",
            rule: Rule::Effect { neutral: 1.0 },
            source: Source::Text,
        },
    ],
};

fn testbed(setup: pointsman_testbed::Setup<'_>) -> Result<Testbed<'_>, TestbedError> {
    Testbed::new(setup)
}

/// The part of messages, in per cent.
fn messages(bench: &Bench, build: &Build, seed: u64) -> Result<f64, Failed> {
    let mut testbed = testbed(setup(build, 1, seed)?)?;
    let packets = bench.choose(40_000, 20_000);
    let traffic = Traffic { packets, rate_per_s: 5e4, mean_packets: 1000.0, bytes: Some(64) };
    let app = build.app();
    let mut before = None;
    for (n, s) in trace::packets(&traffic, seed).iter().enumerate() {
        while testbed.next(s.at).is_some() {}
        // At first all connections begin at the same time.
        if n as u32 >= packets / 4 {
            before.get_or_insert(testbed.bytes());
        }
        let writes = app != App::Gateway || super::signals(s);
        testbed.send(s.at, (0, 0), app.frame(s, n as u32, writes), 0);
    }
    let end = testbed.now() + 100_000_000;
    while testbed.next(end).is_some() {}
    let (bytes, before) = (testbed.bytes(), before.unwrap_or_default());
    let (stores, hosts) = (bytes.stores - before.stores, bytes.hosts - before.hosts);
    Ok(100.0 * stores as f64 / (stores + hosts) as f64)
}

fn bandwidth(bench: &Bench) -> Result<Found, Failed> {
    let builds = super::SYNCHRONOUS.iter().map(|app| build(bench, *app, false));
    let builds = builds.collect::<Result<Vec<_>, _>>()?;
    let runs = bench.each("messages of applications", &builds, |build, seed| messages(bench, build, seed))?;
    let mut found = Found::default();
    for (id, samples) in ["nat", "firewall", "dispatch", "gateway", "counter"].iter().zip(&runs) {
        found.claim(id, samples.clone());
    }
    let points = runs.iter().enumerate().map(|(n, s)| Point::new((n + 1) as f64, s.clone()));
    let ours = vec![Curve { name: "RedPlane".into(), points: points.collect() }];
    let paper = vec![Curve::paper("RedPlane", &[(4.0, 12.8), (5.0, 51.2)])];
    found.charts.push(Chart { title: "Messages".into(), x: APP, y: SHARE, ours, paper });
    Ok(found)
}

/// Bytes of a write without its packet: those of the headers, with a key of 16 bytes and a value of 4.
const WRITE_BYTES: u64 = 118;
/// Frames of the traffic.
const FRAME: usize = 1500;
/// A write is sent again then, and looked at so often before, in nanoseconds.
const RESEND_NS: u64 = 30_000;
const LOOK_NS: u64 = 1_000;
/// Flows of which each packet changes the state.
const FLOWS: u32 = 200;
/// When the load begins: all flows have their state then.
const BEGIN_NS: u64 = 20_000_000;

/// The most bytes in the buffer, in KB.
fn most(
    bench: &Bench,
    (build, look_ns): (&Build, u64),
    (gbit_s, loss): (f64, f64),
    seed: u64,
) -> Result<f64, Failed> {
    let mut run = setup(build, 1, seed)?;
    (run.loss, run.resend_ns, run.times) = (loss, look_ns, Times { cores: 40, ..run.times });
    let mut testbed = testbed(run)?;
    let to = Ipv4Addr::new(10, 0, 0, 1);
    let sent = |at, flow| Sent { at, flow, place: 1, last: false, bytes: FRAME };
    for flow in 0..FLOWS {
        // More than once, because a request may be lost.
        for again in 0..4 {
            let at = u64::from(flow + again * FLOWS) * 20_000;
            testbed.send(at, (0, 0), trace::frame(&sent(at, flow), 0, to, true), 0);
        }
    }
    let gap_ns = (FRAME + 24) as f64 * 8.0 / gbit_s;
    let packets = (bench.choose(2e6, 5e5) / gap_ns) as u32;
    let mut most = 0;
    for n in 0..packets {
        let at = BEGIN_NS + (f64::from(n) * gap_ns) as u64;
        while testbed.next(at).is_some() {}
        most = most.max(testbed.register(0, "redplane_buffered", 0).unwrap_or(0));
        testbed.send(at, (0, 0), trace::frame(&sent(at, n % FLOWS), n, to, false), 0);
    }
    Ok((most * WRITE_BYTES) as f64 / 1e3)
}

fn occupancy(bench: &Bench) -> Result<Found, Failed> {
    let once = build(bench, App::Counter, false)?;
    let defines = format!("{JUMBO}#define REDPLANE_RESEND {RESEND_NS}\n");
    let looks =
        bench.once("redplane counter that looks", || Build::new(App::Counter, false, &defines, &[]))?;
    let rates: &[f64] = bench.choose(&[20.0, 40.0, 60.0, 80.0, 100.0], &[100.0]);
    let curves = [
        ("no loss", (&*looks, LOOK_NS), 0.0),
        ("1 % of the requests lost", (&*looks, LOOK_NS), 0.01),
        ("2 % of the requests lost", (&*looks, LOOK_NS), 0.02),
        ("no loss, one look", (&*once, RESEND_NS), 0.0),
    ];
    let cases: Vec<_> = curves
        .iter()
        .flat_map(|(_, build, loss)| rates.iter().map(|rate| (*build, (*rate, *loss))))
        .collect();
    let runs =
        bench.each("the buffer of writes", &cases, |(build, load), seed| most(bench, *build, *load, seed))?;
    let ours: Vec<Curve> = curves
        .iter()
        .zip(runs.chunks(rates.len()))
        .map(|((name, ..), runs)| Curve {
            name: (*name).into(),
            points: rates.iter().zip(runs).map(|(x, s)| Point::new(*x, s.clone())).collect(),
        })
        .collect();
    let paper = vec![
        Curve::paper("no loss", &[(100.0, 1.5)]),
        Curve::paper("2 % of the requests lost", &[(100.0, 18.0)]),
    ];
    let chart = Chart { title: "Most bytes in the buffer".into(), x: RATE, y: BUFFER, ours, paper };
    let mut found = Found::default();
    found.claim("no-loss", chart.evidence("no loss", 100.0));
    found.claim("loss", chart.evidence("2 % of the requests lost", 100.0));
    found.claim("more", chart.over(("2 % of the requests lost", 100.0), ("no loss", 100.0)));
    found.charts.push(chart);
    Ok(found)
}
