//! A network as its file describes it.

use pointsman_topology::{HostId, SwitchId, Topology};
use std::net::Ipv4Addr;

/// A network that can be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Nodes and links. A link's delay is zero if the file has none.
    pub topology: Topology,
    /// By host.
    pub hosts: Vec<HostPlan>,
    /// By switch.
    pub switches: Vec<SwitchPlan>,
    /// By link.
    pub links: Vec<LinkPlan>,
    /// The program of switches without one of their own.
    pub program: Option<String>,
    /// The file asks for captures.
    pub captures: bool,
    /// The file asks for logs.
    pub logs: bool,
    /// Commands to run where controllers are, as long as the network runs.
    pub scripts: Vec<String>,
    /// A file of commands that nodes run at given times.
    pub tasks: Option<String>,
    /// The network is described in files for controllers of p4-utils.
    pub database: Option<Database>,
    /// Keys without effect.
    pub warnings: Vec<String>,
}

/// Files for controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database {
    /// Programs and their P4Info are in files next to the sources.
    pub p4info: bool,
}

/// A link, apart from what its [`pointsman_topology::Line`] says.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPlan {
    /// How many packets a queue of a port holds, if the file says it.
    pub queue_packets: Option<u32>,
    /// For controllers that compute paths.
    pub weight: f64,
    /// By end.
    pub ports: [PortPlan; 2],
}

impl Default for LinkPlan {
    fn default() -> Self {
        LinkPlan { queue_packets: None, weight: 1.0, ports: Default::default() }
    }
}

/// Addresses of a switch's port, which only controllers know: switches have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortPlan {
    /// With its prefix length.
    pub address: Option<(Ipv4Addr, u8)>,
    /// That of the switch if there is none.
    pub mac: Option<[u8; 6]>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPlan {
    /// Of its subnet.
    pub prefix: u8,
    /// Its default route.
    pub gateway: Option<Ipv4Addr>,
    /// Addresses that it does not ask for.
    pub neighbours: Vec<(Ipv4Addr, [u8; 6])>,
    /// Commands for a shell, in this order.
    pub commands: Vec<String>,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchPlan {
    /// In P4Runtime.
    pub device_id: u64,
    /// TCP port of its P4Runtime server.
    pub p4runtime: u16,
    /// Its program: P4 source, or the name of compiler output next to it.
    pub program: Option<String>,
    /// The file with its program and entries.
    pub runtime_json: Option<String>,
    /// A file with commands of simple_switch_CLI.
    pub cli_input: Option<String>,
    /// The number of the port to the controller.
    pub cpu_port: Option<u32>,
    /// The number of a port to an interface where controllers are ([`cpu_interfaces`]).
    pub cpu_interface: Option<u16>,
    /// The port of BMv2's Thrift server that controllers expect; it does not run here.
    pub thrift: Option<u16>,
    /// Queues of each port.
    pub priority_queues: u8,
}

impl Plan {
    /// A host's name.
    pub fn host(&self, id: HostId) -> &str {
        &self.topology.hosts()[id.0 as usize].name
    }

    /// A switch's name.
    pub fn switch(&self, id: SwitchId) -> &str {
        &self.topology.switches()[id.0 as usize].name
    }
}

/// The interfaces of a switch's port to the controller: at the switch, and where controllers are.
pub fn cpu_interfaces(switch: &str) -> [String; 2] {
    [0, 1].map(|end| format!("{switch}-cpu-eth{end}"))
}
