//! `[[members]]`: where members that join and leave by themselves come from, and which may.

use super::agent::{AgentSettings, own_settings};
use super::api::is_http;
use super::check::in_use;
use super::reader::{At, Place, Problems, Table};
use super::{ApiSettings, Service, Switch};
use crate::members::dns::is_name;
use crate::types::{DeviceKind, MAX_PORT, Prefix};
use std::net::SocketAddr;

/// The longest time to live of members by default, in seconds.
const DEFAULT_TTL_S: u64 = 30;
/// Time between two requests by default, in seconds.
const DEFAULT_INTERVAL_S: u64 = 10;
/// Most members of a source by default.
const DEFAULT_MOST: u64 = 64;
/// Most members of a source.
const MAX_MOST: u64 = 4096;

/// The remedy for several origins.
const ONE_OF: &str = "write one of `api = true`, `file`, `prometheus` and `dns`";

/// How members get known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// They register by API, and renew.
    Api {
        /// Their longest time to live, and the one of those that name none.
        ttl_s: u32,
    },
    /// A file that is watched: path as written.
    File(String),
    /// A URL with Prometheus's format for HTTP service discovery.
    Prometheus {
        /// `http://host:port/path`.
        url: String,
        /// Time between two requests, in seconds.
        interval_s: u32,
    },
    /// A name in DNS, with SRV records or addresses.
    Dns {
        /// The name.
        name: String,
        /// The server that is asked; `None`: the machine's.
        server: Option<SocketAddr>,
        /// What its members are.
        kind: DeviceKind,
    },
}

impl Origin {
    /// A short description.
    pub fn describe(&self) -> String {
        match self {
            Origin::Api { ttl_s } => format!("API, at most {ttl_s} s to live"),
            Origin::File(path) => format!("file {path}"),
            Origin::Prometheus { url, interval_s } => format!("{url}, every {interval_s} s"),
            Origin::Dns { name, server: None, .. } => format!("DNS, {name}"),
            Origin::Dns { name, server: Some(server), .. } => format!("DNS, {name} at {server}"),
        }
    }
}

/// A source of members.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberSource {
    /// Unique name.
    pub name: String,
    /// How its members get known.
    pub origin: Origin,
    /// Names of the services whose members they are.
    pub services: Vec<String>,
    /// Their addresses must be in one of these.
    pub networks: Vec<Prefix>,
    /// Their ports of the switch.
    pub ports: Vec<u16>,
    /// How many it may have, those that left and may have connections included.
    pub most: usize,
    /// Whether they have agents: without a report for `report_timeout_ms` they get no new connections.
    pub reports: bool,
    /// How their agents work.
    pub agent: AgentSettings,
}

impl MemberSource {
    /// Whether its members register by API.
    pub fn is_api(&self) -> bool {
        matches!(self.origin, Origin::Api { .. })
    }
}

/// A source as written.
pub(super) struct RawSource {
    pub source: MemberSource,
    services: Option<Vec<At<String>>>,
    name: Place,
    pub place: Place,
    ports: Vec<Place>,
    reports: Option<Place>,
}

fn origin(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Origin> {
    let api = t.boolean("api", problems).unwrap_or(false);
    let file = t.text::<String>("file", "write the path of a file with a list of members in JSON", problems);
    let ttl_place = t.place_of("ttl_s");
    let ttl = t.integer("ttl_s", 1, 86_400, problems).map(|v| v.value);
    if ttl.is_some() && !api {
        problems.add(&ttl_place, t.field("ttl_s"), "only members that register by API have one: remove it");
    }
    let url = t.text::<String>("prometheus", "write http://host:port/path", problems);
    let interval_place = t.place_of("interval_s");
    let interval = t.integer("interval_s", 1, 86_400, problems).map(|v| v.value);
    if interval.is_some() && url.is_none() {
        let message = "only a source that is asked over HTTP has one: remove it, or write `prometheus`";
        problems.add(&interval_place, t.field("interval_s"), message);
    }
    if let Some(dns) = dns(t, problems) {
        if api || file.is_some() || url.is_some() {
            problems.add(&t.place_of("dns"), t.field("dns"), ONE_OF);
        }
        return dns;
    }
    match (api, file, url) {
        (true, None, None) => Some(Origin::Api { ttl_s: ttl.unwrap_or(DEFAULT_TTL_S) as u32 }),
        (false, Some(file), None) => Some(Origin::File(file.value)),
        (false, None, Some(url)) if !is_http(&url.value) => {
            let message = format!("`{}`: write http://host:port/path", url.value);
            problems.add(&url.place, t.field("prometheus"), message);
            None
        }
        (false, None, Some(url)) => Some(Origin::Prometheus {
            url: url.value,
            interval_s: interval.unwrap_or(DEFAULT_INTERVAL_S) as u32,
        }),
        (false, None, None) => {
            if t.place_of("file") == t.place && t.place_of("prometheus") == t.place {
                let remedy = "write the path of a list of members, or `prometheus` with a URL, or `dns` with a name, or \
                              `api = true`";
                t.missing("file", remedy, problems);
            }
            None
        }
        (_, file, url) => {
            let place = file.or(url).map_or(t.place.clone(), |at| at.place);
            problems.add(&place, t.field("file"), ONE_OF);
            None
        }
    }
}

/// A name in DNS, if there is one; `Some(None)`: it is wrong.
fn dns(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Option<Origin>> {
    let name = t.text::<String>("dns", "write a name with SRV records or addresses", problems);
    let server = t.text::<SocketAddr>("dns_server", "write ADDRESS:PORT, such as 10.0.0.53:53", problems);
    let kind = t.text::<DeviceKind>("kind", "", problems);
    let Some(name) = name else {
        for (given, key) in [(server.map(|s| s.place), "dns_server"), (kind.map(|k| k.place), "kind")] {
            if let Some(place) = given {
                problems.add(
                    &place,
                    t.field(key),
                    "only members from DNS have it: remove it, or write `dns`",
                );
            }
        }
        return None;
    };
    let text = name.value.trim_end_matches('.').to_string();
    if !is_name(&text) {
        let message = format!(
            "`{}`: write labels of letters, digits, `-` and `_` with dots between them",
            text.escape_debug()
        );
        problems.add(&name.place, t.field("dns"), message);
        return Some(None);
    }
    let kind = kind.map_or(DeviceKind::Cpu, |k| k.value);
    Some(Some(Origin::Dns { name: text, server: server.map(|s| s.value), kind }))
}

fn ports(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Vec<(u16, Place)> {
    if t.place_of("ports") == t.place {
        t.missing("ports", "write the ports of the switch that members are at: [6, 7]", problems);
    }
    let found = t.numbers("ports", 0.0, f64::from(MAX_PORT), problems).unwrap_or_default();
    let mut out = Vec::new();
    for At { value, place } in found {
        if value.fract() != 0.0 {
            problems.add(&place, t.field("ports"), format!("{value}: write a whole number"));
        }
        out.push((value as u16, place));
    }
    out
}

/// Reads `[[members]]`. `settings`: those of `[agent]`.
pub(super) fn source(
    mut t: Table<'_, '_>,
    settings: &AgentSettings,
    problems: &mut Problems<'_>,
) -> Option<RawSource> {
    let name = t.name("name", "every source of members needs a name", problems);
    let origin = origin(&mut t, problems);
    let services = t.list::<String>("services", "write the name of a service", problems);
    if t.place_of("networks") == t.place {
        t.missing(
            "networks",
            "write the networks that members have addresses of: [\"10.0.2.0/24\"]",
            problems,
        );
    }
    let networks = t.list::<Prefix>("networks", "", problems).unwrap_or_default();
    let ports = ports(&mut t, problems);
    let most = t.integer("most", 1, MAX_MOST, problems).map_or(DEFAULT_MOST, |v| v.value) as usize;
    let reports_place = t.place_of("reports");
    let reports = t.boolean("reports", problems);
    let agent = own_settings(&mut t, settings, problems);
    let place = t.place.clone();
    t.finish(problems);
    let (name, origin) = (name?, origin?);
    let reports_by_default = matches!(origin, Origin::Api { .. });
    Some(RawSource {
        source: MemberSource {
            reports: reports.unwrap_or(reports_by_default),
            name: name.value,
            origin,
            services: Vec::new(),
            networks: networks.into_iter().map(|n| n.value).collect(),
            ports: ports.iter().map(|(p, _)| *p).collect(),
            most,
            agent,
        },
        services,
        name: name.place,
        place,
        ports: ports.into_iter().map(|(_, p)| p).collect(),
        reports: reports.filter(|r| *r).map(|_| reports_place),
    })
}

/// Whether members of a source may serve this service, by the names that the source lists (none: all).
pub(super) fn feeds(raw: &RawSource, service: &str) -> bool {
    raw.services.as_ref().is_none_or(|all| all.iter().any(|s| s.value == service))
}

/// The sources, checked against the rest of the file.
pub(super) fn resolve(
    raw: Vec<RawSource>,
    services: &[Service],
    switch: &Switch,
    api: Option<&ApiSettings>,
    problems: &mut Problems<'_>,
) -> Vec<MemberSource> {
    let mut out: Vec<MemberSource> = Vec::new();
    for r in raw {
        if out.iter().any(|s| s.name == r.source.name) {
            let message = format!("two sources of members are called `{}`: rename one", r.source.name);
            problems.add(&r.name, "members.name", message);
        }
        if api.is_none_or(|a| a.state.is_none()) {
            let message = "members keep their numbers in the switch over a restart: write `state` in [api]";
            problems.add(&r.place, "members", message);
        }
        if let Some(place) = r.reports.as_ref().filter(|_| !r.source.is_api()) {
            let message =
                "agents of members get their keys when they register: use `api = true`, or omit `reports`";
            problems.add(place, "members.reports", message);
        }
        for (port, place) in r.source.ports.iter().zip(&r.ports) {
            in_use(switch.cpu_port, *port, place, "members.ports", problems);
        }
        let (timeout, heartbeat) = (switch.report_timeout_ms, r.source.agent.heartbeat_ms);
        if r.source.reports && timeout != 0 && heartbeat.saturating_mul(2) > timeout {
            let message = format!(
                "agents report every {heartbeat} ms, so one lost report would make a member unavailable: write at most half of \
                 switch.report_timeout_ms ({timeout})"
            );
            problems.add(&r.place, "members.agent.heartbeat_ms", message);
        }
        let names = named(&r, services, problems);
        ambiguous(&names, services, &r, problems);
        out.push(MemberSource { services: names, ..r.source });
    }
    out
}

/// The services of a source.
fn named(r: &RawSource, services: &[Service], problems: &mut Problems<'_>) -> Vec<String> {
    for name in r.services.iter().flatten() {
        if services.iter().all(|s| s.name != name.value) {
            let known: Vec<&str> = services.iter().map(|s| s.name.as_str()).collect();
            let message = format!("no service `{}`; there are: {}", name.value, known.join(", "));
            problems.add(&name.place, "members.services", message);
        }
    }
    services.iter().map(|s| &s.name).filter(|s| feeds(r, s)).cloned().collect()
}

/// Two services must not need the same port of a member.
fn ambiguous(names: &[String], services: &[Service], r: &RawSource, problems: &mut Problems<'_>) {
    let own: Vec<&Service> = services.iter().filter(|s| names.contains(&s.name)).collect();
    for (i, a) in own.iter().enumerate() {
        let clash = |b: &&&Service| {
            let protocols = a.protocols.iter().any(|p| b.protocols.contains(p));
            let families = a.vips.iter().any(|v| b.vips.iter().any(|w| v.is_ipv6() == w.is_ipv6()));
            a.port == b.port && protocols && families
        };
        if let Some(b) = own[i + 1..].iter().find(clash) {
            let message = format!(
                "`{}` and `{}` both use port {}, so the answers of a member would be ambiguous: list one of them in `services`",
                a.name, b.name, a.port
            );
            problems.add(&r.place, "members.services", message);
        }
    }
}
