//! Runs an agent's health checks, with a thread per probed target.

use super::grpc_health;
use pointsman_balance::agent::{AgentConfig, Probe};
use pointsman_balance::config::ProbeKind;
use pointsman_ports::Waker;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Maximum prefix of an HTTP answer to read, in bytes.
const MAX_STATUS: usize = 1024;

/// Why a probe failed.
#[derive(Debug)]
pub enum ProbeError {
    /// No answer in time.
    Late,
    /// Nothing listens there.
    Refused,
    /// Another error of the connection.
    Io(io::Error),
    /// An HTTP status that is not a success, for this path.
    Status(u16, String),
    /// An answer that is not HTTP, for this path.
    NotHttp(String),
    /// No answer of gRPC's health service, or another one than `SERVING`.
    Grpc(String),
}

impl From<io::Error> for ProbeError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ProbeError::Late,
            io::ErrorKind::ConnectionRefused => ProbeError::Refused,
            _ => ProbeError::Io(e),
        }
    }
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::Late => f.write_str("no answer in time"),
            ProbeError::Refused => f.write_str("connection refused"),
            ProbeError::Io(e) => e.fmt(f),
            ProbeError::Status(status, path) => write!(f, "HTTP status {status} for {path}"),
            ProbeError::Grpc(why) => write!(f, "gRPC: {why}"),
            ProbeError::NotHttp(path) => write!(f, "no HTTP answer for {path}"),
        }
    }
}

/// Result of a probe: device, target, and the error if it failed.
pub type Verdict = (usize, usize, Result<(), ProbeError>);

/// The threads that probe.
pub struct Probers {
    /// By device and target.
    orders: Vec<Vec<Sender<Probe>>>,
    /// Results of probes.
    pub verdicts: Receiver<Verdict>,
}

impl Probers {
    /// Starts them, in the network namespace of the calling thread. They end with this value.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(config: &AgentConfig, waker: &Waker) -> io::Result<Self> {
        let (tx, verdicts) = channel();
        let mut orders = Vec::new();
        let checks = std::iter::once(&config.checks).chain(config.others.iter().map(|o| &o.checks));
        for (device, targets) in checks.enumerate() {
            let mut of_device = Vec::new();
            for target in 0..targets.len() {
                let (order, probes) = channel::<Probe>();
                let (tx, waker) = (tx.clone(), waker.clone());
                let run = move || {
                    for probe in probes {
                        if tx.send((device, target, perform(&probe))).is_err() {
                            return;
                        }
                        // The agent picks up verdicts no later than its next heartbeat.
                        let _ = waker.wake();
                    }
                };
                std::thread::Builder::new().name(format!("probe {device}.{target}")).spawn(run)?;
                of_device.push(order);
            }
            orders.push(of_device);
        }
        Ok(Probers { orders, verdicts })
    }

    /// Has a place probed.
    pub fn order(&self, device: usize, target: usize, probe: Probe) {
        if let Some(order) = self.orders.get(device).and_then(|d| d.get(target)) {
            // The thread lives as long as this value.
            let _ = order.send(probe);
        }
    }
}

/// Probes, within the given time.
fn perform(probe: &Probe) -> Result<(), ProbeError> {
    let end = Instant::now() + probe.timeout;
    match &probe.kind {
        ProbeKind::Tcp => connect(probe.to, end).map(drop),
        ProbeKind::Http { path } => http(probe.to, path, end),
        ProbeKind::Grpc { service } => grpc_health::check(probe.to, service, left(end)),
        ProbeKind::Udp { send } => udp(probe.to, send, end),
    }
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn connect(to: SocketAddr, end: Instant) -> Result<TcpStream, ProbeError> {
    Ok(TcpStream::connect_timeout(&to, left(end))?)
}

/// HTTP 1.0, so that the server closes the connection.
fn http(to: SocketAddr, path: &str, end: Instant) -> Result<(), ProbeError> {
    let mut stream = connect(to, end)?;
    stream.set_write_timeout(Some(left(end)))?;
    let question = format!("GET {path} HTTP/1.0\r\nHost: {to}\r\nUser-Agent: pointsman\r\n\r\n");
    stream.write_all(question.as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; MAX_STATUS];
    while !answer.contains(&b'\n') && answer.len() < MAX_STATUS {
        if Instant::now() >= end {
            return Err(ProbeError::Late);
        }
        stream.set_read_timeout(Some(left(end)))?;
        match stream.read(&mut part)? {
            0 => break,
            n => answer.extend_from_slice(&part[..n]),
        }
    }
    let line = String::from_utf8_lossy(answer.split(|b| *b == b'\n').next().unwrap_or_default());
    let mut words = line.split_whitespace();
    let version = words.next().unwrap_or_default();
    let status = words.next().and_then(|w| w.parse::<u16>().ok()).filter(|_| version.starts_with("HTTP/"));
    match status {
        Some(200..=399) => Ok(()),
        Some(status) => Err(ProbeError::Status(status, path.to_string())),
        None => Err(ProbeError::NotHttp(path.to_string())),
    }
}

/// A closed port answers by ICMP, which the next call reports.
fn udp(to: SocketAddr, send: &str, end: Instant) -> Result<(), ProbeError> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    socket.send(send.as_bytes())?;
    socket.set_read_timeout(Some(left(end)))?;
    socket.recv(&mut [0; 1])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn probe(kind: ProbeKind, to: SocketAddr) -> Result<(), String> {
        perform(&Probe { kind, to, timeout: Duration::from_secs(5) }).map_err(|e| e.to_string())
    }

    fn closed() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address")
    }

    #[test]
    fn tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        assert_eq!(probe(ProbeKind::Tcp, listener.local_addr().expect("an address")), Ok(()));
        assert_eq!(probe(ProbeKind::Tcp, closed()), Err("connection refused".into()));
    }

    #[test]
    fn http_status() {
        let ask = |answer: &'static str| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let to = listener.local_addr().expect("an address");
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut question = [0; 1024];
                let n = stream.read(&mut question).expect("a question");
                assert!(question[..n].starts_with(b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1:"));
                stream.write_all(answer.as_bytes()).expect("an answer");
            });
            probe(ProbeKind::Http { path: "/healthz".into() }, to)
        };
        assert_eq!(ask("HTTP/1.1 204 No Content\r\n\r\n"), Ok(()));
        assert_eq!(ask("HTTP/1.0 503 Busy\r\n\r\n"), Err("HTTP status 503 for /healthz".into()));
        assert_eq!(ask("SSH-2.0-x\r\n"), Err("no HTTP answer for /healthz".into()));
        assert_eq!(ask(""), Err("no HTTP answer for /healthz".into()));
    }

    #[test]
    fn datagrams() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = server.local_addr().expect("an address");
        let kind = ProbeKind::Udp { send: "ping".into() };
        std::thread::spawn(move || {
            let mut question = [0; 16];
            let (n, from) = server.recv_from(&mut question).expect("a datagram");
            assert_eq!(&question[..n], b"ping");
            server.send_to(b"pong", from).expect("sent");
        });
        assert_eq!(probe(kind.clone(), to), Ok(()));
        let closed = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        assert_eq!(probe(kind.clone(), closed), Err("connection refused".into()));
        let mute = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = mute.local_addr().expect("an address");
        let timeout = Duration::from_millis(20);
        assert!(matches!(perform(&Probe { kind, to, timeout }), Err(ProbeError::Late)));
    }
}
