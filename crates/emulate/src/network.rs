//! A network that runs: namespaces and cables of the lab, a switch in each switch's namespace, and their entries.

use crate::fill::{fill, settings};
use crate::load::Start;
use crate::plan::{Plan, SwitchPlan, cpu_interfaces};
use crate::ports::{cables, interfaces, queues};
use crate::prompt::CONTROLLER;
use pointsman_control::RpcError;
use pointsman_lab::Namespace;
use pointsman_lab::announce::{Announcement, announce};
use pointsman_lab::process::{Process, command};
use pointsman_lab::wiring::{Outlet, Style, Wiring, bring_loopback_up};
use pointsman_live::{Log, SwitchPart};
use pointsman_node::log::{Format, Level, Log as LogFile, LogError, Rotation};
use pointsman_node::switch::runtime::Core;
use pointsman_node::switch::wires::Watch;
use pointsman_node::switch::{Setup, Texts};
use pointsman_ports::DropReason as Lost;
use pointsman_topology::{End, HostId, LinkId, SwitchId};
use pointsman_v1model::DropReason;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Rotation of the switches' logs.
const ROTATION: Rotation = Rotation { max_bytes: 100 << 20, max_files: 1 };

/// What the command line adds.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Of the network, for other terminals.
    pub title: String,
    /// Folder of captures.
    pub pcap: Option<PathBuf>,
    /// Folder of logs.
    pub log: Option<PathBuf>,
    /// Search path of includes.
    pub texts: Texts,
}

/// Why a network cannot run.
#[derive(Debug)]
pub enum NetError {
    /// The lab refuses namespaces or cables.
    Lab(pointsman_lab::Error),
    /// The interface of this name, to which a switch's CPU port leads, cannot be made.
    Outlet(String, pointsman_lab::Error),
    /// A switch cannot be started.
    Live(pointsman_live::Error),
    /// A log cannot be written.
    Log(LogError),
    /// A folder for logs cannot be made.
    Folder(PathBuf, io::Error),
    /// The asynchronous runtime cannot start.
    Start(io::Error),
    /// A switch ended.
    Gone(String),
    /// A switch does not take its program.
    Program(String, RpcError),
    /// A switch does not take these entries: place and reason.
    Entries(String, Vec<(String, String)>),
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetError::Lab(e) => e.fmt(f),
            NetError::Outlet(name, e) => {
                write!(
                    f,
                    "cannot make {name}: {e}; if another network has an interface of this name, end that network first"
                )
            }
            NetError::Live(e) => e.fmt(f),
            NetError::Log(e) => e.fmt(f),
            NetError::Folder(path, e) => {
                write!(f, "cannot make the folder {}: {e}; give --log another one", path.display())
            }
            NetError::Start(e) => write!(f, "cannot start: {e}"),
            NetError::Gone(name) => write!(f, "switch {name} has stopped"),
            NetError::Program(name, e) => write!(f, "switch {name} does not take its program: {}", e.message),
            NetError::Entries(name, refused) => {
                let lines: Vec<String> =
                    refused.iter().map(|(place, why)| format!("switch {name}: {place}: {why}")).collect();
                f.write_str(&lines.join("\n"))
            }
        }
    }
}

impl std::error::Error for NetError {}

impl From<pointsman_lab::Error> for NetError {
    fn from(e: pointsman_lab::Error) -> Self {
        NetError::Lab(e)
    }
}

/// A running network. Everything ends with it.
pub struct Network {
    /// What it was made from.
    pub plan: Plan,
    /// Namespaces and cables.
    pub wiring: Wiring,
    /// The namespace of the P4Runtime servers.
    here: Namespace,
    /// Those that run, with the runtime that serves them.
    switches: Mutex<Vec<SwitchPart>>,
    /// The plan's scripts, which end with the network.
    scripts: Mutex<Vec<Process>>,
    tokio: Runtime,
    /// The cables of CPU ports, which end with the network.
    outlets: Mutex<Vec<Outlet>>,
    _announcement: Announcement,
}

impl Network {
    /// Builds the network and starts everything but the commands of hosts.
    ///
    /// # Errors
    /// The kernel refuses a part, or a switch its program or entries.
    pub fn start(plan: Plan, starts: Vec<Start>, options: &Options) -> Result<Self, NetError> {
        bring_loopback_up()?;
        let here = Namespace::here()?;
        let prefixes = plan.hosts.iter().map(|h| h.prefix).collect();
        let wiring = Wiring::build_as(&plan.topology, Style::Subnets(prefixes))?;
        wiring.limit_hosts()?;
        for (id, host) in (0..).map(HostId).zip(&plan.hosts) {
            if let Some(gateway) = host.gateway {
                wiring.set_gateway(id, gateway)?;
            }
            for (address, mac) in &host.neighbours {
                wiring.set_neighbour(id, *address, *mac)?;
            }
        }
        let announcement = announce(&options.title, &named(&plan, &wiring, &here))?;
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let tokio = tokio.map_err(NetError::Start)?;
        let (switches, scripts) = (Mutex::default(), Mutex::default());
        let outlets = Mutex::new(outlets(&plan, &wiring, &here)?);
        let _announcement = announcement;
        let network = Network { plan, wiring, here, switches, scripts, tokio, outlets, _announcement };
        let parts = (0..).map(SwitchId).zip(starts);
        // Those before one that fails are stopped when the network is dropped.
        for (id, start) in parts {
            let part = network.start_switch(id, &start, options)?;
            let handle = part.handle.clone();
            network.parts().push(part);
            network.tokio.block_on(fill(&network.plan, id, start, &handle))?;
        }
        Ok(network)
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Vec<SwitchPart>> {
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_switch(&self, id: SwitchId, start: &Start, options: &Options) -> Result<SwitchPart, NetError> {
        let (name, plan) = (self.plan.switch(id), &self.plan.switches[id.0 as usize]);
        let p4_for_json = start.source.clone();
        let setup = Setup {
            interfaces: interfaces(&self.plan, &self.wiring, id),
            cables: cables(&self.plan, id),
            pcap: options.pcap.clone(),
            switch: settings(&self.plan, id),
            queues: queues(&self.plan, id),
            device_id: plan.device_id,
            sources: Texts { p4_for_json, ..options.texts.clone() },
            watch: Watch { each: options.log.is_some(), bytes: 0 },
            ..Setup::default()
        };
        let log = log(name, options)?;
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, plan.p4runtime));
        let namespace = &self.wiring.switches[id.0 as usize];
        SwitchPart::start(namespace, name, (&self.here, at), setup, &self.tokio, &log).map_err(NetError::Live)
    }

    /// The threads of its servers.
    pub(crate) fn tokio(&self) -> &Runtime {
        &self.tokio
    }

    /// The namespace of a node, or of the controller.
    pub fn namespace(&self, node: &str) -> Option<&Namespace> {
        let topology = &self.plan.topology;
        let host = topology.hosts().iter().position(|h| h.name == node);
        let switch = topology.switches().iter().position(|s| s.name == node);
        match (host, switch) {
            (Some(host), _) => self.wiring.hosts.get(host),
            (_, Some(switch)) => self.wiring.switches.get(switch),
            _ => (node == CONTROLLER).then_some(&self.here),
        }
    }

    /// The address of a host.
    pub fn address(&self, host: &str) -> Option<Ipv4Addr> {
        self.plan.topology.hosts().iter().find(|h| h.name == host).map(|h| h.address)
    }

    /// Runs a line in a shell of a node, or in the namespace of this process, and waits for its end. The calling thread has to live as
    /// long as it.
    ///
    /// # Errors
    /// The shell cannot be started.
    pub fn shell(&self, node: Option<&str>, line: &str, input: Stdio) -> io::Result<ExitStatus> {
        let namespace = node.and_then(|node| self.namespace(node)).unwrap_or(&self.here);
        command(namespace, "sh").arg("-c").arg(line).stdin(input).status()
    }

    /// Runs the hosts' commands; warnings about those that fail.
    pub fn run_commands(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (id, host) in (0..).map(HostId).zip(&self.plan.hosts) {
            let name = self.plan.host(id);
            for line in &host.commands {
                let why = match self.shell(Some(name), line, Stdio::null()) {
                    Ok(status) if status.success() => continue,
                    Ok(status) if status.code() == Some(127) => {
                        let program = line.split_whitespace().next().unwrap_or_default();
                        format!("{program} is not installed{}", package(program))
                    }
                    Ok(status) => status.to_string(),
                    Err(e) => e.to_string(),
                };
                warnings.push(format!("hosts.{name}.commands: `{line}`: {why}"));
            }
        }
        warnings
    }

    /// Starts the plan's scripts where controllers are; warnings about those that cannot be started. The calling thread has to live as long
    /// as they.
    pub fn run_scripts(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for line in &self.plan.scripts {
            match Process::start(&self.here, "sh", &["-c", line], "") {
                Ok(process) => self.scripts().push(process),
                Err(e) => warnings.push(format!("exec_scripts: `{line}`: {e}")),
            }
        }
        warnings
    }

    fn scripts(&self) -> std::sync::MutexGuard<'_, Vec<Process>> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the plan's scripts; what those said that have failed meanwhile.
    pub fn end_scripts(&self) -> Vec<String> {
        let mut failed = Vec::new();
        for (mut process, line) in self.scripts().drain(..).zip(&self.plan.scripts) {
            if process.ended().is_some_and(|status| !status.success())
                && let Err(e) = process.finish(Duration::ZERO)
            {
                failed.push(format!("exec_scripts: `{line}`: {e}"));
            }
        }
        failed
    }

    /// Packets that found a full queue so far, of the switch or of an interface, by switch.
    pub(crate) async fn full_queues(&self) -> Vec<u64> {
        let handles: Vec<_> = self.parts().iter().map(|part| part.handle.clone()).collect();
        let mut out = Vec::new();
        for handle in handles {
            let count =
                |core: &mut Core| core.stats().drops.get(&DropReason::QueueFull).copied().unwrap_or(0);
            let own = handle.call(count).await.unwrap_or(0);
            let interfaces = handle.interfaces().await.unwrap_or_default();
            let at_interfaces = interfaces.iter().flat_map(|i| i.counters.drops());
            // What links lose by themselves says nothing of queues.
            let full =
                at_interfaces.filter(|(reason, _)| !matches!(reason, Lost::RxInjected | Lost::TxInjected));
            out.push(own + full.map(|(_, n)| n).sum::<u64>());
        }
        out
    }

    /// Cuts or restores all links between two nodes; how many there are.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_links(&self, a: &str, b: &str, up: bool) -> Result<usize, pointsman_lab::Error> {
        let ids = self.links_between(a, b);
        for id in &ids {
            self.wiring.set_link(*id, up)?;
        }
        Ok(ids.len())
    }

    fn links_between(&self, a: &str, b: &str) -> Vec<LinkId> {
        let joins = |link: &pointsman_topology::Link| {
            let [x, y] = link.ends.map(|end| self.name(end));
            (x, y) == (a, b) || (x, y) == (b, a)
        };
        let all = (0..).map(LinkId).zip(self.plan.topology.links());
        all.filter(|(_, link)| joins(link)).map(|(id, _)| id).collect()
    }

    /// The node at an end of a link.
    pub fn name(&self, end: End) -> &str {
        match end {
            End::Switch(id, _) => self.plan.switch(id),
            End::Host(id) => self.plan.host(id),
        }
    }

    /// Stops all switches, and every process in the nodes.
    pub fn stop(&self) {
        self.scripts().clear();
        self.wiring.hosts.iter().chain(&self.wiring.switches).for_each(Namespace::kill_all);
        let parts: Vec<SwitchPart> = self.parts().drain(..).collect();
        parts.iter().for_each(|part| part.handle.stop());
        for part in parts {
            let _ = part.stop(&self.tokio);
        }
        self.outlets.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The Debian package of a program that topologies use.
pub fn package(program: &str) -> &'static str {
    match program {
        "route" | "arp" | "ifconfig" | "netstat" => ": install the package net-tools",
        "ip" | "tc" | "bridge" | "ss" => ": install the package iproute2",
        "ping" => ": install the package iputils-ping (`pingall` works without)",
        "iperf" => ": install the package iperf",
        "tcpdump" => ": install the package tcpdump",
        _ => "",
    }
}

/// Joins the CPU ports of switches with the place of controllers.
fn outlets(plan: &Plan, wiring: &Wiring, here: &Namespace) -> Result<Vec<Outlet>, NetError> {
    let switches =
        (0..).map(SwitchId).zip(&plan.switches).filter(|(_, switch)| switch.cpu_interface.is_some());
    let lead_out = |(id, _)| {
        let [switch, outside] = cpu_interfaces(plan.switch(id));
        let led = wiring.lead_out(id, here, [&switch, &outside]);
        led.map_err(|e| NetError::Outlet(outside, e))
    };
    switches.map(lead_out).collect()
}

/// All nodes by name.
fn named(plan: &Plan, wiring: &Wiring, here: &Namespace) -> Vec<(String, Namespace)> {
    let hosts = plan.topology.hosts().iter().map(|h| &h.name).zip(&wiring.hosts);
    let switches = plan.topology.switches().iter().map(|s| &s.name).zip(&wiring.switches);
    let nodes = hosts.chain(switches).map(|(name, namespace)| (name.clone(), namespace.clone()));
    nodes.chain([(CONTROLLER.to_string(), here.clone())]).collect()
}

/// Where a switch's lines go: its file, or nowhere.
fn log(name: &str, options: &Options) -> Result<Log, NetError> {
    let Some(folder) = &options.log else { return Ok(Arc::new(Mutex::new(|_: &str| {}))) };
    std::fs::create_dir_all(folder).map_err(|e| NetError::Folder(folder.clone(), e))?;
    let path = folder.join(format!("{name}.log"));
    let file = LogFile::file("switch", Format::Text, Level::Trace, &path, ROTATION).map_err(NetError::Log)?;
    Ok(Arc::new(Mutex::new(move |line: &str| file.info(line))))
}

/// What is printed about a switch.
pub fn describe(plan: &SwitchPlan) -> String {
    format!("P4Runtime on 127.0.0.1:{}, device {}", plan.p4runtime, plan.device_id)
}
