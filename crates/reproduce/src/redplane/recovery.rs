//! Figure 5.16: TCP through a switch that fails and returns.

use super::{TIMES, build, setup};
use crate::bench::Bench;
use crate::error::Failed;
use crate::figure::{Chart, Claim, Curve, Figure, Found, Place, Point, Quantity, Rule, Source, TIME_OF_RUN};
use pointsman_sim::random::{Part, Stream};
use pointsman_testbed::{App, Build, Happened, Testbed};
use pointsman_transport::header::{self, Route};
use pointsman_transport::{Config, Connection, Ecn, Segment};
use pointsman_wire::Mac;
use pointsman_wire::frame::{USUAL, packet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const MS: u64 = 1_000_000;
/// The switch fails about then, returns later, and the run ends.
const FAILS_NS: u64 = 1_500 * MS;
const RETURNS_NS: u64 = 4_000 * MS;
const END_NS: u64 = 6_500 * MS;
/// Until the core sends packets another way.
const REROUTED_NS: u64 = 50 * MS;
/// One way of the connection in addition, so that its rate needs few packets.
const FAR_NS: u64 = MS;
/// Bytes that may be under way.
const WINDOW: u32 = 128 << 10;
/// Intervals of the chart.
const INTERVAL_NS: u64 = 100 * MS;
/// Payload of a packet: room for options.
const MSS: u16 = 1400;

pub const RATE: Quantity =
    Quantity { name: "throughput", unit: "mbit_s", label: "throughput, Mbit/s", log: false };
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 1);
const PORTS: (u16, u16) = (40_000, 5_001);
/// Ethernet and IPv4 in front of a segment.
const FRONT: usize = 34;

const fn disruption(id: &'static str, text: &'static str, seconds: f64) -> Claim {
    Claim { id, text, paper: seconds, unit: "s", rule: Rule::Effect { neutral: 0.0 }, source: Source::Text }
}

pub const FAILS: Claim = disruption("fails", "the disruption after the failure", 0.9);

pub const RECALL: Claim = Claim {
    id: "recall",
    text: "the disruption after the return, with RECALL, is at most a tenth of the paper's",
    paper: 0.1,
    unit: "s",
    rule: Rule::AtMost,
    source: Source::Ours,
};

pub const FAILOVER: Figure = Figure {
    id: "redplane-fig-5.16",
    title: "TCP throughput while a switch fails and returns",
    source: "RedPlane, thesis section 5.6.3",
    place: Place::Simulator(failover),
    remarks: &[
        TIMES,
        "one TCP connection (CUBIC, least time-out 200 ms) passes a NAT whose states are kept by a chain of three stores, with leases of 1 s. 128 KB may be under way, and \
         the way is 1 ms longer in each direction, so that the rate is some 500 Mbit/s: the paper's iperf has 100 Gbit/s",
        "the core sends packets to the other switch 50 ms after the failure, and back 50 ms after the return (ours: the paper does not give its time)",
        "a disruption is the longest time without data at the receiver. Without RECALL, as the paper has it, a live switch keeps a key until its lease ends; with it the \
         store asks for the key",
    ],
    claims: &[
        FAILS,
        disruption("returns", "the disruption after the return, without RECALL", 1.0),
        RECALL,
        Claim {
            id: "plain",
            text: "without RedPlane the connection breaks: data after the failure, of those without a failure",
            paper: 1.0,
            unit: "%",
            rule: Rule::AtMost,
            source: Source::Text,
        },
    ],
};

/// What a run does.
struct Case<'a> {
    name: &'static str,
    build: &'a Build,
    fails: bool,
    recall: bool,
}

/// A run: bytes received in each interval, and the longest time without any after the failure and after the return, in seconds.
struct Ran {
    received: Vec<u64>,
    longest_s: [f64; 2],
}

/// Timers: ends of the connection, and what happens to the switch.
const TIMER_ENDS: [u64; 2] = [0, 1];
const TIMER_FAILS: u64 = 2;
const TIMER_REROUTED: u64 = 3;
const TIMER_RETURNS: u64 = 4;
const TIMER_BACK: u64 = 5;

/// The client, which sends, and the server.
struct Talk<'a> {
    testbed: Testbed<'a>,
    config: Arc<Config>,
    client: Connection,
    server: Option<Connection>,
    /// Where the server's packets go: the client as the NAT shows it.
    shown: (Ipv4Addr, u16),
    /// The switch that packets pass.
    switch: usize,
    /// When each end has a timer.
    timers: [u64; 2],
    received: Vec<u64>,
    last_ns: u64,
    longest_ns: [u64; 2],
    failed_ns: u64,
}

fn frame(segment: &Segment, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)) -> Vec<u8> {
    let addresses = (IpAddr::V4(from.0), IpAddr::V4(to.0));
    let mut bytes = Vec::new();
    let data = vec![0; segment.len as usize];
    let route = Route { addresses, ports: (from.1, to.1) };
    // Options of these settings fit.
    let encoded = header::encode(segment, &route, &data, &mut bytes);
    if encoded.is_err() {
        return Vec::new();
    }
    let mac = Mac([2, 0, 0, 0, 0, 9]);
    packet((mac, mac), addresses.0, addresses.1, 6, bytes, USUAL)
}

impl Talk<'_> {
    /// Sends what both ends have, and sets their timers.
    fn pump(&mut self) {
        let now = self.testbed.now();
        while let Some(segment) = self.client.next_segment(now) {
            let frame = frame(&segment, (CLIENT, PORTS.0), (SERVER, PORTS.1));
            self.testbed.send(now, (self.switch, 0), frame, FAR_NS);
        }
        while let Some(segment) = self.server.as_mut().and_then(|s| s.next_segment(now)) {
            let frame = frame(&segment, (SERVER, PORTS.1), self.shown);
            self.testbed.send(now, (self.switch, 1), frame, FAR_NS);
        }
        let deadlines = [self.client.deadline(), self.server.as_ref().and_then(Connection::deadline)];
        for (end, deadline) in deadlines.into_iter().enumerate() {
            let at = deadline.unwrap_or(u64::MAX);
            if at != self.timers[end] {
                self.timers[end] = at;
                if at != u64::MAX {
                    self.testbed.timer(at, TIMER_ENDS[end]);
                }
            }
        }
    }

    fn arrives(&mut self, port: u32, frame: &[u8]) {
        let now = self.testbed.now();
        let octets = |at: usize| <[u8; 4]>::try_from(&frame[at..at + 4]).map(Ipv4Addr::from);
        let (Ok(from), Ok(to)) = (octets(26), octets(30)) else { return };
        let Ok(parsed) =
            header::parse(&frame[FRONT..], (IpAddr::V4(from), IpAddr::V4(to)), Ecn::from_bits(frame[15] & 3))
        else {
            return;
        };
        if port == 0 {
            self.client.on_segment(now, &parsed.segment);
            return;
        }
        match &mut self.server {
            None => {
                self.server = Connection::accept(self.config.clone(), now, 7, &parsed.segment);
                self.shown = (from, parsed.ports.0);
            }
            // Another port is another connection: a real host would reset it.
            Some(_) if self.shown != (from, parsed.ports.0) => {}
            Some(server) => {
                server.on_segment(now, &parsed.segment);
                let bytes = server.take();
                if bytes > 0 {
                    self.takes(now, bytes);
                }
            }
        }
    }

    fn takes(&mut self, now: u64, bytes: u64) {
        self.silence_ends(now);
        self.last_ns = now;
        if let Some(interval) = self.received.get_mut((now / INTERVAL_NS) as usize) {
            *interval += bytes;
        }
    }

    /// Without data since the last ones: belongs to the failure or to the return, in which it ends.
    fn silence_ends(&mut self, now: u64) {
        if now >= self.failed_ns {
            let longest = &mut self.longest_ns[usize::from(self.last_ns >= RETURNS_NS - MS)];
            *longest = (*longest).max(now - self.last_ns.max(self.failed_ns));
        }
    }

    fn timer(&mut self, what: u64) -> Result<(), Failed> {
        let now = self.testbed.now();
        match what {
            TIMER_FAILS => self.testbed.crash(0),
            TIMER_REROUTED => self.switch = 1,
            TIMER_RETURNS => self.testbed.start(0)?,
            TIMER_BACK => self.switch = 0,
            end if self.timers[(end & 1) as usize] <= now => {
                self.timers[(end & 1) as usize] = 0;
                match &mut self.server {
                    Some(server) if end == 1 => server.on_deadline(now),
                    _ => self.client.on_deadline(now),
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn run(case: &Case<'_>, seed: u64) -> Result<Ran, Failed> {
    let mut run = setup(case.build, 3, seed)?;
    run.store.recall = case.recall;
    let testbed = Testbed::new(run)?;
    let config = Arc::new(Config { mss: MSS, receive_buffer: WINDOW, ..Config::default() });
    let mut client = Connection::connect(config.clone(), 0, 1);
    client.write(1 << 40);
    // Anywhere between two renewals of the lease.
    let failed_ns = FAILS_NS + Stream::new(seed, Part::Arrivals, 1).below(500 * MS);
    let mut talk = Talk {
        testbed,
        config,
        client,
        server: None,
        shown: (SERVER, 0),
        switch: 0,
        timers: [u64::MAX; 2],
        received: vec![0; (END_NS / INTERVAL_NS) as usize],
        last_ns: 0,
        longest_ns: [0; 2],
        failed_ns,
    };
    if case.fails {
        for (at, what) in [
            (failed_ns, TIMER_FAILS),
            (failed_ns + REROUTED_NS, TIMER_REROUTED),
            (RETURNS_NS, TIMER_RETURNS),
            (RETURNS_NS + REROUTED_NS, TIMER_BACK),
        ] {
            talk.testbed.timer(at, what);
        }
    }
    talk.pump();
    while let Some(happened) = talk.testbed.next(END_NS) {
        match happened {
            Happened::AtHost { port, frame, .. } => talk.arrives(port, &frame),
            Happened::Timer(what) => talk.timer(what)?,
        }
        talk.pump();
    }
    talk.silence_ends(END_NS);
    Ok(Ran { received: talk.received, longest_s: talk.longest_ns.map(|ns| ns as f64 / 1e9) })
}

/// Bytes from the time on by which the switch has failed in all runs.
fn after(ran: &Ran) -> f64 {
    ran.received[((FAILS_NS + 600 * MS) / INTERVAL_NS) as usize..].iter().sum::<u64>() as f64
}

fn failover(bench: &Bench) -> Result<Found, Failed> {
    let (plain, protected) = (build(bench, App::Nat, true)?, build(bench, App::Nat, false)?);
    let case = |name, build, fails, recall| Case { name, build, fails, recall };
    let cases = [
        case("no failure", &protected, false, true),
        case("failure without RedPlane", &plain, true, true),
        case("failure with RedPlane", &protected, true, true),
        case("failure with RedPlane, without RECALL", &protected, true, false),
    ];
    let runs = bench.each("TCP and a switch that fails", &cases, run)?;
    let mbit = |bytes: u64| bytes as f64 * 8e3 / INTERVAL_NS as f64;
    let curve = |(case, runs): (&Case<'_>, &Vec<Ran>)| {
        let count = (END_NS / INTERVAL_NS) as usize;
        let point = |i: usize| {
            let at_ms = (i as f64 + 0.5) * INTERVAL_NS as f64 / 1e6;
            Point::new(at_ms, runs.iter().map(|r| mbit(r.received[i])).collect())
        };
        Curve { name: case.name.into(), points: (0..count).map(point).collect() }
    };
    let ours = cases.iter().zip(&runs).map(curve).collect();
    let mut found = Found::default();
    let longest =
        |case: usize, which: usize| runs[case].iter().map(|r| r.longest_s[which]).collect::<Vec<_>>();
    found.claim("fails", longest(2, 0));
    found.claim("returns", longest(3, 1));
    found.claim("recall", longest(2, 1));
    let share = |(a, b): (&Ran, &Ran)| 100.0 * after(a) / after(b);
    found.claim("plain", runs[1].iter().zip(&runs[0]).map(share).collect::<Vec<_>>());
    found.events = vec![
        ((FAILS_NS / MS) as f64, "the switch fails within 0.5 s".into()),
        ((RETURNS_NS / MS) as f64, "it returns".into()),
    ];
    found.charts.push(Chart { title: "Throughput".into(), x: TIME_OF_RUN, y: RATE, ours, paper: Vec::new() });
    Ok(found)
}
