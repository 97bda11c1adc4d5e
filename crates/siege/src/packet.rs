//! Frames byte by byte: Ethernet, ARP, IPv4 and IPv6 with UDP, TCP and ICMP, checksums complete.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ethertype of IPv4.
const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
const ARP: u16 = 0x0806;
/// Ethertype of IPv6.
const IPV6: u16 = 0x86dd;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP: u8 = 1;
pub const ICMPV6: u8 = 58;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Ethernet addresses: destination, source.
pub type Hop = ([u8; 6], [u8; 6]);

fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    bytes.chunks(2).map(word).sum()
}

fn checksum(sum: u32) -> [u8; 2] {
    let once = (sum & 0xffff) + (sum >> 16);
    (!(((once & 0xffff) + (once >> 16)) as u16)).to_be_bytes()
}

/// An Ethernet frame of any type.
pub fn ethernet((to, from): Hop, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &from, &ethertype.to_be_bytes(), payload].concat()
}

/// ARP for IPv4: `operation` 1 asks, 2 answers.
pub fn arp(hop: Hop, operation: u16, sender: ([u8; 6], Ipv4Addr), target: ([u8; 6], Ipv4Addr)) -> Vec<u8> {
    let fixed = [0, 1, 8, 0, 6, 4];
    let body =
        [&fixed[..], &operation.to_be_bytes(), &sender.0, &sender.1.octets(), &target.0, &target.1.octets()];
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

/// The usual header.
pub const USUAL: Ip = Ip { ttl: 64, length_off: 0, fragment: (0, 0x4000) };

/// A packet from `from` to `to`, which are of one family, with this payload; checksums of TCP, UDP and ICMPv6 are filled in.
pub fn packet(hop: Hop, from: IpAddr, to: IpAddr, protocol: u8, mut payload: Vec<u8>, ip: Ip) -> Vec<u8> {
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        _ => 2,
    };
    // The pseudo header: addresses, protocol, length.
    let pseudo = match (from, to) {
        _ if protocol == ICMP => 0,
        (IpAddr::V4(f), IpAddr::V4(t)) => sum(&f.octets()) + sum(&t.octets()),
        (IpAddr::V6(f), IpAddr::V6(t)) => sum(&f.octets()) + sum(&t.octets()),
        _ => 0,
    };
    let pseudo = if protocol == ICMP { 0 } else { pseudo + u32::from(protocol) + payload.len() as u32 };
    if payload.len() >= at + 2 && ip.fragment.1 & 0x3fff == 0 {
        payload[at..at + 2].fill(0);
        let sum = checksum(sum(&payload) + pseudo);
        payload[at..at + 2].copy_from_slice(&sum);
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
            let sum = checksum(sum(&header));
            header[10..12].copy_from_slice(&sum);
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

/// A TCP segment, without its IP header; [`packet`] fills in the checksum.
pub fn tcp(from: u16, to: u16, sequence: u32, flags: u8) -> Vec<u8> {
    let mut out = [&from.to_be_bytes()[..], &to.to_be_bytes(), &sequence.to_be_bytes(), &[0; 4]].concat();
    // Header of five words, flags, window; checksum and urgent pointer.
    out.extend([0x50, flags, 0x40, 0, 0, 0, 0, 0]);
    out
}

/// An unsolicited neighbour advertisement: `address` is at `mac`.
pub fn advertisement(hop: Hop, to: Ipv6Addr, address: Ipv6Addr, mac: [u8; 6]) -> Vec<u8> {
    // Type 136; override, solicited; target; option 2: target's link-layer address.
    let body = [&[136, 0, 0, 0, 0x60, 0, 0, 0][..], &address.octets(), &[2, 1], &mac].concat();
    packet(hop, address.into(), to.into(), ICMPV6, body, Ip { ttl: 255, ..USUAL })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOP: Hop = ([2; 6], [4; 6]);

    /// A complete checksum makes the sum of everything all ones.
    fn whole(bytes: &[u8], pseudo: u32) -> bool {
        checksum(sum(bytes) + pseudo) == [0, 0]
    }

    #[test]
    fn checksums_are_right() {
        let (a, b): (Ipv4Addr, Ipv4Addr) = ([10, 0, 0, 2].into(), [10, 0, 100, 1].into());
        let segment = packet(HOP, a.into(), b.into(), TCP, tcp(1000, 8000, 7, SYN), USUAL);
        assert_eq!(segment.len(), 14 + 20 + 20);
        assert!(whole(&segment[14..34], 0));
        assert!(whole(&segment[34..], sum(&a.octets()) + sum(&b.octets()) + 6 + 20));
        let datagram = packet(HOP, a.into(), b.into(), UDP, udp(1, 2, b"odd"), USUAL);
        assert!(whole(&datagram[34..], sum(&a.octets()) + sum(&b.octets()) + 17 + 11));
        let (a, b): (Ipv6Addr, Ipv6Addr) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let advert = advertisement(HOP, b, a, [6; 6]);
        assert_eq!(advert.len(), 14 + 40 + 32);
        assert!(whole(&advert[54..], sum(&a.octets()) + sum(&b.octets()) + 58 + 32));
        assert_eq!(arp(HOP, 2, ([1; 6], Ipv4Addr::LOCALHOST), ([2; 6], Ipv4Addr::BROADCAST)).len(), 42);
    }

    #[test]
    fn lengths_may_lie() {
        let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 2].into(), [10, 0, 100, 1].into());
        let frame = packet(HOP, a, b, UDP, udp(1, 2, b"four"), Ip { length_off: -5, ..USUAL });
        assert_eq!(frame[16..18], [0, 27]);
        assert!(whole(&frame[14..34], 0));
    }
}
