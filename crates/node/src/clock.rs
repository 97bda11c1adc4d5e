//! The clock of switch and store.

use nix::time::{ClockId, clock_gettime};
use pointsman_v1model::Time;
use std::time::Duration;

/// Time since the start, for a switch that was restarted with a state since its first start. It continues while the machine is suspended: leases and idle timeouts do not stop with it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Since the machine's boot; negative if its time began later than at zero.
    start_ns: i128,
}

fn since_boot() -> Duration {
    // Every Linux that this runs on has this clock.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

impl Clock {
    /// Starts it at this time.
    pub fn start(at: Time) -> Clock {
        Clock { start_ns: since_boot().as_nanos() as i128 - i128::from(at.0) }
    }

    /// Time since the start.
    #[inline]
    pub fn now(&self) -> Time {
        Time((since_boot().as_nanos() as i128 - self.start_ns) as u64)
    }
}
