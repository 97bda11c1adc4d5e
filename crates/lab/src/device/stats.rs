//! A device's counters, readable while it works.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counters of a running device, shared between its threads and its observers.
#[derive(Debug, Default)]
pub struct DeviceStats {
    pub(crate) requests: AtomicU64,
    pub(crate) answers: AtomicU64,
    pub(crate) overflowed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) send_failures: AtomicU64,
    pub(crate) in_system: AtomicU64,
    pub(crate) busy_ns: AtomicU64,
    pub(crate) connections: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Requests received, over UDP and TCP.
    pub requests: u64,
    /// Answers sent.
    pub answers: u64,
    /// Requests dropped because the buffer was full.
    pub overflowed: u64,
    /// Requests without an answer because the application failed.
    pub failed: u64,
    /// Datagrams or frames that were not requests.
    pub malformed: u64,
    /// Answers that the kernel refused to send, or whose TCP connection was closed.
    pub send_failures: u64,
    /// Requests waiting or in service now.
    pub in_system: u64,
    /// Service time of all finished requests together: its growth over a time span, divided by the span
    /// and the number of servers, is the utilisation.
    pub busy: Duration,
    /// TCP connections open now.
    pub connections: u64,
}

impl DeviceStats {
    /// Reads all counters, each by itself.
    pub fn read(&self) -> DeviceCounters {
        DeviceCounters {
            requests: self.requests.load(Relaxed),
            answers: self.answers.load(Relaxed),
            overflowed: self.overflowed.load(Relaxed),
            failed: self.failed.load(Relaxed),
            malformed: self.malformed.load(Relaxed),
            send_failures: self.send_failures.load(Relaxed),
            in_system: self.in_system.load(Relaxed),
            busy: Duration::from_nanos(self.busy_ns.load(Relaxed)),
            connections: self.connections.load(Relaxed),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
