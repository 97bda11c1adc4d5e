//! Devices with a queue that handle requests, answering over UDP and TCP on one port.
//!
//! One thread receives, keeps time and sends; see [`Model`] for how long a request takes. Probes are answered
//! at once and bulk transfers bypass the queue, so that consistency can be checked at rates that would
//! drown the modelled processor.

mod cpu;
mod metrics;
mod queue;
mod stats;
mod tcp;

pub use crate::cgroup::release_cpu_groups;
pub use cpu::Calibration;
pub use stats::{DeviceCounters, DeviceStats};

use crate::compute::Computation;
use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::rng::Rng;
use crate::sys::{self, Epoll, Interest, Ready, Timer, Waker};
use crate::wire::{self, Key, Kind, MAX_FRAME, MAX_NAME, Request};
use cpu::Pool;
use metrics::Metrics;
use queue::Queue;
use socket2::{Domain, Socket, Type};
use stats::count;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tcp::{Connection, Identity, Outcome};

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

struct Sockets {
    udp: Vec<UdpSocket>,
    tcp: Vec<TcpListener>,
}

impl Sockets {
    fn open(addresses: &[IpAddr], port: u16) -> Result<Self> {
        let mut sockets = Self { udp: Vec::new(), tcp: Vec::new() };
        for &ip in addresses {
            let address = SocketAddr::new(ip, port);
            let open = |kind| {
                let socket = Socket::new(Domain::for_address(address), kind, None)?;
                socket.set_nonblocking(true)?;
                Ok::<_, io::Error>(socket)
            };
            let failed = |e| Error::os(format!("cannot listen on {address}"), e);
            let udp = open(Type::DGRAM).map_err(failed)?;
            // As much as the machine allows: drops must happen at the queue's limit.
            let _ = udp.set_recv_buffer_size(4 << 20);
            udp.bind(&address.into()).map_err(failed)?;
            sockets.udp.push(udp.into());
            let tcp = open(Type::STREAM).map_err(failed)?;
            tcp.set_reuse_address(true).map_err(failed)?;
            tcp.bind(&address.into()).and_then(|()| tcp.listen(4096)).map_err(failed)?;
            sockets.tcp.push(tcp.into());
        }
        Ok(sockets)
    }
}

/// Where an answer goes.
#[derive(Debug)]
enum ReplyTo {
    Udp { socket: usize, peer: SocketAddr },
    Tcp { token: u64 },
}

#[derive(Debug)]
struct Job {
    request: Request,
    reply: ReplyTo,
}

enum Engine {
    Timed(Queue<Job>),
    Cpu(Pool<Job>),
}

const WAKER: u64 = 0;
const TIMER: u64 = 1;
const SOCKETS: u64 = 2;
/// Datagrams or connections taken per event, so that no source starves the others.
const BATCH: usize = 64;

struct Server {
    me: Identity,
    engine: Engine,
    service_ns: f64,
    /// Requests so far, for draws that were made before.
    drawn: usize,
    times: ServiceTime,
    rng: Rng,
    sockets: Sockets,
    connections: HashMap<u64, Connection>,
    /// The clients of its counters, and the token of its listener.
    metrics: Option<(u64, Metrics)>,
    workers: usize,
    next_token: u64,
    epoll: Epoll,
    timer: Timer,
    armed: Option<u64>,
    waker: Arc<Waker>,
    stats: Arc<DeviceStats>,
    stop: Arc<AtomicBool>,
    origin: Instant,
    scratch: Vec<u8>,
    requests: Vec<Request>,
    output: Vec<u8>,
}

impl Server {
    fn new(
        config: &DeviceConfig,
        sockets: Sockets,
        engine: Engine,
        waker: Arc<Waker>,
        stats: Arc<DeviceStats>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        epoll.add(&*waker, WAKER, Interest::READ)?;
        epoll.add(&timer, TIMER, Interest::READ)?;
        let mut token = SOCKETS;
        for socket in &sockets.udp {
            epoll.add(socket, token, Interest::READ)?;
            token += 1;
        }
        for listener in &sockets.tcp {
            epoll.add(listener, token, Interest::READ)?;
            token += 1;
        }
        // With a quota the device is slow because it gets less processor, not because it does more work.
        let scaled = config.model.quota().is_none();
        let mean = if scaled { config.mean_service() } else { config.service };
        Ok(Self {
            me: Identity { name: config.name.clone(), key: config.key },
            engine,
            service_ns: mean.as_nanos() as f64,
            drawn: 0,
            times: match &config.model {
                Model::Timed(times) => times.clone(),
                Model::Cpu { .. } | Model::Compute { .. } => ServiceTime::Deterministic,
            },
            rng: Rng::for_part(config.seed, &config.name),
            sockets,
            connections: HashMap::new(),
            metrics: None,
            workers: config.servers,
            next_token: token,
            epoll,
            timer,
            armed: None,
            waker,
            stats,
            stop,
            origin: Instant::now(),
            scratch: vec![0; 64 * 1024],
            requests: Vec::new(),
            output: Vec::new(),
        })
    }

    /// Serves its counters to clients there.
    fn tell(&mut self, metrics: Option<Metrics>) -> io::Result<()> {
        let Some(metrics) = metrics else { return Ok(()) };
        metrics.watch(&self.epoll, self.next_token)?;
        self.metrics = Some((self.next_token, metrics));
        self.next_token += 1;
        Ok(())
    }

    /// Takes an event of the metrics' sockets; whether it was one.
    fn asked(&mut self, token: u64) -> io::Result<bool> {
        let Some((listener, mut metrics)) = self.metrics.take() else { return Ok(false) };
        let ours = token == listener || metrics.has(token);
        if token == listener {
            metrics.accept(&self.epoll, &mut self.next_token)?;
        } else if ours {
            let busy = match &self.engine {
                Engine::Timed(queue) => {
                    Duration::from_nanos(self.stats.busy_ns.load(Relaxed) + queue.in_service_ns(self.now()))
                }
                Engine::Cpu(pool) => pool.busy(),
            };
            let (name, busy_s) = (&self.me.name, busy.as_secs_f64());
            metrics.answer(token, || metrics::page(name, self.workers, busy_s, &self.stats.read()));
        }
        self.metrics = Some((listener, metrics));
        Ok(ours)
    }

    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    fn run(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        while !self.stop.load(Relaxed) {
            self.arm()?;
            self.epoll.wait(&mut ready, None)?;
            self.finish();
            for event in &ready {
                self.handle(event)?;
            }
            self.finish();
            let waiting = match &self.engine {
                Engine::Timed(queue) => queue.len(),
                Engine::Cpu(pool) => pool.len(),
            };
            self.stats.in_system.store(waiting as u64, Relaxed);
        }
        Ok(())
    }

    /// Sets the timer to the next finish time, if that has changed.
    fn arm(&mut self) -> io::Result<()> {
        let Engine::Timed(queue) = &self.engine else { return Ok(()) };
        let next = queue.next_finish();
        if let Some(finish) = next
            && next != self.armed
        {
            self.timer.arm(Duration::from_nanos(finish.saturating_sub(self.now())))?;
        }
        self.armed = next;
        Ok(())
    }

    fn handle(&mut self, event: &Ready) -> io::Result<()> {
        let (udp, tcp) = (self.sockets.udp.len() as u64, self.sockets.tcp.len() as u64);
        match event.token {
            WAKER => self.waker.clear(),
            TIMER => {
                self.timer.clear();
                self.armed = None;
            }
            token if token < SOCKETS + udp => self.datagrams((token - SOCKETS) as usize),
            token if token < SOCKETS + udp + tcp => self.accept((token - SOCKETS - udp) as usize)?,
            token => {
                if !self.asked(token)? {
                    self.connection(token, event);
                }
            }
        }
        Ok(())
    }

    fn datagrams(&mut self, socket: usize) {
        for _ in 0..BATCH {
            // An error is either "nothing more" or an ICMP error about an earlier answer: both end the batch.
            let Ok((n, peer)) = self.sockets.udp[socket].recv_from(&mut self.scratch) else { return };
            match Request::decode(&self.scratch[..n]) {
                Ok(request) if n <= MAX_FRAME && matches!(request.kind, Kind::Work | Kind::Probe) => {
                    self.request(Job { request, reply: ReplyTo::Udp { socket, peer } });
                }
                _ => count(&self.stats.malformed),
            }
        }
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        for _ in 0..BATCH {
            let stream = match self.sockets.tcp[listener].accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                // Closed before it was accepted, or out of descriptors. The event comes again at once, so pause: good
                // service is impossible in this state, but spinning is avoidable.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(1));
                    return Ok(());
                }
            };
            stream.set_nonblocking(true)?;
            // Answers are single small segments; waiting to fill them would be measured as latency.
            stream.set_nodelay(true)?;
            let token = self.next_token;
            self.next_token += 1;
            let connection = Connection::new(stream);
            self.epoll.add(&connection.stream, token, connection.interest)?;
            self.connections.insert(token, connection);
            self.stats.connections.store(self.connections.len() as u64, Relaxed);
        }
        Ok(())
    }

    fn connection(&mut self, token: u64, event: &Ready) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        let mut requests = std::mem::take(&mut self.requests);
        let mut outcome = Outcome::Open;
        if event.readable || event.failed {
            outcome = connection.read(&self.me, &mut self.scratch, &mut requests);
        }
        if outcome == Outcome::Open {
            outcome = connection.write(&self.me, &mut requests);
        }
        if outcome == Outcome::Malformed {
            count(&self.stats.malformed);
        }
        self.keep(token, connection, outcome);
        for request in requests.drain(..) {
            self.request(Job { request, reply: ReplyTo::Tcp { token } });
        }
        self.requests = requests;
    }

    /// Puts a connection back after an event, or lets it close. Returns whether it is open.
    fn keep(&mut self, token: u64, mut connection: Connection, outcome: Outcome) -> bool {
        let open = outcome == Outcome::Open && self.update(token, &mut connection).is_ok();
        if open {
            self.connections.insert(token, connection);
        }
        self.stats.connections.store(self.connections.len() as u64, Relaxed);
        open
    }

    fn update(&self, token: u64, connection: &mut Connection) -> io::Result<()> {
        let wanted = connection.wanted();
        if wanted != connection.interest {
            self.epoll.modify(&connection.stream, token, wanted)?;
            connection.interest = wanted;
        }
        Ok(())
    }

    /// A request has arrived: answer it, queue it, or drop it.
    fn request(&mut self, job: Job) {
        count(&self.stats.requests);
        if job.request.kind == Kind::Probe {
            return self.answer(&job, [0; 16]);
        }
        let scale = match job.request.argument {
            0 => 1.0,
            thousandths => thousandths as f64 / 1000.0,
        };
        let draw = match &self.times {
            ServiceTime::Deterministic => 1.0,
            ServiceTime::Exponential => self.rng.exponential(),
            ServiceTime::Drawn(times) => {
                self.drawn += 1;
                times.get((self.drawn - 1) % times.len().max(1)).copied().unwrap_or(1.0)
            }
        };
        // Float to integer conversion saturates, so no argument can overflow.
        let service = (self.service_ns * scale * draw) as u64;
        let now = self.now();
        let taken = match &mut self.engine {
            Engine::Timed(queue) => queue.offer(now, service, job),
            Engine::Cpu(pool) => pool.offer(Duration::from_nanos(service), job.request.query(), job),
        };
        if !taken {
            count(&self.stats.overflowed);
        }
    }

    /// Answers everything that has finished by now.
    fn finish(&mut self) {
        let now = self.now();
        loop {
            let finished = match &mut self.engine {
                Engine::Timed(queue) => queue.pop_finished(now).map(|(job, busy)| (job, busy, Some([0; 16]))),
                Engine::Cpu(pool) => pool.pop_finished(),
            };
            let Some((job, busy, result)) = finished else { return };
            self.stats.busy_ns.fetch_add(busy, Relaxed);
            match result {
                Some(result) => self.answer(&job, result),
                None => self.fail(&job),
            }
        }
    }

    /// The application failed: no answer, and over TCP the end of the connection.
    fn fail(&mut self, job: &Job) {
        count(&self.stats.failed);
        if let ReplyTo::Tcp { token } = job.reply {
            self.connections.remove(&token);
            self.stats.connections.store(self.connections.len() as u64, Relaxed);
        }
    }

    /// `result` is the answer's payload: of an application, the result of the request.
    fn answer(&mut self, job: &Job, result: [u8; 16]) {
        let sent = match job.reply {
            ReplyTo::Udp { socket, peer } => {
                self.output.clear();
                wire::sign(&job.request, &self.me.name, self.me.key, result, &mut self.output);
                self.sockets.udp[socket].send_to(&self.output, peer).is_ok()
            }
            ReplyTo::Tcp { token } => match self.connections.remove(&token) {
                Some(mut connection) => {
                    connection.answer(&self.me, &job.request, result);
                    let outcome = connection.flush();
                    self.keep(token, connection, outcome)
                }
                None => false,
            },
        };
        count(if sent { &self.stats.answers } else { &self.stats.send_failures });
    }
}
