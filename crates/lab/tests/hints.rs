//! What Linux's sender does with ACKs that its peer would not send: the same as that of `transport`, whose tests have the same
//! table (`transport/tests/flow/hints.rs`).

use crate::tcp::{Cable, Host, Outcome, PORTS, case};
use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use pointsman_transport::segment::ECE;
use pointsman_transport::{Config, Connection, Segment, Stream};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

pub const TESTS: &[(&str, Test)] = &[("linux_has_the_same_rules", linux_has_the_same_rules)];

/// What the kernel says of a connection (linux/tcp.h, `struct tcp_info`).
#[derive(Clone, Copy, Debug)]
struct Info {
    /// State of congestion control: 2 is CWR.
    state: u8,
    /// Of a segment.
    mss: u32,
    /// Segments in flight.
    unacked: u32,
    /// Segments sent again since the beginning.
    again: u32,
    ssthresh: u32,
    cwnd: u32,
    /// The peer's window in bytes.
    window: u32,
}

#[allow(unsafe_code)]
fn info(socket: &TcpStream) -> std::io::Result<Info> {
    let mut bytes = [0u8; 232];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the array, which lives until the call returns.
    let rc = unsafe {
        let to = bytes.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length)
    };
    if rc != 0 || (length as usize) < bytes.len() {
        return Err(std::io::Error::other("TCP_INFO is not what this test knows"));
    }
    let at = |n: usize| u32::from_ne_bytes([bytes[n], bytes[n + 1], bytes[n + 2], bytes[n + 3]]);
    Ok(Info {
        state: bytes[1],
        mss: at(16),
        unacked: at(24),
        again: at(100),
        ssthresh: at(76),
        cwnd: at(80),
        window: at(228),
    })
}

/// The kernel answers at once: it takes a frame on the processor that has sent it.
fn settle() {
    std::thread::sleep(Duration::from_millis(5));
}

/// A row of the table: what an ACK has different from the last real one, and the window that follows, as a part of the real one.
type Row = (&'static str, fn(&mut Segment), f64);

const ROWS: [Row; 7] = [
    ("half", |f| f.window /= 2, 1.0),
    ("half, no timestamp", |f| (f.window /= 2, f.options.timestamps = None).0, 1.0),
    ("half, ack older", |f| (f.window /= 2, f.ack = f.ack.wrapping_sub(1448)).0, 1.0),
    ("a quarter more", |f| f.window += f.window / 4, 1.25),
    ("zero", |f| f.window = 0, 0.0),
    ("half, later seq", |f| (f.window /= 2, f.seq = f.seq.wrapping_add(1)).0, 0.5),
    (
        "half, later seq, no timestamp",
        |f| (f.window /= 2, f.seq = f.seq.wrapping_add(1), f.options.timestamps = None).0,
        0.5,
    ),
];

/// Our end of the connection, and Linux's.
struct Flow<'a> {
    host: Host<'a>,
    stream: Option<Stream>,
    linux: TcpStream,
    /// Of our window.
    scale: u8,
}

impl Flow<'_> {
    /// Lets `bytes` more bytes arrive, then sends all ACKs. Linux's state then stays as it is.
    fn proceed(&mut self, bytes: usize) -> Outcome<Info> {
        let (mut received, mut data) = (0, Vec::new());
        self.host.run(
            &mut self.stream,
            |_, _| None,
            |stream| {
                received += stream.read(&mut data);
                data.clear();
                received >= bytes
            },
        )?;
        self.host.flush()?;
        settle();
        let (info, real) = (info(&self.linux)?, u32::from(self.host.last.window) << self.scale);
        ensure!(info.window == real, "{info:?}, not the last ACK's window of {real}");
        Ok(info)
    }

    /// Sends a changed copy of the last ACK.
    fn inject(&mut self, change: impl Fn(&mut Segment)) -> Outcome<Info> {
        let real = self.host.last;
        let mut fake = real;
        change(&mut fake);
        self.host.send(self.host.now(), &fake, &[])?;
        self.host.last = real;
        self.host.flush()?;
        settle();
        Ok(info(&self.linux)?)
    }
}

fn compare(flow: &mut Flow<'_>) -> Outcome<()> {
    flow.proceed(4 << 20)?;
    for (name, change, factor) in ROWS {
        // The ACKs here also restore what the row before has changed.
        let before = flow.proceed(200_000)?;
        let after = flow.inject(change)?;
        let ratio = f64::from(after.window) / f64::from(before.window);
        println!("{name}: {} to {}", before.window, after.window);
        ensure!(before.window > 1_000_000 && (ratio - factor).abs() < 0.01, "{name}: {before:?} {after:?}");
    }
    repeated(flow)?;
    clamped(flow)?;
    let before = flow.proceed(200_000)?;
    let after = flow.inject(|fake| fake.flags |= ECE)?;
    println!("ECE: {before:?} to {after:?}");
    ensure!(after.state == 2 && after.ssthresh.abs_diff(before.cwnd / 2) <= 1, "{before:?} {after:?}");
    let again = flow.inject(|fake| fake.flags |= ECE)?;
    ensure!(again.ssthresh == after.ssthresh, "{again:?} {after:?}");
    Ok(())
}

/// Ten copies of an ACK do not mean that something was lost.
fn repeated(flow: &mut Flow<'_>) -> Outcome<()> {
    let before = flow.proceed(200_000)?;
    for _ in 0..10 {
        let after = flow.inject(|_| ())?;
        let same = (after.again, after.cwnd) == (before.again, before.cwnd);
        ensure!(before.unacked > 10 && same, "{before:?} {after:?}");
    }
    Ok(())
}

/// All ACKs have a window of forty segments for a while: so many are in flight, and nothing is sent again. Measured: 40.0 in the mean.
fn clamped(flow: &mut Flow<'_>) -> Outcome<()> {
    const SEGMENTS: u32 = 40;
    let bytes = SEGMENTS * info(&flow.linux)?.mss;
    flow.host.clamp = Some(u16::try_from(bytes >> flow.scale)?);
    // What was in flight arrives.
    let before = flow.proceed(8 << 20)?;
    let (mut received, mut data, mut flights) = (0, Vec::new(), Vec::new());
    let Flow { host, stream, linux, .. } = flow;
    host.run(
        stream,
        |_, _| None,
        |stream| {
            received += stream.read(&mut data);
            data.clear();
            flights.extend(info(linux).map(|info| f64::from(info.unacked)));
            received >= 8 << 20
        },
    )?;
    let mean = flights.iter().sum::<f64>() / flights.len() as f64;
    let most = flights.iter().copied().fold(0.0, f64::max);
    let after = info(linux)?;
    println!(
        "{} samples: {mean:.1} segments in flight, at most {most}; {before:?} to {after:?}",
        flights.len()
    );
    ensure!(flights.len() > 100 && most <= f64::from(SEGMENTS) && mean > 30.0, "{mean} {most}");
    ensure!(after.again == before.again && after.cwnd > SEGMENTS, "{before:?} {after:?}");
    host.clamp = None;
    Ok(())
}

fn linux_has_the_same_rules() -> Result<(), Box<dyn std::error::Error>> {
    let cable = Cable::new()?;
    let mut case = case("hints");
    case.config = Config { receive_buffer: 12 << 20, ..case.config };
    let address = SocketAddr::new(cable.addresses(false).0, PORTS.0);
    let listener = cable.linux.enter(|| {
        // Without probes of a tail: on a busy machine ACKs come late, and a probe counts as a segment that is sent again.
        fs::write("/proc/sys/net/ipv4/tcp_early_retrans", "0")?;
        TcpListener::bind(address)
    })??;
    let (give, take) = mpsc::channel();
    // It writes until the connection is reset.
    let side = cable.linux.spawn("linux", move || -> std::io::Result<()> {
        let mut socket = listener.accept()?.0;
        let _ = give.send(socket.try_clone()?);
        while socket.write_all(&[7; 1 << 16]).is_ok() {}
        Ok(())
    })?;
    let (cable, case) = (&cable, &case);
    cable.ours.enter(move || -> Result<(), String> {
        let text = |e: Box<dyn std::error::Error>| e.to_string();
        let mut host = Host::open(cable, case).map_err(text)?;
        let connection = Connection::connect(Arc::new(case.config.clone()), host.now(), 5);
        let mut stream = Some(Stream::new(connection, 5));
        host.run(&mut stream, |_, _| None, |stream| stream.connection.readable() > 0).map_err(text)?;
        let linux = take.recv_timeout(Duration::from_secs(5)).map_err(|e| e.to_string())?;
        let scale = stream.as_ref().map_or(0, |s| s.connection.scales().1);
        let mut flow = Flow { host, stream, linux, scale };
        let outcome = compare(&mut flow).map_err(text);
        if let Some(stream) = &mut flow.stream {
            stream.connection.abort();
        }
        flow.host.run(&mut flow.stream, |_, _| None, |_| true).map_err(text)?;
        flow.host.flush().map_err(text)?;
        outcome
    })??;
    side.join().map_err(|_| "Linux's side has panicked")??;
    Ok(())
}
