//! A `Read` in progress. It is split into slices: packets and other clients use the switch between two of them. Registers and counters
//! are read without taking the switch. Results are sent message by message, so memory stays bounded even if the client reads slowly.

use super::cells::CellView;
use super::read::Stopped;
use super::roles::{RoleRules, entity_ids};
use super::view::{Raw, Terms, View};
use super::{NO_PIPELINE, RoleKey, Server};
use crate::device::Device;
use crate::error::{Code, EntityError, RpcError};
use crate::proto::p4rt as pb;
use crate::schema::Schema;
use crate::translate::Codec;
use pb::entity::Entity;
use pointsman_v1model::{Time, Watch};
use prost::Message;
use std::collections::VecDeque;

/// Bytes after which a message is sent: well below the 4 MiB that gRPC clients accept.
const ENOUGH_BYTES: usize = 1 << 20;

/// The cost of a slice in cells, about ten microseconds of work. Other clients get their turn after it, and packets if it took the switch.
pub(super) const SLICE: usize = 256;

/// Cost of an entry in cells: it has to be unpacked.
pub(super) const ENTRY: usize = 4;

/// The answer to a `Read`: what was found, and then how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOutcome {
    /// To be sent in this order, whatever the status.
    pub responses: Vec<pb::ReadResponse>,
    /// The status of the call.
    pub status: Result<(), RpcError>,
}

/// What a part of a read came to.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadStep {
    /// Nothing to send yet.
    More,
    /// This is to be sent, whatever the status will be.
    Message(pb::ReadResponse),
    /// The read is over.
    Done(Result<(), RpcError>),
}

/// Where a read continues within one of its requests: objects come in the order of their ids, and their contents
/// in the order of indices, ids or handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub object: u32,
    pub at: u64,
}

/// One part of a read: the remaining cost, and the results.
pub(super) struct Slice {
    left: usize,
    pub found: Vec<Raw>,
    /// Cells and defaults with the program's initial values are omitted.
    pub changed_only: bool,
}

impl Slice {
    /// Is there enough left to look at something of this cost? One thing is always processed, whatever its cost.
    pub fn take(&mut self, cost: usize) -> bool {
        let any = self.left > 0;
        self.left = self.left.saturating_sub(cost);
        any
    }
}

/// How often clients have changed entities, by kind: a read must not find one half of a write.
pub(super) type Changes = [u64; 7];

/// The number of an entity's kind in [`Changes`].
pub(super) fn kind(entity: &pb::Entity) -> Option<usize> {
    Some(match entity.entity.as_ref()? {
        Entity::TableEntry(_) | Entity::DirectCounterEntry(_) | Entity::DirectMeterEntry(_) => 0,
        Entity::ActionProfileMember(_) | Entity::ActionProfileGroup(_) => 1,
        Entity::CounterEntry(_) => 2,
        Entity::MeterEntry(_) => 3,
        Entity::RegisterEntry(_) => 4,
        Entity::ValueSetEntry(_) => 5,
        Entity::PacketReplicationEngineEntry(_) | Entity::DigestEntry(_) => 6,
        Entity::ExternEntry(_) => return None,
    })
}

/// A read that was started and has not ended.
pub struct Reading {
    requests: Vec<pb::Entity>,
    /// The request that is being answered, and where it continues.
    request: usize,
    place: Option<Place>,
    outcomes: Vec<Result<(), EntityError>>,
    /// Only what this role may see.
    rules: Option<RoleRules>,
    messages: Messages,
    /// The number of the pipeline, and what had been written to it, when the read began.
    pipeline: u64,
    changes: Changes,
    /// It is about the pipeline that packets go through, even if another one is saved.
    live: bool,
    changed_only: bool,
    /// The registers and counters, as soon as one is requested.
    cells: Option<Watch>,
}

/// Makes messages of entities.
struct Messages {
    entities: Vec<pb::Entity>,
    bytes: usize,
    max_entities: usize,
    full: VecDeque<pb::ReadResponse>,
}

impl Messages {
    fn push(&mut self, entity: Entity) {
        let entity = pb::Entity { entity: Some(entity) };
        let bytes = entity.encoded_len();
        if self.bytes + bytes > ENOUGH_BYTES || self.entities.len() >= self.max_entities {
            self.flush();
        }
        self.bytes += bytes;
        self.entities.push(entity);
    }

    fn flush(&mut self) {
        if !self.entities.is_empty() {
            self.bytes = 0;
            self.full.push_back(pb::ReadResponse { entities: std::mem::take(&mut self.entities) });
        }
    }
}

impl Reading {
    /// A read of what is not as the program leaves it, in the pipeline that packets go through.
    pub(super) fn of_live(server: &Server, requests: Vec<pb::Entity>) -> Reading {
        Reading { live: true, changed_only: true, ..server.reading(requests) }
    }

    /// Is the current request about registers or counters?
    fn is_of_cells(&self) -> bool {
        self.requests.get(self.request).is_some_and(CellView::has)
    }

    /// Reads one part of the requests: of those for registers and counters, or of the others.
    fn gather(&mut self, slice: &mut Slice, read: impl Fn(&pb::Entity, Place, &mut Slice) -> Stopped<Place>) {
        let of_cells = self.is_of_cells();
        while self.request < self.requests.len() && self.is_of_cells() == of_cells && slice.take(1) {
            match read(&self.requests[self.request], self.place.unwrap_or_default(), slice) {
                Ok(Some(place)) => self.place = Some(place),
                outcome => {
                    self.outcomes.push(outcome.map(|_| ()));
                    self.request += 1;
                    self.place = None;
                }
            }
        }
    }

    fn push(&mut self, entity: Entity, schema: &Schema) {
        let hidden = |rules: &RoleRules| !rules.allows(&entity_ids(schema, &entity));
        if !self.rules.as_ref().is_some_and(hidden) {
            self.messages.push(entity);
        }
    }

    /// Entities that were found and have not been given away in messages.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let full: usize = self.messages.full.iter().map(|m| m.entities.len()).sum();
        self.messages.entities.len() + full
    }

    fn kinds(&self) -> impl Iterator<Item = usize> + '_ {
        self.requests.iter().filter_map(kind)
    }
}

impl Server {
    /// `Read`, with all that it finds at once; [`Server::read_with`] does not gather it.
    pub fn read(&mut self, device: &mut dyn Device, request: &pb::ReadRequest, now: Time) -> ReadOutcome {
        let mut responses = Vec::new();
        let status = self.read_with(device, request, now, &mut |response| responses.push(response));
        ReadOutcome { responses, status }
    }

    /// `Read`. Messages go to `send` as they are made, each well below the 4 MiB that clients accept; they are to be sent
    /// on whatever the status is.
    ///
    /// # Errors
    /// Those of [`Server::start_read`], or one outcome for each request of the batch.
    pub fn read_with(
        &mut self,
        device: &mut dyn Device,
        request: &pb::ReadRequest,
        now: Time,
        send: &mut dyn FnMut(pb::ReadResponse),
    ) -> Result<(), RpcError> {
        let mut reading = self.start_read(request)?;
        loop {
            match self.read_on(device, &mut reading, now) {
                ReadStep::More => {}
                ReadStep::Message(response) => send(response),
                ReadStep::Done(status) => return status,
            }
        }
    }

    /// Starts a `Read`, which [`Server::read_on`] carries out. Entries come table by table in the order of ids, and
    /// within a table in the order in which they were added.
    ///
    /// A role with a configuration sees what it may write, all others see everything.
    ///
    /// # Errors
    /// Another device, or no pipeline.
    pub fn start_read(&self, request: &pb::ReadRequest) -> Result<Reading, RpcError> {
        self.check_device(request.device_id)?;
        if self.saved.is_none() && self.live.is_none() {
            return Err(RpcError::new(Code::FailedPrecondition, NO_PIPELINE));
        }
        let rules = self.arbitration.rules(&RoleKey::new(&request.role, 0)).cloned();
        Ok(Reading { rules, ..self.reading(request.entities.clone()) })
    }

    fn reading(&self, requests: Vec<pb::Entity>) -> Reading {
        let max_entities = self.config.entities_per_response.get();
        Reading {
            requests,
            request: 0,
            place: None,
            outcomes: Vec::new(),
            rules: None,
            messages: Messages { entities: Vec::new(), bytes: 0, max_entities, full: VecDeque::new() },
            pipeline: self.pipeline,
            changes: self.changes,
            live: false,
            changed_only: false,
            cells: None,
        }
    }

    /// Carries out a part of a read. The switch is taken for a bounded number of entries, and released before they become messages. For
    /// registers and counters it is taken once, to find their memory.
    ///
    /// A read that finds that a write or another pipeline has come in between ends with `ABORTED`: what it found before
    /// and what it would find now would not be one state. Callers who want reads to end let writes wait meanwhile.
    pub fn read_on(&mut self, device: &mut dyn Device, reading: &mut Reading, now: Time) -> ReadStep {
        if let Some(message) = reading.messages.full.pop_front() {
            return ReadStep::Message(message);
        }
        if reading.request < reading.requests.len() {
            return match self.read_slice(device, reading, now) {
                Ok(()) => ReadStep::More,
                Err(error) => ReadStep::Done(Err(error)),
            };
        }
        reading.messages.flush();
        match reading.messages.full.pop_front() {
            Some(message) => ReadStep::Message(message),
            None => ReadStep::Done(RpcError::from_batch("entities", &reading.outcomes).map_or(Ok(()), Err)),
        }
    }

    fn read_slice(
        &mut self,
        device: &mut dyn Device,
        reading: &mut Reading,
        now: Time,
    ) -> Result<(), RpcError> {
        let aborted =
            |what: &str| RpcError::new(Code::Aborted, format!("{what} during this read: read again"));
        if reading.pipeline != self.pipeline {
            return Err(aborted("the pipeline was set"));
        }
        if reading.kinds().any(|k| reading.changes[k] != self.changes[k]) {
            return Err(aborted("a client wrote entities of the requested kind"));
        }
        self.look_at_ports(device);
        let saved = self.saved.as_ref().filter(|_| !reading.live);
        let none = || RpcError::new(Code::FailedPrecondition, NO_PIPELINE);
        let installed = saved.map(|s| &s.installed).or(self.live.as_ref()).ok_or_else(none)?;
        let codec = Codec { names: &installed.names, ports: &self.ports, learn: false };
        let terms = Terms { schema: &installed.schema, book: &installed.book, codec };
        let mut slice = Slice { left: SLICE, found: Vec::new(), changed_only: reading.changed_only };
        let of_cells = reading.is_of_cells();
        match reading.cells.take().filter(|_| of_cells) {
            Some(cells) => {
                let view = CellView { terms, cells: &cells };
                reading.gather(&mut slice, |request, from, slice| view.read(request, from, slice));
                reading.cells = Some(cells);
            }
            None => {
                let state = saved.map(|s| &s.state).or_else(|| device.state()).ok_or_else(none)?;
                let view = View { terms, state, now };
                match of_cells {
                    true => reading.cells = Some(state.watch()),
                    false => {
                        reading.gather(&mut slice, |request, from, slice| view.read(request, from, slice))
                    }
                }
                device.release();
            }
        }
        for entity in slice.found.into_iter().filter_map(|raw| terms.entity(raw)) {
            reading.push(entity, terms.schema);
        }
        Ok(())
    }
}
