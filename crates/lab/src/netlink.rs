//! Just enough rtnetlink to wire a rack: veth pairs, addresses, routes, permanent neighbours.
//!
//! Written out by hand because five kinds of message with one reply each are smaller than the crates that
//! cover all of netlink, and because a rack must not depend on the `ip` command being installed.
//! Layouts: linux/netlink.h, linux/rtnetlink.h, linux/if_link.h, linux/neighbour.h, linux/veth.h.

use crate::error::{Error, Result};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

const NLM_F_REQUEST: u16 = 0x01;
const NLM_F_ACK: u16 = 0x04;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWNEIGH: u16 = 28;
const RTM_NEWQDISC: u16 = 36;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_OPERSTATE: u16 = 16;
/// RFC 2863: the interface passes packets.
const IF_OPER_UP: u8 = 6;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const VETH_INFO_PEER: u16 = 1;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;
/// Skip duplicate address detection: an address is usable at once.
const IFA_F_NODAD: u32 = 0x02;

const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
/// The gateway is on the link, whatever the addresses (linux/rtnetlink.h).
const RTNH_F_ONLINK: u32 = 4;
const RTN_UNICAST: u8 = 1;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;

const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// A netlink message under construction: header, fixed part, attributes.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
        bytes[8..12].copy_from_slice(&1u32.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Self(bytes)
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.nest(kind, |m| m.0.extend_from_slice(value))
    }

    /// An attribute whose content `fill` writes. Lengths are those of the content, padding excluded.
    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.0.len();
        self.0.extend_from_slice(&[0, 0]);
        self.0.extend_from_slice(&kind.to_ne_bytes());
        fill(self);
        // All attributes written here are far below 64 KiB.
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// Fixed part of link messages: family, padding, type, index, flags, mask of changed flags.
fn ifinfo(index: u32, flags: u32) -> [u8; 16] {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..16].copy_from_slice(&flags.to_ne_bytes());
    fixed
}

/// One end of a veth pair that is to be made.
pub struct VethEnd<'a> {
    /// The interface's name.
    pub name: &'a str,
    /// Interface index in its namespace, which must be free there.
    pub index: u32,
    /// Its address.
    pub mac: [u8; 6],
    /// Where it is.
    pub namespace: BorrowedFd<'a>,
    /// Queues in each direction.
    pub queues: u32,
}

impl VethEnd<'_> {
    fn write(&self, message: &mut Message, mtu: u32) {
        let mut name = self.name.as_bytes().to_vec();
        name.push(0);
        message
            .attribute(IFLA_IFNAME, &name)
            .attribute(IFLA_ADDRESS, &self.mac)
            .attribute(IFLA_MTU, &mtu.to_ne_bytes())
            .attribute(IFLA_NET_NS_FD, &self.namespace.as_raw_fd().to_ne_bytes());
        if self.queues != 1 {
            message
                .attribute(IFLA_NUM_TX_QUEUES, &self.queues.to_ne_bytes())
                .attribute(IFLA_NUM_RX_QUEUES, &self.queues.to_ne_bytes());
        }
    }
}

/// The result of a request, if `reply` is its acknowledgement: an error message, with code 0 for success.
fn acknowledgement(reply: &[u8]) -> Option<io::Result<()>> {
    let header: &[u8; 20] = reply.first_chunk()?;
    if u16::from_ne_bytes([header[4], header[5]]) != NLMSG_ERROR {
        return None;
    }
    let code = i32::from_ne_bytes([header[16], header[17], header[18], header[19]]);
    Some(if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) })
}

/// The first byte of an attribute's value in a description of a link.
fn find_attribute(message: &[u8], wanted: u16) -> Option<u8> {
    let mut rest = message.get(32..)?;
    while let Some([a, b, c, d]) = rest.first_chunk().copied() {
        let (length, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        if kind == wanted && length > 4 {
            return rest.get(4).copied();
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

/// A route socket of the namespace in which it was opened.
pub struct Netlink(Socket);

impl Netlink {
    /// Opens the socket in the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        let protocol = Protocol::from(libc::NETLINK_ROUTE);
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(protocol))
            .and_then(|s| s.set_read_timeout(Some(Duration::from_secs(10))).map(|()| s))
            .map_err(|e| Error::os("cannot open a netlink socket", e))?;
        Ok(Self(socket))
    }

    /// Sends one request and waits for its acknowledgement.
    fn request(&mut self, message: Message, what: impl FnOnce() -> String) -> Result<()> {
        match self.exchange(&message.finish()) {
            Ok(()) => Ok(()),
            Err(e) => Err(Error::os(what(), e)),
        }
    }

    fn exchange(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.send(message)?;
        let mut reply = [0u8; 4096];
        loop {
            let n = self.0.read(&mut reply)?;
            if let Some(done) = acknowledgement(&reply[..n]) {
                return done;
            }
        }
    }

    /// Makes a veth pair, each end at once in its namespace.
    pub fn add_veth(&mut self, a: &VethEnd<'_>, b: &VethEnd<'_>, mtu: u32) -> Result<()> {
        let mut message = Message::new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &ifinfo(a.index, 0));
        a.write(&mut message, mtu);
        message.nest(IFLA_LINKINFO, |m| {
            m.attribute(IFLA_INFO_KIND, b"veth\0");
            m.nest(IFLA_INFO_DATA, |m| {
                m.nest(VETH_INFO_PEER, |m| {
                    m.0.extend_from_slice(&ifinfo(b.index, 0));
                    b.write(m, mtu);
                });
            });
        });
        self.request(message, || format!("cannot make the veth pair {}-{}", a.name, b.name))
    }

    /// Brings an interface up.
    pub fn set_up(&mut self, index: u32) -> Result<()> {
        let message = Message::new(RTM_NEWLINK, 0, &ifinfo(index, libc::IFF_UP as u32));
        self.request(message, || format!("cannot bring interface {index} up"))
    }

    /// Brings an interface down.
    pub fn set_down(&mut self, index: u32) -> Result<()> {
        let mut fixed = ifinfo(index, libc::IFF_UP as u32);
        // The flag stays in the mask of attributes to change.
        fixed[8..12].fill(0);
        let message = Message::new(RTM_NEWLINK, 0, &fixed);
        self.request(message, || format!("cannot bring interface {index} down"))
    }

    /// Changes the largest packet that an interface carries, in bytes behind the Ethernet header.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<()> {
        let mut message = Message::new(RTM_NEWLINK, 0, &ifinfo(index, 0));
        message.attribute(IFLA_MTU, &mtu.to_ne_bytes());
        self.request(message, || format!("cannot set the MTU of interface {index} to {mtu}"))
    }

    /// Removes an interface; of a veth pair both ends go.
    pub fn delete(&mut self, index: u32) -> Result<()> {
        let message = Message::new(RTM_DELLINK, 0, &ifinfo(index, 0));
        self.request(message, || format!("cannot remove interface {index}"))
    }

    /// Waits until an interface carries packets. The kernel switches it on some time after both ends are up, and
    /// silently drops packets sent before. (The flag IFF_RUNNING does not help: it is also set while the state is still
    /// unknown.)
    pub fn wait_until_up(&mut self, index: u32) -> Result<()> {
        let failed = |e| Error::os(format!("cannot read the state of interface {index}"), e);
        let end = Instant::now() + Duration::from_secs(10);
        while self.state(index).map_err(failed)? != Some(IF_OPER_UP) {
            if Instant::now() > end {
                return Err(Error::new(format!("interface {index} does not come up")));
            }
            thread::sleep(Duration::from_millis(1));
        }
        // The state changes a moment before the queue opens, both under the lock that this request takes.
        self.set_up(index)
    }

    /// The operational state of an interface, if the kernel reports it.
    fn state(&mut self, index: u32) -> io::Result<Option<u8>> {
        self.0.send(&Message::new(RTM_GETLINK, 0, &ifinfo(index, 0)).finish())?;
        let (mut state, mut reply) = (None, vec![0; 32 * 1024]);
        // The description comes first, the acknowledgement last.
        loop {
            let n = self.0.read(&mut reply)?;
            if let Some(done) = acknowledgement(&reply[..n]) {
                return done.map(|()| state);
            }
            state = find_attribute(&reply[..n], IFLA_OPERSTATE).or(state);
        }
    }

    /// Gives an interface an address, usable at once, with its on-link prefix as a route of this metric; 0: the kernel's own.
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix: u8, metric: u32) -> Result<()> {
        let mut fixed = [family(address), prefix, 0, 0, 0, 0, 0, 0];
        fixed[4..8].copy_from_slice(&index.to_ne_bytes());
        let bytes = octets(address);
        let mut message = Message::new(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &fixed);
        message.attribute(IFA_LOCAL, &bytes).attribute(IFA_ADDRESS, &bytes);
        message.attribute(IFA_RT_PRIORITY, &metric.to_ne_bytes());
        if address.is_ipv6() {
            message.attribute(IFA_FLAGS, &IFA_F_NODAD.to_ne_bytes());
        }
        self.request(message, || format!("cannot add the address {address}/{prefix}"))
    }

    /// Makes `gateway` the default route of its address family. A gateway outside of the interface's networks is taken as being on
    /// the link if `on_link`. Of several, the one with the lowest metric counts whose interface has a carrier.
    pub fn add_default_route(
        &mut self,
        index: u32,
        gateway: IpAddr,
        on_link: bool,
        metric: u32,
    ) -> Result<()> {
        let [a, b, c, d] = if on_link { RTNH_F_ONLINK.to_ne_bytes() } else { [0; 4] };
        let fixed = [family(gateway), 0, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, 0, RTN_UNICAST, a, b, c, d];
        let mut message = Message::new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &fixed);
        message.attribute(RTA_GATEWAY, &octets(gateway)).attribute(RTA_OIF, &index.to_ne_bytes());
        message.attribute(RTA_PRIORITY, &metric.to_ne_bytes());
        self.request(message, || format!("cannot add the default route via {gateway}"))
    }

    /// Limits what an interface sends to a rate in bytes per second on the wire, after bursts of so many bytes. At most `limit` bytes wait.
    /// Each packet counts with `overhead` bytes more than it has.
    pub fn add_token_bucket(
        &mut self,
        index: u32,
        bytes_per_s: u64,
        burst: u32,
        limit: u32,
        overhead: u16,
    ) -> Result<()> {
        let mut fixed = [0; 20];
        fixed[4..8].copy_from_slice(&index.to_ne_bytes());
        fixed[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
        // linux/pkt_sched.h: `struct tc_ratespec` twice (the second, of a peak rate, is empty), limit, burst as a time, MTU.
        let mut parms = [0; 36];
        parms[1] = TC_LINKLAYER_ETHERNET;
        parms[2..4].copy_from_slice(&overhead.to_ne_bytes());
        parms[8..12].copy_from_slice(&u32::try_from(bytes_per_s).unwrap_or(u32::MAX).to_ne_bytes());
        parms[24..28].copy_from_slice(&limit.to_ne_bytes());
        let mut message = Message::new(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &fixed);
        message.attribute(TCA_KIND, b"tbf\0").nest(TCA_OPTIONS, |m| {
            m.attribute(TCA_TBF_PARMS, &parms);
            m.attribute(TCA_TBF_BURST, &burst.to_ne_bytes());
            if bytes_per_s > u64::from(u32::MAX) {
                m.attribute(TCA_TBF_RATE64, &bytes_per_s.to_ne_bytes());
            }
        });
        self.request(message, || format!("cannot limit the rate of interface {index}"))
    }

    /// Sets a permanent neighbour entry of an interface.
    pub fn add_neighbour(&mut self, index: u32, address: IpAddr, mac: [u8; 6]) -> Result<()> {
        let mut fixed = [0; 12];
        fixed[0] = family(address);
        fixed[4..8].copy_from_slice(&index.to_ne_bytes());
        fixed[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
        let mut message = Message::new(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &fixed);
        message.attribute(NDA_DST, &octets(address)).attribute(NDA_LLADDR, &mac);
        self.request(message, || format!("cannot add the neighbour {address}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_but_their_lengths_are_not() {
        let mut message = Message::new(RTM_NEWLINK, 0, &[]);
        message.nest(IFLA_LINKINFO, |m| {
            m.attribute(IFLA_INFO_KIND, b"veth\0");
            m.attribute(IFLA_MTU, &[1, 2, 3, 4]);
        });
        let bytes = message.finish();
        assert_eq!(bytes.len(), 16 + 4 + (4 + 5 + 3) + 8);
        assert_eq!(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize, bytes.len());
        let length_at = |i: usize| u16::from_ne_bytes([bytes[i], bytes[i + 1]]);
        assert_eq!((length_at(16), length_at(20), length_at(32)), (24, 9, 8));
    }

    #[test]
    fn replies_are_read_and_damaged_ones_do_no_harm() {
        let mut link = Message::new(RTM_NEWLINK, 0, &ifinfo(2, 0));
        link.attribute(IFLA_IFNAME, b"eth0\0").attribute(IFLA_OPERSTATE, &[IF_OPER_UP]);
        let link = link.finish();
        assert!(acknowledgement(&link).is_none());
        assert_eq!(find_attribute(&link, IFLA_OPERSTATE), Some(IF_OPER_UP));
        assert_eq!(find_attribute(&link, IFLA_MTU), None);
        for cut in 0..link.len() - 4 {
            assert_eq!(find_attribute(&link[..cut], IFLA_OPERSTATE), None);
        }
        assert_eq!(find_attribute(&[0; 100], IFLA_OPERSTATE), None);
        let error = |code: i32| Message::new(NLMSG_ERROR, 0, &code.to_ne_bytes()).finish();
        assert!(acknowledgement(&error(0)).unwrap().is_ok());
        let refused = acknowledgement(&error(-libc::EPERM)).unwrap().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }
}
