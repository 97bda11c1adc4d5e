//! Runs of the testbed.

use super::*;
use crate::program::App;
use crate::trace::{Sent, frame};
use std::net::Ipv4Addr;

/// Messages over IPv6.
const IPV6: &str = "#define REDPLANE_IPV6\n";

fn setup(build: &Build, stores: usize) -> Setup<'_> {
    Setup { stores, ..Setup::new(build, 1) }
}

/// The counts that packets show, each of which is sent to a switch at a time in milliseconds, and when they came back. The first switch fails
/// after 50 ms.
fn counts(build: &Build, stores: usize, packets: &[(u64, usize)]) -> Vec<(u64, u8)> {
    let mut testbed = Testbed::new(setup(build, stores)).expect("a testbed");
    let sent = Sent { at: 0, flow: 1, place: 1, last: false, bytes: 64 };
    for (ms, switch) in packets {
        let frame = frame(&sent, 0, Ipv4Addr::new(10, 0, 0, 1), false);
        testbed.send(ms * 1_000_000, (*switch, 0), frame, 0);
    }
    testbed.timer(50_000_000, 0);
    let mut seen = Vec::new();
    while let Some(happened) = testbed.next(3_000_000_000) {
        match happened {
            Happened::AtHost { frame, .. } => seen.push((testbed.now(), frame[19])),
            Happened::Timer(_) => testbed.crash(0),
        }
    }
    seen
}

#[test]
fn overtaking_between_stores_costs_no_packet() {
    let build = Build::new(App::Counter, false, "", &[]).expect("a program");
    let setup = Setup { disorder_ns: 50_000, resend_ns: 1_000_000, ..setup(&build, 3) };
    let mut testbed = Testbed::new(setup).expect("a testbed");
    let to = Ipv4Addr::new(10, 0, 0, 1);
    let mut sent_at = Vec::new();
    // 50,000 packets a second of 100 flows.
    for n in 0..2_000 {
        let at = 1_000_000 + u64::from(n) * 20_000;
        let sent = Sent { at, flow: n % 100, place: 1, last: false, bytes: 64 };
        testbed.send(at, (0, 0), frame(&sent, n, to, false), 0);
        sent_at.push(at);
    }
    let mut took = Vec::new();
    while let Some(Happened::AtHost { frame, .. }) = testbed.next(500_000_000) {
        let n = crate::trace::number(&frame).expect("a number") as usize;
        took.push((testbed.now() - sent_at[n]) / 1_000);
    }
    took.sort_unstable();
    let (most, p99) = (took.last().copied(), took[took.len() * 99 / 100]);
    println!("{} of 2000 packets back, P99 {p99} us, at most {most:?} us", took.len());
    assert_eq!(took.len(), 2_000);
    assert!(p99 < 1_000, "P99 {p99} us");
}

#[test]
fn a_count_outlives_its_switch() {
    let build = Build::new(App::Counter, false, "", &[]).expect("a program");
    let packets = [(0, 0), (1, 0), (2, 0), (60, 0), (100, 1), (2000, 1)];
    for stores in [1, 3] {
        let seen = counts(&build, stores, &packets);
        let shown: Vec<u8> = seen.iter().map(|(_, count)| *count).collect();
        // The fourth is lost; the fifth waits for the end of the lease.
        assert_eq!(shown, [1, 2, 3, 4, 5], "{seen:?}");
        assert!((1_000_000_000..1_100_000_000).contains(&seen[3].0), "{seen:?}");
        assert_eq!(counts(&build, stores, &packets), seen, "equal runs");
    }
}

/// What comes back of a state that is made, read and changed: at one switch, or at two of which the other one asks for it, and the first fails then.
fn answers(app: App, plain: bool, more: &str) -> Vec<Vec<u8>> {
    let defines = format!("#define REDPLANE_SHARDS 3\n{more}");
    let build = Build::new(app, plain, &defines, &[]).expect("a program");
    let mut testbed = Testbed::new(Setup { shards: 3, ..setup(&build, 1) }).expect("a testbed");
    let mut number = 0;
    for (ms, switch, writes) in [
        (1, 0, true),
        (10, 0, false),
        (20, 0, true),
        (30, 1, true),
        (40, 0, false),
        (100, 1, false),
        (3_000, 1, true),
    ] {
        for flow in 0..8 {
            let place = u32::from(ms > 1);
            let sent = Sent { at: ms * 1_000_000, flow, place, last: false, bytes: 64 };
            let switch = if plain { 0 } else { switch };
            testbed.send(sent.at, (switch, 0), app.frame(&sent, number, writes), 0);
            number += 1;
        }
    }
    testbed.timer(50_000_000, 0);
    let mut back = BTreeMap::new();
    while let Some(happened) = testbed.next(5_000_000_000) {
        match happened {
            Happened::AtHost { frame, .. } => {
                let number = app.number(&frame).expect("a number");
                assert_eq!(back.insert(number, frame), None, "{app:?}: packet {number} came back twice");
            }
            Happened::Timer(_) if plain => {}
            Happened::Timer(_) => testbed.crash(0),
        }
    }
    assert_eq!(back.len() as u32, number, "{app:?}: all came back");
    if !plain {
        let count = |n: usize| testbed.stores.step(0, n, None).switches.len();
        assert_eq!([0, 1, 2].map(count), [0; 3], "the stores wait for nothing");
    }
    back.into_values().collect()
}

#[test]
fn applications_are_like_one_switch_that_never_fails() {
    for app in [App::Counter, App::Firewall, App::Dispatch, App::Gateway, App::KeyValue] {
        let plain = answers(app, true, "");
        for more in ["", IPV6] {
            let protected = answers(app, false, more);
            for (n, (a, b)) in plain.iter().zip(&protected).enumerate() {
                assert_eq!(a, b, "{app:?}, packet {n}, {more}");
            }
        }
    }
}

#[test]
fn a_request_over_ipv6_without_the_right_checksum_is_lost() {
    let back = |defines: &str, changes: &[(&str, &str)]| {
        let build = Build::new(App::Counter, false, defines, changes).expect("a program");
        counts(&build, 1, &[(0, 0), (1, 0), (2, 0)]).len()
    };
    assert_eq!(back(IPV6, &[]), 3);
    // The program forgets a header.
    let headers = ("meta.redplane, hdr.ethernet, hdr.ipv4, hdr.ports)", "meta.redplane, hdr.ethernet)");
    assert_eq!((back(IPV6, &[headers]), back("", &[headers])), (0, 3));
}

/// A NAT with so many stores: packets of so many connections to different hosts, each of which answers at once: how many come out, and how many answers in.
fn translated(shards: u16, defines: &str, changes: &[(&str, &str)], flows: u32) -> (u32, u32) {
    let build = Build::new(App::Nat, false, defines, changes).expect("a program");
    let store = Config { pools: vec!["203.0.113.1:1024-1123".parse().expect("a pool")], ..Config::default() };
    let mut testbed = Testbed::new(Setup { shards, store, ..setup(&build, 1) }).expect("a testbed");
    for flow in 0..flows {
        let sent = Sent { at: 0, flow, place: 0, last: false, bytes: 64 };
        let to = Ipv4Addr::new(10, 128, 0, flow as u8);
        testbed.send(1_000_000, (0, 0), frame(&sent, flow, to, false), 0);
    }
    let (mut out, mut back) = (0, 0);
    while let Some(Happened::AtHost { mut frame, .. }) = testbed.next(3_000_000_000) {
        if frame[26..30] == [203, 0, 113, 1] {
            out += 1;
            // The answer: addresses and ports the other way round, which no checksum notices.
            let ends = frame[26..38].to_vec();
            frame[26..30].copy_from_slice(&ends[4..8]);
            frame[30..34].copy_from_slice(&ends[..4]);
            frame[34..36].copy_from_slice(&ends[10..12]);
            frame[36..38].copy_from_slice(&ends[8..10]);
            testbed.send(testbed.now(), (0, 1), frame, 0);
        } else {
            back += 1;
        }
    }
    (out, back)
}

#[test]
fn both_keys_of_a_binding_have_one_store() {
    // So many hosts that all stores make bindings.
    assert_eq!(translated(3, "#define REDPLANE_SHARDS 3\n", &[], 30), (30, 30));
}

#[test]
fn both_keys_of_a_binding_have_slots_of_their_own() {
    assert_eq!(translated(1, "#define REDPLANE_SLOTS 2\n", &[], 1), (1, 1));
    let side = ("#define REDPLANE_SIDE_OF(key) key[8:8]\n", "");
    let outside = "        outside = outside[31:1] ++ REDPLANE_SIDE_OF(key);\n";
    let changes = [side, (outside, "")];
    assert_eq!(translated(1, "#define REDPLANE_SLOTS 1\n", &changes, 1), (1, 0), "the answer finds no room");
}

/// Two hosts whose counts want the same slot send packets for 5 s, one every `every_ms` each, the second one `after_ms` later than the first, of which later packets only
/// read if it `reads`: how many of each come back.
fn in_one_slot((every_ms, after_ms): (u64, u64), reads: bool, changes: &[(&str, &str)]) -> [usize; 2] {
    let build = Build::new(App::Counter, false, "#define REDPLANE_SLOTS 1\n", changes).expect("a program");
    let mut testbed = Testbed::new(setup(&build, 1)).expect("a testbed");
    for n in 0..5_000 / every_ms {
        for (flow, after) in [(0, 0), (1, after_ms)] {
            let at = (n * every_ms + after) * 1_000_000;
            let sent = Sent { at, flow, place: 1, last: false, bytes: 64 };
            testbed.send(at, (0, 0), App::Counter.frame(&sent, flow, !reads || flow > 0 || n == 0), 0);
        }
    }
    let mut back = [0; 2];
    while let Some(Happened::AtHost { frame, .. }) = testbed.next(8_000_000_000) {
        let flow = crate::trace::number(&frame).expect("a number");
        let count = &mut back[flow as usize];
        *count += 1;
        // Nothing that was counted is lost when the other one gets the slot.
        let counted = if reads && flow == 0 { 1 } else { *count };
        assert_eq!(frame[19], counted as u8, "host {flow}");
    }
    back
}

#[test]
fn keys_of_one_slot_take_turns_when_they_rest() {
    // Each rests for longer than the part of a lease in which it would be renewed.
    assert_eq!(in_one_slot((1_250, 625), false, &[]), [4, 4]);
    // The first one never rests: the other one finds no room, which the first one does not notice.
    for reads in [false, true] {
        assert_eq!(in_one_slot((10, 5), reads, &[]), [500, 0]);
    }
    // A lease that is never given up keeps the other one out.
    let never = ("m.slot.until - now < m.renew && now - asked >= m.renew", "now == 0");
    assert_eq!(in_one_slot((1_250, 625), false, &[never]), [4, 0]);
}

#[test]
fn a_full_port_and_a_full_ring_lose_packets() {
    let build = Build::new(App::Counter, true, "", &[]).expect("a program");
    let times = Times { port: Some((1e6, 4)), ..Times::default() };
    let mut testbed = Testbed::new(Setup { times, ..setup(&build, 1) }).expect("a testbed");
    let sent = Sent { at: 0, flow: 1, place: 1, last: false, bytes: 64 };
    for n in 0..20 {
        testbed.send(0, (0, 0), App::Counter.frame(&sent, n, true), 0);
    }
    let mut times = Vec::new();
    while let Some(Happened::AtHost { .. }) = testbed.next(1_000_000) {
        times.push(testbed.now());
    }
    // One leaves at once; the others find at most four before them.
    assert!((5..=7).contains(&times.len()), "{times:?}");
    assert!(times[times.len() - 1] - times[0] > 3_000, "{times:?}");
    let build = Build::new(App::Counter, false, "", &[]).expect("a program");
    let times = Times { ring: 2, ..Times::default() };
    let mut testbed = Testbed::new(Setup { times, ..setup(&build, 1) }).expect("a testbed");
    for n in 0..20 {
        testbed.send(0, (0, 0), App::Counter.frame(&sent, n, true), 0);
    }
    while testbed.next(1_000_000).is_some() {}
    assert!(testbed.requests().1 >= 16, "{:?}", testbed.requests());
}

#[test]
fn a_write_leaves_the_buffer_when_it_is_acknowledged_and_is_sent_again_when_it_is_old() {
    // Looks every 10 us, for a millisecond.
    let build = Build::new(App::Counter, false, "#define REDPLANE_RESEND 1000000\n", &[]).expect("a program");
    let mut testbed = Testbed::new(Setup { resend_ns: 10_000, ..setup(&build, 1) }).expect("a testbed");
    let sent = Sent { at: 0, flow: 1, place: 1, last: false, bytes: 64 };
    let frame = App::Counter.frame(&sent, 0, true);
    let until = |testbed: &mut Testbed<'_>, us: u64| {
        while testbed.next(us * 1_000).is_some() {}
        let buffered = testbed.register(0, "redplane_buffered", 0);
        (buffered.expect("a register"), testbed.requests().0)
    };
    testbed.send(0, (0, 0), frame.clone(), 0);
    assert_eq!(until(&mut testbed, 60), (0, 2), "the key, and a write that was acknowledged");
    testbed.setup.loss = 1.0;
    testbed.send(100_000, (0, 0), frame, 0);
    assert_eq!(until(&mut testbed, 1_000), (1, 3), "it is looked at, not sent");
    assert_eq!(until(&mut testbed, 1_200), (1, 4), "sent again");
    assert_eq!(until(&mut testbed, 2_300), (1, 5), "and again");
    testbed.setup.loss = 0.0;
    assert_eq!(until(&mut testbed, 3_400), (0, 6));
}
