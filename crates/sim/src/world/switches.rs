//! The switches of the rack: their power, and the packets that they counted.

use super::World;
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::error::StartError;
use crate::random::{Part, Stream};
use pointsman_balance::Rack;
use pointsman_ir::Executor;
use pointsman_topology::SwitchId;
use pointsman_v1model::{Stats, Switch, SwitchConfig};
use std::sync::Arc;

/// Makes a switch without state, and its P4Runtime server, for a life with this number.
pub(super) type Boot<E> = Box<dyn Fn(u16) -> Result<(Switch<E>, ControlPlane), StartError> + Send + Sync>;

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
        let switch = Switch::with_shared(config, shared)?;
        Ok((switch, ControlPlane::new(device_id, compiled.clone())))
    })
}

/// The power of a switch of the rack.
pub(super) struct Power {
    pub on: bool,
    /// The packets of its former lives.
    past: Stats,
}

impl Power {
    /// A switch in its first life.
    pub fn new() -> Self {
        Power { on: true, past: Stats::default() }
    }
}

impl<E: Executor> World<E> {
    /// The packets of all lives of a switch.
    pub(super) fn stats(&mut self, switch: usize) -> Stats {
        let mut all = self.switches[switch].past.clone();
        all.add(self.network.switch(SwitchId(switch as u32)).stats());
        all
    }

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
        self.lines_powered(switch, None);
        self.lose_controller(switch);
    }

    fn power_on(&mut self, switch: usize) {
        let (new, server) = match (self.boot)(self.lives) {
            Ok(new) => new,
            // It did start before: this one stays without power.
            Err(e) => return self.control.tell(switch, e.to_string()),
        };
        self.switches[switch] = Power { on: true, past: self.stats(switch) };
        *self.network.switch(SwitchId(switch as u32)) = new;
        self.control.channels[switch].replace_server(server);
        self.lines_powered(switch, Some(self.lives));
        self.lives = self.lives.wrapping_add(1);
        self.checker.moved(self.network.now());
    }
}
