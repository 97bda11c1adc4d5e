//! Packet sockets, as far as measurements need them: sending in batches, and counting frames that pass a filter.
#![allow(unsafe_code)]

use super::Transmitter;
use crate::error::{Error, Result};
use crate::netns::Namespace;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Frames in one system call.
const BATCH: usize = 64;

fn check(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

/// A packet socket on one interface.
#[derive(Debug)]
pub(super) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens it in a namespace. It receives nothing until it is [bound](Self::bind).
    pub fn open(namespace: &Namespace) -> Result<Self> {
        let open = || {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            // SAFETY: no memory is passed.
            let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
            // SAFETY: the kernel has just returned this descriptor to us, so it has no other owner.
            Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
        };
        let failed = |e| Error::os(format!("cannot open a packet socket in {}", namespace.name()), e);
        namespace.enter(open)?.map_err(failed)
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        let length = mem::size_of::<T>() as libc::socklen_t;
        // SAFETY: pointer and length describe `value`, which the kernel reads.
        check(unsafe {
            libc::setsockopt(self.0.as_raw_fd(), level, option, (&raw const *value).cast(), length)
        })
        .map(drop)
    }

    /// Sends to, and receives from, the interface called `name` in the socket's namespace. `protocol` 0: never receives.
    pub fn bind(&self, name: &str, protocol: u16) -> io::Result<()> {
        // SAFETY: all zeroes is a value of this plain structure.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: the request names a NUL-terminated interface; the kernel writes its index, which is read.
        let index = unsafe {
            check(libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFINDEX as _, &raw mut request))?;
            request.ifr_ifru.ifru_ifindex
        };
        // SAFETY: all zeroes is a value of this plain structure.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = index;
        let length = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: pointer and length describe `address`.
        check(unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length) }).map(drop)
    }

    /// Sends past the queueing discipline, which veth does not have anyway.
    pub fn bypass_queueing(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)
    }

    /// Sizes a buffer, beyond the system's limit if allowed; returns the kernel's actual size.
    pub fn buffer(&self, receive: bool, bytes: i32) -> io::Result<usize> {
        let (force, polite) = if receive {
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)
        } else {
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
        };
        self.set(libc::SOL_SOCKET, force, &bytes).or_else(|_| self.set(libc::SOL_SOCKET, polite, &bytes))?;
        let (mut size, mut length) = (0i32, mem::size_of::<i32>() as libc::socklen_t);
        // SAFETY: pointer and length describe `size`.
        check(unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                polite,
                (&raw mut size).cast(),
                &raw mut length,
            )
        })?;
        Ok(usize::try_from(size).unwrap_or(0))
    }

    /// Notes when frames arrive.
    pub fn timestamps(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
    }

    /// From now on only frames that this classic BPF program accepts count.
    pub fn filter(&self, program: &[libc::sock_filter]) -> io::Result<()> {
        let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // The kernel copies it and does not write to it, whatever the type says.
        let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Frames that the filter let through since the last call, whether or not there was room for them.
    pub fn take_count(&self) -> io::Result<u64> {
        // SAFETY: all zeroes is a value of this plain structure.
        let mut stats: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&stats) as libc::socklen_t;
        // SAFETY: pointer and length describe `stats`.
        check(unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        })?;
        // packet(7): the number of packets includes those dropped for want of room.
        Ok(u64::from(stats.tp_packets))
    }

    /// Receives one frame, as far as it fits, with the time of its arrival in nanoseconds of the system's clock (zero
    /// if the kernel does not provide it). `None` without a frame.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, u64)>> {
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut control = [0u64; 16];
        // SAFETY: all zeroes is a value of this plain structure.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control) as _;
        // SAFETY: the message describes buffers that outlive the call, each with its length.
        let n = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        let mut time = 0;
        // SAFETY: the kernel has filled msg_control and set msg_controllen; the macros stay within.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while let Some(control) = header.as_ref() {
                if (control.cmsg_level, control.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                    let at: libc::timespec =
                        libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                    time = at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64;
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        Ok(Some((n as usize, time)))
    }

    /// Sends consecutive frames of `length` bytes; returns how many the kernel took.
    fn send(&self, frames: &[u8], length: usize) -> io::Result<usize> {
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: all zeroes is a value of this plain structure.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let mut count = 0;
        for ((frame, part), message) in frames.chunks_exact(length).zip(&mut parts).zip(&mut messages) {
            *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: length };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: every message describes a frame that outlives the call; sending only reads.
        let sent = unsafe {
            libc::sendmmsg(self.0.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _)
        };
        match check(sent) {
            Ok(sent) => Ok(sent as usize),
            // The socket's buffer is full, or the interface's queue: later.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR)) => Ok(0),
            Err(e) => Err(e),
        }
    }
}

/// Sends frames through a packet socket: works everywhere, rootless too.
#[derive(Debug)]
pub struct PacketSender {
    socket: PacketSocket,
    interface: String,
}

impl PacketSender {
    /// On an interface of a namespace.
    pub fn open(namespace: &Namespace, interface: &str) -> Result<Self> {
        let socket = PacketSocket::open(namespace)?;
        let failed = |e| Error::os(format!("cannot send on {interface} in {}", namespace.name()), e);
        socket.bind(interface, 0).map_err(failed)?;
        socket.bypass_queueing().map_err(failed)?;
        socket.buffer(false, 4 << 20).map_err(failed)?;
        Ok(Self { socket, interface: interface.to_owned() })
    }
}

impl Transmitter for PacketSender {
    fn transmit(&mut self, frames: &[u8], length: usize) -> Result<usize> {
        let failed = |e| Error::os(format!("cannot send on {}", self.interface), e);
        self.socket.send(frames, length).map_err(failed)
    }
}
