//! The switch between workers and control plane.

use crate::metrics::Distribution;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use pointsman_compile::executor::Runner;
use pointsman_v1model::Switch;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Upper bounds of waiting times, in microseconds; longer ones are counted behind them.
const BOUNDS_US: [u64; 7] = [20, 100, 300, 1000, 3000, 10_000, 100_000];

/// The switch, which workers take for a batch of packets, and the control plane between two batches. Both get it in the order in which
/// they ask, so that neither keeps the other out.
pub struct Shared {
    switch: RwLock<Switch<Runner>>,
    waits: [AtomicU64; BOUNDS_US.len() + 1],
    waited_ns: AtomicU64,
}

impl Shared {
    pub fn new(switch: Switch<Runner>) -> Shared {
        Shared { switch: RwLock::new(switch), waits: Default::default(), waited_ns: AtomicU64::new(0) }
    }

    /// To read it, together with other readers.
    pub fn read(&self) -> RwLockReadGuard<'_, Switch<Runner>> {
        self.switch.read()
    }

    /// To change it.
    pub fn write(&self) -> RwLockWriteGuard<'_, Switch<Runner>> {
        self.switch.write()
    }

    /// Takes the switch for a moment.
    pub fn change<R>(&self, job: impl FnOnce(&mut Switch<Runner>) -> R) -> R {
        let mut guard = self.write();
        let result = job(&mut guard);
        RwLockWriteGuard::unlock_fair(guard);
        result
    }

    /// As [`Shared::read`], for a worker among several: the time that it waits is noted.
    pub fn work(&self) -> RwLockReadGuard<'_, Switch<Runner>> {
        self.switch.try_read().unwrap_or_else(|| self.noted(|| self.read()))
    }

    /// As [`Shared::change`], for the only worker: the time that it waits is noted.
    pub fn work_alone<R>(&self, job: impl FnOnce(&mut Switch<Runner>) -> R) -> R {
        let mut guard = self.switch.try_write().unwrap_or_else(|| self.noted(|| self.write()));
        let result = job(&mut guard);
        RwLockWriteGuard::unlock_fair(guard);
        result
    }

    fn noted<G>(&self, take: impl FnOnce() -> G) -> G {
        let begin = Instant::now();
        let guard = take();
        self.note(begin.elapsed());
        guard
    }

    fn note(&self, waited: Duration) {
        let us = waited.as_nanos().div_ceil(1000);
        let place = BOUNDS_US.partition_point(|bound| u128::from(*bound) < us);
        self.waits[place].fetch_add(1, Relaxed);
        self.waited_ns.fetch_add(waited.as_nanos() as u64, Relaxed);
    }

    /// How long workers waited, each time that they did, in seconds.
    pub fn waits(&self) -> Distribution {
        let bounds = BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
        Distribution {
            sum: self.waited_ns.load(Relaxed) as f64 / 1e9,
            buckets: bounds.zip(self.waits.iter().map(|n| n.load(Relaxed))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_v1model::SwitchConfig;
    use std::sync::Barrier;

    #[test]
    fn waits_are_counted_by_length() {
        let shared = Shared::new(Switch::new(SwitchConfig::default()).expect("the default configuration"));
        [20_000, 20_001, 999_999, 5_000_000_000]
            .into_iter()
            .for_each(|ns| shared.note(Duration::from_nanos(ns)));
        let Distribution { sum, buckets } = shared.waits();
        assert_eq!(buckets.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [1, 1, 0, 1, 0, 0, 0, 1]);
        assert_eq!(sum, 5.00104);
        // Free: no wait.
        drop(shared.work());
        shared.work_alone(|_| ());
        assert_eq!(shared.waits().sum, 5.00104);
        let held = shared.write();
        let started = Barrier::new(2);
        std::thread::scope(|s| {
            s.spawn(|| {
                started.wait();
                shared.work_alone(|_| ());
            });
            started.wait();
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
        });
        let waits: u64 = shared.waits().buckets.iter().map(|(_, n)| n).sum();
        assert_eq!(waits, 5);
    }
}
