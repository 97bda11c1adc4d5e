//! Clients that join one after the other, and of which each requests content again and again over one TCP connection.

use super::latency::Latencies;
use super::source::SourcePorts;
use crate::error::{Error, Result};
use crate::sys::{Epoll, Interest, Ready, Timer};
use crate::wire::{Keyring, Kind, MAX_FRAME, Request, Verdict};
use socket2::{Socket, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The clients.
#[derive(Clone, Debug)]
pub struct SessionsConfig {
    /// The VIP and the service's TCP port.
    pub target: SocketAddr,
    /// Number of clients.
    pub clients: u32,
    /// From one client to the next.
    pub join: Duration,
    /// Requests of each client.
    pub requests: u32,
    /// From one request of a client to its next one, which also waits for the answer.
    pub gap: Duration,
    /// Bytes of content in an answer.
    pub bytes: u64,
    /// Padding of a request: its size in bytes.
    pub request_bytes: usize,
    /// A client whose answer is not complete after this gives up.
    pub timeout: Duration,
    /// Determines the content.
    pub seed: u64,
}

/// What the clients saw.
#[derive(Clone, Debug, Default)]
pub struct SessionsResult {
    /// Requests that all clients together were to send.
    pub planned: u64,
    /// Of these, answered completely, with a device's signature.
    pub answered: u64,
    /// From a request to its complete answer, of answered ones.
    pub latencies: Latencies,
    /// Clients by the device that answered them.
    pub clients_by_device: BTreeMap<String, u64>,
    /// Bytes of content by device.
    pub bytes_by_device: BTreeMap<String, u64>,
    /// Clients whose connection had answers of several devices: never, with a balancer that keeps connections.
    pub moved: u64,
    /// From the first client's connection to the end of the last.
    pub elapsed: Duration,
    /// Why the first client that gave up did so.
    pub first_error: Option<String>,
}

impl SessionsResult {
    /// The share of requests without an answer, in per cent.
    pub fn loss_percent(&self) -> f64 {
        100.0 * (self.planned - self.answered) as f64 / self.planned.max(1) as f64
    }
}

#[derive(Debug, PartialEq)]
enum State {
    Connecting,
    /// Until its next request.
    Idle,
    /// So much content is missing; then the answer follows.
    Waiting(u64),
    Over,
}

struct Client {
    socket: Option<Socket>,
    state: State,
    /// When it connected, or sent its last request.
    since: Instant,
    sent: u32,
    /// What has come of the frame of the answer.
    answer: Vec<u8>,
    devices: BTreeSet<usize>,
}

struct Run<'a> {
    config: &'a SessionsConfig,
    keys: &'a Keyring,
    ports: &'a mut SourcePorts,
    epoll: Epoll,
    first_connection: u64,
    clients: Vec<Client>,
    open: usize,
    times: Vec<Duration>,
    bytes: Vec<u64>,
    result: SessionsResult,
    buffer: Vec<u8>,
}

const TIMER: u64 = u64::MAX;
const PIECE: usize = 64 * 1024;

/// Runs the clients on the calling thread, in whose namespace the sockets are.
pub fn sessions(config: &SessionsConfig, ports: &mut SourcePorts, keys: &Keyring) -> Result<SessionsResult> {
    if config.clients == 0
        || config.requests == 0
        || config.timeout.is_zero()
        || config.request_bytes > MAX_FRAME
    {
        return Err(Error::new(format!(
            "sessions: clients, requests and time-out must be above 0, and a request have at most {MAX_FRAME} bytes"
        )));
    }
    let failed = |e| Error::os("sessions: cannot set up the event loop", e);
    let (epoll, timer) = (Epoll::new().map_err(failed)?, Timer::new().map_err(failed)?);
    epoll.add(&timer, TIMER, Interest::READ).map_err(failed)?;
    let first_connection = ports.begin_run(config.seed);
    let planned = u64::from(config.clients) * u64::from(config.requests);
    let mut run = Run {
        config,
        keys,
        ports,
        epoll,
        first_connection,
        clients: Vec::new(),
        open: 0,
        times: Vec::new(),
        bytes: vec![0; keys.names().len()],
        result: SessionsResult { planned, ..SessionsResult::default() },
        buffer: vec![0; PIECE],
    };
    let start = Instant::now();
    let mut ready = Vec::new();
    loop {
        let now = Instant::now();
        while run.clients.len() < config.clients as usize
            && start + config.join * run.clients.len() as u32 <= now
        {
            run.join(now);
        }
        let next = run.due(now);
        let more = run.clients.len() < config.clients as usize;
        if !more && run.open == 0 {
            break;
        }
        let joins = more.then(|| start + config.join * run.clients.len() as u32);
        let wake = next.into_iter().chain(joins).min().unwrap_or(now);
        timer.arm(wake.saturating_duration_since(Instant::now())).map_err(failed)?;
        run.epoll.wait(&mut ready, None).map_err(failed)?;
        for event in &ready {
            match event.token {
                TIMER => timer.clear(),
                token => run.event(token as usize, event),
            }
        }
    }
    run.result.elapsed = start.elapsed();
    Ok(run.finish())
}

impl Run<'_> {
    /// The next client connects.
    fn join(&mut self, now: Instant) {
        let at = self.clients.len();
        let opened = self.ports.bind(Type::STREAM).and_then(|(socket, _, _)| {
            match socket.connect(&self.config.target.into()) {
                Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => return Err(e),
                _ => {}
            }
            self.epoll.add(&socket, at as u64, Interest::BOTH)?;
            Ok(socket)
        });
        let (answer, devices) = (Vec::new(), BTreeSet::new());
        self.clients.push(Client {
            socket: None,
            state: State::Connecting,
            since: now,
            sent: 0,
            answer,
            devices,
        });
        self.open += 1;
        match opened {
            Ok(socket) => self.clients[at].socket = Some(socket),
            Err(e) => self.end(at, Some(format!("cannot connect to {}: {e}", self.config.target))),
        }
    }

    /// Sends requests that are due, and ends clients that waited for too long. Returns when to look again.
    fn due(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for at in 0..self.clients.len() {
            let since = self.clients[at].since;
            match self.clients[at].state {
                State::Over => continue,
                State::Idle if since + self.config.gap <= now => self.send(at, now),
                State::Connecting | State::Waiting(_) if since + self.config.timeout <= now => {
                    self.end(at, Some(format!("no complete answer after {:?}", self.config.timeout)));
                }
                _ => {}
            }
            let client = &self.clients[at];
            let then = match client.state {
                State::Over => continue,
                State::Idle => client.since + self.config.gap,
                State::Connecting | State::Waiting(_) => client.since + self.config.timeout,
            };
            next = Some(next.map_or(then, |n| n.min(then)));
        }
        next
    }

    fn request(&self, at: usize) -> Request {
        Request {
            kind: Kind::Download,
            connection: self.first_connection ^ at as u64,
            sequence: self.config.seed ^ u64::from(self.clients[at].sent),
            argument: self.config.bytes,
        }
    }

    fn send(&mut self, at: usize, now: Instant) {
        self.clients[at].sent += 1;
        let mut bytes = Vec::new();
        self.request(at).encode_frame(self.config.request_bytes, &mut bytes);
        let client = &mut self.clients[at];
        (client.state, client.since) = (State::Waiting(self.config.bytes), now);
        // A small request fits into the empty buffer of a socket.
        let sent = client.socket.as_mut().map_or(Ok(0), |socket| socket.write(&bytes));
        match sent {
            Ok(n) if n == bytes.len() => {}
            Ok(_) => self.end(at, Some("a request did not fit into the socket's buffer".into())),
            Err(e) => self.end(at, Some(format!("cannot send a request: {e}"))),
        }
    }

    fn event(&mut self, at: usize, event: &Ready) {
        let Some(client) = self.clients.get_mut(at) else { return };
        let Some(socket) = &mut client.socket else { return };
        if client.state == State::Connecting {
            if event.failed {
                let why = socket.take_error().ok().flatten();
                let why = why.map_or_else(|| "connection closed".to_owned(), |e| e.to_string());
                return self.end(at, Some(format!("connecting to {}: {why}", self.config.target)));
            }
            if event.writable {
                match self.epoll.modify(&*socket, at as u64, Interest::READ) {
                    Ok(()) => self.send(at, Instant::now()),
                    Err(e) => self.end(at, Some(format!("cannot wait for an answer: {e}"))),
                }
            }
            return;
        }
        match socket.read(&mut self.buffer) {
            Ok(0) => self.end(at, Some("the connection was closed before the answer came".into())),
            Ok(n) => self.take(at, n),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => self.end(at, Some(format!("waiting for an answer: {e}"))),
        }
    }

    /// Takes bytes of the buffer.
    fn take(&mut self, at: usize, n: usize) {
        let client = &mut self.clients[at];
        let State::Waiting(left) = &mut client.state else {
            return self.end(at, Some("bytes without a request".into()));
        };
        let content = usize::try_from(*left).unwrap_or(usize::MAX).min(n);
        *left -= content as u64;
        client.answer.extend_from_slice(&self.buffer[content..n]);
        let Some(length) = client.answer.get(..4).and_then(|b| <[u8; 4]>::try_from(b).ok()) else { return };
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_FRAME {
            return self.end(at, Some("not an answer behind the content".into()));
        }
        if client.answer.len() < 4 + length {
            return;
        }
        let answer = std::mem::take(&mut client.answer);
        match self.keys.verify(&answer[4..], &self.request(at)) {
            Verdict::Good(device) => self.answered(at, device),
            Verdict::OtherRequest | Verdict::Forged => {
                self.end(at, Some("an answer that no device has signed".into()));
            }
        }
    }

    fn answered(&mut self, at: usize, device: usize) {
        let client = &mut self.clients[at];
        self.times.push(client.since.elapsed());
        self.result.answered += 1;
        self.bytes[device] += self.config.bytes;
        client.devices.insert(device);
        client.state = State::Idle;
        if client.sent == self.config.requests {
            self.end(at, None);
        }
    }

    fn end(&mut self, at: usize, why: Option<String>) {
        let client = &mut self.clients[at];
        (client.socket, client.state) = (None, State::Over);
        self.open -= 1;
        if let Some(why) = why {
            self.result.first_error.get_or_insert(why);
        }
    }

    fn finish(mut self) -> SessionsResult {
        let names = self.keys.names();
        for client in &self.clients {
            self.result.moved += u64::from(client.devices.len() > 1);
            if let Some(device) = client.devices.first() {
                *self.result.clients_by_device.entry(names[*device].clone()).or_default() += 1;
            }
        }
        self.result.bytes_by_device = names.iter().cloned().zip(self.bytes).collect();
        self.result.latencies = self.times.into_iter().collect();
        self.result
    }
}
