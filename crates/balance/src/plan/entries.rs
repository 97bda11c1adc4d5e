//! Entries of the balancer's tables as types, instead of names, ids and bytes.

use crate::blocks::{Blocks, Counting};
use crate::config::{Frontend, Limit};
use crate::trust::ReportKey;
use crate::types::{DeviceNumber, MAX_DEVICES, Mac, Prefix};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The drop port: no packet comes in on it.
pub const NO_PORT: u16 = 511;

/// The entries of a switch's tables.
pub type Entries = BTreeMap<Key, Action>;

/// One of the two generations that a service's entry can point to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch {
    /// Number of the service.
    pub service: u16,
    /// 0 or 1.
    pub epoch: u8,
}

/// The match of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the fields are the tables' key fields
pub enum Key {
    /// The default action of `switch_config`.
    SwitchConfig,
    /// `redplane_config`.
    StoreConfig,
    /// `bridge`.
    Bridge(Mac),
    /// `routes_v4`, `routes_v6`.
    Route(Prefix),
    /// `local_v4`, `local_v6`.
    Local(IpAddr),
    /// `devices_v4`, `devices_v6`.
    Device { device: DeviceNumber, v6: bool },
    /// `backends_v4`, `backends_v6`.
    Backend { ingress: u16, address: IpAddr, protocol: u8, port: u16 },
    /// `sources_v4`, `sources_v6`.
    Source(IpAddr),
    /// `quiet_services`.
    QuietService { service: u16 },
    /// `report_sources_v4`, `report_sources_v6`.
    ReportSource { port: u16, source: IpAddr, server: u16 },
    /// `report_sources_mac`.
    ReportSourceMac { port: u16, source: Mac, server: u16 },
    /// `report_keys`; number 0 means reports without digest.
    ReportKey { agent: DeviceNumber, number: u8 },
    /// `dip_table`: the bit of one device.
    Dip { of: Epoch, server: u16, slot: u8, priority: i32 },
    /// `rings`.
    Ring { of: Epoch, server: u16, position: u16 },
    /// `pools`.
    Pool { of: Epoch, server: u16 },
    /// `server_slots`.
    Slot { of: Epoch, slot: u16 },
    /// `slots` of the first or second candidate.
    Candidate { of: Epoch, second: bool, slot: u16 },
    /// `chosen_pools`.
    ChosenPool { of: Epoch, server: u16 },
    /// `policies`.
    Policy { of: Epoch },
    /// `device_factors`.
    Factors { of: Epoch, server: u16 },
    /// `device_thresholds`.
    Thresholds { of: Epoch, server: u16 },
    /// `probe_sources`.
    ProbeSource { port: u16, source: IpAddr, id: u8 },
    /// `service_options`.
    Options { service: u16 },
    /// `failed_devices`.
    FailedDevice(DeviceNumber),
    /// `tunnels`.
    Tunnel { service: u16 },
    /// The clone session of resets.
    ResetSession,
    /// `services_v4`, `services_v6`.
    Service(Frontend),
}

impl Key {
    /// Name of the table, without its place in the program.
    pub fn table(&self) -> String {
        let text = self.to_string();
        text.split_once('[').map_or_else(|| text.clone(), |(table, _)| table.to_string())
    }

    /// Whether it is the default action of its table.
    pub fn is_default(&self) -> bool {
        matches!(self, Key::SwitchConfig | Key::StoreConfig)
    }

    /// The generation that the entry is part of.
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Key::Dip { of, .. }
            | Key::Ring { of, .. }
            | Key::Pool { of, .. }
            | Key::Slot { of, .. }
            | Key::Candidate { of, .. }
            | Key::ChosenPool { of, .. }
            | Key::Policy { of }
            | Key::Factors { of, .. }
            | Key::Thresholds { of, .. } => Some(*of),
            _ => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = |a: &IpAddr| if a.is_ipv6() { "v6" } else { "v4" };
        match self {
            Key::SwitchConfig => f.write_str("switch_config"),
            Key::StoreConfig => f.write_str("redplane_config"),
            Key::Bridge(mac) => write!(f, "bridge[{mac}]"),
            Key::Route(p) => write!(f, "routes_{}[{p}]", family(&p.address())),
            Key::Local(a) => write!(f, "local_{}[{a}]", family(a)),
            Key::Device { device, v6 } => write!(f, "devices_{}[{device}]", if *v6 { "v6" } else { "v4" }),
            Key::Backend { ingress, address, protocol, port } => {
                let v = family(address);
                write!(f, "backends_{v}[ingress port {ingress}, {address}, protocol {protocol}, port {port}]")
            }
            Key::Source(a) => write!(f, "sources_{}[{a}]", family(a)),
            Key::QuietService { service } => write!(f, "quiet_services[service {service}]"),
            Key::ReportSource { port, source, server } => {
                write!(f, "report_sources_{}[port {port}, {source}, server {server}]", family(source))
            }
            Key::ReportSourceMac { port, source, server } => {
                write!(f, "report_sources_mac[port {port}, {source}, server {server}]")
            }
            Key::ReportKey { agent, number } => write!(f, "report_keys[{agent}, number {number}]"),
            Key::Dip { of, server, slot, priority } => {
                write!(f, "dip_table[{of}, server {server}, device {slot}, priority {priority}]")
            }
            Key::Ring { of, server, position } => {
                write!(f, "rings[{of}, server {server}, position {position}]")
            }
            Key::Pool { of, server } => write!(f, "pools[{of}, server {server}]"),
            Key::Slot { of, slot } => write!(f, "server_slots[{of}, slot {slot}]"),
            Key::Candidate { of, second, slot } => {
                write!(f, "{}.slots[{of}, slot {slot}]", if *second { "second" } else { "first" })
            }
            Key::ChosenPool { of, server } => write!(f, "chosen_pools[{of}, server {server}]"),
            Key::Policy { of } => write!(f, "policies[{of}]"),
            Key::Factors { of, server } => write!(f, "device_factors[{of}, server {server}]"),
            Key::Thresholds { of, server } => write!(f, "device_thresholds[{of}, server {server}]"),
            Key::ProbeSource { port, source, id } => {
                write!(f, "probe_sources[port {port}, {source}, id {id}]")
            }
            Key::Options { service } => write!(f, "service_options[service {service}]"),
            Key::FailedDevice(device) => write!(f, "failed_devices[{device}]"),
            Key::Tunnel { service } => write!(f, "tunnels[service {service}]"),
            Key::ResetSession => f.write_str("the clone session of resets"),
            Key::Service(frontend) => write!(f, "services_{}[{frontend}]", family(&frontend.vip)),
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {}, epoch {}", self.service, self.epoch)
    }
}

/// The action of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the fields are the actions' parameters
pub enum Action {
    SetSwitch {
        mac: Mac,
    },
    /// `configure`.
    Configure {
        number: u16,
        secret: ReportKey,
        address: IpAddr,
        store: IpAddr,
        port: u16,
        mac: Mac,
    },
    Forward {
        port: u16,
    },
    NextHop {
        port: u16,
        mac: Mac,
    },
    IsLocal,
    SetDevice {
        address: IpAddr,
        port: u16,
        mac: Mac,
    },
    SetBackend {
        service: u16,
        device: DeviceNumber,
        vip: IpAddr,
    },
    AcceptReports {
        devices: u16,
        agent: DeviceNumber,
    },
    SetReportKey(ReportKey),
    TrustSource,
    UseDevice {
        slot: u8,
    },
    SetPool {
        devices: u16,
        ring: u32,
        ring_length: u16,
        timeout_ms: u32,
    },
    UseServer {
        server: u16,
    },
    UseWeighted {
        server: u16,
        factor: u16,
    },
    SetPolicy(BlockNumbers),
    SetFactors([u16; MAX_DEVICES]),
    SetThresholds {
        high: [u16; MAX_DEVICES],
        low: [u16; MAX_DEVICES],
    },
    AcceptProbe {
        device: DeviceNumber,
    },
    /// With the entry's direct meter; `more` is `OPTION_*`.
    SetOptions {
        direct: bool,
        more: u8,
        limit: Option<Limit>,
    },
    IsFailed,
    /// Packets with this source address come in on this port alone; `NO_PORT` for none.
    OnlyFrom {
        port: u16,
    },
    NoClient,
    IsQuiet,
    /// `adopt`.
    Adopt,
    SetTunnel {
        v4: Ipv4Addr,
        v6: Ipv6Addr,
    },
    /// A port whose copies come around again: which one does not matter.
    Mirror {
        port: u16,
    },
    SetService {
        service: u16,
        policy: u8,
        epoch: u8,
        slots_mask: u16,
        idle_ms: u32,
    },
}

/// Parameters of `set_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // as in the data plane
pub struct BlockNumbers {
    pub servers: u8,
    pub narrow: u8,
    pub pick: u8,
    pub choices: u8,
    pub counting: u8,
    pub metrics: [(u8, u8); 2],
    pub step: u8,
    pub offset: u8,
    pub complement: bool,
    pub second_only: bool,
}

impl From<&Blocks> for BlockNumbers {
    fn from(b: &Blocks) -> Self {
        BlockNumbers {
            servers: b.servers as u8,
            narrow: b.narrow as u8,
            pick: b.pick as u8,
            choices: b.choices,
            counting: b.count.map_or(0, Counting::flags),
            metrics: b.metrics.map(|(metric, weight)| (metric.number(), weight)),
            step: b.step,
            offset: b.offset,
            complement: b.complement,
            second_only: b.second_only,
        }
    }
}

/// The kind of change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Insert,
    /// It does something else now.
    Modify,
    /// It goes.
    Delete,
}

/// A change of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The kind of change.
    pub change: Change,
    /// To which entry.
    pub key: Key,
    /// The new action; for [`Change::Delete`], the old one.
    pub action: Action,
}

impl Update {
    /// Makes the change in a copy of the tables.
    pub fn apply(&self, entries: &mut Entries) {
        match self.change {
            Change::Delete => drop(entries.remove(&self.key)),
            Change::Insert | Change::Modify => drop(entries.insert(self.key, self.action)),
        }
    }
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.change {
            Change::Insert => "insert",
            Change::Modify => "modify",
            Change::Delete => "delete",
        };
        write!(f, "{verb} {}", self.key)
    }
}
