//! The frames of flows: TCP over IPv4 over Ethernet. Data are zeros, so that checksums need only the headers, and a buffer that carried
//! a full packet can carry another one without being filled again.

use pointsman_net::Packet;
use pointsman_topology::Host;
use pointsman_transport::header::{HeaderError, address_sum, encode_zeros, parse_zeros};
use pointsman_transport::{Ecn, Segment};
use pointsman_wire::Mac;
use pointsman_wire::checksum::{folded, sum};
use pointsman_wire::frame::TCP;

/// Bytes of the Ethernet and IPv4 headers.
pub(super) const HEADERS: usize = ETHERNET + IPV4;
const ETHERNET: usize = 14;
const IPV4: usize = 20;
/// No frame is shorter; the four bytes of the checksum come on top.
pub(super) const LEAST_FRAME: usize = 60;
/// Most bytes of all headers.
const LONGEST: usize = HEADERS + 60;
/// Time to live of what hosts send.
pub(super) const FIRST_TTL: u8 = 64;

/// What the frames of one end of a connection have in common.
#[derive(Clone, Debug)]
pub(super) struct Head {
    bytes: [u8; HEADERS],
    /// Sum of the IPv4 header without length, identification and ECN.
    sum: u64,
    addresses: u64,
    /// Source and destination.
    pub ports: (u16, u16),
}

impl Head {
    /// From a host, over the switch at `gateway`, to another host.
    pub fn new(from: &Host, gateway: Mac, to: &Host, ports: (u16, u16), dscp: u8) -> Self {
        let mut bytes = [0; HEADERS];
        bytes[..6].copy_from_slice(&gateway.0);
        bytes[6..12].copy_from_slice(&from.mac);
        // IPv4 without options; not to be fragmented.
        bytes[12..16].copy_from_slice(&[8, 0, 0x45, dscp << 2]);
        bytes[20] = 0x40;
        bytes[22..24].copy_from_slice(&[FIRST_TTL, TCP]);
        bytes[26..30].copy_from_slice(&from.address.octets());
        bytes[30..34].copy_from_slice(&to.address.octets());
        let addresses = address_sum((from.address.into(), to.address.into()));
        Head { sum: sum(&bytes[ETHERNET..]), bytes, addresses, ports }
    }

    /// The sender's and the receiver's address, as [`Seen`] has them.
    pub fn addresses(&self) -> (u32, u32) {
        (u32_at(&self.bytes, 26), u32_at(&self.bytes, 30))
    }
}

/// Writes a segment's frame, replacing `out`. A buffer that is as long as the frame must have zeros behind the longest headers. `id` is the
/// packet's identification: it means nothing to IP, as packets are not fragmented (RFC 6864), but shows which ones were overtaken.
///
/// # Errors
/// The options do not fit.
pub(super) fn write(out: &mut Packet, head: &Head, id: u16, segment: &Segment) -> Result<(), HeaderError> {
    let packet = IPV4 + segment.header_bytes() + segment.len as usize;
    let frame = (ETHERNET + packet).max(LEAST_FRAME);
    if out.len() != frame {
        out.clear();
        out.resize(frame, 0);
    }
    let (length, ecn) = (packet as u16, segment.ecn as u8);
    let check = !folded(head.sum + u64::from(length) + u64::from(id) + u64::from(ecn));
    let end = frame.min(LONGEST);
    let (ip, tcp) = out[..end].split_at_mut(HEADERS);
    ip.copy_from_slice(&head.bytes);
    ip[15] |= ecn;
    ip[16..18].copy_from_slice(&length.to_be_bytes());
    ip[18..20].copy_from_slice(&id.to_be_bytes());
    ip[24..26].copy_from_slice(&check.to_be_bytes());
    let header = encode_zeros(segment, head.ports, head.addresses, tcp)?;
    tcp[header..].fill(0);
    Ok(())
}

/// A frame as a host reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Source and destination.
    pub addresses: (u32, u32),
    pub ports: (u16, u16),
    pub segment: Segment,
    /// The packet's identification.
    pub id: u16,
    pub ttl: u8,
    /// Whether both checksums are right, and so are all lengths.
    pub intact: bool,
}

/// Reads a frame; `None`: it is not TCP over IPv4. `whole`: whether to read the data too, which are taken for zeros otherwise.
pub(super) fn read(b: &[u8], whole: bool) -> Option<Seen> {
    let (ip, rest) = b.split_at_checked(HEADERS)?;
    if !is_ours(ip) {
        return None;
    }
    let length = usize::from(u16_at(ip, 16)).checked_sub(IPV4)?;
    let addresses = (u32_at(ip, 26), u32_at(ip, 30));
    let sum_of_addresses = u64::from(addresses.0) + u64::from(addresses.1);
    let tcp = rest.get(..length)?;
    let parsed = parse_zeros(tcp, sum_of_addresses, Ecn::from_bits(ip[15]));
    let (ports, segment, sound) = match parsed {
        Ok(p) => (p.ports, p.segment, !whole || p.data.iter().all(|b| *b == 0)),
        Err(_) => ((u16_at(tcp.get(..4)?, 0), u16_at(tcp, 2)), Segment::default(), false),
    };
    let intact = sound && folded(sum(&ip[ETHERNET..])) == 0xffff;
    Some(Seen { addresses, ports, segment, id: u16_at(ip, 18), ttl: ip[22], intact })
}

/// Whether the frame that begins like this is TCP over IPv4 without options.
pub(super) fn is_ours(b: &[u8]) -> bool {
    matches!(b.get(12..24), Some([8, 0, 0x45, .., TCP]))
}

/// The time to live of a frame that [`is_ours`].
pub(super) fn ttl(b: &[u8]) -> u8 {
    b.get(22).copied().unwrap_or(0)
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from(u16_at(b, at)) << 16 | u32::from(u16_at(b, at + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_transport::header::{Route, parse};
    use pointsman_transport::{Options, Sack};
    use std::net::{IpAddr, Ipv4Addr};

    fn host(n: u8) -> Host {
        Host {
            name: format!("h{n}"),
            mac: [2, 0, 10, 0, 0, n],
            address: Ipv4Addr::new(10, 0, 0, n),
            address_v6: None,
        }
    }

    fn head() -> Head {
        Head::new(&host(1), Mac([4; 6]), &host(2), (1024, 2048), 8)
    }

    /// Frames are as other code reads them, also in buffers that carried other frames.
    #[test]
    fn what_is_written_is_read() {
        let mut sack = Sack::default();
        sack.push((1, 2));
        let options = [
            Options::default(),
            Options { timestamps: Some((7, 9)), sack, ..Options::default() },
            Options { mss: Some(1460), scale: Some(7), sack_permitted: true, ..Options::default() },
        ];
        let route =
            Route { addresses: (host(1).address.into(), host(2).address.into()), ports: (1024, 2048) };
        let mut frame = Packet::default();
        for (n, len) in [0, 1, 1460, 1460, 1448, 1460].into_iter().enumerate() {
            for options in options {
                let segment =
                    Segment { seq: 5, ack: 6, len, window: 9, flags: 0x10, ecn: Ecn::Capable0, options };
                write(&mut frame, &head(), n as u16, &segment).expect("it fits");
                let tcp = &frame[34..34 + segment.header_bytes() + len as usize];
                let parsed = parse(tcp, route.addresses, Ecn::Capable0).expect("a segment");
                assert_eq!((parsed.segment, parsed.ports), (segment, route.ports));
                assert_eq!(folded(sum(&frame[14..34])), 0xffff);
                assert!(frame.len() >= LEAST_FRAME && frame[15] == 8 << 2 | 2);
                let addresses = (u32::from(host(1).address), u32::from(host(2).address));
                let seen =
                    Seen { addresses, ports: route.ports, segment, id: n as u16, ttl: 64, intact: true };
                assert_eq!(read(&frame, true), Some(seen));
            }
        }
        assert_eq!(IpAddr::from(Ipv4Addr::from(head().addresses().0)), route.addresses.0);
    }

    #[test]
    fn damage_is_seen() {
        let segment = Segment { len: 100, flags: 0x10, ..Segment::default() };
        let mut good = Packet::default();
        write(&mut good, &head(), 1, &segment).expect("it fits");
        for at in 14..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(read(&bad, true).is_none_or(|seen| !seen.intact), "byte {at}");
        }
        let cut = &good[..good.len() - 1];
        assert!(read(cut, true).is_none());
    }
}
