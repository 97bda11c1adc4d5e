//! A scenario in real time: its rack as network namespaces of this machine, with switch, controller and agents, devices as
//! queues with sockets, and requests at predetermined times.
//!
//! Request times and service times are drawn by the simulator's own code from the same seeds.

mod behind;
mod stretch;

pub use crate::wire_error::WireError;
pub use behind::{Behind, Proxied};
use pointsman_balance::agent::AgentConfig;
use pointsman_balance::config::file::{
    AgentSection, DeviceSection, LearnSection, RackFile, ServerSection, ServiceSection, SourceSection,
    SwitchSection,
};
use pointsman_balance::config::{NextHop, Route};
use pointsman_balance::{DeviceKind, Prefix, Protocol};
use pointsman_compile::executor::Choice;
use pointsman_lab::Namespace;
use pointsman_lab::device::{DeviceConfig, Model, ServiceTime};
use pointsman_lab::load::{self, LoadConfig, SourcePorts};
use pointsman_lab::rack::{ClientSpec, DeviceKind as LabKind, DeviceSpec, Link, RackSpec, ServerSpec};
use pointsman_lab::wire::{Key, Keyring};
use pointsman_live::{ClientsView, Live, Log, p4runtime};
use pointsman_sim::Scenario;
use pointsman_sim::arrivals::{ArrivalModel, Arrivals};
use pointsman_sim::device::{DeviceModel, Stress};
use pointsman_sim::random::{Distribution, Part, Stream};
use pointsman_sim::scenario::{Action, ClientModel, Connections, Event, LearnModel};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
pub use stretch::stretched;

/// Each device is a network namespace with its subnet.
const MAX_DEVICES: usize = 48;
const SERVICE: &str = "service";
const PATIENCE: Duration = Duration::from_secs(30);
/// The address of each device's load metric, in its own namespace.
const METRICS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9100));
/// Number of service times drawn for each device; then they repeat.
const DRAWS: usize = 1 << 16;

/// Results of one run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Requests that were due.
    pub sent: u64,
    /// Not answered in time.
    pub lost: u64,
    /// Median over all of them, lost ones with the client's patience.
    pub p50_ms: f64,
    /// Their mean.
    pub mean_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Answered, for each second in which requests were sent.
    pub answered_per_s: f64,
    /// Answered in that time, for each second of it.
    pub finished_per_s: f64,
    /// From the beginning until the last was answered or lost.
    pub took_s: f64,
    /// The generator fell behind its schedule: the machine was busy.
    pub late: bool,
    /// Weight of accelerators set by the learner, if any, once for each decision.
    pub weights: Vec<u32>,
}

/// A scenario as the lab can run it.
struct Plan {
    spec: RackSpec,
    devices: Vec<DeviceConfig>,
    file: RackFile,
}

fn refused(field: &'static str, remedy: &str) -> WireError {
    WireError::Refused(field, remedy.to_string())
}

/// Whether the lab supports everything in the scenario.
///
/// # Errors
/// An unsupported field, with an alternative.
pub fn check(s: &Scenario) -> Result<(), WireError> {
    plan(s, 1).map(|_| ())
}

/// Refuses what the lab cannot do: omitting it would be a different experiment.
fn check_features(s: &Scenario, client: &ClientModel) -> Result<(), WireError> {
    if s.events.iter().any(|e| !matches!(e.action, Action::Power(..))) {
        return Err(refused("event", "omit all but switch-down and switch-up"));
    }
    if let Some(learn) = &s.learn {
        if learn.table.is_some() {
            return Err(refused("learn.table", "omit it: each run starts from scratch"));
        }
        if learn.per_class && s.class_names.len() > 1 {
            return Err(refused(
                "learn.per_class",
                "write false: in the lab all servers have the same weights",
            ));
        }
    }
    if s.warmup_ns > 0 {
        return Err(refused("warmup_s", "omit it: all requests count"));
    }
    if client.connections != Connections::PerRequest || client.congestion || !client.service.0.is_ipv4() {
        return Err(refused("client", "omit `connections`, `session`, `ecn` and `ip`"));
    }
    if client.transport != Protocol::Udp {
        return Err(refused("client.transport", "omit it"));
    }
    if s.devices.len() > MAX_DEVICES {
        return Err(refused("rack.servers", &format!("at most {MAX_DEVICES} devices")));
    }
    let a = &s.agents;
    if !a.enabled
        || a.delay_ns > 0
        || a.loss > 0.0
        || a.offset_ns > 0
        || a.skew_ppm > 0.0
        || a.probes_ns.is_some()
    {
        return Err(refused("agents", "keep only `sampling_ms`"));
    }
    let service = s.rack.services.first().ok_or(WireError::NoService)?;
    let plain =
        |d: &DeviceModel| d.contention == 0.0 && d.give_up_ns.is_none() && d.stress == Stress::default();
    if !s.devices.iter().all(plain) {
        return Err(refused("device", "omit `contention`, `give_up_ms` and `stress`"));
    }
    if !service.frontends().any(|f| f.protocol == Protocol::Udp) {
        return Err(refused("rack", "the service must use UDP"));
    }
    Ok(())
}

/// The lab's version of a scenario.
fn plan(s: &Scenario, seed: u64) -> Result<Plan, WireError> {
    let [client] = s.clients.as_slice() else { return Err(refused("client", "write one only")) };
    check_features(s, client)?;
    let switches = s.rack.switch.p4runtime.len() as u16;
    let mut spec = RackSpec { switches, servers: Vec::new(), offloads: true, ..RackSpec::demo() };
    let first = ClientSpec { name: "client".into(), link: Link::in_subnet(1, 0), addresses: 8 };
    spec.clients = vec![first];
    let mut devices = Vec::new();
    let mut at = 0usize;
    for server in &s.rack.servers {
        let mut own = Vec::new();
        for device in &server.devices {
            let model = &s.devices[at];
            let name = format!("{}/{}", server.name, device.name);
            let (mean_ns, times) = drawn(&model.service, seed, at);
            // Subnets of the devices: 10.0.1.0 to 10.0.48.0; the VIP is 10.0.100.1.
            let link = Link::in_subnet(2 + at as u16, 1 + at as u8);
            devices.push(DeviceConfig {
                key: Key::derive(seed, &name),
                name,
                addresses: vec![link.ipv4.into(), link.ipv6.into()],
                port: client.service.1,
                model: Model::Timed(times),
                service: Duration::from_nanos(mean_ns.round() as u64),
                speed: model.speed,
                servers: model.workers as usize,
                buffer: model.buffer as usize,
                seed,
                metrics: Some(METRICS),
            });
            let kind = match device.kind {
                DeviceKind::Cpu => LabKind::Cpu,
                DeviceKind::Gpu => LabKind::Gpu,
                _ => LabKind::SmartNic,
            };
            own.push(DeviceSpec { name: device.name.clone(), kind, link, speed: model.speed });
            at += 1;
        }
        spec.servers.push(ServerSpec { name: server.name.clone(), devices: own });
    }
    let file = description(s, &spec)?;
    Ok(Plan { spec, devices, file })
}

/// Mean, and times as multiples of it: those that the simulator draws for this device.
fn drawn(of: &Distribution, seed: u64, device: usize) -> (f64, ServiceTime) {
    let mean_ns = of.mean_ns();
    if let Distribution::Deterministic { .. } = of {
        return (mean_ns, ServiceTime::Deterministic);
    }
    let mut random = Stream::new(seed, Part::Service, device as u64);
    (mean_ns, ServiceTime::Drawn((0..DRAWS).map(|_| of.draw(&mut random) / mean_ns).collect()))
}

/// Arrival times of the scenario's requests, with this seed.
pub fn schedule(s: &Scenario, seed: u64) -> Vec<Duration> {
    let Some(client) = s.clients.first() else { return Vec::new() };
    let times = Arrivals::all(&client.arrivals, s.duration_ns, Stream::new(seed, Part::Arrivals, 0));
    times.into_iter().map(Duration::from_nanos).collect()
}

/// The rack.toml of the scenario's rack, with the lab's addresses.
fn description(s: &Scenario, spec: &RackSpec) -> Result<RackFile, WireError> {
    let gateways = spec.hosts().flat_map(|(_, l)| [l.gateway_ipv4.into(), l.gateway_ipv6.into()]);
    let route = |client: &ClientSpec| Route {
        prefix: Prefix::containing(client.link.ipv4.into(), 24),
        port: client.link.port,
        hop: NextHop::Neighbour(client.link.ipv4.into()),
    };
    let service = &s.rack.services[0];
    let mut models = s.devices.iter();
    let mut servers = Vec::new();
    for (server, own) in s.rack.servers.iter().zip(&spec.servers) {
        let mut devices = Vec::new();
        for (device, place) in server.devices.iter().zip(&own.devices) {
            let settings = AgentConfig::from_rack(&s.rack, &server.name, &device.name, "eth0")
                .map_err(WireError::Agent)?
                .settings;
            let member = service.members.iter().flat_map(|m| &m.devices).find(|d| d.number == device.number);
            let (weight, priority, enabled) =
                member.map_or((1, 1, false), |d| (d.weight, d.priority, d.enabled));
            // This machine's processor is nearly idle: the metric is the utilisation of the model's workers.
            let percent = 100.0 / models.next().map_or(1.0, |m| f64::from(m.workers));
            let source = SourceSection {
                prometheus: format!("http://{METRICS}/metrics"),
                interval_ms: Some((s.agents.sampling_ns / 1_000_000).max(1)),
                compute: Some(format!("rate(pointsman_device_busy_seconds_total) * {percent}")),
            };
            devices.push(DeviceSection {
                address: Some(place.link.ipv4),
                address6: Some(place.link.ipv6),
                weight: Some(weight),
                priority: Some(priority),
                enabled: Some(enabled),
                workers: member.and_then(|d| d.workers),
                agent: AgentSection { sources: vec![source], ..AgentSection::from(&settings) },
                ..DeviceSection::new(&device.name, device.kind, place.link.port)
            });
        }
        servers.push(ServerSection { name: server.name.clone(), devices, ..ServerSection::default() });
    }
    Ok(RackFile {
        switch: SwitchSection {
            p4runtime: (0..spec.switches as u8).map(p4runtime).collect(),
            gateways: gateways.collect(),
            report_keys: Some("made for each run".into()),
            report_timeout_ms: Some(s.rack.switch.report_timeout_ms),
            poll_interval_ms: Some(s.rack.switch.poll_interval_ms),
            ..SwitchSection::default()
        },
        routes: spec.clients.iter().map(route).collect(),
        servers,
        services: vec![ServiceSection {
            vips: vec![spec.vip_ipv4.into(), spec.vip_ipv6.into()],
            protocols: vec![Protocol::Udp],
            tuning: service.tuning,
            idle_timeout_ms: Some(service.idle_timeout_ms),
            ..ServiceSection::new(SERVICE, s.clients[0].service.1, service.policy)
        }],
        learn: s.learn.as_ref().map(learn_section).transpose()?,
        ..RackFile::default()
    })
}

fn learn_section(learn: &LearnModel) -> Result<LearnSection, WireError> {
    Ok(LearnSection {
        first_weight: Some(learn.weigher().map_err(WireError::Learner)?.weights().accelerator),
        // Servers that are alike here may differ in the file: `plan` has checked that they form one class.
        per_class: false,
        ..LearnSection::new(learn, ClientsView::section())
    })
}

/// A rack that runs, for one run after the other.
pub struct OnWire {
    middle: Middle,
    learner: Option<Eyes>,
    target: SocketAddr,
    keys: Keyring,
    ports: SourcePorts,
    client: Namespace,
    /// Its configuration, apart from the requests.
    scenario: Scenario,
}

/// What takes requests to devices.
enum Middle {
    /// Our switch.
    Switch(Box<Live>),
    /// nginx.
    Nginx(Box<Proxied>),
}

/// Inputs and outputs of a learner.
struct Eyes {
    view: ClientsView,
    /// Decisions, from the controller's log.
    decisions: Arc<Mutex<Vec<String>>>,
}

impl Eyes {
    /// Weight of accelerators after each decision that was made since the last time.
    fn weights(&self) -> Vec<u32> {
        let Ok(mut lines) = self.decisions.lock() else { return Vec::new() };
        let weight = |line: String| {
            let next = line.split(' ').find_map(|field| field.strip_prefix("next="))?;
            next.split(':').nth(1)?.parse().ok()
        };
        lines.drain(..).filter_map(weight).collect()
    }
}

/// The part of a scenario that all scenarios on one rack must share.
fn without_requests(s: &Scenario) -> Scenario {
    let mut rest = Scenario { duration_ns: 0, events: Vec::new(), ..s.clone() };
    for client in &mut rest.clients {
        client.arrivals = ArrivalModel::Trace { times_ns: Arc::new([]) };
    }
    rest
}

impl OnWire {
    /// Builds the scenario's rack, and waits until the switch is filled and agents have reported. Service times are those of this
    /// seed.
    ///
    /// # Errors
    /// The lab does not support the scenario, or the rack does not come up.
    pub fn start(s: &Scenario, seed: u64) -> Result<Self, WireError> {
        let plan = plan(s, seed)?;
        plan.spec.validate()?;
        let decisions: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = decisions.clone();
        let log: Log = Arc::new(Mutex::new(move |line: &str| {
            if line.contains("decision service=")
                && let Ok(mut lines) = kept.lock()
            {
                lines.push(line.to_string());
            }
        }));
        let mut live = Live::start(&plan.spec, plan.devices.clone(), &plan.file, Choice::default(), log)?;
        let learner = match &s.learn {
            Some(l) => {
                let seen = Duration::from_nanos(l.interval_ns - l.settle_ns);
                let view = ClientsView::new(seen, Duration::from_nanos(s.patience_ns));
                live.serve_clients(view.clone())?;
                Some(Eyes { view, decisions })
            }
            None => None,
        };
        live.start_controller()?;
        live.wait_for_reports(PATIENCE)?;
        // Every agent must have reported twice.
        std::thread::sleep(Duration::from_secs(1));
        let client = live.rack.host("client")?.namespace.clone();
        let port = s.clients.first().map_or(0, |c| c.service.1);
        let target = (plan.spec.vip_ipv4, port).into();
        Self::of(s, seed, &plan, (Middle::Switch(Box::new(live)), learner), client, target)
    }

    /// The same rack with nginx in place of our switch.
    ///
    /// # Errors
    /// As of [`OnWire::start`]; nginx is not installed, or the machine has no quotas.
    pub fn start_behind(s: &Scenario, seed: u64, behind: &Behind) -> Result<Self, WireError> {
        let mut plan = plan(s, seed)?;
        plan.spec.validate()?;
        let (proxied, target) = Proxied::start(s, &mut plan, behind)?;
        let client = proxied.rack.host("client")?.namespace.clone();
        Self::of(s, seed, &plan, (Middle::Nginx(Box::new(proxied)), None), client, target.into())
    }

    fn of(
        s: &Scenario,
        seed: u64,
        plan: &Plan,
        (middle, learner): (Middle, Option<Eyes>),
        client: Namespace,
        target: SocketAddr,
    ) -> Result<Self, WireError> {
        let keys = Keyring::derive(seed, plan.devices.iter().map(|d| d.name.clone()))?;
        let sources: Vec<IpAddr> = plan.spec.clients.iter().flat_map(|c| c.ipv4_addresses()).collect();
        let idle_ms = s.rack.services.iter().map(|s| s.idle_timeout_ms).max().unwrap_or(0);
        let rest = Duration::from_millis(u64::from(idle_ms)) + Duration::from_secs(1);
        let ports = SourcePorts::new(sources, 1024..=65535, rest)?;
        Ok(OnWire { middle, learner, target, keys, ports, client, scenario: without_requests(s) })
    }

    /// Sends the scenario's requests of this seed, and waits for their answers.
    ///
    /// # Errors
    /// The scenario differs from the rack's in more than its requests, or they cannot be sent.
    pub fn run(&mut self, s: &Scenario, seed: u64) -> Result<Ran, WireError> {
        if without_requests(s) != self.scenario {
            return Err(WireError::OtherRack);
        }
        self.learn_anew(seed)?;
        let times = schedule(s, seed);
        let duration = Duration::from_nanos(s.duration_ns);
        let config = LoadConfig {
            timeout: Duration::from_nanos(s.patience_ns),
            payload: s.clients.first().map_or(0, |c| c.request_bytes as usize),
            arrivals: load::Arrivals::Listed(times.as_slice().into()),
            ..LoadConfig::new(self.target, times.len() as f64 / duration.as_secs_f64(), duration, seed)
        };
        let (ports, keys, learner, middle) = (&mut self.ports, &self.keys, &self.learner, &mut self.middle);
        let watch = |_, latencies: &[Duration]| {
            if let Some(eyes) = learner {
                eyes.view.saw(latencies);
            }
        };
        let client = &self.client;
        let r = std::thread::scope(|scope| {
            let events = scope.spawn(|| match middle {
                Middle::Switch(live) => perform(live, &s.events),
                Middle::Nginx(_) => Ok(()),
            });
            let r = client.enter(|| load::watched(&config, ports, keys, watch))??;
            events.join().map_err(|_| WireError::Panicked)??;
            Ok::<_, WireError>(r)
        })?;
        match &mut self.middle {
            Middle::Switch(live) if !s.events.is_empty() => {
                // For the next run.
                live.power_all()?;
                live.wait_in_sync(PATIENCE)?;
            }
            Middle::Switch(_) => {}
            Middle::Nginx(proxied) => proxied.check()?,
        }
        // Busy devices get time to report that they are available.
        std::thread::sleep(Duration::from_millis(500));
        let ms = |percent| r.latencies.percentile(percent).as_secs_f64() * 1e3;
        Ok(Ran {
            sent: r.sent,
            lost: r.lost,
            p50_ms: ms(50.0),
            mean_ms: r.latencies.mean().as_secs_f64() * 1e3,
            p99_ms: ms(99.0),
            answered_per_s: r.answered_rps(),
            finished_per_s: r.answered_meanwhile as f64 / duration.as_secs_f64(),
            took_s: r.elapsed.as_secs_f64(),
            late: !r.schedule_kept,
            weights: self.learner.as_ref().map(Eyes::weights).unwrap_or_default(),
        })
    }

    /// Each run has its own, empty learner, which starts with the controller.
    fn learn_anew(&mut self, seed: u64) -> Result<(), WireError> {
        let (Some(eyes), Middle::Switch(live)) = (&self.learner, &mut self.middle) else { return Ok(()) };
        let mut config = live.config().clone();
        if let Some(learn) = &mut config.learn {
            learn.seed = Some(seed & (u64::MAX >> 1));
        }
        live.stop_controller();
        live.set_config(config);
        live.start_controller()?;
        live.wait_in_sync(PATIENCE)?;
        drop(eyes.weights());
        Ok(())
    }
}

/// Performs the events of a scenario in real time, from now on.
fn perform(live: &mut Live, events: &[Event]) -> Result<(), WireError> {
    let start = Instant::now();
    for event in events {
        let at = start + Duration::from_nanos(event.at_ns);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        if let Action::Power(switch, on) = event.action {
            live.power(switch as u16, on)?;
        }
    }
    Ok(())
}
