//! ICMP echo requests between hosts, so that `pingall` needs no other program.

use pointsman_lab::Namespace;
use pointsman_wire::checksum::{folded, sum};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// How long answers are waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long duplicates are waited for when all have answered.
const LINGER: Duration = Duration::from_millis(20);

/// An echo request (RFC 792).
fn request(id: u16, sequence: u16) -> Vec<u8> {
    let mut packet = vec![ECHO_REQUEST, 0, 0, 0];
    packet.extend(id.to_be_bytes());
    packet.extend(sequence.to_be_bytes());
    packet.extend([0x50; 48]);
    let checksum = !folded(sum(&packet));
    packet[2..4].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// The source of an answer to one of the requests that were sent to these addresses with this id, from a packet with its IPv4 header.
fn answer(packet: &[u8], to: &[Ipv4Addr], id: u16) -> Option<Ipv4Addr> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let source = Ipv4Addr::from(*packet.get(12..16)?.first_chunk::<4>()?);
    let icmp = packet.get(header..)?;
    let sequence = u16::from_be_bytes(*icmp.get(6..8)?.first_chunk()?);
    let asked = to.get(usize::from(sequence).checked_sub(1)?);
    let right = icmp[0] == ECHO_REPLY && icmp[4..6] == id.to_be_bytes() && asked == Some(&source);
    right.then_some(source)
}

/// The answers to requests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Those that answered.
    pub from: BTreeSet<Ipv4Addr>,
    /// Answers after the first one of an address.
    pub duplicates: usize,
}

/// Sends a request to each of these addresses from a host, and gives those that answered, each one's duplicates within [`LINGER`] included.
/// `id` is that of no earlier requests of the host, whose answers may still come.
///
/// # Errors
/// The host can have no socket for this.
pub fn ping(from: &Namespace, to: &[Ipv4Addr], id: u16) -> io::Result<Answers> {
    let run = || -> io::Result<Answers> {
        let mut socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
        for (sequence, address) in (1..).zip(to) {
            let target = SockAddr::from(SocketAddrV4::new(*address, 0));
            // Without a route there is no answer either.
            let _ = socket.send_to(&request(id, sequence), &target);
        }
        let (mut end, mut answers) = (Instant::now() + PATIENCE, Answers::default());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left))?;
            let mut packet = [0; 2048];
            match socket.read(&mut packet) {
                Ok(n) => {
                    let Some(source) = answer(&packet[..n], to, id) else { continue };
                    let first = answers.from.insert(source);
                    answers.duplicates += usize::from(!first);
                    if first && answers.from.len() == to.len() {
                        end = end.min(Instant::now() + LINGER);
                    }
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(answers)
    };
    from.enter(run).map_err(|e| io::Error::other(e.to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets() {
        let sent = request(0x1234, 2);
        let to = [8, 9, 10].map(|n| Ipv4Addr::new(10, 0, 0, n));
        assert_eq!((sent.len(), folded(sum(&sent))), (56, 0xffff));
        let mut packet = vec![0x45; 20];
        packet[12..16].copy_from_slice(&[10, 0, 0, 9]);
        packet.extend(&sent);
        assert_eq!(answer(&packet, &to, 0x1234), None, "a request");
        packet[20] = ECHO_REPLY;
        assert_eq!(answer(&packet, &to, 0x1234), Some(to[1]));
        assert_eq!(answer(&packet, &to, 0x1235), None, "of other requests");
        for wrong in [0, 1, 3, 4] {
            packet[27] = wrong;
            assert_eq!(answer(&packet, &to, 0x1234), None, "{wrong} is not the number of its request");
        }
        packet[27] = 2;
        for n in 0..28 {
            assert_eq!(answer(&packet[..n], &to, 0x1234), None, "{n} bytes");
        }
    }
}
