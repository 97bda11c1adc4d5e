//! One TCP connection that sends all the time: when its bytes arrive.

use pointsman_lab::rack::Host;
use pointsman_lab::{Error, Result};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The server's port.
const PORT: u16 = 8001;
/// The sender gives the kernel so many bytes so often: 40 Mbit/s, which leaves most of a small machine to the switches.
const PIECE: usize = 50_000;
const EVERY: Duration = Duration::from_millis(10);
/// How long the connection may take to open.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often both ends look whether the load ends.
const LOOK: Duration = Duration::from_millis(50);

/// Bytes that the server read, and when.
pub type Arrivals = Vec<(Duration, u64)>;

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |e| Error::os(format!("cannot {what} of the stream"), e)
}

/// Sends from the client to the server until it is stopped. Times are since `start`. A connection that breaks is not opened again.
pub fn stream(client: &Host, server: &Host, start: Instant, stop: &AtomicBool) -> Result<Arrivals> {
    let address = (server.link.ipv4, PORT);
    let listener =
        server.namespace.enter(|| TcpListener::bind(address))?.map_err(failed("open the server's port"))?;
    let connected = client.namespace.enter(|| TcpStream::connect_timeout(&address.into(), PATIENCE))?;
    let sender = connected.map_err(failed("open the connection"))?;
    let (receiver, _) = listener.accept().map_err(failed("accept the connection"))?;
    sender.set_write_timeout(Some(LOOK)).map_err(failed("limit a wait"))?;
    receiver.set_read_timeout(Some(LOOK)).map_err(failed("limit a wait"))?;
    std::thread::scope(|scope| {
        scope.spawn(|| send(sender, stop));
        Ok(receive(receiver, start, stop))
    })
}

/// Whether an operation may be tried again.
fn is_late(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn send(mut socket: TcpStream, stop: &AtomicBool) {
    let piece = [0; PIECE];
    let mut due = Instant::now();
    while !stop.load(Relaxed) {
        match socket.write(&piece) {
            Ok(_) => {}
            Err(e) if is_late(&e) => {}
            // Reset: the receiver's silence says so.
            Err(_) => return,
        }
        // What a silence delayed is not sent in addition.
        due = (due + EVERY).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn receive(mut socket: TcpStream, start: Instant, stop: &AtomicBool) -> Arrivals {
    let mut buffer = vec![0; 256 << 10];
    let mut arrivals = Arrivals::new();
    while !stop.load(Relaxed) {
        match socket.read(&mut buffer) {
            Ok(0) => return arrivals,
            Ok(n) => arrivals.push((start.elapsed(), n as u64)),
            Err(e) if is_late(&e) => {}
            Err(_) => return arrivals,
        }
    }
    arrivals
}
