//! Linux network interfaces through packet sockets.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use crate::link_state::{Link, LinkState};
use crate::offload::{self, VnetHeader};
use crate::sys::packet_ring::{PacketRing, Slot};
use crate::sys::{self, MAX_BATCH, Message, ReceiveBuffers};
use crate::{Counters, DropReason, Frame, FramePool, Port, PortError};

/// Hardware types (ARPHRD_*) with an Ethernet header.
const ETHERNET: u16 = 1;
const LOOPBACK: u16 = 772;

/// How an [`AfPacket`] port works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfPacketConfig {
    /// Messages received in one system call, 1 to 64. Super-frames are cut afterwards, so that a batch may hold more
    /// frames than this.
    pub batch: usize,
    /// Size of the kernel's buffer, one for each direction. Without CAP_NET_ADMIN in the initial user namespace the
    /// kernel reduces it to net.core.rmem_max and net.core.wmem_max. Large buffers ride out pauses, and queue more.
    pub socket_buffer_bytes: usize,
    /// Receive frames for other addresses too. A switch needs it.
    pub promiscuous: bool,
    /// Memory shared with the process into which the kernel puts frames, 2 KiB for each, up to 1 GiB. 0 for none: then the
    /// process asks for each batch.
    pub ring_bytes: usize,
    /// Hand segments of a TCP stream that follow each other in a batch to the kernel as one super-frame.
    pub join: bool,
    /// Transmit past the interface's queueing discipline. Faster on some devices, but tc's shaping and tc's counters
    /// do not see the frames.
    pub bypass_qdisc: bool,
}

impl Default for AfPacketConfig {
    fn default() -> Self {
        Self {
            batch: MAX_BATCH,
            socket_buffer_bytes: 4 << 20,
            promiscuous: true,
            // 8192 frames: as much memory as a queue takes with AF_XDP.
            ring_bytes: 16 << 20,
            join: true,
            bypass_qdisc: false,
        }
    }
}

impl AfPacketConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`PortError::Config`] naming the field.
    pub fn validate(&self) -> Result<(), PortError> {
        if !(1..=MAX_BATCH).contains(&self.batch) {
            return Err(PortError::Config { field: "batch", rule: "between 1 and 64 messages" });
        }
        if !(4096..=1 << 30).contains(&self.socket_buffer_bytes) {
            let rule = "between 4096 bytes and 1 GiB";
            return Err(PortError::Config { field: "socket_buffer_bytes", rule });
        }
        if self.ring_bytes != 0 && !(4096..=1 << 30).contains(&self.ring_bytes) {
            return Err(PortError::Config {
                field: "ring_bytes",
                rule: "0, or between 4096 bytes and 1 GiB",
            });
        }
        Ok(())
    }
}

/// A Linux network interface, such as one end of a veth pair.
///
/// It needs CAP_NET_RAW in the user namespace that owns the network namespace: root has it, and so has every user
/// inside `unshare -Urn`. The port belongs to the network namespace in which it was opened, wherever the thread that
/// uses it goes.
///
/// Frames that this machine sends through the interface by other means are not received. The kernel's own network stack
/// also gets the frames that the port receives: give the interface no IP address, or the kernel answers too.
pub struct AfPacket {
    name: String,
    socket: OwnedFd,
    config: AfPacketConfig,
    interface: i32,
    /// Longest frame without a VLAN tag.
    longest: usize,
    link: LinkState,
    ring: Option<PacketRing>,
    buffers: Box<ReceiveBuffers>,
    group: Option<Arc<Group>>,
    counters: Counters,
}

/// The common state of ports that share an interface's traffic.
struct Group {
    /// The namespace for new sockets: once in a group, a socket cannot move to another interface.
    namespace: File,
    /// The interface, and the kernel's number of the group of its sockets.
    made: Mutex<Option<(i32, u16)>>,
}

impl AfPacket {
    /// Opens the interface `name` of the current network namespace. An interface that is down is opened too: the
    /// port is then not [`up`](Port::is_up), and starts to work when it is brought up.
    ///
    /// # Errors
    /// [`PortError`] naming the interface and the remedy.
    pub fn open(name: &str, config: AfPacketConfig) -> Result<Self, PortError> {
        Self::make(name, config, None)
    }

    /// Opens the interface as several ports, for as many threads. The kernel deals the traffic out by a hash of each
    /// flow's addresses and ports that is the same in both directions. The interface has to be up.
    ///
    /// # Errors
    /// [`PortError`] naming the interface and the remedy.
    pub fn open_group(name: &str, config: AfPacketConfig, ports: usize) -> Result<Vec<Self>, PortError> {
        let failed = |doing| move |source| PortError::from_system(name, doing, source);
        let (_, found) = find(name)?;
        if !found.up {
            return Err(PortError::LinkDown { interface: name.into() });
        }
        let namespace =
            File::open("/proc/thread-self/ns/net").map_err(failed("find the network namespace"))?;
        let group = Arc::new(Group { namespace, made: Mutex::default() });
        (0..ports.max(1)).map(|_| Self::make(name, config, Some(group.clone()))).collect()
    }

    fn make(name: &str, config: AfPacketConfig, group: Option<Arc<Group>>) -> Result<Self, PortError> {
        config.validate()?;
        let (socket, ring) = prepare(name, config)?;
        let failed = |doing| move |source| PortError::from_system(name, doing, source);
        let found = sys::interface(&socket, name).map_err(failed("look up the interface"))?;
        let mut port = Self {
            name: name.into(),
            socket,
            config,
            interface: 0,
            longest: 0,
            link: LinkState::new(Link::Down),
            ring,
            buffers: ReceiveBuffers::new(),
            group,
            counters: Counters::default(),
        };
        port.bind(found.index).map_err(failed("bind to the interface"))?;
        port.look_at(&found);
        Ok(port)
    }

    fn attach(&mut self, found: &sys::Interface) -> io::Result<()> {
        if found.index != self.interface {
            if let Some(group) = &self.group {
                let made = sys::within_namespace(&group.namespace, || prepare(&self.name, self.config))?;
                let (socket, ring) = made.map_err(io::Error::other)?;
                sys::replace(&self.socket, socket)?;
                self.ring = ring;
            }
            self.bind(found.index)?;
        }
        self.look_at(found);
        Ok(())
    }

    fn look_at(&mut self, found: &sys::Interface) {
        self.longest = found.mtu as usize + 14;
        self.link.set(if found.up { Link::Up } else { Link::Down });
    }

    /// Receives from the interface from now on.
    fn bind(&mut self, interface: i32) -> io::Result<()> {
        match &self.group {
            None => sys::bind(&self.socket, interface)?,
            Some(group) => {
                let mut made = group.made.lock().unwrap_or_else(PoisonError::into_inner);
                let known = made.filter(|(index, _)| *index == interface).map(|(_, number)| number);
                *made = Some((interface, sys::bind_in_group(&self.socket, interface, known)?));
            }
        }
        if self.config.promiscuous {
            sys::set_promiscuous(&self.socket, interface)?;
        }
        self.interface = interface;
        Ok(())
    }

    /// Checks the state of the interface, and moves to a new one of the same name.
    fn check_link(&mut self) {
        let attached = sys::interface(&self.socket, &self.name).and_then(|found| self.attach(&found));
        if attached.is_err() {
            self.interface = 0;
            self.link.set(Link::Gone);
        }
    }

    /// Receives a batch by asking for it.
    fn receive_messages(
        &mut self,
        batch: usize,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> io::Result<()> {
        for message in self.buffers.receive(&self.socket, batch)? {
            accept(message, &mut self.counters, pool, frames);
        }
        Ok(())
    }

    /// Receives a batch out of the ring.
    fn receive_from_ring(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> io::Result<()> {
        for taken in 0..self.config.batch {
            let Some(ring) = &mut self.ring else {
                break;
            };
            let counters = &mut self.counters;
            let elsewhere = ring.take(|slot| match slot {
                Slot::Frame(message) => {
                    accept(message, counters, pool, frames);
                    false
                }
                Slot::Elsewhere => true,
            });
            match elsewhere {
                Some(false) => {}
                Some(true) => self.receive_messages(1, pool, frames)?,
                None if taken == 0 => return sys::take_error(&self.socket).map_or(Ok(()), Err),
                None => break,
            }
        }
        Ok(())
    }

    fn drop_front(
        &mut self,
        reason: DropReason,
        count: usize,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) {
        self.counters.add_drops(reason, count as u64);
        pool.give_all(frames.drain(..count));
    }
}

/// A socket that is set up but not bound yet, and its ring.
fn prepare(name: &str, config: AfPacketConfig) -> Result<(OwnedFd, Option<PacketRing>), PortError> {
    let failed = |doing| move |source| PortError::from_system(name, doing, source);
    let (socket, _) = find(name)?;
    let option = sys::set_packet_option;
    option(&socket, libc::PACKET_VNET_HDR, 1).map_err(failed("request offload headers"))?;
    option(&socket, libc::PACKET_AUXDATA, 1).map_err(failed("request VLAN tags"))?;
    // Before Linux 4.20 the packet type of each frame has to do.
    let _ = option(&socket, libc::PACKET_IGNORE_OUTGOING, 1);
    if config.bypass_qdisc {
        option(&socket, libc::PACKET_QDISC_BYPASS, 1).map_err(failed("bypass the queueing discipline"))?;
    }
    let bytes = i32::try_from(config.socket_buffer_bytes).unwrap_or(i32::MAX);
    sys::set_buffers(&socket, bytes).map_err(failed("enlarge the socket's buffers"))?;
    // A kernel that has no memory for it, or no such thing, does well without.
    let wanted = (config.ring_bytes > 0).then_some(config.ring_bytes);
    let ring = wanted.and_then(|bytes| PacketRing::new(&socket, bytes).ok());
    Ok((socket, ring))
}

/// Makes ordinary frames of the kernel's messages.
fn accept(message: Message<'_>, counters: &mut Counters, pool: &mut FramePool, frames: &mut Vec<Frame>) {
    if message.outgoing {
        return;
    }
    if message.truncated {
        counters.add_drops(DropReason::RxTruncated, 1);
        return;
    }
    let mut header = VnetHeader::parse(&message.vnet);
    let buffer = message.room_and_frame;
    let frame = match message.vlan {
        Some((tpid, tci)) if buffer.len() >= 16 => {
            offload::restore_vlan(buffer, &mut header, tpid, tci);
            buffer
        }
        _ => buffer.get_mut(4..).unwrap_or_default(),
    };
    if let Err(reason) = offload::expand(&header, frame, pool, frames) {
        counters.add_drops(reason, 1);
    }
}

/// A packet socket in the interface's network namespace, and the properties of the interface.
pub(crate) fn find(name: &str) -> Result<(OwnedFd, sys::Interface), PortError> {
    let failed = |doing| move |source| PortError::from_system(name, doing, source);
    check_name(name)?;
    let socket = sys::packet_socket().map_err(failed("open a packet socket"))?;
    let found = sys::interface(&socket, name).map_err(failed("look up the interface"))?;
    if !matches!(found.hardware, ETHERNET | LOOPBACK) {
        return Err(PortError::NotEthernet { interface: name.into(), hardware: found.hardware });
    }
    Ok((socket, found))
}

/// Whether there can be an interface of this name.
pub(crate) fn check_name(name: &str) -> Result<(), PortError> {
    let sound = (1..16).contains(&name.len()) && !name.bytes().any(|byte| byte == b'/' || byte <= b' ');
    if sound { Ok(()) } else { Err(PortError::BadInterfaceName { interface: name.into() }) }
}

/// Errors that mean that the interface is down or was removed.
pub(crate) fn is_link_trouble(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}

impl Port for AfPacket {
    fn name(&self) -> &str {
        &self.name
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn due(&self) -> Option<u64> {
        self.link.due()
    }

    fn receive(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        if !self.link.is_up() && self.link.take_due(now_ns) {
            self.check_link();
        }
        let before = frames.len();
        let received = match self.ring {
            Some(_) => self.receive_from_ring(pool, frames),
            None => self.receive_messages(self.config.batch, pool, frames),
        };
        self.counters.add_received(&frames[before..]);
        match received {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The kernel has a super-frame that its header cannot describe, and has thrown it away.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.counters.add_drops(DropReason::RxUnsupportedOffload, 1);
            }
            Err(error) if is_link_trouble(&error) => {
                self.link.checked_ns = now_ns;
                self.check_link();
            }
            Err(source) => {
                return Err(PortError::System { port: self.name.clone(), doing: "receive", source });
            }
        }
        self.link.tell(&self.name)?;
        Ok(frames.len() - before)
    }

    fn transmit(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let mut total = 0;
        let mut checked = false;
        while let Some(first) = frames.first() {
            let joining = self.config.join.then_some(self.longest);
            let (sent, joined) = sys::outgoing::send(&self.socket, frames, joining);
            let error = match sent {
                Ok(sent) => {
                    self.counters.add_sent(&frames[..sent]);
                    pool.give_all(frames.drain(..sent));
                    total += sent;
                    continue;
                }
                Err(error) => error,
            };
            if error.kind() == io::ErrorKind::WouldBlock {
                break;
            } else if is_link_trouble(&error) {
                self.link.checked_ns = now_ns;
                self.check_link();
                if self.link.is_up() && !checked {
                    // The event was old: the link has come back meanwhile.
                    checked = true;
                    continue;
                }
                self.drop_front(DropReason::TxLinkDown, frames.len(), pool, frames);
            } else if joined {
                // Something on the way does not know super-frames.
                self.config.join = false;
            } else if first.len() < 14 {
                self.drop_front(DropReason::TxTooShort, 1, pool, frames);
            } else if error.raw_os_error() == Some(libc::EMSGSIZE) {
                self.drop_front(DropReason::TxTooLong, 1, pool, frames);
                // The MTU may be another one by now.
                self.check_link();
            } else {
                self.drop_front(DropReason::TxRefused, 1, pool, frames);
            }
        }
        self.link.tell(&self.name)?;
        Ok(total)
    }

    fn discard(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        self.drop_front(DropReason::TxQueueFull, frames.len(), pool, frames);
    }

    fn is_up(&self) -> bool {
        self.link.is_up()
    }

    fn has_carrier(&mut self) -> bool {
        sys::interface(&self.socket, &self.name).is_ok_and(|found| found.running)
    }

    fn counters(&mut self) -> Counters {
        if let Ok(drops) = sys::take_kernel_drops(&self.socket) {
            self.counters.add_drops(DropReason::RxSocketFull, drops);
        }
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: AfPacketConfig, field: Option<&str>) {
        let found = config.validate().err().map(|error| error.to_string());
        assert_eq!(found.is_some(), field.is_some(), "{found:?}");
        assert!(found.unwrap_or_default().starts_with(field.unwrap_or_default()));
    }

    #[test]
    fn configurations_are_checked() {
        let good = AfPacketConfig::default();
        check(good, None);
        check(AfPacketConfig { batch: 0, ..good }, Some("batch"));
        check(AfPacketConfig { batch: 65, ..good }, Some("batch"));
        check(AfPacketConfig { socket_buffer_bytes: 0, ..good }, Some("socket_buffer_bytes"));
        check(AfPacketConfig { ring_bytes: 0, ..good }, None);
        check(AfPacketConfig { ring_bytes: 100, ..good }, Some("ring_bytes"));
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "sixteen-letters-", "a b", "a/b", "a\n", "a\0b"] {
            let error = AfPacket::open(name, AfPacketConfig::default()).err().unwrap();
            assert!(matches!(error, PortError::BadInterfaceName { .. }), "{error}");
        }
    }
}
