//! Makes a topology piece by piece, and refuses what cannot be wired.

use crate::{End, Host, HostId, LAST_PORT, Line, Link, LinkId, Switch, SwitchId, Topology};
use pointsman_wire::Mac;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is wrong with a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A second node of this name.
    NameTaken(String),
    /// A second host with this address.
    AddressTaken(IpAddr),
    /// No host can have this address.
    NoHostAddress(IpAddr),
    /// A second node with this Ethernet address.
    MacTaken([u8; 6]),
    /// No host can have this Ethernet address.
    NoHostMac([u8; 6]),
    /// No node has this name.
    NoSuchNode(String),
    /// The port does not exist.
    NoSuchPort(u32),
    /// A host's end has a port, or a switch's end has none.
    PortOfEnd(String),
    /// The port of this switch has a link already.
    PortTaken(String, u16),
    /// The host has a link already.
    HostTaken(String),
    /// Both ends are at one node.
    Loop(String),
    /// Both ends are hosts.
    NoSwitch(String),
    /// The ends of this link have different rates, in bits per second.
    UnequalRates(String, u64, u64),
    /// The node has no link.
    Unconnected(String),
    /// No path leads from the first switch to this one.
    Unreachable(String, String),
    /// Two links have the same ends' names.
    LinkTaken(String),
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mistake::NameTaken(name) => write!(f, "two nodes are called `{name}`: rename one"),
            Mistake::AddressTaken(a) => write!(f, "two hosts have the address {a}: change one"),
            Mistake::NoHostAddress(a) => write!(f, "{a} is not a host's address: write a unicast one"),
            Mistake::MacTaken(mac) => {
                write!(f, "two nodes have the Ethernet address {}: change one", Mac(*mac))
            }
            Mistake::NoHostMac(mac) => {
                write!(f, "{} is not a host's Ethernet address: write a unicast one", Mac(*mac))
            }
            Mistake::NoSuchNode(name) => {
                write!(f, "no switch or host is called `{name}`: correct the name, or add a table for it")
            }
            Mistake::NoSuchPort(port) => write!(f, "port {port} does not exist: write 1 to {LAST_PORT}"),
            Mistake::PortOfEnd(end) => {
                write!(f, "`{end}`: write SWITCH:PORT for a switch, and NAME for a host")
            }
            Mistake::PortTaken(switch, port) => {
                write!(f, "port {port} of {switch} has two links: choose another port")
            }
            Mistake::HostTaken(name) => write!(f, "host {name} has two links: remove one"),
            Mistake::Loop(name) => write!(f, "both ends are at {name}: connect two nodes"),
            Mistake::NoSwitch(name) => write!(f, "{name} connects two hosts: one end must be a switch"),
            Mistake::UnequalRates(name, a, b) => write!(
                f,
                "the ends of {name} have {} and {} Gbit/s: give both nodes the same `rate_gbit_s`, or write the link's",
                *a as f64 / 1e9,
                *b as f64 / 1e9
            ),
            Mistake::Unconnected(name) => {
                write!(f, "{name} has no link: add a [[network.link]], or remove it")
            }
            Mistake::Unreachable(from, to) => {
                write!(f, "no path leads from {from} to {to}: add a link between the two parts")
            }
            Mistake::LinkTaken(name) => write!(f, "two links are called `{name}`: give one a `name`"),
        }
    }
}

impl std::error::Error for Mistake {}

/// A node's rate, if one was given for all its links.
type Rate = Option<u64>;

/// Makes a [`Topology`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    made: Topology,
    names: BTreeMap<String, (End, Rate)>,
    addresses: BTreeSet<IpAddr>,
    macs: BTreeSet<[u8; 6]>,
    taken: BTreeSet<End>,
    links: BTreeSet<String>,
}

impl Builder {
    /// An empty one.
    pub fn new() -> Self {
        Builder::default()
    }

    /// Adds a switch; `rate`, in bits per second, is that of its links if they have none of their own.
    ///
    /// # Errors
    /// The name is taken, or a host has its Ethernet address.
    pub fn switch(&mut self, name: &str, rate: Rate) -> Result<SwitchId, Mistake> {
        let id = SwitchId(self.made.switches.len() as u32);
        let [_, a, b, c] = id.0.to_be_bytes();
        let mac = [2, 0x50, 0x4d, a, b, c];
        self.name(name, mac, End::Switch(id, 0), rate)?;
        self.made.switches.push(Switch { name: name.into(), mac });
        Ok(id)
    }

    /// Adds a host. Without a `mac` its Ethernet address follows from its IPv4 address.
    ///
    /// # Errors
    /// The name or an address is taken, or an address cannot be a host's.
    pub fn host(
        &mut self,
        name: &str,
        address: Ipv4Addr,
        mac: Option<[u8; 6]>,
        rate: Rate,
    ) -> Result<HostId, Mistake> {
        if address.is_unspecified()
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_loopback()
        {
            return Err(Mistake::NoHostAddress(address.into()));
        }
        if self.addresses.contains(&address.into()) {
            return Err(Mistake::AddressTaken(address.into()));
        }
        let mac = mac.unwrap_or(Mac::from_ipv4(address).0);
        if Mac(mac).is_group() || mac == [0; 6] {
            return Err(Mistake::NoHostMac(mac));
        }
        let id = HostId(self.made.hosts.len() as u32);
        self.name(name, mac, End::Host(id), rate)?;
        self.addresses.insert(address.into());
        self.made.hosts.push(Host { name: name.into(), mac, address, address_v6: None });
        Ok(id)
    }

    /// Gives a host of this builder an IPv6 address.
    ///
    /// # Errors
    /// The address is taken, or cannot be a host's that others reach over switches.
    pub fn address_v6(&mut self, host: HostId, address: Ipv6Addr) -> Result<(), Mistake> {
        if address.is_unspecified()
            || address.is_multicast()
            || address.is_loopback()
            || address.is_unicast_link_local()
        {
            return Err(Mistake::NoHostAddress(address.into()));
        }
        if !self.addresses.insert(address.into()) {
            return Err(Mistake::AddressTaken(address.into()));
        }
        if let Some(host) = self.made.hosts.get_mut(host.0 as usize) {
            host.address_v6 = Some(address);
        }
        Ok(())
    }

    /// Takes a name and an Ethernet address for a node.
    fn name(&mut self, name: &str, mac: [u8; 6], end: End, rate: Rate) -> Result<(), Mistake> {
        if self.names.contains_key(name) {
            return Err(Mistake::NameTaken(name.into()));
        }
        if !self.macs.insert(mac) {
            return Err(Mistake::MacTaken(mac));
        }
        self.names.insert(name.into(), (end, rate));
        Ok(())
    }

    /// The end that `SWITCH:PORT` or `HOST` names.
    ///
    /// # Errors
    /// No such node or port.
    pub fn end(&self, text: &str) -> Result<End, Mistake> {
        let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
        let (end, _) = self.names.get(name).ok_or_else(|| Mistake::NoSuchNode(name.into()))?;
        match (*end, port.map(str::parse::<u32>)) {
            (End::Host(_), None) => Ok(*end),
            (End::Switch(id, _), Some(Ok(port))) => match u16::try_from(port) {
                Ok(port) if (1..=LAST_PORT).contains(&port) => Ok(End::Switch(id, port)),
                _ => Err(Mistake::NoSuchPort(port)),
            },
            _ => Err(Mistake::PortOfEnd(text.into())),
        }
    }

    fn node(&self, end: End) -> (&str, Rate) {
        let name = match end {
            End::Switch(s, _) => &self.made.switches[s.0 as usize].name,
            End::Host(h) => &self.made.hosts[h.0 as usize].name,
        };
        (name, self.names.get(name).and_then(|(_, rate)| *rate))
    }

    /// Adds a link. Without a `name` it is called after its nodes; without a `rate` it has that of its nodes, or else the line's.
    ///
    /// # Errors
    /// The ends cannot be connected.
    pub fn link(
        &mut self,
        name: Option<&str>,
        ends: [End; 2],
        rate: Rate,
        mut line: Line,
    ) -> Result<LinkId, Mistake> {
        let [(a, rate_a), (b, rate_b)] = ends.map(|end| self.node(end));
        let name = name.map_or_else(|| format!("{a}-{b}"), str::to_string);
        if a == b {
            return Err(Mistake::Loop(a.into()));
        }
        if let [End::Host(_), End::Host(_)] = ends {
            return Err(Mistake::NoSwitch(name));
        }
        if let Some(end) = ends.iter().find(|end| self.taken.contains(end)) {
            let node = self.node(*end).0.to_string();
            return Err(match end {
                End::Switch(_, port) => Mistake::PortTaken(node, *port),
                End::Host(_) => Mistake::HostTaken(node),
            });
        }
        if self.links.contains(&name) {
            return Err(Mistake::LinkTaken(name));
        }
        line.bits_per_s = match (rate, rate_a, rate_b) {
            (Some(rate), ..) => rate,
            (None, Some(a), Some(b)) if a != b => return Err(Mistake::UnequalRates(name, a, b)),
            (None, a, b) => a.or(b).unwrap_or(line.bits_per_s),
        };
        self.taken.extend(ends);
        self.links.insert(name.clone());
        Ok(self.made.add(Link { name, ends, line }))
    }

    /// The topology.
    ///
    /// # Errors
    /// A node has no link, or there is no path between two of them.
    pub fn finish(self) -> Result<Topology, Mistake> {
        let used = |end: &End| match end {
            End::Switch(id, _) => {
                self.taken.range(End::Switch(*id, 0)..=End::Switch(*id, u16::MAX)).next().is_some()
            }
            End::Host(_) => self.taken.contains(end),
        };
        match self.names.iter().find(|(_, (end, _))| !used(end)) {
            Some((name, _)) => Err(Mistake::Unconnected(name.clone())),
            None => self.reachable(),
        }
    }

    /// The topology, if a path leads from its first switch to all others.
    fn reachable(self) -> Result<Topology, Mistake> {
        let made = self.made;
        let mut group: Vec<usize> = (0..made.switches.len()).collect();
        // Groups have the number of their first switch; links join them.
        fn first(group: &mut [usize], mut of: usize) -> usize {
            while group[of] != of {
                group[of] = group[group[of]];
                of = group[of];
            }
            of
        }
        for link in &made.links {
            if let [End::Switch(a, _), End::Switch(b, _)] = link.ends {
                let (a, b) = (first(&mut group, a.0 as usize), first(&mut group, b.0 as usize));
                group[a.max(b)] = a.min(b);
            }
        }
        match (1..group.len()).find(|s| first(&mut group, *s) != 0) {
            Some(s) => {
                Err(Mistake::Unreachable(made.switches[0].name.clone(), made.switches[s].name.clone()))
            }
            None => Ok(made),
        }
    }
}
