//! Flows between hosts: bytes over the kernel's TCP, and how long they take to arrive.
//!
//! One thread for each host sends and receives. A flow's time counts from the moment at which it should have started to that at which its
//! receiver has read its last byte. A flow that has not arrived at the end has no such time; it is not left out.

use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys::{self, Epoll, Interest, Timer};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Port of every host's receiver.
const SERVICE: u16 = 9;
/// The first bytes of a flow are its number. Shorter flows have so many bytes.
const HEAD: usize = 4;
/// Bytes that are written or read at once.
const CHUNK: usize = 64 << 10;
static ZEROES: [u8; CHUNK] = [0; CHUNK];
/// How often a host that has nothing to do looks whether all others are done.
const LOOK: Duration = Duration::from_millis(20);

/// A host.
#[derive(Clone, Debug)]
pub struct FlowHost {
    /// Where its sockets live.
    pub namespace: Namespace,
    /// Its address.
    pub address: IpAddr,
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// When it starts, since the beginning.
    pub at: Duration,
    /// The host that sends it, by number.
    pub from: usize,
    /// The host that receives it, by number.
    pub to: usize,
    /// Its length; at least 4.
    pub bytes: u64,
    /// DSCP of its data.
    pub dscp: u8,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct FlowsConfig {
    /// The kernel's name of the congestion control: `cubic`, `reno`.
    pub congestion: String,
    /// When the run ends, since the beginning, if not all flows have arrived before.
    pub end: Duration,
}

/// The fate of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowFate {
    /// When its last byte was read, since the beginning.
    pub ended: Option<Duration>,
    /// The longest time without a byte, from the flow's start to its end or that of the run.
    pub stall: Duration,
    /// Segments that its sender sent again.
    pub retransmitted: u32,
    /// It started more than 5 ms late: the machine was busy.
    pub late: bool,
}

/// Runs all flows, which are in the order of their starts, from `start` on, by which every host is ready. The fates are in the same order.
///
/// # Errors
/// A socket cannot be opened, or the kernel refuses to wait.
pub fn flows(
    hosts: &[FlowHost],
    plan: &[FlowPlan],
    config: &FlowsConfig,
    start: Instant,
) -> Result<Vec<FlowFate>> {
    let shared = Arc::new(Shared {
        addresses: hosts.iter().map(|h| SocketAddr::new(h.address, SERVICE)).collect(),
        plan: plan.into(),
        config: config.clone(),
        start,
        arrived: AtomicUsize::new(0),
    });
    let mut all = Vec::new();
    for (own, host) in hosts.iter().enumerate() {
        let open = || Host::open(own, shared.clone());
        all.push(host.namespace.enter(open)?.map_err(|e| Error::os(format!("host {}", host.address), e))?);
    }
    let running: Vec<_> = all
        .into_iter()
        .zip(hosts)
        .map(|(mut running, host)| {
            host.namespace.spawn("flows", move || running.run().map(|()| running.done))
        })
        .collect::<Result<_>>()?;
    let mut fates = vec![FlowFate::default(); plan.len()];
    for thread in running {
        let done = thread.join().map_err(|_| Error::new("flows: a host panicked"))?;
        for (flow, part) in done.map_err(|e| Error::os("flows: waiting for packets", e))? {
            let fate = &mut fates[flow];
            fate.ended = part.ended.or(fate.ended);
            fate.stall = part.stall.max(fate.stall);
            fate.retransmitted += part.retransmitted;
            fate.late |= part.late;
        }
    }
    for (fate, flow) in fates.iter_mut().zip(plan) {
        if fate.ended.is_none() && fate.stall.is_zero() {
            // No byte has reached its receiver.
            fate.stall = config.end.saturating_sub(flow.at);
        }
    }
    Ok(fates)
}

struct Shared {
    addresses: Vec<SocketAddr>,
    plan: Arc<[FlowPlan]>,
    config: FlowsConfig,
    start: Instant,
    /// Flows that have arrived.
    arrived: AtomicUsize,
}

impl Shared {
    fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }

    fn is_over(&self) -> bool {
        self.arrived.load(Ordering::Relaxed) == self.plan.len() || self.now() >= self.config.end
    }
}

/// A connection of which this host is one end.
enum Connection {
    Sends { socket: Socket, flow: usize, sent: u64 },
    Receives { socket: Socket, head: Vec<u8>, received: u64, moved: Duration, stall: Duration },
}

struct Host {
    own: usize,
    shared: Arc<Shared>,
    epoll: Epoll,
    timer: Timer,
    receiver: Socket,
    /// The next flow that it may have to start.
    next: usize,
    /// By token.
    connections: BTreeMap<u64, Connection>,
    tokens: u64,
    /// Its share of the flows' fates.
    done: BTreeMap<usize, FlowFate>,
}

/// Tokens below are connections.
const TIMER: u64 = u64::MAX;
const RECEIVER: u64 = u64::MAX - 1;

impl Host {
    fn open(own: usize, shared: Arc<Shared>) -> io::Result<Self> {
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        let receiver = Self::socket(&shared, own)?;
        receiver.set_reuse_address(true)?;
        receiver.bind(&SockAddr::from(shared.addresses[own]))?;
        receiver.listen(4096)?;
        epoll.add(&receiver, RECEIVER, Interest::READ)?;
        epoll.add(&timer, TIMER, Interest::READ)?;
        let (connections, done) = (BTreeMap::new(), BTreeMap::new());
        Ok(Host { own, shared, epoll, timer, receiver, next: 0, connections, tokens: 0, done })
    }

    fn socket(shared: &Shared, own: usize) -> io::Result<Socket> {
        let domain = Domain::for_address(shared.addresses[own]);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_congestion(shared.config.congestion.as_bytes())?;
        Ok(socket)
    }

    fn run(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        while !self.shared.is_over() {
            let now = self.shared.now();
            while let Some(due) = self.due().filter(|due| *due <= now && Instant::now() >= self.shared.start)
            {
                self.start(self.next, now.saturating_sub(due))?;
                self.next += 1;
            }
            let until = self.due().map_or(LOOK, |due| due.saturating_sub(self.shared.now()).min(LOOK));
            self.timer.arm(until.max(Duration::from_micros(1)))?;
            self.epoll.wait(&mut ready, None)?;
            for event in ready.drain(..) {
                match event.token {
                    TIMER => self.timer.clear(),
                    RECEIVER => self.accept()?,
                    token => self.carry(token),
                }
            }
        }
        let end = self.shared.now();
        for connection in std::mem::take(&mut self.connections).into_values() {
            self.close(connection, end);
        }
        Ok(())
    }

    /// When the next flow of this host starts; those of other hosts are passed over.
    fn due(&mut self) -> Option<Duration> {
        let rest = self.shared.plan.get(self.next..)?;
        self.next += rest.iter().take_while(|f| f.from != self.own).count();
        self.shared.plan.get(self.next).map(|f| f.at)
    }

    fn add(&mut self, connection: Connection) -> io::Result<()> {
        let (Connection::Sends { socket, .. } | Connection::Receives { socket, .. }) = &connection;
        self.epoll.add(socket, self.tokens, Interest::EDGES)?;
        self.connections.insert(self.tokens, connection);
        // It may be ready already: edges before it was added do not count.
        self.carry(self.tokens);
        self.tokens += 1;
        Ok(())
    }

    fn start(&mut self, flow: usize, late: Duration) -> io::Result<()> {
        let plan = self.shared.plan[flow];
        self.done.entry(flow).or_default().late = late > Duration::from_millis(5);
        let socket = Self::socket(&self.shared, self.own)?;
        socket.set_tos_v4(u32::from(plan.dscp) << 2)?;
        match socket.connect(&SockAddr::from(self.shared.addresses[plan.to])) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => self.add(Connection::Sends { socket, flow, sent: 0 }),
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok((socket, _)) = self.receiver.accept() {
            socket.set_nonblocking(true)?;
            let (moved, stall) = (Duration::ZERO, Duration::ZERO);
            self.add(Connection::Receives { socket, head: Vec::new(), received: 0, moved, stall })?;
        }
        Ok(())
    }

    /// Writes or reads what is possible.
    fn carry(&mut self, token: u64) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        let now = self.shared.now();
        let open = match &mut connection {
            Connection::Sends { socket, flow, sent } => {
                let length = self.shared.plan[*flow].bytes.max(HEAD as u64);
                send(socket, *flow, sent, length)
            }
            Connection::Receives { socket, head, received, moved, stall } => {
                let open = receive(socket, head, received);
                let flow = number(head, &self.shared.plan);
                if let Some(plan) = flow.map(|f| self.shared.plan[f]) {
                    *stall = now.saturating_sub((*moved).max(plan.at)).max(*stall);
                    *moved = now;
                    open && *received < plan.bytes.max(HEAD as u64)
                } else {
                    open
                }
            }
        };
        if open {
            self.connections.insert(token, connection);
        } else {
            self.close(connection, now);
        }
    }

    /// Takes over what a connection that has ended says of its flow.
    fn close(&mut self, connection: Connection, now: Duration) {
        match connection {
            Connection::Sends { socket, flow, .. } => {
                // Without an answer of the kernel none are known.
                self.done.entry(flow).or_default().retransmitted += sys::sent_again(&socket).unwrap_or(0);
            }
            Connection::Receives { head, received, moved, stall, .. } => {
                let Some(flow) = number(&head, &self.shared.plan) else { return };
                let fate = self.done.entry(flow).or_default();
                let all = received >= self.shared.plan[flow].bytes.max(HEAD as u64);
                fate.stall = if all { stall } else { stall.max(now.saturating_sub(moved)) };
                if all && fate.ended.is_none() {
                    fate.ended = Some(moved);
                    self.shared.arrived.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Sends on; whether the connection is still needed. After its last byte a sender waits for the receiver to close.
fn send(mut socket: &Socket, flow: usize, sent: &mut u64, length: u64) -> bool {
    while *sent < length {
        let head = (flow as u32).to_be_bytes();
        let bytes: &[u8] = match usize::try_from(*sent) {
            Ok(at) if at < HEAD => &head[at..],
            _ => &ZEROES[..usize::try_from(length - *sent).unwrap_or(CHUNK).min(CHUNK)],
        };
        match socket.write(bytes) {
            Ok(n) => *sent += n as u64,
            Err(e) => return matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected),
        }
    }
    match socket.read(&mut [0; 16]) {
        Ok(n) => n > 0,
        Err(e) => e.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Receives what has come; whether more is to come.
fn receive(mut socket: &Socket, head: &mut Vec<u8>, received: &mut u64) -> bool {
    let mut buffer = [0; CHUNK];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return false,
            Ok(n) => {
                head.extend(buffer[..n].iter().take(HEAD - head.len()));
                *received += n as u64;
            }
            Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// The flow that a connection's first bytes name.
fn number(head: &[u8], plan: &[FlowPlan]) -> Option<usize> {
    let flow = u32::from_be_bytes(head.try_into().ok()?) as usize;
    (flow < plan.len()).then_some(flow)
}
