//! Changes of the configuration that would cut connections.

use super::desired::Situation;
use super::entries::{Action, Entries, Key};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Whether the switch can change from its entries to this configuration without cutting a connection.
///
/// # Errors
/// The first conflict, and its remedy.
pub fn conflict(s: &Situation<'_>, have: &Entries) -> Result<(), String> {
    let mut places = BTreeMap::new();
    for (key, action) in have {
        if let (Key::Device { device, v6 }, Action::SetDevice { address, .. }) = (key, action)
            && !s.drained_devices.contains(device)
        {
            places.insert((*device, *v6), *address);
        }
    }
    let by_address: BTreeMap<IpAddr, _> =
        places.iter().map(|((device, _), address)| (*address, *device)).collect();
    for (server, device) in s.rack.devices() {
        let name = format!("{}/{}", server.name, device.name);
        for address in device.addresses() {
            if let Some(was) = by_address.get(&address).filter(|was| **was != device.number) {
                return Err(format!(
                    "device `{name}` ({address}) has number {was} on the switch, but would get {} by its position in the \
                     file: keep it by writing `id = {}` for the server and `slot = {}` for the device",
                    device.number,
                    was.server(),
                    was.slot()
                ));
            }
            if let Some(was) = places.get(&(device.number, address.is_ipv6())).filter(|was| **was != address)
            {
                return Err(format!(
                    "device `{name}` ({address}) would get number {}, which {was} keeps while its connections last: write \
                     another `slot`, or another `id` for the server, or wait until they end",
                    device.number
                ));
            }
        }
    }
    let mut services = BTreeMap::new();
    for (key, action) in have {
        if let (Key::Service(f), Action::SetService { service, .. }) = (key, action)
            && !s.drained_services.contains(service)
        {
            services.insert(*service, *f);
        }
    }
    for service in &s.rack.services {
        for f in service.frontends() {
            for member in service.members.iter().flat_map(|m| &m.devices) {
                let Some((_, device)) = s.rack.device(member.number) else { continue };
                let Some(address) = device.address(f.vip.is_ipv6()) else { continue };
                let (ingress, protocol) = (device.port, f.protocol.number());
                let key = Key::Backend { ingress, address, protocol, port: f.port };
                if let Some(Action::SetBackend { service: of, .. }) = have.get(&key)
                    && let Some(other) = services.get(of).filter(|other| **other != f)
                {
                    return Err(format!(
                        "service `{}` needs {} port {} of device `{}`, where connections of {other} may be alive: use \
                         another port, or remove {other} first and wait until they end",
                        service.name,
                        f.protocol,
                        f.port,
                        s.rack.device_name(member.number)
                    ));
                }
            }
        }
    }
    Ok(())
}
