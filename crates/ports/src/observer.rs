//! Watching an interface without taking part.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use pointsman_wire::Mac;

use crate::PortError;
use crate::af_packet::is_link_trouble;
use crate::link_state::{Link, LinkState};
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
/// Unlike a port it does not put the interface into promiscuous mode. An interface that was removed is observed again when another one has its name.
pub struct Observer {
    name: String,
    socket: OwnedFd,
    link: LinkState,
    buffers: Box<ReceiveBuffers>,
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
        let link = LinkState::new(Link::Up);
        let mut observer = Self { name: name.into(), socket, link, buffers: ReceiveBuffers::new() };
        observer.attach(&found).map_err(failed("bind to the interface"))?;
        Ok(observer)
    }

    /// Becomes readable when a frame can be seen.
    pub fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether frames can be seen: the interface exists and is up.
    pub fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// MAC address of the interface that has the name now.
    pub fn mac(&self) -> Option<Mac> {
        sys::interface(&self.socket, &self.name).ok()?.mac.map(Mac)
    }

    /// Binds to the interface if it is up. It may be another one than before, even with the same index.
    fn attach(&mut self, found: &sys::Interface) -> io::Result<()> {
        if found.up {
            sys::bind(&self.socket, found.index)?;
        }
        self.link.set(if found.up { Link::Up } else { Link::Down });
        Ok(())
    }

    /// Looks at the interface that has the name now.
    fn check_link(&mut self) {
        let attached = sys::interface(&self.socket, &self.name).and_then(|found| self.attach(&found));
        if attached.is_err() {
            self.link.set(Link::Gone);
        }
    }

    /// Passes the frames of one batch to `each`, and returns their number. Never waits. Without an interface that is up, calls at
    /// intervals look for it; `now_ns` is the caller's time.
    ///
    /// # Errors
    /// Trouble with the interface as a whole. That it went down or was removed is reported once.
    pub fn observe(&mut self, now_ns: u64, mut each: impl FnMut(Way, &[u8])) -> Result<usize, PortError> {
        if !self.link.is_up() && self.link.take_due(now_ns) {
            self.check_link();
            self.link.tell(&self.name)?;
        }
        let mut count = 0;
        let received = self.buffers.receive(&self.socket, MAX_BATCH).map(|messages| {
            for message in messages {
                let way = if message.outgoing { Way::Out } else { Way::In };
                each(way, &message.room_and_frame[4..]);
                count += 1;
            }
        });
        match received {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            // One frame that the kernel could not describe is lost; the interface is fine.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
            Err(e) if is_link_trouble(&e) => {
                self.link.checked_ns = now_ns;
                self.check_link();
                self.link.tell(&self.name)?;
            }
            Err(source) => {
                return Err(PortError::System { port: self.name.clone(), doing: "observe", source });
            }
        }
        Ok(count)
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
}
