//! Safe wrappers around the few system calls that the standard library and `socket2` do not offer.
#![allow(unsafe_code)]

use socket2::SockAddr;
use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Turns the -1 convention of libc into a `Result`.
fn check(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

fn owned(rc: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(rc)?;
    // SAFETY: the kernel has just returned this descriptor to us, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Detaches the calling thread from some of its namespaces (`CLONE_NEW...` flags).
pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory is passed; with the CLONE_NEW* flags used here only the calling task changes.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Moves the calling thread into the network namespace that `fd` refers to.
pub(crate) fn set_network_namespace(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: `fd` is a live descriptor for the length of the call; no memory is passed.
    check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Moves the process, which must have a single thread, into the user namespace that `fd` refers to.
pub(crate) fn set_user_namespace(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: as above.
    check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWUSER) }).map(drop)
}

/// Effective user and group of the process.
pub(crate) fn effective_ids() -> (u32, u32) {
    // SAFETY: these calls cannot fail and touch no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// The kernel's identifier of the calling thread.
pub(crate) fn thread_id() -> libc::pid_t {
    // SAFETY: cannot fail, touches no memory.
    unsafe { libc::gettid() }
}

/// Makes timers and time-outs of this thread as exact as the kernel can (the default slack of
/// 50 us would be half of what we promise). Best effort: only precision suffers if it is refused.
pub(crate) fn minimise_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and changes only the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Keeps the calling thread, and the threads that it starts from now on, on one processor. Best effort: where it is
/// refused, only repeatability suffers.
pub fn pin_to_processor(processor: usize) -> bool {
    // SAFETY: cpu_set_t is plain data for which all zeroes is valid; CPU_SET stays within it for numbers below its size,
    // and the call reads only the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if processor >= 8 * std::mem::size_of::<libc::cpu_set_t>() {
            return false;
        }
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set) == 0
    }
}

/// Lets the calling thread, and the threads that it starts from now on, use every processor that the process may.
pub fn unpin() -> bool {
    // SAFETY: as above; the kernel leaves out processors that do not exist or that the process may not use.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for processor in 0..8 * std::mem::size_of::<libc::cpu_set_t>() {
            libc::CPU_SET(processor, &mut set);
        }
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set) == 0
    }
}

/// A file in memory. Its name is only for those that look at this process's descriptors.
pub(crate) fn memory_file(name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name is NUL-terminated and outlives the call.
    owned(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })
}

/// A file in memory with this content, which cannot change any more.
pub(crate) fn sealed_file(name: &std::ffi::CStr, content: &[u8]) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is NUL-terminated and outlives the call.
    let mut file = File::from(owned(unsafe { libc::memfd_create(name.as_ptr(), flags) })?);
    file.write_all(content)?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: no memory is passed.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(file)
}

/// Whether a file was made by [`sealed_file`]. No other file, not even one of tmpfs, can have such a seal.
pub(crate) fn is_sealed(file: &File) -> bool {
    // SAFETY: no memory is passed.
    let seals = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) });
    seals.is_ok_and(|seals| seals & libc::F_SEAL_WRITE != 0)
}

/// In a child that is about to run another program: moves it into the network namespace, and has it killed when the
/// thread that started it ends.
pub(crate) fn confine_child(namespace: RawFd, parent: u32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    unsafe {
        check(libc::setns(namespace, libc::CLONE_NEWNET))?;
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong))?;
        // The parent may have ended before the request took effect.
        if libc::getppid() as u32 != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    Ok(())
}

/// Sends a signal to a process: a child that has not been waited for, or one that has just been seen.
pub(crate) fn signal(process: u32, signal: i32) -> io::Result<()> {
    let process = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: no memory is passed.
    check(unsafe { libc::kill(process, signal) }).map(drop)
}

/// Sends a signal to a process group whose leader is a child that has not been waited for.
pub(crate) fn signal_group(leader: u32, signal: i32) -> io::Result<()> {
    let leader = libc::pid_t::try_from(leader).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: no memory is passed.
    check(unsafe { libc::killpg(leader, signal) }).map(drop)
}

/// The index of an interface in the calling thread's network namespace.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: the name is NUL-terminated and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Gives the calling thread, and the threads that it starts from now on, a separate mount table, from which nothing
/// gets back into the machine's.
pub(crate) fn private_mounts() -> io::Result<()> {
    let rest = std::ptr::null();
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the strings are NUL-terminated constants; the pointers that the kernel does not read for this are null.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS))?;
        check(libc::mount(c"none".as_ptr(), c"/".as_ptr(), rest, flags, rest.cast())).map(drop)
    }
}

/// Mounts a file system in memory, of at most this many bytes.
pub(crate) fn mount_memory(folder: &std::path::Path, bytes: u64) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let folder = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    let options = std::ffi::CString::new(format!("size={bytes},mode=700"))?;
    let kind = c"tmpfs".as_ptr();
    // SAFETY: all strings are NUL-terminated and outlive the call.
    check(unsafe { libc::mount(kind, folder.as_ptr(), kind, 0, options.as_ptr().cast()) }).map(drop)
}

/// Kills a process group of ours.
pub(crate) fn kill_group(leader: u32) {
    if let Ok(leader @ 2..) = libc::pid_t::try_from(leader) {
        // SAFETY: no memory is passed. The leader is a child that has not been waited for, so the number is its own.
        unsafe { libc::kill(-leader, libc::SIGKILL) };
    }
}

/// Raises the soft limit of open files to the hard limit and returns it.
pub fn raise_open_file_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid, exclusively borrowed rlimit for both calls.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    }
    Ok(limit.rlim_cur)
}

/// From now on [`receive_with_ttl`] gives the time to live (IPv4) or hop limit (IPv6) of this socket's datagrams.
pub(crate) fn want_ttl(socket: &UdpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let (level, option) = match socket.local_addr()? {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVTTL),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    };
    let size = std::mem::size_of_val(&on) as libc::socklen_t;
    // SAFETY: pointer and size describe `on`, which the kernel only reads.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), size) })
        .map(drop)
}

/// Segments that the kernel has sent again on a TCP connection: `tcpi_total_retrans` (linux/tcp.h).
pub(crate) fn sent_again(socket: &impl AsFd) -> io::Result<u32> {
    const AT: usize = 100;
    let mut info = [0u8; 104];
    let mut length = info.len() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to the array, which lives until the call returns.
    check(unsafe {
        let to = info.as_mut_ptr().cast();
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length)
    })?;
    match info[AT..].first_chunk() {
        Some(bytes) if length as usize == info.len() => Ok(u32::from_ne_bytes(*bytes)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Receives one datagram, as far as it fits: its bytes, its source, and the time to live with which it arrived, if the kernel says it.
pub(crate) fn receive_with_ttl(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> io::Result<(usize, SocketAddr, Option<u8>)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // In u64, which aligns it for `cmsghdr`.
    let mut control = [0u64; 8];
    // SAFETY: all zeroes is a value of this plain structure.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = std::mem::size_of_val(&control) as _;
    let mut length = 0;
    // SAFETY: the message describes buffers that outlive the call, each with its length; `from` has room for any address.
    let ((), from) = unsafe {
        SockAddr::try_init(|from, room| {
            message.msg_name = from.cast();
            message.msg_namelen = *room;
            let n = libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0);
            length = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
            *room = message.msg_namelen;
            Ok(())
        })
    }?;
    let mut ttl = None;
    // SAFETY: the kernel has filled msg_control and set msg_controllen; the macros stay within. Both kinds carry an int.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(control) = header.as_ref() {
            if [(libc::IPPROTO_IP, libc::IP_TTL), (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT)]
                .contains(&(control.cmsg_level, control.cmsg_type))
            {
                let value = libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned();
                ttl = u8::try_from(value).ok();
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    let from = from.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    Ok((length, from, ttl))
}

/// Ethtool commands that switch an offload on or off (linux/ethtool.h).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Offload {
    /// Transmit checksumming: off means that the kernel completes checksums itself.
    TransmitChecksum = 0x17,
    /// TCP segmentation: off means that segments fit the MTU.
    TcpSegmentation = 0x1f,
    /// Generic segmentation of data that the stack hands over in one piece.
    GenericSegmentation = 0x24,
}

/// Layout of `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Switches an offload of interface `name` (in the calling thread's namespace).
pub(crate) fn set_offload(name: &str, offload: Offload, on: bool) -> io::Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: creates a descriptor, passes no memory.
    let socket = owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: ifreq is plain data for which all zeroes is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let mut value = EthtoolValue { command: offload as u32, data: u32::from(on) };
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request names a NUL-terminated interface and points to an ethtool_value, as SIOCETHTOOL
    // asks; both outlive the call. The request code's type differs between C libraries, hence `as _`.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) }).map(drop)
}

/// An epoll instance whose events carry a `u64` token of the caller's.
pub(crate) struct Epoll(OwnedFd);

/// The events of one descriptor that [`Epoll::wait`] reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// Error or hang-up: a read or write will show which.
    pub failed: bool,
}

/// The events to watch a descriptor for. Errors and hang-ups are reported always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest(libc::c_int);

impl Interest {
    pub const READ: Self = Self(libc::EPOLLIN);
    pub const WRITE: Self = Self(libc::EPOLLOUT);
    pub const BOTH: Self = Self(libc::EPOLLIN | libc::EPOLLOUT);
    /// Both, reported once per change instead of as long as it is so.
    pub const EDGES: Self = Self(libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET);
}

impl Epoll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: creates a descriptor, passes no memory.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Self)
    }

    fn control(&self, operation: libc::c_int, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.0 as u32, u64: token };
        // SAFETY: both descriptors are live and `event` outlives the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &mut event) }).map(drop)
    }

    /// Watches `fd`, level-triggered, until it is closed.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_fd().as_raw_fd(), token, interest)
    }

    /// Changes what `fd` is watched for.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_fd().as_raw_fd(), token, interest)
    }

    /// Stops watching `fd` without closing it.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd.as_fd().as_raw_fd(), 0, Interest(0))
    }

    /// Sleeps until something is ready or `timeout` (None: forever) has passed; `ready` is replaced.
    pub fn wait(&self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        // Rounded up: waking before the deadline would only mean waiting again.
        let ms = timeout.map_or(-1, |t| i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        // SAFETY: `events` has room for the number of entries that is passed.
        let rc = unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as libc::c_int, ms)
        };
        let count = match check(rc) {
            Ok(n) => n as usize,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
            Err(e) => return Err(e),
        };
        ready.extend(events[..count].iter().map(|event| {
            let bits = event.events as libc::c_int;
            Ready {
                token: event.u64,
                readable: bits & libc::EPOLLIN != 0,
                writable: bits & libc::EPOLLOUT != 0,
                failed: bits & (libc::EPOLLERR | libc::EPOLLHUP) != 0,
            }
        }));
        Ok(())
    }
}

/// A one-shot timer on the monotonic clock with the resolution of the kernel's high-resolution timers
/// (the time-out of `epoll_wait` is whole milliseconds).
pub(crate) struct Timer(OwnedFd);

impl Timer {
    pub fn new() -> io::Result<Self> {
        // SAFETY: creates a descriptor, passes no memory.
        owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })
            .map(Self)
    }

    /// Arms the timer to become readable after `delay` (at least 1 ns: zero would disarm it).
    pub fn arm(&self, delay: Duration) -> io::Result<()> {
        let delay = delay.max(Duration::from_nanos(1));
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = libc::itimerspec {
            it_interval: zero,
            it_value: libc::timespec {
                tv_sec: delay.as_secs() as libc::time_t,
                tv_nsec: delay.subsec_nanos() as _,
            },
        };
        // SAFETY: `spec` outlives the call; the old value is not asked for.
        check(unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &spec, std::ptr::null_mut()) }).map(drop)
    }

    /// Acknowledges an expiry: the timer's descriptor is not readable until the next one.
    pub fn clear(&self) {
        drain_counter(self.0.as_fd());
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Wakes an epoll loop from another thread.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub fn new() -> io::Result<Self> {
        // SAFETY: creates a descriptor, passes no memory.
        owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(Self)
    }

    /// Makes the descriptor readable. Cannot fail in a way that matters: a full counter is readable too.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer holds the eight bytes that are announced.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    pub fn clear(&self) {
        drain_counter(self.0.as_fd());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads the counter of a timerfd or eventfd. An empty one is as good as a value.
fn drain_counter(fd: BorrowedFd<'_>) {
    let mut count = [0u8; 8];
    // SAFETY: the buffer has room for the eight bytes that are asked for.
    unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn timer_wakes_epoll_after_its_delay() {
        let (epoll, timer, mut ready) = (Epoll::new().unwrap(), Timer::new().unwrap(), Vec::new());
        epoll.add(&timer, 7, Interest::READ).unwrap();
        let start = Instant::now();
        timer.arm(Duration::from_micros(2500)).unwrap();
        epoll.wait(&mut ready, Some(Duration::from_secs(5))).unwrap();
        assert!(start.elapsed() >= Duration::from_micros(2500));
        assert_eq!(ready.iter().map(|r| (r.token, r.readable)).collect::<Vec<_>>(), [(7, true)]);
        timer.clear();
        epoll.wait(&mut ready, Some(Duration::ZERO)).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn waker_wakes_from_another_thread() {
        let (epoll, waker, mut ready) = (Epoll::new().unwrap(), Waker::new().unwrap(), Vec::new());
        epoll.add(&waker, 1, Interest::READ).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| waker.wake());
            epoll.wait(&mut ready, Some(Duration::from_secs(5))).unwrap();
        });
        assert_eq!(ready.len(), 1);
    }
}
