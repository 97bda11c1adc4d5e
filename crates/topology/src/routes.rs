//! Shortest paths, by number of links.

use crate::{End, HostId, LinkId, SwitchId, Topology};
use std::collections::{BTreeSet, VecDeque};

/// For every switch, the ports on shortest paths to every host.
///
/// Only paths that are shortest with all links up count; those over a link that is down are left out, and no detour replaces them. All
/// switches then choose among the links of one graph without cycles, so packets cannot loop, even while some switches know of a
/// failure and others do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// By switch, then by host: ports in ascending order; empty if the host cannot be reached.
    ports: Vec<Vec<Vec<u16>>>,
}

/// A link from a switch to another.
type Hop = (u16, LinkId, SwitchId);

impl Routes {
    /// The routes of a topology while these links are down.
    pub fn of(topology: &Topology, down: &BTreeSet<LinkId>) -> Self {
        let ids = || (0..topology.switches().len() as u32).map(SwitchId);
        let hop = |(port, link, end)| if let End::Switch(s, _) = end { Some((port, link, s)) } else { None };
        let hops: Vec<Vec<Hop>> = ids().map(|s| topology.ports(s).filter_map(hop).collect()).collect();
        let to_switch: Vec<Vec<Vec<u16>>> = ids().map(|s| to(&hops, s, down)).collect();
        let mut ports = vec![Vec::with_capacity(topology.hosts().len()); hops.len()];
        for host in (0..topology.hosts().len() as u32).map(HostId) {
            let home = topology.uplink(host).filter(|(.., link)| !down.contains(link));
            for (at, of) in ports.iter_mut().enumerate() {
                of.push(match home {
                    Some((leaf, port, _)) if leaf.0 as usize == at => vec![port],
                    Some((leaf, ..)) => to_switch[leaf.0 as usize][at].clone(),
                    None => Vec::new(),
                });
            }
        }
        Routes { ports }
    }

    /// The ports of `switch` on shortest paths to `host`, in ascending order; empty if the host is unreachable.
    pub fn ports(&self, switch: SwitchId, host: HostId) -> &[u16] {
        self.ports.get(switch.0 as usize).and_then(|s| s.get(host.0 as usize)).map_or(&[], Vec::as_slice)
    }
}

/// By switch, the ports on shortest paths to one switch.
fn to(hops: &[Vec<Hop>], target: SwitchId, down: &BTreeSet<LinkId>) -> Vec<Vec<u16>> {
    let mut out = vec![Vec::new(); hops.len()];
    let (distance, order) = distances(hops, target);
    let mut reaches = vec![false; hops.len()];
    for at in order {
        let nearer = |(_, link, s): &&Hop| {
            let s = s.0 as usize;
            distance[s] < distance[at] && reaches[s] && !down.contains(link)
        };
        out[at] = hops[at].iter().filter(nearer).map(|(port, ..)| *port).collect();
        reaches[at] = at == target.0 as usize || !out[at].is_empty();
    }
    out
}

/// Distance of every switch to this one with all links up, and the switches in ascending order of it.
fn distances(hops: &[Vec<Hop>], target: SwitchId) -> (Vec<u32>, Vec<usize>) {
    let mut distance = vec![u32::MAX; hops.len()];
    distance[target.0 as usize] = 0;
    let mut order = Vec::with_capacity(hops.len());
    let mut queue = VecDeque::from([target.0 as usize]);
    while let Some(at) = queue.pop_front() {
        order.push(at);
        for (.., next) in &hops[at] {
            let next = next.0 as usize;
            if distance[next] == u32::MAX {
                distance[next] = distance[at] + 1;
                queue.push_back(next);
            }
        }
    }
    (distance, order)
}
