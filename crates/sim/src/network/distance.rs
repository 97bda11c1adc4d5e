//! How far apart hosts are. Checkers and bounds use it, so that they share nothing with the routes of the component that they judge.

use pointsman_topology::{End, HostId, LinkId, Topology};

/// Shortest paths between hosts, in switches, with all links up.
#[derive(Clone, Debug)]
pub struct Distances {
    /// By host: the number of its switch among those with hosts.
    homes: Vec<usize>,
    /// By these numbers: how many switches a packet passes at least.
    switches: Vec<Vec<u8>>,
}

impl Distances {
    /// Those of a topology.
    pub fn new(topology: &Topology) -> Self {
        let neighbours = neighbours(topology, |_| true);
        let home: Vec<usize> = (0..topology.hosts().len() as u32)
            .map(|h| topology.uplink(HostId(h)).map_or(0, |(s, ..)| s.0 as usize))
            .collect();
        let mut leaves = home.clone();
        leaves.sort_unstable();
        leaves.dedup();
        let of = |from: &usize| {
            let all = passed(&neighbours, *from);
            leaves.iter().map(|to| all[*to]).collect::<Vec<u8>>()
        };
        let switches: Vec<Vec<u8>> = leaves.iter().map(of).collect();
        let homes = home.iter().map(|s| leaves.binary_search(s).unwrap_or(0)).collect();
        Distances { homes, switches }
    }

    /// The number of switches on a shortest path between two hosts, by number; 255 if there is no path.
    #[inline]
    pub fn between(&self, from: u32, to: u32) -> u8 {
        self.switches[self.homes[from as usize]][self.homes[to as usize]]
    }

    /// Whether a path between two hosts that is as short as any of the intact network has only links of which this is true.
    pub fn has_path(
        &self,
        topology: &Topology,
        (from, to): (u32, u32),
        is_up: impl Fn(LinkId) -> bool,
    ) -> bool {
        let home = |host| topology.uplink(HostId(host)).filter(|(.., link)| is_up(*link)).map(|(s, ..)| s);
        let (Some(first), Some(last)) = (home(from), home(to)) else { return false };
        let switches = passed(&neighbours(topology, is_up), first.0 as usize)[last.0 as usize];
        switches < u8::MAX && switches == self.between(from, to)
    }

    /// The largest of these numbers, without hosts that cannot reach each other.
    pub fn longest(&self) -> u8 {
        self.switches.iter().flatten().copied().filter(|n| *n < u8::MAX).max().unwrap_or(1)
    }
}

/// By switch: those at the other ends of its links of which this is true.
fn neighbours(topology: &Topology, is_up: impl Fn(LinkId) -> bool) -> Vec<Vec<usize>> {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); topology.switches().len()];
    for (id, link) in (0..).map(LinkId).zip(topology.links()) {
        if let [End::Switch(a, _), End::Switch(b, _)] = link.ends
            && is_up(id)
        {
            out[a.0 as usize].push(b.0 as usize);
            out[b.0 as usize].push(a.0 as usize);
        }
    }
    out
}

/// How many switches a packet from one of them to each passes, both included; 255 if there is no path.
fn passed(neighbours: &[Vec<usize>], from: usize) -> Vec<u8> {
    let mut out = vec![u8::MAX; neighbours.len()];
    out[from] = 1;
    let mut now = vec![from];
    while let Some(next) = now.first().map(|s| out[*s].saturating_add(1)) {
        let mut reached = Vec::new();
        for neighbour in now.iter().flat_map(|s| &neighbours[*s]) {
            if out[*neighbour] == u8::MAX && next < u8::MAX {
                out[*neighbour] = next;
                reached.push(*neighbour);
            }
        }
        now = reached;
    }
    out
}
