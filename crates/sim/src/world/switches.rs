//! The switches of the rack: their power, and the packets that they counted.

use super::World;
use super::lines::Change;
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::random::{Part, Stream};
use pointsman_balance::Rack;
use pointsman_ir::Executor;
use pointsman_net::Node;
use pointsman_v1model::{Stats, Switch, SwitchConfig};
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
    past: Stats,
}

impl<E: Executor> RackSwitch<E> {
    /// A switch in its first life.
    pub fn new(node: Node<E>) -> Self {
        RackSwitch { node, on: true, past: Stats::default() }
    }

    /// The packets of all its lives.
    pub fn stats(&mut self) -> Stats {
        let mut all = self.past.clone();
        all.add(self.node.switch.stats());
        all
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
        its.past = its.stats();
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
