//! The lean protocol of the closed-loop generator, and its servers.
//!
//! The measured program shares processors with both ends, so they do as little as possible: messages of fixed length,
//! no signatures but a keyed echo, one thread for all servers.
//!
//! | message | bytes |
//! |---|---|
//! | magic, `PMe1` in requests, `PMa1` in answers, `PMs1` before a stream | 4 |
//! | number of the server, zero in requests | 4 |
//! | number of the request | 8 |
//! | in answers: the server's mark on that number | 8 |
//! | zero | 40 |
//!
//! After `PMs1` everything on the connection is content, which is counted and thrown away.

use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys::{Epoll, Interest, Ready, Waker};
use pointsman_wire::random::finish;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Length of every message.
pub(super) const MESSAGE_LEN: usize = 64;
/// A message.
pub(super) type Message = [u8; MESSAGE_LEN];

const REQUEST: [u8; 4] = *b"PMe1";
const ANSWER: [u8; 4] = *b"PMa1";
const STREAM: [u8; 4] = *b"PMs1";

fn message(magic: [u8; 4], server: u32, number: u64, mark: u64) -> Message {
    let mut bytes = [0; MESSAGE_LEN];
    bytes[..4].copy_from_slice(&magic);
    bytes[4..8].copy_from_slice(&server.to_be_bytes());
    bytes[8..16].copy_from_slice(&number.to_be_bytes());
    bytes[16..24].copy_from_slice(&mark.to_be_bytes());
    bytes
}

fn word(bytes: &Message, at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}

/// The mark that a server writes under the answer to a request.
fn mark(server: u32, number: u64) -> u64 {
    finish(number ^ (u64::from(server) << 40))
}

/// A request.
pub(super) fn request(number: u64) -> Message {
    message(REQUEST, 0, number, 0)
}

/// The first message of a stream.
pub(super) fn stream() -> Message {
    message(STREAM, 0, 0, 0)
}

/// The server that answered this request; none if this is not an answer to it.
pub(super) fn answered_by(answer: &Message, number: u64) -> Option<u32> {
    let server = (word(answer, 0) & 0xffff_ffff) as u32;
    let right =
        answer[..4] == ANSWER && word(answer, 8) == number && word(answer, 16) == mark(server, number);
    right.then_some(server)
}

/// A server of the closed-loop protocol.
#[derive(Clone, Debug)]
pub struct EchoServer {
    /// Where it listens.
    pub namespace: Namespace,
    /// Its address in there.
    pub address: SocketAddr,
}

/// The servers' counters so far.
#[derive(Debug, Default)]
pub struct EchoCounters {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Requests answered.
    pub answers: AtomicU64,
    /// Bytes of streams received.
    pub stream_bytes: AtomicU64,
    /// Connections given up because the input was not of this protocol, or because the peer does not read.
    pub failures: AtomicU64,
}

/// Running servers, all on one thread. Dropping it ends them.
#[derive(Debug)]
pub struct EchoServers {
    /// Live counters.
    pub counters: Arc<EchoCounters>,
    stop: Arc<(AtomicBool, Waker)>,
    thread: Option<JoinHandle<()>>,
}

/// How many connections may wait for the thread to accept them.
const BACKLOG: i32 = 4096;
/// Bytes of a stream taken in one system call.
const PIECE: usize = 256 * 1024;
/// The token of the waker; those of sockets are their descriptors.
const WAKE: u64 = u64::MAX;

/// One connection.
struct Connection {
    stream: TcpStream,
    server: u32,
    filled: usize,
    streaming: bool,
    input: Message,
}

struct Loop {
    epoll: Epoll,
    listeners: Vec<(TcpListener, u32)>,
    /// By descriptor.
    connections: Vec<Option<Connection>>,
    counters: Arc<EchoCounters>,
    buffer: Vec<u8>,
}

impl EchoServers {
    /// Starts the servers; the first is number 1.
    pub fn start(servers: &[EchoServer]) -> Result<Self> {
        let failed = |what: &'static str| move |e| Error::os(what, e);
        let epoll = Epoll::new().map_err(failed("cannot start the servers"))?;
        let stop =
            Arc::new((AtomicBool::new(false), Waker::new().map_err(failed("cannot start the servers"))?));
        epoll.add(&stop.1, WAKE, Interest::READ).map_err(failed("cannot start the servers"))?;
        let mut listeners = Vec::new();
        for (server, number) in servers.iter().zip(1..) {
            let address = server.address;
            let listener = server.namespace.enter(|| listen(address))?;
            let listener = listener.map_err(|e| {
                Error::os(format!("cannot listen on {address} in {}", server.namespace.name()), e)
            })?;
            let token = listener.as_raw_fd() as u64;
            epoll.add(&listener, token, Interest::READ).map_err(failed("cannot start the servers"))?;
            listeners.push((listener, number));
        }
        let counters = Arc::<EchoCounters>::default();
        let mut state = Loop {
            epoll,
            listeners,
            connections: Vec::new(),
            counters: counters.clone(),
            buffer: vec![0; PIECE],
        };
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("servers".into())
            .spawn(move || state.run(&stopped.0))
            .map_err(failed("cannot start the thread of the servers"))?;
        Ok(Self { counters, stop, thread: Some(thread) })
    }
}

impl Drop for EchoServers {
    fn drop(&mut self) {
        self.stop.0.store(true, Relaxed);
        self.stop.1.wake();
        if let Some(thread) = self.thread.take() {
            // A panic in there has been reported where it happened.
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(OwnedFd::from(socket).into())
}

impl Loop {
    fn run(&mut self, stop: &AtomicBool) {
        let mut ready: Vec<Ready> = Vec::new();
        while !stop.load(Relaxed) {
            if self.epoll.wait(&mut ready, None).is_err() {
                return;
            }
            for event in &ready {
                if event.token == WAKE {
                    return;
                }
                let at = event.token as usize;
                if let Some(listener) = self.listeners.iter().position(|(l, _)| l.as_raw_fd() as usize == at)
                {
                    self.accept(listener);
                } else if !self.serve(at) {
                    self.connections[at] = None;
                }
            }
        }
    }

    fn accept(&mut self, listener: usize) {
        let (listener, server) = &self.listeners[listener];
        // Whatever prevents accepting now, epoll will report waiting connections.
        while let Ok((stream, _)) = listener.accept() {
            let at = stream.as_raw_fd() as usize;
            if stream.set_nonblocking(true).is_err()
                || stream.set_nodelay(true).is_err()
                || self.epoll.add(&stream, at as u64, Interest::READ).is_err()
            {
                self.counters.failures.fetch_add(1, Relaxed);
                continue;
            }
            self.counters.connections.fetch_add(1, Relaxed);
            if self.connections.len() <= at {
                self.connections.resize_with(at + 1, || None);
            }
            let input = [0; MESSAGE_LEN];
            self.connections[at] =
                Some(Connection { stream, server: *server, filled: 0, streaming: false, input });
        }
    }

    /// Reads once and answers; `false` when the connection has ended.
    fn serve(&mut self, at: usize) -> bool {
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_mut) else { return true };
        let counters = &self.counters;
        let n = if connection.streaming {
            connection.stream.read(&mut self.buffer)
        } else {
            connection.stream.read(&mut connection.input[connection.filled..])
        };
        let n = match n {
            Ok(0) => return false,
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return true,
            Err(_) => return false,
        };
        if connection.streaming {
            counters.stream_bytes.fetch_add(n as u64, Relaxed);
            return true;
        }
        connection.filled += n;
        if connection.filled < MESSAGE_LEN {
            return true;
        }
        connection.filled = 0;
        if connection.input[..4] == STREAM {
            connection.streaming = true;
            return true;
        }
        let number = word(&connection.input, 8);
        let answer = message(ANSWER, connection.server, number, mark(connection.server, number));
        // An answer fits into an empty socket buffer, and a client of ours waits for it before it asks again.
        let right = connection.input[..4] == REQUEST
            && connection.stream.write(&answer).is_ok_and(|written| written == MESSAGE_LEN);
        if right {
            counters.answers.fetch_add(1, Relaxed);
        } else {
            counters.failures.fetch_add(1, Relaxed);
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_belongs_to_one_request_and_one_server() {
        let answer = message(ANSWER, 2, 77, mark(2, 77));
        assert_eq!(answered_by(&answer, 77), Some(2));
        assert_eq!(answered_by(&answer, 78), None);
        let mut other = answer;
        other[7] = 1;
        assert_eq!(answered_by(&other, 77), None);
        assert_eq!(answered_by(&request(77), 77), None);
    }
}
