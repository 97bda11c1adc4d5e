//! `pointsman store`: RedPlane's state store behind a UDP socket, with its disk and its clock.

mod args;
mod asker;
mod chain;
mod disk;
mod error;
mod etcd_views;
mod shared;
mod socket;
mod views;

pub use args::{Args, Replicate};
pub use asker::AskerError;
pub use error::StoreError;
pub use etcd_views::EtcdViews;
pub use views::{FileViews, Views, ViewsError};

use crate::clock::Clock;
use crate::listen::listen;
use crate::log::{Level, Log};
use crate::metrics::store::{Figures, serve};
use crate::service::{self, Stopper};
use args::{Backend, ChainSettings};
use chain::Node;
use disk::Disk;
use pointsman_ports::Poller;
use pointsman_store::{Config, Outbox, Store};
use pointsman_v1model::Time;
use shared::{Shared, SharedSettings};
use std::error::Error;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
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

/// How the state is kept.
enum Kept {
    /// By this store alone, perhaps on disk.
    Alone {
        store: Box<Store<SocketAddr>>,
        out: Outbox<SocketAddr>,
        disk: Option<Disk>,
        /// The disk refused the last write.
        stuck: bool,
    },
    /// In etcd.
    Shared(Box<Shared>),
    /// By all nodes of a chain.
    Chain(Box<Node>),
}

/// A store that is ready to run.
pub struct Running {
    kept: Kept,
    socket: UdpSocket,
    poller: Poller,
    clock: Clock,
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
        let mut disk = data.map(Disk::open).transpose()?;
        // A former store granted nothing after this moment, if it had the same file.
        let clock = Clock::start(Time::ZERO);
        let known = disk.as_mut().map(|disk| disk.load(0, hold_ns, &mut store)).transpose()?;
        if known != Some(true) {
            store.hold_back(0);
        }
        let poller = Poller::new().map_err(StoreError::Wait)?;
        let kept = Kept::Alone { store: Box::new(store), out: Outbox::default(), disk, stuck: false };
        Running::with(at, kept, poller, clock)
    }

    /// Opens the socket of a store whose state is in etcd.
    fn open_shared(at: SocketAddr, config: Config, settings: SharedSettings) -> Result<Self, StoreError> {
        let shared = Shared::open(settings, config)?;
        let poller = Poller::new().map_err(StoreError::Wait)?;
        Running::with(at, Kept::Shared(Box::new(shared)), poller, Clock::start(Time::ZERO))
    }

    /// Opens the sockets of a node of a chain.
    fn open_node(at: SocketAddr, config: Config, chain: ChainSettings) -> Result<Self, StoreError> {
        let clock = Clock::start(Time::ZERO);
        let mut poller = Poller::new().map_err(StoreError::Wait)?;
        let node = Node::open(chain, config, poller.waker())?;
        poller.add(1, node.socket.as_raw_fd());
        Running::with(at, Kept::Chain(Box::new(node)), poller, clock)
    }

    fn with(at: SocketAddr, kept: Kept, mut poller: Poller, clock: Clock) -> Result<Self, StoreError> {
        let socket = socket::listen(at)?;
        poller.add(0, socket.as_raw_fd());
        let (figures, stopper) = (Arc::default(), Stopper::new(poller.waker()));
        Ok(Running { kept, socket, poller, clock, figures, stopper })
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
    pub fn run(self, mut log: impl FnMut(Level, &str)) -> Result<Figures, StoreError> {
        self.work(&mut log)
    }

    fn work(mut self, log: &mut dyn FnMut(Level, &str)) -> Result<Figures, StoreError> {
        let mut buffer = vec![0; MAX_DATAGRAM];
        let mut ready = Vec::new();
        let mut look_at = Instant::now();
        while !self.stopper.is_stopped() {
            let clock = self.clock;
            let mut more = self.take(&mut buffer);
            if let Kept::Chain(node) = &mut self.kept {
                more |= node.take(|| clock.now().0, log);
            }
            if self.deadline().is_some_and(|at| at <= clock.now().0) {
                self.wake();
            }
            self.finish(log);
            self.warn(log);
            if more && Instant::now() < look_at {
                continue;
            }
            self.look();
            look_at = Instant::now() + LOOK;
            if !more {
                let ns = self.deadline().map(|at| at.saturating_sub(clock.now().0));
                // A disk that refused is asked again, whatever arrives.
                let stuck = matches!(&self.kept, Kept::Alone { stuck: true, .. });
                let ns = if stuck { Some(PAUSE.as_nanos() as u64) } else { ns };
                let until = ns.map(|ns| Instant::now() + Duration::from_nanos(ns));
                self.poller.wait(until, &mut ready).map_err(StoreError::Wait)?;
            }
        }
        if let Kept::Shared(shared) = &mut self.kept
            && shared.serves()
        {
            shared.leave(self.clock.now().0, log);
        }
        self.look();
        Ok(self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn deadline(&self) -> Option<u64> {
        match &self.kept {
            Kept::Alone { store, .. } => store.deadline(),
            Kept::Shared(shared) => Some(shared.deadline()),
            Kept::Chain(node) => Some(node.replica.deadline()),
        }
    }

    fn wake(&mut self) {
        let now = self.clock.now().0;
        match &mut self.kept {
            Kept::Alone { store, out, .. } => store.wake(now, out),
            Kept::Shared(shared) => shared.wake(now),
            Kept::Chain(node) => node.replica.wake(now, &mut node.mail),
        }
    }

    /// Takes the datagrams of switches that have arrived, up to a batch; whether there may be more.
    fn take(&mut self, buffer: &mut [u8]) -> bool {
        for _ in 0..BATCH {
            match self.socket.recv_from(buffer) {
                Ok((length, from)) => {
                    let (now, bytes) = (self.clock.now().0, &buffer[..length]);
                    match &mut self.kept {
                        Kept::Alone { store, out, .. } => store.receive(now, from, bytes, out),
                        Kept::Shared(shared) => {
                            if !shared.receive(now, from, bytes) {
                                return true;
                            }
                        }
                        Kept::Chain(node) => node.replica.receive(now, from, bytes, &mut node.mail),
                    }
                }
                // A former answer found no one: of no interest here.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Keeps all changes, and sends the answers of those that are kept.
    fn finish(&mut self, log: &mut dyn FnMut(Level, &str)) {
        let (clock, now) = (self.clock, self.clock.now().0);
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let out = match &mut self.kept {
            Kept::Alone { store, out, disk, stuck } => {
                if !keep(now, store, disk.as_mut(), stuck, log) {
                    out.clear();
                }
                out
            }
            Kept::Shared(shared) => {
                shared.keep(|| clock.now().0, log);
                &mut shared.out
            }
            Kept::Chain(node) => {
                figures.unsent += node.flush(now, log);
                &mut node.mail.switches
            }
        };
        // A datagram that the kernel does not take is lost, as on any network: switches ask again.
        for (to, datagram) in out.iter() {
            match self.socket.send_to(datagram, to) {
                Ok(_) => figures.sent += 1,
                Err(_) => figures.unsent += 1,
            }
        }
        out.clear();
    }

    /// Says which switches cannot be told apart.
    fn warn(&mut self, log: &mut dyn FnMut(Level, &str)) {
        let shared = match &mut self.kept {
            Kept::Alone { store, .. } => store.shared_numbers(),
            Kept::Shared(shared) => shared.store.shared_numbers(),
            Kept::Chain(node) => node.replica.shared_numbers(),
        };
        for switch in shared {
            let text = format!(
                "two switches have the number {switch}, and both send: give each a switch_id of its own in redplane_config; the one with the \
                 smaller incarnation gets no keys"
            );
            log(Level::Warn, &text);
        }
    }

    fn look(&mut self) {
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match &self.kept {
            Kept::Alone { store, disk, stuck, .. } => {
                figures.disk = disk.as_ref().map(Disk::stats);
                figures.stuck = *stuck;
                &**store
            }
            Kept::Shared(shared) => {
                figures.etcd = Some((shared.serves(), shared.stats()));
                figures.stuck = shared.is_stuck();
                &shared.store
            }
            Kept::Chain(node) => {
                figures.chain = Some(node.figures());
                node.replica.store()
            }
        };
        figures.stats = store.stats();
        figures.keys = store.keys() as u64;
        figures.waiting = store.waiting() as u64;
        figures.ports = store.ports();
    }
}

/// Writes all changes to the disk, if there is one. Without success nothing may be answered, and it is tried again with the next batch.
fn keep(
    now: u64,
    store: &mut Store<SocketAddr>,
    disk: Option<&mut Disk>,
    stuck: &mut bool,
    log: &mut dyn FnMut(Level, &str),
) -> bool {
    let Some(disk) = disk else { return true };
    match disk.write(now, store) {
        Ok(()) => {
            store.saved();
            if std::mem::take(stuck) {
                log(Level::Info, "the disk takes changes again");
            }
            true
        }
        Err(e) => {
            if !std::mem::replace(stuck, true) {
                log(
                    Level::Error,
                    &format!("{e}; switches get no answers until the disk takes their changes"),
                );
            }
            false
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let log = args.log.open("store");
    log.end(serve_switches(args, &log))
}

/// Opens the store; also in words, how it keeps the state.
fn open(args: &Args, config: Config) -> Result<(Running, String), StoreError> {
    Ok(match args.backend()? {
        Backend::Local => {
            let running = Running::open(args.listen, config, args.data.as_deref())?;
            let kept = match (&running.kept, &args.data) {
                (Kept::Alone { store, .. }, Some(dir)) => {
                    format!("{} keys in {}", store.keys(), dir.display())
                }
                _ => "in memory".to_string(),
            };
            (running, kept)
        }
        Backend::Etcd(shared) => {
            let kept = format!("store {} with its state in etcd", shared.me);
            (Running::open_shared(args.listen, config, shared)?, kept)
        }
        Backend::Chain(chain) => {
            let kept = format!("node {} of a chain", chain.me);
            (Running::open_node(args.listen, config, chain)?, kept)
        }
    })
}

fn serve_switches(args: Args, log: &Log) -> Result<ExitCode, Box<dyn Error>> {
    let tokio = service::runtime()?;
    let secret = args.secret.as_deref().map(service::read_secret).transpose()?;
    if secret.is_none() && !args.listen.ip().is_loopback() {
        log.warn(&format!(
            "warning: --listen {}: anyone who can reach this address can change the state; give --secret",
            args.listen
        ));
    }
    let config = args.config(secret);
    let (running, kept) = open(&args, config)?;
    let stopper = running.stopper();
    service::stop_at_signals(&tokio, move || stopper.stop());
    if let Some(at) = args.metrics {
        let (listener, at) = tokio.block_on(listen(at, "--metrics"))?;
        log.info(&format!("metrics on http://{at}/metrics"));
        tokio.spawn(serve(listener, args.certificates()?, running.figures.clone()));
    }
    let at = running.address().unwrap_or(args.listen);
    log.info(&format!("store on {at}, leases of {} ms, {kept}", args.lease_ms));
    let ended = running.run(|level, text| log.line(level, text, &[]))?;
    log.info(&ended.summary());
    Ok(ExitCode::SUCCESS)
}
