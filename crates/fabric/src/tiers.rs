//! Which switches are above others: those with hosts (top of rack, leaves) are the lowest tier.

use crate::book::{Does, UnknownName, exact};
use crate::paths::Tables;
use crate::scheme::Place;
use pointsman_topology::{End, HostId, SwitchId, Topology};
use std::collections::BTreeSet;

/// The tiers of a network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tiers {
    /// By switch, 0 for those with hosts.
    levels: Vec<u32>,
    /// Switches with hosts, in order: a switch's number is its place here, from 1.
    tors: Vec<SwitchId>,
}

impl Tiers {
    /// Of a topology.
    pub fn of(topology: &Topology) -> Self {
        let levels = topology.tiers();
        let ids = (0..levels.len() as u32).map(SwitchId);
        let tors = ids.filter(|s| levels[s.0 as usize] == 0).collect();
        Tiers { levels, tors }
    }

    /// The number of a switch with hosts, from 1; 0 of others.
    pub fn number(&self, switch: SwitchId) -> u32 {
        self.tors.iter().position(|s| *s == switch).map_or(0, |n| n as u32 + 1)
    }

    /// Switches with hosts.
    pub fn tors(&self) -> &[SwitchId] {
        &self.tors
    }

    /// The ports of a switch that lead to a higher tier, and those that lead to a lower one. Ports of hosts are neither.
    pub fn ports(&self, topology: &Topology, switch: SwitchId) -> (Vec<u16>, Vec<u16>) {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let own = self.levels[switch.0 as usize];
        for (port, _, end) in topology.ports(switch) {
            if let End::Switch(other, _) = end {
                match self.levels[other.0 as usize].cmp(&own) {
                    std::cmp::Ordering::Greater => up.push(port),
                    std::cmp::Ordering::Less => down.push(port),
                    std::cmp::Ordering::Equal => {}
                }
            }
        }
        (up, down)
    }

    /// Fills `tors_v4`, `tors_v6` and `hops` of `tors.p4`: the ToR of each host that is behind another one, and the ports on ways to each ToR,
    /// which are returned.
    pub fn destinations(&self, tables: &mut Tables<'_>) -> Result<BTreeSet<(u32, u16)>, UnknownName> {
        let Place { topology, routes, switch, .. } = tables.place;
        let tor = |host: HostId| {
            let (home, ..) = topology.uplink(host)?;
            (home != switch).then(|| self.number(home))
        };
        tables.by_host("tors", tor, |tables, tor| tables.action("set_tor", &[("tor", tor.into())]))?;
        let hosts = (0..topology.hosts().len() as u32).map(HostId);
        let ports = |host| routes.ports(switch, host).iter();
        let ways: BTreeSet<(u32, u16)> = hosts
            .filter_map(|h| Some((tor(h)?, h)))
            .flat_map(|(tor, h)| ports(h).map(move |p| (tor, *p)))
            .collect();
        for (tor, port) in &ways {
            let group = tables.group(&[*port]);
            tables.entry("hops", &[exact("tor", *tor), exact("port", (*port).into())], Does::Group(group))?;
        }
        Ok(ways)
    }
}
