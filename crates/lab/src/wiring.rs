//! Builds a network of any topology: a namespace for every switch and every host, joined by veth pairs.

use crate::error::{Error, Result};
use crate::netlink::{Netlink, VethEnd};
use crate::netns::Namespace;
use crate::rack::{
    HOST_INDEX, HOST_SYSCTLS, INTERFACE, LOOPBACK_INDEX, SWITCH_SYSCTLS, apply_sysctls, port_interface,
};
use crate::sys::{self, Offload};
use pointsman_topology::{End, HostId, Line, LinkId, SwitchId, Topology};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;

/// The next hop of every host: its switch, whatever its addresses.
const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 0, 1));
/// The ends of a veth pair differ in index (see `rack`): those of a link's first and second end.
const FIRST_INDEX: [u32; 2] = [1000, 3000];
/// The index of a switch's interface to a namespace outside of the network. The other end has one that the kernel chooses.
const OUTSIDE_INDEX: u32 = 5000;
/// The MTU of links with a host.
const MTU: u32 = 1500;
/// What links between switches carry besides: headers that programs add to full packets. Those of fabric schemes have up to 8 bytes.
const HEADER_ROOM: u32 = 64;
/// A host may send as much at once as its link carries in 100 us, and at least one full packet.
const BURSTS_PER_S: u64 = 10_000;
const LEAST_BURST: u32 = 1600;
/// What a packet takes on the wire besides the bytes that the kernel counts: preamble, checksum, gap.
const OVERHEAD: u16 = 24;

/// No host speaks IPv6 on its own.
const QUIET_SYSCTLS: &[(&str, &str)] =
    &[("net/ipv6/conf/all/disable_ipv6", "1"), ("net/ipv6/conf/default/disable_ipv6", "1")];

/// How a network looks from inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Ports are called `vethN`. Hosts have an address without a subnet, and send everything to their switch.
    #[default]
    Routed,
    /// As in Mininet: ports are called `SWITCH-ethN`. Hosts have subnets with these prefix lengths, by host, and the routes that follow
    /// from them.
    Subnets(Vec<u8>),
}

/// The longest name of an interface: `IFNAMSIZ` of the kernel without its zero.
pub const LONGEST_NAME: usize = 15;

/// A running network. Dropping it, and everything that runs in its namespaces, removes it.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// What it was built from.
    pub topology: Topology,
    /// By switch. Port N is the interface `vethN`.
    pub switches: Vec<Namespace>,
    /// By host. The interface is `eth0`.
    pub hosts: Vec<Namespace>,
    /// Settings that the kernel refused and that the network can do without.
    pub warnings: Vec<String>,
    style: Style,
}

impl Wiring {
    /// Builds the network. Needs [`crate::ensure_privileges`].
    ///
    /// # Errors
    /// The kernel refuses a namespace or an interface.
    pub fn build(topology: &Topology) -> Result<Self> {
        Self::build_as(topology, Style::default())
    }

    /// The same, in this style.
    ///
    /// # Errors
    /// The kernel refuses a namespace or an interface: for example, because of a name that is too long ([`LONGEST_NAME`]).
    pub fn build_as(topology: &Topology, style: Style) -> Result<Self> {
        let mut warnings = Vec::new();
        let mut made = |name: &str, sysctls: &[&[(&str, &str)]]| -> Result<Namespace> {
            let namespace = Namespace::new(name)?;
            let refused = namespace.enter(|| -> Result<Vec<String>> {
                Netlink::open()?.set_up(LOOPBACK_INDEX)?;
                Ok(sysctls.iter().flat_map(|s| apply_sysctls(s)).collect())
            })??;
            warnings.extend(refused.into_iter().map(|w| format!("{name}: {w}")));
            Ok(namespace)
        };
        let switches = topology.switches().iter().map(|s| made(&s.name, &[SWITCH_SYSCTLS]));
        let switches = switches.collect::<Result<Vec<_>>>()?;
        let hosts = topology.hosts().iter().map(|h| made(&h.name, &[HOST_SYSCTLS, QUIET_SYSCTLS]));
        let hosts = hosts.collect::<Result<Vec<_>>>()?;
        let mut wiring = Wiring { topology: topology.clone(), switches, hosts, warnings, style };
        for link in 0..topology.links().len() as u32 {
            wiring.wire(LinkId(link))?;
        }
        Ok(wiring)
    }

    fn namespace(&self, end: End) -> &Namespace {
        match end {
            End::Switch(SwitchId(s), _) => &self.switches[s as usize],
            End::Host(HostId(h)) => &self.hosts[h as usize],
        }
    }

    /// Interface and index of one end of a link.
    fn interface(&self, link: LinkId, way: usize) -> (String, u32) {
        match self.topology.links()[link.0 as usize].ends[way] {
            End::Switch(switch, port) => (self.port(switch, port), FIRST_INDEX[way] + u32::from(port)),
            End::Host(_) => (INTERFACE.to_string(), HOST_INDEX + way as u32),
        }
    }

    fn port(&self, switch: SwitchId, port: u16) -> String {
        match self.style {
            Style::Routed => port_interface(port),
            Style::Subnets(_) => {
                subnet_port_interface(&self.topology.switches()[switch.0 as usize].name, port)
            }
        }
    }

    /// Joins the two ends of a link, and gives a host its address and route.
    fn wire(&mut self, link: LinkId) -> Result<()> {
        let spec = &self.topology.links()[link.0 as usize];
        let names = [self.interface(link, 0), self.interface(link, 1)];
        let ends: Vec<VethEnd<'_>> = spec
            .ends
            .iter()
            .zip(&names)
            .map(|(end, (name, index))| VethEnd {
                name,
                index: *index,
                mac: self.topology.mac(*end),
                namespace: self.namespace(*end).as_fd(),
                queues: 1,
            })
            .collect();
        let [first, second] = spec.ends.map(|end| self.namespace(end));
        let in_place = |e: Error| Error::new(format!("link {}: {e}", spec.name));
        let mtu = mtu(spec.ends);
        first.enter(|| Netlink::open()?.add_veth(&ends[0], &ends[1], mtu))?.map_err(in_place)?;
        for (namespace, (_, index)) in [first, second].into_iter().zip(&names) {
            namespace.enter(|| Netlink::open()?.set_up(*index))?.map_err(in_place)?;
        }
        let mut warnings = Vec::new();
        for (way, (namespace, (_, index))) in [first, second].into_iter().zip(&names).enumerate() {
            let up = || -> Result<Vec<String>> {
                Netlink::open()?.wait_until_up(*index)?;
                match (spec.ends[way], spec.ends[1 - way]) {
                    (End::Host(host), other) => self.settle(host, other, *index),
                    _ => Ok(Vec::new()),
                }
            };
            warnings.extend(namespace.enter(up)?.map_err(in_place)?);
        }
        self.warnings.extend(warnings);
        Ok(())
    }

    /// Inside of a host's namespace: its address, and in the routed style a route for everything over its switch.
    fn settle(&self, host: HostId, switch: End, index: u32) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for offload in [Offload::TransmitChecksum, Offload::TcpSegmentation, Offload::GenericSegmentation] {
            if let Err(e) = sys::set_offload(INTERFACE, offload, false) {
                warnings.push(format!("cannot switch off {offload:?} of {INTERFACE}: {e}"));
            }
        }
        let mut netlink = Netlink::open()?;
        let address = self.topology.hosts()[host.0 as usize].address.into();
        match &self.style {
            Style::Routed => {
                netlink.add_address(index, address, 32, 0)?;
                netlink.add_neighbour(index, GATEWAY, self.topology.mac(switch))?;
                netlink.add_default_route(index, GATEWAY, true, 0)?;
            }
            Style::Subnets(prefixes) => {
                let prefix = prefixes.get(host.0 as usize).copied().unwrap_or(32);
                netlink.add_address(index, address, prefix, 0)?;
            }
        }
        Ok(warnings)
    }

    /// Runs `f` in a host's namespace, with the index of the host's interface.
    fn on_host(&self, host: HostId, f: impl FnOnce(&mut Netlink, u32) -> Result<()> + Send) -> Result<()> {
        let uplink = self.topology.uplink(host).map(|(.., link)| link);
        let link = uplink.ok_or_else(|| Error::new(format!("host {} has no link", host.0)))?;
        let way = usize::from(self.topology.links()[link.0 as usize].ends[1] == End::Host(host));
        let (_, index) = self.interface(link, way);
        self.hosts[host.0 as usize].enter(|| f(&mut Netlink::open()?, index))?
    }

    /// Gives a host a default route.
    ///
    /// # Errors
    /// The kernel refuses, for example because the gateway is not in the host's subnet.
    pub fn set_gateway(&self, host: HostId, gateway: Ipv4Addr) -> Result<()> {
        self.on_host(host, |netlink, index| netlink.add_default_route(index, gateway.into(), false, 0))
    }

    /// Gives a host a permanent neighbour: it never asks for this address.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_neighbour(&self, host: HostId, address: Ipv4Addr, mac: [u8; 6]) -> Result<()> {
        self.on_host(host, |netlink, index| netlink.add_neighbour(index, address.into(), mac))
    }

    /// Limits what hosts send to the rates of their links, if they have one, and to the bytes that may wait there.
    ///
    /// # Errors
    /// The kernel has no token bucket filter (`tbf`), or refuses.
    pub fn limit_hosts(&self) -> Result<()> {
        let all = (0..).map(LinkId).zip(self.topology.links());
        for (id, link) in all.filter(|(_, link)| link.line.bits_per_s != Line::UNLIMITED) {
            for (way, end) in link.ends.iter().enumerate().filter(|(_, end)| matches!(end, End::Host(_))) {
                let (_, index) = self.interface(id, way);
                let rate = link.line.bits_per_s / 8;
                let burst = u32::try_from(rate / BURSTS_PER_S).unwrap_or(u32::MAX).max(LEAST_BURST);
                let limit = u32::try_from(link.line.queue_bytes).unwrap_or(u32::MAX).max(burst);
                let limited = || Netlink::open()?.add_token_bucket(index, rate, burst, limit, OVERHEAD);
                let in_place = |e: Error| Error::new(format!("link {}: {e}", link.name));
                self.namespace(*end).enter(limited)?.map_err(in_place)?;
            }
        }
        Ok(())
    }

    /// Applies settings of the kernel, as files below /proc/sys and their contents, to all hosts; those that it refused.
    ///
    /// # Errors
    /// A namespace cannot be entered.
    pub fn set_hosts(&self, settings: &[(&str, &str)]) -> Result<Vec<String>> {
        let mut refused = Vec::new();
        for host in &self.hosts {
            refused.extend(host.enter(|| apply_sysctls(settings))?);
        }
        Ok(refused)
    }

    /// Cuts a link (both ends lose their carrier), or restores it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_link(&self, link: LinkId, up: bool) -> Result<()> {
        let end = self.topology.links()[link.0 as usize].ends[0];
        let (_, index) = self.interface(link, 0);
        self.namespace(end).enter(|| {
            let mut netlink = Netlink::open()?;
            if up { netlink.set_up(index) } else { netlink.set_down(index) }
        })?
    }

    /// Joins a switch with a namespace outside of the network: `names` are the interfaces of the switch and there. A switch has one such
    /// cable. It ends with the returned value, or with the switch's namespace.
    ///
    /// # Errors
    /// The kernel refuses, for example because an interface there has this name.
    pub fn lead_out(&self, switch: SwitchId, outside: &Namespace, names: [&str; 2]) -> Result<Outlet> {
        let here = &self.switches[switch.0 as usize];
        let mac = self.topology.mac(End::Switch(switch, 0));
        let mut other = mac;
        other[1] ^= 0xff;
        let macs = [mac, other];
        let ends = [(here, OUTSIDE_INDEX), (outside, 0)].into_iter().zip(names).zip(macs);
        let ends: Vec<VethEnd<'_>> = ends
            .map(|(((namespace, index), name), mac)| VethEnd {
                name,
                index,
                mac,
                namespace: namespace.as_fd(),
                queues: 1,
            })
            .collect();
        here.enter(|| Netlink::open()?.add_veth(&ends[0], &ends[1], MTU + HEADER_ROOM))??;
        let index = outside.enter(|| {
            // The kernel would send packets of its own to the switch.
            apply_sysctls(&[(&format!("net/ipv6/conf/{}/disable_ipv6", names[1]), "1")]);
            sys::interface_index(names[1])
        })?;
        let index = index.map_err(|e| Error::os(format!("cannot find the interface {}", names[1]), e))?;
        let outlet = Outlet { outside: outside.clone(), index };
        for (namespace, index) in [(here, OUTSIDE_INDEX), (outside, index)] {
            namespace.enter(|| Netlink::open()?.set_up(index))??;
        }
        here.enter(|| Netlink::open()?.wait_until_up(OUTSIDE_INDEX))??;
        Ok(outlet)
    }

    /// The interfaces of a switch, by port.
    pub fn ports(&self, switch: SwitchId) -> Vec<(u16, String)> {
        self.topology.ports(switch).map(|(port, ..)| (port, self.port(switch, port))).collect()
    }
}

/// A cable that leads out of a network ([`Wiring::lead_out`]). Dropping it removes it.
#[derive(Debug)]
pub struct Outlet {
    outside: Namespace,
    index: u32,
}

impl Drop for Outlet {
    fn drop(&mut self) {
        // It may have ended with the switch's namespace.
        let _ = self.outside.enter(|| Netlink::open()?.delete(self.index));
    }
}

/// The MTU of a link with these ends.
fn mtu(ends: [End; 2]) -> u32 {
    if ends.iter().all(|end| matches!(end, End::Switch(..))) { MTU + HEADER_ROOM } else { MTU }
}

/// Brings the loopback interface of the calling thread's namespace up. A namespace that [`crate::ensure_privileges`] made has it down.
///
/// # Errors
/// The kernel refuses.
pub fn bring_loopback_up() -> Result<()> {
    Netlink::open()?.set_up(LOOPBACK_INDEX)
}

/// The name of a port in the style of subnets.
pub fn subnet_port_interface(switch: &str, port: u16) -> String {
    format!("{switch}-eth{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_between_switches_have_room_for_headers() {
        let (switch, host) = (End::Switch(SwitchId(0), 1), End::Host(HostId(0)));
        assert_eq!([mtu([host, switch]), mtu([switch, host])], [1500; 2]);
        assert_eq!(mtu([switch, switch]), 1564);
    }
}
