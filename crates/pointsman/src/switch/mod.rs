//! `pointsman switch`: a P4 program on Linux interfaces, with P4Runtime.

pub mod grpc;
pub mod runtime;
pub mod summary;
pub mod wires;

use crate::compiler;
use crate::console::{say, show};
use crate::sources::{Sources, balancer, flatten_file, parse_define};
use pointsman_control::ServerConfig;
use pointsman_control::proto::p4rt::p4_runtime_server::P4RuntimeServer;
use pointsman_frontend::Define;
use pointsman_ports::{AfPacket, AfPacketConfig, Port, Traced};
use pointsman_v1model::SwitchConfig;
use runtime::{Handle, Runtime};
use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tonic::transport::server::TcpIncoming;
use wires::Wires;

/// How often a silent client is asked whether it is still there, and how long it may take to answer. A controller
/// whose machine vanished must not stay primary.
const KEEPALIVE: Duration = Duration::from_secs(10);

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
        let (number, name) = s.split_once('@').ok_or_else(|| wrong("is no port"))?;
        if name.is_empty() {
            return Err(wrong("names no interface"));
        }
        let number = number.parse().map_err(|_| wrong("does not begin with a port number"))?;
        Ok(Interface { number, name: name.to_string() })
    }
}

/// The argument of `--p4runtime`: an address or a name, and a port.
fn parse_address(s: &str) -> Result<SocketAddr, String> {
    let wrong = |e: std::io::Error| format!("{e}: write ADDRESS:PORT, such as 127.0.0.1:9559 or [::1]:9559");
    let none = || std::io::Error::other("the name has no address");
    s.to_socket_addrs().and_then(|mut all| all.next().ok_or_else(none)).map_err(wrong)
}

/// Run a P4 program as a switch on Linux interfaces, with a P4Runtime server.
#[derive(clap::Args)]
pub struct Args {
    /// Program to start with: a P4 file, or `balancer` for the one that is built in. Without one the switch waits for a
    /// controller to send one.
    file: Option<PathBuf>,
    /// Port: NUMBER@INTERFACE. Repeat for each.
    #[arg(short, long = "interface", value_name = "NUMBER@INTERFACE", allow_hyphen_values = true)]
    interface: Vec<Interface>,
    /// Where P4Runtime is served; port 0 takes a free one and says which. It has no authentication: think before you
    /// leave loopback.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9559",
        value_parser = parse_address
    )]
    p4runtime: SocketAddr,
    /// Device id in P4Runtime.
    #[arg(long, default_value_t = 1)]
    device_id: u64,
    /// Port number of the control plane: what the program sends there comes out of P4Runtime as packet-in.
    #[arg(long, default_value_t = 510)]
    cpu_port: u32,
    /// Record every port in DIR: INTERFACE_in.pcap and INTERFACE_out.pcap.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Packets that each egress queue holds.
    #[arg(long, default_value_t = 1024)]
    queue_depth: u32,
    /// Folder to search for included files; may be given several times.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro to define.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    define: Vec<Define>,
}

/// What a switch needs to run.
pub struct Setup {
    /// Its ports; opened in the caller's network namespace.
    pub interfaces: Vec<Interface>,
    /// Where captures go.
    pub pcap: Option<PathBuf>,
    /// Port of the control plane.
    pub cpu_port: u32,
    /// Device id in P4Runtime.
    pub device_id: u64,
    /// Packets per egress queue.
    pub queue_depth: u32,
    /// Where includes are found.
    pub sources: Sources,
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
    if numbers.contains(&setup.cpu_port) {
        return Err(format!(
            "port {} is the control plane's: choose another number, or --cpu-port",
            setup.cpu_port
        ));
    }
    if let Some(dir) = &setup.pcap {
        std::fs::create_dir_all(dir).map_err(|e| {
            format!("cannot make {} for captures: {e}; give --pcap a directory", dir.display())
        })?;
    }
    let mut ports: Vec<(u32, Box<dyn Port>)> = Vec::new();
    for interface in &setup.interfaces {
        let port = AfPacket::open(&interface.name, AfPacketConfig::default()).map_err(|e| e.to_string())?;
        let port: Box<dyn Port> = match &setup.pcap {
            Some(dir) => Box::new(Traced::new(port, dir).map_err(|e| e.to_string())?),
            None => Box::new(port),
        };
        ports.push((interface.number, port));
    }
    let wires = Wires::new(ports).map_err(|e| format!("cannot wait for packets: {e}"))?;
    let config = SwitchConfig {
        ports: Some(numbers),
        cpu_port: Some(setup.cpu_port),
        queue_depth_packets: setup.queue_depth,
        ..SwitchConfig::default()
    };
    let server = ServerConfig { device_id: setup.device_id, ..ServerConfig::default() };
    Runtime::new(config, server, setup.sources, wires)
}

/// Serves P4Runtime on `listener` until the switch or the process ends.
pub async fn serve(handle: Handle, listener: tokio::net::TcpListener) -> Result<(), String> {
    let service = P4RuntimeServer::new(grpc::Service::new(handle))
        .max_decoding_message_size(grpc::MAX_MESSAGE_BYTES)
        .max_encoding_message_size(grpc::MAX_MESSAGE_BYTES);
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(service)
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await
        .map_err(|e| format!("P4Runtime server: {e}"))
}

/// Compiles `file`, says what is wrong with it, and starts with it.
fn boot(runtime: &mut Runtime, file: &Path, sources: &Sources, defines: &[Define]) -> Result<(), String> {
    if file == Path::new("balancer") && !file.exists() {
        let config = balancer();
        let compiled =
            compiler::compile("balancer", &config, sources, defines).map_err(|e| compiler::rendered(&e))?;
        return runtime.boot(&compiled.program, &config);
    }
    let (compiled, warnings) = compiler::compile_file(file, sources, defines)?;
    show(&warnings);
    // Controllers may ask for it. What came by -I and -D is not in it.
    let config = flatten_file(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    runtime.boot(&compiled.program, &config)
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, String> {
    let sources = Sources { include_dirs: args.include };
    let mut runtime = build(Setup {
        interfaces: args.interface,
        pcap: args.pcap,
        cpu_port: args.cpu_port,
        device_id: args.device_id,
        queue_depth: args.queue_depth,
        sources: sources.clone(),
    })?;
    if let Some(file) = &args.file {
        boot(&mut runtime, file, &sources, &args.define)?;
    }
    let handle = runtime.handle();
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
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
    // From here on a signal ends the switch in good order: whoever waits for the line below may rely on it.
    let stop = {
        let _inside = tokio.enter();
        crate::signals::stop()
    };
    tokio.spawn(async move {
        stop.await;
        stopper.stop();
    });
    tokio.spawn(async move {
        if let Err(message) = serve(handle, listener).await {
            say(&message);
        }
    });
    say(&format!("P4Runtime on {address}, device {}", args.device_id));
    runtime.run_until_stopped(say)?;
    for line in runtime.summary() {
        say(&line);
    }
    // Clients that are still connected must not keep it.
    tokio.shutdown_background();
    Ok(ExitCode::SUCCESS)
}
