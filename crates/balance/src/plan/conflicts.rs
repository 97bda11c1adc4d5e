//! Changes of the configuration that would cut connections.

use super::desired::Situation;
use super::entries::{Action, Entries, Key};
use crate::config::Frontend;
use crate::types::{DeviceNumber, Protocol};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::net::IpAddr;

/// Something that a configuration gives to others while connections may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// A device would change its number.
    Renumbered {
        /// `server/device`.
        device: String,
        /// Its address.
        address: IpAddr,
        /// Its number on the switch.
        was: DeviceNumber,
        /// Its number in the configuration.
        new: DeviceNumber,
    },
    /// A device would get the number of another one.
    Taken {
        /// `server/device`.
        device: String,
        /// Its address.
        address: IpAddr,
        /// The address that has the number on the switch.
        owner: IpAddr,
        /// The number.
        number: DeviceNumber,
    },
    /// Two services would use the same port of a device.
    Port {
        /// The new service.
        service: String,
        /// Its protocol.
        protocol: Protocol,
        /// The port.
        port: u16,
        /// `server/device`.
        device: String,
        /// What uses the port on the switch.
        other: Frontend,
    },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conflict::Renumbered { device, address, was, new } => write!(
                f,
                "device `{device}` ({address}) has number {was} on the switch, but would get {new} by its position in the \
                 file: keep it by writing `id = {}` for the server and `slot = {}` for the device",
                was.server(),
                was.slot()
            ),
            Conflict::Taken { device, address, owner, number } => write!(
                f,
                "device `{device}` ({address}) would get number {number}, which {owner} keeps while its connections last: write \
                 another `slot`, or another `id` for the server, or wait until they end"
            ),
            Conflict::Port { service, protocol, port, device, other } => write!(
                f,
                "service `{service}` needs {protocol} port {port} of device `{device}`, where connections of {other} may be alive: use \
                 another port, or remove {other} first and wait until they end"
            ),
        }
    }
}

impl Error for Conflict {}

/// Whether the switch can change from its entries to this configuration without cutting a connection.
///
/// # Errors
/// The first conflict, and its remedy.
pub fn conflict(s: &Situation<'_>, have: &Entries) -> Result<(), Conflict> {
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
                return Err(Conflict::Renumbered { device: name, address, was: *was, new: device.number });
            }
            if let Some(was) = places.get(&(device.number, address.is_ipv6())).filter(|was| **was != address)
            {
                return Err(Conflict::Taken { device: name, address, owner: *was, number: device.number });
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
                    return Err(Conflict::Port {
                        service: service.name.clone(),
                        protocol: f.protocol,
                        port: f.port,
                        device: s.rack.device_name(member.number),
                        other: *other,
                    });
                }
            }
        }
    }
    Ok(())
}
