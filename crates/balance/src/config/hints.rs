//! Requirements of a configuration outside the switch, and valid settings that are probably mistakes.

use super::{Device, Rack};
use crate::types::address_bits;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// So many devices are named in one line.
const NAMED: usize = 4;

impl Rack {
    /// The address of the switch that is nearest to this one by prefix.
    pub fn gateway_of(&self, own: IpAddr) -> Option<IpAddr> {
        let near = |a: &IpAddr| (address_bits(*a) ^ address_bits(own)).leading_zeros();
        let family = |a: &IpAddr| a.is_ipv4() == own.is_ipv4();
        self.switch.gateways.iter().copied().filter(family).max_by_key(near)
    }

    /// Hints about a valid configuration: settings that devices need and the switch cannot provide, and unusual
    /// settings.
    pub fn hints(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.switch.gateways.is_empty() {
            out.push(
                "switch.gateways is empty: the switch has no address besides VIPs for servers and clients to route through or for \
                 agents to report to; write one for each network"
                    .into(),
            );
        }
        out.extend(self.routes_of_devices());
        out
    }

    /// Devices whose answers have to pass the switch: all but those that answer clients themselves.
    fn translated(&self) -> impl Iterator<Item = (String, &Device)> {
        let by_switch = |d: &Device| {
            let of = self.services.iter().filter(|s| s.direct_return.is_none());
            of.flat_map(|s| &s.members).flat_map(|m| &m.devices).any(|m| m.number == d.number)
        };
        let all = self.devices().filter(move |(_, d)| by_switch(d));
        all.map(|(s, d)| (format!("{}/{}", s.name, d.name), d))
    }

    /// The routes that devices need, since answers that go past the switch carry the device's address and no client takes them.
    fn routes_of_devices(&self) -> Vec<String> {
        let mut needed: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for (name, device) in self.translated() {
            for own in device.addresses() {
                let Some(gateway) = self.gateway_of(own) else { continue };
                for route in self.routes.iter().filter(|r| r.prefix.address().is_ipv4() == own.is_ipv4()) {
                    let key = (route.prefix.to_string(), gateway.to_string());
                    needed.entry(key).or_default().push(name.clone());
                }
            }
        }
        let line = |((prefix, gateway), names): ((String, String), Vec<String>)| {
            let more = names.len().saturating_sub(NAMED);
            let listed = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let listed = if more > 0 { format!("{listed} and {more} more") } else { listed };
            format!(
                "answers to {prefix} must pass through the switch; on {listed}: ip route replace {prefix} via {gateway}"
            )
        };
        needed.into_iter().map(line).collect()
    }
}
