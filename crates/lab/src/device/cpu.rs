//! Real computation on worker threads, under a CPU quota if configured: a calibrated loop, or an application.

use crate::cgroup::CpuGroup;
use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys::{self, Waker};
use pointsman_wire::random::finish;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How fast this machine runs the loop that simulates a request's work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    iterations_per_ns: f64,
}

impl Calibration {
    /// Measures for some 20 ms; the best of several rounds counts, since everything that disturbs only
    /// slows down.
    pub fn measure() -> Self {
        const ITERATIONS: u64 = 500_000;
        let best = (0..20)
            .map(|_| {
                let start = Instant::now();
                burn(ITERATIONS);
                start.elapsed()
            })
            .min()
            .unwrap_or(Duration::from_millis(1));
        Self { iterations_per_ns: ITERATIONS as f64 / best.as_nanos().max(1) as f64 }
    }

    /// Iterations that take `time` on one undisturbed processor.
    fn iterations(self, time: Duration) -> u64 {
        (time.as_nanos() as f64 * self.iterations_per_ns) as u64
    }
}

/// The work: a chain of multiplications that cannot be done in parallel or skipped.
fn burn(iterations: u64) {
    let mut x = black_box(1u64);
    for _ in 0..iterations {
        x = finish(x);
    }
    black_box(x);
}

/// The work of a request: its service time and its query in, the answer's payload out; none if the work failed.
pub(super) type Task = Arc<dyn Fn(Duration, u64) -> Option<[u8; 16]> + Send + Sync>;

/// The loop that takes as long as the service time.
pub(super) fn burning(calibration: Calibration) -> Task {
    Arc::new(move |service, _| {
        burn(calibration.iterations(service));
        Some([0; 16])
    })
}

/// A completed request: the request, its time in nanoseconds, and the answer's payload; none if it failed.
pub(super) type Done<T> = (T, u64, Option<[u8; 16]>);

struct State<T> {
    jobs: VecDeque<(T, Duration, u64)>,
    in_system: usize,
    stopping: bool,
    /// Workers that compute.
    computing: i128,
    /// The times at which jobs ended, minus those at which they began, in nanoseconds from `Shared::origin`.
    balance: i128,
}

impl<T> State<T> {
    /// One worker more computes, or, with -1, one less.
    fn count(&mut self, more: i128, now: i128) {
        (self.computing, self.balance) = (self.computing + more, self.balance - more * now);
    }
}

struct Shared<T> {
    state: Mutex<State<T>>,
    work: Condvar,
    origin: Instant,
}

impl<T> Shared<T> {
    /// A worker that panicked leaves the state whole: every change of it is one statement.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i128 {
        self.origin.elapsed().as_nanos() as i128
    }
}

/// Worker threads with a common queue.
pub(super) struct Pool<T> {
    shared: Arc<Shared<T>>,
    done: Receiver<Done<T>>,
    limit: usize,
    workers: Vec<JoinHandle<()>>,
    /// Dropped after the workers have ended: a group with threads cannot be removed.
    _group: Option<CpuGroup>,
}

impl<T: Send + 'static> Pool<T> {
    /// Starts `servers` workers inside `namespace`; together they get `quota` processors, if given.
    pub fn start(
        namespace: &Namespace,
        name: &str,
        servers: usize,
        buffer: usize,
        quota: Option<f64>,
        task: &Task,
        waker: &Arc<Waker>,
    ) -> Result<Self> {
        let group = quota.map(|cores| CpuGroup::create(name, cores)).transpose()?.map(Arc::new);
        let state = State { jobs: VecDeque::new(), in_system: 0, stopping: false, computing: 0, balance: 0 };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), work: Condvar::new(), origin: Instant::now() });
        let (sender, done) = mpsc::channel();
        let mut pool =
            Self { shared, done, limit: servers.saturating_add(buffer), workers: Vec::new(), _group: None };
        for i in 0..servers {
            let (shared, sender, waker) = (pool.shared.clone(), sender.clone(), waker.clone());
            let task = task.clone();
            let (group, (report, joined)) = (group.clone(), mpsc::sync_channel(1));
            let worker = namespace.spawn(&format!("{name} {i}"), move || {
                let entered = group.map_or(Ok(()), |g| g.add_thread(sys::thread_id()));
                let failed = entered.is_err();
                // The pool waits for exactly this message.
                let _ = report.send(entered);
                while !failed && let Some((job, service, query)) = next(&shared) {
                    let start = Instant::now();
                    let result = task(service, query);
                    shared.lock().count(-1, shared.now());
                    if sender.send((job, start.elapsed().as_nanos() as u64, result)).is_err() {
                        return;
                    }
                    waker.wake();
                }
            })?;
            pool.workers.push(worker);
            joined.recv().map_err(|_| Error::new(format!("a worker of {name} ended early")))??;
        }
        pool._group = group.and_then(Arc::into_inner);
        Ok(pool)
    }

    /// Takes a job of this much work, unless the buffer is full.
    pub fn offer(&mut self, service: Duration, query: u64, job: T) -> bool {
        let mut state = self.shared.lock();
        if state.in_system >= self.limit {
            return false;
        }
        state.in_system += 1;
        state.jobs.push_back((job, service, query));
        drop(state);
        self.shared.work.notify_one();
        true
    }

    /// Removes a finished job.
    pub fn pop_finished(&mut self) -> Option<Done<T>> {
        let finished = self.done.try_recv().ok()?;
        self.shared.lock().in_system -= 1;
        Some(finished)
    }

    /// Jobs waiting or in service.
    pub fn len(&self) -> usize {
        self.shared.lock().in_system
    }

    /// The time that workers have computed until now, summed over them. It never falls.
    pub fn busy(&self) -> Duration {
        let state = self.shared.lock();
        let ns = state.balance + state.computing * self.shared.now();
        Duration::from_nanos(ns as u64)
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A panic of a worker has been printed already.
            let _ = worker.join();
        }
    }
}

fn next<T>(shared: &Shared<T>) -> Option<(T, Duration, u64)> {
    let mut state = shared.lock();
    loop {
        if state.stopping {
            return None;
        }
        if let Some(job) = state.jobs.pop_front() {
            state.count(1, shared.now());
            return Some(job);
        }
        state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_busy_before_its_job_ends() -> Result<()> {
        let (begun, begins) = mpsc::sync_channel(2);
        let (end, ends) = mpsc::channel::<()>();
        let ends = Mutex::new(ends);
        let task: Task = Arc::new(move |_, _| {
            let _ = begun.send(());
            let _ = ends.lock().map(|ends| ends.recv_timeout(Duration::from_secs(10)));
            None
        });
        let waker = Arc::new(Waker::new().map_err(|e| Error::os("no waker", e))?);
        let namespace = Namespace::here()?;
        let mut pool = Pool::start(&namespace, "test", 1, 1, None, &task, &waker)?;
        assert_eq!(pool.busy(), Duration::ZERO);
        assert!(pool.offer(Duration::ZERO, 0, ()) && pool.offer(Duration::ZERO, 0, ()));
        let mut before = Duration::ZERO;
        for job in 1..=2 {
            assert!(begins.recv().is_ok());
            std::thread::sleep(Duration::from_millis(20));
            // Each job has computed for 20 ms; the one before it still counts.
            assert!(pool.busy() >= before + Duration::from_millis(20), "job {job}: {:?}", pool.busy());
            before = pool.busy();
            assert!(end.send(()).is_ok());
        }
        while pool.len() > 0 {
            std::thread::yield_now();
            pool.pop_finished();
            assert!(pool.busy() >= before);
            before = pool.busy();
        }
        // Nothing computes any more.
        assert_eq!(pool.busy(), pool.busy());
        Ok(())
    }
}
