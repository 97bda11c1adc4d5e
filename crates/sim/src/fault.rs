//! Deliberate faults, so that tests see every checker find something.

/// A fault of the simulated world. Each strikes on every hundredth occasion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A request is handed to the wrong device.
    Misdeliver,
    /// A packet that leaves the switch vanishes.
    Swallow,
    /// An answer is delivered twice.
    Duplicate,
    /// A request is changed on its way.
    Corrupt,
    /// Agents of failed devices keep reporting (always).
    GhostReports,
    /// A device forgets to count a service.
    FreeWork,
    /// A device takes a request for older than it is.
    OldStamp,
}
