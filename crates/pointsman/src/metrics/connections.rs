//! Occupancy of the balancer's connection table.
//!
//! The kind of an entry depends on the time, so it cannot be counted at changes: an idle connection ends without a packet. It is
//! counted by looking at every place while packets pass, a few at a time, so that the control plane does not wait for it.

use super::{Labels, Page, labelled, one};
use crate::metrics::switch::named;
use pointsman_ir::ExternInstanceId;
use pointsman_v1model::Watch;
use std::collections::BTreeMap;

/// Ways of the table (connections.p4).
const WAYS: usize = 4;

/// Flags of an entry: `CONN_*` of connections.p4.
const LIVE: u64 = 1;
const FINS: u64 = 2 | 4;
const RESET: u64 = 8;

/// `LINGER`, in units of 1,024 microseconds, `HALF_OPEN`, in 65,536 microseconds, and `AHEAD` of connections.p4.
const LINGER: u32 = 1954;
const HALF_OPEN: u32 = 77;
const AHEAD: u32 = 1 << 20;

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The client has not completed its handshake yet.
    Opening,
    /// It is open.
    Open,
    /// Both FINs or a RST were seen; last packets may still arrive.
    Ending,
    /// No packet was seen of it for its idle time: a late packet finds it, a new connection takes its place.
    Idle,
}

impl Phase {
    /// All of them, with their names.
    pub const ALL: [(Phase, &str); 4] = [
        (Phase::Opening, "opening"),
        (Phase::Open, "open"),
        (Phase::Ending, "ending"),
        (Phase::Idle, "idle"),
    ];

    /// Of the words `state` and `last_seen` of an entry; None if its place is free.
    fn of(state: u64, seen: impl FnOnce() -> u32, now_us: u64) -> Option<Phase> {
        if state & LIVE == 0 {
            return None;
        }
        let idle = (state >> 8 & 0x3_ffff) as u32;
        let ending = state & RESET != 0 || state & FINS == FINS;
        let limit = if ending { LINGER } else { idle << 6 };
        let age = ((now_us >> 10) as u32).wrapping_sub(seen());
        match (ending, age > limit && age < AHEAD.wrapping_neg()) {
            (true, true) => None,
            (true, false) => Some(Phase::Ending),
            (false, true) => Some(Phase::Idle),
            (false, false) if idle == HALF_OPEN => Some(Phase::Opening),
            (false, false) => Some(Phase::Open),
        }
    }
}

/// Contents of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connections {
    /// Places of all ways.
    pub places: u64,
    /// Entries by kind.
    pub phases: BTreeMap<Phase, u64>,
    /// Places of each way that a new connection would not get.
    pub taken: [u64; WAYS],
    /// By number of the device: open connections.
    pub devices: BTreeMap<u64, u64>,
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
    pub fn step(&mut self, cells: &Watch, now_us: u64, parts: u64) {
        let of = |way: usize, what: &str| {
            named(cells.program(), &format!("BalancerIngress.connections.way{way}.{what}"))
        };
        let ways: Option<Vec<[ExternInstanceId; 3]>> = (0..WAYS)
            .map(|way| Some([of(way, "state")?, of(way, "last_seen")?, of(way, "middle")?]))
            .collect();
        let Some(ways) = ways else {
            *self = Census::default();
            return;
        };
        let length = ways.first().map_or(0, |[id, ..]| cells.len(*id));
        if self.counted.places != length * WAYS as u64 || self.next >= length {
            self.next = 0;
            self.counted = Connections { places: length * WAYS as u64, ..Connections::default() };
        }
        let end = (self.next + length.div_ceil(parts.max(1)).max(1)).min(length);
        let read = |id, place| cells.register(id, place).map_or(0, |b| b.low_u64());
        for place in self.next..end {
            for (way, [word, seen, middle]) in ways.iter().enumerate() {
                let seen = || read(*seen, place) as u32;
                let Some(phase) = Phase::of(read(*word, place), seen, now_us) else { continue };
                *self.counted.phases.entry(phase).or_default() += 1;
                if phase != Phase::Idle {
                    self.counted.taken[way] += 1;
                }
                if matches!(phase, Phase::Open | Phase::Opening) {
                    *self.counted.devices.entry(read(*middle, place) >> 16 & 0xffff).or_default() += 1;
                }
            }
        }
        self.next = end;
        if end == length {
            self.last = Some(std::mem::take(&mut self.counted));
        }
    }
}

impl Connections {
    pub(super) fn add_to(&self, page: &mut Page) {
        page.gauge(
            "pointsman_balancer_connection_places",
            "Capacity of the connection table.",
            one(self.places),
        );
        let phases = Phase::ALL.iter().map(|(phase, name)| {
            labelled("phase", *name, self.phases.get(phase).copied().unwrap_or_default())
        });
        page.gauge(
            "pointsman_balancer_connections",
            "Entries of the connection table, by kind.",
            phases.collect(),
        );
        let taken = self.taken.iter().enumerate().map(|(way, n)| labelled("way", way.to_string(), *n));
        page.gauge(
            "pointsman_balancer_connection_places_taken",
            "Unavailable places in a way for new connections.",
            taken.collect(),
        );
        let devices = self.devices.iter().map(|(device, n)| {
            let labels: Labels =
                vec![("server", (device >> 3).to_string()), ("slot", (device & 7).to_string())];
            (labels, *n as f64)
        });
        page.gauge(
            "pointsman_balancer_device_open_connections",
            "Open connections of a device in any state, including those left while draining.",
            devices.collect(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `idle` in units of 65,536 microseconds, `age` in 1,024.
    #[track_caller]
    fn check(flags: u64, idle: u32, age: u64, want: Option<Phase>) {
        let state = 7 << 26 | u64::from(idle) << 8 | flags;
        assert_eq!(Phase::of(state, || 1_000_000, (1_000_000 + age) << 10), want);
    }

    #[test]
    fn phases() {
        check(0, 500, 0, None);
        check(LIVE, 500, 0, Some(Phase::Open));
        check(LIVE, 500, 32_000, Some(Phase::Open));
        check(LIVE, 500, 32_001, Some(Phase::Idle));
        check(LIVE, HALF_OPEN, 0, Some(Phase::Opening));
        check(LIVE | 2, 500, 3_000, Some(Phase::Open));
        check(LIVE | FINS, 500, 1954, Some(Phase::Ending));
        check(LIVE | RESET | 128, 500, 1955, None);
        // Seen after the clock was read, and when the time came around.
        assert_eq!(Phase::of(LIVE | 10 << 8, || 5, 4 << 10), Some(Phase::Open));
        assert_eq!(Phase::of(LIVE | 10 << 8, || u32::MAX, 600 << 10), Some(Phase::Open));
        assert_eq!(Phase::of(LIVE | 10 << 8, || u32::MAX, 640 << 10), Some(Phase::Idle));
    }

    /// Numbers are those of the data plane.
    #[test]
    fn constants_are_those_of_the_program() {
        let text = include_str!("../../../../p4/programs/balancer/connections.p4");
        let value = |name: &str| {
            let line = text.lines().find(|l| l.starts_with("const") && l.contains(&format!(" {name} =")));
            let value = line.and_then(|l| l.split(['=', ';']).nth(1)).map(|v| v.trim().parse::<u64>());
            value.expect("a constant").expect("a number")
        };
        assert_eq!((value("LINGER"), value("HALF_OPEN")), (LINGER.into(), HALF_OPEN.into()));
        assert_eq!((value("CONN_LIVE"), value("CONN_RESET")), (LIVE, RESET));
        assert_eq!(value("CONN_FIN_CLIENT") | value("CONN_FIN_DEVICE"), FINS);
    }
}
