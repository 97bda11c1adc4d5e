//! No packet is lost or made on a link or in a queue: each is judged alone, so that two that are wrong cannot make up for each other.

use crate::check::{Law, Violations};
use pointsman_ir::Executor;
use pointsman_net::Network;
use pointsman_net::link::LinkCounts;
use pointsman_topology::{End, SwitchId, Topology};
use pointsman_v1model::{DropReason, QueueCounts};

/// Ports that a switch may have, also those without a link.
const PORTS: u32 = 512;

/// What is known of a port of a switch and of its link, at the end.
#[derive(Clone, Debug, Default, PartialEq)]
struct Port {
    /// By priority.
    queues: Vec<QueueCounts>,
    /// Packets that the switch has sent on it.
    sent: u64,
    /// Packets that the switch has received from it.
    received: u64,
    /// The fate of frames on the link: from here, and to here.
    ways: [LinkCounts; 2],
}

impl Port {
    /// Whether all of it is in order.
    fn is_conserved(&self) -> bool {
        let [out, into] = &self.ways;
        self.queues.iter().all(QueueCounts::is_conserved)
            && self.sent == out.sent
            && self.received == into.delivered
    }
}

/// Whether every frame that was sent on a link has exactly one fate; the last number is of those that are on it.
fn has_fates(c: &LinkCounts, on_it: u64) -> bool {
    c.sent == c.delivered + c.full + c.lost + c.down + on_it
}

/// Checks all links, all queues of ports with links, and all switches of a network that has stopped.
pub(super) fn check<E: Executor, A: Copy>(
    topology: &Topology,
    network: &mut Network<E, A>,
    violations: &mut Violations,
) {
    let now = network.now();
    for (link, ways) in topology.links().iter().zip(network.wires().chunks(2)) {
        for way in ways.iter().filter(|way| !has_fates(&way.counts, way.in_flight())) {
            violations.add(Law::Packets, now, || {
                format!("link {}: {:?}, {} on their way", link.name, way.counts, way.in_flight())
            });
        }
    }
    for id in (0..topology.switches().len() as u32).map(SwitchId) {
        let name = &topology.switches()[id.0 as usize].name;
        for (number, link, _) in topology.ports(id) {
            let ways = network.wires().get(2 * link.0 as usize..).unwrap_or(&[]);
            let mut ways: [LinkCounts; 2] =
                std::array::from_fn(|i| ways.get(i).map(|way| way.counts).unwrap_or_default());
            if topology.links()[link.0 as usize].ends[0] != End::Switch(id, number) {
                ways.reverse();
            }
            let switch = network.switch(id);
            let stats = switch.port_stats(number.into());
            let queues = switch.queue_counts(number.into());
            let port = Port { queues, sent: stats.tx_packets, received: stats.rx_packets, ways };
            if !port.is_conserved() {
                violations.add(Law::Packets, now, || format!("port {number} of {name}: {port:?}"));
            }
        }
        let switch = network.switch(id);
        let full: u64 = (0..PORTS).map(|port| switch.port_stats(port).queue_full).sum();
        let stats = switch.stats();
        if !stats.is_conserved() || stats.dropped_by(DropReason::QueueFull) != full {
            violations.add(Law::Packets, now, || format!("{name}: {full} packets at full queues, {stats:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Port {
        let queue = QueueCounts { enqueued: 9, dequeued: 7, waiting: 2 };
        let out = LinkCounts { sent: 12, delivered: 8, full: 1, lost: 1, down: 1, ..LinkCounts::default() };
        let into = LinkCounts { sent: 5, delivered: 5, ..LinkCounts::default() };
        Port { queues: vec![queue, QueueCounts::default()], sent: 12, received: 5, ways: [out, into] }
    }

    #[test]
    fn a_packet_too_few_and_one_too_many() {
        assert!(good().is_conserved() && has_fates(&good().ways[0], 1));
        // Each number alone: two such ports leave every sum over all ports as it is.
        let changes: [fn(&mut Port) -> &mut u64; 7] = [
            |p| &mut p.queues[0].enqueued,
            |p| &mut p.queues[0].dequeued,
            |p| &mut p.queues[1].waiting,
            |p| &mut p.sent,
            |p| &mut p.received,
            |p| &mut p.ways[0].sent,
            |p| &mut p.ways[1].delivered,
        ];
        for (i, number) in changes.into_iter().enumerate() {
            let (mut more, mut less) = (good(), good());
            *number(&mut more) += 1;
            *number(&mut less) = number(&mut less).wrapping_sub(1);
            assert!(!more.is_conserved(), "{i}: {more:?}");
            assert!(i == 2 || !less.is_conserved(), "{i}: {less:?}");
        }
        for n in [0, 2] {
            assert!(!has_fates(&good().ways[0], n));
        }
    }
}
