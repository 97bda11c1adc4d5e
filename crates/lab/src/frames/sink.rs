//! Counting frames where they arrive.

use super::socket::PacketSocket;
use super::template::{MAGIC, PAYLOAD, TIMED};
use crate::error::{Error, Result};
use crate::load::Latencies;
use crate::netns::Namespace;
use std::time::{Duration, Instant};

/// The approximate cost of a buffered frame in a socket's buffer: its bookkeeping is larger than the frame.
const BUFFERED: usize = 1024;

/// Counts the frames of one probe at a time on one interface.
///
/// It has no thread: a filter in the kernel counts, on the processor that delivers the frames, and drops them. Those
/// whose latency is measured wait in a socket's buffer, with the time of their arrival at the interface, until the
/// probe ends.
#[derive(Debug)]
pub struct Sink {
    all: PacketSocket,
    timed: PacketSocket,
    room: usize,
}

/// The arrivals of a probe.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    /// Frames.
    pub count: u64,
    /// From the time of sending to the arrival, of those whose latency was measured.
    pub latencies: Vec<Duration>,
}

/// A statement of classic BPF.
fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Continues with the next statement if the accumulator is `k`, else skips `otherwise`.
fn unless_equal(k: u32, otherwise: u8) -> libc::sock_filter {
    let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    libc::sock_filter { code, jt: 0, jf: otherwise, k }
}

/// Lets through the frames of one probe; `timed`: only those whose latency is measured. `keep`: this many bytes of them.
fn program(probe: u16, timed: bool, keep: u32) -> [libc::sock_filter; 7] {
    let load = |size, at: usize| statement(libc::BPF_LD | size | libc::BPF_ABS, at as u32);
    let mask = if timed { u32::MAX } else { u32::from(!TIMED) };
    let wanted = if timed { probe | TIMED } else { probe };
    [
        load(libc::BPF_W, PAYLOAD),
        unless_equal(u32::from_be_bytes(MAGIC), 4),
        load(libc::BPF_H, PAYLOAD + 4),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask),
        unless_equal(u32::from(wanted), 1),
        statement(libc::BPF_RET | libc::BPF_K, keep),
        statement(libc::BPF_RET | libc::BPF_K, 0),
    ]
}

impl Sink {
    /// On an interface of a namespace.
    pub fn open(namespace: &Namespace, interface: &str) -> Result<Self> {
        let failed = |e| Error::os(format!("cannot count on {interface} in {}", namespace.name()), e);
        let (all, timed) = (PacketSocket::open(namespace)?, PacketSocket::open(namespace)?);
        // The smallest possible buffer: once it is full, which happens at once, a frame costs only its filter.
        all.buffer(true, 1).map_err(failed)?;
        let room = timed.buffer(true, 16 << 20).map_err(failed)? / BUFFERED;
        timed.timestamps().map_err(failed)?;
        let sink = Self { all, timed, room };
        sink.begin(0)?;
        for socket in [&sink.all, &sink.timed] {
            socket.bind(interface, libc::ETH_P_ALL as u16).map_err(failed)?;
        }
        Ok(sink)
    }

    /// How many frames with times a probe may have.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Counts the frames of this probe from now on. Probes are numbered below 32,768.
    pub fn begin(&self, probe: u16) -> Result<()> {
        let failed = |e| Error::os("cannot set a filter for frames", e);
        let probe = probe & !TIMED;
        // A buffered frame must show its times.
        self.all.filter(&program(probe, false, 64)).map_err(failed)?;
        self.timed.filter(&program(probe, true, 128)).map_err(failed)?;
        self.drain(&mut Vec::new())?;
        self.all.take_count().map_err(failed)?;
        Ok(())
    }

    /// Waits until nothing arrives any more, at most for `patience`, and returns the arrivals since [`Sink::begin`].
    pub fn finish(&self, patience: Duration) -> Result<Arrived> {
        const QUIET: Duration = Duration::from_millis(20);
        let failed = |e| Error::os("cannot read the number of frames", e);
        let mut arrived = Arrived { count: self.all.take_count().map_err(failed)?, latencies: Vec::new() };
        let (start, mut last) = (Instant::now(), Instant::now());
        while last.elapsed() < QUIET && start.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(2));
            let more = self.all.take_count().map_err(failed)?;
            if more > 0 {
                arrived.count += more;
                last = Instant::now();
            }
        }
        self.drain(&mut arrived.latencies)?;
        Ok(arrived)
    }

    fn drain(&self, latencies: &mut Vec<Duration>) -> Result<()> {
        let mut frame = [0; 128];
        let failed = |e| Error::os("cannot receive frames", e);
        while let Some((length, arrived)) = self.timed.receive(&mut frame).map_err(failed)? {
            let Some(sent) = frame[..length].get(PAYLOAD + 10..PAYLOAD + 18) else { continue };
            let sent = sent.iter().fold(0u64, |time, byte| time << 8 | u64::from(*byte));
            // The system's clock may have been set back meanwhile: at once, then.
            latencies.push(Duration::from_nanos(arrived.saturating_sub(sent)));
        }
        Ok(())
    }
}

impl Arrived {
    /// The latencies of `timed` frames of which these arrived: the others count with `lost`.
    pub fn latencies(&self, timed: u64, lost: Duration) -> Latencies {
        let missing = usize::try_from(timed).unwrap_or(usize::MAX).saturating_sub(self.latencies.len());
        self.latencies.iter().copied().chain(std::iter::repeat_n(lost, missing)).collect()
    }
}
