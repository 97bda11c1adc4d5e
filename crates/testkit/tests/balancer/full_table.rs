//! When every place that a new connection could take is taken.
//!
//! A key's four places are halves of two CRC-32s. A CRC is linear, so keys that share all four are found by solving linear
//! equations over the bits of an IPv6 client's address and port.

use super::world::*;
use pointsman_testkit::packet::tcp_flags::*;
use std::net::Ipv6Addr;

/// CRC-32 (IEEE 802.3), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// The four places of a connection, as one number: hash_a, then hash_b.
pub fn places(client: Ipv6Addr, port: u16, service: u16) -> u64 {
    let (client, port, service) = (client.octets(), port.to_be_bytes(), service.to_be_bytes());
    let a = crc32(&[&client[..], &port, &service].concat());
    let b = crc32(&[&port[..], &service, &client].concat());
    u64::from(a) << 32 | u64::from(b)
}

/// The low 64 bits of the address and the port, from a bit string.
fn key(bits: u128) -> (Ipv6Addr, u16) {
    let net = 0x2001_0db8_0000_0007_u128 << 64;
    (Ipv6Addr::from(net | (bits >> 16 & u128::from(u64::MAX))), bits as u16)
}

/// `n` clients of `service` in one /64 that share all four places.
fn colliding(service: u16, n: usize) -> Vec<String> {
    let base = 0x1234_u128 << 16 | 40_000;
    let at = |bits| places(key(bits).0, key(bits).1, service);
    // Each row: the effect of flipping these bits of the key on the places. Gauss.
    let mut rows: Vec<(u64, u128)> = (0..80).map(|i| (at(base ^ 1 << i) ^ at(base), 1u128 << i)).collect();
    for bit in 0..64 {
        let Some(i) = rows.iter().position(|(p, _)| p >> bit & 1 == 1) else { continue };
        let pivot = rows.swap_remove(i);
        rows.iter_mut().filter(|(p, _)| p >> bit & 1 == 1).for_each(|r| *r = (r.0 ^ pivot.0, r.1 ^ pivot.1));
    }
    assert!(rows.len() >= 16 && rows.iter().all(|(p, _)| *p == 0));
    let keys = (0..n).map(|i| {
        let flips = rows.iter().enumerate().filter(|(j, _)| i >> j & 1 == 1);
        flips.fold(base, |k, (_, (_, flip))| k ^ flip)
    });
    let keys: Vec<u128> = keys.collect();
    assert!(keys.iter().all(|k| at(*k) == at(base)));
    keys.into_iter()
        .map(|k| {
            let (address, port) = key(k);
            format!("[{address}]:{port}")
        })
        .collect()
}

#[test]
fn check_value_of_the_crc() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

/// Four keys fill the four ways; the fifth is repeatedly refused and counted, and others are unaffected.
#[test]
fn refuses_the_new_and_keeps_the_old() {
    for (number, service) in [(3, WEB6), (4, DNS6)] {
        let open = if number == 3 { syn } else { datagram };
        let mut w = World::one_server(ROUND_ROBIN);
        let clients = colliding(number, 6);
        let devices: Vec<u16> = clients[..4].iter().map(|c| w.establish(c, service)).collect();
        for _ in 0..3 {
            w.wait(1000);
            w.dropped(CLIENTS, &open(&clients[4], service), "DROP_TABLE_FULL");
            w.dropped(CLIENTS, &open(&clients[5], service), "DROP_TABLE_FULL");
            for (client, device) in clients.iter().zip(&devices) {
                assert_eq!(w.device_of(&open(client, service)), *device);
                w.answer(*device, &reply(*device, &open(client, service)));
            }
        }
        assert_eq!(w.rig.counter("service_connections", number.into()).expect("a counter").packets, 4);
        // Other keys have other places.
        w.device_of(&open(&client6(1), service));
    }
}

/// Four places with connections that are not established: a new one takes that of the one unseen for the longest time. Established
/// connections stay, and so do answered ones, as long as there is another.
#[test]
fn takes_the_place_of_the_least() {
    // Which of four are established, and which takes the fifth's place.
    for (number, service) in [(3, WEB6), (4, DNS6)] {
        let open = if number == 3 { syn } else { datagram };
        for standing in [0, 1, 2, 4, 8, 7, 11, 13, 14] {
            let mut w = World::one_server(AVAILABILITY);
            let clients = colliding(number, 5);
            let stands = |i: usize| standing >> i & 1 == 1;
            for (i, client) in clients[..4].iter().enumerate() {
                if stands(i) {
                    w.establish(client, service);
                } else {
                    assert_eq!(w.device_of(&open(client, service)), 8);
                }
                w.wait(10);
            }
            let taken = (0..4).find(|i| !stands(*i)).expect("one of them");
            w.priorities(number, 0, 1, &[1, 0]);
            assert_eq!(w.establish(&clients[4], service), 9);
            for (i, client) in clients[..4].iter().enumerate().filter(|(i, _)| stands(*i)) {
                assert_eq!(w.device_of(&open(client, service)), 8, "{standing:04b}: {i}");
            }
            if number == 3 {
                w.unknown(CLIENTS, &ack(&clients[taken], service));
            }
        }
    }
    // Datagrams: of three that were answered and one that was not, it is that one, though it came last.
    let mut w = World::one_server(AVAILABILITY);
    let clients = colliding(4, 6);
    for (i, client) in clients[..4].iter().enumerate() {
        assert_eq!(w.device_of(&datagram(client, DNS6)), 8);
        if i < 3 {
            w.answer(8, &reply(8, &datagram(client, DNS6)));
        }
        w.wait(10);
    }
    w.priorities(4, 0, 1, &[1, 0]);
    assert_eq!(w.device_of(&datagram(&clients[4], DNS6)), 9);
    for client in &clients[..3] {
        assert_eq!(w.device_of(&datagram(client, DNS6)), 8);
    }
}

/// A refused connection does not move the ring: its turn is not lost.
#[test]
fn refusal_does_not_move_the_ring() {
    let mut w = World::one_server(ROUND_ROBIN);
    w.fill(3, 0, &[1], &[0, 1]);
    let clients = colliding(3, 5);
    for (i, client) in clients[..4].iter().enumerate() {
        assert_eq!(w.establish(client, WEB6), 8 + i as u16 % 2);
    }
    w.dropped(CLIENTS, &syn(&clients[4], WEB6), "DROP_TABLE_FULL");
    assert_eq!(w.device_of(&syn(&client6(1), WEB6)), 8);
}

#[test]
fn places_become_free() {
    let clients = colliding(3, 8);
    let full = || {
        let mut w = World::one_server(AVAILABILITY);
        for client in &clients[..4] {
            assert_eq!(w.establish(client, WEB6), 8);
        }
        // Whoever gets a place from now on goes to the other device.
        w.priorities(3, 0, 1, &[1, 0]);
        w
    };
    let still_there = |w: &mut World, gone: usize| {
        for (i, client) in clients[..4].iter().enumerate().filter(|(i, _)| *i != gone) {
            assert_eq!(w.device_of(&ack(client, WEB6)), 8, "client {i}");
        }
    };
    for gone in 0..4 {
        // By RST and linger time.
        let mut w = full();
        w.device_of(&segment(&clients[gone], WEB6, RST));
        w.wait(LINGER_MS);
        w.dropped(CLIENTS, &syn(&clients[4], WEB6), "DROP_TABLE_FULL");
        w.wait(UNIT_MS);
        assert_eq!(w.device_of(&syn(&clients[4], WEB6)), 9);
        still_there(&mut w, gone);
        w.unknown(CLIENTS, &ack(&clients[gone], WEB6));
        // By FINs of both ends.
        let mut w = full();
        let fin = segment(&clients[gone], WEB6, FIN | ACK);
        w.device_of(&fin);
        w.answer(8, &reply(8, &fin).with_tcp(|t| t.flags = FIN | ACK));
        w.wait(LINGER_MS + UNIT_MS);
        assert_eq!(w.device_of(&syn(&clients[4], WEB6)), 9);
        still_there(&mut w, gone);
        // By idle time.
        let mut w = full();
        w.wait(IDLE_MS);
        still_there(&mut w, gone);
        w.wait(UNIT_MS);
        assert_eq!(w.device_of(&syn(&clients[4], WEB6)), 9);
        still_there(&mut w, gone);
        w.dropped(CLIENTS, &syn(&clients[5], WEB6), "DROP_TABLE_FULL");
    }
}

/// The same 5-tuple again after its end takes its own place, so that a key never occurs twice: here a place in front of
/// its own became free, and the end of the first connection must not be found by the second.
#[test]
fn a_key_is_never_stored_twice() {
    let clients = colliding(3, 5);
    let mut w = World::one_server(AVAILABILITY);
    for client in &clients[..4] {
        assert_eq!(w.establish(client, WEB6), 8);
    }
    for client in [&clients[0], &clients[3]] {
        w.device_of(&segment(client, WEB6, RST));
    }
    w.wait(LINGER_MS + UNIT_MS);
    w.priorities(3, 0, 1, &[1, 0]);
    // Way 0 is free, and the key is in way 3.
    assert_eq!(w.device_of(&syn(&clients[3], WEB6)), 9);
    assert_eq!(w.device_of(&ack(&clients[3], WEB6)), 9);
    w.device_of(&syn(&clients[4], WEB6));
    assert_eq!(w.device_of(&ack(&clients[3], WEB6)), 9);
}

/// Ten thousand connections at once: all of them find room and keep their device.
#[test]
fn ten_thousand_connections() {
    let mut w = World::new();
    let devices: Vec<u16> = (0..10_000).map(|i| w.device_of(&syn(&client4(i), WEB4))).collect();
    w.service(1, AVAILABILITY, 0);
    for (i, device) in devices.iter().enumerate() {
        assert_eq!(w.device_of(&ack(&client4(i as u32), WEB4)), *device);
    }
}
