//! Requests that the switch answers itself: ARP, neighbour solicitations and echo requests for its own addresses.

use super::world::*;
use pointsman_testkit::packet::numbers::*;
use pointsman_testkit::packet::{Body, L4, Packet, solicited_node};

const ASKER: [u8; 6] = [2, 0, 0, 0, 9, 9];

#[test]
fn arp() {
    let mut w = World::new();
    for (port, address) in [(1, VIP4), (2, "10.0.0.1"), (4, VIP4)] {
        let who_has = Packet::arp(ARP_REQUEST, "192.0.2.7", address)
            .with_arp(|a| a.sha = ASKER)
            .macs(ASKER, [0xff; 6])
            .payload([0; 18]);
        let is_at = Packet::arp(ARP_REPLY, address, "192.0.2.7")
            .with_arp(|a| (a.sha, a.tha) = (SWITCH, ASKER))
            .macs(SWITCH, ASKER)
            .payload([0; 18]);
        w.expect(port, &who_has, port, &is_at);
        // Neighbours refresh their caches by unicast.
        w.expect(port, &who_has.to_mac(SWITCH), port, &is_at);
    }
}

#[test]
fn arp_that_is_not_for_us() {
    let mut w = World::new();
    let other = Packet::arp(ARP_REQUEST, "192.0.2.7", "10.0.0.77").macs(ASKER, [0xff; 6]);
    w.dropped(1, &other, "DROP_UNKNOWN_MAC");
    w.dropped(1, &other.clone().to_mac(SWITCH), "DROP_ARP");
    // Gratuitous ARP from a station that claims our address: it is ignored.
    let claim = Packet::arp(ARP_REPLY, VIP4, VIP4).with_arp(|a| a.sha = ASKER).macs(ASKER, [0xff; 6]);
    w.dropped(1, &claim, "DROP_UNKNOWN_MAC");
}

fn solicitation(target: &str, to: &str) -> Packet {
    let group = solicited_node(to.parse().expect("an address"));
    let [.., a, b, c] = group.octets();
    Packet::neighbour(ND_SOLICITATION, "2001:db8::7", &group.to_string(), 0, target, ASKER)
        .macs(ASKER, [0x33, 0x33, 0xff, a, b, c])
}

#[test]
fn neighbour_solicitation() {
    let mut w = World::new();
    for (port, address) in [(1, VIP6), (3, "fd00::1")] {
        // Solicited and override.
        let is_at = Packet::neighbour(ND_ADVERTISEMENT, address, "2001:db8::7", 0x6000_0000, address, SWITCH)
            .macs(SWITCH, ASKER);
        w.expect(port, &solicitation(address, address), port, &is_at);
        // By unicast.
        w.expect(port, &solicitation(address, address).dst(address).to_mac(SWITCH), port, &is_at);
    }
}

#[test]
fn neighbour_solicitation_that_must_be_ignored() {
    let mut w = World::new();
    w.dropped(1, &solicitation("fd00::77", "fd00::77"), "DROP_UNKNOWN_MAC");
    // From beyond the link (RFC 4861, section 7.1.1).
    w.dropped(1, &solicitation(VIP6, VIP6).ttl(254), "DROP_VIP_NO_SERVICE");
    // Another option than the source link-layer address.
    let other_option = solicitation(VIP6, VIP6).with_icmp(|i| i.payload[16] = 14);
    w.dropped(1, &other_option, "DROP_VIP_NO_SERVICE");
    let advertisement =
        Packet::neighbour(ND_ADVERTISEMENT, "2001:db8::7", VIP6, 0, VIP6, ASKER).macs(ASKER, SWITCH);
    w.dropped(1, &advertisement, "DROP_VIP_NO_SERVICE");
}

/// The answer to an echo request, as the switch sends it.
fn echo_reply(request: &Packet) -> Packet {
    let Body::Ip(ip) = &request.body else { panic!("no IP") };
    let (src, dst) = (ip.src, ip.dst);
    request
        .clone()
        .macs(SWITCH, request.src_mac)
        .src(&dst.to_string())
        .dst(&src.to_string())
        .ttl(64)
        .with_icmp(|i| i.kind = if src.is_ipv4() { 0 } else { 129 })
}

#[test]
fn echo() {
    let mut w = World::new();
    for len in [0, 1, 56, 1400] {
        let data: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        for (port, ttl) in [(1, 1), (2, 64), (4, 255)] {
            for (from, to) in
                [("192.0.2.7", VIP4), ("10.0.0.9", "10.0.0.1"), ("2001:db8::7", VIP6), ("fd00::9", "fd00::1")]
            {
                let ping = Packet::echo(from, to, data.clone()).ttl(ttl).macs(ASKER, SWITCH);
                w.expect(port, &ping, port, &echo_reply(&ping));
            }
        }
    }
}

#[test]
fn echo_with_ip_options() {
    let mut w = World::new();
    let ping =
        Packet::echo("192.0.2.7", VIP4, "x").macs(ASKER, SWITCH).with_ip(|ip| ip.options = vec![1, 1, 1, 0]);
    w.expect(1, &ping, 1, &echo_reply(&ping));
}

#[test]
fn echo_that_is_not_answered() {
    let mut w = World::new();
    for (from, to) in [("192.0.2.7", VIP4), ("2001:db8::7", VIP6)] {
        let ping = Packet::echo(from, to, "x").macs(ASKER, SWITCH);
        w.dropped(1, &ping.clone().with_icmp(|i| i.code = 1), "DROP_VIP_NO_SERVICE");
        w.dropped(1, &echo_reply(&ping).macs(ASKER, SWITCH).src(from).dst(to), "DROP_VIP_NO_SERVICE");
        // For another station.
        w.dropped(1, &ping.to_mac([2, 0, 0, 0, 5, 5]), "DROP_UNKNOWN_MAC");
    }
    // Routed like anything else.
    let through = Packet::echo("192.0.2.7", "10.0.9.9", "x").macs(ROUTER, SWITCH);
    w.expect(CLIENTS, &through, PLAIN_PORT, &through.clone().macs(SWITCH, PLAIN).ttl(63));
}

/// A wrong checksum is not corrected, so that the sender notices.
#[test]
fn damaged_echo_stays_damaged() {
    let mut w = World::new();
    let mut frame = Packet::echo("192.0.2.7", VIP4, "data").macs(ASKER, SWITCH).bytes();
    let last = frame.len() - 1;
    frame[last] ^= 1;
    let out = w.send(1, &frame);
    let [(1, answer)] = out.as_slice() else { panic!("{out:?}") };
    assert!(pointsman_testkit::packet::check_checksums(answer).is_err());
    let Ok(Packet { body: Body::Ip(ip), .. }) = Packet::parse(answer) else { panic!("{answer:?}") };
    assert!(matches!(ip.l4, L4::Icmp(i) if i.kind == 0));
}
