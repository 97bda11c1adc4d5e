//! A host's interface: connections with something to send take turns, and little waits behind each other on the way to the wire.

use super::plan::Flow;
use pointsman_topology::{HostId, Line, Topology};
use std::collections::{BTreeMap, VecDeque};

/// What a frame takes on an Ethernet in addition to its bytes: preamble, checksum and gap.
const OVERHEAD: u64 = 24;
/// Trains that may wait at once. One would leave the wire idle while the next is fetched.
const TRAINS: u64 = 2;

/// First port of connections.
pub(super) const FIRST_PORT: u16 = 1024;
const NONE: u32 = u32::MAX;

/// A host's interface.
#[derive(Debug)]
pub(super) struct Interface {
    /// Ends of connections that wait for their turn.
    pub waiting: VecDeque<u32>,
    /// Whether an event is entered for the next turn.
    pub armed: bool,
    /// So long may what was sent take until it has left, at most, for more to be sent.
    pub limit_ns: u64,
    /// The host's ports.
    pub ports: Ports,
}

impl Interface {
    /// An idle one on this line, for trains of so many packets with so many bytes each.
    pub fn new(line: &Line, packets: u16, frame_bytes: u64) -> Self {
        let bits = TRAINS * u64::from(packets) * (frame_bytes + OVERHEAD) * 8;
        Interface {
            waiting: VecDeque::new(),
            armed: false,
            limit_ns: (bits as f64 * 1e9 / line.bits_per_s as f64) as u64,
            ports: Ports::default(),
        }
    }
}

/// A host's ports.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// From [`FIRST_PORT`] on: the end of a connection.
    ends: Vec<u32>,
    /// Ports that were used and are not any more, in the order in which they became free.
    free: VecDeque<u16>,
}

impl Ports {
    /// Gives an end a port. `None`: all are taken.
    pub fn open(&mut self, end: u32) -> Option<u16> {
        let next = u16::try_from(self.ends.len() + usize::from(FIRST_PORT)).ok();
        if let Some(port) = next {
            self.ends.push(end);
            return Some(port);
        }
        let port = self.free.pop_front()?;
        self.ends[usize::from(port - FIRST_PORT)] = end;
        Some(port)
    }

    /// The port is free again.
    pub fn close(&mut self, port: u16) {
        if let Some(at) = self.ends.get_mut(usize::from(port.wrapping_sub(FIRST_PORT))) {
            *at = NONE;
            self.free.push_back(port);
        }
    }

    /// The end at a port.
    #[inline]
    pub fn at(&self, port: u16) -> Option<u32> {
        let found = *self.ends.get(usize::from(port.checked_sub(FIRST_PORT)?))?;
        (found != NONE).then_some(found)
    }
}

/// The interfaces of all hosts.
pub(super) fn interfaces(topology: &Topology, packets: u16, frame_bytes: u64) -> Vec<Interface> {
    let line = |h: u32| {
        let link = topology.uplink(HostId(h)).map(|(.., link)| topology.links()[link.0 as usize].line);
        Interface::new(&link.unwrap_or_default(), packets, frame_bytes)
    };
    (0..topology.hosts().len() as u32).map(line).collect()
}

/// The ports of all flows, of the sender and of the receiver, while no host uses one twice. `None`: a host has too many flows for that.
pub(super) fn ports(plan: &[Flow]) -> Option<Vec<(u16, u16)>> {
    let mut hosts: BTreeMap<u32, Ports> = BTreeMap::new();
    let mut open = |host| hosts.entry(host).or_default().open(0);
    plan.iter().map(|flow| Some((open(flow.from)?, open(flow.to)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_for_one_flow() {
        let flow = |(from, to)| Flow { at: 0, from, to, bytes: 1 };
        let plan: Vec<Flow> = [(0, 1), (2, 0), (0, 1), (1, 2)].map(flow).into();
        let expected = vec![(1024, 1024), (1024, 1025), (1026, 1025), (1026, 1025)];
        assert_eq!(ports(&plan), Some(expected));

        let most = usize::from(u16::MAX - FIRST_PORT) + 1;
        let mut plan: Vec<Flow> = (0..most as u32).map(|n| flow((0, 1 + n % 7))).collect();
        let last = ports(&plan).and_then(|ports| ports.last().copied());
        assert_eq!(last.map(|(source, _)| source), Some(u16::MAX));
        plan.push(flow((1, 0)));
        assert_eq!(ports(&plan), None);
    }
}
