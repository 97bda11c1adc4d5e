use super::*;
use tcp_flags::*;

fn samples() -> Vec<Packet> {
    let m = |n| [2, 0, 0, 0, 0, n];
    let inner = Packet::udp("10.0.0.9:53", "10.0.0.1:1234", "quoted");
    let inner6 = Packet::tcp("[fd00::9]:443", "[fd00::1]:1234", SYN | ACK);
    vec![
        Packet::tcp("10.0.0.1:1234", "10.0.0.2:80", SYN)
            .macs(m(1), m(2))
            .with_tcp(|t| t.options = vec![2, 4, 5, 180]),
        Packet::tcp("[fd00::1]:1234", "[fd00::2]:80", PSH | ACK).payload(*b"odd"),
        Packet::udp("10.0.0.1:1", "10.0.0.2:2", "").vlan(7).vlan(0xe008),
        Packet::udp("10.0.0.1:1", "10.0.0.2:2", "x").with_udp(|u| u.checksum = Sum::Is(0)),
        Packet::udp("[fd00::1]:1", "[fd00::2]:2", "abc").with_ip(|ip| (ip.tos, ip.flow) = (0xb8, 0x12345)),
        Packet::udp("10.0.0.1:1", "10.0.0.2:2", "opt").with_ip(|ip| ip.options = vec![1, 1, 1, 0]),
        Packet::ip("10.0.0.1", "10.0.0.2", L4::Other { proto: 17, bytes: vec![1, 2, 3] })
            .with_ip(|ip| (ip.fragment, ip.more_fragments, ip.id) = (100, true, 77)),
        Packet::echo("10.0.0.1", "10.0.0.2", "ping"),
        Packet::echo("fd00::1", "fd00::2", "ping"),
        Packet::icmp_error("10.0.0.1", "10.0.0.9", 3, 3, &inner, 8),
        Packet::icmp_error("10.0.0.1", "10.0.0.9", 3, 3, &inner, 100),
        Packet::icmp_error("fd00::1", "fd00::9", 1, 4, &inner6, 100),
        Packet::neighbour(numbers::ND_SOLICITATION, "fd00::1", "ff02::1:ff00:2", 0, "fd00::2", m(1)),
        Packet::arp(numbers::ARP_REQUEST, "10.0.0.1", "10.0.0.2").payload([0; 18]),
        Packet::udp("10.0.0.1:1", "10.0.0.2:9876", Report::new(1, 3, 2, 9).bytes()),
        Packet::new(Body::Other { ethertype: 0x88cc, bytes: vec![1, 2, 3] }),
    ]
}

#[test]
fn read_back_what_was_built() {
    for p in samples() {
        assert_eq!(Packet::parse(&p.bytes()), Ok(p.clone()));
        assert_eq!(check_checksums(&p.bytes()), Ok(()), "{p:?}");
    }
}

/// Every bit that a checksum covers is covered here too.
#[test]
fn flipped_bits_are_found() {
    for p in samples() {
        let Body::Ip(ip) = &p.body else { continue };
        let has_sum = match &ip.l4 {
            L4::Udp(u) => u.checksum == Sum::Right,
            L4::Other { .. } => false,
            _ => true,
        };
        if !has_sum {
            continue;
        }
        let frame = p.bytes();
        let ip_at = 14 + 4 * p.vlans.len();
        for byte in ip_at..frame.len() {
            // IPv6 does not cover version, traffic class, flow label and hop limit; another protocol is unknown.
            if ip.src.is_ipv6() && (byte < ip_at + 4 || byte == ip_at + 6 || byte == ip_at + 7) {
                continue;
            }
            let mut wrong = frame.clone();
            wrong[byte] ^= 0x10;
            assert!(check_checksums(&wrong).is_err(), "byte {byte} of {p:?}");
        }
    }
}

/// Known frames: an IPv4 header from the literature and a datagram computed by hand.
#[test]
fn known_checksums() {
    let header =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
    assert_eq!(checksum(&header), 0);
    // 0a000001 0a000002 0011 0009 | 0001 0002 0009 0000 6100: the sum is 0x7529
    let udp = Packet::udp("10.0.0.1:1", "10.0.0.2:2", "a").bytes();
    assert_eq!(udp[40..42], (!0x7529u16).to_be_bytes());
}

#[test]
fn wrong_ones_are_named() {
    let udp = Packet::udp("10.0.0.1:1", "10.0.0.2:2", "a").with_udp(|u| u.checksum = Sum::Is(7));
    assert!(
        check_checksums(&udp.bytes())
            .is_err_and(|e| e.to_string() == "UDP checksum 0x0007 (byte 6) is wrong")
    );
    let none = Packet::udp("[fd00::1]:1", "[fd00::2]:2", "a").with_udp(|u| u.checksum = Sum::Is(0));
    assert!(check_checksums(&none.bytes()).is_err());
    assert!(check_checksums(&[]).is_err());
    for n in 0..60 {
        // Cut anywhere: an answer, never a panic.
        let frame = Packet::icmp_error("10.0.0.1", "10.0.0.9", 3, 3, &udp, 8).bytes();
        let _ = (check_checksums(&frame[..n.min(frame.len())]), Packet::parse(&frame[..n.min(frame.len())]));
    }
}

#[test]
fn solicited_node_address() {
    let target: Ipv6Addr = "fd00::1234:5678".parse().expect("an address");
    assert_eq!(solicited_node(target).to_string(), "ff02::1:ff34:5678");
}
