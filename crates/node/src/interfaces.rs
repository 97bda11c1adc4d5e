//! What the kernel says of the interfaces of the calling thread's network namespace.

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use pointsman_wire::Mac;
use std::net::IpAddr;

fn ip(address: &InterfaceAddress) -> Option<IpAddr> {
    let address = address.address?;
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(v4.ip().into()),
        (_, Some(v6)) => Some(v6.ip().into()),
        _ => None,
    }
}

/// The MAC address of an interface.
pub fn mac_of(interface: &str) -> Option<Mac> {
    let mut interfaces = getifaddrs().ok()?.filter(|i| i.interface_name == interface);
    interfaces.find_map(|i| i.address?.as_link_addr()?.addr().map(Mac))
}

/// The IP addresses of an interface.
pub fn addresses_of(interface: &str) -> Vec<IpAddr> {
    let all = getifaddrs().ok().into_iter().flatten();
    all.filter(|i| i.interface_name == interface).filter_map(|i| ip(&i)).collect()
}

/// The interface that has one of these addresses.
pub fn interface_with(addresses: &[IpAddr]) -> Option<String> {
    let mut found = getifaddrs().ok()?.filter(|i| ip(i).is_some_and(|ip| addresses.contains(&ip)));
    found.next().map(|i| i.interface_name)
}
