//! The headers of a packet, as far as filters look at them.

use std::net::IpAddr;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
/// VLAN tags (IEEE 802.1Q, 802.1ad).
const TAGS: [u16; 2] = [0x8100, 0x88a8];

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// More extension headers of IPv6 are not passed (RFC 8200 has fewer).
const MAX_EXTENSIONS: usize = 8;

/// Those of one packet; `None` where it has none.
#[derive(Clone, Copy, Default)]
pub struct Headers {
    pub ethertype: Option<u16>,
    /// Of the outermost tag.
    pub vlan: Option<u16>,
    pub src: Option<IpAddr>,
    pub dst: Option<IpAddr>,
    /// The protocol behind IPv4, or behind the extensions of IPv6.
    pub proto: Option<u8>,
    pub sport: Option<u16>,
    pub dport: Option<u16>,
}

fn word(packet: &[u8], at: usize) -> Option<u16> {
    packet.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

fn address<const N: usize>(packet: &[u8], at: usize) -> Option<IpAddr>
where
    IpAddr: From<[u8; N]>,
{
    packet.get(at..)?.first_chunk::<N>().map(|b| IpAddr::from(*b))
}

impl Headers {
    pub fn of(packet: &[u8]) -> Headers {
        let mut headers = Headers::default();
        let mut at = 12;
        for _ in TAGS {
            if word(packet, at).is_some_and(|t| TAGS.contains(&t)) {
                headers.vlan = headers.vlan.or(word(packet, at + 2).map(|tag| tag & 0xfff));
                at += 4;
            }
        }
        headers.ethertype = word(packet, at);
        at += 2;
        match headers.ethertype {
            Some(IPV4) => headers.ipv4(packet, at),
            Some(IPV6) => headers.ipv6(packet, at),
            // Sender and target of requests and answers for IPv4.
            Some(ARP) if word(packet, at + 2) == Some(IPV4) => {
                headers.src = address::<4>(packet, at + 14);
                headers.dst = address::<4>(packet, at + 24);
            }
            _ => {}
        }
        headers
    }

    fn ipv4(&mut self, packet: &[u8], at: usize) {
        let Some(&[first, ..]) = packet.get(at..) else { return };
        self.src = address::<4>(packet, at + 12);
        self.dst = address::<4>(packet, at + 16);
        self.proto = packet.get(at + 9).copied();
        let first_fragment = word(packet, at + 6).is_some_and(|f| f & 0x1fff == 0);
        if first_fragment {
            self.ports(packet, at + 4 * usize::from(first & 0xf));
        }
    }

    fn ipv6(&mut self, packet: &[u8], at: usize) {
        self.src = address::<16>(packet, at + 8);
        self.dst = address::<16>(packet, at + 24);
        let Some(mut next) = packet.get(at + 6).copied() else { return };
        let mut at = at + 40;
        for _ in 0..MAX_EXTENSIONS {
            let Some(&[after, length, ..]) = packet.get(at..) else { break };
            let bytes = match next {
                HOP_BY_HOP | ROUTING | DESTINATION => 8 * (usize::from(length) + 1),
                FRAGMENT if word(packet, at + 2).is_some_and(|f| f >> 3 == 0) => 8,
                FRAGMENT => {
                    self.proto = Some(after);
                    return;
                }
                _ => break,
            };
            (next, at) = (after, at + bytes);
        }
        self.proto = Some(next);
        self.ports(packet, at);
    }

    /// TCP, UDP and SCTP.
    fn ports(&mut self, packet: &[u8], at: usize) {
        if matches!(self.proto, Some(6 | 17 | 132)) {
            self.sport = word(packet, at);
            self.dport = word(packet, at + 2);
        }
    }
}
