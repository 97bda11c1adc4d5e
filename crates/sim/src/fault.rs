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

/// The fault of a simulation, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub which: Option<Fault>,
    occasions: u64,
}

impl Faults {
    pub fn new(which: Option<Fault>) -> Self {
        Faults { which, occasions: 0 }
    }

    /// Whether this one occurs now.
    #[inline]
    pub fn strikes(&mut self, fault: Fault) -> bool {
        if self.which != Some(fault) {
            return false;
        }
        self.occasions += 1;
        self.occasions.is_multiple_of(100)
    }
}
