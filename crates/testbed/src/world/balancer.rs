//! The balancer on two switches that replace each other: every connection keeps its device, though the device was chosen by load.
//!
//! The checker looks at packets only: which device gets those of a client, and whether its answers come back from the service's address.

mod packets;

use super::*;
use crate::program::{App, SERVICE};
use packets::{begins_again, either_side, long_packets, taken};
use pointsman_wire::Mac;
use pointsman_wire::frame::{ACK, FIN, RST, SYN, USUAL, packet, tcp};
use std::net::Ipv4Addr;

const SWITCH: Mac = Mac([0x02, 0x50, 0x4d, 0, 0, 1]);
const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Between two packets of a client at most, and after which a packet is sent again.
const PERIOD: u64 = 2 * S;
/// Ports to clients and devices.
const CLIENTS: u32 = 0;
const DEVICES: u32 = 1;
/// Timers with these numbers are takeovers, those below are of clients.
const TAKEOVER: u64 = 1 << 32;

/// What a client knows, and what the checker saw of it.
#[derive(Clone, Default)]
struct Client {
    /// Its handshake is complete.
    open: bool,
    /// The number of its last packet, and the last that was answered.
    sent: u32,
    answered: u32,
    /// The device that got its first packet.
    device: Option<Ipv4Addr>,
    /// A packet went to another one, an answer came from elsewhere, or it was reset.
    broken: bool,
}

/// A run of many clients.
#[derive(Clone, Copy)]
struct Run {
    clients: u64,
    /// When one switch fails, and the other one gets all packets.
    takeovers: &'static [u64],
    /// Clients are silent for this time, those with odd numbers.
    pause: (u64, u64),
    /// Clients whose number is divisible by this end their connections instead of pausing; 0: none.
    ends: u64,
    until: u64,
}

const USUAL_RUN: Run =
    Run { clients: 1_000, takeovers: &[100 * S, 130 * S], pause: (60 * S, 88 * S), ends: 0, until: 160 * S };

#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    broken: usize,
    /// Without an answer to their last packets.
    unanswered: usize,
    /// Connections of the device that has the most, and of that with the fewest.
    spread: (usize, usize),
}

struct World<'a> {
    testbed: Testbed<'a>,
    run: Run,
    clients: Vec<Client>,
    active: usize,
}

fn address(n: u64) -> (Ipv4Addr, u16) {
    (Ipv4Addr::new(10, 0, (n / 250) as u8, 1 + (n % 250) as u8), 40_000 + (n % 7) as u16)
}

fn number(address: Ipv4Addr) -> usize {
    let [_, _, high, low] = address.octets();
    usize::from(high) * 250 + usize::from(low) - 1
}

fn ip(frame: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3])
}

fn segment(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16), sequence: u32, flags: u8) -> Vec<u8> {
    let hop = (SWITCH, Mac([2, 0, 0, 0, 0, 9]));
    packet(hop, from.into(), to.into(), 6, tcp(ports.0, ports.1, sequence, flags), USUAL)
}

impl World<'_> {
    fn send(&mut self, n: u64, sequence: u32, flags: u8) {
        let (from, port) = address(n);
        let frame = segment(from, SERVICE, (port, 80), sequence, flags);
        self.testbed.send(self.testbed.now(), (self.active, CLIENTS), frame, 0);
    }

    /// It is time for a client's next packet, or for its last one again.
    fn due(&mut self, n: u64) {
        let now = self.testbed.now();
        // Each at a pace of its own, so that their order changes.
        self.testbed.timer(now + PERIOD - n * 7_919 % 997 * MS / 2, n);
        let Run { pause, ends, .. } = self.run;
        let over = ends != 0 && n.is_multiple_of(ends) && now >= pause.0;
        let pauses = n % 2 == 1 && !over && (pause.0..pause.1).contains(&now);
        if pauses || over && now >= pause.0 + 2 * PERIOD {
            return;
        }
        let client = &mut self.clients[n as usize];
        client.sent += 1;
        let (sent, flags) = (
            client.sent,
            if over {
                ACK | FIN
            } else if client.open {
                ACK
            } else {
                SYN
            },
        );
        self.send(n, sent, flags);
    }

    /// A device answers whatever it gets, after a look at who should have got it.
    fn at_device(&mut self, frame: &[u8]) {
        let (from, to, flags) = (ip(frame, 26), ip(frame, 30), frame[47]);
        let client = &mut self.clients[number(from)];
        client.broken |= flags & RST != 0 || *client.device.get_or_insert(to) != to;
        let answer = if flags & SYN != 0 { SYN | ACK } else { ACK | (flags & FIN) };
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        let sequence = u32::from_be_bytes([frame[38], frame[39], frame[40], frame[41]]);
        let frame = segment(to, from, (80, port), sequence, answer);
        self.testbed.send(self.testbed.now(), (self.active, DEVICES), frame, 0);
    }

    fn at_client(&mut self, frame: &[u8]) {
        let n = number(ip(frame, 30));
        let client = &mut self.clients[n];
        client.broken |= ip(frame, 26) != SERVICE || frame[47] & RST != 0;
        let sequence = u32::from_be_bytes([frame[38], frame[39], frame[40], frame[41]]);
        client.answered = client.answered.max(sequence);
        if frame[47] & SYN != 0 && !client.open {
            client.open = true;
            self.send(n as u64, 0, ACK);
        }
    }

    fn verdict(&self) -> Verdict {
        let broken = self.clients.iter().filter(|c| c.broken).count();
        // A packet may be lost with its message.
        let answered = |c: &&Client| c.answered + 4 >= c.sent;
        let unanswered = self.clients.iter().filter(|c| !answered(c)).count();
        let mut loads: BTreeMap<Ipv4Addr, usize> = BTreeMap::new();
        self.clients.iter().filter_map(|c| c.device).for_each(|d| *loads.entry(d).or_default() += 1);
        let spread = (loads.values().copied().max().unwrap_or(0), loads.values().copied().min().unwrap_or(0));
        Verdict { broken, unanswered, spread }
    }
}

fn build(plain: bool, changes: &[(&str, &str)]) -> Build {
    Build::new(App::Balancer, plain, "", changes).unwrap_or_else(|e| panic!("{e}"))
}

fn over_ipv6(changes: &[(&str, &str)]) -> Build {
    Build::new(App::Balancer, false, "#define REDPLANE_IPV6\n", changes).unwrap_or_else(|e| panic!("{e}"))
}

fn setup(build: &Build) -> Setup<'_> {
    Setup { resend_ns: 0, renew_ns: 0, buffer: 0, ..Setup::new(build, 1) }
}

fn run<'a>(
    setup: Setup<'a>,
    run: Run,
    at_takeover: &mut dyn FnMut(&mut Testbed<'a>),
) -> (Verdict, Testbed<'a>) {
    let testbed = Testbed::new(setup).expect("a testbed");
    let clients = vec![Client::default(); run.clients as usize];
    let mut world = World { testbed, run, clients, active: 0 };
    for n in 0..run.clients {
        world.testbed.timer(n * PERIOD / run.clients, n);
    }
    for at in run.takeovers {
        world.testbed.timer(*at, TAKEOVER);
    }
    while let Some(happened) = world.testbed.next(run.until) {
        match happened {
            Happened::AtHost { port: CLIENTS, frame, .. } => world.at_client(&frame),
            Happened::AtHost { frame, .. } => world.at_device(&frame),
            Happened::Timer(TAKEOVER) => {
                // It comes back, empty, for the next time.
                at_takeover(&mut world.testbed);
                world.testbed.crash(world.active);
                world.testbed.start(world.active).expect("a switch");
                world.active = 1 - world.active;
            }
            Happened::Timer(n) => world.due(n),
        }
    }
    (world.verdict(), world.testbed)
}

/// A run with all faults of messages.
fn faulty(build: &Build, stores: usize) -> Setup<'_> {
    let faults = Faults { answers_lost: 0.02, doubled: 0.1 };
    Setup { stores, loss: 0.02, disorder_ns: 300_000, faults, ..setup(build) }
}

#[test]
fn connections_keep_their_devices_when_switches_fail() {
    let build = build(false, &[]);
    let (verdict, testbed) = run(setup(&build), USUAL_RUN, &mut |_| ());
    // The devices were chosen by load.
    assert_eq!(verdict, Verdict { broken: 0, unanswered: 0, spread: (125, 125) });
    assert_eq!((testbed.store_keys(), testbed.store_stats().fixed), (1_000, 1_000));
    // An eighth to a quarter of the idle time, for packets of both sides, and a question at each takeover.
    let asked = testbed.store_stats().fixed_known;
    assert!((20_000..60_000).contains(&asked), "{asked}");
}

#[test]
fn messages_go_over_ipv6() {
    let short =
        Run { clients: 200, takeovers: &[40 * S], pause: (16 * S, 38 * S), until: 52 * S, ..USUAL_RUN };
    let (verdict, _) = run(setup(&over_ipv6(&[])), short, &mut |_| ());
    assert_eq!(verdict, Verdict { broken: 0, unanswered: 0, spread: (25, 25) });
    // With a header missing in UDP's checksum the store gets no packet, and no connection begins.
    let headers = ("meta.store, hdr.packet_in, hdr.ethernet,", "meta.store, hdr.packet_in,");
    let (verdict, _) = run(setup(&over_ipv6(&[headers])), short, &mut |_| ());
    assert_eq!(verdict, Verdict { broken: 0, unanswered: 200, spread: (0, 0) });
}

#[test]
fn ten_thousand_connections() {
    let build = build(false, &[]);
    let short =
        Run { clients: 10_000, takeovers: &[40 * S], pause: (16 * S, 38 * S), until: 52 * S, ..USUAL_RUN };
    let (verdict, _) = run(setup(&build), short, &mut |_| ());
    println!("{verdict:?}");
    assert_eq!((verdict.broken, verdict.unanswered), (0, 0), "{verdict:?}");
}

#[test]
fn messages_are_lost_doubled_and_reordered() {
    let build = build(false, &[]);
    for stores in [1, 3] {
        let (verdict, testbed) = run(faulty(&build, stores), USUAL_RUN, &mut |_| ());
        println!("{stores} stores: {verdict:?} {:?}", testbed.requests());
        assert_eq!((verdict.broken, verdict.unanswered), (0, 0), "{verdict:?}");
    }
}

#[test]
fn without_the_store_they_break() {
    let build = build(true, &[]);
    let (verdict, _) = run(setup(&build), USUAL_RUN, &mut |_| ());
    assert_eq!(verdict.broken, 1_000, "{verdict:?}");
    // Also if the other switch adopts them, with a device of its own choice.
    let adopts = |testbed: &mut Testbed<'_>| {
        for n in 0..2 {
            testbed.set_entry(n, "quiet_services service=1 -> adopt()").expect("a table");
        }
    };
    let (verdict, _) = run(setup(&build), USUAL_RUN, &mut { adopts });
    assert!(verdict.broken > 500, "{verdict:?}");
}

#[test]
fn the_store_forgets_connections_that_end() {
    let build = build(false, &[]);
    let ending = Run { takeovers: &[], ends: 1, until: 80 * S, ..USUAL_RUN };
    let (verdict, testbed) = run(setup(&build), ending, &mut |_| ());
    assert_eq!((verdict.broken, testbed.store_keys()), (0, 0), "{verdict:?}");
    // Without FINs they are kept for longer.
    let silent = Run { takeovers: &[], pause: (60 * S, 200 * S), until: 80 * S, ..USUAL_RUN };
    let (_, testbed) = run(setup(&build), silent, &mut |_| ());
    assert_eq!(testbed.store_keys(), 1_000);
    let silent = Run { until: 125 * S, ..silent };
    let (_, testbed) = run(setup(&build), silent, &mut |_| ());
    assert_eq!(testbed.store_keys(), 500);
}

#[test]
fn every_part_that_is_missing_is_found() {
    let new_period =
        ("bool new_period = (conn.seen ^ now[41:10]) >= (seen_t)conn.idle << 3;", "bool new_period = false;");
    let established = ("meta.extends = true;\n            idle = meta.idle;", "idle = meta.idle;");
    let own_choice = (
        "conn.device = meta.device;\n    conn.flags = CONN_LIVE | flags |",
        "conn.device = KEPT_DEVICE(meta.store.proposed);\n    conn.flags = CONN_LIVE | flags |",
    );
    for change in [new_period, established, own_choice] {
        let build = build(false, &[change]);
        let (verdict, _) = run(setup(&build), USUAL_RUN, &mut |_| ());
        assert!(verdict.broken + verdict.unanswered > 100, "{change:?}: {verdict:?}");
    }
    let ended = build(false, &[("meta.extends = !was_over;", "meta.extends = false;")]);
    let ending = Run { takeovers: &[], ends: 1, until: 80 * S, ..USUAL_RUN };
    assert_eq!(run(setup(&ended), ending, &mut |_| ()).1.store_keys(), 1_000);
    let unchecked = ("&& meta.device != KEPT_DEVICE(proposal);", "&& false;");
    let always = ("meta.usable = (fresh &", "meta.usable = false && (fresh &");
    let blind = ("meta.checks ? meta.store.grant : 0", "0");
    for change in [unchecked, always, blind] {
        assert!(!begins_again(&build(false, &[change])), "{change:?}");
    }
    assert!(!long_packets(&build(false, &[("m.lost = message.flags[1:0] == 2;", "m.lost = false;")])));
    for change in [
        ("meta.extends = was_over || new_period;", "meta.extends = new_period;"),
        ("egress_spec = CAME_IN", "egress_spec = standard_metadata.ingress_port"),
    ] {
        assert!(!either_side(&build(false, &[change])), "{change:?}");
    }
    let port = ("|| sm.ingress_port != m.store_port", "");
    let digest = ("expected != message.digest || (message.flags", "(message.flags");
    for (change, n) in [(port, 1), (digest, 2), (("age > m.late", "false"), 3)] {
        assert!(taken(&build(false, &[change]))[n], "{change:?}");
    }
}
