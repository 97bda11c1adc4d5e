//! The bed: a rack with two switches, a client, a server, and a host for the store; every program is a process of its own.

use crate::balancer::p4runtime;
use crate::stores::Stores;
use crate::{App, Lease, Options};
use pointsman_balance::config::StoreLink;
use pointsman_lab::process::Process;
use pointsman_lab::rack::{ClientSpec, DeviceKind, DeviceSpec, Host, Link, Mac, Rack, RackSpec, ServerSpec};
use pointsman_lab::{Error, Namespace, Result};
use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The host of the clients.
pub const CLIENT: &str = "client";
/// The host of the first server.
pub const SERVER: &str = "server/cpu";
/// The host of the store.
pub const STORE: &str = "store/cpu";
/// The server's port for connections.
pub const SERVICE: u16 = 8000;
/// Seed of the server's key.
pub const SEED: u64 = 1;

/// Ports of a switch.
const TO_CLIENT: u16 = 1;
pub const TO_STORE: u16 = 3;
const TO_SERVERS: [u16; 2] = [2, 4];
/// The MAC address of both switches towards hosts.
pub const GATEWAY: Mac = Mac([0x02, 0x50, 0x4d, 0, 0, 1]);
/// Writes that wait for their acknowledgement are in the queue of this port, whose interface has no other use.
const BUFFER: u16 = 500;
/// After this time a write is sent again.
const RESEND: &str = "2ms";
/// The key of the digests: it is worth nothing outside of the namespaces.
pub const SECRET: &str = "6661696c6f766572";
/// Bytes of the longest frame to the store: one of a host, 1,514, with the headers of a message around it.
const STORE_FRAME: u32 = 1714;
const ETHERNET: u32 = 14;
/// How long a program may take to start.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Both switches, the store and the server, running.
pub struct Bed {
    /// Namespaces and cables.
    pub rack: Rack,
    /// All files of the run.
    pub folder: PathBuf,
    /// The program under test.
    pub binary: String,
    pub app: App,
    pub lease_ms: u32,
    lease: Lease,
    shards: u16,
    pub protected: bool,
    pub ipv6: bool,
    pcap: Option<PathBuf>,
    switches: [Option<Process>; 2],
    /// The store, or the nodes of the chain.
    pub stores: Stores,
    /// Of the balancer.
    pub controller: Option<Process>,
    _servers: Vec<Process>,
}

/// The rack's description.
fn spec(app: App) -> RackSpec {
    let link = |port, subnet| Link { gateway_mac: GATEWAY, ..Link::in_subnet(port, subnet) };
    let server = |name: &str, port, subnet| ServerSpec {
        name: name.to_owned(),
        devices: vec![DeviceSpec {
            name: "cpu".to_owned(),
            kind: DeviceKind::Cpu,
            link: link(port, subnet),
            speed: 1.0,
        }],
    };
    let servers = app.servers().iter().zip(TO_SERVERS).zip(11..);
    let servers = servers.map(|((name, port), subnet)| server(name, port, subnet));
    RackSpec {
        switches: 2,
        clients: vec![ClientSpec { name: CLIENT.into(), link: link(TO_CLIENT, 0), addresses: 4 }],
        servers: servers.chain([server("store", TO_STORE, 90)]).collect(),
        static_neighbours: true,
        ..RackSpec::demo()
    }
}

/// The subnet between a switch and the store: its own address, the store's, and the length of their prefix.
pub fn store_subnet(switch: usize, ipv6: bool) -> (IpAddr, IpAddr, u8) {
    let subnet = switch as u8 + 1;
    let v4 = |host| Ipv4Addr::new(10, 9, subnet, host);
    // It ends with the bytes of the other one, of which the MAC address is made.
    let v6 =
        |host| Ipv6Addr::from((0xfd09 << 112 | u128::from(subnet) << 64) | u128::from(u32::from(v4(host))));
    if ipv6 { (v6(2).into(), v6(1).into(), 64) } else { (v4(2).into(), v4(1).into(), 24) }
}

fn failed(what: &str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
    let what = format!("cannot {what} {}", path.display());
    move |e| Error::os(what, e)
}

impl Bed {
    /// Builds the rack, and starts everything in it. Switches and store are ready when it returns.
    pub fn start(options: &Options) -> Result<Self> {
        let rack = Rack::build(&spec(options.app))?;
        for switch in 0..2 {
            let (own, store, prefix) = store_subnet(switch, options.ipv6);
            rack.add_neighbour(STORE, switch as u16, (store, prefix), (own, StoreLink::mac_of(own)))?;
        }
        // Otherwise full segments of hosts could not wait at the store.
        rack.set_mtu(STORE, STORE_FRAME - ETHERNET)?;
        let folder = options.folder.clone();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(failed("write", &path))
        };
        options.app.program().map_or(Ok(()), |text| write("main.p4", text))?;
        write("secret", SECRET)?;
        let own = options.own.display().to_string();
        let servers = server_hosts(&rack).map(|host| server(host, &own)).collect::<Result<Vec<_>>>()?;
        let mut bed = Bed {
            rack,
            folder,
            binary: options.binary.display().to_string(),
            app: options.app,
            lease_ms: options.lease_ms,
            lease: options.lease,
            shards: options.shards,
            protected: !options.plain,
            ipv6: options.ipv6,
            pcap: options.pcap.clone(),
            switches: [None, None],
            stores: Stores::new(options),
            controller: None,
            _servers: servers,
        };
        if bed.protected {
            bed.start_stores(options.etcd.as_deref())?;
        }
        bed.start_switch(0)?;
        bed.start_switch(1)?;
        if bed.app.program().is_none() {
            bed.start_controller()?;
        }
        Ok(bed)
    }

    /// Where the client's packets go: to the server, or to the service of several.
    pub fn target(&self) -> Result<Ipv4Addr> {
        match self.app {
            App::Balancer => Ok(self.rack.spec.vip_ipv4),
            _ => Ok(self.rack.host(SERVER)?.link.ipv4),
        }
    }

    /// The hosts of the servers.
    pub fn server_hosts(&self) -> impl Iterator<Item = &Host> {
        server_hosts(&self.rack)
    }

    /// The namespace of a host.
    pub fn namespace(&self, host: &str) -> Result<&Namespace> {
        Ok(&self.rack.host(host)?.namespace)
    }

    /// Where switches send their messages: the address of the store, the same for both, or its group.
    pub fn store_address(&self) -> Result<(IpAddr, Mac)> {
        let link = &self.rack.host(STORE)?.link;
        let own = if self.ipv6 { link.ipv6.into() } else { link.ipv4.into() };
        Ok(self.stores.group().unwrap_or((own, link.mac)))
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// The statements that fill the tables of a switch.
    fn entries(&self, switch: usize, incarnation: u64) -> Result<String> {
        let links = (&self.rack.host(CLIENT)?.link, &self.rack.host(SERVER)?.link);
        let mut text = self.app.entries(switch, links, !self.protected);
        if self.protected {
            let own = store_subnet(switch, self.ipv6).0;
            // Half of a lease is left when it is renewed.
            let renew_ns = u64::from(self.lease_ms) * 500_000;
            let mac = StoreLink::mac_of(own);
            let (store, store_mac) = self.store_address()?;
            let _ = writeln!(
                text,
                "setdefault redplane_config configure(switch_id:{switch}, incarnation:{incarnation}, secret:0x{SECRET}, address:{own}, \
                 store:{store}, mac_src:{mac}, mac_dst:{store_mac}, port:{TO_STORE}, ticks:1000, renew:{renew_ns})\n\
                 mirroring_add 100 {BUFFER}"
            );
        }
        Ok(text)
    }

    /// The flags of a switch that starts with its program and entries, as a new incarnation.
    fn with_program(&self, switch: usize) -> Result<Vec<String>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let file = self.folder.join(format!("entries-{switch}.stf"));
        // Tenths of a second: two starts within one second are two incarnations, and 32 bits last for years.
        let incarnation = (now.as_millis() / 100) & 0xffff_ffff;
        fs::write(&file, self.entries(switch, incarnation as u64)?).map_err(failed("write", &file))?;
        let mut arguments: Vec<String> =
            [&self.path("main.p4"), "--p4runtime", "127.0.0.1:0"].map(String::from).into();
        arguments.extend(["--entries".into(), file.display().to_string()]);
        let mut defines = Vec::new();
        if self.protected {
            let more = ["--timestamps", "ns", "--max-descendants", "0"];
            arguments.extend(more.map(String::from));
            arguments.extend(["-i".into(), format!("{BUFFER}@tap:buffer{switch}")]);
            arguments.extend(["--queue".into(), format!("{BUFFER}=max,8192,delay={RESEND}")]);
            defines
                .extend([format!("REDPLANE_MTU={STORE_FRAME}"), format!("REDPLANE_SHARDS={}", self.shards)]);
            defines.extend(match self.lease {
                Lease::Flow => None,
                Lease::Session => Some("REDPLANE_SESSION_LEASES".into()),
                Lease::Shared => Some("REDPLANE_SHARED_READS".into()),
            });
            defines.extend(self.ipv6.then(|| "REDPLANE_IPV6".into()));
        } else {
            defines.push("PLAIN".into());
        }
        arguments.extend(defines.into_iter().flat_map(|define| ["-D".into(), define]));
        Ok(arguments)
    }

    /// Starts a switch. It has its entries when this returns, unless the controller was not started yet.
    pub fn start_switch(&mut self, switch: usize) -> Result<()> {
        let program = match self.app.program() {
            Some(_) => self.with_program(switch)?,
            None => ["balancer", "--p4runtime", &p4runtime(switch).to_string()].map(String::from).into(),
        };
        let mut arguments = vec!["switch".to_string()];
        arguments.extend(program);
        for port in self.rack.ports_of(switch as u16) {
            arguments.extend(["-i".into(), format!("{}@{}", port.number, port.interface)]);
        }
        if let Some(dir) = &self.pcap {
            arguments.push(format!("--pcap={}", dir.display()));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let times = self.times_ready(switch);
        let mut process = Process::start(&self.rack.switch, &self.binary, &arguments, "")?;
        process.wait_until_said("P4Runtime on ", PATIENCE)?;
        self.switches[switch] = Some(process);
        self.wait_for_controller(switch, times)
    }

    /// Kills a switch, and its links with it. The kernel takes a while to remove the process, for which the links do not wait.
    pub fn kill_switch(&mut self, switch: usize) -> Result<()> {
        self.signal_switch(switch, libc::SIGKILL)?;
        let links = self.rack.set_links(switch as u16, false);
        self.switches[switch] = None;
        links
    }

    /// Restores the links of a switch.
    pub fn restore_links(&self, switch: usize) -> Result<()> {
        self.rack.set_links(switch as u16, true)
    }

    /// Sends a signal to a switch.
    pub fn signal_switch(&mut self, switch: usize, signal: i32) -> Result<()> {
        self.switches[switch].as_mut().map_or(Ok(()), |p| p.signal(signal))
    }

    /// Cuts the first switch's links to client and servers, or restores them: the hosts use the second switch meanwhile.
    pub fn set_traffic(&self, up: bool) -> Result<()> {
        self.rack.set_link(CLIENT, up)?;
        self.server_hosts().try_for_each(|host| self.rack.set_link(&host.name, up))
    }

    /// Cuts the first switch's link to the store, or restores it.
    pub fn set_store_link(&self, up: bool) -> Result<()> {
        self.rack.set_link(STORE, up)
    }

    /// Processes that ended and should not have, with their last words.
    pub fn deaths(&mut self) -> Vec<String> {
        let named = self.switches.iter_mut().zip(["switch 1", "switch 2"]);
        let stores = self.stores.processes.iter_mut().map(|process| (process, "a store"));
        let controller = self.controller.is_some().then_some((&mut self.controller, "the controller"));
        let all = named.chain(stores).chain(controller);
        let dead = |(process, name): (&mut Option<Process>, &str)| {
            let process = process.as_mut()?;
            process.ended().map(|status| format!("{name} ended ({status}): {}", process.said()))
        };
        all.filter_map(dead).collect()
    }
}

fn server_hosts(rack: &Rack) -> impl Iterator<Item = &Host> {
    rack.hosts.iter().filter(|host| host.name != CLIENT && host.name != STORE)
}

/// Starts a server of the connections.
fn server(host: &Host, own: &str) -> Result<Process> {
    let listen = format!("{}:{SERVICE}", host.link.ipv4);
    let arguments = ["workload", "serve", "gflop", "--size", "1", "--workers", "1", "--for", "86400"];
    let seed = SEED.to_string();
    let more = ["--seed", &seed, "--name", &host.name, "--listen", &listen];
    let arguments: Vec<&str> = arguments.into_iter().chain(more).collect();
    Process::start(&host.namespace, own, &arguments, "")
}
