//! A first-in-first-out queue with several servers, computed from arrival times instead of simulated.
//!
//! In a FIFO queue a job's start is known on its arrival: the time at which the first server becomes free.
//! So one heap of free times and one of finish times replace k sleeping threads, and a late wake-up delays
//! an answer without ever lowering the device's capacity. No clock here: times are nanoseconds from any
//! fixed origin.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The queue. `T` is what identifies a job to the caller.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// When each server becomes free.
    free: BinaryHeap<Reverse<u64>>,
    jobs: BinaryHeap<Job<T>>,
    /// Most jobs waiting or in service.
    limit: usize,
    arrivals: u64,
}

/// A job in the queue; the largest in the heap's order is the first to finish.
#[derive(Debug)]
struct Job<T> {
    finish: u64,
    number: u64,
    service: u64,
    what: T,
}

impl<T> Ord for Job<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.finish, other.number).cmp(&(self.finish, self.number))
    }
}

impl<T> PartialOrd for Job<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Job<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Job<T> {}

impl<T> Queue<T> {
    /// `servers` jobs in service at a time, `buffer` more waiting.
    pub fn new(servers: usize, buffer: usize) -> Self {
        Self {
            free: (0..servers).map(|_| Reverse(0)).collect(),
            jobs: BinaryHeap::new(),
            limit: servers.saturating_add(buffer),
            arrivals: 0,
        }
    }

    /// Takes a job that arrives at `now` and needs `service`, unless the buffer is full. The caller first removes
    /// completed jobs.
    pub fn offer(&mut self, now: u64, service: u64, what: T) -> bool {
        if self.jobs.len() >= self.limit {
            return false;
        }
        let Some(Reverse(free)) = self.free.pop() else { return false };
        let finish = free.max(now).saturating_add(service);
        self.free.push(Reverse(finish));
        self.jobs.push(Job { finish, number: self.arrivals, service, what });
        self.arrivals += 1;
        true
    }

    /// When the next job finishes.
    pub fn next_finish(&self) -> Option<u64> {
        self.jobs.peek().map(|job| job.finish)
    }

    /// Removes a job that has finished by `now`; returns it and its service time.
    pub fn pop_finished(&mut self, now: u64) -> Option<(T, u64)> {
        if self.next_finish()? > now {
            return None;
        }
        self.jobs.pop().map(|job| (job.what, job.service))
    }

    /// Time that servers have spent on jobs that are in service now, summed over them. Completed jobs were removed
    /// before.
    pub fn in_service_ns(&self, now: u64) -> u64 {
        let spent = |job: &Job<T>| now.min(job.finish).saturating_sub(job.finish.saturating_sub(job.service));
        self.jobs.iter().map(spent).sum()
    }

    /// Jobs waiting or in service.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Offers jobs of (arrival, service); returns (job, finish) in the order of finishing, and the refused.
    fn check(servers: usize, buffer: usize, jobs: &[(u64, u64)]) -> (Vec<(usize, u64)>, Vec<usize>) {
        let (mut queue, mut done, mut refused) = (Queue::new(servers, buffer), Vec::new(), Vec::new());
        let drain = |queue: &mut Queue<usize>, now: u64, done: &mut Vec<(usize, u64)>| {
            while let Some(finish) = queue.next_finish().filter(|&f| f <= now) {
                let (job, _) = queue.pop_finished(now).unwrap();
                done.push((job, finish));
            }
        };
        for (i, &(arrival, service)) in jobs.iter().enumerate() {
            drain(&mut queue, arrival, &mut done);
            if !queue.offer(arrival, service, i) {
                refused.push(i);
            }
        }
        drain(&mut queue, u64::MAX, &mut done);
        assert_eq!(queue.len(), 0);
        (done, refused)
    }

    #[test]
    fn one_server_serves_in_order() {
        assert_eq!(check(1, 9, &[(0, 10), (1, 10), (50, 10)]).0, [(0, 10), (1, 20), (2, 60)]);
    }

    #[test]
    fn two_servers_take_the_next_job() {
        assert_eq!(
            check(2, 9, &[(0, 10), (0, 30), (1, 10), (2, 10)]).0,
            [(0, 10), (2, 20), (1, 30), (3, 30)]
        );
    }

    #[test]
    fn what_is_in_service_counts_so_far() {
        let mut queue = Queue::new(2, 9);
        for (arrival, service) in [(0, 10), (4, 20), (5, 30)] {
            assert!(queue.offer(arrival, service, ()));
        }
        // The third begins at 10, where the first finishes.
        assert_eq!([0, 4, 9].map(|now| queue.in_service_ns(now)), [0, 4, 9 + 5]);
        assert!(queue.pop_finished(10).is_some());
        assert_eq!(queue.in_service_ns(14), 10 + 4);
    }

    #[test]
    fn a_full_buffer_refuses() {
        let (done, refused) = check(1, 2, &[(0, 10), (1, 10), (2, 10), (3, 10), (10, 10)]);
        assert_eq!(refused, [3]);
        assert_eq!(done.last(), Some(&(4, 40)));
        assert_eq!(check(0, 5, &[(0, 1)]).1, [0]);
    }

    #[test]
    fn mean_delay_is_that_of_queueing_theory() {
        // M/M/1 at 80 % load: mean time in the system = service / (1 - load) = 5 service times.
        let (mut rng, mut arrival, service) = (Rng::for_part(1, "mm1"), 0.0, 1_000_000.0);
        let jobs: Vec<(u64, u64)> = (0..200_000)
            .map(|_| {
                arrival += rng.exponential() * service / 0.8;
                (arrival as u64, (rng.exponential() * service) as u64)
            })
            .collect();
        let (done, refused) = check(1, usize::MAX, &jobs);
        assert!(refused.is_empty());
        let total: f64 = done.iter().map(|&(job, finish)| (finish - jobs[job].0) as f64).sum();
        let mean = total / done.len() as f64 / service;
        assert!((4.5..5.5).contains(&mean), "mean is {mean} service times");
    }
}
