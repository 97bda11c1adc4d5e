//! Builds a rack: a namespace for the switch and one for every host, joined by veth pairs.

mod spec;

pub use pointsman_wire::Mac;
pub(crate) use spec::mac_text;
pub use spec::{ClientSpec, DeviceKind, DeviceSpec, Link, RackSpec, ServerSpec};

use crate::error::{Error, Result};
use crate::netlink::{Netlink, VethEnd};
use crate::netns::Namespace;
use crate::sys::{self, Offload};
use std::fs;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// One host of the rack.
#[derive(Clone, Debug)]
pub struct Host {
    /// `client`, `s1/cpu` and so on.
    pub name: String,
    /// Where its sockets live.
    pub namespace: Namespace,
    /// Its interface to the first switch.
    pub interface: String,
    /// Its port and addresses.
    pub link: Link,
}

/// One port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPort {
    /// Its switch, from 0.
    pub switch: u16,
    /// The port number that the P4 program sees.
    pub number: u16,
    /// The interface in the switch's namespace.
    pub interface: String,
    /// The host at the other end.
    pub host: String,
}

/// A running rack. Dropping it and everything that runs in its namespaces removes it.
#[derive(Clone, Debug)]
pub struct Rack {
    /// Where the switches (and their control plane) run. Its kernel has no addresses but loopback's and
    /// forwards nothing: all traffic passes through the switch program.
    pub switch: Namespace,
    /// The switches' ports, switch by switch, in ascending order.
    pub ports: Vec<SwitchPort>,
    /// Clients, then devices server by server.
    pub hosts: Vec<Host>,
    /// Settings that the kernel refused and that the rack can do without (a read-only /proc/sys, say).
    pub warnings: Vec<String>,
    /// The specification that it was built from.
    pub spec: RackSpec,
}

impl Rack {
    /// Builds the rack that `spec` describes. Needs [`crate::ensure_privileges`].
    pub fn build(spec: &RackSpec) -> Result<Self> {
        spec.validate()?;
        let switch = Namespace::new("switch")?;
        let mut rack =
            Self { switch, ports: Vec::new(), hosts: Vec::new(), warnings: Vec::new(), spec: spec.clone() };
        rack.warnings = rack.switch.enter(|| {
            Netlink::open()?.set_up(LOOPBACK_INDEX)?;
            Ok(apply_sysctls(SWITCH_SYSCTLS))
        })??;
        for (name, link) in spec.hosts() {
            rack.add(name, link)?;
        }
        rack.ports.sort_by_key(|p| (p.switch, p.number));
        Ok(rack)
    }

    /// The host called `name`.
    pub fn host(&self, name: &str) -> Result<&Host> {
        self.hosts.iter().find(|h| h.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.hosts.iter().map(|h| h.name.as_str()).collect();
            Error::new(format!("the rack has no host '{name}'"))
                .with_remedy(format!("its hosts are {}", known.join(", ")))
        })
    }

    /// Makes the switch's kernel an ordinary router with the gateway addresses: the baseline without any
    /// program, and a check of the wiring. The VIP is unused then.
    pub fn route_by_kernel(&mut self) -> Result<()> {
        let warnings = self.switch.enter(|| {
            let mut warnings = apply_sysctls(ROUTER_SYSCTLS);
            let mut netlink = Netlink::open()?;
            for port in self.ports_of(0) {
                let Some(host) = self.hosts.iter().find(|h| h.name == port.host) else { continue };
                let enable = format!("net/ipv6/conf/{}/disable_ipv6", port.interface);
                warnings.extend(apply_sysctls(&[(&enable, "0")]));
                let index = switch_index(0, port.number);
                let link = &host.link;
                netlink.add_address(index, link.gateway_ipv4.into(), link.prefix_ipv4, 0)?;
                netlink.add_address(index, link.gateway_ipv6.into(), link.prefix_ipv6, 0)?;
            }
            Ok(warnings)
        })??;
        self.warnings.extend(warnings.into_iter().map(|w| format!("switch: {w}")));
        Ok(())
    }

    /// The same, and the VIP's IPv4 address is the switch's: for balancers of the kernel, and proxies.
    pub fn serve_vip_by_kernel(&mut self) -> Result<()> {
        self.route_by_kernel()?;
        let vip = self.spec.vip_ipv4;
        self.switch.enter(|| Netlink::open()?.add_address(LOOPBACK_INDEX, vip.into(), 32, 0))?
    }

    /// The ports of a switch, in ascending order.
    pub fn ports_of(&self, switch: u16) -> impl Iterator<Item = &SwitchPort> {
        self.ports.iter().filter(move |p| p.switch == switch)
    }

    /// Brings the ends of a switch's links down or up again, as if it lost power: hosts lose the carrier.
    pub fn set_links(&self, switch: u16, up: bool) -> Result<()> {
        self.switch.enter(|| {
            let mut netlink = Netlink::open()?;
            self.ports_of(switch).try_for_each(|port| {
                let index = switch_index(switch, port.number);
                if up { netlink.set_up(index) } else { netlink.set_down(index) }
            })
        })?
    }

    /// Brings the first switch's end of a host's link down or up again: the host loses its carrier and keeps its addresses.
    pub fn set_link(&self, host: &str, up: bool) -> Result<()> {
        let index = self.index_of(host)?;
        self.switch.enter(|| {
            let mut netlink = Netlink::open()?;
            if up { netlink.set_up(index) } else { netlink.set_down(index) }
        })?
    }

    /// Gives a host another address on its link to a switch, which it uses to reach a neighbour with a known MAC address: the switch itself.
    pub fn add_neighbour(
        &self,
        host: &str,
        switch: u16,
        own: (IpAddr, u8),
        (neighbour, mac): (IpAddr, Mac),
    ) -> Result<()> {
        let index = HOST_INDEX + u32::from(switch);
        self.host(host)?.namespace.enter(|| {
            let mut netlink = Netlink::open()?;
            netlink.add_address(index, own.0, own.1, 0)?;
            netlink.add_neighbour(index, neighbour, mac.0)
        })?
    }

    /// Changes the largest packet on the links between a host and all switches, both ends of each.
    pub fn set_mtu(&self, host: &str, mtu: u32) -> Result<()> {
        let host = self.host(host)?;
        for switch in 0..self.spec.switches {
            let ends = [
                (&host.namespace, HOST_INDEX + u32::from(switch)),
                (&self.switch, switch_index(switch, host.link.port)),
            ];
            for (namespace, index) in ends {
                namespace.enter(|| Netlink::open()?.set_mtu(index, mtu))??;
            }
        }
        Ok(())
    }

    /// Gives a host one more address, whichever of its links packets to it arrive on.
    pub fn add_address(&self, host: &str, address: IpAddr) -> Result<()> {
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        self.host(host)?
            .namespace
            .enter(|| Netlink::open()?.add_address(LOOPBACK_INDEX, address, prefix, 0))?
    }

    /// Gives a switch's end of a host's link an address: programs in the switch's namespace reach the host by it, and the kernel answers for it.
    pub fn address_switch(&self, host: &str, switch: u16, (own, prefix): (IpAddr, u8)) -> Result<()> {
        let index = switch_index(switch, self.host(host)?.link.port);
        self.switch.enter(|| Netlink::open()?.add_address(index, own, prefix, 0))?
    }

    /// Removes both interfaces of a host's link.
    pub fn unplug(&self, host: &str) -> Result<()> {
        let index = self.index_of(host)?;
        self.switch.enter(|| Netlink::open()?.delete(index))?
    }

    /// Makes new interfaces with the names and addresses of those that [`Rack::unplug`] removed, with other indices.
    pub fn plug(&self, host: &str) -> Result<()> {
        let found = self.host(host)?;
        let indices = (HOST_INDEX + REPLACED, switch_index(0, found.link.port) + REPLACED);
        self.wire(&found.name, &found.namespace, &found.link, 0, indices).map(drop)
    }

    /// Index of the switch's end of a host's link.
    fn index_of(&self, host: &str) -> Result<u32> {
        let name = rack_port_interface(0, self.host(host)?.link.port);
        let found = self.switch.enter(|| sys::interface_index(&name))?;
        found.map_err(|e| Error::os(format!("the switch has no interface {name}"), e))
    }

    /// Adds one host: namespace, veth pair, addresses, routes.
    fn add(&mut self, name: String, link: &Link) -> Result<()> {
        let namespace = Namespace::new(&name)?;
        let mut warnings = namespace.enter(|| apply_sysctls(HOST_SYSCTLS))?;
        if self.spec.switches > 1 {
            warnings.extend(namespace.enter(|| apply_sysctls(BACKUP_SYSCTLS))?);
        }
        for switch in 0..self.spec.switches {
            let indices = (HOST_INDEX + u32::from(switch), switch_index(switch, link.port));
            warnings.extend(self.wire(&name, &namespace, link, switch, indices)?);
            self.ports.push(SwitchPort {
                switch,
                number: link.port,
                interface: rack_port_interface(switch, link.port),
                host: name.clone(),
            });
        }
        self.warnings.extend(warnings.into_iter().map(|w| format!("{name}: {w}")));
        self.hosts.push(Host { name, namespace, interface: INTERFACE.to_owned(), link: link.clone() });
        Ok(())
    }

    /// Joins a host's namespace and a switch's by a veth pair with these indices, and gives the host its addresses and
    /// routes. Returns warnings.
    fn wire(
        &self,
        name: &str,
        namespace: &Namespace,
        link: &Link,
        switch: u16,
        (host_index, switch_index): (u32, u32),
    ) -> Result<Vec<String>> {
        let (interface, own) = (rack_port_interface(switch, link.port), format!("eth{switch}"));
        let client = self.spec.clients.iter().find(|c| c.name == name);
        let settings = HostSettings {
            addresses: client.map_or_else(
                || vec![link.ipv4.into(), link.ipv6.into()],
                |c| [c.ipv4_addresses(), c.ipv6_addresses()].concat(),
            ),
            interface: &own,
            backup: switch,
            link,
            offloads: self.spec.offloads,
            static_neighbours: self.spec.static_neighbours,
        };
        let queues = self.spec.queues;
        let host_end =
            VethEnd { name: &own, index: host_index, mac: link.mac.0, namespace: namespace.as_fd(), queues };
        let switch_end = VethEnd {
            name: &interface,
            index: switch_index,
            mac: link.gateway_mac.0,
            namespace: self.switch.as_fd(),
            queues,
        };
        let mtu = self.spec.mtu;
        let in_place = |e: Error| Error::new(format!("host {name}: {e}"));
        self.switch
            .enter(|| {
                let mut netlink = Netlink::open()?;
                netlink.add_veth(&host_end, &switch_end, mtu)?;
                netlink.set_up(switch_index)
            })?
            .map_err(in_place)?;
        let warnings = namespace.enter(|| settings.apply(host_index))?.map_err(in_place)?;
        let up = || Netlink::open()?.wait_until_up(switch_index);
        self.switch.enter(up)?.map_err(in_place)?;
        Ok(warnings)
    }
}

/// Name of the interface of a switch's port.
pub(crate) fn port_interface(port: u16) -> String {
    format!("veth{port}")
}

/// Name of the interface of a rack's switch's port.
fn rack_port_interface(switch: u16, port: u16) -> String {
    if switch == 0 { port_interface(port) } else { format!("veth{port}-{switch}") }
}

/// Name of a host's interface to the first switch, in every host.
pub(crate) const INTERFACE: &str = "eth0";
/// Index of the loopback interface of every namespace.
pub(crate) const LOOPBACK_INDEX: u32 = 1;
/// Index of a host's interface.
pub(crate) const HOST_INDEX: u32 = 2;

/// Added to the indices of a link that replaces another one, as a kernel would give it new ones.
const REPLACED: u32 = 1000;

/// Index of a switch port's interface. The two ends of a pair must differ in index: if they are equal, which
/// they easily are in separate namespaces, the kernel takes them for ordinary links and may let a second
/// pass before it switches them on (linkwatch_urgent_event in net/core/link_watch.c).
fn switch_index(switch: u16, port: u16) -> u32 {
    1000 + 10_000 * u32::from(switch) + u32::from(port)
}

/// Joins two namespaces by a cable, without a switch: the baseline of all measurements. Each side's link
/// names the other side's address as its gateway. Returns warnings as in [`Rack::warnings`].
pub fn join(a: (&Namespace, &Link), b: (&Namespace, &Link), mtu: u32) -> Result<Vec<String>> {
    join_hosts(a, b, mtu, true)
}

/// The same, with complete checksums and with segments that fit the wire: the view of a network card without offloads,
/// and the input of a program that sees single packets.
pub fn join_without_offloads(
    a: (&Namespace, &Link),
    b: (&Namespace, &Link),
    mtu: u32,
) -> Result<Vec<String>> {
    join_hosts(a, b, mtu, false)
}

fn join_hosts(
    a: (&Namespace, &Link),
    b: (&Namespace, &Link),
    mtu: u32,
    offloads: bool,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    for (namespace, _) in [a, b] {
        warnings.extend(namespace.enter(|| apply_sysctls(HOST_SYSCTLS))?);
    }
    let ends = [(a, HOST_INDEX), (b, HOST_INDEX + 1)].map(|((namespace, link), index)| VethEnd {
        name: INTERFACE,
        index,
        mac: link.mac.0,
        namespace: namespace.as_fd(),
        queues: 1,
    });
    a.0.enter(|| Netlink::open()?.add_veth(&ends[0], &ends[1], mtu))??;
    b.0.enter(|| Netlink::open()?.set_up(ends[1].index))??;
    for ((namespace, link), end) in [a, b].into_iter().zip(&ends) {
        let addresses = vec![link.ipv4.into(), link.ipv6.into()];
        let settings = HostSettings {
            addresses,
            interface: INTERFACE,
            backup: 0,
            link,
            offloads,
            static_neighbours: false,
        };
        warnings.extend(namespace.enter(|| settings.apply(end.index))??);
    }
    Ok(warnings)
}

/// Pulls the cable out of the second of two namespaces that were [joined](join), or plugs it in again.
pub fn plug(b: &Namespace, plugged: bool) -> Result<()> {
    b.enter(|| {
        let mut netlink = Netlink::open()?;
        let index = HOST_INDEX + 1;
        if plugged { netlink.set_up(index) } else { netlink.set_down(index) }
    })?
}

/// The settings inside a host's namespace once its interface exists.
struct HostSettings<'a> {
    addresses: Vec<IpAddr>,
    interface: &'a str,
    /// The interface is used when this many others have no carrier.
    backup: u16,
    link: &'a Link,
    offloads: bool,
    static_neighbours: bool,
}

impl HostSettings<'_> {
    /// Runs inside the namespace once the other end is up; returns warnings.
    fn apply(&self, index: u32) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let mut netlink = Netlink::open()?;
        netlink.set_up(LOOPBACK_INDEX)?;
        if !self.offloads {
            // A switch that rewrites addresses and patches checksums needs checksums that are complete,
            // and packets that fit the wire.
            let off = [Offload::TransmitChecksum, Offload::TcpSegmentation, Offload::GenericSegmentation];
            for offload in off {
                if let Err(e) = sys::set_offload(self.interface, offload, false) {
                    warnings.push(format!("cannot switch off {offload:?} of {}: {e}", self.interface));
                }
            }
        }
        netlink.set_up(index)?;
        netlink.wait_until_up(index)?;
        let metric = if self.backup == 0 { 0 } else { BACKUP_METRIC + u32::from(self.backup) };
        for address in &self.addresses {
            let prefix = if address.is_ipv4() { self.link.prefix_ipv4 } else { self.link.prefix_ipv6 };
            netlink.add_address(index, *address, prefix, metric)?;
        }
        for gateway in [IpAddr::V4(self.link.gateway_ipv4), IpAddr::V6(self.link.gateway_ipv6)] {
            netlink.add_default_route(index, gateway, false, metric)?;
            if self.static_neighbours {
                netlink.add_neighbour(index, gateway, self.link.gateway_mac.0)?;
            }
        }
        Ok(warnings)
    }
}

/// Set before interfaces exist, so that these inherit them.
pub(crate) const HOST_SYSCTLS: &[(&str, &str)] = &[
    // Addresses work at once (the kernel asks both values), and no router is looked for.
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    // Answers may come from a virtual address: one default route, so nothing to filter.
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    // ICMP errors are part of the tests; the default of one a second per peer would hide them.
    ("net/ipv4/icmp_ratelimit", "0"),
    ("net/ipv6/icmp/ratelimit", "0"),
];

/// Of hosts with links to several switches: a route counts while its interface has a carrier.
const BACKUP_SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv4/conf/all/ignore_routes_with_linkdown", "1"),
    ("net/ipv4/conf/default/ignore_routes_with_linkdown", "1"),
    ("net/ipv6/conf/all/ignore_routes_with_linkdown", "1"),
    ("net/ipv6/conf/default/ignore_routes_with_linkdown", "1"),
];

/// Metrics of backup routes lie above that of an IPv6 route without one (1024).
const BACKUP_METRIC: u32 = 2000;

pub(crate) const SWITCH_SYSCTLS: &[(&str, &str)] = &[
    // The kernel under the switch keeps silent: no own IPv6 on any port, no forwarding.
    ("net/ipv6/conf/default/disable_ipv6", "1"),
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv4/ip_forward", "0"),
    ("net/ipv4/conf/all/rp_filter", "0"),
];

const ROUTER_SYSCTLS: &[(&str, &str)] =
    &[("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1")];

/// Settings of a namespace with ten thousand new connections per second: the port of a finished connection may be used
/// again after a second (RFC 6191), and all ports may be used.
pub fn allow_many_connections(namespace: &Namespace) -> Result<Vec<String>> {
    namespace.enter(|| apply_sysctls(MANY_CONNECTIONS))
}

const MANY_CONNECTIONS: &[(&str, &str)] = &[
    ("net/ipv4/tcp_tw_reuse", "1"),
    ("net/ipv4/ip_local_port_range", "1024 65535"),
    ("net/ipv4/tcp_max_syn_backlog", "65536"),
    ("net/core/somaxconn", "65535"),
];

/// Settings of a kernel that tracks connections: it forgets finished ones soon. Only there once it tracks any.
pub fn forget_connections_soon(namespace: &Namespace) -> Result<Vec<String>> {
    namespace.enter(|| apply_sysctls(SHORT_MEMORY))
}

const SHORT_MEMORY: &[(&str, &str)] = &[
    ("net/netfilter/nf_conntrack_tcp_timeout_time_wait", "2"),
    ("net/netfilter/nf_conntrack_tcp_timeout_close", "2"),
    ("net/netfilter/nf_conntrack_tcp_timeout_last_ack", "2"),
    ("net/netfilter/nf_conntrack_tcp_timeout_fin_wait", "2"),
];

/// Writes settings of the calling thread's network namespace; returns the refused ones.
pub(crate) fn apply_sysctls(settings: &[(&str, &str)]) -> Vec<String> {
    settings
        .iter()
        .filter_map(|(key, value)| {
            let error = fs::write(format!("/proc/sys/{key}"), value).err()?;
            Some(format!("cannot set {key} to {value}: {error}"))
        })
        .collect()
}
