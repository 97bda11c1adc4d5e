//! Several workers on one switch, each with its share of the flows.

use super::measure::Subject;
use super::program::{Out, take_batches};
use super::traffic::{Ring, Sequence, Source};
use pointsman_ir::Executor;
use pointsman_v1model::{Switch, Worker};
use std::sync::{Condvar, Mutex, PoisonError};

/// One worker and its packets.
pub struct Lane<E: Executor> {
    worker: Worker<E>,
    out: Out,
    ring: Ring,
    sequence: Sequence,
    source: Source,
}

impl<E: Executor> Lane<E> {
    /// A worker with its own flows.
    pub fn new(worker: Worker<E>, sequence: Sequence, source: Source) -> Self {
        Lane { worker, out: Out::default(), ring: Ring::new(source.longest()), sequence, source }
    }

    /// Packets that left.
    pub fn forwarded(&self) -> u64 {
        self.out.packets
    }
}

/// A barrier of workers.
struct Meeting {
    /// Number of missing workers, and how often all have met.
    state: Mutex<(usize, u64)>,
    changed: Condvar,
    count: usize,
}

impl Meeting {
    fn new(count: usize) -> Self {
        Meeting { state: Mutex::new((count, 0)), changed: Condvar::new(), count }
    }

    /// Waits for the others. False: one of them has failed.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let times = state.1;
        if times == u64::MAX {
            return false;
        }
        state.0 -= 1;
        if state.0 == 0 {
            *state = (self.count, times + 1);
            self.changed.notify_all();
            return true;
        }
        while state.1 == times {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.1 != u64::MAX
    }

    fn give_up(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = u64::MAX;
        self.changed.notify_all();
    }
}

/// A panicking worker does not block the others.
struct Attendance<'a>(&'a Meeting);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give_up();
        }
    }
}

/// A worker at work on its switch.
struct AtWork<'a, E: Executor> {
    switch: &'a Switch<E>,
    lane: &'a mut Lane<E>,
}

impl<E: Executor> Subject for AtWork<'_, E> {
    fn refill(&mut self, n: usize) {
        let Lane { ring, sequence, source, .. } = &mut *self.lane;
        ring.refill(sequence, source, n);
    }

    fn process(&mut self) {
        let Lane { worker, out, ring, .. } = &mut *self.lane;
        take_batches(ring, |now, budget, batch| {
            worker.process(self.switch, now, budget, batch, out);
        });
    }
}

/// One run with this many packets, shared by the workers of a switch.
pub fn measure<E>(switch: &Switch<E>, lanes: &mut [Lane<E>], packets: usize, clock: fn() -> u64) -> f64
where
    E: Executor + Send + Sync,
    E::Frame: Send + Sync,
{
    let mut at_work: Vec<_> = lanes.iter_mut().map(|lane| AtWork { switch, lane }).collect();
    together(&mut at_work, packets, clock)
}

/// One run of so many packets, which some process at the same time, each its share. They begin each chunk together, and it takes as long as
/// the slowest of them. `clock` gives nanoseconds of time that passes, since one that waits for another has no core.
pub fn together<S: Subject + Send>(subjects: &mut [S], packets: usize, clock: fn() -> u64) -> f64 {
    let count = subjects.len();
    let chunks = packets.div_ceil(count * Ring::SIZE).max(1);
    let begin = Meeting::new(count);
    let run = |subject: &mut S| {
        let _attendance = Attendance(&begin);
        let mut times = Vec::with_capacity(chunks);
        for _ in 0..chunks {
            subject.refill(Ring::SIZE);
            if !begin.wait() {
                break;
            }
            let start = clock();
            subject.process();
            times.push(clock().saturating_sub(start));
        }
        times
    };
    let run = &run;
    let times: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = subjects.iter_mut().map(|s| scope.spawn(move || run(s))).collect();
        // A panic is a bug of ours and has been printed.
        threads.into_iter().filter_map(|t| t.join().ok()).collect()
    });
    let slowest = |i: usize| times.iter().filter_map(|t| t.get(i)).max().copied().unwrap_or(0);
    let total: u64 = (0..chunks).map(slowest).sum();
    total as f64 / (chunks * count * Ring::SIZE) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_panicked_does_not_block_others() {
        let meeting = Meeting::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let _attendance = Attendance(&meeting);
                assert!(meeting.wait());
                panic!("on purpose");
            });
            assert!(meeting.wait());
            assert!(!meeting.wait());
            assert!(other.join().is_err());
        });
        assert!(!meeting.wait());
    }
}
