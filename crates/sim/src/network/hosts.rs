//! What the hosts of a network do is one part, the network with its controller and events another.

use super::flows::FlowResults;
use super::run::Actor;
use crate::check::Violations;
use crate::outcome::{Latency, Requests};
use pointsman_ir::Executor;
use pointsman_net::{Network, Packet, Watch};
use pointsman_topology::{HostId, Topology};
use pointsman_wire::Mac;

/// By host: the address of its switch.
pub(super) fn gateways(topology: &Topology) -> Vec<Mac> {
    let gateway = |host: u32| {
        let mac = topology.uplink(HostId(host)).map(|(s, ..)| topology.switches()[s.0 as usize].mac);
        Mac(mac.unwrap_or_default())
    };
    (0..topology.hosts().len() as u32).map(gateway).collect()
}

/// The end of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// The time, in nanoseconds.
    pub now: u64,
    /// Packets that have not arrived: dropped for counted reasons, in queues, on links.
    pub missing: u64,
    /// Packets that switches have taken in: for their control plane, or in the place of others.
    pub consumed: u64,
    /// Packets that switches or their control planes have made.
    pub created: u64,
}

/// The results of the hosts' work.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// Requests, if they send any, and how long these took.
    pub requests: Option<(Requests, Latency)>,
    /// Flows, if they send any.
    pub flows: Option<FlowResults>,
    /// Frames that reached a host that they were not for.
    pub strays: u64,
    pub violations: Violations,
}

/// The hosts of a network. As a [`Watch`] they see what enters switches, for their checker alone.
pub(super) trait Hosts: Watch {
    /// Their own events.
    type Timer: Copy;

    /// All switches hold their entries: the hosts begin. Returns by when the run ends, in nanoseconds.
    fn begin<E: Executor + Send + Sync>(&mut self, network: &mut Network<E, Actor<Self::Timer>>) -> u64;

    /// A frame arrives.
    fn receive<E: Executor + Send + Sync>(
        &mut self,
        network: &mut Network<E, Actor<Self::Timer>>,
        host: HostId,
        frame: Packet,
    );

    /// The time of one of their events.
    fn expire<E: Executor + Send + Sync>(
        &mut self,
        network: &mut Network<E, Actor<Self::Timer>>,
        timer: Self::Timer,
    );

    /// Frames that have arrived so far.
    fn received(&self) -> u64;

    /// Whether nothing is left to do.
    fn are_done(&self) -> bool;

    /// The run has ended.
    fn finish(self, ended: &Ended) -> Results;
}
