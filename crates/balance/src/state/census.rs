//! Occupancy of the connection table.
//!
//! The kind of an entry depends on the time, so it cannot be counted at changes: an idle connection ends without a packet. It is
//! counted by looking at every place while packets pass, a few at a time, so that the control plane does not wait for it.

use super::Cells;
use super::entry::{self, Phase, UNIT_US, WAYS};
use crate::types::DeviceNumber;
use std::collections::BTreeMap;

/// Contents of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connections {
    /// Places of all ways.
    pub places: u64,
    /// Entries by kind.
    pub phases: BTreeMap<Phase, u64>,
    /// Places of each way that a new connection would not get.
    pub taken: [u64; WAYS],
    /// By device: open connections.
    pub devices: BTreeMap<DeviceNumber, u64>,
}

/// Counts connections, a few places at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Census {
    /// The next place to scan, in every way.
    next: u64,
    counted: Connections,
    last: Option<Connections>,
}

impl Census {
    /// Counts after the last full scan; `None` before the first.
    pub fn last(&self) -> Option<&Connections> {
        self.last.as_ref()
    }

    /// Counts one of `parts` equal parts of the table. `now_us` is the program's time.
    pub fn step<C: Cells>(&mut self, cells: &C, now_us: u64, parts: u64) {
        let of = |way: usize, what: &str| cells.find(&format!("BalancerIngress.connections.way{way}.{what}"));
        let ways: Option<Vec<[C::Array; 3]>> = (0..WAYS)
            .map(|way| Some([of(way, "state")?, of(way, "last_seen")?, of(way, "middle")?]))
            .collect();
        let Some(ways) = ways else {
            *self = Census::default();
            return;
        };
        let length = ways.first().map_or(0, |[array, ..]| cells.len(*array));
        if self.counted.places != length * WAYS as u64 || self.next >= length {
            self.next = 0;
            self.counted = Connections { places: length * WAYS as u64, ..Connections::default() };
        }
        let end = (self.next + length.div_ceil(parts.max(1)).max(1)).min(length);
        let read = |array, place| cells.register(array, place).unwrap_or(0);
        for place in self.next..end {
            for (way, [word, seen, middle]) in ways.iter().enumerate() {
                let seen = || read(*seen, place) as u32;
                let Some(phase) = Phase::of(read(*word, place), seen, (now_us / UNIT_US) as u32) else {
                    continue;
                };
                *self.counted.phases.entry(phase).or_default() += 1;
                if phase != Phase::Idle {
                    self.counted.taken[way] += 1;
                }
                if phase.is_open() {
                    *self.counted.devices.entry(entry::device(read(*middle, place))).or_default() += 1;
                }
            }
        }
        self.next = end;
        if end == length {
            self.last = Some(std::mem::take(&mut self.counted));
        }
    }
}
