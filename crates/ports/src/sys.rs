//! The system calls that the standard library lacks, behind safe functions. The only unsafe code of the crate.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::offload::VNET_HEADER_BYTES;

pub(crate) mod bpf;
pub(crate) mod ethtool;
mod mapping;
pub(crate) mod outgoing;
pub(crate) mod packet_ring;
pub(crate) mod tun;
pub(crate) mod xsk;

/// Messages handed to the kernel in one call at most.
pub(crate) const MAX_BATCH: usize = 64;

/// Room for one frame: the largest super-frame (64 KB and headers) behind four bytes for a VLAN tag. Not a multiple
/// of the page size, lest the starts of all frames compete for the same few cache lines.
pub(crate) const SLOT_BYTES: usize = 66_752;
pub(crate) const VLAN_ROOM: usize = 4;

/// In u64, which aligns it for `cmsghdr`; room for one `tpacket_auxdata` (40 bytes) and some.
const CONTROL_WORDS: usize = 8;

/// Lets threads of the usual priority run before the calling thread, if there are more of them than processors.
pub fn lower_priority() {
    const NICE: libc::c_int = 10;
    // SAFETY: it takes numbers only. On Linux 0 means the calling thread, and whoever may run may lower the priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Bytes of a page of memory.
fn page_size() -> usize {
    // SAFETY: it takes a number only.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn check(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// `check` that tries again when a signal came in between.
fn retry(mut call: impl FnMut() -> libc::c_int) -> io::Result<usize> {
    loop {
        match check(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn own(result: libc::c_int) -> io::Result<OwnedFd> {
    check(result)?;
    // SAFETY: the kernel has just made the descriptor for us; it is not shared.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// A raw packet socket that receives nothing until it is bound.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    own(unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0)
    })
}

fn set_option<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), length)
    })?;
    Ok(())
}

/// Sets an option of packet sockets that is an int.
pub(crate) fn set_packet_option(socket: &OwnedFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, option, &value)
}

/// Enlarges both buffers, beyond the system's limit if allowed.
pub(crate) fn set_buffers(socket: &OwnedFd, bytes: libc::c_int) -> io::Result<()> {
    for (force, polite) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        set_option(socket, libc::SOL_SOCKET, force, &bytes)
            .or_else(|_| set_option(socket, libc::SOL_SOCKET, polite, &bytes))?;
    }
    Ok(())
}

/// Receives from now on everything that arrives on the interface.
pub(crate) fn bind(socket: &OwnedFd, interface: libc::c_int) -> io::Result<()> {
    bind_protocol(socket, interface, libc::ETH_P_ALL as u16)
}

/// Receives from now on the socket's share of all frames that arrive on the interface: the group of this number shares
/// them, or a new one for `None`. Returns its number.
pub(crate) fn bind_in_group(socket: &OwnedFd, interface: libc::c_int, group: Option<u16>) -> io::Result<u16> {
    // Until it is in the group the socket would also get the others' frames.
    let mut nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
    bind(socket, interface)?;
    let by_hash = libc::PACKET_FANOUT_HASH;
    let value = match group {
        Some(number) => u32::from(number) | by_hash << 16,
        None => (by_hash | libc::PACKET_FANOUT_FLAG_UNIQUEID) << 16,
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &value)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)?;
    if let Some(number) = group {
        return Ok(number);
    }
    let mut made = 0u32;
    let mut length = mem::size_of_val(&made) as libc::socklen_t;
    let (fd, option) = (socket.as_raw_fd(), libc::PACKET_FANOUT);
    // SAFETY: the pointer and the length describe `made`.
    check(unsafe { libc::getsockopt(fd, libc::SOL_PACKET, option, (&raw mut made).cast(), &mut length) })?;
    Ok(made as u16)
}

/// Sends through the interface, and receives nothing.
pub(crate) fn bind_to_send(socket: &OwnedFd, interface: libc::c_int) -> io::Result<()> {
    bind_protocol(socket, interface, 0)
}

fn bind_protocol(socket: &OwnedFd, interface: libc::c_int, protocol: u16) -> io::Result<()> {
    // SAFETY: all-zero is a value of this plain structure.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface;
    let length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `address`.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(())
}

/// Promiscuous mode for as long as the socket lives and is bound to the interface.
pub(crate) fn set_promiscuous(socket: &OwnedFd, interface: libc::c_int) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// The error that a socket has noted, if any; it forgets it.
pub(crate) fn take_error(socket: &OwnedFd) -> Option<io::Error> {
    let mut error: libc::c_int = 0;
    let mut length = mem::size_of_val(&error) as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: the pointer and the length describe `error`.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &mut length)
    };
    (result == 0 && error != 0).then(|| io::Error::from_raw_os_error(error))
}

/// Frames that the kernel dropped because the receive buffer was full, since the last call.
pub(crate) fn take_kernel_drops(socket: &OwnedFd) -> io::Result<u64> {
    // SAFETY: all-zero is a value of this plain structure.
    let mut stats: libc::tpacket_stats = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&stats) as libc::socklen_t;
    let (fd, option) = (socket.as_raw_fd(), libc::PACKET_STATISTICS);
    // SAFETY: the pointer and the length describe `stats`.
    let result =
        unsafe { libc::getsockopt(fd, libc::SOL_PACKET, option, (&raw mut stats).cast(), &mut length) };
    check(result)?;
    Ok(u64::from(stats.tp_drops))
}

/// The kernel's data about an interface.
pub(crate) struct Interface {
    pub index: libc::c_int,
    pub up: bool,
    /// The link is up: interface up, and with a carrier.
    pub running: bool,
    /// ARPHRD_*
    pub hardware: u16,
    /// Of an Ethernet interface, and of the loopback interface, where it is zero.
    pub mac: Option<[u8; 6]>,
    /// Bytes of the largest packet, without the Ethernet header.
    pub mtu: u32,
}

/// A question about an interface, to be filled in. ENODEV where the name cannot be one.
fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero is a value of this plain structure.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Looks an interface up in the network namespace of the socket, which need not be that of the thread. ENODEV if it
/// does not exist.
pub(crate) fn interface(socket: &OwnedFd, name: &str) -> io::Result<Interface> {
    let mut request = interface_request(name)?;
    let mut ask = |what: libc::c_ulong| {
        // SAFETY: each of these requests reads the name and writes one member of the union.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), what as _, &raw mut request) })?;
        Ok::<_, io::Error>(request.ifr_ifru)
    };
    // SAFETY: every member of the union is plain data, and the kernel has just written the one that is read.
    unsafe {
        let flags = i32::from(ask(libc::SIOCGIFFLAGS as libc::c_ulong)?.ifru_flags);
        let address = ask(libc::SIOCGIFHWADDR as libc::c_ulong)?.ifru_hwaddr;
        let has_mac = matches!(address.sa_family, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK);
        Ok(Interface {
            index: ask(libc::SIOCGIFINDEX as libc::c_ulong)?.ifru_ifindex,
            up: flags & libc::IFF_UP != 0,
            running: flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0,
            hardware: address.sa_family,
            mac: has_mac.then(|| std::array::from_fn(|i| address.sa_data[i] as u8)),
            mtu: ask(libc::SIOCGIFMTU as libc::c_ulong)?.ifru_mtu as u32,
        })
    }
}

/// Whether an interface of the thread's network namespace has an IPv6 address that is not only for its link.
fn has_ipv6_address(name: &str) -> bool {
    const LINK_LOCAL: &str = "20";
    // Address, number of the interface, prefix length, scope, flags, name.
    let concerns = |line: &str| {
        let mut words = line.split_whitespace().skip(3);
        words.next() != Some(LINK_LOCAL) && words.nth(1) == Some(name)
    };
    std::fs::read_to_string("/proc/thread-self/net/if_inet6").is_ok_and(|all| all.lines().any(concerns))
}

/// Whether an interface of the thread's network namespace, which is also that of the socket, has an IP address that is not only for
/// its link.
pub(crate) fn has_ip_address(socket: &OwnedFd, name: &str) -> bool {
    if has_ipv6_address(name) {
        return true;
    }
    let Ok(mut request) = interface_request(name) else {
        return false;
    };
    request.ifr_ifru.ifru_addr.sa_family = libc::AF_INET as libc::sa_family_t;
    // SAFETY: the request reads the name and the family, and writes an address into the union.
    unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFADDR as libc::c_ulong as _, &raw mut request) == 0 }
}

/// Runs `work` in a separate thread inside a network namespace. It fails if the thread cannot enter it.
pub(crate) fn within_namespace<T: Send>(
    namespace: &std::fs::File,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let inside = || {
        // SAFETY: no pointers; only this thread moves.
        check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
        Ok(work())
    };
    std::thread::scope(|scope| {
        let panicked = |_| io::Error::other("the thread that makes the port has panicked");
        scope.spawn(inside).join().map_err(panicked)?
    })
}

/// Makes `fd` refer to the file of `to`; its old file is closed if no other descriptor refers to it.
pub(crate) fn replace(fd: &OwnedFd, to: OwnedFd) -> io::Result<()> {
    // SAFETY: both descriptors are ours.
    check(unsafe { libc::dup3(to.as_raw_fd(), fd.as_raw_fd(), libc::O_CLOEXEC) })?;
    Ok(())
}

/// CLOCK_MONOTONIC, which is the clock that BPF programs have.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` outlives the call, which cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The kernel's number of this thread.
pub(crate) fn thread_id() -> libc::pid_t {
    // SAFETY: cannot fail, touches no memory.
    unsafe { libc::gettid() }
}

/// An otherwise unused signal.
fn interruption() -> libc::c_int {
    libc::SIGRTMAX() - 3
}

/// From now on [`interrupt`] does nothing but end a system call.
pub(crate) fn prepare_interruptions() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all-zero is a value of this plain structure.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does nothing at all, so that it does no harm wherever it interrupts.
    check(unsafe { libc::sigaction(interruption(), &raw const action, std::ptr::null_mut()) })?;
    Ok(())
}

/// Interrupts a system call of another thread of this process.
pub(crate) fn interrupt(thread: libc::pid_t) {
    // SAFETY: no pointers. A thread that has ended is harmless: the number is looked up within this process.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, interruption()) };
}

/// A descriptor that becomes readable when one of `fds` does.
pub(crate) fn readable_when_any(fds: &[RawFd]) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let epoll = own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    for &fd in fds {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: `event` outlives the call.
        check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) })?;
    }
    Ok(epoll)
}

/// A socket on which the kernel reports changes of this network namespace's interfaces.
pub(crate) fn link_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let socket = own(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) })?;
    // SAFETY: all-zero is a value of this plain structure.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    address.nl_groups = libc::RTMGRP_LINK as u32;
    let length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `address`.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// The messages with which the kernel answers a request of rtnetlink for all objects of a kind.
pub(crate) fn dump(request: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    const HEADER: usize = mem::size_of::<libc::nlmsghdr>();
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let socket = own(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) })?;
    // SAFETY: the pointer and the length describe `request`.
    retry(|| unsafe {
        libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) as libc::c_int
    })?;
    let mut messages = Vec::new();
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        // SAFETY: the pointer and the length describe `buffer`.
        let got = retry(|| unsafe {
            libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) as libc::c_int
        })?;
        let mut rest = &buffer[..got];
        while let [l0, l1, l2, l3, k0, k1, ..] = *rest {
            let length =
                (u32::from_ne_bytes([l0, l1, l2, l3]) as usize).clamp(HEADER, rest.len().max(HEADER));
            let kind = libc::c_int::from(u16::from_ne_bytes([k0, k1]));
            let body = rest.get(HEADER..length).unwrap_or_default();
            match (kind, body) {
                (libc::NLMSG_DONE, _) => return Ok(messages),
                (libc::NLMSG_ERROR, [e0, e1, e2, e3, ..]) => {
                    let error = i32::from_ne_bytes([*e0, *e1, *e2, *e3]);
                    return Err(io::Error::from_raw_os_error(-error));
                }
                _ => messages.push(rest[..length.min(rest.len())].to_vec()),
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// Discards pending data on a socket and returns whether any was there, or had been before it overflowed.
pub(crate) fn drain(socket: &OwnedFd) -> bool {
    let mut any = false;
    let mut buffer = [0u8; 4096];
    loop {
        // SAFETY: the pointer and the length describe `buffer`; the rest of a longer message is cut off.
        let got = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        if got >= 0 {
            any = true;
            continue;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOBUFS) => any = true,
            Some(libc::EINTR) => {}
            _ => return any,
        }
    }
}

/// One received message.
pub(crate) struct Message<'a> {
    /// The header that describes unfinished work.
    pub vnet: [u8; VNET_HEADER_BYTES],
    /// Four unused bytes, then the frame as far as it fitted.
    pub room_and_frame: &'a mut [u8],
    /// The frame was longer.
    pub truncated: bool,
    /// TPID and TCI of a VLAN tag that the kernel took out of the frame.
    pub vlan: Option<(u16, u16)>,
    /// It is a frame that this machine sent.
    pub outgoing: bool,
}

/// The buffers that a batch is received into.
pub(crate) struct ReceiveBuffers {
    frames: Vec<u8>,
    vnet: [[u8; VNET_HEADER_BYTES]; MAX_BATCH],
    control: [[u64; CONTROL_WORDS]; MAX_BATCH],
    from: [libc::sockaddr_ll; MAX_BATCH],
    meta: Vec<Meta>,
}

struct Meta {
    frame_bytes: usize,
    truncated: bool,
    vlan: Option<(u16, u16)>,
}

impl ReceiveBuffers {
    pub fn new() -> Box<Self> {
        Box::new(Self {
            frames: vec![0; SLOT_BYTES * MAX_BATCH],
            vnet: [[0; VNET_HEADER_BYTES]; MAX_BATCH],
            control: [[0; CONTROL_WORDS]; MAX_BATCH],
            // SAFETY: all-zero is a value of this plain structure.
            from: unsafe { mem::zeroed() },
            meta: Vec::with_capacity(MAX_BATCH),
        })
    }

    /// Receives at most `batch` messages, without waiting. They are there until the next call.
    pub fn receive(
        &mut self,
        socket: &OwnedFd,
        batch: usize,
    ) -> io::Result<impl Iterator<Item = Message<'_>>> {
        self.meta.clear();
        let batch = batch.min(MAX_BATCH);
        let mut parts = [const { MaybeUninit::<[libc::iovec; 2]>::uninit() }; MAX_BATCH];
        // SAFETY: all-zero is a value of this plain structure.
        let mut messages: [libc::mmsghdr; MAX_BATCH] = unsafe { mem::zeroed() };
        for (index, slot) in self.frames.chunks_exact_mut(SLOT_BYTES).take(batch).enumerate() {
            let vnet = &mut self.vnet[index];
            let parts = parts[index].write([
                libc::iovec { iov_base: vnet.as_mut_ptr().cast(), iov_len: vnet.len() },
                libc::iovec {
                    iov_base: slot[VLAN_ROOM..].as_mut_ptr().cast(),
                    iov_len: SLOT_BYTES - VLAN_ROOM,
                },
            ]);
            let message = &mut messages[index].msg_hdr;
            message.msg_iov = parts.as_mut_ptr();
            message.msg_iovlen = 2;
            message.msg_name = (&raw mut self.from[index]).cast();
            message.msg_namelen = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            message.msg_control = self.control[index].as_mut_ptr().cast();
            message.msg_controllen = mem::size_of_val(&self.control[index]) as _;
        }
        let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT as _);
        // SAFETY: every message describes buffers of `self` that outlive the call, each with its length; the
        // kernel writes only into those.
        let count = retry(|| unsafe {
            libc::recvmmsg(fd, messages.as_mut_ptr(), batch as libc::c_uint, flags, std::ptr::null_mut())
        })?;
        for message in &messages[..count] {
            self.meta.push(Meta {
                frame_bytes: (message.msg_len as usize).saturating_sub(VNET_HEADER_BYTES),
                truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                vlan: vlan(&message.msg_hdr),
            });
        }
        let slots = self.frames.chunks_exact_mut(SLOT_BYTES).zip(&self.vnet).zip(&self.from);
        Ok(slots.zip(&self.meta).map(|(((slot, vnet), from), meta)| Message {
            vnet: *vnet,
            room_and_frame: &mut slot[..(VLAN_ROOM + meta.frame_bytes).min(SLOT_BYTES)],
            truncated: meta.truncated,
            vlan: meta.vlan,
            outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
        }))
    }
}

/// Finds the VLAN tag in a message's auxiliary data.
fn vlan(message: &libc::msghdr) -> Option<(u16, u16)> {
    // SAFETY: the kernel has filled msg_control and set msg_controllen; the macros stay within.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = control.as_ref() {
            let (level, kind) = (header.cmsg_level, header.cmsg_type);
            let length = libc::CMSG_LEN(mem::size_of::<libc::tpacket_auxdata>() as libc::c_uint);
            if (level, kind) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) && header.cmsg_len >= length as _ {
                let data: libc::tpacket_auxdata =
                    libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>().read_unaligned();
                if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
                    return None;
                }
                let named = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
                return Some((if named { data.tp_vlan_tpid } else { 0x8100 }, data.tp_vlan_tci));
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
    None
}

/// An event counter: readable while it is not zero.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    own(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })
}

/// Makes the event counter readable.
pub(crate) fn raise(event: BorrowedFd) -> io::Result<()> {
    let one = 1u64;
    // SAFETY: eight bytes are read from `one`.
    let result = unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) };
    // A full counter is also readable.
    if result < 0 && io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Resets the event counter and says whether it was raised.
pub(crate) fn lower(event: BorrowedFd) -> bool {
    let mut count = 0u64;
    // SAFETY: at most eight bytes are written into `count`.
    unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) == 8 }
}

/// Waits until one of the descriptors has a requested event or an error, or until the timeout.
pub(crate) fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.map(|time| libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos() as _,
    });
    let pointer = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the pointer and the length describe `fds`; `timeout` outlives the call; no signal mask is given.
    check(unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, pointer, std::ptr::null()) })
}

/// An entry for [`poll`].
pub(crate) fn poll_entry(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}
