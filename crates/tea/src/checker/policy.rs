//! Packets between hosts of zones, whose entries are in two tables: those of source and destination, and that of the destination's next hop. Shares no code
//! with the program.

use super::{Checker, HOP, Sent, Shape};
use pointsman_wire::Mac;
use std::net::Ipv4Addr;

/// Every fourth flow is a next hop, until there are so many; the others are hosts.
const HOPS: u32 = 24;
/// Destinations of half of the packets are among so many flows, as long as there are more.
const OFTEN: u32 = 256;
/// Numbers of the tables.
const TABLES: (u8, u8) = (1, 2);
/// Where packets leave.
const PORT: u8 = 2;
/// Tables of an application without TEA: hosts as sources and as destinations, and next hops.
pub const PLAIN: [(&str, &str, &str); 3] = [
    ("FlowIngress.sources", "address", "FlowIngress.source_entry"),
    ("FlowIngress.destinations", "address", "FlowIngress.destination_entry"),
    ("FlowIngress.hops", "hop", "FlowIngress.source_entry"),
];

/// The number of a flow that is a next hop.
pub fn hop_of(flow: u32) -> Option<u32> {
    (flow % 4 == 3 && flow / 4 < HOPS).then_some(flow / 4)
}

/// The flow of a next hop.
fn flow_of(hop: u32) -> u32 {
    hop * 4 + 3
}

/// This flow, or a host in the place of a next hop.
fn host(flow: u32) -> u32 {
    flow - u32::from(hop_of(flow).is_some())
}

fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + host)
}

/// What a host's packets have as their DSCP.
fn dscp(host: u32, version: u16) -> u8 {
    (host.wrapping_mul(13).wrapping_add(version.into()) & 63) as u8
}

/// The next hop of packets to a host.
fn hop(host: u32, version: u16) -> u32 {
    host.wrapping_mul(7).wrapping_add(version.into()) % HOPS
}

fn mac(hop: u32, version: u16) -> Mac {
    let ([a, b], [c, d]) = ((hop as u16).to_be_bytes(), version.to_be_bytes());
    Mac([2, 1, a, b, c, d])
}

/// An entry's key: table, zeros, address or number.
pub fn key(flow: u32) -> Vec<u8> {
    let (table, number) = match hop_of(flow) {
        None => (TABLES.0, address(flow).to_bits()),
        Some(hop) => (TABLES.1, hop),
    };
    [&[table, 0, 0, 0][..], &number.to_be_bytes()].concat()
}

/// The entry with a key.
pub fn flow(key: &[u8]) -> u32 {
    let number = u32::from_be_bytes([0, key[5], key[6], key[7]]);
    if key[0] == TABLES.1 { flow_of(number) } else { number }
}

/// An entry's value. All zones may send to each other.
pub fn value(flow: u32, version: u16) -> Vec<u8> {
    match hop_of(flow) {
        None => {
            let front = [(flow & 15) as u8, dscp(flow, version), 0xff, 0xff];
            [&front[..], &hop(flow, version).to_be_bytes()].concat()
        }
        Some(hop) => [&[0, PORT][..], &mac(hop, version).0].concat(),
    }
}

/// Source and destination of the packet with a number, of a flow of so many.
pub(super) fn ends(flow: u32, number: u64, flows: u32) -> [u32; 2] {
    let any = (number as u32).wrapping_mul(0x9e37_79b1) >> 8;
    [host(flow), host(any % if number.is_multiple_of(2) { flows.min(OFTEN) } else { flows })]
}

/// A packet as it is sent.
pub(super) fn shape(ends: [u32; 2]) -> Shape {
    Shape { to: HOP.0, ends: ends.map(|host| (address(host).into(), 4000)), dscp: 0 }
}

/// The frame that was expected of a packet between two hosts, and whether it can have the entries that it shows.
pub(super) fn judge(
    checker: &Checker,
    (sent, [source, destination]): (Sent, [u32; 2]),
    now: u64,
    found: bool,
    frame: &[u8],
) -> (Shape, bool) {
    let shape = shape([source, destination]);
    let can = |flow: u32, is: &dyn Fn(Option<u16>) -> bool| checker.can(flow, sent.at, now, is);
    if !found {
        let without = |v: Option<u16>| v.is_none();
        let ends = |v: Option<u16>| v.is_some_and(|v| can(flow_of(hop(destination, v)), &without));
        return (shape, can(source, &without) || can(destination, &without) || can(destination, &ends));
    }
    let to = Mac([frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]]);
    let shape = Shape { to, dscp: frame[15] >> 2, ..shape };
    let number = u32::from(u16::from_be_bytes([frame[2], frame[3]]));
    let version = u16::from_be_bytes([frame[4], frame[5]]);
    let possible = number < HOPS
        && to == mac(number, version)
        && can(source, &|v| v.is_some_and(|v| dscp(source, v) == shape.dscp))
        && can(destination, &|v| v.is_some_and(|v| hop(destination, v) == number))
        && can(flow_of(number), &|v| v == Some(version));
    (shape, possible)
}
