//! What all programs on `p4/lib/pointsman/fabric/routes.p4` have in their tables: next hops, routes, the hash's seed.

use crate::book::{Does, UnknownName, Value};
use crate::scheme::{Place, Setting};
use pointsman_control::proto::p4rt::Entity;
use pointsman_topology::{HostId, Line};
use std::collections::{BTreeMap, BTreeSet};

/// Timestamps of the switches of a network count nanoseconds (`SwitchConfig::nanoseconds`): all times in tables are in this unit.
pub(crate) const TICKS_PER_S: f64 = 1e9;

/// The setting of marks.
pub(crate) const ECN: Setting = Setting {
    name: "ecn_kib",
    default: 0.0,
    range: (0.0, 1e6),
    says: "KiB in a queue from which on packets that allow it get a mark (ECN); 0: no marks",
};

/// Bits by which switch N rotates its hash of the flow: a CRC is linear, so that a seed alone would leave the choices of two switches
/// dependent on each other. Odd, so that 32 switches in a row differ.
const ROTATION: u32 = 11;

/// Everything that the tables of one switch have to hold while these links are down, for a program whose ingress has this name.
///
/// Each host has a route: to the group of next hops on shortest paths, or without one if there are none. Members are numbered like
/// ports, and watch them: the switch itself leaves out a port that goes down.
///
/// # Errors
/// The program is another one.
pub(crate) fn routing(place: &Place<'_>, ingress: &str) -> Result<Vec<Entity>, UnknownName> {
    let Place { book, topology, routes, switch, choice, .. } = *place;
    let of = |name: &str| format!("{ingress}.{name}");
    let (profile, table) = (of("next_hops"), of("routes_v4"));
    let mut out = Vec::new();
    let own = topology.switches()[switch.0 as usize].mac;
    let mac = |mac: [u8; 6]| mac.iter().fold(0u128, |n, b| n << 8 | u128::from(*b));
    // Numbers that differ between switches and mean nothing.
    let seed = u128::from((switch.0 + 1).wrapping_mul(0x9e37_79b9));
    let rotation = u128::from((switch.0 + 1).wrapping_mul(ROTATION) % 32);
    let set_seed = book.action(&of("set_seed"), &[("seed", seed), ("rotation", rotation)])?;
    out.push(book.default_action(&of("switch_config"), set_seed)?);
    let ecn_kib = choice.setting(ECN.name);
    for (port, link, end) in topology.ports(switch) {
        let mark_after = mark_after(ecn_kib, &topology.links()[link.0 as usize].line);
        let params = [
            ("port", u128::from(port)),
            ("src", mac(own)),
            ("dst", mac(topology.mac(end))),
            ("mark_after", mark_after.into()),
        ];
        let forward = book.action(&of("forward"), &params)?;
        out.push(book.member(&profile, port.into(), forward)?);
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
        entries.push(book.entry(&table, &key, Does::Group(group))?);
    }
    for (ports, group) in &groups {
        let members: Vec<(u32, u16)> = ports.iter().map(|p| (u32::from(*p), *p)).collect();
        out.push(book.group(&profile, *group, &members)?);
    }
    out.extend(entries);
    Ok(out)
}

/// Ticks that so many KiB take on a line, at least 1: a packet that waited as long had as much before it. 0 without KiB.
fn mark_after(kib: f64, line: &Line) -> u32 {
    let ticks = kib * 8192.0 / line.bits_per_s as f64 * TICKS_PER_S;
    // Saturates.
    if kib > 0.0 { ticks.round().max(1.0) as u32 } else { 0 }
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

#[cfg(test)]
mod tests {
    use super::mark_after;
    use pointsman_topology::Line;

    #[test]
    fn depths_as_times() {
        let line = |bits_per_s| Line { bits_per_s, ..Line::default() };
        assert_eq!(mark_after(0.0, &line(10_000_000_000)), 0);
        // 64 KiB at 10 Gbit/s.
        assert_eq!(mark_after(64.0, &line(10_000_000_000)), 52_429);
        assert_eq!(mark_after(1.0, &line(u64::MAX)), 1);
        assert_eq!(mark_after(1e6, &line(1)), u32::MAX);
    }
}
