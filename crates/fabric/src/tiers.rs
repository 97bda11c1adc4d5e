//! Which switches are above others: those with hosts (top of rack, leaves) are the lowest tier.

use pointsman_topology::{End, HostId, SwitchId, Topology};
use std::collections::VecDeque;

/// The tiers of a network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tiers {
    /// By switch: links to the nearest switch with hosts.
    levels: Vec<u32>,
    /// Switches with hosts, in order: a switch's number is its place here, from 1.
    tors: Vec<SwitchId>,
}

impl Tiers {
    /// Of a topology.
    pub fn of(topology: &Topology) -> Self {
        let mut levels = vec![u32::MAX; topology.switches().len()];
        let homes = (0..topology.hosts().len() as u32).filter_map(|h| topology.uplink(HostId(h)));
        for (switch, ..) in homes {
            levels[switch.0 as usize] = 0;
        }
        let ids = (0..levels.len() as u32).map(SwitchId);
        let tors: Vec<SwitchId> = ids.filter(|s| levels[s.0 as usize] == 0).collect();
        let mut queue: VecDeque<SwitchId> = tors.iter().copied().collect();
        while let Some(at) = queue.pop_front() {
            for (.., end) in topology.ports(at) {
                if let End::Switch(next, _) = end
                    && levels[next.0 as usize] == u32::MAX
                {
                    levels[next.0 as usize] = levels[at.0 as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
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
}
