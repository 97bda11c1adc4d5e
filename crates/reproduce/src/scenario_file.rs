//! A simulator scenario as a value, as `RackFile` is one of a rack. Fields are those of the file, under the file's names; a field
//! without a value is not written, so the reader's default applies.

use pointsman_decide::Bounds;
use pointsman_sim::scenario::LearnerKind;
use serde::Serialize;

/// A whole file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioFile {
    /// Its name.
    pub name: &'static str,
    /// For how long clients send.
    pub duration_s: f64,
    /// Requests of this first part do not count.
    pub warmup_s: f64,
    /// Client timeout.
    pub patience_s: f64,
    /// The rack.
    pub rack: RackSection,
    /// The devices' agents.
    pub agents: AgentsSection,
    /// The links of clients.
    pub client_link: LinkSection,
    /// The server that the controller queries.
    pub prometheus: Option<ScrapeSection>,
    /// Devices of every server.
    #[serde(rename = "device")]
    pub devices: Vec<ModelSection>,
    /// Clients, in the order of their random numbers.
    #[serde(rename = "client")]
    pub clients: Vec<ClientSection>,
    /// What happens meanwhile.
    #[serde(rename = "event", skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventSection>,
    /// What sets the weights of accelerators.
    pub learn: Option<LearnSection>,
}

impl ScenarioFile {
    /// The text of the file.
    ///
    /// # Panics
    /// Never: every field is a string, a number or a table of these.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every field can be written")
    }
}

/// `[rack]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RackSection {
    /// The path of a `rack.toml`.
    pub file: &'static str,
}

/// `[agents]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentsSection {
    /// Whether there are any.
    pub enabled: bool,
    /// Between two readings of the processor's use.
    pub sampling_ms: f64,
    /// From the decision to report to the frame on the wire.
    pub delay_ms: f64,
    /// Between two probes of a device.
    pub probes_ms: Option<f64>,
}

/// `[client_link]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkSection {
    /// One way.
    pub delay_us: f64,
}

/// `[prometheus]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScrapeSection {
    /// Between two scrapes.
    pub scrape_s: f64,
}

/// `[[device]]` of a rack from a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSection {
    /// Its name.
    pub name: &'static str,
    /// Requests at the same time.
    pub workers: u32,
    /// Divides the time of a request.
    pub speed: f64,
    /// The time of a request.
    pub service_time: ServiceTime,
    /// Other processes on the device.
    pub stress: Option<StressSection>,
}

/// `service_time` of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "distribution", rename_all = "kebab-case")]
pub enum ServiceTime {
    /// Always the same.
    Deterministic {
        /// That.
        mean_ms: f64,
    },
    /// Its logarithm has a normal distribution.
    LogNormal {
        /// The mean.
        mean_ms: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

/// `stress` of a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StressSection {
    /// Processes that use all time that they get.
    pub processes: u32,
    /// Their share of the memory.
    pub memory_percent: f64,
}

/// `[[client]]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientSection {
    /// The switch's port, if it is not the first route's.
    pub port: Option<u16>,
    /// Connections that requests share.
    pub connections: Option<u32>,
    /// When requests, or sessions, come.
    pub arrivals: ArrivalsSection,
    /// What a session is.
    pub session: Option<SessionSection>,
}

impl ClientSection {
    /// A client with a connection for each request.
    pub fn new(arrivals: ArrivalsSection) -> Self {
        ClientSection { port: None, connections: None, arrivals, session: None }
    }
}

/// `session` of a client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SessionSection {
    /// Requests of a connection.
    pub requests: u32,
    /// Between two of them.
    pub gap_ms: f64,
}

/// `arrivals` of a client.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "process", rename_all = "kebab-case")]
#[allow(missing_docs)] // as in docs/simulator.md
pub enum ArrivalsSection {
    Poisson { rate_per_s: f64 },
    NearConstant { rate_per_s: f64, jitter: f64 },
    Mmpp { state: [StateSection; 2] },
    Steps { step_s: f64, rates_per_s: Vec<f64> },
    Trace { file: &'static str },
}

/// `state` of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StateSection {
    /// Its rate.
    pub rate_per_s: f64,
    /// How long it lasts on average.
    pub mean_s: f64,
}

/// `[[event]]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EventSection {
    /// When, after the first request.
    pub at_s: f64,
    /// What happens.
    #[serde(flatten)]
    pub action: ActionSection,
}

/// The action of an event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
#[allow(missing_docs)] // as in docs/simulator.md
pub enum ActionSection {
    Disable { device: &'static str },
    Enable { device: &'static str },
    Speed { device: &'static str, factor: f64 },
    Policy { policy: &'static str },
}

/// `[learn]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LearnSection {
    /// Its kind.
    pub learner: LearnerKind,
    /// Between two decisions.
    pub interval_s: f64,
    /// From a decision to the first observation.
    pub settle_s: f64,
    /// Latency (99th percentile) that is fine.
    pub latency_ms: f64,
    /// Below this the processors count as idle while accelerators work.
    pub utilisation_percent: f64,
    /// Ranges of utilisation.
    pub ranges: Option<u32>,
    /// Nothing is learnt from observations if the rate of requests has changed by more.
    pub load_change_percent: Option<f64>,
    /// Learning rate.
    pub alpha: Option<f64>,
    /// Worth of the next state.
    pub gamma: Option<f64>,
    /// Probability of a random action.
    pub epsilon: Option<f64>,
    /// The factor of that after every action.
    pub epsilon_decay: Option<f64>,
    /// The weight that the fixed learner sets.
    pub weight: Option<u32>,
    /// The guard around it.
    pub guard: Option<Bounds>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_sim::scenario::read;

    /// The reader accepts every field.
    #[test]
    fn every_field_is_read() {
        let state =
            [StateSection { rate_per_s: 1.0, mean_s: 2.0 }, StateSection { rate_per_s: 3.0, mean_s: 0.5 }];
        let arrivals = [
            ArrivalsSection::Poisson { rate_per_s: 0.1 },
            ArrivalsSection::NearConstant { rate_per_s: 1e-5, jitter: 0.25 },
            ArrivalsSection::Mmpp { state },
            ArrivalsSection::Steps { step_s: 1.0, rates_per_s: vec![1.0, 2.5] },
            ArrivalsSection::Trace { file: "times.csv" },
        ];
        let session = Some(SessionSection { requests: 3, gap_ms: 1.0 });
        let sessions = ClientSection { session, ..ClientSection::new(arrivals[0].clone()) };
        let second = ClientSection {
            port: Some(crate::setup::SECOND_CLIENT),
            connections: Some(5),
            ..ClientSection::new(arrivals[0].clone())
        };
        let model =
            |name, service_time, stress| ModelSection { name, workers: 2, speed: 0.5, service_time, stress };
        let event = |at_s, action| EventSection { at_s, action };
        let file = ScenarioFile {
            name: "all",
            duration_s: 3.0,
            warmup_s: 1e-6,
            patience_s: 2.0,
            rack: RackSection { file: "rack.toml" },
            agents: AgentsSection { enabled: true, sampling_ms: 10.0, delay_ms: 0.5, probes_ms: Some(7.0) },
            client_link: LinkSection { delay_us: 1.0 },
            prometheus: Some(ScrapeSection { scrape_s: 15.0 }),
            devices: vec![
                model("cpu", ServiceTime::Deterministic { mean_ms: 1.0 }, None),
                model(
                    "nic",
                    ServiceTime::LogNormal { mean_ms: 2.0, sigma: 0.1 },
                    Some(StressSection { processes: 7, memory_percent: 75.0 }),
                ),
            ],
            clients: arrivals.map(ClientSection::new).into_iter().chain([sessions, second]).collect(),
            events: vec![
                event(0.0, ActionSection::Disable { device: "nic" }),
                event(1.0, ActionSection::Enable { device: "nic" }),
                event(1.5, ActionSection::Speed { device: "cpu", factor: 0.69 }),
                event(2.0, ActionSection::Policy { policy: "wrr" }),
            ],
            learn: Some(LearnSection {
                learner: LearnerKind::Thompson,
                interval_s: 1.0,
                settle_s: 0.25,
                latency_ms: 20.0,
                utilisation_percent: 55.0,
                ranges: Some(5),
                load_change_percent: Some(20.0),
                alpha: Some(0.25),
                gamma: Some(0.75),
                epsilon: Some(0.125),
                epsilon_decay: Some(0.98),
                weight: Some(2),
                guard: Some(Bounds {
                    p99_ms: 50.0,
                    loss: 0.05,
                    fallback: 1,
                    hold: 3,
                    max_change: 2,
                    max_use_percent: Some(92.0),
                }),
            }),
        };
        let unit = |name, kind| crate::setup::Unit {
            name,
            kind,
            weight: 1,
            workers: 1,
            mean_ms: 1.0,
            sigma: 0.0,
            speed: 1.0,
        };
        let units = [
            unit("cpu", pointsman_balance::DeviceKind::Cpu),
            unit("nic", pointsman_balance::DeviceKind::SmartNic),
        ];
        let mut setup =
            crate::setup::Setup::new(2, &units, "wrr", ArrivalsSection::Poisson { rate_per_s: 1.0 });
        setup.probes_ms = Some(7.0);
        let rack = setup.rack().expect("a rack").to_toml();
        let load = |name: &str| match name {
            "rack.toml" => Ok(rack.clone()),
            "times.csv" => Ok("time_s\n1\n".to_string()),
            other => Err(other.into()),
        };
        let text = file.to_toml();
        let scenarios = read("all", &text, &load).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let [scenario] = &scenarios[..] else { panic!("{} scenarios", scenarios.len()) };
        assert_eq!((scenario.clients.len(), scenario.events.len(), scenario.devices.len()), (7, 4, 4));
        let learn = scenario.learn.as_ref().expect("a learner");
        let p = &learn.parameters;
        assert_eq!(
            (p.latency_ms, p.utilisation_percent, p.ranges, p.load_change_percent),
            (20.0, 55.0, 5, 20.0)
        );
        assert_eq!((p.alpha, p.gamma, p.epsilon, p.epsilon_decay), (0.25, 0.75, 0.125, 0.98));
        assert_eq!((learn.weight, learn.guard.map(|g| g.hold)), (2, Some(3)));
        assert_eq!((scenario.duration_ns, scenario.warmup_ns), (3_000_000_000, 1_000));
    }
}
