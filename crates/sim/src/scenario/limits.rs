//! Whether a scenario fits into memory.

use super::{Connections, Scenario};
use crate::arrivals::ArrivalModel;
use std::fmt;

/// A scenario that would need more is refused.
const MEMORY_LIMIT_BYTES: u64 = 16 << 30;

/// A request is remembered until the end: for percentiles and for the checkers.
const REQUEST: f64 = 64.0;
const CONNECTION: f64 = 24.0;
/// A connection over TCP: two ends, and the segments and messages that each remembers.
const STREAM: f64 = (2 * (size_of::<crate::tcp::Endpoint>() + 2048)) as f64;
/// With its agent, link and table entries.
const DEVICE: f64 = 16_384.0;
/// A switch with the balancer's tables and registers, whatever the rack.
const BASE: f64 = 64.0 * 1024.0 * 1024.0;

/// A scenario does not fit.
pub(super) struct TooLarge {
    requests: f64,
    devices: usize,
    bytes: f64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.3e} requests and {} devices would need {:.1} GiB of memory, more than {} GiB (and at most \
             2.1e9 requests): shorten `duration_s`, or split it into several seeds",
            self.requests,
            self.devices,
            self.bytes / (1u64 << 30) as f64,
            MEMORY_LIMIT_BYTES >> 30
        )
    }
}

/// Whether a scenario fits.
///
/// # Errors
/// What it would need, and what to change.
pub(super) fn check(s: &Scenario) -> Result<(), TooLarge> {
    let bytes = memory_bytes(s);
    let requests: f64 = s.clients.iter().map(|c| c.expected(s.duration_ns)).sum();
    if bytes > MEMORY_LIMIT_BYTES as f64 || requests > f64::from(u32::MAX) / 2.0 {
        return Err(TooLarge { requests, devices: s.devices.len(), bytes });
    }
    Ok(())
}

/// The approximate memory of a simulation.
pub fn memory_bytes(s: &Scenario) -> f64 {
    let requests: f64 = s.clients.iter().map(|c| c.expected(s.duration_ns)).sum();
    let tcp = |c: &super::ClientModel| c.transport == pointsman_balance::Protocol::Tcp;
    let connections = |c: &super::ClientModel| match (c.connections, c.numbered(s.duration_ns)) {
        // About a second's are open at a time.
        (Connections::PerRequest, _) if tcp(c) => c.arrivals.expected(1_000_000_000) * STREAM,
        (Connections::Sessions { requests, gap_ns }, _) if tcp(c) => {
            c.arrivals.expected(u64::from(requests) * gap_ns + 1_000_000_000) * STREAM
        }
        (_, Some(n)) => f64::from(n) * if tcp(c) { STREAM } else { CONNECTION },
        (_, None) => 0.0,
    };
    let traces = |c: &super::ClientModel| match &c.arrivals {
        ArrivalModel::Trace { times_ns } => 8.0 * times_ns.len() as f64,
        _ => 0.0,
    };
    let workers: f64 = s.devices.iter().map(|d| f64::from(d.workers) * 80.0).sum();
    BASE * s.rack.switch.p4runtime.len() as f64
        + requests * REQUEST
        + s.clients.iter().map(|c| connections(c) + traces(c)).sum::<f64>()
        + s.devices.len() as f64 * DEVICE
        + workers
}
