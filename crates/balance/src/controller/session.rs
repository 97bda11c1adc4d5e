//! The session's notices, and reading back the switch's entries.

use super::{Controller, Event, Output, Phase, Purpose, Request, Response};
use crate::plan::{self, Entries, Schema};
use pointsman_control::bytestring;
use pointsman_control::proto::p4rt::{
    self, entity::Entity as Kind, stream_message_response::Update as Message,
};
use pointsman_control::{Code, RpcError};
use pointsman_session::{self as session, Input, Notice};
use std::time::Duration;

impl Controller {
    /// Hands an input to the session, and handles the notices.
    pub(super) fn carry(&mut self, now: Duration, input: Input, out: &mut Vec<Output>) {
        let actions = self.session.step(now, input);
        self.perform(now, actions, out);
    }

    pub(super) fn perform(
        &mut self,
        now: Duration,
        actions: Vec<session::Output<Notice<Purpose>>>,
        out: &mut Vec<Output>,
    ) {
        for action in actions {
            let output = action.hand_over(|notice| self.notice(now, notice, out));
            out.extend(output);
        }
    }

    fn notice(&mut self, now: Duration, notice: Notice<Purpose>, out: &mut Vec<Output>) {
        match notice {
            Notice::Event(event) => out.push(Output::Event(event.into())),
            Notice::Superseded => {
                // The other controller's findings are in the tables, to be adopted at a takeover.
                self.adopted = false;
                self.health.forget();
            }
            Notice::Ready { installed } => {
                if installed {
                    out.push(Output::Event(Event::PipelineInstalled));
                    self.installed = true;
                    self.health.forget();
                    self.census.forget();
                    self.resolver.restart(now);
                } else {
                    out.push(Output::Event(Event::PipelinePresent));
                }
                self.read_all(now, out);
            }
            Notice::Interrupted => self.abandon(),
            Notice::Answer { purpose, result } => self.answer(now, purpose, result, out),
            Notice::Message(message) => self.received(now, message, out),
        }
    }

    /// Forgets what was under way.
    fn abandon(&mut self) {
        self.phase = Phase::Unread;
        self.queue.clear();
        self.told.clear();
        self.look.forget();
        self.in_sync = false;
        self.dirty = true;
    }

    /// A failure: begins again with arbitration, after a while.
    pub(super) fn fail(&mut self, now: Duration) {
        self.abandon();
        self.session.fail(now);
    }

    pub(super) fn request(
        &mut self,
        now: Duration,
        purpose: Purpose,
        request: Request,
        out: &mut Vec<Output>,
    ) {
        out.push(self.session.request(now, purpose, request));
    }

    fn received(&mut self, now: Duration, message: Message, out: &mut Vec<Output>) {
        match message {
            Message::Packet(p) => {
                let port = p.metadata.iter().find(|m| m.metadata_id == self.schema.ingress_port);
                let port =
                    port.and_then(|m| bytestring::number(&m.value)).and_then(|v| u16::try_from(v).ok());
                let finding = port.and_then(|port| self.resolver.packet(now, port, &p.payload));
                self.note_neighbours(finding.into_iter().collect(), out);
            }
            Message::Error(e) => out.push(Output::Event(Event::RequestFailed {
                what: "sending a packet",
                code: Code::from_number(e.canonical_code),
                message: e.message,
            })),
            _ => {}
        }
    }

    fn answer(
        &mut self,
        now: Duration,
        purpose: Purpose,
        result: Result<Response, RpcError>,
        out: &mut Vec<Output>,
    ) {
        match purpose {
            Purpose::ReadAll => match result.and_then(Response::entities) {
                Ok(entities) => self.adopt(now, &entities, out),
                Err(e) => {
                    let what = "reading the tables";
                    out.push(Output::Event(Event::RequestFailed { what, code: e.code, message: e.message }));
                    self.fail(now);
                }
            },
            Purpose::Poll => self.polled(now, result.and_then(Response::entities), out),
            Purpose::Count => self.counted(now, result.and_then(Response::entities), out),
            Purpose::Look => match result.and_then(Response::entities) {
                Ok(entities) => self.look.answers(now, &self.schema, &entities),
                Err(e) => {
                    // Nothing depends on them, so the session continues.
                    self.look.give_up();
                    let what = "reading live figures";
                    out.push(Output::Event(Event::RequestFailed { what, code: e.code, message: e.message }));
                }
            },
            Purpose::Write(batch) => match result.and_then(Response::written) {
                Ok(()) => self.written(&batch),
                Err(e) => self.write_failed(now, &batch, e, out),
            },
        }
    }

    fn read_all(&mut self, now: Duration, out: &mut Vec<Output>) {
        let table = |table_id, is_default_action| p4rt::Entity {
            entity: Some(Kind::TableEntry(p4rt::TableEntry {
                table_id,
                is_default_action,
                meter_config: (table_id == self.schema.metered()).then(Default::default),
                ..Default::default()
            })),
        };
        let mut entities: Vec<_> = self.schema.table_ids().map(|id| table(id, false)).collect();
        entities.extend(self.schema.default_ids().map(|id| table(id, true)));
        entities.push(p4rt::Entity { entity: Some(Schema::all_sessions()) });
        let read = self.session.read_request(entities);
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
            if let Err(conflict) = plan::conflict(&self.situation(), &self.have) {
                let text = format!("connections of a previous configuration are cut: {conflict}");
                out.push(Output::Event(Event::Warning { text }));
            }
        }
        self.phase = Phase::Active;
        self.can_poll = true;
        self.poll_at = now;
        self.dirty = true;
    }
}
