//! Tap interfaces: the process is at the other end of the cable.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::outgoing::Outgoing;
use super::{VLAN_ROOM, check, interface_request, own, retry};
use crate::offload::VNET_HEADER_BYTES;

/// Attaches to the tap interface `name` of the current network namespace. If it does not exist, it is made, and
/// vanishes with the descriptor. Frames have a header about offloads in front.
pub(crate) fn open(name: &str) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero.
    let fd = own(retry(|| unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) })? as libc::c_int)?;
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: the request is an `ifreq`, which the kernel reads and in which it puts the name.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
    // The kernel may leave checksums and segmentation to us.
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    // SAFETY: the argument is a number.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(offloads)) })?;
    Ok(fd)
}

/// Brings an interface up.
pub(crate) fn set_up(socket: &OwnedFd, name: &str) -> io::Result<()> {
    let mut request = interface_request(name)?;
    let fd = socket.as_raw_fd();
    // SAFETY: the request reads the name and writes the flags; the second reads both.
    unsafe {
        check(libc::ioctl(fd, libc::SIOCGIFFLAGS as libc::c_ulong as _, &raw mut request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        check(libc::ioctl(fd, libc::SIOCSIFFLAGS as libc::c_ulong as _, &raw mut request))?;
    }
    Ok(())
}

/// Receives one frame into `room_and_frame`, behind four unused bytes, and returns its length and its header's content.
pub(crate) fn receive(
    tap: &OwnedFd,
    room_and_frame: &mut [u8],
) -> io::Result<(usize, [u8; VNET_HEADER_BYTES])> {
    let mut vnet = [0; VNET_HEADER_BYTES];
    let frame = &mut room_and_frame[VLAN_ROOM..];
    let parts = [
        libc::iovec { iov_base: vnet.as_mut_ptr().cast(), iov_len: vnet.len() },
        libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() },
    ];
    // SAFETY: the parts describe two buffers that outlive the call.
    let got = retry(|| unsafe { libc::readv(tap.as_raw_fd(), parts.as_ptr(), 2) as libc::c_int })?;
    Ok((got.saturating_sub(VNET_HEADER_BYTES), vnet))
}

/// Sends one message.
pub(crate) fn send(tap: &OwnedFd, outgoing: &Outgoing<'_>) -> io::Result<()> {
    let mut parts = Vec::with_capacity(2);
    outgoing.describe(&mut parts);
    let count = parts.len() as libc::c_int;
    // SAFETY: the parts describe buffers that outlive the call, which only reads.
    retry(|| unsafe { libc::writev(tap.as_raw_fd(), parts.as_ptr(), count) as libc::c_int })?;
    Ok(())
}
