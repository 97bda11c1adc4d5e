//! The agent's view of a packet: its connection, and whether it carries data.

use crate::types::{Address, Protocol};

/// The parts of a TCP or UDP packet that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub protocol: Protocol,
    pub source: (Address, u16),
    pub destination: (Address, u16),
    /// Bytes of payload.
    pub payload: u32,
    /// TCP: sequence number of the first byte of payload.
    pub sequence: u32,
    /// TCP: SYN, FIN or RST is set.
    pub syn: bool,
    pub fin_or_rst: bool,
}

#[inline(always)]
fn chunk<const N: usize>(b: &[u8], at: usize) -> Option<&[u8; N]> {
    b.get(at..)?.first_chunk()
}

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// An IP packet: the number of its protocol, and what follows its header, with the length that the header says.
struct Ip<'a> {
    number: u8,
    source: Address,
    destination: Address,
    length: u32,
    rest: &'a [u8],
}

#[inline(always)]
fn ip(ethertype: [u8; 2], packet: &[u8]) -> Option<Ip<'_>> {
    match ethertype {
        IPV4 => {
            let ip: &[u8; 20] = packet.first_chunk()?;
            let header = usize::from(ip[0] & 15) * 4;
            // Later fragments have no ports.
            if ip[0] >> 4 != 4 || header < 20 || ip[6] & 0x1f != 0 || ip[7] != 0 {
                return None;
            }
            let total = u32::from(u16::from_be_bytes([ip[2], ip[3]]));
            // Segments that the kernel has not cut yet may exceed the field's range: then it is 0.
            let length = if total == 0 { u32::from(u16::MAX) } else { total.checked_sub(header as u32)? };
            let address = |a: [u8; 4]| Address { v6: false, bits: u32::from_be_bytes(a).into() };
            let source = address([ip[12], ip[13], ip[14], ip[15]]);
            let destination = address([ip[16], ip[17], ip[18], ip[19]]);
            Some(Ip { number: ip[9], source, destination, length, rest: packet.get(header..)? })
        }
        IPV6 => {
            let (ip, rest) = packet.split_first_chunk::<40>()?;
            if ip[0] >> 4 != 6 {
                return None;
            }
            let length = match u16::from_be_bytes([ip[4], ip[5]]) {
                0 => u32::from(u16::MAX),
                n => u32::from(n),
            };
            let address = |a: &[u8; 16]| Address { v6: true, bits: u128::from_be_bytes(*a) };
            let (source, destination) = (address(chunk(ip, 8)?), address(chunk(ip, 24)?));
            Some(Ip { number: ip[6], source, destination, length, rest })
        }
        _ => None,
    }
}

/// Reads the beginning of an Ethernet frame. `None` for everything but first fragments of TCP and UDP over IP, or in a tunnel over IP
/// (IPv4: RFC 2003, IPv6: RFC 2473), by which the switch sends a client's packet if the device answers directly.
#[inline]
pub(super) fn parse(frame: &[u8]) -> Option<Seen> {
    let mut ethertype = chunk(frame, 12)?;
    let mut at = 14;
    if *ethertype == [0x81, 0x00] {
        ethertype = chunk(frame, 16)?;
        at = 18;
    }
    let outer = ip(*ethertype, frame.get(at..)?)?;
    let packet = match outer.number {
        4 => ip(IPV4, outer.rest)?,
        41 => ip(IPV6, outer.rest)?,
        _ => outer,
    };
    let Ip { number, source, destination, length, rest: l4 } = packet;
    let protocol = Protocol::from_number(number)?;
    let ports: &[u8; 4] = l4.first_chunk()?;
    let mut seen = Seen {
        protocol,
        source: (source, u16::from_be_bytes([ports[0], ports[1]])),
        destination: (destination, u16::from_be_bytes([ports[2], ports[3]])),
        payload: 0,
        sequence: 0,
        syn: false,
        fin_or_rst: false,
    };
    match protocol {
        Protocol::Udp => seen.payload = length.checked_sub(8)?,
        Protocol::Tcp => {
            let tcp: &[u8; 14] = l4.first_chunk()?;
            let header = u32::from(tcp[12] >> 4) * 4;
            seen.payload = length.checked_sub(header)?;
            seen.sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
            seen.syn = tcp[13] & 2 != 0;
            seen.fin_or_rst = tcp[13] & 5 != 0;
        }
    }
    Some(seen)
}
