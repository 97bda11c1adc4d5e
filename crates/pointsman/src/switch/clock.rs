//! The switch's clock.

use nix::time::{ClockId, clock_gettime};
use pointsman_v1model::Time;
use std::time::Duration;

/// Time since the switch started. It continues while the machine is suspended: leases and idle timeouts do not stop with it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Duration,
}

fn since_boot() -> Duration {
    // Every Linux that this runs on has this clock.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

impl Clock {
    /// Starts it.
    pub fn start() -> Clock {
        Clock { start: since_boot() }
    }

    /// Time since the start.
    #[inline]
    pub fn now(&self) -> Time {
        Time(since_boot().saturating_sub(self.start).as_nanos() as u64)
    }
}
