//! Properties, and what does not hold.

use std::fmt;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which one.
    pub property: &'static str,
    /// More about it.
    pub why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.why)
    }
}

/// Packets are explained by one switch that never fails.
pub const LINEARIZABLE: &str = "linearizable";
/// A packet leaves once.
pub const ONCE: &str = "once";
/// One switch at a time uses the state.
pub const ONE_OWNER: &str = "one owner";
/// Packets have answers after the faults.
pub const ANSWERED: &str = "answered";
/// The store has the state after the faults.
pub const STORED: &str = "stored";
/// A switch continues a sketch as it was at one instant, and not before the last snapshot that is known to be complete.
pub const ONE_INSTANT: &str = "one instant";
/// Nodes send what they may.
pub const WELL_FORMED: &str = "well formed";
