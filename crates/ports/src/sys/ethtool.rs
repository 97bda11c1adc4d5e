//! Requests of ethtool to drivers, through its ioctl.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::check;

const GET_DRIVER: u32 = 0x03;
const GET_CHANNELS: u32 = 0x3c;

/// Asks with a structure that starts with the command; all its words are plain numbers.
fn ask<const WORDS: usize>(
    socket: &OwnedFd,
    name: &str,
    command: u32,
    words: &mut [u32; WORDS],
) -> io::Result<()> {
    words[0] = command;
    let mut request = super::interface_request(name)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the callers give each command a structure of the size that it has in linux/ethtool.h.
    check(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as libc::c_ulong as _, &raw mut request)
    })?;
    Ok(())
}

/// The name of the driver, such as `veth`.
pub(crate) fn driver(socket: &OwnedFd, name: &str) -> io::Result<String> {
    // struct ethtool_drvinfo: the command, five strings of 32 bytes, 12 bytes reserved, five words.
    let mut words = [0u32; 1 + 5 * 8 + 3 + 5];
    ask(socket, name, GET_DRIVER, &mut words)?;
    let bytes = words[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0);
    Ok(String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned())
}

/// How many queues frames arrive in.
pub(crate) fn receive_queues(socket: &OwnedFd, name: &str) -> io::Result<u32> {
    // struct ethtool_channels: the command, four maxima, then receive, transmit, other and combined.
    let mut words = [0u32; 9];
    ask(socket, name, GET_CHANNELS, &mut words)?;
    Ok(words[5].saturating_add(words[8]).max(1))
}
