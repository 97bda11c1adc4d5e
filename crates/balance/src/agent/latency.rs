//! Request latency, from requests and answers that pass by.
//!
//! - UDP: from a request datagram to the first datagram back; further datagrams of the same client port in between belong
//!   to the same request.
//! - TCP: from the last new data segment of the client to the first data segment back. The last one, since a long upload
//!   is not a slow answer; retransmissions are recognised by their sequence numbers and do not restart the clock.
//!
//! Unanswered requests count by their age, so that a device that stopped answering is noticed.
//!
//! Times are in nanoseconds, because this code runs for every packet.

use super::recent::Recent;
use super::waiting::{Key, Request, Waiting};
use crate::report::Latency99;
use crate::types::Protocol;
use std::time::Duration;

/// Most requests that are remembered; beyond it the oldest is forgotten.
pub(super) const MAX_PENDING: usize = 65_536;
/// A device that has stopped answering is tried again after this many times `lost_after`.
const GIVE_UP: u64 = 10;

/// Requests that wait for their answer, and the average of those that got one.
#[derive(Debug, Default)]
pub(super) struct Latency {
    waiting: Waiting,
    average_ms: Option<f64>,
    recent: Recent,
    /// That of the answer that was just seen, if this step saw one.
    pub just_ms: Option<f64>,
    /// When the newest request that was answered had come.
    answered: u64,
    /// Requests that were answered, and that were given up.
    pub answers: u64,
    pub lost: u64,
}

fn milliseconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64() * 1e3
}

impl Latency {
    /// Data from a client of a connection with this protocol, `end` being TCP's next sequence number.
    pub fn request(&mut self, now: u64, protocol: Protocol, key: Key, end: u32) {
        let request = Request { key, start: now, end };
        if let Some(before) = self.waiting.get(&key) {
            let newer = protocol == Protocol::Tcp && (end.wrapping_sub(before.end) as i32) > 0;
            if newer {
                self.waiting.remove(&key);
                self.waiting.add(request);
            }
            return;
        }
        if self.waiting.len() >= MAX_PENDING {
            self.lose_oldest(now);
        }
        self.waiting.add(request);
    }

    /// Data to a client. `smoothing` is the weight of this latency in the average.
    pub fn answer(&mut self, now: u64, key: &Key, smoothing: f64) {
        let Some(request) = self.waiting.remove(key) else { return };
        let took = now.saturating_sub(request.start);
        self.recent.add(now, took);
        let latency = milliseconds(took);
        self.answers += 1;
        self.just_ms = Some(latency);
        self.answered = self.answered.max(request.start);
        self.average_ms = Some(self.average_ms.map_or(latency, |a| a + smoothing * (latency - a)));
        self.forget();
    }

    /// The connection ended; no client is waiting.
    pub fn close(&mut self, key: &Key) {
        self.waiting.remove(key);
        self.forget();
    }

    /// With nothing unanswered the queue is empty, so past latency does not predict the next one.
    fn forget(&mut self) {
        if self.waiting.len() == 0 {
            self.average_ms = None;
        }
    }

    /// When the oldest unanswered request counts as lost.
    #[inline]
    pub fn expiry(&self, lost_after: u64) -> Option<u64> {
        let start = self.oldest()?;
        // Overtaken by answers to later requests: the device works, this one is lost.
        let patience = if start < self.answered { lost_after } else { lost_after * GIVE_UP };
        Some(start.saturating_add(patience))
    }

    /// Gives up requests that are lost.
    #[inline]
    pub fn expire(&mut self, now: u64, lost_after: u64) {
        while self.expiry(lost_after).is_some_and(|at| at <= now) {
            self.lose_oldest(now);
        }
        self.forget();
    }

    /// A lost request took as long as it waited.
    fn lose_oldest(&mut self, now: u64) {
        if let Some(lost) = self.waiting.remove_oldest() {
            self.recent.add(now, now.saturating_sub(lost.start));
            self.lost += 1;
        }
    }

    /// What 99 of 100 requests stayed within that ended in the last 15 to 30 seconds.
    pub fn p99(&mut self, now: u64) -> Latency99 {
        self.recent.p99(now)
    }

    /// Requests that wait.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.waiting.len()
    }

    /// When the oldest of them came.
    #[inline]
    pub fn oldest(&self) -> Option<u64> {
        self.waiting.oldest().map(|request| request.start)
    }

    /// Latency now, in milliseconds: 0 with nothing unanswered, otherwise the average or the age of the oldest
    /// unanswered request, whichever is more.
    pub fn current_ms(&self, now: u64) -> f64 {
        self.oldest().map_or(0.0, |oldest| {
            let age = milliseconds(now.saturating_sub(oldest));
            age.max(self.average_ms.unwrap_or(0.0))
        })
    }

    /// Whether [`Latency::current_ms`] is certainly less than `high_ms`, of which `nearly` is a little less in
    /// nanoseconds. This needs no fractions.
    #[inline]
    pub fn is_below(&self, now: u64, high_ms: f64, nearly: u64) -> bool {
        self.oldest().is_none_or(|oldest| now.saturating_sub(oldest) < nearly)
            && self.average_ms.is_none_or(|average| average < high_ms)
    }
}
