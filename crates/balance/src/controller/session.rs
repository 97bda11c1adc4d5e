//! Connection, mastership, pipeline, and reading back the switch's entries.

use super::election::{Decision, ElectionId, Leader};
use super::{Controller, Event, Output, Purpose, Request, Response};
use crate::plan::{self, Entries, Schema};
use pointsman_control::proto::p4rt::{
    self, entity::Entity as Kind, stream_message_response::Update as Message,
};
use pointsman_control::{Code, RpcError};
use std::time::Duration;

/// First wait after a failure; it doubles up to [`LAST_WAIT`], or [`LAST_RECONNECT`] without a connection.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LAST_WAIT: Duration = Duration::from_secs(5);
/// A refused connection costs nothing, and a switch that has restarted is empty until it is reached.
const LAST_RECONNECT: Duration = Duration::from_millis(400);
/// A connection or an answer that takes longer counts as failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// To connect.
    Waiting {
        until: Duration,
    },
    /// For the connection.
    Connecting {
        until: Duration,
    },
    /// For the answer on which controller is in charge.
    Arbitrating {
        until: Duration,
    },
    /// For the end of the primary, or for the time to bid.
    Backup {
        bid_at: Option<Duration>,
    },
    /// For the answers to requests.
    CheckingPipeline,
    Installing,
    Reading,
    /// In charge, and the tables are known.
    Active,
    /// After a failure, to begin again with arbitration.
    Paused {
        until: Duration,
    },
}

impl Controller {
    pub(super) fn session_deadline(&self) -> Option<Duration> {
        let phase = match self.phase {
            Phase::Waiting { until }
            | Phase::Connecting { until }
            | Phase::Arbitrating { until }
            | Phase::Paused { until } => Some(until),
            Phase::Backup { bid_at } => bid_at,
            _ => None,
        };
        let answers = self.pending.values().map(|(_, sent)| *sent + PATIENCE);
        answers.chain(phase).min()
    }

    /// Handles elapsed deadlines.
    pub(super) fn advance(&mut self, now: Duration, out: &mut Vec<Output>) {
        match self.phase {
            Phase::Waiting { until } if now >= until => {
                let address = self.rack.switch.p4runtime.clone();
                out.push(Output::Event(Event::Connecting { address: address.clone() }));
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

    /// Forgets all requests in flight.
    fn abandon(&mut self) {
        self.pending.clear();
        self.queue.clear();
        self.told.clear();
        self.in_sync = false;
        self.dirty = true;
    }

    pub(super) fn connected(&mut self, now: Duration, out: &mut Vec<Output>) {
        if matches!(self.phase, Phase::Connecting { .. }) {
            self.arbitrate(now, out);
        }
    }

    pub(super) fn disconnected(&mut self, now: Duration, reason: String, out: &mut Vec<Output>) {
        if matches!(self.phase, Phase::Waiting { .. }) {
            return;
        }
        self.abandon();
        self.election.disconnected();
        let retry_in = self.backoff(LAST_RECONNECT);
        out.push(Output::Event(Event::ConnectionLost { reason, retry_in }));
        self.phase = Phase::Waiting { until: now + retry_in };
    }

    /// Closes the connection and makes another at once.
    pub(super) fn reconnect(&mut self, now: Duration, out: &mut Vec<Output>) {
        if !matches!(self.phase, Phase::Waiting { .. }) {
            out.push(Output::Disconnect);
        }
        self.abandon();
        self.election.disconnected();
        self.phase = Phase::Waiting { until: now };
    }

    /// A failure: begins again with arbitration, after a while.
    pub(super) fn fail(&mut self, now: Duration) {
        self.abandon();
        self.phase = Phase::Paused { until: now + self.backoff(LAST_WAIT) };
    }

    pub(super) fn election_id(&self) -> Option<p4rt::Uint128> {
        self.election.id.map(|id| p4rt::Uint128 { high: (id.0 >> 64) as u64, low: id.0 as u64 })
    }

    /// Asks for the primary by an id above all others.
    fn bid(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.election.bid(self.rack.switch.election_id);
        self.arbitrate(now, out);
    }

    /// Sends the switch its id, which changes nothing for a primary. A new connection has none: it only observes.
    fn arbitrate(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.abandon();
        let arbitration = p4rt::MasterArbitrationUpdate {
            device_id: self.rack.switch.device_id,
            election_id: self.election_id(),
            ..Default::default()
        };
        let update = Some(p4rt::stream_message_request::Update::Arbitration(arbitration));
        out.push(Output::Send(p4rt::StreamMessageRequest { update }));
        self.phase = Phase::Arbitrating { until: now + PATIENCE };
    }

    pub(super) fn request(
        &mut self,
        now: Duration,
        purpose: Purpose,
        request: Request,
        out: &mut Vec<Output>,
    ) {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, (purpose, now));
        out.push(Output::Request { id, request });
    }

    pub(super) fn stream(
        &mut self,
        now: Duration,
        message: p4rt::StreamMessageResponse,
        out: &mut Vec<Output>,
    ) {
        match message.update {
            Some(Message::Arbitration(a)) => self.arbitrated(now, a, out),
            Some(Message::Packet(p)) => {
                let port = p.metadata.iter().find(|m| m.metadata_id == self.schema.ingress_port);
                let port =
                    port.and_then(|m| plan::schema::number(&m.value)).and_then(|v| u16::try_from(v).ok());
                let finding = port.and_then(|port| self.resolver.packet(now, port, &p.payload));
                self.note_neighbours(finding.into_iter().collect(), out);
            }
            Some(Message::Error(e)) => {
                let code = code(e.canonical_code);
                out.push(Output::Event(Event::RequestFailed {
                    what: "sending a packet",
                    code,
                    message: e.message,
                }));
            }
            _ => {}
        }
    }

    fn arbitrated(&mut self, now: Duration, a: p4rt::MasterArbitrationUpdate, out: &mut Vec<Output>) {
        if matches!(self.phase, Phase::Waiting { .. } | Phase::Connecting { .. })
            || a.device_id != self.rack.switch.device_id
        {
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
                out.push(Output::Event(Event::Primary { id }));
                self.check_pipeline(now, out);
            }
            return;
        }
        self.abandon();
        if self.election.others_led(highest) {
            // The other controller's findings are in the tables, to be adopted at a takeover.
            self.adopted = false;
            self.health.forget();
        }
        let before = self.election.leader;
        let decision = match highest.filter(|_| status != Some(Code::NotFound.number())) {
            Some(id) => self.election.led_by(now, id, self.rack.switch.preempt),
            None => self.election.vacant(highest),
        };
        let leader = self.election.leader;
        if leader != before && leader != Leader::Vacant {
            out.push(Output::Event(Event::Backup { leader }));
        }
        match decision {
            Decision::BidAfter(wait) if wait.is_zero() => self.bid(now, out),
            Decision::BidAfter(wait) => {
                out.push(Output::Event(Event::Bidding { leader, wait }));
                self.phase = Phase::Backup { bid_at: Some(now + wait) };
            }
            Decision::StandBy => self.phase = Phase::Backup { bid_at: None },
        }
    }

    fn check_pipeline(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.phase = Phase::CheckingPipeline;
        let response_type = p4rt::get_forwarding_pipeline_config_request::ResponseType::CookieOnly;
        let get = p4rt::GetForwardingPipelineConfigRequest {
            device_id: self.rack.switch.device_id,
            response_type: response_type.into(),
        };
        self.request(now, Purpose::CheckPipeline, Request::GetPipeline(get), out);
    }

    pub(super) fn response(
        &mut self,
        now: Duration,
        id: u64,
        result: Result<Response, RpcError>,
        out: &mut Vec<Output>,
    ) {
        let Some((purpose, _)) = self.pending.remove(&id) else { return };
        let wrong = || RpcError::new(Code::Internal, "the answer is to another kind of request");
        match purpose {
            Purpose::CheckPipeline => match result {
                Ok(Response::GetPipeline(r)) => {
                    let cookie = r.config.and_then(|c| c.cookie).map(|c| c.cookie);
                    if cookie == Some(self.cookie) {
                        out.push(Output::Event(Event::PipelinePresent));
                        self.read_all(now, out);
                    } else {
                        self.install(now, out);
                    }
                }
                Err(e) if e.code == Code::FailedPrecondition => self.install(now, out),
                other => self.failed(now, "requesting the program", other.err().unwrap_or_else(wrong), out),
            },
            Purpose::Install => match result {
                Ok(Response::SetPipeline) => {
                    out.push(Output::Event(Event::PipelineInstalled));
                    self.health.forget();
                    self.census.forget();
                    self.resolver.restart(now);
                    self.read_all(now, out);
                }
                other => self.failed(now, "installing the program", other.err().unwrap_or_else(wrong), out),
            },
            Purpose::ReadAll => match result {
                Ok(Response::Read(entities)) => self.adopt(now, &entities, out),
                other => self.failed(now, "reading the tables", other.err().unwrap_or_else(wrong), out),
            },
            Purpose::Poll => match result {
                Ok(Response::Read(entities)) => self.polled(now, Ok(entities), out),
                other => self.polled(now, Err(other.err().unwrap_or_else(wrong)), out),
            },
            Purpose::Count => match result {
                Ok(Response::Read(entities)) => self.counted(now, Ok(entities), out),
                other => self.counted(now, Err(other.err().unwrap_or_else(wrong)), out),
            },
            Purpose::Write(batch) => match result {
                Ok(Response::Write) => self.written(&batch),
                other => self.write_failed(now, &batch, other.err().unwrap_or_else(wrong), out),
            },
        }
    }

    fn failed(&mut self, now: Duration, what: &'static str, e: RpcError, out: &mut Vec<Output>) {
        out.push(Output::Event(Event::RequestFailed { what, code: e.code, message: e.message }));
        self.fail(now);
    }

    fn install(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.phase = Phase::Installing;
        let config = p4rt::ForwardingPipelineConfig {
            p4info: Some(self.program.p4info.clone()),
            p4_device_config: self.program.device_config.clone(),
            cookie: Some(p4rt::forwarding_pipeline_config::Cookie { cookie: self.cookie }),
        };
        let set = p4rt::SetForwardingPipelineConfigRequest {
            device_id: self.rack.switch.device_id,
            election_id: self.election_id(),
            action: p4rt::set_forwarding_pipeline_config_request::Action::VerifyAndCommit.into(),
            config: Some(config),
            ..Default::default()
        };
        self.request(now, Purpose::Install, Request::SetPipeline(Box::new(set)), out);
    }

    pub(super) fn read_request(&self, entities: Vec<p4rt::Entity>) -> p4rt::ReadRequest {
        p4rt::ReadRequest { device_id: self.rack.switch.device_id, entities, ..Default::default() }
    }

    fn read_all(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.phase = Phase::Reading;
        let table = |table_id, is_default_action| p4rt::Entity {
            entity: Some(Kind::TableEntry(p4rt::TableEntry {
                table_id,
                is_default_action,
                meter_config: (table_id == self.schema.metered()).then(Default::default),
                ..Default::default()
            })),
        };
        let config = self.schema.switch_config();
        let mut entities: Vec<_> =
            self.schema.table_ids().filter(|id| *id != config).map(|id| table(id, false)).collect();
        entities.push(table(config, true));
        entities.push(p4rt::Entity { entity: Some(Schema::all_sessions()) });
        let read = self.read_request(entities);
        self.request(now, Purpose::ReadAll, Request::Read(read), out);
    }

    /// Adopts the entries of the tables.
    fn adopt(&mut self, now: Duration, entities: &[p4rt::Entity], out: &mut Vec<Output>) {
        self.have = Entries::new();
        self.foreign.clear();
        for entity in entities {
            if let Some(Kind::PacketReplicationEngineEntry(entry)) = &entity.entity {
                self.have.extend(Schema::decode_session(entry));
            }
            let Some(Kind::TableEntry(entry)) = &entity.entity else { continue };
            match self.schema.decode(entry) {
                Some((key, action)) => drop(self.have.insert(key, action)),
                // A foreign default action is overwritten by the configuration.
                None if entry.is_default_action => {}
                None => self.foreign.push(entry.clone()),
            }
        }
        out.push(Output::Event(Event::Adopted { entries: self.have.len(), foreign: self.foreign.len() }));
        self.resolver.adopt(&self.rack, &self.have);
        if self.adopted {
            self.health.resume(now);
        } else {
            self.adopted = true;
            self.health.adopt(&self.rack, &self.have);
            // No older configuration exists to return to.
            if let Err(text) = plan::conflict(&self.situation(), &self.have) {
                let text = format!("connections of a previous configuration are cut: {text}");
                out.push(Output::Event(Event::Warning { text }));
            }
        }
        self.phase = Phase::Active;
        self.can_poll = true;
        self.poll_at = now;
        self.dirty = true;
    }
}

/// The status code of a number; unknown ones are `Unknown`.
pub(super) fn code(number: i32) -> Code {
    use Code::*;
    let all = [
        Ok,
        Cancelled,
        Unknown,
        InvalidArgument,
        DeadlineExceeded,
        NotFound,
        AlreadyExists,
        PermissionDenied,
        ResourceExhausted,
        FailedPrecondition,
        Aborted,
        OutOfRange,
        Unimplemented,
        Internal,
        Unavailable,
        DataLoss,
        Unauthenticated,
    ];
    all.into_iter().find(|c| c.number() == number).unwrap_or(Unknown)
}
