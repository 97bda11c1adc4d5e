//! Which server and which device a new connection gets.

use super::world::*;
use std::collections::BTreeMap;

/// Opens `n` connections and counts them by device.
fn shares(w: &mut World, n: u32) -> BTreeMap<u16, u32> {
    let mut out = BTreeMap::new();
    for i in 0..n {
        *out.entry(w.device_of(&syn(&client4(i), WEB4))).or_default() += 1;
    }
    out
}

/// Chi-squared of counts against weights.
fn chi_squared(counts: &BTreeMap<u16, u32>, weights: &[(u16, f64)]) -> f64 {
    let n: u32 = counts.values().sum();
    let total: f64 = weights.iter().map(|(_, w)| w).sum();
    let one = |(device, weight): &(u16, f64)| {
        let expected = f64::from(n) * weight / total;
        (f64::from(counts.get(device).copied().unwrap_or(0)) - expected).powi(2) / expected
    };
    weights.iter().map(one).sum()
}

/// 99.9 % quantiles of chi-squared, by degrees of freedom.
const LIMIT: [f64; 4] = [0.0, 10.8, 13.8, 16.3];

#[test]
fn servers_share_by_their_slots() {
    let mut w = World::new();
    w.service(1, AVAILABILITY, 0);
    let counts = shares(&mut w, 4000);
    assert!(chi_squared(&counts, &[(8, 1.0), (16, 1.0)]) < LIMIT[1], "{counts:?}");
    // Three quarters of the slots.
    let mut w = World::new();
    w.slots(1, 0, &[1, 1, 2, 1]);
    w.service(1, AVAILABILITY, 0);
    let counts = shares(&mut w, 4000);
    assert!(chi_squared(&counts, &[(8, 3.0), (16, 1.0)]) < LIMIT[1], "{counts:?}");
}

/// When one server fails, only its own slots change hands: clients of the other keep their slots' server.
#[test]
fn slots_disturb_little() {
    let mut w = World::new();
    w.service(1, AVAILABILITY, 0);
    let server = |w: &mut World, i: u32| w.device_of(&syn(&client4(i), WEB4)) >> 3;
    let before: Vec<u16> = (0..300).map(|i| server(&mut w, i)).collect();
    let mut w = World::new();
    w.service(1, AVAILABILITY, 0);
    for slot in (0..16).filter(|s| s % 4 == 3) {
        w.set(&format!("server_slots service=1 epoch=0 slot={slot} -> use_server(1)"));
    }
    let mut moved = 0;
    for (i, was) in before.iter().enumerate() {
        let is = server(&mut w, i as u32);
        assert!(is == *was || is == 1, "client {i} went from {was} to {is}");
        moved += u32::from(is != *was);
    }
    // Half of the server's slots.
    assert!((45..105).contains(&moved), "{moved} of 300 moved");
}

#[test]
fn hash_spreads_over_the_ring() {
    let mut w = World::new();
    let counts = shares(&mut w, 6000);
    let weights = [(8, 5.0), (9, 1.0), (16, 5.0), (17, 1.0)];
    assert!(chi_squared(&counts, &weights) < LIMIT[3], "{counts:?}");
    let mut w = World::one_server(HASH);
    w.fill(1, 0, &[1], &[0, 1]);
    let counts = shares(&mut w, 4000);
    assert!(chi_squared(&counts, &[(8, 1.0), (9, 1.0)]) < LIMIT[1], "{counts:?}");
}

/// Clients that differ in one bit of address or port only.
#[test]
fn hash_spreads_neighbours() {
    for v4 in [true, false] {
        let mut w = World::one_server(HASH);
        for service in [1, 3] {
            w.fill(service, 0, &[1], &[0, 1]);
        }
        let mut counts = BTreeMap::new();
        for i in 0..2000u32 {
            let device = if v4 {
                w.device_of(&syn(&format!("192.0.2.{}:{}", i % 250, 40_000 + i / 250), WEB4))
            } else {
                w.device_of(&syn(&format!("[2001:db8::{:x}]:40000", i), WEB6))
            };
            *counts.entry(device).or_default() += 1;
        }
        assert!(chi_squared(&counts, &[(8, 1.0), (9, 1.0)]) < LIMIT[1], "{counts:?}");
    }
}

/// Stateless: the same client gets the same device from another switch.
#[test]
fn hash_is_the_same_everywhere() {
    let (mut a, mut b) = (World::new(), World::new());
    b.wait(12_345);
    shares(&mut b, 17);
    for i in 100..200 {
        assert_eq!(a.device_of(&syn(&client4(i), WEB4)), b.device_of(&syn(&client4(i), WEB4)));
    }
}

/// Five to one is exactly five to one in each turn, and packets of established connections do not advance the ring.
#[test]
fn round_robin_counts_connections() {
    let mut w = World::one_server(ROUND_ROBIN);
    let mut n = 0;
    for turn in 0..20 {
        let mut got = Vec::new();
        for _ in 0..6 {
            let client = client4(n);
            got.push(w.device_of(&syn(&client, WEB4)));
            for old in [n, n / 2, 0] {
                w.forward(CLIENTS, &ack(&client4(old), WEB4));
            }
            n += 1;
        }
        assert_eq!(got, [8, 8, 8, 8, 8, 9], "turn {turn}");
    }
}

/// Every server and every service has its own ring.
#[test]
fn rings_are_independent() {
    let mut w = World::new();
    for service in 1..=4 {
        w.service(service, ROUND_ROBIN, 0);
    }
    let mut got: BTreeMap<(usize, u16), Vec<u16>> = BTreeMap::new();
    for i in 0..120 {
        let packets = [
            syn(&client4(i), WEB4),
            datagram(&client4(i), DNS4),
            syn(&client6(i), WEB6),
            datagram(&client6(i), DNS6),
        ];
        for (s, p) in packets.iter().enumerate() {
            let device = w.device_of(p);
            got.entry((s, device >> 3)).or_default().push(device & 7);
        }
    }
    assert_eq!(got.len(), 8);
    for (ring, slots) in got {
        let want: Vec<u16> = (0..slots.len()).map(|i| u16::from(i % 6 == 5)).collect();
        assert_eq!(slots, want, "{ring:?}");
    }
}

/// A ring can become shorter or longer without a gap.
#[test]
fn rings_change_their_length() {
    let mut w = World::one_server(ROUND_ROBIN);
    let mut n = 0;
    let mut open = |w: &mut World| {
        n += 1;
        w.device_of(&syn(&client4(n), WEB4))
    };
    (0..5).for_each(|_| assert_eq!(open(&mut w), 8));
    w.fill(1, 0, &[1], &[1, 0]);
    let got: Vec<u16> = (0..4).map(|_| open(&mut w)).collect();
    assert_eq!(got, [9, 8, 9, 8]);
    w.fill(1, 0, &[1], &[0, 1, 1]);
    let got: Vec<u16> = (0..6).map(|_| open(&mut w)).collect();
    assert_eq!(got, [8, 9, 9, 8, 9, 9]);
    // The next step was the one just behind the new end.
    (0..2).for_each(|_| _ = open(&mut w));
    w.fill(1, 0, &[1], &[1, 0]);
    let got: Vec<u16> = (0..3).map(|_| open(&mut w)).collect();
    assert_eq!(got, [9, 8, 9]);
}

/// P4Mite: the first device by priority among those that report to be available.
#[test]
fn availability_and_priorities() {
    let cases: [(&[u8], [bool; 2], u16); 8] = [
        (&[0, 1], [true, true], 8),
        (&[0, 1], [false, true], 9),
        (&[0, 1], [true, false], 8),
        (&[1, 0], [true, true], 9),
        (&[1, 0], [true, false], 8),
        (&[1, 0], [false, true], 9),
        // All busy: the priorities alone decide.
        (&[0, 1], [false, false], 8),
        (&[1, 0], [false, false], 9),
    ];
    for (priorities, available, want) in cases {
        let mut w = World::one_server(AVAILABILITY);
        w.priorities(1, 0, 1, priorities);
        w.report(8, available[0]);
        w.report(9, available[1]);
        for i in 0..5 {
            assert_eq!(w.device_of(&syn(&client4(i), WEB4)), want, "{priorities:?} {available:?}");
        }
    }
}

/// A report takes effect with the next connection.
#[test]
fn availability_changes() {
    let mut w = World::one_server(AVAILABILITY);
    w.report(8, true);
    w.report(9, true);
    for i in 0..20 {
        let busy = i % 3 == 1;
        w.wait(10);
        w.report(8, !busy);
        assert_eq!(w.device_of(&syn(&client4(i), WEB4)), if busy { 9 } else { 8 });
        assert_eq!(w.device_of(&syn(&client6(i), WEB6)), if busy { 9 } else { 8 });
    }
}

/// The load of one server does not affect another.
#[test]
fn availability_of_each_server() {
    let mut w = World::new();
    w.service(1, AVAILABILITY, 0);
    w.report(8, false);
    w.report(9, true);
    w.report(16, true);
    w.report(17, false);
    let counts = shares(&mut w, 100);
    assert_eq!(counts.keys().collect::<Vec<_>>(), [&9, &16]);
}

/// As many devices as there are slots, each preferred in turn.
#[test]
fn a_server_with_all_devices() {
    let mut w = World::one_server(AVAILABILITY);
    w.fill_slots();
    w.pool(1, 0, 1, ALL, 0, 500);
    let order: Vec<u8> = (0..SLOTS as u8).rev().collect();
    w.priorities(1, 0, 1, &order);
    let mut n = 0;
    let mut check = |w: &mut World, mask: u16, available: u16, want: usize| {
        n += 1;
        w.wait(1);
        w.report_slots(mask, available, 0, &[]);
        let (_, got) = w.forward(CLIENTS, &syn(&client4(n), WEB4));
        assert_eq!(got.dst_mac, device_mac(named(want)), "{mask:#x} {available:#x}");
    };
    for slot in 0..SLOTS {
        // All have reported, one is available.
        check(&mut w, ALL, 1 << slot, slot);
        // Only one has reported, and it is busy.
        w.wait(501);
        check(&mut w, 1 << slot, 0, slot);
    }
    check(&mut w, ALL, ALL, SLOTS - 1);
    check(&mut w, ALL, 0x3c, 5);
}

/// A ring of all slots: every device has its share of connections by hash, and in turns exactly one of each round. Its answers pass, and
/// later packets of its connections find it.
#[test]
fn rings_of_all_devices() {
    for policy in [HASH, ROUND_ROBIN] {
        let mut w = World::one_server(policy);
        w.fill_slots();
        w.pool(1, 0, 1, ALL, SLOTS as u16, 0);
        let ring: Vec<u8> = (0..SLOTS as u8).collect();
        w.ring(1, 0, 1, &ring);
        let mut counts = [0u32; SLOTS];
        for n in 0..100 * SLOTS as u32 {
            let client = client4(n);
            let (_, got) = w.forward(CLIENTS, &syn(&client, WEB4));
            let slot = (0..SLOTS).find(|s| device_mac(named(*s)) == got.dst_mac).expect("a device");
            counts[slot] += 1;
            if policy == ROUND_ROBIN {
                assert_eq!(slot, n as usize % SLOTS);
            }
            let (port, answer) = w.forward(2, &reply(named(slot), &syn(&client, WEB4)));
            assert_eq!((port, answer.dst_mac), (CLIENTS, ROUTER));
            let (_, again) = w.forward(CLIENTS, &ack(&client, WEB4));
            assert_eq!(again.dst_mac, got.dst_mac);
        }
        assert!(counts.iter().all(|n| (60..140).contains(n)), "{policy}: {counts:?}");
    }
}

/// Only devices that the pool enables are candidates, whatever they report and wherever the ring points.
#[test]
fn pools_restrict_every_policy() {
    for policy in [HASH, ROUND_ROBIN, AVAILABILITY] {
        for (enabled, want) in [(1, 8), (2, 9)] {
            let mut w = World::one_server(policy);
            w.report(8, true);
            w.report(9, true);
            w.pool(1, 0, 1, enabled, 6, 0);
            for i in 0..20 {
                assert_eq!(w.device_of(&syn(&client4(i), WEB4)), want, "policy {policy}");
            }
        }
    }
}

/// The ring proposes a device that is not a candidate, and the priorities know no other: then no device is chosen.
#[test]
fn a_proposal_that_is_not_a_candidate() {
    for policy in [HASH, ROUND_ROBIN] {
        let mut w = World::one_server(policy);
        w.ring(1, 0, 1, &[0; 6]);
        w.priorities(1, 0, 1, &[0]);
        w.pool(1, 0, 1, 2, 6, 0);
        w.dropped(CLIENTS, &syn(&client4(1), WEB4), "DROP_NO_DEVICE");
        assert_eq!(w.rig.counter("service_connections", 1).expect("a counter").packets, 0);
        w.unknown(CLIENTS, &ack(&client4(1), WEB4));
    }
}

/// An unknown policy, an empty ring, a hole in the ring: the priorities decide.
#[test]
fn priorities_are_the_last_resort() {
    let mut w = World::one_server(77);
    assert_eq!(w.device_of(&syn(&client4(1), WEB4)), 8);
    for policy in [HASH, ROUND_ROBIN] {
        let mut w = World::one_server(policy);
        w.pool(1, 0, 1, 3, 0, 0);
        assert_eq!(w.device_of(&syn(&client4(1), WEB4)), 8);
        w.pool(1, 0, 1, 3, 7, 0);
        // Position 6 has no entry.
        for i in 10..60 {
            w.device_of(&syn(&client4(i), WEB4));
        }
    }
}

/// One write of the service's entry switches slots, pools, rings and priorities at once.
#[test]
fn epochs() {
    let mut w = World::new();
    w.service(1, AVAILABILITY, 0);
    // The generation that is not in force is filled without any effect.
    w.fill(1, 1, &[2], &[1]);
    w.pool(1, 1, 2, 2, 1, 0);
    for i in 0..50 {
        let device = w.device_of(&syn(&client4(i), WEB4));
        assert!(device == 8 || device == 16);
    }
    w.service(1, AVAILABILITY, 1);
    for i in 50..100 {
        assert_eq!(w.device_of(&syn(&client4(i), WEB4)), 17);
    }
    w.service(1, HASH, 1);
    for i in 100..150 {
        assert_eq!(w.device_of(&syn(&client4(i), WEB4)), 17);
    }
    w.service(1, AVAILABILITY, 0);
    let device = w.device_of(&syn(&client4(200), WEB4));
    assert!(device == 8 || device == 16);
    // Other services have their own epochs.
    assert_ne!(w.device_of(&datagram(&client4(1), DNS4)), 0);
}

/// A server whose agents stop is out for new connections, though the slots do not change; where all are silent, or a server never
/// reported, the slots alone decide.
#[test]
fn a_server_that_is_silent() {
    for policy in [HASH, ROUND_ROBIN, AVAILABILITY] {
        let mut w = World::new();
        w.service(1, policy, 0);
        for server in [1, 2] {
            w.pool(1, 0, server, 3, 6, 300);
        }
        let servers = |w: &mut World, from: u32| -> Vec<u16> {
            (from..from + 40).map(|i| w.device_of(&syn(&client4(i), WEB4)) >> 3).collect()
        };
        let both = |found: &[u16]| found.contains(&1) && found.contains(&2);
        // No reports yet.
        assert!(both(&servers(&mut w, 0)));
        // The second server has no agents.
        w.report(8, true);
        assert!(both(&servers(&mut w, 100)));
        for d in DEVICES {
            w.report(d, true);
        }
        assert!(both(&servers(&mut w, 200)));
        let old = w.establish(&client4(300), WEB4);
        for (live, dead) in [(1, 2), (2, 1)] {
            w.wait(200);
            w.report(live << 3, true);
            w.wait(200);
            // The first one that comes to the other server makes it known.
            let found = servers(&mut w, 1000 * u32::from(live));
            let first = found.iter().position(|s| *s == live).expect("one that reports");
            assert!(found[first..].iter().all(|s| *s == live), "{found:?}");
            assert!(first < 16, "{found:?}");
            assert_eq!(w.device_of(&ack(&client4(300), WEB4)), old, "{dead} is silent");
        }
        // In the other generation another set of servers is in force: the state of this one does not count.
        w.fill(1, 1, &[1], &[0]);
        w.service(1, policy, 1);
        assert!(servers(&mut w, 4000).iter().all(|s| *s == 1));
        w.service(1, policy, 0);
        w.wait(1000);
        assert!(both(&servers(&mut w, 5000)));
    }
}
