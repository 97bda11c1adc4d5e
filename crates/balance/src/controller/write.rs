//! Writing the difference between the switch's entries and the desired ones.

use super::{Controller, Event, Output, Purpose, Request};
use crate::blocks::Servers;
use crate::plan::{self, Action, Change, Key, Update};
use pointsman_control::bytestring;
use pointsman_control::proto::p4rt;
use pointsman_control::{Code, RpcError};
use std::time::Duration;

/// Most changes of one write request. A failed batch has one error per change, which must fit into the 8 KiB of headers that gRPC clients take
/// by default.
const BATCH: usize = 250;

/// The changes of one write request.
#[derive(Clone, Debug)]
pub(super) enum Batch {
    Updates(Vec<Update>),
    /// Deletes entries that the configuration does not know.
    Foreign(Vec<p4rt::TableEntry>),
    /// Which device was chosen, by service number, as the data plane has it.
    Choices(Vec<(u16, u32)>),
}

/// Bits of the data plane's register `controllers_choice`: there is a choice, and it names a device.
const CHOSEN_DEVICE: u32 = 0xc000_0000;

impl Batch {
    /// Change number `i`, for messages.
    fn name(&self, i: usize) -> Option<String> {
        match self {
            Batch::Updates(updates) => updates.get(i).map(Update::to_string),
            Batch::Foreign(entries) => entries.get(i).map(|e| {
                format!("delete an entry of table {:#010x} that is not in the configuration", e.table_id)
            }),
            Batch::Choices(list) => list.get(i).map(|(n, _)| format!("set the choice of service number {n}")),
        }
    }
}

impl Controller {
    fn is_writing(&self) -> bool {
        self.session.in_flight().any(|p| matches!(p, Purpose::Write(_)))
    }

    /// Sends the next batch; makes a new plan first if something changed. Only one request is in flight at a time: the
    /// switch may make the changes of one request, and concurrent requests, in any order.
    pub(super) fn reconcile(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self.is_writing() {
            return;
        }
        if self.dirty {
            // Any point between two batches is a safe one to change the plan at.
            self.dirty = false;
            self.in_sync = false;
            let wanted = plan::desired(&self.situation(), &self.have);
            self.queue.clear();
            for step in plan::steps(&self.have, &wanted.entries) {
                self.queue.extend(step.chunks(BATCH).map(|c| Batch::Updates(c.to_vec())));
            }
            self.queue.extend(self.foreign.chunks(BATCH).map(|c| Batch::Foreign(c.to_vec())));
            for text in wanted.notes.iter().filter(|n| !self.notes.contains(n)) {
                out.push(Output::Event(Event::Warning { text: text.clone() }));
            }
            self.notes = wanted.notes;
        }
        let Some(batch) = self.queue.pop_front().or_else(|| self.choices_to_tell()) else {
            self.settled(now, out);
            return;
        };
        let updates = match &batch {
            Batch::Updates(updates) => updates.iter().map(|u| self.message(u)).collect(),
            Batch::Foreign(entries) => {
                entries.iter().map(|e| message(p4rt::update::Type::Delete, e.clone())).collect()
            }
            Batch::Choices(list) => list.iter().map(|(n, value)| self.write_choice(*n, *value)).collect(),
        };
        let write = self.session.write_request(updates);
        self.request(now, Purpose::Write(batch), Request::Write(write), out);
    }

    /// The choices that are not yet written to the switch.
    fn choices_to_tell(&self) -> Option<Batch> {
        let mut wanted: std::collections::BTreeMap<u16, u32> = self.told.keys().map(|n| (*n, 0)).collect();
        for (key, action) in &self.have {
            if let (Key::Service(f), Action::SetService { service, .. }) = (key, action)
                && let Some(of) = self.rack.services.iter().find(|s| s.frontends().any(|g| g == *f))
            {
                let chosen = self.choices.get(&of.name).map(|d| CHOSEN_DEVICE | d.bits());
                // If it would count, a former controller's choice must be removed.
                let counts = of.blocks(f.protocol).servers == Servers::Chosen;
                if let Some(value) = chosen.or(counts.then_some(0)) {
                    wanted.insert(*service, value);
                }
            }
        }
        let new: Vec<(u16, u32)> = wanted.into_iter().filter(|(n, v)| self.told.get(n) != Some(v)).collect();
        (!new.is_empty()).then_some(Batch::Choices(new))
    }

    fn write_choice(&self, service: u16, value: u32) -> p4rt::Update {
        let data = p4rt::p4_data::Data::Bitstring(bytestring::of_number(value.into()));
        let entry = p4rt::RegisterEntry {
            register_id: self.schema.controllers_choice,
            index: Some(p4rt::Index { index: service.into() }),
            data: Some(p4rt::P4Data { data: Some(data) }),
        };
        let entity = p4rt::Entity { entity: Some(p4rt::entity::Entity::RegisterEntry(entry)) };
        p4rt::Update { r#type: p4rt::update::Type::Modify.into(), entity: Some(entity) }
    }

    fn settled(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self.in_sync {
            return;
        }
        self.in_sync = true;
        if std::mem::take(&mut self.installed) {
            // From now on reports can be accepted.
            self.health.resume(now);
        }
        self.session.settled();
        out.push(Output::Event(Event::InSync { writes: std::mem::take(&mut self.writes) }));
        let findings = self.health.compare(now, &self.rack, &self.have);
        self.note_health(findings, out);
    }

    pub(super) fn message(&self, update: &Update) -> p4rt::Update {
        let kind = match update.change {
            Change::Insert => p4rt::update::Type::Insert,
            Change::Modify => p4rt::update::Type::Modify,
            Change::Delete => p4rt::update::Type::Delete,
        };
        let entity = p4rt::Entity { entity: Some(self.schema.entity(&update.key, &update.action)) };
        p4rt::Update { r#type: kind.into(), entity: Some(entity) }
    }

    pub(super) fn written(&mut self, batch: &Batch) {
        match batch {
            Batch::Updates(updates) => {
                self.writes += updates.len();
                for update in updates {
                    update.apply(&mut self.have);
                }
            }
            Batch::Foreign(entries) => {
                self.writes += entries.len();
                self.foreign.retain(|f| !entries.contains(f));
            }
            Batch::Choices(list) => {
                self.writes += list.len();
                self.told.extend(list.iter().copied());
            }
        }
    }

    /// Names the refused entries, and begins again from the entries that the switch then holds.
    pub(super) fn write_failed(&mut self, now: Duration, batch: &Batch, e: RpcError, out: &mut Vec<Output>) {
        let mut named = false;
        for (i, detail) in e.details.iter().enumerate().filter(|(_, d)| d.canonical_code != 0) {
            if let Some(update) = batch.name(i) {
                named = true;
                let (code, message) = (Code::from_number(detail.canonical_code), detail.message.clone());
                out.push(Output::Event(Event::WriteFailed { update, code, message }));
            }
        }
        if !named {
            let what = "writing to the tables";
            out.push(Output::Event(Event::RequestFailed { what, code: e.code, message: e.message }));
        }
        self.fail(now);
    }
}

fn message(kind: p4rt::update::Type, entry: p4rt::TableEntry) -> p4rt::Update {
    let entity = p4rt::Entity { entity: Some(p4rt::entity::Entity::TableEntry(entry)) };
    p4rt::Update { r#type: kind.into(), entity: Some(entity) }
}
