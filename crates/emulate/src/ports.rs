//! What the links of a plan mean for the ports of its switches.

use crate::plan::{Plan, cpu_interfaces};
use pointsman_lab::wiring::Wiring;
use pointsman_node::switch::Interface;
use pointsman_node::switch::queues::{BURST_NS, Depth, Queue, Rate, Setting};
use pointsman_ports::{FaultConfig, Faults};
use pointsman_topology::{End, Line, LinkId, SwitchId};
use std::collections::BTreeMap;

/// Bytes that wait before a link with a rate, if the file does not say how many packets: 64 full ones, as in BMv2.
const QUEUE_BYTES: u64 = 64 * 1514;
/// Packets on a link with a delay and without a rate.
const DELAYED_PACKETS: u32 = 1 << 16;
/// The ports of a switch.
pub(crate) fn interfaces(plan: &Plan, wiring: &Wiring, switch: SwitchId) -> Vec<Interface> {
    let links = wiring.ports(switch).into_iter();
    let [cpu, _] = cpu_interfaces(plan.switch(switch));
    let cpu = plan.switches[switch.0 as usize].cpu_interface.map(|number| (number, cpu));
    links.chain(cpu).map(|(number, name)| Interface { number: number.into(), name }).collect()
}

/// The faults of the cables at a switch's ports. What a link loses from a host is lost where the switch receives it: nothing in a host's
/// kernel loses packets.
pub(crate) fn cables(plan: &Plan, switch: SwitchId) -> BTreeMap<u32, FaultConfig> {
    let of = |(port, link, end): (u16, LinkId, End)| {
        let loss = plan.topology.links()[link.0 as usize].line.loss;
        let transmit = Faults { loss, ..Faults::default() };
        let receive = if let End::Host(_) = end { transmit } else { Faults::default() };
        (loss > 0.0).then(|| (port.into(), FaultConfig { receive, transmit, ..FaultConfig::default() }))
    };
    plan.topology.ports(switch).filter_map(of).collect()
}

/// The queues of a switch's ports whose links have a rate, a delay or a length of queues. The delay of a host's link is there for both
/// directions, because nothing in a host's kernel delays packets.
pub(crate) fn queues(plan: &Plan, switch: SwitchId) -> Vec<Setting> {
    let of = |(port, link, end): (u16, LinkId, End)| {
        let line = plan.topology.links()[link.0 as usize].line;
        let packets = plan.links.get(link.0 as usize).and_then(|l| l.queue_packets);
        let limited = line.bits_per_s != Line::UNLIMITED;
        if !limited && line.delay_ns == 0 && packets.is_none() {
            return None;
        }
        let delay_ns = if let End::Host(_) = end { 2 * line.delay_ns } else { line.delay_ns };
        // Packets that are delayed take room in a queue.
        let on_the_way = u128::from(line.bits_per_s) * u128::from(delay_ns) / 8_000_000_000;
        let depth = match (packets, limited) {
            (Some(packets), _) => Some(Depth::Packets(packets)),
            (None, true) => {
                Some(Depth::Bytes(QUEUE_BYTES + u64::try_from(on_the_way).unwrap_or(u64::MAX >> 1)))
            }
            (None, false) => Some(Depth::Packets(DELAYED_PACKETS)),
        };
        Some(Setting::Queue(Queue {
            port: Some(port.into()),
            priority: None,
            rate: if limited { Rate::Bits(line.bits_per_s) } else { Rate::Max },
            depth,
            delay_ns,
            burst_ns: if limited { BURST_NS } else { 0 },
        }))
    };
    plan.topology.ports(switch).filter_map(of).collect()
}
