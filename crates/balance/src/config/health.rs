//! How an agent checks the health of its device's service: `health` in `[agent]` and `[server.device.agent]`.

use super::reader::{Problems, Table};
use super::{Device, Rack};
use crate::types::Protocol;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// The kind of probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Opens a TCP connection.
    Tcp,
    /// Asks for a path over HTTP; a status from 200 to 399 passes.
    Http {
        /// The path.
        path: String,
    },
    /// Sends a datagram; any answer passes.
    Udp {
        /// The payload.
        send: String,
    },
    /// Asks gRPC's health service, grpc.health.v1; `SERVING` passes.
    Grpc {
        /// The service that is asked for; empty: the server as a whole.
        service: String,
    },
}

/// The kinds, for messages.
const KINDS: &str = "write \"tcp\", \"http\", \"grpc\", \"udp\" or \"none\"";

impl ProbeKind {
    fn protocol(&self) -> Protocol {
        match self {
            ProbeKind::Tcp | ProbeKind::Http { .. } | ProbeKind::Grpc { .. } => Protocol::Tcp,
            ProbeKind::Udp { .. } => Protocol::Udp,
        }
    }
}

/// A health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// The kind of probe.
    pub kind: ProbeKind,
    /// Port of the device; None: the ports of its services.
    pub port: Option<u16>,
    /// Time between probes, in milliseconds.
    pub interval_ms: u32,
    /// A probe without an answer after this many milliseconds has failed.
    pub timeout_ms: u32,
    /// So many probes in a row have to pass before a failed device is healthy.
    pub rise: u32,
    /// So many probes in a row have to fail before a healthy device has failed.
    pub fall: u32,
}

impl Default for HealthSettings {
    fn default() -> Self {
        let kind = ProbeKind::Tcp;
        HealthSettings { kind, port: None, interval_ms: 250, timeout_ms: 1000, rise: 2, fall: 2 }
    }
}

/// Whether and how the health of a device is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HealthCheck {
    /// The configuration does not say: TCP connections to the ports of the device's services. A port where no probe ever passed is not
    /// held against the device, since the service may be reachable in another way only.
    #[default]
    Implied,
    /// Not at all.
    Off,
    /// As configured.
    Set(HealthSettings),
}

/// One place that is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Address and port.
    pub to: SocketAddr,
    /// How.
    pub settings: HealthSettings,
    /// The check is the default: failures count only after a probe has passed.
    pub implied: bool,
}

/// The probes of a device. `own`: by its own agent, on the device. Another device's agent runs only the configured
/// checks.
pub(crate) fn targets(rack: &Rack, device: &Device, own: bool) -> Vec<Target> {
    let implied = device.agent.health == HealthCheck::Implied;
    let settings = match &device.agent.health {
        HealthCheck::Set(settings) => settings.clone(),
        HealthCheck::Implied if own => HealthSettings::default(),
        HealthCheck::Implied | HealthCheck::Off => return Vec::new(),
    };
    let address = |like: &IpAddr| device.addresses().find(|a| a.is_ipv4() == like.is_ipv4());
    let protocol = settings.kind.protocol();
    let of_device = |s: &&super::Service| {
        s.members.iter().flat_map(|m| &m.devices).any(|d| d.number == device.number && (d.enabled || d.held))
    };
    let mut places = BTreeSet::new();
    for service in rack.services.iter().filter(of_device) {
        // With direct return the service has the VIP for its address, and the device's own may lead nowhere.
        let counts = settings.port.is_some()
            || service.protocols.contains(&protocol) && (!implied || service.direct_return.is_none());
        if counts {
            let port = settings.port.unwrap_or(service.port);
            places.extend(service.vips.iter().filter_map(address).map(|a| SocketAddr::new(a, port)));
        }
    }
    places.into_iter().map(|to| Target { to, settings: settings.clone(), implied }).collect()
}

/// Reads `health`, on top of `base`.
pub(super) fn read(t: &mut Table<'_, '_>, base: &HealthCheck, problems: &mut Problems<'_>) -> HealthCheck {
    let field = t.field("health");
    let Some(mut h) = t.table("health", problems) else { return base.clone() };
    let defaults = HealthSettings::default();
    let kind = h.text::<String>("kind", KINDS, problems);
    let kind_place = h.place_of("kind");
    let path = h.text::<String>("path", "write the path of the HTTP request: \"/healthz\"", problems);
    let send = h.text::<String>("send", "write the payload of the datagram", problems);
    let service = h.text::<String>("service", "write the name of a gRPC service: \"shop.Cart\"", problems);
    let port = h.integer("port", 1, 65_535, problems).map(|p| p.value as u16);
    let mut number = |name, max, default: u32, problems: &mut Problems<'_>| {
        h.integer(name, 1, max, problems).map_or(default, |v| v.value as u32)
    };
    let interval_ms = number("interval_ms", 3_600_000, defaults.interval_ms, problems);
    let timeout_ms = number("timeout_ms", 60_000, defaults.timeout_ms, problems);
    let rise = number("rise", 1000, defaults.rise, problems);
    let fall = number("fall", 1000, defaults.fall, problems);
    let name = kind.as_ref().map_or("tcp", |k| k.value.as_str());
    for (given, of, what) in [(&path, "http", "path"), (&send, "udp", "send"), (&service, "grpc", "service")]
    {
        if let Some(given) = given
            && name != of
        {
            problems.add(&given.place, format!("{field}.{what}"), format!("only kind = \"{of}\" has it"));
        }
    }
    let kind = match name {
        "none" => None,
        "tcp" => Some(ProbeKind::Tcp),
        "http" => Some(ProbeKind::Http { path: path.map_or_else(|| "/".into(), |p| p.value) }),
        "udp" => Some(ProbeKind::Udp { send: send.as_ref().map_or_else(String::new, |s| s.value.clone()) }),
        "grpc" => Some(ProbeKind::Grpc { service: service.map_or_else(String::new, |s| s.value) }),
        other => {
            let message = format!("`{other}`: {KINDS}");
            problems.add(&kind_place, format!("{field}.kind"), message);
            None
        }
    };
    match &kind {
        Some(ProbeKind::Udp { .. }) if send.is_none() => {
            h.missing("send", "write a datagram that the service answers: send = \"ping\"", problems);
        }
        Some(ProbeKind::Http { path })
            if !path.starts_with('/') || !path.bytes().all(|b| b.is_ascii_graphic()) =>
        {
            problems.add(&h.place_of("path"), format!("{field}.path"), "write a path: \"/healthz\"");
        }
        _ => {}
    }
    h.finish(problems);
    match kind {
        None => HealthCheck::Off,
        Some(kind) => HealthCheck::Set(HealthSettings { kind, port, interval_ms, timeout_ms, rise, fall }),
    }
}
