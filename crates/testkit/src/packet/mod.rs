//! Frames for tests: written field by field, with lengths and checksums filled in.
//!
//! A [`Packet`] describes the content of a frame; [`Packet::bytes`] makes the frame, [`Packet::parse`] reads one.
//! Checksums are computed from scratch over the finished bytes ([`checksum`]), so that a frame whose checksums were
//! updated incrementally can be compared with one that was built.
//!
//! ```
//! use pointsman_testkit::packet::{Packet, check_checksums, tcp_flags};
//! let syn = Packet::tcp("10.0.0.1:1234", "10.0.0.2:80", tcp_flags::SYN);
//! assert_eq!(check_checksums(&syn.bytes()), Ok(()));
//! assert_eq!(Packet::parse(&syn.bytes()), Ok(syn));
//! ```

mod build;
mod checksum;
mod error;
mod read;
mod verify;

pub use checksum::{Sum, checksum};
pub use error::FrameError;
pub use verify::check_checksums;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A MAC address.
pub type Mac = [u8; 6];

/// Numbers of the protocols over Ethernet and IP that are built and read.
#[allow(missing_docs)] // each is the number of that name
pub mod numbers {
    pub const ETHERTYPE_IPV4: u16 = 0x0800;
    pub const ETHERTYPE_ARP: u16 = 0x0806;
    pub const ETHERTYPE_VLAN: u16 = 0x8100;
    pub const ETHERTYPE_IPV6: u16 = 0x86dd;
    pub const PROTO_ICMP: u8 = 1;
    pub const PROTO_TCP: u8 = 6;
    pub const PROTO_UDP: u8 = 17;
    pub const PROTO_ICMPV6: u8 = 58;
    pub const ARP_REQUEST: u16 = 1;
    pub const ARP_REPLY: u16 = 2;
    pub const ND_SOLICITATION: u8 = 135;
    pub const ND_ADVERTISEMENT: u8 = 136;
}

/// Bits of the TCP flags.
#[allow(missing_docs)] // each is the flag of that name
pub mod tcp_flags {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const PSH: u8 = 8;
    pub const ACK: u8 = 16;
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Destination.
    pub dst_mac: Mac,
    /// Source.
    pub src_mac: Mac,
    /// Tag control information of each VLAN tag, outermost first.
    pub vlans: Vec<u16>,
    /// The content of the frame.
    pub body: Body,
    /// Bytes after the end given by the headers, such as Ethernet's padding.
    pub trailer: Vec<u8>,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// ARP for IPv4 over Ethernet.
    Arp(Arp),
    /// IPv4 or IPv6, by the family of its addresses.
    Ip(Ip),
    /// Anything else.
    Other {
        /// Its type.
        ethertype: u16,
        /// It.
        bytes: Vec<u8>,
    },
}

/// ARP for IPv4 over Ethernet (RFC 826).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is RFC 826's field of that name
pub struct Arp {
    pub oper: u16,
    pub sha: Mac,
    pub spa: Ipv4Addr,
    pub tha: Mac,
    pub tpa: Ipv4Addr,
}

/// An IPv4 or IPv6 packet. Both addresses are of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// IPv6: flow label.
    pub flow: u32,
    /// IPv4: identification.
    pub id: u16,
    /// IPv4: don't fragment.
    pub dont_fragment: bool,
    /// IPv4: more fragments.
    pub more_fragments: bool,
    /// IPv4: fragment offset in units of eight bytes. Above 0 the payload is [`L4::Other`].
    pub fragment: u16,
    /// IPv4: options, a multiple of four bytes, at most 40.
    pub options: Vec<u8>,
    /// Its content.
    pub l4: L4,
}

/// The content of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum L4 {
    /// TCP.
    Tcp(Tcp),
    /// UDP.
    Udp(Udp),
    /// ICMP or ICMPv6, by the family of the addresses.
    Icmp(Icmp),
    /// Anything else.
    Other {
        /// Protocol number.
        proto: u8,
        /// It.
        bytes: Vec<u8>,
    },
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is RFC 9293's field of that name
pub struct Tcp {
    pub sport: u16,
    pub dport: u16,
    pub seq: u32,
    pub ack: u32,
    /// See [`tcp_flags`].
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    /// A multiple of four bytes, at most 40.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    pub checksum: Sum,
}

/// A UDP datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is RFC 768's field of that name
pub struct Udp {
    pub sport: u16,
    pub dport: u16,
    pub payload: Vec<u8>,
    pub checksum: Sum,
}

/// An ICMP or ICMPv6 message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// The four bytes behind the checksum.
    pub rest: u32,
    /// The payload.
    pub payload: Vec<u8>,
    /// Its checksum.
    pub checksum: Sum,
}

/// A load report to the balancer (P4Mite's, with a header that later versions extend).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // see report_t in p4/programs/balancer/headers.p4
pub struct Report {
    pub version: u8,
    /// In words of four bytes.
    pub length: u8,
    pub server: u16,
    pub mask: u8,
    pub available: u8,
    pub metrics: u16,
    pub sequence: u32,
}

impl Report {
    /// A report of version 1 with no other content than which of the devices in `mask` are `available`.
    pub fn new(server: u16, mask: u8, available: u8, sequence: u32) -> Self {
        Report { version: 1, length: 3, server, mask, available, metrics: 0, sequence }
    }

    /// The payload of its datagram.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![self.version, self.length];
        out.extend(self.server.to_be_bytes());
        out.extend([self.mask, self.available]);
        out.extend(self.metrics.to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        out
    }
}

/// The multicast address that a neighbour solicitation for `target` goes to (RFC 4291, section 2.7.1).
pub fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = target.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

fn socket(text: impl AsRef<str>) -> SocketAddr {
    let text = text.as_ref();
    text.parse().unwrap_or_else(|_| panic!("{text} is not ADDRESS:PORT, such as 10.0.0.1:80 or [::1]:80"))
}

fn address(text: impl AsRef<str>) -> IpAddr {
    let text = text.as_ref();
    text.parse().unwrap_or_else(|_| panic!("{text} is not an IP address"))
}

/// Constructors. Addresses are text; a wrong one is a mistake in the test and panics.
impl Packet {
    /// A frame of anything, with zero MAC addresses.
    pub fn new(body: Body) -> Self {
        Packet { dst_mac: [0; 6], src_mac: [0; 6], vlans: Vec::new(), body, trailer: Vec::new() }
    }

    /// An IP packet with time to live 64.
    pub fn ip(src: impl AsRef<str>, dst: impl AsRef<str>, l4: L4) -> Self {
        Packet::between(address(src), address(dst), l4)
    }

    fn between(src: IpAddr, dst: IpAddr, l4: L4) -> Self {
        assert_eq!(src.is_ipv4(), dst.is_ipv4(), "{src} and {dst} are of different families");
        Packet::new(Body::Ip(Ip {
            src,
            dst,
            ttl: 64,
            tos: 0,
            flow: 0,
            id: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment: 0,
            options: Vec::new(),
            l4,
        }))
    }

    /// A TCP segment without data.
    pub fn tcp(from: impl AsRef<str>, to: impl AsRef<str>, flags: u8) -> Self {
        let (from, to) = (socket(from), socket(to));
        let tcp = Tcp {
            sport: from.port(),
            dport: to.port(),
            seq: 1000,
            ack: if flags & tcp_flags::ACK != 0 { 2000 } else { 0 },
            flags,
            window: 65_000,
            urgent: 0,
            options: Vec::new(),
            payload: Vec::new(),
            checksum: Sum::Right,
        };
        Packet::between(from.ip(), to.ip(), L4::Tcp(tcp))
    }

    /// A UDP datagram.
    pub fn udp(from: impl AsRef<str>, to: impl AsRef<str>, payload: impl Into<Vec<u8>>) -> Self {
        let (from, to) = (socket(from), socket(to));
        let (sport, dport) = (from.port(), to.port());
        let udp = Udp { sport, dport, payload: payload.into(), checksum: Sum::Right };
        Packet::between(from.ip(), to.ip(), L4::Udp(udp))
    }

    /// An ICMP or ICMPv6 message.
    pub fn icmp(src: impl AsRef<str>, dst: impl AsRef<str>, kind: u8, code: u8, rest: u32) -> Self {
        let icmp = Icmp { kind, code, rest, payload: Vec::new(), checksum: Sum::Right };
        Packet::ip(src, dst, L4::Icmp(icmp))
    }

    /// An echo request.
    pub fn echo(src: impl AsRef<str>, dst: impl AsRef<str>, payload: impl Into<Vec<u8>>) -> Self {
        let kind = if address(&src).is_ipv4() { 8 } else { 128 };
        Packet::icmp(src, dst, kind, 0, 0x0007_0001).payload(payload)
    }

    /// An ICMP or ICMPv6 error about `quoted`, of which it quotes the IP header and `bytes` more.
    pub fn icmp_error(
        src: impl AsRef<str>,
        dst: impl AsRef<str>,
        kind: u8,
        code: u8,
        quoted: &Packet,
        bytes: usize,
    ) -> Self {
        let mut quote = quoted.network_bytes();
        let header = quoted.network_header_len();
        quote.truncate(header + bytes);
        Packet::icmp(src, dst, kind, code, 0).payload(quote)
    }

    /// An ARP message with zero hardware addresses; requests are broadcast.
    pub fn arp(oper: u16, spa: &str, tpa: &str) -> Self {
        let v4 = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text} is not an IPv4 address"));
        let arp = Arp { oper, sha: [0; 6], spa: v4(spa), tha: [0; 6], tpa: v4(tpa) };
        let mut p = Packet::new(Body::Arp(arp));
        if oper == numbers::ARP_REQUEST {
            p.dst_mac = [0xff; 6];
        }
        p
    }

    /// A neighbour solicitation or advertisement (`kind`) about `target` with a link-layer address option.
    pub fn neighbour(kind: u8, src: &str, dst: &str, rest: u32, target: &str, mac: Mac) -> Self {
        let target: Ipv6Addr = target.parse().unwrap_or_else(|_| panic!("{target} is not an IPv6 address"));
        let mut payload = target.octets().to_vec();
        payload.extend([if kind == numbers::ND_ADVERTISEMENT { 2 } else { 1 }, 1]);
        payload.extend(mac);
        Packet::icmp(src, dst, kind, 0, rest).payload(payload).ttl(255)
    }
}

/// Changes.
impl Packet {
    /// Sets both MAC addresses.
    pub fn macs(mut self, src: Mac, dst: Mac) -> Self {
        self.src_mac = src;
        self.dst_mac = dst;
        self
    }

    /// Sets the destination MAC address.
    pub fn to_mac(mut self, dst: Mac) -> Self {
        self.dst_mac = dst;
        self
    }

    /// Changes the IP header, if any.
    pub fn with_ip(mut self, change: impl FnOnce(&mut Ip)) -> Self {
        if let Body::Ip(ip) = &mut self.body {
            change(ip);
        }
        self
    }

    /// Changes the TCP header, if any.
    pub fn with_tcp(self, change: impl FnOnce(&mut Tcp)) -> Self {
        self.with_ip(|ip| {
            if let L4::Tcp(tcp) = &mut ip.l4 {
                change(tcp);
            }
        })
    }

    /// Changes the UDP header, if any.
    pub fn with_udp(self, change: impl FnOnce(&mut Udp)) -> Self {
        self.with_ip(|ip| {
            if let L4::Udp(udp) = &mut ip.l4 {
                change(udp);
            }
        })
    }

    /// Changes the ICMP header, if any.
    pub fn with_icmp(self, change: impl FnOnce(&mut Icmp)) -> Self {
        self.with_ip(|ip| {
            if let L4::Icmp(icmp) = &mut ip.l4 {
                change(icmp);
            }
        })
    }

    /// Changes the ARP message, if any.
    pub fn with_arp(mut self, change: impl FnOnce(&mut Arp)) -> Self {
        if let Body::Arp(arp) = &mut self.body {
            change(arp);
        }
        self
    }

    /// Sets time to live or hop limit.
    pub fn ttl(self, ttl: u8) -> Self {
        self.with_ip(|ip| ip.ttl = ttl)
    }

    /// Sets the source address.
    pub fn src(self, src: &str) -> Self {
        self.with_ip(|ip| ip.src = address(src))
    }

    /// Sets the destination address.
    pub fn dst(self, dst: &str) -> Self {
        self.with_ip(|ip| ip.dst = address(dst))
    }

    /// Sets the payload of the innermost known header.
    pub fn payload(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        match &mut self.body {
            Body::Ip(ip) => match &mut ip.l4 {
                L4::Tcp(t) => t.payload = bytes,
                L4::Udp(u) => u.payload = bytes,
                L4::Icmp(i) => i.payload = bytes,
                L4::Other { bytes: b, .. } => *b = bytes,
            },
            Body::Other { bytes: b, .. } => *b = bytes,
            Body::Arp(_) => self.trailer = bytes,
        }
        self
    }

    /// Adds a VLAN tag inside of those that are there.
    pub fn vlan(mut self, tag_control: u16) -> Self {
        self.vlans.push(tag_control);
        self
    }
}

#[cfg(test)]
mod tests;
