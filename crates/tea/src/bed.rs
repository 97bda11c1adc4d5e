//! The bed: hosts that send and receive, a switch, memory servers, each a process in a namespace of its own, and a second network between
//! the servers and the controller.

use crate::controller::{PAIRS, PLACES};
use crate::{Fault, Held, Move, Options, nftables};
use pointsman_lab::process::Process;
use pointsman_lab::rack::{ClientSpec, DeviceKind, DeviceSpec, Link, Rack, RackSpec, ServerSpec};
use pointsman_lab::{Error, Result};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// The host that sends, and its port.
pub const SENDER: (&str, u16) = ("sender", 1);
/// Where packets with an entry go.
pub const FOUND: (&str, u16) = ("found", 2);
/// Where packets without one go.
pub const UNKNOWN: (&str, u16) = ("unknown", 3);
/// The port of the first memory server.
pub const SERVER: u16 = 10;
/// Packets that wait for a credit are in the queue of this port, whose interface has no other use.
pub const WAIT: u16 = 500;
/// The port on whose way a packet with two keys returns to the parser (`TEA_LOOP`).
pub const LOOP: u16 = 510;
/// How long.
const WAIT_QUEUE: &str = "500=max,1024,delay=200us";
/// With [`Fault::Congestion`] links to memory servers have so many bits a second, and the switch holds so many bytes for each, for 10 ms.
pub const LINK_BIT_S: u64 = 40_000_000;
const LINK_BYTES: u64 = LINK_BIT_S / 8 / 100;
/// Packets by which the data plane sees that a port is down, or asks servers whether they answer again: as port 508, one for each queue pair.
const PORT_DOWN: &str = "1:port-down,port=508,template=00";
const PROBES: &str = "2:period=10ms,port=508,template=00,packets=";
/// Packets of 1,514 bytes fit one answer of the path MTU 2,048.
const MTU: u32 = 3000;
/// What a tunnel carries: the longest packet that is looked up, in any tunnel.
pub const TUNNEL_MTU: u16 = 1600;
/// The set-up channel's and the metrics' ports.
const SETUP: u16 = 4790;
const METRICS: u16 = 9404;
/// The key of the set-up channel's digests: it is worth nothing outside of the namespaces.
pub const SECRET: [u8; 8] = *b"tea-bed!";
/// What a switch says, with the address, when it serves.
const P4RUNTIME: &str = "P4Runtime on ";
/// How long a program may take to start; a memory server may be a virtual machine.
const PATIENCE: Duration = Duration::from_secs(30);
const SERVER_PATIENCE: Duration = Duration::from_secs(200);

/// Everything that runs.
pub struct Bed {
    /// Namespaces and cables. The second switch's place is the controller's network.
    pub rack: Rack,
    /// `None`: it was ended.
    servers: Vec<Option<Process>>,
    /// What forwards packets.
    pub switch: Switch,
}

/// What is between the hosts.
pub enum Switch {
    /// A switch, and the address of P4Runtime in its namespace.
    Program(Process, String),
    /// The kernel, and the program by which it gets rules.
    Kernel(String),
}

/// The host of a memory server.
pub fn host(server: usize) -> String {
    format!("m{server}/cpu")
}

/// Addresses of a memory server and of the controller on the link between them.
pub fn management(server: usize) -> (Ipv4Addr, Ipv4Addr) {
    let at = |host| Ipv4Addr::new(10, 8, server as u8, host);
    (at(1), at(2))
}

/// Memory servers, the one that a table moves to included.
fn servers(options: &Options) -> usize {
    match options.held {
        Held::Servers => options.servers + usize::from(options.moves == Some(Move::Add)),
        Held::Nowhere => 1,
        Held::Switch | Held::Kernel => 0,
    }
}

/// The program of both switches with [`Held::Nowhere`]: the one under test, and that in the first memory server's place, which returns all packets.
const ECHO: &str = include_str!("echo.p4");

fn spec(servers: usize) -> RackSpec {
    let client = |(name, port): (&str, u16)| ClientSpec {
        name: name.into(),
        link: Link::in_subnet(port, port as u8),
        addresses: 1,
    };
    let server = |i: usize| ServerSpec {
        name: format!("m{i}"),
        devices: vec![DeviceSpec {
            name: "cpu".into(),
            kind: DeviceKind::Cpu,
            link: Link::in_subnet(SERVER + i as u16, 110 + i as u8),
            speed: 1.0,
        }],
    };
    RackSpec {
        switches: 2,
        clients: [SENDER, FOUND, UNKNOWN].map(client).into(),
        servers: (0..servers).map(server).collect(),
        mtu: MTU,
        static_neighbours: true,
        ..RackSpec::demo()
    }
}

fn failed(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let what = format!("cannot {what} {}", path.display());
    move |e| Error::os(what, e)
}

impl Bed {
    /// Builds the rack and starts everything. `bytes`: memory of each server.
    pub fn start(options: &Options, bytes: u64) -> Result<Self> {
        let count = servers(options);
        let nft = (options.held == Held::Kernel).then(|| nftables::program(options.app)).transpose()?;
        let rack = Rack::build(&spec(count))?;
        let secret = options.folder.join("secret");
        let digits: String = SECRET.iter().map(|b| format!("{b:02x}")).collect();
        fs::write(&secret, digits).map_err(failed("write", &secret))?;
        let echo = options.folder.join("echo.p4");
        fs::write(&echo, ECHO).map_err(failed("write", &echo))?;
        let echo = (options.held == Held::Nowhere).then_some(echo.as_path());
        let binary = options.binary.display().to_string();
        let memory = options.memory.as_ref().filter(|_| options.held == Held::Servers);
        let memory = memory.map_or(binary.clone(), |m| m.display().to_string());
        let mut servers = Vec::new();
        for i in 0..count {
            let (own, controller) = management(i);
            let mac = rack.host(&host(i))?.link.gateway_mac;
            rack.add_neighbour(&host(i), 1, (own.into(), 24), (controller.into(), mac))?;
            rack.address_switch(&host(i), 1, (controller.into(), 24))?;
            let (mut arguments, ready) = match echo {
                None => (memory_arguments(options, own, bytes, &secret), "memory on "),
                Some(program) => (echo_arguments(program), P4RUNTIME),
            };
            arguments.extend(["--metrics".into(), SocketAddr::from((own, METRICS)).to_string()]);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let namespace = &rack.host(&host(i))?.namespace;
            let mut process = Process::start(namespace, &memory, &arguments, "")?;
            process.wait_until_said(ready, SERVER_PATIENCE)?;
            servers.push(Some(process));
        }
        let switch = match nft {
            Some(nft) => Switch::Kernel(nft),
            None => start_switch(options, &rack, &binary, echo)?,
        };
        Ok(Bed { rack, servers, switch })
    }

    /// Address of a server's set-up channel.
    pub fn setup(server: usize) -> SocketAddr {
        (management(server).0, SETUP).into()
    }

    /// The address of the first memory server, if there is one.
    pub fn first_server(&self) -> Result<Option<Ipv4Addr>> {
        let first = self.servers.first().map(|_| self.rack.host(&host(0)));
        Ok(first.transpose()?.map(|host| host.link.ipv4))
    }

    /// Sends a signal to a memory server.
    pub fn signal_server(&mut self, server: usize, signal: i32) -> Result<()> {
        self.servers.get_mut(server).and_then(Option::as_mut).map_or(Ok(()), |p| p.signal(signal))
    }

    /// Ends a memory server; it does not return.
    pub fn end_server(&mut self, server: usize) -> Result<()> {
        self.signal_server(server, libc::SIGKILL)?;
        drop(self.servers.get_mut(server).and_then(Option::take));
        Ok(())
    }

    /// Cuts the switch's link to a memory server, or restores it.
    pub fn set_link(&self, server: usize, up: bool) -> Result<()> {
        self.rack.set_link(&host(server), up)
    }

    /// READs that each server has answered, from its metrics. A network adapter does not count them.
    pub fn reads(&self) -> Result<Vec<Option<u64>>> {
        (0..self.servers.len())
            .map(|i| {
                if self.servers[i].is_none() {
                    return Ok(None);
                }
                let at = SocketAddr::from((management(i).0, METRICS));
                let page = self.rack.switch.enter(|| metrics(at))??;
                let value = page.lines().find_map(|l| {
                    l.strip_prefix("pointsman_memory_messages_total{result=\"read\"} ")?.parse::<f64>().ok()
                });
                Ok(value.map(|n| n as u64))
            })
            .collect()
    }

    /// Processes that ended and should not have, with their last words.
    pub fn deaths(&mut self) -> Vec<String> {
        let servers = self
            .servers
            .iter_mut()
            .enumerate()
            .filter_map(|(i, p)| Some((format!("memory server {i}"), p.as_mut()?)));
        let switch = match &mut self.switch {
            Switch::Program(process, _) => Some(("the switch".to_string(), process)),
            Switch::Kernel(_) => None,
        };
        let all = servers.chain(switch);
        all.filter_map(|(name, p)| p.ended().map(|status| format!("{name} ended ({status}): {}", p.said())))
            .collect()
    }
}

fn memory_arguments(options: &Options, own: Ipv4Addr, bytes: u64, secret: &Path) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["memory", "-i", "0@eth0", "-i", "1@eth1", "--listen"].map(String::from).into();
    arguments.push(SocketAddr::from((own, SETUP)).to_string());
    arguments.extend(["--size".into(), bytes.to_string()]);
    arguments.extend(["--secret".into(), secret.display().to_string()]);
    if options.adverse {
        arguments.push("--adverse".into());
    }
    if options.fault == Fault::Loss {
        arguments.extend(["--lose", "0.005"].map(String::from));
    }
    arguments
}

fn echo_arguments(program: &Path) -> Vec<String> {
    let program = program.display().to_string();
    ["switch", &program, "-i", "0@eth0", "--p4runtime", "127.0.0.1:0"].map(String::from).into()
}

/// `program`: it starts with this one instead of waiting for the controller's.
fn start_switch(options: &Options, rack: &Rack, binary: &str, program: Option<&Path>) -> Result<Switch> {
    let program = program.map_or("--no-p4".into(), |path| path.display().to_string());
    let mut arguments: Vec<String> =
        ["switch", &program, "--p4runtime", "127.0.0.1:0", "--timestamps", options.app.tick().0]
            .map(String::from)
            .into();
    arguments.extend(["--max-descendants", "0", "--cpu-port", options.app.cpu_port()].map(String::from));
    for port in rack.ports_of(0) {
        arguments.extend(["-i".into(), format!("{}@{}", port.number, port.interface)]);
    }
    arguments.extend(["-i".into(), format!("{WAIT}@tap:wait"), "--queue".into(), WAIT_QUEUE.into()]);
    if options.app.keys() > 1 {
        arguments.extend(["-i".into(), format!("{LOOP}@tap:loop")]);
    }
    let servers = if options.fault == Fault::Congestion { options.servers as u16 } else { 0 };
    for port in SERVER..SERVER + servers {
        arguments.extend(["--queue".into(), format!("{port}={LINK_BIT_S}bit,{LINK_BYTES}B")]);
    }
    if options.copies > 1 && options.held == Held::Servers {
        // A table that moves has servers with higher numbers.
        let servers = if options.moves.is_some() { PLACES } else { options.servers };
        let probes = format!("{PROBES}{}", servers * PAIRS as usize);
        arguments.extend(["--generator".into(), PORT_DOWN.into(), "--generator".into(), probes]);
    }
    if let Some(dir) = &options.pcap {
        arguments.push(format!("--pcap={}", dir.display()));
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut process = Process::start(&rack.switch, binary, &arguments, "")?;
    process.wait_until_said(P4RUNTIME, PATIENCE)?;
    let said = process.line_with(P4RUNTIME);
    let p4runtime = said.and_then(|l| l.split(P4RUNTIME).nth(1)?.split([',', ' ']).next().map(String::from));
    let p4runtime = p4runtime.ok_or_else(|| Error::new("the switch does not say where P4Runtime is"))?;
    Ok(Switch::Program(process, p4runtime))
}

/// The page of metrics at an address.
fn metrics(at: SocketAddr) -> Result<String> {
    use pointsman_node::http::client::{Ask, ask};
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let tokio = tokio.map_err(|e| Error::os("cannot start a client of HTTP", e))?;
    let url = format!("http://{at}/metrics");
    let asked = tokio.block_on(ask(Ask { method: "GET", url: &url, ..Ask::default() }, PATIENCE));
    let (_, body) = asked.map_err(|e| Error::new(format!("{url}: {e}")))?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// The address of a memory server for the switch: the first of IPv4 or of IPv6, not a link-local one.
pub fn of_family(addresses: &[IpAddr], ipv6: bool) -> Option<IpAddr> {
    let fits = |a: &&IpAddr| match a {
        IpAddr::V4(_) => !ipv6,
        IpAddr::V6(a) => ipv6 && !a.is_unicast_link_local(),
    };
    addresses.iter().find(fits).copied()
}
