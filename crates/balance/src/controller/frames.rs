//! Address resolution requests and answers: ARP (RFC 826) and neighbour discovery (RFC 4861).

use crate::types::Mac;
use pointsman_wire::frame::{ICMPV6, arp, solicitation};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const ADVERTISEMENT: u8 = 136;

/// The frame that requests the MAC address of `target`, by broadcast or only from the station that had it. `own6` is the address to ask from
/// for IPv6.
pub(super) fn question(mac: Mac, own6: Ipv6Addr, target: IpAddr, only: Option<Mac>) -> Vec<u8> {
    match target {
        IpAddr::V4(target) => arp_probe(mac, target, only),
        IpAddr::V6(target) => solicitation(mac, own6, target, only),
    }
}

/// An ARP request without sender address (a probe, RFC 5227): every host answers it, none learns a wrong address from it,
/// and the answer is for no address of the switch, so the data plane hands it to the controller.
fn arp_probe(mac: Mac, target: Ipv4Addr, only: Option<Mac>) -> Vec<u8> {
    let nobody = Mac([0; 6]);
    let hop = (only.unwrap_or(Mac::BROADCAST), mac);
    let mut f = arp(hop, 1, (mac, Ipv4Addr::UNSPECIFIED), (nobody, target));
    f.resize(60, 0); // the shortest Ethernet frame without its checksum
    f
}

/// The link-local address that belongs to a MAC address (RFC 4291, appendix A).
pub(super) fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// The address that answered, and its MAC address; `None` for anything but an answer.
pub(super) fn answer(frame: &[u8]) -> Option<(IpAddr, Mac)> {
    let (address, mac): (IpAddr, [u8; 6]) = match *frame.get(12..)?.first_chunk::<2>()? {
        ETHERTYPE_ARP => {
            let arp = frame.get(14..42)?;
            if arp[..8] != [0, 1, 0x08, 0x00, 6, 4, 0, 2] {
                return None;
            }
            let address = Ipv4Addr::from(*arp.get(14..)?.first_chunk::<4>()?);
            (address.into(), *arp.get(8..)?.first_chunk()?)
        }
        ETHERTYPE_IPV6 => {
            let ip = frame.get(14..)?;
            let message = ip.get(40..)?;
            // Only a neighbour can send with 255 hops to live (RFC 4861, section 7.1.2).
            if ip[6] != ICMPV6 || ip[7] != 255 || *message.first()? != ADVERTISEMENT || *message.get(1)? != 0
            {
                return None;
            }
            let target = Ipv6Addr::from(*message.get(8..)?.first_chunk::<16>()?);
            if message.get(24..26)? != [2, 1] {
                return None; // no target link-layer address
            }
            (target.into(), *message.get(26..)?.first_chunk()?)
        }
        _ => return None,
    };
    let mac = Mac(mac);
    (!mac.is_group() && mac.to_u64() != 0).then_some((address, mac))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pointsman_wire::Random;
    use pointsman_wire::checksum::folded;
    use pointsman_wire::frame::transport_sum;

    /// A host's answer to a request, if the request is for it.
    pub(crate) fn host(question: &[u8], own: IpAddr, mac: Mac) -> Option<Vec<u8>> {
        let to = question.get(..6)?;
        if to[0] & 1 == 0 && to != mac.0 {
            return None;
        }
        let mut f = Vec::new();
        match own {
            IpAddr::V4(own) => {
                if question.get(12..22)? != [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]
                    || question.get(38..42)? != own.octets()
                {
                    return None;
                }
                f.extend(&question[6..12]);
                f.extend(mac.0);
                f.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
                f.extend(mac.0);
                f.extend(own.octets());
                f.extend(&question[22..32]);
            }
            IpAddr::V6(own) => {
                if question.get(12..14)? != [0x86, 0xdd] || question.get(62..78)? != own.octets() {
                    return None;
                }
                let message = &question[54..];
                let source = Ipv6Addr::from(*question.get(22..)?.first_chunk::<16>()?);
                let to = Ipv6Addr::from(*question.get(38..)?.first_chunk::<16>()?);
                let sum = transport_sum(source.into(), to.into(), ICMPV6, message);
                assert_eq!(folded(sum), 0xffff, "the solicitation's checksum");
                f.extend(&question[6..12]);
                f.extend(mac.0);
                f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]);
                f.extend(own.octets());
                f.extend(source.octets());
                f.extend([136, 0, 0, 0, 0x60, 0, 0, 0]);
                f.extend(own.octets());
                f.extend([2, 1]);
                f.extend(mac.0);
            }
        }
        Some(f)
    }

    #[test]
    fn questions_and_answers() {
        let switch: Mac = "02:50:4d:00:00:01".parse().expect("valid");
        let mac: Mac = "02:00:00:00:00:07".parse().expect("valid");
        for target in ["10.0.1.11", "2001:db8::11"] {
            let target: IpAddr = target.parse().expect("valid");
            for only in [None, Some(mac)] {
                let q = question(switch, link_local(switch), target, only);
                assert_eq!(only.is_none(), q[0] & 1 == 1, "multicast or unicast");
                assert_eq!(answer(&q), None, "a solicitation is not an advertisement");
                let a = host(&q, target, mac).expect("it is asked for");
                assert_eq!(a[..6], switch.0);
                assert_eq!(answer(&a), Some((target, mac)));
                let another = Mac([2, 0, 0, 0, 0, 8]);
                assert_eq!(host(&q, target, another).is_none(), only.is_some(), "only that one is asked");
            }
        }
        assert_eq!(link_local(switch).to_string(), "fe80::50:4dff:fe00:1");
    }

    #[test]
    fn random_answers() {
        let mut random = Random::new(9);
        let switch = Mac([2, 0, 0, 0, 0, 1]);
        let mut good = 0;
        for i in 0..50_000 {
            let target: IpAddr = if i % 2 == 0 { [10, 0, 0, 1].into() } else { Ipv6Addr::LOCALHOST.into() };
            let q = question(switch, link_local(switch), target, None);
            let mut a = host(&q, target, Mac([2, 0, 0, 0, 0, 2])).expect("asked for");
            let at = random.below(a.len() as u64) as usize;
            a[at] = random.next_u64() as u8;
            if random.below(3) == 0 {
                a.truncate(random.below(a.len() as u64) as usize);
            }
            good += usize::from(answer(&a).is_some());
        }
        assert!(good > 10_000);
    }
}
