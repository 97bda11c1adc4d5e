//! Entries of the connection table (connections.p4).

use crate::types::DeviceNumber;

/// Ways of the table: an entry is in one of so many registers.
pub const WAYS: usize = 4;

/// Flags of an entry: `CONN_*`.
const LIVE: u64 = 1;
const FINS: u64 = 2 | 4;
const RESET: u64 = 8;

/// `LINGER`, in units of 1,024 microseconds, `HALF_OPEN`, in 65,536 microseconds, and `AHEAD`.
const LINGER: u32 = 1954;
const HALF_OPEN: u32 = 77;
const AHEAD: u32 = 1 << 20;

/// Microseconds in a unit of `last_seen`.
pub const UNIT_US: u64 = 1024;

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

    /// Of the words `state` and `last_seen` of an entry at a time in [`UNIT_US`]; None if its place is free.
    pub fn of(state: u64, seen: impl FnOnce() -> u32, now: u32) -> Option<Phase> {
        if state & LIVE == 0 {
            return None;
        }
        let idle = (state >> 8 & 0x3_ffff) as u32;
        let limit = if is_ending(state) { LINGER } else { idle << 6 };
        let age = now.wrapping_sub(seen());
        match (is_ending(state), age > limit && age < AHEAD.wrapping_neg()) {
            (true, true) => None,
            (true, false) => Some(Phase::Ending),
            (false, true) => Some(Phase::Idle),
            (false, false) if idle == HALF_OPEN => Some(Phase::Opening),
            (false, false) => Some(Phase::Open),
        }
    }

    /// The connection has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, Phase::Opening | Phase::Open)
    }
}

fn is_ending(state: u64) -> bool {
    state & RESET != 0 || state & FINS == FINS
}

/// Whether a connection with this word `state` has not ended, unless it fell silent.
pub fn may_be_open(state: u64) -> bool {
    state & LIVE != 0 && !is_ending(state)
}

/// The device in the word `middle` of an entry.
pub fn device(middle: u64) -> DeviceNumber {
    DeviceNumber::from_parts((middle >> 16) as u16, middle >> 12 & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program;

    /// `idle` in units of 65,536 microseconds, `age` in 1,024.
    #[track_caller]
    fn check(flags: u64, idle: u32, age: u32, want: Option<Phase>) {
        let state = 7 << 26 | u64::from(idle) << 8 | flags;
        assert_eq!(Phase::of(state, || 1_000_000, 1_000_000 + age), want);
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
        assert_eq!(Phase::of(LIVE | 10 << 8, || 5, 4), Some(Phase::Open));
        assert_eq!(Phase::of(LIVE | 10 << 8, || u32::MAX, 600), Some(Phase::Open));
        assert_eq!(Phase::of(LIVE | 10 << 8, || u32::MAX, 640), Some(Phase::Idle));
    }

    /// Numbers are those of the data plane.
    #[test]
    fn constants_are_those_of_the_program() {
        let text = program::file("connections.p4").expect("a file of the program");
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
