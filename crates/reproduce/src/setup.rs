//! Racks and scenarios of experiments, as files that a user would write.

use super::bench::{Bench, Coming, Factor};
use crate::error::ExperimentError;
use crate::scenario_file::{
    AgentsSection, ArrivalsSection, ClientSection, EventSection, LearnSection, LinkSection, ModelSection,
    RackSection, ScenarioFile, ScrapeSection, ServiceTime, SessionSection, StateSection, StressSection,
};
use pointsman_balance::blocks::{Ties, Tuning};
use pointsman_balance::config::file::{
    AgentSection, DeviceSection, PrometheusSection, RackFile, ServerSection, ServiceSection, SwitchSection,
};
use pointsman_balance::config::{NextHop, Route, Threshold};
use pointsman_balance::{DeviceKind, Mac, Prefix, Protocol};
use pointsman_sim::Scenario;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A device that every server has.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Its name.
    pub name: &'static str,
    /// As in `rack.toml`.
    pub kind: DeviceKind,
    /// Share under weighted policies.
    pub weight: u32,
    /// Requests at the same time.
    pub workers: u32,
    /// Mean time of a request, in milliseconds, at speed 1.
    pub mean_ms: f64,
    /// Standard deviation of its logarithm; 0: always the same.
    pub sigma: f64,
    /// Divides the time.
    pub speed: f64,
}

impl Unit {
    /// Requests per second at most.
    pub fn capacity_per_s(&self) -> f64 {
        f64::from(self.workers) * self.speed * 1e3 / self.mean_ms
    }

    /// One at a fifth of a processor's speed: the thesis's ratio.
    pub fn accelerator(processor: &Unit) -> Unit {
        Unit {
            name: "nic",
            kind: DeviceKind::SmartNic,
            weight: 1,
            speed: processor.speed / 5.0,
            ..processor.clone()
        }
    }
}

/// A simulated setup.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Servers, all alike.
    pub servers: u32,
    /// Their devices, by priority.
    pub units: Vec<Unit>,
    /// The policy's name.
    pub policy: String,
    /// `tuning` of the service.
    pub tuning: Tuning,
    /// Whether the rack file contains the `workers` of each device.
    pub tell_workers: bool,
    /// `[agent]`.
    pub agent: AgentSection,
    /// Other processes on the first device of each server.
    pub stress: Option<StressSection>,
    /// `agent` of each device, by priority. Empty: as in `agent`.
    pub agent_of: Vec<AgentSection>,
    /// A device silent for this long gets no new requests.
    pub report_timeout_ms: u32,
    /// How often agents sample their processor use.
    pub sampling_ms: f64,
    /// From the decision to report to the frame on the wire.
    pub delay_ms: f64,
    /// Interval of the devices' probes, if any: in place of reports, which have no weight.
    pub probes_ms: Option<f64>,
    /// For how long clients send.
    pub duration_s: f64,
    /// Requests of this first part do not count.
    pub warmup_s: f64,
    /// Client timeout.
    pub patience_s: f64,
    /// One way between switch and client, in milliseconds.
    pub client_delay_ms: f64,
    /// When requests come, or sessions.
    pub arrivals: ArrivalsSection,
    /// What a session is, if there are any.
    pub session: Option<SessionSection>,
    /// Clients after the first.
    pub more_clients: Vec<ClientSection>,
    /// `[service.prometheus]`.
    pub prometheus: Option<PrometheusSection>,
    /// Interval at which Prometheus scrapes the devices.
    pub scrape_s: Option<f64>,
    /// Events of the scenario.
    pub events: Vec<EventSection>,
    /// A learner of weights.
    pub learn: Option<LearnSection>,
    /// Files that it references, in the rack's folder.
    pub files: BTreeMap<String, String>,
}

/// Port of the switch where a second client may be.
pub const SECOND_CLIENT: u16 = 508;

/// Arrivals without memory.
pub fn poisson(rate_per_s: f64) -> ArrivalsSection {
    ArrivalsSection::Poisson { rate_per_s }
}

/// Bursts: Poisson at a rate that changes between two states, a fifth of the time at twice the mean and else at three
/// quarters of it. `burst_s` is the mean length of a burst.
pub fn bursts(rate_per_s: f64, burst_s: f64) -> ArrivalsSection {
    let state = |factor, mean_s| StateSection { rate_per_s: factor * rate_per_s, mean_s };
    ArrivalsSection::Mmpp { state: [state(0.75, 4.0 * burst_s), state(2.0, burst_s)] }
}

/// Arrivals as set for the bench.
pub fn coming(bench: &Bench, rate_per_s: f64) -> ArrivalsSection {
    match bench.coming {
        Coming::Poisson => poisson(rate_per_s),
        Coming::NearConstant => {
            // The gap's variation is the root of its milliseconds; an even distribution of that variation.
            let gap_ms = 1e3 / rate_per_s;
            let jitter = (3.0f64.sqrt() / gap_ms.sqrt()).min(1.0);
            ArrivalsSection::NearConstant { rate_per_s, jitter }
        }
    }
}

/// Agents that report at least this often and average over a window; changes are not repeated.
pub fn agents(heartbeat_ms: u32, window_ms: u32) -> AgentSection {
    AgentSection {
        heartbeat_ms: Some(heartbeat_ms),
        repeat_ms: Some(0),
        window_ms: Some(window_ms),
        ..AgentSection::default()
    }
}

/// An agent of P4Mite that measures unanswered requests: high and low threshold of their number, and of latency in
/// milliseconds.
pub fn by_outstanding((high, low): (u32, u32), (slow, quick): (f64, f64)) -> AgentSection {
    AgentSection {
        outstanding: Some(Threshold { high: high.into(), low: low.into() }),
        latency_ms: Some(Threshold { high: slow, low: quick }),
        hold_ms: Some(5),
        ..AgentSection::default()
    }
}

/// The settings of policies as published: `least-utilised` uses reported load without an addition for connections since.
pub fn as_published(bench: &Bench, policy: &str) -> Tuning {
    match policy {
        "least-utilised" => {
            let ties = bench.as_published(Factor::Ties).then_some(Ties::Priority);
            Tuning { step: Some(0), ties, ..Tuning::default() }
        }
        // The published agent reports 0 up to 99 %, and the smaller load is taken, the server's if they are equal.
        "prt" => {
            Tuning { high: Some(99), low: Some(bench.pick(Factor::Thresholds, 98, 95)), ..Tuning::default() }
        }
        _ => Tuning::default(),
    }
}

/// Agents of chapter 5 that report every `ms` milliseconds the mean of ten readings as far apart.
pub fn by_readings(ms: u32) -> AgentSection {
    AgentSection { samples: Some(10), ..agents(ms, 10 * ms) }
}

/// The controller looks for silent devices and counts draining connections; here nothing fails and the counts are unused.
const POLL_MS: u32 = 2000;

impl Setup {
    /// A rack of these servers under a policy. Connections are forgotten a little after clients lost their patience.
    pub fn new(servers: u32, units: &[Unit], policy: &str, arrivals: ArrivalsSection) -> Self {
        Setup {
            servers,
            units: units.to_vec(),
            policy: policy.to_string(),
            tuning: Tuning::default(),
            tell_workers: false,
            // For p4mite only: other policies ignore it.
            agent: AgentSection { heartbeat_ms: Some(100), ..AgentSection::default() },
            agent_of: Vec::new(),
            report_timeout_ms: 500,
            sampling_ms: 100.0,
            delay_ms: 0.0,
            probes_ms: None,
            duration_s: 30.0,
            warmup_s: 5.0,
            patience_s: 30.0,
            client_delay_ms: 0.001,
            stress: None,
            arrivals,
            session: None,
            more_clients: Vec::new(),
            prometheus: None,
            scrape_s: None,
            events: Vec::new(),
            learn: None,
            files: BTreeMap::new(),
        }
    }

    /// Requests per second that all devices together handle at most.
    pub fn capacity_per_s(&self) -> f64 {
        f64::from(self.servers) * self.units.iter().map(Unit::capacity_per_s).sum::<f64>()
    }

    /// Its `rack.toml`.
    ///
    /// # Errors
    /// No policy has that name: a bug of ours.
    pub fn rack(&self) -> Result<RackFile, ExperimentError> {
        let servers = (0..self.servers as usize).map(|server| ServerSection {
            name: format!("s{}", server + 1),
            devices: self.devices(server),
            ..ServerSection::default()
        });
        let route = |network: u8, port, client| Route {
            prefix: Prefix::containing([10, network, 0, 0].into(), 16),
            port,
            hop: NextHop::Mac(Mac([2, 0, 0, 1, 0, client])),
        };
        Ok(RackFile {
            switch: SwitchSection {
                gateways: vec![[10, 32, 0, 1].into()],
                report_keys: Some("simulated".into()),
                probes: self.probes_ms.map(|_| "unauthenticated"),
                report_timeout_ms: Some(self.report_timeout_ms),
                poll_interval_ms: Some(POLL_MS),
                ..SwitchSection::default()
            },
            agent: self.agent.clone(),
            routes: vec![route(64, 1, 1), route(65, SECOND_CLIENT, 2)],
            servers: servers.collect(),
            services: vec![ServiceSection {
                vips: vec![[10, 0, 0, 100].into()],
                protocols: vec![Protocol::Udp],
                tuning: self.tuning,
                slots: Some((self.servers * 8).next_power_of_two().clamp(256, 65_536)),
                idle_timeout_ms: Some((self.patience_s * 1e3) as u32 + 1000),
                prometheus: self.prometheus.clone(),
                ..ServiceSection::new("service", 8000, self.policy.parse().map_err(ExperimentError::Policy)?)
            }],
            ..RackFile::default()
        })
    }

    /// The devices of a server, from 0.
    fn devices(&self, server: usize) -> Vec<DeviceSection> {
        let device = |(i, unit): (usize, &Unit)| {
            let [high, low] = ((server * self.units.len() + i + 16) as u16).to_be_bytes();
            DeviceSection {
                address: Some(Ipv4Addr::new(10, 32, high, low)),
                mac: Some(Mac([2, 0, 0, 2, high, low])),
                weight: Some(unit.weight),
                workers: self.tell_workers.then_some(unit.workers as u16),
                agent: self.agent_of.get(i).cloned().unwrap_or_default(),
                ..DeviceSection::new(unit.name, unit.kind, 2 + (server % 500) as u16)
            }
        };
        self.units.iter().enumerate().map(device).collect()
    }

    /// How the devices of every server behave.
    fn models(&self) -> Vec<ModelSection> {
        let model = |(i, unit): (usize, &Unit)| ModelSection {
            name: unit.name,
            workers: unit.workers,
            speed: unit.speed,
            service_time: match unit.sigma {
                0.0 => ServiceTime::Deterministic { mean_ms: unit.mean_ms },
                sigma => ServiceTime::LogNormal { mean_ms: unit.mean_ms, sigma },
            },
            stress: self.stress.filter(|_| i == 0),
        };
        self.units.iter().enumerate().map(model).collect()
    }

    /// The scenario.
    ///
    /// # Errors
    /// An error in the scenario: a bug of ours.
    pub fn scenario(&self, bench: &Bench) -> Result<Arc<Scenario>, ExperimentError> {
        let first = ClientSection { session: self.session, ..ClientSection::new(self.arrivals.clone()) };
        let file = ScenarioFile {
            name: "experiment",
            duration_s: self.duration_s,
            warmup_s: self.warmup_s,
            patience_s: self.patience_s,
            rack: RackSection { file: "rack.toml" },
            agents: AgentsSection {
                enabled: self.probes_ms.is_none(),
                sampling_ms: self.sampling_ms,
                delay_ms: self.delay_ms,
                probes_ms: self.probes_ms,
            },
            client_link: LinkSection { delay_us: self.client_delay_ms * 1e3 },
            prometheus: self.scrape_s.map(|scrape_s| ScrapeSection { scrape_s }),
            devices: self.models(),
            clients: std::iter::once(first).chain(self.more_clients.iter().cloned()).collect(),
            events: self.events.clone(),
            learn: self.learn.clone(),
        };
        let mut files = self.files.clone();
        files.insert("rack.toml".to_string(), self.rack()?.to_toml());
        bench.scenario(file.name, &file.to_toml(), &files)
    }
}
