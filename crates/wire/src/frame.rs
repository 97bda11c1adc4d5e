//! Frames byte by byte: Ethernet, ARP, IPv4 and IPv6 with UDP, TCP and ICMP, checksums complete.

use crate::Mac;
use crate::checksum::{folded, of_udp, sum};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;

/// IP protocol of TCP.
pub const TCP: u8 = 6;
/// IP protocol of UDP.
pub const UDP: u8 = 17;
/// IP protocol of ICMP.
pub const ICMP: u8 = 1;
/// IP protocol of ICMPv6.
pub const ICMPV6: u8 = 58;

/// TCP's flag FIN.
pub const FIN: u8 = 1;
/// TCP's flag SYN.
pub const SYN: u8 = 2;
/// TCP's flag RST.
pub const RST: u8 = 4;
/// TCP's flag ACK.
pub const ACK: u8 = 16;

/// Ethernet addresses: destination, source.
pub type Hop = (Mac, Mac);

/// An Ethernet frame of any type, not padded.
pub fn ethernet((to, from): Hop, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &ethertype.to_be_bytes(), payload].concat()
}

/// ARP for IPv4, 42 bytes: `operation` 1 asks, 2 answers.
pub fn arp(hop: Hop, operation: u16, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    // Ethernet, IPv4, and the lengths of their addresses.
    let fixed = [0, 1, 8, 0, 6, 4];
    let (s, t) = (sender.1.octets(), target.1.octets());
    let body = [&fixed[..], &operation.to_be_bytes(), &sender.0.0, &s, &target.0.0, &t];
    ethernet(hop, ARP, &body.concat())
}

/// Fields of an IP header besides addresses and protocol.
#[derive(Clone, Copy, Debug)]
pub struct Ip {
    /// Time to live, hop limit.
    pub ttl: u8,
    /// Added to the length that the header says.
    pub length_off: i16,
    /// IPv4: identification, and flags with offset.
    pub fragment: (u16, u16),
}

/// The usual header: 64 hops, not to be fragmented.
pub const USUAL: Ip = Ip { ttl: 64, length_off: 0, fragment: (0, 0x4000) };

/// Sum of a segment or datagram with its pseudo header, for its checksum. The addresses are of one family.
pub fn transport_sum(from: IpAddr, to: IpAddr, protocol: u8, segment: &[u8]) -> u64 {
    let address = |a: IpAddr| match a {
        IpAddr::V4(a) => sum(&a.octets()),
        IpAddr::V6(a) => sum(&a.octets()),
    };
    address(from) + address(to) + u64::from(protocol) + segment.len() as u64 + sum(segment)
}

/// Fills in the checksum of a segment, datagram or message. Other protocols are left as they are.
fn fill_in(from: IpAddr, to: IpAddr, protocol: u8, payload: &mut [u8]) {
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        ICMP | ICMPV6 => 2,
        _ => return,
    };
    if payload.len() < at + 2 {
        return;
    }
    payload[at..at + 2].fill(0);
    let checksum = match protocol {
        ICMP => !folded(sum(payload)),
        UDP => of_udp(transport_sum(from, to, protocol, payload)),
        _ => !folded(transport_sum(from, to, protocol, payload)),
    };
    payload[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// A packet from `from` to `to` with this payload; checksums of TCP, UDP and ICMP are filled in, except in fragments.
/// Empty if the addresses are not of one family.
pub fn packet(hop: Hop, from: IpAddr, to: IpAddr, protocol: u8, mut payload: Vec<u8>, ip: Ip) -> Vec<u8> {
    if ip.fragment.1 & 0x3fff == 0 {
        fill_in(from, to, protocol, &mut payload);
    }
    let said = |length: usize| (length as u16).wrapping_add_signed(ip.length_off).to_be_bytes();
    match (from, to) {
        (IpAddr::V4(f), IpAddr::V4(t)) => {
            let mut header = vec![0x45, 0];
            header.extend(said(20 + payload.len()));
            header.extend(ip.fragment.0.to_be_bytes());
            header.extend(ip.fragment.1.to_be_bytes());
            header.extend([ip.ttl, protocol, 0, 0]);
            header.extend(f.octets());
            header.extend(t.octets());
            let checksum = !folded(sum(&header));
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            ethernet(hop, IPV4, &[header, payload].concat())
        }
        (IpAddr::V6(f), IpAddr::V6(t)) => {
            let mut header = vec![0x60, 0, 0, 0];
            header.extend(said(payload.len()));
            header.extend([protocol, ip.ttl]);
            header.extend(f.octets());
            header.extend(t.octets());
            ethernet(hop, IPV6, &[header, payload].concat())
        }
        _ => Vec::new(),
    }
}

/// A UDP datagram, without its IP header; [`packet`] fills in the checksum.
pub fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

/// A TCP segment without options and data, without its IP header; [`packet`] fills in the checksum.
pub fn tcp(from: u16, to: u16, sequence: u32, flags: u8) -> Vec<u8> {
    let mut out = [&from.to_be_bytes()[..], &to.to_be_bytes(), &sequence.to_be_bytes(), &[0; 4]].concat();
    // Header of five words, flags, window; checksum and urgent pointer.
    out.extend([0x50, flags, 0x40, 0, 0, 0, 0, 0]);
    out
}

/// A neighbour solicitation (RFC 4861) for `target`, from the address `own` at `mac`: to the multicast group of `target`,
/// or only to the station with the MAC address `only`.
pub fn solicitation(mac: Mac, own: Ipv6Addr, target: Ipv6Addr, only: Option<Mac>) -> Vec<u8> {
    let t = target.octets();
    let (to, to_mac) = match only {
        Some(mac) => (target, mac),
        // Solicited-node multicast (RFC 4291, section 2.7.1) and its Ethernet address (RFC 2464, section 7).
        None => (
            Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, t[13], t[14], t[15]]),
            Mac([0x33, 0x33, 0xff, t[13], t[14], t[15]]),
        ),
    };
    // Type 135; target; option 1: source's link-layer address.
    let body = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &t, &[1, 1], &mac.0].concat();
    packet((to_mac, mac), own.into(), to.into(), ICMPV6, body, Ip { ttl: 255, ..USUAL })
}

/// An unsolicited neighbour advertisement: `address` is at `mac`.
pub fn advertisement(hop: Hop, to: Ipv6Addr, address: Ipv6Addr, mac: Mac) -> Vec<u8> {
    // Type 136; override, solicited; target; option 2: target's link-layer address.
    let body = [&[136, 0, 0, 0, 0x60, 0, 0, 0][..], &address.octets(), &[2, 1], &mac.0].concat();
    packet(hop, address.into(), to.into(), ICMPV6, body, Ip { ttl: 255, ..USUAL })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOP: Hop = (Mac([2; 6]), Mac([4; 6]));

    /// A complete checksum makes the sum of everything all ones.
    fn whole(from: IpAddr, to: IpAddr, protocol: u8, segment: &[u8]) -> bool {
        folded(transport_sum(from, to, protocol, segment)) == 0xffff
    }

    #[test]
    fn checksums_are_right() {
        let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 2].into(), [10, 0, 100, 1].into());
        let segment = packet(HOP, a, b, TCP, tcp(1000, 8000, 7, SYN), USUAL);
        assert_eq!(segment.len(), 14 + 20 + 20);
        assert_eq!(folded(sum(&segment[14..34])), 0xffff);
        assert!(whole(a, b, TCP, &segment[34..]));
        let datagram = packet(HOP, a, b, UDP, udp(1, 2, b"odd"), USUAL);
        assert!(whole(a, b, UDP, &datagram[34..]));
        let echo = packet(HOP, a, b, ICMP, vec![8, 0, 0, 0, 1], USUAL);
        assert_eq!(folded(sum(&echo[34..])), 0xffff);
        let (a, b): (Ipv6Addr, Ipv6Addr) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let advert = advertisement(HOP, b, a, Mac([6; 6]));
        assert_eq!(advert.len(), 14 + 40 + 32);
        assert!(whole(a.into(), b.into(), ICMPV6, &advert[54..]));
        let nobody = (Mac([0; 6]), Ipv4Addr::UNSPECIFIED);
        assert_eq!(arp(HOP, 2, nobody, nobody).len(), 42);
        assert!(packet(HOP, a.into(), Ipv4Addr::LOCALHOST.into(), UDP, Vec::new(), USUAL).is_empty());
    }

    #[test]
    fn lengths_may_lie() {
        let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 2].into(), [10, 0, 100, 1].into());
        let frame = packet(HOP, a, b, UDP, udp(1, 2, b"four"), Ip { length_off: -5, ..USUAL });
        assert_eq!(frame[16..18], [0, 27]);
        assert_eq!(folded(sum(&frame[14..34])), 0xffff);
    }
}
