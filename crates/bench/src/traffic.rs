//! The order of packets: flows in random order, new flows, ended flows.

use super::frame::{Fields, SHORTEST, TCP};
use pointsman_v1model::Arrived;
use pointsman_wire::Random;

/// The packet mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mix {
    /// Packets of known flows.
    #[default]
    Hit,
    /// Each packet starts a new flow.
    Miss,
    /// Of every ten packets, nine belong to known flows, one of which ends, and one starts a new flow.
    Churn,
}

impl Mix {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Hit => "hit",
            Mix::Miss => "miss",
            Mix::Churn => "churn",
        }
    }
}

/// The next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Of a known flow.
    Known(u32),
    /// The first of a flow.
    Opens(u32),
    /// The last of a flow.
    Ends(u32),
}

/// Packets between two new flows of [`Mix::Churn`].
const CHURN: u32 = 10;

/// The order of packets. Equal sequences give equal packets, so that two things that are compared get the same.
#[derive(Clone, Debug)]
pub struct Sequence {
    mix: Mix,
    /// Live flows, in the order of their next packets.
    order: Vec<u32>,
    at: usize,
    count: u32,
    next_new: u32,
    /// From one new flow to the next.
    stride: u32,
    /// Nanoseconds.
    now: u64,
    tick: u64,
}

impl Sequence {
    /// Packets of the live flows, in a random order which repeats. `next_new` is the first flow that is not live yet;
    /// `now` and `tick`, in nanoseconds, are the time of the first packet, and the interval between packets.
    pub fn new(mix: Mix, mut live: Vec<u32>, next_new: u32, now: u64, tick: u64) -> Self {
        let mut random = Random::new(live.len() as u64);
        for i in (1..live.len()).rev() {
            live.swap(i, random.below(i as u64 + 1) as usize);
        }
        Sequence { mix, order: live, at: 0, count: 0, next_new, stride: 1, now, tick }
    }

    /// So many sequences in place of this one, each with its own flows.
    pub fn split(&self, parts: usize) -> Vec<Sequence> {
        let flows = |part| self.order.iter().copied().skip(part).step_by(parts).collect();
        let sequence = |part| Sequence {
            mix: self.mix,
            order: flows(part),
            at: 0,
            count: 0,
            next_new: self.next_new.wrapping_add(part as u32 * self.stride),
            stride: self.stride * parts as u32,
            now: self.now,
            tick: self.tick * parts as u64,
        };
        (0..parts).map(sequence).collect()
    }

    /// The next packet and its time.
    pub fn next(&mut self) -> (Step, u64) {
        self.now += self.tick;
        self.count = (self.count + 1) % CHURN;
        let step = match (self.mix, self.count) {
            (Mix::Miss, _) => Step::Opens(self.new_flow()),
            (Mix::Churn, 8) => Step::Ends(self.order[self.at]),
            (Mix::Churn, 9) => {
                let flow = self.new_flow();
                self.order[self.at] = flow;
                self.advance();
                Step::Opens(flow)
            }
            _ => {
                let flow = self.order[self.at];
                self.advance();
                Step::Known(flow)
            }
        };
        (step, self.now)
    }

    fn advance(&mut self) {
        self.at += 1;
        if self.at == self.order.len() {
            self.at = 0;
        }
    }

    fn new_flow(&mut self) -> u32 {
        let flow = self.next_new;
        self.next_new = self.next_new.wrapping_add(self.stride);
        flow
    }
}

/// The balanced service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Virtual address.
    pub vip: u32,
    /// TCP port.
    pub port: u16,
    /// MAC address of the switch.
    pub switch_mac: [u8; 6],
    /// Idle timeout of connections, in microseconds.
    pub idle_us: u32,
}

/// Source of the packets.
#[derive(Clone, Debug)]
pub enum Source {
    /// TCP over IPv4 to a service: flow number to client address and port.
    Connections(Service),
    /// Frames that were made beforehand for the known flows (a flow beyond them repeats them), and for others UDP from
    /// and to random addresses.
    Frames(Vec<(u32, Vec<u8>)>),
}

/// Ingress port of the clients.
pub const CLIENT_PORT: u32 = 1;

/// MAC address of every sender.
pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Client ports that a client address has.
const PORTS: u32 = 60_000;

impl Source {
    /// Longest frame.
    pub fn longest(&self) -> usize {
        match self {
            Source::Connections(_) => SHORTEST,
            Source::Frames(frames) => frames.iter().map(|(_, f)| f.len()).max().unwrap_or(0).max(SHORTEST),
        }
    }

    /// Writes a packet; returns its ingress port and length.
    pub fn write(&self, step: Step, out: &mut [u8]) -> (u32, usize) {
        let fields = match (self, step) {
            (Source::Frames(frames), Step::Known(flow) | Step::Ends(flow)) if !frames.is_empty() => {
                let (port, frame) = &frames[flow as usize % frames.len()];
                out[..frame.len()].copy_from_slice(frame);
                return (*port, frame.len());
            }
            (Source::Connections(service), _) => {
                let (flow, flags) = match step {
                    Step::Opens(flow) => (flow, 0x02),
                    Step::Known(flow) => (flow, 0x10),
                    Step::Ends(flow) => (flow, 0x04),
                };
                Fields {
                    dst_mac: service.switch_mac,
                    dst: service.vip,
                    dport: service.port,
                    protocol: TCP,
                    flags,
                    ..plain(flow)
                }
            }
            (Source::Frames(_), Step::Known(flow) | Step::Ends(flow) | Step::Opens(flow)) => plain(flow),
        };
        if let Some(frame) = out.first_chunk_mut::<SHORTEST>() {
            fields.write(frame);
        }
        (CLIENT_PORT, SHORTEST)
    }
}

/// The default packet of a flow: UDP, source address and port by its number, destination random.
pub fn plain(flow: u32) -> Fields {
    let mut random = Random::new(u64::from(flow));
    let bits = random.next_u64();
    Fields {
        dst_mac: [2, 0x50, 0x4d, 0, 0, 1],
        src_mac: CLIENT_MAC,
        src: 0x0b00_0000 + flow / PORTS,
        // Neither loopback nor multicast.
        dst: 0x1000_0000 + (bits as u32 & 0x3fff_ffff),
        protocol: super::frame::UDP,
        sport: 1024 + (flow % PORTS) as u16,
        dport: 1 + (bits >> 32) as u16 % 65_535,
        flags: 0,
    }
}

/// A packet in the ring.
#[derive(Clone, Copy, Debug, Default)]
struct Item {
    port: u32,
    length: u32,
    now: u64,
}

/// Packets in memory, as left by a network card: separate buffers, together larger than the first-level cache.
pub struct Ring {
    bytes: Vec<u8>,
    stride: usize,
    items: Vec<Item>,
}

/// Room before each packet for headers that a program adds.
const HEADROOM: usize = 64;

impl Ring {
    /// Buffers in a ring.
    pub const SIZE: usize = 4096;

    /// Buffers for frames of this length.
    pub fn new(longest: usize) -> Self {
        let stride = (HEADROOM + longest).next_multiple_of(64);
        Ring { bytes: vec![0; stride * Self::SIZE], stride, items: Vec::with_capacity(Self::SIZE) }
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Refills the first `n` buffers.
    pub fn refill(&mut self, sequence: &mut Sequence, source: &Source, n: usize) {
        self.items.clear();
        for buffer in self.bytes.chunks_exact_mut(self.stride).take(n) {
            let (step, now) = sequence.next();
            let (port, length) = source.write(step, &mut buffer[HEADROOM..]);
            self.items.push(Item { port, length: length as u32, now });
        }
    }

    /// Each packet: its time in nanoseconds and its bytes.
    #[inline]
    pub fn packets(&mut self) -> impl Iterator<Item = (u64, &mut [u8])> {
        let buffers = self.bytes.chunks_exact_mut(self.stride);
        self.items
            .iter()
            .zip(buffers)
            .map(|(item, b)| (item.now, &mut b[HEADROOM..HEADROOM + item.length as usize]))
    }

    /// Each packet as a switch takes it, with its time in nanoseconds.
    #[inline]
    pub fn buffers(&mut self) -> impl Iterator<Item = (u64, Arrived<'_>)> {
        let buffers = self.bytes.chunks_exact_mut(self.stride);
        self.items.iter().zip(buffers).map(|(item, b)| {
            let buffer = &mut b[..HEADROOM + item.length as usize];
            (item.now, Arrived { port: item.port, buffer, start: HEADROOM })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn mixes() {
        let steps = |mix, n: usize| {
            let mut sequence = Sequence::new(mix, (0..50).collect(), 50, 0, 10);
            (0..n).map(|_| sequence.next().0).collect::<Vec<_>>()
        };
        // Each flow once, then again in the same order.
        let hit = steps(Mix::Hit, 100);
        assert_eq!(hit[..50], hit[50..]);
        let flows: BTreeSet<u32> = hit.iter().map(|s| if let Step::Known(f) = s { *f } else { 99 }).collect();
        assert!(flows.into_iter().eq(0..50));
        assert!(steps(Mix::Miss, 9).into_iter().eq((50..59).map(Step::Opens)));

        // Known flows were opened and have not ended.
        let mut live: BTreeSet<u32> = (0..50).collect();
        let churn = steps(Mix::Churn, 1000);
        for step in &churn {
            match step {
                Step::Known(f) => assert!(live.contains(f)),
                Step::Opens(f) => assert!(live.insert(*f)),
                Step::Ends(f) => assert!(live.remove(f)),
            }
        }
        assert_eq!(churn.iter().filter(|s| matches!(s, Step::Opens(_))).count(), 100);
        assert_eq!(churn.iter().filter(|s| matches!(s, Step::Ends(_))).count(), 100);
    }

    #[test]
    fn parts_have_flows_of_their_own() {
        let parts = Sequence::new(Mix::Churn, (0..50).collect(), 50, 0, 10).split(3);
        let mut seen = BTreeSet::new();
        for mut part in parts {
            let step = |_| part.next().0;
            let flows: BTreeSet<u32> = (0..100)
                .map(step)
                .map(|s| match s {
                    Step::Known(f) | Step::Opens(f) | Step::Ends(f) => f,
                })
                .collect();
            assert!(flows.len() > 20 && seen.is_disjoint(&flows), "{flows:?}");
            seen.extend(flows);
        }
    }

    #[test]
    fn rings_hold_the_sequence() {
        let source = Source::Frames(vec![(7, vec![1; 200]), (8, vec![2; 60])]);
        let mut ring = Ring::new(source.longest());
        let mut sequence = Sequence::new(Mix::Hit, vec![0, 1], 2, 5, 10);
        ring.refill(&mut sequence, &source, 3);
        let got: Vec<_> = ring
            .buffers()
            .map(|(now, arrived)| (now, arrived.port, arrived.buffer.len() - arrived.start))
            .collect();
        assert_eq!(got.iter().map(|g| g.0).collect::<Vec<_>>(), [15, 25, 35]);
        assert_eq!(got[0].1, got[2].1, "two flows take turns");
        assert!(got.iter().all(|g| (g.1, g.2) == (7, 200) || (g.1, g.2) == (8, 60)));
    }
}
