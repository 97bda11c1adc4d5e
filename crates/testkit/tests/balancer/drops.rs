//! Every reason to drop a packet can be reached, and is counted then.

use super::full_table::places;
use super::world::*;
use pointsman_testkit::entries::find_table;
use pointsman_testkit::packet::numbers::*;
use pointsman_testkit::packet::{Body, Packet, Report, tcp_flags::*};
use pointsman_v1model::MeterConfig;

/// The reasons to drop a packet. Those that are answered with RSTs are in resets.rs.
fn drops() -> std::collections::BTreeMap<String, u64> {
    let answered = ["DROP_NO_CONNECTION", "DROP_IDLE", "DROP_DEVICE_FAILED"];
    reasons().into_iter().filter(|(r, _)| !answered.contains(&r.as_str())).collect()
}

/// A packet (and its port) for each reason.
fn example(w: &mut World, reason: &str) -> (u32, Vec<u8>) {
    let web = |flags| segment(&client4(1), WEB4, flags);
    let report = |r: Report| report_packet(8, true, &r).bytes();
    let p = match reason {
        "DROP_MALFORMED" => return (1, syn(&client4(1), WEB4).bytes()[..40].to_vec()),
        "DROP_CHECKSUM" => {
            let mut frame = syn(&client4(1), WEB4).bytes();
            frame[24] ^= 1;
            return (1, frame);
        }
        "DROP_UNKNOWN_MAC" => web(SYN).to_mac([2, 9, 9, 9, 9, 9]),
        "DROP_NO_ROUTE" => {
            w.rig.clear("routes_v6").expect("a table");
            Packet::udp("[fd09::1]:1", "[2001:db8::1]:1", "").macs(PLAIN, SWITCH)
        }
        "DROP_TTL" => web(SYN).ttl(1),
        "DROP_VIP_NO_SERVICE" => segment(&client4(1), "10.0.0.100:81", SYN),
        "DROP_FRAGMENT" => web(SYN).with_ip(|ip| ip.fragment = 1),
        // See full_table.rs.
        "DROP_TABLE_FULL" => {
            fill_places(w);
            web(SYN)
        }
        "DROP_NO_SERVER" => {
            w.rig.clear("server_slots").expect("a table");
            web(SYN)
        }
        "DROP_NO_DEVICE" => {
            w.rig.clear("pools").expect("a table");
            web(SYN)
        }
        "DROP_REPORT_MALFORMED" => return (2, report(Report { version: 9, ..Report::new(1, 1, 1, 1) })),
        "DROP_REPORT_SOURCE" => return (3, report(Report::new(1, 1, 1, 1))),
        "DROP_REPORT_STALE" => {
            w.report(8, true);
            let sequence = (w.rig.now.0 / 1_000_000) as u32 - 1;
            return (2, report(Report::new(1, 1, 1, sequence)));
        }
        "DROP_REPORT_UNSIGNED" => {
            w.remove("report_keys agent=9 number=0 -> trust_source");
            return (2, report_packet(9, true, &Report::new(1, 2, 2, 1)).bytes());
        }
        "DROP_REPORT_KEY" => return (2, signed_by_9(1, 1)),
        "DROP_REPORT_DIGEST" => {
            w.set("report_keys agent=9 number=2 -> set_key(1)");
            return (2, signed_by_9(2, 1));
        }
        "DROP_REPORT_REPLAYED" => {
            w.set("report_keys agent=9 number=3 -> set_key(0x0707070707070707)");
            w.dropped_frame(2, &signed_by_9(3, 7), "REPORT_ACCEPTED");
            return (2, signed_by_9(3, 7));
        }
        "DROP_ICMP_UNMATCHED" => {
            let about = Packet::tcp(WEB4, client4(1), ACK);
            Packet::icmp_error("198.51.100.9", VIP4, 3, 1, &about, 8).macs(ROUTER, SWITCH)
        }
        "DROP_ARP" => Packet::arp(ARP_REQUEST, "10.0.1.8", "10.0.1.9").macs(ROUTER, SWITCH),
        "DROP_ETHERTYPE" => {
            Packet::new(Body::Other { ethertype: 0x88cc, bytes: vec![1] }).macs(ROUTER, SWITCH)
        }
        "DROP_ADDRESS" => web(SYN).src("127.0.0.1"),
        "DROP_SPOOFED" => web(SYN).src(VIP4),
        "DROP_PACKET_OUT" => {
            let frame = [CPU.to_be_bytes()[2..].to_vec(), web(SYN).bytes()].concat();
            return (CPU, frame);
        }
        "DROP_RATE" => {
            w.add("service_options service=1 -> set_options(0, 0)");
            let now = w.rig.now;
            let table = find_table(w.rig.program(), "service_options").expect("a table");
            let state = w.rig.state();
            let entry = state.entries(table).next().map(|(handle, _)| handle);
            state.set_direct_meter(now, table, entry, Some(MeterConfig::default())).expect("a meter");
            web(SYN)
        }
        "REPORT_ACCEPTED" => return (2, report(Report::new(1, 1, 1, 1))),
        other => panic!("no example of {other}: add one"),
    };
    (1, p.bytes())
}

/// A report of device 9, signed with a key of sevens.
fn signed_by_9(number: u8, sequence: u64) -> Vec<u8> {
    let report = pointsman_balance::report::Report {
        high: false,
        server: 1,
        mask: 2,
        available: 2,
        metrics: 0,
        sequence: 0,
        words: vec![],
    };
    let key = pointsman_balance::trust::ReportKey::new([7; 8]);
    let payload = report.encode_signed(&key, pointsman_balance::report::Stamp { number, sequence });
    report_packet(9, true, &Report::new(1, 2, 2, 1)).payload(payload).bytes()
}

/// Puts other live connections into the four places of `client4(1)`.
fn fill_places(w: &mut World) {
    // version, idle time, flags; units as in connections.p4
    let state: u64 = 0x3_ffff << 8 | 1;
    let seen = w.rig.now.micros() >> 10;
    let std::net::SocketAddr::V4(client) = client4(1).parse().expect("an address") else { panic!("IPv4") };
    let address = std::net::Ipv6Addr::from(u128::from(u32::from(*client.ip())));
    let places = places(address, client.port(), 1);
    // The low and the high 17 bits of hash_a and hash_b; see connections.p4.
    for (way, shift) in [32, 32 + 15, 0, 15].into_iter().enumerate() {
        let place = places >> shift & 0x1_ffff;
        for (name, value) in [("state", state), ("last_seen", seen)] {
            let register = format!("connections.way{way}.{name}");
            w.rig.write_register(&register, place, &value.to_string()).expect("a register");
        }
    }
}

#[test]
fn every_reason() {
    let all = drops();
    assert!(all.len() >= 20, "{all:?}");
    for (reason, number) in all {
        if number == 0 {
            continue; // none
        }
        let mut w = World::new();
        let (port, frame) = example(&mut w, &reason);
        w.dropped_frame(port, &frame, &reason);
    }
}

/// Numbers without a meaning are never counted.
#[test]
fn other_numbers_stay_zero() {
    let mut w = World::new();
    for reason in drops().keys().filter(|r| *r != "DROP_NONE" && *r != "DROP_TABLE_FULL") {
        let (port, frame) = example(&mut w, reason);
        w.send(port, &frame);
    }
    for number in 0..64 {
        let known = number != 0 && reasons().values().any(|n| *n == number);
        let counted = w.rig.counter("drops", number).expect("a counter").packets;
        assert!(known || counted == 0, "number {number} counts {counted}");
    }
}

/// Malformed packets, cut anywhere: dropped for that, or for a fault of their first bytes.
#[test]
fn cut_short() {
    let mut w = World::new();
    for p in [
        syn(&client4(1), WEB4),
        syn(&client6(1), WEB6),
        datagram(&client4(1), DNS4),
        datagram(&client6(1), DNS6),
    ] {
        let frame = p.clone().payload("").bytes();
        for len in 0..frame.len() {
            w.dropped_frame(CLIENTS, &frame[..len], "DROP_MALFORMED");
        }
        w.device_of(&p);
    }
    for p in [
        Packet::arp(ARP_REQUEST, "192.0.2.1", VIP4),
        Packet::echo("192.0.2.1", VIP4, ""),
        Packet::echo("2001:db8::1", VIP6, ""),
    ] {
        let frame = p.macs(ROUTER, SWITCH).bytes();
        for len in 0..frame.len() {
            w.dropped_frame(CLIENTS, &frame[..len], "DROP_MALFORMED");
        }
    }
    // Without its options.
    let options = syn(&client4(2), WEB4).with_ip(|ip| ip.options = vec![1; 40]).bytes();
    for len in 34..74 {
        w.dropped_frame(CLIENTS, &options[..len], "DROP_MALFORMED");
    }
}

#[test]
fn inconsistent_headers() {
    let mut w = World::new();
    let mut check = |p: &Packet, at: usize, value: u8| {
        let mut frame = p.bytes();
        frame[at] = value;
        w.dropped_frame(CLIENTS, &frame, "DROP_MALFORMED");
    };
    let (v4, v6) = (syn(&client4(1), WEB4), syn(&client6(1), WEB6));
    // Version, header length, total length, TCP's data offset.
    for first in [0x05, 0x44, 0x40, 0x55, 0x65] {
        check(&v4, 14, first);
    }
    check(&v4, 17, 19);
    check(&v6, 14, 0x40);
    check(&v6, 14, 0x70);
    check(&v4, 46, 0x40);
    check(&v6, 66, 0x00);
}

/// Lengths that the frame does not have, or that are too short for the headers; padding behind them is nothing wrong.
#[test]
fn lengths_beyond_the_frame() {
    let mut w = World::new();
    let sized = |p: &Packet, at: usize, by: i32| {
        let mut frame = p.bytes();
        let len = i32::from(u16::from_be_bytes([frame[at], frame[at + 1]])) + by;
        frame[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
        if at == 16 {
            // The header's checksum is that of the new length.
            let sum = i32::from(u16::from_be_bytes([frame[24], frame[25]])) + 0x1_fffe - by;
            let sum = (sum & 0xffff) + (sum >> 16);
            frame[24..26].copy_from_slice(&(((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
        }
        frame
    };
    let (tcp4, tcp6) = (syn(&client4(1), WEB4).payload("abc"), syn(&client6(1), WEB6).payload("abc"));
    let (udp4, udp6) = (datagram(&client4(2), DNS4), datagram(&client6(2), DNS6));
    for (p, at) in [(&tcp4, 16), (&tcp6, 18), (&udp4, 16), (&udp6, 18)] {
        w.dropped_frame(CLIENTS, &sized(p, at, 1), "DROP_MALFORMED");
        w.dropped_frame(CLIENTS, &sized(p, at, 1000), "DROP_MALFORMED");
    }
    // No room for the transport header, or for UDP's length.
    for (p, at, by) in
        [(&tcp4, 16, -4), (&tcp6, 18, -4), (&udp4, 16, -1), (&udp6, 18, -1), (&udp4, 38, 1), (&udp6, 58, 1)]
    {
        w.dropped_frame(CLIENTS, &sized(p, at, by), "DROP_MALFORMED");
    }
    w.dropped_frame(CLIENTS, &sized(&udp4, 38, -9), "DROP_MALFORMED");
    // TCP's header is longer than the packet.
    for (p, at) in [(&tcp4, 46), (&tcp6, 66)] {
        let mut frame = p.bytes();
        frame[at] = 0xf0;
        w.dropped_frame(CLIENTS, &frame, "DROP_MALFORMED");
    }
    let mut padded = syn(&client4(3), WEB4).bytes();
    padded.extend([0; 6]);
    assert_eq!(w.send(CLIENTS, &padded).len(), 1);
}

/// Connections from an address that no host has, that is ours, or that is a device's elsewhere are refused, and so are packets of a
/// device or a VIP from another port.
#[test]
fn false_sources() {
    let mut w = World::new();
    for source in
        ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255"]
    {
        w.dropped(CLIENTS, &syn(&client4(1), WEB4).src(source), "DROP_ADDRESS");
        w.dropped(CLIENTS, &datagram(&client4(1), DNS4).src(source), "DROP_ADDRESS");
    }
    for source in ["::", "::1", "ff02::1", "fe80::1", "febf::1"] {
        w.dropped(CLIENTS, &syn(&client6(1), WEB6).src(source), "DROP_ADDRESS");
        w.dropped(CLIENTS, &datagram(&client6(1), DNS6).src(source), "DROP_ADDRESS");
    }
    for source in [VIP4, "10.0.0.1", "10.0.1.8"] {
        w.dropped(CLIENTS, &syn(&client4(1), WEB4).src(source), "DROP_SPOOFED");
        w.dropped(CLIENTS, &datagram(&client4(1), DNS4).src(source), "DROP_SPOOFED");
        // On the way through.
        w.dropped(
            3,
            &Packet::udp("198.51.100.1:1", "10.0.9.9:2", "").macs(PLAIN, SWITCH).src(source),
            "DROP_SPOOFED",
        );
    }
    for source in [VIP6, "fd00::1", "fd01::8"] {
        w.dropped(CLIENTS, &syn(&client6(1), WEB6).src(source), "DROP_SPOOFED");
        w.dropped(CLIENTS, &datagram(&client6(1), DNS6).src(source), "DROP_SPOOFED");
    }
    // A device is a client like any other, from its own port.
    let own = syn("10.0.1.8:4000", WEB4);
    assert_eq!(w.send(device_port(8), &own.bytes()).len(), 1);
    // Its answers also come from there.
    for (client, service) in [(client4(2), WEB4), (client6(2), WEB6)] {
        let device = w.device_of(&syn(&client, service));
        let answer = reply(device, &syn(&client, service));
        for port in [1, 2, 3, 4].into_iter().filter(|p| *p != device_port(device)) {
            w.dropped(port, &answer, "DROP_SPOOFED");
        }
        w.answer(device, &answer);
    }
    // A VIP whose devices answer clients directly is a source, but opens nothing.
    w.set("sources_v4 address=10.0.0.100 -> no_client()");
    w.dropped(CLIENTS, &syn(&client4(1), WEB4).src(VIP4), "DROP_SPOOFED");
    let direct = Packet::tcp(WEB4, client4(3), SYN | ACK).macs(device_mac(8), SWITCH);
    assert_eq!(w.send(device_port(8), &direct.bytes()).len(), 1);
}

/// The IPv4 header's checksum, with and without options; every byte of it.
#[test]
fn damaged_headers() {
    let mut w = World::new();
    for p in [syn(&client4(1), WEB4), syn(&client4(1), WEB4).with_ip(|ip| ip.options = vec![1, 1, 7, 0])] {
        let frame = p.bytes();
        for byte in [15, 18, 19, 22, 24, 25, 26, 29, 33].into_iter().chain(34..frame.len() - 20) {
            let mut wrong = frame.clone();
            wrong[byte] ^= 0x08;
            w.dropped_frame(CLIENTS, &wrong, "DROP_CHECKSUM");
        }
    }
}
