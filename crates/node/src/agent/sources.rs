//! Queries an agent's sources, each in its own thread, so that one without an answer does not delay the others.

use super::error::AgentError;
use super::nvml::Nvml;
use pointsman_balance::agent::AgentConfig;
use pointsman_balance::agent::source::{Answer, SourceKind, SourceSettings};
use pointsman_ports::Waker;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use std::{fmt, io};

/// The longest answer that is read.
const MAX_ANSWER: u64 = 4 << 20;
/// Timeout of a source.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// How often a waiting thread checks whether to stop.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// A source's reply.
pub enum Reply {
    Bytes(Vec<u8>),
    Values(Vec<(&'static str, f64)>),
    Failed(String),
}

impl Reply {
    /// Gives it to the agent.
    pub fn with<T>(&self, give: impl FnOnce(Answer<'_>) -> T) -> T {
        match self {
            Reply::Bytes(bytes) => give(Answer::Bytes(bytes)),
            Reply::Values(values) => give(Answer::Values(values)),
            Reply::Failed(why) => give(Answer::Failed(why)),
        }
    }
}

/// Why a source does not answer.
#[derive(Debug)]
enum AskError {
    /// The name has no address.
    NoAddress,
    /// The server is unreachable, or the connection ended.
    Io(io::Error),
    /// The answer is too long.
    TooLong,
    /// The answer is not complete in time.
    Incomplete,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoAddress => f.write_str("no address"),
            AskError::Io(e) => e.fmt(f),
            AskError::TooLong => write!(f, "the answer is longer than {} MiB", MAX_ANSWER >> 20),
            AskError::Incomplete => write!(f, "incomplete answer after {} s", PATIENCE.as_secs()),
        }
    }
}

impl Error for AskError {}

impl From<io::Error> for AskError {
    fn from(e: io::Error) -> Self {
        AskError::Io(e)
    }
}

/// Sends a request and reads to the end. An unreachable server counts as no answer.
fn ask(address: &str, question: &[u8]) -> Result<Vec<u8>, AskError> {
    let start = Instant::now();
    let left = || PATIENCE.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
    let mut failed = AskError::NoAddress;
    for to in address.to_socket_addrs()? {
        let mut stream = match TcpStream::connect_timeout(&to, left()) {
            Ok(stream) => stream,
            Err(e) => {
                failed = e.into();
                continue;
            }
        };
        stream.set_write_timeout(Some(left()))?;
        stream.write_all(question)?;
        let mut answer = Vec::new();
        let mut part = [0; 16_384];
        loop {
            stream.set_read_timeout(Some(left()))?;
            match stream.read(&mut part)? {
                0 => return Ok(answer),
                n => answer.extend_from_slice(&part[..n]),
            }
            if answer.len() as u64 > MAX_ANSWER {
                return Err(AskError::TooLong);
            }
            if start.elapsed() > PATIENCE {
                return Err(AskError::Incomplete);
            }
        }
    }
    Err(failed)
}

/// HTTP 1.0: no connection that stays, no chunks.
fn get(url: &str) -> Result<Vec<u8>, AskError> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let has_port = host.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
    let address = if has_port { host.to_string() } else { format!("{host}:80") };
    let question = format!(
        "GET /{path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: pointsman\r\nAccept: text/plain\r\n\
         endpoint-load-metrics-format: TEXT\r\n\r\n"
    );
    ask(&address, question.as_bytes())
}

fn reply(source: &SourceSettings, library: Option<&Nvml>) -> Reply {
    let bytes = match &source.kind {
        SourceKind::Prometheus(url) | SourceKind::Orca(url) => get(url),
        SourceKind::Haproxy(address) => ask(address, b""),
        SourceKind::OrcaStream(_) => return Reply::Failed("its reports are pushed".into()),
        SourceKind::Nvml(gpu) => {
            return match library.map(|nvml| nvml.values(Instant::now(), gpu, &source.gpu_values())) {
                Some(Ok(values)) => Reply::Values(values),
                Some(Err(e)) => Reply::Failed(e.to_string()),
                None => Reply::Failed("NVIDIA's management library is not available".into()),
            };
        }
    };
    bytes.map_or_else(|e| Reply::Failed(e.to_string()), Reply::Bytes)
}

/// Starts the queries. A configured library must be present; everything else may appear later.
pub fn start(
    config: &AgentConfig,
    stop: &Arc<AtomicBool>,
    waker: &Waker,
) -> Result<Receiver<(usize, usize, Reply)>, AgentError> {
    let (tx, rx): (Sender<(usize, usize, Reply)>, _) = channel();
    let settings = std::iter::once(&config.settings).chain(config.others.iter().map(|o| &o.settings));
    let sources: Vec<_> = settings
        .enumerate()
        .flat_map(|(device, s)| {
            s.sources.iter().enumerate().map(move |(i, source)| (device, i, source.clone()))
        })
        .collect();
    let wants_nvml = sources.iter().any(|(_, _, s)| matches!(s.kind, SourceKind::Nvml(_)));
    let library = if wants_nvml {
        let library = Nvml::load(Instant::now()).map_err(|e| AgentError::Library(config.name.clone(), e))?;
        Some(Arc::new(library))
    } else {
        None
    };
    for (device, index, source) in sources {
        let (tx, stop, waker, library) = (tx.clone(), stop.clone(), waker.clone(), library.clone());
        let run = move || {
            if let SourceKind::OrcaStream(url) = &source.kind {
                let interval = Duration::from_millis(u64::from(source.interval_ms));
                super::orca::follow(url, interval, &stop, |reply| {
                    let heard = tx.send((device, index, reply)).is_ok();
                    let _ = waker.wake();
                    heard
                });
                return;
            }
            while !stop.load(Ordering::Relaxed) {
                let next = Instant::now() + Duration::from_millis(u64::from(source.interval_ms));
                if tx.send((device, index, reply(&source, library.as_deref()))).is_err() {
                    return;
                }
                // The agent picks up replies no later than its next heartbeat.
                let _ = waker.wake();
                while !stop.load(Ordering::Relaxed)
                    && let Some(left) = next.checked_duration_since(Instant::now())
                {
                    std::thread::sleep(left.min(LOOK));
                }
            }
        };
        std::thread::Builder::new().name(format!("source {index}")).spawn(run).map_err(AgentError::Thread)?;
    }
    Ok(rx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_balance::agent::source::Gpu;
    use std::net::TcpListener;

    fn source(kind: SourceKind) -> SourceSettings {
        SourceSettings { kind, interval_ms: 100, stale_ms: 1000, readings: [const { None }; 4] }
    }

    /// Answers once with these bytes.
    fn server(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        std::thread::spawn(move || {
            if let Ok((mut stream, _)) = listener.accept() {
                let mut question = [0; 1024];
                if !answer.starts_with(b"75%") {
                    let _ = stream.read(&mut question);
                }
                let _ = stream.write_all(answer);
            }
        });
        address
    }

    #[test]
    fn asks_and_reads_to_the_end() {
        let answer = b"HTTP/1.0 200 OK\r\n\r\nup 1\n";
        let address = server(answer);
        let Reply::Bytes(bytes) =
            reply(&source(SourceKind::Prometheus(format!("http://{address}/metrics"))), None)
        else {
            panic!("no answer")
        };
        assert_eq!(bytes, answer);
        let address = server(b"75% ready\n");
        let Reply::Bytes(bytes) = reply(&source(SourceKind::Haproxy(address)), None) else {
            panic!("no answer")
        };
        assert_eq!(bytes, b"75% ready\n");
    }

    #[test]
    fn what_is_not_there() {
        // A port that was free a moment ago.
        let address = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address").to_string()
        };
        assert!(matches!(reply(&source(SourceKind::Haproxy(address)), None), Reply::Failed(_)));
        let Reply::Failed(why) = reply(&source(SourceKind::Nvml(Gpu::Index(0))), None) else {
            panic!("there is none")
        };
        assert!(why.contains("not available"), "{why}");
    }
}
