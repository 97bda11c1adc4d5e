//! Flows: hosts send bytes to each other over TCP, and the network is judged by how long that takes.

mod check;
mod frame;
mod hosts;
mod ideal;
mod interface;
mod plan;
mod read;
mod results;
mod sizes;
mod starve;

pub(super) use hosts::Senders;
pub use plan::Flow;
pub(super) use read::{LOADS, read};
pub(super) use results::INTERVALS;
pub use results::{Class, ClassResults, Fate, FlowResults};
pub use sizes::Sizes;

use pointsman_topology::Topology;
use pointsman_transport::Config;

/// Who sends to whom. Leaves are the switches with hosts, in the order of their first hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Any host to any other.
    Random,
    /// The i-th host of the j-th leaf sends to the (i + places)-th host of the (j + leaves)-th one, around the ends.
    Stride {
        /// Leaves.
        leaves: u32,
        /// Places under a leaf.
        places: u32,
    },
    /// Each host sends to one other host for the whole run, and receives from one.
    Permutation,
    /// All ordered pairs in turn.
    AllToAll,
    /// The last hosts send to the first ones, in turn.
    Incast {
        /// How many send.
        senders: u32,
        /// How many receive.
        receivers: u32,
    },
}

/// What a load is a share of. Rates are those of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The sum of the rates of all hosts' links.
    Hosts,
    /// The sum of the rates of all links from switches with hosts to other switches, as if all flows used them.
    Uplinks,
}

/// When flows start.
#[derive(Clone, Debug, PartialEq)]
pub enum Starts {
    /// Independently of each other, at such a rate that their bytes, without headers, are this share of a capacity.
    Poisson {
        /// The share.
        load: f64,
        /// Of what.
        of: Load,
    },
    /// Many at once, at each of these times in nanoseconds, which rise.
    At(Vec<u64>),
}

/// Flows between hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Flows {
    /// How long they are.
    pub sizes: Sizes,
    /// Flows with more bytes than this are large, others short.
    pub large_above: u64,
    /// DSCP of the packets that short and large flows send. Those in the other direction have that of short flows.
    pub dscp: (u8, u8),
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Whether only hosts under other leaves are chosen.
    pub across_leaves: bool,
    /// When they start.
    pub starts: Starts,
    /// How many there are; of [`Starts::At`] at each time. `None`: until the end, or one of each host or pair.
    pub count: Option<u64>,
    /// TCP of all hosts.
    pub tcp: Config,
}

/// A flow until the end: its plan and its result.
const FLOW_BYTES: f64 = 64.0;
/// Both ends of a connection, if all flows were under way at once: an upper bound.
const LIVE_BYTES: f64 = 4096.0;
/// Most flows that are counted as under way at once for each host.
const LIVE_PER_HOST: f64 = 64.0;

impl Flows {
    /// All flows of a run, in the order of their starts: they follow from the seed, nothing from what happens in the network.
    pub fn plan(&self, topology: &Topology, duration_ns: u64, seed: u64) -> Vec<Flow> {
        plan::plan(self, topology, duration_ns, seed)
    }

    /// The ports that simulated hosts use for these flows: those of the sender and of the receiver. `None`: a host has too many flows to use a
    /// port for one only.
    pub fn ports(plan: &[Flow]) -> Option<Vec<(u16, u16)>> {
        interface::ports(plan)
    }

    /// Bytes of a full packet.
    pub fn packet_bytes(&self) -> u64 {
        (frame::HEADERS + 20) as u64 + u64::from(self.tcp.mss)
    }

    /// The approximate memory that they take in a simulation.
    pub fn memory_bytes(&self, topology: &Topology, duration_ns: u64) -> f64 {
        let flows = plan::expected(self, topology, duration_ns);
        let live = match self.starts {
            Starts::Poisson { .. } => flows.min(topology.hosts().len() as f64 * LIVE_PER_HOST),
            Starts::At(_) => flows,
        };
        flows * FLOW_BYTES + live * LIVE_BYTES
    }
}
