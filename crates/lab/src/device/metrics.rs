//! A device's counters over HTTP in Prometheus' text format, for agents and other scrapers.
//!
//! It is served by the device's own thread, between requests: an answer is some hundred bytes that are available.

use super::stats::DeviceCounters;
use crate::sys::{Epoll, Interest};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

/// Maximum concurrent clients; more have to retry.
const ASKERS: usize = 16;

/// A listener, and connections without a request so far.
#[derive(Debug)]
pub(super) struct Metrics {
    listener: TcpListener,
    askers: BTreeMap<u64, TcpStream>,
}

impl Metrics {
    /// Listens in the namespace of the calling thread.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Metrics { listener, askers: BTreeMap::new() })
    }

    /// Has the listener watched.
    pub fn watch(&self, epoll: &Epoll, token: u64) -> io::Result<()> {
        epoll.add(&self.listener, token, Interest::READ)
    }

    /// Takes connections; each gets one of these tokens.
    pub fn accept(&mut self, epoll: &Epoll, tokens: &mut u64) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                // No client, or one that has disconnected.
                Err(_) => return Ok(()),
            };
            if self.askers.len() < ASKERS {
                stream.set_nonblocking(true)?;
                epoll.add(&stream, *tokens, Interest::READ)?;
                self.askers.insert(*tokens, stream);
                *tokens += 1;
            }
        }
    }

    /// Whether this is the connection of a client.
    pub fn has(&self, token: u64) -> bool {
        self.askers.contains_key(&token)
    }

    /// A client sent a request or disconnected. The page is the same for all requests.
    pub fn answer(&mut self, token: u64, page: impl FnOnce() -> String) {
        let Some(mut stream) = self.askers.remove(&token) else { return };
        // The question is read, so that closing does not take back the answer.
        match stream.read(&mut [0; 4096]) {
            Ok(1..) => {
                let page = page();
                let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
                // A client that does not take it has disconnected.
                let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len());
                let _ = stream.shutdown(Shutdown::Write);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.askers.insert(token, stream);
            }
            _ => {}
        }
    }
}

/// The page. `busy_s` is the time that workers were busy until now, summed over them.
pub(super) fn page(name: &str, workers: usize, busy_s: f64, counters: &DeviceCounters) -> String {
    let mut out = String::new();
    let name = name.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
    let mut family = |metric: &str, kind: &str, value: f64| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# TYPE {metric} {kind}\n{metric}{{device=\"{name}\"}} {value}");
    };
    family("pointsman_device_busy_seconds_total", "counter", busy_s);
    family("pointsman_device_workers", "gauge", workers as f64);
    family("pointsman_device_requests", "gauge", counters.in_system as f64);
    family("pointsman_device_requests_total", "counter", counters.requests as f64);
    family("pointsman_device_answers_total", "counter", counters.answers as f64);
    family("pointsman_device_overflowed_total", "counter", counters.overflowed as f64);
    family("pointsman_device_failed_total", "counter", counters.failed as f64);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let page = page("a\"b\\c\nd", 1, 0.5, &DeviceCounters::default());
        let line = r#"pointsman_device_busy_seconds_total{device="a\"b\\c\nd"} 0.5"#;
        assert_eq!(page.lines().nth(1), Some(line));
    }
}
