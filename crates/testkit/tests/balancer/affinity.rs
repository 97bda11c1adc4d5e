//! Every packet of a connection goes to the device of its first packet, for as long as the connection lasts.

use super::world::*;
use pointsman_testkit::packet::{Packet, tcp_flags::*};
use pointsman_testkit::random::Random;

/// Service, opening packet, later packet, clients.
type Service = (&'static str, fn(&str, &str) -> Packet, fn(&str, &str) -> Packet, fn(u32) -> String);

fn services() -> [Service; 4] {
    [
        (WEB4, syn, ack, client4),
        (DNS4, datagram, datagram, client4),
        (WEB6, syn, ack, client6),
        (DNS6, datagram, datagram, client6),
    ]
}

/// Changes everything that can change at run time, at random.
fn shake(w: &mut World, r: &mut Random) {
    let servers: [&[u16]; 4] = [&[1, 2], &[1], &[2], &[2, 1, 1]];
    let rings: [&[u8]; 4] = [&[0, 1], &[0, 0, 0, 0, 1], &[1], &[1, 0]];
    for service in 1..=4 {
        let epoch = r.below(2) as u8;
        let (servers, ring) = (*r.choose(&servers), *r.choose(&rings));
        w.fill(service, epoch, servers, ring);
        for server in [1, 2] {
            w.pool(service, epoch, server, *r.choose(&[1, 2, 3]), 1, *r.choose(&[0, 50, 500]));
            let order = *r.choose(&[[0, 1], [1, 0]]);
            w.priorities(service, epoch, server, &order);
        }
        let (servers, narrow, pick, counting) = (r.below(4), r.below(4), r.below(5), *r.choose(&[0, 32, 64]));
        w.set(&format!(
            "policies service={service} epoch={epoch} -> set_policy({servers}, {narrow}, {pick}, {}, {counting}, {}, 1, 0, 0, 0, 0, 0, 0)",
            r.below(4),
            r.below(7)
        ));
        for copy in ["first", "second"] {
            for slot in 0..16 {
                w.set(&format!(
                    "{copy}.slots service={service} epoch={epoch} slot={slot} -> use_weighted({}, 1)",
                    1 + r.below(2)
                ));
            }
        }
        w.service(service, *r.choose(&[HASH, ROUND_ROBIN, AVAILABILITY, 3]), epoch);
    }
    for device in DEVICES {
        w.report(device, r.one_in(2));
    }
}

#[test]
fn nothing_moves_a_connection() {
    let mut w = World::new();
    let mut r = Random::new(7);
    let mut open = Vec::new();
    for round in 0..12 {
        for i in 0..40 {
            let (service, first, later, client) = services()[i % 4];
            let from = client(round * 1000 + i as u32);
            let device = w.device_of(&first(&from, service));
            open.push((from, service, later, device));
        }
        w.wait(100);
        shake(&mut w, &mut r);
        for (from, service, later, device) in &open {
            let packet = later(from, service);
            assert_eq!(w.device_of(&packet), *device, "{from} to {service}");
            w.answer(*device, &reply(*device, &packet));
        }
    }
}

/// A server that is taken out of the pool serves its connections to their end; new ones go elsewhere.
#[test]
fn draining() {
    let mut w = World::new();
    let old: Vec<(String, u16)> =
        (0..100).map(|i| (client4(i), w.device_of(&syn(&client4(i), WEB4)))).collect();
    assert!(old.iter().any(|(_, d)| d >> 3 == 1) && old.iter().any(|(_, d)| d >> 3 == 2));
    w.slots(1, 0, &[2]);
    for (client, device) in &old {
        assert_eq!(w.device_of(&ack(client, WEB4)), *device);
    }
    for i in 100..200 {
        assert_eq!(w.device_of(&syn(&client4(i), WEB4)) >> 3, 2);
    }
}

/// A device removed for good: its connections are dropped and counted, not sent to another device.
#[test]
fn a_device_that_is_gone() {
    let mut w = World::one_server(AVAILABILITY);
    assert_eq!(w.device_of(&syn(&client4(1), WEB4)), 8);
    w.remove("devices_v4 device=8 -> set_device_v4(0, 0, 0)");
    w.dropped(CLIENTS, &ack(&client4(1), WEB4), "DROP_NO_DEVICE");
    w.pool(1, 0, 1, 2, 6, 0);
    assert_eq!(w.device_of(&syn(&client4(2), WEB4)), 9);
    w.dropped(CLIENTS, &ack(&client4(1), WEB4), "DROP_NO_DEVICE");
}

/// The first packet of a TCP connection is a SYN; anything else is not ours.
#[test]
fn only_a_syn_opens() {
    let mut w = World::new();
    for (client, service) in [(client4(1), WEB4), (client6(1), WEB6)] {
        for flags in [RST, SYN | RST, RST | ACK] {
            w.dropped(CLIENTS, &segment(&client, service, flags), "DROP_NO_CONNECTION");
        }
        for flags in [0, ACK, FIN, SYN | ACK, SYN | FIN, PSH | ACK, FIN | ACK] {
            w.unknown(CLIENTS, &segment(&client, service, flags));
        }
        w.device_of(&segment(&client, service, SYN | PSH));
    }
}

/// A SYN that is sent again (its answer was lost) is the same connection, until the handshake is given up.
#[test]
fn retransmitted_syn() {
    let mut w = World::one_server(ROUND_ROBIN);
    w.ring(1, 0, 1, &[0, 1, 0, 1, 0, 1]);
    let device = w.device_of(&syn(&client4(1), WEB4));
    for ms in [1000, 2000, 4000, 5000] {
        w.wait(ms);
        assert_eq!(w.device_of(&syn(&client4(1), WEB4)), device);
    }
    // It did not move the ring either.
    assert_ne!(w.device_of(&syn(&client4(2), WEB4)), device);
    assert_eq!(w.rig.counter("service_connections", 1).expect("a counter").packets, 2);
}

/// Which device a new connection gets, in worlds whose preference was turned around after the first one.
fn turned(service: &str, first: &Packet) -> (World, u16, u16) {
    let mut w = World::one_server(AVAILABILITY);
    let device = w.device_of(first);
    let number = [WEB4, DNS4, WEB6, DNS6].iter().position(|s| *s == service).expect("a service") as u16 + 1;
    w.priorities(number, 0, 1, &[1, 0]);
    (w, device, device ^ 1)
}

#[test]
fn idle_connections_end() {
    for (service, first, later, client) in services() {
        let client = client(1);
        let (mut w, old, new) = turned(service, &first(&client, service));
        // Packets of either side keep it alive.
        for _ in 0..3 {
            w.wait(IDLE_MS);
            assert_eq!(w.device_of(&later(&client, service)), old);
            w.wait(IDLE_MS);
            w.answer(old, &reply(old, &later(&client, service)));
        }
        w.wait(IDLE_MS);
        assert_eq!(w.device_of(&first(&client, service)), old);
        w.wait(IDLE_MS + UNIT_MS);
        assert_eq!(w.device_of(&first(&client, service)), new);
        assert_eq!(w.device_of(&later(&client, service)), new);
    }
}

/// A quiet TCP connection is not cut: while its place is not taken, a late packet still finds it.
#[test]
fn late_packet_of_an_idle_connection() {
    for (service, client) in [(WEB4, client4(1)), (WEB6, client6(1))] {
        let (mut w, old, _) = turned(service, &syn(&client, service));
        w.wait(10 * IDLE_MS);
        assert_eq!(w.device_of(&ack(&client, service)), old);
        // And it lives again.
        w.wait(IDLE_MS);
        assert_eq!(w.device_of(&syn(&client, service)), old);
    }
}

#[test]
fn both_fins_end_a_connection() {
    for (service, client) in [(WEB4, client4(1)), (WEB6, client6(1))] {
        let (mut w, old, new) = turned(service, &syn(&client, service));
        let fin = segment(&client, service, FIN | ACK);
        assert_eq!(w.device_of(&fin), old);
        // Half closed: the device still sends, as long as it likes.
        w.wait(IDLE_MS);
        w.answer(old, &reply(old, &ack(&client, service)).payload("more"));
        w.wait(LINGER_MS + UNIT_MS);
        assert_eq!(w.device_of(&syn(&client, service)), old, "a half closed connection is open");
        w.answer(old, &reply(old, &fin).with_tcp(|t| t.flags = FIN | ACK));
        // Last acknowledgements and retransmissions pass.
        assert_eq!(w.device_of(&ack(&client, service)), old);
        w.wait(LINGER_MS);
        assert_eq!(w.device_of(&fin), old);
        // The same 5-tuple again is a new connection.
        assert_eq!(w.device_of(&syn(&client, service)), new);
        assert_eq!(w.device_of(&ack(&client, service)), new);
        // The old device is not responsible any more: its packets go out unchanged.
        let stale = reply(old, &ack(&client, service));
        let (_, out) = w.forward(device_port(old), &stale);
        assert_eq!(out, stale.macs(SWITCH, ROUTER).ttl(63));
    }
}

/// FINs in the other order, and the same end twice.
#[test]
fn fins_of_one_side_do_not_end_a_connection() {
    let client = client4(1);
    let (mut w, old, new) = turned(WEB4, &syn(&client, WEB4));
    let fin = reply(old, &ack(&client, WEB4)).with_tcp(|t| t.flags = FIN | ACK);
    for _ in 0..3 {
        w.answer(old, &fin);
        w.wait(LINGER_MS + UNIT_MS);
        assert_eq!(w.device_of(&syn(&client, WEB4)), old);
    }
    assert_eq!(w.device_of(&segment(&client, WEB4, FIN | ACK)), old);
    assert_eq!(w.device_of(&syn(&client, WEB4)), new);
}

#[test]
fn reset_ends_a_connection() {
    for (service, client) in [(WEB4, client4(1)), (WEB6, client6(1))] {
        for by_device in [false, true] {
            let (mut w, old, new) = turned(service, &syn(&client, service));
            let rst = segment(&client, service, RST);
            if by_device {
                w.answer(old, &reply(old, &rst).with_tcp(|t| t.flags = RST | ACK));
            } else {
                assert_eq!(w.device_of(&rst), old);
            }
            w.wait(LINGER_MS - 1);
            assert_eq!(w.device_of(&rst), old);
            assert_eq!(w.device_of(&syn(&client, service)), new);
        }
    }
}

/// Whoever guesses the 5-tuple can send a RST, but if the connection continues, it was not from its end: the entry stays.
#[test]
fn a_forged_reset_does_not_cut() {
    for (service, client) in [(WEB4, client4(1)), (WEB6, client6(1))] {
        for by_device in [false, true] {
            let (mut w, old, _) = turned(service, &syn(&client, service));
            assert_eq!(w.device_of(&segment(&client, service, RST)), old);
            w.wait(LINGER_MS - 1);
            if by_device {
                w.answer(old, &reply(old, &ack(&client, service)).payload("still here"));
            } else {
                assert_eq!(w.device_of(&ack(&client, service)), old);
            }
            w.wait(IDLE_MS - 1);
            assert_eq!(w.device_of(&ack(&client, service)), old);
            // A SYN now is a retransmission, not a new connection.
            assert_eq!(w.device_of(&syn(&client, service)), old);
        }
    }
}

/// The place of a connection that ended is free for others only after the linger time; before it stays.
#[test]
fn answers_after_the_idle_time_are_still_translated() {
    let mut w = World::one_server(AVAILABILITY);
    let question = datagram(&client4(1), DNS4);
    let device = w.device_of(&question);
    w.wait(IDLE_MS * 3);
    w.answer(device, &reply(device, &question));
}

/// Same client address and port, different services: different connections.
#[test]
fn connections_are_told_apart_by_the_whole_tuple() {
    let mut w = World::one_server(AVAILABILITY);
    let client = client4(1);
    assert_eq!(w.device_of(&syn(&client, WEB4)), 8);
    w.priorities(2, 0, 1, &[1, 0]);
    assert_eq!(w.device_of(&datagram(&client, DNS4)), 9);
    w.priorities(1, 0, 1, &[1, 0]);
    let (address, port) = client.rsplit_once(':').expect("a port");
    let neighbour = format!("{address}:{}", port.parse::<u16>().expect("a number") + 1);
    assert_eq!(w.device_of(&syn(&neighbour, WEB4)), 9);
    assert_eq!(w.device_of(&ack(&client, WEB4)), 8);
    // An IPv6 client whose low 32 bits look like the IPv4 one.
    w.priorities(3, 0, 1, &[1, 0]);
    let [a, b, c, d] = [192, 0, 2, 1];
    let alike = format!("[2001:db8::{a:02x}{b:02x}:{c:02x}{d:02x}]:{port}");
    assert_eq!(w.device_of(&syn(&alike, WEB6)), 9);
    assert_eq!(w.device_of(&ack(&client, WEB4)), 8);
}

/// Time stamps near the end of their 48 bits.
#[test]
fn after_years() {
    let mut w = World::one_server(AVAILABILITY);
    w.wait((1 << 48) / 1000 - 5000);
    let device = w.device_of(&syn(&client4(1), WEB4));
    w.priorities(1, 0, 1, &[1, 0]);
    for _ in 0..5 {
        w.wait(2000);
        assert_eq!(w.device_of(&ack(&client4(1), WEB4)), device);
    }
    w.wait(IDLE_MS + UNIT_MS);
    assert_ne!(w.device_of(&syn(&client4(1), WEB4)), device);
}
