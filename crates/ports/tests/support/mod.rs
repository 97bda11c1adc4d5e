//! Network namespaces and veth pairs for the tests, through netlink (rtnetlink(7)).

#![allow(unsafe_code)]
#![allow(dead_code)]

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

/// Enters a new user namespace as its root. Only possible while the process has a single thread.
pub fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: no pointers.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
}

pub fn is_root() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::geteuid() == 0 }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A network namespace. It is removed, with all its interfaces, when its last user ends.
pub struct Netns(File);

impl Netns {
    pub fn new() -> io::Result<Self> {
        thread::spawn(|| {
            // SAFETY: no pointers; only this thread moves.
            check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            link_up("lo")?;
            File::open("/proc/thread-self/ns/net").map(Self)
        })
        .join()
        .expect("the thread does not panic")
    }

    /// Runs `work` in a thread inside the namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                // SAFETY: no pointers; only this thread moves.
                check(unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) }).expect("setns");
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Makes a veth pair with one end here and the other in `other`; both are up.
    pub fn veth(&self, name: &str, other: &Netns, peer: &str) -> io::Result<()> {
        self.veth_with_queues(name, other, peer, 1)
    }

    /// With so many queues in each direction at both ends.
    pub fn veth_with_queues(&self, name: &str, other: &Netns, peer: &str, queues: u32) -> io::Result<()> {
        let add_queues = |request: &mut Request| {
            request.attribute(libc::IFLA_NUM_TX_QUEUES, &queues.to_ne_bytes());
            request.attribute(libc::IFLA_NUM_RX_QUEUES, &queues.to_ne_bytes());
        };
        self.run(|| {
            let mut request = Request::link(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, 0);
            request.string(libc::IFLA_IFNAME, name);
            if queues > 1 {
                add_queues(&mut request);
            }
            request.nest(libc::IFLA_LINKINFO, |info| {
                info.string(libc::IFLA_INFO_KIND, "veth");
                info.nest(libc::IFLA_INFO_DATA, |data| {
                    data.nest(VETH_INFO_PEER, |end| {
                        end.bytes.extend_from_slice(&[0; 16]);
                        end.string(libc::IFLA_IFNAME, peer);
                        if queues > 1 {
                            add_queues(end);
                        }
                        end.attribute(libc::IFLA_NET_NS_FD, &other.0.as_raw_fd().to_ne_bytes());
                    });
                });
            });
            request.send()
        })?;
        self.run(|| link_up(name))?;
        other.run(|| link_up(peer))?;
        self.wait_running(name)?;
        other.wait_running(peer)
    }

    /// Waits until the interface carries frames. A kernel worker sees to that some time after both ends of a pair
    /// are up; before, frames are sent into nothing.
    pub fn wait_running(&self, interface: &str) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.run(|| is_operational(interface))? {
            if Instant::now() >= deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the link does not come up"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        // Changes wait for the lock under which the worker says "up" and then makes it true.
        self.link_up(interface)
    }

    /// Gives an interface an address at once, without looking for duplicates.
    pub fn address(&self, interface: &str, address: IpAddr, prefix: u8) -> io::Result<()> {
        self.run(|| {
            let mut request = Request::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
            let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
            let nodad = 2;
            request.bytes.extend_from_slice(&[family, prefix, nodad, 0]);
            request.bytes.extend_from_slice(&index(interface)?.to_ne_bytes());
            let octets = match address {
                IpAddr::V4(v4) => v4.octets().to_vec(),
                IpAddr::V6(v6) => v6.octets().to_vec(),
            };
            request.attribute(libc::IFA_LOCAL, &octets);
            request.attribute(libc::IFA_ADDRESS, &octets);
            request.send()
        })
    }

    pub fn link_up(&self, interface: &str) -> io::Result<()> {
        self.run(|| link_up(interface))
    }

    pub fn link_down(&self, interface: &str) -> io::Result<()> {
        self.run(|| {
            let mut request = Request::link(libc::RTM_NEWLINK, 0, libc::IFF_UP as u32);
            request.string(libc::IFLA_IFNAME, interface);
            request.send()
        })
    }

    pub fn mtu(&self, interface: &str, bytes: u32) -> io::Result<()> {
        self.run(|| {
            let mut request = Request::link(libc::RTM_NEWLINK, 0, 0);
            request.string(libc::IFLA_IFNAME, interface);
            request.attribute(libc::IFLA_MTU, &bytes.to_ne_bytes());
            request.send()
        })
    }

    /// Lets the interface send so many bytes a second and no more.
    pub fn token_bucket(&self, interface: &str, bytes_per_s: u32) -> io::Result<()> {
        self.run(|| {
            let mut request = Request::new(libc::RTM_NEWQDISC, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
            request.bytes.extend_from_slice(&[0; 4]);
            request.bytes.extend_from_slice(&index(interface)?.to_ne_bytes());
            // Handle: the kernel chooses. Parent: the interface itself.
            request.bytes.extend_from_slice(&0u32.to_ne_bytes());
            request.bytes.extend_from_slice(&u32::MAX.to_ne_bytes());
            request.bytes.extend_from_slice(&0u32.to_ne_bytes());
            request.string(TCA_KIND, "tbf");
            // `tc_tbf_qopt`: rate (of Ethernet frames), no peak rate, limit in bytes, depth in ticks.
            let mut options = vec![0, 1, 0, 0, 0, 0, 0, 0];
            options.extend_from_slice(&bytes_per_s.to_ne_bytes());
            options.extend_from_slice(&[0; 12]);
            for number in [100_000u32, 1_000_000, 0] {
                options.extend_from_slice(&number.to_ne_bytes());
            }
            request.nest(TCA_OPTIONS, |nested| {
                nested.attribute(TCA_TBF_PARMS, &options);
                nested.attribute(TCA_TBF_BURST, &10_000u32.to_ne_bytes());
            });
            request.send()
        })
    }

    pub fn link_delete(&self, interface: &str) -> io::Result<()> {
        self.run(|| {
            let mut request = Request::link(libc::RTM_DELLINK, 0, 0);
            request.string(libc::IFLA_IFNAME, interface);
            request.send()
        })
    }
}

const VETH_INFO_PEER: u16 = 1;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_BURST: u16 = 6;

fn link_up(interface: &str) -> io::Result<()> {
    let mut request = Request::link(libc::RTM_NEWLINK, 0, libc::IFF_UP as u32);
    request.bytes[24..28].copy_from_slice(&(libc::IFF_UP as u32).to_ne_bytes());
    request.string(libc::IFLA_IFNAME, interface);
    request.send()
}

/// The operational state of RFC 2863. Unlike the flag IFF_RUNNING it distinguishes "up" from "still unknown".
fn is_operational(interface: &str) -> io::Result<bool> {
    let mut request = Request::link(libc::RTM_GETLINK, 0, 0);
    request.string(libc::IFLA_IFNAME, interface);
    let answer = request.exchange()?;
    let mut attributes = answer.get(32..).unwrap_or_default();
    while let [l0, l1, k0, k1, rest @ ..] = attributes {
        let length = usize::from(u16::from_ne_bytes([*l0, *l1]));
        if u16::from_ne_bytes([*k0, *k1]) == libc::IFLA_OPERSTATE {
            return Ok(rest.first() == Some(&IF_OPER_UP));
        }
        attributes = attributes.get(length.next_multiple_of(4).max(4)..).unwrap_or_default();
    }
    Ok(false)
}

const IF_OPER_UP: u8 = 6;

fn index(interface: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(interface)?;
    // SAFETY: the name ends with a zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// A netlink request: `nlmsghdr`, the family's header, attributes.
struct Request {
    bytes: Vec<u8>,
}

impl Request {
    fn new(kind: u16, flags: libc::c_int) -> Self {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        bytes[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
        Self { bytes }
    }

    /// With an `ifinfomsg` that changes the flags in `change` to zero.
    fn link(kind: u16, flags: libc::c_int, change: u32) -> Self {
        let mut request = Self::new(kind, flags);
        request.bytes.extend_from_slice(&[0; 12]);
        request.bytes.extend_from_slice(&change.to_ne_bytes());
        request
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nest(kind, |request| request.bytes.extend_from_slice(value));
    }

    fn string(&mut self, kind: u16, value: &str) {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat());
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        fill(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn send(self) -> io::Result<()> {
        self.exchange().map(|_| ())
    }

    /// Sends the request and returns the answer, which is not an error.
    fn exchange(mut self) -> io::Result<Vec<u8>> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        // SAFETY: no pointers; the descriptor is ours.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE);
            check(fd)?;
            OwnedFd::from_raw_fd(fd)
        };
        let mut answer = vec![0u8; 32 * 1024];
        // SAFETY: the pointers and lengths describe the two buffers.
        let received = unsafe {
            check(libc::send(socket.as_raw_fd(), self.bytes.as_ptr().cast(), self.bytes.len(), 0) as i32)?;
            libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
        };
        check(received as i32)?;
        answer.truncate(received as usize);
        let kind = u16::from_ne_bytes([answer[4], answer[5]]);
        // After the header comes the error, 0 for success.
        match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
            error if libc::c_int::from(kind) == libc::NLMSG_ERROR && error != 0 => {
                Err(io::Error::from_raw_os_error(-error))
            }
            _ => Ok(answer),
        }
    }
}
