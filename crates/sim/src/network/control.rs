//! The controller of the network, and the control planes of its switches. Messages take time, nothing else.

use super::NetworkScenario;
use crate::control_plane::{self, Channel, ControlPlane, Told};
use crate::data_plane::DataPlane;
use crate::error::StartError;
use pointsman_control::proto::p4rt::{Entity, ReadRequest};
use pointsman_fabric::{Action, Book, Controller, Input, Quantity, Tally, tallies};
use pointsman_ir::Executor;
use pointsman_session::{Request, Response};
use pointsman_topology::SwitchId;
use pointsman_v1model::Switch;
use std::collections::BTreeMap;
use std::time::Duration;

/// How switches are called in requests.
const DEVICE: u64 = 1;

/// A message that will arrive after the control delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sent {
    ToSwitch(SwitchId),
    ToController(SwitchId),
}

/// The controller with its sessions.
pub(super) struct Control {
    controller: Controller,
    channels: Vec<Channel>,
    /// The scheme's counters, each with the question for it.
    tallies: Vec<(Tally, Entity)>,
    pub told: Told,
}

impl Control {
    pub fn new<E>(scenario: &NetworkScenario, data_plane: &DataPlane<E>) -> Result<Self, StartError> {
        let NetworkScenario { topology, choice, control_delay_ns, .. } = scenario;
        let DataPlane { program, compiled, .. } = data_plane;
        let address = |s: SwitchId| format!("switch {}", s.0);
        let controller = Controller::new(topology.clone(), choice.clone(), program, address, 0)
            .map_err(StartError::Fabric)?;
        let channel = |_| Channel::new(ControlPlane::new(DEVICE, compiled.clone()), *control_delay_ns);
        let channels = topology.switches().iter().map(channel).collect();
        let tallies = tallies(choice.scheme, &Book::new(&program.p4info)).map_err(StartError::Tally)?;
        Ok(Control { controller, channels, tallies, told: Told::default() })
    }

    /// Adds the scheme's counters in a switch to sums.
    pub fn tally<E: Executor>(
        &mut self,
        now: u64,
        id: SwitchId,
        switch: &mut Switch<E>,
        sums: &mut BTreeMap<Quantity, u64>,
    ) {
        let channel = &mut self.channels[id.0 as usize];
        for (tally, entity) in &self.tallies {
            let question =
                ReadRequest { device_id: DEVICE, entities: vec![entity.clone()], ..Default::default() };
            if let Ok(Response::Read(answer)) = channel.serve(now, switch, &Request::Read(question)) {
                *sums.entry(tally.quantity).or_default() += answer.iter().map(|a| tally.of(a)).sum::<u64>();
            }
        }
    }

    /// Whether all switches hold what they have to.
    pub fn in_sync(&self) -> bool {
        self.controller.in_sync()
    }

    /// When the controller is to be stepped without input.
    pub fn deadline(&self) -> Option<u64> {
        self.controller.next_deadline().map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Steps the controller: the messages that it sends.
    pub fn step(&mut self, now: u64, input: Input) -> Vec<Sent> {
        let actions = self.controller.step(Duration::from_nanos(now), input);
        actions.into_iter().filter_map(|action| self.act(now, action)).collect()
    }

    fn act(&mut self, now: u64, (switch, output): Action) -> Option<Sent> {
        let told = &mut self.told;
        let message = output.hand_over(|event| told.add(format!("switch {}: {event:?}", switch.0)))?;
        self.channels[switch.0 as usize].send(now, message).then_some(Sent::ToSwitch(switch))
    }

    /// Updates in all write requests that have reached switches.
    pub fn writes(&self) -> u64 {
        self.channels.iter().map(Channel::writes).sum()
    }

    /// A message reaches a switch.
    pub fn at_switch<E: Executor>(
        &mut self,
        now: u64,
        id: SwitchId,
        switch: &mut Switch<E>,
    ) -> control_plane::Sent {
        self.channels[id.0 as usize].at_switch(now, Some(switch))
    }

    /// A packet from a switch to the controller: how many messages it becomes. None while no controller is there.
    pub fn packet_in(&mut self, now: u64, switch: SwitchId, packet: &[u8]) -> usize {
        self.channels[switch.0 as usize].packet_in(now, packet).map_or(0, |sent| sent.answers)
    }

    /// A message reaches the controller. Nothing is there if the connection was given up meanwhile.
    pub fn at_controller(&mut self, now: u64, switch: SwitchId) -> Vec<Sent> {
        match self.channels[switch.0 as usize].at_controller(now) {
            Some(input) => self.step(now, Input::Session(switch, input)),
            None => Vec::new(),
        }
    }
}
