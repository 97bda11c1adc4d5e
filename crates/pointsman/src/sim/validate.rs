//! `pointsman sim SCENARIO --lab`: the same scenario in virtual time and on a rack of network namespaces, compared.

use crate::console::{print, say};
use crate::executor::Choice;
use crate::live::{Live, Log};
use crate::stats::{mean, median, spread};
use pointsman_balance::agent::AgentConfig;
use pointsman_balance::blocks::Tuning;
use pointsman_balance::{DeviceKind, Protocol};
use pointsman_engine::Engine;
use pointsman_lab::device::{DeviceConfig, Model, ServiceTime};
use pointsman_lab::load::{self, Arrivals, LoadConfig, SourcePorts};
use pointsman_lab::rack::{ClientSpec, DeviceKind as LabKind, DeviceSpec, Link, RackSpec, ServerSpec};
use pointsman_lab::wire::{Key, Keyring};
use pointsman_sim::arrivals::ArrivalModel;
use pointsman_sim::random::Distribution;
use pointsman_sim::scenario::{Connections, agent_text};
use pointsman_sim::{DataPlane, Scenario};
use serde_json::{Value, json};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Devices are network namespaces of their own, each with a subnet.
const MAX_DEVICES: usize = 48;
const SERVICE: &str = "service";
const PATIENCE: Duration = Duration::from_secs(30);
/// Where each device tells how busy it is, in its own namespace.
const METRICS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9100));
/// Each run of the lab is simulated so often: requests come at the same times, all else that is random (when agents report, how long
/// services take) differs. A lab has one of these by chance.
const SIMULATED: u64 = 5;
/// How far simulator and lab may differ to be called in agreement, in per cent.
const AGREEMENT_PERCENT: f64 = 10.0;

/// A scenario as the lab can run it.
struct Plan {
    spec: RackSpec,
    devices: Vec<DeviceConfig>,
    toml: String,
    rate_per_s: f64,
    arrivals: Arrivals,
    port: u16,
    idle: Duration,
}

fn refused(field: &str, remedy: &str) -> String {
    format!("--lab: {field}: {remedy}")
}

/// What a lab has of a scenario. Whatever it has not is refused: a comparison would say nothing.
fn plan(s: &Scenario, seed: u64) -> Result<Plan, String> {
    let [client] = s.clients.as_slice() else { return Err(refused("client", "write one only")) };
    if !s.events.is_empty() || s.learn.is_some() {
        return Err(refused("event, learn", "leave them out: the lab has no script"));
    }
    if client.connections != Connections::PerRequest || client.congestion || !client.service.0.is_ipv4() {
        return Err(refused("client", "leave out `connections`, `ecn` and `ip`"));
    }
    if client.transport != Protocol::Udp {
        return Err(refused("client.transport", "leave it out"));
    }
    let (rate_per_s, arrivals) = match client.arrivals {
        ArrivalModel::Poisson { rate_per_s } => (rate_per_s, Arrivals::Poisson),
        ArrivalModel::NearConstant { rate_per_s, jitter: 0.0 } => (rate_per_s, Arrivals::Constant),
        _ => return Err(refused("client.arrivals", "write poisson, or near-constant with jitter = 0")),
    };
    if s.devices.len() > MAX_DEVICES {
        return Err(refused("rack.servers", &format!("at most {MAX_DEVICES} devices in the lab")));
    }
    let a = &s.agents;
    if !a.enabled
        || a.delay_ns > 0
        || a.loss > 0.0
        || a.offset_ns > 0
        || a.skew_ppm > 0.0
        || a.probes_ns.is_some()
    {
        return Err(refused("agents", "leave out all but `sampling_ms`"));
    }
    let service = s.rack.services.first().ok_or("the rack has no service")?;
    if service.tuning != Tuning::default() {
        return Err(refused("rack", "leave out the service's `tuning`"));
    }
    let mut spec = RackSpec { servers: Vec::new(), offloads: true, ..RackSpec::demo() };
    let first = ClientSpec { name: "client".into(), link: Link::in_subnet(1, 0), addresses: 8 };
    spec.clients = vec![first];
    let mut devices = Vec::new();
    let mut at = 0usize;
    for server in &s.rack.servers {
        let mut own = Vec::new();
        for device in &server.devices {
            let model = &s.devices[at];
            let name = format!("{}/{}", server.name, device.name);
            let (mean_ns, time) = match model.service {
                Distribution::Deterministic { mean_ns } => (mean_ns, ServiceTime::Deterministic),
                Distribution::Exponential { mean_ns } => (mean_ns, ServiceTime::Exponential),
                _ => {
                    let remedy = "write deterministic or exponential, which the lab's devices know";
                    return Err(refused("device.service_time", remedy));
                }
            };
            if model.contention != 0.0 || model.give_up_ns.is_some() {
                return Err(refused("device", "leave out `contention` and `give_up_ms`"));
            }
            // Subnets of the devices: 10.0.1.0 to 10.0.48.0; the VIP is 10.0.100.1.
            let link = Link::in_subnet(2 + at as u16, 1 + at as u8);
            devices.push(DeviceConfig {
                key: Key::derive(seed, &name),
                name,
                addresses: vec![link.ipv4.into(), link.ipv6.into()],
                port: client.service.1,
                model: Model::Timed(time),
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
    if !service.frontends().any(|f| f.protocol == Protocol::Udp) {
        return Err(refused("rack", "the service has no UDP"));
    }
    let toml = toml(s, &spec)?;
    let idle = Duration::from_millis(u64::from(service.idle_timeout_ms));
    Ok(Plan { spec, devices, toml, rate_per_s, arrivals, port: client.service.1, idle })
}

/// The rack.toml of the scenario's rack, with the lab's addresses.
fn toml(s: &Scenario, spec: &RackSpec) -> Result<String, String> {
    let gateways: Vec<String> =
        spec.hosts().map(|(_, l)| format!("\"{}\", \"{}\"", l.gateway_ipv4, l.gateway_ipv6)).collect();
    let (switch, service) = (&s.rack.switch, &s.rack.services[0]);
    let sampling_ms = (s.agents.sampling_ns / 1_000_000).max(1);
    let mut models = s.devices.iter();
    let mut t = String::new();
    let _ = write!(
        t,
        "[switch]\np4runtime = \"127.0.0.1:9559\"\nmac = \"02:50:4d:00:00:01\"\ngateways = [{}]\n\
         report_keys = \"made for each run\"\nreport_timeout_ms = {}\npoll_interval_ms = {}\n",
        gateways.join(", "),
        switch.report_timeout_ms,
        switch.poll_interval_ms
    );
    for client in &spec.clients {
        let network = Ipv4Addr::from(u32::from(client.link.ipv4) & !0xff);
        let (port, via) = (client.link.port, client.link.ipv4);
        let _ = write!(t, "[[route]]\nprefix = \"{network}/24\"\nport = {port}\nvia = \"{via}\"\n");
    }
    for (server, own) in s.rack.servers.iter().zip(&spec.servers) {
        let _ = writeln!(t, "[[server]]\nname = \"{}\"", server.name);
        for (device, place) in server.devices.iter().zip(&own.devices) {
            let settings = AgentConfig::from_rack(&s.rack, &server.name, &device.name, "eth0")?.settings;
            let member = service.members.iter().flat_map(|m| &m.devices).find(|d| d.number == device.number);
            let (weight, priority, enabled) =
                member.map_or((1, 1, false), |d| (d.weight, d.priority, d.enabled));
            let _ = writeln!(
                t,
                "[[server.device]]\nname = \"{}\"\nkind = \"{}\"\nport = {}\naddress = \"{}\"\naddress6 = \"{}\"\n\
                 weight = {weight}\npriority = {priority}\nenabled = {enabled}\n[server.device.agent]\n{}",
                device.name,
                device.kind.name(),
                place.link.port,
                place.link.ipv4,
                place.link.ipv6,
                agent_text(&settings),
            );
            // The processor of this machine does next to nothing: what counts is how busy the model's workers are.
            let percent = 100.0 / models.next().map_or(1.0, |m| f64::from(m.workers));
            let _ = writeln!(
                t,
                "[[server.device.agent.source]]\nprometheus = \"http://{METRICS}/metrics\"\ninterval_ms = {sampling_ms}\n\
                 compute = \"rate(pointsman_device_busy_seconds_total) * {percent}\""
            );
        }
    }
    let _ = write!(
        t,
        "[[service]]\nname = \"{SERVICE}\"\nvip = [\"{}\", \"{}\"]\nprotocol = \"udp\"\nport = {}\npolicy = \"{}\"\n\
         idle_timeout_ms = {}\n",
        spec.vip_ipv4, spec.vip_ipv6, s.clients[0].service.1, service.policy, service.idle_timeout_ms
    );
    Ok(t)
}

/// P50 and P99 in milliseconds, answers per second, lost requests.
#[derive(Clone, Copy)]
struct Measured([f64; 4]);

const NAMES: [&str; 4] = ["p50_ms", "p99_ms", "answers_per_s", "lost"];

/// What the client is to do with one seed.
fn load_config(s: &Scenario, plan: &Plan, seed: u64) -> LoadConfig {
    LoadConfig {
        arrivals: plan.arrivals,
        timeout: Duration::from_nanos(s.patience_ns),
        payload: s.clients[0].request_bytes as usize,
        ..LoadConfig::new(
            (plan.spec.vip_ipv4, plan.port).into(),
            plan.rate_per_s,
            Duration::from_nanos(s.duration_ns),
            seed,
        )
    }
}

/// The same in virtual time, so many times: requests at the very times at which the lab's client sends them.
fn simulated(
    s: &Arc<Scenario>,
    data_plane: &DataPlane<Engine>,
    seed: u64,
) -> Result<(Vec<Measured>, u64), String> {
    let times = load_config(s, &plan(s, seed)?, seed).schedule();
    let times_ns: Arc<[u64]> = times.iter().map(|t| t.as_nanos() as u64).collect();
    let mut whole = Scenario { warmup_ns: 0, ..s.as_ref().clone() };
    for client in &mut whole.clients {
        client.arrivals = ArrivalModel::Trace { times_ns: times_ns.clone() };
    }
    let (whole, seconds) = (Arc::new(whole), s.duration_ns as f64 / 1e9);
    let (mut out, mut violations) = (Vec::new(), 0);
    for i in 0..SIMULATED {
        let o = pointsman_sim::run(&whole, data_plane, seed.wrapping_add(i << 32), None)?;
        let answers = o.requests.answered as f64 / seconds;
        out.push(Measured([o.latency.p50_ms, o.latency.p99_ms, answers, o.requests.lost as f64]));
        violations += o.violations.total();
    }
    Ok((out, violations))
}

/// Runs a scenario's requests on a rack of namespaces, once for each seed.
fn on_the_wire(s: &Scenario, seeds: &[u64]) -> Result<(Vec<Measured>, usize), String> {
    let text = |e: pointsman_lab::Error| e.to_string();
    let plan = plan(s, seeds.first().copied().unwrap_or(1))?;
    plan.spec.validate().map_err(text)?;
    let log: Log = Arc::new(Mutex::new(|_: &str| {}));
    let mut live = Live::start(&plan.spec, plan.devices.clone(), &plan.toml, Choice::default(), log)?;
    live.start_controller()?;
    live.wait_in_sync(PATIENCE)?;
    // Every agent is to have reported twice.
    std::thread::sleep(Duration::from_secs(1));
    let keys =
        Keyring::derive(seeds.first().copied().unwrap_or(1), plan.devices.iter().map(|d| d.name.clone()))
            .map_err(text)?;
    let sources: Vec<IpAddr> = plan.spec.clients.iter().flat_map(|c| c.ipv4_addresses()).collect();
    let mut ports =
        SourcePorts::new(sources, 1024..=65535, plan.idle + Duration::from_secs(1)).map_err(text)?;
    let client = live.rack.host("client").map_err(text)?.namespace.clone();
    let (mut out, mut late) = (Vec::new(), 0);
    for seed in seeds {
        let config = load_config(s, &plan, *seed);
        let r =
            client.enter(|| load::run(&config, &mut ports, &keys, |_| {})).map_err(text)?.map_err(text)?;
        late += usize::from(!r.schedule_kept);
        let ms = |percent| r.latencies.percentile(percent).as_secs_f64() * 1e3;
        out.push(Measured([ms(50.0), ms(99.0), r.answered_rps(), r.lost as f64]));
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok((out, late))
}

fn column(all: &[Measured], i: usize) -> Vec<f64> {
    all.iter().map(|m| m.0[i]).collect()
}

/// The comparison of one scenario.
fn compared(s: &Scenario, sim: &[Measured], lab: &[Measured], late: usize) -> Value {
    let side = |all: &[Measured]| -> Value {
        let of = |(i, name): (usize, &&str)| {
            let values = column(all, i);
            let (low, high) = spread(&values);
            let mean = mean(&values).mean;
            ((*name).to_string(), json!({ "mean": mean, "median": median(&values), "min": low, "max": high }))
        };
        NAMES.iter().enumerate().map(of).collect::<serde_json::Map<_, _>>().into()
    };
    let difference = |i: usize| {
        let (a, b) = (mean(&column(sim, i)).mean, mean(&column(lab, i)).mean);
        100.0 * (a - b) / b.max(1e-9)
    };
    let requests: f64 = s.clients.iter().map(|c| c.arrivals.expected(s.duration_ns)).sum();
    let requests = (requests * lab.len() as f64).round() as u64;
    let point: serde_json::Map<String, Value> = s.point.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
    json!({
        "scenario": s.name, "point": point, "runs": lab.len(), "requests": requests, "late_runs": late,
        "simulated": side(sim), "lab": side(lab),
        "difference_percent": { "p50": difference(0), "p99": difference(1), "answers": difference(2) },
    })
}

fn line(v: &Value) -> String {
    let n = |side: &str, name: &str, what: &str| v[side][name][what].as_f64().unwrap_or(f64::NAN);
    let both = |name: &str| {
        let one = |side: &str| {
            let of = |what| n(side, name, what);
            format!("{:.2} ({:.2}-{:.2})", of("mean"), of("min"), of("max"))
        };
        format!("{:>24} {:>24}", one("simulated"), one("lab"))
    };
    let off = |name: &str| v["difference_percent"][name].as_f64().unwrap_or(f64::NAN);
    let point = v["point"].as_object().map(|p| {
        p.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect::<Vec<_>>().join(" ")
    });
    let name = v["scenario"].as_str().unwrap_or_default();
    let mut out = format!("{name} {}\n", point.filter(|p| !p.is_empty()).unwrap_or_default());
    for (name, short) in [("p50_ms", "p50"), ("p99_ms", "p99"), ("answers_per_s", "answers")] {
        out.push_str(&format!("  {name:<14} {} {:>+8.1} %\n", both(name), off(short)));
    }
    out
}

/// The largest of a comparison's differences, in per cent.
fn worst(v: &Value) -> f64 {
    let off = |name: &str| v["difference_percent"][name].as_f64().map_or(f64::INFINITY, f64::abs);
    ["p50", "p99", "answers"].map(off).into_iter().fold(0.0, f64::max)
}

/// How busy the machine is, as the kernel says: processes that run or want to, over a minute.
fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// One scenario, on both.
fn compare(s: &Arc<Scenario>, data_plane: &DataPlane<Engine>, seeds: &[u64]) -> Result<(Value, u64), String> {
    let (mut sim, mut violations) = (Vec::new(), 0);
    for seed in seeds {
        let (measured, violated) = simulated(s, data_plane, *seed)?;
        sim.extend(measured);
        violations += violated;
    }
    let (lab, late) = on_the_wire(s, seeds)?;
    Ok((compared(s, &sim, &lab, late), violations))
}

/// Compares every scenario, so many racks at the same time; the lines of JSON that say what came of it, and what checkers found.
pub fn run(
    scenarios: &[Arc<Scenario>],
    data_plane: &DataPlane<Engine>,
    seeds: &[u64],
    racks: usize,
) -> Result<(Vec<String>, u64), String> {
    // What cannot be compared is told before anything runs.
    for s in scenarios {
        plan(s, 1)?;
    }
    print(&format!(
        "{} runs in the lab, each simulated {SIMULATED} times: means, and the range of runs\n  {:<14} {:>24} {:>24} {:>10}\n",
        seeds.len(),
        "",
        "simulated",
        "lab",
        "difference"
    ));
    let (mut lines, mut all, mut violations) = (Vec::new(), Vec::new(), 0);
    for part in scenarios.chunks(racks.max(1)) {
        let results: Vec<Result<(Value, u64), String>> = std::thread::scope(|scope| {
            let started: Vec<_> =
                part.iter().map(|s| scope.spawn(|| compare(s, data_plane, seeds))).collect();
            let ended = |t: std::thread::ScopedJoinHandle<'_, _>| {
                t.join().unwrap_or_else(|_| Err("a comparison panicked".into()))
            };
            started.into_iter().map(ended).collect()
        });
        let load = load_average();
        for result in results {
            let (mut value, violated) = result?;
            violations += violated;
            value["load_average"] = json!(load);
            print(&line(&value));
            let (late, of) = (value["late_runs"].as_u64().unwrap_or(0), seeds.len());
            if late > 0 {
                say(&format!("{late} of {of} runs fell behind their schedule: this machine is busy"));
            }
            lines.push(value.to_string());
            all.push(value);
        }
    }
    let agree = all.iter().filter(|v| worst(v) <= AGREEMENT_PERCENT).count();
    let furthest = all.iter().map(worst).fold(0.0, f64::max);
    let loads: Vec<f64> = all.iter().filter_map(|v| v["load_average"].as_f64()).collect();
    let (low, high) = spread(&loads);
    print(&format!(
        "{agree} of {} agree within {AGREEMENT_PERCENT} % in P50, P99 and answers; furthest apart: {furthest:.1} %; the machine's \
         load average was {low} to {high}, with {racks} racks at a time\n",
        all.len()
    ));
    Ok((lines, violations))
}
