//! From fields to bytes.

use super::checksum::{Sum, checksum, pseudo_header};
use super::numbers::*;
use super::{Body, Ip, L4, Packet};
use std::net::IpAddr;

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// Puts a checksum at `at`; `computed` sees the bytes with zeros there.
fn fill(out: &mut [u8], at: usize, sum: Sum, computed: impl FnOnce(&[u8]) -> u16) {
    let value = match sum {
        Sum::Right => computed(out),
        Sum::Is(v) => v,
    };
    out[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

impl L4 {
    /// Protocol number.
    pub fn proto(&self, v4: bool) -> u8 {
        match self {
            L4::Tcp(_) => PROTO_TCP,
            L4::Udp(_) => PROTO_UDP,
            L4::Icmp(_) if v4 => PROTO_ICMP,
            L4::Icmp(_) => PROTO_ICMPV6,
            L4::Other { proto, .. } => *proto,
        }
    }

    fn bytes(&self, ip: &Ip) -> Vec<u8> {
        let v4 = ip.src.is_ipv4();
        let over_pseudo = |out: &[u8]| {
            let mut all = pseudo_header(&octets(ip.src), &octets(ip.dst), self.proto(v4), out.len());
            all.extend_from_slice(out);
            checksum(&all)
        };
        let mut out = Vec::new();
        match self {
            L4::Tcp(t) => {
                out.extend(t.sport.to_be_bytes());
                out.extend(t.dport.to_be_bytes());
                out.extend(t.seq.to_be_bytes());
                out.extend(t.ack.to_be_bytes());
                out.extend([(5 + t.options.len() as u8 / 4) << 4, t.flags]);
                out.extend(t.window.to_be_bytes());
                out.extend([0, 0]);
                out.extend(t.urgent.to_be_bytes());
                out.extend(&t.options);
                out.extend(&t.payload);
                fill(&mut out, 16, t.checksum, over_pseudo);
            }
            L4::Udp(u) => {
                out.extend(u.sport.to_be_bytes());
                out.extend(u.dport.to_be_bytes());
                out.extend((8 + u.payload.len() as u16).to_be_bytes());
                out.extend([0, 0]);
                out.extend(&u.payload);
                // A sum of zero is sent as all ones, since zero means no checksum (RFC 768).
                fill(&mut out, 6, u.checksum, |out| match over_pseudo(out) {
                    0 => 0xffff,
                    sum => sum,
                });
            }
            L4::Icmp(i) => {
                out.extend([i.kind, i.code, 0, 0]);
                out.extend(i.rest.to_be_bytes());
                out.extend(&i.payload);
                if v4 {
                    fill(&mut out, 2, i.checksum, checksum);
                } else {
                    fill(&mut out, 2, i.checksum, over_pseudo);
                }
            }
            L4::Other { bytes, .. } => out.extend(bytes),
        }
        out
    }
}

impl Ip {
    /// The packet with its header.
    pub fn bytes(&self) -> Vec<u8> {
        let v4 = self.src.is_ipv4();
        let l4 = self.l4.bytes(self);
        let mut out = Vec::new();
        if v4 {
            let words = 5 + self.options.len() as u16 / 4;
            let fragment = u16::from(self.dont_fragment) << 14
                | u16::from(self.more_fragments) << 13
                | (self.fragment & 0x1fff);
            out.extend([0x40 | words as u8, self.tos]);
            out.extend((4 * words + l4.len() as u16).to_be_bytes());
            out.extend(self.id.to_be_bytes());
            out.extend(fragment.to_be_bytes());
            out.extend([self.ttl, self.l4.proto(v4), 0, 0]);
            out.extend(octets(self.src));
            out.extend(octets(self.dst));
            out.extend(&self.options);
            fill(&mut out, 10, Sum::Right, checksum);
        } else {
            out.extend((6 << 28 | u32::from(self.tos) << 20 | self.flow & 0xf_ffff).to_be_bytes());
            out.extend((l4.len() as u16).to_be_bytes());
            out.extend([self.l4.proto(v4), self.ttl]);
            out.extend(octets(self.src));
            out.extend(octets(self.dst));
        }
        out.extend(l4);
        out
    }

    pub(super) fn header_len(&self) -> usize {
        if self.src.is_ipv4() { 20 + self.options.len() } else { 40 }
    }
}

impl Packet {
    /// The frame.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = [self.dst_mac, self.src_mac].concat();
        for tag in &self.vlans {
            out.extend(ETHERTYPE_VLAN.to_be_bytes());
            out.extend(tag.to_be_bytes());
        }
        let ethertype = match &self.body {
            Body::Arp(_) => ETHERTYPE_ARP,
            Body::Ip(ip) if ip.src.is_ipv4() => ETHERTYPE_IPV4,
            Body::Ip(_) => ETHERTYPE_IPV6,
            Body::Other { ethertype, .. } => *ethertype,
        };
        out.extend(ethertype.to_be_bytes());
        out.extend(self.network_bytes());
        out.extend(&self.trailer);
        out
    }

    /// The bytes inside the Ethernet header and its tags, without the trailer.
    pub fn network_bytes(&self) -> Vec<u8> {
        match &self.body {
            Body::Arp(arp) => {
                let mut out = vec![0, 1, 8, 0, 6, 4];
                out.extend(arp.oper.to_be_bytes());
                out.extend(arp.sha);
                out.extend(arp.spa.octets());
                out.extend(arp.tha);
                out.extend(arp.tpa.octets());
                out
            }
            Body::Ip(ip) => ip.bytes(),
            Body::Other { bytes, .. } => bytes.clone(),
        }
    }

    pub(super) fn network_header_len(&self) -> usize {
        match &self.body {
            Body::Ip(ip) => ip.header_len(),
            _ => 0,
        }
    }
}
