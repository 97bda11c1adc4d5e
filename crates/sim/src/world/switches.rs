//! The switches of the rack: their power, and the packets that they counted.

use super::World;
use super::lines::Change;
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::random::{Part, Stream};
use pointsman_balance::Rack;
use pointsman_ir::Executor;
use pointsman_net::Node;
use pointsman_v1model::{DropReason, Stats, Switch, SwitchConfig};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes a switch without state, and its P4Runtime server, for a life with this number.
pub(super) type Boot<E> = Box<dyn Fn(u16) -> Result<(Node<E>, ControlPlane), String> + Send + Sync>;

/// How the switches of this rack start.
pub(super) fn boot<E: Executor + Send + Sync>(rack: &Rack, data_plane: &DataPlane<E>, seed: u64) -> Boot<E> {
    let (cpu_port, device_id) = (rack.switch.cpu_port.into(), rack.switch.device_id);
    let (load, compiled) = (Arc::new(data_plane.loader.load()), data_plane.compiled.clone());
    Box::new(move |life| {
        let config = SwitchConfig {
            cpu_port: Some(cpu_port),
            // Queues are the links'.
            input_depth_packets: 1 << 20,
            queue_depth_packets: 1 << 20,
            seed: Stream::new(seed, Part::Switch, life.into()).bits(),
            ..SwitchConfig::default()
        };
        let load = load.clone();
        let shared = move |program: Arc<_>, slots: &[_], known: &_| load(program, slots, known);
        let switch = Switch::with_shared(config, shared).map_err(|e| e.to_string())?;
        Ok((Node::new(switch), ControlPlane::new(device_id, compiled.clone())?))
    })
}

/// A switch of the rack.
pub(super) struct RackSwitch<E: Executor> {
    pub node: Node<E>,
    pub on: bool,
    /// The packets of its former lives.
    past: Tally,
}

impl<E: Executor> RackSwitch<E> {
    /// A switch in its first life.
    pub fn new(node: Node<E>) -> Self {
        RackSwitch { node, on: true, past: Tally::default() }
    }

    /// The packets of all its lives.
    pub fn tally(&mut self) -> Tally {
        let mut all = self.past.clone();
        all.add(&Tally::of(self.node.switch.stats()));
        all
    }
}

/// Numbers of packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub received: u64,
    pub received_from_cpu: u64,
    /// Copies that the switch made.
    pub made: u64,
    pub transmitted: u64,
    pub to_cpu: u64,
    pub consumed: u64,
    /// Those that wait, or waited when it lost power.
    pub queued: u64,
    pub drops: BTreeMap<DropReason, u64>,
}

impl Tally {
    fn of(stats: &Stats) -> Self {
        Tally {
            received: stats.received,
            received_from_cpu: stats.received_from_cpu,
            made: stats.ingress_clones + stats.egress_clones + stats.replicas,
            transmitted: stats.transmitted,
            to_cpu: stats.to_cpu,
            consumed: stats.consumed,
            queued: stats.queued,
            drops: stats.drops.clone(),
        }
    }

    /// Adds those of another switch or life.
    pub fn add(&mut self, o: &Tally) {
        self.received += o.received;
        self.received_from_cpu += o.received_from_cpu;
        self.made += o.made;
        self.transmitted += o.transmitted;
        self.to_cpu += o.to_cpu;
        self.consumed += o.consumed;
        self.queued += o.queued;
        for (reason, n) in &o.drops {
            *self.drops.entry(*reason).or_default() += n;
        }
    }

    /// Packets dropped, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }
}

impl<E: Executor> World<E> {
    /// A switch loses power or gets it.
    pub(super) fn set_power(&mut self, switch: usize, on: bool) {
        match (self.switches[switch].on, on) {
            (true, false) => self.power_off(switch),
            (false, true) => self.power_on(switch),
            _ => {}
        }
    }

    fn power_off(&mut self, switch: usize) {
        self.switches[switch].on = false;
        let change = self.lines.power(switch, None);
        self.lines_changed(change);
        self.lose_controller(switch);
    }

    fn power_on(&mut self, switch: usize) {
        let (node, server) = match (self.boot)(self.lives) {
            Ok(new) => new,
            // It did start before: this one stays without power.
            Err(message) => return self.control.tell(switch, message),
        };
        let its = &mut self.switches[switch];
        its.past = its.tally();
        (its.node, its.on) = (node, true);
        self.control.replace_server(switch, server);
        let change = self.lines.power(switch, Some(self.lives));
        self.lives = self.lives.wrapping_add(1);
        self.lines_changed(change);
        self.checker.moved(self.now);
    }

    /// Accounts for what happened when links lost or got their carrier.
    pub(super) fn lines_changed(&mut self, change: Change) {
        for packet in change.lost {
            self.lost_on_link(packet);
        }
        if change.moved {
            self.checker.moved(self.now);
        }
    }
}
