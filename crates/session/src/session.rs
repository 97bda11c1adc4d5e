//! Connection, mastership, pipeline, and the requests in flight.

use crate::election::{Decision, Election, ElectionId, Leader, Mandate};
use crate::messages::{Event, Input, Notice, Output, Program, Request, Response, SessionConfig, State};
use pointsman_control::proto::p4rt::{self, stream_message_response::Update as Message};
use pointsman_control::{Code, RpcError};
use std::collections::BTreeMap;
use std::time::Duration;

/// First wait after a failure; it doubles up to [`LAST_WAIT`], or [`LAST_RECONNECT`] without a connection.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LAST_WAIT: Duration = Duration::from_secs(5);
/// A refused connection costs nothing, and a switch that has restarted is empty until it is reached.
const LAST_RECONNECT: Duration = Duration::from_millis(400);
/// A connection or an answer that takes longer counts as failed.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// To connect.
    Waiting {
        until: Duration,
    },
    /// For the connection.
    Connecting {
        until: Duration,
    },
    /// For the answer on which client is primary.
    Arbitrating {
        until: Duration,
    },
    /// For the end of the primary, or for the time to bid.
    Backup {
        bid_at: Option<Duration>,
    },
    /// For the answers to requests about the program.
    Preparing,
    Ready,
    /// After a failure, to begin again with arbitration.
    Paused {
        until: Duration,
    },
}

type Actions<P> = Vec<Output<Notice<P>>>;

/// The purpose of a request.
#[derive(Debug)]
enum Purpose<P> {
    CheckPipeline,
    Install,
    Owner(P),
}

/// A session with one switch, whose owner's requests have purposes of type `P`. Times count from any fixed moment and
/// must not run backwards.
#[derive(Debug)]
pub struct Session<P> {
    config: SessionConfig,
    program: Program,
    cookie: u64,
    phase: Phase,
    election: Election,
    /// Failures since the owner's work was last done.
    failures: u32,
    next_id: u64,
    pending: BTreeMap<u64, (Purpose<P>, Duration)>,
}

impl<P> Session<P> {
    /// A session that connects at its first step. A switch whose program has this cookie keeps it.
    pub fn new(config: SessionConfig, program: Program, cookie: u64) -> Self {
        Session {
            config,
            program,
            cookie,
            phase: Phase::Waiting { until: Duration::ZERO },
            election: Election::new(0),
            failures: 0,
            next_id: 1,
            pending: BTreeMap::new(),
        }
    }

    /// The same with another seed, which determines its number among the controllers of a switch and its waits before a
    /// takeover. Controllers of one switch need different ones.
    pub fn with_seed(self, seed: u64) -> Self {
        Session { election: Election::new(seed), ..self }
    }

    /// The primary of the switch.
    pub fn leader(&self) -> Leader {
        self.election.leader
    }

    /// Its state.
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Waiting { .. } | Phase::Connecting { .. } => State::Disconnected,
            Phase::Backup { .. } => State::Backup,
            Phase::Ready => State::Ready,
            Phase::Arbitrating { .. } | Phase::Preparing | Phase::Paused { .. } => State::Working,
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// The purposes of the owner's requests in flight, oldest first.
    pub fn in_flight(&self) -> impl Iterator<Item = &P> {
        self.pending.values().filter_map(|(purpose, _)| match purpose {
            Purpose::Owner(p) => Some(p),
            Purpose::CheckPipeline | Purpose::Install => None,
        })
    }

    /// The deadline for the next step with [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Duration> {
        let phase = match self.phase {
            Phase::Waiting { until }
            | Phase::Connecting { until }
            | Phase::Arbitrating { until }
            | Phase::Paused { until } => Some(until),
            Phase::Backup { bid_at } => bid_at,
            Phase::Preparing | Phase::Ready => None,
        };
        let answers = self.pending.values().map(|(_, sent)| *sent + PATIENCE);
        answers.chain(phase).min()
    }

    /// Takes one input at time `now` and returns the actions.
    pub fn step(&mut self, now: Duration, input: Input) -> Vec<Output<Notice<P>>> {
        let mut out = Vec::new();
        match input {
            Input::Tick => self.advance(now, &mut out),
            Input::Connected => {
                if matches!(self.phase, Phase::Connecting { .. }) {
                    self.arbitrate(now, &mut out);
                }
            }
            Input::Disconnected(reason) => self.disconnected(now, reason, &mut out),
            Input::Stream(message) => match message.update {
                Some(Message::Arbitration(a)) => self.arbitrated(now, a, &mut out),
                Some(other) => notify(Notice::Message(other), &mut out),
                None => {}
            },
            Input::Response { id, result } => self.response(now, id, result, &mut out),
        }
        out
    }

    /// Takes another configuration. If it is about another switch, the connection is closed, and the next step makes
    /// the new one.
    pub fn configure(&mut self, now: Duration, config: SessionConfig) -> Vec<Output<Notice<P>>> {
        let mut out = Vec::new();
        let moved = !self.config.same_switch(&config);
        self.config = config;
        if moved {
            if !matches!(self.phase, Phase::Waiting { .. }) {
                out.push(Output::Disconnect);
            }
            self.enter(Phase::Waiting { until: now }, &mut out);
            self.election.disconnected();
        }
        out
    }

    /// Takes another mandate. Without one the connection is closed if this controller has bid on it, and the next step makes one
    /// that only observes.
    pub fn mandate(&mut self, now: Duration, mandate: Mandate) -> Vec<Output<Notice<P>>> {
        let mut out = Vec::new();
        if std::mem::replace(&mut self.election.mandate, mandate) == mandate {
            return out;
        }
        match mandate {
            Mandate::Standby if self.election.id.is_some() => {
                out.push(Output::Disconnect);
                self.enter(Phase::Waiting { until: now }, &mut out);
                self.election.disconnected();
            }
            Mandate::Term(_) => match self.election.leader {
                Leader::Unknown => {}
                Leader::Own(_) => self.bid(now, &mut out),
                // The answer decides.
                _ => self.arbitrate(now, &mut out),
            },
            Mandate::Switch | Mandate::Standby => {}
        }
        out
    }

    /// Makes a request of the owner, whose answer comes as [`Notice::Answer`]. The session must be ready.
    pub fn request<E>(&mut self, now: Duration, purpose: P, request: Request) -> Output<E> {
        debug_assert_eq!(self.phase, Phase::Ready, "a request to a session that is not ready");
        self.send(now, Purpose::Owner(purpose), request)
    }

    /// A read of these entities.
    pub fn read_request(&self, entities: Vec<p4rt::Entity>) -> p4rt::ReadRequest {
        p4rt::ReadRequest { device_id: self.config.device_id, entities, ..Default::default() }
    }

    /// A write of these updates.
    pub fn write_request(&self, updates: Vec<p4rt::Update>) -> p4rt::WriteRequest {
        p4rt::WriteRequest {
            device_id: self.config.device_id,
            election_id: self.election_id(),
            updates,
            ..Default::default()
        }
    }

    /// The owner's work has failed: a session that is ready begins again with arbitration, after a while that grows
    /// with every failure. Requests in flight get no answer, and no [`Notice::Interrupted`] follows.
    pub fn fail(&mut self, now: Duration) {
        if self.phase == Phase::Ready {
            self.pause(now);
        }
    }

    /// The owner's work is done: the wait after the next failure is the shortest again.
    pub fn settled(&mut self) {
        self.failures = 0;
    }

    /// Handles elapsed deadlines.
    fn advance(&mut self, now: Duration, out: &mut Actions<P>) {
        match self.phase {
            Phase::Waiting { until } if now >= until => {
                let address = self.config.address.clone();
                notify(Notice::Event(Event::Connecting { address: address.clone() }), out);
                out.push(Output::Connect(address));
                self.phase = Phase::Connecting { until: now + PATIENCE };
            }
            Phase::Connecting { until } | Phase::Arbitrating { until } if now >= until => {
                out.push(Output::Disconnect);
                self.disconnected(now, "the switch does not answer".into(), out);
            }
            Phase::Paused { until } if now >= until => self.arbitrate(now, out),
            Phase::Backup { bid_at: Some(at) } if now >= at => self.bid(now, out),
            _ => {}
        }
        if self.pending.values().any(|(_, sent)| now >= *sent + PATIENCE) {
            out.push(Output::Disconnect);
            self.disconnected(now, "the switch does not answer a request".into(), out);
        }
    }

    fn backoff(&mut self, last: Duration) -> Duration {
        let wait = (FIRST_WAIT * 2u32.saturating_pow(self.failures.min(16))).min(last);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// Enters another phase, and forgets all requests in flight.
    fn enter(&mut self, phase: Phase, out: &mut Actions<P>) {
        self.pending.clear();
        if std::mem::replace(&mut self.phase, phase) == Phase::Ready {
            notify(Notice::Interrupted, out);
        }
    }

    /// A failure: begins again with arbitration, after a while.
    fn pause(&mut self, now: Duration) {
        self.pending.clear();
        self.phase = Phase::Paused { until: now + self.backoff(LAST_WAIT) };
    }

    fn disconnected(&mut self, now: Duration, reason: String, out: &mut Actions<P>) {
        if matches!(self.phase, Phase::Waiting { .. }) {
            return;
        }
        let retry_in = self.backoff(LAST_RECONNECT);
        self.enter(Phase::Waiting { until: now + retry_in }, out);
        self.election.disconnected();
        notify(Notice::Event(Event::ConnectionLost { reason, retry_in }), out);
    }

    fn election_id(&self) -> Option<p4rt::Uint128> {
        self.election.id.map(|id| p4rt::Uint128 { high: (id.0 >> 64) as u64, low: id.0 as u64 })
    }

    /// Asks for the primary by an id above all others.
    fn bid(&mut self, now: Duration, out: &mut Actions<P>) {
        match self.election.bid(self.config.election_id) {
            Ok(_) => self.arbitrate(now, out),
            Err(highest) => {
                self.enter(Phase::Backup { bid_at: None }, out);
                out.extend(highest.map(|highest| Output::Event(Notice::Event(Event::Outranked { highest }))));
            }
        }
    }

    /// Sends the switch its id, which changes nothing for a primary. A new connection has none: it only observes.
    fn arbitrate(&mut self, now: Duration, out: &mut Actions<P>) {
        self.enter(Phase::Arbitrating { until: now + PATIENCE }, out);
        let arbitration = p4rt::MasterArbitrationUpdate {
            device_id: self.config.device_id,
            election_id: self.election_id(),
            ..Default::default()
        };
        let update = Some(p4rt::stream_message_request::Update::Arbitration(arbitration));
        out.push(Output::Send(p4rt::StreamMessageRequest { update }));
    }

    fn arbitrated(&mut self, now: Duration, a: p4rt::MasterArbitrationUpdate, out: &mut Actions<P>) {
        if self.state() == State::Disconnected || a.device_id != self.config.device_id {
            return;
        }
        // Specification, "Client Arbitration and Controller Replication": OK is the primary's, NOT_FOUND means no
        // primary.
        let highest = a.election_id.map(|id| ElectionId(u128::from(id.high) << 64 | u128::from(id.low)));
        let status = a.status.as_ref().map(|s| s.code);
        if status == Some(Code::Ok.number()) {
            let id = self.election.won(now, highest);
            // While it leads, an OK only means that another client came or went.
            if matches!(self.phase, Phase::Arbitrating { .. } | Phase::Backup { .. }) {
                notify(Notice::Event(Event::Primary { id }), out);
                self.check_pipeline(now, out);
            }
            return;
        }
        self.enter(Phase::Backup { bid_at: None }, out);
        if self.election.others_led(highest) {
            notify(Notice::Superseded, out);
        }
        let before = self.election.leader;
        let decision = match highest.filter(|_| status != Some(Code::NotFound.number())) {
            Some(id) => self.election.led_by(now, id, self.config.preempt),
            None => self.election.vacant(highest),
        };
        let leader = self.election.leader;
        if leader != before && leader != Leader::Vacant {
            notify(Notice::Event(Event::Backup { leader }), out);
        }
        match decision {
            Decision::BidAfter(wait) if wait.is_zero() => self.bid(now, out),
            Decision::BidAfter(wait) => {
                notify(Notice::Event(Event::Bidding { leader, wait }), out);
                self.phase = Phase::Backup { bid_at: Some(now + wait) };
            }
            Decision::StandBy => {}
        }
    }

    fn send<E>(&mut self, now: Duration, purpose: Purpose<P>, request: Request) -> Output<E> {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, (purpose, now));
        Output::Request { id, request }
    }

    fn check_pipeline(&mut self, now: Duration, out: &mut Actions<P>) {
        self.phase = Phase::Preparing;
        let response_type = p4rt::get_forwarding_pipeline_config_request::ResponseType::CookieOnly;
        let get = p4rt::GetForwardingPipelineConfigRequest {
            device_id: self.config.device_id,
            response_type: response_type.into(),
        };
        out.push(self.send(now, Purpose::CheckPipeline, Request::GetPipeline(get)));
    }

    fn install(&mut self, now: Duration, out: &mut Actions<P>) {
        let config = p4rt::ForwardingPipelineConfig {
            p4info: Some(self.program.p4info.clone()),
            p4_device_config: self.program.device_config.clone(),
            cookie: Some(p4rt::forwarding_pipeline_config::Cookie { cookie: self.cookie }),
        };
        let set = p4rt::SetForwardingPipelineConfigRequest {
            device_id: self.config.device_id,
            election_id: self.election_id(),
            action: p4rt::set_forwarding_pipeline_config_request::Action::VerifyAndCommit.into(),
            config: Some(config),
            ..Default::default()
        };
        out.push(self.send(now, Purpose::Install, Request::SetPipeline(Box::new(set))));
    }

    fn response(&mut self, now: Duration, id: u64, result: Result<Response, RpcError>, out: &mut Actions<P>) {
        let Some((purpose, _)) = self.pending.remove(&id) else { return };
        match purpose {
            Purpose::CheckPipeline => match result.and_then(Response::cookie) {
                Ok(cookie) if cookie == Some(self.cookie) => self.ready(false, out),
                Err(e) if e.code != Code::FailedPrecondition => {
                    self.failed(now, "requesting the program", e, out);
                }
                _ => self.install(now, out),
            },
            Purpose::Install => match result.and_then(Response::installed) {
                Ok(()) => self.ready(true, out),
                Err(e) => self.failed(now, "installing the program", e, out),
            },
            Purpose::Owner(purpose) => notify(Notice::Answer { purpose, result }, out),
        }
    }

    fn ready(&mut self, installed: bool, out: &mut Actions<P>) {
        self.phase = Phase::Ready;
        notify(Notice::Ready { installed }, out);
    }

    fn failed(&mut self, now: Duration, what: &'static str, error: RpcError, out: &mut Actions<P>) {
        notify(Notice::Event(Event::Failed { what, error }), out);
        self.pause(now);
    }
}

fn notify<P>(notice: Notice<P>, out: &mut Actions<P>) {
    out.push(Output::Event(notice));
}
