//! Figures 5.12 and 5.17: bytes of messages, and the buffer of writes.

use super::{TIMES, build, setup};
use crate::bench::Bench;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source};
use pointsman_testbed::trace::{self, Sent, Traffic};
use pointsman_testbed::{App, Build, Testbed, Times};
use std::net::Ipv4Addr;

const APP: Quantity = Quantity {
    name: "application",
    unit: "",
    label: "1: NAT; 2: firewall; 3: one write for 17 reads; 4: a counter",
    log: false,
};
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
        "a message has 118 bytes of headers here, 122 for the NAT (the paper's have about 50): grant, incarnation, stamp, digest",
        "the paper's gateway is a counter here of which one packet in 18 writes. Load balancer and heavy-hitter detector do not exist yet, nor do more than two switches",
    ],
    claims: &[
        little("nat", "NAT: almost no overhead"),
        little("firewall", "firewall: almost no overhead"),
        about("mixed", "one write for 17 reads", 12.8),
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
        "our buffer is a queue that holds each write for a fixed time, here 30 us, before it looks whether the write was acknowledged; the paper's looks \
         continuously. The bytes are those of a write without its packet, 118",
        "the paper's bound without loss is less than what is under way: 8.2 million requests a second for 8 us are 66 requests, which would have 23 bytes each",
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

fn testbed(setup: pointsman_testbed::Setup<'_>) -> Result<Testbed<'_>, String> {
    Testbed::new(setup).map_err(|e| e.to_string())
}

/// The part of messages, in per cent.
fn messages(bench: &Bench, (build, one_in): &(&Build, u32), seed: u64) -> Result<f64, String> {
    let mut testbed = testbed(setup(build, 1, seed)?)?;
    let packets = bench.choose(40_000, 20_000);
    let traffic = Traffic { packets, rate_per_s: 5e4, mean_packets: 1000.0, bytes: Some(64) };
    let to = Ipv4Addr::new(10, 0, 0, 1);
    let mut before = None;
    for (n, s) in trace::packets(&traffic, seed).iter().enumerate() {
        while testbed.next(s.at).is_some() {}
        // At first all connections begin at the same time.
        if n as u32 >= packets / 4 {
            before.get_or_insert(testbed.bytes());
        }
        let reads = *one_in > 1 && !(n as u32).is_multiple_of(*one_in);
        testbed.send(s.at, (0, 0), trace::frame(s, n as u32, to, reads), 0);
    }
    let end = testbed.now() + 100_000_000;
    while testbed.next(end).is_some() {}
    let (bytes, before) = (testbed.bytes(), before.unwrap_or_default());
    let (stores, hosts) = (bytes.stores - before.stores, bytes.hosts - before.hosts);
    Ok(100.0 * stores as f64 / (stores + hosts) as f64)
}

fn bandwidth(bench: &Bench) -> Result<Found, String> {
    let builds = [App::Nat, App::Firewall, App::Counter].map(|app| build(bench, app, false));
    let [nat, firewall, counter] = builds;
    let (nat, firewall, counter) = (nat?, firewall?, counter?);
    let cases: [(&Build, u32); 4] = [(&nat, 1), (&firewall, 1), (&counter, 18), (&counter, 1)];
    let runs = bench.each("messages of applications", &cases, |case, seed| messages(bench, case, seed))?;
    let mut found = Found::default();
    for (id, samples) in ["nat", "firewall", "mixed", "counter"].iter().zip(&runs) {
        found.claim(id, samples.clone());
    }
    let points = runs.iter().enumerate().map(|(n, s)| Point::new((n + 1) as f64, s.clone()));
    let ours = vec![Curve { name: "RedPlane".into(), points: points.collect() }];
    let paper = vec![Curve::paper("RedPlane", &[(3.0, 12.8), (4.0, 51.2)])];
    found.charts.push(Chart { title: "Messages".into(), x: APP, y: SHARE, ours, paper });
    Ok(found)
}

/// Bytes of a write without its packet: those of the headers, with a key of 16 bytes and a value of 4.
const WRITE_BYTES: u64 = 118;
/// Frames of the traffic.
const FRAME: usize = 1500;
/// Flows of which each packet changes the state.
const FLOWS: u32 = 200;
/// When the load begins: all flows have their state then.
const BEGIN_NS: u64 = 20_000_000;

/// The most bytes in the buffer, in KB.
fn most(bench: &Bench, build: &Build, gbit_s: f64, loss: f64, seed: u64) -> Result<f64, String> {
    let mut run = setup(build, 1, seed)?;
    (run.loss, run.resend_ns, run.times) = (loss, 30_000, Times { cores: 40, ..run.times });
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

fn occupancy(bench: &Bench) -> Result<Found, String> {
    let build = build(bench, App::Counter, false)?;
    let rates: &[f64] = bench.choose(&[20.0, 40.0, 60.0, 80.0, 100.0], &[100.0]);
    let losses = [("no loss", 0.0), ("1 % of the requests lost", 0.01), ("2 % of the requests lost", 0.02)];
    let cases: Vec<(f64, f64)> =
        losses.iter().flat_map(|(_, loss)| rates.iter().map(|rate| (*rate, *loss))).collect();
    let runs = bench
        .each("the buffer of writes", &cases, |(rate, loss), seed| most(bench, &build, *rate, *loss, seed))?;
    let ours: Vec<Curve> = losses
        .iter()
        .zip(runs.chunks(rates.len()))
        .map(|((name, _), runs)| Curve {
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
