//! Asymmetric routes: packets of a connection from inside pass the first switch, those from outside the second one. With shared leases both switches read the
//! connection's state; with leases of one owner it moves with every packet.

use super::*;
use crate::program::App;
use pointsman_history::{Operation, Plain, Verdict, search};
use pointsman_wire::frame::{ACK, FIN, SYN, USUAL, packet, tcp};
use pointsman_wire::{Mac, Random};
use std::net::{IpAddr, Ipv4Addr};

const MS: u64 = 1_000_000;
const SHARED: &str = "#define REDPLANE_SHARED_READS\n";
/// Ports of a switch to hosts.
const INSIDE: u32 = 0;
const OUTSIDE: u32 = 1;
/// Attempts of the search for an order.
const BUDGET: u64 = 1_000_000;

/// A packet of a connection.
struct Passing {
    flow: usize,
    inside: bool,
    flags: u8,
    sent: u64,
    frame: Vec<u8>,
    /// When and where it left, and its bytes then.
    left: Option<(u64, (u32, Vec<u8>))>,
}

fn client(flow: usize) -> (Ipv4Addr, u16) {
    (Ipv4Addr::new(10, 0, 0, flow as u8), 1024 + flow as u16)
}

const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 128, 0, 1), 80);

fn frame(flow: usize, inside: bool, flags: u8, number: usize) -> Vec<u8> {
    let (from, to) = if inside { (client(flow), SERVER) } else { (SERVER, client(flow)) };
    let mut segment = tcp(from.1, to.1, 1, flags);
    segment.extend((number as u32).to_be_bytes());
    segment.resize(30, 0);
    let mac = Mac([2, 0, 0, 0, 0, 9]);
    packet((mac, mac), IpAddr::V4(from.0), IpAddr::V4(to.0), 6, segment, USUAL)
}

/// A connection's key at the store.
fn key(flow: usize) -> Vec<u8> {
    let ((from, port), (to, service)) = (client(flow), SERVER);
    [&from.octets()[..], &to.octets(), &port.to_be_bytes(), &service.to_be_bytes(), &[0, 0, 0, 6]].concat()
}

fn setup(build: &Build, seed: u64) -> Setup<'_> {
    Setup::new(build, seed)
}

/// Lets packets pass; `routes`: the switches of those from inside and from outside.
fn pass(testbed: &mut Testbed<'_>, packets: &mut [Passing], routes: [usize; 2], until: u64) {
    packets.sort_by_key(|p| p.sent);
    for (n, p) in packets.iter_mut().enumerate() {
        p.frame = frame(p.flow, p.inside, p.flags, n);
        let port = if p.inside { INSIDE } else { OUTSIDE };
        testbed.send(p.sent, (routes[usize::from(!p.inside)], port), p.frame.clone(), 0);
    }
    while let Some(Happened::AtHost { port, frame, .. }) = testbed.next(until) {
        let n = crate::trace::number(&frame).expect("a number") as usize;
        assert_eq!(packets[n].left, None, "packet {n} left twice");
        packets[n].left = Some((testbed.now(), (port, frame)));
    }
}

/// The firewall without RedPlane, for one connection.
fn plain() -> Plain {
    let text = format!("#define PLAIN\n#define REDPLANE_SLOTS 1\n{}", App::Firewall.text());
    let entries = "add sides prefix:10.0.0.0/9 inside()\nadd routes prefix:10.0.0.0/9 forward(port:0, mac:0x22)\n\
                   add routes prefix:10.128.0.0/9 forward(port:1, mac:0x22)\n";
    Plain::new(&text, entries).expect("the firewall")
}

/// Packets of connections that begin and end while messages are lost, doubled and reordered: all packets of a side pass one switch.
fn connections(random: &mut Random, flows: usize) -> Vec<Passing> {
    let mut packets = Vec::new();
    for flow in 0..flows {
        let mut at = MS + random.below(20 * MS);
        let mut add = |random: &mut Random, inside: bool, flags: u8, after: u64| {
            at += after + random.below(200_000);
            packets.push(Passing { flow, inside, flags, sent: at, frame: Vec::new(), left: None });
        };
        (0..3).for_each(|_| add(random, true, SYN, 0));
        // A beginning that waits at the store for a lease must not come after an end.
        add(random, true, ACK, 40 * MS);
        for _ in 0..12 {
            let inside = random.below(2) == 0;
            add(random, inside, ACK, 0);
        }
        // Both sides end at about the same time, and say so several times.
        for _ in 0..6 {
            let inside = random.below(2) == 0;
            add(random, inside, FIN | ACK, 0);
            add(random, !inside, ACK, 0);
        }
    }
    packets
}

/// What a run with faults shows.
#[derive(Default)]
struct Run {
    left: usize,
    all: usize,
    shared_grants: u64,
    /// Changes under a shared lease, dropped.
    unclaimed: u64,
}

/// One run with faults.
fn faulty(build: &Build, seed: u64) -> Result<Run, String> {
    let mut setup = setup(build, seed);
    setup.store = Config { lease_us: 20_000, recall: !seed.is_multiple_of(4), ..Config::default() };
    (setup.renew_ns, setup.loss) = (5 * MS, [0.0, 0.05, 0.2][(seed % 3) as usize]);
    setup.faults = Faults { answers_lost: setup.loss, doubled: [0.0, 0.2][(seed / 2 % 2) as usize] };
    setup.disorder_ns = [0, 30_000, 500_000][(seed / 3 % 3) as usize];
    let mut testbed = Testbed::new(setup).expect("a testbed");
    let flows = 8;
    let mut packets = connections(&mut Random::new(seed), flows);
    pass(&mut testbed, &mut packets, [0, 1], 200 * MS);
    let mut specification = plain();
    for flow in 0..flows {
        let ours: Vec<&Passing> = packets.iter().filter(|p| p.flow == flow).collect();
        let operation = |p: &&Passing| Operation {
            call: p.sent,
            input: (if p.inside { INSIDE } else { OUTSIDE }, p.frame.clone()),
            result: p.left.clone(),
        };
        let operations: Vec<_> = ours.iter().map(operation).collect();
        if search(&mut specification, &operations, BUDGET) != Verdict::Linearizable {
            return Err(format!("connection {flow}: no order of its packets"));
        }
        // No side's end was overwritten by the other side's switch.
        let ended =
            |inside: bool| ours.iter().any(|p| p.inside == inside && p.flags & FIN != 0 && p.left.is_some());
        let least = u8::from(ended(true)) << 1 | u8::from(ended(false)) << 2;
        let stored = testbed.stores.first().and_then(|s| s.value(0, &key(flow))).map_or(0, |v| v[3]);
        if stored & least != least {
            return Err(format!("connection {flow}: ends {least:03b} passed, {stored:03b} is stored"));
        }
    }
    let left = packets.iter().filter(|p| p.left.is_some()).count();
    let count = |node: &mut Node| {
        let rig = node.rig.as_mut().expect("it runs");
        rig.counter("redplane_counts", 9).map_or(0, |cell| cell.packets)
    };
    let unclaimed = testbed.nodes.iter_mut().map(count).sum();
    let shared_grants = testbed.store_stats().shared_grants;
    Ok(Run { left, all: packets.len(), shared_grants, unclaimed })
}

#[test]
fn a_firewall_with_asymmetric_routes_is_like_one_switch() {
    let build = Build::new(App::Firewall, false, SHARED, &[]).expect("a program");
    let (mut left, mut all, mut shared) = (0, 0, 0);
    for seed in 0..24 {
        let run = faulty(&build, seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        (left, all, shared) = (left + run.left, all + run.all, shared + run.shared_grants);
        assert_eq!(run.unclaimed, 0, "seed {seed}");
    }
    println!("{left} of {all} packets left, {shared} shared grants");
    assert!(left * 2 > all && shared > 500, "{left} of {all}, {shared}");
    let ipv6 = format!("{SHARED}#define REDPLANE_IPV6\n");
    let build = Build::new(App::Firewall, false, &ipv6, &[]).expect("a program");
    let over_ipv6 = |seed| faulty(&build, seed).unwrap_or_else(|e| panic!("over IPv6, seed {seed}: {e}"));
    let left: usize = (0..4).map(|seed| over_ipv6(seed).left).sum();
    assert!(left > 300, "over IPv6 {left} packets left");
    // With a header missing in UDP's checksum the store gets no packet.
    let headers = (
        "meta.redplane, hdr.ethernet, hdr.ipv4, hdr.ports, hdr.tcp)",
        "meta.redplane, hdr.ethernet, hdr.ipv4, hdr.ports)",
    );
    let build = Build::new(App::Firewall, false, &ipv6, &[headers]).expect("a program");
    assert_eq!(faulty(&build, 0).map(|run| run.left), Ok(0));
    // With a reader that changes the state by itself, an end is lost.
    let change = (
        "            m.held = false;\n            give_up.apply(m);\n            ask.apply(outer, message, m, sm, REDPLANE_NEW);\n",
        "            m.slot.value = m.value;\n            redplane_values.write(m.index, m.value);\n",
    );
    let build = Build::new(App::Firewall, false, SHARED, &[change]).expect("a program");
    let found = (0..24).find_map(|seed| faulty(&build, seed).err());
    println!("{found:?}");
    assert!(found.is_some());
}

#[test]
fn a_program_that_does_not_ask_for_the_exclusive_lease_loses_packets_only() {
    let change = ("claim.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);", "");
    let build = Build::new(App::Firewall, false, SHARED, &[change]).expect("a program");
    let run = |seed| faulty(&build, seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    assert!((0..6).map(|seed| run(seed).unclaimed).sum::<u64>() > 50);
}

/// What passing costs.
#[derive(Debug)]
struct Cost {
    packets: usize,
    lost: usize,
    /// Requests of switches for each packet.
    requests: f64,
    /// Median and 99th percentile of the way through the switch, in nanoseconds.
    p50: u64,
    p99: u64,
}

/// 100 connections of 100 packets, one in 10 ms, in turns from inside and outside.
fn cost(build: &Build, routes: [usize; 2], seeds: std::ops::Range<u64>) -> Cost {
    let (mut ways, mut requests, mut all) = (Vec::new(), 0, 0);
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut packets = Vec::new();
        for flow in 0..100 {
            let start = MS + random.below(10 * MS);
            for n in 0..100 {
                let flags = [SYN, ACK, FIN | ACK][usize::from(n > 0) + usize::from(n > 97)];
                let sent = start + n * 10 * MS;
                packets.push(Passing {
                    flow,
                    inside: n % 2 == 0,
                    flags,
                    sent,
                    frame: Vec::new(),
                    left: None,
                });
            }
        }
        let mut testbed = Testbed::new(setup(build, seed)).expect("a testbed");
        pass(&mut testbed, &mut packets, routes, 3_000 * MS);
        all += packets.len();
        requests += testbed.requests().0;
        ways.extend(packets.iter().filter_map(|p| p.left.as_ref().map(|(at, _)| at - p.sent)));
    }
    ways.sort_unstable();
    let at = |percent: usize| ways[(ways.len() - 1) * percent / 100];
    Cost {
        packets: all,
        lost: all - ways.len(),
        requests: requests as f64 / all as f64,
        p50: at(50),
        p99: at(99),
    }
}

#[test]
fn shared_leases_spare_a_connection_with_asymmetric_routes_the_way_to_the_store() {
    let build = |plain, defines| Build::new(App::Firewall, plain, defines, &[]).expect("a program");
    let (plain, owned, shared) = (build(true, ""), build(false, ""), build(false, SHARED));
    // Without RedPlane a connection's packets must pass one switch.
    let base = cost(&plain, [0, 0], 0..5);
    let runs = [
        ("one switch, no RedPlane", &base),
        ("one switch, exclusive leases", &cost(&owned, [0, 0], 0..5)),
        ("one switch, shared leases", &cost(&shared, [0, 0], 0..5)),
        ("two switches, exclusive leases", &cost(&owned, [0, 1], 0..5)),
        ("two switches, shared leases", &cost(&shared, [0, 1], 0..5)),
    ];
    for (name, cost) in &runs {
        let added = |ns: u64, base: u64| (ns as f64 - base as f64) / 1_000.0;
        println!(
            "{name}: n = {}, {} lost, {:.3} requests a packet, {:.2} us more in the median, {:.2} at P99",
            cost.packets,
            cost.lost,
            cost.requests,
            added(cost.p50, base.p50),
            added(cost.p99, base.p99),
        );
    }
    let [_, _, _, (_, exclusive), (_, shared)] = runs;
    assert!(exclusive.requests > 1.9 && shared.requests < 0.2, "{exclusive:?} {shared:?}");
    assert!(
        exclusive.p50 > base.p50 + 10_000 && shared.p50 < base.p50 + 200,
        "{base:?} {exclusive:?} {shared:?}"
    );
}
