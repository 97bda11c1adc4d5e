//! Time as an argument.

/// A point in time: nanoseconds since the switch started.
///
/// The caller decides what drives it, a clock or a simulation. It must not run backwards from call to call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// When the switch started.
    pub const ZERO: Time = Time(0);

    /// `us` microseconds after the start.
    pub fn from_micros(us: u64) -> Time {
        Time(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds after the start.
    pub fn from_millis(ms: u64) -> Time {
        Time(ms.saturating_mul(1_000_000))
    }

    /// Whole microseconds since the start: the unit of every timestamp in `standard_metadata`.
    pub fn micros(self) -> u64 {
        self.0 / 1_000
    }

    /// `ns` nanoseconds later.
    pub fn plus_ns(self, ns: u64) -> Time {
        Time(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` until now; 0 if `earlier` is later.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The earlier of two points in time, or the one that there is.
#[inline]
pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        _ => a.or(b),
    }
}
