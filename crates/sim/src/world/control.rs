//! The controllers, and the P4Runtime servers of the switches that they talk to. Messages take time, nothing else.

use super::{Event, World};
use crate::control_plane::{CONNECTION, ControlPlane};
use pointsman_balance::controller::{self, Controllers, Output, Program, Request, Response};
use pointsman_ir::Executor;
use pointsman_topology::SwitchId;
use pointsman_v1model::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A message on its way to a switch.
enum Question {
    /// Of the learner of this class of servers, which only reads.
    Learner(usize, Request),
    Connect,
    Message(Box<pointsman_control::proto::p4rt::StreamMessageRequest>),
    Request {
        id: u64,
        request: Request,
    },
}

/// A switch's server, and the messages between it and the controller, each with the time when it arrives.
struct Side {
    server: ControlPlane,
    /// The server knows of the connection: it was made in this life of the switch.
    connected: bool,
    to_switch: VecDeque<(u64, Question)>,
    to_controller: VecDeque<(u64, controller::Input)>,
}

/// Controllers of all switches, servers, and the messages between them.
pub(super) struct Control {
    pub controllers: Controllers,
    sides: Vec<Side>,
    delay_ns: u64,
    /// When the controllers are to be stepped without input.
    tick_at: u64,
    /// Their messages, newest last; a limited number.
    pub told: VecDeque<String>,
}

const TOLD: usize = 8;

pub(super) fn duration(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

pub(super) fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Side {
    fn new(server: ControlPlane) -> Self {
        Side { server, connected: false, to_switch: VecDeque::new(), to_controller: VecDeque::new() }
    }

    /// What is on its way to the switch is lost; a learner has a connection of its own.
    fn clear(&mut self) {
        self.to_switch.retain(|(_, question)| matches!(question, Question::Learner(..)));
    }
}

/// Takes the message that arrives now: of a connection that was given up, none does.
fn arriving<T>(queue: &mut VecDeque<(u64, T)>, now: u64) -> Option<T> {
    queue.front().filter(|(at, _)| *at == now)?;
    queue.pop_front().map(|(_, message)| message)
}

impl Control {
    pub fn new(
        rack: &pointsman_balance::Rack,
        program: &Program,
        servers: Vec<ControlPlane>,
        delay_ns: u64,
    ) -> Result<Self, String> {
        Ok(Control {
            controllers: Controllers::new(rack.clone(), program.clone())?,
            sides: servers.into_iter().map(Side::new).collect(),
            delay_ns,
            tick_at: u64::MAX,
            told: VecDeque::new(),
        })
    }

    /// Keeps a message of a switch's controller.
    pub fn tell(&mut self, switch: usize, message: String) {
        if self.told.len() == TOLD {
            self.told.pop_front();
        }
        let one = self.sides.len() == 1;
        self.told.push_back(if one { message } else { format!("switch {}: {message}", switch + 1) });
    }

    /// The switch has power again: its server has no clients.
    pub fn replace_server(&mut self, switch: usize, server: ControlPlane) {
        self.sides[switch].server = server;
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
        for (switch, output) in self.control.controllers.step(duration(now), switch, input) {
            let question = match output {
                Output::Connect(_) => Question::Connect,
                Output::Disconnect => {
                    self.control.sides[switch].clear();
                    self.control.sides[switch].to_controller.clear();
                    continue;
                }
                Output::Send(message) => Question::Message(Box::new(message)),
                Output::Request { id, request } => Question::Request { id, request },
                Output::Event(event) => {
                    self.control.tell(switch, event.to_string());
                    continue;
                }
            };
            self.ask(switch, question);
        }
        let control = &mut self.control;
        if let Some(at) = control.controllers.next_deadline().map(|d| nanos(d).max(now))
            && (at < control.tick_at || control.tick_at <= now)
        {
            control.tick_at = at;
            self.network.enter(at, Event::Tick);
        }
    }

    /// Sends a switch something.
    fn ask(&mut self, switch: usize, question: Question) {
        let at = self.network.now() + self.control.delay_ns;
        self.control.sides[switch].to_switch.push_back((at, question));
        self.network.enter(at, Event::AtSwitch(switch as u32));
    }

    /// A learner asks something: of the only switch.
    pub(super) fn learner_asks(&mut self, class: usize, request: Request) {
        self.ask(0, Question::Learner(class, request));
    }

    pub(super) fn controller_tick(&mut self) {
        // A tick that was overtaken by an earlier one is not to be followed.
        if self.control.tick_at == self.network.now() {
            self.control.tick_at = u64::MAX;
            self.controller_input(controller::Input::Tick);
        }
    }

    pub(super) fn at_controller(&mut self, switch: usize) {
        if let Some(input) = arriving(&mut self.control.sides[switch].to_controller, self.network.now()) {
            self.controller_message(switch, input);
        }
    }

    fn answer(&mut self, switch: usize, input: controller::Input) {
        let at = self.network.now() + self.control.delay_ns;
        self.control.sides[switch].to_controller.push_back((at, input));
        self.network.enter(at, Event::AtController(switch as u32));
    }

    /// A switch lost power: its controller notices.
    pub(super) fn lose_controller(&mut self, switch: usize) {
        let side = &mut self.control.sides[switch];
        side.connected = false;
        side.clear();
        self.answer(switch, controller::Input::Disconnected("the switch lost power".into()));
    }

    pub(super) fn at_switch(&mut self, switch: usize) {
        let side = &mut self.control.sides[switch];
        let Some(question) = arriving(&mut side.to_switch, self.network.now()) else { return };
        let (on, now) = (self.switches[switch].on, Time(self.network.now()));
        let its = self.network.switch(SwitchId(switch as u32));
        match question {
            Question::Learner(class, request) => {
                // Values that could not be read are missing in the observation.
                let entities = match on.then(|| side.server.serve(its, now, &request)) {
                    Some(Ok(Response::Read(entities))) => entities,
                    _ => Vec::new(),
                };
                self.learner_answer(class, entities);
            }
            Question::Connect if on => {
                side.connected = true;
                self.answer(switch, controller::Input::Connected);
            }
            Question::Connect => {
                self.answer(switch, controller::Input::Disconnected("the switch has no power".into()));
            }
            // Sent before the loss of power was known.
            _ if !side.connected => {}
            Question::Message(message) => {
                let outputs = side.server.server.stream_message(CONNECTION, &message);
                self.server_outputs(switch, outputs);
            }
            Question::Request { id, request } => {
                let result = side.server.serve(its, now, &request);
                self.answer(switch, controller::Input::Response { id, result });
            }
        }
    }

    fn server_outputs(&mut self, switch: usize, outputs: Vec<pointsman_control::Output>) {
        for output in outputs {
            match output {
                pointsman_control::Output::Send { response, .. } => {
                    self.answer(switch, controller::Input::Stream(response));
                }
                pointsman_control::Output::Close { error, .. } => {
                    self.answer(switch, controller::Input::Disconnected(error.to_string()));
                }
                pointsman_control::Output::PacketOut { packet } => {
                    self.network.from_cpu(SwitchId(switch as u32), &packet, &mut self.tally);
                    self.take_packet_ins();
                }
            }
        }
    }

    /// A switch hands a packet to the control plane.
    pub(super) fn packet_in(&mut self, switch: usize, packet: &[u8]) {
        match self.control.sides[switch].server.server.packet_in(packet) {
            Ok(outputs) => self.server_outputs(switch, outputs),
            // Without a client: as on the wire, it is lost, and was counted as handed over.
            Err(_) => self.tally.lost_packet_ins += 1,
        }
    }
}
