//! From a draft to its scenarios: one for every point of the sweep.

use super::error::{CannotLearn, PolicyError};
use super::read::Draft;
use super::tables::{ClassTable, ClientTable, Source};
use super::{ClientModel, Event, LearnModel, LearnerKind, Scenario, limits, rack};
use crate::arrivals::ArrivalModel;
use crate::device::DeviceModel;
use crate::world::prometheus::SERIES;
use pointsman_balance::config::reader::{At, Problems};
use pointsman_balance::config::{MAX_CLASSES, alike};
use pointsman_balance::config::{NextHop, Service};
use pointsman_balance::types::address_bits;
use pointsman_balance::{DeviceKind, Policy, Protocol, Rack};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

// An answer's tag has room for so many classes.
const _: () = assert!(MAX_CLASSES <= 31);

/// Points of a sweep.
const MAX_POINTS: usize = 100_000;

/// A point of the sweep.
#[derive(Clone, Copy, Default)]
struct Point<'a> {
    servers: Option<&'a At<f64>>,
    rate: Option<&'a At<f64>>,
    policy: Option<&'a At<Policy>>,
    learner: Option<&'a At<LearnerKind>>,
}

impl Point<'_> {
    /// Its coordinates: as in results, whose fields are in the order of the alphabet.
    fn coordinates(&self) -> Vec<(String, String)> {
        let all = [
            ("learner", self.learner.map(|l| l.value.name().to_string())),
            ("policy", self.policy.map(|p| p.value.to_string())),
            ("rate_per_s", self.rate.map(|r| r.value.to_string())),
            ("servers", self.servers.map(|n| (n.value as u32).to_string())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
    }
}

impl Draft {
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

    pub fn scenarios(&self, problems: &mut Problems<'_>) -> Option<Vec<Scenario>> {
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
        self.check_classes(at.servers, problems);
        let rack = self.rack(at, problems)?;
        let clients = self.clients(&rack, at.rate, problems)?;
        let devices = self.models(&rack, problems)?;
        let (class_of, class_names) = self.classes_of(&rack, &devices);
        if let Some(learn) = &self.learn
            && let Err(e) = self.can_learn(&rack, learn, class_names.len())
        {
            problems.add(&self.learn_place, "learn", e.to_string());
            return None;
        }
        let learn = self
            .learn
            .clone()
            .map(|l| LearnModel { learner: at.learner.map_or(l.learner, |wanted| wanted.value), ..l });
        let events = self.events(&rack, &clients, problems)?;
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
            point: at.coordinates(),
        };
        if let Err(e) = limits::check(&scenario) {
            problems.add(&(0..0), "duration_s", e.to_string());
            return None;
        }
        Some(scenario)
    }

    /// The rack of this point.
    fn rack(&self, at: Point<'_>, problems: &mut Problems<'_>) -> Option<Rack> {
        let policy_place = at.policy.map_or(&self.rack_place, |p| &p.place);
        let (place, field, rack) = match &self.source {
            Source::Generated(g) => {
                let mut g = g.clone();
                g.servers = at.servers.map_or(g.servers, |n| n.value as u32);
                g.policy = at.policy.map_or(g.policy, |p| p.value);
                let v6: Vec<bool> = self.clients.iter().map(|c| c.v6).collect();
                let transport = self.clients.first().map_or(Protocol::Udp, |c| c.transport.value);
                let rack = g.file(&v6, transport).rack().map(rack::simulated_keys);
                let rack = rack.map_err(|e| {
                    e.0.first().map_or_else(String::new, |e| format!("{}: {}", e.field, e.message))
                });
                (&self.rack_place, "rack", rack)
            }
            Source::File { rack, policy: own } => {
                let wanted = at.policy.map(|p| p.value).or(*own);
                let rack = wanted.map_or(Ok(rack.as_ref().clone()), |p| with_policy(rack, p));
                (policy_place, "policy", rack.map_err(|e| e.to_string()))
            }
        };
        let rack = match rack {
            Ok(rack) => rack,
            Err(message) => {
                problems.add(place, field, message);
                return None;
            }
        };
        if let Err(e) = rack.services.iter().try_for_each(|s| is_simulated(s.policy, s, &rack)) {
            problems.add(policy_place, "policy", e.to_string());
            return None;
        }
        let by_probes = rack.services.iter().any(|s| s.policy == Policy::ProbeWrr);
        if by_probes && self.base.agents.probes_ns.is_none() {
            let message = "probe-wrr: no probes are sent: write agents.probes_ms, their interval";
            problems.add(&self.rack_place, "agents", message);
            return None;
        }
        Some(rack)
    }

    fn events(
        &self,
        rack: &Rack,
        clients: &[ClientModel],
        problems: &mut Problems<'_>,
    ) -> Option<Vec<Event>> {
        let names: Vec<(String, String)> =
            rack.devices().map(|(s, d)| (s.name.clone(), d.name.clone())).collect();
        let ports: BTreeSet<u16> =
            rack.devices().map(|(_, d)| d.port).chain(clients.iter().map(|c| c.port)).collect();
        let mut events: Vec<Event> =
            self.events.iter().filter_map(|e| e.resolve(&names, &ports, rack, problems)).collect();
        events.sort_by_key(|e| e.at_ns);
        problems.is_empty().then_some(events)
    }

    fn clients(
        &self,
        rack: &Rack,
        rate: Option<&At<f64>>,
        problems: &mut Problems<'_>,
    ) -> Option<Vec<ClientModel>> {
        let mut transports = self.clients.iter().map(|c| &c.transport);
        if let Some(first) = transports.next()
            && let Some(other) = transports.find(|t| t.value != first.value)
        {
            problems.add(&other.place, "client.transport", "all clients must have the same");
            return None;
        }
        let clients = self.clients.iter().enumerate();
        clients.map(|(i, c)| self.client(i, c, rack, rate, problems)).collect()
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
        let service = frontend(c, rack, problems)?;
        let (port, address, via, addresses) = match &self.source {
            Source::Generated(_) => {
                if let Some(p) = &c.port {
                    problems.add(&p.place, "client.port", "the rack and its ports are generated: omit this");
                    return None;
                }
                (index as u16 + 1, rack::client_address(index, c.v6), None, 60_000)
            }
            Source::File { .. } => client_of_file(c, rack, problems)?,
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

    /// Checks that the rack has weights to learn, and the devices that learning needs.
    fn can_learn(&self, rack: &Rack, learn: &LearnModel, classes: usize) -> Result<(), CannotLearn> {
        let has = |cpu: bool| rack.devices().any(|(_, d)| (d.kind == DeviceKind::Cpu) == cpu);
        if let Some(s) = rack.services.iter().find(|s| s.policy != Policy::Wrr) {
            return Err(CannotLearn::Policy(s.name.clone(), s.policy));
        }
        if rack.switch.p4runtime.len() > 1 {
            return Err(CannotLearn::Switches(rack.switch.p4runtime.len()));
        }
        if !has(true) || !has(false) {
            return Err(CannotLearn::Kinds);
        }
        if !self.base.agents.enabled {
            return Err(CannotLearn::NoAgents);
        }
        if learn.per_class && classes > MAX_CLASSES {
            return Err(CannotLearn::Classes(classes));
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

/// Address and port of the service that a client uses.
fn frontend(c: &ClientTable, rack: &Rack, problems: &mut Problems<'_>) -> Option<(IpAddr, u16)> {
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
    let fits = |protocol, vip: IpAddr| protocol == c.transport.value && vip.is_ipv6() == c.v6;
    let found = service.and_then(|s| s.frontends().find(|f| fits(f.protocol, f.vip)));
    if found.is_none() {
        let family = if c.v6 { "IPv6" } else { "IPv4" };
        let message =
            format!("its service has no {family} VIP with the protocol that this client uses: add one");
        problems.add(&c.place, "client.service", message);
    }
    found.map(|f| (f.vip, f.port))
}

/// Port, first address, next hop and number of addresses of a client of a rack from a file.
fn client_of_file(
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
            let message =
                "IPv6 neighbour solicitations are not answered in a simulation: give that [[route]] a `mac`";
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

/// Whether a simulated rack has all that a service with this policy needs.
fn is_simulated(policy: Policy, service: &Service, rack: &Rack) -> Result<(), PolicyError> {
    let choice = rack.choices.iter().find(|c| c.service == service.name);
    match (policy, choice) {
        (Policy::ProbeWrr, _) if !rack.switch.believes_probes => Err(PolicyError::NoProbes(policy)),
        (Policy::Chosen, None) => Err(PolicyError::NoSource(policy)),
        (Policy::Chosen, Some(choice)) => {
            let mut asked = choice.settings.criteria.iter().map(|(promql, _)| promql.as_str());
            let unknown = asked.find(|q| !SERIES.contains(q)).or(choice.settings.age.as_deref());
            unknown.map_or(Ok(()), |name| Err(PolicyError::NoMetric(policy, name.to_string())))
        }
        _ => Ok(()),
    }
}

/// The rack with this policy for all its services.
pub(super) fn with_policy(rack: &Rack, policy: Policy) -> Result<Rack, PolicyError> {
    rack.services.iter().try_for_each(|s| is_simulated(policy, s, rack))?;
    let names: Vec<String> = rack.services.iter().map(|s| s.name.clone()).collect();
    names
        .iter()
        .try_fold(rack.clone(), |rack, name| rack.with_policy(name, policy).map_err(PolicyError::Rack))
}
