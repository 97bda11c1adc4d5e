//! Entries for hosts that have the same in common, by prefix: a switch of a large network needs a few, not one for each host.

use pointsman_topology::{Host, HostId, Topology};

/// The fewest prefixes, none within another, that give each host its value, and hosts without a value none.
///
/// A prefix is the longest that its hosts have in common. An address between those of hosts therefore has the value of a host with the
/// longest common prefix, or none where such hosts differ: packets to it take a way of that host, do not loop, and end where the ways
/// part.
pub(crate) fn prefixes<V: PartialEq>(
    topology: &Topology,
    family: Family,
    value: impl Fn(HostId) -> Option<V>,
) -> Vec<(Prefix, V)> {
    let hosts = (0..).map(HostId).zip(topology.hosts());
    let with_address = |(id, host)| Some((family.address(host)?, value(id)));
    let mut of: Vec<(u128, Option<V>)> = hosts.filter_map(with_address).collect();
    of.sort_by_key(|(address, _)| *address);
    let mut out = Vec::new();
    divide(&mut of, family.bits(), &mut out);
    out
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both, in this order.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// What the names of its tables end in.
    pub fn suffix(self) -> &'static str {
        match self {
            Family::V4 => "v4",
            Family::V6 => "v6",
        }
    }

    /// Bits of an address.
    fn bits(self) -> u32 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    fn address(self, host: &Host) -> Option<u128> {
        match self {
            Family::V4 => Some(u32::from(host.address).into()),
            Family::V6 => host.address_v6.map(u128::from),
        }
    }
}

/// The first bits of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// The bits, then zeros.
    pub bits: u128,
    /// How many bits.
    pub len: u32,
}

/// Hosts in the order of their addresses, which differ, and have so many bits.
fn divide<V: PartialEq>(hosts: &mut [(u128, Option<V>)], all: u32, out: &mut Vec<(Prefix, V)>) {
    let (Some((first, _)), Some((last, _))) = (hosts.first(), hosts.last()) else { return };
    let (bits, rest) = (*first, u128::BITS - (first ^ last).leading_zeros());
    if hosts.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
        let prefix = Prefix { bits: bits & mask, len: all - rest };
        out.extend(hosts[0].1.take().map(|value| (prefix, value)));
        return;
    }
    let next = 1 << (rest - 1);
    let (zero, one) = hosts.split_at_mut(hosts.partition_point(|(address, _)| address & next == 0));
    divide(zero, all, out);
    divide(one, all, out);
}

#[cfg(test)]
mod tests {
    use super::{Family, Prefix, prefixes};
    use pointsman_topology::{Builder, End, FatTree, HostId, Line, LinkId, Routes, SwitchId, Topology};
    use pointsman_wire::Random;
    use std::collections::BTreeSet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn fat_tree() -> Topology {
        FatTree { k: 4, host_line: Line::default(), fabric_line: Line::default() }.build().expect("a network")
    }

    /// What the entries give an address.
    fn found<V: Copy>(entries: &[(Prefix, V)], family: Family, address: u128) -> Option<V> {
        let rest = |bits: u128, p: Prefix| bits.checked_shr(family.bits() - p.len).unwrap_or(0);
        let covers = |p: Prefix| rest(p.bits ^ address, p) == 0;
        let whole = |p: Prefix| rest(p.bits, p).checked_shl(family.bits() - p.len).unwrap_or(0) == p.bits;
        assert!(entries.iter().all(|(p, _)| whole(*p)), "bits behind a prefix");
        let mut of = entries.iter().filter(|(p, _)| covers(*p));
        let first = of.next().map(|(_, v)| *v);
        assert!(of.next().is_none(), "prefixes within others");
        first
    }

    /// Sixteen hosts, of which the last has no IPv6 address.
    fn star() -> Topology {
        let mut builder = Builder::new();
        builder.switch("s", None).expect("a switch");
        for n in 1..=16u8 {
            let name = format!("h{n}");
            let host = builder.host(&name, Ipv4Addr::new(10, 0, 0, n), None, None).expect("a host");
            if n < 16 {
                let address = Ipv6Addr::new(0xfd00, 0, 0, u16::from(n) / 4, 0, 0, 0, n.into());
                builder.address_v6(host, address).expect("an address");
            }
            let ends = [builder.end(&format!("s:{n}")), builder.end(&name)].map(|end| end.expect("an end"));
            builder.link(None, ends, None, Line::default()).expect("a link");
        }
        builder.finish().expect("a network")
    }

    #[test]
    fn hosts_have_their_values_and_no_others() {
        for (topology, family) in [(fat_tree(), Family::V4), (star(), Family::V4), (star(), Family::V6)] {
            let mut random = Random::new(1);
            for round in 0..200 {
                let mut values = Vec::new();
                for _ in topology.hosts() {
                    values.push(random.below(2 + round % 4).checked_sub(1));
                }
                let entries = prefixes(&topology, family, |h| values[h.0 as usize]);
                for (host, value) in topology.hosts().iter().zip(&values) {
                    let Some(address) = family.address(host) else { continue };
                    assert_eq!(found(&entries, family, address), *value, "{host:?} in {entries:?}");
                }
            }
            assert!(prefixes(&topology, family, |_| None::<u8>).is_empty());
            let all = prefixes(&topology, family, |_| Some(()));
            assert_eq!(all.len(), 1, "{all:?}");
        }
        assert!(prefixes(&fat_tree(), Family::V6, |_| Some(())).is_empty());
    }

    #[test]
    fn a_single_host_is_its_address() {
        for (family, bits) in [(Family::V4, 32), (Family::V6, 128)] {
            let topology = star();
            let entries = prefixes(&topology, family, |h| (h == HostId(3)).then_some(()));
            let address = family.address(&topology.hosts()[3]).expect("it has one");
            assert_eq!(entries, [(Prefix { bits: address, len: bits }, ())]);
        }
    }

    /// A packet to any address, from any switch: which host or switch it ends at.
    fn ends(topology: &Topology, tables: &[Vec<(Prefix, &[u16])>], from: SwitchId, to: u32) -> End {
        let mut at = from;
        for _ in topology.switches() {
            let Some(ports) = found(&tables[at.0 as usize], Family::V4, to.into()) else {
                return End::Switch(at, 0);
            };
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
            let of =
                |s| prefixes(&topology, Family::V4, |h| Some(routes.ports(s, h)).filter(|p| !p.is_empty()));
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
