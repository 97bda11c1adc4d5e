//! TCP throughput: a number of connections that send as fast as they can.

use super::echo::{self, EchoCounters};
use crate::error::{Error, Result};
use crate::sys::{Epoll, Interest};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// One run.
#[derive(Clone, Debug)]
pub struct StreamsConfig {
    /// Where the connections go.
    pub target: SocketAddr,
    /// How many there are.
    pub connections: usize,
    /// How long is measured.
    pub duration: Duration,
    /// How long before that is sent.
    pub warm_up: Duration,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamsResult {
    /// Bytes that the servers received in the measured time.
    pub bytes: u64,
    /// The measured time.
    pub elapsed: Duration,
    /// Connections that failed.
    pub failed: usize,
}

impl StreamsResult {
    /// Content bits a second, in millions.
    pub fn megabits_per_second(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Bytes given to the kernel in one system call.
const PIECE: usize = 128 * 1024;

/// Runs on the calling thread, in whose namespace the sockets are; `servers` are the receivers' counters.
///
/// All connections must be established; one that fails later counts as failed.
pub fn streams(config: &StreamsConfig, servers: &EchoCounters) -> Result<StreamsResult> {
    let target = config.target;
    let failed = |e| Error::os(format!("streams to {target}"), e);
    let epoll = Epoll::new().map_err(failed)?;
    let mut sockets = Vec::new();
    for at in 0..config.connections {
        let socket = Socket::new(Domain::for_address(target), Type::STREAM, None).map_err(failed)?;
        socket.connect_timeout(&target.into(), Duration::from_secs(5)).map_err(failed)?;
        (&socket).write_all(&echo::stream()).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        epoll.add(&socket, at as u64, Interest::WRITE).map_err(failed)?;
        sockets.push(Some(socket));
    }
    let content = vec![0x5a; PIECE];
    let start = Instant::now();
    let (begin, end) = (start + config.warm_up, start + config.warm_up + config.duration);
    let mut from = None;
    let mut ready = Vec::new();
    let mut result = StreamsResult { bytes: 0, elapsed: Duration::ZERO, failed: 0 };
    loop {
        epoll.wait(&mut ready, Some(Duration::from_millis(10))).map_err(failed)?;
        let now = Instant::now();
        let received = servers.stream_bytes.load(Relaxed);
        match from {
            None if now >= begin => from = Some((now, received)),
            Some((since, before)) if now >= end => {
                result.bytes = received - before;
                result.elapsed = now - since;
                return Ok(result);
            }
            _ => {}
        }
        for event in &ready {
            let Some(slot) = sockets.get_mut(event.token as usize) else { continue };
            let Some(socket) = slot else { continue };
            match socket.write(&content) {
                Ok(_) => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => {
                    result.failed += 1;
                    *slot = None;
                }
            }
        }
    }
}
