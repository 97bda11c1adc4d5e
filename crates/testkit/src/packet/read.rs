//! From bytes to fields.

use super::checksum::Sum;
use super::numbers::*;
use super::{Arp, Body, FrameError, Icmp, Ip, L4, Mac, Packet, Tcp, Udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The rest of a frame.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], FrameError> {
        if self.0.len() < n {
            return Err(FrameError::Short { part: what, found: self.0.len(), needed: n });
        }
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FrameError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, FrameError> {
        Ok(self.array::<1>(what)?[0])
    }

    fn u16(&mut self, what: &'static str) -> Result<u16, FrameError> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, FrameError> {
        Ok(u32::from_be_bytes(self.array(what)?))
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }
}

impl Packet {
    /// Reads a frame. Checksums are not verified ([`check_checksums`](super::check_checksums) does that): they read as
    /// right, but UDP's zero as zero.
    ///
    /// # Errors
    /// The frame is cut short, or a header is malformed.
    pub fn parse(frame: &[u8]) -> Result<Packet, FrameError> {
        let r = &mut Reader(frame);
        let dst_mac: Mac = r.array("the Ethernet header")?;
        let src_mac: Mac = r.array("the Ethernet header")?;
        let mut vlans = Vec::new();
        let ethertype = loop {
            match r.u16("the Ethernet header")? {
                ETHERTYPE_VLAN => vlans.push(r.u16("the VLAN tag")?),
                other => break other,
            }
        };
        let body = match ethertype {
            ETHERTYPE_ARP => Body::Arp(read_arp(r)?),
            ETHERTYPE_IPV4 => Body::Ip(read_ipv4(r)?),
            ETHERTYPE_IPV6 => Body::Ip(read_ipv6(r)?),
            _ => Body::Other { ethertype, bytes: r.rest() },
        };
        Ok(Packet { dst_mac, src_mac, vlans, body, trailer: r.rest() })
    }
}

fn read_arp(r: &mut Reader) -> Result<Arp, FrameError> {
    let fixed: [u8; 6] = r.array("ARP")?;
    if fixed != [0, 1, 8, 0, 6, 4] {
        return Err(FrameError::Header("ARP", fixed.to_vec()));
    }
    Ok(Arp {
        oper: r.u16("ARP")?,
        sha: r.array("ARP")?,
        spa: Ipv4Addr::from(r.array::<4>("ARP")?),
        tha: r.array("ARP")?,
        tpa: Ipv4Addr::from(r.array::<4>("ARP")?),
    })
}

fn read_ipv4(r: &mut Reader) -> Result<Ip, FrameError> {
    let what = "the IPv4 header";
    let first = r.u8(what)?;
    let header = usize::from(first & 15) * 4;
    if first >> 4 != 4 || header < 20 {
        return Err(FrameError::Header("IPv4", vec![first]));
    }
    let tos = r.u8(what)?;
    let len = usize::from(r.u16(what)?);
    let id = r.u16(what)?;
    let fragment = r.u16(what)?;
    let (ttl, proto) = (r.u8(what)?, r.u8(what)?);
    r.u16(what)?;
    let src = IpAddr::V4(Ipv4Addr::from(r.array::<4>(what)?));
    let dst = IpAddr::V4(Ipv4Addr::from(r.array::<4>(what)?));
    let options = r.take(header - 20, what)?.to_vec();
    if len < header {
        return Err(FrameError::Length { part: "IPv4", says: len, found: header });
    }
    let payload = r.take(len - header, "IPv4's payload")?;
    let offset = fragment & 0x1fff;
    let l4 = match offset {
        0 => read_l4(proto, true, payload)?,
        _ => L4::Other { proto, bytes: payload.to_vec() },
    };
    Ok(Ip {
        src,
        dst,
        ttl,
        tos,
        flow: 0,
        id,
        dont_fragment: fragment & 0x4000 != 0,
        more_fragments: fragment & 0x2000 != 0,
        fragment: offset,
        options,
        l4,
    })
}

fn read_ipv6(r: &mut Reader) -> Result<Ip, FrameError> {
    let what = "the IPv6 header";
    let first = r.u32(what)?;
    if first >> 28 != 6 {
        return Err(FrameError::Header("IPv6", first.to_be_bytes().to_vec()));
    }
    let len = usize::from(r.u16(what)?);
    let (proto, ttl) = (r.u8(what)?, r.u8(what)?);
    let src = IpAddr::V6(Ipv6Addr::from(r.array::<16>(what)?));
    let dst = IpAddr::V6(Ipv6Addr::from(r.array::<16>(what)?));
    let payload = r.take(len, "IPv6's payload")?;
    Ok(Ip {
        src,
        dst,
        ttl,
        tos: (first >> 20) as u8,
        flow: first & 0xf_ffff,
        id: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment: 0,
        options: Vec::new(),
        l4: read_l4(proto, false, payload)?,
    })
}

fn read_l4(proto: u8, v4: bool, payload: &[u8]) -> Result<L4, FrameError> {
    let r = &mut Reader(payload);
    Ok(match proto {
        PROTO_TCP => {
            let what = "TCP";
            let (sport, dport) = (r.u16(what)?, r.u16(what)?);
            let (seq, ack) = (r.u32(what)?, r.u32(what)?);
            let header = usize::from(r.u8(what)? >> 4) * 4;
            let flags = r.u8(what)?;
            let window = r.u16(what)?;
            r.u16(what)?;
            let urgent = r.u16(what)?;
            if header < 20 {
                return Err(FrameError::Length { part: "TCP", says: header, found: 20 });
            }
            let options = r.take(header - 20, what)?.to_vec();
            let payload = r.rest();
            let checksum = Sum::Right;
            L4::Tcp(Tcp { sport, dport, seq, ack, flags, window, urgent, options, payload, checksum })
        }
        PROTO_UDP => {
            let what = "UDP";
            let (sport, dport) = (r.u16(what)?, r.u16(what)?);
            let (len, sum) = (r.u16(what)?, r.u16(what)?);
            let payload = r.rest();
            if usize::from(len) != 8 + payload.len() {
                return Err(FrameError::Length { part: "UDP", says: len.into(), found: 8 + payload.len() });
            }
            let checksum = if sum == 0 { Sum::Is(0) } else { Sum::Right };
            L4::Udp(Udp { sport, dport, payload, checksum })
        }
        PROTO_ICMP if v4 => L4::Icmp(read_icmp(r)?),
        PROTO_ICMPV6 if !v4 => L4::Icmp(read_icmp(r)?),
        _ => L4::Other { proto, bytes: r.rest() },
    })
}

fn read_icmp(r: &mut Reader) -> Result<Icmp, FrameError> {
    let (kind, code) = (r.u8("ICMP")?, r.u8("ICMP")?);
    r.u16("ICMP")?;
    Ok(Icmp { kind, code, rest: r.u32("ICMP")?, payload: r.rest(), checksum: Sum::Right })
}
