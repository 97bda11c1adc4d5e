//! Requests between all pairs of hosts: UDP datagrams with a number, which come back unchanged.
//!
//! One thread for each host is client and server at once. Latency counts from the time at which a request should have left, and a
//! request without an answer is lost.

use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys::{Epoll, Interest, Timer, receive_with_ttl, want_ttl};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Port of every host's server.
const SERVICE: u16 = 7;
/// First source port of the flows.
const FIRST_PORT: u16 = 1024;
/// Bytes of a request that hold its number and that of its host.
const HEAD: usize = 12;
/// Time to live with which all datagrams leave.
const FIRST_TTL: u8 = 64;
/// Datagrams of a socket that are read in a row.
const AT_ONCE: usize = 64;

/// A host.
#[derive(Clone, Debug)]
pub struct MeshHost {
    /// Where its sockets live.
    pub namespace: Namespace,
    /// Its address.
    pub address: IpAddr,
    /// When its requests leave, from the start, in order. Their destinations are all other hosts in turn.
    pub departures: Vec<Duration>,
}

/// All of it.
#[derive(Clone, Copy, Debug)]
pub struct MeshConfig {
    /// Source ports that a host uses with each destination, in turn.
    pub flows: u16,
    /// Payload bytes of a request, and of its answer.
    pub payload: usize,
    /// A request without an answer for this long is lost.
    pub timeout: Duration,
}

/// What one host, or all of them, saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeshResult {
    /// Requests.
    pub sent: u64,
    /// Answered in time.
    pub answered: u64,
    /// Answers that came again, or to requests that were never sent, or damaged, or from the wrong host.
    pub wrong: u64,
    /// Requests that a server answered.
    pub served: u64,
    /// Latency of the answers, in nanoseconds, in the order in which they came.
    pub latencies_ns: Vec<u64>,
    /// Requests that left more than 5 ms late: the machine was busy.
    pub late: u64,
    /// Datagrams that arrived, by the number of routers that they had passed.
    pub routers: BTreeMap<u8, u64>,
}

impl MeshResult {
    fn add(&mut self, o: MeshResult) {
        self.sent += o.sent;
        self.answered += o.answered;
        self.wrong += o.wrong;
        self.served += o.served;
        self.late += o.late;
        self.latencies_ns.extend(o.latencies_ns);
        for (routers, n) in o.routers {
            *self.routers.entry(routers).or_default() += n;
        }
    }
}

/// Runs all hosts to the end, from `start` on, by which every host is ready.
///
/// # Errors
/// A socket cannot be opened, or the kernel refuses to wait.
pub fn mesh(hosts: &[MeshHost], config: MeshConfig, start: Instant) -> Result<MeshResult> {
    if config.payload < HEAD || usize::from(config.flows) > usize::from(u16::MAX - FIRST_PORT) {
        return Err(Error::new(format!("mesh: at least {HEAD} bytes of payload, and at most 64,000 flows")));
    }
    let addresses: Vec<IpAddr> = hosts.iter().map(|h| h.address).collect();
    // All sockets exist before the first request leaves.
    let mut all = Vec::new();
    for (i, host) in hosts.iter().enumerate() {
        let (addresses, departures) = (addresses.clone(), host.departures.clone());
        let open = || Peer::open(i, addresses, departures, config);
        all.push(host.namespace.enter(open)?.map_err(|e| Error::os(format!("host {}", host.address), e))?);
    }
    let last = hosts.iter().filter_map(|h| h.departures.last()).max().copied().unwrap_or_default();
    let end = start + last + config.timeout;
    let running: Vec<_> = all
        .into_iter()
        .zip(hosts)
        .map(|(mut peer, host)| {
            host.namespace.spawn("mesh", move || peer.run(start, end).map(|()| peer.result))
        })
        .collect::<Result<_>>()?;
    let mut sum = MeshResult::default();
    for thread in running {
        let result = thread.join().map_err(|_| Error::new("mesh: a host panicked"))?;
        sum.add(result.map_err(|e| Error::os("mesh: waiting for packets", e))?);
    }
    Ok(sum)
}

/// A request that was sent.
struct Request {
    due: Duration,
    to: usize,
    flow: usize,
    answered: bool,
}

struct Peer {
    own: usize,
    addresses: Vec<IpAddr>,
    departures: Vec<Duration>,
    config: MeshConfig,
    epoll: Epoll,
    timer: Timer,
    server: UdpSocket,
    flows: Vec<UdpSocket>,
    requests: Vec<Request>,
    result: MeshResult,
}

/// Tokens below are flows.
const TIMER: u64 = u64::MAX;
const SERVER: u64 = u64::MAX - 1;

impl Peer {
    fn open(
        own: usize,
        addresses: Vec<IpAddr>,
        departures: Vec<Duration>,
        config: MeshConfig,
    ) -> io::Result<Peer> {
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        let bind = |port: u16| {
            let socket = UdpSocket::bind((addresses[own], port))?;
            socket.set_nonblocking(true)?;
            socket.set_ttl(FIRST_TTL.into())?;
            want_ttl(&socket)?;
            Ok::<_, io::Error>(socket)
        };
        let server = bind(SERVICE)?;
        epoll.add(&server, SERVER, Interest::READ)?;
        epoll.add(&timer, TIMER, Interest::READ)?;
        let mut flows = Vec::new();
        for flow in 0..config.flows {
            let socket = bind(FIRST_PORT + flow)?;
            epoll.add(&socket, flow.into(), Interest::READ)?;
            flows.push(socket);
        }
        let (requests, result) = (Vec::new(), MeshResult::default());
        Ok(Peer { own, addresses, departures, config, epoll, timer, server, flows, requests, result })
    }

    fn run(&mut self, start: Instant, end: Instant) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            let since = now.saturating_duration_since(start);
            while let Some(due) =
                self.departures.get(self.requests.len()).copied().filter(|due| *due <= since && now >= start)
            {
                self.send(due, since);
            }
            let next = self.departures.get(self.requests.len()).map_or(end, |due| start + *due);
            self.timer
                .arm(next.min(end).saturating_duration_since(Instant::now()).max(Duration::from_micros(1)))?;
            self.epoll.wait(&mut ready, None)?;
            for event in ready.drain(..) {
                match event.token {
                    TIMER => self.timer.clear(),
                    SERVER => self.serve(),
                    flow => self.answers(flow as usize, start),
                }
            }
        }
    }

    /// Sends the next request. One that the kernel refuses is lost like any other.
    fn send(&mut self, due: Duration, now: Duration) {
        let number = self.requests.len();
        let others = self.addresses.len() - 1;
        let to = (self.own + 1 + number % others) % self.addresses.len();
        let flow = number / others % self.flows.len();
        let mut payload = vec![0x5a; self.config.payload];
        payload[..8].copy_from_slice(&(number as u64).to_be_bytes());
        payload[8..HEAD].copy_from_slice(&(self.own as u32).to_be_bytes());
        let _ = self.flows[flow].send_to(&payload, (self.addresses[to], SERVICE));
        self.requests.push(Request { due, to, flow, answered: false });
        self.result.sent += 1;
        self.result.late += u64::from(now.saturating_sub(due) > Duration::from_millis(5));
    }

    /// Sends requests back to where they came from.
    fn serve(&mut self) {
        let mut buffer = [0; 2048];
        for _ in 0..AT_ONCE {
            let Ok((len, from, ttl)) = receive_with_ttl(&self.server, &mut buffer) else { return };
            self.passed(ttl);
            let _ = self.server.send_to(&buffer[..len], from);
            self.result.served += 1;
        }
    }

    /// A datagram has arrived with this time to live.
    fn passed(&mut self, ttl: Option<u8>) {
        let routers = FIRST_TTL.saturating_sub(ttl.unwrap_or(FIRST_TTL));
        *self.result.routers.entry(routers).or_default() += 1;
    }

    /// Takes the answers of a flow.
    fn answers(&mut self, flow: usize, start: Instant) {
        let mut buffer = [0; 2048];
        for _ in 0..AT_ONCE {
            let Ok((len, from, ttl)) = receive_with_ttl(&self.flows[flow], &mut buffer) else { return };
            self.passed(ttl);
            let since = Instant::now().saturating_duration_since(start);
            if self.answered(flow, from, &buffer[..len], since).is_none() {
                self.result.wrong += 1;
            }
        }
    }

    /// `None`: it is not the first answer to a request of this flow, from the host that it was sent to.
    fn answered(&mut self, flow: usize, from: SocketAddr, bytes: &[u8], since: Duration) -> Option<()> {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let (host, rest) = rest.split_first_chunk::<4>()?;
        let request = self.requests.get_mut(usize::try_from(u64::from_be_bytes(*number)).ok()?)?;
        let right = u32::from_be_bytes(*host) as usize == self.own
            && bytes.len() == self.config.payload
            && rest.iter().all(|b| *b == 0x5a)
            && (from.ip(), from.port()) == (self.addresses[request.to], SERVICE)
            && request.flow == flow
            && !request.answered;
        if !right {
            return None;
        }
        request.answered = true;
        let latency = since.saturating_sub(request.due);
        if latency <= self.config.timeout {
            self.result.answered += 1;
            self.result.latencies_ns.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        }
        Some(())
    }
}
