//! The controllers, and their connections to the switches.

use super::{Event, World};
use crate::control_plane::{Channel, ControlPlane, Sent, Told};
use crate::error::StartError;
use pointsman_balance::controller::{self, Controllers, Program};
use pointsman_ir::Executor;
use pointsman_topology::SwitchId;
use std::time::Duration;

/// Controllers of all switches, with a channel to each.
pub(super) struct Control {
    pub controllers: Controllers,
    pub channels: Vec<Channel>,
    /// When the controllers are to be stepped without input.
    tick_at: u64,
    pub told: Told,
}

pub(super) fn duration(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

pub(super) fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Control {
    pub fn new(
        rack: &pointsman_balance::Rack,
        program: &Program,
        servers: Vec<ControlPlane>,
        delay_ns: u64,
    ) -> Result<Self, StartError> {
        Ok(Control {
            controllers: Controllers::new(rack.clone(), program.clone()).map_err(StartError::Controller)?,
            channels: servers.into_iter().map(|server| Channel::new(server, delay_ns)).collect(),
            tick_at: u64::MAX,
            told: Told::default(),
        })
    }

    /// Keeps a message of a switch's controller.
    pub fn tell(&mut self, switch: usize, message: String) {
        let one = self.channels.len() == 1;
        self.told.add(if one { message } else { format!("switch {}: {message}", switch + 1) });
    }
}

impl<E: Executor> World<E> {
    /// Something for the controllers at once: their operator's wish.
    pub(super) fn controller_input(&mut self, input: controller::Input) {
        self.controller_message(0, input);
    }

    /// The same, or a message of this switch.
    fn controller_message(&mut self, switch: usize, input: controller::Input) {
        let now = self.network.now();
        let control = &mut self.control;
        for (switch, output) in control.controllers.step(duration(now), switch, input) {
            let message = output.hand_over(|event| control.tell(switch, event.to_string()));
            let channel = &mut control.channels[switch];
            if message.is_some_and(|message| channel.send(now, message)) {
                self.network.enter(channel.arrival(now), Event::AtSwitch(switch as u32));
            }
        }
        if let Some(at) = control.controllers.next_deadline().map(|d| nanos(d).max(now))
            && (at < control.tick_at || control.tick_at <= now)
        {
            control.tick_at = at;
            self.network.enter(at, Event::Tick);
        }
    }

    pub(super) fn controller_tick(&mut self) {
        // A tick that was overtaken by an earlier one is not to be followed.
        if self.control.tick_at == self.network.now() {
            self.control.tick_at = u64::MAX;
            self.controller_input(controller::Input::Tick);
        }
    }

    pub(super) fn at_controller(&mut self, switch: usize) {
        if let Some(input) = self.control.channels[switch].at_controller(self.network.now()) {
            self.controller_message(switch, input.into());
        }
    }

    pub(super) fn at_switch(&mut self, switch: usize) {
        let (now, on) = (self.network.now(), self.switches[switch].on);
        let its = on.then(|| self.network.switch(SwitchId(switch as u32)));
        let sent = self.control.channels[switch].at_switch(now, its);
        self.control_sends(switch, sent);
    }

    /// The control plane of a switch sends messages to its controller, and packets to the switch.
    fn control_sends(&mut self, switch: usize, sent: Sent) {
        let at = self.control.channels[switch].arrival(self.network.now());
        for _ in 0..sent.answers {
            self.network.enter(at, Event::AtController(switch as u32));
        }
        for packet in sent.packets {
            self.network.from_cpu(SwitchId(switch as u32), &packet, &mut self.tally);
            self.take_packet_ins();
        }
    }

    /// A switch hands a packet to its control plane.
    pub(super) fn packet_in(&mut self, switch: usize, packet: &[u8]) {
        match self.control.channels[switch].packet_in(self.network.now(), packet) {
            Ok(sent) => self.control_sends(switch, sent),
            // Without a client: as on the wire, it is lost, and was counted as handed over.
            Err(_) => self.tally.lost_packet_ins += 1,
        }
    }

    /// A switch lost power: its controller notices.
    pub(super) fn lose_controller(&mut self, switch: usize) {
        let sent = self.control.channels[switch].lose_power(self.network.now());
        self.control_sends(switch, sent);
    }
}
