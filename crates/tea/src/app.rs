//! Applications, and what is different between their programs.

use crate::checker;
use pointsman_remote::{Layout, Scratchpads};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The application in the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum App {
    /// Address translation: an entry for each direction of a connection.
    Nat,
    /// The same for flows of IPv4 and IPv6, with entries of 60 bytes.
    Nat6,
    /// A stateful firewall: an entry for each connection.
    Firewall,
    /// A load balancer: an entry for each flow.
    Lb,
    /// A VPN gateway: an entry for each host behind a tunnel, of IPv4 and IPv6.
    Vpn,
    /// Policies of hosts, and their next hops: two tables, three look-ups of a packet.
    Policy,
    /// The balancer of racks: an entry for each connection that is established.
    Balancer,
}

impl App {
    /// Its name in the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            App::Nat => "nat",
            App::Nat6 => "nat6",
            App::Firewall => "firewall",
            App::Lb => "lb",
            App::Vpn => "vpn",
            App::Policy => "policy",
            App::Balancer => "balancer",
        }
    }

    /// Its program.
    pub(crate) fn program(self) -> Cow<'static, str> {
        let text = match self {
            App::Balancer => {
                return ("#define BALANCER_TEA\n".to_string() + &pointsman_compile::sources::balancer())
                    .into();
            }
            App::Nat => include_str!("../../../p4/programs/nat/main.p4"),
            App::Nat6 => {
                concat!("#define NAT_IPV6\n", include_str!("../../../p4/programs/nat/main.p4"))
            }
            App::Firewall => include_str!("../../../p4/programs/tea-firewall/main.p4"),
            App::Lb => include_str!("../../../p4/programs/tea-lb/main.p4"),
            App::Vpn => include_str!("../../../p4/programs/tea-vpn/main.p4"),
            App::Policy => include_str!("../../../p4/programs/tea-policy/main.p4"),
        };
        text.into()
    }

    /// As packets show it.
    pub(crate) fn shown(self) -> checker::App {
        match self {
            App::Nat => checker::App::Nat,
            App::Nat6 => checker::App::Nat6,
            App::Firewall => checker::App::Firewall,
            App::Lb => checker::App::Lb,
            App::Vpn => checker::App::Vpn,
            App::Policy => checker::App::Policy,
            App::Balancer => checker::App::Balancer,
        }
    }

    /// Prefixes to which packets with an entry go: first bits, and how many.
    pub(crate) fn routed(self) -> [(u128, u32); 2] {
        let of_ipv4 = |(prefix, bits): (Ipv4Addr, u32)| self.prefix(prefix.into(), bits);
        let of_ipv6 = |(prefix, bits): (Ipv6Addr, u32)| self.prefix(prefix.into(), bits);
        match self {
            App::Vpn => [of_ipv4(checker::TRANSLATED), of_ipv6(checker::tunnels::ENDS)],
            App::Nat6 => [of_ipv4(checker::TARGETS), of_ipv6(checker::TWINS)],
            _ => [of_ipv4(checker::TARGETS), of_ipv4(checker::TRANSLATED)],
        }
    }

    /// A prefix in its table of routes: first bits, and how many. Addresses of IPv4 have 96 bits in front, where those of IPv6 have a place.
    pub(crate) fn prefix(self, prefix: IpAddr, bits: u32) -> (u128, u32) {
        match (self, prefix) {
            (App::Nat6 | App::Vpn, IpAddr::V4(a)) => (a.to_ipv6_mapped().to_bits(), 96 + bits),
            (_, IpAddr::V4(a)) => (a.to_bits().into(), bits),
            (_, IpAddr::V6(a)) => (a.to_bits(), bits),
        }
    }

    /// Sizes of its keys and values, with this place of scratchpads.
    pub(crate) fn layout(self, scratchpads: Scratchpads) -> Layout {
        let (key, value) = match self {
            App::Nat | App::Lb => (16, 8),
            App::Nat6 => (40, 20),
            App::Firewall => (16, 4),
            App::Vpn => (20, 20),
            App::Balancer => (20, 4),
            App::Policy => (8, 8),
        };
        Layout { key, value, scratchpads }
    }

    /// The control of its program that finds entries in the switch.
    pub(crate) fn finds(self) -> &'static str {
        match self {
            App::Balancer => "BalancerIngress.find_settled",
            App::Policy => "FlowIngress.find.find",
            _ => "FlowIngress.find",
        }
    }

    /// The control of its program that asks servers.
    pub(crate) fn asks(self) -> &'static str {
        if self == App::Balancer { "BalancerIngress.arrive" } else { "FlowIngress.arrive" }
    }

    /// The value set of its program with the switch's addresses.
    pub(crate) fn addresses(self) -> &'static str {
        if self == App::Balancer {
            "BalancerParser.servers.tea_addresses"
        } else {
            "FlowParser.tea.tea_addresses"
        }
    }

    /// The unit of its program's timestamps, as an argument of the switch, and nanoseconds.
    pub(crate) fn tick(self) -> (&'static str, u64) {
        if self == App::Balancer { ("us", 1000) } else { ("ns", 1) }
    }

    /// The port of its program's packets for the controller.
    pub(crate) fn cpu_port(self) -> &'static str {
        if self == App::Balancer { "510" } else { "509" }
    }

    /// Keys that are looked up for a packet, at most.
    pub(crate) fn keys(self) -> u64 {
        if self == App::Policy { 3 } else { 1 }
    }
}
