//! From TOML to scenarios.

use super::event::{EventTable, event};
use super::learn::learn;
use super::parts::{LONGEST_S, agents, link, ns, prometheus};
use super::tables::{
    ClassTable, ClientTable, DeviceTable, Source, Sweep, classes, client, devices, source, sweep,
};
use super::{
    AgentModel, ClientModel, Event, LearnModel, LearnerKind, Load, PrometheusModel, Scenario, limits, rack,
};
use crate::arrivals::ArrivalModel;
use crate::device::DeviceModel;
use crate::link::LinkModel;
use crate::world::prometheus::SERIES;
use pointsman_balance::config::reader::{At, Place, Problems, Table};
use pointsman_balance::config::{ConfigErrors, NextHop, Service};
use pointsman_balance::learn::{MAX_CLASSES, alike};
use pointsman_balance::types::address_bits;
use pointsman_balance::{DeviceKind, Policy, Protocol, Rack};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

// An answer's tag has room for so many classes.
const _: () = assert!(MAX_CLASSES <= 31);

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

struct Draft {
    base: Base,
    rack_place: Place,
    source: Source,
    devices: Vec<DeviceTable>,
    classes: Vec<ClassTable>,
    clients: Vec<ClientTable>,
    events: Vec<EventTable>,
    sweep: Sweep,
    learn: Option<LearnModel>,
    learn_place: Place,
}

/// A point of the sweep.
#[derive(Clone, Copy, Default)]
struct Point<'a> {
    servers: Option<&'a At<f64>>,
    rate: Option<&'a At<f64>>,
    policy: Option<&'a At<Policy>>,
    learner: Option<&'a At<LearnerKind>>,
}

/// The part that every point of a sweep shares.
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
    prometheus: PrometheusModel,
}

impl Draft {
    fn read(top: &mut Table<'_, '_>, load: &Load<'_>, problems: &mut Problems<'_>) -> Option<Draft> {
        let name = top.name("name", "give the scenario a name: name = \"knn\"", problems);
        let seed = top.integer("seed", 0, u64::MAX >> 1, problems).map_or(1, |v| v.value);
        let duration = top.number("duration_s", 1e-6, LONGEST_S, problems);
        if duration.is_none() && top.place_of("duration_s") == top.place {
            top.missing("duration_s", "write how long clients send, in seconds", problems);
        }
        let warmup = top.number("warmup_s", 0.0, LONGEST_S, problems);
        let patience = top.number("patience_s", 1e-6, LONGEST_S, problems).map_or(30.0, |v| v.value);
        if let (Some(d), Some(w)) = (&duration, &warmup)
            && w.value >= d.value
        {
            problems.add(&w.place, "warmup_s", "must be shorter than `duration_s`");
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
        let prometheus = prometheus(top.table("prometheus", problems), problems);
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
            // The meaning of the rest depends on the rack: it is checked once that is valid.
            for rest in ["device", "class", "client", "event"] {
                top.tables(rest, problems);
            }
            top.table("sweep", problems);
            top.table("learn", problems);
            return None;
        };
        let generated = match &mut source {
            Source::Generated(g) => Some(g.as_mut()),
            Source::File { .. } => None,
        };
        let devices = devices(top, generated, load, problems);
        let classes = classes(top, problems);
        let tables = top.tables("client", problems);
        if tables.is_empty() && top.place_of("client") == top.place {
            top.missing("client", "write at least one [[client]] with its `arrivals`", problems);
        }
        let clients: Vec<_> =
            tables.into_iter().enumerate().filter_map(|(i, t)| client(t, i, load, problems)).collect();
        let events = top.tables("event", problems).into_iter().filter_map(|t| event(t, problems)).collect();
        let sweep = top.table("sweep", problems).map(|t| sweep(t, problems)).unwrap_or_default();
        let learn_place = top.place_of("learn");
        let learn = top.table("learn", problems).and_then(|t| learn(t, load, problems));
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
            prometheus,
        };
        Some(Draft { base, rack_place, source, devices, classes, clients, events, sweep, learn, learn_place })
    }

    /// Whether `[[class]]` tables fit the rack.
    fn check_classes(&self, servers: Option<&At<f64>>, problems: &mut Problems<'_>) {
        let Some(last) = self.classes.last() else { return };
        let Source::Generated(g) = &self.source else {
            let message =
                "the rack comes from a file: give its devices their own models, [[device]] name = \"s1/cpu\"";
            return problems.add(&last.name.place, "class", message);
        };
        let all = servers.map_or(g.servers, |s| s.value as u32);
        let wanted: u64 = self.classes.iter().map(|c| u64::from(c.servers)).sum();
        if wanted > u64::from(all) {
            let message = format!("the classes have {wanted} servers, but the rack has {all}");
            problems.add(&last.name.place, "class.servers", message);
        }
    }

    fn scenarios(&self, problems: &mut Problems<'_>) -> Option<Vec<Scenario>> {
        let s = &self.sweep;
        if let (Some(first), Source::File { .. }) = (s.servers.first(), &self.source) {
            problems.add(&first.place, "sweep.servers", "the rack comes from a file: omit this");
            return None;
        }
        if let (Some(first), false) = (s.rates.first(), self.clients.len() == 1) {
            let message = "there is more than one client, so the rate is ambiguous: omit this";
            problems.add(&first.place, "sweep.rate_per_s", message);
            return None;
        }
        if let (Some(first), None) = (s.learners.first(), &self.learn) {
            let message = "there is no table [learn]: write one";
            problems.add(&first.place, "sweep.learner", message);
            return None;
        }
        let points = [s.servers.len(), s.rates.len(), s.policies.len(), s.learners.len()];
        let points = points.iter().fold(1usize, |all, n| all.saturating_mul((*n).max(1)));
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
                    for learner in all(&s.learners) {
                        out.push(self.scenario(Point { servers, rate, policy, learner }, problems)?);
                    }
                }
            }
        }
        Some(out)
    }

    fn scenario(&self, at: Point<'_>, problems: &mut Problems<'_>) -> Option<Scenario> {
        let Point { servers, rate, policy, learner } = at;
        let mut point = Vec::new();
        self.check_classes(servers, problems);
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
                let v6: Vec<bool> = self.clients.iter().map(|c| c.v6).collect();
                let transport = self.clients.first().map_or(Protocol::Udp, |c| c.transport.value);
                match g.file(&v6, transport).rack() {
                    Ok(rack) => rack::simulated_keys(rack),
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
        if let Some(Err(message)) =
            rack.services.iter().map(|s| is_simulated(s.policy, s, &rack)).find(Result::is_err)
        {
            problems.add(policy.map_or(&self.rack_place, |p| &p.place), "policy", message);
            return None;
        }
        let by_probes = rack.services.iter().any(|s| s.policy == Policy::ProbeWrr);
        if by_probes && self.base.agents.probes_ns.is_none() {
            let message = "probe-wrr: no probes are sent: write agents.probes_ms, their interval";
            problems.add(&self.rack_place, "agents", message);
            return None;
        }
        let mut transports = self.clients.iter().map(|c| &c.transport);
        if let Some(first) = transports.next()
            && let Some(other) = transports.find(|t| t.value != first.value)
        {
            problems.add(&other.place, "client.transport", "all clients must have the same");
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
        if let Some(l) = learner {
            point.push(("learner".into(), l.value.name().into()));
        }
        // As in results, whose fields are in the order of the alphabet.
        point.sort();
        let devices = self.models(&rack, problems)?;
        let (class_of, class_names) = self.classes_of(&rack, &devices);
        let learn = self
            .learn
            .clone()
            .map(|l| LearnModel { learner: learner.map_or(l.learner, |wanted| wanted.value), ..l });
        let per_class = learn.as_ref().is_some_and(|l| l.per_class);
        if let Some(Err(message)) = learn.as_ref().map(|_| self.can_learn(&rack)) {
            problems.add(&self.learn_place, "learn", message);
            return None;
        }
        if per_class && class_names.len() > MAX_CLASSES {
            let message = format!(
                "{} different kinds of servers: at most {MAX_CLASSES} can have their own weights; write per_class = false",
                class_names.len()
            );
            problems.add(&self.learn_place, "learn", message);
            return None;
        }
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
            class_of,
            class_names,
            clients,
            link: b.link.clone(),
            client_link: b.client_link.clone(),
            switch_latency_ns: b.switch_latency_ns,
            control_delay_ns: b.control_delay_ns,
            agents: b.agents.clone(),
            prometheus: b.prometheus.clone(),
            events,
            learn,
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
                let message = "the client's arrivals have no single rate: omit this";
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
                (vip, protocol) if protocol == c.transport.value && vip.is_ipv6() == c.v6 => {
                    Some((vip, f.port))
                }
                _ => None,
            })
        });
        let Some(service) = frontend else {
            let family = if c.v6 { "IPv6" } else { "IPv4" };
            let message =
                format!("its service has no {family} VIP with the protocol that this client uses: add one");
            problems.add(&c.place, "client.service", message);
            return None;
        };
        let (port, address, via, addresses) = match &self.source {
            Source::Generated(_) => {
                if let Some(p) = &c.port {
                    problems.add(&p.place, "client.port", "the rack and its ports are generated: omit this");
                    return None;
                }
                (index as u16 + 1, rack::client_address(index, c.v6), None, 60_000)
            }
            Source::File { .. } => self.client_of_file(c, rack, problems)?,
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
            transport: c.transport.value,
            service,
            congestion: c.congestion,
        })
    }

    /// Port, first address, next hop and number of addresses of a client of a rack from a file.
    fn client_of_file(
        &self,
        c: &ClientTable,
        rack: &Rack,
        problems: &mut Problems<'_>,
    ) -> Option<(u16, IpAddr, Option<Ipv4Addr>, u32)> {
        let wanted = c.port.as_ref().map(|p| p.value as u16);
        let mut routes = rack.routes.iter().filter(|r| r.prefix.address().is_ipv6() == c.v6);
        let Some(route) = routes.find(|r| wanted.is_none_or(|p| r.port == p)) else {
            let family = if c.v6 { "IPv6" } else { "IPv4" };
            let message = format!("the rack has no {family} [[route]] there: name the `port` of one");
            problems.add(&c.place, "client.port", message);
            return None;
        };
        let network = address_bits(route.prefix.address());
        let via = match route.hop {
            NextHop::Neighbour(IpAddr::V4(via)) => Some(via),
            NextHop::Neighbour(IpAddr::V6(_)) => {
                let message = "IPv6 neighbour solicitations are not answered in a simulation: give that [[route]] a `mac`";
                problems.add(&c.place, "client.port", message);
                return None;
            }
            _ => None,
        };
        // Neither the first few, which gateways and VIPs tend to have, nor those in use by the rack.
        let bits = if c.v6 { 128u32 } else { 32 };
        let size = 1u128.checked_shl(bits - u32::from(route.prefix.len()).min(bits)).unwrap_or(u128::MAX);
        let first = via.map_or(network + 2, |v| u32::from(v).into());
        let free = size.saturating_sub(first - network);
        let at = |n: u128| match c.v6 {
            true => IpAddr::V6(Ipv6Addr::from(n)),
            false => IpAddr::V4(Ipv4Addr::from(n as u32)),
        };
        let own = |n: u128| {
            let a = at(n);
            rack.services.iter().any(|s| s.vips.contains(&a)) || rack.switch.gateways.contains(&a)
        };
        let run = (0..free.min(60_000)).take_while(|i| !own(first + i)).count() as u32;
        Some((route.port, at(first), via, run.max(1)))
    }

    /// Checks that the rack has weights to learn, and the devices that learning needs.
    fn can_learn(&self, rack: &Rack) -> Result<(), String> {
        let has = |cpu: bool| rack.devices().any(|(_, d)| (d.kind == DeviceKind::Cpu) == cpu);
        if let Some(s) = rack.services.iter().find(|s| s.policy != Policy::Wrr) {
            let (name, policy) = (&s.name, s.policy);
            return Err(format!(
                "service {name} has policy {policy}, but learners set the weights of wrr: write that"
            ));
        }
        if rack.switch.p4runtime.len() > 1 {
            let all = rack.switch.p4runtime.len();
            return Err(format!(
                "learners read the registers of one switch, but the rack has {all}: omit this, or the other switches"
            ));
        }
        if !has(true) || !has(false) {
            return Err("the rack needs processors (kind \"cpu\") and accelerators (any other kind)".into());
        }
        if !self.base.agents.enabled {
            return Err("learners need agents' reports: omit agents.enabled".into());
        }
        Ok(())
    }

    /// The class that a server of a generated rack was put into: the first servers are of the first class.
    fn class_of_server(&self, server: usize) -> Option<&ClassTable> {
        let mut first = 0;
        self.classes.iter().find(|c| {
            first += c.servers as usize;
            server < first
        })
    }

    /// Classes of servers with equal devices, and their names.
    fn classes_of(&self, rack: &Rack, devices: &[DeviceModel]) -> (Vec<u8>, Vec<String>) {
        let mut at = 0;
        let servers = rack.servers.iter().enumerate().map(|(i, server)| {
            let own = server.devices.iter().zip(&devices[at..]);
            let own: Vec<(DeviceKind, bool, &DeviceModel)> =
                own.map(|(d, model)| (d.kind, d.enabled, model)).collect();
            at += own.len();
            let given =
                self.class_of_server(i).map(|c| c.name.value.clone()).or_else(|| server.class.clone());
            // A class in the rack's file is one class, whatever its servers are.
            let key = server.class.clone().ok_or(own);
            (key, given.unwrap_or_else(|| format!("like-{}", server.name)))
        });
        let (of, mut names) = alike(servers);
        if names.len() == 1 {
            names = vec![String::new()];
        }
        (of.into_iter().map(|class| class.min(MAX_CLASSES) as u8).collect(), names)
    }

    fn models(&self, rack: &Rack, problems: &mut Problems<'_>) -> Option<Vec<DeviceModel>> {
        let mut used = vec![false; self.devices.len()];
        let mut out = Vec::new();
        let all = rack.servers.iter().enumerate().flat_map(|(i, s)| s.devices.iter().map(move |d| (i, s, d)));
        for (index, server, device) in all {
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
            let mut model = self.devices[i].model.clone();
            if let Some(class) = self.class_of_server(index) {
                model.speed *= if device.kind == DeviceKind::Cpu { class.speed.0 } else { class.speed.1 };
            }
            out.push(model);
        }
        for (d, _) in self.devices.iter().zip(&used).filter(|(_, used)| !**used) {
            problems.add(&d.name.place, "device.name", format!("the rack has no device `{}`", d.name.value));
        }
        problems.is_empty().then_some(out)
    }
}

/// Whether a simulated rack has all that a service with this policy needs.
fn is_simulated(policy: Policy, service: &Service, rack: &Rack) -> Result<(), String> {
    let choice = rack.choices.iter().find(|c| c.service == service.name);
    let missing = match (policy, choice) {
        (Policy::ProbeWrr, _) if !rack.switch.believes_probes => "no probes are sent: choose another policy",
        (Policy::Chosen, None) => {
            "the controller has no source for the chosen device: write [service.prometheus], or choose another policy"
        }
        (Policy::Chosen, Some(choice)) => {
            let mut asked = choice.settings.criteria.iter().map(|(promql, _)| promql.as_str());
            let unknown = asked.find(|q| !SERIES.contains(q)).or(choice.settings.age.as_deref());
            let Some(other) = unknown else { return Ok(()) };
            let known = SERIES.join(", ");
            return Err(format!(
                "{policy}: a simulated rack has no metric `{other}`: as `promql` write one of {known}, without `age`"
            ));
        }
        _ => return Ok(()),
    };
    Err(format!("{policy}: in a simulated rack {missing}"))
}

/// The rack with this policy for all its services.
pub(super) fn with_policy(rack: &Rack, policy: Policy) -> Result<Rack, String> {
    rack.services.iter().try_for_each(|s| is_simulated(policy, s, rack))?;
    let names: Vec<String> = rack.services.iter().map(|s| s.name.clone()).collect();
    names.iter().try_fold(rack.clone(), |rack, name| rack.with_policy(name, policy))
}
