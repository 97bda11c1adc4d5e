//! Routing over equal-cost paths: what `p4/programs/ecmp` needs in its tables.

use crate::book::{Does, UnknownName, Value};
use crate::scheme::{Place, Scheme, no_generators, no_reports};
use pointsman_control::proto::p4rt::Entity;
use pointsman_topology::HostId;
use std::collections::{BTreeMap, BTreeSet};

/// Flows spread by a hash over equal-cost paths.
pub const SCHEME: Scheme = Scheme {
    name: "ecmp",
    says: "a hash of the flow chooses among the shortest paths",
    program: include_str!("../../../p4/programs/ecmp/main.p4"),
    settings: &[],
    entities,
    generators: no_generators,
    report: no_reports,
};

const PROFILE: &str = "EcmpIngress.next_hops";
const ROUTES: &str = "EcmpIngress.routes_v4";

/// Bits by which switch N rotates its hash of the flow: a CRC is linear, so that a seed alone would leave the choices of two switches
/// dependent on each other. Odd, so that 32 switches in a row differ.
const ROTATION: u32 = 11;

/// Everything that the tables of one switch have to hold while these links are down.
///
/// Each host has a route: to the group of next hops on shortest paths, or without one if there are none. Members are numbered like
/// ports, and watch them: the switch itself leaves out a port that goes down.
///
/// # Errors
/// The program is another one.
fn entities(place: &Place<'_>) -> Result<Vec<Entity>, UnknownName> {
    let Place { book, topology, routes, switch, .. } = *place;
    let mut out = Vec::new();
    let own = topology.switches()[switch.0 as usize].mac;
    let mac = |mac: [u8; 6]| mac.iter().fold(0u128, |n, b| n << 8 | u128::from(*b));
    // Numbers that differ between switches and mean nothing.
    let seed = u128::from((switch.0 + 1).wrapping_mul(0x9e37_79b9));
    let rotation = u128::from((switch.0 + 1).wrapping_mul(ROTATION) % 32);
    let set_seed = book.action("EcmpIngress.set_seed", &[("seed", seed), ("rotation", rotation)])?;
    out.push(book.default_action("EcmpIngress.switch_config", set_seed)?);
    for (port, _, end) in topology.ports(switch) {
        let params = [("port", u128::from(port)), ("src", mac(own)), ("dst", mac(topology.mac(end)))];
        let forward = book.action("EcmpIngress.forward", &params)?;
        out.push(book.member(PROFILE, port.into(), forward)?);
    }
    let mut groups: BTreeMap<&[u16], u32> = BTreeMap::new();
    let mut numbers = BTreeSet::new();
    let mut entries = Vec::new();
    for (host, to) in (0..).map(HostId).zip(topology.hosts()) {
        let ports = routes.ports(switch, host);
        if ports.is_empty() {
            continue;
        }
        let group = *groups.entry(ports).or_insert_with(|| number(ports, &mut numbers));
        let key = [("prefix", Value::Prefix(u32::from(to.address).into(), 32))];
        entries.push(book.entry(ROUTES, &key, Does::Group(group))?);
    }
    for (ports, group) in &groups {
        let members: Vec<(u32, u16)> = ports.iter().map(|p| (u32::from(*p), *p)).collect();
        out.push(book.group(PROFILE, *group, &members)?);
    }
    out.extend(entries);
    Ok(out)
}

/// A group's number is made of its ports (FNV-1a), so that a group with other ports is another group: entries move from one to the
/// other, and no packet meets a group that has half changed.
fn number(ports: &[u16], taken: &mut BTreeSet<u32>) -> u32 {
    let mut hash =
        ports.iter().fold(0x811c_9dc5u32, |h, port| (h ^ u32::from(*port)).wrapping_mul(0x0100_0193));
    while hash == 0 || !taken.insert(hash) {
        hash = hash.wrapping_add(1);
    }
    hash
}
