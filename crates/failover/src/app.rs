//! The applications: programs that RedPlane protects.

use crate::Lease;
use crate::probes::{Plan, Seen};
use clap::ValueEnum;
use pointsman_lab::rack::Link;
use pointsman_testbed::payloads::{GTP_C, GTP_U, KEY_VALUE, modify_bearer, request, user_packet};
use std::net::Ipv4Addr;

/// An application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum App {
    /// Counts the packets of each flow: every packet changes the state.
    Counter,
    /// Stateful firewall: packets change the state when a connection begins and ends.
    Firewall,
    /// Address translation: connections get a port of the store's pool when they begin.
    Nat,
    /// Load balancer: connections get a server when they begin. The second switch has another server for new ones, which drops them.
    Dispatch,
    /// Gateway of a mobile network: one packet of 18 is signalling and changes the state, which the others read.
    Gateway,
    /// Key-value store: every other request is an update.
    Kvstore,
    /// Our balancer with a controller: connections get one of two servers when they begin, and the store keeps it.
    Balancer,
}

/// What the outside sees of the clients, with address translation; and the gateway's address.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const PORTS: (u16, u16) = (1024, 65535);
/// UDP port of the server's echoes, and of the counter's packets.
pub const ECHO: u16 = 7;

impl App {
    /// The P4 program with which switches start. The balancer's comes from its controller, with all entries.
    pub fn program(self) -> Option<&'static str> {
        Some(match self {
            App::Counter => include_str!("../../../p4/programs/flowcount/main.p4"),
            App::Firewall => include_str!("../../../p4/programs/firewall/main.p4"),
            App::Nat => include_str!("../../../p4/programs/napt/main.p4"),
            App::Dispatch => include_str!("../../../p4/programs/dispatch/main.p4"),
            App::Gateway => include_str!("../../../p4/programs/gateway/main.p4"),
            App::Kvstore => include_str!("../../../p4/programs/kvstore/main.p4"),
            App::Balancer => return None,
        })
    }

    /// Its name, as a flag's value.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// What a lease may hold.
    pub fn leases(self) -> &'static [Lease] {
        match self {
            App::Counter | App::Firewall => &[Lease::Flow, Lease::Session, Lease::Shared],
            App::Nat | App::Dispatch | App::Gateway | App::Kvstore => &[Lease::Flow, Lease::Session],
            // Its keys are fixed.
            App::Balancer => &[],
        }
    }

    /// Servers.
    pub fn servers(self) -> &'static [&'static str] {
        if self == App::Balancer { &["server", "server2"] } else { &["server"] }
    }

    /// Connections of a run that is not quick.
    pub fn connections(self) -> usize {
        if self == App::Balancer { 10_000 } else { 2_000 }
    }

    /// Statements that fill the tables of a switch, 0 or 1, for a client and a server; `plain`: without RedPlane.
    pub fn entries(self, switch: usize, (client, server): (&Link, &Link), plain: bool) -> String {
        if self == App::Counter {
            return format!("add routes prefix:{}/32 forward(port:{})\n", server.ipv4, server.port);
        }
        let forward = |link: &Link| format!("forward(port:{}, mac:{})", link.port, link.mac);
        let route = |link: &Link| {
            format!("add routes prefix:{}/{} {}\n", link.gateway_ipv4, link.prefix_ipv4, forward(link))
        };
        let routes = route(client) + &route(server);
        let inside = || format!("add sides prefix:{}/{} inside()\n", client.ipv4, client.prefix_ipv4);
        let more = match self {
            App::Counter | App::Kvstore | App::Balancer => String::new(),
            App::Firewall => inside(),
            App::Nat => inside() + &public(plain),
            App::Gateway => format!("add addresses address:{PUBLIC} ours()\n"),
            App::Dispatch => format!(
                "add services address:{} service(first:{}, count:1)\nadd servers server:1 {}\nadd servers server:2 drop()\n",
                server.ipv4,
                switch + 1,
                forward(server)
            ),
        };
        routes + &more
    }

    /// Options of the store.
    pub fn store_options(self) -> Vec<String> {
        match self {
            App::Nat => vec!["--pool".into(), format!("{PUBLIC}:{}-{}", PORTS.0, PORTS.1)],
            _ => Vec::new(),
        }
    }

    /// How probes are seen behind the switch.
    pub fn seen(self) -> Seen {
        match self {
            App::Counter | App::Gateway | App::Kvstore => Seen::Watched,
            App::Firewall | App::Nat | App::Dispatch | App::Balancer => Seen::Echoed,
        }
    }

    /// Whether packets show the state, and carry no connections.
    pub fn shows_state(self) -> bool {
        self.seen() == Seen::Watched
    }

    /// The number-th packet of a flow, both from 0: its address, UDP port, and the payload in front of what identifies it.
    pub fn probe(self, flow: u32, number: u32, plan: Plan) -> (Ipv4Addr, u16, Vec<u8>) {
        let server = plan.to;
        match self {
            App::Counter | App::Firewall | App::Nat | App::Dispatch | App::Balancer => {
                (server, ECHO, Vec::new())
            }
            App::Gateway if number.is_multiple_of(18) => {
                (PUBLIC, GTP_C, modify_bearer(flow, 1 + number, server))
            }
            App::Gateway => (PUBLIC, GTP_U, user_packet(flow)),
            App::Kvstore => (
                server,
                KEY_VALUE,
                request(flow.into(), is_update(number, plan.updates).then_some(1 + u64::from(number))),
            ),
        }
    }
}

/// Whether the number-th request for a key is an update: this percentage of them, evenly spread.
fn is_update(number: u32, percent: u32) -> bool {
    u64::from(number) * u64::from(percent) % 100 < u64::from(percent)
}

/// Statements for the public address. Without a store the switch chooses the ports.
fn public(plain: bool) -> String {
    let public = format!("add addresses prefix:{PUBLIC}/32 public()\n");
    match (plain, PORTS) {
        (false, _) => public,
        (true, (first, last)) => {
            format!("{public}setdefault pool choose(address:{PUBLIC}, first:{first}, last:{last})\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_spread_evenly() {
        let of = |percent| (0..10).filter(|n| is_update(*n, percent)).collect::<Vec<u32>>();
        assert!(of(0).is_empty());
        assert_eq!(of(20), [0, 5]);
        assert_eq!(of(50), [0, 2, 4, 6, 8]);
        assert_eq!(of(80), [0, 2, 3, 4, 5, 7, 8, 9]);
        assert_eq!(of(100).len(), 10);
        assert_eq!((0..u32::MAX).rev().take(100).filter(|n| is_update(*n, 60)).count(), 60);
    }
}
