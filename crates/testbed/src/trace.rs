//! Packets of many connections: what hosts send in place of the recorded traffic that the paper replays.

use pointsman_net::random::{Part, Stream, rounded};
use pointsman_wire::Mac;
use pointsman_wire::frame::{ACK, FIN, SYN, USUAL, packet, tcp};
use std::net::{IpAddr, Ipv4Addr};

/// Bytes of Ethernet, IPv4 and TCP in front of the payload.
const FRONT: usize = 54;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When, in nanoseconds.
    pub at: u64,
    /// Its connection.
    pub flow: u32,
    /// Its place in it, from 0.
    pub place: u32,
    /// Whether it is the connection's last.
    pub last: bool,
    /// Bytes of the frame.
    pub bytes: usize,
}

/// What hosts send.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Packets in all.
    pub packets: u32,
    /// Packets a second.
    pub rate_per_s: f64,
    /// Mean number of a connection's packets; the number itself is geometric.
    pub mean_packets: f64,
    /// Bytes of frames; `None`: 64 to 1500, most of them short or long.
    pub bytes: Option<usize>,
}

/// A frame's bytes: two fifths short, two fifths long, the others between (T. Benson, A. Akella, D. Maltz, IMC 2010, figure 9, roughly).
fn size(random: &mut Stream) -> usize {
    match random.below(5) {
        0 | 1 => 64 + random.below(136) as usize,
        2 | 3 => 1400 + random.below(101) as usize,
        _ => 200 + random.below(1200) as usize,
    }
}

/// The packets of all connections, in the order of time. Connections begin at random; each sends at random times, so many at once that the
/// rate is reached.
pub fn packets(traffic: &Traffic, seed: u64) -> Vec<Sent> {
    let mut random = Stream::new(seed, Part::Arrivals, 0);
    let gap_ns = 1e9 / traffic.rate_per_s;
    // Connections that are open at the same time.
    let open = 200.min(traffic.packets as usize / 10).max(1);
    let mut flows: Vec<(u32, u32)> = (0..open as u32).map(|flow| (flow, 0)).collect();
    let mut next = open as u32;
    let mut at = 0.0;
    let mut out = Vec::with_capacity(traffic.packets as usize);
    for _ in 0..traffic.packets {
        at += random.exponential() * gap_ns;
        let n = random.below(open as u64) as usize;
        let (flow, place) = flows[n];
        let last = place > 0 && random.happens(1.0 / (traffic.mean_packets - 1.0).max(1.0));
        let bytes = traffic.bytes.unwrap_or_else(|| size(&mut random));
        out.push(Sent { at: rounded(at), flow, place, last, bytes });
        flows[n] = if last { (next, 0) } else { (flow, place + 1) };
        next += u32::from(last);
    }
    out
}

/// A connection's source address and port, which are its own.
fn source(flow: u32) -> (Ipv4Addr, u16) {
    let [_, a, b, _] = (flow << 2).to_be_bytes();
    (Ipv4Addr::new(10, 0, a, b), 1024 + (flow % 64) as u16)
}

/// The frame of a packet: TCP from 10.0.0.0/16 to `to`, with its number at the start of the payload. `reads`: a type of service, so that it is not counted.
pub fn frame(sent: &Sent, number: u32, to: Ipv4Addr, reads: bool) -> Vec<u8> {
    let (from, port) = source(sent.flow);
    let flags = match (sent.place, sent.last) {
        (0, _) => SYN,
        (_, true) => FIN | ACK,
        _ => ACK,
    };
    let mut segment = tcp(port, 80, sent.place, flags);
    segment.extend(number.to_be_bytes());
    segment.resize((sent.bytes.max(64) - 34).max(24), 0);
    let mac = Mac([2, 0, 0, 0, 0, 9]);
    let mut frame = packet((mac, mac), IpAddr::V4(from), IpAddr::V4(to), 6, segment, USUAL);
    if reads {
        frame[15] = 1;
        frame[24..26].fill(0);
        let sum = !pointsman_wire::checksum::folded(pointsman_wire::checksum::sum(&frame[14..34]));
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// The number of the packet in a frame that came back.
pub fn number(frame: &[u8]) -> Option<u32> {
    let bytes = frame.get(FRONT..FRONT + 4)?;
    bytes.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_all_their_packets() {
        let traffic = Traffic { packets: 20_000, rate_per_s: 1e5, mean_packets: 40.0, bytes: None };
        let all = packets(&traffic, 1);
        assert!(all.windows(2).all(|w| w[0].at <= w[1].at));
        let first = all.iter().filter(|s| s.place == 0).count();
        assert!((500..900).contains(&first), "{first} connections");
        for (n, sent) in all.iter().enumerate().step_by(97) {
            let frame = frame(sent, n as u32, Ipv4Addr::new(10, 0, 0, 1), n % 2 == 0);
            assert_eq!((frame.len(), number(&frame)), (sent.bytes.max(64), Some(n as u32)));
        }
        let sources: std::collections::BTreeSet<_> = (0..10_000).map(source).collect();
        assert_eq!(sources.len(), 10_000);
    }
}
