//! Per-connection consistency, checked end to end: many connections at once, each of which must be answered
//! by one device for as long as it lives.

use super::source::SourcePorts;
use crate::error::{Error, Result};
use crate::sys::{self, Epoll, Interest, Ready, Timer};
use crate::wire::{Keyring, Kind, MAX_FRAME, Request};
use serde::{Deserialize, Serialize};
use socket2::{Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One consistency check.
#[derive(Clone, Debug)]
pub struct ConsistencyConfig {
    /// The VIP and the service's UDP port.
    pub udp_target: SocketAddr,
    /// The VIP and the service's TCP port.
    pub tcp_target: SocketAddr,
    /// Concurrent connections, UDP and TCP together.
    pub connections: usize,
    /// Fraction of them that are TCP.
    pub tcp_share: f64,
    /// Each connection sends a request this often, evenly spread: together connections / interval a second.
    /// A request that is not answered when the connection's next one is due is unanswered.
    pub interval: Duration,
    /// How long requests are sent.
    pub duration: Duration,
    /// How long the last requests are waited for (at most `interval`).
    pub grace: Duration,
    /// Distinguishes the connections of this run from those of others.
    pub seed: u64,
    /// [`Kind::Probe`] only asks for the device's name; [`Kind::Work`] occupies the device.
    pub kind: Kind,
    /// Whether the devices' ends of TCP connections are open files of this process, too.
    pub own_devices: bool,
}

impl ConsistencyConfig {
    /// 5 % TCP, a probe on each connection every 5 s.
    pub fn new(udp: SocketAddr, tcp: SocketAddr, connections: usize, duration: Duration, seed: u64) -> Self {
        Self {
            udp_target: udp,
            tcp_target: tcp,
            connections,
            tcp_share: 0.05,
            interval: Duration::from_secs(5),
            duration,
            grace: Duration::from_secs(2),
            seed,
            kind: Kind::Probe,
            own_devices: true,
        }
    }

    fn tcp_connections(&self) -> usize {
        (self.connections as f64 * self.tcp_share).round() as usize
    }

    /// Checks ranges, and that the source pairs and file descriptors suffice.
    pub fn validate(&self, ports: &SourcePorts, open_files: u64, file_limit: u64) -> Result<()> {
        let fail = |text: String| Err(Error::new(format!("consistency: {text}")));
        if self.connections == 0 {
            return fail("0 connections: at least 1".into());
        }
        if !(0.0..=1.0).contains(&self.tcp_share) {
            return fail(format!("tcp_share is {}: it must be 0 to 1", self.tcp_share));
        }
        if self.interval.is_zero() {
            return fail("interval is 0".into());
        }
        if !matches!(self.kind, Kind::Work | Kind::Probe) {
            return fail(format!("{:?} requests are not for this check", self.kind));
        }
        if self.udp_target.is_ipv4() != ports.is_ipv4() || self.tcp_target.is_ipv4() != ports.is_ipv4() {
            return fail("targets and source addresses differ in family".into());
        }
        if self.connections > ports.len() {
            return fail(format!(
                "{} connections need as many source ports, but there are {}",
                self.connections,
                ports.len()
            ));
        }
        let at_devices = if self.own_devices { self.tcp_connections() } else { 0 };
        let needed = open_files + (self.connections + at_devices + 100) as u64;
        if needed > file_limit {
            return fail(format!(
                "{} connections need some {needed} open files, and the limit is {file_limit}; \
                 use fewer connections or raise the hard limit (ulimit -Hn)",
                self.connections
            ));
        }
        Ok(())
    }
}

/// Two answers on one connection by different devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The connection's source.
    pub source: SocketAddr,
    /// `udp` or `tcp`.
    pub protocol: String,
    /// Number of the request whose answer gave it away.
    pub sequence: u64,
    /// Device of the first answer.
    pub first: String,
    /// Device of this answer.
    pub later: String,
}

/// The results of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsistencyResult {
    /// Connections opened.
    pub connections: u64,
    /// Of these, TCP.
    pub tcp_connections: u64,
    /// Requests sent.
    pub requests: u64,
    /// Answered before the connection's next request was due.
    pub answered: u64,
    /// The others.
    pub unanswered: u64,
    /// Of the unanswered: those whose answer came after all (or answers that came twice).
    pub late: u64,
    /// Connections that were open at the end, and had no answer to their last request.
    pub silent: u64,
    /// Answers by another device than the connection's first.
    pub violations: u64,
    /// The first few violations.
    pub examples: Vec<Violation>,
    /// Answers that no device signed, or that belong to another connection.
    pub bad_signatures: u64,
    /// Answers from another address than the target.
    pub wrong_source: u64,
    /// TCP connections that were reset.
    pub tcp_resets: u64,
    /// TCP connections that were closed by the other end, or never came about.
    pub tcp_failures: u64,
    /// Requests that could not be sent.
    pub send_failures: u64,
    /// The first reason of any failure.
    pub first_error: Option<String>,
    /// Connections by the device of their first answer.
    pub connections_by_device: BTreeMap<String, u64>,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsistencyProgress {
    /// Connections opened so far.
    pub connections: u64,
    /// Requests sent so far.
    pub requests: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Violations so far.
    pub violations: u64,
    /// Time since the start.
    pub elapsed: Duration,
}

enum Transport {
    Udp,
    Tcp {
        input: Vec<u8>,
        output: Vec<u8>,
        interest: Interest,
    },
    /// Failed; takes no further part.
    Dead,
}

struct Connection {
    socket: Socket,
    source: SocketAddr,
    transport: Transport,
    /// Number of the last request, and whether it is still unanswered.
    sequence: u64,
    waiting: bool,
    device: Option<usize>,
}

struct Check<'a> {
    config: &'a ConsistencyConfig,
    keys: &'a Keyring,
    epoll: Epoll,
    first_connection: u64,
    connections: Vec<Option<Connection>>,
    by_device: Vec<u64>,
    result: ConsistencyResult,
    buffer: Vec<u8>,
}

const TIMER: u64 = u64::MAX;
const EXAMPLES: usize = 10;

/// Runs a check on the calling thread, in whose namespace the sockets are, until its time has elapsed or `stop` is set.
/// `observe` is called some ten times a second.
pub fn check(
    config: &ConsistencyConfig,
    ports: &mut SourcePorts,
    keys: &Keyring,
    stop: &AtomicBool,
    mut observe: impl FnMut(ConsistencyProgress),
) -> Result<ConsistencyResult> {
    let failed = |e| Error::os("consistency: cannot set up the event loop", e);
    let limit =
        sys::raise_open_file_limit().map_err(|e| Error::os("cannot read the limit of open files", e))?;
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
    config.validate(ports, open, limit)?;
    let (epoll, timer) = (Epoll::new().map_err(failed)?, Timer::new().map_err(failed)?);
    epoll.add(&timer, TIMER, Interest::READ).map_err(failed)?;
    let mut check = Check {
        config,
        keys,
        epoll,
        first_connection: ports.begin_run(config.seed),
        connections: (0..config.connections).map(|_| None).collect(),
        by_device: vec![0; keys.names().len()],
        result: ConsistencyResult::default(),
        buffer: vec![0; 16 * 1024],
    };
    let start = Instant::now();
    let gap = config.interval.as_secs_f64() / config.connections as f64;
    let mut end = config.duration;
    let (mut turn, mut ready, mut observed) = (0u64, Vec::new(), Duration::ZERO);
    loop {
        let now = start.elapsed();
        if stop.load(Relaxed) {
            end = end.min(now);
        }
        let mut due = Duration::from_secs_f64(turn as f64 * gap);
        while due <= now && due < end {
            check.turn((turn % config.connections as u64) as usize, ports);
            turn += 1;
            due = Duration::from_secs_f64(turn as f64 * gap);
        }
        let over = end + config.grace.min(config.interval);
        if due >= end && (now >= over || !check.waiting()) {
            break;
        }
        if now >= observed {
            observed = now + Duration::from_millis(100);
            observe(check.progress(now));
        }
        let wake = observed.min(if due < end { due } else { over });
        timer.arm(wake.saturating_sub(start.elapsed())).map_err(failed)?;
        check.epoll.wait(&mut ready, None).map_err(failed)?;
        for event in &ready {
            match event.token {
                TIMER => timer.clear(),
                token => check.event(token as usize, event),
            }
        }
    }
    observe(check.progress(start.elapsed()));
    Ok(check.finish())
}

impl Check<'_> {
    fn progress(&self, elapsed: Duration) -> ConsistencyProgress {
        let ConsistencyResult { connections, requests, answered, violations, .. } = self.result;
        ConsistencyProgress { connections, requests, answered, violations, elapsed }
    }

    fn waiting(&self) -> bool {
        // Late answers count as such only if they are received, but waiting for them must not take time.
        self.result.answered + self.result.unanswered < self.result.requests
    }

    fn note(&mut self, error: &io::Error) {
        self.result.first_error.get_or_insert_with(|| error.to_string());
    }

    /// A connection's turn: opens it the first time, then sends its next request.
    fn turn(&mut self, number: usize, ports: &mut SourcePorts) {
        if self.connections[number].is_none() {
            // TCP connections are spread evenly among the others.
            let share = self.config.tcp_share;
            let tcp = ((number + 1) as f64 * share).floor() > (number as f64 * share).floor();
            match self.open(number, tcp, ports) {
                Ok(connection) => {
                    self.result.connections += 1;
                    self.result.tcp_connections += u64::from(tcp);
                    self.connections[number] = Some(connection);
                }
                Err(e) => {
                    self.result.send_failures += 1;
                    return self.note(&e);
                }
            }
        }
        let connection_number = self.number(number);
        let Some(connection) = &mut self.connections[number] else { return };
        if matches!(connection.transport, Transport::Dead) {
            return;
        }
        if connection.waiting {
            self.result.unanswered += 1;
        }
        connection.sequence += 1;
        connection.waiting = true;
        self.result.requests += 1;
        let request = Request {
            kind: self.config.kind,
            connection: connection_number,
            sequence: connection.sequence,
            argument: 0,
        };
        match &mut connection.transport {
            Transport::Udp => {
                let mut bytes = Vec::new();
                request.encode(64, &mut bytes);
                if let Err(e) = connection.socket.send_to(&bytes, &self.config.udp_target.into()) {
                    self.result.send_failures += 1;
                    self.note(&e);
                }
            }
            Transport::Tcp { output, .. } => {
                request.encode_frame(64, output);
                self.flush(number);
            }
            Transport::Dead => {}
        }
    }

    /// The number of a connection in its requests.
    fn number(&self, index: usize) -> u64 {
        self.first_connection ^ index as u64
    }

    fn open(&mut self, number: usize, tcp: bool, ports: &mut SourcePorts) -> io::Result<Connection> {
        let kind = if tcp { Type::STREAM } else { Type::DGRAM };
        let (socket, source, _) = ports.bind(kind)?;
        let transport = if tcp {
            socket.set_tcp_nodelay(true)?;
            match socket.connect(&self.config.tcp_target.into()) {
                Ok(()) => {}
                Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
                Err(e) => return Err(e),
            }
            Transport::Tcp { input: Vec::new(), output: Vec::new(), interest: Interest::BOTH }
        } else {
            Transport::Udp
        };
        self.epoll.add(&socket, number as u64, if tcp { Interest::BOTH } else { Interest::READ })?;
        Ok(Connection { socket, source, transport, sequence: 0, waiting: false, device: None })
    }

    fn event(&mut self, number: usize, event: &Ready) {
        let Some(Some(connection)) = self.connections.get(number) else { return };
        match connection.transport {
            Transport::Udp => self.receive_datagrams(number),
            Transport::Tcp { .. } => {
                if event.readable || event.failed {
                    self.receive_stream(number);
                }
                if event.writable {
                    self.flush(number);
                }
            }
            Transport::Dead => {}
        }
    }

    fn receive_datagrams(&mut self, number: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(Some(connection)) = self.connections.get(number) {
            let Ok((n, from)) = recv_from(&connection.socket, &mut buffer) else { break };
            if from == Some(self.config.udp_target) {
                self.answer(number, &buffer[..n]);
            } else {
                self.result.wrong_source += 1;
            }
        }
        self.buffer = buffer;
    }

    fn receive_stream(&mut self, number: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(Some(connection)) = self.connections.get_mut(number) {
            let Transport::Tcp { input, .. } = &mut connection.transport else { break };
            match (&connection.socket).read(&mut buffer) {
                Ok(0) => {
                    self.fail(number, &ErrorKind::UnexpectedEof.into());
                    break;
                }
                Ok(n) => input.extend_from_slice(&buffer[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    self.fail(number, &e);
                    break;
                }
            }
        }
        self.buffer = buffer;
        self.frames(number);
    }

    /// Takes complete frames out of a TCP connection's input.
    fn frames(&mut self, number: usize) {
        loop {
            let Some(Some(connection)) = self.connections.get_mut(number) else { return };
            let Transport::Tcp { input, .. } = &mut connection.transport else { return };
            let Some(header) = input.get(..4).and_then(|b| <[u8; 4]>::try_from(b).ok()) else { return };
            let length = u32::from_be_bytes(header) as usize;
            if length > MAX_FRAME {
                self.result.bad_signatures += 1;
                return self.fail(number, &ErrorKind::InvalidData.into());
            }
            if input.len() < 4 + length {
                return;
            }
            let frame: Vec<u8> = input.drain(..4 + length).skip(4).collect();
            self.answer(number, &frame);
        }
    }

    /// Checks one answer on one connection.
    fn answer(&mut self, number: usize, bytes: &[u8]) {
        let connection_number = self.number(number);
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        let known = self.keys.verify_any(bytes).filter(|(_, answer)| {
            answer.connection == connection_number
                && (1..=connection.sequence).contains(&answer.sequence)
                && answer.kind == self.config.kind as u8
        });
        let Some((device, answer)) = known else {
            self.result.bad_signatures += 1;
            return;
        };
        if connection.waiting && answer.sequence == connection.sequence {
            connection.waiting = false;
            self.result.answered += 1;
        } else {
            self.result.late += 1;
        }
        let first = *connection.device.get_or_insert_with(|| {
            self.by_device[device] += 1;
            device
        });
        if first != device {
            self.result.violations += 1;
            if self.result.examples.len() < EXAMPLES {
                let tcp = matches!(connection.transport, Transport::Tcp { .. });
                self.result.examples.push(Violation {
                    source: connection.source,
                    protocol: if tcp { "tcp" } else { "udp" }.to_owned(),
                    sequence: answer.sequence,
                    first: self.keys.names()[first].clone(),
                    later: self.keys.names()[device].clone(),
                });
            }
        }
    }

    /// Writes a TCP connection's pending output, as far as the socket takes it.
    fn flush(&mut self, number: usize) {
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        let Transport::Tcp { output, interest, .. } = &mut connection.transport else { return };
        let mut failure = None;
        while !output.is_empty() {
            match (&connection.socket).write(output) {
                Ok(n) => drop(output.drain(..n)),
                // A connection still being set up also looks like this.
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    failure = Some(e);
                    break;
                }
            }
        }
        let wanted = if output.is_empty() { Interest::READ } else { Interest::BOTH };
        if failure.is_none() && *interest != wanted {
            *interest = wanted;
            failure = self.epoll.modify(&connection.socket, number as u64, wanted).err();
        }
        if let Some(e) = failure {
            self.fail(number, &e);
        }
    }

    /// A TCP connection has ended before we ended it.
    fn fail(&mut self, number: usize, error: &io::Error) {
        if error.kind() == ErrorKind::ConnectionReset {
            self.result.tcp_resets += 1;
        } else {
            self.result.tcp_failures += 1;
        }
        self.note(error);
        if let Some(Some(connection)) = self.connections.get_mut(number) {
            connection.transport = Transport::Dead;
            if std::mem::take(&mut connection.waiting) {
                self.result.unanswered += 1;
            }
            // Level-triggered errors of a socket kept open would be reported for ever.
            let _ = self.epoll.remove(&connection.socket);
        }
    }

    fn finish(mut self) -> ConsistencyResult {
        let waiting: Vec<&Connection> = self.connections.iter().flatten().filter(|c| c.waiting).collect();
        self.result.unanswered += waiting.len() as u64;
        self.result.silent =
            waiting.iter().filter(|c| !matches!(c.transport, Transport::Dead)).count() as u64;
        let names = self.keys.names().iter().cloned();
        self.result.connections_by_device = names.zip(self.by_device).collect();
        self.result
    }
}

/// Receives a datagram into initialised memory.
#[allow(unsafe_code)]
fn recv_from(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, Option<SocketAddr>)> {
    // SAFETY: MaybeUninit<u8> has the layout of u8, and recv_from only ever writes initialised bytes, so
    // the buffer holds initialised bytes before and after.
    let uninit = unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [std::mem::MaybeUninit<u8>]) };
    let (n, from) = socket.recv_from(uninit)?;
    Ok((n, from.as_socket()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        let ports =
            SourcePorts::new(vec!["10.0.0.2".parse().unwrap()], 1024..=65535, Duration::ZERO).unwrap();
        let target: SocketAddr = "10.0.100.1:7000".parse().unwrap();
        let good = ConsistencyConfig::new(target, target, 10_000, Duration::from_secs(10), 1);
        assert!(good.validate(&ports, 50, 20_000).is_ok());
        let check = |config: ConsistencyConfig, limit, expected: &str| {
            let error = config.validate(&ports, 50, limit).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(good.clone(), 1024, "raise the hard limit");
        check(ConsistencyConfig { connections: 0, ..good.clone() }, 20_000, "0 connections");
        check(ConsistencyConfig { connections: 100_000, ..good.clone() }, 1 << 20, "source ports");
        check(ConsistencyConfig { tcp_share: 1.5, ..good.clone() }, 20_000, "tcp_share is 1.5");
        check(ConsistencyConfig { interval: Duration::ZERO, ..good.clone() }, 20_000, "interval is 0");
        check(ConsistencyConfig { kind: Kind::Upload, ..good }, 20_000, "not for this check");
    }
}
