//! Flows between hosts: bytes over the kernel's TCP, and how long they take to arrive.
//!
//! One thread for each host sends and receives. A flow's time counts from the moment at which it should have started to that at which its
//! receiver has read its last byte. A flow that has not arrived at the end has no such time; it is not left out.

use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys::{self, Epoll, Interest, Timer};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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
    /// Its length; at least 1.
    pub bytes: u64,
    /// The ports of its sender and of its receiver. A host uses a port for one flow only.
    pub ports: (u16, u16),
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
        addresses: hosts.iter().map(|h| h.address).collect(),
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
    addresses: Vec<IpAddr>,
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

/// A flow of which this host is one end.
struct Connection {
    flow: usize,
    socket: Socket,
    role: Role,
}

enum Role {
    Sends {
        sent: u64,
    },
    /// The socket listens.
    Waits,
    Receives {
        received: u64,
        moved: Duration,
        stall: Duration,
    },
}

struct Host {
    own: usize,
    shared: Arc<Shared>,
    epoll: Epoll,
    timer: Timer,
    /// The next flow that it may have to start.
    next: usize,
    /// By token.
    connections: BTreeMap<u64, Connection>,
    /// The next token.
    token: u64,
    /// Its share of the flows' fates.
    done: BTreeMap<usize, FlowFate>,
}

/// Other tokens are connections.
const TIMER: u64 = u64::MAX;

impl Host {
    /// With a socket for each flow that it will receive.
    fn open(own: usize, shared: Arc<Shared>) -> io::Result<Self> {
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        epoll.add(&timer, TIMER, Interest::READ)?;
        let (connections, done) = (BTreeMap::new(), BTreeMap::new());
        let mut host = Host { own, shared, epoll, timer, next: 0, connections, token: 0, done };
        let plan = host.shared.plan.clone();
        for (flow, wanted) in plan.iter().enumerate().filter(|(_, f)| f.to == own) {
            let socket = host.socket(wanted.ports.1)?;
            socket.listen(1)?;
            host.add(Connection { flow, socket, role: Role::Waits })?;
        }
        Ok(host)
    }

    /// A socket of this host with this port.
    fn socket(&self, port: u16) -> io::Result<Socket> {
        let address = SocketAddr::new(self.shared.addresses[self.own], port);
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_congestion(self.shared.config.congestion.as_bytes())?;
        socket.bind(&address.into())?;
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
                    token => self.carry(token)?,
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
        let token = self.token;
        self.token += 1;
        self.epoll.add(&connection.socket, token, Interest::EDGES)?;
        self.connections.insert(token, connection);
        // It may be ready already: edges before it was added do not count.
        self.carry(token)
    }

    fn start(&mut self, flow: usize, late: Duration) -> io::Result<()> {
        let plan = self.shared.plan[flow];
        self.done.entry(flow).or_default().late = late > Duration::from_millis(5);
        let socket = self.socket(plan.ports.0)?;
        socket.set_tos_v4(u32::from(plan.dscp) << 2)?;
        let receiver = SocketAddr::new(self.shared.addresses[plan.to], plan.ports.1);
        match socket.connect(&receiver.into()) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => self.add(Connection { flow, socket, role: Role::Sends { sent: 0 } }),
        }
    }

    /// Accepts, writes or reads what is possible.
    fn carry(&mut self, token: u64) -> io::Result<()> {
        let Some(mut connection) = self.connections.remove(&token) else { return Ok(()) };
        let now = self.shared.now();
        let Connection { flow, socket, role } = &mut connection;
        let plan = self.shared.plan[*flow];
        let open = match role {
            Role::Waits => match socket.accept() {
                Ok((accepted, _)) => {
                    accepted.set_nonblocking(true)?;
                    let role = Role::Receives { received: 0, moved: plan.at, stall: Duration::ZERO };
                    return self.add(Connection { flow: *flow, socket: accepted, role });
                }
                Err(_) => true,
            },
            Role::Sends { sent } => send(socket, sent, plan.bytes),
            Role::Receives { received, moved, stall } => {
                let before = *received;
                let open = receive(socket, received);
                if *received > before {
                    *stall = now.saturating_sub(*moved).max(*stall);
                    *moved = now;
                }
                open && *received < plan.bytes
            }
        };
        if open {
            self.connections.insert(token, connection);
        } else {
            self.close(connection, now);
        }
        Ok(())
    }

    /// Takes over what a connection that has ended says of its flow.
    fn close(&mut self, Connection { flow, socket, role }: Connection, now: Duration) {
        match role {
            Role::Waits => {}
            Role::Sends { .. } => {
                // Without an answer of the kernel none are known.
                self.done.entry(flow).or_default().retransmitted += sys::sent_again(&socket).unwrap_or(0);
            }
            Role::Receives { received, moved, stall } => {
                let fate = self.done.entry(flow).or_default();
                let all = received >= self.shared.plan[flow].bytes;
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
fn send(mut socket: &Socket, sent: &mut u64, length: u64) -> bool {
    while *sent < length {
        let chunk = usize::try_from(length - *sent).unwrap_or(CHUNK).min(CHUNK);
        match socket.write(&ZEROES[..chunk]) {
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
fn receive(mut socket: &Socket, received: &mut u64) -> bool {
    let mut buffer = [0; CHUNK];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return false,
            Ok(n) => *received += n as u64,
            Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
        }
    }
}
