//! Shortest paths, by number of links.

use crate::{End, HostId, LinkId, SwitchId, Topology};
use std::collections::{BTreeSet, VecDeque};

/// For every switch, the ports on shortest paths to every host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// By switch, then by host: ports in ascending order; empty if the host cannot be reached.
    ports: Vec<Vec<Vec<u16>>>,
}

const UNREACHED: u32 = u32::MAX;

impl Routes {
    /// The routes of a topology while these links are down.
    pub fn of(topology: &Topology, down: &BTreeSet<LinkId>) -> Self {
        let count = topology.switches().len();
        let ids = || (0..count as u32).map(SwitchId);
        let near: Vec<_> = ids().map(|s| topology.ports(s)).collect();
        // Links between switches that work: own port, the other switch.
        let between: Vec<Vec<(u16, SwitchId)>> = near
            .iter()
            .map(|ports| {
                let working = ports.iter().filter(|(_, link, _)| !down.contains(link));
                working
                    .filter_map(
                        |(port, _, end)| if let End::Switch(s, _) = end { Some((*port, *s)) } else { None },
                    )
                    .collect()
            })
            .collect();
        let to_switch: Vec<Vec<u32>> = ids().map(|s| distances(&between, s)).collect();
        let mut ports = vec![Vec::with_capacity(topology.hosts().len()); count];
        for host in (0..topology.hosts().len() as u32).map(HostId) {
            let home = topology.uplink(host).filter(|(.., link)| !down.contains(link));
            for (at, of) in ports.iter_mut().enumerate() {
                of.push(match home {
                    Some((leaf, port, _)) if leaf.0 as usize == at => vec![port],
                    Some((leaf, ..)) => next(&between[at], &to_switch[leaf.0 as usize], at),
                    None => Vec::new(),
                });
            }
        }
        Routes { ports }
    }

    /// The ports of `switch` on shortest paths to `host`, in ascending order; empty if there is no path.
    pub fn ports(&self, switch: SwitchId, host: HostId) -> &[u16] {
        self.ports.get(switch.0 as usize).and_then(|s| s.get(host.0 as usize)).map_or(&[], Vec::as_slice)
    }
}

/// Distance of every switch to this one, in links.
fn distances(between: &[Vec<(u16, SwitchId)>], to: SwitchId) -> Vec<u32> {
    let mut out = vec![UNREACHED; between.len()];
    out[to.0 as usize] = 0;
    let mut queue = VecDeque::from([to.0 as usize]);
    while let Some(at) = queue.pop_front() {
        for (_, next) in &between[at] {
            let next = next.0 as usize;
            if out[next] == UNREACHED {
                out[next] = out[at] + 1;
                queue.push_back(next);
            }
        }
    }
    out
}

/// Ports to switches that are one link nearer.
fn next(between: &[(u16, SwitchId)], distance: &[u32], at: usize) -> Vec<u16> {
    let here = distance[at];
    let nearer = between.iter().filter(|(_, s)| here != UNREACHED && distance[s.0 as usize] + 1 == here);
    nearer.map(|(port, _)| *port).collect()
}
