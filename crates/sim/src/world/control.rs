//! The controller, and the P4Runtime server of the switch that it talks to. Messages take time, nothing else.

use super::{Event, World};
use crate::control_plane::{CONNECTION, ControlPlane};
use pointsman_balance::controller::{self, Controller, Output, Program, Request, Response};
use pointsman_ir::Executor;
use pointsman_v1model::Time;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A message on its way to the switch.
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

/// Controller, server, and the messages between them.
pub(super) struct Control {
    pub controller: Controller,
    server: ControlPlane,
    delay_ns: u64,
    to_switch: VecDeque<Question>,
    to_controller: VecDeque<controller::Input>,
    /// When the controller is to be stepped without input.
    tick_at: u64,
    /// Its messages, newest last; a limited number.
    pub told: VecDeque<String>,
}

const TOLD: usize = 8;

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
        compiled: Arc<pointsman_ir::Program>,
        delay_ns: u64,
    ) -> Result<Self, String> {
        Ok(Control {
            controller: Controller::new(rack.clone(), program.clone())?,
            server: ControlPlane::new(rack.switch.device_id, compiled)?,
            delay_ns,
            to_switch: VecDeque::new(),
            to_controller: VecDeque::new(),
            tick_at: u64::MAX,
            told: VecDeque::new(),
        })
    }

    /// A learner asks something.
    pub fn ask(&mut self, class: usize, request: Request) {
        self.to_switch.push_back(Question::Learner(class, request));
    }
}

impl<E: Executor> World<E> {
    /// Something for the controller at once: its operator's wish.
    pub(super) fn controller_input(&mut self, input: controller::Input) {
        let now = self.now;
        let control = &mut self.control;
        let outputs = control.controller.step(duration(now), input);
        for output in outputs {
            let question = match output {
                Output::Connect(_) => Question::Connect,
                Output::Disconnect => {
                    control.to_switch.clear();
                    control.to_controller.clear();
                    continue;
                }
                Output::Send(message) => Question::Message(Box::new(message)),
                Output::Request { id, request } => Question::Request { id, request },
                Output::Event(event) => {
                    if control.told.len() == TOLD {
                        control.told.pop_front();
                    }
                    control.told.push_back(event.to_string());
                    continue;
                }
            };
            control.to_switch.push_back(question);
            self.calendar.enter(now + control.delay_ns, Event::AtSwitch);
        }
        if let Some(at) = control.controller.next_deadline().map(|d| nanos(d).max(now))
            && (at < control.tick_at || control.tick_at <= now)
        {
            control.tick_at = at;
            self.calendar.enter(at, Event::Tick);
        }
    }

    pub(super) fn controller_tick(&mut self) {
        // A tick that was overtaken by an earlier one is not to be followed.
        if self.control.tick_at == self.now {
            self.control.tick_at = u64::MAX;
            self.controller_input(controller::Input::Tick);
        }
    }

    pub(super) fn at_controller(&mut self) {
        // Nothing is there if the connection was given up meanwhile.
        if let Some(input) = self.control.to_controller.pop_front() {
            self.controller_input(input);
        }
    }

    fn answer(&mut self, input: controller::Input) {
        self.control.to_controller.push_back(input);
        self.calendar.enter(self.now + self.control.delay_ns, Event::AtController);
    }

    pub(super) fn at_switch(&mut self) {
        let Some(question) = self.control.to_switch.pop_front() else { return };
        match question {
            Question::Learner(class, request) => {
                let now = Time(self.now);
                // Values that could not be read are missing in the observation.
                let entities = match self.control.server.serve(&mut self.node.switch, now, &request) {
                    Ok(Response::Read(entities)) => entities,
                    _ => Vec::new(),
                };
                self.learner_answer(class, entities);
            }
            Question::Connect => self.answer(controller::Input::Connected),
            Question::Message(message) => {
                let outputs = self.control.server.server.stream_message(CONNECTION, &message);
                self.server_outputs(outputs);
            }
            Question::Request { id, request } => {
                let now = Time(self.now);
                let result = self.control.server.serve(&mut self.node.switch, now, &request);
                self.answer(controller::Input::Response { id, result });
            }
        }
    }

    fn server_outputs(&mut self, outputs: Vec<pointsman_control::Output>) {
        for output in outputs {
            match output {
                pointsman_control::Output::Send { response, .. } => {
                    self.answer(controller::Input::Stream(response));
                }
                pointsman_control::Output::Close { error, .. } => {
                    self.answer(controller::Input::Disconnected(error.to_string()));
                }
                pointsman_control::Output::PacketOut { packet } => {
                    self.node.switch.receive_cpu(Time(self.now), &packet);
                    self.poll_switch();
                }
            }
        }
    }

    /// The switch hands a packet to the control plane.
    pub(super) fn packet_in(&mut self, packet: &[u8]) {
        match self.control.server.server.packet_in(packet) {
            Ok(outputs) => self.server_outputs(outputs),
            // Without a client: as on the wire, it is lost, and was counted as handed over.
            Err(_) => self.lost_packet_ins += 1,
        }
    }
}
