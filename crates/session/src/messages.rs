//! What goes into a session, and what comes out.

use crate::election::{ElectionId, Leader};
use pointsman_control::proto::{p4info::P4Info, p4rt};
use pointsman_control::{Code, RpcError};
use std::time::Duration;

/// The data plane to install.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The program's description.
    pub p4info: P4Info,
    /// The pipeline configuration for the switch: for Pointsman's switch, the P4 source with all its includes.
    pub device_config: Vec<u8>,
}

/// Which switch a session is with, and how it becomes primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// The switch's P4Runtime address, as `host:port`.
    pub address: String,
    /// The switch's P4Runtime device id.
    pub device_id: u64,
    /// The lowest term of the session's election ids.
    pub election_id: u64,
    /// Whether to take the switch from clients that are not Pointsman's.
    pub preempt: bool,
}

impl SessionConfig {
    /// Whether both are about one switch.
    pub fn same_switch(&self, other: &SessionConfig) -> bool {
        self.address == other.address && self.device_id == other.device_id
    }
}

/// A session's state, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No connection.
    Disconnected,
    /// Connected; another client is primary.
    Backup,
    /// Connected; arbitrating, installing the program, or waiting after a failure.
    Working,
    /// Primary, and the program runs.
    Ready,
}

/// A session's input. Input from a lost connection is ignored.
#[derive(Debug)]
pub enum Input {
    /// Nothing but the time. Only with this input are elapsed deadlines handled.
    Tick,
    /// The connection is up and its stream channel open.
    Connected,
    /// The connection could not be made, or is lost.
    Disconnected(String),
    /// A message of the stream channel.
    Stream(p4rt::StreamMessageResponse),
    /// The answer to a request.
    Response {
        /// The request's.
        id: u64,
        /// The result.
        result: Result<Response, RpcError>,
    },
}

/// An action that a session, or the controller that owns it, requests; `E` are its events.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<E> {
    /// Connect to `host:port` and open the stream channel; an older connection is given up.
    Connect(String),
    /// Give up the connection. No `Disconnected` is expected for it.
    Disconnect,
    /// Send a message on the stream channel.
    Send(p4rt::StreamMessageRequest),
    /// Make a request and answer with the same id.
    Request {
        /// Never used twice.
        id: u64,
        /// The request.
        request: Request,
    },
    /// Notify the operator, or the session's owner.
    Event(E),
}

impl<E> Output<E> {
    /// Hands over an event; returns any other output as one of an owner with events of its own.
    pub fn hand_over<F>(self, event: impl FnOnce(E)) -> Option<Output<F>> {
        match self {
            Output::Event(e) => {
                event(e);
                None
            }
            Output::Connect(address) => Some(Output::Connect(address)),
            Output::Disconnect => Some(Output::Disconnect),
            Output::Send(message) => Some(Output::Send(message)),
            Output::Request { id, request } => Some(Output::Request { id, request }),
        }
    }
}

/// A unary (or, for `Read`, server-streaming) request of P4Runtime.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // named as in the specification
pub enum Request {
    GetPipeline(p4rt::GetForwardingPipelineConfigRequest),
    SetPipeline(Box<p4rt::SetForwardingPipelineConfigRequest>),
    Read(p4rt::ReadRequest),
    Write(p4rt::WriteRequest),
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// To `GetPipeline`.
    GetPipeline(Box<p4rt::GetForwardingPipelineConfigResponse>),
    /// To `SetPipeline`.
    SetPipeline,
    /// To `Read`: the entities of all messages.
    Read(Vec<p4rt::Entity>),
    /// To `Write`.
    Write,
}

impl Response {
    /// The entities that were read.
    ///
    /// # Errors
    /// It is the answer to another kind of request.
    pub fn entities(self) -> Result<Vec<p4rt::Entity>, RpcError> {
        match self {
            Response::Read(entities) => Ok(entities),
            _ => Err(wrong()),
        }
    }

    /// Confirms a write.
    ///
    /// # Errors
    /// It is the answer to another kind of request.
    pub fn written(self) -> Result<(), RpcError> {
        if self == Response::Write { Ok(()) } else { Err(wrong()) }
    }

    /// The cookie of the program that runs.
    pub(crate) fn cookie(self) -> Result<Option<u64>, RpcError> {
        match self {
            Response::GetPipeline(r) => Ok(r.config.and_then(|c| c.cookie).map(|c| c.cookie)),
            _ => Err(wrong()),
        }
    }

    /// Confirms an installation.
    pub(crate) fn installed(self) -> Result<(), RpcError> {
        if self == Response::SetPipeline { Ok(()) } else { Err(wrong()) }
    }
}

fn wrong() -> RpcError {
    RpcError::new(Code::Internal, "the answer is to another kind of request")
}

/// Something that an operator may want to know of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is being made.
    Connecting {
        /// `host:port`.
        address: String,
    },
    /// The connection is lost.
    ConnectionLost {
        /// Why.
        reason: String,
        /// When the next one is made.
        retry_in: Duration,
    },
    /// The session is the switch's primary.
    Primary {
        /// With this id.
        id: ElectionId,
    },
    /// Another client is the primary.
    Backup {
        /// That client.
        leader: Leader,
    },
    /// The session will ask to become primary.
    Bidding {
        /// The present primary.
        leader: Leader,
        /// When.
        wait: Duration,
    },
    /// The mandate does not suffice for this switch: it has seen a higher id, or the same one.
    Outranked {
        /// The highest id that it has seen.
        highest: ElectionId,
    },
    /// A request of the session's own failed; it begins again after a while.
    Failed {
        /// The request, such as "installing the program".
        what: &'static str,
        /// Why.
        error: RpcError,
    },
}

/// A message to the owner of a session, whose requests have purposes of type `P`.
#[derive(Debug)]
pub enum Notice<P> {
    /// For the operator.
    Event(Event),
    /// Another client has been primary since this session was: it may have changed anything.
    Superseded,
    /// The session is primary, and the program runs: the owner may make requests.
    Ready {
        /// The program was installed just now, and the switch holds nothing else; otherwise it was running.
        installed: bool,
    },
    /// The session was ready and now is not. The owner's requests in flight remain unanswered.
    Interrupted,
    /// The answer to a request of the owner.
    Answer {
        /// The request's.
        purpose: P,
        /// The result.
        result: Result<Response, RpcError>,
    },
    /// Any message of the stream channel except those on arbitration, at any time: packets, digests, errors.
    Message(p4rt::stream_message_response::Update),
}
