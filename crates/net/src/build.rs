//! Builds the network of a topology.

use crate::link::{Link, LinkModel};
use crate::loader::Loader;
use crate::network::{Cable, Network};
use crate::random::{Part, Stream};
use pointsman_ir::Executor;
use pointsman_topology::{CPU_PORT, End, SwitchId, Topology};
use pointsman_v1model::{ConfigError, PortRate, QueueConfig, Switch, SwitchConfig};

/// What all switches of a topology have in common.
#[derive(Clone, Copy, Debug)]
pub struct NetworkConfig {
    /// From a frame's leaving the queue of a switch to its first bit on the wire, in nanoseconds.
    pub latency_ns: u64,
    /// Of links' losses, and of the switches' own draws.
    pub seed: u64,
    /// Priority queues of each port, 1 to 8, which have equal parts of its bytes.
    pub queues: u8,
}

/// A switch with the queues and rates of its links.
fn switch<E: Executor + Send + Sync>(
    topology: &Topology,
    id: SwitchId,
    config: &NetworkConfig,
    loader: &Loader<E>,
) -> Result<Switch<E>, ConfigError> {
    let switch_config = SwitchConfig {
        cpu_port: Some(CPU_PORT.into()),
        input_depth_packets: 1 << 20,
        seed: Stream::new(config.seed, Part::Switch, u64::from(id.0)).bits(),
        nanoseconds: true,
        queues_per_port: config.queues,
        ..SwitchConfig::default()
    };
    let mut switch = Switch::with_shared(switch_config, loader.load())?;
    for (port, link, _) in topology.ports(id) {
        let line = &topology.links()[link.0 as usize].line;
        let depth_bytes = Some(line.queue_bytes / u64::from(config.queues.max(1)));
        let queue = QueueConfig { depth_packets: u32::MAX, depth_bytes, ..QueueConfig::default() };
        switch.configure_queue(port.into(), None, queue)?;
        switch.configure_port_rate(port.into(), Some(PortRate::ethernet(line.bits_per_s)))?;
    }
    Ok(switch)
}

fn cable(number: usize, link: &pointsman_topology::Link, seed: u64) -> Cable {
    let way = |way: usize| {
        let model = LinkModel {
            rate_bit_s: Some(link.line.bits_per_s as f64),
            delay_ns: link.line.delay_ns,
            // A switch's own queue is before the wire.
            queue_bytes: if let End::Host(_) = link.ends[way] { link.line.queue_bytes } else { u64::MAX },
            ecn_bytes: None,
            loss: link.line.loss,
        };
        Link::new(&model, Stream::new(seed, Part::Link, (2 * number + way) as u64))
    };
    Cable { ends: link.ends, ways: [way(0), way(1)] }
}

impl<E: Executor + Send + Sync, A: Copy> Network<E, A> {
    /// The network of a topology, whose switches have no program yet.
    ///
    /// # Errors
    /// A rate or depth that no queue can have.
    pub fn of(topology: &Topology, config: NetworkConfig, loader: &Loader<E>) -> Result<Self, ConfigError> {
        let ids = (0..topology.switches().len() as u32).map(SwitchId);
        let switches = ids.map(|id| switch(topology, id, &config, loader)).collect::<Result<_, _>>()?;
        let cables = topology.links().iter().enumerate().map(|(i, link)| cable(i, link, config.seed));
        Ok(Network::new(switches, cables, config.latency_ns))
    }
}
