//! `pointsman switch`: a P4 program on Linux interfaces, with P4Runtime.

pub mod args;
mod audit;
mod boot;
mod certificate;
mod clock;
mod device;
pub mod files;
pub mod gnmi;
pub mod grpc;
pub mod log;
pub mod queues;
pub mod runtime;
mod services;
mod shared;
pub mod state_file;
pub mod summary;
pub mod tls;
pub mod wires;
mod worker;

pub use args::{Args, without_separator};

use crate::metrics::Insight;
use boot::{boot, resume, save_on_request};
use files::Delayed;
use log::Level;
use pointsman_compile::executor::Choice;
use pointsman_compile::sources::Sources;
use pointsman_console::say;
use pointsman_control::ServerConfig;
use pointsman_control::proto::gnmi::g_nmi_server::GNmiServer;
use pointsman_control::proto::p4rt::p4_runtime_server::P4RuntimeServer;
use pointsman_ports::pcap::Pace;
use pointsman_ports::{
    PcapPort, PollMode, Port, PortError, Traced, Want, open_interface, open_interface_shared,
};
use pointsman_stf::generator::Numbered;
use pointsman_v1model::{SwitchConfig, Time};
use queues::Setting;
use runtime::{Handle, Runtime};
use services::Services;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::signal::unix::Signal;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use wires::{Watch, Wires};

/// How often a silent client is asked whether it is still there, and how long it may take to answer. A controller
/// whose machine vanished must not stay primary.
const KEEPALIVE: Duration = Duration::from_secs(1);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// A switch port on an interface: `1@veth1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Port number.
    pub number: u32,
    /// Linux interface.
    pub name: String,
}

impl std::str::FromStr for Interface {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("'{s}' {what}: write NUMBER@INTERFACE, such as 1@veth1");
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
    /// Search path of includes.
    pub sources: Sources,
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
            sources: Sources::default(),
            watch: Watch::default(),
            start: Time::ZERO,
        }
    }
}

/// Opens the ports (in the calling thread's network namespace) and makes the switch.
pub fn build(setup: Setup) -> Result<Runtime, String> {
    let mut numbers = BTreeSet::new();
    let mut names = BTreeSet::new();
    for Interface { number, name } in &setup.interfaces {
        if !numbers.insert(*number) {
            return Err(format!("port {number} is given to two interfaces: give each its own number"));
        }
        if !names.insert(name) {
            return Err(format!("interface '{name}' is given to two ports: give each port its own"));
        }
    }
    if let Some(port) = setup.switch.cpu_port.filter(|p| numbers.contains(p)) {
        return Err(format!("port {port} is the control plane port: choose another number, or --cpu-port"));
    }
    if let Some(dir) = &setup.pcap {
        std::fs::create_dir_all(dir).map_err(|e| {
            format!("cannot make {} for captures: {e}; give --pcap a directory", dir.display())
        })?;
    }
    check_workers(&setup, std::thread::available_parallelism().map_or(1, usize::from))?;
    // For each worker, its ports.
    let mut ports: Vec<Vec<(u32, Box<dyn Port>)>> = Vec::new();
    ports.resize_with(setup.workers, Vec::new);
    let mut kinds = Vec::new();
    for Interface { number, name } in &setup.interfaces {
        let (opened, kind) = open(name, &setup)?;
        kinds.push(format!("port {number} ({name}): {kind}"));
        ports.iter_mut().zip(opened).for_each(|(of, port)| of.push((*number, port)));
    }
    let wires = ports.into_iter().enumerate().map(|(n, of)| {
        let mut wires = Wires::new(of, n == 0).map_err(|e| format!("cannot wait for packets: {e}"))?;
        wires.watch = setup.watch;
        Ok(wires)
    });
    let mut wires = wires.collect::<Result<Vec<Wires>, String>>()?;
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
    runtime.set_queues(&setup.queues)?;
    runtime.set_generators(&setup.generators)?;
    Ok(runtime)
}

/// Checks that these workers can share these ports.
fn check_workers(setup: &Setup, processors: usize) -> Result<(), String> {
    let workers = setup.workers;
    let tap = setup.interfaces.iter().find(|i| i.name.starts_with("tap:"));
    let refusal = match workers {
        0 => "at least 1 is needed".to_string(),
        1 => return Ok(()),
        _ if workers > processors => {
            format!("this machine has only {processors} processors: give at most that many")
        }
        _ if setup.use_files.is_some() => {
            "captures are read by one worker: omit --workers or --use-files".to_string()
        }
        _ if setup.pcap.is_some() => {
            "only one worker can record packets: omit --workers or --pcap".to_string()
        }
        _ => match tap {
            Some(tap) => format!("'{}' is a tap, which has only one queue: omit --workers", tap.name),
            None => return Ok(()),
        },
    };
    Err(format!("--workers {workers}: {refusal}"))
}

/// Opens an interface as a port for each worker and returns a description of their kind.
fn open(interface: &str, setup: &Setup) -> Result<(Vec<Box<dyn Port>>, String), String> {
    let text = |e: PortError| e.to_string();
    if let Some(delay) = setup.use_files {
        let port = PcapPort::in_directory(interface, Path::new("."), Pace::Recorded).map_err(text)?;
        return Ok((vec![Box::new(Delayed::new(port, delay))], "captures".to_string()));
    }
    if setup.workers > 1 {
        let (ports, kind) = open_interface_shared(interface, setup.port_kind, setup.workers).map_err(text)?;
        if ports.len() < setup.workers {
            return Err(format!(
                "--workers {}: '{interface}' has {} receive queue(s) for AF_XDP, and each worker needs one: add queues \
                 (`ethtool -L {interface} combined {0}`; for a veth pair at creation, `numrxqueues {0} \
                 numtxqueues {0}` at both ends), or use --port-kind af-packet",
                setup.workers,
                ports.len()
            ));
        }
        return Ok((ports, kind));
    }
    let (port, kind) = open_interface(interface, setup.port_kind).map_err(text)?;
    Ok(match &setup.pcap {
        Some(dir) => (vec![Box::new(Traced::new(port, dir).map_err(text)?)], kind + ", recorded"),
        None => (vec![port], kind),
    })
}

/// Serves P4Runtime and gNMI on `listener` until the switch or the process ends.
pub async fn serve(
    handle: Handle,
    listener: tokio::net::TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
) -> Result<(), String> {
    let service = P4RuntimeServer::new(grpc::Service::new(handle.clone()))
        .max_decoding_message_size(grpc::MAX_MESSAGE_BYTES)
        .max_encoding_message_size(grpc::MAX_MESSAGE_BYTES);
    let services = Services { p4runtime: service, gnmi: GNmiServer::new(gnmi::Service::new(handle.clone())) };
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT));
    let served = match tls {
        None => {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            server.serve_with_incoming(services, incoming).await
        }
        Some(config) => {
            let incoming = ReceiverStream::new(tls::accept(listener, config, handle));
            server.serve_with_incoming(services, incoming).await
        }
    };
    served.map_err(|e| format!("P4Runtime server: {e}"))
}

/// How often metrics look at a part of what takes long to look at, and the number of parts: ten seconds for all.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOK_PARTS: u64 = 200;

/// Looks for metrics, as long as the switch lives.
async fn look(handle: Handle) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if handle.call(|core| core.look(LOOK_PARTS)).await.is_err() {
            return;
        }
    }
}

/// Serves metrics on `listener`.
async fn serve_metrics(listener: tokio::net::TcpListener, handle: Handle) {
    crate::metrics::serve(listener, move || {
        let handle = handle.clone();
        async move {
            let figures = handle.call(|core| core.figures()).await.ok()?;
            let interfaces = handle.interfaces().await.ok()?;
            Some(figures.page(&interfaces))
        }
    })
    .await;
}

/// Exit code of a command line that cannot be honoured.
const USAGE: u8 = 2;

/// Reloads the file of `--queue-file`, if given, at each SIGHUP.
async fn reload(mut hangup: Signal, handle: Handle, path: Option<PathBuf>, fixed: Vec<Setting>) {
    while hangup.recv().await.is_some() {
        let settings = path.as_deref().map(queues::read_file);
        let fixed = fixed.clone();
        let path = path.clone().unwrap_or_default();
        let done = handle.post(move |core| {
            let set = settings.map(|read| read.and_then(|more| core.set_queues(&[fixed, more].concat())));
            match set {
                None => {
                    let line = "SIGHUP: nothing to reload without --queue-file";
                    core.tell(Level::Info, line.to_string());
                }
                Some(Ok(())) => core.tell(Level::Info, format!("queues reloaded from {}", path.display())),
                Some(Err(e)) => core.tell(Level::Error, format!("{e}; queues unchanged")),
            }
        });
        if done.is_err() {
            return;
        }
    }
}

/// Runs the command.
pub fn run(mut args: Args) -> Result<ExitCode, String> {
    let mut log = match args.review() {
        Ok(warnings) => {
            warnings.iter().for_each(|w| say(&format!("warning: {w}")));
            args.log()?
        }
        Err(message) => {
            say(&message);
            return Ok(ExitCode::from(USAGE));
        }
    };
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        // Clients of the control plane do not take processors from packets.
        .on_thread_start(pointsman_ports::lower_priority)
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    let hangup = tokio.block_on(async { pointsman_console::signals::hangup() })?;
    let tls = args.tls().map(|files| tls::load(&files, "h2", SystemTime::now())).transpose()?;
    let mut queues = args.queue.clone();
    if let Some(path) = &args.queue_file {
        queues.extend(queues::read_file(path)?);
    }
    let sources = Sources { include_dirs: args.include };
    let saved = args.state.as_deref().map(state_file::read).transpose().map_err(|e| e.to_string())?.flatten();
    let mut runtime = build(Setup {
        interfaces: args.interface,
        port_kind: args.port_kind.into(),
        poll: args.poll.into(),
        workers: args.workers,
        pcap: args.pcap,
        use_files: args.use_files.map(|s| Duration::from_secs(s.into())),
        switch: SwitchConfig {
            cpu_port: Some(args.cpu_port),
            drop_port: args.drop_port,
            queues_per_port: args.priority_queues,
            queue_depth_packets: args.queue_depth,
            nanoseconds: args.timestamps == args::Timestamps::Ns,
            max_descendants: (args.max_descendants != 0).then_some(args.max_descendants),
            // Outsiders must not learn which keys of a table collide.
            seed: RandomState::new().hash_one(std::process::id()),
            ..SwitchConfig::default()
        },
        executor: args.executor,
        insights: crate::metrics::insights(),
        queues: queues.clone(),
        generators: args.generator.clone(),
        device_id: args.device_id,
        sources: sources.clone(),
        watch: Watch { each: log.wants(Level::Debug), bytes: args.dump_packet_data },
        start: saved.as_ref().map_or(Time::ZERO, |saved| saved.switch.taken()),
    })?;
    match (&saved, &args.file) {
        (Some(saved), file) => {
            resume(&mut runtime, saved, file.as_deref(), &sources, &args.define)?;
            // Those of this command line.
            runtime.set_queues(&queues)?;
            runtime.set_generators(&args.generator)?;
        }
        (None, Some(file)) => boot(&mut runtime, file, &sources, &args.define)?,
        (None, None) => {}
    }
    let handle = runtime.handle();
    let (listener, address) = tokio
        .block_on(async {
            let listener = tokio::net::TcpListener::bind(args.p4runtime).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        })
        .map_err(|e: std::io::Error| {
            format!("cannot listen on {}: {e}; choose another with --p4runtime", args.p4runtime)
        })?;
    let stopper = handle.clone();
    // From here on a signal ends the switch in good order: programs that wait for the line below may rely on it.
    let stop = {
        let _inside = tokio.enter();
        pointsman_console::signals::stop()
    };
    tokio.spawn(async move {
        stop.await;
        stopper.stop();
    });
    tokio.spawn(reload(hangup, handle.clone(), args.queue_file, args.queue));
    if let Some(path) = &args.state {
        let request = tokio.block_on(async { pointsman_console::signals::user() })?;
        tokio.spawn(save_on_request(request, handle.clone(), path.clone()));
    }
    if let Some(at) = args.metrics {
        let listener = tokio.block_on(crate::metrics::bind(at))?;
        say(&format!("metrics on http://{}/metrics", listener.local_addr().unwrap_or(at)));
        tokio.spawn(serve_metrics(listener, handle.clone()));
        tokio.spawn(look(handle.clone()));
    }
    let how = match (&tls, &args.grpc_tls_ca) {
        (None, _) => "",
        (Some(_), None) => ", TLS",
        (Some(_), Some(_)) => ", mutual TLS",
    };
    tokio.spawn(async move {
        if let Err(message) = serve(handle, listener, tls).await {
            say(&message);
        }
    });
    say(&format!("P4Runtime on {address}, device {}{how}", args.device_id));
    runtime.run_until_stopped(|level, line| log.line(level, line))?;
    for line in runtime.summary() {
        say(&line);
    }
    if let Some(path) = &args.state {
        say(&runtime.save(path).map_err(|e| e.to_string())?);
    }
    // Clients that are still connected must not keep it.
    tokio.shutdown_background();
    Ok(ExitCode::SUCCESS)
}
