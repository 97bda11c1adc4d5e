//! Test beds: a client, a device under test, servers; all in namespaces of this process.

use super::WireError;
use super::forwarder::Forwarder;
use pointsman_balance as balance;
use pointsman_balance::config::file::{
    DeviceSection, RackFile, ServerSection, ServiceSection, SwitchSection,
};
use pointsman_balance::config::{NextHop, Route};
use pointsman_compile::executor::Choice;
use pointsman_console::show;
use pointsman_lab::Namespace;
use pointsman_lab::process::Process;
use pointsman_lab::rack::{
    ClientSpec, DeviceKind, DeviceSpec, Link, Mac, Rack, RackSpec, ServerSpec, allow_many_connections, join,
    join_without_offloads,
};
use pointsman_live::{Live, Log, Ports};
use pointsman_ports::Want;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Port of the service.
pub const PORT: u16 = 8000;

/// Start-up timeout.
const PATIENCE: Duration = Duration::from_secs(20);

/// The switch's own Ethernet address.
pub const SWITCH_MAC: Mac = Mac([0x02, 0x50, 0x4d, 0, 0, 1]);

/// Ethernet address that the switch uses for its device where packets are only counted. It belongs to no interface: so the
/// kernel behind the counter drops them as early as those from the bare forwarder, which are not for it either.
const NOBODY: Mac = Mac([0x02, 0x50, 0x4d, 0, 0, 2]);

/// The device under test, kept running until it is dropped.
#[allow(dead_code, reason = "held, not used")]
enum Middle {
    /// A cable.
    Nothing,
    /// Bare ports.
    Forwarder(Forwarder),
    /// Our switch.
    Switch(Box<Live>),
    /// The kernel, or a program of others.
    Kernel(Vec<Process>),
}

/// One arrangement. Dropping it removes it.
pub struct Bed {
    /// The device under test.
    pub name: String,
    /// The client.
    pub client: Namespace,
    /// The client's interface.
    pub client_interface: String,
    /// Source addresses of the client.
    pub sources: Vec<std::net::IpAddr>,
    /// The servers: namespace, interface, address.
    pub servers: Vec<(Namespace, String, std::net::Ipv4Addr)>,
    /// Destination of requests.
    pub target: SocketAddr,
    /// Settings that the kernel refused.
    pub warnings: Vec<String>,
    /// Of the ports in the middle, if it has any.
    kind: Option<Want>,
    /// The threads in the middle, by the kernel's numbers.
    threads: BTreeSet<u32>,
    // Fields are dropped in this order: users of the namespaces first.
    middle: Middle,
    rack: Option<Rack>,
}

/// The threads of this process.
fn threads() -> BTreeSet<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// A client with eight addresses on port 1 and this many servers with one device each.
fn spec(servers: u8) -> RackSpec {
    let server = |n: u8| ServerSpec {
        name: format!("s{n}"),
        devices: vec![DeviceSpec {
            name: "cpu".into(),
            kind: DeviceKind::Cpu,
            link: Link::in_subnet(u16::from(n) + 1, n * 10 + 1),
            speed: 1.0,
        }],
    };
    RackSpec {
        clients: vec![ClientSpec { name: "client".into(), link: Link::in_subnet(1, 0), addresses: 8 }],
        servers: (1..=servers).map(server).collect(),
        offloads: true,
        ..RackSpec::demo()
    }
}

/// The rack.toml of such a rack. No agents run: devices are in use whether or not they report. `counted`: packets are
/// only counted, without answers.
fn description(spec: &RackSpec, counted: bool) -> RackFile {
    let device = |device: &DeviceSpec| DeviceSection {
        address: Some(device.link.ipv4),
        mac: Some(if counted { NOBODY } else { device.link.mac }),
        ..DeviceSection::new(&device.name, balance::DeviceKind::Cpu, device.link.port)
    };
    let server = |server: &ServerSpec| ServerSection {
        name: server.name.clone(),
        devices: server.devices.iter().map(device).collect(),
        ..ServerSection::default()
    };
    let route = |client: &ClientSpec| Route {
        // Wide enough for the sources of many flows.
        prefix: balance::Prefix::containing([10, 0, 0, 0].into(), 24),
        port: client.link.port,
        hop: NextHop::Mac(client.link.mac),
    };
    RackFile {
        switch: SwitchSection {
            mac: SWITCH_MAC,
            gateways: spec.hosts().map(|(_, link)| link.gateway_ipv4.into()).collect(),
            report_timeout_ms: Some(0),
            ..SwitchSection::default()
        },
        routes: spec.clients.iter().map(route).collect(),
        servers: spec.servers.iter().map(server).collect(),
        services: vec![ServiceSection {
            vips: vec![spec.vip_ipv4.into()],
            protocols: vec![balance::Protocol::Udp, balance::Protocol::Tcp],
            idle_timeout_ms: Some(60_000),
            ..ServiceSection::new("bench", PORT, balance::Policy::Ecmp)
        }],
        ..RackFile::default()
    }
}

impl Bed {
    fn of(name: &str, rack: &Rack, middle: Middle) -> Result<Self, WireError> {
        let client = rack.host("client")?;
        let servers: Vec<_> = rack
            .hosts
            .iter()
            .filter(|h| h.name != "client")
            .map(|h| (h.namespace.clone(), h.interface.clone(), h.link.ipv4))
            .collect();
        let mut warnings = rack.warnings.clone();
        let spec = rack.spec.clients.first().ok_or(WireError::Lacks("client"))?;
        for namespace in [&client.namespace, &rack.switch].into_iter().chain(servers.iter().map(|s| &s.0)) {
            warnings.extend(allow_many_connections(namespace)?);
        }
        Ok(Self {
            name: name.to_string(),
            client: client.namespace.clone(),
            client_interface: client.interface.clone(),
            sources: spec.ipv4_addresses(),
            servers,
            target: SocketAddr::new(rack.spec.vip_ipv4.into(), PORT),
            warnings,
            kind: None,
            threads: BTreeSet::new(),
            middle,
            rack: Some(rack.clone()),
        })
    }

    /// A cable between client and server.
    ///
    /// # Errors
    /// The kernel refuses namespaces or devices.
    pub fn direct(offloads: bool) -> Result<Self, WireError> {
        let client_link = Link::in_subnet(1, 0);
        let mut server_link = client_link.clone();
        std::mem::swap(&mut server_link.ipv4, &mut server_link.gateway_ipv4);
        std::mem::swap(&mut server_link.ipv6, &mut server_link.gateway_ipv6);
        std::mem::swap(&mut server_link.mac, &mut server_link.gateway_mac);
        let client = Namespace::new("client")?;
        let server = Namespace::new("server")?;
        let cable = if offloads { join } else { join_without_offloads };
        let mut warnings = cable((&client, &client_link), (&server, &server_link), 1500)?;
        for namespace in [&client, &server] {
            warnings.extend(allow_many_connections(namespace)?);
        }
        Ok(Self {
            name: if offloads { "direct" } else { "direct without offloads" }.to_string(),
            client,
            client_interface: "eth0".into(),
            sources: vec![client_link.ipv4.into()],
            servers: vec![(server, "eth0".into(), server_link.ipv4)],
            target: SocketAddr::new(server_link.ipv4.into(), PORT),
            warnings,
            kind: None,
            threads: BTreeSet::new(),
            middle: Middle::Nothing,
            rack: None,
        })
    }

    /// Bare ports between a client and one server, for the measured traffic only: addresses are unchanged.
    ///
    /// # Errors
    /// As of [`Bed::direct`], or an interface cannot be a port.
    pub fn bare(kind: Want) -> Result<Self, WireError> {
        let before = threads();
        let rack = Rack::build(&spec(1))?;
        let interfaces: Vec<&str> = rack.ports.iter().map(|p| p.interface.as_str()).collect();
        let [first, second] = interfaces[..] else { return Err(WireError::Lacks("second port")) };
        let forwarder = Forwarder::start(&rack.switch, [first, second], kind)?;
        let bed = Self::of(&format!("bare {}", kind.name()), &rack, Middle::Forwarder(forwarder))?;
        Ok(Self { kind: Some(kind), threads: &threads() - &before, ..bed })
    }

    /// Our switch with the balancer. `counted`: one server, which only counts; else two that answer.
    ///
    /// # Errors
    /// As of [`Bed::bare`], or switch or controller do not come up.
    pub fn balancer(kind: Want, counted: bool, verbose: bool) -> Result<Self, WireError> {
        let spec = spec(if counted { 1 } else { 2 });
        let log: Log = Arc::new(Mutex::new(move |line: &str| {
            if verbose {
                show(&format!("{line}\n"));
            }
        }));
        let before = threads();
        let mut live = Live::start_on(
            &spec,
            Vec::new(),
            &description(&spec, counted),
            Choice::default(),
            Ports { kind, workers: 1 },
            log,
        )?;
        live.start_controller()?;
        live.wait_in_sync(PATIENCE)?;
        let rack = live.rack.clone();
        let bed = Self::of(&format!("pointsman {}", kind.name()), &rack, Middle::Switch(Box::new(live)))?;
        Ok(Self { kind: Some(kind), threads: &threads() - &before, ..bed })
    }

    /// A rack with a device under test set up by `set_up`, which gets the rack with the kernel as a router that has the VIP.
    ///
    /// # Errors
    /// As of [`Bed::direct`], or of `set_up`.
    pub fn kernel(
        name: &str,
        set_up: impl FnOnce(&Rack) -> Result<Vec<Process>, WireError>,
    ) -> Result<Self, WireError> {
        let mut rack = Rack::build(&spec(2))?;
        rack.serve_vip_by_kernel()?;
        let processes = set_up(&rack)?;
        Self::of(name, &rack, Middle::Kernel(processes))
    }

    /// The interface opposite the client's, where live frames must be accepted explicitly: AF_XDP ports do so anyway.
    pub fn entrance(&self) -> Option<(Namespace, String)> {
        let rack = self.rack.as_ref().filter(|_| self.kind == Some(Want::AfPacket))?;
        let port = rack.ports.iter().find(|p| p.host == "client")?;
        Some((rack.switch.clone(), port.interface.clone()))
    }

    /// Time on processors that the threads in the middle have used so far, the kernel's work on their behalf included. On
    /// a machine that does other things too it says more than rates do.
    pub fn cpu_time(&self) -> Duration {
        let of = |thread: &u32| {
            // proc(5): the first number of schedstat is time on the processor in nanoseconds. A thread may have ended.
            let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
        };
        self.threads.iter().filter_map(of).sum()
    }

    /// Time on processors that this process and what runs in the middle have used so far, threads and requests that ended
    /// included, to within 10 ms each.
    pub fn all_cpu_time(&self) -> Duration {
        let children: &[Process] = if let Middle::Kernel(children) = &self.middle { children } else { &[] };
        let of = |process: String| {
            // proc(5): utime and stime are the 14th and 15th word, in hundredths of a second; the second may have spaces
            // in its parentheses.
            let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            let (_, rest) = text.rsplit_once(')')?;
            let ticks: Vec<u64> = rest.split_whitespace().skip(11).take(2).flat_map(str::parse).collect();
            Some(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
        };
        let processes = children.iter().map(|child| child.number().to_string());
        std::iter::once("self".to_string()).chain(processes).filter_map(of).sum()
    }

    /// The switch's counters, for messages.
    pub fn story(&self) -> String {
        match &self.middle {
            Middle::Switch(live) => live.stats().map_or_else(|e| e.to_string(), |stats| format!("{stats:?}")),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_right() {
        for counted in [false, true] {
            for servers in [1, 2] {
                let spec = spec(servers);
                spec.validate().unwrap();
                let rack = description(&spec, counted).rack().expect("a good description");
                assert_eq!(rack.devices().count(), usize::from(servers));
            }
        }
    }
}
