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
}

impl App {
    /// The P4 program.
    pub fn program(self) -> &'static str {
        match self {
            App::Counter => include_str!("../../../p4/programs/flowcount/main.p4"),
            App::Firewall => include_str!("../../../p4/programs/firewall/main.p4"),
        }
    }

    /// Statements that fill the tables of the program, for a client and a server.
    pub fn entries(self, client: &Link, server: &Link) -> String {
        match self {
            App::Counter => format!("add routes prefix:{}/32 forward(port:{})\n", server.ipv4, server.port),
            App::Firewall => {
                let route = |link: &Link| {
                    format!(
                        "add routes prefix:{}/{} forward(port:{}, mac:{})\n",
                        link.gateway_ipv4, link.prefix_ipv4, link.port, link.mac
                    )
                };
                let inside = format!("add sides prefix:{}/{} inside()\n", client.ipv4, client.prefix_ipv4);
                route(client) + &route(server) + &inside
            }
        }
    }

    /// How probes are seen behind the switch.
    pub fn seen(self) -> Seen {
        match self {
            App::Counter => Seen::Arriving,
            App::Firewall => Seen::Echoed,
        }
    }
}
