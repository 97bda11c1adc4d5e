//! `pointsman store`: RedPlane's state store behind a UDP socket, with its disk and its clock.

mod disk;
mod error;

pub use error::StoreError;

use crate::clock::Clock;
use crate::listen::listen;
use crate::metrics::store::{Figures, serve};
use crate::service::{self, Stopper};
use clap::builder::RangedU64ValueParser;
use disk::Disk;
use pointsman_console::say;
use pointsman_ports::Poller;
use pointsman_store::{Config, Idle, Outbox, Pool, Store};
use pointsman_v1model::Time;
use std::error::Error;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Datagrams that are handled together: their changes are one write to the disk.
const BATCH: usize = 256;

/// The longest datagram.
const MAX_DATAGRAM: usize = 65_536;

/// How often the figures behind the metrics are renewed.
const LOOK: Duration = Duration::from_millis(100);

/// Pause after the disk refused a write.
const PAUSE: Duration = Duration::from_millis(100);

/// Run a state store for switch programs with RedPlane.
///
/// Switches keep the state of their programs here, and get leases on it, so that it outlives them. Without --data it is in memory only.
#[derive(clap::Args)]
pub struct Args {
    /// Address for the messages of switches.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4791")]
    listen: SocketAddr,
    /// Keep the state in this folder over a restart. Answers are sent when their changes are on disk.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// File with the key of the messages' digests, 16 hexadecimal digits; switches have the same one. Without it anyone who reaches the
    /// address can change the state.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Length of a lease: how long a switch may use a key's state without hearing from the store.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = RangedU64ValueParser::<u32>::new().range(1..=3_600_000))]
    lease_ms: u32,
    /// Clocks may differ in rate by 1/2^N of the time; programs have the same number (REDPLANE_DRIFT_SHIFT).
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u8).range(1..=16))]
    drift: u8,
    /// Number of shards of keys, from 0 on.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    shards: u16,
    /// Room for this many keys.
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    max_keys: u32,
    /// Ports for the connections of a program that translates addresses, such as 203.0.113.1:1024-65535. May be repeated.
    #[arg(long, value_name = "ADDRESS:FIRST-LAST")]
    pool: Vec<Pool>,
    /// How long the binding of an idle TCP connection keeps its port.
    #[arg(long, value_name = "N", default_value_t = Idle::default().tcp_s, value_parser = RangedU64ValueParser::<u32>::new().range(1..=10_000_000))]
    idle_tcp_s: u32,
    /// How long the binding of an idle UDP flow keeps its port.
    #[arg(long, value_name = "N", default_value_t = Idle::default().udp_s, value_parser = RangedU64ValueParser::<u32>::new().range(1..=10_000_000))]
    idle_udp_s: u32,
    /// The same, if one side has ended the connection, or has never answered.
    #[arg(long, value_name = "N", default_value_t = Idle::default().brief_s, value_parser = RangedU64ValueParser::<u32>::new().range(1..=10_000_000))]
    idle_brief_s: u32,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
}

/// A store that is ready to run.
pub struct Running {
    store: Store<SocketAddr>,
    socket: UdpSocket,
    poller: Poller,
    clock: Clock,
    disk: Option<Disk>,
    /// The disk refused the last write.
    stuck: bool,
    figures: Arc<Mutex<Figures>>,
    stopper: Stopper,
}

impl Running {
    /// Opens the socket, in the calling thread's network namespace, and the files in `data`.
    ///
    /// # Errors
    /// The kernel refuses one of them, or the files are not those of such a store.
    pub fn open(at: SocketAddr, config: Config, data: Option<&Path>) -> Result<Self, StoreError> {
        let config = Config { durable: data.is_some(), ..config };
        let hold_ns = config.hold_ns();
        let mut store = Store::new(config).map_err(StoreError::Config)?;
        let disk = data.map(Disk::open).transpose()?;
        // A former store granted nothing after this moment, if it had the same file.
        let clock = Clock::start(Time::ZERO);
        let known = disk.as_ref().map(|disk| disk.load(0, hold_ns, &mut store)).transpose()?;
        if known != Some(true) {
            store.hold_back(0);
        }
        let socket = UdpSocket::bind(at).map_err(|e| StoreError::Listen(at, e))?;
        socket.set_nonblocking(true).map_err(|e| StoreError::Listen(at, e))?;
        let mut poller = Poller::new().map_err(StoreError::Wait)?;
        poller.add(0, socket.as_raw_fd());
        let (figures, stopper) = (Arc::default(), Stopper::new(poller.waker()));
        Ok(Running { store, socket, poller, clock, disk, stuck: false, figures, stopper })
    }

    /// The address at which it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Handle to stop it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Runs until it is stopped. `log` gets lines for the operator.
    ///
    /// # Errors
    /// The kernel does not let it wait.
    pub fn run(self, mut log: impl FnMut(&str)) -> Result<Figures, StoreError> {
        self.work(&mut log)
    }

    fn work(mut self, log: &mut dyn FnMut(&str)) -> Result<Figures, StoreError> {
        let mut out = Outbox::default();
        let mut buffer = vec![0; MAX_DATAGRAM];
        let mut ready = Vec::new();
        let mut look_at = Instant::now();
        while !self.stopper.is_stopped() {
            let taken = self.take(&mut buffer, &mut out);
            let now = self.clock.now().0;
            if self.store.deadline().is_some_and(|at| at <= now) {
                self.store.wake(now, &mut out);
            }
            if self.keep(log) {
                self.answer(&out);
            }
            out.clear();
            if taken == BATCH && Instant::now() < look_at {
                continue;
            }
            self.look();
            look_at = Instant::now() + LOOK;
            if taken < BATCH {
                let ns = self.store.deadline().map(|at| at.saturating_sub(self.clock.now().0));
                // A disk that refused is asked again, whatever arrives.
                let ns = if self.stuck { Some(PAUSE.as_nanos() as u64) } else { ns };
                let until = ns.map(|ns| Instant::now() + Duration::from_nanos(ns));
                self.poller.wait(until, &mut ready).map_err(StoreError::Wait)?;
            }
        }
        self.look();
        Ok(self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Takes the datagrams that have arrived, up to a batch: their number.
    fn take(&mut self, buffer: &mut [u8], out: &mut Outbox<SocketAddr>) -> usize {
        for n in 0..BATCH {
            match self.socket.recv_from(buffer) {
                Ok((length, from)) => self.store.receive(self.clock.now().0, from, &buffer[..length], out),
                // A former answer found no one: of no interest here.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                Err(_) => return n,
            }
        }
        BATCH
    }

    /// Writes all changes to the disk. Without success nothing may be answered, and it is tried again with the next batch.
    fn keep(&mut self, log: &mut dyn FnMut(&str)) -> bool {
        let Some(disk) = &mut self.disk else { return true };
        match disk.write(&self.store) {
            Ok(()) => {
                self.store.saved();
                if std::mem::take(&mut self.stuck) {
                    log("the disk takes changes again");
                }
                true
            }
            Err(e) => {
                if !std::mem::replace(&mut self.stuck, true) {
                    log(&format!("{e}; switches get no answers until the disk takes their changes"));
                }
                false
            }
        }
    }

    /// Sends what is in the outbox. A datagram that the kernel does not take is lost, as on any network: switches ask again.
    fn answer(&mut self, out: &Outbox<SocketAddr>) {
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        for (to, datagram) in out.iter() {
            match self.socket.send_to(datagram, to) {
                Ok(_) => figures.sent += 1,
                Err(_) => figures.unsent += 1,
            }
        }
    }

    fn look(&mut self) {
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.stats = self.store.stats();
        figures.keys = self.store.keys() as u64;
        figures.waiting = self.store.waiting() as u64;
        figures.ports = self.store.ports();
        figures.disk = self.disk.as_ref().map(Disk::stats);
        figures.stuck = self.stuck;
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let tokio = service::runtime()?;
    let secret = args.secret.as_deref().map(service::read_secret).transpose()?;
    if secret.is_none() && !args.listen.ip().is_loopback() {
        say(&format!(
            "warning: --listen {}: anyone who can reach this address can change the state; give --secret",
            args.listen
        ));
    }
    let config = Config {
        secret: secret.unwrap_or_default(),
        seed: service::seed().to_be_bytes(),
        lease_us: args.lease_ms * 1000,
        drift_shift: args.drift,
        shards: args.shards,
        max_keys: args.max_keys,
        pools: args.pool,
        idle: Idle { tcp_s: args.idle_tcp_s, udp_s: args.idle_udp_s, brief_s: args.idle_brief_s },
        ..Config::default()
    };
    let running = Running::open(args.listen, config, args.data.as_deref())?;
    let stopper = running.stopper();
    service::stop_at_signals(&tokio, move || stopper.stop());
    if let Some(at) = args.metrics {
        let (listener, at) = tokio.block_on(listen(at, "--metrics"))?;
        say(&format!("metrics on http://{at}/metrics"));
        tokio.spawn(serve(listener, running.figures.clone()));
    }
    let at = running.address().unwrap_or(args.listen);
    let kept = match &args.data {
        Some(dir) => format!("{} keys in {}", running.store.keys(), dir.display()),
        None => "in memory".to_string(),
    };
    say(&format!("store on {at}, leases of {} ms, {kept}", args.lease_ms));
    say(&running.run(say)?.summary());
    Ok(ExitCode::SUCCESS)
}
