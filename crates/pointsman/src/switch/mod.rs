//! `pointsman switch`: a P4 program on Linux interfaces, with P4Runtime.

pub mod grpc;
pub mod runtime;
pub mod wires;

use crate::sources::Sources;
use pointsman_control::ServerConfig;
use pointsman_control::proto::p4rt::p4_runtime_server::P4RuntimeServer;
use pointsman_ports::{AfPacket, AfPacketConfig, Port, Traced};
use pointsman_v1model::SwitchConfig;
use runtime::{Handle, Runtime};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use wires::Wires;

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
        let (number, name) = s
            .split_once('@')
            .ok_or_else(|| format!("'{s}' is no port: write NUMBER@INTERFACE, such as 1@veth1"))?;
        let number = number.parse().map_err(|_| format!("'{number}' in '{s}' is no port number"))?;
        if name.is_empty() {
            return Err(format!("'{s}' names no interface: write NUMBER@INTERFACE, such as 1@veth1"));
        }
        Ok(Interface { number, name: name.to_string() })
    }
}

/// Run a P4 program as a switch on Linux interfaces, with a P4Runtime server.
#[derive(clap::Args)]
pub struct Args {
    /// Program to start with. Without one the switch waits for a controller to send one.
    file: Option<PathBuf>,
    /// Port: NUMBER@INTERFACE. Repeat for each.
    #[arg(short, long = "interface", value_name = "NUMBER@INTERFACE")]
    interface: Vec<Interface>,
    /// Where P4Runtime is served. It has no authentication: think before you leave loopback.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9559")]
    p4runtime: SocketAddr,
    /// Device id in P4Runtime.
    #[arg(long, default_value_t = 1)]
    device_id: u64,
    /// Port number of the control plane: what the program sends there comes out of P4Runtime as packet-in.
    #[arg(long, default_value_t = 510)]
    cpu_port: u32,
    /// Record every port in DIR: <interface>_in.pcap and <interface>_out.pcap.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Packets that each egress queue holds.
    #[arg(long, default_value_t = 1024)]
    queue_depth: u32,
    /// Folder to search for included files; may be given several times.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
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
    let numbers: BTreeSet<u32> = setup.interfaces.iter().map(|i| i.number).collect();
    if numbers.len() != setup.interfaces.len() {
        return Err("two interfaces have the same port number: give each its own".into());
    }
    if numbers.contains(&setup.cpu_port) {
        return Err(format!(
            "port {} is the control plane's: choose another number, or --cpu-port",
            setup.cpu_port
        ));
    }
    if let Some(dir) = &setup.pcap {
        std::fs::create_dir_all(dir)
            .map_err(|e| format!("cannot make {} for captures: {e}", dir.display()))?;
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
        .add_service(service)
        .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener))
        .await
        .map_err(|e| format!("P4Runtime server: {e}"))
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, String> {
    let sources = Sources { include_dirs: args.include.clone() };
    let mut runtime = build(Setup {
        interfaces: args.interface,
        pcap: args.pcap,
        cpu_port: args.cpu_port,
        device_id: args.device_id,
        queue_depth: args.queue_depth,
        sources,
    })?;
    if let Some(file) = &args.file {
        let text =
            crate::sources::flatten_file(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        runtime.boot(&text)?;
    }
    let handle = runtime.handle();
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    let listener = tokio
        .block_on(tokio::net::TcpListener::bind(args.p4runtime))
        .map_err(|e| format!("cannot listen on {}: {e}; choose another with --p4runtime", args.p4runtime))?;
    eprintln!("pointsman: P4Runtime on {}, device {}", args.p4runtime, args.device_id);
    let server = handle.clone();
    tokio.spawn(async move {
        if let Err(message) = serve(server, listener).await {
            eprintln!("pointsman: {message}");
        }
    });
    let stopper = handle.clone();
    tokio.spawn(async move {
        crate::signals::wait_for_stop().await;
        stopper.stop();
    });
    runtime.run(|line| eprintln!("pointsman: {line}"))?;
    Ok(ExitCode::SUCCESS)
}
