//! `pointsman switch`: a P4 program on Linux interfaces, with P4Runtime.

pub mod args;
mod audit;
mod boot;
mod build_error;
mod certificate;
mod command;
mod device;
pub mod files;
pub mod gnmi;
pub mod grpc;
mod preface;
pub mod queues;
pub mod renew;
pub mod runtime;
mod services;
mod shared;
pub mod state_file;
pub mod summary;
pub mod tls;
pub mod trace;
pub mod wires;
mod worker;

pub use args::{Args, source_of, without_separator};
pub use build_error::{BuildError, NoWorkers};
pub use command::run;
pub use device::{Texts, is_json};

use crate::http::Task;
use crate::log::Level;
use crate::metrics::Insight;
use files::Delayed;
use pointsman_compile::executor::Choice;
use pointsman_control::ServerConfig;
use pointsman_control::proto::gnmi::g_nmi_server::GNmiServer;
use pointsman_control::proto::p4rt::p4_runtime_server::P4RuntimeServer;
use pointsman_control::proto::trace::trace_server::TraceServer;
use pointsman_ports::pcap::Pace;
use pointsman_ports::{
    FaultConfig, PcapPort, PollMode, Port, Traced, Want, open_interface, open_interface_shared,
};
use pointsman_stf::generator::Numbered;
use pointsman_v1model::{SwitchConfig, Time};
use preface::Prefaced;
use queues::Setting;
use runtime::{Handle, Runtime};
use services::Services;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use wires::{Watch, Wires};

/// After how much silence a client is asked whether it is still there, and how long it may take to answer. A controller that hangs, or
/// whose machine vanished, must not stay primary. Controllers answer on a thread that does nothing else but gRPC.
const KEEPALIVE: Duration = Duration::from_millis(500);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// A switch port on an interface: `1@veth1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Port number.
    pub number: u32,
    /// Linux interface.
    pub name: String,
}

/// An argument is not a port on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceError {
    /// The argument.
    pub text: String,
    /// What it lacks.
    pub lack: &'static str,
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' {}: write NUMBER@INTERFACE, such as 1@veth1", self.text, self.lack)
    }
}

impl Error for InterfaceError {}

impl std::str::FromStr for Interface {
    type Err = InterfaceError;

    fn from_str(s: &str) -> Result<Self, InterfaceError> {
        let wrong = |lack| InterfaceError { text: s.to_string(), lack };
        let (number, name) = s.split_once('@').ok_or_else(|| wrong("is not a port"))?;
        if name.is_empty() {
            return Err(wrong("has no interface"));
        }
        let number = number.parse().map_err(|_| wrong("does not begin with a port number"))?;
        Ok(Interface { number, name: name.to_string() })
    }
}

/// Settings of a switch.
pub struct Setup {
    /// Its ports; opened in the caller's network namespace.
    pub interfaces: Vec<Interface>,
    /// Faults of the cables at ports, by port number.
    pub cables: BTreeMap<u32, FaultConfig>,
    /// Which kind of port they are.
    pub port_kind: Want,
    /// How it waits for frames.
    pub poll: PollMode,
    /// Number of packet threads.
    pub workers: usize,
    /// Folder for captures.
    pub pcap: Option<PathBuf>,
    /// Captures in the current folder instead of interfaces, started after this time.
    pub use_files: Option<Duration>,
    /// Everything about the switch but its ports.
    pub switch: SwitchConfig,
    /// How programs run.
    pub executor: Choice,
    /// What metrics show of single programs.
    pub insights: Vec<Box<dyn Insight>>,
    /// Queues that differ from that.
    pub queues: Vec<Setting>,
    /// Packet generators.
    pub generators: Vec<Numbered>,
    /// Device id in P4Runtime.
    pub device_id: u64,
    /// Search path of includes, and what is meant by compiler output for BMv2.
    pub sources: Texts,
    /// Logging of single packets.
    pub watch: Watch,
    /// The switch's time when it starts.
    pub start: Time,
}

impl Default for Setup {
    fn default() -> Self {
        let switch =
            SwitchConfig { cpu_port: Some(510), queue_depth_packets: 1024, ..SwitchConfig::default() };
        Setup {
            interfaces: Vec::new(),
            cables: BTreeMap::new(),
            port_kind: Want::default(),
            poll: PollMode::default(),
            workers: 1,
            pcap: None,
            use_files: None,
            switch,
            executor: Choice::default(),
            insights: Vec::new(),
            queues: Vec::new(),
            generators: Vec::new(),
            device_id: 1,
            sources: Texts::default(),
            watch: Watch::default(),
            start: Time::ZERO,
        }
    }
}

/// Opens the ports (in the calling thread's network namespace) and makes the switch.
///
/// # Errors
/// The settings do not go together, or the kernel does not let it.
pub fn build(setup: Setup) -> Result<Runtime, BuildError> {
    let mut numbers = BTreeSet::new();
    let mut names = BTreeSet::new();
    for Interface { number, name } in &setup.interfaces {
        if !numbers.insert(*number) {
            return Err(BuildError::SamePort(*number));
        }
        if !names.insert(name) {
            return Err(BuildError::SameInterface(name.clone()));
        }
    }
    if let Some(port) = setup.switch.cpu_port.filter(|p| numbers.contains(p)) {
        return Err(BuildError::CpuPort(port));
    }
    if let Some(dir) = &setup.pcap {
        std::fs::create_dir_all(dir).map_err(|e| BuildError::Captures(dir.clone(), e))?;
    }
    check_workers(&setup, std::thread::available_parallelism().map_or(1, usize::from))
        .map_err(|why| BuildError::Workers(setup.workers, why))?;
    // For each worker, its ports.
    let mut ports: Vec<Vec<(u32, Box<dyn Port>)>> = Vec::new();
    ports.resize_with(setup.workers, Vec::new);
    let mut kinds = Vec::new();
    for Interface { number, name } in &setup.interfaces {
        let (opened, kind) = open(*number, name, &setup)?;
        kinds.push(format!("port {number} ({name}): {kind}"));
        ports.iter_mut().zip(opened).for_each(|(of, port)| of.push((*number, port)));
    }
    let wires = ports.into_iter().enumerate().map(|(n, of)| {
        let mut wires = Wires::new(of, n == 0).map_err(BuildError::Wait)?;
        wires.watch = setup.watch;
        Ok(wires)
    });
    let mut wires = wires.collect::<Result<Vec<Wires>, BuildError>>()?;
    if let Some(first) = wires.first_mut() {
        kinds.into_iter().for_each(|line| first.tell(Level::Info, line));
        if setup.workers > 1 {
            let rates = match setup.queues.is_empty() {
                true => "",
                false => "; each has its own queues, with the given depths and rates",
            };
            first.tell(Level::Info, format!("flows are spread over {} workers{rates}", setup.workers));
        }
    }
    let config = SwitchConfig { ports: Some(numbers), ..setup.switch };
    let server = ServerConfig { device_id: setup.device_id, ..ServerConfig::default() };
    let mut runtime =
        Runtime::new(config, setup.executor, server, setup.sources, wires, setup.start, setup.insights)?;
    runtime.set_poll(setup.poll);
    runtime.set_queues(&setup.queues).map_err(BuildError::Queues)?;
    runtime.set_generators(&setup.generators).map_err(BuildError::Generators)?;
    Ok(runtime)
}

/// Checks that these workers can share these ports.
fn check_workers(setup: &Setup, processors: usize) -> Result<(), NoWorkers> {
    let tap = setup.interfaces.iter().find(|i| i.name.starts_with("tap:"));
    match setup.workers {
        0 => Err(NoWorkers::None),
        1 => Ok(()),
        workers if workers > processors => Err(NoWorkers::Processors(processors)),
        _ if setup.use_files.is_some() => Err(NoWorkers::Captured),
        _ if setup.pcap.is_some() => Err(NoWorkers::Recorded),
        _ => tap.map_or(Ok(()), |tap| Err(NoWorkers::Tap(tap.name.clone()))),
    }
}

/// Opens an interface as a port for each worker and returns a description of their kind. Captures have what the switch sends, and what
/// has passed the cable.
fn open(number: u32, interface: &str, setup: &Setup) -> Result<(Vec<Box<dyn Port>>, String), BuildError> {
    let cable = setup.cables.get(&number).copied().unwrap_or_default();
    let behind = |port| crate::service::behind(cable, port);
    if let Some(delay) = setup.use_files {
        let port =
            PcapPort::in_directory(interface, Path::new("."), Pace::Recorded).map_err(BuildError::Port)?;
        let port = behind(Box::new(Delayed::new(port, delay))).map_err(BuildError::Port)?;
        return Ok((vec![port], "captures".to_string()));
    }
    if setup.workers > 1 {
        let shared = open_interface_shared(interface, setup.port_kind, setup.workers);
        let (ports, kind) = shared.map_err(BuildError::Port)?;
        if ports.len() < setup.workers {
            let why = NoWorkers::Queues { interface: interface.to_string(), queues: ports.len() };
            return Err(BuildError::Workers(setup.workers, why));
        }
        let ports = ports.into_iter().map(behind).collect::<Result<_, _>>().map_err(BuildError::Port)?;
        return Ok((ports, kind));
    }
    let (port, kind) = open_interface(interface, setup.port_kind).map_err(BuildError::Port)?;
    let port = behind(port).map_err(BuildError::Port)?;
    Ok(match &setup.pcap {
        Some(dir) => (vec![Box::new(Traced::new(port, dir).map_err(BuildError::Port)?)], kind + ", recorded"),
        None => (vec![port], kind),
    })
}

/// The P4Runtime server failed.
#[derive(Debug)]
pub struct ServeError(tonic::transport::Error);

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P4Runtime server: {}", self.0)
    }
}

impl Error for ServeError {}

/// Serves P4Runtime and gNMI on `listener` until the switch or the process ends.
pub fn serve(
    handle: Handle,
    listener: tokio::net::TcpListener,
    tls: Option<renew::Secure>,
) -> Task<'static, Result<(), ServeError>> {
    serve_within(tls::HANDSHAKE, handle, listener, tls)
}

/// The same, to clients that begin HTTP/2 within this time.
fn serve_within(
    patience: Duration,
    handle: Handle,
    listener: tokio::net::TcpListener,
    tls: Option<renew::Secure>,
) -> Task<'static, Result<(), ServeError>> {
    let service = P4RuntimeServer::new(grpc::Service::new(handle.clone()))
        .max_decoding_message_size(grpc::MAX_MESSAGE_BYTES)
        .max_encoding_message_size(grpc::MAX_MESSAGE_BYTES);
    let services = Services {
        p4runtime: service,
        gnmi: GNmiServer::new(gnmi::Service::new(handle.clone()))
            .max_decoding_message_size(gnmi::MAX_MESSAGE_BYTES),
        trace: TraceServer::new(trace::Service::new(handle.clone())),
    };
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT));
    Box::pin(async move {
        let served = match tls {
            None => {
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                let incoming = incoming.map(|stream| stream.map(|s| Prefaced::new(s, patience)));
                server.serve_with_incoming(services, incoming).await
            }
            Some(config) => {
                let incoming = ReceiverStream::new(tls::accept(listener, config, handle));
                let incoming = incoming.map(|stream| stream.map(|s| Prefaced::new(s, patience)));
                server.serve_with_incoming(services, incoming).await
            }
        };
        served.map_err(ServeError)
    })
}
