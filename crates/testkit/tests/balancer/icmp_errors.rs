//! ICMP errors about connections: delivered to the right end, right inside and outside.

use super::world::*;
use pointsman_testkit::packet::{Packet, tcp_flags::*};

/// Kind and code of errors, IPv4: unreachable, fragmentation needed, time exceeded, parameter problem.
const ERRORS4: [(u8, u8); 4] = [(3, 1), (3, 4), (11, 0), (12, 0)];
/// IPv6: unreachable, too big, time exceeded, parameter problem.
const ERRORS6: [(u8, u8); 4] = [(1, 4), (2, 0), (3, 0), (4, 1)];

fn errors(v4: bool) -> [(u8, u8); 4] {
    if v4 { ERRORS4 } else { ERRORS6 }
}

struct Case {
    opening: Packet,
    v4: bool,
    /// A router between the switch and the client.
    hop: &'static str,
    vip: &'static str,
}

fn cases() -> Vec<Case> {
    let case = |opening, v4| {
        let (hop, vip) = if v4 { ("198.51.100.9", VIP4) } else { ("2001:db8:ffff::9", VIP6) };
        Case { opening, v4, hop, vip }
    };
    vec![
        case(syn(&client4(1), WEB4), true),
        case(syn(&client6(1), WEB6), false),
        case(datagram(&client4(1), DNS4), true),
        case(datagram(&client6(1), DNS6), false),
        case(without_checksum(datagram(&client4(2), DNS4)), true),
    ]
}

/// How much of the transport header is quoted: the eight bytes that are always quoted, or all of it.
fn quotes(p: &Packet) -> Vec<usize> {
    // Of a TCP header only the first eight bytes are kept right: its checksum lies behind them.
    if matches!(&p.body, pointsman_testkit::packet::Body::Ip(ip) if matches!(ip.l4, pointsman_testkit::packet::L4::Udp(_)))
    {
        vec![8, 100]
    } else {
        vec![8, 12]
    }
}

/// A router could not deliver an answer to the client: the device must be notified as if it had sent to the client itself.
#[test]
fn about_an_answer_to_the_device() {
    let mut w = World::new();
    for c in cases() {
        let device = w.device_of(&c.opening);
        let sent = reply(device, &c.opening);
        let as_seen = World::towards_client(&sent).ttl(3);
        for (kind, code) in errors(c.v4) {
            for quote in quotes(&sent) {
                let error = Packet::icmp_error(c.hop, c.vip, kind, code, &as_seen, quote)
                    .macs(ROUTER, SWITCH)
                    .with_icmp(|i| i.rest = 1400);
                let want = Packet::icmp_error(
                    c.hop,
                    device_address(device, c.v4),
                    kind,
                    code,
                    &sent.clone().ttl(3),
                    quote,
                )
                .macs(SWITCH, device_mac(device))
                .ttl(63)
                .with_icmp(|i| i.rest = 1400);
                w.expect(CLIENTS, &error, device_port(device), &want);
            }
        }
    }
}

/// The device could not take a packet of the client: the client must hear it from the VIP, about the VIP.
#[test]
fn from_the_device_to_the_client() {
    let mut w = World::new();
    for c in cases() {
        let device = w.device_of(&c.opening);
        let as_seen = World::towards_device(&c.opening, device);
        let pointsman_testkit::packet::Body::Ip(ip) = &c.opening.body else { panic!("no IP") };
        let client = ip.src.to_string();
        for (kind, code) in errors(c.v4) {
            for quote in quotes(&as_seen) {
                let error =
                    Packet::icmp_error(device_address(device, c.v4), &client, kind, code, &as_seen, quote)
                        .macs(device_mac(device), SWITCH);
                let want = Packet::icmp_error(c.vip, &client, kind, code, &c.opening.clone().ttl(63), quote)
                    .macs(SWITCH, ROUTER)
                    .ttl(63);
                w.expect(device_port(device), &error, CLIENTS, &want);
            }
        }
    }
}

/// A router between switch and device sends the error: it keeps its own address outside, inside it is about the VIP.
#[test]
fn from_a_router_behind_the_switch() {
    let mut w = World::new();
    for c in cases() {
        let device = w.device_of(&c.opening);
        let as_seen = World::towards_device(&c.opening, device).ttl(1);
        let pointsman_testkit::packet::Body::Ip(ip) = &c.opening.body else { panic!("no IP") };
        let client = ip.src.to_string();
        let router = if c.v4 { "10.0.1.254" } else { "fd01::fe" };
        let error = Packet::icmp_error(router, &client, if c.v4 { 11 } else { 3 }, 0, &as_seen, 8)
            .macs(device_mac(device), SWITCH);
        let want =
            Packet::icmp_error(router, &client, if c.v4 { 11 } else { 3 }, 0, &c.opening.clone().ttl(1), 8)
                .macs(SWITCH, ROUTER)
                .ttl(63);
        w.expect(device_port(device), &error, CLIENTS, &want);
    }
}

/// Errors neither open connections nor keep them alive nor end them.
#[test]
fn errors_leave_connections_alone() {
    let mut w = World::one_server(AVAILABILITY);
    let client = client4(1);
    let device = w.device_of(&syn(&client, WEB4));
    let sent = reply(device, &segment(&client, WEB4, RST));
    let error =
        Packet::icmp_error("198.51.100.9", VIP4, 3, 1, &World::towards_client(&sent), 8).macs(ROUTER, SWITCH);
    w.wait(IDLE_MS - 1);
    w.forward(CLIENTS, &error);
    w.wait(2);
    // The SYN opens a new connection, on the device that is preferred now.
    w.priorities(1, 0, 1, &[1, 0]);
    assert_eq!(w.device_of(&syn(&client, WEB4)), 9);
}

#[test]
fn errors_about_nothing_known() {
    let mut w = World::new();
    w.device_of(&syn(&client4(1), WEB4));
    let about = |client: &str, service: &str| Packet::tcp(service, client, ACK);
    for (hop, vip, quoted) in [
        ("198.51.100.9", VIP4, about(&client4(2), WEB4)),
        ("198.51.100.9", VIP4, about(&client4(1), "10.0.0.100:81")),
        ("2001:db8:ffff::9", VIP6, about(&client6(1), WEB6)),
    ] {
        let kind = if vip == VIP4 { 3 } else { 1 };
        let error = Packet::icmp_error(hop, vip, kind, 1, &quoted, 8).macs(ROUTER, SWITCH);
        w.dropped(CLIENTS, &error, "DROP_ICMP_UNMATCHED");
    }
    // A packet without ports has no device to notify.
    let ping = Packet::echo(VIP4, "192.0.2.1", "x");
    let error = Packet::icmp_error("198.51.100.9", VIP4, 3, 1, &ping, 8).macs(ROUTER, SWITCH);
    w.dropped(CLIENTS, &error, "DROP_VIP_NO_SERVICE");
}

/// Errors about other traffic are routed as they are.
#[test]
fn errors_about_others() {
    let mut w = World::new();
    for (from, to, about) in [
        ("198.51.100.9", "10.0.9.1", Packet::udp("10.0.9.1:1", "192.0.2.1:2", "x")),
        ("2001:db8:ffff::9", "fd09::1", Packet::udp("[fd09::1]:1", "[2001:db8::1]:2", "x")),
    ] {
        let error = Packet::icmp_error(from, to, 3, 1, &about, 100).macs(ROUTER, SWITCH);
        w.expect(CLIENTS, &error, PLAIN_PORT, &error.clone().macs(SWITCH, PLAIN).ttl(63));
    }
}
