//! The datagrams between switches and stores, over IPv4 or IPv6.

use pointsman_wire::Mac;
use pointsman_wire::checksum::{folded, sum};
use pointsman_wire::frame::{IPV6, UDP, USUAL, packet, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes in front of a message, and in front of the addresses of IPv6.
const FRONT_V4: usize = 42;
const FRONT_V6: usize = 62;
const ADDRESSES_V6: usize = 22;
/// UDP's header, in bytes.
const UDP_BYTES: usize = 8;

/// The addresses of a switch, and of the first store; those of other stores follow.
pub(super) fn ends(ipv6: bool, switch: usize) -> [IpAddr; 2] {
    let host = switch as u8 + 1;
    if ipv6 {
        let v6 = |net, host| Ipv6Addr::new(0xfd09, 0, 0, net, 0, 0, 0, host).into();
        [v6(0, host.into()), v6(1, 1)]
    } else {
        [Ipv4Addr::new(10, 9, 0, host).into(), Ipv4Addr::new(10, 9, 1, 1).into()]
    }
}

/// The store, from 0 on, and the message of a request. `None`: the store's host would drop it, because lengths or checksum of a datagram over IPv6
/// are wrong.
pub(super) fn request(frame: &[u8]) -> Option<(usize, &[u8])> {
    let ipv6 = frame.get(12..14)? == IPV6.to_be_bytes();
    if ipv6 && !is_right(frame) {
        return None;
    }
    let front = if ipv6 { FRONT_V6 } else { FRONT_V4 };
    let last = *frame.get(front - UDP_BYTES - 1)?;
    Some((usize::from(last.saturating_sub(1)), frame.get(front..)?))
}

fn is_right(frame: &[u8]) -> bool {
    let (Some(summed), Some(datagram)) = (frame.get(ADDRESSES_V6..), frame.get(FRONT_V6 - UDP_BYTES..))
    else {
        return false;
    };
    let says = |at: usize| frame.get(at..at + 2) == Some(&(datagram.len() as u16).to_be_bytes()[..]);
    let total = sum(summed) + u64::from(UDP) + datagram.len() as u64;
    says(18) && says(58) && datagram.get(6..8) != Some(&[0, 0]) && folded(total) == 0xffff
}

/// The frame with an answer of the store.
pub(super) fn answer(ipv6: bool, switch: usize, payload: &[u8]) -> Vec<u8> {
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let [to, from] = ends(ipv6, switch);
    packet((mac, mac), from, to, UDP, udp(4791, 4791, payload), USUAL)
}
