//! The tables of a scenario, each as written: `[rack]`, `[[device]]`, `[[client]]`, `[sweep]`.

use super::parts::{arrivals, distribution, payload};
use super::rack::{self, Each, Generated};
use super::{Connections, LearnerKind, Load};
use crate::arrivals::ArrivalModel;
use crate::device::{DeviceModel, Stress};
use pointsman_balance::config::reader::{At, Place, Problems, Table};
use pointsman_balance::config::{AgentSettings, MAX_SWITCHES, read_settings};
use pointsman_balance::{DeviceKind, Policy, Protocol, Rack};

/// Where the rack comes from.
pub(super) enum Source {
    Generated(Box<Generated>),
    File { rack: Box<Rack>, policy: Option<Policy> },
}

/// `[[device]]`: devices of that name.
pub(super) struct DeviceTable {
    pub(super) name: At<String>,
    pub(super) model: DeviceModel,
}

/// `[[class]]`: a number of servers of a generated rack that are faster or slower than the others.
pub(super) struct ClassTable {
    pub(super) name: At<String>,
    pub(super) servers: u32,
    /// Factors for processors and for all other devices.
    pub(super) speed: (f64, f64),
}

pub(super) struct ClientTable {
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) port: Option<At<u64>>,
    pub(super) arrivals: ArrivalModel,
    pub(super) request_bytes: u32,
    pub(super) connections: Connections,
    pub(super) congestion: bool,
    pub(super) v6: bool,
    pub(super) transport: At<Protocol>,
    pub(super) service: Option<At<String>>,
}

#[derive(Default)]
pub(super) struct Sweep {
    pub(super) servers: Vec<At<f64>>,
    pub(super) rates: Vec<At<f64>>,
    pub(super) policies: Vec<At<Policy>>,
    pub(super) learners: Vec<At<LearnerKind>>,
}

pub(super) fn source(
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
                problems.add(&file.place, "rack.file", e.to_string());
                return None;
            }
        };
        return match Rack::parse(&file.value, &text) {
            Ok(rack) => Some(Source::File {
                rack: Box::new(rack::simulated_keys(rack)),
                policy: policy.map(|p| p.value),
            }),
            Err(e) => {
                problems.add(&file.place, "rack.file", e.to_string());
                None
            }
        };
    }
    let servers = t.integer("servers", 1, 8191, problems);
    if servers.is_none() && t.place_of("servers") == t.place {
        t.missing("servers", "write the number of servers, or the `file` of a rack.toml", problems);
    }
    if policy.is_none() && t.place_of("policy") == t.place {
        t.missing("policy", &format!("write {}", Policy::names()), problems);
    }
    let switches = t.integer("switches", 1, MAX_SWITCHES as u64, problems).map_or(1, |v| v.value as u16);
    let slots = t.integer("slots", 16, 65_536, problems).map(|v| v.value as u32);
    let idle = t.integer("idle_timeout_ms", 100, 0xff_ffff, problems).map_or(5_000, |v| v.value as u32);
    let timeout = t.integer("report_timeout_ms", 0, 3_600_000, problems);
    if let Some(place) = timeout.as_ref().filter(|v| v.value > 0 && !agents).map(|v| &v.place) {
        problems.add(place, "rack.report_timeout_ms", "agents are disabled (agents.enabled): write 0");
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
        switches,
        policy: policy?.value,
        slots,
        idle_timeout_ms: idle,
        report_timeout_ms,
        poll_interval_ms: poll,
        agent,
        devices: Vec::new(),
    })))
}

/// Reads `[[device]]` tables. In a generated rack they also define the devices of each server.
pub(super) fn devices(
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
        // With a slash if the rack comes from a file: `name` of the reader takes none.
        let name: Option<At<String>> = t.text("name", "write a string", problems);
        let Some(name) = name else {
            if t.place_of("name") == t.place {
                t.missing("name", "write the device of each server", problems);
            }
            continue;
        };
        if let Some(g) = generated.as_deref_mut() {
            g.devices.push(each(&mut t, &name, i, problems));
        }
        if out.iter().any(|d| d.name.value == name.value) {
            problems.add(&name.place, "device.name", format!("two tables for `{}`: remove one", name.value));
        }
        let workers = t.integer("workers", 1, 65_535, problems).map_or(1, |v| v.value as u32);
        let service = match t.table("service_time", problems) {
            Some(s) => distribution(s, load, problems),
            None => {
                t.missing(
                    "service_time",
                    "write the time per request: { distribution = \"exponential\", mean_ms = 1 }",
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
        let stress = stress(&mut t, problems);
        t.finish(problems);
        let Some(service) = service else { continue };
        let model =
            DeviceModel { workers, service, speed, buffer, give_up_ns, contention, answer_bytes, stress };
        out.push(DeviceTable { name, model });
    }
    out
}

/// A device of each server of a generated rack; it is the `i`th.
fn each(t: &mut Table<'_, '_>, name: &At<String>, i: usize, problems: &mut Problems<'_>) -> Each {
    if !name.value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) || name.value.is_empty() {
        problems.add(&name.place, "device.name", "write letters, digits, `-`, `_` or `.`");
    }
    let kind: Option<At<DeviceKind>> = t.text("kind", "", problems);
    if kind.is_none() && t.place_of("kind") == t.place {
        t.missing("kind", "write \"cpu\", \"smartnic\", \"gpu\", \"fpga\" or \"other\"", problems);
    }
    Each {
        name: name.value.clone(),
        kind: kind.map_or(DeviceKind::Other, |k| k.value),
        weight: t.integer("weight", 1, 1000, problems).map_or(1, |v| v.value as u32),
        priority: t
            .integer("priority", 0, 255, problems)
            .map_or(i.saturating_add(1).try_into().unwrap_or(255), |v| v.value as u8),
        enabled: t.boolean("enabled", problems).unwrap_or(true),
    }
}

/// `stress`: the other processes of a device.
fn stress(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Stress {
    let Some(mut s) = t.table("stress", problems) else { return Stress::default() };
    let stress = Stress {
        processes: s.integer("processes", 0, 1_000_000, problems).map_or(0, |v| v.value as u32),
        memory_percent: s.number("memory_percent", 0.0, 100.0, problems).map_or(0.0, |v| v.value),
    };
    s.finish(problems);
    stress
}

pub(super) fn classes(top: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Vec<ClassTable> {
    let mut out: Vec<ClassTable> = Vec::new();
    for mut t in top.tables("class", problems) {
        let name = t.name("name", "give the class a name: name = \"old\"", problems);
        let servers = t.integer("servers", 1, 8191, problems);
        if servers.is_none() && t.place_of("servers") == t.place {
            t.missing("servers", "write the number of the rack's servers in it", problems);
        }
        let cpu = t.number("cpu_speed", 1e-6, 1e6, problems).map_or(1.0, |v| v.value);
        let other = t.number("accelerator_speed", 1e-6, 1e6, problems).map_or(1.0, |v| v.value);
        t.finish(problems);
        let (Some(name), Some(servers)) = (name, servers) else { continue };
        if out.iter().any(|c| c.name.value == name.value) {
            problems.add(&name.place, "class.name", format!("two classes `{}`: rename one", name.value));
        }
        out.push(ClassTable { name, servers: servers.value as u32, speed: (cpu, other) });
    }
    out
}

pub(super) fn client(
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
            let remedy = "write when requests arrive: { process = \"poisson\", rate_per_s = 1000 }";
            t.missing("arrivals", remedy, problems);
            None
        }
    };
    let request_bytes = payload(&mut t, "request_bytes", problems);
    let connections = connections(&mut t, problems);
    let congestion = t.boolean("ecn", problems).unwrap_or(false);
    let family = t.integer("ip", 4, 6, problems);
    if let Some(place) = family.as_ref().filter(|f| f.value == 5).map(|f| &f.place) {
        problems.add(place, "client.ip", "write 4 or 6");
    }
    let v6 = family.is_some_and(|f| f.value == 6);
    let transport = t.text::<Protocol>("transport", "write \"udp\" or \"tcp\"", problems);
    let transport = transport.unwrap_or(At { value: Protocol::Udp, place: place.clone() });
    if transport.value == Protocol::Tcp && congestion {
        problems.add(&transport.place, "client.transport", "TCP connections do not support `ecn` here");
    }
    t.finish(problems);
    Some(ClientTable {
        place,
        name,
        port,
        arrivals: arrivals?,
        request_bytes,
        connections,
        congestion,
        v6,
        transport,
        service,
    })
}

/// `connections` or `session`.
fn connections(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Connections {
    let lasting = t.integer("connections", 0, 50_000_000, problems);
    let Some(mut session) = t.table("session", problems) else {
        return lasting.map_or(0, |v| v.value as u32).into();
    };
    let requests = session.integer("requests", 1, 1_000_000, problems);
    let gap = session.number("gap_ms", 0.0, 3.6e9, problems);
    for (missing, field, remedy) in [
        (requests.is_none(), "requests", "write how many requests each session has"),
        (gap.is_none(), "gap_ms", "write the milliseconds from one request of a session to the next"),
    ] {
        if missing && session.place_of(field) == session.place {
            session.missing(field, remedy, problems);
        }
    }
    if let Some(lasting) = lasting {
        problems.add(&lasting.place, "client.connections", "every session has its own connection: omit this");
    }
    session.finish(problems);
    Connections::Sessions {
        requests: requests.map_or(1, |v| v.value as u32),
        gap_ns: gap.map_or(0, |v| (v.value * 1e6).round() as u64),
    }
}

pub(super) fn sweep(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Sweep {
    let out = Sweep {
        servers: t.numbers("servers", 1.0, 8191.0, problems).unwrap_or_default(),
        rates: t.numbers("rate_per_s", 1e-6, 1e12, problems).unwrap_or_default(),
        policies: t.list("policy", "", problems).unwrap_or_default(),
        learners: t.list("learner", "", problems).unwrap_or_default(),
    };
    // Equal points would pass for simulations that are independent.
    problems.twice(&out.servers, "sweep.servers");
    problems.twice(&out.rates, "sweep.rate_per_s");
    problems.twice(&out.policies, "sweep.policy");
    problems.twice(&out.learners, "sweep.learner");
    if let Some(n) = out.servers.iter().find(|n| n.value.fract() != 0.0) {
        problems.add(&n.place, "sweep.servers", "write whole numbers");
    }
    t.finish(problems);
    out
}
