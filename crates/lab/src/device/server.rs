//! The thread of a device: its sockets, its queue and its answers.

use super::cpu::Pool;
use super::metrics::{self, Metrics};
use super::queue::Queue;
use super::stats::{DeviceStats, count};
use super::tcp::{Connection, Identity, Outcome};
use super::{DeviceConfig, Model, ServiceTime};
use crate::error::{Error, Result};
use crate::rng::Rng;
use crate::sys::{Epoll, Interest, Ready, Timer, Waker};
use crate::wire::{self, Kind, MAX_FRAME, Request};
use socket2::{Domain, Socket, Type};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub(super) struct Sockets {
    udp: Vec<UdpSocket>,
    tcp: Vec<TcpListener>,
}

impl Sockets {
    pub(super) fn open(addresses: &[IpAddr], port: u16) -> Result<Self> {
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
pub(super) enum ReplyTo {
    Udp { socket: usize, peer: SocketAddr },
    Tcp { token: u64 },
}

#[derive(Debug)]
pub(super) struct Job {
    request: Request,
    reply: ReplyTo,
}

pub(super) enum Engine {
    Timed(Queue<Job>),
    Cpu(Pool<Job>),
}

const WAKER: u64 = 0;
const TIMER: u64 = 1;
const SOCKETS: u64 = 2;
/// Datagrams or connections taken per event, so that no source starves the others.
const BATCH: usize = 64;

pub(super) struct Server {
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
    pub(super) fn new(
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
    pub(super) fn tell(&mut self, metrics: Option<Metrics>) -> io::Result<()> {
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

    pub(super) fn run(&mut self) -> io::Result<()> {
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
