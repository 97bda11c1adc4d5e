//! The applications: programs that RedPlane protects.

use crate::probes::Seen;
use pointsman_lab::rack::Link;

/// An application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum App {
    /// Counts the packets of each flow: every packet changes the state.
    Counter,
    /// Stateful firewall: packets change the state when a connection begins and ends.
    Firewall,
    /// Address translation: connections get a port of the store's pool when they begin.
    Nat,
}

/// What the outside sees of the clients, with address translation.
const PUBLIC: &str = "203.0.113.1";
const PORTS: (u16, u16) = (1024, 65535);

impl App {
    /// The P4 program.
    pub fn program(self) -> &'static str {
        match self {
            App::Counter => include_str!("../../../p4/programs/flowcount/main.p4"),
            App::Firewall => include_str!("../../../p4/programs/firewall/main.p4"),
            App::Nat => include_str!("../../../p4/programs/napt/main.p4"),
        }
    }

    /// Statements that fill the tables of the program, for a client and a server; `plain`: without RedPlane.
    pub fn entries(self, client: &Link, server: &Link, plain: bool) -> String {
        match self {
            App::Counter => format!("add routes prefix:{}/32 forward(port:{})\n", server.ipv4, server.port),
            App::Firewall | App::Nat => {
                let route = |link: &Link| {
                    format!(
                        "add routes prefix:{}/{} forward(port:{}, mac:{})\n",
                        link.gateway_ipv4, link.prefix_ipv4, link.port, link.mac
                    )
                };
                let inside = format!("add sides prefix:{}/{} inside()\n", client.ipv4, client.prefix_ipv4);
                route(client) + &route(server) + &inside + &self.public(plain)
            }
        }
    }

    /// Statements for the public address. Without a store the switch chooses the ports.
    fn public(self, plain: bool) -> String {
        let (first, last) = PORTS;
        match (self, plain) {
            (App::Nat, false) => format!("add addresses prefix:{PUBLIC}/32 public()\n"),
            (App::Nat, true) => {
                App::Nat.public(false)
                    + &format!("setdefault pool choose(address:{PUBLIC}, first:{first}, last:{last})\n")
            }
            _ => String::new(),
        }
    }

    /// Options of the store.
    pub fn store_options(self) -> Vec<String> {
        match self {
            App::Nat => vec!["--pool".into(), format!("{PUBLIC}:{}-{}", PORTS.0, PORTS.1)],
            App::Counter | App::Firewall => Vec::new(),
        }
    }

    /// How probes are seen behind the switch.
    pub fn seen(self) -> Seen {
        match self {
            App::Counter => Seen::Arriving,
            App::Firewall | App::Nat => Seen::Echoed,
        }
    }
}
