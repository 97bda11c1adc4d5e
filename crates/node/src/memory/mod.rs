//! `pointsman memory`: memory of this machine for tables of switches, read and written by RDMA (docs/roce.md).

mod client;
mod error;
mod setup;
mod verbs;

pub use client::{Client, ClientError};
use error::ArgumentError;
pub use error::MemoryError;
pub use verbs::{CallError, VerbsError};

use crate::clock::Clock;
use crate::interfaces::{addresses_of, mac_of};
use crate::listen::{address, listen};
use crate::log::{self, Level, Log};
use crate::metrics::memory::{Figures, Work, serve};
use crate::service::{self, Stopper};
use crate::switch::Interface;
use crate::switch::args::PortKind;
use pointsman_ports::{
    FaultConfig, Faults, Frame, FramePool, PollMode, PollStrategy, Poller, Port, Step, Want, mtu,
    open_interface,
};
use pointsman_roce::setup::{self as channel, Memory};
use pointsman_roce::{Host, HostConfig, PORT};
use pointsman_v1model::Time;
use pointsman_v1model::units::{bytes, with_unit};
use pointsman_wire::Mac;
use setup::{Served, lock};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// How often the figures behind the metrics are renewed.
const LOOK: Duration = Duration::from_millis(100);
/// The longest time of a READ with --adverse, in nanoseconds.
const ADVERSE_NS: u64 = 100_000;
/// The least memory.
const SMALLEST: u64 = 4096;

/// Lend memory of this machine to switches: a network adapter for RDMA (RoCEv2), in software; with --verbs a real one.
///
/// A controller gets queue pairs over the set-up channel. Then switches read and write the memory by packets, without programs on this
/// machine but this one.
#[derive(clap::Args)]
pub struct Args {
    /// Port for RoCEv2: NUMBER@INTERFACE. Repeatable. It has the interface's addresses.
    #[arg(short, long = "interface", value_name = "NUMBER@INTERFACE", required = true)]
    interface: Vec<Interface>,
    /// Address of the set-up channel.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4790", value_parser = address)]
    listen: SocketAddr,
    #[command(flatten)]
    log: log::Flags,
    /// Bytes of memory, such as 4096, 512MB or 8GB.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    size: u64,
    /// File with the key of the set-up channel's digests, 16 hexadecimal digits; controllers have the same one. Without it anyone who
    /// reaches the address can read and change the memory.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Let this RDMA device answer, such as `mlx5_0` or `rxe0`, in the place of this program. The interfaces of -i are its ports; needs
    /// libibverbs.
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["adverse", "lose", "port_kind"])]
    verbs: Option<String>,
    /// Do what InfiniBand allows an adapter and harms most: READs take up to 100 us, and read eight bytes at a time. For tests.
    #[arg(long)]
    adverse: bool,
    /// Lose this share of all frames, in each direction. For tests.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    lose: f64,
    /// Socket type of the ports; the log shows which one was chosen. AF_XDP takes all frames of the interface away from the kernel.
    #[arg(long, value_enum, default_value_t)]
    port_kind: PortKind,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    metrics: Option<SocketAddr>,
}

/// The argument of --size.
fn size(text: &str) -> Result<u64, ArgumentError> {
    let wrong = || ArgumentError::Size(text.to_string());
    let size = with_unit(text, &[("", 1)]).or_else(|| bytes(text)).ok_or_else(wrong)?;
    if size < SMALLEST { Err(ArgumentError::Small(size)) } else { Ok(size) }
}

/// The argument of --lose.
fn share(text: &str) -> Result<f64, ArgumentError> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| ArgumentError::Share(text.to_string()))
}

/// Bytes of memory that programs can still get, if the kernel says so.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Numbers and names are used once, and the memory is free.
fn check(interfaces: &[Interface], bytes: u64) -> Result<(), MemoryError> {
    for (n, Interface { number, name }) in interfaces.iter().enumerate() {
        if let Some(other) = interfaces[..n].iter().find(|i| i.number == *number || i.name == *name) {
            let what = if other.name == *name {
                format!("the interface {name}")
            } else {
                format!("number {number}")
            };
            return Err(MemoryError::Twice(what));
        }
    }
    match free_memory().filter(|free| bytes > *free) {
        Some(free) => Err(MemoryError::TooLarge(bytes, free)),
        None => Ok(()),
    }
}

/// A memory server that is ready to run.
pub struct Running {
    host: Arc<Mutex<Host>>,
    ports: Vec<(u32, Box<dyn Port>)>,
    /// Frames that leave, by port.
    out: Vec<Vec<Frame>>,
    pool: FramePool,
    poller: Poller,
    clock: Clock,
    figures: Arc<Mutex<Figures>>,
    stopper: Stopper,
    /// Sockets that hold the UDP ports, so that the kernel sends no ICMP "port unreachable".
    _held: BTreeMap<IpAddr, UdpSocket>,
}

/// Settings of a memory server.
pub struct Settings {
    /// Its ports, opened in the calling thread's network namespace.
    pub interfaces: Vec<Interface>,
    /// Which kind of port they are.
    pub port_kind: Want,
    /// Bytes of memory.
    pub bytes: u64,
    /// Key of the set-up channel's digests.
    pub secret: Option<[u8; 8]>,
    /// Whether READs are slow and see changes in between.
    pub adverse: bool,
    /// Share of frames that are lost, in each direction.
    pub lose: f64,
}

impl Running {
    /// Opens the ports. `log` gets a line for each.
    ///
    /// # Errors
    /// The kernel refuses one of them, or the machine has too little memory.
    pub fn open(settings: Settings, mut log: impl FnMut(Level, &str)) -> Result<Self, MemoryError> {
        check(&settings.interfaces, settings.bytes)?;
        let mut poller = Poller::new().map_err(MemoryError::Wait)?;
        let (mut ports, mut facts, mut held) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (n, Interface { number, name }) in settings.interfaces.iter().enumerate() {
            let longest = mtu(name).map_err(MemoryError::Port)?;
            let addresses = addresses_of(name);
            let mac = mac_of(name).unwrap_or(Mac([0; 6]));
            facts.push((channel::Port { number: *number, mac, addresses: addresses.clone() }, longest));
            for address in addresses.into_iter().filter(|a| !is_link_local(a)) {
                if let Entry::Vacant(place) = held.entry(address) {
                    place.insert(hold(address)?);
                }
            }
            let (port, how) = open_interface(name, settings.port_kind).map_err(MemoryError::Port)?;
            log(Level::Info, &format!("port {number} on {name}: {how}"));
            let faults = Faults { loss: settings.lose, ..Faults::default() };
            let cable = FaultConfig { receive: faults, transmit: faults, ..FaultConfig::default() };
            let port = service::behind(cable, port).map_err(MemoryError::Port)?;
            if let Some(fd) = port.raw_fd() {
                poller.add(n, fd);
            }
            ports.push((*number, port));
        }
        let config = HostConfig {
            bytes: usize::try_from(settings.bytes).unwrap_or(usize::MAX),
            ports: facts,
            secret: settings.secret,
            seed: service::seed(),
            adverse_ns: settings.adverse.then_some(ADVERSE_NS),
            answers_arp: settings.port_kind == Want::AfXdp,
        };
        let host = Host::new(config).map_err(MemoryError::Host)?;
        let (figures, stopper) = (Arc::default(), Stopper::new(poller.waker()));
        Ok(Running {
            out: ports.iter().map(|_| Vec::new()).collect(),
            host: Arc::new(Mutex::new(host)),
            ports,
            pool: FramePool::default(),
            poller,
            clock: Clock::start(Time::ZERO),
            figures,
            stopper,
            _held: held,
        })
    }

    /// Handle to stop it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Runs until it is stopped. `log` gets lines for the operator.
    ///
    /// # Errors
    /// The kernel does not let it wait.
    pub fn run(mut self, mut log: impl FnMut(Level, &str)) -> Result<Figures, MemoryError> {
        let mut strategy = PollStrategy::new(PollMode::Adaptive);
        let (mut frames, mut ready) = (Vec::new(), Vec::new());
        let mut look_at = Instant::now();
        while !self.stopper.is_stopped() {
            let now = self.clock.now().0;
            let taken = self.step(now, &mut frames, &mut log);
            let step = strategy.after(now, taken);
            if taken > 0 && Instant::now() < look_at {
                continue;
            }
            let deadline = self.look();
            look_at = Instant::now() + LOOK;
            if step == Step::Sleep {
                let due = self.ports.iter().filter_map(|(_, p)| p.due()).chain(deadline).min();
                let until = due
                    .map(|at| Instant::now() + Duration::from_nanos(at.saturating_sub(self.clock.now().0)));
                self.poller.wait(until, &mut ready).map_err(MemoryError::Wait)?;
            }
        }
        self.look();
        Ok(self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Takes a batch of each port, and sends the answers: how many frames came.
    fn step(&mut self, now: u64, frames: &mut Vec<Frame>, log: &mut impl FnMut(Level, &str)) -> usize {
        let Running { ports, out, pool, host, .. } = self;
        let numbers: Vec<u32> = ports.iter().map(|(number, _)| *number).collect();
        let mut send = |port: u32, frame: Vec<u8>| {
            if let Some(at) = numbers.iter().position(|n| *n == port) {
                out[at].push(frame);
            }
        };
        let mut taken = 0;
        for (number, port) in ports.iter_mut() {
            if let Err(e) = port.receive(now, pool, frames) {
                log(Level::Warn, &e.to_string());
            }
            taken += frames.len();
            let mut host = lock(host);
            for frame in frames.drain(..) {
                host.receive(now, *number, &frame, &mut send);
                pool.give(frame);
            }
            host.wake(now, &mut send);
        }
        for ((_, port), out) in ports.iter_mut().zip(out) {
            if !out.is_empty() {
                if let Err(e) = port.transmit(now, pool, out) {
                    log(Level::Warn, &e.to_string());
                }
                // Frames that do not fit are lost, as on any network.
                port.discard(pool, out);
            }
        }
        taken
    }

    /// Renews the figures: when delayed answers are due.
    fn look(&mut self) -> Option<u64> {
        let (stats, deadline) = {
            let host = lock(&self.host);
            (host.stats(), host.deadline())
        };
        let ports = self.ports.iter_mut().map(|(n, p)| (*n, p.name().to_string(), p.counters())).collect();
        let figures = Figures { channel: stats.channel, work: Work::Software(stats, ports) };
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures;
        deadline
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Keeps the kernel from answering that the UDP port of RoCEv2 is closed.
fn hold(address: IpAddr) -> Result<UdpSocket, MemoryError> {
    UdpSocket::bind((address, PORT)).map_err(|e| MemoryError::Taken(address, e))
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let log = args.log.open("memory");
    log.end(serve_memory(args, &log))
}

/// What a memory server has besides its queue pairs.
struct Front<'a> {
    tokio: &'a Runtime,
    log: &'a Log,
    /// The set-up channel.
    listener: TcpListener,
    at: SocketAddr,
    metrics: Option<SocketAddr>,
}

impl Front<'_> {
    /// Serves the set-up channel and metrics.
    fn start<S: Served>(
        self,
        server: &Arc<Mutex<S>>,
        memory: &Memory,
        figures: &Arc<Mutex<Figures>>,
        stopper: Stopper,
    ) -> Result<(), Box<dyn Error>> {
        let Front { tokio, log, listener, at, metrics } = self;
        service::stop_at_signals(tokio, move || stopper.stop());
        if let Some(at) = metrics {
            let (listener, at) = tokio.block_on(listen(at, "--metrics"))?;
            log.info(&format!("metrics on http://{at}/metrics"));
            tokio.spawn(serve(listener, figures.clone()));
        }
        tokio.spawn(setup::serve(listener, server.clone()));
        log.info(&format!("memory on {at}: {} bytes, path MTU {}", memory.bytes, memory.mtu));
        Ok(())
    }
}

fn serve_memory(args: Args, log: &Log) -> Result<ExitCode, Box<dyn Error>> {
    let line = |level: Level, text: &str| log.line(level, text, &[]);
    let tokio = service::runtime()?;
    let secret = args.secret.as_deref().map(service::read_secret).transpose()?;
    if secret.is_none() && !args.listen.ip().is_loopback() {
        log.warn(&format!(
            "warning: --listen {}: anyone who can reach this address can read and change the memory; give --secret",
            args.listen
        ));
    }
    let (listener, at) = tokio.block_on(listen(args.listen, "--listen"))?;
    let front = Front { tokio: &tokio, log, listener, at, metrics: args.metrics };
    let figures = if let Some(device) = args.verbs {
        let (interfaces, bytes) = (args.interface, args.size);
        let settings = verbs::Settings { device, interfaces, bytes, secret, seed: service::seed() };
        let running = verbs::Running::open(settings, line)?;
        let memory = lock(&running.server).memory().clone();
        front.start(&running.server, &memory, &running.figures, running.stopper.clone())?;
        running.run(line)?
    } else {
        let settings = Settings {
            interfaces: args.interface,
            port_kind: args.port_kind.into(),
            bytes: args.size,
            secret,
            adverse: args.adverse,
            lose: args.lose,
        };
        let running = Running::open(settings, line)?;
        let memory = lock(&running.host).memory().clone();
        front.start(&running.host, &memory, &running.figures, running.stopper())?;
        running.run(line)?
    };
    log.info(&figures.summary());
    Ok(ExitCode::SUCCESS)
}
