//! From TOML to scenarios.

use super::event::{EventTable, event};
use super::parts::{LONGEST_S, agents, arrivals, distribution, link, ns, payload};
use super::rack::{self, Each, Generated};
use super::{AgentModel, ClientModel, Connections, Event, Load, Scenario, limits};
use crate::arrivals::ArrivalModel;
use crate::device::DeviceModel;
use crate::link::LinkModel;
use pointsman_balance::config::reader::{At, Place, Problems, Table};
use pointsman_balance::config::{AgentSettings, ConfigErrors, NextHop, read_settings};
use pointsman_balance::{DeviceKind, Policy, Protocol, Rack};
use std::net::{IpAddr, Ipv4Addr};

/// Points of a sweep.
const MAX_POINTS: usize = 100_000;

/// Reads a scenario. `file` is how messages call the text; `load` reads the files that it names.
///
/// # Errors
/// Everything that is wrong with it, each with line, field and remedy.
pub fn read(file: &str, text: &str, load: &Load<'_>) -> Result<Vec<Scenario>, ConfigErrors> {
    let mut problems = Problems::new(file, text);
    let Some(document) = problems.parse() else { return problems.into_result(None) };
    let mut top = Table::top(&document);
    let draft = Draft::read(&mut top, load, &mut problems);
    top.finish(&mut problems);
    let scenarios = match draft {
        Some(draft) if problems.is_empty() => draft.scenarios(&mut problems),
        _ => None,
    };
    problems.into_result(scenarios)
}

/// Where the rack comes from.
enum Source {
    Generated(Box<Generated>),
    File { rack: Box<Rack>, policy: Option<Policy> },
}

/// `[[device]]`: devices of that name.
struct DeviceTable {
    name: At<String>,
    model: DeviceModel,
}

struct ClientTable {
    place: Place,
    name: String,
    port: Option<At<u64>>,
    arrivals: ArrivalModel,
    request_bytes: u32,
    connections: Connections,
    congestion: bool,
    service: Option<At<String>>,
}

#[derive(Default)]
struct Sweep {
    servers: Vec<At<f64>>,
    rates: Vec<At<f64>>,
    policies: Vec<At<Policy>>,
}

struct Draft {
    base: Base,
    rack_place: Place,
    source: Source,
    devices: Vec<DeviceTable>,
    clients: Vec<ClientTable>,
    events: Vec<EventTable>,
    sweep: Sweep,
}

/// What every point of a sweep shares.
struct Base {
    name: String,
    seed: u64,
    duration_ns: u64,
    warmup_ns: u64,
    patience_ns: u64,
    link: LinkModel,
    client_link: LinkModel,
    switch_latency_ns: u64,
    control_delay_ns: u64,
    agents: AgentModel,
}

impl Draft {
    fn read(top: &mut Table<'_, '_>, load: &Load<'_>, problems: &mut Problems<'_>) -> Option<Draft> {
        let name = top.name("name", "give the scenario a name: name = \"knn\"", problems);
        let seed = top.integer("seed", 0, u64::MAX >> 1, problems).map_or(1, |v| v.value);
        let duration = top.number("duration_s", 1e-6, LONGEST_S, problems);
        if duration.is_none() && top.place_of("duration_s") == top.place {
            top.missing("duration_s", "for how long do clients send?", problems);
        }
        let warmup = top.number("warmup_s", 0.0, LONGEST_S, problems);
        let patience = top.number("patience_s", 1e-6, LONGEST_S, problems).map_or(30.0, |v| v.value);
        if let (Some(d), Some(w)) = (&duration, &warmup)
            && w.value >= d.value
        {
            problems.add(&w.place, "warmup_s", "must be shorter than `duration_s`: nothing would be left");
        }
        let base_link = LinkModel::default();
        let link = match top.table("link", problems) {
            Some(t) => link(t, &base_link, problems),
            None => base_link,
        };
        let client_link = match top.table("client_link", problems) {
            Some(t) => super::parts::link(t, &link, problems),
            None => link.clone(),
        };
        let switch_latency_ns = top.table("switch", problems).map_or(1_000, |mut t| {
            let latency = t.number("latency_us", 0.0, 1e9, problems).map_or(1.0, |v| v.value);
            t.finish(problems);
            (latency * 1e3).round() as u64
        });
        let control_delay_ns = top.table("control", problems).map_or(200_000, |mut t| {
            let delay = t.number("delay_us", 0.0, 1e9, problems).map_or(200.0, |v| v.value);
            t.finish(problems);
            (delay * 1e3).round() as u64
        });
        let agents = agents(top.table("agents", problems), problems);
        let rack_place = top.place_of("rack");
        let source = match top.table("rack", problems) {
            Some(t) => source(t, agents.enabled, load, problems),
            None => {
                top.missing(
                    "rack",
                    "write a table [rack] with `servers`, or with the `file` of a rack.toml",
                    problems,
                );
                None
            }
        };
        let Some(mut source) = source else {
            // What the rest means depends on the rack: it is told of when that is right.
            for rest in ["device", "client", "event"] {
                top.tables(rest, problems);
            }
            top.table("sweep", problems);
            return None;
        };
        let generated = match &mut source {
            Source::Generated(g) => Some(g.as_mut()),
            Source::File { .. } => None,
        };
        let devices = devices(top, generated, load, problems);
        let tables = top.tables("client", problems);
        if tables.is_empty() && top.place_of("client") == top.place {
            top.missing("client", "write at least one [[client]] with its `arrivals`", problems);
        }
        let clients: Vec<_> =
            tables.into_iter().enumerate().filter_map(|(i, t)| client(t, i, load, problems)).collect();
        let events = top.tables("event", problems).into_iter().filter_map(|t| event(t, problems)).collect();
        let sweep = top.table("sweep", problems).map(|t| sweep(t, problems)).unwrap_or_default();
        let base = Base {
            name: name?.value,
            seed,
            duration_ns: ns(duration?.value),
            warmup_ns: warmup.map_or(0, |w| ns(w.value)),
            patience_ns: ns(patience),
            link,
            client_link,
            switch_latency_ns,
            control_delay_ns,
            agents,
        };
        Some(Draft { base, rack_place, source, devices, clients, events, sweep })
    }

    fn scenarios(&self, problems: &mut Problems<'_>) -> Option<Vec<Scenario>> {
        let s = &self.sweep;
        if let (Some(first), Source::File { .. }) = (s.servers.first(), &self.source) {
            problems.add(&first.place, "sweep.servers", "the rack comes from a file: leave this out");
            return None;
        }
        if let (Some(first), false) = (s.rates.first(), self.clients.len() == 1) {
            let message =
                "there is more than one client, so it is not clear whose rate that is: leave this out";
            problems.add(&first.place, "sweep.rate_per_s", message);
            return None;
        }
        let points = s.servers.len().max(1) * s.rates.len().max(1) * s.policies.len().max(1);
        if points > MAX_POINTS {
            problems.add(&(0..0), "sweep", format!("{points} points: at most {MAX_POINTS}; split the sweep"));
            return None;
        }
        fn all<T>(list: &[T]) -> Vec<Option<&T>> {
            if list.is_empty() { vec![None] } else { list.iter().map(Some).collect() }
        }
        let mut out = Vec::new();
        for servers in all(&s.servers) {
            for rate in all(&s.rates) {
                for policy in all(&s.policies) {
                    out.push(self.scenario(servers, rate, policy, problems)?);
                }
            }
        }
        Some(out)
    }

    fn scenario(
        &self,
        servers: Option<&At<f64>>,
        rate: Option<&At<f64>>,
        policy: Option<&At<Policy>>,
        problems: &mut Problems<'_>,
    ) -> Option<Scenario> {
        let mut point = Vec::new();
        let rack = match &self.source {
            Source::Generated(g) => {
                let mut g = g.clone();
                if let Some(n) = servers {
                    g.servers = n.value as u32;
                    point.push(("servers".to_string(), g.servers.to_string()));
                }
                if let Some(p) = policy {
                    g.policy = p.value;
                }
                match Rack::parse("the generated rack", &g.text(self.clients.len())) {
                    Ok(rack) => rack,
                    Err(e) => {
                        let message =
                            e.0.first().map_or_else(String::new, |e| format!("{}: {}", e.field, e.message));
                        problems.add(&self.rack_place, "rack", message);
                        return None;
                    }
                }
            }
            Source::File { rack, policy: own } => {
                let wanted = policy.map(|p| p.value).or(*own);
                match wanted.map_or(Ok(rack.as_ref().clone()), |p| with_policy(rack, p)) {
                    Ok(rack) => rack,
                    Err(message) => {
                        problems.add(policy.map_or(&self.rack_place, |p| &p.place), "policy", message);
                        return None;
                    }
                }
            }
        };
        if let Some(Err(message)) = rack.services.iter().map(|s| is_simulated(s.policy)).find(Result::is_err)
        {
            problems.add(policy.map_or(&self.rack_place, |p| &p.place), "policy", message);
            return None;
        }
        let mut clients = Vec::new();
        for (i, c) in self.clients.iter().enumerate() {
            clients.push(self.client(i, c, &rack, rate, problems)?);
        }
        if let Some(r) = rate {
            point.push(("rate_per_s".into(), r.value.to_string()));
        }
        if let Some(p) = policy {
            point.push(("policy".into(), p.value.to_string()));
        }
        // As in results, whose fields are in the order of the alphabet.
        point.sort();
        let devices = self.models(&rack, problems)?;
        let names: Vec<(String, String)> =
            rack.devices().map(|(s, d)| (s.name.clone(), d.name.clone())).collect();
        let ports: std::collections::BTreeSet<u16> =
            rack.devices().map(|(_, d)| d.port).chain(clients.iter().map(|c| c.port)).collect();
        let mut events: Vec<Event> =
            self.events.iter().filter_map(|e| e.resolve(&names, &ports, &rack, problems)).collect();
        events.sort_by_key(|e| e.at_ns);
        if !problems.is_empty() {
            return None;
        }
        let b = &self.base;
        let scenario = Scenario {
            name: b.name.clone(),
            seed: b.seed,
            duration_ns: b.duration_ns,
            warmup_ns: b.warmup_ns,
            patience_ns: b.patience_ns,
            rack,
            devices,
            clients,
            link: b.link.clone(),
            client_link: b.client_link.clone(),
            switch_latency_ns: b.switch_latency_ns,
            control_delay_ns: b.control_delay_ns,
            agents: b.agents.clone(),
            events,
            point,
        };
        let bytes = limits::memory_bytes(&scenario);
        let requests: f64 = scenario.clients.iter().map(|c| c.arrivals.expected(b.duration_ns)).sum();
        if bytes > limits::MEMORY_LIMIT_BYTES as f64 || requests > f64::from(u32::MAX) / 2.0 {
            let message = format!(
                "{requests:.3e} requests and {} devices would need {:.1} GiB of memory, more than {} GiB (and at most \
                 2.1e9 requests): shorten `duration_s`, or split it into several seeds",
                scenario.devices.len(),
                bytes / (1u64 << 30) as f64,
                limits::MEMORY_LIMIT_BYTES >> 30
            );
            problems.add(&(0..0), "duration_s", message);
            return None;
        }
        Some(scenario)
    }

    fn client(
        &self,
        index: usize,
        c: &ClientTable,
        rack: &Rack,
        rate: Option<&At<f64>>,
        problems: &mut Problems<'_>,
    ) -> Option<ClientModel> {
        let arrivals = match (rate, &c.arrivals) {
            (None, a) => a.clone(),
            (Some(r), ArrivalModel::Poisson { .. }) => ArrivalModel::Poisson { rate_per_s: r.value },
            (Some(r), ArrivalModel::NearConstant { jitter, .. }) => {
                ArrivalModel::NearConstant { rate_per_s: r.value, jitter: *jitter }
            }
            (Some(r), _) => {
                let message = "the client's arrivals have no single rate: leave this out";
                problems.add(&r.place, "sweep.rate_per_s", message);
                return None;
            }
        };
        let service = match &c.service {
            None => rack.services.first(),
            Some(name) => {
                let found = rack.services.iter().find(|s| s.name == name.value);
                if found.is_none() {
                    let names: Vec<&str> = rack.services.iter().map(|s| s.name.as_str()).collect();
                    let message = format!("no service `{}`; there are: {}", name.value, names.join(", "));
                    problems.add(&name.place, "client.service", message);
                }
                found
            }
        };
        let frontend = service.and_then(|s| {
            s.frontends().find_map(|f| match (f.vip, f.protocol) {
                (IpAddr::V4(vip), Protocol::Udp) => Some((vip, f.port)),
                _ => None,
            })
        });
        let Some(service) = frontend else {
            let message = "its service has no IPv4 VIP with UDP, which is what clients use: add one";
            problems.add(&c.place, "client.service", message);
            return None;
        };
        let (port, address, via, addresses) = match &self.source {
            Source::Generated(_) => {
                if let Some(p) = &c.port {
                    problems.add(
                        &p.place,
                        "client.port",
                        "the rack is generated, and its ports with it: leave this out",
                    );
                    return None;
                }
                (index as u16 + 1, rack::client_address(index), None, 60_000)
            }
            Source::File { .. } => {
                let wanted = c.port.as_ref().map(|p| p.value as u16);
                let v4 = |r: &&pointsman_balance::config::Route| r.prefix.address().is_ipv4();
                let found = rack.routes.iter().filter(v4).find(|r| wanted.is_none_or(|p| r.port == p));
                let (Some(route), Some(IpAddr::V4(network))) = (found, found.map(|r| r.prefix.address()))
                else {
                    let message = "the rack has no IPv4 [[route]] there: name the `port` of one";
                    problems.add(&c.place, "client.port", message);
                    return None;
                };
                let via = match route.hop {
                    NextHop::Neighbour(IpAddr::V4(via)) => Some(via),
                    _ => None,
                };
                // Not the first few, which gateways and VIPs tend to have, nor what the rack uses.
                let size = 1u64 << (32 - u32::from(route.prefix.len().min(32)));
                let first = via.map_or(u32::from(network) + 2, u32::from);
                let free = size - (u64::from(first) - u64::from(u32::from(network)));
                let own = |a: u32| {
                    let a = IpAddr::V4(Ipv4Addr::from(a));
                    rack.services.iter().any(|s| s.vips.contains(&a)) || rack.switch.gateways.contains(&a)
                };
                let run = (0..free.min(60_000) as u32).take_while(|i| !own(first + i)).count() as u32;
                (route.port, Ipv4Addr::from(first), via, run.max(1))
            }
        };
        Some(ClientModel {
            name: c.name.clone(),
            port,
            address,
            addresses,
            via,
            arrivals,
            request_bytes: c.request_bytes,
            connections: c.connections,
            service,
            congestion: c.congestion,
        })
    }

    fn models(&self, rack: &Rack, problems: &mut Problems<'_>) -> Option<Vec<DeviceModel>> {
        let mut used = vec![false; self.devices.len()];
        let mut out = Vec::new();
        for (server, device) in rack.devices() {
            let full = format!("{}/{}", server.name, device.name);
            // The full name is more special than the device's alone.
            let named = |name: &str| self.devices.iter().position(|d| d.name.value == name);
            let Some(i) = named(&full).or_else(|| named(&device.name)) else {
                let message =
                    format!("write a [[device]] table for `{}` or `{full}` of the rack", device.name);
                problems.add(&self.rack_place, "device", message);
                return None;
            };
            used[i] = true;
            out.push(self.devices[i].model.clone());
        }
        for (d, _) in self.devices.iter().zip(&used).filter(|(_, used)| !**used) {
            problems.add(&d.name.place, "device.name", format!("the rack has no device `{}`", d.name.value));
        }
        problems.is_empty().then_some(out)
    }
}

/// Whether a simulated rack has all that a policy needs.
fn is_simulated(policy: Policy) -> Result<(), String> {
    let missing = match policy {
        Policy::ProbeWrr => "nobody sends probes",
        Policy::Chosen => "nobody tells the controller which device to choose",
        _ => return Ok(()),
    };
    Err(format!("{policy}: in a simulated rack {missing}: choose another policy"))
}

/// The rack with this policy for all its services.
pub(super) fn with_policy(rack: &Rack, policy: Policy) -> Result<Rack, String> {
    is_simulated(policy)?;
    let names: Vec<String> = rack.services.iter().map(|s| s.name.clone()).collect();
    names.iter().try_fold(rack.clone(), |rack, name| rack.with_policy(name, policy))
}

fn source(
    mut t: Table<'_, '_>,
    agents: bool,
    load: &Load<'_>,
    problems: &mut Problems<'_>,
) -> Option<Source> {
    let file: Option<At<String>> = t.text("file", "write the path of a rack.toml", problems);
    let policy = t.text::<Policy>("policy", "", problems);
    if let Some(file) = file {
        t.finish(problems);
        let text = match load(&file.value) {
            Ok(text) => text,
            Err(e) => {
                problems.add(&file.place, "rack.file", e);
                return None;
            }
        };
        return match Rack::parse(&file.value, &text) {
            Ok(rack) => Some(Source::File { rack: Box::new(rack), policy: policy.map(|p| p.value) }),
            Err(e) => {
                problems.add(&file.place, "rack.file", e.to_string());
                None
            }
        };
    }
    let servers = t.integer("servers", 1, 8191, problems);
    if servers.is_none() && t.place_of("servers") == t.place {
        t.missing("servers", "how many? Or write the `file` of a rack.toml", problems);
    }
    if policy.is_none() && t.place_of("policy") == t.place {
        t.missing("policy", &format!("write {}", Policy::names()), problems);
    }
    let slots = t.integer("slots", 16, 65_536, problems).map(|v| v.value as u32);
    let idle = t.integer("idle_timeout_ms", 100, 0xff_ffff, problems).map_or(5_000, |v| v.value as u32);
    let timeout = t.integer("report_timeout_ms", 0, 3_600_000, problems);
    if let Some(place) = timeout.as_ref().filter(|v| v.value > 0 && !agents).map(|v| &v.place) {
        problems.add(place, "rack.report_timeout_ms", "there are no agents (agents.enabled): write 0");
    }
    let report_timeout_ms = timeout.map_or(if agents { 500 } else { 0 }, |v| v.value as u32);
    let poll = t.integer("poll_interval_ms", 1, 3_600_000, problems).map(|v| v.value as u32);
    let agent = match t.table("agent", problems) {
        Some(mut a) => {
            let settings = read_settings(&mut a, &AgentSettings::default(), problems);
            a.finish(problems);
            settings
        }
        None => AgentSettings::default(),
    };
    t.finish(problems);
    Some(Source::Generated(Box::new(Generated {
        servers: servers?.value as u32,
        policy: policy?.value,
        slots,
        idle_timeout_ms: idle,
        report_timeout_ms,
        poll_interval_ms: poll,
        agent,
        devices: Vec::new(),
    })))
}

/// Reads `[[device]]` tables. In a generated rack they also say which devices each server has.
fn devices(
    top: &mut Table<'_, '_>,
    mut generated: Option<&mut Generated>,
    load: &Load<'_>,
    problems: &mut Problems<'_>,
) -> Vec<DeviceTable> {
    let tables = top.tables("device", problems);
    if tables.is_empty() && top.place_of("device") == top.place {
        top.missing(
            "device",
            "write a [[device]] table with `service_time` for every kind of device",
            problems,
        );
    }
    let mut out: Vec<DeviceTable> = Vec::new();
    for (i, mut t) in tables.into_iter().enumerate() {
        // With a slash where the rack comes from a file: `name` of the reader takes none.
        let name: Option<At<String>> = t.text("name", "write a string", problems);
        let Some(name) = name else {
            if t.place_of("name") == t.place {
                t.missing("name", "which device of each server?", problems);
            }
            continue;
        };
        if let Some(g) = generated.as_deref_mut() {
            if !name.value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                || name.value.is_empty()
            {
                problems.add(&name.place, "device.name", "write letters, digits, `-`, `_` or `.`");
            }
            let kind: Option<At<DeviceKind>> = t.text("kind", "", problems);
            if kind.is_none() && t.place_of("kind") == t.place {
                t.missing("kind", "write \"cpu\", \"smartnic\", \"gpu\", \"fpga\" or \"other\"", problems);
            }
            g.devices.push(Each {
                name: name.value.clone(),
                kind: kind.map_or(DeviceKind::Other, |k| k.value),
                weight: t.integer("weight", 1, 1000, problems).map_or(1, |v| v.value as u32),
                priority: t.integer("priority", 0, 255, problems).map_or(i as u8 + 1, |v| v.value as u8),
                enabled: t.boolean("enabled", problems).unwrap_or(true),
            });
        }
        if out.iter().any(|d| d.name.value == name.value) {
            problems.add(&name.place, "device.name", format!("two tables for `{}`: remove one", name.value));
        }
        let workers = t.integer("workers", 1, 1_000_000, problems).map_or(1, |v| v.value as u32);
        let service = match t.table("service_time", problems) {
            Some(s) => distribution(s, load, problems),
            None => {
                t.missing(
                    "service_time",
                    "how long does a request take? { distribution = \"exponential\", mean_ms = 1 }",
                    problems,
                );
                None
            }
        };
        let speed = t.number("speed", 1e-6, 1e6, problems).map_or(1.0, |v| v.value);
        let buffer = t.integer("buffer", 0, 100_000_000, problems).map_or(100_000, |v| v.value as u32);
        let give_up_ns =
            t.number("give_up_ms", 1e-6, 3.6e9, problems).map(|v| (v.value * 1e6).round() as u64);
        let contention = t.number("contention", 0.0, 1e3, problems).map_or(0.0, |v| v.value);
        let answer_bytes = payload(&mut t, "answer_bytes", problems);
        t.finish(problems);
        let Some(service) = service else { continue };
        let model = DeviceModel { workers, service, speed, buffer, give_up_ns, contention, answer_bytes };
        out.push(DeviceTable { name, model });
    }
    out
}

fn client(
    mut t: Table<'_, '_>,
    index: usize,
    load: &Load<'_>,
    problems: &mut Problems<'_>,
) -> Option<ClientTable> {
    if index >= rack::MAX_CLIENTS {
        problems.add(&t.place, "client", format!("at most {} clients", rack::MAX_CLIENTS));
        return None;
    }
    let place = t.place.clone();
    let name: Option<At<String>> = t.text("name", "write a string", problems);
    let name = name.map_or_else(|| format!("client{}", index + 1), |n| n.value);
    let port = t.integer("port", 0, 510, problems);
    let service = t.text("service", "write the name of a service of the rack", problems);
    let arrivals = match t.table("arrivals", problems) {
        Some(a) => arrivals(a, load, problems),
        None => {
            let remedy = "when do requests come? { process = \"poisson\", rate_per_s = 1000 }";
            t.missing("arrivals", remedy, problems);
            None
        }
    };
    let request_bytes = payload(&mut t, "request_bytes", problems);
    let lasting = t.integer("connections", 0, 50_000_000, problems).map_or(0, |v| v.value as u32);
    let connections = if lasting == 0 { Connections::PerRequest } else { Connections::Lasting(lasting) };
    let congestion = t.boolean("ecn", problems).unwrap_or(false);
    t.finish(problems);
    Some(ClientTable {
        place,
        name,
        port,
        arrivals: arrivals?,
        request_bytes,
        connections,
        congestion,
        service,
    })
}

fn sweep(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Sweep {
    let out = Sweep {
        servers: t.numbers("servers", 1.0, 8191.0, problems).unwrap_or_default(),
        rates: t.numbers("rate_per_s", 1e-6, 1e12, problems).unwrap_or_default(),
        policies: t.list("policy", "", problems).unwrap_or_default(),
    };
    if let Some(n) = out.servers.iter().find(|n| n.value.fract() != 0.0) {
        problems.add(&n.place, "sweep.servers", "write whole numbers");
    }
    t.finish(problems);
    out
}
