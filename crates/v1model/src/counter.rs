//! Counters, indirect and direct.

use pointsman_ir::CellKind;

/// The unit of a counter (v1model's `CounterType`).
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

    pub(crate) fn cells(self) -> CellKind {
        match self {
            CounterKind::Packets => CellKind::Packets,
            CounterKind::Bytes => CellKind::Bytes,
            CounterKind::PacketsAndBytes => CellKind::PacketsAndBytes,
        }
    }
}

/// One counter. Wraps at 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterCell {
    /// Packets; stays 0 if only bytes are counted.
    pub packets: u64,
    /// Bytes of the packets as they came in; stays 0 if only packets are counted.
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

    /// From the words of a cell.
    pub(crate) fn from_words(kind: CounterKind, [first, second]: [u64; 2]) -> Self {
        match kind {
            CounterKind::Packets => CounterCell { packets: first, bytes: 0 },
            CounterKind::Bytes => CounterCell { packets: 0, bytes: first },
            CounterKind::PacketsAndBytes => CounterCell { packets: first, bytes: second },
        }
    }

    /// To the words of a cell, without values that the counter does not count.
    pub(crate) fn to_words(self, kind: CounterKind) -> [u64; 2] {
        match kind {
            CounterKind::Packets => [self.packets, 0],
            CounterKind::Bytes => [self.bytes, 0],
            CounterKind::PacketsAndBytes => [self.packets, self.bytes],
        }
    }
}

/// The description of an array of counters. Its cells are in [`State`](crate::State).
#[derive(Clone, Debug)]
pub struct CounterArray {
    /// The unit.
    pub kind: CounterKind,
    len: u64,
}

impl CounterArray {
    /// `len` counters.
    pub fn new(kind: CounterKind, len: u64) -> Self {
        CounterArray { kind, len }
    }

    /// Number of counters.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No counters?
    pub fn is_empty(&self) -> bool {
        self.len == 0
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
