//! Racks and scenarios of experiments, as files that a user would write.

use super::bench::{Bench, Coming, Factor};
use crate::error::ExperimentError;
use pointsman_balance::blocks::{Ties, Tuning};
use pointsman_balance::config::file::{
    AgentSection, DeviceSection, PrometheusSection, RackFile, ServerSection, ServiceSection, SwitchSection,
};
use pointsman_balance::config::{NextHop, Route, Threshold};
use pointsman_balance::{DeviceKind, Mac, Prefix, Protocol};
use pointsman_sim::Scenario;
use std::collections::BTreeMap;
use std::fmt::Write;
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
    /// Further lines of each device in the scenario, by priority.
    pub more_of: Vec<String>,
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
    /// The text between the braces of `arrivals`.
    pub arrivals: String,
    /// `[service.prometheus]`.
    pub prometheus: Option<PrometheusSection>,
    /// Further tables of the scenario, such as events.
    pub more: String,
    /// Files that it references, in the rack's folder.
    pub files: BTreeMap<String, String>,
}

/// Port of the switch where a second client may be.
pub const SECOND_CLIENT: u16 = 508;

/// Arrivals without memory.
pub fn poisson(rate_per_s: f64) -> String {
    format!("process = \"poisson\", rate_per_s = {rate_per_s}")
}

/// Bursts: Poisson at a rate that changes between two states, a fifth of the time at twice the mean and else at three
/// quarters of it. `burst_s` is the mean length of a burst.
pub fn bursts(rate_per_s: f64, burst_s: f64) -> String {
    format!(
        "process = \"mmpp\", state = [{{ rate_per_s = {}, mean_s = {} }}, {{ rate_per_s = {}, mean_s = {burst_s} }}]",
        0.75 * rate_per_s,
        4.0 * burst_s,
        2.0 * rate_per_s,
    )
}

/// Arrivals as set for the bench.
pub fn coming(bench: &Bench, rate_per_s: f64) -> String {
    match bench.coming {
        Coming::Poisson => poisson(rate_per_s),
        Coming::NearConstant => {
            // The gap's variation is the root of its milliseconds; an even distribution of that variation.
            let gap_ms = 1e3 / rate_per_s;
            let jitter = (3.0f64.sqrt() / gap_ms.sqrt()).min(1.0);
            format!("process = \"near-constant\", rate_per_s = {rate_per_s}, jitter = {jitter}")
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
    pub fn new(servers: u32, units: &[Unit], policy: &str, arrivals: String) -> Self {
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
            arrivals,
            prometheus: None,
            more_of: Vec::new(),
            more: String::new(),
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

    /// The scenario.
    ///
    /// # Errors
    /// An error in the scenario: a bug of ours.
    pub fn scenario(&self, bench: &Bench) -> Result<Arc<Scenario>, ExperimentError> {
        let mut t = format!(
            "name = \"experiment\"\nduration_s = {}\nwarmup_s = {}\npatience_s = {}\n",
            self.duration_s, self.warmup_s, self.patience_s
        );
        let _ = write!(
            t,
            "rack = {{ file = \"rack.toml\" }}\nagents = {{ enabled = {}, sampling_ms = {}, delay_ms = {}{} }}\n\
             [client_link]\ndelay_us = {}\n",
            self.probes_ms.is_none(),
            self.sampling_ms,
            self.delay_ms,
            self.probes_ms.map_or(String::new(), |ms| format!(", probes_ms = {ms}")),
            self.client_delay_ms * 1e3
        );
        for (i, unit) in self.units.iter().enumerate() {
            let distribution = match unit.sigma {
                0.0 => "distribution = \"deterministic\"".to_string(),
                sigma => format!("distribution = \"log-normal\", sigma = {sigma}"),
            };
            let _ = write!(
                t,
                "[[device]]\nname = \"{}\"\nworkers = {}\nspeed = {}\nservice_time = {{ {distribution}, mean_ms = {} }}\n{}",
                unit.name,
                unit.workers,
                unit.speed,
                unit.mean_ms,
                self.more_of.get(i).map_or("", String::as_str)
            );
        }
        let _ = write!(t, "[[client]]\narrivals = {{ {} }}\n{}", self.arrivals, self.more);
        let mut files = self.files.clone();
        files.insert("rack.toml".to_string(), self.rack()?.to_toml());
        bench.scenario("experiment", &t, &files)
    }
}
