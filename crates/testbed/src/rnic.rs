//! Delays of links and of a network adapter for RDMA. Each constant names its source: the TEA thesis, our choice, or a fit to the thesis.

use crate::times::OVERHEAD;
use pointsman_net::random::rounded;

/// Times and rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rnic {
    /// Bits a second of links. The thesis's: 40 Gbit/s (section 3.5).
    pub link_bit_s: f64,
    /// Propagation of a cable, in nanoseconds: 5 m (ours).
    pub cable_ns: u64,
    /// A pass through the switch, in nanoseconds (ours, as data sheets of such switches have it).
    pub switch_ns: u64,
    /// Bytes that the switch holds for a link; more are lost (ours: a small part of such a switch's 22 MB).
    pub queue_bytes: u64,
    /// Messages a second that the adapter takes. The thesis's: 34 million packets a second (section 3.5.2).
    pub messages_s: f64,
    /// Bits a second between adapter and memory: eight lanes of PCIe 3.0 (data sheet).
    pub bus_bit_s: f64,
    /// From a request to the first byte from memory, in nanoseconds: fitted, so that a bare READ of 64 bytes takes 1.65 us, 0.15 us less than the thesis's
    /// look-up of such a packet (section 3.5.1).
    pub memory_ns: u64,
    /// READs of a queue pair that the adapter takes at a time. The thesis's (section 3.4.3).
    pub reads: usize,
}

impl Default for Rnic {
    fn default() -> Self {
        Rnic {
            link_bit_s: 40e9,
            cable_ns: 25,
            switch_ns: 400,
            queue_bytes: 200_000,
            messages_s: 34e6,
            bus_bit_s: 63e9,
            memory_ns: 711,
            reads: 16,
        }
    }
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    /// When the last frame so far has left.
    free: u64,
    /// Bytes so far.
    bytes: u64,
}

impl Way {
    /// Sends a frame of this many bytes now from the switch. Returns its arrival time, or `None` if the queue is full.
    pub fn pass(&mut self, rnic: &Rnic, now: u64, bytes: usize) -> Option<u64> {
        let waits = self.free.saturating_sub(now);
        if waits as f64 * rnic.link_bit_s / 8e9 > rnic.queue_bytes as f64 {
            return None;
        }
        Some(self.send(rnic, now, bytes))
    }

    /// The same from an adapter, whose answers wait in memory.
    pub fn send(&mut self, rnic: &Rnic, now: u64, bytes: usize) -> u64 {
        let bytes = bytes as u64 + OVERHEAD;
        self.bytes += bytes;
        self.free = self.free.max(now) + rounded(bytes as f64 * 8e9 / rnic.link_bit_s);
        self.free + rnic.cable_ns
    }

    /// Bytes so far, with check sequence, preamble and gap of each frame.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// An adapter at work.
#[derive(Clone, Debug, Default)]
pub struct Adapter {
    /// When it takes the next message, and when the bus is free.
    ready: u64,
    bus: u64,
    /// When the last answer so far leaves: they keep their order.
    answered: u64,
    /// When READs end, by queue pair.
    reads: Vec<Vec<u64>>,
    /// The most concurrent READs of a queue pair.
    most: usize,
}

impl Adapter {
    /// Processes a message that arrives now. Returns when it is done, without its data.
    pub fn take(&mut self, rnic: &Rnic, now: u64) -> u64 {
        self.ready = self.ready.max(now) + rounded(1e9 / rnic.messages_s);
        self.ready
    }

    /// Answers without access to memory. Returns when the answer leaves.
    pub fn acknowledge(&mut self, now: u64) -> u64 {
        self.answered = self.answered.max(now);
        self.answered
    }

    /// Reads this many bytes for a queue pair, from now on. Returns when the answer leaves.
    pub fn read(&mut self, rnic: &Rnic, now: u64, pair: usize, bytes: usize) -> u64 {
        let begins = self.bus.max(now + rnic.memory_ns);
        self.bus = begins + rounded(bytes as f64 * 8e9 / rnic.bus_bit_s);
        let ends = self.acknowledge(self.bus);
        if self.reads.len() <= pair {
            self.reads.resize(pair + 1, Vec::new());
        }
        let under_way = &mut self.reads[pair];
        under_way.retain(|end| *end > now);
        under_way.push(ends);
        self.most = self.most.max(under_way.len());
        ends
    }

    /// The most concurrent READs of a queue pair so far.
    pub fn most_reads(&self) -> usize {
        self.most
    }
}

/// The latency of a bare READ in nanoseconds, from and to the switch.
pub fn bare_read_ns(rnic: &Rnic, bytes: usize) -> u64 {
    let (mut down, mut up, mut adapter) = (Way::default(), Way::default(), Adapter::default());
    // Ethernet, IPv4, UDP, base header, RETH or AETH, data, check value.
    let request = down.send(rnic, rnic.switch_ns, 54 + 16 + 4);
    let taken = adapter.take(rnic, request);
    let answer = adapter.read(rnic, taken, 0, bytes);
    up.send(rnic, answer, 54 + 4 + bytes + 4) + rnic.switch_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_read_is_the_sum_of_its_parts() {
        let rnic = Rnic {
            link_bit_s: 8e9,
            cable_ns: 50,
            switch_ns: 100,
            messages_s: 1e8,
            bus_bit_s: 16e9,
            memory_ns: 500,
            ..Rnic::default()
        };
        let wires = (74 + 24) + (62 + 64 + 24);
        assert_eq!(bare_read_ns(&rnic, 64), 2 * 100 + 2 * 50 + wires + 10 + 500 + 32);
        // As fitted.
        assert!((1645..1655).contains(&bare_read_ns(&Rnic::default(), 64)));
    }

    #[test]
    fn a_full_link_loses_frames() {
        let rnic = Rnic { link_bit_s: 8e9, cable_ns: 0, queue_bytes: 1000, ..Rnic::default() };
        let mut way = Way::default();
        assert_eq!(way.pass(&rnic, 0, 976), Some(1000));
        assert_eq!(way.pass(&rnic, 0, 976), Some(2000));
        assert_eq!(way.pass(&rnic, 0, 976), None);
        assert_eq!(way.pass(&rnic, 1000, 976), Some(3000));
    }

    #[test]
    fn an_adapter_counts_reads_of_a_queue_pair() {
        let (rnic, mut adapter) = (Rnic::default(), Adapter::default());
        for n in 0..3 {
            adapter.read(&rnic, n, 1, 64);
        }
        adapter.read(&rnic, 3, 0, 64);
        adapter.read(&rnic, 1_000_000, 1, 64);
        assert_eq!(adapter.most_reads(), 3);
        let (first, ack) = (adapter.read(&rnic, 2_000_000, 1, 64), adapter.acknowledge(2_000_100));
        assert_eq!(first, ack, "an acknowledgment overtakes no READ");
    }
}
