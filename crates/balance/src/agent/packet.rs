//! What the agent sees of a packet: whose connection it belongs to, and whether it carries data.

use crate::types::Protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The parts of a TCP or UDP packet that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub protocol: Protocol,
    pub source: (IpAddr, u16),
    pub destination: (IpAddr, u16),
    /// Bytes of payload.
    pub payload: u32,
    /// TCP: sequence number of the first byte of payload.
    pub sequence: u32,
    /// TCP: SYN, FIN or RST is set.
    pub syn: bool,
    pub fin_or_rst: bool,
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*b.get(at..)?.first_chunk()?))
}

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*b.get(at..)?.first_chunk()?))
}

/// Reads the beginning of an Ethernet frame. `None` for everything but first fragments of TCP and UDP over IP.
pub(super) fn parse(frame: &[u8]) -> Option<Seen> {
    let mut ethertype = u16_at(frame, 12)?;
    let mut at = 14;
    if ethertype == 0x8100 {
        ethertype = u16_at(frame, 16)?;
        at = 18;
    }
    let ip = frame.get(at..)?;
    let (number, source, destination, length, l4): (u8, IpAddr, IpAddr, u32, &[u8]) = match ethertype {
        0x0800 => {
            let first = *ip.first()?;
            let header = usize::from(first & 15) * 4;
            // Later fragments have no ports.
            if first >> 4 != 4 || header < 20 || u16_at(ip, 6)? & 0x1fff != 0 {
                return None;
            }
            let total = u32::from(u16_at(ip, 2)?);
            // Segments that the kernel is yet to cut up may be longer than the field can say: then it is 0.
            let length = if total == 0 { u32::from(u16::MAX) } else { total.checked_sub(header as u32)? };
            let source = Ipv4Addr::from_bits(u32_at(ip, 12)?);
            let destination = Ipv4Addr::from_bits(u32_at(ip, 16)?);
            (*ip.get(9)?, source.into(), destination.into(), length, ip.get(header..)?)
        }
        0x86dd => {
            if ip.first()? >> 4 != 6 {
                return None;
            }
            let length = match u16_at(ip, 4)? {
                0 => u32::from(u16::MAX),
                n => u32::from(n),
            };
            let source = Ipv6Addr::from(*ip.get(8..)?.first_chunk::<16>()?);
            let destination = Ipv6Addr::from(*ip.get(24..)?.first_chunk::<16>()?);
            (*ip.get(6)?, source.into(), destination.into(), length, ip.get(40..)?)
        }
        _ => return None,
    };
    let protocol = Protocol::from_number(number)?;
    let ports = (u16_at(l4, 0)?, u16_at(l4, 2)?);
    let mut seen = Seen {
        protocol,
        source: (source, ports.0),
        destination: (destination, ports.1),
        payload: 0,
        sequence: 0,
        syn: false,
        fin_or_rst: false,
    };
    match protocol {
        Protocol::Udp => seen.payload = length.checked_sub(8)?,
        Protocol::Tcp => {
            let header = u32::from(*l4.get(12)? >> 4) * 4;
            let flags = *l4.get(13)?;
            seen.payload = length.checked_sub(header)?;
            seen.sequence = u32_at(l4, 4)?;
            seen.syn = flags & 2 != 0;
            seen.fin_or_rst = flags & 5 != 0;
        }
    }
    Some(seen)
}
