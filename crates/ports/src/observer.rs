//! Watching an interface without taking part.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::PortError;
use crate::sys::{self, MAX_BATCH, ReceiveBuffers};

/// Which way an observed frame goes, seen from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It arrived.
    In,
    /// This machine sent it.
    Out,
}

/// Sees every frame that crosses an interface, both ways, as the kernel has it: segmentation offloads uncut, checksums
/// perhaps unfinished. For agents that measure; a switch uses [`AfPacket`](crate::AfPacket).
///
/// Unlike a port it neither sends nor puts the interface into promiscuous mode. Frames that the kernel dropped because
/// they were not read in time are counted.
pub struct Observer {
    name: String,
    socket: OwnedFd,
    buffers: Box<ReceiveBuffers>,
    missed: u64,
}

impl Observer {
    /// Watches the interface `name` of the current network namespace.
    ///
    /// # Errors
    /// [`PortError`] naming the interface and the remedy.
    pub fn open(name: &str) -> Result<Self, PortError> {
        let failed = |doing| move |source| PortError::from_system(name, doing, source);
        let socket = sys::packet_socket().map_err(failed("open a packet socket"))?;
        let found = sys::interface(&socket, name).map_err(failed("look up the interface"))?;
        sys::set_packet_option(&socket, libc::PACKET_VNET_HDR, 1)
            .map_err(failed("request offload headers"))?;
        sys::set_buffers(&socket, 4 << 20).map_err(failed("enlarge the socket's buffers"))?;
        sys::bind(&socket, found.index).map_err(failed("bind to the interface"))?;
        Ok(Self { name: name.into(), socket, buffers: ReceiveBuffers::new(), missed: 0 })
    }

    /// Becomes readable when a frame can be seen.
    pub fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Passes the frames of one batch to `each`, and returns their number. Never waits.
    ///
    /// # Errors
    /// Trouble with the interface as a whole.
    pub fn observe(&mut self, mut each: impl FnMut(Way, &[u8])) -> Result<usize, PortError> {
        let mut count = 0;
        match self.buffers.receive(&self.socket, MAX_BATCH) {
            Ok(messages) => {
                for message in messages {
                    let way = if message.outgoing { Way::Out } else { Way::In };
                    each(way, &message.room_and_frame[4..]);
                    count += 1;
                }
                Ok(count)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
            // One frame that the kernel could not describe is lost; the interface is fine.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                self.missed += 1;
                Ok(0)
            }
            Err(e) if e.raw_os_error() == Some(libc::ENETDOWN) => {
                Err(PortError::LinkDown { interface: self.name.clone() })
            }
            Err(source) => Err(PortError::System { port: self.name.clone(), doing: "observe", source }),
        }
    }

    /// Sends a frame through the interface. Never waits.
    ///
    /// # Errors
    /// The kernel did not take it.
    pub fn send(&self, frame: Vec<u8>) -> Result<(), PortError> {
        let system = |source| PortError::System { port: self.name.clone(), doing: "send", source };
        match sys::outgoing::send(&self.socket, &[frame], None).0 {
            Ok(1) => Ok(()),
            Ok(_) => Err(system(io::ErrorKind::WouldBlock.into())),
            Err(e) => Err(system(e)),
        }
    }

    /// Frames that were not seen since it was opened.
    pub fn missed(&mut self) -> u64 {
        if let Ok(drops) = sys::take_kernel_drops(&self.socket) {
            self.missed += drops;
        }
        self.missed
    }
}
