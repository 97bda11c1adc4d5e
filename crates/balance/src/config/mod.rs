//! `rack.toml`: services, servers, devices and the switch between them.
//!
//! [`Rack::parse`] checks everything once. The result is consistent: numbers are unique and in range, names resolved,
//! and every service can be served by the devices that it names.

mod agent;
mod api;
mod changes;
mod check;
mod classes;
pub mod file;
mod health;
mod hints;
mod keys;
mod lay;
mod learn;
mod read;
pub use pointsman_topology::reader;
pub mod reload;
pub(crate) mod room;
mod settings;
mod source;
mod store;
#[cfg(test)]
mod tests;

pub use agent::{AgentSettings, ReportForm, Threshold, read_settings};
pub use api::{ApiSettings, ApiTls, DEFAULT_API, PrometheusChoice};
pub(crate) use changes::changes;
pub use classes::{Class, MAX_CLASSES, alike, classes};
pub use file::RackFile;
pub(crate) use health::targets;
pub use health::{HealthCheck, HealthSettings, ProbeKind, Target};
pub use keys::{KeyFileError, KeyProblem, LastKey};
pub use lay::{MEMBER_KEY, NoRoom, Placed};
pub use learn::{ClientsSource, LearnConfig};
use reader::Problems;
pub use reader::{ConfigError, ConfigErrors};
pub use room::Full;
pub use settings::{PolicyNeed, SettingsError, UnknownService};
pub use source::{MemberSource, Origin};
pub use store::{NotASecret, StoreLink};

use crate::blocks::{Blocks, Tuning};
use crate::trust::{ReportKeys, Trust};
use crate::types::{DeviceKind, DeviceNumber, Mac, Policy, Prefix, Protocol, UnknownName};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A whole configuration.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rack {
    /// The switch and how to talk to it.
    pub switch: Switch,
    /// The next hops of packets that are for no service and no station on the same wire.
    pub routes: Vec<Route>,
    /// Stations that the switch bridges to.
    pub bridge: Vec<Station>,
    /// Servers with their devices.
    pub servers: Vec<Server>,
    /// The services for clients.
    pub services: Vec<Service>,
    /// Keys of agents, from a separate file: see [`Rack::read_keys`].
    pub keys: ReportKeys,
    /// Services whose device is chosen by metrics from Prometheus.
    pub choices: Vec<PrometheusChoice>,
    /// The controller's API, if enabled.
    pub api: Option<ApiSettings>,
    /// The learner of a service's weights, if any.
    pub learn: Option<LearnConfig>,
    /// Where members that join and leave by themselves come from.
    pub sources: Vec<MemberSource>,
}

impl Rack {
    /// Whether Prometheus' data choose the device of this service.
    pub(crate) fn is_decided(&self, service: &str) -> bool {
        self.choices.iter().any(|c| c.service == service)
    }
}

/// The data plane that the controller installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// The balancer that comes with Pointsman.
    BuiltIn,
    /// A P4 file: path as written.
    File(String),
}

/// The most switches of a rack.
pub const MAX_SWITCHES: usize = 8;

/// The switch, or several that are wired alike: the same number of a port leads to the same station, and all answer to the same MAC
/// address and gateways, so that stations may use any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Host and port of the P4Runtime server of each switch.
    pub p4runtime: Vec<String>,
    /// P4Runtime device id.
    pub device_id: u64,
    /// The lowest term (upper 64 bits) of the controller's P4Runtime election ids.
    pub election_id: u64,
    /// Whether the controller takes the switch from clients that are not Pointsman controllers.
    pub preempt: bool,
    /// Its P4 program.
    pub program: Program,
    /// Its own MAC address, on all ports.
    pub mac: Mac,
    /// Its own addresses besides the VIPs; agents send their reports there.
    pub gateways: Vec<IpAddr>,
    /// The port behind which the controller sits.
    pub cpu_port: u16,
    /// Whether reports need a digest.
    pub reports: Trust,
    /// Probes are accepted, although they are not authenticated.
    pub believes_probes: bool,
    /// A device without a report for this long gets no new connections, in milliseconds; 0: reports are not needed.
    pub report_timeout_ms: u32,
    /// How often the controller checks whether servers report, in milliseconds.
    pub poll_interval_ms: u32,
    /// The store that keeps the device of each connection.
    pub store: Option<StoreLink>,
}

/// How to reach a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum NextHop {
    /// By this MAC address.
    #[serde(rename = "mac", serialize_with = "file::mac")]
    Mac(Mac),
    /// By the MAC address that this neighbour answers with.
    #[serde(rename = "via")]
    Neighbour(IpAddr),
}

/// A route of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Destinations.
    pub prefix: Prefix,
    /// Port of the switch.
    pub port: u16,
    /// Next hop behind the port.
    #[serde(flatten)]
    pub hop: NextHop,
}

/// A station on the bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its MAC address.
    pub mac: Mac,
    /// Port of the switch.
    pub port: u16,
}

/// A server: up to [`MAX_DEVICES`](crate::types::MAX_DEVICES) devices that share a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Unique name.
    pub name: String,
    /// Its number in the data plane and in reports.
    pub number: u16,
    /// The class of servers whose weights a learner learns together; None: servers with equal devices form a class.
    pub class: Option<String>,
    /// Its devices.
    pub devices: Vec<Device>,
    /// The source that it comes from; None: the rack's file.
    pub source: Option<String>,
    /// Whether its devices report, if devices have to.
    pub reports: bool,
}

/// A device: a server of requests with its own address.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name, unique in the server.
    pub name: String,
    /// Its number in the data plane.
    pub number: DeviceNumber,
    /// Its kind.
    pub kind: DeviceKind,
    /// Port of the switch.
    pub port: u16,
    /// IPv4 address. At least one of the two addresses is there.
    pub address: Option<Ipv4Addr>,
    /// IPv6 address.
    pub address6: Option<Ipv6Addr>,
    /// MAC address; without it the controller asks the device for it.
    pub mac: Option<Mac>,
    /// Whether it takes new connections.
    pub enabled: bool,
    /// How its probes name it.
    pub probe_id: u8,
    /// The device of the same server whose agent reports for it; itself, mostly.
    pub reporter: DeviceNumber,
    /// How its agent works.
    pub agent: AgentSettings,
}

impl Device {
    /// Its address of one family.
    pub fn address(&self, v6: bool) -> Option<IpAddr> {
        if v6 { self.address6.map(IpAddr::V6) } else { self.address.map(IpAddr::V4) }
    }

    /// All its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        [self.address(false), self.address(true)].into_iter().flatten()
    }
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Unique name.
    pub name: String,
    /// One or two virtual addresses, IPv4 first.
    pub vips: Vec<IpAddr>,
    /// One or two protocols.
    pub protocols: Vec<Protocol>,
    /// Port, at the VIP and at the devices.
    pub port: u16,
    /// How connections are spread.
    pub policy: Policy,
    /// Its settings in addition to the policy's name.
    pub tuning: Tuning,
    /// Size of its slot table: a power of two.
    pub slots: u32,
    /// A connection without a packet for this long is forgotten, in milliseconds.
    pub idle_timeout_ms: u32,
    /// How many new connections it may get.
    pub limit: Option<Limit>,
    /// Whether its devices answer clients directly, past the switch, and how packets reach them then.
    pub direct_return: Option<DirectReturn>,
    /// Whether both ends of a TCP connection that was idle for longer than `idle_timeout_ms` are reset.
    pub idle_reset: bool,
    /// Whether both ends of TCP connections of devices that are silent are reset.
    pub failure_reset: bool,
    /// Whether TCP segments of unknown connections are answered with a RST.
    pub unknown_reset: bool,
    /// Whether such segments begin their connection instead: another switch may have had it.
    pub adopt_unknown: bool,
    /// The servers that serve it.
    pub members: Vec<Member>,
}

impl Service {
    /// Its policy as blocks, for one of its protocols.
    pub fn blocks(&self, protocol: Protocol) -> Blocks {
        Blocks::new(self.policy, &self.tuning, protocol, tell_workers(&self.members))
    }

    /// Every combination of VIP and protocol that clients can connect to.
    pub fn frontends(&self) -> impl Iterator<Item = Frontend> + '_ {
        self.vips.iter().flat_map(move |vip| {
            self.protocols.iter().map(move |p| Frontend { vip: *vip, protocol: *p, port: self.port })
        })
    }
}

/// Whether every device that takes connections has a configured number of `workers`.
pub(crate) fn tell_workers(members: &[Member]) -> bool {
    members.iter().flat_map(|m| &m.devices).filter(|d| d.enabled).all(|d| d.workers.is_some())
}

/// How packets of a service reach devices that answer clients themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectReturn {
    /// With the device's MAC address.
    Layer2,
    /// In a packet to the device's address (IP in IP).
    Tunnel,
}

impl std::str::FromStr for DirectReturn {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "layer-2" => Ok(DirectReturn::Layer2),
            "ipip" => Ok(DirectReturn::Tunnel),
            _ => Err(UnknownName::new("unknown forwarding", text, "\"layer-2\" or \"ipip\"")),
        }
    }
}

/// A rate of new connections that a service can bear; connections above it are refused and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit {
    /// Connections a second in the long run.
    pub per_s: u32,
    /// Connections at once.
    pub burst: u32,
}

/// A server's part in a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The server's number.
    pub server: u16,
    /// Its weight among the servers; 0 for no new connections.
    pub weight: u32,
    /// Its devices, the ones to prefer first.
    pub devices: Vec<MemberDevice>,
}

/// A device's part in a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberDevice {
    /// The device.
    pub number: DeviceNumber,
    /// Its kind.
    pub kind: DeviceKind,
    /// Whether it takes new connections.
    pub enabled: bool,
    /// It takes none only because a learner gives it weight 0 for now: it is in service, and not to be stopped.
    pub held: bool,
    /// Its rank: lower is preferred.
    pub priority: u8,
    /// Its weight among the devices of the rack, for WRR.
    pub weight: u32,
    /// How many requests it works on at the same time, if configured.
    pub workers: Option<u16>,
}

/// One address, protocol and port that clients connect to: a service of the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frontend {
    /// The virtual address.
    pub vip: IpAddr,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vip {
            IpAddr::V4(a) => write!(f, "{}/{a}:{}", self.protocol, self.port),
            IpAddr::V6(a) => write!(f, "{}/[{a}]:{}", self.protocol, self.port),
        }
    }
}

impl Rack {
    /// Reads and checks a configuration. `file` is how messages call the text.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with line, field and remedy.
    pub fn parse(file: &str, text: &str) -> Result<Rack, ConfigErrors> {
        let mut problems = Problems::new(file, text);
        let rack = problems.parse().and_then(|table| read::rack(&table, &mut problems));
        problems.into_result(rack)
    }

    /// The server of this name.
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|s| s.name == name)
    }

    /// All devices with their servers.
    pub fn devices(&self) -> impl Iterator<Item = (&Server, &Device)> {
        self.servers.iter().flat_map(|s| s.devices.iter().map(move |d| (s, d)))
    }

    /// The device of this number.
    pub fn device(&self, number: DeviceNumber) -> Option<(&Server, &Device)> {
        // By server first: polls of large racks ask for every device.
        let of_server = self.servers.iter().filter(|s| s.number == number.server());
        of_server.flat_map(|s| s.devices.iter().map(move |d| (s, d))).find(|(_, d)| d.number == number)
    }

    /// `server/device` for messages; the number if the configuration does not know it.
    pub fn device_name(&self, number: DeviceNumber) -> String {
        self.device(number).map_or_else(|| number.to_string(), |(s, d)| format!("{}/{}", s.name, d.name))
    }

    /// The same configuration with another policy for one service.
    ///
    /// # Errors
    /// The service does not exist, or it does not meet the policy's requirements.
    pub fn with_policy(&self, service: &str, policy: Policy) -> Result<Rack, SettingsError> {
        let tuning = self.service(service)?.tuning;
        self.with_settings(service, policy, tuning, &BTreeMap::new(), &BTreeMap::new())
    }

    /// The service of this name.
    ///
    /// # Errors
    /// It does not exist.
    pub fn service(&self, name: &str) -> Result<&Service, UnknownService> {
        self.services.iter().find(|s| s.name == name).ok_or_else(|| UnknownService {
            name: name.into(),
            known: self.services.iter().map(|s| s.name.clone()).collect(),
        })
    }

    /// The same configuration with another policy for one service, and all its settings. Weights and priorities apply
    /// to the devices named by `server/device`; the others keep theirs.
    ///
    /// # Errors
    /// The service or device does not exist, or the service does not meet the policy's requirements.
    pub fn with_settings(
        &self,
        service: &str,
        policy: Policy,
        tuning: Tuning,
        weights: &BTreeMap<String, u32>,
        priorities: &BTreeMap<String, u8>,
    ) -> Result<Rack, SettingsError> {
        let unmet = |need| SettingsError::Policy { service: service.into(), need };
        let mut members = self.service(service)?.members.clone();
        let names: BTreeMap<String, DeviceNumber> =
            members.iter().flat_map(|m| &m.devices).map(|d| (self.device_name(d.number), d.number)).collect();
        let number = |name: &String| {
            names.get(name).copied().ok_or_else(|| SettingsError::Device {
                service: service.into(),
                device: name.clone(),
                known: names.keys().take(8).cloned().collect(),
            })
        };
        let weights = weights
            .iter()
            .map(|(n, w)| Ok((number(n)?, *w)))
            .collect::<Result<BTreeMap<_, _>, SettingsError>>()?;
        let priorities = priorities
            .iter()
            .map(|(n, p)| Ok((number(n)?, *p)))
            .collect::<Result<BTreeMap<_, _>, SettingsError>>()?;
        for d in members.iter_mut().flat_map(|m| &mut m.devices) {
            d.weight = weights.get(&d.number).copied().unwrap_or(d.weight);
            d.priority = priorities.get(&d.number).copied().unwrap_or(d.priority);
        }
        members.iter_mut().for_each(|m| m.devices.sort_by_key(|d| (d.priority, d.number)));
        let name = |n| self.server_name(n);
        check::policy_needs(policy, &tuning, &members, &self.switch, &name).map_err(unmet)?;
        if self.service(service)?.adopt_unknown {
            check::adoption_needs(policy, &tuning, &members).map_err(unmet)?;
        }
        let mut rack = self.clone();
        for s in rack.services.iter_mut().filter(|s| s.name == service) {
            (s.policy, s.tuning) = (policy, tuning);
            s.members.clone_from(&members);
        }
        Ok(rack)
    }

    /// The name of a server; its number if the configuration does not know it.
    pub fn server_name(&self, number: u16) -> String {
        let found = self.servers.iter().find(|s| s.number == number);
        found.map_or_else(|| number.to_string(), |s| s.name.clone())
    }
}
