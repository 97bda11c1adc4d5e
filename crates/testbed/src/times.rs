//! How long things take.

use pointsman_net::random::{Stream, rounded};

/// Bytes that a frame takes on an Ethernet in addition to itself.
pub(crate) const OVERHEAD: u64 = 24;

/// Delays of figure 5.9's network, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// From the first bit into a switch to its queue: the core, a rack's switch, or a programmable one.
    pub switch_ns: u64,
    /// Propagation of a cable.
    pub cable_ns: u64,
    /// Bits per second of every link.
    pub bit_s: f64,
    /// One end of a host or store: adapter, bus, and the program's receiving or sending.
    pub end_ns: u64,
    /// Mean of what the end takes in addition, which is exponential.
    pub jitter_ns: u64,
    /// A request or a message between stores, at a store.
    pub store_ns: u64,
    /// Cores of a store: each handles the requests of some keys.
    pub cores: usize,
    /// Inputs that may wait for a core; more are lost.
    pub ring: u64,
    /// Packets a second that a switch sends to hosts by one port at most, and how many may wait; `None`: any number.
    pub port: Option<(f64, u64)>,
}

impl Default for Times {
    /// The switch: 0.8 us, as data sheets of such switches have it (ours). The cable: 10 m (ours). Links: 100 Gbit/s (section 5.6). The end: so that the median
    /// without RedPlane is the paper's 7 us (section 5.6.1). The store: a write of `cargo run --release -p pointsman-store --example speed` on
    /// one core, 0.6 million a second (ours, docs/redplane.md), with a ring of 4,096 frames (ours).
    fn default() -> Self {
        Times {
            switch_ns: 800,
            cable_ns: 50,
            bit_s: 100e9,
            end_ns: 1_800,
            jitter_ns: 200,
            store_ns: 1_670,
            cores: 1,
            ring: 4_096,
            port: None,
        }
    }
}

impl Times {
    /// A frame's time on a wire.
    pub fn wire_ns(&self, bytes: usize) -> u64 {
        rounded((bytes as u64 + OVERHEAD) as f64 * 8e9 / self.bit_s)
    }

    /// An end of a host or store.
    pub fn end(&self, random: &mut Stream) -> u64 {
        self.end_ns + rounded(random.exponential() * self.jitter_ns as f64)
    }

    /// Two cables with a switch between them: from a programmable switch to a host behind the core, or to a store in its rack.
    pub fn near_ns(&self, bytes: usize) -> u64 {
        2 * (self.cable_ns + self.wire_ns(bytes)) + self.switch_ns
    }

    /// From a rack to another: four cables and three switches.
    pub fn far_ns(&self, bytes: usize) -> u64 {
        2 * self.near_ns(bytes) + self.switch_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways() {
        let times = Times { switch_ns: 800, cable_ns: 50, bit_s: 8e9, ..Times::default() };
        assert_eq!(times.wire_ns(76), 100);
        assert_eq!((times.near_ns(76), times.far_ns(76)), (1_100, 3_000));
    }
}
