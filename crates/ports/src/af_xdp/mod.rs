//! Linux network interfaces through AF_XDP: frames pass between the driver and memory of the process, past the kernel's
//! network stack.

mod program;
mod queue;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::af_packet::{find, is_link_trouble};
use crate::join::{Joined, join};
use crate::link_state::{Link, LinkState, RECOVERY_INTERVAL_NS};
use crate::sys::xsk::{XdpSizes, XdpSocket};
use crate::sys::{self, ethtool};
use crate::{Counters, DropReason, Frame, FramePool, Port, PortError};
use program::{Attachment, Refusal};
use queue::Queue;

/// Bytes of one chunk of memory: a page, the most that the kernel takes everywhere.
const CHUNK: u32 = 4096;
/// Bytes that the kernel keeps free in front of a received frame (XDP_PACKET_HEADROOM).
const HEADROOM: u32 = 256;
/// Ethernet header and one VLAN tag.
const HEADERS: u32 = 18;

/// A queue is still busy for about half a second after the socket that had it was closed, as when the process was killed;
/// longer on a busy machine.
const QUEUE_PATIENCE: Duration = Duration::from_secs(4);

/// How long frames that did not fit wait for a call although the descriptor is quiet.
const STUCK_INTERVAL_NS: u64 = 100_000;

/// Where an XDP program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver; in the network stack if the driver cannot, except on veth.
    #[default]
    Any,
    /// In the driver, or not at all.
    Native,
    /// In the network stack. Frames that the stack has put together (GRO) or never taken apart (segmentation offload on
    /// the other end of a veth pair) are too long for AF_XDP and are lost.
    Generic,
}

/// How an [`AfXdp`] port works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfXdpConfig {
    /// The only queue to use; None for all.
    pub queue: Option<u32>,
    /// Entries of each ring, a power of two from 64 to 32768. There are 8 KiB of memory for each, for each queue.
    pub ring: u32,
    /// Frames received in one call at most, 1 to 1024.
    pub batch: usize,
    /// Where the XDP program may run.
    pub mode: XdpMode,
    /// Let the driver read and write the port's memory if it can.
    pub zero_copy: bool,
    /// On veth, hand segments of a TCP stream that follow each other in a batch to the kernel as one super-frame, past
    /// AF_XDP, which cannot.
    pub join: bool,
    /// Receive frames for other addresses too. A switch needs it.
    pub promiscuous: bool,
}

impl Default for AfXdpConfig {
    fn default() -> Self {
        Self {
            queue: None,
            ring: 2048,
            batch: 64,
            mode: XdpMode::Any,
            zero_copy: true,
            join: true,
            promiscuous: true,
        }
    }
}

impl AfXdpConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`PortError::Config`] naming the field.
    pub fn validate(&self) -> Result<(), PortError> {
        if !(64..=32768).contains(&self.ring) || !self.ring.is_power_of_two() {
            return Err(PortError::Config { field: "ring", rule: "a power of two from 64 to 32768" });
        }
        if !(1..=1024).contains(&self.batch) {
            return Err(PortError::Config { field: "batch", rule: "between 1 and 1024 frames" });
        }
        Ok(())
    }
}

/// The common state of one interface's ports: the XDP program. The lock is held only while sockets are made.
#[derive(Default)]
struct Shared(Mutex<Option<Attachment>>);

/// A Linux network interface, or some of its queues.
///
/// It needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW in the first user namespace. Frames that arrive go to the port
/// and nowhere else: the kernel's own network stack does not see them, nor does tcpdump. The XDP program that sees to
/// that goes away with the last port of the interface. The port belongs to the network namespace in which it was
/// opened, wherever the thread that uses it goes.
pub struct AfXdp {
    name: String,
    config: AfXdpConfig,
    namespace: Arc<File>,
    shared: Arc<Shared>,
    /// A packet socket that receives nothing: for questions, promiscuous mode, and super-frames.
    control: OwnedFd,
    interface: i32,
    /// Longest frame without a VLAN tag.
    longest: usize,
    link: LinkState,
    /// Which queues of the interface these are.
    numbers: Vec<u32>,
    queues: Vec<Queue>,
    /// Readable when any of several queues is.
    any: Option<OwnedFd>,
    native: bool,
    /// VLAN tags are in their usual place.
    tags: bool,
    /// Frames may come with unfinished checksums.
    repair: bool,
    /// Segments may be sent as one.
    join: bool,
    /// Frames were left behind.
    stuck: bool,
    counters: Counters,
    /// Drops of closed sockets, and the drops already counted of open ones.
    kernel_drops: u64,
}

impl AfXdp {
    /// Opens the interface `name` of the current network namespace: all its queues, or the one that the configuration
    /// names. An interface that is down is opened too, see [`AfPacket::open`](crate::AfPacket::open).
    ///
    /// # Errors
    /// [`PortError`] naming the interface and the remedy; [`PortError::NoAfXdp`] if another kind of port may do.
    pub fn open(name: &str, config: AfXdpConfig) -> Result<Self, PortError> {
        let (_, _, queues) = look(name, &config)?;
        let numbers = match config.queue {
            Some(queue) => vec![queue],
            None => (0..queues).collect(),
        };
        Self::on(name, config, &Arc::default(), numbers)
    }

    /// How many receive queues an interface has.
    ///
    /// # Errors
    /// The interface does not exist.
    pub fn queues(name: &str) -> Result<u32, PortError> {
        let (control, _) = find(name)?;
        // A driver that cannot be asked has one.
        Ok(ethtool::receive_queues(&control, name).unwrap_or(1))
    }

    /// Opens the interface as one port for each of its queues, at most `ports`, for as many threads. The driver spreads
    /// flows over the queues. Queues beyond `ports` are dealt out in turn.
    ///
    /// # Errors
    /// As for [`AfXdp::open`].
    pub fn open_queues(name: &str, config: AfXdpConfig, ports: usize) -> Result<Vec<Self>, PortError> {
        let (_, _, queues) = look(name, &config)?;
        let count = ports.clamp(1, queues as usize);
        let shared = Arc::default();
        let mine = |port| (port as u32..queues).step_by(count).collect();
        (0..count).map(|port| Self::on(name, config, &shared, mine(port))).collect()
    }

    fn on(
        name: &str,
        config: AfXdpConfig,
        shared: &Arc<Shared>,
        numbers: Vec<u32>,
    ) -> Result<Self, PortError> {
        let failed = |doing| move |source| PortError::from_system(name, doing, source);
        let (control, found, queues) = look(name, &config)?;
        if let Some(&number) = numbers.iter().find(|&&number| number >= queues) {
            let why = format!("receive queue {number} does not exist: it has {queues}");
            return Err(PortError::NoAfXdp { interface: name.into(), why });
        }
        let namespace =
            File::open("/proc/thread-self/ns/net").map_err(failed("find the network namespace"))?;
        let mut port = Self {
            name: name.into(),
            config,
            namespace: Arc::new(namespace),
            shared: shared.clone(),
            // Frames that the stack has seen are in the stack's form.
            repair: ethtool::driver(&control, name).is_ok_and(|driver| driver == "veth"),
            control,
            interface: 0,
            longest: 0,
            link: LinkState::new(Link::Down),
            numbers,
            queues: Vec::new(),
            any: None,
            native: true,
            tags: true,
            join: false,
            stuck: false,
            counters: Counters::default(),
            kernel_drops: 0,
        };
        let no = |why: String| PortError::NoAfXdp { interface: name.into(), why };
        port.attach(&found).map_err(|refusal| no(refusal.why()))?;
        if port.repair && !port.tags && config.mode == XdpMode::Native {
            let missing = "on veth it needs a kernel that reports the VLAN tags of frames (Linux 6.8), and \
                           /sys/kernel/btf/vmlinux";
            return Err(no(missing.into()));
        }
        port.link.set(if found.up { Link::Up } else { Link::Down });
        Ok(port)
    }

    /// How it works, for the log: mode, copies, queues.
    pub fn description(&self) -> String {
        let place = if self.native { "native" } else { "generic" };
        let copies = if self.queues.iter().all(|queue| queue.zero_copy) { "zero-copy" } else { "copy" };
        match self.queues.len() {
            1 => format!("AF_XDP, {place} mode, {copies}"),
            count => format!("AF_XDP, {place} mode, {copies}, {count} queues"),
        }
    }

    /// Makes the sockets of an interface of our name, in the current network namespace.
    fn attach(&mut self, found: &sys::Interface) -> Result<(), Refusal> {
        let refused = |doing| move |error| Refusal { doing, error };
        let shared = self.shared.clone();
        let mut attachment = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        if attachment.as_ref().is_none_or(|attachment| attachment.interface != found.index) {
            // The old program leaves first.
            *attachment = None;
            // The number of queues may grow; a map that is too large does no harm.
            let places = self.numbers.iter().max().map_or(1, |&most| most + 1).max(256);
            let (made, native) = match self.config.mode {
                XdpMode::Native => (Attachment::new(found.index, places, true), true),
                XdpMode::Generic => (Attachment::new(found.index, places, false), false),
                XdpMode::Any => match Attachment::new(found.index, places, true) {
                    // The other end of a veth pair leaves segmentation to us unless the program is native.
                    Err(refusal) if refusal.is_about_the_driver() && !self.repair => {
                        (Attachment::new(found.index, places, false), false)
                    }
                    other => (other, true),
                },
            };
            *attachment = Some(made?);
            self.native = native;
        }
        let Some(attachment) = attachment.as_ref() else {
            return Ok(());
        };
        self.tags = attachment.tags;
        let sizes = XdpSizes { ring: self.config.ring, chunk: CHUNK };
        let mut queues = Vec::new();
        for &number in &self.numbers {
            let socket = XdpSocket::new(sizes).map_err(refused("make an AF_XDP socket"))?;
            // The places for frames are known before the first one comes.
            let mut queue = Queue::new(socket, sizes);
            let zero_copy = self.config.zero_copy && self.native;
            queue.zero_copy = bind(&queue.socket, found.index, number, zero_copy)
                .map_err(refused("bind an AF_XDP socket to a queue"))?;
            attachment.enter(number, &queue.socket.fd).map_err(refused("enter an AF_XDP socket"))?;
            queues.push(queue);
        }
        self.exchange(queues).map_err(refused("wait for several queues"))?;
        // The kernel's end of veth accepts every frame; on other devices two ways out would not keep the order.
        let copies = self.queues.iter().all(|queue| !queue.zero_copy);
        self.join = self.config.join && self.repair && copies && self.prepare_joining(found).is_ok();
        if self.config.promiscuous {
            sys::set_promiscuous(&self.control, found.index).map_err(refused("set promiscuous mode"))?;
        }
        self.interface = found.index;
        self.longest = found.mtu as usize + 14;
        Ok(())
    }

    fn prepare_joining(&self, found: &sys::Interface) -> io::Result<()> {
        sys::set_packet_option(&self.control, libc::PACKET_VNET_HDR, 1)?;
        sys::set_buffers(&self.control, 4 << 20)?;
        sys::bind_to_send(&self.control, found.index)
    }

    /// Puts new queues in the place of old ones, under the same descriptor.
    fn exchange(&mut self, mut queues: Vec<Queue>) -> io::Result<()> {
        if queues.len() != 1 {
            let fds: Vec<RawFd> = queues.iter().map(|queue| queue.socket.fd.as_raw_fd()).collect();
            let any = sys::readable_when_any(&fds)?;
            match &self.any {
                Some(old) => sys::replace(old, any)?,
                None => self.any = Some(any),
            }
        } else if let ([old], [new]) = (&mut self.queues[..], &mut queues[..]) {
            sys::replace(&old.socket.fd, new.socket.fd.try_clone()?)?;
            std::mem::swap(&mut old.socket.fd, &mut new.socket.fd);
        }
        self.queues = queues;
        self.kernel_drops = 0;
        Ok(())
    }

    /// Checks the state of the interface, and moves to a new one of the same name.
    fn check_link(&mut self) {
        let Ok(found) = sys::interface(&self.control, &self.name) else {
            self.link.set(Link::Gone);
            self.interface = 0;
            return;
        };
        self.longest = found.mtu as usize + 14;
        if found.index != self.interface {
            self.interface = 0;
            // The new sockets have to be made in the namespace of the old ones.
            let namespace = self.namespace.clone();
            let made = sys::within_namespace(&namespace, || self.attach(&found));
            if !matches!(made, Ok(Ok(()))) {
                self.link.set(Link::Gone);
                return;
            }
        }
        self.link.set(if found.up { Link::Up } else { Link::Down });
    }

    /// The reaction to an error of a queue.
    fn handle(&mut self, now_ns: u64, error: io::Error, doing: &'static str) -> Result<(), PortError> {
        if !is_link_trouble(&error) {
            return Err(PortError::System { port: self.name.clone(), doing, source: error });
        }
        self.link.checked_ns = now_ns;
        self.check_link();
        Ok(())
    }

    fn drop_all(&mut self, reason: DropReason, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        self.counters.add_drops(reason, frames.len() as u64);
        pool.give_all(frames.drain(..));
    }
}

/// Where the first segments are that may be sent as one, and how.
fn find_joined(frames: &[Frame], longest: usize) -> Option<(usize, Joined)> {
    (0..frames.len()).find_map(|at| Some((at, join(&frames[at..], longest)?)))
}

/// The prerequisites of opening a port: a socket for requests, the interface, and its queues.
fn look(name: &str, config: &AfXdpConfig) -> Result<(OwnedFd, sys::Interface, u32), PortError> {
    config.validate()?;
    let (control, found) = find(name)?;
    let most = CHUNK - HEADROOM - HEADERS;
    if found.mtu > most {
        let why = format!("its MTU is {}, and frames of at most {most} bytes fit", found.mtu);
        return Err(PortError::NoAfXdp { interface: name.into(), why });
    }
    let queues = ethtool::receive_queues(&control, name).unwrap_or(1);
    Ok((control, found, queues))
}

/// Binds with zero-copy if that is requested and supported, and returns whether it is. A queue that was
/// just given up is busy for a while.
fn bind(socket: &XdpSocket, interface: i32, queue: u32, zero_copy: bool) -> io::Result<bool> {
    let start = Instant::now();
    let mut zero_copy = zero_copy;
    loop {
        let how = if zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
        match socket.bind(interface, queue, how | libc::XDP_USE_NEED_WAKEUP) {
            Ok(()) => return Ok(socket.is_zero_copy()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                if start.elapsed() >= QUEUE_PATIENCE {
                    return Err(error);
                }
                thread::sleep(Duration::from_millis(10));
            }
            Err(_) if zero_copy => zero_copy = false,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

impl Port for AfXdp {
    fn name(&self) -> &str {
        &self.name
    }

    fn raw_fd(&self) -> Option<RawFd> {
        match (&self.any, &self.queues[..]) {
            (Some(any), _) => Some(any.as_raw_fd()),
            (None, queues) => queues.first().map(|queue| queue.socket.fd.as_raw_fd()),
        }
    }

    fn due(&self) -> Option<u64> {
        // An AF_XDP socket does not report that the interface went down: the port has to check.
        let interval = if self.stuck { STUCK_INTERVAL_NS } else { RECOVERY_INTERVAL_NS };
        Some(self.link.checked_ns.saturating_add(interval))
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
        let mut trouble = None;
        for queue in &mut self.queues {
            if self.stuck {
                trouble = queue.push(&mut self.counters).err().or(trouble);
            }
            let result = queue.receive(self.config.batch, self.repair, &mut self.counters, pool, frames);
            trouble = result.err().or(trouble);
        }
        self.stuck &= self.queues.iter_mut().any(Queue::is_stuck);
        if let Some(error) = trouble {
            self.handle(now_ns, error, "receive")?;
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
        if self.link.take_retry(now_ns) {
            self.check_link();
        }
        if !self.link.is_up() {
            self.drop_all(DropReason::TxLinkDown, pool, frames);
            self.link.tell(&self.name)?;
            return Ok(0);
        }
        let Some(queue) = self.queues.first_mut() else {
            return Ok(0);
        };
        let mut sent = 0;
        let mut trouble = None;
        while !frames.is_empty() {
            let joining = self.join.then(|| find_joined(frames, self.longest)).flatten();
            let before = frames.len();
            let count = joining.as_ref().map_or(before, |(at, _)| *at);
            match queue.transmit(self.longest, count, &mut self.counters, pool, frames) {
                Ok(count) => sent += count,
                Err(error) => {
                    trouble = Some(error);
                    break;
                }
            }
            self.stuck = queue.is_stuck();
            // Frames that could not be sent are not overtaken.
            let Some((_, joined)) = joining.filter(|_| !self.stuck && before - frames.len() == count) else {
                break;
            };
            let count = joined.count;
            match sys::outgoing::send_joined(&self.control, joined, &frames[..count]) {
                Ok(()) => {
                    self.counters.add_sent(&frames[..count]);
                    pool.give_all(frames.drain(..count));
                    sent += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_link_trouble(&error) => {
                    trouble = Some(error);
                    break;
                }
                // One by one, then.
                Err(_) => self.join = false,
            }
        }
        if let Some(error) = trouble {
            self.handle(now_ns, error, "transmit")?;
            if !self.link.is_up() {
                self.drop_all(DropReason::TxLinkDown, pool, frames);
            }
        }
        self.stuck |= !frames.is_empty();
        self.link.tell(&self.name)?;
        Ok(sent)
    }

    fn discard(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        self.drop_all(DropReason::TxQueueFull, pool, frames);
    }

    fn is_up(&self) -> bool {
        self.link.is_up()
    }

    fn has_carrier(&mut self) -> bool {
        sys::interface(&self.control, &self.name).is_ok_and(|found| found.running)
    }

    fn counters(&mut self) -> Counters {
        let drops = |queue: &Queue| {
            let statistics = queue.socket.statistics().ok()?;
            Some(statistics.rx_dropped + statistics.rx_ring_full)
        };
        let now: u64 = self.queues.iter().filter_map(drops).sum();
        self.counters.add_drops(DropReason::RxSocketFull, now.saturating_sub(self.kernel_drops));
        self.kernel_drops = now;
        self.counters
    }
}
