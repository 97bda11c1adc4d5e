//! The control planes of switches in virtual time: P4Runtime servers, and controllers' connections to them.

use pointsman_control::proto::p4rt::StreamMessageRequest;
use pointsman_control::{ConnId, PacketInError, RpcError, Server, ServerConfig, SwitchDevice};
use pointsman_ir::Executor;
use pointsman_session::{Input, Output, Request, Response};
use pointsman_v1model::{Switch, Time};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

/// The only client.
const CONNECTION: ConnId = ConnId(1);

/// The P4Runtime server of a switch that always runs the same program.
pub(crate) struct ControlPlane {
    server: Server,
    program: Arc<pointsman_ir::Program>,
    /// Updates in all write requests so far.
    writes: u64,
}

impl ControlPlane {
    /// A server without clients; `program` is what every pipeline configuration compiles to.
    pub fn new(device_id: u64, program: Arc<pointsman_ir::Program>) -> Self {
        let config = ServerConfig { device_id, ..ServerConfig::default() };
        ControlPlane { server: Server::new(config), program, writes: 0 }
    }

    /// Serves one request.
    pub fn serve<E: Executor>(
        &mut self,
        switch: &mut Switch<E>,
        now: Time,
        request: &Request,
    ) -> Result<Response, RpcError> {
        let program = &self.program;
        let mut device = SwitchDevice { switch, compile: |_: &[u8]| Ok(program.as_ref().clone()) };
        if let Request::Write(r) = request {
            self.writes += r.updates.len() as u64;
        }
        request.serve(&mut self.server, &mut device, now)
    }
}

/// A message on its way to a switch.
enum Question {
    Connect,
    Message(Box<StreamMessageRequest>),
    Request { id: u64, request: Request },
}

/// A switch's server and its controller's connection to it: messages take time, nothing else. For each message the owner of a channel
/// enters an event, at the time when the message arrives.
pub(crate) struct Channel {
    server: ControlPlane,
    /// The server knows of the connection.
    connected: bool,
    /// One way, in nanoseconds.
    delay_ns: u64,
    to_switch: VecDeque<(u64, Question)>,
    to_controller: VecDeque<(u64, Input)>,
}

/// What a switch sends.
#[derive(Default)]
pub(crate) struct Sent {
    /// Messages on their way to the controller.
    pub answers: usize,
    /// Packets that the switch takes in from its control plane at once.
    pub packets: Vec<Vec<u8>>,
}

/// Takes the message that arrives now: of a connection that was given up, none does.
fn arriving<T>(queue: &mut VecDeque<(u64, T)>, now: u64) -> Option<T> {
    queue.front().filter(|(at, _)| *at == now)?;
    queue.pop_front().map(|(_, message)| message)
}

impl Channel {
    /// The controller is not connected.
    pub fn new(server: ControlPlane, delay_ns: u64) -> Self {
        let (to_switch, to_controller) = (VecDeque::new(), VecDeque::new());
        Channel { server, connected: false, delay_ns, to_switch, to_controller }
    }

    /// When a message arrives that is sent now.
    pub fn arrival(&self, now: u64) -> u64 {
        now + self.delay_ns
    }

    /// Updates in all write requests that have reached the switch.
    pub fn writes(&self) -> u64 {
        self.server.writes
    }

    /// Serves the request of another client, at once.
    pub fn serve<E: Executor>(
        &mut self,
        now: u64,
        switch: &mut Switch<E>,
        request: &Request,
    ) -> Result<Response, RpcError> {
        self.server.serve(switch, Time(now), request)
    }

    /// Does what the controller wants. Whether a message is on its way to the switch.
    pub fn send(&mut self, now: u64, output: Output<Infallible>) -> bool {
        let question = match output {
            Output::Connect(_) => Question::Connect,
            Output::Send(message) => Question::Message(Box::new(message)),
            Output::Request { id, request } => Question::Request { id, request },
            Output::Disconnect => {
                self.to_switch.clear();
                self.to_controller.clear();
                return false;
            }
            Output::Event(never) => match never {},
        };
        self.to_switch.push_back((self.arrival(now), question));
        true
    }

    fn answer(&mut self, now: u64, input: Input) -> Sent {
        self.to_controller.push_back((self.arrival(now), input));
        Sent { answers: 1, packets: Vec::new() }
    }

    /// A message may reach the switch; `None`: that has no power.
    pub fn at_switch<E: Executor>(&mut self, now: u64, switch: Option<&mut Switch<E>>) -> Sent {
        match (arriving(&mut self.to_switch, now), switch) {
            (None, _) => Sent::default(),
            (Some(Question::Connect), Some(_)) => {
                self.connected = true;
                self.answer(now, Input::Connected)
            }
            (Some(Question::Connect), None) => {
                self.answer(now, Input::Disconnected("the switch has no power".into()))
            }
            (Some(Question::Message(message)), Some(_)) if self.connected => {
                let outputs = self.server.server.stream_message(CONNECTION, &message);
                self.outputs(now, outputs)
            }
            (Some(Question::Request { id, request }), Some(switch)) if self.connected => {
                let result = self.server.serve(switch, Time(now), &request);
                self.answer(now, Input::Response { id, result })
            }
            // Sent before the loss of power was known.
            (Some(_), _) => Sent::default(),
        }
    }

    fn outputs(&mut self, now: u64, outputs: Vec<pointsman_control::Output>) -> Sent {
        let mut sent = Sent::default();
        for output in outputs {
            let input = match output {
                pointsman_control::Output::Send { response, .. } => Input::Stream(response),
                pointsman_control::Output::Close { error, .. } => Input::Disconnected(error.to_string()),
                pointsman_control::Output::PacketOut { packet } => {
                    sent.packets.push(packet);
                    continue;
                }
            };
            sent.answers += self.answer(now, input).answers;
        }
        sent
    }

    /// The switch hands a packet to its control plane.
    ///
    /// # Errors
    /// No client gets it.
    pub fn packet_in(&mut self, now: u64, packet: &[u8]) -> Result<Sent, PacketInError> {
        let outputs = self.server.server.packet_in(packet)?;
        Ok(self.outputs(now, outputs))
    }

    /// The message that reaches the controller now.
    pub fn at_controller(&mut self, now: u64) -> Option<Input> {
        arriving(&mut self.to_controller, now)
    }

    /// The switch loses power, and its controller notices.
    pub fn lose_power(&mut self, now: u64) -> Sent {
        self.connected = false;
        self.to_switch.clear();
        self.answer(now, Input::Disconnected("the switch lost power".into()))
    }

    /// The switch has power again: this server has no clients.
    pub fn replace_server(&mut self, server: ControlPlane) {
        self.server = server;
    }
}

/// The last messages of controllers to their operator, one a line.
#[derive(Debug, Default)]
pub struct Told(VecDeque<String>);

impl Told {
    const MOST: usize = 8;

    /// Keeps a message.
    pub fn add(&mut self, message: String) {
        if self.0.len() == Told::MOST {
            self.0.pop_front();
        }
        self.0.push_back(message);
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|message| write!(f, "\n  {message}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_engine::Engine;
    use pointsman_v1model::SwitchConfig;

    fn channel() -> (Channel, Switch<Engine>) {
        let server = ControlPlane::new(1, Arc::default());
        (Channel::new(server, 10), Switch::new(SwitchConfig::default()).expect("a switch"))
    }

    fn request() -> Output<Infallible> {
        Output::Request { id: 1, request: Request::GetPipeline(Default::default()) }
    }

    /// Messages arrive at their time, and only over a connection that both sides have.
    #[test]
    fn messages() {
        let (mut channel, mut switch) = channel();
        let mut sends_at = |channel: &mut Channel, now| channel.at_switch(now, Some(&mut switch)).answers;
        assert!(channel.send(0, Output::Connect(String::new())) && channel.send(1, request()));
        assert_eq!([9, 10, 11, 12].map(|now| sends_at(&mut channel, now)), [0, 1, 1, 0]);
        assert!(channel.at_controller(19).is_none());
        assert!(matches!(channel.at_controller(20), Some(Input::Connected)));
        assert!(matches!(channel.at_controller(21), Some(Input::Response { id: 1, result: Err(_) })));

        // The switch loses power with a request under way, and has it again when the next one arrives.
        assert!(channel.send(30, request()));
        assert_eq!(channel.lose_power(35).answers, 1);
        assert!(channel.send(36, request()));
        assert_eq!([40, 46].map(|now| sends_at(&mut channel, now)), [0, 0]);
        assert!(matches!(channel.at_controller(45), Some(Input::Disconnected(_))));

        // A connection that is given up takes its messages with it.
        assert!(channel.send(50, Output::Connect(String::new())) && channel.send(50, request()));
        assert_eq!([60, 60].map(|now| sends_at(&mut channel, now)), [1, 1]);
        assert!(channel.send(61, request()) && !channel.send(62, Output::Disconnect));
        assert!(sends_at(&mut channel, 71) == 0 && channel.at_controller(70).is_none());
    }
}
