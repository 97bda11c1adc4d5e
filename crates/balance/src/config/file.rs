//! A `rack.toml` as a value, for programs that describe racks. Fields are those of the file, under the file's names; a
//! field without a value is not written, so the reader's default applies.

use super::{ConfigErrors, Rack, Route, Threshold};
use crate::blocks::{Counting, Metric, Servers, Ties, Tuning};
use crate::config::AgentSettings;
use crate::mcdm::promethee::Goal;
use crate::types::{DeviceKind, Mac, Policy, Prefix, Protocol};
use pointsman_decide::{Bounds, LearnerKind, Parameters, Settings};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Types that the file names with a string.
macro_rules! written {
    ($($type:ty: |$value:ident| $text:expr;)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $value = self;
                serializer.collect_str(&$text)
            }
        }
    )*};
}

written! {
    Prefix: |v| v;
    Protocol: |v| v;
    Policy: |v| v;
    DeviceKind: |v| v.name();
    Metric: |v| v.name();
    Servers: |v| v.name();
    Ties: |v| v.name();
    Counting: |v| v.name();
}

/// MAC addresses are of another crate.
pub(super) fn mac<S: Serializer>(mac: &Mac, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mac)
}

fn optional_mac<S: Serializer>(mac: &Option<Mac>, serializer: S) -> Result<S::Ok, S::Error> {
    match mac {
        Some(mac) => serializer.collect_str(mac),
        None => serializer.serialize_none(),
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `Rack`
pub struct RackFile {
    pub switch: SwitchSection,
    pub api: Option<ApiSection>,
    /// What all agents have in common.
    #[serde(skip_serializing_if = "is_default")]
    pub agent: AgentSection,
    #[serde(rename = "route", skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    #[serde(rename = "server", skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerSection>,
    #[serde(rename = "service", skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceSection>,
    pub learn: Option<LearnSection>,
    #[serde(rename = "members", skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<MembersSection>,
}

impl RackFile {
    /// The text of the file.
    ///
    /// # Panics
    /// Never: every field is a string, a number or a table of these.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every field can be written")
    }

    /// The configuration that the file describes, with every check of [`Rack::parse`].
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn rack(&self) -> Result<Rack, ConfigErrors> {
        Rack::parse("the generated rack.toml", &self.to_toml())
    }
}

/// `[switch]`. Without reports, `report_timeout_ms` must be 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `Switch`
pub struct SwitchSection {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub p4runtime: Vec<SocketAddr>,
    pub election_id: Option<u32>,
    #[serde(serialize_with = "mac")]
    pub mac: Mac,
    pub gateways: Vec<IpAddr>,
    /// The path of the agents' keys.
    pub report_keys: Option<String>,
    /// `"unauthenticated"` accepts reports without a digest.
    pub reports: Option<&'static str>,
    /// `"unauthenticated"` accepts probes.
    pub probes: Option<&'static str>,
    pub report_timeout_ms: Option<u32>,
    pub poll_interval_ms: Option<u32>,
    pub store: Option<StoreSection>,
}

/// `[switch.store]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `StoreLink`
pub struct StoreSection {
    pub address: IpAddr,
    pub port: u16,
    #[serde(serialize_with = "mac")]
    pub mac: Mac,
    pub switches: Vec<IpAddr>,
    /// The path of the secret.
    pub secret: String,
}

impl Default for SwitchSection {
    /// With 02:50:4d:00:00:01, the switch's MAC address in all racks of Pointsman's own.
    fn default() -> Self {
        SwitchSection {
            p4runtime: Vec::new(),
            election_id: None,
            mac: Mac([0x02, 0x50, 0x4d, 0, 0, 1]),
            gateways: Vec::new(),
            report_keys: None,
            reports: None,
            probes: None,
            report_timeout_ms: None,
            poll_interval_ms: None,
            store: None,
        }
    }
}

/// `[api]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `ApiSettings`
pub struct ApiSection {
    pub listen: Option<SocketAddr>,
    pub tokens: String,
    pub state: Option<String>,
}

/// `[agent]`, or `agent` of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `AgentSettings`
pub struct AgentSection {
    pub heartbeat_ms: Option<u32>,
    pub repeat_ms: Option<u32>,
    pub hold_ms: Option<u32>,
    pub rest_ms: Option<u32>,
    pub window_ms: Option<u32>,
    pub samples: Option<u32>,
    pub smoothing: Option<f64>,
    pub lost_after_ms: Option<u32>,
    pub network_mbit_s: Option<f64>,
    pub latency_ms: Option<Threshold>,
    pub outstanding: Option<Threshold>,
    pub cpu_percent: Option<Threshold>,
    pub memory_percent: Option<Threshold>,
    pub network_percent: Option<Threshold>,
    #[serde(rename = "source", skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceSection>,
}

impl From<&AgentSettings> for AgentSection {
    /// Times and thresholds. Simulated agents have no sources or health checks, and send datagrams.
    fn from(a: &AgentSettings) -> Self {
        AgentSection {
            heartbeat_ms: Some(a.heartbeat_ms),
            repeat_ms: Some(a.repeat_ms),
            hold_ms: Some(a.hold_ms),
            rest_ms: a.rest_ms,
            window_ms: Some(a.window_ms),
            samples: Some(a.samples),
            smoothing: Some(a.smoothing),
            lost_after_ms: Some(a.lost_after_ms),
            network_mbit_s: a.network_mbit_s,
            latency_ms: a.latency_ms,
            outstanding: a.outstanding,
            cpu_percent: a.cpu_percent,
            memory_percent: a.memory_percent,
            network_percent: a.network_percent,
            sources: Vec::new(),
        }
    }
}

/// `source` of an agent: Prometheus metrics.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceSection {
    /// `http://host:port/path`.
    pub prometheus: String,
    /// Between two requests, in milliseconds.
    pub interval_ms: Option<u64>,
    /// The metric that counts as use of the computing unit.
    pub compute: Option<String>,
}

/// `[[server]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `Server`
pub struct ServerSection {
    pub name: String,
    pub id: Option<u16>,
    pub class: Option<String>,
    #[serde(rename = "device")]
    pub devices: Vec<DeviceSection>,
}

/// `[[server.device]]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `Device` and `MemberDevice`
pub struct DeviceSection {
    pub name: String,
    pub slot: Option<u8>,
    pub kind: DeviceKind,
    pub port: u16,
    pub address: Option<Ipv4Addr>,
    pub address6: Option<Ipv6Addr>,
    #[serde(serialize_with = "optional_mac", skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    pub weight: Option<u32>,
    pub priority: Option<u8>,
    pub workers: Option<u16>,
    pub enabled: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    pub agent: AgentSection,
}

impl DeviceSection {
    /// A device behind this port of the switch. It still needs an address.
    pub fn new(name: impl Into<String>, kind: DeviceKind, port: u16) -> Self {
        DeviceSection {
            name: name.into(),
            slot: None,
            kind,
            port,
            address: None,
            address6: None,
            mac: None,
            weight: None,
            priority: None,
            workers: None,
            enabled: None,
            agent: AgentSection::default(),
        }
    }
}

/// `[[service]]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `Service`
pub struct ServiceSection {
    pub name: String,
    #[serde(rename = "vip")]
    pub vips: Vec<IpAddr>,
    #[serde(rename = "protocol")]
    pub protocols: Vec<Protocol>,
    pub port: u16,
    pub policy: Policy,
    pub slots: Option<u32>,
    pub idle_timeout_ms: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    pub tuning: Tuning,
    /// Empty: all servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<MemberSection>,
    pub prometheus: Option<PrometheusSection>,
}

impl ServiceSection {
    /// A service of all servers. It still needs VIPs and protocols.
    pub fn new(name: impl Into<String>, port: u16, policy: Policy) -> Self {
        ServiceSection {
            name: name.into(),
            vips: Vec::new(),
            protocols: Vec::new(),
            port,
            policy,
            slots: None,
            idle_timeout_ms: None,
            tuning: Tuning::default(),
            servers: Vec::new(),
            prometheus: None,
        }
    }
}

/// A server of a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberSection {
    /// The server's name.
    pub name: String,
    /// Its weight among the servers.
    pub weight: u32,
}

/// `[service.prometheus]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PrometheusSection {
    /// `http://host:port`.
    pub url: String,
    /// Between two decisions, in milliseconds.
    pub interval_ms: u32,
    /// Relative importance of each pair of criteria.
    pub judgements: Vec<Vec<f64>>,
    /// Label values by `server/device`.
    pub alternatives: BTreeMap<String, String>,
    /// The criteria.
    #[serde(rename = "criterion")]
    pub criteria: Vec<CriterionSection>,
}

/// `[[service.prometheus.criterion]]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CriterionSection {
    /// Its name.
    pub name: String,
    /// A PromQL expression with one value for every device.
    pub promql: String,
    /// Whether more is better.
    pub goal: Goal,
}

/// `[[members]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `MemberSource`
pub struct MembersSection {
    pub name: String,
    pub api: bool,
    pub file: Option<String>,
    pub ttl_s: Option<u32>,
    /// Empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    pub networks: Vec<Prefix>,
    pub ports: Vec<u16>,
    pub reports: Option<bool>,
}

/// `[learn]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in `Settings` and `LearnConfig`
pub struct LearnSection {
    pub learner: LearnerKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    pub interval_s: f64,
    pub settle_s: f64,
    pub polls: u32,
    pub per_class: bool,
    pub weight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_weight: Option<u32>,
    #[serde(flatten)]
    pub parameters: Parameters,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Bounds>,
    pub clients: ClientsSection,
}

impl LearnSection {
    /// A learner with these settings, apart from its Q-table.
    pub fn new(settings: &Settings, clients: ClientsSection) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        LearnSection {
            learner: settings.learner,
            table: None,
            seed: None,
            interval_s: seconds(settings.interval_ns),
            settle_s: seconds(settings.settle_ns),
            polls: settings.polls,
            per_class: settings.per_class,
            weight: settings.weight,
            first_weight: None,
            parameters: settings.parameters,
            guard: settings.guard,
            clients,
        }
    }
}

/// `[learn.clients]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientsSection {
    /// `http://host:port` of a Prometheus server.
    pub url: String,
    /// PromQL for the 99th percentile of latency, in milliseconds.
    pub p99_ms: String,
    /// PromQL for the share of lost requests, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
}
