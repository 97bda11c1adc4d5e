//! Scenarios: descriptions of simulations in TOML files.
//!
//! [`read`] checks everything once and gives one [`Scenario`] for every point of the file's sweep.

mod error;
mod event;
mod learn;
mod limits;
pub(crate) mod parts;
mod point;
mod rack;
mod read;
mod tables;
#[cfg(test)]
mod tests;

pub use learn::{LearnModel, LearnerKind};
pub use limits::memory_bytes;
pub use read::read;

use crate::arrivals::ArrivalModel;
use crate::device::DeviceModel;
use crate::link::LinkModel;
use pointsman_balance::{Policy, Protocol, Rack};
use pointsman_wire::random::fnv;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};

/// Reads a file that a scenario names: the path as written in, text or reason out.
pub type Load<'a> = dyn Fn(&str) -> Result<String, Box<dyn Error>> + 'a;

/// Settings of agents besides those in `rack.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentModel {
    /// Whether there are any.
    pub enabled: bool,
    /// How often they look at processor use.
    pub sampling_ns: u64,
    /// In what steps the use of processors is counted.
    pub tick_ns: u64,
    /// From the decision to report to the frame on the wire.
    pub delay_ns: u64,
    /// Probability that a report is lost in the agent's host.
    pub loss: f64,
    /// Clocks run fast or slow by up to this, in millionths.
    pub skew_ppm: f64,
    /// Clocks are ahead by up to this.
    pub offset_ns: u64,
    /// How often each device sends a probe, if it does: free processor, measured since the last; free memory; link all free.
    pub probes_ns: Option<u64>,
}

/// A Prometheus server that looks at devices, for a controller that asks one.
#[derive(Clone, Debug, PartialEq)]
pub struct PrometheusModel {
    /// From one look to the next.
    pub scrape_ns: u64,
    /// The window of rates: samples this far back.
    pub window_ns: u64,
}

/// How a client uses connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// One for each request.
    PerRequest,
    /// So many, in turn.
    Lasting(u32),
    /// A new one at each arrival, for several requests.
    Sessions {
        /// Requests of each; the first is sent at once.
        requests: u32,
        /// Time from one to the next, in nanoseconds, whether or not it was answered.
        gap_ns: u64,
    },
}

impl From<u32> for Connections {
    /// So many that last; 0: one for each request.
    fn from(lasting: u32) -> Self {
        if lasting == 0 { Connections::PerRequest } else { Connections::Lasting(lasting) }
    }
}

impl Connections {
    /// Requests that follow from an arrival.
    pub fn requests(&self) -> u32 {
        match self {
            Connections::PerRequest | Connections::Lasting(_) => 1,
            Connections::Sessions { requests, .. } => *requests,
        }
    }
}

/// A client: requests from many addresses behind one port of the switches.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientModel {
    /// Name for messages.
    pub name: String,
    /// Port of the switch.
    pub port: u16,
    /// First address; the others follow.
    pub address: IpAddr,
    /// Number of addresses.
    pub addresses: u32,
    /// Next hop's address, if the controller resolves its MAC address.
    pub via: Option<Ipv4Addr>,
    /// When requests come.
    pub arrivals: ArrivalModel,
    /// Payload bytes of a request.
    pub request_bytes: u32,
    /// How it uses connections.
    pub connections: Connections,
    /// The transport of its requests. All clients of a scenario have the same.
    pub transport: Protocol,
    /// Where it sends requests.
    pub service: (IpAddr, u16),
    /// Whether its packets understand congestion marks.
    pub congestion: bool,
}

impl ClientModel {
    /// The expected number of its requests in this many nanoseconds, with those that sessions send later.
    pub fn expected(&self, ns: u64) -> f64 {
        self.arrivals.expected(ns) * f64::from(self.connections.requests())
    }

    /// How many connections it numbers, if they have several requests each. Numbers of sessions come again only when twice as many
    /// as expected have begun.
    pub fn numbered(&self, duration_ns: u64) -> Option<u32> {
        match self.connections {
            Connections::PerRequest => None,
            Connections::Lasting(n) => Some(n),
            Connections::Sessions { .. } => Some((2.0 * self.arrivals.expected(duration_ns)) as u32 + 64),
        }
    }
}

/// The effect of an event. Devices are numbered as in [`Scenario::devices`].
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Devices fail: they lose their requests and their agents fall silent.
    Fail(Vec<usize>),
    /// They work again.
    Restore(Vec<usize>),
    /// Their speed is the model's times this.
    Speed(Vec<usize>, f64),
    /// Their agents stop (`false`) or resume reporting.
    Agents(Vec<usize>, bool),
    /// The controller takes them out of service (`false`) or in again.
    Enable(Vec<usize>, bool),
    /// The controller gives them this weight in every service.
    Weight(Vec<usize>, u32),
    /// The links of these ports go down or up.
    Link {
        /// Ports of the switches.
        ports: Vec<u16>,
        /// Which switch, from 0; `None`: all.
        switch: Option<usize>,
        /// Whether they go up.
        up: bool,
    },
    /// The switch with this number, from 0, loses power (`false`) or gets it.
    Power(usize, bool),
    /// The controller gives all services this policy.
    Policy(Policy),
    /// The rates of all clients are the scenario's times this.
    Load(f64),
}

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Since the first request may come.
    pub at_ns: u64,
    /// What.
    pub action: Action,
}

/// Everything about one simulation but its seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The file's own seed.
    pub seed: u64,
    /// For how long clients send.
    pub duration_ns: u64,
    /// Requests of the first part do not count in the results.
    pub warmup_ns: u64,
    /// For how long a client waits for an answer.
    pub patience_ns: u64,
    /// The configuration of the controller and the agents.
    pub rack: Rack,
    /// Models of the rack's devices, in its order.
    pub devices: Vec<DeviceModel>,
    /// Class of each server: those with equal devices form a class.
    pub class_of: Vec<u8>,
    /// Names of these classes; empty if there is one.
    pub class_names: Vec<String>,
    /// Clients.
    pub clients: Vec<ClientModel>,
    /// Links between switches and servers.
    pub link: LinkModel,
    /// Links between switches and clients.
    pub client_link: LinkModel,
    /// From a packet's arrival at a switch to its leaving.
    pub switch_latency_ns: u64,
    /// One way between controller and switches.
    pub control_delay_ns: u64,
    /// Agents.
    pub agents: AgentModel,
    /// The Prometheus servers that the controller queries if it chooses a service's device.
    pub prometheus: PrometheusModel,
    /// Events during the simulation, in order.
    pub events: Vec<Event>,
    /// The learner of the weights of accelerators, if any.
    pub learn: Option<LearnModel>,
    /// The point of the sweep: names and values, as in the file.
    pub point: Vec<(String, String)>,
}

/// A number, in hexadecimal, that identifies a scenario, as text, and a data plane (FNV-1a).
pub(crate) fn fingerprint(scenario: &str, data_plane: &[u8]) -> String {
    format!("{:016x}", fnv(scenario.bytes().chain(data_plane.iter().copied())))
}

/// What a rack's results mean. It changes with a definition, so that no sweep continues with results that mean something else:
/// since 2, percentiles cover lost requests.
const RESULTS: u32 = 2;

impl Scenario {
    /// A number, in hexadecimal, that identifies this scenario, data plane and definition of results (FNV-1a).
    pub fn fingerprint(&self, data_plane: &[u8]) -> String {
        fingerprint(&format!("{RESULTS}{self:?}"), data_plane)
    }

    /// Its point of the sweep as text: `rate_per_s=1000 policy=wrr`, or nothing.
    pub fn point_text(&self) -> String {
        self.point.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
    }

    /// How long a device that failed, or that the controller took out, may still be given new connections. `None`: the
    /// rack has nothing that would notice.
    pub fn detection_ns(&self) -> Option<u64> {
        let switch = &self.rack.switch;
        let ms = 1_000_000;
        let reports = self.agents.enabled && switch.report_timeout_ms > 0;
        // The data plane itself excludes silent devices; a server that is silent as a whole goes when the controller,
        // which polls, has changed the tables.
        reports.then(|| {
            (u64::from(switch.report_timeout_ms) + 2 * u64::from(switch.poll_interval_ms) + 10) * ms
                + 20 * self.control_delay_ns
                + self.agents.delay_ns
        })
    }
}
