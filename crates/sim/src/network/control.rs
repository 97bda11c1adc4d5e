//! The controller of the network, and the control planes of its switches. Messages take time, nothing else.

use crate::control_plane::{CONNECTION, ControlPlane};
use crate::data_plane::DataPlane;
use pointsman_control::Output as ServerOutput;
use pointsman_control::proto::p4rt::{Entity, ReadRequest};
use pointsman_fabric::{Action, Book, Choice, Controller, Input, Quantity, Tally, tallies};
use pointsman_ir::Executor;
use pointsman_session::{Input as SessionInput, Output, Request, Response};
use pointsman_topology::{SwitchId, Topology};
use pointsman_v1model::{Switch, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How switches are called in requests.
const DEVICE: u64 = 1;

/// A message on its way to a switch.
enum Question {
    Connect,
    Message(Box<pointsman_control::proto::p4rt::StreamMessageRequest>),
    Request(u64, Request),
}

/// One switch's part.
struct Line {
    plane: ControlPlane,
    to_switch: VecDeque<Question>,
    to_controller: VecDeque<SessionInput>,
}

/// A message that will arrive after the control delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sent {
    ToSwitch(SwitchId),
    ToController(SwitchId),
}

/// The controller with its sessions.
pub(super) struct Control {
    controller: Controller,
    lines: Vec<Line>,
    /// Updates in all write requests that have reached switches.
    pub writes: u64,
    /// The scheme's counters, each with the question for it.
    tallies: Vec<(Tally, Entity)>,
    /// Its last messages to the operator.
    pub told: VecDeque<String>,
}

const TOLD: usize = 8;

impl Control {
    pub fn new<E>(topology: &Topology, choice: &Choice, data_plane: &DataPlane<E>) -> Result<Self, String> {
        let DataPlane { program, compiled, .. } = data_plane;
        let address = |s: SwitchId| format!("switch {}", s.0);
        let controller =
            Controller::new(topology.clone(), choice.clone(), program, address).map_err(|e| e.to_string())?;
        let line = |_| {
            let plane = ControlPlane::new(DEVICE, compiled.clone())?;
            Ok(Line { plane, to_switch: VecDeque::new(), to_controller: VecDeque::new() })
        };
        let lines = topology.switches().iter().map(line).collect::<Result<_, String>>()?;
        let tallies = tallies(choice.scheme, &Book::new(&program.p4info)).map_err(|e| e.to_string())?;
        Ok(Control { controller, lines, writes: 0, tallies, told: VecDeque::new() })
    }

    /// Adds the scheme's counters in a switch to sums.
    pub fn tally<E: Executor>(
        &mut self,
        now: u64,
        id: SwitchId,
        switch: &mut Switch<E>,
        sums: &mut BTreeMap<Quantity, u64>,
    ) {
        let plane = &mut self.lines[id.0 as usize].plane;
        for (tally, entity) in &self.tallies {
            let question =
                ReadRequest { device_id: DEVICE, entities: vec![entity.clone()], ..Default::default() };
            if let Ok(Response::Read(answer)) = plane.serve(switch, Time(now), &Request::Read(question)) {
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
        actions.into_iter().filter_map(|action| self.act(action)).collect()
    }

    fn act(&mut self, (switch, output): Action) -> Option<Sent> {
        let line = &mut self.lines[switch.0 as usize];
        let question = match output {
            Output::Connect(_) => Question::Connect,
            Output::Send(message) => Question::Message(Box::new(message)),
            Output::Request { id, request } => Question::Request(id, request),
            Output::Disconnect => {
                line.to_switch.clear();
                line.to_controller.clear();
                return None;
            }
            Output::Event(event) => {
                if self.told.len() == TOLD {
                    self.told.pop_front();
                }
                self.told.push_back(format!("switch {}: {event:?}", switch.0));
                return None;
            }
        };
        line.to_switch.push_back(question);
        Some(Sent::ToSwitch(switch))
    }

    /// A message reaches a switch: how many answers it sends, and the packets that it puts out.
    pub fn at_switch<E: Executor>(
        &mut self,
        now: u64,
        id: SwitchId,
        switch: &mut Switch<E>,
    ) -> (usize, Vec<Vec<u8>>) {
        let line = &mut self.lines[id.0 as usize];
        let before = line.to_controller.len();
        let mut packets = Vec::new();
        match line.to_switch.pop_front() {
            None => {}
            Some(Question::Connect) => line.to_controller.push_back(SessionInput::Connected),
            Some(Question::Request(id, request)) => {
                if let Request::Write(write) = &request {
                    self.writes += write.updates.len() as u64;
                }
                let result = line.plane.serve(switch, Time(now), &request);
                line.to_controller.push_back(SessionInput::Response { id, result });
            }
            Some(Question::Message(message)) => {
                for output in line.plane.server.stream_message(CONNECTION, &message) {
                    match output {
                        ServerOutput::Send { response, .. } => {
                            line.to_controller.push_back(SessionInput::Stream(response));
                        }
                        ServerOutput::Close { error, .. } => {
                            line.to_controller.push_back(SessionInput::Disconnected(error.to_string()));
                        }
                        ServerOutput::PacketOut { packet } => packets.push(packet),
                    }
                }
            }
        }
        (line.to_controller.len() - before, packets)
    }

    /// A packet from a switch to the controller: how many messages it becomes. None while no controller is there.
    pub fn packet_in(&mut self, switch: SwitchId, packet: &[u8]) -> usize {
        let line = &mut self.lines[switch.0 as usize];
        let messages = line.plane.server.packet_in(packet).unwrap_or_default();
        let before = line.to_controller.len();
        for output in messages {
            if let ServerOutput::Send { response, .. } = output {
                line.to_controller.push_back(SessionInput::Stream(response));
            }
        }
        line.to_controller.len() - before
    }

    /// A message reaches the controller. Nothing is there if the connection was given up meanwhile.
    pub fn at_controller(&mut self, now: u64, switch: SwitchId) -> Vec<Sent> {
        match self.lines[switch.0 as usize].to_controller.pop_front() {
            Some(input) => self.step(now, Input::Session(switch, input)),
            None => Vec::new(),
        }
    }
}
