//! `Write` (P4Runtime specification, "`Write` RPC").

use super::reading::kind;
use super::roles::{RoleRules, entity_ids};
use super::{Access, Book, RoleKey, Server};
use crate::device::Device;
use crate::error::{Code, EntityError, RpcError};
use crate::proto::p4rt as pb;
use pb::entity::Entity;
use pb::write_request::Atomicity;
use pointsman_v1model::{State, Time};

/// Takes back one update.
pub(super) type Undo = Box<dyn FnOnce(&mut Book, &mut State)>;

/// The log that undoes the updates of a batch; `None` if they will not be undone.
pub(super) type UndoLog<'a> = Option<&'a mut Vec<Undo>>;

/// The type of an update, without `UNSPECIFIED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Insert,
    Modify,
    Delete,
}

impl Op {
    fn of(update: &pb::Update) -> Result<Op, EntityError> {
        match pb::update::Type::try_from(update.r#type) {
            Ok(pb::update::Type::Insert) => Ok(Op::Insert),
            Ok(pb::update::Type::Modify) => Ok(Op::Modify),
            Ok(pb::update::Type::Delete) => Ok(Op::Delete),
            Ok(pb::update::Type::Unspecified) => Err(EntityError::invalid("the update has no type")),
            Err(_) => Err(EntityError::invalid(format!("there is no update type {}", update.r#type))),
        }
    }

    /// For entities that always exist and can only be changed.
    ///
    /// # Errors
    /// Any type but MODIFY.
    pub fn only_modify(self, what: &str) -> Result<(), EntityError> {
        match self {
            Op::Modify => Ok(()),
            Op::Insert | Op::Delete => Err(EntityError::invalid(format!("{what} always exist: use MODIFY"))),
        }
    }
}

impl Server {
    /// `Write`.
    ///
    /// Updates are carried out in their order. With `ROLLBACK_ON_ERROR` and `DATAPLANE_ATOMIC` a batch that fails leaves
    /// everything as it was; its other updates report `ABORTED`. Packets pass between parts of a batch
    /// ([`Device::release`]), unless it is `DATAPLANE_ATOMIC`.
    ///
    /// # Errors
    /// As the specification has it: the wrong device or role, no primary, no pipeline; or else one outcome for each
    /// update.
    pub fn write(
        &mut self,
        device: &mut dyn Device,
        request: &pb::WriteRequest,
        now: Time,
    ) -> Result<pb::WriteResponse, RpcError> {
        self.check_device(request.device_id)?;
        #[allow(deprecated)]
        let role = RoleKey::new(&request.role, request.role_id);
        self.arbitration.authorize(&role, request.election_id.as_ref())?;
        let atomicity = Atomicity::try_from(request.atomicity).map_err(|_| {
            RpcError::new(Code::InvalidArgument, format!("there is no atomicity {}", request.atomicity))
        })?;
        let rules = self.arbitration.rules(&role).cloned();
        let mark = self.names()?.mark();
        let mut batch = Batch { atomicity, undo: Vec::new(), work: 0 };
        let mut outcomes = Vec::with_capacity(request.updates.len());
        for update in &request.updates {
            outcomes.push(self.write_one(device, rules.as_ref(), update, &mut batch, now)?);
            if batch.all_or_none() && outcomes.last().is_some_and(Result::is_err) {
                self.take_back(device, batch, now)?;
                self.names()?.back_to(mark);
                outcomes = all_aborted(outcomes, request.updates.len());
                break;
            }
        }
        let written = request.updates.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
        let kinds = written.filter_map(|(update, _)| kind(update.entity.as_ref()?));
        kinds.for_each(|kind| self.changes[kind] += 1);
        self.names()?.settle();
        match RpcError::from_batch("updates", &outcomes) {
            None => Ok(pb::WriteResponse {}),
            Some(error) => Err(error),
        }
    }

    /// Carries out one update, however many cells it is about.
    fn write_one(
        &mut self,
        device: &mut dyn Device,
        rules: Option<&RoleRules>,
        update: &pb::Update,
        batch: &mut Batch,
        now: Time,
    ) -> Result<Result<(), EntityError>, RpcError> {
        let (all_or_none, mut cells) = (batch.all_or_none(), 0..batch.cells());
        loop {
            let mut access = self.access(device, now)?;
            access.learn = true;
            access.cells = cells.clone();
            let outcome = access.allowed_update(rules, update, all_or_none.then_some(&mut batch.undo));
            let more = outcome.is_ok() && access.cells_of(update) > cells.end;
            if batch.worked(if more { SLICE } else { 1 }) {
                device.release();
            }
            if !more {
                return Ok(outcome);
            }
            cells = cells.end..cells.end.saturating_add(batch.cells());
        }
    }

    /// Undoes a batch, the last update first.
    fn take_back(&mut self, device: &mut dyn Device, mut batch: Batch, now: Time) -> Result<(), RpcError> {
        while let Some(step) = batch.undo.pop() {
            let Access { book, state, .. } = self.access(device, now)?;
            step(book, state);
            if batch.worked(1) {
                device.release();
            }
        }
        Ok(())
    }
}

/// Updates that are carried out before packets get the switch again: less than 100 microseconds of work.
const SLICE: usize = 16;

/// Cells that one update writes before packets get the switch again.
const CELLS: u64 = 1024;

/// A batch of updates in progress.
struct Batch {
    atomicity: Atomicity,
    undo: Vec<Undo>,
    /// Updates since packets last got the switch.
    work: usize,
}

impl Batch {
    fn all_or_none(&self) -> bool {
        self.atomicity != Atomicity::ContinueOnError
    }

    /// Cells to be written in one go. All of them, but only if packets must not see a part of the batch.
    fn cells(&self) -> u64 {
        if self.atomicity == Atomicity::DataplaneAtomic { u64::MAX } else { CELLS }
    }

    /// Some work has been done: may packets have the switch now?
    fn worked(&mut self, work: usize) -> bool {
        self.work += work;
        let enough = self.work >= SLICE && self.atomicity != Atomicity::DataplaneAtomic;
        if enough {
            self.work = 0;
        }
        enough
    }
}

/// The outcomes of a batch that was rolled back because its last tried update failed.
fn all_aborted(mut tried: Vec<Result<(), EntityError>>, updates: usize) -> Vec<Result<(), EntityError>> {
    let index = tried.len() - 1;
    let aborted =
        |what: &str| Err(EntityError::new(Code::Aborted, format!("{what} because update {index} failed")));
    tried[..index].iter_mut().for_each(|outcome| *outcome = aborted("rolled back"));
    tried.resize(updates, aborted("not attempted"));
    tried
}

impl Access<'_> {
    /// Cells that an update without an index is about; 0 for all other updates.
    fn cells_of(&self, update: &pb::Update) -> u64 {
        let schema = self.schema;
        let size = match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
            Some(Entity::RegisterEntry(e)) if e.index.is_none() => {
                schema.registers.get(&e.register_id).map(|r| r.array.size)
            }
            Some(Entity::CounterEntry(e)) if e.index.is_none() => {
                schema.counters.get(&e.counter_id).map(|c| c.size)
            }
            Some(Entity::MeterEntry(e)) if e.index.is_none() => {
                schema.meters.get(&e.meter_id).map(|m| m.size)
            }
            _ => None,
        };
        size.unwrap_or(0)
    }

    /// Carries out one update if the role may; a failed one changes nothing.
    fn allowed_update(
        &mut self,
        rules: Option<&RoleRules>,
        update: &pb::Update,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
        if let (Some(rules), Some(entity)) = (rules, entity)
            && !rules.allows(&entity_ids(self.schema, entity))
        {
            let message = "the role's config does not list the entity's id";
            return Err(EntityError::new(Code::PermissionDenied, message));
        }
        let mark = self.names.mark();
        let result = self.update(update, undo);
        if result.is_err() {
            self.names.back_to(mark);
        }
        result
    }

    /// Carries out one update; a failed one changes nothing but the names of values.
    ///
    /// # Errors
    /// The update is refused; the message names the entity.
    pub(super) fn update(&mut self, update: &pb::Update, undo: UndoLog) -> Result<(), EntityError> {
        let op = Op::of(update)?;
        match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
            None => Err(EntityError::invalid("the update has no entity")),
            Some(Entity::TableEntry(e)) => self.write_table_entry(op, e, undo),
            Some(Entity::DirectCounterEntry(e)) => self.write_direct_counter(op, e, undo),
            Some(Entity::DirectMeterEntry(e)) => self.write_direct_meter(op, e, undo),
            Some(Entity::CounterEntry(e)) => self.write_counter(op, e, undo),
            Some(Entity::MeterEntry(e)) => self.write_meter(op, e, undo),
            Some(Entity::RegisterEntry(e)) => self.write_register(op, e, undo),
            Some(Entity::ActionProfileMember(e)) => self.write_member(op, e, undo),
            Some(Entity::ActionProfileGroup(e)) => self.write_group(op, e, undo),
            Some(Entity::PacketReplicationEngineEntry(e)) => self.write_replication(op, e, undo),
            Some(Entity::ValueSetEntry(e)) => self.write_value_set(op, e, undo),
            Some(Entity::DigestEntry(e)) => self.write_digest(op, e, undo),
            Some(Entity::ExternEntry(_)) => {
                Err(EntityError::unimplemented("this target has no externs beyond those of P4Runtime"))
            }
        }
    }
}
