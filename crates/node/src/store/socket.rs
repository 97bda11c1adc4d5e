//! The socket for the messages of switches.

use super::error::StoreError;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Opens the socket. With the address of an IPv4 multicast group it joins the group on all interfaces, and others of this machine may use the
/// same address.
pub(super) fn listen(at: SocketAddr) -> Result<UdpSocket, StoreError> {
    let failed = |e| StoreError::Listen(at, e);
    let socket = match at.ip() {
        IpAddr::V4(group) if group.is_multicast() => {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).map_err(failed)?;
            socket.set_reuse_address(true).map_err(failed)?;
            socket.bind(&SockAddr::from(at)).map_err(failed)?;
            let join =
                |n: &u32| socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(*n)).is_ok();
            let joined = interfaces().into_iter().filter(join);
            if joined.count() == 0 {
                return Err(StoreError::Group(at));
            }
            socket.into()
        }
        _ => UdpSocket::bind(at).map_err(failed)?,
    };
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(socket)
}

/// Interfaces that are up and have an IPv4 address. Several may have the same one.
fn interfaces() -> BTreeSet<u32> {
    let all = getifaddrs().ok().into_iter().flatten();
    let usable = all.filter(|i| {
        let has_address = i.address.as_ref().is_some_and(|a| a.as_sockaddr_in().is_some());
        has_address && i.flags.contains(InterfaceFlags::IFF_UP)
    });
    usable.filter_map(|i| if_nametoindex(i.interface_name.as_str()).ok()).collect()
}
