//! Policies made of blocks: each run is compared with a model that shares no code with the data plane.

use super::world::*;
use pointsman_testkit::packet::{Body, L4, Packet, Report, tcp_flags};
use pointsman_testkit::random::Random;
use std::collections::BTreeMap;

const BLOCKS: u8 = 3;

const COMPUTE: u8 = 1;
const MEMORY: u8 = 2;
const NETWORK: u8 = 3;
const QUEUE: u8 = 4;
const WEIGHT: u8 = 5;
const IN_FLIGHT: u8 = 6;

const CONNECTIONS: u8 = 32;
const REQUESTS: u8 = 64;

/// Parameters of `set_policy`.
#[derive(Clone, Copy, Default)]
struct Blocks {
    servers: u8,
    narrow: u8,
    pick: u8,
    choices: u8,
    counting: u8,
    metrics: [(u8, u8); 2],
    step: u8,
    offset: u8,
    complement: u8,
    second_only: u8,
}

fn set_blocks(w: &mut World, service: u16, epoch: u8, b: &Blocks) {
    let [(ma, wa), (mb, wb)] = b.metrics;
    w.set(&format!(
        "policies service={service} epoch={epoch} -> set_policy({}, {}, {}, {}, {}, {ma}, {wa}, {mb}, {wb}, {}, {}, {}, {})",
        b.servers, b.narrow, b.pick, b.choices, b.counting, b.step, b.offset, b.complement, b.second_only
    ));
}

fn list(values: [u16; SLOTS]) -> String {
    values.map(|v| v.to_string()).join(", ")
}

/// The same eight values for each half of a server.
fn halves<T: Copy>(values: [T; 8]) -> [T; SLOTS] {
    std::array::from_fn(|i| values[i % 8])
}

/// Server 1 with a device in every slot; services 1 (TCP) and 2 (UDP) with these blocks.
fn all_slots(b: Blocks) -> World {
    let mut w = World::one_server(BLOCKS);
    w.fill_slots();
    for service in [1, 2] {
        set_blocks(&mut w, service, 0, &b);
    }
    w
}

/// The agent of device 8 reports the load of all: compute, memory, network, queue.
fn report_all(w: &mut World, loads: [[u8; 4]; SLOTS], metrics: u16) {
    w.wait(1);
    w.report_slots(ALL, ALL, metrics, &loads);
}

fn random_loads(r: &mut Random, below: usize) -> [[u8; 4]; SLOTS] {
    [0; SLOTS].map(|_| [0; 4].map(|_| r.below(below) as u8))
}

/// The slot of the device that gets the packet.
fn slot_of(w: &mut World, packet: &Packet) -> usize {
    let (_, got) = w.forward(CLIENTS, packet);
    (0..SLOTS).find(|s| named(*s) == u16::from(got.dst_mac[5])).expect("a device of server 1")
}

fn in_flight(w: &mut World) -> [u64; SLOTS] {
    let mut out = [0; SLOTS];
    for (i, n) in out.iter_mut().enumerate() {
        *n = w.rig.register(&format!("load.device{i}.in_flight"), 1).expect("a register").low_u64();
    }
    out
}

/// Each within `of` of its expectation, as a part of the whole.
#[track_caller]
fn assert_shares(counts: &[u32], weights: &[f64], of: f64) {
    let (n, total) = (f64::from(counts.iter().sum::<u32>()), weights.iter().sum::<f64>());
    for (i, (count, weight)) in counts.iter().zip(weights).enumerate() {
        let error = f64::from(*count) / n - weight / total;
        assert!(error.abs() <= of, "device {i}: {counts:?} for {weights:?}");
    }
}

/// The minimum finder over any metric, or the weighted sum of two, against the smallest sum by hand.
#[test]
fn minimum_finder() {
    let mut r = Random::new(1);
    let mut n = 0;
    for metrics in [
        [(COMPUTE, 1), (0, 0)],
        [(MEMORY, 1), (0, 0)],
        [(NETWORK, 3), (QUEUE, 1)],
        [(COMPUTE, 255), (MEMORY, 254)],
    ] {
        let mut w = all_slots(Blocks { metrics, ..Blocks::default() });
        for round in 0..20 {
            let loads = random_loads(&mut r, if round % 2 == 0 { 3 } else { 256 });
            report_all(&mut w, loads, 2);
            let value = |i: usize| -> u32 {
                let used = metrics.iter().filter(|(m, _)| *m > 0);
                used.map(|(m, weight)| u32::from(loads[i][usize::from(*m) - 1]) * u32::from(*weight)).sum()
            };
            let least = (0..SLOTS).map(value).min().expect("some");
            for _ in 0..5 {
                n += 1;
                let slot = slot_of(&mut w, &syn(&client4(n), WEB4));
                assert_eq!(value(slot), least, "{loads:?} gave {slot}");
            }
        }
    }
}

/// With a step and counting, connections since a device's last report are part of its load: the connections of one
/// interval fill the devices evenly, instead of all going to the one that was the least loaded.
#[test]
fn no_herding() {
    let b = Blocks { metrics: [(COMPUTE, 1), (0, 0)], step: 2, counting: CONNECTIONS, ..Blocks::default() };
    let mut w = all_slots(b);
    let mut r = Random::new(2);
    let mut n = 0;
    for _ in 0..5 {
        let loads = random_loads(&mut r, 40);
        report_all(&mut w, loads, 2);
        let mut model = loads.map(|l| u32::from(l[0]));
        for _ in 0..100 * SLOTS / 8 {
            n += 1;
            let slot = slot_of(&mut w, &syn(&client4(n), WEB4));
            assert_eq!(Some(&model[slot]), model.iter().min(), "{model:?}");
            model[slot] += 2;
        }
        assert!(model.iter().max() <= model.iter().min().map(|m| m + 2).as_ref(), "{model:?}");
    }
}

/// Equal devices share ties evenly, whichever of them they are.
#[test]
fn ties_by_chance() {
    let b = Blocks { metrics: [(COMPUTE, 1), (0, 0)], ..Blocks::default() };
    for tied in [ALL, 0b11, 1 | 1 << (SLOTS - 1), 0b0101_1000 << (SLOTS - 8)] {
        let mut w = all_slots(b);
        let mut loads = [[50; 4]; SLOTS];
        (0..SLOTS).filter(|i| tied & 1 << i != 0).for_each(|i| loads[i][0] = 20);
        report_all(&mut w, loads, 2);
        let mut counts = [0; SLOTS];
        (0..2000).for_each(|i| counts[slot_of(&mut w, &syn(&client4(i), WEB4))] += 1);
        let weights: Vec<f64> = (0..SLOTS).map(|i| f64::from(tied >> i & 1)).collect();
        assert_shares(&counts, &weights, 0.035);
        assert!(counts.iter().zip(&weights).all(|(c, w)| *w > 0.0 || *c == 0), "{counts:?}");
    }
}

/// Dynamic weighted round robin: weight x (100 - load), right to one per cent, and to another share after the next report.
#[test]
fn dynamic_weights() {
    let b = Blocks { pick: 2, metrics: [(COMPUTE, 1), (0, 0)], complement: 1, ..Blocks::default() };
    let mut w = all_slots(b);
    let mut r = Random::new(3);
    let mut n = 0;
    for round in 0..4 {
        let weights = [0; SLOTS].map(|_| 1 + r.below(1000) as u16);
        w.set(&format!("device_factors service=1 epoch=0 server=1 -> set_factors({})", list(weights)));
        let mut loads = random_loads(&mut r, 101);
        match round {
            2 => loads[3][0] = 100,
            3 => loads = [[100; 4]; SLOTS],
            _ => {}
        }
        report_all(&mut w, loads, 2);
        let mut counts = [0; SLOTS];
        for _ in 0..2048 {
            n += 1;
            counts[slot_of(&mut w, &syn(&client4(n), WEB4))] += 1;
        }
        // All at 100 per cent: the static weights.
        let left = |i: usize| if round == 3 { 1.0 } else { f64::from(100 - loads[i][0]) };
        let want: Vec<f64> = (0..SLOTS).map(|i| f64::from(weights[i]) * left(i)).collect();
        assert_shares(&counts, &want, 0.001);
        assert!(round != 2 || counts[3] == 0);
    }
}

/// The ring is spread evenly: already forty connections are right to a few.
#[test]
fn weights_are_spread() {
    let mut w = all_slots(Blocks { pick: 2, offset: 1, ..Blocks::default() });
    w.set(&format!(
        "device_factors service=1 epoch=0 server=1 -> set_factors({})",
        list(std::array::from_fn(|i| [5, 1, 1, 1].get(SLOTS - 1 - i).copied().unwrap_or(0)))
    ));
    for round in 0..10 {
        let mut counts = [0; SLOTS];
        (0..40).for_each(|i| counts[slot_of(&mut w, &syn(&client4(40 * round + i), WEB4))] += 1);
        counts.reverse();
        assert_shares(&counts[..4], &[5.0, 1.0, 1.0, 1.0], 0.05);
        assert_eq!(counts[4..], [0; SLOTS - 4]);
    }
}

/// Priorities with thresholds: the first device that is not out. Out at `high` or above, in again at `low` or below.
#[test]
fn thresholds_with_hysteresis() {
    let mut w =
        all_slots(Blocks { narrow: 2, pick: 1, metrics: [(COMPUTE, 1), (0, 0)], ..Blocks::default() });
    w.pool(1, 0, 1, ALL, 0, 0);
    let mut r = Random::new(4);
    let high = [0; SLOTS].map(|_| 50 + r.below(50) as u16);
    let low = high.map(|h| h - r.below(40) as u16 - 1);
    w.set(&format!(
        "device_thresholds service=1 epoch=0 server=1 -> set_thresholds({}, {})",
        list(high),
        list(low)
    ));
    let mut out = [false; SLOTS];
    let mut used = [0; SLOTS];
    for n in 0..300 {
        let loads = random_loads(&mut r, 130);
        report_all(&mut w, loads, 2);
        for i in 0..SLOTS {
            let load = u16::from(loads[i][0]);
            out[i] = load >= high[i] || out[i] && load > low[i];
        }
        let want = out.iter().position(|o| !o).unwrap_or(0);
        assert_eq!(slot_of(&mut w, &syn(&client4(n), WEB4)), want, "{loads:?} {out:?}");
        used[want] += 1;
    }
    assert!(used[..3].iter().all(|u| *u > 10), "{used:?}");
}

/// Of `k` devices by chance the least loaded: the i-th best of all gets the share that combinatorics says.
#[test]
fn power_of_k() {
    let choose = |n: u32, k: u32| (0..k).fold(1.0, |c, i| c * f64::from(n - i) / f64::from(i + 1));
    for k in [1u8, 2, 3, 0] {
        let mut w = all_slots(Blocks { choices: k, metrics: [(COMPUTE, 1), (0, 0)], ..Blocks::default() });
        // Ranks in no order.
        let ranks: [u8; SLOTS] = std::array::from_fn(|i| ((5 * i + 3) % SLOTS) as u8);
        report_all(&mut w, ranks.map(|rank| [10 * rank, 0, 0, 0]), 2);
        let mut counts = [0; SLOTS];
        (0..4000).for_each(|i| counts[slot_of(&mut w, &syn(&client4(i), WEB4))] += 1);
        let k = if k == 0 { SLOTS as u32 } else { u32::from(k) };
        let want: Vec<f64> = ranks
            .iter()
            .map(|rank| {
                let above = SLOTS as u32 - 1 - u32::from(*rank);
                if above + 1 < k { 0.0 } else { choose(above, k - 1) }
            })
            .collect();
        assert_shares(&counts, &want, 0.025);
    }
}

/// How connections of a run end.
fn end(w: &mut World, client: &str, slot: usize, r: &mut Random) {
    let device = named(slot);
    let to = segment(client, WEB4, tcp_flags::FIN | tcp_flags::ACK);
    let back = reply(device, &to);
    if r.one_in(3) {
        w.forward(CLIENTS, &segment(client, WEB4, tcp_flags::RST));
    } else if r.one_in(2) {
        w.forward(CLIENTS, &to);
        w.forward(2, &back.with_tcp(|t| t.flags = tcp_flags::FIN | tcp_flags::ACK));
    } else {
        w.forward(2, &back.with_tcp(|t| t.flags = tcp_flags::RST));
    }
}

/// Least connections: the switch's own counters equal the open connections at every moment, and the device with the
/// fewest is taken.
#[test]
fn least_connections() {
    let b = Blocks { metrics: [(IN_FLIGHT, 1), (0, 0)], counting: CONNECTIONS, ..Blocks::default() };
    let mut w = all_slots(b);
    let mut r = Random::new(5);
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut model = [0u64; SLOTS];
    for n in 0..800 {
        w.wait(1);
        if r.below(100) < if n / 100 % 2 == 0 { 30 } else { 60 } && !open.is_empty() {
            let (client, slot) = open.swap_remove(r.below(open.len()));
            end(&mut w, &client, slot, &mut r);
            model[slot] -= 1;
        } else {
            let client = client4(n);
            let slot = slot_of(&mut w, &syn(&client, WEB4));
            assert_eq!(Some(&model[slot]), model.iter().min(), "{model:?}");
            model[slot] += 1;
            open.push((client, slot));
        }
        // Packets that neither open nor end anything.
        if let Some((client, slot)) = open.first() {
            assert_eq!(slot_of(&mut w, &ack(client, WEB4)), *slot);
            w.forward(2, &reply(named(*slot), &ack(client, WEB4)));
        }
        assert_eq!(in_flight(&mut w), model);
    }
}

/// Weighted least connections: (connections + 1) / weight, by factors that are the inverse of the weights.
#[test]
fn weighted_least_connections() {
    let b =
        Blocks { metrics: [(IN_FLIGHT, 1), (0, 0)], offset: 1, counting: CONNECTIONS, ..Blocks::default() };
    let mut w = all_slots(b);
    let weights = halves([10, 5, 2, 1, 1, 10, 5, 2u64]);
    w.set(&format!(
        "device_factors service=1 epoch=0 server=1 -> set_factors({})",
        list(weights.map(|weight| (10 / weight) as u16))
    ));
    let mut model = [0u64; SLOTS];
    for n in 0..45 * SLOTS as u32 {
        let slot = slot_of(&mut w, &syn(&client4(n), WEB4));
        let value = |i: usize| (model[i] + 1) * 10 / weights[i];
        assert_eq!(value(slot), (0..SLOTS).map(value).min().expect("some"), "{model:?}");
        model[slot] += 1;
    }
    assert_eq!(model, weights.map(|weight| 10 * weight), "ten for each of the weights");
}

/// Datagrams: a flow counts from a request to its answer, once however often it is asked.
#[test]
fn requests_in_flight() {
    let b = Blocks { metrics: [(IN_FLIGHT, 1), (0, 0)], counting: REQUESTS, ..Blocks::default() };
    let mut w = all_slots(b);
    let mut r = Random::new(6);
    let mut flows: Vec<(String, usize, bool)> = Vec::new();
    let mut model = [0u64; SLOTS];
    for n in 0..600 {
        if r.one_in(3) || flows.is_empty() {
            let client = client4(n);
            let slot = slot_of(&mut w, &datagram(&client, DNS4));
            assert_eq!(Some(&model[slot]), model.iter().min(), "{model:?}");
            model[slot] += 1;
            flows.push((client, slot, true));
        } else {
            let i = r.below(flows.len());
            let (client, slot, waits) = &mut flows[i];
            let ask = datagram(client, DNS4);
            if r.one_in(2) {
                assert_eq!(slot_of(&mut w, &ask), *slot);
                model[*slot] += u64::from(!*waits);
                *waits = true;
            } else {
                w.forward(2, &reply(named(*slot), &ask));
                model[*slot] -= u64::from(*waits);
                *waits = false;
            }
        }
        assert_eq!(in_flight(&mut w), model);
    }
}

/// TCP: a request is a segment with data; a pure acknowledgement is neither request nor answer.
#[test]
fn requests_on_a_connection() {
    let b = Blocks { metrics: [(IN_FLIGHT, 1), (0, 0)], counting: REQUESTS, ..Blocks::default() };
    let mut w = all_slots(b);
    let client = client4(1);
    let slot = slot_of(&mut w, &syn(&client, WEB4));
    let count = |w: &mut World| in_flight(w).iter().sum::<u64>();
    let bare = ack(&client, WEB4);
    let data = bare.clone().payload("GET");
    let answer = |p: &Packet| reply(named(slot), p);
    assert_eq!(count(&mut w), 1, "a new connection has a request");
    w.forward(2, &answer(&data));
    assert_eq!(count(&mut w), 0);
    w.forward(CLIENTS, &bare);
    w.forward(2, &answer(&bare));
    assert_eq!(count(&mut w), 0);
    w.forward(CLIENTS, &data);
    w.forward(CLIENTS, &data);
    w.forward(2, &answer(&bare));
    assert_eq!(count(&mut w), 1);
    w.forward(CLIENTS, &segment(&client, WEB4, tcp_flags::RST));
    assert_eq!(count(&mut w), 0);
}

/// A RST that was not from the client takes the connection out of the count until its next packet shows that it continues.
#[test]
fn forged_resets() {
    let b = Blocks { metrics: [(IN_FLIGHT, 1), (0, 0)], counting: CONNECTIONS, ..Blocks::default() };
    let mut w = all_slots(b);
    let client = client4(1);
    slot_of(&mut w, &syn(&client, WEB4));
    for _ in 0..3 {
        w.forward(CLIENTS, &segment(&client, WEB4, tcp_flags::RST));
        assert_eq!(in_flight(&mut w).iter().sum::<u64>(), 0);
        w.forward(CLIENTS, &ack(&client, WEB4));
        assert_eq!(in_flight(&mut w).iter().sum::<u64>(), 1);
    }
}

/// Whoever comes after a connection that fell silent takes its place in the table and its one in the count.
#[test]
fn idle_connections() {
    let b = Blocks { metrics: [(IN_FLIGHT, 1), (0, 0)], counting: CONNECTIONS, ..Blocks::default() };
    let mut w = all_slots(b);
    for n in 0..20 {
        slot_of(&mut w, &syn(&client4(n), WEB4));
    }
    w.wait(IDLE_MS + UNIT_MS);
    for n in 0..20 {
        slot_of(&mut w, &syn(&client4(n), WEB4));
        assert_eq!(in_flight(&mut w).iter().sum::<u64>(), 20, "{n}: one comes, one goes");
    }
}

/// Join the idle queue: an idle device by chance while there is one, any after that.
#[test]
fn idle_devices_first() {
    let b = Blocks {
        narrow: 3,
        pick: 3,
        metrics: [(IN_FLIGHT, 1), (0, 0)],
        counting: CONNECTIONS,
        ..Blocks::default()
    };
    let mut w = all_slots(b);
    let mut r = Random::new(7);
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut first = [0; SLOTS];
    for round in 0..60 {
        for i in 0..12 {
            let client = client4(100 * round + i);
            let slot = slot_of(&mut w, &syn(&client, WEB4));
            let busy = |s: usize| open.iter().any(|(_, o)| *o == s);
            assert!(!busy(slot) || (0..SLOTS).all(busy), "{slot} of {open:?}");
            first[slot] += u32::from(i == 0);
            open.push((client, slot));
        }
        for (client, slot) in open.drain(..) {
            end(&mut w, &client, slot, &mut r);
        }
    }
    assert_shares(&first, &[1.0; SLOTS], 0.16);
}

/// A device that works on several requests at a time is idle while it has room. If none has room, and among those that
/// do, each is taken in proportion to its weight.
#[test]
fn idle_below_a_number() {
    let b = Blocks {
        narrow: 3,
        pick: 3,
        metrics: [(IN_FLIGHT, 1), (0, 0)],
        counting: CONNECTIONS,
        second_only: 1,
        ..Blocks::default()
    };
    let mut w = all_slots(b);
    let room = halves([4u16, 1, 8, 2, 1, 1, 3, 1]);
    let weights = halves([5u16, 1, 2, 1, 1, 1, 4, 1]);
    let all = |values: [u16; SLOTS]| list(values);
    w.set(&format!("device_factors service=1 epoch=0 server=1 -> set_factors({})", all(weights)));
    w.set(&format!(
        "device_thresholds service=1 epoch=0 server=1 -> set_thresholds({}, {})",
        all(room),
        all(room.map(|r| r - 1))
    ));
    w.pool(1, 0, 1, ALL, 0, 0);
    let mut open = [0u16; SLOTS];
    for n in 0..21 * SLOTS as u32 / 8 {
        let slot = slot_of(&mut w, &syn(&client4(n), WEB4));
        assert!(open[slot] < room[slot], "{slot} has no room: {open:?}");
        open[slot] += 1;
    }
    assert_eq!(open, room, "all have as many as they work on");
    let mut counts = [0; SLOTS];
    (100..2148).for_each(|n| counts[slot_of(&mut w, &syn(&client4(n), WEB4))] += 1);
    assert_shares(&counts, &weights.map(f64::from), 0.001);
}

/// Reported load and requests in flight as one number, the latter relative to each device's workers: the smallest wins,
/// whatever a stale report says.
#[test]
fn reports_with_what_is_in_flight() {
    let b = Blocks {
        metrics: [(COMPUTE, 8), (IN_FLIGHT, 1)],
        counting: CONNECTIONS,
        second_only: 1,
        ..Blocks::default()
    };
    let mut w = all_slots(b);
    let workers = halves([8u32, 1, 4, 2, 16, 5, 3, 10]);
    let factors = workers.map(|n| (800 / n) as u16);
    w.set(&format!("device_factors service=1 epoch=0 server=1 -> set_factors({})", list(factors)));
    let mut r = Random::new(14);
    let mut open = [0u32; SLOTS];
    let mut n = 0;
    for _ in 0..4 {
        let loads = random_loads(&mut r, 101);
        report_all(&mut w, loads, 2);
        for _ in 0..60 {
            n += 1;
            let value = |i: usize| 8 * u32::from(loads[i][0]) + open[i] * u32::from(factors[i]);
            let least = (0..SLOTS).map(value).min().expect("some");
            let slot = slot_of(&mut w, &syn(&client4(n), WEB4));
            assert_eq!(value(slot), least, "{loads:?} {open:?} gave {slot}");
            open[slot] += 1;
        }
    }
}

/// One word for every device in the mask, from agents that each report for one.
#[test]
fn reports_of_one_device() {
    let mut w = World::one_server(BLOCKS);
    set_blocks(&mut w, 1, 0, &Blocks { metrics: [(MEMORY, 1), (0, 0)], ..Blocks::default() });
    for (n, (first, second)) in [(10, 20), (20, 10), (9, 10), (10, 9)].into_iter().enumerate() {
        for (device, memory) in [(8, first), (9, second)] {
            w.wait(1);
            let sequence = (w.rig.now.0 / 1_000_000) as u32;
            let report = Report { length: 4, metrics: 1, ..Report::new(1, 1 << (device & 7), 0, sequence) };
            let mut bytes = report.bytes();
            bytes.extend([0, memory, 0, 0]);
            let packet = report_packet(device, n % 2 == 0, &report).payload(bytes);
            w.dropped(device_port(device), &packet, "REPORT_ACCEPTED");
        }
        let want = if first < second { 8 } else { 9 };
        assert_eq!(w.device_of(&syn(&client4(n as u32), WEB4)), want);
    }
}

fn probe(device: u16, bytes: Vec<u8>) -> Packet {
    Packet::ip(device_address(device, true), "10.0.0.1", L4::Other { proto: 42, bytes })
        .macs(device_mac(device), SWITCH)
}

fn narrow_probe(device: u16, id: u8, cpu: u8, memory: u8, link: u8) -> Packet {
    let mut bytes = vec![id << 4 | cpu, memory << 4 | link];
    bytes.resize(26, 0); // 60 bytes with its headers
    probe(device, bytes)
}

/// Weights by probes: (3 cpu + memory + 6 link) / 8 of tenths that are free, from 0 to 12. No connection for a weight
/// of 0; all at 0 share; a device that sends no probes any more is out.
#[test]
fn probes() {
    let mut w = World::one_server(BLOCKS);
    set_blocks(&mut w, 1, 0, &Blocks { pick: 2, metrics: [(WEIGHT, 1), (0, 0)], ..Blocks::default() });
    w.pool(1, 0, 1, 3, 0, 500);
    for d in [8, 9] {
        w.add(&format!("probe_sources ingress_port=2 source=10.0.1.{d} id={} -> accept_probe({d})", d - 7));
    }
    let mut n = 0;
    for (first, second) in [
        ([10, 10, 10], [10, 10, 10]),
        ([10, 10, 10], [1, 2, 3]),
        ([2, 1, 0], [9, 0, 1]),
        ([1, 0, 1], [10, 10, 10]),
        ([0, 1, 1], [10, 10, 10]),
        ([0, 0, 0], [1, 1, 1]),
        ([0, 0, 0], [0, 0, 0]),
    ] {
        let mut weights = [0.0; 2];
        for (d, [cpu, memory, link]) in [(8, first), (9, second)] {
            w.dropped(2, &narrow_probe(d, d as u8 - 7, cpu, memory, link), "REPORT_ACCEPTED");
            weights[usize::from(d) - 8] = f64::from((3 * cpu + memory + 6 * link) / 8);
        }
        let mut counts = [0; 2];
        for _ in 0..2048 {
            n += 1;
            counts[usize::from(w.device_of(&syn(&client4(n), WEB4))) - 8] += 1;
        }
        if weights == [0.0; 2] {
            weights = [1.0; 2];
        }
        assert_shares(&counts, &weights, 0.001);
        assert!(weights[0] > 0.0 || counts[0] == 0);
    }
    // Only one keeps sending.
    w.wait(501);
    w.dropped(2, &narrow_probe(8, 1, 1, 1, 1), "REPORT_ACCEPTED");
    for _ in 0..20 {
        n += 1;
        assert_eq!(w.device_of(&syn(&client4(n), WEB4)), 8);
    }
    w.dropped(2, &narrow_probe(8, 2, 1, 1, 1), "DROP_REPORT_SOURCE");
    w.dropped(2, &narrow_probe(9, 1, 1, 1, 1), "DROP_REPORT_SOURCE");
    w.dropped(3, &Packet { ..narrow_probe(8, 1, 1, 1, 1) }, "DROP_REPORT_SOURCE");
    // Too short to be one, and one for another station.
    w.dropped(2, &probe(8, vec![0]), "DROP_VIP_NO_SERVICE");
    let other = narrow_probe(8, 1, 1, 1, 1).dst("10.0.9.9");
    let (port, got) = w.forward(2, &other);
    assert_eq!(port, PLAIN_PORT);
    let (Body::Ip(a), Body::Ip(b)) = (&got.body, &other.body) else { panic!("{got:?}") };
    assert_eq!(a.l4, b.l4);
}

/// A device that sends both: a report keeps the weight of the last probe, a probe the queue of the last report.
#[test]
fn probes_and_reports_of_one_device() {
    let mut w = World::one_server(BLOCKS);
    set_blocks(&mut w, 1, 0, &Blocks { pick: 2, metrics: [(WEIGHT, 1), (0, 0)], ..Blocks::default() });
    set_blocks(&mut w, 2, 0, &Blocks { metrics: [(QUEUE, 1), (0, 0)], ..Blocks::default() });
    for d in [8, 9] {
        w.add(&format!("probe_sources ingress_port=2 source=10.0.1.{d} id={} -> accept_probe({d})", d - 7));
    }
    let report = |w: &mut World, device: u16, queue: u8| {
        w.wait(1);
        let sequence = (w.rig.now.0 / 1_000_000) as u32;
        let report = Report { length: 4, metrics: 1, ..Report::new(1, 1 << (device & 7), 3, sequence) };
        let mut bytes = report.bytes();
        bytes.extend([50, 50, 50, queue]);
        let packet = report_packet(device, true, &report).payload(bytes);
        w.dropped(device_port(device), &packet, "REPORT_ACCEPTED");
    };
    let mut n = 0;
    for order in 0..4 {
        for step in 0..2 {
            if (order + step) % 2 == 0 {
                w.dropped(2, &narrow_probe(8, 1, 10, 10, 10), "REPORT_ACCEPTED"); // 12
                w.dropped(2, &narrow_probe(9, 2, 4, 2, 3), "REPORT_ACCEPTED"); // 4
            } else {
                report(&mut w, 8, 9);
                report(&mut w, 9, 3);
            }
        }
        let mut counts = [0; 2];
        for _ in 0..2048 {
            n += 1;
            counts[usize::from(w.device_of(&syn(&client4(n), WEB4))) - 8] += 1;
        }
        assert_shares(&counts, &[12.0, 4.0], 0.001);
        for i in 0..20 {
            assert_eq!(
                w.device_of(&datagram(&client4(10_000 * (order + 1) + i), DNS4)),
                9,
                "the shorter queue"
            );
        }
    }
}

/// Wide probes say per cent and have sequence numbers; the machine's load is known from them too.
#[test]
fn wide_probes() {
    let mut w = World::one_server(BLOCKS);
    set_blocks(&mut w, 1, 0, &Blocks { pick: 2, metrics: [(WEIGHT, 1), (0, 0)], ..Blocks::default() });
    set_blocks(&mut w, 2, 0, &Blocks { metrics: [(COMPUTE, 1), (0, 0)], ..Blocks::default() });
    let wide = |w: &mut World, d: u16, [cpu, memory, link]: [u8; 3], sequence: u32, reason: &str| {
        let mut bytes = vec![0xf1, d as u8 + 100, cpu, memory, link, 0, 0, 0];
        bytes.extend(sequence.to_be_bytes());
        w.dropped(2, &probe(d, bytes), reason);
    };
    for d in [8u16, 9] {
        w.add(&format!("probe_sources ingress_port=2 source=10.0.1.{d} id={} -> accept_probe({d})", d + 100));
    }
    wide(&mut w, 8, [100, 100, 100], 5000, "REPORT_ACCEPTED");
    wide(&mut w, 9, [37, 21, 5], 5000, "REPORT_ACCEPTED");
    let mut counts = [0; 2];
    (0..2048).for_each(|n| counts[usize::from(w.device_of(&syn(&client4(n), WEB4))) - 8] += 1);
    assert_shares(&counts, &[125.0, f64::from((3 * 37 + 21 + 6 * 5) / 8)], 0.001);
    assert_eq!(w.device_of(&datagram(&client4(1), DNS4)), 8);
    wide(&mut w, 8, [1, 1, 1], 4999, "DROP_REPORT_STALE");
    wide(&mut w, 8, [36, 1, 1], 5001, "REPORT_ACCEPTED");
    assert_eq!(w.device_of(&datagram(&client4(2), DNS4)), 9);
}

/// The controller's choice: a device, a server, or nothing; the named device or server must belong to the service.
#[test]
fn controllers_choice() {
    let mut w = World::new();
    let b = Blocks {
        servers: 3,
        pick: 4,
        metrics: [(IN_FLIGHT, 1), (0, 0)],
        counting: CONNECTIONS,
        ..Blocks::default()
    };
    set_blocks(&mut w, 1, 0, &b);
    w.service(1, BLOCKS, 0);
    for server in [1, 2] {
        w.set(&format!("chosen_pools service=1 epoch=0 server={server} -> set_pool(3, {server}, 0, 0)"));
    }
    let mut n = 0;
    let mut devices = |w: &mut World, choice: u32| -> Vec<u16> {
        w.rig.write_register("controllers_choice", 1, &choice.to_string()).expect("a register");
        let mut out: Vec<u16> = (0..40)
            .map(|_| {
                n += 1;
                w.device_of(&syn(&client4(n), WEB4))
            })
            .collect();
        out.sort_unstable();
        out.dedup();
        out
    };
    assert_eq!(devices(&mut w, 0), [8, 9, 16, 17], "no choice");
    for device in DEVICES {
        assert_eq!(devices(&mut w, 0xc000_0000 | u32::from(device)), [device]);
    }
    assert_eq!(devices(&mut w, 0x8000_0000 | 16), [16, 17], "a server");
    assert_eq!(devices(&mut w, 0xc000_0000 | 99 << 3), [8, 9, 16, 17], "no server of the service");
    // A device that the pool does not have: the first by priority of its server.
    assert_eq!(devices(&mut w, 0xc000_0000 | 21), [16]);
}

/// Two servers compared: the less loaded one per weight. With memory, even fewer exceed the others.
#[test]
fn servers_by_load() {
    let mut spread = Vec::new();
    for servers in [0u8, 1, 2] {
        let mut w = World::new();
        let b =
            Blocks { servers, counting: CONNECTIONS, metrics: [(IN_FLIGHT, 1), (0, 0)], ..Blocks::default() };
        set_blocks(&mut w, 1, 0, &b);
        w.service(1, BLOCKS, 0);
        // Server 2 has three quarters of the slots, and is three times as strong.
        for slot in 0..16 {
            let server = if slot % 4 == 0 { 1 } else { 2 };
            w.set(&format!("server_slots service=1 epoch=0 slot={slot} -> use_server({server})"));
            for copy in ["first", "second"] {
                let cost = if server == 1 { 3 } else { 1 };
                w.set(&format!(
                    "{copy}.slots service=1 epoch=0 slot={slot} -> use_weighted({server}, {cost})"
                ));
            }
        }
        let mut counts = BTreeMap::new();
        for n in 0..800 {
            *counts.entry(w.device_of(&syn(&client4(n), WEB4)) >> 3).or_insert(0u32) += 1;
        }
        let off = (i64::from(counts[&1]) - 200).abs();
        assert!(off < 45, "{servers}: {counts:?}");
        if servers > 0 {
            for copy in ["first", "second"] {
                for (server, n) in &counts {
                    let name = format!("select_server.{copy}.in_flight");
                    assert_eq!(
                        w.rig.register(&name, u64::from(*server)).expect("there").low_u64(),
                        u64::from(*n)
                    );
                }
            }
            assert!(off <= 8, "{servers}: {counts:?}");
            // One server loses its connections: the next ones go there.
            let mut r = Random::new(9);
            let mut went = 0;
            for n in 0..800 {
                let (_, got) = w.forward(CLIENTS, &segment(&client4(n), WEB4, tcp_flags::ACK));
                if got.dst_mac[5] >> 3 == 1 && r.one_in(2) {
                    w.forward(CLIENTS, &segment(&client4(n), WEB4, tcp_flags::RST));
                    went += 1;
                }
            }
            let to_first = (1000..1100).filter(|n| w.device_of(&syn(&client4(*n), WEB4)) >> 3 == 1).count();
            assert!(to_first > 35, "{servers}: {to_first} of 100 after {went} left");
        }
        spread.push(off);
    }
}

/// Silent devices are out, whatever they reported; devices of the pool alone are candidates, under every combination of blocks.
#[test]
fn only_candidates() {
    let mut r = Random::new(11);
    let mut w = all_slots(Blocks::default());
    let mut n = 0;
    for _ in 0..150 {
        let b = Blocks {
            narrow: r.below(5) as u8,
            pick: r.below(6) as u8,
            choices: r.below(4) as u8,
            counting: *r.choose(&[0, CONNECTIONS, REQUESTS]),
            metrics: [(r.below(8) as u8, r.below(4) as u8), (r.below(8) as u8, r.below(4) as u8)],
            step: r.below(3) as u8,
            offset: r.below(3) as u8,
            complement: r.below(2) as u8,
            second_only: r.below(2) as u8,
            servers: 0,
        };
        set_blocks(&mut w, 1, 0, &b);
        let pool = 1 + r.below(usize::from(ALL)) as u16;
        w.pool(1, 0, 1, pool, 0, 50);
        w.wait(100);
        let heard = 1 + r.below(usize::from(ALL)) as u16;
        let available = r.below(usize::from(ALL) + 1) as u16;
        w.report_slots(heard, available, 2, &random_loads(&mut r, 120));
        let candidates = if pool & heard != 0 { pool & heard } else { pool };
        for _ in 0..4 {
            n += 1;
            let packet = syn(&client4(n), WEB4);
            let slot = slot_of(&mut w, &packet);
            assert!(candidates & 1 << slot != 0, "{slot} of {candidates:#x}");
            assert_eq!(slot_of(&mut w, &packet), slot, "the same SYN again");
        }
    }
}
