//! Counters, indirect and direct.

/// What a counter counts (v1model's `CounterType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Both.
    PacketsAndBytes,
}

impl CounterKind {
    /// The kind of that name in v1model.p4.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "packets" => CounterKind::Packets,
            "bytes" => CounterKind::Bytes,
            "packets_and_bytes" => CounterKind::PacketsAndBytes,
            _ => return None,
        })
    }
}

/// One counter. Wraps at 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterCell {
    /// Packets; stays 0 where only bytes are counted.
    pub packets: u64,
    /// Bytes of the packets as they came in; stays 0 where only packets are counted.
    pub bytes: u64,
}

impl CounterCell {
    /// Counts a packet.
    pub fn count(&mut self, kind: CounterKind, bytes: u32) {
        if kind != CounterKind::Bytes {
            self.packets = self.packets.wrapping_add(1);
        }
        if kind != CounterKind::Packets {
            self.bytes = self.bytes.wrapping_add(u64::from(bytes));
        }
    }
}

/// An array of counters.
#[derive(Clone, Debug)]
pub struct CounterArray {
    /// What is counted.
    pub kind: CounterKind,
    /// The counters.
    pub cells: Vec<CounterCell>,
    /// Calls by packets whose index was out of range.
    pub out_of_range: u64,
}

impl CounterArray {
    /// `size` counters at zero.
    pub fn new(kind: CounterKind, size: usize) -> Self {
        CounterArray { kind, cells: vec![CounterCell::default(); size], out_of_range: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, packets: u64, bytes: u64) {
        let kind = CounterKind::from_name(kind).unwrap();
        let mut c = CounterCell::default();
        c.count(kind, 100);
        c.count(kind, 60);
        assert_eq!((c.packets, c.bytes), (packets, bytes));
    }

    #[test]
    fn kinds() {
        check("packets", 2, 0);
        check("bytes", 0, 160);
        check("packets_and_bytes", 2, 160);
        assert_eq!(CounterKind::from_name("bits"), None);
    }
}
