//! Entries for hosts that have the same in common, by prefix: a switch of a large network needs a few, not one for each host.

use pointsman_topology::{HostId, Topology};

/// The fewest prefixes, none within another, that give each host its value, and hosts without a value none.
///
/// A prefix is the longest that its hosts have in common. An address between those of hosts therefore has the value of a host with the
/// longest common prefix, or none where such hosts differ: packets to it take a way of that host, do not loop, and end where the ways
/// part.
pub(crate) fn prefixes<V: PartialEq>(
    topology: &Topology,
    value: impl Fn(HostId) -> Option<V>,
) -> Vec<(Prefix, V)> {
    let hosts = (0..).map(HostId).zip(topology.hosts());
    let mut of: Vec<(u32, Option<V>)> = hosts.map(|(id, h)| (u32::from(h.address), value(id))).collect();
    of.sort_by_key(|(address, _)| *address);
    let mut out = Vec::new();
    divide(&mut of, &mut out);
    out
}

/// The first bits of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// The bits, then zeros.
    pub bits: u32,
    /// How many bits, 0 to 32.
    pub len: u8,
}

/// Hosts in the order of their addresses, which differ.
fn divide<V: PartialEq>(hosts: &mut [(u32, Option<V>)], out: &mut Vec<(Prefix, V)>) {
    let (Some((first, _)), Some((last, _))) = (hosts.first(), hosts.last()) else { return };
    let (bits, len) = (*first, (first ^ last).leading_zeros());
    if hosts.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        let mask = u32::MAX.checked_shr(len).map_or(u32::MAX, |host| !host);
        let prefix = Prefix { bits: bits & mask, len: len as u8 };
        out.extend(hosts[0].1.take().map(|value| (prefix, value)));
        return;
    }
    let next = 1 << (31 - len);
    let (zero, one) = hosts.split_at_mut(hosts.partition_point(|(address, _)| address & next == 0));
    divide(zero, out);
    divide(one, out);
}

#[cfg(test)]
mod tests {
    use super::{Prefix, prefixes};
    use pointsman_topology::{End, FatTree, HostId, Line, LinkId, Routes, SwitchId, Topology};
    use pointsman_wire::Random;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    fn fat_tree() -> Topology {
        FatTree { k: 4, host_line: Line::default(), fabric_line: Line::default() }.build().expect("a network")
    }

    /// What the entries give an address.
    fn found<V: Copy>(entries: &[(Prefix, V)], address: u32) -> Option<V> {
        let covers = |p: Prefix| p.len == 0 || (p.bits ^ address) >> (32 - p.len) == 0;
        assert!(entries.iter().all(|(p, _)| p.len == 32 || p.bits << p.len == 0), "bits behind a prefix");
        let mut of = entries.iter().filter(|(p, _)| covers(*p));
        let first = of.next().map(|(_, v)| *v);
        assert!(of.next().is_none(), "prefixes within others");
        first
    }

    #[test]
    fn hosts_have_their_values_and_no_others() {
        let topology = fat_tree();
        let mut random = Random::new(1);
        for round in 0..200 {
            let mut values = Vec::new();
            for _ in topology.hosts() {
                values.push(random.below(2 + round % 4).checked_sub(1));
            }
            let entries = prefixes(&topology, |h| values[h.0 as usize]);
            for (host, value) in topology.hosts().iter().zip(&values) {
                assert_eq!(found(&entries, host.address.into()), *value, "{host:?} in {entries:?}");
            }
        }
        assert!(prefixes(&topology, |_| None::<u8>).is_empty());
        let all = prefixes(&topology, |_| Some(()));
        assert_eq!(all.len(), 1, "{all:?}");
    }

    #[test]
    fn a_single_host_is_its_address() {
        let topology = fat_tree();
        let entries = prefixes(&topology, |h| (h == HostId(3)).then_some(()));
        let bits = topology.hosts()[3].address.into();
        assert_eq!(entries, [(Prefix { bits, len: 32 }, ())]);
    }

    /// A packet to any address, from any switch: which host or switch it ends at.
    fn ends(topology: &Topology, tables: &[Vec<(Prefix, &[u16])>], from: SwitchId, to: u32) -> End {
        let mut at = from;
        for _ in topology.switches() {
            let Some(ports) = found(&tables[at.0 as usize], to) else { return End::Switch(at, 0) };
            let port = ports[to as usize % ports.len()];
            let here = topology.ports(at).find(|(p, ..)| *p == port);
            match here.expect("a port with a link").2 {
                End::Switch(next, _) => at = next,
                host => return host,
            }
        }
        panic!("a packet to {} from {from:?} loops", Ipv4Addr::from(to));
    }

    #[test]
    fn packets_to_any_address_end() {
        let topology = fat_tree();
        for down in [None, Some(LinkId(0)), Some(LinkId(20)), Some(LinkId(40))] {
            let routes = Routes::of(&topology, &down.into_iter().collect::<BTreeSet<_>>());
            let ids = || (0..topology.switches().len() as u32).map(SwitchId);
            let of = |s| prefixes(&topology, |h| Some(routes.ports(s, h)).filter(|p| !p.is_empty()));
            let tables: Vec<_> = ids().map(of).collect();
            let all: usize = tables.iter().map(Vec::len).sum();
            assert!(down.is_some() || all < topology.hosts().len() * tables.len() / 2, "{all} entries");
            for address in (0x0a00_0000..0x0a00_2400).step_by(3) {
                for from in ids() {
                    ends(&topology, &tables, from, address);
                }
            }
            for (id, host) in (0..).map(HostId).zip(topology.hosts()) {
                let reached = ids().filter(|s| !routes.ports(*s, id).is_empty());
                for from in reached {
                    assert_eq!(ends(&topology, &tables, from, host.address.into()), End::Host(id));
                }
            }
        }
    }
}
