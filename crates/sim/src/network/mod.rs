//! A network of switches with traffic between hosts: the smallest simulation of a fabric.
//!
//! Hosts send requests to all others, which answer at once, or flows over TCP. Each switch runs the same compiled program and has a P4Runtime
//! server; one controller keeps a session with each.

mod check;
mod conserve;
mod control;
mod distance;
mod fit;
mod flows;
mod hosts;
mod outcome;
mod read;
mod requests;
mod run;
mod sweep;
mod timeline;

pub use distance::Distances;
pub use flows::{Class, ClassResults, Fate, Flow, FlowResults, Flows, Load, Pattern, Sizes, Starts};
pub use outcome::{ControlCounts, Counting, Fabric, NetworkOutcome, Port, uplink_ports};
pub use pointsman_fabric::is_network;
pub use read::read;
pub use run::{check, run};
pub use timeline::{Cut, Timeline};

use crate::arrivals::ArrivalModel;
use pointsman_fabric::Choice;
use pointsman_topology::{LinkId, Topology};

/// Requests between all pairs of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// When each host sends requests. Their destinations are all other hosts in turn.
    pub arrivals: ArrivalModel,
    /// UDP source ports that a host uses with each destination, in turn.
    pub flows: u32,
    /// Payload bytes of a request.
    pub request_bytes: u32,
    /// Payload bytes of an answer.
    pub answer_bytes: u32,
}

/// What the hosts do.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Requests and answers.
    Requests(Traffic),
    /// Flows over TCP.
    Flows(Flows),
}

/// A link goes down or up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// Since the first request may come.
    pub at_ns: u64,
    /// Which.
    pub link: LinkId,
    /// Whether it goes up.
    pub up: bool,
}

/// Everything about one simulation of a network but its seed.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkScenario {
    /// Its name.
    pub name: String,
    /// Its point of the sweep: names and values, in the order of names.
    pub point: Vec<(String, String)>,
    /// The file's own seed.
    pub seed: u64,
    /// For how long hosts send, or start flows.
    pub duration_ns: u64,
    /// For how long a host waits for an answer, or how long the run continues after the last flow has started.
    pub patience_ns: u64,
    /// How switches choose paths.
    pub choice: Choice,
    /// The program of all switches: a path, or `None` for the scheme's own.
    pub program: Option<String>,
    /// Switches, hosts and links.
    pub topology: Topology,
    /// From a frame's leaving the queue of a switch to its first bit on the wire.
    pub switch_latency_ns: u64,
    /// One way between the controller and a switch.
    pub control_delay_ns: u64,
    /// Until a switch reports to the controller that a port lost its carrier, or has it again.
    pub detection_ns: u64,
    /// What the hosts do.
    pub work: Work,
    /// Events, in order.
    pub events: Vec<LinkEvent>,
}

/// A request is remembered until the end, for percentiles and checkers.
const REQUEST_BYTES: f64 = 48.0;
/// A switch with its tables and queues.
const SWITCH_BYTES: f64 = 4.0 * 1024.0 * 1024.0;

impl NetworkScenario {
    /// A number, in hexadecimal, that identifies this scenario and program (FNV-1a).
    pub fn fingerprint(&self, program: &[u8]) -> String {
        crate::scenario::fingerprint(&format!("{self:?}"), program)
    }

    /// Within this time the controller knows of a change of a link, and the switches have what follows from it: the news, and six messages
    /// between them and the controller.
    pub fn reaction_ns(&self) -> u64 {
        self.detection_ns.saturating_add(self.control_delay_ns.saturating_mul(7))
    }

    /// Its point of the sweep as text: `load=0.6 scheme=ecmp`, or nothing.
    pub fn point_text(&self) -> String {
        self.point.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// The approximate memory of a simulation.
    pub fn memory_bytes(&self) -> f64 {
        let hosts = self.topology.hosts().len() as f64;
        let work = match &self.work {
            Work::Requests(t) => t.arrivals.expected(self.duration_ns) * hosts * REQUEST_BYTES,
            Work::Flows(f) => f.memory_bytes(&self.topology, self.duration_ns),
        };
        self.topology.switches().len() as f64 * SWITCH_BYTES + work
    }
}
