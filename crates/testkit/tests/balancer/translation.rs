//! Addresses and checksums on the way in and on the way out.

use super::world::*;
use pointsman_testkit::packet::{Packet, Sum, check_checksums, tcp_flags::*};
use pointsman_testkit::random::Random;

/// A whole TCP connection over IPv4 and IPv6, packet by packet.
#[test]
fn tcp() {
    for (client, service) in [(client4(1), WEB4), (client6(1), WEB6)] {
        let mut w = World::new();
        let hello = syn(&client, service).with_tcp(|t| {
            (t.seq, t.ack) = (0xffff_fff0, 0);
            t.options = vec![2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7];
        });
        let device = w.device_of(&hello);
        w.answer(device, &reply(device, &hello).with_tcp(|t| (t.seq, t.ack) = (5, 0xffff_fff1)));
        assert_eq!(w.device_of(&ack(&client, service)), device);
        for len in [1, 2, 3, 536, 1460] {
            let data: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
            let request = segment(&client, service, PSH | ACK).payload(data);
            assert_eq!(w.device_of(&request), device);
            w.answer(device, &reply(device, &request));
        }
        let urgent = ack(&client, service).with_tcp(|t| (t.flags, t.urgent, t.window) = (ACK | 0x20, 7, 0));
        assert_eq!(w.device_of(&urgent), device);
        // ECN and the reserved bits pass.
        assert_eq!(w.device_of(&segment(&client, service, ACK | 0xc0).with_ip(|ip| ip.tos = 3)), device);
        assert_eq!(w.device_of(&segment(&client, service, FIN | ACK)), device);
        w.answer(device, &reply(device, &ack(&client, service)).with_tcp(|t| t.flags = FIN | ACK));
        assert_eq!(w.device_of(&ack(&client, service)), device);
    }
}

#[test]
fn udp() {
    for (client, service) in [(client4(1), DNS4), (client6(1), DNS6)] {
        let mut w = World::new();
        for len in [0, 1, 8, 511, 1400] {
            let question = datagram(&client, service).payload(vec![len as u8; len]);
            let device = w.device_of(&question);
            w.answer(device, &reply(device, &question));
        }
    }
}

/// No checksum stays no checksum (IPv4 only: over IPv6 there must be one).
#[test]
fn udp_without_checksum() {
    let mut w = World::new();
    let question = without_checksum(datagram(&client4(1), DNS4));
    let device = w.device_of(&question);
    w.answer(device, &without_checksum(reply(device, &question)));
}

/// The sum may come out as zero, which is sent as all ones; and go from all ones to something else.
#[test]
fn udp_checksum_that_becomes_zero() {
    let mut w = World::one_server(HASH);
    let mut seen = [false; 2];
    let base = datagram(&client4(1), DNS4);
    let device = w.device_of(&base);
    for word in 0..=u16::MAX {
        let question = base.clone().payload(word.to_be_bytes());
        let sum = |p: &Packet| u16::from_be_bytes([p.bytes()[40], p.bytes()[41]]);
        let before = sum(&question) == 0xffff;
        let after = sum(&World::towards_device(&question, device)) == 0xffff;
        if before || after {
            assert_eq!(w.device_of(&question), device);
            let answer = reply(device, &question);
            w.answer(device, &answer);
            seen[usize::from(after)] = true;
        }
    }
    assert_eq!(seen, [true, true], "no payload had such a sum");
}

#[test]
fn ip_options() {
    let mut w = World::new();
    for len in [4, 20, 40] {
        let hello = syn(&client4(len), WEB4).with_ip(|ip| ip.options = vec![1; len as usize]);
        let device = w.device_of(&hello);
        w.answer(device, &reply(device, &hello));
    }
}

/// The first fragment of a datagram has ports, so it finds its way; its checksum covers the whole datagram and must still
/// change by the difference.
#[test]
fn first_fragment() {
    let mut w = World::new();
    let whole = datagram(&client4(1), DNS4).payload(vec![9; 64]);
    let device = w.device_of(&whole);
    let cut = |p: &Packet| {
        let mut q =
            p.clone().with_udp(|u| u.checksum = Sum::Is(u16::from_be_bytes([p.bytes()[40], p.bytes()[41]])));
        q = q.with_udp(|u| u.payload.truncate(40)).with_ip(|ip| ip.more_fragments = true);
        let mut bytes = q.bytes();
        // The UDP length is that of the whole datagram.
        bytes[38..40].copy_from_slice(&72u16.to_be_bytes());
        bytes
    };
    let out = w.send(CLIENTS, &cut(&whole));
    assert_eq!(out, [(device_port(device), cut(&World::towards_device(&whole, device)))]);
}

/// A checksum that is wrong on arrival stays wrong on the way out.
#[test]
fn damage_stays_visible() {
    let mut w = World::new();
    for (client, service) in [(client4(1), WEB4), (client6(1), WEB6), (client4(1), DNS4), (client6(1), DNS6)]
    {
        let p = match service {
            WEB4 | WEB6 => syn(&client, service).payload("data"),
            _ => datagram(&client, service),
        };
        let mut frame = p.bytes();
        let last = frame.len() - 1;
        frame[last] ^= 0x40;
        let out = w.send(CLIENTS, &frame);
        assert_eq!(out.len(), 1);
        assert!(check_checksums(&out[0].1).is_err());
    }
}

/// Random headers and payloads, both ways, each compared bit by bit with the packet built from scratch.
#[test]
fn random_packets() {
    let mut w = World::new();
    let mut r = Random::new(42);
    for i in 0..3000 {
        let v4 = r.one_in(2);
        let client = if v4 { client4(i) } else { client6(i) };
        let tcp = r.one_in(2);
        let mut p = match (tcp, v4) {
            (true, true) => syn(&client, WEB4),
            (true, false) => syn(&client, WEB6),
            (false, true) => datagram(&client, DNS4),
            (false, false) => datagram(&client, DNS6),
        };
        let len = r.below(200);
        p = p.payload(r.bytes(len)).with_ip(|ip| {
            ip.ttl = 2 + r.below(254) as u8;
            ip.tos = r.next_u64() as u8;
            if v4 {
                (ip.id, ip.dont_fragment) = (r.next_u64() as u16, r.one_in(2));
                ip.options = vec![1; 4 * r.below(3)];
            } else {
                ip.flow = r.next_u64() as u32 & 0xf_ffff;
            }
        });
        p = p.with_tcp(|t| {
            (t.seq, t.window, t.urgent) = (r.next_u64() as u32, r.next_u64() as u16, r.next_u64() as u16);
            t.options = vec![1; 4 * r.below(11)];
        });
        let device = w.device_of(&p);
        w.answer(device, &reply(device, &p));
    }
}

/// Only what belongs to a connection is translated: a device may talk to others, and others may talk to it.
#[test]
fn devices_have_a_life_of_their_own() {
    let mut w = World::new();
    w.add("routes_v4 prefix=10.0.1.8/32 -> next_hop(2, 02:00:00:00:01:08)");
    // From the service's port to a host that sent no request.
    let unasked = Packet::tcp("10.0.1.8:80", client4(9), SYN | ACK).macs(device_mac(8), SWITCH);
    w.expect(2, &unasked, CLIENTS, &unasked.clone().macs(SWITCH, ROUTER).ttl(63));
    // From another port, to a client with a connection.
    let device = w.device_of(&syn(&client4(1), WEB4));
    let other = Packet::tcp(format!("10.0.1.{device}:22"), client4(1), ACK).macs(device_mac(device), SWITCH);
    w.expect(device_port(device), &other, CLIENTS, &other.clone().macs(SWITCH, ROUTER).ttl(63));
    // Another device than that of the connection.
    let foreign = DEVICES.into_iter().find(|d| *d != device).expect("another device");
    let answer = reply(foreign, &ack(&client4(1), WEB4));
    w.expect(device_port(foreign), &answer, CLIENTS, &answer.clone().macs(SWITCH, ROUTER).ttl(63));
    // To the device's own address, even to the service's port.
    let direct = Packet::tcp(client4(5), "10.0.1.8:80", SYN).macs(ROUTER, SWITCH);
    w.expect(CLIENTS, &direct, 2, &direct.clone().macs(SWITCH, device_mac(8)).ttl(63));
}

#[test]
fn counters_of_services_and_devices() {
    let mut w = World::one_server(AVAILABILITY);
    let first = syn(&client4(1), WEB4);
    let more = ack(&client4(1), WEB4).payload(vec![0; 100]);
    assert_eq!((w.device_of(&first), w.device_of(&more), w.device_of(&more)), (8, 8, 8));
    w.answer(8, &reply(8, &more));
    let bytes = (first.bytes().len() + 2 * more.bytes().len()) as u64;
    for (counter, index) in [("service_packets", 1), ("device_packets", 8)] {
        let cell = w.rig.counter(counter, index).expect("a counter");
        assert_eq!((cell.packets, cell.bytes), (3, bytes), "{counter}");
    }
    for (counter, index) in [("service_connections", 1), ("device_connections", 8)] {
        assert_eq!(w.rig.counter(counter, index).expect("a counter").packets, 1, "{counter}");
    }
    for (counter, index) in [("service_packets", 3), ("device_packets", 9), ("device_connections", 9)] {
        assert_eq!(w.rig.counter(counter, index).expect("a counter").packets, 0, "{counter}");
    }
}
