//! Request latency, from requests and answers that pass by.
//!
//! - UDP: from a request datagram to the first datagram back; further datagrams of the same client port in between belong
//!   to the same request.
//! - TCP: from the last new data segment of the client to the first data segment back. The last one, since a long upload
//!   is no slow answer; retransmissions are told by their sequence numbers and do not start the clock anew.
//!
//! What is still unanswered counts by its age, so that a device that stopped answering is noticed.

use crate::types::Protocol;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// Most requests that are remembered; beyond it the oldest is forgotten.
pub(super) const MAX_PENDING: usize = 65_536;
/// A device that answers nothing any more is tried again after so many times `lost_after`.
const GIVE_UP: u32 = 10;

/// A connection as a device sees it: protocol, its own port, the client.
pub(super) type Key = (Protocol, u16, IpAddr, u16);

#[derive(Clone, Copy, Debug)]
struct Pending {
    start: Duration,
    /// Tells one from an earlier one of the same connection.
    serial: u64,
    /// TCP: the sequence number after the last byte of the request.
    end: u32,
}

/// Requests that wait for their answer, and the average of those that got one.
#[derive(Debug, Default)]
pub(super) struct Latency {
    pending: BTreeMap<Key, Pending>,
    /// In the order in which they came. Those that are not pending any more are left where they stand, but never at the front.
    by_age: VecDeque<(Duration, u64, Key)>,
    serial: u64,
    average_ms: Option<f64>,
    /// When the newest request that was answered had come.
    answered: Duration,
    /// Requests that were answered, and that were given up.
    pub answers: u64,
    pub lost: u64,
}

impl Latency {
    fn remove(&mut self, key: &Key) -> Option<Pending> {
        let p = self.pending.remove(key)?;
        if self.by_age.front().is_some_and(|(_, serial, _)| *serial == p.serial) {
            self.by_age.pop_front();
            self.tidy();
        } else if self.by_age.len() > 2 * self.pending.len() + 64 {
            let pending = &self.pending;
            self.by_age.retain(|(_, serial, key)| pending.get(key).is_some_and(|p| p.serial == *serial));
        }
        Some(p)
    }

    /// Takes away what is not pending any more, up to the first that is.
    fn tidy(&mut self) {
        while let Some((_, serial, key)) = self.by_age.front()
            && self.pending.get(key).is_none_or(|p| p.serial != *serial)
        {
            self.by_age.pop_front();
        }
    }

    fn add(&mut self, key: Key, start: Duration, end: u32) {
        self.serial += 1;
        self.pending.insert(key, Pending { start, serial: self.serial, end });
        self.by_age.push_back((start, self.serial, key));
    }

    /// Data from a client, `end` being TCP's next sequence number.
    pub fn request(&mut self, now: Duration, key: Key, end: u32) {
        if let Some(p) = self.pending.get(&key) {
            let newer = key.0 == Protocol::Tcp && (end.wrapping_sub(p.end) as i32) > 0;
            if newer {
                self.remove(&key);
                self.add(key, now, end);
            }
            return;
        }
        if self.pending.len() >= MAX_PENDING
            && let Some((_, _, oldest)) = self.by_age.front().copied()
        {
            self.remove(&oldest);
            self.lost += 1;
        }
        self.add(key, now, end);
    }

    /// Data to a client. `smoothing` is the weight of this latency in the average.
    pub fn answer(&mut self, now: Duration, key: &Key, smoothing: f64) {
        let Some(p) = self.remove(key) else { return };
        let latency = now.saturating_sub(p.start).as_secs_f64() * 1e3;
        self.answers += 1;
        self.answered = self.answered.max(p.start);
        self.average_ms = Some(self.average_ms.map_or(latency, |a| a + smoothing * (latency - a)));
        self.forget();
    }

    /// The connection ended; nobody waits any more.
    pub fn close(&mut self, key: &Key) {
        self.remove(key);
        self.forget();
    }

    /// With nothing unanswered there is no queue, so what was says nothing about what comes.
    fn forget(&mut self) {
        if self.pending.is_empty() {
            self.average_ms = None;
        }
    }

    /// When the oldest unanswered request counts as lost.
    pub fn expiry(&self, lost_after: Duration) -> Option<Duration> {
        let (start, _, _) = self.by_age.front()?;
        // Overtaken by answers to later requests: the device works, this one is lost.
        let patience = if *start < self.answered { lost_after } else { lost_after * GIVE_UP };
        Some(*start + patience)
    }

    /// Gives up requests that are lost.
    pub fn expire(&mut self, now: Duration, lost_after: Duration) {
        while self.expiry(lost_after).is_some_and(|at| at <= now) {
            if let Some((_, _, key)) = self.by_age.pop_front() {
                self.pending.remove(&key);
                self.lost += 1;
                self.tidy();
            }
        }
        self.forget();
    }

    /// Requests that wait.
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// When the oldest of them came.
    pub fn oldest(&self) -> Option<Duration> {
        self.by_age.front().map(|(start, _, _)| *start)
    }

    /// Latency now, in milliseconds: 0 with nothing unanswered, otherwise the average or the age of the oldest
    /// unanswered request, whichever is more.
    pub fn current_ms(&self, now: Duration) -> f64 {
        self.oldest().map_or(0.0, |oldest| {
            let age = now.saturating_sub(oldest).as_secs_f64() * 1e3;
            age.max(self.average_ms.unwrap_or(0.0))
        })
    }
}
