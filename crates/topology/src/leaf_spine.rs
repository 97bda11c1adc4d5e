//! Networks of leaves and spines: every leaf has a link to every spine, and hosts.

use crate::{Builder, End, LAST_PORT, Line, Mistake, SwitchId, Topology};
use std::net::Ipv4Addr;

/// A leaf-spine network. Leaves are `leaf1`, `leaf2` and so on, spines `spine1`, hosts `h1`. Hosts have the first ports of their
/// leaf, spines the next; leaf N has port N of every spine. The network of leaf N is 10.0.0.0/22 plus N times 1,024 addresses: 10.0.4.0
/// for the first; its gateway would be 10.0.4.1, and its hosts are 10.0.4.2, 10.0.4.3 and so on.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafSpine {
    /// Leaves.
    pub leaves: u32,
    /// Spines.
    pub spines: u32,
    /// Hosts of each leaf.
    pub hosts_per_leaf: u32,
    /// Links between hosts and leaves.
    pub host_line: Line,
    /// Links between leaves and spines.
    pub fabric_line: Line,
}

impl LeafSpine {
    /// Most ports of one switch that any of these needs.
    pub fn most_ports(&self) -> u32 {
        self.leaves.max(self.hosts_per_leaf.saturating_add(self.spines))
    }

    /// The topology.
    ///
    /// # Errors
    /// A switch would need more than [`LAST_PORT`] ports, or there are no leaves or spines.
    pub fn build(&self) -> Result<Topology, Mistake> {
        if self.most_ports() > u32::from(LAST_PORT) {
            return Err(Mistake::NoSuchPort(self.most_ports()));
        }
        let mut b = Builder::new();
        let name = |kind: &str, n: u32| format!("{kind}{}", n + 1);
        let leaves: Vec<SwitchId> =
            (0..self.leaves).map(|n| b.switch(&name("leaf", n), None)).collect::<Result<_, _>>()?;
        let spines: Vec<SwitchId> =
            (0..self.spines).map(|n| b.switch(&name("spine", n), None)).collect::<Result<_, _>>()?;
        for (n, leaf) in (0u32..).zip(&leaves) {
            for k in 0..self.hosts_per_leaf {
                let address = host_address(n, k);
                let host = b.host(&name("h", n * self.hosts_per_leaf + k), address, None, None)?;
                let ends = [End::Host(host), End::Switch(*leaf, k as u16 + 1)];
                b.link(None, ends, Some(self.host_line.bits_per_s), self.host_line)?;
            }
            for (m, spine) in (0u32..).zip(&spines) {
                let (up, down) = ((self.hosts_per_leaf + m + 1) as u16, n as u16 + 1);
                let ends = [End::Switch(*leaf, up), End::Switch(*spine, down)];
                b.link(None, ends, Some(self.fabric_line.bits_per_s), self.fabric_line)?;
            }
        }
        b.finish()
    }
}

/// The address of the `k`-th host of the `n`-th leaf, both from 0.
pub(crate) fn host_address(n: u32, k: u32) -> Ipv4Addr {
    Ipv4Addr::from(10 << 24 | (n + 1) << 10 | (k + 2))
}
