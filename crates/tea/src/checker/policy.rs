//! Packets between hosts of zones, whose entries are in two tables: those of source and destination, and that of the destination's next hop. Shares no code
//! with the program.

use super::{Checker, Sent, Shape};
use pointsman_wire::Mac;
use std::net::Ipv4Addr;

/// Of all flows, as many are hosts; the others are next hops.
pub const HOSTS: u32 = 40;
/// And so many are next hops.
pub const HOPS: u32 = 60;
/// Numbers of the tables.
const TABLES: (u8, u8) = (1, 2);
/// Where packets leave.
const PORT: u8 = 1;

/// Address and port of a host.
pub fn host(number: u32) -> (Ipv4Addr, u16) {
    (Ipv4Addr::from(0x0a00_0000 + number * 0x1_0001), 4000)
}

/// The flow of a packet between two hosts.
pub fn between(source: u32, destination: u32) -> u32 {
    source | destination << 16
}

/// Its hosts.
pub fn hosts(flow: u32) -> [u32; 2] {
    [flow & 0xffff, flow >> 16]
}

/// What a host's packets have as their DSCP.
fn dscp(host: u32, version: u16) -> u8 {
    ((host * 13 + u32::from(version)) & 63) as u8
}

/// The next hop of packets to a host.
fn hop(host: u32, version: u16) -> u32 {
    (host * 7 + u32::from(version)) % HOPS
}

fn mac(hop: u32, version: u16) -> Mac {
    let ([a, b], [c, d]) = ((hop as u16).to_be_bytes(), version.to_be_bytes());
    Mac([2, 1, a, b, c, d])
}

/// An entry's key: table, zeros, address or number.
pub fn key(flow: u32) -> Vec<u8> {
    let (table, number) = match flow.checked_sub(HOSTS) {
        None => (TABLES.0, host(flow).0.to_bits()),
        Some(hop) => (TABLES.1, hop),
    };
    [&[table, 0, 0, 0][..], &number.to_be_bytes()].concat()
}

/// The entry with a key.
pub fn flow(key: &[u8]) -> u32 {
    let number = u32::from_be_bytes([0, 0, key[6], key[7]]);
    if key[0] == TABLES.1 { HOSTS + number } else { number }
}

/// An entry's value. All zones may send to each other.
pub fn value(flow: u32, version: u16) -> Vec<u8> {
    match flow.checked_sub(HOSTS) {
        None => {
            let front = [(flow & 15) as u8, dscp(flow, version), 0xff, 0xff];
            [&front[..], &hop(flow, version).to_be_bytes()].concat()
        }
        Some(hop) => [&[0, PORT][..], &mac(hop, version).0].concat(),
    }
}

/// The frame that was expected, and whether it can have the entries that it shows.
pub(super) fn judge(
    checker: &Checker,
    sent: Sent,
    shape: Shape,
    now: u64,
    found: bool,
    frame: &[u8],
) -> (Shape, bool) {
    let [source, destination] = hosts(sent.flow);
    let can = |flow: u32, is: &dyn Fn(Option<u16>) -> bool| checker.can(flow, sent.at, now, is);
    if !found {
        let without = |v: Option<u16>| v.is_none();
        let ends = |v: Option<u16>| v.is_some_and(|v| can(HOSTS + hop(destination, v), &without));
        return (shape, can(source, &without) || can(destination, &without) || can(destination, &ends));
    }
    let to = Mac([frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]]);
    let shape = Shape { to, dscp: frame[15] >> 2, ..shape };
    let number = u32::from(u16::from_be_bytes([frame[2], frame[3]]));
    let version = u16::from_be_bytes([frame[4], frame[5]]);
    let is_ours = number < HOPS && to == mac(number, version);
    let possible = is_ours
        && can(source, &|v| v.is_some_and(|v| dscp(source, v) == shape.dscp))
        && can(destination, &|v| v.is_some_and(|v| hop(destination, v) == number))
        && can(HOSTS + number, &|v| v == Some(version));
    (shape, possible)
}
