//! What the switch does with packets that have an entry, and with those that have none.

use super::super::Plan;
use super::{Switch, number};
use crate::App;
use crate::bed::{FOUND, SENDER, TUNNEL_MTU, UNKNOWN};
use crate::checker::tunnels::{GATEWAY, NETWORK};
use crate::checker::{self, ROUTED};
use pointsman_control::proto::p4rt;
use pointsman_fabric::{Does, UnknownName, Value};

impl Switch {
    /// Entries for packets with and without a translation.
    ///
    /// # Errors
    /// The program lacks a table or action.
    pub(super) fn routes(&self, plan: &Plan) -> Result<Vec<p4rt::Entity>, UnknownName> {
        if self.app == App::Balancer {
            return self.services();
        }
        let to_port = self.book.action("FlowIngress.to_port", &[("port", UNKNOWN.1.into())])?;
        let mut all = vec![self.book.default_action("FlowIngress.unknown", to_port)?];
        if self.app == App::Policy {
            return Ok(all);
        }
        let routes = self.app.routed().map(|prefix| (prefix, (FOUND.1, ROUTED)));
        for ((prefix, bits), (port, mac)) in routes.iter().chain(&plan.hosts.routes) {
            let forward = [("port", (*port).into()), ("mac", number(&mac.0))];
            let forward = self.book.action("FlowIngress.forward", &forward)?;
            let prefix = [("prefix", Value::Prefix(*prefix, *bits))];
            all.push(self.book.entry("FlowIngress.routes", &prefix, Does::Action(forward))?);
        }
        match self.app {
            App::Nat | App::Nat6 | App::Policy | App::Balancer => {}
            App::Vpn => self.tunnels(&mut all)?,
            App::Firewall => {
                let inside = self.book.action("FlowIngress.key.inside", &[])?;
                let prefix =
                    [("prefix", Value::Prefix(number(&checker::SOURCES.0.octets()), checker::SOURCES.1))];
                all.push(self.book.entry("FlowIngress.key.sides", &prefix, Does::Action(inside))?);
            }
            App::Lb => {
                let balanced = self.book.action("FlowIngress.key.balanced", &[])?;
                let (address, port) = checker::TARGET;
                let address = Value::Exact(number(&address.octets()));
                let key = [("address", address), ("port", Value::Exact(port.into()))];
                all.push(self.book.entry("FlowIngress.key.virtual", &key, Does::Action(balanced))?);
            }
        }
        Ok(all)
    }

    /// The gateway's addresses, at which tunnels continue, and the network of the sender's port.
    fn tunnels(&self, all: &mut Vec<p4rt::Entity>) -> Result<(), UnknownName> {
        let (v4, v6) = GATEWAY;
        let begin =
            [("ipv4", number(&v4.octets())), ("ipv6", number(&v6.octets())), ("mtu", TUNNEL_MTU.into())];
        let begin = self.book.action("FlowIngress.application.enter_tunnel.begin", &begin)?;
        all.push(self.book.default_action("FlowIngress.application.enter_tunnel.tunnels", begin)?);
        for address in [v4.to_ipv6_mapped(), v6] {
            let continues = self.book.action("FlowIngress.key.continue_in_tunnel", &[])?;
            let key = [("address", Value::Exact(address.to_bits()))];
            all.push(self.book.entry("FlowIngress.key.gateways", &key, Does::Action(continues))?);
        }
        let network = self.book.action("FlowIngress.key.network", &[("number", NETWORK.into())])?;
        let key = [("port", Value::Exact(SENDER.1.into()))];
        all.push(self.book.entry("FlowIngress.key.networks", &key, Does::Action(network))?);
        Ok(())
    }
}
