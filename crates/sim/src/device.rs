//! A device: a number of workers with one queue in front of them, first come, first served.

use crate::frame::Packet;
use crate::random::{Ahead, Distribution, Stream, rounded};
use std::collections::VecDeque;

/// The properties of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceModel {
    /// Requests that it serves at the same time.
    pub workers: u32,
    /// Time that one takes at speed 1.
    pub service: Distribution,
    /// How much faster it is than that.
    pub speed: f64,
    /// Requests that may wait; more are dropped.
    pub buffer: u32,
    /// A request that waited longer is dropped when its turn comes.
    pub give_up_ns: Option<u64>,
    /// How much the other devices of its server slow it down: a service that starts while all of them are busy takes
    /// `1 + contention` times as long.
    pub contention: f64,
    /// Bytes of an answer's payload.
    pub answer_bytes: u32,
    /// What else runs there.
    pub stress: Stress,
}

/// Other processes of a device, which never wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stress {
    /// How many. With the workers they share the processors fairly, and use what these leave.
    pub processes: u32,
    /// The share of the device's memory that they use.
    pub memory_percent: f64,
}

impl DeviceModel {
    /// How much longer services take because of other processes.
    pub fn slowdown(&self) -> f64 {
        1.0 + f64::from(self.stress.processes) / f64::from(self.workers.max(1))
    }
}

/// A request at a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The request.
    pub request: u32,
    /// Its connection.
    pub connection: u32,
    /// When it came.
    pub arrived: u64,
    /// How.
    pub by: By,
}

/// How a request came, and where its answer goes.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// In this frame, of which its answer is made.
    Frame(Packet),
    /// Over a TCP connection, as the device numbers them.
    Stream(u32),
}

/// The fate of a device's requests. The rest are waiting or being served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Requests that came.
    pub arrived: u64,
    /// Requests answered.
    pub served: u64,
    /// Dropped because the buffer was full.
    pub full: u64,
    /// Dropped because they had waited too long.
    pub gave_up: u64,
    /// Came or were there while the device was down.
    pub down: u64,
    /// Time that workers spent on answered requests, summed over them.
    pub service_ns: u64,
    /// Time from coming to leaving, over all that the queue let in and that left.
    pub sojourn_ns: u64,
    /// Services begun.
    pub started: u64,
    /// Time from coming to the beginning of service, over all these.
    pub wait_ns: u64,
}

/// A service that began: the worker, and when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Worker, from 0.
    pub worker: u16,
    /// When it is done.
    pub done_at: u64,
}

/// A device's reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Its service began.
    Starts(Started),
    /// It waits.
    Waits,
    /// It was dropped.
    Dropped,
}

#[derive(Clone, Debug)]
struct Service {
    job: Job,
    began: u64,
    done_at: u64,
}

/// A device.
#[derive(Debug)]
pub struct Device {
    model: DeviceModel,
    random: Stream,
    times: Ahead,
    waiting: VecDeque<Job>,
    workers: Vec<Option<Service>>,
    busy: u32,
    up: bool,
    /// Changed by events; multiplies the model's.
    pub speed: f64,
    /// The fate of its requests.
    pub counts: DeviceCounts,
}

impl Device {
    /// A device that is up and idle.
    pub fn new(model: &DeviceModel, random: Stream) -> Self {
        Device {
            model: model.clone(),
            random,
            times: Ahead::default(),
            waiting: VecDeque::new(),
            workers: vec![None; model.workers as usize],
            busy: 0,
            up: true,
            speed: 1.0,
            counts: DeviceCounts::default(),
        }
    }

    /// Its properties.
    pub fn model(&self) -> &DeviceModel {
        &self.model
    }

    /// Workers that serve.
    pub fn busy(&self) -> u32 {
        self.busy
    }

    /// Whether it works.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Requests that are there.
    pub fn present(&self) -> u64 {
        self.waiting.len() as u64 + u64::from(self.busy)
    }

    /// Starts a service. A worker is free.
    fn start(&mut self, now: u64, job: Job, slow: f64) -> Started {
        let worker = self.workers.iter().position(Option::is_none).unwrap_or(0);
        let time = self.times.next(|| self.model.service.draw(&mut self.random)) * slow
            / (self.model.speed * self.speed);
        // Rounded like this, no service takes no time, and none lasts for ever.
        let done_at = now.saturating_add(rounded(time).clamp(1, u64::MAX >> 8));
        self.busy += 1;
        self.counts.started += 1;
        self.counts.wait_ns += now - job.arrived;
        self.workers[worker] = Some(Service { job, began: now, done_at });
        Started { worker: worker as u16, done_at }
    }

    /// A request arrives. `slow`: the slowdown of a service that starts now by the other devices of the server and by other processes.
    pub fn arrive(&mut self, now: u64, job: Job, slow: f64) -> Arrival {
        self.counts.arrived += 1;
        if !self.up {
            self.counts.down += 1;
            return Arrival::Dropped;
        }
        if self.busy < self.model.workers {
            return Arrival::Starts(self.start(now, job, slow));
        }
        if self.waiting.len() >= self.model.buffer as usize {
            self.counts.full += 1;
            return Arrival::Dropped;
        }
        self.waiting.push_back(job);
        Arrival::Waits
    }

    /// A service is done, if it is the one that was to be done now: its request.
    pub fn finish(&mut self, now: u64, worker: u16) -> Option<Job> {
        let place = self.workers.get_mut(worker as usize)?;
        let service = place.take_if(|s| s.done_at == now)?;
        self.busy -= 1;
        self.counts.served += 1;
        self.counts.service_ns += now - service.began;
        self.counts.sojourn_ns += now - service.job.arrived;
        Some(service.job)
    }

    /// Takes the next request that waits: the service, if one began, and how many were dropped before it because they had
    /// waited too long.
    pub fn next(&mut self, now: u64, slow: f64) -> (Option<Started>, u64) {
        let mut dropped = 0;
        while self.busy < self.model.workers {
            let Some(job) = self.waiting.pop_front() else { break };
            if self.model.give_up_ns.is_some_and(|limit| now - job.arrived > limit) {
                self.counts.gave_up += 1;
                self.counts.sojourn_ns += now - job.arrived;
                dropped += 1;
                continue;
            }
            return (Some(self.start(now, job, slow)), dropped);
        }
        (None, dropped)
    }

    /// It goes down, and all its requests with it (how many that were: served, waiting), or up again.
    pub fn set_up(&mut self, now: u64, up: bool) -> (u64, u64) {
        self.up = up;
        if up {
            return (0, 0);
        }
        let served: Vec<Service> = self.workers.iter_mut().filter_map(Option::take).collect();
        let waiting = std::mem::take(&mut self.waiting);
        let gone = (served.len() as u64, waiting.len() as u64);
        let there = served.iter().map(|s| s.job.arrived).chain(waiting.iter().map(|j| j.arrived));
        self.counts.sojourn_ns += there.map(|at| now - at).sum::<u64>();
        // Time that a worker spent in vain also counts as use.
        self.counts.service_ns += served.iter().map(|s| now - s.began).sum::<u64>();
        self.counts.down += gone.0 + gone.1;
        self.busy = 0;
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Part;

    fn device(workers: u32, buffer: u32, give_up_ns: Option<u64>) -> Device {
        let model = DeviceModel {
            workers,
            service: Distribution::Deterministic { mean_ns: 100.0 },
            speed: 2.0,
            buffer,
            give_up_ns,
            contention: 0.0,
            answer_bytes: 16,
            stress: Stress::default(),
        };
        Device::new(&model, Stream::new(1, Part::Service, 0))
    }

    fn job(request: u32, arrived: u64) -> Job {
        Job { request, connection: 0, arrived, by: By::Stream(0) }
    }

    #[test]
    fn first_come_first_served() {
        let mut d = device(2, 2, None);
        let arrivals: Vec<_> = (0..5).map(|i| d.arrive(10, job(i, 10), 1.0)).collect();
        let started = |worker| Arrival::Starts(Started { worker, done_at: 60 });
        assert_eq!(arrivals, [started(0), started(1), Arrival::Waits, Arrival::Waits, Arrival::Dropped]);
        assert_eq!(d.finish(59, 0), None, "not yet");
        assert_eq!(d.finish(60, 1).map(|j| j.request), Some(1));
        assert_eq!(d.next(60, 2.0), (Some(Started { worker: 1, done_at: 160 }), 0));
        assert_eq!((d.busy(), d.present()), (2, 3));
        assert_eq!(d.set_up(70, false), (2, 1));
        assert_eq!(d.arrive(80, job(9, 80), 1.0), Arrival::Dropped);
        let c = d.counts;
        assert_eq!((c.arrived, c.served, c.full, c.down), (6, 1, 1, 4));
        assert_eq!((c.service_ns, c.sojourn_ns, c.wait_ns), (50 + 60 + 10, 50 + 3 * 60, 50));
    }

    #[test]
    fn impatience() {
        let mut d = device(1, 10, Some(40));
        for (i, at) in [0, 5, 20].into_iter().enumerate() {
            d.arrive(at, job(i as u32, at), 1.0);
        }
        assert!(d.finish(50, 0).is_some());
        assert_eq!(d.next(50, 1.0), (Some(Started { worker: 0, done_at: 100 }), 1));
        assert_eq!(d.counts.gave_up, 1);
    }
}
