//! Networks as data: switches, hosts and the links between them.
//!
//! A [`Topology`] is made by [`Builder`], which refuses what cannot be wired, by a generator ([`LeafSpine`], [`FatTree`]), or from
//! TOML ([`read`]). [`Routes`] has the shortest paths through it.
#![forbid(unsafe_code)]

mod build;
mod endpoint;
mod fat_tree;
mod leaf_spine;
mod read;
pub mod reader;
mod routes;
#[cfg(test)]
mod tests;

pub use build::{Builder, Mistake};
pub use endpoint::{HOST_PORT, is_host_port};
pub use fat_tree::FatTree;
pub use leaf_spine::LeafSpine;
pub use read::read;
pub use routes::Routes;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A switch, by its place in [`Topology::switches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub u32);

/// A host, by its place in [`Topology::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// A link, by its place in [`Topology::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Unique among all nodes.
    pub name: String,
    /// Its Ethernet address, on all ports.
    pub mac: [u8; 6],
}

/// A host: whatever sends and receives packets and is not a switch.
#[derive(Clone, PartialEq, Eq)]
pub struct Host {
    /// Unique among all nodes.
    pub name: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Its IPv6 address, if it has one.
    pub address_v6: Option<Ipv6Addr>,
}

/// Without an IPv6 address as before there were any: scenarios are identified by this text.
impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { name, mac, address, address_v6 } = self;
        let mut text = f.debug_struct("Host");
        text.field("name", name).field("mac", mac).field("address", address);
        if let Some(address) = address_v6 {
            text.field("address_v6", address);
        }
        text.finish()
    }
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A port of a switch.
    Switch(SwitchId, u16),
    /// The only interface of a host.
    Host(HostId),
}

/// What a link can carry. Both directions are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Bits per second on the wire, or [`Line::UNLIMITED`].
    pub bits_per_s: u64,
    /// Propagation, in nanoseconds.
    pub delay_ns: u64,
    /// Bytes that may wait at either end before the wire.
    pub queue_bytes: u64,
    /// Probability that a frame is lost on the wire.
    pub loss: f64,
}

impl Line {
    /// The rate of a line without a limit of its own, on networks of this machine. Simulators have none.
    pub const UNLIMITED: u64 = u64::MAX;
}

impl Default for Line {
    fn default() -> Self {
        Line { bits_per_s: 10_000_000_000, delay_ns: 1_000, queue_bytes: 512 << 10, loss: 0.0 }
    }
}

/// A link between two ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The names of its nodes, in this order: `leaf1-spine2`.
    pub name: String,
    /// Where it ends.
    pub ends: [End; 2],
    /// What it can carry.
    pub line: Line,
}

/// A network that can be wired: names, addresses and ports are unique, and nothing is left unconnected.
#[derive(Clone, Default, PartialEq)]
pub struct Topology {
    switches: Vec<Switch>,
    hosts: Vec<Host>,
    links: Vec<Link>,
    /// By switch and port.
    ports: Vec<BTreeMap<u16, (LinkId, End)>>,
    uplinks: BTreeMap<HostId, (SwitchId, u16, LinkId)>,
}

/// Without what follows from the links: scenarios are identified by this text.
impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Topology { switches, hosts, links, .. } = self;
        let mut text = f.debug_struct("Topology");
        text.field("switches", switches).field("hosts", hosts).field("links", links).finish()
    }
}

/// Ports of a switch are 1 to this: 511 drops packets, 510 is the controller's, and programs consume packets by sending them to 509.
pub const LAST_PORT: u16 = 508;
/// The port of a switch that leads to its controller.
pub const CPU_PORT: u16 = 510;

impl Topology {
    /// All switches.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// All hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// All links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The ports of a switch in ascending order: the port, its link, and the link's other end.
    pub fn ports(&self, switch: SwitchId) -> impl Iterator<Item = (u16, LinkId, End)> {
        let ports = self.ports.get(switch.0 as usize).into_iter().flatten();
        ports.map(|(port, (link, end))| (*port, *link, *end))
    }

    /// By switch: how many links away the nearest switch with hosts is. Those with hosts have 0.
    pub fn tiers(&self) -> Vec<u32> {
        let neighbours: Vec<Vec<End>> = (0..self.switches.len() as u32)
            .map(|s| self.ports(SwitchId(s)).map(|(.., end)| end).collect())
            .collect();
        let mut tiers = vec![u32::MAX; neighbours.len()];
        let with_hosts = |s: &usize| neighbours[*s].iter().any(|end| matches!(end, End::Host(_)));
        let mut now: Vec<usize> = (0..neighbours.len()).filter(with_hosts).collect();
        for tier in 0.. {
            now.retain(|s| tiers[*s] == u32::MAX);
            if now.is_empty() {
                break;
            }
            now.iter().for_each(|s| tiers[*s] = tier);
            let next = |end: &End| if let End::Switch(s, _) = end { Some(s.0 as usize) } else { None };
            now = now.iter().flat_map(|s| &neighbours[*s]).filter_map(next).collect();
        }
        tiers
    }

    /// The link of a name.
    pub fn link(&self, name: &str) -> Option<LinkId> {
        self.links.iter().position(|l| l.name == name).map(|i| LinkId(i as u32))
    }

    /// The Ethernet address of the node at a link's end.
    pub fn mac(&self, end: End) -> [u8; 6] {
        match end {
            End::Switch(s, _) => self.switches[s.0 as usize].mac,
            End::Host(h) => self.hosts[h.0 as usize].mac,
        }
    }

    /// The switch and port that a host is connected to, with the link.
    pub fn uplink(&self, host: HostId) -> Option<(SwitchId, u16, LinkId)> {
        self.uplinks.get(&host).copied()
    }

    /// Adds a link; no end of it has one yet.
    fn add(&mut self, link: Link) -> LinkId {
        let id = LinkId(self.links.len() as u32);
        let [a, b] = link.ends;
        for (here, there) in [(a, b), (b, a)] {
            match (here, there) {
                (End::Switch(switch, port), _) => {
                    let at = switch.0 as usize;
                    self.ports.resize_with(self.ports.len().max(at + 1), BTreeMap::new);
                    self.ports[at].insert(port, (id, there));
                }
                (End::Host(host), End::Switch(switch, port)) => {
                    self.uplinks.insert(host, (switch, port, id));
                }
                (End::Host(_), End::Host(_)) => {}
            }
        }
        self.links.push(link);
        id
    }
}
