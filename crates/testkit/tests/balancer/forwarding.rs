//! Everything that is not balanced: bridging, routing, packets from and to the controller.

use super::world::*;
use pointsman_testkit::packet::numbers::*;
use pointsman_testkit::packet::{Body, L4, Packet, tcp_flags};
use pointsman_v1model::Replica;

const HOST: [u8; 6] = [2, 0, 0, 0, 5, 5];

#[test]
fn bridging() {
    let mut w = World::new();
    w.add("bridge mac=02:00:00:00:05:05 -> forward(3)");
    w.add("bridge mac=ff:ff:ff:ff:ff:ff -> flood(1)");
    let replicas = [1, 2, 3, 4].map(|port| Replica { port, instance: 0 }).to_vec();
    w.rig.state().replication.insert_group(1, replicas).expect("a new group");
    // Unchanged, whatever it is: nothing is counted down or translated on the way to another station.
    let packets = [
        Packet::udp("10.0.9.1:1", "10.0.9.2:2", "x").ttl(1),
        Packet::tcp(client4(1), WEB4, tcp_flags::SYN),
        Packet::tcp("[fd09::1]:1", "[fd09::2]:2", tcp_flags::RST).ttl(1),
        Packet::new(Body::Other { ethertype: 0x88b5, bytes: vec![1, 2, 3] }),
        Packet::udp("10.0.9.1:1", "10.0.9.2:2", "x").vlan(7),
        Packet::arp(ARP_REPLY, "10.0.9.1", "10.0.9.2"),
    ];
    for p in packets {
        let p = p.macs(PLAIN, HOST);
        w.expect(4, &p, 3, &p);
        let broadcast = p.to_mac([0xff; 6]);
        let out = w.send(4, &broadcast.bytes());
        let ports: Vec<u32> = out.iter().map(|(p, _)| *p).collect();
        assert_eq!(ports, [1, 2, 3, 4]);
        assert!(out.iter().all(|(_, f)| *f == broadcast.bytes()));
    }
}

#[test]
fn routing() {
    let mut w = World::new();
    w.add("routes_v4 prefix=10.0.9.64/26 -> next_hop(3, 02:00:00:00:05:05)");
    w.add("routes_v6 prefix=fd09::1:0/112 -> next_hop(3, 02:00:00:00:05:05)");
    let cases = [
        ("192.0.2.1:1", "10.0.9.1:2", PLAIN_PORT, PLAIN),
        ("192.0.2.1:1", "10.0.9.65:2", 3, HOST),
        ("10.0.9.1:1", "8.8.8.8:2", CLIENTS, ROUTER),
        ("[2001:db8::1]:1", "[fd09::1]:2", PLAIN_PORT, PLAIN),
        ("[2001:db8::1]:1", "[fd09::1:1]:2", 3, HOST),
        ("[fd09::1]:1", "[2001:db8::1]:2", CLIENTS, ROUTER),
    ];
    for (from, to, out, mac) in cases {
        for p in [Packet::udp(from, to, "data"), Packet::tcp(from, to, tcp_flags::ACK).payload("data")] {
            let p = p.macs(PLAIN, SWITCH);
            w.expect(4, &p, out, &p.clone().macs(SWITCH, mac).ttl(63));
        }
    }
}

#[test]
fn routing_of_anything_else_over_ip() {
    let mut w = World::new();
    let gre = L4::Other { proto: 47, bytes: (0..99).collect() };
    let packets = [
        Packet::ip("192.0.2.1", "10.0.9.1", gre.clone()),
        Packet::ip("2001:db8::1", "fd09::1", gre.clone()),
        // Fragments are whole for a router.
        Packet::ip("192.0.2.1", "10.0.9.1", gre).with_ip(|ip| (ip.fragment, ip.more_fragments) = (185, true)),
        Packet::udp("192.0.2.1:1", "10.0.9.1:2", "x").with_ip(|ip| ip.options = vec![7; 40]),
        Packet::udp("192.0.2.1:1", "10.0.9.1:2", "x").payload(vec![5; 1472]).with_ip(|ip| ip.tos = 0xfc),
        Packet::echo("2001:db8::1", "fd09::1", "x").with_ip(|ip| (ip.tos, ip.flow) = (3, 0xfffff)),
        // Ethernet's padding stays.
        Packet { trailer: vec![0; 17], ..Packet::udp("192.0.2.1:1", "10.0.9.1:2", "x") },
    ];
    for p in packets {
        let p = p.macs(ROUTER, SWITCH);
        w.expect(CLIENTS, &p, PLAIN_PORT, &p.clone().macs(SWITCH, PLAIN).ttl(63));
    }
}

#[test]
fn time_to_live() {
    let mut w = World::new();
    for (from, to) in [("192.0.2.1:1", "10.0.9.1:2"), ("[2001:db8::1]:1", "[fd09::1]:2")] {
        let p = Packet::udp(from, to, "x").macs(ROUTER, SWITCH);
        w.dropped(CLIENTS, &p.clone().ttl(0), "DROP_TTL");
        w.dropped(CLIENTS, &p.clone().ttl(1), "DROP_TTL");
        w.expect(CLIENTS, &p.clone().ttl(2), PLAIN_PORT, &p.macs(SWITCH, PLAIN).ttl(1));
    }
    // Also on the way to a device; the connection that it opened persists.
    for (from, to) in [(client4(1), WEB4), (client6(1), WEB6)] {
        w.dropped(CLIENTS, &syn(&from, to).ttl(1), "DROP_TTL");
        w.device_of(&syn(&from, to).ttl(2));
        w.device_of(&ack(&from, to).ttl(255));
    }
}

/// The IPv4 header's checksum is kept right by the difference for every time to live and every sum.
#[test]
fn checksum_of_every_header() {
    let mut w = World::new();
    for id in (0..=0xffff_u32).step_by(97) {
        let p = Packet::udp("192.0.2.1:1", "10.0.9.1:2", "").macs(ROUTER, SWITCH);
        let p = p.with_ip(|ip| (ip.id, ip.ttl) = (id as u16, 2 + (id % 254) as u8));
        let want = p.clone().macs(SWITCH, PLAIN).with_ip(|ip| ip.ttl -= 1);
        w.expect(CLIENTS, &p, PLAIN_PORT, &want);
    }
}

#[test]
fn sources_that_cannot_be() {
    let mut w = World::new();
    for from in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "239.255.255.255"] {
        for to in ["10.0.9.1:2", WEB4] {
            let p = Packet::udp(format!("{from}:1"), to, "x").macs(ROUTER, SWITCH);
            w.dropped(CLIENTS, &p, "DROP_ADDRESS");
        }
    }
    for from in ["::", "::1", "ff02::1"] {
        let p = Packet::udp(format!("[{from}]:1"), "[fd09::1]:2", "x").macs(ROUTER, SWITCH);
        w.dropped(CLIENTS, &p, "DROP_ADDRESS");
    }
}

#[test]
fn from_the_controller() {
    let mut w = World::new();
    for p in [
        Packet::arp(ARP_REQUEST, "10.0.0.1", "10.0.1.8").macs(SWITCH, [0xff; 6]),
        Packet::udp("10.0.0.1:1", "10.0.9.1:2", "x").macs(SWITCH, HOST),
        Packet::echo("fd00::1", "fd01::8", "x").macs(SWITCH, HOST),
    ] {
        for port in [1u16, 3] {
            let mut frame = port.to_be_bytes().to_vec();
            frame.extend(p.bytes());
            let out = w.rig.send_from_cpu(&frame);
            assert_eq!(out, [pointsman_v1model::Output::Port(port.into(), p.bytes())]);
        }
        // No port: the drop port, the controller's own, more than nine bits.
        for port in [CPU as u16, 511, 512, 513, 0xffff] {
            let frame = [port.to_be_bytes().to_vec(), p.bytes()].concat();
            w.dropped_frame(CPU, &frame, "DROP_PACKET_OUT");
        }
    }
}

/// Answers to the controller's address resolution requests.
#[test]
fn to_the_controller() {
    let mut w = World::new();
    let packets = [
        // Asked with an address of the switch, or with none (a probe).
        Packet::arp(ARP_REPLY, "10.0.1.8", "10.0.0.1").with_arp(|a| a.sha = HOST),
        Packet::arp(ARP_REPLY, "10.0.1.8", "0.0.0.0").with_arp(|a| a.sha = HOST),
        Packet::neighbour(ND_ADVERTISEMENT, "fd01::8", "fd00::1", 0x6000_0000, "fd01::8", HOST),
    ];
    for p in packets {
        let p = p.macs(HOST, SWITCH);
        let out = w.send(2, &p.bytes());
        let want = [&[0, 2], p.bytes().as_slice()].concat();
        assert_eq!(out, [(CPU, want)]);
    }
}

#[test]
fn for_us_but_not_known() {
    let mut w = World::new();
    for p in [
        Packet::new(Body::Other { ethertype: 0x88cc, bytes: vec![1, 2, 3] }),
        Packet::udp("192.0.2.1:1", "10.0.9.1:2", "x").vlan(7),
        Packet::new(Body::Other { ethertype: 3, bytes: vec![0x42, 0x42, 3] }),
    ] {
        w.dropped(CLIENTS, &p.macs(ROUTER, SWITCH), "DROP_ETHERTYPE");
    }
    let arp = Packet::arp(ARP_REQUEST, "10.0.1.8", "10.0.1.9").macs(HOST, SWITCH);
    w.dropped(2, &arp, "DROP_ARP");
    let ns = Packet::neighbour(ND_SOLICITATION, "fd01::8", "fd01::9", 0, "fd01::9", HOST).macs(HOST, SWITCH);
    w.dropped(2, &ns, "DROP_ARP");
}

#[test]
fn for_a_vip_without_service() {
    let mut w = World::new();
    for p in [
        Packet::tcp(client4(1), "10.0.0.100:81", tcp_flags::SYN),
        Packet::udp(client4(1), "10.0.0.100:80", "tcp only"),
        Packet::tcp(client6(1), "[fd00::100]:53", tcp_flags::SYN),
        Packet::udp(client6(1), "[fd00::1]:53", "not this address"),
        Packet::ip("192.0.2.1", VIP4, L4::Other { proto: 47, bytes: vec![0; 20] }),
        Packet::ip("2001:db8::1", VIP6, L4::Other { proto: 0, bytes: vec![0; 20] }),
    ] {
        w.dropped(CLIENTS, &p.macs(ROUTER, SWITCH), "DROP_VIP_NO_SERVICE");
    }
}

#[test]
fn fragments_for_a_vip() {
    let mut w = World::new();
    w.device_of(&datagram(&client4(1), DNS4));
    let later = L4::Other { proto: 17, bytes: vec![1; 64] };
    let later = Packet::ip("192.0.2.1", VIP4, later).macs(ROUTER, SWITCH);
    w.dropped(CLIENTS, &later.clone().with_ip(|ip| ip.fragment = 64), "DROP_FRAGMENT");
    w.dropped(CLIENTS, &later.with_ip(|ip| (ip.fragment, ip.more_fragments) = (64, true)), "DROP_FRAGMENT");
}
