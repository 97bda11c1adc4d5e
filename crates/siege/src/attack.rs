//! Attackers: threads in the rack's namespaces that send frames or bother servers until they are stopped.

use crate::case::{Act, Http, Server};
use crate::frames::{Ground, Maker};
use crate::rack::{self, Rack};
use crate::{http, p4runtime};
use pointsman_lab::frames::{PacketSender, Transmitter};
use pointsman_lab::{Result, Rng};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Frames sent together.
const BATCH: usize = 64;
/// A delayed flood catches up at most this many frames.
const BACKLOG: f64 = 512.0;
/// Connections of one hostile client of HTTP.
const CONNECTIONS: usize = 64;

/// Attackers that are at work. Dropping it stops them.
#[derive(Default)]
pub struct Attack {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<()>>>,
    began: Option<Instant>,
    /// Sent a second, once they have been stopped.
    per_s: Option<f64>,
}

impl Attack {
    /// Starts what `act` says, if it is an attacker's.
    pub fn start(&mut self, rack: &Rack, act: Act) -> Result<()> {
        let (stop, sent) = (self.stop.clone(), self.sent.clone());
        let switch = &rack.wiring.switch;
        match act {
            Act::Flood(host, kind, rate) => {
                let host = rack.wiring.host(host)?;
                let sender = PacketSender::open(&host.namespace, &host.interface)?;
                let maker = Maker::new(kind, Ground::of(rack)?);
                let run = move || flood(maker, sender, f64::from(rate), &stop, &sent);
                self.threads.push(host.namespace.spawn("flood", run)?);
            }
            Act::P4Runtime(what, clients) => {
                for _ in 0..clients {
                    let (stop, sent) = (stop.clone(), sent.clone());
                    let run = move || {
                        // The rack has the same processors, which a client elsewhere would not take from it.
                        pointsman_ports::lower_priority();
                        p4runtime::bother(rack::p4runtime(), what, &stop, &sent)
                    };
                    self.threads.push(switch.spawn("p4runtime", run)?);
                }
            }
            Act::Http(server, what) => {
                let at = match server {
                    Server::Api => rack::api(0),
                    Server::Metrics => rack::metrics(),
                    Server::P4Runtime => rack::p4runtime(),
                };
                let clients = if what == Http::Busy { 4 } else { 1 };
                for _ in 0..clients {
                    let (stop, sent) = (stop.clone(), sent.clone());
                    let run = move || bother(at, what, &stop, &sent);
                    self.threads.push(switch.spawn("http", run)?);
                }
            }
            Act::Signal(..)
            | Act::Remove(_)
            | Act::Cut(_)
            | Act::Unplug(_)
            | Act::Write(..)
            | Act::Unlink(_)
            | Act::FillDisk
            | Act::ReportAhead(_)
            | Act::Policy => return Ok(()),
        }
        self.began.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Ends all of them and returns the first error.
    pub fn stop(&mut self) -> Result<()> {
        self.stop.store(true, Relaxed);
        if let Some(began) = self.began.take() {
            self.per_s = Some(self.sent.load(Relaxed) as f64 / began.elapsed().as_secs_f64().max(1e-9));
        }
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            result = match thread.join() {
                Ok(ended) => result.and(ended),
                Err(panic) => std::panic::resume_unwind(panic),
            };
        }
        result
    }

    /// The attackers' rate per second: frames, requests, connections. `None` without an attacker, or if it has not been
    /// stopped.
    pub fn per_s(&self) -> Option<f64> {
        self.per_s
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        // The error was already reported, or the case was given up.
        let _ = self.stop();
    }
}

/// Sends frames at a rate.
fn flood(
    mut maker: Maker,
    mut wire: PacketSender,
    rate: f64,
    stop: &AtomicBool,
    total: &AtomicU64,
) -> Result<()> {
    let (start, mut sent, mut skipped) = (Instant::now(), 0.0, 0.0);
    let mut bytes = Vec::new();
    while !stop.load(Relaxed) {
        let due = rate * start.elapsed().as_secs_f64() - skipped - sent;
        if due < 1.0 {
            // The rack has the same processors: no spinning.
            std::thread::sleep(Duration::from_micros(500));
            continue;
        }
        skipped += (due - BACKLOG).max(0.0);
        let count = (due as usize).min(BATCH);
        let length = maker.batch(count, &mut bytes);
        let mut done = 0;
        while done < count && !stop.load(Relaxed) {
            match wire.transmit(&bytes[done * length..], length) {
                Ok(0) => std::thread::sleep(Duration::from_micros(100)),
                Ok(taken) => done += taken,
                // The link is down or removed: sending is impossible for now.
                Err(_) => break,
            }
        }
        sent += count as f64;
        total.fetch_add(done as u64, Relaxed);
    }
    Ok(())
}

/// Annoys a server over TCP.
fn bother(at: SocketAddr, what: Http, stop: &AtomicBool, sent: &AtomicU64) -> Result<()> {
    let mut open: Vec<TcpStream> = Vec::new();
    let mut rng = Rng::for_part(2, "http");
    let slow = http::request("GET", "/metrics", None, "");
    let mut round = 0usize;
    while !stop.load(Relaxed) {
        match what {
            Http::Silent | Http::Slow => {
                open.retain(alive);
                while open.len() < CONNECTIONS && !stop.load(Relaxed) {
                    let Ok(stream) = TcpStream::connect_timeout(&at, Duration::from_secs(1)) else { break };
                    sent.fetch_add(1, Relaxed);
                    open.push(stream);
                }
                if what == Http::Slow {
                    let byte = slow.as_bytes()[round % (slow.len() - 4)];
                    open.retain_mut(|stream| stream.write_all(&[byte]).is_ok());
                    round += 1;
                }
                std::thread::sleep(Duration::from_millis(if what == Http::Slow { 1000 } else { 50 }));
            }
            Http::Busy => {
                // Whether it is answered is seen elsewhere.
                let _ = http::ask(at, &http::request("GET", "/metrics", None, ""), Duration::from_secs(1));
                sent.fetch_add(1, Relaxed);
            }
            Http::Malformed => {
                malformed(at, round, &mut rng);
                sent.fetch_add(1, Relaxed);
                round += 1;
            }
        }
    }
    Ok(())
}

/// Whether the other end still holds a connection.
fn alive(stream: &TcpStream) -> bool {
    let quiet = stream.set_nonblocking(true).is_ok();
    let read = (&mut &*stream).read(&mut [0; 256]);
    let noisy = stream.set_nonblocking(false).is_ok();
    quiet && noisy && read.map_or_else(|e| e.kind() == std::io::ErrorKind::WouldBlock, |n| n > 0)
}

/// One request that is none.
fn malformed(at: SocketAddr, round: usize, rng: &mut Rng) {
    let Ok(mut stream) = TcpStream::connect_timeout(&at, Duration::from_secs(1)) else { return };
    let random: Vec<u8> = (0..256).flat_map(|_| rng.next_u64().to_ne_bytes()).collect();
    let text = match round % 5 {
        0 => random,
        1 => format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(200_000)).into_bytes(),
        2 => b"PUT /v1/services/x/policy HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n{".to_vec(),
        3 => format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(5_000)).into_bytes(),
        _ => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\xff\x04\0\0\0\0\0".to_vec(),
    };
    // It may be refused half way.
    let _ = stream.write_all(&text);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
    let _ = stream.read(&mut [0; 1024]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_that_never_began_sent_nothing() {
        let mut attack = Attack::default();
        assert!(attack.stop().is_ok());
        assert_eq!(attack.per_s(), None);
    }
}
