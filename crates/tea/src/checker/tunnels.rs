//! Packets of the VPN gateway: to hosts behind tunnels, of IPv4 and IPv6, alone and in a tunnel to the gateway. Shares no code with the program.

use super::{HOP, ROUTED};
use pointsman_wire::Mac;
use pointsman_wire::frame::{self, IPV4, IPV6, USUAL, packet, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The gateway's addresses, from which its tunnels begin, and to which tunnels lead.
pub const GATEWAY: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::new(0xfd30, 0, 0, 0, 0, 0, 0, 1));
/// Prefix of the ends of tunnels over IPv6; those over IPv4 are in [`super::TRANSLATED`].
pub const ENDS: (Ipv6Addr, u32) = (Ipv6Addr::new(0xfd20, 0, 0, 0, 0, 0, 0, 0), 16);
/// The network of packets that come without a tunnel, and the first of eight that have the keys of tunnels.
pub const NETWORK: u32 = 7;
const FIRST_NETWORK: u32 = 0x100;
/// Where packets come from, and where the tunnels to the gateway begin.
const SOURCE: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 0, 0, 5), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 5));
const REMOTE: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 0, 0, 6), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 6));
/// UDP ports of the packets, which tshark takes for no application's.
const PORTS: (u16, u16) = (50_000, 50_001);
/// GRE's protocol, and its flags for a key.
const GRE: u8 = 47;
const WITH_KEY: [u8; 2] = [0x20, 0];
/// In a value's tunnel key besides the version.
const MARK: u32 = 0xabcd_0000;
/// With more bytes besides its number, a packet of IPv6 in a tunnel over IPv6 has more than 1,514.
pub const MOST: usize = 1514 - 118;

/// The address of this family.
fn of_family((v4, v6): (Ipv4Addr, Ipv6Addr), is_v6: bool) -> IpAddr {
    if is_v6 { v6.into() } else { v4.into() }
}

/// As keys and values have it.
pub fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        IpAddr::V6(a) => a.octets(),
    }
}

/// A flow's packets come in a tunnel.
fn arrives(flow: u32) -> bool {
    flow & 4 != 0
}

/// The network of a flow and its host's number. Eight networks have hosts with the same addresses.
fn place(flow: u32) -> (u32, u32) {
    if arrives(flow) {
        let n = flow / 8;
        (FIRST_NETWORK + n % 8, n / 8 * 8 + flow % 8)
    } else {
        (NETWORK, flow)
    }
}

/// The host of a number below 2^24.
fn host(number: u32) -> IpAddr {
    let v6 = Ipv6Addr::from((0xfd10 << 112) | u128::from(number));
    of_family((Ipv4Addr::from(0x6400_0000 + number), v6), number & 1 != 0)
}

/// The end of a flow's tunnel.
fn end(flow: u32) -> IpAddr {
    let v6 = Ipv6Addr::from((0xfd20 << 112) | u128::from(flow));
    of_family((super::translated(flow), v6), flow & 2 != 0)
}

/// The key of a flow: network and host.
pub fn key(flow: u32) -> Vec<u8> {
    let (network, number) = place(flow);
    [&network.to_be_bytes()[..], &mapped(host(number))].concat()
}

/// The flow of a key.
pub fn flow(key: &[u8]) -> u32 {
    let number = |at: usize| u32::from_be_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]]);
    let (network, host) = (number(0), number(16) & 0xff_ffff);
    if arrives(host) { (host / 8 * 8 + network - FIRST_NETWORK) * 8 + host % 8 } else { host }
}

/// A version of a flow's value: the end of its tunnel, and the tunnel's key.
pub fn value(flow: u32, version: u16) -> Vec<u8> {
    [&mapped(end(flow))[..], &(MARK | u32::from(version)).to_be_bytes()].concat()
}

/// The packet to the flow's host, and its ethertype.
fn inner(flow: u32, number: u64, padding: usize) -> (Vec<u8>, u16) {
    let to = host(place(flow).1);
    let payload = [&number.to_be_bytes()[..], &vec![number as u8; padding]].concat();
    let frame =
        packet(HOP, of_family(SOURCE, to.is_ipv6()), to, frame::UDP, udp(PORTS.0, PORTS.1, &payload), USUAL);
    (frame[14..].to_vec(), if to.is_ipv6() { IPV6 } else { IPV4 })
}

/// A packet in a tunnel.
fn in_tunnel(to_mac: Mac, [from, to]: [IpAddr; 2], key: u32, (inner, kind): (Vec<u8>, u16)) -> Vec<u8> {
    let payload = [&WITH_KEY[..], &kind.to_be_bytes(), &key.to_be_bytes(), &inner].concat();
    packet((to_mac, HOP.1), from, to, GRE, payload, USUAL)
}

/// As it is sent.
pub fn sent(flow: u32, number: u64, padding: usize) -> Vec<u8> {
    let inner = inner(flow, number, padding);
    if arrives(flow) {
        let is_v6 = flow & 8 != 0;
        let ends = [of_family(REMOTE, is_v6), of_family(GATEWAY, is_v6)];
        in_tunnel(HOP.0, ends, place(flow).0, inner)
    } else {
        frame::ethernet(HOP, inner.1, &inner.0)
    }
}

/// As it leaves in the tunnel that a frame shows; the version that it shows, and whether the tunnel is its flow's.
pub fn left(flow: u32, number: u64, padding: usize, frame: &[u8]) -> (Vec<u8>, Option<u16>, bool) {
    let of = |at: usize| frame.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let (to, key) = if frame.get(12..14) == Some(&IPV6.to_be_bytes()[..]) {
        let address = frame.get(38..54).and_then(|b| <[u8; 16]>::try_from(b).ok());
        (address.map(|a| IpAddr::from(Ipv6Addr::from(a))), of(58))
    } else {
        (of(30).map(|a| IpAddr::from(Ipv4Addr::from(a))), of(38))
    };
    let (to, key) = (to.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), key.unwrap_or(0));
    let ends = [of_family(GATEWAY, to.is_ipv6()), to];
    let is_own = to == end(flow) && key & 0xffff_0000 == MARK;
    (in_tunnel(ROUTED, ends, key, inner(flow, number, padding)), Some(key as u16), is_own)
}

/// As the first packet leaves with a version.
#[cfg(test)]
pub fn of_version(flow: u32, version: u16, padding: usize) -> Vec<u8> {
    let to = end(flow);
    let ends = [of_family(GATEWAY, to.is_ipv6()), to];
    in_tunnel(ROUTED, ends, MARK | u32::from(version), inner(flow, 0, padding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_their_flow() {
        let mut keys = std::collections::BTreeSet::new();
        for flow in (0..5000).chain([0xff_ffff, 0xff_fff8]) {
            assert_eq!(super::flow(&key(flow)), flow);
            assert!(keys.insert(key(flow)), "{flow}");
            assert_eq!((key(flow).len(), value(flow, 3).len()), (20, 20));
        }
        assert_eq!(hex(&key(1)), "00000007fd100000000000000000000000000001");
        // Two networks with one host's address.
        assert_eq!(hex(&key(4)), "0000010000000000000000000000ffff64000004");
        assert_eq!(hex(&key(12)), "0000010100000000000000000000ffff64000004");
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn the_longest_packet_is_looked_up() {
        let longest = (0..16).map(|flow| sent(flow, 1, MOST).len()).max();
        assert_eq!(longest, Some(1514));
    }
}
