//! The closed-loop generator: a number of clients, each of which sends its next request when the last is answered.
//!
//! It measures the throughput, and the latency at that rate. (For latency under a load that does not wait, see the
//! [open loop](super::run).)

use super::echo::{self, MESSAGE_LEN, Message};
use super::latency::Latencies;
use super::source::SourcePorts;
use crate::error::{Error, Result};
use crate::sys::{Epoll, Interest, Ready};
use serde::{Deserialize, Serialize};
use socket2::{Socket, Type};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

/// When a client opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// For every request; its time counts from before the connection is opened.
    New,
    /// Once.
    KeepAlive,
}

/// One run.
#[derive(Clone, Debug)]
pub struct ClosedLoopConfig {
    /// Where requests go.
    pub target: SocketAddr,
    /// Clients at a time.
    pub clients: usize,
    /// When they connect.
    pub connections: Connections,
    /// How long is measured.
    pub duration: Duration,
    /// How long before that requests are sent that do not count.
    pub warm_up: Duration,
    /// A request that takes longer is lost; its connection is given up.
    pub timeout: Duration,
}

/// The results of a run. Only requests that ended within the measured time count.
#[derive(Clone, Debug, Default)]
pub struct ClosedLoopResult {
    /// Requests answered.
    pub answered: u64,
    /// Requests without an answer within the time-out. They are in `latencies` with the time-out.
    pub lost: u64,
    /// Connections refused or reset, and answers that were wrong.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Time from the first to the last moment that counted.
    pub elapsed: Duration,
    /// From sending (or connecting) to the complete answer.
    pub latencies: Latencies,
    /// Answers by the number of the server.
    pub by_server: BTreeMap<u32, u64>,
}

impl ClosedLoopResult {
    /// Answered requests a second.
    pub fn per_second(&self) -> f64 {
        self.answered as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

enum State {
    /// To be opened.
    Closed,
    Connecting,
    /// Request sent, this many bytes of the answer received.
    Waiting(usize),
}

struct Client {
    socket: Option<Socket>,
    state: State,
    /// When the request in flight began.
    since: Instant,
    number: u64,
    input: Message,
}

struct Run<'a> {
    config: &'a ClosedLoopConfig,
    ports: &'a mut SourcePorts,
    epoll: Epoll,
    clients: Vec<Client>,
    next_number: u64,
    /// Whether what ends now counts.
    counting: bool,
    times: Vec<Duration>,
    result: ClosedLoopResult,
    servers: Vec<u64>,
}

/// How often time-outs are looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Runs on the calling thread, in whose namespace the sockets are.
pub fn closed_loop(config: &ClosedLoopConfig, ports: &mut SourcePorts) -> Result<ClosedLoopResult> {
    if config.clients == 0 || config.timeout.is_zero() || config.duration.is_zero() {
        return Err(Error::new("closed loop: clients, duration and time-out must be above 0"));
    }
    if config.target.is_ipv4() != ports.is_ipv4() {
        return Err(Error::new("closed loop: target and source addresses differ in family"));
    }
    let failed = |e| Error::os("closed loop: cannot set up the event loop", e);
    let start = Instant::now();
    let client =
        || Client { socket: None, state: State::Closed, since: start, number: 0, input: [0; MESSAGE_LEN] };
    let mut run = Run {
        config,
        epoll: Epoll::new().map_err(failed)?,
        clients: (0..config.clients).map(|_| client()).collect(),
        next_number: ports.begin_run(0),
        ports,
        counting: false,
        times: Vec::with_capacity(1 << 16),
        result: ClosedLoopResult::default(),
        servers: Vec::new(),
    };
    for at in 0..config.clients {
        run.begin(at);
    }
    let (begin, end) = (start + config.warm_up, start + config.warm_up + config.duration);
    let mut counted_from = begin;
    let (mut ready, mut looked) = (Vec::new(), start);
    loop {
        run.epoll.wait(&mut ready, Some(LOOK)).map_err(failed)?;
        let now = Instant::now();
        if now >= end {
            run.result.elapsed = now - counted_from;
            break;
        }
        if !run.counting && now >= begin {
            run.counting = true;
            counted_from = now;
        }
        for event in &ready {
            run.event(event);
        }
        if now - looked >= LOOK {
            looked = now;
            run.time_out(now);
        }
    }
    // A request still in flight at the end is lost only if it is late already.
    run.time_out(Instant::now());
    let Run { mut result, times, servers, .. } = run;
    result.latencies = times.into_iter().collect();
    result.by_server = (0..).zip(servers).filter(|(_, count)| *count > 0).collect();
    Ok(result)
}

impl Run<'_> {
    /// Begins a request, on a new connection if necessary.
    fn begin(&mut self, at: usize) {
        let client = &mut self.clients[at];
        client.since = Instant::now();
        client.number = self.next_number;
        self.next_number += 1;
        if client.socket.is_some() {
            return self.send(at);
        }
        client.state = State::Connecting;
        let opened = self.ports.bind(Type::STREAM).and_then(|(socket, _, _)| {
            match socket.connect(&self.config.target.into()) {
                Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => return Err(e),
                _ => {}
            }
            self.epoll.add(&socket, at as u64, Interest::EDGES)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => self.clients[at].socket = Some(socket),
            // Tried again at the check for time-outs: retrying at once might loop for ever.
            Err(e) => self.fail(at, format!("cannot connect to {}: {e}", self.config.target)),
        }
    }

    fn send(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Some(socket) = &mut client.socket else { return };
        client.state = State::Waiting(0);
        match socket.write(&echo::request(client.number)) {
            Ok(MESSAGE_LEN) => {}
            Ok(_) => self.fail(at, "a request did not fit into the socket's buffer".into()),
            Err(e) => self.fail(at, format!("cannot send a request: {e}")),
        }
    }

    fn event(&mut self, event: &Ready) {
        let at = event.token as usize;
        let Some(client) = self.clients.get_mut(at) else { return };
        let Some(socket) = &mut client.socket else { return };
        if let State::Connecting = client.state {
            if event.failed {
                let error = socket.take_error().ok().flatten();
                let text = error.map_or_else(|| "connection closed".to_owned(), |e| e.to_string());
                return self.fail(at, format!("connecting to {}: {text}", self.config.target));
            }
            if event.writable {
                self.send(at);
            }
            return;
        }
        let State::Waiting(filled) = &mut client.state else { return };
        if !event.readable && !event.failed {
            return;
        }
        match socket.read(&mut client.input[*filled..]) {
            Ok(0) => self.fail(at, "the connection was closed before the answer came".into()),
            Ok(n) => {
                *filled += n;
                // Edges are reported once: but the rest of an answer is another edge.
                if *filled == MESSAGE_LEN {
                    self.finish(at);
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => self.fail(at, format!("waiting for an answer: {e}")),
        }
    }

    /// The answer is there.
    fn finish(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let took = client.since.elapsed();
        let Some(server) = echo::answered_by(&client.input, client.number) else {
            return self.fail(at, "an answer to another request, or from an unknown sender".into());
        };
        if self.config.connections == Connections::New {
            client.socket = None;
        }
        if self.counting {
            self.result.answered += 1;
            self.times.push(took);
            let server = server as usize;
            if self.servers.len() <= server {
                self.servers.resize(server.min(1 << 16) + 1, 0);
            }
            if let Some(count) = self.servers.get_mut(server) {
                *count += 1;
            }
        }
        self.begin(at);
    }

    fn fail(&mut self, at: usize, why: String) {
        if self.counting {
            self.result.errors += 1;
        }
        self.result.first_error.get_or_insert(why);
        self.clients[at].socket = None;
        self.clients[at].state = State::Closed;
    }

    /// Gives up late requests, and begins again on idle clients.
    fn time_out(&mut self, now: Instant) {
        for at in 0..self.clients.len() {
            let client = &mut self.clients[at];
            match client.state {
                State::Closed => self.begin(at),
                State::Connecting | State::Waiting(_) if now - client.since > self.config.timeout => {
                    if let Some(socket) = client.socket.take() {
                        // The server has stopped listening.
                        let _ = socket.shutdown(Shutdown::Both);
                    }
                    client.state = State::Closed;
                    if self.counting {
                        self.result.lost += 1;
                        self.times.push(self.config.timeout);
                    }
                }
                State::Connecting | State::Waiting(_) => {}
            }
        }
    }
}
