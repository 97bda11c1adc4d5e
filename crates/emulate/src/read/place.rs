//! Where p4-utils places what its file names: addresses by strategies, numbers of ports.

use super::names::{natural, number};
use super::p4utils::{Defaults, HostEntry, LinkEntry, LinkSettings, Strategy};
use super::{follows, remedy};
use crate::fields::{Problem, Problems};
use crate::plan::{HostPlan, LinkPlan, PortPlan, SwitchPlan};
use pointsman_topology::{Builder, End, LAST_PORT};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// p4-utils's Ethernet address for an IPv4 address; the second byte is 0 for hosts and 1 for their switches.
fn mac_of(address: Ipv4Addr, second: u8) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0, second, a, b, c, d]
}

/// A network whose nodes are placed.
pub(super) struct Net<'n> {
    pub(super) builder: Builder,
    pub(super) strategy: Option<Strategy>,
    pub(super) named: &'n [(&'n str, SwitchPlan)],
    /// All names of the file, also of nodes with problems.
    pub(super) known: BTreeSet<&'n str>,
    pub(super) defaults: &'n Defaults,
    /// The hosts so far.
    pub(super) placed: BTreeMap<String, Assigned>,
}

/// A host's address.
pub(super) struct Assigned {
    address: Ipv4Addr,
    prefix: u8,
    gateway: Option<Ipv4Addr>,
}

impl Net<'_> {
    /// Adds the hosts, with addresses by the strategy or by their links.
    pub(super) fn place_hosts(
        &mut self,
        hosts: &[HostEntry<'_>],
        links: &[LinkEntry<'_>],
        problems: &mut Problems,
    ) -> Option<Vec<HostPlan>> {
        let mut used: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        let mut plans = Vec::new();
        let mut addresses = Vec::new();
        for host in hosts {
            let mut report = |what: String| problems.push(Problem { place: host.place.clone(), what });
            let found = links.iter().find_map(|l| Some((l, l.nodes.iter().position(|n| *n == host.name)?)));
            let Some((link, end)) = found else {
                report(format!("{} has no link: add one, or remove {}", host.name, host.name));
                continue;
            };
            let other = link.nodes[1 - end];
            let Some((_, switch)) = self.named.iter().find(|(name, _)| *name == other) else {
                // What is wrong with other names is reported for the link, or for the switch.
                if hosts.iter().any(|h| h.name == other) {
                    report(format!(
                        "is linked to `{other}`, which is not a switch: hosts are linked to switches"
                    ));
                }
                continue;
            };
            let assigned = match (self.strategy, link.subnets[end]) {
                (None, Some((address, prefix))) => Some(Assigned { address, prefix, gateway: None }),
                (None, None) => {
                    report("has no address: write an `assignment_strategy`, or `params1` with an `ip` at its link".into());
                    None
                }
                (Some(strategy), _) => {
                    let wanted = number(host.name, 'h');
                    let others = hosts.iter().filter_map(|h| number(h.name, 'h')).collect();
                    let assigned = assign(strategy, switch.device_id, wanted, &others, &mut used);
                    if assigned.is_none() {
                        report("has no place in its subnet: use smaller numbers, or another strategy".into());
                    }
                    assigned
                }
            };
            let Some(assigned) = assigned else { continue };
            let mac = link.macs[end].unwrap_or_else(|| mac_of(assigned.address, 0));
            if let Err(e) = self.builder.host(host.name, assigned.address, Some(mac), None) {
                report(e.to_string());
                continue;
            }
            let gateway = host.gateway.or(assigned.gateway);
            let mut plan = HostPlan { prefix: assigned.prefix, gateway, ..HostPlan::default() };
            if self.defaults.gateway_arp {
                plan.neighbours.extend(gateway.map(|g| (g, mac_of(assigned.address, 1))));
            }
            plans.push(plan);
            addresses.push((assigned.address, mac));
            self.placed.insert(host.name.to_string(), assigned);
        }
        if self.defaults.arp_tables {
            know_each_other(&mut plans, &addresses);
        }
        Some(plans)
    }

    /// Adds the links, with ports in the order of their nodes' names. The port of a switch to the controller's interface comes in this
    /// order as a link to a node `sw-cpu`, as in p4-utils. Also returns these ports, with the place of their switch.
    pub(super) fn place_links(
        &mut self,
        links: Vec<LinkEntry<'_>>,
        problems: &mut Problems,
    ) -> (Vec<LinkPlan>, Vec<(usize, u16)>) {
        let mut taken: BTreeSet<(&str, u16)> = BTreeSet::new();
        for link in &links {
            taken.extend(link.nodes.into_iter().zip(link.ports).filter_map(|(n, p)| Some((n, p?))));
        }
        let cpus = self.named.iter().enumerate().filter(|(_, (_, s))| s.cpu_interface.is_some());
        let cpus = cpus.map(|(i, (name, _))| ([*name, CPU_NODE].map(natural), Wanted::Cpu(i)));
        let links = links.iter().map(|link| (link.nodes.map(natural), Wanted::Link(link)));
        let mut all: Vec<_> = links.chain(cpus).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        let (mut plans, mut cpus, before) = (Vec::new(), Vec::new(), problems.len());
        for (_, wanted) in all {
            match wanted {
                Wanted::Link(link) => plans.extend(self.place_link(link, &mut taken, problems)),
                Wanted::Cpu(i) => {
                    let name = self.named[i].0;
                    let port = next_port(name, None, &mut taken);
                    if port == 0 {
                        let place = format!("topology.switches.{name}.cpu_port");
                        problems.push(Problem { place, what: "no port is free: remove a link".into() });
                    }
                    cpus.push((i, port));
                }
            }
        }
        // In the order of the file.
        problems[before..].sort_by_key(|p| natural(&p.place));
        (plans, cpus)
    }

    fn place_link<'l>(
        &mut self,
        link: &LinkEntry<'l>,
        taken: &mut BTreeSet<(&'l str, u16)>,
        problems: &mut Problems,
    ) -> Option<LinkPlan> {
        let mut ends = Vec::new();
        for (node, port) in link.nodes.into_iter().zip(link.ports) {
            let text = match self.switch(node) {
                Some(_) => format!("{node}:{}", next_port(node, port, taken)),
                None => node.to_string(),
            };
            match self.builder.end(&text) {
                Ok(end) => ends.push(end),
                Err(e) if follows(&e, &self.known) => {}
                Err(e) => problems.push(Problem { place: link.place.clone(), what: remedy(&e) }),
            }
        }
        let ends = <[End; 2]>::try_from(ends).ok()?;
        let LinkSettings { line, rate, packets, weight } = link.settings;
        if let Err(e) = self.builder.link(None, ends, rate, line) {
            problems.push(Problem { place: link.place.clone(), what: e.to_string() });
        }
        let ports = [0, 1].map(|way| self.port(link, way));
        Some(LinkPlan { queue_packets: packets, weight, ports })
    }

    fn switch(&self, name: &str) -> Option<&SwitchPlan> {
        self.named.iter().find(|(switch, _)| *switch == name).map(|(_, plan)| plan)
    }

    /// What controllers know of a switch's port at this end: by the file, or else by the strategy. Nothing of a host.
    fn port(&self, link: &LinkEntry<'_>, way: usize) -> PortPlan {
        let Some(own) = self.switch(link.nodes[way]) else { return PortPlan::default() };
        let routed = matches!(self.strategy, Some(Strategy::Mixed | Strategy::L3));
        let (address, mac) = match self.switch(link.nodes[1 - way]) {
            Some(other) => {
                let ids = if way == 0 { [own, other] } else { [other, own] }.map(|s| s.device_id as u8);
                let last = if way == 0 { 1 } else { 2 };
                (routed.then(|| (Ipv4Addr::new(20, ids[0], ids[1], last), 24)), None)
            }
            None => {
                let host = self.placed.get(link.nodes[1 - way]);
                let gateway = host.and_then(|h| Some((h.gateway?, h.prefix)));
                (gateway.filter(|_| routed), host.map(|h| mac_of(h.address, 1)))
            }
        };
        PortPlan { address: address.or(link.subnets[way]), mac: link.macs[way].or(mac) }
    }
}

/// The node of p4-utils with the controller's ends of all ports to it.
const CPU_NODE: &str = "sw-cpu";

/// What needs numbers of ports.
enum Wanted<'l, 'j> {
    Link(&'l LinkEntry<'j>),
    /// The port of a switch to the controller's interface.
    Cpu(usize),
}

/// The port that is wanted, or the first free one. 0 if no port is free.
fn next_port<'l>(switch: &'l str, wanted: Option<u16>, taken: &mut BTreeSet<(&'l str, u16)>) -> u16 {
    let free = || (1..=LAST_PORT).find(|port| !taken.contains(&(switch, *port)));
    let port = wanted.or_else(free).unwrap_or(0);
    taken.insert((switch, port));
    port
}

/// An address for a host at a switch. Numbers of other hosts' names are not given to a host without one.
fn assign(
    strategy: Strategy,
    switch: u64,
    wanted: Option<u32>,
    reserved: &BTreeSet<u32>,
    used: &mut BTreeMap<u64, BTreeSet<u32>>,
) -> Option<Assigned> {
    let (subnet, most) = if strategy == Strategy::L2 { (0, 65_534) } else { (switch, 253) };
    let used = used.entry(subnet).or_default();
    let free = || (1..=most).find(|n| !reserved.contains(n) && !used.contains(n));
    let number = wanted.or_else(free).filter(|n| *n <= most)?;
    used.insert(number);
    let [.., high, low] = switch.to_be_bytes();
    let [.., upper, lower] = number.to_be_bytes();
    let address = |a, b, c| Ipv4Addr::new(10, a, b, c);
    Some(match strategy {
        Strategy::L2 => Assigned { address: address(0, upper, lower), prefix: 16, gateway: None },
        Strategy::Mixed if switch <= 0xffff => Assigned {
            address: address(high, low, lower),
            prefix: 24,
            gateway: Some(address(high, low, 254)),
        },
        Strategy::L3 if switch < 254 => {
            Assigned { address: address(low, lower, 2), prefix: 24, gateway: Some(address(low, lower, 1)) }
        }
        _ => return None,
    })
}

/// Hosts of a subnet know each other's Ethernet addresses.
fn know_each_other(plans: &mut [HostPlan], addresses: &[(Ipv4Addr, [u8; 6])]) {
    for (i, plan) in plans.iter_mut().enumerate() {
        let mask = u32::MAX << (32 - u32::from(plan.prefix.clamp(1, 32)));
        let subnet = |a: Ipv4Addr| u32::from(a) & mask;
        let here = subnet(addresses[i].0);
        let others = addresses.iter().enumerate().filter(|(j, (a, _))| *j != i && subnet(*a) == here);
        plan.neighbours.extend(others.map(|(_, known)| *known));
    }
}
