//! The socket for the messages of switches.

use super::error::StoreError;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Opens the socket. With the address of a multicast group it joins the group on all interfaces, and others of this machine may use the same
/// address.
pub(super) fn listen(at: SocketAddr) -> Result<UdpSocket, StoreError> {
    let failed = |e| StoreError::Listen(at, e);
    let socket = if at.ip().is_multicast() { of_group(at)? } else { UdpSocket::bind(at).map_err(failed)? };
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(socket)
}

fn of_group(at: SocketAddr) -> Result<UdpSocket, StoreError> {
    let failed = |e| StoreError::Listen(at, e);
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP)).map_err(failed)?;
    socket.set_reuse_address(true).map_err(failed)?;
    socket.bind(&SockAddr::from(at)).map_err(failed)?;
    let joined = |n: &u32| match at.ip() {
        IpAddr::V4(group) => socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(*n)).is_ok(),
        IpAddr::V6(group) => socket.join_multicast_v6(&group, *n).is_ok(),
    };
    let interfaces = interfaces(at.is_ipv6()).map_err(|e| StoreError::Interfaces(at, e))?;
    if interfaces.into_iter().filter(joined).count() == 0 {
        return Err(StoreError::Group(at));
    }
    Ok(socket.into())
}

/// Interfaces that are up and have an address of this version of IP. Several may have the same one.
fn interfaces(ipv6: bool) -> io::Result<BTreeSet<u32>> {
    let usable = getifaddrs()?.filter(|i| {
        let has_address = i
            .address
            .as_ref()
            .is_some_and(|a| if ipv6 { a.as_sockaddr_in6().is_some() } else { a.as_sockaddr_in().is_some() });
        has_address && i.flags.contains(InterfaceFlags::IFF_UP)
    });
    Ok(usable.filter_map(|i| if_nametoindex(i.interface_name.as_str()).ok()).collect())
}
