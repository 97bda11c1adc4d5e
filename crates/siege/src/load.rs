//! Connections through the service's address: lasting ones and short ones, over TCP and UDP, IPv4 and IPv6. Every
//! answer must be signed by a device for its request, and come from the connection's first device. A request without an
//! answer in time is lost.
//!
//! One thread per connection: they are few, so requests do not delay each other.

use crate::frames::EPHEMERAL;
use crate::rack::{CLIENT, PORT, Rack};
use pointsman_lab::wire::{Keyring, Kind, MAX_FRAME, Request, Verdict};
use pointsman_lab::{Error, Namespace, Result};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A request without an answer after this is lost.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// A TCP connection that has been silent for longer is given up and opened again.
const GIVE_UP: Duration = Duration::from_secs(10);

/// The kind of a request's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// A connection that was there before.
    Standing,
    /// A new connection.
    New,
    /// One of many on a connection that is there for its latency.
    Probe,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered by the device with this number.
    Answered(usize),
    /// Not in time.
    Silence,
    /// The connection was reset, refused or closed.
    Reset,
    /// An answer without a device's signature, for another request, or from another address.
    Forged,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The kind of its connection.
    pub life: Life,
    /// Over TCP.
    pub tcp: bool,
    /// Number of the thread that sent it.
    pub stream: u16,
    /// When it began, since the load's start.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
    /// Its outcome.
    pub outcome: Outcome,
    /// The first device of its connection, if that is known.
    pub first: Option<usize>,
}

/// How many threads of each kind, and how often each sends.
#[derive(Clone, Copy, Debug)]
pub struct Volume {
    /// Standing connections, for TCP and UDP, IPv4 and IPv6 each.
    pub standing: u16,
    /// The time between requests of one of them.
    pub standing_every: Duration,
    /// Threads that open new connections, for each kind.
    pub new: u16,
    /// The time between them.
    pub new_every: Duration,
    /// Connections whose latency is measured, over UDP and IPv4.
    pub probes: u16,
    /// The time between their requests.
    pub probe_every: Duration,
}

/// Some 300 requests a second.
pub const VOLUME: Volume = Volume {
    standing: 5,
    standing_every: Duration::from_millis(100),
    new: 2,
    new_every: Duration::from_millis(80),
    probes: 0,
    probe_every: Duration::from_millis(2),
};

/// A load that runs. It ends when it is dropped.
pub struct Load {
    start: Instant,
    stop: Arc<AtomicBool>,
    attempts: Arc<Mutex<Vec<Attempt>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts it in the client's namespace.
    pub fn start(rack: &Rack, volume: Volume) -> Result<Self> {
        let namespace = rack.wiring.host(CLIENT)?.namespace.clone();
        let spec = &rack.wiring.spec;
        let vips = [SocketAddr::new(spec.vip_ipv4.into(), PORT), SocketAddr::new(spec.vip_ipv6.into(), PORT)];
        let mut load = Self {
            start: Instant::now(),
            stop: Arc::default(),
            attempts: Arc::default(),
            threads: Vec::new(),
        };
        for vip in vips {
            for tcp in [true, false] {
                for _ in 0..volume.standing {
                    load.add(&namespace, &rack.keys, Life::Standing, tcp, vip, volume.standing_every)?;
                }
                for _ in 0..volume.new {
                    load.add(&namespace, &rack.keys, Life::New, tcp, vip, volume.new_every)?;
                }
            }
        }
        for _ in 0..volume.probes {
            load.add(&namespace, &rack.keys, Life::Probe, false, vips[0], volume.probe_every)?;
        }
        Ok(load)
    }

    fn add(
        &mut self,
        namespace: &Namespace,
        keys: &Keyring,
        life: Life,
        tcp: bool,
        target: SocketAddr,
        every: Duration,
    ) -> Result<()> {
        let stream = u16::try_from(self.threads.len()).map_err(|_| Error::new("too many connections"))?;
        let mut sender = Sender {
            life,
            tcp,
            target,
            keys: keys.clone(),
            stream,
            connection: None,
            number: next_connection(),
            first: None,
            sequence: 0,
            heard: Instant::now(),
        };
        let (start, stop, attempts) = (self.start, self.stop.clone(), self.attempts.clone());
        let run = move || {
            // Threads of one kind do not send at the same moment.
            let mut due = start + every.mul_f64(f64::from(stream % 16) / 16.0);
            while !stop.load(Relaxed) {
                if let Some(wait) = due.checked_duration_since(Instant::now()) {
                    std::thread::sleep(wait);
                }
                let at = start.elapsed();
                let outcome = sender.attempt();
                let (life, first) = (sender.life(), sender.first);
                let took = start.elapsed() - at;
                let attempt = Attempt { life, tcp, stream, at, took, outcome, first };
                attempts.lock().unwrap_or_else(PoisonError::into_inner).push(attempt);
                due = (due + every).max(Instant::now());
            }
        };
        self.threads.push(namespace.spawn("load", run)?);
        Ok(())
    }

    /// Time since its start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// When it started.
    pub fn origin(&self) -> Instant {
        self.start
    }

    /// The requests that have ended so far.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it and gives all requests.
    pub fn finish(mut self) -> Vec<Attempt> {
        self.end();
        self.attempts()
    }

    fn end(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has been reported where it did; its requests are missing.
            let _ = thread.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

/// A number that no other connection of this process has.
fn next_connection() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

enum Connection {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

struct Sender {
    life: Life,
    tcp: bool,
    target: SocketAddr,
    keys: Keyring,
    stream: u16,
    connection: Option<Connection>,
    number: u64,
    first: Option<usize>,
    sequence: u64,
    /// When a standing connection was answered last.
    heard: Instant,
}

impl Sender {
    /// The kind of the last request's connection: the first one of a connection that replaces another one belongs to a new
    /// connection.
    fn life(&self) -> Life {
        if self.sequence <= 1 { Life::New } else { self.life }
    }

    /// Sends one request and waits for its answer.
    fn attempt(&mut self) -> Outcome {
        let end = Instant::now() + PATIENCE;
        let outcome = match self.exchange(end) {
            Ok(outcome) => outcome,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Outcome::Silence,
            Err(_) => Outcome::Reset,
        };
        if let Outcome::Answered(_) = outcome {
            self.heard = Instant::now();
        }
        let given_up = self.tcp && self.heard.elapsed() > GIVE_UP;
        if self.life == Life::New || outcome == Outcome::Reset || given_up {
            self.connection = None;
        }
        outcome
    }

    fn exchange(&mut self, end: Instant) -> io::Result<Outcome> {
        if self.connection.is_none() {
            (self.number, self.sequence, self.first) = (next_connection(), 0, None);
            self.heard = Instant::now();
            self.connection = Some(open(self.target, self.tcp, self.number)?);
        }
        self.sequence += 1;
        let (connection, sequence) = (self.number, self.sequence);
        let request = Request { kind: Kind::Probe, connection, sequence, argument: u64::from(self.stream) };
        let Some(connection) = &mut self.connection else { return Ok(Outcome::Reset) };
        let mut bytes = Vec::new();
        match connection {
            Connection::Tcp(stream) => {
                request.encode_frame(64, &mut bytes);
                stream.write_all(&bytes)?;
            }
            Connection::Udp(socket) => {
                request.encode(64, &mut bytes);
                socket.send_to(&bytes, self.target).map(drop)?;
            }
        }
        loop {
            let (answer, from) = receive(connection, end)?;
            if from.is_some_and(|from| from != self.target) {
                return Ok(Outcome::Forged);
            }
            match self.keys.verify(&answer, &request) {
                Verdict::Good(device) => {
                    self.first.get_or_insert(device);
                    return Ok(Outcome::Answered(device));
                }
                // The answer to an earlier request, which was lost then.
                Verdict::OtherRequest if belongs(&self.keys, &answer, &request) => {}
                Verdict::OtherRequest | Verdict::Forged => return Ok(Outcome::Forged),
            }
        }
    }
}

/// Whether an answer is to an earlier request of the same connection.
fn belongs(keys: &Keyring, answer: &[u8], request: &Request) -> bool {
    let of = |(_, a): (usize, pointsman_lab::wire::Answer<'_>)| {
        a.connection == request.connection && a.sequence < request.sequence
    };
    keys.verify_any(answer).is_some_and(of)
}

/// Opens the connection with this number. A UDP connection gets a port that was not used recently: the switch still knows the
/// connections of recent ports, with their devices.
fn open(target: SocketAddr, tcp: bool, number: u64) -> io::Result<Connection> {
    if tcp {
        let stream = TcpStream::connect_timeout(&target, PATIENCE)?;
        stream.set_nodelay(true)?;
        return Ok(Connection::Tcp(stream));
    }
    let any: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let port = EPHEMERAL.start + number % (EPHEMERAL.end - EPHEMERAL.start);
    // Another program of the namespace may have it.
    UdpSocket::bind((any, port as u16)).or_else(|_| UdpSocket::bind((any, 0))).map(Connection::Udp)
}

/// One answer, and for UDP where it came from.
fn receive(connection: &mut Connection, end: Instant) -> io::Result<(Vec<u8>, Option<SocketAddr>)> {
    match connection {
        Connection::Udp(socket) => {
            let mut bytes = vec![0; MAX_FRAME];
            socket.set_read_timeout(Some(left(end)?))?;
            let (length, from) = socket.recv_from(&mut bytes)?;
            bytes.truncate(length);
            Ok((bytes, Some(from)))
        }
        Connection::Tcp(stream) => {
            let mut header = [0; 4];
            fill(stream, &mut header, end)?;
            let length = u32::from_be_bytes(header) as usize;
            if length > MAX_FRAME {
                return Err(ErrorKind::InvalidData.into());
            }
            let mut bytes = vec![0; length];
            fill(stream, &mut bytes, end)?;
            Ok((bytes, None))
        }
    }
}

fn left(end: Instant) -> io::Result<Duration> {
    end.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()).ok_or(ErrorKind::TimedOut.into())
}

/// Reads exactly this much. Answers are written in one piece, so a time-out in the middle of one does not happen in practice;
/// the rest of the stream would be [`Outcome::Forged`].
fn fill(stream: &mut TcpStream, mut bytes: &mut [u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(bytes)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => bytes = &mut bytes[n..],
        }
    }
    Ok(())
}
