//! Tap interfaces.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::af_packet::check_name;
use crate::join::fits;
use crate::link_state::{Link, LinkState, RECOVERY_INTERVAL_NS};
use crate::offload::{self, VnetHeader};
use crate::sys::outgoing::Outgoing;
use crate::sys::{self, SLOT_BYTES, VLAN_ROOM, tun};
use crate::{Counters, DropReason, Frame, FramePool, Port, PortError};

/// Frames received in one call at most, not counting the pieces of super-frames.
const BATCH: usize = 64;

/// One end of a cable to the kernel, as the network interface of this name: frames that the kernel sends there are
/// received here, and the other way round.
///
/// If the interface does not exist, it is created and brought up, and removed with the port; an existing persistent one
/// stays. It needs CAP_NET_ADMIN, or a persistent interface that belongs to the user. Each frame is a system call.
///
/// Frames that are not fetched in time are lost in the kernel, which counts them at the interface (`ip -s link`).
pub struct Tap {
    name: String,
    tap: OwnedFd,
    /// For questions.
    control: OwnedFd,
    namespace: File,
    link: LinkState,
    /// Longest frame without a VLAN tag.
    longest: usize,
    /// Send segments of a stream as one.
    join: bool,
    buffer: Vec<u8>,
    counters: Counters,
}

impl Tap {
    /// Makes the interface `name` in the current network namespace, or uses the existing one.
    ///
    /// # Errors
    /// [`PortError::NoTap`] with the obstacle.
    pub fn open(name: &str) -> Result<Self, PortError> {
        check_name(name)?;
        let failed = |doing| move |source| PortError::from_system(name, doing, source);
        let control = sys::packet_socket().map_err(failed("open a packet socket"))?;
        let namespace =
            File::open("/proc/thread-self/ns/net").map_err(failed("find the network namespace"))?;
        let refused = |error| PortError::NoTap { interface: name.into(), why: why(&error) };
        let tap = tun::open(name).map_err(refused)?;
        // Whoever may use a persistent interface only finds it as it is.
        let _ = tun::set_up(&control, name);
        let mut port = Self {
            name: name.into(),
            tap,
            control,
            namespace,
            link: LinkState::new(Link::Down),
            longest: 0,
            join: true,
            buffer: vec![0; SLOT_BYTES],
            counters: Counters::default(),
        };
        port.check_link();
        Ok(port)
    }

    /// Checks the state of the interface, and attaches to a new one of the same name.
    fn check_link(&mut self) {
        let Ok(found) = sys::interface(&self.control, &self.name) else {
            self.link.set(Link::Gone);
            return;
        };
        if self.link.link == Link::Gone {
            let made = sys::within_namespace(&self.namespace, || tun::open(&self.name));
            if made.and_then(|made| sys::replace(&self.tap, made?)).is_err() {
                return;
            }
        }
        self.longest = found.mtu as usize + 14;
        self.link.set(if found.up { Link::Up } else { Link::Down });
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

/// The obstacle, and its remedy.
fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            format!(
                "no permission ({error}); be root, or have CAP_NET_ADMIN, or make it with `ip tuntap add`"
            )
        }
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            format!("this machine has no /dev/net/tun ({error}); load the kernel's module tun")
        }
        Some(libc::EBUSY) => format!("another process is using it ({error})"),
        Some(libc::EINVAL) => format!("an interface of this name is something else ({error})"),
        _ => error.to_string(),
    }
}

/// Errors that mean that the interface is down or was removed.
fn is_link_trouble(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EBADFD | libc::ENETDOWN | libc::ENODEV))
}

impl Port for Tap {
    fn name(&self) -> &str {
        &self.name
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.tap.as_raw_fd())
    }

    fn due(&self) -> Option<u64> {
        // The descriptor does not show that the interface went down: the port has to check.
        Some(self.link.checked_ns.saturating_add(RECOVERY_INTERVAL_NS))
    }

    fn receive(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        if self.link.take_due(now_ns) {
            self.check_link();
        }
        let before = frames.len();
        for _ in 0..BATCH {
            match tun::receive(&self.tap, &mut self.buffer) {
                Ok((bytes, vnet)) => {
                    let frame = &mut self.buffer[VLAN_ROOM..VLAN_ROOM + bytes];
                    if let Err(reason) = offload::expand(&VnetHeader::parse(&vnet), frame, pool, frames) {
                        self.counters.add_drops(reason, 1);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_link_trouble(&error) => {
                    self.link.checked_ns = now_ns;
                    self.check_link();
                    break;
                }
                Err(source) => {
                    self.counters.add_received(&frames[before..]);
                    return Err(PortError::System { port: self.name.clone(), doing: "receive", source });
                }
            }
        }
        self.counters.add_received(&frames[before..]);
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
        while let [first, ..] = &frames[..] {
            if first.len() < 14 {
                self.drop_front(DropReason::TxTooShort, 1, pool, frames);
                continue;
            } else if !fits(first, self.longest) {
                self.drop_front(DropReason::TxTooLong, 1, pool, frames);
                continue;
            }
            let Some(outgoing) = Outgoing::first(frames, self.join.then_some(self.longest)) else {
                break;
            };
            let (count, joined) = (outgoing.count(), outgoing.is_joined());
            match tun::send(&self.tap, &outgoing) {
                Ok(()) => {
                    self.counters.add_sent(&frames[..count]);
                    pool.give_all(frames.drain(..count));
                    total += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_link_trouble(&error) => {
                    self.link.checked_ns = now_ns;
                    self.check_link();
                    self.drop_front(DropReason::TxLinkDown, frames.len(), pool, frames);
                }
                Err(_) if joined => self.join = false,
                Err(_) => self.drop_front(DropReason::TxRefused, 1, pool, frames),
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
        sys::interface(&self.control, &self.name).is_ok_and(|found| found.running)
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }
}
