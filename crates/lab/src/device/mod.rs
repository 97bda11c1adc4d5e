//! Devices with a queue that handle requests, answering over UDP and TCP on one port.
//!
//! One thread receives, keeps time and sends; see [`Model`] for how long a request takes. Probes are answered
//! at once and bulk transfers bypass the queue, so that consistency can be checked at rates that would
//! drown the modelled processor.

mod cpu;
mod metrics;
mod queue;
mod server;
mod stats;
mod tcp;

pub use crate::cgroup::release_cpu_groups;
pub use cpu::Calibration;
pub use stats::{DeviceCounters, DeviceStats};

use crate::compute::Computation;
use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys::{self, Waker};
use crate::wire::{Key, MAX_NAME};
use cpu::Pool;
use metrics::Metrics;
use queue::Queue;
use server::{Engine, Server, Sockets};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// How service times vary from request to request.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceTime {
    /// Every request takes the same time.
    Deterministic,
    /// Exponentially distributed, drawn from the device's seed.
    Exponential,
    /// Drawn in advance: each request takes the next of these times the mean, cyclically.
    Drawn(Arc<[f64]>),
}

/// How a device spends its time on a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// The device is a queue with a given service time; no processor is used, so the result is the same
    /// on any machine.
    Timed(ServiceTime),
    /// Each request is a loop that takes the service time on one undisturbed processor of this machine.
    Cpu {
        /// How fast the loop runs here.
        calibration: Calibration,
        /// Processors that the device's workers together may use (a cgroup quota), if limited. The speed
        /// of the device scales the quota; without one it scales the work.
        quota: Option<f64>,
    },
    /// Each request is a real application's, and takes its real time; service time and, without a quota, speed are
    /// ignored.
    Compute {
        /// What computes.
        application: Arc<Computation>,
        /// As of `Cpu`.
        quota: Option<f64>,
    },
}

impl Model {
    fn quota(&self) -> Option<f64> {
        match self {
            Model::Timed(_) => None,
            Model::Cpu { quota, .. } | Model::Compute { quota, .. } => *quota,
        }
    }
}

/// Everything about a device.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Full name, such as `s1/nic`: part of every answer.
    pub name: String,
    /// Signs the answers.
    pub key: Key,
    /// Where it listens.
    pub addresses: Vec<IpAddr>,
    /// UDP and TCP port.
    pub port: u16,
    /// How it works.
    pub model: Model,
    /// Mean time of a request on a device of speed 1.
    pub service: Duration,
    /// Relative speed: 0.2 takes five times as long.
    pub speed: f64,
    /// Requests in service at a time.
    pub servers: usize,
    /// Requests waiting at most; more are dropped.
    pub buffer: usize,
    /// Seed of the service times. Each device draws its own sequence.
    pub seed: u64,
    /// The address of its counters over HTTP, in Prometheus' text format, if it serves them.
    pub metrics: Option<SocketAddr>,
}

impl DeviceConfig {
    /// Checks the ranges of all values.
    pub fn validate(&self) -> Result<()> {
        let fail = |text: String| Err(Error::new(format!("device '{}': {text}", self.name)));
        if self.name.is_empty() || self.name.len() > MAX_NAME {
            return fail(format!("the name must be 1 to {MAX_NAME} bytes long"));
        }
        if self.addresses.is_empty() {
            return fail("it has no address to listen on".into());
        }
        if self.servers == 0 || self.servers > 4096 {
            return fail(format!("servers is {}: it must be 1 to 4096", self.servers));
        }
        if !(self.speed > 0.0 && self.speed.is_finite()) {
            return fail(format!("speed is {}: it must be above 0", self.speed));
        }
        if self.service.is_zero() || self.mean_service() > Duration::from_secs(3600) {
            return fail(format!("service time is {:?}: it must be above 0 and below an hour", self.service));
        }
        if let Model::Timed(ServiceTime::Drawn(times)) = &self.model
            && (times.is_empty() || times.iter().any(|t| !(t.is_finite() && *t >= 0.0)))
        {
            return fail("no service times were drawn, or invalid ones".into());
        }
        if let Some(cores) = self.model.quota()
            && !(cores * self.speed >= 0.001 && cores <= 1024.0)
        {
            return fail(format!("quota is {cores} processors: it must be 0.001 to 1024 after scaling"));
        }
        Ok(())
    }

    /// Mean time that a request takes here, without waiting.
    pub fn mean_service(&self) -> Duration {
        let seconds = self.service.as_secs_f64() / self.speed;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Requests a second beyond which the queue grows without bound (of the timed model).
    pub fn capacity_rps(&self) -> f64 {
        self.servers as f64 / self.mean_service().as_secs_f64()
    }
}

/// A running device. Stops when dropped.
#[derive(Debug)]
pub struct Device {
    name: String,
    stats: Arc<DeviceStats>,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Device {
    /// Opens the sockets inside `namespace` and starts answering.
    pub fn start(namespace: &Namespace, config: DeviceConfig) -> Result<Self> {
        config.validate()?;
        let sockets = namespace.enter(|| Sockets::open(&config.addresses, config.port))?;
        let sockets = sockets.map_err(|e| Error::new(format!("device '{}': {e}", config.name)))?;
        let metrics = namespace.enter(|| config.metrics.map(Metrics::open).transpose())?;
        let metrics = metrics.map_err(|e| {
            Error::os(format!("device '{}': cannot serve metrics at {:?}", config.name, config.metrics), e)
        })?;
        let failed = |e| Error::os(format!("device '{}': cannot set up its event loop", config.name), e);
        let waker = Arc::new(Waker::new().map_err(failed)?);
        let engine = match config.model {
            Model::Timed(_) => Engine::Timed(Queue::new(config.servers, config.buffer)),
            Model::Cpu { .. } | Model::Compute { .. } => {
                let task = match &config.model {
                    Model::Compute { application, .. } => {
                        let application = application.clone();
                        let task: cpu::Task = Arc::new(move |_, query| application.digest(query));
                        task
                    }
                    Model::Cpu { calibration, .. } => cpu::burning(*calibration),
                    Model::Timed(_) => return Err(Error::new("a timed device computes nothing")),
                };
                let quota = config.model.quota().map(|cores| cores * config.speed);
                let (servers, buffer) = (config.servers, config.buffer);
                Engine::Cpu(Pool::start(namespace, &config.name, servers, buffer, quota, &task, &waker)?)
            }
        };
        let (stats, stop) = (Arc::new(DeviceStats::default()), Arc::new(AtomicBool::new(false)));
        let server = Server::new(&config, sockets, engine, waker.clone(), stats.clone(), stop.clone());
        let mut server = server.map_err(failed)?;
        server.tell(metrics).map_err(failed)?;
        let name = config.name.clone();
        let thread = namespace.spawn(&name, move || {
            sys::minimise_timer_slack();
            server.run()
        })?;
        Ok(Self { name, stats, stop, waker, thread: Some(thread) })
    }

    /// The name in its answers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its counters, live.
    pub fn stats(&self) -> &Arc<DeviceStats> {
        &self.stats
    }

    /// Stops answering and closes all its sockets; requests in the queue are lost.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.stop.store(true, Relaxed);
        self.waker.wake();
        match self.thread.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(e))) => Err(Error::os(format!("device '{}' failed", self.name), e)),
            Some(Err(_)) => Err(Error::new(format!("device '{}' panicked", self.name))),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            // The result was not requested, but a device that failed must not go unnoticed.
            eprintln!("{e}");
        }
    }
}
