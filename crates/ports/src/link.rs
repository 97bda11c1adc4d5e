//! News of interfaces.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::sys;

/// Reports that some interface of a network namespace has changed: added, removed, up, down, carrier found or lost. Which one is
/// for the ports to find out, see [`Port::has_carrier`](crate::Port::has_carrier).
#[derive(Debug)]
pub struct LinkEvents {
    socket: OwnedFd,
}

impl LinkEvents {
    /// Of the calling thread's network namespace.
    ///
    /// # Errors
    /// Those of the kernel, such as too many open files.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: sys::link_socket()? })
    }

    /// A descriptor that becomes readable when a link changed, for a [`Poller`](crate::Poller).
    pub fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether something changed since the last call.
    pub fn take(&mut self) -> bool {
        sys::drain(&self.socket)
    }
}
